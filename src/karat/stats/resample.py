"""`Units`: queries or conversations with their weights, whole or of a segment; one set of bootstrap weights for all.

A resample of the units (queries, or conversations of queries) is a vector of how often each was drawn. The
resampled value of a weighted mean is then (counts · numerator) / (counts · denominator): a product of matrices,
taken a chunk of resamples at a time. Chunks have random streams of their own, so that the result does not depend
on how the work is divided.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import UsageError
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CHUNK = 64
"""Resamples drawn from one random stream."""
KEPT, CHUNKS = 512, 512
"""Draws of no more units than this are kept for the next who asks, so many chunks of them: at most 32 MB in all."""

TOGETHER = 1 << 14


@dataclass(frozen=True)
class Units:
    """What is resampled: the unit of each query (its own, or its conversation), and each query's weight."""

    unit: NDArray[np.int64]
    weight: Floats
    plain: bool
    """Whether every query is a unit of its own, and all count alike."""
    day: Floats | None = None
    """When each query was added, where intervals have to hold at every look."""

    def __len__(self) -> int:
        return int(self.unit.max(initial=-1)) + 1

    @property
    def effective(self) -> float:
        """Kish 1965: how many units of equal weight say as much as these."""
        sums = np.bincount(self.unit, self.weight)
        return float(sums.sum() ** 2 / (sums**2).sum()) if sums.any() else 0.0

    @property
    def alike(self) -> bool:
        """Whether all units weigh the same: queries without weights, or conversations of one length."""
        sums = np.bincount(self.unit, self.weight)
        return not sums.any() or bool((sums[sums > 0] == sums.max()).all())

    @property
    def last_days(self) -> Floats:
        """The day on which each unit was complete; all of them on one day unless days are known."""
        days = np.full(len(self), -np.inf)
        np.maximum.at(days, self.unit, np.zeros(len(self.unit)) if self.day is None else self.day)
        return days

    @staticmethod
    def of(
        n: int,
        clusters: Sequence[object] | None = None,
        weights: Sequence[float] | Floats | None = None,
        days: Sequence[float] | Floats | None = None,
    ) -> Units:
        """Units for n queries; a query whose cluster is None is a unit of its own."""
        for name, given in (("clusters", clusters), ("weights", weights), ("days", days)):
            if given is not None and len(given) != n:
                raise UsageError(f"{name} must be one for each value: found {len(given)} for {n} values")
        if clusters is None:
            unit = np.arange(n)
        else:
            seen: dict[object, int] = {}
            unit = np.array(
                [
                    seen.setdefault(("own", i) if c is None else ("cluster", c), len(seen))
                    for i, c in enumerate(clusters)
                ],
                dtype=np.int64,
            )
        weight = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
        if not (np.isfinite(weight) & (weight >= 0)).all():
            raise UsageError(f"weights must be finite numbers from 0, found {weight.min()}")
        alone = len(unit) == 0 or int(unit.max()) + 1 == n
        return Units.scaled(unit, weight, alone, None if days is None else np.asarray(days, dtype=np.float64))

    @staticmethod
    def scaled(unit: NDArray[np.int64], weight: Floats, alone: bool, day: Floats | None = None) -> Units:
        """Units whose weights are multiplied so that the largest is 1: a common factor changes nothing."""
        most = float(weight.max(initial=0.0))
        even = np.ones(len(weight)) if most <= 0 or bool((weight == most).all()) else weight / most
        return Units(unit, weight if most <= 0 else even, alone and most > 0 and bool((even == 1.0).all()), day)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Units:
        """The units of some of the queries, numbered anew in their order."""
        unit = self.unit[rows]
        rising = bool((unit[1:] > unit[:-1]).all())
        numbered = np.arange(len(unit)) if rising else np.unique(unit, return_inverse=True)[1]
        alone = len(unit) == 0 or int(numbered.max()) + 1 == len(unit)
        return Units.scaled(numbered, self.weight[rows], alone, None if self.day is None else self.day[rows])

    def only(self, there: NDArray[np.bool_]) -> Units:
        """The units of some of the queries, numbered as if there were no others."""
        clusters = None if len(self) == len(self.unit) else self.unit[there].tolist()
        days = None if self.day is None else self.day[there]
        return Units.of(int(there.sum()), clusters, self.weight[there], days)

    def unweighted(self) -> Units:
        """The same units with every query counting alike."""
        if bool((self.weight == 1.0).all()):
            return self
        return replace(self, weight=np.ones(len(self.weight)), plain=len(self) == len(self.unit))

    def sums(self, values: Floats) -> tuple[Floats, Floats]:
        """Weighted sums and weights of each unit, a column per row of values; NaN counts for nothing."""
        there = ~np.isnan(values)
        if self.plain and there.all():
            return np.ascontiguousarray(values.T), np.ones(values.T.shape)
        weighted = np.where(there, values * self.weight, 0.0)
        weights = np.where(there, self.weight, 0.0)
        top, bottom = (np.zeros((len(self), len(values))) for _ in range(2))
        np.add.at(top, self.unit, weighted.T)
        np.add.at(bottom, self.unit, weights.T)
        return top, bottom


