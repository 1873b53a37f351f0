"""Align lists held in Python: a score per doc, or docs in order. Ranks only what is judged."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.align.found import Found
from karat.errors import InputError, shown
from karat.model.run import OrderedLists

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.run import ScoredLists

_SHORT = 64
"""Lists up to this length are counted through together; longer ones one by one."""


def align_scored(qrels: Qrels, run: ScoredLists, policy: Policy, keep_items: int = 0) -> Found:
    """The rank of a judged doc is 1 + the docs with a higher score + the tied ones with a greater id."""
    lists = run.lists
    if policy.ignore_self:
        lists = {q: {d: s for d, s in docs.items() if d != q} for q, docs in lists.items()}
    mine: list[Mapping[str, float] | None] = [lists.get(q) for q in qrels.query_ids]
    returned = np.array([-1 if docs is None else len(docs) for docs in mine], dtype=np.int64)
    sizes = np.maximum(returned, 0)
    starts = np.cumsum(sizes) - sizes
    scores = np.fromiter(
        chain.from_iterable(docs.values() for docs in mine if docs), dtype=np.float64, count=int(sizes.sum())
    )
    if policy.score_precision == "float32":
        scores = scores.astype(np.float32).astype(np.float64)
    bounds, docs = qrels.offsets.tolist(), qrels.docs
    gold: list[int] = []
    own: list[float] = []
    for i, scored in enumerate(mine):
        if scored:
            get = scored.get
            for g in range(bounds[i], bounds[i + 1]):
                value = get(docs[g])
                if value is not None:
                    gold.append(g)
                    own.append(value)
    found = np.array(gold, dtype=np.int64)
    score = np.array(own, dtype=np.float64)
    if policy.score_precision == "float32":
        score = score.astype(np.float32).astype(np.float64)
    query = qrels.query_of[found]
    rank, ties = _counted(scores, starts, sizes, query, score)
    for q in np.unique(query[ties]).tolist():
        _ranked_among_ties(qrels, mine[q] or {}, np.flatnonzero(query == q), found, rank, policy)
    return Found(
        found,
        rank,
        returned,
        without_gold=sum(1 for q in lists if q not in qrels.query_index),
        items=_top(mine, policy, keep_items),
    )


def _counted(
    scores: NDArray[np.float64],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    query: NDArray[np.int64],
    score: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """1 + the number of higher scores in its query, for each judged doc; and whether its score is tied."""
    higher = np.zeros(len(query), dtype=np.int64)
    level = np.zeros(len(query), dtype=np.int64)
    short = sizes[query] <= _SHORT
    rows = np.flatnonzero(short)
    if len(rows):
        size = sizes[query[rows]]
        ends = np.cumsum(size)
        owner = np.repeat(np.arange(len(rows)), size)
        place = np.arange(int(ends[-1])) - np.repeat(ends - size, size) + starts[query[rows]][owner]
        others, mine = scores[place], score[rows][owner]
        higher[rows] = np.bincount(owner[others > mine], minlength=len(rows))
        level[rows] = np.bincount(owner[others == mine], minlength=len(rows))
    rows = np.flatnonzero(~short)
    cuts = np.flatnonzero(np.diff(query[rows], prepend=-1)).tolist() + [len(rows)]
    first, count = starts.tolist(), sizes.tolist()
    for a, b in pairwise(cuts):
        chosen = rows[a:b]
        q = int(query[chosen[0]])
        all_scores = scores[first[q] : first[q] + count[q]]
        if b - a <= 4:
            for row in chosen.tolist():
                higher[row] = np.count_nonzero(all_scores > score[row])
                level[row] = np.count_nonzero(all_scores == score[row])
        else:
            ordered = np.sort(all_scores)
            upto = np.searchsorted(ordered, score[chosen], side="right")
            higher[chosen] = len(ordered) - upto
            level[chosen] = upto - np.searchsorted(ordered, score[chosen], side="left")
    return higher + 1, level > 1


def _ranked_among_ties(
    qrels: Qrels,
    docs: Mapping[str, float],
    rows: NDArray[np.int64],
    found: NDArray[np.int64],
    rank: NDArray[np.int64],
    policy: Policy,
) -> None:
    """Put one query's docs in full order, and take the ranks from there."""
    place = {doc: i for i, (doc, _) in enumerate(ranked(docs, policy), start=1)}
    for row in rows.tolist():
        rank[row] = place[qrels.docs[int(found[row])]]


