"""A saved document as the page shows it: columns instead of records, numbers in few digits, texts within a budget.

Nothing is measured here but what a document does not hold: curves over k, and where the gold went, both from the
ranks at which each query's gold was found.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.metrics.grammar import PRIMARY, parse, parse_all
from karat.metrics.relevance import SWEEP
from karat.model.policy import is_relevant
from karat.report.html.texts import NAME, cleaned, cut, name
from karat.results.saved import result_from
from karat.verbs.sweep import METRICS as CURVED
from karat.verbs.sweep import curves_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.model.docs import Docs
    from karat.results.result import Result, RunResult
    from karat.results.top_lists import TopDoc

TOP = 20
"""Docs of a ranked list that the page holds."""
TEXT, DOC_TEXT = 300, 400
"""Characters of a query's and of a doc's text."""
BUDGET = 6_000_000
"""Characters of all docs' texts together."""
DIGITS = 6
TRADED = ("diversity", "budget")
"""Families of metrics that are paid for relevance, or with it."""
FOUND_BY = (1, 3, 5, 10, 20, 50, 100)
"""Ranks at which the account of the gold is cut."""


def view_of(document: Mapping[str, Any], *, docs: Docs | None = None, k: int | None = None) -> dict[str, Any]:
    """What the page shows of a document; `docs` holds the texts of docs."""
    result = _named(result_from(dict(document)))
    names = [r.name for r in result.runs]
    base = name(document["baseline"]["name"]) if document.get("baseline") else None
    judged = [name(n) for n in document.get("candidates") or names]
    candidates = [n for n in judged if n in names and n != base] or [n for n in names if n != base] or names
    if not document.get("verdict"):  # nobody was judged: the best is looked at first
        candidates = _best_first(candidates, result, _primary(list(result.metrics), document))
    result = replace(result, runs=tuple(sorted(result.runs, key=lambda r: _place(r.name, base, candidates))))
    metrics = list(result.metrics)
    primary = _primary(metrics, document)
    ids = sorted({q for run in result.runs for q in run.query_ids})
    docs_held = _Docs()
    queries = _queries(result, ids, docs_held)
    known = {name(r["name"]): r for r in document["runs"]}
    view = {
        "kind": document["kind"],
        "dataset": document.get("dataset", ""),
        "verdict": document.get("verdict"),
        "why": document.get("why"),
        "runs": [_run(r) for r in result.runs],
        "base": base,
        "candidates": candidates,
        "primary": primary,
        "k": k or _k(primary),
        "confidence": result.runs[0].sampling.confidence,
        "metrics": [_metric(m, known) for m in metrics],
        "gates": [{**g, "run": name(g["run"])} for g in document.get("gates", ())],
        "comparisons": _comparisons(document),
        "segments": _segments(known),
        "curves": _curves(result),
        "account": _account(result),
        "depth": _depth(result),
        "queries": queries,
        "tradeoffs": _tradeoffs(metrics, primary, known),
        "docs": {"ids": [cut(d, NAME) for d in docs_held.at], "texts": _texts(result, docs, docs_held.at)},
        "components": {n: r["components"] for n, r in known.items() if r.get("components")},
        "diagnosis": findings_of(document.get("diagnosis")),
        "fingerprints": result.fingerprints.hashes,
        "conventions": dict(result.conventions),
        "intervals": document.get("intervals", {}),
        "forced": document.get("forced", []),
        "differences": document.get("differences", []),
        "notes": document.get("notes", []),
    }
    return dict(cleaned(view))


class _Docs:
    """The docs that the page names: each is held once, and lists refer to its number."""

    def __init__(self) -> None:
        self.at: dict[str, int] = {}

    def number(self, doc: str) -> int:
        return self.at.setdefault(doc, len(self.at))


def _named(result: Result) -> Result:
    return replace(result, runs=tuple(replace(r, name=name(r.name)) for r in result.runs))


def _place(run: str, base: str | None, candidates: Sequence[str]) -> int:
    """The baseline first, then the candidates, then the others."""
    return 0 if run == base else 1 + candidates.index(run) if run in candidates else 1 + len(candidates)


def findings_of(told: Any) -> list[dict[str, Any]]:
    """Findings of a diagnosis, in whichever way the document holds them: a list, or by run."""
    if isinstance(told, dict):
        if "findings" in told:
            return [{"run": told.get("run", ""), **f} for f in told["findings"]]
        return [{**f, "run": run} for run, one in told.items() for f in findings_of(one)]
    if isinstance(told, (list, tuple)):
        nested = [findings_of(f) if isinstance(f, dict) and "findings" in f else [f] for f in told]
        return [f for some in nested for f in some if isinstance(f, dict)]
    return []


