"""Tables of queries and of docs: BEIR's JSONL, CSV, TSV, Parquet, frames, dicts, and topic files."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, Problem, shown
from karat.model.queries import Queries
from karat.read import frames
from karat.read.columns import DOC_NAMES, QUERY_NAMES
from karat.read.exact import Problems
from karat.read.layout import all_of, checked_path
from karat.read.objects import text_id
from karat.read.sources import head_and_stdin
from karat.read.topics import is_topics, topic_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


@dataclass(frozen=True, slots=True)
class TableKind:
    """What the rows of a table are, and which columns may hold their ids."""

    noun: str
    plural: str
    source: str
    """What a table without a file is called."""
    id_names: tuple[str, ...]


QUERIES = TableKind("query", "queries", "queries", ("_id", "id", *QUERY_NAMES))
DOCS = TableKind("doc", "docs", "corpus", ("_id", "id", "chunk_id", *(n for n in DOC_NAMES if n != "chunk_id")))
"""A corpus of chunks has `chunk_id`, and `doc_id` for the doc that each belongs to."""
ID_NAMES = (*QUERIES.id_names, *DOC_NAMES)

FieldRow = tuple[int, Mapping[str, Any]]
"""A row of a table: its line, and its fields by name."""


def read_queries(source: Any) -> Queries:
    """A table of queries from a path, a frame, a dict of fields, or `karat.Queries`."""
    return read_table(source, QUERIES)


def read_table(source: Any, kind: TableKind) -> Queries:
    """A table of either kind: what is wrong with it is said in the kind's own words."""
    if isinstance(source, Queries):
        return source
    if isinstance(source, Mapping):
        return _from_mapping(source, kind)
    if isinstance(source, (str, os.PathLike)):
        path = checked_path(os.fspath(source))
        problems = Problems(path)
        rows = list(table_rows(path, *head_and_stdin(path), problems, kind))
        problems.check()
        return _by_id(rows, problems, path, kind)
    if frames.is_frame(source):
        connection = frames.connect()
        rows = list(_frame_rows(connection, f"SELECT * FROM {frames.registered(connection, source, kind.source)}"))
        return _by_id(rows, Problems(kind.source), kind.source, kind)
    raise InputError(f"{kind.source}: expected a path, a dict or a data frame, found {type(source).__name__}")


def _from_mapping(source: Mapping[Any, Any], kind: TableKind) -> Queries:
    problems, out = Problems(kind.source), {}
    for id, fields in source.items():
        known = text_id(id)
        if known is None:
            problems.add(None, f"a {kind.noun} id must be text or an integer, found {shown(id)}")
        else:
            out[known] = fields if isinstance(fields, Mapping) else {"text": fields}
    problems.check()
    return Queries(out, kind.source)


def table_rows(
    path: str, head: bytes, stdin: bytes | None, problems: Problems, kind: TableKind = QUERIES
) -> Iterator[FieldRow]:
    """The rows of a file of queries or docs, each with its line and its fields."""
    if not head.strip():
        raise InputError(f"{path}: is empty, expected a table of {kind.plural}")
    if head[:4] == b"PAR1":
        import duckdb

        try:
            yield from _frame_rows(frames.connect(), f"SELECT * FROM {frames.parquet(path)}")
        except duckdb.Error as error:
            raise frames.parquet_error(path, error) from None
        return
    if head.lstrip()[:1] in (b"{", b"["):
        yield from _json_rows(path, stdin, problems)
        return
    data = all_of(path, stdin)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        problem = Problem(path, line, "not UTF-8; expected UTF-8 text: convert the file, e.g. with iconv")
        raise InputError(problem) from None
    yield from topic_rows(text, problems) if is_topics(head) else _text_rows(text, problems, kind)


def _frame_rows(connection: Any, sql: str) -> Iterator[FieldRow]:
    result = connection.execute(sql)
    names = [str(d[0]) for d in result.description]
    line = 0
    while rows := result.fetchmany(10_000):
        for row in rows:
            line += 1
            yield line, dict(zip(names, row, strict=True))


def _json_rows(path: str, stdin: bytes | None, problems: Problems) -> Iterator[FieldRow]:
    import msgspec

    from karat.read import jsonl

    decoder = msgspec.json.Decoder()
    for number, raw in jsonl.numbered_lines(path, stdin):
        try:
            line = decoder.decode(raw)
        except jsonl.NOT_JSON as error:
            problems.add(number, jsonl.reason(error, raw, "expected one JSON object per line"))
            continue
        if not isinstance(line, dict):
            problems.add(number, f"expected a JSON object, found {shown(raw.strip())}")
            continue
        more = line.get("metadata")
        yield number, {**more, **line} if isinstance(more, dict) else line


