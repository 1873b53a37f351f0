"""Reports from files: a saved result, with texts of queries and docs where they are given."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from karat.read.queries import read_queries
from karat.report.html.page import write_page
from karat.results.saved import FULL, document_of, result_from
from karat.verbs.diagnose import diagnose

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.model.queries import Queries


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
        known = read_queries(queries).field("text")
        document = {**document, "texts": {**document.get("texts", {}), **{q: str(t) for q, t in known.items()}}}
    if "diagnosis" not in document and any(run.get("lists") for run in document["runs"]):
        document = {**document, "diagnosis": _diagnosis(document)}
    write_page(document, output, docs=doc_texts(read_queries(docs)) if docs is not None else None)
    return output


def _diagnosis(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the rules find in the run that is judged, as far as a saved result can tell."""
    base = (document.get("baseline") or {}).get("name")
    names = [run["name"] for run in document["runs"]]
    judged = [n for n in document.get("candidates") or names if n != base] or names
    return diagnose(result_from(dict(document)), judged[0]).as_json()


def doc_texts(table: Queries) -> dict[str, str]:
    """Title and text of each doc, as a reader wants them."""
    out = {}
    for doc, fields in table.fields.items():
        parts = [str(fields[n]) for n in ("title", "text", "contents", "body", "passage") if fields.get(n)]
        if parts:
            out[doc] = ". ".join(parts)
    return out
