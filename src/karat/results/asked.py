"""Which queries without gold a run was asked, and which of them it does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.grammar import parse

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


def describe_unequal_answers(runs: Sequence[RunResult]) -> list[str]:
    """That figures of what runs say themselves are over different queries, because some answer more than others."""
    if len(runs) < 2:
        return []
    out: dict[str, list[str]] = {}
    for metric in runs[0].values:
        if not parse(metric).over_whole_run or not all(metric in run.values for run in runs):
            continue
        answered = [set(queries_with_value(run, metric)) for run in runs]
        whole = len(set().union(*answered))
        for run, mine in zip(runs, answered, strict=True):
            if len(mine) < whole:
                lack = f"{run.name} has values of {len(mine):,} of the {whole:,} queries that these runs answer"
                out.setdefault(lack, []).append(metric)
    return [f"{', '.join(metrics)}: {lack}" for lack, metrics in out.items()]


def _logged(run: RunResult) -> set[str]:
    """The queries that a run says anything of; a saved result knows those with a value."""
    if run.rankings is not None and run.rankings.whole is not None:
        return set(run.rankings.whole.query_ids)
    return {q for m in run.values if parse(m).over_whole_run for q in queries_with_value(run, m)}
