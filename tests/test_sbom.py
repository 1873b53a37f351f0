"""The software bill of materials names what Karat needs, and nothing that only its developers need."""

from __future__ import annotations

import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import write_sbom

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in requirements}


def test_the_bill_names_every_package_with_its_version_and_scope() -> None:
    bill: Any = write_sbom.make_bill()
    scopes = {part["name"]: part["scope"] for part in bill["components"]}
    assert all(scopes[name] == "required" for name in names(PROJECT["dependencies"]))
    assert all(scopes[name] == "optional" for name in names(PROJECT["optional-dependencies"]["report"]))
    assert not names(PROJECT["optional-dependencies"]["dev"]) & set(scopes) and "pytest" not in scopes
    numpy = next(part for part in bill["components"] if part["name"] == "numpy")
    assert numpy["purl"] == f"pkg:pypi/numpy@{version('numpy')}"
    refs = {part["bom-ref"] for part in (bill["metadata"]["component"], *bill["components"])}
    assert {entry["ref"] for entry in bill["dependencies"]} == refs
    assert {ref for entry in bill["dependencies"] for ref in entry["dependsOn"]} < refs
