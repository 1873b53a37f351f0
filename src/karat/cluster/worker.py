"""What runs on the workers: rows of a partition, or of a bucket of queries, through the aligner of one machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import karat
from karat.align.columns import align_block, group_rows
from karat.align.gold import GoldIndex
from karat.align.stream import fill_parents
from karat.cluster.parts import MORE, Part, RowFault, encode
from karat.errors import MAX_PROBLEMS, InputError, Problem, RowProblem
from karat.model.decimals import exact_decimals
from karat.model.qrels import Qrels
from karat.model.strings import PAD, Strings, padded
from karat.read.arrow import Columns, read_batches
from karat.read.column_stream import ColumnStream
from karat.read.exact import as_rows, read_rows
from karat.read.files import HEAD, InputFile
from karat.read.formats import LineRows, read_content
from karat.read.problems import Problems
from karat.read.textfile import FRONT, Block, Irregular, TextFile, join_rows
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from karat.cluster.parts import PackedGold
    from karat.model.policy import Policy
    from karat.model.run import Rows
    from karat.read.layout import Layout

BLOCK = 1 << 18
"""Rows that are aligned at once; what a task holds in memory follows it, not the partition."""
FEW = 8
"""Rows a query below which a further block of a partition is not aligned: its queries lie in other blocks too."""
MESSAGES = "kind string, data binary"
"""The columns of what workers send."""
ROWS = "query string, doc string, value double, parent string"
NUMBER = (1 << 33) - 1
"""The bits of Spark's row ids that count the rows of a partition; those above are the partition."""

Shape = Literal["columns", "text", "jsonl"]


@dataclass(frozen=True)
class Source:
    """How the rows of a run lie in the batches that a worker gets."""

    name: str
    shape: Shape
    has_parent: bool
    layout: Layout | None = None
    header: str | None = None
    """The first line of a text with column names; every file of a folder has it."""


@dataclass(frozen=True)
class Task:
    """One pass over a run."""

    source: Source
    policy: Policy
    at_doc: bool
    keep_items: int
    parents: Mapping[str, str]
    mark: str
    """What may divide chunks from docs in ids: looked for, whatever the policy says of it."""
    version: str
    """Of Karat on the driver."""

    def align(self, rows: Rows, gold: GoldIndex) -> Part:
        """The hits of a block of whole queries."""
        needed = self.at_doc or self.keep_items > 0
        whole = fill_parents(group_rows(rows), self.policy, self.parents, needed=needed)
        marks = bool(self.mark) and self.mark.encode() in rows.doc.buffer.tobytes()
        block = align_block(whole, gold, self.policy, self.at_doc, self.keep_items)
        return Part.of(block, len(rows), marks=marks)


def align_partitions(task: Task, gold: PackedGold) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The counting plan: the hits of each partition's queries, as far as they lie in it."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        if (fault := other_version(task.version)) is not None:
            yield message("faults", encode([fault]))
            return
        try:
            for part in _parts(batches, task, gold.index()):
                yield message("part", encode(part))
        except InputError:
            yield message("broken", b"")  # another pass says where: it costs nothing where nothing is wrong

    return work


