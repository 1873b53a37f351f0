"""A result as the scripts of the page read it: columns, few digits, colours of changes, and texts within a budget.

Nothing is measured here but what a result does not hold: curves over k, and where the gold went, both from the
ranks at which each query's gold was found.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.metrics.grammar import choose_primary, parse, parse_all
from karat.model.policy import RELEVANT, is_relevant
from karat.records import dataclass
from karat.report.html.clean_text import LONGEST, NAME, cut, cut_all, name
from karat.report.html.model import (
    Change,
    Column,
    CurveLine,
    DocTexts,
    Estimate,
    QueryColumns,
    RankCounts,
    ScriptData,
    SegmentRow,
)
from karat.report.marks import tone_of
from karat.report.terminal.evaluate import best_runs
from karat.results.figures import estimate_figure, figure, least_of, p_text
from karat.results.losses import find_loss
from karat.results.sampling import NONE
from karat.results.top_lists import DocNumbers
from karat.results.words import SharedLevels, condition_text
from karat.stats.aggregates import NEUTRAL
from karat.store.codec import rounded
from karat.verbs.sweep import METRICS as CURVED
from karat.verbs.sweep import curves_of, cutoffs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.model.docs import Docs
    from karat.model.qrels import Qrels
    from karat.report.html.source import Source
    from karat.results.decisions import Decision
    from karat.results.result import Result, RunResult
    from karat.results.top_lists import GoldDoc, TopLists
    from karat.stats.intervals import Interval

TOP = 20
"""Docs of a ranked list that the page holds."""
TEXT, SHORT_TEXT, DOC_TEXT = 2_000, 300, 400
"""Characters of a query's text, of one where there are many long ones, and of a doc's text."""
QUERY_BUDGET, DOC_BUDGET = 2_000_000, 6_000_000
"""Characters of all queries' and of all docs' texts together."""
DIGITS = 6
TRADED = ("budget", "diversity")
"""Families of metrics that are paid for relevance, or with it; costs come first."""
RANKS = (1, 3, 5, 10, 20, 50, 100)
"""Ranks at which the account of the gold is cut."""
RANK_LABELS = ["rank 1", *(f"{a + 1}–{b}" for a, b in pairwise(RANKS)), "deeper", "not returned"]


def script_data(source: Source, *, docs: Docs | None, titles: Mapping[str, str], k: int | None) -> ScriptData:
    """What the scripts read; `docs` holds the texts of docs."""
    result, primary = source.result, primary_of(source)
    ids = sorted({q for run in result.runs for q in run.query_ids})
    numbers = DocNumbers()
    queries = _queries(result, ids, {**result.texts, **source.texts}, numbers)
    return ScriptData(
        runs=[r.name for r in result.runs],
        base=source.base,
        candidates=list(source.candidates),
        gated=bool(source.gates),
        leading=leading_metrics(source),
        opponents={r.name: other for r in result.runs if (other := opponent_of(source, r.name))},
        titles=dict(titles),
        primary=primary,
        k=k or _k(primary),
        metrics=[_column(m) for m in result.metrics],
        estimates={
            m: {r.name: estimate(m, r.intervals[m]) for r in result.runs if m in r.values} for m in result.metrics
        },
        best={m: [result.runs[i].name for i in sorted(best_runs(m, result.runs))] for m in result.metrics},
        changes=[change(c) for c in source.comparisons],
        segments=_segments(result),
        curves=_curves(result),
        rank_labels=RANK_LABELS,
        rank_counts=_rank_counts(result),
        listed=[run.name for run in result.runs if run.top is not None],
        credited_once=all(run.policy.chunk_credit != "all" for run in result.runs),
        tradeoffs=_tradeoffs(result, primary),
        queries=queries,
        docs=DocTexts(cut_all(list(numbers.known), NAME), _texts(result, docs, numbers.known)),
        findings=_findings(source, ids),
    )


def _findings(source: Source, ids: Sequence[str]) -> dict[str, list[tuple[str, list[int]]]]:
    place = {q: i for i, q in enumerate(ids)}
    return {
        d.run: [(f.heading, [place[q] for q in f.queries if q in place]) for f in d.findings] for d in source.diagnoses
    }


def primary_of(source: Source) -> str:
    """The metric that decides: that of the comparisons; see `choose_primary`."""
    primary = [d.metric for d in source.comparisons if d.primary]
    return primary[0] if primary else choose_primary(list(source.result.metrics))


LEADING = ("recall", "mrr", "precision", "latency.p90", "latency.p50")
"""Kinds of metrics that a reader looks for first."""


def leading_metrics(source: Source) -> list[str]:
    """The primary metric, those of gates, one of each kind, and then the others."""
    metrics, k = source.result.metrics, _k(primary_of(source))
    kinds: dict[str, list[str]] = {}
    for metric in metrics:
        kinds.setdefault(metric.partition("@")[0], []).append(metric)
    known = [kind for kind in LEADING if kind in kinds]
    one_each = [
        next((m for m in kinds[n] if m.endswith(f"@{k}")), kinds[n][0]) for n in dict.fromkeys([*known, *kinds])
    ]
    gated = [g.gate.metric for g in source.gates if g.gate.metric in metrics]
    return list(dict.fromkeys([primary_of(source), *gated, *one_each, *metrics]))


def opponent_of(source: Source, run: str) -> str:
    """The run that this one is shown against: the baseline, else the best of the others; empty where there is none."""
    if source.base in [r.name for r in source.result.runs]:
        return source.base if run != source.base else ""
    return next((name for name in best_first(source) if name != run), "")


def best_first(source: Source) -> list[str]:
    """The runs by the leading metric, undefined values last."""
    metric = primary_of(source)
    sign = 1 if parse(metric).metric.higher_is_better is False else -1
    values = {r.name: sign * r.mean[metric] if metric in r.values else math.nan for r in source.result.runs}
    return sorted(values, key=lambda n: (values[n] != values[n], values[n]))


def _k(metric: str) -> int:
    k = parse(metric).k
    return int(k) if k and k >= 1 else 10


def short(value: float | None, digits: int = DIGITS) -> float | int | None:
    """A number in as many digits as a chart can show."""
    return None if value is None or value != value else _whole(float(f"{value:.{digits}g}"))


def known(value: float) -> float | None:
    """The number as JSON documents have it: None where it is undefined."""
    return rounded(value)


# Numbers as text.


_MINUS = re.compile(r"(?<![^\W_])(?<![-_.−])-(?=\.?\d)")
"""A hyphen before a number, and not within a word."""


def typeset(text: str) -> str:
    """A text whose figures have the sign that print has for minus; the hyphens of names stay."""
    return _MINUS.sub("−", text)


def _column(metric: str) -> Column:
    m = parse(metric)
    value_name = metric.rpartition(".")[0] if m.aggregate == "quantile" else metric
    decimals = figure(metric, 0.0).decimals
    high = m.metric.bounds[1]
    scale = "" if high is not None and high <= 1 else m.metric.unit or metric
    return Column(
        metric,
        value_name or metric,
        m.metric.higher_is_better,
        decimals,
        least_of(decimals),
        m.metric.unit,
        scale,
        by_gold="gold" in m.needs,
    )


def estimate(metric: str, interval: Interval) -> Estimate:
    """A metric of a run with its text."""
    it = estimate_figure(metric, interval)
    return Estimate(known(it.value), known(it.low), known(it.high), typeset(it.text), typeset(it.interval), interval.n)


def change(row: Decision, shared: SharedLevels | None = None) -> Change:
    """A decision with its texts, and the levels that it is the difference of where the page shows others."""
    return Change(
        candidate=row.candidate,
        metric=row.metric,
        segment=segment_name(row.segment) if row.segment is not None else None,
        delta=known(row.delta),
        neutral=NEUTRAL[row.scale],
        low=known(row.difference.low),
        high=known(row.difference.high),
        text=typeset(row.figure.text),
        ends=typeset(row.figure.interval),
        pooled="" if row.pooled is None else typeset(str(row.pooled_figure)),
        p=p_note(row),
        outcome=row.outcome,
        statement=typeset(cut(row.statement, LONGEST)),
        more_queries=row.more_queries if row.segment is None else "",
        tone=tone_of(row.outcome),
        n=row.n,
        shared="" if shared is None else typeset(str(shared)),
    )


def p_note(row: Decision) -> str:
    """`p 0.0120, adjusted 0.0310`; empty where nothing was tested."""
    raw = row.p.get(row.decided_by)
    if raw is None or raw != raw or row.family is None:
        return ""
    return f"p {p_text(raw)}, adjusted {row.p_adjusted_text}"


# Aggregates.


def segment_name(by: Mapping[str, str]) -> str:
    """`intent = list, language = de`."""
    return ", ".join(condition_text(name(f), name(str(v))) for f, v in by.items())


def _segments(result: Result) -> list[SegmentRow]:
    """Every segment with the estimates of all runs."""
    out: dict[str, SegmentRow] = {}
    for run in result.runs:
        for s in run.segments:
            label = segment_name(s.by)
            fields = {name(f): name(str(v)) for f, v in s.by.items()}
            row = out.setdefault(label, SegmentRow(label, fields, s.n, sorted(s.too_few), {}, {}))
            row.values[run.name] = {m: estimate(m, i) for m, i in s.metrics.items()}
            row.pooled[run.name] = {m: typeset(str(estimate_figure(m, i))) for m, i in s.pooled.items()}
    return list(out.values())


def _tradeoffs(result: Result, primary: str) -> list[str]:
    """What a gain in relevance may cost: latency and cost first, then diversity."""
    families = {m: parse(m).metric.family for m in result.metrics if m != primary}
    costs = [m for family in TRADED for m, f in families.items() if f == family]
    return costs if len(result.runs) > 1 else []


def _curves(result: Result) -> list[CurveLine]:
    """Metrics at growing cutoffs, from the ranks of the gold."""
    returned = parse("num_ret")
    rankings = {
        run.name: run.rankings
        for run in result.runs
        if run.top is not None and run.rankings is not None and not run.is_without_gold
    }
    depths = [int(returned(each).max(initial=0)) for each in rankings.values()]
    ks = [k for k in cutoffs(depths) if k <= max(depths, default=0)]
    if len(ks) < 2:  # a point is no curve
        return []
    measures = [*parse_all(CURVED, ks=ks), returned]
    out = []
    for run in result.runs:
        if run.rankings is None or run.name not in rankings:
            continue
        values = {m.name: m(run.rankings) for m in measures}
        deep = replace(run, query_ids=run.rankings.query_ids, values=values, sampling=replace(run.sampling, by=()))
        for curve in curves_of(deep):
            at = [f"{curve.metric}@{k}" for k in curve.ks]
            out.append(
                CurveLine(
                    run.name,
                    curve.metric,
                    list(curve.ks),
                    [short(v) for v in curve.values],
                    [figure(m, v).text for m, v in zip(at, curve.values, strict=True)],
                    [short(p.low) for p in curve.points],
                    [short(p.high) for p in curve.points],
                    curve.enough,
                )
            )
    return out


def _relevant(run: RunResult, query: str) -> list[GoldDoc]:
    return [g for g in run.gold_docs(query) if is_relevant(g.grade)]


def _rank_counts(result: Result) -> list[RankCounts]:
    """Where each run's relevant docs went: found at rank 1, 2 to 3, … or not returned."""
    out = []
    for run in result.runs:
        if run.top is None:
            continue
        ranks = _ranks_of_relevant(run)
        if not len(ranks):
            continue
        counts = [int(((ranks > a) & (ranks <= b)).sum()) for a, b in pairwise([0, *RANKS])]
        out.append(RankCounts(run.name, len(ranks), [*counts, int((ranks > RANKS[-1]).sum()), int((ranks == 0).sum())]))
    return out


