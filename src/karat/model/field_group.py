"""Values of a field taken together as one segment: `language in (pt-BR, es-AR)`."""

from __future__ import annotations

import csv
import re

from karat.records import dataclass

INSIDE, OUTSIDE = "yes", "no"
_GROUP = re.compile(r"(?P<field>.+?) in \((?P<values>.*)\)", re.DOTALL)


@dataclass(frozen=True)
class FieldGroup:
    """Some values of one field of the queries."""

    field: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.field} in ({', '.join(map(_quote, self.values))})"


def read_group(name: str) -> FieldGroup | None:
    """The group that a name writes out; None for the name of a plain field."""
    match = _GROUP.fullmatch(name)
    if match is None:
        return None
    values = next(csv.reader([match["values"]], skipinitialspace=True), [])
    return FieldGroup(match["field"].strip(), tuple(dict.fromkeys(value.strip() for value in values)))


def _quote(value: str) -> str:
    if re.fullmatch(r"""[^\s,"'()=]+""", value):
        return value
    return '"' + value.replace('"', '""') + '"'
