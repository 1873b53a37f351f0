"""What a judge makes of a run, as JSON documents and saved records hold it: their types, and the way there and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from karat.results.by_judge import (
    CALIBRATED,
    CorrectedFigure,
    JudgeCalibration,
    JudgedShare,
    JudgeIdentity,
    RunByJudge,
    SampledFigure,
    ValueRange,
)
from karat.results.json_numbers import Ends, Number, Pair
from karat.stats.intervals import Interval
from karat.stats.unseen_labels import CERTAIN, LabelDoubt
from karat.store.codec import ends_json, rounded

if TYPE_CHECKING:
    from karat.results.result import RunResult

Columns = dict[str, list[Number]]
"""By metric, values in the order of the run's queries."""
Bounds = Annotated[
    Pair | UnsetType,
    Meta(description="The least and the largest mean, whatever the grades of returned docs without gold."),
]


class AgreementJson(Struct, forbid_unknown_fields=True, frozen=True):
    """How far the judge and people agree, with its interval and the number of pairs."""

    estimate: Number
    ci: Ends
    n: int


class JudgeCalibrationJson(Struct, forbid_unknown_fields=True, frozen=True):
    """What the judge is worth beside people; relevant is a grade from 1."""

    made: str
    judged: Annotated[int, Meta(description="Pairs that the judge graded: what the figures are about.")]
    labelled: Annotated[int, Meta(description="Those of them that people labelled.")]
    sensitivity: AgreementJson
    specificity: AgreementJson
    skill: Annotated[AgreementJson, Meta(description="Sensitivity + specificity − 1: 0 is chance.")]
    weighted_kappa: AgreementJson


class JudgeJson(Struct, forbid_unknown_fields=True, frozen=True):
    """The judge of the pairs that the gold lacks."""

    label: str
    fingerprint: str
    scale: str
    labels: Annotated[
        int | UnsetType, Meta(description="Labels of people on random pairs; left out without a calibration.")
    ] = UNSET
    calibration: JudgeCalibrationJson | UnsetType = UNSET


class JudgedFigureJson(Struct, forbid_unknown_fields=True, frozen=True):
    """A mean over queries."""

    mean: Number
    ci: Ends
    ci_method: str
    n: int


class CorrectedFigureJson(Struct, forbid_unknown_fields=True, frozen=True):
    """A mean as people would give it; `these` is for these queries alone."""

    mean: Number
    ci: Ends
    ci_method: str
    n: int
    these: JudgedFigureJson
    tuning: Annotated[Number, Meta(description="λ: how much the judge counts, from 0 to 1.")]
    shift: Annotated[
        Number | UnsetType, Meta(description="What the mean of the saved values lacks to what gold and labels allow.")
    ] = UNSET
    doubt: Annotated[
        tuple[Number, Number, Number, Number] | UnsetType,
        Meta(
            description="How far below and above the mean the truth may be since labels are few, and how much of that "
            "the spread of the values shows: in units of −ln of the share that an interval leaves out on a side. "
            "The last one is how many labels are far off."
        ),
    ] = UNSET


class SampledFigureJson(Struct, forbid_unknown_fields=True, frozen=True):
    """A mean as if all pairs that could be drawn had been judged; `these` is for these queries alone."""

    mean: Number
    ci: Ends
    ci_method: str
    n: int
    these: JudgedFigureJson


class JudgedShareJson(Struct, forbid_unknown_fields=True, frozen=True):
    """The share of the metric's top k with a grade of the gold, and of gold or judge."""

    gold: Number
    both: Number


class JudgedMetricJson(Struct, forbid_unknown_fields=True, frozen=True):
    """One metric beside its figure by the gold alone, which is among the run's metrics."""

    raw: Annotated[JudgedFigureJson | UnsetType, Meta(description="By gold + judge.")] = UNSET
    corrected: CorrectedFigureJson | UnsetType = UNSET
    not_raw: Annotated[str | UnsetType, Meta(description="Why gold + judge does not measure it.")] = UNSET
    not_corrected: Annotated[str | UnsetType, Meta(description="Why it is not corrected.")] = UNSET
    bounds: Bounds = UNSET
    judged: JudgedShareJson | UnsetType = UNSET
    sampled: SampledFigureJson | UnsetType = UNSET
    not_sampled: Annotated[
        str | UnsetType, Meta(description="Why it is not estimated from judgments with known probabilities.")
    ] = UNSET


