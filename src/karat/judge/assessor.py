"""A language model as a judge: what it is asked about a pair, the key of each answer, and what tells it from others."""

from __future__ import annotations

import hashlib
import json
from dataclasses import field
from typing import TYPE_CHECKING

from karat.errors import InputError, UsageError, shown
from karat.judge.judgments import Judgment, ModelJudge
from karat.model.dates import utc_now
from karat.records import dataclass
from karat.retrieve.secrets import is_secret_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karat.judge.opinions import Opinion
    from karat.judge.pairs import Pair
    from karat.judge.prompt import Prompt
    from karat.model.docs import Docs
    from karat.model.json_data import Json, JsonObject
    from karat.model.queries import Queries

PARAMETERS: dict[str, Json] = {"temperature": 0}
"""What a request holds beside model and messages, unless it is stated otherwise."""


@dataclass(frozen=True)
class Question:
    """One vote on a pair: the request, and the hash that names it."""

    pair: Pair
    vote: int
    key: str
    request: JsonObject


@dataclass(frozen=True)
class Assessor:
    """A model, its prompt and parameters, and how often it votes on each pair."""

    model: str
    prompt: Prompt
    parameters: Mapping[str, Json] = field(default_factory=lambda: PARAMETERS)
    votes: int = 1
    base_url: str = ""
    """Names of models are not unique: answers are kept by the endpoint that gave them."""

    def __post_init__(self) -> None:
        if not self.model:
            raise UsageError("model is empty; name the model that judges")
        for name in self.parameters:
            if is_secret_name(name):
                raise UsageError(f"{name} is not a parameter of a model; a key comes from an environment variable")
            if name in ("model", "messages", "response_format", "stream", "n"):
                raise UsageError(f"{name} cannot be set as a parameter: Karat sets it itself")

    @property
    def identity(self) -> ModelJudge:
        """The judge as judgments name it."""
        return ModelJudge(self.model, self.prompt.digest, dict(self.parameters), self.votes)

    def questions(self, pair: Pair, query: str, doc: str, *, first: int = 1) -> list[Question]:
        """All votes on a pair, numbered from `first`: under other numbers, the same text is asked about again."""
        messages = self.prompt.messages(query, doc)
        request: JsonObject = {"model": self.model, "messages": messages, **self.parameters}  # type: ignore[dict-item]
        text = json.dumps([self.base_url, request], sort_keys=True)
        votes = range(first, first + self.votes)
        keys = (hashlib.sha256(f"{vote} {text}".encode()).hexdigest()[:32] for vote in votes)
        return [Question(pair, vote, key, request) for vote, key in zip(votes, keys, strict=True)]

    def judgment(self, pair: Pair, opinions: Sequence[Opinion]) -> Judgment:
        """The judgment that votes add up to: their median, the lower of two in the middle, with a reason for it."""
        grades = tuple(opinion.grade for opinion in opinions)
        grade = sorted(grades)[(len(grades) - 1) // 2]
        reason = next(opinion.reason for opinion in opinions if opinion.grade == grade)
        votes = grades if len(grades) > 1 else ()
        scale = self.prompt.scale.name
        return Judgment(*pair.ids, grade, scale, self.identity, utc_now(), reason=reason, votes=votes, drawn=pair.drawn)


@dataclass(frozen=True)
class PairText:
    """A pair with its texts."""

    pair: Pair
    query: str
    doc: str


def find_texts(pairs: Iterable[Pair], queries: Queries, docs: Docs) -> list[PairText]:
    """The texts of all pairs; one that is missing is an error before anything is asked."""
    rows, out, problems = list(pairs), [], []
    texts = queries.with_ids_of(pair.query_id for pair in rows).texts
    for pair in rows:
        query, doc = texts.get(pair.query_id), docs.whole_text(pair.doc_id)
        if not query:
            problems.append(f"{queries.source}: no text for query {shown(pair.query_id)}; expected one to judge by")
        elif not doc:
            problems.append(f"{docs.source}: no text for doc {shown(pair.doc_id)}; expected one to judge")
        else:
            out.append(PairText(pair, query, doc))
    if problems:
        raise InputError(dict.fromkeys(problems))
    return out
