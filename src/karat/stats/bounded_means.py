"""Gaffke's interval for means of bounded values: what the mean may be if one more unit were at its bound.

Units get random shares (those of a Dirichlet distribution, all alike), and so does one more unit with an extreme value:
the quantile of the mean under these shares is an end of the interval (Gaffke 2005). For values of 0 and 1 that is
Clopper & Pearson's interval; with all n values at a bound the mean is within 1 − tail^(1/n) of the range from it. The
distribution is that of a sum of exponentials, found by saddlepoint (Barndorff-Nielsen's r*): nothing is drawn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.records import dataclass
from karat.stats.distributions import beta_quantile, normal_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        top, bottom = units.sums(np.abs(shares.after - shares.before))
        there = (bottom > 0).any(axis=1)
        room = [typical_share(side, units.weight) for side in (shares.before, shares.after)]
        return Moves(top[there] / bottom[there], *room)


def typical_share(shares: Floats, weights: Floats) -> Floats:
    """The mean of each row, each query counting by its share: of values of 0 and 1 it is 1.

    Where one query after the other is lost at random, this is what those have that carry the loss. Rows of zeros say
    nothing: 1.
    """
    total = (shares * weights).sum(axis=1)
    with np.errstate(invalid="ignore"):
        out: Floats = np.where(total > 0, (shares**2 * weights).sum(axis=1) / np.where(total > 0, total, 1.0), 1.0)
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

    @staticmethod
    def of(values: Floats, units: Units, shares: PairedShares | None = None) -> UnitMeans:
        """Of rows of values without gaps; units without weight are left out."""
        top, bottom = units.sums(values)
        there = (bottom > 0).any(axis=1)
        moves = None if shares is None else Moves.of(shares, units)
        return UnitMeans(top[there], bottom[there], int((units.weight > 0).sum()), moves)

    @property
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
        return UnitMeans(np.vstack((self.top, weight * value)), np.vstack((self.bottom, weight)), self.queries)

    @property
    def usual_weight(self) -> Floats:
        """The weight of each of `effective` units that weigh as much as these."""
        weight: Floats = (self.bottom**2).sum(axis=0) / self.bottom.sum(axis=0)
        return weight

    @property
    def spread(self) -> Floats:
        """About the standard deviation of the mean under random shares of the units, by column."""
        total = self.bottom.sum(axis=0)
        middle = self.top.sum(axis=0) / total
        out: Floats = np.sqrt((self.bottom**2 * (self.values - middle) ** 2).sum(axis=0)) / total
        return out

    def mean_quantile(self, share: float) -> Floats:
        """The quantile of the mean under random shares of the units, by column."""
        return mean_quantiles([(self, share)])[0]

    def take(self, columns: NDArray[np.int64]) -> UnitMeans:
        """Some of the columns."""
        return UnitMeans(self.top[:, columns], self.bottom[:, columns], self.queries)

    def exact_quantiles(self, share: float) -> Floats:
        """The quantile of columns with no more than two values and equal weights; NaN for the others."""
        low, high, above, at_low, plain = self._two_values()
        counts = zip(above.tolist(), at_low.tolist(), plain.tolist())
        quantile = low + (high - low) * np.array(
            [beta_quantile(a, b, share) if use else np.nan for a, b, use in counts]
        )
        return np.where(plain, np.where(low == high, low, quantile), np.nan)

    def _two_values(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """The least and the largest value, how many units are above and at the least, and whether that is all."""
        values = self.values
        low, high = values.min(axis=0), values.max(axis=0)
        at_low = (values == low).sum(axis=0)
        plain = (self.bottom == self.bottom[0]).all(axis=0) & ((values == low) | (values == high)).all(axis=0)
        return low, high, np.maximum(len(values) - at_low, 1), np.maximum(at_low, 1), plain

    def share_below(self, at: Floats) -> Floats:
        """The chance under random shares of the units that the mean is not above this, by column."""
        from karat.stats.special import betainc, ndtr

        low, high, above, at_low, plain = self._two_values()
        span = np.where(high > low, high - low, 1.0)
        exact = betainc(above, at_low, np.clip((at - low) / span, 0.0, 1.0))
        inside = (at > low) & (at < high)
        usual = ndtr(_score(self.top, self.bottom, np.where(inside, at, (low + high) / 2)))
        return np.where(~inside, np.where(at >= high, 1.0, 0.0), np.where(plain, exact, usual))


def mean_quantiles(sought: Sequence[tuple[UnitMeans, float]]) -> list[Floats]:
    """The quantile of each mean under random shares of its units, by column.

    Those of about as many units are searched for together, as far as a cache holds them.
    """
    solutions = [means.exact_quantiles(share) for means, share in sought]
    batch: list[int] = []
    columns = 0
    for i in sorted(range(len(sought)), key=lambda i: len(sought[i][0].top)):
        own = int(np.isnan(solutions[i]).sum())
        if not own:
            continue
        size = len(sought[i][0].top)
        if batch and (size > 2 * len(sought[batch[0]][0].top) or size * (columns + own) > TOGETHER):
            _search(sought, solutions, batch)
            batch, columns = [], 0
        batch.append(i)
        columns += own
    if batch:
        _search(sought, solutions, batch)
    return solutions


def _search(sought: Sequence[tuple[UnitMeans, float]], solutions: list[Floats], batch: Sequence[int]) -> None:
    """Put the quantiles of a batch in the places that are NaN; units of no weight make all parts as long."""
    open_columns = [np.flatnonzero(np.isnan(solutions[i])) for i in batch]
    ends = np.cumsum([0, *map(len, open_columns)])
    size = max(len(sought[i][0].top) for i in batch)
    top, bottom = (np.zeros((size, ends[-1])) for _ in range(2))
    low, high, middle, spread, target = (np.empty(ends[-1]) for _ in range(5))
    for i, columns, start, end in zip(batch, open_columns, ends[:-1], ends[1:], strict=True):
        means, share = sought[i]
        own = means if len(columns) == means.top.shape[1] else means.take(columns)
        here = slice(start, end)
        top[: len(own.top), here], bottom[: len(own.top), here] = own.top, own.bottom
        values = own.values
        low[here], high[here] = values.min(axis=0), values.max(axis=0)
        middle[here], spread[here] = own.top.sum(axis=0) / own.bottom.sum(axis=0), own.spread
        target[here] = normal_quantile(share)
    quantiles = _quantiles(top, bottom, low, high, middle, spread, target)
    for i, columns, start, end in zip(batch, open_columns, ends[:-1], ends[1:], strict=True):
        solutions[i][columns] = quantiles[start:end]


def _quantiles(
    top: Floats, bottom: Floats, low: Floats, high: Floats, middle: Floats, spread: Floats, target: Floats
) -> Floats:
    """Where the normal score of each column is its target: between low and high, by secants from a normal start."""
    slope = np.where(spread > 0, spread, 1.0)
    out = np.clip(middle + target * spread, low + 0.01 * (high - low), high - 0.01 * (high - low))
    before: Floats | None = None
    score_before = np.zeros_like(out)
    left = np.arange(len(out))
    result = np.empty_like(out)
    for _ in range(STEPS):
        score = _score(top, bottom, out)
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
            left, top, bottom = left[search], top[:, search], bottom[:, search]
            low, high, slope, target = low[search], high[search], slope[search], target[search]
            out, before, score_before = out[search], before[search], score_before[search]
    else:
        result[left] = out
    return result


def _score(top: Floats, bottom: Floats, at: Floats) -> Floats:
    """The chance that the mean of each column is not above this, as a normal score."""
    parts = top - at * bottom
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
            slope = work.sum(axis=0)
            bend = np.square(work, out=work).sum(axis=0)
            low, high = np.where(slope < 0, tilt, low), np.where(slope > 0, tilt, high)
            step = tilt - slope / bend
            new = np.where((step > low) & (step < high), step, (low + high) / 2)
            settled = np.abs(slope) <= 1e-11 * np.sqrt(bend)
            if bool(settled.all()):
                break
            tilt = np.where(settled, tilt, new)
        log = -np.log1p(-tilt * parts).sum(axis=0)
        root = np.sign(tilt) * np.sqrt(np.maximum(-2 * log, 0.0))
        other = tilt * np.sqrt((parts**2 / (1 - tilt * parts) ** 2).sum(axis=0))
        out: Floats = root + np.log(other / root) / root
    return np.where(np.abs(root) < 1e-4, root, out)
