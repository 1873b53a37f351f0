"""BM25 as a matrix product: plain, for runs that pages are written about.

Robertson & Zaragoza 2009 with the idf of Lucene, ln(1 + (N − n + 0.5) / (n + 0.5)); a query's terms count once each
time they occur in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from scipy import sparse

K1, B = 0.9, 0.4
"""The settings of Anserini."""
STOP = frozenset(
    (
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "for",
        "if",
        "in",
        "into",
        "is",
        "it",
        "no",
        "not",
        "of",
        "on",
        "or",
        "such",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "will",
        "with",
    )
)
"""The English stop words of Lucene."""


def terms(text: str) -> list[str]:
    """Words in lower case without stop words, with the endings of plurals taken off (the s-stemmer, Harman 1991)."""
    return [_stem(w) for w in re.findall(r"[^\W_]+", text.lower()) if w not in STOP]


def _stem(word: str) -> str:
    if word.endswith("ies") and len(word) > 3 and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    if word.endswith("es") and len(word) > 2 and not word.endswith(("aes", "ees", "oes")):
        return word[:-1]
    if word.endswith("s") and len(word) > 1 and not word.endswith(("us", "ss")):
        return word[:-1]
    return word


class Index:
    """Weights of all terms in all docs, ready to be multiplied with queries."""

    def __init__(self, ids: Sequence[str], texts: Iterable[str], k1: float = K1, b: float = B) -> None:
        self.ids = np.array(ids)
        self.vocabulary: dict[str, int] = {}
        rows, columns, counts, lengths = [], [], [], []
        for doc, text in enumerate(texts):
            found = Counter(terms(text))
            lengths.append(sum(found.values()))
            for term, count in found.items():
                rows.append(self.vocabulary.setdefault(term, len(self.vocabulary)))
                columns.append(doc)
                counts.append(count)
        n = len(self.ids)
        row, column, tf = np.array(rows), np.array(columns), np.array(counts, dtype=np.float64)
        length = np.array(lengths, dtype=np.float64)
        in_docs = np.bincount(row, minlength=len(self.vocabulary))
        idf = np.log1p((n - in_docs + 0.5) / (in_docs + 0.5))
        norm = k1 * (1 - b + b * length / length.mean())
        weight = idf[row] * tf * (k1 + 1) / (tf + norm[column])
        self.weights = sparse.csr_matrix((weight, (row, column)), shape=(len(self.vocabulary), n))

    def search(self, text: str, k: int) -> list[tuple[str, float]]:
        """The best k docs that share a term with the query; ties by falling id."""
        found = Counter(t for t in terms(text) if t in self.vocabulary)
        if not found:
            return []
        query = sparse.csr_matrix(
            (list(found.values()), ([0] * len(found), [self.vocabulary[t] for t in found])),
            shape=(1, len(self.vocabulary)),
            dtype=np.float64,
        )
        scores = (query @ self.weights).toarray()[0]
        there = np.flatnonzero(scores > 0)
        if len(there) > 4 * k:
            there = there[scores[there] >= np.partition(scores[there], -k)[-k]]
        ranked = sorted(((float(scores[i]), str(self.ids[i])) for i in there), reverse=True)[:k]
        return [(doc, score) for score, doc in ranked]
