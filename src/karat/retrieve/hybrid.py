"""Several retrievers as one: reciprocal-rank fusion, or a weighted sum of scores brought to one scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import UsageError, shown
from karat.read.objects import is_finite
from karat.retrieve.protocol import Answer, Base, Stopwatch, read_answer
from karat.retrieve.registry import make_retriever, retriever

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karat.retrieve.corpus import Corpus
    from karat.retrieve.protocol import Query, RetrieverFacts

FUSIONS = ("rrf", "minmax", "zscore")


@retriever("hybrid", tells="Lists of several retrievers fused, by rank (rrf) or by score.", takes="many")
class Hybrid(Base):
    """Fuses the lists of several retrievers, BM25 and dense by default.

    fusion=rrf adds weight / (constant + rank) over the lists (Cormack, Clarke & Büttcher 2009); minmax and
    zscore add weight × score, brought to one scale for each query and list; a doc that a list lacks gets
    that list's lowest. `depth` is how many docs of each list are fused, k by default but at least 100.
    """

    def __init__(
        self,
        *retrievers: Any,
        fusion: str = "rrf",
        weights: Sequence[float] | None = None,
        constant: float = 60,
        depth: int | None = None,
    ) -> None:
        if fusion not in FUSIONS:
            raise UsageError(f"hybrid: fusion must be one of {', '.join(FUSIONS)}, found {fusion!r}")
        self._parts = tuple(retrievers) or (make_retriever("bm25"), make_retriever("dense"))
        if len(self._parts) < 2:
            raise UsageError("hybrid: fuses two retrievers or more, found one; for example hybrid(bm25, dense)")
        values = [1.0] * len(self._parts) if weights is None else weights
        numbers = isinstance(values, (list, tuple)) and all(map(is_finite, values))
        if not numbers or len(values) != len(self._parts) or min(values) < 0 or not sum(values) > 0:
            raise UsageError(
                f"hybrid: weights must be {len(self._parts)} numbers from 0, not all 0, found {shown(weights)}"
            )
        self.weights = tuple(map(float, values))
        if not constant > 0 or (depth is not None and depth < 1):
            raise UsageError(f"hybrid: constant must be above 0 and depth from 1, found {constant!r} and {depth!r}")
        self.fusion, self.constant, self.depth = fusion, constant, depth

    @property
    def parts(self) -> Sequence[Any]:
        return self._parts

    @property
    def rests_on(self) -> Any:
        return []

    def index(self, corpus: Corpus) -> None:
        for part in self._parts:
            part.index(corpus)

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Answer]:
        depth = self.depth or max(k, 100)
        lists, shares = [], []
        for part in self._parts:
            stopwatch = Stopwatch()
            lists.append([read_answer(answer, "hybrid") for answer in part.retrieve(queries, depth)])
            stopwatch.lap("all")
            shares.append(stopwatch.ms["all"] / max(len(queries), 1))
        return [self._fuse([answers[i] for answers in lists], shares, k) for i in range(len(queries))]

    def facts(self) -> RetrieverFacts:
        total: RetrieverFacts = {}
        for part in self._parts:
            facts: RetrieverFacts = part.facts() if hasattr(part, "facts") else {}
            storage = total.get("index_storage", 0) + facts.get("index_storage", 0)
            total = {**total, **facts, **({"index_storage": storage} if storage else {})}
        return total

    def _fuse(self, lists: Sequence[Answer], shares: Sequence[float], k: int) -> Answer:
        """One list; the time of a part is its own figure, else its share of the call."""
        stopwatch = Stopwatch()
        total: dict[str, float] = {}
        if self.fusion == "rrf":
            for answer, weight in zip(lists, self.weights, strict=True):
                for rank, id in enumerate(answer.ids, start=1):
                    total[id] = total.get(id, 0.0) + weight / (self.constant + rank)
        else:
            total = self._add_scores(lists)
        order = sorted(total, key=lambda id: id.encode("utf-8", "surrogatepass"), reverse=True)
        order.sort(key=total.__getitem__, reverse=True)
        stopwatch.lap("fuse")
        ms: dict[str, float] = {}
        for part, answer, whole in zip(self._parts, lists, shares, strict=True):
            name = getattr(part, "name", "") or type(part).__name__.lower()
            name = name if name not in ms else f"{name}.{len(ms) + 1}"
            ms[name] = sum(answer.latency_ms.values()) if answer.latency_ms else whole
        ids = order[:k]
        return Answer(
            ids,
            [total[id] for id in ids],
            stages={"retrieve": order, "fuse": ids},
            latency_ms=ms | stopwatch.ms,
            cost=_sum_costs(answer.cost for answer in lists),
        )

    def _add_scores(self, lists: Sequence[Answer]) -> dict[str, float]:
        total = dict.fromkeys((id for answer in lists for id in answer.ids), 0.0)
        for answer, weight in zip(lists, self.weights, strict=True):
            if not answer.ids:
                continue
            if answer.scores is None:
                raise UsageError(f"hybrid: fusion={self.fusion} needs scores, and a list has none; use fusion=rrf")
            values = self._scale(np.asarray(answer.scores, dtype=np.float64))
            own = dict(zip(answer.ids, values.tolist(), strict=True))
            lowest = min(own.values())
            for id in total:
                total[id] += weight * own.get(id, lowest)
        return total

    def _scale(self, scores: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Scores of one list on one scale; equal scores stay equal."""
        if self.fusion == "minmax":
            width = scores.max() - scores.min()
            return (scores - scores.min()) / width if width > 0 else np.ones_like(scores)
        width = scores.std()
        return (scores - scores.mean()) / width if width > 0 else np.zeros_like(scores)


def _sum_costs(costs: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for cost in costs:
        for name, amount in cost.items():
            total[name] = total.get(name, 0) + amount
    return total
