"""Agreement of judges: worked by hand; statsmodels and truescore as oracles."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.inter_rater import cohens_kappa

from karat.errors import UsageError
from karat.stats.agreement import KappaWeights, count_confusion, discriminate, kappa, krippendorff_alpha
from karat.stats.intervals import clopper_pearson
from karat.stats.rank_correlation import compare_orders, kendall_tau
from karat.stats.resample import Units

NAN = float("nan")


def pairs(table: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Grades by people and by a judge that have this confusion matrix."""
    human, judge = np.indices(np.shape(table)).reshape(2, -1)
    times = np.ravel(table)
    return np.repeat(human, times).astype(float), np.repeat(judge, times).astype(float)


def test_kappa_of_the_textbook() -> None:
    # Observed (45 + 15) / 100 = .6; by chance .6 · .7 + .4 · .3 = .54; (.6 − .54) / .46.
    found = kappa(*pairs([[45, 15], [25, 15]]))
    assert found.estimate == pytest.approx(0.1304, abs=5e-5)
    assert found.low < 0.1304 < found.high


@pytest.mark.parametrize(("by", "theirs"), [("none", None), ("linear", "linear"), ("quadratic", "fc")])
def test_kappa_and_its_error_are_those_of_statsmodels(by: KappaWeights, theirs: str | None) -> None:
    table = [[40, 8, 3, 1], [9, 30, 7, 2], [2, 6, 25, 5], [0, 3, 4, 35]]
    ours, oracle = kappa(*pairs(table), by=by), cohens_kappa(np.array(table), wt=theirs)
    n = np.sum(table)
    error = (ours.high - ours.estimate) / 1.9736  # Student's t with 179 degrees of freedom: 1.9733
    assert ours.estimate == pytest.approx(oracle.kappa)
    assert error * np.sqrt((n - 1) / n) == pytest.approx(oracle.std_kappa, rel=1e-3)  # theirs divides by n


def test_kappa_of_grades_that_never_vary_is_undefined() -> None:
    assert np.isnan(kappa(np.ones(5), np.ones(5)).estimate)
    assert np.isnan(kappa(np.zeros(0), np.zeros(0)).estimate)


def test_pairs_that_stand_for_more_count_more_in_matrix_and_kappa() -> None:
    table = [[45, 15], [25, 15]]
    human, judge = pairs(table)
    every_third = np.concatenate([np.flatnonzero(judge == 1)[::3], np.flatnonzero(judge == 0)])
    weights = np.where(judge[every_third] == 1, 3.0, 1.0)
    thinned = count_confusion(human[every_third], judge[every_third], weights=weights)
    assert thinned.counts.sum() == 80
    assert thinned.shares == pytest.approx(np.array(table) / 100)
    units = Units.of(80, weights=weights)
    found = kappa(human[every_third], judge[every_third], units=units)
    assert found.estimate == pytest.approx(0.1304, abs=5e-5)
    assert found.high - found.low > np.ptp([getattr(kappa(human, judge), end) for end in ("low", "high")])


def test_a_grade_that_is_not_on_the_scale_is_refused() -> None:
    with pytest.raises(UsageError, match="grade 4 is not on the scale 0, 1, 2, 3"):
        count_confusion(np.array([1.0, 4.0]), np.array([1.0, 3.0]), grades=(0, 1, 2, 3))
    empty = count_confusion(np.array([1.0]), np.array([2.0]), grades=(0, 1, 2, 3))
    assert empty.counts.shape == (4, 4) and empty.counts[1, 2] == 1


def test_sensitivity_and_specificity_have_the_intervals_of_shares() -> None:
    human, judge = pairs([[102, 18], [8, 72]])
    found = discriminate(human > 0, judge > 0)
    assert (found.sensitivity.estimate, found.specificity.estimate) == (0.9, 0.85)
    assert (found.sensitivity.low, found.sensitivity.high) == pytest.approx(clopper_pearson(72, 80, 0.95))
    assert (found.specificity.low, found.specificity.high) == pytest.approx(clopper_pearson(102, 120, 0.95))
    assert found.skill.estimate == pytest.approx(0.75)
    assert 0 < found.skill.low < 0.75 < found.skill.high < 1
    assert found.above_chance


