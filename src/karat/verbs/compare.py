"""Which is better, and how sure: runs against a baseline on the same queries."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np

from karat.align.stream import default_threads
from karat.config.options import Options, Settings, takes_options
from karat.errors import InputError, UsageError, nearest
from karat.metrics.grammar import ByMeasure, Measure, choose_primary, parse, parse_all
from karat.records import dataclass
from karat.results.decisions import Decision, describe_families
from karat.results.differences import PairedComparison, decide, unit_of_margin
from karat.results.figures import figure, p_text
from karat.results.fingerprints import note_forced, of_candidates
from karat.results.judged_differences import ByBasis, decide_by_judge
from karat.results.pairing import Verified, check_comparable, lack_of_common_judge
from karat.results.remarks import FEW, few_cases, few_queries
from karat.results.result import Result, RunResult
from karat.results.run_table import BASIS_SUFFIX
from karat.results.saved import is_saved, load_any, save
from karat.results.segment_changes import describe_shared_units
from karat.results.table import Documented, Table
from karat.results.values import statistic_of
from karat.results.words import plural, queries_text, segment_text
from karat.stats.changes import p_with_one_more
from karat.stats.defaults import ALPHA, DRAWS
from karat.stats.intervals import checked_share
from karat.stats.multiple import randomised_hsd
from karat.stats.paired import TESTS
from karat.store.codec import rounded
from karat.verbs.evaluate import evaluate
from karat.verbs.warn import gives_warnings

if TYPE_CHECKING:
    from karat.results.document import DocumentJson, PairsJson
    from karat.results.fingerprints import Difference
    from karat.results.remarks import Remark


DEFAULT_TESTS = ("t", "randomization")
CORRECTIONS = ("holm", "bh", "none")


@dataclass(frozen=True)
class Comparison(Documented):
    """Everything that was compared, and the results it rests on."""

    result: Result
    baseline: str
    rows: tuple[Decision, ...]
    alpha: float
    pairs: Mapping[str, PairwiseTest] = field(default_factory=dict)
    """By metric: p of every pair of runs by randomised HSD, and the number of draws."""
    own_notes: tuple[str, ...] = ()
    forced: tuple[Difference, ...] = ()
    """What differs between the results and was overridden by force."""
    system: tuple[Difference, ...] = ()
    """What differs between the systems under test."""
    by_judge: ByBasis = field(default_factory=dict)
    """The same with a judge's grades, where judgments were named."""

    def __repr__(self) -> str:
        changes = (f"{r.candidate} {r.metric} {r.figure.text}" for r in self.rows if r.segment is None)
        return f"Comparison(against {self.baseline}: {', '.join(changes)})"

    def table(self) -> Table:
        """A row for each decision: Δ with its interval, p, p adjusted, and what is decided."""
        table = decisions_table(self.rows, self.by_judge)
        decided = [row.statement for row in self.rows if row.primary and row.segment is None]
        differences = [f"differs from the baseline: {difference}" for difference in self.system]
        return replace(table, notes=(*decided, *self.notes, *differences))

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What every output says of the data behind the figures."""
        return self.result.remarks

    def __getitem__(self, metric: str) -> Decision:
        """The overall comparison of one metric; with several candidates use `of`."""
        rows = self.of(metric)
        if len(rows) != 1:
            raise UsageError(f"{len(rows)} candidates were compared; choose one: comparison.of({metric!r}, 'name')")
        return rows[0]

    def of(self, metric: str, candidate: str | None = None) -> tuple[Decision, ...]:
        """The overall comparisons of one metric."""
        name = ByMeasure({m: m for m in self.result.metrics})[metric]
        return tuple(
            r
            for r in self.rows
            if r.metric == name and r.segment is None and (candidate is None or r.candidate == candidate)
        )

    def differences(self, metric: str, candidate: str | None = None) -> list[tuple[str, float, float, float]]:
        """Query, baseline, candidate and difference, the largest differences first."""
        name = candidate or next(r.name for r in self.result.runs if r.name != self.baseline)
        base, cand = self.result[self.baseline].per_query(metric), self.result[name].per_query(metric)
        rows = [(q, base[q], cand[q], cand[q] - base[q]) for q in base if q in cand]
        return sorted((r for r in rows if r[3] == r[3]), key=lambda r: (-abs(r[3]), r[0]))

    def document(self) -> DocumentJson:
        """The document that `--json` writes."""
        from msgspec import UNSET, structs

        from karat.results.document import BaselineJson
        from karat.results.summary import differences_json

        return structs.replace(
            self.result.document(),
            kind="comparison",
            baseline=BaselineJson(self.baseline, None),
            comparisons=[row.document() for row in self.rows],
            comparisons_by_judge={b: [row.document() for row in rows] for b, rows in self.by_judge.items()} or UNSET,
            pairs={m: p.document() for m, p in self.pairs.items()} or UNSET,
            notes=list(self.own_notes) or UNSET,
            forced=differences_json(self.forced),
            differences=differences_json(self.system),
        )

    def save(self, path: str, *, label: str = "") -> None:
        """Write the comparison with the full results; a name that ends in .gz is packed."""
        result = self.result.of_kept
        save(replace(self, result=result).document(), result, path, label=label)


class TestOptions(TypedDict, total=False):
    """The keyword arguments of `compare` that `evaluate` does not have."""

    primary: str | None
    tests: Sequence[str]
    correction: str
    alpha: float
    margin: float | None
    all_pairs: bool
    replicates: Any
    draws: int
    force: bool


@gives_warnings
@takes_options
def compare(
    qrels: Any,
    runs: Any,
    metrics: str | Iterable[str | Measure] | None = None,
    *,
    baseline: str | None = None,
    primary: str | None = None,
    tests: Sequence[str] = DEFAULT_TESTS,
    correction: str = "holm",
    alpha: float = ALPHA,
    margin: float | None = None,
    all_pairs: bool = False,
    replicates: Any = None,
    draws: int = DRAWS,
    force: bool = False,
    **options: Unpack[Options],
) -> Comparison:
    """Compare runs with a baseline (the first unless named), metric by metric and segment by segment.

    The differences are candidate − baseline on the same queries, with intervals, paired tests, and p adjusted over
    candidates (Holm by default) and over segments (Benjamini–Hochberg). The `primary` metric (ndcg@10, or the first)
    decides which run is better; the others are adjusted over metrics too. Of a quantile, such as latency.p90, Δ is the
    difference of the two quantiles, and interval and p come from resampling the queries of both runs together
    (`decided_by` "quantile bootstrap"); of a sum it is the difference of the sums; of a geometric mean it is the ratio
    candidate / baseline (`scale` "ratio"), tested on the logarithms of the queries' values. `margin` asks for
    non-inferiority and equivalence, of a ratio by that share (0.05 allows ×0.95), for metrics in the unit of the
    primary one; `all_pairs` for every pair of runs by randomised HSD; `replicates` are runs of one system whose spread
    is the noise floor.

    Without gold (`qrels` is None) runs are compared by what they say themselves: latency, cost, distinct docs.
    Saved results are compared too: `compare(old, new)` with a `Result` or a file each, the baseline first (of several
    runs that it holds the first one, unless `baseline` names another). Results that
    rest on different gold, queries or definitions are refused unless `force` is set.
    """
    settings = Settings.of(options)
    level = checked_share("alpha", alpha)
    chosen = _checked(tests, correction, margin)
    notes: list[str] = []
    if isinstance(qrels, Result) or is_saved(qrels):
        given = [name for name, value in {**options, "replicates": replicates}.items() if value is not None]
        if given:
            raise UsageError(f"saved results take no {', '.join(given)}; evaluate the runs again with it")
        first = _opened(qrels)
        if baseline in (names := [run.name for run in first.runs]):
            first, baseline = replace(first, runs=tuple(sorted(first.runs, key=lambda r: r.name != baseline))), None
        result, checked = _together(first, runs, metrics, force)
        if len(names) > 1:
            rest = ", ".join(run.name for run in first.runs[1:])
            notes.append(f"the first result holds {len(names)} runs: {first.runs[0].name} is compared, not {rest}")
    else:
        sources = list(runs) if isinstance(runs, Iterator) else runs
        result, checked = evaluate(qrels, sources, metrics, settings=settings), None
    if len(result.runs) < 2:
        raise UsageError(
            f"expected at least two runs to compare, found {len(result.runs)} (a file named twice counts once)"
        )
    base = _baseline(result, baseline)
    _check_margin(margin, result.metrics, choose_primary(list(result.metrics), wish=primary))
    if checked is None:
        checked = [
            check_comparable(result, r, result, base, (), force=force) for r in result.runs if r.name != base.name
        ]
    floors = noise_of(qrels, replicates, result, settings) if replicates is not None else {}
    threads = settings.engine.threads or default_threads()
    job = PairedComparison(base, chosen, correction, level, margin, draws, floors, threads, primary)
    others = [run for run in result.runs if run.name != base.name]
    rows = decide(job, others)
    shared = min(r.n for r in rows if r.segment is None)
    if shared < FEW and not few_queries(result.runs):
        notes.append(f"only {queries_text(shared)} in both runs: so few can only show large differences")
    if (cases := few_cases(base)) is not None:
        notes += _describe_detectable(rows, cases)
    main = choose_primary(list(result.metrics), wish=primary)
    notes += dict.fromkeys(text for run in others for text in describe_shared_units(base, run, main))
    apart = dict.fromkeys(r.metric for r in rows if margin is not None and r.margin is None)
    if apart:
        notes.append(f"the margin of {margin:g} is one of {main}, and not applied to {', '.join(apart)}")
    pairs = all_pairs_of(result, draws, base.sampling.seed) if all_pairs else {}
    if left_out := [m for m in result.metrics if all_pairs and m not in pairs]:
        notes.append(f"all pairs are compared by means: {', '.join(left_out)} left out")
    forced = dict.fromkeys(d for one in checked for d in one.forced)
    system = of_candidates({run.name: one.system for run, one in zip(others, checked, strict=True)})
    notes += note_forced(forced)
    by_judge = decide_by_judge(job, others) if base.by_judge is not None else {}
    if base.by_judge is not None:
        notes += [f"no differences by a judge: {lack}" for run in others if (lack := lack_of_common_judge(base, run))]
    return Comparison(result, base.name, rows, level, pairs, tuple(notes), tuple(forced), system, by_judge)


def _describe_detectable(rows: Sequence[Decision], cases: int) -> list[str]:
    """Which difference few cases can detect between the baseline and each candidate, by the primary metric."""
    known = [r for r in rows if r.primary and r.segment is None and not r.same_lists and r.detectable > 0]
    return [
        f"{plural(cases, 'case')} can detect "
        + (f"no {r.scale} in {r.metric}, however large" if r.detects_nothing else _smallest(r))
        + f" ({r.candidate} against {r.baseline})"
        for r in known
    ]


def _smallest(row: Decision) -> str:
    return f"a {row.scale} of {row.detectable_text} in {row.metric}"


def _together(
    base: Result, others: Any, metrics: str | Iterable[str | Measure] | None, force: bool
) -> tuple[Result, list[Verified]]:
    """Saved results as one: the baseline's first run, then all runs of the others; refused where they differ."""
    sources = [others] if isinstance(others, (Result, str, os.PathLike)) else list(others)
    candidates = [_opened(one) for one in sources]
    common = [n for n in base.metrics if all(n in c.metrics for c in candidates)]
    like = str(base.conventions["like"]) if "like" in base.conventions else None
    wanted = common if metrics is None else [m.name for m in parse_all(metrics, like=like)]
    if lacking := [n for n in wanted if n not in common] or (not common and ["any metric"]):
        raise InputError(
            f"{', '.join(lacking)} is not in all of these results, which share {', '.join(common) or 'none'}"
        )
    old = base.runs[0]
    new = [(c, run) for c in candidates for run in c.runs]
    checked = [check_comparable(c, run, base, old, wanted, force=force) for c, run in new]
    names = {run.name for _, run in new}
    if len(names) < len(new):
        raise InputError(f"two of these results hold a run of the same name: {', '.join(run.name for _, run in new)}")
    kept = [replace(old, name=f"{old.name} (baseline)" if old.name in names else old.name), *(run for _, run in new)]
    runs = tuple(_with_metrics(run, wanted) for run in kept)
    return replace(candidates[0], runs=runs), checked


