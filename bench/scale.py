"""Time and memory of Karat on 0.7, 7 and 70 million rows: `make bench-large`.

Each is evaluated in a fresh process with `memory="2GB"`, and the peak resident memory of that process is taken
(the operating system enforces no limit: what is told is what Karat kept to by itself). The files of the largest
runs take about 2.7 GB of disk each, one for the grouped and one for the shuffled run, and are deleted at the end.

    scale.py                  all of it; writes the section `scale` of bench/RESULTS.md
    scale.py --largest 7m     up to 7 million rows, the shuffled run too; writes nothing
    scale.py --keep           leaves the large files in bench/data
"""

from __future__ import annotations

import argparse
import itertools
import shutil
from typing import TYPE_CHECKING

from data import FOLDER, SCALE, SHUFFLED
from harness import (
    HERE,
    Failed,
    OtherLoad,
    Report,
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
    from harness import Run

MEMORY = "2GB"
PEAK = 2_000_000_000
GROWTH = 15
LARGE = 1_000_000_000
"""Files above this many bytes are deleted at the end."""
SPARE = 1.5
"""Free disk to ask for, as a multiple of what is written: a shuffled run is sorted on disk."""


def evaluate(work: Workload) -> Run:
    """Evaluate in a fresh process, generating the data before if it is missing."""
    if not work.ready:
        progress(f"{work.name}: generating about {megabytes(work.run_bytes)}")
        python(HERE / "data.py", work.name)
    run = python(HERE / "peers.py", "bounded", work.qrels, work.run, MEMORY)
    progress(f"{work.name}: {seconds(run.seconds)}, peak {megabytes(run.memory)}")
    return run


def check_disk(works: list[Workload]) -> None:
    """Stop before anything is written if the disk cannot hold it."""
    needed = sum(w.run_bytes for w in works if not w.ready) + max(w.run_bytes for w in works if w.shuffled)
    FOLDER.mkdir(exist_ok=True)
    free = shutil.disk_usage(FOLDER).free
    progress(f"disk: about {megabytes(needed)} needed for data and sorting, {megabytes(free)} free")
    if free < needed * SPARE:
        raise SystemExit(
            f"not enough disk: {megabytes(needed * SPARE)} should be free where bench/data lies, "
            f"{megabytes(free)} are. Free some, or use --largest 7m"
        )


def tell(report: Report, works: list[Workload], found: dict[str, Run]) -> None:
    """The table, and what was promised of the largest run."""
    rows = [
        [
            f"{w.rows / 1e6:g} million, {'shuffled' if w.shuffled else 'grouped'}",
            seconds(found[w.name].seconds),
            f"{w.rows / found[w.name].seconds / 1e6:.1f}",
            megabytes(found[w.name].memory),
        ]
        for w in works
    ]
    report.table(["rows", "time", "million rows / s", "peak"], rows)
    grouped = [w for w in works if not w.shuffled]
    for before, after in itertools.pairwise(grouped):
        ratio = found[after.name].seconds / found[before.name].seconds
        text = f"from {before.rows / 1e6:g} to {after.rows / 1e6:g} million rows at most {GROWTH}× the time"
        if after.name == "70m":
            report.bar(text, times(ratio), ratio <= GROWTH)
        else:
            report.note(f"From {before.rows / 1e6:g} to {after.rows / 1e6:g} million rows: {times(ratio)} the time.")
    for work in (grouped[-1], works[-1]):
        peak = found[work.name].memory
        order = "shuffled" if work.shuffled else "grouped"
        text = f"{work.rows / 1e6:g} million rows, {order}: peak at most {megabytes(PEAK)}"
        report.bar(text, megabytes(peak), peak <= PEAK)


def check_agreement(works: list[Workload], found: dict[str, Run]) -> None:
    """The order of the rows must not matter."""
    shuffled = works[-1]
    grouped = next(w for w in works if w.rows == shuffled.rows and not w.shuffled)
    means = [found[w.name].answer["means"] for w in (grouped, shuffled)]
    if any(abs(means[0][m] - means[1][m]) > 1e-12 for m in METRICS):
        raise Failed(f"shuffled gives other means: {means[1]}, expected {means[0]}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of Karat on large runs.")
    parser.add_argument("--largest", choices=list(SCALE), default="70m", help="stop at this size")
    parser.add_argument("--keep", action="store_true", help="do not delete the large files")
    args = parser.parse_args()
    names = list(SCALE)[: list(SCALE).index(args.largest) + 1]
    works = [*(SCALE[n] for n in names), SHUFFLED[f"shuffled-{args.largest}"]]
    check_disk(works)
    begun, load = source_digest(), OtherLoad()
    report = Report("Large runs under a memory limit")
    report.note(machine())
    report.note(f'1,000 docs a query, 1–4 judged; `karat.evaluate(..., memory="{MEMORY}", cache=False)`, each once.')
    try:
        found = {work.name: evaluate(work) for work in works}
        check_agreement(works, found)
    finally:
        for work in works:
            if not args.keep and work.run_bytes > LARGE:
                work.run.unlink(missing_ok=True)
                work.qrels.unlink(missing_ok=True)
    tell(report, works, found)
    means = found[works[-1].name].answer["means"]
    report.note("Grouped and shuffled give the same means: " + ", ".join(f"{m} {means[m]:.6f}" for m in METRICS) + ".")
    report.note(load.told())
    finish("scale", report, begun, partial=args.largest != "70m")


if __name__ == "__main__":
    main()
