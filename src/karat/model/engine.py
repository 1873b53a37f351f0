"""How the work is done: sizes of memory and numbers of threads, as people write them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, TypedDict

from karat.errors import UsageError
from karat.model.option import OptionGroup, option
from karat.records import dataclass

Watch = Callable[[str, int, int], None]
"""Receives a path, the bytes read so far, and all bytes of a file that is being read."""


class EngineOptions(TypedDict, total=False):
    """The fields of `Engine`, as type checkers see keyword arguments."""

    threads: int | None
    memory: str | int | None
    batch: int | None
    cache: bool | None
    engine: Any
    explain: bool | None


@dataclass(frozen=True, slots=True)
class Engine(OptionGroup):
    """How the work is done; nothing here changes a figure."""

    PANEL: ClassVar[str] = "Engine"
    BLOCK: ClassVar[str] = "engine"

    threads: int | None = option(None, "Threads; all cores by default.", metavar="N")
    memory: str | int | None = option(
        None,
        "Memory for the rows of runs, such as 2GB; saved results and reports are held whole.",
        kind="size",
        metavar="SIZE",
    )
    batch: int | None = option(
        None, "Queries of a run to hold in memory at once.", key="engine.batch_size", metavar="N"
    )
    cache: bool = option(
        True, "Answer from the cache for files that did not change.", off="Neither read nor write the cache."
    )
    engine: Any = option(
        None,
        "The Spark cluster to evaluate on: spark://…, sc://… or local-cluster; in Python also a SparkSession.",
        kind="address",
        key="engine.spark",
        metavar="ADDRESS",
    )
    explain: bool = option(False, "Show the plans that Spark carries out.")
    details: bool = option(False, "Keep each query's top 100 and the ranks of its gold, for `save`.", kind="object")
    watch: Watch | None = option(
        None, "A function that receives the path, the bytes read and all bytes of a file.", kind="object"
    )

    @property
    def memory_bytes(self) -> int | None:
        """The bound on memory as a number."""
        return bytes_of(self.memory)


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
