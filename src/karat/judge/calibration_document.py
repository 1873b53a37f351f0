"""A calibration as the file that it is saved in."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from karat.errors import InputError
from karat.judge.calibration import Bias, Calibration, Trait
from karat.judge.judgments import Judge
from karat.judge.pairs import DrawUnit
from karat.model.dates import utc_now
from karat.read.files import check_path, open_input
from karat.results.by_judge import CALIBRATED, JudgeCalibration
from karat.stats.intervals import Interval
from karat.store.codec import decode, rounded

if TYPE_CHECKING:
    from karat.judge.people_labels import PeopleAgreement
    from karat.judge.systems import SystemsByJudge
    from karat.stats.prediction_powered import CorrectedMean


class EstimateJson(Struct, frozen=True):
    """An estimate with the ends of its interval; null where there is none."""

    estimate: float | None
    low: float | None
    high: float | None
    n: int


class CorrectedJson(Struct, frozen=True):
    """A mean over all judged pairs: by the judge alone, by labels alone, and corrected."""

    judge: float | None
    labels: EstimateJson
    corrected: EstimateJson
    tuning: float | None


class BiasJson(Struct, frozen=True):
    """By how much the judge grades a segment higher than people."""

    by: str
    value: str
    pairs: int
    error: EstimateJson
    small: bool


class PeopleKappaJson(Struct, frozen=True):
    """The weighted kappa of two people on the pairs that both labelled."""

    first: str
    second: str
    kappa: EstimateJson


class PeopleAgreementJson(Struct, frozen=True):
    """Pairs that several people labelled: on how many they disagree, and how many of these are settled."""

    pairs: int
    disputed: int
    adjudicated: int
    kappas: list[PeopleKappaJson]


class TraitBiasJson(Struct, frozen=True):
    """What the judge gives docs of twice the length or rank more, where people give the same grade."""

    trait: Trait
    pull: EstimateJson


class JudgedSystemJson(Struct, frozen=True):
    """The first docs of a run: mean grades by the judge and by people, and by how much the judge is off."""

    run: str
    judged: int
    labelled: int
    judge: float | None
    people: float | None
    """The judge's mean, less its mean error on labelled pairs."""
    error: EstimateJson
    """The mean of judge − people."""
    favour: EstimateJson
    """What the judge gives more than to other docs that people grade the same; the intervals of all runs hold
    together."""
    small: bool
    favoured: bool
    disfavoured: bool


class SystemsJson(Struct, frozen=True):
    """Runs by mean grade: whether the judge favours one, and how far it orders them as people do."""

    depth: int
    tau: EstimateJson | None
    """Kendall's τ of the orders by judge and people; null where fewer than two runs have labelled pairs."""
    runs: list[JudgedSystemJson]


class CalibrationJson(Struct, frozen=True, kw_only=True):
    """The file that `karat judge calibrate` writes."""

    format_version: Literal[1] = 1
    kind: Literal["calibration"] = "calibration"
    judge: Judge
    fingerprint: str
    scale: str
    made: str
    judged: int
    labelled: int
    people: tuple[str, ...]
    usable: bool
    counts: list[list[int]]
    """Rows are people's grades, columns the judge's."""
    shares: list[list[float | None]]
    weighted_kappa: EstimateJson
    sensitivity: EstimateJson
    specificity: EstimateJson
    skill: EstimateJson
    mean_grade: CorrectedJson
    share_relevant: CorrectedJson
    people_alpha: EstimateJson | None
    """Krippendorff's alpha, where several people labelled the same pairs."""
    biases: list[BiasJson]
    drawn: DrawUnit = "pair"
    """What was drawn: single pairs, or whole queries."""
    labels: str | None = None
    """A fingerprint of the labels that count; null in files of older versions."""
    people_agreement: PeopleAgreementJson | None = None
    traits: list[TraitBiasJson] = []
    """By length where texts were named, by rank where runs were."""
    systems: SystemsJson | None = None
    """Where runs were named."""


def describe_calibration(one: Calibration) -> CalibrationJson:
    """The document of a calibration."""
    worth = one.discrimination
    return CalibrationJson(
        judge=one.judge,
        fingerprint=one.fingerprint,
        scale=one.scale,
        made=utc_now(),
        judged=one.judged,
        labelled=one.labelled,
        people=one.people,
        drawn=one.unit,
        labels=one.labels or None,
        usable=one.refusal is None,
        counts=one.matrix.counts.tolist(),
        shares=[[rounded(share) for share in row] for row in one.matrix.shares.tolist()],
        weighted_kappa=_estimate(one.weighted_kappa),
        sensitivity=_estimate(worth.sensitivity),
        specificity=_estimate(worth.specificity),
        skill=_estimate(worth.skill),
        mean_grade=_corrected(one.mean_grade),
        share_relevant=_corrected(one.relevant),
        people_alpha=None if one.agreement is None else _estimate(one.agreement.alpha),
        people_agreement=None if one.agreement is None else _agreement(one.agreement),
        biases=[_bias(bias) for bias in one.biases],
        traits=[TraitBiasJson(bias.trait, _estimate(bias.pull)) for bias in one.traits],
        systems=None if one.systems is None else _systems(one.systems),
    )


def read_calibration(path: str) -> CalibrationJson:
    """A calibration that was saved."""
    data = b"".join(line for _, line in open_input(check_path(path)).lines())
    try:
        data.decode("utf-8")  # fields that are not known are skipped, whatever bytes they hold
        return decode(data, CalibrationJson)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: is not a calibration ({error}); expected what `karat judge calibrate -o FILE` writes"
        ) from None


def summarize_calibration(document: CalibrationJson) -> JudgeCalibration:
    """What a result that rests on this judge holds of its calibration."""
    estimates = (document.sensitivity, document.specificity, document.skill, document.weighted_kappa)
    return JudgeCalibration(document.made, document.judged, document.labelled, *map(_interval, estimates))


def _interval(one: EstimateJson) -> Interval:
    estimate, low, high = (math.nan if end is None else end for end in (one.estimate, one.low, one.high))
    return Interval(estimate, low, high, CALIBRATED, one.n)


def _estimate(interval: Interval) -> EstimateJson:
    return EstimateJson(rounded(interval.estimate), rounded(interval.low), rounded(interval.high), interval.n)


def _corrected(mean: CorrectedMean) -> CorrectedJson:
    return CorrectedJson(rounded(mean.raw), _estimate(mean.human), _estimate(mean.interval), rounded(mean.tuning))


def _bias(bias: Bias) -> BiasJson:
    return BiasJson(bias.by, bias.value, bias.pairs, _estimate(bias.error), bias.small)


def _agreement(people: PeopleAgreement) -> PeopleAgreementJson:
    kappas = [PeopleKappaJson(one.first, one.second, _estimate(one.kappa)) for one in people.kappas]
    return PeopleAgreementJson(people.pairs, people.disputed, people.adjudicated, kappas)


def _systems(systems: SystemsByJudge) -> SystemsJson:
    rows = [
        JudgedSystemJson(
            one.run,
            one.judged,
            one.labelled,
            rounded(one.judge),
            rounded(one.people),
            _estimate(one.error),
            _estimate(one.favour),
            one.small,
            one.favoured,
            one.disfavoured,
        )
        for one in systems.systems
    ]
    return SystemsJson(systems.depth, None if systems.tau is None else _estimate(systems.tau), rows)
