"""Every write of a file is stopped at each of its points: by kill -9, a full disk, a read-only folder, other processes.

`WRITES` in the code of the forks holds one way to reach every place that writes. The tests fail for a place in the
source that none of them reaches, and for a file that is written past the one writer.
"""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import karat
from forks import Forks
from karat.store.faults import POINTS
from karat.store.looks import read_looks

SOURCES = Path(karat.__file__).parent
WRITER = r"""
import hashlib, json, os, sys
os.environ["SOURCE_DATE_EPOCH"] = "0"  # equal results are equal bytes
import numpy as np
import karat, karat.report.html.page, karat.store.cache, karat.store.faults
from karat.cli.init import init
from karat.judge.judgments import Judgment, Person, add_judgments
from karat.judge.pairs import Pair, write_pairs
from karat.report import misses
from karat.report.formats import all_formats
from karat.report.terminal.sweep import draw
from karat.report.view import view_of
from karat.store.built import Store
from karat.store.looks import Look, read_looks, record_look
from karat.verbs.bench import vectors
from karat.verbs.bench.runner import Progress
from karat.verbs.demo import _make_project
from karat.verbs.demo_judge import _make_folder, _write_gold
from karat.verbs.demo_ontology import _copy_cases
from karat.verbs.diagnose.misses import misses as list_misses

GOLD = {f"q{i:02}": {"d": 1} for i in range(60)}
RUNS = [{q: {"d" if i < hits else "x": 1.0} for i, q in enumerate(GOLD)} for hits in (50, 7)]
OPTIONS = {"resamples": 100, "cache": False, "details": True}
CHECKS = [karat.check(karat.evaluate(GOLD, {"r": run}, "mrr,hit@1", **OPTIONS), ["hit@1 >= 0.5"]) for run in RUNS]
VIEWS = [view_of(check) for check in CHECKS]
SWEEPS = [karat.sweep(GOLD, run, "recall", ks=[1, 2]) for run in RUNS]
MISSES = [list_misses(GOLD, run) for run in RUNS]
LOOKS = [Look(10 + i, f"gold {i}", False, "SHIP") for i in range(12)]
karat.report.html.page.library = lambda: ""  # takes seconds, and its copy in the cache is another write
import duckdb  # once, instead of in every fork
SWEEPS[0].plot()

def of_format(name, ending):
    return lambda version, folder: all_formats()[name].write(VIEWS[version], os.path.join(folder, "out" + ending))

def evaluate(version, folder):
    os.environ["KARAT_CACHE_DIR"] = os.path.join(folder, "cache")
    karat.store.cache.SMALLEST = 0
    for name, rows in (("gold.txt", "q 0 d 1"), ("run.txt", f"q Q0 {'xd'[version]} 1 2.0 t")):
        with open(os.path.join(folder, name), "w") as file:
            file.write(rows)
    return karat.evaluate(os.path.join(folder, "gold.txt"), os.path.join(folder, "run.txt"), "hit@1").mean["hit@1"]

def build(version, folder):
    def write(value, place):
        with open(os.path.join(place, "value"), "w") as file:
            file.write(value)
    def load(place):
        with open(os.path.join(place, "value")) as file:
            return file.read()
    return Store(os.path.join(folder, "cache")).get(version, lambda: f"value {version}", write, load)

def start(version, folder):
    with open(os.path.join(folder, "gold.qrels"), "w") as file:
        file.write("".join(f"q{i} 0 d 1\n" for i in range(2 + version)))
    with open(os.path.join(folder, "a.run"), "w") as file:
        file.write("".join(f"q{i} Q0 d 1 1.0 t\n" for i in range(2 + version)))
    init(folder, None, force=True, schema=False)

def figure(version, folder):
    draw(SWEEPS[version], os.path.join(folder, "out.svg"))

def bench_progress(version, folder):
    progress = Progress(folder)
    if f"run {version}" not in progress.names:
        progress.add(f"run {version}")

def judge(version, folder):
    row = Judgment("q", f"d{version}", 1, "0-3", Person("ana"), "2026-01-01T00:00:00+00:00")
    add_judgments(os.path.join(folder, "judgments.jsonl"), [row])

WRITES = {
    **{name: of_format(name, (form.endings or ("." + name,))[0]) for name, form in all_formats().items()},
    "per_query.jsonl": of_format("per_query", ".jsonl"),
    "per_query.parquet": of_format("per_query", ".parquet"),
    "save.gz": of_format("save", ".json.gz"),
    "baseline": lambda version, folder: karat.bless(CHECKS[version].result, os.path.join(folder, "base.json")),
    "looks": lambda version, folder: record_look(os.path.join(folder, "looks.json"), LOOKS[version]),
    "misses": lambda version, folder: misses.write(MISSES[version], os.path.join(folder, "misses.csv")),
    "figure": figure,
    "judgments": judge,
    "pairs": lambda version, folder: write_pairs([Pair("q", f"d{version}")], os.path.join(folder, "pairs.jsonl")),
    "init": start,
    "demo": lambda version, folder: _make_project(os.path.join(folder, "demo")) if version else None,
    "demo of judges": lambda version, folder: _make_folder(os.path.join(folder, "judge")) if version else None,
    "gold of the demo": lambda version, folder: _write_gold([("q", "d")], {("q", "d"): version}, folder + "/gold.tsv"),
    "cases of the demo": lambda version, folder: _copy_cases(os.path.join(folder, "terms")) if version else None,
    "rankings in the cache": evaluate,
    "an index in the cache": build,
    "progress of a benchmark": bench_progress,
    "vectors of a benchmark": lambda version, folder: vectors._write({"d": np.zeros(version)}, "m", folder + "/v.npz"),
}

def note(point, plan):
    # What is written by whom: the caller of the writer, two frames above `fault` and three above this.
    frame = sys._getframe(3)
    print("passes", point, frame.f_globals["__name__"], frame.f_code.co_qualname)

def work(name, version, folder):
    if name == "names":
        print("\n".join(WRITES))
        return
    if version == "both":
        return together(name, folder)
    if os.environ.get("KARAT_FAULT") == "note":
        karat.store.faults._strike = note
    try:
        value = WRITES[name](int(version), folder)
        print("answer", value if name in ANSWERS else "")
    except karat.InputError as error:
        print("refused", error)
        return 2

def together(name, folder):
    # Six processes write both versions again and again, while this one reads. What it saw is printed.
    children = []
    for number in range(6):
        child = os.fork()
        if child == 0:
            for turn in range(4):
                if name == "looks":
                    record_look(os.path.join(folder, "looks.json"), LOOKS[number * 2 + turn % 2])
                else:
                    os.write(1, f"answer {WRITES[name]((number + turn) % 2, folder)}\n".encode())
            os._exit(0)
        children.append(child)
    contents = set()
    while children:
        done, status = os.waitpid(-1, os.WNOHANG)
        if done:
            assert status == 0
            children.remove(done)
        for file in os.scandir(folder):
            if file.is_file() and not file.name.endswith(".tmp"):
                with open(file.path, "rb") as stream:
                    contents.add((file.name, hashlib.sha256(stream.read()).hexdigest()))
    print("saw", json.dumps(sorted(contents)))

ANSWERS = ("rankings in the cache", "an index in the cache")
"""
ANSWERS = ("rankings in the cache", "an index in the cache")
"""Writes that fail in silence: what matters is the answer, with or without them."""
AGAIN = ("atomic.create", "atomic.done", "index.rename", "index.done", "scratch.create")
"""Points after which the same is written once more: with a leftover of the first attempt, and on top of it."""

