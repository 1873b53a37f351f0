"""From rankings to values per query, and from these to one figure with its interval, overall and by segment."""

from __future__ import annotations

import math
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.metrics.grammar import Measure, parse
from karat.metrics.pipeline import is_of_pipeline
from karat.metrics.relevance import GM_FLOOR
from karat.records import dataclass
from karat.stats.aggregates import Statistic, estimate_figures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karat.model.rankings import Rankings
    from karat.results.sampling import Sampling
    from karat.stats.intervals import Interval
    from karat.stats.unseen_labels import LabelDoubt

    Values = NDArray[np.float64]
    Level = Literal["doc", "chunk"]
    from collections.abc import Collection, Iterable


def measure_rankings(measures: Iterable[Measure], rankings: Rankings) -> tuple[Sequence[str], dict[str, Values]]:
    """The values of all measures, and of which queries.

    Metrics of the pipeline and of what a run says itself are about queries without gold too: of these all other
    metrics are undefined.
    """
    others = [r for r in (rankings.pipeline, rankings.whole) if r is not None]
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
    if rankings.pipeline is None and rankings.whole is None:
        return rankings
    own = rankings.pipeline if is_of_pipeline(measure.metric) else rankings.whole if measure.over_whole_run else None
    return own if own is not None else rankings


def spread(values: Values, query_ids: Sequence[str], over: Sequence[str]) -> Values:
    """The values of some queries in the order of all; NaN for the others."""
    if query_ids is over:
        return values
    place = {q: i for i, q in enumerate(over)}
    column = np.full(len(over), math.nan)
    column[[place[q] for q in query_ids]] = values
    return column


def statistic_of(measure: Measure, *, unbounded: bool = False) -> Statistic:
    """How the values of a measure become one figure, and the scale on which they lie.

    Corrected values are `unbounded`: a single one may lie outside the bounds of the metric.
    """
    kind, (least, most) = measure.aggregate, measure.metric.bounds
    return Statistic(
        kind,
        measure.quantile if kind == "quantile" else math.nan,
        (-math.inf, None) if unbounded else (least, most),
        GM_FLOOR if kind == "geometric mean" else 0.0,
        (least, most) if unbounded and most is not None else None,
    )


def aggregate(measure: Measure, values: Values, weights: Values | None = None) -> tuple[float, int]:
    """The one number for all queries, and over how many it is; undefined values are left out."""
    return statistic_of(measure).figure(values, weights), int(np.count_nonzero(~np.isnan(values)))


def estimate(
    values: Mapping[str, Values],
    query_ids: Sequence[str],
    sampling: Sampling,
    threads: int,
    *,
    unbounded: Collection[str] = (),
    doubts: Mapping[str, LabelDoubt] = MappingProxyType({}),
) -> list[Mapping[str, Interval]]:
    """Intervals of all metrics, over all queries and in each segment, from the same resamples.

    Values of metrics that are `unbounded` may lie outside the metric's bounds; the ends of their intervals do not.
    `doubts` say how far the truth of all queries may be beyond what the spread of corrected values shows.
    """
    groups = [np.arange(len(query_ids)), *(s.rows for s in sampling.segments(query_ids))]
    statistics = [statistic_of(parse(name), unbounded=name in unbounded) for name in values]
    estimates = estimate_figures(
        list(values.values()), statistics, sampling.units(query_ids), groups, sampling.choice(threads)
    )
    whole, *parts = (dict(zip(values, one, strict=True)) for one in estimates)
    for name, doubt in doubts.items():
        if name in whole:
            least, most = parse(name).metric.bounds
            whole[name] = doubt.widen(whole[name], sampling.confidence).clip(least, math.inf if most is None else most)
    return [whole, *parts]


def pool(values: Mapping[str, Values], query_ids: Sequence[str], sampling: Sampling) -> list[Mapping[str, Interval]]:
    """Partially pooled means in each segment, with the others of its field; without the metrics that have none."""
    from karat.stats.pooling import pool_figures

    slices, units = sampling.segments(query_ids), sampling.units(query_ids)
    out: list[dict[str, Interval]] = [{} for _ in slices]
    for names in sampling.tables if sampling.method != "none" else ():
        places = [i for i, s in enumerate(slices) if tuple(s.by) == names]
        groups = [slices[i].rows for i in places]
        for name, column in values.items():
            pooled = pool_figures(
                column,
                statistic_of(parse(name)),
                units,
                groups,
                levels=(sampling.confidence,),
                minimum=sampling.minimum,
            )
            for i, intervals in zip(places, pooled, strict=True):
                if intervals:
                    out[i][name] = intervals[0]
    return list(out)


@dataclass(frozen=True, slots=True)
class SegmentResult:
    """A slice of the queries with its own estimates."""

    by: Mapping[str, str]
    n: int
    too_few: frozenset[str]
    """The metrics that too few of its queries have a value of to be judged alone."""
    judged: float
    """The share of judged docs in the top 10, as the metric judged@10 has it."""
    metrics: Mapping[str, Interval]
    pooled: Mapping[str, Interval] = field(default_factory=dict)
    """Means drawn towards those of the field's other segments, as far as these differences look like chance."""

    @property
    def small(self) -> bool:
        """Whether it is too small to be judged alone by any metric."""
        return len(self.too_few) == len(self.metrics)
