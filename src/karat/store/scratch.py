"""A folder for temporary tables, which is gone afterwards; what killed processes left of theirs goes too."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from karat.errors import InputError
from karat.store.faults import fault
from karat.store.lock import try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

STALE = 24 * 3600.0
"""Seconds after which a folder that nobody holds is taken for that of a killed process."""
_PREFIX = "karat-scratch-"


@contextmanager
def scratch_folder() -> Iterator[str]:
    """Make a folder below TMPDIR; one that is full or closed is the user's to fix."""
    place = tempfile.gettempdir()
    _sweep(place)
    try:
        folder = tempfile.mkdtemp(prefix=_PREFIX)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise _refused(place, error) from None
    try:
        try_lock(handle)  # says that its process is alive
        fault("scratch.create")
        yield folder
    except OSError as error:
        raise _refused(place, error) from None
    finally:
        os.close(handle)
        shutil.rmtree(folder, ignore_errors=True)


def _refused(place: str, error: OSError) -> InputError:
    return InputError(f"{place}: cannot be written ({error.strerror}); make room, or set TMPDIR")


def _sweep(place: str) -> None:
    """Remove folders of processes that were killed: nobody holds their lock."""
    ours = re.compile(re.escape(_PREFIX) + r"\w{8}")
    try:
        folders = [entry.path for entry in os.scandir(place) if ours.fullmatch(entry.name) and entry.is_dir()]
    except OSError:
        return
    for folder in folders:
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:  # another user's, or gone
            continue
        try:
            if time.time() - os.fstat(handle).st_mtime > STALE and try_lock(handle):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)
