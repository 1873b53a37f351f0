"""Pooled estimates of segments, and whether segments differ: `make bench-pooling`.

Populations are those of bench/error_rates.py. The truth of each segment is drawn around the population's mean with a
stated deviation; its queries are drawn from the population, tilted (by exponential weights) to that truth, so that
values stay what they are. Measured: how many truths pooled intervals hold; how often `ndcg@10 >= X for every segment
(pooled)` ships where all truths are .05 above X, exactly at X, and where one is at X and the others are above; and how
often the test of interaction finds differences between segments that are not there.

    pooling.py          600 samples per cell; writes the section `pooling` of bench/RESULTS.md
    pooling.py --quick  100 samples per cell, to try it; writes nothing

Needs ../shared/data. Takes a quarter of an hour on two cores.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))
from error_rates import Populations, populations
from harness import Report, finish, machine, progress, source_digest
from karat.stats.bounded_means import Moves, PairedShares, UnitMeans
from karat.stats.interaction import measure_interaction
from karat.stats.pooling import measure_segments, pool_segments
from karat.stats.resample import Units

Floats = NDArray[np.float64]

SAMPLES, QUICK, LOT = 600, 100, 200
SPREADS = (0.0, 0.03, 0.06, 0.1)
SEGMENTS, SIZES = (4, 10), (25, 50, 100)
ABOVE = 0.05
"""How far above the gate truths are where a gate should ship."""
OTHERS = (0.05, 0.1, 0.15, 0.2, 0.3)
"""How far above the gate the other segments are where one is at it."""
STEP = 0.002
"""Truths are multiples of this."""
COVERAGE, SHIPS, FALSE = 93.0, {50: 20.0, 100: 40.0}, 4.0
LEVELS = [
    *(("DL19", run, "ndcg@10") for run in ("bm25", "bm25-rm3", "ada2", "splade", "tas-b")),
    ("SciFact", "bm25", "ndcg@10"),
    ("SciFact", "bm25", "recall@5"),
    ("demo", "hybrid", "ndcg@10"),
]
CHANGES = [
    ("DL19", "splade", "bm25", "ndcg@10"),
    ("DL19", "bm25-rm3", "bm25", "ndcg@10"),
    ("SciFact", "hybrid-bm25-dense", "bm25", "ndcg@10"),
    ("SciFact", "dense", "bm25", "recall@5"),
]
DRAWS = 499
"""Of the test of interaction."""


def main() -> int:
    """Measure all cells, on several processes."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true")
    options.add_argument("--processes", type=int, default=2)
    asked = options.parse_args()
    samples = QUICK if asked.quick else SAMPLES
    population, begun = populations(), source_digest()
    cells = list_cells(population)
    with ProcessPoolExecutor(asked.processes) as pool:
        progress(f"{len(cells)} cells")
        rates = list(zip(cells, pool.map(measure, cells, [samples] * len(cells)), strict=True))
        changes = [c for c in cells if c.change and c.n < SIZES[-1]]
        levels = list(zip(changes, pool.map(interaction_level, changes, [samples] * len(changes)), strict=True))
    report = Report("Pooled segments")
    report.note(machine())
    report.note(
        f"{samples:,} samples per cell. Percentages; truths of segments are drawn with the deviation (sd) stated."
    )
    write_levels(report, [(c, r) for c, r in rates if not c.change], samples)
    write_changes(report, [(c, r) for c, r in rates if c.change], samples)
    write_interaction(report, levels, samples)
    finish("pooling", report, begun, asked.quick)
    return 0 if all(bar.passed for bar in report.bars) else 1


@dataclass(frozen=True)
class Cell:
    """A population, and how many segments of how many queries."""

    label: str
    values: Floats
    segments: int
    n: int
    change: bool = False

    @property
    def bounds(self) -> tuple[float, float]:
        return (-1.0, 1.0) if self.change else (0.0, 1.0)


@dataclass(frozen=True)
class Rates:
    """Percentages of truths that are held, for each spread, and of samples that ship."""

    coverage: tuple[float, ...]
    ship: float
    at_gate: float
    one_at_gate: tuple[float, ...]


