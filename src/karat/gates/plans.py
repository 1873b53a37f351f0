"""What gates will say of more queries: the truths that are simulated, and the chances of each verdict against n."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from karat.errors import UsageError
from karat.gates.judge import JudgedGate, Ruling, judge
from karat.gates.kinds import is_same
from karat.gates.wording import is_open, label_gate, more_text
from karat.metrics.grammar import parse
from karat.records import dataclass
from karat.results.figures import change_figure, figure
from karat.results.words import UnitWord, segment_text
from karat.store.codec import rounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.gates.forecast import Chances
    from karat.gates.gate import Gate
    from karat.results.plan_document import GatePlanJson, TruthJson, WorkJson
    from karat.stats.planning import Population, UnitsNeeded


def truth_text(gate: Gate, value: float) -> str:
    """A true value, or change, in the digits of its metric."""
    if gate.against is None:
        return figure(gate.metric, value).text
    return f"Δ {change_figure(gate.metric, gate.scale, value).text}"


@dataclass(frozen=True)
class TruthForecast:
    """What a gate says if the truth is this."""

    label: str
    value: float
    """NaN where each segment has a truth of its own."""
    verdict: Literal["SHIP", "BLOCK"] | None
    """The right one; None exactly at the gate."""
    curve: tuple[Chances, ...]
    search: UnitsNeeded | None
    """What was found of the units that the right verdict needs; None where there is none to look for."""

    @property
    def needed(self) -> int | None:
        """Units for the right verdict with the wanted power; None where no number within reach is enough."""
        return None if self.search is None else self.search.n

    def document(self) -> TruthJson:
        """This forecast as the JSON document has it."""
        from karat.results.plan_document import ChancesJson, TruthJson

        return TruthJson(
            truth=self.label,
            value=rounded(self.value),
            verdict=self.verdict,
            needed=self.needed,
            extrapolated=self.search is not None and self.search.extrapolated,
            curve=[ChancesJson(c.n, *(round(x, 4) for x in (c.ship, c.block, c.inconclusive))) for c in self.curve],
        )


@dataclass(frozen=True)
class GateForecast:
    """What one gate will say of one run, for several truths."""

    gate: Gate
    run: str
    against: str | None
    observed: float
    unit: UnitWord
    units: int
    """Those whose values samples are drawn from, of all segments together."""
    from_queries: bool
    """Whether conversations are made of single queries, which `units` then counts."""
    turns: float
    icc: float
    segments: tuple[str, ...]
    """The segments that must all pass; empty for all queries."""
    truths: tuple[TruthForecast, ...]

    @property
    def each(self) -> str:
        """What n counts."""
        name = "queries" if self.unit == "query" else "conversations"
        return f"{name} in each segment" if len(self.segments) > 1 else name

    def document(self) -> GatePlanJson:
        """This forecast as the JSON document has it."""
        from msgspec import UNSET

        from karat.results.plan_document import GatePlanJson

        return GatePlanJson(
            gate=str(self.gate),
            run=self.run,
            against=self.against if self.against is not None else UNSET,
            metric=self.gate.metric,
            threshold=rounded(self.gate.threshold),
            observed=rounded(self.observed),
            unit=self.unit,
            units=self.units,
            turns=rounded(self.turns),
            icc=rounded(self.icc),
            segments=list(self.segments) or UNSET,
            truths=[truth.document() for truth in self.truths],
        )


@dataclass(frozen=True)
class WorkItem:
    """An undecided gate, and how many more queries would decide it, or why none would: what `check` says of it."""

    gate: Gate
    run: str
    segment: Mapping[str, str] | None
    ruling: Ruling

    @property
    def is_counted(self) -> bool:
        """Whether queries would decide it, and how many is known."""
        ruling = self.ruling
        return ruling.needs_queries and (ruling.more is not None or ruling.fewest is not None)

    @property
    def statement(self) -> str:
        """What to do: `judge about 120 to 400 more queries where language = es-AR`; `run` where no gold is needed."""
        return self.state(f" where {segment_text(self.segment)}" if self.segment else "")

    def state(self, where: str) -> str:
        """The same, with where that is in other words."""
        if not self.ruling.needs_queries:
            return f"more queries alone do not decide it{where}: {self.ruling.why}"
        verb = "run" if parse(self.gate.metric).over_whole_run else "judge"
        if not self.is_counted:
            return f"{verb} more queries{where}; how many is not known"
        if self.ruling.fewest is None:  # fewer than the least number decide nothing, and that number may not either
            return f"{verb} {more_text(self.ruling)}{where}, the fewest that are judged alone; more may be needed"
        end = "; the truth may be at the gate, where no number decides" if is_open(self.ruling) else ""
        return f"{verb} {more_text(self.ruling)}{where}{end}"

    def document(self) -> WorkJson:
        """This item as the JSON document has it."""
        from karat.results.plan_document import WorkJson

        return WorkJson(
            gate=str(self.gate),
            run=self.run,
            segment=dict(self.segment) if self.segment is not None else None,
            more=self.ruling.more,
            fewest=self.ruling.fewest,
            most=self.ruling.most,
            statement=self.statement,
        )


def work_item(row: JudgedGate, power: float) -> WorkItem:
    """What an undecided gate asks for: queries that would decide it with this chance, or what its reason says."""
    ruling = row.judged
    if ruling.needs_queries:
        ruling = replace(judge(row.gate, row.found, power=power), why=ruling.why)
    return WorkItem(row.gate, row.run, row.segment, ruling)


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
