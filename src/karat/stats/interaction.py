"""Do segments differ in their mean difference? A permutation test of all of them, and of each against the rest.

Under no interaction the units (queries or conversations) could be in any segment: their segments are shuffled. The
statistics are studentized (Welch 1951), so that segments of different spread do not mislead (Chung & Romano 2013).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from karat.records import dataclass
from karat.stats.bounded_means import UnitMeans
from karat.stats.defaults import SEED
from karat.stats.intervals import TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karat.stats.resample import Units

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]

WORK, CHUNK = 4_000_000, 500_000
"""Units that are shuffled in all, and at once; the number of draws follows."""
DRAWS, LEAST_DRAWS = 10_000, 999
KEPT = 8
"""So many chunks of shuffled units are kept: at most 32 MB."""


@dataclass(frozen=True)
class Interaction:
    """The p of no difference between segments, and of no difference of each segment from the rest."""

    p: float
    rest: tuple[float, ...]


def share_units(units: Sequence[Rows]) -> bool:
    """Whether two segments share a query or a conversation: their errors are then not independent."""
    own = np.concatenate([np.unique(mine) for mine in units])
    return len(np.unique(own)) < len(own)


def measure_interaction(
    differences: Floats, units: Units, groups: Sequence[Rows], *, draws: int = DRAWS, seed: int = SEED
) -> Interaction | None:
    """The test over groups of queries; None with fewer than two, or where they share units or lack spread."""
    there = [rows[~np.isnan(differences[rows]) & (units.weight[rows] > 0)] for rows in groups]
    if len(there) < 2 or min(map(len, there)) < 2 or share_units([units.unit[rows] for rows in there]):
        return None
    seen = [UnitMeans.of(differences[rows][None, :], units.take(rows)) for rows in there]
    # `take` scales weights by the largest of each group: undo that, so that units of all groups are comparable.
    scales = [float(units.weight[rows].max()) for rows in there]
    top = np.concatenate([scale * one.top[:, 0] for one, scale in zip(seen, scales, strict=True)])
    bottom = np.concatenate([scale * one.bottom[:, 0] for one, scale in zip(seen, scales, strict=True)])
    starts = np.cumsum([0, *(len(one.top) for one in seen[:-1])])
    middle = top.sum() / bottom.sum()
    top = top - middle * bottom  # of any centre; near 0 the sums of squares are exact
    spread = float((top**2).sum() / (bottom**2).sum())
    if spread <= TOLERANCE * middle**2 or spread == 0:
        return None
    moments = np.column_stack((top, bottom, top * top, top * bottom, bottom * bottom))
    size = len(top)
    count = min(draws, max(WORK // size, LEAST_DRAWS))
    observed = _statistics(np.arange(size)[None, :], moments, starts, spread)[0]
    extreme = np.zeros(len(seen) + 1)
    step = max(1, CHUNK // size)
    for start in range(0, count, step):
        shuffled = _shuffled(size, min(step, count - start), seed, start)
        extreme += (_statistics(shuffled, moments, starts, spread) >= observed * (1 - 1e-9)).sum(axis=0)
    p = (extreme + 1) / (count + 1)
    return Interaction(float(p[0]), tuple(float(x) for x in p[1:]))


@lru_cache(maxsize=KEPT)
def _shuffled(size: int, count: int, seed: int, start: int) -> Rows:
    """Orders of so many units, kept: several fields slice the same queries, and ask for the same ones in turn."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0x1A7E, start]))
    return rng.permuted(np.repeat(np.arange(size)[None, :], count, axis=0), axis=1)


def _statistics(orders: Rows, moments: Floats, starts: Rows, spread: float) -> Floats:
    """Welch's weighted sum of squares between segments, and each segment's t² against the rest, by order of units."""
    even = bool((moments[:, 1] == moments[0, 1]).all())  # with equal weights only the values are shuffled
    columns = (0, 2) if even else range(moments.shape[1])
    plain = np.add.reduceat(moments, starts, axis=0)
    sums = np.repeat(plain[None], len(orders), axis=0)
    for i in columns:
        sums[:, :, i] = np.add.reduceat(moments[:, i].take(orders), starts, axis=1)
    if even:
        sums[:, :, 3] = sums[:, :, 0] * moments[0, 1]
    means, variances = _mean_and_variance(sums, spread)
    weights = 1 / variances
    centre = (weights * means).sum(axis=1, keepdims=True) / weights.sum(axis=1, keepdims=True)
    others, variances_of_others = _mean_and_variance(sums.sum(axis=1, keepdims=True) - sums, spread)
    apart = (means - others) ** 2 / (variances + variances_of_others)
    return np.column_stack(((weights * (means - centre) ** 2).sum(axis=1), apart))


def _mean_and_variance(sums: Floats, spread: float) -> tuple[Floats, Floats]:
    """Of segments' means, with one more unit of the usual spread: a segment of ties is not sure of anything."""
    top, bottom, squares, products, weights = np.moveaxis(sums, -1, 0)
    means, count = top / bottom, bottom**2 / weights
    residual = np.maximum(squares - 2 * means * products + means**2 * weights, 0.0)
    return means, (residual + spread * weights / count) / bottom**2 * count / np.maximum(count - 1, 0.5)
