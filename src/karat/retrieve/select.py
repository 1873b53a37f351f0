"""Retrievers that choose among what another one found, so that results do not repeat each other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import UsageError, shown
from karat.retrieve import selection
from karat.retrieve.protocol import Answer, Base, Stopwatch, everything_in, read_answer
from karat.retrieve.registry import make_retriever, retriever

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.retrieve.corpus import Corpus
    from karat.retrieve.protocol import Query, RetrieverFacts
    from karat.retrieve.selection import Floats, Positions

_ON_ONE_THREAD = 250_000
"""Multiplications that OpenBLAS does not share among threads."""


class Selection(Base):
    """Chooses among the first `candidates` that a retriever found, by vectors of a dense retriever in it.

    Where more results are asked for than there are candidates, the rest follows in the order it was found. There are
    no scores: what a choice adds depends on those before it.
    """

    kind = ""

    def __init__(self, of: Any, candidates: int) -> None:
        if not isinstance(candidates, int) or isinstance(candidates, bool) or candidates < 1:
            raise UsageError(f"{self.kind}: candidates must be an integer from 1, found {shown(candidates)}")
        self.of = make_retriever("dense") if of is None else of
        self.candidates = candidates
        self._dense = next((part for part in everything_in(self.of) if hasattr(part, "encode_query")), None)
        if self._dense is None:
            raise UsageError(
                f"{self.kind}: needs vectors, and there is no dense retriever in {_name(self.of)}; "
                f"write {self.kind}(dense) or {self.kind}(hybrid({_name(self.of)}, dense))"
            )

    @property
    def parts(self) -> Sequence[Any]:
        return (self.of,)

    @property
    def rests_on(self) -> Any:
        return []

    def index(self, corpus: Corpus) -> None:
        self.of.index(corpus)

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Answer]:
        stopwatch = Stopwatch()
        lists = self.of.retrieve(queries, max(k, self.candidates))
        stopwatch.lap("retrieve")
        duration = {"retrieve": stopwatch.ms["retrieve"] / max(len(queries), 1)}  # for one that does not time itself
        return [self._select(q, read_answer(f, self.kind), k, duration) for q, f in zip(queries, lists, strict=True)]

    def facts(self) -> RetrieverFacts:
        facts: RetrieverFacts = self.of.facts() if hasattr(self.of, "facts") else {}
        return facts

    def _select(self, query: Query, answer: Answer, k: int, duration: dict[str, float]) -> Answer:
        stopwatch = Stopwatch()
        ids = list(answer.ids)
        if ids:
            among = ids[: self.candidates]
            order = self._choose(*self._cosines(query, among), k).tolist()
            # Candidates that were not chosen are beyond k; what lies beyond them follows only where all were.
            ids = ([among[i] for i in order] + ids[len(among) :])[:k]
        stopwatch.lap("select")
        ms = dict(answer.latency_ms) or dict(duration)
        ms["select"] = ms.get("select", 0.0) + stopwatch.ms["select"]
        stages = {"retrieve": answer.ids, **answer.stages, "select": ids}
        return Answer(ids, None, stages, ms, answer.cost, answer.more)

    def _cosines(self, query: Query, ids: Sequence[str]) -> tuple[Floats, Floats]:
        """Those to the query and those between candidates, in double precision: copies must come out as copies."""
        dense: Any = self._dense
        vectors = _unit(dense.matrix[dense.rows(ids)])
        return vectors @ _unit(dense.encode_query(query)), _products(vectors)

    def _choose(self, relevance: Floats, likeness: Floats, k: int) -> Positions:
        raise NotImplementedError


@retriever("mmr", tells="Maximal marginal relevance: near the query and far from what was chosen.", takes="one")
class MMR(Selection):
    """Maximal marginal relevance (Carbonell & Goldstein 1998) over cosines of a dense retriever.

    lam=1 is relevance alone, lam=0 difference alone. Relevance is the cosine to the query, whatever `of` goes by.
    """

    kind = "mmr"

    def __init__(self, of: Any = None, *, lam: float = 0.5, candidates: int = 100) -> None:
        if not _is_number(lam) or not 0 <= lam <= 1:
            raise UsageError(f"mmr: lam must be a number from 0 (difference) to 1 (relevance), found {shown(lam)}")
        self.lam = lam
        super().__init__(of, candidates)

    def _choose(self, relevance: Floats, likeness: Floats, k: int) -> Positions:
        return selection.mmr(relevance, likeness, k, self.lam)


@retriever("dartboard", tells="Relevant information gain: covers what may be meant by the query.", takes="one")
class Dartboard(Selection):
    """Relevant information gain (Dartboard: Pickett et al. 2024) over distances 1 − cosine of a dense retriever.

    `sigma` is the noise around query and docs: 0 is the plain order by cosine, more spreads the choice. The authors
    halve the distances, so that their σ is half of this one.
    """

    kind = "dartboard"

    def __init__(self, of: Any = None, *, sigma: float = 0.1, candidates: int = 100) -> None:
        if not _is_number(sigma) or sigma < 0:
            raise UsageError(f"dartboard: sigma must be a number from 0, found {shown(sigma)}")
        self.sigma = sigma
        super().__init__(of, candidates)

    def _choose(self, relevance: Floats, likeness: Floats, k: int) -> Positions:
        far, apart = np.maximum(1 - relevance, 0), np.maximum(1 - likeness, 0)
        return selection.dartboard(far, apart, k, self.sigma)


def _unit(vectors: Any) -> Floats:
    """Vectors of length 1 to double precision; one without direction stays as it is."""
    rows = np.asarray(vectors, dtype=np.float64)
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1.0), dtype=np.float64)


def _products(vectors: Floats) -> Floats:
    """All products of two vectors, a few rows at a time.

    Larger products are shared among threads, and waiting for these takes a hundred times longer on a busy machine.
    """
    out = np.empty((len(vectors), len(vectors)))
    step = max(1, _ON_ONE_THREAD // max(vectors.size, 1))
    for a in range(0, len(vectors), step):
        np.matmul(vectors[a : a + step], vectors.T, out=out[a : a + step])
    return out


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _name(part: Any) -> str:
    return getattr(part, "name", "") or type(part).__name__.lower()
