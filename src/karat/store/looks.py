"""Looks at a gold that changes: one line for each gold that gates were judged on, in a small file to be committed."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields

from karat.errors import InputError
from karat.records import dataclass
from karat.store.atomic import encoded, write_atomically
from karat.store.lock import waiting_lock

FORMAT = "karat looks 1"
SEQUENTIAL = "`confidence: {sequential: true}` gives intervals that hold at every look"


@dataclass(frozen=True)
class Look:
    """A gold that gates were judged on, and the first verdict on it."""

    queries: int
    gold: str
    """The fingerprint of the judgments."""
    sequential: bool
    """Whether the intervals of that verdict hold at every look."""
    verdict: str


def read_looks(path: str) -> tuple[Look, ...]:
    """The looks of a file in the order they were taken; none where there is no file yet."""
    if not os.path.lexists(path):
        return ()
    todo = "restore it from version control, or name another file under looks"
    try:
        with open(path, "rb") as file:
            document = json.loads(file.read().decode("utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); expected a file of looks: {todo}") from None
    except ValueError:
        raise InputError(f"{path}: is not a file of looks, or is damaged: it is not JSON; {todo}") from None
    rows = document.get("looks") if isinstance(document, dict) and document.get("format") == FORMAT else None
    if not isinstance(rows, list):
        raise InputError(f"{path}: is not a file of looks: expected the format {FORMAT!r}; {todo}")
    for number, row in enumerate(rows, start=1):
        if not _is_look(row):
            names = ", ".join(field.name for field in fields(Look))
            raise InputError(f"{path}: look {number} is damaged: expected {names}, found {row!r}; {todo}")
    return tuple(Look(**row) for row in rows)


def _is_look(row: object) -> bool:
    if not isinstance(row, dict) or set(row) != {field.name for field in fields(Look)}:
        return False
    typed = isinstance(row["gold"], str) and isinstance(row["verdict"], str) and isinstance(row["sequential"], bool)
    return typed and type(row["queries"]) is int and row["queries"] >= 0


def record_look(path: str, look: Look) -> str:
    """Write a new look down, and warn of it if it is not the first; to check the same gold again is not a new one."""
    with waiting_lock(os.path.dirname(os.path.abspath(path))):  # another check may add its own look now
        looks = read_looks(path)
        if all(one.gold != look.gold for one in looks):
            looks = (*looks, look)
            _write_looks(path, looks)
    return _warn(looks, look)


def _write_looks(path: str, looks: tuple[Look, ...]) -> None:
    """Write the looks, one per line in the order they were taken: the number of a look is its place."""
    lines = ",\n".join(json.dumps(asdict(look), ensure_ascii=False) for look in looks)
    write_atomically(path, encoded(f'{{"format": "{FORMAT}", "looks": [\n{lines}\n]}}\n'))


def _warn(looks: tuple[Look, ...], look: Look) -> str:
    """What to know of a gold that was looked at before it changed; nothing at the first look or if sequential."""
    number = 1 + next(i for i, one in enumerate(looks) if one.gold == look.gold)
    if number == 1 or look.sequential:
        return ""
    earlier = ", ".join(f"{one.queries:,}" for one in looks[max(0, number - 4) : number - 1])
    more = "…, " if number > 4 else ""
    return (
        f"look {number} at a gold that has changed ({more}{earlier} queries, now {look.queries:,}): "
        f"each look keeps its error rates by itself, several together do not; {SEQUENTIAL}"
    )
