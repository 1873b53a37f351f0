"""What else trec_eval reports: R-precision, bpref, infAP, interpolated precision, counts, judged."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.registry import metric
from karat.model.policy import RELEVANT, is_judged, is_relevant
from karat.model.rankings import ALL, ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.model.rankings import Counts, Cutoff, Rankings, Values

FAMILY = "trec"
INFAP_EPSILON = 1e-5  # as in trec_eval: keeps the share of relevant docs above a rank defined
RECALL_LEVELS = tuple(i / 10 for i in range(11))


@metric(
    "rprec",
    aliases=("r_prec", "r_precision"),
    title="R-precision",
    family=FAMILY,
    formula="precision@R, R = relevant docs in the gold",
    tells="Precision at the rank where it equals recall.",
    use_when="Queries have very different numbers of relevant docs.",
    caution="Each query has its own cutoff.",
    cites="trec_eval Rprec",
    cutoff="none",
    monotone=True,
    ranges={"multiple": (0, None)},
    variants={"multiple=0.2": "precision at int(0.2 · R + 0.9), as trec_eval's Rprec_mult_0.20"},
    added=("multiple",),
)
def rprec(r: Rankings, rel: float = RELEVANT, multiple: float = 1) -> Values:
    cut = r.gold_count(rel) if multiple == 1 else np.floor(multiple * r.gold_count(rel) + 0.9)
    return ratio(r.sum(r.hits(rel) & (r.rank <= cut[r.query])), cut)


@metric(
    "bpref",
    title="Binary preference",
    family=FAMILY,
    formula="(1/R) · Σ over relevant docs found of 1 − min(judged non-relevant above it, R) / min(N, R), "
    "N = judged non-relevant docs in the gold",
    tells="How rarely a doc judged not relevant ranks above a relevant one.",
    use_when="The gold is incomplete: unjudged docs are ignored.",
    caution="Needs judgments of non-relevant docs; with few of them it means little.",
    cites="Buckley & Voorhees 2004; trec_eval bpref",
    cutoff="none",
    monotone=True,
)
def bpref(r: Rankings, rel: float = RELEVANT) -> Values:
    gold = r.gold_count(rel)
    below = np.bincount(
        r.gold_query[is_judged(r.gold_grade) & ~is_relevant(r.gold_grade, rel)], minlength=len(r)
    ).astype(np.float64)
    hits = r.hits(rel)
    above = _count_before(r, is_judged(r.grade) & ~hits)[hits]
    q = r.query[hits]
    lost = ratio(np.minimum(above, gold[q]), np.minimum(below, gold)[q])
    return ratio(np.bincount(q, weights=1.0 - lost, minlength=len(r)).astype(np.float64, copy=False), gold)


@metric(
    "gm_bpref",
    title="Geometric mean of binary preference",
    family=FAMILY,
    formula="exp(mean over queries of log(max(bpref, 0.00001)))",
    tells="Binary preference with most weight on the queries that fail.",
    use_when="The gold is incomplete, and hard queries matter most.",
    caution="Values per query are plain bpref; only the aggregate differs.",
    cites="trec_eval gm_bpref",
    cutoff="none",
    aggregate="geometric mean",
    monotone=True,
)
def gm_bpref(r: Rankings, rel: float = RELEVANT) -> Values:
    return bpref(r, rel)


def _count_before(r: Rankings, rows: NDArray[np.bool_]) -> Counts:
    """For each row, how many of its query's chosen rows rank above it. Counts are exact integers."""
    chosen = rows.astype(np.int64)
    before = np.cumsum(chosen) - chosen
    first = np.searchsorted(r.query, r.query)
    return before - before[first] if len(before) else before


