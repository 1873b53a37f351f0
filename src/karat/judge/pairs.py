"""Pairs of a query and a doc that wait for a judgment, how each of them was drawn, and samples for people to label."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct

from karat.errors import UsageError
from karat.judge.records import Records, id_problem, read_records, write_lines
from karat.stats.defaults import SEED
from karat.store.codec import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karat.judge.judgments import Judgment


How = Literal["random", "value", "listed"]
DrawUnit = Literal["pair", "query"]
PAIR = 'expected one pair per line: {"query_id": "…", "doc_id": "…"}'


class Draw(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a pair was drawn: estimates rest on `random` pairs alone, whose probability is known.

    `value` pairs were chosen because they matter, `listed` ones by somebody's own list.
    """

    how: How
    probability: float | None = None
    """Of the pair being drawn, above 0 and at most 1; of `random` pairs alone."""
    stratum: str = ""
    """The part of all pairs that it was drawn from, where each part has its own probability."""
    unit: DrawUnit = "pair"
    """What was drawn: the pair itself, or its query with all pairs that the judge graded."""

    @property
    def problem(self) -> str | None:
        """What is wrong with the values."""
        if self.how == "random" and (self.probability is None or not 0 < self.probability <= 1):
            return f"probability of a random pair must be above 0 and at most 1, found {self.probability}"
        if self.how != "random" and self.probability is not None:
            return f"a pair drawn by {self.how} has no probability, found {self.probability:g}"
        return None


LISTED = Draw("listed")


class Pair(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A query and a doc."""

    query_id: str
    doc_id: str
    drawn: Draw = LISTED

    @property
    def ids(self) -> tuple[str, str]:
        return self.query_id, self.doc_id


def read_pairs(path: str) -> Records[Pair]:
    """The pairs of a file, each once."""
    pairs = read_records(path, Pair, PAIR, _problem)
    first: dict[tuple[str, str], Pair] = {}
    for row in pairs.rows:
        first.setdefault(row.ids, row)
    rows = tuple(first.values())
    repeats = len(pairs.rows) - len(rows)
    notes = (f"{path}: {repeats:,} of {len(pairs.rows):,} pairs appear more than once",) if repeats else ()
    return Records(rows, path, pairs.notes + notes)


def write_pairs(pairs: Iterable[Pair], path: str) -> None:
    """One pair per line."""
    write_lines(map(encode, pairs), path)


def _problem(pair: Pair) -> str | None:
    return id_problem(pair.query_id, pair.doc_id) or pair.drawn.problem


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
