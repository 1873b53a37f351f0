"""Limits on what is read: each is stated, said in its error, and raised by its environment variable."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import zstandard

import karat
from karat.model.limits import LIMITS, LINE, size_text
from karat.model.strings import Strings
from karat.read.queries import read_queries

GOLD = {"q1": {"d1": 1}}
RUN = "q1 Q0 d1 1 2.0 t\n"


def refusal(run: Any, **options: Any) -> str:
    with pytest.raises(karat.InputError) as error:
        karat.evaluate(GOLD, run, options.pop("metrics", "mrr"), cache=False, **options)
    return str(error.value)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test reaches quickly."""
    for name, value in {"LINE": "300KiB", "ID": "1KiB", "UNPACKED": "1MiB", "RATIO": "20"}.items():
        monkeypatch.setenv(f"KARAT_MAX_{name}", value)


def test_a_limit_is_a_size_or_a_whole_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("much", "-1", "0", ""):
        for limit in LIMITS:
            monkeypatch.setenv(limit.variable, wrong)
            with pytest.raises(karat.UsageError, match=f"{limit.variable} must be a (size|whole number) such as"):
                _ = limit.value
    monkeypatch.setenv("KARAT_MAX_LINE", "2GB")
    assert LINE.value == 2 * 10**9
    assert [size_text(n) for n in (5, 1 << 10, 3 << 20, 4 << 30)] == ["5 bytes", "1KiB", "3MiB", "4GiB"]


