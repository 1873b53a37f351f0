"""A table of every query's values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report.files import TABLES, write_per_query, write_rows
from karat.report.formats import Format, Problem

if TYPE_CHECKING:
    from karat.report.view import View


def write(view: View, path: str) -> None:
    """One row per run, query and metric; the name's ending chooses the kind."""
    write_per_query(view.result, path)


def write_error(problem: Problem, path: str) -> None:
    """A table without rows."""
    write_rows((), path)


FORMAT = Format(
    "per_query", "Every query's values (.csv, .jsonl, .parquet).", write, write_error, endings=TABLES, prints=False
)
