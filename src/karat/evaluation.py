"""How good: runs × gold × metrics → a result."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.align import align
from karat.align.stream import default_threads
from karat.cache import Cache
from karat.errors import UsageError, shown
from karat.fingerprints import of_file, of_gold, of_metric, of_queries
from karat.ingest.frames import is_frame
from karat.ingest.layout import is_packed
from karat.ingest.read import read_qrels, read_run, run_files
from karat.ingest.textfile import TextFile
from karat.metrics.grammar import DEFAULT_METRICS, parse, parse_all
from karat.metrics.registry import GOLD_ALONE
from karat.model.policy import policy as choose
from karat.model.run import Run
from karat.output import rounded
from karat.result import Result, RunResult, aggregated
from karat.sampling import Sampling, sampling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from karat.align.found import Aligned
    from karat.align.parts import Needs
    from karat.cache import Entry
    from karat.metrics.grammar import Measure
    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.queries import Queries
    from karat.model.rankings import Rankings

Watch = Callable[[str, int, int], None]

DEPTH = 100
"""How many docs of each query a full result keeps."""


def evaluate(
    qrels: Any,
    run: Any,
    metrics: str | Iterable[str | Measure] | None = None,
    *,
    ks: Sequence[int] | None = None,
    queries: Any = None,
    docs: Any = None,
    by: str | Sequence[str | Sequence[str]] | None = None,
    confidence: float = 0.95,
    method: str = "auto",
    resamples: int = 2000,
    seed: int = 0,
    min_segment: int = 10,
    like: str | None = None,
    score_precision: str | None = None,
    duplicates: str | None = None,
    missing: str | None = None,
    empty_gold: str | None = None,
    level: str | None = None,
    chunk_credit: str | None = None,
    separator: str | None = None,
    stage: str | None = None,
    as_of_filter: bool | None = None,
    condensed: bool | None = None,
    ignore_self: bool | None = None,
    binary: bool | None = None,
    qrels_format: str | None = None,
    run_format: str | None = None,
    details: bool = False,
    threads: int | None = None,
    memory: str | int | None = None,
    batch: int | None = None,
    cache: bool = True,
    watch: Watch | None = None,
) -> Result:
    """Score one run, or several, against gold.

    `qrels` and `run` are each a path, a dict, a data frame, or a `karat.Qrels` / `karat.Run`; several
    runs are a dict of names to any of these, or a list of paths. Without `metrics` the default ones
    are computed. Every metric has an interval (`result.ci`), found when it is first asked for: at this
    `confidence`, by this `method`, with this `seed`; `by` slices the queries by fields of the table
    `queries`, whose `weight` and `conversation` are honoured (`gold.source`: by a field of the relevant
    docs, from the table `docs`). `like` takes the conventions of another
    tool; the options from `score_precision` to `binary` are those of `karat.Policy`. `details`
    keeps each query's top 100 and the ranks of its gold, for `save`. `memory` bounds what a run that is
    out of order may take ("2GB"), `batch` how many queries of a text file are worked on at once. `watch`
    is told the path, the bytes read so far and all bytes of a file that is being read.
    """
    measures = parse_all(DEFAULT_METRICS if metrics is None else metrics, ks)
    policy = choose(
        like, score_precision=score_precision, duplicates=duplicates, missing=missing, empty_gold=empty_gold,
        level=level, chunk_credit=chunk_credit, separator=separator, stage=stage, as_of_filter=as_of_filter,
        condensed=condensed, ignore_self=ignore_self, binary=binary,
    )  # fmt: skip
    table = _table(queries) if queries is not None else None
    job = _Job(qrels, qrels_format, run_format, policy, table, details, _threads(threads), _bytes(memory), cache, watch)
    job.batch = batch
    if any(m.metric.needs != GOLD_ALONE for m in measures):
        from karat.align.parts import Needs

        job.needs = Needs.of(measures, table, policy)
    job.sampling = sampling(
        table,
        by,
        docs=_table(docs) if docs is not None else None,
        relevant=job.relevant,
        confidence=confidence,
        method=method,
        resamples=resamples,
        seed=seed,
        minimum=min_segment,
    )
    runs = [job.run(name, source, measures) for name, source in named_runs(run)]
    told: dict[str, Any] = {**({"like": like} if like else {}), **policy.told()}
    return Result(
        tuple(runs), told, prints=partial(job.fingerprints, measures, docs, tuple(runs)), words=partial(_texts, table)
    )


def _texts(queries: Queries | None) -> dict[str, str]:
    return {q: str(t) for q, t in queries.field("text").items()} if queries is not None else {}


def _table(queries: Any) -> Queries:
    from karat.ingest.queries import read_queries

    return read_queries(queries)


def named_runs(run: Any) -> list[tuple[str | None, Any]]:
    """The runs by name; None stands for the name that a single run brings itself."""
    if isinstance(run, (list, tuple)) and run and all(isinstance(r, (str, os.PathLike)) for r in run):
        return list(run_files([os.fspath(r) for r in run]).items())
    if isinstance(run, str) and run != "-" and not os.path.exists(run) and any(c in run for c in "*?["):
        return list(run_files([run]).items())
    if isinstance(run, Mapping) and _holds_runs(run):
        return [(str(name), source) for name, source in run.items()]
    return [(None, run)]


def _holds_runs(data: Mapping[Any, Any]) -> bool:
    """Whether a mapping is of runs by name rather than one run by query."""
    for value in data.values():
        if isinstance(value, (str, os.PathLike, Run)) or is_frame(value):
            return True
        if not isinstance(value, Mapping):
            return False
        if "ids" in value:
            return False  # a result of Chroma
        inner = next(iter(value.values()), None)
        if inner is not None:
            return isinstance(inner, (Mapping, list, tuple))
    return False


class _Job:
    """The gold and the choices that all runs share; the gold is read when it is first needed."""

    def __init__(
        self, qrels: Any, qrels_format: str | None, run_format: str | None, policy: Policy, queries: Queries | None,
        details: bool, threads: int | None, memory: int | None, cache: bool, watch: Watch | None,
    ) -> None:  # fmt: skip
        self.source, self.qrels_format, self.run_format = qrels, qrels_format, run_format
        self.policy, self.queries, self.details = policy, queries, details
        self.threads, self.memory, self.watch = threads, memory, watch
        self.cache = Cache() if cache and not details else None
        self.sampling = Sampling()
        self.batch: int | None = None
        self.needs: Needs | None = None
        self._qrels: Qrels | None = None

    @property
    def qrels(self) -> Qrels:
        if self._qrels is None:
            read = read_qrels(self.source, format=self.qrels_format)
            self._qrels = replace(read, grades=_yes_or_no(read.grades)) if self.policy.binary else read
        return self._qrels

    def relevant(self) -> dict[str, list[str]]:
        """The relevant docs of each query."""
        found = (self.qrels.for_query(q) for q in self.qrels.query_ids)
        return {
            q: [d for d, g in graded.items() if g >= 1] for q, graded in zip(self.qrels.query_ids, found, strict=True)
        }

    def run(self, name: str | None, source: Any, measures: list[Measure]) -> RunResult:
        """One run's result, from the cache where its files are unchanged."""
        entry = self._entry(source)
        stored = entry.load() if entry is not None else None
        rankings, about = stored if stored is not None else self._aligned(name, source, entry)
        values = {measure.name: measure(rankings) for measure in measures}
        notes = list(about["notes"])
        if self.needs is not None:
            notes += _told_by(self.needs, rankings)
        if self.policy.as_of_filter:
            notes += self._made_by_filter(name, source, measures, values)
        return RunResult(
            name or about["name"], rankings.query_ids, values, about["counts"], about["facts"], tuple(notes),
            partial(attainable, measures, rankings), about.get("lists", {}), self.sampling,
            parse("judged@10")(rankings) if self.sampling.by else None, self.threads or default_threads(),
            partial(self._level, bool(about["at_doc"]), bool(about["chunked"])),
        )  # fmt: skip

    def _level(self, at_doc: bool, chunked: bool) -> str:
        """Whether the gold names chunks: the run does and was matched so, or the gold's own ids do."""
        if at_doc:
            return "doc"
        return "chunk" if chunked or self.policy.separator in "\n".join(self.qrels.docs) else "doc"

    def fingerprints(self, measures: list[Measure], docs: Any, runs: tuple[RunResult, ...]) -> dict[str, Any]:
        """What the result rests on."""
        out: dict[str, Any] = {"gold": of_gold(self.qrels)}
        if self.queries is not None:
            out["queries"] = of_queries(self.queries)
        if isinstance(docs, (str, os.PathLike)) and any(r.gold_level == "chunk" for r in runs):
            out["corpus"] = of_file(os.fspath(docs))
        return {**out, "metrics": {m.name: of_metric(m) for m in measures}}

    def _entry(self, source: Any) -> Entry | None:
        if self.cache is None or self.policy.as_of_filter or self.needs is not None:
            return None  # an entry holds judged docs alone
        choices = [self.policy, self.qrels_format, self.run_format, self.queries and sorted(self.queries.no_answer)]
        return self.cache.entry(self.source, source, choices)

    def _aligned(
        self, name: str | None, source: Any, entry: Entry | None, policy: Policy | None = None
    ) -> tuple[Rankings, dict[str, Any]]:
        chosen = policy or self.policy
        as_of = self.queries.as_of if self.queries else None
        needs = self.needs
        run = read_run(
            source, name=name, format=self.run_format, policy=chosen, as_of=as_of, needs=needs.parts if needs else ()
        )
        if needs is not None:
            from karat.align.parts import check_run

            check_run(run, needs, chosen)
        aligned, notes = align(
            self.qrels, _watched(run, entry, self.watch, self.batch), chosen,
            no_answer=self.queries.no_answer if self.queries else (), threads=self.threads, memory=self.memory,
            keep_items=max(DEPTH if self.details else 0, needs.depth if needs else 0),
        )  # fmt: skip
        if needs is not None:
            from karat.align.parts import with_parts

            aligned = replace(aligned, rankings=with_parts(aligned, self.qrels, run, needs, chosen))
        if aligned.counts["without_gold"] and not (aligned.found.returned >= 0).any():
            one = self.qrels.query_ids[0]
            notes = (f"no query of this run is in the gold, whose ids are such as {shown(one)}: check the ids", *notes)
        about = {"name": run.name, "counts": aligned.counts, "facts": run.facts, "notes": notes,
                 "at_doc": aligned.found.at_doc, "chunked": aligned.found.chunked}  # fmt: skip
        if entry is not None:
            entry.store(aligned.rankings, about)
        if self.details:
            about["lists"] = _lists(self.qrels, aligned)
        return aligned.rankings, about

    def _made_by_filter(
        self, name: str | None, source: Any, measures: list[Measure], values: Mapping[str, NDArray[np.float64]]
    ) -> list[str]:
        """What dropping items that are too new does to each metric."""
        unfiltered, _ = self._aligned(name, source, None, replace(self.policy, as_of_filter=False))
        told = []
        for measure in measures:
            before, after = aggregated(measure, measure(unfiltered))[0], aggregated(measure, values[measure.name])[0]
            told.append(f"as_of_filter: {measure.name} {before:.4f} → {after:.4f} ({after - before:+.4f})")
        return told


