"""What travels between the driver and its workers: the gold one way, hits and problems the other."""

from __future__ import annotations

import zlib
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from karat.align.columns import BlockHits
from karat.align.gold import GoldIndex
from karat.align.hits import Extent, ReturnedDoc
from karat.model.qrels import Qrels
from karat.model.strings import PAD, Strings, padded
from karat.records import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class PackedGold:
    """Judgments in few bytes; workers unpack them once, however many tasks they are given."""

    digest: bytes
    data: bytes

    @staticmethod
    def of(qrels: Qrels) -> PackedGold:
        """The judgments without what only the driver needs."""
        lengths = np.fromiter((len(doc.encode()) for doc in qrels.docs), dtype=np.int64, count=len(qrels.docs))
        texts = ("".join(qrels.docs).encode(), _small(lengths))
        content = (list(qrels.query_ids), _small(qrels.offsets), *texts, qrels.grades.tobytes())
        data = zlib.compress(msgspec.msgpack.encode(content), 1)
        return PackedGold(blake2b(data, digest_size=16).digest(), data)

    def index(self) -> GoldIndex:
        """The judgments as rows are looked up in them."""
        return _index(self.digest, self)

    def __hash__(self) -> int:
        return hash(self.digest)


@lru_cache(maxsize=2)
def _index(_: bytes, gold: PackedGold) -> GoldIndex:
    kind = tuple[list[str], bytes, bytes, bytes, bytes]
    queries, offsets, text, lengths, grades = msgspec.msgpack.decode(zlib.decompress(gold.data), type=kind)
    sizes = _large(lengths)
    ends = np.cumsum(sizes) + PAD
    qrels = Qrels(queries, _large(offsets), (), np.frombuffer(grades, dtype=np.float64))
    return GoldIndex(qrels, Strings(padded(text), ends - sizes, ends))


class Part(msgspec.Struct, array_like=True):
    """The hits of one block. Without `hits` it only names its queries, which lie in other blocks too."""

    rows: int
    queries: bytes
    without_gold: tuple[bytes, ...]
    hits: bool = True
    returned: bytes = b""
    gold: bytes = b""
    rank: bytes = b""
    later_gold: bytes = b""
    later_rank: bytes = b""
    duplicates: int = 0
    ascending: int = 0
    level: int = 0
    repeats: list[tuple[str, str]] = []
    items: dict[int, list[tuple[str, float | None, str]]] = {}
    extent: tuple[int, int] | None = None
    marks: bool = False
    """Whether the separator of chunks stands in some id."""

    @staticmethod
    def of(block: BlockHits, rows: int, *, marks: bool) -> Part:
        """What the driver needs of a block."""
        return Part(
            rows=rows,
            queries=_small(block.queries),
            without_gold=block.without_gold,
            returned=_small(block.returned),
            gold=_small(block.gold),
            rank=_small(block.rank),
            later_gold=_small(block.later_gold),
            later_rank=_small(block.later_rank),
            duplicates=block.duplicates,
            ascending=block.ascending,
            level=block.level,
            repeats=block.repeats,
            items={q: [(one.doc, one.score, one.parent) for one in top] for q, top in block.items.items()},
            extent=block.extent,
            marks=marks,
        )

    def block(self) -> BlockHits:
        """The hits as the aligner gave them."""
        return BlockHits(
            queries=self.numbers(),
            returned=_large(self.returned),
            gold=_large(self.gold),
            rank=_large(self.rank),
            later_gold=_large(self.later_gold),
            later_rank=_large(self.later_rank),
            without_gold=self.without_gold,
            duplicates=self.duplicates,
            ascending=self.ascending,
            level=self.level,
            repeats=self.repeats,
            items={q: [ReturnedDoc(*one) for one in top] for q, top in self.items.items()},
            extent=None if self.extent is None else Extent(*self.extent),
        )

    def numbers(self) -> NDArray[np.int64]:
        """Its queries as numbers in the gold."""
        return _large(self.queries)


class RowFault(msgspec.Struct, array_like=True, frozen=True, order=True):
    """What is wrong with a row: its partition, its number there from 1, and the file where that is known."""

    partition: int
    row: int
    detail: str
    file: str = ""


MORE = ""
"""The detail of a fault that stands for those that a worker does not tell."""


def _small(numbers: NDArray[np.int64]) -> bytes:
    return np.ascontiguousarray(numbers, dtype="<i4").tobytes()


def _large(data: bytes) -> NDArray[np.int64]:
    return np.frombuffer(data, dtype="<i4").astype(np.int64)


def encode(part: Part | list[RowFault]) -> bytes:
    """A message to the driver."""
    return msgspec.msgpack.encode(part)


def decode_part(data: bytes) -> Part:
    return msgspec.msgpack.decode(data, type=Part)


def decode_faults(data: bytes) -> list[RowFault]:
    return msgspec.msgpack.decode(data, type=list[RowFault])
