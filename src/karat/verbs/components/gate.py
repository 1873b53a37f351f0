"""The retrieval gate: is retrieval skipped where it is not needed, and only there?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from karat.errors import InputError
from karat.metrics.pipeline import gating
from karat.results.components import Component
from karat.verbs.components.estimator import Estimator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.config.options import Options

ALONE = "gate_efficiency alone also rewards skipping everything: read it with skip_precision and harmful_skips"


def gate_metrics(
    retrieved: Mapping[str, bool],
    needs: Mapping[str, bool],
    *,
    estimator: Estimator | None = None,
    **options: Unpack[Options],
) -> Component:
    """How well skips meet the queries that need no retrieval, on the queries of which both are known.

    gate_efficiency = correct skips / queries; skip_precision = correct skips / skips; skip_recall = correct skips /
    queries that need no retrieval; harmful_skips = skips of queries that need retrieval / such queries. A share of
    nothing is undefined. `options` are queries, confidence, method, resamples, seed.
    """
    estimator = estimator or Estimator.of(**options)
    ids = sorted(q for q in needs if q in retrieved)
    if not ids:
        raise InputError("the retrieval gate needs queries of which both is known: retrieved, and needs_retrieval")
    skipped = {q: not retrieved[q] for q in ids}
    single = [gating(retrieved[q], needs[q]) for q in ids]
    rows = {name: [one[name] for one in single] for name in single[0]}
    return Component(
        "gate",
        figures=estimator.means(ids, rows, binary=True),
        counts={
            "queries": len(ids),
            "skips": sum(skipped.values()),
            "correct_skips": int(sum(rows["gate_efficiency"])),
            "harmful_skips": sum(skipped[q] and needs[q] for q in ids),
            "not_needed": sum(not needs[q] for q in ids),
            "not_logged": sum(q not in retrieved for q in needs),
        },
        per_query={q: {"retrieved": retrieved[q], "needs_retrieval": needs[q]} for q in ids if skipped[q] == needs[q]},
        notes=(ALONE,),
    )
