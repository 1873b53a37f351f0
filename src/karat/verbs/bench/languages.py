"""Systems over languages (and datasets): a cell for each, how much it varies, and whether it beats the baseline.

Languages are never pooled in one mean of queries: the average is that of the languages' means, each weighing the
same, and the interval of its difference from the baseline is made of those of the languages' differences. Of geometric
means the average is geometric too, and what differs from the baseline is a ratio. Languages of case files are about
different terms, and have no average at all.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from msgspec import UNSET, structs

from karat.metrics.grammar import parse
from karat.records import dataclass
from karat.results.document import LanguageJson, LanguagesJson, SystemJson
from karat.results.values import statistic_of
from karat.stats.aggregates import ChangeScale, Statistic
from karat.stats.defaults import ALPHA
from karat.stats.interaction import share_units
from karat.stats.intervals import average_intervals, p_of_interval
from karat.stats.multiple import holm
from karat.store.codec import ends_json, rounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.results.decisions import Decision
    from karat.verbs.bench.benchmark import DatasetBench

PRIMARY = "ndcg@10"
FIELD = "language"


@dataclass(frozen=True)
class Cell:
    """One system in one language: its mean with an interval, and Δ from the baseline where it is not it."""

    place: str
    mean: float
    low: float
    high: float
    n: int
    delta: float = math.nan
    p: float = math.nan
    """Of the paired test, adjusted as `Languages.family` says."""
    significant: bool = False


@dataclass(frozen=True)
class Across:
    """One system over all languages."""

    system: str
    cells: tuple[Cell, ...]
    average: float
    """NaN where the languages are not averaged."""
    variance: float
    lowest: str
    delta: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    significant: bool = False


@dataclass(frozen=True)
class Languages:
    """A table of systems by language, for one metric."""

    metric: str
    baseline: str | None
    places: tuple[str, ...]
    rows: tuple[Across, ...]
    alpha: float = ALPHA
    by: str = FIELD
    """What a column is: a language, or a dataset."""
    averages: bool = True
    """Whether there is an average over the columns."""
    family: str = ""
    """What p was adjusted over; empty where nothing is tested."""

    @property
    def scale(self) -> ChangeScale:
        """Whether Δ is a difference or a ratio."""
        return statistic_of(parse(self.metric)).change

    def document(self) -> LanguagesJson:
        """This table as the JSON document has it."""
        return LanguagesJson(
            metric=self.metric,
            baseline=self.baseline,
            alpha=self.alpha,
            average=f"of the {self.by}s' means" if self.averages else UNSET,
            scale="ratio" if self.scale == "ratio" else UNSET,
            family=self.family or UNSET,
            systems=[_row_json(row, averages=self.averages) for row in self.rows],
        )


def over_languages(parts: Sequence[DatasetBench], decisions: Sequence[Decision] | None = None) -> tuple[Languages, ...]:
    """A table over all languages of all datasets for each metric, the primary one first; none for one language alone.

    Only the primary metric is tested against the baseline: of the others, comparisons of each dataset tell more. The
    languages of one dataset are segments, and were decided with them, by its comparison or by these `decisions`;
    datasets of their own are adjusted here, over those of each system.
    """
    first, comparison = parts[0].result, parts[0].comparison
    primary = PRIMARY if PRIMARY in first.metrics else first.metrics[0]
    places = _places(parts)
    if len(places) < 2:
        return ()
    alpha = comparison.alpha if comparison is not None else ALPHA
    by = FIELD if any(language for _, language in places.values()) or _in_one_language_each(parts) else "dataset"
    tables = []
    runs = [run for part in parts for run in part.result.runs]
    averages = not any(part.dataset.entries for part in parts)
    shared = [m for m in first.metrics if all(m in run.values for run in runs)]
    for metric in (primary, *(m for m in shared if m != primary)):
        baseline = comparison.baseline if comparison is not None and metric == primary else None
        columns = _Columns(parts, places, metric, baseline, alpha, averages, decisions)
        rows = tuple(columns.row(run.name) for run in first.runs)
        tables.append(Languages(metric, baseline, tuple(places), rows, alpha, by, averages, columns.family(by, rows)))
    return tuple(tables)


def _in_one_language_each(parts: Sequence[DatasetBench]) -> bool:
    """Whether each dataset is in a language of its own."""
    languages = [{str(value) for value in part.dataset.table.field(FIELD).values()} for part in parts]
    return all(len(each) == 1 for each in languages) and len(set.union(*languages)) == len(parts)


def _places(parts: Sequence[DatasetBench]) -> dict[str, tuple[DatasetBench, str | None]]:
    """What a column is: a language, of a dataset where there are several; a dataset that names none is one itself."""
    out: dict[str, tuple[DatasetBench, str | None]] = {}
    for part in parts:
        run = part.result.runs[0]
        values = [s.by[FIELD] for s in run.segments if tuple(s.by) == (FIELD,)]
        languages: list[str | None] = [*values] or [None]
        for language in languages:
            name = part.dataset.name if language is None else language
            if len(parts) > 1 and language is not None:
                name = f"{part.dataset.name} {language}" if len(values) > 1 else part.dataset.name
            out[name] = (part, language)
    return out


@dataclass(frozen=True)
class _Columns:
    """The languages or datasets of a table, and what was decided of systems in each."""

    parts: Sequence[DatasetBench]
    places: Mapping[str, tuple[DatasetBench, str | None]]
    metric: str
    baseline: str | None
    alpha: float
    averages: bool
    decisions: Sequence[Decision] | None

    def row(self, system: str) -> Across:
        """One system over all columns."""
        cells, pairs = [], []
        for place, (part, language) in self.places.items():
            run = part.result[system]
            if language is None:
                interval = run.intervals[self.metric]
            else:
                interval = next(s for s in run.segments if dict(s.by) == {FIELD: language}).metrics[self.metric]
            decision = self._decision(part, system, language)
            pairs.append(decision)
            cell = Cell(place, interval.estimate, interval.low, interval.high, interval.n)
            if decision is not None:
                p = decision.p_adjusted if self._one_dataset else decision.p[decision.decided_by]
                cell = replace(cell, delta=decision.delta, p=p, significant=decision.significant)
            cells.append(cell)
        if not self._one_dataset and system != self.baseline and self.baseline is not None:
            adjusted = holm([1.0 if c.p != c.p else c.p for c in cells])
            cells = [
                replace(c, p=math.nan if c.p != c.p else float(p), significant=bool(p < self.alpha))
                for c, p in zip(cells, adjusted, strict=True)
            ]
        defined = [c for c in cells if c.mean == c.mean]
        means = [c.mean for c in defined]
        statistic = statistic_of(parse(self.metric))
        over = statistic if statistic.change == "ratio" else Statistic()
        average = over.figure(np.array(means)) if self.averages else math.nan
        variance = float(np.var(means, ddof=1)) if len(means) > 1 else math.nan
        lowest = min(defined, key=lambda c: c.mean).place if defined else ""
        shifts = [p.shift_interval for p in pairs if p is not None]
        if not self.averages or system == self.baseline or not shifts or len(shifts) < len(cells):
            return Across(system, tuple(cells), average, variance, lowest)
        shift = average_intervals(shifts, independent=_independent(self.parts))
        p = p_of_interval(shift, self.parts[0].result.runs[0].sampling.confidence)
        figures = (shift.estimate, shift.low, shift.high)
        delta, low, high = map(math.exp, figures) if statistic.change == "ratio" else figures
        return Across(system, tuple(cells), average, variance, lowest, delta, low, high, p, p < self.alpha)

    def family(self, by: str, rows: Sequence[Across]) -> str:
        """What the p of cells was adjusted over; nothing where no cell was tested."""
        if not any(cell.p == cell.p for row in rows for cell in row.cells):
            return ""
        if not self._one_dataset:
            return f"Holm over {by}s"
        places = [(row.system, *self.places[cell.place]) for row in rows for cell in row.cells]
        decisions = (self._decision(part, system, language) for system, part, language in places)
        return " and ".join(dict.fromkeys(str(d.family) for d in decisions if d is not None and d.family is not None))

    @property
    def _one_dataset(self) -> bool:
        return len(self.parts) == 1

    def _decision(self, part: DatasetBench, system: str, language: str | None) -> Decision | None:
        """What was decided of a system in a column; None of the baseline, and where nothing is compared."""
        if part.comparison is None or self.baseline is None:
            return None
        key = (system, self.metric, {} if language is None else {FIELD: language})
        rows = part.comparison.rows if self.decisions is None else self.decisions
        return next((r for r in rows if (r.candidate, r.metric, dict(r.segment or {})) == key), None)


def _independent(parts: Sequence[DatasetBench]) -> bool:
    """Whether no two languages of a dataset share a query or a conversation."""
    for part in parts:
        run = part.result.runs[0]
        unit = run.sampling.units(run.query_ids).unit
        members = [unit[s.rows] for s in run.sampling.segments(run.query_ids) if tuple(s.by) == (FIELD,)]
        if members and share_units(members):
            return False
    return True


def _cell_json(cell: Cell) -> LanguageJson:
    ends = ends_json(cell)
    if cell.delta != cell.delta:
        return LanguageJson(rounded(cell.mean), ends, cell.n)
    return LanguageJson(rounded(cell.mean), ends, cell.n, rounded(cell.delta), rounded(cell.p), cell.significant)


def _row_json(row: Across, *, averages: bool) -> SystemJson:
    cells = {cell.place: _cell_json(cell) for cell in row.cells}
    out = SystemJson(row.system, cells, rounded(row.variance), row.lowest)
    if averages:
        out = structs.replace(out, average=rounded(row.average))
    if row.delta != row.delta:
        return out
    return structs.replace(
        out, delta=rounded(row.delta), ci=ends_json(row), p=rounded(row.p), significant=row.significant
    )
