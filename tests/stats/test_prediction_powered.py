"""Means by a judge, corrected: worked values, ppi_py and truescore as oracles, and coverage by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from karat.errors import UsageError
from karat.stats.misclassification import ErrorRate, correct_share
from karat.stats.prediction_powered import Labels, correct_by_query, correct_mean, correct_values, ppi_mean
from karat.stats.resample import Units
from karat.stats.survey import Survey

N, J = np.arange(40), np.arange(300)
HUMAN = ((N * 7) % 5 < 2).astype(float)
JUDGE = np.where(N % 6 == 0, 1 - HUMAN, HUMAN) * 0.9 + 0.05 * (N % 2)
OTHERS = ((J * 11) % 7 < 3) * 0.9 + 0.05 * (J % 2)


class TestRoganGladen:
    def test_worked_value(self) -> None:
        # (.42 + .85 − 1) / (.9 + .85 − 1) = .27 / .75
        found = correct_share(0.42, 1000, ErrorRate(0.9, 80), ErrorRate(0.85, 120))
        assert found.interval.estimate == pytest.approx(0.36)
        assert found.error == pytest.approx(0.0383, abs=5e-5)
        assert (found.interval.low, found.interval.high) == pytest.approx((0.36 - 0.0750, 0.36 + 0.0750), abs=1e-4)

    def test_a_share_below_the_rate_of_false_alarms_is_cut_to_0(self) -> None:
        found = correct_share(0.05, 1000, ErrorRate(0.9, 80), ErrorRate(0.85, 120))
        assert (found.interval.estimate, found.interval.low) == (0.0, 0.0)

    def test_a_judge_no_better_than_chance_is_refused(self) -> None:
        with pytest.raises(UsageError, match="no better than chance"):
            correct_share(0.42, 1000, ErrorRate(0.5, 80), ErrorRate(0.5, 120))


class TestPpiOfTwoSamples:
    def test_is_that_of_ppi_py_but_for_ddof(self) -> None:
        """ppi_py 0.2.3 with lam=1: .4045 [.27123042, .53776958], variances divided by n and N, z = 1.96."""
        found = ppi_mean(HUMAN, JUDGE, OTHERS, tuning=1.0)
        assert found.interval.estimate == pytest.approx(0.4045)
        by_n = math.sqrt(np.var(HUMAN - JUDGE) / 40 + np.var(OTHERS) / 300)
        assert 0.4045 - 1.959964 * by_n == pytest.approx(0.27123042, abs=1e-7)
        assert found.error == pytest.approx(
            math.sqrt(np.var(HUMAN - JUDGE, ddof=1) / 40 + np.var(OTHERS, ddof=1) / 300)
        )
        assert found.error == pytest.approx(0.06875484578037512)  # truescore 0.7.4, which divides by n − 1 too

    def test_the_tuned_estimate_is_that_of_ppi_py(self) -> None:
        found = ppi_mean(HUMAN, JUDGE, OTHERS)
        assert found.interval.estimate == pytest.approx(0.40278137, abs=1e-8)  # ppi_py with lam=None
        assert found.tuning == pytest.approx(0.6180824789607157, abs=1e-12)  # truescore
        assert found.error == pytest.approx(0.06261093533654448, abs=1e-12)
        assert found.error < math.sqrt(np.var(HUMAN, ddof=1) / 40)

    def test_clustered_it_is_that_of_truescore(self) -> None:
        """Clusters of four; of unequal ones truescore counts clusters, and we their effective number (Kish)."""
        units, others = Units.of(40, (N // 4).tolist()), Units.of(300, (J // 4).tolist())
        found = ppi_mean(HUMAN, JUDGE, OTHERS, units=units, other_units=others)
        assert found.error == pytest.approx(0.049113127954910574, abs=1e-12)
        ends = (found.interval.low, found.interval.high)
        assert ends == pytest.approx((0.2916797569646975, 0.5138829853459489), abs=1e-12)

    def test_on_random_clusters_it_is_that_of_truescore(self) -> None:
        truescore = pytest.importorskip("truescore", reason="needs truescore")
        rng = np.random.default_rng(2)
        human = rng.random(60)
        judge, others = human + 0.3 * rng.random(60), rng.random(200)
        codes = np.concatenate((np.arange(60) // 5, 100 + np.arange(200) // 5))
        for tuning in (None, 1.0):
            oracle = truescore.ppi_estimate(
                np.concatenate((judge, others)), human, np.arange(60), lambda_=tuning, clusters=codes
            )
            units = [Units.of(n, (np.arange(n) // 5).tolist()) for n in (60, 200)]
            ours = ppi_mean(human, judge, others, tuning=tuning, units=units[0], other_units=units[1])
            ends = (ours.interval.estimate, ours.interval.low, ours.interval.high, ours.tuning)
            assert ends == pytest.approx((oracle.point, oracle.low, oracle.high, oracle.lambda_), abs=1e-12)

    def test_a_useless_judge_counts_for_nothing(self) -> None:
        rng = np.random.default_rng(4)
        human = rng.random(100)
        found = ppi_mean(human, -human, rng.random(1000))
        assert found.tuning == 0.0
        assert found.interval.estimate == pytest.approx(human.mean())


def planted(rng: np.random.Generator, n: int, theta: float = 0.4, se: float = 0.95, sp: float = 0.75) -> np.ndarray:
    """Truth and a judge's answers, as two rows."""
    truth = rng.random(n) < theta
    judge = np.where(truth, rng.random(n) < se, rng.random(n) >= sp)
    return np.array([truth, judge], dtype=float)


