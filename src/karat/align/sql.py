"""Align a file of any order and size in SQL, on disk where memory does not suffice.

The statements use only what DuckDB and Spark have in common: joins, groups and one window.
"""

from __future__ import annotations

import csv
import os
import re
import tempfile
from typing import TYPE_CHECKING

import numpy as np

from karat.align.columns import align_block, join_blocks
from karat.align.hits import Hits, RepeatedDocs, ReturnedDoc
from karat.errors import InputError
from karat.read.frames import fetch_rows
from karat.store.database import Database, Selection, as_pattern
from karat.store.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from karat.align.gold import GoldIndex
    from karat.model.policy import Policy
    from karat.model.qrels import Qrels

ROWS_AT_ONCE = 4_000_000
"""Rows that are ranked together; more are ranked a share of the queries at a time."""
_BYTES_PER_ROW = 400  # what grouping and ranking a row takes in the engine, measured generously

ROWS = """
SELECT q.code AS query, r.doc AS doc, {score} AS score{parent}
FROM ({source}) r JOIN queries q ON r.query = q.query {join}
"""

TABLES = {
    "queries": "{'query': 'VARCHAR', 'code': 'INTEGER'}",
    "gold": "{'query': 'INTEGER', 'doc': 'VARCHAR', 'id': 'INTEGER'}",
    "parents": "{'chunk': 'VARCHAR', 'parent': 'VARCHAR'}",
}
"""The columns of the tables that are brought to the engine."""

SINGLE = """
CASE WHEN abs(r.score) < 3.4028235677973366e38 THEN CAST(CAST(r.score AS FLOAT) AS DOUBLE)
     WHEN r.score > 0 THEN CAST('infinity' AS DOUBLE) ELSE CAST('-infinity' AS DOUBLE) END
"""

BEST = """
SELECT query, doc, max(score) AS score, count(*) AS copies{parent}
FROM disk.run WHERE query % {shares} = {share} GROUP BY query, doc
"""

SHARE = """
SELECT q.query AS query, r.doc AS doc, r.score AS value{parent} FROM disk.run r JOIN queries q ON r.query = q.code
WHERE r.query % {shares} = {share} ORDER BY r.query
"""

PLACES = """
SELECT *, row_number() OVER (PARTITION BY query ORDER BY score DESC, doc DESC) AS place FROM best
"""


def align_sql(
    qrels: Qrels,
    index: GoldIndex,
    source: Selection,
    policy: Policy,
    *,
    at_doc: bool,
    has_parent: bool,
    memory: int | None,
    threads: int,
    keep_items: int,
    parents: Mapping[str, str],
) -> Hits:
    """Align these rows of query, doc and score."""
    if odd := re.search(r"[?\\]", tempfile.gettempdir()):
        raise InputError(
            f"{tempfile.gettempdir()}: temporary tables cannot be kept in a folder with {odd[0]!r} in its name; "
            "set TMPDIR to another one"
        )
    with scratch_folder() as folder:
        limit = f"{max(memory // 2, 256 << 20) >> 20}MiB" if memory else None
        engine = Database(source.files, folder=folder, memory=limit, threads=threads)
        engine.attach(os.path.join(folder, "run.duckdb"), "disk")
        engine.run("SET preserve_insertion_order = false")
        with_parent = at_doc or keep_items > 0
        _load(engine, folder, qrels, source, policy, has_parent, with_parent, parents if with_parent else {})
        rank_rows = _select_rows if policy.selects else _rank_rows
        return rank_rows(engine, qrels, index, policy, at_doc, memory, keep_items)


def _load(
    engine: Database,
    folder: str,
    qrels: Qrels,
    source: Selection,
    policy: Policy,
    has_parent: bool,
    with_parent: bool,
    parents: Mapping[str, str],
) -> None:
    _insert(engine, folder, "queries", ((q, i) for i, q in enumerate(qrels.query_ids)))
    _insert(engine, folder, "gold", zip(qrels.query_of.tolist(), qrels.docs, range(len(qrels.docs)), strict=True))
    single = policy.score_precision == "float32"
    parent = ""
    values = dict(source.values)
    if with_parent:
        values |= {"separator": policy.separator} if policy.separator else {}
        before = "split_part(r.doc, $separator, 1)" if policy.separator else "r.doc"
        candidates = ["nullif(r.parent, '')"] if has_parent else []
        candidates += ["p.parent"] if parents else []
        parent = f", coalesce({', '.join([*candidates, before])}) AS parent"
    if parents:
        _insert(engine, folder, "parents", parents.items())
    join = "LEFT JOIN parents p ON r.doc = p.chunk" if parents else ""
    rows = ROWS.format(score=SINGLE if single else "r.score", parent=parent, source=source.sql, join=join)
    engine.run(f"CREATE TABLE disk.run AS {rows}", values)


