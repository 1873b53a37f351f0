"""Align blocks of text, rows and dicts in the compiled kernel; what it hands back is numpy's to align."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from karat.align.columns import BlockHits
from karat.errors import InputError
from karat.model import kernel
from karat.model.limits import ID
from karat.model.run import Rows
from karat.model.strings import PAD, Strings
from karat.read.textfile import Block, TextFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.run import ScoredLists, StreamedFile
    from karat.read.arrow import ArrowBlock
    from karat.read.layout import Layout

if kernel.problem:
    raise InputError(kernel.problem)

_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
_scratch = threading.local()


class _Layout(ctypes.Structure):
    _fields_ = tuple((name, _NUMBER) for name in ("width", "query", "doc", "value", "longest_id", "narrow"))


class _Ids(ctypes.Structure):
    _fields_ = (("text", _POINTER), ("start", _POINTER), ("end", _POINTER), ("count", _NUMBER), ("hash", _POINTER))


class _Gold(ctypes.Structure):
    _fields_ = (
        *(("queries", _Ids), ("docs", _Ids), ("offsets", _POINTER)),
        *(("slots", _POINTER), ("slot_mask", _NUMBER), ("pairs", _POINTER), ("pair_mask", _NUMBER)),
        ("salt", ctypes.c_uint64),
    )


class _Columns(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("query", "start", "end", "gold", "without_start", "without_end")),
        *(("key", _POINTER), ("score", _POINTER), ("count", _NUMBER), ("without", _NUMBER)),
    )


class _Counts(ctypes.Structure):
    _fields_ = (
        *(("offsets", _POINTER), ("score", _POINTER), ("docs", _Ids)),
        *((name, _POINTER) for name in ("slots", "tied", "returned", "lowest", "highest")),
    )


class _Result(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("query", "returned", "gold", "rank", "without_start", "without_end")),
        *((name, _NUMBER) for name in ("queries", "hits", "without", "ascending", "level", "high")),
    )


class _Slice(ctypes.Structure):
    _fields_ = (
        *((name, _POINTER) for name in ("query", "doc", "value")),
        *((name, _NUMBER) for name in ("query_kind", "doc_kind", "value_kind", "start", "end")),
    )


def text_kernel(
    qrels: Qrels, file: StreamedFile, policy: Policy, *, at_doc: bool, keep_items: int
) -> TextKernel | None:
    """The kernel for a file, if there is one, and if this is what it can do."""
    if kernel.text is None or at_doc or keep_items or policy.selects:
        return None
    return TextKernel(kernel.text, qrels, policy, _plain_layout(file))


def disorder_kernel(qrels: Qrels, file: StreamedFile, policy: Policy, salt: np.uint64) -> TextKernel | None:
    """The kernel for a file in any order, if there is one, and if it can cut the file."""
    layout = _plain_layout(file)
    return None if kernel.text is None or layout is None else TextKernel(kernel.text, qrels, policy, layout, salt)


def _plain_layout(file: StreamedFile) -> Layout | None:
    """The layout of a file that the kernel can cut."""
    return file.layout if isinstance(file, TextFile) and file.layout.delimiter is None else None


class NumberedRows(NamedTuple):
    """Rows of a block in any order, of queries of the gold: the number of each query, the key, its judgment or −1.

    `without_gold` are the queries that the gold lacks.
    """

    rows: Rows
    query: NDArray[np.int64]
    keys: NDArray[np.uint64]
    gold: NDArray[np.int64]
    without_gold: tuple[bytes, ...]


def _is_arrow(block: object) -> bool:
    from karat.read.arrow import ArrowBlock  # not for text, which needs nothing of it

    return isinstance(block, ArrowBlock)


class TextKernel:
    """The gold and the policy of one alignment, as the kernel sees them; the layout, if it can cut the text itself.

    With the `salt` of keys, it reads rows in any order.
    """

    def __init__(
        self, library: ctypes.CDLL, qrels: Qrels, policy: Policy, layout: Layout | None, salt: np.uint64 | None = None
    ) -> None:
        self._library = library
        self._kept: list[Any] = []
        self._cuts = layout is not None
        columns = (layout.width, layout.query, layout.doc, layout.value) if layout is not None else (0, 0, 0, 0)
        self._layout = _Layout(*columns, ID.value, policy.score_precision == "float32")
        slots, pairs = (1 << (2 * count + 1).bit_length() for count in (len(qrels), len(qrels.docs)))
        self._gold = _Gold(
            self._ids(Strings.of(qrels.query_ids)),
            self._ids(Strings.of(qrels.docs)),
            self._keep(np.ascontiguousarray(qrels.offsets, dtype=np.int64)),
            self._keep(np.zeros(slots, dtype=np.int32)),
            slots - 1,
            self._keep(np.zeros(pairs, dtype=np.int32)) if salt is not None else None,
            pairs - 1,
            int(salt or 0),
        )
        library.index_gold(ctypes.byref(self._gold))

    def _keep(self, array: np.ndarray[Any, Any]) -> int:
        """The address of an array, which lives as long as this object."""
        self._kept.append(array)
        return array.ctypes.data

    def _ids(self, ids: Strings) -> _Ids:
        hashes = np.empty(len(ids), dtype=np.uint64)
        return _Ids(*(self._keep(a) for a in (ids.buffer, ids.start, ids.end)), len(ids), self._keep(hashes))

    def align(self, block: Any, mark: bytes = b"", marks: list[bool] | None = None) -> BlockHits | None:
        """The hits of a block of whole queries; None if it is for numpy to cut or to align.

        Where `marks` is empty, it gets an entry if the block holds the mark.
        """
        hits: BlockHits | None = None
        marked: bool | None = None
        if isinstance(block, Block):
            hits = self._align_text(block) if self._cuts else None
        elif _is_arrow(block):
            hits, marked = self._align_arrow(block, mark[0] if len(mark) == 1 else -1)
        if marks is not None and mark and not marks and (block.holds(mark) if marked is None else marked):
            marks.append(True)
        return hits

    def _align_text(self, block: Block) -> BlockHits | None:
        text = np.frombuffer(block.buffer, dtype=np.uint8)
        room = _Room((block.end - PAD) // (2 * self._layout.width) + 1)
        handed_back = self._library.align_block(
            _POINTER(text.ctypes.data),
            _NUMBER(len(text)),
            _NUMBER(PAD),
            _NUMBER(block.end),
            ctypes.byref(self._layout),
            ctypes.byref(self._gold),
            ctypes.byref(room.result),
        )
        view = memoryview(block.buffer)
        if handed_back or (room.result.high and not _is_utf8(view[PAD : block.end])):
            return None
        return room.hits(lambda start, end: bytes(view[start:end]))

    def _align_arrow(self, block: ArrowBlock, mark: int) -> tuple[BlockHits | None, bool | None]:
        """The hits, and whether an id of a doc holds the mark, where that is known."""
        slices = (_Slice * len(block.slices))()
        for i, (batch, start, end) in enumerate(block.slices):
            columns = (batch.query.column, batch.doc.column, batch.value)
            kinds = (ord(column.schema.format[0]) for column in columns)
            slices[i] = _Slice(*(column._addr() for column in columns), *kinds, start, end)
        room, marked = _Room(len(block) + 1), _NUMBER()
        handed_back = self._library.align_arrow(
            slices,
            _NUMBER(len(slices)),
            _NUMBER(mark),
            ctypes.byref(self._layout),
            ctypes.byref(self._gold),
            ctypes.byref(room.result),
            ctypes.byref(marked),
        )
        if handed_back:
            return None, None
        return room.hits(lambda row, _: block.query(row)), bool(marked) if mark >= 0 else None

    def number(self, block: Any, *, keys: bool) -> NumberedRows | None:
        """The rows of a block in any order; None if it is for numpy to cut. Without `keys` there are no judgments.

        A thread's rows are gone when it asks for the next ones; their keys are not.
        """
        text: NDArray[np.uint8] = np.frombuffer(block.buffer, dtype=np.uint8)
        most = (block.end - PAD) // (2 * self._layout.width) + 1
        room = getattr(_scratch, "room", None)
        if room is None or room.shape[1] < most:
            room = _scratch.room = np.empty((8, most), dtype=np.int64)
        columns, high = _Columns(*(column.ctypes.data for column in room)), _NUMBER()
        if not keys:
            columns.key = None
        handed_back = self._library.read_block(
            _POINTER(text.ctypes.data),
            _NUMBER(len(text)),
            _NUMBER(PAD),
            _NUMBER(block.end),
            ctypes.byref(self._layout),
            ctypes.byref(self._gold),
            ctypes.byref(columns),
            ctypes.byref(high),
        )
        view = memoryview(block.buffer)
        if handed_back or (high and not _is_utf8(view[PAD : block.end])):
            return None
        query, start, end, gold = room[:4, : columns.count]
        names = (bytes(view[a:b]) for a, b in zip(*room[4:6, : columns.without].tolist(), strict=True))
        score, doc = room[7, : columns.count].view(np.float64), Strings(text, start, end)
        own = room[6, : columns.count if keys else 0].view(np.uint64).copy()
        return NumberedRows(Rows(doc, doc, score), query, own, gold, tuple(dict.fromkeys(names)))

    def align_rows(self, rows: Rows) -> BlockHits | None:
        """The hits of rows of whole queries; None if they are for numpy to align."""
        if rows.near is not None:
            return None
        columns = [np.ascontiguousarray(a) for ids in (rows.query, rows.doc) for a in (ids.buffer, ids.start, ids.end)]
        queries, docs = (_Ids(*(a.ctypes.data for a in columns[i : i + 3]), len(rows), None) for i in (0, 3))
        scores = np.ascontiguousarray(rows.score, dtype=np.float64)
        room = _Room(len(rows) + 1)
        handed_back = self._library.align_rows(
            ctypes.byref(queries),
            ctypes.byref(docs),
            _POINTER(scores.ctypes.data),
            ctypes.byref(self._layout),
            ctypes.byref(self._gold),
            ctypes.byref(room.result),
        )
        return None if handed_back else room.hits(lambda start, end: columns[0][start:end].tobytes())


def pick_keys(parts: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64] | None:
    """All keys that occur more than once, and a few others; None if there is no kernel."""
    if kernel.text is None:
        return None
    bits = max(10, sum(map(len, parts)).bit_length() + 4)
    once, twice = np.zeros((2, 1 << (bits - 3)), dtype=np.uint8)
    addresses = [_POINTER(array.ctypes.data) for array in (once, twice)]
    for part in parts:
        kernel.text.mark_keys(_POINTER(part.ctypes.data), _NUMBER(len(part)), _NUMBER(bits), *addresses)
    picked = []
    for part in parts:
        room = np.empty(len(part) + 1, dtype=np.uint64)
        arguments = (_NUMBER(len(part)), _NUMBER(bits), addresses[1], _POINTER(room.ctypes.data))
        picked.append(room[: kernel.text.pick_keys(_POINTER(part.ctypes.data), *arguments)].copy())
    return np.concatenate(picked) if picked else np.zeros(0, dtype=np.uint64)


class Tally(NamedTuple):
    """What is counted of rows: see `karat.align.disorder`."""

    slots: NDArray[np.int64]
    tied: NDArray[np.int64]
    returned: NDArray[np.int64]
    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]


def count_rows(
    judged: tuple[NDArray[np.int64], NDArray[np.float64], Strings],
    tally: Tally,
    query: NDArray[np.int64],
    score: NDArray[np.float64],
    doc: Strings,
) -> bool:
    """Count rows among the judged ones (the bounds of each query, scores, docs); False if there is no kernel."""
    if kernel.text is None:
        return False
    offsets, scores, docs = judged
    kept: list[np.ndarray[Any, Any]] = []

    def place(array: np.ndarray[Any, Any], kind: Any) -> int:
        kept.append(np.ascontiguousarray(array, dtype=kind))
        return kept[-1].ctypes.data

    def ids(column: Strings) -> _Ids:
        bounds = (place(column.start, np.int64), place(column.end, np.int64))
        return _Ids(column.buffer.ctypes.data, *bounds, len(column), None)

    counts = _Counts(
        place(offsets, np.int64), place(scores, np.float64), ids(docs), *(array.ctypes.data for array in tally)
    )
    kernel.text.count_rows(
        _NUMBER(len(query)),
        _POINTER(place(query, np.int64)),
        _POINTER(place(score, np.float64)),
        ctypes.byref(ids(doc)),
        ctypes.byref(counts),
    )
    return True


class _Room:
    """Where the kernel writes what a block holds."""

    def __init__(self, rows: int) -> None:
        self._columns = np.empty((6, rows), dtype=np.int64)
        self.result = _Result(*(column.ctypes.data for column in self._columns))

    def hits(self, name: Callable[[int, int], bytes]) -> BlockHits | None:
        """The hits; None where a query without gold appears twice. `name` says what id of a query is where."""
        columns, result = self._columns, self.result
        bounds = columns[4:, : result.without].tolist()
        without = tuple(map(name, *bounds))
        if len(set(without)) < len(without):
            return None
        none = np.zeros(0, dtype=np.int64)
        queries, returned = columns[:2, : result.queries].copy()
        gold, rank = columns[2:4, : result.hits].copy()
        return BlockHits(
            queries=queries,
            returned=returned,
            gold=gold,
            rank=rank,
            later_gold=none,
            later_rank=none,
            without_gold=without,
            duplicates=0,
            ascending=result.ascending,
            level=result.level,
            repeats=[],
            items={},
            extent=None,
        )


def _is_utf8(data: memoryview) -> bool:
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


class JudgedDocs(NamedTuple):
    """Judged docs at their ranks, the docs returned for each query of the gold, and the lists with but one score."""

    gold: NDArray[np.int64]
    rank: NDArray[np.int64]
    returned: NDArray[np.int64]
    level: int


def align_dicts(qrels: Qrels, run: ScoredLists, policy: Policy) -> JudgedDocs | None:
    """What is in scored lists, if there is a kernel for dicts and it finds nothing but plain dicts and numbers."""
    if kernel.dicts is None:
        return None
    returned = np.empty(len(qrels), dtype=np.int64)
    gold, rank = np.empty((2, len(qrels.docs)), dtype=np.int64)
    narrow = policy.score_precision == "float32"
    counts = kernel.dicts.align(run.lists, qrels.query_ids, qrels.docs, qrels.offsets, narrow, returned, gold, rank)
    if counts is None:
        return None
    hits, level = counts
    return JudgedDocs(gold[:hits], rank[:hits], returned, level)
