"""Doing without Python's search for garbage where there is none to find."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def without_collection() -> Iterator[None]:
    """Look for no garbage meanwhile: all that a file is made of stays, and each look at it takes longer.

    Around a whole function, what it made is gone before the next look.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
