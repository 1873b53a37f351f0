"""Intervals, paired tests, corrections and power: planted truths, scipy and statsmodels as oracles, simulation.

Simulations are small here and repeat at full size in bench/stats.py; their seeds are fixed, so that they pass or
fail for good.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.stats as ss
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower
from statsmodels.stats.proportion import proportion_confint

import karat
from karat.stats.groups import grouped_intervals, interval, intervals
from karat.stats.intervals import Interval, average_intervals, clopper_pearson, p_of_interval, quantile_interval, wilson
from karat.stats.multiple import benjamini_hochberg, holm, randomised_hsd
from karat.stats.paired import TESTS, effect_size, p_value, paired_test
from karat.stats.power import detectable, power_of, queries_needed
from karat.stats.resample import Units

Floats = NDArray[np.float64]

A = [0.95, 0.90, 0.20, 0.10, 0.70, 0.60, 0.40, 0.85, 0.30, 0.50]
B = [0.90, 0.86, 0.17, 0.08, 0.64, 0.55, 0.37, 0.80, 0.28, 0.44]
SLEEP_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SLEEP_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
AIRCONDIT = [3, 5, 7, 18, 43, 85, 91, 98, 100, 130, 230, 487]
BOOTSTRAPS = ("bca", "percentile", "studentized")


def bytes_of(found: Interval) -> bytes:
    return struct.pack("<3d", found.estimate, found.low, found.high)


def ends(found: Interval) -> tuple[float, float]:
    return found.low, found.high


# --- planted truth -------------------------------------------------------------------------------------


def test_two_systems_of_ten_queries() -> None:
    """Differences .05 .04 .03 .02 .06 .05 .03 .05 .02 .06: mean .041, sd .0152388, so t = .041 / (sd / √10)."""
    found = paired_test(A, B, test="t")
    assert found.statistic == pytest.approx(8.50809, abs=5e-6)
    assert found.p == pytest.approx(1.349e-5, rel=1e-3)
    assert (found.significant, found.direction, found.n) == (True, "a > b", 10)
    assert found.mean_a - found.mean_b == pytest.approx(0.041)
    assert effect_size(np.subtract(A, B)) == pytest.approx(2.6905, abs=5e-5)
    assert ends(interval(np.subtract(A, B), method="t")) == pytest.approx((0.03010, 0.05190), abs=5e-6)


def test_all_differences_of_one_sign_have_two_of_all_flips() -> None:
    """Ten positive differences: only all + and all − of the 2^10 flips are as extreme."""
    assert paired_test(A, B).p == paired_test(A, B, test="randomization").p == 2 / 1024
    assert paired_test(A, B, test="sign").p == pytest.approx(2 / 1024)


def test_sleep() -> None:
    found = paired_test(SLEEP_1, SLEEP_2, test="t")
    assert found.statistic == pytest.approx(-4.0621, abs=5e-5)
    assert found.p == pytest.approx(0.002833, abs=5e-7)
    assert found.direction == "a < b"
    # Nine differences of one sign and a zero: 2 of 2^9 flips.
    assert paired_test(SLEEP_1, SLEEP_2, test="randomization").p == 0.00390625


def test_aircondit() -> None:
    found = interval(AIRCONDIT, method="bca", resamples=100_000)
    assert found.estimate == pytest.approx(108.083, abs=5e-4)
    assert found.low == pytest.approx(56.6, abs=2)
    assert found.high == pytest.approx(226.3, abs=2)


def test_holm_by_hand() -> None:
    """5 × .01, 4 × .02, 3 × .03, then 2 × .04 and 1 × .05, neither below the one before."""
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])


def test_benjamini_hochberg_by_hand() -> None:
    """From the largest: .05, min(.05, .04 × 5/4), …, .01 × 5/1: all .05."""
    assert benjamini_hochberg([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05] * 5)


def test_shares() -> None:
    assert wilson(3, 9, 0.95) == pytest.approx((0.121, 0.646), abs=5e-4)
    assert clopper_pearson(20, 20, 0.95) == pytest.approx((0.832, 1), abs=5e-4)
    three = interval([1] * 3 + [0] * 6, binary=True)
    assert (three.method, *ends(three)) == ("clopper-pearson", *map(pytest.approx, clopper_pearson(3, 9, 0.95)))
    all_found = interval([1] * 20, binary=True)
    assert (all_found.method, *ends(all_found)) == ("clopper-pearson", pytest.approx(0.025 ** (1 / 20)), 1.0)


# --- the choice of method ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "options", "method"),
    [
        ([], {}, "none"),
        ([0.3], {}, "none"),
        ([0.3, math.nan], {}, "none"),
        ([0.3, 0.5, 0.7], {"clusters": ["a", "a", "a"]}, "none"),
        ([0.3, 0.5], {"weights": [1, 0]}, "none"),
        ([0.3] * 30, {}, "all equal"),
        ([0.3] * 30, {"bounds": (0, 1)}, "all equal"),
        ([0.3] * 30, {"method": "t"}, "all equal"),
        ([0.3] * 30, {"weights": [1, 2, 3] * 10}, "all equal"),
        ([1.0] * 30, {}, "all equal"),
        ([0, 1, 1], {"binary": True}, "clopper-pearson"),
        ([1, 1, 1], {"binary": True}, "clopper-pearson"),
        ([1, 1, 1], {"bounds": (0, 1)}, "clopper-pearson"),
        ([0, 0.5, 1], {"bounds": (0, 1)}, "gaffke"),
        ([0, 1, 1], {}, "t"),
        ([0, 1] * 4 + [0.5], {}, "t"),
        ([0, 1] * 5, {}, "bca"),
        ([0, 1, 1], {"clusters": ["a", "a", "b"]}, "t"),
        ([0, 1, 1], {"binary": True, "clusters": ["a", "a", "b"]}, "gaffke"),
        ([0, 1, 1], {"binary": True, "weights": [1, 1, 2]}, "gaffke"),
        ([0, 1, 1], {"binary": True, "weights": [2, 2, 2]}, "clopper-pearson"),
    ],
)
def test_auto_takes_the_first_rule_that_fits(values: list[float], options: dict[str, object], method: str) -> None:
    found = interval(values, **options)  # type: ignore[arg-type]
    assert found.method == method
    assert math.isnan(found.low) == math.isnan(found.high) == (method in ("none", "all equal"))
    assert found.low != found.high


@pytest.mark.parametrize("method", ["bca", "percentile", "studentized", "t", "wilson", "clopper-pearson"])
def test_one_unit_has_no_interval_by_any_method(method: str) -> None:
    assert interval([1.0], method=method).method == "none"
    assert math.isnan(interval([0.0, 1.0, 1.0], method="t", clusters=[7, 7, 7]).low)


def test_auto_is_bca_expanded_for_the_number_of_queries() -> None:
    """The textbook's BCa is shorter by 1.96 / (t₂₄ √(25/24)) = 1.96 / 2.106, here to a few per cent."""
    values = np.random.default_rng(0).random(25)
    auto, named = interval(values), interval(values, method="bca")
    assert auto.method == named.method == "bca"
    assert (named.high - named.low) / (auto.high - auto.low) == pytest.approx(1.96 / 2.106, abs=0.02)
    many = np.random.default_rng(0).random(5000)
    assert ends(interval(many)) == pytest.approx(ends(interval(many, method="bca")), abs=1e-4)


