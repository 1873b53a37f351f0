"""What a comparison may say of differences that are known only within two ends."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from karat.stats.bounded_means import PairedShares
from karat.stats.changes import estimate_changes
from karat.stats.multiple import holm
from karat.stats.partial_changes import Direction, PartialChange, PossibleChange, foresee_changes
from karat.stats.resample import Units

DRAWS = 2000
Floats = NDArray[np.float64]


def at_top(low: Floats, high: Floats) -> PartialChange:
    """Differences between these ends, of pairs whose higher value is at the top of the scale."""
    at_low, at_high = (PairedShares.at_top(end[None], np.ones(1)) for end in (low, high))
    before, after = (at_high.before[0], at_low.before[0]), (at_low.after[0], at_high.after[0])
    return PartialChange(before, after, low, high)


def foresee(*changes: PartialChange) -> list[PossibleChange]:
    return foresee_changes(changes, draws=DRAWS)


def compare(rows: Floats, *, shares: PairedShares | None = None, family: bool = False) -> list[Direction]:
    """What a comparison says of each row of differences, alone or all of them in one family."""
    changes = estimate_changes(
        rows,
        Units.of(rows.shape[1]),
        [np.arange(rows.shape[1])],
        bounds=[(-1.0, 1.0)] * len(rows),
        shares=shares,
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
        (change,) = foresee(at_top(low, high))
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


@pytest.mark.parametrize("level", [0.1, 0.3, 0.9])
def test_no_values_of_two_runs_within_their_ends_are_judged_otherwise(level: float) -> None:
    rng, finals, surprises = np.random.default_rng(8), 0, 0
    for _ in range(60):
        before = rng.beta(8 * level, 8 * (1 - level), 20)
        after = (before + rng.normal(rng.normal() / 6, 0.1, 20)).clip(0, 1)
        width = rng.random((2, 20)) * rng.choice([0.01, 0.05, 0.1]) * (rng.random(20) < 0.7)
        ends = [(np.maximum(run - w, 0), np.minimum(run + w, 1)) for run, w in zip((before, after), width, strict=True)]
        (change,) = foresee(PartialChange(*ends, ends[1][0] - ends[0][1], ends[1][1] - ends[0][0]))
        drawn = [low + rng.choice([0.0, 0.5, 1.0], (80, 20)) * (high - low) for low, high in ends]
        outcomes = set(compare(drawn[1] - drawn[0], shares=PairedShares(*drawn)))
        assert outcomes <= set(change.directions)
        finals += change.final is not None
        surprises += len(outcomes) > 1
    assert finals > 5 and surprises > 2


def test_known_differences_are_judged_as_comparisons_judge_them() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        row = np.round(rng.normal(rng.normal() / 10, 0.3, 20), 1).clip(-1, 1)
        assert foresee(at_top(row, row))[0].directions == tuple(compare(row[None]))


def test_in_a_family_p_is_adjusted_for_the_others_whatever_they_are() -> None:
    rng, differ, undecided = np.random.default_rng(5), 0, 0
    for _ in range(60):
        rows = np.array([rng.normal(shift, 0.3, 25).clip(-1, 1) for shift in rng.normal(0, 0.2, 3)])
        outcomes = compare(rows, family=True)
        assert [change.directions for change in foresee(*(at_top(r, r) for r in rows))] == [(o,) for o in outcomes]
        differ += outcomes != compare(rows)
        open_ends = [
            at_top(rows[0], rows[0]),
            *(at_top(np.maximum(r - 0.2, -1), np.minimum(r + 0.2, 1)) for r in rows[1:]),
        ]
        found = foresee(*open_ends)
        undecided += found[0].final is None
        for moved in (-0.2, 0.0, 0.2):
            other = np.vstack((rows[:1], (rows[1:] + moved).clip(-1, 1)))
            for outcome, change in zip(compare(other, family=True), found, strict=True):
                assert outcome in change.directions
    assert differ and undecided


def test_a_single_query_decides_nothing() -> None:
    (change,) = foresee(at_top(np.array([0.5]), np.array([1.0])))
    assert change.final == "no significant difference"