def test_a_judge_that_guesses_is_not_above_chance() -> None:
    rng = np.random.default_rng(3)
    above = [discriminate(rng.random(60) < 0.4, rng.random(60) < 0.5).above_chance for _ in range(60)]
    assert sum(above) <= 6  # 2.5% are 1.5
    perfect = np.arange(6) < 3
    assert not discriminate(perfect, perfect).above_chance  # three of each show little


def test_sensitivity_of_a_sample_by_judged_grade_needs_weights() -> None:
    human, judge = pairs([[900, 50], [20, 30]])
    drawn = np.concatenate([np.flatnonzero(judge == 1), np.flatnonzero(judge == 0)[::10]])
    weights = np.where(judge[drawn] == 1, 1.0, 10.0)
    found = discriminate(human[drawn] > 0, judge[drawn] > 0, units=Units.of(len(drawn), weights=weights))
    assert discriminate(human[drawn] > 0, judge[drawn] > 0).sensitivity.estimate == pytest.approx(30 / 32)
    assert found.sensitivity.estimate == pytest.approx(0.6)  # 30 of 50, and not 30 of 32
    assert found.sensitivity.low < 0.45


RATERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
).T


@pytest.mark.parametrize(
    ("scale", "alpha"),
    [("nominal", 0.743421052631579), ("ordinal", 0.8153875037548813), ("interval", 0.8491071428571428)],
)
def test_alpha_with_gaps_is_that_of_krippendorff_and_truescore(scale: str, alpha: float) -> None:
    """The example of Krippendorff 2011; digits from truescore 0.7.4."""
    found = krippendorff_alpha(RATERS, scale=scale)  # type: ignore[arg-type]
    assert found.estimate == pytest.approx(alpha, abs=1e-12)
    assert found.n == 11  # the twelfth pair has one rating
    assert found.low < alpha < found.high


def test_alpha_on_random_gaps_is_that_of_truescore() -> None:
    truescore = pytest.importorskip("truescore.agreement", reason="needs truescore")
    rng = np.random.default_rng(5)
    for scale in ("nominal", "ordinal", "interval"):
        truth = rng.integers(0, 4, (30, 1))
        ratings = np.clip(truth + rng.integers(-1, 2, (30, 3)), 0, 3).astype(float)
        ratings[rng.random((30, 3)) < 0.3] = NAN
        ours = krippendorff_alpha(ratings, scale=scale, resamples=100)  # type: ignore[arg-type]
        assert ours.estimate == pytest.approx(truescore.krippendorff_alpha(ratings.T, level=scale), abs=1e-12)


def test_tau_of_ten_systems_with_one_swap_of_neighbours() -> None:
    # 45 pairs, one of them the other way round: (44 − 1) / 45.
    scores = np.arange(10.0)
    swapped = scores.copy()
    swapped[[4, 5]] = swapped[[5, 4]]
    assert kendall_tau(scores, swapped) == pytest.approx(0.9556, abs=5e-5)


def test_orders_by_two_judges_have_an_interval_over_queries() -> None:
    rng = np.random.default_rng(7)
    quality = np.linspace(0.3, 0.7, 6)[:, None]
    human = quality + 0.1 * rng.standard_normal((6, 60))
    near, far = human + 0.05 * rng.standard_normal((6, 60)), rng.random((6, 60))
    units = Units.of(60)
    same = compare_orders(human, human, units, resamples=500)
    assert (same.tau.estimate, same.tau.low, same.tau_ap.low) == (1.0, 1.0, 1.0)
    good, bad = (compare_orders(human, judge, units, resamples=500).tau for judge in (near, far))
    assert good.low > 0.6 and good.estimate > 0.9
    assert bad.low < 0 < bad.high


def test_orders_leave_out_queries_that_a_system_lacks() -> None:
    rng = np.random.default_rng(1)
    human, judge = rng.random((4, 20)), rng.random((4, 20))
    human[2, 5] = NAN
    there = np.arange(20) != 5
    expected = kendall_tau(human[:, there].mean(axis=1), judge[:, there].mean(axis=1))
    assert compare_orders(human, judge, Units.of(20), resamples=100).tau.estimate == pytest.approx(expected)
