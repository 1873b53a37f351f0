"""CSV: a table with a header, and commas, semicolons, bars or white space between its cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.read.formats import InputFormat
from karat.read.layout import MARKS, header_mark, lacks_header, read_table_layout
from karat.read.text_tables import read_text_table

if TYPE_CHECKING:
    from karat.read.columns import Role
    from karat.read.files import InputFile
    from karat.read.problems import Problems
    from karat.read.textfile import TextFile


def recognise(file: InputFile) -> bool:
    """Whether the first line is a header without tabs, or a table begins without one: reading it says so."""
    return header_mark(file.head) not in ("", "\t") or lacks_header(file.head)


def read(file: InputFile, role: Role, problems: Problems) -> TextFile:
    """The file, whose rows are read block by block."""
    from karat.read.textfile import TextFile

    return TextFile(file.path, read_table_layout(file, role, MARKS[1:]), role, stdin=file.stdin)


FORMAT = InputFormat(
    "csv",
    "CSV with a header",
    recognise,
    guess=True,
    endings=(".csv",),
    gold="columns `query_id`, `doc_id`, `grade`",
    runs="columns `query_id`, `doc_id`, `score`",
    tables="a column for each field",
    read=read,
    read_table=read_text_table,
)
