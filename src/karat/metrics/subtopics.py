"""Intent-aware metrics: how well the top k covers the subtopics of a query. Numbers as ndeval computes them.

`topics_of` takes the subtopics from the rankings, where `align/contents.py` puts them.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import MetricError
from karat.metrics.budget import DIVERSITY
from karat.metrics.diversity import embedding_dcg, items_of
from karat.metrics.graded import NO_GAINS, ideal_dcg, log_discount
from karat.metrics.registry import Params, metric, number_param
from karat.model.policy import RELEVANT
from karat.model.rankings import ALL, place_in_group, ratio

if TYPE_CHECKING:
    from collections.abc import Callable

    from karat.model.items import Topics
    from karat.model.rankings import Counts, Cutoff, Rankings, Values

    Discount = Callable[[Values], Values]
    """What a gain at each rank is worth."""

TIE = 1e-12
"""Gains that differ by less are tied: rounding must not choose between docs."""


def _log_weight(rank: Values) -> Values:
    return 1.0 / log_discount(rank)


def _reciprocal(rank: Values) -> Values:
    return 1.0 / rank


def _persistence(beta: float) -> Discount:
    return lambda rank: beta ** (rank - 1.0)


def topics_of(r: Rankings, rel: float = RELEVANT) -> Topics:
    """The subtopics of these rankings with the docs that are relevant to them; an error where there are none."""
    if r.topics is None:
        raise MetricError("this metric needs gold by subtopic, but these rankings have none; use karat.evaluate")
    return r.topics.relevant(rel)


def topic_count(topics: Topics, queries: int) -> Values:
    """How many subtopics of each query have a relevant doc in the gold."""
    group = _pairs(topics.gold_query, topics.gold_topic)
    first = np.unique(group, return_index=True)[1]
    return np.bincount(topics.gold_query[first], minlength=queries).astype(np.float64)


def _pairs(query: Counts, topic: Counts, topics: int = 0) -> Counts:
    """One number for each pair of a query and a subtopic."""
    return query * max(topics, int(topic.max(initial=0)) + 1) + topic


def _upto(topics: Topics, k: Cutoff) -> tuple[Counts, Counts, Counts]:
    """Query, rank and subtopic of the rows in the top k."""
    top = topics.rank <= k if k is not None else np.ones(len(topics.rank), dtype=bool)
    return topics.query[top], topics.rank[top], topics.topic[top]


def _place(query: Counts, rank: Counts, topic: Counts) -> Values:
    """For each row, its number (from 1) among the docs of its query that cover its subtopic."""
    order = np.lexsort((rank, topic, query))
    place = np.empty(len(order))
    place[order] = place_in_group(_pairs(query, topic)[order])
    return place


def novel_gain(topics: Topics, queries: int, k: Cutoff, alpha: float, discount: Discount) -> Values:
    """Σ over returned docs and their subtopics of (1 − alpha)^(docs above with that subtopic) · discount."""
    query, rank, topic = _upto(topics, k)
    gain = (1.0 - alpha) ** (_place(query, rank, topic) - 1.0) * discount(rank.astype(np.float64))
    return np.bincount(query, weights=gain, minlength=queries).astype(np.float64, copy=False)


def greedy_gain(topics: Topics, queries: int, k: Cutoff, alpha: float, discount: Discount) -> Values:
    """What a greedy choice from the gold collects; ties go to the greater doc id, as in ndeval."""
    out = np.zeros(queries)
    bounds = np.append(np.flatnonzero(np.diff(topics.gold_query, prepend=-1)), len(topics.gold_query))
    for a, b in itertools.pairwise(bounds.tolist()):
        doc, topic = topics.gold_doc[a:b], topics.gold_topic[a:b]
        covers = np.zeros((int(doc.max()) + 1, int(topic.max()) + 1))
        covers[doc, topic] = 1.0
        worth = np.ones(covers.shape[1])
        places = min(len(covers), k or len(covers))
        weights, total = discount(np.arange(1.0, places + 1.0)).tolist(), 0.0
        for weight in weights:
            gain = covers @ worth
            best = float(gain.max())
            if best <= 0.0:
                break
            chosen = int((gain >= best - TIE).argmax())
            total += best * weight
            worth = np.where(covers[chosen] > 0, worth * (1.0 - alpha), worth)
            covers[chosen] = 0.0
        out[topics.gold_query[a]] = total
    return out


def full_gain(k: int, alpha: float, discount: Discount) -> float:
    """What k docs collect on each subtopic if all of them cover it."""
    ranks = np.arange(1.0, k + 1.0)
    return float(((1.0 - alpha) ** (ranks - 1.0) * discount(ranks)).sum())


def _refuse_shares(explicit: Params) -> str | None:
    """Why alpha or beta is wrong."""
    for name in ("alpha", "beta"):
        if not 0 <= number_param(explicit, name, 0) <= 1:
            return f"{name} must be from 0 to 1, found {explicit[name]}"
    return None


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


_by_subtopic = partial(metric, family=DIVERSITY, needs=("gold", "subtopics"), complexity="judged docs × subtopics")
_greedy = partial(_by_subtopic, complexity="gold × subtopics × docs in the top k", bounds=(0.0, None))


@_by_subtopic(
    "st_recall",
    aliases=("strecall", "strec"),
    title="Subtopic recall",
    formula="subtopics with a relevant doc in the top k / subtopics with a relevant doc in the gold",
    tells="The share of a query's subtopics that the top k covers.",
    use_when="Every aspect of a question must be covered once.",
    caution="Blind to order, and to how often a subtopic is covered.",
    cites="Zhai et al. 2003; ndeval strec",
)
def st_recall(r: Rankings, k: Cutoff = ALL, rel: float = RELEVANT) -> Values:
    topics = topics_of(r, rel)
    query, _, topic = _upto(topics, k)
    first = np.unique(_pairs(query, topic), return_index=True)[1]
    coverage = np.bincount(query[first], minlength=len(r)).astype(np.float64)
    return ratio(coverage, topic_count(topics, len(r)))


@_by_subtopic(
    "p_ia",
    title="Intent-aware precision",
    cutoff="required",
    formula="mean over the query's subtopics of precision@k for that subtopic",
    tells="How much of the top k serves each subtopic, on average.",
    use_when="Readers want one aspect of an ambiguous query, and nobody knows which.",
    caution="All subtopics weigh the same, and a doc that covers several counts for each of them.",
    cites="Agrawal et al. 2009; ndeval P-IA",
)
def p_ia(r: Rankings, k: Cutoff = ALL, rel: float = RELEVANT) -> Values:
    topics = topics_of(r, rel)
    query = _upto(topics, k)[0]
    coverage = np.bincount(query, minlength=len(r)).astype(np.float64)
    return ratio(coverage, (k or 1) * topic_count(topics, len(r)))


@_by_subtopic(
    "ap_ia",
    aliases=("map_ia",),
    title="Intent-aware average precision",
    cutoff="none",
    formula="mean over the query's subtopics of average precision for that subtopic",
    tells="How early and how completely the docs of each subtopic come, on average.",
    use_when="All docs on every aspect are needed.",
    caution="All subtopics weigh the same, whether they have one relevant doc or many.",
    cites="Agrawal et al. 2009; ndeval MAP-IA",
)
def ap_ia(r: Rankings, rel: float = RELEVANT) -> Values:
    topics = topics_of(r, rel)
    size = int(topics.gold_topic.max(initial=0)) + 1
    relevant = np.bincount(_pairs(topics.gold_query, topics.gold_topic, size), minlength=len(r) * size)
    place = _place(topics.query, topics.rank, topics.topic)
    weights = place / topics.rank / relevant[_pairs(topics.query, topics.topic, size)]
    total = np.bincount(topics.query, weights=weights, minlength=len(r)).astype(np.float64, copy=False)
    return np.minimum(ratio(total, topic_count(topics, len(r))), 1.0)


@_by_subtopic(
    "err_ia",
    title="Intent-aware expected reciprocal rank",
    cutoff="required",
    formula="Σ over ranks i ≤ k and the doc's subtopics of (1 − alpha)^(docs above with that subtopic) / i, divided"
    " by the value that k docs would have if each covered all subtopics",
    tells="How soon a reader finds each subtopic, when further docs on the same one are worth less.",
    use_when="An ambiguous query should show each of its meanings near the top.",
    caution="Most queries cannot reach 1, since few docs cover every subtopic; nerr_ia divides by what the gold allows."
    " Grades from rel on count as 1. ndeval does not divide at cutoff 1.",
    cites="Chapelle et al. 2009; ndeval ERR-IA",
    refuses=_refuse_shares,
)
def err_ia(r: Rankings, k: Cutoff = ALL, rel: float = RELEVANT, alpha: float = 0.5) -> Values:
    topics = topics_of(r, rel)
    best = topic_count(topics, len(r)) * full_gain(k or 1, alpha, _reciprocal)
    return np.minimum(ratio(novel_gain(topics, len(r), k, alpha, _reciprocal), best), 1.0)


@_greedy(
    "nerr_ia",
    title="Normalised intent-aware expected reciprocal rank",
    formula="Σ over ranks i and the doc's subtopics of (1 − alpha)^(docs above with that subtopic) / i, divided by"
    " the value of the ideal order, which takes the doc of the largest gain again and again",
    tells="How close the top k is to the best order for readers of every subtopic.",
    use_when="As err_ia, where 1 should be within reach.",
    caution="The greedy ideal is not always the best order, so values can exceed 1.",
    cites="Chapelle et al. 2009; ndeval nERR-IA",
    refuses=_refuse_shares,
)
def nerr_ia(r: Rankings, k: Cutoff = ALL, rel: float = RELEVANT, alpha: float = 0.5) -> Values:
    topics = topics_of(r, rel)
    best = greedy_gain(topics, len(r), k, alpha, _reciprocal)
    return ratio(novel_gain(topics, len(r), k, alpha, _reciprocal), best)


@_by_subtopic(
    "nrbp",
    title="Novelty- and rank-biased precision",
    cutoff="none",
    formula="(1 − (1 − alpha) · beta) / subtopics · Σ over ranks i and the doc's subtopics of (1 − alpha)^(docs above"
    " with that subtopic) · beta^(i − 1)",
    tells="The rate at which a reader finds new subtopics who continues to the next rank with probability beta.",
    use_when="Results must cover ambiguous and vague queries, and lists have unequal lengths.",
    caution="Most queries cannot reach 1, since few docs cover every subtopic; nnrbp divides by what the gold allows.",
    cites="Clarke et al. 2009; ndeval NRBP",
    refuses=_refuse_shares,
)
def nrbp(r: Rankings, rel: float = RELEVANT, alpha: float = 0.5, beta: float = 0.5) -> Values:
    topics = topics_of(r, rel)
    gain = novel_gain(topics, len(r), ALL, alpha, _persistence(beta))
    return np.minimum(ratio((1.0 - (1.0 - alpha) * beta) * gain, topic_count(topics, len(r))), 1.0)


@_greedy(
    "nnrbp",
    title="Normalised novelty- and rank-biased precision",
    cutoff="none",
    formula="nrbp / nrbp of the ideal order, which takes the doc of the largest gain again and again",
    tells="How close the order is to the best one for a reader who looks for new subtopics.",
    use_when="As nrbp, where 1 should be within reach.",
    caution="The greedy ideal is not always the best order, so values can exceed 1.",
    cites="Clarke et al. 2009; ndeval nNRBP",
    refuses=_refuse_shares,
)
def nnrbp(r: Rankings, rel: float = RELEVANT, alpha: float = 0.5, beta: float = 0.5) -> Values:
    topics = topics_of(r, rel)
    best = greedy_gain(topics, len(r), ALL, alpha, _persistence(beta))
    return ratio(novel_gain(topics, len(r), ALL, alpha, _persistence(beta)), best)


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
            novel_gain(topics, len(r), k, alpha, _log_weight), greedy_gain(topics, len(r), k, alpha, _log_weight)
        )
    if ideal == "plain":
        return ratio(embedding_dcg(r, k, relevance_weight), ideal_dcg(r, k, "linear", NO_GAINS))
    from karat.metrics.similarity import greedy_ideal

    gain, vectors = embedding_dcg(r, k, relevance_weight), items_of(r).vectors
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
        return embedding_dcg(r, k, relevance_weight)
    topics = topics_of(r)
    best = topic_count(topics, len(r)) * full_gain(k or 1, alpha, _log_weight)
    return ratio(novel_gain(topics, len(r), k, alpha, _log_weight), best)
