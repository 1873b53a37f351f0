"""How far TREC DL 2019 can be trusted to order systems, and whether those intervals hold: `make bench-reliability`.

Writes the tables of docs/reliability.md. Needs ../shared/data/dl19.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import karat
from karat.results.figures import percent_text
from karat.results.reliability import RELIABILITY_HEADS
from karat.stats.generalizability import study_generalizability
from write_docs import with_section

Floats = NDArray[np.float64]

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data" / "dl19"
PAGE = ROOT / "docs" / "reliability.md"
SYSTEMS = ("bm25", "bm25-rm3", "splade", "tas-b", "ada2")
METRICS = (
    "ndcg@5,ndcg@10,ndcg@100,map(rel=2),bpref(rel=2),rbp,err@10,mrr(rel=2),precision(rel=2)@10,hit(rel=2)@1,"
    "recall(rel=2)@10,recall(rel=2)@100"
)
POPULATIONS = "ndcg@10,map,mrr,hit@5,recall@5"
SIZES = (10, 25, 50, 100)
DRAWS = 2000
MIXED = 40


def true_coefficients(values: Floats, n: int) -> tuple[float, float]:
    """Eρ² and Φ of n queries drawn from a population of queries × systems."""
    systems = values.shape[1]
    spread = np.cov(values.T, ddof=0)
    rest = (np.trace(spread) - spread.sum() / systems) / (systems - 1)
    query = max(0.0, (spread.sum() / systems - rest) / systems)
    system = values.mean(axis=0).var(ddof=1)
    return system / (system + rest / n), system / (system + (query + rest) / n)


def miss_rates(values: Floats, n: int, rng: np.random.Generator) -> list[str]:
    """The truth, and how often an interval lies above or below it, for Eρ² and Φ."""
    truth = true_coefficients(values, n)
    misses, count = np.zeros((2, 2)), 0
    for _ in range(DRAWS):
        study = study_generalizability(values[rng.integers(0, len(values), n)])
        if study.components.interaction == 0:
            continue
        count += 1
        for i, one in enumerate((study.relative.at(n), study.absolute.at(n))):
            misses[i] += one.low > truth[i] + 1e-12, one.high < truth[i] - 1e-12
    cells = []
    for value, (above, below) in zip(truth, misses / count, strict=True):
        cells += [f"{value:.2f}", f"{above:.1%} / {below:.1%}"]
    return cells


def coverage() -> list[str]:
    runs = {name: DATA / f"{name}.run" for name in SYSTEMS}
    result = karat.evaluate(DATA / "qrels.txt", runs, POPULATIONS, cache=False)
    populations = {m: np.array([run.values[m] for run in result.runs]).T for m in result.metrics}
    rng = np.random.default_rng(1)
    base = populations["ndcg@10"]
    weights = rng.dirichlet(np.full(len(SYSTEMS), 0.3), MIXED)
    noise = rng.normal(0, 0.08, (len(base), MIXED))
    populations[f"ndcg@10, {MIXED} mixed systems"] = np.clip(base @ weights.T + noise, 0, 1)
    lines = ["| population | n | Eρ² | above / below | Φ | above / below |", "|---|---:|---:|---:|---:|---:|"]
    for name, values in populations.items():
        for n in SIZES:
            lines.append(f"| {name} | {n} | " + " | ".join(miss_rates(values, n, rng)) + " |")
            print(lines[-1], flush=True)
    return lines


def figures() -> list[str]:
    runs = {name: DATA / f"{name}.run" for name in SYSTEMS}
    study = karat.reliability(DATA / "qrels.txt", runs, METRICS, draws=100_000, cache=False)
    heads = (*RELIABILITY_HEADS, "variance: systems", "queries", "interaction")
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    for one in (one for group in study.ranking for one in group):
        parts = one.study.components
        shares = (percent_text(v / parts.total) for v in (parts.system, parts.query, parts.interaction))
        lines.append("| " + " | ".join((*one.cells(), *shares)) + " |")
    return [f"> {study.conclusion}.", "", *lines, "", f"At α = {study.alpha:g}, {study.best_statement}."]


def main() -> None:
    if not DATA.is_dir():
        raise SystemExit(f"{DATA}: no such folder; expected the TREC DL 2019 data there")
    page = PAGE.read_text("utf-8")
    page = with_section(page, "dl19", "\n" + "\n".join(figures()))
    page = with_section(page, "coverage", "\n" + "\n".join(coverage()))
    PAGE.write_text(page, "utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
