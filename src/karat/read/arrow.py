"""Arrow batches → columns: buffers as strings and numbers, and blocks of whole queries cut from a stream of batches."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from karat.model.run import Rows
from karat.model.strings import PAD, Strings
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

BLOCK = 30_000
"""Rows of a block: large enough to amortise Python, small enough to stay in the cache."""


class Columns(NamedTuple):
    """The numbers of the columns that hold what."""

    query: int
    doc: int
    value: int
    parent: int | None = None


class TextColumn:
    """A column of texts, by its buffers."""

    def __init__(self, column: Any) -> None:
        self.column = column
        self._places = _places(column)
        size = int(self._places[len(column)])
        self._data = _at(column.buffers[2] if size else 0, np.uint8, size)

    def text(self, start: int, end: int) -> bytes:
        """The texts of these rows, one after the other."""
        return self._data[self._places[start] : self._places[end]].tobytes()

    def holds(self, mark: bytes, start: int, end: int) -> bool:
        """Whether the mark stands in these rows."""
        return mark in self.text(start, end)

    def buffers(self, start: int, end: int) -> tuple[list[object], int]:
        """Copies of what holds these rows, and how many of them are null."""
        there = _valid(self.column, start, end)
        places = self._places[start : end + 1]
        bits, nulls = None, 0
        if there is not None:
            bits, nulls = np.packbits(there, bitorder="little"), len(there) - int(there.sum())
        return [bits, places - places[0], self.text(start, end)], nulls

    def strings(self, start: int, end: int) -> Strings:
        """The texts of these rows; null becomes empty."""
        places = self._places[start : end + 1].astype(np.int64)
        there = _valid(self.column, start, end)
        ends = places[1:] if there is None else np.where(there, places[1:], places[:-1])
        low, high = (int(places[0]), int(places[-1])) if len(places) else (0, 0)
        buffer: NDArray[np.uint8] = np.zeros(high - low + 2 * PAD, dtype=np.uint8)
        buffer[PAD : PAD + high - low] = self._data[low:high]
        return Strings(buffer, places[:-1] - low + PAD, ends - low + PAD)


class ViewColumn:
    """A column of texts, each of which is short and stands in its view, or is part of another buffer.

    A view has 16 bytes: the length, then the text; or its first bytes, the number of its buffer, and its place there.
    """

    def __init__(self, column: Any) -> None:
        self.column = column
        self._views = _at(column.buffers[1], np.int32, 4 * (column.offset + len(column))).reshape(-1, 4)[
            column.offset :
        ]

    def text(self, start: int, end: int) -> bytes:
        """The texts of these rows, one after the other."""
        there = _valid(self.column, start, end)
        out = []
        for i, view in enumerate(self._views[start:end]):
            length, _, number, place = view.tolist() if there is None or there[i] else (0, 0, 0, 0)
            if length <= INSIDE:
                out.append(view.tobytes()[4 : 4 + length])
            else:
                out.append(self._other(number, place + length)[place:].tobytes())
        return b"".join(out)

    def holds(self, mark: bytes, start: int, end: int) -> bool:
        """Whether the mark stands in these rows; of two looks, the quick one sees what stands between texts too."""
        return mark in self.strings(start, end).buffer.tobytes() and mark in self.text(start, end)

    def strings(self, start: int, end: int) -> Strings:
        """The texts of these rows; null becomes empty."""
        views = self._views[start:end]
        lengths = views[:, 0].astype(np.int64)
        there = _valid(self.column, start, end)
        if there is not None:
            lengths[~there] = 0
        long = np.flatnonzero(lengths > INSIDE)
        place = PAD + INSIDE * len(views)
        buffer: NDArray[np.uint8] = np.zeros(place + int(lengths[long].sum()) + PAD, dtype=np.uint8)
        inside = buffer[PAD:place].view(np.int32).reshape(-1, len(_FILLING))
        fills = np.where(lengths > INSIDE, 0, lengths) if len(long) else lengths
        for i, filling in enumerate(_FILLING):
            np.bitwise_or(views[:, 1 + i], filling[fills], out=inside[:, i])
        starts = np.arange(PAD, place, INSIDE)
        for number in np.unique(views[long, 2]).tolist() if len(long) else ():
            rows = long[views[long, 2] == number]
            places, ends = views[rows, 3].astype(np.int64), np.cumsum(lengths[rows])
            starts[rows] = place + ends - lengths[rows]
            bytes_ = np.arange(ends[-1]) + np.repeat(places - ends + lengths[rows], lengths[rows])
            buffer[place : place + ends[-1]] = self._other(number, int((places + lengths[rows]).max()))[bytes_]
            place += int(ends[-1])
        return Strings(buffer, starts, starts + lengths)

    def _other(self, number: int, size: int) -> NDArray[np.uint8]:
        """The first bytes of a buffer that texts are parts of."""
        return _at(self.column.buffers[2 + number], np.uint8, size)


INSIDE = 12
"""The longest text that stands in its view."""
_FILLING = np.array([[32 * (i >= length) for i in range(INSIDE)] for length in range(INSIDE + 1)], dtype=np.uint8)
_FILLING = np.ascontiguousarray(_FILLING.view(np.int32).T)
"""By the part of a view and the length of its text: what makes the bytes after the text something else than NUL, which
no id may hold."""


def _text_column(column: Any) -> TextColumn | ViewColumn:
    return ViewColumn(column) if column.schema.format == "vu" else TextColumn(column)


class _Batch:
    """A batch, by the columns that matter."""

    def __init__(self, batch: Any, columns: Columns) -> None:
        self.first, self.size = batch.offset, len(batch)
        self.query, self.doc = (_text_column(batch.child(number)) for number in (columns.query, columns.doc))
        self.parent = _text_column(batch.child(columns.parent)) if columns.parent is not None else None
        self.value = batch.child(columns.value)


class _Slice(NamedTuple):
    """Some rows of a batch."""

    batch: _Batch
    start: int
    end: int

    def rows(self) -> Rows:
        batch, *bounds = self
        parent = batch.parent.strings(*bounds) if batch.parent is not None else None
        ids = batch.query.strings(*bounds), batch.doc.strings(*bounds)
        return Rows(*ids, _numbers(batch.value, *bounds), parent=parent)

    def last_query(self) -> bytes:
        return self.batch.query.text(self.end - 1, self.end)


@dataclass(frozen=True, slots=True)
class ArrowBlock:
    """Whole queries: slices of one batch, or of several that follow each other."""

    slices: tuple[_Slice, ...]
    buffers: tuple[bytearray, ...] = ()

    def __len__(self) -> int:
        return sum(one.end - one.start for one in self.slices)

    def query(self, row: int) -> bytes:
        """The query of one of its rows."""
        for batch, start, end in self.slices:
            if row < end - start:
                return batch.query.text(start + row, start + row + 1)
            row -= end - start
        raise IndexError(row)

    def holds(self, mark: bytes) -> bool:
        """Whether the mark stands in an id of a doc."""
        return any(batch.doc.holds(mark, start, end) for batch, start, end in self.slices)

    def parts(self) -> list[Rows]:
        """The rows of each slice."""
        return [one.rows() for one in self.slices]


def column_types(frame: Any) -> list[tuple[str, str]]:
    """The name and the type of each column of something that speaks Arrow; types as Arrow's C interface names them."""
    import nanoarrow

    with nanoarrow.c_array_stream(frame.head(0) if _package(frame) in ("pandas", "polars") else frame) as stream:
        schema = stream.get_schema()
        return [(child.name or "", child.format) for child in schema.children]


