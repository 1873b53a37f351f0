"""Metrics of relevance: hit, precision, recall, F, reciprocal rank, average precision, preferences and sets.

Preferences are bpref and compatibility, the rank-biased overlap with the ideal order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.registry import metric
from karat.model.policy import RELEVANT, earns_gain
from karat.model.rankings import ALL, place_in_group, ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.model.rankings import Cutoff, Rankings, Values


FAMILY = "relevance"
SWEEP = (1, 3, 5, 10, 20, 50, 100)  # the cutoffs of a k-sweep
GM_FLOOR = 1e-5  # trec_eval's MIN_GEO_MEAN: a query without any success weighs as this much


@metric(
    "hit",
    aliases=("hr", "hit_rate", "success"),
    title="Hit rate",
    family=FAMILY,
    formula="1 if a relevant doc is in the top k, else 0",
    tells="How often at least one relevant doc is in the top k.",
    use_when="One good doc is enough, or as a first sanity check.",
    caution="Blind to how many relevant docs were found and in which order.",
    cites="trec_eval success",
    binary=True,
    monotone=True,
    targets={"hit@10": 0.95},
    suits={"sanity": "hit@10"},
)
def hit(r: Rankings, k: Cutoff = ALL, rel: float = RELEVANT) -> Values:
    return (r.count_hits(rel, k) > 0).astype(np.float64)


@metric(
    "precision",
    aliases=("p", "prec", "set_p", "setp"),
    title="Precision",
    family=FAMILY,
    formula="relevant docs in the top k / k",
    tells="The share of the top k that is relevant.",
    use_when="Each doc shown costs attention or tokens.",
    caution="With fewer than k relevant docs in the gold it cannot reach 1. Without a cutoff it divides by the number"
    " returned.",
    cites="trec_eval P, set_P",
    monotone=True,
    targets={"precision@3": 0.80, "precision@5": 0.70, "precision@10": 0.60},
    suits={"top 3": "precision@3"},
    choices={"denom": ("k", "retrieved")},
)
def precision(r: Rankings, k: Cutoff = ALL, rel: float = RELEVANT, denom: str = "k") -> Values:
    hits = r.count_hits(rel, k)
    if r.repeats is not None and r.repeats_earn:
        hits = hits + r.repeats.count_hits(rel, k)
    if k is None or denom == "retrieved":
        return ratio(hits, np.minimum(r.returned, k if k is not None else r.returned).astype(np.float64))
    return hits / k


@metric(
    "recall",
    aliases=("r", "set_recall", "setr", "relative_p(cap=true)"),
    title="Recall",
    family=FAMILY,
    formula="relevant docs in the top k / relevant docs in the gold; cap=true: / min(k, relevant docs in the gold)",
    tells="The share of all relevant docs that is in the top k.",
    use_when="Several pieces of evidence are needed, or for the first stage of a pipeline.",
    caution="Only as complete as the gold: relevant docs that nobody judged do not count as missed.",
    cites="trec_eval recall, set_recall",
    monotone=True,
    bands={"recall@10": ((0.8, "excellent"), (0.6, "good"), (0.4, "fair"), (0.0, "poor"))},
    targets={"recall@5": 0.70, "recall@10": 0.90, "recall@20": 0.95},
    suits={"several pieces": "recall@10"},
)
def recall(r: Rankings, k: Cutoff = ALL, rel: float = RELEVANT, cap: bool = False) -> Values:
    gold = r.gold_count(rel)
    if cap and k is not None:
        gold = np.minimum(gold, k)
    return ratio(r.count_hits(rel, k), gold)


@metric(
    "recall_auc",
    title="Area under recall",
    family=FAMILY,
    formula="trapezoids under recall over the cutoffs 1, 3, 5, 10, 20, 50, 100 up to k, divided by k − 1; k = 100"
    " unless stated",
    tells="How early recall comes, over all cutoffs up to k.",
    use_when="The cutoff is undecided, or one number must stand for a whole recall curve.",
    caution="Over k, not log k: deep cutoffs weigh most. A list shorter than k keeps its last recall.",
    cites="trapezoidal area, as of a precision–recall curve",
    monotone=True,
    choices={"scale": ("linear", "log")},
    variants={
        "scale=log": "the trapezoids are over log k, and their sum is divided by log k: early cutoffs weigh most"
    },
    added=("scale",),
)
def recall_auc(r: Rankings, k: Cutoff = ALL, rel: float = RELEVANT, scale: str = "linear") -> Values:
    last = 100 if k is None else k
    cuts = [c for c in SWEEP if c < last] + [last]
    curve = [recall(r, c, rel) for c in cuts]
    if len(cuts) == 1:
        return curve[0]
    at: list[float] = [math.log(c) for c in cuts] if scale == "log" else [*cuts]
    steps = zip(at, at[1:], curve, curve[1:], strict=False)
    total = np.zeros(len(r))
    for a, b, low, high in steps:
        total += (low + high) / 2 * (b - a)
    return np.minimum(total / (at[-1] - at[0]), 1.0)


@metric(
    "f1",
    aliases=("f", "f_measure", "set_f", "setf"),
    title="F measure",
    family=FAMILY,
    formula="(1 + beta²) · precision · recall / (beta² · precision + recall)",
    tells="The harmonic mean of precision and recall in the top k.",
    use_when="Missing docs and useless docs cost about the same.",
    caution="beta above 1 favours recall, below 1 precision.",
    cites="van Rijsbergen 1979",
    monotone=True,
    targets={"f1@5": 0.70},
    ranges={"beta": (0, None)},
)
def f1(r: Rankings, k: Cutoff = ALL, rel: float = RELEVANT, beta: float = 1) -> Values:
    p, c = ratio_free_precision(r, k, rel), recall(r, k, rel)
    return ratio((1 + beta**2) * p * c, beta**2 * p + c)


def ratio_free_precision(r: Rankings, k: Cutoff, rel: float) -> Values:
    """Precision that later chunks of a doc never add to."""
    hits = r.count_hits(rel, k)
    return hits / k if k is not None else ratio(hits, r.returned.astype(np.float64))


@metric(
    "wrecall",
    aliases=("weighted_recall",),
    title="Graded recall",
    family=FAMILY,
    formula="sum of the grades found in the top k / sum of all gold grades",
    tells="The share of the gold's total grade that is in the top k.",
    use_when="Several pieces are needed, and some matter more than others.",
    caution="Two docs of grade 1 count as much as one of grade 2. Negative grades count as 0.",
    cites="Kekäläinen & Järvelin 2002 (generalised recall)",
    monotone=True,
)
def wrecall(r: Rankings, k: Cutoff = ALL) -> Values:
    return ratio(r.sum(np.maximum(r.grade, 0.0), upto=k), r.gold_sum(np.maximum(r.gold_grade, 0.0)))


@metric(
    "mrr",
    aliases=("rr", "recip_rank", "reciprocal_rank"),
    title="Reciprocal rank",
    family=FAMILY,
    formula="1 / rank of the first relevant doc, 0 if there is none in the top k",
    tells="How close to the top the first relevant doc is.",
    use_when="One answer is enough: known items, question answering.",
    caution="A value of .5 does not mean that the first hit is at rank 2 on average: it is a harmonic mean. Blind after"
    " the first hit.",
    cites="Voorhees 1999",
    monotone=True,
    targets={"mrr": 0.8},
    strict_targets={"mrr": 0.9},
    suits={"one answer": "mrr", "top 1": "mrr", "a/b test": "mrr"},
)
def mrr(r: Rankings, k: Cutoff = ALL, rel: float = RELEVANT) -> Values:
    hits = r.hit_rows(rel, k)
    out = np.zeros(len(r))
    np.maximum.at(out, r.query[hits], 1.0 / r.rank[hits])
    return out


@metric(
    "map",
    aliases=("ap", "map_cut", "average_precision", "ap_cut"),
    title="Average precision",
    family=FAMILY,
    formula="sum over relevant ranks i ≤ k of precision@i / relevant docs in the gold; "
    "norm=min: / min(k, relevant docs in the gold)",
    tells="Precision at each relevant doc, averaged: rewards finding all of them early.",
    use_when="Several pieces are needed, and their order matters.",
    caution="Tools divide by different numbers at a cutoff; norm=min is the other common choice.",
    cites="Buckley & Voorhees 2005; trec_eval map, map_cut",
    monotone=True,
    bands={"map@100": ((0.8, "excellent"), (0.5, "good"), (0.2, "fair"), (0.0, "poor"))},
    suits={"several pieces": "map"},
    choices={"norm": ("gold", "min")},
)
def average_precision(r: Rankings, k: Cutoff = ALL, rel: float = RELEVANT, norm: str = "gold") -> Values:
    hits = r.hit_rows(rel, k)
    query = r.query[hits]
    total = np.bincount(query, weights=place_in_group(query) / r.rank[hits], minlength=len(r))
    gold = r.gold_count(rel)
    if norm == "min" and k is not None:
        gold = np.minimum(gold, k)
    return ratio(total.astype(np.float64, copy=False), gold)


@metric(
    "gm_map",
    aliases=("gmap",),
    title="Geometric mean of average precision",
    family=FAMILY,
    formula="exp(mean over queries of log(max(average precision, 0.00001)))",
    tells="Average precision with most weight on the queries that fail.",
    use_when="Hard queries matter most.",
    caution="Values per query are plain average precision; only the aggregate differs.",
    cites="Robertson 2006; trec_eval gm_map",
    cutoff="none",
    aggregate="geometric mean",
    monotone=True,
)
def gm_map(r: Rankings, rel: float = RELEVANT) -> Values:
    return average_precision(r, ALL, rel)


@metric(
    "accuracy",
    title="Accuracy of preferences",
    family=FAMILY,
    formula="1 − pairs in the top k of a relevant doc and one above it that is not / pairs of a relevant doc and one"
    " that is not",
    tells="How often a relevant doc stands above one that is not, among the docs of the top k.",
    use_when="A reranker is judged on the order of what it was given (area under the ROC curve).",
    caution="Undefined where the top k has no relevant doc, or no other: such a query leaves the mean. Blind to"
    " relevant docs that were not returned.",
    cites="ir_measures Accuracy",
    no_results=math.nan,
    empty_gold=math.nan,
)
def accuracy(r: Rankings, k: Cutoff = ALL, rel: float = RELEVANT) -> Values:
    top = r.upto(k)
    hits = top.hits(rel)
    relevant = top.sum(hits)
    others = np.minimum(r.returned, k if k is not None else r.returned) - relevant
    above = np.zeros(len(top.rank))
    above[hits] = top.rank[hits] - top.place_among(hits)
    return 1.0 - ratio(top.sum(above), relevant * others, undefined=math.nan)


@metric(
    "compat",
    aliases=("compatibility",),
    title="Compatibility with the best order",
    family=FAMILY,
    formula="rank-biased overlap of the list with the ideal one / that of the ideal list with itself, rank-biased"
    " overlap = Σ over depths i of p^(i − 1) · docs that both have in their top i / i",
    tells="How much the list agrees with the best order that the gold allows; 1 is complete agreement.",
    use_when="Grades are preferences: which of two docs is better, and not by how much.",
    caution="Among docs of one grade, the ideal order is that of the list itself, then those it lacks."
    " normalize=false: divided by Σ over depths i of p^(i − 1) instead.",
    cites="Clarke, Vtyurina & Smucker 2021",
    cutoff="none",
    ranges={"p": (0, 1)},
)
def compat(r: Rankings, p: float = 0.95, normalize: bool = True) -> Values:
    gold = earns_gain(r.gold_grade)
    size = np.bincount(r.gold_query[gold], minlength=len(r))
    depth = np.maximum(r.returned, size)
    longest = int(depth.max(initial=0))
    weight = p ** np.arange(longest, dtype=np.float64)
    upto = np.concatenate(([0.0], np.cumsum(weight / np.arange(1.0, longest + 1.0))))  # of depths 1 … i
    total = np.bincount(r.gold_query[gold], weights=upto[r.gold_place[gold] - 1], minlength=len(r))
    best = size * upto[depth] - total
    rows = earns_gain(r.grade)
    query, rank, grade = r.query[rows], r.rank[rows], r.grade[rows]
    both = np.maximum(rank, _ideal_place(r, query, grade))  # the depth from which both lists have the doc
    overlap = np.bincount(query, weights=upto[depth[query]] - upto[both - 1], minlength=len(r))
    whole = best if normalize else np.concatenate(([0.0], np.cumsum(weight)))[depth]
    return np.minimum(ratio(overlap.astype(np.float64, copy=False), whole.astype(np.float64, copy=False)), 1.0)


def _ideal_place(r: Rankings, query: NDArray[np.int64], grade: Values) -> NDArray[np.int64]:
    """The place of each returned doc in the ideal order: after all better ones, then in the order of the list."""
    order = np.lexsort((-grade, query))  # stable: docs of one grade stay in the order of the list
    q, g = query[order], grade[order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (q[1:] != q[:-1]) | (g[1:] != g[:-1])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = place_in_group(np.cumsum(fresh))
    levels, level = np.unique(np.concatenate((r.gold_grade, grade)), return_inverse=True)
    # The gold is sorted by query and descending grade, so the better ones of a query come before these keys.
    key = r.gold_query * len(levels) + (len(levels) - 1 - level[: len(r.gold_grade)])
    mine = query * len(levels) + (len(levels) - 1 - level[len(r.gold_grade) :])
    better = np.searchsorted(key, mine) - np.searchsorted(r.gold_query, query)
    return place + better


@metric(
    "set_map",
    aliases=("set_ap", "setap"),
    title="Average precision of a set",
    family=FAMILY,
    formula="precision of all docs returned · their recall",
    tells="Precision and recall of the whole result in one number.",
    use_when="Results are unordered sets: filters, Boolean search.",
    caution="Blind to order. It is lower than both precision and recall.",
    cites="trec_eval set_map",
    cutoff="none",
)
def set_map(r: Rankings, rel: float = RELEVANT) -> Values:
    return ratio(r.count_hits(rel) ** 2, r.returned * r.gold_count(rel))


@metric(
    "set_relative_p",
    aliases=("set_rel_p", "setrelp"),
    title="Precision of a set, relative to the best possible",
    family=FAMILY,
    formula="relevant docs returned / min(docs returned, relevant docs in the gold)",
    tells="The share of relevant docs among those returned, beside the largest share that the gold allows.",
    use_when="Results are unordered sets of very different sizes.",
    caution="Blind to order. With recall(cap=true)@k it is asked at a cutoff.",
    cites="trec_eval set_relative_P",
    cutoff="none",
)
def set_relative_p(r: Rankings, rel: float = RELEVANT) -> Values:
    return ratio(r.count_hits(rel), np.minimum(r.returned, r.gold_count(rel)))


@metric(
    "utility",
    title="Utility of a set",
    family=FAMILY,
    bounds=(-math.inf, None),
    formula="relevant · relevant docs returned + other · other docs returned + absent · relevant docs not returned",
    tells="What the whole result is worth, when each doc has a value or a cost.",
    use_when="The worth of a good doc and the cost of a useless one are known.",
    caution="Has no bounds: queries with many docs weigh most in the mean. Docs without a judgment count as not"
    " relevant. trec_eval's fourth weight, for other docs that were not returned, is left out: it needs the size of the"
    " collection.",
    cites="trec_eval utility",
    cutoff="none",
    no_results=None,
    empty_gold=None,
)
def utility(r: Rankings, rel: float = RELEVANT, relevant: float = 1, other: float = -1, absent: float = 0) -> Values:
    hits = r.count_hits(rel)
    return relevant * hits + other * (r.returned - hits) + absent * (r.gold_count(rel) - hits)
