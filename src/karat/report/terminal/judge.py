"""Judging for a person at a terminal: progress with its cost, and what became of the pairs."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from karat.report.terminal.console import console, line, note
from karat.results.figures import figure
from karat.results.words import plain, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karat.judge.ask import AskOutcome
    from karat.judge.budget import Budget, BudgetLimits

FAILURES = 5
"""Failures that are shown one by one."""


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[int, int, Budget], None] | None]:
    """A bar with cost and time left on standard error; none where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("judging", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[use]}", markup=False),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("judging", total=None, use="")

        def watch(count: int, total: int, budget: Budget) -> None:
            bar.update(task, completed=count, total=total, use=_use(budget.calls, budget.usage.total, budget.cost))

        yield watch


def show_outcome(outcome: AskOutcome, path: str, limits: BudgetLimits, *, quiet: bool) -> None:
    """What was judged, what it cost, and what has no grade and why."""
    warn = console(stderr=True)
    for failure in outcome.failures[:FAILURES]:
        ids = f"query {failure.pair.query_id}, doc {failure.pair.doc_id}"
        warn.print(note(plain(f"no grade: {ids}: {failure.problem}"), serious=True), soft_wrap=True)
    if len(outcome.failures) > FAILURES:
        warn.print(note(f"no grade for {plural(len(outcome.failures), 'pair')} in all", serious=True))
    if outcome.stopped:
        text = f"stopped: {outcome.stopped}; {plural(outcome.open, 'pair')} left: run the same command to resume"
        warn.print(note(plain(text), serious=True), soft_wrap=True)
    if quiet:
        return
    _show_notes(outcome.notes)
    cost = outcome.cost if limits.price_in or limits.price_out else 0.0
    parts = [
        f"{plural(outcome.judged, 'pair')} judged",
        f"{outcome.judged_before:,} judged before" if outcome.judged_before else "",
        f"{plural(outcome.recalled, 'answer')} from the cache" if outcome.recalled else "",
        f"{plural(len(outcome.failures), 'failure')}" if outcome.failures else "",
        _use(outcome.calls, outcome.usage.total, cost),
    ]
    out = console()
    out.print(line(plain(f"{path}: {'; '.join(filter(None, parts))}")), soft_wrap=True)
    if (votes := outcome.agreement) is not None:
        out.print(
            line(
                f"Votes: {votes.agreement:.1%} agree; {votes.flips:.1%} of {plural(votes.pairs, 'pair')} "
                "are relevant in one vote and not in another"
            )
        )


def show_requests(path: str, count: int, outcome: AskOutcome) -> None:
    """How many requests were written, and what needs none."""
    _show_notes(outcome.notes)
    earlier = outcome.judged_before + outcome.judged
    rest = f"; {plural(earlier, 'pair')} judged already" if earlier else ""
    console().print(line(plain(f"{path}: {plural(count, 'request')}{rest}")), soft_wrap=True)


def _show_notes(notes: Sequence[str]) -> None:
    for text in notes:
        console(stderr=True).print(note(plain(text), serious=False), soft_wrap=True)


def _use(calls: int, tokens: int, cost: float) -> str:
    parts = [
        plural(calls, "call"),
        plural(tokens, "token") if tokens else "",
        f"cost {figure('cost.usd.sum', cost).text}" if cost else "",
    ]
    return ", ".join(filter(None, parts))
