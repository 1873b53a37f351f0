"""How alike two orders of systems are, and how alike those are that different samples of queries give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.records import dataclass
from karat.stats.defaults import CONFIDENCE, RESAMPLES, SEED
from karat.stats.intervals import Interval, checked_share
from karat.stats.resample import Group, resampled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from karat.stats.resample import Units

    Floats = NDArray[np.float64]
    Signs = NDArray[np.int8]

Source = Literal["splits", "resamples"]
WORK = 4_000_000
"""Numbers that are held at a time."""
TOTAL_WORK, LEAST_DRAWS = 100_000_000, 1_000
"""Beyond 10,000 units there are fewer draws, so that time does not grow with both; the result says how many."""
TOLERANCE = 1e-12
"""Relative to the largest: means this close are tied, whatever the order of summing."""


@dataclass(frozen=True)
class Agreement:
    """τ and τ_AP of the orders that two samples of n units give: the mean, and where the middle of the draws lies."""

    n: int
    tau: Interval
    tau_ap: Interval
    source: Source
    """`splits`: disjoint samples of these units; `resamples`: samples drawn with replacement, of any size."""
    draws: int


def kendall_tau(a: Floats, b: Floats) -> Floats:
    """Kendall's τ-b of the orders by two scores; systems are the last axis. NaN where a side ties them all."""
    return correlate_orders(a, b)[0]


def tau_ap(reference: Floats, scores: Floats) -> Floats:
    """Yilmaz, Aslam & Robertson 2008: τ in which swaps near the top of the reference count most.

    The mean over all systems but the first of how they stand to those above them: 1 where all of these are above in
    the other order too, −1 where all are below. A pair that is tied in either order counts 0, and systems tied in the
    reference share their ranks, so the order in which systems are listed changes nothing (Urbano & Marrero 2017).
    """
    return correlate_orders(reference, scores)[1]


def correlate_orders(a: Floats, b: Floats) -> tuple[Floats, Floats, Floats]:
    """Kendall's τ-b, τ_AP with the first scores as reference, and τ_AP with the second ones."""
    first, second = _pair_signs(a), _pair_signs(b)
    both = first * second  # [.., i, j]: 1 where both orders agree on i and j, −1 where they do not
    sizes = (np.count_nonzero(signs, axis=(-2, -1)).astype(np.float64) for signs in (first, second))
    with np.errstate(invalid="ignore", divide="ignore"):
        tau: Floats = both.sum(axis=(-2, -1), dtype=np.int64) / np.sqrt(next(sizes) * next(sizes))
    return tau, _mean_agreement(both, first), _mean_agreement(both, second)


def _mean_agreement(both: Signs, reference: Signs) -> Floats:
    """The mean over systems of how far the orders agree on those above, the first left out."""
    systems = reference.shape[-1]
    above = reference < 0  # [.., i, j]: j stands above i
    agree = (both * above).sum(axis=-1, dtype=np.int64)
    before = np.count_nonzero(above, axis=-1)
    tied = systems - np.count_nonzero(reference, axis=-1)  # with itself
    harmonic = np.concatenate(([0.0], np.cumsum(1 / np.arange(1, systems))))
    # The mean of 1/(rank − 1) over the ranks that the tied systems share.
    weight = np.where(before > 0, (harmonic[before + tied - 1] - harmonic[np.maximum(before - 1, 0)]) / tied, 0.0)
    out: Floats = (agree * weight).sum(axis=-1) / (systems - 1)
    return out


