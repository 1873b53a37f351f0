"""Metrics of user models: how much a reader gains per doc who stops at each rank with some probability.

All of them fit one frame (C/W/L, Moffat et al. 2017): C(i) is the probability that a reader of the doc at rank i goes
to the next one, and a doc weighs as much as the reader is likely to see it. Lists count down to rank 1,000, and docs
without a judgment gain nothing, as in cwl_eval.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.graded import FAMILY, log_discount
from karat.metrics.registry import Params, metric, number_param
from karat.model.rankings import ALL

if TYPE_CHECKING:
    from collections.abc import Callable

    from karat.model.rankings import Cutoff, Rankings, Values

    Continues = Callable[[Values, Values], Values]
    """The gains (queries × ranks) and the ranks → the probability of going on from each."""

DEPTH = 1000
AT_ONCE = 256
"""Queries that are worked on together: their gains stay in the cache."""


def _scaled(grade: Values, low: float, high: float) -> Values:
    """Grades as gains from 0 to 1."""
    return (np.clip(np.maximum(grade, 0.0), low, high) - low) / (high - low)


def _expected_gain(r: Rankings, low: float, high: float, continues: Continues) -> Values:
    """The gain per doc that a reader of each query can expect."""
    out = np.zeros(len(r))
    ranks = np.arange(1.0, DEPTH + 1.0)
    for first in range(0, len(r), AT_ONCE):
        end = min(first + AT_ONCE, len(r))
        a, b = np.searchsorted(r.query, [first, end])
        rows = np.arange(a, b)[r.rank[a:b] <= DEPTH]
        gain = np.zeros((end - first, DEPTH))
        gain[r.query[rows] - first, r.rank[rows] - 1] = _scaled(r.grade[rows], low, high)
        reach = np.ones(gain.shape)
        reach[:, 1:] = np.cumprod(np.broadcast_to(continues(gain, ranks), gain.shape)[:, :-1], axis=1)
        out[first:end] = (reach * gain).sum(axis=1) / reach.sum(axis=1)
    return np.minimum(out, 1.0)


def _refuse_grades(explicit: Params) -> str | None:
    low, high = number_param(explicit, "min_grade", 0), number_param(explicit, "max_grade", 4)
    return None if 0 <= low < high else f"min_grade must be from 0 to below max_grade ({high}), found {low}"


_graded = partial(
    metric,
    family=FAMILY,
    ranges={"t": (0, None), "p": (0, 1), "max_grade": (0, None)},
    spellings={"min_rel": "min_grade", "max_rel": "max_grade"},
    refuses=_refuse_grades,
    complexity="queries × 1,000",
)
_GAIN = " Gains are grades scaled from min_grade … max_grade to 0 … 1."
_BEWARE = "max_grade is a parameter, never inferred from the data; higher grades count as max_grade."
_TO_DEPTH = f"{_BEWARE} Sums and weights are over ranks 1 to {DEPTH:,}, as in cwl_eval."
"""In the cautions, since formulas are part of the fingerprints that saved results are compared by."""


@_graded(
    "inst",
    title="INST",
    cutoff="none",
    formula="Σ w_i · gain_i, w_i ∝ C(1) · … · C(i − 1), C(i) = ((i + 2t − gain so far − 1) / (i + 2t − gain so far))²."
    + _GAIN,
    tells="The gain per doc for a reader who wants a total gain of t, and goes on longer the less was found.",
    use_when="Readers come with a goal of known size: one doc, or a handful.",
    caution=_TO_DEPTH,
    cites="Moffat, Bailey, Scholer & Thomas 2015; cwl_eval",
)
def inst(r: Rankings, t: float = 1, min_grade: float = 0, max_grade: float = 4) -> Values:
    def continues(gain: Values, rank: Values) -> Values:
        ahead = rank + 2.0 * t - np.cumsum(gain, axis=1)
        return ((ahead - 1.0) / ahead) ** 2

    return _expected_gain(r, min_grade, max_grade, continues)


@_graded(
    "insq",
    title="INSQ",
    cutoff="none",
    formula="Σ w_i · gain_i, w_i ∝ C(1) · … · C(i − 1), C(i) = ((i + 2t − 1) / (i + 2t))²." + _GAIN,
    tells="The gain per doc for a reader who wants about t docs, whatever was found so far.",
    use_when="As inst, where the stopping point should not depend on the list.",
    caution=_TO_DEPTH,
    cites="Moffat, Scholer & Thomas 2012; cwl_eval",
    monotone=True,
)
def insq(r: Rankings, t: float = 1, min_grade: float = 0, max_grade: float = 4) -> Values:
    return _expected_gain(r, min_grade, max_grade, lambda gain, rank: _patience(rank, t))


def _patience(rank: Values, t: float) -> Values:
    return ((rank + 2.0 * t - 1.0) / (rank + 2.0 * t)) ** 2


@_graded(
    "bpm",
    title="Bejeweled player model",
    formula="mean gain of the docs down to the first rank where their sum reaches t, and not beyond rank k." + _GAIN,
    tells="The gain per doc for a reader who stops once enough was found, or after k docs.",
    use_when="Both a goal and a limit of patience are known.",
    caution=_TO_DEPTH + " Docs after the goal is reached change nothing.",
    cites="Zhang et al. 2017 (static); cwl_eval",
)
def bpm(r: Rankings, k: Cutoff = ALL, t: float = 1, min_grade: float = 0, max_grade: float = 4) -> Values:
    last = DEPTH if k is None else k

    def continues(gain: Values, rank: Values) -> Values:
        return ((np.cumsum(gain, axis=1) < t) & (rank < last)).astype(np.float64)

    return _expected_gain(r, min_grade, max_grade, continues)


@_graded(
    "sdcg",
    title="Scaled discounted cumulative gain",
    formula="Σ over ranks i ≤ k of gain_i / log2(i + 1), divided by Σ over ranks i ≤ k of 1 / log2(i + 1)." + _GAIN,
    tells="DCG as a share of what a list of nothing but the best grade would have.",
    use_when="Values of different queries must be on one scale that does not depend on their gold.",
    caution=_BEWARE + " With few docs of the best grade it cannot reach 1; ndcg divides by what the gold allows.",
    cites="Järvelin & Kekäläinen 2002, scaled as in cwl_eval",
    cutoff="required",
    monotone=True,
)
def sdcg(r: Rankings, k: Cutoff = ALL, min_grade: float = 0, max_grade: float = 4) -> Values:
    top = r.upto(k)
    best = float((1.0 / log_discount(np.arange(1.0, (k or DEPTH) + 1.0))).sum())
    return np.minimum(top.sum(_scaled(top.grade, min_grade, max_grade) / log_discount(top.rank)) / best, 1.0)


_nerr = partial(
    _graded,
    use_when="ERR is wanted, with weights that are those of a reader's behaviour.",
    cites="Azzopardi, Mackenzie & Moffat 2021; cwl_eval",
    caution=_TO_DEPTH + " Not ERR: values of the two are not comparable.",
)


@_nerr(
    "nerr8",
    title="Nearly expected reciprocal rank, equation 8",
    cutoff="required",
    formula="Σ w_i · gain_i, w_i ∝ C(1) · … · C(i − 1), C(i) = 1 − gain_i before rank k, then 0." + _GAIN,
    tells="The gain per doc for a reader who stops at a doc with the probability of its gain, or after k docs.",
)
def nerr8(r: Rankings, k: Cutoff = ALL, min_grade: float = 0, max_grade: float = 4) -> Values:
    return _expected_gain(r, min_grade, max_grade, lambda gain, rank: (1.0 - gain) * (rank < (k or DEPTH)))


@_nerr(
    "nerr9",
    title="Nearly expected reciprocal rank, equation 9",
    cutoff="required",
    formula="Σ w_i · gain_i, w_i ∝ C(1) · … · C(i − 1), C(i) = i / (i + 1) · (1 − gain_i) before rank k, then 0."
    + _GAIN,
    tells="The gain per doc for a reader who stops at a doc by its gain and its rank, or after k docs.",
)
def nerr9(r: Rankings, k: Cutoff = ALL, min_grade: float = 0, max_grade: float = 4) -> Values:
    return _expected_gain(
        r, min_grade, max_grade, lambda gain, rank: rank / (rank + 1.0) * (1.0 - gain) * (rank < (k or DEPTH))
    )


@_nerr(
    "nerr10",
    title="Nearly expected reciprocal rank, equation 10",
    cutoff="none",
    formula="Σ w_i · gain_i, w_i ∝ C(1) · … · C(i − 1), C(i) = p · (1 − gain_i)." + _GAIN,
    tells="The gain per doc for a reader who stops at a doc by its gain, and otherwise goes on with probability p.",
)
def nerr10(r: Rankings, p: float = 0.9, min_grade: float = 0, max_grade: float = 4) -> Values:
    return _expected_gain(r, min_grade, max_grade, lambda gain, rank: p * (1.0 - gain))


@_nerr(
    "nerr11",
    title="Nearly expected reciprocal rank, equation 11",
    cutoff="none",
    formula="Σ w_i · gain_i, w_i ∝ C(1) · … · C(i − 1), C(i) = ((i + 2t − 1) / (i + 2t))² · (1 − gain_i)." + _GAIN,
    tells="The gain per doc for a reader who stops at a doc by its gain, and otherwise goes on as in insq.",
)
def nerr11(r: Rankings, t: float = 1, min_grade: float = 0, max_grade: float = 4) -> Values:
    return _expected_gain(r, min_grade, max_grade, lambda gain, rank: _patience(rank, t) * (1.0 - gain))
