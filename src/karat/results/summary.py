"""A result as its document: figures with intervals, what they rest on, and nothing of each query."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType, structs

from karat.metrics.grammar import parse
from karat.results.by_judge_document import by_judge_json, judge_json
from karat.results.decisions import pooled_json
from karat.results.document import (
    AcrossJson,
    DifferenceJson,
    DocumentJson,
    EstimateJson,
    FingerprintsJson,
    GoldPrintJson,
    IntervalsJson,
    QueriesPrintJson,
    ReadingJson,
    RunJson,
    SegmentJson,
)
from karat.results.reading import Reading, read_value
from karat.results.result import FORMAT_VERSION, Result, RunResult
from karat.store.codec import ends_json, rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.results.fingerprints import Difference, Fingerprints
    from karat.results.sampling import Sampling
    from karat.results.values import SegmentResult
    from karat.stats.intervals import Interval


def summarize(result: Result) -> DocumentJson:
    """The document of an evaluation."""
    return DocumentJson(
        format_version=FORMAT_VERSION,
        kind="evaluation",
        conventions=dict(result.conventions) or UNSET,
        intervals=_intervals(result.runs[0].sampling) if result.runs else UNSET,
        runs=[summarize_run(run) for run in result.runs],
        warnings=[remark.text for remark in result.remarks] or UNSET,
        fingerprints=_fingerprints(result.fingerprints),
        judge=judge_json(result.judge) if result.judge is not None else UNSET,
    )


def summarize_run(run: RunResult) -> RunJson:
    """One run of the document."""
    fields = [",".join(names) for names in run.sampling.tables]
    return RunJson(
        name=run.name,
        facts=dict(run.facts) or UNSET,
        gold_level="chunk" if run.gold_level == "chunk" else UNSET,
        metrics={name: estimate_json(one, name, read_value(run, name)) for name, one in run.estimates[0].items()},
        counts=dict(run.counts),
        segments=[_segment(s) for s in run.segments] if fields else UNSET,
        across={f: {name: _across(run, f, name) for name in run.values} for f in fields} or UNSET,
        components=run.components.document() if run.components is not None else UNSET,
        by_judge=by_judge_json(run) if run.by_judge is not None else UNSET,
        notes=list(run.data_notes) or UNSET,
        mismatches=list(run.mismatches) or UNSET,
    )


def estimate_json(interval: Interval, metric: str | None = None, reading: Reading | None = None) -> EstimateJson:
    """An estimate with its interval; a metric that is not averaged over queries says so."""
    aggregate = parse(metric).aggregate if metric is not None else "mean"
    return EstimateJson(
        rounded(interval.estimate),
        ends_json(interval),
        interval.method,
        interval.n,
        UNSET if aggregate == "mean" else aggregate,
        _reading(reading) if reading is not None else UNSET,
        UNSET if isnan(interval.n_eff) else rounded(interval.n_eff),
    )


def _reading(reading: Reading) -> ReadingJson:
    numbers = (reading.target, reading.strict_target, reading.attainable)
    values = (UNSET if v is None else rounded(v) or 0.0 for v in numbers)
    return ReadingJson(reading.text, reading.band or UNSET, *values)


def _segment(segment: SegmentResult) -> SegmentJson:
    metrics = {
        name: structs.replace(
            estimate_json(interval),
            small=True if name in segment.too_few else UNSET,
            pooled=pooled_json(segment.pooled.get(name)),
        )
        for name, interval in segment.metrics.items()
    }
    return SegmentJson(dict(segment.by), segment.n, segment.small, rounded(segment.judged), metrics)


def _across(run: RunResult, by: str, metric: str) -> AcrossJson:
    spread = run.across(by, metric)
    return AcrossJson(int(spread["segments"]), rounded(spread["macro_average"]), rounded(spread["variance"]))


def _intervals(sampling: Sampling) -> IntervalsJson:
    return IntervalsJson(
        sampling.confidence,
        sampling.method,
        sampling.resamples,
        sampling.seed,
        "expanded" if sampling.method == "auto" else "plain",
        sampling.sequential or UNSET,
    )


def _fingerprints(prints: Fingerprints) -> FingerprintsJson | UnsetType:
    gold, queries = prints.gold, prints.queries
    if not prints:
        return UNSET
    return FingerprintsJson(
        gold=GoldPrintJson(gold.hash, *(UNSET if n is None else n for n in (gold.queries, gold.judgments)))
        if gold is not None
        else UNSET,
        queries=QueriesPrintJson(
            queries.hash, UNSET if queries.queries is None else queries.queries, dict(queries.fields)
        )
        if queries is not None
        else UNSET,
        corpus=prints.corpus if prints.corpus is not None else UNSET,
        embeddings=dict(prints.embeddings) or UNSET,
        ontologies=dict(prints.ontologies) or UNSET,
        judge=prints.judge if prints.judge is not None else UNSET,
        metrics=dict(prints.metrics),
    )


def differences_json(differences: Sequence[Difference]) -> list[DifferenceJson] | UnsetType:
    """What two results differ in; left out where they do not."""
    return [DifferenceJson(d.what, d.here, d.there, d.run or UNSET) for d in differences] or UNSET
