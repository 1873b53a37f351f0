"""Judging by value: which pairs matter, and that a comparison is called decided only where every completion agrees."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import karat
from command import run_karat
from karat.judge.judgments import Judgment, Person, add_judgments
from karat.judge.pairs import read_pairs
from karat.judge.pool import Pool, build_pool
from karat.model.run import Run
from karat.read.sources import read_qrels, read_run

Grades = Mapping[tuple[str, str], float]
OUTCOMES = {"better": "higher", "worse": "lower", "no significant difference": "no significant difference"}


@dataclass(frozen=True)
class Project:
    """Runs, and the true grade of every doc."""

    runs: Sequence[Run]
    truth: Grades

    def compare(self, metric: str) -> dict[str, str]:
        """What full judging says of each candidate."""
        gold: dict[str, dict[str, float]] = {}
        for query, doc in (pair.ids for pair in build_pool(self.runs, depth=5).pairs):
            gold.setdefault(query, {})[doc] = self.truth[query, doc]
        comparison = karat.compare(gold, {run.name: run for run in self.runs}, metric)
        return {row.candidate: OUTCOMES[row.outcome] for row in comparison.rows}


def plant(seed: int, shifts: Sequence[float], queries: int = 25) -> Project:
    """Systems that see true grades through noise; the more of a shift, the less noise."""
    rng = np.random.default_rng(seed)
    grades = rng.choice([0, 0, 0, 1, 2, 3], (queries, 30)).astype(float)
    runs = []
    for number, shift in enumerate(shifts):
        scores = grades * shift + rng.normal(size=grades.shape)
        rows = {
            f"q{q:02}": {f"d{d}": float(scores[q, d]) for d in np.argsort(-scores[q])[:8]}
            for q in range(queries)
            if not (q == 3 and number == 1)  # a run that lacks a query
        }
        runs.append(read_run(rows, name=f"run{number}"))
    truth = {(f"q{q:02}", f"d{d}"): grades[q, d] for q in range(queries) for d in range(30)}
    return Project(runs, truth)


def rounds(project: Project, order: str, metric: str, batch: int) -> list[tuple[int, Pool]]:
    """Judge batch by batch until all comparisons are decided: what the pool says after so many judgments."""
    judged: dict[tuple[str, str], float] = {}
    queue = [pair.ids for pair in build_pool(project.runs, depth=5, seed=1).pairs]
    out = []
    while True:
        pool = build_pool(project.runs, depth=5, judged=judged, order="value", metric=metric)
        out.append((len(judged), pool))
        if all(row.change.final is not None for row in pool.comparisons):
            assert not pool.pairs and pool.open == 0
            return out
        assert pool.pairs
        chosen = [pair.ids for pair in pool.pairs] if order == "value" else [ids for ids in queue if ids not in judged]
        judged |= {ids: project.truth[ids] for ids in chosen[:batch]}


@pytest.mark.parametrize("metric", ["ndcg@5", "precision(rel=2)@5", "ndcg(gain=exp)@3"])
@pytest.mark.parametrize(("seed", "shifts"), [(1, (0.3, 1.5)), (2, (1.0, 0.2)), (3, (0.7, 0.7)), (4, (0.4, 0.6, 1.6))])
def test_no_step_claims_what_full_judging_denies(seed: int, shifts: tuple[float, ...], metric: str) -> None:
    project = plant(seed, shifts)
    full = project.compare(metric)
    steps = {order: rounds(project, order, metric, batch=15) for order in ("value", "random")}
    for _, pool in (step for own in steps.values() for step in own):
        for row in pool.comparisons:
            assert full[row.candidate] in row.change.directions
            assert row.change.final in (None, full[row.candidate])
    assert len(steps["value"]) > 2  # not all was decided from the start
    assert steps["value"][-1][0] <= steps["random"][-1][0]


def test_by_value_needs_fewer_judgments_than_random_order() -> None:
    counts = {"value": 0, "random": 0}
    for seed in range(4):
        project = plant(seed, (0.3, 1.5))
        for order in counts:
            counts[order] += rounds(project, order, "ndcg@5", batch=10)[-1][0]
    assert counts["value"] < 0.85 * counts["random"]


def test_chunks_of_one_doc_are_compared_as_karat_compares_them() -> None:
    runs = [
        read_run({f"q{i}": {f"d{i}#p1": 3.0, f"d{i}#p2": 2.0, f"e{i}#p1": 1.0} for i in range(20)}, name="a"),
        read_run({f"q{i}": {f"e{i}#p1": 3.0, f"x{i}#p1": 2.0, f"d{i}#p1": 1.0} for i in range(20)}, name="b"),
    ]
    gold = {f"q{i}": {f"d{i}": 1, f"e{i}": 0, f"x{i}": 0} for i in range(20)}
    for metric in ("ndcg@3", "precision@2"):
        pool = build_pool(runs, gold=read_qrels(gold), depth=3, order="value", metric=metric, scale=(0, 1))
        (row,) = karat.compare(gold, {run.name: run for run in runs}, metric).rows
        (own,) = pool.comparisons
        assert (own.change.low, own.change.high) == pytest.approx((row.difference.estimate,) * 2)
        assert own.change.final == "lower" and row.outcome == "worse"


def test_queries_that_only_the_gold_has_count() -> None:
    runs = [read_run({"q1": {"d1": 1.0}}, name="a"), read_run({"q1": {"d2": 1.0}}, name="b")]
    gold = read_qrels({"q1": {"d1": 1, "d2": 0}, "q2": {"d9": 1}})
    (row,) = build_pool(runs, gold=gold, order="value").comparisons
    assert row.change.low == row.change.high == -0.5  # -1 and 0


def test_pairs_that_tell_the_runs_apart_come_first() -> None:
    same = {"q1": {"s": 2.0, "t": 1.0}}
    runs = [
        read_run(same | {"q2": {"u": 2.0, "v": 1.0}}, name="a"),
        read_run(same | {"q2": {"v": 1.0, "w": 2.0}}, name="b"),
    ]
    by_ndcg = build_pool(runs, depth=2, order="value")
    assert (by_ndcg.open, by_ndcg.total, by_ndcg.comparisons[0].open) == (0, 5, 0)  # two queries decide nothing
    many = {f"r{i}": {"u": 2.0, "v": 1.0} for i in range(9)}, {f"r{i}": {"v": 1.0, "w": 2.0} for i in range(9)}
    runs = [read_run(same | own, name=name) for own, name in zip(many, "ab", strict=True)]
    by_ndcg = build_pool(runs, depth=2, order="value")
    assert "q1" not in {pair.query_id for pair in by_ndcg.pairs[:18]}  # its lists are the same
    by_precision = build_pool(runs, depth=2, order="value", metric="precision@2")
    assert {pair.doc_id for pair in by_precision.pairs[:18]} == {"u", "w"}  # v counts for both


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two runs of 12 queries; a's docs are relevant."""
    for name in "ab":
        rows = [f"q{q:02} Q0 {name}{rank} {rank} {9 - rank} {name}\n" for q in range(12) for rank in (1, 2, 3)]
        (tmp_path / f"{name}.run").write_text("".join(rows))
    return tmp_path


