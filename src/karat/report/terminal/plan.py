"""What gates will say of more queries, for a person at a terminal: the conclusion first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report.plan import WORK, chances, legend, work_by_gate
from karat.report.terminal.console import console, grid, line, note
from karat.results.words import plain

if TYPE_CHECKING:
    from karat.report.terminal.console import Output
    from karat.verbs.plan import Plan


def show(source: Plan) -> None:
    """The conclusion, the chances of each gate, the work list, and what the figures mean."""
    out = console()
    out.print(line(plain(source.conclusion), style="bold"))
    out.print()
    for section in chances(source):
        out.print(line(plain(section.title), style="bold"))
        table = grid(*section.heads)
        for row in section.rows:
            table.add_row(*(plain(cell) for cell in row))
        out.print(table)
        for text in section.lines:
            out.print(line(plain(text)))
        out.print()
    if source.work:
        _work(out, source)
    for text in source.notes:
        out.print(note(plain(text), serious=True))
    for text in legend(source):
        out.print(line(text, style="dim"))


def _work(out: Output, source: Plan) -> None:
    """Each gate once, and below it the work of its runs; the runs are named where there are several."""
    from rich.padding import Padding

    several = len({item.run for item in source.work}) > 1
    out.print(line(WORK, style="bold"))
    for gate, rows in work_by_gate(source).items():
        out.print(line(f"  {plain(gate)}"))
        for runs, work in rows:
            run = f"{plain(runs)}: " if several else ""
            out.print(Padding(line(run, style="dim").append(line(plain(work))), (0, 0, 0, 4)))
    out.print()
