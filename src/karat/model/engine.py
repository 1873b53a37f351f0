"""How the work is done: sizes of memory and numbers of threads, as people write them."""

from __future__ import annotations

import math
from collections.abc import Callable

from karat.errors import UsageError

Watch = Callable[[str, int, int], None]
"""Receives a path, the bytes read so far, and all bytes of a file that is being read."""

_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}


def bytes_of(memory: str | int | None) -> int | None:
    """`2GB`, `512MiB` or a number of bytes."""
    if memory is None:
        return None
    text = str(memory).strip().upper()
    digits = text.rstrip("BKMGTI ")
    try:
        size = float(digits) * _UNITS[text[len(digits) :].strip()]
    except (ValueError, KeyError):
        size = math.nan
    if isinstance(memory, (bool, float)) or not 1 <= size < 2**63:
        raise UsageError(f"memory must be a size such as 2GB or 512MiB, found {memory!r}")
    return int(size)


def threads_of(threads: int | None) -> int | None:
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
        raise UsageError(f"threads must be an integer from 1, found {threads!r}")
    return threads
