"""A diagnosis for a person at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report.terminal.console import console, line, note
from karat.results.words import plain

if TYPE_CHECKING:
    from karat.report.terminal.console import Output
    from karat.verbs.diagnose import Diagnosis, Finding

LINKED = 5
"""Queries of a finding that are shown; the JSON has more."""


def show(diagnosis: Diagnosis, verbose: bool = False) -> None:
    """The findings by weight, or that nothing is wrong; then the rules that were skipped."""
    out = console()
    style = "bold green" if diagnosis.healthy else "bold"
    out.print(line(plain(f"{diagnosis.run}: {diagnosis.summary}"), style=style), soft_wrap=True)
    for place, finding in enumerate(diagnosis.findings, start=1):
        _show(out, place, finding)
    if diagnosis.healthy or verbose:
        out.print()
        for evidence in diagnosis.measured:
            out.print(line(f"  {plain(str(evidence))}"), soft_wrap=True)
    out.print()
    for remark in diagnosis.remarks:
        out.print(note(plain(remark.text), serious=remark.serious))
    for text in diagnosis.own_notes:
        out.print(line(plain(text), style="dim"), soft_wrap=True)
    for reason, codes in diagnosis.open_questions.items():
        out.print(line(f"undecided: {plain(', '.join(codes))} ({reason})", style="dim"), soft_wrap=True)
    for reason, codes in diagnosis.skipped.items():
        out.print(line(plain(f"skipped: {', '.join(codes)} ({reason})"), style="dim"), soft_wrap=True)


def _show(out: Output, place: int, finding: Finding) -> None:
    about = f": {finding.subject}" if finding.subject else ""
    head = (plain(f"{place}. {finding.title}{about}"), "bold yellow")
    out.print()
    out.print(line(head, (f"  ({finding.code}, weight {finding.weight:.2f})", "dim")), soft_wrap=True)
    if finding.evidence:
        out.print(line(f"   evidence: {plain('; '.join(map(str, finding.evidence)))}"), soft_wrap=True)
    out.print(line(f"   over: {plain(finding.scope)}"), soft_wrap=True)
    out.print(line(f"   likely cause: {plain(finding.cause)}"), soft_wrap=True)
    for advice in finding.advice:
        out.print(line(f"   try: {plain(advice)}"), soft_wrap=True)
    if finding.queries:
        more = f", … ({len(finding.queries):,} in all)" if len(finding.queries) > LINKED else ""
        ids = ", ".join(map(plain, finding.queries[:LINKED]))
        out.print(line(f"   queries: {ids}{more}", style="cyan"), soft_wrap=True)
