"""Damage to data: of bytes, of lines and cells, and of the tree that a JSON or YAML text holds."""

from __future__ import annotations

import copy
import gzip
from collections.abc import Callable
from random import Random
from typing import Any

import zstandard

TOKENS = [
    *(bytes([mark]) for mark in b"\"',\t;| \n\r#\\{}[]:\x00\x0b\x0c\x1c\xff\xc3"),
    *(b"\r\n", b"\n\n", b"\x1b[31m", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xc2\x85", b"\xd9\xa1"),
    *b"nan NaN inf -Infinity 1e999 1_000 0x10 1e-400 --1 true null q1 d1 1 0 -1 1.5".split(),
    *(b'""', b'"a', b'a"b', b"\\u0000", b"\\ud800", b"/*", b"<!--", b"&a", b"*a", b"<<: "),
]
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 2**70, 10**400, 1e308, "", " ", "1", "1.0", "nan", "true", "\x00", "\x1b[2J"),
    *([], {}, [[]], [1], {"a": 1}, [None], {"": ""}, "x" * 300, "\ud7ff", "=1+1", "2025-13-01", "garbage"),
]


def mutate_bytes(rng: Random, data: bytes) -> bytes:
    """One change somewhere."""
    return rng.choice(_BYTES)(rng, data)


def mutate_lines(rng: Random, data: bytes) -> bytes:
    """One change to a line or to a cell of one."""
    return rng.choice(_LINES)(rng, data)


def mutate_tree(rng: Random, tree: Any) -> Any:
    """One change to a node of plain data."""
    tree = copy.deepcopy(tree)
    places = list(_places(tree))
    if not places:
        return rng.choice(VALUES)
    parent, key = rng.choice(places)
    change = rng.randrange(8)
    if change >= 6 and type(parent[key]) in (int, float):
        parent[key] = rng.choice([parent[key] + 1, parent[key] - 1, parent[key] * 1.01, -parent[key], parent[key] / 2])
    elif change == 0:
        del parent[key]
    elif change == 1 and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    elif change == 1:
        parent[rng.choice(["", "x", "Score", "doc_id", "topk", f"{key} "])] = copy.deepcopy(parent[key])
    elif change == 2:
        other, place = rng.choice(places)
        parent[key] = copy.deepcopy(other[place])
    elif change == 3:
        parent[key] = [parent[key]]
    else:
        parent[key] = rng.choice(VALUES)
    return tree


def pack(rng: Random, data: bytes) -> bytes:
    """The data as gzip or zstd, sometimes damaged."""
    packed = gzip.compress(data, mtime=0) if rng.random() < 0.5 else zstandard.compress(data)
    return mutate_bytes(rng, packed) if rng.random() < 0.3 else packed


def _places(tree: Any) -> Any:
    """Every container of a tree with every key or index of it."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield tree, key
        yield from _places(value)


def _cut(rng: Random, data: bytes) -> tuple[int, int]:
    begin = rng.randrange(len(data) + 1)
    return begin, min(len(data), begin + rng.choice([1, 1, 2, 5, 20]))


def _insert(rng: Random, data: bytes) -> bytes:
    begin, _ = _cut(rng, data)
    return data[:begin] + rng.choice(TOKENS) + data[begin:]


def _replace(rng: Random, data: bytes) -> bytes:
    begin, end = _cut(rng, data)
    return data[:begin] + rng.choice(TOKENS) + data[end:]


def _delete(rng: Random, data: bytes) -> bytes:
    begin, end = _cut(rng, data)
    return data[:begin] + data[end:]


def _flip(rng: Random, data: bytes) -> bytes:
    begin, _ = _cut(rng, data)
    return data[:begin] + bytes([rng.randrange(256)]) + data[begin + 1 :]


def _truncate(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _repeat(rng: Random, data: bytes) -> bytes:
    begin, end = _cut(rng, data)
    return data[:end] + data[begin:end] * rng.choice([1, 2, 50]) + data[end:]


def _with_lines(change: Callable[[Random, list[bytes]], None]) -> Callable[[Random, bytes], bytes]:
    def mutate(rng: Random, data: bytes) -> bytes:
        lines = data.split(b"\n")
        change(rng, lines)
        return b"\n".join(lines)

    return mutate


def _move_line(rng: Random, lines: list[bytes]) -> None:
    lines.insert(rng.randrange(len(lines)), lines.pop(rng.randrange(len(lines))))


def _repeat_line(rng: Random, lines: list[bytes]) -> None:
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))


def _drop_line(rng: Random, lines: list[bytes]) -> None:
    del lines[rng.randrange(len(lines))]


def _add_line(rng: Random, lines: list[bytes]) -> None:
    lines.insert(rng.randrange(len(lines) + 1), rng.choice([b"", b"  ", b"# note", b"\r", b"a", b",,,", b"{}", b'"']))


def _change_cell(rng: Random, lines: list[bytes]) -> None:
    i = rng.randrange(len(lines))
    mark = max([b" ", b"\t", b",", b";"], key=lines[i].count)
    cells = lines[i].split(mark)
    cells[rng.randrange(len(cells))] = rng.choice([*TOKENS, b"", b"a b", b'"a b"', b'"a,b"', b'"a""b"', b"1e5", b"+.5"])
    lines[i] = mark.join(cells)


def _swap_cells(rng: Random, lines: list[bytes]) -> None:
    i = rng.randrange(len(lines))
    mark = max([b" ", b"\t", b",", b";"], key=lines[i].count)
    cells = lines[i].split(mark)
    rng.shuffle(cells)
    lines[i] = mark.join(cells)


def _line_ends(rng: Random, lines: list[bytes]) -> None:
    lines[:] = [line + b"\r" for line in lines] if rng.random() < 0.5 else [b"\r".join(lines)]


_BYTES = [_insert, _insert, _replace, _replace, _delete, _flip, _truncate, _repeat]
_LINES = [
    *map(_with_lines, (_move_line, _repeat_line, _drop_line, _add_line, _line_ends)),
    *map(_with_lines, (_change_cell, _change_cell, _change_cell, _swap_cells)),
]
