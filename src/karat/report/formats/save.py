"""The full result, to be read back by later verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report.formats import Format

if TYPE_CHECKING:
    from karat.report.formats import Problem
    from karat.report.view import View


def write(view: View, path: str) -> None:
    """Every query's values, the lists and what they rest on; packed where the name ends in .gz."""
    from karat.verbs.sweep import Sweep

    assert not isinstance(view.source, Sweep)
    view.source.save(path)


def write_error(problem: Problem, path: str) -> None:
    """A document that holds no result, and says why."""
    from karat.results.result import FORMAT_VERSION
    from karat.store.codec import write_document

    write_document({"format_version": FORMAT_VERSION, "kind": "error", "error": list(problem.messages)}, path)


FORMAT = Format("save", "The full result, with lists, for later verbs.", write, write_error, prints=False, details=True)
