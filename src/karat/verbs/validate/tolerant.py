"""Reading for a linter: every problem is noted and the rest is read, with line numbers."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import InputError
from karat.model.docs import title_and_text
from karat.read import frames
from karat.read.docs import PARENT
from karat.read.exact import Noted
from karat.read.layout import detect, head_of
from karat.read.objects import text_id
from karat.read.queries import DOCS, rows_with_ids, table_rows
from karat.read.textfile import TextFile
from karat.verbs.validate.dates import as_date
from karat.verbs.validate.findings import found, many
from karat.verbs.validate.tables import CorpusFile, GoldFile, TableFile, place

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from karat.read.exact import Row
    from karat.verbs.validate.findings import Finding

EACH = 20
"""How many problems of one file are findings of their own; the rest is counted."""
MOST_DOCS = 5_000_000
"""Docs of a corpus that are looked at."""


class Reading:
    """The problems of one file, as findings."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.noted = Noted(path)
        self.raised: list[str] = []

    def failed(self, error: InputError) -> None:
        """Take over what a reader raised."""
        self.raised += [str(p) for p in error.problems]

    def findings(self) -> list[Finding]:
        """A finding for each problem, the first few by themselves and the rest as a number."""
        problems = [(place(self.path, line), text) for line, text in self.noted.lines]
        problems += [self._parted(text) for text in self.raised]
        out = [found("F001", self.path, text, [where], 1, _fix(text)) for where, text in problems[:EACH]]
        rest = problems[EACH:]
        if rest:
            more = f"{many(len(rest), 'more problem')} of this kind in this file"
            out.append(found("F001", self.path, more, [w for w, _ in rest], len(rest)))
        return out

    def _parted(self, text: str) -> tuple[str, str]:
        match = re.match(re.escape(self.path) + r":(\d+)?:? ?(row \d+: )?", text)
        if match is None:
            return self.path, text
        where = place(self.path, int(match[1])) if match[1] else self.path
        return where, (match[2] or "") + text[match.end() :]


def _fix(text: str) -> str | None:
    """What to do about some problems more precisely than in general."""
    if "finite number" in text:
        return "Write a finite number, or remove the line."
    if "break" in text:
        return "Copy or write the file again."
    return None


def read_gold(path: str, reading: Reading) -> GoldFile | None:
    """The judgments that can be read."""
    try:
        return _gold(path, reading)
    except InputError as error:
        reading.failed(error)
        return None


def _gold(path: str, reading: Reading) -> GoldFile | None:
    head = head_of(path)
    layout = detect(path, "qrels", None, head)
    if layout.kind == "json":
        from karat.model.qrels import Qrels
        from karat.read.jsonl import read_json

        gold = read_json(path, "qrels", path)
        assert isinstance(gold, Qrels)
        names = [gold.query_ids[i] for i in gold.query_of.tolist()]
        return GoldFile(path, [-1] * len(names), names, list(gold.docs), gold.grades)
    if layout.kind == "parquet":
        rows, _ = frames.parquet_rows(path, "qrels")
        topics = rows.parent.texts() if rows.parent is not None else ()
        return GoldFile(path, range(1, len(rows) + 1), rows.query.texts(), rows.doc.texts(), rows.score, topics)
    before = len(reading.noted.lines)
    listed: Sequence[Row]
    if layout.kind == "jsonl":
        from karat.read.jsonl import read_json_rows

        listed = read_json_rows(path, "qrels", None, reading.noted)
    else:
        listed = TextFile(path, layout, "qrels").exact_rows(reading.noted)
    if not listed and len(reading.noted.lines) == before:
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


def read_table(path: str, reading: Reading) -> TableFile | None:
    """The queries that can be read; an id that is there twice is left in."""
    try:
        rows = list(rows_with_ids(table_rows(path, head_of(path), None, reading.noted), reading.noted))
    except InputError as error:
        reading.failed(error)
        return None
    return TableFile(path, rows)


def read_corpus(path: str, reading: Reading, wanted: Collection[str]) -> CorpusFile | None:
    """The docs that can be read; texts are kept of those that are wanted."""
    lines: list[int] = []
    ids: list[str] = []
    prints: list[bytes] = []
    texts: dict[str, str] = {}
    undated: list[tuple[int, str]] = []
    parents: dict[str, str] = {}
    whole = True
    try:
        rows = table_rows(path, head_of(path), None, reading.noted, DOCS)
        for line, doc, fields in rows_with_ids(rows, reading.noted, DOCS):
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
        reading.failed(error)
        if not ids:
            return None
    return CorpusFile(path, lines, ids, prints, texts, undated, whole, parents)
