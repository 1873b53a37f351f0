"""What may be true of a gate's value: the truths that a plan simulates, and those that the values cannot have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.errors import UsageError
from karat.gates.kinds import is_same
from karat.gates.plans import truth_text
from karat.gates.wording import label_gate
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.gates.language import Gate
    from karat.stats.planning import Population

STEP = 0.1
"""Truths near the gate are this many standard deviations away unless stated."""


@dataclass(frozen=True)
class Truth:
    """A truth in words, and as the figure of each segment."""

    label: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class TruthChoice:
    """The truths to simulate, and which are left out and why."""

    truths: tuple[Truth, ...]
    note: str = ""


def choose_truths(
    gate: Gate,
    populations: Sequence[Population],
    observed: tuple[float, ...],
    truth: float | None = None,
    true_value: float | None = None,
) -> TruthChoice:
    """The stated truth, or several: around the gate, and as observed. There is a population for each segment.

    `truth` is how much better than the gate it is, `true_value` the value or change itself.
    """
    count = len(populations)
    if true_value is not None:
        wanted = [Truth(truth_text(gate, true_value), (true_value,) * count)]
    elif truth is not None:
        wanted = [_at_distance(gate, truth, count)]
    else:
        step = _round_step(STEP * float(np.median([p.deviation for p in populations])))
        label = f"as observed ({truth_text(gate, observed[0])})" if count == 1 else "as observed in each segment"
        wanted = [*(_at_distance(gate, distance, count) for distance in (-step, 0.0, step)), Truth(label, observed)]
    possible = tuple(one for one in wanted if _is_possible(one, populations))
    others = [one for one in wanted if one not in possible]
    if not others:
        return TruthChoice(possible)
    means = [p.unit_sums[0] / p.unit_sums[1] for p in populations]
    ends = (max(float(m.min()) for m in means), min(float(m.max()) for m in means))
    reach = " to ".join(truth_text(gate, populations[0].statistic.to_figure(e, 1)) for e in ends)
    if not possible:
        raise UsageError(
            f"gate '{gate}': the truth {truth_text(gate, others[0].values[0])} cannot be simulated from these "
            f"values, which reach from {reach}; state one between"
        )
    labels = " and ".join(one.label for one in others)
    return TruthChoice(
        possible,
        f"{label_gate(gate)}: truths left out: {labels}; the values at hand reach from {reach}, and their mean must "
        "lie between",
    )


def right_verdict(gate: Gate, values: Sequence[float]) -> Literal["SHIP", "BLOCK"] | None:
    """The verdict if these are the true figures of the segments; None where one is exactly at the gate."""
    if any(is_same(value, end) for value in values for end in gate.region.bounds):
        return None
    return "SHIP" if all(gate.region.holds(value) for value in values) else "BLOCK"


def _is_possible(truth: Truth, populations: Sequence[Population]) -> bool:
    """Whether samples with this mean can be drawn from the values of each segment."""
    try:
        for p, value in zip(populations, truth.values, strict=True):
            p.shares(p.statistic.to_score(value, 1))
    except UsageError:
        return False
    return True


def _at_distance(gate: Gate, distance: float, count: int) -> Truth:
    direction = 1.0 if math.isfinite(gate.region.low) else -1.0
    side = f"{abs(distance):g} {'better' if distance > 0 else 'worse'} than the gate"
    return Truth("at the gate" if distance == 0 else side, (gate.threshold + direction * distance,) * count)


def _round_step(size: float) -> float:
    """One significant digit."""
    return round(size, -math.floor(math.log10(size))) if size > 0 and math.isfinite(size) else 0.01
