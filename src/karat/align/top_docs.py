"""The top docs of each query as columns, where metrics look at more than the judged ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from karat.align.hits import ReturnedDoc
from karat.model.rankings import place_in_group
from karat.model.strings import Packed, equal_words, hashed
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from karat.model.strings import Indices, Strings

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TopDocs(Mapping[int, "list[ReturnedDoc]"]):
    """The top docs by query of the gold. Those of a query stand together, best first.

    `first` marks those of which no chunk stands above; a score is NaN where there is none.
    """

    query: Indices
    doc: Packed
    parent: Packed
    first: Mask
    score: Floats
    version: Floats | None

    @staticmethod
    def of(query: Indices, doc: Strings, parent: Strings, score: Floats, version: Floats | None) -> TopDocs:
        """The columns of a block, in the order of queries and ranks."""
        return TopDocs(query, doc.packed(), parent.packed(), _are_first(query, parent), score, version)

    @staticmethod
    def join(parts: Sequence[TopDocs]) -> TopDocs:
        """Those of several blocks, which hold different queries."""
        dated = [part.version for part in parts if part.version is not None]
        return TopDocs(
            np.concatenate([part.query for part in parts]),
            Packed.join([part.doc for part in parts]),
            Packed.join([part.parent for part in parts]),
            np.concatenate([part.first for part in parts]),
            np.concatenate([part.score for part in parts]),
            np.concatenate(dated) if dated else None,
        )

    @cached_property
    def _bounds(self) -> tuple[dict[int, int], Indices]:
        """The number of each query, and where these begin and end."""
        starts = np.flatnonzero(np.diff(self.query, prepend=-1))
        return {q: i for i, q in enumerate(self.query[starts].tolist())}, np.append(starts, len(self.query))

    @cached_property
    def _columns(self) -> list[tuple[bytes, Indices, Indices]]:
        """The texts of docs and of what these belong to, and where each begins and ends; once where they are equal."""
        alike = self.doc.data == self.parent.data and np.array_equal(self.doc.sizes, self.parent.sizes)
        columns = [self.doc] if alike else [self.doc, self.parent]
        ends = [np.cumsum(column.sizes + 1, dtype=np.int64) - 1 for column in columns]
        return [(column.data, end - column.sizes, end) for column, end in zip(columns, ends, strict=True)]

    def __len__(self) -> int:
        return len(self._bounds[0])

    def __iter__(self) -> Iterator[int]:
        return iter(self._bounds[0])

    def __getitem__(self, query: int) -> list[ReturnedDoc]:
        numbers, bounds = self._bounds
        rows = slice(*bounds[numbers[query] : numbers[query] + 2].tolist())
        texts = [
            [data[a:b].decode() for a, b in zip(start[rows].tolist(), end[rows].tolist(), strict=True)]
            for data, start, end in self._columns
        ]
        doc, parent = texts[0], texts[-1]
        score = [None if s != s else s for s in self.score[rows].tolist()]
        version = [math.nan] * len(doc) if self.version is None else self.version[rows].tolist()
        return [*map(ReturnedDoc, doc, score, parent, version)]


def _are_first(query: Indices, parent: Strings) -> Mask:
    """Which docs belong to a doc that none above them in their list belongs to."""
    words = parent.words()
    keys = hashed(words, (query + 1).view(np.uint64))
    order = np.argsort(keys, kind="stable")
    again = keys[order[1:]] == keys[order[:-1]]
    first = np.ones(len(query), dtype=bool)
    first[order[1:][again]] = False
    head = order[
        np.maximum.accumulate(np.where(np.concatenate(([True], ~again))[: len(order)], np.arange(len(order)), 0))
    ]
    same = equal_words([w[order] for w in words], [w[head] for w in words]) & (query[order] == query[head])
    if same.all():
        return first
    known: set[tuple[int, str]] = set()  # two docs with one key
    for i, pair in enumerate(zip(query.tolist(), parent.texts(), strict=True)):
        first[i] = pair not in known
        known.add(pair)
    return first


class TopColumns(NamedTuple):
    """What metrics look at in the top docs of queries, numbered anew."""

    query: Indices
    rank: Indices
    first: Mask
    version: Floats
    score: Floats
    docs: list[str]


def top_columns(
    items: Mapping[int, Sequence[ReturnedDoc]], queries: Sequence[int], depth: int, *, with_docs: bool
) -> TopColumns:
    """The top docs of these queries of the gold, each query by its place among them."""
    if not isinstance(items, TopDocs):
        return _columns_of_lists([items.get(q, ()) for q in queries], depth)
    number = np.full(max(int(items.query.max(initial=-1)), max(queries, default=-1)) + 1, -1, dtype=np.int64)
    number[list(queries)] = np.arange(len(queries))
    query, rank = number[items.query], place_in_group(items.query)
    rows = np.flatnonzero((query >= 0) & (rank <= depth))
    rows = rows[np.argsort(query[rows], kind="stable")]
    return TopColumns(
        query[rows],
        rank[rows],
        items.first[rows],
        np.full(len(rows), math.nan) if items.version is None else items.version[rows],
        items.score[rows],
        items.doc.strings().take(rows).texts() if with_docs else [],
    )


def join_columns(parts: Sequence[TopColumns], place: Indices) -> TopColumns:
    """Columns of different queries as one, each query by its place."""
    query = place[np.concatenate([part.query for part in parts])]
    rows = np.argsort(query, kind="stable")
    return TopColumns(
        query[rows],
        np.concatenate([part.rank for part in parts])[rows],
        np.concatenate([part.first for part in parts])[rows],
        np.concatenate([part.version for part in parts])[rows],
        np.concatenate([part.score for part in parts])[rows],
        [],
    )


def _columns_of_lists(tops: Sequence[Sequence[ReturnedDoc]], depth: int) -> TopColumns:
    query: list[int] = []
    rank: list[int] = []
    first: list[bool] = []
    version: list[float] = []
    score: list[float] = []
    docs: list[str] = []
    for number, top in enumerate(tops):
        parents: set[str] = set()
        for place, item in enumerate(top[:depth], start=1):
            query.append(number)
            rank.append(place)
            version.append(item.version)
            score.append(math.nan if item.score is None else item.score)
            docs.append(item.doc)
            first.append(item.parent not in parents)
            parents.add(item.parent)
    return TopColumns(
        np.array(query, dtype=np.int64),
        np.array(rank, dtype=np.int64),
        np.array(first, dtype=bool),
        np.array(version, dtype=np.float64),
        np.array(score, dtype=np.float64),
        docs,
    )
