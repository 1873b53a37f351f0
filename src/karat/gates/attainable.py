"""What gates ask for that the data does not have: values above what the gold allows, segments with enough queries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from karat.errors import InputError
from karat.gates.basis import choose_basis
from karat.gates.evidence import matching_segments
from karat.gates.units import describe_directions
from karat.metrics.component_figures import is_component_figure, place_of
from karat.metrics.grammar import parse
from karat.results.figures import figure
from karat.results.reading import CLOSE, attainable_value
from karat.results.remarks import Remark, remarks_of
from karat.results.words import mark_baseline, plural, segment_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from karat.gates.gate import Gate
    from karat.gates.judge import JudgedGate
    from karat.results.result import Result, RunResult


def refuse_impossible(
    gates: Sequence[Gate], result: Result, candidates: Sequence[str], places: Mapping[str, str]
) -> None:
    """An input error for a gate above what the gold allows: it would block every system for ever.

    `places` say where gates stand, for the message.
    """
    problems: dict[str, None] = {}
    for gate in (end for each in gates for end in each.ends):
        if gate.against is not None or gate.op not in (">", ">="):
            continue
        for name in candidates:
            if gate.run not in (None, name) or gate.metric not in result[name].values:
                continue
            if choose_basis(gate, result[name]) in (None, "none"):  # a judge may find more than the gold has
                at = f"{places[str(gate)]}: " if str(gate) in places else ""
                problems.update((at + problem, None) for problem in _find(gate, result[name]))
    if problems:
        raise InputError(problems)


def _find(gate: Gate, run: RunResult) -> Iterator[str]:
    for where, rows in _places(gate, run):
        best = attainable_value(run, gate.metric, rows)
        if best is not None and best == best and best < gate.threshold - CLOSE:
            limit = f"the gold allows at most {figure(gate.metric, best).text}{where}"
            yield f"gate '{gate}' can never pass: {limit}, even for a perfect order; {_advice(gate, run)}"


def _advice(gate: Gate, run: RunResult) -> str:
    """What makes a gate attainable: queries without a relevant doc lower the best value at every cutoff."""
    empty = run.counts.get("empty_gold", 0) if run.policy.empty_gold == "zero" else 0
    if empty:
        have = "query has" if empty == 1 else "queries have"
        return (
            f"lower the threshold, or leave out queries that can only score 0: {empty:,} {have} no relevant doc in the "
            "gold (--empty-gold skip, or no_answer in the table of queries)"
        )
    cutoff = "choose another cutoff, " if parse(gate.metric).k is not None else ""
    return f"lower the threshold, {cutoff}or judge more docs"


def _places(gate: Gate, run: RunResult) -> Iterator[tuple[str, NDArray[np.int64] | None]]:
    if not gate.fields:
        yield "", None
        return
    for segment in matching_segments(gate, run.sampling.segments(run.query_ids)):
        if len(segment.rows) >= (gate.least or run.sampling.minimum):
            yield f" where {segment_text(segment.by)}", segment.rows


def describe_left_out(rows: Sequence[JudgedGate], result: Result) -> list[str]:
    """How many segments each gate leaves out for each run, and which."""
    places: dict[tuple[Gate, str], set[str]] = {}
    for row in rows:
        if row.gate.least is not None:
            places.setdefault((row.gate, row.run), set()).add(row.where)
    out = []
    for (gate, name), judged in places.items():
        run = result[name]
        segments = [segment_text(s.by) for s in matching_segments(gate, run.sampling.segments(run.query_ids))]
        if left_out := [text for text in segments if text not in judged]:
            some = "; ".join(left_out[:3]) + ("; …" if len(left_out) > 3 else "")
            of_run = f"{name}: " if len(result.runs) > 1 else ""
            count = f"{len(left_out):,} of {plural(len(segments), 'segment')}"
            out.append(f"{of_run}gate '{gate}' leaves out {count} with fewer than {gate.least} queries: {some}")
    return out


def _notes_of_components(rows: Sequence[JudgedGate], result: Result) -> dict[str, None]:
    """What is said of the components that gates judge, such as lines that lack a stage."""
    out: dict[str, None] = {}
    for row in rows:
        components, measure = result[row.run].components, parse(row.gate.metric)
        if components is None or not is_component_figure(measure):
            continue
        name = place_of(measure)[0]
        part = next(part for part in components.parts if part.name == name)
        run = f"{row.run}: " if len(result.runs) > 1 else ""
        out.update(dict.fromkeys(f"{run}{name}: {note}" for note in part.notes))
    return out


def remarks_on(
    rows: Sequence[JudgedGate], result: Result, candidates: Sequence[str], base: RunResult | None
) -> tuple[Remark, ...]:
    """What to know of the data behind these judgments: of the runs judged, of the baseline, of the gates.

    Of a baseline from elsewhere only what touches the metrics of this result is said.
    """
    runs = [r for r in result.runs if r.name in candidates or r is base]
    elsewhere = []
    if base is not None and base not in runs:
        values = {m: v for m, v in base.values.items() if m in result.metrics}
        elsewhere = [replace(base, name=mark_baseline(base), values=values)]
    turned = (Remark(text, True, of_gate=True) for text in describe_directions(row.gate for row in rows))
    left_out = (Remark(text, False, of_gate=True) for text in describe_left_out(rows, result))
    of_components = (Remark(text, False, of_gate=True) for text in _notes_of_components(rows, result))
    return (
        *turned,
        *remarks_of(runs, beside=elsewhere, of_more=len(runs) < len(result.runs)),
        *of_components,
        *left_out,
    )
