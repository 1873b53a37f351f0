"""The value of a judgment: which pairs could still change a comparison of runs, and which comparisons are decided.

A comparison is decided when it says the same for all grades that unjudged docs might have. That holds whatever the
order of judging, and however often one looks. The value of a pair only says what to judge first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.difference_bounds import PooledDocs, bound_differences, gain_of_grades, weigh_ranks
from karat.stats.defaults import ALPHA
from karat.stats.partial_changes import PartialChange, foresee_changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karat.metrics.grammar import Measure
    from karat.model.rankings import Counts, Values
    from karat.stats.partial_changes import PossibleChange

    Ids = tuple[str, str]
    Ranks = Mapping[Ids, int]

DOUBT = 3
"""How many judgments the first guess of a gain is worth."""


@dataclass(frozen=True)
class PoolComparison:
    """What `karat compare` will say of two runs once all pairs are judged, as far as that is certain already."""

    metric: str
    baseline: str
    candidate: str
    change: PossibleChange
    open: int
    """How many pairs without a judgment could still change it."""


@dataclass(frozen=True)
class PoolValues:
    """Comparisons of the first run with each other one, and the value of each pair that could change one of them."""

    comparisons: tuple[PoolComparison, ...]
    value: Mapping[Ids, float]


def value_pairs(
    ranks: Mapping[str, Ranks],
    grades: Mapping[Ids, float],
    queries: Iterable[str],
    *,
    measure: Measure,
    scale: Sequence[float],
    alpha: float = ALPHA,
) -> PoolValues:
    """Compare runs (their ranks by name) by the grades that are known, for all grades of `scale` that others may have.

    `queries` are those of the gold, whether runs return anything for them or not. One run alone is compared with
    nothing: its pairs are worth what their rank weighs.
    """
    ids = sorted({pair for own in ranks.values() for pair in own} | grades.keys())
    numbers = {query: i for i, query in enumerate(sorted({query for query, _ in ids} | set(queries)))}
    known = gain_of_grades(measure, np.array([grades.get(pair, np.nan) for pair in ids], dtype=np.float64))
    docs = PooledDocs(len(numbers), np.array([numbers[query] for query, _ in ids], dtype=np.int64), known)
    gains = gain_of_grades(measure, np.unique(np.asarray([0.0, *scale])))
    rank = {name: np.array([own.get(pair, 0) for pair in ids], dtype=np.int64) for name, own in ranks.items()}
    weight = {name: weigh_ranks(measure, own) for name, own in rank.items()}
    baseline, *candidates = ranks
    value = np.where(np.isnan(known), weight[baseline], 0.0) if not candidates else np.full(len(ids), -1.0)
    partial = [bound_change(measure, docs, weight[baseline], weight[name], gains) for name in candidates]
    rows = []
    for name, part, change in zip(candidates, partial, foresee_changes(partial, alpha=alpha), strict=True):
        ends = ((part.low, part.high), part.before, part.after)
        unsettled = np.any([high > low for low, high in ends], axis=0)
        matters = np.isnan(known) & unsettled[docs.query] & (change.final is None)
        if measure.metric.name == "precision":  # a doc below the top k changes nothing
            matters &= (weight[baseline] > 0) | (weight[name] > 0)
        group = (rank[name] > 0) + 2 * (rank[baseline] > 0)
        worth = _worth(measure, docs, (weight[baseline], weight[name]), gains, group)
        value = np.maximum(value, np.where(matters, worth, -1.0))
        rows.append(PoolComparison(measure.name, baseline, name, change, int(matters.sum())))
    return PoolValues(tuple(rows), {pair: worth for pair, worth in zip(ids, value.tolist(), strict=True) if worth >= 0})


def bound_change(measure: Measure, docs: PooledDocs, before: Values, after: Values, gains: Values) -> PartialChange:
    """What two runs can have, and how they can differ; `before` and `after` are what their ranks weigh."""
    ends = (bound_differences(measure, docs, weight, gains) for weight in (before, after, after - before))
    first, second, moved = ((found.low, found.high) for found in ends)
    return PartialChange(first, second, *moved)


def _worth(measure: Measure, docs: PooledDocs, weights: tuple[Values, Values], gains: Values, group: Counts) -> Values:
    """How far the judgment of each doc is expected to move the bound that is in the way of a decision.

    With the gains that are expected the candidate is better, worse, or neither. To prove that it is better, the lower
    bound has to rise: by what a doc of the candidate gains, and by what one of the baseline could gain and does not.
    """
    expected, pull = _expect_gains(docs, group, gains), weights[1] - weights[0]
    guessed = PooledDocs(docs.queries, docs.query, expected)
    (guess,) = foresee_changes([bound_change(measure, guessed, *weights, gains)])
    likely = guess.final
    missing = float(gains.max()) - expected
    rise = np.where(pull < 0, -pull * missing, pull * expected)
    drop = np.where(pull > 0, pull * missing, -pull * expected)
    return rise if likely == "higher" else drop if likely == "lower" else rise + drop


def _expect_gains(docs: PooledDocs, group: Counts, gains: Values) -> Values:
    """The gain of each doc: the known one, else the mean of docs that the same runs return, moved by its query's."""
    there = ~np.isnan(docs.gain)
    first = float(gains.max()) / 3
    mean = (docs.gain[there].sum() + DOUBT * first) / (there.sum() + DOUBT)
    rest = docs.gain - mean
    for key in (group, docs.query):
        shift = np.bincount(key[there], rest[there]) / (np.bincount(key[there]) + DOUBT)
        shift = np.pad(shift, (0, int(key.max(initial=0)) + 1 - len(shift)))
        rest = rest - shift[key]
        mean = mean + shift[key]
    return np.where(there, docs.gain, np.clip(mean, 0.0, gains.max()))
