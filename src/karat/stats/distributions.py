"""Quantiles that every evaluation needs, without scipy: importing it takes longer than a small evaluation."""

from __future__ import annotations

import math
from functools import lru_cache

CLOSE = 1e-9
"""Relative: each step cubes the error that is left, so that after one of this size only rounding is."""
STEPS = 100
"""More than any search needs."""


@lru_cache(maxsize=1024)
def normal_quantile(share: float) -> float:
    """The quantile of the standard normal distribution, as exact as a double can be."""
    if not 0 < share < 1:
        return math.nan if not 0 <= share <= 1 else math.inf if share else -math.inf
    tail = min(share, 1 - share)
    root = math.sqrt(-2 * math.log(tail))
    # Abramowitz & Stegun 26.2.23, which is off by at most 0.00045; then three steps of Halley's method
    above = 2.515517 + root * (0.802853 + root * 0.010328)
    z = root - above / (1 + root * (1.432788 + root * (0.189269 + root * 0.001308)))
    for _ in range(3):
        scaled = z / math.sqrt(2)
        off = 0.5 * math.erfc(scaled) - tail if tail < 0.25 else (0.5 - tail) - 0.5 * math.erf(scaled)
        step = off * math.sqrt(2 * math.pi) * math.exp(z * z / 2)
        z += step / (1 + step * z / 2)
    return z if share > 0.5 else -z


@lru_cache(maxsize=100_000)
def beta_quantile(a: int, b: int, share: float) -> float:
    """The quantile of the beta distribution of two whole numbers from 1: what `share` of it is not above."""
    if share in (0, 1):
        return share
    if a == 1:
        return -math.expm1(math.log1p(-share) / b)
    if b == 1:
        return float(share ** (1 / a))
    if share > 0.5:  # the lower tail of the mirrored distribution is the sooner summed
        return 1 - beta_quantile(b, a, 1 - share)
    n = a + b - 1
    x = 1 / (1 + b / a * math.exp(-normal_quantile(share) * math.sqrt(1 / a + 1 / b)))  # as if its logit were normal
    for _ in range(STEPS):
        term = total = 1.0
        odds, count = x / (1 - x), a
        while term > total * 1e-17:  # P(at least a of n), in terms of P(a of n)
            term *= (n - count) / (count + 1) * odds
            total += term
            count += 1
        # Halley's method for the logarithm, which is concave: no step leads astray. The density is P(a of n) · a / x.
        slope = a / (x * total)
        step = (math.log(total / share) + _log_binomial(a, n, x)) / slope
        step /= max(1 - step * ((a - 1) / x - (b - 1) / (1 - x) - slope) / 2, 0.5)
        x = x - step if step < x else x / 2
        if abs(step) <= CLOSE * x:
            break
    return x


def _log_binomial(count: int, n: int, share: float) -> float:
    """The logarithm of the chance of exactly so many of n, 0 < count < n (Loader 2000: no large terms that cancel)."""
    rest = n - count
    log = _stirling_error(n) - _stirling_error(count) - _stirling_error(rest)
    log -= _deviance(count, n * share) + _deviance(rest, n * (1 - share))
    return log + math.log(n / (2 * math.pi * count * rest)) / 2


def _stirling_error(n: int) -> float:
    """log n! less Stirling's formula."""
    if n < 16:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi)
    square = n * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / n


def _deviance(count: int, expected: float) -> float:
    off = (count - expected) / expected
    return expected * ((1 + off) * math.log1p(off) - off)
