"""The first docs of each query's list, as columns."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karat.align.hits import Aligned

DEPTH = 100
"""How many docs of each query a result with details holds."""


class TopDoc(NamedTuple):
    """A doc at its place: None where it has no score, or no judgment."""

    doc: str
    score: float | None
    grade: float | None


class GoldDoc(NamedTuple):
    """A judged doc, and the rank at which a run has it (None: it does not)."""

    doc: str
    grade: float
    rank: int | None


@dataclass(frozen=True, eq=False)
class TopLists:
    """The docs of query i are `docs[offsets[i]:offsets[i + 1]]`, best first, with scores and grades beside them.

    A score is NaN where the run has none, a grade where the doc has no judgment. `returned` is how many docs each
    query returned, however many are listed.
    """

    query_ids: Sequence[str]
    returned: NDArray[np.int64]
    offsets: NDArray[np.int64]
    docs: Sequence[str]
    scores: NDArray[np.float64]
    grades: NDArray[np.float64]

    @cached_property
    def query_index(self) -> dict[str, int]:
        """Where each query stands."""
        return {q: i for i, q in enumerate(self.query_ids)}

    @cached_property
    def digest(self) -> str:
        """The docs of every query in order, and how many each returned, in few characters."""
        import hashlib

        out = hashlib.sha256()
        for i in sorted(range(len(self.query_ids)), key=lambda i: self.query_ids[i]):
            docs = self.docs[int(self.offsets[i]) : int(self.offsets[i + 1])]
            row = "\t".join((self.query_ids[i], str(int(self.returned[i])), *docs))
            out.update(f"{row}\n".encode("utf-8", "surrogatepass"))
        return out.hexdigest()[:16]

    def for_query(self, query_id: str, depth: int = DEPTH) -> list[TopDoc]:
        """The first docs of one query; none for a query that the lists lack."""
        i = self.query_index.get(query_id)
        if i is None:
            return []
        a = int(self.offsets[i])
        b = min(int(self.offsets[i + 1]), a + depth)
        columns = (_defined(column[a:b].tolist()) for column in (self.scores, self.grades))
        return [TopDoc(*row) for row in zip(self.docs[a:b], *columns, strict=True)]


def _defined(values: list[float]) -> list[float | None]:
    return [None if v != v else v for v in values]


SHARE = 1_000
"""Docs of one list that are numbered before those of the next."""


class DocNumbers:
    """The ids of docs, each written once: lists refer to them by number."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def number(self, doc: str) -> int:
        return self.known.setdefault(doc, len(self.known))

    def of(self, lists: Sequence[Sequence[str]]) -> list[list[int]]:
        """The numbers of the docs of several lists, taken in turn a share at a time.

        Runs of the same queries name the same docs there: most are in the processor's cache when they come again.
        """
        known, out = self.known, [list[int]() for _ in lists]
        shares = max(map(len, lists), default=0) // SHARE + 1
        for share in range(shares):
            for numbers, docs in zip(out, lists, strict=True):
                first, last = (len(docs) * end // shares for end in (share, share + 1))
                numbers += [known.setdefault(doc, len(known)) for doc in docs[first:last]]
        return out


def build_top_lists(aligned: Aligned) -> TopLists:
    """The top docs of each query of the rankings, with their grades."""
    qrels, at_doc, items = aligned.qrels, aligned.hits.at_doc, aligned.hits.items
    offsets, docs, scores, grades = [0], [], [], []
    for q in aligned.queries.tolist():
        a, b = int(qrels.offsets[q]), int(qrels.offsets[q + 1])
        graded = dict(zip(qrels.docs[a:b], qrels.grades[a:b].tolist(), strict=True))
        for doc, score, parent, *_ in items.get(q, [])[:DEPTH]:
            docs.append(doc)
            scores.append(score)
            grades.append(graded.get(parent if at_doc else doc))
        offsets.append(len(docs))
    return TopLists(
        aligned.rankings.query_ids,
        np.maximum(aligned.hits.returned[aligned.queries], 0),
        np.array(offsets, dtype=np.int64),
        docs,
        np.array(scores, dtype=np.float64),
        np.array(grades, dtype=np.float64),
    )


def find_gold_ranks(aligned: Aligned) -> NDArray[np.int64]:
    """The rank at which each judgment's doc was returned; 0 where it was not."""
    rank = np.zeros(len(aligned.qrels.docs), dtype=np.int64)
    rank[aligned.hits.gold] = aligned.hits.rank
    return rank