class RunByJudgeJson(Struct, forbid_unknown_fields=True, frozen=True):
    """A run with the judge's grades where the gold has none."""

    pairs: Annotated[int, Meta(description="Pairs that the judge alone grades.")]
    shared: Annotated[int, Meta(description="Pairs that both grade: there the gold counts.")]
    disagreements: Annotated[int, Meta(description="Those of them that are relevant for one and not for the other.")]
    judgments: Annotated[str, Meta(description="A fingerprint of all grades and labels.")]
    metrics: dict[str, JudgedMetricJson]


class JudgedValuesJson(Struct, forbid_unknown_fields=True, frozen=True):
    """The values of each query, by gold + judge and corrected; bounds and shares of judged docs in all their digits."""

    raw: Columns
    corrected: Columns
    control: Annotated[Columns, Meta(description="What corrected values gain as λ goes from 0 to 1.")]
    bounds: dict[str, tuple[Number, Number]]
    judged: dict[str, tuple[Number, Number]]
    sampled: Columns


def judge_json(judge: JudgeIdentity) -> JudgeJson:
    """The judge of a result."""
    one = judge.calibration
    calibration: JudgeCalibrationJson | UnsetType = UNSET
    if one is not None:
        figures = (one.sensitivity, one.specificity, one.skill, one.weighted_kappa)
        calibration = JudgeCalibrationJson(one.made, one.judged, one.labelled, *map(_agreement, figures))
    labels = UNSET if judge.labels is None else judge.labels
    return JudgeJson(judge.label, judge.fingerprint, judge.scale, labels, calibration)


def read_judge(judge: JudgeJson) -> JudgeIdentity:
    """The judge that a document names."""
    one = judge.calibration
    calibration = None
    if one is not UNSET:
        figures = (one.sensitivity, one.specificity, one.skill, one.weighted_kappa)
        calibration = JudgeCalibration(one.made, one.judged, one.labelled, *map(_read_agreement, figures))
    labels = None if judge.labels is UNSET else judge.labels
    return JudgeIdentity(judge.label, judge.fingerprint, judge.scale, labels, calibration)


def by_judge_json(run: RunResult) -> RunByJudgeJson:
    """The figures of a run that was judged."""
    one = run.by_judge
    assert one is not None
    raw = run.on_basis("raw").intervals
    metrics = {}
    for name in run.values:
        corrected, bounds, share = one.corrected.get(name), one.bounds.get(name), one.judged.get(name)
        metrics[name] = JudgedMetricJson(
            _figure(raw[name]) if name in one.raw else UNSET,
            _corrected(corrected) if corrected is not None else UNSET,
            one.not_raw.get(name, UNSET),
            one.not_corrected.get(name, UNSET),
            ends_json(bounds) if bounds is not None else UNSET,
            JudgedShareJson(rounded(share.gold), rounded(share.both)) if share is not None else UNSET,
            _sampled(one.sampled[name]) if name in one.sampled else UNSET,
            one.not_sampled.get(name, UNSET),
        )
    nothing = JudgedMetricJson()
    metrics = {name: metric for name, metric in metrics.items() if metric != nothing}
    return RunByJudgeJson(one.pairs, one.shared, one.disagreements, one.judgments, metrics)


def judged_values_json(one: RunByJudge) -> JudgedValuesJson:
    """The values behind the figures, for a saved result."""
    return JudgedValuesJson(
        {name: values.tolist() for name, values in one.raw.items()},
        {name: figure.values.tolist() for name, figure in one.corrected.items()},
        {name: figure.control.tolist() for name, figure in one.corrected.items()},
        {name: (bounds.low, bounds.high) for name, bounds in one.bounds.items()},
        {name: (share.gold, share.both) for name, share in one.judged.items()},
        {name: figure.values.tolist() for name, figure in one.sampled.items()},
    )


