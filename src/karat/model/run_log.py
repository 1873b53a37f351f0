"""A run log: everything that a pipeline wrote about each query: results, stages, times, cost, docs of chunks."""

from __future__ import annotations

import math
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from karat.errors import InputError, Problem
from karat.model.log_names import AMOUNTS, SKIPPED, STAGES, TOTAL
from karat.model.log_steps import add_times, mark_steps
from karat.model.policy import Policy, parent_of
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karat.model.items import Values
    from karat.model.json_data import Json, JsonObject

Facts: TypeAlias = "Mapping[str, Json]"
"""What is stated of a run as a whole, by name: the fields of `RunFacts`, and what other formats say."""

Id = Annotated[str, msgspec.Meta(min_length=1)]
Amount = Annotated[float, msgspec.Meta(ge=0)]


class RunFacts(msgspec.Struct, frozen=True):
    """What a line says of the run as a whole."""

    system: Any = msgspec.UNSET
    index_version: Any = msgspec.UNSET
    chunker: Any = msgspec.UNSET
    embedding_model: Any = msgspec.UNSET
    reranker: Any = msgspec.UNSET
    dataset_version: Any = msgspec.UNSET
    as_of_range: Any = msgspec.UNSET
    code_version: Any = msgspec.UNSET
    k_raw: Any = msgspec.UNSET
    embedding_update_cost: Any = msgspec.UNSET
    index_storage: Any = msgspec.UNSET
    retriever: Any = msgspec.UNSET
    workers: Any = msgspec.UNSET

    @property
    def facts(self) -> JsonObject:
        """The facts that the line states."""
        return {name: value for name in FACTS if (value := getattr(self, name)) is not msgspec.UNSET}


FACTS = RunFacts.__struct_fields__


class LogItem(msgspec.Struct, frozen=True, gc=False):
    """One entry of a list of results."""

    chunk_id: Id | None = None
    doc_id: Id | None = None
    rank: Annotated[int, msgspec.Meta(ge=1)] | None = None
    score: float | None = None
    doc_version: str | None = None
    source: str | None = None

    @property
    def id(self) -> str:
        """The id that was returned: that of the chunk, else that of the doc."""
        return self.chunk_id or self.doc_id or ""


class Trace(RunFacts, frozen=True, kw_only=True):
    """One query's way through the pipeline, as its line has it; None where it does not say."""

    query_id: Id
    topk: tuple[LogItem, ...] | None = None
    """The results in the order of the file: see `ordered_items`."""
    stages: dict[str, tuple[Id, ...]] = {}
    """The ids after each stage, in the order of the stages."""
    latency_ms: dict[str, Amount] = {}
    cost: dict[str, Amount] = {}
    route: str | None = None
    retrieved: bool | None = None
    query: str | None = None
    rewritten_query: str | None = None
    topk_original: tuple[LogItem, ...] | None = None
    """What the original query found, where it was rewritten."""
    entities: tuple[Id, ...] | None = None


class LogProblem(NamedTuple):
    """Something wrong with one field of a line: an error as soon as the field is needed."""

    line: int
    field: str
    text: str


