"""Equal units are counted where there are many: the figures are those of every unit for itself."""

from __future__ import annotations

import numpy as np
import pytest

from karat.stats import bounded_means
from karat.stats.bounded_means import PairedShares, UnitMeans
from karat.stats.changes import _p_of_none, _with_extremes, estimate_changes
from karat.stats.counted_units import ONCE, CountedUnits, side_by_side, total
from karat.stats.groups import grouped_intervals
from karat.stats.resample import Units

N = 1500
SHAPES = {
    "tied": lambda rng: np.where(rng.random(N) < 0.6, 0.0, np.round(rng.normal(0.02, 0.2, N), 2)),
    "coins": lambda rng: rng.choice([-1.0, 0.0, 1.0], N, p=[0.04, 0.9, 0.06]),
    "all different": lambda rng: rng.normal(0.01, 0.2, N),
    "a few that decide": lambda rng: np.where(np.arange(N) < 3, 1.0, 0.0),
    "the other side": lambda rng: -np.where(rng.random(N) < 0.9, 0.0, rng.random(N)),
}


def test_each_unit_of_a_column_is_counted() -> None:
    units = CountedUnits.of(np.array([[0.5, 1.0], [0.0, 1.0], [0.5, 1.0]]), np.full(3, 2.0))
    assert (units.tops[:, 0].tolist(), units.counts[:, 0].tolist()) == ([0.0, 0.5], [1.0, 2.0])
    assert (units.tops[:, 1].tolist(), units.counts[:, 1].tolist()) == ([1.0, 0.0], [3.0, 0.0])  # filled up by none
    assert total(units.counts, units.tops).tolist() == [1.0, 3.0]
    unequal = CountedUnits.of(np.array([[0.5], [0.5]]), np.array([1.0, 2.0]))
    assert len(unequal.tops) == 2 and unequal.counts is ONCE
    assert side_by_side([unequal, unequal]).counts is ONCE


@pytest.mark.parametrize("weighted", [False, True])
def test_counting_changes_no_interval_and_no_p(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    moved = np.clip(np.array([shape(rng) for shape in SHAPES.values()]), -1, 1)
    levels = np.clip(moved + 0.4, 0, 1)
    units = Units.of(N, weights=rng.integers(1, 4, N).astype(float)) if weighted else Units.of(N)
    everything = [np.arange(N)]

    def figures() -> list[float]:
        (changes,) = estimate_changes(moved, units, everything, bounds=[(-1.0, 1.0)] * len(moved), levels=(0.95, 0.99))
        ends = [end for one in changes for i in one.intervals for end in (i.low, i.high)]
        p = [value for one in changes for value in one.p.values()]
        (intervals,) = grouped_intervals(levels, units, everything, bounds=[(0.0, 1.0)] * len(levels))
        return [*ends, *p, *(end for i in intervals for end in (i.low, i.high))]

    counted = figures()
    monkeypatch.setattr(bounded_means, "MANY", 10**9)
    assert counted == pytest.approx(figures(), rel=1e-9, abs=1e-13)
    assert not np.isnan(counted).any()


def test_the_p_of_one_more_unit_is_the_smaller_side_of_both() -> None:
    """Only the side that can be smaller is looked at: where it is below a half, the other is above."""
    rng = np.random.default_rng(8)
    skewed = rng.pareto(1.2, (200, 12)) * rng.choice([-1.0, 1.0], 200)[:, None]
    differences = np.clip(0.05 * (skewed[:, :6] - np.median(skewed[:, 6:])), -1, 1)
    for values in differences:
        seen = UnitMeans.of(values[None, :], Units.of(6), PairedShares.at_top(values[None, :], np.ones(1)))
        worse, better = _with_extremes(seen, np.array([[-1.0, 1.0]]))
        sides = worse.share_below(np.zeros(1))[0], 1 - better.share_below(np.zeros(1))[0]
        assert _p_of_none(worse, better)[0] == pytest.approx(min(2 * min(sides), 1.0), rel=1e-12)
