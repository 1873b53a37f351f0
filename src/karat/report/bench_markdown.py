"""A benchmark over several datasets as Markdown: the tables of each, and systems by language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report.markdown import code, lay_table, render, text
from karat.report.terminal.bench import describe_languages, mark_of, tables_to_show
from karat.report.view import view_of
from karat.results.figures import change_figure, figure, p_text, variance_figure

if TYPE_CHECKING:
    from karat.verbs.bench.benchmark import Bench
    from karat.verbs.bench.languages import Across, Languages


def render_bench(bench: Bench) -> str:
    """Each dataset as `karat compare` writes it, and then what is said over languages."""
    datasets = [render(view_of(part.document, title=part.dataset.name)) for part in bench.parts]
    return "\n".join([*datasets, *(_render_languages(table) for table in tables_to_show(bench))])


def _render_languages(languages: Languages) -> str:
    """Every system in each language with its interval; what varies, and what differs from the baseline is marked."""
    averages = languages.averages
    change = ["Δ average", "p"] if averages and languages.baseline is not None else []
    heads = ["system", *map(text, languages.places), *(["average"] if averages else []), "variance", *change]
    rows = [_row(row, languages) for row in languages.rows]
    title = f"## {code(languages.metric)} by {languages.by}"
    return f"{title}\n\n{lay_table(heads, rows)}\n\n{text(describe_languages(languages), 240)}\n"


def _row(row: Across, languages: Languages) -> list[str]:
    metric = languages.metric
    cells = [
        f"{figure(metric, c.mean, c.low, c.high)} {mark_of(c, languages)}".rstrip() if c.mean == c.mean else "–"
        for c in row.cells
    ]
    average = [figure(metric, row.average).text] if languages.averages else []
    spread = [*average, variance_figure(metric, row.variance).text]
    if languages.baseline is None or not languages.averages:
        return [text(row.system), *map(text, cells), *spread]
    if row.delta != row.delta:
        return [text(row.system), *map(text, cells), *spread, "", ""]
    change = change_figure(metric, languages.scale, row.delta, row.low, row.high)
    mark = "*" if row.significant else ""
    return [text(row.system), *map(text, cells), *spread, text(f"{change}{mark}"), text(p_text(row.p))]
