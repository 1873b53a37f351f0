"""Does a judge grade by something else than relevance? What its grades gain by a trait of docs of equal true grade."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.stats.defaults import CONFIDENCE
from karat.stats.intervals import Interval, checked_share
from karat.stats.survey import group_sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.stats.resample import Units

    Floats = NDArray[np.float64]


def measure_pull(
    trait: Floats, judge: Floats, human: Floats, units: Units, *, confidence: float = CONFIDENCE
) -> Interval:
    """How much the judge's grade rises with a trait, among docs to which people give the same grade.

    The slope of a regression within people's grades: of a trait that is 0 or 1 it is the difference that test theory
    calls differential item functioning (Dorans & Kulick 1986), with each grade weighted by how far both sides occur in
    it. A judge who only errs at random pulls docs of low grades up and of high grades down, whatever their trait; that
    is not counted here. The standard error is that of units (queries), with units − 1 degrees of freedom. NaN where
    the trait does not vary within any grade.
    """
    from karat.stats.special import stdtrit

    level = checked_share("confidence", confidence)
    _, stratum = np.unique(human, return_inverse=True)
    x, y = (_within(values, stratum, units.weight) for values in (trait, judge))
    spread = float((units.weight * x * x).sum())
    if not spread > 1e-12:
        return Interval(math.nan, math.nan, math.nan, "none", len(trait))
    slope = float((units.weight * x * y).sum()) / spread
    sums = group_sums(units.weight * x * (y - slope * x), units.unit, len(units))
    count = len(np.unique(units.unit[np.abs(x) > 1e-12]))
    if count < 2:
        return Interval(slope, math.nan, math.nan, "none", len(trait))
    error = math.sqrt(count / (count - 1) * float((sums**2).sum())) / spread
    half = float(stdtrit(count - 1, 0.5 + level / 2)) * error
    return Interval(slope, slope - half, slope + half, "t", len(trait))


def _within(values: Floats, stratum: NDArray[np.int64], weight: Floats) -> Floats:
    """Values without the mean of their stratum."""
    groups = int(stratum.max(initial=-1)) + 1
    means = group_sums(weight * values, stratum, groups) / group_sums(weight, stratum, groups)
    out: Floats = values - means[stratum]
    return out
