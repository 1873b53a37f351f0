"""A result for a person at a terminal."""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from karat.errors import UsageError
from karat.metrics.grammar import PRIMARY, parse
from karat.results.fingerprints import told_fact
from karat.results.remarks import unjudged, warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.table import Table

    from karat.model.engine import Watch
    from karat.results.result import Result, RunResult

FEW = 25
HEAD, SEGMENT = 24, 30
"""The characters of a run's name that head a column on a terminal, and those that a segment usually takes."""
_UNSHOWN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls of terminals and of the direction of writing, and halves of characters."""
"""Told the file, the bytes read of it, and all its bytes."""


def console(stderr: bool = False) -> Console:
    """A console that has colours only on a terminal, and keeps tables whole when piped."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 160
    return Console(stderr=stderr, highlight=False, soft_wrap=False, width=width)


def cutoffs(text: str | None) -> list[int] | None:
    """`1,3,5` → cutoffs."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.strip("{}[] ").split(",")]
    except ValueError:
        raise UsageError(f"cutoffs must be integers such as 1,3,5, found {text!r}") from None


@contextmanager
def progress(quiet: bool, after: float = 1.0) -> Iterator[Watch | None]:
    """A bar on standard error for work that takes longer than a second; none where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("reading {task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    )
    tasks: dict[str, int] = {}
    begun = time.monotonic()

    def watch(path: str, done: int, total: int) -> None:
        if not tasks and time.monotonic() - begun < after:
            return
        if path not in tasks:
            bar.start()
            tasks[path] = bar.add_task(os.path.basename(path), total=total)
        bar.update(tasks[path], completed=done)  # type: ignore[arg-type]

    try:
        yield watch
    finally:
        bar.stop()


def show(result: Result, gold: str, verbose: bool = False) -> None:
    """The means of all runs side by side with their intervals, then what should be known about them."""
    out = console()
    out.print(_table(result, _room(result, out.width, max(map(len, result.metrics), default=0))))
    if result.runs[0].sampling.by:
        out.print(_segments(result, _room(result, out.width, SEGMENT)))
    for line in _remarks(result, gold, verbose):
        out.print(line, markup=True)


def _room(result: Result, width: int, label: int) -> bool:
    """Whether intervals have room beside the values; without it they would cut names and digits off."""
    return width >= label + 3 + sum(max(10, min(len(run.name), HEAD)) + 20 for run in result.runs)


def short_range(low: float, high: float, name: str = PRIMARY) -> str:
    """An interval in few characters; a side that too few queries leave open is a dash."""
    if low != low and high != high:
        return ""
    digits = ",.1f" if parse(name).metric.bounds[1] is None else ".3f"
    return f"[{', '.join('–' if x != x else format(x, digits) for x in (low, high))}]"


def _table(result: Result, room: bool) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("metric", no_wrap=True)
    alone = len(result.runs) == 1
    for run in result.runs:
        table.add_column(escaped(run.name), justify="right", no_wrap=True, max_width=_head())
        if room:
            table.add_column("", style="dim", no_wrap=True)
    if alone:
        table.add_column("", style="dim")
    found = [run.intervals for run in result.runs]
    for name in result.metrics:
        values = [f[name].estimate for f in found]
        best = best_of(name, values) if len(values) > 1 else set()
        cells: list[str] = []
        for i, value in enumerate(values):
            text = cell(name, value)
            cells.append(f"[bold]{text}[/bold]" if i in best else text)
            if room:
                cells.append(escaped(short_range(found[i][name].low, found[i][name].high, name)))
        label = f"[bold]{name}[/bold]" if name == PRIMARY else name
        table.add_row(label, *cells, *([reading(name, values[0], result.runs[0])] if alone else []))
    return table


def _head() -> int | None:
    """A file holds names whole; a screen has no room for long ones."""
    return HEAD if sys.stdout.isatty() else None


def escaped(text: str) -> str:
    """The text as it is: its brackets are no markup, and nothing in it steers the terminal."""
    from rich.markup import escape

    return escape(plain(text))


def plain(text: str) -> str:
    """The text on one line, without characters that a terminal or a file could not show."""
    return _UNSHOWN.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))


