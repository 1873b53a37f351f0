"""Reading help: the band and the target that a metric declares for a value, and the best value that the gold allows.

Rules of thumb, shown beside values; never gates.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.grammar import Measure, parse
from karat.metrics.registry import GOLD_ALONE
from karat.model.policy import RELEVANT
from karat.records import dataclass
from karat.results.figures import figure
from karat.results.values import aggregate, spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karat.model.rankings import Rankings
    from karat.results.result import RunResult

    Values = NDArray[np.float64]

CLOSE = 1e-9
"""Values of sums in another order differ by less."""


@dataclass(frozen=True)
class Reading:
    """What the field makes of one value."""

    metric: str
    value: float
    band: str = ""
    """The word for values of this size: excellent, good, fair …"""
    span: str = ""
    """Where the band begins, or what the lowest one ends at: `from 0.5`, `below 0.3`."""
    target: float | None = None
    strict_target: float | None = None
    attainable: float | None = None
    """The best value that the gold allows, where that is below the target."""

    def reaches(self, target: float) -> bool:
        """Whether the value is at least the target."""
        return self.value >= target - CLOSE

    @property
    def text(self) -> str:
        """In words: `good (from 0.6); below the usual target of 0.9`; no band where no run can reach the target."""
        band = f"{self.band} ({self.span})" if self.span else self.band
        if self.target is None:
            return band
        if self.attainable is not None:
            best = figure(self.metric, self.attainable).short
            return f"the gold allows at most {best} (the usual target is {self.target:g})"
        text = f"{'reaches' if self.reaches(self.target) else 'below'} the usual target of {self.target:g}"
        if self.strict_target is not None and self.reaches(self.target):
            strict = f"strict one of {self.strict_target:g}"
            text += f" and the {strict}" if self.reaches(self.strict_target) else f", not the {strict}"
        return "; ".join(filter(None, (band, text)))


def read_value(run: RunResult, metric: str) -> Reading | None:
    """The reading of a run's value; None where the field has neither band nor target for the metric."""
    declared, value = parse(metric).metric, run.mean[metric]
    bands, target = declared.bands.get(metric, ()), declared.targets.get(metric)
    if value != value or not (bands or target is not None):
        return None
    best = run.attainable.get(metric) if target is not None else None
    band, span = _band_of(value, bands)
    return Reading(
        metric,
        value,
        band,
        span,
        target,
        declared.strict_targets.get(metric),
        best if best is not None and target is not None and best < target - CLOSE else None,
    )


def _band_of(value: float, bands: Sequence[tuple[float, str]]) -> tuple[str, str]:
    """The word for a value, and where its band begins; of the lowest band, where it ends."""
    for place, (at_least, word) in enumerate(bands):
        if value >= at_least - CLOSE:
            lowest = place == len(bands) - 1 and place > 0
            return word, f"below {bands[place - 1][0]:g}" if lowest else f"from {at_least:g}"
    return "", ""


def readings(run: RunResult) -> Mapping[str, Reading]:
    """The readings of all values that have one, by metric."""
    readings = ((name, read_value(run, name)) for name in run.values)
    return {name: reading for name, reading in readings if reading is not None}


def readings_text(run: RunResult) -> str:
    """All readings of a run on one line: `ndcg@10 good (from 0.5) · mrr below the usual target of 0.8`."""
    return " · ".join(f"{name} {reading.text}" for name, reading in readings(run).items())


def best_values(measure: Measure, rankings: Rankings) -> Values | None:
    """The best value of each query that the gold allows; None for metrics whose best list is not known.

    A metric that promoting a better doc never lowers is largest for the judged docs in the best order. Where it
    divides by what was returned, leaving out those that are not relevant may be better still.
    """
    bounded = measure.metric.monotone and measure.metric.higher_is_better and measure.needs == GOLD_ALONE
    if not bounded or not len(rankings):
        return None
    rel = measure.param("rel") if any(p.name == "rel" for p in measure.metric.params) else RELEVANT
    return np.fmax(measure(rankings.ideal()), measure(rankings.ideal(rel=rel)))


def best_of_run(run: RunResult, metric: str) -> Values | None:
    """The best value of each query of a run, in the order of its queries; None where it is not known."""
    if run.rankings is None or run.policy.chunk_credit == "all":  # chunks of one doc may then count several times
        return None
    values = best_values(parse(metric), run.rankings)
    return None if values is None else spread(values, run.rankings.query_ids, run.query_ids)


def attainable_value(run: RunResult, metric: str, rows: NDArray[np.int64] | None = None) -> float | None:
    """The best aggregate that the gold allows, over all queries or these; None where it is not known."""
    values = best_of_run(run, metric)
    best = math.nan if values is None else _aggregate(run, metric, values, rows)
    return None if best != best else best


def queries_without_relevant(run: RunResult, rows: NDArray[np.int64] | None = None) -> NDArray[np.bool_]:
    """Which queries, of all or of these, have no relevant doc in the gold, and score 0 for it."""
    if run.rankings is None or run.policy.empty_gold != "zero":
        empty = np.zeros(len(run.query_ids), dtype=bool)
    else:
        empty = spread(run.rankings.gold_count(RELEVANT), run.rankings.query_ids, run.query_ids) == 0
    return empty if rows is None else empty[rows]


def gains_by_more_gold(run: RunResult, metric: str, rows: NDArray[np.int64] | None = None) -> bool:
    """Whether another relevant doc of every query would raise the best value that the gold allows."""
    best, rankings = attainable_value(run, metric, rows), run.rankings
    if best is None or rankings is None:
        return False
    top = rankings.gold_grade.max(initial=RELEVANT)
    query = np.concatenate((np.arange(len(rankings)), rankings.gold_query))
    order = np.argsort(query, kind="stable")  # the gold of each query stands together, the best grade first
    grade = np.concatenate((np.full(len(rankings), top), rankings.gold_grade))
    more = replace(rankings, gold_query=query[order], gold_grade=grade[order])
    again = attainable_value(replace(run, rankings=more), metric, rows)
    return again is not None and again > best + CLOSE


def value_over(run: RunResult, metric: str, rows: NDArray[np.int64] | None = None) -> float:
    """The aggregate of a run over all queries or these; NaN where none has a value."""
    return _aggregate(run, metric, run.values[metric], rows)


def _aggregate(run: RunResult, metric: str, values: Values, rows: NDArray[np.int64] | None) -> float:
    weights = run.sampling.units(run.query_ids).weight if run.sampling.weights else None
    if rows is not None:
        values, weights = values[rows], weights[rows] if weights is not None else None
    value, n = aggregate(parse(metric), values, weights)
    return float(value) if n else math.nan
