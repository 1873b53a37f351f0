"""The words that all outputs share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.model.json_data import Json
    from karat.results.result import RunResult

OUTCOMES: Mapping[str, str] = {"pass": "passes", "fail": "fails", "undecided": "undecided"}
COMPARED_ONLY = "compared only"
"""What a run is called that no gate judges."""
TITLES: Mapping[str, str] = {
    "retriever": "Raw retriever",
    "reranker": "Reranker",
    "funnel": "Stage funnel",
    "router": "Router",
    "gate": "Retrieval gate",
    "rewriting": "Query rewriting",
    "no_answer": "No answer",
    "entities": "Entities",
    "levels": "Chunks and docs",
}
"""The parts of a pipeline."""
FACTS = {"code_version": "retriever's code", "k_raw": "docs requested", "index_storage": "index size"}
"""What readers call facts of a system whose names in run logs do not explain themselves."""
TAG = "tag"
"""The only fact of a TREC run; it names the run."""


def describe_facts(facts: Mapping[str, Json]) -> list[tuple[str, str]]:
    """What is known of a system: each fact by its name for readers."""
    return [(FACTS.get(k, k.replace("_", " ")), _fact(k, v)) for k, v in facts.items() if k != TAG]


def _fact(name: str, value: Json) -> str:
    if name == "index_storage" and isinstance(value, (int, float)):
        return f"{value / 1e6:,.1f} MB" if value >= 1e5 else f"{value / 1e3:,.0f} kB"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def order_text(runs: Sequence[RunResult]) -> str:
    """How docs of equal score are ordered, and whose ranks stand as they are."""
    logged = any(run.log is not None or run.facts.keys() - {TAG} for run in runs)
    return "ties broken by doc id, descending" + ("; ranks of run logs kept" if logged else "")
