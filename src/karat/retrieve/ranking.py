"""The best k of many scores, ties as everywhere else: the larger id in byte order comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Scores = NDArray[np.floating[Any]]
    Rows = NDArray[np.int64]


def precedence(ids: Sequence[str]) -> Rows:
    """For each id its place among all, the largest first: what decides between equal scores."""
    order = sorted(range(len(ids)), key=lambda i: ids[i].encode("utf-8", "surrogatepass"), reverse=True)
    place = np.empty(len(ids), dtype=np.int64)
    place[order] = np.arange(len(ids))
    return place


def best(scores: Scores, k: int, place: Rows, above: float | None = None) -> Rows:
    """The rows of the k best scores in their order; only those above a bound, where one is given.

    All ties at the border are looked at, so that the answer does not depend on how the rest was sorted.
    """
    n = len(scores)
    if k < n:
        border = np.partition(scores, n - k)[n - k]
        rows = np.flatnonzero(scores >= border)
    else:
        rows = np.arange(n)
    if above is not None:
        rows = rows[scores[rows] > above]
    return rows[np.lexsort((place[rows], -scores[rows]))[:k]]
