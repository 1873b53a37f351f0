"""Karat on Spark: rows per core-second, bytes shuffled, memory and growth: `make bench-spark`.

Three parts, each a section of bench/RESULTS.md with its own machine, source and load:

    rows      runs of Parquet with 10⁶, 10⁷ and 10⁸ rows, 1,000 rows and 3 judged docs a query, in rank order
    mixed     10⁷ and 10⁸ rows, those of each query in no order
    queries   a million queries with 100 rows each: two runs are compared, with all intervals; the driver's memory

Each size is evaluated by a fresh driver on two executors (`local-cluster`) with one core and 2 GB each. Shuffled
bytes, task time and memory are what Spark itself says (its REST interface). The data takes up to 1.5 GB of disk, and
is deleted after each part.

    cluster.py                   all parts
    cluster.py --only rows       one of them; the other sections stay as they are
    cluster.py --largest 7       up to 10⁷ rows, and a tenth of the queries; writes nothing
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

from harness import HERE, Report, finish, machine, megabytes, progress, python, seconds, source_digest

FOLDER = HERE / "data" / "spark"
FILE_ROWS = 5_000_000
GROUP_ROWS = 500_000
METRICS = ["ndcg@10", "map@100", "recall@{10,100}", "mrr@10"]
EXECUTOR = 2048
HEAP = "512m"
"""Of the driver's Java."""
PYTHON = "2g"
SHUFFLED = 0.01
EXPONENT = 1.05
RATE = 0.8e6
DRIVER = 2_000_000_000


def generate(rows: int, per_query: int, folder: Path, runs: int = 1, *, mixed: bool = False) -> None:
    """Gold and runs; whole queries lie in each row group, and so in one partition.

    The rows of a query are in rank order, or in no order if they are `mixed`.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    queries = rows // per_query
    names, docs = _ids(pa, "query-", queries), _ids(pa, "doc-", 1_000_000)
    rng = np.random.default_rng(1)
    for number in range(runs):
        target = folder / f"run-{number}.parquet"
        target.mkdir(parents=True)
        for start in range(0, rows, FILE_ROWS):
            count = min(FILE_ROWS, rows - start)
            path = target / f"part-{start // FILE_ROWS:04d}.parquet"
            with pq.ParquetWriter(path, _schema(pa), compression="zstd") as out:
                for first in range(start, start + count, GROUP_ROWS):
                    size = min(GROUP_ROWS, start + count - first)
                    place = np.arange(first, first + size)
                    query, rank = place // per_query, place % per_query
                    if mixed:
                        rank = np.argsort(rng.random((size // per_query, per_query), np.float32), axis=1).ravel()
                    doc = (query * 7919 + (rank * 104729 + number * (rank % 3 == 0)) % 999_983) % 1_000_000
                    tied = (rank % 50 == 49) & (query % 10 == 0)  # with the row above, in a tenth of the queries
                    columns = [names.take(pa.array(query)), docs.take(pa.array(doc))]
                    columns.append(pa.array((per_query - rank + tied) / 8))
                    out.write_table(pa.Table.from_arrays(columns, schema=_schema(pa)), row_group_size=GROUP_ROWS)
    query = np.repeat(np.arange(queries), 3)
    rank = np.tile([1, per_query // 3, per_query - 4], queries) + (query % 7)  # some beyond the last
    doc = (query * 7919 + (rank * 104729) % 999_983) % 1_000_000
    columns = [names.take(pa.array(query)), docs.take(pa.array(doc)), pa.array(np.tile([1, 2, 1], queries))]
    pq.write_table(pa.table(columns, names=["query_id", "doc_id", "grade"]), folder / "gold.parquet")


def _ids(pa: Any, begin: str, count: int) -> Any:
    """Ids of 8 digits, in order."""
    import pyarrow.compute as pc

    digits = pc.utf8_lpad(pa.array(range(count)).cast(pa.string()), 8, "0")
    return pc.binary_join_element_wise(begin, digits, "")


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
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": HEAP,
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
    begin, before, busy = time.perf_counter(), _cpu(java), _busy(java)
    paths = {f"run-{i}": str(folder / f"run-{i}.parquet") for i in range(runs)}
    told: dict[str, Any] = {}
    gold = str(folder / "gold.parquet")
    if runs == 1:
        result = karat.evaluate(gold, paths["run-0"], METRICS, engine=spark)
    else:
        comparison = karat.compare(gold, paths, ["ndcg@10", "recall@100"], engine=spark)
        result = comparison.result
        told["changes"] = {row.metric: _ends(row.difference) for row in comparison.rows}
    told["aligned"] = time.perf_counter() - begin
    told["figures"] = {run.name: {name: _ends(one) for name, one in run.intervals.items()} for run in result.runs}
    told["seconds"] = time.perf_counter() - begin
    told["notes"] = [*result.runs[0].data_notes]
    told["cpu"] = _cpu(java) - before
    told["others"] = (_busy(java) - busy) / told["seconds"]
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
    told["driver_python"], told["driver_jvm"] = _peak("self"), _peak(str(java))
    spark.stop()
    print(json.dumps(told))


def _ends(interval: Any) -> list[float]:
    return [interval.estimate, interval.low, interval.high]


def _result_bytes(base: str, stage: dict[str, Any]) -> int:
    tasks = json.load(urlopen(f"{base}/stages/{stage['stageId']}/{stage['attemptId']}/taskList?length=100000"))
    return sum(task.get("taskMetrics", {}).get("resultSize", 0) for task in tasks)


def _cpu(driver: int) -> float:
    """Seconds that the executors have computed, Java and Python, with all their threads; the driver's are left out."""
    return _computed(driver) - _own(driver)


