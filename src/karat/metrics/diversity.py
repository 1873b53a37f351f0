"""Diversity of the top k by vectors and by words; by subtopics it is in `subtopics.py`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import MetricError
from karat.metrics.budget import DIVERSITY
from karat.metrics.graded import log_discount
from karat.metrics.registry import Params, metric, number_param
from karat.model.rankings import ALL, ratio

if TYPE_CHECKING:
    from karat.model.items import Items
    from karat.model.rankings import Cutoff, Rankings, Values

_ILD_BANDS = ((0.8, "high"), (0.6, "medium"), (0.4, "low"), (0.0, "very low"))


def _wrong_novelty(explicit: Params) -> str | None:
    if not 0 < number_param(explicit, "tau", 0.5) <= 1:
        return f"tau must be above 0 and at most 1, found {explicit['tau']}"
    words = number_param(explicit, "words", 5)
    return None if words == int(words) and 1 <= words <= 100 else f"words must be an integer from 1, found {words}"


@metric(
    "ild",
    aliases=("intra_list_diversity",),
    title="Intra-list diversity",
    family=DIVERSITY,
    bounds=(0.0, 2.0),
    formula="mean over all pairs of items in the top k of 1 − cosine of their embeddings",
    tells="How far apart the items of the top k are from each other.",
    use_when="Docs with the same content crowd out others, and their ids do not show it.",
    caution="Blind to relevance: random docs score high. Its range is 0 to 2, not 0 to 1, since cosines may be"
    " negative. Undefined below 2 items. Values from two embedding models are not comparable.",
    cites="Ziegler et al. 2005",
    no_results=math.nan,
    empty_gold=math.nan,
    needs=("items", "embeddings"),
    complexity="docs in the top k, squared, × dimensions",
    suits={"redundancy": "ild@5"},
    bands={"ild": _ILD_BANDS, "ild@5": _ILD_BANDS, "ild@10": _ILD_BANDS},
)
def ild(r: Rankings, k: Cutoff = ALL) -> Values:
    from karat.metrics.similarity import cosines_above

    items = items_of(r)
    _, total = cosines_above(items)
    top = items.rank <= k if k is not None else np.ones(len(items.rank), dtype=bool)
    n = np.bincount(items.query[top], minlength=len(r)).astype(np.float64)
    alike = np.bincount(items.query[top], weights=total[top], minlength=len(r)).astype(np.float64, copy=False)
    return 1.0 - ratio(alike, n * (n - 1.0) / 2.0, undefined=math.nan)


@metric(
    "novelty",
    title="Share of novel items",
    family=DIVERSITY,
    formula="items in the top k whose largest Jaccard overlap of shingles of 5 words with an item above is below tau"
    " / items in the top k",
    tells="The share of the top k that is not a near-copy of a higher-ranked item.",
    use_when="Copies and near-copies fill the results: boilerplate, versions, overlapping chunks.",
    caution="Blind to paraphrases: see ild. A word is a run of letters and digits in lower case, so languages without"
    " spaces need words=1. A text of fewer words is a single shingle; one without words equals only others without."
    " Title and text count as one text. Undefined for an empty result.",
    cites="Broder 1997 (resemblance of shingles)",
    no_results=math.nan,
    empty_gold=math.nan,
    needs=("items", "texts"),
    complexity="words in the top k, and its pairs",
    suits={"redundancy": "novelty@5"},
    refuses=_wrong_novelty,
)
def novelty(r: Rankings, k: Cutoff = ALL, tau: float = 0.5, words: float = 5) -> Values:
    from karat.metrics.similarity import overlap_above

    items = items_of(r)
    overlap = overlap_above(items, int(words))
    top = items.rank <= k if k is not None else np.ones(len(items.rank), dtype=bool)
    new = np.bincount(items.query[top & (overlap < tau)], minlength=len(r)).astype(np.float64)
    return ratio(new, np.bincount(items.query[top], minlength=len(r)).astype(np.float64), undefined=math.nan)


def embedding_dcg(r: Rankings, k: Cutoff, weight: float) -> Values:
    """DCG whose gains shrink the nearer an item is to one above it."""
    from karat.metrics.similarity import cosines_above

    items, top = items_of(r), r.upto(k)
    near, _ = cosines_above(items)
    # An item's row: the first of its query, and its rank on from there.
    row = np.searchsorted(items.query, top.query) + top.rank - 1
    novel = 1.0 - np.clip(near[row], 0.0, 1.0)
    gain = np.maximum(top.grade, 0.0) * (weight + (1.0 - weight) * novel)
    return top.sum(gain / log_discount(top.rank))


def items_of(r: Rankings) -> Items:
    """All docs that these rankings return; an error where they hold the judged ones alone."""
    if r.items is None:
        raise MetricError("this metric needs all returned docs, but these rankings hold only the judged ones")
    return r.items
