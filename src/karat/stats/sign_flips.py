"""Randomization by flipping signs: the p of a mean difference, and the ends of the interval that agrees with it.

The signs of units are flipped at random (Fisher 1935). A mean is rejected from below as often as the units that are
flipped have a mean below it (Hartigan 1969), so the ends are quantiles of the means of random halves. Up to 16 units
all flips are counted. From 100 on the distribution is computed where that is as good as a million draws: exactly for
differences that are multiples of one step, and by saddlepoint for others of which many are about equally large. What
is left is drawn.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from itertools import pairwise, starmap
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from karat.records import dataclass
from karat.stats.counted_units import CountedUnits, side_by_side
from karat.stats.defaults import DRAWS, LEAST_P, SEED
from karat.stats.distributions import normal_quantile
from karat.stats.intervals import TOLERANCE
from karat.stats.random_bytes import random_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ends = tuple[Floats, Floats]

EXACT_UPTO = 16
COMPUTED_FROM = 100
"""Below so many units the means of halves take few values, and these are drawn."""
ALIKE = 16.0
"""The saddlepoint is within the error of a million draws if the differences count as so many of equal size."""
FEW_SIZES, FREQUENCIES, COLLISIONS = 64, 2048, 1e-3
"""Sums of fewer sizes than this may coincide; if two do in more than a thousandth of pairs, they are drawn."""
MOST_STEPS = 5040
"""A difference is at most so many steps, or has no step worth speaking of."""
MOST_ATOMS = 1 << 15
CLOSE = 1e-9
SEARCH = 100
NEARER, NEARER_OF_FEW, FEW = 0.85, 0.45, 12
"""Means that are not so far from the middle as this share of an end's distance are not looked at at first.

