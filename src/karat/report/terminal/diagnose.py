"""A diagnosis for a person at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report.terminal.console import console

if TYPE_CHECKING:
    from rich.console import Console

    from karat.verbs.diagnose import Diagnosis, Finding

LINKED = 5
"""Queries of a finding that are shown; the JSON has more."""


def show(diagnosis: Diagnosis, verbose: bool = False) -> None:
    """The findings by weight, or that nothing is wrong; then the rules that were skipped."""
    from rich.text import Text

    out = console()
    style = "bold green" if diagnosis.healthy else "bold"
    out.print(Text(f"{diagnosis.run}: {diagnosis.summary}", style=style), soft_wrap=True)
    for place, finding in enumerate(diagnosis.findings, start=1):
        _show(out, place, finding)
    if diagnosis.healthy or verbose:
        out.print()
        for evidence in diagnosis.measured:
            out.print(Text(f"  {evidence}"), soft_wrap=True)
    out.print()
    if diagnosis.undecided:
        out.print(Text(f"too few queries for: {', '.join(diagnosis.undecided)}", style="dim"), soft_wrap=True)
    for reason, codes in diagnosis.skipped.items():
        out.print(Text(f"skipped: {', '.join(codes)} ({reason})", style="dim"), soft_wrap=True)


def _show(out: Console, place: int, finding: Finding) -> None:
    from rich.text import Text

    about = f": {finding.subject}" if finding.subject else ""
    out.print()
    head = Text(f"{place}. {finding.title}{about}", style="bold yellow")
    head.append(f"  ({finding.code}, weight {finding.weight:.2f})", style="dim")
    out.print(head, soft_wrap=True)
    out.print(Text(f"   evidence: {'; '.join(map(str, finding.evidence))}"), soft_wrap=True)
    out.print(Text(f"   likely cause: {finding.cause}"), soft_wrap=True)
    for advice in finding.advice:
        out.print(Text(f"   try: {advice}"), soft_wrap=True)
    if finding.queries:
        more = f", … ({len(finding.queries):,} in all)" if len(finding.queries) > LINKED else ""
        listed = ", ".join(_plain(q) for q in finding.queries[:LINKED])
        out.print(Text(f"   queries: {listed}{more}", style="cyan"), soft_wrap=True)


def _plain(text: str) -> str:
    """Text that cannot move the cursor or end its line."""
    return "".join(c if c.isprintable() else "�" for c in text)
