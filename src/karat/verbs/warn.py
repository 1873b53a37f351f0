"""The Python warnings of public functions: what makes figures misleading reaches a caller who never reads the notes."""

from __future__ import annotations

import sys
import warnings
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from karat.errors import KaratWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Verb = TypeVar("Verb", bound="Callable[..., Any]")
OWN = __name__.partition(".")[0]


def gives_warnings(verb: Verb) -> Verb:
    """Warn of what is serious in the notes of what a verb returns, at the line that calls it.

    Callers inside Karat, which are the command line and other verbs, print or hand on the notes themselves.
    """

    @wraps(verb)
    def call(*arguments: Any, **keywords: Any) -> Any:
        outcome = verb(*arguments, **keywords)
        if sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] != OWN:
            warn_of(outcome.warnings, stacklevel=3)
        return outcome

    return cast("Verb", call)


def warn_of(texts: Iterable[str], *, stacklevel: int) -> None:
    """A `KaratWarning` for each text; `stacklevel` is that of `warnings.warn`, counted from here."""
    for text in texts:
        warnings.warn(text, KaratWarning, stacklevel=stacklevel)
