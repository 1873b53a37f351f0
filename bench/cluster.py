"""Karat on Spark: rows per core-second, bytes shuffled, memory and growth: `make bench-spark`.

Runs of Parquet with 10⁶, 10⁷ and 10⁸ rows are generated (1,000 rows and 3 judged docs a query), and one of a million
queries with 100 rows each. Each is evaluated by a fresh driver on two executors (`local-cluster`) with one core and
2 GB each. Shuffled bytes, task time and memory are what Spark itself says (its REST interface). The data takes about
5 GB of disk and is deleted at the end.

    cluster.py                   all of it; writes the section `spark` of bench/RESULTS.md
    cluster.py --largest 7       up to 10⁷ rows; writes nothing
    cluster.py --keep            leaves the data in bench/data
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from harness import HERE, OtherLoad, Report, finish, machine, megabytes, progress, python, seconds, source_digest

FOLDER = HERE / "data" / "spark"
FILE_ROWS = 5_000_000
GROUP_ROWS = 500_000
METRICS = ["ndcg@10", "map@100", "recall@{10,100}", "mrr@10"]
EXECUTOR = 2048
PYTHON = "2g"
SHUFFLED = 0.01
EXPONENT = 1.05
RATE = 0.8e6
DRIVER = 2_000_000_000


def generate(rows: int, per_query: int, folder: Path, runs: int = 1) -> None:
    """Gold and runs; whole queries lie in each row group, and so in one partition."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    queries = rows // per_query
    digits = np.char.zfill(np.arange(queries).astype(str), 8)
    names = np.char.add("query-", digits)
    docs = np.char.add("doc-", np.char.zfill(np.arange(1_000_000).astype(str), 8))
    for number in range(runs):
        target = folder / f"run-{number}.parquet"
        target.mkdir(parents=True)
        for start in range(0, rows, FILE_ROWS):
            count = min(FILE_ROWS, rows - start)
            with pq.ParquetWriter(
                target / f"part-{start // FILE_ROWS:04d}.parquet", _schema(pa), compression="zstd"
            ) as out:
                for first in range(start, start + count, GROUP_ROWS):
                    size = min(GROUP_ROWS, start + count - first)
                    place = np.arange(first, first + size)
                    query, rank = place // per_query, place % per_query
                    doc = (query * 7919 + (rank * 104729 + number * (rank % 3 == 0)) % 999_983) % 1_000_000
                    tied = (rank % 50 == 49) & (query % 10 == 0)  # with the row above, in a tenth of the queries
                    score = (per_query - rank + tied) / 8
                    columns = [pa.array(names[query]), pa.array(docs[doc]), pa.array(score)]
                    out.write_table(pa.Table.from_arrays(columns, schema=_schema(pa)), row_group_size=GROUP_ROWS)
    query = np.repeat(np.arange(queries), 3)
    rank = np.tile([1, 40, 5000], queries) + (query % 7)
    doc = (query * 7919 + (rank * 104729) % 999_983) % 1_000_000
    gold = {"query_id": names[query], "doc_id": docs[doc], "grade": np.tile([1, 2, 1], queries)}
    pq.write_table(pa.table({name: pa.array(column) for name, column in gold.items()}), folder / "gold.parquet")


def _schema(pa: Any) -> Any:
    return pa.schema({"query_id": pa.string(), "doc_id": pa.string(), "score": pa.float64()})


def text_bytes(rows: int) -> int:
    """The bytes of a run without any packing: query (14), doc (12) and score (8)."""
    return rows * 34


def measure(folder: Path, runs: int) -> None:
    """Evaluate, or compare two runs; what that took, as JSON."""
    from pyspark.sql import SparkSession

    import karat

    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": f"{EXECUTOR - 512}m",
        "spark.executor.pyspark.memory": PYTHON,
        "spark.executor.processTreeMetrics.enabled": "true",
        "spark.executor.metrics.pollingInterval": "500",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.sql.files.maxPartitionBytes": "32m",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    }
    builder = SparkSession.builder.master(f"local-cluster[2,1,{EXECUTOR}]").appName("karat-bench")
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(1000).selectExpr("sum(id)").collect()  # executors are up
    java = spark.sparkContext._gateway.proc.pid
    begin, before = time.perf_counter(), _cpu(java)
    paths = {f"run-{i}": str(folder / f"run-{i}.parquet") for i in range(runs)}
    told: dict[str, Any] = {}
    gold = str(folder / "gold.parquet")
    if runs == 1:
        result = karat.evaluate(gold, paths["run-0"], METRICS, engine=spark)
    else:
        comparison = karat.compare(gold, paths, ["ndcg@10", "recall@100"], tests=["bootstrap"], engine=spark)
        result = comparison.result
        told["decisions"] = [f"{row.metric}: {row.change.estimate:+.6f}" for row in comparison.rows[:2]]
    aligned = time.perf_counter() - begin
    run = result.runs[0]
    told["means"] = {name: run.mean[name] for name in run.values}
    if runs > 1:
        told["ci"] = {name: run.ci[name] for name in run.values}
    told |= {"seconds": time.perf_counter() - begin, "aligned": aligned, "notes": [*run.notes]}
    told["cpu"] = _cpu(java) - before
    time.sleep(2)  # the last figures of the executors come with their next heartbeat
    base = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
    stages = json.load(urlopen(f"{base}/stages"))
    executors = json.load(urlopen(f"{base}/allexecutors"))
    for key in ("shuffleWriteBytes", "executorRunTime", "executorCpuTime", "inputBytes", "diskBytesSpilled"):
        told[key] = sum(stage[key] for stage in stages)
    told["tasks"] = sum(stage["numCompleteTasks"] for stage in stages)
    told["result"] = sum(_result_bytes(base, stage) for stage in stages)
    peaks = [one.get("peakMemoryMetrics", {}) for one in executors if one["id"] != "driver"]
    told["jvm"] = max(p.get("ProcessTreeJVMRSSMemory", 0) for p in peaks)
    told["python"] = max(p.get("ProcessTreePythonRSSMemory", 0) for p in peaks)
    told["driver"] = _peak("self") + _peak(str(java))
    spark.stop()
    print(json.dumps(told))


