"""What a run log says of each query's way through the pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from karat.model.policy import parent_of

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Trace:
    """One query: what each part of the pipeline did; None where the log does not say."""

    final: tuple[str, ...] = ()
    """The docs returned, best first."""
    scores: tuple[float | None, ...] = ()
    stages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Docs after each stage, in the order of the stages."""
    route: str | None = None
    retrieved: bool | None = None
    text: str | None = None
    rewritten: str | None = None
    original: tuple[str, ...] | None = None
    """What the query found before it was rewritten."""
    entities: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Traces:
    """A run log, query by query."""

    name: str
    source: str
    lines: Mapping[str, Trace]
    parents: Mapping[str, str] = field(default_factory=dict)
    """The doc of each chunk for which the log names one."""

    def __len__(self) -> int:
        return len(self.lines)

    def parent(self, doc: str, separator: str) -> str:
        """The doc that a chunk belongs to: as the log says, else the part of its id before the separator."""
        return parent_of(doc, separator, self.parents)

    def stage_names(self) -> tuple[str, ...]:
        """The stages in the order in which the lines name them; a stage that few lines have stands where they do."""
        order: list[str] = []
        for trace in self.lines.values():
            place = 0
            for name in trace.stages:
                if name in order:
                    place = order.index(name) + 1
                else:
                    order.insert(place, name)
                    place += 1
        return tuple(order)
