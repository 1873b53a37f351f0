"""A run whose rows lie on a cluster, and the plans by which they are aligned there.

The counting plan: workers look their rows up in the gold, which they all have, and send the hits of the queries that
lie in one partition whole. Nothing is shuffled. The cogroup plan is for queries whose rows lie in several partitions:
their rows and their gold are brought together by a hash of the query.
"""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import karat
from karat.align.columns import join_blocks
from karat.cluster.errors import refuse_rows, spark_errors
from karat.cluster.parts import PackedGold, decode_faults, decode_part
from karat.cluster.progress import watching
from karat.cluster.worker import (
    MESSAGES,
    ROWS,
    Task,
    align_buckets,
    align_partitions,
    columns_of,
    find_faults,
    read_partitions,
)
from karat.errors import InputError
from karat.model.run import RemoteRows
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karat.align.hits import Hits
    from karat.cluster.parts import Part
    from karat.cluster.worker import Source
    from karat.model.engine import Watch
    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.run import Rows

GOLD_BYTES = 64 << 20
"""Packed gold up to this size is sent to every worker; a larger one is brought to the rows, by the cogroup plan."""
BUCKET = 500_000
"""Rows that the cogroup plan brings together at once."""
VERSION = karat.__version__
FIRST = 5_000
"""Rows that are looked at to tell why ids do not match."""
BROUGHT = 20_000_000
"""The largest run that is brought to the driver, in rows."""


