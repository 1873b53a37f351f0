"""A check for a person at a terminal: the verdict in the first line, what decided it, then the figures."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from karat.gates.language import BASELINE
from karat.report.figures import show_figures, show_segments
from karat.report.terminal import components as components_view
from karat.report.terminal.evaluate import console, escaped, scope_of, short_range
from karat.results.fingerprints import told_fact
from karat.verbs.check import labelled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from karat.gates.evidence import Judgement
    from karat.gates.language import Gate
    from karat.verbs.check import Check

COLOURS = {"SHIP": "green", "BLOCK": "red", "INCONCLUSIVE": "yellow"}
MARKS = {"pass": "✓", "fail": "✗", "undecided": "?"}
STYLES = {"pass": "green", "fail": "red", "undecided": "yellow"}
WORDS = {"pass": "passes", "fail": "fails", "undecided": "is undecided"}
ORDER = ("fail", "undecided", "pass")
LISTED = 3
"""Segments of a gate that pass are named up to so many."""


LONG = 20
"""After so many lines the verdict has left the screen, and is said again."""


def show_check(
    check: Check, gold: str, *, verbose: bool = False, by: Sequence[str] = (), written: Sequence[str] = ()
) -> None:
    """The verdict, what to know of the data, the gates with what fails first; then figures, and the files written."""
    from rich import box
    from rich.panel import Panel

    out = console()
    colour = COLOURS[check.verdict]
    body = [escaped(f"{check.why}."), escaped(scope(check))]
    body += [f"[bold red]Forced:[/bold red] compared although they differ: {escaped(str(d))}" for d in check.forced]
    with out.capture() as held:
        if sys.stdout.isatty():
            title = f"[bold {colour}] {check.verdict} [/bold {colour}]"
            out.print(Panel("\n".join(body), title=title, title_align="left", border_style=colour, box=box.ROUNDED))
        else:
            out.print(f"{check.verdict}: " + "\n".join(body), soft_wrap=True)
        for line, serious in check.remarks:
            out.print(f"[yellow]![/yellow] {escaped(line)}" if serious else f"[dim]· {escaped(line)}[/dim]")
        out.print(_gates(check, out.width, verbose))
        out.print()
        for difference in check.system:
            out.print(f"[dim]· differs from the baseline: {escaped(str(difference))}[/dim]")
        show_figures(out, check)
        show_segments(out, check, by, verbose=verbose)
        components_view.show(check.result, out)
        for line in scope_of(check.result, gold):
            out.print(line)
        facts(check, out)
        if written:
            out.print(f"[dim]wrote {escaped(', '.join(written))}[/dim]")
    text = held.get()
    if text.count("\n") > LONG:
        with out.capture() as last:
            out.print(f"[bold {colour}]{verdict_line(check)}[/bold {colour}]", soft_wrap=True)
        text += last.get()
    out.file.write(text)
    out.file.flush()


def verdict_line(check: Check) -> str:
    """The verdict and its reason on one line."""
    return escaped(f"{check.verdict}: {check.why}")


def scope(check: Check) -> str:
    """What was judged: the dataset, how many queries, which runs, against what."""
    queries = max((r.counts["queries"] for r in check.result.runs), default=0)
    runs = ", ".join(check.candidates) if len(check.candidates) <= 3 else f"{len(check.candidates)} runs"
    against = ""
    if check.baseline is not None:
        file = f" ({check.baseline_file})" if check.baseline_file else ""
        against = f" against {check.baseline_name}{file}"
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


def _gates(check: Check, width: int, verbose: bool) -> Table:
    """One table: long gates wrap, what was measured stays whole, and advice stands below its gate."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    several = len(check.candidates) > 1
    table.add_column("mark", no_wrap=True)
    if several:
        table.add_column("run", no_wrap=True, overflow="ellipsis", max_width=max(8, width // 6))
    table.add_column("gate", overflow="fold")
    for name in ("value", "interval", "n"):
        table.add_column(name, justify="left" if name == "interval" else "right", no_wrap=True)
    for gate, run, rows in grouped(check):
        outcome = worst(rows)
        warning = gate.level == "warn" and outcome != "pass"
        mark = "[yellow]![/yellow]" if warning else _coloured(outcome, MARKS[outcome])
        start = [mark, *([escaped(run)] if several else [])]
        told = f" [dim](warning: {WORDS[outcome]})[/dim]" if warning else ""
        label = escaped(labelled(gate)) + told
        if not gate.fields or (len(rows) == 1 and not gate.every):
            table.add_row(*start, label + _below(rows[0]), *cells(rows[0]))
            continue
        passed = sum(r.judged.outcome == "pass" for r in rows)
        table.add_row(*start, f"{label}\n[dim]{passed} of {len(rows)} segments pass[/dim]", "", "", "")
        small = [r for r in rows if r.found.n < r.found.minimum and r.found.estimate == r.found.estimate]
        together = len(small) > 1 and not verbose
        for row in sorted(rows, key=lambda r: ORDER.index(r.judged.outcome)):
            if row.judged.outcome == "pass" and not verbose and len(rows) > LISTED:
                continue
            if together and row in small:
                continue
            where = _coloured(row.judged.outcome, f"  {MARKS[row.judged.outcome]} {escaped(row.where)}")
            table.add_row("", *([""] if several else []), where + _below(row, "    "), *cells(row))
        if together:
            table.add_row("", *([""] if several else []), _too_small(small), "", "", "")
    return table


def _too_small(rows: list[Judgement]) -> str:
    """Segments that nobody can judge alone, in one line, with how many queries they have."""
    least = rows[0].found.minimum
    listed = ", ".join(f"{' / '.join((r.segment or {}).values())} {r.found.n}" for r in rows)
    told = f"{len(rows)} of fewer than {least} queries, not judged alone: {listed}"
    return _coloured("undecided", f"  {MARKS['undecided']} {escaped(told)}")


def _coloured(outcome: str, text: str) -> str:
    return f"[{STYLES[outcome]}]{text}[/{STYLES[outcome]}]"


def _below(row: Judgement, indent: str = "") -> str:
    """What to do, on a line of its own."""
    note = advice(row) or from_where(row)
    return f"\n[dim]{indent}{escaped(note)}[/dim]" if note else ""


def cells(row: Judgement) -> tuple[str, str, str]:
    """Value, interval and number of queries of one judgement."""
    found = row.found
    if found.estimate != found.estimate:
        return "–", "", f"n={found.n}" if found.n else ""
    return valued(row, found.estimate), escaped(ranged(row)), f"n={found.n}"


def ranged(row: Judgement) -> str:
    """The interval, in the digits of its metric."""
    return short_range(row.found.low, row.found.high, row.gate.metric)


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
    if row.judged.more == 1 and row.found.n >= row.found.minimum:
        return "1 more query would decide"
    if row.found.n < row.found.minimum:
        return f"{row.judged.more} more needed: fewer than {row.found.minimum} queries are not judged alone"
    return f"about {row.judged.more:,} more queries would decide"


def from_where(row: Judgement) -> str:
    """What a difference is measured from, where that is not the baseline itself."""
    if row.against is None or not row.gate.relative:
        return ""
    better, up = row.gate.relation == "better", row.gate.op.startswith(">")
    share = 1 + row.gate.value * (1 if better == up else -1)
    whose = "the baseline" if row.gate.against == BASELINE else row.against
    return f"Δ to {share * 100:.4g}% of {whose}'s value"


def facts(check: Check, out: Console) -> None:
    """What is known of the systems that were judged."""
    for run in check.result.runs:
        if run.name in check.candidates and (told := {k: v for k, v in run.facts.items() if k != "tag"}):
            listed = " · ".join(f"{k} {told_fact(v)}" for k, v in told.items())
            out.print(f"[dim]{escaped(f'{run.name}: {listed}')}[/dim]")
