"""Answers as they come, in any order → judgments in the order of the pairs, each written once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.judge.judgments import add_judgments
from karat.records import dataclass
from karat.store.answers import StoredAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karat.judge.assessor import Assessor, Question
    from karat.judge.judgments import Judgment
    from karat.judge.opinions import Opinion
    from karat.judge.pairs import Pair
    from karat.store.answers import AnswerStore


@dataclass(frozen=True)
class Failure:
    """A pair without a grade, and why."""

    pair: Pair
    problem: str


class Ledger:
    """What is known of the pairs that are being judged.

    An answer is kept in the store first; a judgment is added to the file when all votes on its pair, and all pairs
    before it, are decided. So a file does not depend on which answer came first, or on where the work was stopped.
    Without a path, judgments are only collected.
    """

    def __init__(self, pairs: Sequence[Pair], assessor: Assessor, path: str | None, store: AnswerStore) -> None:
        self._assessor, self._path, self._store = assessor, path, store
        self._pairs = pairs
        self._place = {pair.ids: place for place, pair in enumerate(pairs)}
        self._opinions: list[dict[int, Opinion]] = [{} for _ in pairs]
        self._problems: dict[int, str] = {}
        self._next = 0
        self._written: set[int] = set()
        self.rows: list[Judgment] = []
        self.notes: list[str] = []

    def keep(self, question: Question, opinion: Opinion) -> None:
        """Take an answer that is new."""
        self._store.put(question.key, StoredAnswer(opinion.grade, opinion.reason))
        self.recall(question, opinion)
        self.write()

    def recall(self, question: Question, opinion: Opinion) -> None:
        """Take an answer that the store holds already."""
        self._opinions[self._place[question.pair.ids]][question.vote] = opinion

    def fail(self, question: Question, problem: str) -> None:
        """Note that a vote on a pair has no grade: the pair has none."""
        self._problems.setdefault(self._place[question.pair.ids], problem)
        self.write()

    def write(self, *, all: bool = False) -> None:
        """Add what is decided to the file; `all` does not wait for pairs that are not."""
        places = []
        while self._next < len(self._pairs) and (self._next in self._problems or self._complete(self._next)):
            places.append(self._next)
            self._next += 1
        if all:
            places += range(self._next, len(self._pairs))
        self._add(place for place in places if place not in self._written and self._complete(place))

    def has_failed(self, question: Question) -> bool:
        """Whether another vote on the pair has failed already."""
        return self._place[question.pair.ids] in self._problems

    @property
    def failures(self) -> list[Failure]:
        return [Failure(self._pairs[place], problem) for place, problem in sorted(self._problems.items())]

    def _complete(self, place: int) -> bool:
        return len(self._opinions[place]) == self._assessor.votes

    def _add(self, places: Iterable[int]) -> None:
        rows = []
        for place in places:
            votes = self._opinions[place]
            rows.append(self._assessor.judgment(self._pairs[place], [votes[vote] for vote in sorted(votes)]))
            self._written.add(place)
        if self._path is not None:
            self.notes += add_judgments(self._path, rows)
        self.rows += rows
