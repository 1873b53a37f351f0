"""Random bytes for flips of signs: a bit for each unit."""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

KEPT = 64
"""So many rows are kept, 6.4 MB of 100,000 draws: enough for 512 units."""


@lru_cache(maxsize=1)
def random_bytes(draws: int, seed: int) -> RandomBytes:
    """Those of a seed."""
    return RandomBytes(draws, seed)


class RandomBytes:
    """Rows of random bytes. The first ones are kept: groups of all sizes ask for the same ones in turn."""

    def __init__(self, draws: int, seed: int) -> None:
        self.draws, self.seed = draws, seed
        self._lock, self._first = Lock(), self._stream()
        self._kept: list[NDArray[np.uint8]] = []

    def rows(self, count: int) -> list[NDArray[np.uint8]]:
        """The first rows."""
        if count > KEPT:
            stream = self._stream()
            return [next(stream) for _ in range(count)]
        with self._lock:
            self._kept += [next(self._first) for _ in range(count - len(self._kept))]
            return self._kept[:count]

    def _stream(self) -> Iterator[NDArray[np.uint8]]:
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, 0xF11B]))
        while True:
            yield rng.integers(0, 256, self.draws, dtype=np.uint8)
