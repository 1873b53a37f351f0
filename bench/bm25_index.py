"""Indexing and searching a million docs by BM25, beside tantivy: `make bench-bm25`.

    bm25_index.py             all of it; writes the section `bm25` of bench/RESULTS.md
    bm25_index.py --quick     100,000 docs; writes nothing

Docs of 40 words whose frequencies follow Zipf's law, made by both children from the same seed. CPU time of all threads,
from texts in memory to an index that can be searched; then 200 queries of three words, one at a time, 100 docs each.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any

from harness import (
    HERE,
    OtherLoad,
    Report,
    finish,
    machine,
    megabytes,
    peak_bytes,
    progress,
    python,
    seconds,
    source_digest,
    times,
)

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS, LENGTH, QUERIES, K = 200_000, 40, 200, 100
OURS, PEER = "karat bm25(language=none)", "tantivy"
MOST_CPU, MOST_QUERY, MOST_MEMORY = 2.5, 1.0, 2e9


# Children


def texts_of(docs: int) -> tuple[list[str], list[str]]:
    """So many docs and the queries, as texts."""
    import numpy as np

    rng = np.random.default_rng(18)
    letters = rng.integers(ord("a"), ord("z") + 1, (WORDS, 10), dtype=np.uint8)
    lengths = rng.integers(2, 11, WORDS)
    words = np.array([bytes(row[:n]).decode() for row, n in zip(letters, lengths.tolist(), strict=True)])
    shares = np.cumsum(1 / np.arange(1, WORDS + 1))

    def drawn(rows: int, length: int) -> list[str]:
        places = np.searchsorted(shares, rng.random((rows, length)) * shares[-1])
        return [" ".join(row) for row in words[places].tolist()]

    docs_of = [text for start in range(0, docs, 10_000) for text in drawn(min(10_000, docs - start), LENGTH)]
    return docs_of, drawn(QUERIES, 3)


def measure(index: Callable[[], Callable[[str], int]], queries: list[str]) -> None:
    """Print what an index takes, then what its queries take."""
    before = _cpu()
    search = index()
    indexed = _cpu() - before
    start = perf_counter()
    found = sum(map(search, queries))
    took = (perf_counter() - start) / len(queries)
    peak = peak_bytes(resource.getrusage(resource.RUSAGE_SELF))
    print(json.dumps({"index": indexed, "query": took, "peak": peak, "found": found}))


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def ours(docs: str) -> None:
    from karat.retrieve import Corpus, Query, make_retriever

    texts, queries = texts_of(int(docs))
    corpus = Corpus([f"d{i}" for i in range(len(texts))], texts)
    del texts

    def index() -> Callable[[str], int]:
        made: Any = make_retriever("bm25(language=none)")
        made.index(corpus)
        return lambda query: len(made.retrieve([Query(query)], K)[0].ids)

    measure(index, queries)


def peer(docs: str) -> None:
    import tantivy

    texts, queries = texts_of(int(docs))

    def index() -> Callable[[str], int]:
        fields = tantivy.SchemaBuilder()
        fields.add_text_field("text")
        fields.add_text_field("id", stored=True, tokenizer_name="raw")
        made = tantivy.Index(fields.build())
        writer = made.writer()
        for i, text in enumerate(texts):
            writer.add_document(tantivy.Document(text=text, id=f"d{i}"))
        writer.commit()
        writer.wait_merging_threads()
        made.reload()
        searcher = made.searcher()

        def search(query: str) -> int:
            found = searcher.search(made.parse_query(query, ["text"]), K).hits
            return len([searcher.doc(place)["id"] for _, place in found])

        return search

    measure(index, queries)


# The driver


def main() -> None:
    parser = argparse.ArgumentParser(description="BM25 beside tantivy.")
    parser.add_argument("--quick", action="store_true", help="100,000 docs; writes nothing")
    quick = parser.parse_args().quick
    begun = source_digest()
    report = Report("BM25")
    report.note(machine())
    load = OtherLoad()
    docs = 100_000 if quick else 1_000_000
    told = {}
    for name, child in ((PEER, "peer"), (OURS, "ours")):
        progress(f"{name}: {docs:,} docs")
        told[name] = python(HERE / "bm25_index.py", child, str(docs)).answer
    report.note(
        f"{docs:,} docs of {LENGTH} words ({WORDS:,} different ones, by Zipf's law), {QUERIES} queries of three words, "
        f"{K} docs each. Index: CPU time of all threads, from texts in memory. Query: wall, one at a time. Peak: the "
        "whole process, with the texts."
    )
    report.table(
        ["", "index, CPU", "a query", "peak memory"],
        [[name, seconds(one["index"]), seconds(one["query"]), megabytes(one["peak"])] for name, one in told.items()],
    )
    cpu = told[OURS]["index"] / told[PEER]["index"]
    query = told[OURS]["query"] / told[PEER]["query"]
    report.bar(f"the index takes at most {MOST_CPU:g}× tantivy's CPU", times(cpu), cpu <= MOST_CPU)
    report.bar(f"a query takes at most {MOST_QUERY:g}× tantivy's", times(query), query <= MOST_QUERY)
    peak = told[OURS]["peak"]
    report.bar(f"peak at most {megabytes(MOST_MEMORY)}", megabytes(peak), peak <= MOST_MEMORY)
    report.note(load.told())
    finish("bm25", report, begun, partial=quick)


if __name__ == "__main__":
    children = {"ours": ours, "peer": peer}
    if sys.argv[1:2] and sys.argv[1] in children:
        children[sys.argv[1]](*sys.argv[2:])
    else:
        main()