def test_segments_get_the_same_intervals_as_bare_values() -> None:
    rng = np.random.default_rng(1)
    values, units = rng.random((3, 60)), Units.of(60)
    for method in ("auto", *BOOTSTRAPS, "t"):
        options = {"method": method, "seed": 4}
        whole, part = grouped_intervals(values, units, [np.arange(60), np.arange(20)], **options)  # type: ignore[arg-type]
        assert whole == intervals(values, units, **options)  # type: ignore[arg-type]
        assert [i.n for i in part] == [20] * 3


# --- against scipy and statsmodels ---------------------------------------------------------------------


def samples(seed: int, n: int, ties: bool = False) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    a, b = rng.random((2, n))
    return (np.round(a, 1), np.round(b, 1)) if ties else (a, b)


@pytest.mark.parametrize("n", [2, 3, 10, 40, 500])
@pytest.mark.parametrize("seed", range(4))
def test_paired_t_is_that_of_scipy(seed: int, n: int) -> None:
    a, b = samples(seed, n)
    oracle = ss.ttest_rel(a, b)
    found = paired_test(a, b, test="t")
    assert (found.statistic, found.p) == pytest.approx((oracle.statistic, oracle.pvalue), rel=1e-9)
    low, high = oracle.confidence_interval(0.9)
    assert ends(interval(a - b, method="t", confidence=0.9)) == pytest.approx((low, high), rel=1e-9)


@pytest.mark.parametrize("n", [2, 5, 12, 30, 50])
@pytest.mark.parametrize("seed", range(3))
def test_wilcoxon_without_ties_is_exact(seed: int, n: int) -> None:
    a, b = samples(seed, n)
    oracle = ss.wilcoxon(a, b, zero_method="wilcox", correction=False, method="exact")
    found = paired_test(a, b, test="wilcoxon")
    assert (found.statistic, found.p) == pytest.approx((oracle.statistic, oracle.pvalue), rel=1e-9)


@pytest.mark.parametrize("n", [3, 8, 13])
@pytest.mark.parametrize("seed", range(3))
def test_wilcoxon_with_ties_counts_all_signs(seed: int, n: int) -> None:
    a, b = samples(seed, n, True)
    whole = np.round(a * 10) - np.round(b * 10)
    ranks = ss.rankdata(np.abs(whole[whole != 0]))
    sums = np.array(list(itertools.product((0, 1), repeat=len(ranks)))) @ ranks
    found = paired_test(a, b, test="wilcoxon")
    assert found.p == pytest.approx(min(1.0, 2 * float(np.mean(sums <= found.statistic + 1e-9))), rel=1e-12)


def test_wilcoxon_of_five_wins_and_ties_is_not_significant() -> None:
    found = paired_test([1.0] * 5 + [0.0] * 35, [0.0] * 40, test="wilcoxon")
    assert found.p == 2 / 2**5 and not found.significant


@pytest.mark.parametrize(("n", "ties"), [(51, False), (200, False), (300, True)])
@pytest.mark.parametrize("seed", range(3))
def test_wilcoxon_of_many_is_normal(seed: int, n: int, ties: bool) -> None:
    """As scipy's "asymptotic".

    scipy takes .9 − .8 and .2 − .1 for different differences. Karat takes them for a tie, so it is asked here about
    tenths that were multiplied to integers.
    """
    a, b = samples(seed, n, ties)
    whole = np.round(a * 10) - np.round(b * 10) if ties else a - b
    oracle = ss.wilcoxon(whole, zero_method="wilcox", correction=False, method="asymptotic")
    found = paired_test(a, b, test="wilcoxon")
    assert (found.statistic, found.p) == pytest.approx((oracle.statistic, oracle.pvalue), rel=1e-9)


