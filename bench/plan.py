"""Whether `karat plan` predicts what gates say, on real values: `make bench-plan`.

The chances of SHIP and BLOCK are compared with an independent simulation: samples are drawn from the population, moved
to the same truth by weights of its own, and judged by the intervals of the product. (That `karat check` itself says
the same is tested in tests/verbs/test_plan.py.) They must agree within 3 points, 5 with conversations.

    plan.py            4,000 samples per cell; writes the section `plan` of bench/RESULTS.md
    plan.py --quick    400 samples per cell, to try it; writes nothing

Needs ../shared/data.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

sys.path.insert(0, str(Path(__file__).parent))
import karat
from error_rates import CONFIDENCE, DRAWS, LOT, populations
from harness import Report, finish, machine, progress, source_digest
from karat.gates.judge import is_outside
from karat.gates.language import parse_gate
from karat.results.result import Result, RunResult
from karat.stats.bounded_means import PairedShares
from karat.stats.changes import estimate_changes
from karat.stats.groups import intervals
from karat.stats.intervals import Interval
from karat.stats.resample import Units

Floats = NDArray[np.float64]
SAMPLES, QUICK = 4000, 400
SIZES = (25, 100, 400)
OFFSETS = (-0.05, 0.0, 0.05)
LEVELS = (("DL19", "bm25", "ndcg@10"), ("SciFact", "bm25", "recall@5"), ("demo", "", "mrr"))
ICC, TURNS = 0.3, 5


@dataclass(frozen=True)
class Cell:
    """One gate on one population."""

    label: str
    gate: str
    metric: str
    values: Floats
    base: Floats | None
    truth: float
    n: int
    conversations: bool = False


def cells() -> Iterator[Cell]:
    """Levels and changes of three collections, with the truth below, at and above the gate."""
    kept = populations()
    for name, run, metric in LEVELS:
        runs = [r for c, r, m in kept if (c, m) == (name, metric) and kept[c, r, m].std() > 0]
        first = run if run in runs else runs[0]
        other = next(r for r in runs if r != first)
        values, base = kept[name, first, metric], kept[name, other, metric]
        level = round(float(values.mean()), 2) - 0.05
        for offset in OFFSETS:
            for n in SIZES:
                gate = f"{metric} >= {level:.2f} at any depth"
                yield Cell(f"{name} {first} {metric}", gate, metric, values, None, level + offset, n)
                margin = f"{metric} no worse than baseline by 0.02 at any depth"
                label = f"{name} {first} − {other} {metric}"
                yield Cell(label, margin, metric, values, base, offset - 0.02, n)
            yield Cell(
                f"{name} {first} {metric}",
                f"{metric} >= {level:.2f} at any depth",
                metric,
                values,
                None,
                level + offset,
                40,
                True,
            )


def result_of(metric: str, columns: dict[str, Floats]) -> Result:
    """A result with these values."""
    count = len(next(iter(columns.values())))
    ids = [f"q{i}" for i in range(count)]
    gold, lists = {q: {"d": 1} for q in ids}, {q: ["d"] for q in ids}
    made = karat.evaluate(gold, dict.fromkeys(columns, lists), metric)
    runs: list[RunResult] = []
    for run in made.runs:
        order = [int(q[1:]) for q in run.query_ids]
        runs.append(replace(run, values={metric: columns[run.name][order]}, rankings=None))
    return replace(made, runs=tuple(runs))


def weights(scores: Floats, truth: float) -> Floats:
    """Exponential weights under which the mean is the truth, found by another solver."""

    def tilted(slope: float) -> Floats:
        powers = np.exp(slope * (scores - scores.mean()))
        return powers / powers.sum()

    return tilted(brentq(lambda slope: float(tilted(slope) @ scores) - truth, -200, 200, xtol=1e-10))


def simulate(cell: Cell, samples: int) -> tuple[float, float]:
    """How often the gate ships and blocks samples, by the intervals that `karat check` judges by."""
    rng = np.random.default_rng([samples, cell.n])
    scores = cell.values if cell.base is None else cell.values - cell.base
    shares, region = weights(scores, cell.truth), parse_gate(cell.gate).region
    size = cell.n * (TURNS if cell.conversations else 1)
    units = Units.of(size, np.repeat(np.arange(cell.n), TURNS).tolist() if cell.conversations else None)
    ship = block = 0
    for start in range(0, samples, LOT):
        count = min(LOT, samples - start)
        rows = rng.choice(len(scores), (count, size), p=shares)
        if cell.conversations:
            own = np.repeat(rng.choice(len(scores), (count, cell.n), p=shares), TURNS, axis=1)
            rows = np.where(rng.random(rows.shape) < ICC**0.5, own, rows)
        for one in intervals_of(cell, rows, units, int(rng.integers(2**31))):
            ship += region.above_low(one.low) and region.below_high(one.high)
            block += is_outside(region, one.low, one.high)
    return ship / samples, block / samples


def intervals_of(cell: Cell, rows: NDArray[np.int64], units: Units, seed: int) -> list[Interval]:
    """The interval of every sample of queries: of a level, or of a change."""
    values = cell.values[rows]
    if cell.base is None:
        return intervals(values, units, bounds=[(0.0, 1.0)] * len(values))
    shares = PairedShares(cell.base[rows], values)
    everything = [np.arange(values.shape[1])]
    bounds = [(-1.0, 1.0)] * len(values)
    (found,) = estimate_changes(
        shares.after - shares.before,
        units,
        everything,
        bounds=bounds,
        shares=shares,
        levels=(CONFIDENCE,),
        draws=DRAWS,
        seed=seed,
    )
    return [one.intervals[0] for one in found]


def main() -> int:
    """Compare every cell."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true")
    quick = options.parse_args().quick
    samples, begun, rows, worst = QUICK if quick else SAMPLES, source_digest(), [], {False: [0.0], True: [0.0]}
    for cell in cells():
        columns = {"new": cell.values} | ({} if cell.base is None else {"old": cell.base})
        outlook = karat.plan(
            result_of(cell.metric, columns),
            None,
            cell.gate,
            true_value=cell.truth,
            sizes=(cell.n,),
            baseline=None if cell.base is None else "old",
            **({"icc": ICC, "turns": TURNS} if cell.conversations else {}),
        )
        (chances,) = outlook.gates[0].truths[0].curve
        ship, block = simulate(cell, samples)
        pairs = ((chances.ship, ship), (chances.block, block))
        off = [100 * abs(a - b) for a, b in pairs]
        worst[cell.conversations] += off
        progress(f"{cell.label} {cell.gate} truth {cell.truth:.3f} n={cell.n}: {pairs}")
        unit = " conversations" if cell.conversations else ""
        figures = [f"{a:.1%} ({b:.1%})" for a, b in pairs]
        rows.append([cell.label, cell.gate, f"{cell.truth:.3f}", f"{cell.n}{unit}", *figures])
    report = Report("Plan")
    report.note(machine())
    report.note(f"{samples:,} samples per cell, the truth as stated; in brackets what that simulation found.")
    report.table(("values", "gate", "truth", "n", "SHIP", "BLOCK"), rows)
    for conversations, limit in ((False, 3.0), (True, 5.0)):
        what = "with conversations" if conversations else "queries"
        most = max(worst[conversations])
        report.bar(f"plan, {what}: within {limit:g} points", f"{most:.1f} at most", most <= limit)
    finish("plan", report, begun, quick)
    return 0 if all(bar.passed for bar in report.bars) else 1


if __name__ == "__main__":
    sys.exit(main())
