"""A benchmark for a person at a terminal, and its files."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from karat.errors import MissingPackage
from karat.metrics.grammar import PRIMARY
from karat.report.files import write_json, write_text
from karat.report.outputs import Files
from karat.report.outputs import write as write_outputs
from karat.report.terminal import evaluate as terminal
from karat.report.terminal.console import console, grid, line, note
from karat.report.view import view_of
from karat.results.figures import change_figure, figure, variance_figure
from karat.results.words import plain, plural, queries_text
from karat.stats.aggregates import NEUTRAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karat.report.terminal.layout import Grid
    from karat.results.result import Result
    from karat.verbs.bench.benchmark import Bench, DatasetBench, Watch
    from karat.verbs.bench.languages import Across, Cell, Languages

RESULT, REPORT = "result.json.gz", "report.html"
MRR = "mrr"
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
        TextColumn("{task.fields[run]:<24} {task.description:<9}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True).rich,
        transient=True,
    )
    tasks: dict[tuple[str, str], Any] = {}

    def watch(run: str, what: str, count: int, total: int) -> None:
        if (run, what) not in tasks:
            for task in tasks.values():
                bar.update(task, visible=False)
            tasks[run, what] = bar.add_task(what, total=total, run=plain(run)[:24])
        bar.update(tasks[run, what], completed=count)

    with bar:
        yield watch


def write(bench: Bench, out: str, files: Files, *, report: bool) -> list[str]:
    """Write each dataset's full result beside its run logs, its report and what else was asked for; names of files."""
    from karat.report.bench_markdown import render_bench
    from karat.report.html.write import write_report

    names = []
    if "json" in files.places:
        write_json(bench, files.places["json"])
    several = len(bench.parts) > 1
    if several and "markdown" in files.places:
        write_text(render_bench(bench), files.places["markdown"])
    done = ("json", "markdown") if several else ("json",)
    for part in bench.parts:
        folder = os.path.dirname(next(iter(part.logs.values()))) or "."
        part.document.save(os.path.join(folder, RESULT))
        tables = {"queries": part.dataset.query_table, "docs": part.dataset.docs}
        if report and "html" not in files.places:
            place = os.path.join(folder, REPORT)
            try:
                write_report(part.document, place, **tables)
                names.append(place)
            except MissingPackage as missing:
                console(stderr=True).print(line(plain(f"No report: {missing}"), style="dim"))
        view = view_of(part.document, title=part.dataset.name, tables=tables)
        names += write_outputs(view, Files({name: place for name, place in files.places.items() if name not in done}))
    if several:
        bench.write(os.path.join(out, "bench.json"))
        names.append(os.path.join(out, "bench.json"))
    return names


def show(bench: Bench, paths: Sequence[str]) -> None:
    """Means, what differs from the baseline, languages, and where everything lies."""
    out = console()
    for part in bench.parts:
        _show_part(part, bench)
        out.print()
    for table in tables_to_show(bench):
        out.print(languages_table(table))
        out.print(line(describe_languages(table), style="dim"))
        out.print()
    for part in bench.parts:
        folder = os.path.dirname(next(iter(part.logs.values()))) or "."
        reused = f" ({len(part.reused)} of {len(part.logs)} reused)" if part.reused else ""
        out.print(line(plain(f"Run logs: {len(part.logs)} in {folder}/{reused}")))
    for place in paths:
        out.print(line(plain(f"{'Report' if place.endswith('.html') else 'Result'}: {place}")))


def _show_part(part: DatasetBench, bench: Bench) -> None:
    out = console()
    facts = bench.facts
    warm_up = queries_text(facts.warmup)
    warm = f"latency after {warm_up} of warm-up, {plural(facts.workers, 'worker')}"
    corpus = part.dataset.corpus
    unit = "doc" if all(corpus.parent(one) == one for one in corpus.ids) else "passage"
    size = f"{plural(len(corpus), unit)}, {queries_text(len(part.dataset.queries))}, k = {facts.k}"
    out.print(line((plain(part.dataset.name), "bold"), f": {size}; {warm}"))
    gold = str(part.dataset.gold) if isinstance(part.dataset.gold, str) else part.dataset.name
    if len(part.result) > WIDE:
        out.print(systems_table(part.result, part.result.metrics))
        out.print(line("intervals of all: --json, or the report", style="dim"))
        terminal.show_remarks(out, part.result, gold, verbose=False)
    else:
        terminal.show(part.result, gold)
    for text in part.own_notes:
        out.print(note(plain(text), serious=True))
    if part.comparison is None:
        return
    metric = PRIMARY if PRIMARY in part.result.metrics else part.result.metrics[0]
    out.print(line("\n", (f"Against {plain(part.comparison.baseline)}", "bold"), f" ({metric})"))
    for row in part.comparison.of(metric):
        out.print(line(f"  {plain(row.candidate):<24} {row.figure.sentence}  {plain(row.conclusion)}"))


