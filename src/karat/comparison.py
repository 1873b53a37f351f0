"""Which is better, and how sure: runs against a baseline on the same queries."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.align.stream import default_threads
from karat.errors import UsageError, nearest
from karat.evaluation import evaluate
from karat.metrics.grammar import ByMeasure, parse
from karat.output import rounded
from karat.result import FORMAT_VERSION
from karat.several import all_pairs_of, noise_of
from karat.stats.groups import grouped_intervals
from karat.stats.intervals import checked_share
from karat.stats.many import benjamini_hochberg, holm
from karat.stats.paired import DRAWS, TESTS, effect_size, p_value
from karat.stats.power import detectable, queries_needed
from karat.stats.quantiles import TEST, quantile_difference, quantile_of
from karat.stats.resample import mean_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.metrics.grammar import Measure
    from karat.result import Result, RunResult
    from karat.stats.intervals import Interval

    Floats = NDArray[np.float64]

DEFAULT_TESTS = ("t", "randomization")
CORRECTIONS = ("holm", "bh", "none")
FEW = 25


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
    detectable: float
    """The smallest difference that these queries show with a power of .8."""
    needed: int | None
    """The queries that would show the difference seen, with a power of .8."""
    margin: float | None = None
    non_inferior: bool | None = None
    equivalent: bool | None = None
    noise: float | None = None
    """What a rebuild of one system alone makes, where replicates were given."""
    against_trend: bool = False
    """A segment that moves significantly against the overall difference."""

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
            "metric": self.metric, "baseline": self.baseline, "candidate": self.candidate,
            "mean_baseline": rounded(self.mean_baseline), "mean_candidate": rounded(self.mean_candidate),
            "delta": rounded(found.estimate),
            "ci": [rounded(found.low), rounded(found.high)] if found.low == found.low else None,
            "ci_method": found.method, "p": {name: rounded(p) for name, p in self.p.items()},
            "p_adjusted": rounded(self.p_adjusted), "correction": self.correction, "decided_by": self.decided_by,
            "significant": self.significant,
            "effect_size": rounded(self.effect_size) if math.isfinite(self.effect_size) else None,
            "wins": self.wins, "ties": self.ties, "losses": self.losses, "n": found.n,
            "segment": dict(self.segment) if self.segment is not None else None,
            "smallest_detectable": rounded(self.detectable), "queries_needed": self.needed,
        }  # fmt: skip
        if self.segment is not None:
            out |= {"small": self.small, "against_trend": self.against_trend}
        if self.margin is not None:
            out |= {"margin": self.margin, "non_inferior": self.non_inferior, "equivalent": self.equivalent}
        if self.noise is not None:
            out |= {"noise_floor": rounded(self.noise), "inside_noise": self.inside_noise}
        return out


@dataclass(frozen=True)
class Comparison:
    """Everything that was compared, and the results it rests on."""

    result: Result
    baseline: str
    rows: tuple[Compared, ...]
    alpha: float
    pairs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By metric: p of every pair of runs by randomised HSD, and the number of draws."""
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        told = (f"{r.candidate} {r.metric} {r.delta:+.4f}" for r in self.rows if r.segment is None)
        return f"Comparison(against {self.baseline}: {', '.join(told)})"

    def __getitem__(self, metric: str) -> Compared:
        """The overall comparison of one metric; with several candidates use `of`."""
        found = self.of(metric)
        if len(found) != 1:
            raise UsageError(f"{len(found)} candidates were compared; choose one: comparison.of({metric!r}, 'name')")
        return found[0]

    def of(self, metric: str, candidate: str | None = None) -> tuple[Compared, ...]:
        """The overall comparisons of one metric."""
        name = ByMeasure({m: m for m in self.result.metrics})[metric]
        return tuple(
            r for r in self.rows
            if r.metric == name and r.segment is None and (candidate is None or r.candidate == candidate)
        )  # fmt: skip

    def differences(self, metric: str, candidate: str | None = None) -> list[tuple[str, float, float, float]]:
        """Query, baseline, candidate and difference, the largest differences first."""
        name = candidate or next(r.name for r in self.result.runs if r.name != self.baseline)
        base, cand = self.result[self.baseline].per_query(metric), self.result[name].per_query(metric)
        rows = [(q, base[q], cand[q], cand[q] - base[q]) for q in base if q in cand]
        return sorted((r for r in rows if r[3] == r[3]), key=lambda r: (-abs(r[3]), r[0]))

    def as_json(self) -> dict[str, Any]:
        """The document that `--json` writes."""
        document = {**self.result.as_json(), "kind": "comparison", "format_version": FORMAT_VERSION}
        document["comparisons"] = [r.as_json() for r in self.rows]
        if self.pairs:
            document["pairs"] = dict(self.pairs)
        if self.notes:
            document["notes"] = list(self.notes)
        return document


