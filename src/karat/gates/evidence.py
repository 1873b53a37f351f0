"""Gates over a result, at the risk that is set: a row for each gate, run and segment; short lists decide nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import InputError, UsageError, unknown_run
from karat.gates.basis import choose_basis
from karat.gates.judge import INSIDE, GateEvidence, JudgedGate, Kind, Ruling, judge
from karat.gates.pooled import pool_gate, rows_of, with_pool
from karat.gates.unanswerable import (
    describe_skipped,
    explain_lack_of_gold,
    explain_short_stage,
    find_skipped_segments,
    keep_every_look,
    refuse_absent_field,
    refuse_absent_value,
)
from karat.metrics.component_figures import is_component_figure
from karat.metrics.grammar import parse
from karat.records import dataclass
from karat.results.asked import find_unanswered, find_unknown, queries_with_value
from karat.results.components import figure_of_component
from karat.results.depths import find_depth_gap
from karat.results.pairing import (
    are_lists_held,
    have_same_lists,
    have_same_rankings,
    have_same_values,
    pair_on_basis,
    paired,
)
from karat.results.result import WITH_DETAILS
from karat.results.words import BASELINE, condition_text, segment_text
from karat.stats.aggregates import Aggregate, ChangeScale, FigureChange, Statistic, estimate_figures, measure_changes
from karat.stats.defaults import ALPHA, MIN_UNITS
from karat.stats.intervals import Interval, draws_needed, unit_deviation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karat.gates.gate import Gate
    from karat.model.queries import Queries
    from karat.results.result import Result, RunResult
    from karat.results.sampling import Sampling, Segment

    Floats = NDArray[np.float64]

EVIDENCE_KINDS: dict[Aggregate, Kind] = {
    "mean": "mean",
    "geometric mean": "mean",
    "sum": "total",
    "quantile": "quantile",
}
NO_BASELINE = "no baseline is named; set `baseline` (--baseline) to a run, or to a file written by `karat bless`"
UNKNOWN = "the number of queries needed is not known for a difference of quantiles"

SLOWEST = 1e300
"""What a query without a value may have taken."""


@dataclass(frozen=True)
class Risk:
    """The error rates that are accepted: to ship what is just not good enough, and to block what just is."""

    ship: float = ALPHA / 2
    block: float = ALPHA / 2


def judge_gates(
    gates: Sequence[Gate],
    result: Result,
    candidates: Sequence[str],
    *,
    baseline: RunResult | None = None,
    correction: str = "bonferroni",
    risk: Risk | None = None,
) -> tuple[JudgedGate, ...]:
    """Judge every gate for every candidate that it concerns.

    Both error rates of `risk` are half of what the interval leaves out unless stated. With `correction="bonferroni"` a
    fail of a gate `for every` segment is judged by intervals that are widened for their number, so that all of them
    hold at once; to pass, every segment must, which needs no correction.
    """
    if correction not in ("none", "bonferroni"):
        raise UsageError(f"correction must be one of none, bonferroni, found {correction!r}")
    names = [r.name for r in result.runs]
    blessed = baseline is not None and all(baseline is not run for run in result.runs)
    beside = [*result.runs, *([baseline] if baseline is not None else ())]
    out: list[JudgedGate] = []
    for name in candidates:
        run = result[name]
        mine = [g for g in gates if g.run in (None, name) and g.against != name]
        pairs = [(g, _base(g, result, baseline)) for g in mine]
        own = run.sampling
        rates = risk or Risk((1 - own.confidence) / 2, (1 - own.confidence) / 2)
        passing = own if risk is None else replace(own, confidence=1 - 2 * rates.ship)
        views: dict[tuple[int, int, str | None], _View] = {}
        for gate, base in pairs:
            count = _count_segments(gate, run) if correction == "bonferroni" else 1
            basis = choose_basis(gate, run, base)
            place = (count, id(base), basis)  # a baseline from a file may have the name of a run
            if place not in views:
                failing = _failing(passing, rates.block / count)
                if base is None:
                    base_figures, own_figures = None, run.on_basis(basis or "none")
                else:
                    base_figures, own_figures = pair_on_basis(base, run, basis or "none")
                views[place] = _View(
                    own_figures, base_figures, passing, failing, queries=result.queries, beside=beside, blessed=blessed
                )
            out += [replace(judged, basis=basis) for judged in views[place].judgments(gate)]
    for gate in gates:
        if gate.run is not None and gate.run not in names:
            raise InputError(f"gate '{gate}': {unknown_run(gate.run, names)}").about(gate)
        if gate.run is not None and gate.run not in candidates:
            raise InputError(f"gate '{gate}': {gate.run!r} is not judged here; name it as a candidate").about(gate)
    return explain_lack_of_gold(out, result)


def _decisiveness(at_end: JudgedGate) -> tuple[int, float]:
    """Which end of a gate decides: one that fails, then an undecided one, then the nearest."""
    order = ("fail", "undecided", "pass").index(at_end.outcome)
    return order, abs(at_end.found.estimate - at_end.gate.threshold)


def _base(gate: Gate, result: Result, baseline: RunResult | None) -> RunResult | None:
    """The run that a gate compares with."""
    if gate.against is None:
        return None
    if gate.against == BASELINE:
        if baseline is None:
            raise InputError(f"gate '{gate}': {NO_BASELINE}").about(gate)
        _holds(gate, baseline)
        return baseline
    names = [r.name for r in result.runs]
    if gate.against not in names:
        raise InputError(f"gate '{gate}': {unknown_run(gate.against, names, also=(BASELINE,))}").about(gate)
    return result[gate.against]


def _holds(gate: Gate, run: RunResult) -> None:
    """A gate on a metric that a result does not hold is an error: it must not pass, nor look undecided."""
    if gate.metric not in run.values:
        names = ", ".join(run.values)
        raise InputError(
            f"gate '{gate}': {run.name} was not measured by {gate.metric}, only by {names}; "
            "add it to the metrics and evaluate (or bless) again"
        ).about(gate)


def _count_segments(gate: Gate, run: RunResult) -> int:
    """How many segments a gate judges."""
    if not gate.every:
        return 1
    least, units = least_units(gate, run.sampling), run.sampling.units(run.query_ids)
    slices = matching_segments(gate, run.sampling.segments(run.query_ids))
    large = [s for s in slices if len(s.rows) >= (gate.least or 1)]
    return max(1, sum(units.take(s.rows).effective >= least for s in large))


def least_units(gate: Gate, sampling: Sampling) -> int:
    """How many units a segment needs to be judged; `of at least` counts queries, and may ask for less."""
    return sampling.minimum if gate.least is None else min(gate.least, sampling.minimum)


def _failing(passing: Sampling, tail: float) -> Sampling | None:
    """The choices for the intervals that a fail is judged by, where these are not those of a pass."""
    confidence = 1 - 2 * tail
    if math.isclose(confidence, passing.confidence, abs_tol=1e-12):
        return None
    return replace(passing, confidence=confidence, resamples=max(passing.resamples, draws_needed(tail)))


def _component_evidence(gate: Gate, run: RunResult) -> GateEvidence:
    """A figure of a component: over all queries, of one run."""
    if run.components is None:
        lack = "the result holds neither components nor the run log that they are measured from"
        raise InputError(f"gate '{gate}': {lack}; {WITH_DETAILS}").about(gate)
    one, why = figure_of_component(run.components, parse(gate.metric))
    if one is None and getattr(run.components, parse(gate.metric).metric.name).measured:
        raise InputError(f"gate '{gate}': {why}").about(gate)
    if one is None:
        return GateEvidence(math.nan, missing=why)
    return GateEvidence(
        one.estimate, one.low, one.high, one.n, confidence=run.sampling.confidence, n_eff=one.n_eff, method=one.method
    )


def matching_segments(gate: Gate, slices: Sequence[Segment]) -> list[Segment]:
    """The segments that a gate speaks of; a value is first looked up as it is written, then in any case."""
    mine = [s for s in slices if tuple(s.by) == gate.fields] if gate.fields else []
    for fold in (str, str.casefold):
        matches = [s for s in mine if all(fold(s.by[f]) == fold(v) for f, v in gate.where)]
        if matches:
            return matches
    return []


class _View:
    """One run, or its difference from another, with the intervals of all metrics and segments."""

    def __init__(
        self,
        run: RunResult,
        base: RunResult | None,
        sampling: Sampling,
        failing: Sampling | None,
        *,
        queries: Queries | None,
        beside: Sequence[RunResult],
        blessed: bool,
    ) -> None:
        self.run, self.base, self.sampling = run, base, sampling
        self._queries, self._beside = queries, beside  # which tell what was asked
        self._blessed = blessed
        self._levels = (sampling,) if failing is None else (sampling, failing)
        self._runs = [run if s is run.sampling else replace(run, sampling=s) for s in self._levels]
        self._known: dict[tuple[str, float, tuple[str, ...]], list[FigureChange]] = {}
        self._slices = sampling.segments(run.query_ids)
        self._units = sampling.units(run.query_ids)

    def judgments(self, gate: Gate) -> list[JudgedGate]:
        """The gate over all queries, or in each of its segments, at the end that decides."""
        at_ends = [self._judgments(end) for end in gate.ends]
        return [min(judgments, key=_decisiveness) for judgments in zip(*at_ends, strict=True)]

    def _judgments(self, gate: Gate) -> list[JudgedGate]:
        if is_component_figure(parse(gate.metric)):
            evidence = _component_evidence(gate, self.run)
            if self.sampling.sequential:
                evidence = keep_every_look(gate, evidence, self._units)
            ruling = judge(gate, evidence)
            if (reason := explain_short_stage(gate, self.run)) and not evidence.missing:
                ruling = Ruling("undecided", reason)
            return [JudgedGate(gate, self.run.name, None, evidence, ruling)]
        _holds(gate, self.run)
        if self.base is not None:
            _holds(gate, self.base)
        if not gate.fields:
            return [self._judgment(gate, None, self._evidence(gate, None))]
        segments = matching_segments(gate, self._slices)
        if not segments:
            refuse_absent_field(gate, self.sampling)
            refuse_absent_value(gate, self.sampling)
            condition = " and ".join(condition_text(f, v) for f, v in gate.where) or ", ".join(gate.every)
            lost = matching_segments(gate, self.sampling.segments(self._without_gold(gate)))
            if lost and gate.where:
                return [self._without_evidence(gate, describe_skipped(len(lost[0].rows), condition))]
            return [self._without_evidence(gate, f"no query has {condition}")]
        if gate.every:
            segments = self._with_gold(gate, segments)
        pool = pool_gate(gate, self.run, self.base, segments, self._levels)
        judgments = [
            self._judgment(gate, s.by, with_pool(self._evidence(gate, s), pool, i)) for i, s in enumerate(segments)
        ]
        judgments += [
            self._judgment(gate, s.by, GateEvidence(math.nan, missing=describe_skipped(s.queries, segment_text(s.by))))
            for s in find_skipped_segments(gate, self.run, self.base)
        ]
        judgments += [
            self._judgment(
                gate, s.by, GateEvidence(math.nan, missing=describe_skipped(len(s.rows), segment_text(s.by)))
            )
            for s in self._lost_segments(gate, segments)
        ]
        if gate.least is None:
            return judgments
        large = [j for j in judgments if j.found.n >= gate.least or j.found.missing]
        return large or [self._without_evidence(gate, f"no segment has at least {gate.least} queries")]

    def _judgment(self, gate: Gate, segment: Mapping[str, str] | None, evidence: GateEvidence) -> JudgedGate:
        if self.sampling.sequential:
            evidence = keep_every_look(gate, evidence, self._units)
        against = self.base.name if self.base is not None else None
        return JudgedGate(gate, self.run.name, segment, evidence, self._judged(gate, evidence), against)

    def _without_evidence(self, gate: Gate, reason: str) -> JudgedGate:
        return self._judgment(gate, dict(gate.where) or None, GateEvidence(math.nan, missing=reason))

    def _with_gold(self, gate: Gate, segments: list[Segment]) -> list[Segment]:
        """The segments that hold a query with gold: others are there for metrics that need none."""
        rankings = self.run.rankings
        if rankings is None or parse(gate.metric).over_whole_run:
            return segments
        ids, known = self.run.query_ids, set(rankings.query_ids)
        return [s for s in segments if any(ids[i] in known for i in s.rows)] or segments

    def _judged(self, gate: Gate, evidence: GateEvidence) -> Ruling:
        """The outcome; how many queries a difference of quantiles takes nobody can say, however far it is."""
        gap = None if gate.any_depth else find_depth_gap(gate.metric, self._depth_runs)
        judged = judge(gate, evidence)
        if gap is not None and not evidence.missing:
            towards = judged.outcome
            if judged.needs_queries:  # what more of them would make of it
                towards = "pass" if gate.region.holds(evidence.estimate) else "fail"
            if gap.explains(towards, self.run.name):
                return Ruling("undecided", gap.reason)
        apart = self.base is not None and parse(gate.metric).aggregate == "quantile"
        inside = evidence.units >= evidence.minimum and evidence.low <= gate.threshold <= evidence.high
        at_it = math.isclose(evidence.estimate, gate.threshold, rel_tol=1e-12, abs_tol=1e-12)
        if apart and inside and not at_it and judged.outcome == "undecided" and judged.more is None:
            return replace(judged, why=f"{INSIDE}; {UNKNOWN}")
        enough = evidence.units >= max(evidence.minimum, 2) and not evidence.missing
        if apart and enough and evidence.method == "none" != self.sampling.method:
            return Ruling("undecided", "too few queries to bound both quantiles", needs_queries=True)
        return judged

    @property
    def _depth_runs(self) -> list[RunResult]:
        """The runs whose lists must be as deep as a gate's cutoff; a baseline from a file may have the run's name."""
        if self.base is None:
            return [self.run]
        double = self.base.name == self.run.name
        return [replace(self.base, name=BASELINE) if double else self.base, self.run]

    def _evidence(self, gate: Gate, segment: Segment | None) -> GateEvidence:
        least = least_units(gate, self.sampling)
        if segment is None:
            least = 1 if self._units.plain else MIN_UNITS
        return self._value(gate, segment, least) if self.base is None else self._change(gate, segment, least)

    def _value(self, gate: Gate, segment: Segment | None, least: int) -> GateEvidence:
        """The figure itself."""
        values = self.run.values[gate.metric]
        number = 0 if segment is None else 1 + next(i for i, s in enumerate(self._slices) if s is segment)
        inner, outer = (run.estimates[number][gate.metric] for run in (self._runs[0], self._runs[-1]))
        if segment is not None:
            values = values[segment.rows]
        statistic = self.run.statistic(gate.metric)
        own = self._units if segment is None else self._units.take(segment.rows)
        share = inner.method in ("wilson", "clopper-pearson")
        evidence = self._measured(
            (inner, outer),
            statistic,
            least,
            deviation=unit_deviation(statistic.scores(values), own),
            kind="share" if share else EVIDENCE_KINDS[statistic.aggregate],
        )
        absent = self._unknown(gate, segment)
        evidence = replace(evidence, absent=len(absent))
        if evidence.kind != "quantile":
            return evidence
        evidence = replace(evidence, values=values, sample=own)
        return replace(evidence, worst=self._slowest(gate.metric, absent, segment)) if absent else evidence

    def _change(self, gate: Gate, segment: Segment | None, least: int) -> GateEvidence:
        """The change from the baseline; how many queries would decide one of quantiles nobody can say from these."""
        beside = [segment] if segment is None else [s for s in self._slices if tuple(s.by) == tuple(segment.by)]
        place = next(i for i, s in enumerate(beside) if s is segment)
        change = self._changes(gate.metric, gate.factor, tuple(segment.by if segment is not None else ()))[place]
        quantile = change.statistic.aggregate == "quantile"
        evidence = self._measured(
            (change.intervals[0], change.intervals[-1]),
            change.statistic,
            least,
            deviation=math.nan if quantile else unit_deviation(change.differences, change.units),
            scale=change.statistic.change,
        )
        absent = self._unknown(gate, segment)
        evidence = replace(
            evidence,
            same_lists=self.base is not None and have_same_lists(self.base, self.run, gate.metric),
            may_have_same_lists=self._may_have_same_lists(gate.metric),
            absent=len(absent),
        )
        if not quantile or not absent:
            return evidence
        return replace(evidence, worst=self._slowest(gate.metric, absent, segment, gate.factor))

    def _unknown(self, gate: Gate, segment: Segment | None) -> list[str]:
        """Queries that were asked, and of which the run does not say what they took.

        Without a line, and without gold: of a change, those that the baseline has a value for.
        """
        lacking = find_unknown(self.run, gate.metric)
        if segment is not None:
            mine = {self.run.query_ids[i] for i in segment.rows.tolist()}
            lacking = [q for q in lacking if q in mine]
        others = self._without_gold(gate)
        if segment is not None and others:
            slices = self.sampling.segments(others)
            others = [others[i] for s in slices if s.by == segment.by for i in s.rows]
        absent = list(dict.fromkeys([*lacking, *others]))
        if not self.run.statistic(gate.metric).weighted:
            return absent
        weights = self.sampling.units(absent).weight.tolist()  # what weighs nothing changes no figure
        return [q for q, weight in zip(absent, weights, strict=True) if weight > 0]

    def _without_gold(self, gate: Gate) -> list[str]:
        """Queries without gold that were asked, and that the run lacks."""
        if not parse(gate.metric).over_whole_run:
            return []
        if self.base is not None:
            return find_unanswered(self.run, None, queries_with_value(self.base, gate.metric))
        answered = (q for r in self._beside if gate.metric in r.values for q in queries_with_value(r, gate.metric))
        return find_unanswered(self.run, self._queries, answered)

    def _lost_segments(self, gate: Gate, segments: Sequence[Segment]) -> list[Segment]:
        """The segments of a gate `for every` whose queries have no gold, and of which the run answers none."""
        lacking = self._without_gold(gate)
        if not gate.every or not lacking:
            return []
        known = [s.by for s in segments]
        lost = [s for s in matching_segments(gate, self.sampling.segments(lacking)) if s.by not in known]
        return [s for s in lost if len(s.rows) >= (gate.least or 1)]

    def _slowest(
        self, metric: str, absent: Sequence[str], segment: Segment | None, factor: float = 1.0
    ) -> tuple[float, float]:
        """A quantile, or its change, and the upper end of its interval if queries without a value were slowest."""
        rows = slice(None) if segment is None else segment.rows
        known, measured = np.array(self.run.query_ids)[rows].tolist(), self.run.values[metric][rows].tolist()
        own: dict[str, float] = dict(zip(known, measured, strict=True)) | dict.fromkeys(absent, SLOWEST)
        ids, values = list(own), np.array(list(own.values()))
        units, statistic, choice = self.sampling.units(ids), self.run.statistic(metric), self._levels[0].choice()
        everything = [np.arange(len(ids))]
        if self.base is None:
            ((interval,),) = estimate_figures([values], [statistic], units, everything, choice)
            return interval.estimate, interval.high
        base = dict(zip(self.base.query_ids, self.base.values[metric].tolist(), strict=True))
        before = np.array([[base.get(q, math.nan) for q in ids]])
        ((change,),) = measure_changes(before, values[None, :], [statistic], units, everything, choice, factor=factor)
        return change.intervals[0].estimate, change.intervals[0].high

    def _may_have_same_lists(self, metric: str) -> bool:
        """Whether nobody knows if the lists are identical: judged docs at other ranks say that they are not."""
        base, run = self.base, self.run
        if base is None or None not in (base.ranked_lists, run.ranked_lists):
            return False
        known = base.rankings is not None and run.rankings is not None
        alike = have_same_rankings(base, run) if known else True
        return alike and are_lists_held(run, metric) and have_same_values(base, run, metric)

    def _measured(
        self,
        intervals: tuple[Interval, Interval],
        statistic: Statistic,
        least: int,
        *,
        deviation: float,
        kind: Kind = "mean",
        scale: ChangeScale = "difference",
    ) -> GateEvidence:
        """What was measured, with the interval that a pass is judged by and the one of a fail."""
        inner, outer = intervals
        return GateEvidence(
            inner.estimate,
            inner.low,
            inner.high,
            inner.n,
            deviation,
            kind,
            confidence=self.sampling.confidence,
            minimum=least,
            n_eff=inner.n_eff,
            fail_low=outer.low,
            fail_high=outer.high,
            fail_confidence=self._levels[-1].confidence,
            usual_confidence=self.run.sampling.confidence,
            method=inner.method,
            draws=inner.draws,
            statistic=statistic,
            scale=scale,
            blessed=self._blessed,
        )

    def _changes(self, metric: str, factor: float, fields: tuple[str, ...]) -> list[FigureChange]:
        """The change of a metric in each segment by these fields; without any, over all queries."""
        key = (metric, factor, fields)
        if key not in self._known:
            assert self.base is not None
            both = paired(self.base, self.run, [metric])
            slices = [s for s in self._slices if tuple(s.by) == fields]
            groups = rows_of(both.query_ids, self.run, slices) if fields else [np.arange(len(both.query_ids))]
            units, statistic = self.sampling.units(both.query_ids), self.run.statistic(metric)
            drawn = statistic.aggregate == "quantile" or self.sampling.method != "auto"
            shared = [s.confidence for s in self._levels]  # the same sign flips serve both
            parts = [
                measure_changes(
                    both.base,
                    both.candidate,
                    [statistic],
                    units,
                    groups,
                    s.choice(self.run.threads),
                    levels=[s.confidence] if drawn else shared,
                    factor=factor,
                )
                for s in (self._levels if drawn else self._levels[:1])
            ]
            self._known[key] = [
                replace(one[0], intervals=tuple(i for (part,) in (one, *rest) for i in part.intervals))
                for one, *rest in zip(*parts, strict=True)
            ]
        return self._known[key]
