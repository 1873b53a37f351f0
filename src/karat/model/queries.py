"""The table of queries: their text, and the fields that they are sliced by."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from karat.model.docs import Fields, text_of
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


_NO = ("", "false", "0", "0.0", "no", "n")


@dataclass(frozen=True, eq=False)
class Queries:
    """Fields of each query by its id. Known ones: text, as_of, no_answer, conversation, weight, …"""

    fields: Mapping[str, Fields]
    source: str = "queries"
    lines: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Where each query stands in its file, for what turns out wrong later."""

    def __len__(self) -> int:
        return len(self.fields)

    def field(self, name: str) -> dict[str, object]:
        """One field of all the queries that have it."""
        return {q: fields[name] for q, fields in self.fields.items() if fields.get(name) is not None}

    @property
    def texts(self) -> dict[str, str]:
        """The text of each query that has one."""
        return {q: text for q, fields in self.fields.items() if (text := text_of(fields))}

    @property
    def no_answer(self) -> list[str]:
        """The queries for which nothing should be found."""
        return [q for q, value in self.field("no_answer").items() if yes_or_no(value)]

    @property
    def as_of(self) -> dict[str, str]:
        """The date at which each query's gold was true."""
        return {q: str(value) for q, value in self.field("as_of").items()}


def yes_or_no(value: object) -> bool | None:
    """What a cell of a table says, in any format: True for yes, False for no or nothing, None for anything else."""
    word = "" if value is None else str(value).strip().lower()
    return True if word in ("true", "1", "1.0", "yes", "y") else False if word in _NO else None
