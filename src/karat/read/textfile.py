"""Delimited text files, read in blocks of whole queries."""

from __future__ import annotations

import io
import os
from dataclasses import field
from typing import IO, TYPE_CHECKING

import numpy as np

from karat.errors import InputError
from karat.model.decimals import decimals
from karat.model.limits import ID, LINE
from karat.model.run import Rows
from karat.model.strings import PAD, Strings
from karat.read.exact import as_rows, cells_of, read_rows
from karat.read.files import BROKEN_PACKING, BYTE_ORDER_MARK, check_line_sizes, is_packed, open_bytes, unpacking_error
from karat.read.scan import cut_fields
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from numpy.typing import NDArray

    from karat.read.columns import Role
    from karat.read.layout import Layout
    from karat.read.problems import Problems, Row

FRONT = b"x" * PAD
NEWLINE = ord("\n")
BLOCK = 2 << 20
"""Bytes read at a time: large enough to amortise Python, small enough to stay in the cache."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a file: whole lines at `buffer[PAD:end]`."""

    buffer: bytearray
    end: int

    @property
    def buffers(self) -> tuple[bytearray, ...]:
        """The buffers that may be filled again, once nobody looks at the block."""
        return (self.buffer,)

    def holds(self, mark: bytes) -> bool:
        """Whether these bytes stand in it."""
        return mark in self.buffer

    def text(self) -> str:
        """Its lines, as they stand in the file."""
        return self.buffer[PAD : self.end].decode("utf-8", "replace")


class Irregular(Exception):
    """A block that only the exact reader can explain or read."""


