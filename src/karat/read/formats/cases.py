"""Case files: texts with the terms of an ontology that are expected for them, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.read.formats import InputFormat, LineRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karat.read.columns import FieldRow, Role, TableKind
    from karat.read.files import InputFile
    from karat.read.problems import Problems


def recognise(file: InputFile) -> bool:
    """Whether this is JSON that holds cases."""
    head = file.head.lstrip()
    if head[:1] == b"{":
        return b'"test_cases"' in head
    return head[:1] == b"[" and (b'"expected_ids"' in head or b'"expected_hpo_ids"' in head)


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
