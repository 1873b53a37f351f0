"""Judges and incomplete gold: do corrected figures hold the truth? `make bench-judges`.

Planted grades: a share and ndcg@10 by a judge with known errors, corrected by people's labels on 200 pairs or queries.
Real grades (judge-rag25: people and an LLM judge on the same 10,284 pairs): a random tenth of people's grades corrects
the judge's mean grade and share of relevant pairs. TREC DL 2019: a fifth of the judgments stands for all of them, and
samples with more and fewer relevant docs per query say from how many on ratios can be estimated; planted judges, one
fair and one that favours a run, order the five systems.

    judges.py          all samples; writes the section `judges` of bench/RESULTS.md
    judges.py --quick  a tenth of them, to try it; writes nothing
    judges.py --only ratios  only the samples with more and fewer relevant docs; writes nothing
    judges.py --files FOLDER  only writes what a planted judge and people say of DL19, for `karat judge calibrate`

Needs ../shared/data. Takes about five minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import math
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))
from harness import HERE, Report, finish, machine, progress, source_digest
from karat.judge.calibration import survey_by_grade
from karat.judge.judgments import Judgment, ModelJudge, Person, add_judgments
from karat.judge.pairs import allocate, draw_sample
from karat.judge.sampled import RELEVANT_DOCS
from karat.judge.systems import compare_systems
from karat.metrics import parse
from karat.metrics.corrected import JudgedPairs, correct_metric
from karat.metrics.sampled_gold import SampledGold, estimate_metric
from karat.stats.aggregates import IntervalChoice, Statistic, measure_changes
from karat.stats.agreement import count_confusion, discriminate, kappa
from karat.stats.intervals import wilson
from karat.stats.misclassification import ErrorRate, correct_share
from karat.stats.prediction_powered import CorrectedValues, Labels, correct_by_query, correct_mean, tune_difference
from karat.stats.resample import Units
from karat.stats.survey import Survey
from karat.stats.unseen_labels import keep_apart

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

SHARED = HERE.parent.parent / "shared" / "data"
SAMPLES = {
    "share": 2000,
    "queries": 2000,
    "pairs": 200,
    "few": 400,
    "whole": 400,
    "differences": 400,
    "rag25": 2000,
    "systems": 400,
    "sampled": 400,
    "ratios": 200,
}
LABELS, JUDGED, THETA, SENSITIVITY, SPECIFICITY = 200, 5000, 0.4, 0.95, 0.75
CONFUSION = np.array([[0.75, 0.17, 0.06, 0.02], [0.1, 0.5, 0.3, 0.1], [0.03, 0.12, 0.55, 0.3], [0.01, 0.04, 0.2, 0.75]])
"""Of the planted judge: how likely it gives the grades 0 to 3 to docs of each true grade."""
METRICS = ("precision@10", "recall@10", "recall@100", "map", "ndcg@10")
RUNS = ("ada2", "bm25", "bm25-rm3", "splade", "tas-b")
TOP_SHARE, SHARE = 0.5, 0.2
"""Of the docs that any run has in its top 10, and of all docs, how many are drawn."""
DOCS, SHOWN = 20, 10
SYSTEM_LABELS = 400
RELEVANT_SAMPLED = (3, 5, 7, 10, 14, 20)
"""Relevant docs in the sample of a query, on average."""


def main() -> int:
    """Measure everything, on several processes."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true")
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--files", type=Path, metavar="FOLDER")
    options.add_argument("--only", choices=("ratios",))
    choice = options.parse_args()
    if not SHARED.exists():
        raise SystemExit(f"{SHARED} is missing: judge-rag25 and DL19 are needed")
    if choice.files is not None:
        write_files(choice.files)
        return 0
    samples = {name: n // 10 if choice.quick else n for name, n in SAMPLES.items()}
    begun = source_digest()
    report = Report("Judges and incomplete gold")
    report.note(machine())
    if choice.only is not None:
        write_ratios(report, samples["ratios"])
        finish("judges", report, begun, partial=True)
        return 0 if all(bar.passed for bar in report.bars) else 1
    with ProcessPoolExecutor(choice.processes) as pool:
        jobs = [(run, even) for even in (False, True) for run in RUNS]
        sampled = [
            pool.submit(measure_sampled, run, samples["sampled"] // (4 if even else 1), even) for run, even in jobs
        ]
        progress("planted judges")
        write_share(report, samples["share"])
        write_ndcg(report, samples["queries"], samples["pairs"])
        write_few(report, samples["few"])
        write_whole(report, samples["whole"])
        write_differences(report, samples["differences"])
        progress("judge-rag25")
        write_rag25(report, samples["rag25"])
        write_systems(report, samples["systems"])
        progress("sampled gold")
        write_sampled(report, [(job, future.result()) for job, future in zip(jobs, sampled, strict=True)])
        write_ratios(report, samples["ratios"])
    finish("judges", report, begun, choice.quick)
    return 0 if all(bar.passed for bar in report.bars) else 1


def percent(share: float) -> str:
    return f"{100 * share:.1f}%"


# --- planted judges ----------------------------------------------------------------------------------------------


def write_share(report: Report, samples: int) -> None:
    """A share: the judge alone, people alone, Rogan and Gladen, PPI++."""
    rng = np.random.default_rng(17)
    holds, lengths = np.empty((samples, 4)), np.empty((samples, 4))
    for i in range(samples):
        truth = rng.random(JUDGED) < THETA
        judge = np.where(truth, rng.random(JUDGED) < SENSITIVITY, rng.random(JUDGED) >= SPECIFICITY)
        row = rng.choice(JUDGED, LABELS, replace=False)
        labels = Labels(row, truth[row].astype(float), Survey.even(LABELS, JUDGED))
        mean = correct_mean(judge.astype(float), labels, scope="population")
        rates = [
            ErrorRate(float((judge[row] == side)[truth[row] == side].mean()), int((truth[row] == side).sum()))
            for side in (True, False)
        ]
        share = correct_share(float(judge.mean()), JUDGED, *rates)
        raw = wilson(float(judge.sum()), JUDGED, 0.95)
        ends = [raw, (mean.human.low, mean.human.high)]
        ends += [(one.low, one.high) for one in (share.interval, mean.interval)]
        holds[i] = [low <= THETA <= high for low, high in ends]
        lengths[i] = [high - low for low, high in ends]
    report.heading("a share by a planted judge")
    report.note(
        f"{samples:,} samples: {JUDGED:,} judged pairs, {LABELS} of them labelled, true share {THETA:g}, "
        f"sensitivity {SENSITIVITY:g}, specificity {SPECIFICITY:g}."
    )
    coverage, length = holds.mean(axis=0), lengths.mean(axis=0)
    names = ("judge alone", "labels alone", "Rogan–Gladen", "PPI++")
    table = [[n, percent(c), f"{x:.4f}"] for n, c, x in zip(names, coverage, length, strict=True)]
    report.table(("interval", "holds the truth", "mean length"), table)
    report.bar("the judge alone almost never holds it", percent(coverage[0]), coverage[0] < 0.01)
    report.bar("PPI++ holds 93.5–96.5%", percent(coverage[3]), 0.935 <= coverage[3] <= 0.965)
    ratio = length[3] / length[1]
    report.bar("PPI++ is shorter than labels alone", f"{ratio:.2f} of their length", ratio < 1)


def plant(rng: np.random.Generator, queries: int, spread: float) -> tuple[Floats, Floats, Counts]:
    """Grades by people and by the judge, and ranks (0: not returned), as queries × docs."""
    score = rng.normal(size=(queries, DOCS))
    quality = 0.6 * score + 0.8 * rng.normal(size=score.shape) + spread * rng.normal(size=(queries, 1))
    human = np.digitize(quality, [0.3, 1.0, 1.7])
    judge = (rng.random(score.shape)[..., None] > CONFUSION[human].cumsum(axis=-1)).sum(axis=-1).clip(max=3)
    rank = (-score).argsort(axis=1).argsort(axis=1) + 1
    return human.astype(float), judge.astype(float), np.where(rank <= SHOWN, rank, 0)


def ndcg(grade: Floats, rank: Counts) -> Floats:
    """ndcg@10 of each query."""
    discount = 1 / np.log2(np.arange(SHOWN) + 2.0)
    best = (-np.sort(-grade, axis=1)[:, :SHOWN] * discount).sum(axis=1)
    dcg = np.where(rank > 0, grade / np.log2(np.maximum(rank, 1) + 1.0), 0.0).sum(axis=1)
    out: Floats = np.divide(dcg, best, out=np.zeros(len(grade)), where=best > 0)
    return out


def write_ndcg(report: Report, by_query: int, by_pair: int) -> None:
    """ndcg@10 corrected by labels on whole queries, and metrics corrected by labels on pairs."""
    report.heading("ndcg@10 by a planted judge")
    rng = np.random.default_rng(18)
    human, judge, rank = plant(rng, 50_000, 0.5)
    people, raw = ndcg(human, rank), ndcg(judge, rank)
    truth = float(people.mean())
    holds, ratios, off = [], [], []
    for _ in range(by_query):
        queries = rng.integers(0, len(people), JUDGED)
        row = rng.choice(JUDGED, LABELS, replace=False)
        labels = Labels(row, people[queries[row]], Survey.even(LABELS, JUDGED))
        mean = correct_mean(raw[queries], labels, scope="population")
        half = 1.96 * raw[queries].std(ddof=1) / math.sqrt(JUDGED)
        holds.append((truth in mean.interval, abs(mean.raw - truth) <= half))
        ratios.append((mean.interval.high - mean.interval.low) / (mean.human.high - mean.human.low))
        off.append(mean.interval.estimate - truth)
    coverage, alone = np.mean(holds, axis=0)
    report.note(
        f"Whole queries: {by_query:,} samples of {JUDGED:,} judged queries, {LABELS} of them labelled in full "
        f"({DOCS} docs each, grades 0–3). True mean {truth:.4f}, by the judge {raw.mean():.4f}."
    )
    report.bar("the judge alone almost never holds it", percent(alone), alone < 0.01)
    report.bar("PPI++ by query holds 93.5–96.5%", percent(coverage), 0.935 <= coverage <= 0.965)
    report.bar("and is shorter than labels alone", f"{np.mean(ratios):.2f} of their length", np.mean(ratios) < 1)
    report.note(
        f"Bias {np.mean(off):+.5f}, standard error {np.std(off):.4f}.\n\nPairs: {by_pair:,} samples; "
        f"{JUDGED // DOCS} queries × {DOCS} docs, labels on random pairs; intervals for these queries."
    )
    table, precision = [], []
    for spread in (0.0, 0.3, 0.8):
        for n in (LABELS, 5 * LABELS):
            rows = measure_pairs(spread, n, by_pair)
            precision += [one.coverage for one in rows if one.metric == "precision@10"]
            table += [[f"{spread:g}", f"{n:,}", *one.cells()] for one in rows]
    report.table(
        ("sd of queries", "labels", "metric", "truth", "judge", "bias / SE", "holds", "length / labels"), table
    )
    mean = float(np.mean(precision))
    report.bar("precision@10 by pairs holds 93–98%, the mean of these", percent(mean), 0.93 <= mean <= 0.98)


FEW = (
    (50, 100, (0.97, 0.3), (0.95, 0.9)),
    (50, 400, (0.97, 0.3), (0.95, 0.9)),
    (50, 100, (0.03, 0.02), (0.95, 0.97)),
    (40, 40, (0.6, 0.3), (0.85, 0.85)),
    (100, 60, (0.99, 0.5), (0.9, 0.8)),
    (250, 200, (0.98, 0.3), (0.99, 0.98)),
    (250, 200, (0.6, 0.3), (0.9, 0.8)),
)
"""Queries, labels, the shares of relevant docs in the top 10 and below, sensitivity and specificity of the judge."""


def write_few(report: Report, samples: int) -> None:
    """Precision@10 near 1, near 0 and between, where few labels are in the top 10."""
    report.heading("precision@10 with few labels in the top 10")
    report.note(
        f"{samples:,} samples of queries with {DOCS} docs each, labels on pairs drawn by judged grade. Intervals for "
        "these queries, and for all queries like them."
    )
    rng, table, coverage, shortest = np.random.default_rng(27), [], [], []
    for queries, n, shares, judge in FEW:
        one = measure_few(rng, queries, n, shares, judge, samples)
        coverage.append(one[2:4])
        shortest.append(one[5])
        cells = [f"{queries}", f"{n}", f"{one[0]:.0f}", f"{shares[0]:g}", *map(percent, one[2:4])]
        table.append([*cells, *(f"{x:.3f}" for x in one[4:])])
    by_people, by_judge = read_grades("human.qrels"), read_grades("umbrela.qrels")
    keys = sorted(by_people.keys() & by_judge.keys())
    human, judged = (np.array([source[key] for key in keys]) for source in (by_people, by_judge))
    query = np.unique([topic for topic, _ in keys], return_inverse=True)[1]
    for bad in (0.06, 0.4, 0.94):
        rank = plant_run(rng, query, human >= 1, bad)
        rows = [measure_precision(rng, query, rank, judged, human, len(keys) // 10) for _ in range(samples)]
        truth = float((human[rank > 0] >= 1).mean())
        found = summarize_few(rows, truth, [truth] * samples)
        coverage.append(found[2:4])
        shortest.append(found[5])
        cells = [
            "22 of judge-rag25",
            f"{len(keys) // 10:,}",
            f"{found[0]:.0f}",
            f"{truth:.3f}",
            *map(percent, found[2:4]),
        ]
        table.append([*cells, *(f"{x:.3f}" for x in found[4:])])
    heads = (
        "queries",
        "labels",
        "in the top 10",
        "truth",
        "holds, these",
        "holds, all such",
        "mean length",
        "shortest",
    )
    report.table((*heads, "mean length, all such"), table)
    least = np.min(coverage, axis=0)
    report.bar("for these queries each holds at least 92.5%", percent(float(least[0])), least[0] >= 0.925)
    report.bar("for queries like them, too", percent(float(least[1])), least[1] >= 0.925)
    report.bar("none has almost no length", f"{min(shortest):.3f}", min(shortest) > 0.01)


def plant_run(rng: np.random.Generator, query: Counts, relevant: NDArray[np.bool_], bad: float) -> Counts:
    """Ranks of ten docs for each query, so many of them irrelevant on average."""
    rank = np.zeros(len(query), dtype=np.int64)
    for number in np.unique(query):
        sides = [
            rng.permutation(np.flatnonzero((query == number) & (relevant == side))).tolist() for side in (True, False)
        ]
        for place in range(1, SHOWN + 1):
            side = sides[1] if sides[1] and (rng.random() < bad or not sides[0]) else sides[0]
            rank[side.pop()] = place
    return rank


def measure_few(
    rng: np.random.Generator,
    queries: int,
    n: int,
    shares: tuple[float, float],
    judge: tuple[float, float],
    samples: int,
) -> list[float]:
    """Labels in the top 10, their truth, coverage of both intervals, and their lengths."""
    query, rank = (
        np.repeat(np.arange(queries), DOCS),
        np.tile(np.r_[1 : SHOWN + 1, np.zeros(DOCS - SHOWN, int)], queries),
    )
    rows, truths = [], []
    for _ in range(samples):
        human = rng.random(len(query)) < np.where(rank > 0, *shares)
        graded = np.where(human, rng.random(len(query)) < judge[0], rng.random(len(query)) >= judge[1])
        rows.append(measure_precision(rng, query, rank, graded.astype(float), human.astype(float), n))
        truths.append(float(human[rank > 0].mean()))
    return summarize_few(rows, shares[0], truths)


def measure_precision(
    rng: np.random.Generator, query: Counts, rank: Counts, judge: Floats, human: Floats, n: int
) -> tuple[int, CorrectedValues]:
    """Precision@10 corrected by n labels, drawn by judged grade, and how many of them are in the top 10."""
    drawn = allocate({int(g): int((judge == g).sum()) for g in np.unique(judge)}, n)
    row = np.concatenate([rng.choice(np.flatnonzero(judge == g), m, replace=False) for g, m in drawn.items()])
    labels = Labels(row, human[row], survey_by_grade(judge, row, "planted"))
    pairs = JudgedPairs(int(query.max()) + 1, query, rank, judge, np.zeros(len(query), dtype=bool))
    return int((rank[row] > 0).sum()), correct_metric(parse("precision@10"), pairs, labels, resamples=1000)


def summarize_few(rows: list[tuple[int, CorrectedValues]], truth: float, truths: list[float]) -> list[float]:
    """As `measure_few` has it; the truth of each sample's queries, and of all queries like them."""
    these, everywhere = ([getattr(one, scope) for _, one in rows] for scope in ("these", "population"))
    lengths = [one.high - one.low for one in these]
    return [
        float(np.mean([n for n, _ in rows])),
        truth,
        float(np.mean([own in one for own, one in zip(truths, these, strict=True)])),
        float(np.mean([truth in one for one in everywhere])),
        float(np.mean(lengths)),
        float(np.min(lengths)),
        float(np.mean([one.high - one.low for one in everywhere])),
    ]


def write_whole(report: Report, samples: int) -> None:
    """Any metric corrected by queries that were drawn whole, as `karat judge sample --queries` draws them."""
    report.heading("whole queries of a planted judge")
    report.note(
        f"{samples:,} samples of queries with {DOCS} docs each, some of the queries labelled in full. Intervals for "
        "these queries, and for all queries like them."
    )
    rng = np.random.default_rng(24)
    human, judge, rank = plant(rng, 50_000, 0.5)
    top = (rank > 0) & (rank <= 3)
    figures = {
        "precision@10": [((rank > 0) & (grade >= 1)).sum(axis=1) / SHOWN for grade in (human, judge)],
        "ndcg@10": [ndcg(grade, rank) for grade in (human, judge)],
        "hit(rel=3)@3": [(top & (grade >= 3)).any(axis=1).astype(float) for grade in (human, judge)],
    }
    table, coverage = [], []
    for size, n in ((250, 25), (250, 50), (100, 30), (1000, 100)):
        for metric, (people, raw) in figures.items():
            rows = np.empty((samples, 4))
            for i in range(samples):
                queries = rng.integers(0, len(people), size)
                drawn = rng.choice(size, n, replace=False)
                labels = Labels(drawn, people[queries[drawn]], Survey.even(n, size))
                one = correct_by_query(raw[queries], np.ones(size, dtype=bool), labels, bounds=(0, 1), resamples=500)
                truth = people[queries].mean()
                length = (one.these.high - one.these.low) / (one.human.high - one.human.low)
                rows[i] = truth in one.these, people.mean() in one.population, length, one.these.estimate - truth
            bias = rows[:, 3].mean() / rows[:, 3].std()
            coverage.append(rows[:, :2].mean(axis=0))
            table.append(
                [f"{n} of {size:,}", metric, f"{bias:+.2f}", *(percent(x) for x in coverage[-1])]
                + [f"{np.nanmean(rows[:, 2]):.2f}"]
            )
    report.table(("labelled", "metric", "bias / SE", "holds, these", "holds, all such", "length / labels"), table)
    these, population = np.mean(coverage, axis=0)
    longest = max(float(row[-1]) for row in table)
    report.bar("for these queries they hold at least 93%, the mean of these", percent(these), these >= 0.93)
    report.bar("for queries like them, too", percent(population), population >= 0.93)
    report.bar("and all are shorter than labels alone", f"{longest:.2f} of their length", longest < 1)
    report.note(f"ndcg@10, the difference of two systems, for queries like these; {samples // 2:,} samples.")
    table, shares = [], []
    for favours in (False, True):
        for size, n in ((250, 25), (250, 50)):
            truth, holds, length = measure_whole_differences(rng, size, n, favours, samples // 2)
            shares.append(holds[0])
            judge_name = "favours one" if favours else "fair"
            table.append([f"{n} of {size}", judge_name, f"{truth:+.3f}", *map(percent, holds), f"{length:.2f}"])
    report.table(("labelled", "judge", "truth", "corrected holds", "judge alone", "length / labels"), table)
    report.bar("corrected differences hold at least 93.5%", percent(min(shares)), min(shares) >= 0.935)


def measure_whole_differences(
    rng: np.random.Generator, size: int, n: int, favours: bool, samples: int
) -> tuple[float, tuple[float, float], float]:
    """The truth, how often intervals hold it (corrected, judge alone), and the length beside that of labels alone."""
    human, judge, ranks = plant_two(rng, 50_000, favours)
    people, raw = ([ndcg(grade, rank) for rank in ranks] for grade in (human, judge))
    truth = float((people[1] - people[0]).mean())
    choice, figures = IntervalChoice(0.95, "auto", 500, 1, 1), np.empty((samples, 3))
    for i in range(samples):
        queries, drawn = rng.integers(0, len(human), size), rng.choice(size, n, replace=False)
        levels = [
            correct_by_query(
                raw[system][queries],
                np.ones(size, dtype=bool),
                Labels(drawn, people[system][queries[drawn]], Survey.even(n, size)),
                bounds=(0, 1),
                resamples=20,
            )
            for system in (0, 1)
        ]
        zero = levels[1].values - levels[0].values
        zero -= levels[1].tuning * levels[1].control - levels[0].tuning * levels[0].control
        control = levels[1].control - levels[0].control
        tuned = zero + tune_difference(zero, control) * control
        tuned += keep_apart(tuned, *(one.doubt for one in levels), Units.of(size))
        rows = np.array([tuned, zero, (raw[1] - raw[0])[queries]])
        changes = measure_changes(
            np.zeros_like(rows), rows, [Statistic("mean")] * 3, Units.of(size), [np.arange(size)], choice
        )
        corrected, alone, by_judge = (change.intervals[0] for change in changes[0])
        figures[i] = truth in corrected, truth in by_judge, (corrected.high - corrected.low) / (alone.high - alone.low)
    holds, by_judge_alone, length = figures.mean(axis=0).tolist()
    return truth, (holds, by_judge_alone), length


@dataclass(frozen=True)
class PairRow:
    """A metric corrected by labels on pairs."""

    metric: str
    truth: float
    raw: float
    bias: float
    coverage: float
    ratio: float

    def cells(self) -> list[str]:
        return [
            self.metric,
            *(f"{x:.3f}" for x in (self.truth, self.raw)),
            f"{self.bias:+.2f}",
            percent(self.coverage),
            f"{self.ratio:.2f}",
        ]


def measure_pairs(spread: float, n: int, samples: int) -> list[PairRow]:
    """Precision@10, ndcg@10 and hit of grade 3 in the top 3, corrected by n labels."""
    rng = np.random.default_rng([19, n, int(10 * spread)])
    queries = JUDGED // DOCS
    human, judge, rank = plant(rng, queries, spread)
    query = np.repeat(np.arange(queries), DOCS)
    pairs = JudgedPairs(queries, query, rank.ravel(), judge.ravel(), np.zeros(JUDGED, dtype=bool))
    top = (rank > 0) & (rank <= 3)
    truths = {
        "precision@10": float((human[rank > 0] >= 1).mean()),
        "ndcg@10": float(ndcg(human, rank).mean()),
        "hit(rel=3)@3": float((top & (human >= 3)).any(axis=1).mean()),
    }
    out = []
    flat = human.ravel()
    rows = [rng.choice(JUDGED, n, replace=False) for _ in range(samples)]
    for metric, truth in truths.items():
        measure = parse(metric)
        figures = []
        for row in rows:
            one = correct_metric(measure, pairs, Labels(row, flat[row], Survey.even(n, JUDGED)), resamples=100)
            length = (one.these.high - one.these.low) / (one.human.high - one.human.low)
            figures.append((one.these.estimate, truth in one.these, length, one.raw))
        estimate, holds, length, raw = np.array(figures).T
        bias = (estimate.mean() - truth) / estimate.std()
        out.append(PairRow(metric, truth, float(raw[0]), float(bias), float(holds.mean()), float(np.nanmean(length))))
    return out


def write_differences(report: Report, samples: int) -> None:
    """The difference of two systems in precision@10, for queries like these."""
    report.heading("precision@10: the difference of two systems by a planted judge")
    report.note(
        f"{samples:,} samples of queries × {DOCS} docs, labels on pairs drawn by judged grade; the second judge "
        "raises half of what the better system alone returns by one grade."
    )
    table, coverage, alone = [], [], []
    for queries, n in ((100, LABELS), (250, LABELS), (250, 5 * LABELS)):
        for favours in (False, True):
            truth, holds, lengths = measure_differences(queries, n, favours, samples)
            coverage.append(holds[0])
            alone.append(holds[2])
            judge = "favours one" if favours else "fair"
            shares = [percent(share) for share in holds]
            table.append([str(queries), f"{n:,}", judge, f"{truth:+.3f}", *shares, f"{lengths[0] / lengths[1]:.2f}"])
    heads = ("queries", "labels", "judge", "truth", "corrected holds", "labels alone", "judge alone", "length / labels")
    report.table(heads, table)
    mean = float(np.mean(coverage))
    report.bar("corrected differences hold at least 93.5%, the mean of these", percent(mean), mean >= 0.935)


def measure_differences(queries: int, n: int, favours: bool, samples: int) -> tuple[float, Floats, Floats]:
    """The truth; how often intervals hold it, and their mean lengths: corrected, labels alone, judge alone."""
    rng = np.random.default_rng([23, queries, n, favours])
    human, _, ranks = plant_two(rng, 200_000, favours)
    truth = float((top_share(human, ranks[1]) - top_share(human, ranks[0])).mean())
    query, size = np.repeat(np.arange(queries), DOCS), queries * DOCS
    measure, choice = parse("precision@10"), IntervalChoice(0.95, "auto", 1000, 1, 1)
    holds, lengths = [], []
    for _ in range(samples):
        human, judge, ranks = plant_two(rng, queries, favours)
        grades = judge.ravel()
        drawn = allocate({int(g): int((grades == g).sum()) for g in np.unique(grades)}, n)
        row = np.concatenate([rng.choice(np.flatnonzero(grades == g), m, replace=False) for g, m in drawn.items()])
        labels = Labels(row, human.ravel()[row], survey_by_grade(grades, row, "planted"))
        none = np.zeros(size, dtype=bool)
        levels = [
            correct_metric(measure, JudgedPairs(queries, query, r.ravel(), grades, none), labels, resamples=20)
            for r in ranks
        ]
        zero = [one.values - one.tuning * one.control for one in levels]
        control = levels[1].control - levels[0].control
        tuned = zero[1] - zero[0] + tune_difference(zero[1] - zero[0], control) * control
        tuned += keep_apart(tuned, *(one.doubt for one in levels), Units.of(queries))
        raw = top_share(judge, ranks[1]) - top_share(judge, ranks[0])
        rows = np.array([tuned, zero[1] - zero[0], raw])
        changes = measure_changes(
            np.zeros_like(rows), rows, [Statistic("mean")] * 3, Units.of(queries), [np.arange(queries)], choice
        )
        intervals = [change.intervals[0] for change in changes[0]]
        holds.append([truth in i for i in intervals])
        lengths.append([i.high - i.low for i in intervals])
    return truth, np.mean(holds, axis=0), np.mean(lengths, axis=0)


def plant_two(rng: np.random.Generator, queries: int, favours: bool) -> tuple[Floats, Floats, tuple[Counts, Counts]]:
    """Grades by people and by the judge, and the ranks of two systems, the second one better."""
    score, noise = rng.normal(size=(2, queries, DOCS))
    quality = 0.6 * score + 0.8 * rng.normal(size=score.shape) + 0.5 * rng.normal(size=(queries, 1))
    human = np.digitize(quality, [0.3, 1.0, 1.7])
    judge = (rng.random(score.shape)[..., None] > CONFUSION[human].cumsum(axis=-1)).sum(axis=-1).clip(max=3)
    own = [w * score + math.sqrt(1 - w * w) * noise + 0.3 * rng.normal(size=score.shape) for w in (0.6, 0.9)]
    places = [(-one).argsort(axis=1).argsort(axis=1) + 1 for one in own]
    first, second = (np.where(place <= SHOWN, place, 0) for place in places)
    if favours:
        raised = (second > 0) & (first == 0) & (rng.random(judge.shape) < 0.5)
        judge = np.where(raised, np.minimum(judge + 1, 3), judge)
    return human.astype(float), judge.astype(float), (first, second)


def top_share(grade: Floats, rank: Counts) -> Floats:
    """precision@10 of each query."""
    out: Floats = ((rank > 0) & (grade >= 1)).sum(axis=1) / SHOWN
    return out


# --- judge-rag25 -------------------------------------------------------------------------------------------------


def read_grades(name: str) -> dict[tuple[str, str], float]:
    lines = (SHARED / "judge-rag25" / name).read_text("utf-8").splitlines()
    return {(q, d): float(g) for q, _, d, g in map(str.split, lines)}


def write_rag25(report: Report, samples: int) -> None:
    """People and an LLM judge on the same pairs."""
    by_people, by_judge = read_grades("human.qrels"), read_grades("umbrela.qrels")
    keys = sorted(by_people.keys() & by_judge.keys())
    human, judge = (np.array([source[key] for key in keys]) for source in (by_people, by_judge))
    topics = [topic for topic, _ in keys]
    units = Units.of(len(keys), topics)
    report.heading("judge-rag25: people and an LLM judge")
    report.note(f"{len(keys):,} pairs of {len(set(topics))} queries, grades 0–4; intervals by query.")
    matrix = count_confusion(human, judge)
    rows = [[f"people {g:g}", *map(str, row)] for g, row in zip(matrix.grades, matrix.counts.tolist(), strict=True)]
    report.table(("pairs", *(f"judge {g:g}" for g in matrix.grades)), rows)
    figures = [(f"kappa, {by}", kappa(human, judge, by=by, units=units)) for by in ("none", "linear", "quadratic")]
    skill = discriminate(human >= 1, judge >= 1, units=units)
    figures += [("sensitivity", skill.sensitivity), ("specificity", skill.specificity)]
    report.table(
        ("figure", "value", "95% interval"),
        [[name, f"{one.estimate:.3f}", f"{one.low:.3f}–{one.high:.3f}"] for name, one in figures],
    )
    by_topic = {
        t: judge[units.unit == u].mean() - human[units.unit == u].mean() for u, t in enumerate(dict.fromkeys(topics))
    }
    ordered = sorted(by_topic.items(), key=lambda item: item[1])
    (least, low), (most, high) = ordered[0], ordered[-1]
    report.note(
        f"Mean grade by people {human.mean():.3f}, by the judge {judge.mean():.3f}. By query, the judge is off by "
        f"{low:+.2f} (query {least}) to {high:+.2f} (query {most})."
    )
    rng = np.random.default_rng(20)
    n, table, coverages = len(keys) // 10, [], []
    columns = {
        "mean grade": (human, judge),
        "share of grade 1 and above": ((human >= 1) * 1.0, (judge >= 1) * 1.0),
        "share of grade 3 and above": ((human >= 3) * 1.0, (judge >= 3) * 1.0),
    }
    for design in ("random", "by judged grade"):
        draws = [draw_labels(rng, judge, n, design) for _ in range(samples)]
        for name, (people, machine_made) in columns.items():
            holds, ratios, estimates = [], [], []
            for row, survey in draws:
                one = correct_mean(machine_made, Labels(row, people[row], survey))
                holds.append(people.mean() in one.interval)
                ratios.append((one.interval.high - one.interval.low) / (one.human.high - one.human.low))
                estimates.append(one.interval.estimate)
            coverages.append(float(np.mean(holds)))
            bias = (np.mean(estimates) - people.mean()) / np.std(estimates)
            table.append(
                [f"{name}, {design}", f"{people.mean():.4f}", f"{machine_made.mean():.4f}", f"{bias:+.2f}"]
                + [percent(coverages[-1]), f"{np.mean(ratios):.2f}"]
            )
    report.note(f"Corrected with people's grades of {n:,} pairs, {samples:,} samples; intervals for these queries.")
    report.table(("figure, sample", "people", "judge", "bias / SE", "holds", "length / labels"), table)
    report.bar(
        "corrected figures hold the value by people in 93–97%",
        f"{percent(min(coverages))}–{percent(max(coverages))}",
        min(coverages) >= 0.93 and max(coverages) <= 0.97,
    )


def draw_labels(rng: np.random.Generator, judge: Floats, n: int, design: str) -> tuple[Counts, Survey]:
    """A random sample, or the same number of each judged grade."""
    if design == "random":
        return rng.choice(len(judge), n, replace=False), Survey.even(n, len(judge))
    members = [np.flatnonzero(judge == g) for g in np.unique(judge)]
    sizes = [min(len(m), n // len(members)) for m in members]
    row = np.concatenate([rng.choice(m, size, replace=False) for m, size in zip(members, sizes, strict=True)])
    chance = [size / len(m) for m, size in zip(members, sizes, strict=True)]
    return row, Survey(np.repeat(chance, sizes), np.repeat(np.arange(len(members)), sizes))


# --- TREC DL 2019 ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Collection:
    """All judged pairs: ids, query, grade, rank of each run (0: not returned), and the best rank of all runs."""

    ids: list[tuple[str, str]]
    query: Counts
    grade: Floats
    ranks: dict[str, Counts]
    best: Counts


@lru_cache(maxsize=1)
def read_dl19() -> Collection:
    folder = SHARED / "dl19"
    rows = [line.split() for line in (folder / "qrels.txt").read_text("utf-8").splitlines()]
    places = {(q, d): i for i, (q, _, d, _) in enumerate(rows)}
    numbers = {q: i for i, q in enumerate(sorted({row[0] for row in rows}))}
    ranks = {}
    for run in RUNS:
        rank = np.zeros(len(rows), dtype=np.int64)
        for line in (folder / f"{run}.run").read_text("utf-8").splitlines():
            q, _, d, place, *_ = line.split()
            if (q, d) in places:
                rank[places[q, d]] = int(place)
        ranks[run] = rank
    best = np.min([np.where(rank > 0, rank, 10**6) for rank in ranks.values()], axis=0)
    grades = np.array([float(row[3]) for row in rows])
    return Collection(list(places), np.array([numbers[row[0]] for row in rows]), grades, ranks, best)


def sample_design(data: Collection, even: bool, share: float = SHARE) -> tuple[Counts, Floats]:
    """The stratum of each pair, and the probability with which it is drawn: as many of all in either design."""
    top = np.zeros(len(data.best), dtype=bool) if even else data.best <= 10
    rest = (share * len(top) - share / SHARE * TOP_SHARE * top.sum()) / (~top).sum()
    stratum = 2 * data.query + top
    sizes = np.bincount(stratum)
    rate = np.where(np.arange(len(sizes)) % 2, min(share / SHARE * TOP_SHARE, 1.0), rest)
    numbers = np.minimum(np.maximum(np.round(rate * sizes), 2), sizes)
    return stratum, (numbers / np.maximum(sizes, 1))[stratum]


def measure_sampled(run: str, samples: int, even: bool, share: float = SHARE) -> Floats:
    """For each metric: truth, bias / SE, standard deviation, mean standard error, coverage."""
    data = read_dl19()
    queries = int(data.query.max()) + 1
    stratum, chance = sample_design(data, even, share)
    order = np.argsort(stratum, kind="stable")
    starts = np.flatnonzero(np.diff(stratum[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(order)))
    place = np.arange(len(order)) - np.repeat(starts, sizes)
    numbers = np.round(chance[order] * np.repeat(sizes, sizes))
    rng = np.random.default_rng([21, RUNS.index(run), even, *([] if share == SHARE else [int(share * 1e6)])])

    def estimate(rows: Counts, survey: Survey) -> list[tuple[float, float, float, float]]:
        gold = SampledGold(queries, data.query[rows], data.ranks[run][rows], data.grade[rows], survey)
        found = [estimate_metric(parse(m), gold, resamples=100) for m in METRICS]
        return [(one.these.estimate, one.error, one.these.low, one.these.high) for one in found]

    everything = np.arange(len(order))
    truth = np.array(estimate(everything, Survey(np.ones(len(order)))))[:, 0]
    figures = np.empty((samples, len(METRICS), 4))
    for i in range(samples):
        shuffled = order[np.lexsort((rng.random(len(order)), stratum[order]))]
        rows = np.sort(shuffled[place < numbers])
        figures[i] = estimate(rows, Survey(chance[rows], stratum[rows]))
    middle, error, low, high = np.moveaxis(figures, 2, 0)
    spread = middle.std(axis=0)
    holds = ((low <= truth) & (truth <= high)).mean(axis=0)
    out: Floats = np.array([truth, (middle.mean(axis=0) - truth) / spread, spread, error.mean(axis=0), holds])
    return out.T


def write_sampled(report: Report, rows: list[tuple[tuple[str, bool], Floats]]) -> None:
    """Horvitz and Thompson's estimates from a fifth of the judgments."""
    report.heading("TREC DL 2019: a fifth of the judgments")
    report.note(
        f"By rank: half of the docs that any run has in its top 10 and fewer of the others, {100 * SHARE:g}% in all, a "
        f"fixed number from each query. Even: {100 * SHARE:g}% of each query's docs. {SAMPLES['sampled']:,} samples "
        "(even: a quarter of that); intervals for these 43 queries."
    )
    table = []
    for (run, even), figures in rows:
        for metric, (truth, bias, spread, error, holds) in zip(METRICS, figures, strict=True):
            table.append(
                [f"{'even' if even else 'by rank'}, {run}, {metric}", f"{truth:.4f}", f"{bias:+.2f}"]
                + [f"{spread:.4f}", f"{error:.4f}", percent(holds)]
            )
    report.table(("sample, run, metric", "truth", "bias / SE", "sd", "mean SE", "holds"), table)
    by_rank = np.array([figures for (_, even), figures in rows if not even]).mean(axis=0)  # over the runs
    off, holds = np.abs(by_rank[:, 1]), by_rank[:, 4]
    limit = 3 / math.sqrt(len(RUNS) * SAMPLES["sampled"])
    report.note("By rank, the means over runs:")
    report.bar(f"precision@10 is unbiased within {limit:.2f} SE", f"{off[0]:.2f}", bool(off[0] < limit))
    report.bar(
        "ratios are off by less than a quarter of an SE",
        ", ".join(f"{m} {x:+.2f}" for m, x in zip(METRICS[1:], by_rank[1:, 1], strict=True)),
        bool(off[1:].max() < 0.25),
    )
    report.bar(
        "intervals hold 93–97%",
        ", ".join(f"{m} {percent(x)}" for m, x in zip(METRICS, holds, strict=True)),
        bool(holds.min() >= 0.93 and holds.max() <= 0.97),
    )


def write_ratios(report: Report, samples: int) -> None:
    """From how many relevant docs per query on recall, map and ndcg can be estimated from sampled gold."""
    data = read_dl19()
    relevant = data.grade >= 1
    queries = int(data.query.max()) + 1
    report.heading("TREC DL 2019: ratios by the number of relevant docs in the sample")
    report.note(
        f"Samples of all sizes, drawn by rank as above; {samples:,} of each size and run, the means over {len(RUNS)} "
        f"runs. `karat evaluate` estimates ratios from {RELEVANT_DOCS} relevant docs per query on."
    )
    table, rows = [], {}
    for number in RELEVANT_SAMPLED:
        share = find_share(data, number)
        _, chance = sample_design(data, False, share)
        drawn = float(chance[relevant].sum()) / queries
        progress(f"{drawn:.1f} relevant docs per query")
        figures = np.array([measure_sampled(run, samples, False, share) for run in RUNS]).mean(axis=0)
        rows[number] = figures
        for metric, (_, bias, spread, error, holds) in zip(METRICS, figures, strict=True):
            table.append(
                [f"{drawn:.1f}", percent(share), metric, f"{bias:+.2f}", f"{error / spread:.2f}", percent(holds)]
            )
    report.table(("relevant docs", "judgments", "metric", "bias / SE", "mean SE / sd", "holds"), table)
    enough = np.array([rows[number] for number in RELEVANT_SAMPLED if number >= RELEVANT_DOCS])[:, 1:]
    few = np.array([rows[number] for number in RELEVANT_SAMPLED if number <= RELEVANT_DOCS / 2])[:, 1:]
    off, off_before = float(np.abs(enough[:, :, 1]).max()), float(np.abs(few[:, :, 1]).min(axis=0).max())
    report.bar(f"from {RELEVANT_DOCS} on, ratios are off by less than a quarter of an SE", f"{off:.2f}", off < 0.25)
    least = float(enough[:, :, 4].min())
    report.bar(f"from {RELEVANT_DOCS} on, intervals hold at least 93%", percent(least), least >= 0.93)
    report.bar("with half as many, some ratio is off by more", f"{off_before:.2f}", off_before >= 0.25)


def find_share(data: Collection, number: int) -> float:
    """The share of judgments to draw for so many relevant docs per query, on average."""
    low, high, queries = 0.0, 0.4, int(data.query.max()) + 1
    for _ in range(30):
        middle = (low + high) / 2
        _, chance = sample_design(data, False, middle)
        low, high = (middle, high) if chance[data.grade >= 1].sum() / queries < number else (low, middle)
    return (low + high) / 2


def write_systems(report: Report, samples: int) -> None:
    """Two planted judges on DL19: which runs `karat judge calibrate --run` says they favour, and τ of the order."""
    rng, (ids, human, runs) = np.random.default_rng(22), top_docs()
    report.heading("TREC DL 2019: systems by planted judges")
    report.note(
        f"The {len(ids)} judged docs in the top 10 of five runs, {SYSTEM_LABELS} of them labelled, {samples:,} judges "
        "and samples each. The judge that favours bm25 gives its docs one grade more, up to 3."
    )
    liked = np.array([pair in runs["bm25"] for pair in ids])
    table, alarms, power, holds = [], 0.0, 0.0, []
    for name in ("fair", "favours bm25"):
        flags, taus, errors = np.zeros((samples, len(RUNS))), np.zeros((samples, 3)), np.zeros(len(RUNS))
        for i in range(samples):
            judge = plant_grades(rng, human)
            if name != "fair":
                judge = np.minimum(judge + liked, 3.0)
            everyone = Labels(np.arange(len(ids)), human, Survey(np.ones(len(ids))))
            one = compare_systems(ids, judge, sample_labels(judge, human, i), runs, depth=10, resamples=1000)
            full = compare_systems(ids, judge, everyone, runs, depth=10, resamples=2)
            assert one.tau is not None and full.tau is not None
            flags[i] = [system.favoured - 1.0 * system.disfavoured for system in one.systems]
            open_ended = math.isnan(one.tau.low)  # all samples of queries give one order: no interval
            taus[i] = one.tau.estimate, full.tau.estimate, open_ended or full.tau.estimate in one.tau
            errors += [system.error.estimate / samples for system in one.systems]
        holds.append(float(taus[:, 2].mean()))
        alarms = float((flags != 0).any(axis=1).mean()) if name == "fair" else alarms
        power = float((flags[:, RUNS.index("bm25")] > 0).mean())
        table.append([f"{name}: judge − people", *(f"{x:+.2f}" for x in errors), f"{taus[:, 0].mean():.2f}"])
        table.append([f"{name}: called favoured", *(percent(x) for x in (flags > 0).mean(axis=0)), ""])
        table.append([f"{name}: all pairs labelled", *("" for _ in RUNS), f"{taus[:, 1].mean():.2f}"])
    report.table(("judge", *RUNS, "τ"), table)
    report.bar("of fair judges, at most 7.5% are said to favour or dislike any run", percent(alarms), alarms <= 0.075)
    report.bar("the favour for bm25 is seen in at least 90%", percent(power), power >= 0.9)
    report.bar(
        "intervals of τ hold that of all labels in at least 90%", ", ".join(map(percent, holds)), min(holds) >= 0.9
    )


def top_docs() -> tuple[list[tuple[str, str]], Floats, dict[str, set[tuple[str, str]]]]:
    """The judged docs in the top 10 of any run: ids, people's grades, and the pairs of each run."""
    data = read_dl19()
    runs = {
        run: {pair for pair, place in zip(data.ids, rank.tolist(), strict=True) if 0 < place <= 10}
        for run, rank in data.ranks.items()
    }
    rows = [row for row, pair in enumerate(data.ids) if any(pair in own for own in runs.values())]
    return [data.ids[row] for row in rows], data.grade[rows], runs


def write_files(folder: Path) -> None:
    """The judgments of one judge that favours bm25, and labels on a sample of them, as `karat judge` reads them."""
    ids, human, runs = top_docs()
    liked = np.array([pair in runs["bm25"] for pair in ids])
    judge = np.minimum(plant_grades(np.random.default_rng(23), human) + liked, 3.0)
    now, grades = "2026-11-16T12:00:00+00:00", dict(zip(ids, human.tolist(), strict=True))
    rows = [
        Judgment(*pair, int(grade), "0-3", ModelJudge("planted", "p"), now)
        for pair, grade in zip(ids, judge.tolist(), strict=True)
    ]
    folder.mkdir(parents=True)
    add_judgments(str(folder / "judged.jsonl"), rows)
    labels = [
        Judgment(*pair.ids, int(grades[pair.ids]), "0-3", Person("assessors"), now, drawn=pair.drawn)
        for pair in draw_sample(rows, SYSTEM_LABELS)
    ]
    add_judgments(str(folder / "labels.jsonl"), labels)


def plant_grades(rng: np.random.Generator, human: Floats) -> Floats:
    """The grades of a judge with known errors."""
    steps = CONFUSION[human.astype(int)].cumsum(axis=1)
    out: Floats = (rng.random(len(human))[:, None] > steps).sum(axis=1).clip(max=3).astype(float)
    return out


def sample_labels(judge: Floats, human: Floats, seed: int) -> Labels:
    """People's grades of the pairs that `karat judge sample` draws."""
    sizes = {int(grade): int((judge == grade).sum()) for grade in np.unique(judge)}
    rng, rows = np.random.default_rng(seed), []
    for grade, count in allocate(sizes, SYSTEM_LABELS).items():
        rows.append(rng.choice(np.flatnonzero(judge == grade), count, replace=False))
    row = np.concatenate(rows)
    return Labels(row, human[row], survey_by_grade(judge, row, "labels"))


if __name__ == "__main__":
    sys.exit(main())
