"""Corrected figures where labels show no error of the judge, or hardly any: within bounds, and never without doubt."""

from __future__ import annotations

import math

import numpy as np
import pytest

from karat.judge.calibration import survey_by_grade
from karat.metrics import parse
from karat.metrics.corrected import JudgedPairs, correct_metric
from karat.results.sampling import Sampling
from karat.results.values import estimate
from karat.stats.intervals import ALL_EQUAL, Interval
from karat.stats.prediction_powered import CorrectedValues, Labels, correct_by_query
from karat.stats.resample import Units
from karat.stats.survey import Survey
from karat.stats.unseen_labels import CERTAIN, LabelDoubt, LabelledParts, Reach, keep_apart

SMALL = 1e-9


def draw(
    rng: np.random.Generator, queries: int, labels: int, shares: tuple[float, float], errors: tuple[float, float]
) -> tuple[JudgedPairs, np.ndarray, Labels]:
    """20 docs per query, 10 returned; shares of relevant docs in the top and below; how often the judge errs there."""
    size = 20 * queries
    rank = np.tile(np.r_[np.arange(1, 11), np.zeros(10, dtype=int)], queries)
    top = rank > 0
    human = (rng.random(size) < np.where(top, *shares)).astype(float)
    judge = np.where(rng.random(size) < np.where(top, *errors), 1 - human, human)
    pairs = JudgedPairs(queries, np.repeat(np.arange(queries), 20), rank, judge, np.zeros(size, dtype=bool))
    row = np.sort(rng.choice(size, labels, replace=False))
    for grade in np.unique(judge):  # each judged grade has a label, as calibration asks for
        if not (judge[row] == grade).any():
            row = np.sort(np.append(row, np.flatnonzero(judge == grade)[0]))
    return pairs, human, Labels(row, human[row], survey_by_grade(judge, row, "planted"))


def bounds(pairs: JudgedPairs, human: np.ndarray, labels: Labels) -> tuple[float, float]:
    """Precision@10 if all docs of the top without a label are irrelevant, and if all are relevant."""
    grade = np.zeros(len(human))
    grade[labels.row] = human[labels.row]
    low = grade[pairs.rank > 0].mean()
    grade = np.ones(len(human))
    grade[labels.row] = human[labels.row]
    return float(low), float(grade[pairs.rank > 0].mean())


def of_population(name: str, one: CorrectedValues) -> Interval:
    """The interval for queries like these, as results have it."""
    ids = [str(i) for i in range(len(one.values))]
    values = {name: one.values + one.shift}
    return estimate(values, ids, Sampling(resamples=500), 1, unbounded=(name,), doubts={name: one.doubt})[0][name]


