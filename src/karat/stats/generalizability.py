"""Generalizability: how much of what a table of queries × systems shows would show again with other queries.

Every system answers every query, so the table is a fully crossed design with one value per cell (Brennan 2001, chapter
2; in retrieval: Bodoff & Li 2007, Urbano, Marrero & Martín 2013). A value is the sum of a grand mean, an effect of the
system, one of the query, and the rest: the interaction of both, which one value per cell cannot tell from error.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.records import dataclass
from karat.stats.defaults import CONFIDENCE
from karat.stats.intervals import Interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.stats.resample import Units

    Floats = NDArray[np.float64]

NOTHING = 1e-24
"""Relative: a mean square this small is what rounding leaves of zero."""
METHOD = "noncentral F"


@dataclass(frozen=True)
class VarianceComponents:
    """The variance of systems, of queries, and of their interaction with error, from the mean squares."""

    system: float
    query: float
    interaction: float
    negative: tuple[str, ...]
    """The components whose estimate is below 0; it is set to 0."""
    n: int
    systems: int

    @property
    def total(self) -> float:
        return self.system + self.query + self.interaction


@dataclass(frozen=True)
class SignalRatio:
    """The variance of systems divided by the error variance of one query, with the ends of its interval.

    With n queries the error variance is n times smaller, so every coefficient follows from this one ratio.
    """

    value: float
    low: float
    high: float

    def at(self, n: int) -> Interval:
        """The coefficient with n queries: the share of the observed variance of systems that is not error."""
        method = METHOD if self.low == self.low else "none"
        value, low, high = (_share(ratio * n) for ratio in (self.value, self.low, self.high))
        return Interval(value, low, high, method, n)

    def needed(self, target: float) -> Needed:
        """How many queries reach this coefficient, with the interval of that number."""
        odds = target / (1 - target)
        return Needed(*(_count(odds, ratio) for ratio in (self.value, self.high, self.low)))


@dataclass(frozen=True)
class Needed:
    """A number of queries, and the ends of its interval; None where no number is enough, or nothing is known."""

    n: int | None
    low: int | None
    high: int | None


@dataclass(frozen=True)
class GeneralizabilityStudy:
    """What one table says of differences between systems (relative, Eρ²) and of their levels (absolute, Φ)."""

    components: VarianceComponents
    relative: SignalRatio
    absolute: SignalRatio
    sphericity: float
    """Greenhouse & Geisser's ε: 1 where all pairs of systems vary alike over queries, less where some go together."""


def study_generalizability(table: Floats, *, confidence: float | None = CONFIDENCE) -> GeneralizabilityStudy:
    """Variance components of a table of queries × systems, and both coefficients; without a confidence no intervals.

    The intervals hold for these systems and other queries. The ratio of the mean squares of systems and of the rest
    has a noncentral F distribution around the true ratio (Steiger & Fouladi 1997), with degrees of freedom reduced by
    ε, because some systems go together more than others (Box 1954; Greenhouse & Geisser 1959). That of Φ combines it
    with the F interval of queries against the rest, by the method of variance estimates recovery on the logarithms
    (Zou & Donner 2008). Feldt's interval (1965) takes the systems as a random sample instead.
    """
    n, systems = table.shape
    by_system, by_query, rest = _mean_squares(table)
    raw = {"system": (by_system - rest) / n, "query": (by_query - rest) / systems, "interaction": rest}
    negative = tuple(name for name, value in raw.items() if value < 0)
    components = VarianceComponents(**{k: max(v, 0.0) for k, v in raw.items()}, negative=negative, n=n, systems=systems)
    epsilon = _sphericity(table)
    error = components.query + rest
    relative, absolute = (_divide(components.system, e) for e in (rest, error))
    if confidence is None or rest == 0:
        return GeneralizabilityStudy(components, _bare(relative), _bare(absolute), epsilon)
    freedom = epsilon * (systems - 1)
    tails = (0.5 + confidence / 2, 0.5 - confidence / 2)
    ratio = max(1.0, by_system / rest)  # below 1 is chance: systems alike never count as known to be alike
    low, high = (_noncentrality(ratio, freedom, freedom * (n - 1), t) / (freedom * n) for t in tails)
    of_relative = SignalRatio(relative, min(low, relative), max(high, relative))
    of_absolute = _absolute_ratio(of_relative, by_query / rest, n, systems, freedom * (n - 1), tails)
    return GeneralizabilityStudy(components, of_relative, of_absolute, epsilon)


