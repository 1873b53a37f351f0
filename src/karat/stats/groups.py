"""Intervals of many metrics in many segments at once, all from the same resamples."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import UsageError
from karat.stats.intervals import (
    RESAMPLES,
    Interval,
    bca_bounds,
    checked_method,
    checked_share,
    chosen_method,
    clopper_pearson,
    jackknife_means,
    student,
    studentized,
    wilson,
)
from karat.stats.resample import Group, mean_of, resampled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karat.stats.resample import Units

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]

_DRAWN = ("bca", "percentile")


def grouped_intervals(
    values: Floats,
    units: Units,
    groups: Sequence[Rows],
    *,
    binary: Sequence[bool],
    confidence: float = 0.95,
    method: str = "auto",
    resamples: int = RESAMPLES,
    seed: int = 0,
    threads: int = 1,
) -> list[list[Interval]]:
    """The interval of each row's mean in each group of queries (columns)."""
    level, asked = checked_share("confidence", confidence), checked_method(method)
    own = [units if len(rows) == values.shape[1] else units.take(rows) for rows in groups]
    parts = [values if len(rows) == values.shape[1] else values[:, rows] for rows in groups]
    methods = [
        [chosen_method(row, u, b, asked) for row, b in zip(part, binary, strict=True)]
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
    out = []
    for part, u, names, rows, (top, bottom), mine in zip(parts, own, methods, drawn, sums, draws, strict=True):
        found = []
        for i, (row, name) in enumerate(zip(part, names, strict=True)):
            estimate, n = mean_of(row, u), int(np.count_nonzero(~np.isnan(row)))
            if i in rows:
                j = rows.index(i)
                low, high = _from_draws(
                    mine[:, j], estimate, top[:, j], bottom[:, j], name, level, expanded=asked == "auto"
                )
            else:
                low, high = _without_draws(row, u, estimate, name, level, resamples, seed)
            found.append(Interval(estimate, low, high, name, n))
        out.append(found)
    return out


def _from_draws(
    draws: Floats, estimate: float, top: Floats, bottom: Floats, name: str, level: float, *, expanded: bool
) -> tuple[float, float]:
    defined = draws[~np.isnan(draws)]
    if len(defined) == 0 or defined.min() == defined.max():
        return estimate, estimate
    if name == "percentile":
        low, high = np.quantile(defined, ((1 - level) / 2, (1 + level) / 2))
        return float(low), float(high)
    there = bottom > 0
    return bca_bounds(defined, estimate, jackknife_means(top[there], bottom[there]), level, expanded=expanded)


def _without_draws(
    row: Floats, units: Units, estimate: float, name: str, level: float, resamples: int, seed: int
) -> tuple[float, float]:
    if name == "none":
        return math.nan, math.nan
    if name == "degenerate":
        return estimate, estimate
    if name == "t":
        return student(row, units, level)
    if name == "studentized":
        return studentized(row, units, level, resamples, seed)
    defined = row[~np.isnan(row)]
    if not np.isin(defined, (0.0, 1.0)).all():
        raise UsageError(f"method {name!r} is for values of 0 and 1 alone, such as hit@k; use 'bca' or 't'")
    share = wilson if name == "wilson" else clopper_pearson
    return share(float(defined.sum()), len(defined), level)
