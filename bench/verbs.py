"""What the verbs of CI cost, and how that grows with the queries: `make bench-verbs`.

Five runs × 10 metrics × 10 segments, at 1,000, 10,000 and 100,000 queries of 10 docs: CPU seconds inside one process,
with everything imported before, on one thread. And `karat check` of the demo, as a whole process, beside a process that
imports numpy.

    verbs.py                    writes the section `verbs` of bench/RESULTS.md; about eight minutes
    verbs.py --largest 10000    stops there; writes nothing

Each verb at each size is a child: verbs.py <verb> <folder>.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness import OtherLoad, Report, finish, machine, progress, python, seconds, source_digest, times

SIZES = (1_000, 10_000, 100_000)
RUNS, DEPTH, SEGMENTS, TURNS = 5, 10, 10, 5
METRICS = ["ndcg@10", "ndcg@5", "recall@1", "recall@5", "recall@10", "precision@5", "hit@1", "hit@10", "mrr", "map"]
GATES = {
    "levels": [f"{m} {sign} for every topic" for m in METRICS for sign in (">= 0.1", "<= 0.95")],
    "baseline": [f"{m} no worse than baseline by 0.02 for every topic" for m in METRICS],
}
COMPARED, GROWTH, DEMO = 1.5, 12.0, 8.0
"""A comparison beside its evaluation; 100,000 queries beside 10,000; a check of the demo beside `import numpy`."""


def write_data(folder: Path, queries: int) -> None:
    """Runs of one another's likeness: of most queries, they return the same lists."""
    folder.mkdir(parents=True)
    rng = random.Random(17)
    lines: dict[str, list[str]] = {name: [] for name in ("qrels.txt", *(f"r{r}.run" for r in range(RUNS)))}
    tables: dict[str, list[str]] = {"queries.jsonl": [], "turns.jsonl": []}
    for q in range(queries):
        docs = [f"d{q}_{i}" for i in range(rng.randint(1, 4))]
        lines["qrels.txt"] += [f"q{q} 0 {d} {rng.randint(1, 3)}" for d in docs]
        one = {"_id": f"q{q}", "text": f"query {q}", "topic": f"t{q // TURNS % SEGMENTS}"}
        tables["queries.jsonl"].append(json.dumps(one))
        tables["turns.jsonl"].append(json.dumps({**one, "conversation": f"c{q // TURNS}"}))
        usual = ranked(rng, q, [d for d in docs if rng.random() < 0.6])
        for r in range(RUNS):
            mine = [d for d in docs if rng.random() < 0.6 + 0.01 * r]
            listed = usual if rng.random() < 0.6 else ranked(rng, q, mine)
            lines[f"r{r}.run"] += [f"q{q} Q0 {d} {i + 1} {DEPTH - i}.5 r" for i, d in enumerate(listed)]
    for name, rows in {**lines, **tables}.items():
        (folder / name).write_text("\n".join(rows) + "\n")
    for name, gates in GATES.items():
        config = {
            "dataset": {"qrels": "qrels.txt", "queries": "queries.jsonl"},
            "runs": {"r0": "r0.run", "r1": "r1.run"},
            "baseline": "r0",
            "candidate": "r1",
            "metrics": METRICS,
            "gates": gates,
        }
        (folder / f"{name}.yaml").write_text(json.dumps(config))


def ranked(rng: random.Random, query: int, docs: list[str]) -> list[str]:
    listed = [f"x{query}_{i}" for i in range(DEPTH)]
    for doc, place in zip(docs, rng.sample(range(DEPTH), len(docs)), strict=True):
        listed[place] = doc
    return listed


# Children


def runs_of(count: int = RUNS) -> dict[str, str]:
    return {f"r{r}": f"r{r}.run" for r in range(count)}


def evaluate(*, table: str | None = None, by: str | None = None) -> None:
    import karat

    result = karat.evaluate("qrels.txt", runs_of(), METRICS, queries=table, by=by, cache=False, threads=1)
    for run in result.runs:
        _ = run.estimates


def evaluate_and_save() -> None:
    import karat

    result = karat.evaluate(
        "qrels.txt", runs_of(2), METRICS, queries="queries.jsonl", by="topic", details=True, cache=False, threads=1
    )
    result.save("saved.json")


def compare(*, table: str | None = None, by: str | None = None) -> None:
    import karat

    karat.compare("qrels.txt", runs_of(), METRICS, queries=table, by=by, cache=False, threads=1)


def check(name: str) -> None:
    import karat

    karat.check(f"{name}.yaml", cache=False, threads=1)


def sweep() -> None:
    import karat

    karat.sweep("qrels.txt", runs_of(2), cache=False, threads=1)


def diagnose() -> None:
    import karat

    karat.diagnose("qrels.txt", "r0.run", queries="queries.jsonl", cache=False, threads=1)


def plan() -> None:
    import karat

    karat.plan("baseline.yaml", cache=False, threads=1)


def prepare_result() -> object:
    """A result of two runs with their lists, saved; what a report is made of."""
    import karat

    compared = karat.compare("qrels.txt", runs_of(2), METRICS, queries="queries.jsonl", by="topic", details=True)
    compared.as_json()  # intervals are found, and not measured here
    return compared


def save(compared: object) -> None:
    compared.save("saved.json")  # type: ignore[attr-defined]


def load(_: object) -> None:
    import karat

    karat.load("saved.json")


def comment(compared: object) -> None:
    from karat.report.outputs import Files, write
    from karat.report.view import view_of

    write(view_of(compared), Files({"markdown": "comment.md"}))  # type: ignore[arg-type]


def report(compared: object) -> None:
    import karat

    karat.write_report(compared, "report.html", queries="queries.jsonl")


