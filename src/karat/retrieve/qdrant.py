"""Qdrant: a server, a folder, or memory."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, KaratError, UsageError, missing_package, shown
from karat.retrieve.embedding import Embedding, in_order, rows_with_text
from karat.retrieve.framework import id_of
from karat.retrieve.protocol import Answer, Base, Stopwatch
from karat.retrieve.registry import retriever
from karat.retrieve.secrets import variable_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karat.retrieve.corpus import Corpus
    from karat.retrieve.protocol import Query, RetrieverFacts

MEMORY = ":memory:"
OWN_ID = "id"
"""The payload field of our ids: Qdrant's own are integers or UUIDs."""
_FALLING = ("Cosine", "Dot")
"""Kinds of distance that Qdrant gives as similarities; of the others, less is better."""


@retriever("qdrant", tells="Qdrant: fills a collection, or searches an existing one.")
class Qdrant(Base):
    """Vector search by Qdrant, at `url`, in the folder `path`, or in memory (url=":memory:").

    With create=true (the default) the corpus is put into a collection named by its content and model after
    `collection`, and found there the next time. With create=false `collection` is asked as it is.
    `exact` searches all vectors instead of the graph; `encoder` is a function of your own in place of `model`.
    """

    def __init__(
        self,
        *,
        collection: str | None = None,
        url: str | None = None,
        path: str | None = None,
        model: str = "wordllama",
        encoder: Any = None,
        id_field: str | None = None,
        vector_name: str | None = None,
        api_key_env: str | None = None,
        create: bool = True,
        exact: bool = False,
        timeout: int = 30,
    ) -> None:
        if (url is None) == (path is None):
            raise UsageError('qdrant: expected one of url=http://localhost:6333, path=folder and url=":memory:"')
        if not create and not collection:
            raise UsageError("qdrant: create=false searches an existing collection; name it with collection=")
        self._library()
        self.place = path if path is not None else str(url)
        self._path, self._url, self._timeout = path, url, int(timeout)
        self.where = f"qdrant {self.place}"
        self._key = variable_of(api_key_env, self.where) if api_key_env else None
        self._embedding = Embedding(model, encoder, self.where)
        self.collection, self.create, self.exact = collection, create, exact
        self.id_field, self.vector_name = id_field, vector_name
        self._name = collection if not create else None
        self._using: str | None = vector_name
        self._size: int | None = None
        self._sign = 1.0
        self._client: _Client | None = None
        self._lock = threading.Lock()

    def index(self, corpus: Corpus) -> None:
        """Fill the collection of this corpus and model, unless it exists and is complete."""
        if self.create:
            name = f"{self.collection or 'karat'}-{self._embedding.key(corpus, self.vector_name, self.id_field)}"
            size = len(rows_with_text(corpus))
            with self._explaining(name) as client:
                if not client.collection_exists(name) or client.count(name, exact=True).count != size:
                    self._fill(client, name, corpus)
            self._name = name
        self._inspect_collection()

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Answer]:
        """The nearest points of each query; the model's time is the stage `encode`."""
        if self._name is None:
            raise UsageError(f"{self.where}: index a corpus first, or search an existing collection with create=false")
        if self._size is None:
            self._inspect_collection()
        return [self._search(q, k) for q in queries]

    def facts(self) -> RetrieverFacts:
        return {"embedding_model": self._embedding.name, "index_version": f"qdrant {self._name}"}

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.release()
        self._embedding.close()

    def _fill(self, client: Any, name: str, corpus: Corpus) -> None:
        """Points are numbered by row, so that a run after an interruption overwrites the same points."""
        models = self._library().models
        for rows, vectors in self._embedding.batches(corpus):
            if not client.collection_exists(name):
                params = models.VectorParams(size=vectors.shape[1], distance=models.Distance.COSINE)
                client.create_collection(
                    name, vectors_config={self.vector_name: params} if self.vector_name else params
                )
            field = self.id_field or OWN_ID
            points = [
                models.PointStruct(
                    id=i,
                    vector={self.vector_name: vector} if self.vector_name else vector,
                    payload={field: corpus.ids[i]},
                )
                for i, vector in zip(rows, vectors.tolist(), strict=True)
            ]
            client.upsert(name, points, wait=True)

    def _inspect_collection(self) -> None:
        """What the collection holds: which vectors, how long, and whether more or less is better."""
        with self._explaining(self._name) as client:
            if not client.collection_exists(self._name):
                names = ", ".join(sorted(c.name for c in client.get_collections().collections)) or "none"
                raise InputError(
                    f"{self.where}: has no collection {self._name!r}; it has: {names}. Fix the name, or leave "
                    "create=false out to fill one from the corpus"
                )
            vectors = client.get_collection(self._name).config.params.vectors
        if isinstance(vectors, dict):
            using = self.vector_name or (next(iter(vectors)) if len(vectors) == 1 else None)
            if using not in vectors:
                raise UsageError(
                    f"{self.where}: collection {self._name!r} has the vectors {', '.join(vectors) or 'none'}; "
                    f"name one with vector_name=, found {shown(self.vector_name)}"
                )
            self._using, about = using, vectors[using]
        elif vectors is None or self.vector_name:
            raise UsageError(
                f"{self.where}: collection {self._name!r} has "
                + (
                    "no dense vectors"
                    if vectors is None
                    else f"one vector without a name; leave {self.vector_name!r} out"
                )
            )
        else:
            about = vectors
        self._sign = 1.0 if getattr(about.distance, "value", about.distance) in _FALLING else -1.0
        self._size = int(about.size)

    def _search(self, query: Query, k: int) -> Answer:
        stopwatch = Stopwatch()
        vector = self._embedding.of_query(str(query))
        if vector is None:
            return Answer([])
        if len(vector) != self._size:
            raise InputError(
                f"{self.where}: collection {self._name!r} has vectors of {self._size} numbers, and "
                f"{self._embedding.name} makes {len(vector)}; use the model that the collection was filled with"
            )
        stopwatch.lap("encode")
        params = self._library().models.SearchParams(exact=True) if self.exact else None
        with self._explaining(self._name) as client:
            points = client.query_points(
                self._name, query=vector.tolist(), limit=k, using=self._using, search_params=params, with_payload=True
            ).points
        stopwatch.lap("search")
        where = f"{self.where}, collection {self._name!r}"
        field = self.id_field or (OWN_ID if self.create else None)
        ids_of_points = [id_of(str(point.id), point.payload or {}, field, where) for point in points]
        ids, scores = in_order(ids_of_points, [self._sign * point.score for point in points])
        return Answer(ids, scores, latency_ms=stopwatch.ms)

    @contextmanager
    def _explaining(self, name: str | None) -> Iterator[Any]:
        """The client; its errors become ours."""
        with self._lock:
            if self._client is None:
                self._client = self._open()
            client = self._client
        try:
            with client.guard:
                yield client.client
        except KaratError:
            raise
        except Exception as error:
            raise self._explain(error, name) from None

    def _open(self) -> _Client:
        library = self._library()
        try:
            if self._url == MEMORY:
                return _Client(library.QdrantClient(MEMORY, force_disable_check_same_thread=True))
            if self._path is not None:
                return _Client.of_folder(library, self._path)
            return _Client(
                library.QdrantClient(
                    url=self._url, api_key=self._key, timeout=self._timeout, check_compatibility=False
                ),
                remote=True,
            )
        except Exception as error:
            raise self._explain(error, None) from None

    def _explain(self, error: Exception, name: str | None) -> InputError:
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        text = str(error).replace(self._key, "***") if self._key else str(error)
        if isinstance(error, ResponseHandlingException):
            why = f"cannot be reached ({shown(text, 120)}); is the server running, and is the address right?"
        elif isinstance(error, UnexpectedResponse) and error.status_code in (401, 403):
            why = f"HTTP {error.status_code}, not allowed; name the variable that holds the key with api_key_env="
        elif "already accessed" in text:
            why = "is in use by another process; close that one, or start a server and use url="
        else:
            why = f"failed ({type(error).__name__}: {shown(text, 200)})"
        return InputError(f"{self.where}{f', collection {name!r}' if name else ''}: {why}")

    @staticmethod
    def _library() -> Any:
        try:
            import qdrant_client
        except ImportError:
            raise missing_package("qdrant", "qdrant_client") from None
        return qdrant_client


class _Client:
    """A client; those of a folder are client, as a folder can be opened only once, and used by one thread at a time."""

    _folders: dict[str, _Client] = {}  # noqa: RUF012
    _opening = threading.Lock()

    def __init__(self, client: Any, *, remote: bool = False, folder: str | None = None) -> None:
        self.client, self._folder, self._users = client, folder, 1
        self.guard: Any = nullcontext() if remote else threading.RLock()

    @classmethod
    def of_folder(cls, library: Any, path: str) -> _Client:
        folder = os.path.realpath(os.path.expanduser(path))
        with cls._opening:
            client = cls._folders.get(folder)
            if client is not None:
                client._users += 1
                return client
            client = cls(library.QdrantClient(path=folder, force_disable_check_same_thread=True), folder=folder)
            cls._folders[folder] = client
            return client

    def release(self) -> None:
        with self._opening:
            self._users -= 1
            if self._users:
                return
            if self._folder is not None:
                del self._folders[self._folder]
        self.client.close()
