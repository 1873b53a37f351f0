"""Gates that cannot be judged: nothing is measured in their segment, or no interval holds at every look."""

from __future__ import annotations

import math
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from karat.errors import InputError
from karat.gates.judge import GateEvidence, JudgedGate, Ruling
from karat.metrics.component_figures import is_component_figure
from karat.metrics.grammar import parse
from karat.model.field_group import read_group
from karat.results.sampling import describe_absent_value, plain_field, values_of
from karat.results.words import condition_text, queries_text, unequal_text
from karat.stats.betting import BETTING, CONTRADICTION
from karat.stats.pooling import POOLED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.gates.gate import Gate
    from karat.results.result import Result, RunResult
    from karat.results.sampling import Sampling
    from karat.stats.resample import Units


def explain_lack_of_gold(rows: Sequence[JudgedGate], result: Result) -> tuple[JudgedGate, ...]:
    """The same judgments; those of a segment where no query has gold say so, and how many queries there are."""
    return tuple(_explain(row, result) for row in rows)


def _explain(row: JudgedGate, result: Result) -> JudgedGate:
    gate = row.gate
    if not gate.where or not math.isnan(row.found.estimate) or "gold" not in parse(gate.metric).needs:
        return row
    run = result[row.run]
    members = find_members(gate, run.sampling)
    if not members or run.rankings is None or not members.isdisjoint(run.rankings.query_ids):
        return row
    skipped = members & _skipped(run, None)
    if skipped:
        why = f"{describe_skipped(len(skipped), _where_text(gate))}: {gate.metric} has no value there"
        return replace(row, found=GateEvidence(math.nan, missing=why), judged=Ruling("undecided", why))
    marked = result.queries is not None and members.issubset(result.queries.no_answer)
    lack, others = ("all marked no_answer", "false_evidence or latency") if marked else ("none with gold", "latency")
    sought = f"{queries_text(len(members))} with {_where_text(gate)}, {lack}"
    why = f"{sought}: {gate.metric} has no value there; gate {others} instead"
    return replace(row, found=GateEvidence(math.nan, missing=why), judged=Ruling("undecided", why))


def find_skipped_segments(gate: Gate, run: RunResult, base: RunResult | None) -> list[SkippedSegment]:
    """The segments of a gate `for every` of which the run returned nothing at all, and whose queries are left out."""
    if not gate.every or "gold" not in parse(gate.metric).needs:
        return []
    skipped = sorted(_skipped(run, base))
    there = {tuple(s.by.items()) for s in run.sampling.segments(run.query_ids)}
    lacking = [
        s for s in replace(run.sampling, by=(gate.fields,)).segments(skipped) if tuple(s.by.items()) not in there
    ]
    return [SkippedSegment(s.by, len(s.rows)) for s in lacking if len(s.rows) >= (gate.least or 1)]


class SkippedSegment(NamedTuple):
    """A segment of which a run returned nothing, and how many queries with gold it holds."""

    by: Mapping[str, str]
    queries: int


def describe_skipped(queries: int, where: str) -> str:
    """In words: queries of a segment that a run does not answer."""
    return f"{queries_text(queries)} with {where}, none with results in this run"


def _skipped(run: RunResult, base: RunResult | None) -> set[str]:
    """The queries with gold that are left out because the run does not answer them.

    A result that does not hold the gold knows how many there are: any query of its table may be one.
    """
    if run.policy.missing != "skip" or not run.counts.get("missing"):
        return set()
    if run.gold is not None:
        known = set(run.gold.qrels.query_ids)
    else:
        known = {q for values in run.sampling.fields.values() for q in values}
    return (known | set(base.query_ids if base is not None else ())) - set(run.query_ids)


