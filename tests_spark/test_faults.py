"""Executors that are killed, and disks that are full: on a real Spark (`make test-spark`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import karat

QUERIES, ROWS, FILES = 2_000, 1_000, 20
METRICS = "ndcg@10,map,recall@100"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two million rows in 20 files; each query lies in one of them, but for a few."""
    folder = tmp_path_factory.mktemp("lost")
    rng = np.random.default_rng(3)
    (folder / "run.parquet").mkdir()
    query = np.char.add("q", np.repeat(np.arange(QUERIES), ROWS).astype(str))
    doc = np.char.add("d", rng.integers(0, 5000, len(query)).astype(str))
    score = rng.integers(0, 400, len(query)) / 8
    whole = pa.table({"query_id": query, "doc_id": doc, "score": score})
    size = len(query) // FILES + 300
    for i in range(FILES):
        pq.write_table(whole.slice(i * size, size), folder / "run.parquet" / f"{i:02d}.parquet")
    judged = pa.table({"query_id": query[::250], "doc_id": doc[::250], "grade": rng.integers(0, 3, len(query[::250]))})
    pq.write_table(
        judged.group_by(["query_id", "doc_id"])
        .aggregate([("grade", "max")])
        .rename_columns(["query_id", "doc_id", "grade"]),
        folder / "gold.parquet",
    )
    pq.write_table(whole, folder / "whole.parquet")
    return folder


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.files.maxPartitionBytes", "1m").getOrCreate()
    yield session
    session.stop()


def executors(driver: int) -> list[int]:
    """The processes of executors that a driver's Java has started."""
    out = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command, stat = path.read_bytes(), (path.parent / "stat").read_text()
        except OSError:
            continue
        if b"CoarseGrainedExecutorBackend" in command and int(stat.rpartition(")")[2].split()[1]) == driver:
            out.append(int(path.parent.name))
    return sorted(out)


def test_a_killed_executor_changes_nothing(spark: Any, run: Path) -> None:
    context = spark.sparkContext
    driver = context._gateway.proc.pid
    gold, place = str(run / "gold.parquet"), str(run / "run.parquet")
    here = karat.evaluate(gold, str(run / "whole.parquet"), METRICS)
    killed: list[int] = []

    def kill() -> None:
        """Kill one executor, once some tasks of the counting plan are done and others are not."""
        tracker = context.statusTracker()
        while not killed:
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info is not None and info.numTasks >= FILES // 2 and 2 <= info.numCompletedTasks < info.numTasks - 2:
                    victim = executors(driver)[0]
                    os.kill(victim, signal.SIGKILL)
                    killed.append(victim)
                    return
            time.sleep(0.005)

    watcher = threading.Thread(target=kill, daemon=True)
    watcher.start()
    there = karat.evaluate(gold, place, METRICS, engine=spark)
    assert killed and killed[0] not in executors(driver)
    (one,), (two,) = there.runs, here.runs
    assert any(note.startswith("cogroup plan: ") for note in one.notes)
    assert list(one.query_ids) == list(two.query_ids)
    assert {name: v.tobytes() for name, v in one.values.items()} == {
        name: v.tobytes() for name, v in two.values.items()
    }
    assert dict(one.counts) == dict(two.counts)
    assert repr(one.estimates) == repr(two.estimates)


def test_a_full_disk_is_told_and_leaves_no_output(run: Path, tmp_path: Path) -> None:
    small, out = tmp_path / "small", tmp_path / "out.csv"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small], capture_output=True).returncode:
        pytest.skip("a small disk can be made by root alone")
    try:
        shuffled = pq.read_table(run / "whole.parquet")
        shuffled = shuffled.take(np.random.default_rng(1).permutation(len(shuffled)))
        for i in range(4):
            (tmp_path / "run.parquet").mkdir(exist_ok=True)
            pq.write_table(shuffled.slice(i * 500_000, 500_000), tmp_path / "run.parquet" / f"{i}.parquet")
        command = [sys.executable, "-m", "karat", "evaluate", str(run / "gold.parquet"), str(tmp_path / "run.parquet")]
        command += ["--engine", "local[2]", "--per-query", str(out)]
        environment = {**os.environ, "SPARK_LOCAL_DIRS": str(small)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    finally:
        subprocess.run(["umount", small], check=False)
    assert done.returncode == 2
    assert "a disk is full; free space in spark.local.dir" in done.stderr
    assert not out.exists()