def test_corrected_means_hold_the_truth_and_the_judge_alone_does_not() -> None:
    """A reduced form of bench/judges.py: 200 labels, 5,000 judged pairs, θ = .4."""
    rng = np.random.default_rng(11)
    hits, lengths, raw = [], [], []
    for _ in range(400):
        truth, judge = planted(rng, 5000)
        row = rng.choice(5000, 200, replace=False)
        found = correct_mean(judge, Labels(row, truth[row], Survey.even(200, 5000)), scope="population")
        hits.append(0.4 in found.interval)
        lengths.append((found.interval.high - found.interval.low) / (found.human.high - found.human.low))
        half = 1.96 * math.sqrt(found.raw * (1 - found.raw) / 5000)
        raw.append(abs(found.raw - 0.4) <= half)
    assert 0.92 <= np.mean(hits) <= 0.98  # ± 2.3 standard errors of the simulation around .95
    assert np.mean(lengths) < 0.8
    assert np.mean(raw) == 0.0


def test_labels_on_every_pair_leave_no_doubt_about_these_pairs() -> None:
    truth, judge = planted(np.random.default_rng(1), 300)
    found = correct_mean(judge, Labels(np.arange(300), truth, Survey.even(300, 300)))
    assert found.interval.estimate == pytest.approx(truth.mean())
    assert found.error == 0.0


def test_unequal_probabilities_are_unbiased_and_their_intervals_hold() -> None:
    rng = np.random.default_rng(12)
    truth, judge = planted(rng, 4000)
    chance = np.where(judge == 1, 0.15, 0.05) * np.linspace(0.5, 1.5, 4000)
    estimates, hits = [], []
    for _ in range(400):
        row = np.flatnonzero(rng.random(4000) < chance)
        found = correct_mean(judge, Labels(row, truth[row], Survey(chance[row])))
        estimates.append(found.interval.estimate)
        hits.append(truth.mean() in found.interval)
    assert np.mean(estimates) == pytest.approx(truth.mean(), abs=3 * np.std(estimates) / 20)
    assert 0.92 <= np.mean(hits) <= 0.98


def test_strata_by_judged_grade_need_no_tuning_and_hold() -> None:
    rng = np.random.default_rng(13)
    truth, judge = planted(rng, 3000)
    members = [np.flatnonzero(judge == g) for g in (0, 1)]
    estimates, hits = [], []
    for _ in range(400):
        row = np.concatenate([rng.choice(m, 60, replace=False) for m in members])
        chance = np.repeat([60 / len(m) for m in members], 60)
        survey = Survey(chance, np.repeat([0, 1], 60))
        found = correct_mean(judge, Labels(row, truth[row], survey))
        estimates.append(found.interval.estimate)
        hits.append(truth.mean() in found.interval)
    assert np.mean(estimates) == pytest.approx(truth.mean(), abs=3 * np.std(estimates) / 20)
    assert 0.92 <= np.mean(hits) <= 0.98


