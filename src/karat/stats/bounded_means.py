"""Gaffke's interval for means of bounded values: what the mean may be if one more unit were at its bound.

Units get random shares (those of a Dirichlet distribution, all alike), and so does one more unit with an extreme value:
the quantile of the mean under these shares is an end of the interval (Gaffke 2005). For values of 0 and 1 that is
Clopper & Pearson's interval; with all n values at a bound the mean is within 1 − tail^(1/n) of the range from it. The
distribution is that of a sum of exponentials, found by saddlepoint (Barndorff-Nielsen's r*): nothing is drawn.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from karat.records import dataclass
from karat.stats.counted_units import ONCE, CountedUnits, side_by_side, total
from karat.stats.distributions import beta_quantile, normal_quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from karat.stats.resample import Units

    Floats = NDArray[np.float64]

STEPS = 60
CLOSE = 1e-9
"""How far an end may be from its quantile, in standard deviations."""
HEAVIEST = 6
"""One more unit weighs at least as much as the heaviest one by this."""
SHOWN = 3
"""How much less one more unit weighs, the farther values have been seen to reach."""
WHOLE = 0.5
"""A difference counts in full from this share of what there is to lose or to win."""
KNOWN = 1 / 6
"""How fast one more unit's reach falls with the number of units that count in full: the power of that number."""
SEEN, SLANT = 2.7, 1.3
"""How many conversations one counts for that is away from the bounds, and how much more the other bound matters."""
EQUAL = 1e-11
"""Shares of the scale that are this close are equal."""
TOGETHER = 1 << 16
"""Units × columns whose quantiles are searched for together."""
MANY = 1 << 10
"""Of so many units, equal ones are counted: most metrics have few values."""


@dataclass(frozen=True)
class PairedShares:
    """Where two runs are on the scale, query by query: 0 is its lowest value, 1 its highest (rows × queries)."""

    before: Floats
    after: Floats

    @staticmethod
    def at_top(differences: Floats, spans: Floats) -> PairedShares:
        """Where only differences are known, of scales so long: the higher value of each pair is at the top."""
        moved = differences / np.where(np.isfinite(spans), spans, math.inf)[:, None]
        return PairedShares(1 - np.maximum(moved, 0), 1 + np.minimum(moved, 0))

    def take(self, rows: list[int], queries: NDArray[np.int64]) -> PairedShares:
        """Those of some rows and queries."""
        return PairedShares(self.before[rows][:, queries], self.after[rows][:, queries])


@dataclass(frozen=True)
class Moves:
    """How far units moved (units × columns), and how far they may: falls and rises, all in shares of the scale."""

    sizes: Floats
    fall: Floats
    rise: Floats

    @staticmethod
    def of(shares: PairedShares, units: Units) -> Moves:
        """No query falls by more than the baseline has, and none rises by more than the candidate has."""
        top, bottom = _with_weight(*units.sums(np.abs(shares.after - shares.before)))
        weights = None if units.plain else units.weight
        room = [typical_share(side, weights) for side in (shares.before, shares.after)]
        return Moves(top / bottom, *room)


def _with_weight(top: Floats, bottom: Floats) -> tuple[Floats, Floats]:
    """The units that have weight in any column."""
    there = (bottom > 0).any(axis=1)
    return (top, bottom) if there.all() else (top[there], bottom[there])


def typical_share(shares: Floats, weights: Floats | None = None) -> Floats:
    """The mean of each row, each query counting by its share: of values of 0 and 1 it is 1.

    Where one query after the other is lost at random, this is what those have that carry the loss. Rows of zeros say
    nothing: 1.
    """
    total, squares = ((each if weights is None else each * weights).sum(axis=1) for each in (shares, shares**2))
    with np.errstate(invalid="ignore"):
        out: Floats = np.where(total > 0, squares / np.where(total > 0, total, 1.0), 1.0)
    return out


