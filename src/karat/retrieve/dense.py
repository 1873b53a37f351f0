"""Dense retrieval: texts as vectors, and exact search by their cosine."""

from __future__ import annotations

import os
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import InputError, UsageError, shown
from karat.model.limits import VECTORS
from karat.retrieve import ranking
from karat.retrieve.corpus import fingerprint
from karat.retrieve.encoders import WORDLLAMA, encoder_of
from karat.retrieve.protocol import Answer, Base, Stopwatch
from karat.retrieve.registry import retriever
from karat.store.built import get_or_build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from karat.retrieve.corpus import Corpus
    from karat.retrieve.encoders import Kind, Matrix
    from karat.retrieve.protocol import Query, RetrieverFacts

    Rows = NDArray[np.int64]
    Scores = NDArray[np.float64]

BLOCK = 512
"""Texts that are encoded and kept as one: as much as an interruption can cost."""
_FILE = "vectors.npy"
_AT_ONCE = 4096
_EPSILON = float(np.finfo(np.float32).eps)
_PRODUCTS = 1 << 24
"""Cosines that are held at once: one product of matrices for many queries is faster than one for each."""


@retriever("dense", tells="Nearest vectors of an encoder, found exactly; model=wordllama works offline, for English.")
class Dense(Base):
    """Finds the passages whose vectors are nearest to the query's, by cosine.

    `model` is wordllama, a folder or a hub name of sentence-transformers, openai:MODEL for an OpenAI-compatible
    endpoint, or module:function. The search is exact: a product in single precision finds all that could be among
    the best, and their scores in double precision decide: the order does not depend on how a machine multiplies
    matrices, and passages with the same text tie. Vectors that are too many for memory are found by a product in half
    precision, which leaves more to look at, and have the same scores. A passage without text is not found, and a query
    without text finds nothing.
    """

    watch: Callable[[int, int], None] | None = None
    """Called with the number of passages that have a vector, and of all."""

    def __init__(
        self,
        *,
        model: str = WORDLLAMA,
        query_prefix: str = "",
        passage_prefix: str = "",
        pooling: str | None = None,
        batch: int = 64,
        device: str | None = None,
        dims: int | None = None,
        base_url: str | None = None,
        key_env: str | None = None,
        timeout: float | None = None,
    ) -> None:
        for name, prefix in (("query_prefix", query_prefix), ("passage_prefix", passage_prefix)):
            if not isinstance(prefix, str):
                raise UsageError(f"dense: {name} must be text, found {shown(prefix)}")
        self.prefix: dict[Kind, str] = {"query": _clean(query_prefix), "passage": _clean(passage_prefix)}
        self.encoder = encoder_of(
            model,
            pooling=pooling,
            batch=batch,
            device=device,
            dims=dims,
            base_url=base_url,
            key_env=key_env,
            timeout=timeout,
            own_prompts=not (query_prefix or passage_prefix),
        )
        self.ids: Sequence[str] = []
        self.matrix: Matrix = np.zeros((0, 0), dtype=np.float32)
        self._half: NDArray[np.float16] | None = None
        """The matrix at half its precision, where it is too large for memory itself."""
        self._row: dict[str, int] = {}
        self._index_tokens: int | None = None
        self._last = threading.local()

    def index(self, corpus: Corpus) -> None:
        """Encode all passages, block by block; blocks that were encoded before are loaded."""
        before, total = self.encoder.tokens, len(corpus)
        matrix: Matrix | None = None
        self._half = None
        for start in range(0, total, BLOCK):
            part = self._block(corpus.texts[start : start + BLOCK])
            if part.shape[1]:  # 0 where no text of the block has content
                if matrix is None:
                    matrix, self._half = self._room(total, part.shape[1])
                if part.shape[1] != matrix.shape[1]:
                    raise InputError(
                        f"dense: {self.encoder.name} gave vectors of {matrix.shape[1]} and then of {part.shape[1]} "
                        "numbers; expected one length for all"
                    )
                matrix[start : start + len(part)] = part
                if self._half is not None:
                    self._half[start : start + len(part)] = part
            if self.watch is not None:
                self.watch(min(start + BLOCK, total), total)
        self.matrix = matrix if matrix is not None else np.zeros((total, 0), dtype=np.float32)
        self.ids, self._row = list(corpus.ids), corpus.row
        self._id_array = np.array(self.ids, dtype=object)
        self._place = ranking.precedence(corpus.ids)
        self._without = np.flatnonzero(~self.matrix.any(axis=1))
        self._index_tokens = _difference(before, self.encoder.tokens)

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Answer]:
        """The k nearest for each query; queries are encoded one at a time, as they would come."""
        if not hasattr(self, "_place"):
            raise UsageError("dense: index() comes before retrieve()")
        step = max(1, _PRODUCTS // max(len(self.ids), 1))
        parts = (queries[start : start + step] for start in range(0, len(queries), step))
        return [answer for part in parts for answer in self._answer_all(part, k)]

    def encode_query(self, query: str) -> Matrix:
        """The query's unit vector; that of this thread's last query is remembered."""
        text = str(query)
        if getattr(self._last, "text", None) != text:
            self._remember(text)
        vector: Matrix = self._last.vector
        return vector

    def rows(self, ids: Iterable[str]) -> Rows:
        """Where the vectors of these passages stand in the matrix."""
        try:
            return np.array([self._row[id] for id in ids], dtype=np.int64)
        except KeyError as missing:
            raise InputError(f"dense: no passage {shown(missing.args[0])} in the corpus that was indexed") from None

    @property
    def rests_on(self) -> Any:
        return self.encoder.identity

    def facts(self) -> RetrieverFacts:
        cost: RetrieverFacts = (
            {} if self._index_tokens is None else {"embedding_update_cost": {"tokens": self._index_tokens}}
        )
        return {"embedding_model": self.encoder.name, "index_storage": int(self.matrix.nbytes), **cost}

    def close(self) -> None:
        self.encoder.close()

    def _answer_all(self, queries: Sequence[Query], k: int) -> list[Answer]:
        """What some queries find: each is encoded and timed for itself, and all are searched for together."""
        times: list[Stopwatch] = []
        token_counts: list[int | None] = []
        vectors: list[Matrix] = []
        for query in queries:
            stopwatch, before = Stopwatch(), self.encoder.tokens
            # Always encoded here: a query that is timed twice must not look faster the second time.
            self._remember(str(query))
            stopwatch.lap("encode")
            times.append(stopwatch)
            token_counts.append(_difference(before, self.encoder.tokens))
            vectors.append(self._last.vector)
        search = Stopwatch()
        lists = self._search(vectors, k)
        search.lap("search")
        share = search.ms["search"] / max(len(queries), 1)
        return [
            Answer(
                self._id_array[rows].tolist(),
                scores.tolist(),
                latency_ms={**stopwatch.ms, "search": share},
                cost={} if tokens is None else {"tokens": tokens},
            )
            for (rows, scores), stopwatch, tokens in zip(lists, times, token_counts, strict=True)
        ]

    def _search(self, vectors: Sequence[Matrix], k: int) -> list[tuple[Rows, Scores]]:
        k = min(k, len(self.ids) - len(self._without)) if len(self.ids) else 0
        nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
        if k < 1:
            return [nothing] * len(vectors)
        dims = self.matrix.shape[1]
        for vector in vectors:
            if len(vector) != dims:
                raise InputError(
                    f"dense: {self.encoder.name} makes {len(vector)} numbers for a query and {dims} for a passage"
                )
        each = zip(vectors, self._products(vectors), strict=True)
        return [self._nearest(vector, rough, k) if vector.any() else nothing for vector, rough in each]

    def _products(self, vectors: Sequence[Matrix]) -> Iterable[Matrix]:
        """All cosines of each vector, in single precision; those of vectors in half precision where these are held."""
        if self._half is None:
            return np.stack(vectors) @ self.matrix.T if len(vectors) > 1 else [self.matrix @ v for v in vectors]
        queries = np.stack(vectors)
        products = np.empty((len(vectors), len(self._half)), dtype=np.float32)
        for start in range(0, len(self._half), _AT_ONCE):
            part = self._half[start : start + _AT_ONCE].astype(np.float32)
            np.matmul(queries, part.T, out=products[:, start : start + _AT_ONCE])
        return products

    def _nearest(self, vector: Matrix, rough: Matrix, k: int) -> tuple[Rows, Scores]:
        """The rows and exact cosines of the k nearest; `rough` are all cosines as `_products` has them."""
        if len(self._without):
            rough[self._without] = -np.inf
        # Each product of unit vectors is off by at most dims × half an epsilon, so that two are by at most dims × one.
        slack = len(vector) * _EPSILON
        if self._half is not None:
            # Half precision moves each number by 2⁻¹¹ of itself, or by 2⁻²⁵ where it is tiny.
            slack += 2 * (2.0**-11 + len(vector) * 2.0**-25)
        rows = ranking.contenders(rough, k, slack)
        wide = vector.astype(np.float64)
        scores = np.empty(len(rows))
        for start in range(0, len(rows), _AT_ONCE):
            part = self.matrix.take(rows[start : start + _AT_ONCE], axis=0).astype(np.float64)
            part *= wide
            part.sum(axis=1, out=scores[start : start + _AT_ONCE])
        order = np.lexsort((self._place[rows], -scores))[:k]
        return rows[order], scores[order]

    def _room(self, rows: int, dims: int) -> tuple[Matrix, NDArray[np.float16] | None]:
        """Room for the vectors of all passages; where memory is not meant for so much, in a file beside half of it."""
        if rows * dims * 4 <= VECTORS.value:
            return np.zeros((rows, dims), dtype=np.float32), None
        try:
            with tempfile.TemporaryFile() as file:
                file.truncate(rows * dims * 4)
                matrix = np.memmap(file, np.float32, "r+", shape=(rows, dims))
        except OSError as error:
            raise InputError(
                f"dense: the vectors do not fit into {VECTORS.text} of memory, nor into {tempfile.gettempdir()} "
                f"({error.strerror}); {VECTORS.advice}, or set TMPDIR to a folder with room"
            ) from None
        return matrix, np.zeros((rows, dims), dtype=np.float16)

    def _remember(self, text: str) -> None:
        vectors = self._encode([text], "query")
        vector = vectors[0] if vectors.shape[1] else np.zeros(self.matrix.shape[1], dtype=np.float32)
        vector.setflags(write=False)
        self._last.text, self._last.vector = text, vector

    def _block(self, texts: Sequence[str]) -> Matrix:
        """The vectors of some passages, from the store if it has them."""
        identity = self.encoder.identity
        store = self.store if identity is not None else None

        def load(folder: str) -> Matrix:
            vectors: Matrix = np.load(os.path.join(folder, _FILE), allow_pickle=False)
            if vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != len(texts):
                raise ValueError("not the vectors of these texts")
            return vectors

        return get_or_build(
            store,
            ["vectors", 1, identity, self.prefix["passage"], fingerprint(texts)],
            lambda: self._encode(texts, "passage"),
            lambda vectors, folder: np.save(os.path.join(folder, _FILE), vectors),
            load,
        )

    def _encode(self, texts: Sequence[str], kind: Kind) -> Matrix:
        """Unit vectors with the prefix of their kind; a text without content gets zeros, and no prefix."""
        rows = [i for i, text in enumerate(texts) if text.strip()]
        if not rows:
            return np.zeros((len(texts), 0), dtype=np.float32)
        vectors = self.encoder.encode([self.prefix[kind] + _clean(texts[i]) for i in rows], kind)
        if len(rows) == len(texts):
            return vectors
        out = np.zeros((len(texts), vectors.shape[1]), dtype=np.float32)
        out[rows] = vectors
        return out


def _clean(text: str) -> str:
    """Text that can be written as UTF-8: halves of characters, which JSON can hold, become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _difference(before: int | None, after: int | None) -> int | None:
    return None if after is None else after - (before or 0)
