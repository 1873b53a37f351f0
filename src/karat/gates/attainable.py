"""What gates ask for that the data does not have: values above what the gold allows, segments with enough queries."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import InputError
from karat.gates.basis import choose_basis
from karat.gates.evidence import matching_segments
from karat.gates.units import describe_directions
from karat.metrics.component_figures import is_component_figure, place_of
from karat.metrics.grammar import parse
from karat.metrics.relevance import SWEEP
from karat.results.figures import figure
from karat.results.reading import CLOSE, attainable_value, gains_by_more_gold, queries_without_relevant
from karat.results.remarks import Remark, remarks_of
from karat.results.words import mark_baseline, plural, segment_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
            yield f"gate '{gate}' can never pass: {limit}, even for a perfect order; {_advice(gate, run, rows)}"


def _advice(gate: Gate, run: RunResult, rows: NDArray[np.int64] | None) -> str:
    """What makes a gate attainable: each way is tried on the gold, and named where it does."""
    reached = gate.threshold - CLOSE
    ways = ["lower the threshold"]
    for name in _other_cutoffs(gate.metric):
        best = attainable_value(run, name, rows)
        if best is not None and best >= reached:
            ways.append(f"take another cutoff (the gold allows {figure(name, best).text} of {name})")
            break
    empty = queries_without_relevant(run, rows)
    if empty.any():
        rest = np.flatnonzero(~empty) if rows is None else rows[~empty]
        best = attainable_value(run, gate.metric, rest)
        if best is not None and best >= reached:
            have = "query has" if (count := int(empty.sum())) == 1 else "queries have"
            ways.append(
                f"leave out queries that can only score 0: {count:,} {have} no relevant doc in the gold "
                "(--empty-gold skip, or no_answer in the table of queries)"
            )
    if gains_by_more_gold(run, gate.metric, rows):
        ways.append("judge more docs")
    return ways[0] if len(ways) == 1 else f"{', '.join(ways[:-1])}, or {ways[-1]}"


def _other_cutoffs(metric: str) -> list[str]:
    """The same metric at the usual cutoffs, the nearest first."""
    measure = parse(metric)
    k = measure.k
    if k is None or measure.metric.cutoff == "recall":
        return []
    return [replace(measure, k=other).name for other in sorted(SWEEP, key=lambda o: abs(math.log(o / k))) if other != k]


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
