"""Runs against a baseline on the same queries: what differs, and whether it is significant, decided once.

`decide` is the only place that calls a difference significant. Every verb, output and page shows its decisions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.metrics.grammar import parse
from karat.results.decisions import Decision, Family
from karat.results.pairing import paired
from karat.stats.groups import grouped_intervals
from karat.stats.multiple import benjamini_hochberg, holm
from karat.stats.paired import effect_size, p_value
from karat.stats.quantiles import TEST, quantile_difference, quantile_of
from karat.stats.resample import mean_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from karat.metrics.grammar import Measure
    from karat.results.result import RunResult
    from karat.stats.intervals import Interval

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PairedComparison:
    """A baseline, and the choices that all comparisons with it share. Without tests nothing is significant."""

    base: RunResult
    tests: tuple[str, ...]
    correction: str
    alpha: float
    margin: float | None
    draws: int
    floors: Mapping[str, float]
    threads: int

    def decide(self, run: RunResult, *, segments: bool = True) -> list[Decision]:
        """All metrics of one candidate, over all queries and then by segment."""
        measures = [parse(n) for n in self.base.values if n in run.values]
        means = [m for m in measures if m.aggregate != "quantile"]
        both = paired(self.base, run, [m.name for m in measures])
        ids, contrast = both.query_ids, dict(zip(measures, both.contrast(), strict=True))
        base = dict(zip(measures, both.base, strict=True))
        cand = dict(zip(measures, both.candidate, strict=True))
        sampling = run.sampling
        slices = sampling.segments(ids) if segments else ()
        groups = [np.arange(len(ids)), *(s.rows for s in slices)]
        units = sampling.units(ids)
        settings: dict[str, Any] = {
            "binary": [False] * len(means),
            "resamples": sampling.resamples,
            "seed": sampling.seed,
            "method": sampling.method,
            "threads": self.threads,
        }
        differences = np.array([contrast[m] for m in means]).reshape(len(means), len(ids))
        # Two one-sided tests at alpha are an interval at 1 − 2 alpha.
        levels = [sampling.confidence, *([1 - 2 * self.alpha] if self.margin is not None else [])]
        found = [grouped_intervals(differences, units, groups, confidence=level, **settings) for level in levels]
        out = []
        for g, rows in enumerate(groups):
            for m in measures:
                defined = int(np.count_nonzero(~np.isnan(contrast[m][rows])))  # not all metrics are over all queries
                place: dict[str, Any] = {
                    "by": slices[g - 1].by if g else None,
                    "small": bool(g) and defined < sampling.minimum,
                }
                if m.aggregate == "quantile":
                    two = quantile_difference(
                        base[m],
                        cand[m],
                        m.quantile,
                        units,
                        rows,
                        levels=levels,
                        resamples=sampling.resamples,
                        seed=sampling.seed,
                    )
                    out.append(self._quantile(m, run, base[m][rows], cand[m][rows], units.take(rows), *two, **place))
                else:
                    intervals = [one[g][means.index(m)] for one in found]
                    row = self._mean(
                        m,
                        run,
                        base[m][rows],
                        cand[m][rows],
                        contrast[m][rows],
                        units.take(rows),
                        intervals,
                        seed=sampling.seed,
                        **place,
                    )
                    out.append(row)
        return out

    def _mean(
        self,
        measure: Measure,
        run: RunResult,
        base: Floats,
        cand: Floats,
        difference: Floats,
        units: Any,
        intervals: list[Interval],
        *,
        by: Mapping[str, str] | None,
        small: bool,
        seed: int,
    ) -> Decision:
        both = ~np.isnan(difference)
        n = int(both.sum())
        p = {t: p_value(t, difference, units, draws=self.draws, seed=seed)[1] for t in self.tests}
        spread = float(difference[both].std(ddof=1)) if n > 1 else math.nan
        means = [mean_of(np.where(both, values, np.nan), units) for values in (base, cand)]
        if measure.aggregate == "sum":  # of so many queries it is so many means
            means = [n * mean for mean in means]
            intervals = [replace(i, estimate=n * i.estimate, low=n * i.low, high=n * i.high) for i in intervals]
        return self._compared(
            measure,
            run,
            means,
            difference[both],
            intervals,
            by,
            small,
            p=p,
            p_adjusted=p.get(self._main(), math.nan),
            effect_size=effect_size(difference, units.weight),
            decided_by=self._main(),
            spread=spread,
            times=n if measure.aggregate == "sum" else 1,
        )

    def _quantile(
        self,
        measure: Measure,
        run: RunResult,
        base: Floats,
        cand: Floats,
        units: Any,
        intervals: list[Interval],
        p: float,
        *,
        by: Mapping[str, str] | None,
        small: bool,
    ) -> Decision:
        """Tests, effect sizes and plans are of means of differences: of a quantile there is the bootstrap alone."""
        both = ~np.isnan(cand - base)
        values = [quantile_of(np.where(both, v, np.nan), measure.quantile, units.weight) for v in (base, cand)]
        return self._compared(
            measure,
            run,
            values,
            (cand - base)[both],
            intervals,
            by,
            small,
            p={TEST: p},
            p_adjusted=p,
            effect_size=math.nan,
            decided_by=TEST,
        )

    def _compared(
        self,
        measure: Measure,
        run: RunResult,
        aggregates: list[float],
        difference: Floats,
        intervals: list[Interval],
        by: Mapping[str, str] | None,
        small: bool,
        **found: Any,
    ) -> Decision:
        higher, wide = measure.metric.higher_is_better, intervals[-1]
        sign = -1 if higher is False else 1
        won, lost = (np.count_nonzero(sign * difference * s > 0) for s in (1, -1))
        non_inferior = equivalent = None
        if self.margin is not None and wide.low == wide.low:
            worst = wide.low if higher is not False else -wide.high
            non_inferior = worst > -self.margin
            equivalent = wide.low > -self.margin and wide.high < self.margin
        return Decision(
            metric=measure.name,
            baseline=self.base.name,
            candidate=run.name,
            segment=by,
            mean_baseline=aggregates[0],
            mean_candidate=aggregates[1],
            difference=intervals[0],
            correction=self.correction,
            wins=int(won),
            ties=int(len(difference) - won - lost),
            losses=int(lost),
            small=small,
            better_when_higher=higher,
            significant=False,
            alpha=self.alpha,
            margin=self.margin,
            non_inferior=non_inferior,
            equivalent=equivalent,
            noise=self.floors.get(measure.name) if by is None else None,
            **found,
        )

    def _main(self) -> str:
        """The test whose p is adjusted and decides."""
        if not self.tests:
            return "none"
        return "randomization" if "randomization" in self.tests else self.tests[0]


def decide(comparison: PairedComparison, runs: Iterable[RunResult], *, segments: bool = True) -> tuple[Decision, ...]:
    """Every metric of every run against the baseline, over all queries and by segment, each decided in its family."""
    rows = [row for run in runs for row in comparison.decide(run, segments=segments)]
    return tuple(adjust(rows, comparison.correction, comparison.alpha))


def adjust(rows: list[Decision], correction: str, alpha: float) -> list[Decision]:
    """Adjust p within each metric: over the candidates, and apart from these over all their segments."""
    out = list(rows)
    families: dict[tuple[str, bool], list[int]] = {}
    for i, row in enumerate(rows):
        if row.small or row.p_adjusted != row.p_adjusted:  # shown, and never judged alone
            out[i] = replace(row, p_adjusted=math.nan, correction="none")
            continue
        families.setdefault((row.metric, row.segment is None), []).append(i)
    for (_, overall), members in families.items():
        used = correction if overall or correction == "none" else "bh"
        p = [rows[i].p_adjusted for i in members]
        steps = holm(p) if used == "holm" else benjamini_hochberg(p) if used == "bh" else p
        family = Family(used, len(members), "candidates" if overall else "segments")
        for i, p_adjusted in zip(members, steps, strict=True):
            significant = p_adjusted < alpha and rows[i].n > 1
            out[i] = replace(rows[i], p_adjusted=p_adjusted, correction=used, significant=significant, family=family)
    overall_delta = {(r.metric, r.candidate): r.delta for r in out if r.segment is None}
    return [
        replace(
            r,
            against_trend=r.segment is not None
            and r.significant
            and not r.small
            and r.delta * overall_delta[r.metric, r.candidate] < 0,
        )
        for r in out
    ]
