"""Means of more values than one machine holds: partial sums and a Poisson bootstrap, added up in any order.

In a Poisson bootstrap (Hanley & MacGibbon 2006; Chamandy et al. 2012) each query is drawn Poisson(1) times,
independently of the others: parts of the queries can be summed apart. How often a query is drawn follows from its key
alone, so that a part that is computed again is the same. All sums are of whole numbers: values are multiples of 2⁻⁶⁰,
and 2⁻³⁰ in resamples. No order of adding them changes a bit.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import UsageError
from karat.records import dataclass
from karat.stats.intervals import ALL_EQUAL, Interval
from karat.stats.paired import sign_of_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Wholes = NDArray[np.int64]
    Keys = NDArray[np.uint64]

METHOD = "Poisson bootstrap"
RESAMPLES = 1_000
"""The ends of an interval move by about a twelfth of a standard error from seed to seed."""
TESTS = ("t", "randomization", "bootstrap", "sign")
"""Those that sums are enough for."""
TOGETHER = 256
"""Queries that are drawn at once."""
SCALE = 1 << 30
_COUNT, _SUM, _SQUARES, _BASE, _WON, _LOST = 0, slice(1, 3), slice(3, 5), slice(5, 7), 7, 8
_EXACT = 9


@dataclass(frozen=True)
class Sums:
    """Of columns of values: exact sums (columns × what is summed), and those of resamples (columns × resamples)."""

    exact: Wholes
    drawn: Wholes
    weight: Wholes
    flipped: Wholes

    @staticmethod
    def of(columns: Floats, base: Floats, keys: Keys, seed: int) -> Sums:
        """The sums of values from −1 to 1 (columns × queries); NaN counts for nothing.

        `base` is what differences are differences from, and 0 beside other values. `keys` are one for each query.
        """
        there = ~np.isnan(columns)
        values, base = np.where(there, columns, 0.0), np.where(there, base, 0.0)
        exact = np.empty((len(columns), _EXACT), dtype=np.int64)
        exact[:, _COUNT] = there.sum(axis=1)
        exact[:, _SUM], exact[:, _SQUARES], exact[:, _BASE] = (_halves(v) for v in (values, values**2, base))
        exact[:, _WON], exact[:, _LOST] = (values > 0).sum(axis=1), (values < 0).sum(axis=1)
        whole, present = np.rint(values * SCALE), there.astype(np.float64)
        sums = np.zeros((3, len(columns), RESAMPLES), dtype=np.int64)
        for start in range(0, len(keys), TOGETHER):  # every product is exact: below 2⁵³
            part = slice(start, start + TOGETHER)
            lanes = _lanes(keys[part], seed)
            counts, signs = _POISSON[lanes].astype(np.float64), (lanes & 1).astype(np.float64)
            sums[0] += (whole[:, part] @ counts).astype(np.int64)
            sums[1] += (present[:, part] @ counts).astype(np.int64)
            sums[2] += (whole[:, part].sum(axis=1, keepdims=True) - 2 * (whole[:, part] @ signs)).astype(np.int64)
        return Sums(exact, *sums)

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(a + b for a, b in zip(self._parts, other._parts, strict=True)))

    @property
    def _parts(self) -> tuple[Wholes, Wholes, Wholes, Wholes]:
        return self.exact, self.drawn, self.weight, self.flipped

    def to_bytes(self) -> bytes:
        return b"".join(np.ascontiguousarray(part, dtype="<i8").tobytes() for part in self._parts)

    @staticmethod
    def from_bytes(data: bytes) -> Sums:
        """What `to_bytes` gave."""
        numbers = np.frombuffer(data, dtype="<i8")
        columns = len(numbers) // (_EXACT + 3 * RESAMPLES)
        exact, rest = numbers[: columns * _EXACT], numbers[columns * _EXACT :]
        return Sums(exact.reshape(columns, _EXACT), *rest.reshape(3, columns, RESAMPLES))

    def column(self, number: int) -> SummedMean:
        """What is known of one column."""
        row = self.exact[number]
        n = int(row[_COUNT])
        if not n:
            return SummedMean(0, math.nan, math.nan, math.nan, np.zeros(0), math.nan, 0, 0)
        total, squares, base = (_joined(row[place]) for place in (_SUM, _SQUARES, _BASE))
        unit = SCALE * SCALE
        variance = (squares * n * unit - total * total) / (n * max(n - 1, 1) * unit * unit)
        with np.errstate(divide="ignore", invalid="ignore"):
            draws = self.drawn[number] / self.weight[number] / SCALE
        far = np.abs(self.flipped[number]) >= abs(total) / SCALE - n
        return SummedMean(
            n,
            total / (n * unit),
            base / (n * unit),
            math.sqrt(max(variance, 0.0)),
            draws[~np.isnan(draws)],
            float((far.sum() + 1) / (RESAMPLES + 1)),
            int(row[_WON]),
            int(row[_LOST]),
        )


@dataclass(frozen=True)
class SummedMean:
    """A mean of values, or of differences, from sums alone."""

    n: int
    mean: float
    base: float
    """The mean of what differences are from."""
    deviation: float
    draws: Floats
    """The means of resamples."""
    flip: float
    """How often flipped signs give a sum as far from 0."""
    won: int
    lost: int

    def reversed(self) -> SummedMean:
        """The same differences in the other direction."""
        return replace(
            self, mean=-self.mean, base=self.base + self.mean, draws=-self.draws, won=self.lost, lost=self.won
        )

    def interval(self, confidence: float) -> Interval:
        """The mean with the percentiles of its resamples; none where nothing spreads."""
        tail = (1 - confidence) / 2
        if self.n < 2 or not self.deviation > 0:
            return Interval(self.mean, math.nan, math.nan, ALL_EQUAL if self.n else "none", self.n)
        low, high = np.quantile(self.draws, (tail, 1 - tail))
        return Interval(self.mean, float(low), float(high), METHOD, self.n, draws=len(self.draws))

    def p(self, test: str) -> float:
        """The two-sided p of a test that the mean is 0."""
        if test not in TESTS:
            raise UsageError(
                f"the test {test!r} needs the values of all queries on one machine, and there are {self.n:,}; "
                f"choose from {', '.join(TESTS)}"
            )
        if test == "sign":
            return sign_of_counts(self.won, self.lost)
        if self.n < 2 or not self.deviation > 0:
            return 1.0
        if test == "t":
            from karat.stats.special import stdtr

            return float(2 * stdtr(self.n - 1, -abs(self.mean) / self.deviation * math.sqrt(self.n)))
        if test == "randomization":
            return self.flip
        far = np.count_nonzero(np.abs(self.draws - self.mean) >= abs(self.mean))
        return float((far + 1) / (len(self.draws) + 1))


def _halves(values: Floats) -> Wholes:
    """Sums of rows in units of 2⁻⁶⁰: the upper 30 bits of all values, and the lower ones, which do not overflow."""
    whole = np.rint(values * float(SCALE * SCALE)).astype(np.int64)
    return np.stack(((whole >> 30).sum(axis=1), (whole & (SCALE - 1)).sum(axis=1)), axis=1)


def _joined(halves: Wholes) -> int:
    return (int(halves[0]) << 30) + int(halves[1])


def _lanes(keys: Keys, seed: int) -> NDArray[np.uint16]:
    """16 random bits for each query and resample, from the query's key and the seed (SplitMix64)."""
    steps = np.arange(1, RESAMPLES // 4 + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = _mixed(keys ^ _mixed(np.array([seed + 1], dtype=np.uint64)))[:, None] + steps
    return _mixed(mixed).view(np.uint16)


def _mixed(words: Keys) -> Keys:
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _poisson() -> NDArray[np.uint8]:
    """The Poisson(1) count of each number of 16 bits."""
    below = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(12)])
    return np.searchsorted(below, (np.arange(1 << 16) + 0.5) / (1 << 16)).astype(np.uint8)


_POISSON = _poisson()
