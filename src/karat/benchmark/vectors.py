"""Vectors for the metrics of diversity: those of the passages that were found, all by one model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from karat.errors import MissingPackage
from karat.retrieve.found import everything_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.benchmark.dataset import Dataset
    from karat.retrieve.corpus import Corpus
    from karat.retrieve.store import Store


def vectors_for(
    dataset: Dataset,
    logs: Mapping[str, str],
    made: Mapping[str, Any],
    corpora: Mapping[str, Corpus],
    store: Store | None,
) -> dict[str, Any]:
    """What `evaluate` is given as embeddings: the dataset's own, else those of the first dense retriever's model.

    One model measures all systems, and its name is part of the result; it may favour the system that searches
    with it. Where no retriever has vectors the static model is used; where that is missing too, nothing is given.
    """
    if dataset.embeddings is not None:
        return {"embeddings": dataset.embeddings, "embedding_model": dataset.embedding_model}
    dense = next((one for r in made.values() for one in everything_in(r) if hasattr(one, "encode_passages")), None)
    if dense is None:
        from karat.retrieve.registry import make_retriever

        try:
            dense = make_retriever("dense")
        except MissingPackage:
            return {}
    dense.store = store
    texts = _texts(dataset, logs, corpora)
    try:
        matrix = dense.encode_passages(list(texts.values()))
    except MissingPackage:
        return {}
    return {"embeddings": dict(zip(texts, matrix, strict=True)), "embedding_model": dense.encoder.name}


def _texts(dataset: Dataset, logs: Mapping[str, str], corpora: Mapping[str, Corpus]) -> dict[str, str]:
    """The passages that any run returned, and the gold that the corpus has."""
    texts: dict[str, str] = {}
    for name, path in logs.items():
        corpus = corpora[name]
        with open(path, "rb") as file:
            for raw in file:
                for item in msgspec.json.decode(raw)["topk"]:
                    id = item.get("chunk_id") or item["doc_id"]
                    if id not in texts and (row := corpus.row.get(id)) is not None:
                        texts[id] = corpus.texts[row]
    plain = dataset.corpus
    return texts | {id: plain.texts[plain.row[id]] for id in dataset.qrels.docs if id in plain.row and id not in texts}