def reach_of_one_more(typical: Floats, apart: Floats, whole: Floats) -> Floats:
    """How far one more unit may move, in shares of the scale, if so many units are apart, and so many in full.

    With no unit apart, or one, it is the whole scale. The more there are, the nearer it comes to the typical share; and
    the more of them count in full, the more is known of how far they go: the power keeps the error rates of
    bench/error_rates.py.
    """
    out: Floats = (typical + (1 - typical) / np.maximum(apart, 1.0)) * np.maximum(whole, 1.0) ** -KNOWN
    return out


def counted_in_full(sizes: Floats, typical: Floats) -> Floats:
    """How much each move says of how far others go: a small one says little."""
    out: Floats = np.minimum(sizes / (WHOLE * typical), 1.0) ** 2
    return out


def reach_shown(way: Floats) -> Floats:
    """How much a value says of how far others reach, if it lies this share of the way from the mean to a bound.

    Values at the mean say nothing; those at the bound, no more than a share of 0 and 1 does.
    """
    near = np.clip(way, 0.0, 1.0)
    out: Floats = near**2 * (1 - near)
    return out


def weight_of_one_more(reach: Floats) -> Floats:
    """The weight of one more unit at a bound, in usual ones, if values have shown so much of how far they reach.

    One value alone shows nothing.
    """
    out: Floats = 1 / (1 + SHOWN * (reach.sum(axis=0) - reach.max(axis=0)))
    return out


