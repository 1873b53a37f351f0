"""Ratios of sums over queries, such as micro-averaged F1, with intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import UsageError
from karat.stats.bounded_means import UnitMeans
from karat.stats.defaults import CONFIDENCE, RESAMPLES, SEED
from karat.stats.intervals import ALL_EQUAL, Interval, bca_bounds, checked_method, checked_share, jackknife_means
from karat.stats.resample import Group, resampled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.stats.resample import Units

    Floats = NDArray[np.float64]


def ratio_interval(
    part: Floats,
    whole: Floats,
    units: Units,
    *,
    confidence: float = CONFIDENCE,
    method: str = "auto",
    resamples: int = RESAMPLES,
    seed: int = SEED,
    threads: int = 1,
) -> Interval:
    """The sum of `part` over the sum of `whole`, bootstrapped by resampling whole queries (or conversations).

    n is the number of queries with something in the denominator.
    """
    level, asked = checked_share("confidence", confidence), checked_method(method)
    if asked not in ("auto", "bca", "percentile", "none"):
        asked = "auto"  # t, Wilson and the like are for means and shares of queries
    n = int(np.count_nonzero(whole > 0))
    top, bottom = (np.zeros(len(units)) for _ in range(2))
    np.add.at(top, units.unit, part * units.weight)
    np.add.at(bottom, units.unit, whole * units.weight)
    if (bottom < 0).any():
        raise UsageError("the denominators of a ratio must be numbers from 0")
    total = float(bottom.sum())
    if total <= 0:
        return Interval(math.nan, math.nan, math.nan, "none", 0)
    estimate = float(top.sum()) / total
    if asked == "none" or np.count_nonzero(bottom > 0) < 2:
        return Interval(estimate, math.nan, math.nan, "none", n)
    (draws,) = resampled([Group(top[:, None], bottom[:, None])], len(units), resamples, seed, threads)
    defined = draws[:, 0][~np.isnan(draws[:, 0])]
    if len(defined) == 0 or float(defined.max() - defined.min()) <= 1e-12 * abs(estimate):
        if estimate not in (0.0, 1.0):
            return Interval(estimate, math.nan, math.nan, ALL_EQUAL, n)
        some = bottom > 0  # as much as a unit that nobody saw may change it
        means, tail = UnitMeans(top[some, None], bottom[some, None], int(some.sum())), (1 - level) / 2
        other = means.with_one_more(np.array([1.0 - estimate])).mean_quantile(tail if estimate else 1 - tail)
        ends = (float(other[0]), 1.0) if estimate else (0.0, float(other[0]))
        return Interval(estimate, *ends, "gaffke", n)
    if asked == "percentile":
        low, high = np.quantile(defined, ((1 - level) / 2, (1 + level) / 2))
        return Interval(estimate, float(low), float(high), "percentile", n)
    there = bottom > 0
    ends = bca_bounds(defined, estimate, jackknife_means(top[there], bottom[there]), level, expanded=asked == "auto")
    return Interval(estimate, *ends, "bca", n)
