"""How fast results are chosen that do not repeat each other, beside the formulas as loops: `make bench-selection`.

10 of 100 candidates for 1,000 queries, vectors of 256 dimensions in clusters. Takes about a minute.

    selection.py              all of it; writes the section `selection` of bench/RESULTS.md
    selection.py --quick      a tenth of the queries, to try it; writes nothing

The driver holds no numpy; each table is made by a child: selection.py <what> <arguments>.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tracemalloc
from time import perf_counter
from typing import TYPE_CHECKING, Any

from harness import HERE, OtherLoad, Report, finish, machine, progress, python, seconds, source_digest, times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Numbers = Sequence[float]
    Table = Sequence[Sequence[float]]

CANDIDATES, DIMENSIONS, GROUPS, CHOSEN = 100, 256, 8, 10
LAM, SIGMA = 0.5, 0.1
ENOUGH = 20.0
WAYS = (f"mmr, lam {LAM:g}", f"dartboard, σ {SIGMA:g}")


# Children


def cosines(queries: int) -> tuple[Any, Any]:
    """Cosines to the query, candidates by falling cosine, and between the candidates of each query."""
    import numpy as np

    rng = np.random.default_rng(7)
    relevance, likeness = np.empty((queries, CANDIDATES)), np.empty((queries, CANDIDATES, CANDIDATES))
    for q in range(queries):
        query = rng.normal(size=DIMENSIONS)
        centres = query + rng.normal(size=(GROUPS, DIMENSIONS))
        vectors = centres[rng.integers(0, GROUPS, CANDIDATES)] + 0.7 * rng.normal(size=(CANDIDATES, DIMENSIONS))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        scores = vectors @ (query / np.linalg.norm(query))
        vectors = vectors[np.argsort(-scores)]
        relevance[q], likeness[q] = np.sort(scores)[::-1], vectors @ vectors.T
    return relevance, likeness


def loop_mmr(relevance: Numbers, likeness: Table) -> list[int]:
    """Steps, candidates, and those chosen."""
    chosen: list[int] = []
    while len(chosen) < CHOSEN:
        best, pick = -math.inf, -1
        for i in range(len(relevance)):
            if i in chosen:
                continue
            score = relevance[i]
            if chosen:
                nearest = -math.inf
                for j in chosen:
                    nearest = max(nearest, likeness[i][j])
                score = LAM * relevance[i] - (1 - LAM) * nearest
            if score > best:
                best, pick = score, i
        chosen.append(pick)
    return chosen


def loop_dartboard(far: Numbers, apart: Table) -> list[int]:
    """Steps, candidates and targets; what is covered of a target is kept from step to step."""
    log_query = [-0.5 * (d / SIGMA) ** 2 for d in far]
    log_pair = [[-0.5 * (d / SIGMA) ** 2 for d in row] for row in apart]
    chosen: list[int] = []
    covered = [-math.inf] * len(far)
    while len(chosen) < CHOSEN:
        best, pick = -math.inf, -1
        for g, row in enumerate(log_pair):
            if g in chosen:
                continue
            total = 0.0
            for t in range(len(far)):
                total += math.exp(max(covered[t], row[t]) + log_query[t])
            score = math.log(total)
            if score > best:
                best, pick = score, g
        chosen.append(pick)
        covered = [max(c, x) for c, x in zip(covered, log_pair[pick], strict=True)]
    return chosen


def measured(queries: str, rounds: str) -> None:
    """Both ways of choosing: all queries at once, one after the other, and as loops, on the same numbers."""
    from karat.retrieve.selection import dartboard, mmr

    relevance, likeness = cosines(int(queries))
    ways: list[tuple[str, Any, Any, Callable[[Any, Any], Any], Callable[[Any, Any], list[int]]]] = [
        (WAYS[0], relevance, likeness, lambda a, b: mmr(a, b, CHOSEN, LAM), loop_mmr),
        (WAYS[1], 1 - relevance, 1 - likeness, lambda a, b: dartboard(a, b, CHOSEN, SIGMA), loop_dartboard),
    ]
    answer: dict[str, Any] = {}
    for name, of_each, of_pairs, choose, loop in ways:
        at_once = one_by_one = math.inf
        for _ in range(int(rounds)):
            start = perf_counter()
            found = choose(of_each, of_pairs)
            at_once = min(at_once, perf_counter() - start)
            start = perf_counter()
            for a, b in zip(of_each, of_pairs, strict=True):
                choose(a, b)
            one_by_one = min(one_by_one, perf_counter() - start)
        tracemalloc.start()
        choose(of_each, of_pairs)
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        lists = list(zip(of_each.tolist(), of_pairs.tolist(), strict=True))
        start = perf_counter()
        expected = [loop(a, b) for a, b in lists]
        answer[name] = {
            "at_once": at_once,
            "one_by_one": one_by_one,
            "loop": perf_counter() - start,
            "memory": memory,
            "same": sum(f == e for f, e in zip(found.tolist(), expected, strict=True)),
        }
    print(json.dumps(answer))


def deep(queries: str) -> None:
    """All candidates put in order, one query after the other, as a list of 100 results asks for."""
    from karat.retrieve.selection import dartboard, mmr

    relevance, likeness = cosines(int(queries))
    answer = {}
    for name, choose in (
        (WAYS[0], lambda a, b: mmr(a, b, CANDIDATES, LAM)),
        (WAYS[1], lambda a, b: dartboard(1 - a, 1 - b, CANDIDATES, SIGMA)),
    ):
        start = perf_counter()
        for a, b in zip(relevance, likeness, strict=True):
            choose(a, b)
        answer[name] = perf_counter() - start
    print(json.dumps(answer))


CHILDREN: dict[str, Callable[..., None]] = {f.__name__: f for f in (measured, deep)}


# The driver


def child(*args: object) -> dict[str, Any]:
    run = python(HERE / "selection.py", *map(str, args))
    progress(f"{' '.join(map(str, args))}: {seconds(run.seconds)}")
    return run.answer


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of choosing results that do not repeat each other.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the queries; writes nothing")
    quick = parser.parse_args().quick
    queries = 100 if quick else 1000
    begun = source_digest()
    report = Report("Selection")
    report.note(machine())
    report.note(
        f"{CHOSEN} of {CANDIDATES} candidates for {queries:,} queries, from cosines that are given: the best of five "
        "rounds, of one for the loop. The loop is the formula in plain Python on lists: steps × candidates × those "
        "chosen (mmr), steps × candidates × targets with math.exp (dartboard). Memory is what is allocated beside the "
        "input, all queries at once."
    )
    load = OtherLoad()
    found = child("measured", queries, 5)
    rows: list[Sequence[str]] = [
        [
            name,
            seconds(one["at_once"]),
            seconds(one["one_by_one"]),
            seconds(one["loop"]),
            times(one["loop"] / one["at_once"]),
            times(one["loop"] / one["one_by_one"]),
            f"{one['memory'] / 1e6:.1f} MB",
        ]
        for name, one in found.items()
    ]
    report.table(["", "at once", "one by one", "loop", "ratio at once", "ratio one by one", "memory"], rows)
    for name, one in found.items():
        ratio = one["loop"] / one["at_once"]
        report.bar(f"{name}: at least {ENOUGH:g}× as fast as the loop", times(ratio), ratio >= ENOUGH)
    for name, one in found.items():
        report.bar(f"{name}: chooses what the loop chooses", f"{one['same']:,} queries", one["same"] == queries)
    asked = 30 if quick else 300
    for name, took in child("deep", asked).items():
        report.note(f"All {CANDIDATES} in order, {asked} queries one by one, {name}: {seconds(took)}.")
    report.note(load.told())
    finish("selection", report, begun, partial=quick)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in CHILDREN:
        CHILDREN[sys.argv[1]](*sys.argv[2:])
    else:
        main()
