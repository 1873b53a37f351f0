"""How fast metrics of diversity are beside a Python loop over pairs, and what memory they take: `make bench-diversity`.

7,000 queries × 10 docs of 384 dimensions, from a file of 200,000 vectors. Takes about two minutes.

    diversity.py              all of it; writes the section `diversity` of bench/RESULTS.md
    diversity.py --quick      a tenth of the queries, to try it; writes nothing

The driver holds no numpy; each table is made by children: diversity.py <what> <arguments>.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from harness import HERE, OtherLoad, Report, finish, machine, megabytes, progress, python, seconds, source_digest, times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FOLDER = HERE / "data" / "diversity"
DOCS, DIMENSIONS, DEPTH, RELEVANT, WORDS = 200_000, 384, 10, 5, 120
METRICS = ("ild@10", "alpha_ndcg@10", "novelty@10")
ENOUGH, WITHIN = 20.0, 1e-6


# Children


def make(queries: str) -> None:
    """Vectors in clusters, so that some docs are alike; runs, gold and texts that belong to them."""
    import numpy as np

    rng = np.random.default_rng(7)
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not (FOLDER / "vectors.npy").exists():
        centres = rng.normal(size=(2000, DIMENSIONS))
        held = np.lib.format.open_memmap(FOLDER / "part.npy", "w+", dtype=np.float32, shape=(DOCS, DIMENSIONS))
        for a in range(0, DOCS, 10_000):
            held[a : a + 10_000] = centres[rng.integers(0, 2000, 10_000)] + rng.normal(size=(10_000, DIMENSIONS))
        held.flush()
        (FOLDER / "part.npy").rename(FOLDER / "vectors.npy")
        (FOLDER / "vectors.ids.txt").write_text("".join(f"d{i}\n" for i in range(DOCS)))
    run, gold, shown = [], [], set()
    for q in range(int(queries)):
        docs = rng.choice(DOCS, DEPTH, replace=False).tolist()
        judged = dict.fromkeys(docs[:2] + rng.choice(DOCS, RELEVANT - 2, replace=False).tolist())
        run += [f"q{q} Q0 d{d} {i} {DEPTH - i} t\n" for i, d in enumerate(docs)]
        gold += [f"q{q} 0 d{d} {rng.integers(1, 4)}\n" for d in judged]
        shown.update(docs)
    (FOLDER / f"{queries}.run").write_text("".join(run))
    (FOLDER / f"{queries}.qrels").write_text("".join(gold))
    vocabulary = [f"word{i}" for i in range(5000)]
    text = ""
    with (FOLDER / f"{queries}.jsonl").open("w") as file:
        for d in sorted(shown):
            copied = text.split()[: int(rng.integers(0, WORDS))] if rng.random() < 0.3 else []
            text = " ".join(copied + [vocabulary[i] for i in rng.integers(0, 5000, WORDS - len(copied)).tolist()])
            file.write(json.dumps({"_id": f"d{d}", "text": text}) + "\n")
    print(json.dumps({"docs": len(shown), "bytes": (FOLDER / "vectors.npy").stat().st_size}))


def measured(metric: str, queries: str, rounds: str) -> None:
    """The metric on rankings that hold all it needs, beside a loop over pairs on the same."""
    import numpy as np

    import karat

    held: list[Any] = []
    wanted = karat.parse(metric)

    @karat.metric("held", title="Held", tells="Keeps the rankings.", needs=wanted.needs)
    def hold(r: Any, k: int | None = None) -> Any:
        held.append(r)
        return np.zeros(len(r))

    options = {"docs": FOLDER / f"{queries}.jsonl"} if "texts" in wanted.needs else {}
    options |= {"embeddings": FOLDER / "vectors.npy"} if "embeddings" in wanted.needs else {}
    karat.evaluate(FOLDER / f"{queries}.qrels", FOLDER / f"{queries}.run", f"held@{DEPTH}", cache=False, **options)
    rankings = held[0]
    best, values = math.inf, np.zeros(0)
    for _ in range(int(rounds)):
        fresh = replace(rankings, items=replace(rankings.items))  # nothing that was remembered
        start = perf_counter()
        values = wanted(fresh)
        best = min(best, perf_counter() - start)
    slow = math.inf
    for _ in range(2):
        start = perf_counter()
        expected = LOOPS[wanted.metric.name](rankings)
        slow = min(slow, perf_counter() - start)
    away = float(np.nanmax(np.abs(values - expected)))
    print(json.dumps({"seconds": best, "loop": slow, "away": away, "mean": float(np.nanmean(values))}))


def cosine(a: Floats, b: Floats) -> float:
    """As one writes it down."""
    import numpy as np

    return float(np.dot(a, b) / (np.linalg.norm(a) * np.linalg.norm(b)))


def loop_ild(r: Any) -> Floats:
    """Every pair of every query, in double precision."""
    import numpy as np

    vectors, out = r.items.vectors, []
    for rows in np.split(vectors.item, np.flatnonzero(np.diff(r.items.query)) + 1):
        block = vectors.matrix[rows].astype(np.float64)
        total = 0.0
        for i in range(len(block)):
            for j in range(i):
                total += 1 - cosine(block[i], block[j])
        out.append(total / (len(block) * (len(block) - 1) / 2))
    return np.array(out)


def loop_alpha(r: Any) -> Floats:
    """Every pair of the results and of the gold, in double precision."""
    import numpy as np

    vectors, out = r.items.vectors, []
    grades = np.zeros((len(r), DEPTH))
    grades[r.query, r.rank - 1] = np.maximum(r.grade, 0)
    gold = np.split(np.arange(len(vectors.gold)), np.flatnonzero(np.diff(vectors.gold_query)) + 1)
    items = np.split(vectors.item, np.flatnonzero(np.diff(r.items.query)) + 1)
    for q, (rows, judged) in enumerate(zip(items, gold, strict=True)):
        block = vectors.matrix[rows].astype(np.float64)
        dcg = 0.0
        for i in range(len(block)):
            near = max((cosine(block[i], block[j]) for j in range(i)), default=0.0)
            dcg += grades[q, i] * (0.5 + 0.5 * (1 - min(max(near, 0.0), 1.0))) / math.log2(i + 2)
        out.append(dcg / ideal(vectors.matrix[vectors.gold[judged]].astype(np.float64), vectors.gold_grade[judged]))
    return np.array(out)


def ideal(block: Floats, grade: Floats) -> float:
    left, near, total = list(range(len(block))), [0.0] * len(block), 0.0
    for place in range(min(DEPTH, len(block))):
        gain = {i: grade[i] * (0.5 + 0.5 * (1 - near[i])) for i in left}
        pick = next(i for i in left if gain[i] >= max(gain.values()) - 1e-12)
        total += gain[pick] / math.log2(place + 2)
        left.remove(pick)
        for i in left:
            near[i] = min(max(near[i], cosine(block[i], block[pick])), 1.0)
    return total


def loop_novelty(r: Any) -> Floats:
    """Sets of tuples of words, for every pair."""
    import re

    import numpy as np

    texts, out = r.items.texts, []
    for rows in np.split(texts.item, np.flatnonzero(np.diff(r.items.query)) + 1):
        words = [re.findall(r"\w+", texts.texts[i].casefold()) for i in rows.tolist()]
        sets = [{tuple(w[i : i + 5]) for i in range(len(w) - 4)} for w in words]
        new = [max((len(s & o) / len(s | o) for o in sets[:i]), default=0.0) < 0.5 for i, s in enumerate(sets)]
        out.append(sum(new) / len(new))
    return np.array(out)


LOOPS: dict[str, Callable[[Any], Floats]] = {"ild": loop_ild, "alpha_ndcg": loop_alpha, "novelty": loop_novelty}


def whole(metrics: str, queries: str) -> None:
    """Files to means, with what the metrics need and no more."""
    import karat

    options: dict[str, Path] = {"embeddings": FOLDER / "vectors.npy", "docs": FOLDER / f"{queries}.jsonl"}
    if "novelty" not in metrics:
        del options["docs"]
    start = perf_counter()
    result = karat.evaluate(FOLDER / f"{queries}.qrels", FOLDER / f"{queries}.run", metrics, cache=False, **options)
    print(json.dumps({"seconds": perf_counter() - start, "means": dict(result.mean)}))


CHILDREN: dict[str, Callable[..., None]] = {f.__name__: f for f in (make, measured, whole)}


# The driver


def child(*args: object) -> tuple[dict[str, Any], int]:
    """What one child answers, and its peak memory."""
    run = python(HERE / "diversity.py", *map(str, args))
    progress(f"{' '.join(map(str, args))}: {seconds(run.seconds)}")
    return run.answer, run.memory


def tell_speed(report: Report, queries: int) -> None:
    report.heading("Speed beside a Python loop over pairs")
    report.note(
        "The metric alone, on rankings that hold the vectors (single precision) or texts: the best of seven rounds, of "
        "two for the loop. The loop takes `dot(a, b) / (norm(a) * norm(b))` of each pair with numpy, in double "
        "precision; that of novelty@10 intersects sets of tuples of words."
    )
    rows: list[Sequence[str]] = []
    found = {name: child("measured", name, queries, 7)[0] for name in METRICS}
    for name, one in found.items():
        rows.append(
            [
                name,
                seconds(one["seconds"]),
                seconds(one["loop"]),
                times(one["loop"] / one["seconds"]),
                f"{one['away']:.0e}",
            ]
        )
    report.table(["", "karat", "loop", "ratio", "largest difference"], rows)
    for name in ("ild@10", "alpha_ndcg@10"):
        ratio = found[name]["loop"] / found[name]["seconds"]
        report.bar(f"{name} at least {ENOUGH:g}× as fast as the loop", times(ratio), ratio >= ENOUGH)
    away = max(one["away"] for one in found.values())
    report.bar(f"values within {WITHIN:g} of the loop's", f"{away:.0e}", away <= WITHIN)


def tell_memory(report: Report, queries: int, size: int) -> None:
    report.heading("Files to means, whole process")
    report.note(
        f"The file of vectors is {megabytes(size)}; {queries * DEPTH:,} results and {queries * RELEVANT:,} judgments "
        "need some of them. Without the cache."
    )
    asked = ("ndcg@10", "ild@10", "ild@10,alpha_ndcg@10", "ild@10,alpha_ndcg@10,novelty@10")
    found = {metrics: child("whole", metrics, queries) for metrics in asked}
    report.table(
        ["", "time", "peak"],
        [[name, seconds(one["seconds"]), megabytes(memory)] for name, (one, memory) in found.items()],
    )
    peak = found["ild@10,alpha_ndcg@10"][1]
    report.bar("ild@10 and alpha_ndcg@10 take less memory than the file of vectors", megabytes(peak), peak < size)


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed and memory of metrics of diversity.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the queries; writes nothing")
    quick = parser.parse_args().quick
    queries = 700 if quick else 7000
    begun = source_digest()
    report = Report("Diversity")
    report.note(machine())
    report.note(f"{queries:,} queries × {DEPTH} docs, {DOCS:,} vectors of {DIMENSIONS} dimensions.")
    made, _ = child("make", queries)
    load = OtherLoad()
    tell_speed(report, queries)
    tell_memory(report, queries, made["bytes"])
    report.note(load.told())
    finish("diversity", report, begun, partial=quick)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in CHILDREN:
        CHILDREN[sys.argv[1]](*sys.argv[2:])
    else:
        main()
