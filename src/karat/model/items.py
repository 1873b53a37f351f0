"""The top docs of each query, their vectors, texts and subtopics, and what a run log says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.model.policy import RELEVANT, is_relevant
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64]
    Log = Mapping[str, Mapping[str, Values]]
    """{"latency": {stage: a value per query}, "cost": {key: a value per query}}; NaN where a query has none.

    Beside them `stages` and `skipped`: which steps ran (`log_steps.py`).
    """


UNNAMED = "unnamed"
"""The model of embeddings that came without a name: nobody can say whether two such are one."""


@dataclass(frozen=True)
class Vectors:
    """Embeddings of the docs that metrics look at, each doc once.

    `length` is the Euclidean length of each row of `matrix`, `item` the row of each item (−1 for those that no metric
    looks at). `gold_query`, `gold_grade` and `gold` are the query, the grade and the row of each doc of the gold with
    a grade above 0, sorted by query and descending doc id; empty where only the docs returned count.
    """

    matrix: NDArray[np.float32 | np.float64]
    length: Values
    item: NDArray[np.int64]
    gold_query: NDArray[np.int64]
    gold_grade: Values
    gold: NDArray[np.int64]


@dataclass(frozen=True)
class Texts:
    """Texts of the docs that metrics look at, each doc once; `item` is the text of each item (−1 for none)."""

    texts: Sequence[str]
    item: NDArray[np.int64]


@dataclass(frozen=True)
class Topics:
    """Relevant docs by subtopic: a row for each doc and each subtopic that it has a grade above 0 for.

    `query`, `rank`, `topic` and `grade` are of docs that were returned, sorted by query and rank; `gold_query`,
    `gold_doc`, `gold_topic` and `gold_grade` of all gold, docs numbered from 0 within a query by descending doc id.
    """

    query: NDArray[np.int64]
    rank: NDArray[np.int64]
    topic: NDArray[np.int64]
    grade: Values
    gold_query: NDArray[np.int64]
    gold_doc: NDArray[np.int64]
    gold_topic: NDArray[np.int64]
    gold_grade: Values

    def relevant(self, rel: float = RELEVANT) -> Topics:
        """The rows whose grade counts as relevant."""
        rows, gold = is_relevant(self.grade, rel), is_relevant(self.gold_grade, rel)
        return Topics(
            self.query[rows],
            self.rank[rows],
            self.topic[rows],
            self.grade[rows],
            self.gold_query[gold],
            self.gold_doc[gold],
            self.gold_topic[gold],
            self.gold_grade[gold],
        )


@dataclass(frozen=True)
class TermPairs:
    """Each expected term of a query beside each term of an ontology that was returned for it.

    `gold_query` and `gold_grade` are one row per expected term that the ontology knows, sorted by query. `expected`
    (a row of these), `rank` and the arrays of `similarity` are one row per pair.
    """

    gold_query: NDArray[np.int64]
    gold_grade: Values
    expected: NDArray[np.int64]
    rank: NDArray[np.int64]
    similarity: Mapping[tuple[str, str], Values]
    """By the names of the similarity and of the information content."""
    notes: tuple[str, ...] = ()
    """What a reader must know of the ids: those that the release does not know, and others."""


@dataclass(frozen=True)
class Items:
    """The top docs of each query, judged or not, sorted by query and rank.

    `first` marks those of which no chunk stands above. `version` is the day (as an ordinal) of each item's
    doc_version, and `as_of` that of each query's as_of; NaN where there is none.
    """

    query: NDArray[np.int64]
    rank: NDArray[np.int64]
    first: NDArray[np.bool_]
    version: Values
    as_of: Values
    vectors: Vectors | None = None
    texts: Texts | None = None
    score: Values | None = None
    """The score of each item, NaN for none; where a metric needs it."""