def read_batches(frame: object) -> Iterator[Any]:
    """The batches of something that speaks Arrow, as they are."""
    import nanoarrow

    for piece in _pieces(frame):
        with nanoarrow.c_array_stream(piece) as stream:
            yield from stream


def _pieces(frame: Any) -> Iterator[Any]:
    """A frame of polars by the pieces that it has in memory: as a whole it would be copied into one; others as is."""
    if _package(frame) != "polars":
        yield frame
        return
    start = size = 0
    for length in max((column.chunk_lengths() for column in frame.iter_columns()), key=len, default=[]):
        size += length
        if size >= BLOCK:
            yield frame.slice(start, size)
            start, size = start + size, 0
    if size:
        yield frame.slice(start, size)


def _package(frame: object) -> str:
    return type(frame).__module__.partition(".")[0]


def small_copies(batches: Iterator[Any], size: int = BLOCK) -> Iterator[Any]:
    """Batches of texts and 64-bit floats, large ones as copies of some rows each: nobody holds on to one that way."""
    import nanoarrow

    for batch in batches:
        if len(batch) <= size:
            yield batch
            continue
        columns = [batch.child(number) for number in range(batch.n_children)]
        end = batch.offset + len(batch)
        for start in range(batch.offset, end, size):
            rows = (start, min(start + size, end))
            copies = [_copy(column, *rows) for column in columns]
            yield nanoarrow.c_array_from_buffers(batch.schema, rows[1] - start, [None], 0, children=copies)
        del batch, columns  # before the next one is made


