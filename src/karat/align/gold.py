"""The gold as something that millions of rows can be looked up in."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from karat.model.strings import Strings, equal_words, hashed
from karat.read.objects import build_qrels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karat.model.qrels import Qrels
    from karat.model.strings import Indices, Words

_SALTS = (0xD6E8FEB86659FD93, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB)
_PLAIN, _TABLE = np.uint64(1), np.uint64(64 - 18)
"""The salt of queries, and what is cut from their keys to find their place in a table."""

NOWHERE = "\x00"
"""A judgment that no doc can meet: through it a query without gold is looked up."""


def unjudged_queries(query_ids: Iterable[str]) -> Qrels:
    """Gold that judges no doc of these queries, so that their lists can be found."""
    return build_qrels({q: {NOWHERE: -1.0} for q in query_ids}, "queries")


class GoldIndex:
    """Judged (query, doc) pairs by a 64-bit key; a match is always confirmed on the ids themselves."""

    def __init__(self, qrels: Qrels, docs: Strings | None = None) -> None:
        """The gold; `docs` are those of the qrels as a column, where they are at hand."""
        self._query_ids, self._query = qrels.query_ids, qrels.query_of
        self.grades = qrels.grades
        self._words = (Strings.of(qrels.docs) if docs is None else docs).words()
        for salt in _SALTS:
            self.salt = np.uint64(salt)
            keys = self.keys(self._words, self._query)
            self._order = np.argsort(keys)
            self._sorted = keys[self._order]
            if not (self._sorted[1:] == self._sorted[:-1]).any():
                break
        bits = min(24, max(12, int(len(keys) * 16).bit_length()))
        self._shift, self._mask = np.uint64(64 - bits), np.uint64((1 << bits) - 1)
        self._present, self._present_too = np.zeros((2, 1 << bits), dtype=bool)
        self._present[(keys >> self._shift).view(np.int64)] = True
        self._present_too[(keys & self._mask).view(np.int64)] = True

    def number_queries(self, ids: Strings) -> Indices:
        """The number of each query of the gold, −1 for others."""
        table, own, order, numbers = self._numbers
        if not len(numbers):
            return np.full(len(ids), -1, dtype=np.int64)
        words = ids.words()
        keys = hashed(words, _PLAIN)
        query = table[(keys >> _TABLE).view(np.int64)]
        query[~equal_words(words, _at(own, query))] = -1
        rest = np.flatnonzero(query < 0)  # without gold, or where two queries of it share a place
        if len(rest):
            place = np.minimum(np.searchsorted(order, keys[rest]), len(order) - 1)
            candidate = numbers[place]
            same = (order[place] == keys[rest]) & equal_words(_at(words, rest), _at(own, candidate))
            query[rest[same]] = candidate[same]
        return query

    @cached_property
    def _numbers(self) -> tuple[Indices, list[Words], Words, Indices]:
        """A table of queries by key, their words, and all keys in order with the query of each."""
        own = Strings.of(self._query_ids).words()
        keys = hashed(own, _PLAIN)
        table = np.zeros(1 << (64 - int(_TABLE)), dtype=np.int64)
        table[(keys >> _TABLE).view(np.int64)] = np.arange(len(keys))
        numbers = np.argsort(keys)
        return table, own, keys[numbers], numbers

    def keys(self, words: list[Words], query: Indices) -> Words:
        """The key of each (doc, query) pair."""
        return hashed(words, (query + 1).view(np.uint64) * self.salt)

    def find(self, keys: Words, words: list[Words], query: Indices) -> tuple[Indices, Indices]:
        """The rows that are judged, and the judgment of each."""
        rows = np.flatnonzero(self._present[(keys >> self._shift).view(np.int64)])
        rows = rows[self._present_too[(keys[rows] & self._mask).view(np.int64)]]  # fewer to bisect for
        if len(rows) == 0 or len(self._sorted) == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        place = np.minimum(np.searchsorted(self._sorted, keys[rows]), len(self._sorted) - 1)
        same = self._sorted[place] == keys[rows]
        rows, gold = rows[same], self._order[place[same]]
        same = equal_words(_at(words, rows), _at(self._words, gold)) & (self._query[gold] == query[rows])
        return rows[same], gold[same]


def _at(words: list[Words], rows: Indices) -> list[Words]:
    return [w[rows] for w in words]
