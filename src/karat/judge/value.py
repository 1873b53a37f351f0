"""The value of a judgment: which pairs could still change a comparison of runs, and which comparisons are decided.

A comparison is decided when it says the same for all grades that unjudged docs might have. That holds whatever the
order of judging, and however often one looks. The value of a pair only says what to judge first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.unjudged_bounds import PooledDocs, bound_differences, gain_of_grades, weigh_ranks
from karat.records import dataclass
from karat.stats.defaults import ALPHA
from karat.stats.partial_changes import PartialChange, PossibleChange, foresee_changes
from karat.stats.partial_levels import PartialLevel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.metrics.grammar import Measure
    from karat.model.rankings import Counts, Values

    Flags = NDArray[np.bool_]
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


@dataclass(frozen=True)
class PooledRuns:
    """The docs of runs as a metric sees them: what they gain, and what each run's ranks weigh."""

    measure: Measure
    ids: Sequence[Ids]
    docs: PooledDocs
    gains: Values
    """What docs without a judgment may gain."""
    rank: Mapping[str, Counts]
    weight: Mapping[str, Values]

    @staticmethod
    def of(
        ranks: Mapping[str, Ranks],
        grades: Mapping[Ids, float],
        queries: Iterable[str],
        measure: Measure,
        scale: Sequence[float],
    ) -> PooledRuns:
        """From the ranks of runs, the grades that are known, and all queries of the gold."""
        ids = sorted({pair for own in ranks.values() for pair in own} | grades.keys())
        numbers = {query: i for i, query in enumerate(sorted({query for query, _ in ids} | set(queries)))}
        known = gain_of_grades(measure, np.array([grades.get(pair, np.nan) for pair in ids], dtype=np.float64))
        docs = PooledDocs(len(numbers), np.array([numbers[query] for query, _ in ids], dtype=np.int64), known)
        gains = gain_of_grades(measure, np.unique(np.asarray([0.0, *scale])))
        rank = {name: np.array([own.get(pair, 0) for pair in ids], dtype=np.int64) for name, own in ranks.items()}
        return PooledRuns(measure, ids, docs, gains, rank, {n: weigh_ranks(measure, own) for n, own in rank.items()})

    @property
    def baseline(self) -> str:
        """The first run."""
        return next(iter(self.rank))

    def change_to(self, run: str) -> PartialChange:
        """What the first run and another can have, and how they can differ."""
        before, after = self.weight[self.baseline], self.weight[run]
        ends = (bound_differences(self.measure, self.docs, w, self.gains) for w in (before, after, after - before))
        first, second, moved = ((found.low, found.high) for found in ends)
        return PartialChange(first, second, *moved)

    def level_of(self, run: str) -> PartialLevel:
        """What a run can have."""
        bounds = bound_differences(self.measure, self.docs, self.weight[run], self.gains)
        return PartialLevel(bounds.low, bounds.high)

    def expect(self, run: str) -> PooledRuns:
        """The same runs as if every doc had the gain that is expected of it."""
        group = (self.rank[run] > 0) + 2 * (self.rank[self.baseline] > 0)
        return replace(self, docs=replace(self.docs, gain=_expect_gains(self.docs, group, self.gains)))

    def find_open(self, unsettled: Flags, weights: Sequence[Values]) -> Flags:
        """The unjudged docs of queries that are not settled; for precision those in the top k of one of the runs."""
        out = np.isnan(self.docs.gain) & unsettled[self.docs.query]
        if self.measure.metric.name == "precision":  # a doc below the top k changes nothing
            out &= np.any([weight > 0 for weight in weights], axis=0)
        return out

    def rise(self, pull: Values) -> Values:
        """How far the lower bound of a sum with these weights is expected to rise with each doc's judgment.

        By what a doc gains that pulls it up, and by what one that pulls it down could gain and does not. It is a share
        of what a run can gain in all, so that metrics can be compared. Gains must be known, or expected.
        """
        gain, most = self.docs.gain, float(self.gains.max())
        ranks = np.arange(1, int(self.measure.k or max(own.max(initial=1) for own in self.rank.values())) + 1)
        worth = np.where(pull < 0, -pull * (most - gain), pull * gain)
        out: Values = worth / (max(most, 1.0) * weigh_ranks(self.measure, ranks).sum())
        return out

    def by_pair(self, value: Values) -> dict[Ids, float]:
        """The values by pair; those below 0 are left out."""
        return {pair: worth for pair, worth in zip(self.ids, value.tolist(), strict=True) if worth >= 0}


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
    runs = PooledRuns.of(ranks, grades, queries, measure, scale)
    baseline, *candidates = ranks
    weight, unjudged = runs.weight, np.isnan(runs.docs.gain)
    value = np.full(len(runs.ids), -1.0) if candidates else np.where(unjudged, weight[baseline], 0.0)
    partial = [runs.change_to(name) for name in candidates]
    rows = []
    for name, part, change in zip(candidates, partial, foresee_changes(partial, alpha=alpha), strict=True):
        matters = runs.find_open(part.unsettled & (change.final is None), (weight[baseline], weight[name]))
        value = np.maximum(value, np.where(matters, _worth(runs, name), -1.0))
        rows.append(PoolComparison(measure.name, baseline, name, change, int(matters.sum())))
    return PoolValues(tuple(rows), runs.by_pair(value))


def _worth(runs: PooledRuns, name: str) -> Values:
    """How far the judgment of each doc is expected to move the bound that is in the way of a decision.

    With the gains that are expected the candidate is better, worse, or neither. To prove that it is better, the lower
    bound has to rise: by what a doc of the candidate gains, and by what one of the baseline could gain and does not.
    """
    expected, pull = runs.expect(name), runs.weight[name] - runs.weight[runs.baseline]
    (guess,) = foresee_changes([expected.change_to(name)])
    rise, drop = expected.rise(pull), expected.rise(-pull)
    return rise if guess.final == "higher" else drop if guess.final == "lower" else rise + drop


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
