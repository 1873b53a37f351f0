"""Align lists held in Python: a score per doc, or docs in order. Ranks only what is judged; ties by doc id."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain, islice, pairwise, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.align.compiled import align_dicts
from karat.align.hits import Hits, RepeatedDocs, ReturnedDoc
from karat.model.policy import parent_of
from karat.model.ranked_docs import RankedDocs, select_docs
from karat.model.rankings import place_in_group
from karat.model.run import OrderedLists, Rows, ScoredLists
from karat.model.strings import Strings
from karat.read.objects import check_scores

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.model.policy import Policy
    from karat.model.qrels import Qrels

_FEW = 250
"""With fewer judged docs than one in so many returned, each is counted for itself."""


def align_scored(qrels: Qrels, run: ScoredLists, policy: Policy, keep_items: int = 0) -> Hits:
    """The rank of a judged doc is 1 + the docs with a higher score + the tied ones with a greater id."""
    if (judged := align_dicts(qrels, run, policy)) is not None:
        top = _top([run.lists.get(q) for q in qrels.query_ids], policy, keep_items) if keep_items else {}
        without = _without_gold(run.lists, qrels, judged.returned)
        return Hits(judged.gold, judged.rank, judged.returned, without_gold=without, level=judged.level, items=top)
    mine: list[Mapping[str, float] | None] = [run.lists.get(q) for q in qrels.query_ids]
    returned = np.array([-1 if docs is None else len(docs) for docs in mine], dtype=np.int64)
    sizes = np.maximum(returned, 0)
    starts = np.cumsum(sizes) - sizes
    scores = _all_scores(mine, int(sizes.sum()))
    if scores is None:
        return align_scored(qrels, ScoredLists(check_scores(run.lists, run.source), run.source), policy, keep_items)
    scores = policy.comparable(scores)
    score = _scores_of_gold(qrels, mine)
    gold = np.flatnonzero(~np.isnan(score))
    score = policy.comparable(score[gold])
    query = qrels.query_of[gold]
    rank, ties = _count_higher(scores, starts, sizes, query, score)
    for q in dict.fromkeys(query[ties].tolist()):
        _rank_among_ties(qrels, mine[q] or {}, np.flatnonzero(query == q), gold, rank, policy)
    return Hits(
        gold,
        rank,
        returned,
        without_gold=_without_gold(run.lists, qrels, returned),
        level=_count_level(scores, starts, sizes),
        items=_top(mine, policy, keep_items),
    )


def _count_level(scores: NDArray[np.float64], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> int:
    """How many lists of several docs have but one score; lists whose first two scores differ are not looked through."""
    several = np.flatnonzero(sizes > 1)
    several = several[scores[starts[several]] == scores[starts[several] + 1]]
    lists = (scores[a : a + n] for a, n in zip(starts[several].tolist(), sizes[several].tolist(), strict=True))
    return sum(bool((own == own[0]).all()) for own in lists)


def count_level_lists(qrels: Qrels, run: ScoredLists, policy: Policy) -> int:
    """How many lists of judged queries hold several docs with one and the same score."""
    lists = [docs for q in qrels.query_ids if (docs := run.lists.get(q))]
    sizes = np.array([len(docs) for docs in lists], dtype=np.int64)
    scores = _all_scores(lists, int(sizes.sum()))
    return 0 if scores is None else _count_level(policy.comparable(scores), np.cumsum(sizes) - sizes, sizes)


def _without_gold(lists: Collection[str], qrels: Qrels, returned: NDArray[np.int64]) -> list[str]:
    """The queries that the gold lacks; nothing is looked up where it has all of them."""
    if len(lists) == np.count_nonzero(returned >= 0):
        return []
    return [q for q in lists if q not in qrels.query_index]


def _all_scores(lists: Sequence[Mapping[str, float] | None], count: int) -> NDArray[np.float64] | None:
    """The scores of all lists one after the other; None if one is not a finite number."""
    try:
        scores = np.fromiter(chain.from_iterable(docs.values() for docs in lists if docs), np.float64, count=count)
    except (TypeError, ValueError, OverflowError):
        return None
    return scores if np.isfinite(scores).all() else None


def _scores_of_gold(qrels: Qrels, lists: Sequence[Mapping[str, float] | None]) -> NDArray[np.float64]:
    """The score of each judged doc, NaN where it was not returned."""
    bounds, docs = qrels.offsets.tolist(), qrels.docs
    absent = repeat(math.nan)
    own = (
        map(scores.get, docs[a:b], absent) if scores else repeat(math.nan, b - a)
        for scores, (a, b) in zip(lists, pairwise(bounds), strict=True)
    )
    return np.fromiter(chain.from_iterable(own), np.float64, count=len(docs))


def _count_higher(
    scores: NDArray[np.float64],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    query: NDArray[np.int64],
    score: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """1 + the number of higher scores in its query, for each judged doc; and whether its score is tied."""
    if len(query) * _FEW <= len(scores):  # so few are judged that counting is cheaper than sorting
        rank, tied = np.empty(len(query), np.int64), np.empty(len(query), bool)
        ends = (starts + sizes).tolist()
        first = starts.tolist()
        for i, (q, own) in enumerate(zip(query.tolist(), score.tolist(), strict=True)):
            others = scores[first[q] : ends[q]]
            rank[i] = np.count_nonzero(others > own) + 1
            tied[i] = np.count_nonzero(others == own) > 1
        return rank, tied
    ascending = _sort_each(scores, starts, sizes)
    low, high = starts[query], starts[query] + sizes[query]
    first_place, last_place = low.copy(), high.copy()
    for _ in range(int(sizes.max(initial=0)).bit_length()):  # all bisections at once: the end of the own score
        middle = (low + high) >> 1
        right = (low < high) & (ascending[np.minimum(middle, len(ascending) - 1)] <= score)
        high = np.where(right | (low >= high), high, middle)
        low = np.where(right, middle + 1, low)
    below = np.maximum(low - 2, first_place)
    return last_place - low + 1, (below < low - 1) & (ascending[below] == score)


def _sort_each(scores: NDArray[np.float64], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Every query's scores in ascending order, in place."""
    width, count = int(sizes.max(initial=0)), int(np.count_nonzero(sizes))
    if width * count == len(scores):
        return np.sort(scores.reshape(count, width), axis=1).ravel() if width else scores
    if width * count <= 4 * len(scores):
        wide = np.full((count, width), np.inf)
        there = np.arange(width) < sizes[sizes > 0][:, None]
        wide[there] = scores
        wide.sort(axis=1)
        return wide[there]
    ascending = scores.copy()
    for a, b in zip(starts.tolist(), (starts + sizes).tolist(), strict=True):
        ascending[a:b].sort()
    return ascending