def _opened(source: Any) -> Result:
    if isinstance(source, Result):
        return source
    if not is_saved(source):
        raise UsageError(f"{source!r}: expected a saved result, as the first one is; compare results or runs, not both")
    return load_any(source)


def _with_metrics(run: RunResult, names: Sequence[str]) -> RunResult:
    """The run with the values of these metrics, and without the notes that are about others."""
    others = tuple(f"{name}: " for name in run.values if name not in names)
    notes = tuple(text for text in run.data_notes if not text.startswith(others))
    return replace(run, values={name: run.values[name] for name in names}, data_notes=notes)


def _checked(tests: Sequence[str], correction: str, margin: float | None) -> tuple[str, ...]:
    names = (tests,) if isinstance(tests, str) else tuple(tests)
    for test in names:
        if test not in TESTS:
            near = nearest(str(test), TESTS)
            hint = f"; did you mean {near!r}?" if near else ""
            raise UsageError(f"test must be one of {', '.join(TESTS)}, found {test!r}{hint}")
    if not names:
        raise UsageError(f"expected at least one test of {', '.join(TESTS)}")
    if correction not in CORRECTIONS:
        raise UsageError(f"correction must be one of {', '.join(CORRECTIONS)}, found {correction!r}")
    if margin is not None and not 0 < margin < math.inf:
        raise UsageError(f"margin must be a number above 0, found {margin!r}")
    return names


