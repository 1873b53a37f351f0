"""Tables of queries and docs as delimited text: with a header, or an id and a text on each line."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from karat.errors import InputError, Problem, shown
from karat.model.docs import TEXT_FIELDS
from karat.read.files import check_line_sizes
from karat.read.layout import name_columns
from karat.read.problems import LONE_RETURN, QUOTE_PROBLEM, RETURN_PROBLEM, Problems, describe_bad_bytes

_QUOTED_NAMES = re.compile(r'\s*"[\w -]+"(\t"[\w -]+")+\r?\n')

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karat.read.columns import FieldRow, TableKind
    from karat.read.files import InputFile


def decode_text(file: InputFile) -> str:
    """The whole file as text."""
    data = file.all_bytes()
    check_line_sizes(file.path, data, 0, len(data), file.stdin)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        raise InputError(Problem(file.path, line, describe_bad_bytes(error))) from None


def read_text_table(file: InputFile, problems: Problems, kind: TableKind) -> Iterator[FieldRow]:
    """A table with a header, else a topic file: an id and a text on each line."""
    text = decode_text(file)
    first = next((line for line in text.split("\n") if line.strip()), "")
    for mark in ("\t", ",", ";"):
        names = [n.strip().strip('"').lower() for n in first.split(mark)]
        if len(names) > 1 and any(name in kind.id_names for name in names):
            yield from _name_cells(_lines_of_cells(text, mark, problems), problems)
            return
    if first.strip().lower() in kind.id_names:
        yield from _name_cells(_lines_of_cells(text, ",", problems), problems)
        return
    yield from _topics_by_line(text, first, problems, kind)


def _lines_of_cells(text: str, mark: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row that is not blank. A quote that is not closed never swallows the rows after it.

    Between tabs, quotes are text, as in the topics of MS MARCO; where every name in the first line is quoted, as R
    writes tables, they are quotes.
    """
    csv.field_size_limit(1 << 30)
    if mark == "\t" and not _QUOTED_NAMES.match(text):
        for line, content in enumerate(text.split("\n"), start=1):
            if content.strip():
                yield line, content.removesuffix("\r").split(mark)
        return
    if (alone := LONE_RETURN.search(text)) is not None:
        problems.add(1 + text.count("\n", 0, alone.start()), RETURN_PROBLEM)
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    line = 1
    try:
        for cells in reader:
            if any(cells):
                yield line, cells
            line = 1 + reader.line_num
    except csv.Error:
        problems.add(line, QUOTE_PROBLEM)


def _name_cells(table: Iterator[tuple[int, list[str]]], problems: Problems) -> Iterator[FieldRow]:
    """The rows below a header."""
    line, header = next(table, (1, []))
    names = [n.strip().lower() for n in header]
    if twice := next((n for n in names if n and names.count(n) > 1), None):
        problems.add(line, f"the column {shown(twice)} appears twice; rename or remove one")
        return
    for line, cells in table:
        if len(cells) != len(names):
            problems.add(line, f"found {len(cells)} columns, expected {len(names)} ({name_columns(names)})")
        else:
            yield line, {n: c for n, c in zip(names, cells, strict=True) if c != ""}


def _topics_by_line(text: str, first: str, problems: Problems, kind: TableKind) -> Iterator[FieldRow]:
    """An id and a text on each line, with a tab, a comma, a semicolon or white space between them."""
    rows: list[tuple[int, list[str]]] = []
    for mark in ("\t", ",", ";"):
        if mark in first:
            broken = Problems(problems.name)
            rows = list(_lines_of_cells(text, mark, broken))
            if mark == "\t" or _is_table(rows):
                problems.items.extend(broken.items)
                break
    else:
        lines = enumerate(text.split("\n"), start=1)
        rows = [(line, content.split(None, 1)) for line, content in lines if content.strip()]
    if not rows:
        problems.add(None, f"holds no rows, expected a table of {kind.plural}")
    if rows and _names_columns(rows[0][1]):
        line, header = rows.pop(0)
        names = ", ".join(map(shown, header))
        problems.add(line, f"no {kind.noun} id column; expected one of {', '.join(kind.id_names)}; found {names}")
    for line, cells in rows:
        if len(cells) == 2 and cells[0].strip():
            yield line, {"_id": cells[0].strip(), "text": cells[1].strip()}
        else:
            problems.add(
                line,
                f"found {len(cells)} column{'s' if len(cells) != 1 else ''} ({shown(' '.join(cells))}), expected an id "
                f"and a text, or a header with one of {', '.join(kind.id_names)}",
            )


def _names_columns(cells: Sequence[str]) -> bool:
    """Whether a first line names its columns, `number` and `question` for example, rather than being a query."""
    return not any(c.isdigit() for c in cells[0]) and cells[-1].strip().lower() in (*TEXT_FIELDS, "title")


def _is_table(rows: Sequence[tuple[int, list[str]]]) -> bool:
    """Whether rows cut at commas look like a table, rather than like texts with commas in them."""
    widths = {len(cells) for _, cells in rows}
    return len(widths) <= 1 and widths != {1} and all(len(cells[0].split()) == 1 for _, cells in rows[1:])
