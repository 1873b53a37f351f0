"""Writing files so that a crash leaves the old one or the new one, never half of one."""

from __future__ import annotations

import os
import tempfile

from karat.errors import InputError


def write_atomically(path: str, data: bytes) -> None:
    """Write to a temporary name beside the file, then rename it into place."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", suffix=".tmp", dir=folder)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); choose a folder that can be") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        _remove(temporary)
        raise InputError(f"{path}: cannot be written ({error.strerror}); choose another name") from None
    except BaseException:
        _remove(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def rounded(value: float) -> float | None:
    """A number as it is written: 12 significant digits, null for undefined."""
    return None if value != value else float(f"{value:.12g}")
