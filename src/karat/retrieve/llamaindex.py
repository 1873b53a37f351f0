"""Retrievers and indexes of LlamaIndex."""

from __future__ import annotations

import copy
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

_DEPTHS = ("similarity_top_k", "_similarity_top_k")


@retriever("llamaindex", tells="A retriever or an index of LlamaIndex.")
class LlamaIndex(Base):
    """Wraps a BaseRetriever or an index, itself or as `module:name`; what was given is never changed.

    A result's id is the field that `id_field` names (`ref_doc_id` is the doc that a node was cut from), else
    the node's own; nodes cut by LlamaIndex have random ids, and then fields named as ids and the doc come first.
    """

    def __init__(self, *, retriever: Any = None, id_field: str | None = None) -> None:
        try:
            from llama_index.core.base.base_retriever import BaseRetriever
            from llama_index.core.indices.base import BaseIndex
        except ImportError:
            raise missing_package("llamaindex", "llama_index") from None
        self._source = object_of(retriever, "llamaindex")
        if not isinstance(self._source, (BaseRetriever, BaseIndex)):
            raise UsageError(f"llamaindex: retriever must be a BaseRetriever or an index, found {shown(self._source)}")
        self._is_index = isinstance(self._source, BaseIndex)
        self.id_field, self.where = id_field, f"llamaindex {type(self._source).__name__}"
        self._deep: dict[int, Any] = {}
        self._lock = threading.Lock()

    def index(self, corpus: Corpus) -> None:
        """Nothing: it has its own index."""

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Answer]:
        """What it returns for each query, at most k; retrievers whose depth cannot be set may return fewer."""
        return [self._ask(q, k) for q in queries]

    def facts(self) -> RetrieverFacts:
        inner = getattr(self._source, "_embed_model", None)
        model = getattr(inner, "model_name", None)
        return {"embedding_model": model} if isinstance(model, str) and model != "unknown" else {}

    def _ask(self, query: Query, k: int) -> Answer:
        where = f"{self.where}, {name_query(query)}"
        stopwatch = Stopwatch()
        try:
            nodes = self._of_depth(k).retrieve(str(query))
        except KaratError:
            raise
        except Exception as error:
            raise InputError(f"{where}: failed ({type(error).__name__}: {shown(str(error), 200)})") from error
        stopwatch.lap("retrieve")
        scores = [node.score for node in nodes]
        ids = [self._id(node.node, where) for node in nodes]
        whole = bool(scores) and all(score is not None for score in scores)
        return Answer(ids, [float(s) for s in scores] if whole else None, latency_ms=stopwatch.ms).cut(k)

    def _id(self, node: Any, where: str) -> str:
        parent = getattr(node, "ref_doc_id", None)
        about = {**node.metadata, "ref_doc_id": parent} if self.id_field == "ref_doc_id" else node.metadata
        return id_of(node.node_id, about, self.id_field, where, also=(parent,))

    def _of_depth(self, k: int) -> Any:
        """A retriever of the index, or a copy of the given one, that returns k if it has a setting for that."""
        with self._lock:
            if k not in self._deep:
                self._deep[k] = self._source.as_retriever(similarity_top_k=k) if self._is_index else self._copy(k)
            return self._deep[k]

    def _copy(self, k: int) -> Any:
        name = next((n for n in _DEPTHS if isinstance(getattr(self._source, n, None), int)), None)
        if name is None:
            return self._source
        copied = copy.copy(self._source)
        setattr(copied, name, k)
        return copied
