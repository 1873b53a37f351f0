"""What a rule looks at: intervals of the measured values over the queries that are not explained yet."""

from __future__ import annotations

import math
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from karat.records import dataclass
from karat.stats.groups import intervals
from karat.stats.intervals import Interval, standard_error
from karat.stats.quantiles import grouped_quantiles, quantile_of
from karat.stats.ratios import ratio_interval
from karat.stats.resample import Units, mean_of
from karat.verbs.diagnose.findings import OF_REST
from karat.verbs.diagnose.signals import Signals, have_relevant_gold

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from karat.results.sampling import Segment

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

TOTAL = "total"
UNBOUNDED = ("returned", "relevant", "relevant@5", "rerank gain", "gap to docs")
"""Counts and differences; every other value is a share."""
TAIL = 3.0
"""Time beyond so many medians of its stage is in the tail."""


@dataclass(frozen=True)
class View:
    """The measured values over some of the queries, and the segment or stage in question, if any."""

    signals: Signals
    rows: Mask
    """The queries with relevant gold that were retrieved for, and whose loss no earlier finding explains."""
    values: Mapping[str, Floats]
    by_judge: Mapping[str, Floats] = field(default_factory=dict)
    """Those of gold + judge, for rules that take them."""
    judged: bool = False
    """Whether the values are those of gold + judge, where there are any."""
    segment: Segment | None = None
    stage: str = ""
    family: int = 1
    """Among how many segments this one is looked for."""
    explained_by: tuple[str, ...] = ()
    """The codes of the findings whose queries are left out."""
    without_newer: bool = False
    """Whether the values are without docs newer than as_of."""

    @classmethod
    def of(cls, signals: Signals) -> View:
        """All queries that rules can speak of, but for those that the retrieval gate skips."""
        rows = have_relevant_gold(signals.values) & ~_unasked(signals)
        return cls(signals, rows, signals.values, signals.by_judge)

    @property
    def subject(self) -> str:
        """What the finding is about, where a rule looks at several."""
        return self.segment.name if self.segment is not None else self.stage

    @property
    def scope(self) -> str:
        """What the values are over: how many queries, which are left out, and of which lists."""
        if self.stage:
            return f"all {len(self.query_ids):,} queries of the log"
        total, rows = len(self.rows), int(self.rows.sum())
        aside = []
        if empty := total - int(have_relevant_gold(self.values).sum()):
            aside.append(f"{empty:,} without relevant gold")
        unasked = have_relevant_gold(self.values) & _unasked(self.signals) & ~self.rows
        needed = unasked & (self.values.get("skipped", np.zeros(total)) == 1)
        for some, what in (
            (needed, "that the retrieval gate skips"),
            (unasked & ~needed, "that rightly skip retrieval"),
        ):
            if some.any():
                aside.append(f"{int(some.sum()):,} {what}")
        if self.explained_by:
            others = "another finding" if len(self.explained_by) == 1 else "other findings"
            aside.append(f"{total - empty - int(unasked.sum()) - rows:,} of {others} ({', '.join(self.explained_by)})")
        text = f"{rows:,} of {total:,} queries; set aside: {', '.join(aside)}" if aside else f"all {total:,} queries"
        newer = "; gold, stages and final lists without docs newer than as_of" if self.without_newer else ""
        return text + newer

    @cached_property
    def inside(self) -> Mask:
        """The queries of the segment, or the misrouted ones."""
        rows = np.zeros(len(self.rows), dtype=bool)
        if self.segment is not None:
            rows[self.segment.rows] = True
        else:
            rows = self.values["misrouted"] == 1
        return rows & self.rows

    @property
    def query_ids(self) -> Sequence[str]:
        """The queries that a loss is of: all of the log where a stage is in question, else those with gold."""
        return self.signals.timed_ids if self.stage else self.signals.query_ids

    @property
    def ndcg(self) -> Floats:
        """By which queries that lose the same are ordered; of those without gold there is none."""
        known = dict(zip(self.signals.query_ids, self.signals.values["ndcg@10"].tolist(), strict=True))
        return np.array([known.get(q, math.nan) for q in self.query_ids])

    @cached_property
    def units(self) -> Units:
        return self.signals.sampling.units(self.query_ids)

    @cached_property
    def _shares(self) -> Mapping[str, Interval]:
        return self._intervals([name for name in self.values if name not in UNBOUNDED])

    @cached_property
    def _unbounded(self) -> Mapping[str, Interval]:
        """From the same resamples, which only a rule that looks at one of them has to wait for."""
        return self._intervals([name for name in self.values if name in UNBOUNDED])

    def _intervals(self, names: Sequence[str]) -> Mapping[str, Interval]:
        sampling = self.signals.sampling
        estimates = intervals(
            np.array([self.values[n][self.rows] for n in names]),
            self.units.take(self.rows),
            bounds=[(-math.inf, math.inf) if n in UNBOUNDED else (0.0, 1.0) for n in names],
            confidence=sampling.confidence,
            resamples=sampling.resamples,
            seed=sampling.seed,
        )
        return dict(zip(names, estimates, strict=True))

    def interval(self, name: str) -> Interval | None:
        """The interval of a value; None where it was not signals."""
        if name == "gap":
            return self._gaps[self.gap_in]
        if name in ("share of time", "tail", "time in the tail"):
            return self._time(name)
        return (self._unbounded if name in UNBOUNDED else self._shares).get(name)

    def mean(self, name: str) -> float:
        """The mean of a value over the queries in view."""
        return mean_of(self.values[name][self.rows], self.units.take(self.rows))

    def label(self, name: str) -> str:
        """How a value is written."""
        labels = self.signals.labels
        if name == "gap":
            return f"{labels.get(self.gap_in, self.gap_in)}{OF_REST}"
        return labels.get(name, name)

    @cached_property
    def _gaps(self) -> Mapping[str, Interval]:
        """The gap in recall@5 and in the pool: after a reranker that fails everywhere only the latter shows one."""
        names = [n for n in ("recall@5", "pool") if n in self.values]
        return {name: self._gap(name, self.family * len(names)) for name in names}

    @cached_property
    def gap_in(self) -> str:
        """The value in which the queries in question fall behind most clearly."""
        gaps = self._gaps
        return min(gaps, key=lambda n: gaps[n].high if gaps[n].high == gaps[n].high else math.inf)

    @cached_property
    def rest(self) -> float:
        """The mean of that value over the queries in view that are not in question."""
        others = self.rows & ~self.inside
        return mean_of(self.values[self.gap_in][others], self.units.take(others))

    def sides(self, name: str) -> tuple[float, float] | None:
        """Of the gap: the value of the queries in question, and that of the rest."""
        if name != "gap":
            return None
        return mean_of(self.values[self.gap_in][self.inside], self.units.take(self.inside)), self.rest

    def _gap(self, name: str, family: int) -> Interval:
        """A value of the queries in question − that of the rest (Welch), as wide as their number asks (Bonferroni)."""
        from karat.stats.special import stdtrit

        recall, parts = self.values[name], []
        for rows in (self.inside, self.rows & ~self.inside):
            units = self.units.take(rows)
            error, count = standard_error(recall[rows], units) if rows.any() else (math.nan, 0)
            parts.append((mean_of(recall[rows], units) if rows.any() else math.nan, error, count))
        (here, e1, n1), (there, e2, n2) = parts
        n = int(self.inside.sum())
        if min(n1, n2) < 2:
            return Interval(here - there, math.nan, math.nan, "none", n)
        # A spread of 0 in a few queries says nothing: the least is that of one query that differs.
        e1, e2 = max(e1, 1 / n1 / math.sqrt(n1)), max(e2, 1 / n2 / math.sqrt(n2))
        error = math.hypot(e1, e2)
        freedom = error**4 / (e1**4 / (n1 - 1) + e2**4 / (n2 - 1))
        tail = (1 - self.signals.sampling.confidence) / 2 / family
        half = float(stdtrit(freedom, 1 - tail)) * error
        gap = here - there  # of two shares: it cannot leave −1 to 1
        return Interval(gap, max(gap - half, -1.0), min(gap + half, 1.0), "welch", n)

    def _time(self, name: str) -> Interval | None:
        mine, how = self.stage_time, self.signals.sampling
        if name == "tail":
            every = [np.arange(len(mine))]
            median, late = (
                grouped_quantiles(
                    mine, q, self.units, every, confidence=how.confidence, resamples=how.resamples, seed=how.seed
                )[0]
                for q in (0.5, 0.95)
            )
            if not median.high > 0 or not median.estimate > 0:
                return None
            # Cautious: the low end of the one over the high end of the other.
            high = late.high / median.low if median.low > 0 else math.nan
            return Interval(late.estimate / median.estimate, late.low / median.high, high, late.method, late.n)
        if name == "time in the tail":
            whole = np.nan_to_num(self.total)
            return ratio_interval(
                np.where(whole > 0, self.time_in_tail, 0.0),
                whole,
                self.units,
                confidence=how.confidence,
                resamples=how.resamples,
                seed=how.seed,
            ).clip(0.0, 1.0)
        if len([s for s in self.signals.latency if s != TOTAL]) < 2:
            return None  # the only stage takes all of the time
        return intervals(
            np.where(self.total > 0, mine / self.total, np.nan)[None, :],
            self.units,
            bounds=[(0.0, 1.0)],
            confidence=how.confidence,
            resamples=how.resamples,
            seed=how.seed,
        )[0]

    @property
    def stage_time(self) -> Floats:
        """The time of each query in the stage."""
        return self.signals.latency[self.stage]

    @cached_property
    def total(self) -> Floats:
        """The time of each query in all, which is no less than that of any of its stages."""
        latency = self.signals.latency
        stages = np.array([t for s, t in latency.items() if s != TOTAL])
        # A stage that a query did not go through took it no time.
        summed = np.where(np.isnan(stages).all(axis=0), np.nan, np.nansum(stages, axis=0))
        total = latency.get(TOTAL, summed)
        return np.where(np.isnan(total), np.nan, np.fmax(total, np.fmax.reduce(stages, axis=0)))

    @cached_property
    def time_in_tail(self) -> Floats:
        """The time of each query in the tail of the stage: what it takes beyond the median, where that is much."""
        mine = self.stage_time
        median = quantile_of(mine, 0.5, self.units.weight)
        return np.where(mine > TAIL * median, mine - median, 0.0)

    def share_of_all_time(self, time: Floats) -> Floats:
        """A time of each query so that its mean over all is its share of the time of all."""
        there = ~np.isnan(self.total)
        return np.where(there, np.nan_to_num(time) / mean_of(self.total, self.units), 0.0)

    @property
    def _whole(self) -> View:
        """The same view, of no segment or stage."""
        return replace(self, segment=None, stage="", family=1)

    def without(self, rows: Mask, code: str) -> View:
        """The same view without queries that a finding explains."""
        codes = tuple(dict.fromkeys((*self.explained_by, code)))
        return replace(self._whole, rows=self.rows & ~rows, explained_by=codes)

    def with_newer_dropped(self) -> View:
        """The same view without docs newer than as_of, in lists and gold."""
        newly = self.signals.without_newer()
        values = {**self.values, **newly.gold}
        rows = self.rows & have_relevant_gold(values)
        return replace(self._whole, rows=rows, values=values, by_judge=newly.by_judge, without_newer=True)

    def before_gate(self) -> View:
        """The same view with the queries that the retrieval gate skips, but for those that need no retrieval."""
        if "skipped" not in self.values:
            return self
        return replace(self._whole, rows=self.rows | (have_relevant_gold(self.values) & (self.values["skipped"] == 1)))

    def with_judge(self) -> View:
        """The same view with the values of gold + judge, where there are any."""
        return replace(self, values={**self.values, **self.by_judge}, judged=True) if self.by_judge else self

    def judge(self, name: str) -> str:
        """Whose grades a value rests on beside the gold; empty where it rests on the gold alone."""
        return self.signals.judge.label if self.judged and name in self.by_judge and self.signals.judge else ""

    def about(self, *, segment: Segment | None = None, stage: str = "", family: int = 1) -> View:
        """This view of one segment or stage."""
        return replace(self, segment=segment, stage=stage, family=family)


def _unasked(signals: Signals) -> Mask:
    """Which queries the retrieval gate skips."""
    return np.array([q in signals.unasked for q in signals.query_ids], dtype=bool)
