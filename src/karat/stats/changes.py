"""Mean differences of paired values: an interval and the p that agrees with it, by sign flips and with one more unit.

The test flips the signs of units at random; the interval holds the means that it does not reject. Both allow for one
more unit that nobody saw (`bounded_means.py`), which decides where most units are tied: a test that sees no spread is
sure of anything.
"""

from __future__ import annotations

import math
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.records import dataclass
from karat.stats.betting import BETTING, CONTRADICTION, Bets
from karat.stats.bounded_means import PairedShares, UnitMeans, mean_quantiles
from karat.stats.defaults import DRAWS, SEED
from karat.stats.groups import defined_alike
from karat.stats.intervals import ALL_EQUAL, TOLERANCE, Interval
from karat.stats.resample import mean_of
from karat.stats.sign_flips import flip_signs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.stats.resample import Units

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]
    Ends = tuple[Floats, Floats]

ONE_MORE = "one more unit"
"""The test whose p is the chance of no change if there were one more unit."""
DecidingTest = Literal["randomization", "t"]


@dataclass(frozen=True)
class MeanChange:
    """The interval of a mean difference at each level, and the p of the tests that it is the inverse of."""

    intervals: tuple[Interval, ...]
    p: Mapping[str, float] = field(default_factory=dict)
    """The interval leaves out 0 if and only if the largest of these is below 1 − its confidence."""


def estimate_changes(
    differences: Floats,
    units: Units,
    groups: Sequence[Rows],
    *,
    bounds: Sequence[tuple[float, float]],
    shares: PairedShares | None = None,
    levels: Sequence[float],
    test: DecidingTest = "randomization",
    draws: int = DRAWS,
    seed: int = SEED,
) -> list[list[MeanChange]]:
    """The mean of each row of differences in each group of queries (columns).

    `bounds` are the least and the largest difference that each row can have, `shares` where the two runs are on the
    scale, which shows the ties too: differences from a share of a baseline vary even if no query changed.
    """
    shares = shares or PairedShares.at_top(differences, np.array([most for _, most in bounds]))
    out: list[dict[int, MeanChange]] = [{} for _ in groups]
    parts: list[tuple[dict[int, MeanChange], list[int], _Part]] = []
    for rows, part, own, places in defined_alike(differences, units, groups):
        scale = np.array([bounds[i] for i in rows])
        there = ~np.isnan(differences[rows[0]])
        for target, place in zip(out, places, strict=True):
            mine = own if len(place) == part.shape[1] else own.take(place)
            queries = np.flatnonzero(there)[place] if there.any() else place
            bets = np.full(len(rows), mine.day is not None and mine.alike) & np.isfinite(scale).all(axis=1)
            for chosen in (np.flatnonzero(~bets), np.flatnonzero(bets)):
                if len(chosen):
                    names = [rows[i] for i in chosen]
                    values, pairs = part[chosen][:, place], shares.take(names, queries)
                    parts.append((target, names, _Part.of(values, mine, scale[chosen], pairs, bool(bets[chosen[0]]))))
    tails = [(1 - level) / 2 for level in levels]
    reaches = iter(mean_quantiles([end for _, _, one in parts for end in one.ends_with_one_more(tails)]))
    for target, names, one in parts:
        target.update(zip(names, one.changes(levels, test, draws, seed, reaches), strict=True))
    return [[one[i] for i in range(len(differences))] for one in out]


