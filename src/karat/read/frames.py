"""Data frames and Parquet → blocks of columns, by Arrow's interface: which columns, and which types ids may have."""

from __future__ import annotations

import os
import re
import threading
from contextlib import contextmanager
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from karat.errors import MAX_PROBLEMS, InputError, RowProblem
from karat.model.limits import bomb_problem
from karat.read.arrow import Columns, column_types, cut_blocks, read_batches, small_copies
from karat.read.column_stream import ColumnStream
from karat.read.layout import table_layout
from karat.read.textfile import join_rows
from karat.store.database import Database, DatabaseError, is_pandas, parquet, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from karat.model.run import Rows
    from karat.read.columns import FieldRow, Role
    from karat.read.layout import Layout
    from karat.store.database import Selection


_TEXTS = ("VARCHAR", "UUID", "JSON")
_INTEGERS = tuple(sign + size + "INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")) + (
    "INTEGER",
    "UINTEGER",
)
_PLAIN_TEXTS = ("u", "U", "vu")
"""Arrow's texts, large texts and views of texts."""
ROW = 40
"""About the bytes of a row: two ids and a number."""
PIECE = 8192
"""Rows of a Parquet file that are in memory at a time."""
ID_TYPES = _TEXTS + _INTEGERS
"""Types of columns that may hold ids."""


def is_frame(value: object) -> bool:
    """Whether this is a data frame of any kind: something that speaks Arrow or is a pandas frame."""
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__") or is_pandas(value)


def is_spark_frame(value: object) -> bool:
    """Whether this is a data frame of Spark, whose rows lie on a cluster."""
    return type(value).__module__.startswith("pyspark.") and hasattr(value, "mapInArrow")


def frame_rows(frame: object, role: Role, name: str) -> ColumnStream:
    """The rows of a data frame. One that can be read only once, such as a stream, is held in memory."""
    size = ROW * len(frame) if hasattr(type(frame), "__len__") else None  # type: ignore[arg-type]
    layout = _plain_layout(frame, role, name) if size is not None and _speaks_arrow(frame) else None
    if layout is not None:
        columns = Columns(layout.query, layout.doc, layout.value, layout.parent)
        return ColumnStream(name, role, lambda: read_batches(frame), columns, size or 0, (), layout.names_docs)
    database = Database.for_frames()
    stream = _table_rows(database, register_frame(database, frame, name), role, name)
    if size is not None:
        return replace(stream, bytes=size)
    batches = list(stream.batches())
    return replace(stream, batches=lambda: iter(batches), bytes=ROW * sum(map(len, batches)))


def _speaks_arrow(frame: Any) -> bool:
    """Whether a frame has its columns, and nothing else, in Arrow's shape; of pandas, one whose texts are Arrow's."""
    if not is_pandas(frame):
        return True
    if type(frame.index).__name__ != "RangeIndex" or not hasattr(frame, "__arrow_c_stream__"):
        return False
    return all(str(getattr(t, "storage", t)) in ("pyarrow", "float64", "float32") for t in frame.dtypes)


def _plain_layout(frame: object, role: Role, name: str) -> Layout | None:
    """The layout of a table that is read as it is, without a database: texts and floats.

    None where a column that matters is anything else, where two claim one role, or where two have one name.
    """
    try:
        types = column_types(frame)
    except Exception:  # the database says of what is no table that it is none
        return None
    names = [column.lower() for column, _ in types]
    if len(set(names)) < len(names):
        return None
    layout = table_layout(name, role, names)
    ids = [types[number][1] for number in (layout.query, layout.doc, layout.parent) if number is not None]
    plain = types[layout.value][1] in ("g", "f") and all(kind in _PLAIN_TEXTS for kind in ids)
    return layout if plain and not layout.rivals else None


def register_frame(database: Database, frame: object, name: str) -> Selection:
    """The rows of a frame, as a database sees them."""
    try:
        return database.register(frame)
    except Exception as error:
        raise InputError(f"{name}: this {type(frame).__name__} cannot be read as a table ({error})") from None


def parquet_rows(path: str, role: Role) -> ColumnStream:
    """The rows of a Parquet file."""
    with parquet_errors(path):
        database = open_parquet(path, threads=1)  # each thread holds a part of the file
        database.run("SET disable_parquet_prefetching = true")  # which holds more of it
        database.set_if_known("read_ahead_depth", "0")
        for setting in ("allocator_flush_threshold", "allocator_bulk_deallocation_flush_threshold"):
            database.set_if_known(setting, "'128KB'")  # what is freed is given back at once
        stream = _table_rows(database, parquet(path), role, path, PIECE)
        size = database.parquet_size(path)

    def batches() -> Iterator[Any]:
        with parquet_errors(path):
            yield from in_one_thread(small_copies(stream.batches()))

    return replace(stream, batches=batches, bytes=size)


