"""Where a relevant doc that was not returned got lost, for the page and `diagnose`; `funnel.py` counts them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from karat.results.result import RunResult


class Loss(NamedTuple):
    """The last stage that holds a doc, its rank there, and the stage that dropped it (None: the final cut)."""

    stage: str
    rank: int
    dropped_by: str | None

    def __str__(self) -> str:
        end = f"dropped by {self.dropped_by}" if self.dropped_by is not None else "cut from the results"
        return f"rank {self.rank} after {self.stage}, {end}"


def find_loss(run: RunResult, query_id: str, doc: str) -> Loss | None:
    """Where a doc of the gold got lost; None where no stage holds it, or the run is not a run log."""
    trace = run.log.traces.get(query_id) if run.log is not None else None
    if run.log is None or trace is None:
        return None
    by_doc = run.gold_level == "doc"
    names = list(trace.stages)
    for place in reversed(range(len(names))):
        ids = dict.fromkeys(trace.stages[names[place]])
        docs = [run.doc_of(id) for id in ids] if by_doc else list(ids)
        if doc in docs:
            return Loss(names[place], docs.index(doc) + 1, next(iter(names[place + 1 :]), None))
    return None