FILLING = ("atomic.create", "atomic.write", "journal.write", "journal.flush")
"""Points at which a disk can be full in the middle of a file."""


@dataclass(frozen=True)
class Trial:
    """A write between two states: the files and the answer of the new one, and the points that it passes."""

    old: Path
    files: dict[str, str]
    answer: str
    passes: list[tuple[str, int]]
    callers: set[str]


def digests(folder: Path) -> dict[str, str]:
    """The files of a folder and below it, but for what a killed process left."""
    paths = [p for p in folder.rglob("*") if p.is_file() and not p.name.endswith(".tmp")]
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in paths if _is_output(p)}


def _is_output(path: Path) -> bool:
    """Not an input; entries of the cache hold times, and are judged by the answers that they give."""
    return path.name not in ("gold.txt", "run.txt", "gold.qrels", "a.run") and "cache" not in path.parts


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    with Forks(WRITER, tmp_path_factory.mktemp("writer")) as server:
        yield server


@pytest.fixture(scope="module")
def trials(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trial]:
    """Every write, made in full once."""
    trials = {}
    for name in forks.run("names", "", "").stdout.split("\n")[:-1]:
        old, new = tmp_path_factory.mktemp("old"), tmp_path_factory.mktemp("new")
        assert forks.run(name, "0", str(old)).returncode == 0
        shutil.copytree(old, new, dirs_exist_ok=True)
        done = forks.run(name, "1", str(new), KARAT_FAULT="note")
        assert done.returncode == 0, done.stdout
        lines = [line.split() for line in done.stdout.splitlines() if line.startswith("passes ")]
        count: Counter[str] = Counter()
        passes = []
        for _, point, *_ in lines:
            count[point] += 1
            passes.append((point, count[point]))
        assert passes and (digests(new) != digests(old) or name in ANSWERS)
        callers = {f"{module}.{function}" for _, point, module, function in lines if point == "atomic.open"}
        trials[name] = Trial(old, digests(new), answer(done.stdout), passes, callers)
    return trials


