"""Quantiles over queries with weights, in segments and of two runs; of queries that count alike, see `intervals.py`.

A resampled quantile needs no sort of its own: the values are sorted once, and the drawn weights are summed in that
order. The draws are those that means share, so that everything stays paired.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.records import dataclass
from karat.stats.intervals import Interval, quantile_interval
from karat.stats.resample import CHUNK, KEPT, all_counts, drawn_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karat.stats.resample import Units

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]
    Counts = NDArray[np.float64] | NDArray[np.uint16]

TEST = "quantile bootstrap"
FAR = 3.5
"""How many standard deviations off a resample's quantile is looked for at first."""
AT_ONCE = 1024
"""Resamples of few units that are looked at together."""
_SLACK = 1e-9
"""Relative: sums of weights that differ by less are equal, so that rounding never moves a quantile by a place."""


def quantile_of(values: Floats, q: float, weight: Floats | None = None) -> float:
    """The smallest value that at least the share q of the weight does not exceed; NaN is left out."""
    there = ~np.isnan(values) if weight is None else ~np.isnan(values) & (weight > 0)
    if not there.any():
        return math.nan
    order = np.argsort(values[there], kind="stable")
    weights = np.ones(len(order)) if weight is None else weight[there][order]
    return float(_weighted(values[there][order], q, weights[None, :])[0])


def share_up_to(values: Floats, limit: float, weight: Floats | None = None) -> float:
    """The share of the weight whose values do not exceed the limit; NaN is left out."""
    there = ~np.isnan(values)
    return float(np.average(values[there] <= limit, weights=None if weight is None else weight[there]))


def _weighted(ordered: Floats, q: float, weights: Floats) -> Floats:
    """The quantile of values in rising order under each row of weights; NaN where a row has no weight."""
    sums = np.cumsum(weights, axis=1)
    total = sums[:, -1:]
    place = np.argmax(sums >= q * total - _SLACK * total, axis=1)
    return np.where(total[:, 0] > 0, ordered[place], np.nan)


def grouped_quantiles(
    values: Floats, q: float, units: Units, groups: Sequence[Rows], *, confidence: float, resamples: int, seed: int
) -> list[Interval]:
    """The quantile in each group of queries: by order statistics, or bootstrapped where queries do not count alike.

    An end is NaN where too few queries were seen to bound the quantile on that side.
    """
    if units.plain:
        return [quantile_interval(values[rows], q, confidence) for rows in groups]
    (defined,), own, places = _defined([values], units, groups)
    out = []
    for rows in places:
        mine, weight = defined[rows], own.weight[rows]
        n, n_eff = len(rows), own.take(rows).effective
        estimate = quantile_of(mine, q, weight)
        if not _bounded(q, own, rows, confidence):
            out.append(Interval(estimate, math.nan, math.nan, "none", n, n_eff))
            continue
        (draws,) = _drawn([mine], q, own, rows, resamples, seed)
        out.append(Interval(estimate, *_percentiles(draws, confidence), "percentile", n, n_eff, resamples))
    return out


def quantile_difference(
    base: Floats,
    cand: Floats,
    q: float,
    units: Units,
    rows: Rows,
    *,
    levels: Sequence[float],
    resamples: int,
    seed: int,
) -> tuple[list[Interval], float]:
    """The candidate's quantile − the baseline's over the queries that both have, and a two-sided p.

    One interval for each level of confidence: percentiles of the difference under resamples of the queries, which are
    the same for both runs. p is twice the smaller share of differences at or beyond 0. Where either run has too few
    queries to bound its quantile on both sides there is neither (a bootstrap of an extreme value says nothing).
    Both err on the side of caution: resampled quantiles fall on few values, and ties with 0 count as beyond it.
    """
    columns, units, (rows,) = _defined([base, cand], units, [rows])
    pair = [values[rows] for values in columns]
    n, n_eff = len(rows), math.nan if units.plain else units.take(rows).effective
    before, after = (quantile_of(values, q, units.weight[rows]) for values in pair)
    estimate = after - before
    if not _bounded(q, units, rows, max(levels)):
        return [Interval(estimate, math.nan, math.nan, "none", n, n_eff)] * len(levels), math.nan
    first, second = _drawn(pair, q, units, rows, resamples, seed)
    draws = second - first
    draws = draws[~np.isnan(draws)]
    ends = [_percentiles(draws, level) for level in levels]
    intervals = [Interval(estimate, low, high, "percentile", n, n_eff, len(draws)) for low, high in ends]
    extreme = min(np.count_nonzero(draws <= 0), np.count_nonzero(draws >= 0))
    return intervals, min(1.0, 2 * float(extreme + 1) / (len(draws) + 1))


