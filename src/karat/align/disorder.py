"""Align rows of any order: two passes over a file count what stands above each judged doc, and nothing is sorted.

The first pass finds the judged docs with their scores, and keeps a 64-bit key of every row. The second one counts the
rows with a higher score, or with the same one and a greater id. Rows whose key occurs again are put aside, compared by
their ids, and counted once. What needs whole lists (top docs, conventions that drop docs) is aligned a share of the
queries at a time.
"""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from karat.align.columns import align_block, greater_words, group_rows, join_blocks, refine_scores
from karat.align.compiled import Tally, count_rows, disorder_kernel, pick_keys
from karat.align.hits import Hits, RepeatedDocs
from karat.align.stream import fill_parents, in_order
from karat.errors import MAX_PROBLEMS
from karat.model.run import Rows
from karat.model.strings import DENSE, PAD, Strings
from karat.read.textfile import join_rows, join_strings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.align.compiled import TextKernel
    from karat.align.gold import GoldIndex
    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.run import StreamedFile
    from karat.model.strings import Indices, Words

    Scores = NDArray[np.float64]

ROWS_AT_ONCE = 4_000_000
"""Rows of whole lists that are held together; more are aligned a share of the queries at a time."""
BYTES_PER_ROW = 250
"""What a row of a list takes while it is aligned, measured generously."""
KEYS_AT_ONCE = 1 << 23
"""Keys that are sorted together to find those that occur again."""
PAIRS_AT_ONCE = 1 << 19
"""Pairs of a row and a judged doc with the same score whose ids are compared together."""


class _Seen(NamedTuple):
    """What the first pass finds in a block: judged rows (with their numbers in the file), a key of each row."""

    gold: Indices
    query: Indices
    score: Scores
    doc: Strings
    place: Indices
    keys: Words
    without_gold: tuple[bytes, ...]


class _Found(NamedTuple):
    """What the kernel knows of rows beside what they hold: their keys, and the judgment of each, or −1."""

    keys: Words
    gold: Indices


class _Aside(NamedTuple):
    """Rows whose key occurs again."""

    query: Indices
    score: Scores
    doc: Strings
    place: Indices


def align_disorder(
    qrels: Qrels,
    gold: GoldIndex,
    file: StreamedFile,
    policy: Policy,
    *,
    at_doc: bool,
    threads: int,
    memory: int | None,
    keep_items: int,
    separator: bytes,
    separators: list[bool],
    parents: Mapping[str, str],
) -> Hits:
    """Align a file whose rows may stand in any order; `separators` is as in `align_stream`."""
    source = _Source(gold, file, policy, at_doc, threads, keep_items, parents)
    if not (at_doc or keep_items or policy.selects):
        source.kernel = disorder_kernel(qrels, file, policy, gold.salt)
    if separator and not separators:
        source.watch = lambda block: None if separators or not block.holds(separator) else separators.append(True)
    if policy.selects or keep_items:
        return _align_shares(qrels, source, memory)
    parts = source.read(partial(_look, source))
    judged = _Judged(qrels, parts)
    again = _repeated_keys([part.keys for part in parts])
    without = tuple(name for part in parts for name in part.without_gold)
    del parts
    source.keys = len(again) > 0
    counts = _Counts(judged, policy)

    def count(number: int, rows: Rows, query: Indices, found: _Found | None) -> _Aside | None:
        aside = None
        if len(again):
            numbers = np.arange(len(rows)) + (number << 32)
            keys = gold.keys(rows.doc.words(), query) if found is None else found.keys
            twice = again[np.minimum(np.searchsorted(again, keys), len(again) - 1)] == keys
            if twice.any():
                some, others = np.flatnonzero(twice), np.flatnonzero(~twice)
                scores = policy.comparable(_exact(rows, some))
                aside = _Aside(query[some], scores, _compact(rows.doc.take(some)), numbers[some])
                rows, query = rows.take(others), query[others]
        counts.add(rows, query)
        return aside

    aside = [part for part in source.read(count) if part is not None]
    dropped = _resolve(qrels, aside, counts, policy) if aside else np.zeros(0, dtype=np.int64)
    counts.close()
    returned = counts.returned
    rank = counts.ranks()
    keep = ~np.isin(judged.place, dropped)
    which, rank = judged.gold[keep], rank[keep]
    order = np.lexsort((rank, which))
    which, rank = which[order], rank[order]
    later = np.concatenate(([False], which[1:] == which[:-1]))[: len(which)]
    return Hits(
        gold=which[~later],
        rank=rank[~later],
        returned=np.where(returned > 0, returned, -1),
        later_gold=which[later],
        later_rank=rank[later],
        without_gold=[name.decode() for name in dict.fromkeys(without)],
        duplicates=len(dropped),
        level=counts.level(),
    )


