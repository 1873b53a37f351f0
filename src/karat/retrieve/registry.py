"""Retrievers by name: those built in, those of installed packages (entry points), and `module:function`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import pkgutil
import sys
from typing import TYPE_CHECKING, Any

from karat.errors import KaratError, UsageError, nearest, shown
from karat.records import dataclass
from karat.retrieve.protocol import Base, name_query, read_answer
from karat.retrieve.spec import Spec, parse_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from karat.retrieve.corpus import Corpus
    from karat.retrieve.protocol import Answer, Query, Retriever

GROUP = "karat.retrievers"
"""The entry points of packages that bring retrievers: a name, and a class or function that makes one."""
_KINDS: dict[str, Kind] = {}
_NUMBERS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "bool": ("true or false", lambda value: value in (True, False)),
    "float": ("a number", lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)),
    "int": ("an integer", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "None": ("none", lambda value: value is None),
}
"""What parameters of these types are in words, and what tells a value that is one."""


@dataclass(frozen=True)
class Kind:
    """A kind of retriever: what makes one, and what it takes."""

    name: str
    make: Callable[..., Any]
    tells: str
    takes: str = "none"
    """How many retrievers it is made of: none, one or many."""

    @property
    def params(self) -> Mapping[str, object]:
        """Its parameters with their defaults."""
        signature = inspect.signature(self.make).parameters.values()
        return {
            p.name: None if p.default is inspect.Parameter.empty else p.default
            for p in signature
            if p.kind is inspect.Parameter.KEYWORD_ONLY
        }


def retriever(name: str, *, tells: str = "", takes: str = "none") -> Callable[[Any], Any]:
    """Declare a kind of retriever: parameters are keyword-only; the retrievers inside it come before them."""

    def declare(make: Any) -> Any:
        _KINDS[name] = Kind(name, make, tells or (inspect.getdoc(make) or "").split("\n")[0], takes)
        return make

    return declare


def all_kinds() -> dict[str, Kind]:
    """Every kind that is built in, declared, or brought by an installed package."""
    package = importlib.import_module("karat.retrieve")
    for module in pkgutil.iter_modules(package.__path__):  # each loads only what it needs to declare its retrievers
        importlib.import_module(f"{package.__name__}.{module.name}")
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP):
        if entry.name not in _KINDS:
            try:
                retriever(entry.name)(entry.load())
            except Exception as error:
                raise UsageError(
                    f"retriever {entry.name!r} of {entry.value} cannot be loaded ({type(error).__name__}: {error}); "
                    "fix or remove the package that brings it"
                ) from None
    return dict(_KINDS)


def make_retriever(spec: object, others: Mapping[str, Retriever] | None = None) -> Any:
    """A retriever from its spec; `others` holds retrievers that it may contain, by name."""
    if not isinstance(spec, (str, dict, Spec)):
        return _of_object(spec, {}, type(spec).__name__)
    spec = parse_spec(spec)
    if others and not spec.params and not spec.args and spec.kind in others:
        return others[spec.kind]
    if others and str(spec) in others:  # the same one inside another is built once
        return others[str(spec)]
    if ":" in spec.kind:
        instance = _of_object(import_object(spec.kind), spec.params, spec.kind)
        _refuse_args(spec)
    else:
        instance = _of_kind(spec, others)
    if not getattr(instance, "name", ""):
        try:
            instance.name = spec.name
        except AttributeError:
            pass
    return instance


def _of_kind(spec: Spec, others: Mapping[str, Retriever] | None) -> Any:
    kinds = all_kinds()
    kind = kinds.get(spec.kind) or kinds.get(spec.kind.lower())
    if kind is None:
        near = nearest(spec.kind, [*kinds, *(others or {})])
        module, _, name = spec.kind.rpartition(".")
        here = os.path.isfile(os.path.join(*module.split(".")) + ".py") if module else False
        if near is None and module and (here or importlib.util.find_spec(module.split(".")[0])):
            near = f"{module}:{name}"
        hint = f" (did you mean {near!r}?)" if near else ""
        raise UsageError(
            f"unknown retriever {spec.kind!r}{hint}; known: {', '.join(sorted(kinds))}, "
            "or module:function for one of your own"
        )
    if kind.takes == "none":
        _refuse_args(spec)
    elif kind.takes == "one" and len(spec.args) > 1:
        raise UsageError(f"retriever {str(spec)!r}: {spec.kind} works on one retriever, found {len(spec.args)}")
    takes_any = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(kind.make).parameters.values())
    for name in spec.params:
        if name not in kind.params and not takes_any:
            near = nearest(name, kind.params)
            raise UsageError(
                f"retriever {str(spec)!r}: {spec.kind} has no parameter {name!r}"
                + (f" (did you mean {near!r}?)" if near else "")
                + f"; it takes: {', '.join(kind.params) or 'none'}"
            )
    inside = [make_retriever(a, others) for a in spec.args]
    try:
        made = kind.make(*inside, **spec.params)
    except (TypeError, ValueError) as error:
        if isinstance(error, KaratError):
            raise
        _check_numbers(spec, kind)
        raise UsageError(f"retriever {str(spec)!r}: cannot be made with these parameters ({error})") from error
    _check_numbers(spec, kind)  # what the retriever itself says of a value is clearer, and comes first
    return made


def _check_numbers(spec: Spec, kind: Kind) -> None:
    """Refuse a value that is not of its parameter's type, for parameters that are numbers, or true or false."""
    for name, parameter in inspect.signature(kind.make).parameters.items():
        types = [
            part.strip() for part in getattr(parameter.annotation, "__name__", str(parameter.annotation)).split("|")
        ]
        if name in spec.params and all(part in _NUMBERS for part in types):
            value = spec.params[name]
            if not any(_NUMBERS[part][1](value) for part in types):
                expected = " or ".join(_NUMBERS[part][0] for part in types)
                raise UsageError(f"{kind.name}: {name} must be {expected}, found {shown(value)}")


