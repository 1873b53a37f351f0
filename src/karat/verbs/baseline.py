"""The baseline of a check: which run or file it is, under which name, and that no run is compared with itself."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from karat.config.checks import run_names
from karat.errors import InputError, nearest
from karat.results.saved import load_baseline
from karat.results.words import BASELINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.config.reading import Read
    from karat.gates.gate import Gate
    from karat.results.result import Result, RunResult


def find_baseline(read: Read, result: Result) -> str | None:
    """The baseline of a config: the name of a run, or the path of a file."""
    name = read.config.baseline
    if name is None or name in [r.name for r in result.runs]:
        return name
    path = read.place(name)
    if not os.path.exists(path) and "." not in os.path.basename(path):
        names = [r.name for r in result.runs]
        if name in run_names(read):
            holds = f"the saved result does not hold the baseline {name!r}, only {', '.join(names)}"
            detail = f"{holds}; evaluate and save both, or name a file that `karat bless` wrote (--baseline)"
        else:
            near = nearest(name, names)
            hint = f"; did you mean {near!r}?" if near else f"; the runs: {', '.join(names)}"
            detail = f"baseline {name!r} is neither a run of this config nor a file{hint}"
        raise InputError(read.problem(detail, "baseline"))
    return path


def resolve_baseline(
    result: Result, baseline: Result | str | None
) -> tuple[Result | None, RunResult | None, str | None]:
    """The baseline's result, its run, and its file if it came from one."""
    if baseline is None:
        return None, None, None
    if not isinstance(baseline, str):
        return baseline, _rename_twin(baseline.runs[0], result), None
    if baseline in [r.name for r in result.runs]:
        return result, result[baseline], None
    there = load_baseline(baseline)
    base, ours = there.runs[0], result.runs[0].sampling
    # Its intervals are found as those of the runs beside it are.
    own = {n: getattr(base.sampling, n) or getattr(ours, n) for n in ("weights", "conversations")}
    base = replace(base, sampling=replace(ours, by=(), fields={}, **own))
    return there, _rename_twin(base, result), baseline


def check_opponents(gates: Sequence[Gate], candidates: Sequence[str], baseline: str | None) -> None:
    """A run is not compared with itself: such a gate would decide nothing, or pass whatever the run is."""
    if baseline in candidates:
        raise InputError(f"{baseline!r} is the baseline and a candidate; a run is not compared with itself")
    for gate in gates:
        judged = [gate.run] if gate.run is not None else list(candidates)
        if gate.against in judged and set(judged) == {gate.against}:
            raise InputError(f"gate '{gate}': {gate.against!r} would be compared with itself; name another run").about(
                gate
            )


def _rename_twin(base: RunResult, result: Result) -> RunResult:
    """A baseline from elsewhere; one that has the name of a run is called the baseline and nothing else."""
    double = any(run.name == base.name and run is not base for run in result.runs)
    return replace(base, name=BASELINE) if double else base
