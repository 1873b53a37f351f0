"""Gates on pooled estimates: what the segments of a gate are, each drawn towards the others."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.grammar import parse
from karat.results.pairing import paired
from karat.results.values import statistic_of
from karat.stats.pooling import LEAST_SEGMENTS, POOLED, pool_changes, pool_figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karat.gates.judge import GateEvidence, Ruling
    from karat.gates.language import Gate
    from karat.results.result import RunResult
    from karat.results.sampling import Sampling, Segment
    from karat.stats.intervals import Interval

    Rows = NDArray[np.int64]

NOT_POOLED = f"not pooled: fewer than {LEAST_SEGMENTS} segments are large enough, or segments share queries"


def pool_gate(
    gate: Gate, run: RunResult, base: RunResult | None, segments: Sequence[Segment], levels: Sequence[Sampling]
) -> list[tuple[Interval, ...]]:
    """The pooled interval of each segment at the level of a pass and of a fail; empty where it is not pooled."""
    if not gate.pooled:
        return [() for _ in segments]
    statistic, sampling = statistic_of(parse(gate.metric)), levels[0]
    shares = [one.confidence for one in levels]
    if base is None:
        values, units = run.values[gate.metric], sampling.units(run.query_ids)
        groups = [s.rows for s in segments]
        return pool_figures(values, statistic, units, groups, levels=shares, minimum=sampling.minimum)
    both = paired(base, run, [gate.metric])
    return pool_changes(
        both.base[0],
        both.candidate[0],
        statistic,
        sampling.units(both.query_ids),
        rows_of(both.query_ids, run, segments),
        levels=shares,
        minimum=sampling.minimum,
        factor=gate.factor,
    )


def rows_of(query_ids: Sequence[str], run: RunResult, segments: Sequence[Segment]) -> list[Rows]:
    """Where the queries of a run's segments stand among others; those that are not there are left out."""
    place = {q: i for i, q in enumerate(query_ids)}
    return [np.array([place[q] for i in s.rows if (q := run.query_ids[i]) in place], dtype=np.int64) for s in segments]


def with_pool(evidence: GateEvidence, intervals: Sequence[Interval]) -> GateEvidence:
    """The evidence of a segment with its pooled estimate; how many queries would decide it nobody can say."""
    if not intervals:
        return evidence
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


def note_raw(gate: Gate, evidence: GateEvidence, ruling: Ruling) -> Ruling:
    """The ruling of a pooled gate, which says so where its segments are judged each by itself."""
    raw = gate.pooled and not evidence.missing and evidence.method != POOLED and evidence.units >= evidence.minimum
    return replace(ruling, why=f"{ruling.why}; {NOT_POOLED}") if raw else ruling
