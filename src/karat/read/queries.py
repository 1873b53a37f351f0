"""Tables of queries and of docs, from files of any format, frames and dicts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, Problem, shown
from karat.model.docs import text_of
from karat.model.queries import Queries, TopicNumber, yes_or_no
from karat.read import frames
from karat.read.columns import DOC_NAMES, QUERIES, column, number_of
from karat.read.files import check_path, open_input
from karat.read.formats import all_formats, read_table_rows, recognise_format
from karat.read.objects import text_id
from karat.read.problems import Problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karat.model.docs import Fields
    from karat.read.columns import FieldRow, TableKind


def read_queries(source: Any) -> Queries:
    """A table of queries from a path, a frame, a dict of fields, or `karat.Queries`."""
    return read_table(source, QUERIES)


def read_queries_of_gold(source: Any, format: str | None = None) -> Queries | None:
    """The queries that a file of gold holds itself; None for formats that hold judgments alone."""
    if not isinstance(source, (str, os.PathLike)) or not os.path.isfile(source):
        return None
    file = open_input(os.fspath(source))
    form = all_formats().get(format) if format is not None else recognise_format(file, "qrels") if file.head else None
    return read_queries(source) if form is not None and form.holds_queries else None


def read_table(source: Any, kind: TableKind) -> Queries:
    """A table of either kind: what is wrong with it is said in the kind's own words."""
    if isinstance(source, Queries):
        return source
    if isinstance(source, Mapping):
        return _from_mapping(source, kind)
    if isinstance(source, (str, os.PathLike)):
        path = check_path(os.fspath(source))
        problems = Problems(path)
        rows = list(read_table_rows(open_input(path), problems, kind))
        problems.check()
        return _by_id(rows, problems, path, kind)
    if frames.is_frame(source):
        rows = list(frames.frame_field_rows(source, kind.source))
        return _by_id(rows, Problems(kind.source), kind.source, kind)
    raise InputError(f"{kind.source}: expected a path, a dict or a data frame, found {type(source).__name__}")


def _from_mapping(source: Mapping[Any, Any], kind: TableKind) -> Queries:
    problems, out = Problems(kind.source), {}
    for id, fields in source.items():
        text = text_id(id)
        if text is None:
            problems.add(None, f"a {kind.noun} id must be text or an integer, found {shown(id)}")
        else:
            out[text] = fields if isinstance(fields, Mapping) else {"text": fields}
            _check_flag(None, text, out[text], problems, kind)
    problems.check()
    return Queries(out, kind.source)


def _check_flag(line: int | None, id: str, fields: Fields, problems: Problems, kind: TableKind) -> None:
    """`no_answer` decides which figures a query counts in: what is neither yes nor no is an error."""
    if kind is QUERIES and yes_or_no(value := fields.get("no_answer")) is None:
        problems.add(line, f"query {shown(id)}: no_answer must be true or false, found {shown(value)}")


def rows_with_ids(
    rows: Iterable[FieldRow], problems: Problems, kind: TableKind = QUERIES
) -> Iterator[tuple[int, str, Fields]]:
    """The rows that have an id: line, id, and the other fields."""
    for line, fields in rows:
        name = next((n for n in kind.id_names if n in fields), None)
        value = fields[name] if name else None
        id = value if isinstance(value, TopicNumber) else text_id(value) if name else None
        if name is not None and id is None:
            problems.add(line, f"{name} must be text or an integer, found {shown(fields[name])}")
        elif id is None:
            problems.add(line, f"no {kind.noun} id; expected one of {', '.join(kind.id_names)}")
        else:
            yield line, id, {n: v for n, v in fields.items() if n != name and n != "metadata"}


def _by_id(rows: Iterable[FieldRow], problems: Problems, source: str, kind: TableKind) -> Queries:
    out: dict[str, Fields] = {}
    lines: dict[str, int] = {}
    written: dict[str, str] = {}
    for line, number, fields in rows_with_ids(rows, problems, kind):
        id = str(number)
        if (other := _other_content(fields, repeated=id in out)) and kind is QUERIES:
            problem = f"this looks like {other}; expected a table of queries, with an id and a text in each row"
            raise InputError(Problem(source, line, problem))
        if id in out:
            problems.add(
                line, f"{kind.noun} {shown(id)} already appears at line {lines[id]}; expected each {kind.noun} once"
            )
        else:
            if isinstance(number, TopicNumber) and number.written != id:
                written[id] = number.written
            lines[id] = line
            out[id] = fields
            _check_flag(line, id, fields, problems, kind)
    problems.check()
    return Queries(out, source, lines, written)


def _other_content(fields: Fields, *, repeated: bool) -> str:
    """What a row is of that belongs to no table of queries; nothing where it may belong to one.

    A line of gold or of a run in TREC's format reads like a text, and only a query that comes again tells.
    """
    if "topk" in fields:
        return "a run log"
    if not repeated:
        return ""
    words = text_of(fields).split()
    trec = len(words) in (3, 4, 5) and number_of(words[2]) is not None
    return "gold or a run" if trec or column(list(fields), DOC_NAMES) is not None else ""
