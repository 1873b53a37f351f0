"""How often gates decide wrongly with the truth at the gate: a reduced form of bench/error_rates.py."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from karat.stats.aggregates import IntervalChoice, Statistic, measure_changes
from karat.stats.bounded_means import PairedShares
from karat.stats.changes import estimate_changes
from karat.stats.groups import intervals
from karat.stats.intervals import average_intervals
from karat.stats.resample import Units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SAMPLES, DRAWS = 600, 2000
RNG = np.random.default_rng(14)
LEVELS: dict[str, Floats] = {
    "near the ceiling": np.repeat([1.0, 0.5, 0.0], [940, 40, 20]),
    "shares": np.repeat([1.0, 0.0], [930, 70]),
    "many zeros": np.concatenate((np.zeros(700), RNG.beta(2, 2, 300))),
    "one outlier": np.concatenate((RNG.beta(2, 40, 42), [0.9])),
    "balanced": RNG.beta(3, 2, 1000),
    "rare failures among equal values": np.repeat([0.5, 0.0], [960, 40]),
    "frequent failures among like values": np.concatenate((np.zeros(200), RNG.normal(0.5, 0.02, 800))),
}
CHANGES: dict[str, Floats] = {
    "2% lost": np.repeat([-1.0, 0.0], [20, 980]),
    "ties": np.concatenate((np.zeros(850), RNG.choice([-0.5, 0.5, 1.0], 150))),
    "one outlier": np.concatenate((RNG.normal(0, 0.02, 42), [0.4])),
    "dense": np.clip(RNG.normal(0.01, 0.15, 1000), -1, 1),
}


def allowed(n: int) -> float:
    """4% a side, 5% with 10 queries, and three standard errors of the simulation."""
    limit = 0.05 if n == 10 else 0.04
    return SAMPLES * limit + 3 * math.sqrt(SAMPLES * limit * (1 - limit))


@pytest.mark.parametrize("n", [10, 25, 50, 100])
@pytest.mark.parametrize("name", LEVELS)
def test_levels_miss_on_each_side_no_more_than_they_may(name: str, n: int) -> None:
    values, rng = LEVELS[name], np.random.default_rng([n, len(name)])
    drawn = values[rng.integers(0, len(values), (SAMPLES, n))]
    found = intervals(drawn, Units.of(n), bounds=[(0.0, 1.0)] * SAMPLES)
    truth = values.mean()
    assert sum(i.low > truth for i in found) <= allowed(n)
    assert sum(i.high < truth for i in found) <= allowed(n)


@pytest.mark.parametrize("n", [10, 25, 100])
@pytest.mark.parametrize("name", CHANGES)
def test_changes_miss_on_each_side_no_more_than_they_may(name: str, n: int) -> None:
    values, rng = CHANGES[name], np.random.default_rng([n, len(name)])
    drawn = values[rng.integers(0, len(values), (SAMPLES, n))]
    (found,) = estimate_changes(
        drawn, Units.of(n), [np.arange(n)], bounds=[(-1.0, 1.0)] * SAMPLES, levels=(0.95,), draws=DRAWS
    )
    truth = values.mean()
    assert sum(one.intervals[0].low > truth for one in found) <= allowed(n)
    assert sum(one.intervals[0].high < truth for one in found) <= allowed(n)


@pytest.mark.parametrize("name", CHANGES)
def test_averages_over_languages_miss_on_each_side_no_more_than_they_may(name: str) -> None:
    values, rng = CHANGES[name], np.random.default_rng(len(name))
    languages = []
    for n in (12, 25, 50):
        drawn = values[rng.integers(0, len(values), (SAMPLES, n))]
        bounds = [(-1.0, 1.0)] * SAMPLES
        (found,) = estimate_changes(drawn, Units.of(n), [np.arange(n)], bounds=bounds, levels=(0.95,), draws=DRAWS)
        languages.append([one.intervals[0] for one in found])
    averages = [average_intervals(parts) for parts in zip(*languages, strict=True)]
    truth = values.mean()
    assert sum(one.low > truth for one in averages) <= allowed(25)
    assert sum(one.high < truth for one in averages) <= allowed(25)


@pytest.mark.parametrize("n", [50, 100, 200])
@pytest.mark.parametrize("level", [0.3, 0.75])
def test_small_changes_hide_no_losses(level: float, n: int) -> None:
    """Every query changes a little, and 5% of them lose all that they had."""
    rng = np.random.default_rng([n, round(level * 100)])
    before = rng.beta(4 * level, 4 * (1 - level), 2000)
    after = np.where(rng.random(2000) < 0.05, 0.0, (before + rng.normal(0, 0.03, 2000)).clip(0, 1))
    rows = rng.integers(0, 2000, (SAMPLES, n))
    shares = PairedShares(before[rows], after[rows])
    (found,) = estimate_changes(
        shares.after - shares.before,
        Units.of(n),
        [np.arange(n)],
        bounds=[(-1.0, 1.0)] * SAMPLES,
        shares=shares,
        levels=(0.95,),
        draws=DRAWS,
    )
    truth = (after - before).mean()
    assert sum(one.intervals[0].low > truth for one in found) <= allowed(n)
    assert sum(one.intervals[0].high < truth for one in found) <= allowed(n)


@pytest.mark.parametrize("n", [50, 100, 225])
def test_differences_from_a_share_of_the_baseline_ship_no_more_than_they_may(n: int) -> None:
    """A margin of 2%: 2% of the queries lose all that they had, the others are as before."""
    rng = np.random.default_rng(n)
    base = rng.choice([0.0, 0.5, 1.0], (SAMPLES, n), p=[0.1, 0.1, 0.8])
    after = np.where(rng.random((SAMPLES, n)) < 0.02, 0.0, base)
    share = Statistic(bounds=(0.0, 1.0))
    (found,) = measure_changes(
        base, after, [share] * SAMPLES, Units.of(n), [np.arange(n)], IntervalChoice(), factor=0.98, draws=DRAWS
    )
    assert sum(one.intervals[0].low > 0 for one in found) <= allowed(n)
    assert sum(one.intervals[0].high < 0 for one in found) <= allowed(n)


@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize("count", [5, 12])
def test_conversations_miss_on_each_side_no_more_than_they_may(count: int, unequal: bool) -> None:
    values, rng = LEVELS["balanced"], np.random.default_rng([count, unequal])
    truth, above, below, judged = values.mean(), 0, 0, 0
    for _ in range(SAMPLES // 2):
        sizes = rng.choice([2, 4, 8, 12, 24], count) if unequal else np.full(count, 10)
        of = np.repeat(np.arange(count), sizes)
        own = values[rng.integers(0, len(values), count)][of]
        turns = np.where(rng.random(len(of)) < 0.3**0.5, own, values[rng.integers(0, len(values), len(of))])
        (one,) = intervals(turns[None, :], Units.of(len(of), of.tolist()), bounds=[(0.0, 1.0)])
        if one.units >= 5:
            judged += 1
            above += one.low > truth
            below += one.high < truth
    assert max(above, below) <= allowed(25) / 2
    assert judged == SAMPLES // 2 or unequal
