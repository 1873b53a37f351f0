"""The pool: pairs of queries and docs that runs return near the top and nobody has judged."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.align import Hits, find, find_queries
from karat.errors import UsageError
from karat.judge.gate_value import GateRule, PoolGate, RankedLists, value_gates
from karat.judge.pairs import Draw, Pair
from karat.judge.value import PoolComparison, value_pairs
from karat.metrics.grammar import Measure, parse
from karat.metrics.unjudged_bounds import offers_difference_bounds
from karat.model.policy import Policy, is_judged
from karat.records import dataclass
from karat.results.top_lists import DEPTH as LISTED
from karat.results.words import plural, queries_text
from karat.stats.defaults import SEED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.model.qrels import Qrels
    from karat.model.run import Run

Order = Literal["random", "value"]
DEPTH = 10


@dataclass(frozen=True)
class Pool:
    """The pairs to judge, in the order to judge them."""

    pairs: tuple[Pair, ...]
    queries: int
    total: int
    """How many pairs the runs return down to the depth, each once."""
    judged: int
    """How many of these have a judgment already."""
    open: int
    """How many could be in the file: all without a judgment, or by value those that could change what is asked."""
    comparisons: tuple[PoolComparison, ...] = ()
    """By value: what is certain of each comparison with the first run."""
    gates: tuple[PoolGate, ...] = ()
    """By value: what is certain of each gate for each run that it judges."""
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        pairs = plural(len(self.pairs), "pair")
        return f"Pool({pairs} of {queries_text(self.queries)}; {self.judged:,} of {self.total:,} are judged)"


def build_pool(
    runs: Sequence[Run],
    *,
    gold: Qrels | None = None,
    judged: Mapping[tuple[str, str], float] = MappingProxyType({}),
    depth: int = DEPTH,
    order: Order = "random",
    metric: str | None = None,
    gates: Sequence[GateRule] = (),
    scale: Sequence[float] = range(4),
    limit: int | None = None,
    seed: int = SEED,
    policy: Policy | None = None,
) -> Pool:
    """The union of the runs' first `depth` docs, without the pairs that the gold or `judged` grades.

    In random order every pair has the same chance to be among the first, and with a limit the probability of each is
    known. By value, pairs come first that bring a comparison with the first run nearest to its decision; those that can
    change none are left out. Compared is `metric`, ndcg at the depth unless named, and docs without a judgment may have
    every grade of `scale`. With `gates`, pairs come first that bring a gate nearest to its decision, and runs are only
    compared by a metric that is named.
    """
    if depth < 1 or (limit is not None and limit < 1):
        raise UsageError(f"depth and limit must be whole numbers from 1, found {depth} and {limit}")
    if gates and order != "value":
        raise UsageError("gates say which pairs are worth a judgment: they need the order by value")
    policy = policy or Policy()
    measure = _check_measure(parse(metric or f"ndcg@{depth}"), depth)
    for gate in gates:
        _check_measure(gate.measure, depth)
    ranks: dict[str, Mapping[tuple[str, str], int]] = {}
    notes: list[str] = []
    for run in runs:
        ranks[run.name], remarks = find_best_ranks(run, gold, depth, policy)
        notes += (f"{run.name}: {remark}" for remark in remarks)
    every = {pair for own in ranks.values() for pair in own}
    grades = {**judged, **(_grades_of(gold) if gold is not None else {})}
    rest = sorted(every - grades.keys())
    ids = [rest[i] for i in np.random.default_rng(seed).permutation(len(rest))]
    comparisons: tuple[PoolComparison, ...] = ()
    judged_gates: tuple[PoolGate, ...] = ()
    if order == "value":
        queries, value = gold.query_ids if gold is not None else (), dict[tuple[str, str], float]()
        if not gates or metric is not None:
            values = value_pairs(ranks, grades, queries, measure=measure, scale=scale)
            comparisons, value = values.comparisons, dict(values.value)
        if gates:
            lists = {run.name: find_lists(run, policy) for run in runs}
            judged_gates, by_gate = value_gates(ranks, lists, grades, queries, gates, scale=scale)
            value = {pair: max(own.get(pair, 0.0) for own in (value, by_gate)) for pair in {*value, *by_gate}}
        ids = sorted(filter(value.__contains__, ids), key=lambda pair: -value[pair])  # equal ones stay in random order
    selection = ids[:limit]
    draw = Draw("value") if order == "value" else Draw("random", len(selection) / max(len(ids), 1))
    return Pool(
        tuple(Pair(query, doc, draw) for query, doc in selection),
        queries=len({query for query, _ in every}),
        total=len(every),
        judged=len(every) - len(rest),
        open=len(ids),
        comparisons=comparisons,
        gates=judged_gates,
        notes=tuple(notes),
    )


def _check_measure(measure: Measure, depth: int) -> Measure:
    """A metric that pairs can be valued by: its differences have bounds, and it sees no further than the pool."""
    if not offers_difference_bounds(measure):
        raise UsageError(f"pairs are valued by ndcg@k or precision@k, found {measure.name}")
    if measure.k is None or measure.k > depth:
        raise UsageError(f"{measure.name} looks deeper than the pool: choose a cutoff up to {depth}, or a larger depth")
    return measure


def find_best_ranks(
    run: Run, gold: Qrels | None, depth: int, policy: Policy
) -> tuple[Mapping[tuple[str, str], int], Sequence[str]]:
    """The rank of each doc of each query's list, and notes; docs of chunks where the gold is by doc."""
    by_doc, notes = policy.level == "doc", run.notes
    if gold is not None and policy.level == "auto":
        hits, notes = find(gold, run, policy)
        by_doc = hits.at_doc
    queries, hits = _find_docs(run, depth, policy)
    ranks: dict[tuple[str, str], int] = {}
    for number, docs in hits.items.items():
        for rank, item in enumerate(docs, start=1):
            ranks.setdefault((queries.query_ids[number], item.parent if by_doc else item.doc), rank)
    return ranks, notes


def find_lists(run: Run, policy: Policy) -> RankedLists:
    """The lists of a run as far as results keep them."""
    queries, hits = _find_docs(run, LISTED, policy)
    returned = hits.returned.tolist()
    docs = {queries.query_ids[i]: (returned[i], *(item.doc for item in own)) for i, own in hits.items.items() if own}
    return RankedLists(max(returned, default=0), docs)


def _find_docs(run: Run, depth: int, policy: Policy) -> tuple[Qrels, Hits]:
    """The queries of a run, and their first docs."""
    queries, how = find_queries(run, policy)
    return queries, find(queries, run, replace(how, duplicates="first"), keep_items=depth)[0]


def _grades_of(gold: Qrels) -> dict[tuple[str, str], float]:
    """The grades of pairs; a negative one says that nobody judged the doc."""
    queries = (gold.query_ids[number] for number in gold.query_of.tolist())
    rows = zip(queries, gold.docs, gold.grades.tolist(), is_judged(gold.grades).tolist(), strict=True)
    return {(query, doc): grade for query, doc, grade, judged in rows if judged}
