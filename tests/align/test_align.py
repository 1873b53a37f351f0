"""Every way to align gives the same: dicts, lists, files in any order and packing, frames, SQL.

All are held against `expected`, which states in plain Python what docs/data.md says under "What Karat decides": order
by falling score, then by falling doc id in bytes; a doc that comes twice counts at its best place.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import random
import string
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import karat
import karat.align
import karat.align.disorder
import karat.align.gold
import karat.align.sql
import karat.read.arrow
import karat.read.column_stream
import karat.read.textfile
from karat.align.columns import derive_parents
from karat.model.decimals import decimals, exact_decimals
from karat.model.policy import policy as choose
from karat.model.strings import PAD, Strings, hashed, padded
from karat.read.layout import Layout
from karat.read.scan import cut_fields
from places import DL19

pytestmark = pytest.mark.usefixtures("either_kernel")


class Row(NamedTuple):
    """A result as a file has it: the score is text, so that every path reads the same digits."""

    query: str
    doc: str
    score: str


Gold = Mapping[str, Mapping[str, float]]
Seen = dict[str, tuple[int, dict[str, int]]]
"""By query of the gold: how many docs were returned, and the rank of each judged one. No entry: missing."""


# --- the rules, plainly -------------------------------------------------------------------------------


def in_order(rows: Sequence[Row], precision: str = "float64") -> dict[str, list[Row]]:
    """The rows of each query in their order, repeats and all."""

    def key(row: Row) -> tuple[float, bytes]:
        score = float(row.score)
        return (float(np.float32(score)) if precision == "float32" else score), row.doc.encode()

    queries: dict[str, list[Row]] = {}
    for row in rows:
        queries.setdefault(row.query, []).append(row)
    return {q: sorted(mine, key=key, reverse=True) for q, mine in queries.items()}


def expected(gold: Gold, rows: Sequence[Row], precision: str = "float64", ignore_self: bool = False) -> Seen:
    out: Seen = {}
    for query, listed in in_order(rows, precision).items():
        if query in gold:
            docs = list(dict.fromkeys(r.doc for r in listed if not (ignore_self and r.doc == query)))
            out[query] = len(docs), {d: n for n, d in enumerate(docs, start=1) if d in gold[query]}
    return out


def seen(gold: Gold, source: Any, *, threads: int | None = 1, memory: int | None = None, **options: Any) -> Seen:
    """What Karat found, with the ids for indices."""
    return found(gold, source, threads=threads, memory=memory, **options)[0]


def found(
    gold: Gold, source: Any, *, threads: int | None = 1, memory: int | None = None, **options: Any
) -> tuple[Seen, dict[str, int]]:
    chosen = choose(**{"level": "chunk", **options})
    qrels = karat.read_qrels(gold)
    run = karat.read_run(source, policy=chosen)
    aligned, _ = karat.align.align(qrels, run, chosen, threads=threads, memory=memory)
    out: Seen = {q: (n, {}) for q, n in zip(qrels.query_ids, aligned.hits.returned.tolist(), strict=True) if n >= 0}
    for place, rank in zip(aligned.hits.gold.tolist(), aligned.hits.rank.tolist(), strict=True):
        out[qrels.query_ids[qrels.query_of[place]]][1][qrels.docs[place]] = rank
    return out, aligned.counts


# --- the ways -----------------------------------------------------------------------------------------

Way = Callable[[Sequence[Row], Path], Any]


def shuffled(rows: Sequence[Row]) -> list[Row]:
    rows = list(rows)
    random.Random(len(rows)).shuffle(rows)
    return rows


def grouped(rows: Sequence[Row]) -> list[Row]:
    """The rows of each query together, otherwise in the order they came."""
    queries: dict[str, list[Row]] = {}
    for row in rows:
        queries.setdefault(row.query, []).append(row)
    return [row for mine in queries.values() for row in mine]


def ranked(rows: Sequence[Row]) -> list[Row]:
    return [row for mine in in_order(rows).values() for row in mine]


def trec(rows: Sequence[Row], mark: str = " ", end: str = "\n") -> bytes:
    lines = [mark.join((q, "Q0", d, str(n), s, "tag")) for n, (q, d, s) in enumerate(rows, start=1)]
    return "".join(line + end for line in lines).encode()


def written(folder: Path, name: str, data: bytes) -> str:
    (folder / name).write_bytes(data)
    return str(folder / name)


def as_dict(rows: Sequence[Row], folder: Path) -> Any:
    """A dict has no repeats: the best score of each doc."""
    out: dict[str, dict[str, float]] = {}
    for q, d, s in rows:
        mine = out.setdefault(q, {})
        mine[d] = max(mine.get(d, -math.inf), float(s))
    return out


def as_csv(rows: Sequence[Row], folder: Path) -> str:
    with open(folder / "run.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["query_id", "rank", "chunk_id", "score"])
        writer.writerows((q, n, d, s) for n, (q, d, s) in enumerate(rows))
    return str(folder / "run.csv")


def as_quoted_csv(rows: Sequence[Row], folder: Path) -> str:
    with open(folder / "quoted.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)  # lines end in \r\n
        writer.writerow(["score", "chunk_id", "qid"])
        writer.writerows((s, d, q) for q, d, s in rows)
    return str(folder / "quoted.csv")


def columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {
        "query_id": [r.query for r in rows],
        "chunk_id": [r.doc for r in rows],
        "score": [float(r.score) for r in rows],
    }


def as_chunks(rows: Sequence[Row], folder: Path) -> Any:
    """A table in pieces, some of them empty, with a column that begins within its buffers."""
    whole = pa.table(columns([rows[0], *rows]))
    table = whole.slice(1)
    size = max(1, len(rows) // 4)
    return pa.concat_tables([table.slice(0, 0), *(table.slice(n, size) for n in range(0, len(rows), size))])


class Stream:
    """Something that speaks Arrow and has no length: it may be readable only once."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self.table.__arrow_c_stream__(schema)


