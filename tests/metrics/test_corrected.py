"""Metrics by a judge, corrected: exact where all is known, unbiased for sums, close for ndcg."""

from __future__ import annotations

import numpy as np
import pytest

import karat
from karat.errors import UsageError
from karat.metrics import parse
from karat.metrics.corrected import JudgedPairs, correct_metric
from karat.stats.prediction_powered import Labels, correct_mean
from karat.stats.survey import Survey

CONFUSION = np.array([[0.75, 0.17, 0.06, 0.02], [0.1, 0.5, 0.3, 0.1], [0.03, 0.12, 0.55, 0.3], [0.01, 0.04, 0.2, 0.75]])
METRICS = ("precision@10", "precision(rel=2)@5", "dcg@10", "ndcg@10", "ndcg(gain=exp)@5", "hit(rel=3)@5")


def plant(queries: int, seed: int) -> tuple[JudgedPairs, np.ndarray]:
    """20 docs per query, 10 of them returned, with a judge's grades; and people's grades."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=(queries, 20))
    quality = 0.6 * score + 0.8 * rng.normal(size=score.shape) + 0.3 * rng.normal(size=(queries, 1))
    human = np.digitize(quality, [0.3, 1.0, 1.7])
    judge = (rng.random(score.shape)[..., None] > CONFUSION[human].cumsum(axis=-1)).sum(axis=-1).clip(max=3)
    rank = (-score).argsort(axis=1).argsort(axis=1) + 1
    pairs = JudgedPairs(
        queries,
        np.repeat(np.arange(queries), 20),
        np.where(rank <= 10, rank, 0).ravel(),
        judge.ravel().astype(float),
        np.zeros(20 * queries, dtype=bool),
    )
    return pairs, human.ravel().astype(float)


def values(pairs: JudgedPairs, grade: np.ndarray, metric: str) -> np.ndarray:
    """The metric by Karat itself."""
    gold: dict[str, dict[str, float]] = {}
    run: dict[str, list[str]] = {}
    for i in np.lexsort((pairs.rank, pairs.query)):
        q = f"q{pairs.query[i]:04}"
        gold.setdefault(q, {})[f"d{i}"] = float(grade[i])
        if pairs.rank[i]:
            run.setdefault(q, []).append(f"d{i}")
    return np.array(list(karat.evaluate(gold, run, metric, method="none").per_query(metric).values()))


def known(pairs: JudgedPairs, grade: np.ndarray, rows: np.ndarray) -> JudgedPairs:
    return JudgedPairs(pairs.queries, pairs.query, pairs.rank, np.where(rows, grade, pairs.grade), rows)


@pytest.mark.parametrize("metric", METRICS)
def test_queries_with_gold_for_all_pairs_keep_their_values(metric: str) -> None:
    pairs, human = plant(12, 1)
    free = int(np.flatnonzero((human == 0) & (pairs.rank == 0))[0])
    gold = known(pairs, human, np.arange(len(human)) != free)
    labels = Labels(np.array([free]), np.zeros(1), Survey(np.ones(1)))
    found = correct_metric(parse(metric), gold, labels)
    assert found.linear == metric.startswith(("precision", "dcg"))
    assert pairs.query[free] == 0
    assert found.values[1:] == pytest.approx(values(pairs, human, metric)[1:], abs=1e-12)
    assert found.error == 0.0


@pytest.mark.parametrize("metric", METRICS)
def test_raw_is_the_metric_by_the_judge(metric: str) -> None:
    pairs, human = plant(12, 2)
    labels = Labels(np.arange(50), human[:50], Survey(np.full(50, 0.5)))
    assert correct_metric(parse(metric), pairs, labels).raw == pytest.approx(values(pairs, pairs.grade, metric).mean())


def test_precision_is_unbiased_and_its_interval_holds_where_the_judge_is_far_off() -> None:
    """A reduced form of bench/judges.py."""
    pairs, human = plant(100, 3)
    rng, names = np.random.default_rng(4), ("precision@10", "ndcg@10")
    truth = [values(pairs, human, name).mean() for name in names]
    means, holds, shorter = np.empty((80, 2)), np.empty((80, 2)), np.empty((80, 2))
    for i in range(80):
        row = rng.choice(2000, 300, replace=False)
        labels = Labels(row, human[row], Survey.even(300, 2000))
        for j, name in enumerate(names):
            found = correct_metric(parse(name), pairs, labels, resamples=100)
            means[i, j], holds[i, j] = found.these.estimate, truth[j] in found.these
            shorter[i, j] = (found.these.high - found.these.low) / (found.human.high - found.human.low)
    off = np.abs(means.mean(axis=0) - truth) / means.std(axis=0)
    assert off[0] < 3 / np.sqrt(80)
    assert off[1] < 0.8  # what ndcg is off by does not vanish with more samples
    assert holds.mean(axis=0).min() > 0.84
    assert shorter.max() < 0.9
    raw = [correct_metric(parse(name), pairs, labels, resamples=100).raw for name in names]
    assert (np.abs(np.array(raw) - truth) > means.std(axis=0)).all()


def test_labels_on_whole_queries_correct_ndcg_without_bias() -> None:
    pairs, human = plant(600, 5)
    judge, people = (values(pairs, grade, "ndcg@10") for grade in (pairs.grade, human))
    rng, means, holds = np.random.default_rng(6), [], []
    for _ in range(300):
        row = rng.choice(600, 60, replace=False)
        found = correct_mean(judge, Labels(row, people[row], Survey.even(60, 600)))
        means.append(found.interval.estimate)
        holds.append(people.mean() in found.interval)
    assert abs(np.mean(means) - people.mean()) < 3 * np.std(means) / np.sqrt(300)
    assert 0.91 <= np.mean(holds) <= 0.98


def test_gold_pairs_take_no_labels_and_other_metrics_are_refused() -> None:
    pairs, human = plant(3, 7)
    labels = Labels(np.array([0, 1]), human[:2], Survey(np.full(2, 0.5)))
    with pytest.raises(UsageError, match="pairs without gold"):
        correct_metric(parse("precision@5"), known(pairs, human, np.arange(60) == 1), labels)
    for name in ("map", "recall@5", "ndcg", "ndcg(gains={1:1})@5", "precision(denom=retrieved)@5"):
        with pytest.raises(UsageError, match="cannot be corrected"):
            correct_metric(parse(name), pairs, labels)
