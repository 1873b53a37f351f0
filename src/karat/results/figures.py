"""Figures in writing: values, p and effect sizes get their digits, unit, sign and interval here, in every output."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from karat.metrics.grammar import PRIMARY, parse
from karat.records import dataclass
from karat.stats.defaults import LEAST_P
from karat.store.codec import rounded

if TYPE_CHECKING:
    from karat.stats.aggregates import ChangeScale
    from karat.stats.intervals import Interval

SAME = 1e-12
"""Numbers this close are equal: results are written with 12 digits."""
MOST = 12
"""Decimals beyond which nothing is printed."""
RATIO_DECIMALS = 3
UNDEFINED = "–"


@dataclass(frozen=True)
class Figure:
    """A value, or the change from one value to another, with its interval, as a reader sees it.

    The digits follow from the metric and the magnitude: a value never lies outside its own printed interval, and what
    is not zero is not printed as zero. A difference always has its sign, and a ratio a × before it.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    unit: str = ""
    decimals: int = 4
    """Decimals of the value; small values get more."""
    difference: bool = False
    ratio: bool = False
    threshold: float = math.nan
    """What the value and its ends are compared with: they are printed on the side of it on which they lie."""

    @property
    def defined(self) -> bool:
        return self.value == self.value

    @property
    def text(self) -> str:
        """The value with its sign and unit: `0.5246`, `+0.0123`, `×0.995`, `0.071 ms`."""
        return self._signed(_beside(self.value, self.threshold, self._decimals)) + self._unit

    @property
    def interval(self) -> str:
        """`[0.481, 0.571]`; a dash where too few queries leave a side open; empty without an interval."""
        return _range(self.low, self.high, self._interval_decimals, self.threshold)

    @property
    def short(self) -> str:
        """The value in the digits of its interval, for sentences: `0.525`."""
        return self._signed(_beside(self.value, self.threshold, self._short_decimals)) + self._unit

    @property
    def size(self) -> str:
        """How large a difference is, without its sign, in the digits of its interval."""
        return _fixed(abs(self.value), _beside(self.value, self.threshold, self._short_decimals)) + self._unit

    @property
    def size_interval(self) -> str:
        """The interval of a difference's size: of a fall from −0.259 to −0.081 it is `[0.081, 0.259]`."""
        decimals, limit = self._interval_decimals, self.threshold
        if self.value < 0:
            return _range(-self.high, -self.low, decimals, -limit)
        return _range(self.low, self.high, decimals, limit)

    def __str__(self) -> str:
        return f"{self.text} {self.interval}".rstrip()

    @property
    def sentence(self) -> str:
        """Value and interval in few digits: `0.525 [0.481, 0.571]`."""
        return f"{self.short} {self.interval}".rstrip()

    @property
    def _unit(self) -> str:
        return f" {self.unit}" if self.unit and self.defined else ""

    def _signed(self, decimals: int) -> str:
        if not self.defined:
            return UNDEFINED
        if self.difference and abs(self.value) <= SAME:
            return "0"
        sign = "×" if self.ratio else "+" if self.difference and self.value >= -SAME else ""
        return sign + _fixed(self.value, decimals)

    @property
    def _decimals(self) -> int:
        return _enough(self.value, self.decimals)

    @property
    def _short_decimals(self) -> int:
        """The digits of the interval, unless they would print as zero what is not."""
        decimals = self._interval_decimals
        return self._decimals if round(self.value, decimals) == 0 and abs(self.value) > SAME else decimals

    @property
    def _interval_decimals(self) -> int:
        """One digit less than the value, unless the printed value would then lie outside, or the ends be one."""
        small = self.decimals == 2 and abs(self.value) < 1
        start = self._decimals - 1 if self._decimals == self.decimals > 0 and not small else self._decimals
        if self.low > self.value or self.high < self.value:
            return start
        for decimals in range(start, MOST):
            value = round(self.value, max(self._decimals, decimals))
            low, high = round(self.low, decimals), round(self.high, decimals)
            one = low == high and self.high - self.low > SAME
            if not (low > value or high < value or one):
                return decimals
        return MOST


def figure(metric: str, value: float, low: float = math.nan, high: float = math.nan) -> Figure:
    """A value of a metric in its digits and its unit."""
    return Figure(value, low, high, parse(metric).metric.unit, _decimals(metric))


def variance_figure(metric: str, value: float) -> Figure:
    """A variance of values of a metric, in the square of its unit."""
    unit = parse(metric).metric.unit
    return Figure(value, unit=f"{unit}²" if unit else "", decimals=_decimals(metric))


def estimate_figure(metric: str, interval: Interval) -> Figure:
    """An estimate of a metric with its interval."""
    return figure(metric, interval.estimate, interval.low, interval.high)


def difference_figure(metric: str, value: float, low: float = math.nan, high: float = math.nan) -> Figure:
    """A difference of two values of a metric."""
    return Figure(value, low, high, parse(metric).metric.unit, _decimals(metric), difference=True)


def ratio_figure(value: float, low: float = math.nan, high: float = math.nan) -> Figure:
    """A ratio of two values of a metric: `×0.995 [0.91, 1.09]`."""
    return Figure(value, low, high, "", RATIO_DECIMALS, ratio=True)


