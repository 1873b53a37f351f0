"""Align rows held as columns: text blocks, tables, frames; ties by doc id; chunk → doc (`derive_parents`).

The rows of a query stand together here. Whether they do, whether they are in order and whether a
doc comes twice is checked on every row; most runs pass, and then a rank is a position.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from karat.align.hits import Extent, Hits, RepeatedDocs
from karat.align.top_docs import TopDocs
from karat.errors import MAX_PROBLEMS
from karat.model.decimals import exact_decimals
from karat.model.ranked_docs import RankedDocs, select_docs
from karat.model.rankings import place_in_group
from karat.model.strings import Strings, equal_words
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karat.align.gold import GoldIndex
    from karat.align.hits import ReturnedDoc
    from karat.model.policy import Policy
    from karat.model.run import Rows
    from karat.model.strings import Indices, Words

    Mask = NDArray[np.bool_]

_scratch = threading.local()


class NotGrouped(Exception):
    """A query's rows stand apart from each other."""


@dataclass(frozen=True, slots=True)
class BlockHits:
    """The hits of one block of whole queries."""

    queries: Indices
    returned: Indices
    gold: Indices
    rank: Indices
    later_gold: Indices
    later_rank: Indices
    without_gold: tuple[bytes, ...]
    duplicates: int
    ascending: int
    level: int
    repeats: list[tuple[str, str]]
    items: Mapping[int, Sequence[ReturnedDoc]]
    extent: Extent | None


def group_rows(rows: Rows) -> Rows:
    """The rows with those of each query brought together, in the order the queries first appear."""
    first: dict[bytes, int] = {}
    starts = rows.query.starts()
    codes = [first.setdefault(q, len(first)) for q in rows.query.take(starts).bytes()]
    if len(first) == len(starts):
        return rows
    code = np.repeat(np.array(codes), np.diff(starts, append=len(rows)))
    return rows.take(np.argsort(code, kind="stable"))


def align_block(rows: Rows, gold: GoldIndex, policy: Policy, at_doc: bool, keep_items: int = 0) -> BlockHits:
    """Find the judged docs of a block of whole queries, with their ranks; by their parents if `at_doc`."""
    starts = rows.query.starts()
    ids = rows.query.take(starts)
    names = ids.bytes()
    if len(set(names)) < len(names):
        raise NotGrouped
    numbers = gold.number_queries(ids)
    without = tuple(name for name, i in zip(names, numbers.tolist(), strict=True) if i < 0)
    lengths = np.diff(starts, append=len(rows))
    if without:
        rows = rows.take(np.flatnonzero(np.repeat(numbers >= 0, lengths)))
        numbers, lengths = numbers[numbers >= 0], lengths[numbers >= 0]
    starts = np.cumsum(lengths) - lengths
    group = np.repeat(np.arange(len(numbers)), lengths)
    query = numbers[group]
    words = rows.doc.words()
    keys = gold.keys(words, query)
    rank = np.arange(1, len(rows) + 1) - starts[group]
    repeats = _find_repeats(keys)
    scores, unsorted, ascending, level = _order(rows, words, group, policy)
    again = np.concatenate((group[repeats], unsorted))
    dropped = np.zeros(0, dtype=np.int64)
    if len(again):
        dropped = _rerank(rows, scores, words, keys, group, again, rank, policy)
    if not at_doc or rows.parent is None:
        hits, which = gold.find(keys, words, query)
    else:
        whole = rows.parent.words()
        hits, which = gold.find(gold.keys(whole, query), whole, query)
    keep = rank[hits] > 0
    hits, which = hits[keep], which[keep]
    extent = None
    if policy.selects:
        grade = np.full(len(rows), np.nan)
        grade[hits] = gold.grades[which]
        rank = _select(rows, group, rank, grade, policy, by_gold=False)
        if len(dropped):  # a doc that does not count is no duplicate
            dropped = dropped[np.isin(keys[dropped], keys[rank > 0])]
        extent = Extent(len(np.unique(which[rank[hits] > 0])), int(rank.max(initial=0)))
        rank = _select(rows, group, rank, grade, policy, by_gold=True)
        keep = rank[hits] > 0
        hits, which = hits[keep], which[keep]
    pairs: list[tuple[str, str]] = []
    if len(dropped) and policy.duplicates == "error":
        some = rows.take(dropped[: MAX_PROBLEMS + 1])
        pairs = list(zip(some.query.texts(), some.doc.texts(), strict=True))
    if len(dropped) or policy.selects:
        lengths = np.bincount(group[rank > 0], minlength=len(numbers))
    later = np.zeros(len(hits), dtype=bool)
    if at_doc:
        order = np.lexsort((rank[hits], which))
        hits, which = hits[order], which[order]
        later = np.concatenate(([False], which[1:] == which[:-1]))[: len(which)]
    return BlockHits(
        queries=numbers,
        returned=lengths,
        gold=which[~later],
        rank=rank[hits[~later]],
        later_gold=which[later],
        later_rank=rank[hits[later]],
        without_gold=without,
        duplicates=len(dropped),
        ascending=ascending,
        level=level,
        repeats=pairs,
        items=_items(rows, rank, query, keep_items),
        extent=extent,
    )


