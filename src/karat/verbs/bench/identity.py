"""What a retriever's answers rest on: whether a log that is there may be taken for what it would say today."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from karat.retrieve.protocol import Base, everything_in
from karat.retrieve.registry import Function

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Identity:
    """What answers rest on, in few characters; whether that can be told `apart`, and whether it is all (`lasting`).

    What a function, a server or a database answers may change without a trace: logs of such retrievers are
    gone on with after a stop, and made anew once a benchmark is through.
    """

    told: str
    apart: bool
    lasting: bool


def identity_of(retriever: Any) -> Identity:
    """From all that a retriever is made of."""
    told: list[Any] = []
    apart = lasting = True
    for one in everything_in(retriever):
        if isinstance(one, Function):
            known, lasting = code_of(one.function), False
        elif isinstance(one, Base):
            known = one.rests_on
            lasting = lasting and known is not None
            if known is None:  # a function of the caller's inside, or a system elsewhere
                held = getattr(one, "encoder", None) or getattr(one, "scorer", None)
                function = getattr(held, "function", None)
                known = type(one).__name__ if function is None else code_of(function)
        else:  # an object of the caller's
            known, lasting = getattr(one, "identity", None), False
        apart = apart and known is not None
        told.append(known)
    text = json.dumps(told, sort_keys=True, default=str)
    return Identity(hashlib.sha256(text.encode()).hexdigest()[:8], apart, lasting)


def code_of(function: Any) -> str | None:
    """A hash of the files that a function's code lies in, and of what it has imported from beside them."""
    module = sys.modules.get(getattr(function, "__module__", None) or type(function).__module__)
    home = getattr(module, "__file__", None)
    if module is None or home is None or module.__name__ == "__main__":
        return None
    hasher = hashlib.sha256()
    for path in sorted({home, *_beside(os.path.dirname(os.path.realpath(home)))}):
        try:
            with open(path, "rb") as file:
                hasher.update(file.read())
        except OSError:
            return None
    return hasher.hexdigest()[:16]


def _beside(folder: str) -> Iterator[str]:
    """The files of loaded modules that lie in a folder or below it, but for installed packages."""
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path and path.endswith(".py"):
            place = _real_path(path)
            if place.startswith(folder + os.sep) and "site-packages" not in place[len(folder) :]:
                yield place


@cache
def _real_path(path: str) -> str:
    """Where a file of a loaded module is; every benchmark asks for all of them."""
    return os.path.realpath(path)