@pytest.mark.usefixtures("small")
class TestBombs:
    TEXT = (b" " * 65535 + b"\n") * 64 + RUN.encode()

    @pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
    def test_a_compressed_file_that_unpacks_to_far_too_much_is_refused(
        self, tmp_path: Path, pack: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KARAT_MAX_LINE", "8MiB")
        for name in ("r.txt", "r.jsonl", "r.csv"):
            (tmp_path / name).write_bytes(pack(self.TEXT))
            problem = refusal(tmp_path / name)
            assert problem.startswith(f"{tmp_path / name}: unpacks to more than 1MiB and more than 20 times its size; ")
            assert "set the environment variable KARAT_MAX_UNPACKED to allow more (or KARAT_MAX_RATIO)" in problem
        (tmp_path / "queries.tsv").write_bytes(pack(b"q1\t" + b"x" * (4 << 20)))
        with pytest.raises(karat.InputError, match="unpacks to more than"):
            read_queries(tmp_path / "queries.tsv")

    @pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
    def test_the_limit_can_be_raised(self, tmp_path: Path, pack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KARAT_MAX_RATIO", "100000")
        monkeypatch.setenv("KARAT_MAX_LINE", "8MiB")
        (tmp_path / "r.txt").write_bytes(pack(self.TEXT))
        assert karat.evaluate(GOLD, tmp_path / "r.txt", "mrr", cache=False).mean["mrr"] == 1

    def test_standard_input_is_measured_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stream = io.TextIOWrapper(io.BytesIO(gzip.compress(self.TEXT)))
        monkeypatch.setattr("sys.stdin", stream)
        assert refusal("-").startswith("-: unpacks to more than 1MiB")

    def test_zstd_is_unpacked_in_pieces(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KARAT_MAX_UNPACKED", "16MiB")
        monkeypatch.setenv("KARAT_MAX_LINE", "1GiB")
        size = 128 << 20
        with open(tmp_path / "r.txt", "wb") as file, zstandard.ZstdCompressor(level=1).stream_writer(file) as writer:
            for _ in range(size >> 20):
                writer.write(b"\n" * (1 << 20))
        tracemalloc.start()
        try:
            assert "unpacks to more than 16MiB" in refusal(tmp_path / "r.txt")
            assert tracemalloc.get_traced_memory()[1] < size
        finally:
            tracemalloc.stop()

    def test_arrays_of_npz(self, tmp_path: Path) -> None:
        path = tmp_path / "v.npz"
        np.savez_compressed(path, ids=np.array(["d1"]), vectors=np.zeros((1, 4 << 20), np.float32))
        assert "v.npz: unpacks to more than 1MiB" in refusal({"q1": ["d1"]}, metrics="ild@5", embeddings=str(path))

    def test_rows_of_parquet_that_take_no_room(self, tmp_path: Path) -> None:
        path = tmp_path / "r.parquet"
        pl.DataFrame({"query_id": ["q1"] * 10**6, "doc_id": ["d1"] * 10**6, "score": [1.0] * 10**6}).write_parquet(path)
        assert path.stat().st_size < 100_000
        assert "r.parquet: unpacks to more than 1MiB" in refusal(path)


@pytest.mark.usefixtures("small")
class TestLines:
    LONG = "x" * (400 << 10)

    @pytest.mark.parametrize(
        ("name", "text", "line"),
        [
            ("r.txt", f"{RUN}q1 Q0 d2 2 1.0 {LONG}\n", 2),
            ("r.txt", f"{RUN * 3}{LONG}", 4),
            ("r.csv", f"query_id,doc_id,score,note\nq1,d1,1,a\nq1,d2,0.5,{LONG}\n", 3),
            ("r.jsonl", f'{{"query_id": "q1", "doc_id": "d1", "score": 1, "note": "{LONG}"}}\n', 1),
            (
                "log.jsonl",
                f'{{"query_id": "q1", "topk": []}}\n{{"query_id": "q2", "topk": [], "query": "{LONG}"}}\n',
                2,
            ),
        ],
    )
    def test_a_long_line_is_named(self, tmp_path: Path, name: str, text: str, line: int) -> None:
        (tmp_path / name).write_text(text)
        problem = refusal(tmp_path / name)
        assert problem.startswith(f"{tmp_path / name}:{line}: the line is longer than 300KiB; ")
        assert problem.endswith("set the environment variable KARAT_MAX_LINE to allow more")

    def test_the_limit_can_be_raised(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KARAT_MAX_LINE", "1MiB")
        (tmp_path / "r.txt").write_text(f"{RUN}q1 Q0 d2 2 1.0 {self.LONG}\n")
        assert karat.evaluate(GOLD, tmp_path / "r.txt", "mrr", cache=False).mean["mrr"] == 1

    def test_tables_of_queries(self, tmp_path: Path) -> None:
        (tmp_path / "q.tsv").write_text(f"q1\tshort\nq2\t{self.LONG}\n")
        with pytest.raises(karat.InputError, match=r"q\.tsv:2: the line is longer than 300KiB"):
            read_queries(tmp_path / "q.tsv")


class TestIds:
    ID = "d" * 2000

    @pytest.mark.usefixtures("small")
    def test_a_long_id_is_named(self, tmp_path: Path) -> None:
        table = {"query_id": ["q1", "q1"], "doc_id": ["d1", self.ID], "score": [2.0, 1.0]}
        pl.DataFrame(table).write_parquet(tmp_path / "r.parquet")
        pl.DataFrame(table).write_csv(tmp_path / "r.csv")
        pl.DataFrame(table).write_ndjson(tmp_path / "r.jsonl")
        (tmp_path / "r.txt").write_text(f"{RUN}q1 Q0 {self.ID} 2 1.0 t\n")
        places = {"r.parquet": ": row 2", "r.csv": ":3", "r.jsonl": ":2", "r.txt": ":2"}
        for name, place in places.items():
            problem = refusal(tmp_path / name)
            assert problem.startswith(f'{tmp_path / name}{place}: the doc id "dddd')
            assert problem.endswith("is longer than 1KiB; set the environment variable KARAT_MAX_ID to allow more")

    def test_one_long_id_does_not_make_every_row_as_long(self) -> None:
        """2,000 bytes in one of 50,000 rows: 100 MB, if every row had room for them."""
        ids = [f"d{i}" for i in range(50_000)]
        column = Strings.of([*ids, self.ID, self.ID[:-1] + "e"])
        tracemalloc.start()
        try:
            words = column.words()
            assert tracemalloc.get_traced_memory()[1] < 20e6
        finally:
            tracemalloc.stop()
        first, last = ([w[i] for w in words] for i in (-2, -1))
        assert first != last
        assert column.equals(column).all()

    def test_long_ids_are_matched_and_ordered_by_all_their_bytes(self, tmp_path: Path) -> None:
        docs = [self.ID + end for end in ("b", "a", "c", "")] + ["d"]
        (tmp_path / "g.txt").write_text("".join(f"q1 0 {doc} {grade}\n" for grade, doc in enumerate(docs)))
        (tmp_path / "r.txt").write_text("".join(f"q1 Q0 {doc} 1 1.0 t\n" for doc in docs))
        lists = {"q1": dict.fromkeys(docs, 1.0)}
        gold = {"q1": {doc: float(grade) for grade, doc in enumerate(docs)}}
        expected = sorted(docs, reverse=True)
        for run, judged in ((tmp_path / "r.txt", tmp_path / "g.txt"), (lists, gold)):
            result = karat.evaluate(judged, run, "num_rel_ret", cache=False, details=True)
            rankings = result.runs[0].rankings
            assert rankings is not None
            assert [docs[int(grade)] for grade in rankings.grade] == expected


class TestDetection:
    """The first row decides, wherever it stands and however long it is."""

    def test_comments_on_top(self, tmp_path: Path) -> None:
        (tmp_path / "r.txt").write_text("# a comment of some length\n" * 4000 + RUN)
        assert karat.evaluate(GOLD, tmp_path / "r.txt", "mrr", cache=False).mean["mrr"] == 1

    def test_a_run_log_whose_lists_come_late(self, tmp_path: Path) -> None:
        stages = {"retrieve": [f"d{i}" for i in range(20_000)]}
        line = {"query_id": "q1", "stages": stages, "topk": [{"doc_id": "d1"}]}
        (tmp_path / "log.jsonl").write_text(json.dumps(line) + "\n")
        assert karat.evaluate(GOLD, tmp_path / "log.jsonl", "mrr", cache=False).mean["mrr"] == 1

    def test_a_header_of_many_columns(self, tmp_path: Path) -> None:
        columns = [f"column_{i}" for i in range(10_000)]
        header, row = ["query_id", *columns, "doc_id", "score"], ["q1", *("" for _ in columns), "d1", "2"]
        (tmp_path / "r.csv").write_text(",".join(header) + "\n" + ",".join(row) + "\n")
        assert karat.evaluate(GOLD, tmp_path / "r.csv", "mrr", cache=False).mean["mrr"] == 1
        (tmp_path / "r.csv").write_text(",".join(header) + "\n" + ",".join(row[1:]) + "\n")
        problem = refusal(tmp_path / "r.csv")
        assert "r.csv:2: found 10002 columns" in problem
        assert "column_18 and 9,983 more" in problem and len(problem) < 1000

    def test_a_quoted_comma_in_the_header(self, tmp_path: Path) -> None:
        (tmp_path / "r.csv").write_text('query_id,doc_id,"a, b",score\nq1,d1,x,2\n')
        assert karat.evaluate(GOLD, tmp_path / "r.csv", "mrr", cache=False).mean["mrr"] == 1

    def test_cases_after_long_metadata(self, tmp_path: Path) -> None:
        data = {
            "metadata": {"note": "x" * 100_000},
            "test_cases": [{"case_id": "q1", "text": "a", "expected_ids": ["d1"]}],
        }
        (tmp_path / "cases.json").write_text(json.dumps(data, indent=1))
        assert karat.evaluate(tmp_path / "cases.json", {"q1": ["d1"]}, "mrr", cache=False).mean["mrr"] == 1

    def test_a_doc_called_topk_is_not_a_run_log(self, tmp_path: Path) -> None:
        (tmp_path / "r.jsonl").write_text('{"query_id": "q1", "doc_id": "topk", "score": 1}\n')
        assert karat.evaluate({"q1": {"topk": 1}}, tmp_path / "r.jsonl", "mrr", cache=False).mean["mrr"] == 1


def test_true_and_false_in_a_table_are_not_numbers(tmp_path: Path) -> None:
    table = pl.DataFrame({"query_id": ["q1"], "doc_id": ["d1"], "score": [True]})
    table.write_parquet(tmp_path / "r.parquet")
    assert "the score column 'score' is BOOLEAN, expected numbers" in refusal(tmp_path / "r.parquet")
    assert "the score column 'score' is BOOLEAN, expected numbers" in refusal(table)
    with pytest.raises(karat.InputError, match="the grade column 'grade' is BOOLEAN, expected numbers"):
        karat.evaluate(table.rename({"score": "grade"}), {"q1": ["d1"]}, "mrr")


@pytest.mark.parametrize("version", ["garbage", "March 1 2025", "2025-99-99", "", True, {"a": 1}, 12.5])
def test_the_as_of_filter_refuses_what_is_not_a_date(tmp_path: Path, version: object) -> None:
    item = {"doc_id": "d1", "doc_version": version}
    (tmp_path / "log.jsonl").write_text(json.dumps({"query_id": "q1", "topk": [item]}) + "\n")
    queries = {"q1": {"as_of": "2025-04-01"}}
    problem = refusal(tmp_path / "log.jsonl", queries=queries, as_of_filter=True)
    assert problem.startswith(f"{tmp_path / 'log.jsonl'}:1: topk item 1: doc_version must be an ISO date")


@pytest.mark.parametrize(("version", "mrr"), [("2025-04-01T00:00:00Z", 1), ("20250301", 1), (20250402, 0)])
def test_the_as_of_filter_compares_days(tmp_path: Path, version: object, mrr: float) -> None:
    item = {"doc_id": "d1", "doc_version": version}
    (tmp_path / "log.jsonl").write_text(json.dumps({"query_id": "q1", "topk": [item]}) + "\n")
    options: Any = {"queries": {"q1": {"as_of": "2025-04-01"}}, "as_of_filter": True, "cache": False}
    assert karat.evaluate(GOLD, tmp_path / "log.jsonl", "mrr", **options).mean["mrr"] == mrr


def test_an_as_of_that_is_not_a_date_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"query_id": "q1", "topk": [{"doc_id": "d1"}]}\n')
    problem = refusal(tmp_path / "log.jsonl", queries={"q1": {"as_of": "next week"}}, as_of_filter=True)
    assert 'query "q1": as_of must be an ISO date' in problem
