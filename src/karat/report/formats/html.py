"""The report: one HTML file that works offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report.files import write_text
from karat.report.formats import Format, Problem

if TYPE_CHECKING:
    from karat.report.view import View


def write(view: View, path: str) -> None:
    """The report, with the texts of queries and docs where their tables are known."""
    from karat.report.html.write import write_report

    write_report(view.record, path, **view.tables)


def write_error(problem: Problem, path: str) -> None:
    """A page that says only what went wrong."""
    from html import escape

    lines = "".join(f"<li>{escape(text)}</li>" for text in problem.messages)
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>No result · Karat</title>'
    write_text(f"{head}<h1>No result: the last run ended with an error</h1><ul>{lines}</ul></html>\n", path)


FORMAT = Format("html", "The report, one HTML file.", write, write_error, prints=False, details=True, expendable=True)