def find_faults(source: Source) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """What is wrong with the rows of each partition, where something is."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        faults: list[RowFault] = []
        count = 0
        for batch in batches:
            if not batch.num_rows or len(faults) > MAX_PROBLEMS:
                continue
            partition = batch.column("partition")[0].as_py()
            files = batch.column("file") if "file" in batch.schema.names else None
            try:
                _read(source, [batch])
            except InputError as error:
                for problem in error.problems:
                    number = getattr(problem, "number", None) or 1
                    detail = problem.detail if isinstance(problem, (Problem, RowProblem)) else str(problem)
                    file = files[number - 1].as_py() if files is not None else ""
                    faults.append(RowFault(partition, count + number, detail, file or ""))
                if error.more:
                    faults.append(RowFault(partition, count + batch.num_rows, MORE))
            count += batch.num_rows
        if faults:
            yield message("faults", encode(faults[: MAX_PROBLEMS + 1]))

    return work


def read_partitions(source: Source) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The rows of each partition as columns, for plans that bring the rows of a query together."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for rows in _pieces(batches, source):
            columns = [_arrow(rows.query), _arrow(rows.doc), pa.array(_exact(rows))]
            parent = _arrow(rows.parent) if rows.parent is not None else pa.nulls(len(rows), pa.string())
            yield pa.RecordBatch.from_arrays([*columns, parent], names=["query", "doc", "value", "parent"])

    return work


def align_buckets(task: Task) -> Callable[[Any, Any], Any]:
    """The cogroup plan: the rows of whole queries beside their gold."""

    def work(run: Any, gold: Any) -> Any:
        import pyarrow as pa

        if not run.num_rows:
            return pa.Table.from_batches([], schema=message("part", b"").schema)
        run = run.sort_by("place")
        gold = gold.sort_by("gold")
        numbers = gold.column("number").to_numpy()
        first = np.flatnonzero(np.diff(numbers, prepend=-1)) if len(numbers) else numbers
        queries = [gold.column("query")[int(i)].as_py() for i in first]
        offsets = np.append(first, len(numbers)).astype(np.int64)
        grades = gold.column("grade").to_numpy().astype(np.float64)
        index = GoldIndex(Qrels(queries, offsets, gold.column("doc").to_pylist(), grades))
        try:
            rows = columns_of(run, task.source)
        except InputError as error:
            places = run.column("place").to_numpy()
            faults = [_fault(int(places[p.number - 1]), p.detail) for p in error.problems if isinstance(p, RowProblem)]
            return pa.Table.from_batches([message("faults", encode(faults))])
        block = task.align(rows, index).block()
        ids = gold.column("gold").to_numpy()
        mine = numbers[first] if len(first) else numbers
        moved = replace(
            block,
            queries=mine[block.queries],
            gold=ids[block.gold],
            later_gold=ids[block.later_gold],
            items={int(mine[q]): top for q, top in block.items.items()},
        )
        return pa.Table.from_batches([message("part", encode(Part.of(moved, len(rows), marks=False)))])

    return work


def _fault(place: int, detail: str) -> RowFault:
    return RowFault(place >> 33, (place & NUMBER) + 1, detail)


def other_version(version: str) -> RowFault | None:
    """The fault of workers whose Karat is not that of the driver."""
    if version == karat.__version__:
        return None
    text = f"the workers have Karat {karat.__version__}, the driver {version}; install the same version on both"
    return RowFault(-1, 0, text)


def message(kind: str, data: bytes) -> Any:
    """What a worker sends."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([kind]), pa.array([data], pa.binary())], names=["kind", "data"])


def _parts(batches: Iterator[Any], task: Task, gold: GoldIndex) -> Iterator[Part]:
    """The hits of the blocks of a partition; its first and its last query, which others may share, stand alone."""
    rest: Rows | None = None
    first, several = True, False
    for piece in _pieces(batches, task.source):
        rows = piece if rest is None else join_rows([rest, piece])
        starts = rows.query.starts()
        if first and len(starts) > 1:
            yield task.align(rows.take(np.arange(starts[1])), gold)
            rows, starts, first = rows.take(np.arange(starts[1], len(rows))), starts[1:] - starts[1], False
        if len(starts) > 1:
            yield _whole(rows.take(np.arange(starts[-1])), len(starts) - 1, task, gold, several=several)
            several = True
        rest = _compact(rows.take(np.arange(starts[-1], len(rows))))
    if rest is not None:
        yield task.align(rest, gold)


def _whole(rows: Rows, lists: int, task: Task, gold: GoldIndex, *, several: bool) -> Part:
    if not several or len(rows) >= FEW * lists:
        return task.align(rows, gold)
    ids = rows.query.take(rows.query.starts())
    numbers = dict(zip(ids.bytes(), gold.number_queries(ids).tolist(), strict=True))
    known = np.array([i for i in numbers.values() if i >= 0], dtype="<i4")
    without = tuple(name for name, i in numbers.items() if i < 0)
    marks = bool(task.mark) and task.mark.encode() in rows.doc.buffer.tobytes()
    return Part(len(rows), known.tobytes(), without, hits=False, marks=marks)


