"""A saved document as the page shows it: columns instead of records, numbers in few digits, texts within a budget.

Nothing is measured here but what a document does not hold: curves over k, and where the gold went, both from the
ranks at which each query's gold was found.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.curves import METRICS as CURVED
from karat.curves import curves_of
from karat.metrics.grammar import PRIMARY, parse, parse_all
from karat.metrics.relevance import SWEEP
from karat.model.rankings import Rankings
from karat.saved import result_from

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.result import Result, RunResult

TOP = 20
"""Docs of a ranked list that the page holds."""
TEXT, DOC_TEXT = 300, 400
"""Characters of a query's and of a doc's text."""
BUDGET = 6_000_000
"""Characters of all docs' texts together."""
DIGITS = 5


def view_of(
    document: Mapping[str, Any], *, docs: Mapping[str, str] | None = None, k: int | None = None
) -> dict[str, Any]:
    """What the page shows of a document; `docs` are texts by doc id."""
    result = result_from(dict(document))
    names = [r.name for r in result.runs]
    base = document.get("baseline", {}).get("name") if document["kind"] != "evaluation" else None
    judged = document.get("candidates") or [n for n in names if n != base]
    metrics = list(result.metrics)
    primary = _primary(metrics, document)
    ids = _all_queries(result)
    return {
        "kind": document["kind"], "dataset": document.get("dataset", ""), "verdict": document.get("verdict"),
        "why": document.get("why"), "runs": [_run(r) for r in result.runs], "base": base,
        "candidates": [n for n in judged if n in names], "primary": primary, "k": k or _k(primary),
        "confidence": result.runs[0].sampling.confidence,
        "metrics": [_metric(name, document) for name in metrics],
        "gates": list(document.get("gates", ())), "comparisons": _comparisons(document),
        "segments": _segments(document), "curves": _curves(result), "account": _account(result),
        "queries": _queries(result, ids), "docs": _texts(result, docs or {}),
        "components": {r["name"]: r["components"] for r in document["runs"] if "components" in r},
        "diagnosis": document.get("diagnosis", []),
        "fingerprints": dict(document.get("fingerprints", {})), "conventions": dict(result.conventions),
        "intervals": document.get("intervals", {}), "forced": document.get("forced", []),
        "differences": document.get("differences", []), "notes": document.get("notes", []),
    }  # fmt: skip


def _primary(metrics: Sequence[str], document: Mapping[str, Any]) -> str:
    gated = [g["metric"] for g in document.get("gates", ()) if g["metric"] in metrics]
    return PRIMARY if PRIMARY in metrics else (gated or list(metrics))[0]


def _k(metric: str) -> int:
    k = parse(metric).k
    return int(k) if k and k >= 1 else 10


def short(value: float | None) -> float | None:
    """A number in so many digits as a chart can show."""
    return None if value is None or value != value else float(f"{value:.{DIGITS}g}")


def _run(run: RunResult) -> dict[str, Any]:
    facts = {k: v for k, v in run.facts.items() if k != "tag"}
    return {"name": run.name, "facts": facts, "counts": dict(run.counts), "notes": list(run.notes)}


