"""Quantiles of our own beside scipy's, and beside exact sums where those are less exact."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.special import betaincinv, ndtri

from karat.stats.distributions import beta_quantile, normal_quantile

SHARES = (1e-12, 1e-6, 0.005, 0.025, 0.025000000000000022, 0.2, 0.5, 0.8, 0.975, 0.995, 1 - 1e-6)


def test_the_normal_quantile_is_that_of_scipy() -> None:
    shares = np.concatenate((np.logspace(-300, -1, 500), np.linspace(0.001, 0.999, 999), 1 - np.logspace(-15, -1, 100)))
    ours = [normal_quantile(share) for share in shares.tolist()]
    assert ours == pytest.approx(ndtri(shares).tolist(), rel=2e-15, abs=1e-18)
    assert [normal_quantile(share) for share in (0.0, 1.0)] == [-math.inf, math.inf]
    assert math.isnan(normal_quantile(1.5))


def test_the_beta_quantile_is_that_of_scipy() -> None:
    rng = np.random.default_rng(3)
    for largest in (5, 50, 3000, 100_000):
        pairs = [*rng.integers(1, largest, (20, 2)).tolist(), [1, largest], [largest, 1], [2, largest], [largest, 2]]
        for share in SHARES:
            ours = [beta_quantile(a, b, share) for a, b in pairs]
            theirs = [float(betaincinv(a, b, share)) for a, b in pairs]
            assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-15)
    assert [beta_quantile(3, 4, share) for share in (0.0, 1.0)] == [0.0, 1.0]


@pytest.mark.parametrize(("a", "b"), [(2, 3), (31, 27), (45, 20), (200, 3), (1219, 782)])
def test_the_beta_quantile_is_exact_to_the_last_digits(a: int, b: int) -> None:
    n = a + b - 1
    for share in (0.001, 0.025, 0.5, 0.975):
        found = beta_quantile(a, b, share)
        with localcontext() as context:
            context.prec = 60
            x = Decimal(found)
            chances = [math.comb(n, j) * x**j * (1 - x) ** (n - j) for j in range(n + 1)]
            density = chances[a] * a / x
            error = (sum(chances[a:]) - Decimal(share)) / density / x
        assert abs(error) < 1e-15
