"""Checks of one run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from karat.errors import shown
from karat.model.dates import day_of
from karat.model.log_names import SKIPPED, STAGES
from karat.model.log_steps import did_not_run, mark_steps
from karat.read.files import read_head
from karat.read.layout import lines_of
from karat.read.log_blocks import columns_by_name
from karat.read.objects import is_finite
from karat.read.run_log import LooseLine
from karat.verbs.validate.findings import LintFinding, list_some, make_finding, many
from karat.verbs.validate.matching import check_ids
from karat.verbs.validate.tables import RunFile, place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


MOST = 0.9
"""The share of queries from which a defect belongs to the whole run."""
NEAR = 0.85
"""How alike the name of a field is to another one if it is meant to be that one."""
TIED = 5
"""Docs that share one score before it is strange."""


def check_run(run: RunFile) -> Iterator[LintFinding]:
    """All checks that need nothing but this file."""
    yield from check_ids(run.path, "query", run.queries, run.at_query)
    yield from check_ids(run.path, "doc", run.docs, lambda d: run.at(int(np.argmax(run.doc == d))))
    if len(run.query):
        yield from _repeats(run)
        yield from _scores(run)
        yield from _depth(run)
    yield from _empty(run)
    if run.is_log:
        yield from _log(run)


def _queries(run: RunFile, numbers: NDArray[np.int64]) -> str:
    return list_some([run.queries[n] for n in numbers[:4].tolist()])


def _at_queries(run: RunFile, numbers: NDArray[np.int64]) -> Iterator[str]:
    return (run.at_query(n) for n in numbers.tolist())


def _repeats(run: RunFile) -> Iterator[LintFinding]:
    keys = run.query * len(run.docs) + run.doc
    order = np.argsort(keys, kind="stable")
    again = np.sort(order[1:][keys[order[1:]] == keys[order[:-1]]])
    if len(again):
        row = int(again[0])
        where = f"query {run.queries[run.query[row]]}, doc {run.docs[run.doc[row]]}"
        queries = len(np.unique(run.query[again]))
        yield make_finding(
            "R301",
            run.path,
            f"{many(len(again), 'result repeats', 'results repeat')} a doc of the same query, in "
            f"{many(queries, 'query', 'queries')}: {where}",
            (run.at(int(r)) for r in again[:9]),
            len(again),
        )


def _steps(run: RunFile, by: NDArray[np.float64] | None) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For each query, whether the score ever rises and whether it ever falls from one result to the next.

    Results are taken in the order of `by`, or of the file.
    """
    order = np.lexsort((by, run.query)) if by is not None else np.argsort(run.query, kind="stable")
    query, score = run.query[order], run.score[order]
    step = np.diff(score)
    inside = query[1:] == query[:-1]
    rises, falls = (np.zeros(len(run.queries), dtype=bool) for _ in range(2))
    rises[query[1:][inside & (step > 0)]] = True
    falls[query[1:][inside & (step < 0)]] = True
    return rises, falls


def _scores(run: RunFile) -> Iterator[LintFinding]:
    """Scores against ranks, against the order of the file, and against each other."""
    if not run.has_scores or run.in_file_order:
        return
    by_rank = run.has_ranks and _ranks_are_distinct(run)
    rises, falls = _steps(run, run.rank if by_rank else None)
    upside_down = rises & ~falls
    vary = int(np.count_nonzero(rises | falls))
    turned = vary >= 2 and np.count_nonzero(upside_down) >= MOST * vary
    if turned:
        numbers = np.flatnonzero(upside_down)
        code = ("R305" if run.is_log else "R303") if by_rank else "R304"
        over = "with the rank" if by_rank else "down the file"
        yield make_finding(
            code,
            run.path,
            f"scores rise {over} in {len(numbers):,} of {many(vary, 'query', 'queries')}: {_queries(run, numbers)}",
            _at_queries(run, numbers),
            len(numbers),
        )
    elif by_rank and not run.is_log and rises.any():
        numbers = np.flatnonzero(rises)
        yield make_finding(
            "R302",
            run.path,
            f"a lower rank has a higher score in {len(numbers):,} of {many(len(run.queries), 'query', 'queries')}: "
            f"{_queries(run, numbers)}",
            _at_queries(run, numbers),
            len(numbers),
        )
    if not (run.is_log and run.has_ranks):
        tied = ~(rises | falls) & (run.sizes >= 2)
        all_tied = vary == 0 and bool(tied.any())
        numbers = np.flatnonzero(tied if all_tied else tied & (run.sizes >= TIED))
        if len(numbers):
            yield make_finding(
                "R306",
                run.path,
                f"all docs have the same score in {len(numbers):,} of {many(len(run.queries), 'query', 'queries')}: "
                f"{_queries(run, numbers)}",
                _at_queries(run, numbers),
                len(numbers),
            )
    if run.has_ranks and not run.is_log:
        zero = np.unique(run.query[run.rank == 0])
        if len(zero):
            yield make_finding(
                "R307",
                run.path,
                f"ranks start at 0 in {many(len(zero), 'query', 'queries')}: {_queries(run, zero)}",
                _at_queries(run, zero),
                len(zero),
            )


def _ranks_are_distinct(run: RunFile) -> bool:
    """Whether no rank appears twice in a query; otherwise the column gives no order."""
    order = np.lexsort((run.rank, run.query))
    query, rank = run.query[order], run.rank[order]
    return not bool(((query[1:] == query[:-1]) & (rank[1:] == rank[:-1])).any())


