"""Parquet files are read in small batches, in one thread."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import karat
from karat.read.arrow import BLOCK
from karat.read.frames import PIECE, in_one_thread, parquet_rows
from karat.store.database import Database, DatabaseError, Selection, _in_small_batches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = 3 * BLOCK


@pytest.fixture
def run(tmp_path: Path) -> str:
    """A run of queries of 1,000 docs each."""
    path = str(tmp_path / "run.parquet")
    columns = {"query_id": [f"q{i // 1000}" for i in range(ROWS)], "doc_id": [f"d{i}" for i in range(ROWS)]}
    pq.write_table(pa.table({**columns, "score": [float(-i) for i in range(ROWS)]}), path)
    return path


def test_no_batch_of_a_parquet_file_is_large(run: str) -> None:
    sizes = [len(batch) for batch in parquet_rows(run, "run").batches()]
    most = PIECE if int(duckdb.__version__.partition(".")[0]) >= 2 else BLOCK
    assert sum(sizes) == ROWS and max(sizes) <= most


def test_a_version_without_small_batches_has_large_ones(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.store.database._in_small_batches", lambda relation, size: relation)
    sizes = [len(batch) for batch in parquet_rows(run, "run").batches()]
    assert sum(sizes) == ROWS and max(sizes) == BLOCK
    result = karat.evaluate({"q1": {"d1002": 1}, "q88": {"d88000": 1}}, run, "mrr", cache=False)
    assert result.per_query("mrr") == {"q1": 1 / 3, "q88": 1.0}


def test_what_has_no_small_batches_is_its_own_stream() -> None:
    assert _in_small_batches("a relation of another version", 5) == "a relation of another version"


def test_settings_that_a_version_lacks_are_left_alone() -> None:
    database = Database()
    database.set_if_known("no_such_setting", "0")
    database.set_if_known("threads", "1")
    assert database.fetch(Selection("SELECT current_setting('threads')")) == [(1,)]


def test_all_batches_are_made_in_one_thread_which_ends() -> None:
    makers: list[threading.Thread] = []

    def make() -> Iterator[int]:
        for i in range(1, 5):
            makers.append(threading.current_thread())
            yield i

    batches = in_one_thread(make())
    taken: list[int] = []
    for _ in range(4):
        taker = threading.Thread(target=lambda: taken.append(next(batches)))
        taker.start()
        taker.join()
    assert taken == [1, 2, 3, 4] and list(batches) == []
    assert len(set(makers)) == 1 and makers[0] is not threading.current_thread() and not makers[0].is_alive()


def test_a_reader_that_stops_ends_the_thread() -> None:
    def make() -> Iterator[threading.Thread]:
        while True:
            yield threading.current_thread()

    with closing(in_one_thread(make())) as batches:
        thread: Any = next(batches)
        assert thread.is_alive()
    assert not thread.is_alive()


def test_an_error_of_the_thread_is_raised_where_a_batch_was_asked_for() -> None:
    def make() -> Iterator[int]:
        yield 1
        raise DatabaseError("broken")

    batches = in_one_thread(make())
    assert next(batches) == 1
    with pytest.raises(DatabaseError, match="broken"):
        next(batches)
