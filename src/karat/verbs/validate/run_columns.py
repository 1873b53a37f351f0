"""Runs for a linter: columns of numbers, so that millions of rows fit, and their lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from karat.errors import InputError
from karat.model.decimals import decimals, exact_decimals
from karat.model.policy import Policy
from karat.model.queries import Queries
from karat.model.run import OrderedLists, Rows, Run, ScoredLists
from karat.model.run_log import RunLog
from karat.model.strings import PAD, Strings, hashed
from karat.read.column_stream import ColumnStream
from karat.read.exact import read_rows
from karat.read.files import InputFile, read_head
from karat.read.formats import LineRows, read_content, recognise_format
from karat.read.layout import Layout, lines_of
from karat.read.objects import run_from_mapping
from karat.read.scan import cut_fields
from karat.read.sources import check_rivals
from karat.read.textfile import Block, Irregular, TextFile
from karat.verbs.validate.tables import LogLine, RunFile, TableFile
from karat.verbs.validate.tolerant import FileProblems

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from karat.read.problems import Row

MOST_ROWS = 5_000_000
"""Rows of a run that are looked at."""
MOST_BYTES = 1 << 28
"""Bytes of an irregular text file that is read as a whole; a larger one is read block by block."""


class _Codes:
    """Numbers for ids, in the order in which they come."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}

    def of(self, name: str) -> int:
        """The number of an id."""
        return self.number.setdefault(name, len(self.number))

    def of_all(self, column: Strings) -> NDArray[np.int64]:
        """The numbers of a column; each id is decoded once."""
        keys = hashed(column.words(), np.uint64(1))
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")  # numbers follow the file, not the hashes
        codes = np.empty(len(first), dtype=np.int64)
        codes[order] = [self.of(t) for t in column.take(first[order]).texts()]
        out: NDArray[np.int64] = codes[inverse.reshape(-1)]
        return out

    def names(self) -> list[str]:
        """The ids by their numbers."""
        return list(self.number)


class _Columns:
    """Rows that are collected one by one or in blocks."""

    def __init__(self) -> None:
        self.queries, self.docs = _Codes(), _Codes()
        self.parts: list[tuple[NDArray[Any], ...]] = []
        self.rows = 0

    def add(self, query: Any, doc: Any, score: Any, rank: Any, line: Any) -> None:
        """Take in a block of rows: ids as numbers, and their values."""
        part = (
            np.asarray(query, np.int64),
            np.asarray(doc, np.int64),
            np.asarray(score, np.float64),
            np.asarray(rank, np.float64),
            np.asarray(line, np.int64),
        )
        self.parts.append(part)
        self.rows += len(part[0])

    def add_rows(self, rows: Sequence[Row], ranks: Mapping[int, float]) -> None:
        """Take in rows that were read line by line, with the ranks on their lines."""
        good = [row for row in rows if row[1] and row[2]]
        self.add(
            [self.queries.of(r[1]) for r in good],
            [self.docs.of(r[2]) for r in good],
            [r[3] for r in good],
            [ranks.get(r[0], np.nan) for r in good],
            [r[0] for r in good],
        )

    def run(self, path: str, **more: Any) -> RunFile:
        """All of it as one run."""
        empty: NDArray[Any] = np.zeros(0)
        columns = [np.concatenate([p[i] for p in self.parts]) if self.parts else empty for i in range(5)]
        query, doc, score, rank, line = columns
        return RunFile(
            path,
            self.queries.names(),
            self.docs.names(),
            query.astype(np.int64),
            doc.astype(np.int64),
            score,
            rank,
            line.astype(np.int64),
            **more,
        )


def read_run_columns(path: str, problems: FileProblems, tables: Sequence[TableFile] = ()) -> RunFile | None:
    """The results that can be read; those that name no queries are in the order of the first table."""
    try:
        return _run(path, problems, tables)
    except InputError as error:
        problems.add_error(error)
        return None


