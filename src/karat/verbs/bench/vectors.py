"""Vectors for the metrics of diversity: those of the passages that were found, all by one model."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import MissingPackage
from karat.retrieve.protocol import everything_in
from karat.retrieve.registry import make_retriever
from karat.store.atomic import write_atomically
from karat.verbs.bench.warnings import ids_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.model.options import DataOptions
    from karat.model.run import Run
    from karat.retrieve.corpus import Corpus
    from karat.retrieve.store import Store
    from karat.verbs.bench.dataset import Dataset

VECTORS = "vectors.npz"


def vectors_for(
    dataset: Dataset,
    runs: Mapping[str, Run],
    made: Mapping[str, Any],
    corpora: Mapping[str, Corpus],
    store: Store | None,
) -> DataOptions:
    """What `evaluate` is given as embeddings: the dataset's own, else those of the first dense retriever's model.

    One model measures all systems, and its name is part of the result; it may favour the system that searches
    with it. Where no retriever has vectors the static model is used; where that is missing too, nothing is given.
    What is made here is kept beside the run logs, and made anew each time: a corpus may have changed.
    """
    kept = os.path.join(os.path.dirname(next(iter(runs.values())).path or ""), VECTORS)
    if dataset.embeddings is not None and not _ours(dataset.embeddings):
        return {"embeddings": dataset.embeddings, "embedding_model": dataset.embedding_model}
    vectors: dict[str, Any] = {}
    model = ""
    for corpus in {id(c): c for c in corpora.values()}.values():
        names = [name for name in runs if corpora[name] is corpus]
        try:
            dense = _dense([made[name] for name in names])
            dense.store = store
            dense.index(corpus)
        except MissingPackage:
            return {}
        ids = dict.fromkeys([*(id for name in names for id in ids_in(runs[name])), *dataset.qrels.docs])
        wanted = [id for id in ids if id in corpus.row]
        vectors |= zip(wanted, dense.matrix[dense.rows(wanted)], strict=True)
        model = dense.encoder.name
    _write(vectors, kept)
    return {"embeddings": vectors, "embedding_model": model}


def _ours(source: Any) -> bool:
    """What an earlier benchmark made, of the passages that it found."""
    return isinstance(source, str) and os.path.basename(source) == VECTORS


def _write(vectors: dict[str, Any], path: str) -> None:
    """Keep the vectors beside the run logs, for other verbs that measure diversity."""
    held = io.BytesIO()
    np.savez(held, ids=np.array(list(vectors)), vectors=np.array(list(vectors.values())))
    write_atomically(path, held.getvalue())


def _dense(retrievers: Sequence[Any]) -> Any:
    """The first retriever with vectors that is among these or inside one."""
    every = (one for retriever in retrievers for one in everything_in(retriever))
    return next((one for one in every if hasattr(one, "encode_query")), None) or make_retriever("dense")
