"""Data frames: what is read as it is in memory, and by what way."""

from __future__ import annotations

import random
from typing import Any

import pandas
import polars
import pyarrow
import pytest

import karat
from karat.read.arrow import BLOCK, ViewColumn, read_batches
from karat.store.database import Database

ROWS = {"query_id": ["q", "q", "p"], "doc_id": ["a", "long-id-of-a-doc", "b"], "score": [2.0, 1.0, 3.0]}
GOLD = {"q": {"long-id-of-a-doc": 1}, "p": {"b": 1}}


@pytest.mark.parametrize("frame", [polars.DataFrame, pandas.DataFrame, pyarrow.table])
def test_frames_of_texts_and_floats_need_no_database(frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a database was opened")

    monkeypatch.setattr(Database, "__init__", refuse)
    result = karat.evaluate(GOLD, frame(ROWS), "mrr", cache=False)
    assert result.per_query("mrr") == {"q": 0.5, "p": 1.0}


@pytest.mark.parametrize("other", [{"cost": [1.0, 2.0, 3.0]}, {"score": [2, 1, 3]}, {"docid": ROWS["doc_id"]}])
def test_other_columns_types_and_rivals_change_no_value(other: dict[str, list[object]]) -> None:
    result = karat.evaluate(GOLD, polars.DataFrame({**ROWS, **other}), "mrr", cache=False)
    assert result.per_query("mrr") == {"q": 0.5, "p": 1.0}


def test_frames_of_polars_are_passed_on_by_their_chunks_without_being_copied() -> None:
    parts = [polars.DataFrame({"id": [f"{part}-{i}" for i in range(BLOCK)]}) for part in range(3)]
    frame = polars.concat([*parts, polars.DataFrame({"id": ["last"]})], rechunk=False)
    sizes = [len(batch) for batch in read_batches(frame)]
    assert sizes == [BLOCK, BLOCK, BLOCK, 1]
    assert frame.n_chunks() == 4


def test_small_chunks_are_passed_on_together() -> None:
    frame = polars.concat([polars.DataFrame({"id": [str(i)]}) for i in range(50)], rechunk=False)
    (batch,) = read_batches(frame)
    assert ViewColumn(batch.child(0)).strings(0, 50).texts() == [str(i) for i in range(50)]


@pytest.mark.parametrize("seed", range(30))
def test_string_views_hold_the_texts_of_their_column(seed: int) -> None:
    rng = random.Random(seed)
    texts = [
        None if rng.random() < 0.1 else "".join(rng.choices("abcé0", k=rng.choice((0, 1, 5, 11, 12, 13, 20, 40))))
        for _ in range(40)
    ]
    rows = [rng.randrange(40) for _ in range(60)]
    frame = polars.DataFrame({"id": texts}).with_row_index()[rows].slice(3)
    expected = [texts[row] or "" for row in rows[3:]]
    (batch,) = read_batches(frame)
    column = ViewColumn(batch.child(1))
    strings = column.strings(0, 57)
    assert strings.texts() == expected
    assert 0 not in strings.buffer[32:-32]
    assert column.strings(5, 50).texts() == expected[5:50]
    assert [column.text(i, i + 1).decode() for i in range(57)] == expected
    assert column.holds(b"0", 5, 9) == any("0" in text for text in expected[5:9])
    assert not column.holds(b" ", 0, 57)
