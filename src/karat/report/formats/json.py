"""The result as one JSON document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from karat.report.files import write_json, write_text
from karat.report.formats import EVALUATES, Format, Problem

if TYPE_CHECKING:
    from karat.report.view import View


def write(view: View, path: str) -> None:
    """The document of whichever verb."""
    write_json(view.source, path)


def write_error(problem: Problem, path: str) -> None:
    """A document without a verdict."""
    from karat.results.result import FORMAT_VERSION

    document = {"format_version": FORMAT_VERSION, "kind": "check", "verdict": None, "error": list(problem.messages)}
    write_text(json.dumps(document, ensure_ascii=False, indent=2) + "\n", path)


FORMAT = Format("json", "The result as JSON.", write, write_error, verbs=(*EVALUATES, "sweep", "plan", "reliability"))
