"""Sign flips that are computed, beside all flips and a million random ones."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from karat.stats.counted_units import CountedUnits
from karat.stats.sign_flips import Sizes, flip_signs

Floats = NDArray[np.float64]
MANY = 1_000_000
GAINS = np.append(1 / np.log2(np.arange(2, 12)), 0.0)


def differences(kind: str, n: int, shift: float) -> Floats:
    """Differences like those of a metric, whose sum is about so many standard deviations from 0."""
    rng = np.random.default_rng([len(kind), n])
    if kind == "hit@1":
        out = rng.choice([-1.0, 0.0, 1.0], n, p=[0.1, 0.8, 0.1])
    elif kind == "precision@5":
        out = rng.choice([-0.4, -0.2, 0.0, 0.2, 0.4], n)
    elif kind == "recall@5":
        out = rng.choice([-1, -2 / 3, -1 / 2, -1 / 4, 0.0, 1 / 3, 3 / 4, 1], n)
    elif kind == "ndcg@10, one relevant doc":
        out = rng.choice(GAINS, n) - rng.choice(GAINS, n)
    elif kind == "ndcg@10":
        out = (rng.random((2, n)) * rng.choice(GAINS, (2, n))).T @ [1, -1]
    else:
        out = rng.normal(0, 20, n)
    for i in rng.permutation(n):
        if out.sum() >= shift * np.sqrt((out**2).sum()):
            break
        out[i] = abs(out[i])
    return out


def random_halves(tops: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """What a million random halves of the units sum to, and what they weigh."""
    rng, sums = np.random.default_rng(1), np.zeros(MANY, complex)
    bits = np.unpackbits(np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(-1, 2), axis=1).astype(float)
    parts = tops + 1j * weights
    for start in range(0, len(parts), 16):
        part = parts[start : start + 16]
        sums += (bits[:, : len(part)] @ part)[rng.integers(0, 1 << 16, MANY, dtype=np.uint16)]
    return sums.real, sums.imag


def share_below(mean: float, halves: tuple[Floats, Floats], sign: int = 1) -> float:
    """The share of halves whose mean, with this sign, is not above this."""
    sums, weights = halves
    return float(np.mean(sign * sums - mean * weights <= 1e-12 * np.abs(sums).max()))


@pytest.mark.parametrize("steps", [[1], [1, 2, 3], [3, 4, 12, 6, 8], [0.2, 0.4], [1 / 3, 0.5, 1]])
def test_p_of_multiples_of_a_step_is_that_of_all_flips(steps: list[float]) -> None:
    """20 differences that are not 0 among ties: 2^20 flips, counted by halves."""
    rng = np.random.default_rng(len(steps))
    halves = np.array(list(product((-1.0, 1.0), repeat=10)))
    for _ in range(5):
        moved = rng.choice(steps, 20) * rng.choice([-1, 1], 20, p=[0.35, 0.65])
        sums = (halves @ moved[:10])[:, None] + halves @ moved[10:]
        exact = np.mean(np.abs(sums) >= abs(moved.sum()) - 1e-9)
        assert flip_signs(np.append(moved, np.zeros(100))[:, None], np.ones(120), levels=()).p[0] == pytest.approx(
            exact, rel=1e-9
        )


@pytest.mark.parametrize("shift", [0.5, 2.0, 3.0])
@pytest.mark.parametrize("n", [100, 700])
@pytest.mark.parametrize("kind", ["hit@1", "precision@5", "recall@5", "ndcg@10, one relevant doc", "ndcg@10", "cost"])
def test_what_is_computed_is_what_a_million_draws_say(kind: str, n: int, shift: float) -> None:
    moved = differences(kind, n, shift)
    found = flip_signs(moved[:, None], np.ones(n), levels=(0.95, 0.995))
    assert not found.draws.any()
    halves = random_halves(moved, np.ones(n))
    side = share_below(0.0, halves)
    assert found.p[0] / 2 == pytest.approx(side, abs=3.3 * np.sqrt(side / MANY))
    for (low, high), tail in zip(found.ends, (0.025, 0.0025), strict=True):
        for sign, end in ((1, low[0]), (-1, -high[0])):
            share = share_below(float(end), halves, sign)
            # Halves of few units share few means: an end may lie between two of them.
            assert share == pytest.approx(
                tail, abs=3.3 * np.sqrt(tail / MANY) + tail * (0.08 if n < 200 else 0.03)
            ) or (end == 0)


@pytest.mark.parametrize("kind", ["hit@1", "ndcg@10"])
def test_ends_with_unequal_weights_are_means_of_halves_too(kind: str) -> None:
    moved, weights = differences(kind, 300, 1.0), np.random.default_rng(4).integers(1, 6, 300).astype(float)
    found = flip_signs((moved * weights)[:, None], weights, levels=(0.95,))
    assert not found.draws.any()
    ((low, high),) = found.ends
    halves = random_halves(moved * weights, weights)
    for sign, end in ((1, low[0]), (-1, -high[0])):
        assert share_below(float(end), halves, sign) == pytest.approx(0.025, abs=0.0012)


@pytest.mark.parametrize("kind", ["hit@1", "recall@5", "ndcg@10"])
def test_an_end_is_beyond_zero_if_and_only_if_p_is_below_the_level(kind: str) -> None:
    outcomes = set()
    for n in range(100, 140):
        for shift in (1.8, 2.0):
            moved = differences(kind, n, shift)
            for sign in (1, -1):
                found = flip_signs(sign * moved[:, None], np.ones(n), levels=(0.95,))
                ((low, high),) = found.ends
                apart = bool(low[0] > 0 or high[0] < 0)
                assert apart == (found.p[0] < 0.05)
                outcomes.add(apart)
    assert outcomes == {True, False}


def test_what_cannot_be_computed_well_is_drawn() -> None:
    def way(differences: np.ndarray) -> str:
        return Sizes.of(CountedUnits.of(differences[:, None], np.ones(len(differences)))).way

    rng = np.random.default_rng(0)
    normal, coins = rng.normal(0, 0.1, 400), rng.choice([-1.0, 1.0], 400)
    assert way(normal) == "smooth"
    assert way(np.append(normal, [30.0, -20.0])) == "drawn", "two differences decide"
    assert way(coins) == "stepped"
    assert way(np.append(coins, np.sqrt(0.5))) == "drawn", "sums of nearly equal differences coincide"
    assert way(np.zeros(400)) == ""
    found = flip_signs(np.column_stack((normal, np.append(normal[:-1], 30.0), np.zeros(400))), np.ones(400), levels=())
    assert found.draws.tolist() == [0, 100_000, 0]
    assert found.p[2] == 1.0


def test_p_is_never_zero_and_equal_differences_have_their_mean_for_ends() -> None:
    for moved in (np.full(400, 0.5), np.linspace(0.3, 0.5, 400) + 1e-3 * np.sin(np.arange(400))):
        found = flip_signs(moved[:, None], np.ones(400), levels=(0.95,))
        assert 0 < found.p[0] < 1e-9
    ((low, high),) = flip_signs(np.full((400, 1), 0.5), np.ones(400), levels=(0.95,)).ends
    assert (low[0], high[0]) == pytest.approx((0.5, 0.5), abs=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_values_with_12_digits_are_tested_as_their_originals_are(seed: int) -> None:
    """Shares of 3, 4, 5, 7 and 8 docs differ by multiples of 1/840, in files too, which keep 12 digits."""
    rng = np.random.default_rng(seed)
    relevant = rng.choice([3, 4, 5, 7, 8], 300)
    before = rng.integers(0, relevant) / relevant
    after = np.where(rng.random(300) < 0.8, before, np.maximum(before + rng.choice([-1, 1, 1], 300) / relevant, 0))
    rounded = np.array([float(f"{share:.12g}") for share in before])
    exact, read = (np.where(np.abs(d) < 1e-9, 0.0, d) for d in (after - before, after - rounded))
    results = [flip_signs(moved[:, None], np.ones(300), levels=(0.95,)) for moved in (exact, read)]
    assert results[0].draws.tolist() == results[1].draws.tolist() == [0]
    assert results[0].p[0] == pytest.approx(results[1].p[0], rel=1e-9)