def change_figure(
    metric: str, scale: ChangeScale, value: float, low: float = math.nan, high: float = math.nan
) -> Figure:
    """The change of a metric over queries: a difference, or a ratio where geometric means are compared."""
    return ratio_figure(value, low, high) if scale == "ratio" else difference_figure(metric, value, low, high)


def change_of(metric: str, before: float, after: float) -> Figure:
    """The change from one value of a metric over queries to another."""
    if parse(metric).aggregate == "geometric mean":
        return ratio_figure(after / before if before else math.nan)
    return difference_figure(metric, after - before)


def share_figure(value: float, low: float = math.nan, high: float = math.nan, *, difference: bool = False) -> Figure:
    """A figure from 0 to 1 that is not a value of a registered metric."""
    return Figure(value, low, high, "", _decimals(PRIMARY), difference)


def change_text(metric: str, before: float, after: float, *, short: bool = False) -> str:
    """`0.849 → 0.212`, in as many digits as show that the two differ; one value where they do not.

    Both have the digits of a figure that needs more of them, or of its interval where it is to be short.
    """
    unit, usual = parse(metric).metric.unit, _decimals(metric)
    decimals = max(_enough(before, usual), _enough(after, usual))
    small = usual == 2 and min(abs(before), abs(after)) < 1
    if short and decimals == usual > 0 and not small:
        decimals = max(_not_zero(before, usual - 1), _not_zero(after, usual - 1))
    suffix = f" {unit}" if unit else ""
    if abs(after - before) <= SAME or not (before == before and after == after):
        same = UNDEFINED if after != after else _fixed(after, decimals)
        return same + suffix
    while decimals < MOST and round(before, decimals) == round(after, decimals):
        decimals += 1
    return f"{_fixed(before, decimals)} → {_fixed(after, decimals)}{suffix}"


def p_text(p: float) -> str:
    """A p value: four decimals, a power of ten below that, and a bound where no smaller one is computed."""
    if p == LEAST_P:
        return f"< {LEAST_P:g}"
    return UNDEFINED if p != p else f"{p:.4f}" if float(f"{p:.1e}") >= 0.0001 else f"{p:.1e}"


def effect_text(size: float) -> str:
    """An effect size."""
    return UNDEFINED if not math.isfinite(size) else f"{size:z.2f}"


def level_text(confidence: float) -> str:
    """A confidence as a percentage: `95%`, `98.33%`."""
    return f"{round(100 * confidence, 2):g}%"


def percent_text(share: float) -> str:
    """A share as a whole percentage."""
    return UNDEFINED if share != share else f"{share:.0%}"


def _decimals(metric: str) -> int:
    """Four for what is bounded, two for times and counts, none for sums unless they are small and not whole."""
    measure = parse(metric)
    return 0 if measure.aggregate == "sum" else 2 if measure.metric.bounds[1] is None else 4


def _enough(value: float, decimals: int) -> int:
    """As many decimals as asked for, or two significant digits of what would else lose them; three of a sum."""
    if abs(value) <= SAME or not math.isfinite(value):
        return decimals
    if decimals == 0:
        return 0 if abs(value - round(value)) <= SAME * abs(value) else min(MOST, max(0, 2 - _magnitude(value)))
    return decimals if abs(value) >= least_of(decimals) else min(MOST, max(decimals, 1 - _magnitude(value)))


def _magnitude(value: float) -> int:
    return math.floor(math.log10(abs(value)))


def least_of(decimals: int) -> float:
    """The size from which on a value gets no more decimals: times below 1 are measured in more than two."""
    return 1 if decimals == 2 else 10.0**-decimals / 2


def as_saved(value: float) -> float:
    """The value as files hold it, so that figures of a saved result are rounded as those of a fresh one."""
    saved = rounded(value)
    return math.nan if saved is None else saved


def _fixed(value: float, decimals: int) -> str:
    text = f"{as_saved(value):,.{decimals}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


def _range(low: float, high: float, decimals: int, threshold: float) -> str:
    if low != low and high != high:
        return ""
    places = [_beside(x, threshold, _not_zero(x, decimals)) for x in (low, high)]
    return f"[{', '.join(UNDEFINED if x != x else _fixed(x, n) for x, n in zip((low, high), places, strict=True))}]"


def _beside(value: float, threshold: float, decimals: int) -> int:
    """So many decimals that a value is printed on its side of a threshold: −0.0598, not −0.060, above −0.06."""
    if not (math.isfinite(value) and math.isfinite(threshold)):
        return decimals
    side = _side(value, threshold)
    return next((n for n in range(decimals, MOST) if _side(round(value, n), threshold) == side), MOST)


def _side(value: float, threshold: float) -> int:
    return 0 if abs(value - threshold) <= SAME else 1 if value > threshold else -1


def _not_zero(end: float, decimals: int) -> int:
    """So many decimals that an end that is not 0 is not printed as 0: an interval that excludes 0 shows it."""
    hidden = math.isfinite(end) and abs(end) > SAME and round(end, decimals) == 0
    return min(MOST, -_magnitude(end)) if hidden else decimals
