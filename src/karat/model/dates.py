"""The one definition of a date: the day of an ISO date or time, as a number that can be compared; and of now."""

from __future__ import annotations

import os
import time
from datetime import UTC, date, datetime

A_DATE = "must be an ISO date such as 2025-04-01"


def day_of(value: object) -> float | None:
    """The day of an ISO date or time as an ordinal; None for anything else. A time of day makes no difference."""
    if isinstance(value, bool) or not isinstance(value, (str, int, date)):
        return None
    try:
        return float(datetime.fromisoformat(str(value).strip()).toordinal())
    except ValueError:
        return None


def utc_now() -> str:
    """The moment in ISO 8601, to the second; SOURCE_DATE_EPOCH where it is set, for equal bytes."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return datetime.fromtimestamp(int(epoch) if epoch.isdecimal() else time.time(), UTC).isoformat(timespec="seconds")
