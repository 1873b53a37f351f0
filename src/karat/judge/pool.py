"""The pool: pairs of queries and docs that runs return near the top and nobody has judged."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.align import find, find_queries
from karat.errors import UsageError
from karat.judge.pairs import Draw, Pair
from karat.model.policy import Policy, is_judged
from karat.stats.defaults import SEED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

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
    notes: tuple[str, ...] = ()


def build_pool(
    runs: Sequence[Run],
    *,
    gold: Qrels | None = None,
    judged: Collection[tuple[str, str]] = (),
    depth: int = DEPTH,
    order: Order = "random",
    limit: int | None = None,
    seed: int = SEED,
    policy: Policy | None = None,
) -> Pool:
    """The union of the runs' first `depth` docs, without the pairs that the gold or `judged` holds.

    In random order every pair has the same chance to be among the first, and with a limit the probability of each is
    known. By value, pairs come first whose grade could change most in a comparison of two of the runs: the
    difference of their discounts of the doc in ndcg, or the discount itself where there is one run.
    """
    if depth < 1 or (limit is not None and limit < 1):
        raise UsageError(f"depth and limit must be whole numbers from 1, found {depth} and {limit}")
    policy = policy or Policy()
    discounts: dict[tuple[str, str], list[float]] = {}
    notes: list[str] = []
    for number, run in enumerate(runs):
        ranks, remarks = find_best_ranks(run, gold, depth, policy)
        notes += (f"{run.name}: {remark}" for remark in remarks)
        for pair, rank in ranks.items():
            discounts.setdefault(pair, [0.0] * len(runs))[number] = 1 / math.log2(rank + 1)
    earlier = set(judged) | (set(_judged_pairs(gold)) if gold is not None else set())
    rest = sorted(pair for pair in discounts if pair not in earlier)
    ids = [rest[i] for i in np.random.default_rng(seed).permutation(len(rest))]
    if order == "value":
        ids.sort(key=lambda pair: -_value(discounts[pair]))  # pairs of equal value stay in random order
    selection = ids[:limit]
    draw = Draw("value") if order == "value" else Draw("random", len(selection) / max(len(ids), 1))
    pairs = tuple(Pair(query, doc, draw) for query, doc in selection)
    queries = len({query for query, _ in discounts})
    return Pool(pairs, queries, len(discounts), len(discounts) - len(rest), tuple(notes))


def _value(discounts: Sequence[float]) -> float:
    """How much the grade of a doc matters: the largest difference between two runs."""
    return max(discounts) - (min(discounts) if len(discounts) > 1 else 0.0)


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


def _judged_pairs(gold: Qrels) -> list[tuple[str, str]]:
    """The pairs that have a grade; a negative one says that nobody judged the doc."""
    queries = (gold.query_ids[number] for number in gold.query_of.tolist())
    rows = zip(queries, gold.docs, is_judged(gold.grades).tolist(), strict=True)
    return [(query, doc) for query, doc, judged in rows if judged]
