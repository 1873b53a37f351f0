"""What takes long to build, kept on disk by content: indexes, vectors, the charting library.

An entry is a folder named by what it was made from. It is written under another name and renamed when it is
complete, so that a process that dies leaves nothing that could be mistaken for one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from typing import TYPE_CHECKING, Any, TypeVar

from karat.model.limits import INDEXES
from karat.store.cache import cache_folder, digest, say_damaged
from karat.store.faults import fault

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
VERSION = 2
STALE = 24 * 3600.0
"""Seconds after which an unfinished entry is taken for that of a killed process."""
_UNFINISHED = ".unfinished-"
_SUMS = ".sha256.json"


class Store:
    """The folder of entries, with a limit to its size."""

    def __init__(self, folder: str | None = None, limit: int | None = None) -> None:
        self.folder = folder or os.path.join(cache_folder(), "indexes")
        self.limit = limit or INDEXES.value

    def get(self, key: Any, build: Callable[[], T], write: Callable[[T, str], None], load: Callable[[str], T]) -> T:
        """What `key` stands for: loaded if it was built before, else built and written.

        `key` holds, as JSON, all that decides the content, including versions of libraries.
        """
        text = json.dumps([VERSION, key], sort_keys=True, ensure_ascii=False)
        name = hashlib.sha256(text.encode()).hexdigest()[:32]
        place = os.path.join(self.folder, name)
        if os.path.isdir(place):
            try:
                _check_sums(place)
                value = load(place)
                os.utime(place)
                return value
            except Exception:  # damaged: built again
                say_damaged(place)
                shutil.rmtree(place, ignore_errors=True)
        content = build()
        self._write(place, lambda folder: write(content, folder))
        return content

    def _write(self, place: str, write: Callable[[str], None]) -> None:
        try:
            os.makedirs(self.folder, exist_ok=True)
            temporary = tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.folder)
        except OSError:
            return  # a folder that cannot be written keeps nothing, and stops nobody
        try:
            fault("index.create")
            write(temporary)
            _write_sums(temporary)
            fault("index.rename")
            os.rename(temporary, place)
            fault("index.done")
        except OSError:  # another process was first, or there is no room
            pass
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self.trim(keep=place)

    def entries(self) -> list[tuple[str, int, float]]:
        """Path, size and time of last use of all entries, and of those that killed processes left unfinished."""
        try:
            folders = [e for e in os.scandir(self.folder) if e.is_dir()]
        except OSError:
            return []
        entries = []
        for entry in folders:
            try:
                entries.append((entry.path, _size(entry.path), entry.stat().st_mtime))
            except OSError:
                continue
        return entries

    def clear(self) -> int:
        """Remove all entries, and return how many there were."""
        entries = self.entries()
        for path, _, _ in entries:
            shutil.rmtree(path, ignore_errors=True)
        return len(entries)

    def trim(self, keep: str = "") -> None:
        """Remove the least recently used entries until the rest is within the limit, and old unfinished ones."""
        total = 0
        for path, size, used in sorted(self.entries(), key=lambda e: (e[0] != keep, -e[2])):
            total += size
            unfinished = os.path.basename(path).startswith(_UNFINISHED)
            gone = time.time() - used > STALE if unfinished else total > self.limit and path != keep
            if gone:
                shutil.rmtree(path, ignore_errors=True)


def get_or_build(
    store: Store | None, key: Any, build: Callable[[], T], write: Callable[[T, str], None], load: Callable[[str], T]
) -> T:
    """From the store, or built if there is no store."""
    return build() if store is None else store.get(key, build, write, load)


def _write_sums(folder: str) -> None:
    """Note a checksum of every file of an entry."""
    sums = {name: digest(os.path.join(folder, name)) for name in _files(folder)}
    with open(os.path.join(folder, _SUMS), "w", encoding="utf-8") as file:
        json.dump(sums, file)


def _check_sums(folder: str) -> None:
    """Raise where a file of an entry is not what was written, or one is missing."""
    with open(os.path.join(folder, _SUMS), encoding="utf-8") as file:
        sums = json.load(file)
    if sums != {name: digest(os.path.join(folder, name)) for name in _files(folder)}:
        raise ValueError("the checksums are others")


def _files(folder: str) -> list[str]:
    """The files in a folder and below it but for the list of checksums, by their paths in it."""
    paths = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
    return sorted(name for path in paths if (name := os.path.relpath(path, folder)) != _SUMS)


def _size(folder: str) -> int:
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)