def answer(output: str) -> str:
    return next(line for line in output.splitlines() if line.startswith("answer"))


def test_a_killed_write_leaves_the_old_file_or_the_new_one(
    trials: dict[str, Trial], forks: Forks, tmp_path: Path
) -> None:
    for name, trial in trials.items():
        old = digests(trial.old)
        for point, number in trial.passes:
            folder = tmp_path / f"{name}-{point}-{number}"
            shutil.copytree(trial.old, folder)
            done = forks.run(name, "1", str(folder), KARAT_FAULT=f"{point}:{number}:kill")
            assert done.returncode == -signal.SIGKILL, (name, point, done.stdout)
            for file, content in digests(folder).items():
                assert content in (old.get(file), trial.files[file]), (name, point, number, file)
            assert set(old) <= set(digests(folder)), (name, point)
            if point in AGAIN:
                done = forks.run(name, "1", str(folder))
                assert (done.returncode, answer(done.stdout)) == (0, trial.answer), (name, point, done.stdout)
                assert digests(folder) == trial.files, (name, point, number)
                assert "damaged" not in done.stdout
            shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("action", "points", "reason"),
    [
        ("full", (*FILLING, "index.create", "index.rename", "scratch.create"), "No space left"),
        ("readonly", ("atomic.open", "journal.write", "index.create", "scratch.create"), "Read-only file system"),
    ],
)
def test_a_disk_that_takes_nothing_leaves_the_old_file_and_no_other(
    trials: dict[str, Trial], forks: Forks, tmp_path: Path, action: str, points: tuple[str, ...], reason: str
) -> None:
    for name, trial in trials.items():
        old = digests(trial.old)
        for point, number in trial.passes:
            if point not in points:
                continue
            folder = tmp_path / f"{name}-{point}-{number}"
            shutil.copytree(trial.old, folder)
            done = forks.run(name, "1", str(folder), KARAT_FAULT=f"{point}:{number}:{action}")
            if name in ANSWERS:
                assert (done.returncode, answer(done.stdout)) == (0, trial.answer), done.stdout
            else:
                assert done.returncode == 2 and f"cannot be written ({reason}" in done.stdout, (name, done.stdout)
            for file, content in digests(folder).items():
                assert content in (old.get(file), trial.files[file]), (name, point, file)
            assert not [p for p in folder.rglob("*") if p.name.endswith(".tmp") or "unfinished-" in p.name]
            shutil.rmtree(folder)


def test_ctrl_c_leaves_the_old_file_and_no_other(trials: dict[str, Trial], forks: Forks, tmp_path: Path) -> None:
    trial = trials["baseline"]
    shutil.copytree(trial.old, tmp_path / "out")
    done = forks.run("baseline", "1", str(tmp_path / "out"), KARAT_FAULT="atomic.write:1:interrupt")
    assert "KeyboardInterrupt" in done.stdout and digests(tmp_path / "out") == digests(trial.old)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["base.json"]


# Several processes


def test_processes_that_write_the_same_file_leave_one_of_their_versions(
    trials: dict[str, Trial], forks: Forks, tmp_path: Path
) -> None:
    for name in ("json", "save.gz", "baseline", "vectors of a benchmark"):
        folder = tmp_path / name
        shutil.copytree(trials[name].old, folder)
        done = forks.run(name, "both", str(folder))
        assert done.returncode == 0, done.stdout
        seen = json.loads(done.stdout.rpartition("saw ")[2])
        versions = {*digests(trials[name].old).items(), *trials[name].files.items()}
        assert seen and {tuple(pair) for pair in seen} <= versions, name
        assert {p.name for p in folder.iterdir()} == set(trials[name].files)


