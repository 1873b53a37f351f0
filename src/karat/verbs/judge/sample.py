"""`karat judge sample`: what a judge graded → pairs for people to label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.judge.judgments import read_judgments, rows_of_model
from karat.judge.pairs import write_pairs
from karat.judge.sample import draw_queries, draw_sample
from karat.stats.defaults import SEED

if TYPE_CHECKING:
    from karat.judge.pairs import Pair


def sample_pairs(
    size: int, judgments: str, output: str, *, judge: str | None = None, seed: int = SEED, whole_queries: bool = False
) -> tuple[tuple[Pair, ...], int]:
    """Write a sample of what a model judged: so many pairs, or all pairs of so many queries; and of how many."""
    rows = rows_of_model(read_judgments(judgments), judge)
    pairs = draw_queries(rows, size, seed=seed) if whole_queries else draw_sample(rows, size, seed=seed)
    write_pairs(pairs, output)
    return pairs, len({row.query_id for row in rows}) if whole_queries else len(rows)
