"""The table of queries: their text, and the fields that they are sliced by."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from karat.model.docs import Fields, text_of
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_NO = ("", "false", "0", "0.0", "no", "n")


class TopicNumber(str):
    """The number of a topic as qrels of TREC have it: 51 for `Number: 051`."""

    written: str
    """As the file writes it."""

    @classmethod
    def of(cls, written: str) -> TopicNumber:
        """The number behind the zeros."""
        number = cls(int(written))
        number.written = written
        return number


def are_written(written: Mapping[str, str], ids: Iterable[str]) -> bool:
    """Whether gold or runs have ids as a file writes them, rather than as they are read."""
    known = set(ids)
    return sum(text in known for text in written.values()) > sum(q in known for q in written)


@dataclass(frozen=True, eq=False)
class Queries:
    """Fields of each query by its id. Known ones: text, as_of, no_answer, conversation, weight, …"""

    fields: Mapping[str, Fields]
    source: str = "the table of queries"
    lines: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Where each query stands in its file, for what turns out wrong later."""
    written: Mapping[str, str] = field(default_factory=dict, repr=False)
    """How the file writes the ids that are read without the zeros before them."""

    def __len__(self) -> int:
        return len(self.fields)

    def with_ids_of(self, ids: Iterable[str]) -> Queries:
        """The table of queries that have these ids in gold or runs: 001 where these write it so, as the file does."""
        if not self.written or not are_written(self.written, ids):
            return self
        fields = {self.written.get(q, q): row for q, row in self.fields.items()}
        return Queries(fields, self.source, {self.written.get(q, q): line for q, line in self.lines.items()})

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