def _rank_among_ties(
    qrels: Qrels,
    docs: Mapping[str, float],
    rows: NDArray[np.int64],
    gold: NDArray[np.int64],
    rank: NDArray[np.int64],
    policy: Policy,
) -> None:
    """Put one query's docs in full order, and take the ranks from there."""
    place = {doc: i for i, (doc, _) in enumerate(rank_docs(docs, policy), start=1)}
    for row in rows.tolist():
        rank[row] = place[qrels.docs[int(gold[row])]]


def rank_docs(docs: Mapping[str, float], policy: Policy) -> list[tuple[str, float]]:
    """Docs by descending score, then by descending id. The order of code points is that of UTF-8 bytes."""
    ids = list(docs)
    values = policy.comparable(np.fromiter(docs.values(), np.float64, count=len(docs))).tolist()
    order = sorted(zip(values, ids, strict=True), reverse=True)
    return [(doc, docs[doc]) for _, doc in order]


def _top(lists: Sequence[Mapping[str, float] | None], policy: Policy, depth: int) -> dict[int, list[ReturnedDoc]]:
    if not depth:
        return {}
    mark = policy.separator
    return {
        q: [ReturnedDoc(doc, score, parent_of(doc, mark)) for doc, score in rank_docs(docs, policy)[:depth]]
        for q, docs in enumerate(lists)
        if docs is not None
    }