class TestReach:
    def test_labels_that_all_agree_say_what_clopper_and_pearson_say(self) -> None:
        """20 of 400 labels, none off: up to 1 − .025^(1/20) = 16.8% of all may be, less √(1 − 1/20) for those known."""
        ones = np.ones(380)
        parts = LabelledParts(np.zeros(20), np.ones(20), Survey.even(20, 400), -ones, 0 * ones)
        down, up = parts.reach(0.95)
        assert down == pytest.approx(400 * (1 - 0.025 ** (1 / 20)) * math.sqrt(0.95))
        assert up == 0.0

    def test_pairs_that_do_not_matter_say_nothing(self) -> None:
        ones, span = np.ones(380), np.r_[np.ones(20), np.zeros(100)]
        few = LabelledParts(np.zeros(20), np.ones(20), Survey.even(20, 400), -ones, 0 * ones)
        more = LabelledParts(np.zeros(120), span, Survey(np.full(120, 0.05)), np.r_[-ones, 0 * ones], np.zeros(760))
        assert more.reach(0.95) == few.reach(0.95)

    def test_without_a_label_that_matters_everything_is_open(self) -> None:
        parts = LabelledParts(np.zeros(9), np.zeros(9), Survey.even(9, 90), np.full(4, -0.2), np.full(4, 0.05))
        assert parts.reach(0.95) == pytest.approx((0.8, 0.2))

    def test_where_labels_are_off_by_much_another_one_matters_little(self) -> None:
        rng, half = np.random.default_rng(1), np.full(900, 0.5)
        off = np.where(rng.random(100) < 0.5, -0.5, 0.5)
        down, _ = LabelledParts(off, np.ones(100), Survey.even(100, 1000), -half, half).reach(0.95)
        usual = 1.96 * 0.5 / math.sqrt(100) * math.sqrt(0.9) * 1000
        assert usual < down < 1.2 * usual

    def test_reaches_add_up_in_squares(self) -> None:
        """0.5² − (1.96 · 0.153)² = 0.4²; at 90%, ln .05 / ln .025 of each."""
        doubt = LabelDoubt.of(Reach(0.5, 0.1), 0.3 / 1.959964, 0.95)
        found = doubt.widen(Interval(0.9, 0.6, 0.95, "bca", 9), 0.95)
        assert (found.low, found.high) == pytest.approx((0.9 - math.hypot(0.3, 0.4), 0.9 + 0.1))
        less = math.log(0.05) / math.log(0.025)
        assert doubt.widen(found, 0.9).low == pytest.approx(0.9 - math.hypot(0.5, 0.4 * less))
        assert CERTAIN.widen(found, 0.9) == found
        assert math.isnan(doubt.widen(Interval(0.9, math.nan, math.nan, ALL_EQUAL, 9), 0.95).low)


class TestDifferences:
    def test_differences_spread_as_far_as_labels_leave_open(self) -> None:
        """Reaches of .3 and .4 at 95%, nothing of them shown: a standard error of .5 / 1.96 where queries differ."""
        differences = np.where(np.arange(40) < 30, 0.1, 0.0)
        doubts = [LabelDoubt.of(reach, 0.0, 0.95) for reach in (Reach(0.0, 0.3), Reach(0.4, 0.0))]
        added = keep_apart(differences, *doubts, Units.of(40))
        assert added.sum() == pytest.approx(0) and not added[30:].any()
        assert math.sqrt((added**2).sum()) / 40 == pytest.approx(0.5 / 1.959964)

    def test_errors_that_were_seen_and_runs_that_do_not_differ_need_none(self) -> None:
        seen = LabelDoubt.of(Reach(0.3, 0.3), 0.2 / 1.959964, 0.95, seen=99)
        assert seen.hidden == pytest.approx([math.sqrt(0.3**2 - 0.2**2) / 100 / -math.log(0.025)] * 2)
        unseen = LabelDoubt.of(Reach(0.3, 0.3), 0.0, 0.95)
        assert not keep_apart(np.zeros(40), unseen, unseen, Units.of(40)).any()

    def test_a_judge_that_errs_where_few_labels_are_decides_no_comparison(self) -> None:
        """Both runs are as good, and the judge misses 4% of what the second one alone returns."""
        rng, size, holds = np.random.default_rng(9), 20 * 250, []
        query, ranks = np.repeat(np.arange(250), 20), np.r_[np.arange(1, 11), np.zeros(10, dtype=int)]
        runs = np.tile(ranks, 250), np.tile(np.r_[ranks[:5], np.zeros(5, dtype=int), 6:11, np.zeros(5, dtype=int)], 250)
        alone = (runs[1] > 0) & (runs[0] == 0)
        for _ in range(60):
            human = (rng.random(size) < np.where((runs[0] > 0) | alone, 0.98, 0.3)).astype(float)
            judge = np.where(rng.random(size) < np.where(alone, 0.04, 0.0), 1 - human, human)
            row = np.concatenate([rng.choice(np.flatnonzero(judge == g), 50, replace=False) for g in (0, 1)])
            labels = Labels(row, human[row], survey_by_grade(judge, row, "planted"))
            none = np.zeros(size, dtype=bool)
            one, two = (
                correct_metric(parse("precision@10"), JudgedPairs(250, query, rank, judge, none), labels, resamples=20)
                for rank in runs
            )
            values = two.values - one.values
            values += keep_apart(values, one.doubt, two.doubt, Units.of(250))
            half = 1.959964 * values.std(ddof=1) / math.sqrt(250)
            holds.append(abs(values.mean()) <= half)
        assert np.mean(holds) >= 0.925


