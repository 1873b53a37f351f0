"""The metrics of a run without gold: those that it can answer itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.metrics.registry import all_metrics
from karat.model.run import OrderedLists
from karat.read import query_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.model.queries import Queries
    from karat.model.run import Run

CUTOFFS = (10,)
LATENCIES = ("p50", "p90", "p95")


def default_log_metrics(runs: Sequence[Run], queries: Queries | None, ks: Sequence[int] | None) -> list[str]:
    """The metrics that need no gold and that all of these runs can answer, in a fixed order."""
    cuts = ",".join(map(str, ks if ks is not None else CUTOFFS))
    answers = [_answers(run, queries, cuts) for run in runs]
    return [name for name in answers[0] if all(name in other for other in answers[1:])]


def _answers(run: Run, queries: Queries | None, cuts: str) -> list[str]:
    """What one run can answer; lists without scores or dates, and lines without latency or cost, say less."""
    log, content = run.log, run.content
    names = []
    if log is not None:
        names += [f"latency.{statistic}" for statistic in LATENCIES if log.latency]
        names += [f"cost.{key}" for key in log.cost]
    names += ["empty_results", f"distinct_docs@{{{cuts}}}", f"redundancy@{{{cuts}}}"]
    if not isinstance(content, OrderedLists) or _has_scores(content):
        names.append(f"score_spread@{{{cuts}}}")
    if log is None or queries is None:
        return names
    if queries.as_of and any(item.doc_version for trace in log.traces.values() for item in trace.topk or ()):
        names.append(f"fresh@{{{cuts}}}")
    known: Mapping[tuple[str, str], bool] = {
        ("route", "expected_source"): bool(log.routes and query_fields.expected_sources(queries)),
        ("retrieved", "needs_retrieval"): bool(log.retrieved and query_fields.retrieval_needs(queries)),
    }
    return names + [m.name for m in all_metrics() for needs, there in known.items() if there and m.needs == needs]


def _has_scores(content: OrderedLists) -> bool:
    return any(score is not None for scores in (content.scores or {}).values() for score in scores)