class _Source:
    """A file, and how its blocks become rows of judged queries."""

    def __init__(
        self,
        gold: GoldIndex,
        file: StreamedFile,
        policy: Policy,
        at_doc: bool,
        threads: int,
        keep_items: int,
        parents: Mapping[str, str],
    ) -> None:
        self.gold, self.policy, self.at_doc, self.keep_items = gold, policy, at_doc, keep_items
        self._file, self._threads, self._parents = file, threads, parents
        self.without_gold: dict[int, tuple[bytes, ...]] = {}
        """The queries in each block that the gold lacks."""
        self.watch: Callable[[Any], None] = lambda block: None
        """Sees every block."""
        self.kernel: TextKernel | None = None
        self.keys = True
        """Whether keys and judgments of rows are asked for."""
        self._spare: list[bytearray] = []

    def read(self, work: Callable[[int, Rows, Indices, _Found | None], Any]) -> list[Any]:
        """The work on each block: its number, its rows of judged queries, the query of each, and what else is known.

        Nothing of the text may be kept: the next blocks are read into its buffers.
        """

        def step(block: tuple[int, Any]) -> Any:
            number, content = block
            self.watch(content)
            numbered = self.kernel.number(content, keys=self.keys) if self.kernel is not None else None
            if numbered is not None:
                if numbered.without_gold:
                    self.without_gold[number] = numbered.without_gold
                done = work(number, numbered.rows, numbered.query, _Found(numbered.keys, numbered.gold))
                self._spare.extend(content.buffers)
                return done
            rows = self._file.rows(content)
            query = self.gold.number_queries(rows.query)
            if (query < 0).any():
                names = rows.query.take(query < 0)
                self.without_gold[number] = tuple(dict.fromkeys(names.bytes()))
                rows, query = rows.take(np.flatnonzero(query >= 0)), query[query >= 0]
            rows = fill_parents(rows, self.policy, self._parents, needed=self.at_doc or self.keep_items > 0)
            return work(number, rows, query, None)

        with closing(self._file.blocks(spare=self._spare)) as blocks:
            return in_order(step, enumerate(blocks), self._threads)

    def find(self, rows: Rows, query: Indices, found: _Found | None) -> tuple[Words, Indices, Indices]:
        """The key of each row, the judged rows, and the judgment of each."""
        if found is not None:
            hits = np.flatnonzero(found.gold >= 0)
            return found.keys, hits, found.gold[hits]
        words = rows.doc.words()
        keys = self.gold.keys(words, query)
        if not self.at_doc or rows.parent is None:
            return keys, *self.gold.find(keys, words, query)
        whole = rows.parent.words()
        return keys, *self.gold.find(self.gold.keys(whole, query), whole, query)


def _look(source: _Source, number: int, rows: Rows, query: Indices, found: _Found | None) -> _Seen:
    keys, hits, which = source.find(rows, query, found)
    scores = source.policy.comparable(_exact(rows, hits))
    doc = _compact(rows.doc.take(hits))
    without = source.without_gold.get(number, ())
    return _Seen(which, query[hits], scores, doc, hits + (number << 32), keys, without)


def _exact(rows: Rows, some: Indices) -> Scores:
    """The scores of some rows, read exactly."""
    if rows.near is None:
        return rows.score[some]
    return refine_scores(rows, rows.score, some[rows.near[some]])[some]


def _compact(column: Strings) -> Strings:
    """The same strings without the rest of their buffer."""
    sizes = np.maximum(column.end - column.start, 0)
    ends = np.cumsum(sizes)
    places = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(column.start - (ends - sizes), sizes)
    buffer: NDArray[np.uint8] = np.zeros(len(places) + 2 * PAD, dtype=np.uint8)
    buffer[PAD : PAD + len(places)] = column.buffer[places]
    return Strings(buffer, ends - sizes + PAD, ends + PAD)


