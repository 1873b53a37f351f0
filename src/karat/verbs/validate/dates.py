"""ISO dates, as far as they are given: a year, a month, a day, or a time."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

_ISO = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ]\d\d.*)?)?)?")


def as_date(value: Any) -> str | None:
    """The date that a value is, as YYYY, YYYY-MM or YYYY-MM-DD; None if it is none."""
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat()[:10]
    match = _ISO.fullmatch(str(value).strip()) if isinstance(value, (str, int)) else None
    if match is None:
        return None
    year, month, day = match.groups()
    try:
        dt.date(int(year), int(month or 1), int(day or 1))
    except ValueError:
        return None
    return "-".join(part for part in (year, month, day) if part)


def later(one: str, other: str) -> bool:
    """Whether one date is later than the other, as far as both say it."""
    shared = min(len(one), len(other))
    return one[:shared] > other[:shared]
