"""Files that grow by whole lines: several processes add to one at once, and a crash loses no line that was kept."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from karat.errors import InputError
from karat.store.atomic import write_error
from karat.store.faults import fault
from karat.store.lock import PATIENCE, try_lock

if TYPE_CHECKING:
    from collections.abc import Sequence

_BLOCK = 1 << 16


def append_lines(path: str, lines: Sequence[bytes]) -> bytes:
    """Add lines, which are on disk when this returns; half a line that a crash left at the end is removed.

    What was removed is returned. A last line that is complete and only lacks its end is kept.
    """
    if not lines:
        return b""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        raise write_error(path, error) from None
    try:
        _wait(handle, path)
        size = os.fstat(handle).st_size
        tail = _tail(handle, size)
        whole = _is_whole(tail)
        end = size if whole else size - len(tail)
        data = b"".join(line + b"\n" for line in lines)
        try:
            if not whole:
                os.ftruncate(handle, end)
            fault("journal.write")
            _write(handle, b"\n" + data if tail and whole else data)
            fault("journal.flush")
            os.fsync(handle)
        except OSError as error:
            os.ftruncate(handle, end)
            raise write_error(path, error) from None
        fault("journal.done")
        return b"" if whole else tail
    finally:
        os.close(handle)


def _wait(handle: int, path: str) -> None:
    """Hold the file until it is closed, after whoever holds it now."""
    end = time.monotonic() + PATIENCE
    while not try_lock(handle):
        if time.monotonic() > end:
            raise InputError(f"{path}: another process has held this file for {PATIENCE:g} s; end it, and try again")
        time.sleep(0.005)


def _tail(handle: int, size: int) -> bytes:
    """What follows the last end of a line."""
    tail, start = b"", size
    while start > 0 and b"\n" not in tail:
        step = min(_BLOCK, start)
        start -= step
        tail = os.pread(handle, step, start) + tail
    return tail[tail.rfind(b"\n") + 1 :]


def _is_whole(tail: bytes) -> bool:
    """Whether nothing follows the last end of a line, or a whole JSON value."""
    try:
        return not tail.strip() or json.loads(tail) is not None
    except (ValueError, RecursionError):
        return False


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