def join_blocks(parts: Sequence[BlockHits], size: int) -> Hits:
    """The parts of all blocks as one; a query in two of them was not grouped."""
    queries = np.concatenate([p.queries for p in parts]) if parts else np.zeros(0, np.int64)
    if (np.bincount(queries, minlength=size) > 1).any():
        raise NotGrouped
    pairs = [pair for p in parts for pair in p.repeats]
    if pairs:
        raise RepeatedDocs(pairs)
    returned = np.full(size, -1, dtype=np.int64)
    for p in parts:
        returned[p.queries] = p.returned

    def join(name: str) -> Indices:
        return np.concatenate([getattr(p, name) for p in parts]) if parts else np.zeros(0, np.int64)

    return Hits(
        gold=join("gold"),
        rank=join("rank"),
        returned=returned,
        later_gold=join("later_gold"),
        later_rank=join("later_rank"),
        without_gold=[q.decode() for q in dict.fromkeys(q for p in parts for q in p.without_gold)],
        duplicates=sum(p.duplicates for p in parts),
        ascending=sum(p.ascending for p in parts),
        level=sum(p.level for p in parts),
        items=_join_items([p.items for p in parts]),
        extent_before=_join_extents([p.extent for p in parts if p.extent is not None]),
    )


def _join_items(items: Sequence[Mapping[int, Sequence[ReturnedDoc]]]) -> Mapping[int, Sequence[ReturnedDoc]]:
    columns = [top for top in items if isinstance(top, TopDocs)]
    if columns and len(columns) == len(items):
        return TopDocs.join(columns)
    return {q: top for tops in items for q, top in tops.items()}


def _join_extents(extents: Sequence[Extent]) -> Extent | None:
    if not extents:
        return None
    return Extent(sum(e.matches for e in extents), max(e.depth for e in extents))


def derive_parents(chunks: Strings, separator: str) -> Strings:
    """The part of each id before the separator; the whole id where there is none."""
    if not separator:
        return chunks
    mark = separator.encode()
    hit = chunks.buffer[: len(chunks.buffer) - len(mark) + 1] == mark[0]
    for i, byte in enumerate(mark[1:], start=1):
        hit &= chunks.buffer[i : len(chunks.buffer) - len(mark) + 1 + i] == byte
    places = np.append(np.flatnonzero(hit), len(chunks.buffer))
    first = places[np.searchsorted(places, chunks.start)]
    return Strings(chunks.buffer, chunks.start, np.where(first + len(mark) <= chunks.end, first, chunks.end))


def _find_repeats(keys: Words) -> Indices:
    """Rows whose key another row has too. A scatter table finds them without sorting."""
    if len(keys) < 2:
        return np.zeros(0, dtype=np.int64)
    bits = max(12, (len(keys) * 8).bit_length())
    table = getattr(_scratch, "table", None)
    if table is None or len(table) < 1 << bits:
        table = _scratch.table = np.empty(1 << bits, dtype=np.int32)
    slot = (keys >> np.uint64(64 - bits)).view(np.int64)
    row = np.arange(len(keys), dtype=np.int32)
    table[slot] = row  # needs no clearing: every slot that is read was written just now
    winner = table[slot]
    lost = np.flatnonzero(winner != row)
    if len(lost) == 0:
        return lost
    twice = lost[keys[lost] == keys[winner[lost]]]
    among = np.sort(keys[lost])
    shared = among[1:][among[1:] == among[:-1]]
    return twice if len(shared) == 0 else np.concatenate((twice, lost[np.isin(keys[lost], shared)]))


def _order(
    rows: Rows, words: list[Words], group: Indices, policy: Policy
) -> tuple[NDArray[np.float64], Indices, int, int]:
    """The scores as they are compared, the groups that are not in order, how many only rise, how many are all equal."""
    scores = rows.score
    if len(rows) < 2:
        return scores, np.zeros(0, dtype=np.int64), 0, 0
    within = group[1:] == group[:-1]
    if rows.near is not None:
        scores = _settle_close_scores(rows, scores, within, policy)
    scores = policy.comparable(scores)
    rising = (scores[1:] > scores[:-1]) & within
    tied = np.flatnonzero((scores[1:] == scores[:-1]) & within)
    wrong = np.flatnonzero(rising)
    ascending = level = 0
    if len(wrong):
        only = np.zeros(int(group[-1]) + 1, dtype=bool)
        only[group[wrong]] = True
        only[group[1:][(scores[1:] < scores[:-1]) & within]] = False
        ascending = int(only.sum())
    if len(tied):
        steps = np.bincount(group[tied], minlength=int(group[-1]) + 1)
        level = int(((steps > 0) & (steps == np.bincount(group) - 1)).sum())
        both = rows.doc.ordered_words(words, np.concatenate((tied + 1, tied)))
        here, above = ([w[part] for w in both] for part in (slice(len(tied)), slice(len(tied), None)))
        wrong = np.concatenate((wrong, tied[greater_words(here, above)]))
    return scores, group[wrong], ascending, level


