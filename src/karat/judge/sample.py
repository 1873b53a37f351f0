"""A sample for people to label, drawn from what a judge graded: pairs by grade, or whole queries."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import UsageError
from karat.judge.pairs import Draw, Pair
from karat.stats.defaults import SEED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.judge.judgments import Judgment

FEWEST = 2
"""Pairs of each grade, where there are as many: one alone says nothing of how its grade varies."""


def allocate(sizes: Mapping[int, int], size: int) -> dict[int, int]:
    """How many pairs of each grade to draw: in proportion to the square root of how many there are.

    Rare grades get more than their share, so that the judge's errors on them can be seen, and frequent ones enough
    for means (power allocation: Bankier 1988).
    """
    total = sum(sizes.values())
    if size >= total:
        return dict(sizes)
    out = {grade: min(count, FEWEST) for grade, count in sizes.items()}
    if sum(out.values()) > size:
        raise UsageError(
            f"a sample of {size:,} is too small for {len(sizes)} grades; draw at least {sum(out.values())} pairs"
        )
    for _ in range(size - sum(out.values())):
        room = [grade for grade in out if out[grade] < sizes[grade]]
        out[min(room, key=lambda grade: (out[grade] + 1) / math.sqrt(sizes[grade]))] += 1
    return out


def draw_sample(rows: Sequence[Judgment], size: int, *, seed: int = SEED) -> tuple[Pair, ...]:
    """Pairs in random order, each with its probability; the stratum is the grade that the judge gave."""
    rng = np.random.default_rng(seed)
    strata: dict[int, list[Judgment]] = {}
    for row in sorted(rows, key=lambda row: row.ids):
        assert row.grade is not None
        strata.setdefault(row.grade, []).append(row)
    counts = allocate({grade: len(strata[grade]) for grade in sorted(strata)}, size)
    pairs = []
    for grade, count in counts.items():
        own = strata[grade]
        draw = Draw("random", count / len(own), str(grade))
        pairs += [Pair(own[i].query_id, own[i].doc_id, draw) for i in rng.choice(len(own), count, replace=False)]
    return tuple(pairs[i] for i in rng.permutation(len(pairs)))


def draw_queries(rows: Sequence[Judgment], size: int, *, seed: int = SEED) -> tuple[Pair, ...]:
    """All pairs of so many queries that a judge graded, in random order; each query has the same chance."""
    if size < FEWEST:
        raise UsageError(f"a sample of {size} query says nothing of how queries vary; draw at least {FEWEST}")
    rng = np.random.default_rng(seed)
    queries = sorted({row.query_id for row in rows})
    chosen = {queries[i] for i in rng.choice(len(queries), min(size, len(queries)), replace=False)}
    draw = Draw("random", len(chosen) / len(queries), unit="query")
    pairs = [Pair(*ids, draw) for ids in sorted(row.ids for row in rows if row.query_id in chosen)]
    return tuple(pairs[i] for i in rng.permutation(len(pairs)))
