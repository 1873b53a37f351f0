"""Metrics of gold whose judgments were sampled with known probabilities: what they would be with all of them.

A doc that was drawn with probability π stands for 1/π docs (Horvitz & Thompson 1952), so docs without a judgment need
not count as irrelevant. After Yilmaz, Kanoulas & Aslam 2008 (xinfAP) and Pavlu & Aslam 2007 (statAP).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import UsageError
from karat.metrics.graded import gain_of, log_discount
from karat.model.policy import is_relevant
from karat.model.rankings import ratio
from karat.records import dataclass
from karat.stats.defaults import CONFIDENCE, RESAMPLES, SEED
from karat.stats.intervals import Interval, checked_share
from karat.stats.prediction_powered import population_interval, t_interval
from karat.stats.resample import Units, mean_of
from karat.stats.survey import Survey, group_sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.metrics.grammar import Measure
    from karat.model.rankings import Counts, Values

OFFERED = ("precision", "recall", "map", "ndcg")
ADDED = 0.6
"""The power of leverages of recall: with a half, recall@100 holds 92%; with 1, recall@10 holds up to 98%."""
LEAST = 0.25
"""What is left of a ratio without one judgment counts as no less than this share of it."""


@dataclass(frozen=True)
class SampledGold:
    """The judgments that were drawn, one row each, and where a run ranks their docs."""

    queries: int
    query: Counts
    rank: Counts
    """From 1; 0 for a doc that the run does not return."""
    grade: Values
    survey: Survey


@dataclass(frozen=True)
class SampledValues:
    """Estimates of a metric from sampled gold: their mean is nearly unbiased, a single one varies much."""

    values: Values
    these: Interval
    """The mean over these queries: its interval knows only that judgments are a sample."""
    population: Interval
    """The same mean, with the interval of a sample of queries: what gates and comparisons look at."""
    error: float
    """The standard error for these queries."""
    without_relevant: int
    """Queries in whose sample nothing is relevant: recall, map and ndcg are undefined there and leave the mean."""


@dataclass(frozen=True)
class _Estimate:
    """Values per query, and what each judgment adds to them, for the error."""

    values: Values
    pull: Values
    whole: Values | None = None
    """The denominator per query, of ratios, and what each judgment adds to it."""
    whole_pull: Values | None = None
    power: float = 1.0
    """Of what is left of a ratio without a judgment: less than 1 where both its sums add up judgments one by one."""
    stands_for: Values | float = 1.0
    """How many queries each one stands for: those like it whose relevant docs were all left out have no value."""

    def settled(self, gold: SampledGold) -> _Estimate:
        """Without the bias that a ratio has because its denominator is estimated too (Tin 1965).

        The error holds where few docs are relevant: each judgment counts by what the ratio would be without it, as in
        the jackknife. Where sums add up judgments, that is too much and plain pulls are too little: a power between
        them keeps the coverage of bench/judges.py (a half is HC2 of MacKinnon & White 1985).
        """
        if self.whole is None or self.whole_pull is None:
            return self
        together = gold.survey.group_covariances(self.pull, self.whole_pull, gold.query, gold.queries)
        leverage = gold.survey.weight * self.whole_pull * ratio(np.ones(gold.queries), self.whole)[gold.query]
        values = self.values + ratio(together, self.whole)
        return _Estimate(values, self.pull / np.maximum(1 - leverage, LEAST) ** self.power)


def estimate_metric(
    measure: Measure,
    gold: SampledGold,
    *,
    units: Units | None = None,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> SampledValues:
    """Precision, recall, map or ndcg as if all pairs that could be drawn had been judged.

    Docs that could not be drawn count as irrelevant. Precision is unbiased. The others are ratios, whose bias is small
    beside their error once a query has a few relevant docs in its sample; see docs/judges.md for how small.
    """
    level = checked_share("confidence", confidence)
    estimate, without = _estimate(measure, gold)
    own = Units.of(gold.queries) if units is None else units
    alone = np.where(np.isnan(estimate.values), 0.0, own.weight)
    share = alone * estimate.stands_for
    values = estimate.values * estimate.stands_for * alone.sum() / max(share.sum(), 1e-300)
    share /= max(share.sum(), 1e-300)
    middle = mean_of(values, own)
    parts = share**2 * gold.survey.group_covariances(estimate.pull, estimate.pull, gold.query, gold.queries)
    # A query without a value may be at either end of the scale: those with few relevant docs often are.
    ends = (middle**2 + (1 - middle) ** 2) / 2
    left = np.where(_leaves_by_chance(gold, estimate.values), own.weight, 0.0) / max(float(own.weight.sum()), 1e-300)
    parts += left**2 * ends
    error = math.sqrt(gold.survey.variance(share[gold.query] * estimate.pull) + float((left**2).sum()) * ends)
    # Satterthwaite: a few queries may make up most of the error.
    free = float(parts.sum() ** 2 / (parts**2).sum()) if parts.any() else 0.0
    around = population_interval(values, own, (0.0, 1.0), level, resamples=resamples, seed=seed)
    these = t_interval(min(max(middle, 0.0), 1.0), error, free, level, "horvitz-thompson", len(gold.grade))
    return SampledValues(values, these.clip(0.0, 1.0), around, error, without)


def _estimate(measure: Measure, gold: SampledGold) -> tuple[_Estimate, int]:
    name, k = measure.metric.name, None if measure.k is None else int(measure.k)
    others = {"denom": "k", "cap": False, "norm": "gold", "gains": ()}
    if name not in OFFERED or any(n in others and v != others[n] for n, v in measure.params):
        raise UsageError(f"{measure} cannot be estimated from sampled gold; use {', '.join(OFFERED)} without variants")
    if name == "precision" and k is None:
        raise UsageError("precision needs a cutoff with sampled gold, such as precision@10")
    if name == "ndcg":
        levels, steps = gain_steps(gold.grade, measure.param("gain"))
        mass = np.stack([is_relevant(gold.grade, g) for g in levels.tolist()], axis=1).astype(np.float64)
    else:
        steps = np.ones(1)
        mass = is_relevant(gold.grade, measure.param("rel")).astype(np.float64)[:, None]
    top = (gold.rank > 0) & (gold.rank <= (len(gold.rank) + gold.rank.max(initial=0) if k is None else k))
    if name == "precision":
        assert k is not None
        pull = np.where(top, mass[:, 0], 0.0) / k
        return _Estimate(group_sums(gold.survey.weight * pull, gold.query, gold.queries), pull), 0
    hits = group_sums(mass.sum(axis=1), gold.query, gold.queries)
    empty = hits == 0
    part = {"recall": _recall, "map": _average_precision}.get(name)
    estimate = part(gold, mass[:, 0], top) if part else _ndcg(gold, mass, steps, top, k)
    settled = estimate.settled(gold)
    values, behind = np.where(empty, np.nan, settled.values), _count_behind(gold, mass.sum(axis=1) > 0)
    return replace(settled, values=values, stands_for=np.where(empty, 1.0, behind)), int(empty.sum())


def _leaves_by_chance(gold: SampledGold, values: Values) -> NDArray[np.bool_]:
    """Queries without a value that another sample might have given one: not all of their judgments were certain."""
    chance = 1 - gold.survey.probability
    seen, open_rows = (group_sums(x, gold.query, gold.queries) for x in (np.ones(len(chance)), chance))
    out: NDArray[np.bool_] = np.isnan(values) & ((open_rows > 0) | ((seen == 0) & bool(chance.any())))
    return out


def _count_behind(gold: SampledGold, relevant: NDArray[np.bool_]) -> Values:
    """How many queries each one stands for: one over the chance that some relevant doc of it is drawn.

    The chance that none is, is the product of 1 − π over its relevant docs. The logarithm of that is a total, which the
    sample estimates; the exponential of an estimate is too large by half of the estimate's variance.
    """
    chance = gold.survey.probability
    part = np.where(relevant, np.log1p(-np.minimum(chance, 1 - 1e-12)) / chance, 0.0)
    log = group_sums(part - (1 - chance) * part**2 / 2, gold.query, gold.queries)
    return ratio(np.ones(gold.queries), -np.expm1(log))


def gain_steps(grade: Values, gain: str) -> tuple[Values, Values]:
    """The grades that gain something, in order, and how much more each gains than the one before."""
    levels = np.unique(grade)
    gains = gain_of(levels, gain, ())
    if not gains.any():
        return levels[-1:] + 1, np.ones(1)  # a level that no doc reaches
    levels, gains = levels[gains > 0], gains[gains > 0]
    return levels, np.diff(gains, prepend=0.0)


def _totals(gold: SampledGold, values: Values) -> Values:
    return group_sums(gold.survey.weight * values, gold.query, gold.queries)


def _recall(gold: SampledGold, mass: Values, top: NDArray[np.bool_]) -> _Estimate:
    whole = _totals(gold, mass)
    values = ratio(_totals(gold, np.where(top, mass, 0.0)), whole)
    return _Estimate(values, ratio(mass * (top - values[gold.query]), whole[gold.query]), whole, mass, power=ADDED)


def _average_precision(gold: SampledGold, mass: Values, top: NDArray[np.bool_]) -> _Estimate:
    """Mean over relevant docs of 1/rank, and of the relevant docs above / rank: from docs, and from pairs of docs.

    Pairs count by the probability that both docs were drawn.
    """
    order = np.lexsort((gold.rank, gold.query))
    query, rank, weight = gold.query[order], gold.rank[order].astype(np.float64), gold.survey.weight[order]
    here, m = top[order], mass[order]
    worth = weight * m
    by_rank = np.where(here, 1 / np.maximum(rank, 1), 0.0)
    visible = np.where(here, worth, 0.0)
    above = _before(query, visible)
    pairs = group_sums(worth * by_rank * above, query, gold.queries)
    count = group_sums(worth, query, gold.queries)
    if gold.survey.stratum is not None:  # two docs of one stratum are drawn together less often than independent ones
        stratum, size = gold.survey.stratum[order], gold.survey.sizes[order].astype(np.float64)
        rarer = np.where(size > 1, (1 - 1 / (size * weight)) * size / np.maximum(size - 1, 1), 1.0) - 1
        cell = query * (int(stratum.max(initial=0)) + 1) + stratum
        by_cell = np.argsort(cell, kind="stable")
        near = np.empty(len(cell))
        near[by_cell] = _before(cell[by_cell], visible[by_cell])
        pairs += group_sums(rarer * worth * by_rank * near, query, gold.queries)
    values = ratio(group_sums(worth * by_rank, query, gold.queries) + pairs, count)
    # What a doc adds: its own precision, and 1/rank for each relevant doc below it.
    below = group_sums(worth * by_rank, query, gold.queries)[query] - _before(query, worth * by_rank)
    below -= worth * by_rank
    pull = np.empty(len(m))
    pull[order] = ratio(
        m * (by_rank * (1 + above) + np.where(here, below, 0.0) - values[query]), np.maximum(count[query], 1e-300)
    )
    return _Estimate(values, pull, count, mass)


def _before(group: Counts, values: Values) -> Values:
    """The sum of a group's values before each row; groups are runs of equal numbers."""
    total = np.concatenate(([0.0], np.cumsum(values)))[:-1]
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    sizes = np.diff(np.append(starts, len(group)))
    out: Values = total - np.repeat(total[starts], sizes)
    return out


