"""Means by a judge that are corrected with a few labels by people: prediction-powered inference.

Angelopoulos, Bates, Fannjiang, Jordan & Zrnic 2023 (PPI); Angelopoulos, Duchi & Zrnic 2023 (PPI++). With labels on a
random part of the judged pairs themselves, it is the difference estimator of surveys (Särndal, Swensson & Wretman
1992).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.errors import UsageError
from karat.records import dataclass
from karat.stats.aggregates import IntervalChoice, Statistic, estimate_figures
from karat.stats.defaults import CONFIDENCE, RESAMPLES, SEED
from karat.stats.intervals import ALL_EQUAL, Interval, checked_share, standard_error
from karat.stats.resample import Units, mean_of
from karat.stats.survey import group_sums
from karat.stats.unseen_labels import CERTAIN, NOWHERE, LabelDoubt, LabelledParts, Reach

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.stats.survey import Survey

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]

ROUNDING = 1e-12
Scope = Literal["these", "population"]
"""What an interval is about: these pairs and queries alone, or the population that they are a sample of."""


@dataclass(frozen=True)
class Labels:
    """What people say about some of the judged pairs, and how these were drawn."""

    row: Counts
    """The place of each label's pair among all judged pairs."""
    value: Floats
    survey: Survey

    def __post_init__(self) -> None:
        if not len(self.row) == len(self.value) == len(self.survey):
            raise UsageError(
                f"labels need a row, a value and a probability each: found {len(self.row)}, {len(self.value)} and "
                f"{len(self.survey)}"
            )


@dataclass(frozen=True)
class CorrectedMean:
    """A mean by a judge, corrected by labels."""

    interval: Interval
    error: float
    """The standard error."""
    tuning: float
    """λ: how much the judge counts; 0 is labels alone, 1 the judge and its mean error."""
    raw: float
    """The mean by the judge alone."""
    human: Interval
    """The mean by the labels alone."""


def ppi_mean(
    human: Floats,
    judge: Floats,
    others: Floats,
    *,
    tuning: float | None = None,
    units: Units | None = None,
    other_units: Units | None = None,
    confidence: float = CONFIDENCE,
) -> CorrectedMean:
    """λ · mean of `others` + mean of (human − λ · judge), where `others` are the judge's values without labels.

    Both samples are taken for draws from one infinite population; `units` group values that belong together (queries).
    λ minimises the error unless it is stated: cov(human, judge) / ((1 + n/N) · var(judge)), cut to [0, 1]. Variances
    divide by n − 1 (units − 1); ppi_py divides by n.
    """
    level = checked_share("confidence", confidence)
    own, theirs = _units(len(human), units), _units(len(others), other_units)
    factor = _tuned(human, judge, others) if tuning is None else tuning
    estimate = factor * mean_of(others, theirs) + mean_of(human - factor * judge, own)
    (rectifier, count), (spread, _) = standard_error(human - factor * judge, own), standard_error(others, theirs)
    error = math.hypot(rectifier, factor * spread if factor else 0.0)
    alone, _ = standard_error(human, own)
    return CorrectedMean(
        t_interval(estimate, error, count - 1, level, "ppi", len(human)),
        error,
        factor,
        mean_of(others, theirs),
        t_interval(mean_of(human, own), alone, count - 1, level, "t", len(human)),
    )


def _tuned(human: Floats, judge: Floats, others: Floats) -> float:
    """The λ that minimises the variance, to the last digit as in ppi_py."""
    together = float(np.mean((human - human.mean()) * (judge - judge.mean())))
    spread = float(np.var(np.concatenate((judge, others)), ddof=1))
    return _share(together, spread * (1 + len(human) / len(others)))


def _share(part: float, whole: float) -> float:
    """part / whole within [0, 1]; 1 where the judge does not vary, as it then changes nothing."""
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 1.0