by_topic = {"table": "queries.jsonl", "by": "topic"}
turns = {"table": "turns.jsonl", "by": "topic"}
VERBS: dict[str, Callable[[], None]] = {
    "evaluate": evaluate,
    "compare": compare,
    "evaluate --by": partial(evaluate, **by_topic),
    "evaluate --by --save": evaluate_and_save,
    "compare --by": partial(compare, **by_topic),
    "compare --by, conversations": partial(compare, **turns),
    "check, 20 gates × 10 segments": partial(check, "levels"),
    "check, 10 baseline gates × 10 segments": partial(check, "baseline"),
    "sweep": sweep,
    "diagnose": diagnose,
    "plan": plan,
}
OF_RESULT: dict[str, Callable[[object], None]] = {"save": save, "load": load, "comment": comment, "report": report}
PARTS = ("save", "load", "comment")
"""What commands do among other things: shown, and not measured against a bar of their own."""


def child(folder: str, *verbs: str) -> None:
    """CPU seconds of verbs over the files of a folder; what they import is loaded before by a tiny example."""
    import scipy.special  # noqa: F401

    import karat

    os.chdir(Path(folder).parent / "warm")
    VERBS[verbs[0]]() if verbs[0] in VERBS else karat.write_report(prepare_result(), "report.html")
    os.chdir(folder)
    prepared = None if verbs[0] in VERBS else prepare_result()
    out = {}
    for verb in verbs:
        start = time.process_time()
        VERBS[verb]() if prepared is None else OF_RESULT[verb](prepared)
        out[verb] = time.process_time() - start
    print(json.dumps(out))


# The driver


def measure(place: Path, size: int) -> dict[str, float]:
    folder = place / str(size)
    if not folder.exists():
        write_data(folder, size)
    out: dict[str, float] = {}
    for verbs in [*((verb,) for verb in VERBS), tuple(OF_RESULT)]:
        rounds = [
            python(__file__, "child", folder, *verbs, env={"OPENBLAS_NUM_THREADS": "1"}).answer
            for _ in range(1 if size == SIZES[0] else 2)  # the sizes that are compared have as many
        ]
        for verb in verbs:
            out[verb] = min(one[verb] for one in rounds)
            progress(f"{verb}, {size:,} queries: {seconds(out[verb])}")
    return out


def check_demo(place: Path) -> dict[str, float]:
    """CPU of `karat check` of the demo, with its page and its saved result and without, and of importing numpy."""
    demo, bare = place / "demo", place / "bare"
    python("-m", "karat", "demo", demo, "-q", codes=(0, 1, 3))
    shutil.copytree(demo, bare)
    config = bare / "karat.yaml"
    config.write_text(config.read_text().partition("\noutputs:")[0] + "\n")
    commands = {
        "check": ("-m", "karat", "check", demo),
        "verdict": ("-m", "karat", "check", bare),
        "numpy": ("-c", "import numpy"),
    }
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(5):
        for name, command in commands.items():
            best[name] = min(best[name], python(*command, codes=(0, 1, 3)).cpu)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description="The verbs of CI: CPU time, and how it grows.")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="stop at so many queries")
    largest = parser.parse_args().largest
    begun, load_of_others = source_digest(), OtherLoad()
    sizes = [size for size in SIZES if size <= largest]
    report = Report("Verbs")
    report.note(machine())
    with tempfile.TemporaryDirectory(prefix="karat-bench-") as name:
        place = Path(name)
        write_data(place / "warm", 60)
        found = {size: measure(place, size) for size in sizes}
        demo = check_demo(place)
    report.note(
        f"{RUNS} runs × {len(METRICS)} metrics × {DEPTH} docs a query, {SEGMENTS} segments; checks, saved results and "
        "reports are of two runs; `save`, `load` and `comment` are parts of commands. CPU seconds in process, one "
        "thread, imports not counted; from 10,000 on the least of two rounds."
    )
    rows = [
        [verb, *(seconds(found[size][verb]) for size in sizes), times(found[sizes[-1]][verb] / found[sizes[-2]][verb])]
        for verb in found[sizes[0]]
    ]
    report.table(["", *(f"{size:,}" for size in sizes), f"{sizes[-1]:,} beside {sizes[-2]:,}"], rows)
    ratio = found[SIZES[1]]["compare"] / found[SIZES[1]]["evaluate"]
    report.bar(
        f"compare, 10,000 queries: at most {COMPARED:g}× evaluating its runs with intervals",
        times(ratio),
        ratio <= COMPARED,
    )
    if sizes[-1] == SIZES[-1]:
        growth = {
            verb: of_size / found[SIZES[1]][verb] for verb, of_size in found[SIZES[2]].items() if verb not in PARTS
        }
        worst = max(growth, key=lambda verb: growth[verb])
        report.bar(
            f"every verb: 100,000 queries at most {GROWTH:g}× the CPU of 10,000",
            f"{times(growth[worst])} ({worst})",
            growth[worst] <= GROWTH,
        )
    report.note(
        f"`karat check` of the demo, with page and saved result: {seconds(demo['check'])}; the verdict alone, on the "
        f"terminal: {seconds(demo['verdict'])}; `import numpy`: {seconds(demo['numpy'])}."
    )
    for name, told in (("check", "a check of the demo"), ("verdict", "the same without page and saved result")):
        ratio = demo[name] / demo["numpy"]
        report.bar(f"{told} at most {DEMO:g}× the CPU of importing numpy", times(ratio), ratio <= DEMO)
    report.note(load_of_others.told())
    finish("verbs", report, begun, partial=sizes != list(SIZES))


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(*sys.argv[2:])
    else:
        main()
