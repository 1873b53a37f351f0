"""One way to DuckDB: no name of a file, a folder or a column is ever SQL, a pattern or another file."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import karat
from karat.align.sql import align_sql
from karat.read.embeddings import embeddings_of, vectors_of
from karat.read.queries import read_queries
from karat.store.database import Database, DatabaseError, Selection, parquet
from karat.verbs.validate.roles import detect_role

SOURCE = Path(karat.__file__).parent
PROOF = "pwned.csv"
COPY = f"COPY (SELECT 42 AS x) TO '{PROOF}' (FORMAT csv)"
HOSTILE = [
    f'id" AS VARCHAR) AS vector FROM t; {COPY}; --',
    f"x'); {COPY}; SELECT ('",
    "a'b\"c\\",
    "$file $1 {0} %s /* x */ --",
    "tab\tnew\nline ünï 😀",
    "run[1]",
    "run*",
    "run?",
    "~",
    "score=7",
    "query_id=q1",
]
"""Names that would do something if they were SQL, a pattern, a home or a partition."""
FILES = [name.replace("/", "_")[:200] for name in HOSTILE]
GOLD = {"q1": {"d1": 1}, "q2": {"d3": 1}}
ROWS: dict[str, list[Any]] = {"query_id": ["q1", "q1", "q2"], "doc_id": ["d9", "d1", "d3"], "score": [3.5, 2.5, 1.5]}
VECTORS = [[1.0, 0.0], [0.0, 1.0]]
MRR = {"q1": 0.5, "q2": 1.0}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with files that a pattern would match; afterwards no statement has written a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    other = {**ROWS, "doc_id": ["x", "y", "z"]}
    for name in ("run1", "runs", "ab1"):
        pq.write_table(pa.table(other), tmp_path / f"{name}.parquet")
        (tmp_path / f"{name}.txt").write_text("q1 Q0 x 1 1 t\nq2 Q0 x 1 1 t\n", "utf-8")
    return tmp_path


def assert_nothing_was_written(folder: Path) -> None:
    assert not list(folder.rglob(PROOF))


def vectors_in(source: Any) -> list[list[float]]:
    vectors = vectors_of(embeddings_of(source), ["d1", "d3"])
    return [vectors.matrix[row].tolist() for row in vectors.row]


def in_folder(name: str, folder: Path, ending: str) -> str:
    (folder / name).mkdir(exist_ok=True)
    return str(folder / name / f"data{ending}")


def as_file(name: str, folder: Path, ending: str) -> str:
    return str(folder / f"{name}{ending}")


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_any_name_is_read_itself(name: str, folder: Path) -> None:
    place = in_folder if "=" in name or name == "~" else as_file
    path = place(name, folder, ".parquet")
    with pa.OSFile(path, "wb") as file:
        pq.write_table(pa.table(ROWS), file)
    assert detect_role(path, b"PAR1") == "run"
    gold = place(name, folder, ".gold.parquet")
    with pa.OSFile(gold, "wb") as file:
        pq.write_table(pa.table({"query_id": ["q1", "q2"], "doc_id": ["d1", "d3"], "grade": [1, 1]}), file)
    assert karat.evaluate(gold, path, "mrr").per_query("mrr") == MRR
    table = place(name, folder, ".queries.parquet")
    with pa.OSFile(table, "wb") as file:
        pq.write_table(pa.table({"query_id": ["q1", "q2"], "language": ["en", "de"]}), file)
    assert {q: dict(f) for q, f in read_queries(table).fields.items()} == {
        "q1": {"language": "en"},
        "q2": {"language": "de"},
    }
    vectors = place(name, folder, ".vectors.parquet")
    with pa.OSFile(vectors, "wb") as file:
        pq.write_table(pa.table({"id": ["d1", "d3"], "vector": VECTORS}), file)
    assert vectors_in(vectors) == VECTORS
    assert_nothing_was_written(folder)


QUOTED = 'query_id,doc_id,score\n"q1",d9,3\n"q2",d3,1\n"q1",d1,2\n'
"""Out of order and quoted: what SQL aligns."""


@pytest.mark.parametrize("name", FILES)
def test_a_text_file_of_any_name_is_read_itself_by_sql(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return align_sql(*arguments, **options)

    monkeypatch.setattr("karat.align.sql.align_sql", counted)
    monkeypatch.setattr("karat.align.IN_MEMORY", 0)
    scratch = folder / re.sub(r"[?\\]", "", name)
    scratch.mkdir(exist_ok=True)
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    path = folder / f"{name}.csv"
    path.write_text(QUOTED, "utf-8")
    assert karat.evaluate(GOLD, str(path), "mrr", separator="'#").per_query("mrr") == MRR
    assert calls
    assert_nothing_was_written(folder)


@pytest.mark.parametrize("name", HOSTILE)
def test_columns_of_any_name_are_columns(name: str, folder: Path) -> None:
    pq.write_table(pa.table({"id": ["d1", "d3"], name: VECTORS}), "vectors.parquet")
    assert vectors_in("vectors.parquet") == VECTORS
    frame = pa.table({"id": ["d1", "d3"], name: VECTORS})
    assert vectors_in(frame) == VECTORS
    pq.write_table(pa.table({**ROWS, name: [1, 2, 3]}), "run.parquet")
    assert karat.evaluate(GOLD, "run.parquet", "mrr").per_query("mrr") == MRR
    assert karat.evaluate(GOLD, pa.table({**ROWS, name: [1, 2, 3]}), "mrr").per_query("mrr") == MRR
    pq.write_table(pa.table({"query_id": ["q1"], name: ["x"]}), "queries.parquet")
    assert dict(read_queries("queries.parquet").fields["q1"]) == {name: "x"}
    assert_nothing_was_written(folder)


@pytest.mark.parametrize("name", HOSTILE)
def test_runs_and_queries_of_any_name_are_written_to_parquet(name: str, folder: Path) -> None:
    from karat.report.files import write_rows

    write_rows([(name, name, "mrr", 1.0)], "out.parquet")
    assert pq.read_table("out.parquet").to_pylist() == [{"run": name, "query_id": name, "metric": "mrr", "value": 1.0}]
    assert_nothing_was_written(folder)


def test_what_duckdb_cannot_name_is_an_error_that_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pa.OSFile("a\\b[1].parquet", "wb") as file:
        pq.write_table(pa.table(ROWS), file)
    with pytest.raises(karat.InputError, match="has a backslash and one of"):
        karat.evaluate(GOLD, "a\\b[1].parquet", "mrr")
    Path("a\\b[1].csv").write_text(QUOTED, "utf-8")
    monkeypatch.setattr("karat.align.IN_MEMORY", 0)
    assert karat.evaluate(GOLD, "a\\b[1].csv", "mrr").per_query("mrr") == MRR  # read without SQL
    monkeypatch.setattr("tempfile.tempdir", str(folder / "a?b"))
    Path("plain.csv").write_text(QUOTED, "utf-8")
    with pytest.raises(karat.InputError, match="set TMPDIR"):
        karat.evaluate(GOLD, "plain.csv", "mrr")


class TestDatabase:
    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT * FROM read_csv('other.csv')",
            "SELECT * FROM 'other.csv'",
            "SELECT * FROM read_text('other.csv')",
            "SELECT * FROM glob('*')",
            COPY,
            "ATTACH 'x.duckdb' AS x",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SET enable_external_access = true",
            "SELECT * FROM folder",
            "SELECT 1; SELECT 2",
            "",
        ],
    )
    def test_reads_and_writes_nothing_that_was_not_named(self, sql: str, folder: Path) -> None:
        (folder / "other.csv").write_text("a\n1\n", "utf-8")
        pq.write_table(pa.table(ROWS), "named.parquet")
        database = Database(["named.parquet"])
        with pytest.raises(DatabaseError):
            database.fetch(sql)
        assert len(database.fetch(parquet("named.parquet"))) == 3
        with pytest.raises(DatabaseError):
            list(database.batches(Selection(sql)))
        assert_nothing_was_written(folder)
        assert not os.path.exists("x.duckdb")

    def test_frames_share_a_database_in_which_none_sees_another(self, folder: Path) -> None:
        (folder / "other.csv").write_text("a\n1\n", "utf-8")
        databases = [Database.for_frames() for _ in range(3)]
        rows = [database.register(pa.table({"a": [n]})) for n, database in enumerate(databases[:2])]
        assert [database.fetch(one) for database, one in zip(databases, rows)] == [[(0,)], [(1,)]]
        for sql in (rows[0].sql, "SELECT * FROM read_csv('other.csv')", "SET enable_external_access = true"):
            with pytest.raises(DatabaseError):
                databases[2].fetch(sql)

    def test_it_is_the_only_module_that_knows_duckdb(self) -> None:
        others = {}
        for path in SOURCE.rglob("*.py"):
            tree = ast.parse(path.read_text("utf-8"))
            modules = {
                name.partition(".")[0]
                for node in ast.walk(tree)
                for name in (
                    [alias.name for alias in node.names]
                    if isinstance(node, ast.Import)
                    else [node.module or ""]
                    if isinstance(node, ast.ImportFrom)
                    else [str(node.args[0].value)]
                    if isinstance(node, ast.Call)
                    and getattr(node.func, "id", getattr(node.func, "attr", "")) in ("import_module", "__import__")
                    and node.args
                    and isinstance(node.args[0], ast.Constant)
                    else []
                )
            }
            if "duckdb" in modules:
                others[str(path.relative_to(SOURCE))] = modules
        assert list(others) == ["store/database.py"]
