"""Findings of the linter, for a person at a terminal."""

from __future__ import annotations

import os
from itertools import groupby
from typing import TYPE_CHECKING

from karat.report.terminal.console import console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karat.verbs.validate import LintFinding, Validation

STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}
LABELS = {"error": "error", "warning": "warning", "info": "note"}
PLACES = 3
"""Places of a finding that are shown; the JSON has more."""


def show(validation: Validation, quiet: bool = False) -> None:
    """The findings by file, each with its places and what to do, then how many there are; quietly only errors."""
    from rich.text import Text

    out = console()
    chosen = [f for f in validation.findings if not quiet or f.severity == "error"]
    for file, findings in groupby(chosen, key=lambda f: f.file):
        out.print(Text(f"{file} ({validation.roles.get(file, '')})", style="bold"), soft_wrap=True)
        rows = list(findings)
        for finding, after in zip(rows, [*rows[1:], None], strict=True):
            head = Text("  ")
            head.append(f"{LABELS[finding.severity]:<7}", style=STYLES[finding.severity])
            head.append(f" {finding.code}  {finding.message}")
            out.print(head, soft_wrap=True)
            again = after is not None and after.fix == finding.fix  # said once, after the last
            for line in _details(finding, remedy=not again):
                out.print(Text(f"{'':16}{line}", style="dim"), soft_wrap=True)
        out.print()
    if not quiet:
        worst = validation.worst
        out.print(Text(summary(validation), style=STYLES[worst] if worst else "green"), soft_wrap=True)


def _details(finding: LintFinding, *, remedy: bool) -> Iterator[str]:
    places = [w for w in finding.where if w != finding.file]
    if places:
        more = ", …" if len(finding.where) > PLACES or finding.count > len(finding.where) else ""
        yield f"at {', '.join(_short(w, finding.file) for w in places[:PLACES])}{more}"
    if remedy:
        yield f"→ {finding.fix}"


def _short(where: str, file: str) -> str:
    """A place in the finding's own file by the name of that file, without its folders."""
    line = where.removeprefix(f"{file}:")
    return f"{os.path.basename(file)}:{line}" if line != where else where


def summary(validation: Validation) -> str:
    """How many findings of each severity, in one line."""
    counts = validation.counts
    parts = [f"{n} {LABELS[s]}{'' if n == 1 else 's'}" for s, n in counts.items() if n]
    files = len(validation.roles)
    return ", ".join(parts) or f"No problems found in {files} file{'' if files == 1 else 's'}"
