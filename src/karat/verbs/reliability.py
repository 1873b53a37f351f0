"""How far a collection can be trusted to order systems: would other queries give the same order?"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import numpy as np

from karat.config.options import Options, Settings, takes_options
from karat.errors import InputError, UsageError
from karat.metrics.grammar import ByMeasure, Measure, choose_primary, parse, parse_all
from karat.records import dataclass
from karat.results.reliability import (
    RELIABILITY_HEADS,
    DiscriminativePower,
    MetricReliability,
    PairDifference,
    ReliabilityPoint,
    coefficient_figure,
)
from karat.results.remarks import serious_remarks
from karat.results.result import FORMAT_VERSION, Result
from karat.results.saved import is_saved, load
from karat.results.table import Cell, Documented, Table
from karat.results.values import statistic_of
from karat.results.words import plural, queries_text
from karat.stats.defaults import ALPHA
from karat.stats.generalizability import study_generalizability, unit_table
from karat.stats.intervals import checked_count, checked_share
from karat.stats.rank_correlation import Agreement, measure_agreement
from karat.verbs.compare import PairwiseTest, all_pairs_of
from karat.verbs.evaluate import evaluate
from karat.verbs.warn import gives_warnings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.results.document import DocumentJson
    from karat.results.remarks import Remark

    Floats = NDArray[np.float64]

T = TypeVar("T")
SIZES = (10, 25, 50, 100, 200, 500, 1000)
"""The sizes of collections that a curve shows, beside the own one."""
SYSTEMS, UNITS = 2, 5
"""With fewer of either nothing can be said."""
PLURALS = {"system": "systems", "query": "queries"}
HSD_DRAWS = 10_000
"""Draws of the randomised HSD: enough for shares of significant pairs; `compare --all-pairs` takes more."""


@dataclass(frozen=True)
class Reliability(Documented):
    """What is known of the order of the systems, metric by metric, and the result it rests on."""

    result: Result
    metrics: tuple[MetricReliability, ...]
    alpha: float
    own_notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        parts = (f"{m.metric} Eρ² {coefficient_figure(m.relative).sentence}" for m in self.metrics)
        return f"Reliability({', '.join(parts)})"

    def __getitem__(self, metric: str) -> MetricReliability:
        """One metric, by any spelling of its name."""
        one: MetricReliability = ByMeasure({m.metric: m for m in self.metrics})[metric]
        return one

    @property
    def primary(self) -> MetricReliability:
        """The metric that the conclusion is about: ndcg@10, or the first."""
        return self[choose_primary([m.metric for m in self.metrics])]

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What is to be checked in the data of the runs."""
        return serious_remarks(self.result.runs)

    @property
    def conclusion(self) -> str:
        """One sentence: whether the order is stable, how sure that is, and how many queries would do."""
        return self.primary.statement

    @property
    def ranking(self) -> tuple[tuple[MetricReliability, ...], ...]:
        """The metrics by discriminative power, the largest first; those that separate as many pairs stand together."""
        by_count: dict[int, list[MetricReliability]] = {}
        for one in self.metrics:
            by_count.setdefault(one.power.significant, []).append(one)
        return tuple(tuple(by_count[count]) for count in sorted(by_count, reverse=True))

    @property
    def best_statement(self) -> str:
        """Which metric separates most pairs of systems; ties are named."""
        best = self.ranking[0]
        power, names = best[0].power, _join_names([m.metric for m in best])
        if not power.significant:
            return f"no metric separates any of {plural(len(power.pairs), 'pair')} of systems"
        if len(self.metrics) == 1:
            return f"{names} separates {power.text} pairs of systems"
        if len(best) == len(self.metrics):
            return f"all metrics separate as many pairs of systems: {power.text}"
        tied = f"{names} separates most" if len(best) == 1 else f"{names} tie: each separates most"
        return f"{tied} pairs of systems, {power.text}"

    def table(self) -> Table:
        """A row for each metric and size of the collection; a reader sees a row for each metric."""
        figures = ("e_rho2", "phi", "tau", "tau_ap")
        columns = ("metric", "n", *(f"{name}{end}" for name in figures for end in ("", "_low", "_high")), "source")
        rows: list[list[Cell]] = []
        for one in self.metrics:
            for point in one.curve:
                agreement = point.agreement
                intervals = (point.relative, point.absolute, agreement.tau, agreement.tau_ap)
                ends = [end for i in intervals for end in (i.estimate, i.low, i.high)]
                rows.append([one.metric, point.n, *ends, agreement.source])
        cells = [one.cells() for one in self.metrics]
        return Table(columns, rows, RELIABILITY_HEADS, cells, self.conclusion, self.notes)

    def plot(self) -> Any:
        """A matplotlib figure of Eρ² against the number of queries, with its band; notebooks show it."""
        from karat.verbs.plot import draw_reliability

        return draw_reliability(self.metrics)

    def document(self) -> DocumentJson:
        """The document that `--json` writes."""
        from msgspec import UNSET

        from karat.results.document import DocumentJson
        from karat.results.reliability_document import ReliabilityJson

        sampling = self.result.runs[0].sampling
        return DocumentJson(
            format_version=FORMAT_VERSION,
            kind="reliability",
            conventions=dict(self.result.conventions) or UNSET,
            reliability=ReliabilityJson(
                self.conclusion,
                [run.name for run in self.result.runs],
                self.alpha,
                sampling.confidence,
                sampling.seed,
                [one.document() for one in self.metrics],
                [[one.metric for one in group] for group in self.ranking],
            ),
            notes=list(self.own_notes) or UNSET,
            warnings=list(self.warnings) or UNSET,
        )


