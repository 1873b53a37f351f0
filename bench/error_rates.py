"""How often gates ship or block wrongly, with the truth exactly at the gate: `make bench-error-rates` (`--screen`).

Populations are per-query values of real systems: SciFact (BM25, dense, hybrid; train and test queries), TREC DL 2019
(five systems) and the demo; and values that were made to be hard. Samples are drawn from them with replacement, so the
true value is known. A gate at that value must not be passed (false SHIP) nor failed (false BLOCK) more often than 4% on
each side, 5% with 10 queries.

    error_rates.py              4,000 samples per cell; writes the section `error rates` of bench/RESULTS.md
    error_rates.py --quick      400 samples per cell, to try it; writes nothing
    error_rates.py --screen     400, and 4,000 other samples of cells that miss in 2.5% or more, or whose coverage has
                                a bar; writes the section too, and says so there
    error_rates.py --only NAME  one part: levels, shapes, changes, losses, small-changes, relative, conversations,
                                weights, segments, uncovered, all-pairs; writes nothing

Cells that miss in 3.5% or more of 4,000 samples are drawn again with 20,000 others: the worst of hundreds of cells owe
part of their rates to chance.

The part `uncovered` has no bar: it measures what docs/statistics.md says is not covered.

Needs ../shared/data. Takes hours on two cores, with --screen half an hour.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))
import karat
from harness import Report, finish, machine, progress, source_digest
from karat.stats.aggregates import IntervalChoice, Statistic, measure_changes
from karat.stats.bounded_means import PairedShares
from karat.stats.changes import estimate_changes, p_with_one_more
from karat.stats.defaults import ALPHA
from karat.stats.groups import intervals
from karat.stats.intervals import Interval
from karat.stats.multiple import randomised_hsd
from karat.stats.resample import Units

Floats = NDArray[np.float64]
Populations = dict[tuple[str, str, str], Floats]

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"
STORE = Path(__file__).parent / "data" / "error_rates.pickle"
METRICS = ("recall@5", "hit@5", "ndcg@10", "mrr", "map")
SIZES = (10, 15, 25, 50, 100, 200)
SAMPLES, QUICK = 4000, 400
MANY, NEAR = 20_000, 3.5
"""Cells that miss in as many percent of `SAMPLES` on one side are drawn once more, with so many samples."""
SUSPECT = 2.5
"""Cells that miss in as many percent of 400 samples on one side are drawn again with `--screen`."""
LOT = 200
"""Samples that are judged at once."""
DRAWS = 2000
"""Of sign flips and shuffles; the product takes fifty times as many. The level of a randomization test needs few."""
CONFIDENCE = 0.95
BROKEN = (0.02, 0.05)
"""The shares of queries that a broken system loses."""
SMALL = (0.01, 0.03, 0.08)
"""Standard deviations of small changes."""
CLUSTERS, TURNS, ICC = (5, 10, 20), 10, 0.3
ALIKE = (0.6, 0.8)
"""Intraclass correlations of conversations that are not covered."""
RARE = (0.01, 0.02, 0.04)
"""Shares of queries that win or lose the whole scale, while all others change a little."""
PAIRED = (20, 50)
"""Conversations of the comparisons of all pairs."""
UNEQUAL = (2, 4, 8, 12, 24)
FAMILY = (3.5, 6.5)
"""Percentages of samples in which some pair of equal systems may be called different."""
SEGMENTS = "Conversations: n counts them; segments: n is the size of each, a BLOCK is one of any segment."
LIMITS = {10: 5.0}
LIMIT = 4.0
LEAST_COVERAGE, MOST_COVERAGE = 93.0, 98.0
COVERED = ("conversations", "weights")
"""Parts whose intervals may not be too long either: of ndcg@10 of DL19."""
MOST_UNDECIDED = 90.0
"""Of samples: where more have no interval, the few others say nothing of the coverage."""


def main() -> int:
    """Run the parts that are asked for."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true")
    options.add_argument("--screen", action="store_true")
    options.add_argument("--only", choices=sorted([*PARTS, "all-pairs"]))
    options.add_argument("--processes", type=int, default=2)
    asked = options.parse_args()
    samples = QUICK if asked.quick or asked.screen else SAMPLES
    population = populations()
    begun = source_digest()
    out = []
    with ProcessPoolExecutor(asked.processes) as pool:
        for name, part in PARTS.items():
            if asked.only in (None, name):
                cells = list(part(population))
                progress(f"{name}: {len(cells)} cells")
                found = list(pool.map(run_cell, cells, [samples] * len(cells), range(len(cells))))
                for count, is_suspect in again(name, screen=asked.screen) if not asked.quick else ():
                    chosen = [i for i, (c, r) in enumerate(zip(cells, found, strict=True)) if is_suspect(c, r)]
                    progress(f"{name}: {len(chosen)} cells again with {count:,} samples")
                    drawn = pool.map(run_cell, [cells[i] for i in chosen], [count] * len(chosen), chosen)
                    anew = dict(zip(chosen, drawn, strict=True))
                    found = [anew.get(i, rates) for i, rates in enumerate(found)]
                out.append((name, list(zip(cells, found, strict=True))))
        pairs = [
            pool.submit(compare_pairs, population, n, samples) for n in PAIRED if asked.only in (None, "all-pairs")
        ]
        rates = [one.result() for one in pairs]
    report = Report("Error rates")
    report.note(machine())
    counts = [f"{samples:,} samples per cell", f"{SAMPLES:,} where they miss in {SUSPECT}% (`--screen`)"]
    counts = [*counts[: 1 + asked.screen], *([] if asked.quick else [f"{MANY:,} where these miss in {NEAR}%"])]
    report.note(f"{', '.join(counts)}, the truth exactly at the gate. {SEGMENTS}")
    for name, rows in out:
        report.heading(name)
        if name == "uncovered":
            report.table(("what", "n", "SHIP", "BLOCK", "no interval"), list_cells(rows))
            continue
        report.table(HEAD, describe(rows))
        bad = [f"{c.label} n={c.n} ({r.above:.1f}%, {r.below:.1f}%)" for c, r in rows if exceeds(c, r)]
        limit = "5% of samples BLOCK" if name == "segments" else "each side at most 4% (5% with 10)"
        report.bar(f"{name}: {limit}", "; ".join(bad) or f"{len(rows)} of {len(rows)} cells", not bad)
        if name in COVERED:
            shares = {
                f"{c.label} n={c.n}": r.coverage
                for c, r in rows
                if _has_coverage_bar(name, c) and r.undecided <= MOST_UNDECIDED
            }
            slack = 2 * (MOST_COVERAGE * (100 - MOST_COVERAGE) / (SAMPLES if asked.screen else samples)) ** 0.5
            wide = [f"{label} ({share:.1f}%)" for label, share in shares.items() if share > MOST_COVERAGE + slack]
            text = f"{min(shares.values()):.1f}–{max(shares.values()):.1f}%; above: {'; '.join(wide) or 'none'}"
            what = f"{name}: intervals of ndcg@10 of DL19 hold {LEAST_COVERAGE:g} to {MOST_COVERAGE:g}% of truths"
            report.bar(what, text, not wide and min(shares.values()) >= LEAST_COVERAGE)
    if rates:
        report.heading("all pairs")
        report.table(
            ("conversations", "HSD", "as decided, with one more unit"),
            [[str(n), *map(percent, r)] for n, r in zip(PAIRED, rates, strict=True)],
        )
        least, most = FAMILY
        for n, (alone, decided) in zip(PAIRED, rates, strict=True):
            fits = least <= alone <= most and decided <= most
            what = f"all pairs of 5 systems, {n} conversations: HSD {least:g}–{most:g}%, as decided at most {most:g}%"
            report.bar(what, f"{percent(alone)}, {percent(decided)}", fits)
    finish("error rates", report, begun, asked.quick or asked.only is not None)
    return 0 if all(bar.passed for bar in report.bars) else 1


