"""The limits on what is read and kept: one table, and the environment variable that changes each.

They come from the environment and not from `karat.yaml`, because they guard against data and configs that somebody
else wrote.
"""

from __future__ import annotations

import os
from typing import Literal

from karat.errors import UsageError
from karat.model.engine import bytes_of
from karat.records import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that is allowed of something."""

    name: str
    default: int
    tells: str
    """What is limited, as a row of the table in docs/data.md."""
    unit: Literal["bytes", "seconds", ""] = "bytes"

    @property
    def variable(self) -> str:
        """The environment variable that changes it."""
        return f"KARAT_MAX_{self.name.upper()}"

    @property
    def value(self) -> int:
        """The limit in force."""
        text = os.environ.get(self.variable)
        if text is None:
            return self.default
        try:
            number = bytes_of(text) if self.unit == "bytes" else int(text)
        except (UsageError, ValueError):
            number = None
        if number is None or number < 1:
            kind = "a size" if self.unit == "bytes" else "a whole number"
            raise UsageError(f"{self.variable} must be {kind} such as {self.default_text}, found {text!r}")
        return number

    @property
    def text(self) -> str:
        """The limit in force, as people write it."""
        return self._write(self.value)

    @property
    def default_text(self) -> str:
        """The default, as people write it."""
        return self._write(self.default)

    def _write(self, number: int) -> str:
        if self.unit == "bytes":
            return size_text(number)
        return f"{number:,} {self.unit}".rstrip()

    @property
    def advice(self) -> str:
        """How to allow more, as errors say it."""
        return f"set the environment variable {self.variable} to allow more"


def size_text(size: int) -> str:
    """A number of bytes in the largest unit that leaves it whole."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size:,} bytes"


LINE = Limit("line", 64 << 20, "One line of a text file, and the comments and blank lines above the first row.")
ID = Limit("id", 64 << 10, "The id of a query or doc in a row of a table, a TREC file, JSONL or Parquet.")
UNPACKED = Limit(
    "unpacked",
    256 << 20,
    "What a gzip, zstd, .npz or Parquet file may unpack to, where that is more than `KARAT_MAX_RATIO` times its size.",
)
RATIO = Limit("ratio", 200, "How many times its size a compressed file may unpack to, above `KARAT_MAX_UNPACKED`.", "")
CONFIG = Limit("config", 1 << 20, "The characters of a `karat.yaml`.")
YAML_VALUES = Limit("yaml_values", 100_000, "Values of a `karat.yaml`, those that aliases repeat among them.", "")
YAML_DEPTH = Limit("yaml_depth", 50, "How deep a `karat.yaml` is nested.", "")
PIPE_SECONDS = Limit("pipe_seconds", 10, "How long a named pipe may wait for somebody to write to it.", "seconds")
ANSWER = Limit("answer", 64 << 20, "One answer of a server; its time is limited by the retriever's `timeout`.")
CACHE = Limit("cache", 512 << 20, "Rankings in the cache; the entries not used for longest are removed.")
INDEXES = Limit("indexes", 4 << 30, "Indexes and vectors of benchmarks; the entries not used for longest are removed.")
VECTORS = Limit(
    "vectors",
    4 << 30,
    "Vectors that dense search holds in memory; more are in a temporary file, and in memory at half their precision.",
)
DRIVER_QUERIES = Limit(
    "driver_queries",
    3_000_000,
    "Queries whose values a Spark cluster sends to the driver; those of more are summed by its workers.",
    "",
)
LIMITS = (
    *(LINE, ID, UNPACKED, RATIO, CONFIG, YAML_VALUES, YAML_DEPTH, PIPE_SECONDS, ANSWER, CACHE, INDEXES, VECTORS),
    DRIVER_QUERIES,
)


def bomb_problem(unpacked: int, packed: int) -> str | None:
    """What to say of a compressed file that unpacks to so much that it is hardly data; None for others."""
    if unpacked <= UNPACKED.value or unpacked <= RATIO.value * packed:
        return None
    return (
        f"unpacks to more than {UNPACKED.text} and more than {RATIO.text} times its size; {UNPACKED.advice} "
        f"(or {RATIO.variable})"
    )
