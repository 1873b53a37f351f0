"""No output is written over an input or over another output: refused before anything runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import karat
from command import run_karat

GOLD = "q1 0 d1 1\nq1 0 d2 2\nq2 0 d3 1\n"
RUN = "q1 Q0 d1 1 2.0 t\nq1 Q0 d9 2 1.0 t\nq2 Q0 d3 1 0.5 t\n"
CONFIG = "dataset: {qrels: qrels.txt}\nruns: [run*.txt]\ngates: ['mrr >= 0.1']\n"
QUERIES = '{"query_id": "q1"}\n{"query_id": "q2"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"qrels.txt": GOLD, "run.txt": RUN, "karat.yaml": CONFIG, "queries.jsonl": QUERIES}.items():
        (tmp_path / name).write_text(text, "utf-8")
    assert run_karat("evaluate", "qrels.txt", "run.txt", "--save", "saved.json", cwd=tmp_path).returncode == 0
    os.symlink("qrels.txt", tmp_path / "link.txt")
    os.link(tmp_path / "run.txt", tmp_path / "hard.txt")
    return tmp_path


INPUTS = {
    "evaluate qrels.txt run.txt --save qrels.txt": "--save: qrels.txt is an input",
    "evaluate qrels.txt run.txt --json run.txt": "--json: run.txt is an input",
    "evaluate qrels.txt run.txt --save ./../{folder}/qrels.txt": "is an input",
    "evaluate qrels.txt run.txt --save link.txt": "--save: link.txt is an input",
    "evaluate qrels.txt run.txt --save hard.txt": "--save: hard.txt is an input",
    "evaluate qrels.txt b=run.txt --markdown run.txt": "is an input",
    "evaluate qrels.txt ru?.txt --markdown run.txt": "is an input",
    "evaluate qrels.txt run.txt --queries queries.jsonl --json queries.jsonl": "--json: queries.jsonl is an input",
    "evaluate missing.txt run.txt --save run.txt": "--save: run.txt is an input",
    "evaluate -c karat.yaml --json qrels.txt": "--json: qrels.txt is an input",
    "evaluate qrels.txt run.txt --json a.json --save a.json": "--save: a.json is also what --json writes",
    "compare qrels.txt run.txt saved.json --markdown saved.json": "is an input",
    "check --markdown karat.yaml": "--markdown: karat.yaml is an input",
    "check --json run.txt": "--json: run.txt is an input",
    "check --result saved.json --json saved.json": "--json: saved.json is an input",
    "report saved.json -o saved.json": "--output: saved.json is an input",
    "bless saved.json -o saved.json": "--output: saved.json is an input",
    "bless -o qrels.txt": "--output: qrels.txt is an input",
    "bless karat.yaml -o run.txt": "--output: run.txt is an input",
    "sweep qrels.txt run.txt --json qrels.txt": "--json: qrels.txt is an input",
    "diagnose qrels.txt run.txt --json qrels.txt": "--json: qrels.txt is an input",
    "validate qrels.txt --json qrels.txt": "--json: qrels.txt is an input",
    "validate karat.yaml --json run.txt": "--json: run.txt is an input",
}


@pytest.mark.parametrize("command", INPUTS)
def test_an_output_that_is_an_input_or_another_output_is_refused(folder: Path, command: str) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = run_karat(*command.format(folder=folder.name).split(), cwd=folder)
    assert done.returncode == 2
    assert INPUTS[command] in done.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    "config",
    [
        CONFIG + "outputs: {json: qrels.txt}\n",
        CONFIG + "outputs: {markdown: karat.yaml}\n",
        CONFIG + "outputs: {markdown: run.txt}\n",
        CONFIG.replace("run*", "missing") + "outputs: {markdown: qrels.txt}\n",
        CONFIG + "outputs: {json: a.json, save: a.json}\n",
        CONFIG.replace("gates: [", "gates: [["),
    ],
)
def test_outputs_of_a_config_replace_none_of_its_files(folder: Path, config: str) -> None:
    (folder / "karat.yaml").write_text(config, "utf-8")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = run_karat("check", "--junit", "run.txt" if "[[" in config else "gates.xml", cwd=folder)
    assert done.returncode == 2
    assert "is an input" in done.stderr or "is also what" in done.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("command", ["bless", "bless -o base.json", "bless karat.yaml -o base.json"])
def test_bless_replaces_the_baseline_of_its_config(folder: Path, command: str) -> None:
    (folder / "karat.yaml").write_text(CONFIG + "baseline: base.json\n", "utf-8")
    damaged = '{"kind": "baseline", "runs": ['
    (folder / "base.json").write_text(damaged, "utf-8")
    done = run_karat(*command.split(), cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "base.json").read_text("utf-8") != damaged
    assert "--json: base.json is an input" in run_karat("check", "--json", "base.json", cwd=folder).stderr


@pytest.mark.parametrize("place", ["karat.yaml", "notes.txt", "saved.json"])
def test_bless_replaces_no_file_but_a_baseline(folder: Path, place: str) -> None:
    (folder / "notes.txt").write_text("mine\n", "utf-8")
    (folder / "karat.yaml").write_text(CONFIG + f"baseline: {place}\n", "utf-8")
    before = (folder / place).read_bytes()
    done = run_karat("bless", cwd=folder)
    assert done.returncode == 2
    assert f"{place} is there already and is not a baseline; name another file, or remove it first" in done.stderr
    with pytest.raises(karat.UsageError, match="is not a baseline"):
        karat.bless(karat.evaluate(str(folder / "qrels.txt"), str(folder / "run.txt")), str(folder / place))
    assert (folder / place).read_bytes() == before


def test_devices_may_be_named_twice(folder: Path) -> None:
    done = run_karat("evaluate", "qrels.txt", "run.txt", "--json", "/dev/null", "--markdown", "/dev/null", cwd=folder)
    assert done.returncode == 0
