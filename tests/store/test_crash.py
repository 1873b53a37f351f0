"""What one file can meet: leftovers of killed processes, links, pipes, folders in its place, closed folders."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import karat
from command import run_karat
from forks import KARAT, Forks
from karat.store import atomic, scratch
from karat.store.atomic import write_atomically
from karat.store.scratch import scratch_folder


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


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    with Forks(KARAT, tmp_path_factory.mktemp("forks")) as server:
        yield server


NAMES = {
    "json": "c.json",
    "markdown": "c.md",
    "junit": "c.xml",
    "latex": "c.tex",
    "per_query": "t.csv",
    "save": "s.json.gz",
}


@pytest.mark.parametrize("kind", [*NAMES, "parquet", "bless"])
def test_where_nothing_fits_the_old_file_stays_and_the_exit_code_is_2(tmp_path: Path, kind: str, forks: Forks) -> None:
    name = {"parquet": "t.parquet", "bless": "karat.baseline.json"}.get(kind) or NAMES[kind]
    asked = {} if kind == "bless" else {"per_query" if kind == "parquet" else kind: name}
    path = config(tmp_path, **asked)
    old = '{"kind": "baseline", "old": ' if kind == "bless" else "old"
    (tmp_path / name).write_text(old)
    verb = "bless" if kind == "bless" else "check"
    done = forks.run(str(tmp_path), "", "100", verb, path, "--no-cache")
    assert done.returncode == 2, done.stdout
    assert "cannot be written (File too large)" in done.stdout
    assert "internal error" not in done.stdout and "Traceback" not in done.stdout
    # A table without rows still fits: like every output, it replaces the old one after an error.
    assert (tmp_path / name).read_text() == ("run,query_id,metric,value\n" if kind == "per_query" else old)
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
    assert run_karat("check", path, "-q").returncode == 0
    assert run_karat("bless", path, "-o", str(tmp_path / "new/base.json")).returncode == 0
    assert (tmp_path / "deep/er/c.json").exists() and (tmp_path / "new/base.json").exists()
    (tmp_path / "file").write_text("")
    done = run_karat("check", path, "--json", str(tmp_path / "file/c.json"))
    assert done.returncode == 2 and "its folder cannot be made" in done.stderr


# Temporary tables


def test_temporary_tables_of_killed_processes_are_removed_and_those_of_living_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with scratch_folder() as living, scratch_folder() as other:
        dead = tmp_path / "karat-scratch-abcd1234"
        mine = tmp_path / "karat-scratch-of-mine"
        young = tmp_path / "karat-scratch-young123"
        for folder in (dead, mine, young):
            folder.mkdir()
            (folder / "run.duckdb").write_text("rows")
        old = time.time() - scratch.STALE - 1
        for folder in (dead, mine, Path(living)):
            os.utime(folder, (old, old))
        with scratch_folder():
            assert not dead.exists() and mine.exists() and young.exists() and Path(living).exists()
    assert not Path(living).exists() and not Path(other).exists()
