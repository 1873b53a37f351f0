"""Options of intervals and segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypedDict, get_args

from karat.model.option import OptionGroup, option
from karat.records import dataclass
from karat.stats.defaults import CONFIDENCE, MIN_SEGMENT, RESAMPLES, SEED, Method

Fields = str | Sequence[str | Sequence[str]]
"""One field, or several; fields that stand together are a cross."""


class IntervalOptions(TypedDict, total=False):
    """The fields of `Intervals`, as type checkers see keyword arguments."""

    by: Fields | None
    min_segment: int | None
    confidence: float | None
    method: str | None
    resamples: int | None
    seed: int | None
    sequential: bool | None


@dataclass(frozen=True, slots=True)
class Intervals(OptionGroup):
    """How sure the figures are, and over which segments."""

    PANEL: ClassVar[str] = "Intervals and segments"
    BLOCK: ClassVar[str] = "confidence"

    by: Fields | None = option(
        None,
        "Slice the queries by a field, a cross of fields (a,b), quantiles (a:4) or a field of the gold docs (gold.a).",
        kind="fields",
        key="segments.by",
        metavar="FIELD",
    )
    min_segment: int = option(
        MIN_SEGMENT, "Queries that a segment needs to be judged on its own.", key="segments.minimum", metavar="N"
    )
    confidence: float = option(CONFIDENCE, "Confidence level.", kind="share", key="confidence.level", metavar="SHARE")
    method: Method = option("auto", "How intervals are computed.", choices=get_args(Method), metavar="NAME")
    resamples: int = option(RESAMPLES, "Bootstrap resamples.", least=100, metavar="N")
    seed: int = option(SEED, "Seed of the resamples; the same seed gives the same output.", least=0, metavar="N")
    sequential: bool = option(
        False, "Intervals that stay valid however often you look; queries need a date in their field added."
    )
