"""The final lists of a large run log, as columns that are aligned block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from karat.model.run import Rows
from karat.model.strings import PAD, Strings, padded
from karat.read.textfile import join_rows
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from numpy.typing import NDArray

LARGE = 16 << 20
"""Bytes from which a log is read as columns, where its lists alone matter."""


class Texts(NamedTuple):
    """A column of texts in little room."""

    data: bytes
    sizes: NDArray[np.int32]

    @staticmethod
    def of(texts: Sequence[str]) -> Texts:
        """The column that holds these texts."""
        joined = "".join(texts)
        data = joined.encode()
        plain = len(data) == len(joined)
        sizes = map(len, texts) if plain else (len(text.encode()) for text in texts)
        return Texts(data, np.fromiter(sizes, dtype=np.int32, count=len(texts)))

    def strings(self) -> Strings:
        """The texts where numpy can look at them."""
        ends = np.cumsum(self.sizes, dtype=np.int64) + PAD
        return Strings(padded(self.data), ends - self.sizes, ends)


class LogBlock(NamedTuple):
    """Whole lists: how long each is, all ids one after the other, and the docs of chunks where these differ."""

    queries: tuple[str, ...]
    sizes: NDArray[np.int64]
    doc: Texts
    parent: Texts | None
    buffers: tuple[bytearray, ...] = ()

    def holds(self, mark: bytes) -> bool:
        """Whether the mark stands in an id."""
        return mark in self.doc.data


@dataclass(frozen=True, eq=False)
class LogColumns:
    """The final lists of a run log, in their order."""

    path: str
    lists: tuple[LogBlock, ...]
    chunked: bool
    """Whether some chunk belongs to a doc with another id."""
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
        query = Strings.of(block.queries).take(group)
        return Rows(query, doc, -places.astype(np.float64), parent=parent if self.names_parents else None)

    def everything(self) -> Rows:
        """All results at once."""
        return join_rows([self.rows(block) for block in self.blocks()])

    def size(self) -> int:
        """The bytes of all ids."""
        return sum(len(block.doc.data) for block in self.lists)

    def empty_queries(self) -> Iterator[str]:
        """The queries whose list is empty."""
        for block in self.lists:
            yield from (block.queries[i] for i in np.flatnonzero(block.sizes == 0).tolist())