def _best_first(names: Sequence[str], result: Result, metric: str) -> list[str]:
    sign = 1 if parse(metric).metric.higher_is_better is False else -1
    values = {name: sign * result[name].mean[metric] for name in names}
    return sorted(names, key=lambda name: (values[name] != values[name], values[name]))


def _primary(metrics: Sequence[str], document: Mapping[str, Any]) -> str:
    gated = [g["metric"] for g in document.get("gates", ()) if g["metric"] in metrics]
    return PRIMARY if PRIMARY in metrics else (gated or list(metrics))[0]


def _k(metric: str) -> int:
    k = parse(metric).k
    return int(k) if k and k >= 1 else 10


def short(value: float | None, digits: int = DIGITS) -> float | int | None:
    """A number in so many digits as a chart can show."""
    return None if value is None or value != value else _whole(float(f"{value:.{digits}g}"))


def _run(run: RunResult) -> dict[str, Any]:
    facts = {k: v for k, v in run.facts.items() if k != "tag"}
    return {"name": run.name, "facts": facts, "counts": dict(run.counts), "notes": list(run.notes)}


def _metric(measure: str, runs: Mapping[str, Any]) -> dict[str, Any]:
    m = parse(measure).metric
    return {
        "name": measure,
        "title": m.title,
        "tells": m.tells,
        "formula": m.formula,
        "use": m.use_when,
        "caution": m.caution,
        "higher": m.higher_is_better,
        "unit": m.unit,
        "cites": m.cites,
        "params": _params(measure),
        "values": {run: r["metrics"][measure] for run, r in runs.items() if measure in r["metrics"]},
    }


def _params(measure: str) -> str:
    """What a metric was told, and what it takes where it was told nothing: `gain = linear`."""
    found = parse(measure)
    told = [("k", found.k), *((p.name, found.param(p.name)) for p in found.metric.params)]
    return ", ".join(
        f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in told
        if value not in (None, (), "", False)
    )


