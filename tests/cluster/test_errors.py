"""What is wrong on a cluster is said as on one machine: where, what, and what to do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import karat
from cluster_world import World


def problems(gold: str, run: Any, **options: Any) -> str:
    with pytest.raises(karat.KaratError) as caught:
        karat.evaluate(gold, run, "ndcg@10", **options)
    assert caught.value.exit_code == 2
    return str(caught.value)


def table(
    path: Path, rows: list[tuple[Any, Any, Any]], names: tuple[str, ...] = ("query_id", "doc_id", "score")
) -> None:
    columns = zip(*rows, strict=True)
    kinds = [pa.string(), pa.string(), pa.float64()]
    pq.write_table(pa.table({n: pa.array(c, k) for n, c, k in zip(names, columns, kinds, strict=True)}), path)


def test_broken_rows_are_told_with_partition_and_row(spark: Any, world: World, tmp_path: Path) -> None:
    good = [(f"q{i % 7}", f"d{i}", float(i)) for i in range(6000)]
    run = tmp_path / "run.parquet"
    run.mkdir()
    table(run / "a.parquet", good)
    table(run / "b.parquet", [*good[:5500], ("q1", None, 1.0), ("q1", "d1", float("nan")), ("", "d1", 1.0)])
    told = problems(world.path("qrels.txt"), str(run), engine=spark)
    wrong = (
        "the doc id is empty or null, expected an id",
        "score must be a finite number, found NaN or null",
        "the query id is empty or null, expected an id",
    )
    rows = [re.fullmatch(r".*\.parquet: partition \d+, row (\d+): (.*)", line) for line in told.splitlines()]
    assert [row[2] for row in rows if row] == list(wrong)
    first = int(rows[0][1]) if rows[0] else 0
    assert first in (5501, 11501)  # both files may lie in one partition
    assert [int(row[1]) for row in rows if row] == [first, first + 1, first + 2]


def test_at_most_20_broken_rows_are_told(spark: Any, world: World, tmp_path: Path) -> None:
    table(tmp_path / "run.parquet", [("q1", f"d{i}", float("inf") if i > 100 else 1.0) for i in range(6000)])
    told = problems(world.path("qrels.txt"), str(tmp_path / "run.parquet"), engine=spark).splitlines()
    assert len(told) == 21
    assert told[-1] == "… and more (the first 20 are shown)"


def test_a_broken_line_of_text(spark: Any, world: World, tmp_path: Path) -> None:
    lines = [f"q1 Q0 d{i} {i} {9000 - i} tag" for i in range(3000)]
    lines[2000] = "q1 Q0 d2000 oops"
    lines[2500] = "q1 Q0 d2500 2500 many tag"
    (tmp_path / "bad.run").write_text("\n".join(lines) + "\n", "utf-8")
    told = problems(world.path("qrels.txt"), str(tmp_path / "bad.run"), engine=spark)
    assert "line 2001: found 4 columns" in told
    assert 'line 2501: score must be a finite number, found "many"' in told


def test_a_broken_line_of_json(spark: Any, world: World, tmp_path: Path) -> None:
    lines = [json.dumps({"query_id": "q1", "doc_id": f"d{i}", "score": i}) for i in range(3000)]
    lines[1700] = '{"query_id": "q1", "doc_id": "d1", "sc'
    (tmp_path / "bad.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    told = problems(world.path("qrels.txt"), str(tmp_path / "bad.jsonl"), engine=spark)
    assert "line 1701: " in told


def test_wrong_columns_missing_files_and_missing_tables(spark: Any, world: World, tmp_path: Path) -> None:
    gold = world.path("qrels.txt")
    table(tmp_path / "other.parquet", [("q1", "d1", 1.0)], ("query_id", "title", "score"))
    assert "no doc column; expected one of" in problems(gold, str(tmp_path / "other.parquet"), engine=spark)
    assert "no such file where the cluster looks" in problems(gold, str(tmp_path / "none.parquet"), engine=spark)
    assert "no such file where the cluster looks" in problems(gold, str(tmp_path / "none.run"), engine=spark)
    assert "no such table; check catalog, schema and name" in problems(gold, "no_such_table", engine=spark)
    assert "no such table; check catalog, schema and name" in problems("no_such_gold", gold, engine=spark)
    frame = spark.createDataFrame(pa.table({"query_id": ["q1"], "doc_id": [1.5], "score": [1.0]}))
    assert "doc ids in column 'doc_id' are DOUBLE, expected text or integers" in problems(gold, frame)
    empty = spark.read.parquet(world.path("run.parquet")).limit(0)
    assert "has no rows, expected at least one" in problems(gold, empty)


def test_an_engine_that_is_none() -> None:
    told = problems("gold", "run", engine="mesos://somewhere")
    assert told.startswith("engine must be spark://HOST:PORT, sc://HOST:PORT")
    assert "engine must be" in problems("gold", "run", engine=3)


def test_other_versions_on_the_workers_are_refused(spark: Any, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.cluster.remote_run.VERSION", "9.9.9")
    told = problems(world.path("qrels.txt"), world.path("run.parquet"), engine=spark)
    assert f"the workers have Karat {karat.__version__}, the driver 9.9.9; install the same version on both" in told


def run_karat(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "karat", *arguments], capture_output=True, text=True, check=False)


def test_the_command_line(spark: Any, address: str, world: World, tmp_path: Path) -> None:
    out, out_local = tmp_path / "out.json", tmp_path / "local.json"
    common = ("-m", "ndcg@10,map", "--queries", world.path("queries.jsonl"), "--by", "language", "--quiet", "--json")
    done = run_karat(
        "evaluate",
        world.path("qrels.txt"),
        f"run={world.path('parts.parquet')}",
        *common,
        str(out),
        "--engine",
        address,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    run_karat("evaluate", world.path("qrels.txt"), f"run={world.path('run.parquet')}", *common, str(out_local))
    there, here = (json.loads(path.read_text("utf-8"))["runs"][0] for path in (out, out_local))
    assert there["metrics"] == here["metrics"]
    done = run_karat("evaluate", world.path("qrels.txt"), "no_such_table", "--json", str(out), "--engine", address)
    assert done.returncode == 2
    assert "no such table" in done.stderr
    assert "no such table" in out.read_text("utf-8")  # what was there is replaced by the error: no stale figures
