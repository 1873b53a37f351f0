"""Queries that metrics of the pipeline are about, with gold or without, and what became of each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import InputError, UsageError
from karat.metrics.pipeline import GATE, PIPELINE, ROUTER, gating, routing
from karat.model.rankings import Rankings
from karat.model.run import OrderedLists

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from karat.model.policy import Policy
    from karat.model.queries import Queries
    from karat.model.run import Run


@dataclass(frozen=True)
class Asked:
    """What is expected of the pipeline for each query."""

    sources: Mapping[str, str] = field(default_factory=dict)
    needing: Mapping[str, bool] = field(default_factory=dict)

    @staticmethod
    def of(parts: Collection[str], queries: Queries | None, first: Callable[[str], str]) -> Asked:
        """The fields of the queries that these parts need; `first` names the measure that needs one."""
        from karat.ingest import query_fields

        found: dict[str, Any] = {}
        readers: dict[str, Callable[[Queries], Any]] = {ROUTER[1]: query_fields.sources, GATE[1]: query_fields.needing}
        for name, read in readers.items():
            if name not in parts:
                continue
            found[name] = read(queries) if queries is not None else {}
            if not found[name]:
                raise UsageError(
                    f"{first(name)} needs queries with a field {name}; give a table of queries that has it"
                )
        return Asked(found.get(ROUTER[1], {}), found.get(GATE[1], {}))

    def rankings(self, run: Run, policy: Policy, first: Callable[[str], str]) -> Rankings | None:
        """The outcomes of all queries that are asked about, in a ranking of their own."""
        if not self.sources and not self.needing:
            return None
        for part, used in ((ROUTER[0], self.sources), (GATE[0], self.needing)):
            if used and not run.log.get(part):
                raise InputError(
                    f"run {run.name!r} has no {part}: {first(part)} needs a run log with {part} on its lines"
                )
        logged = run.content.lists if isinstance(run.content, OrderedLists) else {}
        ids = sorted({*self.sources, *self.needing})
        routes = {q: source for source, queries in run.log.get(ROUTER[0], {}).items() for q in queries}
        retrieved = run.log.get(GATE[0], {}).get(GATE[0], {})
        rows: dict[str, list[float]] = {}
        for i, q in enumerate(ids):
            outcomes: dict[str, float] = {}
            if q in self.sources and (q in logged or policy.missing == "zero"):
                outcomes |= routing(routes.get(q), self.sources[q])
            if q in self.needing and q in retrieved:
                outcomes |= gating(bool(retrieved[q]), self.needing[q])
            for name, value in outcomes.items():
                rows.setdefault(name, [math.nan] * len(ids))[i] = value
        for name in (*routing(None, ""), *gating(True, True)):
            rows.setdefault(name, [math.nan] * len(ids))
        none, empty = np.zeros(0, dtype=np.int64), np.zeros(0)
        log = {PIPELINE: {name: np.array(row) for name, row in rows.items()}}
        return Rankings(ids, none, none, empty, np.zeros(len(ids), dtype=np.int64), none, empty, log=log)