def unit_table(values: Floats, units: Units) -> Floats:
    """Systems × queries → units × systems, such that a plain mean over units is the weighted mean over queries.

    The value of a unit (a query, or a conversation of several) is the mean of the system plus how far the unit moves
    it: the linear form of a ratio of sums, whose variance is the one that standard errors use.
    """
    top, bottom = units.sums(values)
    if units.plain:
        return top
    mean = top.sum(axis=0) / bottom.sum(axis=0)
    table: Floats = mean + (top - mean * bottom) / bottom.mean(axis=0)
    return table


def _mean_squares(table: Floats) -> tuple[float, float, float]:
    """Of systems, of queries, and of the rest."""
    n, systems = table.shape
    mean, of_system, of_query = table.mean(), table.mean(axis=0), table.mean(axis=1)
    rest = table - of_system - of_query[:, None] + mean
    squares = (
        n * ((of_system - mean) ** 2).sum() / (systems - 1),
        systems * ((of_query - mean) ** 2).sum() / (n - 1),
        (rest**2).sum() / ((n - 1) * (systems - 1)),
    )
    least = NOTHING * float(np.abs(table).max(initial=0.0)) ** 2
    a, b, c = (0.0 if square <= least else float(square) for square in squares)
    return a, b, c


def _sphericity(table: Floats) -> float:
    """Greenhouse & Geisser 1959: from the covariance of the systems around their mean."""
    systems = table.shape[1]
    centred = table - table.mean(axis=1, keepdims=True)
    spread = np.atleast_2d(np.cov(centred.T))
    trace, size = float(np.trace(spread)), float((spread**2).sum())
    if size == 0 or systems == 2:
        return 1.0
    epsilon = trace**2 / ((systems - 1) * size)
    return float(min(1.0, max(1 / (systems - 1), epsilon)))


def _noncentrality(ratio: float, above: float, below: float, level: float) -> float:
    """The noncentrality for which a ratio as small as this has this probability; 0 where none has."""
    from scipy.optimize import brentq

    from karat.stats.special import fdtr, ncfdtr

    if fdtr(above, below, ratio) <= level:
        return 0.0
    most = max(1.0, above * ratio)
    while ncfdtr(above, below, most, ratio) > level:
        most *= 2
    return float(brentq(lambda x: ncfdtr(above, below, x, ratio) - level, 0.0, most, xtol=1e-9, rtol=1e-12))


def _absolute_ratio(
    relative: SignalRatio, queries: float, n: int, systems: int, freedom: float, tails: tuple[float, float]
) -> SignalRatio:
    """The ratio for levels: that for differences, divided by the error of a level in units of the rest."""
    from karat.stats.special import fdtri

    def share(ratio: float) -> float:
        return 1 + max(0.0, (ratio - 1) / systems)

    error = share(queries)
    least, most = (share(queries / float(fdtri(n - 1, freedom, t))) for t in tails)
    value = relative.value / error
    if relative.value == 0:
        return SignalRatio(0.0, 0.0, relative.high / error)
    down = math.hypot(math.log(relative.value / relative.low), math.log(most / error)) if relative.low > 0 else math.inf
    up = math.hypot(math.log(relative.high / relative.value), math.log(error / least))
    return SignalRatio(value, value * math.exp(-down), value * math.exp(up))


def _bare(ratio: float) -> SignalRatio:
    return SignalRatio(ratio, math.nan, math.nan)


def _divide(system: float, error: float) -> float:
    """Undefined where nothing varies; without bound where only the systems do."""
    return system / error if error > 0 else math.inf if system > 0 else math.nan


def _share(odds: float) -> float:
    return 1.0 if odds == math.inf else odds / (1 + odds)


def _count(odds: float, ratio: float) -> int | None:
    """Queries enough for these odds, a hair of rounding aside; None where no number is, or more than a billion."""
    needed = odds / ratio if ratio > 0 else math.nan
    return max(1, math.ceil(needed - 1e-9 * needed)) if needed <= 1e9 else None