def _refuse_args(spec: Spec) -> None:
    if spec.args:
        raise UsageError(f"retriever {str(spec)!r}: {spec.kind} is not made of others, found {spec.args[0]!s} in it")


def import_object(path: str) -> Any:
    """The object that `module:name` names; modules in the current folder work too, after those installed."""
    module, _, name = path.partition(":")
    if module.endswith(".py"):
        raise UsageError(f"{path}: name the module, not its file: {module.removesuffix('.py')}:{name}")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        value: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{path}: module {module!r} cannot be imported ({type(error).__name__}: {error})") from error
    for part in name.split("."):
        if not hasattr(value, part):
            near = nearest(part, [n for n in dir(value) if not n.startswith("_")])
            raise UsageError(f"{path}: nothing named {part!r} there" + (f"; did you mean {near!r}?" if near else ""))
        value = getattr(value, part)
    return value


def _of_object(source: Any, params: Mapping[str, object], where: str) -> Any:
    """A retriever from an object: one already, a class of one, a framework's retriever, or a function."""
    if inspect.isclass(source):
        try:
            return _of_object(source(**params), {}, where)
        except KaratError:
            raise
        except Exception as error:
            raise UsageError(f"{where}: cannot be made ({type(error).__name__}: {error})") from error
    if not params:
        wrapper = _of_framework(source)
        if wrapper is not None:
            return wrapper
        if callable(getattr(source, "retrieve", None)):
            return source
    if callable(source):
        return Function(source, params, where)
    raise UsageError(f"{where}: expected a function (query, k), or an object with retrieve, found {shown(source)}")


def _of_framework(source: Any) -> Any:
    """The wrapper of an object of LangChain or LlamaIndex, recognised by the packages of its classes."""
    packages = {c.__module__.split(".")[0] for c in type(source).__mro__}
    for package, kind in (("langchain_core", "langchain"), ("llama_index", "llamaindex")):
        if package in packages:
            return all_kinds()[kind].make(retriever=source)
    return None


class Function(Base):
    """A function of a query and k, and of the parameters in its spec."""

    def __init__(self, function: Callable[..., Any], params: Mapping[str, object], where: str) -> None:
        self.function, self.params, self.where = function, params, where

    def index(self, corpus: Corpus) -> None:
        """A function brings its own index; if it has an attribute `index`, that is called with the corpus."""
        own_index = getattr(self.function, "index", None)
        if callable(own_index):
            own_index(corpus)

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Answer]:
        return [read_answer(self.function(q, k, **self.params), f"{self.where}, {name_query(q)}") for q in queries]
