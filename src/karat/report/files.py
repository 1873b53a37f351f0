"""A result as files: JSON, and tables of values per query."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Protocol

from karat.errors import UsageError
from karat.store.atomic import encoded, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karat.model.json_data import JsonObject
    from karat.results.result import Result

TABLES = (".csv", ".jsonl", ".parquet")
COLUMNS = ("run", "query_id", "metric", "value")


class Document(Protocol):
    """Whatever has a JSON document: every result of a verb."""

    def as_json(self) -> JsonObject: ...


def write_json(result: Document, path: str) -> None:
    """The result as one JSON document, to a file or to standard output (`-`)."""
    write_text(json.dumps(result.as_json(), ensure_ascii=False, indent=2, allow_nan=False) + "\n", path)


def write_text(text: str, path: str) -> None:
    """Text to a file, or to standard output (`-`)."""
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(encoded(text))
        sys.stdout.buffer.flush()
    else:
        write_atomically(path, encoded(text))


def check_table_name(path: str) -> None:
    """Refuse an unknown kind of table before any work is done."""
    if os.path.splitext(path)[1].lower() not in TABLES:
        raise UsageError(f"{path}: the per-query table must end in one of {', '.join(TABLES)}")


def write_per_query(result: Result, path: str) -> None:
    """The long table of every query's values; the name's ending chooses the kind."""
    write_rows(result.rows(), path)


def write_rows(rows: Iterable[tuple[str, str, str, float | None]], path: str) -> None:
    """Rows of run, query, metric and value as a table; the name's ending chooses the kind."""
    check_table_name(path)
    kind = os.path.splitext(path)[1].lower()
    if kind == ".jsonl":
        lines = (json.dumps(dict(zip(COLUMNS, row, strict=True)), ensure_ascii=False) for row in rows)
        write_atomically(path, encoded("".join(line + "\n" for line in lines)))
        return
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    if kind == ".csv":
        rows = ((safe_cell(run), safe_cell(query), metric, value) for run, query, metric, value in rows)
    writer.writerows(rows)
    table = encoded(buffer.getvalue())
    write_atomically(path, table if kind == ".csv" else _parquet(table))


def safe_cell(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula; plain ids and numbers stay as they are."""
    if cell[:1] in ("=", "+", "-", "@", "\t", "\r") and not re.fullmatch(r"[-+]?[\w.#:]*", cell):
        return f"'{cell}"
    return cell


def _parquet(table: bytes) -> bytes:
    """A CSV table as Parquet."""
    from karat.store.database import Database, Selection, as_pattern
    from karat.store.scratch import scratch_folder

    with scratch_folder() as folder:
        source, target = os.path.join(folder, "t.csv"), os.path.join(folder, "t.parquet")
        with open(source, "wb") as file:
            file.write(table)
        columns = "{'run': 'VARCHAR', 'query_id': 'VARCHAR', 'metric': 'VARCHAR', 'value': 'DOUBLE'}"
        read = f"read_csv($file, header = true, auto_detect = false, quote = '\"', columns = {columns})"
        rows = Selection(f"SELECT * FROM {read}", {"file": as_pattern(source)})
        Database(folder=folder).write_parquet(rows, target)
        with open(target, "rb") as file:
            return file.read()
