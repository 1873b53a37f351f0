"""Units of which equal ones are counted: most metrics have few values, and sums over these are shorter."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


ONCE = np.ones((1, 1))
"""The counts of units of which each stands for itself."""


class CountedUnits(NamedTuple):
    """The different units of each column (rows × columns): their sums, what they weigh, and how many there are."""

    tops: Floats
    weights: Floats
    counts: Floats

    @staticmethod
    def of(tops: Floats, weights: Floats) -> CountedUnits:
        """Of units × columns."""
        if (weights != weights[0]).any():
            return CountedUnits(tops, weights[:, None], ONCE)
        columns = []
        for column in tops.T:
            values, counts = np.unique(column, return_counts=True)
            own = (values, np.full(len(values), weights[0]), counts.astype(np.float64))
            columns.append(CountedUnits(*(part[:, None] for part in own)))
        return side_by_side(columns)

    def take(self, columns: NDArray[np.int64]) -> CountedUnits:
        """Some of the columns."""
        if len(columns) == self.tops.shape[1]:
            return self
        return CountedUnits(*(part[:, columns] if part.shape[1] > 1 else part for part in self))

    def with_one(self, top: float, weight: float) -> CountedUnits:
        """These units of a single column, and one more by itself."""
        counts = self.counts if len(self.counts) > 1 else np.ones((len(self.tops), 1))
        parts = ((self.tops, top), (self.weights, weight), (counts, 1.0))
        return CountedUnits(*(np.vstack((column, one)) for column, one in parts))


def side_by_side(parts: Sequence[CountedUnits]) -> CountedUnits:
    """All columns; one with fewer different units than another is filled up with some of no weight that count 0."""
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum([0, *(part.tops.shape[1] for part in parts)])
    columns = np.zeros((3, max(len(part.tops) for part in parts), ends[-1]))
    for part, start, end in zip(parts, ends[:-1], ends[1:], strict=True):
        for column, own in zip(columns, part, strict=True):
            column[: len(part.tops), start:end] = own
    tops, weights, counts = columns
    return CountedUnits(tops, weights, ONCE if all(len(part.counts) == 1 for part in parts) else counts)


def total(counts: Floats, terms: Floats | NDArray[np.bool_]) -> Floats:
    """The sum of each column's terms, each as often as it counts."""
    return np.asarray((terms if len(counts) == 1 else counts * terms).sum(axis=0), dtype=np.float64)