def correct_mean(
    judge: Floats,
    labels: Labels,
    *,
    scope: Scope = "these",
    tuning: float | None = None,
    units: Units | None = None,
    confidence: float = CONFIDENCE,
) -> CorrectedMean:
    """The mean over all judged pairs that people would give, from the judge's values and labels on a random part.

    Each pair is predicted as a + λ · judge, and the labelled ones show what is missing, each weighted by 1 / its
    probability: whatever the judge does, the estimate is right on average but for terms of the order of 1/n. With the
    scope `these`, the interval is about these pairs and knows that a labelled pair is certain; with `population`,
    pairs (or `units` of them) are a sample.
    """
    level, survey = checked_share("confidence", confidence), labels.survey
    value, centre, size = labels.value, survey.mean(labels.value), len(judge)
    predicted, factor = predict_values(judge, labels, tuning=tuning)
    residual = value - predicted[labels.row]
    estimate = float(predicted.mean()) + survey.total(residual) / size
    alone = math.sqrt(survey.variance(value - centre)) / size
    error, free = math.sqrt(survey.variance(residual)) / size, float(len(value) - 1)
    if scope == "population":
        own = _units(size, units)
        error, count = standard_error(_pseudo_values(predicted, residual, labels), own)
        alone, _ = standard_error(_pseudo_values(np.full(size, centre), value - centre, labels), own)
        free = min(free, count - 1)
    return CorrectedMean(
        t_interval(estimate, error, free, level, "ppi", len(value)),
        error,
        factor,
        float(judge.mean()),
        t_interval(centre, alone, free, level, "t", len(value)),
    )


def predict_values(judge: Floats, labels: Labels, *, tuning: float | None = None) -> tuple[Floats, float]:
    """What people would say of each pair, as a + λ · judge, and λ: the one with the least error unless it is stated."""
    survey, mine = labels.survey, judge[labels.row]
    value, aside = labels.value - survey.mean(labels.value), mine - survey.mean(mine)
    factor = _share(survey.covariance(value, aside), survey.variance(aside)) if tuning is None else tuning
    return factor * judge + survey.mean(labels.value - factor * mine), factor


def _pseudo_values(predicted: Floats, residual: Floats, labels: Labels) -> Floats:
    """Predictions, and at labelled pairs what they are off by, weighted: their mean is the estimate."""
    out = predicted.copy()
    np.add.at(out, labels.row, labels.survey.weight * residual)
    return out


@dataclass(frozen=True)
class CorrectedValues:
    """Values per query by a judge, corrected by labels: their mean is right, a single one is only a part of it."""

    values: Floats
    these: Interval
    """The mean over these queries: its interval knows only that most pairs have no label."""
    population: Interval
    """The same mean, with the interval of a sample of queries: what gates and comparisons look at."""
    error: float
    """The standard error for these queries."""
    tuning: float
    raw: float
    """The mean of the values by the judge alone."""
    human: Interval
    """The mean by the labels alone, for these queries: λ = 0."""
    linear: bool
    """Whether it is a sum over pairs: right on average whatever the judge does. Others are a little off, however many
    labels there are, and nothing should be decided by them."""
    control: Floats
    """What the values gain as λ goes from 0 to 1: 0 on average, so that any other λ is as right."""
    shift: float = 0.0
    """What brings the mean of the values within what gold and labels allow: 0 where it is."""
    doubt: LabelDoubt = CERTAIN
    """How far the truth may be beyond what the spread of the values shows, since labels are few."""


@dataclass(frozen=True)
class PartEnds:
    """The least and the largest part of each judged pair in its query's figure, whatever people say of it."""

    low: Floats
    high: Floats


