"""JSON documents: how numbers are written, and files of typed documents written and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karat.store.atomic import encoded, write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
    """Any value that JSON has."""


def rounded(value: float) -> float | None:
    """A number as it is written: 12 significant digits, null for undefined."""
    return None if value != value else float(f"{value:.12g}")


def write_document(document: Any, path: str) -> None:
    """A JSON document on one line; packed if the name ends in .gz."""
    import json

    data = encoded(json.dumps(document, ensure_ascii=False, separators=(",", ":")))
    if path.endswith(".gz"):
        import gzip

        data = gzip.compress(data, mtime=0)
    write_atomically(path, data)
