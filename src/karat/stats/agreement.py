"""How well two judges agree: confusion matrix, kappa, sensitivity and specificity; of any number of them: alpha."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.errors import UsageError
from karat.records import dataclass
from karat.stats.defaults import CONFIDENCE, RESAMPLES, SEED
from karat.stats.groups import intervals
from karat.stats.intervals import ALL_EQUAL, Interval, bca_bounds, checked_share, student
from karat.stats.resample import Group, Units, resampled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]
    Mask = NDArray[np.bool_]

KappaWeights = Literal["none", "linear", "quadratic"]
GradeScale = Literal["nominal", "ordinal", "interval"]


@dataclass(frozen=True)
class ConfusionMatrix:
    """How often people and the judge gave which grades; rows are people's grades, columns the judge's."""

    grades: tuple[float, ...]
    counts: Counts
    """Pairs that both judged."""
    shares: Floats
    """Of all pairs that these stand for, by their weights; they add up to 1."""


@dataclass(frozen=True)
class Discrimination:
    """How well a judge tells relevant docs from others."""

    sensitivity: Interval
    """Of the docs that people call relevant, the share that the judge does too."""
    specificity: Interval
    """Of the other docs, the share that the judge does not call relevant."""
    skill: Interval
    """Sensitivity + specificity − 1 (Youden 1950): 0 is chance, 1 perfect."""

    @property
    def above_chance(self) -> bool:
        """Whether the judge is better than chance, with its whole interval."""
        return self.skill.low > 0


def count_confusion(
    human: Floats, judge: Floats, *, grades: Sequence[float] | None = None, weights: Floats | None = None
) -> ConfusionMatrix:
    """The confusion matrix over a scale of grades; without one, over the grades that occur.

    `weights` are 1 / the probability with which each pair was drawn: a sample with more of the high grades then says
    what a plain one would.
    """
    scale = np.unique(np.concatenate((human, judge)) if grades is None else np.asarray(grades, dtype=np.float64))
    size = len(scale)
    places = [np.searchsorted(scale, side).clip(max=max(size - 1, 0)) for side in (human, judge)]
    for side, place in zip((human, judge), places, strict=True):
        if len(side) and (scale[place] != side).any():
            raise UsageError(
                f"grade {side[scale[place] != side][0]:g} is not on the scale {', '.join(f'{g:g}' for g in scale)}"
            )
    cell = places[0] * size + places[1]
    counts = np.bincount(cell, minlength=size * size).reshape(size, size)
    mass = np.bincount(cell, weights, minlength=size * size).reshape(size, size).astype(np.float64)
    return ConfusionMatrix(tuple(scale.tolist()), counts, mass / mass.sum() if mass.any() else mass)


def kappa(
    human: Floats,
    judge: Floats,
    *,
    by: KappaWeights = "none",
    grades: Sequence[float] | None = None,
    units: Units | None = None,
    confidence: float = CONFIDENCE,
) -> Interval:
    """Cohen's kappa of 1960, and of 1968 with weights by the distance of grades; Student's t around it.

    The standard error is that of Fleiss, Cohen & Everitt 1969 with n − 1, from what each pair adds to kappa; so it
    holds for weighted samples and for units of several pairs (queries) too. NaN where both gave one grade throughout.
    """
    level = checked_share("confidence", confidence)
    own = Units.of(len(human)) if units is None else units
    table = count_confusion(human, judge, grades=grades, weights=own.weight)
    scale, p = np.array(table.grades), table.shares
    agree = agreement_weights(scale, by)
    rows, columns = p.sum(axis=1), p.sum(axis=0)
    by_row, by_column = agree @ columns, rows @ agree
    observed, chance = float((agree * p).sum()), float(rows @ agree @ columns)
    if len(human) == 0 or not 1 - chance > 1e-12:
        return Interval(math.nan, math.nan, math.nan, "none", len(human))
    estimate = (observed - chance) / (1 - chance)
    pull = (agree - observed) * (1 - chance) - (by_row[:, None] + by_column[None, :] - 2 * chance) * (1 - observed)
    pull /= (1 - chance) ** 2
    each = estimate + pull[np.searchsorted(scale, human), np.searchsorted(scale, judge)]
    n_eff = math.nan if own.plain else own.effective
    return Interval(estimate, *student(each, own, level), "t", len(human), n_eff).clip(-1.0, 1.0)


def agreement_weights(scale: Floats, by: KappaWeights) -> Floats:
    """How far two grades agree: 1 for the same one, 0 for the ends of the scale or, without weights, for any other."""
    if by == "none" or len(scale) < 2:
        return np.eye(len(scale))
    apart = np.abs(scale[:, None] - scale[None, :]) / (scale[-1] - scale[0])
    out: Floats = 1 - (apart if by == "linear" else apart**2)
    return out


def discriminate(
    human: Mask, judge: Mask, *, units: Units | None = None, confidence: float = CONFIDENCE
) -> Discrimination:
    """Sensitivity and specificity of a judge, with the intervals that shares have everywhere.

    The interval of their sum comes from theirs (Newcombe 1998): it is right for few pairs and for shares of 0 and 1.
    """
    own = Units.of(len(human)) if units is None else units
    shares = []
    for side in (True, False):
        rows = human == side
        right = (judge[rows] == side).astype(np.float64)
        (share,) = intervals(right[None, :], own.take(rows), bounds=[(0.0, 1.0)], confidence=confidence)
        shares.append(share)
    estimate = shares[0].estimate + shares[1].estimate - 1
    down, up = (math.hypot(*(getattr(s, end) - s.estimate for s in shares)) for end in ("low", "high"))
    skill = Interval(estimate, estimate - down, estimate + up, "newcombe", len(human)).clip(-1.0, 1.0)
    return Discrimination(shares[0], shares[1], skill)


def krippendorff_alpha(
    ratings: Floats,
    *,
    scale: GradeScale = "ordinal",
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """Krippendorff's alpha of raters (columns) on pairs (rows); NaN where a rater did not judge a pair.

    Pairs with fewer than two ratings say nothing. The interval comes from resampling pairs (BCa).
    """
    level = checked_share("confidence", confidence)
    rows = ratings[(~np.isnan(ratings)).sum(axis=1) >= 2]
    values = np.unique(rows[~np.isnan(rows)])
    if len(values) < 2:
        return Interval(math.nan, math.nan, math.nan, "none", len(rows))
    counts = (rows[:, :, None] == values).sum(axis=1).astype(np.float64)  # pairs × values
    joint = counts[:, :, None] * counts[:, None, :]
    joint[:, range(len(values)), range(len(values))] -= counts
    joint /= counts.sum(axis=1)[:, None, None] - 1
    each = joint.reshape(len(rows), -1)
    total = each.sum(axis=0)
    estimate = float(_alpha(total[None, :], values, scale)[0])
    if len(rows) < 2:
        return Interval(estimate, math.nan, math.nan, "none", len(rows))
    even = np.full(each.shape, 1 / len(rows))  # sums, not ratios
    (sums,) = resampled([Group(each, even)], len(rows), resamples, seed)
    draws, without = _alpha(sums, values, scale), _alpha(total - each, values, scale)
    draws = draws[~np.isnan(draws)]
    if len(draws) == 0 or draws.min() == draws.max():
        return Interval(estimate, math.nan, math.nan, ALL_EQUAL, len(rows))
    ends = bca_bounds(draws, estimate, without[~np.isnan(without)], level, expanded=True)
    return Interval(estimate, *ends, "bca", len(rows), draws=resamples).clip(-1.0, 1.0)


def _alpha(coincidences: Floats, values: Floats, scale: GradeScale) -> Floats:
    """Alpha of each row of coincidences (rows × values²): 1 − disagreement seen / disagreement by chance."""
    size = len(values)
    counts = coincidences.reshape(-1, size, size)
    margin = counts.sum(axis=2)  # rows × values
    if scale == "nominal":
        apart = np.broadcast_to(1 - np.eye(size), counts.shape)
    elif scale == "interval":
        apart = np.broadcast_to((values[:, None] - values[None, :]) ** 2, counts.shape)
    else:  # how many ratings lie from one grade to the other, half of those at the ends
        below = np.cumsum(margin, axis=1) - margin / 2
        apart = (below[:, :, None] - below[:, None, :]) ** 2
    n = margin.sum(axis=1)
    by_chance = margin[:, :, None] * margin[:, None, :]
    with np.errstate(invalid="ignore", divide="ignore"):
        out: Floats = 1 - (n - 1) * (apart * counts).sum(axis=(1, 2)) / (apart * by_chance).sum(axis=(1, 2))
    return out