def _pieces(batches: Iterator[Any], source: Source) -> Iterator[Rows]:
    """The rows of a partition, many at a time."""
    waiting: list[Any] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= BLOCK:
            rows = _read(source, waiting)
            waiting, count = [], 0
            if len(rows):
                yield rows
    if count:
        rows = _read(source, waiting)
        if len(rows):
            yield rows


def _read(source: Source, batches: list[Any]) -> Rows:
    """The rows of some batches, checked; problems count lines or rows from the first of them."""
    import pyarrow as pa

    table = pa.Table.from_batches(batches)
    if source.shape == "columns":
        return columns_of(table, source)
    lines = table.column(0).cast(pa.binary()).combine_chunks()
    if source.shape == "text":
        return _lines(source, lines)
    data = _joined(lines)
    content = read_content(InputFile(source.name, data[:HEAD], data), "run", Problems(source.name), name="jsonl")
    assert isinstance(content, LineRows)
    return _with_parent(as_rows(content.rows), has_parent=source.has_parent)


def columns_of(table: Any, source: Source) -> Rows:
    """The rows of a table of query, doc, value and perhaps parent, checked."""
    import pyarrow as pa

    kinds = {"query": pa.large_string(), "doc": pa.large_string(), "value": pa.float64(), "parent": pa.large_string()}
    names = ["query", "doc", "value", *(["parent"] if source.has_parent else [])]
    plain = table.select(names).cast(pa.schema([(name, kinds[name]) for name in names])).combine_chunks()
    columns = Columns(*range(len(names)))
    stream = ColumnStream(source.name, "run", lambda: read_batches(plain), columns, plain.nbytes)
    try:
        return join_rows([stream.rows(block) for block in stream.blocks(len(plain))])
    except Irregular:
        stream.check()
        raise


def _lines(source: Source, lines: Any) -> Rows:
    """The rows of lines of text, by the fast reader where it can, else by the exact one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    assert source.layout is not None
    is_header = pc.equal(lines, pa.scalar(source.header.encode(), pa.binary())) if source.header is not None else None
    body = lines if is_header is None or not pc.any(is_header).as_py() else lines.filter(pc.invert(is_header))
    data = _joined(body)
    file = TextFile(source.name, source.layout, "run")
    try:
        rows = file.rows(Block(bytearray(FRONT + data + bytes(1 + PAD)), PAD + len(data)))
    except Irregular:
        if is_header is not None:
            data = _joined(pc.if_else(is_header, pa.scalar(b"", pa.binary()), lines))  # line numbers count it
        rows = as_rows(read_rows(data, source.layout, "run", source.name))
    return _with_parent(rows, has_parent=source.has_parent)


def _joined(lines: Any) -> bytes:
    """Lines as one text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    text: bytes = pc.binary_join(whole, pa.scalar(b"\n", pa.binary()))[0].as_py() + b"\n"
    return text


def _with_parent(rows: Rows, *, has_parent: bool) -> Rows:
    """The rows with a column of parents if the run has one, whether or not these rows name any."""
    if has_parent == (rows.parent is not None):
        return rows
    return replace(rows, parent=Strings.of([""] * len(rows)) if has_parent else None)


def _exact(rows: Rows) -> Any:
    """The scores, each as exact as its text says it."""
    if rows.near is None or rows.score_text is None:
        return rows.score
    scores, near = rows.score.copy(), np.flatnonzero(rows.near)
    scores[near] = exact_decimals(rows.score_text.take(near))[0]
    return scores


def _arrow(column: Strings) -> Any:
    """A column of texts as Arrow has it."""
    import pyarrow as pa

    return pa.array(column.texts(), pa.string())


def _compact(rows: Rows) -> Rows:
    """The same rows without the text of others."""
    texts = [None if c is None else _own(c) for c in (rows.query, rows.doc, rows.score_text, rows.parent)]
    assert texts[0] is not None and texts[1] is not None
    return replace(rows, query=texts[0], doc=texts[1], score_text=texts[2], parent=texts[3])


def _own(column: Strings) -> Strings:
    parts = column.bytes()
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64) + PAD
    return Strings(padded(b"".join(parts)), ends - np.array([len(part) for part in parts]), ends)
