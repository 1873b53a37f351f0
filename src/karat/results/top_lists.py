"""What a full result keeps beyond its values: ranked lists, ranks of the gold, and the best that the gold allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from karat.results.result import aggregated
from karat.store.atomic import rounded

if TYPE_CHECKING:
    from karat.align.hits import Aligned
    from karat.metrics.grammar import Measure
    from karat.model.qrels import Qrels
    from karat.model.rankings import Rankings

DEPTH = 100
"""How many docs of each query a full result keeps."""


def attainable(measures: list[Measure], rankings: Rankings) -> dict[str, float]:
    """The best value that the gold allows, for the metrics that have a target."""
    return {
        m.name: aggregated(m, m(rankings.ideal()))[0] for m in measures if m.name in m.metric.targets and len(rankings)
    }


def lists_of(qrels: Qrels, aligned: Aligned) -> dict[str, dict[str, Any]]:
    """Each query's top docs with their grades, and the rank at which each gold doc was found."""
    rank = np.zeros(len(qrels.docs), dtype=np.int64)
    rank[aligned.found.gold] = aligned.found.rank
    at_doc = aligned.found.at_doc
    out: dict[str, dict[str, Any]] = {}
    for q in aligned.queries.tolist():
        a, b = int(qrels.offsets[q]), int(qrels.offsets[q + 1])
        docs, grades, ranks = qrels.docs[a:b], qrels.grades[a:b].tolist(), rank[a:b].tolist()
        graded = dict(zip(docs, grades, strict=True))
        out[qrels.query_ids[q]] = {
            "top": [
                {"doc": d, "score": None if s is None else rounded(s), "grade": graded.get(parent if at_doc else d)}
                for d, s, parent, *_ in aligned.found.items.get(q, [])[:DEPTH]
            ],
            "returned": max(int(aligned.found.returned[q]), 0),
            "gold": [{"doc": d, "grade": g, "rank": r or None} for d, g, r in zip(docs, grades, ranks, strict=True)],
        }
    return out