def refuse_absent_field(gate: Gate, sampling: Sampling) -> None:
    """Refuse a gate by a field that the result does not hold: its queries are not sliced by it."""
    if gate.fields in sampling.by:
        return
    groups = [read_group(name) for name in gate.fields]
    pairs = [*gate.where, *((group.field, value) for group in groups if group for value in group.values)]
    _refuse_value(gate, [(name, value) for name, value in pairs if name in sampling.fields], sampling)
    option = ",".join(gate.fields)
    names = [f for f in gate.fields if f not in sampling.fields and plain_field(f) not in sampling.fields]
    missing = f"the result holds no field {' and '.join(map(repr, names))}"
    if not names:
        missing = f"the queries of the result are not sliced by {option}"
    advice = f"evaluate with queries= and by={option!r} (--queries FILE --by {quote(option)})"
    raise InputError(f"gate '{gate}': {missing}; {advice}").about(gate)


def refuse_absent_value(gate: Gate, sampling: Sampling) -> None:
    """Refuse a gate on a segment that no query of the table is in, with the values that there are."""
    if not gate.where or any(f not in sampling.fields for f, _ in gate.where) or find_members(gate, sampling):
        return
    _refuse_value(gate, gate.where, sampling)
    raise InputError(f"gate '{gate}': no query has {_where_text(gate)}").about(gate)


def _refuse_value(gate: Gate, pairs: Sequence[tuple[str, str]], sampling: Sampling) -> None:
    """Refuse a gate one of whose values no query of the table has."""
    known = {name: values_of(sampling.fields[name]) for name, _ in pairs}
    if absent := describe_absent_value(pairs, known):
        raise InputError(f"gate '{gate}': {absent}").about(gate)


def explain_short_stage(gate: Gate, run: RunResult) -> str:
    """Why a figure of the first stage is not judged at a cutoff deeper than that stage's lists; "" where it is."""
    measure = parse(gate.metric)
    if run.components is None or measure.metric.name != "retriever" or measure.k is None or gate.any_depth:
        return ""
    deepest = run.components.retriever.counts.get("deepest", math.inf)
    if measure.k <= deepest:
        return ""
    return (
        f"lists of the first stage end at rank {deepest:,}, so {gate.metric} counts nothing below it; "
        "retrieve deeper lists, or add `at any depth` to the gate"
    )


def find_members(gate: Gate, sampling: Sampling) -> set[str]:
    """The queries of the table that a gate speaks of; a value is first looked up as it is written, then in any case."""
    for fold in (str, str.casefold):
        parts = [
            {
                q
                for q, v in sampling.fields.get(f, {}).items()
                if fold(value) in map(fold, (v,) if isinstance(v, str) else v)
            }
            for f, value in gate.where
        ]
        if members := set.intersection(*parts):
            return members
    return set()


def _where_text(gate: Gate) -> str:
    return " and ".join(condition_text(field, value) for field, value in gate.where)


def keep_every_look(gate: Gate, evidence: GateEvidence, units: Units) -> GateEvidence:
    """The evidence without an interval that does not hold at every look, and why there is none.

    A total of these queries, a gate at the mean and identical lists are judged without an interval.
    """
    if evidence.method == BETTING:  # how many more queries would decide is not foretold
        return replace(evidence, deviation=math.nan)
    judged_without = gate.at_mean or evidence.kind == "total" or evidence.same_lists
    alone = evidence.method == "none" and evidence.kind != "quantile"
    if judged_without or evidence.missing or alone or evidence.units < evidence.minimum:
        return evidence
    without = replace(evidence, low=math.nan, high=math.nan, fail_low=math.nan, fail_high=math.nan, method="none")
    return replace(without, missing=_explain_no_interval(gate, evidence, units))


def _explain_no_interval(gate: Gate, evidence: GateEvidence, units: Units) -> str:
    if evidence.method == CONTRADICTION:
        return "queries added on different days contradict each other: no value fits all of them"
    least, most = evidence.statistic.score_bounds()
    if evidence.method == POOLED:
        what = "pooled segments"
    elif is_component_figure(parse(gate.metric)):
        what = "this figure"
    elif evidence.statistic.aggregate == "quantile":
        what = "a quantile"
    elif not math.isfinite(most - least):
        what = "a mean without bounds"
    else:
        what = unequal_text(units)
    return f"sequential: no interval of {what} holds at every look"
