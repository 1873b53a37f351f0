"""Output formats: one module each, found by its declaration `FORMAT`.

A flag `--NAME` of every verb that has the format, a key `outputs.NAME` of karat.yaml, and a file that is replaced after
an error follow from the declaration: to add a format, add a module.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from karat.report.view import View

EVALUATES = ("evaluate", "compare", "check", "bench")
"""Verbs whose result holds runs with values per query."""


@dataclass(frozen=True)
class Problem:
    """Why there is nothing to show: the messages of an error that came before any result."""

    messages: Sequence[str]
    title: str = ""


@dataclass(frozen=True)
class Format:
    """One way to write a view."""

    name: str
    help: str
    write: Callable[[View, str], None]
    """Write the file, whole or not at all; `-` is standard output where `prints` allows it."""
    write_error: Callable[[Problem, str], None]
    """Replace the file of an earlier result after an error: nothing of it may look current."""
    verbs: tuple[str, ...] = EVALUATES
    endings: tuple[str, ...] = ()
    """The file's name must end in one of these; any ending where there are none."""
    prints: bool = True
    """Whether it may go to standard output."""
    details: bool = False
    """Whether it needs the ranked lists."""
    expendable: bool = False
    """Whether a verdict stands without it: where it cannot be made, a check says so and keeps its exit code."""


@cache
def all_formats() -> Mapping[str, Format]:
    """Every format by its name."""
    modules = sorted(m.name for m in pkgutil.iter_modules(__path__))
    formats = [import_module(f"{__name__}.{module}").FORMAT for module in modules]
    return {one.name: one for one in formats}