def ranked(docs: Mapping[str, float], policy: Policy) -> list[tuple[str, float]]:
    """Docs by falling score, then by falling id. The order of code points is that of UTF-8 bytes."""
    if policy.score_precision == "float32":
        rounded = {d: float(np.float32(s)) for d, s in docs.items()}
        return [(d, docs[d]) for d in sorted(docs, key=lambda d: (rounded[d], d), reverse=True)]
    return sorted(docs.items(), key=lambda item: (item[1], item[0]), reverse=True)


def _top(
    lists: Sequence[Mapping[str, float] | None], policy: Policy, depth: int
) -> dict[int, list[tuple[str, float | None]]]:
    if not depth:
        return {}
    return {q: list(ranked(docs, policy)[:depth]) for q, docs in enumerate(lists) if docs is not None}


def align_ordered(qrels: Qrels, run: OrderedLists, policy: Policy, at_doc: bool, keep_items: int = 0) -> Found:
    """The rank of a doc is its place in the list; a doc that comes again is dropped."""
    returned = np.full(len(qrels), -1, dtype=np.int64)
    duplicates, repeats = 0, []
    gold: list[int] = []
    rank: list[int] = []
    later: list[tuple[int, int]] = []
    items: dict[int, list[tuple[str, float | None]]] = {}
    bounds = qrels.offsets.tolist()
    for i, query in enumerate(qrels.query_ids):
        listed = run.lists.get(query)
        if listed is None:
            continue
        places: dict[str, int] = {}
        for place, doc in enumerate(listed):
            if doc in places:
                duplicates += 1
                if policy.duplicates == "error":
                    repeats.append((query, doc))
            elif not (policy.ignore_self and doc == query):
                places[doc] = place
        returned[i] = len(places)
        grades = {doc: g for g, doc in enumerate(qrels.docs[bounds[i] : bounds[i + 1]], start=bounds[i])}
        if at_doc:
            whole = run.parents.get(query) if run.parents else None
            seen: set[int] = set()
            for n, (chunk, place) in enumerate(places.items(), start=1):
                parent = whole[place] if whole is not None else chunk.partition(policy.separator)[0]
                g = grades.get(parent)
                if g is not None and g in seen:
                    later.append((g, n))
                elif g is not None:
                    seen.add(g)
                    gold.append(g)
                    rank.append(n)
        else:
            for n, doc in enumerate(places, start=1):
                if doc in grades:
                    gold.append(grades[doc])
                    rank.append(n)
        if keep_items:
            scores = run.scores.get(query) if run.scores else None
            items[i] = [(d, scores[p] if scores else None) for d, p in list(places.items())[:keep_items]]
    if repeats:
        raise InputError(
            f"query {shown(q)}, doc {shown(d)}: returned more than once; expected each doc once for a query. "
            "Remove the repeats, or use duplicates=first to count its best place"
            for q, d in repeats
        )
    return Found(
        np.array(gold, dtype=np.int64),
        np.array(rank, dtype=np.int64),
        returned,
        np.array([g for g, _ in later], dtype=np.int64),
        np.array([n for _, n in later], dtype=np.int64),
        without_gold=sum(1 for q in run.lists if q not in qrels.query_index),
        duplicates=duplicates,
        items=items,
    )


def ordered(run: ScoredLists, policy: Policy) -> OrderedLists:
    """Scored lists as ordered ones."""
    order = {q: ranked(docs, policy) for q, docs in run.lists.items()}
    scores: Any = {q: [s for _, s in docs] for q, docs in order.items()}
    return OrderedLists({q: [d for d, _ in docs] for q, docs in order.items()}, scores=scores)
