"""Queries without an answer: does the pipeline return evidence anyway?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from karat.errors import InputError, UsageError
from karat.model.policy import RELEVANT, is_relevant
from karat.results.components import Component
from karat.results.words import queries_text
from karat.verbs.components.estimator import Estimator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from karat.config.options import Options
    from karat.verbs.components.inputs import Material

    Top = Mapping[str, Sequence[tuple[str, float | None]]]
    """By query: docs with their scores, best first."""

POINTS = 500
"""A curve has at most so many points."""


def no_answer_metrics(
    top: Top,
    no_answer: Sequence[str],
    *,
    k: int = 5,
    threshold: float | None = None,
    gold: Mapping[str, Mapping[str, float]] | None = None,
    rel: float = RELEVANT,
    parent: Callable[[str], str] = str,
    estimator: Estimator | None = None,
    **options: Unpack[Options],
) -> Component:
    """The share of queries without an answer that get evidence in the top k all the same.

    Evidence is an item with a score of at least `threshold`, or one that `gold` grades relevant (a judge's word; of
    queries that have judgments). `gold` of the other queries gives the curve: recall@k of items at or above each
    threshold, beside the share of false evidence there. Queries that `top` lacks are left out. `options` are queries,
    confidence, method, resamples, seed.
    """
    estimator = estimator or Estimator.of(**options)
    if threshold is not None and (isinstance(threshold, bool) or not math.isfinite(threshold)):
        raise UsageError(f"threshold must be a finite number, found {threshold!r}")
    gold = gold or {}
    queries = sorted(set(no_answer))
    if not queries:
        raise InputError("false evidence needs queries marked no_answer, found none")
    ids = [q for q in queries if q in top]
    cut = {q: list(docs)[:k] for q, docs in top.items()}
    best = {q: max((s for _, s in docs if s is not None), default=-math.inf) for q, docs in cut.items()}
    scored = any(s is not None for q in ids for _, s in cut[q])
    unscored = {q for q in ids if any(s is None for _, s in cut[q])}
    """Of these it is not known whether an item is above a threshold, unless one with a score is."""
    judged = [q for q in ids if gold.get(q)]
    rows: dict[str, list[float]] = {}
    if threshold is not None and (scored or not any(cut[q] for q in ids)):
        rows[f"false_evidence@{k}"] = [
            math.nan if q in unscored and best[q] < threshold else float(best[q] >= threshold) for q in ids
        ]
    if judged:
        rows[f"false_evidence(judged)@{k}"] = [
            float(any(is_relevant(gold[q].get(parent(d), gold[q].get(d, 0.0)), rel) for d, _ in cut[q]))
            if q in judged
            else math.nan
            for q in ids
        ]
    answerable = {
        q: g for q, g in gold.items() if q not in set(queries) and any(is_relevant(grade, rel) for grade in g.values())
    }
    curve = (
        _curve([q for q in ids if q not in unscored], best, answerable, cut, rel, parent, estimator)
        if scored and ids
        else {}
    )
    notes = []
    if threshold is None and scored:
        notes.append(f"false_evidence@{k} needs a score threshold: none was stated; the curve shows all of them")
    if unscored and scored:
        notes.append(f"{queries_text(len(unscored))} with items that lack scores: left out where these may decide")
    if curve and len(curve["threshold"]) > POINTS:
        notes.append(f"the curve holds {POINTS} of its {len(curve['threshold']):,} thresholds, evenly by rank")
    if len(ids) < len(queries):
        notes.append(
            f"{len(queries) - len(ids)} of {len(queries)} no_answer queries are not in the run and are left out"
        )
    if not rows and not curve:
        why = "the items have no scores and these queries no judgments" if ids else "none of them is in the run"
        return Component(
            "no_answer", missing=f"needs scores on the items of `no_answer` queries, or gold of them: {why}"
        )
    return Component(
        "no_answer",
        figures=estimator.means(ids, rows, binary=True),
        counts={"queries": len(ids), "no_answer": len(queries), "judged": len(judged), "answerable": len(answerable)},
        tables={
            **({"threshold": threshold} if threshold is not None else {}),
            **({"curve": _thinned(curve)} if curve else {}),
        },
        per_query={
            q: {"best_score": None if best[q] == -math.inf else best[q], "items": len(cut[q])} for q in ids if cut[q]
        },
        notes=tuple(notes),
    )


def _curve(
    ids: Sequence[str],
    best: Mapping[str, float],
    answerable: Mapping[str, Mapping[str, float]],
    cut: Mapping[str, Sequence[tuple[str, float | None]]],
    rel: float,
    parent: Callable[[str], str],
    estimator: Estimator,
) -> dict[str, list[float]]:
    """At every score that occurs: the share of false evidence, and recall of what is at or above it."""
    weigh = estimator.sampling.units
    weight = weigh(ids).weight
    if not weight.sum():
        return {}
    tops = np.array([best[q] for q in ids])
    scores: list[float] = []
    credits: list[float] = []
    others = sorted(answerable)
    own = weigh(others).weight if others else np.zeros(0)
    total = float(own.sum())
    for q, mine in zip(others, own.tolist(), strict=True):
        relevant = {d for d, g in answerable[q].items() if is_relevant(g, rel)}
        best_scores: dict[str, float] = {}
        for doc, score in cut.get(q, ()):
            name = parent(doc)
            if name in relevant and score is not None:
                best_scores[name] = max(score, best_scores.get(name, -math.inf))
        scores += best_scores.values()
        credits += [mine / len(relevant) / total if total else math.nan] * len(best_scores)
    thresholds = np.unique(np.array([*tops[np.isfinite(tops)].tolist(), *scores], dtype=np.float64))
    false = _at_or_above(tops, weight / weight.sum(), thresholds)
    recall = _at_or_above(np.array(scores), np.array(credits), thresholds) if others else np.full(len(false), np.nan)
    return {"threshold": thresholds.tolist(), "false_evidence": false.tolist(), "recall": recall.tolist()}


def _at_or_above(scores: Any, weights: Any, thresholds: Any) -> Any:
    """The sum of the weights of scores that are at least each threshold."""
    order = np.argsort(scores, kind="stable")
    below = np.concatenate(([0.0], np.cumsum(weights[order])))
    out = below[-1] - below[np.searchsorted(scores[order], thresholds, side="left")]
    return np.clip(out, 0.0, 1.0)


def _thinned(curve: Mapping[str, list[float]]) -> dict[str, list[float | None]]:
    from karat.store.codec import rounded

    size = len(curve["threshold"])
    places = range(size) if size <= POINTS else np.unique(np.linspace(0, size - 1, POINTS).round().astype(int)).tolist()
    return {name: [rounded(values[i]) for i in places] for name, values in curve.items()}


def measure(material: Material, threshold: float | None) -> Component:
    """From the table of queries and the scores of the run."""
    if not material.no_answer:
        where = (
            "there is no table of queries"
            if material.queries is None
            else (f"0 of {len(material.queries)} queries have no_answer")
        )
        return Component("no_answer", missing=f"needs `no_answer` in the table of queries: {where}")
    gold = {q: material.gold.for_query(q) for q in material.gold.query_ids}
    return no_answer_metrics(
        material.top,
        material.no_answer,
        k=material.k,
        threshold=threshold,
        gold=gold,
        rel=material.rel,
        parent=material.parent,
        estimator=material.estimator,
    )
