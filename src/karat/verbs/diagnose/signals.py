"""Everything that the rules look at, as values per query. Each comes from `karat.evaluate` or from the run log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import InputError, UsageError
from karat.model.options import Settings
from karat.model.policy import is_relevant, parent_of
from karat.model.run import Run
from karat.read.log_lists import as_of_days, ordered_lists
from karat.read.queries import read_queries
from karat.read.sources import read_qrels, read_run
from karat.results.sampling import Sampling, sampling
from karat.stats.defaults import SEED
from karat.verbs.diagnose.stages import pool_stage, rerank_stage
from karat.verbs.evaluate import evaluate, named_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.queries import Queries
    from karat.model.run_log import RunLog
    from karat.results.result import Result, RunResult

    Floats = NDArray[np.float64]

DEFAULTS = Settings()
DEEP = 50
"""The depth at which the pool is measured."""
POOL = f"recall(cap=true)@{DEEP}"
FINAL = {
    "recall@5": "recall(cap=true)@5",
    "recall@10": "recall(cap=true)@10",
    "ndcg@10": "ndcg@10",
    "mrr": "mrr",
    "hit@10": "hit@10",
    "rprec": "rprec",
    "precision@5": "precision@5",
    "judged@5": "judged@5",
    "judged@10": "judged@10",
    "returned": "num_ret",
    "relevant": "num_rel",
    "precision@10": "precision@10",
}
"""What is measured of the final list. Recall is capped: 5 places can hold 5 docs, however many are relevant."""
LABELS = {
    "recall@5": "recall(cap=true)@5",
    "recall@10": "recall(cap=true)@10",
    "rprec": "precision at R",
    "mrr": "mrr",
    "misrouted": "share of misrouted queries",
    "share of time": "share of the time",
    "tail": "p95 / p50 of the stage",
    "time in the tail": "share of the time in its tail",
    "recall@5 of pool": "recall(cap=true)@5",
    "recall@10 of pool": "recall(cap=true)@10",
    "rprec of pool": "precision at R",
    "mrr of pool": "mrr",
}
"""How values are written where it is not by their name. R is the number of relevant docs of a query."""
OF_POOL = ("recall@5", "recall@10", "rprec", "mrr")
NO_SEGMENTS = frozenset(
    {
        "text",
        "as_of",
        "no_answer",
        "conversation",
        "weight",
        "entities",
        "negatives",
        "ideal_answer",
        "needs_retrieval",
        "title",
        "query",
        "metadata",
        "url",
    }
)
ONLY_RELEVANT = 0.05
"""Gold with a smaller share of docs that are not relevant does not tell what was judged."""
MOST_SEGMENTS = 20
"""A field with more values than this is no way to slice the queries unless it is asked for."""


@dataclass(frozen=True)
class Measured:
    """One run: values per query by name, and which field was lacking for those that are not there."""

    name: str
    query_ids: Sequence[str]
    values: Mapping[str, Floats]
    lacking: Mapping[str, str]
    """By name of a value that is not there: the field that it needs."""
    labels: Mapping[str, str]
    latency: Mapping[str, Floats] = field(default_factory=dict)
    sampling: Sampling = field(default_factory=Sampling)
    refiltered: Callable[[], Mapping[str, Floats]] = dict
    """The values of the final list without docs that are newer than as_of; found when asked for."""

    def __len__(self) -> int:
        return len(self.query_ids)


def measure(qrels: Any, run: Any, settings: Settings = DEFAULTS) -> Measured:
    """All values of one run."""
    data, policy = settings.data, settings.policy
    runs = named_runs(run)
    if len(runs) != 1:
        raise UsageError(f"a diagnosis is of one run, found {len(runs)}")
    name, source = runs[0]
    gold = read_qrels(qrels, format=data.qrels_format, subtopics=data.subtopics)
    table = read_queries(data.queries) if data.queries is not None else None
    as_of = as_of_days(table) if table is not None and policy.as_of_filter else None
    read = read_run(source, name=name, format=data.run_format, policy=policy, as_of=as_of, dated=True)
    log = read.log
    if log is not None:
        log.check("stages")
    options = replace(
        settings,
        data=replace(data, queries=table),
        intervals=replace(settings.intervals, by=None),
        engine=replace(settings.engine, cache=False),
    )
    final = _only(evaluate(gold, read, list(FINAL.values()), settings=options))
    ids = final.query_ids
    values = {name: final.values[metric] for name, metric in FINAL.items()}
    labels = dict(LABELS)
    lacking: dict[str, str] = {}
    values["relevant@5"] = values["precision@5"] * 5
    _fresh(gold, read, table, options, values, lacking)
    _stages(gold, final, policy, options, values, lacking, labels, read)
    if np.mean(~is_relevant(gold.grades)) < ONLY_RELEVANT:
        lacking["judged@10"] = (
            "docs judged not relevant: the gold lists relevant ones alone, so precision, mrr and ndcg are lower bounds"
        )
    if "pool" in lacking:
        lacking["recall@5 of pool"] = lacking["pool"]
    values |= _of_pool(values)
    _routes(log, table, ids, values, lacking)
    latency = {
        stage: np.array([times.get(q, np.nan) for q in ids])
        for stage, times in (log.latency if log is not None else {}).items()
    }
    if not latency:
        lacking["latency"] = "latency_ms on the lines of a run log"
    intervals = settings.intervals
    fields = intervals.by if intervals.by is not None else _fields(table, intervals.min_segment)
    if table is None:
        lacking["segments"] = "a table of queries with fields such as language (queries=, --queries)"
    elif not fields:
        lacking["segments"] = "a field of the queries with 2 to 20 values, such as language or topic"
    chosen = sampling(table, replace(intervals, by=fields or None))
    return Measured(
        final.name, ids, values, lacking, labels, latency, chosen, lambda: _refiltered(gold, read, options, values)
    )


def chosen_run(result: Result, run: str | None = None) -> RunResult:
    """The run of a saved result that was asked for, with its lists."""
    if run is None and len(result) != 1:
        names = ", ".join(r.name for r in result)
        raise UsageError(
            f"this result holds {len(result)} runs ({names}); name one of them (run=, karat diagnose FILE NAME)"
        )
    kept = result[run] if run is not None else result.runs[0]
    if kept.top is None:
        raise InputError(
            f"this result holds no lists of {kept.name!r}; save it with details: karat evaluate … --save FILE"
        )
    return kept


def measure_saved(result: Result, run: str | None = None, seed: int = SEED) -> Measured:
    """The values that a saved result allows: its lists and the ranks of its gold, and no stages."""
    kept = chosen_run(result, run)
    gold, lists = {}, {}
    for q in kept.top.query_ids if kept.top is not None else ():
        gold[q] = {g.doc: g.grade for g in kept.gold_docs(q)}
        placed = {g.rank: g.doc for g in kept.gold_docs(q) if g.rank}
        top = [f"\0{i}" if d.doc in gold[q] else d.doc for i, d in enumerate(kept.top_docs(q), start=1)]
        lists[q] = [placed.get(i, doc) for i, doc in enumerate(top, start=1)]
    measured = measure(gold, lists, DEFAULTS.change(level="chunk", separator="\0", seed=seed))
    lacking = {
        **measured.lacking,
        **dict.fromkeys(("rerank gain", "gap to docs"), "stages (a saved result has none: give the run log)"),
        "fresh@5": "doc_version (a saved result has none: give the run log)",
        "misrouted": "route (a saved result has none: give the run log)",
        "latency": "latency_ms (a saved result has none: give the run log)",
    }
    if kept.sampling.by:
        lacking.pop("segments", None)
    else:
        lacking["segments"] = "segments: save the result with --by language, or give the run log and the queries"
    return replace(measured, name=kept.name, lacking=lacking, sampling=kept.sampling)


def _only(result: Result) -> RunResult:
    return result.runs[0]


def _aligned(found: RunResult, metric: str, ids: Sequence[str]) -> Floats:
    """A metric's values in the order of these queries; NaN for those that it lacks."""
    known = dict(zip(found.query_ids, found.values[metric].tolist(), strict=True))
    return np.array([known.get(q, np.nan) for q in ids], dtype=np.float64)


