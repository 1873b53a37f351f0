"""Metrics of the order alone: whether relevant docs stand above others, and how far a list is from the best one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.registry import metric
from karat.metrics.relevance import FAMILY
from karat.model.policy import RELEVANT, earns_gain
from karat.model.rankings import ALL, place_in_group, ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.model.rankings import Cutoff, Rankings, Values


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
    ranges={"rel": (0, None)},
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