def align_ordered(qrels: Qrels, run: OrderedLists, policy: Policy, at_doc: bool, keep_items: int = 0) -> Hits:
    """The rank of a doc is its place in the list; a doc that comes again is dropped."""
    returned = np.full(len(qrels), -1, dtype=np.int64)
    duplicates, repeats = 0, []
    gold: list[int] = []
    rank: list[int] = []
    later: list[tuple[int, int]] = []
    items: dict[int, list[ReturnedDoc]] = {}
    bounds = qrels.offsets.tolist()
    for i, query in enumerate(qrels.query_ids):
        docs = run.lists.get(query)
        if docs is None:
            continue
        places = dict(zip(docs, range(len(docs)), strict=True))
        repeated = len(places) < len(docs)
        if repeated:
            places, again = _first_places(docs)
            duplicates += len(again)
            if policy.duplicates == "error":
                repeats += [(query, doc) for doc in again]
        returned[i] = len(places)
        grades = {doc: g for g, doc in enumerate(qrels.docs[bounds[i] : bounds[i + 1]], start=bounds[i])}
        parents = (run.parents.get(query) if run.parents else None) or (
            [parent_of(doc, policy.separator) for doc in docs] if at_doc or keep_items else ()
        )
        if at_doc:
            credits: set[int] = set()
            if not grades.keys().isdisjoint(parents):
                for n, place in enumerate(places.values(), start=1):
                    g = grades.get(parents[place])
                    if g is not None and g in credits:
                        later.append((g, n))
                    elif g is not None:
                        credits.add(g)
                        gold.append(g)
                        rank.append(n)
        else:
            order = {doc: n for n, doc in enumerate(places)} if repeated else places
            matches = sorted((order[doc], g) for doc, g in grades.items() if doc in order)
            gold += [g for _, g in matches]
            rank += [n + 1 for n, _ in matches]
        if keep_items:
            scores = (run.scores.get(query) if run.scores else None) or [None] * len(docs)
            days = (run.versions.get(query) if run.versions else None) or [math.nan] * len(docs)
            columns: list[Sequence[Any]] = [docs, scores, parents, days]
            if repeated:
                columns = [[column[place] for place in places.values()] for column in columns]
            items[i] = list(islice(map(ReturnedDoc, *columns), keep_items))
    if repeats:
        raise RepeatedDocs(repeats)
    return Hits(
        np.array(gold, dtype=np.int64),
        np.array(rank, dtype=np.int64),
        returned,
        np.array([g for g, _ in later], dtype=np.int64),
        np.array([n for _, n in later], dtype=np.int64),
        without_gold=_without_gold(run.lists, qrels, returned),
        duplicates=duplicates,
        items=items,
    )