def _fresh(
    gold: Qrels, run: Run, table: Queries | None, options: Settings, values: dict[str, Floats], lacking: dict[str, str]
) -> None:
    if table is None or not table.as_of:
        lacking["fresh@5"] = "as_of in the table of queries"
        return
    try:
        values["fresh@5"] = _only(evaluate(gold, run, "fresh@5", settings=options)).values["fresh@5"]
    except (InputError, UsageError):
        lacking["fresh@5"] = "doc_version on the items of a run log"


def _refiltered(gold: Qrels, run: Run, options: Settings, values: Mapping[str, Floats]) -> dict[str, Floats]:
    """The final list as it would be if docs newer than as_of were left out."""
    found = _only(evaluate(gold, run, list(FINAL.values()), settings=options, as_of_filter=True))
    out = {name: found.values[metric] for name, metric in FINAL.items()}
    out["relevant@5"] = out["precision@5"] * 5
    return out | _of_pool({**values, **out})


def _of_pool(values: Mapping[str, Floats]) -> dict[str, Floats]:
    """What came of that part of the gold that was in the pool; without a pool, of all of it.

    What the pool lacks is the retriever's loss, and must not be held against the order.
    """
    if "pool" not in values:
        return {f"{name} of pool": values[name] for name in OF_POOL if name != "recall@5"}
    pool, gold = values["pool"] * np.minimum(values["relevant"], DEEP), values["relevant"]
    there = pool > 0.5
    hits: dict[str, tuple[Floats, Floats]] = {
        "recall@5": (values["precision@5"] * 5, np.full(len(gold), 5.0)),
        "recall@10": (values["precision@10"] * 10, np.full(len(gold), 10.0)),
        "rprec": (values["rprec"] * gold, gold),
    }
    out = {"mrr of pool": np.where(there, values["mrr"], np.nan)}
    for name, (found, places) in hits.items():
        best = np.minimum(places, np.maximum(pool, 1.0))
        out[f"{name} of pool"] = np.where(there, np.minimum(found / np.maximum(best, 1.0), 1.0), np.nan)
    return out


