"""Run logs → runs: the list that a policy chooses of each query, without reading the log again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from karat.errors import UsageError, shown
from karat.model.dates import A_DATE, day_of
from karat.model.policy import parent_of
from karat.model.run import OrderedLists, Run
from karat.model.run_log import has_gaps, ordered_items

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.model.policy import Policy
    from karat.model.run_log import RunLog


def run_of(log: RunLog, policy: Policy, as_of: Mapping[str, float] | None = None, *, with_days: bool = False) -> Run:
    """The final list of every query as a run, or that of the policy's stage.

    `as_of` holds the day of queries, for policies that drop newer docs; `with_days` adds the days of all docs.
    """
    if policy.as_of_filter and not as_of:
        raise UsageError("as_of_filter needs queries with an as_of field; give a table of queries that has it")
    notes: list[str] = []
    late = 0
    if policy.stage is not None:
        content = stage_lists(log, policy.stage, policy.separator)
    else:
        content, notes, late = _final_lists(log, policy, as_of or {}, with_days)
    if policy.as_of_filter:
        notes.append(f"as_of_filter dropped {late:,} {'item' if late == 1 else 'items'} newer than their query's as_of")
    return Run(log.name, content, log.facts, log.path, tuple(notes), log=log, names_docs=log.names_docs)


def stage_lists(log: RunLog, stage: str, separator: str) -> OrderedLists:
    """The ids of one stage, none where retrieval was skipped; another line that lacks it is an error."""
    log.refuse(
        (
            log.lines.get(query),
            f"no stage {shown(stage)}; "
            + (
                f"expected one that this line has: {', '.join(map(shown, sorted(trace.stages)))}"
                if trace.stages
                else 'this line has no stages: log them, or "retrieved": false where nothing was retrieved'
            ),
        )
        for query, trace in log.traces.items()
        if stage not in trace.stages and trace.retrieved is not False
    )
    log.check("stages")
    return ordered_lists(log, {q: t.stages.get(stage, ()) for q, t in log.traces.items()}, separator)


def ordered_lists(log: RunLog, lists: Mapping[str, Sequence[str]], separator: str) -> OrderedLists:
    """Lists of ids with the docs that the log names for them."""
    parents = {q: [log.doc_of(id, separator) for id in ids] for q, ids in lists.items()}
    return OrderedLists(lists, parents)


def _final_lists(
    log: RunLog, policy: Policy, as_of: Mapping[str, float], with_days: bool
) -> tuple[OrderedLists, list[str], int]:
    """The results in their order, what to say about them, and how many were dropped as newer than as_of."""
    log.check("topk")
    days = days_of_docs(log) if with_days or policy.as_of_filter else {}
    lists: dict[str, list[str]] = {}
    parents: dict[str, list[str]] = {}
    scores: dict[str, list[float | None]] = {}
    versions: dict[str, list[float]] = {}
    gaps = late = 0
    mark = policy.separator
    for query, trace in log.traces.items():
        items = ordered_items(trace.topk or (), policy)
        gaps += has_gaps(items)
        if policy.as_of_filter and query in as_of:
            last = as_of[query]
            recent = [item for item in items if not days.get(item.doc_version, last) > last]
            late += len(items) - len(recent)
            items = recent
        lists[query] = [item.chunk_id or item.doc_id or "" for item in items]
        parents[query] = [item.doc_id or parent_of(item.id, mark) for item in items]
        scores[query] = [item.score for item in items]
        if with_days:
            versions[query] = [days.get(item.doc_version, math.nan) for item in items]
    return OrderedLists(lists, parents, scores or None, versions or None), describe_gaps(gaps), late


def describe_gaps(gaps: int) -> list[str]:
    """A note on lines whose ranks leave some out."""
    lines = "1 line has gaps in its ranks" if gaps == 1 else f"{gaps} lines have gaps in their ranks"
    return [f"{lines}; positions were renumbered from 1"] if gaps else []


def days_of_docs(log: RunLog) -> dict[str | None, float]:
    """The day of every doc_version that occurs; one that is not a date is an error."""
    log.check("doc_version")
    days: dict[str | None, float] = {}
    wrong = []
    for query, trace in log.traces.items():
        for place, item in enumerate(trace.topk or (), start=1):
            version = item.doc_version
            if version is None or version in days:
                continue
            day = day_of(version)
            if day is None:
                wrong.append((log.lines.get(query), f"topk item {place}: doc_version {A_DATE}, found {shown(version)}"))
            else:
                days[version] = day
    log.refuse(wrong)
    return days
