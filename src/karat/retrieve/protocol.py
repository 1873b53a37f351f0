"""The protocol of a retriever, and its answers: lists, scores, stages, and the time of each stage."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, runtime_checkable

from karat.errors import InputError, shown
from karat.read.columns import number_of
from karat.read.objects import text_id
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karat.model.docs import Fields
    from karat.model.run_log import Facts
    from karat.retrieve.corpus import Corpus
    from karat.store.built import Store

SHAPES = "a list of ids, of (id, score) pairs or of dicts with an id, or a dict of scores"
_ID_NAMES = ("chunk_id", "doc_id", "id", "_id")


class Query(str):
    """The text of a query, with its `id` and `fields` (language, as_of, …). Plain text works too."""

    id: str
    fields: Fields

    def __new__(cls, text: str, id: str = "", fields: Fields | None = None) -> Query:
        query = super().__new__(cls, text)
        query.id, query.fields = id, fields or {}
        return query


def name_query(query: str) -> str:
    """A query as errors name it: by its id, or by its text where it has none."""
    return f"query {shown(getattr(query, 'id', '') or str(query))}"


@dataclass(frozen=True)
class Answer:
    """The answer of a retriever to one query, best doc first.

    `stages` holds the list after each stage, `latency_ms` the time of each; both are optional. Without times,
    the whole call is the stage `retrieve`. `more` goes into the run log unchanged.
    """

    ids: Sequence[str]
    scores: Sequence[float] | None = None
    stages: Mapping[str, Sequence[str]] = field(default_factory=dict)
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    more: Facts = field(default_factory=dict)

    def cut(self, k: int) -> Answer:
        """The first k."""
        if len(self.ids) <= k:
            return self
        scores = None if self.scores is None else self.scores[:k]
        return Answer(self.ids[:k], scores, self.stages, self.latency_ms, self.cost, self.more)


Found = Answer
"""The former name of `Answer`."""


@runtime_checkable
class Retriever(Protocol):
    """Anything that indexes a corpus and answers queries.

    `retrieve` gives one `Answer` (or any of the shapes that `read_answer` reads) for each query, in their order.
    """

    def index(self, corpus: Corpus) -> None: ...

    def retrieve(self, queries: Sequence[Query], k: int) -> Sequence[Answer]: ...


class RetrieverFacts(TypedDict, total=False):
    """What a retriever says of the whole run: each line of the run log repeats it."""

    embedding_model: str
    embedding_update_cost: Mapping[str, int]
    index_storage: int
    index_version: str
    reranker: str


class Base:
    """What built-in retrievers share; a retriever of your own may inherit from it or not."""

    name: str = ""
    store: Store | None = None
    """Keeps indexes and vectors between runs; None keeps nothing."""

    @property
    def parts(self) -> Sequence[Any]:
        """The retrievers that this one is made of."""
        return ()

    @property
    def rests_on(self) -> Any:
        """What decides the answers besides the spec of the retriever; None if that cannot be known."""
        return None

    def facts(self) -> RetrieverFacts:
        """Facts about the whole run for the run log."""
        return {}

    def close(self) -> None:
        """Close connections."""


class Stopwatch:
    """The time of each stage, in milliseconds."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}
        self._at = time.perf_counter()

    def lap(self, stage: str) -> None:
        """Add the time since the last lap to a stage."""
        now = time.perf_counter()
        self.ms[stage] = self.ms.get(stage, 0.0) + (now - self._at) * 1000
        self._at = now


def read_answer(result: Any, where: str) -> Answer:
    """The answer to one query from any of the shapes that a retriever may return."""
    if isinstance(result, Answer):
        return result
    if isinstance(result, Mapping):
        items = sorted(result.items(), key=lambda item: _score(item[1], where), reverse=True)
        return Answer([_id(i, where) for i, _ in items], [_score(s, where) for _, s in items])
    if isinstance(result, (str, bytes)) or not hasattr(result, "__iter__"):
        raise InputError(f"{where}: expected {SHAPES}, found {shown(result)}")
    return _from_items(list(result), where)


def _from_items(items: Sequence[Any], where: str) -> Answer:
    ids: list[str] = []
    scores: list[float] = []
    for item in items:
        if isinstance(item, Mapping):
            name = next((n for n in _ID_NAMES if n in item), None)
            if name is None:
                raise InputError(f"{where}: a result must have {' or '.join(_ID_NAMES[:2])}, found {shown(dict(item))}")
            ids.append(_id(item[name], where))
            if item.get("score") is not None:
                scores.append(_score(item["score"], where))
        elif isinstance(item, (tuple, list)) and len(item) == 2:
            ids.append(_id(item[0], where))
            scores.append(_score(item[1], where))
        else:
            ids.append(_id(item, where))
    if scores and len(scores) != len(ids):
        raise InputError(f"{where}: {len(scores)} of {len(ids)} results have a score; expected all of them or none")
    return Answer(ids, scores or None)


def _id(value: Any, where: str) -> str:
    id = text_id(value)
    if id is None:
        raise InputError(f"{where}: an id must be text or an integer, found {shown(value)}; expected {SHAPES}")
    return id


def _score(value: Any, where: str) -> float:
    number = number_of(value)
    if number is None:
        raise InputError(f"{where}: a score must be a finite number, found {shown(value)}")
    return number


def everything_in(retriever: Any) -> Iterable[Any]:
    """A retriever and all that it is made of, the innermost first."""
    for part in getattr(retriever, "parts", ()):
        yield from everything_in(part)
    yield retriever
