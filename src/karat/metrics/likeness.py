"""How alike docs are: cosines of their vectors, overlap of their words. All queries of one length at once.

A query's numbers are computed from arrays of its own shape, so that they cannot depend on other queries.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import MetricError
from karat.model.rankings import place_in_group

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from karat.model.items import Items, Topics, Vectors
    from karat.model.rankings import Counts, Cutoff, Values

AT_ONCE = 1 << 18
"""Numbers of vectors that are worked on together: more would leave the cache."""
WORDS_AT_ONCE = 1 << 20
TIE = 1e-12
"""Gains that differ by less are tied: rounding must not choose between docs."""
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
    for rows in _by_length(query[looked_at], vectors.matrix.shape[1]):
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


def _by_length(query: Counts, width: int) -> Iterator[NDArray[np.int64]]:
    """The rows of the queries with as many rows as each other, query by row, as many as fit."""
    first = np.flatnonzero(np.diff(query, prepend=-1))
    lengths = np.diff(first, append=len(query))
    for size in np.unique(lengths).tolist():
        mine = first[lengths == size]
        step = max(1, AT_ONCE // (size * max(width, size)))
        for a in range(0, len(mine), step):
            yield mine[a : a + step, None] + np.arange(size)


def _cosines(vectors: Vectors, rows: NDArray[np.int64]) -> Values:
    """The cosines of the vectors in each line of `rows` with each other."""
    taken = vectors.matrix.take(rows.ravel(), axis=0, mode="clip")  # rows are known to be there: no check of bounds
    block = taken.astype(np.float64, copy=False).reshape(*rows.shape, -1)
    length = vectors.length[rows]
    product = block @ block.transpose(0, 2, 1)
    product /= length[:, :, None]
    product /= length[:, None, :]
    return np.clip(product, -1.0, 1.0, out=product)


def greedy_ideal(vectors: Vectors, queries: int, k: Cutoff, weight: float) -> Values:
    """The gain that taking the doc of the largest gain, again and again, collects; ties go to the greater doc id."""
    out = np.zeros(queries)
    for rows in _by_length(vectors.gold_query, vectors.matrix.shape[1]):
        grade = vectors.gold_grade[rows]
        cosine = np.maximum(_cosines(vectors, vectors.gold[rows]), 0.0)
        near, taken, line = np.zeros(grade.shape), np.zeros(grade.shape, dtype=bool), np.arange(len(rows))
        for place in range(min(rows.shape[1], k or rows.shape[1])):
            gain = np.where(taken, -1.0, grade * (weight + (1.0 - weight) * (1.0 - near)))
            best = gain.max(axis=1)
            chosen = (gain >= (best - TIE * np.maximum(1.0, best))[:, None]).argmax(axis=1)
            out[vectors.gold_query[rows[:, 0]]] += gain[line, chosen] / np.log2(place + 2.0)
            near = np.maximum(near, cosine[line, chosen])
            taken[line, chosen] = True
    return out


# --- subtopics ----------------------------------------------------------------------------------------


def subtopic_gain(topics: Topics, queries: int, k: Cutoff, alpha: float) -> Values:
    """Σ over returned docs and their subtopics of (1 − alpha)^(docs above with that subtopic) / log2(rank + 1)."""
    kept = topics.rank <= k if k is not None else np.ones(len(topics.rank), dtype=bool)
    query, rank, topic = topics.query[kept], topics.rank[kept], topics.topic[kept]
    order = np.lexsort((rank, topic, query))
    group = query[order] * (int(topic.max(initial=0)) + 1) + topic[order]
    before = np.empty(len(order))
    before[order] = place_in_group(group) - 1
    gain = (1.0 - alpha) ** before / np.log2(rank + 1.0)
    return np.bincount(query, weights=gain, minlength=queries).astype(np.float64, copy=False)


def subtopic_ideal(topics: Topics, queries: int, k: Cutoff, alpha: float) -> Values:
    """What a greedy choice from the gold collects; ties go to the greater doc id, as in ndeval."""
    out = np.zeros(queries)
    first = np.flatnonzero(np.diff(topics.gold_query, prepend=-1))
    for a, b in zip(first.tolist(), [*first[1:].tolist(), len(topics.gold_query)], strict=True):
        doc, topic = topics.gold_doc[a:b], topics.gold_topic[a:b]
        covers = np.zeros((int(doc.max()) + 1, int(topic.max()) + 1))
        covers[doc, topic] = 1.0
        worth, total = np.ones(covers.shape[1]), 0.0
        for place in range(min(len(covers), k or len(covers))):
            gain = covers @ worth
            best = float(gain.max())
            if best <= 0.0:
                break
            chosen = int((gain >= best - TIE).argmax())
            total += best / np.log2(place + 2.0)
            worth = np.where(covers[chosen] > 0, worth * (1.0 - alpha), worth)
            covers[chosen] = 0.0
        out[topics.gold_query[a]] = total
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
    for rows in _whole_queries(query[looked_at], [len(texts[i]) for i in item[looked_at].tolist()]):
        at = looked_at[rows]
        owner, code = shingles([texts[i] for i in item[at].tolist()], words)
        size = np.bincount(owner, minlength=len(at)).astype(np.float64)
        ends = np.append(np.flatnonzero(np.diff(query[at], prepend=-1)), len(at))
        bounds = np.searchsorted(owner, ends)
        for n, (a, b) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
            mine = slice(int(bounds[n]), int(bounds[n + 1]))
            out[at[a:b]] = _largest_overlap(owner[mine] - a, code[mine], size[a:b])
    return out


def _whole_queries(query: Counts, lengths: Sequence[int]) -> Iterator[slice]:
    """Pieces of whole queries that hold about as much text as is worked on together."""
    first = np.flatnonzero(np.diff(query, prepend=-1))
    held = np.concatenate(([0], np.cumsum(lengths)))
    begin = 0
    for i, start in enumerate(first.tolist()):
        end = int(first[i + 1]) if i + 1 < len(first) else len(query)
        if end == len(query) or held[end] - held[first[begin]] >= WORDS_AT_ONCE * 4:
            yield slice(int(first[begin]), end)
            begin = i + 1
        assert start < end


def shingles(texts: Sequence[str], words: int) -> tuple[Counts, Counts]:
    """The shingles of each text, each once: the number of the text, and a code that equal shingles share.

    Words are runs of letters and digits in lower case. A text with fewer words is one shingle: all of its words. So
    a text without words is the shingle of no words.
    """
    numbers: dict[str, int] = {}
    listed = [[numbers.setdefault(w, len(numbers) + 1) for w in _WORD.findall(t.casefold())] for t in texts]
    lengths = np.array([max(len(found), words) for found in listed], dtype=np.int64)
    start = np.cumsum(lengths) - lengths
    word = np.zeros(int(lengths.sum()), dtype=np.int64)  # 0 is no word: it fills up texts that are too short
    for at, found in zip(start.tolist(), listed, strict=True):
        word[at : at + len(found)] = found
    # The code of n words is that of (the code of n − 1 words, the next word): two numbers that fit in one.
    code = word
    for n in range(1, words):
        pair = (code[: len(word) - n] << 32) | word[n:]
        code = np.unique(pair, return_inverse=True)[1].astype(np.int64)
    counts = lengths - words + 1
    owner = np.repeat(np.arange(len(texts)), counts)
    rows = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(start, counts)
    once = np.unique((owner << 32) | code[rows])
    return once >> 32, once & 0xFFFFFFFF


def _largest_overlap(owner: Counts, code: Counts, size: Values) -> Values:
    """For each of the texts of one query, its largest overlap with one before it."""
    _, which, count = np.unique(code, return_inverse=True, return_counts=True)
    shared = count[which] > 1
    if len(size) < 2 or not shared.any():
        return np.zeros(len(size))
    column = np.unique(which[shared], return_inverse=True)[1]
    holds = np.zeros((len(size), int(column.max()) + 1), dtype=np.float32)
    holds[owner[shared], column] = 1.0
    both = (holds @ holds.T).astype(np.float64)  # counts: exact in single precision
    jaccard = both / (size[:, None] + size[None, :] - both)
    largest: Values = np.tril(jaccard, -1).max(axis=1)
    return largest