def _ndcg(gold: SampledGold, mass: Values, steps: Values, top: NDArray[np.bool_], k: int | None) -> _Estimate:
    """DCG by docs; the ideal DCG from the estimated number of docs of each grade and above.

    A number that is estimated makes the ideal too small on average, as its gains flatten: what two numbers one standard
    error apart give too little on average is added back.
    """
    discount = np.where(top, 1 / log_discount(np.maximum(gold.rank, 1)), 0.0)
    gain = mass @ steps
    ideal, slopes = np.zeros(gold.queries), np.zeros((gold.queries, len(steps)))
    for level, step in enumerate(steps):
        count = _totals(gold, mass[:, level])
        spread = gold.survey.group_covariances(mass[:, level], mass[:, level], gold.query, gold.queries)
        off = np.sqrt(np.maximum(spread, 0.0))
        low, high = ideal_discounts(np.maximum(count - off, 0.0), k), ideal_discounts(count + off, k)
        ideal += step * (2 * ideal_discounts(count, k) - (low + high) / 2)
        width = count + off - np.maximum(count - off, 0.0)
        slopes[:, level] = step * ratio(high - low, width)
    values = ratio(_totals(gold, discount * gain), ideal)
    of_ideal = (mass * slopes[gold.query]).sum(axis=1)
    pull = discount * gain - values[gold.query] * of_ideal
    return _Estimate(values, ratio(pull, ideal[gold.query]), ideal, of_ideal)


def ideal_discounts(count: Values, k: int | None) -> Values:
    """The discounts of so many docs at the top, and of none below k; between whole numbers on a line."""
    most = math.ceil(count.max(initial=0.0)) if k is None else k
    sums = np.concatenate(([0.0], np.cumsum(1 / log_discount(np.arange(1, most + 1)))))
    return np.interp(count, np.arange(most + 1), sums).astype(np.float64, copy=False)
