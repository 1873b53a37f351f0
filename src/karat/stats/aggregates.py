"""Values of queries → one figure: a mean, a total, a geometric mean or a quantile; and how two runs' figures differ.

Which one it is, a metric declares (`aggregate=`). Every verb asks here, so that a figure, its change and the test of
that change are of one statistic. Means, totals and geometric means are means of scores: the values themselves, or
their logarithms. Intervals and tests are of scores, and are shown on the scale of the figure.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from itertools import product
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.records import dataclass
from karat.stats.bounded_means import PairedShares
from karat.stats.defaults import CONFIDENCE, DRAWS, RESAMPLES, SEED
from karat.stats.groups import UNBOUNDED, grouped_intervals
from karat.stats.intervals import ALL_EQUAL, Interval
from karat.stats.quantiles import TEST as QUANTILE_TEST
from karat.stats.quantiles import grouped_quantiles, quantile_difference, quantile_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.stats.changes import DecidingTest
    from karat.stats.resample import Units

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]

Aggregate = Literal["mean", "sum", "geometric mean", "quantile"]
ChangeScale = Literal["difference", "ratio"]
"""How two figures are compared: candidate − baseline, or candidate / baseline."""
NEUTRAL: dict[ChangeScale, float] = {"difference": 0.0, "ratio": 1.0}
"""The change of a figure that stays the same."""
SAME = 1e-11
"""Relative: values this close are equal; results are written with 12 digits."""


@dataclass(frozen=True)
class IntervalChoice:
    """How intervals are found."""

    confidence: float = CONFIDENCE
    method: str = "auto"
    resamples: int = RESAMPLES
    seed: int = SEED
    threads: int = 1


@dataclass(frozen=True)
class Statistic:
    """How the values of queries become one figure, and the scale on which they lie."""

    aggregate: Aggregate = "mean"
    quantile: float = math.nan
    bounds: tuple[float, float | None] = (-math.inf, None)
    floor: float = 0.0
    """In a geometric mean smaller values count as this one."""
    usual: tuple[float, float] | None = None
    """The bounds of the metric, where single values may lie beyond them, as corrected ones do."""

    @property
    def bounded(self) -> Statistic:
        """The same figure of values that lie within the usual bounds."""
        return replace(self, bounds=self.usual or self.bounds, usual=None)

    @property
    def change(self) -> ChangeScale:
        """How two figures are compared: geometric means by their ratio, which is a difference of mean logarithms."""
        return "ratio" if self.aggregate == "geometric mean" else "difference"

    @property
    def weighted(self) -> bool:
        """Whether the weights of queries count: a total is of the queries that there are."""
        return self.aggregate != "sum"

    def scores(self, values: Floats) -> Floats:
        """What is averaged and tested: the values, or their logarithms."""
        return np.log(np.maximum(values, self.floor)) if self.change == "ratio" else values

    def to_figure(self, score: float, n: int) -> float:
        """The figure of n queries with this mean score; the change of a figure, of a mean difference."""
        return math.exp(score) if self.change == "ratio" else n * score if self.aggregate == "sum" else score

    def to_score(self, figure: float, n: int) -> float:
        """The mean score of n queries with this figure, or the mean difference behind a change."""
        if self.change == "ratio":
            return math.log(max(figure, self.floor))
        return figure / n if self.aggregate == "sum" and n else figure

    def figure(self, values: Floats, weights: Floats | None = None) -> float:
        """The one number for all queries; undefined values are left out."""
        if self.aggregate == "mean" and weights is None and len(values):
            total = float(np.add.reduce(values))
            if total == total:  # nearly always: no value is undefined
                return total / len(values)
        there = ~np.isnan(values)
        count = np.count_nonzero(there)
        if count == 0:
            return math.nan
        if self.aggregate == "quantile":
            return quantile_of(values, self.quantile, weights)
        scores = self.scores(values if count == len(values) else values[there])
        if self.aggregate == "sum":
            return float(scores.sum())
        if weights is None:
            return self.to_figure(float(np.add.reduce(scores) / len(scores)), len(scores))
        own = weights[there]
        total = own.sum()
        return self.to_figure(float((scores * own).sum() / total), len(scores)) if total > 0 else math.nan

    def score_bounds(self) -> tuple[float, float]:
        """The least and the largest score that a query can have."""
        low, high = self.bounds
        top = math.inf if high is None else high
        if self.change == "difference":
            return low, top
        return math.log(max(low, self.floor)), math.log(top) if top > 0 else -math.inf

    def shares(self, values: Floats) -> Floats:
        """Where the scores are on their scale, from 0 to 1; without a scale all are 0."""
        low, high = self.score_bounds()
        if not (math.isfinite(low) and low < high < math.inf):
            return np.where(np.isnan(values), np.nan, 0.0)
        return (self.scores(values) - low) / (high - low)

    def within(self, interval: Interval) -> Interval:
        """The interval of a figure, from that of its mean score: on the figure's scale, and not beyond its bounds."""
        return self._on_scale(interval, *self.score_bounds())

    def change_within(self, interval: Interval, factor: float = 1.0) -> Interval:
        """The interval of a change, from that of the mean difference of scores, and not beyond what there can be."""
        return self._on_scale(interval, *self.change_bounds(factor))

    def change_bounds(self, factor: float = 1.0) -> tuple[float, float]:
        """The least and the largest difference of scores that a query can have, from `factor` × the baseline's."""
        least, most = self.bounds
        base = replace(self, bounds=(factor * least, None if most is None else factor * most))
        (low, high), (base_low, base_high) = self.score_bounds(), base.score_bounds()
        return low - base_high, high - base_low

    def _on_scale(self, interval: Interval, least: float, most: float) -> Interval:
        cut = interval.clip(least, most)
        middle, low, high = (self.to_figure(score, cut.n) for score in (cut.estimate, cut.low, cut.high))
        return replace(cut, estimate=middle, low=low, high=high)


