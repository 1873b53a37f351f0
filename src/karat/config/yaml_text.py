"""YAML → plain data, with the line of everything in it; what is not plain, or too much, is an error with its line."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from karat.errors import InputError, Problem, shown
from karat.model.limits import YAML_DEPTH, YAML_VALUES
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

_TAG = "tag:yaml.org,2002:"
_EXPECTED = "expected a config such as `karat init` writes"
Lines = dict[tuple[Any, ...], int]
"""The line of each key and item, by the keys that lead to it."""


def read_yaml(text: str, path: str) -> tuple[Any, Lines]:
    """The plain data of a YAML text, in version 1.2 (`no` and `on` are texts), and the line of everything in it."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        node = YAML(typ="rt").compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        reason = " ".join(filter(None, (error.context, error.problem)))
        raise InputError(Problem(path, line, f"not YAML: {reason}; {_EXPECTED}")) from None
    except YAMLError as error:
        raise InputError(Problem(path, None, f"not YAML: {str(error).splitlines()[0]}")) from None
    except RecursionError:
        raise InputError(Problem(path, None, f"not YAML: nested too deeply; {_EXPECTED}")) from None
    except ValueError as error:
        raise InputError(Problem(path, None, f"not YAML: {error}; {_EXPECTED}")) from None
    reader = _Reader(path)
    return (None if node is None else reader.value(node, ())), reader.lines


@dataclass
class _Reader:
    """Walks over the nodes of a document."""

    path: str
    lines: Lines = field(default_factory=dict)
    count: int = 0
    most: int = field(default_factory=lambda: YAML_VALUES.value)
    depth: int = field(default_factory=lambda: YAML_DEPTH.value)

    @cached_property
    def constructor(self) -> Any:
        """What turns the text of a number into one, as YAML 1.2 has it."""
        from ruamel.yaml import YAML

        return YAML(typ="safe", pure=True).constructor

    def value(self, node: Any, at: tuple[Any, ...]) -> Any:
        """The plain value of a node."""
        self.add(node)
        if len(at) > self.depth:
            self.refuse(node, f"nested more than {self.depth} deep, or an alias that holds itself; {_EXPECTED}")
        kind = str(node.tag).removeprefix(_TAG)
        if node.id == "scalar":
            return self.scalar(node, kind)
        if kind != {"mapping": "map", "sequence": "seq"}[node.id]:
            self.refuse_tag(node, kind)
        if node.id == "mapping":
            return self.mapping(node, at)
        out = []
        for i, item in enumerate(node.value):
            self.lines[*at, i] = item.start_mark.line + 1
            out.append(self.value(item, (*at, i)))
        return out

    def add(self, node: Any) -> None:
        """Count a value: aliases of aliases can stand for more than fits anywhere."""
        self.count += 1
        if self.count > self.most:
            self.refuse(node, f"more than {self.most:,} values, aliases included; {YAML_VALUES.advice}")

    def mapping(self, node: Any, at: tuple[Any, ...]) -> dict[Any, Any]:
        """A mapping: its own keys come before those that `<<` merges into it."""
        out: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if str(key_node.tag) == _TAG + "merge":
                continue
            key = self.key(key_node)
            if key in out:
                self.refuse(key_node, f"the key {shown(key)} appears twice; remove one")
            self.lines[*at, key] = key_node.start_mark.line + 1
            out[key] = self.value(value_node, (*at, key))
        for key_node, value_node in self.merged(node, len(at)):
            key = self.key(key_node)
            if key not in out:
                self.lines[*at, key] = key_node.start_mark.line + 1
                out[key] = self.value(value_node, (*at, key))
        return out

    def merged(self, node: Any, depth: int) -> Iterator[tuple[Any, Any]]:
        """The keys that `<<: *alias`, or a list of aliases, brings into a mapping; the first of a name counts."""
        for key_node, value_node in node.value:
            if str(key_node.tag) != _TAG + "merge":
                continue
            for source in value_node.value if value_node.id == "sequence" else [value_node]:
                if source.id != "mapping":
                    self.refuse(key_node, "<< merges mappings, such as `<<: *name`")
                if depth > self.depth:
                    self.refuse(key_node, f"merged more than {self.depth} deep, or a mapping that merges itself")
                for pair in source.value:
                    self.add(key_node)
                    if str(pair[0].tag) != _TAG + "merge":
                        yield pair
                yield from self.merged(source, depth + 1)

    def key(self, node: Any) -> Any:
        if node.id != "scalar":
            self.refuse(node, f"a key must be text, found a {node.id}; {_EXPECTED}")
        return self.scalar(node, str(node.tag).removeprefix(_TAG))

    def scalar(self, node: Any, kind: str) -> Any:
        """A text, number, boolean or null; a date is a text too."""
        from ruamel.yaml.constructor import SafeConstructor

        if kind in ("str", "timestamp", "merge", "value"):
            return node.value
        build = {
            "null": SafeConstructor.construct_yaml_null,
            "bool": SafeConstructor.construct_yaml_bool,
            "int": SafeConstructor.construct_yaml_int,
            "float": SafeConstructor.construct_yaml_float,
        }.get(kind)
        if build is None:
            self.refuse_tag(node, kind)
        try:
            return build(self.constructor, node)
        except (ValueError, KeyError, IndexError, OverflowError):
            what = {"int": "a whole number of a usual size", "float": "a number", "bool": "true or false"}
            self.refuse(node, f"expected {what.get(kind, kind)}, found {shown(node.value)}")

    def refuse_tag(self, node: Any, kind: str) -> NoReturn:
        tag = f"!!{kind}" if str(node.tag).startswith(_TAG) else kind
        self.refuse(node, f"the tag {shown(tag)} has no meaning here; write the value without it")

    def refuse(self, node: Any, problem: str) -> NoReturn:
        raise InputError(Problem(self.path, node.start_mark.line + 1, problem))