def _tradeoffs(metrics: Sequence[str], primary: str, runs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a gain in relevance may cost: diversity, latency and cost of each run beside the metric in use."""
    others = [m for m in metrics if parse(m).metric.family in TRADED and m != primary]
    if len(runs) < 2 or not others:
        return []
    held = {m: {run: r["metrics"].get(m) for run, r in runs.items()} for m in (primary, *others)}
    return [
        {"metric": m, "values": {run: [v["mean"], *(v["ci"] or (None, None))] for run, v in values.items() if v}}
        for m, values in held.items()
    ]


def _comparisons(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    kept = (
        "metric",
        "candidate",
        "segment",
        "mean_baseline",
        "mean_candidate",
        "delta",
        "ci",
        "n",
        "p",
        "p_adjusted",
        "family",
        "significant",
        "outcome",
        "statement",
        "decided_by",
        "wins",
        "ties",
        "losses",
        "small",
        "against_trend",
        "queries_needed",
    )
    rows = ({k: row.get(k) for k in kept} for row in document.get("comparisons", ()))
    return [{**row, "candidate": name(row["candidate"]), "segment": segment_name(row["segment"])} for row in rows]


def segment_name(by: Mapping[str, Any] | None) -> str | None:
    """`intent = list, language = de`; None stands for all queries."""
    return None if by is None else ", ".join(f"{name(f)} = {name(str(v))}" for f, v in by.items())


def _segments(runs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every segment with the estimates of all runs."""
    out: dict[str, dict[str, Any]] = {}
    for run, held in runs.items():
        for s in held.get("segments", ()):
            told = segment_name(s["by"])
            one = out.setdefault(told or "", {"name": told, "n": s["n"], "small": s["small"], "values": {}})
            one["values"][run] = {m: [v["mean"], *(v["ci"] or (None, None))] for m, v in s["metrics"].items()}
    return list(out.values())


def _queries(result: Result, ids: Sequence[str], docs: _Docs) -> dict[str, Any]:
    """Columns over all queries: texts, fields, values, and the lists with grades and missed gold."""
    index = {q: i for i, q in enumerate(ids)}
    values = []
    for run in result.runs:
        place = np.array([index[q] for q in run.query_ids], dtype=np.int64)
        columns = []
        for measure in result.metrics:
            column = np.full(len(ids), np.nan)
            column[place] = run.values[measure]
            columns.append([short(v) for v in column.tolist()])
        values.append(columns)
    sampling = result.runs[0].sampling
    fields = {f: [_joined(known.get(q)) for q in ids] for f, known in sampling.fields.items()}
    texts, listed = result.texts, _has_lists(result)
    return {
        "ids": [name(q) for q in ids],
        "texts": [cut(texts.get(q, ""), TEXT) for q in ids] if texts else [],
        "fields": fields,
        "values": values,
        "lists": [[_list(run.top_docs(q), docs) for q in ids] for run in result.runs] if listed else [],
        "gold": [_gold(result, q, docs) for q in ids] if listed else [],
    }


def _joined(value: Any) -> str:
    return "" if value is None else name(value if isinstance(value, str) else ", ".join(value))


def _has_lists(result: Result) -> bool:
    return any(run.top is not None for run in result.runs)


def _list(top: Sequence[TopDoc], docs: _Docs) -> list[list[Any]]:
    """Docs, grades and scores of the first ranks, as columns."""
    rows = top[:TOP]
    return [
        [docs.number(row.doc) for row in rows],
        _marks([_whole(row.grade) for row in rows]),
        [short(row.score, 4) for row in rows],
    ]


def _marks(grades: Sequence[float | int | None]) -> Any:
    """Grades of a list as one text, a character each, where all are whole and have one digit: it takes less room."""
    if any(g is not None and (not isinstance(g, int) or not 0 <= g <= 9) for g in grades):
        return list(grades)
    return "".join("-" if g is None else str(g) for g in grades)


def _whole(grade: float | None) -> float | int | None:
    return int(grade) if grade is not None and grade == int(grade) else grade


def _gold(result: Result, query: str, docs: _Docs) -> list[list[Any]]:
    """The relevant docs with their grade, and the rank at which each run has them (null: never)."""
    ranks: dict[str, list[Any]] = {}
    for i, run in enumerate(result.runs):
        for row in run.gold_docs(query):
            if is_relevant(row.grade):
                one = ranks.setdefault(row.doc, [row.doc, _whole(row.grade), [None] * len(result.runs)])
                one[2][i] = row.rank
    found = sorted(ranks.values(), key=lambda g: (-g[1], g[0]))
    return [[docs.number(doc), grade, places] for doc, grade, places in found]


def _texts(result: Result, docs: Docs | None, numbers: Mapping[str, int]) -> dict[str, str]:
    """Texts of the docs that the page names, until the budget is spent: gold and the first ranks come first."""
    if docs is None:
        return {}
    wanted: dict[str, None] = {}
    for depth in (5, TOP):
        for run in result.runs:
            for q in run.top.query_ids if run.top is not None else ():
                wanted.update(dict.fromkeys(row.doc for row in run.gold_docs(q) if is_relevant(row.grade)))
                wanted.update(dict.fromkeys(row.doc for row in run.top_docs(q)[:depth]))
    out, spent = {}, 0
    for doc in wanted:
        text = docs.caption(doc)
        if text and doc in numbers:
            out[str(numbers[doc])] = cut(text, DOC_TEXT)
            spent += min(len(text), DOC_TEXT)
            if spent > BUDGET:
                break
    return out


def _curves(result: Result) -> list[dict[str, Any]]:
    """How metrics grow with k, from the ranks of the gold."""
    if not _has_lists(result):
        return []
    measures = [*parse_all(CURVED, ks=list(SWEEP)), parse("num_ret")]
    out = []
    for run in result.runs:
        if run.rankings is None:
            continue
        plain = replace(run.sampling, by=())
        deep = replace(run, values={m.name: m(run.rankings) for m in measures}, sampling=plain)
        for curve in curves_of(deep):
            told = curve.as_json()
            told["mean"] = [short(v) for v in told["mean"]]
            told["ci"] = [[short(a), short(b)] for a, b in told["ci"]]
            out.append(told)
    return out


def _depth(result: Result) -> int:
    """The most docs that a query returned."""
    return max((int(r.top.returned.max(initial=0)) for r in result.runs if r.top is not None), default=0)


def _account(result: Result) -> list[dict[str, Any]]:
    """Where each run's relevant docs went: found by rank 1, 3, … or never."""
    if not _has_lists(result):
        return []
    out = []
    for run in result.runs:
        relevant = [g for q in run.query_ids for g in run.gold_docs(q) if is_relevant(g.grade)]
        ranks = np.array([g.rank or np.inf for g in relevant])
        bounds = [0, *FOUND_BY]
        counts = [int(((ranks > a) & (ranks <= b)).sum()) for a, b in pairwise(bounds)]
        deeper = int(((ranks > FOUND_BY[-1]) & np.isfinite(ranks)).sum())
        never = int(np.isinf(ranks).sum())
        labels = ["rank 1", *(f"{a + 1}–{b}" for a, b in pairwise(FOUND_BY)), "deeper", "never"]
        out.append({"run": run.name, "gold": len(relevant), "labels": labels, "counts": [*counts, deeper, never]})
    return out
