"""A column of byte strings as slices of one buffer: the shape text has in files and in Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Indices = NDArray[np.int64]
    Words = NDArray[np.uint64]
    Encoded = Sequence[bytes]

U64 = np.uint64
WORD = 8
"""The bytes of a word."""

PAD = 32
"""Bytes that stand free before and after the text, so that 8-byte loads stay inside the buffer."""

LARGE = 1 << 62
"""More than the bytes of any string."""

SOME = 1 << 16
"""Strings that are decoded at once."""

DENSE = 16
"""Words of a string that every row has room for; what comes after them takes room where it is."""
_LOW_BYTES = np.array([(1 << (8 * n)) - 1 for n in range(9)], dtype=U64)
_MIX = tuple(U64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@dataclass(frozen=True, slots=True)
class Strings:
    """Byte strings `buffer[start[i]:end[i]]`; the buffer has PAD free bytes at both ends."""

    buffer: NDArray[np.uint8]
    start: Indices
    end: Indices

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Indices | NDArray[np.bool_] | slice) -> Strings:
        """The strings of these rows (indices, a mask or a slice), without copying their text."""
        return Strings(self.buffer, self.start[rows], self.end[rows])

    def longest(self) -> int:
        """The bytes of the longest string."""
        return int((self.end - self.start).max(initial=0))

    def word(self, i: int) -> Words:
        """Bytes 8i to 8i+7 of every string as a little-endian integer, zero past its end."""
        return self._words((i,), self.end - self.start)[0]

    def _words(self, places: Iterable[int], length: Indices) -> list[Words]:
        """The words at these places of strings of this length."""
        loads = unaligned_words(self.buffer)
        shortest, longest = int(length.min(initial=LARGE)), int(length.max(initial=0))
        words = []
        for first in (WORD * i for i in places):
            word: Words = loads[self.start] if first == 0 else loads[np.minimum(self.start + first, len(loads) - 1)]
            if shortest == longest or shortest >= first + WORD:
                word &= _LOW_BYTES[min(max(shortest - first, 0), WORD)]
            else:
                word &= _LOW_BYTES[np.clip(length - first, 0, WORD)]
            words.append(word)
        return words

    def last_words(self, most: int) -> list[Words]:
        """The last `most` bytes in words, the last word first; before a string they are those of the buffer."""
        count = -(-most // WORD)
        pairs = np.ndarray((len(self.buffer) - 2 * WORD + 1,), dtype="V16", buffer=self.buffer.data, strides=(1,))
        loaded = [pairs[self.end - WORD * i].view("<u8").reshape(-1, 2) for i in range(2, count + 2, 2)]
        return [pair[:, place] for pair in loaded for place in (1, 0)][:count]

    def words(self) -> list[Words]:
        """The words of every string; two strings are equal where all their words are.

        Words after the first 16 are digested into two, so that one long string does not make every row as long.
        """
        length = self.end - self.start
        count = -(-int(length.max(initial=0)) // WORD)
        words = self._words(range(min(max(count, 1), DENSE)), length)
        if count <= DENSE:
            return words
        from hashlib import blake2b

        digests = np.zeros((2, len(self)), dtype=U64)
        rows, tails = self._tails()
        raw = b"".join(blake2b(tail, digest_size=16).digest() for tail in tails)
        digests[:, rows] = np.frombuffer(raw, dtype="<u8").reshape(-1, 2).T
        return [*words, *digests]

    def _tails(self) -> tuple[Indices, list[bytes]]:
        """The rows of strings that are longer than 16 words, and what comes after these."""
        rows = np.flatnonzero(self.end - self.start > 8 * DENSE)
        return rows, Strings(self.buffer, self.start[rows] + 8 * DENSE, self.end[rows]).bytes()

    def ordered_words(self, words: list[Words], rows: Indices) -> list[Words]:
        """The words of these rows turned so that comparing them one after the other is comparing bytes."""
        turned = [word[rows].byteswap() for word in words[:DENSE]]
        if len(words) > DENSE:
            long, tails = self.take(rows)._tails()
            place = {tail: i for i, tail in enumerate(sorted(set(tails)), start=1)}
            order = np.zeros(len(rows), dtype=U64)
            order[long] = [place[tail] for tail in tails]
            turned.append(order)
        return turned

    def starts(self) -> Indices:
        """Where a row has another string than the row above it."""
        if len(self) == 0:
            return np.zeros(0, dtype=np.int64)
        new = np.ones(len(self), dtype=bool)
        words = self.words()
        np.not_equal(words[0][1:], words[0][:-1], out=new[1:])
        for word in words[1:]:
            new[1:] |= word[1:] != word[:-1]
        return np.flatnonzero(new)

    def equals(self, other: Strings) -> NDArray[np.bool_]:
        """Which strings are those of another column."""
        return equal_words(self.words(), other.words())

    def bytes(self) -> list[bytes]:
        """Each string as a bytes object."""
        view = memoryview(self.buffer.data)
        return [bytes(view[a:b]) for a, b in zip(self.start.tolist(), self.end.tolist(), strict=True)]

    def texts(self) -> list[str]:
        """Each string decoded from UTF-8; of many, some at a time, so that no other copy of them all is held."""
        parts = (self.take(slice(i, i + SOME)) for i in range(0, len(self), SOME))
        return [raw.decode() for part in parts for raw in part.bytes()]

    def packed(self) -> Packed:
        """The same texts in little room, with none that stand between them."""
        sizes = self.end - self.start + 1
        ends = np.cumsum(sizes)
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(self.start - ends + sizes, sizes)
        return Packed(self.buffer[places].tobytes(), (sizes - 1).astype(np.int32))

    @staticmethod
    def of(values: Iterable[str]) -> Strings:
        """The column that holds these texts."""
        return Packed.of(tuple(values)).strings()

    @staticmethod
    def of_encoded(encoded: Encoded) -> Strings:
        """The column that holds these byte strings."""
        ends = np.cumsum([len(v) for v in encoded], dtype=np.int64) if encoded else np.zeros(0, np.int64)
        lengths = np.diff(ends, prepend=0)
        return Strings(padded(b"".join(encoded)), ends - lengths + PAD, ends + PAD)


class Packed(NamedTuple):
    """A column of texts in little room, to be kept: each is followed by a byte that belongs to none."""

    data: bytes
    sizes: NDArray[np.int32]

    @staticmethod
    def of(texts: Sequence[str]) -> Packed:
        """The column that holds these texts."""
        data = "\n".join((*texts, "")).encode()
        ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
        if len(ends) == len(texts):
            return Packed(data, (np.diff(ends, prepend=-1) - 1).astype(np.int32))
        return Packed(data, np.array([len(text.encode()) for text in texts], dtype=np.int32))  # a text holds a newline

    @staticmethod
    def join(parts: Sequence[Packed]) -> Packed:
        """Several columns one after the other."""
        return Packed(b"".join(part.data for part in parts), np.concatenate([part.sizes for part in parts]))

    def strings(self) -> Strings:
        """The texts where numpy can look at them."""
        ends = np.cumsum(self.sizes + 1, dtype=np.int64) + PAD - 1
        return Strings(padded(self.data), ends - self.sizes, ends)


def padded(data: bytes | memoryview) -> NDArray[np.uint8]:
    """A copy of the data with PAD zero bytes before and after it."""
    buffer = np.zeros(len(data) + 2 * PAD, dtype=np.uint8)
    buffer[PAD : PAD + len(data)] = np.frombuffer(data, dtype=np.uint8)
    return buffer


def unaligned_words(buffer: NDArray[np.uint8]) -> Words:
    """A view in which element i is the 8 bytes from i on, as a little-endian integer."""
    return np.ndarray((len(buffer) - 7,), dtype="<u8", buffer=buffer.data, strides=(1,))


def equal_words(a: list[Words], b: list[Words]) -> NDArray[np.bool_]:
    """Which strings have the same words; a column of shorter strings ends in zeros."""
    out: NDArray[np.bool_] = a[0] == b[0]
    for i in range(1, max(len(a), len(b))):
        left = a[i] if i < len(a) else U64(0)
        right = b[i] if i < len(b) else U64(0)
        out &= left == right
    return out


def hashed(words: list[Words], salt: Words | np.uint64) -> Words:
    """A well-mixed 64-bit key of the strings with these words; equal strings have equal keys.

    Trailing zero words do not change it, so that columns with a different longest string agree.
    """
    key = (words[0] * _MIX[0]) ^ (np.atleast_1d(salt) * _MIX[1])
    for i, word in enumerate(words[1:], start=1):
        key += (word ^ (word >> U64(31))) * (_MIX[i % 2 + 1] + U64(2 * i))
    key ^= key >> U64(32)
    key *= _MIX[1]
    key ^= key >> U64(29)
    key *= _MIX[2]
    return key
