"""Parquet: recognised here, read in `read/frames.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.errors import InputError
from karat.read.files import is_packed
from karat.read.formats import InputFormat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karat.read.column_stream import ColumnStream
    from karat.read.columns import FieldRow, Role, TableKind
    from karat.read.files import InputFile
    from karat.read.problems import Problems

MAGIC = b"PAR1"


def recognise(file: InputFile) -> bool:
    """Whether the file begins as Parquet does."""
    return file.head.startswith(MAGIC)


def read(file: InputFile, role: Role, problems: Problems) -> ColumnStream:
    """The rows, as blocks of columns."""
    from karat.read.frames import parquet_rows

    if file.stdin is not None or is_packed(file.path):
        raise InputError(f"{file.path}: Parquet is read from plain files only; unpack or store it, and name that file")
    return parquet_rows(file.path, role)


def read_table(file: InputFile, problems: Problems, kind: TableKind) -> Iterator[FieldRow]:
    """Rows with a field for each column."""
    from karat.read.frames import parquet_field_rows

    if file.stdin is not None:
        raise InputError(f"{file.path}: Parquet is read from plain files only; store it, and name that file")
    return parquet_field_rows(file.path)


def read_ranks(file: InputFile) -> dict[int, float]:
    """The rank in each row, counted from 1, where there is a column of ranks."""
    from karat.read.frames import parquet_numbers

    return parquet_numbers(file.path, "rank")


FORMAT = InputFormat(
    "parquet",
    "Parquet",
    recognise,
    endings=(".parquet", ".pq"),
    gold="columns as in CSV",
    runs="columns as in CSV",
    tables="a column for each field",
    read=read,
    read_table=read_table,
    ranks=read_ranks,
)
