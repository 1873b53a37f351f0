"""Metrics by a judge's grades, corrected with the grades that people gave to a random part of the pairs.

Each pair's grade is predicted from the judge's grades and from what people say about such pairs. Labels then show what
the predictions miss, each weighted by 1 / the probability with which its pair was drawn (PPI++, pair by pair).
Precision and dcg are sums over pairs, and right on average whatever the judge does. Hit and ndcg are not: they are
linearised at the predictions. What is missed in one pair is corrected as for sums; several misses in one query count as
if they were independent of each other, which they are not quite. Where whole queries are labelled,
`correct_by_query` (karat.stats) needs no such assumption.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karat.errors import UsageError
from karat.metrics.graded import log_discount
from karat.metrics.sampled_gold import gain_steps, ideal_discounts
from karat.model.policy import is_relevant
from karat.model.rankings import ratio
from karat.records import dataclass
from karat.stats.defaults import CONFIDENCE, RESAMPLES, SEED
from karat.stats.prediction_powered import CorrectedValues, Labels, PartEnds, correct_values
from karat.stats.resample import Units, mean_of
from karat.stats.survey import group_sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.metrics.grammar import Measure
    from karat.model.rankings import Counts, Values

    Mask = NDArray[np.bool_]

OFFERED = ("precision", "dcg", "ndcg", "hit")
SUMS = ("precision", "dcg")
"""Sums over pairs: right on average whatever the judge does."""
PRIOR, WORTH, ROUNDS, TINY = 0.5, 10.0, 50, 1e-300
"""How many labels of each true grade, and how many pairs of a query, the usual shares are worth; rounds of search."""


@dataclass(frozen=True)
class JudgedPairs:
    """All pairs with a grade, returned or not, of all queries."""

    queries: int
    query: Counts
    rank: Counts
    """From 1; 0 for a doc that the run does not return."""
    grade: Values
    """The gold's where the pair is known, else the judge's."""
    known: Mask
    """Pairs with gold: they are certain, and have no label."""


@dataclass(frozen=True)
class _Linear:
    """A metric at the predictions."""

    values: Values
    slopes: Values
    """What changes where a pair reaches a grade: pairs × levels."""


def is_correctable(measure: Measure) -> bool:
    """Whether labels of single pairs correct a metric without bias."""
    return measure.metric.name in SUMS and _is_plain(measure)


def _is_plain(measure: Measure) -> bool:
    return measure.k is not None and not any(p in ("gains", "denom") for p, _ in measure.params)


def correct_metric(
    measure: Measure,
    pairs: JudgedPairs,
    labels: Labels,
    *,
    tuning: float | None = None,
    units: Units | None = None,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> CorrectedValues:
    """Precision, dcg, ndcg or hit as people see them; hit over queries without an answer is false evidence by grades.

    The labels hold people's grades. They must be a random sample with known probabilities of pairs that are not known:
    pairs that somebody chose do not count. The ideal of ndcg is that of all pairs here, returned or not.
    """
    name, k = measure.metric.name, None if measure.k is None else int(measure.k)
    if name not in OFFERED or k is None or not _is_plain(measure):
        raise UsageError(f"{measure} cannot be corrected; use {', '.join(f'{o}@k' for o in OFFERED)} without variants")
    if pairs.known[labels.row].any():
        raise UsageError("labels are for pairs without gold: where there is gold, it counts")
    if name in ("precision", "hit"):
        levels, steps = np.array([float(measure.param("rel"))]), np.ones(1)
    else:
        levels, steps = gain_steps(np.concatenate((pairs.grade, labels.value)), measure.param("gain"))
    by_judge, by_people = _reach(pairs.grade, levels), _reach(labels.value, levels)
    kinds = _kinds(pairs, k)
    predicted = predict_reach(pairs, labels, kinds, by_judge, by_people)
    discount = _discounts(name, pairs.rank, k)
    linear = _LINEAR.get(name, _sum)(pairs, predicted, steps, discount, k)
    raw = _LINEAR.get(name, _sum)(pairs, by_judge, steps, discount, k)
    own = Units.of(pairs.queries) if units is None else units
    free = ~pairs.known[:, None] * linear.slopes
    at, weight = kinds[labels.row], labels.survey.weight
    sums = np.cumsum(free, axis=1)  # levels are nested: what a pair adds that reaches so many of them
    parts = Labels(labels.row, (free[labels.row] * by_people).sum(axis=1), labels.survey)
    return correct_values(
        linear.values,
        pairs.query,
        (free * predicted).sum(axis=1),
        parts,
        raw=mean_of(raw.values, own),
        tuning=tuning,
        leverage=np.minimum(weight / group_sums(weight, at, int(kinds.max()) + 1)[at], 0.5),
        ends=PartEnds(np.minimum(sums.min(axis=1), 0.0), np.maximum(sums.max(axis=1), 0.0)),
        linear=name in SUMS,
        units=own,
        bounds=(0.0, np.inf if name == "dcg" else 1.0),
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )


def _reach(grade: Values, levels: Values) -> Values:
    """Whether each grade reaches each level, as 0 and 1."""
    return np.stack([is_relevant(grade, level) for level in levels.tolist()], axis=1).astype(np.float64)


def _kinds(pairs: JudgedPairs, k: int) -> Counts:
    """A number for each judged grade, in the top k and elsewhere: a system that is good has fewer misses at the top."""
    _, place = np.unique(pairs.grade, return_inverse=True)
    return 2 * place + ((pairs.rank > 0) & (pairs.rank <= k))


def predict_reach(pairs: JudgedPairs, labels: Labels, kinds: Counts, by_judge: Values, by_people: Values) -> Values:
    """How likely people's grade of each pair reaches each level, from the kind of the pair and those of its query.

    How often a true grade shows as which kind is taken from all labels; how common true grades are, from each query by
    itself (expectation and maximisation, after Dawid & Skene 1979), so that a judge's grade counts for less where
    little is relevant. A kind without any label is taken for that of the same grade elsewhere; where that has none
    either, as the judge says, and gold always.
    """
    at, weight = kinds[labels.row], labels.survey.weight
    size, top = int(kinds.max()) + 1, by_people.shape[1] + 1
    truth = by_people.sum(axis=1).astype(np.int64)  # how many levels it reaches
    table = group_sums(weight, truth * size + at, top * size).reshape(top, size)
    table += PRIOR * weight.mean() * table.sum(axis=0) / table.sum()
    chance = table / table.sum(axis=1, keepdims=True)  # of each kind, by true grade
    seen = np.bincount(at, minlength=size) > 0
    bare = np.flatnonzero(~seen)  # no label: as the same grade is elsewhere, in the top k or below
    other = bare ^ 1
    bare, other = bare[other < size], other[other < size]
    chance[:, bare], seen[bare] = chance[:, other], seen[other]
    usual = table.sum(axis=1) / table.sum()
    free = ~pairs.known
    counts = group_sums(free.astype(np.float64), pairs.query * size + kinds, pairs.queries * size).reshape(-1, size)
    common = np.broadcast_to(usual, (pairs.queries, top))
    for _ in range(ROUNDS):
        posterior = common[:, :, None] * chance  # queries × true grades × kinds
        posterior = posterior / np.maximum(posterior.sum(axis=1, keepdims=True), TINY)
        common = WORTH * usual + (posterior * counts[:, None, :]).sum(axis=2)
        common = common / common.sum(axis=1, keepdims=True)
    reach = np.cumsum(posterior[:, ::-1], axis=1)[:, ::-1][:, 1:]  # queries × levels × kinds
    usable = free & seen[kinds]
    return np.where(usable[:, None], reach[pairs.query, :, kinds], by_judge)


def _discounts(name: str, rank: Counts, k: int) -> Values:
    top = (rank > 0) & (rank <= k)
    if name == "precision":
        return top / k
    return np.where(top, 1.0 if name == "hit" else 1 / log_discount(np.maximum(rank, 1)), 0.0)


def _sum(pairs: JudgedPairs, reach: Values, steps: Values, discount: Values, _: int) -> _Linear:
    slopes = discount[:, None] * steps
    return _Linear(group_sums((slopes * reach).sum(axis=1), pairs.query, pairs.queries), slopes)


def _hit(pairs: JudgedPairs, reach: Values, _: Values, discount: Values, __: int) -> _Linear:
    """1 − the product over the top k of the chances to be irrelevant."""
    miss = np.where(discount > 0, 1 - reach[:, 0], 1.0)
    certain = miss <= 0
    logs = np.log(np.where(certain, 1.0, miss))
    none, hits = (
        group_sums(logs, pairs.query, pairs.queries),
        group_sums(certain.astype(np.float64), pairs.query, pairs.queries),
    )
    # The product over the others: 0 where one of them is certainly relevant.
    others = np.where(hits[pairs.query] - certain > 0, 0.0, np.exp(none[pairs.query] - logs))
    return _Linear(np.where(hits > 0, 1.0, 1 - np.exp(none)), (discount * others)[:, None])


def _ndcg(pairs: JudgedPairs, reach: Values, steps: Values, discount: Values, k: int) -> _Linear:
    """DCG / ideal DCG, expected: the ideal flattens with the number of docs, and varies together with the DCG."""
    dcg, ideal = np.zeros(pairs.queries), np.zeros(pairs.queries)
    bends = np.zeros((pairs.queries, len(steps)))
    for level, step in enumerate(steps):
        column = reach[:, level]
        dcg += step * group_sums(discount * column, pairs.query, pairs.queries)
        count = group_sums(column, pairs.query, pairs.queries)
        off = np.sqrt(group_sums(column * (1 - column), pairs.query, pairs.queries))
        low, high = np.maximum(count - off, 0.0), count + off
        ends = ideal_discounts(low, k), ideal_discounts(high, k)
        ideal += step * (ends[0] + ends[1]) / 2
        sharp = ideal_discounts(count + 0.5, k) - ideal_discounts(np.maximum(count - 0.5, 0.0), k)
        bends[:, level] = step * np.where(off > 0, ratio(ends[1] - ends[0], high - low), sharp)
    ideal = np.maximum(ideal, steps[0])  # of a query with any gain it is at least that of one doc
    values = dcg / ideal
    of_ideal = bends[pairs.query]
    slopes = discount[:, None] * steps - values[pairs.query][:, None] * of_ideal
    together, spread = np.zeros(len(reach)), np.zeros(len(reach))
    for a, step in enumerate(steps):
        for b in range(len(steps)):  # levels are nested: both are reached where the higher one is
            both = reach[:, max(a, b)] - reach[:, a] * reach[:, b]
            together += discount * step * of_ideal[:, b] * both
            spread += of_ideal[:, a] * of_ideal[:, b] * both
    joint, own = (group_sums(x, pairs.query, pairs.queries) for x in (together, spread))
    return _Linear(values + (values * own - joint) / ideal**2, slopes / ideal[pairs.query][:, None])


_LINEAR = {"hit": _hit, "ndcg": _ndcg}
