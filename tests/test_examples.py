"""The examples run, the pages show commands and options that exist, and every link of a page leads somewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

import karat
from karat.cli.app import app
from karat.metrics import unregister
from places import ROOT

EXAMPLES = ROOT / "examples"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", EXAMPLES / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.name)
def test_an_example_runs_and_prints(path: Path) -> None:
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_gates_of_the_example_ship() -> None:
    check = karat.check(EXAMPLES / "gates" / "karat.yaml")
    assert check.verdict == "SHIP"
    assert {c.metric for c in check.comparisons} >= {"mrr"}


def test_every_example_is_in_the_list() -> None:
    page = (EXAMPLES / "README.md").read_text("utf-8")
    for path in EXAMPLES.iterdir():
        assert path.name == "README.md" or f"({path.name})" in page, path.name


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if not target.startswith(("http:", "https:", "#")):
            assert (page.parent / target.split("#")[0]).exists(), target


COMMANDS = [
    (page, line.split("   #")[0].removeprefix("$ "))
    for page in PAGES
    for line in page.read_text("utf-8").splitlines()
    if line.startswith("$ karat ")
]


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=lambda v: v[:50] if isinstance(v, str) else "")
def test_every_command_on_a_page_exists_with_its_options(page: Path, line: str) -> None:
    group = typer.main.get_command(app)
    words = iter(line.split()[1:])
    command: Any = group
    while hasattr(command, "commands"):
        command = command.commands[next(words)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for option in re.findall(r"(?<=\s)(--?[a-z][\w-]*)", line.split(" | ")[0]):
        assert option in known, f"{page.name}: {option}"


def test_the_python_of_the_readme_and_of_the_library_page_is_python() -> None:
    for page in (ROOT / "README.md", ROOT / "docs" / "library.md", ROOT / "docs" / "statistics.md"):
        for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            compile(block, str(page), "exec")
            for name in re.findall(r"\bkarat\.(\w+)(?=[(\s])", block):
                assert hasattr(karat, name), f"{page.name}: karat.{name}"


def test_the_first_example_of_the_library_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    gold = [f"q{q} 0 d{q}_{d} {1 + d}" for q in range(30) for d in range(2)]
    Path("qrels.txt").write_text("\n".join(gold) + "\n")
    ranked = {q: [f"x{q}", f"d{q}_1", f"d{q}_0"][q % 3 :] for q in range(30)}
    for name in ("bm25", "old", "new", "a", "b", "c"):
        rows = [f"q{q} Q0 {doc} {i} {-i} t" for q, docs in ranked.items() for i, doc in enumerate(docs)]
        Path(f"{name}.run").write_text("\n".join(rows if name != "new" else rows[5:]) + "\n")
    lines = [
        {"query_id": f"q{q}", "topk": [{"doc_id": doc} for doc in docs], "latency_ms": {"retrieve": q + 1}}
        for q, docs in ranked.items()
    ]
    for name in ("dense.jsonl", "log.jsonl"):
        Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = [{"_id": f"q{q}", "text": "?", "language": ("de", "en")[q % 2]} for q in range(30)]
    Path("queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    exec(blocks(ROOT / "docs" / "library.md", "karat.write_report"), {})
    assert Path("report.html").exists()
    assert karat.load("details.json")


def test_the_metric_of_the_library_page_works() -> None:
    page = (ROOT / "docs" / "library.md").read_text("utf-8")
    block = next(b for b in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "@karat.metric" in b)
    names = {"karat": karat, "qrels": {"q": {"a": 1, "b": 2}}, "run": {"q": ["x", "b"]}}
    try:
        exec(block, names)
        assert karat.score("second(rel=2)", ["x", "b"], {"b": 2}) == 1
    finally:
        unregister("second")


def blocks(page: Path, marker: str) -> str:
    """The Python block of a page that holds a marker, without the indentation of its list."""
    found = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    return textwrap.dedent(next(block for block in found if marker in block))


def test_the_metric_of_the_contributors_guide_works() -> None:
    try:
        exec(blocks(ROOT / "CONTRIBUTING.md", "@metric("), {})
        assert karat.score("mean_relevant_rank", ["x", "a", "b"], {"a": 1, "b": 2}) == (2 + 3) / 2
        assert karat.score("mean_relevant_rank(rel=2)@10", ["x", "a", "b"], {"a": 1, "b": 2}) == 3
        assert np.isnan(karat.score("mean_relevant_rank@1", ["x", "a"], {"a": 1}))
    finally:
        unregister("mean_relevant_rank")


def test_the_output_format_of_the_contributors_guide_works(tmp_path: Path) -> None:
    from karat.report.formats import Problem
    from karat.report.view import view_of

    names: dict[str, Any] = {}
    exec(blocks(ROOT / "CONTRIBUTING.md", "FORMAT = Format("), names)
    result = karat.evaluate({"q": {"a": 1}}, {"one": {"q": ["a"]}, "two": {"q": ["b"]}}, "mrr")
    names["FORMAT"].write(view_of(result), str(tmp_path / "t.tsv"))
    assert (tmp_path / "t.tsv").read_text() == "one\t1.0\ntwo\t0.0\n"
    names["FORMAT"].write_error(Problem(["broken"]), str(tmp_path / "t.tsv"))
    assert (tmp_path / "t.tsv").read_text() == "error: broken\n"


def test_the_input_format_of_the_contributors_guide_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from karat.read.formats import all_formats

    names: dict[str, Any] = {}
    exec(blocks(ROOT / "CONTRIBUTING.md", "FORMAT = InputFormat("), names)
    monkeypatch.setitem(all_formats(), "letor", names["FORMAT"])
    path = tmp_path / "gold.letor"
    path.write_text("2 qid:1 1:0.5 2:0.1 # d1\n0 qid:1 1:0.1 # d2\n1 qid:2 1:0.3 # d1\n")
    assert karat.evaluate(path, {"1": ["d2", "d1"], "2": ["d1"]}, "mrr").mean["mrr"] == 0.75
    assert karat.read_qrels(path, format="letor").query_ids == ["1", "2"]
    path.write_text("2 qid:1 1:0.5 # d1\nhigh qid:1 # d2\n1 qid:2 1:0.3\n")
    with pytest.raises(karat.InputError, match=r'gold.letor:2: expected .* found "high qid:1 # d2"\n.*letor:3: '):
        karat.read_qrels(path)
    for odd in ("\n \n1\tqid:1\t# d\u20281\n", "1 qid:1 1:0.5 # d\u20281"):
        unnamed = tmp_path / "gold"
        unnamed.write_text(odd, "utf-8")
        assert list(karat.read_qrels(unnamed).docs) == ["d\u20281"]
    for line, message in (("1 qid:1 # a b", "expected `grade"), ("1 qid:1 # a\0b", r'the doc id "a\x00b" holds a NUL')):
        path.write_text(f"2 qid:1 1:0.5 # d1\n{line}\n")
        with pytest.raises(karat.InputError, match=f"gold.letor:2: {re.escape(message)}"):
            karat.read_qrels(path)
        assert [f.where for f in karat.validate(path).findings if f.code == "F001"] == [(f"{path}:2",)]
    with pytest.raises(karat.InputError, match=r"gold\.letor: looks like LETOR, a format of gold alone; expected"):
        karat.read_run(path)
    path.write_bytes(b"1 qid:1 # d1\n2 qid:1 # d\xe9\n")
    with pytest.raises(karat.InputError, match=r"gold.letor:2: not UTF-8 near .* convert the file"):
        karat.read_qrels(path)
    path.write_text("2 qid:1 1:0.5 # d1\nhigh qid:1 # d2\n1 qid:2 1:0.3\n")
    places = [place for finding in karat.validate(path).findings if finding.code == "F001" for place in finding.where]
    assert places == [f"{path}:2", f"{path}:3"]
    with pytest.raises(karat.UsageError, match=r"the format must be one of .*csv.*, found 'letor'"):
        karat.read_run(path, format="letor")