def _ranks_of_relevant(run: RunResult) -> NDArray[np.int64]:
    """The rank of each relevant doc of the queries that the run has values of; 0 where it was not returned."""
    if run.gold_ranks is None:
        return np.zeros(0, dtype=np.int64)
    qrels = run.qrels
    own = set(run.query_ids)
    there = np.array([q in own for q in qrels.query_ids], dtype=bool)
    ranks: NDArray[np.int64] = run.gold_ranks[is_relevant(qrels.grades, RELEVANT) & there[qrels.query_of]]
    return ranks


# Queries.


def _queries(result: Result, ids: Sequence[str], texts: Mapping[str, str], numbers: DocNumbers) -> QueryColumns:
    """Columns over all queries: texts, fields, values, and the lists with grades and missed gold."""
    index = {q: i for i, q in enumerate(ids)}
    values = []
    for run in result.runs:
        place = np.array([index[q] for q in run.query_ids], dtype=np.int64)
        columns = []
        for metric in result.metrics:
            column = np.full(len(ids), np.nan)
            if metric in run.values:
                column[place] = run.values[metric]
            columns.append(_shortened(column, DIGITS))
        values.append(columns)
    fields = next((run.sampling.fields for run in result.runs if run.sampling.fields), {})
    long = sum(min(len(texts.get(q, "")), TEXT) for q in ids) > QUERY_BUDGET
    tops = {run.name: run.top for run in result.runs if run.top is not None}
    rows = {name: _first_rows(top, ids) for name, top in tops.items()}
    golds = [_RelevantDocs.of(qrels, runs) for qrels, runs in _golds(result)]
    named = [[tops[name].docs[i] for i in places.tolist()] for name, (places, _) in rows.items()]
    unscored = _unscored(result, ids)
    codes = numbers.of([*named, *(gold.docs for gold in golds)])
    lists = {name: _lists(tops[name], *own, docs) for (name, own), docs in zip(rows.items(), codes)}
    return QueryColumns(
        ids=[name(q) for q in ids],
        texts=cut_all([texts.get(q, "") for q in ids], SHORT_TEXT if long else TEXT) if texts else [],
        fields={name(f): [_named(values.get(q, NONE)) for q in ids] for f, values in fields.items()},
        values=values,
        lists=[lists.get(run.name) or [([], "", []) for _ in ids] for run in result.runs] if lists else [],
        gold=_gold(result, ids, golds, codes[len(rows) :]) if golds else [],
        unscored=unscored,
        lack="answer" if any(lack_answers(run, len(unscored)) for run in result.runs) else "gold",
    )


