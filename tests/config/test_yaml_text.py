"""karat.yaml as YAML: merges and aliases work; what is not plain, or far too much, is an error with its line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import karat
from command import run_karat
from karat.config.yaml_text import read_yaml

HEAD = "dataset: {qrels: qrels.txt}\nruns: [run.txt]\n"
WRONG = {
    "dataset: !!omap [a: 1]\n": ':1: the tag "!!omap" has no meaning here',
    "dataset: !!set {a, b}\n": ':1: the tag "!!set" has no meaning here',
    HEAD + "gates: !!python/object:os.system [1]\n": ':3: the tag "!!python/object:os.system"',
    HEAD + "gates: !foo bar\n": ':3: the tag "!foo" has no meaning here',
    HEAD + "a: !!binary x\n": ':3: the tag "!!binary"',
    HEAD + "a: !!int x\n": ':3: expected a whole number of a usual size, found "x"',
    HEAD + "a: !!float x\n": ':3: expected a number, found "x"',
    HEAD + "a: !!bool x\n": ':3: expected true or false, found "x"',
    HEAD + "a: 2020-99-99\n": ":3: unknown key 'a'",
    HEAD + "confidence: 2020-99-99\n": ":3: confidence",
    HEAD + f"a: {'9' * 5000}\n": ":3: expected a whole number of a usual size, found",
    HEAD + f"a: {'[' * 700}\n": "nested too deeply",
    HEAD + f"a: {'[' * 60}{']' * 60}\n": ":3: nested more than 50 deep",
    HEAD + f"a: {'{a: ' * 60}1{'}' * 60}\n": ":3: nested more than 50 deep",
    "a: &a {b: *a}\n": ":1: nested more than 50 deep, or an alias that holds itself",
    "&a [*a]\n": "or an alias that holds itself",
    "a: &a {<<: *a, b: 1}\n": "a mapping that merges itself",
    HEAD + "? [a, b]\n: 1\n": ":3: a key must be text, found a sequence",
    HEAD + "1: 2\n": ":3: a key must be text, found 1",
    HEAD + "runs: x\n": ':3: the key "runs" appears twice',
    HEAD + "gates: [{<<: 5}]\n": ":3: << merges mappings",
    "# " + "x" * (1 << 20) + "\n" + HEAD: "is longer than",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "qrels.txt").write_text("q1 0 d1 1\nq2 0 d2 1\n")
    (tmp_path / "run.txt").write_text("q1 Q0 d1 1 2 t\nq2 Q0 d2 1 2 t\n")
    return tmp_path


@pytest.mark.parametrize("text", WRONG, ids=[text[-40:].strip()[:24] for text in WRONG])
def test_a_config_that_is_not_plain_is_an_error_with_its_line(folder: Path, text: str) -> None:
    (folder / "karat.yaml").write_text(text)
    done = run_karat("check", cwd=folder)
    assert done.returncode == 2, done.stderr
    assert f"karat.yaml{WRONG[text]}" in done.stderr or WRONG[text] in done.stderr


def test_merge_keys_and_aliases_work(folder: Path) -> None:
    gates = "gates: [&g {metric: hit@1, min: 0.1, level: warn}, {<<: *g, metric: mrr}, {<<: [*g], min: 0.2}]\n"
    (folder / "karat.yaml").write_text(HEAD + gates)
    decision = karat.check(str(folder / "karat.yaml"))
    assert [str(one.gate) for one in decision.gates] == ["hit@1 >= 0.1", "mrr >= 0.1", "hit@1 >= 0.2"]


def test_values_are_those_of_yaml_1_2() -> None:
    text = "[no, on, yes, true, ~, 10, 0x1f, 0o17, 1_000, 1e3, .5, .inf, '5', 2020-01-01, !!str 5, 1:30]"
    values, lines = read_yaml(text, "k")
    assert values == [
        *("no", "on", "yes", True, None, 10, 31, 15, 1000, 1000.0, 0.5, float("inf"), "5", "2020-01-01", "5", "1:30")
    ]
    assert lines[3,] == 1
    assert read_yaml("a:\n  b: &x [1]\n  c: *x\n", "k")[1] == {
        ("a",): 1,
        ("a", "b"): 2,
        ("a", "b", 0): 2,
        ("a", "c"): 3,
        ("a", "c", 0): 2,
    }


def test_aliases_of_aliases_are_bounded(folder: Path) -> None:
    laughs = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))
    (folder / "karat.yaml").write_text("a0: &a0 [lol]\n" + laughs)
    start = time.process_time()
    with pytest.raises(karat.InputError, match="more than 100,000 values, aliases included"):
        karat.check(str(folder / "karat.yaml"))
    assert time.process_time() - start < 5


def test_data_that_does_not_fit_into_memory_is_no_fault_of_ours(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("karat.read.sources.read_content", fail)
    done = run_karat("evaluate", "qrels.txt", "run.txt", cwd=folder)
    assert done.returncode == 2 and "does not fit into memory" in done.stderr
