"""Gates that pairs can be valued by (`karat judge pool --gate`), and how these judge an interval."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from karat.errors import UsageError
from karat.gates.judge import GateEvidence, judge
from karat.gates.language import parse_gate
from karat.metrics.grammar import Measure, parse
from karat.metrics.unjudged_bounds import offers_difference_bounds
from karat.records import dataclass
from karat.results.words import BASELINE, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.gates.gate import Gate


SUPPORTED = (
    "pairs are valued for gates on ndcg@k or precision@k over all queries: at least or at most a number, or no worse "
    "or better than the first run, by a number or without one"
)


@dataclass(frozen=True)
class PoolRule:
    """A gate that pairs are valued by."""

    gate: Gate

    @property
    def text(self) -> str:
        """As it is printed."""
        return str(self.gate)

    @property
    def measure(self) -> Measure:
        """The metric that it judges."""
        return parse(self.gate.metric)

    @property
    def compares(self) -> bool:
        """Whether it judges the difference from the first run, not the value itself."""
        return self.gate.against is not None

    @property
    def asks_for_more(self) -> bool:
        """Whether it passes where the value, or the difference, is high."""
        return math.isfinite(self.gate.region.low)

    @property
    def any_depth(self) -> bool:
        """Whether short lists are judged as they are."""
        return self.gate.any_depth

    def judge_interval(self, low: float, high: float) -> Outcome:
        """The outcome for an interval; where its ends are NaN there is none. The value itself decides nothing."""
        return judge(self.gate, GateEvidence(0.0, low, high, n=2)).outcome

    def judge_same_lists(self) -> Outcome:
        """The outcome where both runs return the same lists."""
        return judge(self.gate, GateEvidence(0.0, n=2, same_lists=True)).outcome


def read_pool_gates(texts: Sequence[str], runs: Sequence[str]) -> list[PoolRule]:
    """The gates of these texts; the first of the runs is the baseline. What cannot be valued is refused."""
    gates = [parse_gate(text) for text in texts]
    for gate in gates:
        if found := _find_unsupported(gate, runs):
            raise UsageError(f"gate '{gate}': {SUPPORTED}; found {found}")
        if gate.against is not None and len(runs) < 2:
            raise UsageError(f"gate '{gate}': nothing to compare with: name the baseline's run first, then another")
    return [PoolRule(gate) for gate in gates]


def _find_unsupported(gate: Gate, runs: Sequence[str]) -> str:
    """What of a gate pairs cannot be valued by; empty if they can."""
    if not offers_difference_bounds(parse(gate.metric)):
        return gate.metric
    if gate.fields:
        return "a segment"
    if gate.relative:
        return "a margin in percent"
    if gate.against is not None and gate.against not in (BASELINE, *runs[:1]):
        return f"the run {gate.against}"
    parts = {
        "'at the mean'": gate.at_mean,
        f"'on {gate.run}'": gate.run is not None,
        f"'judged {gate.judged}'": gate.judged is not None,
        "two thresholds": len(gate.ends) > 1,
    }
    return next((part for part, there in parts.items() if there), "")
