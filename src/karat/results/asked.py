"""Which queries a run was asked, which of them it does not answer, and of which it does not say what they took."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.grammar import Measure, parse
from karat.model.log_names import AMOUNTS
from karat.model.log_steps import did_not_run
from karat.results.values import rankings_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karat.model.queries import Queries
    from karat.model.rankings import Rankings
    from karat.results.result import RunResult


def queries_with_value(run: RunResult, metric: str) -> list[str]:
    """The queries that a run has a value of a metric for."""
    return [run.query_ids[i] for i in np.flatnonzero(~np.isnan(run.values[metric])).tolist()]


def is_logged(measure: Measure) -> bool:
    """Whether a metric's values are numbers that a log should hold for every query: latency and cost."""
    return any(kind in measure.needs for kind in AMOUNTS)


def find_idle(measure: Measure, rankings: Rankings) -> frozenset[str]:
    """The queries whose lines say that they took no latency or cost of this kind, because the step did not run."""
    whole = rankings.whole
    if whole is None or whole.log is None or not is_logged(measure):
        return frozenset()
    step = str(measure.param(measure.metric.dotted[0])) if "latency" in measure.needs else ""
    idle = did_not_run(step, whole.log, len(whole)) & np.isnan(measure(whole))
    return frozenset(whole.query_ids[i] for i in np.flatnonzero(idle).tolist())


def find_unknown(run: RunResult, metric: str) -> list[str]:
    """The queries that a run was asked and has no value of a metric for, though there may be one.

    A query whose line lacks its latency or cost is as unknown as one without a line, unless the line says that the
    step did not run. What metrics of lists leave undefined follows from the list. `missing: skip` judges the others.
    """
    measure = parse(metric)
    if run.policy.missing == "skip" or not measure.over_whole_run:
        return []
    lacking = [run.query_ids[i] for i in np.flatnonzero(np.isnan(run.values[metric])).tolist()]
    if is_logged(measure):
        idle = run.idle.get(metric, frozenset())
        return [q for q in lacking if q not in idle]
    rankings = run.rankings
    if rankings is None:
        return []
    empty = {rankings.query_ids[i] for i in np.flatnonzero(rankings.returned <= 0).tolist()}
    return [q for q in lacking if q in empty]


def find_unanswered(run: RunResult, queries: Queries | None, answered: Iterable[str] = ()) -> list[str]:
    """The queries without gold that were asked and that the run lacks altogether.

    Those marked no_answer were asked, and those that others `answered`. Other queries of the table without gold were
    asked where the run answers some of them, since a table may also hold the queries of other splits; where nothing
    has gold, all of the table were.
    """
    rankings = run.rankings
    if rankings is None or run.totals is not None or run.policy.missing != "zero":
        return []
    gold = {*rankings.query_ids, *(run.gold.qrels.query_ids if run.gold is not None else ())}
    own = _logged(run)
    questions = dict.fromkeys(answered)
    if queries is not None:
        marked = queries.no_answer
        questions |= dict.fromkeys(marked)
        others = queries.fields.keys() - gold - set(marked)
        if not len(rankings.gold_query) or not others.isdisjoint(own):
            questions |= dict.fromkeys(q for q in queries.fields if q in others)
    return [q for q in questions if q not in own and q not in rankings.query_ids]


def undefined_text(metric: str, lacking: int, total: int) -> str:
    """That queries have no value, as a note on a single run."""
    return f"{metric}: {lacking:,} of {total:,} queries {'has' if lacking == 1 else 'have'} no value"


def describe_undefined(run: RunResult, metric: str) -> str:
    """The note on a run of how many queries have no value of a metric; empty where its file does not say."""
    if run.rankings is None or metric not in run.values:
        return ""
    total = len(rankings_for(parse(metric), run.rankings))
    return undefined_text(metric, total - len(queries_with_value(run, metric)), total)


def find_unequal_answers(runs: Sequence[RunResult]) -> dict[str, str]:
    """Of the metrics that are over different queries, because some runs answer more: how many each run has values of.

    These are figures of what runs say themselves. Runs that have values of all queries are not named.
    """
    out: dict[str, str] = {}
    for metric in runs[0].values if len(runs) > 1 else ():
        if not parse(metric).over_whole_run or not all(metric in run.values for run in runs):
            continue
        answered = [set(queries_with_value(run, metric)) for run in runs]
        if all(mine == answered[0] for mine in answered):
            continue
        total = len(set().union(*answered, *(_asked(run, metric) for run in runs)))
        lacking = [(run.name, len(mine)) for run, mine in zip(runs, answered, strict=True) if len(mine) < total]
        (first, count), *others = lacking
        rest = "".join(f", {name} of {n:,}" for name, n in others)
        out[metric] = f"{first} has values of {count:,} of {total:,} queries{rest}"
    return out


def _asked(run: RunResult, metric: str) -> Sequence[str]:
    """The queries that a metric of a run is about, with a value or without."""
    return rankings_for(parse(metric), run.rankings).query_ids if run.rankings is not None else ()


def _logged(run: RunResult) -> set[str]:
    """The queries that a run says anything of; a saved result knows those with a value."""
    if run.rankings is not None and run.rankings.whole is not None:
        return set(run.rankings.whole.query_ids)
    return {q for m in run.values if parse(m).over_whole_run for q in queries_with_value(run, m)}
