"""Values, or changes, that are all equal and on no scale: what is said of them, in gates and comparisons alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.metrics.grammar import parse
from karat.results.figures import SAME, change_figure, figure

if TYPE_CHECKING:
    from karat.stats.aggregates import ChangeScale


def describe_equal_values(metric: str, value: float, n: int) -> str:
    """That all values are this one, and what follows."""
    return _conclude(f"all {n:,} values are {figure(metric, value).text}")


def describe_equal_changes(
    metric: str, change: float, n: int, *, scale: ChangeScale = "difference", single: bool = True, factor: float = 1.0
) -> str:
    """That all changes are equal, and what follows.

    `change` is that of the aggregate; `single` says that each query is a unit of the same weight, `factor` what the
    baseline is multiplied by.
    """
    aggregate = parse(metric).aggregate
    if factor != 1.0:
        return _conclude("all differences from the baseline are equal")
    one = change / n if aggregate == "sum" else change
    text = "0" if abs(one) <= SAME else change_figure(metric, scale, one).text
    if aggregate == "quantile":
        return _conclude(f"all resamples of these {n:,} queries differ by {text}")
    word = "ratio" if scale == "ratio" else "difference"
    return _conclude(f"all {n:,} {word}s are {text}" if single else f"the {word} of every unit is {text}")


def _conclude(equal: str) -> str:
    return f"{equal}, and without spread nothing says how far other queries may be"
