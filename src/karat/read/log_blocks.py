"""The final lists of a large run log, as columns that are aligned block by block, from disk where they are many."""

from __future__ import annotations

import math
import weakref
from dataclasses import field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from karat.errors import InputError
from karat.model.log_names import TOTAL
from karat.model.log_steps import add_times
from karat.model.run import Rows
from karat.model.strings import Packed
from karat.read.textfile import join_rows
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LARGE = 16 << 20
"""Bytes from which a log is read as columns, where its lists and some numbers matter."""
IN_MEMORY = 8 << 20
"""Bytes of columns that stay in memory; more wait in a temporary file."""


class LogBlock(NamedTuple):
    """Whole lists: how long each is, all ids one after the other, and the docs of chunks where these differ.

    Scores and days of versions are those that the log names, where a metric needs them.
    """

    queries: Packed
    sizes: NDArray[np.int64]
    doc: Packed
    parent: Packed | None
    score: Floats | None = None
    version: Floats | None = None
    buffers: tuple[bytearray, ...] = ()

    def holds(self, mark: bytes) -> bool:
        """Whether the mark stands in an id."""
        return mark in self.doc.data


class Spool:
    """Blocks that are written once and read many times: the first ones from memory, all of many from a file."""

    def __init__(self) -> None:
        import tempfile

        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 closed with its owner
        self._places: list[tuple[int, list[int | None]]] = []
        weakref.finalize(self, self._file.close)

    def add(self, block: LogBlock) -> None:
        """Keep a block."""
        texts = (block.queries, block.doc, block.parent)
        numbers = (*(one and one.sizes for one in texts), block.sizes, block.score, block.version)
        columns = [*(one and one.data for one in texts), *(None if one is None else one.tobytes() for one in numbers)]
        self._places.append((self._file.tell(), [None if column is None else len(column) for column in columns]))
        try:
            for column in columns:
                self._file.write(column or b"")
        except OSError as error:
            import tempfile

            raise InputError(
                f"{tempfile.gettempdir()}: no room for what waits there of a run log ({error.strerror}); make room, or "
                "name another folder in the environment variable TMPDIR"
            ) from None

    def __iter__(self) -> Iterator[LogBlock]:
        for place, sizes in self._places:
            self._file.seek(place)
            parts = [None if size is None else self._file.read(size) for size in sizes]
            queries, doc, parent = (_packed(*parts[i : i + 4 : 3]) for i in range(3))
            assert queries is not None and doc is not None and parts[6] is not None
            score, version = (None if part is None else np.frombuffer(part, dtype=np.float64) for part in parts[7:])
            yield LogBlock(queries, np.frombuffer(parts[6], dtype=np.int64), doc, parent, score, version)


def _packed(data: bytes | None, sizes: bytes | None) -> Packed | None:
    return None if data is None or sizes is None else Packed(data, np.frombuffer(sizes, dtype=np.int32))


class AmountColumns:
    """Numbers by name, line after line; NaN where a line has none."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Floats]] = {}
        self._sizes: dict[str, int] = {}
        self._lines = 0

    def add(self, rows: Sequence[Mapping[str, float]]) -> None:
        """The numbers of the next lines; names are in lower case, as metrics have them."""
        for name in dict.fromkeys(chain.from_iterable(rows)):
            column = np.array([row.get(name, math.nan) for row in rows])
            low = name.lower()
            parts, size = self._parts.setdefault(low, []), self._sizes.get(low, 0)
            if size > self._lines:  # another spelling of the name stands on another of these lines
                parts[-1] = np.where(np.isnan(column), parts[-1], column)
            else:
                parts += [np.full(self._lines - size, math.nan), column]
            self._sizes[low] = self._lines + len(rows)
        self._lines += len(rows)

    def by_name(self) -> dict[str, Floats]:
        """A number per line."""
        rest = {name: np.full(self._lines - size, math.nan) for name, size in self._sizes.items()}
        return {name: np.concatenate([*parts, rest[name]]) for name, parts in self._parts.items()}


def columns_by_name(rows: Sequence[Mapping[str, float]]) -> dict[str, Floats]:
    """Numbers of lines by name, as `AmountColumns` has them."""
    columns = AmountColumns()
    columns.add(rows)
    return columns.by_name()


@dataclass(frozen=True, eq=False)
class LogColumns:
    """The final lists of a run log, in their order."""

    path: str
    lists: Spool
    chunked: bool
    """Whether some chunk belongs to a doc with another id."""
    numbers: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict)
    """Latency and cost by name, and which steps ran, a number per query, where a metric needs them."""
    names_parents: bool = True
    """Whether the docs of chunks are those that the log names."""

    def blocks(self, size: int | None = None, spare: list[bytearray] | None = None) -> Generator[LogBlock]:
        """The blocks that hold any result."""
        yield from (block for block in self.lists if len(block.doc.sizes))

    def rows(self, block: LogBlock) -> Rows:
        """The results of a block. Their places are their scores, so that their order stays."""
        group = np.repeat(np.arange(len(block.sizes)), block.sizes)
        places = np.arange(len(group)) - (np.cumsum(block.sizes) - block.sizes)[group]
        doc = block.doc.strings()
        parent = doc if block.parent is None else block.parent.strings()
        return Rows(
            block.queries.strings().take(group),
            doc,
            -places.astype(np.float64),
            parent=parent if self.names_parents else None,
            own_score=np.full(len(group), math.nan) if block.score is None else block.score,
            version=block.version,
        )

    def everything(self) -> Rows:
        """All results at once."""
        return join_rows([self.rows(block) for block in self.blocks()])

    def empty_queries(self) -> Iterator[str]:
        """The queries whose list is empty."""
        for block in self.lists:
            yield from block.queries.strings().take(np.flatnonzero(block.sizes == 0)).texts()

    def amounts(self, kind: str) -> Mapping[str, Floats]:
        """Latency or cost by name, a number per query; `total` is the sum where a line names none (`add_times`)."""
        columns = self.numbers.get(kind, {})
        if kind != "latency" or not columns:
            return columns
        return {**columns, TOTAL: add_times(columns, self.numbers)}

    def places(self, query_ids: Sequence[str]) -> NDArray[np.int64]:
        """The line of each query, −1 for those that the log lacks."""
        lines = chain.from_iterable(block.queries.strings().texts() for block in self.lists)
        place = {query: i for i, query in enumerate(lines)}
        return np.array([place.get(query, -1) for query in query_ids], dtype=np.int64)
