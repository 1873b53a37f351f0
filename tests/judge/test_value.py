"""Judging by value: which pairs matter, and that a comparison is called decided only where every completion agrees."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import karat
from command import run_karat
from karat.errors import UsageError
from karat.gates.evidence import judge_gates
from karat.gates.judge import JudgedGate
from karat.gates.language import parse_gate
from karat.gates.pool_rules import read_pool_gates
from karat.judge.judgments import Judgment, Person, add_judgments
from karat.judge.pairs import read_pairs
from karat.judge.pool import Pool, build_pool, find_best_ranks
from karat.judge.value import PooledRuns
from karat.metrics.grammar import parse
from karat.model.policy import Policy
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
    steps = {order: rounds(project, order, metric, batch=20) for order in ("value", "random")}
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
            counts[order] += rounds(project, order, "ndcg@5", batch=20)[-1][0]
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


METRICS = ("ndcg@5", "precision(rel=2)@5", "ndcg(gain=exp)@3")


def check(runs: Sequence[Run], grades: Grades, gates: Sequence[str]) -> dict[tuple[str, str], JudgedGate]:
    """What `karat check` says of gates, against the first run, once these pairs are judged."""
    gold: dict[str, dict[str, float]] = {}
    for (query, doc), grade in grades.items():
        gold.setdefault(query, {})[doc] = grade
    metrics = sorted({parse_gate(gate).metric for gate in gates})
    result = karat.evaluate(gold, {run.name: run for run in runs}, metrics, details=True)
    candidates = [run.name for run in runs[1:] or runs]
    rows = judge_gates([*map(parse_gate, gates)], result, candidates, baseline=result[runs[0].name])
    return {(str(row.gate), row.run): row for row in rows}


def pool_gates(runs: Sequence[Run], grades: Grades, gates: Sequence[str], **options: Any) -> Pool:
    rules = read_pool_gates(gates, [run.name for run in runs])
    return build_pool(runs, depth=5, judged=grades, order="value", gates=rules, **options)


def gates_around(metric: str, level: tuple[float, ...], change: tuple[float, ...], by: float) -> list[str]:
    """Gates of all kinds, with thresholds on both sides of these values."""
    out = []
    for value in (end + side for end in level for side in (-by, by)):
        if 0.001 < value < 0.999:
            out += [f"{metric} {op} {value:.9f}" for op in (">=", ">", "<=", "<")]
    for value in (end + side for end in change for side in (-by, by)):
        if abs(value) < 0.999:
            kind = "better than" if value > 0 else "no worse than"
            out.append(f"{metric} {kind} baseline by {abs(value):.9f}")
    return [*dict.fromkeys(out), f"{metric} better than baseline", f"{metric} no worse than baseline"]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("seed", "shifts", "queries"), [(1, (0.3, 1.5), 20), (2, (1.0, 0.2), 7), (3, (0.7, 0.7), 4)])
def test_with_all_pairs_judged_a_gate_is_what_check_says(
    metric: str, seed: int, shifts: tuple[float, ...], queries: int
) -> None:
    project = plant(seed, shifts, queries)
    grades = {pair.ids: project.truth[pair.ids] for pair in build_pool(project.runs, depth=5).pairs}
    level, change = (
        check(project.runs, grades, [gate])[gate, "run1"].found
        for gate in (f"{metric} >= 0.5", f"{metric} better than baseline")
    )
    runs = PooledRuns.of(
        {run.name: find_best_ranks(run, None, 5, Policy())[0] for run in project.runs},
        grades,
        (),
        parse(metric),
        range(4),
    )
    for found, partial in ((level, runs.level_of("run1")), (change, runs.change_to("run1"))):
        ends = partial.ends()
        assert (*ends.low, *ends.high) == pytest.approx((found.low, found.low, found.high, found.high), abs=1e-12)
    gates = gates_around(metric, (level.low, level.high), (change.low, change.high), 1e-6)
    rows = check(project.runs, grades, gates)
    pool = pool_gates(project.runs, grades, gates)
    assert not pool.pairs and len(pool.gates) == len(rows)
    assert [(row.gate, row.final) for row in pool.gates] == [
        (row.gate, rows[row.gate, row.run].outcome) for row in pool.gates
    ]
    assert queries < 5 or {row.final for row in pool.gates} == {"pass", "undecided", "fail"}


def find_extremes(values: Sequence[float]) -> tuple[float, ...]:
    """The least and the largest of the lower ends, and of the upper ends."""
    sides = (values[::2], values[1::2])
    return tuple(pick(side) for side in sides for pick in (min, max) if not np.isnan(side).any())


@pytest.mark.parametrize("seed", range(12))
def test_no_completion_has_an_outcome_that_the_pool_calls_impossible(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shifts = tuple(rng.choice([0.2, 0.7, 1.5, 3.0], 2).tolist())
    project = plant(seed, shifts, int(rng.choice([3, 5, 6, 9, 14])))
    ids = [pair.ids for pair in build_pool(project.runs, depth=5).pairs]
    scale = (0, 1, 2, 3) if seed % 2 else (0, 1)
    flat = seed % 4 == 3  # all docs alike: values at the bounds, and ties
    truth = {pair: float(scale[-1]) if flat else min(project.truth[pair], scale[-1]) for pair in ids}
    judged = {pair: grade for pair, grade in truth.items() if rng.random() < rng.choice([0.5, 0.9, 0.97])}
    free = [pair for pair in ids if pair not in judged]
    own = find_best_ranks(project.runs[1], None, 5, Policy())[0]
    simple = [dict.fromkeys(free, float(grade)) for grade in (0, scale[-1])]
    simple += [{pair: float(scale[-1] * ((pair in own) == wins)) for pair in free} for wins in (True, False)]
    completions = [*simple, truth]
    for _ in range(8):
        basis, moved = completions[rng.integers(5)], rng.random()
        completions.append({p: float(rng.choice(scale)) if rng.random() < moved else basis[p] for p in free})
    metric = str(rng.choice([*METRICS[::2], "precision@5", "precision@1"]))
    first = (f"{metric} >= 0.5", f"{metric} better than baseline")
    found = [check(project.runs, judged | completion, first) for completion in completions]
    ends = [
        [end for one in found for end in (one[gate, "run1"].found.low, one[gate, "run1"].found.high)] for gate in first
    ]
    gates = gates_around(metric, *(find_extremes(own) for own in ends), by=1e-6)
    pool = pool_gates(project.runs, judged, gates, scale=scale)
    possible = {(row.gate, row.run): row for row in pool.gates}
    for completion in completions:
        for key, row in check(project.runs, judged | completion, gates).items():
            assert row.outcome in possible[key].outcomes
    assert all((row.final is None) == (row.open > 0) for row in pool.gates)


def judge_until_decided(project: Project, gates: Sequence[str], order: str) -> int:
    """How many judgments decide all gates; every step is held against full judging."""
    ids = [pair.ids for pair in build_pool(project.runs, depth=5, seed=1).pairs]
    full = check(project.runs, {pair: project.truth[pair] for pair in ids}, gates)
    judged: dict[tuple[str, str], float] = {}
    while True:
        pool = pool_gates(project.runs, judged, gates)
        assert all(full[row.gate, row.run].outcome in row.outcomes for row in pool.gates)
        if all(row.final is not None for row in pool.gates):
            assert not pool.pairs
            return len(judged)
        chosen = [pair.ids for pair in pool.pairs] if order == "value" else [pair for pair in ids if pair not in judged]
        judged |= {pair: project.truth[pair] for pair in chosen[:10]}


@pytest.mark.parametrize("gate", ["ndcg@5 >= 0.4", "ndcg@5 >= 0.9", "ndcg@5 no worse than baseline by 0.1"])
def test_gates_need_fewer_judgments_by_value_than_in_random_order(gate: str) -> None:
    counts = {
        order: sum(judge_until_decided(plant(seed, (0.3, 2.0), 14), [gate], order) for seed in range(2))
        for order in ("value", "random")
    }
    assert counts["value"] < 0.85 * counts["random"]


def test_lists_that_decide_a_gate_alone() -> None:
    rows = {f"q{i}": {"d1": 3.0, "d2": 2.0, "d3": 1.0} for i in range(9)}
    runs = [read_run(rows, name="a"), read_run(rows, name="b")]
    gates = [
        "ndcg@3 no worse than baseline",
        "ndcg@3 better than baseline",
        "ndcg@5 > 0.1",
        "ndcg@5 > 0.1 at any depth",
    ]
    same, better, short, deep = pool_gates(runs, {}, gates).gates
    assert (same.final, better.final, same.why) == ("pass", "fail", "the ranked lists are identical")
    assert short.final == "undecided" and "lists of b end at rank 3" in short.why
    assert deep.final is None and deep.open == 27
    grades = {(query, doc): float(doc == "d2") for query in rows for doc in rows[query]}
    assert check(runs, grades, gates)[deep.gate, "b"].outcome == "undecided"  # all values are equal
    assert [row.final for row in pool_gates(runs, grades, gates).gates] == ["pass", "fail", "undecided", "undecided"]
    one = {pair: grade for pair, grade in grades.items() if pair != ("q0", "d2")}
    assert "undecided" in pool_gates(runs, one, gates).gates[-1].outcomes


def test_one_run_is_judged_itself_and_comparisons_come_with_a_metric() -> None:
    project = plant(1, (0.3, 1.5, 0.5), 8)
    pool = pool_gates(project.runs, {}, ["ndcg@5 >= 0.5", "ndcg@3 better than baseline"])
    assert [(row.gate, row.run) for row in pool.gates] == [
        ("ndcg@5 >= 0.5", "run1"),
        ("ndcg@5 >= 0.5", "run2"),
        ("ndcg@3 better than baseline", "run1"),
        ("ndcg@3 better than baseline", "run2"),
    ]
    assert not pool.comparisons and pool.open == pool.total
    assert len(pool_gates(project.runs, {}, ["ndcg@5 >= 0.5"], metric="ndcg@5").comparisons) == 2
    alone = pool_gates(project.runs[:1], {}, ["precision@2 >= 0.5"])
    assert [row.run for row in alone.gates] == ["run0"] and alone.gates[0].open == alone.open == 16


def test_the_command_says_which_gates_are_decided(folder: Path) -> None:
    gates = ["ndcg@3 >= 0.5", "ndcg@3 no worse than baseline by 0.02"]
    command = "judge pool b.run a.run --order value --depth 3 -n 10 -o pairs.jsonl --judgments judged.jsonl"
    options = [part for gate in gates for part in ("--gate", gate)]
    (folder / "judged.jsonl").write_text("")
    done = run_karat(*command.split(), *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    for gate in gates:
        assert f"open: {gate}, a: may pass, be undecided or fail, depending on 72 unjudged pairs" in done.stdout
    assert "against" not in done.stdout
    for _ in range(10):
        pairs = read_pairs(str(folder / "pairs.jsonl")).rows
        if not pairs:
            break
        noon, ana = "2026-11-16T12:00:00+00:00", Person("ana")
        rows = [Judgment(*p.ids, 2 if p.doc_id[0] == "a" else 0, "0-3", ana, noon, drawn=p.drawn) for p in pairs]
        add_judgments(str(folder / "judged.jsonl"), rows)
        done = run_karat(*command.split(), *options, cwd=folder)
    count = len((folder / "judged.jsonl").read_text().splitlines())
    assert count < 72
    assert f"pairs.jsonl: nothing to judge (12 queries, depth 3; {count} of 72 pairs judged)" in done.stdout
    for gate in gates:
        assert f"decided: {gate}, a: passes, whatever the grades of {72 - count} unjudged pairs" in done.stdout


@pytest.mark.parametrize(
    ("gate", "found"),
    [
        ("recall@3 >= 0.5", "recall@3"),
        ("precision >= 0.5", "precision"),
        ("ndcg@3 >= 0.5 where topic = x", "a segment"),
        ("ndcg@3 >= 0.5 for every topic", "a segment"),
        ("ndcg@3 no worse than baseline by 2%", "a margin in percent"),
        ("ndcg@3 no worse than a by 0.02", "the run a"),
        ("ndcg@3 >= 0.5 at the mean", "'at the mean'"),
        ("ndcg@3 >= 0.5 on a", "'on a'"),
        ("ndcg@3 >= 0.5 judged raw", "'judged raw'"),
    ],
)
def test_gates_that_pairs_cannot_be_valued_by_are_refused(folder: Path, gate: str, found: str) -> None:
    with pytest.raises(
        UsageError, match="pairs are valued for gates on ndcg@k or precision@k over all queries"
    ) as error:
        read_pool_gates([gate], ["b", "a"])
    assert str(error.value).endswith(f"; found {found}")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("a.run b.run --gate", "gates say which pairs are worth a judgment: they need the order by value"),
        ("a.run --order value --gate", "nothing to compare with: name the baseline's run first, then another"),
        ("a.run b.run -k 2 --order value --gate", "ndcg@3 looks deeper than the pool: choose a cutoff up to 2"),
    ],
)
def test_gates_need_the_order_by_value_a_baseline_and_depth(folder: Path, command: str, message: str) -> None:
    done = run_karat("judge", "pool", *command.split(), "ndcg@3 better than baseline", "-o", "p.jsonl", cwd=folder)
    assert done.returncode == 2 and message in done.stderr
