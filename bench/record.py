"""What a saved result costs: `make bench-record`.

2,000 queries × 100 docs, two runs, 8 metrics, with lists. The same content as columns, as `--save` writes it, and as
the records of format version 1, written with the json module. Each in a process of its own, the best of several
rounds; intervals are found before the clock starts.

    record.py                    writes the section `record` of bench/RESULTS.md
    record.py --quick            few rounds; writes nothing
    record.py --old DIR          takes the records from that source tree of version 0.1 instead of imitating them
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from pathlib import Path

from harness import OtherLoad, Report, finish, machine, progress, python, seconds, source_digest, times

QUERIES, DEPTH, CORPUS = 2000, 100, 50_000
METRICS = ["ndcg@10", "ndcg@5", "recall@5", "recall@100", "precision@5", "hit@10", "mrr", "map"]
SMALLER, FASTER = 3.0, 2.0

CHILD = """
import json, os, sys, time
import karat

kind, folder, metrics = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
runs = {n: f"{folder}/{n}.run" for n in ("old", "new")}
queries = f"{folder}/queries.jsonl"
result = karat.evaluate(f"{folder}/qrels.txt", runs, metrics, queries=queries, details=True, cache=False)
document = result.as_json()  # intervals and fingerprints are found, and not measured here
path = f"{folder}/{kind}.json"


def records():
    document["texts"] = dict(result.texts)
    for run, head in zip(result.runs, document["runs"]):
        head["query_ids"] = list(run.query_ids)
        head["per_query"] = {n: [float(f"{x:.12g}") for x in v.tolist()] for n, v in run.values.items()}
        head["lists"] = {
            q: {"top": [d._asdict() for d in run.top_docs(q)], "gold": [d._asdict() for d in run.gold_docs(q)]}
            for q in run.query_ids
        }
    with open(path, "wb") as file:
        file.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())
        file.flush()
        os.fsync(file.fileno())


imitated = kind == "records" and hasattr(result.runs[0], "top")
start = time.perf_counter()
records() if imitated else result.save(path)
written = time.perf_counter() - start
start = time.perf_counter()
with open(path, "rb") as file:
    json.loads(file.read()) if imitated else None
None if imitated else karat.load(path)
read = time.perf_counter() - start
print(json.dumps({"bytes": os.path.getsize(path), "write": written, "read": read}))
"""


def write_data(folder: Path) -> None:
    rng = random.Random(23)
    qrels, queries = [], []
    runs: dict[str, list[str]] = {"old": [], "new": []}
    for q in range(QUERIES):
        judged = rng.sample(range(CORPUS), 10)
        qrels += [f"q{q} 0 doc{d} {rng.randint(0, 3)}" for d in judged]
        queries.append(f'{{"_id": "q{q}", "text": "what is known of number {q}"}}')
        for name in runs:
            docs = list(dict.fromkeys([*rng.sample(judged, 6), *rng.sample(range(CORPUS), DEPTH)]))[:DEPTH]
            rng.shuffle(docs)
            scores = sorted((rng.uniform(1, 30) for _ in docs), reverse=True)
            runs[name] += [f"q{q} Q0 doc{d} {i} {s:.4f} {name}" for i, (d, s) in enumerate(zip(docs, scores), 1)]
    (folder / "qrels.txt").write_text("\n".join(qrels) + "\n")
    (folder / "queries.jsonl").write_text("\n".join(queries) + "\n")
    for name, lines in runs.items():
        (folder / f"{name}.run").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--old", metavar="DIR")
    options = parser.parse_args()
    begun, load = source_digest(), OtherLoad()
    report = Report("Saved results")
    report.note(machine())

    best: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_data(folder)
        for round_ in range(2 if options.quick else 7):
            for kind in ("records", "columns"):
                progress(f"round {round_ + 1}: {kind}")
                old = {"PYTHONPATH": os.path.join(options.old, "src")} if options.old and kind == "records" else None
                figures = python("-c", CHILD, kind, str(folder), json.dumps(METRICS), env=old).answer
                known = best.setdefault(kind, figures)
                best[kind] = {name: min(known[name], figures[name]) for name in figures}
    old, new = best["records"], best["columns"]
    report.note(
        f"{QUERIES:,} queries × {DEPTH} docs, two runs, {len(METRICS)} metrics, lists: the same content as records "
        f"({'version 0.1' if options.old else 'as version 0.1 wrote them, by the json module'}) and as columns."
    )
    report.table(
        ["", "size", "write", "read"],
        [[kind, f"{f['bytes'] / 1e6:.1f} MB", seconds(f["write"]), seconds(f["read"])] for kind, f in best.items()],
    )
    smaller, faster = old["bytes"] / new["bytes"], old["write"] / new["write"]
    report.bar(f"at least {SMALLER:g}× smaller", times(smaller), smaller >= SMALLER)
    report.bar(f"written at least {FASTER:g}× as fast", times(faster), faster >= FASTER)
    report.note(load.told())
    finish("record", report, begun, partial=options.quick)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
