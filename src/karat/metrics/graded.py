"""Metrics of graded gain: nDCG, ERR, Q-measure, RBP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import MetricError
from karat.metrics.registry import Params, metric
from karat.model.policy import RELEVANT, earns_gain, is_judged
from karat.model.rankings import ALL, place_in_group, ratio

if TYPE_CHECKING:
    from karat.model.rankings import Counts, Cutoff, Rankings, Values

FAMILY = "graded"
Gains = Mapping[float, float] | tuple[tuple[float, float], ...]
LARGEST_EXPONENT, LARGEST_GRADE = 1000.0, 1e100
"""Grades beyond which gains, or their sums, are more than a number can hold."""
NO_GAINS: tuple[tuple[float, float], ...] = ()


def gain_of(grade: Values, gain: str, table: Gains, unlisted: str = "zero") -> Values:
    """The gain of each grade. With a table, a grade that it does not list gains nothing, or itself."""
    positive = np.maximum(grade, 0.0)
    largest = float(positive.max(initial=0.0))
    if largest > (LARGEST_EXPONENT if gain == "exp" and not table else LARGEST_GRADE):
        formula = "2^grade − 1" if gain == "exp" else "the sum of such gains"
        raise MetricError(f"a grade of {largest:g} is too large: no number holds {formula}; use a smaller scale")
    if table:
        gains, others = dict(table), positive if unlisted == "grade" else np.zeros(len(grade))
        return np.array([gains.get(g, o) for g, o in zip(grade.tolist(), others.tolist(), strict=True)], np.float64)
    return np.exp2(positive) - 1.0 if gain == "exp" else positive


UNLISTED = {"unlisted=grade": "with gains, a grade that they do not list gains itself; else it gains nothing"}


def log_discount(rank: Values | Counts | float) -> Values:
    """What DCG divides the gain at each rank by."""
    out: Values = np.log2(rank + 1.0)
    return out


def refuse_unlisted(explicit: Params) -> str | None:
    """Why `unlisted` is wrong without a table of gains."""
    return "unlisted belongs to gains={grade:gain,…}" if "unlisted" in explicit and "gains" not in explicit else None


@metric(
    "ndcg",
    aliases=("ndcg_cut", "ndcg_burges(gain=exp)"),
    family=FAMILY,
    title="Normalised discounted cumulative gain",
    formula="DCG / ideal DCG, DCG = Σ gain(grade_i) / log2(i + 1) over ranks i; gain=linear: the grade itself; "
    "gain=exp: 2^grade − 1; gains={1:1,2:5}: as listed; a doc without a judgment gains 0",
    tells="How close the top k is to the best possible order; 1 is ideal.",
    use_when="Grades and order both matter.",
    caution="The ideal comes from all the gold, not from what was retrieved; unjudged docs are not in it. A random"
    " order does not score .5. Two gain functions are in use: compare only values with the same one.",
    cites="Järvelin & Kekäläinen 2002; gain=exp: Burges et al. 2005",
    monotone=True,
    bands={"ndcg@10": ((0.9, "excellent"), (0.7, "very good"), (0.5, "good"), (0.3, "fair"), (0.0, "poor"))},
    targets={"ndcg(gain=exp)@5": 0.85, "ndcg(gain=exp)@10": 0.80},
    suits={"graded": "ndcg@10", "top 3": "ndcg@3", "a/b test": "ndcg@5"},
    spellings={"dcg=log2": "gain=linear", "dcg=exp-log2": "gain=exp", "dcg": "gain"},
    choices={"gain": ("linear", "exp"), "unlisted": ("zero", "grade")},
    variants=UNLISTED,
    refuses=refuse_unlisted,
    added=("unlisted",),
)
def ndcg(r: Rankings, k: Cutoff = ALL, gain: str = "linear", gains: Gains = NO_GAINS, unlisted: str = "zero") -> Values:
    return ratio(dcg(r, k, gain, gains, unlisted), ideal_dcg(r, k, gain, gains, unlisted))


@metric(
    "dcg",
    aliases=("dcg_burges(gain=exp)",),
    title="Discounted cumulative gain",
    family=FAMILY,
    bounds=(0.0, None),
    formula="Σ gain(grade_i) / log2(i + 1) over ranks i; gain=linear: the grade itself; gain=exp: 2^grade − 1;"
    " gains={1:1,2:5}: as listed",
    tells="How much gain the top k brings, when a gain counts less the lower it ranks.",
    use_when="Systems are compared on the same queries, and the size of the gain matters.",
    caution="Has no upper bound: queries with much gold weigh most in the mean. ndcg divides by the best value.",
    cites="Järvelin & Kekäläinen 2002; gain=exp: Burges et al. 2005",
    monotone=True,
    choices={"gain": ("linear", "exp"), "unlisted": ("zero", "grade")},
    variants=UNLISTED,
    refuses=refuse_unlisted,
)
def dcg(r: Rankings, k: Cutoff = ALL, gain: str = "linear", gains: Gains = NO_GAINS, unlisted: str = "zero") -> Values:
    top = r.upto(k)
    return top.sum(gain_of(top.grade, gain, gains, unlisted) / log_discount(top.rank))


def ideal_dcg(r: Rankings, k: Cutoff, gain: str, table: Gains, unlisted: str = "zero") -> Values:
    """The DCG of the best order that the gold allows."""
    grade, query, place = r.gold_grade, r.gold_query, r.gold_place
    if table:  # a higher grade may have a smaller gain
        order = np.lexsort((-gain_of(grade, gain, table, unlisted), query))
        grade, query = grade[order], query[order]
        place = place_in_group(query)
    if k is not None:  # the highest grade of each query is kept
        kept = np.flatnonzero(place <= k)
        grade, query, place = grade[kept], query[kept], place[kept]
    gold = gain_of(grade, gain, table, unlisted)
    return np.bincount(query, weights=gold / log_discount(place), minlength=len(r)).astype(np.float64, copy=False)


@metric(
    "err",
    title="Expected reciprocal rank",
    family=FAMILY,
    formula="Σ_i (1/i) · R_i · Π_{j<i} (1 − R_j), R = (2^grade − 1) / 2^max_grade",
    tells="The expected value of 1/rank where a user who scans from the top stops, satisfied.",
    use_when="Answers are graded, and one good answer satisfies.",
    caution="max_grade is a parameter, never inferred from the data. Higher grades count as max_grade.",
    cites="Chapelle et al. 2009",
    monotone=True,
    ranges={"max_grade": (0, LARGEST_EXPONENT)},
)
def err(r: Rankings, k: Cutoff = ALL, max_grade: float = 4) -> Values:
    top = r.upto(k)
    stop = (np.exp2(np.clip(top.grade, 0.0, max_grade)) - 1.0) / 2.0**max_grade
    # The product over higher ranks, restarted at each query: one step per place, all queries at once.
    place = place_in_group(top.query)
    out, going_on = np.zeros(len(r)), np.ones(len(r))
    order = np.argsort(place, kind="stable")
    bounds = np.searchsorted(place[order], np.arange(1, int(place.max(initial=0)) + 2))
    for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        rows = order[a:b]
        q = top.query[rows]
        out[q] += going_on[q] * stop[rows] / top.rank[rows]
        going_on[q] *= 1.0 - stop[rows]
    return out


@metric(
    "q",
    aliases=("q_measure",),
    title="Q-measure",
    family=FAMILY,
    formula="mean over relevant docs found at ranks i ≤ k of (hits so far + beta · gain so far) / (i + beta · ideal"
    " gain so far), over all relevant docs",
    tells="Average precision that takes grades into account.",
    use_when="Several graded pieces are needed and their order matters.",
    caution="A doc is relevant when its grade is above 0.",
    cites="Sakai 2004",
    monotone=True,
    ranges={"beta": (0, None)},
)
def q_measure(r: Rankings, k: Cutoff = ALL, beta: float = 1) -> Values:
    relevant = earns_gain(r.grade) if k is None else earns_gain(r.grade) & (r.rank <= k)
    query, rank, grade = r.query[relevant], r.rank[relevant], r.grade[relevant]
    so_far = running_sum(query, grade)
    blended = place_in_group(query) + beta * so_far
    ideal = ideal_sum_at(r, query, rank, r.gold_grade)
    weights = blended / (rank + beta * ideal)
    total = np.bincount(query, weights=weights, minlength=len(r)).astype(np.float64, copy=False)
    return ratio(total, np.bincount(r.gold_query[earns_gain(r.gold_grade)], minlength=len(r)).astype(np.float64))


def running_sum(query: Counts, weights: Values) -> Values:
    """The sum of a query's weights up to each row, untouched by the rounding of other queries."""
    out = weights.astype(np.float64)
    place = place_in_group(query)
    order = np.argsort(place, kind="stable")
    bounds = np.searchsorted(place[order], np.arange(2, int(place.max(initial=0)) + 2))
    for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        rows = order[a:b]
        out[rows] += out[rows - 1]
    return out