@pytest.mark.parametrize("n", [2, 9, 40, 400])
@pytest.mark.parametrize("seed", range(3))
def test_sign_test_is_a_binomial_test_without_zeros(seed: int, n: int) -> None:
    a, b = samples(seed, n, ties=True)
    wins, losses = int((a > b).sum()), int((a < b).sum())
    found = paired_test(a, b, test="sign")
    assert found.statistic == wins
    assert found.p == pytest.approx(ss.binomtest(wins, wins + losses).pvalue)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
@settings(deadline=None, max_examples=20)
def test_corrections_are_those_of_statsmodels(p: list[float]) -> None:
    assert holm(p) == pytest.approx(list(multipletests(p, method="holm")[1]), abs=1e-12)
    assert benjamini_hochberg(p) == pytest.approx(list(multipletests(p, method="fdr_bh")[1]), abs=1e-12)


def test_corrections_of_nothing() -> None:
    assert holm([]) == benjamini_hochberg([]) == []


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.99))
@settings(deadline=None)
def test_shares_are_those_of_statsmodels(found: tuple[int, int], confidence: float) -> None:
    for mine, name in ((wilson, "wilson"), (clopper_pearson, "beta")):
        oracle = proportion_confint(*found, alpha=1 - confidence, method=name)
        assert mine(*found, confidence) == pytest.approx(tuple(np.clip(oracle, 0, 1)), abs=1e-9)


@pytest.mark.parametrize(("method", "theirs"), [("bca", "BCa"), ("percentile", "percentile")])
@pytest.mark.parametrize("seed", range(3))
def test_bootstrap_is_that_of_scipy_within_its_error(seed: int, method: str, theirs: str) -> None:
    """With 20,000 resamples an end has a standard error of about .55% of the length, in each of the two."""
    values = drawn(np.random.default_rng(seed), "weak", (60,))
    rng = np.random.default_rng(seed + 100)
    oracle = ss.bootstrap((values,), np.mean, n_resamples=20_000, method=theirs, rng=rng, batch=2000)
    low, high = oracle.confidence_interval
    found = interval(values, method=method, resamples=20_000, seed=seed)
    assert ends(found) == pytest.approx((low, high), abs=5 * 0.0055 * 2**0.5 * (high - low))


def test_studentized_is_longer_than_percentile_on_the_side_of_the_tail() -> None:
    """By hand: each resample's t from its own values, in a loop."""
    values = np.random.default_rng(3).gamma(0.7, size=30)
    rng = np.random.default_rng(9)
    ts = []
    for _ in range(20_000):
        again = rng.choice(values, 30)
        ts.append((again.mean() - values.mean()) / (again.std(ddof=1) / 30**0.5))
    error = values.std(ddof=1) / 30**0.5
    expected = values.mean() - np.quantile(ts, 0.975) * error, values.mean() - np.quantile(ts, 0.025) * error
    found = interval(values, method="studentized", resamples=20_000)
    assert ends(found) == pytest.approx(expected, rel=0.05)
    assert found.high > interval(values, method="percentile", resamples=20_000).high


@pytest.mark.parametrize("seed", range(3))
def test_randomisation_is_exact_up_to_16(seed: int) -> None:
    for n in (2, 7, 12):
        a, b = samples(seed, n, ties=True)
        d = np.round(a * 10) - np.round(b * 10)
        oracle = ss.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=2**n, vectorized=True)
        assert paired_test(a, b, test="randomization").p == pytest.approx(oracle.pvalue)


def test_randomisation_beyond_16_is_that_of_scipy_within_its_error() -> None:
    for seed, n in ((1, 17), (2, 40), (3, 300)):
        a, b = samples(seed, n)
        b = b - 0.1  # a p that is neither 0 nor 1
        rng = np.random.default_rng(seed)
        oracle = ss.permutation_test(
            (a - b,),
            lambda x, axis: x.mean(axis=axis),
            permutation_type="samples",
            n_resamples=20_000,
            batch=2000,
            rng=rng,
            vectorized=True,
        ).pvalue
        p = paired_test(a, b, test="randomization").p
        assert p == pytest.approx(oracle, abs=5 * (p * (1 - p) * (1 / 20_000 + 1 / 100_000)) ** 0.5 + 1e-4)


def test_the_sampled_randomisation_approaches_the_exact_one() -> None:
    """16 differences are enumerated; the same and a zero are 17, and sampled."""
    a, b = samples(5, 16)
    exact = paired_test(a, b - 0.15, test="randomization").p
    sampled = paired_test([*a, 0], [*(b - 0.15), 0], test="randomization").p
    assert exact * 2**16 == pytest.approx(round(exact * 2**16))
    assert sampled == pytest.approx(exact, abs=5 * (exact * (1 - exact) / 100_000) ** 0.5)


def test_paired_bootstrap_by_hand() -> None:
    """The share of resampled means of the centred differences that are as far from zero, in a loop."""
    a, b = samples(7, 40)
    d = a - b + 0.08
    rng = np.random.default_rng(0)
    means = np.array([rng.choice(d - d.mean(), 40).mean() for _ in range(10_000)])
    expected = (np.abs(means) >= abs(d.mean())).mean()
    found = paired_test(d, np.zeros(40), test="bootstrap").p
    assert found == pytest.approx(expected, abs=5 * (2 * expected * (1 - expected) / 10_000) ** 0.5)


@pytest.mark.parametrize("n", [2, 3, 10, 50, 400, 7000])
@pytest.mark.parametrize("effect", [0.01, 0.05, 0.2, 0.5, 1, 3])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_power_is_that_of_statsmodels(n: int, effect: float, alpha: float) -> None:
    """statsmodels has NaN where the other tail is too small for scipy; there the power is 1."""
    oracle = float(TTestPower().power(effect, n, alpha))
    found = power_of(n, effect, alpha)
    assert found == pytest.approx(oracle, abs=1e-6) if oracle == oracle else found > 0.999


