"""Tables of docs: BEIR's corpus.jsonl, CSV, TSV, Parquet, frames; whole docs, or chunks that name their doc."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from karat.errors import shown
from karat.model.docs import Docs
from karat.model.policy import SEPARATOR
from karat.read.columns import DOCS
from karat.read.objects import text_id
from karat.read.problems import Problems
from karat.read.queries import read_table

PARENT = "doc_id"
"""The field that names the doc of a chunk, where another field is the id."""


def read_docs(source: Any, *, separator: str = SEPARATOR) -> Docs:
    """The table of docs from a path, a frame, a dict of texts or fields by id, or what is one already."""
    if isinstance(source, Docs):
        return replace(source, separator=separator)
    table = read_table(source, DOCS)
    problems, parents = Problems(table.source), {}
    for doc, value in table.field(PARENT).items():
        parent = text_id(value)
        if parent is None:
            problems.add(table.lines.get(doc), f"{PARENT} must be text or an integer, found {shown(value)}")
        elif parent != doc:
            parents[doc] = parent
    problems.check()
    return Docs(table.fields, parents, table.source, separator)
