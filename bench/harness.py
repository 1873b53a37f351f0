"""Starting children, measuring them, and writing down what was found.

This module and the drivers stay small in memory (no numpy): on Linux a child's peak memory starts at what its
parent held when it was started.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS.md"
PACKAGES = (
    "karat",
    "numpy",
    "duckdb",
    "pytrec_eval-terrier",
    "ir_measures",
    "ranx",
    "numba",
    "bm25s",
    "tantivy",
    "torch",
    "sentence-transformers",
)


class Failed(Exception):
    """A child ended with an error."""


@dataclass(frozen=True)
class Run:
    """One child from start to end."""

    seconds: float
    memory: int
    """Peak resident memory in bytes."""
    output: str
    cpu: float = 0.0
    """Seconds of all its threads together, in its own code and in the system's."""

    @property
    def answer(self) -> dict[str, Any]:
        """The JSON on the last line that the child printed."""
        return dict(json.loads(self.output.strip().splitlines()[-1]))


def python(
    *args: str | os.PathLike[str],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    codes: Sequence[int] = (0,),
) -> Run:
    """Run this interpreter with arguments; time it as a whole and take its own peak memory.

    Any exit code but these is a failure.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        start = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, *map(os.fspath, args)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment(env),
            cwd=cwd,
        )
        assert child.stdout is not None
        with child.stdout:
            output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        told = errors.read().strip().splitlines()
    if child.returncode not in codes:
        raise Failed(f"exit code {child.returncode}: {told[-1] if told else 'no message'}")
    return Run(seconds, peak_bytes(usage), output, usage.ru_utime + usage.ru_stime)


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of all children: bytecode is kept, as it is where packages are installed as usual.

    Else a package that is installed from its sources, as Karat is here, would be compiled by every process.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(HERE / "data" / "bytecode"), **(more or {})}


class OtherLoad:
    """How many cores other processes kept busy since this was made; where that cannot be known, None."""

    def __init__(self) -> None:
        self.start, self.busy, self.own = time.perf_counter(), _busy(), _own()

    def cores(self) -> float | None:
        busy = _busy()
        if busy is None or self.busy is None:
            return None
        return max(0.0, busy - self.busy - (_own() - self.own)) / (time.perf_counter() - self.start)

    def told(self) -> str:
        cores = self.cores()
        if cores is None:
            return "It is not known how busy other processes kept the machine."
        told = f"Other processes kept {cores:.2f} cores busy meanwhile"
        return told + (
            ": **repeat this on an idle machine**; tools that use all cores look worse." if cores > 0.1 else "."
        )


def _busy() -> float | None:
    """Seconds of all cores that were not idle, since the start of the machine; stolen time counts."""
    try:
        numbers = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, numbers)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    """Seconds that this process and its ended children took."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def peak_bytes(usage: Any) -> int:
    """Peak resident memory: kilobytes on Linux, bytes on macOS."""
    return int(usage.ru_maxrss) * (1 if sys.platform == "darwin" else 1024)


