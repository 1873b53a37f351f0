"""Do segments differ in their mean difference? The test against enumeration, its level, and what it refuses."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

from karat.stats.interaction import _shuffled, measure_interaction
from karat.stats.resample import Units


def test_one_of_two_segments_against_the_rest_is_the_test_of_both() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate((rng.normal(0.1, 0.2, 20), rng.normal(0, 0.2, 30)))
    one = measure_interaction(values, Units.of(50), [np.arange(20), np.arange(20, 50)])
    assert one is not None
    assert one.rest == (one.p, one.p)


def test_p_is_the_share_of_shuffles_that_are_as_extreme() -> None:
    values, count = np.array([0.5, 0.4, 0.6, 0.1, -0.1, 0.2]), 3

    def welch(first: np.ndarray, second: np.ndarray, usual: float) -> float:
        spread = [(((x - x.mean()) ** 2).sum() + usual) / (count * (count - 1)) for x in (first, second)]
        return float((first.mean() - second.mean()) ** 2 / sum(spread))

    usual = float(values.var())
    found = welch(values[:count], values[count:], usual)
    draws = [welch(values[list(o[:count])], values[list(o[count:])], usual) for o in permutations(range(6))]
    exact = np.mean([draw >= found * (1 - 1e-9) for draw in draws])
    one = measure_interaction(values, Units.of(6), [np.arange(3), np.arange(3, 6)], draws=10_000)
    assert one is not None
    assert one.p == pytest.approx(exact, abs=0.01)


def test_a_segment_that_differs_is_found_and_named() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(0, 0.2, 200)
    values[:50] -= 0.2
    one = measure_interaction(values, Units.of(200), np.split(np.arange(200), 4))
    assert one is not None
    assert one.p < 0.001
    assert one.rest[0] < 0.001
    assert min(one.rest[1:]) > 0.001


def test_whole_conversations_are_shuffled() -> None:
    rng = np.random.default_rng(3)
    own = np.repeat(rng.normal(0, 0.2, 20), 10)  # ten turns that all move as their conversation does
    groups = np.split(np.arange(200), 4)
    turns = measure_interaction(own, Units.of(200, np.arange(200) // 10), groups)
    plain = measure_interaction(own, Units.of(200), groups)
    assert turns is not None
    assert plain is not None
    assert turns.p > plain.p


def test_a_second_field_of_the_same_queries_is_tested_as_if_it_were_the_first() -> None:
    rng = np.random.default_rng(5)
    values, units = rng.normal(size=60), Units.of(60)
    thirds, halves = ([np.arange(i, 60, n) for i in range(n)] for n in (3, 2))
    first = measure_interaction(values, units, halves)
    _shuffled.cache_clear()
    assert measure_interaction(values, units, thirds) is not None
    assert _shuffled.cache_info().misses > 0 == _shuffled.cache_info().hits
    assert measure_interaction(values, units, halves) == first
    assert _shuffled.cache_info().hits == _shuffled.cache_info().misses


def test_a_common_factor_of_weights_changes_nothing() -> None:
    rng = np.random.default_rng(4)
    values, weights = rng.normal(0, 0.2, 90), rng.lognormal(0, 1, 90)
    first, second = (
        measure_interaction(values, Units.of(90, None, w), np.split(np.arange(90), 3)) for w in (weights, 7 * weights)
    )
    assert first == second


def test_there_is_no_test_where_nothing_can_be_shuffled() -> None:
    values = np.random.default_rng(5).normal(0, 0.2, 40)
    assert measure_interaction(values, Units.of(40), [np.arange(40)]) is None
    assert measure_interaction(values, Units.of(40), [np.arange(21), np.arange(20, 40)]) is None
    assert measure_interaction(values, Units.of(40, np.arange(40) % 20), np.split(np.arange(40), 2)) is None
    assert measure_interaction(np.zeros(40), Units.of(40), np.split(np.arange(40), 2)) is None


@pytest.mark.parametrize("ties", [0.0, 0.8])
def test_the_test_keeps_its_level(ties: float) -> None:
    rng = np.random.default_rng(6)
    groups, samples = np.split(np.arange(100), 4), 500
    found = 0
    for i in range(samples):
        values = np.where(rng.random(100) < ties, 0.0, rng.choice([-0.5, 0.3, 1.0], 100))
        one = measure_interaction(values, Units.of(100), groups, draws=999, seed=i)
        found += one is not None and one.p < 0.05
    assert abs(found - 0.05 * samples) <= 0.015 * samples + 3 * math.sqrt(samples * 0.05 * 0.95)