@metric(
    "infap",
    aliases=("inf_ap",),
    title="Inferred average precision",
    family=FAMILY,
    formula="(1/R) · Σ over relevant ranks i of 1/i + (i − 1)/i · (pooled above / (i − 1)) · "
    "(relevant above + ε) / (relevant above + non-relevant above + 2ε), ε = 0.00001",
    tells="Average precision estimated from gold in which only a sample of the pool was judged.",
    use_when="Negative grades mark docs that were pooled but not judged.",
    caution="With a completely judged pool it is close to map, but not equal.",
    cites="Yilmaz & Aslam 2006; trec_eval infAP",
    cutoff="none",
)
def infap(r: Rankings, rel: float = RELEVANT) -> Values:
    hits = r.hits(rel)
    relevant = _count_before(r, hits)[hits]
    other = _count_before(r, is_judged(r.grade) & ~hits)[hits]
    unjudged = _count_before(r, ~is_judged(r.grade))[hits]
    above = r.rank[hits] - 1.0
    share = (relevant + INFAP_EPSILON) / (relevant + other + 2 * INFAP_EPSILON)
    # (i − 1)/i · pooled/(i − 1) is pooled/i, which is also right at rank 1.
    value = 1.0 / (above + 1.0) + (relevant + other + unjudged) / (above + 1.0) * share
    value[above == 0] = 1.0
    total = np.bincount(r.query[hits], weights=value, minlength=len(r)).astype(np.float64, copy=False)
    return ratio(total, r.gold_count(rel))


@metric(
    "iprec",
    aliases=("iprec_at_recall", "11pt_avg"),
    title="Interpolated precision at a recall level",
    family=FAMILY,
    formula="largest precision@i at any rank i where recall is at least r",
    tells="The best precision at or beyond a recall level.",
    use_when="Precision–recall curves in the tradition of TREC.",
    caution="The level is rounded to a number of docs as trec_eval 9 does: int(r · R + 0.9).",
    cites="trec_eval iprec_at_recall",
    cutoff="recall",
    monotone=True,
    choices={"version": ("9", "10")},
    variants={
        "version=10": "the level is rounded to the nearest number of docs, halves up, as trec_eval 10 does:"
        " int(r · R + 0.5)"
    },
    added=("version",),
)
def iprec(r: Rankings, level: float | None = None, rel: float = RELEVANT, version: str = "9") -> Values:
    """At one recall level; without one, the mean over the eleven levels 0, .1, … 1."""
    gold = r.gold_count(rel)
    hits = r.hits(rel)
    query, place = r.query[hits], r.place_among(hits)
    at = place / r.rank[hits]
    total = np.zeros(len(r))
    for one in RECALL_LEVELS if level is None else (level,):
        needed = np.floor(one * gold + (0.9 if version == "9" else 0.5))
        best = np.zeros(len(r))
        enough = place >= needed[query]
        np.maximum.at(best, query[enough], at[enough])
        total += best
    return total / (len(RECALL_LEVELS) if level is None else 1)


@metric(
    "judged",
    title="Share of judged docs",
    family=FAMILY,
    formula="judged docs in the top k / min(k, docs returned)",
    tells="The share of the top k that has a judgment.",
    use_when="Before trusting any other number: unjudged docs count as not relevant.",
    caution="Undefined for an empty result. A grade below 0 is not a judgment.",
    cites="ir_measures Judged",
    no_results=math.nan,
    empty_gold=None,
    choices={"missing": ("undefined", "zero")},
    no_results_when={("missing", "zero"): 0.0},
    variants={
        "missing=zero": "a query without results scores 0, as in ir_measures; else it is left out",
        "pooled=true": "a doc with a grade below 0 counts as judged, as in ir_measures",
    },
    added=("missing", "pooled"),
)
def judged(r: Rankings, k: Cutoff = ALL, missing: str = "undefined", pooled: bool = False) -> Values:
    undefined = 0.0 if missing == "zero" else math.nan
    return ratio(_count_judged(r, k, pooled=pooled), _depth(r, k), undefined=undefined)


def _count_judged(r: Rankings, k: Cutoff, *, pooled: bool = False) -> Values:
    count = r.sum(is_judged(r.grade) | pooled, upto=k)
    return count if r.repeats is None else count + r.repeats.sum(is_judged(r.repeats.grade) | pooled, upto=k)


