"""Intervals of one list of values, of many metrics, and in many segments, all from the same resamples."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import UsageError
from karat.stats.betting import BETTING, CONTRADICTION, Bets
from karat.stats.bounded_means import UnitMeans, mean_quantiles
from karat.stats.defaults import CONFIDENCE, RESAMPLES, SEED
from karat.stats.intervals import (
    ALL_EQUAL,
    Interval,
    bca_bounds,
    checked_count,
    checked_method,
    checked_share,
    checked_values,
    chosen_method,
    clopper_pearson,
    jackknife_means,
    student,
    studentized,
    wilson,
)
from karat.stats.resample import Group, Units, mean_of, resampled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]

_DRAWN = ("bca", "percentile")
UNBOUNDED = (-math.inf, math.inf)


def interval(
    values: Sequence[float] | Floats,
    *,
    statistic: str | Callable[[Floats], float] = "mean",
    confidence: float = CONFIDENCE,
    method: str = "auto",
    resamples: int = RESAMPLES,
    seed: int = SEED,
    binary: bool = False,
    clusters: Sequence[object] | None = None,
    weights: Sequence[float] | None = None,
    threads: int = 1,
    bounds: tuple[float | None, float | None] = (None, None),
    sequential: bool = False,
) -> Interval:
    """The interval of the mean of bare values; NaN is left out.

    `bounds` are the least and the largest value that there can be, such as (0, 1): with both, few values and values at
    a bound have an interval that holds (method "gaffke"), and no end is beyond them. `binary` marks shares, whose
    bounds are 0 and 1. `clusters` names the conversation of each value. Another `statistic`, `"median"` or a function
    of an array, is bootstrapped by BCa, or by percentiles if that is the method. Where all values are equal, and not
    at a bound, the ends are NaN: equal values alone do not say how far the mean may be. `sequential` takes values with
    bounds in their order, and the interval holds after each of them: look as often as you like (method "betting").
    """
    scale = (0.0, 1.0) if binary and bounds == (None, None) else bounds
    least, most = (-math.inf if scale[0] is None else scale[0], math.inf if scale[1] is None else scale[1])
    if not least < most:
        raise UsageError(f"bounds must be the least and the largest value, such as (0, 1), found {bounds!r}")
    if sequential and (not math.isfinite(most - least) or statistic != "mean" or method != "auto"):
        raise UsageError("sequential is for means of values with bounds, such as (0, 1), without another method")
    checked_count("resamples", resamples, 100)
    checked_count("seed", seed, 0)
    data = checked_values("values", values)
    if len(beyond := data[(data < least) | (data > most)]):
        raise UsageError(f"values must be within their bounds, {least:g} to {most:g}, found {beyond[0]:g}")
    if statistic != "mean":
        if clusters is not None or weights is not None or binary:
            raise UsageError("clusters, weights and binary are for the mean alone, not for another statistic")
        function = np.median if statistic == "median" else statistic
        if not callable(function):
            raise UsageError(f"statistic must be 'mean', 'median' or a function, found {statistic!r}")
        defined = data[~np.isnan(data)]
        return _of_statistic(defined, function, confidence, checked_method(method), resamples, seed).clip(least, most)
    (interval,) = intervals(
        data[None, :],
        Units.of(len(data), clusters, weights, np.arange(float(len(data))) if sequential else None),
        bounds=[(least, most)],
        confidence=confidence,
        method=method,
        resamples=resamples,
        seed=seed,
        threads=threads,
    )
    return interval.clip(least, most)


def _of_statistic(
    data: Floats, function: Callable[[Floats], Any], confidence: float, method: str, resamples: int, seed: int
) -> Interval:
    """The bootstrap of any function of the values."""
    level = checked_share("confidence", confidence)
    if method not in ("auto", *_DRAWN):
        raise UsageError(f"method {method!r} is for means alone; use 'bca' or 'percentile' with another statistic")
    if len(data) < 2:
        return Interval(float(function(data)) if len(data) else math.nan, math.nan, math.nan, "none", len(data))
    estimate = float(function(data))
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0]))
    n = len(data)
    draws = np.array([function(data[rng.integers(0, n, n)]) for _ in range(resamples)], dtype=np.float64)
    name = "percentile" if method == "percentile" else "bca"
    if draws.min() == draws.max():
        return Interval(estimate, math.nan, math.nan, ALL_EQUAL, len(data))
    if name == "percentile":
        low, high = np.quantile(draws, ((1 - level) / 2, (1 + level) / 2))
        return Interval(estimate, float(low), float(high), name, len(data))
    without = np.array([function(np.delete(data, i)) for i in range(len(data))], dtype=np.float64)
    return Interval(estimate, *bca_bounds(draws, estimate, without, level), name, len(data))


def intervals(
    values: Floats,
    units: Units,
    *,
    bounds: Sequence[tuple[float, float]] | None = None,
    confidence: float = CONFIDENCE,
    method: str = "auto",
    resamples: int = RESAMPLES,
    seed: int = SEED,
    threads: int = 1,
) -> list[Interval]:
    """The interval of each row's mean over all queries."""
    everything = [np.arange(values.shape[1])]
    return grouped_intervals(
        values,
        units,
        everything,
        bounds=bounds,
        confidence=confidence,
        method=method,
        resamples=resamples,
        seed=seed,
        threads=threads,
    )[0]


