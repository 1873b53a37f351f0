"""The spec of a retriever: `bm25`, `dense(model=wordllama)`, `mine=hybrid(bm25, dense, weights=[1, 2])`."""

from __future__ import annotations

import json
import re
from dataclasses import field
from typing import TYPE_CHECKING

from karat.errors import UsageError, shown
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.model.json_data import Json

_LABEL = re.compile(r"\s*([^=(),\[\]'\"]+?)\s*=\s*(?=[^=])")
_KIND = re.compile(r"[A-Za-z_][\w.]*(?::[A-Za-z_][\w.]*)?|[A-Za-z_][\w.-]*")
_PARAM = re.compile(r"\s*([a-z_]\w*)\s*=(?!=)\s*")
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
EXAMPLES = "like bm25, dense(model=wordllama), fused=hybrid(bm25, dense) or my_module:search"


@dataclass(frozen=True)
class Spec:
    """The spec of a retriever: its kind, the retrievers inside it, and its parameters."""

    kind: str
    args: tuple[Spec, ...] = ()
    params: Mapping[str, object] = field(default_factory=dict)
    label: str | None = None

    def __str__(self) -> str:
        """The same without its label; parameters by name, so that equal retrievers print alike."""
        inside = [str(a) for a in self.args] + [f"{n}={_print_value(v)}" for n, v in sorted(self.params.items())]
        return f"{self.kind}({', '.join(inside)})" if inside else self.kind

    @property
    def name(self) -> str:
        """What its run is called."""
        return self.label or str(self)


def parse_spec(text: object) -> Spec:
    """A spec from its text, or from a mapping as a config writes it: {kind: dense, name: mine, model: …}."""
    if isinstance(text, Spec):
        return text
    if isinstance(text, dict):
        return _from_mapping(text)
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"a retriever must be written {EXAMPLES}, found {shown(text)}")
    label = _LABEL.match(text)
    reader = _Reader(text, label.end() if label else 0)
    spec = reader.spec()
    reader.space()
    if reader.at != len(text):
        raise reader.wrong("the end (name each retriever separately)" if text[reader.at] == "," else "the end")
    return Spec(spec.kind, spec.args, spec.params, label[1] if label else None)


def _from_mapping(mapping: Mapping[str, object]) -> Spec:
    rest = dict(mapping)
    kind, label, of = rest.pop("kind", None), rest.pop("name", None), rest.pop("of", ())
    if not isinstance(kind, str):
        raise UsageError(f"a retriever must have a kind, {EXAMPLES}, found {shown(dict(mapping))}")
    args = tuple(parse_spec(inner) for inner in (of if isinstance(of, (list, tuple)) else [of]))
    base = parse_spec(kind)
    return Spec(base.kind, base.args + args, {**base.params, **rest}, label if label is None else str(label))


class _Reader:
    """Reads a spec from left to right."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at

    def wrong(self, expected: str) -> UsageError:
        rest = self.text[self.at :]
        excerpt = shown(rest) if rest else "its end"
        return UsageError(f"retriever {shown(self.text)}: expected {expected}, found {excerpt}; write it {EXAMPLES}")

    def space(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def accept(self, mark: str) -> bool:
        self.space()
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def spec(self) -> Spec:
        self.space()
        kind = _KIND.match(self.text, self.at)
        if kind is None:
            raise self.wrong("the name of a retriever")
        self.at = kind.end()
        args: list[Spec] = []
        params: dict[str, object] = {}
        if self.accept("("):
            while not self.accept(")"):
                if args or params:
                    if not self.accept(","):
                        raise self.wrong("',' or ')'")
                    self.space()
                name = _PARAM.match(self.text, self.at)
                if name is None:
                    args.append(self.spec())
                    continue
                if name[1] in params:
                    raise UsageError(f"retriever {shown(self.text)}: {name[1]} is given twice")
                self.at = name.end()
                params[name[1]] = self.value()
        return Spec(kind[0], tuple(args), params)

    def value(self) -> Json:
        self.space()
        for mark in "\"'":
            if self.text.startswith(mark, self.at):
                end = self.text.find(mark, self.at + 1)
                if end < 0:
                    raise self.wrong(f"a closing {mark}")
                text, self.at = self.text[self.at + 1 : end], end + 1
                return text
        if self.accept("["):
            items: list[Json] = []
            while not self.accept("]"):
                if items and not self.accept(","):
                    raise self.wrong("',' or ']'")
                items.append(self.value())
            return items
        start, depth, in_quotes = self.at, 0, False
        while self.at < len(self.text):
            mark = self.text[self.at]
            if depth == 0 and mark in ",])":
                break
            if in_quotes:  # brackets inside a JSON string do not count
                self.at += mark == "\\"
            else:
                depth += (mark in "([{") - (mark in ")]}")
            in_quotes ^= depth > 0 and mark == '"'
            self.at += 1
        word = self.text[start : self.at].strip()
        if not word:
            raise self.wrong("a value")
        return _value(word)


def _value(word: str) -> Json:
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    if word.lower() in ("none", "null"):
        return None
    if _NUMBER.fullmatch(word):
        return int(word) if re.fullmatch(r"-?\d+", word) else float(word)
    return word


def _print_value(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_print_value(v) for v in value) + "]"
    if isinstance(value, str) and (
        not value or isinstance(_value(value), (bool, int, float)) or set(value) & set(",()[]'\" ")
    ):
        return json.dumps(value, ensure_ascii=False) if '"' not in value else f"'{value}'"
    return str(value)
