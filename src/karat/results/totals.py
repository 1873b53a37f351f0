"""Figures of all queries of a run where only some of them are at hand: workers of a cluster summed the others."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.stats.aggregates import Statistic
    from karat.stats.intervals import Interval
    from karat.stats.poisson_sums import SummedMean


@dataclass(frozen=True)
class Summed:
    """A mean of shares of a metric's scale, and how it becomes a figure."""

    statistic: Statistic
    shares: SummedMean

    @property
    def span(self) -> float:
        """The length of the scale."""
        low, high = self.statistic.score_bounds()
        return high - low

    def figure(self, confidence: float) -> Interval:
        """The figure of a run, with its interval."""
        low, _ = self.statistic.score_bounds()
        return self.statistic.within(_scaled(self.shares.interval(confidence), low, self.span))

    def change(self, confidence: float) -> Interval:
        """The change of a figure, from a mean of differences."""
        return self.statistic.change_within(_scaled(self.shares.interval(confidence), 0.0, self.span))

    @property
    def sides(self) -> tuple[float, float]:
        """The figures that a change is between."""
        low, _ = self.statistic.score_bounds()
        shares = (self.shares.base, self.shares.base + self.shares.mean)
        before, after = (self.statistic.to_figure(low + share * self.span, self.shares.n) for share in shares)
        return before, after


def _scaled(interval: Interval, low: float, span: float) -> Interval:
    middle, lower, upper = (low + end * span for end in (interval.estimate, interval.low, interval.high))
    return replace(interval, estimate=middle, low=lower, high=upper)


@dataclass(frozen=True)
class Totals:
    """What is known of all queries of a run, by metric; its values are those of some of them, weighted."""

    kept: int
    """How many queries' values the run holds."""
    note: str
    """What a reader of figures of all queries should know."""
    figures: Mapping[str, Summed]
    changes: Mapping[str, Mapping[str, Summed]] = field(default_factory=dict)
    """Differences from other runs, by their names."""
