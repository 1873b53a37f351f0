"""The tools that are measured, each used as its own documentation has it; run as a child of the drivers.

    peers.py files TOOL QRELS RUN     TREC files to means, printed as JSON
    peers.py dicts TOOL QRELS RUN     loads the dicts, then evaluates them once for each line on standard input
    peers.py cached QRELS RUN         evaluates with Karat's cache: cold, then other metrics from it
    peers.py once QRELS RUN NAMES     evaluates these metrics with Karat's cache as it is
    peers.py bounded QRELS RUN SIZE   evaluates with Karat within this much memory
    peers.py newlines RUN             reads the file and finds its newlines, no more
    peers.py aligned QRELS RUN        finds the judged docs of a file with Karat on one thread; tells the CPU time
    peers.py counted RUN              reads the file in pieces and counts its newlines; tells the CPU time
    peers.py duckdb RUN               reads the file and sums one column

A tool is imported only by the child that measures it.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Means = dict[str, float]
METRICS = ("map", "ndcg@10", "mrr", "recall@100", "precision@10")
OTHER_METRICS = ("map@100", "ndcg@20", "hit@5", "recall@1000", "rprec")
TOOLS = ("karat", "pytrec_eval", "ir_measures", "ranx")
SHORTEST = 0.2
"""Seconds for which a quick evaluation is repeated, so that its best is not an accident."""


# From files


def karat_files(qrels: str, run: str) -> Means:
    import karat

    return _named(karat.evaluate(qrels, run, METRICS, cache=False).mean)


def pytrec_eval_files(qrels: str, run: str) -> Means:
    import pytrec_eval

    with open(qrels) as file:
        gold = pytrec_eval.parse_qrel(file)
    with open(run) as file:
        ranked = pytrec_eval.parse_run(file)
    return pytrec_eval_dicts(gold, ranked)


def ir_measures_files(qrels: str, run: str) -> Means:
    import ir_measures

    return ir_measures_dicts(ir_measures.read_trec_qrels(qrels), ir_measures.read_trec_run(run))


def ranx_files(qrels: str, run: str) -> Means:
    from ranx import Qrels, Run, evaluate

    gold, ranked = Qrels.from_file(qrels, kind="trec"), Run.from_file(run, kind="trec")
    return _named(evaluate(gold, ranked, list(METRICS)))


# From dicts


def karat_dicts(qrels: Any, run: Any) -> Means:
    import karat

    return _named(karat.evaluate(qrels, run, METRICS).mean)


def pytrec_eval_dicts(qrels: Any, run: Any) -> Means:
    import pytrec_eval

    names = ("map", "ndcg_cut_10", "recip_rank", "recall_100", "P_10")
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"map", "ndcg_cut.10", "recip_rank", "recall.100", "P.10"})
    found = evaluator.evaluate(run)
    means = [pytrec_eval.compute_aggregated_measure(n, [values[n] for values in found.values()]) for n in names]
    return dict(zip(METRICS, map(float, means), strict=True))


def ir_measures_dicts(qrels: Any, run: Any) -> Means:
    import ir_measures
    from ir_measures import AP, RR, P, R, nDCG

    measures = (AP, nDCG @ 10, RR, R @ 100, P @ 10)
    found = ir_measures.calc_aggregate(list(measures), qrels, run)
    return {name: float(found[measure]) for name, measure in zip(METRICS, measures, strict=True)}


def ranx_dicts(qrels: Any, run: Any) -> Means:
    from ranx import Qrels, Run, evaluate

    return _named(evaluate(Qrels(qrels), Run(run), list(METRICS)))


def _named(found: Any, names: tuple[str, ...] = METRICS) -> Means:
    return {name: float(found[name]) for name in names}


def load_dicts(qrels: str, run: str) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Both files as plain dicts, no string shared between them."""
    gold: dict[str, dict[str, int]] = {}
    with open(qrels) as file:
        for line in file:
            query, _, doc, grade = line.split()
            gold.setdefault(query, {})[doc] = int(grade)
    ranked: dict[str, dict[str, float]] = {}
    with open(run) as file:
        for line in file:
            query, _, doc, _, score, _ = line.split()
            ranked.setdefault(query, {})[doc] = float(score)
    return gold, ranked


