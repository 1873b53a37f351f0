"""Which stages of a run log are the pool and the reranker."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

RAW_NAMES = ("retrieve", "retriever", "retrieval", "search")
RERANK_NAMES = ("rerank", "reranker", "reranking")


def pool_stage(names: Sequence[str]) -> str | None:
    """The first stage that returns docs: one that is named so, else the first of all."""
    return next((s for s in names if s.lower() in RAW_NAMES), next(iter(names), None))


def rerank_stage(names: Sequence[str]) -> str | None:
    """The stage that reorders the pool: one that is named so, else the last of several."""
    return next((s for s in names if s.lower() in RERANK_NAMES), names[-1] if len(names) > 1 else None)