def _run(path: str, problems: FileProblems, tables: Sequence[TableFile]) -> RunFile:
    from karat.read.files import is_run_log

    file = InputFile(path, read_head(path))
    form = recognise_format(file, "run")
    if form.name == "jsonl" and is_run_log(file.head):
        return _from_log(path, problems)
    content = read_content(file, "run", problems)
    if isinstance(content, Mapping):
        queries = Queries({id: fields for _, id, fields in tables[0].rows}, tables[0].path) if tables else None
        return _from_lists(path, run_from_mapping(content, path, queries=queries))
    assert not isinstance(content, RunLog)
    problems.notes = content.notes
    ranks = form.ranks(file) if form.ranks is not None else {}
    if isinstance(content, ColumnStream):
        return replace(_from_columns(path, content.everything(), ranks), names_docs=content.names_docs)
    if isinstance(content, LineRows):
        return replace(_from_rows(path, content.rows, ranks, problems), names_docs=content.names_docs)
    check_rivals(content, problems)
    layout = content.layout
    at = 3 if not layout.header else layout.header.index("rank") if "rank" in layout.header else None
    try:
        return replace(_in_blocks(content, at, file.head, problems), names_docs=layout.names_docs)
    except Irregular:
        rows = content.exact_rows(problems)
    if at is not None:
        with_ranks = TextFile(path, replace(layout, value=at), "run")
        ranks = {row[0]: row[3] for row in with_ranks.exact_rows(FileProblems(path))}
    return replace(_from_rows(path, rows, ranks, problems), names_docs=layout.names_docs)


def _in_blocks(file: TextFile, at: int | None, head: bytes, problems: FileProblems) -> RunFile:
    """All rows, block by block; `Irregular` where a file of usual size is better read line by line."""
    layout: Layout = file.layout
    line = next(lines_of(head))[0] + 1 if layout.header else 1
    out, parents, whole = _Columns(), dict[str, str](), True
    for block in file.blocks():
        if out.rows >= MOST_ROWS:
            whole = False
            break
        columns = _block_columns(block, layout, at)
        if columns is not None:
            for doc, parent in columns.parents:
                parents.setdefault(doc, parent)
            lines = np.arange(line, line + len(columns.score))
            out.add(out.queries.of_all(columns.query), out.docs.of_all(columns.doc), columns.score, columns.rank, lines)
        elif file.size() <= MOST_BYTES:
            raise Irregular
        else:
            data = bytes(block.buffer[PAD : block.end])
            rows = read_rows(data, layout, "run", file.path, line, problems)
            out.add_rows(rows, {})
        line += block.buffer.count(b"\n", PAD, block.end)
    return out.run(file.path, parents=parents, whole=whole)


class _BlockColumns(NamedTuple):
    query: Strings
    doc: Strings
    score: NDArray[np.float64]
    rank: NDArray[np.float64]
    parents: Sequence[tuple[str, str]]


def _block_columns(block: Block, layout: Layout, at: int | None) -> _BlockColumns | None:
    """The rows of a block by array operations, or None where it is irregular."""
    columns = {c for c in (layout.query, layout.doc, layout.value, layout.parent, at) if c is not None}
    buffer: NDArray[np.uint8] = np.frombuffer(block.buffer, dtype=np.uint8)
    strings = cut_fields(buffer, PAD, block.end, layout, tuple(sorted(columns)))
    numbers = decimals(strings[layout.value]) if strings is not None else None
    if strings is None or numbers is None or len(numbers.bad):
        return None
    score = numbers.values if numbers.near is None else exact_decimals(strings[layout.value])[0]
    rank = np.full(len(score), np.nan)
    if at is not None:
        ranks = decimals(strings[at])
        rank = ranks.values.copy()
        rank[ranks.bad] = np.nan
    parents = list[tuple[str, str]]()
    if layout.parent is not None:
        parents = list(zip(strings[layout.doc].texts(), strings[layout.parent].texts(), strict=True))
    return _BlockColumns(strings[layout.query], strings[layout.doc], score, rank, parents)