def _settle_close_scores(rows: Rows, scores: NDArray[np.float64], within: Mask, policy: Policy) -> NDArray[np.float64]:
    """Replace scores that are only near by exact ones, wherever that could change the order."""
    assert rows.near is not None
    margin = np.abs(scores) * 2.0**-50
    close = within & (np.abs(scores[1:] - scores[:-1]) <= np.maximum(margin[1:], margin[:-1]))
    unsure = np.zeros(len(rows), dtype=bool)
    unsure[1:] |= close
    unsure[:-1] |= close
    if policy.score_precision == "float32":
        unsure |= policy.comparable(scores - margin) != policy.comparable(scores + margin)
    return refine_scores(rows, scores, np.flatnonzero(unsure & rows.near))


def refine_scores(rows: Rows, scores: NDArray[np.float64], where: Indices) -> NDArray[np.float64]:
    """The scores with those of these rows read exactly."""
    if len(where) == 0 or rows.score_text is None:
        return scores
    scores = scores.copy()
    scores[where] = exact_decimals(rows.score_text.take(where))[0]
    return scores


def greater_words(a: list[Words], b: list[Words]) -> Mask:
    """Where string a is greater than string b; equal strings are not."""
    out = np.zeros(len(a[0]), dtype=bool)
    same = np.ones(len(a[0]), dtype=bool)
    for x, y in zip(a, b, strict=True):
        out |= same & (x > y)
        same &= x == y
    return out


def _rerank(
    rows: Rows,
    scores: NDArray[np.float64],
    words: list[Words],
    keys: Words,
    group: Indices,
    again: Indices,
    rank: Indices,
    policy: Policy,
) -> Indices:
    """Sort the groups that need it, give their rows new ranks (0 for a repeated doc); the rows dropped."""
    flagged = np.zeros(int(group[-1]) + 1, dtype=bool)
    flagged[again] = True
    sub = np.flatnonzero(flagged[group])
    if rows.near is not None:
        scores = policy.comparable(refine_scores(rows, scores, sub[rows.near[sub]]))
    turned = rows.doc.ordered_words(words, sub)
    sub = sub[np.lexsort((*(~w for w in reversed(turned)), -scores[sub], group[sub]))]
    by_key = np.argsort(keys[sub], kind="stable")
    neighbours = sub[by_key]
    twin = np.zeros(len(sub), dtype=bool)
    same = (keys[neighbours[1:]] == keys[neighbours[:-1]]) & equal_words(
        [w[neighbours[1:]] for w in words], [w[neighbours[:-1]] for w in words]
    )
    twin[by_key[1:][same]] = True
    firsts, dropped = sub[~twin], sub[twin]
    rank[firsts] = place_in_group(group[firsts])
    rank[dropped] = 0
    return np.sort(dropped)


def _select(
    rows: Rows, group: Indices, rank: Indices, grade: NDArray[np.float64], policy: Policy, *, by_gold: bool
) -> Indices:
    """The ranks among the docs that count; 0 for the others."""
    if not policy.selections(by_gold=by_gold):
        return rank
    order = np.flatnonzero(rank > 0)
    order = order[np.lexsort((rank[order], group[order]))]

    def scores() -> NDArray[np.float64]:
        return (rows.score if rows.near is None else refine_scores(rows, rows.score, np.flatnonzero(rows.near)))[order]

    ids = rows.query.take(order), rows.doc.take(order)
    docs = RankedDocs(group[order], rank[order], *ids, scores, grade[order])
    chosen = order[select_docs(docs, policy, by_gold=by_gold)]
    places = np.zeros(len(rank), dtype=np.int64)
    places[chosen] = place_in_group(group[chosen])
    return places


def _items(rows: Rows, rank: Indices, query: Indices, depth: int) -> Mapping[int, Sequence[ReturnedDoc]]:
    if depth == 0 or rows.parent is None:
        return {}
    top = np.flatnonzero((rank > 0) & (rank <= depth))
    top = top[np.lexsort((rank[top], query[top]))]
    score = refine_scores(rows, rows.score, top[rows.near[top]]) if rows.near is not None else rows.score
    if rows.own_score is not None:
        score = rows.own_score
    version = rows.version[top] if rows.version is not None else None
    return TopDocs.of(query[top], rows.doc.take(top), rows.parent.take(top), score[top], version)
