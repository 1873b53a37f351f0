"""A benchmark for a person at a terminal, and its files."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from karat.errors import MissingPackage
from karat.metrics.grammar import PRIMARY
from karat.report import files
from karat.report.terminal import evaluate as terminal
from karat.report.terminal.compare import sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from karat.results.result import Result
    from karat.verbs.bench.benchmark import Bench, Benched, Watch
    from karat.verbs.bench.languages import Across, Languages

RESULT, REPORT = "result.json.gz", "report.html"
WIDE = 4
"""Systems that have a column each; more have a row each."""


@contextmanager
def progress(quiet: bool) -> Iterator[Watch | None]:
    """A bar for each run on standard error; none where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.fields[run]:<24} {task.description:<9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=terminal.console(stderr=True),
        transient=True,
    )
    tasks: dict[tuple[str, str], Any] = {}

    def watch(run: str, what: str, done: int, total: int) -> None:
        if (run, what) not in tasks:
            for task in tasks.values():
                bar.update(task, visible=False)
            tasks[run, what] = bar.add_task(what, total=total, run=terminal.plain(run)[:24])
        bar.update(tasks[run, what], completed=done)

    with bar:
        yield watch


def write(bench: Bench, out: str, *, save: str | None, html: str | None, report: bool) -> list[str]:
    """Write each dataset's full result beside its run logs, and its report; the names of what a reader opens."""
    from karat.report.html.write import write_report
    from karat.report.outputs import make_folder

    written = []
    for part in bench.parts:
        folder = os.path.dirname(next(iter(part.logs.values()))) or "."
        part.document.save(os.path.join(folder, RESULT))
        if save is not None:
            make_folder(save)
            part.document.save(save)
        place = html if html is not None and len(bench.parts) == 1 else os.path.join(folder, REPORT)
        if html is not None or report:
            make_folder(place)
            try:
                write_report(part.document, place, queries=part.dataset.query_table, docs=part.dataset.docs)
                written.append(place)
            except MissingPackage as missing:
                if html is not None:
                    raise
                terminal.console(stderr=True).print(f"No report: {terminal.escaped(str(missing))}", style="dim")
    if len(bench.parts) > 1:
        bench.write(os.path.join(out, "bench.json"))
        written.append(os.path.join(out, "bench.json"))
    return written


def write_json(bench: Bench, path: str) -> None:
    """The document of a benchmark, to a file or to standard output."""
    files.write_json(bench, path)


def show(bench: Bench, written: Sequence[str]) -> None:
    """Means, what differs from the baseline, languages, and where everything lies."""
    out = terminal.console()
    for part in bench.parts:
        _show_part(part, bench)
        out.print()
    if bench.languages is not None:
        out.print(languages_table(bench.languages))
        out.print(told_languages(bench.languages), style="dim")
        out.print()
    for part in bench.parts:
        folder = os.path.dirname(next(iter(part.logs.values()))) or "."
        again = f" ({len(part.again)} of {len(part.logs)} were there already)" if part.again else ""
        out.print(f"Run logs: {len(part.logs)} in {terminal.escaped(folder)}/{again}")
    for place in written:
        out.print(f"{'Report' if place.endswith('.html') else 'Result'}: {terminal.escaped(place)}")