@gives_warnings
@takes_options
def reliability(
    qrels: Any,
    runs: Any = None,
    metrics: str | Iterable[str | Measure] | None = None,
    *,
    alpha: float = ALPHA,
    draws: int = HSD_DRAWS,
    **options: Unpack[Options],
) -> Reliability:
    """How far these queries can be trusted to order these systems, metric by metric.

    Variance of systems, queries and their interaction; Eρ² of differences and Φ of levels, now and for other numbers of
    queries; Kendall's τ and τ_AP of the orders that random halves of the queries give (as many as `resamples`); and
    discriminative power, the share of pairs of systems that differ significantly by randomised HSD. Where queries carry
    a conversation, conversations are counted, drawn and split. Only queries for which every system has a value count.

    `reliability(result)` takes a result instead of gold and runs, or the file that one was saved in.
    """
    level = checked_share("alpha", alpha)
    checked_count("draws", draws, 100)
    settings = Settings.of(options)
    if isinstance(qrels, Result) or is_saved(qrels):
        if runs is not None or options:
            raise UsageError("a saved result goes alone, with metrics at most; evaluate the runs again with the rest")
        result = _with_metrics(qrels if isinstance(qrels, Result) else load(qrels), metrics)
    else:
        result = evaluate(qrels, runs, metrics, settings=settings)
    if len(result.runs) < SYSTEMS:
        raise UsageError(
            f"expected at least {SYSTEMS} systems to put in order, found {plural(len(result.runs), 'run')}; name more"
        )
    tables = [table for name in result.metrics if (table := _table_of(result, name)) is not None]
    usable = [table for table in tables if len(table.rows) >= UNITS]
    if not usable:
        raise InputError(_too_few(tables))
    pairs = all_pairs_of(_only(result, [t.metric for t in usable]), draws, result.runs[0].sampling.seed)
    agreements = _agreements(usable, result)
    studied = tuple(_study(table, pairs[table.metric], agreements[table.metric], level, result) for table in usable)
    notes = _notes(result, tables, studied)
    return Reliability(_only(result, [t.metric for t in usable]), studied, level, notes)


@dataclass(frozen=True)
class _CrossedTable:
    """One metric of all systems on the queries for which every system has a value."""

    metric: str
    rows: Floats
    """Units × systems, more is better."""
    sums: Floats
    """Weighted sums of each unit, units × systems."""
    weights: Floats
    """The weight of each unit."""
    left_out: int
    order: tuple[str, ...]
    query_ids: tuple[str, ...]


def _table_of(result: Result, name: str) -> _CrossedTable | None:
    """The crossed table of a metric; None for a quantile, which is not a mean over queries."""
    measure = parse(name)
    statistic = statistic_of(measure)
    if statistic.aggregate == "quantile":
        return None
    columns = [run.per_query(name) for run in result.runs]
    ids = list(dict.fromkeys(query for column in columns for query in column))
    values = np.array([[column.get(query, np.nan) for query in ids] for column in columns])
    units = result.runs[0].sampling.units(ids)
    units = units if statistic.weighted else units.unweighted()
    defined = ~np.isnan(values) & (units.weight > 0)
    every = defined.all(axis=0)
    own = units.only(every)
    sign = -1.0 if measure.metric.higher_is_better is False else 1.0
    scores = sign * statistic.scores(values[:, every])
    top, bottom = own.sums(scores)
    totals = top.sum(axis=0)  # all over the same weights: in the order of the means
    best = sorted(range(len(columns)), key=lambda i: -totals[i])
    return _CrossedTable(
        name,
        unit_table(scores, own),
        top,
        bottom[:, 0],
        int((defined.any(axis=0) & ~every).sum()),
        tuple(result.runs[i].name for i in best),
        tuple(query for query, there in zip(ids, every, strict=True) if there),
    )


