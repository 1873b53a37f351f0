"""A result for a person at a terminal."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from karat.metrics.grammar import PRIMARY, parse
from karat.report.terminal.console import console, grid, head_of, lay_runs, line, note, note_without_intervals, wrapped
from karat.report.terminal.console import cutoffs as cutoffs
from karat.report.terminal.console import progress as progress
from karat.report.words import order_text
from karat.results.depths import depth_of, find_depth_gap
from karat.results.figures import SAME, estimate_figure, figure, variance_figure
from karat.results.fingerprints import fact_text
from karat.results.reading import read_value, readings_text
from karat.results.remarks import describe_size
from karat.results.words import FEW_MARK, conventions_text, describe_few, segment_text
from karat.results.words import plain as plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karat.report.by_judge import JudgedSection
    from karat.report.terminal.console import Output
    from karat.report.terminal.layout import Grid, Line
    from karat.results.judged_differences import ByBasis
    from karat.results.result import Result, RunResult
    from karat.stats.intervals import Interval

WIDE = 120
"""The characters from which on figures with and without a judge have their intervals beside them."""
READING = 20
"""The fewest characters of the words beside a value."""
VALUES, INTERVALS, POOLED = range(3)
"""What a table shows of a run: each with what is before it."""


def show(result: Result, gold: str, verbose: bool = False) -> None:
    """The means of all runs side by side with their intervals, then what should be known about them."""
    out = console()
    narrow = _print_runs(out, result, INTERVALS, lambda runs, detail: _table(result, runs, detail >= INTERVALS))
    if result.runs[0].sampling.tables:
        narrow |= _print_runs(out, result, POOLED, lambda runs, detail: _segments(result, runs, detail))
        if any(_leading(result) in segment.too_few for segment in result.runs[0].segments):
            out.print(line(describe_few(result.runs[0].sampling.minimum), style="dim"))
    if narrow:
        out.print(note_without_intervals(out))
    if len(result.runs) > 1:
        show_readings(out, result.runs)
    show_judged(out, result)
    show_remarks(out, result, gold, verbose)


def _print_runs(out: Output, result: Result, most: int, build: Callable[[Sequence[RunResult], int], Grid]) -> bool:
    """Print a table of all runs, or several of some; whether there was no room for their intervals."""
    tables, detail = lay_runs(out, result.runs, build, most)
    for table in tables:
        out.print(table)
    return detail < INTERVALS and result.runs[0].sampling.method != "none"


def _table(result: Result, runs: Sequence[RunResult], wide: bool) -> Grid:
    alone = len(result.runs) == 1
    table = _run_columns(grid("metric", gap=1, ruled=True), runs, wide)
    rules = [_beside(name, runs[0]) for name in result.metrics] if alone else []
    if alone:
        table.add_column("", style="dim", min_width=READING if any(rules) else None)
    for row, name in enumerate(result.metrics):
        names = {result.runs[i].name for i in best_runs(name, result.runs)}
        cells: list[str | Line] = []
        for run in runs:
            cells += _cells(name, run.intervals[name], wide, bold=run.name in names)
        table.add_row(line((name, "bold" if name == PRIMARY else "")), *cells, *rules[row : row + 1])
    return table


def _run_columns(table: Grid, runs: Sequence[RunResult], wide: bool) -> Grid:
    for run in runs:
        table.add_column(head_of(run.name), justify="right", no_wrap=True)
        if wide:
            table.add_column("", style="dim", no_wrap=True)
    return table


def _cells(metric: str, interval: Interval, wide: bool, *, bold: bool = False) -> list[str | Line]:
    """The value, and its interval where there is room."""
    one = estimate_figure(metric, interval)
    return [line((one.text, "bold" if bold else "")), *([one.interval] if wide else [])]


def _segments(result: Result, runs: Sequence[RunResult], detail: int) -> Grid:
    """One metric in every segment; the others are in the JSON."""
    metric, wide = _leading(result), detail >= INTERVALS
    table = wrapped(_run_columns(grid(f"{metric} by segment", "n", gap=1), runs, wide))
    pooled = detail >= POOLED and len(result.runs) == 1 and any(metric in s.pooled for s in result.runs[0].segments)
    if pooled:
        table.add_column("pooled", style="dim", no_wrap=True)
    for i, segment in enumerate(result.runs[0].segments):
        cells: list[str | Line] = []
        for run in runs:
            has_segment = i < len(run.segments)
            cells += _cells(metric, run.segments[i].metrics[metric], wide) if has_segment else [""] * (1 + wide)
        if pooled:
            cells.append(str(estimate_figure(metric, segment.pooled[metric])) if metric in segment.pooled else "")
        few = metric in segment.too_few
        name = f"{plain(segment_text(segment.by, '='))}{f' {FEW_MARK}' if few else ''}"
        table.add_row(name, str(segment.metrics[metric].n), *cells, style="dim" if few else None)
    for names in result.runs[0].sampling.tables:
        across = [run.across(",".join(names), metric) for run in runs]
        cells = []
        for one in across:
            spread = variance_figure(metric, one["variance"])
            variance = [f"variance {spread.text}" if spread.defined else ""] if wide else []
            cells += [figure(metric, one["macro_average"]).text, *variance]
        table.add_row(plain(f"macro average by {', '.join(names)}"), f"{across[0]['segments']}", *cells, style="italic")
    return table


def _leading(result: Result) -> str:
    """The metric that is shown by segment."""
    return PRIMARY if PRIMARY in result.metrics else result.metrics[0]


def best_of(name: str, values: list[float]) -> set[int]:
    """Which of the values are best; none where all are printed alike."""
    better = parse(name).metric.higher_is_better
    defined = [v for v in values if v == v]
    if better is None or len({figure(name, v).text for v in defined}) < 2:
        return set()
    top = max(defined) if better else min(defined)
    return {i for i, v in enumerate(values) if abs(v - top) <= SAME}


def best_runs(metric: str, runs: Sequence[RunResult]) -> set[int]:
    """Which of the runs are best by a metric; none by totals over different numbers of queries."""
    sizes = {run.n[metric] for run in runs if metric in run.values}
    if parse(metric).aggregate == "sum" and len(sizes) > 1:
        return set()
    return best_of(metric, [run.mean[metric] if metric in run.values else math.nan for run in runs])


def _beside(name: str, run: RunResult) -> str:
    """What stands beside a value: where the lists end if that is above its cutoff, and what the field makes of it."""
    end = f"lists end at rank {depth_of(run):,}" if find_depth_gap(name, [run]) is not None else ""
    reading = read_value(run, name)
    return "; ".join(filter(None, (end, reading.text if reading is not None else "")))


def show_readings(out: Output, runs: Sequence[RunResult]) -> None:
    """What the field makes of the values of several runs, one line per run."""
    for run in runs:
        if text := readings_text(run):
            out.print(line(plain(f"rules of thumb, {run.name}: {text}"), style="dim"))


def show_judged(out: Output, result: Result, decisions: ByBasis | None = None) -> None:
    """Figures by the gold alone, with a judge's grades, and corrected, side by side; nothing without a judge."""
    if all(run.by_judge is None for run in result.runs):
        return
    from karat.report.by_judge import describe_judged

    judged = describe_judged(result, decisions)
    if judged is None:
        return
    out.print()
    for section in judged.sections:
        _show_judged_table(out, section, whole=out.width >= WIDE)
    for text in judged.lines:
        out.print(line(plain(text), style="dim"))
    out.print()
    if judged.calibration is not None:
        _show_judged_table(out, judged.calibration, whole=True)
        out.print()


