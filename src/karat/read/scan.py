"""A block of delimited text → where its fields lie, for all rows at once: white space, delimiters, line ends.

Regular blocks are cut with a handful of array operations. A block that is in any way irregular
(comments, blank lines, quotes, a wrong number of columns, bytes that are not UTF-8) yields None, and
`karat.read.exact` reads it line by line instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karat.model.strings import Strings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.read.layout import Layout

_TAB, _NEWLINE, _RETURN, _SPACE, _QUOTE, _COMMENT = 9, 10, 13, 32, 34, 35
Fields = dict[int, Strings]


def cut_fields(
    buffer: NDArray[np.uint8], begin: int, end: int, layout: Layout, columns: tuple[int, ...]
) -> Fields | None:
    """These columns of the rows in `buffer[begin:end]`, whose last byte is a newline.

    The bytes before `begin` are letters, so that they neither part fields nor trip a check.
    """
    block = buffer[:end]
    if int(block.max()) >= 128:
        try:
            block.tobytes().decode()
        except UnicodeDecodeError:
            return None
    if layout.delimiter is not None:
        return None if _holds_controls(block) else _delimited(buffer, block, begin, layout, columns)
    fields = _single_spaced(buffer, block, begin, layout, columns)
    if fields is None and not _holds_controls(block):
        fields = _any_space(buffer, block, begin, layout, columns)
    if fields is None or (buffer[fields[layout.query].start] == _COMMENT).any():
        return None
    return fields


def _single_spaced(
    buffer: NDArray[np.uint8], block: NDArray[np.uint8], begin: int, layout: Layout, columns: tuple[int, ...]
) -> Fields | None:
    """One space or tab between fields: every row has as many marks as columns, the last a newline.

    Control bytes are among the marks, so that these are looked through instead of all bytes.
    """
    space = block <= _SPACE
    if space[begin] or (space[1:] & space[:-1]).any():
        return None
    marks = np.flatnonzero(space)
    if len(marks) % layout.width:
        return None
    stops = block.take(marks)
    newlines = stops == _NEWLINE
    if not newlines[layout.width - 1 :: layout.width].all() or np.count_nonzero(newlines) * layout.width != len(marks):
        return None
    if _holds_controls(stops):
        return None
    return _cut_columns(buffer, marks.reshape(-1, layout.width), begin, columns)


def _holds_controls(text: NDArray[np.uint8]) -> bool:
    """Whether there are control bytes, which part no fields."""
    return int(text.min()) < _TAB or bool(((text - np.uint8(14)) < np.uint8(18)).any())


def _cut_columns(buffer: NDArray[np.uint8], table: NDArray[np.int64], begin: int, columns: tuple[int, ...]) -> Fields:
    out = {}
    for c in columns:
        if c:
            start = table[:, c - 1] + 1
        else:
            start = np.empty(len(table), dtype=np.int64)
            start[0] = begin
            np.add(table[:-1, -1], 1, out=start[1:])
        out[c] = Strings(buffer, start, np.ascontiguousarray(table[:, c]))
    return out


def _any_space(
    buffer: NDArray[np.uint8], block: NDArray[np.uint8], begin: int, layout: Layout, columns: tuple[int, ...]
) -> Fields | None:
    """Fields parted by any run of white space, line ends of either kind."""
    space = block <= _SPACE
    space[:begin] = True
    edges = np.flatnonzero(space[1:] != space[:-1]) + 1
    starts, ends = edges[0::2], edges[1::2]
    newlines = np.flatnonzero(block == _NEWLINE)
    rows = len(newlines)
    if len(starts) != rows * layout.width or len(ends) != len(starts):
        return None
    before = np.searchsorted(starts, newlines)
    if (before != np.arange(1, rows + 1) * layout.width).any():
        return None
    starts, ends = starts.reshape(rows, -1), ends.reshape(rows, -1)
    return {c: Strings(buffer, np.ascontiguousarray(starts[:, c]), np.ascontiguousarray(ends[:, c])) for c in columns}


def _delimited(
    buffer: NDArray[np.uint8], block: NDArray[np.uint8], begin: int, layout: Layout, columns: tuple[int, ...]
) -> Fields | None:
    """Fields parted by one character, without quotes."""
    assert layout.delimiter is not None
    if (block == _QUOTE).any():
        return None
    returns = np.flatnonzero(block == _RETURN)
    if len(returns) and (buffer[returns + 1] != _NEWLINE).any():
        return None
    marks = np.flatnonzero((block == ord(layout.delimiter)) | (block == _NEWLINE))
    if len(marks) % layout.width:
        return None
    table = marks.reshape(-1, layout.width)
    if (buffer[table[:, -1]] != _NEWLINE).any() or np.count_nonzero(block == _NEWLINE) != len(table):
        return None
    fields = _cut_columns(buffer, table, begin, columns)
    last = layout.width - 1
    if last in fields:
        column = fields[last]
        end = column.end - ((column.end > column.start) & (buffer[column.end - 1] == _RETURN))
        fields[last] = Strings(buffer, column.start, end)
    for c in columns:
        if c == layout.value:
            continue
        start, end = fields[c].start, fields[c].end
        if (start >= end).any() or (buffer[start] <= _SPACE).any() or (buffer[end - 1] <= _SPACE).any():
            return None
    return fields
