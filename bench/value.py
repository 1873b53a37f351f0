"""Judging by value: how many judgments decide a comparison or a gate, and is any verdict wrong? `make bench-value`.

TREC DL 2019, ndcg@10: for each pair of the five systems, judgments of their top 10 are revealed in batches, by value
and in random order, until `karat judge pool` calls the comparison decided; and for each system against bm25, until it
calls gates decided. Every step is held against full judging.

    value.py          all pairs and gates; writes the section `value` of bench/RESULTS.md
    value.py --gates  gates alone; writes nothing
    value.py --quick  two pairs of systems and one system's gates; writes nothing

Needs ../shared/data. Takes about four minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import karat
from harness import HERE, Report, finish, machine, progress, source_digest
from karat.gates.evidence import judge_gates
from karat.gates.pool_rules import read_pool_gates
from karat.judge.gate_value import value_gates
from karat.judge.pool import find_best_ranks, find_lists
from karat.judge.value import value_pairs
from karat.metrics import parse
from karat.metrics.unjudged_bounds import weigh_ranks
from karat.model.policy import Policy
from karat.read.sources import read_qrels, read_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from karat.stats.partial_changes import Direction

    Ids = tuple[str, str]
    Grades = dict[Ids, float]

DL19 = HERE.parent.parent / "shared" / "data" / "dl19"
RUNS = ("ada2", "bm25", "bm25-rm3", "splade", "tas-b")
SCALE, DEPTH, METRIC = range(4), 10, "ndcg@10"
BATCH, ORDERS = 20, 3
"""Pairs that are judged at a time, and random orders of each pair of systems."""
BASELINE = "bm25"
GATES = (f"{METRIC} >= 0.4", f"{METRIC} >= 0.55", f"{METRIC} no worse than baseline by 0.02")
DIRECTIONS: dict[str, Direction] = {
    "better": "higher",
    "worse": "lower",
    "no significant difference": "no significant difference",
}


@dataclass(frozen=True)
class Walk:
    """Judging in one order until the comparison, or the gate, is decided."""

    judgments: int
    steps: int
    denied: int
    """Steps at which full judging denies what is called decided, or rules out what is called possible."""
    naive: int = 0
    """Steps at which full judging denies the verdict with unjudged docs taken for irrelevant."""


@dataclass(frozen=True)
class Outcome:
    """A pair of systems."""

    names: tuple[str, str]
    pairs: int
    unjudged: int
    """Pairs that TREC did not judge: here they have grade 0."""
    full: Direction
    difference: float
    by_value: Walk
    random: tuple[Walk, ...]
    oracle: Walk
    """By value, if all grades were known before."""

    @property
    def random_mean(self) -> float:
        return float(np.mean([walk.judgments for walk in self.random]))


@dataclass(frozen=True)
class GateWalks:
    """Judging until one gate for one system is decided: by value, and in random orders."""

    gate: str
    run: str
    pairs: int
    full: str
    by_value: Walk
    random: tuple[Walk, ...]

    @property
    def random_mean(self) -> float:
        return float(np.mean([walk.judgments for walk in self.random]))


def main() -> int:
    """Walk through every pair of systems, and the gates of each system, on several processes."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true")
    options.add_argument("--gates", action="store_true")
    options.add_argument("--processes", type=int, default=2)
    choice = options.parse_args()
    if not DL19.exists():
        raise SystemExit(f"{DL19} is missing")
    begun, pairs = source_digest(), list(combinations(RUNS, 2))
    outcomes, walks = [], []
    if choice.gates:
        pairs = []
    with ProcessPoolExecutor(choice.processes) as pool:
        for outcome in pool.map(measure_pair, pairs[1:3] if choice.quick else pairs):
            outcomes.append(outcome)
            progress(f"{' and '.join(outcome.names)}: {outcome.by_value.judgments} of {outcome.pairs}")
        asked = [(gate, name) for name in RUNS if name != BASELINE for gate in GATES]
        for one in pool.map(measure_gate, asked[: len(GATES)] if choice.quick else asked):
            walks.append(one)
            progress(f"{one.gate}, {one.run}: {one.by_value.judgments} of {one.pairs}")
    report = Report("Judging by value")
    report.note(machine())
    if outcomes:
        write(report, outcomes)
    write_gates(report, walks)
    finish("value", report, begun, choice.quick or choice.gates)
    return 0 if all(bar.passed for bar in report.bars) else 1


