"""How far a corrected figure may be off where the labels show few errors of the judge, or none.

Labels that agree with all predictions have no spread, and yet another one may disagree: of 20 labels without an error,
the docs behind them may have errors in up to one of six. What labels miss is a mean of values with bounds, and its
interval is that of Gaffke, as for queries: one more label is as far off as it can be (`bounded_means`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from karat.records import dataclass
from karat.stats.bounded_means import WHOLE, UnitMeans, mean_quantiles
from karat.stats.defaults import CONFIDENCE
from karat.stats.distributions import normal_quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.stats.intervals import Interval
    from karat.stats.resample import Units
    from karat.stats.survey import Survey

    Floats = NDArray[np.float64]


SAME = 1e-11
"""Values that differ by less are equal."""


class Reach(NamedTuple):
    """How far below an estimate the truth may be, and how far above."""

    down: float
    up: float

    def at_most(self, down: float, up: float) -> Reach:
        """No farther than this."""
        return Reach(min(self.down, max(down, 0.0)), min(self.up, max(up, 0.0)))


NOWHERE = Reach(0.0, 0.0)


class LabelDoubt(NamedTuple):
    """How far a mean of values per query may be off because labels are few: what the values alone do not say.

    All in units of −ln of the share that an interval leaves out on a side, as rare errors have exponential tails.
    """

    down: float
    up: float
    shown: float
    """How much of it the spread of the values has in it."""
    seen: float = 0.0
    """How many labels are far off: with more of them, their spread says how far others are."""

    @staticmethod
    def of(reach: Reach, shown: float, confidence: float, seen: float = 0.0) -> LabelDoubt:
        """From the reach of labels, and a standard error that the values show, at this confidence."""
        usual, scale = normal_quantile(0.5 + confidence / 2) * shown, decay(confidence)
        return LabelDoubt(reach.down / scale, reach.up / scale, usual / scale, seen)

    @property
    def hidden(self) -> Reach:
        """What the spread of the values does not show, of errors that few labels have shown."""
        down, up = (math.sqrt(max(side**2 - self.shown**2, 0.0)) for side in (self.down, self.up))
        return Reach(down / (1 + self.seen), up / (1 + self.seen))

    def widen(self, interval: Interval, confidence: float) -> Interval:
        """The interval of the values, with this: what adds up does so in squares (Zou & Donner 2008)."""
        scale, middle = decay(confidence), interval.estimate
        ends = []
        for own, reach in ((middle - interval.low, self.down), (interval.high - middle, self.up)):
            hidden = math.sqrt(max(reach**2 - self.shown**2, 0.0))
            ends.append(max(math.hypot(own, scale * hidden), scale * reach) if own == own else own)
        return replace(interval, low=middle - ends[0], high=middle + ends[1])


CERTAIN = LabelDoubt(0.0, 0.0, 0.0)


def keep_apart(differences: Floats, base: LabelDoubt, candidate: LabelDoubt, units: Units) -> Floats:
    """What to add to the differences of two runs so that their spread has in it what labels did not show.

    It is 0 on average, and 0 for queries in which the runs do not differ. The candidate may be worse by what it returns
    alone, or the baseline better by what that does: what both return is in either doubt, and what it adds here is
    within that of one more label.
    """
    one, two = base.hidden, candidate.hidden
    error = max(math.hypot(two.down, one.up), math.hypot(two.up, one.down)) * decay(CONFIDENCE)
    error /= normal_quantile(0.5 + CONFIDENCE / 2)
    rows = np.flatnonzero((np.abs(np.nan_to_num(differences)) > SAME) & (units.weight > 0))
    out = np.zeros(len(differences))
    if len(rows) < 2 or error == 0:
        return out
    share = units.weight[rows] / units.weight[~np.isnan(differences)].sum()
    signs = np.where(np.arange(len(rows)) % 2 == 0, 1.0, -1.0)
    signs -= float((share * signs).sum() / share.sum())
    out[rows] = signs * error / math.sqrt(float((share**2 * signs**2).sum()))
    return out


def decay(confidence: float) -> float:
    """−ln of the share that an interval leaves out on each side."""
    return -math.log((1 - confidence) / 2)


@dataclass(frozen=True)
class LabelledParts:
    """What labels say beyond the predictions, and what those without a label may be, as parts of the figure."""

    residual: Floats
    """Of each label: what people say less the prediction."""
    span: Floats
    """How far the part of each labelled pair reaches from its least to its largest value; 0: it does not matter."""
    survey: Survey
    open_low: Floats
    """Of each pair without a label: its least part less the prediction."""
    open_high: Floats
    """Of each pair without a label: its largest part less the prediction."""

    @property
    def seen(self) -> float:
        """How many labels are off by half of what is possible, or more; others count by the square of their share."""
        counts, span = self.span > 0, self.open_high - self.open_low
        matters = span > 0
        if not counts.any() or not matters.any():
            return 0.0
        farthest = float((np.maximum(self.open_high, -self.open_low)[matters] / span[matters]).max())
        return _count_far(self.residual[counts] / self.span[counts], farthest)

    def reach(self, confidence: float) -> Reach:
        """How far the figure may be off, as far as these labels say; never beyond what the parts allow."""
        span = self.open_high - self.open_low
        matters, counts = span > 0, self.span > 0
        limit = Reach(-float(self.open_low[matters].sum()), float(self.open_high[matters].sum()))
        if not matters.any() or not counts.any():
            return limit
        chance, weight = self.survey.probability[counts], (self.survey.weight * self.span)[counts]
        free = weight * np.sqrt(1 - chance)  # labels of all pairs leave no doubt
        if not (free > 0).any():
            return limit
        off = (self.residual[counts] / self.span[counts])[free > 0]
        free, tail = free[free > 0], (1 - confidence) / 2
        means = UnitMeans((off * free)[:, None], free[:, None], len(free))
        least = -_one_more(-off, -float((self.open_low[matters] / span[matters]).min()))
        most = _one_more(off, float((self.open_high[matters] / span[matters]).max()))
        extremes = means.level_weights(np.array([least]), np.array([most]))
        low, high = mean_quantiles(
            [
                (means.with_one_more(np.array([end]), one), share)
                for end, one, share in zip((least, most), extremes, (tail, 1 - tail), strict=True)
            ]
        )
        middle = float((off * free).sum() / free.sum())
        # Labels stand for what has none: its size is known.
        whole = float(self.span[counts].sum() + span[matters].sum()) * float(free.sum() / weight.sum())
        return Reach(whole * (middle - float(low[0])), whole * (float(high[0]) - middle))


def _one_more(off: Floats, farthest: float) -> float:
    """How far one more label may be off to this side: as far as can be, until others have shown how far they are.

    Labels that are off by less than half of that say little of it, as `counted_in_full` has it for differences.
    """
    seen = max(float(off.max()), 0.0)
    if seen >= farthest:
        return seen
    return seen + (farthest - seen) / (1 + _count_far(off, farthest))


def _count_far(off: Floats, farthest: float) -> float:
    return float((np.minimum(np.abs(off) / (WHOLE * farthest), 1.0) ** 2).sum())