@dataclass(eq=False)
class RemoteRun(RemoteRows):
    """Rows on a cluster."""

    session: Any
    frame: Any
    """The batches that workers get: columns of query, doc, value and perhaps parent, or lines of text."""
    source: Source
    mark: str
    head: Rows
    watch: Watch | None = None
    explain: bool = False
    plans: list[str] = field(default_factory=list)
    """What was done, in words."""
    _marks: bool = False

    @property
    def has_parent(self) -> bool:
        return self.source.has_parent

    def holds(self, mark: str) -> bool:
        return self._marks

    def first_rows(self) -> Rows:
        return self.head

    def align(self, qrels: Qrels, policy: Policy, *, at_doc: bool, keep_items: int, parents: Mapping[str, str]) -> Hits:
        """The hits in these rows, by the counting plan as far as queries lie in one partition."""
        task = Task(self.source, policy, at_doc, keep_items, parents, self.mark, VERSION)
        packed = PackedGold.of(qrels)
        if len(packed.data) > GOLD_BYTES:
            return _join(self._bring_together(task, qrels, None, None), (), qrels)
        frame = self.frame.mapInArrow(align_partitions(task, packed), MESSAGES)
        parts = self._collect(frame)
        if not parts:
            raise InputError(f"{self.source.name}: holds no results, expected at least one")
        self._marks = any(part.marks for part in parts)
        split = _split_queries(parts, len(qrels))
        whole = [part for part in parts if part.hits and not split[part.numbers()].any()]
        others = [part for part in parts if not part.hits or split[part.numbers()].any()]
        rows = sum(part.rows for part in parts)
        count = int(split.sum())
        self._say(f"counting plan: {rows:,} rows; {count:,} queries lie in several partitions", frame)
        if count:
            whole += self._bring_together(task, qrels, np.flatnonzero(split), sum(part.rows for part in others))
        return _join(whole, others, qrels)

    def only(self, query_ids: Sequence[str]) -> RemoteRun:
        """The rows of these queries alone, as columns."""
        frame = self._of_queries(self._rows(), query_ids)
        columns = replace(self.source, shape="columns")
        return replace(self, frame=frame, source=columns, plans=[])

    def _of_queries(self, rows: Any, query_ids: Sequence[str]) -> Any:
        import pyarrow as pa
        from pyspark.sql import functions as sql

        names = self.session.createDataFrame(pa.table({"query": pa.array(query_ids, pa.string())}))
        return rows.join(sql.broadcast(names), "query", "left_semi")

    def bring(self) -> Rows:
        """All rows, brought to the driver."""
        with spark_errors(self.source.name):
            count = self.frame.count()
            if count > BROUGHT:
                raise InputError(
                    f"{self.source.name}: has {count:,} rows, and what is asked for needs them on one machine, which "
                    f"takes {BROUGHT:,} at most; evaluate a sample of its queries"
                )
            table = self._rows().toArrow()
        self._say(f"driver plan: {count:,} rows were brought to the driver")
        return columns_of(table, self.source)

    def _say(self, plan: str, *frames: Any) -> None:
        """Note what was done, and with `explain` how Spark does it."""
        steps = [_described(frame) for frame in frames] if self.explain else []
        for one in (plan, *steps):
            if one not in self.plans:
                self.plans.append(one)

    def _collect(self, frame: Any) -> list[Part]:
        """What the workers send; broken rows are an error that says where they are."""
        with spark_errors(self.source.name), watching(self.session, self.source.name, self.watch):
            table = frame.toArrow()
        kinds, data = table.column("kind").to_pylist(), table.column("data").to_pylist()
        faults = [
            fault for kind, one in zip(kinds, data, strict=True) if kind == "faults" for fault in decode_faults(one)
        ]
        if "broken" in kinds:
            self.refuse_faults()
        if faults:
            refuse_rows(self.source, faults)
        return [decode_part(one) for kind, one in zip(kinds, data, strict=True) if kind == "part"]

    def numbered(self, number: int) -> Any:
        """The rows as columns, beside their place and the number of this run."""
        from pyspark.sql import functions as sql

        rows = self._rows()
        if "parent" not in rows.columns:
            rows = rows.withColumn("parent", sql.lit(""))
        return rows.withColumn("place", sql.monotonically_increasing_id()).withColumn("number", sql.lit(number))

    def refuse_faults(self) -> None:
        """The error that names the broken rows, where there are any."""
        from pyspark.sql import functions as sql

        frame = self.frame
        places = [sql.spark_partition_id().alias("partition")]
        try:
            with_file = frame.select("*", sql.col("_metadata.file_path").alias("file"))
            with_file.schema  # noqa: B018  (not every source knows its files)
            places.append(sql.col("_metadata.file_path").alias("file"))
        except Exception:
            pass
        with spark_errors(self.source.name):
            table = frame.select("*", *places).mapInArrow(find_faults(self.source), MESSAGES).toArrow()
        if faults := [fault for one in table.column("data").to_pylist() for fault in decode_faults(one)]:
            refuse_rows(self.source, faults)

    def _rows(self) -> Any:
        """The rows as columns."""
        if self.source.shape == "columns":
            return self.frame
        return self.frame.mapInArrow(read_partitions(self.source), ROWS)

    def _bring_together(self, task: Task, qrels: Qrels, split: Any, rows: int | None) -> list[Part]:
        """The hits of these queries (all for None), whose rows are brought together."""
        import pyarrow as pa
        from pyspark.sql import functions as sql

        run = self._rows().withColumn("place", sql.monotonically_increasing_id())
        rows = rows if rows is not None else self._rows().count()
        keep = np.ones(len(qrels.docs), dtype=bool)
        if split is not None:
            chosen = np.zeros(len(qrels), dtype=bool)
            chosen[split] = True
            keep = chosen[qrels.query_of]
            run = self._of_queries(run, [qrels.query_ids[i] for i in split.tolist()])
        judged = np.flatnonzero(keep)
        number = qrels.query_of[judged]
        gold = pa.table(
            {
                "query": pa.array([qrels.query_ids[i] for i in number.tolist()], pa.string()),
                "doc": pa.array([qrels.docs[i] for i in judged.tolist()], pa.string()),
                "grade": qrels.grades[judged],
                "gold": judged,
                "number": number,
            }
        )
        buckets = sql.lit(max(1, -(-rows // BUCKET)))
        both = [
            one.withColumn("bucket", sql.pmod(sql.xxhash64(sql.col("query")), buckets)).groupBy("bucket")
            for one in (run, self.session.createDataFrame(gold))
        ]
        frame = both[0].cogroup(both[1]).applyInArrow(align_buckets(task), MESSAGES)
        why = f"the gold takes more than {GOLD_BYTES >> 20} MB" if split is None else f"{len(split):,} queries"
        self._say(f"cogroup plan: {rows:,} rows were brought together by query ({why})", frame)
        return self._collect(frame)


def _described(frame: Any) -> str:
    """Spark's own plan, its steps in one line."""
    with redirect_stdout(io.StringIO()) as text:
        frame.explain()
    steps = [line.strip(" +-:|") for line in text.getvalue().splitlines()]
    return "Spark's plan: " + " ← ".join(step[:120] for step in steps if step and not step.startswith("=="))


def _split_queries(parts: Sequence[Part], size: int) -> NDArray[np.bool_]:
    """The queries that lie in several parts, and those that share a part with one of them."""
    counts = np.zeros(size, dtype=np.int64)
    for part in parts:
        counts[part.numbers()] += 1 if part.hits else 2
    split = counts > 1
    for part in parts:  # what is counted for a whole part cannot be divided
        if split[part.numbers()].any():
            split[part.numbers()] = True
    return split


def _join(parts: Sequence[Part], others: Sequence[Part], qrels: Qrels) -> Hits:
    """The hits of all parts; of the others only the queries that the gold lacks."""
    without = {name.decode() for part in (*parts, *others) for name in part.without_gold}
    hits = join_blocks([part.block() for part in parts], len(qrels))
    return replace(hits, without_gold=sorted(without))