@dataclass(frozen=True)
class UnitMeans:
    """Weighted sums and weights of units (rows) that all have a value, in columns, and how many queries they hold."""

    top: Floats
    bottom: Floats
    queries: int
    moves: Moves | None = None
    """Of differences."""
    without: UnitMeans | None = None
    """The same units without the last one."""

    @staticmethod
    def of(values: Floats, units: Units, shares: PairedShares | None = None) -> UnitMeans:
        """Of rows of values without gaps; units without weight are left out."""
        top, bottom = _with_weight(*units.sums(values))
        moves = None if shares is None else Moves.of(shares, units)
        return UnitMeans(top, bottom, int((units.weight > 0).sum()), moves)

    @cached_property
    def values(self) -> Floats:
        return self.top / self.bottom

    @property
    def effective(self) -> Floats:
        """Kish 1965: how many units of equal weight say as much, for each column."""
        sums: Floats = self.bottom.sum(axis=0) ** 2 / (self.bottom**2).sum(axis=0)
        return sums

    @property
    def errors(self) -> Floats:
        """The standard error of each column's mean; of plain queries it is sd/√n."""
        total, count = self.bottom.sum(axis=0), self.effective
        means = self.top.sum(axis=0) / total
        out: Floats = np.sqrt(count / (count - 1) * ((self.top - means * self.bottom) ** 2).sum(axis=0)) / total
        return out

    def level_extremes(self, least: Floats, most: Floats) -> tuple[Floats, Floats]:
        """The lowest and the highest value that one more unit may have, by column.

        A query may be at the bound. For the mean of a conversation that is the less likely, the more units were seen
        away from both bounds, and above all from the other one; units of unequal weights say less. Without a bound, it
        is the most extreme value seen.
        """
        span, middle = most - least, self.top.sum(axis=0) / self.bottom.sum(axis=0)
        pulls = (self.top - middle * self.bottom) / self.usual_weight  # a long conversation pulls more than a short one
        low, high = np.maximum(middle + pulls.min(axis=0), least), np.minimum(middle + pulls.max(axis=0), most)
        power = 2 * (1 - len(self.top) / max(self.queries, 1))
        alike = np.sqrt(self.effective / len(self.top))
        out = []
        for end, bound, away in ((low, least, most - middle), (high, most, middle - least)):
            with np.errstate(invalid="ignore", divide="ignore"):
                share = np.where(np.isfinite(span), away / span, 0.5)
                counted = SEEN * self.effective * alike * (1 - share) * share**SLANT
                reach = np.maximum(counted, 1.0) ** -power
                out.append(np.where(np.isfinite(bound), end + (bound - end) * reach, end))
        return out[0], out[1]

    def change_extremes(self, least: Floats, most: Floats) -> tuple[Floats, Floats]:
        """The worst and the best difference that one more unit may have, by column.

        Without a scale, it is the most extreme difference seen.
        """
        values, moves = self.values, self.moves
        if moves is None:
            raise TypeError("differences alone do not say how far they may go")
        apart = self._count(moves.sizes > EQUAL)
        reach = [
            reach_of_one_more(room, apart, self._count(counted_in_full(moves.sizes, room)))
            for room in (moves.fall, moves.rise)
        ]
        low, high = np.minimum(values.min(axis=0), 0), np.maximum(values.max(axis=0), 0)
        with np.errstate(invalid="ignore"):
            worst, best = least * reach[0], most * reach[1]
        return np.where(np.isfinite(least), worst, low), np.where(np.isfinite(most), best, high)

    def _count(self, counts: Floats | NDArray[np.bool_]) -> Floats:
        """How many of `effective` units count, by column."""
        out: Floats = (self.bottom * counts).sum(axis=0) / self.bottom.sum(axis=0) * self.effective
        return out

    def level_weights(self, least: Floats, most: Floats) -> tuple[Floats, Floats]:
        """The weight of one more unit at the lower and at the upper end, by column: the usual one, or down to half.

        Values of 0 and 1 need all of it, as Clopper and Pearson's interval does, and so do equal values wherever they
        are. Values that are spread between the mean and the bound have shown how far others reach: half a unit, as in
        Jeffreys' prior, then keeps the error rates of bench/error_rates.py, and less where weights are unequal, since
        more values were seen than their effective number says: each shows how far it reaches by its share of the
        weight, and all of them as much as their number. Where a few units weigh most, it is at least a sixth of the
        heaviest. The mean of a conversation is between the bounds whatever its turns are: the more turns, the less it
        counts.
        """
        total, usual = self.bottom.sum(axis=0), self.usual_weight
        middle, alike = self.top.sum(axis=0) / total, np.sqrt(self.effective / len(self.top))
        counts = self.bottom / total * len(self.top)
        fewest = np.minimum(np.maximum(0.5 * alike * usual, self.bottom.max(axis=0) / HEAVIEST), usual)
        plainness = len(self.top) / max(self.queries, 1)
        out = []
        for bound in (least, most):
            way = np.where(middle == bound, 0.0, (middle - self.values) / np.where(middle == bound, 1, middle - bound))
            out.append(np.maximum(weight_of_one_more(counts * reach_shown(way)) ** plainness * usual, fewest))
        return out[0], out[1]

    def with_one_more(self, value: Floats, weight: Floats | None = None) -> UnitMeans:
        """These units and another one, of their usual weight unless another is given."""
        weight = self.usual_weight if weight is None else weight
        top, bottom = np.vstack((self.top, weight * value)), np.vstack((self.bottom, weight))
        return UnitMeans(top, bottom, self.queries, without=self)

    @property
    def usual_weight(self) -> Floats:
        """The weight of each of `effective` units that weigh as much as these."""
        weight: Floats = (self.bottom**2).sum(axis=0) / self.bottom.sum(axis=0)
        return weight

    @property
    def spread(self) -> Floats:
        """About the standard deviation of the mean under random shares of the units, by column."""
        return np.concatenate([_start(units)[3] for units in self.parts])

    def mean_quantile(self, share: float) -> Floats:
        """The quantile of the mean under random shares of the units, by column."""
        return mean_quantiles([(self, share)])[0]

    def exact_quantiles(self, share: float) -> Floats:
        """The quantile of columns with no more than two values and equal weights; NaN for the others."""
        low, high, above, at_low, plain = self._two_values
        counts = zip(above.tolist(), at_low.tolist(), plain.tolist())
        quantile = low + (high - low) * np.array(
            [beta_quantile(a, b, share) if use else np.nan for a, b, use in counts]
        )
        return np.where(plain, np.where(low == high, low, quantile), np.nan)

    @cached_property
    def _two_values(self) -> tuple[Floats, Floats, Floats, Floats, NDArray[np.bool_]]:
        """The least and the largest value, how many units are above and at the least, and whether that is all."""
        of_parts, plain = [], []
        for tops, weights, counts in self.parts:
            values = tops / weights
            low, high = values.min(axis=0), values.max(axis=0)
            at_low = total(counts, values == low)
            of_parts.append((low, high, np.maximum(len(self.top) - at_low, 1), np.maximum(at_low, 1)))
            plain.append((weights == weights[0]).all(axis=0) & ((values == low) | (values == high)).all(axis=0))
        low, high, above, at_low = np.hstack(of_parts)
        return low, high, above, at_low, np.concatenate(plain)

    def share_below(self, at: Floats, wanted: NDArray[np.bool_] | None = None) -> Floats:
        """The chance under random shares of the units that the mean is not above this, by column; NaN if not wanted."""
        from karat.stats.special import betainc, ndtr

        low, high, above, at_low, plain = self._two_values
        span = np.where(high > low, high - low, 1.0)
        exact = betainc(above, at_low, np.clip((at - low) / span, 0.0, 1.0))
        inside, wanted = (at > low) & (at < high), np.full(len(at), True) if wanted is None else wanted
        out = np.where(~inside, np.where(at >= high, 1.0, 0.0), np.where(plain & wanted, exact, math.nan))
        for columns in batched(self.columns(inside & ~plain & wanted)):
            places = np.concatenate([one.places for one in columns])
            out[places] = ndtr(_score(side_by_side([one.units for one in columns]), at[places]))
        return out

    def columns(self, wanted: NDArray[np.bool_], of: int = 0) -> Iterator[Columns]:
        """The wanted columns with their places."""
        first = 0
        for units in self.parts:
            own = np.flatnonzero(wanted[first : first + units.tops.shape[1]])
            if len(own):
                yield Columns(of, own + first, units.take(own))
            first += units.tops.shape[1]

    @cached_property
    def parts(self) -> list[CountedUnits]:
        """The units of all columns together; where they are many, each column by itself, with equal units counted."""
        if self.without is not None and len(self.without.top) >= MANY:
            last = zip(self.without.parts, self.top[-1], self.bottom[-1], strict=True)
            return [units.with_one(top, weight) for units, top, weight in last]
        if len(self.top) < MANY or self.without is not None:
            return [CountedUnits(self.top, self.bottom, ONCE)]
        return [CountedUnits.of(top[:, None], weights) for top, weights in zip(self.top.T, self.bottom.T, strict=True)]