def test_sums_over_pairs_of_queries_are_corrected_query_by_query() -> None:
    # Two queries of two docs. The judge calls three docs relevant; people looked at two (π = ½) and deny one of them.
    judge, query = np.array([1.0, 1, 1, 0]) / 2, np.array([0, 0, 1, 1])
    labels = Labels(np.array([1, 2]), np.array([0.0, 0.5]), Survey(np.full(2, 0.5)))
    found = correct_values(np.array([1.0, 0.5]), query, judge, labels, tuning=1.0)
    assert found.values.tolist() == [1.0 + (0 - 0.5) / 0.5, 0.5]
    assert found.these.estimate == pytest.approx(0.25)
    assert found.error == pytest.approx(math.sqrt(0.5 * (0.5 / 0.5 / 2) ** 2))
    half = correct_values(np.array([1.0, 0.5]), query, judge, labels, tuning=0.5)
    # Half of the predictions, and what the labels exceed that by: query 0: .5 − .25/.5, query 1: .25 + .25/.5.
    assert half.values.tolist() == pytest.approx([0.5 - 0.5, 0.25 + 0.5])


class TestSurvey:
    @pytest.mark.parametrize("strata", [False, True])
    def test_variances_of_totals_are_unbiased(self, strata: bool) -> None:
        rng = np.random.default_rng(9)
        values, group = rng.random(60) * np.repeat([1, 3], 30), np.arange(60) % 3
        totals, variances, parts = [], [], []
        for _ in range(1200):
            if strata:
                row = np.concatenate([rng.choice(30, 6, replace=False), 30 + rng.choice(30, 12, replace=False)])
                survey = Survey(np.where(row < 30, 0.2, 0.4), (row >= 30).astype(np.int64))
            else:
                chance = np.linspace(0.1, 0.6, 60)
                row = np.flatnonzero(rng.random(60) < chance)
                survey = Survey(chance[row])
            totals.append([survey.total(values[row] * (group[row] == g)) for g in range(3)])
            variances.append(survey.variance(values[row]))
            parts.append(survey.group_covariances(values[row], values[row], group[row], 3))
        assert np.sum(totals, axis=1).mean() == pytest.approx(values.sum(), rel=0.02)
        assert np.mean(variances) == pytest.approx(np.var(np.sum(totals, axis=1)), rel=0.15)
        assert np.mean(parts, axis=0) == pytest.approx(np.var(totals, axis=0), rel=0.2)

    def test_a_stratum_of_one_counts_as_drawn_by_itself(self) -> None:
        alone = Survey(np.array([0.5, 0.5, 0.5]), np.array([0, 0, 1]))
        assert alone.variance(np.array([1.0, 1.0, 2.0])) == pytest.approx(0.5 * (2 / 0.5) ** 2)

    def test_a_probability_of_0_is_refused(self) -> None:
        with pytest.raises(UsageError, match="above 0 and at most 1, found 0"):
            Survey(np.array([0.5, 0.0]))


class TestWholeQueries:
    def test_queries_that_could_not_be_drawn_are_certain(self) -> None:
        # Queries 0 and 1 are by the gold; all others are drawn, and people give each of them half.
        values = np.array([0.2, 0.4, 0.9, 0.7, 0.8])
        labels = Labels(np.arange(3), values[2:] / 2, Survey.even(3, 3))
        one = correct_by_query(values, np.arange(5) >= 2, labels)
        assert one.these.estimate == pytest.approx((0.2 + 0.4 + 0.45 + 0.35 + 0.4) / 5) and one.error == 0
        assert one.raw == pytest.approx(0.6) and one.values[:2].tolist() == [0.2, 0.4]

    def test_without_the_judge_the_values_are_those_of_the_labels(self) -> None:
        rng = np.random.default_rng(12)
        human, row = rng.random(50), np.arange(0, 50, 5)
        labels = Labels(row, human[row], Survey.even(10, 50))
        ones = [correct_by_query(judge, np.ones(50, dtype=bool), labels) for judge in (human**2, 1 - human / 3)]
        zeros = [one.values - one.tuning * one.control for one in ones]
        assert ones[0].tuning != ones[1].tuning and zeros[0] == pytest.approx(zeros[1])
        assert zeros[0].mean() == pytest.approx(human[row].mean())

    def test_intervals_hold_whatever_the_judge_does(self) -> None:
        rng = np.random.default_rng(11)
        holds = []
        for _ in range(400):
            human = rng.beta(2, 2, 120)
            judge = np.clip(1 - human / 2 + rng.normal(0, 0.1, 120), 0, 1)  # the worse, the better
            row = rng.choice(120, 30, replace=False)
            labels = Labels(row, human[row], Survey.even(30, 120))
            one = correct_by_query(judge, np.ones(120, dtype=bool), labels, resamples=300)
            assert one.values.mean() == pytest.approx(one.these.estimate)
            holds.append((human.mean() in one.these, 0.5 in one.population))
        assert np.abs(np.mean(holds, axis=0) - 0.95).max() < 0.04, np.mean(holds, axis=0)
