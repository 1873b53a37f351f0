"""Figures of a run with a judge's grades where the gold has none, and as people would give them: computed here."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import InputError, UsageError
from karat.judge.calibration import Calibration, survey_by_grade
from karat.judge.calibration_document import (
    CalibrationJson,
    describe_calibration,
    read_calibration,
    summarize_calibration,
)
from karat.judge.completed_gold import (
    NAME,
    CompletedGold,
    UnanswerableRankings,
    complete_gold,
    describe_scale_mismatch,
    hit_of,
)
from karat.judge.judgments import Judgment, fingerprint_judge, read_all_judgments, rows_of_judge
from karat.judge.people_labels import find_labels, fingerprint_labels
from karat.judge.sampled import estimate_sampled
from karat.judge.whole_queries import RankingsByPeople, correct_by_whole_queries
from karat.metrics.corrected import JudgedPairs, correct_metric, is_correctable
from karat.metrics.grammar import Measure, parse
from karat.metrics.registry import GOLD_ALONE
from karat.metrics.unjudged_bounds import bound_values
from karat.model.policy import Policy, is_judged
from karat.records import dataclass
from karat.results.by_judge import (
    CorrectedFigure,
    JudgeCalibration,
    JudgedShare,
    JudgeIdentity,
    RunByJudge,
    SampledFigure,
    ValueRange,
)
from karat.results.top_lists import find_gold_ranks
from karat.results.values import aggregate, estimate
from karat.results.words import plural
from karat.stats.prediction_powered import CorrectedValues, Labels
from karat.stats.unseen_labels import CERTAIN, LabelDoubt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from numpy.typing import NDArray

    from karat.align.hits import Aligned
    from karat.model.qrels import Qrels
    from karat.model.rankings import Rankings
    from karat.results.sampling import Sampling
    from karat.stats.intervals import Interval

    Values = NDArray[np.float64]

FED = ("precision", "ndcg")
"""Metrics that judged grades feed, beside false evidence.

