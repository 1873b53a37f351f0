"""Where the ends of a mean's interval may lie if each value is only known to lie between two ends.

The quantile of the mean under random shares rises with every value, and falls with the weight of one more unit at the
lower bound. That weight depends on how far the values are spread towards it: what is worst within the ends is taken.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from karat.records import dataclass
from karat.stats.bounded_means import EQUAL, UnitMeans, reach_shown, weight_of_one_more
from karat.stats.defaults import CONFIDENCE
from karat.stats.groups import intervals
from karat.stats.resample import Units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.stats.intervals import Interval

    Floats = NDArray[np.float64]

ROUGH = 0.02
"""How far quantiles found by saddlepoint are from exact ones, in standard deviations: up to .0184, for equal values."""

MOST_SHOWN = 2 / 3
"""The share of the way from the mean to a bound at which a value says most (`reach_shown`)."""


@dataclass(frozen=True)
class PossibleEnds:
    """The least and the largest value of each end of an interval."""

    low: tuple[float, float]
    high: tuple[float, float]
    blank: bool = False
    """Whether there may be no interval at all."""

    UNKNOWN: ClassVar[PossibleEnds]

    @staticmethod
    def of(interval: Interval) -> PossibleEnds:
        """Those of an interval that is known."""
        return PossibleEnds((interval.low, interval.low), (interval.high, interval.high))

    def clip(self, least: float, most: float) -> PossibleEnds:
        """The same ends, none beyond these bounds; what is NaN stays so."""
        low, high = (tuple(np.clip(end, least, most).tolist()) for end in (self.low, self.high))
        return PossibleEnds((low[0], low[1]), (high[0], high[1]), self.blank)


PossibleEnds.UNKNOWN = PossibleEnds((math.nan, math.nan), (math.nan, math.nan), blank=True)


@dataclass(frozen=True)
class PartialLevel:
    """The ends of a run's values on a scale from 0 to 1, query by query."""

    low: Floats
    high: Floats

    @property
    def unsettled(self) -> NDArray[np.bool_]:
        """The queries whose value is not known."""
        out: NDArray[np.bool_] = self.high - self.low > EQUAL
        return out

    def ends(self, confidence: float = CONFIDENCE) -> PossibleEnds:
        """Where the ends of the mean's interval may lie; values that are all equal have none, unless at a bound."""
        if len(self.low) < 2:
            return PossibleEnds.UNKNOWN
        if not self.unsettled.any():
            values = merge_equal(self.low, 0.0, 1.0)
            (found,) = intervals(values[None], Units.of(len(values)), bounds=[(0.0, 1.0)], confidence=confidence)
            return PossibleEnds.of(found).clip(0.0, 1.0)
        tail = (1 - confidence) / 2
        here = PartialLevel(_at_bounds(self.low), _at_bounds(self.high))
        turned = PartialLevel(1 - here.high, 1 - here.low)
        low = [here._low_end(tail, best=best) for best in (False, True)]
        high = [1 - turned._low_end(tail, best=best) for best in (True, False)]
        most, least = float(here.low.max()), float(here.high.min())
        blank = most <= least + EQUAL and most < 1 and least > 0
        return PossibleEnds((low[0], low[1]), (high[0], high[1]), blank).clip(0.0, 1.0)

    def _low_end(self, tail: float, *, best: bool) -> float:
        """The lower end of the interval, for the values for which it is largest, or least."""
        units = plain_means(self.high if best else self.low)
        one_more = units.with_one_more(np.zeros(1), np.array([self._weight(lightest=best)]))
        return bound_quantile(one_more, tail, largest=best)

    def _weight(self, *, lightest: bool) -> float:
        """The least or the largest weight of one more unit at 0 (`UnitMeans.level_weights`)."""
        means = float(self.low.mean()), float(self.high.mean())
        least, most = (
            np.clip(1 - value / mean, 0.0, 1.0) if mean > 0 else np.zeros(len(value))
            for value, mean in zip((self.high, self.low), means, strict=True)
        )
        if lightest:
            reach = reach_shown(np.clip(MOST_SHOWN, least, most))
        else:
            reach = np.minimum(reach_shown(least), reach_shown(most))
        return max(float(weight_of_one_more(reach)), 0.5)


def plain_means(values: Floats) -> UnitMeans:
    """Single queries that all count alike."""
    return UnitMeans(values[:, None], np.ones((len(values), 1)), len(values))


def bound_quantile(means: UnitMeans, share: float, *, largest: bool) -> float:
    """The quantile of the mean, or a little more or less: it is exact for two values, and close to exact for others."""
    slack = ROUGH * float(means.spread[0])
    return float(means.mean_quantile(share)[0]) + (slack if largest else -slack)


def merge_equal(values: Floats, *bounds: float) -> Floats:
    """The values, those that differ by rounding alone made equal to the least of them, or to one of these bounds."""
    order = np.argsort(values, kind="stable")
    first = np.diff(values[order], prepend=-math.inf) > EQUAL
    out = np.empty_like(values)
    out[order] = values[order][first][np.cumsum(first) - 1]
    for bound in bounds:
        out[np.abs(out - bound) <= EQUAL] = bound
    return out


def _at_bounds(values: Floats) -> Floats:
    """The values, with those that differ from a bound by rounding alone at that bound."""
    return np.where(values <= EQUAL, 0.0, np.where(values >= 1 - EQUAL, 1.0, values))
