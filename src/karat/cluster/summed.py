"""More queries than a driver should hold: their values stay on the workers, which send sums.

The rows of all runs and the gold are brought together by a hash of the query. A worker aligns and measures a bucket of
queries as one machine would, and sends sums of values and of paired differences (`stats.poisson_sums`), what was
counted, and the queries with the lowest values.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from functools import reduce
from itertools import combinations
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from karat.align.columns import join_blocks
from karat.align.gold import GoldIndex
from karat.align.hits import into_rankings
from karat.cluster.errors import spark_errors
from karat.cluster.parts import RowFault, decode_faults, encode
from karat.cluster.progress import watching
from karat.cluster.remote_run import BUCKET, RemoteRun
from karat.cluster.sources import is_table_or_parquet, open_frame
from karat.cluster.worker import MESSAGES, columns_of, message, other_version
from karat.errors import InputError, RowProblem
from karat.metrics.grammar import parse
from karat.model.strings import Strings, hashed
from karat.read.layout import table_layout
from karat.read.sources import read_qrels
from karat.records import dataclass
from karat.results.values import spread, statistic_of
from karat.stats.poisson_sums import Sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from karat.cluster.worker import Task
    from karat.model.qrels import Qrels
    from karat.model.run import Rows

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GoldFrame:
    """Judgments on the cluster, and how many queries they are of."""

    session: Any
    frame: Any
    """Columns query_id, doc_id and grade."""
    source: str
    queries: int

    def sample(self, size: int) -> list[str]:
        """The first queries in the order of a hash: as good as drawn at random, and the same in every run."""
        from pyspark.sql import functions as sql

        ids = self.frame.select("query_id").distinct()
        chosen = ids.orderBy(sql.xxhash64("query_id"), "query_id").limit(size)
        with spark_errors(self.source):
            return list(chosen.toArrow().column(0).to_pylist())

    def only(self, query_ids: Sequence[str]) -> Any:
        """The judgments of some queries, as a table here."""
        import pyarrow as pa
        from pyspark.sql import functions as sql

        names = self.session.createDataFrame(pa.table({"query_id": pa.array(query_ids, pa.string())}))
        with spark_errors(self.source):
            return self.frame.join(sql.broadcast(names), "query_id", "left_semi").toArrow()


def open_gold(session: Any, source: Any, more_than: int) -> GoldFrame | None:
    """Judgments in a table, in Parquet or in a frame, if they are of more queries than this."""
    from pyspark.sql import functions as sql

    if not is_table_or_parquet(source):
        return None
    frame, where = open_frame(session, source)
    names = frame.columns
    layout = table_layout(where, "qrels", [name.lower() for name in names])
    if layout.parent is not None:  # judged by subtopic
        return None
    places = {"query_id": layout.query, "doc_id": layout.doc, "grade": layout.value}
    kinds = {"grade": "double"}
    plain = frame.select(
        *(sql.col(f"`{names[i]}`").cast(kinds.get(name, "string")).alias(name) for name, i in places.items())
    )
    with spark_errors(where):
        if plain.count() <= more_than:
            return None
        count = plain.select("query_id").distinct().count()
    return GoldFrame(session, plain, where, count) if count > more_than else None


class RunCounts(msgspec.Struct, array_like=True):
    """What was counted of a run, and its queries with the lowest values of the first metric."""

    counts: dict[str, int]
    worst: list[tuple[float, str]]

    def plus(self, other: RunCounts, keep: int) -> RunCounts:
        names = dict.fromkeys((*self.counts, *other.counts))
        pairs = {n: (self.counts.get(n, 0), other.counts.get(n, 0)) for n in names}
        counts = {n: max(pair) if n == "depth" else sum(pair) for n, pair in pairs.items()}
        return RunCounts(counts, heapq.nsmallest(keep, (*self.worst, *other.worst)))


class Bundle(msgspec.Struct, array_like=True):
    """The sums of some buckets: of each metric of each run, then of the differences of each pair of runs."""

    sums: bytes
    runs: list[RunCounts]

    def plus(self, other: Bundle, keep: int) -> Bundle:
        both = Sums.from_bytes(self.sums) + Sums.from_bytes(other.sums)
        return Bundle(both.to_bytes(), [a.plus(b, keep) for a, b in zip(self.runs, other.runs, strict=True)])


@dataclass(frozen=True)
class SumTask:
    """One pass over all runs."""

    tasks: tuple[Task, ...]
    """How the rows of each run are aligned."""
    metrics: tuple[str, ...]
    seed: int
    keep: int
    """How many queries with the lowest values are named."""

    def bundle(self, runs: Sequence[Rows], gold: Qrels | None) -> Bundle:
        """The sums of a bucket: the rows of each run, and their gold."""
        if gold is None:
            counts = [RunCounts({"without_gold": len(set(rows.query.bytes()))}, []) for rows in runs]
            none = np.zeros((self._width, 0))
            return Bundle(Sums.of(none, none, np.zeros(0, np.uint64), self.seed).to_bytes(), counts)
        qrels = replace(gold, grades=self.tasks[0].policy.regrade(gold.grades))
        measured = [self._measure(task, rows, qrels) for task, rows in zip(self.tasks, runs, strict=True)]
        shares = np.array([columns for columns, _, _ in measured])
        pairs = list(combinations(range(len(runs)), 2))
        levels = shares.reshape(-1, len(qrels))
        before = np.array([shares[i] for i, _ in pairs]).reshape(-1, len(qrels))
        after = np.array([shares[j] for _, j in pairs]).reshape(-1, len(qrels))
        keys = hashed(Strings.of(qrels.query_ids).words(), np.uint64(1))
        columns, base = np.concatenate((levels, after - before)), np.concatenate((np.zeros_like(levels), before))
        run_counts = [RunCounts(counts, worst) for _, counts, worst in measured]
        return Bundle(Sums.of(columns, base, keys, self.seed).to_bytes(), run_counts)

    @property
    def _width(self) -> int:
        runs = len(self.tasks)
        return len(self.metrics) * (runs + runs * (runs - 1) // 2)

    def _measure(self, task: Task, rows: Rows, qrels: Qrels) -> tuple[Floats, dict[str, int], list[tuple[float, str]]]:
        """The values of one run as shares of their scales (metrics × queries), what was counted, the lowest values."""
        parts = [task.align(rows, GoldIndex(qrels)).block()] if len(rows) else []
        hits = join_blocks(parts, len(qrels))
        aligned = into_rankings(qrels, hits, task.policy)
        rankings = aligned.rankings
        measures = [parse(name) for name in self.metrics]
        values = [spread(m(rankings), rankings.query_ids, qrels.query_ids) for m in measures]
        order = np.argsort(values[0], kind="stable")[: self.keep]
        worst = [(float(values[0][i]), qrels.query_ids[i]) for i in order.tolist() if values[0][i] == values[0][i]]
        shares = [statistic_of(m).shares(v) for m, v in zip(measures, values, strict=True)]
        return np.array(shares), aligned.counts, worst


def _sum_buckets(task: SumTask) -> Callable[[Any, Any], Any]:
    def work(rows: Any, gold: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        if (fault := other_version(task.tasks[0].version)) is not None:
            return pa.Table.from_batches([message("faults", encode([fault]))])
        rows = rows.sort_by("place")
        tables = [rows.filter(pc.equal(rows.column("number"), i)) for i in range(len(task.tasks))]
        try:
            lists = [columns_of(table, one.source) for table, one in zip(tables, task.tasks, strict=True)]
        except InputError:
            return pa.Table.from_batches([message("broken", b"")])  # another pass says where
        try:
            qrels = read_qrels(gold.select(["query_id", "doc_id", "grade"])) if gold.num_rows else None
        except InputError as error:
            details = (p.detail if isinstance(p, RowProblem) else str(p) for p in error.problems)
            return pa.Table.from_batches([message("faults", encode([RowFault(-1, 0, d) for d in details]))])
        return pa.Table.from_batches([message("sums", msgspec.msgpack.encode(task.bundle(lists, qrels)))])

    return work


def _add_up(keep: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The sums of a partition's buckets as one, so that few bytes go to the driver."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        total: Bundle | None = None
        for batch in batches:
            for kind, data in zip(batch.column("kind").to_pylist(), batch.column("data").to_pylist(), strict=True):
                if kind != "sums":
                    yield message(kind, data)
                    continue
                one = msgspec.msgpack.decode(data, type=Bundle)
                total = one if total is None else total.plus(one, keep)
        if total is not None:
            yield message("sums", msgspec.msgpack.encode(total))

    return work


def sum_runs(gold: GoldFrame, runs: Sequence[RemoteRun], task: SumTask) -> Bundle:
    """The sums of all queries of the gold."""
    from pyspark.sql import functions as sql

    with spark_errors(runs[0].source.name):
        count = sum(run.frame.count() for run in runs)
    buckets = sql.lit(max(1, -(-count // BUCKET)))
    frames = [run.numbered(i) for i, run in enumerate(runs)]
    together = reduce(lambda a, b: a.unionByName(b), frames)
    both = [
        frame.withColumn("bucket", sql.pmod(sql.xxhash64(sql.col(name)), buckets)).groupBy("bucket")
        for frame, name in ((together, "query"), (gold.frame, "query_id"))
    ]
    frame = both[0].cogroup(both[1]).applyInArrow(_sum_buckets(task), MESSAGES)
    frame = frame.mapInArrow(_add_up(task.keep), MESSAGES)
    with spark_errors(runs[0].source.name), watching(gold.session, "all runs", runs[0].watch):
        table = frame.toArrow()
    rows = list(zip(table.column("kind").to_pylist(), table.column("data").to_pylist(), strict=True))
    if any(kind == "broken" for kind, _ in rows):
        for run in runs:
            run.refuse_faults()
    if faults := {fault.detail for kind, one in rows if kind == "faults" for fault in decode_faults(one)}:
        raise InputError(f"{gold.source}: {detail}" for detail in sorted(faults))
    bundles = [msgspec.msgpack.decode(one, type=Bundle) for kind, one in rows if kind == "sums"]
    return reduce(lambda a, b: a.plus(b, task.keep), bundles)
