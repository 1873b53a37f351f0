"""Run × qrels → rankings: the one home of ties, duplicates, missing queries, chunk → doc. Here: by chunk or by doc.

Several ways to one meaning: lists in Python (`lists`), columns in memory, and files and frames grouped by query
(`columns`, `stream`), of any order and size (`disorder`), and text that only a database can cut into fields (`sql`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.align.columns import NotGrouped
from karat.align.gold import GoldIndex, unjudged_queries
from karat.align.hits import Aligned, Hits, RepeatedDocs, into_rankings
from karat.align.lists import (
    add_parents,
    align_ordered,
    align_scored,
    align_selected,
    count_level_lists,
    order_lists,
    rows_of_lists,
)
from karat.align.stream import align_stream, align_table, default_threads
from karat.errors import InputError
from karat.model.run import OrderedLists, RemoteRows, ScoredLists, Table
from karat.read.column_stream import ColumnStream
from karat.read.log_blocks import LogColumns
from karat.read.textfile import Irregular, TextFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.align.hits import ReturnedDoc
    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.run import Run

IN_MEMORY = 64 << 20
"""A text file up to this size that is not grouped by query is put in order in memory; so is a table."""

__all__ = ["Aligned", "Hits", "align", "find", "find_queries", "into_rankings"]


def align(
    qrels: Qrels,
    run: Run,
    policy: Policy,
    *,
    no_answer: Sequence[str] = (),
    threads: int | None = None,
    memory: int | None = None,
    keep_items: int = 0,
) -> tuple[Aligned, tuple[str, ...]]:
    """Line a run up with its gold; also what should be said about how that was done."""
    hits, notes = find(qrels, run, policy, threads=threads, memory=memory, keep_items=keep_items)
    return into_rankings(qrels, hits, policy, no_answer), notes


def find(
    qrels: Qrels,
    run: Run,
    policy: Policy,
    *,
    threads: int | None = None,
    memory: int | None = None,
    keep_items: int = 0,
) -> tuple[Hits, tuple[str, ...]]:
    """Find the judged docs and their ranks, at the level of chunks or of docs."""
    threads = threads or default_threads()
    aligner = _Aligner(qrels, run, policy, threads, memory, keep_items)
    hits, notes = _at_level(qrels, run, policy, aligner)
    content = run.content
    if policy.selects:
        hits = replace(hits, empty_before=_empty_lists(qrels, content))
    chunked = isinstance(content, OrderedLists) and content.parents is not None and content.parents != content.lists
    chunked = chunked or (isinstance(content, LogColumns) and content.chunked)
    chunked = chunked or (bool(run.parents) and any(doc in run.parents for doc in qrels.docs))
    if isinstance(content, ScoredLists) and (hits.at_doc or run.parents or policy.selects):  # aligned as ordered lists
        hits = replace(hits, level=count_level_lists(qrels, content, policy))
    as_chunks = _match_as_chunks(qrels, hits, aligner) if run.names_docs and policy.level != "chunk" else 0
    if not (chunked or run.names_docs or as_chunks):
        return hits, notes
    return replace(hits, chunked=chunked, names_docs=run.names_docs, as_chunks=as_chunks), notes


def find_queries(
    run: Run, policy: Policy, *, threads: int | None = None, memory: int | None = None
) -> tuple[Qrels, Policy]:
    """The queries of a run without gold: as gold without judgments, and the policy to align them with."""
    how = replace(policy.without_gold(), level="chunk", empty_gold="zero")
    if isinstance(run.content, (ScoredLists, OrderedLists)):
        return unjudged_queries(run.content.lists), how
    hits, _ = find(unjudged_queries(()), run, how, threads=threads, memory=memory)
    return unjudged_queries(hits.without_gold), how


def _empty_lists(qrels: Qrels, content: object) -> NDArray[np.int64]:
    """The queries of the gold whose lists are empty in the run; files of rows cannot hold any."""
    queries: Iterable[str] = ()
    if isinstance(content, (ScoredLists, OrderedLists)):
        queries = (q for q, docs in content.lists.items() if not len(docs))
    elif isinstance(content, LogColumns):
        queries = content.empty_queries()
    places = [qrels.query_index[q] for q in queries if q in qrels.query_index]
    return np.array(places, dtype=np.int64)


def _at_level(qrels: Qrels, run: Run, policy: Policy, aligner: _Aligner) -> tuple[Hits, tuple[str, ...]]:
    if policy.level != "auto":
        hits = aligner.at(policy.level == "doc")
        if policy.level == "doc" and not hits.extent.matches:
            _refuse_chunks(qrels, run, aligner.at(False))
        return hits, run.notes
    by_chunk = aligner.at(False)
    if by_chunk.extent.matches == len(qrels.docs) or not aligner.has_parents(by_chunk):
        return by_chunk, run.notes
    by_doc = aligner.at(True)
    chunks, docs, total = by_chunk.extent.matches, by_doc.extent.matches, len(qrels.docs)
    if docs == chunks:
        return by_chunk, run.notes
    best, level = (by_doc, "doc") if docs > chunks else (by_chunk, "chunk")
    of_docs = f"{docs:,} of its docs" if docs else "none of its docs"
    verb = "is" if chunks == 1 else "are"
    note = f"matched by {level}: {chunks:,} of {total:,} judgments {verb} of chunks of the run, {of_docs}"
    return best, (*run.notes, note)


def _refuse_chunks(qrels: Qrels, run: Run, by_chunk: Hits) -> None:
    """Refuse gold by chunk where only docs are compared: every value would be 0."""
    if count := by_chunk.extent.matches:
        raise InputError(
            f"{run.name}: level=doc matches gold ids with the docs of chunks, and {qrels.source} names chunks: 0 of "
            f"{len(qrels.docs):,} judgments match a doc, {count:,} match a chunk. Leave out --level; --components "
            "measures recall by chunk and by doc"
        )


def _match_as_chunks(qrels: Qrels, hits: Hits, aligner: _Aligner) -> int:
    """The gold ids that would match if the run's docs were chunks; 0 where these are not more."""
    if hits.extent.matches == len(qrels.docs) or not aligner.has_marks(hits):
        return 0
    matches = aligner.as_chunks().at(True).extent.matches
    return matches if matches > hits.extent.matches else 0


