"""The definition of the text formats, line by line: reads anything that is legal, and explains what is not.

Used for what the fast reader cannot cut (quotes, comments, blank lines) and to say where a broken
file is broken. A broken line is never skipped.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import shown
from karat.model.run import Rows
from karat.model.strings import Strings
from karat.read.layout import ascii_split, name_columns
from karat.read.problems import (
    LONE_RETURN,
    QUOTE_PROBLEM,
    RETURN_PROBLEM,
    WHITE_SPACE,
    Problems,
    describe_bad_bytes,
    id_problem,
    parse_number,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karat.read.columns import Role
    from karat.read.layout import Layout
    from karat.read.problems import Row


def read_rows(
    data: bytes, layout: Layout, role: Role, name: str, first_line: int = 1, problems: Problems | None = None
) -> list[Row]:
    """All rows of a piece of text that starts at a line, or an error with up to 20 problems."""
    problems = problems or Problems(name)
    rows: list[Row] = []
    what = "grade" if role == "qrels" else "score"
    last = max(layout.query, layout.doc, layout.value, layout.parent or 0)
    broken_off = None if data.endswith(b"\n") else first_line + data.count(b"\n")
    mark = layout.delimiter or " "
    for line, cells in cells_of(data, layout, problems, first_line):
        if len(cells) != layout.width:
            problems.add(
                line,
                f"found {len(cells)} column{'s' if len(cells) != 1 else ''} ({shown(mark.join(cells))}), expected "
                f"{layout.width} ({_shape(layout, role)}){_likely(cells, layout, line == broken_off)}",
            )
            if len(cells) <= last:
                continue
        query, doc, text = cells[layout.query], cells[layout.doc], cells[layout.value]
        parent = cells[layout.parent] if layout.parent is not None else None
        if parent == "" and role == "qrels":
            problems.add(line, "the subtopic is empty, expected a name")
        for idea, cell in (("query", query), ("doc", doc)):
            if (problem := id_problem(idea, cell)) is not None:
                problems.add(line, problem)
        value = parse_number(text.strip(WHITE_SPACE))
        if value is None:
            comma = ": write its decimals after a point" if parse_number(text.replace(",", ".", 1)) is not None else ""
            problems.add(line, f"{what} must be a finite number, found {shown(text)}{comma}")
            continue
        rows.append((line, query, doc, value, parent))
    problems.check()
    return rows


def cells_of(data: bytes, layout: Layout, problems: Problems, first_line: int) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row with its line number."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        problems.add(line, describe_bad_bytes(error))
        problems.check()
        return
    if layout.delimiter is None:
        for line, content in enumerate(text.split("\n"), start=first_line):
            cells = ascii_split(content)
            if cells and not content.startswith("#"):
                yield line, cells
        return
    if (alone := LONE_RETURN.search(text)) is not None:
        problems.add(first_line + text.count("\n", 0, alone.start()), RETURN_PROBLEM)
        problems.check()
        return
    csv.field_size_limit(1 << 30)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=layout.delimiter, strict=True)
    line = first_line
    try:
        for cells in reader:
            if cells:
                yield line, [cell.strip(" \t") for cell in cells]
            line = first_line + reader.line_num
    except csv.Error:
        problems.add(line, QUOTE_PROBLEM)
        problems.check()


def _shape(layout: Layout, role: Role) -> str:
    if layout.header:
        return name_columns(layout.header)
    shape = "query iter doc grade" if role == "qrels" else "query Q0 doc rank score tag"
    return " ".join(shape.split()[: layout.width])


def _likely(cells: list[str], layout: Layout, last: bool) -> str:
    """The likely reason for a wrong number of columns, if there is one."""
    if any("\n" in cell for cell in cells):
        return "; is a quote not closed?"
    return "; the file breaks off here: copy or write it again" if last and len(cells) < layout.width else ""


def as_rows(rows: Iterable[Row]) -> Rows:
    """Rows as columns."""
    sequence = list(rows)
    return Rows(
        Strings.of(r[1] for r in sequence),
        Strings.of(r[2] for r in sequence),
        np.array([r[3] for r in sequence], dtype=np.float64),
        parent=Strings.of(r[4] or "" for r in sequence) if any(r[4] for r in sequence) else None,
    )
