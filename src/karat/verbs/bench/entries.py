"""Entries of terms, such as labels and synonyms: how many to ask for, and the terms in their place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karat.retrieve.corpus import Corpus
    from karat.retrieve.protocol import Answer


def entries_to_ask(corpus: Corpus, k: int) -> int:
    """So many entries are sure to hold k terms, however many entries a term has."""
    counts: dict[str, int] = {}
    for each in corpus.ids:
        counts[corpus.parent(each)] = counts.get(corpus.parent(each), 0) + 1
    return min(len(corpus), sum(sorted(counts.values(), reverse=True)[: k - 1]) + 1)


def collapse(answer: Answer, corpus: Corpus) -> Answer:
    """The answer with terms in place of entries: each at the rank and with the score of its best entry."""
    rows: dict[str, int] = {}
    for row, each in enumerate(answer.ids):
        rows.setdefault(corpus.parent(each), row)
    scores = None if answer.scores is None else [answer.scores[row] for row in rows.values()]
    stages = {name: list(dict.fromkeys(map(corpus.parent, ids))) for name, ids in answer.stages.items()}
    return replace(answer, ids=list(rows), scores=scores, stages=stages)
