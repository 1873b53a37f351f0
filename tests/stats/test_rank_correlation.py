"""τ and τ_AP: worked by hand, scipy as an oracle; and how alike the orders of two samples are."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from karat.stats.rank_correlation import kendall_tau, measure_agreement, tau_ap

SCORES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=8)


@given(SCORES)
def test_tau_is_that_of_scipy_with_ties_too(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs, dtype=float).T
    expected = kendalltau(a, b).statistic if len(set(a)) > 1 and len(set(b)) > 1 else np.nan
    assert kendall_tau(a, b) == pytest.approx(expected, nan_ok=True)


def test_tau_ap_counts_swaps_at_the_top_most() -> None:
    abcd = np.array([4.0, 3, 2, 1])
    swapped_top, swapped_bottom = np.array([3.0, 4, 2, 1]), np.array([4.0, 3, 1, 2])
    # Of B, C and D the share of those above that stay above: 0/1, 2/2, 3/3, so 2/3 · 2 − 1.
    assert tau_ap(abcd, swapped_top) == pytest.approx(1 / 3)
    # 1/1, 2/2, 2/3, so 2/3 · 8/3 − 1.
    assert tau_ap(abcd, swapped_bottom) == pytest.approx(7 / 9)
    assert kendall_tau(abcd, swapped_top) == kendall_tau(abcd, swapped_bottom) == pytest.approx(2 / 3)
    assert (tau_ap(abcd, abcd), tau_ap(abcd, -abcd)) == (1.0, -1.0)


def textbook_tau_ap(order: tuple[int, ...], scores: list[float]) -> float:
    """2/(N − 1) · Σ C(i)/(i − 1) − 1, a tie with one above counting half."""
    total = 0.0
    for i, system in enumerate(order[1:], start=1):
        above = [scores[s] for s in order[:i]]
        total += sum(1.0 if x > scores[system] else 0.5 if x == scores[system] else 0.0 for x in above) / i
    return 2 / (len(order) - 1) * total - 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=6))
def test_tau_ap_with_ties_is_the_mean_over_the_orders_that_fit(pairs: list[tuple[int, int]]) -> None:
    """Systems tied in the reference stand in any order, and count half against each other."""
    reference, scores = ([float(x) for x in column] for column in zip(*pairs, strict=True))
    fitting = []
    for order in permutations(range(len(pairs))):
        if all(reference[a] >= reference[b] for a, b in pairwise(order)):
            fitting.append(order)
    values = []
    for order in fitting:
        total = 0.0
        for i, system in enumerate(order[1:], start=1):
            for other in order[:i]:
                if reference[other] != reference[system]:
                    total += np.sign(scores[other] - scores[system]) / i
        values.append(total / (len(pairs) - 1))
    assert tau_ap(np.array(reference), np.array(scores)) == pytest.approx(np.mean(values))
    if len(set(reference)) == len(reference):
        assert values[0] == pytest.approx(textbook_tau_ap(fitting[0], scores))


def sums(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Queries × systems as one metric with weights of 1."""
    return values[:, None, :], np.ones((len(values), 1))


def test_systems_that_keep_their_order_on_every_query_agree_in_every_sample() -> None:
    rng = np.random.default_rng(1)
    values = rng.random((20, 1)) + np.array([0.3, 0.2, 0.1])
    for n in (4, 10, 50):
        (found,) = measure_agreement(*sums(values), n, draws=100)
        assert (found.tau.estimate, found.tau.low, found.tau_ap.estimate) == (1.0, 1.0, 1.0)
        assert found.source == ("splits" if n <= 10 else "resamples")


def test_systems_alike_have_no_order() -> None:
    values = np.random.default_rng(2).random((200, 6))
    (found,) = measure_agreement(*sums(values), 400, draws=200)
    (halves,) = measure_agreement(*sums(np.random.default_rng(3).random((4000, 6))), 20, draws=500)
    assert abs(halves.tau.estimate) < 0.05
    assert found.tau.low < found.tau.estimate < found.tau.high


def test_agreement_grows_with_the_size_of_the_samples_and_repeats_with_its_seed() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=(60, 5)) + np.linspace(0, 0.5, 5)
    taus = [measure_agreement(*sums(values), n, draws=500)[0].tau.estimate for n in (5, 10, 20, 30, 60, 200, 1000)]
    assert all(a < b + 0.02 for a, b in pairwise(taus)) and taus[0] < taus[-1] - 0.3
    again = measure_agreement(*sums(values), 30, draws=500, seed=0)
    assert again == measure_agreement(*sums(values), 30, draws=500, seed=0)
    assert again != measure_agreement(*sums(values), 30, draws=500, seed=1)


def test_large_collections_take_fewer_draws_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.stats.rank_correlation.TOTAL_WORK", 150_000)
    top = np.random.default_rng(0).random((500, 1, 2))
    draws = [measure_agreement(top[:size], np.ones((size, 1)), 5)[0].draws for size in (15, 100, 500)]
    assert draws == [10_000, 1_500, 1_000]


def test_the_range_of_agreement_is_that_of_the_draws_wherever_their_mean_is() -> None:
    """Two systems of which one is nearly always better: τ is −1 in a few draws, and 1 in the middle 95%."""
    values = np.column_stack((np.zeros(40), np.random.default_rng(2).normal(0.5, 1, 40)))
    (found,) = measure_agreement(*sums(values), 40, draws=4000)
    assert 0.95 < found.tau.estimate < 1
    assert (found.tau.low, found.tau.high) == (1, 1)


def test_two_systems_that_are_equally_good_agree_by_chance_alone() -> None:
    """Two systems, each better on half of many queries: two samples of one query agree as often as not."""
    values = np.array([[1.0, 0.0], [0.0, 1.0]] * 500)
    (found,) = measure_agreement(*sums(values), 1, draws=4000)
    assert found.tau.estimate == pytest.approx(0.0, abs=0.05)


def test_metrics_share_their_draws() -> None:
    values = np.random.default_rng(5).normal(size=(30, 4)) + np.arange(4) / 4
    both = np.stack([values, 2 * values + 1], axis=1)
    one, other = measure_agreement(both, np.ones((30, 2)), 15, draws=300)
    assert one == other
