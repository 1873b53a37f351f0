"""JUnit XML, one test case per gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report.files import write_text
from karat.report.formats import Format, Problem

if TYPE_CHECKING:
    from karat.report.view import View


def write(view: View, path: str) -> None:
    from karat.report.junit import render

    write_text(render(view).decode(), path)


def write_error(problem: Problem, path: str) -> None:
    from karat.report.junit import render_error

    write_text(render_error(problem).decode(), path)


FORMAT = Format("junit", "JUnit XML, one test case per gate.", write, write_error, verbs=("check",))