def ideal_sum_at(r: Rankings, query: Counts, rank: Counts, weights: Values) -> Values:
    """What the ideal order has collected at each rank, with a weight for each gold grade; only gains above 0 count."""
    positive = earns_gain(r.gold_grade)
    gold_query = r.gold_query[positive]
    collected = running_sum(gold_query, weights[positive])
    size = np.bincount(gold_query, minlength=len(r))
    last = np.cumsum(size)
    place = np.minimum(rank, size[query])
    return collected[last[query] - size[query] + place - 1] if len(collected) else np.zeros(len(rank))


def _refuse_rbp(explicit: Params) -> str | None:
    if explicit.get("gain") == "graded":
        return "rel belongs to gain=binary; gain=graded takes max_grade" if "rel" in explicit else None
    return "max_grade belongs to gain=graded" if "max_grade" in explicit else None


@metric(
    "rbp",
    title="Rank-biased precision",
    family=FAMILY,
    formula="(1 − p) · Σ over relevant ranks i of p^(i − 1)",
    tells="The rate at which a user finds relevant docs who continues to the next rank with probability p.",
    use_when="Lists have unequal lengths, or the gold is incomplete (see rbp_residual).",
    caution="Its best value is below 1 when the gold is small. Unjudged docs count as not relevant.",
    cites="Moffat & Zobel 2008",
    monotone=True,
    ranges={"p": (0, 1), "max_grade": (0, None)},
    choices={"gain": ("binary", "graded")},
    variants={"gain=graded": "(1 − p) · Σ over ranks i of min(grade, max_grade) / max_grade · p^(i − 1)"},
    refuses=_refuse_rbp,
    added=("gain", "max_grade"),
)
def rbp(
    r: Rankings, k: Cutoff = ALL, p: float = 0.8, rel: float = RELEVANT, gain: str = "binary", max_grade: float = 4
) -> Values:
    top = r.upto(k)
    gains = np.clip(top.grade, 0.0, max_grade) / max_grade if gain == "graded" else top.hits(rel)
    # Rounding may carry the sum of many terms past 1 by an ulp.
    return np.minimum((1 - p) * top.sum(gains * p ** (top.rank - 1.0)), 1.0)


