"""Reports from results: of an object, or of the file that it was saved in, with texts of queries and docs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from karat.model.dates import utc_now
from karat.model.policy import SEPARATOR
from karat.read.docs import read_docs
from karat.read.queries import read_queries
from karat.report.html.page import rendered
from karat.report.html.sections import page_of
from karat.report.html.source import Source, source_of
from karat.store.atomic import write_atomically
from karat.store.garbage import without_collection
from karat.verbs.diagnose import Diagnosis, diagnose

if TYPE_CHECKING:
    import os

    from karat.results.result import Result
    from karat.verbs.check import Check
    from karat.verbs.compare import Comparison

DIAGNOSED = 12
"""Runs that are diagnosed, the judged ones first."""


@without_collection()
def write_report(
    result: Result | Comparison | Check | str | os.PathLike[str],
    output: str = "report.html",
    *,
    queries: Any = None,
    docs: Any = None,
) -> str:
    """Write the report of a result, a comparison or a check, or of the file that one was saved in; returns its path.

    `queries` and `docs` are tables whose texts are shown. For ranked lists the result must hold them
    (`details=True`, `--save`).
    """
    source = source_of(result)
    if queries is not None:
        ids = [q for run in source.result.runs for q in run.query_ids]
        source = replace(source, texts=read_queries(queries).with_ids_of(ids).texts)
    provenance = source.result.provenance
    time = provenance.time if provenance is not None else utc_now()
    source = replace(source, time=time, diagnoses=_diagnoses(source))
    separator = str(source.result.conventions.get("separator", SEPARATOR))
    page = page_of(source, docs=read_docs(docs, separator=separator) if docs is not None else None)
    write_atomically(output, rendered(page))
    return output


def _diagnoses(source: Source) -> tuple[Diagnosis, ...]:
    """What the rules find in each run that holds its lists, but for the baseline."""
    runs = [r for r in source.result.runs if r.top is not None and not r.is_without_gold]
    candidates = [r for r in runs if r.name != source.base] or runs
    candidates.sort(key=lambda r: r.name not in source.candidates)
    return tuple(diagnose(source.result, r.name) for r in candidates[:DIAGNOSED])