def measure_pair(names: tuple[str, str]) -> Outcome:
    """Judge the top 10 of two systems by value, in random orders, and by value with all grades known before."""
    qrels = read_qrels(str(DL19 / "qrels.txt"))
    runs = {name: read_run(str(DL19 / f"{name}.run"), name=name) for name in names}
    ranks = {name: find_best_ranks(run, None, DEPTH, Policy())[0] for name, run in runs.items()}
    ids = sorted({pair for own in ranks.values() for pair in own})
    known = {(query, doc): grade for query in qrels.query_ids for doc, grade in qrels.for_query(query).items()}
    truth = {pair: known.get(pair, 0.0) for pair in ids}
    gold: dict[str, dict[str, float]] = {}
    for (query, doc), grade in truth.items():
        gold.setdefault(query, {})[doc] = grade
    (row,) = karat.compare(gold, runs, METRIC).rows
    full, measure, queries = DIRECTIONS[row.outcome], parse(METRIC), sorted(gold)

    def walk(choose: Callable[[dict[Ids, float]], list[Ids]]) -> Walk:
        grades: Grades = {}
        steps = denied = naive = 0
        while True:
            values = value_pairs(ranks, grades, queries, measure=measure, scale=SCALE)
            change, steps = values.comparisons[0].change, steps + 1
            denied += full not in change.directions
            zeros = {pair: grades.get(pair, 0.0) for pair in ids}
            claim = value_pairs(ranks, zeros, queries, measure=measure, scale=SCALE).comparisons[0].change.final
            naive += claim not in (full, "no significant difference")
            if change.final is not None:
                return Walk(len(grades), steps, denied, naive)
            batch = choose({pair: value for pair, value in values.value.items() if pair not in grades})[:BATCH]
            grades |= {pair: truth[pair] for pair in batch}

    def by_value(rest: dict[Ids, float]) -> list[Ids]:
        return sorted(rest, key=lambda pair: -rest[pair])

    sign = {"higher": 1.0, "lower": -1.0}.get(full, 0.0)
    weight = [weigh_ranks(measure, np.array([ranks[name].get(pair, 0) for pair in ids])) for name in names]
    pull = dict(zip(ids, (weight[1] - weight[0]).tolist(), strict=True))

    def knowing(rest: dict[Ids, float]) -> list[Ids]:
        """What each doc moves the bound by that has to move; both bounds where the systems do not differ."""
        miss = {pair: truth[pair] if sign * pull[pair] >= 0 else SCALE[-1] - truth[pair] for pair in rest}
        return sorted(rest, key=lambda pair: -abs(pull[pair]) * (miss[pair] if sign else SCALE[-1]))

    def at_random(seed: int) -> Callable[[dict[Ids, float]], list[Ids]]:
        order = [ids[i] for i in np.random.default_rng(seed).permutation(len(ids))]
        return lambda rest: [pair for pair in order if pair in rest]

    randomly = tuple(walk(at_random(seed)) for seed in range(ORDERS))
    missing = sum(pair not in known for pair in ids)
    return Outcome(names, len(ids), missing, full, row.difference.estimate, walk(by_value), randomly, walk(knowing))


def measure_gate(asked: tuple[str, str]) -> GateWalks:
    """Judge the top 10 of a system and of the baseline until a gate is decided, by value and in random orders."""
    text, name = asked
    qrels = read_qrels(str(DL19 / "qrels.txt"))
    runs = {own: read_run(str(DL19 / f"{own}.run"), name=own) for own in (BASELINE, name)}
    ranks = {own: find_best_ranks(run, None, DEPTH, Policy())[0] for own, run in runs.items()}
    lists = {own: find_lists(run, Policy()) for own, run in runs.items()}
    ids = sorted({pair for own in ranks.values() for pair in own})
    truth = {(query, doc): qrels.for_query(query).get(doc, 0.0) for query, doc in ids}
    gold: dict[str, dict[str, float]] = {}
    for (query, doc), grade in truth.items():
        gold.setdefault(query, {})[doc] = grade
    result, rules = karat.evaluate(gold, runs, [METRIC], details=True), read_pool_gates([text], list(runs))
    (row,) = judge_gates([rules[0].gate], result, [name], baseline=result[BASELINE])

    def walk(order: list[Ids] | None) -> Walk:
        grades: Grades = {}
        steps = denied = 0
        while True:
            (found,), value = value_gates(ranks, lists, grades, sorted(gold), rules, scale=SCALE)
            steps, denied = steps + 1, denied + (row.outcome not in found.outcomes)
            if found.final is not None:
                return Walk(len(grades), steps, denied)
            rest = sorted(value, key=lambda pair: -value[pair]) if order is None else order
            grades |= {pair: truth[pair] for pair in [p for p in rest if p in value and p not in grades][:BATCH]}

    orders = ([ids[i] for i in np.random.default_rng(seed).permutation(len(ids))] for seed in range(ORDERS))
    return GateWalks(text, name, len(ids), row.outcome, walk(None), tuple(walk(order) for order in orders))


