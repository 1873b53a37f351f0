"""Bounds of the difference of two runs under incomplete gold: those of all assignments of grades, tried one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import karat
from karat.metrics import parse
from karat.metrics.unjudged_bounds import (
    PooledDocs,
    bound_differences,
    gain_of_grades,
    offers_difference_bounds,
    weigh_ranks,
)

GRADES = (0.0, 1.0, 3.0)
NAMES = ["ndcg@3", "ndcg@1", "ndcg(gain=exp)@3", "ndcg", "precision@3", "precision(rel=2)@4"]


def random_case(seed: int) -> tuple[list[list[str]], dict[str, float], list[str]]:
    """Two lists that share docs, the grades of judged docs (returned or not), and the docs that nobody judged."""
    rng = np.random.default_rng(seed)
    docs = [f"d{i}" for i in range(6)]
    lists = [[docs[i] for i in rng.permutation(6)[: rng.integers(1, 5)]] for _ in range(2)]
    returned = sorted(set(lists[0]) | set(lists[1]))
    judged = [doc for doc in returned if rng.random() < 0.4]
    gold = {doc: float(rng.choice([0, 0, 1, 2, 3])) for doc in judged}
    gold |= {f"other{i}": float(g) for i, g in enumerate(rng.choice([0, 1, 3], rng.integers(0, 3)))}
    return lists, gold, [doc for doc in returned if doc not in gold]


@pytest.mark.parametrize("seed", range(30))
def test_bounds_are_those_of_all_assignments(seed: int) -> None:
    (first, second), gold, free = random_case(seed)
    every = [dict(zip(free, grades, strict=True)) for grades in product(GRADES, repeat=len(free))]
    qrels = {f"q{i}": {"no": 0.0} | gold | grades for i, grades in enumerate(every)}
    runs = {"first": dict.fromkeys(qrels, first), "second": dict.fromkeys(qrels, second)}
    result = karat.evaluate(qrels, runs, NAMES, method="none")
    ids = [*gold, *free]
    known = np.array([gold.get(doc, np.nan) for doc in ids])
    for name in NAMES:
        measure = parse(name)
        rank = [np.array([own.index(doc) + 1 if doc in own else 0 for doc in ids]) for own in (first, second)]
        pull = weigh_ranks(measure, rank[1]) - weigh_ranks(measure, rank[0])
        docs = PooledDocs(1, np.zeros(len(ids), dtype=np.int64), gain_of_grades(measure, known))
        bounds = bound_differences(measure, docs, pull, gain_of_grades(measure, np.array(GRADES)))
        base, candidate = (result[run].per_query(name) for run in ("first", "second"))
        values = [candidate[q] - base[q] for q in qrels]
        assert (bounds.low[0], bounds.high[0]) == pytest.approx((min(values), max(values)), abs=1e-12), name


def test_bounds_of_many_queries_are_those_of_each() -> None:
    rng, measure, gains = np.random.default_rng(4), parse("ndcg@3"), np.array([0.0, 1.0, 2.0])
    query = np.sort(rng.integers(0, 20, 100))
    pull, gain = rng.normal(size=100) / 2, rng.choice([0.0, 1.0, 2.0, np.nan], 100)
    together = bound_differences(measure, PooledDocs(21, query, gain), pull, gains)
    assert (together.low[20], together.high[20]) == (0.0, 0.0)  # a query without docs
    for number in range(20):
        own = query == number
        docs = PooledDocs(1, np.zeros(own.sum(), dtype=np.int64), gain[own])
        alone = bound_differences(measure, docs, pull[own], gains)
        assert (alone.low[0], alone.high[0]) == (together.low[number], together.high[number])


def test_a_doc_at_the_same_rank_of_both_runs_cannot_make_a_difference() -> None:
    measure, gains = parse("ndcg@10"), np.array([0.0, 1.0, 2.0, 3.0])
    docs = PooledDocs(1, np.zeros(2, dtype=np.int64), np.array([np.nan, np.nan]))
    bounds = bound_differences(measure, docs, np.zeros(2), gains)
    assert (bounds.low[0], bounds.high[0]) == (0.0, 0.0)


def test_other_metrics_offer_no_bounds() -> None:
    names = ("recall@10", "precision", "precision(denom=retrieved)@5", "ndcg(gains={1:1,3:2})@3", "map")
    assert [name for name in (*names, *NAMES) if offers_difference_bounds(parse(name))] == NAMES
