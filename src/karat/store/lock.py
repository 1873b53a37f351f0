"""One writer per folder, one process per task: a second one is refused or waits, instead of mixing with the first."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from karat.errors import InputError
from karat.store.cache import cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 10.0
"""Seconds that `waiting_lock` waits."""


@contextmanager
def folder_lock(folder: str, writer: str, advice: str) -> Iterator[None]:
    """Hold a folder, which is made if it is missing; the system lets go of it even if the process is killed."""
    try:
        os.makedirs(folder, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}); {advice}") from None
    try:
        if not try_lock(handle):
            raise InputError(f"{folder}: another {writer} writes here; wait until it is done, or {advice}")
        yield
    finally:
        os.close(handle)


@contextmanager
def waiting_lock(folder: str) -> Iterator[None]:
    """Hold a folder for a moment, after whoever holds it now; one that is held for long is not waited for."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # what is to be written there fails with a better message
        yield
        return
    try:
        end = time.monotonic() + PATIENCE
        while not try_lock(handle) and time.monotonic() < end:
            time.sleep(0.01)
        yield
    finally:
        os.close(handle)


@contextmanager
def only_once(task: str, refusal: str) -> Iterator[None]:
    """Refuse a task that another process is at, whatever its name; where no lock can be made, it is not refused."""
    folder = os.path.join(cache_folder(), "tasks", hashlib.sha256(task.encode()).hexdigest()[:32])
    try:
        os.makedirs(folder, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        if not try_lock(handle):
            raise InputError(refusal)
        yield
    finally:
        os.close(handle)


def try_lock(handle: int) -> bool:
    """Lock an open folder until it is closed; False if another process holds it, True where there are no locks."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # Windows, or a file system without locks
        pass
    return True
