"""Samples at a stated truth, and the number of units for a wanted power."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from karat.errors import UsageError
from karat.stats.aggregates import Statistic
from karat.stats.planning import Dialogue, Population, UnitsNeeded, find_units, tilt
from karat.stats.resample import Units

if TYPE_CHECKING:
    from collections.abc import Callable

SHARE = Statistic(bounds=(0.0, 1.0))


def test_a_tilt_moves_the_mean_to_the_truth_and_invents_no_value() -> None:
    values = np.array([0.0, 0.2, 0.5, 0.9, 1.0])
    shares = tilt(values - 0.7)
    assert shares.sum() == pytest.approx(1)
    assert shares @ values == pytest.approx(0.7)
    ratios = np.diff(np.log(shares)) / np.diff(values)
    assert ratios == pytest.approx(np.full(4, ratios[0]))  # exponential in the value


def test_a_truth_beyond_the_values_is_refused() -> None:
    with pytest.raises(UsageError, match="outside the values"):
        tilt(np.array([0.1, 0.2]) - 0.3)


def test_whole_conversations_are_drawn_so_that_the_mean_of_queries_is_the_truth() -> None:
    values = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 1.0])
    population = Population.of(SHARE, values, Units.of(6, ["a", "a", "a", "b", "b", "c"]))
    top, bottom = population.unit_sums
    shares = population.shares(0.5)
    assert (shares @ top) / (shares @ bottom) == pytest.approx(0.5)
    (sample, *others) = population.samples(shares, 4, 3, np.random.default_rng(0))
    assert len(others) == 2 and len(sample.units) == 4


def test_undefined_values_are_left_out() -> None:
    population = Population.of(SHARE, np.array([0.5, math.nan, 1.0]), Units.of(3))
    assert population.values.tolist() == [0.5, 1.0] and population.mean == 0.75


def test_stated_conversations_are_as_alike_as_stated() -> None:
    rng = np.random.default_rng(3)
    plain = Population.of(SHARE, rng.random(200), Units.of(200))
    made = plain.with_dialogue(Dialogue(0.3, 5))
    (sample,) = made.samples(made.shares(0.5), 2000, 1, rng)
    drawn = Population.of(SHARE, sample.values[0], sample.units)
    assert drawn.correlation() == pytest.approx(0.3, abs=0.04)
    assert drawn.turns == 5
    assert math.isnan(plain.correlation())


def test_the_units_for_a_power_are_those_at_which_the_chance_reaches_it() -> None:
    # Normal scores linear in √n: −1 + 0.1 √n, which is 0.8416 (a chance of .8) at √n = 18.416, so n = 340.
    from scipy.special import ndtr

    def chance(slope: float, start: float = -1.0) -> Callable[[int], float]:
        return lambda n: float(ndtr(start + slope * math.sqrt(n)))

    assert find_units(0.8, chance(0.1)) == UnitsNeeded(340, 3200, False)
    assert find_units(0.8, chance(0.5)) == UnitsNeeded(14, 3200, False)
    assert find_units(0.8, chance(0.02)) == UnitsNeeded(8479, 32_000, True)  # (1.8416 / 0.02)²
    assert find_units(0.8, chance(0.002)) == UnitsNeeded(None, 32_000, True)
    assert find_units(0.8, lambda _: 0.03) == UnitsNeeded(None, 3200, False)
    assert find_units(0.8, lambda _: 0.9) == UnitsNeeded(2, 3200, False)


def test_the_units_for_a_power_are_found_where_the_chance_jumps() -> None:
    found = find_units(0.8, lambda n: 0.0 if n < 137 else 1.0).n
    assert found is not None and 137 <= found <= 150
    assert find_units(0.99999, lambda n: 0.99995 if n < 150 else 1.0).n == 200
