"""A process that is killed while it writes leaves the old file or the new one; so do full disks and closed folders."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import karat
from karat.store import atomic
from karat.store.atomic import write_atomically

KILLS = 48
WRITER = """
import sys, os
from dataclasses import replace
import karat
from karat.report.outputs import Files, write

def judged(hits):
    gold = {f"q{i:04}": {"d": 1} for i in range(2000)}
    run = {q: {"d" if i < hits else "x": 1.0} for i, q in enumerate(gold)}
    return karat.check(karat.evaluate(gold, {"r": run}, "mrr,hit@1", resamples=100, cache=False), ["hit@1 >= 0.5"])

def outputs(check, folder):
    place = lambda name: os.path.join(folder, name)
    write(check, Files(place("c.json"), place("c.md"), place("c.xml"), place("c.tex"), place("t.csv"), place("s.json")))
    write(check, Files(per_query=place("t.parquet"), save=place("s.json.gz")))
    karat.bless(check.result, place("base.json"))

states = [judged(1500), judged(200)]
for number, check in enumerate(states):
    os.makedirs(f"known{number}", exist_ok=True)
    outputs(check, f"known{number}")
outputs(states[0], "out")
print("ready", flush=True)
while sys.stdin.readline():
    print("go", flush=True)
    if os.fork() == 0:
        os.setpgid(0, 0)
        print(os.getpid(), flush=True)
        while True:
            for check in states[::-1]:
                outputs(check, "out")
    try:
        os.wait()
    except ChildProcessError:
        pass
    print("dead", flush=True)
"""


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def parsed(path: Path) -> None:
    """Read the whole file in its own format."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    if ".json" in path.name:
        assert json.loads(data)["format_version"] == 1
    elif path.suffix == ".xml":
        ET.fromstring(data)
    elif path.suffix == ".parquet":
        assert data[:4] == data[-4:] == b"PAR1"
    else:
        assert data.endswith(b"\n")


