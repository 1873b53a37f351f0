"""What every relevance metric needs of a run and its gold, and no more.

A row per judged doc that was returned, the number returned per query, and all gold grades. The size
follows the judgments, not the run.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from karat.model.policy import is_judged, is_relevant
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karat.model.items import Items, Log, TermPairs, Topics

    Values = NDArray[np.float64]
    Counts = NDArray[np.int64]
    Cutoff = int | None
    """The last rank that counts; None for all that was returned."""

ALL: Cutoff = None


@dataclass(frozen=True)
class Rankings:
    """Judged docs at their ranks, query by query.

    `query`, `rank` and `grade` are one row per judged doc that was returned, sorted by query and
    rank. A negative grade means pooled but not judged. `gold_query` and `gold_grade` are all
    judgments, sorted by query and descending grade. `repeats` holds later chunks of a doc that already
    took its grade: they are judged, and earn precision where `repeats_earn` says so.
    """

    query_ids: Sequence[str]
    query: Counts
    rank: Counts
    grade: Values
    returned: Counts
    gold_query: Counts
    gold_grade: Values
    repeats: Rankings | None = None
    repeats_earn: bool = False
    items: Items | None = None
    """All docs of the top k, where a metric needs them."""
    log: Log | None = None
    """What a run log says of each query, where a metric needs it."""
    pipeline: Rankings | None = None
    """The queries that metrics of the pipeline are about, with gold or without, and what became of them."""
    whole: Rankings | None = None
    """All queries of the run, with gold or without, where a metric reads only what the run says itself."""
    topics: Topics | None = None
    """The subtopics of relevant docs, where a metric needs them."""
    terms: TermPairs | None = None
    """Expected and returned terms of an ontology, where a metric needs them."""

    def __len__(self) -> int:
        return len(self.query_ids)

    def upto(self, k: Cutoff) -> Rankings:
        """The same rankings with nothing below rank k; the numbers returned stay as they were."""
        if k is None:
            return self
        return self._upto(k)

    def _upto(self, k: int) -> Rankings:
        memo: dict[int, Rankings] = self.__dict__.setdefault("_cuts", {})
        if k not in memo:
            keep = self.rank <= k
            repeats = self.repeats.upto(k) if self.repeats is not None else None
            memo[k] = (
                self
                if keep.all() and repeats is self.repeats
                else replace(
                    self, query=self.query[keep], rank=self.rank[keep], grade=self.grade[keep], repeats=repeats
                )
            )
        return memo[k]

    def sum(self, weights: Values | NDArray[np.bool_], upto: Cutoff = ALL) -> Values:
        """The weights of each query's rows, such as their gains, added up in the order of their ranks."""
        if upto is not None:
            weights = np.where(self.rank <= upto, weights, 0.0)
        return np.bincount(self.query, weights=weights, minlength=len(self)).astype(np.float64, copy=False)

    def hits(self, rel: float) -> NDArray[np.bool_]:
        """Which rows are relevant."""
        return is_relevant(self.grade, rel)

    def hit_rows(self, rel: float, upto: Cutoff = ALL) -> Counts:
        """The numbers of the rows that are relevant and not below rank k."""
        memo: dict[float, Counts] = self.__dict__.setdefault("_hit_rows", {})
        if rel not in memo:
            memo[rel] = np.flatnonzero(self.hits(rel))
        rows = memo[rel]
        return rows if upto is None else rows[self.rank[rows] <= upto]

    def count_hits(self, rel: float, upto: Cutoff = ALL) -> Values:
        """How many relevant docs each query has in its top k."""
        return np.bincount(self.query[self.hit_rows(rel, upto)], minlength=len(self)).astype(np.float64)

    def gold_count(self, rel: float) -> Values:
        """How many gold docs of each query are relevant."""
        memo: dict[float, Values] = self.__dict__.setdefault("_gold_counts", {})
        if rel not in memo:
            rows = np.flatnonzero(is_relevant(self.gold_grade, rel))
            memo[rel] = np.bincount(self.gold_query[rows], minlength=len(self)).astype(np.float64)
        return memo[rel]

    def gold_sum(self, weights: Values) -> Values:
        """The weights of each query's gold added up, best grade first."""
        return np.bincount(self.gold_query, weights=weights, minlength=len(self)).astype(np.float64, copy=False)

    def place_among(self, rows: NDArray[np.bool_]) -> Counts:
        """For each chosen row, its number (from 1) among its query's chosen rows."""
        return place_in_group(self.query[rows])

    def ideal(self, *, rel: float | None = None) -> Rankings:
        """The rankings of a run that returns all judged docs in the best order, or with `rel` the relevant ones."""
        mask = is_judged(self.gold_grade) if rel is None else is_relevant(self.gold_grade, rel)
        query = self.gold_query[mask]
        return Rankings(
            self.query_ids,
            query,
            self.gold_place[mask],
            self.gold_grade[mask],
            np.bincount(query, minlength=len(self)),
            self.gold_query,
            self.gold_grade,
        )

    @cached_property
    def gold_place(self) -> Counts:
        """For each gold grade, its number (from 1) in its query: the rank it has in the ideal order."""
        return place_in_group(self.gold_query)


def place_in_group(group: Counts) -> Counts:
    """The number (from 1) of each row within its run of equal group values."""
    if len(group) == 0:
        return np.zeros(0, dtype=np.int64)
    first = np.ones(len(group), dtype=bool)
    np.not_equal(group[1:], group[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    step = np.ones(len(group), dtype=np.int64)  # from row to row, back to 1 where a run starts
    step[starts[1:]] -= starts[1:] - starts[:-1]
    return np.cumsum(step, out=step)


def ratio(part: Values, whole: Values, undefined: float = 0.0) -> Values:
    """part / whole, and `undefined` where whole is not positive."""
    out = np.full(len(part), undefined)
    np.divide(part, whole, out=out, where=whole > 0)
    return out
