"""The pool: pairs of queries and docs that runs return near the top and nobody has judged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.align import find, find_queries
from karat.errors import UsageError
from karat.judge.pairs import Draw, Pair
from karat.judge.value import value_pairs
from karat.metrics.difference_bounds import offers_difference_bounds
from karat.metrics.grammar import parse
from karat.model.policy import Policy, is_judged
from karat.stats.defaults import SEED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.judge.value import PoolComparison
    from karat.metrics.grammar import Measure
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
    """How many could be in the file: all without a judgment, or by value those that could change a comparison."""
    comparisons: tuple[PoolComparison, ...] = ()
    """By value: what is certain of each comparison with the first run."""
    notes: tuple[str, ...] = ()


def build_pool(
    runs: Sequence[Run],
    *,
    gold: Qrels | None = None,
    judged: Mapping[tuple[str, str], float] = MappingProxyType({}),
    depth: int = DEPTH,
    order: Order = "random",
    metric: str | None = None,
    scale: Sequence[float] = range(4),
    limit: int | None = None,
    seed: int = SEED,
    policy: Policy | None = None,
) -> Pool:
    """The union of the runs' first `depth` docs, without the pairs that the gold or `judged` grades.

    In random order every pair has the same chance to be among the first, and with a limit the probability of each is
    known. By value, pairs come first that bring a comparison with the first run nearest to its decision; those that can
    change none are left out. Compared is `metric`, ndcg at the depth unless named, and docs without a judgment may have
    every grade of `scale`.
    """
    if depth < 1 or (limit is not None and limit < 1):
        raise UsageError(f"depth and limit must be whole numbers from 1, found {depth} and {limit}")
    policy = policy or Policy()
    measure = _choose_measure(metric, depth)
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
    if order == "value":
        queries = gold.query_ids if gold is not None else ()
        values = value_pairs(ranks, grades, queries, measure=measure, scale=scale)
        comparisons, value = values.comparisons, values.value
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
        notes=tuple(notes),
    )


def _choose_measure(metric: str | None, depth: int) -> Measure:
    """The metric that runs are compared by: its differences have bounds, and it sees no further than the pool."""
    measure = parse(metric or f"ndcg@{depth}")
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
    queries, how = find_queries(run, policy)
    hits, _ = find(queries, run, replace(how, duplicates="first"), keep_items=depth)
    ranks: dict[tuple[str, str], int] = {}
    for number, docs in hits.items.items():
        for rank, item in enumerate(docs, start=1):
            ranks.setdefault((queries.query_ids[number], item.parent if by_doc else item.doc), rank)
    return ranks, notes


def _grades_of(gold: Qrels) -> dict[tuple[str, str], float]:
    """The grades of pairs; a negative one says that nobody judged the doc."""
    queries = (gold.query_ids[number] for number in gold.query_of.tolist())
    rows = zip(queries, gold.docs, gold.grades.tolist(), is_judged(gold.grades).tolist(), strict=True)
    return {(query, doc): grade for query, doc, grade, judged in rows if judged}
