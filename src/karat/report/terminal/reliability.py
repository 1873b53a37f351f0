"""How far a collection can be trusted, for a person at a terminal: the conclusion first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report.reliability import legend, sections
from karat.report.terminal.console import colour_of, console, grid, line, note
from karat.results.words import plain

if TYPE_CHECKING:
    from karat.verbs.reliability import Reliability

WIDE = 140


def show(source: Reliability, *, verbose: bool = False) -> None:
    """The conclusion, a table of all metrics, which separates best, and what the figures mean."""
    out = console()
    out.print(line((plain(source.conclusion), f"bold {colour_of(source.primary.stability)}".strip())))
    out.print(line(f"best to worst by {source.primary.metric}: {plain(', '.join(source.primary.order))}"))
    out.print()
    for i, section in enumerate(sections(source, verbose=verbose, narrow=out.width < WIDE)):
        if section.title:
            out.print(line(plain(section.title), style="bold"))
        table = grid(*section.heads)
        for row in section.rows:
            table.add_row(*(plain(cell) for cell in row))
        out.print(table)
        if i == 0:
            out.print(line(plain(source.best_statement)))
        out.print()
    for text in source.notes:
        out.print(note(plain(text), serious=True))
    for text in legend(source):
        out.print(line(text, style="dim"))