def _check_margin(margin: float | None, metrics: Iterable[str], primary: str) -> None:
    """Refuse a margin that allows anything: of a ratio it is a share below 1, and of a scale less than its length."""
    if margin is None:
        return
    for measure in map(parse, metrics):
        if margin >= 1 and statistic_of(measure).change == "ratio":
            raise UsageError(
                f"{measure} is compared as a ratio, and its margin is a share below 1, such as 0.05; found {margin:g}"
            )
        low, high = measure.metric.bounds
        alike = unit_of_margin(measure) == unit_of_margin(parse(primary))
        if alike and measure.aggregate == "mean" and high is not None and margin >= high - low:
            raise UsageError(
                f"{measure} is from {low:g} to {high:g}, and a margin of {margin:g} allows any difference; "
                "state a smaller one, such as 0.01"
            )


def _baseline(result: Result, name: str | None) -> RunResult:
    return result.runs[0] if name is None else result[name]


@dataclass(frozen=True)
class PairwiseTest:
    """The p of every pair of runs by randomised HSD, and the number of draws."""

    draws: int
    p: Mapping[str, Mapping[str, float]]
    block: Literal["query", "conversation"] = "query"
    """What the values of all runs are permuted within."""

    @property
    def method(self) -> str:
        """The test in words."""
        return describe_tests([self])

    def document(self) -> PairsJson:
        """This test as the JSON document has it."""
        from karat.results.document import PairsJson

        return PairsJson(self.draws, {a: {b: rounded(p) for b, p in row.items()} for a, row in self.p.items()})