class Columns(NamedTuple):
    """Columns whose quantiles are searched for: the place of their means among those that were sought, and theirs."""

    of: int
    places: NDArray[np.int64]
    units: CountedUnits


def mean_quantiles(sought: Sequence[tuple[UnitMeans, float]]) -> list[Floats]:
    """The quantile of each mean under random shares of its units, by column."""
    solutions = [means.exact_quantiles(share) for means, share in sought]
    parts = enumerate(zip(sought, solutions, strict=True))
    columns = [one for i, ((means, _), known) in parts for one in means.columns(np.isnan(known), i)]
    targets = [normal_quantile(share) for _, share in sought]
    for batch in batched(columns):
        _search(batch, targets, solutions)
    return solutions


def batched(columns: Iterable[Columns]) -> Iterator[list[Columns]]:
    """Columns of about as many units together, as far as a cache holds them."""
    batch: list[Columns] = []
    width = 0
    for one in sorted(columns, key=lambda one: (len(one.units.counts) == 1, len(one.units.tops))):
        size, own = len(one.units.tops), len(one.places)
        if batch:
            other = batch[0].units
            alike = (len(other.counts) == 1) == (len(one.units.counts) == 1) and size <= 2 * len(other.tops)
            if not alike or size * (width + own) > TOGETHER:
                yield batch
                batch, width = [], 0
        batch.append(one)
        width += own
    if batch:
        yield batch


