"""What metrics look at beside ids and ranks: vectors (embeddings), texts and subtopics of docs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import InputError, shown
from karat.model.items import Texts, Topics, Vectors
from karat.model.policy import earns_gain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from karat.align.hits import Aligned
    from karat.align.needs import Needs
    from karat.model.items import Items
    from karat.model.qrels import Qrels

    Rows = NDArray[np.int64]

EXAMPLES = 5
"""Ids that a message about missing docs names."""


def with_contents(items: Items, docs: Sequence[str], aligned: Aligned, qrels: Qrels, needs: Needs) -> Items:
    """The items with the vectors and texts that the metrics need."""
    if "embeddings" in needs.parts:
        items = replace(items, vectors=_vectors(items, docs, aligned, qrels, needs))
    if "texts" in needs.parts:
        items = replace(items, texts=_texts(items, docs, needs))
    return items


def _vectors(items: Items, docs: Sequence[str], aligned: Aligned, qrels: Qrels, needs: Needs) -> Vectors:
    from karat.read.embeddings import vectors_of

    assert needs.embeddings is not None
    depth = needs.deepest("embeddings")
    top = np.flatnonzero(items.rank <= depth)
    gold = _order_by_id(aligned, qrels, earns_gain(qrels.grades)) if "gold_embeddings" in needs.parts else []
    number: dict[str, int] = {}
    item_numbers = [number.setdefault(docs[i], len(number)) for i in top.tolist()]
    gold_numbers = [number.setdefault(qrels.docs[j], len(number)) for _, j in gold]
    vectors = vectors_of(needs.embeddings, list(number))
    place = f"in the top {depth}" if depth < 10**9 else "in the results"
    _refuse_missing(
        needs.embeddings.name,
        "vector",
        needs.first("embeddings"),
        place,
        (docs[i] for i, n in zip(top.tolist(), item_numbers, strict=True) if vectors.row[n] < 0),
        "add their vectors; ids must be those of the run",
    )
    if gold:
        _refuse_missing(
            needs.embeddings.name,
            "vector",
            needs.first("gold_embeddings"),
            "in the gold",
            (qrels.docs[j] for (_, j), n in zip(gold, gold_numbers, strict=True) if vectors.row[n] < 0),
            "the ideal order is chosen among them: add their vectors, or use ideal=plain, which needs none of the gold",
        )
    item = np.full(len(docs), -1, dtype=np.int64)
    item[top] = vectors.row[item_numbers] if item_numbers else 0
    return Vectors(
        vectors.matrix,
        vectors.length,
        item,
        np.array([q for q, _ in gold], dtype=np.int64),
        qrels.grades[[j for _, j in gold]],
        vectors.row[gold_numbers] if gold_numbers else np.zeros(0, dtype=np.int64),
    )


def _order_by_id(aligned: Aligned, qrels: Qrels, which: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Query (by its number in the rankings) and judgment of the chosen gold, by query and descending doc id."""
    out = []
    for number, q in enumerate(aligned.queries.tolist()):
        mine = range(int(qrels.offsets[q]), int(qrels.offsets[q + 1]))
        judgments = sorted((j for j in mine if which[j]), key=lambda j: qrels.docs[j], reverse=True)
        out += [(number, j) for j in judgments]
    return out


def _refuse_missing(name: str, what: str, metric: str, place: str, ids: Iterable[str], advice: str) -> None:
    missing = list(dict.fromkeys(ids))
    if missing:
        many = f"{len(missing)} docs" if len(missing) > 1 else "1 doc"
        some = ", ".join(map(shown, missing[:EXAMPLES])) + (", …" if len(missing) > EXAMPLES else "")
        text = f"{name}: no {what} for {many} {place}, which {metric} needs: {some}; {advice}"
        raise InputError(text).about(metric)


def _texts(items: Items, docs: Sequence[str], needs: Needs) -> Texts:
    assert needs.docs is not None
    depth, table = needs.deepest("texts"), needs.docs
    top = np.flatnonzero(items.rank <= depth)
    number: dict[str, int] = {}
    rows = [number.setdefault(docs[i], len(number)) for i in top.tolist()]
    place = f"in the top {depth}" if depth < 10**9 else "in the results"
    texts = {doc: table.text(doc) for doc in number}
    _refuse_missing(
        table.source,
        "title or text",
        needs.first("texts"),
        place,
        (doc for doc, text in texts.items() if text is None),
        "add them to the table of docs; ids must be those of the run",
    )
    item = np.full(len(docs), -1, dtype=np.int64)
    item[top] = rows
    return Texts([text or "" for text in texts.values()], item)


def topics(aligned: Aligned, qrels: Qrels) -> Topics:
    """The subtopics that relevant docs cover: of those that were returned, at their ranks, and of all gold.

    One row per (judgment, subtopic), numbered within its query:

        gold            subtopics   code     run            hits: rank, code    all gold: ordinal, code
        q1 d1           a, b        0, 1     d2 at rank 1   1, 1                d2 → 0, 1
        q1 d2           b           1        d1 at rank 3   3, 0 and 3, 1       d1 → 1, 0 and 1, 1

    `ordinal` is the place of a doc among its query's covering docs by descending id: the ideal order breaks ties so.
    """
    by = qrels.subtopics
    assert by is not None
    relevant = np.flatnonzero(earns_gain(by.grades))
    judgment = by.judgment[relevant]
    number: dict[tuple[int, str], int] = {}
    size: dict[int, int] = {}
    codes = []
    for q, name in zip(qrels.query_of[judgment].tolist(), (by.names[i] for i in relevant.tolist()), strict=True):
        if (q, name) not in number:  # subtopics are numbered within a query
            number[q, name] = size[q] = size.get(q, -1) + 1
        codes.append(number[q, name])
    code = np.array(codes, dtype=np.int64)
    place = np.full(len(qrels), -1, dtype=np.int64)
    place[aligned.queries] = np.arange(len(aligned.queries))

    rank = np.zeros(len(qrels.docs), dtype=np.int64)
    rank[aligned.hits.gold] = aligned.hits.rank
    query = place[qrels.query_of[judgment]]
    counts = query >= 0
    hits = np.flatnonzero(counts & (rank[judgment] > 0))
    hits = hits[np.lexsort((rank[judgment[hits]], query[hits]))]

    covering = np.zeros(len(qrels.docs), dtype=bool)
    covering[judgment] = True
    ordinal = np.zeros(len(qrels.docs), dtype=np.int64)
    before, count = -1, 0
    for q, j in _order_by_id(aligned, qrels, covering):
        before, count = q, count + 1 if q == before else 0
        ordinal[j] = count
    all_gold = np.flatnonzero(counts)
    all_gold = all_gold[np.argsort(query[all_gold], kind="stable")]
    grade = by.grades[relevant]
    return Topics(
        query[hits],
        rank[judgment[hits]],
        code[hits],
        grade[hits],
        query[all_gold],
        ordinal[judgment[all_gold]],
        code[all_gold],
        grade[all_gold],
    )
