"""The part of the JSON document that says how far a collection can be trusted, as types."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from karat.results.json_numbers import Ends, Number


class VarianceJson(Struct, forbid_unknown_fields=True, frozen=True):
    """Variance components of a crossed table of queries × systems, by ANOVA."""

    system: Number
    query: Number
    interaction: Annotated[Number, Meta(description="Of query and system, with error.")]
    negative: Annotated[
        list[str] | UnsetType, Meta(description="Components whose estimate is below 0; it is set to 0.")
    ] = UNSET
    sphericity: Annotated[Number, Meta(description="Greenhouse and Geisser's ε.")] = None


class NeededJson(Struct, forbid_unknown_fields=True, frozen=True):
    """How many units reach a coefficient; null where no number is enough, or nothing is known."""

    target: float
    n: int | None
    ci: Annotated[list[int | None], Meta(min_length=2, max_length=2)]


class CoefficientJson(Struct, forbid_unknown_fields=True, frozen=True):
    """Eρ² (differences between systems) or Φ (their levels) of this collection."""

    value: Number
    ci: Ends
    ci_method: str
    needed: NeededJson


class AgreementJson(Struct, forbid_unknown_fields=True, frozen=True):
    """How alike the orders are that two samples of n units give; ranges hold the middle of the draws."""

    n: int
    tau: Number
    tau_range: Ends
    tau_ap: Annotated[Number, Meta(description="Symmetric: the mean of both directions.")]
    tau_ap_range: Ends
    source: Annotated[
        Literal["splits", "resamples"],
        Meta(description="Disjoint samples of the units, or samples drawn with replacement."),
    ]
    draws: int


class ReliabilityPointJson(Struct, forbid_unknown_fields=True, frozen=True):
    """What a collection of n units would give."""

    n: int
    e_rho2: Number
    e_rho2_ci: Ends
    phi: Number
    phi_ci: Ends
    agreement: AgreementJson


class PairDifferenceJson(Struct, forbid_unknown_fields=True, frozen=True):
    """Two systems and the p of their difference (ASL)."""

    first: str
    second: str
    p: Number


class DiscriminativePowerJson(Struct, forbid_unknown_fields=True, frozen=True):
    """For which share of the pairs of systems a metric finds a significant difference, by randomised HSD."""

    share: Number
    significant: int
    pairs: Annotated[list[PairDifferenceJson], Meta(description="In order of p.")]
    draws: int


class MetricReliabilityJson(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How far the collection can be trusted to order the systems by one metric."""

    metric: str
    statement: str
    stability: Annotated[
        Literal["stable", "not stable", "open", "undefined"],
        Meta(description="Whether the interval of Eρ² lies above .8, below it, or holds it."),
    ]
    order: Annotated[list[str], Meta(description="The systems, best first.")]
    n: Annotated[int, Meta(description="Queries for which every system has a value.")]
    units: int
    unit: Literal["query", "conversation"]
    left_out: Annotated[int, Meta(description="Queries for which some systems have a value and others have none.")]
    variance: VarianceJson
    e_rho2: CoefficientJson
    phi: CoefficientJson
    split_half: AgreementJson
    curve: list[ReliabilityPointJson]
    discriminative_power: DiscriminativePowerJson


class ReliabilityJson(Struct, forbid_unknown_fields=True, frozen=True):
    """How far a collection can be trusted to order systems."""

    conclusion: str
    systems: list[str]
    alpha: float
    confidence: float
    seed: int
    metrics: list[MetricReliabilityJson]
    most_discriminative: Annotated[
        list[list[str]],
        Meta(description="Metrics by discriminative power, the largest first; those that tie together."),
    ]