def describe_tests(tests: Collection[PairwiseTest]) -> str:
    """The test of several metrics in words; they may differ in their draws."""
    fewest = min(tests, key=lambda test: test.draws)
    least = "at least " if any(test.draws > fewest.draws for test in tests) else ""
    return f"randomised Tukey HSD, blocked by {fewest.block}, {least}{fewest.draws:,} draws"


def all_pairs_of(result: Result, draws: int, seed: int) -> dict[str, PairwiseTest]:
    """By metric: p of every pair of runs by randomised HSD, which compares means, and the number of draws."""
    shared = set(result.runs[0].query_ids).intersection(*(r.query_ids for r in result.runs[1:]))
    out: dict[str, PairwiseTest] = {}
    first = result.runs[0]
    units = first.sampling.units([q for q in first.query_ids if q in shared])
    block: Literal["query", "conversation"] = "conversation" if len(units) < len(shared) else "query"
    for name in result.metrics:
        statistic = statistic_of(parse(name))
        if statistic.aggregate == "quantile":
            continue
        values = np.array([[v for q, v in r.per_query(name).items() if q in shared] for r in result.runs])
        scores, own = statistic.scores(values), units if statistic.weighted else units.unweighted()
        p, used = randomised_hsd(scores, own, draws=draws, seed=seed)
        p = np.maximum(p, p_with_one_more(scores, statistic.shares(values), own, statistic.change_bounds()))
        names = [r.name for r in result.runs]
        out[name] = PairwiseTest(
            used, {a: {b: float(p[i, j]) for j, b in enumerate(names) if i != j} for i, a in enumerate(names)}, block
        )
    return out


