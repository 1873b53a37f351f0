"""Bounds of metrics under incomplete gold: those of all assignments of grades, tried one by one."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest

import karat
from karat.metrics import parse
from karat.metrics.unjudged_bounds import OFFERED, bound_values
from karat.model.rankings import Rankings

GRADES = (0, 1, 3)
NAMES = [
    *(
        "hit@3",
        "precision@3",
        "precision",
        "precision(denom=retrieved)@9",
        "mrr@4",
        "mrr(rel=2)",
        "dcg@3",
        "dcg(gain=exp)",
    ),
    *("rbp", "rbp(gain=graded)@3", "rank_biased_gain@4", "err@3", "err(max_grade=3)"),
    *("recall@3", "recall(cap=true)@3", "recall", "wrecall@3", "f1@3", "f1(beta=2)@2", "f1"),
    *("map@3", "map", "map(norm=min)@3", "map(rel=2)@4"),
    *("ndcg@3", "ndcg", "ndcg(gain=exp)@3", "ndcg@1", "ndcg@9"),
]


def random_case(seed: int) -> tuple[dict[str, float], list[str], list[str]]:
    """Gold of one query, a list of up to 5 docs, and those that nobody judged: returned ones and up to 1 other."""
    rng = np.random.default_rng(seed)
    docs = [f"d{i}" for i in range(rng.integers(1, 6))]
    known = rng.random(len(docs)) < 0.4
    grades = rng.choice([0, 0, 1, 2, 3, 0.5], len(docs))
    gold = {d: float(g) for d, g, k in zip(docs, grades, known, strict=True) if k}
    gold |= {f"other{i}": float(g) for i, g in enumerate(rng.choice([0, 1, 2, 3], rng.integers(0, 3)))}
    gold["irrelevant"] = 0.0
    unjudged = [d for d in docs if d not in gold]
    return gold, docs, unjudged


@cache
def every_assignment(seed: int, elsewhere: int) -> tuple[Rankings, karat.Result]:
    """The rankings as they are, and the values of all metrics with every choice of grades, one query for each."""
    gold, docs, unjudged = random_case(seed)
    free = [*unjudged, *(f"nowhere{i}" for i in range(elsewhere))]
    every = [dict(zip(free, map(float, grades), strict=True)) for grades in product(GRADES, repeat=len(free))]
    result = evaluate({f"q{i}": gold | grades for i, grades in enumerate(every)}, docs, NAMES)
    assert len(result.runs[0].query_ids) == len(every)
    rankings = evaluate({"q": gold}, docs, "mrr").runs[0].rankings
    assert rankings is not None
    return rankings, result


@pytest.mark.parametrize("elsewhere", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_bounds_are_those_of_all_assignments(name: str, elsewhere: int) -> None:
    measure = parse(name)
    for seed in range(12):
        rankings, result = every_assignment(seed, elsewhere)
        values = result.per_query(measure.name).values()
        found = bound_values(measure, rankings, GRADES, elsewhere=elsewhere)
        assert found is not None
        assert (found.low[0], found.high[0]) == pytest.approx((min(values), max(values)), abs=1e-12), seed


def evaluate(gold: dict[str, dict[str, float]], docs: list[str], metric: str | list[str]) -> karat.Result:
    return karat.evaluate(gold, dict.fromkeys(gold, docs), metric, method="none", empty_gold="zero")


def test_every_metric_that_offers_bounds_is_tried() -> None:
    assert {parse(name).metric.name for name in NAMES} == set(OFFERED)


def test_bounds_of_many_queries_are_those_of_each() -> None:
    cases = {f"q{seed}": random_case(seed) for seed in range(12)}
    gold, run = {q: case[0] for q, case in cases.items()}, {q: case[1] for q, case in cases.items()}
    rankings = karat.evaluate(gold, run, "mrr", method="none", empty_gold="zero").runs[0].rankings
    for name in ("ndcg@3", "map@3", "recall@2"):
        together = bound_values(parse(name), rankings, GRADES)
        for i, q in enumerate(rankings.query_ids):
            alone = evaluate({q: gold[q]}, run[q], name).runs[0].rankings
            own = bound_values(parse(name), alone, GRADES)
            assert (together.low[i], together.high[i]) == pytest.approx((own.low[0], own.high[0]), abs=1e-12)


def test_another_relevant_doc_may_lower_ndcg() -> None:
    # The only relevant doc is first: 1 as it is. The tenth, which nobody judged, may be relevant too.
    rankings = evaluate(
        {"q": {"a": 1.0} | {f"d{i}": 0.0 for i in range(2, 10)}}, [*"a", *(f"d{i}" for i in range(2, 11))], "mrr"
    )
    found = bound_values(parse("ndcg@10"), rankings.runs[0].rankings, (0, 1))
    assert found.high[0] == pytest.approx(1.0)
    assert found.low[0] == pytest.approx((1 + 1 / np.log2(11)) / (1 + 1 / np.log2(3)))


def test_other_metrics_offer_no_bounds() -> None:
    rankings = evaluate({"q": {"a": 1.0}}, ["a", "b"], "mrr").runs[0].rankings
    assert bound_values(parse("bpref"), rankings, GRADES) is None
    assert bound_values(parse("ndcg(gains={1:1,3:2})@3"), rankings, GRADES) is None