def estimate_figures(
    columns: Sequence[Floats],
    statistics: Sequence[Statistic],
    units: Units,
    groups: Sequence[Rows],
    choice: IntervalChoice,
) -> list[list[Interval]]:
    """The figure of each column in each group of queries, with its interval; a total has none."""
    out: list[dict[int, Interval]] = [{} for _ in groups]
    means = [i for i, s in enumerate(statistics) if s.aggregate in ("mean", "geometric mean")]
    scores = [statistics[i].scores(columns[i]) for i in means]
    mean_rows = _mean_intervals(scores, [statistics[i] for i in means], units, groups, choice)
    for intervals, one in zip(mean_rows, out, strict=True):
        one.update((i, statistics[i].within(interval)) for i, interval in zip(means, intervals, strict=True))
    for i, (values, statistic) in enumerate(zip(columns, statistics, strict=True)):
        if statistic.aggregate == "quantile":
            quantiles = grouped_quantiles(
                values,
                statistic.quantile,
                units,
                groups,
                confidence=choice.confidence,
                resamples=choice.resamples,
                seed=choice.seed,
            )
            for one, interval in zip(out, quantiles, strict=True):
                one[i] = interval
        elif statistic.aggregate == "sum":
            for one, rows in zip(out, groups, strict=True):
                n = int(np.count_nonzero(~np.isnan(values[rows])))
                one[i] = Interval(statistic.figure(values[rows]), math.nan, math.nan, "none", n)
    if beyond := [i for i, s in enumerate(statistics) if s.usual is not None]:
        inner = [_at_most(columns[i], *(statistics[i].usual or UNBOUNDED)) for i in beyond]
        others = estimate_figures(inner, [statistics[i].bounded for i in beyond], units, groups, choice)
        for one, of_inner in zip(out, others, strict=True):
            for i, interval in zip(beyond, of_inner, strict=True):
                bounded = statistics[i].bounded
                one[i] = bounded.within(_widened(one[i], interval, bounded.score_bounds()))
    return [[one[i].without_infinite_ends() for i in range(len(columns))] for one in out]


def _at_most(values: Floats, least: float, most: float) -> Floats:
    """The values within bounds; those at a bound but for rounding are at it."""
    slack = SAME * (most - least)
    return np.where(values <= least + slack, least, np.where(values >= most - slack, most, values))


