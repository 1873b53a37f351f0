"""Samples of queries or conversations that nobody has collected yet: drawn from the values at hand, moved to a truth.

The distribution of the values is tilted exponentially, which keeps their support and changes as little else as can be,
so that its mean is the truth. Whole conversations are drawn where there are some. Intervals of the samples are those
of `aggregates.py`, which every verb takes; Student's t of many more samples takes the noise of the simulation out of
the shares (a control variate), so that few samples have to be judged.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import UsageError
from karat.records import dataclass
from karat.stats.aggregates import estimate_figures, measure_changes, score_differences
from karat.stats.resample import Units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from karat.stats.aggregates import IntervalChoice, Statistic
    from karat.stats.intervals import Interval

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]

FLIPS = 1000
"""Sign flips of each simulated sample; a verdict takes more, which moves an end by 2% of the interval's length."""
ROUGH = 6000
"""Samples that are judged by Student's t alone."""
LOT = 2_000_000
"""Values that are drawn at once."""
LEAST, START, SIMULATED, EXTRAPOLATED = 2, 100, 3200, 32_000
"""Numbers of units: the fewest, the one that a search begins with, and the largest simulated and named at all."""
STEPS, NEAR = 4, 0.005
"""A search narrows down this often at most, and ends where the chance is this near to the wanted one."""


@dataclass(frozen=True)
class Dialogue:
    """Conversations as somebody expects them: turns in each, and how alike their values are."""

    icc: float
    turns: int


@dataclass(frozen=True)
class Sample:
    """Samples of the same size and shape, one per row, as a verb would measure them."""

    values: Floats
    base: Floats | None
    units: Units

    @staticmethod
    def join(samples: Sequence[Sample]) -> tuple[Sample, list[Rows]]:
        """Samples of one shape after each other, as groups of queries that share no unit."""
        ends = np.cumsum([0, *(one.values.shape[1] for one in samples)])
        groups = [np.arange(start, end) for start, end in pairwise(ends.tolist())]
        if len(samples) == 1:
            return samples[0], groups
        first = np.cumsum([0, *(len(one.units) for one in samples)])
        unit = np.concatenate([one.units.unit + start for one, start in zip(samples, first)])
        days = [one.units.day for one in samples if one.units.day is not None]
        bases = [one.base for one in samples if one.base is not None]
        units = Units(
            unit,
            np.concatenate([one.units.weight for one in samples]),
            all(one.units.plain for one in samples),
            np.concatenate(days) if days else None,
        )
        values = np.concatenate([one.values for one in samples], axis=1)
        return Sample(values, np.concatenate(bases, axis=1) if bases else None, units), groups


@dataclass(frozen=True)
class RoughMeans:
    """Mean scores of samples, their standard errors, and how many units of equal weight each rests on."""

    mean: Floats
    error: Floats
    size: Floats

    @staticmethod
    def of(top: Floats, bottom: Floats) -> RoughMeans:
        """From sums and weights of units, samples × units."""
        total = bottom.sum(axis=1)
        size = total**2 / (bottom**2).sum(axis=1)
        mean = top.sum(axis=1) / total
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.sqrt(size / (size - 1) * ((top - mean[:, None] * bottom) ** 2).sum(axis=1)) / total
        return RoughMeans(mean, np.nan_to_num(error), size)

    @staticmethod
    def join(parts: Sequence[RoughMeans]) -> RoughMeans:
        """All samples of these."""
        columns = ([getattr(part, name) for part in parts] for name in ("mean", "error", "size"))
        return RoughMeans(*map(np.concatenate, columns))

    def half_widths(self, confidence: float) -> Floats:
        """Half the length of Student's interval."""
        from karat.stats.special import stdtrit

        half: Floats = stdtrit(np.maximum(self.size - 1, 1e-9), 0.5 + confidence / 2) * self.error
        return half


