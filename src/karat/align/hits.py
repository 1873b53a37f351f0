"""What every aligner returns, and how that becomes rankings."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from karat.errors import InputError, shown
from karat.model.policy import is_judged, is_relevant
from karat.model.qrels import is_ordered, ordered_by
from karat.model.rankings import Rankings
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.model.policy import Policy
    from karat.model.qrels import Qrels


class ReturnedDoc(NamedTuple):
    """A doc as it was returned, the doc that it is a chunk of, and the day of its version."""

    doc: str
    score: float | None
    parent: str
    version: float = float("nan")


class Extent(NamedTuple):
    """How far a run reaches: the gold ids that it holds, and the length of its longest list."""

    matches: int
    depth: int


class RepeatedDocs(Exception):
    """Docs that were returned twice where the policy refuses that: (query, doc) pairs."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        super().__init__()
        self.pairs = list(pairs)

    def as_error(self, name: str) -> InputError:
        """The error that names the run."""
        return InputError(
            f"{name}: query {shown(q)}, doc {shown(d)}: returned more than once; expected each doc once for a query. "
            'Remove the repeats, or count its best place: --duplicates first (in Python duplicates="first")'
            for q, d in self.pairs
        )


@dataclass(frozen=True)
class Hits:
    """Judged docs at their ranks.

    `gold` and `rank` are one row per judged doc that was returned (an index into the qrels, and its
    rank), in any order. `later_gold` and `later_rank` are further chunks of a doc that already took its grade.
    `returned` is the number of docs per query of the gold, −1 where the run lacks the query.
    """

    gold: NDArray[np.int64]
    rank: NDArray[np.int64]
    returned: NDArray[np.int64]
    later_gold: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    later_rank: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    without_gold: Sequence[str] = ()
    """The queries of the run that the gold lacks."""
    duplicates: int = 0
    ascending: int = 0
    """The queries whose scores only rise from row to row, where rows come with scores and in an order."""
    level: int = 0
    """The queries of several docs whose scores are all equal, where scores say the order."""
    at_doc: bool = False
    """Whether gold ids were matched with the docs that chunks belong to."""
    chunked: bool = False
    """Whether the run names chunks apart from their docs."""
    names_docs: bool = False
    """Whether the run's ids name whole docs."""
    as_chunks: int = 0
    """The gold ids that would match if ids that name docs were those of chunks, where these are more."""
    items: Mapping[int, Sequence[ReturnedDoc]] = field(default_factory=dict)
    """The top docs in their order, by query of the gold, where a metric needs them."""
    extent_before: Extent | None = None
    """How far the run reached before conventions dropped docs by their judgments, where one did."""
    empty_before: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The queries of the gold whose lists the run itself has empty, where conventions drop docs."""

    @property
    def gold_level(self) -> Literal["chunk", "doc"] | None:
        """Whether gold ids name chunks or docs, where that is known."""
        return "doc" if self.at_doc else "chunk" if self.chunked else "doc" if self.names_docs else None

    @property
    def extent(self) -> Extent:
        """How far the run reaches, whatever its docs are judged."""
        return self.extent_before or Extent(len(self.gold), int(self.returned.max(initial=0)))


@dataclass(frozen=True)
class Aligned:
    """Rankings of one run, and what was counted on the way."""

    rankings: Rankings
    counts: dict[str, int]
    qrels: Qrels
    queries: NDArray[np.int64]
    """Which queries of the qrels the rankings hold."""
    hits: Hits


def into_rankings(qrels: Qrels, hits: Hits, policy: Policy, no_answer: Sequence[str] = ()) -> Aligned:
    """Apply the policies on queries, and sort the hits by query and rank."""
    relevant = np.bincount(qrels.query_of[np.flatnonzero(is_relevant(qrels.grades))], minlength=len(qrels))
    keep = np.ones(len(qrels), dtype=bool)
    if no_answer:
        keep[[qrels.query_index[q] for q in no_answer if q in qrels.query_index]] = False
    absent, empty = (hits.returned < 0) & keep, (relevant == 0) & keep
    if policy.missing == "skip":
        keep &= ~absent
    if policy.empty_gold == "skip":
        keep &= ~empty
    counts = {
        "queries": int(np.count_nonzero(keep)),
        "missing": int(np.count_nonzero(absent)),
        "without_gold": len(set(hits.without_gold).difference(no_answer)),
        "empty_gold": int(np.count_nonzero(empty)),
        "no_answer": len(set(no_answer)),
        "duplicates": hits.duplicates,
        "depth": max(hits.extent.depth, 0),
    }
    if len(hits.empty_before):
        counts["empty_before"] = int(np.count_nonzero(keep[hits.empty_before]))
    returned = np.maximum(hits.returned, 0)
    later = (hits.later_gold, hits.later_rank)
    rankings = _rankings(qrels, keep, hits.gold, hits.rank, returned)
    if len(later[0]):
        earn = policy.chunk_credit == "all"
        rankings = replace(rankings, repeats=_rankings(qrels, keep, *later, returned), repeats_earn=earn)
    counts["unjudged_at_10"] = _count_unjudged(qrels, keep, hits, returned, upto=10)
    return Aligned(rankings, counts, qrels, np.flatnonzero(keep), hits)


def without_judgments(aligned: Aligned, no_answer: Sequence[str] = ()) -> Aligned:
    """The same lists for a run without gold: no doc counts as judged or unjudged, no query as lacking relevant docs."""
    none, empty = np.zeros(0, dtype=np.int64), np.zeros(0)
    rankings = replace(aligned.rankings, gold_query=none, gold_grade=empty)
    zero = {"empty_gold": 0, "unjudged_at_10": 0, "no_answer": len(set(no_answer))}
    return replace(aligned, rankings=rankings, counts={**aligned.counts, **zero})


def _rankings(
    qrels: Qrels, keep: NDArray[np.bool_], gold: NDArray[np.int64], rank: NDArray[np.int64], returned: NDArray[np.int64]
) -> Rankings:
    query = qrels.query_of[gold]
    if np.count_nonzero(keep) == len(keep):  # as nearly always: nothing is renumbered
        if not is_ordered(query, rank):
            rows = ordered_by(query, rank)
            query, rank, gold = query[rows], rank[rows], gold[rows]
        return Rankings(
            query_ids=qrels.query_ids,
            query=query,
            rank=rank,
            grade=qrels.grades[gold],
            returned=returned,
            gold_query=qrels.query_of,
            gold_grade=qrels.ideal_grades,
        )
    number = np.cumsum(keep) - 1
    rows = np.flatnonzero(keep[query])
    rows = rows[ordered_by(query[rows], rank[rows])]
    ideal = qrels.by_grade[keep[qrels.query_of[qrels.by_grade]]]
    return Rankings(
        query_ids=[q for q, k in zip(qrels.query_ids, keep, strict=True) if k],
        query=number[query[rows]],
        rank=rank[rows],
        grade=qrels.grades[gold[rows]],
        returned=returned[keep],
        gold_query=number[qrels.query_of[ideal]],
        gold_grade=qrels.grades[ideal],
    )


def _count_unjudged(qrels: Qrels, keep: NDArray[np.bool_], hits: Hits, returned: NDArray[np.int64], upto: int) -> int:
    """How many docs among the top ones have no judgment, over all queries that count."""
    deep = np.minimum(returned, upto)[keep].sum()
    count = 0
    for g, r in ((hits.gold, hits.rank), (hits.later_gold, hits.later_rank)):
        if len(g):
            top = g[r <= upto]
            count += int(np.count_nonzero(is_judged(qrels.grades[top]) & keep[qrels.query_of[top]]))
    return int(deep) - count
