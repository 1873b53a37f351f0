"""What a judge is worth: its grades beside those of people, on pairs that were drawn at random."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.errors import InputError
from karat.judge.judgments import Judge, Judgment, Judgments, fingerprint_judge
from karat.judge.people_labels import (
    PairLabels,
    PeopleAgreement,
    find_gap,
    fingerprint_labels,
    group_labels,
    measure_people,
    select_drawn,
)
from karat.judge.pool import DEPTH
from karat.judge.systems import SystemsByJudge, compare_systems
from karat.model.policy import is_relevant
from karat.records import dataclass
from karat.results.figures import share_figure
from karat.stats.agreement import ConfusionMatrix, Discrimination, count_confusion, discriminate, kappa
from karat.stats.defaults import CONFIDENCE, MIN_SEGMENT
from karat.stats.differential import measure_pull
from karat.stats.intervals import Interval, student
from karat.stats.prediction_powered import CorrectedMean, Labels, correct_mean
from karat.stats.resample import Units, mean_of
from karat.stats.survey import Survey, group_sums
from karat.store.codec import as_plain, write_document

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from os import PathLike

    from numpy.typing import NDArray

    from karat.judge.pairs import DrawUnit
    from karat.model.json_data import JsonObject

    Floats = NDArray[np.float64]

Trait = Literal["length", "rank"]
"""Of a doc: how many characters the judge could read, and its best rank in the runs."""


@dataclass(frozen=True)
class Bias:
    """By how much the judge grades the pairs of a segment higher than people."""

    by: str
    value: str
    pairs: int
    error: Interval
    """The mean of judge − people, of labelled pairs by their weights."""

    @property
    def small(self) -> bool:
        """Whether there are too few pairs to say anything of them."""
        return self.pairs < MIN_SEGMENT


@dataclass(frozen=True)
class TraitBias:
    """How much the judge's grade rises with a trait of docs, among those to which people give the same grade."""

    trait: Trait
    pull: Interval
    """In grades, for each doubling."""


@dataclass(frozen=True)
class Calibration:
    """A judge beside people."""

    judge: Judge
    scale: str
    judged: int
    """Pairs that the judge graded: what all figures are about."""
    labelled: int
    """Those of them that people labelled and that were drawn at random."""
    left_out: int
    """Pairs with labels that were not drawn at random, or not in the way of the others."""
    people: tuple[str, ...]
    matrix: ConfusionMatrix
    weighted_kappa: Interval
    discrimination: Discrimination
    mean_grade: CorrectedMean
    relevant: CorrectedMean
    agreement: PeopleAgreement | None
    """How far the people agree, where several labelled the same pairs."""
    biases: tuple[Bias, ...] = ()
    """By segment."""
    traits: tuple[TraitBias, ...] = ()
    systems: SystemsByJudge | None = None
    """Where runs were named."""
    notes: tuple[str, ...] = ()
    unit: DrawUnit = "pair"
    """What was drawn: single pairs, or whole queries."""
    labels: str = ""
    """A fingerprint of the labels that it rests on."""

    def __repr__(self) -> str:
        return f"Calibration({self.judged:,} judged, {self.labelled:,} labelled at random)"

    @property
    def fingerprint(self) -> str:
        return fingerprint_judge(self.judge, self.scale)

    @property
    def refusal(self) -> str | None:
        """Why the judge must not be used; None if it may."""
        skill = self.discrimination.skill
        if self.discrimination.above_chance:
            return None
        return (
            f"{self.judge.label} is no better than chance: sensitivity + specificity − 1 is "
            f"{share_figure(skill.estimate, skill.low, skill.high)} over {self.labelled:,} pairs; "
            "its grades cannot be used. Try another model or prompt, or label more pairs"
        )

    def as_json(self) -> JsonObject:
        """The file that `save` writes, as dicts and lists."""
        from karat.judge.calibration_document import describe_calibration

        return as_plain(describe_calibration(self))

    def save(self, path: str | PathLike[str]) -> None:
        """Write what `karat judge calibrate -o` writes; refused for a judge that must not be used."""
        from karat.judge.calibration_document import describe_calibration

        if self.refusal is not None:
            raise InputError(self.refusal)
        write_document(describe_calibration(self), os.fspath(path))


