"""A calibration for a person at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report import calibration as words
from karat.report.terminal.console import console, grid, line, note
from karat.results.words import plain

if TYPE_CHECKING:
    from karat.judge.calibration import Calibration
    from karat.report.reliability import Section
    from karat.report.terminal.console import Output

WIDE = 110


def show(one: Calibration) -> None:
    """The confusion matrix, how well the judge tells relevant docs, what its means become with labels, and its bias."""
    out = console()
    out.print(line((plain(one.judge.label), "bold"), plain(words.headline(one))))
    for text in words.remarks(one):
        out.print(note(plain(text), serious=False))
    out.print()
    show_table(out, words.confusion(one))
    out.print()
    for name, value in words.figures(one):
        out.print(line(f"{name:<18} {value}"))
    if one.agreement is not None:
        out.print()
        for text in words.people(one.agreement):
            out.print(line(plain(text)))
    if one.biases:
        _show_section(out, words.biases(one))
    if one.traits:
        out.print()
        for text in words.trait_statements(one):
            out.print(line(text))
    if one.systems is not None:
        _show_section(out, words.systems(one.systems, narrow=out.width < WIDE))
        for text in words.statements(one.systems):
            out.print(line(plain(text)))
        for text in words.legend(one.systems):
            out.print(line(text, style="dim"))


def _show_section(out: Output, section: Section) -> None:
    out.print()
    out.print(line(section.title, style="bold"))
    show_table(out, section)


def show_table(out: Output, section: Section) -> None:
    """One table of a calibration."""
    table = grid(*section.heads)
    for row in section.rows:
        table.add_row(*map(plain, row))
    out.print(table)
