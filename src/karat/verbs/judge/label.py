"""`karat judge label`: pairs and texts → a session in which a person labels them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karat.errors import InputError
from karat.judge.assessor import find_texts
from karat.judge.labelling import LabelSession
from karat.judge.pairs import read_pairs
from karat.read.docs import read_docs
from karat.read.queries import read_queries

if TYPE_CHECKING:
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
