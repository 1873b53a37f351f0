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
    from karat.results.result import RunResult
    from karat.stats.intervals import Interval


def table_of(runs: Sequence[RunResult], conventions: Mapping[str, Json] | None = None) -> Table:
    """Values of runs: for a data frame a row for each run and metric, for a reader a column for each run.

    A reader sees the leading metric in every segment too, and what is to be known of the data.
    """
    estimates = [(run, name, one) for run in runs for name, one in run.intervals.items()]
    parts = [
        (run, name, segment_text(s.by), one) for run in runs for s in run.segments for name, one in s.metrics.items()
    ]
    rows = [
        (run.name, name, segment or None, one.estimate, one.low, one.high, one.n)
        for run, name, segment, one in [*((run, name, "", one) for run, name, one in estimates), *parts]
    ]
    columns = ("run", "metric", "segment", "value", "low", "high", "n")
    names = list(dict.fromkeys(name for _, name, _ in estimates))
    cells = [_row_of(name, [run.intervals for run in runs]) for name in names]
    heads, notes = ["metric", "n", *(run.name for run in runs)], [remark.text for remark in remarks_of(runs)]
    segments = runs[0].segments if runs else ()
    if segments:
        leading = choose_primary(names)
        heads, cells = ["segment", *heads], [["", *row] for row in cells]
        for segment in segments:
            mark = f" {FEW_MARK}" if leading in segment.too_few else ""
            own = [next((s.metrics for s in run.segments if s.by == segment.by), {}) for run in runs]
            cells.append([segment_text(segment.by) + mark, *_row_of(leading, own)])
        if any(leading in segment.too_few for segment in segments):
            notes.append(describe_few(runs[0].sampling.minimum))
    return Table(columns, rows, heads, cells, _scope(runs, conventions or {}), notes)


def _row_of(name: str, estimates: Sequence[Mapping[str, Interval]]) -> list[str]:
    """A metric, the queries that it has a value for (of each run, where they differ), and its values."""
    counts = [f"{one[name].n:,}" if name in one else "–" for one in estimates]
    values = [str(estimate_figure(name, one[name])) if name in one else "" for one in estimates]
    return [name, " / ".join(counts if len(set(counts)) > 1 else counts[:1]), *values]


def _scope(runs: Sequence[RunResult], conventions: Mapping[str, Json]) -> str:
    """Over how many queries the values are, and the choices that differ from the defaults."""
    queries = max((run.counts.get("queries", 0) for run in runs), default=0)
    return " · ".join([queries_text(queries), *(f"{name}={value}" for name, value in conventions.items())])
