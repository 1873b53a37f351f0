"""What decides the answers of a retriever: whether a log, whole or begun, can stand for what it would answer today."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from karat.records import dataclass
from karat.retrieve.protocol import Base, everything_in
from karat.retrieve.registry import Function

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Identity:
    """A hash of all that is known to decide the answers of a retriever, and how far it can be trusted.

    A function, a server or a database may change its answers without a trace: logs of such retrievers are
    resumed after an interruption, and made again once a benchmark is complete.
    """

    digest: str
    complete: bool
    """Whether every part of the retriever is covered: only then an unfinished log is resumed."""
    lasting: bool
    """Whether nothing else can change the answers: only then a complete log is reused."""


def identity_of(retriever: Any) -> Identity:
    """The identity of a retriever, from all the parts that it is made of."""
    parts: list[Any] = []
    lasting = True
    for part in everything_in(retriever):
        if isinstance(part, Function):
            basis, lasting = code_of(part.function), False
        elif isinstance(part, Base):
            basis = part.rests_on
            lasting = lasting and basis is not None
            if basis is None:  # a function of the caller's inside, or a system elsewhere
                inner = getattr(part, "encoder", None) or getattr(part, "scorer", None)
                function = getattr(inner, "function", None)
                basis = type(part).__name__ if function is None else code_of(function)
        else:  # an object of the caller's
            basis, lasting = getattr(part, "identity", None), False
        parts.append(basis)
    text = json.dumps(parts, sort_keys=True, default=str)
    return Identity(hashlib.sha256(text.encode()).hexdigest()[:8], None not in parts, lasting)


def code_of(function: Any) -> str | None:
    """A hash of the file of a function and of the modules from its folder that are loaded."""
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
    """The files of loaded modules in a folder or below it, without installed packages."""
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path and path.endswith(".py"):
            place = _real_path(path)
            if place.startswith(folder + os.sep) and "site-packages" not in place[len(folder) :]:
                yield place


@cache
def _real_path(path: str) -> str:
    """The real path of a module's file, cached: every benchmark looks at all loaded modules."""
    return os.path.realpath(path)
