"""Rankings of files that did not change, kept on disk (indexes: `store/built.py`; run logs: `verbs/bench/identity.py`).

An entry is trusted by path, size, times in nanoseconds and inode of both files. Where these differ,
or were younger than two seconds when the file was read, its content decides.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import time
from dataclasses import field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from karat.model import limits
from karat.model.rankings import Rankings
from karat.records import dataclass
from karat.store.atomic import STALE, write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karat.model.run_log import Facts

VERSION = 9
SMALLEST = 1 << 20
"""Smaller inputs are read faster than the cache is asked."""
ENDING = ".karat"
_UNFINISHED = re.compile(r"\..*\.karat\.\w{8}\.tmp")
_CHECKSUM = 32
"""The bytes of the checksum that an entry begins with."""
_YOUNG = 2_000_000_000
_ARRAYS = ("query", "rank", "grade", "returned", "gold_query", "gold_grade")
_HITS = ("query", "rank", "grade")
_LATER = "later_"
"""What the names of the arrays of repeats begin with."""
_KINDS = {n: "<f8" if n.endswith("grade") else "<i8" for n in (*_ARRAYS, *(_LATER + n for n in _HITS))}


def cache_folder() -> str:
    """Where entries are: `KARAT_CACHE_DIR`, else the user's cache folder."""
    if folder := os.environ.get("KARAT_CACHE_DIR"):
        return folder
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "karat")


@dataclass(frozen=True)
class Stamp:
    """What identifies the state of a file without reading it."""

    path: str
    size: int
    mtime: int
    ctime: int
    inode: int

    @staticmethod
    def of(path: str) -> Stamp | None:
        try:
            s = os.stat(path)
        except (OSError, ValueError):  # a path with NUL in it
            return None
        if not stat.S_ISREG(s.st_mode):
            return None
        return Stamp(os.path.abspath(path), s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino)


class Hasher:
    """The fingerprint of a file's bytes, in whatever pieces they come: SHA-256, which processors compute themselves."""

    def __init__(self) -> None:
        import hashlib

        self._hash = hashlib.sha256()
        self.length = 0

    def update(self, piece: memoryview) -> None:
        """Take in the next bytes."""
        self.length += len(piece)
        self._hash.update(piece)

    def digest(self) -> str:
        """The fingerprint of all bytes so far."""
        return self._hash.hexdigest()


def digest(path: str) -> str:
    """The fingerprint of a file's bytes as they lie on disk."""
    hasher = Hasher()
    with open(path, "rb", buffering=0) as file:
        buffer = bytearray(1 << 20)
        while count := file.readinto(buffer):
            hasher.update(memoryview(buffer)[:count])
    return hasher.digest()


@dataclass(frozen=True)
class StoredRun:
    """The rankings of a run, and what else is known of it."""

    rankings: Rankings
    name: str
    counts: Mapping[str, int]
    facts: Facts
    notes: Sequence[str]
    mismatches: Sequence[str]
    """The notes that say why run and gold may not belong together."""
    gold_level: Literal["chunk", "doc"] | None
    """Whether gold ids name chunks or docs, where that is known."""


class EntryRun(TypedDict):
    """What an entry says of a run beside its rankings."""

    name: str
    counts: Mapping[str, int]
    facts: Facts
    notes: Sequence[str]
    mismatches: Sequence[str]
    gold_level: Literal["chunk", "doc"] | None


class EntryHead(TypedDict):
    """The head of an entry, as JSON before its arrays."""

    files: Sequence[Mapping[str, int | str]]
    read: int
    about: EntryRun
    sizes: Mapping[str, int]
    repeats_earn: bool
    query_ids: list[str]


class Cache:
    """The folder of entries, with a limit to its size."""

    def __init__(self, folder: str | None = None, limit: int | None = None) -> None:
        self._folder, self._limit = folder, limit

    @property
    def folder(self) -> str:
        """Where the entries are."""
        return self._folder or cache_folder()

    @property
    def limit(self) -> int:
        """The most bytes that they may take."""
        return self._limit or limits.CACHE.value

    def entry(self, qrels: Any, run: Any, choices: object) -> Entry | None:
        """The place for this pair of files; None where they are no files or not worth it."""
        paths = [os.fspath(p) for p in (qrels, run) if isinstance(p, (str, os.PathLike))]
        if len(paths) != 2 or "-" in paths:
            return None
        stamps = [Stamp.of(p) for p in paths]
        first, second = stamps
        if first is None or second is None or first.size + second.size < SMALLEST:
            return None
        import hashlib

        from karat import __version__

        key = json.dumps([VERSION, __version__, first.path, second.path, repr(choices)])
        name = hashlib.sha256(key.encode()).hexdigest()[:32]
        return Entry(self, os.path.join(self.folder, name + ENDING), (first, second), time.time_ns())

    def files(self) -> list[tuple[str, int, float]]:
        """Path, size and time of last use of all entries, and of what killed processes left of some."""
        out = []
        try:
            for entry in os.scandir(self.folder):
                if entry.name.endswith(ENDING) or _UNFINISHED.fullmatch(entry.name):
                    status = entry.stat()
                    out.append((entry.path, status.st_size, status.st_mtime))
        except OSError:
            pass
        return out

    def clear(self) -> int:
        """Remove all entries; how many there were."""
        files = self.files()
        for path, _, _ in files:
            _forget(path)
        return len(files)

    def trim(self) -> None:
        """Remove the entries not used for longest until the rest is within the limit, and leftovers of kills."""
        total = 0
        for path, size, used in sorted(self.files(), key=lambda f: -f[2]):
            total += size
            finished = path.endswith(ENDING)
            if total > self.limit if finished else time.time() - used > STALE:
                _forget(path)


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


