"""Speed and memory of Karat beside pytrec_eval, ir_measures and ranx, on generated data: `make bench`.

Everything is measured in one run, round robin, and the best of several rounds counts. It takes some minutes and
about 8 GB of memory, since the dicts of the largest workload are held by four processes at a time.

    speed.py              all of it; writes the section `speed` of bench/RESULTS.md
    speed.py --quick      a tenth of workload (a) and few rounds, to try the harness; writes nothing
    speed.py --only a,c   these workloads only; writes nothing
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass, field
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
from peers import METRICS, OTHER_METRICS, TOOLS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from data import Workload
    from harness import Run

PEERS = HERE / "peers.py"
CLI = "karat (command line)"
SETTLED = 3.0
"""Karat's cache trusts the times of files that were left alone for two seconds."""
AGREE = 1e-6
READY = "import karat; karat.evaluate"
CACHED = 1.25
"""A process that evaluates from the cache beside one that only starts."""
IMPORTS = {"python": "pass", "numpy": "import numpy", "karat": "import karat", "karat, ready to evaluate": READY}
"""What Karat puts off at its import it needs at the first use: both are told."""


@dataclass
class Measured:
    """The best of what was measured of one tool on one workload."""

    seconds: float = float("inf")
    memory: int = 0
    """The highest peak of all rounds."""
    means: dict[str, float] = field(default_factory=dict)

    def add(self, seconds: float, memory: int = 0) -> None:
        self.seconds, self.memory = min(self.seconds, seconds), max(self.memory, memory)


Cells = dict[tuple[str, str], Measured]
"""By tool and workload."""


@dataclass(frozen=True)
class Plan:
    """What to measure, and how often."""

    works: Mapping[str, Workload]
    quick: bool

    def rounds(self, name: str, tool: str = "") -> int:
        """Fewer where a round takes long: on (a), and in the processes of ranx."""
        if self.quick or (tool == "ranx" and name != "a"):
            return 2
        return 3 if name == "a" else 5

    @property
    def import_rounds(self) -> int:
        return 5 if self.quick else 15


# Measuring


def measure_files(plan: Plan) -> Cells:
    """TREC files to means, as whole processes."""
    cells: Cells = {}
    for name, work in plan.works.items():
        for turn in range(plan.rounds(name)):
            for tool in (*TOOLS, CLI):
                if turn >= plan.rounds(name, tool) or (turn and (tool, name) not in cells):
                    continue
                try:
                    run, means = whole_process(tool, work)
                except (Failed, ValueError, KeyError, IndexError) as error:
                    if tool != CLI:
                        raise
                    progress(f"files ({name}) {tool}: left out, it does not work here ({error})")
                    continue
                cell = cells.setdefault((tool, name), Measured())
                cell.add(run.seconds, run.memory)
                cell.means = means
                progress(f"files ({name}) {tool}, round {turn + 1}: {seconds(run.seconds)}, {megabytes(run.memory)}")
    return cells


def whole_process(tool: str, work: Workload) -> tuple[Run, dict[str, float]]:
    """One fresh process from the files to the means."""
    if tool != CLI:
        run = python(PEERS, "files", tool, work.qrels, work.run)
        return run, run.answer["means"]
    with tempfile.TemporaryDirectory() as folder:
        args = ("-m", "karat", "evaluate", work.qrels, work.run, "-m", ",".join(METRICS), "--json", "-")
        run = python(*args, env={"KARAT_CACHE_DIR": folder})
    found = json.loads(run.output)["runs"][0]["metrics"]
    return run, {name: found[name]["mean"] for name in METRICS}


def measure_ranx_first(work: Workload) -> Run:
    """ranx in its first process of all, when numba has compiled nothing yet."""
    with tempfile.TemporaryDirectory() as folder:
        run = python(PEERS, "files", "ranx", work.qrels, work.run, env={"NUMBA_CACHE_DIR": folder})
    progress(f"files ({work.name}) ranx, nothing compiled: {seconds(run.seconds)}")
    return run


