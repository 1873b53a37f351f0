"""Writing files so that a crash leaves the old one or the new one, never half of one."""

from __future__ import annotations

import errno
import os
import re
import stat
import time

from karat.errors import InputError
from karat.store.faults import fault

STALE = 3600.0
"""Seconds after which a temporary file is one that a killed process left: a write takes far less."""


def write_atomically(path: str, data: bytes) -> None:
    """Write to a hidden temporary name beside the file, then rename it into place."""
    target = os.path.realpath(path)  # a link stays a link: what it names is replaced
    mode = _mode(path, target)
    if mode is not None and not stat.S_ISREG(mode):
        _write_through(path, data)
        return
    import tempfile  # here, since few runs write files

    folder, name = os.path.split(target)
    prefix = f".{name[:40]}."
    _sweep(folder, prefix)
    try:
        fault("atomic.open")
        handle, temporary = tempfile.mkstemp(prefix=prefix, suffix=".tmp", dir=folder)
    except OSError as error:
        raise write_error(path, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            fault("atomic.create")
            file.write(data)
            file.flush()
            fault("atomic.write")
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask() if mode is None else stat.S_IMODE(mode))
        fault("atomic.replace")
        os.replace(temporary, target)
        fault("atomic.done")
    except OSError as error:
        _remove(temporary)
        raise write_error(path, error) from None
    except BaseException:
        _remove(temporary)
        raise


def encoded(text: str) -> bytes:
    """Text as UTF-8; half a character, as a file's odd name may hold, as JSON escapes it."""
    return text.encode("utf-8", "backslashreplace")


def write_error(path: str, error: OSError) -> InputError:
    """The error for a file that cannot be written."""
    hint = {errno.ENOENT: "make its folder first", errno.ENOSPC: "make room", errno.EFBIG: "make room"}
    todo = hint.get(error.errno or 0, "choose another place")
    return InputError(f"{path}: cannot be written ({error.strerror}), and nothing was changed; {todo}")


def _mode(path: str, target: str) -> int | None:
    """What is there already: its kind and permissions."""
    try:
        mode = os.stat(target).st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        raise InputError(f"{path}: cannot be written (Is a directory); expected the name of a file")
    return mode


def _write_through(path: str, data: bytes) -> None:
    """A device or a pipe, such as /dev/null, is written to and never replaced."""
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise write_error(path, error) from None


def _sweep(folder: str, prefix: str) -> None:
    """Remove what killed processes left of earlier writes of this file; a file of a living one is too young."""
    ours = re.compile(re.escape(prefix) + r"\w{8}\.tmp")
    try:
        for entry in os.scandir(folder):
            if ours.fullmatch(entry.name) and time.time() - entry.stat(follow_symlinks=False).st_mtime > STALE:
                _remove(entry.path)
    except OSError:
        pass


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
