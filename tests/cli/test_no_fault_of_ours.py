"""Input that once ended in exit code 70, an internal error: refused with a reason and exit code 2."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import karat
from command import run_karat
from karat.read.embeddings import embeddings_of, vectors_of

PARAMETERS = {
    "err(max_grade=1e9)@5": "max_grade must be above 0 and below 1000",
    "err(max_grade=1024)": "max_grade must be above 0 and below 1000",
    "err(max_grade=1e308)": "max_grade must be a number of at most 1e+09 in size",
    "f1(beta=1e300)@5": "beta must be a number of at most 1e+09 in size",
    "q(beta=1e308)": "beta must be a number of at most 1e+09 in size",
    "ndcg(gains={1:1e308})@5": "gains must be a map from grade to gain",
    "ndcg(gain=exp,gain=linear)@5": "gain appears twice; expected it once",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "qrels.txt").write_text("q1 0 d1 1\nq1 0 d2 1500\nq2 0 d3 1\n")
    (tmp_path / "run.txt").write_text("q1 Q0 d1 1 2.0 t\nq1 Q0 d9 2 1.0 t\nq2 Q0 d3 1 0.5 t\n")
    return tmp_path


@pytest.mark.parametrize("name", PARAMETERS)
def test_absurd_parameters_are_refused(folder: Path, name: str) -> None:
    done = run_karat("evaluate", "qrels.txt", "run.txt", "-m", name, cwd=folder)
    assert done.returncode == 2 and PARAMETERS[name] in done.stderr


def test_a_grade_whose_gain_no_number_holds_is_an_error(folder: Path) -> None:
    done = run_karat("evaluate", "qrels.txt", "run.txt", "-m", "ndcg(gain=exp)@5", cwd=folder)
    assert done.returncode == 2
    assert "a grade of 1500 is too large: no number holds 2^grade − 1; use a smaller scale" in done.stderr
    assert "Warning" not in done.stderr
    assert run_karat("evaluate", "qrels.txt", "run.txt", "-m", "ndcg@5", cwd=folder).returncode == 0
    with pytest.raises(karat.KaratError, match=r"a grade of 1e\+300 is too large"):
        karat.evaluate({"q1": {"d1": 1e300}}, {"q1": ["d1"]}, "ndcg@5")


def test_a_damaged_header_of_npy_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "v.npy"
    np.save(path, np.eye(3, dtype=np.float32))
    (tmp_path / "v.ids.txt").write_text("d1\nd2\nd3\n")
    whole = path.read_bytes()
    for place in range(8, 80):
        for byte in b"\x00(')9\xff":
            path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
            try:
                vectors_of(embeddings_of(str(path)), ["d1"])
            except karat.InputError as error:
                assert str(error).startswith(str(path))


@pytest.mark.parametrize("verb", [("report",), ("check", "-g", "mrr >= 0.1", "--result"), ("bless",), ("diagnose",)])
def test_a_result_nested_too_deeply_is_damaged(folder: Path, verb: tuple[str, ...]) -> None:
    nested = '{"format_version": 2, "kind": "evaluation", "runs": ' + "[" * 100_000
    (folder / "r.json").write_text(nested + "]" * 100_000 + "}")
    done = run_karat(*verb, "r.json", cwd=folder)
    assert done.returncode == 2 and "r.json: is damaged" in done.stderr


@pytest.mark.parametrize("text", ["[" * 100_000, '{"q1": ' * 100_000, '{"q1": {"d1": [[1]]}}', '[{"": ""}]'])
def test_json_that_is_no_gold_is_refused(folder: Path, text: str) -> None:
    (folder / "g.json").write_text(text)
    for files in (("g.json", "run.txt"), ("qrels.txt", "g.json")):
        done = run_karat("evaluate", *files, cwd=folder)
        assert done.returncode == 2 and "g.json" in done.stderr


def test_a_closed_standard_output_is_said(folder: Path) -> None:
    program = f"{sys.executable} -m karat evaluate qrels.txt run.txt -m mrr --json - >&-"
    done = subprocess.run(program, shell=True, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "standard output: is closed" in done.stderr


@pytest.mark.parametrize("name", ["\x1b[31mred", "bell\x07", "a\x00b", "two\nlines"])
def test_control_characters_of_names_never_reach_the_terminal(folder: Path, name: str) -> None:
    done = run_karat("evaluate", "qrels.txt", name, cwd=folder)
    assert done.returncode == 2
    assert all(c.isprintable() or c == "\n" for c in done.stderr)
    (folder / "h.csv").write_text(f"query_id,doc_id,score,note{name[:1]}x\n1,2\n")
    (folder / "karat.yaml").write_text(json.dumps({f"key\x02{name}": 1}))
    for command in (("evaluate", "qrels.txt", "h.csv"), ("check",)):
        done = run_karat(*command, cwd=folder)
        assert all(c.isprintable() or c == "\n" for c in done.stderr)