def calibrate(
    rows: Sequence[Judgment],
    labels: Judgments,
    grades: Sequence[int],
    *,
    segments: Mapping[str, Mapping[str, str]] | None = None,
    traits: Mapping[Trait, Mapping[tuple[str, str], float]] | None = None,
    runs: Mapping[str, Collection[tuple[str, str]]] | None = None,
    depth: int = DEPTH,
    confidence: float = CONFIDENCE,
) -> Calibration:
    """Compare the grades of one judge with the labels of people.

    Only labels of pairs that were drawn at random count, by themselves or with their whole query. A label of a single
    pair stands for the pairs of the same judged grade, in proportion to how many of them have one, so that a sample
    that holds more of the rare grades says what a plain one would. `segments` holds values of queries by the name of a
    field, `traits` the length or rank of pairs, and `runs` the pairs that each run has in its first `depth` docs.
    """
    scale, place = rows[0].scale, {row.ids: i for i, row in enumerate(rows)}
    people = {ids: pair for ids, pair in group_labels(labels, scale).items() if ids in place}
    unit, random = _choose_design(people)
    if not random:
        raise InputError(
            f"{labels.path}: no pair that {rows[0].by.label} judged has a label of a person and was drawn at random; "
            "label a sample: karat judge sample, then karat judge label"
        )
    ids = list(random)
    where = np.array([place[pair] for pair in ids], dtype=np.int64)
    judge = np.array([row.grade for row in rows], dtype=np.float64)
    human = np.array([random[pair].grade for pair in ids], dtype=np.float64)
    if unit == "pair":
        survey, queries = survey_by_grade(judge, where, labels.path), None
        units = Units.of(len(ids), weights=survey.weight)
    else:
        if gap := find_gap(place, random):
            raise InputError(f"{labels.path}: {gap}")
        names = {query: number for number, query in enumerate(dict.fromkeys(query for query, _ in place))}
        queries = np.array([names[query] for query, _ in place], dtype=np.int64)
        survey = Survey(np.full(len(ids), len({query for query, _ in ids}) / len(names)))
        units = Units.of(len(ids), [query for query, _ in ids])
    mine = judge[where]
    grade_labels = Labels(where, human, survey)
    return Calibration(
        rows[0].by,
        scale,
        len(rows),
        len(ids),
        len(people) - len(ids),
        tuple(sorted({row.by.label for pair in ids for row in random[pair].rows})),
        count_confusion(human, mine, grades=grades, weights=survey.weight),
        kappa(human, mine, by="quadratic", grades=grades, units=units, confidence=confidence),
        discriminate(is_relevant(human), is_relevant(mine), units=units, confidence=confidence),
        _correct(judge, grade_labels, queries, confidence),
        _correct(
            is_relevant(judge).astype(np.float64),
            Labels(where, is_relevant(human).astype(np.float64), survey),
            queries,
            confidence,
        ),
        measure_people((random[pair] for pair in ids), list(grades), confidence=confidence),
        tuple(_biases(ids, mine - human, units, segments or {}, confidence)),
        tuple(_trait_biases(ids, human, mine, survey.weight, traits or {}, confidence)),
        compare_systems(list(place), judge, grade_labels, runs, depth=depth, confidence=confidence) if runs else None,
        labels.notes,
        unit,
        fingerprint_labels({pair: random[pair].grade for pair in ids}),
    )


def _choose_design(people: Mapping[tuple[str, str], PairLabels]) -> tuple[DrawUnit, dict[tuple[str, str], PairLabels]]:
    """Single pairs and whole queries are two samples: the larger one counts."""
    designs: dict[DrawUnit, dict[tuple[str, str], PairLabels]] = {
        unit: select_drawn(people, unit) for unit in ("pair", "query")
    }
    return max(designs.items(), key=lambda design: len(design[1]))


def _correct(judge: Floats, labels: Labels, queries: NDArray[np.int64] | None, confidence: float) -> CorrectedMean:
    """The mean over all judged pairs that people would give; `queries` are those of all pairs, where whole ones were
    drawn."""
    if queries is None:
        return correct_mean(judge, labels, confidence=confidence)
    size = int(queries.max()) + 1
    rows = np.unique(queries[labels.row])
    totals = group_sums(labels.value, queries[labels.row], size)[rows]
    by_query = Labels(rows, totals, Survey.even(len(rows), size))
    one = correct_mean(group_sums(judge, queries, size), by_query, confidence=confidence)
    factor = size / len(judge)  # from the mean of a query's total to that of a pair
    interval, human = (
        replace(i, estimate=factor * i.estimate, low=factor * i.low, high=factor * i.high)
        for i in (one.interval, one.human)
    )
    return CorrectedMean(interval, factor * one.error, one.tuning, float(judge.mean()), human)


def survey_by_grade(judge: Floats, where: NDArray[np.int64], path: str) -> Survey:
    """How the labelled pairs stand for all: by the grade that the judge gave them."""
    grades = np.unique(judge)
    stratum = np.searchsorted(grades, judge)
    sizes, counts = np.bincount(stratum), np.bincount(stratum[where], minlength=len(grades))
    if (counts == 0).any():
        grade = int(grades[counts == 0][0])
        raise InputError(
            f"{path}: none of the {int(sizes[counts == 0][0]):,} pairs of judged grade {grade} has a label, so nothing "
            "is known of them; label all pairs of a sample (karat judge sample)"
        )
    own = stratum[where]
    return Survey(counts[own] / sizes[own], own)


def _biases(
    ids: Sequence[tuple[str, str]],
    errors: Floats,
    units: Units,
    segments: Mapping[str, Mapping[str, str]],
    confidence: float,
) -> list[Bias]:
    parts = []
    for field, values in segments.items():
        own = np.array([values.get(query, "") for query, _ in ids])
        parts += [(field, value, own == value) for value in sorted(set(own.tolist()) - {""})]
    out = []
    for by, value, mask in parts:
        count, part = int(mask.sum()), units.take(mask)
        ends = student(errors[mask], part, confidence) if count > 1 else (np.nan, np.nan)
        out.append(Bias(by, value, count, Interval(mean_of(errors[mask], part), *ends, "t", count)))
    return out


def _trait_biases(
    ids: Sequence[tuple[str, str]],
    human: Floats,
    judge: Floats,
    weights: Floats,
    traits: Mapping[Trait, Mapping[tuple[str, str], float]],
    confidence: float,
) -> list[TraitBias]:
    """By query, of the pairs that have the trait; on a scale of doublings, as lengths and ranks are."""
    out = []
    for trait, values in traits.items():
        rows = [i for i, pair in enumerate(ids) if pair in values]
        doublings = np.log2(np.array([values[ids[i]] for i in rows], dtype=np.float64))
        units = Units.of(len(rows), [ids[i][0] for i in rows], weights[rows])
        out.append(TraitBias(trait, measure_pull(doublings, judge[rows], human[rows], units, confidence=confidence)))
    return out
