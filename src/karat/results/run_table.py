"""Values of runs as one table: what a result shows of itself in a notebook, and gives to data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.metrics.grammar import choose_primary
from karat.results.figures import estimate_figure
from karat.results.remarks import remarks_of
from karat.results.table import Table
from karat.results.words import FEW_MARK, describe_few, queries_text, segment_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.model.json_data import Json
    from karat.results.by_judge import Basis
    from karat.results.result import RunResult
    from karat.stats.intervals import Interval


def table_of(runs: Sequence[RunResult], conventions: Mapping[str, Json] | None = None) -> Table:
    """Values of runs: for a data frame a row for each run and metric, for a reader a column for each run.

    A reader sees the leading metric in every segment too, and what is to be known of the data. Figures that a judge's
    grades feed stand beside those by the gold alone: in a data frame the column `judged` tells them apart.
    """
    figures = [(run, basis, intervals) for run in runs for basis, intervals in _figures_of(run).items()]
    estimates = [(run, name, "", basis, one) for run, basis, some in figures for name, one in some.items()]
    parts = [
        (run, name, segment_text(s.by), "none", one)
        for run in runs
        for s in run.segments
        for name, one in s.metrics.items()
    ]
    judged = len(figures) > len(runs)
    rows = [
        (run.name, name, segment or None, *([basis] if judged else []), one.estimate, one.low, one.high, one.n)
        for run, name, segment, basis, one in [*estimates, *parts]
    ]
    columns = ("run", "metric", "segment", *(["judged"] if judged else []), "value", "low", "high", "n")
    names = list(dict.fromkeys(name for run in runs for name in run.intervals))
    cells = [_row_of(name, [some for *_, some in figures], [run.intervals for run in runs]) for name in names]
    heads = ["metric", "n", *(run.name + BASIS_SUFFIX[basis] for run, basis, _ in figures)]
    notes = [remark.text for remark in remarks_of(runs)]
    segments = runs[0].segments if runs else ()
    if segments:
        leading = choose_primary(names)
        heads, cells = ["segment", *heads], [["", *row] for row in cells]
        for segment in segments:
            mark = f" {FEW_MARK}" if leading in segment.too_few else ""
            own = {run.name: next((s.metrics for s in run.segments if s.by == segment.by), {}) for run in runs}
            shown = [own[run.name] if basis == "none" else {} for run, basis, _ in figures]
            cells.append([segment_text(segment.by) + mark, *_row_of(leading, shown, list(own.values()))])
        if any(leading in segment.too_few for segment in segments):
            notes.append(describe_few(runs[0].sampling.minimum))
    return Table(columns, rows, heads, cells, _scope(runs, conventions or {}), notes)


BASIS_SUFFIX: Mapping[str, str] = {"none": "", "raw": ": gold + judge", "corrected": ": corrected"}


def _figures_of(run: RunResult) -> dict[Basis, Mapping[str, Interval]]:
    """The figures of a run by the gold alone, and those that a judge's grades feed."""
    one = run.by_judge
    if one is None:
        return {"none": run.intervals}
    raw = run.on_basis("raw").intervals
    every: dict[Basis, Mapping[str, Interval]] = {
        "none": run.intervals,
        "raw": {name: raw[name] for name in one.raw},
        "corrected": {name: figure.interval for name, figure in one.corrected.items()},
    }
    return {basis: some for basis, some in every.items() if some}


def _row_of(
    name: str, estimates: Sequence[Mapping[str, Interval]], counted: Sequence[Mapping[str, Interval]]
) -> list[str]:
    """A metric, the queries that it has a value for (of each run, where they differ), and its values."""
    counts = [f"{one[name].n:,}" if name in one else "–" for one in counted]
    values = [str(estimate_figure(name, one[name])) if name in one else "" for one in estimates]
    return [name, " / ".join(counts if len(set(counts)) > 1 else counts[:1]), *values]


def _scope(runs: Sequence[RunResult], conventions: Mapping[str, Json]) -> str:
    """Over how many queries the values are, and the choices that differ from the defaults."""
    queries = max((run.counts.get("queries", 0) for run in runs), default=0)
    return " · ".join([queries_text(queries), *(f"{name}={value}" for name, value in conventions.items())])
