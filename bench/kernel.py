"""The compiled kernel and numpy in turn, beside pytrec_eval and a bare read of the file: `make bench-kernel`.

kernel.py           all of it; writes the section `kernel` of bench/RESULTS.md (minutes, about 6 GB of memory)
kernel.py --quick   a tenth of workload (a) and few rounds, to try the harness; writes nothing
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from data import QUICK, SPEED
from harness import (
    HERE,
    Failed,
    OtherLoad,
    Report,
    Worker,
    finish,
    machine,
    megabytes,
    progress,
    python,
    seconds,
    source_digest,
    times,
)
from peers import METRICS

if TYPE_CHECKING:
    from data import Workload

PEERS = HERE / "peers.py"
PEER = "pytrec_eval"
COMPILED, NUMPY = {"KARAT_KERNEL": "compiled"}, {"KARAT_KERNEL": "numpy"}
WAYS = {"karat, compiled kernel": COMPILED, "karat, numpy": NUMPY}
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""Importing numpy starts threads that spin for a while; their CPU time would count as ours."""
LINES = {f"{way}, command line": env for way, env in WAYS.items()}
LEAST_FILES = dict(zip((*WAYS, *LINES), (20, 9, 15, None), strict=True))
"""How many times as fast as pytrec_eval the processes must be."""
LEAST_DICTS = {"a": 8, "b": 4, "c": 4, "d": 2.5}
MOST_SCAN = dict(zip(WAYS, (1.5, 6.5), strict=True))
MOST_MEMORY = 100e6


@dataclass
class Best:
    """The best of several rounds."""

    seconds: float = float("inf")
    cpu: float = float("inf")
    memory: int = 0

    def add(self, seconds: float, cpu: float, memory: int = 0) -> None:
        self.seconds, self.cpu = min(self.seconds, seconds), min(self.cpu, cpu)
        self.memory = max(self.memory, memory)


def measure_files(work: Workload, rounds: int) -> dict[str, Best]:
    """Whole processes from files to means."""
    found = {name: Best() for name in (*WAYS, *LINES, PEER)}
    for turn in range(rounds):
        for name, best in found.items():
            if name == PEER:
                run = python(PEERS, "files", PEER, work.qrels, work.run)
            elif name in WAYS:
                run = python(PEERS, "files", "karat", work.qrels, work.run, env=WAYS[name])
            else:
                with tempfile.TemporaryDirectory() as folder:
                    command = ("-m", "karat", "evaluate", work.qrels, work.run, "-m", ",".join(METRICS))
                    run = python(*command, "--no-cache", env={**LINES[name], "KARAT_CACHE_DIR": folder})
            best.add(run.seconds, run.cpu, run.memory)
            progress(f"files {name}, round {turn + 1}: {seconds(run.seconds)}, {megabytes(run.memory)}")
    return found


def measure_scans(work: Workload, rounds: int) -> dict[str, Best]:
    """CPU time of one thread: scanning and aligning, and reading at all."""
    found = {name: Best() for name in (*WAYS, "read")}
    hits = set()
    for _ in range(rounds):
        for name, best in found.items():
            if name == "read":
                answer = python(PEERS, "counted", work.run, env=ONE_THREAD).answer
            else:
                answer = python(PEERS, "aligned", work.qrels, work.run, env=WAYS[name] | ONE_THREAD).answer
                hits.add(answer["hits"])
            if answer["rows"] != work.rows:
                raise Failed(f"{name}: {answer['rows']} rows, expected {work.rows}")
            best.add(0, answer["cpu"])
    if len(hits) != 1:
        raise Failed(f"the kernel and numpy find {hits} judged docs")
    return found