def systems_table(result: Result, metrics: Sequence[str]) -> Grid:
    """One row per system, one column per metric; the best of each is bold."""
    table = grid("", *metrics)
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    best = {m: terminal.best_runs(m, result.runs) for m in metrics}
    for i, run in enumerate(result):
        cells = (line((figure(m, run.mean[m]).text, "bold" if i in best[m] else "")) for m in metrics)
        table.add_row(plain(run.name), *cells)
    return table


def tables_to_show(bench: Bench) -> list[Languages]:
    """The tables over languages for a reader: of the primary metric, and of cases also of mrr."""
    wanted = (MRR,) if all(part.dataset.entries for part in bench.parts) else ()
    return [table for i, table in enumerate(bench.over_languages) if i == 0 or table.metric in wanted]


def languages_table(languages: Languages) -> Grid:
    """Systems by language; what differs from the baseline is marked."""
    compared = languages.baseline is not None
    averages = languages.averages
    heads = (*(["average"] if averages else []), "variance", *(["Δ average"] if compared and averages else []))
    table = grid("", *map(plain, languages.places), *heads)
    table.title = f"{languages.metric} by {languages.by}"
    for row in languages.rows:
        average = [figure(languages.metric, row.average).short] if averages else []
        variance = variance_figure(languages.metric, row.variance).text
        change = [_delta(row, languages)] if compared and averages else []
        table.add_row(plain(row.system), *_cells(row, languages), *average, variance, *change)
    return table


def mark_of(cell: Cell, languages: Languages) -> str:
    """How a cell stands to the baseline, where it differs from it."""
    return "" if not cell.significant else "▲" if cell.delta > NEUTRAL[languages.scale] else "▼"


def _cells(row: Across, languages: Languages) -> list[str]:
    marks = (mark_of(cell, languages) or " " for cell in row.cells)
    figures = (figure(languages.metric, cell.mean) for cell in row.cells)
    return [f"{one.short}{mark}" if one.defined else "–" for one, mark in zip(figures, marks, strict=True)]


def _delta(row: Across, languages: Languages) -> str:
    if row.delta != row.delta:
        return ""
    one = change_figure(languages.metric, languages.scale, row.delta, row.low, row.high)
    return f"{one.sentence}{'*' if row.significant else ''}"


def describe_languages(languages: Languages) -> str:
    """What the table's averages and marks mean."""
    by = languages.by
    marks = "▲ ▼ and *" if languages.averages else "▲ ▼"
    how = f" ({languages.family})" if languages.family else ""
    against = f"; {marks} differ from {languages.baseline} at {languages.alpha:g}{how}" if languages.baseline else ""
    average = f"average: each {by} weighs the same; " if languages.averages else ""
    return f"{average}variance: of the {by}s' means{against}"


def show_kinds() -> None:
    """The retrievers that can be named, with their parameters."""
    from karat.retrieve import all_kinds

    table = grid("retriever")
    for head in ("what it is", "parameters"):
        table.add_column(head, overflow="fold")
    for name, kind in sorted(all_kinds().items()):
        parts = {"none": "", "one": "(RETRIEVER)", "many": "(RETRIEVER, …)"}[kind.takes]
        params = ", ".join(f"{n}={v}" if v is not None else n for n, v in kind.params.items())
        table.add_row(plain(name + parts), plain(kind.tells), plain(params))
    out = console()
    out.print(table)
    own = "A retriever of your own: module:function (query, k) → ids, or a class with index and retrieve."
    out.print(line(f"\n{own}", style="dim"))