def _depth(run: RunFile) -> Iterator[LintFinding]:
    """Lists that are shorter than they should be."""
    sizes = run.sizes[run.sizes > 0]
    usual = int(np.quantile(sizes, 0.5, method="lower"))
    last = int(run.query[-1])
    others = np.delete(run.sizes, last)
    others = others[others > 0]
    if run.whole and len(others) >= 2 and (others == others[0]).all() and 0 < run.sizes[last] < others[0]:
        yield make_finding(
            "R309",
            run.path,
            f"the last query, {run.queries[last]}, has {many(int(run.sizes[last]), 'result')}; each of the "
            f"{len(others):,} others has {others[0]:,}",
            [run.at(len(run.query) - 1)],
        )
        return
    short = np.flatnonzero((run.sizes > 0) & (2 * run.sizes < usual))
    if usual >= 10 and len(short) >= max(1, len(sizes) / 20):
        yield make_finding(
            "R308",
            run.path,
            f"{many(len(short), 'query has', 'queries have')} less than half the usual {usual:,} results: "
            f"{_queries(run, short)}",
            _at_queries(run, short),
            len(short),
        )


def _empty(run: RunFile) -> Iterator[LintFinding]:
    if run.is_log:
        empty = [(e.query, place(run.path, e.line)) for e in run.log if not e.results and e.retrieved is not False]
    else:
        sizes = run.sizes.tolist()
        empty = [(q, run.path) for q, size in zip(run.queries, sizes, strict=True) if not size]
    if empty:
        yield make_finding(
            "R310",
            run.path,
            f"{many(len(empty), 'query has', 'queries have')} no results: {list_some([q for q, _ in empty])}",
            (where for _, where in empty),
            len(empty),
        )


def _log(run: RunFile) -> Iterator[LintFinding]:
    """What only a run log can have: latencies, facts, gaps in the ranks, versions."""
    yield from _misspelt(run)
    yield from _latencies(run)
    yield from _facts(run)
    gaps = [e for e in run.log if list(e.ranks) != list(range(1, len(e.ranks) + 1))]
    if gaps:
        ranks = ", ".join(map(str, list(gaps[0].ranks)[:5]))
        yield make_finding(
            "R314",
            run.path,
            f"{many(len(gaps), 'line has', 'lines have')} gaps in the ranks: query {gaps[0].query} has {ranks}",
            (place(run.path, e.line) for e in gaps),
            len(gaps),
        )
    bad_dates = [(e.line, str(v)) for e in run.log for _, v in e.versions if day_of(v) is None]
    if bad_dates:
        yield make_finding(
            "R315",
            run.path,
            f"{many(len(bad_dates), 'doc_version is', 'values of doc_version are')} not a date: "
            f"{list_some(list(dict.fromkeys(v for _, v in bad_dates)))}",
            (place(run.path, line) for line, _ in bad_dates),
            len(bad_dates),
        )


def _misspelt(run: RunFile) -> Iterator[LintFinding]:
    """Fields of the first line that nobody reads, and that are nearly called like one that is not there."""
    from difflib import get_close_matches

    number, text = next(lines_of(read_head(run.path)), (0, ""))
    try:
        names = list(msgspec.json.decode(text, type=dict[str, msgspec.Raw]))
    except msgspec.DecodeError:  # said where the log is read
        return
    absent = [name for name in LooseLine.__struct_fields__ if name not in names]
    for name in names:
        near = [] if name in LooseLine.__struct_fields__ else get_close_matches(name, absent, n=1, cutoff=NEAR)
        if near:
            message = f"the field {shown(name)} is not read; did you mean {near[0]!r}?"
            yield make_finding("R316", run.path, message, [place(run.path, number)])


def _latencies(run: RunFile) -> Iterator[LintFinding]:
    wrong: list[tuple[int, str]] = []
    stages: Counter[str] = Counter()
    for e in run.log:
        for stage, value in e.latency.items():
            stages[stage] += 1
            if isinstance(value, bool) or not is_finite(value) or value < 0:
                wrong.append((e.line, f"{stage} {shown(value)}"))
    if wrong:
        yield make_finding(
            "R312",
            run.path,
            f"{many(len(wrong), 'latency is not a number', 'latencies are not numbers')} of at least 0: "
            f"{list_some([w for _, w in wrong])}",
            (place(run.path, line) for line, _ in wrong),
            len(wrong),
        )
    marks = [mark_steps(e.stages, skipped=e.retrieved is False) for e in run.log]
    steps = {kind: columns_by_name([one[kind] for one in marks]) for kind in (STAGES, SKIPPED)}
    lacking = {}
    for stage in stages:
        idle = did_not_run(stage.lower(), steps, len(run.log))
        lacking[stage] = [
            e.line for e, rests in zip(run.log, idle, strict=True) if stage not in e.latency and not rests
        ]
    stage, lack = max(lacking.items(), key=lambda one: len(one[1]), default=("", []))
    if lack:
        yield make_finding(
            "R311",
            run.path,
            f"{len(lack):,} of {many(len(run.log), 'line')} lack the latency of {shown(stage)}, which others have",
            (place(run.path, line) for line in lack),
            len(lack),
        )


def _facts(run: RunFile) -> Iterator[LintFinding]:
    texts, lines = [], []
    for fact in dict.fromkeys(name for e in run.log for name in e.facts):
        values: dict[str, list[int]] = {}
        for e in run.log:
            if e.facts.get(fact) is not None:
                values.setdefault(shown(e.facts[fact]), []).append(e.line)
        if len(values) > 1:
            some = ", ".join(f"{value} on {many(len(on), 'line')}" for value, on in list(values.items())[:3])
            texts.append(f"{fact} ({some})")
            lines += [on[0] for on in values.values()]
    if texts:
        yield make_finding(
            "R313",
            run.path,
            f"{many(len(texts), 'fact varies', 'facts vary')} in this file: {'; '.join(texts)}",
            (place(run.path, line) for line in lines),
            len(texts),
        )
