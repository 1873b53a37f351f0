"""Data frames and Parquet → columns, through Arrow's interface."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import MAX_PROBLEMS, InputError, RowProblem
from karat.model.limits import ID, bomb_problem
from karat.model.run import Rows
from karat.model.strings import PAD, Strings
from karat.read.formats import ColumnRows
from karat.read.layout import table_layout
from karat.read.problems import long_id
from karat.read.textfile import join_rows
from karat.store.database import Database, DatabaseError, is_pandas, parquet, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from karat.read.columns import FieldRow, Role
    from karat.read.layout import Layout
    from karat.store.database import Selection


_TEXTS = ("VARCHAR", "UUID", "JSON")
_INTEGERS = tuple(sign + size + "INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")) + (
    "INTEGER",
    "UINTEGER",
)
ID_TYPES = _TEXTS + _INTEGERS
"""Types of columns that may hold ids."""


def is_frame(value: object) -> bool:
    """Whether this is a data frame of any kind: something that speaks Arrow or is a pandas frame."""
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__") or is_pandas(value)


def frame_rows(frame: object, role: Role, name: str) -> ColumnRows:
    """The rows of a data frame."""
    database = Database()
    return _table_rows(database, register_frame(database, frame, name), role, name)


def register_frame(database: Database, frame: object, name: str) -> Selection:
    """The rows of a frame, as a database sees them."""
    try:
        return database.register(frame)
    except Exception as error:
        raise InputError(f"{name}: this {type(frame).__name__} cannot be read as a table ({error})") from None


def parquet_rows(path: str, role: Role) -> ColumnRows:
    """The rows of a Parquet file."""
    with parquet_errors(path):
        return _table_rows(open_parquet(path), parquet(path), role, path)


def frame_field_rows(frame: object, name: str) -> Iterator[FieldRow]:
    """The rows of a data frame, each with its number and its fields."""
    database = Database()
    return enumerate(database.named_rows(register_frame(database, frame, name)), start=1)


def parquet_field_rows(path: str) -> Iterator[FieldRow]:
    """The rows of a Parquet file, each with its number and its fields."""
    with parquet_errors(path):
        yield from enumerate(open_parquet(path).named_rows(parquet(path)), start=1)


def open_parquet(path: str) -> Database:
    """A database that can read a Parquet file; one that holds far more than its size says is refused."""
    database = Database([path])
    if (problem := bomb_problem(database.parquet_size(path), os.path.getsize(path))) is not None:
        raise InputError(f"{path}: {problem}")
    return database


def parquet_numbers(path: str, name: str) -> dict[int, float]:
    """The numbers in a column of a Parquet file by row, counted from 1; none if the column is missing."""
    database, rows = Database([path]), parquet(path)
    names = {column.lower(): column for column in database.columns(rows)}
    if name not in names:
        return {}
    values = database.fetch(rows.select(f"TRY_CAST({quoted(names[name])} AS DOUBLE)"))
    return {row: value for row, (value,) in enumerate(values, start=1) if value is not None}


@contextmanager
def parquet_errors(path: str) -> Iterator[None]:
    """Say of a file that breaks off, is damaged, or is not Parquet, what to do."""
    try:
        yield
    except DatabaseError as error:
        raise InputError(f"{path}: cannot be read as Parquet ({error}); copy or write the file again") from None


def _table_rows(database: Database, table: Selection, role: Role, name: str) -> ColumnRows:
    """The rows of a table (ids as text, values as finite numbers), with notes on ignored columns."""
    types_by_name = database.columns(table)
    names, types = list(types_by_name), list(types_by_name.values())
    layout = table_layout(name, role, [n.lower() for n in names])
    columns = _select_columns(layout, names, types, role, name)
    rows = fetch_rows(database, table.select(", ".join(columns)))
    if len(rows) == 0:
        raise InputError(f"{name}: has no rows, expected at least one")
    _check_rows(rows, role, name)
    _check_rivals(database, table, layout, dict(zip(layout.header, names, strict=True)), name)
    return ColumnRows(rows, tuple(rival.note for rival in layout.rivals), layout.names_docs)


def _check_rivals(database: Database, table: Selection, layout: Layout, names: Mapping[str, str], name: str) -> None:
    """Refuse two columns that claim one role and disagree."""
    problems: list[str] = []
    for rival in layout.rivals:
        if rival.optional:
            continue
        pair = table.select(f"row_number() OVER (), {quoted(names[rival.used])}, {quoted(names[rival.ignored])}")
        for row, value, other in database.fetch(pair):
            if rival.disagrees(value, other) and len(problems) <= MAX_PROBLEMS:
                problems.append(RowProblem(name, row, f"{rival.problem(value, other)}"))
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
        out.append(f"CAST({quoted(names[column])} AS VARCHAR) AS {idea}")
    what, type_ = ("grade" if role == "qrels" else "score"), types[layout.value]
    if type_ not in (*_INTEGERS, "FLOAT", "DOUBLE") and not re.fullmatch(r"DECIMAL\([\d,]+\)", type_):
        raise InputError(f"{name}: the {what} column {names[layout.value]!r} is {type_}, expected numbers")
    out.append(f"CAST({quoted(names[layout.value])} AS DOUBLE) AS value")
    return out


def fetch_rows(database: Database, rows: Selection) -> Rows:
    """Rows of query, doc, value and perhaps parent, read from an Arrow stream without copying more than text."""
    return join_rows([_rows_of(batch) for batch in database.batches(rows) if len(batch)])


def _rows_of(batch: Any) -> Rows:
    columns = {child.schema.name: child for child in batch.iter_children()}
    return Rows(
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
        problems.append(RowProblem(name, i + 1, f"{what} must be a finite number, found {value}"))
    if role == "qrels" and rows.parent is not None:
        for i in np.flatnonzero(rows.parent.start >= rows.parent.end)[:some].tolist():
            problems.append(RowProblem(name, i + 1, "the subtopic is empty or null, expected a name"))
    for idea, column in (("query", rows.query), ("doc", rows.doc)):
        for i in np.flatnonzero(column.start >= column.end)[:some].tolist():
            problems.append(RowProblem(name, i + 1, f"the {idea} id is empty or null, expected an id"))
        for i in np.flatnonzero(column.end - column.start > ID.value)[:some].tolist():
            (text,) = column.take(np.array([i])).texts()
            problems.append(RowProblem(name, i + 1, f"the {idea} id {long_id(text)}"))
        zeros = np.flatnonzero(column.buffer == 0)
        holds = np.searchsorted(zeros, column.start) < np.searchsorted(zeros, column.end)
        for i in np.flatnonzero(holds)[:some].tolist():
            problems.append(RowProblem(name, i + 1, f"the {idea} id holds a NUL byte, expected text"))
    if problems:
        raise InputError(problems)