def _stages(
    gold: Qrels,
    final: RunResult,
    policy: Policy,
    options: Settings,
    values: dict[str, Floats],
    lacking: dict[str, str],
    labels: dict[str, str],
    run: Run,
) -> None:
    """The pool's recall, by chunk and by doc, and what the reranker makes of its input."""
    ids, names = final.query_ids, run.log.stage_names if run.log is not None else ()
    raw, last = pool_stage(names), rerank_stage(names)
    metrics = [POOL, "ndcg@10"]
    lists = replace(options, policy=replace(policy, stage=None, as_of_filter=False))  # of stages, as they were logged
    skipped = lists.change(missing="skip", level="chunk" if final.gold_level == "chunk" else None)
    if raw is not None:
        pool_run = _stage_run(run, raw, policy)
        pool = _only(evaluate(gold, pool_run, metrics, settings=skipped))
        values["pool"] = _aligned(pool, metrics[0], ids)
        labels["pool"] = f"{POOL} of stage {raw}"
        if np.nanmean(values["pool"]) + 1e-9 < np.nanmean(values["recall@10"]) * 0.5:
            # What was delivered must have been in the pool: the ids of this stage are written differently.
            lacking["pool"] = f"ids in stages.{raw} that match those of the gold"
            del values["pool"]
    elif np.median(values["returned"]) >= DEEP:
        pool_run = run
        values["pool"] = _only(evaluate(gold, run, metrics, settings=options)).values[POOL]
        labels["pool"] = POOL
    else:
        lacking["pool"] = f"stages.retrieve in a run log, or results at least {DEEP} deep"
    if "pool" in values:
        labels |= {f"{name} of pool": f"{LABELS[name]} of what the pool holds" for name in OF_POOL}
    _by_doc(gold, final, policy, skipped, values, lacking, labels, pool_run if "pool" in values else None)
    if raw is None or last is None or last == raw or "pool" not in values:
        lacking["rerank gain"] = "two stages in a run log, such as stages.retrieve and stages.rerank"
        return
    after = _only(evaluate(gold, _stage_run(run, last, policy), metrics, settings=skipped))
    values["rerank gain"] = _aligned(after, "ndcg@10", ids) - _aligned(pool, "ndcg@10", ids)
    labels["rerank gain"] = f"ndcg@10 of {last} − ndcg@10 of {raw}"


def _stage_run(run: Run, stage: str, policy: Policy) -> Run:
    """The lists of one stage, for the lines that have it."""
    assert run.log is not None
    lists = {q: t.stages[stage] for q, t in run.log.traces.items() if stage in t.stages}
    return Run(stage, ordered_lists(run.log, lists, policy.separator))


def _by_doc(
    gold: Qrels,
    final: RunResult,
    policy: Policy,
    options: Settings,
    values: dict[str, Floats],
    lacking: dict[str, str],
    labels: dict[str, str],
    pool: Run | None,
) -> None:
    """The pool's recall of docs, where the gold is by chunk: a doc is as relevant as its best chunk."""
    if pool is None:
        lacking["gap to docs"] = lacking["pool"]
        return
    if final.gold_level != "chunk":
        lacking["gap to docs"] = "gold by chunk"
        return
    docs: dict[str, dict[str, float]] = {}
    for q in final.query_ids:
        mine = docs.setdefault(q, {})
        for chunk, grade in gold.for_query(q).items():
            doc = parent_of(chunk, policy.separator)
            mine[doc] = max(grade, mine.get(doc, grade))
    found = _only(evaluate({q: g for q, g in docs.items() if g}, pool, POOL, settings=options, level="doc"))
    values["pool of docs"] = _aligned(found, POOL, final.query_ids)
    labels["pool of docs"] = f"{labels['pool']}, by doc"
    values["gap to docs"] = values["pool of docs"] - values["pool"]
    labels["gap to docs"] = f"{labels['pool']}: by doc − by chunk"


def _routes(
    log: RunLog | None, table: Queries | None, ids: Sequence[str], values: dict[str, Floats], lacking: dict[str, str]
) -> None:
    expected = table.field("expected_source") if table is not None else {}
    routes = log.routes if log is not None else {}
    if not routes:
        lacking["misrouted"] = "route on the lines of a run log"
    elif not expected:
        lacking["misrouted"] = "expected_source in the table of queries"
    else:
        values["misrouted"] = np.array(
            [np.nan if q not in routes or q not in expected else float(routes[q] != str(expected[q])) for q in ids]
        )


def _fields(table: Queries | None, minimum: int) -> list[str]:
    """The fields of the queries that are worth slicing by: a few values, at least two of them with enough queries."""
    if table is None:
        return []
    out = []
    for name in sorted({f for fields in table.fields.values() for f in fields} - NO_SEGMENTS):
        known = [str(v) for v in table.field(name).values() if not isinstance(v, (Mapping, list, tuple))]
        sizes = np.unique(known, return_counts=True)[1] if known else np.zeros(0)
        if 2 <= len(sizes) <= MOST_SEGMENTS and (sizes >= minimum).sum() >= 2:
            out.append(name)
    return out
