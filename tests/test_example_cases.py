"""The case files that ship with Karat: sizes, coverage, and texts that are neither labels nor repetitions."""

from __future__ import annotations

from pathlib import Path

import pytest

import karat
from karat.read.cases import LANGUAGES

CASES = Path(karat.__file__).parent / "example" / "cases"
FILES = sorted(CASES.glob("*/*.json"))
NOTES = {"Q209", "T705"}
"""Small segments and few cases: true of small files, and meant to be."""


def test_every_language_has_a_tiny_file() -> None:
    assert {path.parent.name for path in FILES if path.name == "tiny_v1.json"} == set(LANGUAGES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_case_files_pass_the_checks_of_schema_and_ontology(path: Path) -> None:
    findings = karat.validate(files=path, ontology="hpo").findings
    assert not [finding for finding in findings if finding.code not in NOTES]
