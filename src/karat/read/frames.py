"""Data frames, Parquet, and text that only DuckDB should read → columns, through Arrow's interface."""

from __future__ import annotations

import os
import re
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import MAX_PROBLEMS, InputError, missing_package
from karat.model.run import Rows
from karat.model.strings import PAD, Strings
from karat.read.formats import ColumnRows
from karat.read.layout import table_layout
from karat.read.textfile import join_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from karat.read.columns import FieldRow, Role
    from karat.read.layout import Layout


_TEXTS = ("VARCHAR", "UUID", "JSON")
_INTEGERS = tuple(sign + size + "INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")) + (
    "INTEGER",
    "UINTEGER",
)
ID_TYPES = _TEXTS + _INTEGERS
"""Types of columns that may hold ids."""


def is_frame(value: object) -> bool:
    """Whether this is a data frame of any kind: something that speaks Arrow or is a pandas frame."""
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__") or _is_pandas(value)


def _is_pandas(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "columns")


def connect(memory: str | None = None, threads: int | None = None, folder: str | None = None) -> Any:
    """A DuckDB connection of its own, in memory."""
    try:
        import duckdb
    except ImportError:
        raise missing_package("reading this", "duckdb") from None
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    if memory is not None:
        config["memory_limit"] = memory
    if threads is not None:
        config["threads"] = threads
    if folder is not None:
        config["temp_directory"] = folder
    return duckdb.connect(":memory:", config=config)


def frame_rows(frame: object, role: Role, name: str) -> ColumnRows:
    """The rows of a data frame."""
    connection = connect()
    source = register_frame(connection, frame, name)
    return relation_rows(connection, f"SELECT * FROM {source}", role, name)


def register_frame(connection: Any, frame: Any, name: str) -> str:
    """Make a frame known to DuckDB; what it cannot scan itself comes through the Arrow interface."""
    import duckdb

    try:
        if isinstance(frame, duckdb.DuckDBPyRelation) or not _is_pandas(frame):
            frame = _Stream(frame)
        connection.register("frame", frame)
    except Exception as error:
        raise InputError(f"{name}: this {type(frame).__name__} cannot be read as a table ({error})") from None
    return "frame"


class _Stream:
    """Passes on nothing but the Arrow stream of a frame, so that no other package is needed."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def parquet_rows(path: str, role: Role) -> ColumnRows:
    """The rows of a Parquet file."""
    import duckdb

    connection = connect()
    try:
        return relation_rows(connection, f"SELECT * FROM {parquet(path)}", role, path)
    except duckdb.Error as error:
        raise parquet_error(path, error) from None


def frame_field_rows(frame: object, name: str) -> Iterator[FieldRow]:
    """The rows of a data frame, each with its number and its fields."""
    connection = connect()
    return _field_rows(connection, f"SELECT * FROM {register_frame(connection, frame, name)}")


def parquet_field_rows(path: str) -> Iterator[FieldRow]:
    """The rows of a Parquet file, each with its number and its fields."""
    import duckdb

    try:
        yield from _field_rows(connect(), f"SELECT * FROM {parquet(path)}")
    except duckdb.Error as error:
        raise parquet_error(path, error) from None


def _field_rows(connection: Any, sql: str) -> Iterator[FieldRow]:
    result = connection.execute(sql)
    names = [str(column[0]) for column in result.description]
    batches = iter(lambda: result.fetchmany(10_000), [])
    for line, row in enumerate(chain.from_iterable(batches), start=1):
        yield line, dict(zip(names, row, strict=True))


def parquet_numbers(path: str, name: str) -> dict[int, float]:
    """The numbers in a column of a Parquet file by row, counted from 1; none if the column is missing."""
    connection, source = connect(), parquet(path)
    names = {str(r[0]).lower(): str(r[0]) for r in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    if name not in names:
        return {}
    rows = connection.execute(f"SELECT TRY_CAST({sql_name(names[name])} AS DOUBLE) FROM {source}").fetchall()
    return {row: value for row, (value,) in enumerate(rows, start=1) if value is not None}


def parquet_error(path: str, error: Exception) -> InputError:
    """The error for a file that breaks off, is damaged, or is not Parquet."""
    return InputError(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]}); copy or write the file again")


def sql_text(text: str) -> str:
    """The text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def sql_name(name: str) -> str:
    """A column's name for SQL, whatever characters it holds."""
    return '"' + name.replace('"', '""') + '"'