def read_by_judge(head: RunByJudgeJson, values: JudgedValuesJson, queries: int) -> RunByJudge:
    """What a saved result says of a run by its judge; raises ValueError where it contradicts itself."""
    columns = {name: np.array(column, dtype=np.float64) for name, column in values.raw.items()}
    corrected = {}
    for name, column in values.corrected.items():
        figure = head.metrics[name].corrected
        if figure is UNSET:
            raise ValueError(f"{name} has corrected values and no corrected figure")
        if name not in values.control:
            raise ValueError(f"{name} has corrected values and no control")
        own, control = (np.array(some, dtype=np.float64) for some in (column, values.control[name]))
        intervals = _interval(figure), _interval(figure.these)
        shift = 0.0 if figure.shift is UNSET else _number(figure.shift)
        doubt = CERTAIN if figure.doubt is UNSET else LabelDoubt(*map(_number, figure.doubt))
        corrected[name] = CorrectedFigure(own, *intervals, _number(figure.tuning), control, shift, doubt)
    sampled = {}
    for name, column in values.sampled.items():
        estimate = head.metrics[name].sampled
        if estimate is UNSET:
            raise ValueError(f"{name} has sampled values and no sampled figure")
        own = np.array(column, dtype=np.float64)
        sampled[name] = SampledFigure(own, _interval(estimate), _interval(estimate.these))
    of_corrected = [some for one in corrected.values() for some in (one.values, one.control)]
    if any(
        len(column) != queries
        for column in (*columns.values(), *of_corrected, *(one.values for one in sampled.values()))
    ):
        raise ValueError(f"expected {queries} values by the judge")
    metrics = head.metrics.items()
    return RunByJudge(
        head.pairs,
        head.shared,
        head.disagreements,
        head.judgments,
        columns,
        corrected,
        {name: one.not_raw for name, one in metrics if one.not_raw is not UNSET},
        {name: one.not_corrected for name, one in metrics if one.not_corrected is not UNSET},
        {name: ValueRange(*map(_number, ends)) for name, ends in values.bounds.items()},
        {name: JudgedShare(*map(_number, shares)) for name, shares in values.judged.items()},
        sampled,
        {name: one.not_sampled for name, one in metrics if one.not_sampled is not UNSET},
    )


def _agreement(interval: Interval) -> AgreementJson:
    return AgreementJson(rounded(interval.estimate), ends_json(interval), interval.n)


def _read_agreement(figure: AgreementJson) -> Interval:
    low, high = figure.ci or (None, None)
    return Interval(_number(figure.estimate), _number(low), _number(high), CALIBRATED, figure.n)


def _figure(interval: Interval) -> JudgedFigureJson:
    return JudgedFigureJson(rounded(interval.estimate), ends_json(interval), interval.method, interval.n)


def _corrected(one: CorrectedFigure) -> CorrectedFigureJson:
    whole = one.interval
    return CorrectedFigureJson(
        rounded(whole.estimate),
        ends_json(whole),
        whole.method,
        whole.n,
        _figure(one.these),
        rounded(one.tuning),
        one.shift or UNSET,
        UNSET if one.doubt == CERTAIN else _doubt(one.doubt),
    )


def _doubt(one: LabelDoubt) -> tuple[Number, Number, Number, Number]:
    return rounded(one.down), rounded(one.up), rounded(one.shown), rounded(one.seen)


def _sampled(one: SampledFigure) -> SampledFigureJson:
    whole = one.interval
    return SampledFigureJson(rounded(whole.estimate), ends_json(whole), whole.method, whole.n, _figure(one.these))


def _interval(figure: JudgedFigureJson | CorrectedFigureJson | SampledFigureJson) -> Interval:
    low, high = figure.ci or (None, None)
    return Interval(_number(figure.mean), _number(low), _number(high), figure.ci_method, figure.n)


def _number(value: Number) -> float:
    return math.nan if value is None else value
