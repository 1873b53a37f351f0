"""Which queries without gold a run was asked, and which of them it does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.grammar import parse
from karat.results.values import rankings_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karat.model.queries import Queries
    from karat.results.result import RunResult


def queries_with_value(run: RunResult, metric: str) -> list[str]:
    """The queries that a run has a value of a metric for."""
    return [run.query_ids[i] for i in np.flatnonzero(~np.isnan(run.values[metric])).tolist()]


def find_unanswered(run: RunResult, queries: Queries | None, answered: Iterable[str] = ()) -> list[str]:
    """The queries without gold that were asked and that the run lacks altogether.

    Those marked no_answer were asked, and those that others `answered`. Other queries of the table without gold were
    asked where the run answers some of them: a table may also hold the queries of other splits.
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
        if not others.isdisjoint(own):
            questions |= dict.fromkeys(q for q in queries.fields if q in others)
    return [q for q in questions if q not in own and q not in rankings.query_ids]


def undefined_text(metric: str, lacking: int, total: int) -> str:
    """That queries have no value, as a note on a single run."""
    return f"{metric}: {lacking:,} of {total:,} queries have no value"


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
