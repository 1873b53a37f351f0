"""One writer per folder: a second one is refused at once, instead of mixing its lines with those of the first."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from karat.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def folder_lock(folder: str, writer: str, advice: str) -> Iterator[None]:
    """Hold a folder, which is made if it is missing; the system lets go of it even if the process is killed."""
    try:
        import fcntl
    except ImportError:  # Windows, which has no such locks
        yield
        return
    try:
        os.makedirs(folder, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}); {advice}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder}: another {writer} writes here; wait until it is done, or {advice}") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)
