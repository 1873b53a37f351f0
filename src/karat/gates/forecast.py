"""What a gate will say of queries that nobody has collected yet: simulated samples, judged as real ones are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karat.gates.judge import GateEvidence, judge
from karat.stats.planning import RoughMeans

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.gates.judge import Outcome
    from karat.gates.language import Gate
    from karat.stats.aggregates import IntervalChoice
    from karat.stats.intervals import Interval
    from karat.stats.planning import Population

    Floats = NDArray[np.float64]
    Marks = NDArray[np.bool_]

MOST_SAMPLES, LEAST_SAMPLES = 1000, 100
VALUES = 100_000
"""Values that are judged per cell: many small samples, or few large ones, which Student's t predicts better."""
EACH = 150
"""Samples at most where they have to be judged one at a time."""


@dataclass(frozen=True)
class Chances:
    """How likely each outcome is with n units."""

    n: int
    ship: float
    block: float

    @property
    def inconclusive(self) -> float:
        return max(0.0, 1 - self.ship - self.block)


@dataclass(frozen=True)
class GateSetting:
    """A gate, and how it is judged: intervals, their level for a fail, and the fewest units."""

    gate: Gate
    choice: IntervalChoice
    fail_confidence: float
    minimum: int

    @property
    def levels(self) -> tuple[float, float]:
        """The confidence of a pass, and that of a fail."""
        return self.choice.confidence, self.fail_confidence


def forecast(setting: GateSetting, population: Population, truth: float, n: int) -> Chances:
    """The chances of a pass and of a fail with n units, if the truth is this figure (or change of a figure)."""
    if n < max(setting.minimum, 2):
        return Chances(n, 0.0, 0.0)
    shares = population.shares(population.statistic.to_score(truth, n))
    rng = np.random.default_rng(np.random.SeedSequence([setting.choice.seed, n, 0x914A]))
    count = min(max(VALUES // n, LEAST_SAMPLES), MOST_SAMPLES if population.even else EACH)
    outcomes: list[Outcome] = []
    intervals: list[tuple[Interval, ...]] = []
    rough: list[RoughMeans] = []
    for sample in population.samples(shares, n, count, rng):
        found = population.intervals(sample, setting.choice, setting.levels)
        outcomes += [judge(setting.gate, _evidence(setting, *one)).outcome for one in found]
        intervals += found
        rough.append(population.rough_means(sample))
    seen = _Prediction(setting, population, n, intervals, RoughMeans.join(rough))
    few, many = seen.outcomes(seen.means), seen.outcomes(population.many_means(shares, n, rng))
    ship, block = (
        float(np.clip(np.mean([o == name for o in outcomes]) - a.mean() + b.mean(), 0.0, 1.0))
        for name, a, b in zip(("pass", "fail"), few, many, strict=True)
    )
    return Chances(n, ship, min(block, 1 - ship))


def _evidence(setting: GateSetting, passing: Interval, failing: Interval) -> GateEvidence:
    return GateEvidence(
        passing.estimate,
        passing.low,
        passing.high,
        passing.n,
        confidence=setting.choice.confidence,
        minimum=setting.minimum,
        n_eff=passing.n_eff,
        fail_low=failing.low,
        fail_high=failing.high,
        fail_confidence=setting.fail_confidence,
        method=passing.method,
    )


class _Prediction:
    """Outcomes by Student's t, whose interval is stretched on each side as those of the judged samples are."""

    def __init__(
        self,
        setting: GateSetting,
        population: Population,
        n: int,
        intervals: list[tuple[Interval, ...]],
        means: RoughMeans,
    ) -> None:
        self.means = means
        self._at_mean, self._levels = setting.gate.at_mean, setting.levels
        statistic, region = population.statistic, setting.gate.region
        self._low, self._high = (
            statistic.to_score(end, n) if math.isfinite(end) else end for end in (region.low, region.high)
        )
        self._stretch = []
        for place, level in enumerate(self._levels):
            half = means.half_widths(level)
            ends = [[statistic.to_score(getattr(one[place], side), n) for one in intervals] for side in ("low", "high")]
            self._stretch.append(tuple(_stretch(np.abs(np.array(side) - means.mean), half) for side in ends))

    def outcomes(self, means: RoughMeans) -> tuple[Marks, Marks]:
        """Which samples pass, and which fail."""
        if self._at_mean:
            inside = (means.mean >= self._low) & (means.mean <= self._high)
            return inside, ~inside
        (down, up), (outer_down, outer_up) = self._stretch
        half, outer = (means.half_widths(level) for level in self._levels)
        passes = (means.mean - down * half >= self._low) & (means.mean + up * half <= self._high)
        fails = (means.mean + outer_up * outer < self._low) | (means.mean - outer_down * outer > self._high)
        return passes, fails


def _stretch(reaches: Floats, halves: Floats) -> float:
    """How far an end lies from the mean, in half-widths of Student's interval."""
    usable = np.isfinite(reaches) & (halves > 0)
    return float(np.median(reaches[usable] / halves[usable])) if usable.any() else 1.0
