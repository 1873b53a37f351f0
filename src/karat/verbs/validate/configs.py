"""Checks of a `karat.yaml`: it fits its data, and there are enough queries for its gates."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.config.checks import (
    bless_command,
    check_gates,
    config_options,
    describe_lack,
    places_of_gates,
    run_names,
    run_places,
)
from karat.config.reading import Read, read_config
from karat.errors import InputError, KaratError, Problem, nearest
from karat.gates.attainable import refuse_impossible
from karat.gates.evidence import Risk, judge_gates
from karat.gates.judge import count_needed_queries
from karat.gates.units import describe_direction
from karat.metrics.component_figures import is_component_figure
from karat.metrics.grammar import parse
from karat.read.sources import run_files
from karat.results.pairing import paired
from karat.results.saved import load_baseline
from karat.results.words import BASELINE, condition_text, independent_text, round_up, segment_text, units_text
from karat.stats.intervals import clopper_pearson
from karat.stats.resample import mean_of
from karat.verbs.check import evaluate_config
from karat.verbs.plan import DEFAULT_RULE, Rule, simulate_equal
from karat.verbs.validate.findings import LintFinding, list_some, make_finding, make_role_conflict, many
from karat.verbs.validate.tables import place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karat.gates.gate import Gate
    from karat.gates.judge import GateEvidence, JudgedGate
    from karat.results.result import Result, RunResult
    from karat.verbs.validate.roles import FileRole


EQUAL_PASSES = "showing that an equally good run passes"


def read_config_files(path: str) -> tuple[Read | None, list[LintFinding], dict[str, FileRole | None]]:
    """A config, what is wrong with it, and the files it names with their roles."""
    try:
        read = read_config(path)
    except InputError as error:
        return None, list(_problem_findings("K601", path, error)), {}
    findings: list[LintFinding] = []
    roles: dict[str, FileRole | None] = {}
    data = read.config.dataset
    files: list[tuple[str, FileRole, str | None]] = []
    options = config_options(read)
    if data is not None:
        files = [
            ("qrels", "qrels", read.place(data.qrels)),
            ("queries", "queries", options.get("queries")),
            ("corpus", "corpus", options.get("docs")),
        ]
    for key, role, file in files:
        if file is not None:
            _add(file, role, read.at("dataset", key), roles, findings, path)
    for run, pattern in run_places(read):
        where = read.at("runs", run)
        try:
            matches = list(run_files([pattern]).values())
        except InputError as error:
            findings.append(make_finding("K602", path, str(error), [where]))
            continue
        for one in matches:
            _add(one, "run", where, roles, findings, path)
    _check_baseline(read, run_names(read), findings)
    return read, findings, roles


def _problem_findings(code: str, path: str, error: KaratError) -> Iterator[LintFinding]:
    """A finding for each problem that an error holds."""
    for problem in error.problems if isinstance(error, InputError) else (str(error),):
        if isinstance(problem, Problem) and problem.file == path:
            yield make_finding(code, path, problem.detail, [place(path, problem.line)])
        else:
            yield make_finding(code, path, problem, [path])


def _add(
    path: str, role: FileRole, where: str, roles: dict[str, FileRole | None], findings: list[LintFinding], config: str
) -> None:
    if not os.path.exists(path):
        findings.append(make_finding("K602", config, f"{path} is missing", [where]))
        return
    same = next((p for p in roles if os.path.samefile(p, path)), path)
    before = roles.setdefault(same, role)
    if before is not None and before != role:
        findings.append(make_role_conflict(config, before, role, where))


def _check_baseline(read: Read, names: list[str], findings: list[LintFinding]) -> None:
    """A baseline that is a file must exist, and be written by `karat bless`."""
    source = read.config.baseline
    if source is None or source in names:
        return
    path, where = read.place(source), read.at("baseline")
    if not os.path.exists(path):
        near = nearest(source, names)
        hint = f"; did you mean the run {near!r}?" if near else ""
        make = f"Make it with `{bless_command(read)}`, or name a run."
        findings.append(make_finding("K602", read.path, f"baseline {path} does not exist{hint}", [where], fix=make))
        return
    try:
        load_baseline(path)
    except KaratError as error:
        reason = str(error).removeprefix(f"{path}: ")
        findings.append(make_finding("K603", read.path, f"baseline {path} {reason}", [where]))


def check_config(read: Read) -> Iterator[LintFinding]:
    """Whether the config fits its data, and whether these queries can decide its gates."""
    gates = read.config.gates
    if not gates:
        yield make_finding("K604", read.path, "has no gates", [read.path])
    elif all(gate.level == "warn" for gate in gates):
        yield make_finding(
            "K605", read.path, "every gate is at level warn, so the verdict is always SHIP", [read.at("gates")]
        )
    for number, gate in enumerate(gates):
        if reason := describe_direction(gate):
            yield make_finding("K607", read.path, reason, [read.at("gates", number)])
    try:
        check_gates(read, gates, compared=read.config.baseline is not None)
    except InputError as error:
        yield from _problem_findings("K603", read.path, error)
    if read.config.dataset is None or read.config.runs is None:
        if gates and read.config.result is None:
            yield make_finding("K601", read.path, describe_lack(read), [read.path])
        return
    try:
        result = evaluate_config(read, gates, None, {})
    except KaratError as error:
        if gate_place := places_of_gates(read, gates).get(error.subject):
            yield make_finding("K603", read.path, str(error), [gate_place])
        else:
            yield from _problem_findings("K603", read.path, error)
        return
    names = [r.name for r in result.runs]
    base = _baseline(read, result)
    candidates = read.config.candidate or [run.name for run in result.runs if run is not base]
    risk = read.config.risk
    rule = Rule(Risk(risk.ship, risk.block) if risk is not None else None, read.config.confidence.correction)
    for number, gate in enumerate(gates):
        where = read.at("gates", number)
        try:
            refuse_impossible([gate], result, [name for name in candidates if name in names], {})
        except InputError as error:
            yield from (make_finding("K603", read.path, problem, [where]) for problem in error.problems)
            continue
        if reason := _explain_missing_segment(gate, result.runs[0]):
            yield make_finding("K606", read.path, reason, [where])
            continue
        for name in candidates:
            if name not in names or gate.run not in (None, name) or gate.against == name or result[name] is base:
                continue
            if reason := explain_shortage(gate, result, result[name], _other(gate, result, base), rule):
                fix = "Log what it needs, or leave the gate out." if is_component_figure(parse(gate.metric)) else None
                yield make_finding("K610", read.path, reason, [where], fix=fix)
                break


def _baseline(read: Read, result: Result) -> RunResult | None:
    source = read.config.baseline
    if source is None:
        return None
    if source in [r.name for r in result.runs]:
        return result[source]
    try:
        return load_baseline(read.place(source)).runs[0]
    except KaratError:
        return None


def _other(gate: Gate, result: Result, base: RunResult | None) -> RunResult | None:
    if gate.against in (None, BASELINE):
        return base if gate.against == BASELINE else None
    return next((r for r in result.runs if r.name == gate.against), None)


def _explain_missing_segment(gate: Gate, run: RunResult) -> str:
    """Why no query is in the segment of a gate, with the nearest value that exists; "" if one is."""
    slices = [s for s in run.sampling.segments(run.query_ids) if tuple(s.by) == gate.fields] if gate.where else []
    if not gate.where or any(all(s.by[f].casefold() == v.casefold() for f, v in gate.where) for s in slices):
        return ""
    condition = " and ".join(condition_text(f, v) for f, v in gate.where)
    for field, value in gate.where:
        values = sorted({s.by[field] for s in slices})
        if value.casefold() not in map(str.casefold, values):
            near = nearest(value, values)
            hint = f"did you mean {near!r}?" if near else f"the values are {list_some(values, 8)}"
            return f"'{gate}': no query has {field} = {value}; {hint}"
    return f"'{gate}': no query has {condition}"


def explain_shortage(
    gate: Gate, result: Result, run: RunResult, base: RunResult | None, rule: Rule = DEFAULT_RULE
) -> str:
    """Why a gate cannot be decided with these queries however good the run is, and how many it needs; "" if it can."""
    sampling, component = run.sampling, is_component_figure(parse(gate.metric))
    if sampling.sequential or component:
        for row in judge_gates([gate], result, [run.name], baseline=base):
            if row.found.missing:
                return f"'{gate}': {row.found.missing}"
    if component:  # over docs, queries or answers, as the figure has it
        return ""
    measured = ~np.isnan(run.values[gate.metric])
    minimum, units = gate.least or sampling.minimum, sampling.units(run.query_ids)
    for segment in (
        [s for s in sampling.segments(run.query_ids) if tuple(s.by) == gate.fields] if gate.fields else [None]
    ):
        if segment is not None and any(segment.by[f].casefold() != v.casefold() for f, v in gate.where):
            continue
        rows = np.flatnonzero(measured) if segment is None else segment.rows[measured[segment.rows]]
        n, effective = len(rows), units.take(rows).effective
        if segment is not None and n and gate.least is None and effective < minimum:
            counted = "" if units.plain else f", which count as {independent_text(effective)}"
            have = many(n, "query", "queries")
            return f"'{gate}': {segment.name} has {have}{counted}; at least {minimum} are needed to judge it"
        if gate.at_mean or (segment is not None and n < minimum):
            continue
        if gate.against is None:
            total, why = max(_count_needed_for_level(end, sampling.confidence) for end in gate.ends)
            if total > n:
                where = f" where {segment.name}" if segment is not None else ""
                have, each = many(n, "query", "queries"), " in each segment" if gate.every else ""
                return f"'{gate}': {why} takes about {round_up(total):,} queries{each}; there are {have}{where}"
    return _explain_margin(gate, result, run, base, rule)


def _explain_margin(gate: Gate, result: Result, run: RunResult, base: RunResult | None, rule: Rule) -> str:
    """Why a run that is just as good as the baseline would hardly pass; "" if it would.

    It is simulated as `karat plan` does. Where that cannot be, and for a gate of several segments, the interval that
    judges is moved to where the change is nothing.
    """
    if base is None or gate.metric not in base.values or parse(gate.metric).aggregate == "quantile":
        return ""
    ends = [end for end in gate.ends if end.against is not None and end.value != 0 and end.written_region.holds(0)]
    if ends and (equal := simulate_equal(gate, result, run, base, rule)) is not None:
        if equal.passes(gate):
            return ""
        needed, have = equal.needed(), units_text(equal.units, equal.unit)
        size = f"about {units_text(round_up(needed), equal.unit)}" if needed is not None else "far more than there are"
        where = f" where {segment_text(dict(gate.where), '=')}" if gate.where else ""
        return f"'{gate}': {EQUAL_PASSES} takes {size}; there are {have}{where}"
    for end in ends:
        for row in judge_gates([end], result, [run.name], baseline=base):
            evidence = _as_good_as_baseline(row, run, base)
            total = None if evidence is None else count_needed_queries(end, evidence)
            if total is not None and total > row.found.n:
                where = f" where {segment_text(row.segment, '=')}" if row.segment else ""
                have = many(row.found.n, "query", "queries")
                each = " in each segment" if gate.every else ""
                return (
                    f"'{gate}': {EQUAL_PASSES} takes about {round_up(total):,} queries{each}; there are {have}{where}"
                )
    return ""


def _as_good_as_baseline(row: JudgedGate, run: RunResult, base: RunResult) -> GateEvidence | None:
    """The evidence of a change as it would be with the same spread and no change; None where nothing tells it.

    Where no query changes, it is the evidence at hand: other queries may still change.
    """
    found, gate = row.found, row.gate
    if found.units < found.minimum or found.missing:
        return None
    if not found.deviation > 0:
        return found if found.estimate == 0 and found.low < 0 < found.high and found.scale != "ratio" else None
    if found.scale == "ratio":
        return _moved(found, 1 / found.estimate, 0.0)
    neutral = 0.0
    if gate.relative:
        both = paired(base, run, [gate.metric])
        slices = [s for s in run.sampling.segments(both.query_ids) if row.segment and s.by == row.segment]
        rows = slices[0].rows if slices else np.arange(len(both.query_ids))
        neutral = gate.value * mean_of(both.base[0][rows], run.sampling.units(both.query_ids).take(rows))
    return _moved(found, 1.0, neutral - found.estimate)


def _moved(found: GateEvidence, factor: float, shift: float) -> GateEvidence:
    """The evidence with its estimate and its interval moved together."""
    estimate, low, high, fail_low, fail_high = (
        factor * value + shift for value in (found.estimate, found.low, found.high, found.fail_low, found.fail_high)
    )
    return replace(found, estimate=estimate, low=low, high=high, fail_low=fail_low, fail_high=fail_high)


def _count_needed_for_level(gate: Gate, confidence: float) -> tuple[int, str]:
    """How many queries the gate needs to pass however good the run is, and what they are needed for."""
    measure = parse(gate.metric)
    if measure.aggregate == "quantile":
        tail = (1 - confidence) / 2
        share = measure.quantile if gate.op.startswith("<") else 1 - measure.quantile
        return math.ceil(math.log(tail) / math.log(share)), f"a bound of {gate.metric}"
    if measure.metric.binary and gate.op in (">=", ">") and 0 < gate.threshold < 1:
        n = 2
        while clopper_pearson(n, n, confidence)[0] < gate.threshold:
            n += max(1, n // 50)
        return n, "passing, even if every query succeeds,"
    return 0, ""
