"""What a comparison may say of differences that are known only within two ends."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from karat.stats.changes import estimate_changes
from karat.stats.multiple import holm
from karat.stats.partial_changes import Direction, foresee_change
from karat.stats.resample import Units

DRAWS = 2000
Floats = NDArray[np.float64]


def compare(rows: Floats, *, family: bool = False) -> list[Direction]:
    """What a comparison says of each row of differences, alone or all of them in one family."""
    changes = estimate_changes(
        rows,
        Units.of(rows.shape[1]),
        [np.arange(rows.shape[1])],
        bounds=[(-1.0, 1.0)] * len(rows),
        levels=[0.95],
        draws=DRAWS,
    )[0]
    p = [max(change.p.values()) for change in changes]
    p = holm(p) if family else p
    return [
        "no significant difference" if one >= 0.05 else "higher" if row.mean() > 0 else "lower"
        for one, row in zip(p, rows, strict=True)
    ]


@pytest.mark.parametrize("queries", [6, 12, 30])
def test_no_values_within_the_ends_are_judged_otherwise(queries: int) -> None:
    rng, finals, surprises = np.random.default_rng(queries), 0, 0
    for _ in range(60):
        middle = np.where(rng.random(queries) < 0.3, 0.0, rng.normal(rng.normal() / 3, 0.3, queries)).clip(-1, 1)
        width = rng.random(queries) * rng.choice([0.02, 0.1, 0.5]) * (rng.random(queries) < 0.7)
        low, high = np.maximum(middle - width, -1), np.minimum(middle + width, 1)
        change = foresee_change(low, high, (-1, 1), draws=DRAWS)
        assert (change.low, change.high) == (low.mean(), high.mean())
        share = rng.choice([0.0, 0.5, 1.0], (40, queries)) * (rng.random((40, 1)) < 0.7) + 0.0
        share = np.vstack((share, rng.random((40, queries)), np.zeros(queries), np.ones(queries)))
        values = low + share * (high - low)
        values = np.vstack((values, np.clip(0.0, low, high)))  # as many ties as there can be
        outcomes = set(compare(values))
        assert outcomes <= set(change.directions)
        finals += change.final is not None
        surprises += len(outcomes) > 1
    assert finals > 5 and surprises > 2  # the test has seen both


def test_known_differences_are_judged_as_comparisons_judge_them() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        row = np.round(rng.normal(rng.normal() / 10, 0.3, 20), 1).clip(-1, 1)
        assert foresee_change(row, row, (-1, 1), draws=DRAWS).directions == tuple(compare(row[None]))


def test_in_a_family_p_is_adjusted_for_the_others_whatever_they_are() -> None:
    rng, differ = np.random.default_rng(5), 0
    for _ in range(60):
        rows = np.array([rng.normal(shift, 0.3, 25).clip(-1, 1) for shift in rng.normal(0, 0.2, 3)])
        for row, outcome in zip(rows, compare(rows, family=True), strict=True):
            change = foresee_change(row, row, (-1, 1), draws=DRAWS, family=3)
            assert outcome in change.directions
            differ += change.directions != foresee_change(row, row, (-1, 1), draws=DRAWS).directions
    assert differ


def test_a_single_query_decides_nothing() -> None:
    assert foresee_change(np.array([0.5]), np.array([1.0]), (-1, 1)).final == "no significant difference"
