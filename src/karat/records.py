"""Records: `dataclass` as Python's own, at a tenth of the time to declare one.

Python's own compiles six methods for each class when its module is imported: for the records of an evaluation that
takes almost as long as importing numpy. Here all records share these methods, and each class compiles its `__init__`
when it has had a few records. Fields are Python's own, so `field`, `fields`, `replace` and `asdict` of `dataclasses`
work as ever.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from dataclasses import MISSING, FrozenInstanceError, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
else:

    def dataclass(kind=None, /, *, frozen=False, eq=True, slots=False):
        """Make a class a record, with the meaning that each option has in `dataclasses`."""

        def make(kind):
            own = {name for name in ("__init__", "__repr__", "__eq__", "__hash__") if vars(kind).get(name) is not None}
            heir = frozen and any(map(dataclasses.is_dataclass, kind.__bases__))
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, frozen=heir)(kind)
            made.__dataclass_params__.frozen = frozen  # what inherits from it, Python's own as well, must be alike
            shared = {"__repr__": _repr}
            if eq:
                shared |= {"__eq__": _equal, "__hash__": _hash if frozen else None}
            if frozen:
                shared |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
            if frozen and slots:
                shared |= {"__getstate__": _state, "__setstate__": _set_state}
            for name, method in ({"__init__": _Init(made, frozen)} | shared).items():
                if name not in own:
                    setattr(made, name, method)
            return made

        return make if kind is None else make(kind)


class _Factory:
    """Stands for a default that is made anew for each record, as in the signatures of Python's own."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


FEW = 16
"""Records of a class that are made without a compiled `__init__`: to compile it takes as long as making so many."""


class _Init:
    """The `__init__` of a class with few records so far."""

    def __init__(self, owner: type[Any], frozen: bool) -> None:
        self.owner = owner
        self.frozen = frozen
        self.count = 0
        self.places: list[str] = []
        """The fields that arguments without names fill, in their order."""

    def __get__(self, record: object, kind: type[Any] | None = None) -> Any:
        if record is None or self.count >= FEW:
            init = self.owner.__init__ = _compile_init(self.owner, self.frozen)
            return init if record is None else init.__get__(record, kind)
        if not self.count:
            self.places = [each.name for each in fields(self.owner) if each.init and not each.kw_only]
        self.count += 1
        return functools.partial(self._fill, record)

    def _fill(self, record: Any, /, *values: object, **named: object) -> None:
        """Do what the compiled `__init__` does; arguments that do not fit are left to it, and its error."""
        given = dict(zip(self.places, values, strict=False))
        fits = len(values) <= len(self.places) and given.keys().isdisjoint(named)
        given |= named
        put = object.__setattr__ if self.frozen else setattr
        left = len(given)
        for each in fields(self.owner):
            if each.init and each.name in given:
                value = given[each.name]
                left -= 1
            elif each.default_factory is not MISSING:
                value = each.default_factory()
            elif each.default is not MISSING:
                value = each.default
            else:
                fits = fits and not each.init
                continue
            if fits:
                put(record, each.name, value)
        if left or not fits:
            _compile_init(self.owner, self.frozen)(record, *values, **named)
        elif hasattr(self.owner, "__post_init__"):
            record.__post_init__()


def _compile_init(owner: type[Any], frozen: bool) -> Any:
    """The `__init__` that Python's own would have: keyword-only arguments last, then `__post_init__`."""
    names: dict[str, object] = {"_set": object.__setattr__, "_factory": _FACTORY}
    places: dict[bool, list[str]] = {False: [], True: []}
    lines = []
    for each in fields(owner):
        value = name = each.name
        made = each.default_factory is not MISSING
        default = f"_default_{name}"
        names[default] = each.default_factory if made else each.default
        optional = made or each.default is not MISSING
        if not each.init:
            if not optional:
                continue
            value = f"{default}()" if made else default
        else:
            places[bool(each.kw_only)].append(f"{name}={'_factory' if made else default}" if optional else name)
            if made:
                value = f"{default}() if {name} is _factory else {name}"
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(owner, "__post_init__"):
        lines.append("self.__post_init__()")
    arguments = ["self", *places[False], *(["*", *places[True]] if places[True] else [])]
    body = "\n    ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(arguments)}):\n    {body}", names)
    init: Any = names["__init__"]
    init.__qualname__ = f"{owner.__qualname__}.__init__"
    init.__module__ = owner.__module__
    init.__annotations__ = {each.name: each.type for each in fields(owner) if each.init} | {"return": None}
    return init


@functools.cache
def _values(kind: Any) -> Callable[[object], object]:
    """A function of a record: the values that decide whether it equals another."""
    names = [each.name for each in fields(kind) if each.compare]
    return operator.attrgetter(*names) if names else lambda record: ()


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    values = _values(self.__class__)
    return (values(self),) == (values(other),)  # in a tuple, what is the same object is equal


def _hash(self: Any) -> int:
    return hash(_values(self.__class__)(self))


def _repr(self: Any) -> str:
    values = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({values})"


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
