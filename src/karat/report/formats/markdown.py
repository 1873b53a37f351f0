"""A comment for a pull request, or a table for a README."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report.files import write_text
from karat.report.formats import EVALUATES, Format, Problem

if TYPE_CHECKING:
    from karat.report.view import View


def write(view: View, path: str) -> None:
    from karat.report.markdown import render

    write_text(render(view), path)


def write_error(problem: Problem, path: str) -> None:
    from karat.report.markdown import render_error

    write_text(render_error(problem), path)


FORMAT = Format(
    "markdown",
    "A comment for a pull request, or a table for a README.",
    write,
    write_error,
    verbs=(*EVALUATES, "sweep", "plan", "reliability"),
)