Fewer than 12 differences that are not 0 have means that lie apart.
"""
AT_ONCE = 1 << 13
"""Draws whose sums fit into a cache."""
NOTHING = 1e-60
"""A product of cosines that is smaller changes no digit of a chance: its powers, which take long, are not computed."""


class Flips(NamedTuple):
    """Of each column: the two-sided p, the ends at each level, and how many random draws these rest on (0: none)."""

    p: Floats
    ends: list[Ends]
    draws: NDArray[np.int64]


def flip_signs(
    tops: Floats,
    bottoms: Floats,
    *,
    levels: Sequence[float],
    draws: int = DRAWS,
    seed: int = SEED,
    counted: Sequence[CountedUnits] = (),
) -> Flips:
    """Test whether means are 0, and invert the test.

    `tops` are sums of differences (units × columns), `bottoms` the weights of units; `counted` are the units of each
    column with equal ones counted, where these are known.
    """
    count, columns = tops.shape
    if count <= EXACT_UPTO:
        return Flips(*_by_flips(tops, bottoms, levels, None, seed), np.zeros(columns, np.int64))
    p, ends = np.ones(columns), [(np.zeros(columns), np.zeros(columns)) for _ in levels]
    counted = counted or [CountedUnits.of(column[:, None], bottoms) for column in tops.T]
    sizes = [Sizes.of(units) for units in counted]
    ways = np.array([size.way if count >= COMPUTED_FROM or not len(size.sizes) else "drawn" for size in sizes])
    for i in np.flatnonzero(ways == "stepped"):
        sums = SteppedSums.of(tops[:, i], bottoms, sizes[i].step)
        p[i] = sums.p
        for (low, high), level in zip(ends, levels, strict=True):
            low[i], high[i] = sums.low_end((1 - level) / 2), -sums.mirrored.low_end((1 - level) / 2)
    smooth, drawn = ways == "smooth", ways == "drawn"
    if smooth.any():
        units = side_by_side([units for units, own in zip(counted, smooth, strict=True) if own])
        _put(p, ends, smooth, _by_saddlepoint(units, tops[:, smooth].sum(axis=0), float(bottoms.sum()), levels))
    if drawn.any():
        _put(p, ends, drawn, _by_flips(tops[:, drawn], bottoms, levels, draws, seed))
    return Flips(p, ends, np.where(drawn, draws, 0))


def _put(p: Floats, ends: list[Ends], columns: NDArray[np.bool_], own: tuple[Floats, list[Ends]]) -> None:
    """Put what was found of some columns in its place."""
    p[columns] = own[0]
    for of_level, (low, high) in zip(ends, own[1], strict=True):
        of_level[0][columns], of_level[1][columns] = low, high


@dataclass(frozen=True)
class Sizes:
    """How large differences are, whatever their signs: what decides how their flips are counted."""

    sizes: Floats
    """The different ones above 0, in rising order."""
    counts: Floats

    @staticmethod
    def of(units: CountedUnits) -> Sizes:
        """Of a single column."""
        sizes = np.abs(units.tops[:, 0])
        order = np.argsort(sizes)
        order = order[sizes[order] > TOLERANCE * sizes.max()]
        if not len(order):
            return Sizes(np.zeros(0), np.zeros(0))
        sizes, counts = sizes[order], np.broadcast_to(units.counts[:, 0], len(sizes))[order]
        first = np.flatnonzero(np.diff(sizes, prepend=-1.0) > TOLERANCE * sizes[-1])
        return Sizes(sizes[first], np.add.reduceat(counts, first))

    @property
    def way(self) -> Literal["", "stepped", "smooth", "drawn"]:
        """How the flips of enough units are counted; nothing is to be flipped where all differences are 0."""
        if len(self.sizes) == 0:
            return ""
        return "stepped" if self.step else "smooth" if self.is_smooth() else "drawn"

    @cached_property
    def step(self) -> float:
        """The largest number that all differences are multiples of; 0 where that is too small to matter."""
        step, least = 0.0, self.sizes[-1] / MOST_STEPS
        for size in self.sizes.tolist() if len(self.sizes) < MOST_STEPS else ():
            while size > least / 2:  # Euclid's algorithm, with the nearest multiple
                step, size = size, abs(step - size * round(step / size))
            if step < least:
                return 0.0
        if not step:
            return 0.0
        steps = np.rint(self.sizes / step)
        step = float(self.sizes @ steps / (steps @ steps))  # each step that was found carries the rounding of others
        apart = math.sqrt(float((self.counts * steps**2).sum()))
        even = bool((np.abs(self.sizes - steps * step) <= CLOSE * self.sizes[-1]).all())
        return step if even and 9 * apart < MOST_ATOMS else 0.0

    def is_smooth(self) -> bool:
        """Whether many differences are about equally large, and sums of them hardly ever coincide."""
        squares = self.counts * self.sizes**2
        if squares.sum() ** 2 < ALIKE * (squares * self.sizes**2).sum():
            return False
        if len(self.sizes) >= FEW_SIZES:
            return True
        # The mean of |φ|² over all frequencies is the chance that two random sums are the same.
        turns = np.arange(1, FREQUENCIES + 1) * ((math.sqrt(5) - 1) * 1e4 / self.sizes[-1])
        with np.errstate(divide="ignore"):
            logs = np.log(np.cos(turns[:, None] * self.sizes) ** 2) @ self.counts
        return float(np.exp(logs).mean()) < COLLISIONS


@dataclass(frozen=True)
class SteppedSums:
    """The sums of randomly signed differences that are multiples of a step, with their exact chances.

    What the units weigh under the same signs is about normal for a given sum.
    """

    sums: Floats
    chances: Floats
    total: float
    weight: float
    lean: float
    """The signed weight per signed sum, on average."""
    spread: float
    """The standard deviation of the signed weight for a given sum."""
    step: float
    most: float
    """No mean of some of the units is farther from 0."""

    @staticmethod
    def of(differences: Floats, weights: Floats, step: float) -> SteppedSums:
        steps = np.rint(differences / step)
        sums, chances = _signed_sums(np.abs(steps))
        together = float((differences * weights).sum())
        lean = together / float((differences**2).sum())
        spread = math.sqrt(max(float((weights**2).sum()) - lean * together, 0.0))
        total, most = float(steps.sum()) * step, float(np.abs(differences / weights).max())
        return SteppedSums(sums * step, chances, total, float(weights.sum()), lean, spread, step, most)

    @property
    def mirrored(self) -> SteppedSums:
        """The same with all differences negative."""
        return replace(self, total=-self.total, lean=-self.lean)

    @property
    def p(self) -> float:
        p = 2 * self._chance_from(abs(self.total) - self.step / 2)
        return 1.0 if self.total == 0 else min(max(p, LEAST_P), 1.0)

    def low_end(self, tail: float) -> float:
        """The mean that random halves are not above with this chance; 0 where that holds of 0 and not of less."""
        with_zero, below_zero = (self._chance_from(self.total + side * self.step / 2) for side in (-1, 1))
        if below_zero < tail <= with_zero:
            return 0.0
        low, high = (0.0, self.most) if with_zero < tail else (-self.most, 0.0)
        middle = self.total / self.weight
        step = math.sqrt(float(self.chances @ self.sums**2)) / self.weight
        at = middle - normal_quantile(1 - tail) * step  # as if it were normal; then its score is about linear
        for _ in range(SEARCH):
            at = at if low < at < high else (low + high) / 2
            chance = self._chance_below(at)
            low, high = (at, high) if chance < tail else (low, at)
            if high - low <= CLOSE * self.most or abs(chance - tail) <= CLOSE * tail:
                break
            at += (normal_quantile(tail) - normal_quantile(chance)) * step
        return at

    def _chance_from(self, least: float) -> float:
        return float(self.chances[self.sums > least].sum())

    def _chance_below(self, mean: float) -> float:
        """The chance that a random half has a mean not above this one, which is not 0."""
        from karat.stats.special import ndtr

        beyond = self.sums * (1 - mean * self.lean) - (self.total - mean * self.weight)
        return float(self.chances @ ndtr(beyond / max(abs(mean) * self.spread, CLOSE * self.step)))


def _signed_sums(steps: Floats) -> tuple[Floats, Floats]:
    """All sums of randomly signed whole numbers, and their chances.

    These are the Fourier coefficients of a product of cosines; sums beyond nine standard deviations are left out.
    """
    numbers, counts = np.unique(steps[steps > 0], return_counts=True)
    total = float((numbers * counts).sum())
    apart = math.sqrt(float((numbers**2 * counts).sum()))
    size = 1 << math.ceil(math.log2(min(total, 9 * apart) + 2))
    turns = np.pi / size * np.arange(size // 2 + 1)
    logs, places = np.log(np.abs(np.cos(np.pi / size * np.arange(size)))), np.arange(len(turns))
    parts = zip(numbers.astype(np.int64).tolist(), counts.tolist(), strict=True)
    rows = np.flatnonzero(sum(count * logs[number * places % size] for number, count in parts) > math.log(NOTHING))
    product, factors = np.zeros(len(turns)), np.ones(len(rows))
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        factors *= np.cos(number * turns[rows]) ** count
    product[rows] = factors
    first = (total - size) // 2 if total + 1 > size else 0.0  # of positive ones, as a number of steps
    chances = np.fft.irfft(product * np.exp(-2j * turns * (total / 2 - first)), size)
    sums = 2 * (first + np.arange(size)) - total
    there = (np.abs(sums) <= total) & (chances > 0)
    return sums[there], chances[there]


def _by_saddlepoint(
    units: CountedUnits, total: Floats, weight: float, levels: Sequence[float]
) -> tuple[Floats, list[Ends]]:
    """Of units whose sums and weights have these totals."""
    from karat.stats.special import ndtr

    mirrored = units._replace(tops=-units.tops)
    p = np.clip(2 * ndtr(-SignedSums(units.tops, units.counts, np.abs(total)).score()[0]), LEAST_P, 1.0)
    ends = []
    for level in levels:
        tail = (1 - level) / 2
        ends.append((_smooth_low_end(units, total, weight, tail), -_smooth_low_end(mirrored, -total, weight, tail)))
    return p, ends


def _smooth_low_end(units: CountedUnits, total: Floats, weight: float, tail: float) -> Floats:
    """The mean of each column that random halves are not above with this chance."""
    target, middle = normal_quantile(1 - tail), total / weight
    slope = np.sqrt((units.counts * (units.tops - middle * units.weights) ** 2).sum(axis=0)) / weight
    low, high = np.full(len(total), -math.inf), middle
    out: Floats = middle - target * slope
    before, score_before = middle, np.zeros(len(total))
    tilt: Floats | None = None
    for _ in range(SEARCH):
        parts = units.tops - out * units.weights
        score, tilt = SignedSums(parts, units.counts, total - out * weight).score(tilt)
        off = score - target
        if bool((np.abs(off) < CLOSE).all()):
            break
        low, high = np.where(off > 0, out, low), np.where(off < 0, out, high)
        moved = score - score_before
        steep = (out != before) & (moved * (out - before) < 0)
        slope = np.where(steep, (before - out) / np.where(steep, moved, 1.0), slope)
        before, score_before = out, score
        step = out + off * slope
        inside = (step > low) & (step < high)
        out = np.where(
            np.abs(off) < CLOSE, out, np.where(inside, step, np.where(low > -math.inf, (low + high) / 2, step))
        )
    return out


@dataclass(frozen=True)
class SignedSums:
    """Sums of randomly signed parts (rows × columns, with how many of each), and a value that each may reach."""

    parts: Floats
    counts: Floats
    value: Floats

    def score(self, tilt: Floats | None = None) -> tuple[Floats, Floats]:
        """The chance that the sum is not below the value, as a normal score (Barndorff-Nielsen's r*), and its tilt.

        A tilt that was found for similar sums is a good start.
        """
        parts, counts, sign, value = self.parts, self.counts, np.sign(self.value), np.abs(self.value)
        square = (counts * parts**2).sum(axis=0)
        near = CLOSE * np.sqrt(square)
        tilt = value / square if tilt is None else np.abs(tilt)
        low, high = np.zeros(len(value)), np.full(len(value), math.inf)
        leant = np.empty_like(parts)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for _ in range(SEARCH):
                np.multiply(parts, tilt, out=leant)
                np.tanh(leant, out=leant)
                leant *= parts
                off = (counts * leant).sum(axis=0) - value
                bend = square - (counts * np.square(leant, out=leant)).sum(axis=0)
                settled = np.abs(off) <= near
                if bool(settled.all()):
                    break
                low, high = np.where(off < 0, tilt, low), np.where(off > 0, tilt, high)
                step = tilt - off / bend
                inside = (step > low) & (step < high)
                new = np.where(
                    inside, step, np.where(high < math.inf, (low + high) / 2, 2 * tilt + 1 / np.sqrt(square))
                )
                tilt = np.where(settled, tilt, new)
            sizes = np.abs(parts * tilt)
            log = (counts * (sizes + np.log1p(np.exp(-2 * sizes)) - math.log(2))).sum(axis=0)
            root = np.sqrt(np.maximum(2 * (tilt * value - log), 0.0))
            out = root + np.log(tilt * np.sqrt(bend) / root) / root
        return sign * np.where((root > 1e-4) & np.isfinite(out), out, root), tilt


def _by_flips(
    tops: Floats, bottoms: Floats, levels: Sequence[float], draws: int | None, seed: int
) -> tuple[Floats, list[Ends]]:
    """By so many random flips, or by all of them. All columns are tested under the same ones."""
    total, weight = tops.sum(axis=0), float(bottoms.sum())
    slack = TOLERANCE * np.abs(tops).sum(axis=0)
    stacked = np.column_stack((tops, bottoms))
    middles = total / weight
    nearer = np.where(np.count_nonzero(tops, axis=0) < FEW, NEARER_OF_FEW, NEARER)
    reach = np.sqrt(((tops - middles * bottoms[:, None]) ** 2).sum(axis=0)) / weight
    reach *= nearer * normal_quantile((1 + min(levels, default=0.99)) / 2)

    def halves(reach: Floats) -> Halves:
        flips = _all_flips(stacked) if draws is None else _drawn_flips(stacked, draws, seed)
        return Halves.of(flips, total, weight, reach, slack, mirrored=draws is not None)

    far = halves(reach)
    count = 2.0 ** (len(tops) - 1) if draws is None else draws + 1
    p = far.extreme / (2 * count) if draws is None else (far.extreme + 1) / count
    empty = 0 if draws is None else far.empty
    places = [math.ceil((1 - level) * count - 1e-9) - 1 - empty for level in levels]
    outermost = [_outermost(means, [place for place in places if place > 0]) for means in far.means]
    near = [
        any(not (low < middle - r and high > middle + r) for low, high in ordered)
        for ordered, middle, r in zip(outermost, middles, reach, strict=True)
    ]
    if any(near):  # ends that are not as far from the middle as was thought: now with all means
        every = halves(np.where(near, -1.0, 1e300))
        for i in np.flatnonzero(near).tolist():
            outermost[i] = _outermost(every.means[i], [place for place in places if place > 0])
    ends = [(np.full(len(total), -math.inf), np.full(len(total), math.inf)) for _ in levels]
    known = [of_level for of_level, place in zip(ends, places, strict=True) if place > 0]
    for i, ordered in enumerate(outermost):
        for (lows, highs), pair in zip(known, ordered, strict=True):
            lows[i], highs[i] = (0.0 if abs(end) <= slack[i] / weight else end for end in pair)  # rounding errors
    return p, ends


def _outermost(values: Floats, places: Sequence[int]) -> list[tuple[float, float]]:
    """The values at these places from below and from above; NaN where there are fewer."""
    out = []
    for place in places:
        low, high = place - 1, len(values) - place
        found = len(values) >= place  # both at once would take longer
        ordered = (np.partition(values, low)[low], np.partition(values, high)[high]) if found else (math.nan, math.nan)
        out.append((float(ordered[0]), float(ordered[1])))
    return out


@dataclass(frozen=True)
class Halves:
    """What random halves of the units say: those that flips leave, and where flips are drawn, the others too."""

    extreme: NDArray[np.int64]
    """How many flips have sums as far from 0 as those without (of each column)."""
    empty: int
    """How many halves have no unit."""
    means: list[Floats]
    """The means of halves that can be so far from the mean of all units as was asked for."""

    @staticmethod
    def of(
        flips: Iterable[Floats], total: Floats, weight: float, reach: Floats, slack: Floats, *, mirrored: bool
    ) -> Halves:
        """From signed sums (columns × flips), in the last row those of the weights.

        With sums s and weights w under signs, and T and W without: |(T - s) / (W - w) - T/W| > reach where
        |s - w·T/W| > reach·(W - w), and for the other half reach·(W + w).
        """
        extreme, empty = np.zeros(len(total), dtype=np.int64), 0
        means: list[list[Floats]] = [[] for _ in total]
        least, slope, far = (np.abs(total) - slack)[:, None], (-total / weight)[:, None], (reach * (1 - 1e-6))[:, None]
        work = limit = np.empty((0, 0))
        for signed in flips:
            sums, weights = signed[:-1], signed[-1]
            if work.shape != sums.shape:
                work, limit = np.empty(sums.shape), np.empty(sums.shape)
            np.abs(sums, out=work)
            extreme += [np.count_nonzero(column) for column in work >= least]
            halves = (weight - weights) / 2
            sizes = [halves, weight - halves] if mirrored else [halves]
            there = [size > TOLERANCE * weight for size in sizes]
            empty += sum(len(t) - int(np.count_nonzero(t)) for t in there)
            np.multiply(weights, slope, out=work)
            work += sums
            np.multiply(far, weight - np.abs(weights), out=limit)
            limit -= slack[:, None]
            place = np.flatnonzero(np.abs(work, out=work) >= limit)
            bounds = np.searchsorted(place, np.arange(len(total) + 1) * len(weights))
            each, own = np.diff(bounds), list(starmap(slice, pairwise(bounds.tolist())))
            flip = place - np.repeat(np.arange(len(total)) * len(weights), each)
            whole = np.repeat(total, each)
            half = (whole - sums.ravel().take(place)) / 2
            for of_half, size, t in zip((half, whole - half), sizes, there, strict=False):
                with np.errstate(divide="ignore", invalid="ignore"):
                    shares = of_half / size.take(flip)
                parts = [shares[mine] for mine in own]
                if not t.all():
                    parts = [part[t.take(flip[mine])] for part, mine in zip(parts, own, strict=True)]
                for of_column, part in zip(means, parts, strict=True):
                    of_column.append(part)
        return Halves(extreme, empty, [np.concatenate(parts) for parts in means])


def _all_flips(parts: Floats) -> Iterator[Floats]:
    """The signed sums of all flips (columns × flips)."""
    totals = np.zeros((1, parts.shape[1]))
    for part in parts:
        totals = np.concatenate((totals + part, totals - part))
    yield np.ascontiguousarray(totals.T)


def _drawn_flips(parts: Floats, draws: int, seed: int) -> Iterator[Floats]:
    """The signed sums of random flips (columns × draws), as many at once as fit into a cache.

    Eight units make a byte: their 256 signed sums are a table, and a draw is a look-up of random bytes.
    """
    signs = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64) * 2 - 1
    tables = [signs[:, : len(part)] @ part for part in np.split(parts, range(8, len(parts), 8))]
    drawn = random_bytes(draws, seed).rows(len(tables))
    room = np.empty((3, min(draws, AT_ONCE) * parts.shape[1]))  # new memory for each part would take long to get
    for start in range(0, draws, AT_ONCE):
        some = slice(start, min(start + AT_ONCE, draws))
        shape = (some.stop - start, parts.shape[1])
        sums, more, signed = (own[: shape[0] * shape[1]] for own in room)
        sums, more, signed = sums.reshape(shape), more.reshape(shape), signed.reshape(shape[::-1])
        tables[0].take(drawn[0][some], axis=0, out=sums, mode="clip")
        for table, byte in zip(tables[1:], drawn[1:], strict=True):
            sums += table.take(byte[some], axis=0, out=more, mode="clip")
        signed[:] = sums.T
        yield signed