def _show_judged_table(out: Output, section: JudgedSection, *, whole: bool) -> None:
    """A table and its lines; figures have their intervals where they are to be whole."""
    out.print(line(plain(section.title), style="bold"))
    table = grid(*section.heads)
    for metric, cells in section.rows:
        table.add_row(metric, *(str(cell) if whole else cell.text for cell in cells))
    out.print(table)
    for text in section.lines:
        out.print(line(plain(text), style="dim"))


def show_remarks(out: Output, result: Result, gold: str, verbose: bool) -> None:
    """What a reader must know: the queries, the conventions, what is odd about the data."""
    show_scope(out, result, gold)
    for remark in result.remarks:
        out.print(note(plain(remark.text), serious=remark.serious))
    if verbose:
        for run in result.runs:
            facts = ", ".join(f"{k}={fact_text(v)}" for k, v in {**run.counts, **run.facts}.items())
            out.print(line(plain(f"{run.name}: {facts}"), style="dim"))


def show_scope(out: Output, result: Result, gold: str, *, saved: bool = False) -> None:
    """Over which queries and by which conventions the values are; of a `saved` result, `gold` is its file."""
    sampling = result.runs[0].sampling
    conventions = {"intervals": sampling.level or "none", "score_precision": "float64", **result.conventions}
    count = describe_size(result.runs)
    source = f"{'saved result' if saved else 'gold'} {plain(os.path.basename(gold))}" if gold else "no gold"
    out.print(
        line(f"{count} · {source} · {order_text(result.runs)} · {plain(conventions_text(conventions))}", style="dim")
    )
