"""Retrievers and vector stores of LangChain."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, KaratError, UsageError, missing_package, shown
from karat.retrieve.framework import id_of, object_of
from karat.retrieve.protocol import Answer, Base, Stopwatch, name_query
from karat.retrieve.registry import retriever

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.retrieve.corpus import Corpus
    from karat.retrieve.protocol import Query, RetrieverFacts

SCORES = ("auto", "similarity", "distance", "none")
_DEPTHS = ("k", "top_k")
"""Fields that limit how many docs a retriever without a vector store returns."""
_PROBE = 10


@retriever("langchain", tells="A retriever or a vector store of LangChain.")
class LangChain(Base):
    """Wraps a BaseRetriever or a VectorStore, itself or as `module:name`; what was given is never changed.

    Order is as LangChain gives it. Vector stores give scores, some of them distances: with scores=auto a list
    whose scores rise holds distances, which are negated, so that more is better everywhere; use similarity or
    distance if you know it, and none to leave scores out. Retrievers give scores only in a field (`score_field`).
    """

    def __init__(
        self,
        *,
        retriever: Any = None,
        id_field: str | None = None,
        scores: str | None = "auto",
        score_field: str | None = None,
    ) -> None:
        try:
            from langchain_core.retrievers import BaseRetriever
            from langchain_core.vectorstores import VectorStore
        except ImportError:
            raise missing_package("langchain", "langchain_core") from None
        scores = scores or "none"
        if scores not in SCORES:
            raise UsageError(f"langchain: scores must be one of {', '.join(SCORES)}, found {scores!r}")
        self._source = object_of(retriever, "langchain")
        if not isinstance(self._source, (BaseRetriever, VectorStore)):
            raise UsageError(
                f"langchain: retriever must be a BaseRetriever or a VectorStore, found {shown(self._source)}"
            )
        self._is_store = isinstance(self._source, VectorStore)
        self.id_field, self.scores, self.score_field = id_field, scores, score_field
        self.where = f"langchain {type(self._source).__name__}"
        self._sign = {"similarity": 1.0, "distance": -1.0}.get(scores)
        self._deep: dict[int, Any] = {}
        self._lock = threading.Lock()

    def index(self, corpus: Corpus) -> None:
        """Nothing: the store has its own index."""

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Answer]:
        """What it returns for each query, at most k; retrievers whose depth cannot be set may return fewer."""
        return [self._ask(q, k) for q in queries]

    def facts(self) -> RetrieverFacts:
        store = self._source if self._is_store else getattr(self._source, "vectorstore", None)
        embeddings = getattr(store, "embeddings", None)
        model = getattr(embeddings, "model", None) or getattr(embeddings, "model_name", None)
        return {"embedding_model": model} if isinstance(model, str) else {}

    def _ask(self, query: Query, k: int) -> Answer:
        where = f"{self.where}, {name_query(query)}"
        stopwatch = Stopwatch()
        try:
            docs, scores = self._search_store(str(query), k) if self._is_store else self._invoke(str(query), k)
        except KaratError:
            raise
        except Exception as error:
            raise InputError(f"{where}: failed ({type(error).__name__}: {shown(str(error), 200)})") from error
        stopwatch.lap("retrieve")
        ids = [id_of(getattr(doc, "id", None), doc.metadata, self.id_field, where) for doc in docs]
        return Answer(ids, scores, latency_ms=stopwatch.ms).cut(k)

    def _invoke(self, query: str, k: int) -> tuple[list[Any], list[float] | None]:
        docs = self._of_depth(k).invoke(query)
        if self.score_field is None:
            return docs, None
        scores = [doc.metadata.get(self.score_field) for doc in docs]
        if any(value is None for value in scores):
            raise InputError(
                f"{self.where}: a result has no field {self.score_field!r}; its fields: "
                f"{', '.join(docs[scores.index(None)].metadata) or 'none'}"
            )
        return docs, [float(value) for value in scores]

    def _of_depth(self, k: int) -> Any:
        """The retriever, or a copy of it that returns k if it has a setting for that."""
        with self._lock:
            if k not in self._deep:
                copy = self._source
                fields = type(copy).model_fields
                if "search_kwargs" in fields and isinstance(copy.search_kwargs, dict):
                    copy = copy.model_copy(update={"search_kwargs": {**copy.search_kwargs, "k": k}})
                else:
                    depths = {name: k for name in _DEPTHS if name in fields and isinstance(getattr(copy, name), int)}
                    copy = copy.model_copy(update=depths) if depths else copy
                self._deep[k] = copy
            return self._deep[k]

    def _search_store(self, query: str, k: int) -> tuple[list[Any], list[float] | None]:
        """Docs of a vector store with scores of which more is better."""
        if self.scores == "none":
            return self._source.similarity_search(query, k=k), None
        try:
            pairs = self._source.similarity_search_with_score(query, k=k)
        except NotImplementedError:
            return self._source.similarity_search(query, k=k), None
        values = [float(score) for _, score in pairs]
        sign = self._sign or self._read_sign(values)
        if sign is None and values:  # one result, or equal scores: more of them tell
            more = self._source.similarity_search_with_score(query, k=max(k, _PROBE))
            sign = self._read_sign([float(score) for _, score in more])
        return [doc for doc, _ in pairs], [(sign or 1.0) * value for value in values]

    def _read_sign(self, values: list[float]) -> float | None:
        """1 if scores fall, −1 if they rise, None if that is unclear; once clear, it holds for all queries."""
        if not values or values[0] == values[-1]:
            return None
        self._sign = 1.0 if values[0] > values[-1] else -1.0
        return self._sign