@dataclass(frozen=True)
class Population:
    """What samples are drawn from: the defined values of queries, and of a baseline on the same queries."""

    statistic: Statistic
    values: Floats
    units: Units
    base: Floats | None = None
    factor: float = 1.0
    """What the baseline is multiplied by."""
    dialogue: Dialogue | None = None
    """Conversations that are made of single queries; None draws the units that there are."""

    @staticmethod
    def of(
        statistic: Statistic, values: Floats, units: Units, *, base: Floats | None = None, factor: float = 1.0
    ) -> Population:
        """The population of the queries that have a value, and count."""
        there = ~np.isnan(values) & (units.weight > 0) & (True if base is None else ~np.isnan(base))
        own = base if base is None else base[there]
        return Population(statistic, values[there], units.only(there), own, factor)

    def with_dialogue(self, dialogue: Dialogue) -> Population:
        """The queries of this population in conversations of a stated kind."""
        return replace(
            self, units=Units.of(len(self.values), None, self.units.weight, self.units.day), dialogue=dialogue
        )

    @cached_property
    def scores(self) -> Floats:
        """What is averaged: the values, or their differences from the baseline."""
        if self.base is None:
            return self.statistic.scores(self.values)
        return score_differences(self.statistic, self.base, self.values, self.factor)

    @cached_property
    def unit_sums(self) -> tuple[Floats, Floats]:
        """Weighted sums of scores, and weights, of each unit."""
        top, bottom = self.units.sums(self.scores[None, :])
        return top[:, 0], bottom[:, 0]

    @property
    def clustered(self) -> bool:
        """Whether the units are conversations."""
        return self.dialogue is not None or len(self.units) < len(self.values)

    @property
    def turns(self) -> float:
        """Queries per unit."""
        return self.dialogue.turns if self.dialogue is not None else len(self.values) / max(len(self.units), 1)

    @property
    def mean(self) -> float:
        """The mean score."""
        top, bottom = self.unit_sums
        return float(top.sum() / bottom.sum())

    @property
    def deviation(self) -> float:
        """The standard deviation of a unit's score: that of its mean times the root of the number of units."""
        top, bottom = self.unit_sums
        if len(top) < 2:
            return math.nan
        means = (top - self.mean * bottom) / bottom.mean()
        spread = float(np.sqrt((means**2).sum() / (len(means) - 1)))
        if self.dialogue is None:
            return spread
        return spread * math.sqrt((1 + (self.dialogue.turns - 1) * self.dialogue.icc) / self.dialogue.turns)

    def correlation(self) -> float:
        """The intraclass correlation of the scores in conversations, by analysis of variance; NaN without any."""
        if self.dialogue is not None:
            return self.dialogue.icc
        sizes = np.bincount(self.units.unit).astype(float)
        groups, total = len(sizes), float(sizes.sum())
        if groups < 2 or groups == len(self.scores):
            return math.nan
        means = np.bincount(self.units.unit, self.scores) / sizes
        between = float((sizes * (means - self.scores.mean()) ** 2).sum()) / (groups - 1)
        within = float(((self.scores - means[self.units.unit]) ** 2).sum()) / (total - groups)
        usual = (total - float((sizes**2).sum()) / total) / (groups - 1)
        spread = between + (usual - 1) * within
        return min(max((between - within) / spread, 0.0), 1.0) if spread > 0 else math.nan

    def shares(self, truth: float) -> Floats:
        """The chance of each unit to be drawn, so that the mean score is the truth."""
        top, bottom = self.unit_sums
        return tilt(top - truth * bottom)

    def samples(self, shares: Floats, n: int, count: int, rng: np.random.Generator) -> Iterator[Sample]:
        """Samples of n units; conversations of different lengths, or weights, come one sample at a time."""
        if self.dialogue is not None:
            rows = self._turns(shares, n, count, rng)
            unit = np.repeat(np.arange(n), self.dialogue.turns)
            yield self._sample(rows, Units.scaled(unit, np.ones(len(unit)), len(unit) == n, self._one_day(unit)))
            return
        drawn = _draw(shares, (count, n), rng)
        if self.even:
            members = self._members[drawn]  # samples × units × queries
            unit = np.repeat(np.arange(n), members.shape[2])
            units = Units.scaled(unit, np.ones(len(unit)), len(unit) == n, self._one_day(unit))
            yield self._sample(members.reshape(count, -1), units)
            return
        places = [np.flatnonzero(self.units.unit == u) for u in range(len(self.units))]
        for row in drawn:
            rows = np.concatenate([places[u] for u in row])
            unit = np.repeat(np.arange(n), [len(places[u]) for u in row])
            units = Units.scaled(unit, self.units.weight[rows], len(unit) == n, self._one_day(unit))
            yield self._sample(rows[None, :], units)

    def _one_day(self, unit: Rows) -> Floats | None:
        """All queries at one look, where intervals have to hold at every look."""
        return None if self.units.day is None else np.zeros(len(unit))

    def _sample(self, rows: Rows, units: Units) -> Sample:
        return Sample(self.values[rows], None if self.base is None else self.base[rows], units)

    @property
    def even(self) -> bool:
        """Whether all units hold as many queries, which count alike."""
        sizes = np.bincount(self.units.unit)
        return bool((sizes == sizes[0]).all() and (self.units.weight == self.units.weight[0]).all())

    @cached_property
    def _members(self) -> Rows:
        order: Rows = np.argsort(self.units.unit, kind="stable").reshape(len(self.units), -1)
        return order

    def _turns(self, shares: Floats, n: int, count: int, rng: np.random.Generator) -> Rows:
        """Queries of conversations: a turn repeats its conversation's with chance √ICC, so two agree by chance ICC."""
        assert self.dialogue is not None
        turns = self.dialogue.turns
        own = np.repeat(_draw(shares, (count, n), rng), turns, axis=1)
        alike = rng.random((count, n * turns)) < math.sqrt(self.dialogue.icc)
        return np.where(alike, own, _draw(shares, (count, n * turns), rng))

    def intervals(
        self, samples: Sequence[Sample], choice: IntervalChoice, levels: Sequence[float]
    ) -> list[tuple[Interval, ...]]:
        """The intervals of each sample at each level of confidence."""
        if self._resamples(choice) and len(samples) > 1:  # units that are drawn are those of one sample
            return [one for sample in samples for one in self.intervals([sample], choice, levels)]
        sample, groups = Sample.join(samples)
        statistics = [self.statistic] * len(sample.values)
        if sample.base is None:
            by_level = {
                level: estimate_figures(
                    list(sample.values), statistics, sample.units, groups, replace(choice, confidence=level)
                )
                for level in dict.fromkeys(levels)
            }
            joined = {level: [one for group in found for one in group] for level, found in by_level.items()}
            return list(zip(*(joined[level] for level in levels), strict=True))
        changes = measure_changes(
            sample.base,
            sample.values,
            statistics,
            sample.units,
            groups,
            choice,
            levels=levels,
            factor=self.factor,
            draws=FLIPS,
        )
        return [change.intervals for group in changes for change in group]

    def _resamples(self, choice: IntervalChoice) -> bool:
        """Whether intervals of samples may be found by resamples."""
        bounded = all(map(math.isfinite, self.statistic.score_bounds())) and self.statistic.usual is None
        return choice.method != "auto" or self.statistic.aggregate == "quantile" or (self.base is None and not bounded)

    def many_means(self, shares: Floats, n: int, rng: np.random.Generator) -> RoughMeans:
        """Means of many samples of n units, for which no interval is found."""
        parts = []
        lot = max(1, int(LOT // (n * (self.turns if self.dialogue is not None else 1))))
        for start in range(0, ROUGH, lot):
            count = min(lot, ROUGH - start)
            if self.dialogue is not None:
                scores = self.scores[self._turns(shares, n, count, rng)]
                top = scores.reshape(count, n, self.dialogue.turns).sum(axis=2)
                parts.append(RoughMeans.of(top, np.full(top.shape, float(self.dialogue.turns))))
            else:
                drawn = _draw(shares, (count, n), rng)
                parts.append(RoughMeans.of(*(sums[drawn] for sums in self.unit_sums)))
        return RoughMeans.join(parts)

    def rough_means(self, sample: Sample) -> RoughMeans:
        """Means of these samples."""
        if sample.base is None:
            scores = self.statistic.scores(sample.values)
        else:
            scores = score_differences(self.statistic, sample.base, sample.values, self.factor)
        top, bottom = sample.units.sums(scores)
        return RoughMeans.of(top.T, bottom.T)


def tilt(pulls: Floats) -> Floats:
    """Chances in proportion to exp(λ · pull) under which the mean pull is 0."""
    scale = float(np.abs(pulls).max(initial=0.0))
    if scale == 0:
        return np.full(len(pulls), 1 / len(pulls))
    parts = pulls / scale
    if not parts.min() < 0 < parts.max():
        raise UsageError("the truth lies outside the values that were seen")

    def chances(slope: float) -> Floats:
        powers = slope * parts
        weights = np.exp(powers - powers.max())
        shares: Floats = weights / weights.sum()
        return shares

    low, high = -1.0, 1.0
    while float(chances(low) @ parts) > 0:
        low *= 2
    while float(chances(high) @ parts) < 0:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if float(chances(middle) @ parts) > 0:
            high = middle
        else:
            low = middle
    return chances((low + high) / 2)


def _draw(shares: Floats, size: tuple[int, ...], rng: np.random.Generator) -> Rows:
    """Random places with these shares: Walker's aliases, so that a draw is one look-up for any number of places."""
    count = len(shares)
    cut, other = np.array(shares / shares.sum() * count), np.arange(count)
    small, large = (list(np.flatnonzero(side)) for side in (cut < 1, cut >= 1))
    while small and large:
        poor, rich = small.pop(), large[-1]
        other[poor] = rich
        cut[rich] -= 1 - cut[poor]
        if cut[rich] < 1:
            small.append(large.pop())
    cut[small + large] = 1.0
    spots = rng.random(size) * count
    places: Rows = spots.astype(np.int64)
    return np.where(spots - places < cut[places], places, other[places])


@dataclass(frozen=True)
class UnitsNeeded:
    """How many units an outcome needs for a wanted chance."""

    n: int | None
    """None: more than `limit`."""
    limit: int
    """The largest number that was considered."""
    extrapolated: bool
    """Whether that is beyond all numbers whose chances were simulated."""


def find_units(power: float, chance: Callable[[int], float]) -> UnitsNeeded:
    """The number of units at which an outcome has this chance, from the chances that `chance` simulates.

    The number is doubled, or halved, until the chance is on the other side of the power, and then narrowed down.
    Between two numbers, and beyond the last, the normal score of the chance is taken to be linear in √n.
    """
    low = high = START
    if chance(START) < power:
        while chance(high) < power:
            if high == SIMULATED:
                return _extrapolate(power, chance)
            low, high = high, 2 * high
    else:
        while chance(low) >= power:
            if low == LEAST:
                return UnitsNeeded(LEAST, SIMULATED, False)
            low, high = max(low // 2, LEAST), low
    n = high
    for _ in range(STEPS):
        n = min(_cross(power, chance, low, high) or high, high)
        if n == high or abs(chance(n) - power) <= NEAR:
            break
        low, high = (n, high) if chance(n) < power else (low, n)
    return UnitsNeeded(n, SIMULATED, False)


def _extrapolate(power: float, chance: Callable[[int], float]) -> UnitsNeeded:
    n = _cross(power, chance, SIMULATED // 4, SIMULATED)
    if n is None:
        return UnitsNeeded(None, SIMULATED, False)
    return UnitsNeeded(n if n <= EXTRAPOLATED else None, EXTRAPOLATED, True)


def _cross(power: float, chance: Callable[[int], float], low: int, high: int) -> int | None:
    """Where the line through the chances of two numbers reaches the power; None where it does not rise."""
    from karat.stats.special import ndtri

    first, last = (float(ndtri(min(max(chance(n), 1e-4), 1 - 1e-4))) for n in (low, high))
    rise = (last - first) / (math.sqrt(high) - math.sqrt(low))
    if rise <= 0:
        return None
    return math.ceil(round((math.sqrt(low) + (float(ndtri(power)) - first) / rise) ** 2, 6))
