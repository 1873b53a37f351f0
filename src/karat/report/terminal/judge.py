"""Judging for a person at a terminal: progress with its cost, and what became of the pairs."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from karat.report.terminal.console import console, grid, line, note
from karat.results.figures import difference_figure, figure, share_figure
from karat.results.words import plain, plural, queries_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from karat.judge.ask import AskOutcome
    from karat.judge.budget import Budget, BudgetLimits
    from karat.judge.gate_value import PoolGate
    from karat.judge.pool import Pool
    from karat.judge.value import PoolComparison
    from karat.verbs.judge.ask import BiasTest

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
        console=console(stderr=True).rich,
        transient=True,
    )
    with bar:
        task = bar.add_task("judging", total=None, use="")

        def watch(count: int, total: int, budget: Budget) -> None:
            bar.update(task, completed=count, total=total, use=_use(budget.calls, budget.usage.total, budget.cost))

        yield watch


def show_outcome(outcome: AskOutcome, path: str, limits: BudgetLimits, *, quiet: bool) -> None:
    """What was judged, what it cost, and what has no grade and why."""
    _show_problems(outcome)
    if quiet:
        return
    _show_notes(outcome.notes)
    parts = [
        f"{plural(outcome.judged, 'pair')} judged",
        f"{outcome.judged_before:,} judged before" if outcome.judged_before else "",
        f"{plural(outcome.recalled, 'answer')} from the cache" if outcome.recalled else "",
        f"{plural(len(outcome.failures), 'failure')}" if outcome.failures else "",
        _use_of(outcome, limits),
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


def show_bias_test(test: BiasTest, limits: BudgetLimits, *, quiet: bool) -> None:
    """What another form of the same docs changes, and what asking about it cost."""
    outcome = test.outcome
    _show_problems(outcome)
    if quiet:
        return
    _show_notes(outcome.notes)
    recalled = f", {plural(outcome.recalled, 'answer')} from the cache" if outcome.recalled else ""
    out = console()
    out.print(line((f"{plural(test.pairs, 'pair')} graded again", "bold"), f": {_use_of(outcome, limits)}{recalled}"))
    table = grid("docs", "change of the grade", "turn relevant or irrelevant", "pairs")
    for one in test.changes:
        change = share_figure(one.change.estimate, one.change.low, one.change.high, difference=True)
        flips = "–" if one.flips != one.flips else f"{one.flips:.1%}"
        table.add_row(one.form, str(change), flips, f"{one.change.n:,}")
    out.print(table)
    for one in test.changes:
        if one.change.low > 0 or one.change.high < 0:
            way = "higher" if one.change.estimate > 0 else "lower"
            out.print(line(f"The judge grades the same content {way} in this form: {one.form}", style="yellow"))
    out.print(line("none of these grades is added to the judgments", style="dim"))


def show_pool(pool: Pool, path: str, depth: int, *, by_value: bool, quiet: bool) -> None:
    """Which pairs were written; by value, what is certain of each comparison and gate."""
    if quiet:
        return
    _show_notes(pool.notes)
    order = "most valuable first" if by_value else "in random order"
    part = f", of {pool.open:,}" if len(pool.pairs) < pool.open else ""
    what = f"{plural(len(pool.pairs), 'pair')} to judge{part}, {order}" if pool.pairs else "nothing to judge"
    counts = f"{queries_text(pool.queries)}, depth {depth}; {pool.judged:,} of {plural(pool.total, 'pair')} judged"
    out = console()
    out.print(line(plain(f"{path}: {what} ({counts})")), soft_wrap=True)
    unjudged = pool.total - pool.judged
    for comparison in pool.comparisons:
        out.print(line(plain(describe_comparison(comparison, unjudged))), soft_wrap=True)
    for gate in pool.gates:
        out.print(line(plain(describe_gate(gate, unjudged))), soft_wrap=True)


def describe_comparison(row: PoolComparison, unjudged: int) -> str:
    """What is certain of a comparison, or what is still open."""
    ends = (difference_figure(row.metric, end).text for end in (row.change.low, row.change.high))
    span = f"{row.metric}, Δ between {' and '.join(ends)}"
    words = {"higher": "better", "lower": "worse", "no significant difference": "no significant difference"}
    pair = f"{row.candidate} against {row.baseline}"
    if row.change.final is not None:
        rest = f", whatever the grades of {plural(unjudged, 'unjudged pair')}" if unjudged else ""
        return f"decided: {pair}: {words[row.change.final]}{rest} ({span})"
    *others, last = (words[direction] for direction in row.change.directions)
    choice = f"{', '.join(others)} or {last}"
    return f"open: {pair}: {choice}, depending on {plural(row.open, 'unjudged pair')} ({span})"


def describe_gate(row: PoolGate, unjudged: int) -> str:
    """What is certain of a gate for a run, or what is still open."""
    words = {"pass": ("passes", "pass"), "fail": ("fails", "fail"), "undecided": ("is undecided", "be undecided")}
    what = f"{row.gate}, {row.run}"
    if row.final is not None:
        rest = f", whatever the grades of {plural(unjudged, 'unjudged pair')}" if unjudged else ""
        return f"decided: {what}: {words[row.final][0]}{rest}{f' ({row.why})' if row.why else ''}"
    *others, last = (words[outcome][1] for outcome in row.outcomes)
    return f"open: {what}: may {', '.join(others)} or {last}, depending on {plural(row.open, 'unjudged pair')}"


def show_requests(path: str, count: int, outcome: AskOutcome) -> None:
    """How many requests were written, and what needs none."""
    _show_notes(outcome.notes)
    earlier = outcome.judged_before + outcome.judged
    rest = f"; {plural(earlier, 'pair')} judged already" if earlier else ""
    console().print(line(plain(f"{path}: {plural(count, 'request')}{rest}")), soft_wrap=True)


def _show_problems(outcome: AskOutcome) -> None:
    """What has no grade and why."""
    warn = console(stderr=True)
    for failure in outcome.failures[:FAILURES]:
        ids = f"query {failure.pair.query_id}, doc {failure.pair.doc_id}"
        warn.print(note(plain(f"no grade: {ids}: {failure.problem}"), serious=True), soft_wrap=True)
    if len(outcome.failures) > FAILURES:
        warn.print(note(f"no grade for {plural(len(outcome.failures), 'pair')} in all", serious=True))
    if outcome.stopped:
        text = f"stopped: {outcome.stopped}; {plural(outcome.open, 'pair')} left: run the same command to resume"
        warn.print(note(plain(text), serious=True), soft_wrap=True)


def _show_notes(notes: Sequence[str]) -> None:
    for text in notes:
        console(stderr=True).print(note(plain(text), serious=False), soft_wrap=True)


def _use_of(outcome: AskOutcome, limits: BudgetLimits) -> str:
    return _use(outcome.calls, outcome.usage.total, outcome.cost if limits.price_in or limits.price_out else 0.0)


def _use(calls: int, tokens: int, cost: float) -> str:
    parts = [
        plural(calls, "call"),
        plural(tokens, "token") if tokens else "",
        f"cost {figure('cost.usd.sum', cost).text}" if cost else "",
    ]
    return ", ".join(filter(None, parts))
