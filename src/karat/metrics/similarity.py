"""How alike docs are: cosines of their vectors, overlap of their words. All queries of one length at once.

A query's numbers are computed from arrays of its own shape, so that they cannot depend on other queries.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import MetricError
from karat.metrics.graded import log_discount
from karat.metrics.subtopics import TIE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from karat.model.items import Items, Vectors
    from karat.model.rankings import Counts, Cutoff, Values

AT_ONCE = 1 << 18
"""Numbers of vectors that are worked on together: more would leave the cache."""
COSINES_AT_ONCE = 1 << 20
LETTERS_AT_ONCE = 1 << 22
MIX = np.uint64(0x9E3779B97F4A7C15)
_WORD = re.compile(r"\w+")


def cosines_above(items: Items) -> tuple[Values, Values]:
    """For each item, its largest cosine with an item above it (−1 for the first), and the sum of these cosines."""
    vectors = items.vectors
    if vectors is None:
        raise MetricError("this metric needs embeddings, and these rankings hold none; use evaluate with embeddings=")
    memo = items.__dict__.get("_cosines")
    if memo is None:
        memo = items.__dict__["_cosines"] = _cosines_above(items.query, vectors)
    found: tuple[Values, Values] = memo
    return found


def _cosines_above(query: Counts, vectors: Vectors) -> tuple[Values, Values]:
    largest, total = np.full(len(query), np.nan), np.full(len(query), np.nan)
    looked_at = np.flatnonzero(vectors.item >= 0)
    for rows in _by_length(query[looked_at]):
        at = looked_at[rows]
        size = rows.shape[1]
        below, above = np.tril_indices(size, -1)
        pairs = _cosines(vectors, vectors.item[at])[:, below, above]
        total[at[:, 0]], largest[at[:, 0]] = 0.0, -1.0
        if size > 1:  # the pairs of each lower item stand together
            start = np.cumsum(np.arange(size - 1))
            total[at[:, 1:]] = np.add.reduceat(pairs, start, axis=1)
            largest[at[:, 1:]] = np.maximum.reduceat(pairs, start, axis=1)
    return largest, total


def _by_length(query: Counts) -> Iterator[NDArray[np.int64]]:
    """The rows of the queries with as many rows as each other, query by row, as many as fit."""
    first = np.flatnonzero(np.diff(query, prepend=-1))
    lengths = np.diff(first, append=len(query))
    for size in np.unique(lengths).tolist():
        mine = first[lengths == size]
        step = max(1, COSINES_AT_ONCE // size**2)
        for a in range(0, len(mine), step):
            yield mine[a : a + step, None] + np.arange(size)


def _cosines(vectors: Vectors, rows: NDArray[np.int64]) -> Values:
    """The cosines of the vectors in each line of `rows` with each other."""
    lines, size = rows.shape
    out = np.empty((lines, size, size))
    step = max(1, AT_ONCE // (size * vectors.matrix.shape[1]))
    for a in range(0, lines if size > 1 else 0, step):
        # The rows are known to be there: no check of bounds.
        taken = vectors.matrix.take(rows[a : a + step].ravel(), axis=0, mode="clip")
        block = taken.astype(np.float64, copy=False).reshape(-1, size, taken.shape[1])
        # All but the first with all but the last holds each pair; the product of a matrix with itself is slower.
        np.matmul(block[:, 1:], block[:, :-1].transpose(0, 2, 1), out=out[a : a + step, 1:, :-1])
    length = vectors.length[rows]
    out[:, 1:, :-1] /= length[:, 1:, None]
    out[:, 1:, :-1] /= length[:, None, :-1]
    out[:, 0], out[:, :, -1] = out[:, :, 0], out[:, -1]
    out[:, np.arange(size), np.arange(size)] = 1.0
    return np.clip(out, -1.0, 1.0, out=out)


def greedy_ideal(vectors: Vectors, queries: int, k: Cutoff, weight: float) -> Values:
    """The gain that taking the doc of the largest gain, again and again, collects; ties go to the greater doc id."""
    out = np.zeros(queries)
    for rows in _by_length(vectors.gold_query):
        grade = vectors.gold_grade[rows]
        cosine = np.maximum(_cosines(vectors, vectors.gold[rows]), 0.0)
        near, taken, line = np.zeros(grade.shape), np.zeros(grade.shape, dtype=bool), np.arange(len(rows))
        for rank in range(1, min(rows.shape[1], k or rows.shape[1]) + 1):
            gain = np.where(taken, -1.0, grade * (weight + (1.0 - weight) * (1.0 - near)))
            best = gain.max(axis=1)
            chosen = (gain >= (best - TIE * np.maximum(1.0, best))[:, None]).argmax(axis=1)
            out[vectors.gold_query[rows[:, 0]]] += gain[line, chosen] / log_discount(rank)
            near = np.maximum(near, cosine[line, chosen])
            taken[line, chosen] = True
    return out


# --- words --------------------------------------------------------------------------------------------


def overlap_above(items: Items, words: int) -> Values:
    """For each item, its largest Jaccard overlap of shingles of so many words with an item above; 0 for the first."""
    if items.texts is None:
        raise MetricError("this metric needs texts, and these rankings hold none; use evaluate with docs=")
    memo: dict[int, Values] = items.__dict__.setdefault("_overlaps", {})
    if words not in memo:
        memo[words] = _overlap_above(items.query, items.texts.texts, items.texts.item, words)
    return memo[words]


def _overlap_above(query: Counts, texts: Sequence[str], item: Counts, words: int) -> Values:
    out = np.full(len(query), np.nan)
    looked_at = np.flatnonzero(item >= 0)
    for piece in _whole_queries(query[looked_at], [len(texts[i]) for i in item[looked_at].tolist()]):
        at = looked_at[piece]
        word, owner, begin = windows([texts[i] for i in item[at].tolist()], words)
        key = _keys(word, begin, words)
        first = np.append(np.flatnonzero(np.diff(query[at], prepend=-1)), len(at))
        bounds = np.searchsorted(owner, first).tolist()
        for n, (a, b) in enumerate(itertools.pairwise(first.tolist())):
            mine = slice(bounds[n], bounds[n + 1])
            out[at[a:b]] = _largest_overlap(key[mine], owner[mine] - a, word, begin[mine], words, b - a)
    return out


def _whole_queries(query: Counts, letters: Sequence[int]) -> Iterator[slice]:
    """Pieces of whole queries that hold about as much text as is worked on together."""
    ends = np.append(np.flatnonzero(np.diff(query)) + 1, len(query))
    total = np.cumsum(letters)
    begin, before = 0, 0
    for end in ends.tolist() if len(query) else ():
        if total[end - 1] - before >= LETTERS_AT_ONCE or end == len(query):
            yield slice(begin, end)
            begin, before = end, int(total[end - 1])


def windows(texts: Sequence[str], words: int) -> tuple[Counts, Counts, Counts]:
    """All words of all texts as numbers, and of each shingle the text that it is of and its first word.

    Words are runs of letters and digits in lower case. A text with fewer words is one shingle: all of its words. So
    a text without words is the shingle of no words.
    """
    numbers: dict[str, int] = defaultdict(itertools.count(1).__next__)
    codes = [[numbers[w] for w in _WORD.findall(t.casefold())] for t in texts]
    lengths = np.array([max(len(row), words) for row in codes], dtype=np.int64)
    filled = (row if len(row) >= words else row + [0] * (words - len(row)) for row in codes)  # 0: no word
    word = np.fromiter(itertools.chain.from_iterable(filled), dtype=np.int64, count=int(lengths.sum()))
    counts = lengths - words + 1
    owner = np.repeat(np.arange(len(texts)), counts)
    return word, owner, np.arange(len(owner)) + np.repeat(np.arange(len(texts)) * (words - 1), counts)


def _keys(word: Counts, begin: Counts, words: int) -> NDArray[np.uint64]:
    """A key of each shingle: equal ones have equal keys, and others nearly never do."""
    key = np.zeros(len(begin), dtype=np.uint64)
    for n in range(words):
        key = (key ^ word[begin + n].astype(np.uint64)) * MIX
        key ^= key >> np.uint64(29)
    return key


def _largest_overlap(
    key: NDArray[np.uint64], owner: Counts, word: Counts, begin: Counts, words: int, size: int
) -> Values:
    """For each of the texts of one query, its largest overlap with one before it."""
    order = np.argsort(key, kind="stable")
    same = key[order[1:]] == key[order[:-1]]
    if size < 2 or not same.any():
        return np.zeros(size)
    here, above = begin[order[1:][same]], begin[order[:-1][same]]
    if any((word[here + n] != word[above + n]).any() for n in range(words)):  # a key of two shingles: count them apart
        code = np.unique(word[begin[:, None] + np.arange(words)], axis=0, return_inverse=True)[1].ravel()
        order = np.argsort(code, kind="stable")
        same = code[order[1:]] == code[order[:-1]]
    group = np.concatenate(([0], np.cumsum(~same)))
    first = np.concatenate(([True], ~(same & (owner[order[1:]] == owner[order[:-1]]))))  # each shingle of a text once
    group, mine = group[first], owner[order[first]]
    count = np.bincount(mine, minlength=size).astype(np.float64)
    shared = np.bincount(group)[group] > 1
    if not shared.any():
        return np.zeros(size)
    column = np.cumsum(np.diff(group[shared], prepend=-1) != 0) - 1
    holds = np.zeros((size, int(column[-1]) + 1), dtype=np.float32)
    holds[mine[shared], column] = 1.0
    both = (holds @ holds.T).astype(np.float64)  # counts: exact in single precision
    largest: Values = np.tril(both / (count[:, None] + count[None, :] - both), -1).max(axis=1)
    return largest