def measure_agreement(
    top: Floats, bottom: Floats, n: int, *, draws: int = RESAMPLES, seed: int = SEED, confidence: float = CONFIDENCE
) -> list[Agreement]:
    """How alike the orders are that two samples of n units give, for each metric under the same draws.

    `top` is units × metrics × systems, sums of values in which more is better; `bottom` is units × metrics, sums of
    weights. Up to half of the units the two samples are disjoint; beyond, they are drawn with replacement.
    """
    size, metrics, systems = top.shape
    source: Source = "splits" if 2 * n <= size else "resamples"
    draws = max(min(draws, LEAST_DRAWS), min(draws, TOTAL_WORK // max(size, n)))
    taus, aps = (np.empty((draws, metrics)) for _ in range(2))
    step = max(1, WORK // max(size, n, metrics * systems * systems))
    for start in range(0, draws, step):
        rng = np.random.default_rng(np.random.SeedSequence([seed, 0x7A0, n, start]))
        rows = min(step, draws - start)
        a, b = (_means(counts, top, bottom) for counts in _samples(rng, rows, size, n, source))
        taus[start : start + rows], forth, back = correlate_orders(a, b)
        aps[start : start + rows] = (forth + back) / 2
    out = []
    for of_tau, of_ap in zip(taus.T, aps.T, strict=True):
        tau, ap = (_middle(column, confidence, n, source) for column in (of_tau, of_ap))
        out.append(Agreement(n, tau, ap, source, draws))
    return out


@dataclass(frozen=True)
class OrderAgreement:
    """τ and τ_AP of the orders of systems by two judges, with the range that samples of the queries give."""

    tau: Interval
    tau_ap: Interval


def compare_orders(
    reference: Floats,
    scores: Floats,
    units: Units,
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    confidence: float = CONFIDENCE,
) -> OrderAgreement:
    """How alike two judges order systems; both are systems × queries, of a metric in which more is better.

    The ends are percentiles over resampled queries, the same ones for both judges. They need not hold the estimate:
    with few queries a sample orders close systems at random, so that draws lie below it.
    """
    level, systems = checked_share("confidence", confidence), len(reference)
    there = np.asarray(~np.isnan(np.concatenate((reference, scores))).any(axis=0))
    own = units if there.all() else units.only(there)
    values = np.concatenate((reference[:, there], scores[:, there]))
    top, bottom = own.sums(values)
    means = top.sum(axis=0) / bottom.sum(axis=0)
    tau, ap, _ = correlate_orders(means[:systems], means[systems:])
    n = int(there.sum())
    if len(own) < 2:
        return OrderAgreement(*(Interval(float(x), float("nan"), float("nan"), "none", n) for x in (tau, ap)))
    (draws,) = resampled([Group(top, bottom)], len(own), resamples, seed)
    estimates = means[:systems], means[systems:]
    return compare_estimates(*estimates, draws[:, :systems], draws[:, systems:], n, confidence=level)


def compare_estimates(
    reference: Floats,
    scores: Floats,
    reference_draws: Floats,
    score_draws: Floats,
    n: int,
    *,
    confidence: float = CONFIDENCE,
) -> OrderAgreement:
    """How alike two judges order systems by any estimates, with draws × systems from the same resamples of n queries.

    A draw that lacks a system says nothing.
    """
    whole = ~np.isnan(reference_draws + score_draws).any(axis=1)
    pairs = reference_draws[whole], score_draws[whole]
    step = max(1, WORK // len(reference) ** 2)
    parts = [correlate_orders(*(side[at : at + step] for side in pairs))[:2] for at in range(0, int(whole.sum()), step)]
    out = []
    for place, estimate in enumerate(correlate_orders(reference, scores)[:2]):
        column = np.concatenate([part[place] for part in parts]) if parts else np.zeros(0)
        middle = _middle(column, confidence, n, "resamples")
        out.append(Interval(float(estimate), middle.low, middle.high, "percentile", n, draws=len(column)))
    return OrderAgreement(*out)


def _samples(rng: np.random.Generator, rows: int, size: int, n: int, source: Source) -> Iterator[Floats]:
    """How often each unit is in the first and in the second sample of each draw."""
    if source == "splits":
        place = rng.permuted(np.broadcast_to(np.arange(size), (rows, size)), axis=1)
        yield (place < n).astype(np.float64)
        yield ((place >= n) & (place < 2 * n)).astype(np.float64)
        return
    row = size * np.arange(rows)[:, None]
    for _ in range(2):
        places = row + rng.integers(0, size, (rows, n))
        yield np.bincount(places.ravel(), minlength=rows * size).reshape(rows, size).astype(np.float64)


def _means(counts: Floats, top: Floats, bottom: Floats) -> Floats:
    """Draws × metrics × systems."""
    size, metrics, systems = top.shape
    sums = (counts @ top.reshape(size, -1)).reshape(-1, metrics, systems)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Floats = sums / (counts @ bottom)[:, :, None]
    return means


def _middle(values: Floats, confidence: float, n: int, source: Source) -> Interval:
    """The mean over draws, and the ends of their middle part, which need not hold it; a draw of ties says nothing."""
    defined = values[~np.isnan(values)]
    if len(defined) == 0:
        return Interval(float("nan"), float("nan"), float("nan"), "none", n)
    low, high = np.quantile(defined, ((1 - confidence) / 2, (1 + confidence) / 2))
    return Interval(float(defined.mean()), float(low), float(high), source, n)


def _pair_signs(scores: Floats) -> Signs:
    """For every i and j: 1 where i scores more than j, −1 where less, 0 for a tie."""
    order = scores.argsort(axis=-1, kind="stable")
    ordered = np.take_along_axis(scores, order, axis=-1)
    slack = TOLERANCE * np.abs(scores).max(axis=-1, keepdims=True)
    steps = np.diff(ordered, axis=-1, prepend=ordered[..., :1]) > slack
    places = np.empty(scores.shape, dtype=np.int32)
    np.put_along_axis(places, order, steps.cumsum(axis=-1, dtype=np.int32), axis=-1)
    above, below = places[..., :, None], places[..., None, :]
    return (above > below).astype(np.int8) - (above < below).astype(np.int8)
