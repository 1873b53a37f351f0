"""Generated qrels and runs in TREC format: written once to bench/data, reused when present.

`python bench/data.py a 7m shuffled-70m …` writes those that are missing. The drivers do this in a process of
its own: what a parent holds when it starts a child counts towards the child's peak memory on Linux.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent / "data"
VERSION = 1
"""Part of the file names: raise it when what is generated changes."""
BLOCK_ROWS = 1_000_000
RUN_BYTES_PER_ROW = 38
"""About the size of a line of a run, to ask for disk before it is needed."""


@dataclass(frozen=True)
class Workload:
    """One shape of data: how many queries, docs for each, and judged docs for each."""

    name: str
    queries: int
    docs: int
    judged: tuple[int, int]
    grades: tuple[float, ...] = (0.0, 1.0)
    """How likely each grade is, from grade 0."""
    shuffled: bool = False

    @property
    def stem(self) -> str:
        low, high = self.judged
        order = "-shuffled" if self.shuffled else ""
        return f"{self.queries}x{self.docs}-judged{low}to{high}{order}-v{VERSION}"

    @property
    def qrels(self) -> Path:
        return FOLDER / f"{self.stem}.qrels"

    @property
    def run(self) -> Path:
        return FOLDER / f"{self.stem}.run"

    @property
    def rows(self) -> int:
        return self.queries * self.docs

    @property
    def run_bytes(self) -> int:
        """About the size of the run's file."""
        return self.rows * RUN_BYTES_PER_ROW

    @property
    def ready(self) -> bool:
        return self.qrels.exists() and self.run.exists()

    def told(self) -> str:
        low, high = self.judged
        judged = f"{low}–{high}" if high < 10 else f"about {(low + high) // 2}"
        return f"{self.queries:,} queries × {self.docs:,} docs, {judged} judged"


SPEED = {
    "a": Workload("a", 6_980, 1_000, (1, 4)),
    "b": Workload("b", 250, 1_000, (300, 380), (0.6, 0.25, 0.1, 0.05)),
    "c": Workload("c", 2_000, 10, (1, 4)),
    "d": Workload("d", 50, 100, (8, 12), (0.5, 0.3, 0.2)),
}
QUICK = {**SPEED, "a": replace(SPEED["a"], queries=698)}
SCALE = {
    "0.7m": Workload("0.7m", 700, 1_000, (1, 4)),
    "7m": Workload("7m", 7_000, 1_000, (1, 4)),
    "70m": Workload("70m", 70_000, 1_000, (1, 4)),
}
SHUFFLED = {f"shuffled-{n}": replace(w, name=f"shuffled-{n}", shuffled=True) for n, w in SCALE.items()}


def generate(work: Workload) -> None:
    """Write the qrels and the run of a workload, unless both are there."""
    if work.ready:
        return
    FOLDER.mkdir(exist_ok=True)
    rows = _Rows(work)
    _write(work.qrels, [rows.qrels_text()])
    _write(work.run, rows.run_text())


def _write(path: Path, parts: Any) -> None:
    """Write under a temporary name, then rename: a file that is there is whole."""
    partial = path.with_suffix(path.suffix + f".{os.getpid()}.tmp")
    try:
        with partial.open("wb") as file:
            for part in parts:
                file.write(part)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


