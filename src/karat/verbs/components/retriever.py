"""The raw retriever: how much of the gold the first stage finds at all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from karat.results.components import Component
from karat.verbs.components.estimator import of_all

if TYPE_CHECKING:
    from karat.verbs.components.inputs import Material

METRICS = ("recall@50", "recall@100", "mrr@50")


def measure(material: Material) -> Component:
    """recall@50, recall@100 and mrr@50 of the first stage."""
    from karat.verbs.components.inputs import no_log

    log = material.log
    if log is None:
        return Component("retriever", missing=no_log("stages"))
    names = log.stage_names
    stages = [t.stages for t in log.traces.values()]
    with_stages = sum(map(bool, stages))
    if not names:
        counts_text = of_all(0, len(log), "lines", "stages", "")
        return Component("retriever", missing=f"needs `stages` on the log's lines: {counts_text}")
    first = names[0]
    run = material.lists(first, lambda t: t.stages.get(first), absent=True)
    result = material.measure(run, METRICS, policy=replace(material.fixed, missing="skip"))
    deepest = max((len(s.get(first, ())) for s in stages), default=0)
    notes = []
    if without := len(log) - sum(first in s for s in stages):
        notes.append(f"{without} of {len(log)} lines lack stage {first!r} and are left out")
    if deepest < 100:
        notes.append(f"stage {first!r} holds at most {deepest} docs of a query: deeper cutoffs add nothing")
    notes += material.note_absent(material.answerable, "empty lists")
    return Component(
        "retriever",
        figures={name: result.intervals[name] for name in METRICS},
        counts={"queries": result.counts["queries"], "lines_with_stages": with_stages, "deepest": deepest},
        tables={"stage": first},
        notes=tuple(notes),
    )
