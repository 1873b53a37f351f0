"""What gates will say of more queries: chances against n for each truth, and how many more would decide."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from karat.results.figures import change_figure, figure
from karat.results.words import plural, queries_text, segment_text
from karat.store.codec import rounded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.gates.forecast import Chances
    from karat.gates.language import Gate
    from karat.results.plan_document import GatePlanJson, TruthJson, WorkJson

UnitWord = Literal["query", "conversation"]


def units_text(n: int, unit: UnitWord) -> str:
    """`52 queries`, `12 conversations`."""
    return queries_text(n) if unit == "query" else plural(n, unit)


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
    needed: int | None
    """Units for the right verdict with the wanted power; None where no number within reach is enough."""

    def document(self) -> TruthJson:
        """This forecast as the JSON document has it."""
        from karat.results.plan_document import ChancesJson, TruthJson

        return TruthJson(
            truth=self.label,
            value=rounded(self.value),
            verdict=self.verdict,
            needed=self.needed,
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
    """How many more units would decide an undecided gate, as a range over what the truth may be."""

    gate: Gate
    run: str
    segment: Mapping[str, str] | None
    unit: UnitWord
    units: int
    low: float
    high: float
    """The ends of the interval that holds the truth with a chance of one half."""
    fewest: int | None
    most: int | None
    reason: str = ""
    """Why the number is not known."""

    @property
    def statement(self) -> str:
        """What to do: `judge about 120 to 400 more queries where language = es-AR`."""
        where = f" where {segment_text(self.segment)}" if self.segment else ""
        if self.fewest is None:
            reason = self.reason or "the truth is too near to the gate for any number within reach"
            return f"not known{where}: {reason}"
        if self.most is None:
            end = "; the truth may be at the gate, where no number decides"
            return f"judge at least about {self._more(self.fewest)}{where}{end}"
        if self.most <= self.fewest:
            return f"judge about {self._more(self.fewest)}{where}"
        return f"judge about {self.fewest:,} to {self._more(self.most)}{where}"

    def _more(self, n: int) -> str:
        return units_text(n, self.unit).replace(" ", " more ", 1)

    def document(self) -> WorkJson:
        """This item as the JSON document has it."""
        from karat.results.plan_document import WorkJson

        unknown = math.isnan(self.low) or math.isnan(self.high)
        return WorkJson(
            gate=str(self.gate),
            run=self.run,
            segment=dict(self.segment) if self.segment is not None else None,
            unit=self.unit,
            units=self.units,
            truth=None if unknown else [rounded(self.low), rounded(self.high)],
            fewest=self.fewest,
            most=self.most,
            statement=self.statement,
        )
