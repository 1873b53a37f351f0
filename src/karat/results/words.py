"""Small words of every sentence: plurals, lists, how segments are called, and names on one line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from karat.model.field_group import INSIDE, read_group

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.results.result import RunResult
    from karat.stats.resample import Units


Outcome = Literal["pass", "fail", "undecided"]
"""Of a gate."""
BASELINE = "baseline"
"""What gates, and sentences, call the run that others are compared with."""
TOO_FEW = "too few to judge alone"
"""What is said of a segment below the minimum size, in the place of p."""
FEW_MARK = "†"
"""Marks the name of such a segment, where a table has no p."""
EMPTY = '""'
"""An empty value of a field, so that a sentence shows it."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls of terminals and of the direction of writing, and halves of characters."""


def plural(n: int, one: str, several: str = "") -> str:
    """`1 query`, `1,204 queries`; the plural ends in s unless it is given."""
    return f"{n:,} {one if n == 1 else several or one + 's'}"


def queries_text(n: int) -> str:
    """`1 query`, `52 queries`."""
    return plural(n, "query", "queries")


def independent_text(count: float) -> str:
    """What queries of unequal weight, or of one conversation, count as: `1 independent one`, `4.8 independent ones`."""
    number = f"{round(count, 1):g}"
    return f"{number} independent {'one' if number == '1' else 'ones'}"


def unequal_text(units: Units) -> str:
    """What makes units count for more or less than others."""
    weights = bool((units.weight != units.weight.max(initial=0.0)).any())
    return "queries of different weight" if weights else "conversations of different length"


def tally_text(count: int, total: int, outcome: Literal["pass", "fail", "undecided"]) -> str:
    """`1 of 3 segments fails`, `2 of 3 segments are undecided`."""
    if outcome == "undecided":
        verb = "is undecided" if count == 1 else "are undecided"
    else:
        verb = {"pass": "passes", "fail": "fails"}[outcome] if count == 1 else outcome
    return f"{count} of {total} segments {verb}"


def round_up(n: int) -> int:
    """A number that is only about right, to two significant digits and never less: 20,604 → 21,000."""
    step: int = 10 ** max(0, len(str(n)) - 2)
    return -(-n // step) * step


UnitWord = Literal["query", "conversation"]


def units_text(n: int, unit: UnitWord) -> str:
    """`52 queries`, `12 conversations`."""
    return queries_text(n) if unit == "query" else plural(n, unit)


def conventions_text(conventions: Mapping[str, object]) -> str:
    """The choices that differ from the defaults: `condensed=True, level=chunk`."""
    return ", ".join(f"{name}={value}" for name, value in conventions.items())


def describe_few(minimum: int) -> str:
    """What the mark of small segments means."""
    return f"{FEW_MARK} {TOO_FEW}: fewer than {minimum:,} independent queries"


def segment_text(segment: Mapping[str, str] | None, mark: str = " = ") -> str:
    """`language = de, topic = battery`, `language in (de, en)`; empty for all queries."""
    return ", ".join(condition_text(field, value, mark) for field, value in (segment or {}).items())


def condition_text(field: str, value: str, mark: str = " = ") -> str:
    """A field with its value; a group of values, which is a field with yes or no, as what it says."""
    if read_group(field) is None:
        return f"{field}{mark}{value or EMPTY}"
    return field if value == INSIDE else f"not {field}"


def without_controls(text: str) -> str:
    """The text with a replacement character for whatever would steer a terminal or no file can hold."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def plain(text: str) -> str:
    """The text on one line, without characters that a terminal or a file could not show."""
    return without_controls(" ".join(text.split()))


class SharedLevels(NamedTuple):
    """How many queries two runs share, and their levels over these."""

    queries: str
    levels: str

    def __str__(self) -> str:
        return f"over {self.queries}: {self.levels}"


def mark_baseline(base: RunResult) -> str:
    """The baseline's name with a mark, where the name does not say it."""
    return BASELINE if base.name == BASELINE else f"{base.name} ({BASELINE})"