@dataclass(frozen=True, eq=False)
class RunLog:
    """A run log, query by query."""

    name: str
    traces: Mapping[str, Trace]
    path: str | None = None
    """The file; None where the log did not come from one."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line of each query, for messages."""
    problems: tuple[LogProblem, ...] = ()

    def __len__(self) -> int:
        return len(self.traces)

    def __repr__(self) -> str:
        return f"RunLog({self.name!r}, {len(self):,} queries)"

    def check(self, *fields: str) -> None:
        """Raise what is wrong with these fields, if anything is."""
        self.refuse((p.line, p.text) for p in self.problems if p.field in fields)

    def refuse(self, problems: Iterable[tuple[int | None, str]]) -> None:
        """Raise problems by line, if there are any."""
        source = self.path or self.name
        if wrong := [Problem(source, line, text) for line, text in problems]:
            raise InputError(wrong)

    @cached_property
    def facts(self) -> Facts:
        """What the lines say of the run as a whole; a list of values where they differ."""
        return merge_facts(fact for trace in self.traces.values() for fact in trace.facts.items())

    @cached_property
    def stage_names(self) -> tuple[str, ...]:
        """The stages in the order in which the lines name them; a stage that few lines have stands where they do."""
        order: list[str] = []
        for names in dict.fromkeys(tuple(trace.stages) for trace in self.traces.values()):
            place = 0
            for name in names:
                if name in order:
                    place = order.index(name) + 1
                else:
                    order.insert(place, name)
                    place += 1
        return tuple(order)

    @cached_property
    def docs(self) -> Mapping[str, str]:
        """The doc of each chunk for which a line names one: a stage holds ids alone."""
        lists = (items for t in self.traces.values() for items in (t.topk, t.topk_original) if items)
        return {item.id: item.doc_id for items in lists for item in items if item.doc_id is not None}

    @cached_property
    def names_docs(self) -> bool:
        """Whether the results have a `doc_id` alone, and never a `chunk_id`: then ids name whole docs."""
        lists = (items for t in self.traces.values() for items in (t.topk, t.topk_original) if items)
        return bool(self.docs) and all(item.chunk_id is None for items in lists for item in items)

    def doc_of(self, chunk: str, separator: str) -> str:
        """The doc that a chunk belongs to: as the log says, else the part of its id before the separator."""
        return parent_of(chunk, "" if self.names_docs else separator, self.docs)

    def amounts(self, kind: str) -> Mapping[str, Mapping[str, float]]:
        """Latency or cost as {key: {query: number}}; keys are in lower case, as metrics name them."""
        name = AMOUNTS[kind]
        self.check(name)
        out: dict[str, dict[str, float]] = {}
        for query, trace in self.traces.items():
            for key, value in getattr(trace, name).items():
                out.setdefault(key.lower(), {})[query] = value
        return out

    @cached_property
    def latency(self) -> Mapping[str, Mapping[str, float]]:
        """Milliseconds by stage and query; `total` is the sum where a line names none (`add_times`)."""
        stages = self.amounts("latency")
        if not stages:
            return stages
        steps = {kind: self._columns(marks) for kind, marks in self.steps.items()}
        totals = zip(self.traces, add_times(self._columns(stages), steps).tolist(), strict=True)
        return {**stages, TOTAL: {query: total for query, total in totals if not math.isnan(total)}}

    def _columns(self, values: Mapping[str, Mapping[str, float]]) -> dict[str, Values]:
        """Values by name as columns, a row for each query; NaN where it has none."""
        return {name: np.array([own.get(q, math.nan) for q in self.traces]) for name, own in values.items()}

    @cached_property
    def cost(self) -> Mapping[str, Mapping[str, float]]:
        """What each query cost, by key and query."""
        return self.amounts("cost")

    @cached_property
    def steps(self) -> Mapping[str, Mapping[str, Mapping[str, float]]]:
        """Which steps ran, by kind and name: a 1 for each query whose line says so (`mark_steps`)."""
        out: dict[str, dict[str, dict[str, float]]] = {STAGES: {}, SKIPPED: {}}
        for query, trace in self.traces.items():
            for kind, marks in mark_steps(trace.stages, skipped=trace.retrieved is False).items():
                for name, mark in marks.items():
                    out[kind].setdefault(name.lower(), {})[query] = mark
        return out

    @cached_property
    def routes(self) -> Mapping[str, str]:
        """The source that each query was sent to, for lines that name one."""
        self.check("route")
        return {q: t.route for q, t in self.traces.items() if t.route}

    @cached_property
    def retrieved(self) -> Mapping[str, bool]:
        """Whether retrieval was done (or skipped), for lines that say so.

        Many systems mark skips alone: where any line says so, one that does not, and has results, was not skipped.
        """
        self.check("retrieved")
        marks = {q: True if t.retrieved is None and t.topk else t.retrieved for q, t in self.traces.items()}
        said = any(t.retrieved is not None for t in self.traces.values())
        return {q: mark for q, mark in marks.items() if mark is not None} if said else {}


def merge_facts(facts: Iterable[tuple[str, Json]]) -> Facts:
    """What lines say of the run as a whole; a list of values where they differ."""
    values: dict[str, dict[object, Json]] = {}
    for name, value in facts:
        key = value if isinstance(value, (str, int)) else msgspec.json.encode(value)
        values.setdefault(name, {}).setdefault(key, value)
    several = {name: list(distinct.values()) for name, distinct in values.items()}
    return {name: each[0] if len(each) == 1 else each for name, each in several.items()}


def ordered_items(items: Sequence[LogItem], policy: Policy) -> Sequence[LogItem]:
    """Results by rank where they have ranks, else by score where all have one, else as listed."""
    if not items:
        return items
    if items[0].rank is not None:
        ranks = [item.rank or 0 for item in items]
        return items if ranks == sorted(ranks) else sorted(items, key=lambda item: item.rank or 0)
    scores = [item.score for item in items if item.score is not None]
    if len(scores) < len(items):
        return items
    values = policy.comparable(np.array(scores)).tolist()
    order = sorted(range(len(items)), key=lambda n: (values[n], items[n].id), reverse=True)
    return [items[n] for n in order]


def has_gaps(items: Sequence[LogItem]) -> bool:
    """Whether the ranks of a list in order leave some out."""
    return bool(items) and items[-1].rank is not None and items[-1].rank != len(items)