def _show_part(part: Benched, bench: Bench) -> None:
    out = terminal.console()
    facts = bench.facts
    out.print(
        f"[bold]{terminal.escaped(part.dataset.name)}[/bold]: {len(part.dataset.corpus):,} passages, "
        f"{len(part.dataset.queries):,} queries, k = {facts['k']}; latency after {facts['warmup']} queries of warm-up, "
        f"{facts['workers']} worker{'s' if facts['workers'] > 1 else ''}"
    )
    gold = str(part.dataset.gold) if isinstance(part.dataset.gold, str) else part.dataset.name
    if len(part.result) > WIDE:
        out.print(systems_table(part.result, part.result.metrics))
        out.print("intervals of all: --json, or the report", style="dim")
    else:
        terminal.show(part.result, gold)
    for note in part.notes:
        out.print(f"! {terminal.escaped(note)}", style="yellow")
    if part.comparison is None:
        return
    metric = PRIMARY if PRIMARY in part.result.metrics else part.result.metrics[0]
    out.print(f"\n[bold]Against {terminal.escaped(part.comparison.baseline)}[/bold] ({metric})")
    for row in part.comparison.of(metric):
        low, high = row.difference.low, row.difference.high
        ends = f" [{low:+.3f}, {high:+.3f}]" if low == low else ""
        told = terminal.escaped(sentence(row, part.comparison.alpha).removeprefix(f"{row.metric}: "))
        told = terminal.escaped(sentence(row, part.comparison.alpha).removeprefix(f"{row.metric}: "))
        out.print(f"  {terminal.escaped(row.candidate):<24} {row.delta:+.3f}{ends}  {told}")


def systems_table(result: Result, metrics: Sequence[str]) -> Table:
    """A row a system, a column a metric; the best of each is bold."""
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("", overflow="fold")
    best = {m: terminal.best_of(m, [run.mean[m] for run in result]) for m in metrics}
    for name in metrics:
        table.add_column(name, justify="right", no_wrap=True)
    for i, run in enumerate(result):
        cells = {m: terminal.cell(m, run.mean[m]) for m in metrics}
        shown = [f"[bold]{cell}[/bold]" if i in best[m] else cell for m, cell in cells.items()]
        table.add_row(terminal.escaped(run.name), *shown)
    return table


def languages_table(found: Languages) -> Table:
    """Systems by language; what differs from the baseline is marked."""
    from rich.table import Table

    title = f"{found.metric} by {found.by}"
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    for place in found.places:
        table.add_column(terminal.escaped(place), justify="right")
    for head in ("average", "sd", "Δ average"):
        table.add_column(head, justify="right")
    for row in found.rows:
        table.add_row(
            terminal.escaped(row.system), *_cells(row), f"{row.average:.3f}", f"{row.variance**0.5:.3f}", _delta(row)
        )
    return table


def _cells(row: Across) -> list[str]:
    def mark(cell: Any) -> str:
        return " " if not cell.significant else "▲" if cell.delta > 0 else "▼"

    return [f"{c.mean:.3f}{mark(c)}" if c.mean == c.mean else "–" for c in row.cells]


def _delta(row: Across) -> str:
    if row.delta != row.delta:
        return ""
    ends = f" [{row.low:+.3f}, {row.high:+.3f}]" if row.low == row.low else ""
    return f"{row.delta:+.3f}{ends}{'*' if row.significant else ''}"


def told_languages(found: Languages) -> str:
    """What the table's averages and marks mean."""
    against = (
        f"; ▲ ▼ and * differ from {found.baseline} at {found.alpha:g} (Holm over {found.by}s)" if found.baseline else ""
    )
    return f"average: each {found.by} weighs the same; sd: of the {found.by}s' means{against}"


def show_kinds() -> None:
    """The retrievers that can be named, with their parameters."""
    from rich.table import Table

    from karat.retrieve import all_kinds

    table = Table(box=None, header_style="bold", pad_edge=False)
    for head in ("retriever", "what it is", "parameters"):
        table.add_column(head, overflow="fold")
    for name, kind in sorted(all_kinds().items()):
        made_of = {"none": "", "one": "(RETRIEVER)", "many": "(RETRIEVER, …)"}[kind.takes]
        params = ", ".join(f"{n}={v}" if v is not None else n for n, v in kind.params.items())
        table.add_row(terminal.escaped(name + made_of), terminal.escaped(kind.tells), terminal.escaped(params))
    out = terminal.console()
    out.print(table)
    out.print(
        "\nA retriever of your own: module:function (query, k) → ids, or a class with index and retrieve.", style="dim"
    )
