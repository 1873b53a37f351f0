"""The software bill of materials: `python tools/write_sbom.py FILE` writes it as CycloneDX 1.6, without a network.

It lists what is installed here of the packages that Karat and its extras need. Those that only its developers
need are left out. `--pins` prints the packages and versions instead, one per line, for pip-audit.
"""

from __future__ import annotations

import argparse
import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from importlib.metadata import Distribution

KARAT = "karat-ir"
FOR_DEVELOPERS = {"test", "bench", "dev"}
"""Extras that nobody needs who uses Karat."""
Graph = dict[str, set[str]]
"""The packages that are installed, each with the names of those that it needs."""


def collect(root: str, extras: frozenset[str]) -> Graph:
    """The package, and everything that is installed of what it needs with these extras."""
    graph: Graph = {}
    visited: set[tuple[str, frozenset[str]]] = set()
    waiting = [(canonicalize_name(root), extras)]
    while waiting:
        name, wanted = waiting.pop()
        package = _find(name)
        if package is None or (name, wanted) in visited:
            continue
        visited.add((name, wanted))
        needs = graph.setdefault(name, set())
        for line in package.requires or ():
            requirement = Requirement(line)
            other = canonicalize_name(requirement.name)
            if _applies(requirement, wanted) and _find(other) is not None:
                needs |= {other} - {name}
                waiting.append((other, frozenset(requirement.extras)))
    return graph


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    """Whether a requirement holds on this system, with one of these extras or without any."""
    return requirement.marker is None or any(requirement.marker.evaluate({"extra": one}) for one in (*extras, ""))


def _find(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def make_bill() -> dict[str, object]:
    """The bill: Karat, its packages (`optional` where an extra brings them), and which of them needs which."""
    extras = frozenset(distribution(KARAT).metadata.get_all("Provides-Extra") or ()) - FOR_DEVELOPERS
    required, graph = collect(KARAT, frozenset()), collect(KARAT, extras)
    parts = {name: _describe(name) for name in sorted(graph)}
    components = [
        {**part, "scope": "required" if name in required else "optional"}
        for name, part in parts.items()
        if name != KARAT
    ]
    refs = {name: part["bom-ref"] for name, part in parts.items()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": parts[KARAT]},
        "components": components,
        "dependencies": [{"ref": refs[n], "dependsOn": sorted(str(refs[o]) for o in graph[n])} for n in parts],
    }


def _describe(name: str) -> dict[str, object]:
    package = distribution(name)
    url = f"pkg:pypi/{name}@{package.version}"
    about = {"type": "library", "bom-ref": url, "name": name, "version": package.version, "purl": url}
    if expression := package.metadata.get("License-Expression"):
        return {**about, "licenses": [{"expression": expression}]}
    prefix = "License :: OSI Approved :: "
    names = [c.removeprefix(prefix) for c in package.metadata.get_all("Classifier") or () if c.startswith(prefix)]
    return {**about, "licenses": [{"license": {"name": one}} for one in names]} if names else about


def main() -> None:
    """Write the bill, or print the pins."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", help="where to write the bill")
    parser.add_argument("--pins", action="store_true", help="print NAME==VERSION of every package instead")
    arguments = parser.parse_args()
    bill = make_bill()
    components = bill["components"]
    assert isinstance(components, list)
    if arguments.pins:
        print("\n".join(f"{c['name']}=={c['version']}" for c in components))
    elif arguments.file:
        Path(arguments.file).write_text(json.dumps(bill, indent=2) + "\n", "utf-8")
        optional = sum(c["scope"] == "optional" for c in components)
        print(f"{arguments.file}: {len(components)} packages, {optional} of them optional")
    else:
        parser.error("name the file to write, or ask for --pins")


if __name__ == "__main__":
    main()
