"""A decision as the JSON document has it, and read back from one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from karat.metrics.grammar import parse
from karat.results.decisions import Decision, Family, RestComparison, SegmentInteraction, number
from karat.results.json_numbers import EFFECTIVE, Ends, Number
from karat.stats.intervals import Interval
from karat.stats.pooling import POOLED

if TYPE_CHECKING:
    pass


class PooledJson(Struct, forbid_unknown_fields=True, frozen=True):
    """A partially pooled mean of a segment, or a mean difference."""

    mean: Number
    ci: Ends


class FamilyJson(Struct, forbid_unknown_fields=True, frozen=True):
    """What p is adjusted over: how, how many comparisons, and of what."""

    method: Annotated[str, Meta(pattern="^(holm|bh|none)$")]
    size: int
    over: Literal["candidates", "segments"]
    metrics: Annotated[int, Meta(description="How many metrics are adjusted for together.")] = 1
    untested: Annotated[
        int | UnsetType, Meta(description="How many comparisons of the same metrics could not be tested.")
    ] = UNSET


class InteractionJson(Struct, forbid_unknown_fields=True, frozen=True):
    """Whether the segments of a field, or of a cross of fields, differ in their Δ."""

    fields: list[str]
    segments: int
    p: Number
    significant: bool


class RestJson(Struct, forbid_unknown_fields=True, frozen=True):
    """Whether the Δ of a segment differs from that of the field's other segments."""

    p: Number
    p_adjusted: Annotated[Number, Meta(description="Benjamini–Hochberg over all segments.")]
    differs: bool


class ComparisonJson(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One metric of a candidate against a baseline, over all queries or in one segment."""

    metric: str
    baseline: str
    candidate: str
    mean_baseline: Number
    mean_candidate: Number
    delta: Annotated[
        Number,
        Meta(description="Candidate − baseline, over the queries that both runs have; their ratio where `scale` says."),
    ]
    ci: Ends
    ci_method: str
    p: Annotated[dict[str, Number], Meta(description="Raw, by test.")]
    p_adjusted: Annotated[Number, Meta(description="Of the test that `decided_by` names; null in small segments.")]
    correction: Annotated[str, Meta(pattern="^(holm|bh|none)$")]
    decided_by: str
    significant: bool
    outcome: Annotated[
        Literal["better", "worse", "different", "no significant difference", "too few queries", "not tested"]
        | UnsetType,
        Meta(description="What is decided of the candidate."),
    ] = UNSET
    scale: Annotated[
        Literal["ratio"] | UnsetType,
        Meta(
            description="`ratio` where `delta`, `ci`, `smallest_detectable` and `noise_floor` are candidate / baseline "
            "(geometric means): 1 where nothing changed."
        ),
    ] = UNSET
    statement: Annotated[str | UnsetType, Meta(description="The decision in words, as every output has it.")] = UNSET
    family: Annotated[
        FamilyJson | UnsetType | None, Meta(description="What p is adjusted over; null where nothing is tested.")
    ] = UNSET
    primary: Annotated[bool, Meta(description="Whether this metric decides which run is better.")] = True
    effect_size: Annotated[Number, Meta(description="d_z.")]
    wins: int
    ties: int
    losses: int
    n: int
    n_eff: Annotated[Number | UnsetType, Meta(description=EFFECTIVE)] = UNSET
    identical_lists: Annotated[
        bool | UnsetType, Meta(description="Whether both runs return the same lists, which determine the metric.")
    ] = UNSET
    segment: dict[str, str] | None
    smallest_detectable: Number
    queries_needed: int | None
    small: bool | UnsetType = UNSET
    against_trend: bool | UnsetType = UNSET
    pooled: Annotated[
        PooledJson | UnsetType, Meta(description="In a segment: Δ drawn towards that of the field's other segments.")
    ] = UNSET
    interactions: Annotated[
        list[InteractionJson] | UnsetType,
        Meta(description="Over all queries, of the primary metric: do segments differ in their Δ?"),
    ] = UNSET
    rest: Annotated[
        RestJson | UnsetType,
        Meta(description="In a segment, of the primary metric: does its Δ differ from that of the others?"),
    ] = UNSET
    margin: float | UnsetType = UNSET
    non_inferior: bool | UnsetType | None = UNSET
    equivalent: bool | UnsetType | None = UNSET
    depths: Annotated[
        Annotated[list[int], Meta(min_length=2, max_length=2)] | UnsetType,
        Meta(description="Where the lists of baseline and candidate end, if the metric looks further or they differ."),
    ] = UNSET
    noise_floor: Number | UnsetType = UNSET
    inside_noise: bool | UnsetType | None = UNSET
    improvement: Annotated[
        Number | UnsetType, Meta(description="In components: Δ in percent of the value before; null where it is 0.")
    ] = UNSET


def read_decision(row: ComparisonJson) -> Decision:
    """A decision as a saved document holds it."""
    low, high = row.ci or (None, None)
    family = row.family or None
    decision = Decision(
        metric=row.metric,
        baseline=row.baseline,
        candidate=row.candidate,
        segment=row.segment,
        mean_baseline=number(row.mean_baseline),
        mean_candidate=number(row.mean_candidate),
        difference=Interval(number(row.delta), number(low), number(high), row.ci_method, row.n, row.n_eff or math.nan),
        p={test: number(p) for test, p in row.p.items()},
        p_adjusted=number(row.p_adjusted),
        correction=row.correction,
        effect_size=number(row.effect_size),
        wins=row.wins,
        ties=row.ties,
        losses=row.losses,
        small=row.small or False,
        better_when_higher=parse(row.metric).metric.higher_is_better,
        significant=row.significant,
        decided_by=row.decided_by,
        scale=row.scale or "difference",
        margin=row.margin or None,
        non_inferior=None if row.non_inferior is UNSET else row.non_inferior,
        equivalent=None if row.equivalent is UNSET else row.equivalent,
        noise=None if row.noise_floor is UNSET else row.noise_floor,
        against_trend=row.against_trend or False,
        pooled=read_pooled(row.pooled, row.n),
        interactions=tuple(
            SegmentInteraction(tuple(one.fields), one.segments, number(one.p), one.significant)
            for one in row.interactions or ()
        ),
        rest=RestComparison(number(row.rest.p), number(row.rest.p_adjusted), row.rest.differs) if row.rest else None,
        depths=(row.depths[0], row.depths[1]) if row.depths else None,
        same_lists=row.identical_lists is True,
        family=None
        if family is None
        else Family(family.method, family.size, family.over, family.metrics, family.untested or 0),
        primary=row.primary,
    )
    # The file says what these queries can detect; it does not hold the spread that this is worked out from.
    vars(decision).update(detectable=number(row.smallest_detectable), needed=row.queries_needed)
    return decision


def read_pooled(pooled: PooledJson | UnsetType, n: int) -> Interval | None:
    """A pooled mean of a document."""
    if not pooled:
        return None
    low, high = pooled.ci or (None, None)
    return Interval(number(pooled.mean), number(low), number(high), POOLED, n)
