"""A table for a paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report.files import write_text
from karat.report.formats import EVALUATES, Format, Problem

if TYPE_CHECKING:
    from karat.report.view import View


def write(view: View, path: str) -> None:
    from karat.report.latex import render

    write_text(render(view), path)


def write_error(problem: Problem, path: str) -> None:
    from karat.report.latex import render_error

    write_text(render_error(problem), path)


FORMAT = Format("latex", "A table for a paper.", write, write_error, verbs=(*EVALUATES, "sweep"))
