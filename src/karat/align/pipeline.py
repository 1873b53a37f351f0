"""The queries that pipeline metrics are about, with gold or without, and the outcome of each."""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from karat.align import find
from karat.align.gold import unjudged_queries
from karat.errors import InputError, UsageError
from karat.metrics.grammar import LARGEST
from karat.metrics.pipeline import GATE, PIPELINE, ROUTER, gating, is_of_pipeline, routing
from karat.model.items import Items
from karat.model.rankings import Rankings
from karat.model.run import OrderedLists
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from karat.metrics.grammar import Measure
    from karat.model.policy import Policy
    from karat.model.queries import Queries
    from karat.model.run import Run
    from karat.model.run_log import RunLog

T = TypeVar("T")


@dataclass(frozen=True)
class PipelineExpectations:
    """What is expected of the pipeline for each query, and the measures that need it."""

    measures: tuple[Measure, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    retrieval_needs: Mapping[str, bool] = field(default_factory=dict)
    no_answer: tuple[str, ...] = ()

    @staticmethod
    def of(measures: Sequence[Measure], queries: Queries | None) -> PipelineExpectations:
        """The fields of the queries that these measures need."""
        from karat.read import query_fields

        mine = tuple(m for m in measures if is_of_pipeline(m.metric))
        fields = {name for m in mine for name in m.metric.needs}
        sources = query_fields.expected_sources(queries) if queries is not None and ROUTER[1] in fields else {}
        needs = query_fields.retrieval_needs(queries) if queries is not None and GATE[1] in fields else {}
        no_answer = tuple(queries.no_answer) if queries is not None and "no_answer" in fields else ()
        for name, values in ((ROUTER[1], sources), (GATE[1], needs), ("no_answer", no_answer)):
            if name in fields and not values:
                first = next(m.name for m in mine if name in m.metric.needs)
                text = f"{first} needs queries with a field {name}; give a table of queries that has it"
                raise UsageError(text).about(first)
        return PipelineExpectations(mine, sources, needs, no_answer)

    def rankings(self, run: Run, policy: Policy) -> Rankings | None:
        """The outcomes of all queries that are asked about, in a ranking of their own."""
        if not self.measures:
            return None
        ids = sorted({*self.sources, *self.retrieval_needs, *self.no_answer})
        rows: dict[str, list[float]] = {n: [math.nan] * len(ids) for n in (*routing(None, ""), *gating(True, True))}
        routes = self._decisions(run, ROUTER[0], lambda log: log.routes)
        retrieved = self._decisions(run, GATE[0], lambda log: log.retrieved)
        lists = run.content.lists if isinstance(run.content, OrderedLists) else {}
        for i, q in enumerate(ids):
            outcomes: dict[str, float] = {}
            if q in self.sources and (q in lists or policy.missing == "zero"):
                outcomes |= routing(routes.get(q), self.sources[q])
            if q in self.retrieval_needs and q in retrieved:
                outcomes |= gating(retrieved[q], self.retrieval_needs[q])
            for name, value in outcomes.items():
                rows[name][i] = value
        none, empty = np.zeros(0, dtype=np.int64), np.zeros(0)
        log = {PIPELINE: {name: np.array(row) for name, row in rows.items()}}
        items, returned = self._items(run, policy, ids)
        return Rankings(ids, none, none, empty, returned, none, empty, items=items, log=log)

    def _decisions(self, run: Run, part: str, read: Callable[[RunLog], Mapping[str, T]]) -> Mapping[str, T]:
        """What a part of the pipeline decided for each query, where a measure needs it."""
        first = next((m.name for m in self.measures if part in m.metric.needs), None)
        if first is None:
            return {}
        decisions = {} if run.log is None else read(run.log)
        if not decisions:
            text = f"run {run.name!r} has no {part}: {first} needs a run log with {part} on its lines"
            raise InputError(text).about(first)
        return decisions

    def _items(self, run: Run, policy: Policy, ids: Sequence[str]) -> tuple[Items | None, Any]:
        """The scores of what queries without an answer got; −1 returned for those that the run lacks."""
        returned = np.full(len(ids), -1, dtype=np.int64)
        if not self.no_answer:
            return None, returned
        cuts = [m.k for m in self.measures if "scores" in m.metric.needs]
        depth = LARGEST if None in cuts else int(max(k for k in cuts if k))
        gold = unjudged_queries(self.no_answer)
        hits = find(gold, run, replace(policy.without_gold(), level="chunk"), keep_items=depth)[0]
        place = {q: i for i, q in enumerate(ids)}
        query, rank, score = [], [], []
        for i, q in enumerate(gold.query_ids):
            if hits.returned[i] < 0:
                continue
            top = hits.items.get(i, [])
            returned[place[q]] = len(top)
            query += [place[q]] * len(top)
            rank += list(range(1, len(top) + 1))
            score += [math.nan if item.score is None else float(item.score) for item in top]
        if score and all(s != s for s in score):
            first = next(m.name for m in self.measures if "scores" in m.metric.needs)
            text = f"run {run.name!r} has no scores on the items of no_answer queries: {first} needs them"
            raise InputError(text).about(first)
        unknown = np.full(len(score), math.nan)
        return Items(
            np.array(query, dtype=np.int64),
            np.array(rank, dtype=np.int64),
            np.ones(len(score), dtype=bool),
            unknown,
            np.full(len(ids), math.nan),
            score=np.array(score, dtype=np.float64),
        ), returned
