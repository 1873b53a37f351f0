"""Intervals that hold at every look: a reduced form of bench/sequential.py, and what theory says of the bets."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np
import pytest

import karat
from karat.errors import UsageError
from karat.stats.betting import BETTING, CONTRADICTION, PARTS, Bets, most_capital
from karat.stats.changes import estimate_changes
from karat.stats.groups import intervals
from karat.stats.resample import Units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SAMPLES, LOOKS, STEP = 800, 60, 10
RNG = np.random.default_rng(7)
LEVELS: dict[str, Floats] = {
    "near the ceiling": np.repeat([1.0, 0.5, 0.0], [940, 40, 20]),
    "shares": np.repeat([1.0, 0.0], [930, 70]),
    "many zeros": np.concatenate((np.zeros(700), RNG.beta(2, 2, 300))),
    "balanced": RNG.beta(3, 2, 1000),
}
CHANGES: dict[str, Floats] = {
    "2% lost": np.repeat([-1.0, 0.0], [20, 980]),
    "ties": np.concatenate((np.zeros(850), RNG.choice([-0.5, 0.5, 1.0], 150))),
    "dense": np.clip(RNG.normal(0.01, 0.25, 1000), -1, 1),
}
CASES = [(name, values, (0.0, 1.0)) for name, values in LEVELS.items()]
CASES += [(name, values, (-1.0, 1.0)) for name, values in CHANGES.items()]


def days(n: int, step: int = STEP) -> Units:
    """So many queries, of which `step` are added each day."""
    return Units.of(n, days=np.arange(n) // step * 1.0)


@pytest.mark.parametrize(("name", "values", "scale"), CASES)
def test_sixty_looks_refute_the_truth_in_2_5_percent_of_samples_on_each_side(
    name: str, values: Floats, scale: tuple[float, float]
) -> None:
    rng = np.random.default_rng([len(name), 60])
    drawn = values[rng.integers(0, len(values), (SAMPLES, LOOKS * STEP))]
    bets = Bets.of(drawn, days(LOOKS * STEP), np.array([scale] * SAMPLES))
    truth = np.full(SAMPLES, (values.mean() - scale[0]) / (scale[1] - scale[0]))
    allowed = SAMPLES * 0.025 + 3 * math.sqrt(SAMPLES * 0.025 * 0.975)
    assert (most_capital(bets.values, bets.sizes, truth) >= math.log(40)).sum() <= allowed
    assert (most_capital(1 - bets.values, bets.sizes, 1 - truth) >= math.log(40)).sum() <= allowed


@pytest.mark.parametrize("name", LEVELS)
def test_levels_are_at_most_twice_as_long_as_those_of_one_look(name: str) -> None:
    values, rng = LEVELS[name], np.random.default_rng(2)
    drawn, bounds = values[rng.integers(0, len(values), (20, 200))], [(0.0, 1.0)] * 20
    often, once = (intervals(drawn, units, bounds=bounds) for units in (days(200), Units.of(200)))
    assert {i.method for i in often} == {BETTING}
    assert np.mean([i.high - i.low for i in often]) <= 2 * np.mean([i.high - i.low for i in once])


def test_changes_that_spread_by_a_fifth_are_at_most_twice_as_long_as_those_of_one_look() -> None:
    values, rng = CHANGES["dense"], np.random.default_rng(2)
    drawn, rows = values[rng.integers(0, len(values), (20, 200))], [np.arange(200)]
    widths = []
    for units in (days(200), Units.of(200)):
        (found,) = estimate_changes(drawn, units, rows, bounds=[(-1.0, 1.0)] * 20, levels=(0.95,), draws=2000)
        widths.append(np.mean([c.intervals[0].high - c.intervals[0].low for c in found]))
    assert widths[0] <= 2 * widths[1]


def test_capital_is_expected_to_stay_what_it_was_where_the_mean_is_true() -> None:
    # Six values of 1 with chance .3: the sum over all 64 sequences of chance × capital is the capital at the start.
    expected = 0.0
    for sequence in product((0.0, 1.0), repeat=6):
        chance = math.prod(0.3 if value else 0.7 for value in sequence)
        expected += chance * math.exp(most_capital(np.array([sequence]), np.array([6]), np.array([0.3]))[0])
    assert expected == pytest.approx(1.0)
    assert PARTS.sum() == pytest.approx(1.0)


def test_an_end_is_the_mean_at_which_the_capital_reaches_forty() -> None:
    values = RNG.random((1, 60))
    found = intervals(values, days(60), bounds=[(0.0, 1.0)])[0]
    sizes = np.full(6, 10)
    assert most_capital(values, sizes, np.array([found.low]))[0] == pytest.approx(math.log(40), abs=1e-6)
    assert most_capital(1 - values, sizes, np.array([1 - found.high]))[0] == pytest.approx(math.log(40), abs=1e-6)


def test_an_interval_never_grows_from_day_to_day() -> None:
    values = np.concatenate((RNG.random((1, 50)) ** 0.7, RNG.random((1, 150))), axis=1)
    found = [intervals(values[:, :n], days(n), bounds=[(0.0, 1.0)])[0] for n in range(10, 201, 10)]
    assert all(a.low <= b.low + 1e-11 and b.high <= a.high + 1e-11 for a, b in pairwise(found))


def test_the_order_of_queries_within_a_day_makes_no_difference() -> None:
    values = RNG.random(80)
    shuffled = values.copy()
    shuffled[:40], shuffled[40:] = RNG.permutation(values[:40]), RNG.permutation(values[40:])
    a, b = (intervals(v[None, :], days(80, 40), bounds=[(0.0, 1.0)])[0] for v in (values, shuffled))
    assert (a.low, a.high) == pytest.approx((b.low, b.high), abs=1e-10)


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    values = RNG.random((5, 60))
    alone = [intervals(row[None, :], days(60), bounds=[(0.0, 1.0)])[0] for row in values]
    assert intervals(values, days(60), bounds=[(0.0, 1.0)] * 5) == alone


def test_p_and_interval_of_a_change_agree() -> None:
    drawn = np.clip(RNG.normal(0.07, 0.3, (60, 150)), -1, 1)
    (found,) = estimate_changes(drawn, days(150), [np.arange(150)], bounds=[(-1.0, 1.0)] * 60, levels=(0.95,))
    left_out = [not change.intervals[0].low <= 0 <= change.intervals[0].high for change in found]
    assert left_out == [change.p[BETTING] <= 0.05 for change in found]
    assert any(left_out)
    assert not all(left_out)


def test_days_that_contradict_each_other_leave_no_interval() -> None:
    values = np.repeat([1.0, 0.0], 100)[None, :]
    (found,) = intervals(values, days(200, 100), bounds=[(0.0, 1.0)])
    assert found.method == CONTRADICTION
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_conversations_of_one_length_are_units_and_others_have_no_such_interval() -> None:
    values, pairs = RNG.random((1, 80)), [str(i // 2) for i in range(80)]
    (paired,) = intervals(values, Units.of(80, pairs, days=np.arange(80) // 8), bounds=[(0.0, 1.0)])
    (means,) = intervals(values.reshape(40, 2).mean(axis=1)[None, :], days(40, 4), bounds=[(0.0, 1.0)])
    assert (paired.method, paired.low, paired.high) == (BETTING, means.low, means.high)
    (uneven,) = intervals(values, Units.of(80, ["one", *pairs[1:]], days=np.arange(80.0)), bounds=[(0.0, 1.0)])
    (weighted,) = intervals(values, Units.of(80, None, np.arange(1, 81), np.arange(80.0)), bounds=[(0.0, 1.0)])
    assert (uneven.method, weighted.method) == ("gaffke", "gaffke")


def test_a_conversation_counts_from_the_day_on_which_it_is_complete() -> None:
    units = Units.of(4, ["a", "b", "a", "b"], days=[1.0, 1.0, 3.0, 2.0])
    assert units.last_days.tolist() == [3.0, 2.0]


def test_bare_values_in_their_order() -> None:
    values = RNG.random(100)
    found = karat.interval(values, bounds=(0, 1), sequential=True)
    assert (found.method, found.n) == (BETTING, 100)
    with pytest.raises(UsageError, match="values with bounds"):
        karat.interval(values, sequential=True)
