"""Pools: which pairs are in them, in which order, and with which probability."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

from command import run_karat
from karat.judge.judgments import Judgment, Person, add_judgments
from karat.judge.pairs import Draw, read_pairs
from karat.judge.pool import build_pool
from karat.model.policy import Policy
from karat.read.sources import read_qrels, read_run

A = {"q1": {"d1": 3.0, "d2": 2.0, "d3": 1.0}, "q2": {"d4": 1.0}}
B = {"q1": {"d3": 3.0, "d1": 2.0, "d9": 1.0}}
RUNS = [read_run(A, name="a"), read_run(B, name="b")]


def test_the_pool_is_the_union_of_the_tops_without_what_is_judged() -> None:
    pool = build_pool(RUNS, depth=2)
    assert {pair.ids for pair in pool.pairs} == {("q1", "d1"), ("q1", "d2"), ("q1", "d3"), ("q2", "d4")}
    assert (pool.total, pool.judged, pool.queries) == (4, 0, 2)
    gold = read_qrels({"q1": {"d1": 0, "d2": -1}, "q3": {"d5": 1}})  # a negative grade is not a judgment
    pool = build_pool(RUNS, depth=2, gold=gold, judged={("q2", "d4"): 1.0})
    assert {pair.ids for pair in pool.pairs} == {("q1", "d2"), ("q1", "d3")}
    assert (pool.total, pool.judged) == (4, 2)


def test_random_order_gives_every_pair_the_probability_it_states() -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for seed in range(2000):
        pool = build_pool(RUNS, depth=3, limit=2, seed=seed)
        assert {pair.drawn for pair in pool.pairs} == {Draw("random", 2 / 5)}
        counts.update(pair.ids for pair in pool.pairs)
    # 2 of 5 pairs: 800 expected, standard deviation 22
    assert len(counts) == 5 and all(abs(n - 800) < 5 * 22 for n in counts.values())
    assert build_pool(RUNS, seed=3) == build_pool(RUNS, seed=3)


def test_pairs_by_value_come_in_the_order_of_how_much_their_grade_could_change() -> None:
    # Nothing suggests yet that one run is better. Discounts at ranks 1, 2, 3: 1, .631, .5. d4 and d5 are at rank 1 of
    # one run; d3 at 3 and 1; d2 at 2 of a; d9 at 3 of b; d1 at 1 and 2. With fewer queries nothing is significant.
    runs = [
        read_run({f"{q}-{i}": docs for q, docs in own.items() for i in range(9)}, name=name)
        for name, own in (("a", A), ("b", B | {"q2": {"d5": 1.0}}))
    ]
    pool = build_pool(runs, depth=3, order="value")
    docs = [pair.doc_id for pair in pool.pairs]
    assert set(docs[:18]) == {"d4", "d5"}  # 1
    assert docs[18:27] == ["d2"] * 9  # 1 / log2(3) = .631
    assert set(docs[27:45]) == {"d3", "d9"}  # 1 - .5 and .5
    assert docs[45:] == ["d1"] * 9  # 1 - .631
    assert math.isclose(1 / math.log2(3), 0.631, abs_tol=0.001)
    assert {pair.drawn for pair in pool.pairs} == {Draw("value")}
    alone = build_pool(RUNS[1:], order="value")
    assert [pair.doc_id for pair in alone.pairs] == ["d3", "d1", "d9"]


def test_chunks_are_judged_as_docs_where_the_gold_is_by_doc() -> None:
    run = read_run({"q1": {"d1#p1": 3.0, "d1#p2": 2.0, "d2#p1": 1.0}, "q2": {"d3#p1": 1.0}})
    gold = read_qrels({"q1": {"d1": 1}})
    assert {pair.ids for pair in build_pool([run], gold=gold).pairs} == {("q1", "d2"), ("q2", "d3")}
    assert len(build_pool([run]).pairs) == 4
    assert {p.doc_id for p in build_pool([run], policy=Policy(level="doc")).pairs} == {"d1", "d2", "d3"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, run in (("a", A), ("b", B)):
        rows = [f"{q} Q0 {d} 0 {s} t\n" for q, docs in run.items() for d, s in docs.items()]
        (tmp_path / f"{name}.run").write_text("".join(rows))
    (tmp_path / "gold.txt").write_text("q1 0 d1 1\n")
    return tmp_path


def test_the_command_writes_the_pairs_and_says_what_it_did(folder: Path) -> None:
    noon = "2026-11-16T12:00:00+00:00"
    add_judgments(str(folder / "judged.jsonl"), [Judgment("q1", "d2", 1, "0-3", Person("ana"), noon)])
    command = "judge pool a.run b.run --gold gold.txt --judgments judged.jsonl --depth 3 -o pairs.jsonl"
    done = run_karat(*command.split(), cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "pairs.jsonl: 3 pairs to judge, in random order" in done.stdout
    assert "2 of 5 pairs judged" in done.stdout
    pairs = read_pairs(str(folder / "pairs.jsonl")).rows
    assert {pair.ids for pair in pairs} == {("q1", "d3"), ("q1", "d9"), ("q2", "d4")}
    assert {pair.drawn for pair in pairs} == {Draw("random", 1.0)}
    done = run_karat("judge", "pool", "a.run", "b.run", "--order", "value", "-n", "2", "-o", "top.jsonl", cwd=folder)
    assert (
        "top.jsonl: nothing to judge (2 queries, depth 10; 0 of 5 pairs judged)" in done.stdout
    )  # 2 queries say nothing
    assert "decided: b against a: no significant difference, whatever the grades of 5 unjudged pairs" in done.stdout


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("judge pool a.run --order best -o p.jsonl", "order must be one of random, value, found 'best'"),
        ("judge pool a.run --level page -o p.jsonl", "level must be one of auto, chunk, doc, found 'page'"),
        ("judge pool a.run -o a.run", "a.run is an input"),
        ("judge pool c.run -o p.jsonl", "c.run: no such file"),
        ("judge pool a.run --judgments gold.txt -o p.jsonl", "gold.txt:1: not JSON"),
    ],
)
def test_wrong_input_is_refused_and_nothing_is_written(folder: Path, command: str, message: str) -> None:
    before = (folder / "a.run").read_bytes()
    done = run_karat(*command.split(), cwd=folder)
    assert done.returncode == 2 and message in done.stderr
    assert not (folder / "p.jsonl").exists() and (folder / "a.run").read_bytes() == before