def grouped_intervals(
    values: Floats,
    units: Units,
    groups: Sequence[Rows],
    *,
    bounds: Sequence[tuple[float, float]] | None = None,
    confidence: float = CONFIDENCE,
    method: str = "auto",
    resamples: int = RESAMPLES,
    seed: int = SEED,
    threads: int = 1,
) -> list[list[Interval]]:
    """The interval of each row's mean in each group of queries (columns).

    `bounds` are those of each row's values. `auto` takes Gaffke's interval for bounded values and the expanded BCa for
    others; by name, BCa is that of the textbooks. A row is resampled over the queries for which it is defined: no other
    query changes its interval.
    """
    level, asked = checked_share("confidence", confidence), checked_method(method)
    scales = [UNBOUNDED] * len(values) if bounds is None else bounds
    out: list[dict[int, Interval]] = [{} for _ in groups]
    for rows, part, own, places in defined_alike(values, units, groups):
        mine = [scales[i] for i in rows]
        for target, column in zip(
            out, _resampled_intervals(part, own, places, mine, level, asked, resamples, seed, threads), strict=True
        ):
            target.update(zip(rows, column, strict=True))
    return [[one[i] for i in range(len(values))] for one in out]


def defined_alike(
    values: Floats, units: Units, groups: Sequence[Rows]
) -> Iterator[tuple[list[int], Floats, Units, list[Rows]]]:
    """Rows that are defined for the same queries, with these queries alone: values, units and groups."""
    alike: dict[bytes, list[int]] = {}
    defined = ~np.isnan(values)
    for i, row in enumerate(defined):
        alike.setdefault(row.tobytes(), []).append(i)
    for rows in alike.values():
        there = defined[rows[0]]
        if there.any() and not there.all():
            place = np.cumsum(there) - 1
            yield rows, values[rows][:, there], units.only(there), [place[group[there[group]]] for group in groups]
        else:
            yield rows, values[rows], units, list(groups)


def _resampled_intervals(
    values: Floats,
    units: Units,
    groups: Sequence[Rows],
    bounds: Sequence[tuple[float, float]],
    level: float,
    asked: str,
    resamples: int,
    seed: int,
    threads: int,
) -> list[list[Interval]]:
    """The intervals of rows that are defined for the same queries, all from the same resamples."""
    own = [units if len(rows) == values.shape[1] else units.take(rows) for rows in groups]
    parts = [values if len(rows) == values.shape[1] else values[:, rows] for rows in groups]
    methods = [
        [chosen_method(row, u, asked, scale) for row, scale in zip(part, bounds, strict=True)]
        for part, u in zip(parts, own, strict=True)
    ]
    drawn = [[i for i, name in enumerate(names) if name in _DRAWN] for names in methods]
    sums = [u.sums(part[rows]) for u, part, rows in zip(own, parts, drawn, strict=True)]
    columns = [
        Group(*s, None if u is units else np.unique(units.unit[rows]))
        for s, u, rows in zip(sums, own, groups, strict=True)
    ]
    draws: list[Floats] = [np.zeros((0, 0))] * len(groups)
    if any(drawn):
        draws = resampled(columns, len(units), resamples, seed, threads)
    gaffke = _bounded_ends(parts, own, methods, bounds, level)
    out = []
    for part, u, names, rows, (top, bottom), mine, bounded in zip(
        parts, own, methods, drawn, sums, draws, gaffke, strict=True
    ):
        estimates = []
        exact = bounded | _betting_ends(part, u, names, bounds, level)
        for i, (row, name) in enumerate(zip(part, names, strict=True)):
            estimate, there = mean_of(row, u), ~np.isnan(row)
            if i in exact:
                low, high = exact[i]
            elif i in rows:
                j = rows.index(i)
                low, high = _from_draws(
                    mine[:, j], estimate, top[:, j], bottom[:, j], name, level, expanded=asked == "auto"
                )
            else:
                low, high = _without_draws(row, u, name, level, resamples, seed)
            if name == BETTING and math.isnan(low):
                name = CONTRADICTION
            n_eff = math.nan if u.plain else u.take(there).effective
            draws_used = resamples if i in rows or name == "studentized" else 0
            estimates.append(Interval(estimate, low, high, name, int(np.count_nonzero(there)), n_eff, draws_used))
        out.append(estimates)
    return out


