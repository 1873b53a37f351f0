"""The docs that queries returned, as columns: what a convention that drops or reorders docs looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karat.model.policy import Policy, is_judged
from karat.model.rankings import place_in_group
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from karat.model.strings import Indices, Strings


@dataclass(frozen=True, slots=True)
class RankedDocs:
    """One row per returned doc; the rows of a query stand together, in order of rank.

    `query` numbers the queries; `query_id.texts()` and `doc_id.texts()` are the ids as text. `score` is NaN where a
    list holds none, `grade` where the gold has no judgment of the doc (of a chunk's doc, where gold is by doc).
    """

    query: Indices
    rank: Indices
    query_id: Strings
    doc_id: Strings
    read_score: Callable[[], NDArray[np.float64]]
    """Scores are read from text where a convention looks at them."""
    grade: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.query)

    @property
    def score(self) -> NDArray[np.float64]:
        return self.read_score()

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Which docs have a judgment."""
        return is_judged(self.grade)

    def take(self, rows: Indices) -> RankedDocs:
        """These rows, ranked anew in this order."""
        query = self.query[rows]
        ids = self.query_id.take(rows), self.doc_id.take(rows)
        return RankedDocs(query, place_in_group(query), *ids, lambda: self.score[rows], self.grade[rows])


def select_docs(docs: RankedDocs, policy: Policy, *, by_gold: bool) -> Indices:
    """The rows that count by the policy, in their order: every convention that drops or reorders docs acts here.

    Conventions that look at judgments act after the others, since what a run returned does not depend on the gold.
    """
    rows = np.arange(len(docs))
    for number, (select, value) in enumerate(policy.selections(by_gold=by_gold)):
        picks = np.asarray(select(docs.take(rows) if number else docs, value))
        rows = rows[picks]
        if picks.dtype != bool:  # whatever the order of the rows, those of a query stand together
            rows = rows[np.argsort(docs.query[rows], kind="stable")]
    return rows
