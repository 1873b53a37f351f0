"""What the parts are measured on: gold, queries, and a run with what its log says of each query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from karat.align import align, find
from karat.align.gold import NOWHERE
from karat.align.lists import select_lists
from karat.align.mismatch import describe_mismatch
from karat.align.stream import default_threads
from karat.align.term_ids import run_of_terms
from karat.errors import UsageError
from karat.metrics.grammar import parse
from karat.model.policy import RELEVANT, Policy, is_relevant, parent_of
from karat.model.run import OrderedLists, Run
from karat.model.run_log import RunLog, Trace, ordered_items
from karat.ontology.load import open_ontology
from karat.read.log_lists import run_of
from karat.read.objects import build_qrels
from karat.read.queries import read_queries
from karat.read.run_log import log_of_lines
from karat.read.sources import read_run
from karat.records import dataclass
from karat.results.differences import PairedComparison, decide
from karat.results.gold import Gold
from karat.results.other_lists import final_lists
from karat.results.remarks import data_remarks
from karat.results.result import RunResult
from karat.results.sampling import sampling
from karat.results.values import measure_rankings
from karat.results.words import queries_text
from karat.stats.defaults import DRAWS
from karat.verbs.compare import DEFAULT_TESTS
from karat.verbs.components.estimator import Estimator
from karat.verbs.evaluate import named_runs

if TYPE_CHECKING:
    from karat.align.hits import Hits
    from karat.config.options import Settings
    from karat.model.qrels import Qrels
    from karat.model.queries import Queries
    from karat.results.decisions import Decision
    from karat.results.remarks import Remark

FIELDS = ("topk", "stages", "route", "retrieved", "query", "rewritten_query", "topk_original", "entities")
"""The fields of a run log that parts are measured on."""


def no_log(*fields: str) -> str:
    """What is missing where a part needs fields of a run log and the run is none."""
    names = " and ".join(f"`{name}`" for name in fields)
    return f"needs {names} on the lines of a run log (JSONL with topk), which this run is not"


@dataclass(frozen=True)
class Material:
    """One run, ready to be taken apart."""

    gold: Qrels
    queries: Queries | None
    run: Run
    log: RunLog | None
    policy: Policy
    """How lists are aligned with the gold: each as it was logged, whichever list the metrics are of."""
    k: int
    rel: float
    estimator: Estimator

    @cached_property
    def at_doc(self) -> bool:
        """Whether gold ids are matched with the docs that chunks belong to."""
        return self._hits.at_doc

    @cached_property
    def _hits(self) -> Hits:
        return find(self.gold, self.run, self.policy)[0]

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """What is odd about the data, as `evaluate` says it."""
        run = self.measure(self.run, ["mrr"])
        mismatches = describe_mismatch(self.gold, self.run, self._hits, self.policy)
        return data_remarks([replace(run, mismatches=mismatches)])

    @cached_property
    def no_answer(self) -> tuple[str, ...]:
        return tuple(self.queries.no_answer) if self.queries is not None else ()

    @cached_property
    def answerable(self) -> dict[str, dict[str, float]]:
        """The gold of every query that has an answer and counts."""
        without, skip = set(self.no_answer), self.policy.empty_gold == "skip"
        gold = {q: self.gold.for_query(q) for q in self.gold.query_ids if q not in without}
        return {q: g for q, g in gold.items() if not skip or any(is_relevant(grade) for grade in g.values())}

    def note_absent(self, queries: Iterable[str], outcome: str) -> list[str]:
        """How many of these queries the log lacks, and what they count as; nothing where it has all."""
        assert self.log is not None
        count = sum(q not in self.log.traces for q in queries)
        outcome = "left out" if self.policy.missing == "skip" else f"counted as {outcome}"
        return [f"{outcome}: {queries_text(count)} without a line"] if count else []

    def parent(self, doc: str) -> str:
        """The id that gold is matched with: the doc of a chunk where gold is by doc."""
        if not self.at_doc:
            return doc
        return self.doc_of(doc)

    def doc_of(self, doc: str) -> str:
        """The doc that a chunk belongs to."""
        return parent_of(doc, self.run.separator(self.policy), self.log.docs if self.log is not None else None)

    @cached_property
    def final(self) -> Mapping[str, Sequence[str]]:
        """The docs that each query of a run log returned, best first."""
        assert isinstance(self.run.content, OrderedLists)
        return self.run.content.lists

    @cached_property
    def original(self) -> Mapping[str, Sequence[str]]:
        """What queries that were rewritten found before, best first."""
        assert self.log is not None
        lists = {q: t.topk_original for q, t in self.log.traces.items() if t.topk_original is not None}
        return {q: [item.id for item in ordered_items(items, self.policy)] for q, items in lists.items()}

    def choose(self, lists: OrderedLists, policy: Policy) -> OrderedLists:
        """The docs of logged lists that count by the policy."""
        for by_gold in (False, True):
            lists = select_lists(self.gold, lists, policy, self.at_doc, by_gold=by_gold)
        return lists

    @cached_property
    def chosen(self) -> Mapping[str, Sequence[str]]:
        """The docs of each final list that count, best first."""
        return self.choose(self._ordered(self.final), self.policy).lists if self.policy.selects else self.final

    @cached_property
    def stages(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        """The docs that count after each stage, by query."""
        assert self.log is not None
        stages: dict[str, dict[str, Sequence[str]]] = {q: {**trace.stages} for q, trace in self.log.traces.items()}
        for name in self.log.stage_names if self.policy.selects else ():
            lists = self._ordered({q: own[name] for q, own in stages.items() if name in own})
            for q, docs in self.choose(lists, self.policy).lists.items():
                stages[q][name] = docs
        return stages

    def lists(self, name: str, pick: Callable[[Trace], Sequence[str] | None], *, absent: bool = False) -> Run:
        """One list of every line that has it, as a run; with `absent` a query that the log lacks has an empty one."""
        assert self.log is not None
        picks = {q: pick(trace) for q, trace in self.log.traces.items()}
        lists: dict[str, Sequence[str]] = {q: docs for q, docs in picks.items() if docs is not None}
        if absent and self.policy.missing == "zero":
            lists |= {q: () for q in self.answerable if q not in picks}
        return self.as_run(name, lists)

    @cached_property
    def fixed(self) -> Policy:
        """The policy with the level settled, so that every list is measured at the same one."""
        return replace(self.policy, level="doc" if self.at_doc else "chunk")

    def measure(
        self, run: Run, metrics: Sequence[str], *, gold: Qrels | None = None, policy: Policy | None = None
    ) -> RunResult:
        """The figures of one list."""
        qrels, policy = self.gold if gold is None else gold, policy or self.fixed
        threads = self.estimator.threads
        aligned, notes = align(qrels, run, policy, no_answer=self.no_answer, threads=threads)
        ids, values = measure_rankings([parse(name) for name in metrics], aligned.rankings)
        how = self.estimator.sampling
        shares = how.method in ("wilson", "clopper-pearson")  # not all values are shares
        sampling = replace(how, by=(), fields={}, method="auto" if shares else how.method)
        return RunResult(
            run.name,
            ids,
            values,
            aligned.counts,
            data_notes=notes,
            sampling=sampling,
            policy=policy,
            rankings=aligned.rankings,
            threads=threads,
        )

    def compare(self, before: Run, after: Run, metrics: Sequence[str]) -> dict[str, Decision]:
        """What changes from one list to another, on the queries that have both."""
        return self.decide(
            *(self.measure(run, metrics, policy=replace(self.fixed, missing="skip")) for run in (before, after))
        )

    def decide(self, before: RunResult, after: RunResult) -> dict[str, Decision]:
        """What changes between two measurements of the same queries."""
        alpha = 1 - self.estimator.sampling.confidence
        how = PairedComparison(before, DEFAULT_TESTS, "none", alpha, None, DRAWS, {}, self.estimator.threads)
        return {row.metric: row for row in decide(how, [after], segments=False)}

    @cached_property
    def top(self) -> dict[str, list[tuple[str, float | None]]]:
        """The first k docs with their scores, of the queries with an answer and of those without one."""
        return self.first_docs(self.k)

    def first_docs(self, depth: int) -> dict[str, list[tuple[str, float | None]]]:
        """The first docs of each query with their scores; a doc that comes again is dropped."""
        if self.log is not None:
            out = {}
            assert isinstance(self.run.content, OrderedLists)
            content = self.choose(self.run.content, self.policy.without_gold())
            for q, docs in content.lists.items():
                pairs: dict[str, float | None] = {}
                for doc, score in zip(docs, (content.scores or {})[q], strict=True):
                    pairs.setdefault(doc, score)
                out[q] = list(pairs.items())[:depth]
            return out
        # A query without gold is looked up through a judgment that no doc can meet.
        judgments = {q: self.gold.for_query(q) for q in self.gold.query_ids}
        judgments |= {q: {NOWHERE: -1.0} for q in self.no_answer if not judgments.get(q)}
        gold = build_qrels(judgments, self.gold.source)
        hits = find(gold, self.run, self.fixed.without_gold(), keep_items=depth)[0]
        return {gold.query_ids[i]: [(item.doc, item.score) for item in items] for i, items in hits.items.items()}

    def as_run(self, name: str, lists: Mapping[str, Sequence[str]]) -> Run:
        """Lists as a run, with the doc that each chunk belongs to."""
        return Run(name, self._ordered(lists))

    def _ordered(self, lists: Mapping[str, Sequence[str]]) -> OrderedLists:
        return OrderedLists(lists, {q: [self.doc_of(d) for d in docs] for q, docs in lists.items()})


def read_material(qrels: Any, run: Any, settings: Settings, *, k: int = 5, rel: float = RELEVANT) -> Material:
    """Read what is to be measured; the run log is read once for all components."""
    data = settings.data
    table = read_queries(data.queries) if data.queries is not None else None
    ontology = open_ontology(data.ontology) if data.ontology is not None else None
    gold = Gold(qrels, data.qrels_format, data.subtopics, settings.policy, ontology).qrels
    table = table.with_ids_of(gold.query_ids) if table is not None else None
    estimator = Estimator(
        sampling(table, replace(settings.intervals, by=None)), settings.engine.threads or default_threads()
    )
    policy = as_logged(settings.policy)
    source = _read(run, policy, data.run_format)
    if ontology is not None or source.entries:
        source = run_of_terms(source, policy, gold=gold, ontology=ontology).run
    return _material(gold, table, source, policy, k, rel, estimator)


def material_of(run: RunResult, queries: Queries | None, *, source: Run | None = None, k: int = 5) -> Material:
    """What a result holds of a run; `source` is the run itself, where it has no run log."""
    policy = as_logged(run.policy)
    if run.log is not None:
        source = run_of(run.log, policy)
    estimator = Estimator(replace(run.sampling, by=(), fields={}), run.threads)
    return _material(run.qrels, queries, source or Run(run.name, final_lists(run)), policy, k, RELEVANT, estimator)


def as_logged(policy: Policy) -> Policy:
    """The policy for every list as it was logged."""
    return replace(policy, stage=None, as_of_filter=False)


def _material(
    gold: Qrels, queries: Queries | None, run: Run, policy: Policy, k: int, rel: float, estimator: Estimator
) -> Material:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise UsageError(f"k must be an integer from 1, found {k!r}")
    if run.log is not None:
        run.log.check(*FIELDS)
    return Material(gold, queries, run, run.log, policy, k, rel, estimator)


def _read(run: Any, policy: Policy, run_format: str | None) -> Run:
    if isinstance(run, Sequence) and not isinstance(run, str) and run and all(isinstance(x, Mapping) for x in run):
        return run_of(log_of_lines(run, "run"), policy)
    runs = named_runs(run)
    if len(runs) != 1:
        raise UsageError(f"components are of one run at a time, found {len(runs)}")
    name, source = runs[0]
    return read_run(source, name=name, format=run_format, policy=policy)
