"""The one way to DuckDB: names quoted, values bound, one statement at a time, and no files but those that are named."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any

from karat.errors import missing_package
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FRAME = "frame"
"""The name of a data frame in SQL."""


class DatabaseError(Exception):
    """What DuckDB says about a statement or a file, in one line."""


@dataclass(frozen=True)
class Selection:
    """Rows that a statement yields: its SQL, the values that it binds by name, and the files that it reads."""

    sql: str
    values: Mapping[str, object] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    def select(self, what: str, rest: str = "") -> Selection:
        """Something of these rows: `SELECT what FROM these rows AS t rest`."""
        return Selection(f"SELECT {what} FROM ({self.sql}) AS t {rest}", self.values, self.files)


def quoted(name: str) -> str:
    """A column's name for SQL, whatever characters it holds."""
    return '"' + name.replace('"', '""') + '"'


def parquet(path: str) -> Selection:
    """The rows of one Parquet file; folders such as `grade=3` add no columns."""
    sql = "SELECT * FROM read_parquet($file, hive_partitioning = false, union_by_name = false)"
    return Selection(sql, {"file": as_pattern(path)}, (path,))


def as_pattern(path: str) -> str:
    """A pattern that matches this file alone: DuckDB takes paths as patterns, and `~` as a home."""
    place = os.path.abspath(path)
    pattern = re.sub(r"[*?\[]", r"[\g<0>]", place)
    if pattern != place and "\\" in place:  # where there is a pattern, DuckDB takes a backslash for a slash
        raise DatabaseError("the path has a backslash and one of * ? [ in it: rename the file or its folder")
    return pattern


class Database:
    """A database in memory that can read the named files, a frame, and one folder of its own, and nothing else."""

    def __init__(
        self,
        files: Sequence[str] = (),
        *,
        folder: str | None = None,
        memory: str | None = None,
        threads: int | None = None,
    ) -> None:
        try:
            import duckdb
        except ImportError:
            raise missing_package("reading this", "duckdb") from None
        self._module = duckdb
        config: dict[str, str | bool | int | float | list[str]] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
        }
        if memory is not None:
            config["memory_limit"] = memory
        if threads is not None:
            config["threads"] = threads
        if folder is not None:
            config["temp_directory"] = folder
        self._connection = duckdb.connect(":memory:", config=config)
        paths = [place for path in files for place in dict.fromkeys((os.path.abspath(path), as_pattern(path)))]
        self._connection.execute(f"SET allowed_paths = [{', '.join(map(_literal, paths))}]")
        if folder is not None:
            places = dict.fromkeys((os.path.abspath(folder), as_pattern(folder)))
            self._connection.execute(f"SET allowed_directories = [{', '.join(map(_literal, places))}]")
        self._connection.execute("SET enable_external_access = false")

    @classmethod
    def for_frames(cls) -> Database:
        """A database for one frame and no files, in one thread: opening one takes longer than reading a small frame.

        All share what is opened once. None sees the frame of another, which is known to its own connection alone.
        """
        database = cls.__new__(cls)
        database._module = _open_for_frames()._module
        database._connection = _open_for_frames()._connection.cursor()
        return database

    def register(self, frame: object) -> Selection:
        """Make a data frame known; raises what DuckDB raises for an object that is not one."""
        if isinstance(frame, self._module.DuckDBPyRelation) or not is_pandas(frame):
            frame = _Stream(frame)
        self._connection.register(FRAME, frame)
        return Selection(f"SELECT * FROM {FRAME}")

    def set_if_known(self, name: str, value: str) -> None:
        """Change a setting that not every version of DuckDB has."""
        with suppress(DatabaseError):
            self.run(f"SET {name} = {value}")

    def run(self, sql: str, values: Mapping[str, object] | None = None) -> None:
        """Run one statement for what it does."""
        self._execute(sql, values or {})

    def columns(self, rows: Selection) -> dict[str, str]:
        """The names and types of the columns."""
        described = self._execute(f"DESCRIBE {rows.sql}", rows.values).fetchall()
        return {str(name): str(type_) for name, type_, *_ in described}

    def parquet_size(self, path: str) -> int:
        """The bytes that a Parquet file says to unpack to; at least 8 per row, since equal ones take no room in it."""
        sql = (
            "SELECT (SELECT 8 * sum(num_rows) FROM parquet_file_metadata($file)), "
            "(SELECT sum(total_uncompressed_size) FROM parquet_metadata($file))"
        )
        (sizes,) = self.fetch(Selection(sql, {"file": as_pattern(path)}, (path,)))
        return max(int(size or 0) for size in sizes)

    def fetch(self, rows: Selection | str) -> list[tuple[Any, ...]]:
        """All rows."""
        rows = rows if isinstance(rows, Selection) else Selection(rows)
        with _in_one_line():
            found: list[tuple[Any, ...]] = self._execute(rows.sql, rows.values).fetchall()
        return found

    def named_rows(self, rows: Selection) -> Iterator[dict[str, object]]:
        """The rows one by one, each with its fields by name."""
        result = self._execute(rows.sql, rows.values)
        names = [str(column[0]) for column in result.description]
        while True:
            with _in_one_line():
                batch = result.fetchmany(10_000)
            if not batch:
                return
            for row in batch:
                yield dict(zip(names, row, strict=True))

    def batches(self, rows: Selection, size: int = 0) -> Iterator[Any]:
        """The rows as Arrow batches, of about so many rows where this version of DuckDB can make them as small."""
        import nanoarrow

        self._check(rows.sql)
        with _in_one_line():
            relation = self._connection.sql(rows.sql, params=dict(rows.values) or None)
            with nanoarrow.c_array_stream(_in_small_batches(relation, size) if size else relation) as stream:
                yield from stream

    def write_parquet(self, rows: Selection, path: str) -> None:
        """Write rows to a file in the folder of this database."""
        self._execute(f"COPY ({rows.sql}) TO {_literal(path)} (FORMAT parquet)", rows.values)

    def attach(self, path: str, name: str) -> None:
        """Keep tables of this name in a file, in the folder of this database."""
        self._execute(f"ATTACH {_literal(path)} AS {quoted(name)}", {})

    def _check(self, sql: str) -> Any:
        with _in_one_line():
            statements = self._connection.extract_statements(sql)
        if len(statements) != 1:
            raise DatabaseError(f"{len(statements)} statements, expected one")
        return statements[0]

    def _execute(self, sql: str, values: Mapping[str, object]) -> Any:
        statement = self._check(sql)
        with _in_one_line():
            return self._connection.execute(statement, dict(values) or None)


@cache
def _open_for_frames() -> Database:
    return Database(threads=1)


def _in_small_batches(relation: Any, size: int) -> Any:
    """The Arrow stream of a relation with batches of about so many rows.

    What DuckDB gives everybody without pyarrow has at least 131,072: version 2.0 knows smaller ones inside. Where it
    does not, or no longer, its own stream is as good, and larger.
    """
    try:
        return relation._submit("stream", size).arrow_capsule()
    except (AttributeError, TypeError):
        return relation


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Errors of DuckDB as ours, so that nobody else has to know it."""
    import duckdb

    try:
        yield
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise DatabaseError((str(error).splitlines() or [""])[0]) from None


def _literal(text: str) -> str:
    """A text where DuckDB binds no values: settings, and the places of files that it writes."""
    return "'" + text.replace("'", "''") + "'"


def is_pandas(value: object) -> bool:
    """Whether this is a frame of pandas, which DuckDB scans itself."""
    return type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "columns")


class _Stream:
    """Passes on nothing but the Arrow stream of a frame, so that no other package is needed."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)
