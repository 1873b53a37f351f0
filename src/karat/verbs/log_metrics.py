"""The metrics that run logs answer themselves: those of a run without gold, and what joins the default ones."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, shown
from karat.metrics.grammar import LOG_METRICS
from karat.metrics.registry import all_metrics
from karat.model.run import OrderedLists, Run
from karat.read import query_fields
from karat.read.files import first_line, is_run_log, read_head

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.model.queries import Queries


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


def log_panel(runs: Sequence[Any], ks: Sequence[int] | None) -> tuple[str, ...]:
    """The metrics that join the default ones where all runs are run logs with latency."""
    if not runs or not all(map(_is_timed, runs)):
        return ()
    return LOG_METRICS if ks is None else tuple(name.partition("@")[0] for name in LOG_METRICS)


def _is_timed(run: Any) -> bool:
    """Whether a run is a run log with latency: a file says so in its first line."""
    if isinstance(run, Run):
        return run.log is not None and bool(run.log.latency)
    if not isinstance(run, (str, os.PathLike)) or not os.path.isfile(run):
        return False
    try:
        line = first_line(read_head(os.fspath(run)))
    except (InputError, OSError):
        return False  # what is wrong with the file is said where it is read
    return is_run_log(line) and b'"latency_ms"' in line


def describe_routes(run: Run) -> list[str]:
    """How often each source was chosen, where the log says it."""
    if run.log is None or not run.log.routes:
        return []
    chosen = Counter(run.log.routes.values())
    nowhere = len(run.log) - chosen.total()
    counts = [
        *(f"{shown(route)} {n:,}" for route, n in chosen.most_common()),
        *([f"none {nowhere:,}"] if nowhere else []),
    ]
    return [f"routes of {len(run.log):,} queries: {', '.join(counts)}"]
