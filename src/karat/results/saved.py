"""Results in files: what `save` writes, and what reads it back, baselines included."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING

from karat.errors import InputError, UsageError, path_text, shown
from karat.records import dataclass
from karat.results.components import read_components
from karat.store.garbage import without_collection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.results.document import DocumentJson, FingerprintsJson, RunJson
    from karat.results.fingerprints import Fingerprints
    from karat.results.format_1 import OldDocument
    from karat.results.record import RecordReader, RunRecordJson
    from karat.results.result import Result, RunResult

FULL = ("evaluation", "comparison", "check")
"""Kinds of documents that hold a whole result."""
CHANGED = "it was changed by hand or by a merge"
NOT_BLESSED = "the baseline does not exist yet; make one with"
WRITTEN = "what `--save` writes, such as: karat evaluate QRELS RUN --save result.json"
SLACK = 1e-9
"""How far rounding may carry a value beyond the bounds of its metric."""
HEAD = 400
"""The bytes in which a saved result says that it is one."""
HEAD_OF_LOG = 1 << 16
"""The bytes in which the first line of a run log names its results."""


@dataclass(frozen=True)
class Saved:
    """What a file holds: a result, and the document around it, with comparisons and gates where there are any."""

    result: Result
    document: DocumentJson
    baseline: RunResult | None = None
    """What a check compared with, where that is none of the result's runs."""


@without_collection()
def save(
    document: DocumentJson, result: Result, path: str, *, label: str = "", baseline: RunResult | None = None
) -> None:
    """Write a document with the full result in it, to be read back by `load`. A name that ends in .gz is packed.

    A `baseline` that is none of the result's runs is written too: its file may be blessed anew, or be elsewhere.
    """
    from karat.store.codec import write_document

    write_document(full_document(document, result, label=label, baseline=baseline), path)


def full_document(
    document: DocumentJson, result: Result, *, label: str = "", baseline: RunResult | None = None
) -> DocumentJson:
    """A document with the full result in it."""
    from msgspec import UNSET, structs

    from karat.results.provenance import find_provenance
    from karat.results.record import write_record

    alone = baseline if baseline is not None and not any(run is baseline for run in result.runs) else None
    runs = document.runs or []
    base = document.baseline
    if alone is None:
        shared, records = write_record(result)
    else:
        shared, (*records, own) = write_record(replace(result, runs=(*result.runs, alone)))
        heads = replace(result, runs=(alone,)).document().runs or []
        base = structs.replace(base, run=structs.replace(heads[0], record=own)) if base else base
    return structs.replace(
        document,
        baseline=base,
        provenance=result.provenance or find_provenance(label),
        runs=[
            structs.replace(head, record=record, ranked_lists=run.lists_digest or UNSET)
            for head, run, record in zip(runs, result.runs, records, strict=True)
        ],
        record=shared,
    )


def load(path: str | os.PathLike[str]) -> Result:
    """Read back what `save` wrote."""
    return load_saved(path_text(path, "path")).result


def result_of(source: Result | str | os.PathLike[str], verb: str) -> Result:
    """A result, or that of the file in which one was saved; one run of a result is refused."""
    from karat.results.result import Result, RunResult

    if isinstance(source, Result):
        return source
    if isinstance(source, RunResult):
        raise UsageError(f"{verb} takes a result, found one run of it; give the result, and run={source.name!r}")
    return load(source)


def load_saved(path: str) -> Saved:
    """Read back what `save` wrote, with what it says of comparisons and gates."""
    path, data = _content(path, WRITTEN)
    return read_saved(data, path)


@without_collection()
def read_saved(data: bytes, path: str) -> Saved:
    """What the bytes of a saved file hold; `path` names them in messages."""
    from msgspec import UNSET

    from karat.results.format_1 import read_run
    from karat.results.record import RecordReader

    document, old = _document(data, path, FULL, WRITTEN)
    heads = document.runs or []
    try:
        if old is not None:
            if any("per_query" not in run for run in old["runs"]):
                raise _means_only(path)
            runs = [_with_head(read_run(run), head) for run, head in zip(old["runs"], heads, strict=True)]
            _check_runs(runs, heads)
            return Saved(_result(document, runs, texts=old.get("texts", {})), document)
        if document.record is UNSET:
            raise _means_only(path)
        reader = RecordReader(document.record, document.conventions or {})
        runs = []
        for head in heads:
            if head.record is UNSET:
                raise _means_only(path)
            run = _with_head(reader.run(head.name, head.record), head)
            runs.append(_with_judge(run, head, head.record))
        _check_runs(runs, heads)
        result = _result(document, runs)
        return Saved(replace(result, queries=reader.queries), document, _baseline(document, reader))
    except InputError:
        raise
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise _damaged(path, error) from None


