"""JSON, one object per line, and why a text is not JSON."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from karat.errors import InputError, Problem, shown
from karat.read import files
from karat.read.problems import describe_bad_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for a text that is not JSON, or not the JSON that was expected."""


def numbered_lines(path: str, stdin: bytes | None = None) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, with their numbers."""
    for number, line in files.numbered_lines(path, stdin):
        if line.strip() in (b"{", b"["):
            problem = "JSON spread over several lines; expected one JSON object per line: write each on one line"
            raise InputError(Problem(path, number, problem))
        yield number, line


def repeated_in(raw: bytes, tree: object = None) -> str | None:
    """What to say of the key that appears twice in a line, of which decoding keeps the last and says nothing.

    Keys are counted in the text and in the tree that it holds, which takes less time than to look at each. A quote
    before a colon ends a key, unless it is escaped; where that could be, or where white space is before a colon, every
    key is looked at.
    """
    escaped = b"\\" in raw and b'\\"' in raw  # one byte is looked for much faster than two
    spaced = b" :" in raw or (b"\t" in raw and b"\t:" in raw) or (b"\r" in raw and b"\r:" in raw)
    plain = not (escaped or spaced)
    if plain and raw.count(b'":') == count_keys(msgspec.json.decode(raw) if tree is None else tree):
        return None
    return repeated_key(raw)


def count_keys(tree: object) -> int:
    """The keys of all objects in a tree."""
    if type(tree) is dict:
        nested = [value for value in tree.values() if type(value) in (dict, list)]
        return len(tree) + (sum(map(count_keys, nested)) if nested else 0)
    if type(tree) is not list or not tree:
        return 0
    items = set(map(type, tree))
    if not items & {dict, list}:
        return 0
    if items == {dict}:
        kinds = set(map(type, chain.from_iterable(map(dict.values, tree))))
        if not kinds & {dict, list}:
            return sum(map(len, tree))
    return sum(map(count_keys, tree))


def repeated_key(raw: bytes, *, alike: bool = False) -> str | None:
    """What to say of the first key that an object in this JSON has twice; `alike` allows it with one value."""
    import json

    problems: list[str] = []

    def look(pairs: list[tuple[str, object]]) -> dict[str, object]:
        out: dict[str, object] = {}
        for key, value in pairs:
            if key in out and not (alike and out[key] == value):
                values = f"with {shown(out[key])} and with {shown(value)}"
                problems.append(f"{shown(key)} appears twice, {values}; expected it once: remove one")
            out[key] = value
        return out

    try:
        json.loads(raw, object_pairs_hook=look)
    except (ValueError, RecursionError):
        return None  # said where it is decoded
    return problems[0] if problems else None


def reason(error: Exception, raw: bytes, expected: str) -> str:
    """Why this text could not be decoded, and what was expected instead."""
    if isinstance(error, UnicodeDecodeError):
        return describe_bad_bytes(error)
    if isinstance(error, RecursionError):
        return f"nested too deeply; {expected}"
    text = str(error)
    if "truncated" in text:
        return f"the JSON breaks off after {shown(raw.strip()[-20:])}; {expected}"
    at = re.search(r"\(byte (\d+)\)", text)
    if at:
        rest = raw[int(at[1]) :].strip()[:20]
        if rest.startswith((b"NaN", b"Infinity", b"-Infinity")):
            key = re.search(rb'"([^"]*)"\s*:\s*$', raw[: int(at[1])])
            place = f" in {shown(key[1])}" if key else ""
            return f"numbers must be finite, found {shown(re.split(rb'[^-A-Za-z]', rest)[0])}{place}"
        return f"not JSON at {shown(rest)}; {expected}"
    if text.startswith("Number out of range"):
        return f"a number is too large, expected a finite one; {expected}"
    wrong = re.fullmatch(r"Expected `([^`]*)`, got `([^`]*)`(?: - at `\$\.?([^`]*)`)?", text)
    unknown = re.fullmatch(r"Object contains unknown field `([^`]*)`(?: - at `\$\.?([^`]*)`)?", text)
    if unknown is not None:
        return f"{f'{unknown[2]}: ' if unknown[2] else ''}unknown field {shown(unknown[1])}; {expected}"
    if wrong is None:
        return f"{text[:1].lower()}{text[1:]}; {expected}"
    expected_type, actual_type = (_TYPES.get(w.removesuffix(" | null"), w) for w in wrong.group(1, 2))
    item = re.fullmatch(r"topk\[(\d+)\]", wrong[3] or "")
    place = f"topk item {int(item[1]) + 1}: " if item else f"{wrong[3]}: " if wrong[3] else ""
    if not place:
        return f"found {actual_type}; {expected}"
    shape = next((f", such as {text}" for field, text in _SHAPES.items() if place.startswith(field)), "")
    return f"{place}expected {expected_type}{shape}, found {actual_type}"


_SHAPES = {"topk item": '{"doc_id": "d1"}', "topk:": '[{"doc_id": "d1"}]', "stages": '{"retrieve": ["d1", "d2"]}'}
"""What a field of a run log looks like."""
_TYPES = {
    "array": "a list",
    "object": "an object",
    "str": "text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}