def again(name: str, *, screen: bool) -> Iterator[tuple[int, Callable[[Cell, Rates], bool]]]:
    """Which cells of a part are drawn again, and with how many samples."""
    if screen:
        yield SAMPLES, lambda cell, rates: rates.worst >= SUSPECT or _has_coverage_bar(name, cell)
    if name != "uncovered":
        yield MANY, lambda _cell, rates: rates.samples == SAMPLES and rates.worst >= NEAR


# --- populations -------------------------------------------------------------------------------------------------


def populations() -> Populations:
    """Per-query values of every system and metric; made once."""
    if STORE.exists():
        kept: Populations = pickle.loads(STORE.read_bytes())
        return kept
    out: Populations = {}
    with tempfile.TemporaryDirectory() as place:
        for name, (gold, runs) in sources(Path(place)):
            result = karat.evaluate(gold, runs, METRICS, method="none")
            for run in result.runs:
                out |= {(name, run.name, m): run.values[m][~np.isnan(run.values[m])] for m in METRICS}
    STORE.parent.mkdir(exist_ok=True)
    STORE.write_bytes(pickle.dumps(out))
    return out


def sources(place: Path) -> Iterator[tuple[str, tuple[str, list[str]]]]:
    """Gold and runs of each collection."""
    if not SHARED.exists():
        raise SystemExit(f"{SHARED} is missing: SciFact and DL19 are needed")
    yield "DL19", (str(SHARED / "dl19" / "qrels.txt"), sorted(map(str, (SHARED / "dl19").glob("*.run"))))
    progress("retrieving SciFact")
    scifact, folder = SHARED / "scifact", place / "scifact"
    (folder / "qrels").mkdir(parents=True)
    for name in ("corpus.jsonl", "queries.jsonl"):
        (folder / name).symlink_to(scifact / name)
    train, test = ((scifact / "qrels" / f"{part}.tsv").read_text().splitlines() for part in ("train", "test"))
    gold = folder / "qrels" / "test.tsv"
    gold.write_text("\n".join([*train, *test[1:]]) + "\n")
    karat.bench(str(folder), ["bm25", "dense", "hybrid(bm25, dense)"], "ndcg@10", out=str(place / "runs"))
    yield "SciFact", (str(gold), sorted(map(str, (place / "runs").rglob("*.jsonl"))))
    progress("retrieving the demo")
    karat.demo(str(place / "demo"))
    yield "demo", (str(place / "demo/data/qrels.tsv"), sorted(map(str, (place / "demo/runs").glob("*.jsonl"))))


