"""A run log in a saved document: its traces as columns, and the way there and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from karat.model.json_data import JsonObject
from karat.model.run_log import LogItem, LogProblem, RunLog, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

T = TypeVar("T")
Texts = list[str | None] | UnsetType
Numbers = list[int | None]


class ItemsJson(Struct, forbid_unknown_fields=True, frozen=True):
    """A list of results per query, one list after the other; `listed` is null where a line has none."""

    listed: Numbers
    chunks: Numbers | UnsetType = UNSET
    docs: Numbers | UnsetType = UNSET
    ranks: Numbers | UnsetType = UNSET
    scores: list[float | None] | UnsetType = UNSET
    versions: Texts = UNSET
    sources: Texts = UNSET


class StageJson(Struct, forbid_unknown_fields=True, frozen=True):
    """What each query has after one stage; `listed` is null where a line does not name the stage."""

    name: str
    listed: Numbers
    docs: list[int]


class LogJson(Struct, forbid_unknown_fields=True, frozen=True):
    """A run log, one value per query in the order of `query_ids`; docs are numbers in `docs` of the record."""

    name: str
    query_ids: list[str]
    topk: ItemsJson | UnsetType = UNSET
    topk_original: ItemsJson | UnsetType = UNSET
    stages: list[StageJson] | UnsetType = UNSET
    latency_ms: dict[str, list[float | None]] | UnsetType = UNSET
    cost: dict[str, list[float | None]] | UnsetType = UNSET
    route: Texts = UNSET
    retrieved: list[bool | None] | UnsetType = UNSET
    query: Texts = UNSET
    rewritten_query: Texts = UNSET
    entities: list[list[str] | None] | UnsetType = UNSET
    facts: Annotated[list[JsonObject] | UnsetType, Meta(description="What lines say of the run.")] = UNSET
    fact: Annotated[list[int] | UnsetType, Meta(description="The number of each line's facts.")] = UNSET
    path: str | UnsetType = UNSET
    lines: list[int | None] | UnsetType = UNSET
    problems: list[tuple[int, str, str]] | UnsetType = UNSET


def log_json(log: RunLog, number: Callable[[str], int]) -> LogJson:
    """A run log as columns; `number` gives the number of a doc."""
    traces = list(log.traces.values())
    facts: list[JsonObject] = []
    fact = []
    for trace in traces:
        if not facts or facts[-1] != trace.facts:
            facts.append(trace.facts)
        fact.append(len(facts) - 1)
    stages = [
        StageJson(name, [len(t.stages[name]) if name in t.stages else None for t in traces], ids)
        for name in log.stage_names
        for ids in [[number(d) for t in traces for d in t.stages.get(name, ())]]
    ]
    return LogJson(
        name=log.name,
        query_ids=list(log.traces),
        topk=_items_json([t.topk for t in traces], number),
        topk_original=_items_json([t.topk_original for t in traces], number),
        stages=stages or UNSET,
        latency_ms=_amounts_json([t.latency_ms for t in traces]),
        cost=_amounts_json([t.cost for t in traces]),
        route=_column(t.route for t in traces),
        retrieved=_column(t.retrieved for t in traces),
        query=_column(t.query for t in traces),
        rewritten_query=_column(t.rewritten_query for t in traces),
        entities=_column(None if t.entities is None else list(t.entities) for t in traces),
        facts=facts if any(facts) else UNSET,
        fact=fact if any(facts) else UNSET,
        path=log.path if log.path is not None else UNSET,
        lines=_column(log.lines.get(q) for q in log.traces),
        problems=[(p.line, p.field, p.text) for p in log.problems] or UNSET,
    )


def _column(values: Iterable[T | None]) -> list[T | None] | UnsetType:
    column = list(values)
    return UNSET if all(value is None for value in column) else column


def _items_json(lists: Sequence[Sequence[LogItem] | None], number: Callable[[str], int]) -> ItemsJson | UnsetType:
    if all(items is None for items in lists):
        return UNSET
    items = [item for one in lists for item in one or ()]
    return ItemsJson(
        listed=[None if one is None else len(one) for one in lists],
        chunks=_column(None if i.chunk_id is None else number(i.chunk_id) for i in items),
        docs=_column(None if i.doc_id is None else number(i.doc_id) for i in items),
        ranks=_column(i.rank for i in items),
        scores=_column(i.score for i in items),
        versions=_column(i.doc_version for i in items),
        sources=_column(i.source for i in items),
    )


def _amounts_json(amounts: Sequence[dict[str, float]]) -> dict[str, list[float | None]] | UnsetType:
    keys = dict.fromkeys(key for one in amounts for key in one)
    return {key: [one.get(key) for one in amounts] for key in keys} or UNSET


def read_log(log: LogJson, docs: Sequence[str]) -> RunLog:
    """What `log_json` made; raises ValueError or IndexError where the columns do not fit each other."""
    n = len(log.query_ids)
    columns: dict[str, Sequence[Any]] = {
        "query_id": log.query_ids,
        "topk": _items(log.topk, n, docs),
        "topk_original": _items(log.topk_original, n, docs),
        "stages": _stages(log.stages or (), n, docs),
        "latency_ms": _amounts(log.latency_ms or {}, n),
        "cost": _amounts(log.cost or {}, n),
        "entities": [None if one is None else tuple(one) for one in _known(log.entities, n)],
        **{name: _known(getattr(log, name), n) for name in ("route", "retrieved", "query", "rewritten_query")},
    }
    facts = [log.facts[i] for i in log.fact] if log.facts and log.fact else [{}] * n
    rows = zip(facts, *columns.values(), strict=True)
    traces = {row[0]: Trace(**dict(zip(columns, row, strict=True)), **fact) for fact, *row in rows}
    lines = {q: i for q, i in zip(log.query_ids, _known(log.lines, n), strict=True) if i is not None}
    return RunLog(log.name, traces, log.path or None, lines, tuple(LogProblem(*p) for p in log.problems or ()))


def _known(column: list[T | None] | UnsetType, length: int) -> list[T | None]:
    return [None] * length if column is UNSET else column


def _items(items: ItemsJson | UnsetType, queries: int, docs: Sequence[str]) -> list[tuple[LogItem, ...] | None]:
    if items is UNSET:
        return [None] * queries
    n = sum(count or 0 for count in items.listed)
    ids = [_named(_known(column, n), docs) for column in (items.chunks, items.docs)]
    others = (items.ranks, items.scores, items.versions, items.sources)
    rows = [LogItem(*row) for row in zip(*ids, *(_known(column, n) for column in others), strict=True)]
    return _split(rows, items.listed)


def _stages(stages: Sequence[StageJson], queries: int, docs: Sequence[str]) -> list[dict[str, tuple[str, ...]]]:
    out: list[dict[str, tuple[str, ...]]] = [{} for _ in range(queries)]
    for stage in stages:
        ids = [d for d in _named(stage.docs, docs) if d is not None]
        for trace, one in zip(out, _split(ids, stage.listed), strict=True):
            if one is not None:
                trace[stage.name] = one
    return out


def _amounts(amounts: dict[str, list[float | None]], queries: int) -> list[dict[str, float]]:
    out: list[dict[str, float]] = [{} for _ in range(queries)]
    for key, column in amounts.items():
        for trace, value in zip(out, column, strict=True):
            if value is not None:
                trace[key] = value
    return out


def _named(numbers: Sequence[int | None], docs: Sequence[str]) -> list[str | None]:
    if any(i is not None and i < 0 for i in numbers):
        raise ValueError("expected no number of a doc below 0")
    return [None if i is None else docs[i] for i in numbers]


def _split(rows: Sequence[T], counts: Sequence[int | None]) -> list[tuple[T, ...] | None]:
    """Rows cut into lists of these lengths."""
    out: list[tuple[T, ...] | None] = []
    place = 0
    for count in counts:
        out.append(None if count is None else tuple(rows[place : place + count]))
        place += count or 0
    if place != len(rows):
        raise ValueError(f"expected {place} items, found {len(rows)}")
    return out