def list_cells(population: Populations) -> list[Cell]:
    """Levels of runs, and differences of pairs of runs, for every number and size of segments."""
    columns = [(" ".join(key), population[key], False) for key in LEVELS]
    columns += [
        (f"{name} {a} − {b} {metric}", population[name, a, metric] - population[name, b, metric], True)
        for name, a, b, metric in CHANGES
    ]
    return [Cell(label, v, k, n, change) for label, v, change in columns for k in SEGMENTS for n in SIZES]


def measure(cell: Cell, samples: int) -> Rates:
    """Draw samples, and compare pooled intervals with the truths."""
    rng = np.random.default_rng([cell.n, cell.segments, len(cell.label)])
    middle = float(cell.values.mean())
    shape = (samples, cell.segments)
    coverage = []
    for spread in SPREADS:
        low, high, truths = draw_intervals(cell, middle + spread * rng.standard_normal(shape), rng)
        coverage.append(100 * float(((low <= truths) & (truths <= high)).mean()))

    def ships(truths: Floats, gate: float) -> float:
        low, _, exact = draw_intervals(cell, truths, rng)
        shift = exact.min() - truths.min()  # truths are rounded, and so is the gate
        return 100 * float((low >= gate + shift).all(axis=1).mean())

    ship = ships(np.full(shape, middle + ABOVE), middle)
    base = middle - 0.1
    one = []
    for others in OTHERS:
        truths = np.full(shape, base + others)
        truths[:, 0] = base
        one.append(ships(truths, base))
    return Rates(tuple(coverage), ship, ships(np.full(shape, middle), middle), tuple(one))


