"""How many queries a difference needs, and which difference these queries can show."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from karat.errors import UsageError
from karat.stats.defaults import ALPHA
from karat.stats.intervals import checked_share, checked_values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

POWER = 0.8
"""The chance with which a number of queries finds what it is named for."""
MOST = 10_000_000
MANY = 2_000
"""Beyond so many queries the normal distribution is as good as counting."""


def power_of(n: float, effect: float, alpha: float = ALPHA) -> float:
    """The chance that a paired t-test of n queries finds a true effect (in standard deviations)."""
    from karat.stats.special import chdtr, nctdtr, stdtrit

    if n < 2:
        return 0.0
    df, shift = n - 1, abs(effect) * math.sqrt(n)
    limit = float(stdtrit(df, 1 - alpha / 2))
    if shift > 37:  # beyond the reach of the distribution's series; only the deviation can still go wrong
        return float(chdtr(df, df * (shift / limit) ** 2))
    below, missed = (float(nctdtr(df, shift, x)) for x in (-limit, limit))
    # NaN is what the series gives for a chance too small for it.
    return 1 - (missed if missed == missed else 0.0) + (below if below == below else 0.0)


def queries_needed(difference: float, deviation: float, *, power: float = POWER, alpha: float = ALPHA) -> int | None:
    """The smallest number of queries at which this difference is found; None if none would do."""
    checked_share("power", power)
    checked_share("alpha", alpha)
    if deviation < 0 or not math.isfinite(deviation) or not math.isfinite(difference):
        raise UsageError(f"deviation must be a finite number from 0, found {deviation!r}")
    if difference == 0:
        return None
    if deviation == 0:
        return 2
    effect = abs(difference) / deviation
    return fewest_queries(lambda n: power_of(n, effect, alpha) >= power)


def fewest_queries(enough: Callable[[int], bool]) -> int | None:
    """The smallest number of queries that is enough, as all larger ones are; None if none within reach is."""
    low, high = 2, 4
    while not enough(high):
        low, high = high, high * 2
        if high > MOST:
            return None
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return high


@lru_cache(maxsize=4096)
def queries_needed_for_share(
    share: float, threshold: float, *, power: float = POWER, alpha: float = ALPHA, score: bool = False
) -> int | None:
    """The smallest number of queries at which the interval of this share leaves the threshold; None if none.

    Clopper and Pearson's interval leaves t, and order statistics leave a quantile, if and only if the exact binomial
    test rejects t on that side; Wilson's (`score`) if and only if the number of successes is further from nt than
    z√(nt(1−t)). So the power is a sum of two binomial tails, exact for every n; being counted, it moves in a saw-tooth,
    and the answer is the first n from which it stays at least `power` for as long again.
    """
    import numpy as np

    from karat.stats.special import bdtr, bdtrc, ndtri

    checked_share("power", power)
    checked_share("alpha", alpha)
    if share == threshold or not 0 <= threshold <= 1:
        return None
    if threshold in (0.0, 1.0):  # an interval reaches its own border only where all values are equal
        return None
    z = float(ndtri(1 - alpha / 2))

    def strong(n: NDArray[np.int64]) -> NDArray[np.bool_]:
        half = z * np.sqrt(n * threshold * (1 - threshold))
        if score:
            least, most = np.ceil(n * threshold - half) - 1, np.floor(n * threshold + half)
        else:
            least = _rejected_up_to(n, threshold, alpha / 2)
            most = n - 1 - _rejected_up_to(n, 1 - threshold, alpha / 2)
        low = np.where(least >= 0, bdtr(np.maximum(least, 0), n, share), 0.0)
        high = np.where(most < n, bdtrc(np.minimum(most, n), n, share), 0.0)
        return np.asarray(low + high >= power)

    rough = _rough(share, threshold, z, power)
    if rough > MOST:
        return None
    if rough > MANY:
        return math.ceil(rough)
    # The tooth is narrow beside n: looked at whole from half to twice of what the normal distribution says.
    numbers = np.arange(max(2, int(rough / 2)), int(rough * 2) + 50)
    weak = np.flatnonzero(~strong(numbers))
    return int(numbers[weak[-1] + 1]) if len(weak) and weak[-1] + 1 < len(numbers) else int(numbers[0])


def _rejected_up_to(n: NDArray[np.int64], threshold: float, tail: float) -> NDArray[np.float64]:
    """The largest number of successes of n that the exact test rejects as too few for this share; -1 if none."""
    from karat.stats.special import bdtr, bdtrik

    counts = np.ceil(np.maximum(np.nan_to_num(bdtrik(tail, n, threshold)), 0.0))
    for _ in range(2):  # the inverse lies between two whole numbers, and rounding may move it by one
        counts = np.where((counts >= 0) & (bdtr(np.maximum(counts, 0), n, threshold) > tail), counts - 1, counts)
    return np.asarray(counts, dtype=np.float64)


def _rough(share: float, threshold: float, z: float, power: float) -> float:
    """The number of queries by the normal distribution."""
    from karat.stats.special import ndtri

    spread = z * math.sqrt(threshold * (1 - threshold)) + float(ndtri(power)) * math.sqrt(share * (1 - share))
    return (spread / (share - threshold)) ** 2


def detectable(n: float, deviation: float, *, power: float = POWER, alpha: float = ALPHA) -> float:
    """The smallest difference that n queries with this deviation show with the given power."""
    checked_share("power", power)
    checked_share("alpha", alpha)
    if n < 2 or not math.isfinite(deviation):
        return math.nan
    return _detectable_effect(n, power, alpha) * deviation


@lru_cache(maxsize=1024)
def _detectable_effect(n: float, power: float, alpha: float) -> float:
    """The smallest difference that n queries show, in standard deviations."""
    low, high = 0.0, 1.0
    while power_of(n, high, alpha) < power:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if power_of(n, middle, alpha) >= power:
            high = middle
        else:
            low = middle
    return high


class PowerPlan(TypedDict, total=False):
    """What a comparison can show, or needs: the figures that `power` was asked for."""

    deviation: float
    power: float
    alpha: float
    difference: float
    queries_needed: int | None
    n: int
    smallest_detectable: float


def power(
    values: Sequence[float] | None = None,
    *,
    deviation: float | None = None,
    difference: float | None = None,
    n: int | None = None,
    power: float = POWER,
    alpha: float = ALPHA,
) -> PowerPlan:
    """Plan a comparison: the queries a difference needs, or the difference that n queries can show.

    The spread of the differences is given (`deviation`), or comes from the differences seen (`values`).
    """
    if values is not None:
        seen = checked_values("values", values)
        seen = seen[~np.isnan(seen)]
        if len(seen) < 2:
            raise UsageError("power needs at least two differences to know their spread")
        deviation = float(seen.std(ddof=1))
        n = n if n is not None else len(seen)
    if deviation is None or (difference is None and n is None):
        raise UsageError("power needs values or deviation, and one of difference and n")
    out = PowerPlan(deviation=deviation, power=power, alpha=alpha)
    if difference is not None:
        out["difference"] = difference
        out["queries_needed"] = queries_needed(difference, deviation, power=power, alpha=alpha)
    if n is not None:
        out["n"], out["smallest_detectable"] = n, detectable(n, deviation, power=power, alpha=alpha)
    return out
