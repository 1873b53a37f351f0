"""Everything that the rules look at, as values per query: from the rankings, the gold and the run log of a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import InputError, UsageError
from karat.judge.completed_gold import describe_scale_mismatch
from karat.metrics.grammar import parse
from karat.model.intervals import Fields, Intervals
from karat.model.policy import Policy, is_relevant
from karat.read.objects import qrels_by_doc
from karat.read.query_fields import retrieval_needs
from karat.records import dataclass
from karat.results.other_lists import align_dated, align_lists, drop_newer, final_lists, measure_over, stage_lists
from karat.results.remarks import data_remarks
from karat.results.sampling import Sampling, sampling
from karat.verbs.data_notes import note_lacking, note_undefined, unrouted_text
from karat.verbs.diagnose.stages import pool_stage, rerank_stage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.model.qrels import Qrels
    from karat.model.queries import Queries
    from karat.model.rankings import Rankings
    from karat.model.run import OrderedLists
    from karat.results.by_judge import JudgeIdentity
    from karat.results.remarks import Remark
    from karat.results.result import Result, RunResult

    Floats = NDArray[np.float64]

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
    "skipped": "share of queries that the gate skips",
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
class ListValues:
    """Values per query of the final list and of the stages."""

    gold: Mapping[str, Floats]
    by_judge: Mapping[str, Floats] = field(default_factory=dict)
    """Of gold + judge, for those that judged grades feed."""


@dataclass(frozen=True)
class Signals:
    """One run: values per query by name, and why others are missing."""

    name: str
    query_ids: Sequence[str]
    values: Mapping[str, Floats]
    missing: Mapping[str, str]
    """By name of a value that cannot be measured: why."""
    labels: Mapping[str, str]
    latency: Mapping[str, Floats] = field(default_factory=dict)
    """By stage: the time of each query of the log, with gold or without, in the order of `timed_ids`."""
    timed_ids: Sequence[str] = ()
    sampling: Sampling = field(default_factory=Sampling)
    without_newer: Callable[[], ListValues] = lambda: ListValues({})
    """The values without docs that are newer than as_of; measured when they are needed."""
    absent: frozenset[str] = frozenset()
    """The queries that have no line in the run."""
    unasked: frozenset[str] = frozenset()
    """The queries that the retrieval gate skips: the parts after it were not asked about them."""
    mismatches: tuple[str, ...] = ()
    """Why run and gold may not belong together."""
    judge: JudgeIdentity | None = None
    """Whose grades count where the gold has none."""
    by_judge: Mapping[str, Floats] = field(default_factory=dict)
    """By name: the values of gold + judge."""
    notes: tuple[str, ...] = ()
    """What rests on the judge's grades, and what does not."""
    remarks: tuple[Remark, ...] = ()
    """What is odd about the data, beside the mismatches."""

    def __len__(self) -> int:
        return len(self.query_ids)


