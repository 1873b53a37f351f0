"""How long the command line takes to start: `make bench-start`.

Whole processes in turn, bytecode cached: `python -c pass`, `python -c "import numpy"`, `karat --version`, `--help`,
`metrics`, and `karat evaluate` of 2,000 queries × 10 docs with intervals. Wall and CPU time are the best of several
rounds; instructions are counted by valgrind's cachegrind where it is installed, and are the same on a busy machine.

    start.py            all of it; writes the section `start` of bench/RESULTS.md
    start.py --quick    few rounds, no instructions; writes nothing
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile

from data import SPEED
from harness import (
    HERE,
    OtherLoad,
    Report,
    environment,
    finish,
    machine,
    progress,
    python,
    seconds,
    source_digest,
    times,
)

BARE, NUMPY, VERSION, EVALUATE = "python -c pass", "python -c 'import numpy'", "karat --version", "karat evaluate"
MOST_EVALUATE, MOST_VERSION, MOST_INSTRUCTIONS = 2.5, 3.0, 1300
NUMPY_INSTRUCTIONS = 375
"""Those of `import numpy` 2.4 in Python 3.11, which are part of the bar."""


def instructions(command: list[str], env: dict[str, str]) -> int:
    """The instructions of a process, in millions."""
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    done = subprocess.run(
        [*valgrind, sys.executable, *command],
        capture_output=True,
        text=True,
        check=True,
        env=environment({**env, "PYTHONHASHSEED": "0"}),
    )
    counted = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    assert counted is not None
    return round(int(counted[1].replace(",", "")) / 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description="The start of the command line.")
    parser.add_argument("--quick", action="store_true", help="few rounds, no instructions; writes nothing")
    quick = parser.parse_args().quick
    begun = source_digest()
    report = Report("Start")
    report.note(machine())
    load = OtherLoad()
    python(HERE / "data.py", "c")
    work = SPEED["c"]
    commands = {
        BARE: ["-c", "pass"],
        NUMPY: ["-c", "import numpy"],
        VERSION: ["-m", "karat", "--version"],
        "karat --help": ["-m", "karat", "--help"],
        "karat metrics": ["-m", "karat", "metrics"],
        EVALUATE: ["-m", "karat", "evaluate", str(work.qrels), str(work.run)],
    }
    wall, cpu, count = {}, {}, {}
    with tempfile.TemporaryDirectory(prefix="karat-bench-") as cache:
        env = {"KARAT_CACHE_DIR": cache}
        for round_ in range(3 if quick else 21):
            progress(f"round {round_ + 1}")
            for name, command in commands.items():
                done = python(*command, env=env)
                wall[name] = min(wall.get(name, done.seconds), done.seconds)
                cpu[name] = min(cpu.get(name, done.cpu), done.cpu)
        if not quick and shutil.which("valgrind"):
            for name, command in commands.items():
                progress(f"instructions: {name}")
                count[name] = instructions(command, env)
    report.note(
        "Whole processes in turn, the best of several rounds, bytecode and Karat's cache warm. `karat evaluate`: 2,000 "
        "queries × 10 docs, the default metrics with intervals. In brackets: multiples of `import numpy`."
    )
    report.table(
        ["", "wall", "CPU", "million instructions"],
        [
            [
                f"`{name}`",
                f"{seconds(wall[name])} ({times(wall[name] / wall[NUMPY])})",
                f"{seconds(cpu[name])} ({times(cpu[name] / cpu[NUMPY])})",
                f"{count[name]:,}" if name in count else "not counted",
            ]
            for name in commands
        ],
    )
    for name, base, most in ((EVALUATE, NUMPY, MOST_EVALUATE), (VERSION, BARE, MOST_VERSION)):
        ratio = wall[name] / wall[base]
        report.bar(f"`{name}` at most {most:g}× `{base}`, wall", times(ratio), ratio <= most)
    if count:
        most = MOST_INSTRUCTIONS
        report.bar(
            f"`{EVALUATE}` at most {most:,} million instructions", f"{count[EVALUATE]:,}", count[EVALUATE] <= most
        )
    report.note(load.told())
    finish("start", report, begun, partial=quick)


if __name__ == "__main__":
    main()
