"""Lists that end above a cutoff, or at unequal depths: named beside every figure they touch, and never a verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import karat
from command import run_karat
from karat.gates.language import parse_gate
from karat.report.view import view_of
from karat.results.depths import find_gap_of_depths

if TYPE_CHECKING:
    from pathlib import Path

QUERIES = 400
SHORT, DEEP = 10, 100
CUT = "lists of short end at rank 10, so recall@100 counts nothing below it"
UNEQUAL = "lists of short end at rank 10, of deep at rank 100, so map does not compare them fairly"


def lists(depth: int, relevant_at: tuple[int, ...]) -> dict[str, list[str]]:
    """Relevant docs at these ranks; every tenth query has few matches, and its list is short."""
    return {
        f"q{i}": [
            f"r{i}-{rank}" if rank in relevant_at else f"x{rank}"
            for rank in range(1, (3 if i % 10 == 0 else depth) + 1)
        ]
        for i in range(QUERIES)
    }


GOLD = {f"q{i}": {f"r{i}-{rank}": 1 for rank in ((1, 2, 60) if i else (1, 2))} for i in range(QUERIES)}
RUNS = {"short": lists(SHORT, (1, 2)), "deep": lists(DEEP, (2, 60)), "same": lists(DEEP, (1, 2, 60))}
"""`short` is better than `deep` down to rank 10, and equal to `same`; both find one doc more at rank 60."""
PAIR = {name: RUNS[name] for name in ("short", "deep")}


def evaluate(metrics: str, runs: Any = PAIR, **options: Any) -> karat.Result:
    return karat.evaluate(GOLD, runs, metrics, **options)


# --- what is said ---------------------------------------------------------------------------------------


def test_a_cutoff_below_the_end_of_the_lists_is_named() -> None:
    result = evaluate("recall@100,recall@10,mrr", {"short": RUNS["short"]})
    assert (result.counts["depth"], result.warnings) == (SHORT, (CUT,))
    assert evaluate("recall@100,map", {"deep": RUNS["deep"]}).warnings == ()


def test_unequal_depths_are_named_for_metrics_without_a_cutoff() -> None:
    texts = [remark.text for remark in view_of(evaluate("recall@10,map")).remarks if remark.serious]
    assert texts == [UNEQUAL]
    assert [remark.text for remark in view_of(evaluate("recall@100,map")).remarks if remark.serious] == [CUT, UNEQUAL]
    assert [remark.text for remark in view_of(evaluate("recall@10,precision@5")).remarks if remark.serious] == []


@pytest.mark.parametrize("metric", ["distinct_docs@100", "judged@100", "num_ret", "redundancy@100"])
def test_what_is_about_the_list_itself_is_not_touched(metric: str) -> None:
    assert evaluate(metric, {"short": RUNS["short"]}).warnings == ()


def test_a_condensed_list_is_as_deep_as_it_was() -> None:
    assert evaluate("recall@10", {"short": RUNS["short"]}, condensed=True).counts["depth"] == SHORT


def test_decisions_say_where_lists_end() -> None:
    found = karat.compare(GOLD, PAIR, "recall@100,recall@10,map")
    assert (found["recall@100"].depths, found["recall@10"].depths, found["map"].depths) == ((10, 100), None, (10, 100))
    for metric in ("recall@100", "map"):
        assert found[metric].statement.endswith("; lists end at rank 10 and 100 (baseline and candidate)")
    both = karat.compare(GOLD, {"short": RUNS["short"], "other": lists(SHORT, (1,))}, "recall@100")
    assert both["recall@100"].statement.endswith("; lists end at rank 10")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    rows = (f"{q} 0 {d} {g}" for q, docs in GOLD.items() for d, g in docs.items())
    (tmp_path / "gold.txt").write_text("\n".join(rows) + "\n")
    for name, run in PAIR.items():
        rows = (f"{q} Q0 {d} 0 {-rank} t" for q, docs in run.items() for rank, d in enumerate(docs))
        (tmp_path / f"{name}.run").write_text("\n".join(rows) + "\n")
    return tmp_path


@pytest.mark.usefixtures("few_draws")
def test_every_output_says_it(project: Path) -> None:
    files = ("--json", "o.json", "--markdown", "o.md", "--latex", "o.tex", "--html", "o.html", "--save", "o.sav")
    for verb in ("evaluate", "compare"):
        done = run_karat(
            verb, "gold.txt", "short.run", "deep.run", "-m", "recall@100,map", *files, cwd=project, COLUMNS="200"
        )
        assert done.returncode == 0, done.stderr
        assert CUT in done.stdout and UNEQUAL in done.stdout
        assert json.loads((project / "o.json").read_text())["warnings"][:2] == [CUT, UNEQUAL]
        for name in ("o.md", "o.tex", "o.html"):
            text = (project / name).read_text().replace("\u200b", "").replace("\\", "")
            assert "lists of short end at rank 10, of deep at rank 100" in text, name
        assert json.loads((project / "o.sav").read_text())["warnings"][:2] == [CUT, UNEQUAL]
    alone = run_karat("evaluate", "gold.txt", "short.run", "-m", "recall@100,mrr", cwd=project)
    (row,) = [line for line in alone.stdout.splitlines() if line.startswith("recall@100")]
    assert row.rstrip().endswith("lists end at rank 10")


# --- gates ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gate", "runs", "outcome", "told"),
    [
        (
            "recall@100 >= 0.5",
            "short",
            "undecided",
            "lists of short end at rank 10, so recall@100 counts nothing below it",
        ),
        (
            "recall@100 >= 0.9",
            "short",
            "undecided",
            "lists of short end at rank 10, so recall@100 counts nothing below it",
        ),
        ("recall@100 >= 0.5 at the mean", "short", "undecided", "lists of short end at rank 10"),
        ("recall@10 >= 0.5", "short", "pass", ""),
        ("recall >= 0.9", "short", "fail", ""),
        ("recall@100 >= 0.5 at any depth", "short", "pass", ""),
        # Depth alone may make a run with shorter lists fail, and one with longer lists pass; not the other way round.
        ("map no worse than baseline", "same short", "undecided", "lists of short end at rank 10, of same at rank 100"),
        ("map better than baseline", "short same", "undecided", "lists of short end at rank 10, of same at rank 100"),
        ("map no worse than baseline", "deep short", "pass", ""),
        ("map better than baseline", "short deep", "fail", ""),
        (
            "recall@100 no worse than baseline by 0.05",
            "deep short",
            "undecided",
            "lists of short end at rank 10, so recall@100",
        ),
        (
            "recall@100 no worse than baseline by 0.05",
            "short deep",
            "undecided",
            "lists of short end at rank 10, so recall@100",
        ),
        ("recall@10 no worse than baseline by 0.05", "short deep", "fail", ""),
        ("map better than baseline at any depth", "deep short", "pass", ""),
    ],
)
def test_a_gate_below_the_end_of_the_lists_decides_nothing(gate: str, runs: str, outcome: str, told: str) -> None:
    names = runs.split()
    result = evaluate(parse_gate(gate).metric, {name: RUNS[name] for name in names})
    base = names[0] if len(names) > 1 else None
    for one in (result, replace(result, runs=tuple(replace(r, rankings=None) for r in result.runs))):
        found = karat.check(one, [gate], baseline=base)
        (row,) = found.gates
        assert row.outcome == outcome, row.judged.why
        assert row.judged.why.startswith(told)
        assert found.verdict == {"undecided": "INCONCLUSIVE", "pass": "SHIP", "fail": "BLOCK"}[outcome]
        if told:
            assert "at any depth" in row.judged.why
            assert told in found.why


def test_a_blessed_baseline_has_a_depth(tmp_path: Path) -> None:
    ranks = tuple(range(1, 21))
    gold = {f"q{i}": {f"r{i}-{rank}": 1 for rank in ranks} for i in range(QUERIES)}
    path = karat.bless(karat.evaluate(gold, {"main": lists(DEEP, ranks)}, "map"), str(tmp_path / "base.json"))
    result = karat.evaluate(gold, {"main": lists(SHORT, ranks)}, "map")
    found = karat.check(result, ["map no worse than baseline by 0.01"], baseline=path)
    assert found.verdict == "INCONCLUSIVE"
    assert found.gates[0].judged.why.startswith(
        "lists of main end at rank 10, of baseline at rank 100, so map does not compare them fairly"
    )
    unequal = "lists of main end at rank 10, of baseline at rank 100, so map does not compare them fairly"
    assert unequal in [r.text for r in found.remarks]


def test_a_run_that_returns_nothing_fails() -> None:
    result = evaluate("recall@100", {"none": {q: [] for q in GOLD}})
    assert karat.check(result, ["recall@100 >= 0.5 at the mean"]).verdict == "BLOCK"


@pytest.mark.parametrize(
    "source",
    [
        {"metric": "recall@100", "min": 0.5, "depth": "as_is"},
        {"gate": "recall@100 >= 0.5", "depth": "as_is"},
        "recall@100 >= 0.5 at any depth",
    ],
)
def test_a_gate_can_take_lists_as_they_are(source: Any) -> None:
    gate = parse_gate(source)
    assert gate.any_depth
    assert str(gate) == "recall@100 >= 0.5 at any depth"
    with pytest.raises(karat.UsageError, match="depth must be 'as_is'"):
        parse_gate({"metric": "recall@100", "min": 0.5, "depth": "deep"})


def test_karat_yaml_takes_the_depth_of_a_gate(project: Path) -> None:
    gate = "{metric: recall@100, min: 0.5, depth: as_is}"
    (project / "karat.yaml").write_text(f"dataset: {{qrels: gold.txt}}\nruns: [short.run]\ngates: [{gate}]\n")
    assert run_karat("check", cwd=project).returncode == 0
    (project / "karat.yaml").write_text("dataset: {qrels: gold.txt}\nruns: [short.run]\ngates: [recall@100 >= 0.5]\n")
    done = run_karat("check", "--markdown", "c.md", "--junit", "c.xml", "--html", "c.html", cwd=project)
    assert done.returncode == 3
    for text in (done.stdout, *((project / name).read_text() for name in ("c.md", "c.xml", "c.html"))):
        assert "lists of short end at rank 10, so recall@100 counts nothing below it" in text.replace("\u200b", "")


def test_a_metric_that_takes_no_cutoff_is_not_told_to_take_one() -> None:
    for metric, remedy in (("gm_map", "retrieve lists of equal depth"), ("map", "use a cutoff up to 7")):
        gap = find_gap_of_depths(metric, {"new": 7, "old": 100})
        assert gap is not None and f"; {remedy}, or add `at any depth` to the gate" in gap.reason