def in_one_thread(batches: Iterator[Any]) -> Iterator[Any]:
    """The batches, all made in one thread, whoever asks for them: DuckDB keeps memory for each that it runs in."""
    turn, end = threading.Semaphore(0), threading.Event()
    ready: SimpleQueue[Any] = SimpleQueue()

    def make() -> None:
        while turn.acquire() and not end.is_set():
            try:
                ready.put(next(batches, None))
            except BaseException as failure:
                ready.put(failure)

    thread = threading.Thread(target=make, name="karat", daemon=True)
    thread.start()
    try:
        while True:
            turn.release()
            batch = ready.get()
            if batch is None:
                return
            if isinstance(batch, BaseException):
                raise batch
            yield batch
    finally:
        end.set()
        turn.release()
        thread.join()


def frame_field_rows(frame: object, name: str) -> Iterator[FieldRow]:
    """The rows of a data frame, each with its number and its fields."""
    database = Database.for_frames()
    return enumerate(database.named_rows(register_frame(database, frame, name)), start=1)


def parquet_field_rows(path: str) -> Iterator[FieldRow]:
    """The rows of a Parquet file, each with its number and its fields."""
    with parquet_errors(path):
        yield from enumerate(open_parquet(path).named_rows(parquet(path)), start=1)


def open_parquet(path: str, *, threads: int | None = None) -> Database:
    """A database that can read a Parquet file; one that holds far more than its size says is refused."""
    database = Database([path], threads=threads)
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


def _table_rows(database: Database, table: Selection, role: Role, name: str, size: int = 0) -> ColumnStream:
    """The rows of a table (ids as text, values as numbers), with notes on ignored columns."""
    types_by_name = database.columns(table)
    names, types = list(types_by_name), list(types_by_name.values())
    layout = table_layout(name, role, [n.lower() for n in names])
    rows = table.select(", ".join(_select_columns(layout, names, types, role, name)))
    _check_rivals(database, table, layout, dict(zip(layout.header, names, strict=True)), name)
    columns = Columns(0, 1, 2, None if layout.parent is None else 3)
    notes = tuple(rival.note for rival in layout.rivals)
    return ColumnStream(name, role, lambda: database.batches(rows, size), columns, 0, notes, layout.names_docs)


def _check_rivals(database: Database, table: Selection, layout: Layout, names: Mapping[str, str], name: str) -> None:
    """Refuse two columns that claim one role and disagree."""
    problems: list[str] = []
    for rival in layout.rivals:
        if rival.optional:
            continue
        used, ignored = quoted(names[rival.used]), quoted(names[rival.ignored])
        pairs = table.select(f"row_number() OVER () AS row, {used} AS a, {ignored} AS b")
        unlike = pairs.select("*", "WHERE CAST(a AS VARCHAR) IS DISTINCT FROM CAST(b AS VARCHAR)")
        for row, value, other in database.fetch(unlike):
            if rival.disagrees(value, other) and len(problems) <= MAX_PROBLEMS:
                problems.append(RowProblem(name, row, f"{rival.problem(value, other)}"))
    if problems:
        raise InputError(problems)


def _select_columns(layout: Layout, names: list[str], types: list[str], role: Role, name: str) -> list[str]:
    """Query, doc, value and, if there is one, parent."""
    ids = []
    for idea, column in (("query", layout.query), ("doc", layout.doc), ("parent", layout.parent)):
        if column is None:
            continue
        if types[column] not in _TEXTS + _INTEGERS and not types[column].startswith("ENUM"):
            what = "subtopics" if idea == "parent" and role == "qrels" else f"{idea} ids"
            raise InputError(
                f"{name}: {what} in column {names[column]!r} are {types[column]}, expected text or integers: "
                "convert the column to text"
            )
        ids.append(f"CAST({quoted(names[column])} AS VARCHAR) AS {idea}")
    what, type_ = ("grade" if role == "qrels" else "score"), types[layout.value]
    if type_ not in (*_INTEGERS, "FLOAT", "DOUBLE") and not re.fullmatch(r"DECIMAL\([\d,]+\)", type_):
        raise InputError(f"{name}: the {what} column {names[layout.value]!r} is {type_}, expected numbers")
    return [*ids[:2], f"CAST({quoted(names[layout.value])} AS DOUBLE) AS value", *ids[2:]]


def fetch_rows(database: Database, rows: Selection) -> Rows:
    """Rows of query, doc, value and perhaps parent, all at once."""
    columns = Columns(0, 1, 2, 3 if "parent" in database.columns(rows) else None)
    return join_rows([part for block in cut_blocks(database.batches(rows), columns) for part in block.parts()])
