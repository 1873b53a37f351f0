"""The full result, to be read back by later verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report.formats import Format, Problem

if TYPE_CHECKING:
    from karat.report.view import View


def write(view: View, path: str) -> None:
    """Every query's values, the lists and what they rest on; packed where the name ends in .gz."""
    view.record.save(path)


def write_error(problem: Problem, path: str) -> None:
    """A document that holds no result, and says why."""
    from karat.results.document import ErrorJson
    from karat.results.result import FORMAT_VERSION
    from karat.store.codec import write_document

    write_document(ErrorJson(list(problem.messages), FORMAT_VERSION), path)


FORMAT = Format("save", "The full result, with lists, for later verbs.", write, write_error, prints=False, details=True)
