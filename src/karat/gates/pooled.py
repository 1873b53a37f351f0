"""Gates on pooled estimates: what the segments of a gate are, each drawn towards the others."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.grammar import parse
from karat.records import dataclass
from karat.results.pairing import paired
from karat.results.values import statistic_of
from karat.stats.aggregates import score_differences
from karat.stats.pooling import LEAST_SEGMENTS, POOLED, PoolingObstacle, find_obstacle, pool_changes, pool_figures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karat.gates.gate import Gate
    from karat.gates.judge import GateEvidence
    from karat.results.result import RunResult
    from karat.results.sampling import Sampling, Segment
    from karat.stats.intervals import Interval

    Rows = NDArray[np.int64]

_OBSTACLES: Mapping[PoolingObstacle, str] = {
    "too few segments": f"fewer than {LEAST_SEGMENTS} segments have at least {{least}}",
    "shared queries": "segments share queries",
    "shared conversations": "segments share conversations",
    "no spread": "the values of a segment show no spread",
}


@dataclass(frozen=True)
class GatePool:
    """What a pooled gate judges its segments by."""

    segments: Sequence[tuple[Interval, ...]]
    """For each segment its interval at the level of a pass and of a fail; empty where it is not pooled."""
    obstacle: str = ""
    """Why those without an interval are not pooled."""


def pool_gate(
    gate: Gate, run: RunResult, base: RunResult | None, segments: Sequence[Segment], levels: Sequence[Sampling]
) -> GatePool:
    """The pooled estimates of a gate's segments, or why there are none; neither for a gate that is not pooled."""
    if not gate.pooled:
        return GatePool([() for _ in segments])
    statistic, sampling = statistic_of(parse(gate.metric)), levels[0]
    shares, least = [one.confidence for one in levels], sampling.minimum
    if base is None:
        values, units = run.values[gate.metric], sampling.units(run.query_ids)
        groups = [s.rows for s in segments]
        pooled = pool_figures(values, statistic, units, groups, levels=shares, minimum=least)
    else:
        both = paired(base, run, [gate.metric])
        units, groups = sampling.units(both.query_ids), rows_of(both.query_ids, run, segments)
        before, after = both.base[0], both.candidate[0]
        values = score_differences(statistic, before, after, gate.factor)
        pooled = pool_changes(before, after, statistic, units, groups, levels=shares, minimum=least, factor=gate.factor)
    enough = f"{least} queries" if units.plain else f"{least} independent queries"
    if any(pooled):
        return GatePool(pooled, f"not pooled: fewer than {enough}")
    obstacle = find_obstacle(values, units, groups, minimum=least)
    return GatePool(pooled, f"not pooled: {_OBSTACLES[obstacle].format(least=enough)}")


def rows_of(query_ids: Sequence[str], run: RunResult, segments: Sequence[Segment]) -> list[Rows]:
    """Where the queries of a run's segments stand among others; those that are not there are left out."""
    place = {q: i for i, q in enumerate(query_ids)}
    return [np.array([place[q] for i in s.rows if (q := run.query_ids[i]) in place], dtype=np.int64) for s in segments]


def with_pool(evidence: GateEvidence, pool: GatePool, number: int) -> GateEvidence:
    """The evidence of a segment with its pooled estimate, or with why it has none although it is judged.

    How many queries would decide a pooled one nobody can say.
    """
    intervals = pool.segments[number]
    if not intervals:
        return replace(evidence, not_pooled=pool.obstacle) if evidence.units >= evidence.minimum else evidence
    passing, failing = intervals[0], intervals[-1]
    return replace(
        evidence,
        estimate=passing.estimate,
        low=passing.low,
        high=passing.high,
        deviation=math.nan,
        kind="mean",
        fail_low=failing.low,
        fail_high=failing.high,
        method=POOLED,
    )
