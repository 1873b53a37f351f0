"""The figures behind a verdict at a terminal: the baseline, the candidates and their differences, with intervals."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from karat.metrics.grammar import PRIMARY, parse
from karat.records import dataclass
from karat.report.terminal.console import grid, head_of, lay_runs, line, note_without_intervals, wrapped
from karat.report.words import COMPARED_ONLY
from karat.results.figures import estimate_figure
from karat.results.sampling import split_fields
from karat.results.words import BASELINE, FEW_MARK, SharedLevels, describe_few, plain, plural, segment_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karat.report.terminal.console import Output
    from karat.report.terminal.layout import Grid, Line
    from karat.report.view import System, View
    from karat.results.result import RunResult
    from karat.results.values import SegmentResult
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
    least: int = 0
    """The fewest characters that it needs, whatever its figures."""


def show_figures(out: Output, view: View) -> None:
    """Every metric: the baseline, then each candidate with its difference; as many a table as there is room for."""
    first, groups, others = _columns(view)
    label = max(map(len, view.metrics), default=0)
    room = out.width - label - GAP
    beside = room >= sum(map(_wide, [*first, *(c for g in groups for c in g)]))
    width = _wide if beside else _narrow
    for chunk in _chunks(groups, room - sum(map(width, first)), width):
        out.print(_table(view, [*first, *(c for group in chunk for c in group)], beside))
    if others:
        out.print(line(plain(f"also evaluated: {', '.join(others)}"), style="dim"))


def _columns(view: View) -> tuple[list[_Column], list[list[_Column]], list[str]]:
    """The baseline; each candidate with its difference, and other runs; the names of those that are left out."""
    base, first = view.baseline, []
    if base is not None:
        first.append(_Column(base.name, "" if base.name == BASELINE else "baseline", base.run))
    candidates = {d.candidate for d in view.decisions}
    groups = []
    for system in view.candidates:
        delta = [_delta_column(view, system)] if system.name in candidates else []
        groups.append([_Column(system.name, "candidate", system.run), *delta])
    rest = [s for s in view.systems if not s.role]
    if len(view.result.runs) > FEW_RUNS:
        return first, groups, [s.name for s in rest]
    return first, [*groups, *([_Column(s.name, COMPARED_ONLY, s.run)] for s in rest)], []


def _delta_column(view: View, system: System) -> _Column:
    """The differences of a candidate, with room for the levels of shared queries."""
    decisions = [d for m in view.metrics if (d := view.decision(system.name, m)) is not None]
    notes = [shared for d in decisions if (shared := view.shared_levels(d)) is not None]
    least = max((len(words) for shared in notes for words in _shared_lines(shared)), default=0)
    return _Column("Δ", "", system.run, delta=True, least=least)


def _head(column: _Column) -> int:
    return max(len(head_of(column.head)), len(column.role))


def _wide(column: _Column) -> int:
    return max(VALUE + 1 + RANGE, _head(column), column.least) + GAP


def _narrow(column: _Column) -> int:
    return max(RANGE, _head(column), column.least) + GAP


def _chunks(groups: list[list[_Column]], room: int, width: Callable[[_Column], int]) -> Iterator[list[list[_Column]]]:
    """As many groups at a time as there is room for, and at least one."""
    chunk: list[list[_Column]] = []
    for group in groups:
        if chunk and sum(width(c) for g in [*chunk, group] for c in g) > room:
            yield chunk
            chunk = []
        chunk.append(group)
    if chunk:
        yield chunk


def _table(view: View, columns: Sequence[_Column], beside: bool) -> Grid:
    table = grid("metric", gap=GAP, ruled=True)
    for column in columns:
        head = line(head_of(column.head), (f"\n{column.role}" if column.role else "", "dim"))
        table.add_column(head, justify="right", no_wrap=True)
    for name in view.metrics:
        cells = [_cell(view, column, name, beside) for column in columns]
        table.add_row(line((name, "bold" if name == PRIMARY else "")), *cells)
    return table


def _cell(view: View, column: _Column, name: str, beside: bool) -> Line:
    """A value, or a difference, with its interval beside or below it; of a difference, the queries that it is over."""
    between, decision = " " if beside else "\n", None
    if column.delta:
        decision = view.decision(column.run.name, name)
        one = decision.figure if decision is not None else None
    else:
        one = estimate_figure(name, column.run.intervals[name]) if name in column.run.values else None
    if one is None:
        return line("–")
    shared = view.shared_levels(decision) if decision is not None else None
    below = "\n".join(("", *_shared_lines(shared))) if shared is not None else ""
    return line(one.text, (f"{between}{one.interval}" if one.defined and one.interval else "", "dim"), (below, "dim"))


def _shared_lines(shared: SharedLevels) -> tuple[str, str]:
    return f"over {shared.queries}:", shared.levels


def show_segments(out: Output, check: Check, by: Sequence[str], *, verbose: bool = False) -> None:
    """One metric in the segments that the config asks for: the worst first, those of few queries in one line."""
    groups = {split_fields(one) for one in by}
    metric = PRIMARY if PRIMARY in check.result.metrics else check.result.metrics[0]
    runs = {check.result[n].name: check.result[n] for n in check.candidates}
    candidate = next(iter(runs.values()))
    segments = [s for s in candidate.segments if tuple(s.by) in groups]
    if check.baseline is not None and metric in check.baseline.values:
        live = any(r is check.baseline for r in check.result.runs)
        # A baseline from a file does not know the fields of its queries.
        base = check.baseline if live else replace(check.baseline, sampling=candidate.sampling)
        runs = {base.name if live else BASELINE: base, **runs}
    if not segments:
        return
    rises = parse(metric).metric.higher_is_better is not False
    segments.sort(key=lambda s: _rank(s, metric, rises))
    small = [s for s in segments if metric in s.too_few and not verbose]
    rows = [s for s in segments if s not in small][: None if verbose else ROWS]
    if rows:

        def build(some: Sequence[tuple[str, RunResult]], detail: int) -> Grid:
            return _segment_table(metric, rows, some, intervals=detail > 0)

        columns = list(runs.items())
        tables, detail = lay_runs(out, columns, build, 1) if sys.stdout.isatty() else ([build(columns, 1)], 1)
        for table in tables:
            out.print(table)
        if not detail and candidate.sampling.method != "none":
            out.print(note_without_intervals(out))
        if any(metric in s.too_few for s in rows):
            out.print(line(describe_few(candidate.sampling.minimum), style="dim"))
    if hidden := len(segments) - len(small) - len(rows):
        out.print(line(f"and {plural(hidden, 'segment')} with better values; use --verbose to show them", style="dim"))
    if small:
        span = _span([s.metrics[metric].n for s in small])
        units = [min(s.metrics[metric].units, s.metrics[metric].n) for s in small]
        if units != [s.metrics[metric].n for s in small]:
            counted = _span(units)
            span += f", which count as {counted} independent {'one' if counted == '1' else 'ones'}"
        span += f"; {candidate.sampling.minimum} are needed"
        lack = "has too few queries to judge on its own" if len(small) == 1 else "have too few queries to judge alone"
        it = "it" if len(small) == 1 else "them"
        out.print(line(f"{plural(len(small), 'segment')} {lack} ({span}); use --verbose to show {it}", style="dim"))


def _segment_table(
    metric: str, rows: Sequence[SegmentResult], runs: Sequence[tuple[str, RunResult]], *, intervals: bool
) -> Grid:
    table = wrapped(grid(f"{metric} by segment", "n", gap=GAP))
    for name, _ in runs:
        table.add_column(head_of(name), justify="right", no_wrap=True)
    for segment in rows:
        cells = [_in_segment(run, segment, metric, intervals) for _, run in runs]
        few = metric in segment.too_few
        name = f"{plain(segment_text(segment.by, '='))}{f' {FEW_MARK}' if few else ''}"
        table.add_row(name, str(segment.metrics[metric].n), *cells, style="dim" if few else None)
    return table


def _span(sizes: Sequence[float]) -> str:
    """`3 to 9`, or `9` where all are equal."""
    low, high = (f"{round(size, 1):g}" for size in (min(sizes), max(sizes)))
    return low if low == high else f"{low} to {high}"


def _rank(segment: SegmentResult, metric: str, rises: bool) -> tuple[bool, float]:
    value = segment.metrics[metric].estimate
    return value != value, value if rises else -value


def _in_segment(run: RunResult, segment: SegmentResult, metric: str, intervals: bool) -> Line:
    one = next((s.metrics[metric] for s in run.segments if s.by == segment.by), None)
    if one is None:
        return line("–")
    figure = estimate_figure(metric, one)
    return line(figure.text, (f" {figure.interval}" if intervals and figure.interval else "", "dim"))
