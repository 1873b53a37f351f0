"""Random flips that are looked at in parts say what all of them say at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from karat.stats import sign_flips
from karat.stats.random_bytes import KEPT, RandomBytes
from karat.stats.sign_flips import flip_signs

Floats = NDArray[np.float64]
DRAWS, SEED = 20_000, 7


def test_the_first_rows_of_bytes_are_the_same_however_many_are_asked_for() -> None:
    stream = RandomBytes(1000, SEED)
    three, many, two = stream.rows(3), stream.rows(KEPT + 2), stream.rows(2)
    assert len(many) == KEPT + 2
    for rows in (three, two, RandomBytes(1000, SEED).rows(KEPT)):
        assert all((row == same).all() for row, same in zip(rows, many, strict=False))
    rng = np.random.default_rng(np.random.SeedSequence([SEED, 0xF11B]))
    assert all((row == rng.integers(0, 256, 1000, dtype=np.uint8)).all() for row in many)


def all_at_once(tops: Floats, weights: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    """p and the ends, by means of all halves of the same flips."""
    rows = RandomBytes(DRAWS, SEED).rows(math.ceil(len(tops) / 8))
    bits = np.concatenate([np.unpackbits(row[:, None], axis=1) for row in rows], axis=1)[:, : len(tops)]
    signs = bits.astype(np.float64) * 2 - 1
    sums, total, weight = signs @ tops, tops.sum(axis=0), weights.sum()
    p = ((np.abs(sums) >= np.abs(total) - 1e-12 * np.abs(tops).sum(axis=0)).sum(axis=0) + 1) / (DRAWS + 1)
    light = (weight - signs @ weights) / 2
    sizes = np.concatenate((light, weight - light))
    halves = np.concatenate(((total - sums) / 2, (total + sums) / 2))
    there = sizes > 1e-12 * weight
    means = np.sort(halves[there] / sizes[there, None], axis=0)
    place = math.ceil((1 - level) * (DRAWS + 1) - 1e-9) - 1 - int((~there).sum())
    return p, means[place - 1], means[-place]


@pytest.mark.parametrize("units", [17, 40, 90])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("at_once", [1000, 8192])
def test_p_and_ends_are_those_of_all_flips_at_once(
    units: int, weighted: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_flips, "AT_ONCE", at_once)
    rng = np.random.default_rng([units, weighted])
    weights = rng.random(units) ** 6 + 1e-3 if weighted else np.ones(units)
    tops = rng.normal(size=(units, 6)) * weights[:, None]
    for column, differing in enumerate((1, 2, 3, 13)):  # ends that are nearer to the middle than those of others
        tops[differing:, column] = 0.0
    for level in (0.5, 0.95, 0.99):
        p, ((low, high),), _ = flip_signs(tops, weights, levels=[level], draws=DRAWS, seed=SEED)
        expected = all_at_once(tops, weights, level)
        np.testing.assert_allclose(p, expected[0], rtol=1e-12)
        np.testing.assert_allclose(low, expected[1], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(high, expected[2], rtol=1e-9, atol=1e-12)