Others stay on the gold: what a judge finds relevant does not lower their recall.
"""
BIASED = "labels of single pairs would leave it biased; label whole queries: karat judge sample --queries N"
NO_CALIBRATION = "no calibration"
NO_GRADES = "no query without an answer that the run returns has a grade"
NO_LABELS = "no pair that the judge alone grades has a label"


@dataclass(frozen=True, eq=False)
class JudgeGrades:
    """One judge's grades, and the labels of people that correct them."""

    rows: Sequence[Judgment]
    path: str
    labels: Mapping[tuple[str, str], int] | None
    """Of pairs that were drawn by themselves; None without a calibration."""
    notes: tuple[str, ...] = ()
    whole: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Of pairs that were drawn with their whole query."""
    calibration: JudgeCalibration | None = None
    is_gold: bool = False
    """Whether the gold is a file of these judgments: its pairs were drawn, and are not certain."""

    @cached_property
    def identity(self) -> JudgeIdentity:
        first = self.rows[0]
        labels = len(self.labels) + len(self.whole) if self.labels is not None else None
        fingerprint = fingerprint_judge(first.by, first.scale)
        return JudgeIdentity(first.by.label, fingerprint, first.scale, labels, self.calibration)

    @cached_property
    def content(self) -> str:
        """A fingerprint of all grades and labels."""
        grades = sorted((*row.ids, row.grade) for row in self.rows)
        text = json.dumps(
            [self.identity.fingerprint, grades, sorted((self.labels or {}).items()), sorted(self.whole.items())]
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def top(self) -> int:
        """The best grade of the scale."""
        return int(self.rows[0].scale.removeprefix("0-"))


def read_grading(
    paths: Sequence[str],
    *,
    judge: str | None = None,
    calibration: str | PathLike[str] | Calibration | None = None,
    gold: str | None = None,
) -> JudgeGrades:
    """The one judge of these files, or the one that is named; with a calibration, also the labels of people.

    A calibration is the file of one, or what `calibrate_judge` returns. `gold` is the file of the gold, which may be
    one of them.
    """
    judgments = read_all_judgments(paths)
    rows = rows_of_judge(judgments, judge)
    is_gold = gold is not None and any(os.path.samefile(path, gold) for path in paths)
    grading = JudgeGrades(rows, judgments.path, None, judgments.notes, is_gold=is_gold)
    if calibration is None:
        return grading
    document, source = _open_calibration(calibration)
    if document.fingerprint != grading.identity.fingerprint:
        raise InputError(
            f"{source}: is of another judge: {document.judge.label}, fingerprint {document.fingerprint}, and the "
            f"judgments are by {grading.identity.label}, fingerprint {grading.identity.fingerprint}; calibrate this "
            "judge (karat judge calibrate), or choose the other one (--judge)"
        )
    if not document.usable:
        raise InputError(f"{source}: {document.judge.label} is no better than chance; its grades cannot be used")
    labels, whole = (find_labels(judgments, document.scale, unit) for unit in ("pair", "query"))
    if not labels and not whole:
        raise InputError(
            f"{judgments.path}: no label of a person on a pair that was drawn at random, which corrected figures need; "
            "name the file of labels too: --judgments judged.jsonl --judgments labels.jsonl"
        )
    judged = {row.ids for row in rows}
    own = {ids: grade for ids, grade in (labels if document.drawn == "pair" else whole).items() if ids in judged}
    if document.labels not in (None, fingerprint_labels(own)) or len(own) != document.labelled:
        grading = replace(grading, notes=(*grading.notes, _describe_other_labels(source, document, len(own))))
    return replace(grading, labels=labels, whole=whole, calibration=summarize_calibration(document))


def _open_calibration(calibration: str | PathLike[str] | Calibration) -> tuple[CalibrationJson, str]:
    """The document of a calibration, and what to call it."""
    if isinstance(calibration, Calibration):
        return describe_calibration(calibration), "the calibration"
    if not isinstance(calibration, (str, os.PathLike)):
        raise UsageError(
            f"calibration must be a file, or what calibrate_judge returns, found a {type(calibration).__name__}"
        )
    return read_calibration(os.fspath(calibration)), os.fspath(calibration)


def _describe_other_labels(source: str, document: CalibrationJson, count: int) -> str:
    """That labels are not those of the calibration, whose figures stand beside theirs."""
    unit = "pairs" if document.drawn == "pair" else "whole queries"
    others = f"{plural(count, 'label')} of {unit}" if count else f"no labels of {unit}"
    return (
        f"{source} rests on other labels than those named here: {plural(document.labelled, 'label')} of {unit}, here "
        f"{others}; figures are corrected by those named here. Calibrate with them: karat judge calibrate"
    )


def complete(gold: Qrels, grading: JudgeGrades, policy: Policy, *, no_answer: Sequence[str] = ()) -> CompletedGold:
    """The gold with the grades of this judge; refused where none of them is about its queries."""
    completed = complete_gold(gold, grading.rows, policy, no_answer=no_answer)
    if not completed.pairs and not completed.shared:
        raise InputError(
            f"{grading.path}: judges none of the {len(gold):,} queries of the gold: it has ids such as "
            f"{grading.rows[0].query_id!r}, the gold has {gold.query_ids[0]!r}; name the judgments of these queries"
        )
    return completed


def measure_by_judge(
    measures: Sequence[Measure],
    rankings: Rankings,
    query_ids: Sequence[str],
    aligned: Aligned,
    completed: CompletedGold,
    grading: JudgeGrades,
    sampling: Sampling,
    policy: Policy,
    unanswerable: UnanswerableRankings | None = None,
    people: RankingsByPeople | None = None,
) -> RunByJudge:
    """A run whose `rankings` are by the gold alone, and `aligned` with the completed gold.

    `unanswerable` are the queries that false evidence is about, where some of them have grades; `people` is the run
    with people's grades, where queries were drawn whole.
    """
    own = [m for m in measures if m.needs == GOLD_ALONE]
    fed = [m for m in own if m.metric.name in FED]
    refusal = describe_scale_mismatch(completed.top, grading.identity.scale, policy)
    not_raw = {m.name: refusal for m in fed if refusal and m.metric.name != "precision"}
    by_both = [m for m in fed if m.name not in not_raw]
    both = aligned.rankings
    raw = {m.name: _in_order(m(both), both.query_ids, query_ids) for m in by_both}
    shares = {m.name: _share(m, rankings, both, sampling) for m in fed}
    pairs = [row.ids for row in grading.rows if row.ids not in completed.known]
    corrected, not_corrected = _correct_all(by_both, aligned, completed, grading, sampling, query_ids, policy, people)
    for m in (m for m in measures if m.metric.name == NAME):
        if unanswerable is None:
            not_raw[m.name] = NO_GRADES
            continue
        hits = hit_of(m)(unanswerable.both)
        raw[m.name] = _in_order(hits, unanswerable.both.query_ids, query_ids)
        shares[m.name] = _share(m, unanswerable.gold, unanswerable.both, sampling)
        one: CorrectedValues | str = BIASED if grading.labels is not None else NO_CALIBRATION
        if people is not None and people.unanswerable is not None:
            sides = unanswerable.both, people.unanswerable
            one = correct_by_whole_queries(hit_of(m), *sides, pairs, grading.whole, sampling)
        if isinstance(one, str):
            not_corrected[m.name] = one
        else:
            corrected[m.name] = _figure(m.name, one, unanswerable.both.query_ids, query_ids, sampling)
    sampled, not_sampled = _estimate_sampled(own, aligned, completed, grading, sampling, query_ids)
    top = completed.top if refusal or policy.binary else max(completed.top, float(grading.top))
    grades = np.unique(policy.regrade(np.arange(max(top, 1.0) + 1))).tolist()
    return RunByJudge(
        completed.pairs,
        completed.shared,
        completed.disagreements,
        grading.content,
        raw,
        corrected,
        not_raw,
        not_corrected,
        {m.name: bounds for m in own if (bounds := _bounds(m, rankings, grades, sampling)) is not None},
        shares,
        sampled,
        not_sampled,
    )


def _estimate_sampled(
    measures: Sequence[Measure],
    aligned: Aligned,
    completed: CompletedGold,
    grading: JudgeGrades,
    sampling: Sampling,
    query_ids: Sequence[str],
) -> tuple[dict[str, SampledFigure], dict[str, str]]:
    """Figures from judgments of known probabilities, and why there are none of some metrics."""
    pairs, names = _judged_pairs(aligned, completed)
    drawn = {row.ids: row.drawn for row in grading.rows if grading.is_gold or row.ids not in completed.known}
    ids = aligned.rankings.query_ids
    estimates, reasons = estimate_sampled(measures, pairs, [drawn.get(pair) for pair in names], sampling, ids)
    figures = {
        name: SampledFigure(
            values := _in_order(one.values, ids, query_ids), _interval(name, values, query_ids, sampling), one.these
        )
        for name, one in estimates.items()
    }
    return figures, reasons


def _in_order(values: Values, query_ids: Sequence[str], over: Sequence[str]) -> Values:
    """The values of these queries; NaN for those that have none."""
    by_query = dict(zip(query_ids, values.tolist(), strict=True))
    return np.array([by_query.get(q, math.nan) for q in over])


def _mean(measure: Measure, values: Values, query_ids: Sequence[str], sampling: Sampling) -> float:
    return aggregate(measure, values, sampling.units(query_ids).weight if sampling.weights else None)[0]


def _bounds(measure: Measure, rankings: Rankings, grades: Sequence[float], sampling: Sampling) -> ValueRange | None:
    ends = bound_values(measure, rankings, grades)
    if ends is None:
        return None
    return ValueRange(*(_mean(measure, side, rankings.query_ids, sampling) for side in (ends.low, ends.high)))


def _share(measure: Measure, gold: Rankings, both: Rankings, sampling: Sampling) -> JudgedShare:
    judged = parse("judged" if measure.k is None else f"judged@{measure.k}")
    return JudgedShare(*(_mean(judged, judged(r), r.query_ids, sampling) for r in (gold, both)))


def _correct_all(
    measures: Sequence[Measure],
    aligned: Aligned,
    completed: CompletedGold,
    grading: JudgeGrades,
    sampling: Sampling,
    query_ids: Sequence[str],
    policy: Policy,
    people: RankingsByPeople | None,
) -> tuple[dict[str, CorrectedFigure], dict[str, str]]:
    """The metrics that labels can correct without bias, and why the others are not.

    Labels of single pairs correct sums over pairs; whole queries correct any metric, where they were drawn.
    """
    if grading.labels is None:
        return {}, {m.name: NO_CALIBRATION for m in measures}
    by_pair = [m for m in measures if grading.labels and is_correctable(m)]
    ids, outcomes = aligned.rankings.query_ids, _correct_by_pair(by_pair, aligned, completed, grading, sampling, policy)
    pairs = [row.ids for row in grading.rows if row.ids not in completed.known]
    for m in measures:
        if m not in by_pair and people is not None:
            sides = aligned.rankings, people.rankings
            outcomes[m.name] = correct_by_whole_queries(m, *sides, pairs, grading.whole, sampling)
        elif m not in by_pair:
            outcomes[m.name] = BIASED
    corrected = {
        name: _figure(name, one, ids, query_ids, sampling) for name, one in outcomes.items() if not isinstance(one, str)
    }
    return corrected, {name: one for name, one in outcomes.items() if isinstance(one, str)}


def _correct_by_pair(
    measures: Sequence[Measure],
    aligned: Aligned,
    completed: CompletedGold,
    grading: JudgeGrades,
    sampling: Sampling,
    policy: Policy,
) -> dict[str, CorrectedValues | str]:
    """Each metric, or why it is not corrected."""
    if aligned.rankings.repeats is not None and aligned.rankings.repeats_earn:
        return {m.name: "later chunks of a doc count too" for m in measures}
    if not measures:
        return {}
    pairs, names = _judged_pairs(aligned, completed)
    try:
        labels = _labels(pairs, names, grading, policy)
    except InputError as error:
        return {m.name: str(error) for m in measures}
    return {
        m.name: correct_metric(
            m,
            pairs,
            labels,
            units=sampling.units(aligned.rankings.query_ids),
            confidence=sampling.confidence,
            resamples=sampling.resamples,
            seed=sampling.seed,
        )
        for m in measures
    }


def _figure(
    name: str, one: CorrectedValues, query_ids: Sequence[str], over: Sequence[str], sampling: Sampling
) -> CorrectedFigure:
    values, control = (_in_order(column, query_ids, over) for column in (one.values, one.control))
    interval = _interval(name, values + one.shift, over, sampling, one.doubt)
    return CorrectedFigure(values, interval, one.these, one.tuning, control, one.shift, one.doubt)


def _interval(
    name: str, values: Values, query_ids: Sequence[str], sampling: Sampling, doubt: LabelDoubt = CERTAIN
) -> Interval:
    """The interval for queries like these, as gates have it."""
    plain = replace(sampling, by=())
    return estimate({name: values}, query_ids, plain, 1, unbounded=(name,), doubts={name: doubt})[0][name]


def _judged_pairs(aligned: Aligned, completed: CompletedGold) -> tuple[JudgedPairs, list[tuple[str, str]]]:
    """All graded pairs of the queries that count, and their ids."""
    number = np.full(len(aligned.qrels), -1)
    number[aligned.queries] = np.arange(len(aligned.queries))
    query = number[aligned.qrels.query_of]
    rows = np.flatnonzero((query >= 0) & is_judged(aligned.qrels.grades))
    qrels, ranks = aligned.qrels, find_gold_ranks(aligned)
    ids = [(qrels.query_ids[int(qrels.query_of[row])], qrels.docs[row]) for row in rows.tolist()]
    known = np.array([pair in completed.known for pair in ids], dtype=bool)
    return JudgedPairs(len(aligned.queries), query[rows], ranks[rows], qrels.grades[rows], known), ids


def _labels(pairs: JudgedPairs, names: Sequence[tuple[str, str]], grading: JudgeGrades, policy: Policy) -> Labels:
    """The labels of people on pairs without gold: each stands for pairs to which the judge gave the same grade."""
    assert grading.labels is not None
    judge = {row.ids: row.grade for row in grading.rows}
    free = np.flatnonzero(~pairs.known)
    ids = [names[row] for row in free.tolist()]
    where = np.array([i for i, pair in enumerate(ids) if pair in grading.labels], dtype=np.int64)
    if not len(where):
        raise InputError(NO_LABELS)
    survey = survey_by_grade(np.array([judge[pair] for pair in ids], dtype=np.float64), where, grading.path)
    grades = policy.regrade(np.array([grading.labels[ids[i]] for i in where.tolist()], dtype=np.float64))
    return Labels(free[where], grades, survey)
