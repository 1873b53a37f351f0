"""A baseline that is a run, a blessed file or a saved result: one comparison, whatever its form."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import karat

METRICS = ["ndcg@10", "map", "mrr", "recall@5", "precision@3", "rbp"]
GATES = [
    "ndcg@10 no worse than baseline by 0.05",
    "map no worse than baseline by 0.05",
    "mrr better than baseline",
    "recall@5 no worse than baseline by 5%",
]


def collection(seed: int, queries: int, changed: float) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Gold of 3 to 7 docs by query, so that values have more than 12 digits; a run, and one that differs in places."""
    draw = random.Random(seed)
    gold, old, new = {}, {}, {}
    for i in range(queries):
        docs = draw.sample(range(1000), 40)
        gold[f"q{i}"] = {f"d{d}": draw.choice((1, 1, 2, 3)) for d in draw.sample(docs[:25], draw.randint(3, 7))}
        old[f"q{i}"] = [f"d{d}" for d in docs]
        new[f"q{i}"] = draw.sample(old[f"q{i}"], len(docs)) if draw.random() < changed else old[f"q{i}"]
    return gold, old, new


@pytest.mark.parametrize("changed", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("queries", [12, 60, 150])
def test_a_baseline_in_a_file_decides_as_the_run_itself_does(tmp_path: Path, queries: int, changed: float) -> None:
    gold, old, new = collection(queries, queries, changed)
    both = karat.evaluate(gold, {"old": old, "new": new}, METRICS)
    candidate = karat.evaluate(gold, {"new": new}, METRICS, details=True)
    before = karat.evaluate(gold, {"old": old}, METRICS, details=True)
    blessed = karat.bless(before, str(tmp_path / "base.json"))
    before.save(str(tmp_path / "before.json"))
    candidate.save(str(tmp_path / "after.json"))
    as_run = karat.check(both, GATES, baseline="old", candidate="new")
    as_file = karat.check(candidate, GATES, baseline=blessed)
    of_saved = karat.check(karat.load(str(tmp_path / "after.json")), GATES, baseline=blessed)
    assert as_run.verdict == as_file.verdict == of_saved.verdict
    for one, two, three in zip(as_run.rows, as_file.rows, of_saved.rows, strict=True):
        assert one.judged.outcome == two.judged.outcome == three.judged.outcome
        assert one.judged.why == two.judged.why == three.judged.why
    compared = karat.compare(gold, {"old": old, "new": new}, METRICS)
    of_files = karat.compare(str(tmp_path / "before.json"), str(tmp_path / "after.json"))
    for metric in METRICS:
        runs, files = compared[metric], of_files[metric]
        assert (runs.outcome, runs.same_lists, runs.ties) == (files.outcome, files.same_lists, files.ties)
        assert files.p == pytest.approx(runs.p, abs=1e-9), metric
        assert runs.same_lists is (old == new)


@pytest.mark.parametrize("same", [True, False])
def test_what_no_query_changed_says_of_margins_is_what_its_interval_says(tmp_path: Path, same: bool) -> None:
    """80 queries that all score 1: the lists are the same, or differ below the relevant doc alone."""
    gold = {f"q{i}": {"a": 1, "b": 0} for i in range(80)}
    (tmp_path / "qrels.txt").write_text("".join(f"{q} 0 {d} {g}\n" for q, ds in gold.items() for d, g in ds.items()))
    for name, other in (("old", "b"), ("new", "b" if same else "c")):
        lines = [f"{q} Q0 {d} {r} {3 - r} t\n" for q in gold for r, d in enumerate(("a", other), start=1)]
        (tmp_path / f"{name}.run").write_text("".join(lines))
    gate = "ndcg@10 no worse than baseline by {}"
    config = "dataset: {{qrels: qrels.txt}}\nruns: {{old: old.run, new: new.run}}\nbaseline: old\ngates: ['{}']\n"
    codes = {}
    for margin in (0.001, 0.06):
        (tmp_path / "karat.yaml").write_text(config.format(gate.format(margin)))
        codes[margin] = {finding.code for finding in karat.validate(files=[str(tmp_path / "karat.yaml")]).findings}
    assert "K610" in codes[0.001] and "K610" not in codes[0.06]
    (row,) = karat.check(str(tmp_path / "karat.yaml")).rows
    assert -0.06 < row.found.low < -0.001  # the interval itself