def mean_of(values: Floats, units: Units) -> float:
    """The weighted mean of the values that are defined."""
    there = ~np.isnan(values)
    total = units.weight[there].sum()
    return float((values[there] * units.weight[there]).sum() / total) if total > 0 else float("nan")


def drawn_counts(size: int, rows: int, seed: int, start: int) -> NDArray[np.float64]:
    """How often each unit is drawn, in the resamples from `start` on."""
    if size > KEPT:
        return _drawn(size, rows, seed, start)
    return _kept(size, rows, seed, start).astype(np.float64)


@lru_cache(maxsize=CHUNKS)
def _kept(size: int, rows: int, seed: int, start: int) -> NDArray[np.uint16]:
    """The draws of few units, kept: several runs, differences and segments ask for the same ones in turn."""
    return _drawn(size, rows, seed, start).astype(np.uint16)


@lru_cache(maxsize=2)
def all_counts(size: int, resamples: int, seed: int) -> NDArray[np.uint16]:
    """How often each of few units is drawn in every resample (units × resamples)."""
    starts = range(0, resamples, CHUNK)
    parts = [_kept(size, min(CHUNK, resamples - start), seed, start) for start in starts]
    return np.ascontiguousarray(np.concatenate(parts).T)


def _drawn(size: int, rows: int, seed: int, start: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(np.random.SeedSequence([seed, start]))
    out, step = np.empty((rows, size)), max(1, TOGETHER // size)
    for first in range(0, rows, step):  # rows of few units are counted together, and drawn as if all were at once
        together = min(step, rows - first)
        drawn = rng.integers(0, size, (together, size), dtype=np.uint32)
        places = drawn if together == 1 else drawn + np.arange(together)[:, None] * size
        out[first : first + step] = np.bincount(places.ravel(), minlength=places.size).reshape(places.shape)
    return out


@dataclass(frozen=True)
class Group:
    """Columns of numerators and denominators (units × columns), and the units they belong to (None: all)."""

    top: Floats
    bottom: Floats
    units: NDArray[np.int64] | None = None


def resampled(groups: Sequence[Group], size: int, resamples: int, seed: int, threads: int = 1) -> list[Floats]:
    """Resampled ratios (resamples × columns) of each group, all under the same draws.

    NaN where a resample has nothing of the group. No more than a chunk of draws per thread is held at a time.
    """
    out = [np.empty((resamples, group.top.shape[1])) for group in groups]
    whole = [group.units is None and bool((group.bottom == 1).all()) for group in groups]

    def work(start: int) -> None:
        drawn = drawn_counts(size, min(CHUNK, resamples - start), seed, start)
        for target, group, every in zip(out, groups, whole, strict=True):
            mine = drawn if group.units is None else drawn[:, group.units]
            with np.errstate(invalid="ignore", divide="ignore"):
                drawn_weight = size if every else mine @ group.bottom
                target[start : start + len(drawn)] = mine @ group.top / drawn_weight

    starts = range(0, resamples, CHUNK)
    if threads <= 1 or len(starts) < 2:
        for start in starts:
            work(start)
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, starts))
    return out
