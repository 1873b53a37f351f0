"""The router: is each query sent to the right source?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Unpack

from karat.errors import InputError
from karat.metrics.pipeline import routing
from karat.results.components import Component
from karat.verbs.components.estimator import Estimator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.config.options import Options

NOWHERE = "(none)"


def router_metrics(
    routes: Mapping[str, str | None],
    expected: Mapping[str, str],
    *,
    recall: Mapping[str, float] | None = None,
    k: int = 5,
    estimator: Estimator | None = None,
    **options: Unpack[Options],
) -> Component:
    """How often queries are sent to the source that was expected, to another, or nowhere.

    `routes` names the source chosen for each query, None for none; a query that it lacks was sent nowhere. `recall`
    (recall@k by query) is then shown by expected source. `options` are queries, confidence, method, resamples, seed.
    """
    estimator = estimator or Estimator.of(**options)
    ids = sorted(expected)
    if not ids:
        raise InputError("the router needs the expected source of at least one query, found none")
    sources = {q: routes.get(q) or NOWHERE for q in ids}
    names = sorted({*expected.values(), *sources.values()} - {NOWHERE})
    single = [routing(routes.get(q) or None, expected[q]) for q in ids]
    outcomes = {name: [one[name] for one in single] for name in single[0]}
    shares = {f"source_share.{name}": [float(sources[q] == name) for q in ids] for name in names}
    by_source = {}
    if recall is not None:
        for name in sorted(set(expected.values())):
            mine = [recall.get(q, math.nan) if expected[q] == name else math.nan for q in ids]
            by_source[f"recall@{k}.{name}"] = mine
    confusion: dict[str, dict[str, int]] = {}
    for q in ids:
        row = confusion.setdefault(expected[q], {})
        row[sources[q]] = row.get(sources[q], 0) + 1
    return Component(
        "router",
        figures={**estimator.means(ids, {**outcomes, **shares}, binary=True), **estimator.means(ids, by_source)},
        counts={
            "queries": len(ids),
            **{
                key: int(sum(outcomes[name]))
                for key, name in (
                    ("right", "routing_accuracy"),
                    ("wrong", "misroute_rate"),
                    ("nowhere", "abstain_rate"),
                )
            },
            "not_logged": sum(q not in routes for q in ids),
        },
        tables={"confusion": {e: dict(sorted(row.items())) for e, row in sorted(confusion.items())}},
        per_query={q: {"expected": expected[q], "route": routes.get(q)} for q in ids if sources[q] != expected[q]},
    )
