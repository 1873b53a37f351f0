"""What a gate will say of queries not collected yet: samples of `stats/planning.py`, judged as real ones are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.gates.judge import GateEvidence, Outcome, judge
from karat.records import dataclass
from karat.stats.planning import Population, RoughMeans

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.gates.gate import Gate
    from karat.stats.aggregates import IntervalChoice
    from karat.stats.intervals import Interval

    Floats = NDArray[np.float64]
    Names = NDArray[np.str_]

MOST_SAMPLES, LEAST_SAMPLES = 1000, 100
VALUES = 100_000
"""Values that are judged per cell: many small samples, or few large ones, which Student's t predicts better."""
FLAT = 1e-12
"""Half-widths up to this part of a mean are rounding: all scores are equal."""
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


@dataclass(frozen=True)
class Simulation:
    """Samples of n units with their intervals, for gates that differ in nothing but their numbers."""

    setting: GateSetting
    population: Population
    n: int
    intervals: list[tuple[Interval, ...]]
    means: RoughMeans
    """Of these samples."""
    more_means: RoughMeans
    """Of more samples, whose intervals are predicted."""

    def chances(self, gate: Gate) -> Chances:
        """How likely each outcome of a gate is."""
        setting = replace(self.setting, gate=gate)
        outcomes: list[Outcome] = [judge(gate, _evidence(setting, *one)).outcome for one in self.intervals]
        prediction = _Prediction(setting, self.population, self.n, self.intervals, self.means)
        few, many = prediction.classes(self.means), prediction.classes(self.more_means)
        ship, block = (_share(name, np.array(outcomes), few, many) for name in ("pass", "fail"))
        return Chances(self.n, ship, min(block, 1 - ship))


def simulate(setting: GateSetting, population: Population, truth: float, n: int) -> Simulation:
    """Samples of n units, if the truth is this figure (or change of a figure)."""
    shares = population.shares(population.statistic.to_score(truth, n))
    rng = np.random.default_rng(np.random.SeedSequence([setting.choice.seed, n, 0x914A]))
    count = min(max(VALUES // n, LEAST_SAMPLES), MOST_SAMPLES if population.even else EACH)
    samples = list(population.samples(shares, n, count, rng))
    intervals = population.intervals(samples, setting.choice, setting.levels)
    means = RoughMeans.join([population.rough_means(sample) for sample in samples])
    return Simulation(setting, population, n, intervals, means, population.many_means(shares, n, rng))


def forecast(setting: GateSetting, population: Population, truth: float, n: int) -> Chances:
    """The chances of a pass and of a fail with n units, if the truth is this figure (or change of a figure)."""
    if n < max(setting.minimum, 2):
        return Chances(n, 0.0, 0.0)
    return simulate(setting, population, truth, n).chances(setting.gate)


def _share(outcome: Outcome, judged: Names, few: Names, many: Names) -> float:
    """How often samples have this outcome: as often as the judged ones of their class, which many samples weigh.

    A class of which no sample was judged has the outcome that it is named after. What no judged sample shows, and no
    prediction, has no chance at all.
    """
    total = 0.0
    for name in np.unique(many):
        own = judged[few == name]
        total += float(np.mean(many == name)) * (float(np.mean(own == outcome)) if len(own) else float(name == outcome))
    return min(total, 1.0)


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

    def classes(self, means: RoughMeans) -> Names:
        """The outcome of each sample; without spread, where Student's t says nothing, that of a class of its own."""
        if self._at_mean:
            return np.where((means.mean >= self._low) & (means.mean <= self._high), "pass", "fail")
        (down, up), (outer_down, outer_up) = self._stretch
        half, outer = (means.half_widths(level) for level in self._levels)
        passes = (means.mean - down * half >= self._low) & (means.mean + up * half <= self._high)
        fails = (means.mean + outer_up * outer < self._low) | (means.mean - outer_down * outer > self._high)
        flat = half <= FLAT * np.maximum(np.abs(means.mean), 1.0)
        return np.select([flat, passes, fails], ["without spread", "pass", "fail"], "undecided")


def _stretch(reaches: Floats, halves: Floats) -> float:
    """How far an end lies from the mean, in half-widths of Student's interval."""
    usable = np.isfinite(reaches) & (halves > 0)
    return float(np.median(reaches[usable] / halves[usable])) if usable.any() else 1.0