def as_parquet(rows: Sequence[Row], folder: Path) -> str:
    pq.write_table(pa.table(columns(rows)), folder / "run.parquet", row_group_size=max(1, len(rows) // 3))
    return str(folder / "run.parquet")


def as_duckdb(rows: Sequence[Row], folder: Path) -> Any:
    return duckdb.from_arrow(pa.table(columns(rows)))


def as_json_rows(rows: Sequence[Row], folder: Path) -> str:
    lines = [json.dumps({"qid": q, "chunk_id": d, "score": float(s)}, ensure_ascii=False) for q, d, s in rows]
    return written(folder, "rows.jsonl", "\n".join(lines).encode())


def as_json(rows: Sequence[Row], folder: Path) -> str:
    return written(folder, "run.json", json.dumps(as_dict(rows, folder)).encode())


def as_scored_log(rows: Sequence[Row], folder: Path) -> str:
    lines = []
    for query, mine in in_order(rows).items():
        items = [{"chunk_id": r.doc, "score": float(r.score)} for r in shuffled(mine)]
        lines.append(json.dumps({"query_id": query, "topk": items}))
    return written(folder, "scored.jsonl", "\n".join(lines).encode())


WAYS: dict[str, Way] = {
    "dict": as_dict,
    "file in order": lambda rows, f: written(f, "run", trec(ranked(rows))),
    "file in order, packed": lambda rows, f: written(f, "run.gz", gzip.compress(trec(ranked(rows)))),
    "file in order, zstd": lambda rows, f: written(f, "run.zst", zstandard.compress(trec(ranked(rows)))),
    "file grouped": lambda rows, f: written(f, "run", trec(grouped(shuffled(rows)))),
    "file shuffled": lambda rows, f: written(f, "run", trec(shuffled(rows))),
    "file shuffled, packed": lambda rows, f: written(f, "run.gz", gzip.compress(trec(shuffled(rows)))),
    "file with tabs": lambda rows, f: written(f, "run", trec(rows, "\t")),
    "file with any space": lambda rows, f: written(f, "run", trec(rows, " \t  ", "  \r\n")),
    "file with comments": lambda rows, f: written(f, "run", b"# head\n\n" + trec(grouped(rows)) + b"\n# foot"),
    "file without a last newline": lambda rows, f: written(f, "run", trec(grouped(rows))[:-1]),
    "csv": as_csv,
    "csv in order": lambda rows, f: as_csv(ranked(rows), f),
    "quoted csv": as_quoted_csv,
    "pandas": lambda rows, f: pd.DataFrame(columns(rows)),
    "polars": lambda rows, f: pl.DataFrame(columns(rows)),
    "pyarrow": lambda rows, f: pa.table(columns(rows)),
    "pyarrow in chunks": as_chunks,
    "arrow stream": lambda rows, f: Stream(as_chunks(rows, f)),
    "duckdb": as_duckdb,
    "parquet": as_parquet,
    "json": as_json,
    "json rows": as_json_rows,
    "run log with scores": as_scored_log,
}
KEEPS_REPEATS = set(WAYS) - {"dict", "json"}


def as_lists(rows: Sequence[Row], precision: str) -> Any:
    return {q: [r.doc for r in mine] for q, mine in in_order(rows, precision).items()}


def as_ranked_log(rows: Sequence[Row], precision: str, folder: Path) -> str:
    """Ranks give the order, whatever the scores beside them."""
    lines = []
    for query, mine in in_order(rows, precision).items():
        items = [{"rank": n, "chunk_id": r.doc, "score": n / 2} for n, r in enumerate(mine, start=1)]
        lines.append(json.dumps({"query_id": query, "topk": shuffled_list(items)}))
    return written(folder, "ranked.jsonl", "\n".join(lines).encode())


def shuffled_list(items: list[Any]) -> list[Any]:
    random.Random(1).shuffle(items)
    return items


@dataclass
class Spy:
    """Counts how often a way was taken."""

    calls: int = 0


@pytest.fixture
def by_sql(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spy]:
    """Files with quoted fields go through SQL, however small they are."""
    with taking(monkeypatch, karat.align.sql, "align_sql") as spy:
        yield spy


@pytest.fixture
def by_two_passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spy]:
    """Files and tables that are out of order are read twice, however small they are."""
    with taking(monkeypatch, karat.align.disorder, "align_disorder") as spy:
        yield spy


@contextmanager
def taking(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> Iterator[Spy]:
    spy, real = Spy(), getattr(module, name)

    def counted(*args: Any, **options: Any) -> Any:
        spy.calls += 1
        return real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(karat.align, "IN_MEMORY", -1)
        patch.setattr(module, name, counted)
        yield spy


# --- inputs -------------------------------------------------------------------------------------------

IDS = [
    "a",
    "b",
    "B",
    "ab",
    "a1",
    "a10",
    "a2",
    "é",
    "z",
    "doc-0001",
    "doc-0002",
    "doc-00012",
    "12345678",
    "123456789",
    "same-prefix-of-16",
    "same-prefix-of-16b",
    "same-prefix-of-17",
    "same-prefix-of-16-and-more-than-24-é",
    "same-prefix-of-16-and-more-than-24-ü",
    "日本語のとても長い文書番号",
    "日本語のとても長い文書番",
    "𝔸𝔹",
    "￿",
    "\u00a0x",
    "1",
    "01",
    "-1",
    "http://example.org/a?b=c&d=%20",
    "o'brien",
]
TEXTS = [
    "0",
    "-0.0",
    "1",
    "1.0",
    "1.5",
    "-1.5",
    "2",
    "1e3",
    "1000",
    "-7",
    "0.5",
    ".5",
    "0.50",
    "0.50000001",
    "0.500000000000000001",
    "0.12345678901234567",
    "0.12345678901234568",
    "0.1234567890123457",
    "123456789.123456789",
    "123456789.12345679",
    "-12345678901234567",
    "-12345678901234568",
    "1e-7",
    "16777216",
    "16777217",
    "1.00000001",
    "9007199254740993",
    "9007199254740992",
    "9007199254740994.5",
    "3.4e38",
    "-1E+2",
    "5.",
    "00012.50",
]
QUERY_IDS = ["q1", "q2", "q10", "a", "a-query-with-a-long-name", "日本語の質問番号", "7"]
scores = st.sampled_from(TEXTS) | st.floats(-1e9, 1e9, allow_nan=False).map(repr)
row_lists = st.lists(st.builds(Row, st.sampled_from(QUERY_IDS), st.sampled_from(IDS), scores), min_size=1, max_size=40)
golds = st.dictionaries(
    st.sampled_from(QUERY_IDS),
    st.dictionaries(st.sampled_from(IDS), st.integers(-1, 3), min_size=1, max_size=10),
    min_size=1,
    max_size=5,
)
PRECISIONS = ("float64", "float32")


def bulk(seed: int, queries: int = 40, depth: int = 60) -> tuple[Gold, list[Row]]:
    """Random rows: ties, repeats, near ties, long ids, queries that only the gold or only the run has."""
    rng = random.Random(seed)
    names = [*IDS, *(f"doc-{i:0{rng.choice((3, 9, 18))}d}" for i in range(120))]
    gold: dict[str, dict[str, float]] = {}
    rows: list[Row] = []
    for n in range(queries):
        query = f"{rng.choice(['q', 'query-number-', 'ß'])}{n}"
        if n % 7 != 5:
            gold[query] = {d: rng.choice([-1, 0, 1, 2, 0.5]) for d in rng.sample(names, rng.randint(1, 25))}
        if n % 11 == 6:
            continue
        kind = rng.randrange(5)
        for doc in rng.choices(names, k=rng.randint(1, depth)):
            if kind == 0:
                text = f"{rng.uniform(-30, 30):.6f}"
            elif kind == 1:
                text = str(rng.randint(0, 9))
            elif kind == 2:
                text = f"0.1234567890123456{rng.randint(0, 99):02d}"
            elif kind == 3:
                text = f"{1 + rng.randint(0, 6) * 2.0**-25!r}"
            else:
                text = rng.choice(TEXTS)
            rows.append(Row(query, doc, text))
    return gold, shuffled(rows)


SMALL = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


# --- all ways, one meaning ----------------------------------------------------------------------------


def check(gold: Gold, rows: Sequence[Row], ways: Iterable[str] = WAYS, **options: Any) -> None:
    """Every way finds what the rules say, with either precision."""
    targets = {precision: expected(gold, rows, precision) for precision in PRECISIONS}
    pairs = [(r.query, r.doc) for r in rows if r.query in gold]
    with tempfile.TemporaryDirectory() as folder:
        for way in ways:
            source = WAYS[way](rows, Path(folder))
            for precision, target in targets.items():
                mine, counts = found(gold, source, score_precision=precision, **options)
                assert mine == target, (way, precision)
                assert counts["duplicates"] == (len(pairs) - len(set(pairs)) if way in KEEPS_REPEATS else 0), way
                assert counts["missing"] == len(gold.keys() - {r.query for r in rows}), way
                assert counts["without_gold"] == len({r.query for r in rows} - gold.keys()), way


@settings(SMALL, max_examples=25)
@given(gold=golds, rows=row_lists)
@example(
    gold={"q1": {"a": 1, "b": 1}},
    rows=[Row("q1", "a", "0.12345678901234568"), Row("q1", "b", "0.12345678901234567"), Row("q1", "b", "-3")],
)
def test_small_inputs_align_alike(gold: Gold, rows: list[Row]) -> None:
    check(gold, rows)


def test_many_queries_align_alike() -> None:
    check(*bulk(3))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_lists_in_order_align_alike(precision: str, tmp_path: Path) -> None:
    for seed in range(3):
        gold, rows = bulk(seed)
        target = expected(gold, rows, precision)
        assert seen(gold, as_lists(rows, precision)) == target
        assert seen(gold, as_ranked_log(rows, precision, tmp_path)) == target


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("block", "queries", "depth"), [(1, 8, 12), (64, 25, 30), (700, 25, 30), (5000, 25, 30)])
def test_blocks_of_any_size_and_several_threads_align_alike(
    block: int, queries: int, depth: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(karat.read.textfile, "BLOCK", block)
    ways = (
        "file in order",
        "file grouped",
        "file shuffled",
        "file with any space",
        "csv in order",
        "quoted csv",
        "file in order, packed",
        "file with comments",
    )
    check(*bulk(4, queries=queries, depth=depth), ways, threads=threads)


def test_a_file_in_order_is_aligned_block_by_block(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(karat.read.textfile, "BLOCK", 500)
    monkeypatch.setattr(karat.read.textfile.TextFile, "everything", lambda self: pytest.fail("read at once"))
    gold, rows = bulk(5, queries=25, depth=30)
    run = karat.read_run(WAYS["file in order"](rows, tmp_path))
    assert len(list(run.content.blocks())) > 5  # pieces grow to the longest query  # type: ignore[union-attr]
    assert seen(gold, run) == expected(gold, rows)
    assert seen(gold, WAYS["file grouped"](rows, tmp_path)) == expected(gold, rows)


TABLES = ("pandas", "polars", "pyarrow", "pyarrow in chunks", "duckdb", "arrow stream", "parquet")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("block", "queries", "depth"), [(1, 8, 12), (7, 12, 20), (50, 25, 30), (5000, 25, 30)])
def test_blocks_of_tables_align_alike(
    block: int, queries: int, depth: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(karat.read.arrow, "BLOCK", block)
    gold, rows = bulk(9, queries=queries, depth=depth)
    for order in (rows, grouped(rows), ranked(rows)):
        check(gold, order, TABLES, threads=threads)


def test_a_stream_that_can_be_read_once_is_aligned_at_both_levels(tmp_path: Path) -> None:
    rows = [Row("q", "a#1", "3"), Row("q", "b#1", "2"), Row("q", "a#2", "1")]
    once = as_chunks(rows, tmp_path).to_reader()
    assert karat.evaluate({"q": {"a": 1, "b": 1}}, once, "recall@2").mean["recall@2"] == 1


@pytest.mark.parametrize("way", TABLES)
def test_a_table_in_order_is_aligned_block_by_block(way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(karat.read.arrow, "BLOCK", 50)
    monkeypatch.setattr(karat.read.column_stream.ColumnStream, "everything", lambda self: pytest.fail("read at once"))
    gold, rows = bulk(5, queries=25, depth=30)
    for order in (grouped(rows), ranked(rows)):
        run = karat.read_run(WAYS[way](order, tmp_path))
        assert len(list(run.content.blocks())) > 5  # type: ignore[union-attr]
        assert seen(gold, run) == expected(gold, rows)


@pytest.mark.parametrize("share", [4_000_000, 100])
def test_sql_aligns_alike(share: int, by_sql: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(karat.align.sql, "ROWS_AT_ONCE", share)
    gold, rows = bulk(6)
    assert len(rows) > 5 * 100
    check(gold, rows, ("quoted csv",), threads=2)
    assert by_sql.calls == len(PRECISIONS)


SHUFFLED = ("file shuffled", "file shuffled, packed", "csv", "file with any space", "file with tabs", *TABLES)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("block", "rows_at_once", "pairs", "queries"), [(1 << 20, 30_000, 1 << 19, 40), (700, 40, 3, 25), (64, 7, 1, 9)]
)
def test_two_passes_align_alike(
    block: int,
    rows_at_once: int,
    pairs: int,
    queries: int,
    threads: int,
    by_two_passes: Spy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(karat.read.textfile, "BLOCK", block)
    monkeypatch.setattr(karat.read.arrow, "BLOCK", rows_at_once)
    monkeypatch.setattr(karat.align.disorder, "PAIRS_AT_ONCE", pairs)
    monkeypatch.setattr(karat.align.disorder, "KEYS_AT_ONCE", 4 * rows_at_once)
    gold, rows = bulk(6, queries=queries)
    check(gold, rows, SHUFFLED, threads=threads)
    assert by_two_passes.calls == len(PRECISIONS) * len(SHUFFLED)


@pytest.mark.parametrize("share", [4_000_000, 100])
@pytest.mark.parametrize("way", SHUFFLED)
def test_shares_of_queries_align_alike(
    way: str, share: int, by_two_passes: Spy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(karat.align.disorder, "ROWS_AT_ONCE", share)
    gold, rows = bulk(6)
    selves = [Row(q, q, "0.5") for q in gold]
    source = WAYS[way]([*rows, *selves], tmp_path)
    for precision in PRECISIONS:
        target = expected(gold, [*rows, *selves], precision, ignore_self=True)
        assert seen(gold, source, score_precision=precision, ignore_self=True, threads=2) == target
    assert by_two_passes.calls == len(PRECISIONS)


@pytest.mark.parametrize("way", ["file shuffled", "parquet", "quoted csv"])
@pytest.mark.parametrize("options", [{}, {"chunk_credit": "all"}, {"condensed": True}, {"duplicates": "error"}])
def test_rows_out_of_order_find_the_docs_of_chunks_alike(
    way: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rng = random.Random(3)
    rows = [
        Row(f"q{q}", f"d{rng.randrange(9)}#{rng.randrange(4)}", rng.choice(["1", "2", "0.5"]))
        for q in range(30)
        for _ in range(20)
    ]
    if options == {"duplicates": "error"}:
        rows = list({(r.query, r.doc): r for r in rows}.values())
    gold = {f"q{q}": {f"d{d}": 1 for d in rng.sample(range(12), 3)} for q in range(33)}
    source = WAYS[way](shuffled(rows), tmp_path)
    metrics = "map,ndcg@5,p@5,recall@3,mrr,judged@10"
    in_memory = karat.evaluate(gold, source, metrics, cache=False, **options)
    module, name = (karat.align.sql, "align_sql") if way == "quoted csv" else (karat.align.disorder, "align_disorder")
    with taking(monkeypatch, module, name) as spy:
        mine = karat.evaluate(gold, source, metrics, cache=False, **options)
    assert spy.calls
    assert list(mine.rows()) == list(in_memory.rows())
    assert mine.runs[0].counts == in_memory.runs[0].counts
    assert mine.runs[0].data_notes == in_memory.runs[0].data_notes


@pytest.mark.parametrize("way", ["file shuffled", "pyarrow"])
def test_two_passes_refuse_repeated_docs(way: str, by_two_passes: Spy, tmp_path: Path) -> None:
    rows = [Row("q1", "a", "1"), Row("q2", "a", "1"), Row("q1", "b", "3"), Row("q2", "c", "2"), Row("q1", "a", "2")]
    source = WAYS[way](rows, tmp_path)
    with pytest.raises(karat.InputError, match=r'query "q1", doc "a": returned more than once'):
        seen({"q1": {"a": 1}, "q2": {"a": 1}}, source, duplicates="error")
    assert by_two_passes.calls == 1


def test_keys_that_collide_are_told_apart_by_their_ids(
    by_two_passes: Spy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = karat.align.gold.GoldIndex.keys
    few = np.uint64(7)  # eight different keys for all docs
    monkeypatch.setattr(karat.align.gold.GoldIndex, "keys", lambda self, words, query: real(self, words, query) & few)
    monkeypatch.setattr(karat.align.gold.GoldIndex, "find", _find_by_ids)
    gold, rows = bulk(6, queries=9, depth=20)
    check(gold, rows, ("file shuffled",))
    assert by_two_passes.calls == len(PRECISIONS)


def _find_by_ids(self: Any, keys: Any, words: Any, query: Any) -> Any:
    """Judged rows by comparing each with each."""
    pairs = [
        (row, place)
        for row in range(len(query))
        for place in np.flatnonzero(self._query == query[row]).tolist()
        if all(
            int(words[i][row] if i < len(words) else 0) == int(self._words[i][place] if i < len(self._words) else 0)
            for i in range(max(len(words), len(self._words)))
        )
    ]
    rows, places = zip(*pairs, strict=True) if pairs else ((), ())
    return np.array(rows, dtype=np.int64), np.array(places, dtype=np.int64)


@settings(SMALL, max_examples=15)
@given(gold=golds, rows=row_lists.filter(lambda rows: len({r.query for r in rows}) > 1))
def test_two_passes_align_small_inputs_alike(gold: Gold, rows: list[Row]) -> None:
    first, last = rows[0], Row(rows[0].query, "last", "-1e30")
    others, again = ([r for r in rows[1:] if (r.query == first.query) is same] for same in (False, True))
    apart = [first, *others, *again, last]
    gold = {
        **gold,
        first.query: {**gold.get(first.query, {}), "last": 1},
    }  # only judged queries need their rows together
    with pytest.MonkeyPatch.context() as monkeypatch, tempfile.TemporaryDirectory() as folder:
        with taking(monkeypatch, karat.align.disorder, "align_disorder") as spy:
            for precision in PRECISIONS:
                path = written(Path(folder), "run", trec(apart))
                assert seen(gold, path, score_precision=precision) == expected(gold, apart, precision)
        assert spy.calls == 2


def test_sql_within_a_memory_limit_aligns_alike(by_sql: Spy, tmp_path: Path) -> None:
    gold, rows = bulk(7)
    path = WAYS["quoted csv"](rows, tmp_path)
    assert seen(gold, path, memory=200_000) == expected(gold, rows)  # 250 rows at a time
    assert by_sql.calls == 1


@pytest.mark.parametrize(
    "bad", ["1_000", "nan", "inf", "1e999", "0x10", "1e", "--1", "one", "1,5", "1.5.2", "٣", "true"]
)
def test_two_passes_refuse_the_scores_that_every_way_refuses(bad: str, by_two_passes: Spy, tmp_path: Path) -> None:
    rows = [Row("q1", "a", "1"), Row("q2", "a", "1"), Row("q1", "b", bad), Row("q2", "b", "0.5")]
    for mark in (" ", "  "):
        with pytest.raises(karat.InputError, match=r"run:3: score must be a finite number"):
            seen({"q1": {"a": 1}}, written(tmp_path, "run", trec(rows, mark)))


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_two_passes_rank_scores_beyond_float32_as_infinite_like_every_way(by_two_passes: Spy, tmp_path: Path) -> None:
    rows = [Row("q1", "a", "1e39"), Row("q2", "a", "1"), Row("q1", "b", "1e300"), Row("q1", "c", "3")]
    gold = {"q1": {"a": 1, "b": 1}}
    target = expected(gold, rows, "float32")
    assert target == {"q1": (3, {"b": 1, "a": 2})}  # both are infinite, and b is the greater id
    assert seen(gold, written(tmp_path, "run", trec(rows)), score_precision="float32") == target


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("way", ["dict", "file in order", "file shuffled", "pandas", "run log with scores"])
def test_scores_beyond_float32_rank_as_infinite(way: str, tmp_path: Path) -> None:
    rows = [Row("q1", "a", "1e39"), Row("q2", "a", "1"), Row("q1", "b", "1e300"), Row("q1", "c", "3")]
    source = WAYS[way](rows, tmp_path)
    assert seen({"q1": {"a": 1, "b": 1}}, source, score_precision="float32") == {"q1": (3, {"b": 1, "a": 2})}


def test_whole_numbers_are_compared_as_doubles() -> None:
    # 2^53 and 2^53 + 1 are one double, so they tie, and b is the greater id
    gold, run = {"q": {"a": 1}}, {"q": {"a": 2**53 + 1, "b": 2**53}}
    assert seen(gold, {"q": {d: float(s) for d, s in run["q"].items()}}) == {"q": (2, {"a": 2})}
    assert seen(gold, run) == {"q": (2, {"a": 2})}


def test_whole_numbers_in_a_run_log_are_compared_as_doubles(tmp_path: Path) -> None:
    items = [{"chunk_id": "a", "score": 2**53 + 1}, {"chunk_id": "b", "score": 2**53}]
    log = written(tmp_path, "log.jsonl", json.dumps({"query_id": "q", "topk": items}).encode())
    assert seen({"q": {"a": 1}}, log) == {"q": (2, {"a": 2})}


def test_integer_ids_become_their_decimal_form_wherever_they_stand(tmp_path: Path) -> None:
    gold = {"7": {"5": 1, "x": 1}}
    target = {"7": (3, {"x": 1, "5": 2})}
    assert seen({7: {5: 1, "x": 1}}, {7: {"x": 3.0, 5: 2.0, "z": 1.0}}) == target
    assert seen(gold, {"7": {"x": 3.0, 5: 2.0, "z": 1.0}}) == target
    assert seen(gold, {"7": ["x", 5, "z"]}) == target
    numbers = pd.DataFrame({"qid": [7, 7], "docid": [5, 6], "score": [1, 2]})
    assert seen(gold, numbers) == {"7": (2, {"5": 2})}


def test_gold_from_every_shape_is_the_same(tmp_path: Path) -> None:
    gold, rows = bulk(8)
    triples = [(q, d, float(g)) for q, judged in gold.items() for d, g in judged.items()]
    random.Random(2).shuffle(triples)
    table = {"query_id": [t[0] for t in triples], "doc_id": [t[1] for t in triples], "grade": [t[2] for t in triples]}
    lines = "".join(f"{q}\t0  {d} {g}\n" for q, d, g in triples).encode()
    with open(tmp_path / "gold.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("query-id", "corpus-id", "score"), *triples])
    pq.write_table(pa.table(table), tmp_path / "gold.parquet")
    sources = [
        written(tmp_path, "gold.txt", lines),
        written(tmp_path, "gold.txt.gz", gzip.compress(lines)),
        str(tmp_path / "gold.csv"),
        str(tmp_path / "gold.parquet"),
        pd.DataFrame(table),
        pl.DataFrame(table),
        pa.table(table),
        duckdb.from_arrow(pa.table(table)),
    ]
    run = as_dict(rows, tmp_path)
    whole = karat.evaluate(gold, run, "ndcg,infap,num_rel,judged", level="chunk", cache=False)
    for source in sources:
        other = karat.evaluate(source, run, "ndcg,infap,num_rel,judged", level="chunk", cache=False)
        assert list(other.rows()) == list(whole.rows())


# --- order --------------------------------------------------------------------------------------------


def test_the_order_is_by_score_then_by_falling_bytes_of_the_id(tmp_path: Path) -> None:
    docs = ["Z", "a", "aa", "aaaaaaaa", "aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaab", "aaaaaaaab", "é", "￿", "𝔸"]
    # As UTF-8 the first bytes rise: Z 5a, a 61, é c3, U+FFFF ef, U+1D538 f0; as UTF-16 the last two would be swapped.
    assert docs == sorted(docs, key=str.encode)
    rows = [Row("q", d, "1.5") for d in shuffled_list(docs[:])]
    target = {"q": (10, {d: 10 - i for i, d in enumerate(docs)})}
    gold = {"q": dict.fromkeys(docs, 1)}
    for way in WAYS.values():
        assert seen(gold, way(rows, tmp_path)) == target


def test_scores_that_differ_in_the_last_digit_only_are_told_apart(tmp_path: Path) -> None:
    # neighbouring doubles, each written with 17 digits; the greater id has the lower score
    low, high = 0.1, math.nextafter(0.1, 1)
    rows = [Row("q", "a", f"{high:.17g}"), Row("q", "b", f"{low:.17g}")]
    assert (float(rows[0].score), float(rows[1].score)) == (high, low)
    for name, way in WAYS.items():
        source = way(rows, tmp_path)
        assert seen({"q": {"a": 1}}, source) == {"q": (2, {"a": 1})}, name
        assert seen({"q": {"a": 1}}, source, score_precision="float32") == {"q": (2, {"a": 2})}, name


def test_scores_that_quick_reading_ties_wrongly_are_read_again_exactly(tmp_path: Path) -> None:
    """17 digits are read quickly to the nearest double or the one beside it; the order must not show it."""
    rng = random.Random(1)
    numbers = [rng.randrange(10**16, 10**17 - 10) for _ in range(4000)]
    pairs = [(f"0.{n:017d}", f"0.{n + 5:017d}") for n in numbers]
    quick = decimals(Strings.of(text for pair in pairs for text in pair)).values.reshape(-1, 2)
    tied = [p for p, (a, b) in zip(pairs, quick.tolist(), strict=True) if float(p[0]) < float(p[1]) and a == b]
    assert len(tied) > 50  # else this test says nothing
    # In the file b stands first: right if they tied, and wrong, since a has the higher score.
    rows = [Row(f"q{i}", doc, text) for i, pair in enumerate(tied) for doc, text in zip("ba", pair, strict=True)]
    gold = {f"q{i}": {"a": 1} for i in range(len(tied))}
    target = {q: (2, {"a": 1}) for q in gold}
    assert expected(gold, rows) == target
    assert seen(gold, written(tmp_path, "run", trec(rows))) == target


def test_scores_that_quick_reading_puts_beside_a_float32_are_read_again_exactly(tmp_path: Path) -> None:
    below = np.random.default_rng(1).random(50_000).astype(np.float32)
    middle = (below.astype(float) + np.nextafter(below, np.float32(2)).astype(float)) / 2
    texts = [f"0.{round(x * 10**17) - 8:017d}" for x in middle.tolist()]
    quick = decimals(Strings.of(texts)).values.astype(np.float32)
    exact = np.array([float(t) for t in texts]).astype(np.float32)
    wrong = [(t, repr(float(e))) for t, q, e in zip(texts, quick, exact, strict=True) if q > e]
    assert len(wrong) > 50
    # a and b tie as float32, so b is first; read quickly, a would stand higher, as in the file.
    rows = [Row(f"q{i}", doc, text) for i, pair in enumerate(wrong) for doc, text in zip("ab", pair, strict=True)]
    gold = {f"q{i}": {"a": 1} for i in range(len(wrong))}
    target = {q: (2, {"a": 2}) for q in gold}
    assert expected(gold, rows, "float32") == target
    assert seen(gold, written(tmp_path, "run", trec(rows)), score_precision="float32") == target


# --- every policy -------------------------------------------------------------------------------------

GOLD = {"q1": {"a": 1, "b": 2}, "q2": {"c": 1}, "q3": {"d": 0}}
ROWS = [Row("q1", "b", "3"), Row("q1", "x", "2"), Row("q1", "a", "1"), Row("q3", "d", "1"), Row("q9", "a", "1")]


@pytest.mark.parametrize("way", WAYS)
def test_a_missing_query_scores_zero_or_is_skipped(way: str, tmp_path: Path) -> None:
    source = WAYS[way](ROWS, tmp_path)
    zero = karat.evaluate(GOLD, source, "map", level="chunk", cache=False)
    skip = karat.evaluate(GOLD, source, "map", level="chunk", missing="skip", cache=False)
    ap = (1 / 1 + 2 / 3) / 2
    assert zero.per_query("map") == pytest.approx({"q1": ap, "q2": 0, "q3": 0})
    assert skip.per_query("map") == pytest.approx({"q1": ap, "q3": 0})
    for result in (zero, skip):
        counted = {name: result.counts[name] for name in ("missing", "without_gold", "empty_gold", "duplicates")}
        assert counted == {"missing": 1, "without_gold": 1, "empty_gold": 1, "duplicates": 0}


@pytest.mark.parametrize("way", WAYS)
def test_empty_gold_scores_zero_or_is_skipped(way: str, tmp_path: Path) -> None:
    source = WAYS[way](ROWS, tmp_path)
    skip = karat.evaluate(GOLD, source, "map", level="chunk", empty_gold="skip", cache=False)
    assert set(skip.per_query("map")) == {"q1", "q2"}
    both = karat.evaluate(GOLD, source, "map", level="chunk", empty_gold="skip", missing="skip", cache=False)
    assert set(both.per_query("map")) == {"q1"}
    assert both.counts["queries"] == 1


@pytest.mark.parametrize("way", sorted(KEEPS_REPEATS))
def test_duplicates_are_dropped_or_refused(way: str, tmp_path: Path) -> None:
    rows = [*ROWS, Row("q1", "x", "9"), Row("q9", "a", "0.5")]  # x rises to rank 1; q9 has no gold
    source = WAYS[way](rows, tmp_path)
    mine, counts = found(GOLD, source)
    assert mine["q1"] == (3, {"b": 2, "a": 3})
    assert counts["duplicates"] == 1
    with pytest.raises(karat.InputError, match='query "q1", doc "x": returned more than once'):
        seen(GOLD, source, duplicates="error")
    assert seen(GOLD, WAYS[way](ROWS, tmp_path), duplicates="error")["q1"] == (3, {"b": 1, "a": 3})


def test_two_passes_refuse_duplicates_too(by_two_passes: Spy, tmp_path: Path) -> None:
    rows = [Row("q1", "x", "9"), *ROWS[3:], *ROWS[:3]]
    with pytest.raises(karat.InputError, match='query "q1", doc "x": returned more than once'):
        seen(GOLD, written(tmp_path, "run", trec(rows)), duplicates="error")
    assert by_two_passes.calls == 1


def test_lists_refuse_duplicates_too() -> None:
    with pytest.raises(karat.InputError, match='query "q1", doc "x": returned more than once'):
        seen(GOLD, {"q1": ["x", "b", "x"]}, duplicates="error")


SELF_GOLD = {"d1": {"d2": 1, "d1": 1}, "d2": {"d3": 1}, "a-rather-long-id": {"d1": 1}}
SELF_ROWS = [
    Row("d1", "d1", "9"),
    Row("d1", "d2", "8"),
    Row("d1", "d11", "8.5"),
    Row("d2", "d2", "1"),
    Row("a-rather-long-id", "a-rather-long-id", "2"),
    Row("a-rather-long-id", "d1", "1"),
    Row("d1", "d1", "7"),
]
SELF_SEEN = {"d1": (2, {"d2": 2}), "d2": (0, {}), "a-rather-long-id": (1, {"d1": 1})}


@pytest.mark.parametrize("way", WAYS)
def test_docs_that_are_the_query_are_dropped_when_asked(way: str, tmp_path: Path) -> None:
    assert expected(SELF_GOLD, SELF_ROWS, ignore_self=True) == SELF_SEEN
    mine, counts = found(SELF_GOLD, WAYS[way](SELF_ROWS, tmp_path), ignore_self=True)
    assert mine == SELF_SEEN
    assert (counts["missing"], counts["without_gold"], counts["duplicates"]) == (0, 0, 0)


def test_two_passes_drop_docs_that_are_the_query_and_still_know_the_query(by_two_passes: Spy, tmp_path: Path) -> None:
    mine, counts = found(SELF_GOLD, written(tmp_path, "run", trec(SELF_ROWS)), ignore_self=True)
    assert by_two_passes.calls == 1
    assert mine == SELF_SEEN  # d2 returned nothing but itself: an empty result, not a missing query
    assert (counts["missing"], counts["without_gold"]) == (0, 0)


def test_condensed_lists_are_alike_everywhere(tmp_path: Path) -> None:
    gold, rows = bulk(9)
    metrics = "map,ndcg@10,num_ret,judged,bpref,infap"
    whole = karat.evaluate(gold, as_lists(rows, "float64"), metrics, level="chunk", condensed=True, cache=False)
    for query, judged in gold.items():
        order = list(dict.fromkeys(r.doc for r in in_order(rows).get(query, [])))
        kept = [d for d in order if judged.get(d, -1) >= 0]
        assert whole.per_query("num_ret")[query] == len(kept)
        assert whole.per_query("map")[query] == karat.score("map", kept, judged)
    for way in WAYS.values():
        other = karat.evaluate(gold, way(rows, tmp_path), metrics, level="chunk", condensed=True, cache=False)
        assert list(map(str, other.runs[0].values.values())) == list(map(str, whole.runs[0].values.values()))


def test_a_pair_judged_twice_counts_once_or_is_an_error_that_names_both_places(tmp_path: Path) -> None:
    same = written(tmp_path, "same", b"q 0 a 1\nq 0 b 1\nq 0 a 1\n")
    assert karat.evaluate(same, {"q": ["a"]}, "recall", cache=False).mean["recall"] == 1 / 2
    other = written(tmp_path, "other", b"q 0 a 1\nq 0 b 1\nq 0 a 2\n")
    with pytest.raises(karat.InputError, match=r'other:3: .*"q".*"a".* judged 2 here and 1 at line 1'):
        karat.evaluate(other, {"q": ["a"]}, "recall", cache=False)
    frame = pd.DataFrame({"qid": ["q", "q"], "docid": ["a", "a"], "grade": [1, 2]})
    with pytest.raises(karat.InputError, match=r"judged 1 in row 1 and 2 in row 2"):
        karat.evaluate(frame, {"q": ["a"]}, "recall", cache=False)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("score_precision", "float16"),
        ("duplicates", "last"),
        ("missing", "drop"),
        ("empty_gold", "one"),
        ("level", "page"),
        ("chunk_credit", "some"),
        ("separator", 3),
        ("like", "trec"),
    ],
)
def test_a_policy_that_is_not_known_is_refused(option: str, value: str) -> None:
    with pytest.raises(karat.UsageError, match=option):
        karat.evaluate({"q": ["a"]}, {"q": ["a"]}, "map", cache=False, **{option: value})


def test_choices_that_differ_from_the_defaults_are_told() -> None:
    result = karat.evaluate({"q": ["a"]}, {"q": ["a"]}, "map", missing="skip", like="beir", cache=False)
    assert result.conventions == {
        "like": "beir",
        "score_precision": "float32",
        "missing": "skip",
        "level": "chunk",
        "ignore_self": True,
    }


# --- chunks and docs ----------------------------------------------------------------------------------

DOC_GOLD = {"q1": {"d1": 2, "d2": 1, "d3": 0}, "q2": {"d1": 1}}
CHUNK_ROWS = [
    Row("q1", "d1#2", "9"),
    Row("q2", "d5#1", "3"),
    Row("q1", "d9#1", "8"),
    Row("q1", "d1#1", "7.5"),
    Row("q1", "d2#a#b", "7"),
    Row("q2", "d1#7", "2"),
    Row("q1", "d1#2", "1"),
    Row("q1", "d3", "0.5"),
]
# q1 in order: d1#2 d9#1 d1#1 d2#a#b d3, and d1#2 again, which is dropped
DOC_SEEN = {"q1": (5, {"d1": 1, "d2": 4, "d3": 5}), "q2": (2, {"d1": 2})}


@pytest.mark.parametrize("way", WAYS)
def test_the_first_chunk_of_a_doc_takes_its_grade(way: str, tmp_path: Path) -> None:
    source = WAYS[way](CHUNK_ROWS, tmp_path)
    assert seen(DOC_GOLD, source, level="doc") == DOC_SEEN
    assert seen(DOC_GOLD, source, level="auto") == DOC_SEEN
    assert seen(DOC_GOLD, source, level="chunk") == {"q1": (5, {"d3": 5}), "q2": (2, {})}
    result = karat.evaluate(DOC_GOLD, source, "precision@5,map", level="doc", chunk_credit="all", cache=False)
    assert result.per_query("precision@5") == {"q1": 3 / 5, "q2": 1 / 5}  # d1#2, d1#1 and d2#a#b are of relevant docs
    assert result.per_query("map") == {"q1": (1 / 1 + 2 / 4) / 2, "q2": 1 / 2}


def as_docs(way: str, rows: Sequence[Row], folder: Path) -> Any:
    """The rows in a shape whose field for ids is one for docs."""
    lines = [{"query_id": q, "topk": [{"doc_id": r.doc} for r in mine]} for q, mine in in_order(rows).items()]
    pairs = [json.dumps({"query_id": q, "docid": d, "score": float(s)}) for q, d, s in rows]
    frame = pd.DataFrame({"qid": [r.query for r in rows], "doc": [r.doc for r in rows]})
    frame["score"] = [float(r.score) for r in rows]
    text = "query_id,doc_id,score\n" + "".join(f"{','.join(row)}\n" for row in rows)
    return {
        "csv": lambda: written(folder, "docs.csv", text.encode()),
        "rows": lambda: written(folder, "rows.jsonl", "\n".join(pairs).encode()),
        "frame": lambda: frame,
        "log": lambda: written(folder, "log.jsonl", "\n".join(map(json.dumps, lines)).encode()),
    }[way]()


@pytest.mark.parametrize("way", ["csv", "rows", "frame", "log"])
def test_ids_in_a_field_for_docs_are_whole_docs_in_every_format(way: str, tmp_path: Path) -> None:
    """`C# guide` and `C# primer` are two docs: nothing but `chunk_id` says that an id has a doc before the `#`."""
    rows = [Row("q", "C# guide", "3"), Row("q", "C# primer", "2"), Row("q", "F#", "1")]
    source = as_docs(way, rows, tmp_path)
    result = karat.evaluate({"q": {"C# primer": 1}}, source, "distinct_docs@3,mrr", cache=False)
    assert dict(result.mean) == {"distinct_docs@3": 3, "mrr": 1 / 2}
    assert not any("#" in note for note in result.runs[0].notes)


@pytest.mark.parametrize("way", ["csv", "rows", "frame", "log"])
def test_chunks_that_a_run_calls_docs_are_pointed_out(way: str, tmp_path: Path) -> None:
    result = karat.evaluate(DOC_GOLD, as_docs(way, CHUNK_ROWS[:6], tmp_path), "mrr", cache=False)
    text = (
        '0 of 4 judgments match the run\'s docs, 3 match what stands before "#" in them: if they are chunks, call the '
        "column or field chunk_id"
    )
    assert result.mean["mrr"] == 0 and text in result.runs[0].mismatches


def test_ids_that_may_be_docs_are_named_where_docs_are_counted() -> None:
    """Nothing names ids in a dict. Chunks beside whole docs may as well be docs with the separator in their ids."""
    gold, run = {"q": {"b": 1}}, {"q": ["C# guide", "C# primer", "b"]}
    result = karat.evaluate(gold, run, "distinct_docs@3", cache=False)
    assert result.mean["distinct_docs@3"] == 2
    assert result.runs[0].data_notes == (
        '2 of 3 ids hold "#" and count as chunks: "C# guide" as one of the doc "C"; if ids name whole docs, switch '
        "that off with --separator ''",
    )
    whole = karat.evaluate(gold, run, "distinct_docs@3", separator="", cache=False)
    assert whole.mean["distinct_docs@3"] == 3 and whole.runs[0].data_notes == ()
    chunks = karat.evaluate(gold, {"q": ["d1#1", "d1#2", "d2#1"]}, "distinct_docs@3", cache=False)
    assert chunks.mean["distinct_docs@3"] == 2 and chunks.runs[0].data_notes == ()
    known = karat.evaluate(gold, {"q": ["b", "b#2", "c"]}, "distinct_docs@3", cache=False)
    assert known.mean["distinct_docs@3"] == 2 and not any("count as chunks" in n for n in known.runs[0].notes)


def test_two_passes_take_chunks_to_docs_alike(by_two_passes: Spy, tmp_path: Path) -> None:
    path = written(tmp_path, "run", trec(CHUNK_ROWS))
    assert seen(DOC_GOLD, path, level="doc") == DOC_SEEN
    assert seen(DOC_GOLD, path, level="auto") == DOC_SEEN
    result = karat.evaluate(DOC_GOLD, path, "precision@5", level="doc", chunk_credit="all", cache=False)
    assert result.per_query("precision@5") == {"q1": 3 / 5, "q2": 1 / 5}
    assert by_two_passes.calls == 4  # auto looks at both levels


@pytest.mark.parametrize("separator", ["#", "::", "é", "_p"])
@pytest.mark.parametrize("way", WAYS)
def test_the_separator_may_be_any_text(way: str, separator: str, tmp_path: Path) -> None:
    rows = [row._replace(doc=row.doc.replace("#", separator)) for row in CHUNK_ROWS]
    source = WAYS[way](rows, tmp_path)
    assert seen(DOC_GOLD, source, level="doc", separator=separator) == DOC_SEEN
    assert seen(DOC_GOLD, source, level="auto", separator=separator) == DOC_SEEN


@pytest.mark.parametrize("way", WAYS)
def test_auto_level_does_not_depend_on_which_doc_comes_first(way: str, tmp_path: Path) -> None:
    """Whole docs and chunks in one list: the chunks stand below, or were written last."""
    rows = [Row("q", "whole", "9"), Row("q", "d1#1", "8"), Row("q", "d2#1", "7"), Row("q", "last", "1")]
    gold = {"q": {"d1": 1, "d2": 1}}
    for order in (rows, rows[::-1], rows[1:] + rows[:1]):
        assert seen(gold, WAYS[way](order, tmp_path), level="auto") == {"q": (4, {"d1": 2, "d2": 3})}


def test_auto_level_of_a_large_dict_is_that_of_the_same_file(tmp_path: Path) -> None:
    rows = [*(Row("q1", f"d{i}", f"{i}") for i in range(60_000)), Row("q2", "whole", "2"), Row("q2", "d1#1", "1")]
    gold = {"q2": {"d1": 1}}
    for way in ("file in order", "dict"):
        assert seen(gold, WAYS[way](rows, tmp_path), level="auto") == {"q2": (2, {"d1": 2})}, way


def test_auto_level_says_what_it_took() -> None:
    run = {"q1": ["d1#2", "d2#1"]}
    result = karat.evaluate({"q1": {"d1": 1, "d2": 1, "d3": 1}}, run, "map", cache=False)
    assert "matched by doc: 0 of 3 judgments are of chunks of the run, 2 of its docs" in result.notes
    result = karat.evaluate({"q1": {"d1#2": 1, "d3#1": 1}}, run, "map", cache=False)
    assert "matched by chunk: 1 of 2 judgments is of chunks of the run, none of its docs" in result.notes


def with_doc_column(rows: Sequence[tuple[str, str, str, float]], folder: Path) -> dict[str, Any]:
    """Runs that name the doc of each chunk in a column or field of its own; it may be empty."""
    names = ("query_id", "chunk_id", "doc_id", "score")
    table = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    with open(folder / "chunks.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([names, *rows])
    lines = [{n: v for n, v in zip(names, row, strict=True) if v != ""} for row in rows]
    log: dict[str, list[Any]] = {}
    for line in lines:
        log.setdefault(line["query_id"], []).append({n: v for n, v in line.items() if n != "query_id"})
    return {
        "csv": str(folder / "chunks.csv"),
        "pandas": pd.DataFrame(table),
        "polars": pl.DataFrame(table),
        "json rows": written(folder, "rows.jsonl", "\n".join(map(json.dumps, lines)).encode()),
        "run log": written(
            folder,
            "log.jsonl",
            "\n".join(json.dumps({"query_id": q, "topk": items}) for q, items in log.items()).encode(),
        ),
    }


@pytest.mark.parametrize("shape", ["csv", "pandas", "polars", "json rows", "run log"])
def test_the_doc_of_a_chunk_may_have_a_column_of_its_own(shape: str, tmp_path: Path) -> None:
    rows = [("q", "c1", "d2", 3.0), ("q", "c2", "d1", 2.5), ("p", "c9", "d1", 1.0), ("q", "c3", "d1", 2.0)]
    source = with_doc_column(rows, tmp_path)[shape]
    gold = {"q": {"d1": 1, "d2": 1}, "p": {"d1": 1}}
    target = {"q": (3, {"d2": 1, "d1": 2}), "p": (1, {"d1": 1})}
    assert seen(gold, source, level="doc") == target
    assert seen(gold, source, level="auto") == target
    assert seen({"q": {"c3": 1}}, source, level="auto") == {"q": (3, {"c3": 3})}


def test_two_passes_take_the_doc_column_too(by_two_passes: Spy, tmp_path: Path) -> None:
    rows = [("q", "c1", "d2", 3.0), ("q", "c2", "d1", 2.5), ("p", "c9", "d1", 1.0), ("q", "c3", "d1", 2.0)]
    source = with_doc_column(rows, tmp_path)["csv"]
    assert seen({"q": {"d1": 1, "d2": 1}}, source, level="doc") == {"q": (3, {"d2": 1, "d1": 2})}
    assert by_two_passes.calls == 1


@pytest.mark.parametrize("shape", ["csv", "pandas", "polars", "json rows", "run log"])
def test_a_chunk_without_its_doc_belongs_to_what_stands_before_the_separator(shape: str, tmp_path: Path) -> None:
    rows = [("q", "c1", "d2", 3.0), ("q", "d1#4", "", 2.0), ("q", "d7", "", 1.0)]
    source = with_doc_column(rows, tmp_path)[shape]
    gold = {"q": {"d1": 1, "d2": 1, "d7": 1}}
    assert seen(gold, source, level="doc") == {"q": (3, {"d2": 1, "d1": 2, "d7": 3})}


def test_a_repeated_chunk_belongs_to_the_doc_of_its_best_place(by_two_passes: Spy, tmp_path: Path) -> None:
    rows = [("q", "c1", "d2", 3.0), ("p", "x", "y", 1.0), ("q", "c1", "d1", 2.0)]
    source = with_doc_column(rows, tmp_path)["csv"]
    assert seen({"q": {"d1": 1, "d2": 1}}, source, level="doc") == {"q": (1, {"d2": 1})}


def test_parents_are_what_stands_before_the_separator() -> None:
    ids = ["d1#1", "d1", "#x", "a#b#c", "", "long-document-id#", "ä#1"]
    for separator in ("#", "#b", "nt-"):
        expected_parents = [i.partition(separator)[0] for i in ids]
        assert derive_parents(Strings.of(ids), separator).texts() == expected_parents


# --- stages and dates ---------------------------------------------------------------------------------

LOG = [
    {
        "query_id": "q1",
        "stages": {"retrieve": ["x", "a#1", "b"], "rerank": ["b", "a#1"]},
        "topk": [{"chunk_id": "b", "doc_version": "2025-03-01"}, {"chunk_id": "a#1", "doc_version": "2024-12-31"}],
    },
    {
        "query_id": "q2",
        "stages": {"retrieve": ["y", "c"], "rerank": ["c"]},
        "topk": [{"chunk_id": "c", "doc_version": "2025-01-01"}, {"chunk_id": "y"}],
    },
]


@pytest.fixture
def log(tmp_path: Path) -> str:
    return written(tmp_path, "log.jsonl", "\n".join(map(json.dumps, LOG)).encode())


def test_any_logged_stage_can_be_evaluated(log: str) -> None:
    gold = {"q1": {"a#1": 1, "b": 1}, "q2": {"c": 1}}
    assert seen(gold, log) == {"q1": (2, {"b": 1, "a#1": 2}), "q2": (2, {"c": 1})}
    assert seen(gold, log, stage="retrieve") == {"q1": (3, {"a#1": 2, "b": 3}), "q2": (2, {"c": 2})}
    assert seen(gold, log, stage="rerank") == {"q1": (2, {"b": 1, "a#1": 2}), "q2": (1, {"c": 1})}
    assert seen({"q1": {"a": 1}}, log, stage="retrieve", level="doc")["q1"] == (3, {"a": 2})
    with pytest.raises(karat.InputError, match="no stage"):
        seen(gold, log, stage="fuse")
    with pytest.raises(karat.UsageError, match="stage needs a run log"):
        seen(gold, {"q1": ["a#1"]}, stage="retrieve")


def test_items_newer_than_the_query_are_dropped_when_asked(log: str) -> None:
    gold = {"q1": {"a#1": 1, "b": 1}, "q2": {"c": 1}}
    queries = {"q1": {"as_of": "2025-01-01"}, "q2": {"as_of": "2025-01-01"}}
    result = karat.evaluate(gold, log, "mrr,recall", queries=queries, as_of_filter=True, level="chunk", cache=False)
    # b is of March and goes; c is of the day itself and stays; y has no date and stays
    assert result.per_query("recall") == {"q1": 1 / 2, "q2": 1}
    assert result.per_query("mrr") == {"q1": 1, "q2": 1}
    assert any("dropped 1 item" in note for note in result.notes)
    assert any("recall 1.0000 → 0.7500 (-0.2500)" in note for note in result.notes)
    with pytest.raises(karat.UsageError, match="as_of"):
        karat.evaluate(gold, log, "mrr", as_of_filter=True, cache=False)


def test_the_dates_of_the_queries_matter_with_the_cache_too(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.store.cache.SMALLEST", 0)
    gold = written(Path(log).parent, "gold", b"q1 0 b 1\n")
    recalls = []
    for date in ("2025-01-01", "2025-06-01", "2025-01-01"):
        queries = {"q1": {"as_of": date}}
        result = karat.evaluate(gold, log, "recall", queries=queries, as_of_filter=True, level="chunk")
        recalls.append(result.mean["recall"])
    assert recalls == [0, 1, 0]


# --- real systems -------------------------------------------------------------------------------------

needs_dl19 = pytest.mark.skipif(not DL19.is_dir(), reason=f"needs the TREC DL 2019 data in {DL19}")
METRICS = "map,ndcg@10,ndcg(gain=exp),bpref,infap,mrr,recall@50,rbp,err,q,judged@10,num_rel_ret"


@needs_dl19
@pytest.mark.parametrize("system", ["ada2", "bm25", "bm25-rm3", "splade", "tas-b"])
def test_dl19_aligns_alike_in_every_way(system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gold = karat.read_qrels(str(DL19 / "qrels.txt"))
    cells = [line.split() for line in (DL19 / f"{system}.run").read_text().splitlines()]
    rows = [Row(c[0], c[2], c[4]) for c in cells]

    def values(source: Any, precision: str) -> list[Any]:
        result = karat.evaluate(gold, source, METRICS, score_precision=precision, cache=False)
        return [(q, m, v) for _, q, m, v in result.rows()]

    targets = {}
    for precision in PRECISIONS:
        lists = as_lists(rows, precision)
        targets[precision] = target = values(lists, precision)
        assert len(target) == 43 * 12
        first = next(iter(gold.query_ids))
        assert {(q, m): v for q, m, v in target}[first, "map"] == pytest.approx(
            karat.score("map", lists[first], gold.for_query(first)), abs=1e-12
        )
    for name, way in {"as it is": lambda *_: str(DL19 / f"{system}.run"), **WAYS}.items():
        source = way(rows, tmp_path)
        for precision, target in targets.items():
            assert values(source, precision) == target, (name, precision)
    with taking(monkeypatch, karat.align.disorder, "align_disorder") as spy:
        source = WAYS["file shuffled"](rows, tmp_path)
        for precision, target in targets.items():
            assert values(source, precision) == target
    assert spy.calls == len(PRECISIONS)


# --- numbers written as text --------------------------------------------------------------------------


def read(texts: Sequence[str]) -> tuple[list[float], list[bool], list[int]]:
    numbers = decimals(Strings.of(texts))
    near = numbers.near.tolist() if numbers.near is not None else [False] * len(texts)
    return numbers.values.tolist(), near, numbers.bad.tolist()


def check_decimals(texts: Sequence[str]) -> None:
    """What is not marked as near is exactly Python's float; what is near is within two units in the last place."""
    values, near, bad = read(texts)
    assert bad == []
    for text, value, is_near in zip(texts, values, near, strict=True):
        true = float(text)
        if is_near:
            assert abs(value - true) <= 2 * math.ulp(true), text
        else:
            assert value == true, text
            assert math.copysign(1, value) == math.copysign(1, true), text
    exact, wrong = exact_decimals(Strings.of(texts))
    assert exact.tolist() == [float(t) for t in texts]
    assert not wrong.any()


DIGITS = st.text("0123456789", min_size=1, max_size=12)
SIGNS = st.sampled_from(["", "-"])
FORMS = {
    "whole": st.builds(lambda s, a: s + a, SIGNS, st.text("0123456789", min_size=1, max_size=22)),
    "any dot": st.builds(lambda s, a, b: f"{s}{a}.{b}", SIGNS, DIGITS, DIGITS),
    "bare dot": st.builds(lambda s, a: f"{s}.{a}", SIGNS, DIGITS) | st.builds(lambda s, a: f"{s}{a}.", SIGNS, DIGITS),
    "repr": st.floats(allow_nan=False, allow_infinity=False).map(repr),
    "near one": st.floats(0, 2, allow_nan=False).map(repr),
    "17 digits": st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: f"{x:.17g}"),
    "exponent": st.builds(lambda x, n: f"{x}e{n:+d}", st.integers(-999, 999), st.integers(-300, 300)),
    "plus": DIGITS.map(lambda a: "+" + a),
    "very long": st.builds(lambda a, b: f"{a}.{b}", DIGITS, st.text("0123456789", min_size=18, max_size=40)),
}


@pytest.mark.parametrize("form", FORMS)
@SMALL
@given(data=st.data())
def test_decimals_are_exact_or_marked_as_near(form: str, data: st.DataObject) -> None:
    check_decimals(data.draw(st.lists(FORMS[form], min_size=1, max_size=20)))


@SMALL
@given(texts=st.lists(st.one_of(*FORMS.values()), min_size=1, max_size=30))
def test_decimals_of_mixed_forms_are_exact_or_marked_as_near(texts: list[str]) -> None:
    check_decimals(texts)


@pytest.mark.parametrize("places", range(20))
def test_decimals_with_one_number_of_places_are_exact_or_marked_as_near(places: int) -> None:
    rng = random.Random(places)
    texts = [f"{rng.choice((1, -1)) * rng.random() * 10 ** rng.randint(0, 8):.{places}f}" for _ in range(400)]
    check_decimals(texts)
    check_decimals([t for t in texts if not t.startswith("-")])


def test_short_decimals_are_never_marked_as_near() -> None:
    rng = random.Random(1)
    for places in range(1, 10):
        texts = [f"{rng.uniform(-1000, 1000):.{places}f}" for _ in range(200)]
        assert not any(read(texts)[1])  # 13 digits at most: below 2^53


def test_mantissas_beyond_53_bits_are_marked_as_near() -> None:
    texts = ["9007199254740993", "9007199254740992", "0.9007199254740993", "90071992547.40993", "-9007199254740993"]
    assert read(texts)[1] == [True, False, True, True, True]
    check_decimals(texts)


def test_a_dot_before_a_short_number_is_not_part_of_it() -> None:
    texts = ["1.250", "v.", "55", "-7", "x.1", "-8", "2.125"]
    whole = Strings.of([" ".join(texts)])
    ends = int(whole.start[0]) + np.cumsum([len(t) + 1 for t in texts]) - 1
    column = Strings(whole.buffer, ends - [len(t) for t in texts], ends)
    numbers = decimals(column)
    assert numbers.bad.tolist() == [1, 4] and numbers.near is None
    assert numbers.values[[0, 2, 3, 5, 6]].tolist() == [1.25, 55.0, -7.0, -8.0, 2.125]


@pytest.mark.parametrize("byte", [*range(9), *range(14, 32)])
def test_a_control_byte_parts_no_fields(byte: int) -> None:
    layout = Layout(None, 3, 0, 1, 2)
    for mark, cut in ((b" ", True), (bytes([byte]), False)):
        text = padded(b"q1 d1 1\nq1" + mark + b"d2 2\n")
        text[:PAD] = ord("x")
        assert (cut_fields(text, PAD, len(text) - PAD, layout, (0, 1, 2)) is not None) == cut


BAD_NUMBERS = [
    "",
    "-",
    "+",
    ".",
    "-.",
    "e5",
    "1e",
    "1e+",
    "--1",
    "+-1",
    "1-",
    "1.2.3",
    "..1",
    "1..",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "Infinity",
    "1_000",
    "0x1F",
    "1,5",
    "1e999",
    "-1e999",
    "1 2",
    " 1",
    "1 ",
    "one",
    "1f",
    "1d5",
    "٣",
    "½",
    "1/2",
    "/.5",
    ":.5",
    "5./",
    "1.5:",
    "0.1e",
    "1e5.0",
]


@pytest.mark.parametrize("bad", BAD_NUMBERS)
def test_text_that_is_no_finite_number_is_marked_as_bad(bad: str) -> None:
    for others in ([], ["1.5", "2.5"], ["7"], ["1.25", "3", "-1e5"], ["1" * 30]):
        for place in range(len(others) + 1):
            texts = [*others[:place], bad, *others[place:]]
            values, _, wrong = read(texts)
            assert wrong == [place], texts
            assert [values[i] for i in range(len(texts)) if i != place] == [float(t) for t in others]
            assert exact_decimals(Strings.of(texts))[1].tolist() == [i == place for i in range(len(texts))]


def test_no_text_gives_no_numbers() -> None:
    assert read([]) == ([], [], [])


@SMALL
@given(texts=st.lists(st.text(string.digits + ".-+eE_ x", max_size=22), min_size=1, max_size=12))
def test_what_is_a_number_is_what_python_says_but_for_underscores_and_space(texts: list[str]) -> None:
    values, near, bad = read(texts)
    for i, text in enumerate(texts):
        try:
            true = float(text) if not set(text) & set("_ x") else math.nan
        except ValueError:
            true = math.nan
        assert (i in bad) == (not math.isfinite(true)), text
        if i not in bad and not near[i]:
            assert values[i] == true


# --- columns of text ----------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)


@SMALL
@given(texts=st.lists(words, max_size=12), data=st.data())
def test_strings_give_back_their_texts(texts: list[str], data: st.DataObject) -> None:
    column = Strings.of(texts)
    assert column.texts() == texts
    assert column.bytes() == [t.encode() for t in texts]
    assert len(column) == len(texts)
    rows = data.draw(st.lists(st.integers(0, max(0, len(texts) - 1)), max_size=5)) if texts else []
    assert column.take(np.array(rows, dtype=np.int64)).texts() == [texts[i] for i in rows]
    mask = np.array([len(t) % 2 == 0 for t in texts], dtype=bool)
    assert column.take(mask).texts() == [t for t in texts if len(t) % 2 == 0]


@SMALL
@given(texts=st.lists(words, min_size=1, max_size=12))
def test_words_hold_eight_bytes_each_and_zeros_past_the_end(texts: list[str]) -> None:
    column = Strings.of(texts)
    longest = max(len(t.encode()) for t in texts)
    assert column.longest() == longest
    for i, word in enumerate(column.words()):
        cut = [t.encode()[8 * i : 8 * i + 8].ljust(8, b"\0") for t in texts]
        assert word.tolist() == [int.from_bytes(c, "little") for c in cut]
    assert not column.word(math.ceil(longest / 8) + 5).any()


@SMALL
@given(texts=st.lists(words | words.map(lambda text: "long" * 40 + text), min_size=2, max_size=10))
def test_words_turned_compare_as_bytes_do(texts: list[str]) -> None:
    column = Strings.of(texts)
    turned = [w.tolist() for w in column.ordered_words(column.words(), np.arange(len(texts)))]
    keys = list(zip(*turned, strict=True))
    for i, a in enumerate(texts):
        for j, b in enumerate(texts):
            assert (keys[i] < keys[j]) == (a.encode() < b.encode())
            assert (keys[i] == keys[j]) == (a == b)


@SMALL
@given(texts=st.lists(words, min_size=1, max_size=10), longer=words)
def test_a_key_does_not_depend_on_the_other_strings_of_its_column(texts: list[str], longer: str) -> None:
    salt = np.uint64(12345)
    together = hashed(Strings.of([*texts, longer + "x" * 40]).words(), salt)[: len(texts)]
    alone = [int(hashed(Strings.of([t]).words(), salt)[0]) for t in texts]
    assert together.tolist() == alone


def test_keys_of_different_strings_and_salts_differ() -> None:
    texts = [f"{prefix}{i}" for prefix in ("", "d", "document-", "a-prefix-of-16-b", "日本語") for i in range(4000)]
    column = Strings.of(texts)
    salts = [np.uint64(query * 0xD6E8FEB86659FD93 % 2**64) for query in (1, 2, 3)]
    keys = {salt: hashed(column.words(), salt) for salt in salts}
    assert len(set(np.concatenate(list(keys.values())).tolist())) == 3 * len(texts)
    # words that are swapped are other strings
    pairs = ["aaaaaaaabbbbbbbb", "bbbbbbbbaaaaaaaa", "aaaaaaaabbbbbbbbcccccccc", "ccccccccbbbbbbbbaaaaaaaa"]
    assert len(set(hashed(Strings.of(pairs).words(), np.uint64(9)).tolist())) == 4


def test_the_buffer_has_free_bytes_at_both_ends() -> None:
    column = Strings.of(["abc"])
    assert len(column.buffer) == PAD + 4 + PAD  # a byte that belongs to no text follows each
    assert not column.buffer[:PAD].any()
    assert not column.buffer[PAD + 4 :].any()


def test_level_doc_refuses_gold_by_chunk() -> None:
    gold, run = {"q": {"a#1": 1, "b#2": 1}}, {"q": ["a#1", "c#1"]}
    with pytest.raises(karat.InputError, match=r"0 of 2 judgments match a doc, 1 match a chunk.*--components"):
        karat.evaluate(gold, run, "recall@5", level="doc")
    # Gold by doc that nothing was returned of is measured, and 0.
    assert karat.evaluate({"q": {"z": 1}}, run, "recall@5", level="doc").runs[0].intervals["recall@5"].estimate == 0