@pytest.mark.parametrize(("difference", "deviation", "power"), [(0.02, 0.2, 0.8), (0.05, 0.3, 0.9), (0.3, 0.3, 0.8)])
def test_queries_needed_are_those_of_statsmodels_rounded_up(difference: float, deviation: float, power: float) -> None:
    oracle = TTestPower().solve_power(difference / deviation, power=power, alpha=0.05)
    assert queries_needed(difference, deviation, power=power) == math.ceil(float(np.squeeze(oracle)))


@given(st.floats(0.02, 5), st.floats(0.5, 0.99), st.floats(0.001, 0.2))
@settings(deadline=None)
def test_queries_needed_are_the_fewest_and_detectable_undoes_them(effect: float, power: float, alpha: float) -> None:
    n = queries_needed(effect, 1.0, power=power, alpha=alpha)
    assert n is not None
    assert power_of(n, effect, alpha) >= power
    assert n == 2 or power_of(n - 1, effect, alpha) < power
    assert detectable(n, 1.0, power=power, alpha=alpha) <= effect * (1 + 1e-9)
    assert n == 2 or detectable(n - 1, 1.0, power=power, alpha=alpha) > effect


@pytest.mark.parametrize("shift", [7.9, 8.1, 36.9, 37.1, 60, 1000])
def test_power_of_two_queries_is_right_for_any_effect(shift: float) -> None:
    """With one degree of freedom t is (shift + Z) / |Y|: integrate over Z. Two queries are never certain."""
    for alpha in (0.05, 0.001):
        limit = ss.t.ppf(1 - alpha / 2, 1)
        z = np.linspace(-8, 8, 4001)
        expected = np.trapezoid(ss.norm.pdf(z) * (2 * ss.norm.cdf(np.abs(shift + z) / limit) - 1), z)
        assert power_of(2, shift / 2**0.5, alpha) == pytest.approx(expected, abs=1e-3)


def test_power_at_the_edges() -> None:
    assert power_of(1, 5) == 0
    assert power_of(10, 0) == pytest.approx(0.05)
    assert queries_needed(0, 0.3) is None
    assert queries_needed(1e-9, 1) is None
    assert queries_needed(0.1, 0) == 2
    assert math.isnan(detectable(1, 0.3))
    assert detectable(50, 0) == 0


@given(st.integers(1, 300), st.floats(0.02, 0.98), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
@settings(deadline=None)
def test_quantile_bounds_are_the_tightest_that_keep_each_tail(n: int, q: float, confidence: float) -> None:
    """The values 1 … n are their own places: x₍ⱼ₎ lies above the quantile with probability P(Binomial(n, q) < j)."""
    found = quantile_interval(np.arange(1, n + 1)[::-1], q, confidence)
    tail, x = (1 - confidence) / 2, ss.binom(n, q)
    if math.isnan(found.low):
        assert x.cdf(0) > tail
    else:
        assert x.cdf(found.low - 1) <= tail + 1e-12
        assert x.cdf(found.low) > tail - 1e-12
    if math.isnan(found.high):
        assert x.sf(n - 1) > tail
    else:
        assert x.sf(found.high - 1) <= tail + 1e-12
        assert x.sf(found.high - 2) > tail - 1e-12
    assert found.estimate == math.ceil(n * q - 1e-9)
    if not math.isnan(found.low) and not math.isnan(found.high):
        assert found.low <= found.estimate <= found.high


def test_the_median_of_ten_by_hand() -> None:
    """P(X ≤ 1) = 11/1024 ≤ .025 < P(X ≤ 2) = 56/1024: the 2nd and the 9th of ten values; p95 has no upper bound."""
    assert ends(quantile_interval([*range(10, 101, 10), math.nan], 0.5)) == (20, 90)
    tail = quantile_interval(range(10), 0.95)
    assert (tail.estimate, math.isnan(tail.high)) == (9, True)
    assert quantile_interval([], 0.5).method == "none"


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.12])
def test_hsd_of_two_systems_is_the_sign_flip(shift: float) -> None:
    a, b = samples(11, 40)
    p, draws = randomised_hsd(np.array([a + shift, b]), seed=1)
    flip = paired_test(a + shift, b, test="randomization").p
    assert draws == 100_000
    assert p[0, 1] == p[1, 0] == pytest.approx(flip, abs=5 * (2 * flip * (1 - flip) / draws) ** 0.5)


def test_hsd_of_many_systems_is_stricter_than_each_pair() -> None:
    values = np.random.default_rng(2).random((5, 30))
    values[0] += 0.25
    p, _ = randomised_hsd(values, draws=5000)
    assert (p == p.T).all()
    assert (np.diag(p) == 1).all()
    assert (p >= 1 / 5001).all()
    for i in range(1, 5):
        assert p[0, i] >= paired_test(values[0], values[i], test="randomization").p - 0.01
    assert p[0, 1:].max() < p[1:, 1:][~np.eye(4, dtype=bool)].min()


def test_hsd_keeps_the_chance_of_any_false_finding() -> None:
    """300 times four equal systems on 20 queries: any p ≤ .05 in about 15, sd 3.8."""
    rng = np.random.default_rng(4)
    found = sum(bool((randomised_hsd(rng.random((4, 20)), draws=1000, seed=i)[0] <= 0.05).any()) for i in range(300))
    assert 4 <= found <= 27


def test_hsd_without_a_common_query_or_with_one() -> None:
    assert (randomised_hsd(np.array([[math.nan, 1], [1, math.nan]]))[0] == 1).all()
    assert (randomised_hsd(np.array([[0.1], [0.5], [0.9]]), draws=1000)[0] == 1).all()


