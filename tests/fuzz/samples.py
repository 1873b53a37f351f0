"""What writers of cases share: ids, numbers, rows, and damage. A seed makes the same case everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from mutations import VALUES, mutate_bytes, mutate_lines, mutate_tree, pack


@dataclass(frozen=True)
class Case:
    """One input: its kind, the name of its file, and what the file holds."""

    kind: str
    name: str
    data: bytes
    damaged: bool = True


@dataclass(frozen=True)
class Kind:
    """A kind of input: what writes a file of it, and damages some, and the strict reader of them."""

    write: Callable[[Random, str], Case]
    read: Callable[[bytes, str], Any]
    format: str = ""
    """The format that the files have, where the kind does not begin with its name."""


IDS = [
    *("d1", "d2", "d3", "D3", "10", "9", "007", "é", "日本", "a-b_c.d", "HP:0000118", "d#1", "d#2"),
    *("=1+1", "-", "null", "nan", "x" * 40, "x" * 150),
]
SPACED = [*IDS, "a b", " lead", "a,b", 'say "hi"', "a;b", "it's", "topk", "a\tb"]
NUMBERS = [
    *("1", "0", "2", "3", "-1", "0.5", "1.0", "+2", ".25", "3.", "1e-3", "2E2", "0.1", "0.10000000000000001"),
    *("0.30000000000000004", "0.3", "123456789012345678", "5e-324", "1e22", "00.5"),
]


def some_rows(rng: Random, ids: list[str], most: int = 12) -> list[tuple[str, str, str]]:
    rows = []
    for q in rng.sample(["q1", "q2", "q3", "10", "9", "ü"], rng.randint(1, 3)):
        docs = rng.sample(ids, rng.randint(1, min(most, len(ids))))
        numbers = [rng.choice(NUMBERS) for _ in docs]
        if rng.random() < 0.7:
            numbers.sort(key=float, reverse=True)
        rows += [(q, doc, number) for doc, number in zip(docs, numbers, strict=True)]
    if rng.random() < 0.2:
        rng.shuffle(rows)
    return rows


def damage(rng: Random, data: bytes, *, lines: bool = True) -> tuple[bytes, bool]:
    count = rng.choice([0, 1, 1, 1, 2, 4])
    for _ in range(count):
        data = (mutate_lines if lines and rng.random() < 0.6 else mutate_bytes)(rng, data)
    if lines and rng.random() < 0.03:
        data = b"\xef\xbb\xbf" + data
    return data, count > 0


def finish(rng: Random, kind: str, name: str, data: bytes, *, lines: bool = True) -> Case:
    data, damaged = damage(rng, data, lines=lines)
    if rng.random() < 0.05:
        return Case(kind, name, pack(rng, data))
    return Case(kind, name, data, damaged)


def as_number(rng: Random, text: str) -> Any:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 1e15 and rng.random() < 0.7 else value


def dump(rng: Random, tree: Any) -> bytes:
    style: dict[str, Any] = rng.choice([{}, {}, {"separators": (",", ":")}, {"ensure_ascii": False}])
    return json.dumps(tree, **style).encode("utf-8", "surrogatepass")


def damage_json(rng: Random, kind: str, name: str, trees: list[Any]) -> Case:
    """One text per tree on a line of its own: damage to trees, to lines, and keys that appear twice."""
    damaged = False
    if rng.random() < 0.5:
        damaged = True
        place = rng.randrange(len(trees))
        trees[place] = mutate_tree(rng, trees[place])
    texts = [dump(rng, tree) for tree in trees]
    if rng.random() < 0.1:
        place = rng.randrange(len(texts))
        keys = [key for key in trees[place] if key] if isinstance(trees[place], dict) else []
        if keys:
            damaged = True
            again = dump(rng, {rng.choice(keys): rng.choice(VALUES)})
            texts[place] = texts[place][:-1] + b", " + again[1:]
    case = finish(rng, kind, name, b"\n".join(texts) + rng.choice([b"\n", b"\n", b""]))
    return replace(case, damaged=case.damaged or damaged)