class _Rows:
    """All rows of a workload as integers: doc and score (in millionths) by query and place."""

    def __init__(self, work: Workload) -> None:
        import numpy as np

        self.work = work
        self.rng = np.random.default_rng(work.queries * 1_000_003 + work.docs)
        self.qids = 1_000_000 + 7 * np.arange(work.queries, dtype=np.int32)
        self.docs = np.empty((work.queries, work.docs), dtype=np.int32)
        self.scores = np.empty((work.queries, work.docs), dtype=np.int32)
        self.judgments: list[tuple[int, int, int]] = []
        step = max(1, BLOCK_ROWS // work.docs)
        for first in range(0, work.queries, step):
            self._fill(first, min(first + step, work.queries))

    def _fill(self, first: int, last: int) -> None:
        """Docs, falling scores and judgments of some queries."""
        import numpy as np

        count, width = last - first, self.work.docs
        ids = _distinct(self.rng, count, width + self.work.judged[1])
        self.docs[first:last] = ids[:, :width]
        top = self.rng.integers(10_100_000, 35_000_000, size=(count, 1))
        falls = self.rng.integers(1_000, 9_000, size=(count, width))
        self.scores[first:last] = top - np.cumsum(falls, axis=1)
        self._judge(first, ids)

    def _judge(self, first: int, ids: Any) -> None:
        """Two thirds of the judged docs are in the run, rather at the top; the others are not in it."""
        import numpy as np

        width, (low, high) = self.work.docs, self.work.judged
        likely = 1 / (1 + 20 * np.arange(width) / width)
        places = np.argsort(self.rng.exponential(size=(len(ids), width)) / likely, axis=1)
        judged = self.rng.integers(low, high + 1, size=len(ids))
        found = np.minimum(self.rng.binomial(judged, 2 / 3), width)
        for i, (n, m) in enumerate(zip(judged.tolist(), found.tolist(), strict=True)):
            docs = np.concatenate((ids[i, places[i, :m]], ids[i, width : width + n - m]))
            grades = self.rng.choice(len(self.work.grades), size=len(docs), p=self.work.grades)
            grades[0] = max(1, grades[0])  # where nothing is relevant, tools differ
            qid = int(self.qids[first + i])
            self.judgments += [(qid, d, g) for d, g in zip(docs.tolist(), grades.tolist(), strict=True)]

    def qrels_text(self) -> bytes:
        return "".join(f"{q} 0 {d} {g}\n" for q, d, g in self.judgments).encode()

    def run_text(self) -> Iterator[bytes]:
        """The lines of the run, block by block: grouped and sorted, or in any order."""
        import numpy as np

        total, width = self.work.rows, self.work.docs
        order = self.rng.permutation(np.arange(total, dtype=np.int32)) if self.work.shuffled else None
        for start in range(0, total, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, total)
            at = np.arange(start, stop) if order is None else order[start:stop]
            query, place = np.divmod(at, width)
            yield _lines(self.qids[query], self.docs.ravel()[at], place + 1, self.scores.ravel()[at])


def _distinct(rng: Any, count: int, width: int) -> Any:
    """Random numbers of seven digits, none twice in a row of the table."""
    import numpy as np

    out = rng.integers(1_000_000, 10_000_000, size=(count, width), dtype=np.int32)
    again = np.arange(count)
    while len(again):
        ordered = np.sort(out[again], axis=1)
        again = again[(ordered[:, 1:] == ordered[:, :-1]).any(axis=1)]
        out[again] = rng.integers(1_000_000, 10_000_000, size=(len(again), width), dtype=np.int32)
    return out


def _lines(qids: Any, docs: Any, ranks: Any, scores: Any) -> bytes:
    """`qid Q0 doc rank score bm25` for all rows at once: a table of characters, less the padding."""
    import numpy as np

    pieces = [
        _digits(qids, 7),
        b" Q0 ",
        _digits(docs, 7),
        b" ",
        _digits(ranks, 4),
        b" ",
        _digits(scores // 1_000_000, 2),
        b".",
        _digits(scores % 1_000_000, 6, zeros=True),
        b" bm25\n",
    ]
    widths = [len(p) if isinstance(p, bytes) else p.shape[1] for p in pieces]
    table = np.empty((len(qids), sum(widths)), dtype=np.uint8)
    place = 0
    for piece, width in zip(pieces, widths, strict=True):
        table[:, place : place + width] = np.frombuffer(piece, np.uint8) if isinstance(piece, bytes) else piece
        place += width
    return table[table != 0].tobytes()


def _digits(values: Any, width: int, zeros: bool = False) -> Any:
    """Decimal digits as characters, padded in front with zeros or with bytes 0."""
    import numpy as np

    out = np.empty((len(values), width), dtype=np.uint8)
    rest = values.astype(np.int32)
    for c in range(width - 1, -1, -1):
        shorter = (rest == 0) & (c < width - 1) & (not zeros)
        rest, digit = np.divmod(rest, 10)
        out[:, c] = np.where(shorter, 0, digit + 48)
    return out


if __name__ == "__main__":
    everything = {**SPEED, "quick-a": QUICK["a"], **SCALE, **SHUFFLED}
    for wanted in sys.argv[1:]:
        generate(everything[wanted])
