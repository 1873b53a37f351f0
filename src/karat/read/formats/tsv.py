"""TSV: a table with a header, and tabs between its cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.read.formats import InputFormat
from karat.read.layout import header_mark, read_table_layout
from karat.read.text_tables import read_text_table

if TYPE_CHECKING:
    from karat.read.columns import Role
    from karat.read.files import InputFile
    from karat.read.problems import Problems
    from karat.read.textfile import TextFile


def recognise(file: InputFile) -> bool:
    """Whether the first line is a header with tabs."""
    return header_mark(file.head) == "\t"


def read(file: InputFile, role: Role, problems: Problems) -> TextFile:
    """The file, whose rows are read block by block."""
    from karat.read.textfile import TextFile

    return TextFile(file.path, read_table_layout(file, role, "\t"), role, stdin=file.stdin)


FORMAT = InputFormat(
    "tsv",
    "TSV with a header",
    recognise,
    guess=True,
    endings=(".tab", ".tsv"),
    gold="as CSV, with tabs: BEIR's qrels",
    runs="as CSV, with tabs",
    tables="a column for each field",
    read=read,
    read_table=read_text_table,
)
