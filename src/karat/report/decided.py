"""A check for a person at a terminal: the verdict in the first line, what decided it, then the figures."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from karat.report import components
from karat.report.terminal import console, escaped, short_range, show

if TYPE_CHECKING:
    from rich.table import Table

    from karat.checking import Check
    from karat.gates.language import Gate
    from karat.judgements import Judgement

COLOURS = {"SHIP": "green", "BLOCK": "red", "INCONCLUSIVE": "yellow"}
MARKS = {"pass": "✓", "fail": "✗", "undecided": "?"}
STYLES = {"pass": "green", "fail": "red", "undecided": "yellow"}
ORDER = ("fail", "undecided", "pass")
LISTED = 3
"""Segments of a gate that pass are named up to so many."""


def show_check(check: Check, gold: str, *, verbose: bool = False) -> None:
    """The panel, the gates, and what was measured."""
    from rich import box
    from rich.panel import Panel

    out = console()
    colour = COLOURS[check.verdict]
    title = f"[bold {colour}] {check.verdict} [/bold {colour}]"
    body = escaped(f"{check.why}.\n{scope(check)}")
    out.print(
        Panel(body, title=title, title_align="left", border_style=colour, box=box.ROUNDED)
        if sys.stdout.isatty()
        else f"{check.verdict}: {body}"
    )
    out.print(_gates(check, verbose))
    out.print()
    for difference in check.forced:
        out.print(f"[red]![/red] forced: compared although they differ: {escaped(str(difference))}")
    for difference in check.system:
        out.print(f"[dim]· differs from the baseline: {escaped(str(difference))}[/dim]")
    show(check.result, gold, verbose=verbose)
    components.show(check.result)
    facts(check)


def scope(check: Check) -> str:
    """What was judged: the dataset, how many queries, which runs, against what."""
    queries = max((r.counts["queries"] for r in check.result.runs), default=0)
    runs = ", ".join(check.candidates) if len(check.candidates) <= 3 else f"{len(check.candidates)} runs"
    against = ""
    if check.baseline is not None:
        file = f" ({check.baseline_file})" if check.baseline_file else ""
        against = f" against {check.baseline.name}{file}"
    return " · ".join(filter(None, (check.name, f"{queries:,} queries", f"{runs}{against}")))


def grouped(check: Check) -> list[tuple[Gate, str, list[Judgement]]]:
    """The judgements of each gate and run; what fails comes first, then what is undecided, warnings last."""
    groups: dict[tuple[Gate, str], list[Judgement]] = {}
    for row in check.rows:
        groups.setdefault((row.gate, row.run), []).append(row)
    listed = [(gate, run, rows) for (gate, run), rows in groups.items()]
    return sorted(listed, key=lambda g: (g[0].level == "warn", ORDER.index(worst(g[2]))))


def worst(rows: list[Judgement]) -> str:
    """The outcome of a gate over its segments."""
    seen = {r.judged.outcome for r in rows}
    return next(o for o in ORDER if o in seen)


def _gates(check: Check, verbose: bool) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for name in ("mark", "run", "gate", "value", "interval", "n", "note"):
        table.add_column(name, justify="right" if name in ("value", "n") else "left", no_wrap=name != "gate")
    several = len(check.candidates) > 1
    for gate, run, rows in grouped(check):
        outcome = worst(rows)
        colour = STYLES[outcome]
        mark = f"[{colour}]{MARKS[outcome]}[/{colour}]"
        label = escaped(gate.name or str(gate)) + (" [dim](warning)[/dim]" if gate.level == "warn" else "")
        shown_run = run if several else ""
        if not gate.fields or (len(rows) == 1 and not gate.every):
            table.add_row(mark, shown_run, label, *cells(rows[0]))
            continue
        passed = sum(r.judged.outcome == "pass" for r in rows)
        table.add_row(mark, shown_run, label, "", f"{passed} of {len(rows)} segments pass", "", "")
        for row in sorted(rows, key=lambda r: ORDER.index(r.judged.outcome)):
            if row.judged.outcome == "pass" and not verbose and len(rows) > LISTED:
                continue
            small = STYLES[row.judged.outcome]
            table.add_row("", "", f"[{small}]  {MARKS[row.judged.outcome]} {escaped(row.where)}[/{small}]", *cells(row))
    return table


def cells(row: Judgement) -> tuple[str, str, str, str]:
    """Value, interval, number of queries, and what to do, of one judgement."""
    found = row.found
    if found.estimate != found.estimate:
        return "–", "", str(found.n or ""), f"[dim]{escaped(row.judged.why)}[/dim]"
    value = valued(row, found.estimate)
    return value, escaped(short_range(found.low, found.high)), f"n={found.n}", f"[dim]{escaped(advice(row))}[/dim]"


def valued(row: Judgement, value: float) -> str:
    """A value, or a difference with its sign, in the metric's unit."""
    from karat.gates.language import unit_of

    unit = unit_of(row.gate.metric)
    digits = f"{value:+.4f}" if row.against is not None else f"{value:.4f}"
    if unit:
        digits = f"{value:+.1f} {unit}" if row.against is not None else f"{value:.1f} {unit}"
    return f"Δ {digits}" if row.against is not None else digits


def advice(row: Judgement) -> str:
    """Why a gate is undecided, and what would decide it."""
    if row.judged.outcome != "undecided":
        return ""
    if row.judged.more is None:
        return row.judged.why
    if row.found.n < row.found.minimum:
        return f"{row.judged.why}: {row.judged.more} more needed"
    return f"about {row.judged.more:,} more queries would decide"


def facts(check: Check) -> None:
    """What is known of the systems that were judged."""
    out = console()
    for run in check.result.runs:
        if run.name in check.candidates and (told := {k: v for k, v in run.facts.items() if k != "tag"}):
            listed = " · ".join(f"{k} {v}" for k, v in told.items())
            out.print(f"[dim]{run.name}: {escaped(listed)}[/dim]")
