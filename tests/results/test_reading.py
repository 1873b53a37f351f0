"""Bands, targets and what the gold allows: one reading of a value, shown by every output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

import karat
from command import run_karat
from karat.results.reading import attainable_value, read_value, readings_text

if TYPE_CHECKING:
    from pathlib import Path

QUERIES = [f"q{i}" for i in range(20)]
GOLD = {q: {"a": 1, "b": 1} for q in QUERIES}
PERFECT = {q: ["a", "b", "x", "y", "z"] for q in QUERIES}


def test_a_value_has_its_band_and_its_target() -> None:
    run = karat.evaluate(GOLD, {q: ["a", "x"] for q in QUERIES}, "recall@10,mrr,precision@5,hit@5").runs[0]
    assert read_value(run, "recall@10").text == "fair (from 0.4); below the usual target of 0.9"  # type: ignore[union-attr]
    assert read_value(run, "mrr").text == "reaches the usual target of 0.8 and the strict one of 0.9"  # type: ignore[union-attr]
    # Two relevant docs: precision@5 cannot exceed 2 / 5.
    assert read_value(run, "precision@5").text == "the gold allows at most 0.400 (the usual target is 0.7)"  # type: ignore[union-attr]
    assert read_value(run, "hit@5") is None
    assert readings_text(run).startswith("recall@10 fair (from 0.4); below the usual target of 0.9 · mrr reaches")


def test_a_mean_reciprocal_rank_between_the_targets_misses_the_strict_one() -> None:
    lists = {q: (["a"] if i % 10 < 7 else ["x", "a"]) for i, q in enumerate(QUERIES)}  # .7 + .3 / 2 = .85
    run = karat.evaluate(GOLD, lists, "mrr").runs[0]
    assert read_value(run, "mrr").text == "reaches the usual target of 0.8, not the strict one of 0.9"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("found", "text"), [(20, "excellent (from 0.9)"), (11, "good (from 0.5)"), (2, "poor (below 0.3)")]
)
def test_a_band_says_where_it_begins_and_the_lowest_where_it_ends(found: int, text: str) -> None:
    """Of 20 queries so many have ndcg@10 1, the others 0: 1, 0.55 and 0.1."""
    run = karat.evaluate(GOLD, {q: PERFECT[q] if i < found else ["x"] for i, q in enumerate(QUERIES)}, "ndcg@10").runs[
        0
    ]
    assert read_value(run, "ndcg@10").text == text  # type: ignore[union-attr]


@pytest.mark.parametrize("metric", [m.name for m in karat.all_metrics() if m.monotone and m.higher_is_better])
def test_no_list_exceeds_what_the_gold_allows(metric: str) -> None:
    rng = np.random.default_rng(5)
    gold = {f"q{i}": {f"d{j}": int(rng.integers(0, 4)) for j in range(int(rng.integers(1, 7)))} for i in range(30)}
    best_lists = {q: sorted(docs, key=lambda d: -docs[d]) for q, docs in gold.items()}
    relevant = {q: [d for d in docs if gold[q][d] >= 1] for q, docs in best_lists.items()}
    random = {q: list(rng.permutation([*docs, "x", "y"])) for q, docs in best_lists.items()}
    cut = "" if karat.lookup(metric).cutoff == "none" else "@0.5" if karat.lookup(metric).cutoff == "recall" else "@3"
    for lists in (best_lists, relevant, random):
        run = karat.evaluate(gold, lists, metric + cut).runs[0]
        best = attainable_value(run, metric + cut)
        if best is not None:
            assert run.mean[metric + cut] <= best + 1e-9


def test_the_best_value_is_weighted_as_the_mean_is() -> None:
    gold = {"q1": ["a"], "q2": ["a", "b", "c", "d", "e"]}
    queries = {"q1": {"weight": 3}, "q2": {"weight": 1}}
    run = karat.evaluate(gold, {"q1": ["a"], "q2": ["a"]}, "precision@5", queries=queries).runs[0]
    assert run.attainable["precision@5"] == pytest.approx((3 * 0.2 + 1) / 4)


def test_chunks_that_all_count_are_not_limited_by_the_number_of_gold_docs(tmp_path: Path) -> None:
    lines = [{"query_id": q, "topk": [{"chunk_id": f"a#{i}"} for i in range(5)]} for q in QUERIES]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    gold = {q: ["a"] for q in QUERIES}
    result = karat.evaluate(gold, tmp_path / "log.jsonl", "precision@5", chunk_credit="all")
    assert result.mean["precision@5"] == 1.0
    assert read_value(result.runs[0], "precision@5").text == "reaches the usual target of 0.7"  # type: ignore[union-attr]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "gold.txt").write_text("".join(f"{q} 0 {d} 1\n" for q in QUERIES for d in "ab"))
    for name, docs in (("good", "abxyz"), ("fair", "xaybz")):
        lines = [f"{q} Q0 {d} {i} {9 - i} t\n" for q in QUERIES for i, d in enumerate(docs, start=1)]
        (tmp_path / f"{name}.run").write_text("".join(lines))
    return tmp_path


def test_every_output_has_the_reading(files: Path) -> None:
    names = ("-m", "precision@5,ndcg@10")
    limit = "the gold allows at most 0.400 (the usual target is 0.7)"
    one = run_karat("evaluate", "gold.txt", "good.run", *names, cwd=files, COLUMNS="160")
    assert limit in one.stdout and "excellent" in one.stdout
    arguments = ("--json", "out.json", "--markdown", "out.md", "--html", "out.html", "--save", "saved.json")
    two = run_karat("evaluate", "gold.txt", "good.run", "fair.run", *names, *arguments, cwd=files, COLUMNS="300")
    assert f"rules of thumb, fair: precision@5 {limit} · ndcg@10 good" in two.stdout
    document = json.loads((files / "out.json").read_text())
    reading = document["runs"][0]["metrics"]["precision@5"]["reading"]
    assert reading == {"text": limit, "target": 0.7, "attainable": 0.4}
    assert document["runs"][0]["metrics"]["ndcg@10"]["reading"]["band"] == "excellent"
    assert "the gold allows at most 0.400" in (files / "out.md").read_text()
    assert limit in (files / "out.html").read_text()
    (files / "karat.yaml").write_text(
        "dataset: {qrels: gold.txt}\nruns: {good: good.run}\nmetrics: [precision@5]\ngates: [hit@5 >= 0.5]\n"
    )
    assert f"rules of thumb, good: precision@5 {limit}" in run_karat("check", cwd=files, COLUMNS="300").stdout


@pytest.mark.parametrize(
    ("gate", "fails"),
    [
        ("precision@5 >= 0.60", True),
        ("precision@5 >= 0.60 at the mean", True),
        ("precision@5 >= 0.60 where language = de", True),
        ("precision@5 >= 0.60 for every language", True),
        ("precision@5 >= 0.40 at the mean", False),
        ("precision@5 <= 0.60", False),
        ("precision(denom=retrieved)@5 >= 0.60", False),  # a list of the relevant docs alone reaches 1
    ],
)
def test_a_gate_above_what_the_gold_allows_is_an_error_that_says_so(files: Path, gate: str, fails: bool) -> None:
    rows = [json.dumps({"_id": q, "text": "?", "language": "de" if i % 2 else "en"}) for i, q in enumerate(QUERIES)]
    (files / "queries.jsonl").write_text("\n".join(rows))
    (files / "karat.yaml").write_text(
        f"dataset: {{qrels: gold.txt, queries: queries.jsonl}}\nruns: {{good: good.run}}\ngates: ['{gate}']\n"
    )
    done = run_karat("check", cwd=files)
    assert (done.returncode == 2) == fails, done.stderr
    if fails:
        assert "can never pass: the gold allows at most 0.4000" in done.stderr
        assert "lower the threshold" in done.stderr


def advice(folder: Path, gate: str) -> str:
    """What is said to do about a gate above what the gold allows."""
    (folder / "karat.yaml").write_text(f"dataset: {{qrels: gold.txt}}\nruns: {{good: good.run}}\ngates: ['{gate}']\n")
    return run_karat("check", cwd=folder).stderr.partition("even for a perfect order; ")[2].strip()


def test_advice_on_an_impossible_gate_makes_it_possible(tmp_path: Path) -> None:
    """6 relevant docs for each of 20 queries, and 2 queries without any: recall@5 is 5/6 at most, on all 22 .7576."""
    gold = [f"q{i} 0 d{j} 1\n" for i in range(20) for j in range(6)] + [f"e{i} 0 d0 0\n" for i in range(2)]
    (tmp_path / "gold.txt").write_text("".join(gold))
    (tmp_path / "good.run").write_text(
        "".join(
            f"{q} Q0 d{j} {j + 1} {9 - j} t\n" for q in (*(f"q{i}" for i in range(20)), "e0", "e1") for j in range(9)
        )
    )
    leave_out = (
        "leave out queries that can only score 0: 2 queries have no relevant doc in the gold (--empty-gold skip, or "
        "no_answer in the table of queries)"
    )
    # Without the two queries 5/6 is enough for .8 and not for .85; at 10 all 6 docs fit, but for the two queries.
    assert advice(tmp_path, "recall@5 >= 0.8") == (
        f"lower the threshold, take another cutoff (the gold allows 0.9091 of recall@10), or {leave_out}"
    )
    assert advice(tmp_path, "recall@5 >= 0.85") == (
        "lower the threshold, or take another cutoff (the gold allows 0.9091 of recall@10)"
    )
    # Of the first 10 docs 6 at most are relevant: more relevant docs would raise precision, and never recall.
    assert advice(tmp_path, "precision@10 >= 0.8") == (
        "lower the threshold, take another cutoff (the gold allows 0.9091 of precision@5), or judge more docs"
    )


@pytest.mark.parametrize(
    ("purpose", "names"),
    [
        ("top 3", {"precision@3", "ndcg@3"}),
        ("sanity", {"hit@10"}),
        ("a/b test", {"mrr", "ndcg@5"}),
        ("several pieces", {"recall@10", "map"}),
        ("one answer", {"mrr"}),
    ],
)
def test_metrics_for_a_purpose_have_their_cutoffs(purpose: str, names: set[str], tmp_path: Path) -> None:
    out = run_karat("metrics", "--for", purpose, cwd=tmp_path).stdout
    assert {line.split()[0] for line in out.splitlines() if "  " in line} == names


def test_every_purpose_names_a_metric_that_can_be_parsed() -> None:
    for metric in karat.all_metrics():
        for name in metric.suits.values():
            assert karat.parse(name).metric is metric


def test_empty_result_lists_are_counted_in_a_warning() -> None:
    lists = {q: (["a"] if i % 4 else []) for i, q in enumerate(QUERIES)}
    result = karat.evaluate(GOLD, lists, "recall@10")
    assert any("nothing was returned for 5 judged queries" in note for note in result.notes)
    without = karat.evaluate(GOLD, {q: docs for q, docs in lists.items() if docs}, "recall@10")
    assert not any("empty result list" in note for note in without.notes)  # they are missing from the run instead