def _yes_or_no(grades: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(grades < 0, grades, (grades >= 1).astype(np.float64))


def _told_by(needs: Needs, rankings: Rankings) -> list[str]:
    """What the metrics that look beyond the judged docs could not count."""
    from karat.metrics.budget import undated

    dated = [m for m in needs.measures if {"items", "doc_version"} <= set(m.metric.needs)]
    left_out = [(m.name, undated(rankings, None if m.k is None else int(m.k))) for m in dated]
    return [f"{name}: {n} item{'s' if n > 1 else ''} without doc_version" for name, n in left_out if n]


def attainable(measures: list[Measure], rankings: Rankings) -> dict[str, float]:
    """The best value that the gold allows, for the metrics that have a target."""
    return {
        m.name: aggregated(m, m(rankings.ideal()))[0] for m in measures if m.name in m.metric.targets and len(rankings)
    }


def _watched(run: Run, entry: Entry | None, watch: Watch | None, batch: int | None) -> Run:
    """The run as a file that tells how far it was read, to the cache and to whoever watches."""
    if not isinstance(run.content, TextFile):
        return run
    if run.path is None:
        return replace(run, content=replace(run.content, batch=batch))
    watchers = []
    if entry is not None and not is_packed(run.path):
        watchers.append(entry.hasher().update)
    if watch is not None and not is_packed(run.path):
        total, done = os.path.getsize(run.path), 0

        def told(piece: memoryview) -> None:
            nonlocal done
            done += len(piece)
            watch(run.path or "", done, total)

        watchers.append(told)
    file: TextFile = run.content
    return replace(run, content=replace(file, watchers=tuple(watchers), batch=batch))


def _lists(qrels: Qrels, aligned: Aligned) -> dict[str, dict[str, Any]]:
    """Each query's top docs with their grades, and the rank at which each gold doc was found."""
    rank = np.zeros(len(qrels.docs), dtype=np.int64)
    rank[aligned.found.gold] = aligned.found.rank
    at_doc = aligned.found.at_doc
    out: dict[str, dict[str, Any]] = {}
    for q in aligned.queries.tolist():
        a, b = int(qrels.offsets[q]), int(qrels.offsets[q + 1])
        docs, grades, ranks = qrels.docs[a:b], qrels.grades[a:b].tolist(), rank[a:b].tolist()
        graded = dict(zip(docs, grades, strict=True))
        out[qrels.query_ids[q]] = {
            "top": [
                {"doc": d, "score": None if s is None else rounded(s), "grade": graded.get(parent if at_doc else d)}
                for d, s, parent, *_ in aligned.found.items.get(q, [])[:DEPTH]
            ],
            "returned": max(int(aligned.found.returned[q]), 0),
            "gold": [{"doc": d, "grade": g, "rank": r or None} for d, g, r in zip(docs, grades, ranks, strict=True)],
        }
    return out


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}  # fmt: skip


def _bytes(memory: str | int | None) -> int | None:
    """`2GB`, `512MiB` or a number of bytes."""
    if memory is None:
        return None
    text = str(memory).strip().upper()
    digits = text.rstrip("BKMGTI ")
    try:
        size = float(digits) * _UNITS[text[len(digits) :].strip()]
    except (ValueError, KeyError):
        size = math.nan
    if isinstance(memory, (bool, float)) or not 1 <= size < 2**63:
        raise UsageError(f"memory must be a size such as 2GB or 512MiB, found {memory!r}")
    return int(size)


def _threads(threads: int | None) -> int | None:
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
        raise UsageError(f"threads must be an integer from 1, found {threads!r}")
    return threads
