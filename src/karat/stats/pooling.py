"""Partially pooled means of segments: each is drawn towards the others as far as their differences look like chance.

The true means of segments are taken for draws from a normal distribution of unknown centre and deviation τ. The
posterior of a segment's mean is a mixture over τ on a grid. The prior is flat in the centre and in τ (Gelman 2006),
with a mass at τ = 0: segments are often alike. bench/pooling.py measures that the intervals hold for segments that are
alike and for segments that are not. The standard errors allow for one more unit at the end of the scale, as other
intervals do (`bounded_means.py`), so that equal values are not sure of anything.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.records import dataclass
from karat.stats.aggregates import score_differences
from karat.stats.bounded_means import PairedShares, UnitMeans
from karat.stats.groups import defined_alike
from karat.stats.interaction import share_units
from karat.stats.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karat.stats.aggregates import Statistic
    from karat.stats.resample import Units

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]
    Pooled = list[tuple[Interval, ...]]
    """For each segment its interval at each level; empty where it is not pooled."""

POOLED = "pooled"
"""The method of an interval of a partially pooled mean."""
LEAST_SEGMENTS = 3
"""With fewer segments nothing is known of how far segments differ, and none is pooled."""
PoolingObstacle = Literal["too few segments", "shared queries", "shared conversations", "no spread"]
"""Why segments are not pooled."""
GRID, STEPS, CLOSE = 40, 60, 1e-9


def pool_figures(
    values: Floats,
    statistic: Statistic,
    units: Units,
    groups: Sequence[Rows],
    *,
    levels: Sequence[float],
    minimum: float,
) -> Pooled:
    """The pooled mean in each segment (group of queries), of those that have enough units."""
    if statistic.aggregate != "mean":
        return [() for _ in groups]
    pooled = _pool(values, units, groups, statistic.score_bounds(), levels, minimum)
    return [tuple(statistic.within(one) for one in segment) for segment in pooled]


def pool_changes(
    base: Floats,
    candidate: Floats,
    statistic: Statistic,
    units: Units,
    groups: Sequence[Rows],
    *,
    levels: Sequence[float],
    minimum: float,
    factor: float = 1.0,
) -> Pooled:
    """The pooled mean difference from `factor` × the baseline in each segment, of those that have enough units."""
    if statistic.aggregate != "mean":
        return [() for _ in groups]
    differences = score_differences(statistic, base, candidate, factor)
    shares = PairedShares(statistic.shares(base), statistic.shares(candidate))
    pooled = _pool(differences, units, groups, statistic.change_bounds(factor), levels, minimum, shares)
    return [tuple(statistic.change_within(one, factor) for one in segment) for segment in pooled]


def _pool(
    values: Floats,
    units: Units,
    groups: Sequence[Rows],
    bounds: tuple[float, float],
    levels: Sequence[float],
    minimum: float,
    shares: PairedShares | None = None,
) -> Pooled:
    """Pool the segments of at least `minimum` units, if there are enough and none shares a unit with another.

    `shares` of the two runs are those of changes.
    """
    out: Pooled = [() for _ in groups]
    ((_, part, own, places),) = defined_alike(values[None, :], units, groups)
    members = [own.take(place) for place in places]
    chosen = _choose(members, minimum)
    if np.isnan(part).any() or _find_obstacle(own, places, chosen) is not None:
        return out
    there = np.flatnonzero(~np.isnan(values))
    seen = []
    for i in chosen:
        queries = there[places[i]]
        pairs = None if shares is None else PairedShares(shares.before[None, queries], shares.after[None, queries])
        seen.append(UnitMeans.of(part[:, places[i]], members[i], pairs))
    segments = measure_segments(seen, bounds=np.array([bounds]))
    if not segments.below.all():  # equal values without a scale say nothing of their error
        return out
    ends = [pool_segments(segments, confidence=level) for level in levels]
    for j, i in enumerate(chosen):
        n_eff = math.nan if members[i].plain else float(segments.units[0, j])
        out[i] = tuple(
            Interval(float(middle[0, j]), float(low[0, j]), float(high[0, j]), POOLED, len(places[i]), n_eff)
            for middle, low, high in ends
        )
    return out


def find_obstacle(values: Floats, units: Units, groups: Sequence[Rows], *, minimum: float) -> PoolingObstacle:
    """Why segments of these values, or differences, that are not pooled are not."""
    ((_, _, own, places),) = defined_alike(values[None, :], units, groups)
    return _find_obstacle(own, places, _choose([own.take(place) for place in places], minimum)) or "no spread"


def _choose(members: Sequence[Units], minimum: float) -> list[int]:
    """The segments that are large enough to be pooled."""
    return [i for i, mine in enumerate(members) if mine.effective >= max(minimum, 2)]


def _find_obstacle(units: Units, places: Sequence[Rows], chosen: Sequence[int]) -> PoolingObstacle | None:
    if len(chosen) < LEAST_SEGMENTS:
        return "too few segments"
    if share_units([places[i] for i in chosen]):
        return "shared queries"
    return "shared conversations" if share_units([units.unit[places[i]] for i in chosen]) else None


@dataclass(frozen=True)
class SegmentMeans:
    """Means of segments (columns × segments), with their standard errors downwards and upwards."""

    means: Floats
    below: Floats
    above: Floats
    units: Floats
    """How many units of equal weight each segment has."""


def measure_segments(segments: Sequence[UnitMeans], *, bounds: Floats) -> SegmentMeans:
    """The means of segments and their errors; `bounds` are those of each column's values or differences."""
    rows = []
    for seen in segments:
        find = seen.level_extremes if seen.moves is None else seen.change_extremes
        extremes = find(bounds[:, 0], bounds[:, 1])
        below, above = (seen.with_one_more(end).errors for end in extremes)
        below, above = np.where(below > 0, below, above), np.where(above > 0, above, below)  # all at one bound
        rows.append((seen.top.sum(axis=0) / seen.bottom.sum(axis=0), below, above, seen.effective))
    means, below, above, units = (np.stack(column, axis=1) for column in zip(*rows, strict=True))
    return SegmentMeans(means, _at_least_usual(below, units), _at_least_usual(above, units), units)