def _baseline(document: DocumentJson, reader: RecordReader) -> RunResult | None:
    """The baseline that a saved check holds beside its runs."""
    head = document.baseline.run if document.baseline else None
    if not head or not head.record:
        return None
    run = _with_head(reader.run(head.name, head.record), head)
    _check_runs([run], [head])
    return run


def _check_runs(runs: Sequence[RunResult], heads: Sequence[RunJson]) -> None:
    """Refuse values that no metric can have, and means that do not follow from the values."""
    if not runs:
        raise ValueError("it holds no runs")
    for run, head in zip(runs, heads, strict=True):
        check_values(run)
        if set(head.metrics) != set(run.values):
            raise ValueError(f"the metrics of {run.name} are not those that it has values of")
        for name, estimate in head.metrics.items():
            if run.n[name] != estimate.n or not _same(run.mean[name], estimate.mean):
                raise ValueError(f"the values of {name} of {run.name} do not give its mean")
    if len({run.name for run in runs}) < len(runs):
        raise ValueError("two runs have the same name")


def check_values(run: RunResult) -> None:
    """Raise ValueError where a query appears twice, or a value lies outside the bounds of its metric."""
    import numpy as np

    from karat.metrics.grammar import parse

    if len(set(run.query_ids)) < len(run.query_ids):
        raise ValueError(f"a query of {run.name} appears twice")
    for name, values in run.values.items():
        low, high = parse(name).metric.bounds
        outside = np.flatnonzero((values < low - SLACK) | (values > (math.inf if high is None else high + SLACK)))
        outside = outside if len(outside) else np.flatnonzero(np.isinf(values))
        if len(outside):
            upper = "any finite number" if high is None else f"{high:g}"
            raise ValueError(
                f"{name} of query {shown(run.query_ids[outside[0]])} is {values[outside[0]]:g}, "
                f"expected {low:g} to {upper}"
            )


def _means_only(path: str) -> InputError:
    return InputError(
        f"{path}: holds figures without their queries, as --json writes them; save the full result: --save FILE"
    )


def _damaged(path: str, error: Exception, remedy: str = "evaluate again with --save FILE") -> InputError:
    return InputError(f"{path}: is damaged ({error}); {remedy}")


def _with_head(run: RunResult, head: RunJson) -> RunResult:
    """A run with what the head of its document says of it."""
    return replace(
        run,
        name=head.name,
        counts=head.counts,
        facts=head.facts or {},
        data_notes=tuple(head.notes or ()),
        mismatches=tuple(head.mismatches or ()),
        level=head.gold_level or "doc",
        components=read_components(head.name, head.components) if head.components else None,
        lists_digest=head.ranked_lists or None,
    )


def _with_judge(run: RunResult, head: RunJson, record: RunRecordJson) -> RunResult:
    """A run with what its judge makes of it, where it has one."""
    from karat.results.by_judge_document import read_by_judge

    if not head.by_judge or not record.by_judge:
        return run
    return replace(run, by_judge=read_by_judge(head.by_judge, record.by_judge, len(run.query_ids)))


def _result(document: DocumentJson, runs: Sequence[RunResult], texts: Mapping[str, str] | None = None) -> Result:
    from karat.model.queries import Queries
    from karat.results.by_judge_document import read_judge
    from karat.results.result import Result

    queries = Queries({q: {"text": t} for q, t in texts.items()}) if texts else None
    basis = _fingerprints(document.fingerprints or None)
    return Result(
        tuple(runs),
        document.conventions or {},
        queries,
        judge=read_judge(document.judge) if document.judge else None,
        basis=basis,
        provenance=document.provenance or None,
    )


def _fingerprints(prints: FingerprintsJson | None) -> Fingerprints:
    from karat.results.fingerprints import Fingerprints, GoldFingerprint, QueriesFingerprint

    if prints is None:
        return Fingerprints()
    gold, queries = prints.gold, prints.queries
    return Fingerprints(
        GoldFingerprint(gold.hash, gold.queries or None, gold.judgments or None) if gold else None,
        QueriesFingerprint(queries.hash, queries.queries or None, queries.fields or {}) if queries else None,
        prints.corpus or None,
        prints.embeddings or {},
        prints.metrics,
        prints.ontologies or {},
        prints.judge or None,
    )


def is_saved(source: object) -> bool:
    """Whether this names a file that Karat wrote: a saved result or a baseline."""
    if not isinstance(source, (str, os.PathLike)) or source == "-" or not os.path.isfile(source):
        return False
    from karat.read.files import read_head

    head = read_head(os.fspath(source)).lstrip()[:HEAD]
    return head.startswith(b"{") and b'"format_version"' in head and b'"kind"' in head