@metric(
    "rank_biased_gain",
    title="Rank-biased gain",
    family=FAMILY,
    bounds=(0.0, None),
    formula="(1 − p) · Σ over ranks i of grade_i · p^(i − 1); grades below rel gain nothing",
    tells="The rate at which a user collects grades who continues to the next rank with probability p.",
    use_when="Figures must match those of ranx's rbp.",
    caution="Not scaled: with grades above 1 it exceeds 1. rbp(gain=graded) scales grades by max_grade.",
    cites="Moffat & Zobel 2008; ranx rbp",
    monotone=True,
    ranges={"p": (0, 1)},
)
def rank_biased_gain(r: Rankings, k: Cutoff = ALL, p: float = 0.8, rel: float = RELEVANT) -> Values:
    top = r.upto(k)
    return (1 - p) * top.sum(np.where(top.hits(rel), top.grade, 0.0) * p ** (top.rank - 1.0))


@metric(
    "rbp_residual",
    title="Residual of rank-biased precision",
    family=FAMILY,
    formula="1 − (1 − p) · Σ over judged ranks i of p^(i − 1)",
    tells="How much rbp could still rise if all unjudged docs, and all docs beyond the list, were relevant.",
    use_when="Beside rbp, to see what incomplete gold hides.",
    caution="Smaller is better; a short list has a large residual too.",
    cites="Moffat & Zobel 2008",
    higher_is_better=False,
    no_results=1.0,
    empty_gold=None,
    ranges={"p": (0, 1)},
)
def rbp_residual(r: Rankings, k: Cutoff = ALL, p: float = 0.8) -> Values:
    top = r.upto(k)
    return np.maximum(1.0 - (1 - p) * top.sum(np.where(is_judged(top.grade), p ** (top.rank - 1.0), 0.0)), 0.0)