@dataclass(frozen=True)
class _Part:
    """Rows that all queries of a group have, and the group's units."""

    rows: Floats
    units: Units
    bounds: Floats
    seen: UnitMeans
    bets: bool
    """Whether the intervals hold at every look."""

    @staticmethod
    def of(rows: Floats, units: Units, bounds: Floats, shares: PairedShares, bets: bool) -> _Part:
        return _Part(rows, units, bounds, UnitMeans.of(rows, units, shares), bets)

    @property
    def n(self) -> int:
        return 0 if np.isnan(self.rows).any() else self.rows.shape[1]

    @cached_property
    def known(self) -> bool:
        """Whether there are enough units to say anything."""
        return self.n > 0 and len(self.seen.top) > 1

    @cached_property
    def extremes(self) -> tuple[UnitMeans, UnitMeans]:
        return _with_extremes(self.seen, self.bounds)

    def ends_with_one_more(self, tails: Sequence[float]) -> list[tuple[UnitMeans, float]]:
        """The quantiles that `changes` needs: with one more unit, the lower and the upper end at each level."""
        if not self.known or self.bets:
            return []
        worse, better = self.extremes
        return [end for tail in tails for end in ((worse, tail), (better, 1 - tail))]

    def changes(
        self, levels: Sequence[float], test: DecidingTest, draws: int, seed: int, reaches: Iterator[Floats]
    ) -> list[MeanChange]:
        """The change of each row; `reaches` gives the ends with one more unit."""
        n, seen, bounds = self.n, self.seen, self.bounds
        if not self.known:
            means = [mean_of(row, self.units) for row in self.rows]
            return [MeanChange((Interval(m, math.nan, math.nan, "none", n),) * len(levels), {test: 1.0}) for m in means]
        if self.bets:
            return _betting_changes(self.rows, self.units, bounds, levels)
        n_eff = math.nan if self.units.plain else float(seen.effective[0])
        estimates = seen.top.sum(axis=0) / seen.bottom.sum(axis=0)
        if test == "t":
            (p, ends), flips = student_changes(seen, levels), np.zeros(len(self.rows), np.int64)
        else:
            counted = seen.parts if len(seen.parts) == len(self.rows) else ()
            p, ends, flips = flip_signs(
                seen.top, seen.bottom[:, 0], levels=levels, draws=draws, seed=seed, counted=counted
            )
        unknown = (seen.values == seen.values[0]).all(axis=0) & ~np.isfinite(bounds).all(axis=1)
        tied = (seen.values == 0).all(axis=0)  # flips of nothing say nothing
        names = [ALL_EQUAL if blank else test for blank in unknown]
        intervals = []
        for low, high in ends:
            least, most = next(reaches), next(reaches)
            count = np.where(((low < least) | (high > most)) & ~tied & ~unknown, flips, 0)
            low = np.where(unknown, math.nan, np.where(tied, least, np.minimum(low, least)))
            high = np.where(unknown, math.nan, np.where(tied, most, np.maximum(high, most)))
            intervals.append(
                [
                    Interval(float(e), float(a), float(b), name, n, n_eff, int(c))
                    for e, a, b, name, c in zip(estimates, low, high, names, count, strict=True)
                ]
            )
        p_more = np.where(unknown, 1.0, _p_of_none(*self.extremes))
        tests = [{test: float(a), ONE_MORE: float(b)} for a, b in zip(p, p_more, strict=True)]
        return [MeanChange(one, p) for one, p in zip(zip(*intervals, strict=True), tests, strict=True)]


def _betting_changes(part: Floats, units: Units, bounds: Floats, levels: Sequence[float]) -> list[MeanChange]:
    """Changes whose intervals and p hold at every look."""
    bets, n = Bets.of(part, units, bounds), part.shape[1]
    n_eff = math.nan if units.plain else units.effective
    ends = [bets.ends((1 - level) / 2) for level in levels]
    out = []
    for i, (row, p) in enumerate(zip(part, bets.p_of_none(), strict=True)):
        mean, empty = mean_of(row, units), any(math.isnan(low[i]) for low, _ in ends)
        name = CONTRADICTION if empty else BETTING
        intervals = [Interval(mean, float(low[i]), float(high[i]), name, n, n_eff) for low, high in ends]
        out.append(MeanChange(tuple(intervals), {BETTING: 1.0 if empty else float(p)}))
    return out


def p_with_one_more(values: Floats, shares: Floats, units: Units, bounds: tuple[float, float]) -> Floats:
    """For every pair of rows (runs × queries): the p of no difference in means if there were one more unit.

    `shares` say where the values are on the scale, `bounds` how far they can be apart.
    """
    there = np.asarray(~np.isnan(values).any(axis=0))
    first, second = np.triu_indices(len(values), 1)
    pairs = PairedShares(shares[second][:, there], shares[first][:, there])
    seen = UnitMeans.of((values[first] - values[second])[:, there], units.only(there), pairs)
    out = np.ones((len(values), len(values)))
    if len(seen.top) > 1:
        scale = np.array([bounds] * len(first))
        out[first, second] = out[second, first] = _p_of_none(*_with_extremes(seen, scale))
    return out


def _with_extremes(seen: UnitMeans, bounds: Floats) -> tuple[UnitMeans, UnitMeans]:
    """The units with one more that is as bad, and with one that is as good, as it may be."""
    least, most = seen.change_extremes(bounds[:, 0], bounds[:, 1])
    return seen.with_one_more(least), seen.with_one_more(most)


def _p_of_none(worse: UnitMeans, better: UnitMeans) -> Floats:
    """The two-sided p of a mean difference of 0."""
    nothing = np.zeros(worse.top.shape[1])
    rises = worse.top.sum(axis=0) > 0
    p = np.where(rises, worse.share_below(nothing, rises), 1 - better.share_below(nothing, ~rises))
    rest = p >= 0.5  # else the other chance is above a half: one more unit is never worse in `better`
    if rest.any():
        others = 1 - better.share_below(nothing, rises & rest), worse.share_below(nothing, ~rises & rest)
        p = np.fmin(p, np.where(rises, *others))
    out: Floats = np.minimum(2 * p, 1.0)
    return out


def student_changes(seen: UnitMeans, levels: Sequence[float]) -> tuple[Floats, list[Ends]]:
    """Student's t of units: its two-sided p, and the ends at each level."""
    from karat.stats.special import stdtr, stdtrit

    count, errors = seen.effective, seen.errors
    means = seen.top.sum(axis=0) / seen.bottom.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(errors > np.abs(means) * TOLERANCE, 2 * stdtr(count - 1, -np.abs(means) / errors), 1.0)
    half = [stdtrit(count - 1, 0.5 + level / 2) * errors for level in levels]
    return p, [(means - h, means + h) for h in half]
