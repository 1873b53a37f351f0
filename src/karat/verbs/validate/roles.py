"""What a file is for, by its content and, where that is not enough, by its name."""

from __future__ import annotations

import os
import re
from statistics import median
from typing import TYPE_CHECKING, Literal

from karat.model.docs import TEXT_FIELDS, Fields
from karat.read.chroma import begins_results
from karat.read.columns import DOC_NAMES, GRADE_NAMES, ID_NAMES, QUERY_NAMES, SCORE_NAMES, column
from karat.read.files import InputFile
from karat.read.formats import recognise_format
from karat.read.layout import ascii_split, lines_of
from karat.read.problems import parse_number

if TYPE_CHECKING:
    from collections.abc import Sequence


FileRole = Literal["qrels", "queries", "run", "corpus", "result", "config"]
ROLES: dict[FileRole, str] = {
    "qrels": "gold",
    "queries": "queries",
    "run": "run",
    "corpus": "corpus",
    "result": "result of Karat",
    "config": "configuration",
}
LONG = 300
"""The median length of texts from which they are docs rather than queries."""
_WORDS: dict[FileRole, str] = {
    "qrels": r"qrels?|gold|judge?ments?|labels?|relevance",
    "corpus": r"corpus|collection|docs|documents|passages|chunks",
    "queries": r"quer(y|ies)|topics?|questions?|claims?|segments?",
    "run": r"runs?|results?",
}
_ONLY_GOLD = tuple(n for n in GRADE_NAMES if n not in SCORE_NAMES)
_BEIR = ("query-id", "corpus-id")


def detect_role(path: str, head: bytes) -> FileRole | None:
    """The role of a file by its first bytes; None if it is unclear."""
    if re.search(r"\.ya?ml$", path, re.IGNORECASE):
        return "config"
    form = recognise_format(InputFile(path, head))
    if form.name == "parquet":
        return _by_rows(path, _parquet_rows(path))
    if form.name == "json" and begins_results(head):
        return "run"
    if form.name in ("json", "jsonl"):
        return _json_role(path, head.lstrip())
    if form.name in ("csv", "trec", "tsv"):
        return _text_role(path, head)
    roles: list[FileRole] = [role for role in ("qrels", "run") if form.holds(role)]
    return role_by_name(path, tuple(roles)) if len(roles) > 1 else roles[0] if roles else "queries"


def role_by_name(path: str, among: tuple[FileRole, ...]) -> FileRole | None:
    """The one role that the words of the file's name speak for, or those of its folder."""
    parts = os.path.abspath(path).split(os.sep)
    for part in (parts[-1], parts[-2] if len(parts) > 1 else ""):
        roles = [r for r in among if re.search(rf"(?<![a-z])({_WORDS[r]})(?![a-z])", part.lower())]
        if len(roles) == 1:
            return roles[0]
    return None


def _json_role(path: str, text: bytes) -> FileRole | None:
    import msgspec

    rows: list[Fields] = []
    for raw in text.split(b"\n")[:50]:
        try:
            row = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(row)
    if not rows:
        if b'"format_version"' in text[:500] and b'"kind"' in text[:500]:
            return "result"
        return "run" if b'"topk"' in text[:2000] else _object_role(path, text)
    first = rows[0]
    if "format_version" in first and "kind" in first:
        return "result"
    if any("topk" in row for row in rows):
        return "run"
    if any(name in first for name in ID_NAMES):
        return _by_rows(path, rows)
    return _object_role(path, text)


def _object_role(path: str, text: bytes) -> FileRole | None:
    """Gold or a run as one JSON object: {query: {doc: grade or score}}, or {query: docs}."""
    values = re.findall(rb"[{,]\s*\"(?:[^\"\\]|\\.)*\"\s*:\s*(-?\d[^,}\s]*)", text)
    role = role_by_name(path, ("qrels", "run"))
    if role is not None or not values:
        return role
    return (
        "run" if any(b"." in v or b"e" in v for v in values) else "qrels" if all(len(v) == 1 for v in values) else None
    )


def _parquet_rows(path: str) -> Sequence[Fields]:
    from karat.store.database import Database, DatabaseError, parquet

    try:
        rows = Database([path]).named_rows(parquet(path).select("*", "LIMIT 50"))
        return [{name.lower(): value for name, value in row.items()} for row in rows]
    except DatabaseError:
        return []


def _by_rows(path: str, rows: Sequence[Fields]) -> FileRole | None:
    """The role of a table by the names of its columns, then by what they hold."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        return role_by_name(path, ("qrels", "run", "queries", "corpus"))
    values = column(names, GRADE_NAMES)
    pairs = column(names, QUERY_NAMES) is not None and column(names, DOC_NAMES) is not None
    if pairs and values is not None and "text" not in names:
        return _gold_or_run(path, names, [row.get(names[values]) for row in rows])
    if column(names, ID_NAMES) is None:
        return None
    return _queries_or_corpus(path, names, rows)


def _gold_or_run(path: str, names: list[str], values: list[object]) -> FileRole | None:
    if any(n in names for n in _ONLY_GOLD) and not any(n in names for n in ("rank", "sim")):
        return "qrels"
    if "rank" in names or "sim" in names:
        return "run"
    if all(n in names for n in _BEIR):
        return "qrels"
    role = role_by_name(path, ("qrels", "run"))
    if role is not None:
        return role
    numbers = [parse_number(str(v)) for v in values]
    whole = [v for v in numbers if v is not None and v == int(v)]
    if len(whole) < len(numbers):
        return "run"
    return "qrels" if all(-2 <= v <= 4 for v in whole) else None


def _queries_or_corpus(path: str, names: list[str], rows: Sequence[Fields]) -> FileRole | None:
    role = role_by_name(path, ("queries", "corpus"))
    if "title" in names and any(n in names for n in TEXT_FIELDS):
        return role or "corpus"
    own = next(n for n in ID_NAMES if n in names)
    if own in QUERY_NAMES:
        return "queries"
    if own in DOC_NAMES:
        return "corpus"
    if role is not None:
        return role
    texts = [str(row[n]) for row in rows for n in TEXT_FIELDS if n in row]
    if not texts:
        return None
    return "corpus" if median(map(len, texts)) >= LONG else "queries"


def _text_role(path: str, head: bytes) -> FileRole | None:
    lines = [line for _, line in lines_of(head)][:50]
    if not lines:
        return role_by_name(path, ("qrels", "run", "queries", "corpus"))
    for mark in ("\t", ",", ";", "|", None):
        cells = [[c.strip().strip('"') for c in (line.split(mark) if mark else line.split())] for line in lines]
        names = [n.lower() for n in cells[0]]
        if len(names) >= 2 and (column(names, ID_NAMES) is not None):
            rows = [dict(zip(names, row, strict=False)) for row in cells[1:]]
            return _by_rows(path, rows or [dict.fromkeys(names)])
    words = ascii_split(lines[0])
    if len(words) in (5, 6) and parse_number(words[3]) is not None and parse_number(words[4]) is not None:
        return "run"
    if len(words) == 4 and parse_number(words[3]) is not None and "\t" not in lines[0].strip().replace("\t", "", 3):
        return "qrels"
    role = role_by_name(path, ("qrels", "run", "queries", "corpus"))
    if role in ("qrels", "run"):
        return role
    if len(words) >= 2 and all(len(line.split("\t")) == 2 for line in lines):
        texts = [line.split("\t")[1] for line in lines]
        return role or ("corpus" if median(map(len, texts)) >= LONG else "queries")
    return role
