"""What metrics that look beyond the judged docs need: the top docs of each query, and what a run log says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64]
    Log = Mapping[str, Mapping[str, Values]]
    """{"latency": {stage: a value per query}, "cost": {key: a value per query}}; NaN where a query has none."""


@dataclass(frozen=True)
class Items:
    """The top docs of each query, judged or not, sorted by query and rank.

    `first` marks those of which no chunk stands above. `version` is the day (as an ordinal) of each item's
    doc_version, and `as_of` that of each query's as_of; NaN where there is none.
    """

    query: NDArray[np.int64]
    rank: NDArray[np.int64]
    first: NDArray[np.bool_]
    version: Values
    as_of: Values
    score: Values | None = None
    """The score of each item, NaN for none; where it was asked for."""
