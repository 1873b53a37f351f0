"""Gates whose intervals have to hold at every look: which of them can be judged, and why others cannot."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from karat.metrics.component_figures import is_component_figure
from karat.metrics.grammar import parse
from karat.stats.betting import BETTING, CONTRADICTION
from karat.stats.pooling import POOLED

if TYPE_CHECKING:
    from karat.gates.judge import GateEvidence
    from karat.gates.language import Gate
    from karat.stats.resample import Units


def keep_every_look(gate: Gate, found: GateEvidence, units: Units) -> GateEvidence:
    """The evidence without an interval that does not hold at every look, and why there is none.

    A total of these queries, a gate at the mean and identical lists are judged without an interval.
    """
    if found.method == BETTING:  # how many more queries would decide is not foretold
        return replace(found, deviation=math.nan)
    judged_without = gate.at_mean or found.kind == "total" or found.same_lists
    if judged_without or found.missing or found.method == "none" or found.units < found.minimum:
        return found
    without = replace(found, low=math.nan, high=math.nan, fail_low=math.nan, fail_high=math.nan, method="none")
    return replace(without, missing=_explain(gate, found, units))


def _explain(gate: Gate, found: GateEvidence, units: Units) -> str:
    if found.method == CONTRADICTION:
        return "queries added on different days contradict each other: no value fits all of them"
    least, most = found.statistic.score_bounds()
    if found.method == POOLED:
        what = "pooled segments"
    elif is_component_figure(parse(gate.metric)):
        what = "this figure"
    elif found.statistic.aggregate == "quantile":
        what = "a quantile"
    elif not math.isfinite(most - least):
        what = "a mean without bounds"
    else:
        weights = bool((units.weight != units.weight.max(initial=0.0)).any())
        what = "queries of different weight" if weights else "conversations of different length"
    return f"sequential: no interval of {what} holds at every look"
