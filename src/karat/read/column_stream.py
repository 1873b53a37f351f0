"""The rows of a data frame or a Parquet file, read in blocks of whole queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import MAX_PROBLEMS, InputError, RowProblem
from karat.model.limits import ID
from karat.model.strings import PAD
from karat.read.problems import long_id
from karat.read.textfile import Irregular, join_rows
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from karat.model.run import Rows
    from karat.read.arrow import ArrowBlock, Columns
    from karat.read.columns import Role


@dataclass(frozen=True, eq=False)
class ColumnStream:
    """Rows that come as Arrow batches, as often as they are asked for."""

    path: str
    """The file, or the name of a frame."""
    role: Role
    batches: Callable[[], Iterator[Any]]
    columns: Columns
    bytes: int
    """About what all rows take in memory."""
    notes: tuple[str, ...] = ()
    names_docs: bool = False
    """Whether the ids stand in a column for docs."""

    @property
    def has_parents(self) -> bool:
        """Whether a column names the doc of each chunk, or the subtopic of each judgment."""
        return self.columns.parent is not None

    def size(self) -> int:
        """About the bytes of all rows."""
        return self.bytes

    def blocks(self, size: int | None = None, spare: list[bytearray] | None = None) -> Generator[ArrowBlock]:
        """Blocks of rows; where the table is grouped by query, of whole queries."""
        from karat.read.arrow import cut_blocks

        empty = True
        for block in cut_blocks(self.batches(), self.columns, size or 0):
            empty = False
            yield block
        if empty:
            raise Irregular

    def rows(self, block: ArrowBlock) -> Rows:
        """The rows of one block; `Irregular` where a value is not what it should be."""
        parts = block.parts()
        if not all(map(_is_clean, parts)):
            raise Irregular
        return parts[0] if len(parts) == 1 else join_rows(parts)

    def everything(self) -> Rows:
        """All rows at once; errors name their rows."""
        self.check()
        return join_rows([_joined(block) for block in self.blocks()])

    def first_rows(self) -> Rows:
        """The rows of the first block, whatever they hold; none if there are none."""
        from karat.read.arrow import cut_blocks

        return join_rows([_joined(block) for block in [next(cut_blocks(self.batches(), self.columns), None)] if block])

    def check(self) -> None:
        """Raise what is wrong with the rows, if anything is."""
        from karat.read.arrow import cut_blocks

        problems: list[RowProblem] = []
        row = 1
        for block in cut_blocks(self.batches(), self.columns):
            rows = _joined(block)
            problems += _row_problems(rows, row, self.role, self.path)
            row += len(rows)
            if len(problems) > MAX_PROBLEMS:
                break
        if row == 1:
            raise InputError(f"{self.path}: has no rows, expected at least one")
        if problems:
            raise InputError(problems)


def _is_clean(rows: Rows) -> bool:
    """Whether no row has a problem."""
    if not np.isfinite(rows.score).all():
        return False
    for column in (rows.query, rows.doc):
        lengths = column.end - column.start
        zeros = 0 in column.buffer[PAD:-PAD]
        if zeros or lengths.min(initial=1) < 1 or lengths.max(initial=0) > ID.value:
            return False
    return True


def _joined(block: ArrowBlock) -> Rows:
    parts = block.parts()
    return parts[0] if len(parts) == 1 else join_rows(parts)


def _row_problems(rows: Rows, first: int, role: Role, name: str) -> list[RowProblem]:
    """Ids that are empty or hold NUL, and values that are not finite."""
    what = "grade" if role == "qrels" else "score"
    problems = []
    some = MAX_PROBLEMS + 1
    for i in np.flatnonzero(~np.isfinite(rows.score))[:some].tolist():
        value = "NaN or null" if np.isnan(rows.score[i]) else rows.score[i]
        problems.append(RowProblem(name, first + i, f"{what} must be a finite number, found {value}"))
    if role == "qrels" and rows.parent is not None:
        for i in np.flatnonzero(rows.parent.start >= rows.parent.end)[:some].tolist():
            problems.append(RowProblem(name, first + i, "the subtopic is empty or null, expected a name"))
    for idea, column in (("query", rows.query), ("doc", rows.doc)):
        for i in np.flatnonzero(column.start >= column.end)[:some].tolist():
            problems.append(RowProblem(name, first + i, f"the {idea} id is empty or null, expected an id"))
        for i in np.flatnonzero(column.end - column.start > ID.value)[:some].tolist():
            (text,) = column.take(np.array([i])).texts()
            problems.append(RowProblem(name, first + i, f"the {idea} id {long_id(text)}"))
        zeros = np.flatnonzero(column.buffer == 0)
        holds = np.searchsorted(zeros, column.start) < np.searchsorted(zeros, column.end)
        for i in np.flatnonzero(holds)[:some].tolist():
            problems.append(RowProblem(name, first + i, f"the {idea} id holds a NUL byte, expected text"))
    return problems
