"""Chunks and docs: the same run scored by chunk and by the docs that its chunks belong to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from karat.read.objects import build_qrels
from karat.results.components import Component

if TYPE_CHECKING:
    from karat.verbs.components.inputs import Material

READING = "right doc, wrong chunk: look at the chunker or the order of chunks; neither found: at the index or embedding"


def measure(material: Material) -> Component:
    """recall@k and ndcg@k at both levels; a gold doc has the best grade of its chunks."""
    by_doc: dict[str, dict[str, float]] = {}
    chunks = 0
    for q in material.gold.query_ids:
        mine = by_doc.setdefault(q, {})
        for name, grade in material.gold.for_query(q).items():
            parent = material.doc_of(name)
            chunks += parent != name
            mine[parent] = max(grade, mine.get(parent, grade))
    total = len(material.gold.docs)
    if material.at_doc or not chunks:
        why = "the gold names docs" if material.at_doc else f"0 of {total} gold ids belong to another doc"
        return Component("levels", missing=f"needs gold by chunk, such as d12{material.policy.separator}p6: {why}")
    names = [f"recall@{material.k}", f"ndcg@{material.k}"]
    chunk = replace(material.measure(material.run, names), name="chunk")
    gold = build_qrels(by_doc, material.gold.source)
    doc = replace(
        material.measure(material.run, names, gold=gold, policy=replace(material.fixed, level="doc")), name="doc"
    )
    figures = {f"{name}.{level}": r.intervals[name] for name in names for level, r in (("chunk", chunk), ("doc", doc))}
    changes = material.decide(chunk, doc)
    return Component(
        "levels",
        figures=figures,
        changes=changes,
        counts={"queries": chunk.counts["queries"], "gold_chunks": total, "gold_docs": sum(map(len, by_doc.values()))},
        notes=(READING,),
    )
