"""Which candidates to keep, and in what order: relevant ones that do not repeat each other.

Arrays in, positions out, for one query or for many at once: relevance and distances to the query are n or
queries × n, likeness and distances between candidates n × n or queries × n × n.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Positions = NDArray[np.int64]

TIE = 1e-9
"""Candidates are equally good within this much of a cosine (mmr), or this share of their gain (dartboard)."""
NARROW, WIDE = 1e-6, 1e6
"""With less noise than this only the distance to the query counts; with more, the query no longer does."""
_AT_ONCE = 160_000
"""Numbers in a matrix that is worked on: more would leave the processor's cache."""
_LOW = 1e-100


def mmr(relevance: ArrayLike, likeness: ArrayLike, k: int, lam: float) -> Positions:
    """Positions by maximal marginal relevance (Carbonell & Goldstein 1998), the first chosen first.

    The most relevant comes first; then each time the candidate with the largest
    lam · relevance − (1 − lam) · (its largest likeness to one that was chosen). Ties: the earlier candidate.
    A step takes O(n), and all of it O(n) memory beside its input.
    """
    worth, alike = _both(relevance, likeness)
    picks = np.empty((len(worth), _count(k, worth)), dtype=np.int64)
    each = np.arange(len(worth))
    score, most = worth.copy(), np.full(worth.shape, -np.inf)
    for i in range(picks.shape[1]):
        picks[:, i] = pick = np.argmax(score >= score.max(axis=1, keepdims=True) - TIE, axis=1)
        np.maximum(most, alike[each, pick], out=most)
        score = lam * worth - (1 - lam) * most
        score[each[:, None], picks[:, : i + 1]] = -np.inf
    return picks.reshape(np.shape(relevance)[:-1] + picks.shape[1:])


def dartboard(query_distance: ArrayLike, distance: ArrayLike, k: int, sigma: float) -> Positions:
    """Positions by relevant information gain (Dartboard: Pickett et al. 2024, arXiv 2407.12101), first chosen first.

    Each step adds the candidate that makes log Σ_t exp(max_g log N(d(t, g); 0, σ) + log N(d(t, q); 0, σ)) largest: the
    sum is over all candidates t, the maximum over those chosen. That is how near the best choice comes to a target
    that lies somewhere around the query. Ties: the earlier candidate.

    As σ → 0 that becomes the order by distance to the query, with copies of what was chosen at the end, since they add
    nothing. Below `NARROW` it is plainly that order, and copies keep their places. As σ → ∞ the query
    no longer counts, and each step makes Σ_t min_g d(t, g)² smallest; σ above `WIDE` is taken as `WIDE`.

    A step takes O(n²), and all of it three matrices of n² or `_AT_ONCE` numbers, whichever is more.
    """
    far, apart = _both(query_distance, distance)
    count = _count(k, far)
    if sigma < NARROW or not count:
        picks = np.argsort(far, axis=1, kind="stable")[:, :count]
    else:
        step = max(1, _AT_ONCE // far.shape[1] ** 2)
        parts = [_choose_apart(far[a : a + step], apart[a : a + step], count, sigma) for a in range(0, len(far), step)]
        picks = np.concatenate(parts) if parts else np.empty((0, count), dtype=np.int64)
    return picks.reshape(np.shape(query_distance)[:-1] + picks.shape[1:])


def _choose_apart(far: Floats, apart: Floats, count: int, sigma: float) -> Positions:
    """Greedy choice of what adds most to Σ_t weight_t · max_g kernel(g, t), densities without their constants.

    `gains` holds weight_t · (kernel(g, t) − what is covered of t), or 0. What a candidate adds is the sum of its row:
    differences of the whole sum would drown in its rounding. A choice subtracts its row from all rows. Only
    differences of kernels are used, so kernels are stored less 1, which keeps near ones distinct.
    """
    sigma = min(sigma, WIDE)
    log_weight = -0.5 * (far / sigma) ** 2
    kernel = apart / sigma
    kernel *= kernel
    kernel *= -0.5
    np.expm1(kernel, out=kernel)
    # Any choice covers the minimum: without it, candidates remain distinct where noise is wide.
    gains = _gains(kernel, kernel.min(axis=1), log_weight, log_weight.max(axis=1))
    each = np.arange(len(far))
    picks = np.empty((len(far), count), dtype=np.int64)
    for i in range(count):
        gain = np.einsum("qgt->qg", gains)
        low = np.flatnonzero(gain.max(axis=1) < _LOW) if i else ()
        if len(low):
            gains[low] = _magnify(kernel[low], log_weight[low], picks[low, :i])
            gain[low] = np.einsum("qgt->qg", gains[low])
        gain[each[:, None], picks[:, :i]] = -1
        picks[:, i] = pick = np.argmax(gain >= gain.max(axis=1, keepdims=True) * (1 - TIE), axis=1)
        if i + 1 == count:
            break
        gains -= gains[each, pick][:, None]
        np.maximum(gains, 0, out=gains)
    return picks


def _gains(kernel: Floats, covered: Floats, log_weight: Floats, scale: Floats) -> Floats:
    gains = kernel - covered[:, None]
    np.maximum(gains, 0, out=gains)
    gains *= np.exp(np.minimum(log_weight - scale[:, None], 0))[:, None]
    return gains


def _magnify(kernel: Floats, log_weight: Floats, picks: Positions) -> Floats:
    """What is left on the scale of the nearest target not covered: narrow noise makes all but the nearest vanish."""
    covered = np.take_along_axis(kernel, picks[:, :, None], axis=1).max(axis=1)
    uncovered = kernel.max(axis=1) > covered
    scale = np.where(uncovered, log_weight, -np.inf).max(axis=1)
    return _gains(kernel, covered, log_weight, np.where(np.isfinite(scale), scale, log_weight.max(axis=1)))


def _both(of_each: ArrayLike, of_pairs: ArrayLike) -> tuple[Floats, Floats]:
    """Both in double precision, with an axis for queries."""
    ones, pairs = np.asarray(of_each, dtype=np.float64), np.asarray(of_pairs, dtype=np.float64)
    if ones.ndim not in (1, 2) or pairs.shape != (*ones.shape, ones.shape[-1]):
        raise ValueError(f"expected n and n × n numbers, or the same for each query, found {ones.shape}, {pairs.shape}")
    return np.atleast_2d(ones), pairs if pairs.ndim == 3 else pairs[None]


def _count(k: int, of_each: Floats) -> int:
    return min(max(k, 0), int(of_each.shape[1]))
