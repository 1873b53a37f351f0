"""The names of columns, and which column is read where two claim the same role."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from karat.errors import shown
from karat.records import dataclass

if TYPE_CHECKING:
    from karat.model.docs import Fields

CHUNK = "chunk_id"
"""The one name under which ids are those of chunks: the doc of each is the part before the separator."""
QUERY_NAMES = ("query_id", "query-id", "qid", "q_id", "query")
DOC_NAMES = ("doc_id", "corpus-id", "docid", "docno", CHUNK, "doc")
GRADE_NAMES = ("grade", "relevance", "rel", "label", "score")
SCORE_NAMES = ("score", "sim")
_UNSURE = {"qrels": ("query", "doc", CHUNK, "score"), "run": ("query", "doc", CHUNK)}
"""Names that other columns have too: each claims its role only where no surer name does."""
SUBTOPIC = "subtopic"
Role = Literal["qrels", "run"]


@dataclass(frozen=True, slots=True)
class TableKind:
    """What the rows of a table are, and which columns may hold their ids."""

    noun: str
    plural: str
    source: str
    """What a table without a file is called."""
    id_names: tuple[str, ...]


QUERIES = TableKind("query", "queries", "the table of queries", ("_id", "id", *QUERY_NAMES))
DOCS = TableKind("doc", "docs", "corpus", ("_id", "id", CHUNK, *(n for n in DOC_NAMES if n != CHUNK)))
"""A corpus of chunks has `chunk_id`, and `doc_id` for the doc that each belongs to."""
ID_NAMES = (*QUERIES.id_names, *DOC_NAMES)

FieldRow: TypeAlias = "tuple[int, Fields]"
"""A row of a table: its line, and its fields."""


@dataclass(frozen=True, slots=True)
class Rival:
    """A second column that claims a role, beside the one that is used; their values must agree unless `optional`."""

    role: str
    used: str
    ignored: str
    optional: bool = False

    def disagrees(self, value: object, other: object) -> bool:
        """Whether the two columns of one row contradict each other; an empty cell, or text for a number, does not."""
        if self.optional or other is None or other == "":
            return False
        if self.role in ("query", "doc"):
            return str(value) != str(other)
        pair = (number_of(value), number_of(other))
        return None not in pair and pair[0] != pair[1]

    @property
    def note(self) -> str:
        """Which of the two columns is read."""
        return f"the {self.role} is read from {self.used!r}; {self.ignored!r} is ignored"

    def problem(self, value: object, other: object) -> str:
        """The error for a row in which the two columns disagree."""
        return (
            f"{self.used!r} holds {shown(value)} and {self.ignored!r} holds {shown(other)}, but both name the "
            f"{self.role}; rename or remove one of the columns"
        )


def number_of(value: Any) -> float | None:
    """The finite number that a cell holds, as a number or as text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


@lru_cache(maxsize=256)
def rivals_of(names: tuple[str, ...], role: Role) -> tuple[Rival, ...]:
    """The columns that claim a role which another column has."""
    value = ("grade", GRADE_NAMES) if role == "qrels" else ("score", SCORE_NAMES)
    out: list[Rival] = []
    for idea, candidates in (("query", QUERY_NAMES), ("doc", DOC_NAMES), value):
        claims = [n for n in candidates if n in names and n not in _UNSURE[role]]
        out += [Rival(idea, claims[0], n) for n in claims[1:]]
        if idea == "grade" and claims and "score" in names:
            out.append(Rival(idea, claims[0], "score", optional=True))
    return tuple(out)


def column(names: list[str], candidates: tuple[str, ...]) -> int | None:
    """Where the first known name stands among the columns."""
    return next((names.index(name) for name in candidates if name in names), None)
