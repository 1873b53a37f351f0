"""Which interval method is used, and the formulas of t, BCa, shares and quantiles; see also `bounded_means.py`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import numpy as np

from karat.errors import UsageError, nearest
from karat.records import dataclass
from karat.stats.betting import BETTING, CONTRADICTION
from karat.stats.defaults import ALPHA, CONFIDENCE, Method
from karat.stats.distributions import beta_quantile, normal_quantile
from karat.stats.resample import Group, mean_of, resampled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karat.stats.resample import Units

    Floats = NDArray[np.float64]

METHODS: tuple[str, ...] = get_args(Method)
TOLERANCE = 1e-10
"""Relative: numbers this close are equal, whatever the order of summing; files keep values with 12 digits."""
FEW = 10
"""Below so many units a bootstrap of a mean without bounds is too short; Student's t is used instead."""
STEADY = 0.007
"""How far an end may move from seed to seed (a standard deviation), in lengths: below .01 where draws are skewed."""
ALL_EQUAL = "all equal"
"""The method of an interval whose values are all equal and not at a bound: its ends are unknown."""
WITHOUT_ENDS = frozenset(("none", ALL_EQUAL, CONTRADICTION))
"""The methods of intervals that have no ends for another reason than that too few values bound them."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval, how it was found, and of how many values.

    `low` and `high` are NaN where there is none, and where too few values were seen to bound it on that side.
    """

    estimate: float
    low: float
    high: float
    method: str
    n: int
    n_eff: float = math.nan
    """How many units (queries or conversations) of equal weight say as much, after Kish; NaN: as many as values."""
    draws: int = 0
    """How many random draws its ends rest on; 0: none, and no seed moves them."""

    @property
    def units(self) -> float:
        """How many units it rests on: what minimum sizes, warnings and degrees of freedom count."""
        return float(self.n) if math.isnan(self.n_eff) else self.n_eff

    @property
    def unbounded(self) -> bool:
        """Whether too few values were seen to bound it on either side."""
        return math.isnan(self.low) and math.isnan(self.high) and self.method not in WITHOUT_ENDS

    def end_error(self, end: float, confidence: float) -> float:
        """How far an end moves from seed to seed: a standard deviation."""
        return abs(end - self.estimate) * draw_error((1 - confidence) / 2, self.draws) if self.draws else 0.0

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def without_infinite_ends(self) -> Interval:
        """The same interval; an end that is infinite is NaN, as it is wherever too few values bound it."""
        low, high = (end if math.isfinite(end) else math.nan for end in (self.low, self.high))
        return replace(self, low=low, high=high)

    def clip(self, least: float, most: float) -> Interval:
        """The same interval with no end beyond these bounds; an end that is NaN stays so."""
        low, high = (end if end != end else min(max(end, least), most) for end in (self.low, self.high))
        return replace(self, low=low, high=high)


def checked_method(method: str) -> str:
    """The method's name, or an error with the nearest one."""
    name = str(method).lower()
    if name not in METHODS:
        near = nearest(name, METHODS)
        hint = f"; did you mean {near!r}?" if near else ""
        raise UsageError(f"method must be one of {', '.join(METHODS)}, found {method!r}{hint}")
    return name


def checked_share(name: str, value: float) -> float:
    """A probability strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        usual = {"confidence": CONFIDENCE, "alpha": ALPHA}.get(name)
        raise UsageError(f"{name} must be between 0 and 1{f', such as {usual}' if usual else ''}, found {value!r}")
    return float(value)


def checked_values(name: str, values: Sequence[float] | Floats) -> Floats:
    """Numbers in one row."""
    try:
        if values is None or np.ndim(values) == 0:
            raise TypeError(f"found {values!r}")
        return np.asarray(values, dtype=np.float64).ravel()
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} must be a list of numbers, with NaN for those that are undefined ({error})") from None


def checked_count(name: str, value: int, least: int) -> int:
    """A whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise UsageError(f"{name} must be an integer from {least}, found {value!r}")
    return int(value)


