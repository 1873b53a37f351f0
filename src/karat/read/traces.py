"""Run logs, read for what each part of the pipeline did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from karat.errors import InputError, shown
from karat.model.traces import Trace, Traces
from karat.read.exact import Problems
from karat.read.jsonl import Item, Line, item_id, log_lines, ordered_items  # noqa: TC001 (msgspec looks Item up)
from karat.read.objects import text_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karat.model.policy import Policy


class PipelineLine(Line):
    """A line with what the parts of the pipeline did; the values are checked where they are collected."""

    topk_original: list[Item] | None = None
    route: Any = None
    retrieved: Any = None
    query: Any = None
    rewritten_query: Any = None
    entities: Any = None


def read_traces(path: str, name: str, policy: Policy, stdin: bytes | None = None) -> Traces:
    """Every line of a run log."""
    problems = Problems(path)
    lines: dict[str, Trace] = {}
    parents: dict[str, str] = {}
    for number, _, query, line in log_lines(path, problems, stdin, PipelineLine):
        assert isinstance(line, PipelineLine)
        if line.topk is None:
            problems.add(number, "no topk; expected a list of results (an empty list for none)")
            continue
        items = ordered_items(line.topk, number, problems, policy)
        first = None if line.topk_original is None else ordered_items(line.topk_original, number, problems, policy)
        if items is None or (first is None and line.topk_original is not None):
            continue
        for item in (*items, *(first or ())):
            doc, parent = item_id(item), text_id(item.doc_id)
            if doc is not None and parent is not None:
                parents[doc] = parent
        lines[query] = Trace(
            final=_ids(items),
            scores=tuple(None if i.score is None else float(i.score) for i in items),
            stages={
                stage: _listed(number, f"stage {shown(stage)}", docs, problems) or ()
                for stage, docs in (line.stages or {}).items()
            },
            route=_text(number, "route", line.route, problems),
            retrieved=_yes_or_no(number, "retrieved", line.retrieved, problems),
            text=_text(number, "query", line.query, problems),
            rewritten=_text(number, "rewritten_query", line.rewritten_query, problems),
            original=None if first is None else _ids(first),
            entities=_listed(number, "entities", line.entities, problems),
        )
    problems.check()
    return Traces(name, path, lines, parents)


def traces_of(lines: Iterable[Mapping[str, Any]], name: str, policy: Policy) -> Traces:
    """The lines of a run log given as dicts."""
    written = []
    for place, line in enumerate(lines, start=1):
        if not isinstance(line, Mapping):
            raise InputError(f"{name}:{place}: expected a dict with query_id and topk, found {shown(line)}")
        try:
            written.append(msgspec.json.encode(dict(line)))
        except (TypeError, ValueError, msgspec.EncodeError) as error:
            raise InputError(f"{name}:{place}: cannot be written as JSON ({error}); expected plain data") from None
    return read_traces(name, name, policy, b"\n".join(written))


def _ids(items: Sequence[Item]) -> tuple[str, ...]:
    return tuple(item_id(i) or "" for i in items)


def _text(line: int, field: str, found: Any, problems: Problems) -> str | None:
    if found is None or isinstance(found, str):
        return found or None
    problems.add(line, f"{field} must be text, found {shown(found)}")
    return None


def _yes_or_no(line: int, field: str, found: Any, problems: Problems) -> bool | None:
    if found is None or isinstance(found, bool):
        return found
    problems.add(line, f"{field} must be true or false, found {shown(found)}")
    return None


def _listed(line: int, field: str, found: Any, problems: Problems) -> tuple[str, ...] | None:
    if found is None:
        return None
    if not isinstance(found, list):
        problems.add(line, f"{field} must be a list of ids, found {shown(found)}")
        return None
    ids = [text_id(i) for i in found]
    if None in ids:
        problems.add(line, f"{field}: an id must be text or an integer, found {shown(found[ids.index(None)])}")
        return None
    return tuple(i for i in ids if i is not None)