# What the child does


def files(tool: str, qrels: str, run: str) -> None:
    print(json.dumps({"means": globals()[f"{tool}_files"](qrels, run)}))


def dicts(tool: str, qrels: str, run: str) -> None:
    """Answer each line of standard input with the best time of an evaluation."""
    gold, ranked = load_dicts(qrels, run)
    evaluate: Callable[[Any, Any], Means] = globals()[f"{tool}_dicts"]
    _answer(ready=True, memory=_resident())
    for _ in sys.stdin:
        begun, times, cpu = perf_counter(), [], []
        while not times or perf_counter() - begun < SHORTEST:
            start, used = perf_counter(), process_time()
            means = evaluate(gold, ranked)
            times.append(perf_counter() - start)
            cpu.append(process_time() - used)
        _answer(seconds=min(times), cpu=min(cpu), means=means)


def _answer(**found: Any) -> None:
    print(json.dumps(found), flush=True)


def _resident() -> int:
    """The peak memory of this process so far, in bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def cached(qrels: str, run: str) -> None:
    """In one process: with the empty cache that the driver gives, then other metrics from what that left."""
    import os

    import karat

    folder = os.environ["KARAT_CACHE_DIR"]
    empty = not os.listdir(folder)
    start = perf_counter()
    cold = karat.evaluate(qrels, run, METRICS).mean
    middle = perf_counter()
    warm = karat.evaluate(qrels, run, OTHER_METRICS).mean
    end = perf_counter()
    filled = bool(os.listdir(folder))
    fresh = karat.evaluate(qrels, run, OTHER_METRICS, cache=False).mean
    _answer(
        cold=middle - start,
        warm=end - middle,
        cached=empty and filled,
        means=_named(cold),
        other=_named(warm, OTHER_METRICS),
        fresh=_named(fresh, OTHER_METRICS),
    )


def once(qrels: str, run: str, names: str) -> None:
    import karat

    wanted = tuple(names.split(","))
    print(json.dumps({"means": _named(karat.evaluate(qrels, run, wanted).mean, wanted)}))


def bounded(qrels: str, run: str, memory: str) -> None:
    import karat

    means = karat.evaluate(qrels, run, METRICS, memory=memory, cache=False).mean
    print(json.dumps({"means": _named(means)}))


def aligned(qrels: str, run: str) -> None:
    import karat
    from karat.align import find
    from karat.model.policy import Policy

    gold, results = karat.read_qrels(qrels), karat.read_run(run)
    start = process_time()
    hits, _ = find(gold, results, Policy(), threads=1)
    _answer(cpu=process_time() - start, hits=len(hits.gold), rows=int(hits.returned.sum()))


def counted(run: str) -> None:
    piece, rows = bytearray(1 << 20), 0
    start = process_time()
    with open(run, "rb", buffering=0) as file:
        while size := file.readinto(piece):
            rows += piece.count(b"\n", 0, size)
    _answer(cpu=process_time() - start, rows=rows)


def newlines(run: str) -> None:
    import numpy as np

    start = perf_counter()
    rows = len(np.flatnonzero(np.fromfile(run, dtype=np.uint8) == 10))
    _answer(seconds=perf_counter() - start, rows=rows)


def duckdb(run: str) -> None:
    import duckdb

    columns = "{'q': 'VARCHAR', 'i': 'VARCHAR', 'd': 'VARCHAR', 'r': 'INTEGER', 's': 'DOUBLE', 't': 'VARCHAR'}"
    start = perf_counter()
    connection = duckdb.connect(config={"threads": _cores()})
    source = f"read_csv(?, delim=' ', header=false, auto_detect=false, columns={columns})"
    rows, total = connection.execute(f"SELECT count(*), sum(s) FROM {source}", [run]).fetchone()
    _answer(seconds=perf_counter() - start, rows=rows, total=total)


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