class _Aligner:
    """One run and its gold, ready to be aligned at either level."""

    def __init__(
        self, qrels: Qrels, run: Run, policy: Policy, threads: int, memory: int | None, keep_items: int
    ) -> None:
        self.qrels, self.run, self.mark = qrels, run, policy.separator
        separator = run.separator(policy)
        self.policy = policy = policy if separator == policy.separator else replace(policy, separator=separator)
        self.threads, self.memory, self.keep_items = threads, memory, keep_items
        self._content = add_parents(run.content, run.parents, policy)
        self._gold: GoldIndex | None = None
        self._items: Mapping[int, Sequence[ReturnedDoc]] | None = None
        self._separators: list[bool] = []

    @property
    def gold(self) -> GoldIndex:
        if self._gold is None:
            self._gold = GoldIndex(self.qrels)
        return self._gold

    def at(self, at_doc: bool) -> Hits:
        """What is found when gold ids are matched with chunks, or with their docs."""
        try:
            hits = self._match(at_doc)
            return replace(hits, at_doc=True) if at_doc else hits
        except RepeatedDocs as repeated:
            raise repeated.as_error(self.run.path or self.run.name) from None

    def _match(self, at_doc: bool) -> Hits:
        content, selects = self._content, self.policy.selects
        if isinstance(content, ScoredLists) and selects and (rows := rows_of_lists(content)) is not None:
            content = self._content = Table(rows)
        if isinstance(content, ScoredLists):
            if not (at_doc or selects):
                return align_scored(self.qrels, content, self.policy, self.keep_items)
            content = order_lists(content, self.policy)
        if isinstance(content, OrderedLists):
            if selects:
                return align_selected(self.qrels, content, self.policy, at_doc, self.keep_items)
            if self._items is not None:  # they are the same at both levels
                return replace(align_ordered(self.qrels, content, self.policy, at_doc), items=self._items)
            aligned = align_ordered(self.qrels, content, self.policy, at_doc, self.keep_items)
            self._items = aligned.items
            return aligned
        if isinstance(content, Table):
            return align_table(
                self.qrels,
                self.gold,
                content.rows,
                self.policy,
                at_doc=at_doc,
                keep_items=self.keep_items,
                parents=self.run.parents,
            )
        if isinstance(content, LogColumns):
            return self._log(content, at_doc)
        if isinstance(content, RemoteRows):
            parents, depth = self.run.parents, self.keep_items
            hits: Hits = content.align(self.qrels, self.policy, at_doc=at_doc, keep_items=depth, parents=parents)
            return hits
        assert isinstance(content, (TextFile, ColumnStream))
        return self._file(content, at_doc)

    def _log(self, log: LogColumns, at_doc: bool) -> Hits:
        """The lists of a log; those that are empty have no rows. Threads would save little time, and take memory."""
        hits = self._stream(log, at_doc, threads=1)
        empty = list(log.empty_queries())
        known = [self.qrels.query_index[q] for q in empty if q in self.qrels.query_index]
        hits.returned[known] = 0
        others = [q for q in empty if q not in self.qrels.query_index]
        return replace(hits, without_gold=[*hits.without_gold, *others])

    def _stream(self, file: TextFile | ColumnStream | LogColumns, at_doc: bool, threads: int | None = None) -> Hits:
        return align_stream(
            self.qrels,
            lambda: self.gold,
            file,
            self.policy,
            at_doc=at_doc,
            threads=threads or self.threads,
            keep_items=self.keep_items,
            separator=self.mark.encode(),
            separators=self._separators,
            parents=self.run.parents,
        )

    def _file(self, file: TextFile | ColumnStream, at_doc: bool) -> Hits:
        try:
            return self._stream(file, at_doc)
        except NotGrouped:
            regular = True
        except Irregular:
            regular = False
        if isinstance(file, TextFile):
            file = replace(file, watchers=())  # they have seen its bytes already
        if file.size() > min(IN_MEMORY, (self.memory or IN_MEMORY * 16) // 16):
            try:
                if regular:
                    return self._disorder(file, at_doc)
            except Irregular:
                regular = False
            if isinstance(file, TextFile) and (hits := self._sql(file, at_doc)) is not None:
                return hits
        rows = file.everything() if regular or isinstance(file, ColumnStream) else file.exactly()
        if len(rows) == 0:
            raise InputError(f"{file.path}: holds no results, expected at least one")
        self._content = Table(rows)
        return self._match(at_doc)

    def _disorder(self, file: TextFile | ColumnStream, at_doc: bool) -> Hits:
        from karat.align.disorder import align_disorder

        return align_disorder(
            self.qrels,
            self.gold,
            file,
            self.policy,
            at_doc=at_doc,
            threads=self.threads,
            memory=self.memory,
            keep_items=self.keep_items,
            separator=self.mark.encode(),
            separators=self._separators,
            parents=self.run.parents,
        )

    def _sql(self, file: TextFile, at_doc: bool) -> Hits | None:
        from karat.align.sql import align_sql
        from karat.read import duck

        clean = duck.clean_source(file)
        if clean is None:
            return None
        source, queries = clean
        hits = align_sql(
            self.qrels,
            self.gold,
            source,
            self.policy,
            at_doc=at_doc,
            has_parent=file.layout.parent is not None,
            memory=self.memory,
            threads=self.threads,
            keep_items=self.keep_items,
            parents=self.run.parents,
        )
        return replace(hits, without_gold=[q for q in queries if q not in self.qrels.query_index])

    def has_parents(self, hits: Hits) -> bool:
        """Whether an id of the run could belong to a doc with another id, where gold was not found by chunk."""
        content = self._content
        if self.run.parents or (isinstance(content, OrderedLists) and content.parents is not None):
            return True
        if isinstance(content, Table) and content.rows.parent is not None:
            return True
        if isinstance(content, TextFile) and content.layout.parent is not None:
            return True
        if isinstance(content, LogColumns) or (isinstance(content, ColumnStream) and content.has_parents):
            return True
        if isinstance(content, RemoteRows) and content.has_parent:
            return True
        return not self.run.names_docs and self.has_marks(hits)

    def has_marks(self, hits: Hits) -> bool:
        """Whether an id of the run holds the separator, where gold was not found by chunk."""
        content, mark = self._content, self.mark
        if not mark or (isinstance(content, ScoredLists) and content.unmarked == mark):
            return False
        if isinstance(content, (ScoredLists, OrderedLists)):
            absent = np.ones(len(self.qrels.docs), dtype=bool)
            absent[hits.gold] = False
            queries = dict.fromkeys(self.qrels.query_of[absent].tolist())
            return any(mark in "\n".join(content.lists.get(self.qrels.query_ids[q], ())) for q in queries)
        if isinstance(content, Table):
            return mark.encode() in content.rows.doc.buffer.tobytes()
        if isinstance(content, RemoteRows):
            return content.holds(mark)
        return bool(self._separators)

    def as_chunks(self) -> _Aligner:
        """The same run with its ids taken for chunks."""
        content = self._content
        if isinstance(content, OrderedLists):
            content = replace(content, parents=None)
        if isinstance(content, LogColumns):
            content = replace(content, names_parents=False)
        run = replace(self.run, content=content, names_docs=False)
        return _Aligner(self.qrels, run, replace(self.policy, separator=self.mark), self.threads, self.memory, 0)
