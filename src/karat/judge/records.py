"""Files of one JSON object per line, each of one type; half a line at the end is what a crash left of a write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from karat.errors import shown
from karat.read.files import check_path, open_input
from karat.read.json_lines import NOT_JSON, reason, repeated_in
from karat.read.problems import Problems, long_id
from karat.records import dataclass
from karat.store.atomic import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True)
class Records(Generic[T]):
    """The records of a file in its order, and what a reader should know of it."""

    rows: tuple[T, ...]
    path: str
    notes: tuple[str, ...] = ()


def read_records(path: str, kind: type[T], expected: str, problem_of: Callable[[T], str | None]) -> Records[T]:
    """All records; `expected` describes a line, and `problem_of` says what is wrong with the values of one."""
    problems, rows = Problems(path), []
    notes: tuple[str, ...] = ()
    decoder = msgspec.json.Decoder(kind)
    lines = list(open_input(check_path(path)).lines())
    for place, (number, raw) in enumerate(lines, start=1):
        try:
            row, twice = decoder.decode(raw), repeated_in(raw)
        except NOT_JSON as error:
            if place == len(lines) and not raw.endswith(b"\n") and not isinstance(error, msgspec.ValidationError):
                notes = (f"{path}:{number}: the last line breaks off after {shown(raw[-20:])} and is ignored",)
                break
            problems.add(number, reason(error, raw, expected))
            continue
        problem = twice or problem_of(row)
        if problem is not None:
            problems.add(number, problem)
        else:
            rows.append(row)
    problems.check()
    return Records(tuple(rows), path, notes)


def write_lines(lines: Iterable[bytes], path: str) -> None:
    """Write lines as a new file."""
    write_atomically(path, b"".join(line + b"\n" for line in lines))


def id_problem(query_id: str, doc_id: str) -> str | None:
    """What is wrong with the ids of a pair."""
    for name, id in (("query_id", query_id), ("doc_id", doc_id)):
        if not id:
            return f"{name} is empty, expected an id"
        if problem := long_id(id):
            return f"{name} {problem}"
    return None
