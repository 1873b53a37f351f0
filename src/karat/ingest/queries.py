"""Tables of queries: BEIR's queries.jsonl, CSV, TSV, Parquet, frames, topic files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, shown
from karat.ingest import frames
from karat.ingest.exact import Problems
from karat.ingest.layout import QUERY_NAMES, checked_path, column
from karat.ingest.objects import text_id
from karat.ingest.read import head_and_stdin
from karat.model.queries import Queries

if TYPE_CHECKING:
    from collections.abc import Sequence


def read_queries(source: Any) -> Queries:
    """The table of queries from a path, a frame, a dict of fields, or what is one already."""
    if isinstance(source, Queries):
        return source
    if isinstance(source, Mapping):
        return Queries({str(q): v if isinstance(v, Mapping) else {"text": v} for q, v in source.items()})
    if isinstance(source, (str, os.PathLike)):
        path = checked_path(os.fspath(source))
        return _queries_from_file(path, *head_and_stdin(path))
    if frames.is_frame(source):
        connection = frames.connect()
        return _queries_from_frame(connection, f"SELECT * FROM {frames.registered(connection, source, 'queries')}")
    raise InputError(f"queries: expected a path, a dict or a data frame, found {type(source).__name__}")


def _queries_from_frame(connection: Any, sql: str, source: str = "queries") -> Queries:
    result = connection.execute(sql)
    names = [str(d[0]) for d in result.description]
    return _queries([(i, dict(zip(names, row, strict=True))) for i, row in enumerate(result.fetchall(), 1)], source)


def _queries_from_file(path: str, head: bytes, stdin: bytes | None) -> Queries:
    if not head:
        raise InputError(f"{path}: is empty, expected a table of queries")
    if head[:4] == b"PAR1":
        return _queries_from_frame(frames.connect(), f"SELECT * FROM read_parquet({frames.quoted(path)})", path)
    from karat.ingest import jsonl

    if head.lstrip()[:1] == b"{":
        import msgspec

        problems, rows = Problems(path), []
        for number, raw in jsonl.numbered_lines(path, stdin):
            try:
                line = msgspec.json.decode(raw)
                rows.append((number, {**line.get("metadata", {}), **line} if isinstance(line, dict) else {}))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                problems.add(number, f"{error}; expected one JSON object a line")
        problems.check()
        return _queries(rows, path)
    import csv
    import io

    data = stdin if stdin is not None else b"".join(raw for _, raw in jsonl.numbered_lines(path))
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8; expected UTF-8 text: convert the file, e.g. with iconv") from None
    first = text.split("\n", 1)[0].rstrip("\r")
    delimiter = next((d for d in ("\t", ",", ";") if d in first), "\t")
    table = [cells for cells in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if cells]
    names = [n.strip().lower() for n in table[0]]
    if column(names, (*QUERY_NAMES, "_id", "id")) is None:  # a topic file: id and text, no header
        return _queries([(i, {"_id": cells[0], "text": cells[-1]}) for i, cells in enumerate(table, 1)], path)
    return _queries(
        [(i, {n: c for n, c in zip(names, cells, strict=False) if c != ""}) for i, cells in enumerate(table[1:], 2)],
        path,
    )


def _queries(rows: Sequence[tuple[int, Mapping[str, Any]]], source: str) -> Queries:
    problems, out = Problems(source), {}
    for line, fields in rows:
        named = next((n for n in ("_id", "id", *QUERY_NAMES) if n in fields), None)
        q = text_id(fields[named]) if named else None
        if q is None:
            problems.add(line, "no query id; expected one of _id, id, " + ", ".join(QUERY_NAMES))
        elif q in out:
            problems.add(line, f"query {shown(q)} is there twice; expected each query once")
        else:
            out[q] = {n: v for n, v in fields.items() if n != named and n != "metadata"}
    problems.check()
    return Queries(out, source)