# --- simulation ----------------------------------------------------------------------------------------

SHAPES = {
    "balanced": (0.15, 0.15, 2.0, 2.0),
    "good": (0.05, 0.35, 4.0, 2.0),
    "weak": (0.40, 0.05, 1.5, 3.0),
    "hard": (0.65, 0.03, 1.0, 3.0),
}
"""Values like those of ndcg@10: the share at 0, the share at 1, and a Beta(a, b) between."""
REPLICATIONS = 1000
TOGETHER = 20
"""Samples that share their resamples; each lot has a seed of its own."""


def drawn(rng: np.random.Generator, shape: str, size: tuple[int, ...]) -> Floats:
    zero, one, a, b = SHAPES[shape]
    place = rng.random(size)
    return np.where(place < zero, 0.0, np.where(place < zero + one, 1.0, rng.beta(a, b, size)))


def true_mean(shape: str) -> float:
    zero, one, a, b = SHAPES[shape]
    return one + (1 - zero - one) * a / (a + b)


def assert_covers(inside: int, replications: int, low: float = 0.935, high: float = 0.965) -> None:
    """Between the bounds, widened by two standard errors of a share of .95."""
    error = 2 * (0.95 * 0.05 / replications) ** 0.5
    assert low - error <= inside / replications <= high + error


