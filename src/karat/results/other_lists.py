"""Other lists of a run, measured against the gold that its result holds: stages, dates, docs instead of chunks."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from karat.align import align
from karat.metrics.grammar import parse
from karat.model.run import OrderedLists, Run
from karat.read.log_lists import days_of_docs, ordered_lists, run_of
from karat.read.query_fields import day_field
from karat.results.gold import Gold
from karat.results.values import measure_rankings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.queries import Queries
    from karat.model.rankings import Rankings
    from karat.results.result import RunResult

    Values = NDArray[np.float64]


def final_lists(run: RunResult) -> OrderedLists:
    """The lists that the run was measured on; without a run log, their first 100 docs."""
    if run.log is not None:
        content = run_of(run.log, replace(run.policy, as_of_filter=False)).content
        assert isinstance(content, OrderedLists)
        return content
    queries = run.top.query_ids if run.top is not None else ()
    return OrderedLists({q: [d.doc for d in run.top_docs(q)] for q in queries})


def stage_lists(run: RunResult, stage: str) -> OrderedLists:
    """The lists of one stage, for the lines of the run log that have it."""
    assert run.log is not None
    lists = {q: trace.stages[stage] for q, trace in run.log.traces.items() if stage in trace.stages}
    return ordered_lists(run.log, lists, run.policy.separator)


def align_lists(
    run: RunResult, lists: OrderedLists, policy: Policy, *, queries: Queries | None = None, qrels: Qrels | None = None
) -> Rankings:
    """Lists of a run with its gold, or with other gold."""
    chosen = replace(policy, stage=None, as_of_filter=False)  # which docs are listed is settled
    no_answer = queries.no_answer if queries is not None else ()
    aligned, _ = align(
        run.qrels if qrels is None else qrels, Run(run.name, lists), chosen, no_answer=no_answer, threads=run.threads
    )
    return aligned.rankings


def align_dated(run: RunResult, queries: Queries, *, metric: str) -> Rankings:
    """The run with the days of its docs, for a metric of dates; an error where the log has none."""
    from karat.align.needs import Needs, check_run, with_parts

    assert run.log is not None
    measures = [parse(metric)]
    needs = Needs.of(measures, queries, run.policy)
    as_of = day_field(queries, "as_of") if run.policy.as_of_filter else None
    dated = run_of(run.log, run.policy, as_of, with_days=True)
    check_run(dated, needs, run.policy)
    aligned, _ = align(run.qrels, dated, run.policy, no_answer=queries.no_answer, keep_items=needs.depth)
    return with_parts(aligned, dated, needs, run.policy)


def drop_newer(run: RunResult, queries: Queries) -> RunResult:
    """The run and its gold as they were on each query's as_of: newer docs are in no list, and relevant nowhere.

    A stage and the gold hold ids alone: the date of a doc is that of its own line, else the earliest of the log.
    """
    assert run.log is not None
    as_of, mark = day_field(queries, "as_of"), run.policy.separator
    days = days_of_docs(run.log)
    earliest: dict[str, float] = {}
    own: dict[str, dict[str, float]] = {}
    docs: dict[str, str] = {}
    for q, trace in run.log.traces.items():
        dates = own[q] = {}
        for item in trace.topk or ():
            if (day := days.get(item.doc_version)) is not None:
                if item.id not in docs:
                    docs[item.id] = run.log.doc_of(item.id, mark)
                for id in (item.id, docs[item.id]):
                    dates[id] = min(day, dates.get(id, day))
        for id, day in dates.items():
            earliest[id] = min(day, earliest.get(id, day))

    def newer(q: str, ids: Iterable[str]) -> set[str]:
        if q not in as_of:
            return set()
        dates, last = own.get(q, {}), as_of[q]
        return {id for id in ids if dates.get(id, earliest.get(id, last)) > last}

    traces = dict(run.log.traces)
    for q, trace in run.log.traces.items():
        if late := newer(q, {*(i.id for i in trace.topk or ()), *chain.from_iterable(trace.stages.values())}):
            traces[q] = msgspec.structs.replace(
                trace,
                topk=None if trace.topk is None else tuple(i for i in trace.topk if i.id not in late),
                stages={name: tuple(id for id in ids if id not in late) for name, ids in trace.stages.items()},
            )

    def without_newer(qrels: Qrels) -> Qrels:
        grades, docs = qrels.grades.copy(), qrels.docs
        for q, (start, end) in zip(qrels.query_ids, pairwise(qrels.offsets.tolist()), strict=True):
            late = newer(q, docs[start:end])
            places = [i for i in range(start, end) if docs[i] in late] if late else []
            grades[places] = np.minimum(grades[places], 0.0)
        return replace(qrels, grades=grades)

    gold, log = without_newer(run.qrels), replace(run.log, traces=traces)
    completed = Gold(without_newer(run.completed_gold.qrels)) if run.completed_gold is not None else None
    policy = replace(run.policy, as_of_filter=False)  # done
    aligned, _ = align(gold, run_of(log, policy), policy, no_answer=queries.no_answer, threads=run.threads)
    return replace(
        run,
        log=log,
        gold=Gold(gold),
        rankings=aligned.rankings,
        policy=policy,
        level=run.gold_level,
        by_judge=None,  # its figures are of the lists before
        completed_gold=completed,
    )


def measure_over(metrics: Iterable[str], rankings: Rankings, query_ids: Sequence[str]) -> Mapping[str, Values]:
    """Each metric's values in the order of these queries; NaN for those that the rankings lack."""
    metrics = list(metrics)
    ids, columns = measure_rankings(map(parse, metrics), replace(rankings, pipeline=None))
    place = {q: i for i, q in enumerate(ids)}
    rows = np.array([place.get(q, -1) for q in query_ids], dtype=np.int64)
    return {name: np.append(column, np.nan)[rows] for name, column in zip(metrics, columns.values(), strict=True)}
