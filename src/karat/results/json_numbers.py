"""Numbers as JSON documents hold them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Number = float | None
Pair = Annotated[list[float | None], Meta(min_length=2, max_length=2)] | None
Ends = Annotated[
    Pair,
    Meta(
        description="The ends of the interval. An end is null where too few queries bound it on that side, and all "
        "is null where there is no interval or neither end is known."
    ),
]

EFFECTIVE = (
    "How many units (queries, or conversations) of equal weight say as much as these queries, after Kish; "
    "left out where every query is a unit and all weights are equal."
)
