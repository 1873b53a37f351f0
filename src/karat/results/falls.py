"""What is significantly worse than the baseline: over all queries with its segments, or in segments alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.records import dataclass
from karat.results.words import plural, segment_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karat.results.decisions import Decision

NAMED = 3
"""Segments that a sentence names."""


@dataclass(frozen=True)
class Fall:
    """What is significantly worse than the baseline, and where the same metric fell in segments too."""

    decision: Decision
    segments: tuple[Decision, ...] = ()

    @property
    def statement(self) -> str:
        """In words: the decision, and the segments with the largest falls."""
        if not self.segments:
            return self.decision.statement
        largest = sorted(self.segments, key=lambda d: -abs(d.delta))
        names = "; ".join(segment_text(d.segment) for d in largest[:NAMED])
        more = plural(len(largest) - NAMED, "more segment")
        rest = f"; and in {more}" if len(largest) > NAMED else ""
        return self.decision.state(f"; also where {names}{rest}")


def find_falls(decisions: Iterable[Decision]) -> tuple[Fall, ...]:
    """The falls over all queries with their segments, then those in segments alone."""
    worse = [d for d in decisions if d.outcome == "worse"]
    parts: dict[tuple[str, str], list[Decision]] = {}
    for d in worse:
        if d.segment is not None:
            parts.setdefault((d.candidate, d.metric), []).append(d)
    whole = [Fall(d, tuple(parts.pop((d.candidate, d.metric), ()))) for d in worse if d.segment is None]
    return (*whole, *(Fall(d) for rest in parts.values() for d in rest))
