"""Vectors for the indexes of databases: from a model by its name, or from a function of your own."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import InputError, KaratError, UsageError, shown
from karat.retrieve.encoders import encoder_of
from karat.retrieve.registry import import_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from karat.retrieve.corpus import Corpus

    Vectors = NDArray[np.float32]

QUERY, PASSAGE = "query", "passage"
BATCH = 1024
"""Texts that are encoded and sent at once."""
_SAMPLE = 4
"""Texts whose vectors distinguish one function from another, or from its earlier self."""


class Embedding:
    """What makes vectors: an encoder (`encode(texts, kind)`), or a function of a list of texts."""

    def __init__(self, model: str, encoder: Any, where: str) -> None:
        self.where = where
        self._own_encoder: Any = None
        if encoder is None:
            encoder = encoder_of(model)
            self._own_encoder = encoder
        path = encoder if isinstance(encoder, str) else ""
        if isinstance(encoder, str):
            if ":" not in encoder:
                raise UsageError(f"{where}: encoder must be module:function, found {shown(encoder)}; use model=")
            encoder = import_object(encoder)
        self._encode = getattr(encoder, "encode", None)
        if self._encode is None and not callable(encoder):
            raise UsageError(f"{where}: encoder must be a function of a list of texts, found {shown(encoder)}")
        self._function = encoder
        self.name = str(getattr(encoder, "name", "") or path or getattr(encoder, "__name__", type(encoder).__name__))
        self._identity = getattr(encoder, "identity", None)

    def close(self) -> None:
        """Close the encoder if it was made here; the caller's own stays open."""
        if self._own_encoder is not None:
            self._own_encoder.close()

    def of(self, texts: Sequence[str], kind: str) -> Vectors:
        """One row per text, as float32."""
        texts = [_clean(text) for text in texts]
        try:
            output = self._encode(texts, kind) if self._encode else self._function(texts)
        except KaratError:
            raise
        except Exception as error:
            raise InputError(f"{self.where}: {self.name} failed ({type(error).__name__}: {error})") from error
        try:
            rows = np.asarray(output, dtype=np.float32)
        except (TypeError, ValueError):
            rows = np.empty(0, dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1]:
            raise InputError(
                f"{self.where}: {self.name} must give one vector for each of {len(texts)} texts, all of one length, "
                f"found {shown(output) if rows.ndim != 2 else f'an array of shape {rows.shape}'}"
            )
        if not np.isfinite(rows).all():
            raise InputError(f"{self.where}: {self.name} gave a vector with numbers that are not finite")
        return rows

    def of_query(self, text: str) -> Vectors | None:
        """The vector of a query; None if it has no content, and so nothing is near it."""
        vector = self.of([text], QUERY)[0] if text.strip() else None
        return vector if vector is not None and vector.any() else None

    def batches(self, corpus: Corpus) -> Iterator[tuple[list[int], Vectors]]:
        """The vectors of a corpus, a part at a time, with their rows; passages without content have none."""
        all_rows = rows_with_text(corpus)
        for start in range(0, len(all_rows), BATCH):
            rows = all_rows[start : start + BATCH]
            yield rows, self.of([corpus.texts[i] for i in rows], PASSAGE)

    def key(self, corpus: Corpus, *more: Any) -> str:
        """A name for all that decides the vectors of a corpus; functions are distinguished by what they return."""
        identity = self._identity
        if identity is None:
            sample = self.of([corpus.texts[i] for i in rows_with_text(corpus)[:_SAMPLE]], PASSAGE)
            identity = [self.name, hashlib.sha256(np.round(sample, 4).tobytes()).hexdigest()]
        data = json.dumps([identity, corpus.fingerprint, *more], sort_keys=True, default=str)
        return hashlib.sha256(data.encode()).hexdigest()[:16]


def rows_with_text(corpus: Corpus) -> list[int]:
    """The rows of passages that have content."""
    return [i for i, text in enumerate(corpus.texts) if text.strip()]


def _clean(text: str) -> str:
    """Text that can be written as UTF-8: halves of characters, which JSON can hold, become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def in_order(ids: Sequence[str], scores: Sequence[float]) -> tuple[list[str], list[float]]:
    """By score, then by id in byte order, both descending: databases return ties in any order."""
    pairs = sorted(zip(ids, scores, strict=True), key=lambda p: p[0].encode("utf-8", "surrogatepass"), reverse=True)
    pairs.sort(key=lambda p: p[1], reverse=True)
    return [id for id, _ in pairs], [score for _, score in pairs]