def compare(
    qrels: Any,
    runs: Any,
    metrics: str | Iterable[str | Measure] | None = None,
    *,
    baseline: str | None = None,
    tests: Sequence[str] = DEFAULT_TESTS,
    correction: str = "holm",
    alpha: float = 0.05,
    margin: float | None = None,
    all_pairs: bool = False,
    replicates: Any = None,
    draws: int = DRAWS,
    **options: Any,
) -> Comparison:
    """Compare runs with a baseline (the first unless named), metric by metric and segment by segment.

    The differences are candidate − baseline on the same queries, with intervals from shared resamples, paired tests,
    and p adjusted over candidates (Holm by default) and over segments (Benjamini–Hochberg). Of a quantile, such as
    latency.p90, Δ is the difference of the two quantiles, and interval and p come from resampling the queries of both
    runs together (`decided_by` "quantile bootstrap"); of a sum it is the difference of the sums. `margin` asks for
    non-inferiority and equivalence; `all_pairs` for every pair of runs by randomised HSD; `replicates` are runs of
    one system whose spread is the noise floor. `options` are those of `karat.evaluate`.
    """
    level = checked_share("alpha", alpha)
    chosen = _checked(tests, correction, margin)
    result = evaluate(qrels, runs, metrics, **options)
    if len(result.runs) < 2:
        raise UsageError(
            f"expected at least two runs to compare, found {len(result.runs)} (a file named twice counts once)"
        )
    base = _baseline(result, baseline)
    floors = noise_of(qrels, replicates, result, options) if replicates is not None else {}
    threads = options.get("threads") or default_threads()
    job = _Job(base, chosen, correction, level, margin, draws, floors, threads)
    rows = [row for run in result.runs if run.name != base.name for row in job.against(run)]
    notes = []
    shared = min(r.n for r in rows if r.segment is None)
    if shared < FEW:
        notes.append(f"fewer than {FEW} queries: only large differences can be told from chance")
    pairs = all_pairs_of(result, draws, base.sampling.seed) if all_pairs else {}
    if left_out := [m for m in result.metrics if all_pairs and m not in pairs]:
        notes.append(f"all pairs are compared by means: {', '.join(left_out)} left out")
    return Comparison(result, base.name, tuple(_adjusted(rows, correction, level)), level, pairs, tuple(notes))


def _checked(tests: Sequence[str], correction: str, margin: float | None) -> tuple[str, ...]:
    listed = (tests,) if isinstance(tests, str) else tuple(tests)
    for test in listed:
        if test not in TESTS:
            near = nearest(str(test), TESTS)
            hint = f"; did you mean {near!r}?" if near else ""
            raise UsageError(f"test must be one of {', '.join(TESTS)}, found {test!r}{hint}")
    if not listed:
        raise UsageError(f"expected at least one test of {', '.join(TESTS)}")
    if correction not in CORRECTIONS:
        raise UsageError(f"correction must be one of {', '.join(CORRECTIONS)}, found {correction!r}")
    if margin is not None and not 0 < margin < math.inf:
        raise UsageError(f"margin must be a number above 0, found {margin!r}")
    return listed


def _baseline(result: Result, name: str | None) -> RunResult:
    return result.runs[0] if name is None else result[name]


