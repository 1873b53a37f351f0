"""Rows that know their lines, and what is wrong with them."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from karat.errors import MAX_PROBLEMS, InputError, Problem, shown
from karat.model.limits import ID

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
WHITE_SPACE = " \t\r\n\x0b\x0c"
"""What may stand around a number. Python knows more kinds, which no other reader takes for white space."""
LONE_RETURN = re.compile(r"\r(?!\n|\Z)")
"""A carriage return that ends no line: readers of tables disagree on what it means."""
RETURN_PROBLEM = "a carriage return inside a line, expected lines that end in \\n or \\r\\n; convert the line ends"
QUOTE_PROBLEM = (
    'a quoted cell that begins here is not closed, or goes on after its quote; write a quote inside twice ("")'
)
Row = tuple[int, str, str, float, str | None]
"""Line, query, doc, value (grade or score), parent (of gold: the subtopic)."""


class Problems:
    """Collects what is wrong with one input, and stops when it is enough."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: list[Problem] = []

    def add(self, line: int | None, text: str) -> None:
        """Note a problem; one more than are shown ends the reading."""
        self.items.append(Problem(self.name, line, text))
        if len(self.items) > MAX_PROBLEMS:
            raise InputError(self.items)

    def check(self) -> None:
        """Raise what was collected, if anything was."""
        if self.items:
            raise InputError(self.items)


def long_id(text: str) -> str | None:
    """What to say of an id that is longer than ids may be; None for others."""
    if 4 * len(text) <= (most := ID.value) or len(text.encode()) <= most:
        return None
    return f"{shown(text)} is longer than {ID.text}; {ID.advice}"


def id_problem(idea: str, text: str) -> str | None:
    """What is wrong with the id of a query or a doc; None for one that can be read."""
    if not text:
        return f"the {idea} id is empty, expected an id"
    if "\x00" in text:
        return f"the {idea} id {shown(text)} holds a NUL byte, expected text"
    return f"the {idea} id {problem}" if (problem := long_id(text)) is not None else None


def check_ids(rows: Sequence[Row], problems: Problems) -> None:
    """Note every id that cannot be one, whichever format the rows are from."""
    most = ID.value // 4
    for row in rows:
        if not (0 < len(row[1]) <= most and 0 < len(row[2]) <= most) or "\x00" in row[1] or "\x00" in row[2]:
            for idea, text in (("query", row[1]), ("doc", row[2])):
                if (problem := id_problem(idea, text)) is not None:
                    problems.add(row[0], problem)
    problems.check()


def describe_bad_bytes(error: UnicodeDecodeError) -> str:
    """What to say of bytes that are not UTF-8."""
    near = error.object[max(0, error.start - 10) : error.start].rpartition(b"\n")[2]
    near += error.object[error.start : error.start + 10].partition(b"\n")[0]
    return f"not UTF-8 near {shown(near)}; expected UTF-8 text: convert the file, e.g. with iconv"


def parse_number(text: str) -> float | None:
    """The finite number that this text is, or None."""
    if _NUMBER.fullmatch(text) is None:
        return None
    value = float(text)
    return value if math.isfinite(value) else None
