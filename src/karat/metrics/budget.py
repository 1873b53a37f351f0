"""What results cost and what they are worth beside relevance: latency, cost, freshness, distinct docs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import MetricError
from karat.metrics.registry import STATISTICS, metric
from karat.model.log_names import TOTAL
from karat.model.rankings import ALL, ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.model.items import Items
    from karat.model.rankings import Cutoff, Rankings, Values

BUDGET, DIVERSITY = "budget", "diversity"
_WHOLE = " It is over all queries of the run, with gold or without."


@metric(
    "latency",
    title="Latency",
    family=BUDGET,
    unit="ms",
    cutoff="none",
    bounds=(0.0, None),
    dotted=("stage", "statistic"),
    choices={"statistic": ("p50", "p90", "p95", "p99", "mean")},
    example="latency.p50",
    formula="latency_ms of a stage, or in total: latency_ms.total, else the sum of the stages (undefined where a line"
    " names a stage in `stages` that other lines have a latency for, and has none); p90 is the smallest"
    " value that at least 90% of the queries do not exceed",
    tells="How long a query takes, in total or in one stage of the pipeline.",
    use_when="Results must come within a time budget: p50 for the usual query, p95 and p99 for the slow ones.",
    caution="Queries without latency_ms are left out, and n shows it; gates take them for the slowest."
    " Intervals of quantiles are order statistics;"
    " with too few queries an end is undefined (the upper end of p99 needs 368 at 95%). With weights or conversations"
    " they are bootstrap percentiles, and a quantile is the smallest value that at least this share of the weight"
    " does not exceed. The Δ of a quantile is the difference of the two quantiles, not the quantile of"
    " the differences: its interval and p come from resampling the queries of both runs together, where each run has"
    " enough queries for an interval of its own." + _WHOLE,
    cites="order statistics: Conover 1999, section 3.2",
    higher_is_better=False,
    aggregate="quantile",
    no_results=math.nan,
    empty_gold=math.nan,
    needs=("latency",),
    complexity="queries",
    suits={"latency": "latency.p90"},
)
def latency(r: Rankings, stage: str = TOTAL, *, statistic: str) -> Values:
    return _logged(r, "latency", stage, statistic)


@metric(
    "cost",
    title="Cost",
    family=BUDGET,
    cutoff="none",
    bounds=(0.0, None),
    dotted=("key", "statistic"),
    choices={"statistic": ("mean", "sum")},
    example="cost.tokens",
    formula="cost of that key, such as tokens: its mean per query, or its sum",
    tells="What a query costs, in tokens or any other unit the run log counts.",
    use_when="Results must come within a budget of money or tokens.",
    caution="Queries whose line lacks this cost are left out, and n shows it; a gate may be undecided for them. "
    " A sum has no interval." + _WHOLE,
    cites="run log of Karat",
    higher_is_better=False,
    no_results=math.nan,
    empty_gold=math.nan,
    needs=("cost",),
    complexity="queries",
    suits={"cost": "cost.tokens"},
)
def cost(r: Rankings, key: str, statistic: str = "mean") -> Values:
    return _logged(r, "cost", key, statistic)


@metric(
    "fresh",
    title="Share of fresh items",
    family=BUDGET,
    formula="items in the top k with doc_version ≤ as_of of the query / items in the top k with a doc_version",
    tells="The share of the top k that already existed on the date that the gold describes.",
    use_when="Docs change over time, and answers must not come from versions later than the query's date.",
    caution="Undated items are left out and counted in a note. Undefined without as_of or without dated items."
    " Dates are compared by day." + _WHOLE,
    cites="run log of Karat",
    no_results=math.nan,
    empty_gold=math.nan,
    needs=("items", "doc_version", "as_of"),
    complexity="docs in the top k",
)
def fresh(r: Rankings, k: Cutoff = ALL) -> Values:
    items = _items(r)
    dated, as_of = _in_top(items, k) & ~np.isnan(items.version), items.as_of[items.query]
    share = ratio(_count(r, items, dated & (items.version <= as_of)), _count(r, items, dated), undefined=math.nan)
    return np.where(np.isnan(items.as_of), math.nan, share)


def undated(r: Rankings, k: Cutoff) -> int:
    """How many items in the top k have no doc_version, among the queries that have an as_of."""
    items = _items(r)
    without = np.isnan(items.version) & ~np.isnan(items.as_of[items.query])
    return int(np.count_nonzero(_in_top(items, k) & without))


@metric(
    "distinct_docs",
    title="Distinct docs",
    family=DIVERSITY,
    bounds=(0.0, None),
    formula="docs that the items of the top k belong to, each counted once",
    tells="How many different docs the top k comes from.",
    use_when="Results are chunks, and several chunks of one doc crowd out others.",
    caution="A chunk belongs to its doc_id, else to the part of its id before the separator. It cannot exceed k or the"
    " number returned." + _WHOLE,
    cites="run log of Karat",
    empty_gold=None,
    needs=("items",),
    complexity="docs in the top k",
    suits={"redundancy": "distinct_docs@5"},
)
def distinct_docs(r: Rankings, k: Cutoff = ALL) -> Values:
    items = _items(r)
    return _count(r, items, _in_top(items, k) & items.first)


@metric(
    "redundancy",
    title="Redundancy",
    family=DIVERSITY,
    formula="1 − distinct_docs@k / min(k, items returned)",
    tells="The share of the top k that repeats docs ranked above.",
    use_when="Results are chunks, and each one costs tokens.",
    caution="Blind to different docs with the same content. Undefined for an empty result." + _WHOLE,
    cites="run log of Karat",
    higher_is_better=False,
    no_results=math.nan,
    empty_gold=None,
    needs=("items",),
    complexity="docs in the top k",
    suits={"redundancy": "redundancy@5"},
)
def redundancy(r: Rankings, k: Cutoff = ALL) -> Values:
    deep = np.minimum(r.returned, k if k is not None else r.returned).astype(np.float64)
    return 1.0 - ratio(distinct_docs(r, k), deep, undefined=math.nan)


@metric(
    "empty_results",
    title="Empty results",
    family=BUDGET,
    cutoff="none",
    formula="1 if nothing is returned for the query, else 0",
    tells="The share of queries that get no results at all.",
    use_when="Filters, thresholds or a retrieval gate may leave nothing to show.",
    caution="A query of the gold that the run lacks counts as empty (missing=skip leaves it out)." + _WHOLE,
    cites="plain definition",
    higher_is_better=False,
    binary=True,
    no_results=1.0,
    empty_gold=None,
    needs=("returned",),
    complexity="queries",
)
def empty_results(r: Rankings) -> Values:
    return (r.returned <= 0).astype(np.float64)


@metric(
    "score_spread",
    title="Score spread",
    family=BUDGET,
    bounds=(0.0, None),
    formula="largest score − smallest score in the top k",
    tells="How far apart the scores of the top k are; near 0 the order is nearly arbitrary.",
    use_when="A threshold on scores is planned, or an index may have collapsed to equal scores.",
    caution="On the scale of the system's own scores, so two systems are rarely comparable. Undefined below two items"
    " with a score." + _WHOLE,
    cites="plain definition",
    higher_is_better=None,
    no_results=math.nan,
    empty_gold=None,
    needs=("items", "item_scores"),
    complexity="docs in the top k",
)
def score_spread(r: Rankings, k: Cutoff = ALL) -> Values:
    items = _items(r)
    if items.score is None:
        raise MetricError("score_spread needs the scores of the items; these rankings hold none")
    rows = _in_top(items, k) & ~np.isnan(items.score)
    least, most = np.full(len(r), math.inf), np.full(len(r), -math.inf)
    np.minimum.at(least, items.query[rows], items.score[rows])
    np.maximum.at(most, items.query[rows], items.score[rows])
    out = np.full(len(r), math.nan)
    np.subtract(most, least, out=out, where=_count(r, items, rows) >= 2)
    return out


def _logged(r: Rankings, kind: str, key: str, statistic: str) -> Values:
    """A value per query; the statistic is taken over them later, with its interval."""
    assert statistic in STATISTICS
    values = r.log.get(kind, {}).get(key) if r.log is not None else None
    if values is None:
        raise MetricError(f"{kind} needs a run log; these rankings hold no {kind} of {key!r}")
    return values.copy()


def _items(r: Rankings) -> Items:
    if r.items is None:
        raise MetricError(
            "this metric needs the docs that were returned, and these rankings hold the judged ones alone"
        )
    return r.items


def _in_top(items: Items, k: Cutoff) -> NDArray[np.bool_]:
    return items.rank <= k if k is not None else np.ones(len(items.rank), dtype=bool)


def _count(r: Rankings, items: Items, rows: NDArray[np.bool_]) -> Values:
    return np.bincount(items.query[rows], minlength=len(r)).astype(np.float64)
