"""`karat judge sample`: what a judge graded → pairs for people to label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.judge.judgments import read_judgments, rows_of_model
from karat.judge.pairs import write_pairs
from karat.judge.sample import draw_sample
from karat.stats.defaults import SEED

if TYPE_CHECKING:
    from karat.judge.pairs import Pair


def sample_pairs(
    size: int, judgments: str, output: str, *, judge: str | None = None, seed: int = SEED
) -> tuple[tuple[Pair, ...], int]:
    """Write a sample of the pairs that a model judged; the pairs, and how many it judged."""
    rows = rows_of_model(read_judgments(judgments), judge)
    pairs = draw_sample(rows, size, seed=seed)
    write_pairs(pairs, output)
    return pairs, len(rows)
