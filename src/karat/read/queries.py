"""Tables of queries: BEIR's queries.jsonl, CSV, TSV, Parquet, frames, topic files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, shown
from karat.model.queries import Queries
from karat.read import frames
from karat.read.columns import DOC_NAMES, QUERY_NAMES, column
from karat.read.exact import Problems
from karat.read.layout import all_of, checked_path
from karat.read.objects import text_id
from karat.read.sources import head_and_stdin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


QUERY, DOC = "query", "doc"
MANY = {QUERY: "queries", DOC: "corpus"}
"""What a table of them is called where it has no file."""
PLURAL = {QUERY: "queries", DOC: "docs"}
NAMES = {QUERY: QUERY_NAMES, DOC: DOC_NAMES}
ID_NAMES = ("_id", "id", *QUERY_NAMES, *DOC_NAMES)
"""A table of docs is read like one of queries: an id, and fields."""
IDS = {QUERY: ID_NAMES, DOC: ("_id", "id", "chunk_id", *DOC_NAMES, *QUERY_NAMES)}
"""Names of the id, the first that a row has; a chunk's `doc_id` names the doc it belongs to."""


Fields = tuple[int, Mapping[str, Any]]
"""A row of a table: its line, and its fields by name."""


def read_queries(source: Any) -> Queries:
    """The table of queries from a path, a frame, a dict of fields, or what is one already."""
    return read_table(source, QUERY)


def read_table(source: Any, noun: str) -> Queries:
    """A table of queries or of docs, as `noun` says: what is wrong with it is told in that word."""
    if isinstance(source, Queries):
        return source
    if isinstance(source, Mapping):
        return _from_mapping(source, noun)
    if isinstance(source, (str, os.PathLike)):
        path = checked_path(os.fspath(source))
        return _from_file(path, *head_and_stdin(path), noun)
    if frames.is_frame(source):
        connection = frames.connect()
        rows = _frame_rows(connection, f"SELECT * FROM {frames.registered(connection, source, MANY[noun])}")
        return _identified(rows, Problems(MANY[noun]), MANY[noun], noun)
    raise InputError(f"{MANY[noun]}: expected a path, a dict or a data frame, found {type(source).__name__}")


def _from_mapping(source: Mapping[Any, Any], noun: str) -> Queries:
    problems, out = Problems(MANY[noun]), {}
    for id, fields in source.items():
        known = text_id(id)
        if known is None:
            problems.add(None, f"a {noun} id must be text or an integer, found {shown(id)}")
        else:
            out[known] = fields if isinstance(fields, Mapping) else {"text": fields}
    problems.check()
    return Queries(out, MANY[noun])


def _from_file(path: str, head: bytes, stdin: bytes | None, noun: str) -> Queries:
    problems = Problems(path)
    rows = list(table_rows(path, head, stdin, problems, noun))
    problems.check()
    return _identified(rows, problems, path, noun)


def table_rows(path: str, head: bytes, stdin: bytes | None, problems: Problems, noun: str = QUERY) -> Iterator[Fields]:
    """The rows of a table of queries or docs, each with its line and its fields."""
    if not head.strip():
        raise InputError(f"{path}: is empty, expected a table of {PLURAL[noun]}")
    if head[:4] == b"PAR1":
        import duckdb

        try:
            yield from _frame_rows(frames.connect(), f"SELECT * FROM read_parquet({frames.quoted(path)})")
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
        raise InputError(f"{path}:{line}: not UTF-8; expected UTF-8 text: convert the file, e.g. with iconv") from None
    yield from _text_rows(text, problems)


def _frame_rows(connection: Any, sql: str) -> Iterator[Fields]:
    result = connection.execute(sql)
    names = [str(d[0]) for d in result.description]
    line = 0
    while rows := result.fetchmany(10_000):
        for row in rows:
            line += 1
            yield line, dict(zip(names, row, strict=True))


def _json_rows(path: str, stdin: bytes | None, problems: Problems) -> Iterator[Fields]:
    import msgspec

    from karat.read import jsonl

    decoder = msgspec.json.Decoder()
    for number, raw in jsonl.numbered_lines(path, stdin):
        try:
            line = decoder.decode(raw)
        except jsonl.NOT_JSON as error:
            problems.add(number, jsonl.reason(error, raw, "expected one JSON object a line"))
            continue
        if not isinstance(line, dict):
            problems.add(number, f"expected a JSON object, found {shown(raw.strip())}")
            continue
        more = line.get("metadata")
        yield number, {**more, **line} if isinstance(more, dict) else line


def _text_rows(text: str, problems: Problems) -> Iterator[Fields]:
    import csv
    import io

    first = next((line for line in text.split("\n") if line.strip()), "")
    delimiter = next((d for d in ("\t", ",", ";") if d in first), "\t")
    csv.field_size_limit(1 << 30)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    table, line = [], 1
    for cells in reader:
        if any(cells):
            table.append((line, cells))
        line = 1 + reader.line_num
    names = [n.strip().lower() for n in table[0][1]]
    if column(names, ID_NAMES) is None:  # a topic file: id and text, no header
        if delimiter not in first:
            table = [(line, cells[0].split(None, 1)) for line, cells in table]
        yield from ((line, {"_id": cells[0], "text": cells[-1]}) for line, cells in table)
        return
    for line, cells in table[1:]:
        if len(cells) != len(names):
            problems.add(line, f"found {len(cells)} columns, expected {len(names)} ({', '.join(names)})")
        else:
            yield line, {n: c for n, c in zip(names, cells, strict=True) if c != ""}


def identified(
    rows: Iterable[Fields], problems: Problems, noun: str = QUERY
) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The rows that have an id: line, id, and the other fields."""
    for line, fields in rows:
        named = next((n for n in IDS[noun] if n in fields), None)
        q = text_id(fields[named]) if named else None
        if named is not None and q is None:
            problems.add(line, f"{named} must be text or an integer, found {shown(fields[named])}")
        elif q is None:
            problems.add(line, f"no {noun} id; expected one of _id, id, " + ", ".join(NAMES[noun]))
        else:
            yield line, q, {n: v for n, v in fields.items() if n != named and n != "metadata"}


def _identified(rows: Iterable[Fields], problems: Problems, source: str, noun: str) -> Queries:
    out: dict[str, dict[str, Any]] = {}
    lines: dict[str, int] = {}
    for line, q, fields in identified(rows, problems, noun):
        if q in out:
            problems.add(line, f"{noun} {shown(q)} was there before at line {lines[q]}; expected each {noun} once")
        else:
            lines[q] = line
            out[q] = fields
    problems.check()
    return Queries(out, source, lines)
