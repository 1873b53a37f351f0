"""Intervals that hold however often one looks: betting confidence sequences (Waudby-Smith & Ramdas 2024).

To test whether the mean of values in [0, 1] is no more than m, somebody bets against it: a share f of the capital is
placed on every unit, and multiplies by value / m. If m is true, no strategy is expected to gain, and the capital ever
reaches 1 / tail with a chance of no more than `tail` (Ville 1939): the means that were refuted at any time stay so. The
capital is divided among several shares f once and for all, which learns the best one at the price of its part. What
it is after some units does not depend on their order, so the units of one day count together.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.records import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.stats.resample import Units

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]

BETTING = "betting"
"""The method of an interval that holds at every look."""
CONTRADICTION = "contradiction"
"""The method of an interval that no mean is left in: what one day shows, another refutes."""
SHARES = np.array([1, 0.7, 2**-1, 2**-2, 2**-3, 2**-4, 2**-5, 2**-6, 2**-7, 2**-8])
PARTS = np.array([24, 6.4, 16, 16, 12, 8, 4, 2, 1, 1]) / 90.4
"""The bets f and their parts of the capital: short intervals from 50 to 600 units, for levels and for changes.

Any bets are valid. Large ones serve where values spread little on their scale, as differences do; small ones where
there are thousands of units.
"""
STEPS = 60
CLOSE = 1e-12


def lower_ends(values: Floats, sizes: Counts, tail: float) -> Floats:
    """The lowest mean of each row (rows × units, in [0, 1]) that no look has refuted; `sizes` are units by look."""
    looks = np.cumsum(sizes)
    goal = -math.log(tail)
    low, high = np.zeros(len(values)), (np.cumsum(values, axis=1)[:, looks - 1] / looks).max(axis=1)
    at_low, at_high = np.full(len(values), math.inf), np.full(len(values), -goal)  # how far beyond the goal
    before = np.zeros(len(values), dtype=bool)
    for step in range(STEPS):
        wide = high - low > CLOSE
        if not wide.any():
            break
        with np.errstate(invalid="ignore"):
            chord = low + (high - low) * at_low / (at_low - at_high)
        inside = np.isfinite(chord) & (chord > low) & (chord < high) & (step % 4 > 0)
        mean = np.where(inside, chord, (low + high) / 2)
        beyond = np.zeros(len(values))
        beyond[wide] = most_capital(values[wide], sizes, mean[wide]) - goal
        refuted = beyond >= 0
        again = (refuted == before) & inside  # the same end twice: the other one is too far away (Illinois method)
        at_low, at_high = (
            np.where(refuted, beyond, np.where(again, at_low / 2, at_low)),
            np.where(refuted, np.where(again, at_high / 2, at_high), beyond),
        )
        low, high, before = np.where(wide & refuted, mean, low), np.where(wide & ~refuted, mean, high), refuted
    return low


@dataclass(frozen=True)
class Bets:
    """Rows of values on their scales, in the order in which their units were complete."""

    values: Floats
    """Rows × units, from 0 to 1."""
    sizes: Counts
    """How many units there are of each day."""
    least: Floats
    most: Floats

    @staticmethod
    def of(values: Floats, units: Units, bounds: Floats) -> Bets:
        """Of rows of values without gaps, whose units weigh alike; `bounds` are the ends of each row's scale."""
        top, bottom = units.sums(values)
        there = bottom.any(axis=1)
        days = units.last_days[there]
        _, sizes = np.unique(days, return_counts=True)
        least, most = bounds[:, 0], bounds[:, 1]
        means = (top[there] / bottom[there]).T[:, np.argsort(days, kind="stable")]
        scaled = np.clip((means - least[:, None]) / (most - least)[:, None], 0.0, 1.0)
        return Bets(scaled, sizes.astype(np.int64), least, most)

    def ends(self, tail: float) -> tuple[Floats, Floats]:
        """Both ends of each mean, each of which misses with a chance of no more than `tail` at any look.

        Both are NaN where no mean is left between them.
        """
        low, high = lower_ends(self.values, self.sizes, tail), 1 - lower_ends(1 - self.values, self.sizes, tail)
        none = low > high
        span = self.most - self.least
        return np.where(none, math.nan, self.least + span * low), np.where(none, math.nan, self.least + span * high)

    def p_of_none(self) -> Floats:
        """The two-sided p of a mean of 0: no more than 1 − confidence where the interval leaves 0 out."""
        nothing = -self.least / (self.most - self.least)
        capital = np.maximum(
            most_capital(self.values, self.sizes, nothing), most_capital(1 - self.values, self.sizes, 1 - nothing)
        )
        p: Floats = np.minimum(1.0, 2 * np.exp(-capital))
        return p


def most_capital(values: Floats, sizes: Counts, mean: Floats) -> Floats:
    """The logarithm of the largest capital at any look of bets that the mean of each row is above this."""
    starts = np.cumsum(sizes) - sizes
    total = np.full((len(values), len(sizes)), -math.inf)
    with np.errstate(divide="ignore"):
        odds = values / np.maximum(mean, np.finfo(np.float64).tiny)[:, None]
        for share, part in zip(SHARES, PARTS, strict=True):
            gains = np.add.reduceat(np.log(1 - share + share * odds), starts, axis=1)
            total = np.logaddexp(total, np.cumsum(gains, axis=1) + math.log(part))
    most: Floats = total.max(axis=1)
    return most