def chosen_method(values: Floats, units: Units, method: str, bounds: tuple[float, float]) -> str:
    """What `auto` means for these values: the first rule that fits. No method makes an interval of equal values."""
    there = ~np.isnan(values) & (units.weight > 0)
    defined, of = values[there], units.unit[there]
    if method == "none" or len(defined) < 2 or bool((of == of[0]).all()):
        return "none"
    if method in ("wilson", "clopper-pearson"):
        if not units.plain:
            raise UsageError(f"method {method!r} knows no weights and no conversations; use 'auto' or 'bca'")
        if not np.isin(defined, (0.0, 1.0)).all():
            raise UsageError(f"method {method!r} is for values of 0 and 1 alone, such as hit@k; use 'bca' or 't'")
        return method
    first, (least, most) = defined[0], bounds
    if units.day is not None and math.isfinite(most - least) and units.take(there).alike:
        return BETTING
    equal = bool((defined == first).all())
    if equal and not (first in bounds and math.isfinite(most - least)):
        return ALL_EQUAL
    if method != "auto" and not equal:
        return method
    if math.isfinite(most - least):
        return "clopper-pearson" if units.plain and bool(np.isin(defined, bounds).all()) else "gaffke"
    return "t" if units.take(there).effective < FEW else "bca"


def average_intervals(intervals: Sequence[Interval], *, independent: bool = True) -> Interval:
    """The plain average of several estimates, with an interval from theirs, whatever these were found by.

    How far each estimate is from either end adds up in squares (Zou & Donner 2008); where the estimates rest on the
    same units, as it is.
    """
    middle = sum(one.estimate for one in intervals) / len(intervals)
    below = [(one.estimate - one.low) / len(intervals) for one in intervals]
    above = [(one.high - one.estimate) / len(intervals) for one in intervals]
    down, up = (math.hypot(*side) if independent else sum(side) for side in (below, above))
    if math.isnan(down + up):
        down = up = math.nan
    return Interval(middle, middle - down, middle + up, "average", sum(one.n for one in intervals))


def p_of_interval(interval: Interval, confidence: float) -> float:
    """The two-sided p of 0 that an interval around an estimate amounts to, as a normal distribution has it.

    It is below 1 − confidence where the interval leaves out 0 (Altman & Bland 2011).
    """
    middle = interval.estimate
    reach = middle - interval.low if middle > 0 else interval.high - middle
    if math.isnan(reach):
        return math.nan
    if middle == 0 or reach == 0:
        return float(middle == 0)
    return math.erfc(normal_quantile(0.5 + confidence / 2) * abs(middle) / reach / math.sqrt(2))


def draw_error(tail: float, draws: int) -> float:
    """How far an end that is a quantile of random draws moves from seed to seed: its sd by its distance from the mean.

    That of a quantile (Kendall & Stuart) for draws that are about normal.
    """
    z = -normal_quantile(tail)
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return math.sqrt(tail * (1 - tail) / draws) / (density * z)


def draws_needed(tail: float) -> int:
    """The draws for which an end moves from seed to seed by less than 1% of the interval's length (a sd)."""
    return math.ceil((draw_error(tail, 1) / (2 * STEADY)) ** 2)


def wilson(successes: float, n: int, confidence: float) -> tuple[float, float]:
    """Wilson 1927: the score interval of a share."""
    z = normal_quantile(0.5 + confidence / 2)
    share = successes / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def clopper_pearson(successes: int, n: int, confidence: float) -> tuple[float, float]:
    """Clopper & Pearson 1934: the exact interval of a share."""
    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else beta_quantile(successes, n - successes + 1, tail)
    high = 1.0 if successes == n else beta_quantile(successes + 1, n - successes, 1 - tail)
    return low, high


def standard_error(values: Floats, units: Units) -> tuple[float, float]:
    """The standard error of the (weighted, clustered) mean, and how many units of equal weight it rests on.

    With plain queries this is sd/√n; with units of several queries it is that of a ratio of unit sums.
    """
    top, bottom = units.sums(values[None, :])
    top, bottom = top[:, 0], bottom[:, 0]
    if not (bottom > 0).all():
        top, bottom = top[bottom > 0], bottom[bottom > 0]
    if len(top) < 2:
        return math.nan, len(top)
    count = float(bottom.sum() ** 2 / (bottom**2).sum())
    residual = top - top.sum() / bottom.sum() * bottom
    return float(math.sqrt(count / (count - 1) * (residual**2).sum()) / bottom.sum()), count


def unit_deviation(values: Floats, units: Units) -> float:
    """The standard deviation of a unit: the standard error times the root of the number of units."""
    error, count = standard_error(values, units)
    return error * math.sqrt(count)


def student(values: Floats, units: Units, confidence: float) -> tuple[float, float]:
    """Student's t around the mean, with the standard error of units and their number − 1 degrees of freedom."""
    from karat.stats.special import stdtrit

    error, count = standard_error(values, units)
    if error != error:
        return math.nan, math.nan
    half = float(stdtrit(count - 1, 0.5 + confidence / 2)) * error
    middle = mean_of(values, units)
    return middle - half, middle + half


