"""What a run log says beside its results: latency, cost, and the dates of docs. Read only where it is asked for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from karat.errors import shown
from karat.read.exact import Problems
from karat.read.objects import is_finite

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from karat.model.queries import Queries

FIELDS = {"latency": "latency_ms", "cost": "cost"}
"""The fields of a line that hold a number by name."""
CHOICES: dict[str, type] = {"route": str, "retrieved": bool}
"""The fields that say what a part of the pipeline decided."""
EXPECTED = {"route": "text", "retrieved": "true or false"}
TOTAL = "total"
A_DATE = "must be an ISO date such as 2025-04-01"


class Logged:
    """Collects what was asked for from the lines of a run log."""

    def __init__(self, needs: Collection[str], problems: Problems) -> None:
        self.values: dict[str, dict[str, dict[str, float]]] = {kind: {} for kind in FIELDS if kind in needs}
        """By kind, key (a stage, or what is counted) and query; a route is a key, with 1 for the queries sent there."""
        self._chosen = [name for name in CHOICES if name in needs]
        self.dated = "doc_version" in needs
        self._problems = problems
        self._days: dict[str, float] = {}

    def add(self, line: int, query: str, fields: Any) -> None:
        """Take the numbers of one line; keys are looked up in lower case, as metrics name them."""
        for kind in (k for k in FIELDS if k in self.values):
            field, collected = FIELDS[kind], self.values[kind]
            numbers = self._numbers(line, field, getattr(fields, field))
            if kind == "latency" and numbers and TOTAL not in numbers:
                numbers[TOTAL] = self._sum(line, field, numbers)
            for key, value in numbers.items():
                collected.setdefault(key, {})[query] = value
        for name in self._chosen:
            self._choice(line, query, name, getattr(fields, name))

    def _choice(self, line: int, query: str, name: str, found: Any) -> None:
        """What a router or a gate decided; nothing where the line does not say."""
        if found is None or found == "":
            return
        if not isinstance(found, CHOICES[name]):
            self._problems.add(line, f"{name} must be {EXPECTED[name]}, found {shown(found)}")
            return
        key, value = (found, 1.0) if isinstance(found, str) else (name, 1.0 if found else 0.0)
        self.values.setdefault(name, {}).setdefault(key, {})[query] = value

    def _numbers(self, line: int, field: str, found: Any) -> dict[str, float]:
        if found is None:
            return {}
        if not isinstance(found, dict):
            self._problems.add(
                line, f'{field} must be an object of numbers such as {{"rerank": 22}}, found {shown(found)}'
            )
            return {}
        out: dict[str, float] = {}
        for key, value in found.items():
            if isinstance(value, bool) or not is_finite(value) or value < 0:
                self._problems.add(line, f"{field}: {shown(key)} must be a finite number from 0, found {shown(value)}")
            elif key.lower() in out:
                self._problems.add(line, f"{field}: {shown(key)} is there twice but for its case; expected it once")
            else:
                out[key.lower()] = float(value)
        return out

    def _sum(self, line: int, field: str, numbers: dict[str, float]) -> float:
        try:
            return math.fsum(numbers.values())
        except OverflowError:
            self._problems.add(line, f"{field}: its numbers add up to more than a number can hold")
            return math.nan

    def days(self, line: int, items: Sequence[Any]) -> None:
        """Read the dates of a line's items; each that is no date is a problem."""
        for place, item in enumerate(items, start=1):
            if item.doc_version is not None and str(item.doc_version) not in self._days:
                found = day(item.doc_version)
                if found is None:
                    self._problems.add(
                        line, f"topk item {place}: doc_version {A_DATE}, found {shown(item.doc_version)}"
                    )
                else:
                    self._days[str(item.doc_version)] = found

    def day_of(self, item: Any) -> float:
        """The day of an item whose line was read; NaN for one without a date."""
        return math.nan if item.doc_version is None else self._days.get(str(item.doc_version), math.nan)


def day(value: Any) -> float | None:
    """The day of an ISO date or time as an ordinal; None if it is none."""
    from datetime import datetime

    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    try:
        return float(datetime.fromisoformat(str(value).strip()).toordinal())
    except ValueError:
        return None


def as_of_days(queries: Queries) -> dict[str, float]:
    """The day of each query's as_of."""
    problems, out = Problems(queries.source), {}
    for query, value in queries.as_of.items():
        found = day(value)
        if found is None:
            problems.add(queries.lines.get(query), f"query {shown(query)}: as_of {A_DATE}, found {shown(value)}")
        else:
            out[query] = found
    problems.check()
    return out
