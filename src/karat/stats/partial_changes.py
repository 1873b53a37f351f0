"""What a test of paired differences can say where each difference is only known to lie between two ends.

The randomization test flips signs: whether it calls a mean higher is monotone in every difference, since each half of
the units has a mean that grows with it. So does the mean with one more unit, whose extreme value depends on how many
differences are not 0, how large they are and what the runs have to lose: what is worst within the ends is taken. What
the test says at all lower ends and at all upper ends therefore bounds what it can say of any values between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.records import dataclass
from karat.stats.bounded_means import EQUAL, PairedShares, counted_in_full, reach_of_one_more, typical_share
from karat.stats.changes import estimate_changes
from karat.stats.defaults import ALPHA, CONFIDENCE, DRAWS, SEED
from karat.stats.multiple import holm
from karat.stats.partial_levels import PossibleEnds, bound_quantile, merge_equal, plain_means
from karat.stats.resample import Units
from karat.stats.sign_flips import flip_signs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karat.stats.bounded_means import UnitMeans

    Floats = NDArray[np.float64]
    Ends = tuple[Floats, Floats]

Direction = Literal["lower", "no significant difference", "higher"]
DIRECTIONS: tuple[Direction, ...] = ("lower", "no significant difference", "higher")
STEPS = 30


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


@dataclass(frozen=True)
class PartialChange:
    """The ends of two runs' values, as shares of the scale, and of their differences, query by query."""

    before: Ends
    after: Ends
    low: Floats
    high: Floats

    @property
    def unsettled(self) -> NDArray[np.bool_]:
        """The queries for which a value or the difference is not known."""
        ends = (self.before, self.after, (self.low, self.high))
        out: NDArray[np.bool_] = np.any([high - low > EQUAL for low, high in ends], axis=0)
        return out

    @property
    def sides(self) -> tuple[PartialChange, PartialChange]:
        """This change, and the one from the second run to the first."""
        return self, PartialChange(self.after, self.before, -self.high, -self.low)

    def p_higher(self, *, best: bool, draws: int, seed: int) -> float:
        """The p of a mean above 0, for the values for which it is smallest, or largest; 1 if it is not above 0."""
        values = self.high if best else self.low
        if len(values) < 2 or values.sum() <= 0:
            return 1.0
        p = flip_signs(values[:, None], np.ones(len(values)), levels=(), draws=draws, seed=seed).p
        one_more = self._with_one_more(values, best=best)
        return max(float(p[0]), 2 * float(one_more.share_below(np.zeros(1))[0]))

    def ends(self, confidence: float = CONFIDENCE, *, draws: int = DRAWS, seed: int = SEED) -> PossibleEnds:
        """Where the ends of the interval of the mean difference may lie."""
        if len(self.low) < 2:
            return PossibleEnds.UNKNOWN
        if not self.unsettled.any():
            moved, before, after = (merge_equal(side, 0.0) for side in (self.low, self.before[0], self.after[0]))
            ((change,),) = estimate_changes(
                moved[None],
                Units.of(len(moved)),
                [np.arange(len(moved))],
                bounds=[(-1.0, 1.0)],
                shares=PairedShares(before[None], after[None]),
                levels=[confidence],
                draws=draws,
                seed=seed,
            )
            return PossibleEnds.of(change.intervals[0]).clip(-1.0, 1.0)
        tail, (here, turned) = (1 - confidence) / 2, self.sides
        low = [here._low_end(tail, best=best, draws=draws, seed=seed) for best in (False, True)]
        high = [-turned._low_end(tail, best=best, draws=draws, seed=seed) for best in (True, False)]
        return PossibleEnds((low[0], low[1]), (high[0], high[1])).clip(-1.0, 1.0)

    def _low_end(self, tail: float, *, best: bool, draws: int, seed: int) -> float:
        """The lower end of the interval, for the values for which it is largest, or least.

        Differences that are all 0 are not flipped: of few queries their interval is shorter than any other.
        """
        values = self.high if best else self.low
        level = 1 - 2 * tail
        ((end, _),) = flip_signs(values[:, None], np.ones(len(values)), levels=[level], draws=draws, seed=seed).ends
        out = min(float(end[0]), bound_quantile(self._with_one_more(values, best=best), tail, largest=best))
        if best and bool(((self.low <= 0) & (self.high >= 0)).all()):
            tied = plain_means(np.zeros(len(values))).with_one_more(-np.ones(1))
            out = max(out, bound_quantile(tied, tail, largest=True))
        return out

    def _with_one_more(self, values: Floats, *, best: bool) -> UnitMeans:
        """These values and one more, which moves as little, or as far, down as values between the ends allow."""
        sizes = np.maximum(self.high, -self.low) if best else np.maximum(np.maximum(self.low, -self.high), 0)
        room = np.array([_typical_ends(*self.before)[0 if best else 1]])
        apart, whole = (sizes > EQUAL).sum(keepdims=True), counted_in_full(sizes, room).sum(keepdims=True)
        return plain_means(values).with_one_more(-reach_of_one_more(room, apart, whole))


def foresee_changes(
    changes: Sequence[PartialChange], *, alpha: float = ALPHA, draws: int = DRAWS, seed: int = SEED
) -> list[PossibleChange]:
    """What comparisons may say for all values between their ends.

    They are one family: p is adjusted by Holm, which grows with the p of every one of them.
    """
    if not changes:
        return []
    lowest, highest = (
        np.array([[s.p_higher(best=best, draws=draws, seed=seed) for s in c.sides] for c in changes])
        for best in (True, False)
    )
    certain = holm(highest.min(axis=1).tolist())
    out = []
    for i, change in enumerate(changes):
        possible = []
        for own in lowest[i]:
            family = lowest.min(axis=1)
            family[i] = own
            possible.append(holm(family.tolist())[i] < alpha)
        chosen = (possible[1], certain[i] >= alpha, possible[0])
        directions = tuple(one for one, there in zip(DIRECTIONS, chosen, strict=True) if there)
        out.append(PossibleChange(float(change.low.mean()), float(change.high.mean()), directions))
    return out


def _typical_ends(low: Floats, high: Floats) -> tuple[float, float]:
    """The least and the largest typical share that values between these ends can have (Dinkelbach 1967)."""

    def share_of(values: Floats) -> float:
        return float(typical_share(values[None])[0])

    least, most = share_of(low), share_of(high)
    for _ in range(STEPS):
        least, most = (share_of(np.clip(least / 2, low, high)), share_of(np.where(low + high > most, high, low)))
    return max(least, EQUAL), most if low.any() else 1.0
