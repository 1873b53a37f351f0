"""Metrics of sampled gold: equal to the plain ones where all is judged, nearly unbiased where a fifth is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

import karat
from karat.errors import UsageError
from karat.metrics import parse
from karat.metrics.sampled_gold import SampledGold, SampledValues, estimate_metric
from karat.stats.survey import Survey

SIZE = 200
METRICS = ("precision@5", "recall@5", "map", "map@10", "ndcg@5", "ndcg(gain=exp)@5", "recall(rel=2)@20")


@dataclass(frozen=True)
class Collection:
    """Queries with 200 judged docs each, graded 0 to 3, and a run that returns 20 of them."""

    query: np.ndarray
    rank: np.ndarray
    grade: np.ndarray

    @property
    def gold(self) -> dict[str, dict[str, float]]:
        out: dict[str, dict[str, float]] = {}
        for i, (q, g) in enumerate(zip(self.query, self.grade, strict=True)):
            out.setdefault(f"q{q:02}", {})[f"d{i}"] = float(g)
        return out

    @property
    def run(self) -> dict[str, list[str]]:
        out: dict[str, list[str]] = {}
        for i in np.lexsort((self.rank, self.query)):
            if self.rank[i]:
                out.setdefault(f"q{self.query[i]:02}", []).append(f"d{i}")
        return out

    def sample(self, rows: np.ndarray, survey: Survey) -> SampledGold:
        return SampledGold(int(self.query.max()) + 1, self.query[rows], self.rank[rows], self.grade[rows], survey)


def make_collection(queries: int, seed: int) -> Collection:
    rng = np.random.default_rng(seed)
    place = np.tile(np.arange(SIZE), queries)
    odds = rng.beta(4, 4, queries).repeat(SIZE) * np.where(place < 20, 0.9, 0.5)
    grade = np.where(rng.random(SIZE * queries) < odds, rng.integers(1, 4, SIZE * queries), 0).astype(float)
    return Collection(np.repeat(np.arange(queries), SIZE), np.where(place < 20, place + 1, 0), grade)


@pytest.mark.parametrize("strata", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_a_sample_of_everything_gives_the_metric_itself(metric: str, strata: bool) -> None:
    data = make_collection(8, 1)
    plain = karat.evaluate(data.gold, data.run, metric)
    rows = np.random.default_rng(2).permutation(len(data.grade))
    survey = Survey(np.ones(len(rows)), data.query[rows] if strata else None)
    found = estimate_metric(parse(metric), data.sample(rows, survey))
    assert found.values == pytest.approx(list(plain.per_query(metric).values()), abs=1e-12)
    assert found.error == 0.0


def draw(data: Collection, rng: np.random.Generator) -> tuple[np.ndarray, Survey]:
    """Half of the docs at the top of each query, and a fifth of the others: a fixed number of each."""
    top = ((data.rank > 0) & (data.rank <= 10)).reshape(-1, SIZE)
    chance, u = np.where(top, 0.5, 0.2), rng.random(top.shape)
    rows = np.zeros(top.shape, dtype=bool)
    for band, n in ((top, 5), (~top, 38)):
        rows |= band & (np.where(band, u, 2).argsort(axis=1).argsort(axis=1) < n)
    stratum = (2 * np.arange(len(top))[:, None] + top).astype(np.int64)
    return np.flatnonzero(rows), Survey(chance[rows], stratum[rows])


def test_estimates_from_a_fifth_are_nearly_unbiased_and_their_intervals_hold() -> None:
    """A reduced form of bench/judges.py, which does this with TREC DL 2019."""
    data, rng = make_collection(40, 3), np.random.default_rng(4)
    names = ("precision@10", "recall@10", "map", "ndcg@10")
    truth = karat.evaluate(data.gold, data.run, names).mean
    means, holds = np.empty((80, 4)), np.empty((80, 4))
    for i in range(80):
        sample = data.sample(*draw(data, rng))
        for j, name in enumerate(names):
            found = estimate_metric(parse(name), sample, resamples=100)
            means[i, j], holds[i, j] = found.these.estimate, truth[name] in found.these
    bias = (means.mean(axis=0) - [truth[name] for name in names]) / means.std(axis=0)
    assert np.abs(bias).max() < 0.25 + 2 / np.sqrt(80)
    assert holds.mean(axis=0).min() > 0.89


def test_a_query_with_nothing_relevant_in_its_sample_leaves_the_mean_of_ratios() -> None:
    query, rank = np.array([0, 0, 1, 1]), np.array([1, 0, 1, 2])
    sample = SampledGold(2, query, rank, np.array([0.0, 0, 1, 0]), Survey(np.full(4, 0.5)))
    found = estimate_metric(parse("recall@5"), sample)
    assert np.isnan(found.values[0]) and found.values[1] == 1.0
    assert (found.these.estimate, found.without_relevant) == (1.0, 1)
    assert estimate_metric(parse("precision@5"), sample).values.tolist() == [0.0, pytest.approx(0.4)]
    nothing = SampledGold(2, query, rank, np.zeros(4), Survey(np.full(4, 0.5)))
    assert np.isnan(estimate_metric(parse("ndcg@5"), nothing).values).all()


def test_a_query_that_leaves_by_chance_may_be_at_either_end_of_the_scale() -> None:
    def estimate(query: list[int], grade: list[float], chance: list[float], queries: int) -> SampledValues:
        rank = np.array([1, 0] * (len(query) // 2))
        gold = SampledGold(queries, np.array(query), rank, np.array(grade), Survey(np.array(chance)))
        return estimate_metric(parse("recall@5"), gold, resamples=100)

    two, relevant, half = [0, 0, 1, 1], [1.0] * 4, [0.5] * 4
    plain = estimate(two, relevant, half, 2)
    # Recall is .5 in both. A third query leaves; it may be .5 off either way, and counts for a third.
    away = math.sqrt(plain.error**2 + (0.5 / 3) ** 2)
    assert plain.these.estimate == pytest.approx(0.5) and plain.error > 0
    drawn = estimate([*two, 2, 2], [*relevant, 0, 0], [*half, 0.5, 0.5], 3)
    assert (drawn.these.estimate, drawn.error) == (pytest.approx(0.5), pytest.approx(away))
    assert estimate(two, relevant, half, 3).error == pytest.approx(away), "nothing of it was drawn"
    certain = estimate([*two, 2, 2], [*relevant, 0, 0], [*half, 1, 1], 3)
    assert certain.error == pytest.approx(plain.error), "it has no relevant doc in any sample"


@pytest.mark.parametrize(
    "metric", ["mrr", "precision", "map(norm=min)@5", "ndcg(gains={1:1,2:5})@5", "recall(cap=true)@5"]
)
def test_what_cannot_be_estimated_is_refused(metric: str) -> None:
    sample = SampledGold(1, np.array([0]), np.array([1]), np.array([1.0]), Survey(np.ones(1)))
    with pytest.raises(UsageError, match="sampled gold"):
        estimate_metric(parse(metric), sample)


def test_a_query_stands_for_others_whose_relevant_docs_were_all_left_out() -> None:
    # One relevant doc, drawn with 1/5, is one of about five. None is drawn with a chance of about .8⁵, less what
    # the estimate of its logarithm varies by: exp(5 ln .8 − (5 ln .8)² · .8 / 2) = .199, and 1 / (1 − .199) = 1.248.
    gold = SampledGold(2, np.array([0, 1]), np.array([1, 0]), np.ones(2), Survey(np.array([0.2, 1.0])))
    log = 5 * math.log(0.8)
    behind = 1 / (1 - math.exp(log - 0.8 * log**2 / 2))
    found = estimate_metric(parse("recall@10"), gold)
    assert found.these.estimate == pytest.approx(behind / (behind + 1)) == pytest.approx(0.555, abs=1e-3)
    assert np.mean(found.values) == pytest.approx(found.these.estimate)
    precision = estimate_metric(parse("precision@10"), gold)
    assert precision.values.tolist() == [0.5, 0.0], "precision is defined for every query"


def test_queries_that_leave_the_mean_bias_it_less() -> None:
    """Half of the queries have 8 relevant docs, all in the top 10; half have 60, 15 of them there; a fifth is drawn."""
    few, many, rng = 8, 60, np.random.default_rng(3)
    query = np.repeat(np.arange(40), np.repeat([few, many], 20))
    rank = np.concatenate([np.tile(np.arange(1, few + 1), 20), np.tile(np.r_[1:16, np.zeros(45, dtype=int)], 20)])
    means, plain = [], []
    for _ in range(150):
        drawn = rng.random(len(query)) < 0.2
        gold = SampledGold(40, query[drawn], rank[drawn], np.ones(drawn.sum()), Survey(np.full(drawn.sum(), 0.2)))
        means.append(estimate_metric(parse("recall@100"), gold).these.estimate)
        seen = [rank[drawn & (query == q)] for q in range(40)]
        plain.append(np.mean([np.mean(ranks > 0) for ranks in seen if len(ranks)]))
    truth = (1 + 0.25) / 2
    assert abs(np.mean(means) - truth) < 0.6 * abs(np.mean(plain) - truth)


def test_a_figure_above_1_is_1_and_within_its_intervals() -> None:
    """Ten relevant docs for each of 8 queries, drawn with unequal chances: some samples say more than ten."""
    rng, beyond = np.random.default_rng(3), 0
    for _ in range(20):
        chance = np.tile(np.linspace(0.2, 0.9, 10), 8)
        row = np.flatnonzero(rng.random(80) < chance)
        query, rank = row // 10, row % 10 + 1
        gold = SampledGold(8, query, rank, np.ones(len(row)), Survey(chance[row]))
        one = estimate_metric(parse("precision@10"), gold, resamples=200)
        beyond += one.values.mean() > 1
        for some in (one.these, one.population):
            assert 0 <= some.low < some.estimate <= some.high <= 1
    assert beyond > 5
