"""Tests of paired values by name (t, Wilcoxon, sign, …), and `paired_test`; the p of an interval is in `changes.py`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import UsageError, nearest
from karat.records import dataclass
from karat.stats.defaults import ALPHA, DRAWS, SEED
from karat.stats.intervals import TOLERANCE, checked_count, checked_share, checked_values, standard_error
from karat.stats.resample import Group, Units, mean_of, resampled
from karat.stats.sign_flips import flip_signs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

EXACT_RANKS = 50
"""Up to so many differences Wilcoxon's p is counted."""
TESTS = ("t", "randomization", "bootstrap", "wilcoxon", "sign")


@dataclass(frozen=True, slots=True)
class PairedTest:
    """A test of paired values: its statistic, p, and what they compare."""

    test: str
    statistic: float
    p: float
    significant: bool
    mean_a: float
    mean_b: float
    direction: str
    n: int


def paired_test(
    a: Sequence[float] | Floats,
    b: Sequence[float] | Floats,
    *,
    test: str = "randomization",
    alpha: float = ALPHA,
    draws: int = DRAWS,
    seed: int = SEED,
    clusters: Sequence[object] | None = None,
    weights: Sequence[float] | None = None,
) -> PairedTest:
    """Test whether the mean of a − b is zero. Both are on the same queries, in the same order.

    The test flips the signs of differences at random unless another is named. p is never 0, and differences that are
    all equal, or of one unit, are never significant by their spread alone.
    """
    first, second = checked_values("a", a), checked_values("b", b)
    if len(first) != len(second):
        raise UsageError(f"paired values must be of the same queries: found {len(first)} and {len(second)} values")
    level = checked_share("alpha", alpha)
    checked_count("draws", draws, 100)
    checked_count("seed", seed, 0)
    units = Units.of(len(first), clusters, weights)
    difference = first - second
    statistic, p = p_value(test, difference, units, draws=draws, seed=seed)
    both = ~np.isnan(difference)
    mean = mean_of(difference, units)
    direction = "a > b" if mean > 0 else "a < b" if mean < 0 else "equal"
    return PairedTest(
        test,
        statistic,
        p,
        p < level,
        mean_of(np.where(both, first, np.nan), units),
        mean_of(np.where(both, second, np.nan), units),
        direction,
        int(both.sum()),
    )


def p_value(
    test: str, difference: Floats, units: Units, *, draws: int = DRAWS, seed: int = SEED
) -> tuple[float, float]:
    """The statistic of one test and its two-sided p. One unit is never significant."""
    if test not in TESTS:
        near = nearest(str(test), TESTS)
        hint = f"; did you mean {near!r}?" if near else ""
        raise UsageError(f"test must be one of {', '.join(TESTS)}, found {test!r}{hint}")
    defined = ~np.isnan(difference)
    if not defined.all():
        units, difference = units.take(defined), difference[defined]
    if len(units) < 2:
        return math.nan, 1.0
    if test == "t":
        return student_t(difference, units)
    if test == "randomization":
        return mean_of(difference, units), sign_flip(difference[None, :], units, draws=draws, seed=seed)[0]
    if test == "bootstrap":
        return mean_of(difference, units), bootstrap_shift(difference, units, draws=draws, seed=seed)
    sums = units.sums(difference[None, :])[0][:, 0]
    largest = float(np.abs(sums).max())
    if largest > 0:  # what differs by rounding alone is a tie
        sums = np.round(sums / largest, 12)
    return wilcoxon(sums) if test == "wilcoxon" else sign_test(sums)


def student_t(difference: Floats, units: Units) -> tuple[float, float]:
    """The paired t-test; with units of several queries, on the units. Without any spread nothing is significant."""
    from karat.stats.special import stdtr

    error, count = standard_error(difference, units)
    mean = mean_of(difference, units)
    if error != error:
        return math.nan, 1.0
    if error <= abs(mean) * TOLERANCE:
        return (0.0 if mean == 0 else math.copysign(math.inf, mean)), 1.0
    t = mean / error
    return t, float(2 * stdtr(count - 1, -abs(t)))


def sign_flip(differences: Floats, units: Units, *, draws: int = DRAWS, seed: int = SEED) -> list[float]:
    """Randomization by flipping the sign of each unit's difference; exact up to 16 units. All rows at once."""
    tops, bottoms = units.sums(differences)
    return [float(p) for p in flip_signs(tops, bottoms[:, 0], levels=(), draws=draws, seed=seed).p]


def bootstrap_shift(difference: Floats, units: Units, *, draws: int = DRAWS, seed: int = SEED) -> float:
    """The paired bootstrap test: how often a resample of the centred differences is as far from zero."""
    draws = min(draws, 10_000)
    mean = mean_of(difference, units)
    top, bottom = units.sums((difference - mean)[None, :])
    (means,) = resampled([Group(top, bottom)], len(units), draws, seed)
    slack = TOLERANCE * float(np.abs(difference).max())
    extreme = np.count_nonzero(np.abs(means[:, 0]) >= abs(mean) - slack)
    return float((extreme + 1) / (draws + 1))


def wilcoxon(difference: Floats) -> tuple[float, float]:
    """Wilcoxon's signed ranks without zeros: exact up to 50 differences, else normal with ties corrected."""
    from karat.stats.special import ndtr

    nonzero = difference[difference != 0]
    n = len(nonzero)
    if n == 0:
        return 0.0, 1.0
    size = np.abs(nonzero)
    order = np.argsort(size)
    place = np.cumsum(np.diff(size[order], prepend=0.0) > TOLERANCE * size.max()) - 1
    inverse, times = np.empty(n, dtype=np.int64), np.bincount(place)
    inverse[order] = place
    ranks = (np.cumsum(times) - (times - 1) / 2)[inverse]
    plus = float(ranks[nonzero > 0].sum())
    low = min(plus, n * (n + 1) / 2 - plus)
    if n <= EXACT_RANKS:
        ways = np.zeros(n * (n + 1) + 1)  # of sums of doubled ranks, since ties have halves
        ways[0] = 1
        for r in (2 * ranks).astype(int).tolist():
            ways[r:] = ways[r:] + ways[:-r]
        return low, float(min(1.0, 2 * ways[: int(2 * low) + 1].sum() / 2.0**n))
    spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24 - float((times**3 - times).sum()) / 48)
    return low, float(min(1.0, 2 * ndtr((low - n * (n + 1) / 4) / spread)))


def sign_test(difference: Floats) -> tuple[float, float]:
    """How many differences are positive, against a fair coin; zeros are left out."""
    wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
    return (float(wins) if wins + losses else 0.0), sign_of_counts(wins, losses)


def sign_of_counts(wins: int, losses: int) -> float:
    """The two-sided p of so many wins and losses of a fair coin."""
    from karat.stats.special import bdtr

    n = wins + losses
    return float(min(1.0, 2 * bdtr(min(wins, losses), n, 0.5))) if n else 1.0


def effect_size(difference: Floats, weights: Floats | None = None) -> float:
    """d_z: the mean difference in standard deviations of the differences."""
    there = ~np.isnan(difference)
    defined, n = difference[there], int(there.sum())
    weight = np.ones(n) if weights is None else weights[there]
    if n < 2 or weight.sum() <= 0:
        return math.nan
    mean = float((weight * defined).sum() / weight.sum())
    spread = math.sqrt(float((weight * (defined - mean) ** 2).sum() / weight.sum()) * n / (n - 1))
    if spread <= abs(mean) * TOLERANCE:
        return 0.0 if mean == 0 else math.copysign(math.inf, mean)
    return mean / spread
