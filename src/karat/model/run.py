"""A run: what one system returned for each query, in the shape it came in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.run_log import Facts, RunLog
    from karat.model.strings import Strings


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a run or of gold as columns. `near` marks scores that `score_text` knows more exactly.

    `parent` is the doc that a chunk of a run belongs to; of gold it is the subtopic of a judgment.
    """

    query: Strings
    doc: Strings
    score: NDArray[np.float64]
    near: NDArray[np.bool_] | None = None
    score_text: Strings | None = None
    parent: Strings | None = None
    own_score: NDArray[np.float64] | None = None
    """The score that a run log names, NaN for none, where `score` is the place in a list."""
    version: NDArray[np.float64] | None = None
    """The day of each doc's version as an ordinal, NaN for none; where a metric needs it."""

    def __len__(self) -> int:
        return len(self.score)

    def take(self, rows: NDArray[np.int64]) -> Rows:
        """The same columns with these rows."""
        return Rows(
            self.query.take(rows),
            self.doc.take(rows),
            self.score[rows],
            self.near[rows] if self.near is not None else None,
            self.score_text.take(rows) if self.score_text is not None else None,
            self.parent.take(rows) if self.parent is not None else None,
            self.own_score[rows] if self.own_score is not None else None,
            self.version[rows] if self.version is not None else None,
        )


@dataclass(frozen=True, slots=True)
class ScoredLists:
    """A score for each doc of each query; the order is by score."""

    lists: Mapping[str, Mapping[str, float]]
    source: str = "run"
    unmarked: str = ""
    """A separator that is known to stand in no id."""


@dataclass(frozen=True, slots=True)
class OrderedLists:
    """Docs in the order they were returned; `parents` names the doc that each chunk belongs to."""

    lists: Mapping[str, Sequence[str]]
    parents: Mapping[str, Sequence[str]] | None = None
    scores: Mapping[str, Sequence[float | None]] | None = None
    versions: Mapping[str, Sequence[float]] | None = None
    """The day of each doc's version as an ordinal, NaN for none; where a metric needs it."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows held in memory, in any order."""

    rows: Rows


class StreamedFile(Protocol):
    """A file of rows that is read block by block, each block holding whole queries if it is grouped."""

    @property
    def path(self) -> str:
        """Where the file is."""

    def blocks(self, size: int | None = None, spare: list[bytearray] | None = None) -> Generator[Any]:
        """What a worker turns into rows, one piece after the other; `spare` buffers are filled again.

        `block.holds(mark)` looks for bytes in its ids, and `block.buffers` are those that it may leave.
        """

    def rows(self, block: Any) -> Rows:
        """The rows of one block."""

    def everything(self) -> Rows:
        """All rows at once."""


class RemoteRows(ABC):
    """Rows that lie on a cluster, which aligns them there."""

    plans: Sequence[str]
    """How they were aligned, in words."""

    @property
    @abstractmethod
    def has_parent(self) -> bool:
        """Whether rows name the docs that their chunks belong to."""

    @abstractmethod
    def align(self, qrels: Qrels, policy: Policy, *, at_doc: bool, keep_items: int, parents: Mapping[str, str]) -> Any:
        """What the aligner finds in these rows (`Hits`)."""

    @abstractmethod
    def holds(self, mark: str) -> bool:
        """Whether some id has this mark in it; known once the rows were aligned."""

    @abstractmethod
    def first_rows(self) -> Rows:
        """A few rows."""

    @abstractmethod
    def bring(self) -> Rows:
        """All rows, for what only one machine can do."""

    @abstractmethod
    def only(self, query_ids: Sequence[str]) -> RemoteRows:
        """The rows of these queries alone."""


@dataclass(frozen=True, eq=False)
class Run:
    """One system's results, its name, and the facts that are known about it."""

    name: str
    content: ScoredLists | OrderedLists | Table | StreamedFile | RemoteRows
    facts: Facts = field(default_factory=dict)
    path: str | None = None
    notes: tuple[str, ...] = ()
    log: RunLog | None = None
    """The run log that the run was chosen from."""

    parents: Mapping[str, str] = field(default_factory=dict)
    """The doc of each chunk for which the table of docs names one; what the run itself says comes first."""

    names_docs: bool = False
    """Whether the ids stand in a field for docs, such as `doc_id`, and not in `chunk_id`: nothing is cut from them."""

    entries: bool = False
    """Whether each id is an entry of a term, such as a label or a synonym: the term ranks by its best entry."""

    doc_fields: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The values of fields of the results that may name their docs and are not read as such, for messages."""

    def separator(self, policy: Policy) -> str:
        """What divides an id of this run into its doc and the rest; nothing where ids name docs."""
        return "" if self.names_docs else policy.separator

    def __repr__(self) -> str:
        return f"Run({self.name!r}, {type(self.content).__name__})"