@dataclass
class Entry:
    """One pair of files: what was found in them, if they are still the same."""

    cache: Cache
    path: str
    stamps: tuple[Stamp, Stamp]
    started: int
    _hasher: Hasher | None = field(default=None)

    def load(self) -> StoredRun | None:
        """What was stored, if the entry is there and both files are what they were."""
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except OSError:
            return None
        body = memoryview(data)[_CHECKSUM:]
        try:
            if _checksum(body) != data[:_CHECKSUM]:
                raise ValueError("the checksum is another one")
            length = int.from_bytes(body[:8], "little")
            head: EntryHead = json.loads(bytes(body[8 : 8 + length]))
            if not self._trusted(head["files"], head["read"]):
                return None
            stored = StoredRun(_unpacked(head, body[8 + length :]), **head["about"])
        except (ValueError, KeyError, TypeError, IndexError):
            say_damaged(self.path)
            _forget(self.path)
            return None
        try:
            os.utime(self.path)
        except OSError:
            pass
        return stored

    def _trusted(self, files: Sequence[Mapping[str, int | str]], read: int) -> bool:
        for stamp, stored_stamp in zip(self.stamps, files, strict=True):
            same = all(getattr(stamp, n) == stored_stamp[n] for n in ("path", "size", "mtime", "ctime", "inode"))
            settled = max(stamp.mtime, stamp.ctime) < read - _YOUNG
            if same and settled:
                continue
            if stamp.size != stored_stamp["size"] or digest(stamp.path) != stored_stamp["digest"]:
                return False
        return True

    def hasher(self) -> Hasher:
        """Takes the fingerprint of the run while it is read, so that it need not be read again."""
        self._hasher = Hasher()
        return self._hasher

    def store(self, run: StoredRun) -> None:
        """Keep the run. A cache that cannot be written is no error."""
        if tuple(Stamp.of(s.path) for s in self.stamps) != self.stamps:
            return
        hasher = self._hasher if self._hasher and self._hasher.length == self.stamps[1].size else None
        digests = [digest(self.stamps[0].path), hasher.digest() if hasher else digest(self.stamps[1].path)]
        rankings = run.rankings
        head = {
            "files": [{**vars(s), "digest": d} for s, d in zip(self.stamps, digests, strict=True)],
            "read": self.started,
            "about": {f.name: getattr(run, f.name) for f in fields(run) if f.name != "rankings"},
            "sizes": {n: len(a) for n, a in _arrays(rankings).items()},
            "repeats_earn": rankings.repeats_earn,
            "query_ids": list(rankings.query_ids),
        }
        try:
            packed = json.dumps(head, ensure_ascii=False).encode()
        except TypeError:
            return
        arrays = b"".join(np.ascontiguousarray(a, dtype=_KINDS[n]).tobytes() for n, a in _arrays(rankings).items())
        from karat.errors import InputError

        try:
            os.makedirs(self.cache.folder, exist_ok=True)
            body = len(packed).to_bytes(8, "little") + packed + arrays
            write_atomically(self.path, _checksum(body) + body)
            self.cache.trim()
        except (OSError, InputError):
            return


def _checksum(body: bytes | memoryview) -> bytes:
    import hashlib

    return hashlib.sha256(body).digest()


def say_damaged(path: str) -> None:
    """Say that an entry is damaged: what it holds is made again, and nothing else follows from it."""
    print(f"karat: {path}: this entry of the cache is damaged and is made again", file=sys.stderr)


def _arrays(rankings: Rankings) -> dict[str, NDArray[Any]]:
    """All arrays of the rankings, those of the repeats among them, by name."""
    own = {n: getattr(rankings, n) for n in _ARRAYS}
    later = rankings.repeats
    return own if later is None else {**own, **{_LATER + n: getattr(later, n) for n in _HITS}}


def _unpacked(head: EntryHead, data: memoryview) -> Rankings:
    arrays: dict[str, NDArray[Any]] = {}
    place = 0
    for name, count in head["sizes"].items():
        arrays[name] = np.frombuffer(data, dtype=_KINDS[name], count=count, offset=place)
        place += 8 * count
    query, rank, grade, returned, gold_query, gold_grade = (arrays[name] for name in _ARRAYS)
    rankings = Rankings(head["query_ids"], query, rank, grade, returned, gold_query, gold_grade)
    if not any(name.startswith(_LATER) for name in arrays):
        return rankings
    query, rank, grade = (arrays[_LATER + name] for name in _HITS)
    repeats = replace(rankings, query=query, rank=rank, grade=grade)
    return replace(rankings, repeats=repeats, repeats_earn=head["repeats_earn"])
