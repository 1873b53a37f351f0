"""Reports from files: a saved result, with texts of queries and docs where they are given."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from karat.model.policy import SEPARATOR
from karat.read.docs import read_docs
from karat.read.queries import read_queries
from karat.report.html.page import write_page
from karat.results.saved import FULL, document_of, result_from
from karat.verbs.diagnose import diagnose

if TYPE_CHECKING:
    from collections.abc import Mapping


def write_report(result: Any, output: str = "report.html", *, queries: Any = None, docs: Any = None) -> str:
    """Write the report of a result, a comparison or a check, or of the file that one was saved in; returns its path.

    `queries` and `docs` are tables whose texts are shown. For ranked lists the result must hold them
    (`details=True`, `--save`).
    """
    if isinstance(result, (str, os.PathLike)):
        document: Mapping[str, Any] = document_of(os.fspath(result), FULL, "what `--save` wrote")
    else:
        document = result.full_json()
    if queries is not None:
        document = {**document, "texts": {**document.get("texts", {}), **read_queries(queries).texts}}
    if "diagnosis" not in document and any(run.get("lists") for run in document["runs"]):
        document = {**document, "diagnosis": _diagnosis(document)}
    separator = document.get("conventions", {}).get("separator", SEPARATOR)
    write_page(document, output, docs=read_docs(docs, separator=separator) if docs is not None else None)
    return output


def _diagnosis(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the rules find in the run that is judged, as far as a saved result can tell."""
    base = (document.get("baseline") or {}).get("name")
    names = [run["name"] for run in document["runs"]]
    judged = [n for n in document.get("candidates") or names if n != base] or names
    return diagnose(result_from(dict(document)), judged[0]).as_json()
