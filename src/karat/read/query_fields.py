"""Fields of queries that say more than text: dates, ids, yes or no; each checked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from karat.errors import shown
from karat.model.dates import A_DATE, day_of
from karat.model.queries import yes_or_no
from karat.read.objects import text_id
from karat.read.problems import Problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from karat.model.queries import Queries


Value = TypeVar("Value")


def read_field(
    queries: Queries, name: str, parse: Callable[[object], Value | None], expectation: str
) -> dict[str, Value]:
    """One field of the queries that have it; a value that `parse` makes nothing of is an error."""
    problems, out = Problems(queries.source), {}
    for q, value in queries.field(name).items():
        content = parse(value)
        if content is None:
            problems.add(queries.lines.get(q), f"query {shown(q)}: {name} {expectation}, found {shown(value)}")
        else:
            out[q] = content
    problems.check()
    return out


def expected_sources(queries: Queries) -> dict[str, str]:
    """`expected_source` of each query that has it."""
    return read_field(queries, "expected_source", text_id, "must be text")


def retrieval_needs(queries: Queries) -> dict[str, bool]:
    """`needs_retrieval` of each query that has it."""
    return read_field(queries, "needs_retrieval", yes_or_no, "must be true or false")


def id_lists(queries: Queries, name: str) -> dict[str, tuple[str, ...]]:
    """A field that is a list of ids; in a table of text it is written as JSON."""
    return read_field(queries, name, id_list, "must be a list of ids")


def day_field(queries: Queries, name: str) -> dict[str, float]:
    """A field that is a date, such as as_of."""
    return read_field(queries, name, day_of, A_DATE)


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
