"""Gain beside nDCG, as trec_eval reports it: G and its binary form, nDCG averaged over relevant docs or grades."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.graded import FAMILY, ideal_dcg, ideal_sum_at, log_discount, running_sum
from karat.metrics.registry import metric
from karat.model.policy import RELEVANT, earns_gain
from karat.model.rankings import ALL, ratio

if TYPE_CHECKING:
    from karat.model.rankings import Counts, Rankings, Values

LEAST_COST = 1.0  # what reading a doc costs where the ideal order has less to give, as in trec_eval


@metric(
    "g",
    title="Normalised gain",
    family=FAMILY,
    formula="Σ over ranks i of grade_i / log2(2 + cost_i − gain so far) / sum of all gold grades, gain so far = Σ_{j≤i}"
    " grade_j, cost_i = Σ_{j≤i} max(1, j-th best gold grade)",
    tells="How much of all gain the run brings, when a gain counts less the further the run is behind the ideal.",
    use_when="Figures must match those of trec_eval's G.",
    caution="Experimental in trec_eval, and rarely reported. Negative grades count as 0.",
    cites="trec_eval G (Buckley 2008)",
    cutoff="none",
)
def normalized_gain(r: Rankings) -> Values:
    rows = earns_gain(r.grade)
    query, rank, gain = r.query[rows], r.rank[rows], r.grade[rows]
    positive = np.bincount(r.gold_query[earns_gain(r.gold_grade)], minlength=len(r))
    cost = ideal_sum_at(r, query, rank, np.maximum(r.gold_grade, LEAST_COST))
    cost += LEAST_COST * np.maximum(rank - positive[query], 0)
    total = np.bincount(query, weights=gain / np.log2(2.0 + cost - running_sum(query, gain)), minlength=len(r))
    return np.minimum(ratio(total.astype(np.float64, copy=False), r.gold_sum(np.maximum(r.gold_grade, 0.0))), 1.0)


@metric(
    "bin_g",
    aliases=("bing",),
    title="Binary gain",
    family=FAMILY,
    formula="(1/R) · Σ over relevant docs found of 1 / log2(2 + docs above it that are not relevant), R = relevant docs"
    " in the gold",
    tells="How few docs that are not relevant stand above each relevant one.",
    use_when="Figures must match those of trec_eval's binG.",
    caution="Experimental in trec_eval, and rarely reported. Docs without a judgment count as not relevant.",
    cites="trec_eval binG (Buckley 2008)",
    cutoff="none",
    monotone=True,
)
def binary_gain(r: Rankings, rel: float = RELEVANT) -> Values:
    hits = r.hits(rel)
    weights = np.zeros(len(r.rank))
    weights[hits] = 1.0 / np.log2(2.0 + r.rank[hits] - r.place_among(hits))
    return ratio(r.sum(weights), r.gold_count(rel))


@metric(
    "ndcg_rel",
    title="nDCG averaged over relevant docs",
    family=FAMILY,
    formula="mean over all relevant docs of ndcg at the rank of that doc; for one that was not found, of ndcg over all"
    " ranks",
    tells="How close the order is to the best one, seen from each relevant doc.",
    use_when="Figures must match those of trec_eval's ndcg_rel.",
    caution="A doc is relevant when its grade is above 0. Experimental in trec_eval, and rarely reported.",
    cites="trec_eval ndcg_rel",
    cutoff="none",
)
def ndcg_rel(r: Rankings) -> Values:
    rows = earns_gain(r.grade)
    query, rank = r.query[rows], r.rank[rows]
    discounted = running_sum(query, r.grade[rows] / log_discount(rank))
    share = discounted / ideal_sum_at(r, query, rank, r.gold_grade / log_discount(r.gold_place))
    relevant = np.bincount(r.gold_query[earns_gain(r.gold_grade)], minlength=len(r)).astype(np.float64)
    hits = np.bincount(query, minlength=len(r))
    whole = ratio(_dcg_at(r, np.arange(len(r)), r.returned), ideal_dcg(r, ALL, "linear", ()))
    total = np.bincount(query, weights=share, minlength=len(r)) + (relevant - hits) * whole
    return np.minimum(ratio(total, relevant), 1.0)


@metric(
    "rndcg",
    title="nDCG averaged over grades",
    family=FAMILY,
    formula="mean over the grades g in the gold above 0 of ndcg@(gold docs of grade g and above), and of ndcg over all"
    " ranks if at least 2 docs more are returned than the gold has of grades above 0",
    tells="How close the order is to the best one, where the ideal order goes from one grade to the next.",
    use_when="Figures must match those of trec_eval's Rndcg.",
    caution="Each query has its own cutoffs. Experimental in trec_eval, and rarely reported.",
    cites="trec_eval Rndcg",
    cutoff="none",
)
def rndcg(r: Rankings) -> Values:
    positive = earns_gain(r.gold_grade)
    query, grade, place = r.gold_query[positive], r.gold_grade[positive], r.gold_place[positive]
    last = np.ones(len(query), dtype=bool)  # of its grade, in its query
    last[:-1] = (query[1:] != query[:-1]) | (grade[1:] != grade[:-1])
    at, cut = query[last], place[last]
    ideal = ideal_sum_at(r, at, cut, r.gold_grade / log_discount(r.gold_place))
    total = np.bincount(at, weights=_dcg_at(r, at, cut) / ideal, minlength=len(r)).astype(np.float64, copy=False)
    points = np.bincount(at, minlength=len(r)).astype(np.float64)
    deeper = (points > 0) & (r.returned >= np.bincount(query, minlength=len(r)) + 2)
    whole = ratio(_dcg_at(r, np.arange(len(r)), r.returned), ideal_dcg(r, ALL, "linear", ()))
    return np.minimum(ratio(total + np.where(deeper, whole, 0.0), points + deeper), 1.0)


def _dcg_at(r: Rankings, query: Counts, cut: Counts) -> Values:
    """The discounted gain of each of these queries down to its own cutoff."""
    if not len(r.rank):
        return np.zeros(len(query))
    gain = running_sum(r.query, np.maximum(r.grade, 0.0) / log_discount(r.rank))
    deepest = int(max(r.rank.max(), cut.max(initial=0))) + 1
    row = np.searchsorted(r.query * deepest + r.rank, query * deepest + cut, side="right") - 1
    return np.where((row >= 0) & (r.query[row] == query), gain[row], 0.0)