@dataclass(frozen=True)
class _Job:
    """The choices that all comparisons share."""

    base: RunResult
    tests: tuple[str, ...]
    correction: str
    alpha: float
    margin: float | None
    draws: int
    floors: Mapping[str, float]
    threads: int

    def against(self, run: RunResult) -> list[Compared]:
        """All metrics of one candidate, over all queries and then by segment."""
        index = {q: i for i, q in enumerate(self.base.query_ids)}
        shared = [(index[q], i) for i, q in enumerate(run.query_ids) if q in index]
        if not shared:
            raise UsageError(f"{self.base.name} and {run.name} share no query; nothing can be paired")
        mine, theirs = (np.array(column) for column in zip(*shared, strict=True))
        ids = [self.base.query_ids[i] for i in mine]
        measures = [parse(n) for n in self.base.values]
        means = [m for m in measures if m.aggregate != "quantile"]
        base = {m: self.base.values[m.name][mine] for m in measures}
        cand = {m: run.values[m.name][theirs] for m in measures}
        sampling = run.sampling
        segments = sampling.segments(ids)
        groups = [np.arange(len(ids)), *(s.rows for s in segments)]
        units = sampling.units(ids)
        settings: dict[str, Any] = {
            "binary": [False] * len(means), "resamples": sampling.resamples, "seed": sampling.seed,
            "method": sampling.method, "threads": self.threads,
        }  # fmt: skip
        differences = np.array([cand[m] - base[m] for m in means]).reshape(len(means), len(ids))
        # Two one-sided tests at alpha are an interval at 1 − 2 alpha.
        levels = [sampling.confidence, *([1 - 2 * self.alpha] if self.margin is not None else [])]
        found = [grouped_intervals(differences, units, groups, confidence=level, **settings) for level in levels]
        out = []
        for g, rows in enumerate(groups):
            place: dict[str, Any] = {
                "by": segments[g - 1].by if g else None,
                "small": bool(g) and len(rows) < sampling.minimum,
            }
            for m in measures:
                if m.aggregate == "quantile":
                    two = quantile_difference(base[m], cand[m], m.quantile, units, rows, levels=levels,
                                              resamples=sampling.resamples, seed=sampling.seed)  # fmt: skip
                    out.append(self._quantile(m, run, base[m][rows], cand[m][rows], units.take(rows), *two, **place))
                else:
                    intervals = [one[g][means.index(m)] for one in found]
                    row = self._mean(m, run, base[m][rows], cand[m][rows], units.take(rows), intervals,
                                     seed=sampling.seed, **place)  # fmt: skip
                    out.append(row)
        return out

    def _mean(
        self, measure: Measure, run: RunResult, base: Floats, cand: Floats, units: Any, intervals: list[Interval], *,
        by: Mapping[str, str] | None, small: bool, seed: int,
    ) -> Compared:  # fmt: skip
        difference = cand - base
        both = ~np.isnan(difference)
        n = int(both.sum())
        p = {t: p_value(t, difference, units, draws=self.draws, seed=seed)[1] for t in self.tests}
        spread = float(difference[both].std(ddof=1)) if n > 1 else math.nan
        least = detectable(n, spread, alpha=self.alpha) if n > 1 else math.nan
        needed = _needed(intervals[0].estimate, spread, self.alpha)
        means = [mean_of(np.where(both, values, np.nan), units) for values in (base, cand)]
        if measure.aggregate == "sum":  # of so many queries it is so many means
            means, least = [n * mean for mean in means], n * least
            intervals = [replace(i, estimate=n * i.estimate, low=n * i.low, high=n * i.high) for i in intervals]
        return self._compared(
            measure, run, means, difference[both], intervals, by, small, p=p, p_adjusted=p[self._main()],
            effect_size=effect_size(difference, units.weight), decided_by=self._main(), detectable=least, needed=needed,
        )  # fmt: skip

    def _quantile(
        self, measure: Measure, run: RunResult, base: Floats, cand: Floats, units: Any, intervals: list[Interval],
        p: float, *, by: Mapping[str, str] | None, small: bool,
    ) -> Compared:  # fmt: skip
        """Tests, effect sizes and plans are of means of differences: of a quantile there is the bootstrap alone."""
        both = ~np.isnan(cand - base)
        values = [quantile_of(np.where(both, v, np.nan), measure.quantile, units.weight) for v in (base, cand)]
        return self._compared(
            measure, run, values, (cand - base)[both], intervals, by, small, p={TEST: p}, p_adjusted=p,
            effect_size=math.nan, decided_by=TEST, detectable=math.nan, needed=None,
        )  # fmt: skip

    def _compared(
        self, measure: Measure, run: RunResult, aggregates: list[float], difference: Floats,
        intervals: list[Interval], by: Mapping[str, str] | None, small: bool, **found: Any,
    ) -> Compared:  # fmt: skip
        higher, wide = measure.metric.higher_is_better, intervals[-1]
        sign = -1 if higher is False else 1
        won, lost = (np.count_nonzero(sign * difference * s > 0) for s in (1, -1))
        non_inferior = equivalent = None
        if self.margin is not None and wide.low == wide.low:
            worst = wide.low if higher is not False else -wide.high
            non_inferior = worst > -self.margin
            equivalent = wide.low > -self.margin and wide.high < self.margin
        return Compared(
            metric=measure.name, baseline=self.base.name, candidate=run.name, segment=by,
            mean_baseline=aggregates[0], mean_candidate=aggregates[1], difference=intervals[0],
            correction=self.correction, wins=int(won), ties=int(len(difference) - won - lost), losses=int(lost),
            small=small, better_when_higher=higher, significant=False, margin=self.margin, non_inferior=non_inferior,
            equivalent=equivalent, noise=self.floors.get(measure.name) if by is None else None, **found,
        )  # fmt: skip

    def _main(self) -> str:
        """The test whose p is adjusted and decides."""
        return "randomization" if "randomization" in self.tests else self.tests[0]


def _needed(difference: float, spread: float, alpha: float) -> int | None:
    if difference != difference or spread != spread:
        return None
    return queries_needed(difference, spread, alpha=alpha)


def _adjusted(rows: list[Compared], correction: str, alpha: float) -> list[Compared]:
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
        replace(r, against_trend=r.segment is not None and r.significant and not r.small
                and r.delta * overall_delta[r.metric, r.candidate] < 0)
        for r in out
    ]  # fmt: skip
