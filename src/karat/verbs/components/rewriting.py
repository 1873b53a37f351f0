"""Query rewriting: does the rewritten query find more than the original one?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from karat.config.options import Options, Settings
from karat.model.policy import RELEVANT
from karat.results.components import Component

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.verbs.components.inputs import Material

METRICS = ("ndcg", "recall", "precision", "mrr")


def rewrite_metrics(
    qrels: Any,
    original: Mapping[str, Sequence[str]],
    rewritten: Mapping[str, Sequence[str]],
    *,
    k: int = 5,
    rel: float = RELEVANT,
    **options: Unpack[Options],
) -> Component:
    """Metrics of what the original and the rewritten queries found ({query: docs in order}), with paired Δ.

    `options` are those of `karat.components`.
    """
    lines = [
        {"query_id": q, "rewritten_query": "(not given)", "topk": _items(rewritten[q]), "topk_original": _items(docs)}
        for q, docs in original.items()
        if q in rewritten
    ]
    from karat.verbs.components.inputs import read_material

    settings = Settings.of({"missing": "skip", **options})
    return measure(read_material(qrels, lines, settings, k=k, rel=rel))


def _items(docs: Sequence[str]) -> list[dict[str, str]]:
    return [{"chunk_id": d} for d in docs]


def measure(material: Material) -> Component:
    """`topk_original` against `topk`, on the queries that were rewritten."""
    from karat.verbs.components.inputs import no_log

    log = material.log
    if log is None:
        return Component("rewriting", missing=no_log("rewritten_query", "topk_original"))
    rewritten = {q for q, t in log.traces.items() if t.rewritten_query}
    both = rewritten & set(material.original)
    usable = both & set(material.answerable)
    if not usable:
        total = len(log)
        lack = f"{len(rewritten)} of {total} lines have rewritten_query, {len(both)} have both"
        if both:
            lack += ", and none of these has gold"
        return Component("rewriting", missing=f"needs `rewritten_query` and `topk_original` on the log's lines: {lack}")

    before = material.as_run("original", {q: material.original[q] for q in log.traces if q in both})
    after = material.as_run("rewritten", {q: material.final[q] for q in log.traces if q in both})
    changes = material.compare(before, after, [f"{m}@{material.k}" for m in METRICS])
    same = sum(material.original[q] == material.final[q] for q in usable)
    notes = []
    if without := len(rewritten) - len(both):
        notes.append(f"{without} of {len(rewritten)} rewritten queries have no topk_original and are left out")
    if same:
        notes.append(f"{same} of {len(usable)} rewritten queries found exactly what the original did")
    return Component(
        "rewriting",
        changes=changes,
        counts={"queries": next(iter(changes.values())).n, "rewritten": len(rewritten), "lines": len(log)},
        notes=tuple(notes),
    )
