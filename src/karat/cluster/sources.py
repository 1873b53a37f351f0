"""Runs and gold where a cluster has them: tables, Parquet, text, frames of Spark."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from karat.cluster.errors import spark_errors
from karat.cluster.remote_run import FIRST, RemoteRun
from karat.cluster.worker import Source
from karat.errors import InputError
from karat.model.run import OrderedLists, Run, Table
from karat.read.files import InputFile, first_line, is_run_log
from karat.read.formats import all_formats, recognise_format
from karat.read.frames import frame_rows, is_spark_frame
from karat.read.layout import lines_of, table_layout
from karat.read.sources import run_from_file, run_name
from karat.read.textfile import TextFile

if TYPE_CHECKING:
    from karat.model.engine import Engine
    from karat.model.policy import Policy

_TABLE = re.compile(r"(?:[\w-]+|`[^`]+`)(?:\.(?:[\w-]+|`[^`]+`)){0,2}")
HEAD_LINES = 1_000
"""Lines from which the format and the columns of a text are told."""


def is_elsewhere(source: object) -> bool:
    """Whether the cluster has this, and not this machine: a frame, a table, an address."""
    if is_spark_frame(source):
        return True
    if not isinstance(source, (str, os.PathLike)) or source == "-":
        return False
    path = os.fspath(source)
    return not os.path.exists(path)


def is_table_or_parquet(source: object) -> bool:
    """Whether a cluster reads this as columns: a frame, a table or Parquet."""
    if is_spark_frame(source):
        return True
    if not isinstance(source, (str, os.PathLike)):
        return False
    place = os.fspath(source)
    return place != "-" and (_is_table(place) or _is_parquet(place))


def open_frame(session: Any, source: Any) -> tuple[Any, str]:
    """The frame of a table, of Parquet or of a frame, and its name."""
    return _open(session, source, None)[0], "the gold" if is_spark_frame(source) else os.fspath(source)


def fetch(session: Any, source: Any, what: str) -> Any:
    """A small table that the cluster has, such as the gold: as a frame, or as a file."""
    if not is_elsewhere(source):
        return source
    frame, text = _open(session, source, None)
    with spark_errors(what if is_spark_frame(source) else os.fspath(source)):
        table = frame.toArrow()
    if not text:
        return table
    lines = table.column(0).to_pylist()
    data = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    return InputFile(os.fspath(source), data, data)


def open_run(session: Any, source: Any, name: str | None, format: str | None, policy: Policy, engine: Engine) -> Run:
    """A run on the cluster; a run log is brought here, since what metrics ask of it is in its lines."""
    where = name or "run" if is_spark_frame(source) else os.fspath(source)
    name = name or ("run" if is_spark_frame(source) else run_name(where.rstrip("/")))
    frame, text = _open(session, source, format)
    if not text:
        return _columns(session, frame, where, name, policy, engine)
    return _text(session, frame, where, name, format, policy, engine)


def _open(session: Any, source: Any, format: str | None) -> tuple[Any, bool]:
    """The frame of a source, and whether it holds lines of text."""
    if is_spark_frame(source):
        return source, False
    place = os.fspath(source)
    with spark_errors(place):
        if _is_table(place):
            frame = session.table(place)
            frame.schema  # noqa: B018  (a table that is not there is told here)
            return frame, False
        path = os.path.abspath(place) if os.path.exists(place) else place
        parquet = format == "parquet" or (format is None and _is_parquet(path))
        frame = session.read.parquet(path) if parquet else session.read.text(path)
        if not frame.schema.fields:
            raise InputError(f"{place}: no such file where the cluster looks")
        return frame, not parquet


def _is_table(place: str) -> bool:
    endings = {ending for one in all_formats().values() for ending in one.endings}
    named = os.path.splitext(place)[1].lower() in endings or os.path.exists(place)
    return not named and _TABLE.fullmatch(place) is not None


def _is_parquet(path: str) -> bool:
    if os.path.isdir(path):
        return any(name.endswith(".parquet") for name in os.listdir(path))
    if os.path.isfile(path):
        with open(path, "rb") as file:
            return file.read(4) == b"PAR1"
    return path.rstrip("/").endswith(".parquet")


def _columns(session: Any, frame: Any, where: str, name: str, policy: Policy, engine: Engine) -> Run:
    from pyspark.sql import functions as sql

    with spark_errors(where):
        head = frame.limit(FIRST).toArrow()
    table = frame_rows(head, "run", where)
    rows = table.first_rows()
    if not len(rows):
        raise InputError(f"{where}: has no rows, expected at least one")
    names = frame.columns
    layout = table_layout(where, "run", [column.lower() for column in names])
    places = {"query": layout.query, "doc": layout.doc, "value": layout.value, "parent": layout.parent}
    kinds = {"value": "double"}
    chosen = [
        sql.col(f"`{names[place]}`").cast(kinds.get(idea, "string")).alias(idea)
        for idea, place in places.items()
        if place is not None
    ]
    source = Source(where, "columns", layout.parent is not None)
    mark = policy.separator
    content = RemoteRun(session, frame.select(*chosen), source, mark, rows, engine.watch, engine.explain)
    return Run(name, content, notes=table.notes, names_docs=layout.names_docs)


def _text(session: Any, frame: Any, where: str, name: str, format: str | None, policy: Policy, engine: Engine) -> Run:
    frame = frame.select("value")
    with spark_errors(where):
        lines = [row[0] for row in frame.limit(HEAD_LINES).collect()]
    if not lines:
        raise InputError(f"{where}: is empty, or no such file where the cluster looks")
    head = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    file = InputFile(where, head, head)
    form = all_formats().get(format) if format is not None else recognise_format(file, "run")
    assert form is not None
    if form.name == "jsonl" and is_run_log(first_line(head)):
        with spark_errors(where):
            table = frame.toArrow()
        data = "".join(f"{line}\n" for line in table.column(0).to_pylist()).encode("utf-8", "surrogateescape")
        log = run_from_file(InputFile(where, data, data), name, form.name, policy.separator, None)
        assert not isinstance(log, Run)
        return Run(name, OrderedLists({}), log=log)  # whoever reads it chooses the lists
    if form.name not in ("trec", "csv", "tsv", "jsonl"):
        raise InputError(f"{where}: {form.title} is read on one machine alone; store the run as Parquet or as lines")
    run = run_from_file(file, name, form.name, policy.separator, None)
    assert isinstance(run, Run)
    if isinstance(run.content, TextFile):
        layout = run.content.layout
        header = next(lines_of(head), (0, ""))[1] if layout.header else None
        source = Source(where, "text", layout.parent is not None, layout, header)
        rows = run.content.everything()
    else:
        assert isinstance(run.content, Table)
        rows = run.content.rows
        chunks = frame.filter(frame["value"].contains('"chunk_id"')).limit(1).count() > 0
        run = replace(run, names_docs=not chunks)
        source = Source(where, "jsonl", chunks)
    content = RemoteRun(session, frame, source, policy.separator, rows, engine.watch, engine.explain)
    return replace(run, content=content, path=None)