def correct_values(
    values: Floats,
    query: Counts,
    predicted: Floats,
    labels: Labels,
    *,
    raw: float = math.nan,
    tuning: float | None = None,
    leverage: Floats | float = 0.0,
    ends: PartEnds | None = None,
    linear: bool = True,
    units: Units | None = None,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> CorrectedValues:
    """The mean over queries of a sum over pairs, from predictions of all pairs and labels on a random part of them.

    `values` are the figures of all queries by the predictions; `query` and `predicted` are the query of each judged
    pair and its predicted part of that figure; the labels hold the parts by people. A figure that is not a sum over
    pairs is linearised by its caller: its parts are derivatives × grades. `leverage` is how much of the prediction of
    each labelled pair rests on its own label: without it, what the labels miss would look smaller than it is. `ends`
    say how far a label may be from its prediction: with them, intervals allow for one more label that is as far off as
    can be, and the figure is within what gold and labels allow.
    """
    level, survey, size = checked_share("confidence", confidence), labels.survey, len(values)
    own = _units(size, units)
    share = own.weight / own.weight.sum()  # of each query in the mean
    at = query[labels.row]
    mine, human = share[at] * predicted[labels.row], share[at] * labels.value
    factor = _share(survey.covariance(human, mine), survey.variance(mine)) if tuning is None else tuning
    parts = group_sums(predicted, query, size)
    control: Floats = parts - group_sums(survey.weight * predicted[labels.row], at, size)
    corrected: Floats = values - parts + group_sums(survey.weight * labels.value, at, size) + factor * control
    estimate = mean_of(corrected, own)
    error = math.sqrt(survey.variance((human - factor * mine) / (1 - leverage)))
    free, n = float(len(labels.value) - 1), len(labels.value)
    alone = mean_of(values - parts, own) + survey.total(human)
    parts_of_labels, allowed = None, bounds
    if ends is not None:
        open_rows = np.ones(len(predicted), dtype=bool)
        open_rows[labels.row] = False
        least, most = (share[query] * side for side in (ends.low, ends.high))
        expected = factor * share[query] * predicted
        if linear:
            certain = mean_of(values - parts, own) + float(human.sum())
            ends_of_rest = (float(side[open_rows].sum()) for side in (least, most))
            allowed = _within(bounds, *(certain + end for end in ends_of_rest))
        parts_of_labels = LabelledParts(
            (human - factor * mine) / (1 - leverage),
            (most - least)[labels.row],
            survey,
            (least - expected)[open_rows],
            (most - expected)[open_rows],
        )
    shown = math.sqrt(float(((survey.weight * (human - factor * mine)) ** 2).sum()))
    figure = _Figure.of(t_interval(estimate, error, free, level, "ppi", n), parts_of_labels, allowed, shown, level)
    return CorrectedValues(
        corrected,
        figure.these.clip(*bounds),
        figure.around(corrected, own, bounds, level, resamples, seed),
        error,
        factor,
        raw,
        t_interval(alone, math.sqrt(survey.variance(human)), free, level, "t", n).clip(*bounds),
        linear,
        control,
        figure.shift,
        figure.doubt,
    )


def tune_difference(difference: Floats, control: Floats, units: Units | None = None) -> float:
    """The λ that minimises the variance of a mean difference, from its values per query at λ = 0 and their control.

    Two systems have one judge, and its errors on docs that both return cancel: the λ of a difference is not that of
    either level.
    """
    defined = ~np.isnan(difference) & ~np.isnan(control)
    weight = np.where(defined, _units(len(difference), units).weight, 0.0)
    if not weight.any():
        return 1.0
    values, own = np.where(defined, difference, 0.0), np.where(defined, control, 0.0)
    share = weight / weight.sum()
    aside = own - float(share @ own)
    return _share(-float(share @ (values * aside)), float(share @ aside**2))


def correct_by_query(
    values: Floats,
    eligible: NDArray[np.bool_],
    labels: Labels,
    *,
    units: Units | None = None,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> CorrectedValues:
    """The mean of any figure over queries, where all pairs of randomly drawn queries have a label: nothing is assumed.

    `values` are by the judge; `eligible` are the queries that have pairs without gold, and could be drawn; the labels
    hold the figures by people of those that were drawn, and their rows are places among the eligible ones. The figure
    of an eligible query is predicted as a + λ · the judge's, and the drawn ones show what is missing.
    """
    from karat.stats.special import ndtri, stdtrit

    level, survey, own = checked_share("confidence", confidence), labels.survey, _units(len(values), units)
    rows, n = np.flatnonzero(eligible), len(labels.value)
    share = own.weight / own.weight.sum()
    predicted = values.copy()
    predicted[rows], factor = predict_values(values[rows], labels)
    at = rows[labels.row]
    # a and λ fit their own labels: what is missing looks smaller than it is, by about 2/n.
    stretch = 1 / (1 - min(2 / n, 0.5))
    residual = (labels.value - predicted[at]) * stretch
    error, free = math.sqrt(survey.variance(share[at] * residual)), float(n - 1)
    # An interval over all queries does not know how few were drawn: their parts are as far apart as Student's t asks.
    apart = float(stdtrit(free, 0.5 + level / 2) / ndtri(0.5 + level / 2)) if free > 0 else 1.0
    corrected = predicted.copy()
    corrected[at] += survey.weight * residual * apart
    control = np.zeros(len(values))
    control[rows] = values[rows] - survey.mean(values[at])
    control[at] -= survey.weight * control[at] * stretch * apart
    estimate = mean_of(corrected, own)
    certain = float((share * values)[~eligible].sum())
    alone = share[at] * labels.value
    parts_of_labels, allowed, open_rows = None, bounds, eligible.copy()
    open_rows[at] = False
    if all(map(math.isfinite, bounds)):
        weight = share[open_rows]
        known = float((share * values)[~eligible].sum() + (share[at] * labels.value).sum())
        allowed = _within(bounds, *(known + end * float(weight.sum()) for end in bounds))
        parts_of_labels = LabelledParts(
            share[at] * residual,
            share[at] * (bounds[1] - bounds[0]),
            survey,
            weight * (bounds[0] - predicted[open_rows]),
            weight * (bounds[1] - predicted[open_rows]),
        )
    shown = math.sqrt(float(((survey.weight * share[at] * residual * apart) ** 2).sum()))
    figure = _Figure.of(t_interval(estimate, error, free, level, "ppi", n), parts_of_labels, allowed, shown, level)
    return CorrectedValues(
        corrected,
        figure.these.clip(*bounds),
        figure.around(corrected, own, bounds, level, resamples, seed),
        error,
        factor,
        mean_of(values, own),
        t_interval(certain + survey.total(alone), math.sqrt(survey.variance(alone)), free, level, "t", n).clip(*bounds),
        linear=True,
        control=control,
        shift=figure.shift,
        doubt=figure.doubt,
    )


def _within(bounds: tuple[float, float], least: float, most: float) -> tuple[float, float]:
    """What is allowed, without what rounding adds to it beyond the bounds."""
    low, high = (min(max(end, bounds[0]), bounds[1]) for end in (least, most))
    return low, high


@dataclass(frozen=True)
class _Figure:
    """A corrected figure within what is allowed, with its interval for these queries alone."""

    these: Interval
    shift: float = 0.0
    doubt: LabelDoubt = CERTAIN

    @staticmethod
    def of(
        spread: Interval, parts: LabelledParts | None, allowed: tuple[float, float], shown: float, level: float
    ) -> _Figure:
        """From Student's t by the `spread` of labels, and how far another label may reach: the longer one counts.

        `shown` is the error of labels that the values of queries show.
        """
        least, most = allowed
        middle = min(max(spread.estimate, least), most)
        shift = middle - spread.estimate
        if most - least <= ROUNDING:  # labels on all that matters leave no doubt
            return _Figure(Interval(middle, math.nan, math.nan, ALL_EQUAL, spread.n), shift)
        half = (spread.high - spread.low) / 2
        reach = NOWHERE if parts is None else parts.reach(level)
        down, up = (float(np.fmax(half, side)) for side in reach)
        if parts is None or reach == NOWHERE:
            return _Figure(
                replace(spread, estimate=middle, low=middle - half, high=middle + half).clip(least, most), shift
            )
        limited = Reach(down, up).at_most(middle - least, most - middle)
        these = Interval(middle, middle - limited.down, middle + limited.up, spread.method, spread.n)
        doubt = LabelDoubt.of(limited, shown, level, parts.seen)
        return _Figure(these.clip(least, most), shift, doubt)

    def around(
        self, values: Floats, units: Units, bounds: tuple[float, float], level: float, resamples: int, seed: int
    ) -> Interval:
        """The interval for queries like these: the values do not know how far labels may be off."""
        found = population_interval(values + self.shift, units, bounds, level, resamples=resamples, seed=seed)
        return self.doubt.widen(found, level).clip(*bounds)


def population_interval(
    values: Floats,
    units: Units,
    bounds: tuple[float, float],
    confidence: float = CONFIDENCE,
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """The mean over queries like these, as results have it: values may be beyond the bounds, and it is not."""
    usual = bounds if all(map(math.isfinite, bounds)) else None
    choice = IntervalChoice(confidence, resamples=resamples, seed=seed)
    statistic = Statistic("mean", bounds=(-math.inf, None), usual=usual)
    ((found,),) = estimate_figures([values], [statistic], units, [np.arange(len(values))], choice)
    return found


def _units(size: int, units: Units | None) -> Units:
    return Units.of(size) if units is None else units


def t_interval(estimate: float, error: float, free: float, level: float, method: str, n: int) -> Interval:
    """Student's t with so many degrees of freedom."""
    from karat.stats.special import stdtrit

    if not free > 0 or not error > 0:  # equal values alone do not say how far the mean may be
        return Interval(estimate, math.nan, math.nan, ALL_EQUAL if error == 0 else "none", n)
    half = float(stdtrit(free, 0.5 + level / 2)) * error
    return Interval(estimate, estimate - half, estimate + half, method, n)