# --- cells -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One population, size and kind of sample."""

    label: str
    kind: str
    n: int
    values: Floats
    scale: tuple[float, float] = (0.0, 1.0)
    before: Floats | None = None
    """Of a change, what the baseline has."""
    segments: int = 1
    unequal: bool = False
    icc: float = ICC
    weights: str = ""
    lost: float = 0.0
    """The share of queries that lose what they had; the margin, in percent, is the same share of the baseline."""

    @property
    def truth(self) -> float:
        return 0.0 if self.kind == "relative" else float(self.values.mean())


@dataclass(frozen=True)
class Rates:
    """Percentages of samples: the interval lies above the truth, below it, or there is none."""

    above: float
    below: float
    undecided: float
    width: float
    student: float
    """Mean widths: of these intervals, and of Student's t."""
    samples: int

    @property
    def worst(self) -> float:
        """The larger of both sides."""
        return max(self.above, self.below)

    @property
    def coverage(self) -> float:
        """The percentage of truths that lie in their interval, of those that have one."""
        return 100 - 100 * (self.above + self.below) / (100 - self.undecided)


def levels(population: Populations) -> Iterator[Cell]:
    """Gates on a mean."""
    for (name, run, metric), values in population.items():
        for n in SIZES:
            if values.min() < values.max():
                yield Cell(f"{name} {run} {metric}", "level", n, values)