def _widened(interval: Interval, other: Interval, bounds: tuple[float, float] = (-math.inf, math.inf)) -> Interval:
    """An interval whose estimate is within the bounds, and whose ends are at least as far from it as those of another.

    Values of no known scale that hardly vary have a short interval, though another query may be far from them: what the
    same values within their usual bounds leave open stays open.
    """
    middle = min(max(interval.estimate, bounds[0]), bounds[1])
    low, high = middle - (other.estimate - other.low), middle + (other.high - other.estimate)
    return replace(
        interval, estimate=middle, low=float(np.fmin(interval.low, low)), high=float(np.fmax(interval.high, high))
    )


@dataclass(frozen=True)
class FigureChange:
    """How a candidate's figure differs from the baseline's, over the queries for which both have a value."""

    statistic: Statistic
    before: float
    after: float
    intervals: tuple[Interval, ...]
    """Of the change, at each level of confidence that was asked for."""
    differences: Floats
    """Of the scores, query by query; NaN where one of the runs has no value."""
    units: Units
    p: Mapping[str, float] = field(default_factory=dict)
    """Of the tests that the intervals agree with: the largest decides."""


def score_differences(statistic: Statistic, base: Floats, candidate: Floats, factor: float = 1.0) -> Floats:
    """How the scores differ query by query from `factor` × baseline; what differs by rounding alone is equal."""
    before = statistic.scores(factor * base)
    out = statistic.scores(candidate) - before
    slack = SAME * np.maximum(1.0, np.abs(before))
    out[np.abs(out) <= slack] = 0.0
    if not all(map(math.isfinite, statistic.change_bounds(factor))):  # only their spread says how far they reach
        there = np.flatnonzero(~np.isnan(out))
        order = there[np.argsort(out[there], kind="stable")]
        first = np.diff(out[order], prepend=-math.inf) > slack[there].max(initial=0.0)
        group = np.cumsum(first) - 1
        out[order] = (np.bincount(group, out[order]) / np.bincount(group))[group]
    return out


def without_zero_width(interval: Interval, slack: float) -> Interval:
    """The interval of a change without a scale, or none where its ends are equal: no spread says nothing of others."""
    if interval.high - interval.low > slack or math.isnan(interval.low):
        return interval
    return replace(interval, low=math.nan, high=math.nan, method=ALL_EQUAL)


