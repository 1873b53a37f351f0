"""Pairs of a query and a doc that wait for a judgment, and how each of them was drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from karat.judge.records import Records, id_problem, read_records, write_lines
from karat.store.codec import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

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