def sql_path(path: str) -> str:
    """A path as an SQL literal that names this file alone: DuckDB takes paths as patterns, and `~` as a home."""
    return sql_text(re.sub(r"[*?\[]", r"[\g<0>]", os.path.abspath(path)))


def parquet(path: str) -> str:
    """SQL for the rows of a Parquet file; folders such as `grade=3` add no columns."""
    return f"read_parquet({sql_path(path)}, hive_partitioning = false)"


def relation_rows(connection: Any, sql: str, role: Role, name: str) -> ColumnRows:
    """The result of a query as rows (ids as text, values as finite numbers), with notes on ignored columns."""
    description = connection.execute(f"DESCRIBE {sql}").fetchall()
    names, types = [str(r[0]) for r in description], [str(r[1]) for r in description]
    layout = table_layout(name, role, [n.lower() for n in names])
    columns = _select_columns(layout, names, types, role, name)
    rows = fetch_rows(connection, f"SELECT {', '.join(columns)} FROM ({sql})")
    if len(rows) == 0:
        raise InputError(f"{name}: has no rows, expected at least one")
    _check_rows(rows, role, name)
    _check_rivals(connection, sql, layout, dict(zip(layout.header, names, strict=True)), name)
    return ColumnRows(rows, tuple(rival.note for rival in layout.rivals))


def _check_rivals(connection: Any, sql: str, layout: Layout, names: Mapping[str, str], name: str) -> None:
    """Refuse two columns that claim one role and disagree."""
    problems: list[str] = []
    for rival in layout.rivals:
        if rival.optional:
            continue
        pair = f"{sql_name(names[rival.used])} AS used, {sql_name(names[rival.ignored])} AS ignored"
        for row, value, other in connection.execute(f"SELECT row_number() OVER (), {pair} FROM ({sql})").fetchall():
            if rival.disagrees(value, other) and len(problems) <= MAX_PROBLEMS:
                problems.append(f"{name}: row {row}: {rival.problem(value, other)}")
    if problems:
        raise InputError(problems)


def _select_columns(layout: Layout, names: list[str], types: list[str], role: Role, name: str) -> list[str]:
    out = []
    for idea, column in (("query", layout.query), ("doc", layout.doc), ("parent", layout.parent)):
        if column is None:
            continue
        if types[column] not in _TEXTS + _INTEGERS and not types[column].startswith("ENUM"):
            what = "subtopics" if idea == "parent" and role == "qrels" else f"{idea} ids"
            raise InputError(
                f"{name}: {what} in column {names[column]!r} are {types[column]}, expected text or integers: "
                "convert the column to text"
            )
        out.append(f"CAST({sql_name(names[column])} AS VARCHAR) AS {idea}")
    what, type_ = ("grade" if role == "qrels" else "score"), types[layout.value]
    if type_ not in (*_INTEGERS, "FLOAT", "DOUBLE", "BOOLEAN") and not re.fullmatch(r"DECIMAL\([\d,]+\)", type_):
        raise InputError(f"{name}: the {what} column {names[layout.value]!r} is {type_}, expected numbers")
    out.append(f"CAST({sql_name(names[layout.value])} AS DOUBLE) AS value")
    return out


def fetch_rows(connection: Any, sql: str) -> Rows:
    """The result of a query that yields query, doc, value and perhaps parent."""
    return join_rows([rows for rows in _batches(connection, sql) if len(rows)])


def _batches(connection: Any, sql: str) -> Iterator[Rows]:
    """The result of a query in pieces, read from its Arrow stream without copying more than text."""
    import nanoarrow as na

    with na.ArrayStream(connection.sql(sql)) as stream:
        for batch in stream:
            columns = {child.schema.name: child for child in batch.iter_children()}
            yield Rows(
                _strings(columns["query"]),
                _strings(columns["doc"]),
                _numbers(columns["value"]),
                parent=_strings(columns["parent"]) if "parent" in columns else None,
            )