@pytest.mark.parametrize("queries, labels", [(3, 8), (22, 40), (22, 400), (60, 60), (8, 158)])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("wrong", [0.0, 0.05, 0.5, 1.0])
def test_figures_are_within_their_intervals_and_these_within_bounds(
    queries: int, labels: int, share: float, wrong: float
) -> None:
    rng = np.random.default_rng([queries, labels, int(100 * share), int(100 * wrong)])
    for _ in range(3):
        pairs, human, own = draw(rng, queries, labels, (share, 0.3), (wrong, 0.2))
        low, high = bounds(pairs, human, own)
        one = correct_metric(parse("precision@10"), pairs, own, resamples=200)
        around = of_population("precision@10", one)
        assert low - SMALL <= one.these.estimate <= high + SMALL
        assert around.estimate == pytest.approx(one.these.estimate) == one.population.estimate
        if low == high:
            assert math.isnan(one.these.low) and one.these.method == ALL_EQUAL
        else:
            assert low - SMALL <= one.these.low <= one.these.estimate <= one.these.high <= high + SMALL
            assert one.these.low < one.these.high - 0.01 / len(human)
        for some in (around, one.population):
            assert 0 <= some.low <= some.estimate <= some.high <= 1 and some.low < some.high
        gain = correct_metric(parse("dcg@10"), pairs, own, resamples=200)
        most = (1 / np.log2(np.arange(10) + 2)).sum()
        assert low == high or 0 <= gain.these.low <= gain.these.estimate <= gain.these.high <= most + SMALL


@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("drawn, queries", [(2, 5), (8, 22), (30, 100), (21, 22)])
def test_whole_queries_on_which_people_and_judge_agree_leave_doubt(share: float, drawn: int, queries: int) -> None:
    values = np.full(queries, share)
    labels = Labels(np.arange(drawn), values[:drawn], Survey.even(drawn, queries))
    one = correct_by_query(values, np.ones(queries, dtype=bool), labels, bounds=(0, 1), resamples=200)
    low, high = share * drawn / queries, (share * drawn + queries - drawn) / queries
    assert low - SMALL <= one.these.low <= one.these.estimate <= one.these.high <= high + SMALL
    assert one.these.estimate == pytest.approx(share) and one.these.low < one.these.high
    around = of_population("ndcg@10", one)
    if share in (0, 1):
        assert 0 <= around.low <= one.these.low + SMALL and one.these.high - SMALL <= around.high <= 1
    else:
        assert around.method == ALL_EQUAL  # of queries that are all alike nobody knows how others are


@pytest.mark.parametrize(
    "shares, errors",
    [((0.97, 0.3), (0.04, 0.1)), ((0.03, 0.1), (0.04, 0.1)), ((0.98, 0.3), (0.0, 0.2)), ((0.6, 0.3), (0.15, 0.2))],
)
def test_intervals_hold_with_few_labels(shares: tuple[float, float], errors: tuple[float, float]) -> None:
    """Some 20 labels in the top 10: near 0 and 1 most of them agree with the judge, and have hardly any spread."""
    rng, holds = np.random.default_rng(8), []
    for _ in range(120):
        pairs, human, labels = draw(rng, 40, 40, shares, errors)
        one = correct_metric(parse("precision@10"), pairs, labels, resamples=300)
        truth = human[pairs.rank > 0].mean()
        holds.append((truth in one.these, shares[0] in of_population("precision@10", one)))
    assert np.mean(holds, axis=0).min() >= 0.925
