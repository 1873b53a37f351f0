"""`karat judge sample` and `karat judge label`: pairs drawn for people, and the session in which they label them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karat.errors import InputError
from karat.judge.assessor import find_texts
from karat.judge.judgments import read_judgments, rows_of_model
from karat.judge.labelling import LabelSession
from karat.judge.pairs import Pair, draw_queries, draw_sample, read_pairs, write_pairs
from karat.read.docs import read_docs
from karat.read.queries import read_queries
from karat.stats.defaults import SEED

if TYPE_CHECKING:
    import os

    from karat.judge.scale import Scale


def open_session(
    pairs: str, *, queries: Any, docs: Any, judgments: str, person: str, scale: Scale, adjudicate: bool = False
) -> LabelSession:
    """The session of a person over a file of pairs; with `adjudicate`, over those on which people disagree."""
    records = read_pairs(pairs)
    if not records.rows:
        raise InputError(f"{pairs}: holds no pairs, expected at least one; see: karat judge pool")
    texts = find_texts(records.rows, read_queries(queries), read_docs(docs))
    return LabelSession(texts, person, scale, judgments, adjudicate=adjudicate)


def sample_pairs(
    size: int,
    judgments: str | os.PathLike[str],
    output: str,
    *,
    judge: str | None = None,
    seed: int = SEED,
    whole_queries: bool = False,
) -> tuple[tuple[Pair, ...], int]:
    """Write a sample of what a model judged: so many pairs, or all pairs of so many queries; and of how many."""
    rows = rows_of_model(read_judgments(judgments), judge)
    pairs = draw_queries(rows, size, seed=seed) if whole_queries else draw_sample(rows, size, seed=seed)
    write_pairs(pairs, output)
    return pairs, len({row.query_id for row in rows}) if whole_queries else len(rows)
