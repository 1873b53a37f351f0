"""Files as the checks see them: rows with their lines, in columns."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from karat.model.docs import TEXT_FIELDS, Fields
from karat.model.policy import SEPARATOR, is_judged, is_relevant, parent_of
from karat.model.queries import TopicNumber, are_written, yes_or_no
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.model.run_log import Facts


def place(path: str, line: int | None) -> str:
    """Where something stands; a file without lines is named alone."""
    return path if line is None or line < 0 else f"{path}:{line}"


@dataclass(frozen=True)
class GoldFile:
    """Judgments in the order of the file. A line of -1 is unknown."""

    path: str
    lines: Sequence[int]
    queries: Sequence[str]
    docs: Sequence[str]
    grades: NDArray[np.float64]
    subtopics: Sequence[str | None] = ()
    """Of each judgment, where the file names them."""

    def at(self, row: int) -> str:
        """Where a judgment stands."""
        return place(self.path, self.lines[row])


@dataclass(frozen=True)
class TableFile:
    """A table of queries: the line, the id and the fields of each."""

    path: str
    rows: Sequence[tuple[int, str, Fields]]

    def with_ids_of(self, ids: Iterable[str]) -> TableFile:
        """The same with ids as gold or runs have them, where these write them as the file does: 001 and not 1."""
        numbers = {str(q): q.written for _, q, _ in self.rows if isinstance(q, TopicNumber)}
        if not are_written({q: text for q, text in numbers.items() if text != q}, ids):
            return self
        return TableFile(self.path, [(line, numbers.get(q, q), fields) for line, q, fields in self.rows])

    @cached_property
    def has_text(self) -> bool:
        """Whether any row has a text at all."""
        return any(name in fields for _, _, fields in self.rows for name in TEXT_FIELDS)


@dataclass(frozen=True)
class CorpusFile:
    """The docs of a corpus. The texts of docs that the gold names are kept, of others a fingerprint."""

    path: str
    lines: Sequence[int]
    ids: Sequence[str]
    prints: Sequence[bytes]
    """A fingerprint of title and text; empty bytes for a doc without text, all empty where there are no texts."""
    texts: Mapping[str, str]
    bad_dates: Sequence[tuple[int, str]]
    """Lines and values of doc_version that are no dates."""
    whole: bool = True
    parents: Mapping[str, str] = field(default_factory=dict)
    """The doc of each chunk for which the corpus names one."""


@dataclass(frozen=True)
class LogLine:
    """What a line of a run log says beside its results."""

    line: int
    query: str
    results: int
    ranks: Sequence[int]
    facts: Facts
    latency: Mapping[str, object]
    stages: Collection[str]
    retrieved: object
    versions: Sequence[tuple[str, object]]


@dataclass(frozen=True)
class RunFile:
    """The rows of a run as columns; ids are numbers into `queries` and `docs`.

    `score` and `rank` are NaN where the file has none. In a run log (`log`), ranks give the order if there are any.
    """

    path: str
    queries: Sequence[str]
    docs: Sequence[str]
    query: NDArray[np.int64]
    doc: NDArray[np.int64]
    score: NDArray[np.float64]
    rank: NDArray[np.float64]
    line: NDArray[np.int64]
    parents: Mapping[str, str] = field(default_factory=dict)
    names_docs: bool = False
    """Whether ids name whole docs: they stand in a field for docs, and not in `chunk_id`."""
    log: Sequence[LogLine] = ()
    is_log: bool = False
    in_file_order: bool = False
    """Whether the order is that of the file: lists without scores."""
    whole: bool = True

    def at(self, row: int) -> str:
        """Where a row stands."""
        return place(self.path, int(self.line[row]))

    @cached_property
    def has_ranks(self) -> bool:
        """Whether every row has a rank."""
        return bool(len(self.rank)) and not bool(np.isnan(self.rank).any())

    @cached_property
    def has_scores(self) -> bool:
        """Whether every row has a score."""
        return bool(len(self.score)) and not bool(np.isnan(self.score).any())

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The rows by query, then in the order in which Karat ranks them."""
        if self.in_file_order or not self.has_scores:
            by_rank = self.rank if self.has_ranks else np.zeros(len(self.query))
            return np.lexsort((by_rank, self.query))
        if self.is_log and self.has_ranks:
            return np.lexsort((self.rank, self.query))
        order = np.lexsort((-self.score, self.query))
        query, score = self.query[order], self.score[order]
        if ((query[1:] == query[:-1]) & (score[1:] == score[:-1])).any():
            order = np.lexsort((-self._doc_place[self.doc], -self.score, self.query))
        return order

    @cached_property
    def _doc_place(self) -> NDArray[np.int64]:
        """Where each doc stands in byte order, which breaks ties."""
        out = np.empty(len(self.docs), dtype=np.int64)
        out[sorted(range(len(self.docs)), key=lambda i: self.docs[i].encode())] = np.arange(len(self.docs))
        return out

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many rows each query has."""
        return np.bincount(self.query, minlength=len(self.queries))

    @cached_property
    def depths(self) -> NDArray[np.int64]:
        """How many docs each query has, each counted once, as metrics count them."""
        order = np.lexsort((self.doc, self.query))
        query, doc = self.query[order], self.doc[order]
        again = np.zeros(len(query), dtype=bool)
        again[1:] = (query[1:] == query[:-1]) & (doc[1:] == doc[:-1])
        return np.bincount(query[~again], minlength=len(self.queries))

    @cached_property
    def first_row(self) -> NDArray[np.int64]:
        """The first row of each query in the file; the number of rows for a query without any."""
        out = np.full(len(self.queries), len(self.query), dtype=np.int64)
        np.minimum.at(out, self.query, np.arange(len(self.query)))
        return out

    @cached_property
    def line_of(self) -> Mapping[str, int]:
        """The line on which each query of a run log stands."""
        return {entry.query: entry.line for entry in self.log}

    def at_query(self, number: int) -> str:
        """Where a query begins."""
        row = int(self.first_row[number])
        if row < len(self.query):
            return self.at(row)
        return place(self.path, self.line_of.get(self.queries[number]))

    def tops(self, depth: int) -> dict[str, list[str]]:
        """The first docs of each query, each doc once."""
        out: dict[str, list[str]] = {q: [] for q in self.queries}
        order = self.order
        queries = self.query[order]
        start = np.searchsorted(queries, np.arange(len(self.queries)))
        for number, (a, n) in enumerate(zip(start.tolist(), self.sizes.tolist(), strict=True)):
            docs = dict.fromkeys(self.doc[order[a : a + min(n, 2 * depth)]].tolist())
            out[self.queries[number]] = [self.docs[d] for d in docs][:depth]
        return out


@dataclass(frozen=True)
class FileSet:
    """All files of one validation."""

    gold: Sequence[GoldFile] = ()
    queries: Sequence[TableFile] = ()
    runs: Sequence[RunFile] = ()
    corpus: Sequence[CorpusFile] = ()
    separator: str = SEPARATOR

    @cached_property
    def grades(self) -> dict[str, dict[str, float]]:
        """The first grade of each doc of the gold, by query, over all files of gold."""
        out: dict[str, dict[str, float]] = {}
        for gold in self.gold:
            for q, d, g in zip(gold.queries, gold.docs, gold.grades.tolist(), strict=True):
                out.setdefault(q, {}).setdefault(d, g)
        return out

    @cached_property
    def relevant(self) -> dict[str, list[str]]:
        """The relevant docs of each query."""
        return {q: [d for d, g in docs.items() if is_relevant(g)] for q, docs in self.grades.items()}

    @cached_property
    def judged(self) -> dict[str, set[str]]:
        """The judged docs of each query; a negative grade is not a judgment."""
        return {q: {d for d, g in docs.items() if is_judged(g)} for q, docs in self.grades.items()}

    @cached_property
    def gold_docs(self) -> set[str]:
        """Every doc that the gold names for some query."""
        return {d for docs in self.grades.values() for d in docs}

    @cached_property
    def fields(self) -> dict[str, dict[str, object]]:
        """The fields of each query over all tables; the first table that has a field counts."""
        out: dict[str, dict[str, object]] = {}
        for table in self.queries:
            for _, q, fields in table.rows:
                mine = out.setdefault(q, {})
                for name, value in fields.items():
                    mine.setdefault(name, value)
        return out

    @cached_property
    def unanswerable(self) -> frozenset[str]:
        """The queries that are marked no_answer."""
        return frozenset(q for q, fields in self.fields.items() if yes_or_no(fields.get("no_answer")))

    def queries_with_gold(self, table: TableFile) -> set[str] | None:
        """The queries of a table that have gold; None where there is no gold, or none of these queries has any."""
        return {q for _, q, _ in table.rows if q in self.grades} or None

    @cached_property
    def query_at(self) -> dict[str, tuple[str, int]]:
        """The file and line of each query of the tables."""
        out: dict[str, tuple[str, int]] = {}
        for table in self.queries:
            for line, q, _ in table.rows:
                out.setdefault(q, (table.path, line))
        return out

    @cached_property
    def doc_ids(self) -> set[str]:
        """Every id of the corpus."""
        return {d for corpus in self.corpus for d in corpus.ids}

    @cached_property
    def known_docs(self) -> set[str]:
        """Every id of the corpus, and every doc that its chunks belong to."""
        return self.doc_ids | {
            parent_of(d, self.separator, corpus.parents) for corpus in self.corpus for d in corpus.ids
        }

    @cached_property
    def parents(self) -> dict[str, str]:
        """The doc of each chunk for which a corpus names one."""
        return {chunk: doc for corpus in self.corpus for chunk, doc in corpus.parents.items()}

    def in_corpus(self, doc: str, run: RunFile | None = None) -> bool:
        """Whether the corpus holds a doc, or the doc it is a chunk of."""
        return doc in self.known_docs or self.parent(run, doc) in self.known_docs

    def parent(self, run: RunFile | None, doc: str) -> str:
        """The doc that an id belongs to: as the run says, else as the corpus does, else as its id does."""
        if run is None:
            return parent_of(doc, self.separator, self.parents)
        parents = run.parents if doc in run.parents else self.parents
        return parent_of(doc, "" if run.names_docs else self.separator, parents)

    @property
    def corpus_is_whole(self) -> bool:
        """Whether there is a corpus, and all of it was read."""
        return bool(self.corpus) and all(c.whole for c in self.corpus)

    @cached_property
    def gold_at(self) -> dict[str, str]:
        """The first place of each query in the gold."""
        out: dict[str, str] = {}
        for gold in self.gold:
            for row, q in enumerate(gold.queries):
                if q not in out:
                    out[q] = gold.at(row)
        return out