def load_any(source: str) -> Result:
    """A saved result, or a baseline."""
    from karat.read.files import read_head

    return load_baseline(source) if b'"baseline"' in read_head(os.fspath(source))[:HEAD] else load(source)


def load_baseline(path: str) -> Result:
    """A blessed result. Nothing else is a baseline: a saved result that nobody blessed is refused."""
    from karat.results.format_1 import numbers
    from karat.results.record import read_sampling
    from karat.results.result import RunResult
    from karat.results.sampling import Sampling

    if not os.path.exists(path):
        raise InputError(f"{path}: {NOT_BLESSED} `karat bless -o {quote(path)}`")
    expected = "what `karat bless` writes; make one with `karat bless`"
    path, data = _content(path, expected)
    document, _ = _document(data, path, ["baseline"], expected)
    try:
        (head,) = document.runs or []
        rows = document.values or {}
        columns = list(zip(*rows.values(), strict=True)) or [()] * len(head.metrics)
        values = {name: numbers(column) for name, column in zip(head.metrics, columns, strict=True)}
        sampling = read_sampling(head.sampling) if head.sampling else Sampling()
        run = _with_head(RunResult(head.name, list(rows), values, head.counts, sampling=sampling), head)
        check_values(run)
        consistent = _adds_up(document, head, run)
    except (KeyError, TypeError, ValueError, OverflowError):
        consistent = False
    if not consistent:
        raise InputError(f"{path}: its values and its means do not agree; {CHANGED}; bless again")
    return _result(document, [run])


def _adds_up(document: DocumentJson, head: RunJson, run: RunResult) -> bool:
    """Whether a baseline holds the queries that its head counts, and values that give the means of its head.

    Metrics of what a run says itself are over queries without gold too, which the count leaves out.
    """
    if len(run.query_ids) < head.counts["queries"]:
        return False
    # A file of the oldest version, with a bare hash, does not hold the weights that its means rest on.
    queries = _fingerprints(document.fingerprints or None).queries
    old = queries is not None and queries.queries is None
    return all(
        run.n[name] == estimate.n and (old or _same(run.mean[name], estimate.mean))
        for name, estimate in head.metrics.items()
    )


def _same(value: float, stored: float | None) -> bool:
    return math.isnan(value) if stored is None else abs(value - stored) <= 1e-9 * max(1.0, abs(stored))


def _content(path: str, expected: str) -> tuple[str, bytes]:
    """A file's path as messages name it, and its bytes, unpacked."""
    from karat.read.files import check_path, open_bytes

    path = check_path(os.fspath(path))
    try:
        size = os.path.getsize(path) if os.path.isfile(path) else 0
        with open_bytes(path) as file:  # what is not packed is one piece, which is not copied
            return path, b"".join(iter(lambda: file.read(max(size, 1 << 20)), b""))
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path}: is not a saved result ({error}); expected {expected}") from None


def _document(data: bytes, path: str, kinds: Sequence[str], expected: str) -> tuple[DocumentJson, OldDocument | None]:
    """A document of one of these kinds, and what only format version 1 had in it."""
    from msgspec import ValidationError

    from karat.read.files import is_run_log
    from karat.results.document import DocumentJson, HeadJson
    from karat.results.format_1 import upgrade
    from karat.results.result import FORMAT_VERSION
    from karat.store.codec import decode

    try:
        head = decode(data, HeadJson)
    except (ValueError, RecursionError):
        if b'"format_version"' in data[:HEAD]:
            remedy = "bless again" if "baseline" in kinds else "evaluate again with --save FILE"
            raise InputError(f"{path}: is damaged: the JSON breaks off or is not JSON; {remedy}") from None
        about = "is a run log, not a saved result" if is_run_log(data[:HEAD_OF_LOG]) else "is not a saved result"
        raise InputError(f"{path}: {about}; expected {expected}") from None
    if head.kind not in kinds or head.runs is None:
        about = f"is of kind {shown(head.kind)}" if head.kind else "is not a saved result"
        raise InputError(f"{path}: {about}; expected {expected}")
    if head.format_version not in (1, FORMAT_VERSION):
        raise InputError(
            f"{path}: has format version {head.format_version!r}, expected {FORMAT_VERSION}; "
            "evaluate again with this version"
        )
    try:
        return upgrade(data) if head.format_version == 1 else (decode(data, DocumentJson), None)
    except (ValidationError, RecursionError, UnicodeDecodeError) as error:
        remedy = f"{CHANGED}; bless again" if head.kind == "baseline" else "evaluate again with --save FILE"
        raise _damaged(path, error, remedy) from None
