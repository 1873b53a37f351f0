"""TREC: columns between white space, without a header. Also what no other format recognises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.read.formats import InputFormat
from karat.read.layout import header_mark, lacks_header, read_trec_layout
from karat.read.text_tables import read_text_table

if TYPE_CHECKING:
    from karat.read.columns import Role
    from karat.read.files import InputFile
    from karat.read.problems import Problems
    from karat.read.textfile import TextFile


def recognise(file: InputFile) -> bool:
    """Whether nothing in the first line is a table's."""
    return not header_mark(file.head) and not lacks_header(file.head)


def read(file: InputFile, role: Role, problems: Problems) -> TextFile:
    """The file, whose rows are read block by block."""
    from karat.read.textfile import TextFile

    return TextFile(file.path, read_trec_layout(file, role), role, stdin=file.stdin)


FORMAT = InputFormat(
    "trec",
    "TREC",
    recognise,
    guess=True,
    endings=(".qrel", ".qrels", ".res", ".run", ".trec", ".txt"),
    gold="`query iter doc grade`, any white space between them",
    runs="`query Q0 doc rank score tag`",
    tables="an id and a text on each line",
    read=read,
    read_table=read_text_table,
)
