"""The part of the JSON document that says what gates will say of more queries, as types."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from karat.results.json_numbers import Number

Chance = Annotated[float, Meta(ge=0, le=1)]


class ChancesJson(Struct, forbid_unknown_fields=True, frozen=True):
    """How likely each outcome of a gate is with n units (queries, or conversations), in each segment if it has some."""

    n: int
    ship: Chance
    block: Chance
    inconclusive: Chance


class TruthJson(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What a gate says if the truth is this."""

    truth: Annotated[str, Meta(description="In words.")]
    value: Annotated[Number, Meta(description="The true value, or change; null where each segment has its own.")]
    verdict: Annotated[Literal["SHIP", "BLOCK"] | None, Meta(description="The right one; null exactly at the gate.")]
    needed: Annotated[
        int | None, Meta(description="Units for the wanted power; null where no number within reach is enough.")
    ]
    extrapolated: Annotated[
        bool, Meta(description="Whether `needed` (or its limit) is beyond all numbers whose chances were simulated.")
    ]
    curve: list[ChancesJson]


class GatePlanJson(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What one gate will say of one run."""

    gate: str
    run: str
    against: str | UnsetType = UNSET
    metric: str
    threshold: Number
    observed: Number
    unit: Literal["query", "conversation"]
    units: Annotated[int, Meta(description="Units that the values come from; single queries where `icc` was stated.")]
    turns: Annotated[Number, Meta(description="Queries per unit.")]
    icc: Annotated[Number, Meta(description="Intraclass correlation in conversations, estimated or stated.")] = None
    segments: Annotated[list[str] | UnsetType, Meta(description="Segments that must all pass; n is of each.")] = UNSET
    truths: list[TruthJson]


class WorkJson(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How many more queries would decide an undecided gate, as a range over what the truth may be."""

    gate: str
    run: str
    segment: dict[str, str] | None
    more: Annotated[int | None, Meta(description="More queries if the truth is as observed.")]
    fewest: Annotated[int | None, Meta(description="At the end of the 50% interval that is farther from the gate.")]
    most: Annotated[int | None, Meta(description="At the nearer end; null where the gate lies inside.")]
    statement: str


class PlanJson(Struct, forbid_unknown_fields=True, frozen=True):
    """What gates will say of more queries."""

    conclusion: str
    power: float
    seed: int
    gates: list[GatePlanJson]
    work: list[WorkJson]