def measure_dicts(plan: Plan) -> Cells:
    """Dicts to means, in a process that holds the dicts."""
    cells: Cells = {}
    for name, work in plan.works.items():
        workers = {tool: Worker(PEERS, "dicts", tool, work.qrels, work.run) for tool in TOOLS}
        for turn in range(plan.rounds(name)):
            for tool, worker in workers.items():
                answer = worker.ask()
                cell = cells.setdefault((tool, name), Measured())
                cell.add(answer["seconds"])
                cell.means = answer["means"]
                progress(f"dicts ({name}) {tool}, round {turn + 1}: {seconds(answer['seconds'])}")
        for tool, worker in workers.items():
            cells[tool, name].memory = worker.close()
    return cells


def warm_up(plan: Plan) -> None:
    """Run every tool once, unmeasured, so that bytecode is there and numba has compiled."""
    work = min(plan.works.values(), key=lambda w: w.rows)
    for tool in TOOLS:
        progress(f"warming up {tool}")
        whole_process(tool, work)


def measure_imports(plan: Plan) -> dict[str, Measured]:
    """Whole processes that import and end (`seconds`), and the import alone (`means["net"]`)."""
    found = {what: Measured(means={"net": float("inf")}) for what in IMPORTS}
    for _ in range(plan.import_rounds):
        for what, statement in IMPORTS.items():
            code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
            run = python("-c", code)
            found[what].add(run.seconds, run.memory)
            found[what].means["net"] = min(found[what].means["net"], float(run.output))
    for what, cell in found.items():
        progress(f"import {what}: {seconds(cell.means['net'])} of {seconds(cell.seconds)}")
    return found


def measure_cache(plan: Plan, work: Workload) -> dict[str, Measured]:
    """Karat's cache: cold and warm, in process and as whole processes."""
    settle(work.qrels, work.run)
    found = {name: Measured() for name in ("cold", "warm", "cold process", "warm process", "start process")}
    for turn in range(plan.rounds(work.name)):
        with tempfile.TemporaryDirectory() as folder:
            answer = python(PEERS, "cached", work.qrels, work.run, env={"KARAT_CACHE_DIR": folder}).answer
        if not answer["cached"]:
            raise Failed("the first evaluation left nothing in the cache")
        if not agree(answer["other"], answer["fresh"]):
            raise Failed(f"the cache gives other means: {answer['other']}, expected {answer['fresh']}")
        for name, means in (("cold", "means"), ("warm", "other")):
            found[name].add(answer[name])
            found[name].means = answer[means]
        with tempfile.TemporaryDirectory() as folder:
            for name, metrics in (("cold process", METRICS), ("warm process", OTHER_METRICS)):
                args = ("once", work.qrels, work.run, ",".join(metrics))
                run = python(PEERS, *args, env={"KARAT_CACHE_DIR": folder})
                found[name].add(run.seconds, run.memory)
                found[name].means = run.answer["means"]
        start = python("-c", READY)
        found["start process"].add(start.seconds, start.memory)
        told = ", ".join(f"{name} {seconds(cell.seconds)}" for name, cell in found.items())
        progress(f"cache ({work.name}), best after round {turn + 1}: {told}")
    return found


def measure_scans(plan: Plan, work: Workload) -> dict[str, Measured]:
    """How long it takes to read the file at all."""
    found = {"newlines": Measured(), "duckdb": Measured()}
    for _ in range(plan.rounds(work.name)):
        for what, cell in found.items():
            run = python(PEERS, what, work.run)
            if run.answer["rows"] != work.rows:
                raise Failed(f"{what}: found {run.answer['rows']} rows, expected {work.rows}")
            cell.add(run.seconds, run.memory)
            cell.means["net"] = min(cell.means.get("net", float("inf")), run.answer["seconds"])
    for what, cell in found.items():
        progress(f"scan ({work.name}) {what}: {seconds(cell.means['net'])}")
    return found


def settle(*paths: Path) -> None:
    """Wait until the files have been left alone for long enough to be trusted by their times."""
    for path in paths:
        stat = path.stat()
        time.sleep(max(0.0, max(stat.st_mtime, stat.st_ctime) + SETTLED - time.time()))


