"""Partially pooled means of segments: the posterior, when nothing is pooled, and a reduced form of bench/pooling.py."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.stats import norm

from karat.stats.aggregates import Statistic
from karat.stats.bounded_means import UnitMeans
from karat.stats.pooling import SegmentMeans, measure_segments, pool_changes, pool_figures, pool_segments
from karat.stats.resample import Units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from karat.stats.intervals import Interval

    Floats = NDArray[np.float64]

SHARE = Statistic("mean", bounds=(0.0, 1.0))
MANY = 1e9
"""Units of segments whose standard errors are exact."""


def known(means: Sequence[float], errors: Sequence[float]) -> SegmentMeans:
    rows = np.array([errors], dtype=float)
    return SegmentMeans(np.array([means], dtype=float), rows, rows, np.full(rows.shape, MANY))


def pool(segments: Sequence[Floats], minimum: float = 10, units: Units | None = None) -> list[tuple[Interval, ...]]:
    values = np.concatenate(segments)
    ends = np.cumsum([0, *map(len, segments)])
    groups = [np.arange(a, b) for a, b in itertools.pairwise(ends)]
    return pool_figures(values, SHARE, units or Units.of(len(values)), groups, levels=(0.95,), minimum=minimum)


def test_the_posterior_is_that_of_a_fine_integral_over_tau() -> None:
    means, errors = np.array([0.50, 0.56, 0.62, 0.53]), np.array([0.03, 0.04, 0.05, 0.035])
    usual = (errors**-2).mean() ** -0.5
    place = (np.arange(20_000) + 0.5) / 20_000  # τ / (τ + usual), for a prior that is flat in τ
    parts = [(0.0, (7 / 4) ** 3), *zip(usual * place / (1 - place), (1 - place) ** -2 / 20_000, strict=True)]
    tau, prior = (np.array(column)[:, None] for column in zip(*parts, strict=True))
    weight = 1 / (errors**2 + tau**2)
    total = weight.sum(axis=1, keepdims=True)
    centre = (weight * means).sum(axis=1, keepdims=True) / total
    likelihood = np.sqrt(weight.prod(axis=1, keepdims=True) / total)
    share = prior * likelihood * np.exp(-(weight * (means - centre) ** 2).sum(axis=1, keepdims=True) / 2)
    share /= share.sum()
    pull = errors**2 * weight
    middle = means + pull * (centre - means)
    spread = np.where(tau > 0, 1.15, 1.0) * np.sqrt(errors**2 * (1 - pull) + pull**2 / total)
    pooled, low, high = pool_segments(known(means, errors), confidence=0.95)
    assert pooled[0] == pytest.approx((share * middle).sum(axis=0), abs=2e-4)
    assert (share * norm.cdf((low[0] - middle) / spread)).sum(axis=0) == pytest.approx([0.025] * 4, abs=5e-4)
    assert (share * norm.cdf((high[0] - middle) / spread)).sum(axis=0) == pytest.approx([0.975] * 4, abs=5e-4)


def test_segments_that_are_alike_are_pooled_and_those_far_apart_are_not() -> None:
    alike, low, high = pool_segments(known([0.5, 0.51, 0.49, 0.5], [0.04] * 4), confidence=0.95)
    assert np.ptp(alike) < 0.01
    assert ((high - low) < 0.75 * 2 * 1.96 * 0.04).all()
    apart, low, high = pool_segments(known([0.1, 0.4, 0.6, 0.9], [0.02] * 4), confidence=0.95)
    assert apart[0] == pytest.approx([0.1, 0.4, 0.6, 0.9], abs=0.005)
    assert (high - low)[0] == pytest.approx([1.15 * 2 * 1.96 * 0.02] * 4, rel=0.03)


def test_one_segment_that_stands_apart_moves_less_than_its_interval() -> None:
    means, _, high = pool_segments(known([0.30, 0.60, 0.61, 0.59, 0.60], [0.03] * 5), confidence=0.95)
    assert 0.30 < means[0, 0] < 0.35
    assert high[0, 0] < 0.45


def test_nothing_is_pooled_with_fewer_than_three_segments_that_are_large_enough() -> None:
    rng = np.random.default_rng(1)
    large = [rng.random(30) for _ in range(3)]
    assert all(len(one) == 1 for one in pool(large))
    assert pool(large[:2]) == [(), ()]
    assert pool([*large[:2], large[2][:9]]) == [(), (), ()]
    pooled = pool([*large, rng.random(9)])
    assert [len(one) for one in pooled] == [1, 1, 1, 0]
    assert pooled[0][0].method == "pooled"
    assert pooled[0][0].n == 30


def test_segments_that_share_queries_or_conversations_are_not_pooled() -> None:
    values = np.random.default_rng(2).random(90)
    apart = [np.arange(30), np.arange(30, 60), np.arange(60, 90)]
    shared = [np.arange(31), np.arange(30, 60), np.arange(60, 90)]
    plain = Units.of(90)
    assert all(pool_figures(values, SHARE, plain, apart, levels=(0.95,), minimum=10))
    assert not any(pool_figures(values, SHARE, plain, shared, levels=(0.95,), minimum=10))
    within, across = Units.of(90, np.arange(90) // 2), Units.of(90, np.arange(90) % 30)
    assert all(pool_figures(values, SHARE, within, apart, levels=(0.95,), minimum=10))
    assert not any(pool_figures(values, SHARE, across, apart, levels=(0.95,), minimum=10))


def test_conversations_and_weights_widen_pooled_intervals() -> None:
    rng = np.random.default_rng(3)
    own = np.repeat(rng.random(60), 4)  # four turns that all have the value of their conversation
    segments = np.split(own, 3)
    (plain, *_), (turns, *_) = pool(segments), pool(segments, units=Units.of(240, np.arange(240) // 4))
    assert turns[0].high - turns[0].low > 1.5 * (plain[0].high - plain[0].low)
    assert turns[0].n_eff == pytest.approx(20)
    twice = pool(segments, units=Units.of(240, None, np.full(240, 2.0)))
    assert twice[0][0] == plain[0]
    weights = np.exp(rng.normal(0, 1, 240))
    weighted = pool(segments, units=Units.of(240, None, weights))[0][0]
    assert weighted.n_eff == pytest.approx(weights[:80].sum() ** 2 / (weights[:80] ** 2).sum())
    assert weighted.high - weighted.low > plain[0].high - plain[0].low


def test_segments_without_a_miss_are_not_sure_of_anything() -> None:
    (one, *_) = pool([np.ones(20)] * 4)
    assert 0.9 < one[0].low < 0.99
    assert one[0].high == 1.0
    unbounded = pool_figures(
        np.full(60, 7.0), Statistic(), Units.of(60), np.split(np.arange(60), 3), levels=(0.95,), minimum=10
    )
    assert unbounded == [(), (), ()]


def test_a_segment_that_shows_little_spread_counts_for_no_more_than_the_others() -> None:
    rng = np.random.default_rng(10)
    narrow, *wide = 0.7 + 0.001 * rng.standard_normal(30), *(rng.random(30) for _ in range(3))
    seen = [UnitMeans.of(one[None, :], Units.of(30)) for one in (narrow, *wide)]
    segments = measure_segments(seen, bounds=np.array([[0.0, 1.0]]))
    usual = math.sqrt((segments.below[0, 1:] ** 2).mean())
    assert segments.below[0, 0] == pytest.approx(usual, rel=0.25)


def test_only_means_are_pooled() -> None:
    values, groups = np.random.default_rng(4).random(90), np.split(np.arange(90), 3)
    for statistic in (Statistic("quantile", 0.9), Statistic("sum"), Statistic("geometric mean", floor=1e-5)):
        assert pool_figures(values, statistic, Units.of(90), groups, levels=(0.95,), minimum=10) == [(), (), ()]
        one = pool_changes(values, values[::-1], statistic, Units.of(90), groups, levels=(0.95,), minimum=10)
        assert one == [(), (), ()]


def test_queries_without_a_value_do_not_count() -> None:
    values = np.random.default_rng(5).random(99)
    values[90:] = math.nan
    with_gaps = [*np.split(np.arange(60), 2), np.arange(60, 99)]
    without = [*np.split(np.arange(60), 2), np.arange(60, 90)]
    first = pool_figures(values, SHARE, Units.of(99), with_gaps, levels=(0.95,), minimum=10)
    assert first == pool_figures(values[:90], SHARE, Units.of(90), without, levels=(0.95,), minimum=10)


def test_a_stricter_level_gives_wider_intervals() -> None:
    rng = np.random.default_rng(6)
    base, candidate = rng.random(120), rng.random(120)
    pooled = pool_changes(
        base, candidate, SHARE, Units.of(120), np.split(np.arange(120), 3), levels=(0.95, 0.99), minimum=10
    )
    for usual, strict in pooled:
        assert strict.low < usual.low < usual.estimate < usual.high < strict.high
        assert usual.estimate == strict.estimate


# --- rates -------------------------------------------------------------------------------------------------------

SAMPLES = 600
VALUES: Floats = np.random.default_rng(14).beta(2.2, 2.2, 400)
"""As spread as ndcg@10 of BM25 on TREC DL 2019: a standard deviation of about .22."""


def drawn(truths: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Samples (samples × segments × n) of values that are tilted to their segment's truth."""
    out = np.empty((*truths.shape, n))
    for truth in np.unique(truths):
        low, high = -60.0, 60.0
        for _ in range(50):
            middle = (low + high) / 2
            shares = np.exp(middle * (VALUES - 0.5))
            low, high = (middle, high) if (shares * VALUES).sum() < truth * shares.sum() else (low, middle)
        at = truths == truth
        out[at] = rng.choice(VALUES, (int(at.sum()), n), p=shares / shares.sum())
    return out


