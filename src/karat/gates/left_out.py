"""Segments that gates `of at least N` queries leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.gates.evidence import matching_segments
from karat.results.words import plural, segment_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.gates.evidence import JudgedGate
    from karat.gates.language import Gate
    from karat.results.result import Result


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
            some = ", ".join(left_out[:3]) + (", …" if len(left_out) > 3 else "")
            of_run = f"{name}: " if len(result.runs) > 1 else ""
            count = f"{len(left_out):,} of {plural(len(segments), 'segment')}"
            out.append(f"{of_run}gate '{gate}' leaves out {count} with fewer than {gate.least} queries: {some}")
    return out
