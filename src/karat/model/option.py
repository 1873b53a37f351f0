"""An option is declared once, as a field: keyword arguments, flags and keys of karat.yaml come from its declaration."""

from __future__ import annotations

from dataclasses import field, fields
from inspect import get_annotations
from sys import float_info
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from karat.errors import UsageError, nearest
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from karat.model.ranked_docs import RankedDocs

Kind = Literal[
    "address", "choice", "count", "fields", "number", "object", "path", "paths", "share", "size", "text", "yes"
]
"""What an option holds. A `share` is between 0 and 1, a `number` any finite one. An `object` exists in Python alone: a
flag or a config cannot hold it. In Python an `address` may be what is found there."""
_KINDS: dict[Any, Kind] = {bool: "yes", int: "count", float: "number", str: "text"}


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the verbs that evaluate."""

    name: str
    default: Any
    kind: Kind
    help: str
    panel: str
    key: str
    """Its place in karat.yaml, with dots."""
    choices: tuple[str, ...] = ()
    least: int = 0
    metavar: str | None = None
    names: tuple[str, ...] = ()
    """Names that a path may be instead of a place: those of data that packages bring."""
    off: str = ""
    """The help of the flag that switches the option off."""
    selects: Callable[[RankedDocs, Any], Any] | None = None
    """For a convention on docs: those that count, as a mask or as row numbers in their order."""
    by_gold: bool = False
    """Whether `selects` looks at judgments."""
    regrades: Callable[[NDArray[np.float64], Any], NDArray[np.float64]] | None = None
    """For a convention on judgments: the grades that count."""

    @property
    def flag(self) -> str:
        """What the command line calls it; an option that is on by default is switched off."""
        return ("--no-" if self.default is True else "--") + self.name.replace("_", "-")

    def check(self, value: Any) -> Any:
        """The value to keep: the default for None, and an error for what the option cannot hold."""
        if value is None:
            return self.default
        if self.kind == "choice" and str(value).lower() in self.choices:
            return str(value).lower()
        if (expected := self._expected(value)) is not None:
            near = nearest(str(value), self.choices) if self.choices else None
            hint = f"; did you mean {near!r}?" if near else ""
            raise UsageError(f"{self.name} must be {expected}, found {value!r}{hint}")
        return value

    def _expected(self, value: Any) -> str | None:
        """What the option holds, where the value is something else."""
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if self.kind == "choice":
            return f"one of {', '.join(self.choices)}"
        if self.kind == "count" and not (number and isinstance(value, int) and value >= self.least):
            return f"an integer from {self.least}"
        if self.kind == "share" and not (number and 0 < value < 1):
            return "between 0 and 1" + (f", such as {self.default}" if self.default is not None else "")
        if self.kind == "number" and not (number and abs(value) <= float_info.max):
            return "a finite number"
        if self.kind == "text" and not (isinstance(value, str) and len(value) >= self.least):
            return "at least one character" if self.least else "text"
        if self.kind == "yes" and value not in (True, False):
            return "true or false"
        return None


class OptionGroup:
    """Options that belong together: a frozen dataclass whose fields are made by `option`."""

    __slots__ = ()
    PANEL: ClassVar[str]
    """The heading over these options in `--help`."""
    BLOCK: ClassVar[str]
    """The block of karat.yaml that holds them."""

    def __post_init__(self) -> None:
        for each in options_of(type(self)):
            object.__setattr__(self, each.name, each.check(getattr(self, each.name)))


def option(
    default: Any,
    help: str,
    *,
    kind: Kind | None = None,
    key: str | None = None,
    choices: tuple[str, ...] = (),
    least: int = 1,
    metavar: str | None = None,
    names: tuple[str, ...] = (),
    off: str = "",
    selects: Callable[[RankedDocs, Any], Any] | None = None,
    by_gold: bool = False,
    regrades: Callable[[NDArray[np.float64], Any], NDArray[np.float64]] | None = None,
) -> Any:
    """A field that is an option; what it holds follows from its type unless `kind` says it.

    `selects` and `regrades` say what a convention does; they are called with the option's value, if it is not the
    default.
    """
    about = {"help": help, "kind": kind, "key": key, "choices": choices, "least": least, "metavar": metavar}
    about |= {"names": names, "off": off}
    return field(default=default, metadata=about | {"selects": selects, "by_gold": by_gold, "regrades": regrades})


_DECLARED: dict[type[Any], tuple[Option, ...]] = {}


def options_of(group: type[Any]) -> tuple[Option, ...]:
    """The options that a group declares."""
    if group not in _DECLARED:
        types = {n: kind for c in reversed(group.__mro__) for n, kind in get_annotations(c, eval_str=True).items()}
        _DECLARED[group] = tuple(_option(group, f, types[f.name]) for f in fields(group) if "help" in f.metadata)
    return _DECLARED[group]


def _option(group: type[OptionGroup], declared: Any, hint: Any) -> Option:
    about = dict(declared.metadata)
    parts = [hint, *get_args(hint)]
    literal = next((p for p in parts if getattr(p, "__origin__", None) is Literal), None)
    about["choices"] = about["choices"] or (get_args(literal) if literal is not None else ())
    inferred: Kind = "choice" if about["choices"] else next((_KINDS[p] for p in parts if p in _KINDS), "object")
    about["kind"] = about["kind"] or inferred
    about["key"] = about["key"] or f"{group.BLOCK}.{declared.name}"
    return Option(declared.name, declared.default, panel=group.PANEL, **about)
