"""Names of runs, segments and queries are text in every verb: they never become markup."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from karat.cli.app import app

NAMES = ("v1[old]", "v2[/b][red]", "[bold]x[/bold]", ":smile:")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """30 queries with hostile ids in hostile segments, and a run log for each name; the first misses every third."""
    monkeypatch.chdir(tmp_path)
    queries = [f"q{i:02}[/i]" for i in range(30)]
    (tmp_path / "gold.qrels").write_text("".join(f"{q} 0 d[{q}] 1\n" for q in queries))
    table = [{"query_id": q, "text": f"[red]{q}", "kind": "[/b] a" if i % 2 else "b[x]"} for i, q in enumerate(queries)]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    for n, name in enumerate(NAMES):
        lines = []
        for i, q in enumerate(queries):
            doc = f"d[{q}]" if i % (3 + n) else "other[/b]"
            lines.append({"query_id": q, "system": name, "topk": [{"rank": 1, "chunk_id": doc}]})
        (tmp_path / f"run{n}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    runs = "".join(f"  {json.dumps(name)}: run{n}.jsonl\n" for n, name in enumerate(NAMES))
    (tmp_path / "karat.yaml").write_text(
        "dataset: {qrels: gold.qrels, queries: queries.jsonl}\n"
        f"runs:\n{runs}baseline: {json.dumps(NAMES[0])}\nmetrics: [ndcg@10, mrr]\nsegments: [kind]\n"
        "gates: ['mrr >= 0.9', 'mrr >= 0.1 for every kind', {gate: 'mrr better than baseline', name: '[/x]'}]\n"
    )
    (tmp_path / "v1[old].run").write_text("".join(f"{q} Q0 d[{q}] 1 2.0 t\n" for q in queries))
    (tmp_path / "v2[new].run").write_text("".join(f"{q} Q0 d 1 2.0 t\n" for q in queries))
    return tmp_path


def printed(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


def test_evaluate_and_compare_print_names_of_files_whole(project: Path) -> None:
    for verb in ("evaluate", "compare", "sweep", "reliability"):
        text = printed(verb, "gold.qrels", "v1[old].run", "v2[new].run")
        assert "v1[old]" in text and "v2[new]" in text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("evaluate", "gold.qrels", "--queries", "queries.jsonl", "--by", "kind", "-v"), 0),
        (("compare", "gold.qrels", "--queries", "queries.jsonl", "--by", "kind", "--all-pairs", "-m", "mrr"), 0),
        (("sweep", "gold.qrels", "-m", "ndcg", "--queries", "queries.jsonl", "--by", "kind"), 0),
    ],
)
def test_verbs_over_files(project: Path, arguments: tuple[str, ...], code: int) -> None:
    verb, gold, *rest = arguments
    text = printed(verb, gold, *(f"run{n}.jsonl" for n in range(len(NAMES))), *rest, code=code)
    assert "run0" in text
    assert "b[x]" in text and "[/b] a" in text


def test_check_prints_names_and_gates_whole(project: Path) -> None:
    text = printed("check", "karat.yaml", "-v", "--save", "saved.json", code=1)
    assert all(name in text for name in NAMES)
    assert "[/x]: mrr better than baseline" in text and "kind = [/b] a" in text


def test_bless_diagnose_and_validate_print_names_whole(project: Path) -> None:
    printed("check", "karat.yaml", "--save", "saved.json", "-q", code=1)
    for _ in range(2):  # the second replaces a baseline, and tells what changes
        text = printed("bless", "saved.json", "--run", NAMES[1], "-o", "base.json")
        assert f"{NAMES[1]} is the baseline" in text
    assert NAMES[1] in printed("compare", "base.json", "saved.json")
    text = printed("diagnose", "gold.qrels", "run0.jsonl", "--queries", "queries.jsonl", "--misses", "-")
    assert "q00[/i]" in text
    printed("validate", "gold.qrels", "queries.jsonl", "run0.jsonl")