def _first_places(docs: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """The first place of each doc of a list, and the docs that come again."""
    places: dict[str, int] = {}
    again = []
    for place, doc in enumerate(docs):
        if doc in places:
            again.append(doc)
        else:
            places[doc] = place
    return places, again


def align_selected(qrels: Qrels, run: OrderedLists, policy: Policy, at_doc: bool, keep_items: int = 0) -> Hits:
    """Align the docs that count by the policy; what was returned is counted before judgments drop docs."""
    run = select_lists(qrels, run, policy, at_doc, by_gold=False)
    hits = align_ordered(qrels, run, policy, at_doc, keep_items)
    if not policy.selects_by_gold:
        return hits
    run = select_lists(qrels, run, policy, at_doc, by_gold=True)
    chosen = align_ordered(qrels, run, replace(policy, duplicates="first"), at_doc, keep_items)
    return replace(chosen, duplicates=hits.duplicates, extent_before=hits.extent)


def select_lists(qrels: Qrels, run: OrderedLists, policy: Policy, at_doc: bool, *, by_gold: bool) -> OrderedLists:
    """The lists without the docs that do not count by the policy; repeated docs are last.

    With `by_gold` judgments say what counts: queries without gold keep their docs.
    """
    if not policy.selections(by_gold=by_gold):
        return run
    queries = [q for q in run.lists if not by_gold or q in qrels.query_index]
    first: dict[tuple[int, str], int] = {}
    again: list[tuple[int, str, int]] = []
    grades: list[float] = []
    for number, query in enumerate(queries):
        graded = qrels.for_query(query)
        whole = run.parents.get(query) if run.parents else None
        for place, doc in enumerate(run.lists[query]):
            if (number, doc) in first:
                again.append((number, doc, place))
                continue
            first[number, doc] = place
            parent = doc if not at_doc else whole[place] if whole is not None else parent_of(doc, policy.separator)
            grades.append(graded.get(parent, math.nan))
    group = np.array([number for number, _ in first], dtype=np.int64)
    scores = [run.scores[queries[n]][p] if run.scores else None for (n, _), p in first.items()]
    docs = RankedDocs(
        group,
        place_in_group(group),
        Strings.of(queries).take(group),
        Strings.of(doc for _, doc in first),
        lambda: np.array(scores, dtype=np.float64),
        np.array(grades, dtype=np.float64),
    )
    rows = list(first.items())
    chosen = dict(rows[row] for row in select_docs(docs, policy, by_gold=by_gold).tolist())
    places: dict[str, list[int]] = {q: [] for q in queries}
    for number, _, place in [*((*key, place) for key, place in chosen.items()), *(a for a in again if a[:2] in chosen)]:
        places[queries[number]].append(place)

    def pick(lists: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
        return {q: [own[place] for place in places[q]] if q in places else own for q, own in lists.items()}

    columns = (pick(column) if column is not None else None for column in (run.parents, run.scores, run.versions))
    return OrderedLists(pick(run.lists), *columns)


def rows_of_lists(run: ScoredLists) -> Rows | None:
    """Scored lists as columns, query by query; None where a query returned nothing, which rows cannot say."""
    if not all(run.lists.values()):
        return None
    sizes = [len(docs) for docs in run.lists.values()]
    scores = _all_scores(list(run.lists.values()), sum(sizes))
    if scores is None:
        return rows_of_lists(replace(run, lists=check_scores(run.lists, run.source)))
    query = Strings.of(run.lists).take(np.repeat(np.arange(len(sizes)), sizes))
    return Rows(query, Strings.of(chain.from_iterable(run.lists.values())), scores)


def add_parents(content: Any, corpus: Mapping[str, str], policy: Policy) -> Any:
    """Lists with the docs that the corpus names for their chunks, where the run itself names none."""
    if not corpus or not isinstance(content, (ScoredLists, OrderedLists)):
        return content
    lists = order_lists(content, policy) if isinstance(content, ScoredLists) else content

    def parents(query: str, chunks: Sequence[str]) -> list[str]:
        derived = [parent_of(chunk, policy.separator) for chunk in chunks]
        names = lists.parents.get(query, derived) if lists.parents else derived
        return [
            corpus.get(chunk, name) if name == own else name
            for chunk, name, own in zip(chunks, names, derived, strict=True)
        ]

    return replace(lists, parents={q: parents(q, chunks) for q, chunks in lists.lists.items()})


def order_lists(run: ScoredLists, policy: Policy) -> OrderedLists:
    """Scored lists as ordered ones."""
    order = {q: rank_docs(docs, policy) for q, docs in run.lists.items()}
    scores: Any = {q: [s for _, s in docs] for q, docs in order.items()}
    return OrderedLists({q: [d for d, _ in docs] for q, docs in order.items()}, scores=scores)