def bca_bounds(
    draws: Floats, estimate: float, jackknife: Floats, confidence: float, *, expanded: bool = False
) -> tuple[float, float]:
    """Efron 1987: percentiles of the resampled values, corrected for bias and acceleration.

    A resample of n units spreads by √((n−1)/n) too little and knows nothing of the error of its spread: the interval
    of a mean of 25 is 7% too short. `expanded` makes up for both, as t does (Hesterberg 2015, section 5.3).
    """
    from karat.stats.special import ndtr, ndtri, stdtrit

    draws = draws[~np.isnan(draws)]
    if len(draws) == 0:
        return math.nan, math.nan
    slack = TOLERANCE * float(np.abs(draws).max())
    below = float(np.mean(draws < estimate - slack) + np.mean(draws <= estimate + slack)) / 2
    below = min(max(below, 0.5 / len(draws)), 1 - 0.5 / len(draws))
    bias = float(ndtri(below))
    pull = jackknife.mean() - jackknife
    spread = float((pull**2).sum()) ** 1.5
    acceleration = float((pull**3).sum()) / (6 * spread) if spread > 0 else 0.0
    z = float(ndtri(0.5 + confidence / 2))
    if expanded:
        count = len(jackknife)
        z = float(stdtrit(count - 1, 0.5 + confidence / 2)) * math.sqrt(count / (count - 1))
    levels = [float(ndtr(bias + (bias + side) / (1 - acceleration * (bias + side)))) for side in (-z, z)]
    low, high = np.quantile(draws, levels)
    return float(low), float(high)


def jackknife_means(top: Floats, bottom: Floats) -> Floats:
    """The mean without each unit in turn."""
    rest = bottom.sum() - bottom
    out = np.full(len(top), np.nan)
    np.divide(top.sum() - top, rest, out=out, where=rest > 0)
    return out


def studentized(values: Floats, units: Units, confidence: float, resamples: int, seed: int) -> tuple[float, float]:
    """The bootstrap of t: each resample is measured by its own standard error (Efron 1981)."""
    top, bottom = units.sums(values[None, :])
    there = bottom[:, 0] > 0
    top, bottom = top[there], bottom[there]
    stacked = np.concatenate((top, bottom, top * top, top * bottom, bottom * bottom), axis=1)
    one = np.ones_like(stacked) / len(stacked)  # sums, not ratios
    (sums,) = resampled([Group(stacked, one)], len(stacked), resamples, seed)
    t1, b1, tt, tb, bb = sums.T
    mean = t1 / b1
    count = len(stacked)
    variance = count / (count - 1) * np.maximum(tt - 2 * mean * tb + mean**2 * bb, 0.0) / b1**2
    middle = mean_of(values, units)
    error, _ = standard_error(values, units)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = (mean - middle) / np.sqrt(variance)
    scaled = scaled[np.isfinite(scaled)]
    if len(scaled) == 0:
        return middle, middle
    tail = (1 - confidence) / 2
    low, high = np.quantile(scaled, (tail, 1 - tail))
    return middle - float(high) * error, middle - float(low) * error


def quantile_interval(values: Sequence[float] | Floats, q: float, confidence: float = CONFIDENCE) -> Interval:
    """A quantile with the order statistics that hold it, whatever the distribution (for latencies).

    `low` or `high` is NaN where too few values were seen to bound the quantile on that side.
    """
    from karat.stats.special import bdtr

    level, share = checked_share("confidence", confidence), checked_share("q", q)
    data = np.sort(np.asarray(values, dtype=np.float64)[~np.isnan(values)])
    n = len(data)
    if n == 0:
        return Interval(math.nan, math.nan, math.nan, "none", 0)
    tail = (1 - level) / 2
    below = bdtr(np.arange(n), n, share)  # P(at most i of n values lie below the quantile)
    # The j-th smallest value, from 1, bounds it from below if P(fewer than j lie below it) <= tail, and so on.
    lows = np.flatnonzero(below <= tail)
    highs = np.flatnonzero(below >= 1 - tail)
    low = float(data[lows[-1]]) if len(lows) else math.nan
    high = float(data[highs[0]]) if len(highs) else math.nan
    place = max(1, math.ceil(n * (share - 1e-9)))  # rounding of n · q never moves the quantile by a place
    return Interval(float(data[place - 1]), low, high, "order statistics", n)
