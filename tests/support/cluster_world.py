"""Gold and a run with everything that makes rankings hard, in files as a cluster reads them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import karat

Row = tuple[str, str, float]

OBO = """format-version: 1.2
data-version: test/1

[Term]
id: HP:0000001
name: All

""" + "".join(f"[Term]\nid: HP:{i:07d}\nname: term {i}\nis_a: HP:{max(1, i // 3):07d}\n\n" for i in range(2, 61))


@dataclass(frozen=True)
class World:
    """A folder of files, and the rows of the run in the order in which they lie there."""

    folder: Path
    rows: list[Row]

    def path(self, name: str) -> str:
        return str(self.folder / name)


def build_world(folder: Path, *, queries: int = 60, seed: int = 7) -> World:
    """Ties, duplicates, queries that only one side has, rows of a query in several files, long and short lists."""
    rng = np.random.default_rng(seed)
    docs = [f"d{i}" for i in range(120)] + [f"é{i}" for i in range(8)]
    judged: list[tuple[str, str, int, str]] = []
    rows: list[Row] = []
    table = []
    for number in range(queries):
        query = f"q{number}"
        own = rng.permutation(len(docs))
        if rng.random() > 0.07:
            for d in own[: int(rng.integers(1, 9))]:
                judged.append((query, docs[d], int(rng.integers(0, 4)), f"s{rng.integers(1, 4)}"))
        if rng.random() > 0.07:
            size = int(rng.choice([1, 2, 5, 30, 60]))
            lists = [(query, docs[d], float(rng.integers(0, max(2, size // 2)) / 7)) for d in own[:size]]
            lists += [lists[int(i)] for i in rng.integers(0, size, size // 10)]  # again, with the same score
            lists += [(q, d, s - 1.0) for q, d, s in lists[: size // 10]]  # and with a lower one
            rows += lists
        table.append(
            {
                "query_id": query,
                "text": f"what is {number}",
                "language": str(rng.choice(["de", "en"])),
                "weight": float(rng.integers(1, 5)),
                "conversation": f"c{number // 3}",
                "as_of": "2026-01-15",
                "expected_source": str(rng.choice(["wiki", "crm"])),
                "needs_retrieval": bool(rng.random() < 0.8),
            }
        )
    rows += [("stranger", "d1", 1.0), ("stranger", "d2", 1.0)]
    table += [{"query_id": f"n{i}", "text": "no answer", "no_answer": True, "weight": 1.0} for i in range(3)]
    rows += [("n0", "d3", 0.4), ("n0", "d4", 2.0), ("n1", "d5", 0.1)]
    world = World(folder, rows)
    gold = sorted({(q, d): g for q, d, g, _ in judged}.items())
    _write(folder / "qrels.txt", (f"{q} 0 {d} {g}" for (q, d), g in gold))
    _write(folder / "topics.csv", ["query_id,doc_id,grade,subtopic", *(",".join(map(str, j)) for j in judged)])
    (folder / "gold.jsonl").write_text(
        "".join(json.dumps({"query_id": q, "doc_id": d, "grade": g}) + "\n" for (q, d), g in gold), "utf-8"
    )
    (folder / "queries.jsonl").write_text("".join(json.dumps(one) + "\n" for one in table), "utf-8")
    _write(folder / "run.trec", (f"{q} Q0 {d} {i} {s!r} tag" for i, (q, d, s) in enumerate(rows, start=1)))
    _write(folder / "run.csv", ["query_id,doc_id,score", *(f'{q},"{d}",{s!r}' for q, d, s in rows)])
    (folder / "rows.jsonl").write_text(
        "".join(json.dumps({"query_id": q, "doc_id": d, "score": s}) + "\n" for q, d, s in rows), "utf-8"
    )
    _parquet(folder / "run.parquet", rows)
    write_parts(folder / "parts.parquet", rows)
    chunks = [(q, f"{d}#{i % 3}", s) for i, (q, d, s) in enumerate(rows)]
    write_parts(folder / "chunks.parquet", chunks)
    _parquet(folder / "chunks_local.parquet", chunks)
    named = [{"query_id": q, "chunk_id": c, "doc_id": c.partition("#")[0], "score": s} for q, c, s in chunks]
    (folder / "named").mkdir()
    pq.write_table(pa.Table.from_pylist(named), folder / "named.parquet")
    for i in range(3):
        pq.write_table(
            pa.Table.from_pylist(named[i * len(named) // 3 : (i + 1) * len(named) // 3]),
            folder / "named" / f"{i}.parquet",
        )
    _log(folder / "log.jsonl", rows, rng)
    vectors = rng.normal(size=(len(docs), 8)).astype(np.float32)
    np.savez(folder / "vectors.npz", ids=np.array(docs), vectors=vectors)
    texts = [" ".join(rng.choice(list("abcdefghij"), 12)) for _ in docs]
    (folder / "docs.jsonl").write_text(
        "".join(json.dumps({"doc_id": d, "text": t}) + "\n" for d, t in zip(docs, texts, strict=True)), "utf-8"
    )
    (folder / "terms.obo").write_text(OBO, "utf-8")
    terms = {d: f"HP:{2 + i % 59:07d}" for i, d in enumerate(docs)}
    _write(folder / "term_qrels.txt", (f"{q} 0 {t} 1" for q, t in sorted({(q, terms[d]) for (q, d), g in gold if g})))
    write_parts(folder / "terms.parquet", [(q, terms[d], s) for q, d, s in rows])
    _parquet(folder / "terms_local.parquet", [(q, terms[d], s) for q, d, s in rows])
    return world


def write_parts(folder: Path, rows: list[Row], parts: int = 3) -> None:
    """The rows in several files: most queries in one, some in two, one in all."""
    folder.mkdir()
    cuts = [round(i * len(rows) / parts) for i in range(parts + 1)]
    pieces = [rows[a:b] for a, b in pairwise(cuts)]
    first = rows[0][0]
    moved = [row for row in rows if row[0] == first]
    pieces = [[row for row in piece if row[0] != first] for piece in pieces]
    for i, row in enumerate(moved):
        pieces[i % parts].insert(0, row)  # so that it stands apart, however files are divided into partitions
    for i, piece in enumerate(pieces):
        _parquet(folder / f"part-{i}.parquet", piece)


def _parquet(path: Path, rows: list[Row]) -> None:
    query, doc, score = zip(*rows, strict=True)
    pq.write_table(pa.table({"query_id": query, "doc_id": doc, "score": score}), path)


def _log(path: Path, rows: list[Row], rng: np.random.Generator) -> None:
    lists: dict[str, list[Row]] = {}
    for row in rows:
        lists.setdefault(row[0], []).append(row)
    lines: list[dict[str, Any]] = []
    for query, own in lists.items():
        topk = [
            {"doc_id": d, "score": s, "doc_version": str(rng.choice(["2025-06-01", "2026-01-01", "2026-02-01"]))}
            for _, d, s in own
        ]
        line: dict[str, Any] = {"query_id": query, "topk": topk, "stages": {"bm25": [d for _, d, _ in own[:10]]}}
        line |= {"latency_ms": {"bm25": float(rng.integers(1, 90)), "rerank": float(rng.integers(1, 90))}}
        line |= {"cost": {"tokens": float(rng.integers(1, 999))}, "route": str(rng.choice(["wiki", "crm"]))}
        lines.append(line | {"retrieved": bool(rng.random() < 0.8)})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def _write(path: Path, lines: Any) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


PLANS = ("counting plan: ", "cogroup plan: ", "driver plan: ", "Spark's plan: ")


def assert_same(there: karat.Result, here: karat.Result, *, notes: bool = True) -> None:
    """The same bits: values, counts, figures, intervals, segments; notes too, but for the plan."""
    assert len(there.runs) == len(here.runs)
    for a, b in zip(there.runs, here.runs, strict=True):
        assert list(a.query_ids) == list(b.query_ids)
        assert list(a.values) == list(b.values)
        for name in b.values:
            assert a.values[name].tobytes() == b.values[name].tobytes(), name
        assert dict(a.counts) == dict(b.counts)
        assert repr(a.estimates) == repr(b.estimates)
        assert repr(a.segments) == repr(b.segments)
        if notes:
            assert [n for n in a.data_notes if not n.startswith(PLANS)] == list(b.data_notes)
