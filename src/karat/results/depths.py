"""How deep the lists of runs are, and which figures that touches: cutoffs below their end, lists of unequal depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.metrics.grammar import Measure, parse
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.results.result import RunResult

_AS_IS = "or add `at any depth` to the gate"
NAMED = 3
"""Runs of one depth that a sentence names."""


@dataclass(frozen=True)
class DepthGap:
    """Lists that end above a metric's cutoff, or, for a metric without one, at different depths."""

    metric: str
    cutoff: int | None
    ends: Mapping[str, int]
    """The depth of the lists of each run that the gap is about."""

    def explains(self, outcome: str, run: str) -> bool:
        """Whether the outcome of a gate for a run may be due to depth alone.

        Longer lists never lower a metric without a cutoff: where the run's are the shorter ones it passes in spite of
        them, and where they are the longer ones it fails in spite of them.
        """
        if self.cutoff is not None:
            return True
        return outcome == ("fail" if self.ends[run] < max(self.ends.values()) else "pass")

    @property
    def reason(self) -> str:
        """Why nothing can be decided by the metric, and what to do."""
        if self.cutoff is not None:
            return f"{ends_text(self.ends)}, so {self.metric} counts nothing below it; retrieve deeper lists, {_AS_IS}"
        least = min(self.ends.values())
        unequal = f"{ends_text(self.ends)}, so {self.metric} does not compare them fairly"
        no_cutoff = parse(self.metric).metric.cutoff == "none"
        remedy = "retrieve lists of equal depth" if no_cutoff else f"use a cutoff up to {least:,}"
        return f"{unequal}; {remedy}, {_AS_IS}"


def depth_of(run: RunResult) -> int | None:
    """The length of the longest list of a run; None where its file does not say."""
    if "depth" in run.counts:
        return run.counts["depth"]
    if run.rankings is None or run.policy.selects_by_gold:
        return None
    return int(run.rankings.returned.max(initial=0))


def find_depth_gap(metric: str, runs: Sequence[RunResult]) -> DepthGap | None:
    """What is wrong with the depth of these runs for a metric; None where all its ranks are there."""
    return find_gap_of_depths(metric, {run.name: depth for run in runs if (depth := depth_of(run))})


def find_gap_of_depths(metric: str, ends: Mapping[str, int]) -> DepthGap | None:
    """The same from the depth of each run; a run that returned nothing has no depth.

    Only metrics of relevance look for docs that a longer list could hold.
    """
    measure = parse(metric)
    if not ends or not _looks_for_relevant_docs(measure):
        return None
    cutoff = cutoff_of(measure)
    if cutoff is None:
        return DepthGap(metric, None, ends) if len(set(ends.values())) > 1 else None
    short = {name: depth for name, depth in ends.items() if depth < cutoff}
    return DepthGap(metric, cutoff, short) if short else None


def _looks_for_relevant_docs(measure: Measure) -> bool:
    metric = measure.metric
    return "gold" in measure.needs and metric.higher_is_better is not None and metric.empty_gold == 0.0


def cutoff_of(measure: Measure) -> int | None:
    """The last rank that a measure counts; None where it counts all that was returned."""
    return None if measure.k is None or measure.metric.cutoff == "recall" else int(measure.k)


def describe_depths(runs: Sequence[RunResult]) -> list[str]:
    """What the depths of runs do to the figures beside them: one sentence per run, and one for unequal depths."""
    metrics = [m for m in (runs[0].values if runs else ()) if all(m in run.values for run in runs)]
    out = []
    depths: dict[str, int] = {}
    for run in runs:
        own = {run.name: depth} if (depth := depth_of(run)) else {}
        depths |= own
        short = [m for m in run.values if find_gap_of_depths(m, own) is not None]
        if short:
            verb = "counts" if len(short) == 1 else "count"
            out.append(f"{ends_text(own)}, so {', '.join(short)} {verb} nothing below it")
    several = len(set(depths.values())) > 1
    every = (find_gap_of_depths(m, depths) for m in metrics if several)
    gaps = [gap for gap in every if gap is not None and gap.cutoff is None]
    if gaps:
        verb, names = "does" if len(gaps) == 1 else "do", ", ".join(gap.metric for gap in gaps)
        out.append(f"{ends_text(gaps[0].ends)}, so {names} {verb} not compare them fairly")
    return out


def ends_text(ends: Mapping[str, int]) -> str:
    """Where lists end: `lists of bm25 end at rank 100, of splade at rank 1,000`."""
    names: dict[int, list[str]] = {}
    for name, depth in ends.items():
        names.setdefault(depth, []).append(name)
    parts: list[str] = []
    for depth, some in sorted(names.items()):
        verb = "" if parts else "end "
        parts.append(f"of {', '.join(some[:NAMED])}{', …' if len(some) > NAMED else ''} {verb}at rank {depth:,}")
    return f"lists {', '.join(parts)}"
