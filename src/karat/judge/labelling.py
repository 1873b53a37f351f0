"""A person labels pairs blind, or settles those on which people disagree; every label is kept at once."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import UsageError
from karat.judge.judgments import Adjudicator, Judgment, Person, add_judgments, read_judgments, refuse_other_scales
from karat.judge.people_labels import PeopleAgreement, group_labels, measure_people
from karat.model.dates import utc_now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.judge.assessor import PairText
    from karat.judge.scale import Scale

_WORD = re.compile(r"\w+")
SHORTEST = 3
"""Characters from which a word of the query is marked: shorter ones are in every text."""


class LabelSession:
    """The pairs that a person has not labelled yet, and what was done since the session began.

    The order depends on the person alone, so that two people meet the pairs in different ones, and a session that
    was ended resumes in its own. With `adjudicate`, the pairs are those on which people disagree and that nobody has
    settled.
    """

    def __init__(
        self, texts: Sequence[PairText], person: str, scale: Scale, path: str, *, adjudicate: bool = False
    ) -> None:
        if not person.strip():
            raise UsageError("the name of the person who labels is empty; say who you are: --by NAME")
        self._ids = {text.pair.ids for text in texts}
        self.scale, self.path, self.adjudicates = scale, path, adjudicate
        self.person = Adjudicator(person.strip()) if adjudicate else Person(person.strip())
        judgments = read_judgments(path, missing_ok=True)
        refuse_other_scales(judgments, scale.name)
        self._labels = group_labels(judgments, scale.name)
        if adjudicate:
            disputes = {ids for ids, pair in self._labels.items() if pair.disputed}
            texts = [text for text in texts if text.pair.ids in disputes]
            earlier = {ids for ids in disputes if self._labels[ids].adjudication is not None}
        else:
            earlier = set(judgments.of(self.person, scale.name))
        self.total = len(texts)
        order = _generator(self.person.name).permutation(len(texts))
        self._queue = deque(texts[i] for i in order if texts[i].pair.ids not in earlier)
        self._history: list[tuple[PairText, int]] = []
        self._skips = 0
        self.note = ""
        self.notices: tuple[str, ...] = judgments.notes

    @property
    def current(self) -> PairText | None:
        """The pair to label now; None when all are labelled, or the others were skipped."""
        return self._queue[0] if len(self._queue) > self._skips else None

    @property
    def labelled(self) -> int:
        return self.total - len(self._queue)

    @property
    def skipped(self) -> int:
        return self._skips

    @property
    def last(self) -> int | None:
        """The grade that was given last, and that `undo` takes back."""
        return self._history[-1][1] if self._history else None

    @property
    def opinions(self) -> tuple[Judgment, ...]:
        """What people say of the current pair, in an order that tells nothing of who they are."""
        if self.current is None:
            return ()
        rows = self._labels[self.current.pair.ids].labels
        key = "\0".join((*self.current.pair.ids, self.person.name))
        order = _generator(key).permutation(len(rows))
        return tuple(rows[i] for i in order)

    def agreement(self) -> PeopleAgreement | None:
        """How far people agree on the pairs of this session, as the file is now."""
        judgments = read_judgments(self.path, missing_ok=True)
        pairs = (pair for ids, pair in group_labels(judgments, self.scale.name).items() if ids in self._ids)
        return measure_people(pairs, self.scale.grades)

    def label(self, grade: int) -> None:
        """Give the current pair a grade; it is on disk when this returns."""
        text = self._queue[0]
        self._add(text, grade)
        self._queue.popleft()
        self._history.append((text, grade))
        self.note = ""

    def skip(self) -> None:
        """Leave the current pair for the next session."""
        self._queue.rotate(-1)
        self._skips += 1
        self.note = ""

    def undo(self) -> bool:
        """Take the last label of this session back, and show its pair again; False if there is none."""
        if not self._history:
            return False
        text, _ = self._history[-1]
        self._add(text, None)
        self._history.pop()
        self._queue.appendleft(text)
        self.note = ""
        return True

    def _add(self, text: PairText, grade: int | None) -> None:
        row = Judgment(
            *text.pair.ids,
            grade,
            self.scale.name,
            self.person,
            utc_now(),
            note="" if grade is None else self.note,
            drawn=text.pair.drawn,
        )
        self.notices = (*self.notices, *add_judgments(self.path, [row]))


def _generator(key: str) -> np.random.Generator:
    """Random numbers that depend on a text alone."""
    return np.random.default_rng(int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big"))


def find_words(query: str, text: str) -> list[tuple[int, int]]:
    """Where words of the query stand in a text, whatever their case."""
    words = {word.casefold() for word in _WORD.findall(query) if len(word) >= SHORTEST}
    return [match.span() for match in _WORD.finditer(text) if match[0].casefold() in words]
