"""Gold: which docs were judged for which query, and with which grade."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def ordered_by(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order by two keys of whole numbers from 0; of 16 bits each where they fit, which sorts by radix."""
    one, other = int(first.max(initial=0)) + 1, int(second.max(initial=0)) + 1
    if one * other <= 1 << 16:
        return np.argsort((first * other + second).astype(np.uint16), kind="stable")
    keys = (second, first)
    return np.lexsort(tuple(k.astype(np.uint16) for k in keys) if max(one, other) <= 1 << 16 else keys)


def is_ordered(first: NDArray[np.int64], second: NDArray[np.int64]) -> bool:
    """Whether rows are in the order by two keys."""
    before, after = first[:-1], first[1:]
    return bool(((before < after) | ((before == after) & (second[:-1] <= second[1:]))).all())


@dataclass(frozen=True, eq=False)
class Subtopics:
    """Judgments by subtopic: which judgment of the gold each is part of, its subtopic and its grade."""

    judgment: NDArray[np.int64]
    names: Sequence[str]
    grades: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Qrels:
    """Judgments grouped by query; queries in byte order of their ids.

    The docs of query i are `docs[offsets[i]:offsets[i + 1]]`, with `grades` beside them. Where docs were judged
    by subtopic, a doc's grade is its largest.
    """

    query_ids: Sequence[str]
    offsets: NDArray[np.int64]
    docs: Sequence[str]
    grades: NDArray[np.float64]
    source: str = "qrels"
    subtopics: Subtopics | None = None
    notes: tuple[str, ...] = ()
    """What a reader of the results should know about how the gold was read."""

    def __len__(self) -> int:
        return len(self.query_ids)

    @cached_property
    def query_index(self) -> dict[str, int]:
        """Where each query stands."""
        return {q: i for i, q in enumerate(self.query_ids)}

    @cached_property
    def query_of(self) -> NDArray[np.int64]:
        """The query of each judgment."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @cached_property
    def by_grade(self) -> NDArray[np.int64]:
        """The judgments in the order of query and descending grade: each query's ideal order."""
        low, high = self.grades.min(initial=0.0), self.grades.max(initial=0.0)
        if high - low < 1 << 15 and not np.count_nonzero(self.grades != np.floor(self.grades)):
            return ordered_by(self.query_of, (high - self.grades).astype(np.int64))
        return np.lexsort((-self.grades, self.query_of))

    @cached_property
    def ideal_grades(self) -> NDArray[np.float64]:
        """The grades in the order of `by_grade`; their queries are `query_of`, in that order too."""
        return self.grades[self.by_grade]

    def for_query(self, query_id: str) -> dict[str, float]:
        """The grades of one query's docs; empty for a query without gold."""
        i = self.query_index.get(query_id)
        if i is None:
            return {}
        a, b = int(self.offsets[i]), int(self.offsets[i + 1])
        return dict(zip(self.docs[a:b], self.grades[a:b].tolist(), strict=True))

    def __repr__(self) -> str:
        return f"Qrels({self.source!r}, {len(self)} queries, {len(self.docs)} judgments)"
