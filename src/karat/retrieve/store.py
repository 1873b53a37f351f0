"""Indexes and vectors kept on disk by content: what was built once is not built again.

An entry is a folder named by what it was made from. It is written under another name and renamed when it is
whole, so that a process that dies leaves nothing that could be mistaken for one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from typing import TYPE_CHECKING, Any, TypeVar

from karat.store.cache import cache_folder
from karat.store.faults import fault

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
LIMIT = 4 << 30
"""Bytes that entries may take before those not used for longest are removed."""
STALE = 24 * 3600.0
"""Seconds after which an unfinished entry is one that a killed process left."""
_UNFINISHED = ".unfinished-"


class Store:
    """The folder of entries, with a limit to its size."""

    def __init__(self, folder: str | None = None, limit: int = LIMIT) -> None:
        self.folder, self.limit = folder or os.path.join(cache_folder(), "indexes"), limit

    def get(self, key: Any, build: Callable[[], T], write: Callable[[T, str], None], load: Callable[[str], T]) -> T:
        """What was built from `key`: loaded if it is there, else built and written for the next time.

        `key` is anything that JSON can hold: all that decides the content, versions of libraries included.
        """
        name = hashlib.sha256(json.dumps(key, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:32]
        place = os.path.join(self.folder, name)
        if os.path.isdir(place):
            try:
                found = load(place)
                os.utime(place)
                return found
            except Exception:  # damaged, or written by a version that did it otherwise: built anew
                shutil.rmtree(place, ignore_errors=True)
        built = build()
        self._write(place, lambda folder: write(built, folder))
        return built

    def _write(self, place: str, write: Callable[[str], None]) -> None:
        try:
            os.makedirs(self.folder, exist_ok=True)
            temporary = tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.folder)
        except OSError:
            return  # a folder that cannot be written keeps nothing, and stops nobody
        try:
            fault("index.create")
            write(temporary)
            fault("index.rename")
            os.rename(temporary, place)
            fault("index.done")
        except OSError:  # another process was first, or there is no room
            pass
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self.trim(keep=place)

    def entries(self) -> list[tuple[str, int, float]]:
        """Path, size and time of last use of all entries."""
        try:
            listed = [e for e in os.scandir(self.folder) if e.is_dir()]
        except OSError:
            return []
        found = []
        for entry in listed:
            try:
                if entry.name.startswith(_UNFINISHED):
                    if time.time() - entry.stat().st_mtime > STALE:
                        shutil.rmtree(entry.path, ignore_errors=True)
                    continue
                found.append((entry.path, _size(entry.path), entry.stat().st_mtime))
            except OSError:
                continue
        return found

    def clear(self) -> int:
        """Remove all entries; how many there were."""
        found = self.entries()
        for path, _, _ in found:
            shutil.rmtree(path, ignore_errors=True)
        return len(found)

    def trim(self, keep: str = "") -> None:
        """Remove the entries not used for longest, until the rest is within the limit."""
        total = 0
        for path, size, _ in sorted(self.entries(), key=lambda e: (e[0] != keep, -e[2])):
            total += size
            if total > self.limit and path != keep:
                shutil.rmtree(path, ignore_errors=True)


def kept(
    store: Store | None, key: Any, build: Callable[[], T], write: Callable[[T, str], None], load: Callable[[str], T]
) -> T:
    """From the store, or built where there is none."""
    return build() if store is None else store.get(key, build, write, load)


def _size(folder: str) -> int:
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)