def write_gates(report: Report, walks: list[GateWalks]) -> None:
    """Judgments until gates are decided."""
    report.note(
        f"Gates of each system, with {BASELINE} as the baseline, judged in the same way until they are decided:"
    )
    table = [
        [one.gate, one.run, one.full, f"{one.pairs}"]
        + [f"{n:.0f} ({n / one.pairs:.0%})" for n in (one.random_mean, one.by_value.judgments)]
        + [f"{one.by_value.judgments / one.random_mean:.2f}" if one.random_mean else "–"]
        for one in walks
    ]
    report.table(("gate", "system", "full judging", "pairs", "random", "by value", "by value / random"), table)
    every = [walk for one in walks for walk in (one.by_value, *one.random)]
    steps, denied = sum(walk.steps for walk in every), sum(walk.denied for walk in every)
    report.bar("no step says of a gate what full judging denies", f"{denied} of {steps:,} steps", denied == 0)
    sums = [sum(one.by_value.judgments for one in walks), sum(one.random_mean for one in walks)]
    report.bar("gates: fewer judgments than in random order", f"{sums[0] / sums[1]:.2f} of them", sums[0] < sums[1])


def write(report: Report, outcomes: list[Outcome]) -> None:
    """Judgments until a decision, for pairs that full judging decides and for the others."""
    report.note(
        f"Judgments of the top {DEPTH} of two systems (43 queries, grades 0–3, {METRIC}) are revealed {BATCH} at a "
        "time. Decided is a comparison that says the same for all grades that the other pairs might have. Random: the "
        f"mean of {ORDERS} orders. All known: by value, if all grades were known before; hardly any order does better."
    )
    table = []
    for one in outcomes:
        random, value, oracle = one.random_mean, one.by_value.judgments, one.oracle.judgments
        table.append(
            [f"{one.names[1]} against {one.names[0]}", f"{one.difference:+.4f}", one.full, f"{one.pairs}"]
            + [f"{n:.0f} ({n / one.pairs:.0%})" for n in (random, value, oracle)]
            + [f"{value / random:.2f}"]
        )
    head = ("comparison", "Δ", "full judging", "pairs", "random", "by value", "all known", "by value / random")
    report.table(head, table)
    walks = [walk for one in outcomes for walk in (one.by_value, *one.random, one.oracle)]
    steps, denied = sum(w.steps for w in walks), sum(w.denied for w in walks)
    report.bar("no step says what full judging denies", f"{denied} of {steps:,} steps", denied == 0)
    naive = sum(w.naive for w in walks)
    report.note(f"With unjudged docs taken for irrelevant, {naive} of these steps ({naive / steps:.1%}) would.")
    for decides in (True, False):
        own = [one for one in outcomes if (one.full != "no significant difference") == decides]
        if not own:
            continue
        sums = [sum(one.by_value.judgments for one in own), sum(one.random_mean for one in own)]
        best, total = sum(one.oracle.judgments for one in own), sum(one.pairs for one in own)
        what = "that full judging decides" if decides else "that stay undecided"
        report.note(
            f"The {len(own)} comparisons {what}: by value {sums[0]:,} of {total:,} judgments, random {sums[1]:,.0f}, "
            f"all known {best:,}. By value / random: {sums[0] / sums[1]:.2f}; all known / random: {best / sums[1]:.2f}."
        )
        if decides:
            report.bar("fewer judgments than in random order", f"{sums[0] / sums[1]:.2f} of them", sums[0] < sums[1])
    report.note(f"TREC did not judge {sum(one.unjudged for one in outcomes)} of these pairs; here they have grade 0.")


if __name__ == "__main__":
    sys.exit(main())