@dataclass(frozen=True)
class TextFile:
    """A delimited text file of a run or of gold."""

    path: str
    layout: Layout
    role: Role
    watchers: tuple[Callable[[memoryview], None], ...] = field(default=(), compare=False)
    stdin: bytes | None = field(default=None, compare=False, repr=False)
    batch: int | None = None
    """At most so many queries in a block, where the file is grouped by query."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Which columns are ignored."""
        return tuple(rival.note for rival in self.layout.rivals)

    def blocks(self, size: int | None = None, spare: list[bytearray] | None = None) -> Generator[Block]:
        """Pieces of whole lines; where the file is grouped by query, of whole queries.

        Buffers that the caller is done with and puts among the `spare` ones are filled again.
        """
        size = size or (BLOCK if is_packed(self.path) else min(BLOCK, self.size() + 1))
        rest, first, empty, last = b"", True, True, False
        longest = LINE.value
        with self._open() as file:
            while not last:
                start = PAD + len(rest)
                buffer = _buffer(start + size + 1 + PAD, spare)
                buffer[:PAD], buffer[PAD:start] = FRONT, rest
                count = self._fill(file, memoryview(buffer)[start : start + size])
                last = count < size
                end = start + count
                if end - PAD > longest:
                    check_line_sizes(self.path, buffer, PAD, end, self.stdin)
                if first:
                    begin = self._body(buffer, end)
                    if not begin and not last:
                        rest, size = bytes(memoryview(buffer)[PAD:end]), size * 2
                        continue  # the header is longer than this piece
                    if begin != PAD:
                        buffer = bytearray(FRONT) + memoryview(buffer)[begin or end : end] + bytes(1 + PAD)
                        end -= (begin or end) - PAD
                    first = False
                if last and end > PAD and buffer[end - 1] != NEWLINE:
                    buffer[end] = NEWLINE
                    end += 1
                cut = end if last else self._last_query_start(buffer, end)
                if cut == PAD:
                    size *= 2  # a query, or a line, that is longer than this piece: what it holds is copied seldom
                rest = bytes(memoryview(buffer)[cut:end])
                if buffer[PAD:cut].strip() if last else cut > PAD:
                    empty = False
                    yield from self._batches(Block(buffer, cut))
        if empty:
            raise Irregular  # nothing but a header

    def _open(self) -> IO[bytes]:
        return open_bytes(self.path) if self.stdin is None else io.BytesIO(self.stdin)

    def _fill(self, file: IO[bytes], space: memoryview) -> int:
        """Fill the space from the file as far as it goes; the watchers see what was read."""
        count = 0
        try:
            while count < len(space) and (more := file.readinto(space[count:])):  # type: ignore[attr-defined]
                count += more
        except BROKEN_PACKING as error:
            raise unpacking_error(self.path, error) from None
        for watch in self.watchers:
            watch(space[:count])
        return count

    def _body(self, buffer: bytearray, end: int) -> int:
        """Where the rows begin, after a byte-order mark and the header; 0 if the header does not end here."""
        place = PAD + (3 if buffer.startswith(BYTE_ORDER_MARK, PAD) else 0)
        while self.layout.header:
            after = buffer.find(b"\n", place, end) + 1
            if not after:
                return 0
            line = buffer[place:after].strip()
            place = after
            if line and not line.startswith(b"#"):
                break
        return place

    def _last_query_start(self, buffer: bytearray, end: int) -> int:
        """The end of the last whole query: a bisection for where the last line's query begins."""
        end = buffer.rfind(b"\n", PAD, end) + 1
        if end == 0:
            return PAD
        last = buffer.rfind(b"\n", PAD, end - 1) + 1 or PAD
        query = self._query_at(buffer, last, end)
        low, high = PAD, last  # the line at `high` has the query; search the first one that does
        while low < high:
            middle = (low + high) // 2
            line = buffer.rfind(b"\n", PAD, middle) + 1 or PAD
            after = buffer.find(b"\n", line, end) + 1
            if self._query_at(buffer, line, after) == query:
                high = line
            else:
                low = after
        return high

    def _batches(self, block: Block) -> Iterator[Block]:
        """The block, or pieces of it with at most `batch` queries."""
        if self.batch is None:
            yield block
            return
        start = PAD
        while start < block.end:
            after = start
            for _ in range(self.batch):
                after = self._next_query(block.buffer, after, block.end)
                if after == block.end:
                    break
            piece = bytearray(FRONT) + memoryview(block.buffer)[start:after] + bytes(1 + PAD)
            yield Block(piece, PAD + after - start)
            start = after

    def _next_query(self, buffer: bytearray, line: int, end: int) -> int:
        """Where the next query begins: steps that double until another query is met, then a bisection."""
        low = buffer.find(b"\n", line, end) + 1
        query, high, step = self._query_at(buffer, line, low), end, low - line
        while low < end:
            probe = buffer.rfind(b"\n", line, min(low + step, end - 1)) + 1
            if probe <= low:
                probe = low
            after = buffer.find(b"\n", probe, end) + 1
            if self._query_at(buffer, probe, after) != query:
                high = probe
                break
            low, step = after, step * 2
        while low < high:
            middle = buffer.rfind(b"\n", line, (low + high) // 2) + 1
            middle = max(middle, low)
            after = buffer.find(b"\n", middle, end) + 1
            if self._query_at(buffer, middle, after) == query:
                low = after
            else:
                high = middle
        return high

    def _query_at(self, buffer: bytearray, line: int, end: int) -> bytes:
        cells = bytes(buffer[line:end]).split(
            self.layout.delimiter.encode() if self.layout.delimiter else None, self.layout.query + 1
        )
        return cells[self.layout.query].strip() if len(cells) > self.layout.query else b""

    def rows(self, block: Block) -> Rows:
        """The rows of one block; `Irregular` where the fast reader cannot read it."""
        buffer: NDArray[np.uint8] = np.frombuffer(block.buffer, dtype=np.uint8)
        layout = self.layout
        columns = tuple(c for c in (layout.query, layout.doc, layout.value, layout.parent) if c is not None)
        parts = cut_fields(buffer, PAD, block.end, layout, columns)
        if parts is None or self._has_long_id(parts):
            return self._exactly(block)
        numbers = decimals(parts[layout.value])
        if len(numbers.bad):
            return self._exactly(block)
        return Rows(
            parts[layout.query],
            parts[layout.doc],
            numbers.values,
            numbers.near,
            parts[layout.value] if numbers.near is not None else None,
            parts[layout.parent] if layout.parent is not None else None,
        )

    def _has_long_id(self, parts: Mapping[int, Strings]) -> bool:
        """Whether an id is longer than ids may be; the exact reader names its line."""
        ids = (self.layout.query, self.layout.doc, self.layout.parent)
        return any(parts[c].longest() > ID.value for c in ids if c is not None)

    def _exactly(self, block: Block) -> Rows:
        data = bytes(block.buffer[PAD : block.end])
        if self.layout.delimiter is not None and b'"' in data:
            raise Irregular  # a quoted field may reach beyond this block
        try:
            rows = read_rows(data, self.layout, self.role, self.path)
        except InputError:
            raise Irregular from None
        if not rows:
            raise Irregular  # blank lines and comments may be all there is
        return as_rows(rows)

    def size(self) -> int:
        """Bytes on disk, or in memory for standard input."""
        return len(self.stdin) if self.stdin is not None else os.path.getsize(self.path)

    def exactly(self) -> Rows:
        """All rows, line by line; errors name their lines."""
        return as_rows(self.exact_rows())

    def everything(self) -> Rows:
        """All rows, by the fast reader where it can, else line by line; errors name their lines."""
        try:
            parts = [self.rows(b) for b in self.blocks()]
        except Irregular:
            return self.exactly()
        return parts[0] if len(parts) == 1 else join_rows(parts)

    def exact_rows(self, problems: Problems | None = None) -> list[Row]:
        """All rows with their line numbers, or the errors that the file has; noted problems stop nothing."""
        data, line = self._rest()
        return read_rows(data, self.layout, self.role, self.path, line, problems)

    def exact_cells(self, problems: Problems) -> Iterator[tuple[int, list[str]]]:
        """All cells of each row, with its line number."""
        data, line = self._rest()
        return cells_of(data, self.layout, problems, line)

    def _rest(self) -> tuple[bytes, int]:
        """Everything after the header, and the number of its first line."""
        with self._open() as file:
            data = bytearray(FRONT)
            piece = bytearray(1 << 24)
            while count := self._fill(file, memoryview(piece)):
                data += memoryview(piece)[:count]
        check_line_sizes(self.path, data, PAD, len(data), self.stdin)
        begin = self._body(data, len(data)) or len(data)
        return bytes(memoryview(data)[begin:]), 1 + data.count(b"\n", PAD, begin)


def _buffer(size: int, spare: list[bytearray] | None) -> bytearray:
    """A buffer of at least this size: a spare one, or a new one."""
    while spare:
        if len(buffer := spare.pop()) >= size:
            return buffer
    return bytearray(size if spare is None else size + size // 8)  # the rest of a query may be longer next time


def join_strings(columns: list[Strings]) -> Strings:
    """Several pieces of one column as one."""
    sizes = np.cumsum([0] + [len(c.buffer) for c in columns])[:-1]
    shift = [np.int64(s) for s in sizes]
    return Strings(
        np.concatenate([c.buffer for c in columns]),
        np.concatenate([c.start + s for c, s in zip(columns, shift, strict=True)]),
        np.concatenate([c.end + s for c, s in zip(columns, shift, strict=True)]),
    )


def join_rows(parts: list[Rows]) -> Rows:
    """Several pieces of one table as one."""
    if not parts:
        return as_rows([])

    near = any(p.near is not None for p in parts)
    return Rows(
        join_strings([p.query for p in parts]),
        join_strings([p.doc for p in parts]),
        np.concatenate([p.score for p in parts]),
        np.concatenate([p.near if p.near is not None else np.zeros(len(p), bool) for p in parts]) if near else None,
        join_strings([p.score_text or p.doc for p in parts]) if near else None,
        join_strings([p.parent for p in parts if p.parent is not None]) if parts[0].parent is not None else None,
    )
