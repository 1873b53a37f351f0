"""Intervals that allow for one more unit: exact where the answer is known, Monte Carlo where it is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats as ss

import karat
from karat.stats.bounded_means import UnitMeans
from karat.stats.changes import estimate_changes
from karat.stats.multiple import randomised_hsd
from karat.stats.resample import Units
from karat.stats.sign_flips import flip_signs

LEVEL, TAIL = 0.95, 0.025


def columns(*values: list[float]) -> UnitMeans:
    top = np.array(values, dtype=float).T
    return UnitMeans(top, np.ones_like(top), len(top))


def change_of(differences: list[float], *, clusters: list[str] | None = None, level: float = LEVEL):  # type: ignore[no-untyped-def]
    n = len(differences)
    ((one,),) = estimate_changes(
        np.array([differences]), Units.of(n, clusters), [np.arange(n)], bounds=[(-1.0, 1.0)], levels=(level,)
    )
    return one


@pytest.mark.parametrize("n", [2, 10, 60])
@pytest.mark.parametrize("bound", [0.0, 1.0])
def test_values_that_are_all_at_a_bound_allow_what_clopper_and_pearson_allow(n: int, bound: float) -> None:
    found = karat.interval([bound] * n, bounds=(0, 1))
    reach = 1 - TAIL ** (1 / n)
    assert (found.low, found.high) == pytest.approx((1 - reach, 1) if bound else (0, reach))


def test_two_queries_that_were_both_found_do_not_show_a_recall_of_nine_tenths() -> None:
    """.025^(1/2) = .158: what hit@5 says of the same data."""
    gold, run = {"a": {"x": 1}, "b": {"y": 1}}, {"a": ["x"], "b": ["y"]}
    found = karat.check(karat.evaluate(gold, run, "recall@5,hit@5"), gates=["recall@5 >= 0.9", "hit@5 >= 0.9"])
    assert found.verdict == "INCONCLUSIVE"
    assert {round(row.found.low, 3) for row in found.rows} == {0.158}


def test_one_value_off_the_bound_is_never_narrower_than_none() -> None:
    all_found = karat.interval([1.0] * 30, bounds=(0, 1))
    for other in (0.999, 0.9, 0.5, 0.0):
        assert karat.interval([1.0] * 29 + [other], bounds=(0, 1)).low < all_found.low


@pytest.mark.parametrize("hits", [1, 3, 9])
def test_shares_have_the_interval_of_scipy(hits: int) -> None:
    oracle = ss.binomtest(hits, 12).proportion_ci(LEVEL, "exact")
    found = karat.interval([1.0] * hits + [0.0] * (12 - hits), bounds=(0, 1))
    assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_quantile_of_a_mean_is_that_of_random_shares(seed: int) -> None:
    """The saddlepoint beside 400,000 draws of Dirichlet shares; an end is right to a hundredth of the spread."""
    rng = np.random.default_rng(seed)
    values = np.round(rng.beta(2, 1 + seed, 4 + 5 * seed), 2)
    shares = rng.dirichlet(np.ones(len(values)), 400_000)
    means = shares @ values
    for tail in (TAIL, 0.2, 1 - TAIL):
        found = columns(list(values)).mean_quantile(tail)[0]
        assert found == pytest.approx(np.quantile(means, tail), abs=0.02 * means.std())
        assert columns(list(values)).share_below(np.array([found]))[0] == pytest.approx(tail, abs=1e-6)


def test_equal_values_away_from_a_bound_have_no_interval_and_decide_nothing() -> None:
    found = karat.interval([0.2] * 50, bounds=(0, 1))
    assert found.method == "all equal" and math.isnan(found.low) and math.isnan(found.high)
    gold = {f"q{i}": {"a": 1} for i in range(50)}
    one_of_five = {q: ["a", "b", "c", "d", "e"] for q in gold}
    checked = karat.check(karat.evaluate(gold, one_of_five, "precision@5"), gates=["precision@5 >= 0.1"])
    assert checked.verdict == "INCONCLUSIVE"
    assert checked.rows[0].judged.why.startswith("all 50 values are 0.2000, and without spread")


def test_a_common_factor_of_all_weights_changes_nothing() -> None:
    values, weights = [0.2, 0.9, 0.5, 0.6, 0.1, 1.0], [1, 2, 3, 1, 2, 1]
    plain = karat.interval(values, bounds=(0, 1))
    assert karat.interval(values, bounds=(0, 1), weights=[7.0] * 6) == plain
    some = karat.interval(values, bounds=(0, 1), weights=weights)
    more = karat.interval(values, bounds=(0, 1), weights=[4 * w for w in weights])
    assert (more.low, more.high) == pytest.approx((some.low, some.high), rel=1e-12)
    assert some.n_eff == pytest.approx(10**2 / 20)  # Kish: (Σw)² / Σw²


def test_one_more_query_weighs_half_where_values_between_the_bounds_show_how_far_they_reach() -> None:
    least, most = np.zeros(1), np.ones(1)

    def weights(values: list[float], weight: list[float] | None = None, queries: int = 0) -> list[float]:
        of = np.array(weight or [1.0] * len(values))[:, None]
        ends = UnitMeans(np.array(values)[:, None] * of, of, queries or len(values)).level_weights(least, most)
        return [float(end[0]) for end in ends]

    assert weights([0.0, 1.0] * 10) == [1.0, 1.0], "a share needs all of Clopper and Pearson's unit"
    assert weights([0.5] * 20) == weights([0.5] * 19 + [0.0])[:1] * 2 == [1.0, 1.0], (
        "nobody has seen how far they reach"
    )
    assert weights([0.25, 0.75]) == [1.0, 1.0], "nor does one value show it"
    assert weights([0.25, 0.75] * 2) == pytest.approx([8 / 11, 8 / 11]), "1 / (1 + 3 × .5² × .5)"
    assert weights([0.25, 0.75] * 20) == [0.5, 0.5], "no less than half"
    assert weights([0.9, 0.96] * 10)[0] > 0.9 and weights([0.9, 0.96] * 10)[1] < 0.6, "nobody has seen a low value"
    usual = 10 / 6  # Σw² / Σw
    assert weights([0.25, 0.75] * 2, [2, 2, 1, 1])[0] == pytest.approx(usual / (1 + 3 * 4 / 6 * 0.125)), (
        "by shares of the weight, and as many in all as there are values"
    )
    turns = weights([0.25, 0.75] * 10, queries=200)[0]
    assert turns == pytest.approx((1 / (1 + 3 * 9 / 8)) ** 0.1), "means of ten turns are always in between"
    heavy = [1 / rank for rank in range(1, 501)]
    assert weights([0.25, 0.75] * 250, heavy)[0] == pytest.approx(max(heavy) / 6)


def test_ties_alone_bound_a_difference_as_the_share_of_queries_that_may_be_broken() -> None:
    for n in (5, 50, 368):
        found = change_of([0.0] * n).intervals[0]
        assert (found.low, found.high) == pytest.approx((TAIL ** (1 / n) - 1, 1 - TAIL ** (1 / n)))
    assert found.high == pytest.approx(0.01, abs=1e-4)  # a margin of .01 takes 368 ties


@pytest.mark.parametrize("seed", range(30))
def test_an_interval_leaves_out_zero_if_and_only_if_its_tests_reject(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 40))
    moved = np.round(np.clip(rng.normal(0.12 * rng.random(), 0.15, n), -1, 1), 2)
    moved[rng.random(n) < 0.3] = 0.0
    one = change_of(list(moved))
    apart = one.intervals[0].low > 0 or one.intervals[0].high < 0
    assert apart == (max(one.p.values()) < 1 - LEVEL) or max(one.p.values()) == pytest.approx(0.05, abs=2e-4)


def test_the_ends_of_flipped_signs_are_the_means_that_the_test_rejects() -> None:
    """All 2^10 flips, counted by hand for values of the mean just inside and just outside of each end."""
    rng = np.random.default_rng(7)
    moved = rng.normal(0.1, 0.3, 10)
    ((low, high),) = flip_signs(moved[:, None], np.ones(10), levels=(LEVEL,)).ends
    signs = np.array([[1 if i >> j & 1 else -1 for j in range(10)] for i in range(1024)])

    def p_of(mean: float) -> float:
        return float(np.mean(np.abs(signs @ (moved - mean)) >= abs((moved - mean).sum()) - 1e-12))

    for end, outwards in ((float(low[0]), -1e-6), (float(high[0]), 1e-6)):
        assert p_of(end + outwards) < 1 - LEVEL <= p_of(end - outwards)


def test_the_turns_of_a_conversation_flip_together() -> None:
    """Five conversations of four turns that all rise: 2 of 2^5 flips, whatever the number of turns."""
    rng = np.random.default_rng(3)
    moved = list(np.abs(rng.normal(0.2, 0.1, 20)))
    assert change_of(moved, clusters=[f"c{i // 4}" for i in range(20)]).p["randomization"] == 2 / 32
    assert change_of(moved).p["randomization"] < 1e-4


def test_all_pairs_shuffle_whole_conversations() -> None:
    """20 conversations whose turns are alike: queries shuffled one by one see differences that are not there."""
    rng = np.random.default_rng(11)
    clusters = [f"c{i // 10}" for i in range(200)]
    by_unit = by_query = 0
    for seed in range(60):
        shift = rng.normal(0, 0.2, (3, 20)).repeat(10, axis=1)
        values = 0.5 + shift + rng.normal(0, 0.05, (3, 200))
        by_unit += bool((randomised_hsd(values, Units.of(200, clusters), draws=1000, seed=seed)[0] < 0.05).any())
        by_query += bool((randomised_hsd(values, draws=1000, seed=seed)[0] < 0.05).any())
    assert by_unit <= 8 and by_query >= 20  # 5% and 40% of 60


def test_the_same_lists_pass_no_worse_because_they_are_the_same() -> None:
    gold = {f"q{i}": {"a": 1} for i in range(12)}
    run = {q: ["a", "b"] if i % 2 else ["b", "a"] for i, q in enumerate(gold)}
    result = karat.evaluate(gold, {"old": run, "new": dict(run)}, "mrr", details=True)
    gates = ["mrr no worse than old by 0.001", "mrr better than old"]
    found = karat.check(result, gates=gates, candidate="new", baseline="old")
    assert [(row.judged.outcome, row.judged.why) for row in found.rows] == [
        ("pass", "the ranked lists are identical"),
        ("fail", "the ranked lists are identical"),
    ]


def test_equal_values_of_other_lists_are_not_enough() -> None:
    gold = {f"q{i}": {"a": 1} for i in range(12)}
    old = {q: ["a", "b"] for q in gold}
    new = {q: ["a", "c"] for q in gold}
    result = karat.evaluate(gold, {"old": old, "new": new}, "mrr", details=True)
    found = karat.check(result, gates=["mrr no worse than old by 0.01"], candidate="new", baseline="old")
    assert found.verdict == "INCONCLUSIVE"


def test_identical_lists_pass_a_relative_margin_and_the_reason_is_shown() -> None:
    from karat.gates.wording import advise

    gold = {f"q{i}": {"a": 1} for i in range(12)}
    run = {q: ["a", "b"] if i % 2 else ["b", "a"] for i, q in enumerate(gold)}
    result = karat.evaluate(gold, {"old": run, "new": dict(run)}, "mrr", details=True)
    found = karat.check(result, gates=["mrr no worse than old by 5%"], candidate="new", baseline="old")
    assert found.verdict == "SHIP"
    assert advise(found.rows[0]) == "the ranked lists are identical"


@pytest.mark.parametrize("seed", range(3))
def test_all_pairs_agree_with_the_comparison_of_one_pair(seed: int) -> None:
    """Ties and a few broken queries: shuffles alone would find what the comparison does not."""
    rng = np.random.default_rng(seed)
    gold = {f"q{i}": {"a": 1} for i in range(40)}
    old = {q: ["a"] for q in gold}
    new = {q: ["x", "y", "a"] if rng.random() < 0.2 else ["a"] for q in gold}
    found = karat.compare(gold, {"old": old, "new": new}, "mrr", all_pairs=True)
    (row,) = found.rows
    assert found.pairs["mrr"].p["old"]["new"] == pytest.approx(row.p_adjusted, rel=0.25)  # both are drawn


def test_what_queries_can_detect_follows_the_interval() -> None:
    """40 ties allow ±(1 − .025^(1/40)) = ±.088; nothing smaller can be detected, and never 0."""
    gold = {f"q{i}": {"a": 1} for i in range(40)}
    lists = {"old": {q: ["a", "b"] for q in gold}, "new": {q: ["a", "c"] for q in gold}}
    (row,) = karat.compare(gold, lists, "mrr").rows
    assert row.detectable > 0.088