def agree(means: Mapping[str, float], expected: Mapping[str, float]) -> bool:
    """Whether both hold the same metrics with the same values, but for rounding."""
    return means.keys() == expected.keys() and all(abs(means[m] - expected[m]) <= AGREE for m in means)


def check_agreement(cells: Cells, expected: Mapping[str, Mapping[str, float]]) -> None:
    """All tools must give the same means."""
    for (tool, name), cell in cells.items():
        if not agree(cell.means, expected[name]):
            raise Failed(f"({name}) {tool} gives {cell.means}, expected {expected[name]}")


# Telling


def tell_table(report: Report, plan: Plan, cells: Cells) -> None:
    """Tools by workloads: best time, how many times that of Karat, peak memory."""
    head = ["", *(column for name in plan.works for column in (f"({name}) time", f"({name}) peak"))]
    rows = []
    for tool in (*TOOLS, CLI):
        if not any((tool, name) in cells for name in plan.works):
            continue
        row = [tool]
        for name in plan.works:
            cell = cells.get((tool, name))
            if cell is None:
                row += ["–", "–"]
                continue
            against = "" if tool == "karat" else f" ({times(cell.seconds / cells['karat', name].seconds)})"
            row += [seconds(cell.seconds) + against, megabytes(cell.memory)]
        rows.append(row)
    report.table(head, rows)


def bar_faster(report: Report, cells: Cells, name: str, peer: str, least: float) -> None:
    """Karat is at least this many times as fast as a peer."""
    if (peer, name) not in cells:
        return
    found = cells[peer, name].seconds / cells["karat", name].seconds
    report.bar(f"({name}) at least {least:g}× as fast as {peer}", times(found), found >= least)


def tell_files(report: Report, plan: Plan, cells: Cells, first: Run | None) -> None:
    report.heading("TREC files to means, whole process")
    report.note(
        "A fresh process each; Karat without its cache, the command line with an empty one. "
        "In brackets: the time as a multiple of Karat's."
    )
    tell_table(report, plan, cells)
    if first is not None:
        report.note(f"ranx takes {seconds(first.seconds)} for (c) the first time of all, when numba compiles it.")
    for peer, least in (("pytrec_eval", 5), ("ir_measures", 10), ("ranx", 15)):
        bar_faster(report, cells, "a", peer, least)
    if "a" in plan.works:
        share = cells["karat", "a"].memory / cells["pytrec_eval", "a"].memory
        report.bar("(a) peak memory at most 60% of pytrec_eval's", f"{share:.0%}", share <= 0.6)
    if "c" in plan.works:
        found = cells["karat", "c"].seconds / cells["pytrec_eval", "c"].seconds
        report.bar("(c) at most 2× the time of pytrec_eval", times(found), found <= 2)


def tell_dicts(report: Report, plan: Plan, cells: Cells) -> None:
    report.heading("Dicts to means, in process")
    report.note("The objects of each tool are made from the dicts within the time. Peak memory holds the dicts too.")
    tell_table(report, plan, cells)
    for name, least in (("a", 5), ("b", 1.2), ("c", 1), ("d", 1)):
        bar_faster(report, cells, name, "pytrec_eval", least)


def tell_imports(report: Report, found: Mapping[str, Measured]) -> None:
    report.heading("Import")
    start = found["python"].seconds
    rows = [
        [what, seconds(cell.means["net"]), seconds(cell.seconds), seconds(max(0.0, cell.seconds - start))]
        for what, cell in found.items()
    ]
    report.table(["", "import alone", "whole process", "less bare python"], rows)
    whole = found["karat"].seconds / found["numpy"].seconds
    net = found["karat"].means["net"] / found["numpy"].means["net"]
    ready = found["karat, ready to evaluate"].means["net"] / found["numpy"].means["net"]
    report.note(
        f"As whole processes: {times(whole)}. `import karat` puts off numpy and most of itself until they are used: "
        f"with `karat.evaluate` at hand it is {times(ready)} of `import numpy`, the import alone."
    )
    report.bar("import karat at most 1.5× import numpy, the import alone", times(net), net <= 1.5)