def _search(batch: Sequence[Columns], targets: Sequence[float], solutions: list[Floats]) -> None:
    """Put the quantiles of a batch in their places."""
    starts = np.hstack([_start(one.units) for one in batch])
    target = np.concatenate([np.full(len(one.places), targets[one.of]) for one in batch])
    quantiles = _quantiles(side_by_side([one.units for one in batch]), starts, target)
    ends = np.cumsum([len(one.places) for one in batch])[:-1]
    for one, own in zip(batch, np.split(quantiles, ends), strict=True):
        solutions[one.of][one.places] = own


def _start(units: CountedUnits) -> Floats:
    """Of each column the least and the largest value, the mean, and about its standard deviation."""
    tops, weights, counts = units
    values, weight = tops / weights, total(counts, weights)
    middle = total(counts, tops) / weight
    spread = np.sqrt(total(counts, weights**2 * (values - middle) ** 2)) / weight
    return np.array([values.min(axis=0), values.max(axis=0), middle, spread])


def _quantiles(units: CountedUnits, starts: Floats, target: Floats) -> Floats:
    """Where the normal score of each column is its target: between low and high, by secants from a normal start."""
    low, high, middle, spread = starts
    slope = np.where(spread > 0, spread, 1.0)
    out = np.clip(middle + target * spread, low + 0.01 * (high - low), high - 0.01 * (high - low))
    before: Floats | None = None
    score_before = np.zeros_like(out)
    left = np.arange(len(out))
    result: Floats = np.empty_like(out)
    for _ in range(STEPS):
        score = _score(units, out)
        off = score - target
        result[left] = out
        search = ~(np.abs(off) < CLOSE)
        if not search.any():
            break
        low, high = np.where(off < 0, out, low), np.where(off > 0, out, high)
        if before is not None:
            moved = score - score_before
            steep = (out != before) & (moved * (out - before) > 0)
            slope = np.where(steep, (out - before) / np.where(steep, moved, 1.0), slope)
        step = out - off * slope
        before, score_before = out, score
        out = np.where((step > low) & (step < high), step, (low + high) / 2)
        if not search.all():
            left, units = left[search], units.take(np.flatnonzero(search))
            low, high, slope, target = low[search], high[search], slope[search], target[search]
            out, before, score_before = out[search], before[search], score_before[search]
    else:
        result[left] = out
    return result


def _score(units: CountedUnits, at: Floats) -> Floats:
    """The chance that the mean of each column is not above this, as a normal score."""
    parts, counts = units.tops - at * units.weights, units.counts
    work = np.abs(parts)
    scale = work.max(axis=0)
    parts /= np.where(scale > 0, scale, 1.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        low, high = 1 / parts.min(axis=0), 1 / parts.max(axis=0)
        tilt = np.zeros(parts.shape[1])
        for _ in range(STEPS):
            np.multiply(parts, tilt, out=work)
            np.subtract(1, work, out=work)
            np.divide(parts, work, out=work)  # shares
            slope = total(counts, work)
            bend = total(counts, np.square(work, out=work))
            low, high = np.where(slope < 0, tilt, low), np.where(slope > 0, tilt, high)
            step = tilt - slope / bend
            new = np.where((step > low) & (step < high), step, (low + high) / 2)
            settled = np.abs(slope) <= 1e-11 * np.sqrt(bend)
            if bool(settled.all()):
                break
            tilt = np.where(settled, tilt, new)
        log = -total(counts, np.log1p(-tilt * parts))
        root = np.sign(tilt) * np.sqrt(np.maximum(-2 * log, 0.0))
        other = tilt * np.sqrt(total(counts, parts**2 / (1 - tilt * parts) ** 2))
        scores: Floats = np.where(np.abs(root) < 1e-4, root, root + np.log(other / root) / root)
    return scores
