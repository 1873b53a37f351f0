"""Metrics of the whole result as a set, whatever its order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.registry import metric
from karat.metrics.relevance import FAMILY
from karat.model.policy import RELEVANT
from karat.model.rankings import ratio

if TYPE_CHECKING:
    from karat.model.rankings import Rankings, Values


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
    ranges={"rel": (0, None)},
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
    ranges={"rel": (0, None)},
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
    ranges={"rel": (0, None)},
)
def utility(r: Rankings, rel: float = RELEVANT, relevant: float = 1, other: float = -1, absent: float = 0) -> Values:
    hits = r.count_hits(rel)
    return relevant * hits + other * (r.returned - hits) + absent * (r.gold_count(rel) - hits)