def shapes(_population: Populations) -> Iterator[Cell]:
    """Gates on a mean of values that were made to be hard: rare failures among like values, ties, two humps, tails."""
    rng = np.random.default_rng(8)
    size = 20_000

    def like(middle: float, spread: float) -> Floats:
        return np.clip(rng.normal(middle, spread, size), 0.001, 0.999)

    made: dict[str, Floats] = {}
    for share in (0.02, 0.04, 0.1, 0.2):
        lost = rng.random(size) < share
        for name, others in {
            "0.5": np.full(size, 0.5),
            "0.5 ± 0.02": like(0.5, 0.02),
            "0.5 ± 0.1": like(0.5, 0.1),
            "0.7 ± 0.15": like(0.7, 0.15),
            "0.91 ± 0.06": rng.beta(20, 2, size),
        }.items():
            made[f"{share:.0%} zeros among {name}"] = np.where(lost, 0.0, others)
        made[f"{share:.0%} ones among 0.3 ± 0.05"] = np.where(lost, 1.0, like(0.3, 0.05))
        made[f"{share:.0%} of 0 to 0.1 among 0.5 ± 0.02"] = np.where(lost, 0.1 * rng.random(size), like(0.5, 0.02))
        made[f"{share:.0%} of 0.1 ± 0.05 among 0.9 ± 0.03"] = np.where(lost, like(0.1, 0.05), like(0.9, 0.03))
        made[f"{share:.0%} even among ones"] = np.where(lost, rng.random(size), 1.0)
    made["halves"] = rng.choice([0, 0.5, 1], size, p=[0.1, 0.3, 0.6])
    made["thirds"] = rng.choice([0, 1 / 3, 2 / 3, 1], size, p=[0.05, 0.1, 0.25, 0.6])
    made["reciprocal ranks"] = 1 / np.minimum(rng.geometric(0.6, size), 50)
    made["lognormal(-4, 2)"] = np.clip(rng.lognormal(-4, 2, size), 0, 1)
    for a, b in ((0.5, 0.5), (5, 1), (1, 10)):
        made[f"beta({a:g}, {b:g})"] = rng.beta(a, b, size)
    for name, values in made.items():
        for n in SIZES:
            yield Cell(name, "level", n, values)


def changes(population: Populations) -> Iterator[Cell]:
    """Gates against a baseline: both pairs of real systems, and the same differences with random signs."""
    for name, metric in dict.fromkeys((n, m) for n, _, m in population):
        runs = [r for n, r, m in population if (n, m) == (name, metric)]
        for a, b in combinations(runs, 2):
            after, before = population[name, a, metric], population[name, b, metric]
            moved = after - before
            if not moved.any():
                continue
            for n in SIZES:
                yield Cell(f"{name} {a} − {b} {metric}", "change", n, moved, (-1.0, 1.0), before)
                even, either = np.concatenate((moved, -moved)), np.concatenate((before, after))
                yield Cell(f"{name} {a} − {b} {metric}, random signs", "change", n, even, (-1.0, 1.0), either)


def losses(population: Populations) -> Iterator[Cell]:
    """`no worse than baseline by m`, where a share of the queries is lost and m is exactly that loss."""
    rng = np.random.default_rng(5)
    for (name, run, metric), values in population.items():
        if name == "DL19" or metric in ("mrr", "map"):
            continue
        for share in BROKEN:
            lost = np.where(rng.random(len(values)) < share, -values, 0.0)
            if lost.any():
                for n in SIZES:
                    yield Cell(f"{name} {run} {metric}, {share:.0%} lost", "change", n, lost, (-1.0, 1.0), values)


