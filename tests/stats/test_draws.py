"""Random draws: how far they move the ends of intervals, and what a gate says that is nearer than that."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec import UNSET

import karat
from karat.gates.judge import GateEvidence, judge
from karat.gates.language import parse_gate
from karat.gates.wording import UNSTEADY, advise
from karat.stats.changes import estimate_changes
from karat.stats.defaults import RESAMPLES
from karat.stats.groups import intervals
from karat.stats.intervals import Interval, draw_error, draws_needed
from karat.stats.resample import Units

if TYPE_CHECKING:
    from pathlib import Path

COSTS = np.random.default_rng(3).lognormal(0, 0.5, 60)
SEEDS = range(60)


def of_costs(seed: int, *, confidence: float = 0.95, resamples: int = RESAMPLES) -> Interval:
    (one,) = intervals(
        COSTS[None, :], Units.of(len(COSTS)), confidence=confidence, resamples=resamples, seed=seed, method="percentile"
    )
    return one


@pytest.mark.parametrize("segments", [1, 4])
def test_an_end_moves_from_seed_to_seed_by_a_hundredth_of_the_length(segments: int) -> None:
    confidence = 1 - 0.05 / segments
    resamples = max(RESAMPLES, draws_needed((1 - confidence) / 2))
    found = [of_costs(seed, confidence=confidence, resamples=resamples) for seed in SEEDS]
    length = np.mean([one.high - one.low for one in found])
    for ends in ([one.low for one in found], [one.high for one in found]):
        assert np.std(ends) <= 0.013 * length  # a hundredth, and the error of a deviation of 60 seeds


def test_the_error_of_an_end_is_the_one_that_seeds_show() -> None:
    found = [of_costs(seed, resamples=1000) for seed in SEEDS]
    seen = float(np.std([one.low for one in found]))
    assert 0.6 * seen < float(np.mean([one.end_error(one.low, 0.95) for one in found])) < 1.6 * seen
    assert draw_error(0.025, 10_000) == pytest.approx(draw_error(0.025, 100) / 10)


def test_intervals_that_no_seed_moves_rest_on_no_draws() -> None:
    values = np.linspace(0, 1, 40)
    bounded, unbounded = (intervals(values[None, :], Units.of(40), bounds=[b])[0] for b in ((0, 1), (-np.inf, np.inf)))
    assert (bounded.draws, unbounded.draws) == (0, RESAMPLES)

    def of_change(n: int) -> int:
        difference = np.linspace(0.3, 0.5, n)[None, :]
        ((one,),) = estimate_changes(
            difference, Units.of(n), [np.arange(n)], bounds=[(-0.5, 0.5)], levels=(0.95,), draws=2000
        )
        return one.intervals[0].draws

    assert of_change(12) == 0  # all flips are counted
    assert of_change(60) == 2000
    assert of_change(400) == 0  # computed


def test_a_gate_within_the_error_of_its_draws_says_so() -> None:
    gate = parse_gate("cost.tokens <= 2")
    found = GateEvidence(1.5, 1.0, 1.999, n=60, deviation=1.0, draws=RESAMPLES)
    near, far = judge(gate, found), judge(gate, replace(found, high=1.9))
    assert (near.outcome, near.unsteady) == ("pass", True)
    assert (far.outcome, far.unsteady) == ("pass", False)
    assert not judge(gate, replace(found, draws=0)).unsteady
    assert judge(gate, replace(found, high=2.001)).unsteady


def test_a_check_says_that_another_seed_may_decide_otherwise(tmp_path: Path) -> None:
    gold = {f"q{i}": {"d": 1} for i in range(40)}
    tokens = np.random.default_rng(1).lognormal(5, 0.5, 40)
    rows = [
        {"query_id": q, "topk": [{"rank": 1, "chunk_id": "d", "score": 1.0}], "cost": {"tokens": float(t)}}
        for q, t in zip(gold, tokens, strict=True)
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = karat.evaluate(gold, str(log), ["cost.tokens"])
    high = result.runs[0].estimates[0]["cost.tokens"].high
    check = karat.check(result, [f"cost.tokens <= {high + 0.01:.4f}", f"cost.tokens <= {2 * high:.4f}"])
    near, far = check.document().gates or []
    assert (near.outcome, near.unsteady) == ("pass", True)
    assert (far.outcome, far.unsteady) == ("pass", UNSET)
    assert advise(check.rows[0]) == UNSTEADY
