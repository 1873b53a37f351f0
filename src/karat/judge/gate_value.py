"""The value of a judgment for gates: which pairs could still change an outcome, and which gates are decided.

A gate is decided when it has the same outcome for all grades that unjudged docs might have: the ends of its interval
are bounded over all of them, and judged as `karat check` judges them.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from karat.judge.value import PooledRuns
from karat.records import dataclass
from karat.results.depths import find_gap_of_depths
from karat.stats.defaults import CONFIDENCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karat.judge.value import Ids, Ranks
    from karat.metrics.grammar import Measure
    from karat.model.rankings import Values
    from karat.results.words import Outcome
    from karat.stats.partial_changes import PartialChange
    from karat.stats.partial_levels import PartialLevel, PossibleEnds

OUTCOMES: tuple[Outcome, ...] = ("pass", "undecided", "fail")


class GateRule(Protocol):
    """A gate as far as pairs are valued by it."""

    @property
    def text(self) -> str:
        """As it is printed."""

    @property
    def measure(self) -> Measure:
        """The metric that it judges."""

    @property
    def compares(self) -> bool:
        """Whether it judges the difference from the first run, not the value itself."""

    @property
    def asks_for_more(self) -> bool:
        """Whether it passes where the value, or the difference, is high."""

    @property
    def any_depth(self) -> bool:
        """Whether short lists are judged as they are."""

    def judge_interval(self, low: float, high: float) -> Outcome:
        """The outcome for an interval; where its ends are NaN there is none."""

    def judge_same_lists(self) -> Outcome:
        """The outcome where both runs return the same lists."""


@dataclass(frozen=True)
class RankedLists:
    """How long the longest list of a run is, and the number of docs and the first docs of each query."""

    depth: int
    docs: Mapping[str, tuple[int | str, ...]]


@dataclass(frozen=True)
class PoolGate:
    """What `karat check` will say of a gate for a run once all pairs are judged, as far as that is certain already."""

    gate: str
    run: str
    outcomes: tuple[Outcome, ...]
    """Nothing else is possible; not all of several need be."""
    open: int = 0
    """How many pairs without a judgment could still change it."""
    why: str = ""
    """Why no grade matters, where that is so."""

    @property
    def final(self) -> Outcome | None:
        """The outcome whatever the other grades are; None while that is open."""
        return self.outcomes[0] if len(self.outcomes) == 1 else None


class GateValues(NamedTuple):
    """Gates for each run that they judge, and the value of each pair that could change one of them."""

    gates: tuple[PoolGate, ...]
    value: Mapping[Ids, float]


def value_gates(
    ranks: Mapping[str, Ranks],
    lists: Mapping[str, RankedLists],
    grades: Mapping[Ids, float],
    queries: Iterable[str],
    gates: Sequence[GateRule],
    *,
    scale: Sequence[float],
    confidence: float = CONFIDENCE,
) -> GateValues:
    """Judge gates by the grades that are known, for all grades of `scale` that others may have.

    Every run but the first is judged, and compared with the first one; a run alone is judged itself.
    """
    names = list(ranks)[1:] or list(ranks)
    queries = list(queries)
    measures = {gate.measure.name: gate.measure for gate in gates}
    pools = {name: PooledRuns.of(ranks, grades, queries, one, scale) for name, one in measures.items()}
    known: dict[tuple[str, str, bool, bool], _Evidence] = {}

    def measure_run(gate: GateRule, run: str, *, expected: bool) -> _Evidence:
        """What the grades say that are known, or also those that are expected; gates share it."""
        key = (gate.measure.name, run, gate.compares, expected)
        if key not in known:
            runs = pools[gate.measure.name]
            known[key] = _Evidence.of(runs.expect(run) if expected else runs, run, gate.compares, confidence)
        return known[key]

    rows, value = [], dict[tuple[str, str], float]()
    for gate, run in product(gates, names):
        runs = pools[gate.measure.name]
        if (settled := _judge_lists(gate, run, runs.baseline, lists)) is not None:
            rows.append(settled)
            continue
        bounds = measure_run(gate, run, expected=False)
        outcomes = _possible_outcomes(gate, bounds.ends)
        count = 0
        if len(outcomes) > 1:
            weights = [runs.weight[name] for name in ((runs.baseline, run) if gate.compares else (run,))]
            matters = runs.find_open(bounds.partial.unsettled, weights)
            count, worth = int(matters.sum()), _worth(gate, run, measure_run(gate, run, expected=True))
            for pair, own in runs.by_pair(np.where(matters, worth, -1.0)).items():
                value[pair] = max(value.get(pair, 0.0), own)
        rows.append(PoolGate(gate.text, run, outcomes, count))
    return GateValues(tuple(rows), value)


def _judge_lists(gate: GateRule, run: str, baseline: str, lists: Mapping[str, RankedLists]) -> PoolGate | None:
    """The gate where the lists alone decide it: they are too short for its cutoff, or the same as the baseline's."""
    names = (baseline, run) if gate.compares else (run,)
    gap = find_gap_of_depths(gate.measure.name, {name: lists[name].depth for name in names if lists[name].depth > 0})
    if gap is not None and not gate.any_depth:
        return PoolGate(gate.text, run, ("undecided",), why=gap.reason)
    if gate.compares and lists[run].docs == lists[baseline].docs:
        return PoolGate(gate.text, run, (gate.judge_same_lists(),), why="the ranked lists are identical")
    return None


class _Evidence(NamedTuple):
    """What a run, or its difference from the first one, can be, and where the ends of its interval may lie."""

    runs: PooledRuns
    partial: PartialLevel | PartialChange
    ends: PossibleEnds

    @staticmethod
    def of(runs: PooledRuns, run: str, compares: bool, confidence: float) -> _Evidence:
        partial = runs.change_to(run) if compares else runs.level_of(run)
        return _Evidence(runs, partial, partial.ends(confidence))


def _possible_outcomes(gate: GateRule, ends: PossibleEnds) -> tuple[Outcome, ...]:
    """An outcome depends on each end in one direction: what is possible is possible at the extremes of both."""
    outcomes = {gate.judge_interval(low, high) for low, high in product(ends.low, ends.high)}
    if ends.blank:
        outcomes.add(gate.judge_interval(math.nan, math.nan))
    return tuple(one for one in OUTCOMES if one in outcomes)


def _worth(gate: GateRule, run: str, expected: _Evidence) -> Values:
    """How far the judgment of each doc is expected to move the bound that is in the way of a decision.

    With the gains that are expected the gate passes, fails, or is undecided. To prove that it passes, or fails, one of
    the bounds has to move away from the threshold; to prove that it stays undecided, both have to come nearer.
    """
    runs, likely = expected.runs, _possible_outcomes(gate, expected.ends)
    pull = runs.weight[run] - (runs.weight[runs.baseline] if gate.compares else 0.0)
    rise, drop = runs.rise(pull), runs.rise(-pull)
    if likely == ("undecided",):
        return rise + drop
    return rise if (likely == ("pass",)) == gate.asks_for_more else drop
