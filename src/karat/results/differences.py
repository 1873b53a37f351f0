"""Runs against a baseline on the same queries: differences, tests and what follows from them, row by row."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.metrics.grammar import parse
from karat.results.pairing import paired
from karat.stats.defaults import ALPHA
from karat.stats.groups import grouped_intervals
from karat.stats.multiple import benjamini_hochberg, holm
from karat.stats.paired import effect_size, p_value
from karat.stats.power import detectable, queries_needed
from karat.stats.quantiles import TEST, quantile_difference, quantile_of
from karat.stats.resample import mean_of
from karat.store.codec import rounded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from karat.metrics.grammar import Measure
    from karat.results.result import RunResult
    from karat.stats.intervals import Interval

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Compared:
    """One metric of a candidate against the baseline, over all queries or in one segment."""

    metric: str
    baseline: str
    candidate: str
    segment: Mapping[str, str] | None
    mean_baseline: float
    """The metric's aggregate over the queries that both runs have: a mean, a sum, a quantile."""
    mean_candidate: float
    difference: Interval
    p: Mapping[str, float]
    p_adjusted: float
    correction: str
    effect_size: float
    wins: int
    ties: int
    losses: int
    small: bool
    better_when_higher: bool | None
    significant: bool
    decided_by: str
    """The test whose p is adjusted and decides."""
    spread: float = math.nan
    """The standard deviation of the differences, where Δ is a mean (or a sum) of them."""
    alpha: float = ALPHA
    times: int = 1
    """How many means Δ is: the number of queries for a sum."""
    margin: float | None = None
    non_inferior: bool | None = None
    equivalent: bool | None = None
    noise: float | None = None
    """What a rebuild of one system alone makes, where replicates were given."""
    against_trend: bool = False
    """A segment that moves significantly against the overall difference."""

    @cached_property
    def detectable(self) -> float:
        """The smallest difference that these queries show with a power of .8."""
        return self.times * detectable(self.n, self.spread, alpha=self.alpha)

    @cached_property
    def needed(self) -> int | None:
        """The queries that would show the difference seen, with a power of .8."""
        if self.delta != self.delta or self.spread != self.spread:
            return None
        return queries_needed(self.delta / self.times, self.spread, alpha=self.alpha)

    @property
    def delta(self) -> float:
        return self.difference.estimate

    @property
    def n(self) -> int:
        return self.difference.n

    @property
    def inside_noise(self) -> bool | None:
        """Whether the difference is no larger than what a rebuild makes."""
        return None if self.noise is None else abs(self.delta) <= self.noise

    def as_json(self) -> dict[str, Any]:
        """This comparison as the JSON document has it."""
        found = self.difference
        out = {
            "metric": self.metric,
            "baseline": self.baseline,
            "candidate": self.candidate,
            "mean_baseline": rounded(self.mean_baseline),
            "mean_candidate": rounded(self.mean_candidate),
            "delta": rounded(found.estimate),
            "ci": [rounded(found.low), rounded(found.high)] if found.low == found.low else None,
            "ci_method": found.method,
            "p": {name: rounded(p) for name, p in self.p.items()},
            "p_adjusted": rounded(self.p_adjusted),
            "correction": self.correction,
            "decided_by": self.decided_by,
            "significant": self.significant,
            "effect_size": rounded(self.effect_size) if math.isfinite(self.effect_size) else None,
            "wins": self.wins,
            "ties": self.ties,
            "losses": self.losses,
            "n": found.n,
            "segment": dict(self.segment) if self.segment is not None else None,
            "smallest_detectable": rounded(self.detectable),
            "queries_needed": self.needed,
        }
        if self.segment is not None:
            out |= {"small": self.small, "against_trend": self.against_trend}
        if self.margin is not None:
            out |= {"margin": self.margin, "non_inferior": self.non_inferior, "equivalent": self.equivalent}
        if self.noise is not None:
            out |= {"noise_floor": rounded(self.noise), "inside_noise": self.inside_noise}
        return out


@dataclass(frozen=True)
class Versus:
    """A baseline, and the choices that all comparisons with it share. Without tests the interval decides."""

    base: RunResult
    tests: tuple[str, ...]
    correction: str
    alpha: float
    margin: float | None
    draws: int
    floors: Mapping[str, float]
    threads: int

    def against(self, run: RunResult, *, segments: bool = True) -> list[Compared]:
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
            place: dict[str, Any] = {
                "by": slices[g - 1].by if g else None,
                "small": bool(g) and len(rows) < sampling.minimum,
            }
            for m in measures:
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
    ) -> Compared:
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
    ) -> Compared:
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
    ) -> Compared:
        higher, first, wide = measure.metric.higher_is_better, intervals[0], intervals[-1]
        sign = -1 if higher is False else 1
        won, lost = (np.count_nonzero(sign * difference * s > 0) for s in (1, -1))
        non_inferior = equivalent = None
        if self.margin is not None and wide.low == wide.low:
            worst = wide.low if higher is not False else -wide.high
            non_inferior = worst > -self.margin
            equivalent = wide.low > -self.margin and wide.high < self.margin
        return Compared(
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
            significant=not self.tests and (first.low > 0 or first.high < 0),
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
            return "interval"
        return "randomization" if "randomization" in self.tests else self.tests[0]


def adjusted(rows: list[Compared], correction: str, alpha: float) -> list[Compared]:
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
        for i, adjusted in zip(members, steps, strict=True):
            found = rows[i].difference
            decided = adjusted < alpha and found.n > 1
            out[i] = replace(rows[i], p_adjusted=adjusted, correction=used, significant=decided)
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