def _depth(r: Rankings, k: Cutoff) -> Values:
    return np.minimum(r.returned, k if k is not None else r.returned).astype(np.float64)


@metric(
    "unj",
    title="Share of unjudged docs",
    family=FAMILY,
    formula="docs without a judgment in the top k / k",
    tells="The share of the top k that nobody judged.",
    use_when="Before trusting any other number: a high value near the top means that the gold hardly covers the run.",
    caution="Divides by k even if fewer docs were returned, unlike judged; without a cutoff, by the number returned."
    " A grade below 0 is not a judgment.",
    cites="trec_eval 10 unj",
    higher_is_better=False,
    empty_gold=None,
)
def unj(r: Rankings, k: Cutoff = ALL) -> Values:
    return ratio(_depth(r, k) - _count_judged(r, k), _depth(r, k) if k is None else np.full(len(r), float(k)))


_MISSING = {"missing=zero": "a query without results counts 0, as in ir_measures"}
_count = partial(metric, family="counts", bounds=(0.0, None), aggregate="sum", higher_is_better=None)


@_count(
    "num_q",
    aliases=("numq",),
    title="Queries",
    formula="1 for each query",
    tells="How many queries were scored.",
    cutoff="none",
    cites="trec_eval num_q",
    no_results=1.0,
    empty_gold=1.0,
    choices={"missing": ("count", "zero")},
    no_results_when={("missing", "zero"): 0.0},
    variants=_MISSING,
    added=("missing",),
)
def num_q(r: Rankings, missing: str = "count") -> Values:
    return np.ones(len(r)) if missing == "count" else (r.returned > 0).astype(np.float64)


@_count(
    "num_ret",
    aliases=("numret",),
    title="Docs returned",
    formula="docs returned",
    tells="How many docs the run returned.",
    cutoff="none",
    cites="trec_eval num_ret",
    empty_gold=None,
)
def num_ret(r: Rankings) -> Values:
    return r.returned.astype(np.float64)


@_count(
    "num_rel",
    aliases=("numrel",),
    title="Relevant docs",
    formula="relevant docs in the gold",
    tells="How many relevant docs the gold has.",
    cutoff="none",
    cites="trec_eval num_rel",
    no_results=None,
    choices={"missing": ("count", "zero")},
    no_results_when={("missing", "zero"): 0.0},
    variants=_MISSING,
    added=("missing",),
)
def num_rel(r: Rankings, rel: float = RELEVANT, missing: str = "count") -> Values:
    return r.gold_count(rel).copy() if missing == "count" else np.where(r.returned > 0, r.gold_count(rel), 0.0)


@_count(
    "num_rel_ret",
    aliases=("numrelret", "hits"),
    title="Relevant docs returned",
    formula="relevant docs in the top k",
    tells="How many relevant docs the run returned.",
    cites="trec_eval num_rel_ret",
    monotone=True,
)
def num_rel_ret(r: Rankings, k: Cutoff = ALL, rel: float = RELEVANT) -> Values:
    return r.count_hits(rel, k)


@metric(
    "hits_per_query",
    title="Relevant docs per query",
    family=FAMILY,
    bounds=(0.0, None),
    formula="relevant docs in the top k",
    tells="How many relevant docs the top k has on average.",
    use_when="The number of good docs matters, not their share.",
    caution="Queries with much gold weigh most. num_rel_ret is the same per query, summed over queries.",
    cites="ranx hits",
    monotone=True,
)
def hits_per_query(r: Rankings, k: Cutoff = ALL, rel: float = RELEVANT) -> Values:
    return r.count_hits(rel, k)


@_count(
    "num_nonrel_judged_ret",
    title="Docs returned that were judged not relevant",
    formula="docs returned with a judgment below rel",
    tells="How many docs that were judged not relevant the run returned.",
    cutoff="none",
    cites="trec_eval num_nonrel_judged_ret",
    empty_gold=None,
)
def num_nonrel_judged_ret(r: Rankings, rel: float = RELEVANT) -> Values:
    return r.sum(is_judged(r.grade) & ~r.hits(rel))