def test_the_command_says_what_is_open_and_what_is_decided(folder: Path) -> None:
    command = "judge pool b.run a.run --order value --depth 3 -n 20 -o pairs.jsonl --judgments judged.jsonl"
    (folder / "judged.jsonl").write_text("")
    done = run_karat(*command.split(), cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (
        "pairs.jsonl: 20 pairs to judge, of 72, most valuable first (12 queries, depth 3; 0 of 72 pairs judged)"
        in done.stdout
    )
    assert (
        "open: a against b: worse, no significant difference or better, depending on 72 unjudged pairs" in done.stdout
    )
    assert "(ndcg@3, Δ between -1.0000 and +1.0000)" in done.stdout
    for _ in range(10):
        pairs = read_pairs(str(folder / "pairs.jsonl")).rows
        if not pairs:
            break
        assert {pair.drawn.how for pair in pairs} == {"value"}
        noon, ana = "2026-11-16T12:00:00+00:00", Person("ana")
        rows = [Judgment(*p.ids, 2 if p.doc_id[0] == "a" else 0, "0-3", ana, noon, drawn=p.drawn) for p in pairs]
        add_judgments(str(folder / "judged.jsonl"), rows)
        done = run_karat(*command.split(), cwd=folder)
    count = len((folder / "judged.jsonl").read_text().splitlines())
    assert count < 72
    assert f"pairs.jsonl: nothing to judge (12 queries, depth 3; {count} of 72 pairs judged)" in done.stdout
    assert (
        f"decided: a against b: better, whatever the grades of {72 - count} unjudged pairs (ndcg@3, Δ between +"
        in done.stdout
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-m recall@3", "pairs are valued by ndcg@k or precision@k, found recall@3"),
        ("-m ndcg@20", "ndcg@20 looks deeper than the pool: choose a cutoff up to 10, or a larger depth"),
        ("--gold gold.txt", "the gold has the grade 4, expected the scale 0-3: state --scale 0-4"),
        ("--judgments j.jsonl", "the judgments are on the scale 0-1, expected 0-3: state --scale 0-1"),
    ],
)
def test_what_cannot_be_valued_is_refused(folder: Path, options: str, message: str) -> None:
    (folder / "gold.txt").write_text("q01 0 a1 4\n")
    row = {
        "query_id": "q01",
        "doc_id": "a1",
        "grade": 1,
        "scale": "0-1",
        "by": {"kind": "person", "name": "x"},
        "at": "",
    }
    (folder / "j.jsonl").write_text(json.dumps(row) + "\n")
    done = run_karat(*f"judge pool a.run b.run --order value {options} -o p.jsonl".split(), cwd=folder)
    assert done.returncode == 2 and message in done.stderr
    assert not (folder / "p.jsonl").exists()
