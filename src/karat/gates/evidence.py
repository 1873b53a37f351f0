"""Gates over a result: what was measured for each gate, run and segment, and what follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import InputError, UsageError, nearest, shown
from karat.gates.judge import GateEvidence, judge
from karat.gates.language import BASELINE
from karat.metrics.grammar import parse
from karat.results.pairing import paired
from karat.stats.groups import grouped_intervals
from karat.stats.intervals import standard_error
from karat.stats.quantiles import quantile_difference
from karat.store.codec import rounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karat.gates.judge import Kind, Ruling
    from karat.gates.language import Gate
    from karat.results.document import GateJson
    from karat.results.result import Result, RunResult
    from karat.results.sampling import Sampling, Segment
    from karat.stats.intervals import Interval

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]

TAIL_DRAWS = 40
"""Resamples in both tails of an interval that is widened for many segments: fewer would not find its ends."""

UNKNOWN = "the number of queries needed is not known for a difference of quantiles"


@dataclass(frozen=True)
class Judgment:
    """One gate for one run, over all queries or in one segment."""

    gate: Gate
    run: str
    segment: Mapping[str, str] | None
    found: GateEvidence
    judged: Ruling
    against: str | None = None
    """The run that it was compared with."""

    @property
    def outcome(self) -> str:
        return self.judged.outcome

    @property
    def where(self) -> str:
        """The segment in words; empty for all queries."""
        return ", ".join(f"{f} = {v}" for f, v in self.segment.items()) if self.segment else ""

    def document(self) -> GateJson:
        """This judgment as the JSON document has it."""
        from msgspec import UNSET

        from karat.results.document import GateJson

        gate, found = self.gate, self.found
        return GateJson(
            gate=str(gate),
            name=gate.name or None,
            level=gate.level,
            run=self.run,
            metric=gate.metric,
            segment=dict(self.segment) if self.segment is not None else None,
            outcome=self.judged.outcome,
            why=self.judged.why,
            value=rounded(found.estimate),
            ci=_ends(found),
            op=gate.op,
            threshold=rounded(gate.threshold),
            n=found.n,
            confidence=rounded(found.confidence),
            more_queries=self.judged.more,
            against=self.against if self.against is not None else UNSET,
            margin=rounded(gate.value) if self.against is not None else UNSET,
            relative=gate.relative if self.against is not None else UNSET,
        )


def _ends(found: GateEvidence) -> list[float | None] | None:
    if math.isnan(found.low) and math.isnan(found.high):
        return None
    return [rounded(found.low), rounded(found.high)]


def judge_gates(
    gates: Sequence[Gate],
    result: Result,
    candidates: Sequence[str],
    *,
    baseline: RunResult | None = None,
    correction: str = "none",
) -> tuple[Judgment, ...]:
    """Judge every gate for every candidate that it concerns.

    With `correction="bonferroni"` the intervals in segments are widened for the number of judgments in segments
    that a run has, so that all of them hold at once.
    """
    names = [r.name for r in result.runs]
    out: list[Judgment] = []
    for name in candidates:
        run = result[name]
        mine = [g for g in gates if g.run in (None, name) and g.against != name]
        asked = [(g, _base(g, result, baseline)) for g in mine]
        level = _widened(asked, run, correction)
        views: dict[tuple[bool, int], _View] = {}
        for gate, base in asked:
            place = (bool(gate.fields), id(base))  # a baseline from a file may have the name of a run
            if place not in views:
                views[place] = _View(run, base, level if gate.fields else None)
            out += views[place].judgments(gate)
    for gate in gates:
        if gate.run is not None and gate.run not in names:
            near = nearest(gate.run, names)
            hint = f"; did you mean {near!r}?" if near else f"; there are {', '.join(names)}"
            raise InputError(f"gate '{gate}': no run is called {gate.run!r}{hint}")
        if gate.run is not None and gate.run not in candidates:
            raise InputError(f"gate '{gate}': {gate.run!r} is not judged here; name it as a candidate")
    return tuple(out)


def _base(gate: Gate, result: Result, baseline: RunResult | None) -> RunResult | None:
    """The run that a gate compares with."""
    if gate.against is None:
        return None
    if gate.against == BASELINE:
        if baseline is None:
            raise InputError(f"gate '{gate}': there is no baseline; name a run or a file as baseline (`karat bless`)")
        _holds(gate, baseline)
        return baseline
    names = [r.name for r in result.runs]
    if gate.against not in names:
        near = nearest(gate.against, [BASELINE, *names])
        hint = f"; did you mean {near!r}?" if near else f"; there are {', '.join(names)}"
        raise InputError(f"gate '{gate}': no run is called {gate.against!r}{hint}")
    return result[gate.against]


def _holds(gate: Gate, run: RunResult) -> None:
    """A gate on a metric that a result does not hold is an error: it must not pass, nor look undecided."""
    if gate.metric not in run.values:
        held = ", ".join(run.values)
        raise InputError(
            f"gate '{gate}': {run.name} was not measured by {gate.metric}, only by {held}; "
            "add it to the metrics and evaluate (or bless) again"
        )


def _widened(asked: Sequence[tuple[Gate, RunResult | None]], run: RunResult, correction: str) -> Sampling | None:
    """The choices for intervals in segments, when these are to hold all at once."""
    if correction == "none":
        return None
    if correction != "bonferroni":
        raise UsageError(f"correction must be one of none, bonferroni, found {correction!r}")
    slices = run.sampling.segments(run.query_ids)
    count = sum(
        len(s.rows) >= (gate.least or run.sampling.minimum) for gate, _ in asked for s in _matching(gate, slices)
    )
    if count < 2:
        return None
    tail = (1 - run.sampling.confidence) / count
    return replace(
        run.sampling, confidence=1 - tail, resamples=max(run.sampling.resamples, math.ceil(TAIL_DRAWS / tail))
    )


def _matching(gate: Gate, slices: Sequence[Segment]) -> list[Segment]:
    """The segments that a gate speaks of; a value is first looked up as it is written, then in any case."""
    mine = [s for s in slices if tuple(s.by) == gate.fields] if gate.fields else []
    for fold in (str, str.casefold):
        found = [s for s in mine if all(fold(s.by[f]) == fold(v) for f, v in gate.where)]
        if found:
            return found
    return []


class _View:
    """One run, or its difference from another, with the intervals of all metrics and segments."""

    def __init__(self, run: RunResult, base: RunResult | None, widened: Sampling | None) -> None:
        self.run, self.base = run, base
        self.sampling = widened or run.sampling
        self._own = replace(run, sampling=widened) if widened is not None else run
        self._contrasts: dict[tuple[str, float], tuple[Sequence[str], Floats, list[Interval]]] = {}
        self._slices = self.sampling.segments(run.query_ids)

    def judgments(self, gate: Gate) -> list[Judgment]:
        """The gate over all queries, or in each of its segments."""
        _holds(gate, self.run)
        if self.base is not None:
            _holds(gate, self.base)
        against = self.base.name if self.base is not None else None

        def told(segment: Mapping[str, str] | None, found: GateEvidence) -> Judgment:
            return Judgment(gate, self.run.name, segment, found, self._judged(gate, found), against)

        if not gate.fields:
            return [told(None, self._evidence(gate, None))]
        found = _matching(gate, self._slices)
        if not found:
            return [told(dict(gate.where) or None, GateEvidence(math.nan, missing=self._nothing(gate)))]
        judged = [told(s.by, self._evidence(gate, s)) for s in found]
        if gate.least is not None:
            kept = [j for j in judged if j.found.n >= gate.least]
            if not kept:
                why = f"no segment has at least {gate.least} queries"
                return [told(dict(gate.where) or None, GateEvidence(math.nan, missing=why))]
            return kept
        return judged

    def _judged(self, gate: Gate, found: GateEvidence) -> Ruling:
        """The outcome; how many queries a difference of quantiles takes nobody can say, however far it is."""
        judged = judge(gate, found)
        apart = self.base is not None and parse(gate.metric).aggregate == "quantile"
        inside = found.n >= found.minimum and found.low <= gate.threshold <= found.high
        at_it = math.isclose(found.estimate, gate.threshold, rel_tol=1e-12, abs_tol=1e-12)
        if apart and inside and not at_it and judged.outcome == "undecided" and judged.more is None:
            return replace(judged, why=f"the threshold is inside the interval; {UNKNOWN}")
        return judged

    def _nothing(self, gate: Gate) -> str:
        """Why a gate finds no segment, with the values that there are."""
        sought = " and ".join(f"{f} = {v}" for f, v in gate.where) or ", ".join(gate.every)
        known = sorted({s.by[f] for s in self._slices if tuple(s.by) == gate.fields for f, _ in gate.where[:1]})
        near = nearest(gate.where[0][1], known) if gate.where else None
        listed = ", ".join(map(shown, known[:8])) + (", …" if len(known) > 8 else "")
        hint = f"; did you mean {near!r}?" if near else f"; there are {listed}" if known else ""
        return f"no query has {sought}{hint}"

    def _evidence(self, gate: Gate, segment: Segment | None) -> GateEvidence:
        number = 0
        if segment is not None:
            number = 1 + next(i for i, s in enumerate(self._slices) if s is segment)
        if self.base is None:
            values = self.run.values[gate.metric]
            rows = segment.rows if segment is not None else np.arange(len(values))
            found = self._own.estimates[number][gate.metric]
            return self._measured(gate, self.run.query_ids, values, rows, found, segment)
        factor = gate.factor
        if parse(gate.metric).aggregate == "quantile":
            return self._quantiles_apart(gate, factor, segment)
        ids, values, found_by_group = self._contrast(gate.metric, factor)
        rows = np.arange(len(ids))
        if segment is not None:
            wanted = {self.run.query_ids[i] for i in segment.rows}
            rows = np.array([i for i, q in enumerate(ids) if q in wanted], dtype=np.int64)
        return self._measured(gate, ids, values, rows, found_by_group[number], segment)

    def _contrast(self, metric: str, factor: float) -> tuple[Sequence[str], Floats, list[Interval]]:
        """The differences of a metric query by query, and their intervals over all queries and in each segment."""
        key = (metric, factor)
        if key not in self._contrasts:
            assert self.base is not None
            both = paired(self.base, self.run, [metric])
            values = both.contrast(factor)
            place = {q: i for i, q in enumerate(both.query_ids)}
            groups = [np.arange(len(both.query_ids))]
            for s in self._slices:
                mine = [place[self.run.query_ids[i]] for i in s.rows if self.run.query_ids[i] in place]
                groups.append(np.array(mine, dtype=np.int64))
            how = self.sampling
            found = grouped_intervals(
                values,
                how.units(both.query_ids),
                groups,
                binary=[False],
                confidence=how.confidence,
                method=how.method,
                resamples=how.resamples,
                seed=how.seed,
                threads=self.run.threads,
            )
            self._contrasts[key] = (both.query_ids, values[0], [one[0] for one in found])
        return self._contrasts[key]

    def _quantiles_apart(self, gate: Gate, factor: float, segment: Segment | None) -> GateEvidence:
        """The difference of two quantiles; how many queries would decide it nobody can say from these."""
        assert self.base is not None
        both, how, measure = paired(self.base, self.run, [gate.metric]), self.sampling, parse(gate.metric)
        rows = np.arange(len(both.query_ids))
        if segment is not None:
            wanted = {self.run.query_ids[i] for i in segment.rows}
            rows = np.array([i for i, q in enumerate(both.query_ids) if q in wanted], dtype=np.int64)
        (found,), _ = quantile_difference(
            factor * both.base[0],
            both.candidate[0],
            measure.quantile,
            how.units(both.query_ids),
            rows,
            levels=[how.confidence],
            resamples=how.resamples,
            seed=how.seed,
        )
        least = 1 if segment is None else gate.least or how.minimum
        return GateEvidence(found.estimate, found.low, found.high, found.n, confidence=how.confidence, minimum=least)

    def _measured(
        self, gate: Gate, ids: Sequence[str], values: Floats, rows: Rows, found: Interval, segment: Segment | None
    ) -> GateEvidence:
        error, _ = standard_error(values[rows], self.sampling.units(ids).take(rows))
        kind: Kind = "share" if found.method in ("wilson", "clopper-pearson") else "mean"
        measure = parse(gate.metric)
        if measure.aggregate == "quantile" and self.base is None:
            kind = "quantile"
        least = 1 if segment is None else gate.least or self.sampling.minimum
        return GateEvidence(
            found.estimate,
            found.low,
            found.high,
            found.n,
            error * math.sqrt(found.n),
            kind,
            values[rows] if kind == "quantile" else np.zeros(0),
            measure.quantile if kind == "quantile" else math.nan,
            self.sampling.confidence,
            least,
        )
