"""What strict readers share: bytes, text, numbers, ids, tables and JSON; small and slow, and no code of Karat's.

The reader of a kind says what Karat must have read, or refused. It takes the bytes of a file and returns plain data, or
raises `Refusal`. Runs are {query: docs in their order}, gold is {query: {doc: grade}}, tables are {id: fields}.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import zstandard

Run = dict[str, list[str]]
Gold = dict[str, dict[str, float]]
Scored = list[tuple[str, str, float]]
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
QUERY = ("query_id", "query-id", "qid", "q_id", "query")
DOC = ("doc_id", "corpus-id", "docid", "docno", "chunk_id", "doc")
GRADE = ("grade", "relevance", "rel", "label", "score")
SCORE = ("score", "sim")


class Refusal(Exception):
    """The input is not what it should be."""


def expect(condition: object, why: str) -> None:
    if not condition:
        raise Refusal(why)


# --- bytes, text, numbers, ids ------------------------------------------------------------------------


def unpack(data: bytes) -> bytes:
    try:
        if data[:2] == b"\x1f\x8b":
            return gzip.decompress(data)
        out = b""
        while data[:4] == b"\x28\xb5\x2f\xfd":
            frame = zstandard.ZstdDecompressor().decompressobj()
            out += frame.decompress(data)
            expect(frame.eof, "a frame breaks off")
            data = frame.unused_data
            expect(not data or data[:4] == b"\x28\xb5\x2f\xfd", "something after the last frame")
        return out or data
    except (OSError, EOFError, zstandard.ZstdError, Exception) as error:
        raise Refusal(str(error)) from None


def text_of(data: bytes) -> str:
    try:
        text = unpack(data).removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        raise Refusal(str(error)) from None
    return text


def number(text: str) -> float:
    expect(NUMBER.fullmatch(text), f"not a number: {text!r}")
    expect(math.isfinite(float(text)), "not finite")
    return float(text)


def id_of(value: object) -> str:
    expect(isinstance(value, (str, int)) and not isinstance(value, bool), f"not an id: {value!r}")
    text = str(value)
    expect(text and "\x00" not in text, "an empty id, or one with NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refusal("half a character") from None
    return text


def finite(value: object) -> float:
    expect(isinstance(value, (int, float)) and not isinstance(value, bool), f"not a number: {value!r}")
    try:
        out = float(value)  # type: ignore[arg-type]
    except OverflowError:
        raise Refusal("beyond every number") from None
    expect(math.isfinite(out), "not finite")
    return out


# --- rows → runs and gold -----------------------------------------------------------------------------


def run_of(rows: Scored) -> Run:
    """Docs by score, then by id, both descending; a doc that appears twice has its best place."""
    expect(rows, "no rows")
    best: dict[str, dict[str, float]] = {}
    for query, doc, score in rows:
        mine = best.setdefault(query, {})
        mine[doc] = max(score, mine.get(doc, -math.inf))
    return {q: sorted(docs, key=lambda d: (docs[d], d.encode()), reverse=True) for q, docs in best.items()}


def gold_of(rows: Scored) -> Gold:
    expect(rows, "no rows")
    out: Gold = {}
    for query, doc, grade in rows:
        expect(out.setdefault(query, {}).setdefault(doc, grade) == grade, "two grades")
    return out


def of_role(kind: str, rows: Scored) -> Run | Gold:
    return gold_of(rows) if kind.endswith("gold") else run_of(rows)


# --- delimited tables ---------------------------------------------------------------------------------


def split_csv(text: str, mark: str, *, quotes: bool = True) -> list[list[str]]:
    """Records by RFC 4180, character by character; a line of its own for CR alone is refused."""
    records: list[list[str]] = []
    i, size = 0, len(text)
    while i < size:
        cells: list[str] = []
        while True:
            if quotes and i < size and text[i] == '"':
                cell, i = "", i + 1
                while True:
                    end = text.find('"', i)
                    expect(end >= 0, "a quote is not closed")
                    cell, i = cell + text[i:end], end + 1
                    if text[i : i + 1] != '"':
                        break
                    cell, i = cell + '"', i + 1
                expect(
                    i == size or text[i] in (mark, "\n") or text[i:] == "\r" or text[i : i + 2] == "\r\n",
                    "text after a quote",
                )
            else:
                match = re.compile(f"[^{re.escape(mark)}\r\n]*").match(text, i)
                assert match is not None
                cell, i = match[0], match.end()
            cells.append(cell)
            if text[i : i + 1] == mark:
                i += 1
                continue
            expect(text[i : i + 1] != "\r" or text[i : i + 2] in ("\r\n", "\r"), "CR alone")
            i += 2 if text[i : i + 2] == "\r\n" else 1
            break
        records.append(cells)
    return [cells for cells in records if cells != [""]]


def header_of(line: str, marks: Iterable[str], names: tuple[str, ...]) -> str:
    for mark in marks:
        cells = [c.strip().strip('"').lower() for c in line.split(mark)]
        if len(cells) > 1 and any(c in names for c in cells):
            return mark
    raise Refusal("no header")


def first_of(names: list[str], wanted: tuple[str, ...]) -> int:
    for name in wanted:
        if name in names:
            expect(names.count(name) == 1, f"{name} twice")
            return names.index(name)
    raise Refusal(f"none of {wanted}")


def check_rivals(row: dict[str, Any], kind: str) -> None:
    """Two columns that surely name one thing must agree."""
    unsure = ("query", "doc", "chunk_id", *(("score",) if kind.endswith("gold") else ()))
    for wanted in (QUERY, DOC):
        values = {str(row[n]) for n in wanted if n in row and n not in unsure and row[n] not in ("", None)}
        expect(len(values) < 2, "columns that disagree")
    numbers = [row[n] for n in (GRADE if kind.endswith("gold") else SCORE) if n in row and n not in unsure]
    values = {float(str(v)) for v in numbers if NUMBER.fullmatch(str(v))}
    expect(len(values) < 2, "columns that disagree")


# --- JSON ---------------------------------------------------------------------------------------------


def pairs(alike: bool) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    def build(items: list[tuple[str, Any]]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in items:
            expect(key not in out or (alike and out[key] == value), f"{key!r} twice")
            out[key] = value
        return out

    return build


def refuse_constant(name: str) -> None:
    raise Refusal(name)


def parse_json(text: str, *, alike: bool = False) -> Any:
    try:
        return json.loads(text, object_pairs_hook=pairs(alike), parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Refusal(str(error)) from None


def json_lines(data: bytes) -> list[dict[str, Any]]:
    out = []
    for line in text_of(data).split("\n"):
        if line.strip(" \t\r\x0b\x0c"):
            tree = parse_json(line)
            expect(isinstance(tree, dict), "not an object")
            out.append(tree)
    return out