def _metric(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    measure = parse(name)
    m = measure.metric
    return {
        "name": name, "title": m.title, "tells": m.tells, "formula": m.formula, "use": m.use_when,
        "caution": m.caution, "higher": m.higher_is_better, "unit": m.unit, "cites": m.cites,
        "values": {r["name"]: r["metrics"][name] for r in document["runs"] if name in r["metrics"]},
    }  # fmt: skip


def _comparisons(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    kept = (
        "metric", "candidate", "segment", "mean_baseline", "mean_candidate", "delta", "ci", "n", "p_adjusted",
        "significant", "decided_by", "wins", "ties", "losses", "small", "against_trend", "queries_needed",
    )  # fmt: skip
    return [{k: row.get(k) for k in kept} for row in document.get("comparisons", ())]


def _segments(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every segment with the estimates of all runs."""
    out: dict[str, dict[str, Any]] = {}
    for run in document["runs"]:
        for s in run.get("segments", ()):
            name = ", ".join(f"{f} = {v}" for f, v in s["by"].items())
            one = out.setdefault(name, {"name": name, "by": s["by"], "n": s["n"], "small": s["small"], "values": {}})
            one["values"][run["name"]] = {m: [v["mean"], *(v["ci"] or (None, None))] for m, v in s["metrics"].items()}
    return list(out.values())


def _all_queries(result: Result) -> list[str]:
    return sorted({q for run in result.runs for q in run.query_ids})


def _queries(result: Result, ids: Sequence[str]) -> dict[str, Any]:
    """Columns over all queries: texts, fields, values, and the lists with grades and missed gold."""
    index = {q: i for i, q in enumerate(ids)}
    values = []
    for run in result.runs:
        place = np.array([index[q] for q in run.query_ids], dtype=np.int64)
        columns = []
        for name in result.metrics:
            column = np.full(len(ids), np.nan)
            column[place] = run.values[name]
            columns.append([short(v) for v in column.tolist()])
        values.append(columns)
    sampling = result.runs[0].sampling
    fields = {f: [_joined(known.get(q)) for q in ids] for f, known in sampling.fields.items()}
    texts = result.texts
    return {
        "ids": list(ids), "texts": [_cut(texts[q], TEXT) if q in texts else "" for q in ids] if texts else [],
        "fields": fields, "values": values,
        "lists": [[_list(run.lists.get(q)) for q in ids] for run in result.runs] if _has_lists(result) else [],
        "gold": [_gold(result, q) for q in ids] if _has_lists(result) else [],
    }  # fmt: skip


def _joined(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else ", ".join(value)


def _cut(text: str, most: int) -> str:
    flat = text[: most * 4]
    return flat if len(flat) <= most and len(text) <= most else flat[: most - 1] + "…"


def _has_lists(result: Result) -> bool:
    return any(run.lists for run in result.runs)


def _list(held: Mapping[str, Any] | None) -> list[list[Any]]:
    """Doc, grade and score of the first docs."""
    if held is None:
        return []
    return [[row["doc"], row["grade"], short(row["score"])] for row in held["top"][:TOP]]


def _gold(result: Result, query: str) -> list[list[Any]]:
    """The relevant docs with their grade, and the rank at which each run has them (null: never)."""
    ranks: dict[str, list[Any]] = {}
    for i, run in enumerate(result.runs):
        for row in run.lists.get(query, {}).get("gold", ()):
            if row["grade"] > 0:
                one = ranks.setdefault(row["doc"], [row["doc"], row["grade"], [None] * len(result.runs)])
                one[2][i] = row["rank"]
    return sorted(ranks.values(), key=lambda g: (-g[1], g[0]))


def _texts(result: Result, docs: Mapping[str, str]) -> dict[str, str]:
    """Texts of the docs that the page names, until the budget is spent: gold and the first ranks come first."""
    if not docs:
        return {}
    wanted: dict[str, None] = {}
    for depth in (5, TOP):
        for run in result.runs:
            for held in run.lists.values():
                wanted.update(dict.fromkeys(row["doc"] for row in held["gold"] if row["grade"] > 0))
                wanted.update(dict.fromkeys(row["doc"] for row in held["top"][:depth]))
    out, spent = {}, 0
    for doc in wanted:
        text = docs.get(doc) or docs.get(doc.partition("#")[0])
        if text:
            out[doc] = _cut(text, DOC_TEXT)
            spent += len(out[doc])
            if spent > BUDGET:
                break
    return out


def _rankings(run: RunResult) -> Rankings:
    """The rankings of a saved run: judged docs at their ranks, and all gold."""
    rows: list[tuple[int, int, float]] = []
    gold: list[tuple[int, float]] = []
    returned = []
    for i, q in enumerate(run.query_ids):
        held = run.lists.get(q, {"gold": [], "top": []})
        returned.append(held.get("returned", len(held["top"])))
        found = sorted((g["rank"], g["grade"]) for g in held["gold"] if g["rank"])
        rows += [(i, rank, grade) for rank, grade in found]
        gold += [(i, grade) for grade in sorted((g["grade"] for g in held["gold"]), reverse=True)]
    query, rank, grade = (np.array(c) for c in zip(*rows, strict=True)) if rows else (np.zeros(0, int),) * 3
    gold_query, gold_grade = (np.array(c) for c in zip(*gold, strict=True)) if gold else (np.zeros(0, int),) * 2
    return Rankings(
        run.query_ids, query.astype(np.int64), rank.astype(np.int64), grade.astype(np.float64),
        np.array(returned, dtype=np.int64), gold_query.astype(np.int64), gold_grade.astype(np.float64),
    )  # fmt: skip


def _curves(result: Result) -> list[dict[str, Any]]:
    """How metrics grow with k, from the ranks of the gold."""
    if not _has_lists(result):
        return []
    measures = [*parse_all(CURVED, ks=list(SWEEP)), parse("num_ret")]
    out = []
    for run in result.runs:
        rankings = _rankings(run)
        plain = replace(run.sampling, by=())
        deep = replace(run, values={m.name: m(rankings) for m in measures}, sampling=plain)
        for curve in curves_of(deep):
            told = curve.as_json()
            told["mean"] = [short(v) for v in told["mean"]]
            told["ci"] = [[short(a), short(b)] for a, b in told["ci"]]
            out.append(told)
    return out


def _account(result: Result) -> list[dict[str, Any]]:
    """Where each run's relevant docs went: found by rank 1, 3, … or never."""
    if not _has_lists(result):
        return []
    steps = [1, 3, 5, 10, 20, 50, 100]
    out = []
    for run in result.runs:
        relevant = [g for q in run.query_ids for g in run.lists.get(q, {}).get("gold", ()) if g["grade"] >= 1]
        ranks = np.array([g["rank"] or np.inf for g in relevant])
        bounds = [0, *steps]
        counts = [int(((ranks > a) & (ranks <= b)).sum()) for a, b in pairwise(bounds)]
        deeper = int(((ranks > steps[-1]) & np.isfinite(ranks)).sum())
        never = int(np.isinf(ranks).sum())
        labels = ["rank 1", *(f"{a + 1}–{b}" for a, b in pairwise(steps)), "deeper", "never"]
        out.append({"run": run.name, "gold": len(relevant), "labels": labels, "counts": [*counts, deeper, never]})
    return out
