"""Pipes and devices that are named as files: read once and whole, or refused at once."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import karat
from command import run_karat

QUERIES = 400
GOLD = "".join(f"q{i:04d} 0 d{i:04d} 1\n" for i in range(QUERIES))
RUN = "".join(f"q{i:04d} Q0 d{i:04d} 1 2.0 tagtagtag\n" for i in range(QUERIES))
LOG = "".join(f'{{"query_id": "q{i:04d}", "topk": [{{"doc_id": "d{i:04d}"}}]}}\n' for i in range(QUERIES))
TABLE = "query_id,doc_id,score\n" + "".join(f"q{i:04d},d{i:04d},2.5\n" for i in range(QUERIES))
JSON = "{" + ", ".join(f'"q{i:04d}": {{"d{i:04d}": 2.5}}' for i in range(QUERIES)) + "}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KARAT_MAX_PIPE_SECONDS", "1")
    (tmp_path / "gold.txt").write_text(GOLD)
    (tmp_path / "run.txt").write_text(RUN)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def fill(pipe: Path, data: bytes) -> threading.Thread:
    writer = threading.Thread(target=pipe.write_bytes, args=(data,), daemon=True)
    writer.start()
    return writer


@pytest.mark.parametrize("data", [RUN, LOG, TABLE, JSON], ids=["trec", "log", "csv", "json"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_run_from_a_named_pipe_is_whole(folder: Path, data: str, packed: bool) -> None:
    writer = fill(folder / "pipe", gzip.compress(data.encode()) if packed else data.encode())
    result = karat.evaluate(str(folder / "gold.txt"), str(folder / "pipe"), "hit@1")
    writer.join(10)
    assert result.mean["hit@1"] == 1.0 and result.counts["missing"] == 0


def test_gold_and_queries_from_pipes_are_whole(folder: Path) -> None:
    writer = fill(folder / "pipe", GOLD.encode())
    assert karat.evaluate(str(folder / "pipe"), str(folder / "run.txt"), "hit@1").mean["hit@1"] == 1.0
    writer.join(10)
    fill(folder / "pipe", b"".join(b"q%04d\twhat is it\n" % i for i in range(QUERIES)))
    assert len(karat.read_queries(folder / "pipe")) == QUERIES


def test_a_pipe_of_the_shell_and_standard_input_by_name_are_whole(folder: Path) -> None:
    program = [sys.executable, "-m", "karat", "evaluate", "gold.txt", "/dev/stdin", "-m", "hit@1", "--json", "-"]
    done = subprocess.run(program, cwd=folder, input=RUN.encode(), capture_output=True, timeout=60)
    assert b'"mean": 1.0' in done.stdout and done.returncode == 0


@pytest.mark.parametrize(
    ("path", "message"),
    [("pipe", "is a pipe that nobody writes to"), ("/dev/zero", "is a device"), ("/dev/null", "is a device")],
)
def test_what_never_ends_or_never_begins_is_refused(folder: Path, path: str, message: str) -> None:
    for gold, run in ((path, "run.txt"), ("gold.txt", path)):
        with pytest.raises(karat.InputError, match=message):
            karat.evaluate(os.path.join(folder, gold), os.path.join(folder, run), "mrr")
    with pytest.raises(karat.InputError, match="regular files only"):
        karat.evaluate(str(folder / "gold.txt"), str(folder / "run.txt"), "ild@5", embeddings=str(folder / "pipe"))
    with pytest.raises(karat.InputError, match="regular files only"):
        karat.load(str(folder / "pipe"))


def test_init_opens_no_pipe(folder: Path) -> None:
    assert run_karat("init", cwd=folder).returncode == 0


def test_a_closed_standard_input_is_an_error_of_the_caller(folder: Path) -> None:
    program = f"exec {sys.executable} -m karat evaluate gold.txt - <&-"
    done = subprocess.run(program, shell=True, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "-: standard input is closed" in done.stderr