def test_a_killed_writer_leaves_every_file_old_or_new(tmp_path: Path) -> None:
    """One process evaluates; its forks write two known states of nine files in turn, and are killed at random."""
    (tmp_path / "out").mkdir()
    chance = random.Random(7)
    source = str(Path(karat.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "GITHUB_STEP_SUMMARY": ""}
    with subprocess.Popen(
        [sys.executable, "-c", WRITER],
        cwd=tmp_path,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as writer:
        assert writer.stdin and writer.stdout
        assert writer.stdout.readline() == "ready\n"
        known = {
            p.name: {digest(tmp_path / f"known{n}" / p.name) for n in (0, 1)} for p in (tmp_path / "out").iterdir()
        }
        assert len(known) == 9 and all(len(two) == 2 for two in known.values())
        mixed, kills, span, seen = 0, 0, 0.25, set()
        every = {(name, state) for name in known for state in (True, False)}
        while kills < KILLS or (kills < 8 * KILLS and (seen != every or mixed <= kills / 8)):
            kills += 1
            if kills % 12 == 0 and seen != every:
                span *= 1.5  # a busy machine writes slowly
            writer.stdin.write("write\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == "go\n"
            child = int(writer.stdout.readline())
            time.sleep(chance.uniform(0, span))
            os.kill(child, signal.SIGKILL)
            assert writer.stdout.readline() == "dead\n"
            there = [p for p in (tmp_path / "out").iterdir() if not p.name.startswith(".")]
            assert {p.name for p in there} == set(known)
            newest = {}
            for path in there:
                assert digest(path) in known[path.name], path.name
                parsed(path)
                newest[path.name] = digest(path) == digest(tmp_path / "known1" / path.name)
            seen |= set(newest.items())
            mixed += len(set(newest.values())) == 2
        writer.stdin.close()
        assert writer.wait(20) == 0
    assert seen == every
    assert mixed > kills / 8  # the kills came in the midst of writing, not before or after it


def test_what_a_killed_writer_left_is_removed_later_and_nothing_else_is(tmp_path: Path) -> None:
    old = time.time() - atomic.STALE - 1
    names = {
        ".r.json.abcd1234.tmp": True,
        ".r.json.young123.tmp": False,
        ".other.json.abcd1234.tmp": False,
        ".r.json.mine": False,
        "r.json.abcd1234.tmp": False,
    }
    for name in names:
        (tmp_path / name).write_text("half")
        if "young" not in name:
            os.utime(tmp_path / name, (old, old))
    write_atomically(str(tmp_path / "r.json"), b"whole")
    assert {n: not (tmp_path / n).exists() for n in names} == names
    assert (tmp_path / "r.json").read_bytes() == b"whole"


def test_a_link_stays_a_link_and_permissions_stay(tmp_path: Path) -> None:
    real = tmp_path / "real.json"
    real.write_text("old")
    real.chmod(0o600)
    (tmp_path / "link.json").symlink_to(real)
    write_atomically(str(tmp_path / "link.json"), b"new")
    assert (tmp_path / "link.json").is_symlink()
    assert real.read_bytes() == b"new"
    assert real.stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        write_atomically(str(pipe), b"through")
        assert reader.communicate(timeout=10)[0] == b"through"
    assert pipe.is_fifo()


def test_a_name_of_the_greatest_length_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250 + ".json")
    write_atomically(str(path), b"x")
    assert path.read_bytes() == b"x"


# Faults of the place


def config(folder: Path, **outputs: str) -> str:
    gold = {f"q{i}": {"d": 1} for i in range(40)}
    (folder / "gold.json").write_text(json.dumps(gold))
    (folder / "run.json").write_text(json.dumps({q: {"d": 1.0} for q in gold}))
    (folder / "karat.yaml").write_text(
        "dataset: {qrels: gold.json}\nruns: {r: run.json}\nmetrics: mrr\ngates: ['mrr > 0.5']\n"
        f"outputs: {json.dumps(outputs)}\n"
    )
    return str(folder / "karat.yaml")


def called(*arguments: str, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, which may write files of `limit` bytes at most."""

    def bounded() -> None:
        if limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    source = str(Path(karat.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-m", "karat", *arguments],
        capture_output=True,
        text=True,
        preexec_fn=bounded,
        env={**os.environ, "PYTHONPATH": source, "GITHUB_STEP_SUMMARY": ""},
    )


NAMES = {
    "json": "c.json",
    "markdown": "c.md",
    "junit": "c.xml",
    "latex": "c.tex",
    "per_query": "t.csv",
    "save": "s.json.gz",
}


@pytest.mark.parametrize("kind", [*NAMES, "parquet", "bless"])
def test_where_nothing_fits_the_old_file_stays_and_the_exit_code_is_2(tmp_path: Path, kind: str) -> None:
    name = {"parquet": "t.parquet", "bless": "karat.baseline.json"}.get(kind) or NAMES[kind]
    asked = {} if kind == "bless" else {"per_query" if kind == "parquet" else kind: name}
    path = config(tmp_path, **asked)
    (tmp_path / name).write_text("old")
    done = called("bless" if kind == "bless" else "check", path, "--no-cache", limit=100)
    assert done.returncode == 2, done.stderr
    assert "cannot be written (File too large)" in done.stderr
    assert "fault of ours" not in done.stderr and "Traceback" not in done.stderr
    assert (tmp_path / name).read_text() == "old"
    assert not [p for p in tmp_path.iterdir() if p.name.endswith(".tmp")]


@pytest.mark.parametrize("kind", [*NAMES, "bless"])
def test_a_target_that_is_a_folder_is_named(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from karat.cli import main

    name = NAMES.get(kind, "karat.baseline.json")
    path = config(tmp_path, **({} if kind == "bless" else {kind: name}))
    (tmp_path / name).mkdir()
    monkeypatch.setattr("sys.argv", ["karat", "bless" if kind == "bless" else "check", path])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert f"{name}: cannot be written (Is a directory); expected the name of a file" in capsys.readouterr().err
    assert (tmp_path / name).is_dir()


def test_a_full_disk_is_named_and_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.json"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(karat.InputError, match=r"No space left on device\), and nothing was changed; make room"):
        write_atomically(str(path), b"new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_closed_folder_is_named_and_leaves_the_old_file(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "r.json").write_text("old")
    closed.chmod(0o500)
    try:
        with pytest.raises(karat.InputError, match="Permission denied"):
            write_atomically(str(closed / "r.json"), b"new")
    finally:
        closed.chmod(0o700)
    assert (closed / "r.json").read_text() == "old"


def test_folders_of_outputs_and_of_baselines_are_made(tmp_path: Path) -> None:
    path = config(tmp_path, json="deep/er/c.json")
    assert called("check", path, "-q").returncode == 0
    assert called("bless", path, "-o", str(tmp_path / "new/base.json")).returncode == 0
    assert (tmp_path / "deep/er/c.json").exists() and (tmp_path / "new/base.json").exists()
    (tmp_path / "file").write_text("")
    done = called("check", path, "--json", str(tmp_path / "file/c.json"))
    assert done.returncode == 2 and "its folder cannot be made" in done.stderr
