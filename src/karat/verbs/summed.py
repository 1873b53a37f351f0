"""More queries than the driver of a cluster should hold: figures from sums of the workers, values of some queries."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from karat.metrics.grammar import DEFAULT_METRICS, parse_all
from karat.metrics.registry import GOLD_ALONE
from karat.model.limits import DRIVER_QUERIES
from karat.model.run import Run
from karat.results.totals import Summed, Totals
from karat.results.values import statistic_of
from karat.stats.poisson_sums import METHOD, RESAMPLES, Sums
from karat.verbs.remote import open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from karat.cluster.remote_run import RemoteRun
    from karat.cluster.summed import Bundle, GoldFrame
    from karat.config.options import Settings
    from karat.metrics.grammar import Measure
    from karat.results.result import Result

    Evaluate = Callable[..., Result]


def evaluate_by_sums(
    session: Any,
    qrels: Any,
    sources: Sequence[tuple[str | None, Any]],
    metrics: str | Iterable[str | Measure] | None,
    ks: Sequence[int] | None,
    settings: Settings,
    evaluate: Evaluate,
) -> tuple[Result | None, str]:
    """The result where the gold has too many queries for the driver; else None, and why there is none."""
    from karat.cluster.remote_run import RemoteRun
    from karat.cluster.summed import open_gold

    gold = open_gold(session, qrels, DRIVER_QUERIES.value)
    if gold is None:
        return None, ""
    measures = parse_all(DEFAULT_METRICS if metrics is None and ks is None else metrics or (), ks, settings.like)
    reason = _beyond_sums(measures, settings)
    if not reason:
        opened = [open_source(session, source, name, settings, settings.policy) for name, source in sources]
        runs = [(run, run.content) for run in opened if isinstance(run, Run) and isinstance(run.content, RemoteRun)]
        if len(runs) == len(sources):
            return _summed(gold, runs, measures, settings, evaluate), ""
        reason = "some runs are not tables, Parquet or lines that the cluster reads"
    return None, f"{gold.queries:,} queries: their values were brought to the driver, since {reason}"


def _beyond_sums(measures: Sequence[Measure], settings: Settings) -> str:
    """What sums are not enough for; empty if they are."""
    if not measures:
        return "the metrics are not named"
    for measure in measures:
        statistic = statistic_of(measure)
        low, high = statistic.score_bounds()
        if measure.needs != GOLD_ALONE or statistic.aggregate not in ("mean", "geometric mean"):
            return f"{measure} is no mean of values that judged docs determine"
        if not abs(low) + abs(high) < float("inf"):
            return f"{measure} has no largest value"
    data, policy = settings.data, settings.policy
    if given := next((n for n in ("queries", "docs", "embeddings", "ontology", "judgments") if getattr(data, n)), None):
        return f"`{given}` is read on one machine"
    if settings.intervals.by or settings.intervals.sequential:
        return "segments and sequential intervals need the values of all queries"
    if settings.intervals.method != "auto":
        return f"intervals by {settings.intervals.method} need the values of all queries"
    if policy.duplicates != "first" or policy.selects:
        return "this treatment of repeated docs needs whole lists"
    return ""


def _summed(
    gold: GoldFrame,
    runs: Sequence[tuple[Run, RemoteRun]],
    measures: Sequence[Measure],
    settings: Settings,
    evaluate: Evaluate,
) -> Result:
    from karat.cluster.kept_lists import KEPT, WORST
    from karat.cluster.remote_run import VERSION
    from karat.cluster.summed import SumTask, sum_runs
    from karat.cluster.worker import Task

    sample = gold.sample(KEPT)
    level = {run.name: run.level for run in _kept(gold, runs, measures, settings, evaluate, sample).runs}
    tasks = tuple(
        Task(
            replace(content.source, shape="columns"),
            replace(settings.policy, separator=run.separator(settings.policy)),
            level[run.name] == "doc",
            0,
            {},
            "",
            VERSION,
        )
        for run, content in runs
    )
    names = tuple(m.name for m in measures)
    bundle = sum_runs(
        gold, [content for _, content in runs], SumTask(tasks, names, settings.intervals.seed, WORST // len(runs))
    )
    worst = list(dict.fromkeys(q for run in bundle.runs for _, q in run.worst))
    among = set(worst)
    drawn = [q for q in sample if q not in among][: KEPT - len(worst)]
    result = _kept(gold, runs, measures, settings, evaluate, [*worst, *drawn])
    weights = {**dict.fromkeys(worst, 1.0), **dict.fromkeys(drawn, (gold.queries - len(worst)) / max(len(drawn), 1))}
    note = (
        f"{gold.queries:,} queries: workers summed their values; intervals and tests are by {METHOD} with "
        f"{RESAMPLES:,} resamples, within Monte-Carlo error of those of one machine"
    )
    kept = (
        f"values and lists are kept of {len(worst) + len(drawn):,} of {gold.queries:,} queries: {len(worst):,} with "
        f"the lowest {names[0]}, and {len(drawn):,} at random, weighted to stand for the others"
    )
    totals = _totals(bundle, [run.name for run, _ in runs], measures)
    whole = [
        replace(
            run,
            totals=replace(totals[run.name], kept=len(run.query_ids), note=note),
            counts={**run.counts, **counts.counts},
            sampling=replace(run.sampling, weights=weights),
            data_notes=(note, kept, *run.data_notes),
        )
        for run, counts in zip(result.runs, bundle.runs, strict=True)
    ]
    return replace(result, runs=tuple(whole))


def _kept(
    gold: GoldFrame,
    runs: Sequence[tuple[Run, RemoteRun]],
    measures: Sequence[Measure],
    settings: Settings,
    evaluate: Evaluate,
    query_ids: Sequence[str],
) -> Result:
    """The result of some queries alone, as if there were no others."""
    some = {run.name: replace(run, content=rows.only(query_ids)) for run, rows in runs}
    return evaluate(gold.only(query_ids), some, list(measures), settings=settings)


def _totals(bundle: Bundle, names: Sequence[str], measures: Sequence[Measure]) -> dict[str, Totals]:
    """What the sums say of each run, and of its differences from the others."""
    sums, size = Sums.from_bytes(bundle.sums), len(measures)
    kinds = [statistic_of(m) for m in measures]

    def block(number: int) -> dict[str, Summed]:
        columns = (sums.column(number * size + i) for i in range(size))
        return {m.name: Summed(s, c) for m, s, c in zip(measures, kinds, columns, strict=True)}

    changes: dict[str, dict[str, dict[str, Summed]]] = {name: {} for name in names}
    for place, (before, after) in enumerate(combinations(names, 2), start=len(names)):
        changes[after][before] = block(place)
        changes[before][after] = {m: replace(s, shares=s.shares.reversed()) for m, s in block(place).items()}
    return {name: Totals(0, "", block(i), changes[name]) for i, name in enumerate(names)}
