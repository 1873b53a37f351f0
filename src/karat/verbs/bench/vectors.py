"""Vectors for the metrics of diversity: one model encodes all passages that any run returned."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import MissingPackage
from karat.retrieve.protocol import Retriever, everything_in
from karat.retrieve.registry import make_retriever
from karat.store.atomic import write_atomically
from karat.verbs.bench.warnings import ids_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karat.config.options import DataOptions
    from karat.model.run import Run
    from karat.retrieve.corpus import Corpus
    from karat.store.built import Store
    from karat.verbs.bench.dataset import Dataset

VECTORS = "vectors.npz"


def make_vectors(
    dataset: Dataset,
    runs: Mapping[str, Run],
    retrievers: Mapping[str, Retriever],
    corpora: Mapping[str, Corpus],
    store: Store | None,
) -> DataOptions:
    """The embeddings for `evaluate`: the dataset's own, else those of the first dense retriever's model.

    One model measures all systems, and its name is part of the result; it may favour the system that searches
    with it. Without a dense retriever the static model is used; if that is not installed, there are none.
    They are saved beside the run logs, and made again each time, since the corpus may have changed.
    """
    place = os.path.join(os.path.dirname(next(iter(runs.values())).path or ""), VECTORS)
    if dataset.embeddings is not None and not _is_ours(dataset.embeddings):
        return {"embeddings": dataset.embeddings, "embedding_model": dataset.embedding_model}
    vectors: dict[str, NDArray[np.float32]] = {}
    model = ""
    for corpus in {id(c): c for c in corpora.values()}.values():
        names = [name for name in runs if corpora[name] is corpus]
        try:
            dense = _dense([retrievers[name] for name in names])
            dense.store = store
            dense.index(corpus)
        except MissingPackage:
            return {}
        ids = dict.fromkeys([*(id for name in names for id in ids_in(runs[name])), *dataset.qrels.docs])
        passages = [id for id in ids if id in corpus.row]
        vectors |= zip(passages, dense.matrix[dense.rows(passages)], strict=True)
        model = dense.encoder.name
    _write(vectors, model, place)
    return {"embeddings": vectors, "embedding_model": model}


def _is_ours(source: Any) -> bool:
    """Whether an earlier benchmark wrote this file, for the passages that it returned."""
    return isinstance(source, str) and os.path.basename(source) == VECTORS


def _write(vectors: Mapping[str, NDArray[np.float32]], model: str, path: str) -> None:
    """Save the vectors and the name of their model beside the run logs, for other verbs that measure diversity."""
    buffer = io.BytesIO()
    np.savez(buffer, ids=np.array(list(vectors)), vectors=np.array(list(vectors.values())), model=np.array(model))
    write_atomically(path, buffer.getvalue())


def _dense(retrievers: Sequence[Retriever]) -> Any:
    """The first retriever with vectors that is among these or inside one."""
    every = (one for retriever in retrievers for one in everything_in(retriever))
    return next((one for one in every if hasattr(one, "encode_query")), None) or make_retriever("dense")