def small_changes(population: Populations) -> Iterator[Cell]:
    """The same, where the other queries change a little: two docs near the end of each list trade places."""
    rng = np.random.default_rng(6)
    for (name, run, metric), values in population.items():
        if metric not in ("ndcg@10", "map"):
            continue
        copies = np.tile(values, -(-1000 // len(values)))
        for share in BROKEN:
            for spread in SMALL:
                little = np.clip(rng.normal(0, spread, len(copies)), -0.2, 0.2)
                moved = np.where(rng.random(len(copies)) < share, -copies, little)
                for n in SIZES:
                    label = f"{name} {run} {metric}, {share:.0%} lost, ±{spread:g}"
                    yield Cell(label, "change", n, moved, (-1.0, 1.0), copies)


def relative(population: Populations) -> Iterator[Cell]:
    """`no worse than baseline by 2%`, where 2% of the queries lose what they had."""
    for (name, run, metric), values in population.items():
        if name != "DL19" and metric in ("recall@5", "ndcg@10"):
            for share in BROKEN:
                for n in SIZES:
                    yield Cell(f"{name} {run} {metric}, by {share:.0%}", "relative", n, values, lost=share)


SOME = [
    ("DL19", "bm25", "ndcg@10"),
    ("DL19", "splade", "ndcg@10"),
    ("DL19", "splade", "mrr"),
    ("DL19", "bm25", "recall@5"),
]


def _some(population: Populations) -> Iterator[tuple[str, Floats]]:
    for key, values in population.items():
        if key in SOME or (key[0] == "SciFact" and key[1] == "bm25" and key[2] in ("recall@5", "ndcg@10")):
            yield " ".join(key), values


def conversations(population: Populations) -> Iterator[Cell]:
    """Queries in conversations whose values are alike, of equal and of unequal sizes."""
    for label, values in _some(population):
        for count in CLUSTERS:
            for unequal in (False, True):
                sizes = "unequal" if unequal else f"{TURNS} each"
                yield Cell(f"{label}, {sizes}", "conversations", count, values, unequal=unequal)


def weights(population: Populations) -> Iterator[Cell]:
    """Queries whose weights differ: little, as lognormal(1), and by Zipf's law."""
    for label, values in _some(population):
        for law in ("equal", "lognormal", "Zipf"):
            for n in (25, 50, 100, 500):
                yield Cell(f"{label}, {law} weights", "weights", n, values, weights=law)


def segments(population: Populations) -> Iterator[Cell]:
    """`for every` segment, with the truth of all of them at the gate: a BLOCK of any is false."""
    for label, values in _some(population):
        for count in (4, 10):
            for n in (12, 25, 50):
                yield Cell(f"{label}, {count} segments", "segments", n, values, segments=count)


def uncovered(population: Populations) -> Iterator[Cell]:
    """What is not covered: rare whole wins and losses among low values, and few conversations that are alike."""
    rng = np.random.default_rng(9)
    size = 20_000
    for spread in (0.01, 0.03):
        low = np.clip(rng.normal(0.1, 0.03, size), 0.0, 0.2)
        little = np.clip(low + rng.normal(0, spread, size), 0.0, 0.3) - low
        for share in RARE:
            rare = rng.random(size) < share
            for name, before, after in (("lose", 1.0, 0.0), ("win", 0.0, 1.0)):
                moved, had = np.where(rare, after - before, little), np.where(rare, before, low)
                for n in SIZES[2:]:
                    label = f"around 0.1, ±{spread:g}, {share:.0%} {name} the whole scale"
                    yield Cell(label, "change", n, moved, (-1.0, 1.0), had)
    alike = {" ".join(key): population[key] for key in SOME[:3]} | {"beta(3, 2)": rng.beta(3, 2, size)}
    for name, values in alike.items():
        for icc in ALIKE:
            yield Cell(f"{name}, conversations, ICC {icc:g}", "conversations", 5, values, icc=icc)


PARTS: dict[str, Callable[[Populations], Iterator[Cell]]] = {
    "levels": levels,
    "shapes": shapes,
    "changes": changes,
    "losses": losses,
    "small-changes": small_changes,
    "relative": relative,
    "conversations": conversations,
    "weights": weights,
    "segments": segments,
    "uncovered": uncovered,
}


def run_cell(cell: Cell, samples: int, number: int) -> Rates:
    """Draw samples and count on which side the intervals miss the truth."""
    rng = np.random.default_rng([number, cell.n, samples])
    ends, student = [], []
    for lot in range(0, samples, LOT):
        found, widths = KINDS[cell.kind](cell, min(LOT, samples - lot), rng)
        ends += found
        student += widths
    low, high = np.array(ends).T
    blank = np.isnan(low) & np.isnan(high)
    slack = 1e-12
    return Rates(
        100 * float(np.mean(low > cell.truth + slack)),
        100 * float(np.mean(high < cell.truth - slack)),
        100 * float(np.mean(blank)),
        float(np.mean((high - low)[~blank])) if not blank.all() else float("nan"),
        float(np.mean(student)),
        samples,
    )


Ends = tuple[list[tuple[float, float]], list[float]]


def _draw(cell: Cell, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
    return cell.values[rng.integers(0, len(cell.values), size)]


def _student(values: Floats) -> list[float]:
    from scipy.special import stdtrit

    n = values.shape[1]
    half = stdtrit(n - 1, (1 + CONFIDENCE) / 2) * values.std(axis=1, ddof=1) / np.sqrt(n)
    return [float(2 * h) for h in half]


def _ends(found: list[Interval]) -> list[tuple[float, float]]:
    return [(i.low, i.high) for i in found]


def _level(cell: Cell, count: int, rng: np.random.Generator) -> Ends:
    values = _draw(cell, (count, cell.n), rng)
    return _ends(intervals(values, Units.of(cell.n), bounds=[cell.scale] * count)), _student(values)


def _change(cell: Cell, count: int, rng: np.random.Generator) -> Ends:
    rows = rng.integers(0, len(cell.values), (count, cell.n))
    values, before = cell.values[rows], np.ones(1) if cell.before is None else cell.before[rows]
    (found,) = estimate_changes(
        values,
        Units.of(cell.n),
        [np.arange(cell.n)],
        bounds=[cell.scale] * count,
        shares=PairedShares(before, before + values),
        levels=(CONFIDENCE,),
        draws=DRAWS,
        seed=int(rng.integers(2**31)),
    )
    return _ends([one.intervals[0] for one in found]), _student(values)


def _relative(cell: Cell, count: int, rng: np.random.Generator) -> Ends:
    base = _draw(cell, (count, cell.n), rng)
    after = np.where(rng.random(base.shape) < cell.lost, 0.0, base)
    choice, metric = IntervalChoice(CONFIDENCE, seed=int(rng.integers(2**31))), Statistic(bounds=cell.scale)
    rows, units = [np.arange(cell.n)], Units.of(cell.n)
    (found,) = measure_changes(base, after, [metric] * count, units, rows, choice, factor=1 - cell.lost, draws=DRAWS)
    return _ends([one.intervals[0] for one in found]), _student(after - (1 - cell.lost) * base)


def _conversations(cell: Cell, count: int, rng: np.random.Generator) -> Ends:
    """A turn repeats its conversation's value with probability √ICC, so two turns agree by chance ICC."""
    out: list[tuple[float, float]] = []
    for _ in range(count):
        sizes = rng.choice(UNEQUAL, cell.n) if cell.unequal else np.full(cell.n, TURNS)
        of = np.repeat(np.arange(cell.n), sizes)
        own = _draw(cell, (cell.n,), rng)[of]
        values = np.where(rng.random(len(of)) < cell.icc**0.5, own, _draw(cell, (len(of),), rng))
        (one,) = intervals(values[None, :], Units.of(len(of), [str(c) for c in of]), bounds=[cell.scale])
        out.append((one.low, one.high) if one.units >= 5 else (float("nan"), float("nan")))
    return out, [0.0]


def _weights(cell: Cell, count: int, rng: np.random.Generator) -> Ends:
    values = _draw(cell, (count, cell.n), rng)
    if cell.weights == "lognormal":  # other weights for each sample
        each = [(row[None, :], rng.lognormal(0, 1, cell.n)) for row in values]
    else:
        each = [(values, np.full(cell.n, 2.0) if cell.weights == "equal" else 1 / np.arange(1, cell.n + 1))]
    found = [
        one
        for rows, law in each
        for one in intervals(rows, Units.of(cell.n, None, law), bounds=[cell.scale] * len(rows))
    ]
    return [(one.low, one.high) if one.units >= 5 else (float("nan"), float("nan")) for one in found], [0.0]


def _segments(cell: Cell, count: int, rng: np.random.Generator) -> Ends:
    """The interval of the segment that is farthest on each side, at the level of a fail."""
    values = _draw(cell, (count * cell.segments, cell.n), rng)
    level = 1 - (1 - CONFIDENCE) / cell.segments
    bounds = [cell.scale] * len(values)
    fail = np.array(_ends(intervals(values, Units.of(cell.n), bounds=bounds, confidence=level)))
    passing = np.array(_ends(intervals(values, Units.of(cell.n), bounds=bounds)))
    low = passing[:, 0].reshape(count, -1).min(axis=1)
    high = np.nanmin(fail[:, 1].reshape(count, -1), axis=1)
    return list(zip(map(float, low), map(float, high), strict=True)), [0.0]


KINDS: dict[str, Callable[[Cell, int, np.random.Generator], Ends]] = {
    "level": _level,
    "change": _change,
    "relative": _relative,
    "conversations": _conversations,
    "weights": _weights,
    "segments": _segments,
}


def compare_pairs(population: Populations, conversations: int, samples: int) -> tuple[float, float]:
    """How often some pair of five equal systems differs significantly: by HSD alone, and as `--all-pairs` decides.

    The systems of DL19 trade places at random, conversation by conversation, so that none is better.
    """
    values = np.array([v for (name, _, metric), v in population.items() if (name, metric) == ("DL19", "ndcg@10")])
    rng = np.random.default_rng([conversations, samples])
    of = np.repeat(np.arange(conversations), TURNS)
    units = Units.of(len(of), [str(c) for c in of])
    alone = both = 0
    for sample in range(samples):
        own, each = rng.integers(0, values.shape[1], conversations), rng.integers(0, values.shape[1], len(of))
        queries = np.where(rng.random(len(of)) < ICC**0.5, own[of], each)
        places = rng.random((conversations, len(values))).argsort(axis=1)
        drawn = values[places[of].T, queries]
        p, _ = randomised_hsd(drawn, units, draws=DRAWS, seed=sample)
        alone += bool((p < ALPHA).any())
        both += bool((np.maximum(p, p_with_one_more(drawn, drawn, units, (-1.0, 1.0))) < ALPHA).any())
    return 100 * alone / samples, 100 * both / samples


# --- what is written ---------------------------------------------------------------------------------------------


def _has_coverage_bar(part: str, cell: Cell) -> bool:
    return part in COVERED and cell.label.startswith("DL19") and "ndcg@10" in cell.label


def exceeds(cell: Cell, rates: Rates) -> bool:
    """Whether a side misses more often than it may, by more than two standard errors of the simulation."""
    limit = LIMITS.get(cell.n, LIMIT) if cell.kind != "segments" else 5.0
    slack = 2 * (limit * (100 - limit) / rates.samples) ** 0.5
    sides = (rates.below,) if cell.kind == "segments" else (rates.above, rates.below)
    return any(side > limit + slack for side in sides)


HEAD = (
    "n",
    "cells",
    "SHIP: mean",
    "worst",
    "BLOCK: mean",
    "worst",
    "no interval",
    "width / t",
    "worst SHIP",
    "worst BLOCK",
)


def percent(value: float) -> str:
    """A percentage with one digit."""
    return f"{value:.1f}%"


def describe(rows: list[tuple[Cell, Rates]]) -> list[list[str]]:
    """The mean and the worst rates of each size."""
    out = []
    for n in sorted({c.n for c, _ in rows}):
        mine = [(c, r) for c, r in rows if c.n == n]
        above, below = max(mine, key=lambda x: x[1].above), max(mine, key=lambda x: x[1].below)
        ratio = [r.width / r.student for _, r in mine if r.student > 0]
        means = [float(np.mean([getattr(r, side) for _, r in mine])) for side in ("above", "below", "undecided")]
        out.append(
            [
                str(n),
                str(len(mine)),
                f"{means[0]:.1f}%",
                f"{above[1].above:.1f}%",
                f"{means[1]:.1f}%",
                f"{below[1].below:.1f}%",
                f"{means[2]:.1f}%",
                f"{np.median(ratio):.2f}" if ratio else "",
                above[0].label,
                below[0].label,
            ]
        )
    return out


def list_cells(rows: list[tuple[Cell, Rates]]) -> list[list[str]]:
    """The rates of each cell."""
    return [[c.label, str(c.n), percent(r.above), percent(r.below), percent(r.undecided)] for c, r in rows]


if __name__ == "__main__":
    sys.exit(main())