def _copy(column: Any, start: int, end: int) -> Any:
    """These rows of a column of texts or 64-bit floats; a null among numbers becomes NaN."""
    import nanoarrow

    if column.schema.format == "g":
        return nanoarrow.c_array_from_buffers(column.schema, end - start, [None, _numbers(column, start, end)], 0)
    return nanoarrow.c_array_from_buffers(column.schema, end - start, *TextColumn(column).buffers(start, end))


def cut_blocks(batches: Iterable[Any], columns: Columns, size: int = 0) -> Iterator[ArrowBlock]:
    """Blocks of about `size` rows; of whole queries, where the rows of each query stand together."""
    rest: list[_Slice] = []  # the last query so far, which may go on
    for batch in (_Batch(each, columns) for each in batches if len(each)):
        for start in range(batch.first, batch.first + batch.size, size or BLOCK):
            piece = _Slice(batch, start, min(start + (size or BLOCK), batch.first + batch.size))
            cut = _last_start(piece)
            if cut == start and (not rest or rest[-1].last_query() == piece.last_query()):
                rest = _joined(rest, piece)  # a query that is longer than a piece
                continue
            yield ArrowBlock(tuple(_joined(rest, piece._replace(end=cut))))
            rest = [piece._replace(start=cut)]
    if rest:
        yield ArrowBlock(tuple(rest))


def _joined(slices: list[_Slice], more: _Slice) -> list[_Slice]:
    if more.start == more.end:
        return slices
    if slices and slices[-1].batch is more.batch:
        return [*slices[:-1], slices[-1]._replace(end=more.end)]
    return [*slices, more]


def _last_start(piece: _Slice) -> int:
    """Where the query of the last row begins, by bisection."""
    low, high = piece.start, piece.end - 1
    last, query = piece.last_query(), piece.batch.query
    while low < high:
        middle = (low + high) // 2
        if query.text(middle, middle + 1) == last:
            high = middle
        else:
            low = middle + 1
    return high


def _at(address: int, kind: Any, count: int) -> NDArray[Any]:
    """Numbers that stand at an address; whoever asks keeps them there."""
    size = np.dtype(kind).itemsize * count
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)) if size else b"", dtype=kind)


def _places(column: Any) -> NDArray[np.int32 | np.int64]:
    """Where each entry of a column of texts or lists begins, and where the last one ends."""
    kind = "i8" if column.schema.format in ("U", "+L") else "i4"
    if not column.buffers[1]:
        return np.zeros(len(column) + 1, dtype=kind)
    return _at(column.buffers[1], kind, column.offset + len(column) + 1)[column.offset :]


def _valid(column: Any, start: int, end: int) -> NDArray[np.bool_] | None:
    """Which entries of these rows are not null; None where none can be."""
    if column.null_count == 0 or not column.buffers[0]:
        return None
    first, last = column.offset + start, column.offset + end
    some = np.unpackbits(_at(column.buffers[0], np.uint8, -(-last // 8))[first // 8 :], bitorder="little")
    return some[first % 8 : first % 8 + end - start].astype(bool)


def _numbers(column: Any, start: int, end: int) -> NDArray[np.float64]:
    """These rows as float64; null becomes NaN."""
    kind = np.float32 if column.schema.format == "f" else np.float64
    first, last = column.offset + start, column.offset + end
    values = _at(column.buffers[1], kind, last)[first:].astype(np.float64)
    there = _valid(column, start, end)
    return values if there is None else np.where(there, values, np.nan)


def texts_of(column: Any) -> list[str]:
    """A column of texts."""
    return TextColumn(column).strings(0, len(column)).texts()


def lists_of(column: Any, kind: type[np.float32 | np.float64]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """A column of lists of numbers: how long each is (0 for null), and all their numbers; null becomes NaN."""
    places = _places(column)[: len(column) + 1].astype(np.int64)
    sizes = np.diff(places)
    there = _valid(column, 0, len(column))
    if there is not None:
        sizes = np.where(there, sizes, 0)
    (inner,) = column.children
    values = _at(inner.buffers[1], kind, inner.offset + len(inner))[inner.offset :].copy()
    filled = _valid(inner, 0, len(inner))
    if filled is not None:
        values[~filled] = np.nan
    mask = np.repeat(sizes > 0, np.diff(places))
    return sizes, values[places[0] : places[-1]][mask] if len(places) else values