def _at_least_usual(errors: Floats, units: Floats) -> Floats:
    """Errors no smaller than the variance of all segments' units gives.

    Near a bound, a segment that did well by chance also shows little spread: it would count for too much.
    """
    variance = (errors**2 * units**2).sum(axis=1, keepdims=True) / units.sum(axis=1, keepdims=True)
    out: Floats = np.maximum(errors, np.sqrt(variance / units))
    return out


def pool_segments(segments: SegmentMeans, *, confidence: float) -> tuple[Floats, Floats, Floats]:
    """The pooled means and the ends of their intervals (columns × segments)."""
    from karat.stats.special import ndtri, stdtrit

    tail = (1 - confidence) / 2
    longer = stdtrit(segments.units, 1 - tail) / ndtri(1 - tail)  # the errors of few units are uncertain themselves
    low = _Posterior.of(segments.means, segments.below * longer).quantile(tail)
    high = _Posterior.of(segments.means, segments.above * longer).quantile(1 - tail)
    middle = _Posterior.of(segments.means, (segments.below + segments.above) / 2).mean
    return np.clip(middle, low, high), low, high


@dataclass(frozen=True)
class _Posterior:
    """The true mean of each column and segment: a mixture of normal distributions over τ (the last axis)."""

    shares: Floats
    means: Floats
    deviations: Floats

    @staticmethod
    def of(means: Floats, errors: Floats) -> _Posterior:
        """The posterior of normal means with known errors.

        τ is 0, or on a grid of τ / (τ + usual error). The mass at 0 is that of (7 / segments)³ usual errors of the
        flat part: the more segments there are, the better they show whether they are alike. The other parts are wider
        by .6 / segments: the fewer there are, the less is known of τ.
        """
        count = means.shape[1]
        place = (np.arange(GRID) + 0.5) / GRID
        prior = np.append((7 / count) ** 3, (1 - place) ** -2 / GRID)
        usual = (errors**-2).mean(axis=1) ** -0.5
        tau = usual[:, None] * np.append(0.0, place / (1 - place))
        weights = 1 / (errors[:, :, None] ** 2 + tau[:, None, :] ** 2)
        total = weights.sum(axis=1)
        centre = (weights * means[:, :, None]).sum(axis=1) / total
        apart = (weights * (means[:, :, None] - centre[:, None, :]) ** 2).sum(axis=1)
        score = (np.log(weights).sum(axis=1) - np.log(total) - apart) / 2 + np.log(prior)
        shares = np.exp(score - score.max(axis=1, keepdims=True))
        pull = errors[:, :, None] ** 2 * weights
        wider = np.append(1.0, np.full(GRID, 1 + 0.6 / count))
        return _Posterior(
            (shares / shares.sum(axis=1, keepdims=True))[:, None, :],
            means[:, :, None] + pull * (centre[:, None, :] - means[:, :, None]),
            wider * np.sqrt(errors[:, :, None] ** 2 * (1 - pull) + pull**2 / total[:, None, :]),
        )

    @property
    def mean(self) -> Floats:
        out: Floats = (self.shares * self.means).sum(axis=2)
        return out

    def quantile(self, share: float) -> Floats:
        """By Newton's method on the normal score, between the quantiles of the parts."""
        from karat.stats.special import ndtr, ndtri

        target = float(ndtri(share))
        ends = self.means + target * self.deviations
        low, high = ends.min(axis=2), ends.max(axis=2)
        out: Floats = (self.shares * ends).sum(axis=2)
        for _ in range(STEPS):
            parts = (out[:, :, None] - self.means) / self.deviations
            score = ndtri(np.clip((self.shares * ndtr(parts)).sum(axis=2), 1e-12, 1 - 1e-12))
            settled = np.abs(score - target) < CLOSE
            if bool(settled.all()):
                break
            low, high = np.where(score < target, out, low), np.where(score > target, out, high)
            density = (self.shares * np.exp(-(parts**2) / 2) / self.deviations).sum(axis=2)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = out - (score - target) * np.exp(-(score**2) / 2) / density
            step = np.where((step > low) & (step < high), step, (low + high) / 2)
            out = np.where(settled, out, step)
        return out