def _valid(column: Any) -> NDArray[np.bool_] | None:
    """Which entries are not null; None if none is."""
    bits = np.frombuffer(column.buffers[0], dtype=np.uint8)
    if len(bits) == 0:
        return None
    return np.unpackbits(bits, bitorder="little")[column.offset : column.offset + len(column)].astype(bool)


def _strings(column: Any) -> Strings:
    wide = "large" in str(column.schema)
    places = np.frombuffer(column.buffers[1], dtype="i8" if wide else "i4").astype(np.int64)
    places = places[column.offset : column.offset + len(column) + 1]
    valid = _valid(column)
    ends = places[1:] if valid is None else np.where(valid, places[1:], places[:-1])
    low, high = (int(places[0]), int(places[-1])) if len(places) else (0, 0)
    buffer: NDArray[np.uint8] = np.zeros(high - low + 2 * PAD, dtype=np.uint8)
    buffer[PAD : PAD + high - low] = np.frombuffer(column.buffers[2], dtype=np.uint8)[low:high]
    return Strings(buffer, places[:-1] - low + PAD, ends - low + PAD)


def texts_of(column: Any) -> list[str]:
    """A column of texts."""
    return _strings(column).texts()


def lists_of(column: Any, kind: type[np.float32 | np.float64]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """A column of lists of numbers: how long each is (0 for null), and all their numbers; null becomes NaN."""
    wide = "large" in str(column.schema).partition("<")[0]
    places = np.frombuffer(column.buffers[1], dtype="i8" if wide else "i4").astype(np.int64)
    places = places[column.offset : column.offset + len(column) + 1]
    sizes = np.diff(places)
    valid = _valid(column)
    if valid is not None:
        sizes = np.where(valid, sizes, 0)
    (inner,) = column.iter_children()
    values = np.frombuffer(inner.buffers[1], dtype=kind)[inner.offset : inner.offset + len(inner)].copy()
    there = _valid(inner)
    if there is not None:
        values[~there] = np.nan
    mask = np.repeat(sizes > 0, np.diff(places))
    return sizes, values[places[0] : places[-1]][mask] if len(places) else values


def _numbers(column: Any) -> NDArray[np.float64]:
    values = np.frombuffer(column.buffers[1], dtype=np.float64)[column.offset : column.offset + len(column)].copy()
    valid = _valid(column)
    if valid is not None:
        values[~valid] = np.nan
    return values


def _check_rows(rows: Rows, role: Role, name: str) -> None:
    """Ids that are empty or hold NUL, and values that are not finite, are errors."""
    what = "grade" if role == "qrels" else "score"
    problems = []
    some = MAX_PROBLEMS + 1
    for i in np.flatnonzero(~np.isfinite(rows.score))[:some].tolist():
        value = "NaN or null" if np.isnan(rows.score[i]) else rows.score[i]
        problems.append(f"{name}: row {i + 1}: {what} must be a finite number, found {value}")
    if role == "qrels" and rows.parent is not None:
        for i in np.flatnonzero(rows.parent.start >= rows.parent.end)[:some].tolist():
            problems.append(f"{name}: row {i + 1}: the subtopic is empty or null, expected a name")
    for idea, column in (("query", rows.query), ("doc", rows.doc)):
        for i in np.flatnonzero(column.start >= column.end)[:some].tolist():
            problems.append(f"{name}: row {i + 1}: the {idea} id is empty or null, expected an id")
        zeros = np.flatnonzero(column.buffer == 0)
        holds = np.searchsorted(zeros, column.start) < np.searchsorted(zeros, column.end)
        for i in np.flatnonzero(holds)[:some].tolist():
            problems.append(f"{name}: row {i + 1}: the {idea} id holds a NUL byte, expected text")
    if problems:
        raise InputError(problems)
