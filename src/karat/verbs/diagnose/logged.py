"""The parts of a run log that a diagnosis looks at beside its results: every stage's list, and the routes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from karat.model.policy import parent_of
from karat.model.run import OrderedLists, Run
from karat.read.exact import Problems
from karat.read.jsonl import Line, is_run_log, log_lines
from karat.read.layout import head_of
from karat.read.objects import text_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.model.policy import Policy

RAW_NAMES = ("retrieve", "retriever", "retrieval", "search")
RERANK_NAMES = ("rerank", "reranker", "reranking")


class RoutedLine(Line):
    """A line of a run log with the source that its query was sent to."""

    route: Any = None


@dataclass(frozen=True)
class Stages:
    """What a run log says of the way to its results; empty for any other run."""

    lists: Mapping[str, Mapping[str, list[str]]] = field(default_factory=dict)
    """By stage, in the order of the pipeline, and query."""
    routes: Mapping[str, str] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    """The doc of each chunk that the results name."""

    @property
    def raw(self) -> str | None:
        """The first stage that returns docs."""
        return next((s for s in self.lists if s.lower() in RAW_NAMES), next(iter(self.lists), None))

    @property
    def reranked(self) -> str | None:
        """The stage that orders the pool anew: one of that name, or the last of several."""
        named = next((s for s in self.lists if s.lower() in RERANK_NAMES), None)
        return named or (list(self.lists)[-1] if len(self.lists) > 1 else None)

    def run(self, stage: str, policy: Policy) -> Run:
        """One stage's lists as a run."""
        lists = self.lists[stage]
        parents = {q: [parent_of(i, policy.separator, self.parents) for i in listed] for q, listed in lists.items()}
        return Run(stage, OrderedLists(lists, parents))


def read_stages(run: Any) -> Stages:
    """The stages and routes of a run log; none of what is no run log."""
    if not isinstance(run, (str, os.PathLike)) or run == "-" or not os.path.isfile(run):
        return Stages()
    path = os.fspath(run)
    head = head_of(path)
    if head.lstrip()[:1] != b"{" or not is_run_log(head):
        return Stages()
    lists: dict[str, dict[str, list[str]]] = {}
    routes: dict[str, str] = {}
    parents: dict[str, str] = {}
    problems = Problems(path)
    for number, _, query, line in log_lines(path, problems, kind=RoutedLine):
        for stage, listed in (line.stages or {}).items():
            ids = [text_id(i) for i in listed]
            if None in ids:
                problems.add(number, f"stage {stage!r}: an id must be text or an integer")
            lists.setdefault(stage, {})[query] = [i for i in ids if i is not None]
        route = getattr(line, "route", None)
        if isinstance(route, str):
            routes[query] = route
        for item in line.topk or ():
            chunk, doc = text_id(item.chunk_id), text_id(item.doc_id)
            if chunk is not None and doc is not None:
                parents[chunk] = doc
    problems.check()
    return Stages(lists, routes, parents)
