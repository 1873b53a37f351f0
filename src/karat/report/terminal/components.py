"""The parts of a pipeline in words: a few lines each, for the terminal and for comments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.report.terminal.console import console, line, note
from karat.report.words import TITLES
from karat.results.components import Component, Components, improvement
from karat.results.decisions import Decision, number
from karat.results.figures import change_text, percent_text, share_figure
from karat.results.words import plain, plural, queries_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.report.terminal.console import Output
    from karat.results.result import Result
    from karat.stats.intervals import Interval
    from karat.verbs.stress import Stress

SHOWN = 6
"""Sources that are shown by name; all are in the JSON."""


def show(result: Result, to: Output | None = None) -> None:
    """What was found of every part, and in one dim line each what is missing."""
    out = to or console()
    for run in result.runs:
        if run.components is None:
            continue
        name = f" of {run.name}" if len(result.runs) > 1 else ""
        out.print(line(f"\n{plain(f'Components{name}')}", style="bold"))
        for part in run.components.parts:
            title = TITLES[part.name]
            if part.missing:
                out.print(line(f"  {plain(f'{title}: {part.missing}')}", style="dim"))
                continue
            first, *rest = lines_of(part)
            out.print(line("  ", (title, "bold"), f"  {plain(first)}"))
            for text in rest:
                out.print(line(f"    {plain(text)}"))
            for text in part.notes:
                out.print(line("    ").append(note(plain(text), serious=False)))


def short(components: Components) -> list[str]:
    """The first line of every part that was measured, with its title."""
    return [f"{TITLES[part.name]}: {lines_of(part)[0]}" for part in components.parts if part.measured]


def lines_of(part: Component) -> list[str]:
    """One part in two or three lines."""
    figures, tables, counted, setting = part.figures, part.tables, counts_text(part), setting_text(part)
    changes = [change_line(name, change) for name, change in part.changes.items()]
    values = ", ".join(f"{n} {value_of(f)}" for n, f in figures.items())
    if part.name == "retriever":
        return [f"{setting}: {values}; {counted}"]
    if part.name == "reranker":
        return [*changes, f"{setting}; {counted}"]
    if part.name == "funnel":
        ends = " · ".join(f"{end_text(n, tables['k'])}: {part.counts[n]:,}{_percent(f)}" for n, f in figures.items())
        return [f"{counted}: {ends}", f"delivered {value_of(figures['delivered'])}"]
    if part.name == "router":
        return _router(figures, counted)
    if part.name == "gate":
        return [values, counted]
    if part.name == "rewriting":
        return [*changes[:2], counted]
    if part.name == "no_answer":
        at = f" {setting}" if setting else ""
        curve = f"curve over {len(tables['curve']['threshold'])} thresholds in the JSON" if "curve" in tables else ""
        return [f"{values}{at}; {counted}" if values else f"{counted}; {curve}", *([curve] if values and curve else [])]
    if part.name == "entities":
        return [", ".join(f"{n} {value_of(f)}" for n, f in figures.items() if "(" not in n), counted]
    return [values, *changes]


def setting_text(part: Component) -> str:
    """What a part was measured at: its stages, or the threshold of scores; empty where nothing was to be chosen."""
    tables = part.tables
    if part.name == "retriever":
        return f"stage {tables['stage']}"
    if part.name == "reranker":
        return f"{tables['before']} → {tables['after']}"
    return f"at threshold {tables['threshold']:g}" if "threshold" in tables and part.name == "no_answer" else ""


def counts_text(part: Component) -> str:
    """What was counted of a part that was measured: what its figures are over."""
    counts, queries = part.counts, queries_text(part.counts.get("queries", 0))
    if part.name == "reranker":
        return f"gold docs into the top k: {counts['promoted']:,}, out of it: {counts['demoted']:,}; {queries}"
    if part.name == "funnel":
        return f"of {counts['gold']:,} relevant docs"
    if part.name == "gate":
        skips = f"{counts['skips']:,} of {counts['queries']:,} queries skip retrieval"
        return f"{skips}: {counts['correct_skips']:,} rightly, {counts['harmful_skips']:,} with harm"
    if part.name == "rewriting":
        return f"{queries} of {counts['rewritten']:,} that were rewritten"
    if part.name == "no_answer":
        judged = any("(judged)" in name for name in part.figures) and counts["judged"] < counts["queries"]
        some = f", {counts['judged']:,} of them judged" if judged else ""
        return plural(counts["queries"], "query without an answer", "queries without an answer") + some
    if part.name == "entities":
        return f"{counts['right']:,} right of {counts['found']:,} found and {counts['gold']:,} in the gold; {queries}"
    return queries


def _router(figures: Mapping[str, Interval], counted: str) -> list[str]:
    rates = ", ".join(f"{n} {value_of(figures[n])}" for n in ("routing_accuracy", "misroute_rate", "abstain_rate"))
    out = [f"{rates}; {counted}"]
    for begin, what in (("source_share.", "chosen"), ("recall@", "recall by expected source")):
        mine = [(n, f) for n, f in figures.items() if n.startswith(begin) and f.estimate == f.estimate]
        if mine:
            mine.sort(key=lambda x: -x[1].n if begin != "source_share." else -x[1].estimate)
            text = ", ".join(f"{n.partition('.')[2]} {value_of(f)}" for n, f in mine[:SHOWN])
            out.append(f"{what}: {text}{', …' if len(mine) > SHOWN else ''}")
    return out


def _percent(one: Interval) -> str:
    return f" ({percent_text(one.estimate)})" if one.estimate == one.estimate else ""


def end_text(name: str, k: int) -> str:
    """Where a doc of the funnel ends, in words."""
    if name == "cut":
        return f"cut at {k}"
    return name.replace("lost_at.", "lost at ").replace("_", " ")


def value_of(one: Interval) -> str:
    """A value with its interval."""
    return share_figure(one.estimate, one.low, one.high).sentence


def change_line(name: str, change: Decision) -> str:
    """A paired difference in one line."""
    if change.delta != change.delta:
        return f"{name} –"
    more = improvement(change)
    percent = f", {more:+.1f}%" if more == more else ", no percentage of a zero"
    test = f", p {change.p_adjusted_text}" if change.p_adjusted == change.p_adjusted else ""
    wins = f"won {change.wins}, lost {change.losses}"
    one = share_figure(change.delta, change.difference.low, change.difference.high, difference=True)
    values = change_text(name, change.mean_baseline, change.mean_candidate, short=True)
    return f"{name} {values}: Δ {one.sentence}{percent}{test}; {wins}"


def show_stress(stress: Stress, top: int = 10) -> None:
    """The drop, and the queries that lost most."""
    out = console()
    change = stress.change
    drop = share_figure(stress.drop, -change.difference.high, -change.difference.low)
    means = change_text(stress.metric, change.mean_baseline, change.mean_candidate)
    rest = f"{drop.interval} with negatives on top ({means}), p {change.p_adjusted_text}"
    out.print(line((f"{stress.metric} drops by {drop.text}", "bold"), f" {rest}; {queries_text(stress.queries)}"))
    negatives = sum(len(r.negatives) for r in stress.rows)
    parts = (
        f"reranker {stress.reranker}",
        f"negatives: {stress.source}",
        f"still in the top {stress.k}: {sum(r.negatives_in_top for r in stress.rows)} of {negatives}",
        f"worse on {change.losses}, equal on {change.ties}, better on {change.wins}",
    )
    out.print(line(plain(" · ".join(parts)), style="dim"))
    drops = [(r, r.drop) for r in stress.rows if r.drop is not None and r.drop > 0]
    for r, loss in drops[:top]:
        size = share_figure(-loss, difference=True).short
        values = change_text(stress.metric, number(r.without), number(r.with_), short=True)
        out.print(line(f"  {plain(r.query_id)}: {values} ({size})"))
    for text in stress.notes:
        out.print(note(plain(text), serious=True))
