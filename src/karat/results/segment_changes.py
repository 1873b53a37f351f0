"""Segments of a comparison beside each other: pooled changes, and whether segments differ in theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from karat.metrics.grammar import parse
from karat.results.decisions import Decision, RestComparison, SegmentInteraction
from karat.results.pairing import Paired, paired
from karat.results.values import statistic_of
from karat.stats.aggregates import score_differences
from karat.stats.interaction import measure_interaction, share_units
from karat.stats.multiple import benjamini_hochberg
from karat.stats.pooling import pool_changes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.results.result import RunResult
    from karat.results.sampling import Sampling, Segment
    from karat.stats.intervals import Interval

    Place = tuple[str, tuple[tuple[str, str], ...]]
    """A metric or a candidate, and a segment."""


def with_pooled_changes(
    rows: Sequence[Decision], both: Paired, slices: Sequence[Segment], sampling: Sampling
) -> list[Decision]:
    """Decisions of segments with their pooled change, where the metric is a mean."""
    units = sampling.units(both.query_ids)
    pooled: dict[Place, Interval] = {}
    metrics = list(dict.fromkeys(row.metric for row in rows))
    for names in dict.fromkeys(tuple(s.by) for s in slices) if sampling.method != "none" else ():
        mine = [s for s in slices if tuple(s.by) == names]
        for i, metric in enumerate(metrics):
            intervals = pool_changes(
                both.base[i],
                both.candidate[i],
                statistic_of(parse(metric)),
                units,
                [s.rows for s in mine],
                levels=(sampling.confidence,),
                minimum=sampling.minimum,
            )
            pooled |= {(metric, place_of(s.by)): one[0] for s, one in zip(mine, intervals, strict=True) if one}
    return [
        row if row.segment is None else replace(row, pooled=pooled.get((row.metric, place_of(row.segment))))
        for row in rows
    ]


def describe_shared_units(base: RunResult, run: RunResult, metric: str) -> list[str]:
    """That segments of a field share queries or conversations, for which they are neither tested nor pooled."""
    both, sampling = paired(base, run, [metric]), run.sampling
    fields: dict[str, list[str]] = {}
    units = sampling.units(both.query_ids)
    for names in sampling.tables:
        rows = [s.rows for s in sampling.segments(both.query_ids) if tuple(s.by) == names]
        rows = [mine for mine in rows if units.take(mine).effective >= sampling.minimum]
        if len(rows) < 2 or not share_units([units.unit[mine] for mine in rows]):
            continue
        shared = "queries" if share_units(rows) else "conversations"
        fields.setdefault(shared, []).append(f"by {', '.join(names)}")
    return [
        f"segments {' and '.join(by)} share {shared}, so their Δ {metric} are neither tested against each other "
        "nor pooled"
        for shared, by in fields.items()
    ]


def place_of(by: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """A segment as a key."""
    return tuple(by.items())


def with_interactions(
    rows: Sequence[Decision], base: RunResult, runs: Sequence[RunResult], primary: str, alpha: float
) -> tuple[Decision, ...]:
    """Decisions of the primary metric with the tests whether segments differ in their change.

    The segments that can be judged are compared; p of each against the rest is adjusted over all of them.
    """
    whole: dict[str, list[SegmentInteraction]] = {}
    rest: dict[Place, float] = {}
    for run in runs:
        judged = [row.segment for row in rows if _is_judged(row, run.name, primary) and row.segment is not None]
        statistic = statistic_of(parse(primary))
        if not judged or statistic.aggregate == "quantile":
            continue
        both, sampling = paired(base, run, [primary]), run.sampling
        units = sampling.units(both.query_ids)
        units = units if statistic.weighted else units.unweighted()
        moved = score_differences(statistic, both.base[0], both.candidate[0])
        for names in dict.fromkeys(tuple(by) for by in judged):
            slices = [s for s in sampling.segments(both.query_ids) if s.by in judged and tuple(s.by) == names]
            interaction = measure_interaction(moved, units, [s.rows for s in slices], seed=sampling.seed)
            if interaction is not None:
                one = SegmentInteraction(names, len(slices), interaction.p, interaction.p < alpha)
                whole.setdefault(run.name, []).append(one)
                rest |= {(run.name, place_of(s.by)): p for s, p in zip(slices, interaction.rest, strict=True)}
    adjusted = dict(zip(rest, benjamini_hochberg(list(rest.values())), strict=True)) if rest else {}
    out = []
    for row in rows:
        if row.metric == primary and row.segment is None:
            row = replace(row, interactions=tuple(whole.get(row.candidate, ())))
        elif row.metric == primary and row.segment is not None and (row.candidate, place_of(row.segment)) in rest:
            key = (row.candidate, place_of(row.segment))
            row = replace(row, rest=RestComparison(rest[key], adjusted[key], adjusted[key] < alpha))
        out.append(row)
    return tuple(out)


def _is_judged(row: Decision, run: str, metric: str) -> bool:
    return row.candidate == run and row.metric == metric and not row.small
