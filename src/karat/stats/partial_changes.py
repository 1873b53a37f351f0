"""What a test of paired differences can say where each difference is only known to lie between two ends.

The randomization test flips signs: whether it calls a mean higher is monotone in every difference, since each half of
the units has a mean that grows with it. So does the mean with one more unit, whose extreme value depends on how many
differences are not 0: the number that is worst within the ends is taken. What the test says at all lower ends and at
all upper ends therefore bounds what it can say of any values between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.stats.bounded_means import UnitMeans
from karat.stats.changes import flip_signs
from karat.stats.defaults import ALPHA, DRAWS, SEED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Direction = Literal["lower", "no significant difference", "higher"]
DIRECTIONS: tuple[Direction, ...] = ("lower", "no significant difference", "higher")


@dataclass(frozen=True)
class PossibleChange:
    """The bounds of a mean difference, and what its test may say of it."""

    low: float
    high: float
    directions: tuple[Direction, ...]
    """Nothing else is possible; not all of several need be."""

    @property
    def final(self) -> Direction | None:
        """What the test says whatever the differences are; None while that is open."""
        return self.directions[0] if len(self.directions) == 1 else None


def foresee_change(
    low: Floats,
    high: Floats,
    bounds: tuple[float, float],
    *,
    alpha: float = ALPHA,
    family: int = 1,
    draws: int = DRAWS,
    seed: int = SEED,
) -> PossibleChange:
    """What the comparison of two runs may say of differences between `low` and `high`, one for each query.

    `bounds` are the least and the largest difference that there can be. In a family of several comparisons p is
    adjusted by Holm: below alpha / family it is significant whatever the others are, and from alpha on it is not.
    """
    fewest, most = int(((low > 0) | (high < 0)).sum()), int(((low != 0) | (high != 0)).sum())

    def is_higher(values: Floats, least: float, apart: int, level: float) -> bool:
        """Whether the mean of these values is significantly above 0, if so many differences are not 0."""
        if len(values) < 2 or values.sum() <= 0:
            return False
        p, _ = flip_signs(values[:, None], np.ones(len(values)), levels=(), draws=draws, seed=seed)
        if p[0] >= level:
            return False
        units = UnitMeans(values[:, None], np.ones((len(values), 1)), len(values))
        one_more = units.with_one_more(np.array([least * max(apart, 1) ** -0.25]))
        return bool(2 * one_more.share_below(np.zeros(1))[0] < level)

    sides = ((low, high, bounds[0]), (-high, -low, -bounds[1]))
    certain = [is_higher(worst, least, fewest, alpha / family) for worst, _, least in sides]
    possible = [is_higher(best, least, most, alpha) for _, best, least in sides]
    chosen = (possible[1], not any(certain), possible[0])
    directions = tuple(one for one, there in zip(DIRECTIONS, chosen, strict=True) if there)
    return PossibleChange(float(low.mean()), float(high.mean()), directions)