def intervals_of(samples: Floats) -> tuple[Floats, Floats]:
    count, segments, n = samples.shape
    seen = [UnitMeans(np.ascontiguousarray(samples[:, j].T), np.ones((n, count)), n) for j in range(segments)]
    means = measure_segments(seen, bounds=np.tile([0.0, 1.0], (count, 1)))
    _, low, high = pool_segments(means, confidence=0.95)
    return low, high


@pytest.mark.parametrize("segments", [4, 10])
@pytest.mark.parametrize("spread", [0.0, 0.03, 0.06, 0.1])
def test_pooled_intervals_hold_the_truths_of_segments(segments: int, spread: float) -> None:
    rng = np.random.default_rng([segments, int(100 * spread)])
    truths = np.round(np.clip(0.5 + spread * rng.standard_normal((SAMPLES, segments)), 0.1, 0.9), 2)
    low, high = intervals_of(drawn(truths, 50, rng))
    misses = ((truths < low) | (truths > high)).mean(axis=1)
    assert misses.mean() <= 0.07 + 3 * misses.std() / math.sqrt(SAMPLES)


def test_a_gate_on_pooled_estimates_ships_where_segments_alone_show_nothing() -> None:
    low, _ = intervals_of(drawn(np.full((SAMPLES, 4), 0.55), 50, np.random.default_rng(7)))
    assert (low >= 0.5).all(axis=1).mean() >= 0.2
    low, _ = intervals_of(drawn(np.full((SAMPLES, 4), 0.55), 100, np.random.default_rng(8)))
    assert (low >= 0.5).all(axis=1).mean() >= 0.4


def test_a_gate_on_pooled_estimates_does_not_ship_segments_that_are_all_at_the_gate() -> None:
    low, _ = intervals_of(drawn(np.full((SAMPLES, 4), 0.5), 50, np.random.default_rng(9)))
    assert (low >= 0.5).all(axis=1).mean() <= 0.025