def _unscored(result: Result, ids: Sequence[str]) -> list[int]:
    """The places of queries that no metric of relevance counts, where the result says which these are."""
    counted = [run.rankings.query_ids for run in result.runs if run.rankings is not None]
    scored = set().union(*counted)
    return [i for i, q in enumerate(ids) if q not in scored] if counted else []


def lack_answers(run: RunResult, queries: int) -> bool:
    """Whether so many queries of a run, which no metric of relevance counts, have no answer; else they have no gold."""
    return queries <= run.counts.get("no_answer", 0)


def _named(value: str | Sequence[str]) -> str | list[str]:
    """What a query has in a field: a value, or several, each of which puts it in a segment."""
    return name(value) if isinstance(value, str) else [name(one) for one in value]


def _shortened(values: NDArray[np.float64], digits: int) -> list[float | int | None]:
    """Numbers as `short` writes them; equal ones are one object, of which a page then holds few."""
    distinct, places = np.unique(values, return_inverse=True)
    texts = np.array([short(v, digits) for v in distinct.tolist()], dtype=object)
    out: list[float | int | None] = texts[places].tolist()
    return out


def _first_rows(top: TopLists, ids: Sequence[str]) -> tuple[NDArray[np.int64], list[int]]:
    """The rows of the first ranks of these queries, one query after the other, and where each query's end."""
    places = np.array([top.query_index.get(query, -1) for query in ids], dtype=np.int64)
    lengths = np.where(places < 0, 0, np.minimum(np.diff(top.offsets, append=0)[places], TOP))
    ends = np.cumsum(lengths)
    rows = np.arange(ends[-1] if len(ends) else 0) + np.repeat(top.offsets[places] - (ends - lengths), lengths)
    return rows, ends.tolist()


