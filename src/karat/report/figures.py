"""The figures behind a verdict at a terminal: the baseline, the candidates and their differences, with intervals."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from karat.metrics.grammar import PRIMARY, parse
from karat.report.terminal.evaluate import HEAD, cell, escaped, short_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console
    from rich.table import Table

    from karat.results.result import RunResult, SegmentResult
    from karat.verbs.check import Check

FEW_RUNS = 3
"""Up to so many runs all have a column; of more, only those that are judged and what they are judged against."""
ROWS = 12
"""Segments that are shown unless somebody wants all."""
VALUE, RANGE, GAP = 10, 17, 2


@dataclass(frozen=True)
class _Column:
    """A run's values, or its differences from the baseline."""

    head: str
    role: str
    run: RunResult
    delta: bool = False


def show_figures(out: Console, check: Check) -> None:
    """Every metric: the baseline, then each candidate with its difference; as many a table as there is room for."""
    first, groups, others = _columns(check)
    label = max(map(len, check.result.metrics), default=0)
    room = out.width - label - GAP
    beside = room >= sum(map(_wide, [*first, *(c for g in groups for c in g)]))
    width = _wide if beside else _narrow
    for chunk in _chunks(groups, room - sum(map(width, first)), width):
        out.print(_table(check, [*first, *(c for group in chunk for c in group)], beside))
    if others:
        listed = ", ".join(others)
        out.print(f"[dim]also evaluated: {escaped(listed)}[/dim]")


def _columns(check: Check) -> tuple[list[_Column], list[list[_Column]], list[str]]:
    """The baseline; each candidate with its difference, and other runs; the names of those that are left out."""
    base = check.baseline
    first = []
    if base is not None:
        name = check.baseline_name
        first.append(_Column(name.removesuffix(" (baseline)"), "" if name == "baseline" else "baseline", base))
    compared = {c.candidate for c in check.comparisons}
    groups = []
    for name in check.candidates:
        column = _Column(name, "candidate", check.result[name])
        delta = [_Column("Δ", "", check.result[name], delta=True)] if name in compared else []
        groups.append([column, *delta])
    rest = [r for r in check.result.runs if r.name not in check.candidates and r is not base]
    if len(check.result.runs) > FEW_RUNS:
        return first, groups, [r.name for r in rest]
    return first, [*groups, *([_Column(r.name, "not judged", r)] for r in rest)], []


def _head(column: _Column) -> int:
    return max(min(len(column.head), HEAD) if sys.stdout.isatty() else len(column.head), len(column.role))


def _wide(column: _Column) -> int:
    return max(VALUE + 1 + RANGE, _head(column)) + GAP


def _narrow(column: _Column) -> int:
    return max(RANGE, _head(column)) + GAP


def _chunks(groups: list[list[_Column]], room: int, width: Callable[[_Column], int]) -> Iterator[list[list[_Column]]]:
    """As many groups at a time as there is room for, and at least one."""
    held: list[list[_Column]] = []
    for group in groups:
        if held and sum(width(c) for g in [*held, group] for c in g) > room:
            yield held
            held = []
        held.append(group)
    if held:
        yield held


def _table(check: Check, columns: Sequence[_Column], beside: bool) -> Table:
    from rich import box
    from rich.table import Table

    line = box.SIMPLE_HEAD if sys.stdout.isatty() else None
    table = Table(box=line, pad_edge=False, padding=(0, GAP, 0, 0) if line is None else (0, 1, 0, 0))
    table.add_column("metric", no_wrap=True)
    for column in columns:
        role = f"\n[dim]{column.role}[/dim]" if column.role else ""
        table.add_column(
            escaped(column.head) + role, justify="right", no_wrap=True, max_width=None if beside else _narrow(column)
        )
    for name in check.result.metrics:
        cells = [_found(check, column, name, " " if beside else "\n") for column in columns]
        table.add_row(f"[bold]{name}[/bold]" if name == PRIMARY else name, *cells)
    return table


def _found(check: Check, column: _Column, name: str, between: str) -> str:
    """A value, or a difference, with its interval beside or below it."""
    if column.delta:
        rows = (c for c in check.comparisons if c.candidate == column.run.name and c.metric == name)
        one = next((c.difference for c in rows if c.segment is None), None)
    else:
        one = column.run.intervals[name] if name in column.run.values else None
    if one is None or one.estimate != one.estimate:
        return "–"
    digits = cell(name, one.estimate)
    value = f"+{digits}" if column.delta and one.estimate >= 0 else digits
    ends = short_range(one.low, one.high, name)
    return f"{value}{between}[dim]{escaped(ends)}[/dim]" if ends else value


def show_segments(out: Console, check: Check, by: Sequence[str], *, verbose: bool = False) -> None:
    """One metric in the segments that the config asks for: the worst first, those of few queries in one line."""
    wanted = {tuple(f.strip() for f in one.split(",")) for one in by}
    metric = PRIMARY if PRIMARY in check.result.metrics else check.result.metrics[0]
    runs = [
        *([check.baseline] if _live(check) and check.baseline is not None else []),
        *(check.result[n] for n in check.candidates),
    ]
    judged = runs[-len(check.candidates)]
    found = [s for s in judged.segments if tuple(s.by) in wanted]
    if not found:
        return
    from rich.table import Table

    rises = parse(metric).metric.higher_is_better is not False
    found.sort(key=lambda s: _rank(s, metric, rises))
    small = [s for s in found if s.small and not verbose]
    shown = [s for s in found if s not in small][: None if verbose else ROWS]
    if shown:
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
        table.add_column(f"{metric} by segment", overflow="fold")
        table.add_column("n", justify="right")
        for run in runs:
            table.add_column(escaped(run.name), justify="right", no_wrap=True, max_width=HEAD)
        for segment in shown:
            cells = [_in_segment(run, segment, metric) for run in runs]
            name = ", ".join(f"{k}={v}" for k, v in segment.by.items())
            table.add_row(escaped(name), str(segment.n), *cells, style="dim" if segment.small else None)
        out.print(table)
    if left := len(found) - len(small) - len(shown):
        out.print(f"[dim]and {left} more segments that are better; --verbose shows all[/dim]")
    if small:
        sizes = sorted(s.n for s in small)
        span = f"{sizes[0]}" if sizes[0] == sizes[-1] else f"{sizes[0]} to {sizes[-1]}"
        many = f"{len(small)} segments" if len(small) > 1 else "1 segment"
        out.print(f"[dim]{many} of too few queries to be judged alone ({span} each); --verbose shows all[/dim]")


def _live(check: Check) -> bool:
    return check.baseline is not None and any(r is check.baseline for r in check.result.runs)


def _rank(segment: SegmentResult, metric: str, rises: bool) -> tuple[bool, float]:
    value = segment.metrics[metric].estimate
    return value != value, value if rises else -value


def _in_segment(run: RunResult, segment: SegmentResult, metric: str) -> str:
    one = next((s.metrics[metric] for s in run.segments if s.by == segment.by), None)
    if one is None:
        return "–"
    ends = short_range(one.low, one.high, metric)
    return cell(metric, one.estimate) + (f" [dim]{escaped(ends)}[/dim]" if ends else "")