def _agreements(tables: Sequence[_CrossedTable], result: Result) -> dict[str, dict[int, Agreement]]:
    """By metric and number of units: how alike the orders of two samples are; the same queries share their draws."""
    sampling = result.runs[0].sampling
    groups: dict[tuple[str, ...], list[_CrossedTable]] = {}
    for table in tables:
        groups.setdefault(table.query_ids, []).append(table)
    out: dict[str, dict[int, Agreement]] = {table.metric: {} for table in tables}
    for group in groups.values():
        top = np.stack([table.sums for table in group], axis=1)
        bottom = np.stack([table.weights for table in group], axis=1)
        for n in (len(top) // 2, *_sizes(len(top))):
            agreements = measure_agreement(
                top, bottom, n, draws=sampling.resamples, seed=sampling.seed, confidence=sampling.confidence
            )
            for table, agreement in zip(group, agreements, strict=True):
                out[table.metric][n] = agreement
    return out


def _sizes(units: int) -> list[int]:
    return sorted({*SIZES, units})


def _study(
    table: _CrossedTable, test: PairwiseTest, agreements: Mapping[int, Agreement], alpha: float, result: Result
) -> MetricReliability:
    sampling = result.runs[0].sampling
    units = len(table.rows)
    study = study_generalizability(table.rows, confidence=None if sampling.method == "none" else sampling.confidence)
    curve = tuple(ReliabilityPoint(n, study.relative.at(n), study.absolute.at(n), agreements[n]) for n in _sizes(units))
    pairs = sorted(
        (PairDifference(a, b, test.p[a][b]) for a, b in combinations(table.order, 2)), key=lambda pair: pair.p
    )
    power = DiscriminativePower(tuple(pairs), alpha, test.draws)
    return MetricReliability(
        table.metric,
        table.order,
        len(table.query_ids),
        units,
        table.left_out,
        study,
        agreements[units // 2],
        curve,
        power,
    )


def _notes(result: Result, tables: Sequence[_CrossedTable], studied: Sequence[MetricReliability]) -> tuple[str, ...]:
    """What was left out or set to 0, and what is counted."""
    notes = []
    known = {table.metric for table in tables}
    if quantiles := [name for name in result.metrics if name not in known]:
        notes.append(f"{', '.join(quantiles)} left out: not a mean over queries")
    for table in tables:
        if len(table.rows) < UNITS:
            notes.append(
                f"{table.metric} left out: {queries_text(len(table.query_ids))} for which every system has a value,"
                f" fewer than {UNITS}"
            )
    for names, count in _group_names({t.metric: t.left_out for t in tables if t.left_out}).items():
        notes.append(f"{', '.join(names)}: {queries_text(count)} left out, for which not every system has a value")
    negatives = {m.metric: m.study.components.negative for m in studied if m.study.components.negative}
    for names, parts in _group_names(negatives).items():
        what = _join_names([PLURALS[part] for part in parts])
        notes.append(f"{', '.join(names)}: the variance of {what} is estimated below 0, and set to 0")
    if any(m.units < m.queries for m in studied):
        first = next(m for m in studied if m.units < m.queries)
        notes.append(
            f"what is counted and drawn are conversations: {queries_text(first.queries)} are in {first.units:,}"
        )
    if result.runs[0].sampling.by:
        notes.append("segments are not looked at here: every figure is over all queries")
    return tuple(notes)


def _group_names(values: Mapping[str, T]) -> dict[tuple[str, ...], T]:
    """The names that share a value."""
    groups: dict[T, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(value, []).append(name)
    return {tuple(names): value for value, names in groups.items()}


def _too_few(tables: Sequence[_CrossedTable]) -> str:
    if not tables:
        return "quantiles are not means over queries, and have no reliability; name other metrics, such as ndcg@10"
    most = max(tables, key=lambda table: len(table.rows))
    units = len(most.rows)
    word = "queries" if units == len(most.query_ids) else "conversations"
    return (
        f"expected at least {UNITS} {word} for which every system has a value, found {units} ({most.metric}); "
        "judge more, or leave out systems that lack values"
    )


def _with_metrics(result: Result, metrics: str | Iterable[str | Measure] | None) -> Result:
    """A result with these metrics: as it holds them, or measured from its rankings."""
    if metrics is None:
        return result
    like = str(result.conventions["like"]) if "like" in result.conventions else None
    measures = parse_all(metrics, like=like)
    if all(m.name in result.metrics for m in measures):
        return _only(result, [m.name for m in measures])
    return result.measure(measures)


def _only(result: Result, names: Sequence[str]) -> Result:
    runs = (replace(run, values={name: run.values[name] for name in names}) for run in result.runs)
    return replace(result, runs=tuple(runs))


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
