"""Decimal text → float64, many at a time.

Plain decimals of up to 19 characters are converted eight digits at a time inside 64-bit words; all
others go through numpy's own conversion. A mantissa up to 2^53 with a power of ten up to 10^22
gives the correctly rounded double with one division (Clinger 1990). Longer mantissas are marked:
their value is within two units in the last place, and `exact_decimals` gives the true one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karat.model.strings import WORD, unaligned_words
from karat.records import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.model.strings import Strings, Words

U64 = np.uint64

_POW10 = np.array([10**n for n in range(20)], dtype=U64)
_POW10_FLOAT = np.array([10.0**n for n in range(20)])
_HIGH_BYTES = np.array([((1 << 64) - 1) ^ ((1 << (8 * (8 - n))) - 1) for n in range(9)], dtype=U64)
_ZEROS, _DOTS = U64(0x3030303030303030), U64(0x2E2E2E2E2E2E2E2E)
_ONES, _TOPS = U64(0x0101010101010101), U64(0x8080808080808080)
_PAST_NINE = U64(0x7676767676767676)
_NUMBER_BYTES = np.zeros(256, dtype=bool)
_NUMBER_BYTES[list(b"0123456789+-.eE")] = True
_LONGEST_PLAIN = 19


@dataclass(frozen=True, slots=True)
class Decimals:
    """Numbers read from text: their values, which ones are approximate, and which ones are not numbers."""

    values: NDArray[np.float64]
    near: NDArray[np.bool_] | None
    bad: NDArray[np.int64]


def decimals(text: Strings) -> Decimals:
    """Read every string as a decimal number. Infinity and NaN do not count as numbers."""
    if len(text) == 0:
        return Decimals(np.zeros(0), None, np.zeros(0, dtype=np.int64))
    length = text.end - text.start
    negative = None
    values, near, hard = _unsigned(text, length)
    if hard.any():
        negative = text.buffer[text.start] == ord("-")
        if negative.any():
            values, near, hard = _unsigned(text, length - negative)
            np.negative(values, where=negative, out=values)
    bad = np.zeros(0, dtype=np.int64)
    if negative is not None and hard.any():
        rows = np.flatnonzero(hard)
        values[rows], wrong = exact_decimals(text.take(rows))
        near[rows] = False
        bad = rows[wrong]
    return Decimals(values, near if near.any() else None, bad)


def _unsigned(
    text: Strings, length: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Values without their signs, which are only near, and which are hard; the digits are the last ones of a text."""
    first = text.buffer[int(text.start[0]) : int(text.end[0])].tobytes()
    fraction = len(first) - 1 - first.rfind(b".")
    if fraction < min(len(first), 2 * WORD) and (found := _with_fraction(text, length, fraction)) is not None:
        return found
    return _with_any_dot(text, length)


def _with_fraction(
    text: Strings, length: NDArray[np.int64], fraction: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]] | None:
    """The same where this many digits stand after every dot, as nearly always; None where they do not."""
    shortest, longest = int(length.min()), min(int(length.max()), _LONGEST_PLAIN)
    words = text.last_words(max(longest, fraction + 1))
    dots = words[fraction // WORD] >> U64(8 * (WORD - 1 - fraction % WORD))
    if ((dots & U64(255)) != ord(".")).any():
        return None
    digits = np.zeros(len(text), dtype=U64)
    odd = np.zeros(len(text), dtype=U64)
    for i, whole in enumerate(words):
        count = longest - 1 - WORD * i
        if count <= 0:
            break
        after = min(max(fraction - WORD * i, 0), WORD)  # of these eight digits, those that stand after the dot
        word = whole << U64(8)  # the dot is left out
        if i + 1 < len(words):
            word |= words[i + 1] >> U64(8 * (WORD - 1))
        if after:
            word = (word & ~_HIGH_BYTES[after]) | (whole & _HIGH_BYTES[after])
        word ^= _ZEROS
        if shortest == longest:
            word &= _HIGH_BYTES[min(count, WORD)]
        else:
            word &= _HIGH_BYTES[np.clip(length - (1 + WORD * i), 0, WORD)]
        odd |= word
        odd |= word + _PAST_NINE
        digits += _eight_digits(word) * _POW10[WORD * i]
    hard = (odd & _TOPS) != 0
    if shortest < max(2, fraction + 1) or int(length.max()) > _LONGEST_PLAIN:
        hard |= (length < max(2, fraction + 1)) | (length > _LONGEST_PLAIN)
    return digits / _POW10_FLOAT[fraction], digits > U64(2**53), hard


def _word_before(loads: NDArray[np.uint64], end: NDArray[np.int64], length: NDArray[np.int64], i: int) -> Words:
    """The i-th eight characters from the right, less '0', and 0 for what is left of the text."""
    mask = _HIGH_BYTES[np.clip(length - 8 * i, 0, 8) if i else np.minimum(length, 8)]
    word = loads[end - 8 * (i + 1)]
    word ^= _ZEROS
    word &= mask
    return word


def _eight_digits(word: Words) -> Words:
    """Eight bytes of value 0 to 9, the first the most significant → the number they write."""
    word = word * U64(2561)
    word >>= U64(8)
    word &= U64(0x00FF00FF00FF00FF)
    word *= U64(6553601)
    word >>= U64(16)
    word &= U64(0x0000FFFF0000FFFF)
    word *= U64(42949672960001)
    word >>= U64(32)
    return word


def _with_any_dot(
    text: Strings, length: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Values, which are only near, and which are hard, where every string may have its dot elsewhere."""
    loads = unaligned_words(text.buffer)
    hard = (length < 1) | (length > _LONGEST_PLAIN)
    digits = np.zeros(len(text), dtype=U64)
    dots = np.zeros(len(text), dtype=np.uint8)
    fraction = np.zeros(len(text), dtype=np.int64)
    for i in range((min(int(length.max()), _LONGEST_PLAIN) + 7) // 8):
        word = _word_before(loads, text.end, length, i)
        dot = word ^ (_DOTS ^ _ZEROS)
        dot = (dot - _ONES) & ~dot & _TOPS
        dots += np.bitwise_count(dot)
        fraction += np.where(dot != 0, 8 * i + 7 - (np.bitwise_count(dot - U64(1)) >> 3).astype(np.int64), 0)
        word ^= (dot >> U64(7)) * U64(0x30 ^ 0x2E)
        hard |= (((word + _PAST_NINE) | word) & _TOPS) != 0
        digits += _eight_digits(word) * _POW10[8 * i]
    hard |= (dots > 1) | (length <= dots)
    fraction = np.where(dots == 1, np.minimum(fraction, 18), 0)
    step = _POW10[fraction + 1]
    mantissa = np.where(dots == 1, digits - digits // step * (step - _POW10[fraction]), digits)
    return mantissa / _POW10_FLOAT[fraction], mantissa > U64(2**53), hard


def exact_decimals(text: Strings) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The correctly rounded value of each string, and which strings are not finite numbers."""
    raw = text.bytes()
    clean = np.array([len(r) > 0 and bool(_NUMBER_BYTES[list(r)].all()) for r in raw], dtype=bool)
    try:
        values = np.array([r if ok else b"0" for r, ok in zip(raw, clean, strict=True)], dtype="S").astype(np.float64)
    except ValueError:
        values = np.zeros(len(raw))
        for i, r in enumerate(raw):
            try:
                values[i] = float(r) if clean[i] else 0.0
            except ValueError:
                clean[i] = False
    return values, ~clean | ~np.isfinite(values)