def covered(shape: str, n: int, method: str, replications: int) -> int:
    rng, inside, truth = np.random.default_rng([n, len(shape)]), 0, true_mean(shape)
    for lot in range(replications // TOGETHER):
        values = drawn(rng, shape, (TOGETHER, n))
        found = intervals(values, Units.of(n), method=method, seed=lot, resamples=2000)
        assert {i.method for i in found} == {"bca"}
        inside += sum(truth in i for i in found)
    return inside


@pytest.mark.parametrize(
    ("shape", "n"), [(shape, n) for shape in SHAPES for n in (25, 50, 200) if (shape, n) != ("hard", 25)]
)
def test_auto_covers_the_mean_of_values_like_ndcg(shape: str, n: int) -> None:
    replications = 4 * REPLICATIONS if n == 25 else REPLICATIONS
    assert_covers(covered(shape, n, "auto", replications), replications)


def test_auto_covers_less_where_nearly_all_values_are_zero() -> None:
    """25 hard queries, nine of them above 0, are too few for 93.5%: in 120,000 samples auto covers 93.1%.

    4,000 samples find that within ±1.5%. BCa as in the textbook covers two in a hundred less.
    """
    auto, textbook = (covered("hard", 25, method, 4000) / 4000 for method in ("auto", "bca"))
    assert auto == pytest.approx(0.931, abs=0.015)
    assert auto > textbook + 0.01


def test_student_covers_the_mean_of_few_values() -> None:
    rng = np.random.default_rng(8)
    values = drawn(rng, "balanced", (4000, 9))
    found = intervals(values, Units.of(9))
    assert {i.method for i in found} <= {"t", "all equal"}
    assert_covers(sum(true_mean("balanced") in i for i in found), 4000)


@pytest.mark.parametrize("n", [25, 50, 200])
def test_hit_rates_are_covered(n: int) -> None:
    """Clopper and Pearson's interval misses on each side at most as often as it claims."""
    rng, inside = np.random.default_rng(n), 0
    for tenth in range(1, 10):
        values = (rng.random((400, n)) < tenth / 10).astype(float)
        inside += sum(tenth / 10 in i for i in intervals(values, Units.of(n), bounds=[(0.0, 1.0)] * 400))
    assert inside / 3600 >= 0.95


@pytest.mark.parametrize(
    ("test", "replications"), [("t", 4000), ("randomization", 2000), ("wilcoxon", 2000), ("bootstrap", 200)]
)
@pytest.mark.parametrize("n", [25, 50, 200])
def test_false_findings_are_five_in_a_hundred(test: str, replications: int, n: int) -> None:
    """Two systems tied on 40% of the queries, and else drawn from the same shape: within three standard errors."""
    rng, found, units = np.random.default_rng(n), 0, Units.of(n)
    for i in range(replications):
        a, b = drawn(rng, "balanced", (2, n))
        d = np.where(rng.random(n) < 0.4, 0.0, a - b)
        found += p_value(test, d, units, draws=999, seed=i)[1] <= 0.05
    assert found / replications == pytest.approx(0.05, abs=3 * (0.05 * 0.95 / replications) ** 0.5)


def conversations(rng: np.random.Generator, replications: int) -> tuple[Floats, list[int]]:
    """40 conversations of 5; a value is its conversation's with probability √.3, so that the correlation is .3."""
    owner = np.repeat(np.arange(40), 5)
    common = drawn(rng, "balanced", (replications, 40))[:, owner]
    own = drawn(rng, "balanced", (replications, 200))
    return np.where(rng.random(own.shape) < 0.3**0.5, common, own), owner.tolist()


def test_conversations_are_covered_only_if_they_are_resampled() -> None:
    """Naive: the variance is 1 + 4 × .3 = 2.2 times what it seems, so P(|Z| < 1.96 / √2.2) = .814 is covered."""
    rng, naive, known = np.random.default_rng(3), 0, 0
    for lot in range(REPLICATIONS // TOGETHER):
        values, owner = conversations(rng, TOGETHER)
        naive += sum(0.5 in i for i in intervals(values, Units.of(200), seed=lot, resamples=2000))
        known += sum(0.5 in i for i in intervals(values, Units.of(200, owner), seed=lot, resamples=2000))
    assert naive / REPLICATIONS == pytest.approx(0.814, abs=3 * (0.814 * 0.186 / REPLICATIONS) ** 0.5)
    assert_covers(known, REPLICATIONS)


@pytest.mark.parametrize("test", ["t", "randomization"])
def test_conversations_give_false_findings_only_if_they_are_not_known(test: str) -> None:
    rng = np.random.default_rng(6)
    a, owner = conversations(rng, 1000)
    b, _ = conversations(rng, 1000)
    units, alone = Units.of(200, owner), Units.of(200)
    known = sum(p_value(test, d, units, draws=999, seed=i)[1] <= 0.05 for i, d in enumerate(a - b))
    naive = sum(p_value(test, d, alone, draws=999, seed=i)[1] <= 0.05 for i, d in enumerate(a - b))
    assert known / 1000 == pytest.approx(0.05, abs=3 * (0.05 * 0.95 / 1000) ** 0.5)
    assert naive / 1000 > 0.14


# --- properties ----------------------------------------------------------------------------------------

VALUES = st.integers(0, 20).map(lambda i: i / 20)
PAIRS = st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=40)


@pytest.mark.parametrize("method", BOOTSTRAPS)
def test_the_number_of_threads_changes_no_bit(method: str) -> None:
    rng = np.random.default_rng(0)
    values = rng.random((3, 500))
    units = Units.of(500, rng.integers(0, 120, 500).tolist(), rng.integers(1, 5, 500).tolist())
    for mine in (units, Units.of(500)):
        one, two = (
            intervals(values, mine, method=method, resamples=700, seed=5, threads=threads) for threads in (1, 2)
        )
        assert [*map(bytes_of, one)] == [*map(bytes_of, two)]


def test_the_seed_decides() -> None:
    values = np.random.default_rng(0).random(50)
    assert (
        bytes_of(interval(values, seed=1)) == bytes_of(interval(values, seed=1)) != bytes_of(interval(values, seed=2))
    )
    for test in ("randomization", "bootstrap"):
        p = [paired_test(values, values[::-1] + 0.05, test=test, seed=s, draws=1000).p for s in (1, 1, 2)]
        assert p[0] == p[1] != p[2]


def test_more_resamples_begin_with_the_fewer() -> None:
    """Chunks have streams of their own: one metric's draws do not depend on how many metrics there are."""
    values = np.random.default_rng(0).random((4, 60))
    together = intervals(values, Units.of(60))
    assert [ends(i) for i in together] == [pytest.approx(ends(interval(row)), rel=1e-12) for row in values]


@pytest.mark.parametrize("test", TESTS)
@given(PAIRS, st.integers(0, 3))
@settings(deadline=None, max_examples=40)
def test_swapping_the_systems_negates_the_difference_and_keeps_p(
    test: str, pairs: list[tuple[float, float]], seed: int
) -> None:
    a, b = (list(x) for x in zip(*pairs, strict=True))
    clusters = [i // 2 for i in range(len(a))] if seed == 3 else None
    weights = [1 + i % 3 for i in range(len(a))] if seed == 2 else None
    one = paired_test(a, b, test=test, seed=seed, clusters=clusters, weights=weights, draws=300)
    two = paired_test(b, a, test=test, seed=seed, clusters=clusters, weights=weights, draws=300)
    assert one.p == two.p
    assert 0 <= one.p <= 1
    assert (one.mean_a, one.mean_b) == (two.mean_b, two.mean_a)
    assert {one.direction, two.direction} in ({"a > b", "a < b"}, {"equal"})
    if test in ("t", "randomization", "bootstrap") and not math.isnan(one.statistic):
        assert one.statistic == -two.statistic


@given(st.integers(17, 60), st.integers(100, 400), st.integers(0, 9))
@settings(deadline=None, max_examples=30)
def test_a_sampled_p_is_never_below_one_of_all_draws(n: int, draws: int, seed: int) -> None:
    found = paired_test(np.linspace(1, 2, n), np.zeros(n), test="randomization", draws=draws, seed=seed)
    assert 1 / (draws + 1) <= found.p <= 10 / (draws + 1)
    found = paired_test(np.linspace(1, 2, n), np.zeros(n), test="bootstrap", draws=draws, seed=seed)
    assert found.p == 1 / (draws + 1)


@pytest.mark.parametrize("test", TESTS)
def test_one_query_or_one_conversation_is_never_significant(test: str) -> None:
    for a, clusters in (([1.0], None), ([1.0, 0.9, 0.8], ["x"] * 3), ([1.0, math.nan], None)):
        found = paired_test(a, [0.0] * len(a), test=test, clusters=clusters)
        assert (found.p, found.significant) == (1.0, False)


@pytest.mark.parametrize("test", TESTS)
def test_no_difference_at_all_is_never_significant(test: str) -> None:
    for n in (2, 10, 40):
        found = paired_test([0.3] * n, [0.3] * n, test=test, draws=500)
        assert (found.p, found.significant, found.direction) == (1.0, False, "equal")


@pytest.mark.parametrize("method", ["auto", *BOOTSTRAPS, "t"])
def test_one_query_in_each_conversation_is_no_conversation(method: str) -> None:
    values = np.random.default_rng(0).random(40)
    named = interval(values, method=method, clusters=[f"c{i}" for i in range(40)])
    assert bytes_of(named) == bytes_of(interval(values, method=method))
    assert bytes_of(named) == bytes_of(interval(values, method=method, clusters=[None] * 40))


def test_the_cluster_bootstrap_by_hand() -> None:
    """Two conversations, means .2 and .6: of four equally likely resamples one has .2, two have .4, one has .6."""
    found = interval([0.1, 0.3, 0.5, 0.7], method="percentile", clusters=list("aabb"))
    assert ends(found) == pytest.approx((0.2, 0.6))
    assert found.estimate == pytest.approx(0.4)


@given(st.lists(st.tuples(VALUES, st.integers(1, 4)), min_size=2, max_size=30))
@settings(deadline=None, max_examples=40)
def test_a_weight_of_two_is_a_row_that_counts_twice(rows: list[tuple[float, int]]) -> None:
    values, weights = (list(x) for x in zip(*rows, strict=True))
    twice = [v for v, w in rows for _ in range(int(w))]
    weighted = interval(values, weights=weights, resamples=200)
    assert weighted.estimate == pytest.approx(np.mean(twice))
    test = paired_test(values, [0.5] * len(values), weights=weights)
    assert test.mean_a == pytest.approx(np.mean(twice))


@pytest.mark.parametrize("method", ["auto", "percentile", "t"])
def test_equal_weights_change_nothing(method: str) -> None:
    values = np.random.default_rng(0).random(40)
    assert ends(interval(values, method=method, weights=[2.0] * 40)) == pytest.approx(
        ends(interval(values, method=method)), rel=1e-12
    )
    one, two = (paired_test(values, [0.45] * 40, weights=w) for w in (None, [2.0] * 40))
    assert (one.statistic, one.p) == pytest.approx((two.statistic, two.p))


def test_a_weight_of_zero_is_a_query_left_out() -> None:
    values = np.random.default_rng(0).random(30)
    some = [1.0] * 20 + [0.0] * 10
    assert ends(interval(values, method="t", weights=some)) == pytest.approx(ends(interval(values[:20], method="t")))
    assert paired_test(values, [0.4] * 30, weights=some).p == pytest.approx(paired_test(values[:20], [0.4] * 20).p)


@pytest.mark.parametrize("test", TESTS)
def test_undefined_values_are_left_out_of_tests(test: str) -> None:
    a, b = samples(1, 30)
    with_nan = [*a, math.nan, 0.5], [*b, 0.5, math.nan]
    one, two = paired_test(a, b, test=test, draws=500), paired_test(*with_nan, test=test, draws=500)
    assert (one.statistic, one.p, one.mean_a, one.n) == (two.statistic, two.p, two.mean_a, two.n)


def test_undefined_values_are_left_out_of_intervals() -> None:
    """The bootstrap still draws their queries, as all metrics share the draws, so only its ends move a little."""
    values = np.random.default_rng(0).random(60)
    more = [*values, *[math.nan] * 15]
    for method in ("auto", "bca", "percentile", "t"):
        plain, found = interval(values, method=method), interval(more, method=method)
        assert (found.estimate, found.n, found.method) == (pytest.approx(plain.estimate), 60, plain.method)
        assert ends(found) == pytest.approx(ends(plain), abs=0.1 * (plain.high - plain.low))
    assert ends(interval(more, method="t")) == pytest.approx(ends(interval(values, method="t")), rel=1e-12)


# --- ties are ties, whatever the rounding --------------------------------------------------------------


def test_a_difference_of_zero_is_as_small_as_can_be_in_spite_of_rounding() -> None:
    """.1 + .2 − .3 is 5.6e-17 in floats; as differences that sum to zero no flip is less extreme."""
    d = np.array([0.1, 0.2, -0.3] * 10)
    assert d.sum() != 0
    assert paired_test(d, np.zeros(30), test="randomization", draws=1000).p == 1
    assert paired_test(d, np.zeros(30), test="bootstrap", draws=1000).p == 1


@pytest.mark.parametrize("method", BOOTSTRAPS)
def test_tenths_have_the_interval_of_the_integers(method: str) -> None:
    """Integers sum exactly, tenths do not: what equals the mean must do so in both."""
    whole = np.random.default_rng(0).integers(0, 4, 30)
    tenths = interval(whole / 10, method=method)
    assert (tenths.low * 10, tenths.high * 10) == pytest.approx(ends(interval(whole, method=method)), rel=1e-11)


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10)), min_size=2, max_size=40), st.sampled_from(TESTS))
@settings(deadline=None, max_examples=60)
def test_tenths_have_the_p_of_the_integers(pairs: list[tuple[int, int]], test: str) -> None:
    a, b = (np.array(x) for x in zip(*pairs, strict=True))
    tenths = paired_test(a / 10, b / 10, test=test, draws=300).p
    assert tenths == pytest.approx(paired_test(a, b, test=test, draws=300).p, abs=1e-11)


