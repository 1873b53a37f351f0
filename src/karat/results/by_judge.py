"""What a judge's grades make of a run: types that hold its figures beside those of the gold alone."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal

from karat.records import dataclass
from karat.stats.unseen_labels import CERTAIN, LabelDoubt

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from karat.stats.intervals import Interval

    Values = NDArray[np.float64]

CALIBRATED = "calibration"
"""The method of intervals that a calibration states."""
Basis = Literal["none", "raw", "corrected"]
"""What a figure rests on beside the gold: nothing, a judge's grades, or these corrected by people."""


@dataclass(frozen=True)
class JudgeCalibration:
    """What a judge is worth beside people, as the calibration says that was named."""

    made: str
    judged: int
    """Pairs that the judge graded: what the figures are about."""
    labelled: int
    """Those of them that people labelled."""
    sensitivity: Interval
    specificity: Interval
    skill: Interval
    """Sensitivity + specificity − 1."""
    weighted_kappa: Interval


@dataclass(frozen=True)
class JudgeIdentity:
    """The judge of the pairs that the gold lacks."""

    label: str
    fingerprint: str
    scale: str
    labels: int | None = None
    """The labels of people on pairs that were drawn at random; None without a calibration of this judge."""
    calibration: JudgeCalibration | None = None
    """None without one, and in results of older versions."""


@dataclass(frozen=True)
class ValueRange:
    """The least and the largest mean that a metric may have, whatever the grades of docs that the gold lacks."""

    low: float
    high: float


@dataclass(frozen=True)
class JudgedShare:
    """The share of docs in the top k with a grade: of the gold, and of gold or judge."""

    gold: float
    both: float


@dataclass(frozen=True)
class CorrectedFigure:
    """A figure as people would give it."""

    values: Values
    """By query: their mean is right, a single one is only a part of it, and may lie outside the metric's bounds."""
    interval: Interval
    """For queries like these: what gates look at."""
    these: Interval
    """For these queries alone: it shrinks to nothing as labels are added."""
    tuning: float
    """λ: how much the judge counts."""
    control: Values
    """By query: what the values gain as λ goes from 0 to 1."""
    shift: float = 0.0
    """What brings their mean within what gold and labels allow; differences do without."""
    doubt: LabelDoubt = CERTAIN
    """How far the truth may be beyond what the spread of the values shows, since labels are few."""

    @property
    def level(self) -> Values:
        """The values, their mean within what gold and labels allow."""
        return self.values + self.shift if self.shift else self.values

    def at(self, tuning: float) -> Values:
        """The values with another λ."""
        return self.values + (tuning - self.tuning) * self.control


@dataclass(frozen=True)
class SampledFigure:
    """A figure as if all pairs that could be drawn had been judged: each judgment stands for 1 / its probability."""

    values: Values
    """By query: NaN where nothing relevant was drawn, of ratios."""
    interval: Interval
    """For queries like these."""
    these: Interval
    """For these queries alone."""


@dataclass(frozen=True)
class RunByJudge:
    """One run with the judge's grades where the gold has none. Values are in the order of the run's queries."""

    pairs: int
    """Pairs of the gold's queries that the judge alone grades."""
    shared: int
    """Pairs that both grade: there the gold counts."""
    disagreements: int
    """Those of them that are relevant for one and not for the other."""
    judgments: str
    """A fingerprint of all grades and labels: only runs with the same one are compared by them."""
    raw: Mapping[str, Values] = field(default_factory=dict)
    """By metric: the values of gold + judge, for metrics that judged grades feed."""
    corrected: Mapping[str, CorrectedFigure] = field(default_factory=dict)
    not_raw: Mapping[str, str] = field(default_factory=dict)
    """By metric: why it is not measured by gold + judge though judged grades feed it."""
    not_corrected: Mapping[str, str] = field(default_factory=dict)
    """By metric that gold + judge measures: why it is not corrected."""
    bounds: Mapping[str, ValueRange] = field(default_factory=dict)
    judged: Mapping[str, JudgedShare] = field(default_factory=dict)
    """By metric: for its cutoff."""
    sampled: Mapping[str, SampledFigure] = field(default_factory=dict)
    """By metric, where judgments were drawn with known probabilities."""
    not_sampled: Mapping[str, str] = field(default_factory=dict)
    """By metric: why it is not estimated from such judgments."""
