"""A master and a worker of their own, as Spark runs on one's own machines, and the bar that shows how far a job is."""

from __future__ import annotations

import json
import os
import pty
import re
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

ROWS, FILES = 3_000_000, 12


def started(
    command: list[str], environment: dict[str, str], log: Path, pattern: str
) -> tuple[subprocess.Popen[bytes], str]:
    """A process that is up: its log has this pattern."""
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    while process.poll() is None:
        if match := re.search(pattern, log.read_text("utf-8", "replace")):
            return process, match[1]
        time.sleep(0.1)
    raise AssertionError(log.read_text("utf-8", "replace"))


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a master that has one worker with two cores."""
    import pyspark

    home = Path(pyspark.__file__).parent
    folder = tmp_path_factory.mktemp("worker")
    places = {"SPARK_HOME": str(home), "SPARK_WORKER_DIR": str(folder), "PYSPARK_PYTHON": sys.executable}
    environment = {**os.environ, **places}
    begin, end = str(home / "bin" / "spark-class"), ["--host", "127.0.0.1", "--webui-port", "0"]
    processes = []
    try:
        command = [begin, "org.apache.spark.deploy.master.Master", "--port", "0", *end]
        pattern = r"Starting Spark master at (\S+)"
        process, address = started(command, environment, folder / "master.log", pattern)
        processes.append(process)
        command = [begin, "org.apache.spark.deploy.worker.Worker", "--cores", "2", "--memory", "2g", *end, address]
        process, _ = started(command, environment, folder / "worker.log", "(Successfully registered)")
        processes.append(process)
        yield address
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(8)
    query = np.sort(rng.integers(0, 3000, ROWS))
    doc = rng.integers(0, 100_000, ROWS)
    (folder / "run.parquet").mkdir()
    columns = {"query_id": pa.array(query).cast(pa.string()), "doc_id": pa.array(doc).cast(pa.string())}
    whole = pa.table({**columns, "score": rng.random(ROWS)})
    size = ROWS // FILES
    for i in range(FILES):
        pq.write_table(whole.slice(i * size, size), folder / "run.parquet" / f"{i:02d}.parquet")
    pq.write_table(whole, folder / "whole.parquet")
    judged = pa.table(columns).take(np.arange(0, ROWS, 500)).group_by(["query_id", "doc_id"]).aggregate([])
    pq.write_table(judged.append_column("grade", pa.array(np.ones(judged.num_rows))), folder / "gold.parquet")
    return folder


def metrics_of(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))["runs"][0]["metrics"]


def test_a_standalone_cluster_says_the_same_and_shows_how_far_it_is(master: str, data: Path, tmp_path: Path) -> None:
    base = [sys.executable, "-m", "karat", "evaluate", str(data / "gold.parquet")]
    common = ["-m", "ndcg@10,map,recall@100", "--json"]
    there, here = tmp_path / "there.json", tmp_path / "here.json"
    screen, terminal = pty.openpty()
    shown: list[bytes] = []

    def watch() -> None:
        try:
            while piece := os.read(screen, 4096):
                shown.append(piece)
        except OSError:  # the other end is closed
            pass

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "TERM": "xterm", "COLUMNS": "100"}
    command = [*base, f"run={data / 'run.parquet'}", *common, str(there), "--engine", master]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, env=environment, check=False)
    os.close(terminal)
    watcher.join()
    os.close(screen)
    text = b"".join(shown).decode("utf-8", "replace")
    assert done.returncode == 0, text
    subprocess.run([*base, f"run={data / 'whole.parquet'}", *common, str(here)], check=True, capture_output=True)
    assert metrics_of(there) == metrics_of(here)
    assert "reading run.parquet" in text and re.search(r"\d+%", text)
