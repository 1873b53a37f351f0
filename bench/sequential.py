"""How often gates ship or block wrongly at any of 60 looks, with the truth at the gate: `make bench-sequential`.

The populations are those of bench/error_rates.py. Queries are drawn from them with replacement, ten for each look, to
600. A gate with sequential intervals must not be passed at any look (false SHIP), nor failed (false BLOCK), in more
than 2.5% of samples each. Beside it: how long these intervals are after 200 queries, and what intervals of one look do.

    sequential.py           4,000 samples per cell; writes the section `sequential` of bench/RESULTS.md
    sequential.py --quick   400 samples per cell, to try it; writes nothing

Needs ../shared/data. Takes about half an hour on two cores.
"""

from __future__ import annotations

import argparse
import math
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from error_rates import SOME, Cell, Floats, changes, levels, losses, populations
from harness import Report, finish, machine, progress, source_digest
from karat.stats.betting import Bets, most_capital
from karat.stats.changes import estimate_changes
from karat.stats.groups import intervals
from karat.stats.resample import Units

SAMPLES, QUICK = 4000, 400
LOOKS, STEP = 60, 10
WIDE_AT, WIDE_SAMPLES = 200, 60
TAIL = 0.025
LOT = 500
"""Samples that are judged at once."""
DRAWS = 2000
"""Of the sign flips of an interval of one look."""
BANDS = ((0.0, 0.1), (0.1, 0.2), (0.2, 1.1))
LEAST_SD, LONGEST = 0.2, 2.0
"""Differences that spread as much have intervals no longer than so many of one look."""


def main() -> int:
    """Run all cells."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true")
    options.add_argument("--processes", type=int, default=2)
    asked = options.parse_args()
    samples = QUICK if asked.quick else SAMPLES
    population = populations()
    begun = source_digest()
    report = Report("Sequential")
    report.note(machine())
    report.note(
        f"{samples:,} samples per cell, the truth exactly at the gate; looks at {STEP}, {2 * STEP} … {LOOKS * STEP} "
        f"queries. Length: beside the interval of one look, after {WIDE_AT} queries."
    )
    with ProcessPoolExecutor(asked.processes) as pool:
        for name, part in (("levels", levels), ("changes", changes), ("losses", losses)):
            cells = list({cell.label: cell for cell in part(population)}.values())
            progress(f"{name}: {len(cells)} cells")
            found = list(pool.map(run_cell, cells, [samples] * len(cells), range(len(cells))))
            summarise(report, name, cells, found, samples)
        some = [cell for cell in {c.label: c for c in levels(population)}.values() if cell.label in map(" ".join, SOME)]
        rates = list(pool.map(look_without, some, [QUICK] * len(some)))
        report.heading(f"intervals of one look, looked at {LOOKS} times ({QUICK} samples)")
        report.table(
            ("population", "SHIP", "BLOCK"),
            [[cell.label, f"{a:.1f}%", f"{b:.1f}%"] for cell, (a, b) in zip(some, rates, strict=True)],
        )
    finish("sequential", report, begun, asked.quick)
    return 0 if all(bar.passed for bar in report.bars) else 1


@dataclass(frozen=True)
class LookRates:
    """Percentages of samples in which any look decides wrongly, and how long intervals are beside those of one look."""

    ship: float
    block: float
    ratio: float


def run_cell(cell: Cell, samples: int, number: int) -> LookRates:
    """Draw samples and count those in which the truth is refuted at any look."""
    rng = np.random.default_rng([number, samples])
    least, most = cell.scale
    truth, sizes = (cell.truth - least) / (most - least), np.full(LOOKS, STEP)
    above = below = 0
    for lot in range(0, samples, LOT):
        count = min(LOT, samples - lot)
        values = (draw(cell, (count, LOOKS * STEP), rng) - least) / (most - least)
        here = np.full(count, truth)
        above += int((most_capital(values, sizes, here) >= -math.log(TAIL)).sum())
        below += int((most_capital(1 - values, sizes, 1 - here) >= -math.log(TAIL)).sum())
    return LookRates(100 * above / samples, 100 * below / samples, length(cell, rng))


def draw(cell: Cell, size: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Samples of the population."""
    return cell.values[rng.integers(0, len(cell.values), size)]


