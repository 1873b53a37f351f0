"""A check for a person at a terminal: the verdict in the first line, what decided it, then the figures."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from karat.gates.groups import ORDER
from karat.gates.wording import figure_of, label_gate, note_pooling, notes_of, value_text
from karat.report.marks import mark_of
from karat.report.terminal import components as components_view
from karat.report.terminal.console import colour_of, console, line, note
from karat.report.terminal.evaluate import show_judged, show_readings, show_scope
from karat.report.terminal.layout import Grid
from karat.report.terminal.tables import show_figures, show_segments
from karat.report.view import View, view_of
from karat.report.words import OUTCOMES, describe_facts
from karat.results.words import plain, tally_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.gates.judge import JudgedGate
    from karat.report.terminal.console import Output
    from karat.report.terminal.layout import Line
    from karat.verbs.check import Check

GATE, GAP = 40, 2
"""The fewest characters that a gate has before it is wrapped, and the space between columns."""
LISTED = 3
"""Segments of a gate that pass are named up to so many."""
SMALL = 10
"""Segments that are too small to judge are named up to so many."""
FALLS = 5
"""What fell significantly is listed up to so many."""
LONG = 20
"""After so many lines the verdict has left the screen, and is said again."""


def show_check(
    check: Check,
    gold: str,
    *,
    saved: bool = False,
    verbose: bool = False,
    by: Sequence[str] = (),
    paths: Sequence[str] = (),
) -> None:
    """The verdict, what to know of the data, the gates with what fails first; then figures, and the files written."""
    out, view = console(), view_of(check)
    colour = colour_of(check.verdict)
    body = line(plain(f"{check.why}."), f"\n{plain(view.scope)}")
    for difference in check.forced:
        body.append(line(("\nForced: ", "bold red"), plain(f"compared although they differ: {difference}")))
    with out.capture() as capture:
        if sys.stdout.isatty():
            from rich import box
            from rich.panel import Panel

            title = line(f" {check.verdict} ", style=f"bold {colour}")
            out.print(Panel(body, title=title.styled(), title_align="left", border_style=colour, box=box.ROUNDED))
        else:
            out.print(line(f"{check.verdict}: ").append(body), soft_wrap=True)
        for remark in view.remarks:
            out.print(note(plain(remark.text), serious=remark.serious))
        out.print(_gates(view, out.width, verbose))
        out.print()
        _falls(out, view, verbose)
        for difference in check.system:
            out.print(note(plain(f"differs from the baseline: {difference}"), serious=False))
        show_figures(out, view)
        show_readings(out, [system.run for system in view.candidates])
        show_judged(out, check.result, {"none": check.comparisons, **check.by_judge})
        show_segments(out, check, by, verbose=verbose)
        components_view.show(check.result, out)
        show_scope(out, check.result, gold, saved=saved)
        facts(check, out)
        if paths:
            out.print(line(plain(f"wrote {', '.join(paths)}"), style="dim"))
    text = capture.get()
    if text.count("\n") > LONG:
        with out.capture() as last:
            out.print(line(verdict_line(check), style=f"bold {colour}"), soft_wrap=True)
        text += last.get()
    out.file.write(text)
    out.file.flush()


def verdict_line(check: Check) -> str:
    """The verdict and its reason on one line."""
    return plain(f"{check.verdict}: {check.why}")


def _gates(view: View, width: int, verbose: bool) -> Grid:
    """One table: long gates wrap, what was measured stays whole, and advice stands below its gate."""
    table = Grid(GAP, header=False)
    several = len(view.candidates) > 1
    run = max(8, width // 6) if several else 0
    figures = zip(*(cells(row) for group in view.gates for row in group.rows), strict=True)
    others = sum(max(map(len, column)) + GAP for column in figures) + (run + GAP if several else 0) + 1 + GAP
    table.add_column("mark", no_wrap=True)
    if several:
        table.add_column("run", no_wrap=True, overflow="ellipsis", max_width=run)
    table.add_column("gate", overflow="fold", max_width=max(width - others, GATE))
    for name in ("value", "interval", "n"):
        table.add_column(name, justify="left" if name == "interval" else "right", no_wrap=True)
    for group in view.gates:
        gate, rows, outcome = group.gate, group.rows, group.outcome
        start = [line(("!", "yellow") if group.warning else (mark_of(outcome), colour_of(outcome)))]
        start += [line(plain(group.run))] if several else []
        level = f" (warning, {OUTCOMES[outcome]})" if group.warning else " (warn)" if gate.level == "warn" else ""
        label = line(plain(label_gate(gate)), (level, "dim"))
        if not gate.fields or (len(rows) == 1 and not gate.every):
            table.add_row(*start, label.append(_below(rows[0])), *cells(rows[0]))
            continue
        if not any(r.segment for r in rows):
            table.add_row(*start, label.append(_below(rows[0])), *cells(rows[0]))
            continue
        passes = sum(r.judged.outcome == "pass" for r in rows)
        tally = "; ".join(filter(None, (tally_text(passes, len(rows), "pass"), note_pooling(rows))))
        label.append(line(f"\n{plain(tally)}", style="dim"))
        table.add_row(*start, label, "", "", "")
        small = [r for r in rows if r.found.n < r.found.minimum and r.found.estimate == r.found.estimate]
        together = len(small) > 1 and not verbose
        for row in sorted(rows, key=lambda r: ORDER.index(r.judged.outcome)):
            if row.judged.outcome == "pass" and not verbose and len(rows) > LISTED:
                continue
            if together and row in small:
                continue
            where = line((f"  {mark_of(row.judged.outcome)} {plain(row.where)}", colour_of(row.judged.outcome)))
            table.add_row("", *([""] if several else []), where.append(_below(row, "    ")), *cells(row))
        if together:
            table.add_row("", *([""] if several else []), _too_small(small), "", "", "")
    return table


def _too_small(rows: Sequence[JudgedGate]) -> Line:
    """Segments that nobody can judge alone, in one line, with how many queries they have."""
    least = rows[0].found.minimum
    sizes = ", ".join(f"{' / '.join((r.segment or {}).values())} {r.found.n}" for r in rows[:SMALL])
    rest = f" and {len(rows) - SMALL} more; use --verbose to show them" if len(rows) > SMALL else ""
    text = f"{len(rows)} have fewer than {least} queries, too few to judge alone: {sizes}{rest}"
    return line(f"  {mark_of('undecided')} {plain(text)}", style=colour_of("undecided"))


def _below(row: JudgedGate, indent: str = "") -> Line:
    """What to do, on a line of its own."""
    text = "; ".join(notes_of(row))
    return line((f"\n{indent}{plain(text)}" if text else "", "dim"))


def cells(row: JudgedGate) -> tuple[str, str, str]:
    """Value, interval and number of queries of one judgement."""
    one = figure_of(row)
    if not one.defined:
        return one.text, "", f"n={row.found.n}" if row.found.n else ""
    return value_text(row), one.interval, f"n={row.found.n}"


def _falls(out: Output, view: View, verbose: bool) -> None:
    """What got significantly worse, whether a gate asks for it or not."""
    if not view.falls:
        return
    out.print(line("Significantly worse than the baseline", style="bold"))
    for row in view.falls if verbose else view.falls[:FALLS]:
        out.print(line(f"  {plain(row.statement)}", style=colour_of("worse")))
    if len(view.falls) > FALLS and not verbose:
        out.print(line(f"  and {len(view.falls) - FALLS} more; use --verbose to show them", style="dim"))


def facts(check: Check, out: Output) -> None:
    """What is known of the systems that were judged."""
    for run in check.result.runs:
        if run.name in check.candidates and (known_facts := describe_facts(run.facts)):
            text = " · ".join(f"{name} {value}" for name, value in known_facts)
            out.print(line(plain(f"{run.name}: {text}"), style="dim"))