def tell_cache(report: Report, name: str, found: Mapping[str, Measured]) -> None:
    report.heading(f"Cache: ({name}) again with other metrics")
    labels = {"": "in process", " process": "whole process"}
    rows = [
        [told, seconds(found["cold" + key].seconds), seconds(found["warm" + key].seconds)]
        for key, told in labels.items()
    ]
    report.table(["", "first, empty cache", "second, from cache"], rows)
    ratio = found["cold"].seconds / found["warm"].seconds
    report.bar(f"({name}) second evaluation at least 20× as fast, in process", times(ratio), ratio >= 20)
    start, warm = found["start process"].seconds, found["warm process"].seconds
    report.note(
        f"A process that evaluates from the cache is a process that starts, and little else: `{READY}` alone takes "
        f"{seconds(start)}. How many times as fast as the first evaluation that is says how fast the first one is."
    )
    report.bar(
        f"({name}) a process that evaluates from the cache at most {CACHED:g}× one that only starts",
        times(warm / start),
        warm / start <= CACHED,
    )


def tell_scans(report: Report, name: str, found: Mapping[str, Measured]) -> None:
    report.heading(f"For orientation: reading the run of ({name})")
    labels = {"newlines": "numpy: read the bytes, find the newlines", "duckdb": "DuckDB: read_csv, sum of the scores"}
    rows = [
        [labels[what], seconds(c.means["net"]), seconds(c.seconds), megabytes(c.memory)] for what, c in found.items()
    ]
    report.table(["", "in process", "whole process", "peak"], rows)


def tell_means(report: Report, means: Mapping[str, Mapping[str, float]]) -> None:
    report.heading("Means")
    report.note(f"All tools agree to {AGREE:g}, from files and from dicts.")
    rows = [[f"({name})", *(f"{values[m]:.6f}" for m in METRICS)] for name, values in means.items()]
    report.table(["", *METRICS], rows)


def build_report(plan: Plan) -> Report:
    report = Report("Speed and memory")
    report.note(machine())
    sizes = "; ".join(f"({name}) {work.told()}" for name, work in plan.works.items())
    report.note(
        f"Generated data: {sizes}. Metrics: {', '.join(METRICS)}. The best of several rounds, tools in turn, "
        "each with its own defaults (Karat uses all cores); bytecode is cached for all. "
        "Peak is the peak resident memory of the process."
    )
    warm_up(plan)
    load = OtherLoad()
    files = measure_files(plan)
    means = {name: files["pytrec_eval", name].means for name in plan.works}
    check_agreement(files, means)
    compiled = measure_ranx_first(plan.works["c"]) if "c" in plan.works and not plan.quick else None
    tell_files(report, plan, files, compiled)
    report.note(load.told())
    load = OtherLoad()
    dicts = measure_dicts(plan)
    check_agreement(dicts, means)
    tell_dicts(report, plan, dicts)
    report.note(load.told())
    load = OtherLoad()
    tell_imports(report, measure_imports(plan))
    report.note(load.told())
    if (large := plan.works.get("a")) is not None:
        load = OtherLoad()
        tell_cache(report, "a", measure_cache(plan, large))
        report.note(load.told())
        load = OtherLoad()
        tell_scans(report, "a", measure_scans(plan, large))
        report.note(load.told())
    tell_means(report, means)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed and memory of Karat beside its peers.")
    parser.add_argument("--quick", action="store_true", help="a tenth of (a), few rounds; writes nothing")
    parser.add_argument("--only", metavar="a,c", help="these workloads only; writes nothing")
    args = parser.parse_args()
    known = QUICK if args.quick else SPEED
    wanted = args.only.split(",") if args.only else list(known)
    if unknown := [w for w in wanted if w not in known]:
        parser.error(f"no workload {', '.join(unknown)}; there are {', '.join(known)}")
    plan = Plan({name: known[name] for name in wanted}, args.quick)
    progress("generating what data is missing")
    python(HERE / "data.py", *("quick-a" if args.quick and name == "a" else name for name in wanted))
    begun = source_digest()
    report = build_report(plan)
    finish("speed", report, begun, partial=bool(args.quick or args.only))


if __name__ == "__main__":
    main()