def _lists(
    top: TopLists, rows: NDArray[np.int64], ends: Sequence[int], docs: list[int]
) -> list[tuple[list[int], Any, list[Any]]]:
    """Docs, grades and scores of the first ranks of each query, as columns."""
    scores, grades = _shortened(top.scores[rows], 4), top.grades[rows]
    digit = np.isin(grades, np.arange(10))
    marks = np.where(digit, ord("0") + np.where(digit, grades, 0), ord("-")).astype(np.uint8)
    text, others = marks.tobytes().decode("ascii"), np.cumsum(~digit & ~np.isnan(grades), dtype=np.int64)
    long = set(np.flatnonzero(np.diff([others[end - 1] if end else 0 for end in ends], prepend=0)).tolist())
    out: list[tuple[list[int], Any, list[Any]]] = []
    begin = 0
    for i, end in enumerate(ends):
        # Grades of a list are one text, a character each, where all are whole and have one digit: it takes less room.
        own = [_whole(None if g != g else g) for g in grades[begin:end].tolist()] if i in long else text[begin:end]
        out.append((docs[begin:end], own, scores[begin:end]))
        begin = end
    return out


def _whole(grade: float | None) -> float | int | None:
    return int(grade) if grade is not None and grade == int(grade) else grade


def _golds(result: Result) -> Iterator[tuple[Qrels, list[int]]]:
    """Each gold of the runs that have lists, with the places of its runs."""
    runs_of: dict[int, list[int]] = {}
    for i, run in enumerate(result.runs):
        if run.gold_ranks is not None and not run.is_without_gold:
            runs_of.setdefault(id(run.qrels), []).append(i)
    for places in runs_of.values():
        yield result.runs[places[0]].qrels, places


