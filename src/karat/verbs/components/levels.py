"""Chunks and docs: the same run scored by chunk and by the docs that its chunks belong to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from karat.read.objects import qrels_by_doc
from karat.results.components import Component

if TYPE_CHECKING:
    from karat.verbs.components.inputs import Material

READING = "right doc, wrong chunk: look at the chunker or the order of chunks; neither found: at the index or embedding"


def measure(material: Material) -> Component:
    """recall@k and ndcg@k at both levels; a gold doc is as relevant as its best chunk."""
    total = len(material.gold.docs)
    if material.at_doc or all(material.doc_of(id) == id for id in material.gold.docs):
        why = "the gold names docs" if material.at_doc else f"0 of {total} judgments are of chunks"
        return Component("levels", missing=f"needs gold by chunk, such as d12{material.policy.separator}p6: {why}")
    names = [f"recall@{material.k}", f"ndcg@{material.k}"]
    chunk = replace(material.measure(material.run, names), name="chunk")
    gold = qrels_by_doc(material.gold, material.doc_of)
    doc = replace(
        material.measure(material.run, names, gold=gold, policy=replace(material.fixed, level="doc")), name="doc"
    )
    figures = {f"{name}.{level}": r.intervals[name] for name in names for level, r in (("chunk", chunk), ("doc", doc))}
    changes = material.decide(chunk, doc)
    return Component(
        "levels",
        figures=figures,
        changes=changes,
        counts={"queries": chunk.counts["queries"], "gold_chunks": total, "gold_docs": len(gold.docs)},
        notes=(READING,),
    )
