"""The best k of many scores, ties as everywhere else: the larger id in byte order comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Scores = NDArray[np.floating[Any]]
    Rows = NDArray[np.int64]

_GROUPS = 4
"""Groups of scores for each of the best k; with more of them fewer scores are left, and finding these takes longer."""


def precedence(ids: Sequence[str]) -> Rows:
    """For each id its place among all, the largest first: what decides between equal scores."""
    order = sorted(range(len(ids)), key=lambda i: ids[i].encode("utf-8", "surrogatepass"), reverse=True)
    place = np.empty(len(ids), dtype=np.int64)
    place[order] = np.arange(len(ids))
    return place


def contenders(scores: Scores, k: int, slack: float = 0.0) -> Rows:
    """The rows of all scores that are at most `slack` below the k-th largest; all rows if there are at most k.

    Cut into groups, the k groups with the largest maxima hold k scores from the least of these maxima up: what lies
    below it is out, which leaves few to look at.
    """
    if k < 1 or k >= len(scores):
        return np.arange(len(scores) if k > 0 else 0)
    groups = _GROUPS * k
    size = len(scores) // groups
    if size < 2:
        return np.flatnonzero(scores >= _largest(scores, k) - slack)
    tops = scores[: groups * size].reshape(size, groups).max(axis=0)
    rows: Rows = np.flatnonzero(scores >= _largest(tops, k) - slack)
    rest = scores[rows]
    return rows[np.flatnonzero(rest >= _largest(rest, k) - slack)]


def best(scores: Scores, k: int, place: Rows, above: float | None = None) -> Rows:
    """The rows of the k best scores in their order; only those above a bound, where one is given.

    All ties at the border are looked at, so that the answer does not depend on how the rest was sorted.
    """
    rows = contenders(scores, k)
    values = scores[rows]
    if above is not None:
        rows, values = rows[values > above], values[values > above]
    return rows[np.lexsort((place[rows], -values))[:k]]


def _largest(scores: Scores, k: int) -> Any:
    """The k-th largest."""
    return np.partition(scores, len(scores) - k)[len(scores) - k]
