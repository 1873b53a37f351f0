"""Diversity of the top k: by vectors, by words, and by the subtopics that docs cover."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import MetricError
from karat.metrics.budget import DIVERSITY
from karat.metrics.graded import NO_GAINS, ideal_dcg
from karat.metrics.registry import Params, metric, number_param
from karat.metrics.subtopics import full_gain, greedy_gain, log_discount, novel_gain, topic_count, topics_of
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


def _wrong_alpha(explicit: Params) -> str | None:
    for name in ("relevance_weight", "alpha"):
        if not 0 <= number_param(explicit, name, 0) <= 1:
            return f"{name} must be from 0 to 1, found {explicit[name]}"
    if explicit.get("kind") == "subtopic":
        other = [n for n in ("relevance_weight", "ideal") if n in explicit]
        return f"{other[0]} belongs to kind=embedding; kind=subtopic takes alpha" if other else None
    return (
        "alpha belongs to kind=subtopic; kind=embedding takes relevance_weight and ideal"
        if "alpha" in explicit
        else None
    )


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

    items = _items(r)
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

    items = _items(r)
    overlap = overlap_above(items, int(words))
    top = items.rank <= k if k is not None else np.ones(len(items.rank), dtype=bool)
    new = np.bincount(items.query[top & (overlap < tau)], minlength=len(r)).astype(np.float64)
    return ratio(new, np.bincount(items.query[top], minlength=len(r)).astype(np.float64), undefined=math.nan)


@metric(
    "alpha_ndcg",
    title="Diversity-aware nDCG",
    family=DIVERSITY,
    bounds=(0.0, None),
    formula="DCG / ideal DCG, DCG = Σ gain_i / log2(i + 1). kind=embedding: gain = grade · (w + (1 − w) · novelty),"
    " novelty = 1 − largest cosine with any item above, from 0 to 1, w = relevance_weight. kind=subtopic: gain = Σ over"
    " the doc's subtopics of (1 − alpha)^(docs above with that subtopic). The ideal takes the doc of the largest gain"
    " again and again; ideal=plain: the grades sorted, as if all docs were novel",
    tells="How good the top k is when a doc is worth less the more it repeats higher-ranked ones.",
    use_when="Results must be relevant and different: ambiguous queries, context for an answer from several sources.",
    caution="A relevance_weight of 0 is not pure diversity: gains are still multiplied by the grade, and docs that are"
    " not relevant earn nothing. All items above count for novelty, relevant or not. The greedy ideal is not always the"
    " best order, so values can exceed 1; it breaks ties by doc id, descending. kind=subtopic counts grades from 1 on"
    " as 1, as ndeval does. Values from two embedding models are not comparable.",
    cites="Clarke et al. 2008; kind=subtopic: ndeval",
    choices={"kind": ("embedding", "subtopic"), "ideal": ("greedy", "plain")},
    needs=("gold", "items", "embeddings", "gold_embeddings"),
    needs_when={("kind", "subtopic"): ("gold", "subtopics"), ("ideal", "plain"): ("gold", "items", "embeddings")},
    complexity="docs in the top k and relevant gold, squared, × dimensions",
    suits={"diverse retriever": "alpha_ndcg@10"},
    refuses=_wrong_alpha,
)
def alpha_ndcg(
    r: Rankings,
    k: Cutoff = ALL,
    kind: str = "embedding",
    relevance_weight: float = 0.5,
    ideal: str = "greedy",
    alpha: float = 0.5,
) -> Values:
    if kind == "subtopic":
        topics = topics_of(r)
        return ratio(
            novel_gain(topics, len(r), k, alpha, log_discount), greedy_gain(topics, len(r), k, alpha, log_discount)
        )
    if ideal == "plain":
        return ratio(_embedding_dcg(r, k, relevance_weight), ideal_dcg(r, k, "linear", NO_GAINS))
    from karat.metrics.similarity import greedy_ideal

    gain, vectors = _embedding_dcg(r, k, relevance_weight), _items(r).vectors
    assert vectors is not None
    return ratio(gain, greedy_ideal(vectors, len(r), k, relevance_weight))


@metric(
    "alpha_dcg",
    title="Diversity-aware DCG",
    family=DIVERSITY,
    bounds=(0.0, None),
    cutoff="required",
    formula="Σ gain_i / log2(i + 1), with the gains of alpha_ndcg. kind=subtopic: divided by the value that k docs"
    " would have if each covered all subtopics of the query",
    tells="How much gain the top k brings, when a doc is worth less the more it repeats higher-ranked ones.",
    use_when="As alpha_ndcg, where the gain itself matters and not how close it is to the best that the gold allows.",
    caution="With kind=subtopic most queries cannot reach 1, since few docs cover every subtopic. As in alpha_ndcg,"
    " grades from 1 on count as 1 there, and values from two embedding models are not comparable.",
    cites="Clarke et al. 2008; kind=subtopic: ndeval alpha-DCG",
    choices={"kind": ("embedding", "subtopic")},
    needs=("gold", "items", "embeddings"),
    needs_when={("kind", "subtopic"): ("gold", "subtopics")},
    complexity="docs in the top k, squared, × dimensions",
    refuses=_wrong_alpha,
)
def alpha_dcg(
    r: Rankings, k: Cutoff = ALL, kind: str = "embedding", relevance_weight: float = 0.5, alpha: float = 0.5
) -> Values:
    if kind == "embedding":
        return _embedding_dcg(r, k, relevance_weight)
    topics = topics_of(r)
    best = topic_count(topics, len(r)) * full_gain(k or 1, alpha, log_discount)
    return ratio(novel_gain(topics, len(r), k, alpha, log_discount), best)


def _embedding_dcg(r: Rankings, k: Cutoff, weight: float) -> Values:
    from karat.metrics.similarity import cosines_above

    items, top = _items(r), r.upto(k)
    near, _ = cosines_above(items)
    # An item's row: the first of its query, and its rank on from there.
    row = np.searchsorted(items.query, top.query) + top.rank - 1
    novel = 1.0 - np.clip(near[row], 0.0, 1.0)
    gain = np.maximum(top.grade, 0.0) * (weight + (1.0 - weight) * novel)
    return top.sum(gain / np.log2(top.rank + 1.0))


def _items(r: Rankings) -> Items:
    if r.items is None:
        raise MetricError("this metric needs all returned docs, but these rankings hold only the judged ones")
    return r.items
