"""The least and the largest difference of two runs, query by query, whatever the grades of docs that nobody judged.

A doc that both runs return counts for both: the bounds are of the difference itself, and much closer than those of the
two values apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.bounds import Ideal, ValueBounds, cumulate, sum_by
from karat.metrics.graded import gain_of
from karat.records import dataclass
from karat.stats.aggregates import SAME

if TYPE_CHECKING:
    from karat.metrics.grammar import Measure
    from karat.model.rankings import Counts, Values


@dataclass(frozen=True)
class PooledDocs:
    """Docs that runs return or that are judged, each once per query, and what their grades gain."""

    queries: int
    query: Counts
    gain: Values
    """NaN where nobody judged the doc."""


def offers_difference_bounds(measure: Measure) -> bool:
    """Whether differences of this metric have exact bounds: ndcg, and precision of the top k."""
    if measure.metric.name == "precision":
        return measure.k is not None and measure.param("denom") != "retrieved"
    return measure.metric.name == "ndcg" and not any(name == "gains" for name, _ in measure.params)


def weigh_ranks(measure: Measure, rank: Counts) -> Values:
    """What a gain of 1 at each rank adds to precision, or to the DCG of ndcg; nothing at rank 0: not in the list."""
    inside = (rank > 0) & (rank <= (measure.k or np.inf))
    if measure.metric.name == "precision":
        return inside / float(measure.k or 1)
    return np.where(inside, 1 / np.log2(np.maximum(rank, 1) + 1.0), 0.0)


def gain_of_grades(measure: Measure, grades: Values) -> Values:
    """What each grade counts in the metric; NaN stays."""
    if measure.metric.name == "precision":
        return np.where(np.isnan(grades), np.nan, grades >= measure.param("rel"))
    return gain_of(grades, str(measure.param("gain")), ())


def bound_differences(measure: Measure, docs: PooledDocs, weight: Values, gains: Values) -> ValueBounds:
    """Exact bounds of each query's Σ weight · gain, which for ndcg is divided by the ideal DCG.

    `weight` is what the candidate's rank of each doc weighs minus what the baseline's does (`weigh_ranks`), and `gains`
    what docs without a judgment may gain.
    """
    free = np.isnan(docs.gain)
    query, gain = docs.query[~free], docs.gain[~free]
    base = sum_by(query, gain * weight[~free], docs.queries)
    query_of, worth = docs.query[free], weight[free]
    if measure.metric.name == "precision":
        most = float(gains.max())
        ends = (sum_by(query_of, most * cut(worth, 0.0), docs.queries) for cut in (np.minimum, np.maximum))
        return ValueBounds(*(_without_rounding(base + end) for end in ends))
    ideal = Ideal.of(query, gain, docs.queries, None if measure.k is None else int(measure.k), gains)
    size = np.bincount(query_of, minlength=docs.queries)

    def extreme(largest: bool) -> Values:
        order = np.lexsort((-worth if largest else worth, query_of))
        taken = cumulate(query_of[order], worth[order], size)
        value = ideal.extreme(base, taken, size, largest=largest, least=-1.0)
        nothing = np.maximum(value, 0.0) if largest else np.minimum(value, 0.0)  # no relevant doc: both runs have 0
        return _without_rounding(np.where(ideal.known > 0, value, np.where(size > 0, nothing, 0.0)))

    return ValueBounds(extreme(False), extreme(True))


def _without_rounding(values: Values) -> Values:
    """What differs from 0 by rounding alone is 0, as in comparisons."""
    return np.where(np.abs(values) <= SAME, 0.0, values)
