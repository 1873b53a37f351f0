"""Files for a linter: every problem is noted and the rest is read, with line numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

import numpy as np

from karat.errors import InputError, Problem
from karat.model.dates import day_of
from karat.model.docs import title_and_text
from karat.model.run_log import RunLog
from karat.read.column_stream import ColumnStream
from karat.read.columns import DOCS, QUERIES
from karat.read.docs import PARENT
from karat.read.files import InputFile, read_head
from karat.read.formats import LineRows, read_content, read_table_rows
from karat.read.objects import qrels_from_mapping, text_id
from karat.read.problems import Problems
from karat.read.queries import rows_with_ids
from karat.read.sources import check_rivals
from karat.read.textfile import TextFile
from karat.verbs.validate.findings import LintFinding, make_finding, many
from karat.verbs.validate.tables import CorpusFile, GoldFile, TableFile, place

EACH = 20
"""How many problems of one file are findings of their own; the rest is counted."""
MOST_DOCS = 5_000_000
"""Docs of a corpus that are looked at."""


class FileProblems(Problems):
    """Every problem of one file: a linter reads on after each."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.notes: tuple[str, ...] = ()
        """How the file is read, where that may surprise."""

    def add(self, line: int | None, text: str) -> None:
        """Note a problem."""
        self.items.append(Problem(self.name, line, text))

    def check(self) -> None:
        """Raise nothing."""

    def add_error(self, error: InputError) -> None:
        """Take over what a reader raised."""
        for problem in error.problems:
            if isinstance(problem, Problem):
                self.items.append(problem)
            else:
                self.add(None, problem.removeprefix(f"{self.name}: "))

    def findings(self) -> list[LintFinding]:
        """A finding for each problem: the first few by themselves, the rest as a number."""
        out = [make_finding("F007", self.name, note, [self.name]) for note in self.notes]
        out += [make_finding("F001", self.name, p.detail, [place(p.file, p.line)]) for p in self.items[:EACH]]
        rest = self.items[EACH:]
        if rest:
            more = f"{many(len(rest), 'more problem')} of this kind in this file"
            out.append(make_finding("F001", self.name, more, [place(p.file, p.line) for p in rest], len(rest)))
        return out


def read_gold_rows(path: str, problems: FileProblems) -> GoldFile | None:
    """The judgments that can be read."""
    try:
        return _gold(path, problems)
    except InputError as error:
        problems.add_error(error)
        return None


def _gold(path: str, problems: FileProblems) -> GoldFile:
    file = InputFile(path, read_head(path))
    before = len(problems.items)
    content = read_content(file, "qrels", problems)
    if isinstance(content, Mapping):
        gold = qrels_from_mapping(content, path)
        names = [gold.query_ids[i] for i in gold.query_of.tolist()]
        return GoldFile(path, [-1] * len(names), names, list(gold.docs), gold.grades)
    assert not isinstance(content, RunLog)
    problems.notes = content.notes
    if isinstance(content, ColumnStream):
        columns = content.everything()
        topics = columns.parent.texts() if columns.parent is not None else ()
        lines = range(1, len(columns) + 1)
        return GoldFile(path, lines, columns.query.texts(), columns.doc.texts(), columns.score, topics)
    rows = content.rows if isinstance(content, LineRows) else content.exact_rows(problems)
    if isinstance(content, TextFile):
        check_rivals(content, problems)
    if not rows and len(problems.items) == before:
        raise InputError(f"{path}: holds no judgments, expected at least one")
    whole = [row for row in rows if row[1] and row[2]]
    return GoldFile(
        path,
        [r[0] for r in whole],
        [r[1] for r in whole],
        [r[2] for r in whole],
        np.array([r[3] for r in whole], dtype=np.float64),
        [r[4] for r in whole],
    )


def read_query_table(path: str, problems: FileProblems) -> TableFile | None:
    """The queries that can be read; an id that appears twice is left in."""
    try:
        rows = list(rows_with_ids(read_table_rows(InputFile(path, read_head(path)), problems, QUERIES), problems))
    except InputError as error:
        problems.add_error(error)
        return None
    return TableFile(path, rows)


def read_corpus_rows(path: str, problems: FileProblems, docs: Collection[str]) -> CorpusFile | None:
    """The docs that can be read; texts are kept of those that are wanted."""
    lines: list[int] = []
    ids: list[str] = []
    prints: list[bytes] = []
    texts: dict[str, str] = {}
    bad_dates: list[tuple[int, str]] = []
    parents: dict[str, str] = {}
    whole = True
    try:
        rows = read_table_rows(InputFile(path, read_head(path)), problems, DOCS)
        for line, doc, fields in rows_with_ids(rows, problems, DOCS):
            if len(ids) >= MOST_DOCS:
                whole = False
                break
            lines.append(line)
            ids.append(doc)
            text = " ".join(title_and_text(fields).split())
            prints.append(
                hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() if text else b""
            )
            if doc in docs:
                texts.setdefault(doc, text)
            if (parent := text_id(fields.get(PARENT))) is not None:
                parents[doc] = parent
            version = fields.get("doc_version")
            if version is not None and day_of(version) is None:
                bad_dates.append((line, str(version)))
    except InputError as error:
        problems.add_error(error)
        if not ids:
            return None
    return CorpusFile(path, lines, ids, prints, texts, bad_dates, whole, parents)