def _from_rows(path: str, rows: Sequence[Row], ranks: Mapping[int, float], problems: FileProblems) -> RunFile:
    if not rows and not problems.items:
        raise InputError(f"{path}: holds no results, expected at least one")
    out = _Columns()
    out.add_rows(rows, ranks)
    return out.run(path, parents={r[2]: r[4] for r in rows if r[4]})


def _from_columns(path: str, rows: Rows, ranks: Mapping[int, float]) -> RunFile:
    out, lines = _Columns(), range(1, len(rows) + 1)
    codes = out.queries.of_all(rows.query), out.docs.of_all(rows.doc)
    out.add(*codes, rows.score, [ranks.get(line, np.nan) for line in lines], lines)
    parents = dict(zip(rows.doc.texts(), rows.parent.texts(), strict=True)) if rows.parent is not None else {}
    return out.run(path, parents=parents)


def _from_lists(path: str, run: Run) -> RunFile:
    """A run as one JSON object, which has no lines."""
    out, parents = _Columns(), dict[str, str]()
    assert isinstance(run.content, (ScoredLists, OrderedLists))
    in_file_order = isinstance(run.content, OrderedLists)
    for query, docs in run.content.lists.items():
        scores: Iterable[Any] = docs.values() if isinstance(docs, dict) else [np.nan] * len(docs)
        q = out.queries.of(query)
        n = len(docs)
        out.add([q] * n, [out.docs.of(d) for d in docs], list(scores), [np.nan] * n, [-1] * n)
    if isinstance(run.content, OrderedLists) and run.content.parents:
        for query, chunks in run.content.lists.items():
            parents.update(zip(chunks, run.content.parents[query], strict=True))
    return out.run(path, parents=parents, in_file_order=in_file_order)


def _from_log(path: str, problems: FileProblems) -> RunFile:
    from karat.model.run_log import ordered_items
    from karat.read.run_log import Complaints, log_lines, trace_of, versions_of

    out, log, policy, faults = _Columns(), list[LogLine](), Policy(), Complaints()
    parents: dict[str, str] = {}
    whole = names_docs = True
    for place, query, line in log_lines(path, problems):
        if out.rows >= MOST_ROWS:
            whole = False
            break
        trace, complaints = trace_of(line)
        latency = line.latency_ms if isinstance(line.latency_ms, dict) else {}
        ruled = ["doc_version", *(["latency_ms"] if len(trace.latency_ms) < len(latency) else [])]
        for complaint in complaints:
            if complaint.field not in ruled:  # R312 and R315 say it
                faults.add(place, complaint)
        if trace.topk is None or any(complaint.field == "topk" for complaint in complaints):
            continue
        items = ordered_items(trace.topk, policy)
        ranks = [i.rank for i in items if i.rank is not None]
        for item in items:
            names_docs = names_docs and item.chunk_id is None
            if item.chunk_id is not None and item.doc_id is not None:
                parents.setdefault(item.chunk_id, item.doc_id)
        q = out.queries.of(query)
        rows = items if ranks else trace.topk
        out.add(
            [q] * len(rows),
            [out.docs.of(i.id) for i in rows],
            [np.nan if i.score is None else i.score for i in rows],
            [np.nan if i.rank is None else float(i.rank) for i in rows],
            [place] * len(rows),
        )
        log.append(
            LogLine(
                place,
                query,
                len(items),
                ranks,
                line.facts,
                latency,
                trace.stages,
                line.retrieved,
                [(i.id, v) for i, v in zip(trace.topk, versions_of(line), strict=True) if v is not None],
            )
        )
    for fault in faults.problems():
        problems.add(fault.line, fault.text)
    return out.run(path, parents=parents, names_docs=names_docs, log=log, is_log=True, whole=whole)