def _text_rows(text: str, problems: Problems, kind: TableKind) -> Iterator[FieldRow]:
    """A table with a header, else a topic file: an id and a text on each line."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    for mark in ("\t", ",", ";"):
        names = [n.strip().strip('"').lower() for n in first.split(mark)]
        if len(names) > 1 and any(name in kind.id_names for name in names):
            yield from _named_cells(_lines_of_cells(text, mark, problems), problems)
            return
    if first.strip().lower() in kind.id_names:
        yield from _named_cells(_lines_of_cells(text, ",", problems), problems)
        return
    yield from _topics_by_line(text, first, problems, kind)


def _lines_of_cells(text: str, mark: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row that is not blank. A quote that is not closed never swallows the rows after it."""
    csv.field_size_limit(1 << 30)
    if mark == "\t":  # tab-separated texts often hold single quotes, which are text
        for line, content in enumerate(text.split("\n"), start=1):
            row = content.removesuffix("\r")
            if row.strip():
                try:
                    yield line, next(csv.reader([row], delimiter=mark, strict=True)) if '"' in row else row.split(mark)
                except csv.Error:
                    yield line, row.split(mark)
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    line = 1
    try:
        for cells in reader:
            if any(cells):
                yield line, cells
            line = 1 + reader.line_num
    except csv.Error:
        problems.add(line, 'a quoted cell that begins here is not closed; write a quote inside a text twice ("")')


def _named_cells(table: Iterator[tuple[int, list[str]]], problems: Problems) -> Iterator[FieldRow]:
    """The rows below a header."""
    line, header = next(table, (1, []))
    names = [n.strip().lower() for n in header]
    if twice := next((n for n in names if n and names.count(n) > 1), None):
        problems.add(line, f"the column {shown(twice)} appears twice; rename or remove one")
        return
    for line, cells in table:
        if len(cells) != len(names):
            problems.add(line, f"found {len(cells)} columns, expected {len(names)} ({', '.join(names)})")
        else:
            yield line, {n: c for n, c in zip(names, cells, strict=True) if c != ""}


def _topics_by_line(text: str, first: str, problems: Problems, kind: TableKind) -> Iterator[FieldRow]:
    """An id and a text on each line, with a tab, a comma, a semicolon or white space between them."""
    rows: list[tuple[int, list[str]]] = []
    for mark in ("\t", ",", ";"):
        if mark in first:
            rows = list(_lines_of_cells(text, mark, Problems("")))
            if mark == "\t" or _is_table(rows):
                break
    else:
        lines = enumerate(text.split("\n"), start=1)
        rows = [(line, content.split(None, 1)) for line, content in lines if content.strip()]
    if not rows:
        problems.add(None, f"holds no rows, expected a table of {kind.plural}")
    for line, cells in rows:
        if len(cells) == 2 and cells[0].strip():
            yield line, {"_id": cells[0].strip(), "text": cells[1].strip()}
        else:
            problems.add(
                line,
                f"found {len(cells)} column{'s' if len(cells) != 1 else ''} ({shown(' '.join(cells))}), expected an id "
                f"and a text, or a header with one of {', '.join(kind.id_names)}",
            )


def _is_table(rows: Sequence[tuple[int, list[str]]]) -> bool:
    """Whether rows cut at commas look like a table, rather than like texts with commas in them."""
    widths = {len(cells) for _, cells in rows}
    return len(widths) <= 1 and widths != {1} and all(len(cells[0].split()) == 1 for _, cells in rows[1:])


def rows_with_ids(
    rows: Iterable[FieldRow], problems: Problems, kind: TableKind = QUERIES
) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The rows that have an id: line, id, and the other fields."""
    for line, fields in rows:
        name = next((n for n in kind.id_names if n in fields), None)
        id = text_id(fields[name]) if name else None
        if name is not None and id is None:
            problems.add(line, f"{name} must be text or an integer, found {shown(fields[name])}")
        elif id is None:
            problems.add(line, f"no {kind.noun} id; expected one of {', '.join(kind.id_names)}")
        else:
            yield line, id, {n: v for n, v in fields.items() if n != name and n != "metadata"}


def _by_id(rows: Iterable[FieldRow], problems: Problems, source: str, kind: TableKind) -> Queries:
    out: dict[str, dict[str, Any]] = {}
    lines: dict[str, int] = {}
    for line, id, fields in rows_with_ids(rows, problems, kind):
        if id in out:
            problems.add(
                line, f"{kind.noun} {shown(id)} already appears at line {lines[id]}; expected each {kind.noun} once"
            )
        else:
            lines[id] = line
            out[id] = fields
    problems.check()
    return Queries(out, source, lines)
