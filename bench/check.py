"""What a check costs beside a bare evaluation: `make bench-check`.

2,000 queries × 10 docs, 10 metrics, 5 segments, 10 gates, two runs. As whole processes, in turn, the best of several
rounds: `karat evaluate --method none` (no intervals) and `karat check` with panel, JSON, Markdown and JUnit.

    check.py            all of it; writes the section `check` of bench/RESULTS.md
    check.py --quick    few rounds; writes nothing
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

from harness import OtherLoad, Report, finish, machine, megabytes, progress, python, seconds, source_digest, times

QUERIES, DEPTH, SEGMENTS = 2000, 10, 5
METRICS = ["ndcg@10", "ndcg@5", "recall@1", "recall@5", "recall@10", "precision@5", "hit@1", "hit@10", "mrr", "map"]
GATES = [
    "ndcg@10 >= 0.20",
    "recall@5 >= 0.20",
    "hit@10 >= 0.50",
    "mrr >= 0.10",
    "map >= 0.10 at the mean",
    "ndcg@10 no worse than baseline by 0.02",
    "mrr better than baseline",
    "ndcg@10 >= 0.20 for every topic",
    "recall@10 >= 0.30 where topic = t3",
    "recall@5 no worse than baseline by 5% for every topic",
]
MOST = 3.0


def write_data(folder: Path) -> None:
    rng = random.Random(17)
    qrels, queries = [], []
    runs: dict[str, list[str]] = {"old": [], "new": []}
    for q in range(QUERIES):
        docs = rng.sample(range(10_000), 30)
        relevant = docs[: rng.randint(1, 4)]
        qrels += [f"q{q} 0 d{d} {rng.randint(1, 3)}" for d in relevant]
        queries.append(json.dumps({"_id": f"q{q}", "text": f"query {q}", "topic": f"t{q % SEGMENTS}"}))
        for name, skill in (("old", 0.55), ("new", 0.6)):
            found = [d for d in relevant if rng.random() < skill]
            listed = (found + rng.sample(docs[4:], DEPTH))[:DEPTH]
            rng.shuffle(listed)
            runs[name] += [f"q{q} Q0 d{d} {i + 1} {DEPTH - i}.5 {name}" for i, d in enumerate(listed)]
    (folder / "qrels.txt").write_text("\n".join(qrels) + "\n")
    (folder / "queries.jsonl").write_text("\n".join(queries) + "\n")
    for name, lines in runs.items():
        (folder / f"{name}.run").write_text("\n".join(lines) + "\n")
    config = {
        "dataset": {"qrels": "qrels.txt", "queries": "queries.jsonl"},
        "runs": {"old": "old.run", "new": "new.run"},
        "baseline": "old",
        "metrics": METRICS,
        "segments": ["topic"],
        "gates": GATES,
        "outputs": {"json": "out/check.json", "markdown": "out/comment.md", "junit": "out/gates.xml"},
    }
    (folder / "karat.yaml").write_text(json.dumps(config))


IN_PROCESS = """
import json, os, sys, time
import karat
os.chdir(sys.argv[1])
metrics = json.loads(sys.argv[2])
def bare():
    return karat.evaluate("qrels.txt", {"old": "old.run", "new": "new.run"}, metrics, queries="queries.jsonl",
                          by="topic", method="none").runs[1].mean["ndcg@10"]
def check():
    return karat.check("karat.yaml").verdict
out = {}
for name, job in (("evaluate", bare), ("check", check)):
    times = []
    for _ in range(7):
        start = time.perf_counter(); job(); times.append(time.perf_counter() - start)
    out[name] = min(times)
print(json.dumps(out))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="A check beside a bare evaluation.")
    parser.add_argument("--quick", action="store_true", help="few rounds; writes nothing")
    quick = parser.parse_args().quick
    begun = source_digest()
    report = Report("Check")
    report.note(machine())
    load = OtherLoad()
    with tempfile.TemporaryDirectory(prefix="karat-bench-") as name:
        folder = Path(name)
        write_data(folder)
        qrels, runs = str(folder / "qrels.txt"), [str(folder / f"{n}.run") for n in ("old", "new")]
        files = [str(folder / "queries.jsonl"), "--by", "topic", "--json", str(folder / "evaluated.json")]
        commands = {
            "karat evaluate --method none": [
                "evaluate",
                qrels,
                *runs,
                "-m",
                ",".join(METRICS),
                "--queries",
                *files,
                "--method",
                "none",
            ],
            "karat check": ["check", str(folder), "--inconclusive", "pass"],
        }
        best: dict[str, tuple[float, int]] = {}
        for round_ in range(2 if quick else 9):
            for told, command in commands.items():
                progress(f"round {round_ + 1}: {told}")
                done = python("-m", "karat", *command, env={"KARAT_CACHE_DIR": str(folder / "cache")})
                before = best.get(told, (float("inf"), 0))
                best[told] = (min(before[0], done.seconds), max(before[1], done.memory))
        inside = python("-c", IN_PROCESS, str(folder), json.dumps(METRICS)).answer
    report.note(
        f"{QUERIES:,} queries × {DEPTH} docs, two runs, {len(METRICS)} metrics, {SEGMENTS} segments, "
        f"{len(GATES)} gates. Whole processes in turn, the best of several rounds; the check prints its panel "
        "and writes JSON, Markdown and JUnit."
    )
    bare, whole = (best[told][0] for told in commands)
    report.table(
        ["", "time", "peak", "in process"],
        [
            [told, seconds(best[told][0]), megabytes(best[told][1]), seconds(inside[key])]
            for told, key in zip(commands, ("evaluate", "check"), strict=True)
        ],
    )
    report.bar(
        f"a check at most {MOST:g}× the time of an evaluation without intervals",
        times(whole / bare),
        whole / bare <= MOST,
    )
    report.note(load.told())
    finish("check", report, begun, partial=quick)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