def measure_dicts(work: Workload, rounds: int) -> dict[str, Best]:
    """Dicts to means, in processes that hold the dicts."""
    tools = {name: Worker(PEERS, "dicts", "karat", work.qrels, work.run, env=env) for name, env in WAYS.items()}
    tools[PEER] = Worker(PEERS, "dicts", PEER, work.qrels, work.run)
    found = {name: Best() for name in tools}
    means = {}
    for _ in range(rounds):
        for name, worker in tools.items():
            answer = worker.ask()
            found[name].add(answer["seconds"], answer["cpu"])
            means[name] = answer["means"]
    for worker in tools.values():
        worker.close()
    if means["karat, compiled kernel"] != means["karat, numpy"]:
        raise Failed(f"({work.name}) the kernel and numpy give other means: {means}")
    progress(f"dicts ({work.name}): " + ", ".join(f"{name} {seconds(b.cpu)}" for name, b in found.items()))
    return found


def tell_files(report: Report, work: Workload, found: dict[str, Best]) -> None:
    report.heading(f"TREC files to means, whole process, no cache: {work.told()}")
    peer = found[PEER].seconds
    rows = [
        [n, seconds(b.seconds), times(peer / b.seconds), seconds(b.cpu), megabytes(b.memory)] for n, b in found.items()
    ]
    report.table(["", "wall", f"{PEER} takes", "CPU", "peak"], rows)
    report.note("trec_eval itself is in no package registry, and is not measured.")
    for name, least in LEAST_FILES.items():
        ratio = peer / found[name].seconds
        if least is not None:
            report.bar(f"{name}: at least {least}× as fast as {PEER}", times(ratio), ratio >= least)
    most = max(best.memory for name, best in found.items() if name != PEER)
    report.bar(f"peak memory below {megabytes(MOST_MEMORY)}", megabytes(most), most < MOST_MEMORY)


def tell_scans(report: Report, found: dict[str, Best]) -> None:
    report.heading("Scan and align, one thread, CPU")
    report.note("OPENBLAS_NUM_THREADS=1: importing numpy starts threads that spin for a while, whatever is computed.")
    read = found["read"].cpu
    labels = {"read": "read the file in pieces of 1 MB, count its newlines"}
    report.table(
        ["", "CPU", "of that read"], [[labels.get(n, n), seconds(b.cpu), times(b.cpu / read)] for n, b in found.items()]
    )
    for name, most in MOST_SCAN.items():
        ratio = found[name].cpu / read
        report.bar(f"{name}: at most {most}× reading and counting newlines", times(ratio), ratio <= most)


def tell_dicts(report: Report, found: dict[str, dict[str, Best]]) -> None:
    report.heading("Dicts to means, in process, CPU")
    names = list(next(iter(found.values())))
    rows = []
    for name in names:
        row = [name]
        for cells in found.values():
            ratio = "" if name == PEER else f" ({times(cells[PEER].cpu / cells[name].cpu)})"
            row.append(seconds(cells[name].cpu) + ratio)
        rows.append(row)
    report.table(["", *(f"({work})" for work in found)], rows)
    report.note(f"In brackets: how many times as long {PEER} takes. The objects of each tool are made within the time.")
    for work, least in LEAST_DICTS.items():
        ratio = found[work][PEER].cpu / found[work]["karat, compiled kernel"].cpu
        report.bar(f"({work}) compiled kernel at least {least:g}× as fast as {PEER}", times(ratio), ratio >= least)


def main() -> None:
    parser = argparse.ArgumentParser(description="The compiled kernel beside numpy and pytrec_eval.")
    parser.add_argument("--quick", action="store_true", help="a tenth of (a), few rounds; writes nothing")
    quick = parser.parse_args().quick
    works = QUICK if quick else SPEED
    python(HERE / "data.py", *("quick-a" if quick and name == "a" else name for name in works))
    begun = source_digest()
    report = Report("Compiled kernel")
    report.note(machine())
    report.note("The best of several rounds, in turn, in one run; two threads for files, as many as there are cores.")
    load = OtherLoad()
    tell_files(report, works["a"], measure_files(works["a"], 2 if quick else 4))
    report.note(load.told())
    load = OtherLoad()
    tell_scans(report, measure_scans(works["a"], 3 if quick else 7))
    report.note(load.told())
    load = OtherLoad()
    tell_dicts(report, {name: measure_dicts(work, 2 if quick or name == "a" else 6) for name, work in works.items()})
    report.note(load.told())
    finish("kernel", report, begun, partial=quick)


if __name__ == "__main__":
    main()