def test_no_look_is_lost_that_processes_record_at_the_same_time(forks: Forks, tmp_path: Path) -> None:
    done = forks.run("looks", "both", str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert sorted(look.queries for look in read_looks(str(tmp_path / "looks.json"))) == list(range(10, 22))


def test_processes_that_build_the_same_index_all_get_it(forks: Forks, tmp_path: Path) -> None:
    done = forks.run("an index in the cache", "both", str(tmp_path))
    answers = Counter(line for line in done.stdout.splitlines() if line.startswith("answer"))
    assert answers == {"answer value 0": 12, "answer value 1": 12} and "damaged" not in done.stdout
    assert len(list((tmp_path / "cache").iterdir())) == 2


# Nothing is left out


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Every function with its qualified name, and what is in it but not in a function inside."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inner = f"{prefix}{node.name}"
            if isinstance(node, ast.FunctionDef):
                yield inner, node
                yield from functions(node, f"{inner}.<locals>.")
            else:
                yield from functions(node, f"{inner}.")
        else:
            yield from functions(node, prefix)


def calls(function: ast.AST) -> Iterator[ast.Call]:
    """The calls in a function, without those in functions inside it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef):
            if isinstance(node, ast.Call):
                yield node
            yield from calls(node)


@pytest.fixture(scope="module")
def calls_of_functions() -> dict[str, list[ast.Call]]:
    """The calls in every function of the package."""
    out = {}
    for path in SOURCES.rglob("*.py"):
        module = "karat." + ".".join(path.relative_to(SOURCES).with_suffix("").parts)
        for name, function in functions(ast.parse(path.read_text("utf-8"))):
            out[f"{module.removesuffix('.__init__')}.{name}"] = list(calls(function))
    return out


def name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def test_every_place_that_writes_is_stopped_above(
    trials: dict[str, Trial], calls_of_functions: dict[str, list[ast.Call]]
) -> None:
    callers = set().union(*(trial.callers for trial in trials.values()))
    assert callers == {f for f, made in calls_of_functions.items() if "write_atomically" in map(name_of, made)}
    points = {point for trial in trials.values() for point, _ in trial.passes}
    assert points == {point for point in POINTS if not point.startswith("bench.")}  # those: tests/verbs/test_bench.py


WRITING = {
    "os": {"replace", "rename", "link", "symlink", "truncate"},
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move"},
    "tempfile": {"mkstemp", "mkdtemp", "NamedTemporaryFile", "TemporaryDirectory"},
    "np": {"save", "savez", "savetxt"},
    "json": {"dump"},
}
"""Functions of modules that write files; methods that do, of whatever object."""
WRITING_METHODS = {
    "write_bytes",
    "write_text",
    "savefig",
    "tofile",
    "to_csv",
    "to_parquet",
    "write_parquet",
    "truncate",
}
OWN_WAY = {
    "karat.store.atomic.write_atomically": "the one writer",
    "karat.store.atomic._write_through": "devices and pipes, which have no old content",
    "karat.store.built.Store._write": "folders of the cache: written under another name and renamed, points index.*",
    "karat.store.built._write_sums": "a file of such a folder",
    "karat.retrieve.dense.Dense._block": "a file of such a folder",
    "karat.report.html.page.library.<locals>.write": "a file of such a folder",
    "karat.report.html.page._template.<locals>.write": "a file of such a folder",
    "karat.store.journal.append_lines": "whole lines at the end of a file that grows, points journal.*",
    "karat.store.answers.AnswerStore.__init__": "a database that is damaged gets another name; SQLite writes its own",
    "karat.store.scratch.scratch_folder": "temporary tables, point scratch.create",
    "karat.align.sql._insert": "a temporary table",
    "karat.report.files._parquet": "a temporary table; the file itself is written by the one writer",
    "karat.verbs.bench.runner.run": "a log that grows line by line and is renamed at the end, points bench.*",
    "karat.verbs.bench.runner._trim_log": "cuts such a log to whole lines",
    "karat.retrieve.dense.Dense._room": "a temporary file without a name",
    "karat.verbs.bench.vectors._write": "into memory",
    "karat.report.terminal.sweep.draw": "into memory",
    "karat.cli.streams._guarded": "to nowhere",
    "karat.report.outputs._append": "the summary of a GitHub step, which all steps add to",
}
"""Functions that write past the one writer, and why they may."""


def writes_past_the_writer(call: ast.Call) -> bool:
    name, module = name_of(call), getattr(getattr(call.func, "value", None), "id", "")
    if name == "open":
        mode = [a.value for a in call.args[1:2] if isinstance(a, ast.Constant)]
        mode += [k.value.value for k in call.keywords if k.arg == "mode" and isinstance(k.value, ast.Constant)]
        flags = {n.attr for n in ast.walk(call) if isinstance(n, ast.Attribute)}
        return bool(set("wax+") & set(str(mode))) or bool({"O_WRONLY", "O_RDWR", "O_CREAT"} & flags)
    return name in WRITING.get(module, ()) or (isinstance(call.func, ast.Attribute) and name in WRITING_METHODS)


def test_no_file_is_written_past_the_one_writer(calls_of_functions: dict[str, list[ast.Call]]) -> None:
    others = {f for f, made in calls_of_functions.items() if any(map(writes_past_the_writer, made))}
    assert others == set(OWN_WAY)