def _repeated_keys(parts: Sequence[Words]) -> Words:
    """The keys that occur more than once, in ascending order."""
    picked = pick_keys(parts)
    parts = parts if picked is None else [picked]
    total = sum(map(len, parts))
    bits = max(0, (total // KEYS_AT_ONCE).bit_length())
    again = []
    for share in range(1 << bits):
        shift = np.uint64(64 - bits)
        some = [part[(part >> shift) == np.uint64(share)] if bits else part for part in parts]
        keys = np.sort(np.concatenate(some)) if some else np.zeros(0, np.uint64)
        again.append(np.unique(keys[1:][keys[1:] == keys[:-1]]))
    return np.concatenate(again)


class _Judged:
    """The judged rows of all blocks, by query and ascending score."""

    def __init__(self, qrels: Qrels, parts: Sequence[_Seen]) -> None:
        self.queries = len(qrels)
        query = np.concatenate([part.query for part in parts])
        score = np.concatenate([part.score for part in parts])
        order = np.lexsort((score, query))
        self.query, self.score = query[order], score[order]
        self.gold = np.concatenate([part.gold for part in parts])[order]
        self.place = np.concatenate([part.place for part in parts])[order]
        self.doc = join_strings([part.doc for part in parts]).take(order)
        sizes = np.bincount(query, minlength=self.queries)
        self.offsets = np.concatenate(([0], np.cumsum(sizes)))
        self._steps = int(sizes.max(initial=0)).bit_length()

    def bisect(self, query: Indices, score: Scores, *, right: bool) -> Indices:
        """How far the judged rows of its query with a lower score go (with `right`, an equal one too), for each row."""
        low, high = self.offsets[query], self.offsets[query + 1]
        for _ in range(self._steps):
            middle = (low + high) >> 1
            own = self.score[np.minimum(middle, len(self.score) - 1)]
            up = (low < high) & ((own <= score) if right else (own < score))
            high = np.where(up | (low >= high), high, middle)
            low = np.where(up, middle + 1, low)
        return low


class _Counts:
    """How many rows stand above each judged row, and how many docs each query returned."""

    def __init__(self, judged: _Judged, policy: Policy) -> None:
        self._judged, self._policy = judged, policy
        self._lock = threading.Lock()
        self._own = threading.local()
        self._tallies: list[Tally] = []
        self._slots, self._tied, self.returned, self._lowest, self._highest = self._tally()

    def _tally(self) -> Tally:
        """Counts of nothing yet.

        The slots are rows by how many judged rows of their query have a lower score; a query has one slot more than
        such rows. Rows with the same score as a judged one and a greater id are counted apart, as tied.
        """
        queries, judged = self._judged.queries, len(self._judged.gold)
        slots, tied, returned = (np.zeros(count, dtype=np.int64) for count in (judged + queries, judged, queries))
        tally = Tally(slots, tied, returned, np.full(queries, np.inf), np.full(queries, -np.inf))
        with self._lock:
            self._tallies.append(tally)
        return tally

    def close(self) -> None:
        """Add up what the threads counted."""
        for tally in self._tallies[1:]:
            self._slots += tally.slots
            self._tied += tally.tied
            self.returned += tally.returned
            np.minimum(self._lowest, tally.lowest, out=self._lowest)
            np.maximum(self._highest, tally.highest, out=self._highest)
        del self._tallies[1:]

    def add(self, rows: Rows, query: Indices) -> None:
        """Count rows that occur once."""
        scores = self._policy.comparable(self._settle(rows, query))
        self.add_scores(query, scores, rows.doc)

    def add_scores(self, query: Indices, scores: Scores, doc: Strings) -> None:
        """Count docs by their scores."""
        judged = self._judged
        own = getattr(self._own, "tally", None)
        if own is None:
            own = self._own.tally = self._tally()
        if count_rows((judged.offsets, judged.score, judged.doc), own, query, scores, doc):
            return
        above = judged.bisect(query, scores, right=False)
        tied = []
        rows = np.flatnonzero(above < judged.offsets[query + 1])
        rows = rows[judged.score[above[rows]] == scores[rows]]
        ends = judged.bisect(query[rows], scores[rows], right=True)
        sizes = ends - above[rows]
        for part in _pieces(sizes):
            row = np.repeat(rows[part], sizes[part])
            first = np.repeat(np.cumsum(sizes[part]) - sizes[part], sizes[part])
            hit = np.repeat(above[rows[part]], sizes[part]) + np.arange(len(row)) - first
            tied.append(hit[_is_greater(doc.take(row), judged.doc.take(hit))])
        with self._lock:
            np.add.at(self._slots, above + query, 1)
            np.add.at(self.returned, query, 1)
            for hits in tied:
                np.add.at(self._tied, hits, 1)
            np.minimum.at(self._lowest, query, scores)
            np.maximum.at(self._highest, query, scores)

    def _settle(self, rows: Rows, query: Indices) -> Scores:
        """The scores; those that are only near are read exactly where a judged row is as near."""
        if rows.near is None or rows.score_text is None:
            return rows.score
        near = np.flatnonzero(rows.near)
        own, margin = rows.score[near], np.abs(rows.score[near]) * 2.0**-50
        low = self._judged.bisect(query[near], self._policy.comparable(own - margin), right=False)
        high = self._judged.bisect(query[near], self._policy.comparable(own + margin), right=True)
        return refine_scores(rows, rows.score, near[high > low])

    def ranks(self) -> Indices:
        """The rank of each judged row."""
        judged = self._judged
        upto = np.cumsum(self._slots)
        slot = np.arange(len(judged.gold)) + judged.query
        last = judged.offsets[judged.query + 1] + judged.query
        ranks: Indices = upto[last] - upto[slot] + self._tied + 1
        return ranks

    def level(self) -> int:
        """How many queries have several docs, and one score for all of them."""
        return int(((self.returned > 1) & (self._lowest == self._highest)).sum())


def _pieces(sizes: Indices) -> list[slice]:
    """Rows one after the other, cut where their pairs become many."""
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // PAIRS_AT_ONCE)) + 1
    bounds = [0, *cuts.tolist(), len(sizes)]
    return [slice(a, b) for a, b in pairwise(bounds) if a < b]


def _is_greater(a: Strings, b: Strings) -> NDArray[np.bool_]:
    """Where a string of one column is greater than that of the other, by bytes."""
    if max(a.longest(), b.longest()) > 8 * DENSE:
        both = join_strings([a, b])
        words = both.ordered_words(both.words(), np.arange(len(both)))
        return greater_words([w[: len(a)] for w in words], [w[len(a) :] for w in words])
    every = np.arange(len(a))
    left, right = a.ordered_words(a.words(), every), b.ordered_words(b.words(), every)
    zero = np.zeros(len(a), dtype=np.uint64)
    size = max(len(left), len(right))
    return greater_words([*left, *[zero] * (size - len(left))], [*right, *[zero] * (size - len(right))])


def _resolve(qrels: Qrels, aside: Sequence[_Aside], counts: _Counts, policy: Policy) -> Indices:
    """Count each doc among rows with repeated keys once, at its best score; the places of the others."""
    query, score, place = (
        np.concatenate([getattr(part, name) for part in aside]) for name in ("query", "score", "place")
    )
    doc = join_strings([part.doc for part in aside])
    words = doc.words()
    order = np.lexsort((place, -score, *words, query))
    same = query[order[1:]] == query[order[:-1]]
    for word in words:
        same &= word[order[1:]] == word[order[:-1]]
    twin = np.concatenate(([False], same))
    once, dropped = order[~twin], order[twin]
    if len(dropped) and policy.duplicates == "error":
        first = dropped[np.argsort(place[dropped])][: MAX_PROBLEMS + 1]
        pairs = zip(query[first].tolist(), doc.take(first).texts(), strict=True)
        raise RepeatedDocs((qrels.query_ids[q], text) for q, text in pairs)
    counts.add_scores(query[once], score[once], doc.take(once))
    return place[dropped]


def _align_shares(qrels: Qrels, source: _Source, memory: int | None) -> Hits:
    """Bring together the rows of some queries at a time, and align them as whole lists."""
    sizes = sum(
        source.read(lambda _, rows, query, found: np.bincount(query, minlength=len(qrels))),
        np.zeros(len(qrels), np.int64),
    )
    names = dict.fromkeys(name for number in sorted(source.without_gold) for name in source.without_gold[number])
    at_once = max(1, min(ROWS_AT_ONCE, memory // 2 // BYTES_PER_ROW) if memory else ROWS_AT_ONCE)
    share_of = (np.cumsum(sizes) - 1) // at_once
    parts = []
    for share in np.unique(share_of[sizes > 0]).tolist():

        def pick(_: int, rows: Rows, query: Indices, found: _Found | None, share: int = share) -> Rows:
            rows = rows.take(np.flatnonzero(share_of[query] == share))
            texts = (rows.query, rows.doc, rows.score_text, rows.parent)
            query_id, doc, score_text, parent = (None if column is None else _compact(column) for column in texts)
            assert query_id is not None and doc is not None
            return Rows(query_id, doc, rows.score, rows.near, score_text, parent)

        rows = group_rows(join_rows([part for part in source.read(pick) if len(part)]))
        parts.append(align_block(rows, source.gold, source.policy, source.at_doc, source.keep_items))
    return replace(join_blocks(parts, len(qrels)), without_gold=[name.decode() for name in names])
