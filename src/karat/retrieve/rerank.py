"""The best docs of a retriever, scored again by a model that reads query and text together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from karat.errors import InputError, UsageError, shown
from karat.retrieve import ranking
from karat.retrieve.encoders import is_function
from karat.retrieve.protocol import Answer, Base, Stopwatch, name_query, read_answer
from karat.retrieve.registry import import_object, make_retriever, retriever

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from karat.retrieve.corpus import Corpus
    from karat.retrieve.protocol import Query, RetrieverFacts

MODELS = "a folder or a hub name of a cross-encoder of sentence-transformers, or module:function"
_STAGE = "rerank"


class Scorer(Protocol):
    """What scores texts for a query."""

    @property
    def name(self) -> str:
        """What run logs call it."""

    def scores(self, query: str, texts: Sequence[str]) -> Any:
        """A score for each text; higher fits better."""


class FunctionScorer:
    """A function of the caller's: (query, list of texts) → one score per text."""

    def __init__(self, function: Callable[[str, list[str]], Any], name: str) -> None:
        self.function, self.name = function, name

    def scores(self, query: str, texts: Sequence[str]) -> Any:
        return self.function(query, list(texts))


@retriever(_STAGE, tells="The best of a retriever, put in order by a cross-encoder or a function.", takes="one")
class Rerank(Base):
    """Scores the best `candidates` of a retriever (BM25 by default) again.

    Docs beyond them follow in their order, with scores below.
    """

    def __init__(
        self,
        retriever: Any = None,
        *,
        model: str = "",
        candidates: int = 50,
        batch: int = 32,
        device: str | None = None,
    ) -> None:
        for name, value in (("candidates", candidates), ("batch", batch)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UsageError(f"rerank: {name} must be an integer from 1, found {value!r}")
        if not isinstance(model, str) or not model:
            raise UsageError(
                f"rerank: model must be {MODELS}, found {shown(model)}; for example rerank(bm25, model=my:score)"
            )
        self.inner = make_retriever("bm25") if retriever is None else retriever
        self.candidates = candidates
        self.scorer = _scorer(model, device, batch)
        self._texts: Callable[[str], str] | None = None

    @property
    def parts(self) -> Sequence[Any]:
        return (self.inner,)

    def index(self, corpus: Corpus) -> None:
        self.inner.index(corpus)
        self._texts = partial(_text, corpus)

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Answer]:
        return [self._rerank(query, k) for query in queries]

    def facts(self) -> RetrieverFacts:
        inner: RetrieverFacts = self.inner.facts() if hasattr(self.inner, "facts") else {}
        return {**inner, "reranker": self.scorer.name}

    def _rerank(self, query: Query, k: int) -> Answer:
        stopwatch = Stopwatch()
        answer = read_answer(self.inner.retrieve([query], max(k, self.candidates))[0], f"rerank, {name_query(query)}")
        stopwatch.lap("retrieve")
        ms = dict(answer.latency_ms or stopwatch.ms)
        stopwatch = Stopwatch()
        ids = list(dict.fromkeys(answer.ids))
        head, rest = ids[: self.candidates], ids[self.candidates :]
        scores = self._scores(query, head)
        order = ranking.best(scores, len(head), ranking.precedence(head)) if head else np.zeros(0, dtype=np.int64)
        final = [head[i] for i in order.tolist()] + rest
        values = _with_lower(scores[order], len(rest))
        stages = dict(answer.stages) or {"retrieve": ids}
        name = _STAGE if _STAGE not in stages else f"{_STAGE}.{len(stages) + 1}"
        stopwatch.lap(name)
        return Answer(
            final[:k],
            values[:k],
            stages={**stages, name: final[:k]},
            latency_ms={**ms, **stopwatch.ms},
            cost=answer.cost,
            more=answer.more,
        )

    def _scores(self, query: Query, ids: Sequence[str]) -> NDArray[np.float64]:
        if not ids:
            return np.zeros(0)
        if self._texts is None:
            raise UsageError("rerank: index() comes before retrieve(): texts are taken from the corpus")
        where = f"rerank: {self.scorer.name}, {name_query(query)}"
        values = self.scorer.scores(str(query), [self._texts(id) for id in ids])
        try:
            scores = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            scores = np.zeros(0)
        if scores.shape != (len(ids),):
            reason = f"an array of shape {values.shape}" if hasattr(values, "shape") else shown(values)
            raise InputError(f"{where}: expected {len(ids)} scores, one for each text, found {reason}")
        if not np.isfinite(scores).all():
            at = int(np.flatnonzero(~np.isfinite(scores))[0])
            raise InputError(f"{where}: the score of {shown(ids[at])} must be a finite number, found {scores[at]}")
        return scores


def _scorer(model: str, device: str | None, batch: int) -> Scorer:
    if not is_function(model):
        from karat.retrieve.sentences import CrossEncoder

        return CrossEncoder(model, device=device, batch=batch)
    if device is not None:
        raise UsageError(f"rerank: device does not apply to model={model}, a function")
    function = import_object(model)
    if not callable(function):
        raise UsageError(f"rerank: {model} must be a function (query, list of texts) -> scores, found {function!r}")
    return FunctionScorer(function, model)


def _text(corpus: Corpus, id: str) -> str:
    place = corpus.row.get(id)
    if place is None:
        raise InputError(
            f"rerank: {corpus.source} has no doc {shown(id)}, which the retriever found; expected its text"
        )
    return corpus.texts[place]


def _with_lower(scores: NDArray[np.float64], more: int) -> list[float]:
    """Scores of the candidates, followed by lower, descending ones for the rest."""
    lowest = float(scores[-1]) if len(scores) else 0.0
    step = max(1.0, abs(lowest) * 1e-6)  # large enough to make a difference to a large score
    return [*scores.tolist(), *(lowest - step * (i + 1) for i in range(more))]
