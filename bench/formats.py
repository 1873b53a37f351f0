"""The same rows in every format, and run logs, with the compiled kernel and without: `make bench-formats`.

6,980 queries × 1,000 docs as a TREC file in order and shuffled, as Parquet, and as frames of pyarrow, polars and
pandas; beside them pyarrow's `read_table`. A run log of 200,000 queries × 20 results with all fields, beside a loop
that decodes its lines into typed structs. Every measurement is a process of its own; seconds are those of the
evaluation, without imports, the best of several rounds; memory is the peak of the whole process.

    formats.py            all of it; writes the section `formats` of bench/RESULTS.md
    formats.py --quick    a tenth of the queries, one round; writes nothing
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from data import FOLDER, QUICK, SPEED
from harness import OtherLoad, Report, finish, machine, megabytes, progress, python, seconds, source_digest, times

METRICS = "ndcg@10,map,mrr,recall@100,p@10"
TEXT, SHUFFLED, PARQUET, ARROW, READ = "text", "shuffled", "parquet", "pyarrow", "pyarrow's read_table"
FRAMES = (ARROW, "polars", "pandas")
LOG, LOOP = "run log", "msgspec loop"
MOST_PARQUET, MOST_MEMORY, MOST_SHUFFLED, MOST_LOG, MOST_LOG_BYTES = 1.5, 2.0, 5.0, 2.5, 200e6


def make_tables(run: Path, stem: Path) -> None:
    """The same rows as Parquet, and as text in random order."""
    import pyarrow as pa
    import pyarrow.csv as text
    import pyarrow.parquet as pq

    names = ["query_id", "q0", "doc_id", "rank", "score", "tag"]
    types = {"query_id": pa.string(), "doc_id": pa.string(), "score": pa.float64()}
    table = text.read_csv(
        run,
        read_options=text.ReadOptions(column_names=names),
        parse_options=text.ParseOptions(delimiter=" "),
        convert_options=text.ConvertOptions(column_types=types, include_columns=list(types)),
    )
    pq.write_table(table, f"{stem}.parquet")
    lines = run.read_bytes().splitlines(keepends=True)
    random.Random(1).shuffle(lines)
    Path(f"{stem}.shuffled").write_bytes(b"".join(lines))


def make_log(stem: Path, queries: int) -> None:
    """A run log with all fields, and its gold."""
    rng = random.Random(1)
    with open(f"{stem}.jsonl", "w") as log, open(f"{stem}.log.qrels", "w") as gold:
        for q in range(queries):
            docs = [rng.randrange(1_000_000) for _ in range(20)]
            items = [
                {
                    "rank": n + 1,
                    "chunk_id": f"d{d}#c{n % 7}",
                    "doc_id": f"d{d}",
                    "score": round(20 - n * 0.31, 4),
                    "doc_version": f"2025-01-0{1 + d % 9}",
                    "source": "wiki",
                }
                for n, d in enumerate(docs)
            ]
            stages = {"retrieve": [f"d{d + 1}#c0" for d in docs], "rerank": [item["chunk_id"] for item in items]}
            line = {
                "query_id": f"q{q}",
                "query": f"what is the answer to question {q}",
                **dict.fromkeys(("system", "index_version", "chunker", "embedding_model", "reranker"), "v1"),
                "route": "web",
                "retrieved": True,
                "topk": items,
                "stages": stages,
                "latency_ms": {"retrieve": rng.random() * 30, "rerank": rng.random() * 90},
                "cost": {"tokens": rng.randrange(900)},
            }
            log.write(json.dumps(line) + "\n")
            gold.writelines(f"q{q} 0 d{d} 1\n" for d in (docs[2], docs[4]))


def child(kind: str, qrels: str, source: str) -> None:
    """One measurement."""
    work: Callable[[], Any]
    if kind == LOOP:
        import msgspec

        from karat.model.run_log import Trace

        decoder = msgspec.json.Decoder(Trace)

        def work() -> None:
            with open(source, "rb") as file:
                for line in file:
                    decoder.decode(line)

    elif kind == READ:
        import pyarrow.parquet as pq

        def work() -> None:
            pq.read_table(source, columns=["query_id", "doc_id", "score"])

    else:
        import karat

        run: Any = source
        if kind in FRAMES:
            import pyarrow.parquet as pq

            run = pq.read_table(source)
        if kind == "polars":
            import polars

            run = polars.from_arrow(run)
        if kind == "pandas":
            run = run.to_pandas()
        gold = karat.read_qrels(qrels)
        karat.evaluate({"q": {"d": 1}}, {"q": {"d": 1.0}}, METRICS, cache=False)  # imports

        def work() -> None:
            karat.evaluate(gold, run, METRICS, cache=False)

    wall, cpu = time.perf_counter(), time.process_time()
    work()
    print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}), flush=True)
    os._exit(0)  # some packages complain when they are unloaded


def set_bars(
    report: Report, title: str, cpu: dict[str, float], memory: dict[str, float], peaks: dict[str, float]
) -> None:
    """What is asked of the kernel, and of numpy alone."""

    def bar(text: str, value: float, most: float, shown: str = "") -> None:
        report.bar(f"{title}: {text}", shown or times(value), value <= most)

    for kind in FRAMES:
        bar(f"a frame of {kind} no slower than the text with the same rows, CPU", cpu[kind] / cpu[TEXT], 1)
    ratio = cpu[PARQUET] / (cpu[READ] + cpu[ARROW])
    bar(f"Parquet at most {MOST_PARQUET:g}× pyarrow's read_table and its frame, CPU", ratio, MOST_PARQUET)
    ratio = peaks[PARQUET] / peaks[TEXT]
    both = f"{times(ratio)} ({megabytes(peaks[PARQUET])}, {megabytes(peaks[TEXT])})"
    bar(f"`karat evaluate` of Parquet at most {MOST_MEMORY:g}× the peak of text", ratio, MOST_MEMORY, both)
    ratio = cpu[SHUFFLED] / cpu[TEXT]
    bar(f"shuffled at most {MOST_SHUFFLED:g}× the same rows in order, CPU", ratio, MOST_SHUFFLED)
    bar(f"a run log at most {MOST_LOG:g}× a typed msgspec loop, CPU", cpu[LOG] / cpu[LOOP], MOST_LOG)
    bar(f"its peak at most {megabytes(MOST_LOG_BYTES)}", memory[LOG], MOST_LOG_BYTES, megabytes(memory[LOG]))


def main() -> None:
    parser = argparse.ArgumentParser(description="The same rows in every format.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the queries, one round; writes nothing")
    quick = parser.parse_args().quick
    begun = source_digest()
    report = Report("Formats")
    report.note(machine())
    load = OtherLoad()
    work = (QUICK if quick else SPEED)["a"]
    stem = FOLDER / f"formats-{work.queries}"
    if not work.ready:
        python(Path(__file__).with_name("data.py"), "quick-a" if quick else "a")
    if not os.path.exists(f"{stem}.shuffled"):
        progress("making tables")
        python(__file__, "tables", work.run, stem)
    if not os.path.exists(f"{stem}.log.qrels"):
        progress("making a run log")
        python(__file__, "log", stem, str(20_000 if quick else 200_000))
    tables = {TEXT: str(work.run), SHUFFLED: f"{stem}.shuffled", LOG: f"{stem}.jsonl", LOOP: f"{stem}.jsonl"}
    kinds = (TEXT, *FRAMES, PARQUET, READ, SHUFFLED, LOG, LOOP)
    size = os.path.getsize(tables[LOG])
    report.note(
        f"{work.queries:,} queries × 1,000 docs to five means, on all cores; the run log has {megabytes(size)}. "
        "Frames are in memory before the clock starts."
    )
    for kernel, title in (("compiled", "with the kernel"), ("numpy", "without it")):
        env = {"KARAT_KERNEL": kernel}
        wall, cpu, memory, peaks = {}, {}, {}, {}
        for round_ in range(1 if quick else 3):
            for kind in kinds:
                progress(f"{title}, round {round_ + 1}: {kind}")
                qrels = f"{stem}.log.qrels" if kind == LOG else str(work.qrels)
                done = python(__file__, "child", kind, qrels, tables.get(kind, f"{stem}.parquet"), env=env)
                answer = done.answer
                wall[kind] = min(wall.get(kind, answer["wall"]), answer["wall"])
                cpu[kind] = min(cpu.get(kind, answer["cpu"]), answer["cpu"])
                memory[kind] = min(memory.get(kind, done.memory), done.memory)
        for kind, run in ((TEXT, tables[TEXT]), (PARQUET, f"{stem}.parquet")):
            command = ["-m", "karat", "evaluate", str(work.qrels), run, "--metric", METRICS, "--no-cache"]
            peaks[kind] = python(*command, env=env).memory
        report.table(
            [title, "CPU", "wall", "peak"],
            [[kind, seconds(cpu[kind]), seconds(wall[kind]), megabytes(memory[kind])] for kind in kinds],
        )
        set_bars(report, title, cpu, memory, peaks)
    report.note(load.told())
    finish("formats", report, begun, partial=quick)


if __name__ == "__main__":
    mode, *rest = sys.argv[1:] or [""]
    if mode == "child":
        child(*rest)
    elif mode == "tables":
        make_tables(Path(rest[0]), Path(rest[1]))
    elif mode == "log":
        make_log(Path(rest[0]), int(rest[1]))
    else:
        main()
