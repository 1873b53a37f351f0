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

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

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


def lower_ends(values: Floats, sizes: NDArray[np.int64], tail: float) -> Floats:
    """The lowest mean of each row (rows × units, in [0, 1]) that no look has refuted; `sizes` are units by look."""
    looks = np.cumsum(sizes)
    goal = -math.log(tail)
    low, high = np.zeros(len(values)), (np.cumsum(values, axis=1)[:, looks - 1] / looks).max(axis=1)
    known = np.full(len(values), math.inf), np.full(len(values), -goal)  # how far beyond the goal, at both ends
    for step in range(STEPS):
        if bool((high - low <= CLOSE).all()):
            break
        with np.errstate(invalid="ignore"):
            chord = low + (high - low) * known[0] / (known[0] - known[1])
        inside = np.isfinite(chord) & (chord > low) & (chord < high) & (step % 3 > 0)
        at = np.where(inside, chord, (low + high) / 2)
        beyond = most_capital(values, sizes, at) - goal
        refuted = beyond >= 0
        low, high = np.where(refuted, at, low), np.where(refuted, high, at)
        known = np.where(refuted, beyond, known[0]), np.where(refuted, known[1], beyond)
    return low


def betting_ends(values: Floats, sizes: NDArray[np.int64], tail: float) -> tuple[Floats, Floats]:
    """Both ends of the mean of each row, each of which misses with a chance of no more than `tail` at any look."""
    return lower_ends(values, sizes, tail), 1 - lower_ends(1 - values, sizes, tail)


def betting_p(values: Floats, sizes: NDArray[np.int64], mean: float) -> Floats:
    """The two-sided p of this mean for each row: below 1 − confidence where the interval leaves it out."""
    capital = np.maximum(
        most_capital(values, sizes, np.full(len(values), mean)),
        most_capital(1 - values, sizes, np.full(len(values), 1 - mean)),
    )
    p: Floats = np.minimum(1.0, 2 * np.exp(-capital))
    return p


def most_capital(values: Floats, sizes: NDArray[np.int64], mean: Floats) -> Floats:
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


def units_by_look(days: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order of units by day, and how many each day has."""
    _, sizes = np.unique(days, return_counts=True)
    return np.argsort(days, kind="stable"), sizes.astype(np.int64)
