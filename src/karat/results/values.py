"""From rankings to values per query, and from these to one figure with its interval, overall and by segment."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.grammar import parse
from karat.metrics.pipeline import is_of_pipeline
from karat.metrics.relevance import GM_FLOOR

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.metrics.grammar import Measure
    from karat.model.rankings import Rankings
    from karat.results.sampling import Sampling
    from karat.stats.intervals import Interval

    Values = NDArray[np.float64]


def measure_rankings(measures: Iterable[Measure], rankings: Rankings) -> tuple[Sequence[str], dict[str, Values]]:
    """The values of all measures, and of which queries.

    Metrics of the pipeline and of what a run says itself are about queries without gold too: of these all other
    metrics are undefined.
    """
    others = [r for r in (rankings.asked, rankings.whole) if r is not None]
    if not others:
        return rankings.query_ids, {m.name: m(rankings) for m in measures}
    ids = sorted({*rankings.query_ids, *(q for r in others for q in r.query_ids)})
    columns = {}
    for m in measures:
        own = rankings_for(m, rankings)
        columns[m.name] = spread(m(own), own.query_ids, ids)
    return ids, columns


def rankings_for(measure: Measure, rankings: Rankings) -> Rankings:
    """The queries that a measure is about: those with gold, those the pipeline is asked about, or the whole run."""
    own = rankings.asked if is_of_pipeline(measure.metric) else rankings.whole if measure.over_whole_run else None
    return own if own is not None else rankings


def spread(values: Values, query_ids: Sequence[str], over: Sequence[str]) -> Values:
    """The values of some queries in the order of all; NaN for the others."""
    if query_ids is over:
        return values
    place = {q: i for i, q in enumerate(over)}
    column = np.full(len(over), math.nan)
    column[[place[q] for q in query_ids]] = values
    return column


def attainable_values(measures: Iterable[Measure], rankings: Rankings) -> dict[str, float]:
    """The best value that the gold allows, for the metrics that have a target."""
    chosen = [m for m in measures if m.name in m.metric.targets] if len(rankings) else []
    return {m.name: aggregate(m, m(rankings.ideal()))[0] for m in chosen}


def aggregate(measure: Measure, values: Values, weights: Values | None = None) -> tuple[float, int]:
    """The one number for all queries, and over how many it is; undefined values are left out."""
    there = ~np.isnan(values)
    defined = values[there]
    n = len(defined)
    if n == 0:
        return math.nan, 0
    kind = measure.aggregate
    if kind == "sum":
        return float(defined.sum()), n
    if kind == "quantile":
        from karat.stats.quantiles import quantile_of

        return quantile_of(values, measure.quantile, weights), n
    if kind == "geometric mean":
        return math.exp(_mean(np.log(np.maximum(defined, GM_FLOOR)), there, weights)), n
    return _mean(defined, there, weights), n


def _mean(defined: Values, there: NDArray[np.bool_], weights: Values | None) -> float:
    if weights is None:
        return float(defined.mean())
    own = weights[there]
    return float((defined * own).sum() / own.sum()) if own.sum() > 0 else math.nan


def estimate(
    values: Mapping[str, Values], query_ids: Sequence[str], sampling: Sampling, threads: int
) -> list[Mapping[str, Interval]]:
    """Intervals of all metrics, over all queries and in each segment, from the same resamples."""
    from karat.stats.groups import grouped_intervals

    columns = {parse(name): v for name, v in values.items()}
    measures = [m for m in columns if m.aggregate != "quantile"]
    logs = [m.aggregate == "geometric mean" for m in measures]
    rows = [
        np.log(np.maximum(columns[m], GM_FLOOR)) if log else columns[m] for m, log in zip(measures, logs, strict=True)
    ]
    everything, units = np.arange(len(query_ids)), sampling.units(query_ids)
    groups = [everything, *(s.rows for s in sampling.segments(query_ids))]
    intervals = grouped_intervals(
        np.array(rows).reshape(len(rows), len(everything)),
        units,
        groups,
        binary=[m.metric.binary for m in measures],
        confidence=sampling.confidence,
        method=sampling.method,
        resamples=sampling.resamples,
        seed=sampling.seed,
        threads=threads,
    )
    out = [
        {m: _of_aggregate(m, i, columns[m][rows], log) for m, i, log in zip(measures, one, logs, strict=True)}
        for rows, one in zip(groups, intervals, strict=True)
    ]
    if len(measures) < len(columns):
        from karat.stats.quantiles import grouped_quantiles

        for m in (m for m in columns if m.aggregate == "quantile"):
            quantiles = grouped_quantiles(
                columns[m],
                m.quantile,
                units,
                groups,
                confidence=sampling.confidence,
                resamples=sampling.resamples,
                seed=sampling.seed,
            )
            for one, interval in zip(out, quantiles, strict=True):
                one[m] = interval
    return [{m.name: one[m] for m in columns} for one in out]


def _of_aggregate(measure: Measure, interval: Interval, values: Values, log: bool) -> Interval:
    """The interval of what a metric reports: a sum has none, a geometric mean comes back from logarithms."""
    if measure.aggregate == "sum":
        return replace(interval, estimate=aggregate(measure, values)[0], low=math.nan, high=math.nan, method="none")
    if log and interval.n:
        middle, low, high = (math.exp(x) for x in (interval.estimate, interval.low, interval.high))
        return replace(interval, estimate=middle, low=low, high=high)
    least, most = measure.metric.bounds
    high = interval.high if most is None else min(interval.high, most)
    return replace(interval, low=max(interval.low, least), high=high) if interval.low == interval.low else interval