def _bounded_ends(
    parts: Sequence[Floats],
    units: Sequence[Units],
    names: Sequence[Sequence[str]],
    bounds: Sequence[tuple[float, float]],
    level: float,
) -> list[dict[int, tuple[float, float]]]:
    """Gaffke's ends of rows of bounded values, by group; for values of 0 and 1 they are Clopper and Pearson's."""
    tail = (1 - level) / 2
    shares = (tail, 1 - tail)
    rows_of, sought = [], []
    for values, own, of_group in zip(parts, units, names, strict=True):
        rows = [
            i
            for i, name in enumerate(of_group)
            if name == "gaffke" or (name == "clopper-pearson" and math.isfinite(bounds[i][1] - bounds[i][0]))
        ]
        rows_of.append(rows)
        if not rows:
            continue
        means = UnitMeans.of(values[rows], own)
        least, most = (np.array([bounds[i][side] for i in rows]) for side in (0, 1))
        if not np.isfinite(most - least).all():
            raise UsageError("method 'gaffke' needs the bounds of the values, such as (0, 1); use 'auto' or 'bca'")
        extremes = zip(means.level_extremes(least, most), means.level_weights(least, most), shares, strict=True)
        sought += [(means.with_one_more(value, weight), share) for value, weight, share in extremes]
    ends = iter(mean_quantiles(sought))
    return [dict(zip(rows, zip(next(ends).tolist(), next(ends).tolist()))) if rows else {} for rows in rows_of]


def _betting_ends(
    values: Floats, units: Units, names: Sequence[str], bounds: Sequence[tuple[float, float]], level: float
) -> dict[int, tuple[float, float]]:
    """The ends of the rows whose intervals hold at every look."""
    rows = [i for i, name in enumerate(names) if name == BETTING]
    if not rows:
        return {}
    low, high = Bets.of(values[rows], units, np.array([bounds[i] for i in rows])).ends((1 - level) / 2)
    return {i: (float(a), float(b)) for i, a, b in zip(rows, low, high, strict=True)}


def _from_draws(
    draws: Floats, estimate: float, top: Floats, bottom: Floats, name: str, level: float, *, expanded: bool
) -> tuple[float, float]:
    defined = draws[~np.isnan(draws)]
    if len(defined) == 0 or defined.min() == defined.max():
        return math.nan, math.nan
    if name == "percentile":
        low, high = np.quantile(defined, ((1 - level) / 2, (1 + level) / 2))
        return float(low), float(high)
    there = bottom > 0
    return bca_bounds(defined, estimate, jackknife_means(top[there], bottom[there]), level, expanded=expanded)


def _without_draws(
    row: Floats, units: Units, name: str, level: float, resamples: int, seed: int
) -> tuple[float, float]:
    if name in ("none", ALL_EQUAL):
        return math.nan, math.nan
    if name == "t":
        return student(row, units, level)
    if name == "studentized":
        return studentized(row, units, level, resamples, seed)
    defined = row[~np.isnan(row)]
    share = wilson if name == "wilson" else clopper_pearson
    return share(round(defined.sum()), len(defined), level)