def _busy(driver: int) -> float:
    """Seconds that processes other than these have computed."""
    user, nice, system = map(int, Path("/proc/stat").read_text(encoding="utf-8").split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK") - _computed(driver) - _own(os.getpid())


def _own(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _computed(driver: int) -> float:
    """Seconds of a process and of all that it started, those that have ended among them."""
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
        one = pid
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
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    parser.add_argument("--largest", type=int, default=8, help="stop at this power of ten")
    parser.add_argument("--keep", action="store_true", help="do not delete the data")
    args = parser.parse_args()
    for name in [args.only] if args.only else PARTS:
        begun = source_digest()
        report = Report(f"Karat on Spark: {TITLES[name]}")
        report.note(machine())
        try:
            PARTS[name](report, args.largest)
        finally:
            if not args.keep:
                shutil.rmtree(FOLDER, ignore_errors=True)
        finish(f"spark-{name}", report, begun, partial=args.largest < 8)


def _one(name: str, rows: int, per_query: int, runs: int = 1, *, mixed: bool = False) -> dict[str, Any]:
    folder = FOLDER / name
    if not (folder / "gold.parquet").exists():
        shutil.rmtree(folder, ignore_errors=True)
        progress(f"{name}: generating")
        order = "mixed" if mixed else "ranked"
        python(__file__, "generate", str(rows), str(per_query), folder, str(runs), order)
    progress(f"{name}: measuring")
    told = python(__file__, "measure", folder, str(runs)).answer
    progress(f"{name}: {told}")
    return told


def tell_rows(report: Report, largest: int) -> None:
    """10⁶ to 10⁸ rows in rank order."""
    _tell_growth(report, {power: _one(f"1e{power}", 10**power, 1000) for power in range(6, largest + 1)})


def tell_mixed(report: Report, largest: int) -> None:
    """The rows of each query in no order: workers have to sort them."""
    powers = range(7, largest + 1)
    _tell_growth(report, {power: _one(f"mixed-1e{power}", 10**power, 1000, mixed=True) for power in powers})


def _tell_growth(report: Report, found: dict[int, dict[str, Any]]) -> None:
    report.note(
        f"Two executors (`local-cluster[2,1,{EXECUTOR}]`), Parquet, 1,000 rows and 3 judged docs a query, each size "
        "once. Task time is Spark's `executorRunTime`: how long cores were occupied, by Java or waiting for its "
        "Python. CPU is what the executors computed, in Java and in Python, with all their threads. The bars of rate "
        "and growth are of task time, which is longer where other processes want the cores."
    )
    head = ["rows", "time", "task time", "CPU", "M rows / task-s", "M rows / CPU-s", "shuffled", "to the driver"]
    rows = [
        [
            f"{10**power:,}",
            seconds(told["seconds"]),
            seconds(task_time(told)),
            seconds(told["cpu"]),
            f"{10**power / task_time(told) / 1e6:.2f}",
            f"{10**power / told['cpu'] / 1e6:.2f}",
            f"{told['shuffleWriteBytes']:,}",
            f"{told['result']:,}",
            megabytes(told["jvm"]),
            megabytes(told["python"]),
            f"{told['others']:.2f}",
        ]
        for power, told in found.items()
    ]
    report.table([*head, "JVM", "Python", "cores of others"], rows)
    powers, last = list(found), list(found.values())[-1]
    share = max(told["shuffleWriteBytes"] / text_bytes(10**power) for power, told in found.items())
    report.bar("bytes shuffled, of those of the run, at most 1%", f"{share:.4%}", share <= SHUFFLED)
    if len(powers) > 1:
        steps = [math.log10(task_time(found[b]) / task_time(found[a])) for a, b in pairwise(powers)]
        worst = max(steps)
        report.bar(f"growth exponent of task time, at most {EXPONENT}", f"{worst:.3f}", worst <= EXPONENT)
    rate = 10 ** powers[-1] / task_time(last)
    report.bar("at least 0.8 million rows per core-second of task time", f"{rate / 1e6:.2f}", rate >= RATE)
    report.bar(f"executor (Java) within {EXECUTOR} MB", megabytes(last["jvm"]), last["jvm"] <= EXECUTOR << 20)
    report.bar(f"its Python within {PYTHON}", megabytes(last["python"]), last["python"] <= 2 << 30)
    report.note("Karat said: " + "; ".join(last["notes"]) + ".")


def task_time(told: dict[str, Any]) -> float:
    return float(told["executorRunTime"]) / 1000


def tell_queries(report: Report, largest: int) -> None:
    """Means, intervals and a comparison of many queries."""
    rows = 10**largest
    told = _one(f"queries-1e{largest}", rows, 100, 2)
    report.note(
        f"{rows // 100:,} queries with 100 rows each and 3 judged docs, two runs ({2 * rows:,} rows) compared on two "
        f"executors, all intervals and default tests computed: {seconds(told['seconds'])}, "
        f"{seconds(task_time(told))} of task time, {seconds(told['cpu'])} of the executors' CPU; others kept "
        f"{told['others']:.2f} cores busy. "
        f"The driver's Java has `spark.driver.memory={HEAP}`. Memory is the peak of resident memory."
    )
    figures = {**told["figures"], "run-1 − run-0": told["changes"]}
    metrics = list(told["changes"])
    lines = [[name, *("{:.6f} [{:.6f}, {:.6f}]".format(*own[m]) for m in metrics)] for name, own in figures.items()]
    report.table(["run", *metrics], lines)
    python_peak, java_peak = told["driver_python"], told["driver_jvm"]
    both = python_peak + java_peak
    report.bar("the driver's Python within 2 GB", megabytes(python_peak), python_peak <= DRIVER)
    report.bar("the driver's Python and Java together within 2 GB", megabytes(both), both <= DRIVER)
    report.note("Karat said: " + "; ".join(told["notes"]) + ".")


PARTS = {"rows": tell_rows, "mixed": tell_mixed, "queries": tell_queries}
TITLES = {"rows": "up to 10⁸ rows in rank order", "mixed": "rows in no order", "queries": "a million queries"}


if __name__ == "__main__":
    if sys.argv[1:2] == ["generate"]:
        mixed = sys.argv[6:7] == ["mixed"]
        generate(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]), mixed=mixed)
    elif sys.argv[1:2] == ["measure"]:
        measure(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