def _result_bytes(base: str, stage: dict[str, Any]) -> int:
    tasks = json.load(urlopen(f"{base}/stages/{stage['stageId']}/{stage['attemptId']}/taskList?length=100000"))
    return sum(task.get("taskMetrics", {}).get("resultSize", 0) for task in tasks)


def _cpu(driver: int) -> float:
    """Seconds that the executors have computed, Java and Python, with all their threads; the driver's are left out."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        parents[pid], spent[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    ours = 0
    for pid, ticks in spent.items():
        one = parents[pid]
        while one > 1 and one != driver:
            one = parents.get(one, 0)
        ours += ticks if one == driver else 0
    return ours / os.sysconf("SC_CLK_TCK")


def _peak(process: str) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description="Karat on Spark.")
    parser.add_argument("--largest", type=int, default=8, help="stop at this power of ten")
    parser.add_argument("--keep", action="store_true", help="do not delete the data")
    parser.add_argument("--without-million", action="store_true", help="leave out the million queries")
    args = parser.parse_args()
    begun, load = source_digest(), OtherLoad()
    report = Report("Karat on Spark")
    report.note(machine())
    report.note(
        f"Spark on two executors (`local-cluster[2,1,{EXECUTOR}]`), Parquet, 1,000 rows and 3 judged docs a "
        "query, each once. A core-second is a second that the executors computed, in Java and in Python, with all "
        "their threads."
    )
    powers = range(6, args.largest + 1)
    found: dict[int, dict[str, Any]] = {}
    try:
        for power in powers:
            found[power] = _one(f"1e{power}", 10**power, 1000, 1)
        million = _one("million", 10**8, 100, 2) if args.largest >= 8 and not args.without_million else None
    finally:
        if not args.keep:
            shutil.rmtree(FOLDER, ignore_errors=True)
    tell(report, found, million)
    report.note(load.told())
    finish("spark", report, begun, partial=args.largest < 8 or args.without_million)


def _one(name: str, rows: int, per_query: int, runs: int) -> dict[str, Any]:
    folder = FOLDER / name
    if not (folder / "gold.parquet").exists():
        shutil.rmtree(folder, ignore_errors=True)
        progress(f"{name}: generating")
        python(__file__, "generate", str(rows), str(per_query), folder, str(runs))
    told = python(__file__, "measure", folder, str(runs)).answer
    progress(f"{name}: {told}")
    return told


def tell(report: Report, found: dict[int, dict[str, Any]], million: dict[str, Any] | None) -> None:
    rows = []
    for power, told in found.items():
        count, task = 10**power, told["cpu"]
        rows.append(
            [
                f"{count:,}",
                seconds(told["seconds"]),
                seconds(task),
                f"{count / task / 1e6:.2f}",
                f"{told['shuffleWriteBytes']:,}",
                f"{told['result']:,}",
                f"{(told['shuffleWriteBytes'] + told['result']) / text_bytes(count):.3%}",
                megabytes(told["jvm"]),
                megabytes(told["python"]),
            ]
        )
    report.table(
        [
            "rows",
            "time",
            "core-seconds",
            "million rows / core-s",
            "shuffled",
            "to the driver",
            "both / run",
            "JVM",
            "Python",
        ],
        rows,
    )
    powers = list(found)
    last = found[powers[-1]]
    share = max(told["shuffleWriteBytes"] / text_bytes(10**power) for power, told in found.items())
    report.bar("bytes shuffled, of those of the run, at most 1%", f"{share:.4%}", share <= SHUFFLED)
    if len(powers) > 1:
        steps = [math.log10(found[b]["cpu"] / found[a]["cpu"]) for a, b in pairwise(powers)]
        report.bar(
            f"growth exponent of core-seconds, last step, at most {EXPONENT}", f"{steps[-1]:.3f}", steps[-1] <= EXPONENT
        )
        report.note("Exponents by step: " + ", ".join(f"{step:.3f}" for step in steps) + ".")
    rate = 10 ** powers[-1] / last["cpu"]
    report.bar("at least 0.8 million rows per core-second", f"{rate / 1e6:.2f}", rate >= RATE)
    report.bar(f"executor (Java) within {EXECUTOR} MB", megabytes(last["jvm"]), last["jvm"] <= EXECUTOR << 20)
    report.bar(f"its Python within {PYTHON}", megabytes(last["python"]), last["python"] <= 2 << 30)
    report.note("Spark said: " + "; ".join(last["notes"]) + ".")
    if million is not None:
        report.heading("A million queries with 100 rows each, two runs compared")
        report.note(
            f"{seconds(million['seconds'])}, {seconds(million['cpu'])} of the executors' cores. "
            + "; ".join(million["decisions"])
            + ". Intervals: "
            + ", ".join(f"{name} [{low:.6f}, {high:.6f}]" for name, (low, high) in million["ci"].items())
            + "."
        )
        report.bar("driver (Python and Java) within 2 GB", megabytes(million["driver"]), million["driver"] <= DRIVER)


if __name__ == "__main__":
    if sys.argv[1:2] == ["generate"]:
        generate(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]))
    elif sys.argv[1:2] == ["measure"]:
        measure(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
