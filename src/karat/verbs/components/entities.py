"""Entity linking: are the entities of a query found, and no others?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Unpack

from karat.errors import InputError
from karat.results.components import Component
from karat.verbs.components.estimator import Estimator

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from karat.config.options import Options


def entity_metrics(
    found: Mapping[str, Collection[str]],
    gold: Mapping[str, Collection[str]],
    *,
    estimator: Estimator | None = None,
    **options: Unpack[Options],
) -> Component:
    """Precision, recall and F1 of entities, micro (over all entities) and macro (mean over queries).

    Micro F1 = 2 · right / (found + gold), sums over all queries; its interval resamples queries. Of a query without
    found entities precision is undefined, without gold entities recall, without both F1. Queries are those of `gold`
    that `found` has. `options` are queries, confidence, method, resamples, seed.
    """
    estimator = estimator or Estimator.of(**options)
    for name, entities in (("found", found), ("gold", gold)):
        if wrong := next((q for q, ids in entities.items() if isinstance(ids, (str, bytes))), None):
            raise InputError(f"{name}: query {wrong!r}: entities must be a list of ids, found {entities[wrong]!r}")
    ids = sorted(q for q in gold if q in found)
    if not ids:
        raise InputError("entity linking needs queries of which both is known: the entities found, and the gold ones")
    mine, theirs = {q: set(found[q]) for q in ids}, {q: set(gold[q]) for q in ids}
    right = [float(len(mine[q] & theirs[q])) for q in ids]
    returned, gold_counts = [float(len(mine[q])) for q in ids], [float(len(theirs[q])) for q in ids]
    both = [a + b for a, b in zip(returned, gold_counts, strict=True)]
    twice = [2 * r for r in right]
    macro = {
        name: [r / w if w else math.nan for r, w in zip(part, whole, strict=True)]
        for name, part, whole in (
            ("entity_precision(average=macro)", right, returned),
            ("entity_recall(average=macro)", right, gold_counts),
            ("entity_f1(average=macro)", twice, both),
        )
    }
    return Component(
        "entities",
        figures={
            "entity_precision": estimator.ratio(ids, right, returned),
            "entity_recall": estimator.ratio(ids, right, gold_counts),
            "entity_f1": estimator.ratio(ids, twice, both),
            **estimator.means(ids, macro),
        },
        counts={
            "queries": len(ids),
            "right": int(sum(right)),
            "found": int(sum(returned)),
            "gold": int(sum(gold_counts)),
            "not_logged": sum(q not in found for q in gold),
        },
        per_query={
            q: {"missed": sorted(theirs[q] - mine[q]), "wrong": sorted(mine[q] - theirs[q])}
            for q in ids
            if mine[q] != theirs[q]
        },
    )