def test_equal_differences_have_an_infinite_effect_in_spite_of_rounding() -> None:
    a, b = np.array([0.95, 0.33, 0.57]), np.array([0.94, 0.32, 0.56])
    assert len(set(a - b)) > 1
    assert effect_size(a - b) == math.inf
    assert paired_test(a, b, test="t").statistic == math.inf
    assert paired_test(a, b, test="t").p == 1.0  # a spread of 0 in three queries says nothing
    assert paired_test(a, b, test="randomization").p == 0.25


# --- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"method": "bcaa"}, "'bca'"),
        ({"method": "percentil"}, "'percentile'"),
        ({"confidence": 95}, "confidence must be between 0 and 1"),
        ({"confidence": 1}, "confidence must be between 0 and 1"),
        ({"confidence": math.nan}, "confidence must be between 0 and 1"),
        ({"confidence": True}, "confidence must be between 0 and 1"),
        ({"method": "wilson"}, "0 and 1 alone"),
        ({"method": "clopper-pearson"}, "0 and 1 alone"),
        ({"method": "clopper-pearson", "bounds": (0, 1)}, "0 and 1 alone"),
        ({"method": "wilson", "weights": [1, 2, 1]}, "no weights"),
        ({"method": "wilson", "clusters": [1, 1, 2]}, "no conversations"),
        ({"weights": [1, 2]}, "found 2 for 3 values"),
        ({"clusters": [1, 2, 3, 4]}, "found 4 for 3 values"),
        ({"weights": [1, -2, 1]}, "from 0, found -2"),
        ({"weights": [1, math.nan, 1]}, "weights must be finite"),
        ({"resamples": 0}, "resamples must be an integer from 100"),
        ({"seed": -1}, "seed must be an integer from 0"),
    ],
)
def test_intervals_refuse_what_makes_no_sense(options: dict[str, object], told: str) -> None:
    with pytest.raises(karat.UsageError, match=told):
        interval([0.1, 0.5, 0.9], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"test": "wilcoxn"}, "'wilcoxon'"),
        ({"test": "randomisation"}, "'randomization'"),
        ({"alpha": 5}, "alpha must be between 0 and 1"),
        ({"draws": 0}, "draws must be an integer from 100"),
        ({"seed": 1.5}, "seed must be an integer from 0"),
    ],
)
def test_paired_tests_refuse_what_makes_no_sense(options: dict[str, object], told: str) -> None:
    with pytest.raises(karat.UsageError, match=told):
        paired_test(A, B, **options)  # type: ignore[arg-type]