def _segments(result: Result, room: bool) -> Table:
    """One metric in every segment; the others are in the JSON."""
    from rich.table import Table

    metric = PRIMARY if PRIMARY in result.metrics else result.metrics[0]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(f"{metric} by segment", no_wrap=True)
    table.add_column("n", justify="right")
    for run in result.runs:
        table.add_column(escaped(run.name), justify="right", no_wrap=True, max_width=_head())
        if room:
            table.add_column("", style="dim", no_wrap=True)
    for i, segment in enumerate(result.runs[0].segments):
        cells = []
        for run in result.runs:
            found = run.segments[i].metrics[metric] if i < len(run.segments) else None
            cells.append(cell(metric, found.estimate) if found else "")
            if room:
                cells.append(escaped(short_range(found.low, found.high, metric)) if found else "")
        name = escaped(", ".join(f"{k}={v}" for k, v in segment.by.items()))
        table.add_row(name, str(segment.n), *cells, style="dim" if segment.small else None)
    for names in result.runs[0].sampling.by:
        across = [run.across(",".join(names), metric) for run in result.runs]
        cells = []
        for one in across:
            variance = "" if one["variance"] != one["variance"] else f"variance {one['variance']:.4f}"
            cells += [cell(metric, one["macro_average"]), *([variance] if room else [])]
        table.add_row(f"macro average by {', '.join(names)}", f"{across[0]['segments']}", *cells, style="italic")
    return table


def cell(name: str, value: float) -> str:
    """A value in the digits and the unit of its metric."""
    if value != value:
        return "–"
    measure = parse(name)
    if measure.aggregate == "sum":
        return f"{value:,.0f}"
    unit = f" {measure.metric.unit}" if measure.metric.unit else ""
    return f"{value:,.2f}{unit}" if measure.metric.bounds[1] is None else f"{value:.4f}{unit}"


def best_of(name: str, values: list[float]) -> set[int]:
    """Which of the values are best; none where all are shown alike."""
    better = parse(name).metric.higher_is_better
    defined = [v for v in values if v == v]
    if better is None or not defined or len({f"{v:.4f}" for v in defined}) < 2:
        return set()
    top = max(defined) if better else min(defined)
    return {i for i, v in enumerate(values) if v == top}


def reading(name: str, value: float, run: RunResult) -> str:
    """What the field makes of a value: a rule of thumb, never a gate."""
    metric = parse(name).metric
    for at_least, word in metric.bands.get(name, ()):
        if value >= at_least:
            return word
    target = metric.targets.get(name)
    if target is None or value != value:
        return ""
    best = run.attainable.get(name, 1.0)
    limit = f", the gold allows {best:.2f}" if best < target else ""
    return f"target {target:g} {'reached' if value >= target else 'not reached'}{limit}"


def _remarks(result: Result, gold: str, verbose: bool) -> list[str]:
    lines = scope_of(result, gold)
    several = len(result.runs) > 1
    for run in result.runs:
        for text in warnings(run):
            lines.append(f"[yellow]![/yellow] {escaped(f'{run.name}: {text}' if several else text)}")
        for note in run.notes:
            lines.append(f"[dim]· {escaped(f'{run.name}: {note}' if several else note)}[/dim]")
        if verbose:
            facts = ", ".join(f"{k}={told_fact(v)}" for k, v in {**run.counts, **run.facts}.items())
            lines.append(f"[dim]{escaped(f'{run.name}: {facts}')}[/dim]")
    return lines


def scope_of(result: Result, gold: str) -> list[str]:
    """Over which queries and by which conventions the values are, and how many docs nobody judged."""
    queries = sorted({run.counts["queries"] for run in result.runs})
    lines = [
        f"[dim]{'–'.join(map(str, queries))} queries · gold {escaped(os.path.basename(gold))} · "
        f"ties by doc id, falling{_told(result)}[/dim]"
    ]
    if 0 < queries[0] < FEW:
        lines.append(f"[yellow]![/yellow] only {queries[0]} queries: so few show only large differences")
    return lines + [f"[dim]· {escaped(text)}[/dim]" for text in unjudged(result)]


def _told(result: Result) -> str:
    sampling = result.runs[0].sampling
    told = {"intervals": f"{sampling.confidence:.0%}", "score_precision": "float64", **result.conventions}
    return " · " + ", ".join(f"{k}={v}" for k, v in told.items())
