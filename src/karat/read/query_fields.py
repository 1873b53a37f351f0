"""The fields of queries that the parts of a pipeline are measured against, checked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from karat.errors import shown
from karat.model.queries import yes_or_no
from karat.read.objects import text_id
from karat.read.problems import Problems

if TYPE_CHECKING:
    from karat.model.queries import Queries


def expected_sources(queries: Queries) -> dict[str, str]:
    """`expected_source` of each query that has it."""
    problems, out = Problems(queries.source), {}
    for q, value in queries.field("expected_source").items():
        source = text_id(value)
        if source is None:
            problems.add(queries.lines.get(q), f"query {shown(q)}: expected_source must be text, found {shown(value)}")
        else:
            out[q] = source
    problems.check()
    return out


def retrieval_needs(queries: Queries) -> dict[str, bool]:
    """`needs_retrieval` of each query that has it."""
    problems, out = Problems(queries.source), {}
    for q, value in queries.field("needs_retrieval").items():
        needed = yes_or_no(value)
        if needed is None:
            problems.add(
                queries.lines.get(q), f"query {shown(q)}: needs_retrieval must be true or false, found {shown(value)}"
            )
        else:
            out[q] = needed
    problems.check()
    return out


def id_lists(queries: Queries, name: str) -> dict[str, tuple[str, ...]]:
    """A field that is a list of ids; in a table of text it is written as JSON."""
    problems, out = Problems(queries.source), {}
    for q, value in queries.field(name).items():
        ids = id_list(value)
        if ids is None:
            problems.add(queries.lines.get(q), f"query {shown(q)}: {name} must be a list of ids, found {shown(value)}")
        else:
            out[q] = ids
    problems.check()
    return out


def id_list(value: Any) -> tuple[str, ...] | None:
    """The ids of a list, each once; None if it is not a list of ids."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if hasattr(value, "tolist"):  # an array of a Parquet column
        value = value.tolist()
    if not isinstance(value, (list, tuple, set, frozenset)):
        return None
    ids = [text_id(i) for i in value]
    return None if None in ids else tuple(dict.fromkeys(i for i in ids if i is not None))
