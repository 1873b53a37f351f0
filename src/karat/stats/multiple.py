"""Corrections of many p, and all pairs of runs by HSD; what forms a family is in `results/differences.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karat.stats.defaults import SEED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karat.stats.resample import Units

    Floats = NDArray[np.float64]

HSD_WORK = 40_000_000
"""Random numbers that a randomised HSD may take; the draws follow from it, and are told."""


def holm(p: Sequence[float]) -> list[float]:
    """Holm 1979: keeps the chance of any false finding; for comparisons that were named beforehand."""
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    stepped = values[order] * (len(values) - np.arange(len(values)))
    out = np.empty(len(values))
    out[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return [float(x) for x in out]


def benjamini_hochberg(p: Sequence[float]) -> list[float]:
    """Benjamini & Hochberg 1995: keeps the share of false findings; for screens over many segments."""
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    stepped = values[order] * len(values) / np.arange(1, len(values) + 1)
    out = np.empty(len(values))
    out[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0)
    return [float(x) for x in out]


def randomised_hsd(
    values: Floats, units: Units | None = None, *, draws: int = 100_000, seed: int = SEED
) -> tuple[Floats, int]:
    """Tukey's HSD by randomisation, blocked by query or conversation (Carterette 2012): p for every pair of runs.

    `values` is runs × queries. In each draw the values of every unit are shuffled among the runs, all turns of a
    conversation alike, and the range of the means is compared with each observed difference. Returns the matrix of p
    and the number of draws.
    """
    there = np.asarray(~np.isnan(values).any(axis=0))
    values = values[:, there]
    if units is not None and there.any():
        top, bottom = units.only(there).sums(values)
        values = top.T * (len(top) / bottom[:, 0].sum())  # plain means of these are the weighted means of queries
    runs, queries = values.shape
    if queries == 0:
        return np.ones((runs, runs)), 0
    draws = int(max(1000, min(draws, HSD_WORK // max(1, runs * queries))))
    observed = np.abs(values.mean(axis=1)[:, None] - values.mean(axis=1)[None, :])
    observed -= 1e-12 * np.abs(values).max()  # what differs by rounding alone is as extreme
    extreme = np.zeros((runs, runs))
    step = max(1, 2_000_000 // max(1, runs * queries))
    columns = values.T  # queries × runs
    for start in range(0, draws, step):
        rng = np.random.default_rng(np.random.SeedSequence([seed, 0x45D, start]))
        size = min(step, draws - start)
        order = rng.random((size, queries, runs)).argsort(axis=2)
        means = np.take_along_axis(np.broadcast_to(columns, (size, queries, runs)), order, axis=2).mean(axis=1)
        spans = means.max(axis=1) - means.min(axis=1)
        spans.sort()
        extreme += len(spans) - np.searchsorted(spans, observed)
    p = (extreme + 1) / (draws + 1)
    np.fill_diagonal(p, 1.0)
    return p, draws