def _defined(columns: Sequence[Floats], units: Units, groups: Sequence[Rows]) -> tuple[list[Floats], Units, list[Rows]]:
    """The columns, units and groups as if there were no queries without a value: such queries change no draw."""
    there = np.ones(len(columns[0]), dtype=bool)
    for values in columns:
        there &= ~np.isnan(values)
    place = np.cumsum(there) - 1
    return [values[there] for values in columns], units.only(there), [place[rows[there[rows]]] for rows in groups]


def _bounded(q: float, units: Units, rows: Rows, confidence: float) -> bool:
    """Whether there are units enough for order statistics on both sides of the quantile."""
    count = len(np.unique(units.unit[rows][units.weight[rows] > 0]))
    interval = quantile_interval(np.arange(float(count)), q, confidence)
    return not (math.isnan(interval.low) or math.isnan(interval.high))


def _drawn(
    columns: Sequence[Floats], q: float, units: Units, rows: Rows, resamples: int, seed: int
) -> tuple[Floats, ...]:
    """The quantile of each column of the queries `rows` in every resample."""
    ordered = [_Ordered.of(values, units, rows, q) for values in columns]
    out = tuple(np.empty(resamples) for _ in columns)
    few = len(units) <= KEPT
    drawn: Counts
    step = AT_ONCE if few else CHUNK
    for start in range(0, resamples, step):
        if few:
            drawn = all_counts(len(units), resamples, seed)[:, start : start + step]
        else:
            drawn = drawn_counts(len(units), min(step, resamples - start), seed, start).T
        own = ordered[0].units  # of all columns: they are of the same queries
        counts = (drawn if len(drawn) == len(own) else drawn[own]).astype(np.float64, copy=False)
        for target, column in zip(out, ordered, strict=True):
            target[start : start + step] = column.quantiles(counts)
    return out


@dataclass(frozen=True)
class _Ordered:
    """Values in rising order, and the units and weights of their queries: where quantiles of resamples are looked for.

    Resamples differ little in where their quantile is: what lies below is one sum of weights per unit.
    """

    values: Floats
    weight: Floats
    units: Rows
    """The units of these queries, among all."""
    unit: Rows
    """The place of each query's unit among them."""
    q: float
    first: int
    last: int
    """The places at which quantiles are expected."""
    below: Floats
    whole: Floats
    """The weight of each unit's queries: of those before the first place, and of all."""

    @staticmethod
    def of(values: Floats, units: Units, rows: Rows, q: float) -> _Ordered:
        order = np.argsort(values, kind="stable")
        weight = units.weight[rows[order]]
        own, unit = np.unique(units.unit[rows[order]], return_inverse=True)
        sums, whole = np.cumsum(weight), np.bincount(unit, weight).astype(np.float64, copy=False)
        spread = FAR * np.sqrt(q * (1 - q) * (whole**2).sum())
        first, last = np.searchsorted(sums, (q * sums[-1] - spread, q * sums[-1] + spread)).tolist()
        below: Floats = np.bincount(unit[:first], weight[:first], len(own)).astype(np.float64, copy=False)
        return _Ordered(values[order], weight, own, unit, q, first, min(last + 1, len(unit)), below, whole)

    def quantiles(self, counts: Floats) -> Floats:
        """The quantile in each resample, by how often it draws each of these units (units × resamples)."""
        total = self.whole @ counts
        least = self.q * total - _SLACK * total - self.below @ counts
        sums, place = np.zeros(len(total)), np.zeros(len(total), dtype=np.int64)
        here = slice(self.first, self.last)
        for part in np.ascontiguousarray(counts[self.unit[here]]) * self.weight[here, None]:
            sums += part
            place += sums < least
        missed = (place == self.last - self.first) | (least <= 0)
        out = self.values[np.where(missed, 0, self.first + place)]
        if missed.any():
            out[missed] = _weighted(self.values, self.q, counts[:, missed][self.unit].T * self.weight)
        return out


def _percentiles(draws: Floats, confidence: float) -> tuple[float, float]:
    defined = draws[~np.isnan(draws)]
    if len(defined) == 0:
        return math.nan, math.nan
    low, high = np.quantile(defined, ((1 - confidence) / 2, (1 + confidence) / 2), method="inverted_cdf")
    return float(low), float(high)
