"""Checks of a `karat.yaml`: that it can be followed, and that there are queries enough for what its gates ask."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import numpy as np

from karat.config.checks import config_options, evaluation_of, runs_of
from karat.config.reading import read_config
from karat.errors import InputError, KaratError, nearest
from karat.gates.language import BASELINE
from karat.metrics.grammar import parse
from karat.read.sources import run_files
from karat.results.pairing import paired
from karat.results.saved import load_baseline
from karat.stats.intervals import clopper_pearson
from karat.stats.power import queries_needed
from karat.verbs.evaluate import evaluate
from karat.verbs.validate.findings import found, many, such_as, twice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karat.config.reading import Read
    from karat.gates.language import Gate
    from karat.results.result import Result, RunResult
    from karat.verbs.validate.findings import Finding
    from karat.verbs.validate.roles import Role


def opened(path: str) -> tuple[Read | None, list[Finding], dict[str, Role | None]]:
    """A config, what is wrong with it, and the files it names with their roles."""
    try:
        read = read_config(path)
    except InputError as error:
        problems = [_split(path, text) for text in error.problems]
        return None, [found("K601", path, text, [place]) for place, text in problems], {}
    findings: list[Finding] = []
    roles: dict[str, Role | None] = {}
    config, data = read.config, read.config.dataset
    named: list[tuple[str, Role, str | None]] = []
    stated = config_options(read)
    if data is not None:
        named = [
            ("qrels", "qrels", read.place(data.qrels)),
            ("queries", "queries", stated.get("queries")),
            ("corpus", "corpus", stated.get("docs")),
        ]
    for key, role, given in named:
        if given is not None:
            _add(given, role, read.at("dataset", key), roles, findings, path)
    runs = config.runs
    listed = list(runs.values()) if isinstance(runs, dict) else [runs] if isinstance(runs, str) else list(runs or ())
    for given in listed:
        try:
            matching = list(run_files([read.place(given)]).values())
        except InputError as error:
            findings.append(found("K602", path, str(error), [read.at("runs")]))
            continue
        for one in matching:
            _add(one, "run", read.at("runs"), roles, findings, path)
    _check_baseline(read, _names(read), findings)
    return read, findings, roles


def _names(read: Read) -> list[str]:
    try:
        return list(runs_of(read))
    except InputError:  # told already
        return []


def _split(path: str, text: str) -> tuple[str, str]:
    """The place and the rest of a problem that begins with `file:line: `."""
    rest = text.removeprefix(path)
    line, colon, told = rest.removeprefix(":").partition(": ")
    return (f"{path}:{line}", told) if colon and line.isdecimal() else (path, rest.removeprefix(": "))


def _add(
    path: str, role: Role, place: str, roles: dict[str, Role | None], findings: list[Finding], config: str
) -> None:
    if not os.path.exists(path):
        findings.append(found("K602", config, f"{path} is not there", [place]))
        return
    same = next((p for p in roles if os.path.samefile(p, path)), path)
    before = roles.setdefault(same, role)
    if before is not None and before != role:
        findings.append(twice(config, before, role, place))


def _check_baseline(read: Read, names: list[str], findings: list[Finding]) -> None:
    """A baseline that is a file must be there, and be what `karat bless` wrote."""
    given = read.config.baseline
    if given is None or given in names:
        return
    path, place = read.place(given), read.at("baseline")
    try:
        load_baseline(path)
    except KaratError as error:
        told = str(error).removeprefix(f"{path}: ")
        if os.path.exists(path):
            findings.append(found("K603", read.path, f"baseline {path} {told}", [place]))
            return
        near = nearest(given, names)
        hint = f"; did you mean the run {near!r}?" if near else ""
        make = "Make it with `karat bless`, or name a run."
        findings.append(found("K602", read.path, f"baseline {path}: {told}{hint}", [place], fix=make))


def check_config(read: Read) -> Iterator[Finding]:
    """Whether the config can be followed, and whether its gates can be decided with these queries."""
    gates = read.config.gates
    if not gates:
        yield found("K604", read.path, "there are no gates", [read.path])
    elif all(gate.level == "warn" for gate in gates):
        yield found("K605", read.path, "every gate is at level warn, so the verdict is always SHIP", [read.at("gates")])
    if read.config.dataset is None or read.config.runs is None:
        return
    try:
        asked = evaluation_of(read, gates)
        result = evaluate(asked.qrels, asked.runs, asked.measures, settings=asked.settings)
    except KaratError as error:
        for problem in str(error).splitlines():
            place, told = _split(read.path, problem)
            yield found("K603", read.path, told, [place])
        return
    names = [r.name for r in result.runs]
    base = _baseline(read, result)
    judged = read.config.candidate or [n for n in names if base is None or n != base.name]
    for number, gate in enumerate(gates):
        place = read.at("gates", number)
        if told := _nowhere(gate, result.runs[0]):
            yield found("K606", read.path, told, [place])
            continue
        for name in judged:
            if name not in names or gate.run not in (None, name) or gate.against == name:
                continue
            if told := too_few(gate, result[name], _other(gate, result, base)):
                yield found("K610", read.path, told, [place])
                break


def _baseline(read: Read, result: Result) -> RunResult | None:
    given = read.config.baseline
    if given is None:
        return None
    if given in [r.name for r in result.runs]:
        return result[given]
    try:
        return load_baseline(read.place(given)).runs[0]
    except KaratError:
        return None


def _other(gate: Gate, result: Result, base: RunResult | None) -> RunResult | None:
    if gate.against in (None, BASELINE):
        return base if gate.against == BASELINE else None
    return next((r for r in result.runs if r.name == gate.against), None)


def _nowhere(gate: Gate, run: RunResult) -> str:
    """That no query has the values that a gate asks for, with the nearest that there are; or nothing."""
    slices = [s for s in run.sampling.segments(run.query_ids) if tuple(s.by) == gate.fields] if gate.where else []
    if not gate.where or any(all(s.by[f].casefold() == v.casefold() for f, v in gate.where) for s in slices):
        return ""
    sought = " and ".join(f"{f} = {v}" for f, v in gate.where)
    for field, value in gate.where:
        known = sorted({s.by[field] for s in slices})
        if value.casefold() not in map(str.casefold, known):
            near = nearest(value, known)
            hint = f"did you mean {near!r}?" if near else f"there are {such_as(known, 8)}"
            return f"'{gate}': no query has {field} = {value}; {hint}"
    return f"'{gate}': no query has {sought}"


def too_few(gate: Gate, run: RunResult, base: RunResult | None) -> str:
    """Why a gate cannot be decided with these queries however good the run is, and how many it takes; or nothing."""
    sampling = run.sampling
    minimum = gate.least or sampling.minimum
    for segment in (
        [s for s in sampling.segments(run.query_ids) if tuple(s.by) == gate.fields] if gate.fields else [None]
    ):
        if segment is not None and any(segment.by[f].casefold() != v.casefold() for f, v in gate.where):
            continue
        n = len(segment.rows) if segment is not None else len(run.query_ids)
        if segment is not None and n < minimum and gate.least is None:
            return f"'{gate}': {segment.name} has {many(n, 'query', 'queries')}, and it takes {minimum} to be judged"
        if gate.at_mean or (segment is not None and n < minimum):
            continue
        rows = segment.rows if segment is not None else np.arange(n)
        needed, why = _least(gate, run, base, rows, sampling.confidence)
        if needed > n:
            where = f" where {segment.name}" if segment is not None else ""
            have = many(n, "query", "queries")
            return f"'{gate}': {why} takes about {needed:,} queries, and there are {have}{where}"
    return ""


def _least(gate: Gate, run: RunResult, base: RunResult | None, rows: np.ndarray, confidence: float) -> tuple[int, str]:
    """The queries without which the gate cannot pass, or passes too rarely, and for what."""
    measure = parse(gate.metric)
    if gate.against is not None:
        if base is None or gate.metric not in base.values or measure.aggregate == "quantile":
            return 0, ""
        if gate.kind.key != "no_worse_than" or gate.value == 0:
            return 0, ""
        both = paired(base, run, [gate.metric])
        chosen = {run.query_ids[i] for i in rows}
        kept = [i for i, q in enumerate(both.query_ids) if q in chosen]
        moved = both.contrast()[0][kept]
        moved = moved[~np.isnan(moved)]
        margin = gate.value * float(np.nanmean(both.base[0])) if gate.relative else gate.value
        spread = float(moved.std(ddof=1)) if len(moved) > 1 else 0.0
        if spread == 0 or margin <= 0:
            return 0, ""
        return queries_needed(margin, spread, alpha=1 - confidence) or 0, "to show that a run that is as good passes"
    if measure.aggregate == "quantile":
        tail = (1 - confidence) / 2
        share = measure.quantile if gate.op.startswith("<") else 1 - measure.quantile
        return math.ceil(math.log(tail) / math.log(share)), f"a bound of {gate.metric}"
    if measure.metric.binary and gate.op in (">=", ">") and 0 < gate.threshold < 1:
        n = 2
        while clopper_pearson(n, n, confidence)[0] < gate.threshold:
            n += max(1, n // 50)
        return n, "to pass even if every query succeeds"
    return 0, ""