def draw_intervals(cell: Cell, truths: Floats, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Pooled intervals of samples (samples × segments), and the exact truths."""
    parts = [_draw_lot(cell, lot, rng) for lot in np.array_split(truths, max(1, len(truths) // LOT))]
    low, high, exact = (np.concatenate(part) for part in zip(*parts, strict=True))
    return low, high, exact


def _draw_lot(cell: Cell, truths: Floats, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    samples, exact = draw(cell.values, truths, cell.n, rng)
    count = len(samples)
    ones = np.ones((cell.n, count))
    seen = []
    for j in range(cell.segments):
        shares = PairedShares.at_top(samples[:, j], np.ones(count))
        moves = Moves.of(shares, Units.of(cell.n)) if cell.change else None
        seen.append(UnitMeans(np.ascontiguousarray(samples[:, j].T), ones, cell.n, moves))
    means = measure_segments(seen, bounds=np.tile(cell.bounds, (count, 1)))
    _, low, high = pool_segments(means, confidence=0.95)
    slack = 1e-9
    return low - slack, high + slack, exact


def draw(values: Floats, truths: Floats, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Values (samples × segments × n) of populations that are tilted to the truths, and their exact means."""
    span = values.max() - values.min()
    inside = np.clip(truths, values.min() + 0.03 * span, values.max() - 0.03 * span)
    places = np.round(inside / STEP).astype(int)
    out, exact = np.empty((*truths.shape, n)), np.empty(truths.shape)
    for place in np.unique(places):
        shares = tilt(values.tobytes(), place * STEP)
        at = places == place
        out[at] = values[np.searchsorted(np.cumsum(shares)[:-1], rng.random((int(at.sum()), n)))]
        exact[at] = (shares * values).sum()
    return out, exact


@lru_cache(maxsize=4096)
def tilt(values: bytes, mean: float) -> Floats:
    """The exponential weights under which the values have this mean."""
    column = np.frombuffer(values)
    low, high = -500.0, 500.0
    for _ in range(60):
        middle = (low + high) / 2
        score = middle * column
        shares = np.exp(score - score.max())
        low, high = (middle, high) if (shares * column).sum() < mean * shares.sum() else (low, middle)
    total: Floats = shares / shares.sum()
    return total


def interaction_level(cell: Cell, samples: int) -> tuple[float, float]:
    """How often the test finds a difference between segments, and any one that differs from the rest: both 5%."""
    rng = np.random.default_rng([7, cell.n, cell.segments])
    units, groups = Units.of(cell.n * cell.segments), np.split(np.arange(cell.n * cell.segments), cell.segments)
    p = []
    for i in range(samples):
        values = cell.values[rng.integers(0, len(cell.values), cell.n * cell.segments)]
        one = measure_interaction(values, units, groups, draws=DRAWS, seed=i)
        p.append((1.0, 1.0) if one is None else (one.p, one.rest[0]))
    below = (np.array(p) < 0.05).mean(axis=0)
    return 100 * float(below[0]), 100 * float(below[1])


# --- what is written ---------------------------------------------------------------------------------------------


def report_coverage(report: Report, name: str, rows: list[tuple[Cell, Rates]], samples: int) -> None:
    """The cells that hold too few truths: below the limit, and below it by two standard errors of the simulation."""
    figures = [(c, spread, x) for c, r in rows for spread, x in zip(SPREADS, r.coverage, strict=True)]
    below = [one for one in figures if one[2] < COVERAGE]
    clearly = [
        f"{c.label} {c.segments} × {c.n} sd {spread:g} {x:.1f}%"
        for c, spread, x in below
        if x < COVERAGE - 2 * (COVERAGE * (100 - COVERAGE) / (samples * c.segments)) ** 0.5
    ]
    least = min(x for *_, x in figures)
    report.bar(
        f"{name}: at least {COVERAGE:g}% of truths held, allowing two standard errors of the simulation",
        f"least {least:.1f}%; {len(below)} of {len(figures)} figures below {COVERAGE:g}%, "
        f"by more than that: {'; '.join(clearly) or 'none'}",
        not clearly,
    )


def write_levels(report: Report, rows: list[tuple[Cell, Rates]], samples: int) -> None:
    """Coverage, SHIP and false SHIP of levels."""
    report.heading("levels")
    report.table(HEAD, [_row(c, r) for c, r in rows])
    ours = [(c, r) for c, r in rows if c.label.startswith("DL19")]
    report_coverage(report, "DL19 ndcg@10", ours, samples)
    for n, limit in SHIPS.items():
        ships = {c.label: r.ship for c, r in ours if (c.segments, c.n) == (4, n)}
        short = [f"{label} {ship:.1f}%" for label, ship in ships.items() if ship < limit]
        report.bar(
            f"DL19 ndcg@10, 4 × {n}, all {ABOVE:g} above the gate: SHIP at least {limit:g}% for each system",
            f"mean {np.mean(list(ships.values())):.1f}%, least {min(ships.values()):.1f}%"
            + (f"; below: {', '.join(short)}" if short else ""),
            not short,
        )
    others = [(c, r) for c, r in rows if not c.label.startswith("DL19")]
    report_coverage(report, "SciFact and the demo", others, samples)
    most = max(r.at_gate for _, r in rows)
    report.bar(f"all truths at the gate: false SHIP at most {FALSE:g}%", f"at most {most:.1f}%", most <= FALSE)


HEAD = (
    *("population", "segments × n", *(f"sd {s:g}" for s in SPREADS), f"SHIP {ABOVE:g} above", "all at the gate"),
    *(f"one at it, others +{o:g}" for o in OTHERS),
)


def _row(cell: Cell, rates: Rates) -> list[str]:
    figures = (*rates.coverage, rates.ship, rates.at_gate, *rates.one_at_gate)
    return [cell.label, f"{cell.segments} × {cell.n}", *(f"{x:.1f}" for x in figures)]


def write_changes(report: Report, rows: list[tuple[Cell, Rates]], samples: int) -> None:
    """The same of differences between runs."""
    report.heading("differences")
    report.table(HEAD, [_row(c, r) for c, r in rows])
    report_coverage(report, "differences", rows, samples)


def write_interaction(report: Report, rows: list[tuple[Cell, tuple[float, float]]], samples: int) -> None:
    """The level of the test of interaction under none."""
    report.heading("interaction")
    report.note(f"Segments that do not differ: samples with p < .05, {DRAWS:,} shuffles each.")
    table = [[c.label, f"{c.segments} × {c.n}", *(f"{x:.1f}" for x in found)] for c, found in rows]
    report.table(("difference", "segments × n", "all segments", "one against the rest"), table)
    figures = [x for _, found in rows for x in found]
    slack = 1.5 + 2 * (5 * 95 / samples) ** 0.5
    report.bar(
        "interaction: 5 ± 1.5% where there is none",
        f"{min(figures):.1f}–{max(figures):.1f}%, mean {np.mean(figures):.1f}%",
        all(abs(x - 5) <= slack for x in figures),
    )


if __name__ == "__main__":
    sys.exit(main())
