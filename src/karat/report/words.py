"""The words that all outputs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.gates.judge import Outcome

ORDER: tuple[Outcome, ...] = ("fail", "undecided", "pass")
"""The worst outcome first."""
OUTCOMES: Mapping[str, str] = {"pass": "passes", "fail": "fails", "undecided": "undecided"}
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
TIES = "ties broken by doc id, descending; ranks of run logs kept"