@dataclass(frozen=True)
class _RelevantDocs:
    """The relevant docs of a gold by query, and the places of the runs that have it."""

    qrels: Qrels
    runs: list[int]
    rows: NDArray[np.int64]
    docs: list[str]
    ends: list[int]

    @staticmethod
    def of(qrels: Qrels, runs: list[int]) -> _RelevantDocs:
        relevant = is_relevant(qrels.grades)
        rows = np.flatnonzero(relevant)
        ends = np.concatenate(([0], np.cumsum(relevant)))[qrels.offsets].tolist()
        return _RelevantDocs(qrels, runs, rows, [qrels.docs[i] for i in rows.tolist()], ends)


def _gold(
    result: Result, ids: Sequence[str], golds: Sequence[_RelevantDocs], codes: Sequence[list[int]]
) -> list[list[tuple[int, Any, list[int | None], dict[int, str]]]]:
    """The relevant docs of each query: grade, the rank at which each run has them, and the stage that lost them."""
    blank: list[int | None] = [None] * len(result.runs)
    columns = [
        (gold.qrels.grades[gold.rows].tolist(), [_ranks(result.runs[i], gold.rows) for i in gold.runs])
        for gold in golds
    ]
    out = []
    for query in ids:
        docs: dict[int, tuple[str, float, list[int | None], dict[int, str]]] = {}
        for gold, own, (grades, ranks) in zip(golds, codes, columns, strict=True):
            place = gold.qrels.query_index.get(query)
            for row in range(gold.ends[place], gold.ends[place + 1]) if place is not None else ():
                doc = gold.docs[row]
                _, _, at, losses = docs.setdefault(own[row], (doc, grades[row], blank.copy(), {}))
                for i, column in zip(gold.runs, ranks, strict=True):
                    at[i] = rank = column[row]
                    if rank is None and (loss := find_loss(result.runs[i], query, doc)) is not None:
                        losses[i] = str(loss)
        ordered = sorted(docs.items(), key=lambda entry: (-entry[1][1], entry[1][0])) if len(docs) > 1 else docs.items()
        out.append([(code, _whole(grade), at, losses) for code, (_, grade, at, losses) in ordered])
    return out


def _ranks(run: RunResult, rows: NDArray[np.int64]) -> list[int | None]:
    """The ranks of some judgments; None where the run does not have the doc."""
    assert run.gold_ranks is not None
    return [rank or None for rank in run.gold_ranks[rows].tolist()]


def _texts(result: Result, docs: Docs | None, numbers: Mapping[str, int]) -> dict[str, str]:
    """Texts of the docs that the page names, until the budget is spent: gold and the first ranks come first."""
    if docs is None:
        return {}
    docs_in_order: dict[str, None] = {}
    for depth in (5, TOP):
        for run in result.runs:
            for query in run.top.query_ids if run.top is not None else ():
                docs_in_order.update(dict.fromkeys(row.doc for row in _relevant(run, query)))
                docs_in_order.update(dict.fromkeys(row.doc for row in run.top_docs(query)[:depth]))
    out, spent = {}, 0
    for doc in docs_in_order:
        text = docs.caption(doc)
        if text and doc in numbers:
            out[str(numbers[doc])] = cut(text, DOC_TEXT)
            spent += min(len(text), DOC_TEXT)
            if spent > DOC_BUDGET:
                break
    return out