class Worker:
    """A child that stays: it has loaded its data and answers each request with a line of JSON."""

    def __init__(self, *args: str | os.PathLike[str], env: Mapping[str, str] | None = None) -> None:
        self.child = subprocess.Popen(
            [sys.executable, *map(os.fspath, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(env),
        )
        self.loaded = int(self._read()["memory"])

    def ask(self) -> dict[str, Any]:
        assert self.child.stdin is not None
        self.child.stdin.write("go\n")
        self.child.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        if not line:
            raise Failed(f"a worker ended: {self.child.args!r}")
        return dict(json.loads(line))

    def close(self) -> int:
        """End the child; its peak memory in bytes."""
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.close()
        self.child.stdout.close()
        _, status, usage = os.wait4(self.child.pid, 0)
        self.child.returncode = os.waitstatus_to_exitcode(status)
        return peak_bytes(usage)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Bar:
    """One thing that was promised, and what was found."""

    text: str
    found: str
    passed: bool

    def __str__(self) -> str:
        return f"{'pass' if self.passed else 'MISS'}  {self.text}: {self.found}"


class Report:
    """Headings, notes, tables and bars, for the terminal and as Markdown."""

    def __init__(self, title: str) -> None:
        self._plain: list[str] = [title, "=" * len(title)]
        self._marked: list[str] = [f"## {title}"]
        self.bars: list[Bar] = []

    def heading(self, text: str) -> None:
        self._plain += ["", text, "-" * len(text)]
        self._marked.append(f"### {text}")

    def note(self, text: str) -> None:
        self._plain.append(text)
        self._marked.append(text)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table whose first column is text and whose others are numbers."""
        widths = [max(len(r[c]) for r in [head, *rows]) for c in range(len(head))]
        for row in [head, *rows]:
            cells = [v.ljust(w) if c == 0 else v.rjust(w) for c, (v, w) in enumerate(zip(row, widths, strict=True))]
            self._plain.append("  ".join(cells).rstrip())
        rule = ["---", *["---:"] * (len(head) - 1)]
        self._marked.append("\n".join("| " + " | ".join(r) + " |" for r in [head, rule, *rows]))

    def bar(self, text: str, found: str, passed: bool) -> None:
        bar = Bar(text, found, passed)
        self.bars.append(bar)
        self._plain.append(str(bar))
        mark = "✅ pass" if passed else "❌ **miss**"
        line = f"- {mark}: {text}: {found}"
        if self._marked[-1].startswith("- "):
            self._marked[-1] += "\n" + line
        else:
            self._marked.append(line)

    def plain(self) -> str:
        return "\n".join(self._plain)

    def markdown(self) -> str:
        return "\n\n".join(self._marked)


def write_section(name: str, text: str, path: Path = RESULTS) -> None:
    """Replace one section of the results and leave the others alone."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    section = f"{begin}\n{text}\n{end}"
    old = path.read_text(encoding="utf-8") if path.exists() else "# Benchmark results\n"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if pattern.search(old):
        new = pattern.sub(lambda _: section, old)
    else:
        new = old.rstrip("\n") + "\n\n" + section + "\n"
    partial = path.with_suffix(".tmp")
    partial.write_text(new, encoding="utf-8")
    partial.replace(path)


def machine() -> str:
    """What was measured on: no host name, no paths."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return (
        f"{time.strftime('%Y-%m-%d')}; {_processor()}, {cores} cores, {memory / 2**30:.0f} GiB memory; "
        f"{platform.system()} {platform.release().split('-')[0]}; Python {platform.python_version()}; "
        f"source of Karat {source_digest()}; " + ", ".join(f"{p} {v}" for p in PACKAGES if (v := _version(p)))
    )


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def source_digest() -> str:
    """The fingerprint of the source of Karat that the children import: it must stay the same during a run."""
    spec = find_spec("karat")
    if spec is None or spec.origin is None:
        raise Failed("karat is not installed here")
    folder, digest = Path(spec.origin).parent, hashlib.sha256()
    for path in sorted(path for ending in ("py", "c") for path in folder.rglob(f"*.{ending}")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:10]


def finish(section: str, report: Report, begun: str, partial: bool) -> None:
    """Print the report, and write it down if it is of everything and of one state of the source."""
    print(report.plain())
    changed = source_digest() != begun
    if changed:
        print("\nThe source of Karat changed during the run: the numbers are of no one state.")
    if partial or changed:
        print("\nbench/RESULTS.md is left as it is.")
    else:
        write_section(section, report.markdown())
    missed = [bar for bar in report.bars if not bar.passed]
    print(f"\n{len(report.bars) - len(missed)} of {len(report.bars)} bars pass{', missed:' if missed else '.'}")
    for bar in missed:
        print(bar)


def seconds(value: float) -> str:
    """A time as a person reads it."""
    return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def megabytes(value: float) -> str:
    return f"{value / 1e6:,.0f} MB"


def times(value: float) -> str:
    return f"{value:.2f}×" if value < 10 else f"{value:.1f}×"
