"""FileProblems for a linter: every problem is noted and the rest is read, with line numbers."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import InputError, Problem
from karat.model.docs import title_and_text
from karat.read import frames
from karat.read.docs import PARENT
from karat.read.exact import Problems
from karat.read.layout import detect, head_of
from karat.read.objects import text_id
from karat.read.queries import DOCS, rows_with_ids, table_rows
from karat.read.sources import check_rivals
from karat.read.textfile import TextFile
from karat.verbs.validate.dates import as_date
from karat.verbs.validate.findings import make_finding, many
from karat.verbs.validate.tables import CorpusFile, GoldFile, TableFile, place

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from karat.read.exact import Row
    from karat.verbs.validate.findings import LintFinding

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


def _gold(path: str, problems: FileProblems) -> GoldFile | None:
    head = head_of(path)
    layout = detect(path, "qrels", None, head)
    problems.notes = tuple(rival.note for rival in layout.rivals)
    if layout.kind == "json":
        from karat.model.qrels import Qrels
        from karat.read.jsonl import read_json

        gold = read_json(path, "qrels", path)
        assert isinstance(gold, Qrels)
        names = [gold.query_ids[i] for i in gold.query_of.tolist()]
        return GoldFile(path, [-1] * len(names), names, list(gold.docs), gold.grades)
    if layout.kind == "parquet":
        rows, problems.notes = frames.parquet_rows(path, "qrels")
        topics = rows.parent.texts() if rows.parent is not None else ()
        return GoldFile(path, range(1, len(rows) + 1), rows.query.texts(), rows.doc.texts(), rows.score, topics)
    before = len(problems.items)
    listed: Sequence[Row]
    if layout.kind == "jsonl":
        from karat.read.jsonl import read_json_rows

        listed = read_json_rows(path, "qrels", None, problems)
    else:
        file = TextFile(path, layout, "qrels")
        listed = file.exact_rows(problems)
        check_rivals(file, problems)
    if not listed and len(problems.items) == before:
        raise InputError(f"{path}: holds no judgments, expected at least one")
    rows_ = [row for row in listed if row[1] and row[2]]
    return GoldFile(
        path,
        [r[0] for r in rows_],
        [r[1] for r in rows_],
        [r[2] for r in rows_],
        np.array([r[3] for r in rows_], dtype=np.float64),
        [r[4] for r in rows_],
    )


def read_query_table(path: str, problems: FileProblems) -> TableFile | None:
    """The queries that can be read; an id that appears twice is left in."""
    try:
        rows = list(rows_with_ids(table_rows(path, head_of(path), None, problems), problems))
    except InputError as error:
        problems.add_error(error)
        return None
    return TableFile(path, rows)


def read_corpus_rows(path: str, problems: FileProblems, wanted: Collection[str]) -> CorpusFile | None:
    """The docs that can be read; texts are kept of those that are wanted."""
    lines: list[int] = []
    ids: list[str] = []
    prints: list[bytes] = []
    texts: dict[str, str] = {}
    undated: list[tuple[int, str]] = []
    parents: dict[str, str] = {}
    whole = True
    try:
        rows = table_rows(path, head_of(path), None, problems, DOCS)
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
            if doc in wanted:
                texts.setdefault(doc, text)
            if (parent := text_id(fields.get(PARENT))) is not None:
                parents[doc] = parent
            version = fields.get("doc_version")
            if version is not None and as_date(version) is None:
                undated.append((line, str(version)))
    except InputError as error:
        problems.add_error(error)
        if not ids:
            return None
    return CorpusFile(path, lines, ids, prints, texts, undated, whole, parents)
