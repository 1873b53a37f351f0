"""How CPU time and memory grow with the input: `make bench-growth`.

Every verb is run in a process of its own over 1,000, 10,000 and 100,000 queries of 20 docs each, or over a corpus of
10,000, 100,000 and 1,000,000 docs; and so are inputs of an odd shape. The exponent e of a growth is the slope in
log-log scale, time ~ size ** e: at most 1.1, between the two largest sizes and from the smallest to the largest.
A million docs must need less than 4 GB. A measurement that seems to miss is repeated, and the least time counts,
because other processes can only add to it. The files take about 3 GB below bench/data and are deleted at the end.
It takes an hour: after an interruption the same command resumes, as long as the source of Karat stays the same.

    growth.py                    all of it; writes the section `growth` of bench/RESULTS.md
    growth.py --largest 10000    up to 10,000 queries, and 100,000 docs; writes nothing
    growth.py --only check       the cases whose name has this in it; writes nothing
    growth.py --keep             leaves the files in bench/data/growth
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from data import FOLDER
from harness import Failed, OtherLoad, Report, Run, finish, machine, megabytes, progress, python, seconds, source_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

QUERIES, DOCS = (1_000, 10_000, 100_000), (10_000, 100_000, 1_000_000)
PARQUET = (20_000, 200_000, 2_000_000)
LISTED, JUDGED = 20, 3
MOST, PEAK = 1.1, 4_000_000_000
ATTEMPTS = 3
BENCHED = 200
"""Queries that a corpus is searched for: the same number whatever its size."""
PLACE = FOLDER / "growth"
NOTES = PLACE / "measured.jsonl"
WORDS = [a + b + c for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "ar", "en") for c in "bdgklmnprstz"]


@dataclass(frozen=True)
class Case:
    """A command over a folder of files of some size."""

    name: str
    make: Callable[[Path, int], None]
    command: str
    sizes: tuple[int, ...]
    codes: tuple[int, ...] = (0,)
    """Exit codes that are as they should be: a verdict, or an input that is refused."""
    before: str = ""
    """A command that makes what this one reads; it is not measured."""


def lines(path: Path, rows: Iterator[str]) -> None:
    if not path.exists():
        with path.open("w", encoding="utf-8") as file:
            file.writelines(row + "\n" for row in rows)


def make_queries(folder: Path, size: int) -> None:
    """Gold, three runs, a run log, a table of queries and a config; some queries miss all their gold."""
    lines(folder / "gold.qrels", (f"q{q} 0 q{q}d{d} {1 + d % 2}" for q in range(size) for d in range(JUDGED)))
    for name, seed in (("a", 1), ("b", 2), ("c", 3)):
        lines(folder / f"{name}.run", (row for q in range(size) for row in _run_rows(q, seed)))
    lines(folder / "log.jsonl", (_log_line(q) for q in range(size)))
    docs = (doc for q in range(size) for doc in dict.fromkeys(_ranked(q, 1) + _ranked(q, 4)))
    lines(folder / "docs.jsonl", (json.dumps({"_id": doc, "text": f"{WORDS[len(doc)]} {doc}"}) for doc in docs))
    about = (
        {"_id": f"q{q}", "text": f"{WORDS[q % 1000]} {q}", "language": ("en", "de", "fr")[q % 3]} for q in range(size)
    )
    lines(folder / "queries.jsonl", map(json.dumps, about))
    config = {
        "dataset": {"qrels": "gold.qrels", "queries": "queries.jsonl"},
        "runs": {"a": "a.run", "b": "b.run"},
        "baseline": "a",
        "candidate": "b",
        "metrics": ["ndcg@10", "recall@5", "mrr"],
        "gates": ["recall@5 >= 0.5", "ndcg@10 no worse than baseline by 0.02", "mrr >= 0.1 for every language"],
    }
    lines(folder / "karat.yaml", iter([json.dumps(config)]))
    lines(folder / "reranker.py", iter(["def scores(query, docs):", "    return [len(text) for _, text in docs]"]))


def _ranked(query: int, seed: int) -> list[str]:
    """The docs of a list: some of the gold, at random ranks, among others."""
    draw = random.Random(query * 7 + seed)
    docs = [f"q{query}d{d}" for d in range(JUDGED) if draw.random() < 0.7]
    docs += [f"x{query}n{i}" for i in draw.sample(range(1000), LISTED - len(docs))]
    draw.shuffle(docs)
    return docs


def _run_rows(query: int, seed: int) -> Iterator[str]:
    return (f"q{query} Q0 {doc} {i + 1} {LISTED - i} {seed}" for i, doc in enumerate(_ranked(query, seed)))


def _log_line(query: int) -> str:
    docs = _ranked(query, 4)
    topk = [{"rank": i + 1, "doc_id": doc, "score": LISTED - i} for i, doc in enumerate(docs)]
    stages = {"retrieve": docs, "rerank": docs[:10]}
    return json.dumps(
        {"query_id": f"q{query}", "topk": topk, "stages": stages, "latency_ms": {"retrieve": query % 50 + 1}}
    )


def make_corpus(folder: Path, size: int) -> None:
    """A dataset as BEIR lays it out, with texts of thirty words; and vectors, as a table of eight numbers each."""
    draw = random.Random(size)
    (folder / "qrels").mkdir(exist_ok=True)
    docs = ({"_id": f"d{d}", "title": "", "text": " ".join(draw.choices(WORDS, k=30))} for d in range(size))
    lines(folder / "corpus.jsonl", map(json.dumps, docs))
    queries = ({"_id": f"q{q}", "text": " ".join(draw.choices(WORDS, k=4))} for q in range(BENCHED))
    lines(folder / "queries.jsonl", map(json.dumps, queries))
    gold = (f"q{q}\td{q * (size // BENCHED)}\t1" for q in range(BENCHED))
    lines(folder / "qrels/test.tsv", (row for rows in (iter(["query-id\tcorpus-id\tscore"]), gold) for row in rows))
    near = ((q, d * (size // 1000)) for q in range(BENCHED) for d in range(1000))
    lines(folder / "a.run", (f"q{q} Q0 d{d} 1 {-d} t" for q, d in near))
    if not (folder / "vectors.npz").exists():
        code = "import numpy as np, sys; n = int(sys.argv[2]); rng = np.random.default_rng(0)\n"
        code += "ids = np.array([f'd{i}' for i in range(n)])\n"
        code += "np.savez(sys.argv[1], ids=ids, vectors=rng.normal(size=(n, 64)).astype('f4'), model=np.array('m'))"
        python("-c", code, folder / "vectors.npz", str(size))


def make_long_line(folder: Path, size: int) -> None:
    """A run with one line of so many megabytes."""
    lines(folder / "gold.qrels", iter(["q1 0 d1 1"]))
    with (folder / "a.run").open("w", encoding="utf-8") as file:  # in pieces: this process stays small
        file.write("q1 Q0 d1 1 2 ")
        file.writelines("x" * (1 << 20) for _ in range(size))
        file.write("\nq1 Q0 d2 2 1 t\n")


def make_long_query(folder: Path, size: int) -> None:
    """One query with so many rows."""
    lines(folder / "gold.qrels", iter(["q1 0 d1 1"]))
    lines(folder / "a.run", (f"q1 Q0 d{d} {d + 1} {size - d} t" for d in range(size)))


def make_facts(folder: Path, size: int) -> None:
    """A run log whose facts differ on each of so many lines."""
    lines(folder / "gold.qrels", (f"q{q} 0 d 1" for q in range(size)))
    rows = ({"query_id": f"q{q}", "topk": [{"doc_id": "d"}], "code_version": f"v{q}"} for q in range(size))
    lines(folder / "a.run", map(json.dumps, rows))


def make_long_ids(folder: Path, size: int) -> None:
    """So many rows whose docs have ids of 2,000 bytes."""
    lines(folder / "gold.qrels", (f"q{q} 0 {'d' * 1990}{q * 10:010} 1" for q in range(size // 10)))
    rows = ((i // 10, i % 10, i) for i in range(size))
    lines(folder / "a.run", (f"q{q} Q0 {'d' * 1990}{d:010} {r + 1} {10 - r} t" for q, r, d in rows))


def make_one_long_id(folder: Path, size: int) -> None:
    """So many rows in Parquet, one of them with an id of 2,000 bytes."""
    lines(folder / "gold.qrels", (f"q{q} 0 d{q * 10} 1" for q in range(size // 10)))
    if not (folder / "a.parquet").exists():
        rows = "SELECT 'q' || i // 10 AS query_id, CASE WHEN i = 5 THEN repeat('x', 2000) ELSE 'd' || i END AS doc_id, "
        rows += f"10.0 - i % 10 AS score FROM range({size}) t(i) ORDER BY i"
        target = str(folder / "a.parquet").replace("'", "''")
        statement = f"COPY ({rows}) TO '{target}' (FORMAT parquet)"
        python("-c", f"import duckdb; duckdb.sql({statement!r})")


EVALUATE = "evaluate gold.qrels a.run --no-cache"
LOG = "gold.qrels log.jsonl --queries queries.jsonl"
SAVE = f"evaluate {LOG} --save saved.json -q"
STRESS = f"stress {LOG} --docs docs.jsonl --mine a.run --reranker reranker:scores -n 1000000"
BENCH = "bench -d . -m ndcg@10 --no-html --no-cache -o runs -r"
over_queries = partial(Case, make=make_queries, sizes=QUERIES)
over_docs = partial(Case, make=make_corpus, sizes=DOCS)
CASES = [
    over_queries("evaluate", command=EVALUATE),
    over_queries("evaluate --by", command=f"{EVALUATE} --queries queries.jsonl --by language"),
    over_queries("evaluate a run log, --save", command=SAVE),
    over_queries("evaluate --components", command=f"evaluate {LOG} --components"),
    over_queries("compare", command="compare gold.qrels a.run b.run --no-cache"),
    over_queries("sweep", command="sweep gold.qrels a.run --no-cache"),
    over_queries("check", command="check karat.yaml --no-cache", codes=(0, 1, 3)),
    over_queries("bless", command="bless saved.json -o base.json", before=SAVE),
    over_queries("plan", command="plan karat.yaml --no-cache"),
    over_queries("reliability", command="reliability gold.qrels a.run b.run c.run --no-cache"),
    over_queries("diagnose", command=f"diagnose {LOG}"),
    over_queries("validate", command="validate --qrels gold.qrels --queries queries.jsonl --run a.run", codes=(0, 1)),
    over_queries("report", command="report saved.json -o report.html", before=SAVE),
    over_queries(
        "stress", command=f"stress {LOG} --docs docs.jsonl --mine a.run --reranker reranker:scores -n 1000000"
    ),
    over_queries("init", command="init . -o -"),
    over_docs("bench bm25", command=f"{BENCH} bm25"),
    over_docs("bench dense", command=f"{BENCH} dense"),
    over_docs("validate", command="validate --corpus corpus.jsonl --qrels qrels/test.tsv --run a.run", codes=(0, 1)),
    over_docs("evaluate novelty", command="evaluate qrels/test.tsv a.run -m novelty@10 --docs corpus.jsonl"),
    over_docs("evaluate ild", command="evaluate qrels/test.tsv a.run -m ild@10 --embeddings vectors.npz"),
    Case("one line of n MB", make_long_line, EVALUATE, (4, 16, 60)),
    Case("one query with n rows", make_long_query, EVALUATE, DOCS),
    Case("facts that differ on n lines", make_facts, EVALUATE, QUERIES),
    Case("n ids of 2,000 bytes", make_long_ids, EVALUATE, QUERIES),
    Case("one such id in n rows of Parquet", make_one_long_id, "evaluate gold.qrels a.parquet", PARQUET),
]


def exponent(smaller: tuple[int, float], larger: tuple[int, float]) -> float:
    """The slope in log-log scale."""
    return math.log(larger[1] / smaller[1]) / math.log(larger[0] / smaller[0])


def exponents(figures: list[tuple[int, float]]) -> tuple[float, float]:
    """Between the two largest sizes, and over all."""
    return exponent(*figures[-2:]), exponent(figures[0], figures[-1])


def measure(case: Case, size: int) -> Run:
    """One run of the command over files of this size, which are made if they are missing."""
    folder = PLACE / f"{case.make.__name__}-{size}"
    folder.mkdir(parents=True, exist_ok=True)
    case.make(folder, size)
    if case.before and not (folder / "saved.json").exists():
        python("-m", "karat", *case.before.split(), cwd=folder)
    shutil.rmtree(folder / "runs", ignore_errors=True)  # finished logs would be taken as they are
    run = python("-m", "karat", *case.command.split(), cwd=folder, codes=case.codes)
    progress(f"{case.name}, {size:,}: {seconds(run.cpu)} of CPU, peak {megabytes(run.memory)}")
    with NOTES.open("a", encoding="utf-8") as file:
        file.write(json.dumps([source_digest(), case.make.__name__, case.name, size, run.cpu, run.memory]) + "\n")
    return run


def noted(case: Case, size: int) -> list[Run]:
    """What an interrupted benchmark measured of the same source."""
    rows = [json.loads(line) for line in NOTES.read_text("utf-8").splitlines()] if NOTES.exists() else []
    key = [source_digest(), case.make.__name__, case.name, size]
    return [Run(0.0, memory, "", cpu) for *about, cpu, memory in rows if about == key]


def grow(case: Case, sizes: tuple[int, ...]) -> dict[int, Run]:
    """The case at each size; where it seems to grow too fast, the least of several runs of the larger sizes."""
    runs = {size: noted(case, size) or [measure(case, size)] for size in sizes}
    while True:
        best = {size: min(runs[size], key=lambda run: run.cpu) for size in sizes}
        if max(exponents([(size, best[size].cpu) for size in sizes])) <= MOST or len(runs[sizes[-1]]) == ATTEMPTS:
            return best
        for size in sizes[1:]:
            runs[size].append(measure(case, size))


def row(case: Case, runs: dict[int, Run]) -> list[str]:
    cells = [f"{run.cpu:.2f} s / {run.memory / 1e6:,.0f} MB" for run in runs.values()]
    time = exponents([(size, run.cpu) for size, run in runs.items()])
    memory = exponents([(size, float(run.memory)) for size, run in runs.items()])
    return [case.name, *cells, f"{time[0]:.2f}", f"{time[1]:.2f}", f"{memory[0]:.2f}"]


def tell(report: Report, title: str, sizes: tuple[str, ...], found: dict[Case, dict[int, Run]]) -> None:
    """One table, and whether every row keeps to the bounds."""
    report.heading(title)
    head = ["", *sizes, "exponent of CPU, last step", "overall", "of memory, last step"]
    report.table(head, [row(case, runs) for case, runs in found.items()])
    worst = {}
    for case, runs in found.items():
        figures = [[(n, r.cpu) for n, r in runs.items()], [(n, float(r.memory)) for n, r in runs.items()]]
        worst[case.name] = max(max(exponents(one)) for one in figures)
    name = max(worst, key=lambda one: worst[one])
    report.bar(f"every exponent at most {MOST}", f"{worst[name]:.2f} ({name})", worst[name] <= MOST)
    peaks = {case.name: max(run.memory for run in runs.values()) for case, runs in found.items()}
    name = max(peaks, key=lambda one: peaks[one])
    if all(case.make is make_queries for case in found):  # stress reads the texts of four million docs there
        report.note(f"The highest peak is {megabytes(peaks[name])} ({name}).")
        return
    report.bar(f"peak below {megabytes(PEAK)}", f"{megabytes(peaks[name])} ({name})", peaks[name] < PEAK)


def main() -> None:
    parser = argparse.ArgumentParser(description="How CPU time and memory grow with the input.")
    parser.add_argument("--largest", type=int, default=QUERIES[-1], help="stop at so many queries")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--keep", action="store_true", help="do not delete the files")
    args = parser.parse_args()
    steps = 1 + sum(size <= args.largest for size in QUERIES[1:])
    cases = [case for case in CASES if args.only in case.name]
    if steps < 2 or not cases:
        raise SystemExit("nothing to measure: --largest takes 10000 or 100000, --only a part of a name")
    begun, load = source_digest(), OtherLoad()
    report = Report("Growth")
    report.note(machine())
    report.note(
        "CPU seconds of all threads, and peak resident memory, of `karat …` from start to end. "
        f"Queries have {LISTED} docs and {JUDGED} judged ones; a corpus has texts of 30 words and is searched for "
        f"{BENCHED} queries. "
        "An exponent of 1 is linear growth."
    )
    found = {case: grow(case, case.sizes[:steps]) for case in cases}
    if not args.keep:
        shutil.rmtree(PLACE, ignore_errors=True)
    for title, kind in (("By queries", make_queries), ("By docs", make_corpus)):
        part = {case: runs for case, runs in found.items() if case.make is kind}
        if part:
            tell(report, title, tuple(f"{size:,}" for size in next(iter(part)).sizes[:steps]), part)
    part = {case: runs for case, runs in found.items() if case.make not in (make_queries, make_corpus)}
    if part:
        named = {
            replace(case, name=f"{case.name} (n = {', '.join(f'{n:,}' for n in runs)})"): runs
            for case, runs in part.items()
        }
        tell(report, "By odd shapes", ("small", "middle", "large")[:steps], named)
    report.note(load.told())
    finish("growth", report, begun, partial=steps < 3 or bool(args.only))


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        raise SystemExit(str(error)) from None
