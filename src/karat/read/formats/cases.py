"""Case files: texts with the terms of an ontology that are expected for them, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.read.formats import InputFormat, LineRows, jsonl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karat.read.columns import FieldRow, Role, TableKind
    from karat.read.files import InputFile
    from karat.read.problems import Problems


def recognise(file: InputFile) -> bool:
    """Whether this is JSON that holds cases."""
    begin = file.head.lstrip()[:1]
    if begin == b"{":
        # Metadata may be long, and come first; in other objects nobody looks beyond the first bytes.
        begins = b'"test_cases"' in file.head or b'"metadata"' in file.head
        return begins and not jsonl.recognise(file) and file.holds(rb'"test_cases"\s*:')
    return begin == b"[" and file.holds(rb'"expected_(hpo_)?ids"\s*:')


def read(file: InputFile, role: Role, problems: Problems) -> LineRows:
    """The expected terms of each case, with their grades."""
    from karat.read.cases import read_cases

    cases = read_cases(file, problems)
    return LineRows([(c.line, c.id, term, grade, None) for c in cases for term, grade in c.expected.items()])


def read_table(file: InputFile, problems: Problems, kind: TableKind) -> Iterator[FieldRow]:
    """The texts of the cases, and what they are sliced by."""
    from karat.read.cases import read_cases

    for case in read_cases(file, problems):
        yield case.line, {"query_id": case.id, "text": case.text, **(case.fields or {})}


FORMAT = InputFormat(
    "cases",
    "case files",
    recognise,
    gold="`{metadata, test_cases: [{case_id, text, expected_ids}]}`, or the list of cases alone",
    tables="the texts of the cases, with language, category, difficulty and domain",
    read=read,
    read_table=read_table,
    holds_queries=True,
)