def length(cell: Cell, rng: np.random.Generator) -> float:
    """How long sequential intervals are, beside those of one look."""
    values, one_look = draw(cell, (WIDE_SAMPLES, WIDE_AT), rng), Units.of(WIDE_AT)
    days = Units.of(WIDE_AT, days=np.arange(WIDE_AT) // STEP * 1.0)
    low, high = Bets.of(values, days, np.array([cell.scale] * WIDE_SAMPLES)).ends(TAIL)
    bounds = [cell.scale] * WIDE_SAMPLES
    if cell.kind == "level":
        fixed = intervals(values, one_look, bounds=bounds)
    else:
        (found,) = estimate_changes(
            values, one_look, [np.arange(WIDE_AT)], bounds=bounds, levels=(1 - 2 * TAIL,), draws=DRAWS
        )
        fixed = [change.intervals[0] for change in found]
    return float(np.nanmean(high - low) / np.mean([i.high - i.low for i in fixed]))


def look_without(cell: Cell, samples: int) -> tuple[float, float]:
    """How often an interval of one look leaves out the truth at any of the looks, above and below."""
    rng = np.random.default_rng(3)
    values = draw(cell, (samples, LOOKS * STEP), rng)
    above, below = (np.zeros(samples, dtype=bool) for _ in range(2))
    for n in range(STEP, LOOKS * STEP + 1, STEP):
        found = intervals(values[:, :n], Units.of(n), bounds=[cell.scale] * samples)
        above |= np.array([i.low > cell.truth + 1e-12 for i in found])
        below |= np.array([i.high < cell.truth - 1e-12 for i in found])
    return 100 * float(above.mean()), 100 * float(below.mean())


def summarise(report: Report, name: str, cells: list[Cell], found: list[LookRates], samples: int) -> None:
    """A row for all cells of a part, or for those whose values spread alike."""
    report.heading(name)
    spreads = [float(cell.values.std()) for cell in cells]
    bands = ((0.0, 1.1),) if name == "levels" else BANDS
    rows = []
    for low, high in bands:
        mine = [(c, r) for c, r, sd in zip(cells, found, spreads, strict=True) if low <= sd < high]
        if not mine:
            continue
        ship, block, longest = (max(mine, key=lambda x: getattr(x[1], side)) for side in ("ship", "block", "ratio"))
        label = "all" if len(bands) == 1 else f"{low:g} – {high:g}" if high < 1 else f"from {low:g}"
        means = [float(np.mean([getattr(r, side) for _, r in mine])) for side in ("ship", "block")]
        rows.append(
            [
                label,
                str(len(mine)),
                f"{means[0]:.2f}%",
                f"{ship[1].ship:.2f}%",
                f"{means[1]:.2f}%",
                f"{block[1].block:.2f}%",
                f"{np.median([r.ratio for _, r in mine]):.2f}",
                f"{longest[1].ratio:.2f}",
                longest[0].label,
            ]
        )
    report.table(HEAD, rows)
    limit = 100 * TAIL
    slack = 2 * (limit * (100 - limit) / samples) ** 0.5
    bad = [f"{c.label} ({r.ship:.2f}%, {r.block:.2f}%)" for c, r in zip(cells, found, strict=True) if wrong(r, slack)]
    report.bar(f"{name}: 2.5% a side over {LOOKS} looks", "; ".join(bad) or f"{len(cells)} cells", not bad)
    held = [
        (c.label, r.ratio) for c, r, sd in zip(cells, found, spreads, strict=True) if name == "levels" or sd >= LEAST_SD
    ]
    if held:
        long = [f"{label} ({ratio:.2f})" for label, ratio in held if ratio > LONGEST]
        scope = "" if name == "levels" else f" with a standard deviation from {LEAST_SD:g}"
        report.bar(
            f"{name}{scope}: at most {LONGEST:g} times as long", "; ".join(long) or f"{len(held)} cells", not long
        )


def wrong(rates: LookRates, slack: float) -> bool:
    """Whether a side is wrong more often than it may be, by more than two standard errors of the simulation."""
    return max(rates.ship, rates.block) > 100 * TAIL + slack


HEAD = ("sd", "cells", "SHIP: mean", "worst", "BLOCK: mean", "worst", "length: median", "worst", "longest")


if __name__ == "__main__":
    sys.exit(main())
