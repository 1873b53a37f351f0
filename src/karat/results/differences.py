"""Runs against a baseline: what differs, which p decides, in which family it is adjusted, and what is significant.

`decide` is the only place that calls a difference significant. Every verb, output and page shows its decisions.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.grammar import Measure, choose_primary, parse
from karat.records import dataclass
from karat.results.decisions import Decision, Family
from karat.results.depths import depth_of, find_depth_gap
from karat.results.pairing import have_same_lists, paired
from karat.results.segment_changes import with_interactions, with_pooled_changes
from karat.results.values import statistic_of
from karat.stats.aggregates import FigureChange, measure_changes
from karat.stats.betting import BETTING, CONTRADICTION
from karat.stats.changes import ONE_MORE
from karat.stats.defaults import DRAWS
from karat.stats.intervals import ALL_EQUAL, TOLERANCE, unit_deviation
from karat.stats.multiple import benjamini_hochberg, holm
from karat.stats.paired import effect_size, p_value
from karat.stats.quantiles import TEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karat.results.result import RunResult
    from karat.results.totals import Summed
    from karat.stats.aggregates import Statistic
    from karat.stats.intervals import Interval

OF_SPREAD = frozenset(("t", "bootstrap"))
"""Tests that compare a mean with the spread of its differences."""


@dataclass(frozen=True)
class PairedComparison:
    """A baseline, and the choices that all comparisons with it share. Without tests nothing is significant."""

    base: RunResult
    tests: tuple[str, ...]
    correction: str
    alpha: float
    margin: float | None
    draws: int
    floors: Mapping[str, float]
    threads: int
    primary: str | None = None
    """The metric that decides which run is better; see `choose_primary`."""

    def decide(self, run: RunResult, *, segments: bool = True) -> list[Decision]:
        """All metrics of one candidate, over all queries and then by segment."""
        measures = [parse(n) for n in self.base.values if n in run.values]
        if (summed := run.summed_changes(self.base)) is not None:
            return [self._summed(m, run, summed[m.name]) for m in measures]
        both = paired(self.base, run, [m.name for m in measures])
        sampling = run.sampling
        tables = sampling.tables if segments else ()
        slices = [s for s in sampling.segments(both.query_ids) if tuple(s.by) in tables] if tables else []
        groups = [np.arange(len(both.query_ids)), *(s.rows for s in slices)]
        units = sampling.units(both.query_ids)
        changes = measure_changes(
            both.base,
            both.candidate,
            [run.statistic(m.name) for m in measures],
            units,
            groups,
            sampling.choice(self.threads),
            test="t" if self._main() == "t" else "randomization",
            draws=self.draws,
        )
        out = []
        for g, of_group in enumerate(changes):
            effective = units.take(groups[g]).effective
            for m, one in zip(measures, of_group, strict=True):
                # Not all metrics are over all queries.
                small = bool(g) and min(effective, one.intervals[0].units) < sampling.minimum
                out.append(self._decision(m, run, one, slices[g - 1].by if g else None, small, sampling.seed))
        return with_pooled_changes(out, both, slices, sampling)

    def _decision(
        self,
        measure: Measure,
        run: RunResult,
        change: FigureChange,
        by: Mapping[str, str] | None,
        small: bool,
        seed: int,
    ) -> Decision:
        """One change, tested; it is significant only once its family is adjusted for."""
        moved = change.differences[~np.isnan(change.differences)]
        quantile = change.statistic.aggregate == "quantile"
        same_lists = have_same_lists(self.base, run, measure.name)
        p, deciding = self._tested(change, quantile, seed)
        if p and not same_lists and change.intervals[0].method == ALL_EQUAL:
            # Tests that look at spread are undefined, and one of them decides.
            deciding = TEST if quantile else ONE_MORE
            p |= dict.fromkeys((OF_SPREAD & p.keys()) | {deciding}, math.nan)
        spread, stretch = (math.nan, 1.0) if quantile else _planning_spread(change, run.sampling.confidence)
        higher = measure.metric.higher_is_better
        sign = -1 if higher is False else 1
        won, lost = (np.count_nonzero(sign * moved * s > 0) for s in (1, -1))
        margin = self._margin(measure)
        interval = change.intervals[0]  # two one-sided tests, as a gate makes them, are the interval that is shown
        if same_lists:  # as of gates: no other query has another difference
            interval = replace(interval, low=interval.estimate, high=interval.estimate)
        non_inferior, equivalent = _within_margin(margin, measure, interval, change.statistic)
        return Decision(
            metric=measure.name,
            baseline=self.base.name,
            candidate=run.name,
            segment=by,
            mean_baseline=change.before,
            mean_candidate=change.after,
            difference=change.intervals[0],
            scale=change.statistic.change,
            p=p,
            p_adjusted=p.get(deciding, math.nan),
            correction=self.correction,
            effect_size=math.nan if quantile else effect_size(change.differences, change.units.weight),
            wins=int(won),
            ties=int(len(moved) - won - lost),
            losses=int(lost),
            small=small,
            better_when_higher=higher,
            significant=False,
            decided_by=deciding,
            spread=spread,
            stretch=stretch,
            alpha=self.alpha,
            times=len(moved) if change.statistic.aggregate == "sum" else 1,
            margin=margin,
            non_inferior=non_inferior,
            equivalent=equivalent,
            noise=self.floors.get(measure.name) if by is None else None,
            depths=self._depths(measure, run),
            same_lists=same_lists,
        )

    def _summed(self, measure: Measure, run: RunResult, change: Summed) -> Decision:
        """One change of all queries, of which workers have sent sums."""
        shares, higher, margin = change.shares, measure.metric.higher_is_better, self._margin(measure)
        difference = change.change(run.sampling.confidence)
        before, after = change.sides
        won, lost = (shares.won, shares.lost) if higher is not False else (shares.lost, shares.won)
        p = {test: shares.p(test) for test in self.tests}
        non_inferior, equivalent = _within_margin(margin, measure, difference, change.statistic)
        return Decision(
            metric=measure.name,
            baseline=self.base.name,
            candidate=run.name,
            segment=None,
            mean_baseline=before,
            mean_candidate=after,
            difference=difference,
            scale=change.statistic.change,
            p=p,
            p_adjusted=p.get(self._main(), math.nan),
            correction=self.correction,
            effect_size=shares.mean / shares.deviation if shares.deviation > 0 else math.nan,
            wins=won,
            ties=shares.n - won - lost,
            losses=lost,
            small=False,
            better_when_higher=higher,
            significant=False,
            decided_by=self._main(),
            spread=shares.deviation * change.span,
            stretch=1.0,
            alpha=self.alpha,
            times=1,
            margin=margin,
            non_inferior=non_inferior,
            equivalent=equivalent,
            noise=self.floors.get(measure.name),
            depths=self._depths(measure, run),
            same_lists=False,
        )

    def _tested(self, change: FigureChange, quantile: bool, seed: int) -> tuple[dict[str, float], str]:
        """The p of each test, and the test that decides: the one that the interval agrees with."""
        if quantile:  # tests, effect sizes and plans are of mean differences: of a quantile there is the bootstrap
            return dict(change.p), TEST
        if self.tests and BETTING in change.p:  # other tests do not hold at every look
            return dict(change.p), BETTING
        p = {
            t: change.p[t]
            if t in change.p
            else p_value(t, change.differences, change.units, draws=self.draws, seed=seed)[1]
            for t in self.tests
        }
        deciding = self._main()
        if deciding in change.p and change.p.get(ONE_MORE, 0.0) > change.p[deciding]:
            p[ONE_MORE], deciding = change.p[ONE_MORE], ONE_MORE
        return p, deciding

    def _margin(self, measure: Measure) -> float | None:
        """The margin, which is in the unit of the primary metric; None for a metric of another unit."""
        primary = parse(choose_primary(list(self.base.values), wish=self.primary))
        return self.margin if unit_of_margin(measure) == unit_of_margin(primary) else None

    def _depths(self, measure: Measure, run: RunResult) -> tuple[int, int] | None:
        """How deep the lists of both are, where that touches a metric."""
        depths = depth_of(self.base), depth_of(run)
        candidate = replace(run, name="")  # a baseline from a file may have the name of a run
        if None in depths or find_depth_gap(measure.name, [self.base, candidate]) is None:
            return None
        return depths[0] or 0, depths[1] or 0

    def _main(self) -> str:
        """The test whose p is adjusted and decides."""
        if not self.tests:
            return "none"
        return "randomization" if "randomization" in self.tests else self.tests[0]


def _planning_spread(change: FigureChange, confidence: float) -> tuple[float, float]:
    """The deviation of a unit's difference, and how much longer its interval is than Student's."""
    from karat.stats.special import stdtrit

    interval, units = change.intervals[0], change.intervals[0].units
    if interval.method in (BETTING, CONTRADICTION):  # when one of many looks decides is not foretold
        return math.nan, 1.0
    if interval.method == ALL_EQUAL:
        return math.nan, 1.0
    deviation = unit_deviation(change.differences, change.units)
    ends = (interval.estimate, interval.low, interval.high)
    middle, low, high = (change.statistic.to_score(end, interval.n) for end in ends)
    if not (math.isfinite(high - low) and units > 1) or interval.method == "none":
        return deviation, 1.0
    of_interval = (high - low) / 2 / float(stdtrit(units - 1, 0.5 + confidence / 2)) * math.sqrt(units)
    if deviation <= TOLERANCE * abs(middle):
        return of_interval, 1.0
    return deviation, max(1.0, of_interval / deviation)


def decide(comparison: PairedComparison, runs: Iterable[RunResult], *, segments: bool = True) -> tuple[Decision, ...]:
    """Every metric of every run against the baseline, over all queries and by segment, each decided in its family."""
    listed, tested = list(runs), segments and bool(comparison.tests)
    rows = [row for run in listed for row in comparison.decide(run, segments=segments)]
    metrics = list(dict.fromkeys(row.metric for row in rows))
    primary = choose_primary(metrics, wish=comparison.primary) if metrics else ""
    adjusted = adjust(rows, comparison.correction, comparison.alpha, primary)
    return (
        with_interactions(adjusted, comparison.base, listed, primary, comparison.alpha) if tested else tuple(adjusted)
    )


def decide_others(
    base: RunResult, runs: Iterable[RunResult], decisions: Sequence[Decision], tests: tuple[str, ...]
) -> tuple[Decision, ...]:
    """Further runs against the baseline of these decisions: a family of their own, so that these stay as they are."""
    if not decisions:
        return ()
    first = next((row for row in decisions if row.primary), decisions[0])
    queries = set(base.query_ids)
    others = [run for run in runs if first.metric in run.values and not queries.isdisjoint(run.query_ids)]
    if not others:
        return ()
    used = tests if any(row.p for row in decisions) else ()
    how = PairedComparison(
        base, used, "holm", 1 - others[0].sampling.confidence, None, DRAWS, {}, others[0].threads, first.metric
    )
    return decide(how, others)


def adjust(rows: list[Decision], correction: str, alpha: float, primary: str) -> list[Decision]:
    """Adjust p over the candidates, and apart from these over all their segments.

    The primary metric is adjusted by itself, the others together: one of many moves by chance.
    """
    rows = [replace(row, primary=row.metric == primary) for row in rows]
    out = list(rows)
    families: dict[tuple[bool, bool], list[int]] = {}
    for i, row in enumerate(rows):
        if row.small or row.p_adjusted != row.p_adjusted:  # shown, and never judged alone
            out[i] = replace(row, p_adjusted=math.nan, correction="none")
            continue
        families.setdefault((row.primary, row.segment is None), []).append(i)
    for (_, whole), members in families.items():
        used = correction if whole or correction == "none" else "bh"
        p = [rows[i].p_adjusted for i in members]
        steps = holm(p) if used == "holm" else benjamini_hochberg(p) if used == "bh" else p
        metrics = {rows[i].metric for i in members}
        alike = sum((row.segment is None) == whole and row.metric in metrics for row in rows)
        family = Family(
            used, len(members), "candidates" if whole else "segments", len(metrics), untested=alike - len(members)
        )
        for i, p_adjusted in zip(members, steps, strict=True):
            significant = p_adjusted < alpha and rows[i].n > 1
            out[i] = replace(rows[i], p_adjusted=p_adjusted, correction=used, significant=significant, family=family)
    overall = {(r.metric, r.candidate): r.shift for r in out if r.segment is None}
    return [
        replace(
            r,
            against_trend=r.segment is not None
            and r.significant
            and not r.small
            and r.shift * overall[r.metric, r.candidate] < 0,
        )
        for r in out
    ]


def unit_of_margin(measure: Measure) -> str:
    """What a margin of a measure is in: `share` between 0 and 1 and for ratios, else the measure's own unit."""
    bounded = all(end is not None and math.isfinite(end) and abs(end) <= 1 for end in measure.metric.bounds)
    if bounded or statistic_of(measure).change == "ratio":
        return "share"
    return measure.metric.unit or measure.name.partition("@")[0]


def _within_margin(
    margin: float | None, measure: Measure, interval: Interval, statistic: Statistic
) -> tuple[bool | None, bool | None]:
    """Whether the candidate is non-inferior and equivalent within the margin; None where that cannot be said.

    Of a ratio the margin is a share: 0.05 allows ×0.95, and its inverse in the other direction.
    """
    if margin is None or interval.low != interval.low:
        return None, None
    low, high = interval.low, interval.high
    if statistic.change == "ratio":
        low, high, margin = math.log(low), math.log(high), -math.log1p(-margin)
    worst = low if measure.metric.higher_is_better is not False else -high
    return worst > -margin, low > -margin and high < margin
