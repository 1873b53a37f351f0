"""Saved documents as tests look at them: what they say of each query, as records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import karat
from karat.results.saved import Saved, full_document, load_saved, read_saved
from karat.store.atomic import encoded
from karat.store.codec import as_plain

BY_QUERY = ("query_ids", "per_query", "lists")


def saved_document(found: karat.Result | karat.Comparison | karat.Check) -> dict[str, Any]:
    """What `save` writes, to be changed by a test."""
    result = found if isinstance(found, karat.Result) else found.result
    document: dict[str, Any] = json.loads(json.dumps(as_plain(full_document(found.document(), result))))
    return document


def read_document(document: dict[str, Any]) -> Saved:
    """What a document holds that a test has changed; what `records` added is left out."""
    runs = [{key: value for key, value in run.items() if key not in BY_QUERY} for run in document["runs"]]
    return read_saved(encoded(json.dumps({**document, "runs": runs})), "document")


def records(path: Path) -> dict[str, Any]:
    """The document in a file, with each run's values and lists by query."""
    saved = load_saved(str(path))
    document = as_plain(saved.document)
    for run, head in zip(saved.result.runs, document["runs"], strict=True):
        head["query_ids"] = list(run.query_ids)
        head["per_query"] = {name: list(run.per_query(name).values()) for name in run.values}
        head["lists"] = {
            q: {"top": [d._asdict() for d in run.top_docs(q)], "gold": [d._asdict() for d in run.gold_docs(q)]}
            for q in run.query_ids
        }
    return document
