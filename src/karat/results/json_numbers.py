"""Numbers as JSON documents hold them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Number = float | None
Ends = Annotated[list[float | None], Meta(min_length=2, max_length=2)] | None
"""An end is null where too few queries bound a quantile on that side."""


EFFECTIVE = (
    "How many units (queries, or conversations) of equal weight say as much as these queries, after Kish; "
    "left out where every query is a unit and all weights are equal."
)