def have_relevant_gold(values: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """Which queries the rules can speak of: nothing can be lost where the gold has no relevant doc."""
    return np.nan_to_num(values["relevant"]) > 0


def choose_run(result: Result, name: str | None = None) -> RunResult:
    """The run of a result by its name; one with its lists."""
    if name is None and len(result) != 1:
        names = ", ".join(r.name for r in result)
        raise UsageError(
            f"this result holds {len(result)} runs ({names}); name one of them (run=, karat diagnose FILE NAME)"
        )
    run = result[name] if name is not None else result.runs[0]
    if run.top is None or run.rankings is None:
        raise InputError(
            f"this result holds no lists of {run.name!r}; evaluate again with details=True (on the command line --save "
            "FILE keeps them)"
        )
    return run


def absent_queries(run: RunResult) -> frozenset[str]:
    """The queries that have no line in a run; without a log, an empty list is not told from none."""
    assert run.rankings is not None
    ids = run.rankings.query_ids
    if run.log is not None:
        return frozenset(ids).difference(run.log.traces)
    return frozenset(compress(ids, run.rankings.returned == 0)) if run.counts.get("missing") else frozenset()


def read_signals(result: Result, name: str | None = None, *, by: Fields | None = None) -> Signals:
    """All values of one run; the fields of the queries with few values are its segments, or those of `by`."""
    return _Reader(result.queries, choose_run(result, name), judge=result.judge).read(by)


class _Reader:
    """Collects the values of one run, and why others are missing."""

    def __init__(
        self,
        queries: Queries | None,
        run: RunResult,
        ids: Sequence[str] | None = None,
        *,
        judge: JudgeIdentity | None = None,
    ) -> None:
        if run.policy.as_of_filter and queries is not None and run.log is not None:
            run = drop_newer(run, queries)  # from the stages and the gold too
        assert run.rankings is not None
        self.queries, self.run, self.log = queries, run, run.log
        self.rankings: Rankings = run.rankings
        self.ids = self.rankings.query_ids if ids is None else ids
        self.values: dict[str, Floats] = {}
        self.missing: dict[str, str] = {}
        self.labels = dict(LABELS)
        self.judge = judge
        self.by_judge: dict[str, Floats] = {}
        self.notes: list[str] = []
        self.reranking: tuple[str, str] | None = None
        """The stages before and after the reranker."""

    def read(self, by: Fields | None) -> Signals:
        """All values."""
        if self.log is not None:
            self.log.check("stages")
        self._read_lists()
        self._read_dates()
        if np.mean(~is_relevant(self.run.qrels.grades)) < ONLY_RELEVANT:
            self.missing["judged@10"] = (
                "the gold has no docs that are judged not relevant: precision, mrr and ndcg are lower bounds"
            )
        self._read_routes()
        unasked = self._read_skips()
        segments = self._segments(by)
        timed_ids = self._timed_ids()
        return Signals(
            self.run.name,
            self.ids,
            self.values,
            self.missing,
            self.labels,
            self._latency(timed_ids),
            timed_ids,
            segments,
            self._without_newer,
            absent_queries(self.run),
            unasked,
            self.run.mismatches,
            self.judge,
            self.by_judge,
            tuple(self.notes),
            self._remarks(),
        )

    def _remarks(self) -> tuple[Remark, ...]:
        """What is odd about the data beside the mismatches, whatever metrics the result holds."""
        values = {metric: self.values[name] for name, metric in FINAL.items()}
        weights = self.run.sampling.weights
        of_metrics = {
            *note_undefined([parse(name) for name in self.run.values], self.run.values, self.rankings),
            *note_lacking(self.queries, self.run.query_ids, weights),
            *self._unrouted(),
        }
        own = [note for note in self.run.data_notes if note not in of_metrics]
        notes = (*own, *note_lacking(self.queries, self.ids, weights))
        run = replace(self.run, query_ids=self.ids, values=values, data_notes=notes)
        return tuple(remark for remark in data_remarks([run]) if remark.text not in run.mismatches)

    def _unrouted(self) -> list[str]:
        """What routing metrics say of queries without a route, which no rule is about."""
        log, table = self.log, self.queries
        if log is None or table is None or not log.routes:
            return []
        asked = [q for q in table.field("expected_source") if self.run.policy.missing == "zero" or q in log.traces]
        return unrouted_text(sum(q not in log.routes for q in asked), len(asked))

    def _read_lists(self) -> None:
        """The values of the final list and of the stages, and what came of the pool."""
        values = measure_over(FINAL.values(), self.rankings, self.ids)
        self.values |= {name: values[metric] for name, metric in FINAL.items()}
        self.values["relevant@5"] = self.values["precision@5"] * 5
        self._read_stages()
        if "pool" in self.missing:
            self.missing["recall@5 of pool"] = self.missing["pool"]
        self.values |= _of_pool(self.values)
        if self.judge is not None:
            self._read_judged(self.judge)

    def _read_judged(self, judge: JudgeIdentity) -> None:
        """The values that judged grades feed, by gold + judge; R stays the number of relevant docs in the gold."""
        if self.run.completed_gold is None:
            self.notes.append(
                f"The result does not hold the grades of {judge.label}: all findings rest on the gold alone; "
                "evaluate again with --save FILE"
            )
            return
        qrels, values = self.run.completed_gold.qrels, self.values
        rankings = align_lists(self.run, final_lists(self.run), self._policy, queries=self.queries, qrels=qrels)
        both = dict(measure_over(("precision@5", "precision@10", "judged@5", "judged@10"), rankings, self.ids))
        gold = np.maximum(values["relevant"], 1.0)
        places = dict(zip(self.ids, values["relevant"].tolist(), strict=True))
        both["rprec"] = _count_relevant(rankings, places, self.ids) / gold
        both["recall@10"] = np.minimum(both["precision@10"] * 10 / np.minimum(gold, 10.0), 1.0)
        of_pool = _of_pool({**values, **both})
        self.by_judge = {
            "precision@5": both["precision@5"],
            "relevant@5": both["precision@5"] * 5,
            "rprec of pool": of_pool["rprec of pool"],
            "filled@10 of pool": of_pool["recall@10 of pool"],
        }
        fed = ["precision@k"]
        if np.mean(~is_relevant(qrels.grades)) >= ONLY_RELEVANT:
            self.by_judge |= {name: both[name] for name in ("judged@5", "judged@10")}
            fed.append("judged@k")
        mismatch = describe_scale_mismatch(float(self.run.qrels.grades.max(initial=0.0)), judge.scale, self._policy)
        if not mismatch:
            self.by_judge |= measure_over(["ndcg@10"], rankings, self.ids)
            fed.append("ndcg@k")
            if self.reranking is not None:
                before, after = (self._ndcg(stage, qrels) for stage in self.reranking)
                self.by_judge["rerank gain"] = after - before
        self.notes = [
            f"Grades by {judge.label} count where the gold has none, in {', '.join(fed)}; all else rests on the gold "
            "alone",
            *([f"ndcg rests on the gold alone: {mismatch}"] if mismatch else []),
        ]

    def _without_newer(self) -> ListValues:
        assert self.queries is not None
        reader = _Reader(self.queries, drop_newer(self.run, self.queries), self.ids, judge=self.judge)
        reader._read_lists()
        return ListValues(reader.values, reader.by_judge)

    def _no(self, name: str) -> str:
        """That nothing says a field of a run log."""
        return f"the run log has no `{name}`" if self.log is not None else f"needs a run log with `{name}`"

    def _no_field(self, name: str) -> str | None:
        """That the table of queries does not say a field, or that there is none."""
        if self.queries is None:
            return f"needs a table of queries (--queries) with `{name}`"
        return None if self.queries.field(name) else f"the table of queries has no `{name}`"

    def _read_dates(self) -> None:
        if (lack := self._no_field("as_of")) is not None:
            self.missing["fresh@5"] = lack
            return
        assert self.queries is not None
        self.missing["fresh@5"] = self._no("doc_version")
        if self.log is None:
            return
        try:
            rankings = align_dated(self.run, self.queries, metric="fresh@5")
        except (InputError, UsageError):
            return
        self.values |= measure_over(["fresh@5"], rankings, self.ids)
        del self.missing["fresh@5"]

    def _read_stages(self) -> None:
        """The pool's recall, by chunk and by doc, and what the reranker makes of its input."""
        names = self.log.stage_names if self.log is not None else ()
        raw, last = pool_stage(names), rerank_stage(names)
        lists: OrderedLists | None = None
        before: Mapping[str, Floats] = {}
        if raw is not None:
            lists = stage_lists(self.run, raw)
            before = self._measure(lists, [POOL, "ndcg@10"])
            self.labels["pool"] = f"{POOL} of stage {raw}"
            if np.nanmean(before[POOL]) + 1e-9 < np.nanmean(self.values["recall@10"]) * 0.5:
                # What was delivered must have been in the pool: the ids of this stage are written differently.
                self.missing["pool"] = f"the ids in `stages.{raw}` do not match those of the gold"
            else:
                self.values["pool"] = before[POOL]
        elif len(self.ids) and np.median(self.values["returned"]) >= DEEP:
            lists = final_lists(self.run)
            self.values["pool"] = measure_over([POOL], self.rankings, self.ids)[POOL]
            self.labels["pool"] = POOL
        else:
            self.missing["pool"] = f"needs `stages.retrieve` in a run log, or at least {DEEP} results per query"
        if "pool" in self.values:
            self.labels |= {f"{name} of pool": f"{LABELS[name]} of what the pool holds" for name in OF_POOL}
        self._read_docs(lists if "pool" in self.values else None)
        if raw is None or last is None or last == raw or "pool" not in self.values:
            self.missing["rerank gain"] = "needs two stages in a run log: `stages.retrieve` and `stages.rerank`"
            return
        self.values["rerank gain"] = self._ndcg(last) - before["ndcg@10"]
        self.labels["rerank gain"] = f"ndcg@10 of {last} − ndcg@10 of {raw}"
        self.reranking = raw, last

    def _ndcg(self, stage: str, qrels: Qrels | None = None) -> Floats:
        return self._measure(stage_lists(self.run, stage), ["ndcg@10"], qrels)["ndcg@10"]

    @property
    def _policy(self) -> Policy:
        """How lists are aligned: by chunk where the gold is."""
        return replace(self.run.policy, level="chunk") if self.run.gold_level == "chunk" else self.run.policy

    def _measure(self, lists: OrderedLists, metrics: Sequence[str], qrels: Qrels | None = None) -> Mapping[str, Floats]:
        """Metrics of other lists, on the queries that have them."""
        policy = replace(self._policy, missing="skip")
        return measure_over(metrics, align_lists(self.run, lists, policy, queries=self.queries, qrels=qrels), self.ids)

    def _read_docs(self, pool: OrderedLists | None) -> None:
        """The pool's recall of docs, where the gold is by chunk: a doc is as relevant as its best chunk."""
        if pool is None:
            self.missing["gap to docs"] = self.missing["pool"]
            return
        if self.run.gold_level != "chunk":
            self.missing["gap to docs"] = "the gold is not by chunk"
            return
        policy = replace(self.run.policy, missing="skip", level="doc")
        gold = qrels_by_doc(self.run.qrels, self.run.doc_of)
        rankings = align_lists(self.run, pool, policy, queries=self.queries, qrels=gold)
        by_doc = measure_over([POOL, "num_rel"], rankings, self.ids)
        self.values["pool of docs"] = by_doc[POOL]
        self.values["reachable of docs"] = _reachable(by_doc[POOL], by_doc["num_rel"])
        self.labels["pool of docs"] = f"{self.labels['pool']}, by doc"
        self.values["gap to docs"] = self.values["pool of docs"] - self.values["pool"]
        self.labels["gap to docs"] = f"{self.labels['pool']}: by doc − by chunk"

    def _read_routes(self) -> None:
        expected = self.queries.field("expected_source") if self.queries is not None else {}
        lack = self._no_field("expected_source")
        routes = self.log.routes if self.log is not None else {}
        if not routes:
            self.missing["misrouted"] = self._no("route")
        elif lack is not None:
            self.missing["misrouted"] = lack
        else:
            both = [q in routes and q in expected for q in self.ids]
            self.values["misrouted"] = np.array(
                [float(routes[q] != str(expected[q])) if k else np.nan for q, k in zip(self.ids, both, strict=True)]
            )

    def _read_skips(self) -> frozenset[str]:
        """The queries that skip retrieval; of those that the table does not call rightly skipped, which ones do."""
        retrieved = self.log.retrieved if self.log is not None else {}
        if not retrieved:
            self.missing["skipped"] = self._no("retrieved")
            return frozenset()
        needs = retrieval_needs(self.queries) if self.queries is not None else {}
        asked = (not retrieved[q] if q in retrieved and needs.get(q, True) else np.nan for q in self.ids)
        self.values["skipped"] = np.array(list(asked), dtype=np.float64)
        return frozenset(q for q, there in retrieved.items() if not there)

    def _timed_ids(self) -> list[str]:
        """The queries of the log, first those with gold: people wait for the others too."""
        lines = self.log.traces if self.log is not None else {}
        return list(dict.fromkeys((*(q for q in self.ids if q in lines), *lines)))

    def _latency(self, ids: Sequence[str]) -> dict[str, Floats]:
        stages = self.log.latency if self.log is not None else {}
        if not stages:
            self.missing["latency"] = self._no("latency_ms")
        return {stage: np.array([times.get(q, np.nan) for q in ids]) for stage, times in stages.items()}

    def _segments(self, by: Fields | None) -> Sampling:
        """The segments that the rules compare."""
        design = self.run.sampling
        if by is not None or self.queries is None:
            if not design.by:
                self.missing["segments"] = "needs a table of queries (--queries) with fields such as language"
            return design
        fields = _fields(self.queries, design.minimum)
        if not fields and design.by:
            return design
        if not fields:
            self.missing["segments"] = "no field of the queries has 2 to 20 values, such as language or topic"
        intervals = Intervals(fields or None, design.minimum, design.confidence, "auto", design.resamples, design.seed)
        return sampling(self.queries, intervals)


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
    out = {"mrr of pool": np.where(there, values["mrr"], np.nan), "reachable": _reachable(values["pool"], gold)}
    for name, (found, places) in hits.items():
        best = np.minimum(places, np.maximum(pool, 1.0))
        out[f"{name} of pool"] = np.where(there, np.minimum(found / np.maximum(best, 1.0), 1.0), np.nan)
    return out


def _reachable(pool: Floats, gold: Floats) -> Floats:
    """recall(cap=true)@5 of a perfect order of the pool, from its recall and the number of relevant docs."""
    return np.minimum(pool * np.minimum(gold, DEEP), 5.0) / np.minimum(np.maximum(gold, 1.0), 5.0)


def _count_relevant(rankings: Rankings, places: Mapping[str, float], query_ids: Sequence[str]) -> Floats:
    """How many relevant docs stand in so many first places of each query."""
    limit = np.array([places.get(q, 0.0) for q in rankings.query_ids])
    counts = np.bincount(
        rankings.query,
        weights=is_relevant(rankings.grade) & (rankings.rank <= limit[rankings.query]),
        minlength=len(limit),
    )
    known = dict(zip(rankings.query_ids, counts.tolist(), strict=True))
    return np.array([known.get(q, np.nan) for q in query_ids])


def _fields(table: Queries | None, minimum: int) -> list[str]:
    """The fields of the queries that are worth slicing by: a few values, at least two of them with enough queries."""
    if table is None:
        return []
    out = []
    for name in sorted({f for fields in table.fields.values() for f in fields} - NO_SEGMENTS):
        texts = [str(v) for v in table.field(name).values() if not isinstance(v, (Mapping, list, tuple))]
        sizes = np.unique(texts, return_counts=True)[1] if texts else np.zeros(0)
        if 2 <= len(sizes) <= MOST_SEGMENTS and (sizes >= minimum).sum() >= 2:
            out.append(name)
    return out