def measure_changes(
    base: Floats,
    candidate: Floats,
    statistics: Sequence[Statistic],
    units: Units,
    groups: Sequence[Rows],
    choice: IntervalChoice,
    *,
    levels: Sequence[float] = (),
    factor: float = 1.0,
    test: DecidingTest = "randomization",
    draws: int = DRAWS,
) -> list[list[FigureChange]]:
    """How the figure of each row of values changes in each group of queries (columns).

    `factor` multiplies the baseline's values. There is one interval for each of `levels`, which is the confidence of
    `choice` unless stated. It is the inverse of `test` unless `choice` names another method.
    """
    choices = [replace(choice, confidence=level) for level in levels or (choice.confidence,)]
    from karat.stats.changes import MeanChange, estimate_changes

    units_of = [units if s.weighted else units.unweighted() for s in statistics]
    sides, columns = (base, candidate), list(zip(base, candidate, statistics, strict=True))
    differences = [score_differences(s, before, after, factor) for before, after, s in columns]
    intervals: dict[tuple[int, int], tuple[Interval, ...]] = {}
    p: dict[tuple[int, int], Mapping[str, float]] = {}
    for weighted in (True, False):
        places = [i for i, s in enumerate(statistics) if s.weighted == weighted and s.aggregate != "quantile"]
        if places:
            scores, own = np.array([differences[i] for i in places]), units_of[places[0]]
            if choice.method == "auto":
                changes = estimate_changes(
                    scores,
                    own,
                    groups,
                    bounds=[statistics[i].change_bounds(factor) for i in places],
                    shares=PairedShares(*(np.array([statistics[i].shares(v[i]) for i in places]) for v in sides)),
                    levels=[one.confidence for one in choices],
                    test=test,
                    draws=draws,
                    seed=choice.seed,
                )
            else:
                named = [
                    _mean_intervals(list(scores), [Statistic()] * len(places), own, groups, one) for one in choices
                ]
                changes = [
                    [MeanChange(tuple(one[g][j] for one in named)) for j in range(len(places))]
                    for g in range(len(groups))
                ]
            for g, (j, i) in product(range(len(groups)), enumerate(places)):
                one = changes[g][j]
                intervals[g, i] = tuple(statistics[i].change_within(interval, factor) for interval in one.intervals)
                p[g, i] = one.p
    for i, (before, after, statistic) in enumerate(columns):
        if statistic.aggregate == "quantile":
            for g, rows in enumerate(groups):
                ends, p_quantile = quantile_difference(
                    factor * before,
                    after,
                    statistic.quantile,
                    units,
                    rows,
                    levels=[one.confidence for one in choices],
                    resamples=choice.resamples,
                    seed=choice.seed,
                )
                # Rounding moves the ends by a share of the quantiles, which rare values beyond them do not change.
                shared = rows[~np.isnan(differences[i][rows])]
                quantiles = (statistic.figure(v[shared], units.weight[shared]) for v in (factor * before, after))
                slack = SAME * max(1.0, *(abs(one) for one in quantiles))
                known = [without_zero_width(one, slack) for one in ends]
                intervals[g, i] = tuple(known)
                p[g, i] = {QUANTILE_TEST: p_quantile if known == ends else math.nan}
    if factor != 1.0:
        for g, i in _without_spread(columns, groups):
            blank = (replace(one, low=math.nan, high=math.nan, method=ALL_EQUAL) for one in intervals[g, i])
            intervals[g, i], p[g, i] = tuple(blank), dict.fromkeys(p[g, i], math.nan)
    if beyond := [i for i, s in enumerate(statistics) if s.usual is not None]:
        before, after = (
            np.array([np.clip(side[i], *(statistics[i].usual or ())) for i in beyond]) for side in (base, candidate)
        )
        inner = measure_changes(
            before,
            after,
            [statistics[i].bounded for i in beyond],
            units,
            groups,
            choice,
            levels=levels,
            factor=factor,
            test=test,
            draws=draws,
        )
        for g, (j, i) in product(range(len(groups)), enumerate(beyond)):
            one_inner = inner[g][j]
            intervals[g, i] = tuple(map(_widened, intervals[g, i], one_inner.intervals))
            names = dict.fromkeys((*p[g, i], *one_inner.p))
            p[g, i] = {t: float(np.fmax(p[g, i].get(t, math.nan), one_inner.p.get(t, math.nan))) for t in names}
    out = []
    counting = {s.weighted: own for s, own in zip(statistics, units_of, strict=True)}
    for g, rows in enumerate(groups):
        of_group, there = [], {weighted: own.take(rows) for weighted, own in counting.items()}
        for i, (before, after, statistic) in enumerate(columns):
            own, moved = there[statistic.weighted], differences[i][rows]
            both = ~np.isnan(moved)
            weight = None if own.plain else own.weight
            figures = [statistic.figure(np.where(both, v[rows], np.nan), weight) for v in (factor * before, after)]
            bounded = tuple(one.without_infinite_ends() for one in intervals[g, i])
            of_group.append(FigureChange(statistic, figures[0], figures[1], bounded, moved, own, p[g, i]))
        out.append(of_group)
    return out


def _without_spread(
    columns: Sequence[tuple[Floats, Floats, Statistic]], groups: Sequence[Rows]
) -> Iterator[tuple[int, int]]:
    """The groups and columns whose values, of no known scale, all change alike: a share of the baseline hides it."""
    for i, (before, after, statistic) in enumerate(columns):
        if all(map(math.isfinite, statistic.change_bounds())):
            continue
        changes = score_differences(statistic, before, after)
        for g, rows in enumerate(groups):
            own = changes[rows][~np.isnan(changes[rows])]
            if len(own) > 1 and (own == own[0]).all():
                yield g, i


def _mean_intervals(
    scores: Sequence[Floats],
    statistics: Sequence[Statistic],
    units: Units,
    groups: Sequence[Rows],
    choice: IntervalChoice,
) -> list[list[Interval]]:
    return grouped_intervals(
        np.array(scores).reshape(len(scores), len(units.unit)),
        units,
        groups,
        bounds=[s.score_bounds() for s in statistics],
        confidence=choice.confidence,
        method=choice.method,
        resamples=choice.resamples,
        seed=choice.seed,
        threads=choice.threads,
    )