def noise_of(qrels: Any, replicates: Any, result: Result, settings: Settings) -> dict[str, float]:
    """What two builds of one system differ by, at the most usual: t · √2 · the spread of its replicates' means.

    Of geometric means it is a ratio above 1, from the spread of their logarithms.
    """
    from karat.stats.special import stdtrit

    whole = replace(settings, intervals=replace(settings.intervals, by=None))
    again = evaluate(qrels, replicates, [parse(name) for name in result.metrics], settings=whole)
    if len(again.runs) < 2:
        raise UsageError(f"the noise floor needs at least two replicates of one system, found {len(again.runs)}")
    out = {}
    for name in result.metrics:
        ratio = statistic_of(parse(name)).change == "ratio"
        means = np.array([math.log(r.mean[name]) if ratio else r.mean[name] for r in again.runs])
        floor = float(stdtrit(len(means) - 1, 0.975)) * math.sqrt(2) * float(means.std(ddof=1))
        out[name] = math.exp(floor) if ratio else floor
    return out


def overall_table(rows: Iterable[Decision], *, title: str = "") -> tuple[Table, ...]:
    """The decisions over all queries, to stand below a table of values; nothing where nothing was compared."""
    overall = [row for row in rows if row.segment is None]
    if not overall:
        return ()
    table = decisions_table(overall)
    head = f"{title}: " if title else ""
    place = table.heads.index("segment")
    heads, *cells = ([*line[:place], *line[place + 1 :]] for line in (table.heads, *table.cells))
    return (
        replace(
            table,
            heads=heads,
            cells=cells,
            caption=f"{head}against {overall[0].baseline}; {table.caption or 'no p is adjusted'}",
        ),
    )


def decisions_table(rows: Sequence[Decision], by_judge: ByBasis | None = None) -> Table:
    """Decisions as a table; a reader sees those over all queries first, those by a judge's grades beside the gold's.

    In a data frame the column `judged` tells them apart.
    """
    every = [("none", d) for d in rows] + [(basis, d) for basis, own in (by_judge or {}).items() for d in own]
    columns = (
        *("candidate", "baseline", "metric", "segment", *(["judged"] if by_judge else []), "n", "baseline_value"),
        *(
            "candidate_value",
            "delta",
            "scale",
            "low",
            "high",
            "p",
            "p_adjusted",
            "correction",
            "significant",
            "outcome",
        ),
    )
    values = [
        (d.candidate, d.baseline, d.metric, segment_text(d.segment) or None, *([basis] if by_judge else []))
        + (d.n, d.mean_baseline, d.mean_candidate, d.delta, d.scale, d.difference.low, d.difference.high)
        + (d.p.get(d.decided_by, math.nan), d.p_adjusted, d.correction, d.significant, d.outcome)
        for basis, d in every
    ]
    place = {pair: i for i, pair in enumerate(dict.fromkeys((d.candidate, d.metric) for _, d in every))}
    baseline = rows[0].baseline if rows else "baseline"
    heads = ("candidate", "metric", "segment", baseline, "value", "Δ", "p", "p adj.", "outcome")
    cells = [
        (
            d.candidate,
            d.metric + BASIS_SUFFIX[basis],
            segment_text(d.segment),
            figure(d.metric, d.mean_baseline).text,
            figure(d.metric, d.mean_candidate).text,
            str(d.figure),
            p_text(d.p.get(d.decided_by, math.nan)),
            d.p_adjusted_text,
            d.outcome,
        )
        for basis, d in sorted(
            every, key=lambda one: (one[1].segment is not None, place[one[1].candidate, one[1].metric])
        )
    ]
    return Table(columns, values, heads, cells, describe_families(rows))