def _insert(engine: Database, folder: str, table: str, rows: Iterable[tuple[str | int, ...]]) -> None:
    """Rows into a table, by way of a file."""
    path = os.path.join(folder, f"{table}.csv")
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_NONNUMERIC).writerows(rows)
    engine.run(
        f"CREATE TABLE {table} AS SELECT * FROM read_csv($file, columns = {TABLES[table]}, header = false, "
        "delim = ',', quote = '\"', escape = '\"', auto_detect = false)",
        {"file": as_pattern(path)},
    )
    os.unlink(path)


def _count_shares(engine: Database, memory: int | None) -> int:
    ((rows,),) = engine.fetch("SELECT count(*) FROM disk.run")
    at_once = min(ROWS_AT_ONCE, memory // 2 // _BYTES_PER_ROW) if memory else ROWS_AT_ONCE
    return max(1, -(-int(rows) // max(1, at_once)))


def _select_rows(
    engine: Database, qrels: Qrels, index: GoldIndex, policy: Policy, at_doc: bool, memory: int | None, keep_items: int
) -> Hits:
    """Bring the rows of each query together; which docs count is said in one place, for columns."""
    shares = _count_shares(engine, memory)
    parent = ", r.parent" if at_doc or keep_items else ""
    queries = (Selection(SHARE.format(parent=parent, shares=shares, share=share)) for share in range(shares))
    blocks = (fetch_rows(engine, rows) for rows in queries)
    parts = [align_block(rows, index, policy, at_doc, keep_items) for rows in blocks if len(rows)]
    return join_blocks(parts, len(qrels))


def _rank_rows(
    engine: Database, qrels: Qrels, _: GoldIndex, policy: Policy, at_doc: bool, memory: int | None, keep_items: int
) -> Hits:
    shares = _count_shares(engine, memory)
    returned = np.full(len(qrels), -1, dtype=np.int64)
    gold: list[int] = []
    rank: list[int] = []
    later_gold: list[int] = []
    later_rank: list[int] = []
    items: dict[int, list[ReturnedDoc]] = {}
    duplicates = level = 0
    for share in range(shares):
        parent = ", arg_max(parent, score) AS parent" if at_doc or keep_items else ""
        engine.run(f"CREATE OR REPLACE TEMP TABLE best AS {BEST.format(shares=shares, share=share, parent=parent)}")
        engine.run(f"CREATE OR REPLACE TEMP TABLE ranked AS {PLACES}")
        engine.run("DROP TABLE best")
        if policy.duplicates == "error":
            _refuse(engine)
        counts = "SELECT query, count(*), sum(copies), max(score) = min(score) FROM ranked GROUP BY query"
        for query, n, copies, equal in engine.fetch(counts):
            returned[query] = n
            duplicates += int(copies) - n
            level += n > 1 and bool(equal)
        on = "parent" if at_doc else "doc"
        hits = engine.fetch(
            f"SELECT g.id, r.place FROM ranked r JOIN gold g ON r.query = g.query AND r.{on} = g.doc "
            "ORDER BY g.id, r.place"
        )
        before = None
        for g, place in hits:
            first = g != before
            (gold if first else later_gold).append(g)
            (rank if first else later_rank).append(place)
            before = g
        if keep_items:
            top = f"SELECT query, doc, score, parent FROM ranked WHERE place <= {int(keep_items)} ORDER BY query, place"
            for query, *item in engine.fetch(top):
                items.setdefault(query, []).append(ReturnedDoc(*item))
        engine.run("DROP TABLE ranked")
    return Hits(
        np.array(gold, dtype=np.int64),
        np.array(rank, dtype=np.int64),
        returned,
        np.array(later_gold, dtype=np.int64),
        np.array(later_rank, dtype=np.int64),
        duplicates=duplicates,
        level=level,
        items=items,
    )


def _refuse(engine: Database) -> None:
    twice = engine.fetch(
        "SELECT q.query, r.doc FROM ranked r JOIN queries q ON r.query = q.code WHERE copies > 1 LIMIT 21"
    )
    if twice:
        raise RepeatedDocs(twice)
