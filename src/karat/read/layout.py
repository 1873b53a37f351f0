"""Delimited text, from its first lines: the mark between fields, and which column holds what."""

from __future__ import annotations

import csv
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from karat.errors import AmbiguousFormat, InputError, Problem, shown
from karat.model.limits import LINE
from karat.read.columns import CHUNK, DOC_NAMES, GRADE_NAMES, QUERY_NAMES, SCORE_NAMES, SUBTOPIC, column, rivals_of
from karat.read.formats import describe_formats, format_names
from karat.read.problems import QUOTE_PROBLEM, RETURN_PROBLEM, describe_bad_bytes
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karat.read.columns import Rival, Role
    from karat.read.files import InputFile

MARKS = ("\t", ",", ";", "|", " ")
"""Marks between the fields of a table, in the order in which they are tried; a space is any white space."""
SOME_NAMES = 20
"""Columns that an error names."""
_SEPARATORS = re.compile("[\x1c-\x1f]")
"""Characters that Python takes for white space, and no other reader does."""
_NOT_TEXT = {b"\xff\xfe": "UTF-16 text", b"\xfe\xff": "UTF-16 text", b"%PDF": "a PDF file", b"PK\x03\x04": "a ZIP file"}


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows lie in a text: the delimiter, and where the columns are.

    `delimiter` None means any white space; a TREC file has no `header`. `value` is the grade of gold or the score of
    a run; `parent` is the doc that a chunk of a run belongs to, or the subtopic of a judgment.
    """

    delimiter: str | None
    width: int
    query: int
    doc: int
    value: int
    parent: int | None = None
    header: tuple[str, ...] = ()
    rivals: tuple[Rival, ...] = ()

    @property
    def names_docs(self) -> bool:
        """Whether the ids stand in a column for docs; without a header nobody knows what they are."""
        return bool(self.header) and self.header[self.doc] != CHUNK


def ascii_split(line: str) -> list[str]:
    """The fields of a line between white space. A no-break space, say, is part of an id."""
    if line.isascii() and _SEPARATORS.search(line) is None:
        return line.split()
    return [cell.decode() for cell in line.encode().split()]


def lines_of(head: bytes) -> Iterator[tuple[int, str]]:
    """The lines of a piece of text with their numbers, without blank ones and comments."""
    for number, raw in enumerate(head.split(b"\n"), start=1):
        line = raw.decode("utf-8", "replace").rstrip("\r")
        if line.strip() and not line.startswith("#"):
            yield number, line


def header_mark(head: bytes, marks: Sequence[str] = MARKS) -> str:
    """The mark in a header that names queries or docs; empty without a header."""
    _, line = next(lines_of(head), (0, ""))
    for mark in marks:
        names = _names(line, mark)
        if len(names) >= 2 and (column(names, QUERY_NAMES) is not None or column(names, DOC_NAMES) is not None):
            return mark
    return ""


def lacks_header(head: bytes) -> bool:
    """Whether the first line is that of a table whose columns have no names."""
    _, line = next(lines_of(head), (0, ""))
    return (
        len(ascii_split(line)) < 4
        and any(line.count(mark) >= 2 for mark in "\t,;|")
        and not line.startswith("{")
        and not header_mark(head)
    )


def _names(line: str, mark: str) -> list[str]:
    cells = line.split(None if mark == " " else mark)
    if '"' in line and mark != " ":
        with suppress(csv.Error):  # not a header then, and said elsewhere
            cells = next(csv.reader([line], delimiter=mark))
    return [name.strip().strip('"').lower() for name in cells]


def name_columns(names: Sequence[str]) -> str:
    """Names of columns in an error; of many, the first."""
    rest = len(names) - SOME_NAMES
    return ", ".join(names[:SOME_NAMES]) + (f" and {rest:,} more" if rest > 0 else "")


def read_table_layout(file: InputFile, role: Role, marks: Sequence[str]) -> Layout:
    """The layout of a text file whose header has one of these marks."""
    number, line = _first_line(file, role)
    mark = header_mark(file.head, marks)
    if not mark:
        names = "query_id,doc_id,grade" if role == "qrels" else "query_id,doc_id,score"
        problem = f"no header, expected a first line with column names such as {names}; found {shown(line)}"
        raise InputError(Problem(file.path, number, problem))
    try:
        text = file.head.split(b"\n")[number - 1].decode()
        if "\r" in text.removesuffix("\r"):
            raise InputError(Problem(file.path, number, RETURN_PROBLEM))
        next(csv.reader([line], delimiter=mark, strict=True))
    except UnicodeDecodeError as error:
        raise InputError(Problem(file.path, number, describe_bad_bytes(error))) from None
    except csv.Error:
        raise InputError(Problem(file.path, number, QUOTE_PROBLEM)) from None
    return table_layout(file.path, role, _names(line, mark), None if mark == " " else mark, line=number)


def table_layout(
    source: str, role: Role, names: list[str], delimiter: str | None = None, *, line: int | None = None
) -> Layout:
    """The columns of a table by the names in its header."""
    query = column(names, QUERY_NAMES)
    doc, parent = column(names, DOC_NAMES), None
    if role == "run" and CHUNK in names and doc is not None and names[doc] != CHUNK:
        doc, parent = names.index(CHUNK), doc
    if role == "qrels" and SUBTOPIC in names:
        parent = names.index(SUBTOPIC)
        if names.count(SUBTOPIC) > 1:
            raise InputError(Problem(source, line, f"the column {shown(SUBTOPIC)} appears twice; rename or remove one"))
    values = GRADE_NAMES if role == "qrels" else SCORE_NAMES
    value = column(names, values)
    value = None if value == query else value
    claims = {"query": (query, QUERY_NAMES), "doc": (doc, DOC_NAMES)}
    claims["grade" if role == "qrels" else "score"] = (value, values)
    for idea, (index, candidates) in claims.items():
        if index is None:
            gold = idea == "score" and column(names, GRADE_NAMES) is not None
            advice = "This looks like gold: did you swap gold and run?" if gold else "Rename a column"
            columns = name_columns([shown(name) for name in names])
            problem = f"no {idea} column; expected one of {', '.join(candidates)}; found {columns}. {advice}"
            raise InputError(Problem(source, line, problem))
        if names.count(names[index]) > 1:
            problem = f"the column {shown(names[index])} appears twice; rename or remove one"
            raise InputError(Problem(source, line, problem))
    assert query is not None and doc is not None and value is not None
    return Layout(delimiter, len(names), query, doc, value, parent, tuple(names), rivals_of(tuple(names), role))


def read_trec_layout(file: InputFile, role: Role) -> Layout:
    """The layout of a TREC file, which has no header."""
    number, line = _first_line(file, role)
    width = len(ascii_split(line))
    if role == "qrels" and width == 4:
        return Layout(None, 4, 0, 2, 3)
    if role == "run" and width in (5, 6):
        return Layout(None, width, 0, 2, 4)
    advice = f"Or state the format ({', '.join(format_names(role))})"
    if role == "qrels" and width == 6:
        advice = "This looks like a run: did you swap gold and run?"
    if role == "run" and width == 4:
        advice = "This looks like qrels: did you swap gold and run?"
    columns = f"{width} column{'s' if width != 1 else ''} ({shown(line.strip())})"
    raise AmbiguousFormat(Problem(file.path, number, f"found {columns}, expected {describe_formats(role)}. {advice}"))


def _first_line(file: InputFile, role: Role) -> tuple[int, str]:
    """The first line with its number, if this is text."""
    for mark, what in _NOT_TEXT.items():
        if file.head.startswith(mark):
            advice = ": convert it, e.g. with iconv" if what == "UTF-16 text" else ""
            raise InputError(f"{file.path}: is {what}, expected {describe_formats(role)} as UTF-8 text{advice}")
    if b"\x00" in file.head:
        line = 1 + file.head.count(b"\n", 0, file.head.index(b"\x00"))
        problem = f"found a NUL byte: a binary file, or damaged text; expected {describe_formats(role)}"
        raise InputError(Problem(file.path, line, problem))
    first = next(lines_of(file.head), None)
    if first is None:
        where = f"the first {LINE.text} hold" if len(file.head) >= LINE.value else "holds"
        raise InputError(f"{file.path}: {where} no rows, expected {describe_formats(role)}")
    return first
