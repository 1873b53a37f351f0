"""Results read back from what `save` wrote."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, shown
from karat.model.queries import Queries
from karat.results.fingerprints import Fingerprints, GoldFingerprint, QueriesFingerprint
from karat.results.result import FORMAT_VERSION, Result, RunResult
from karat.results.sampling import Sampling
from karat.results.version_1 import numbers, read_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


FULL = ("evaluation", "comparison", "check")
"""Kinds of documents that hold a whole result."""


def load(path: str) -> Result:
    """Read back what `save` wrote."""
    return result_from(document_of(path, FULL, "what `--save` wrote"), path)


def result_from(document: dict[str, Any], path: str = "the document") -> Result:
    """The result that a saved document holds, whatever else was made of it."""
    if any("per_query" not in run for run in document["runs"]):
        raise InputError(f"{path}: holds only means; save the full result with --save")
    return result_of(document, [read_run(run) for run in document["runs"]])


def is_saved(source: Any) -> bool:
    """Whether this names a file that Karat wrote: a saved result or a baseline."""
    if not isinstance(source, (str, os.PathLike)) or source == "-" or not os.path.isfile(source):
        return False
    from karat.read.layout import head_of

    head = head_of(os.fspath(source)).lstrip()[:400]
    return head.startswith(b"{") and b'"format_version"' in head and b'"kind"' in head


def load_any(source: str) -> Result:
    """A saved result, or a baseline."""
    from karat.read.layout import head_of

    return load_baseline(source) if b'"baseline"' in head_of(os.fspath(source))[:400] else load(source)


def load_baseline(path: str) -> Result:
    """A blessed result. Nothing else is a baseline: a saved result that nobody blessed is refused."""
    if not os.path.exists(path):
        raise InputError(f"{path}: there is no baseline yet; make one with `karat bless`")
    document = document_of(path, ["baseline"], "what `karat bless` wrote; make one with `karat bless`")
    try:
        (run,) = document["runs"]
        rows = document["values"]
        columns = list(zip(*rows.values(), strict=True)) or [()] * len(run["metrics"])
        values = {name: numbers(column) for name, column in zip(run["metrics"], columns, strict=True)}
        held = run.get("sampling", {})
        sampling = Sampling(**{**held, "by": tuple(map(tuple, held.get("by", ())))})
        found = replace(run_of(run, list(rows), values), sampling=sampling)
        held = _adds_up(document, found)
    except (KeyError, TypeError, ValueError, AttributeError):
        held = False
    if not held:
        raise InputError(
            f"{path}: its values and its means do not agree; it was changed by hand or by a merge; bless again"
        )
    return result_of(document, [found])


def _adds_up(document: dict[str, Any], found: RunResult) -> bool:
    """Whether a baseline holds the queries that its head counts, and values that give the means of its head."""
    (run,) = document["runs"]
    if len(found.query_ids) != run["counts"]["queries"]:
        return False
    # An older file does not hold the weights that its means rest on.
    old = isinstance(document["fingerprints"].get("queries"), str)
    return all(
        found.n[name] == told["n"] and (old or _same(found.mean[name], told["mean"]))
        for name, told in run["metrics"].items()
    )


def _same(value: float, told: float | None) -> bool:
    return math.isnan(value) if told is None else abs(value - told) <= 1e-9 * max(1.0, abs(told))


def document_of(path: str, kinds: Sequence[str], expected: str) -> dict[str, Any]:
    """A JSON document of Karat's, of this kind and version."""
    from karat.read.layout import checked_path, open_bytes

    path = checked_path(os.fspath(path))
    try:
        with open_bytes(path) as file:
            document = json.loads(b"".join(iter(lambda: file.read(1 << 20), b"")))
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path}: is no saved result ({error}); expected {expected}") from None
    if not isinstance(document, dict) or document.get("kind") not in kinds or "runs" not in document:
        found = document.get("kind") if isinstance(document, dict) else None
        told = f"is of kind {shown(found)}" if found else "is no saved result"
        raise InputError(f"{path}: {told}; expected {expected}")
    if document.get("format_version") != FORMAT_VERSION:
        raise InputError(
            f"{path}: has format version {document.get('format_version')!r}, expected {FORMAT_VERSION}; "
            "evaluate again with this version"
        )
    return document


def run_of(run: dict[str, Any], query_ids: Sequence[str], values: dict[str, NDArray[np.float64]]) -> RunResult:
    """One run of a document, with its values."""
    return RunResult(
        run["name"],
        query_ids,
        values,
        run["counts"],
        run.get("facts", {}),
        tuple(run.get("notes", ())),
        level=run.get("gold_level", "doc"),
    )


def result_of(document: dict[str, Any], runs: Sequence[RunResult]) -> Result:
    """The result that these runs of a document make."""
    told: dict[str, Any] = dict(document.get("fingerprints", {}))
    for name, kind in (("gold", GoldFingerprint), ("queries", QueriesFingerprint)):
        if name in told:
            told[name] = kind(told[name]) if isinstance(told[name], str) else kind(**told[name])
    texts: dict[str, str] = document.get("texts", {})
    queries = Queries({q: {"text": t} for q, t in texts.items()}) if texts else None
    return Result(tuple(runs), document.get("conventions", {}), queries, basis=Fingerprints(**told))