def test_values_that_cannot_be_paired_are_refused() -> None:
    with pytest.raises(karat.UsageError, match="found 3 and 2 values"):
        paired_test([1, 2, 3], [1, 2])


@pytest.mark.parametrize("arguments", [(0.1, -1), (0.1, math.inf), (math.nan, 1)])
def test_queries_needed_refuses_what_is_no_number(arguments: Sequence[float]) -> None:
    with pytest.raises(karat.UsageError):
        queries_needed(*arguments)
    with pytest.raises(karat.UsageError, match="power must be"):
        queries_needed(0.1, 0.3, power=80)


def test_other_statistics_are_bootstrapped_like_the_mean() -> None:
    from scipy import stats

    data = np.random.default_rng(4).gamma(2, 1, 80)
    mine = interval(data, statistic="median", resamples=4000)
    theirs = stats.bootstrap((data,), np.median, n_resamples=4000, method="BCa", rng=np.random.default_rng(1))
    assert mine.estimate == np.median(data)
    assert (mine.low, mine.high) == pytest.approx(tuple(theirs.confidence_interval), abs=0.08)
    own = interval(data, statistic=lambda x: float(np.quantile(x, 0.9)), method="percentile")
    assert own.low < np.quantile(data, 0.9) < own.high
    assert interval([1.0], statistic="median").method == "none"
    refused = (
        ({"statistic": "mode"}, "statistic must be"),
        ({"statistic": "median", "method": "t"}, "means alone"),
        ({"statistic": "median", "weights": [1] * 80}, "for the mean alone"),
    )
    for options, says in refused:
        with pytest.raises(karat.UsageError, match=says):
            interval(data, **options)  # type: ignore[arg-type]


def test_values_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(karat.UsageError, match=r"values must be a list of numbers.*could not convert string to float"):
        karat.interval(["a"])  # type: ignore[list-item]
    with pytest.raises(karat.UsageError, match="b must be a list of numbers"):
        karat.paired_test([1.0, 2.0], [1.0, None, [2.0]])  # type: ignore[list-item]


def test_values_beyond_their_bounds_are_refused() -> None:
    with pytest.raises(karat.UsageError, match="values must be within their bounds, 0 to 1, found 2"):
        karat.interval([0.2, 0.5, 2.0], bounds=(0, 1))
    assert karat.interval([0.2, 0.5, float("nan")], bounds=(0, 1)).n == 2


def test_an_average_has_the_interval_that_its_parts_give() -> None:
    one = Interval(0.1, -0.05, 0.2, "t", 9)
    alone = average_intervals([one])
    assert (alone.estimate, alone.low, alone.high) == pytest.approx((0.1, -0.05, 0.2))
    other = Interval(0.3, 0.1, 0.7, "t", 9)
    both = average_intervals([one, other])
    assert (both.low, both.high) == pytest.approx((0.2 - math.hypot(0.15, 0.2) / 2, 0.2 + math.hypot(0.1, 0.4) / 2))
    shared = average_intervals([one, other], independent=False)
    assert (shared.low, shared.high) == pytest.approx((0.025, 0.45))
    unknown = average_intervals([one, Interval(0.3, math.nan, math.nan, "none", 1)])
    assert unknown.estimate == pytest.approx(0.2) and math.isnan(unknown.low) and math.isnan(unknown.high)
    assert math.isnan(p_of_interval(unknown, 0.95))


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_the_p_of_an_interval_agrees_with_it(confidence: float) -> None:
    for low, high, outside in ((0.01, 0.3, True), (-0.01, 0.3, False), (-0.5, -0.01, True), (-0.5, 0.01, False)):
        p = p_of_interval(Interval((low + high) / 2, low, high, "t", 9), confidence)
        assert (p < 1 - confidence) == outside
    assert p_of_interval(Interval(0.0, -0.1, 0.1, "t", 9), confidence) == 1.0
    assert p_of_interval(Interval(0.2, -math.inf, math.inf, "t", 3), confidence) == 1.0


@pytest.mark.parametrize("values", [None, 0.5, "abc", ["a"]])
def test_values_that_are_no_list_of_numbers_are_refused(values: Any) -> None:
    takers: list[Callable[[Any], object]] = [karat.interval, lambda one: karat.paired_test(one, [0.1, 0.2])]
    for take in (*takers, lambda one: karat.power(one or "")):
        with pytest.raises(karat.UsageError, match="must be a list of numbers"):
            take(values)
