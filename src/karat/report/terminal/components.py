"""The parts of a pipeline in words: a few lines each, for the terminal and for comments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from karat.report.terminal.console import console, line, note
from karat.report.words import TITLES
from karat.results.figures import change_text, p_text, percent_text, share_figure
from karat.results.words import plain, plural, queries_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from karat.results.result import Result
    from karat.verbs.stress import Stress

SHOWN = 6
"""Sources that are shown by name; all are in the JSON."""


def show(result: Result, to: Console | None = None) -> None:
    """What was found of every part, and in one dim line each what is missing."""
    out = to or console()
    for run in result.runs:
        if not run.components:
            continue
        name = f" of {run.name}" if len(result.runs) > 1 else ""
        out.print(line(f"\n{plain(f'Components{name}')}", style="bold"))
        for part, title in TITLES.items():
            found = run.components.get(part)
            if found is None:
                continue
            if not found["measured"]:
                out.print(line(f"  {plain(f'{title}: ' + found['missing'])}", style="dim"))
                continue
            first, *rest = lines_of(part, found)
            out.print(line("  ", (title, "bold"), f"  {plain(first)}"))
            for text in rest:
                out.print(line(f"    {plain(text)}"))
            for text in found.get("notes", ()):
                out.print(line("    ").append_text(note(plain(text), serious=False)))


def short(components: Mapping[str, Any]) -> list[str]:
    """The first line of every part that was measured, with its title."""
    return [
        f"{title}: {lines_of(part, components[part])[0]}"
        for part, title in TITLES.items()
        if components.get(part, {}).get("measured")
    ]


def lines_of(part: str, found: Mapping[str, Any]) -> list[str]:
    """One part in two or three lines."""
    figures, counts, tables = (found.get(key, {}) for key in ("figures", "counts", "tables"))
    changes = [changed(name, c) for name, c in found.get("changes", {}).items()]
    if part == "retriever":
        told = ", ".join(f"{n} {valued(f)}" for n, f in figures.items())
        return [f"stage {tables['stage']}: {told}; {queries_text(counts['queries'])}"]
    if part == "reranker":
        moved = f"gold docs into the top k: {counts['promoted']}, out of it: {counts['demoted']}"
        return [
            changes[0],
            *changes[1:],
            f"{tables['before']} → {tables['after']}; {moved}; {queries_text(counts['queries'])}",
        ]
    if part == "funnel":
        ends = " · ".join(f"{_end(n, tables['k'])} {counts[n]}{_percent(f)}" for n, f in figures.items())
        return [f"of {counts['gold']} relevant docs: {ends}", f"delivered {valued(figures['delivered'])}"]
    if part == "router":
        return _router(figures, counts)
    if part == "gate":
        told = ", ".join(f"{n} {valued(f)}" for n, f in figures.items())
        skips = f"{counts['skips']} of {counts['queries']} queries skip retrieval"
        return [told, f"{skips}: {counts['correct_skips']} rightly, {counts['harmful_skips']} with harm"]
    if part == "rewriting":
        return [*changes[:2], f"{queries_text(counts['queries'])} of {counts['rewritten']} that were rewritten"]
    if part == "no_answer":
        told = ", ".join(f"{n} {valued(f)}" for n, f in figures.items())
        at = f" at threshold {tables['threshold']:g}" if "threshold" in tables else ""
        curve = f"curve over {len(tables['curve']['threshold'])} thresholds in the JSON" if "curve" in tables else ""
        queries = plural(counts["queries"], "query without an answer", "queries without an answer")
        return [f"{told}{at}; {queries}" if told else f"{queries}; {curve}", *([curve] if told and curve else [])]
    if part == "entities":
        micro = ", ".join(f"{n} {valued(f)}" for n, f in figures.items() if "(" not in n)
        told = f"{counts['right']} right of {counts['found']} found and {counts['gold']} in the gold"
        return [micro, f"{told}; {queries_text(counts['queries'])}"]
    told = ", ".join(f"{n} {valued(f)}" for n, f in figures.items())
    return [told, *changes]


def _router(figures: Mapping[str, Any], counts: Mapping[str, int]) -> list[str]:
    names = ("routing_accuracy", "misroute_rate", "abstain_rate")
    told = ", ".join(f"{n} {valued(figures[n])}" for n in names)
    out = [f"{told}; {queries_text(counts['queries'])}"]
    for begin, what in (("source_share.", "chosen"), ("recall@", "recall by expected source")):
        mine = [(n, f) for n, f in figures.items() if n.startswith(begin) and f["mean"] is not None]
        if mine:
            mine.sort(key=lambda x: -x[1]["n"] if begin != "source_share." else -x[1]["mean"])
            listed = ", ".join(f"{n.partition('.')[2]} {valued(f)}" for n, f in mine[:SHOWN])
            out.append(f"{what}: {listed}{', …' if len(mine) > SHOWN else ''}")
    return out


def _percent(figure: Mapping[str, Any]) -> str:
    return "" if figure["mean"] is None else f" ({percent_text(figure['mean'])})"


def _end(name: str, k: int) -> str:
    if name == "cut":
        return f"cut at {k}"
    return name.replace("lost_at.", "lost at ").replace("_", " ")


def valued(found: Mapping[str, Any]) -> str:
    """A value with its interval."""
    return share_figure(_number(found["mean"]), *_ends(found["ci"])).sentence


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _ends(ci: Sequence[float | None] | None) -> tuple[float, float]:
    low, high = ci if ci is not None else (None, None)
    return _number(low), _number(high)


def changed(name: str, change: Mapping[str, Any]) -> str:
    """A paired difference in one line."""
    before, after, delta = change["mean_baseline"], change["mean_candidate"], change["delta"]
    if delta is None:
        return f"{name} –"
    more = change["improvement"]
    percent = f", {more:+.1f}%" if more is not None else ", no percentage of a zero"
    p = change["p_adjusted"]
    tested = f", p {p_text(p)}" if p is not None else ""
    won = f"won {change['wins']}, lost {change['losses']}"
    one = share_figure(delta, *_ends(change["ci"]), difference=True)
    return f"{name} {change_text(name, before, after, short=True)}: Δ {one.sentence}{percent}{tested}; {won}"


def show_stress(found: Stress, top: int = 10) -> None:
    """The drop, and the queries that lost most."""
    out = console()
    change, row = found.change, found.as_json()["stress"]
    drop = share_figure(found.drop, *_ends(row["ci"]))
    means = change_text(found.metric, change.mean_baseline, change.mean_candidate)
    rest = f"{drop.interval} with negatives on top ({means}), p {p_text(change.p_adjusted)}"
    out.print(line((f"{found.metric} drops by {drop.text}", "bold"), f" {rest}; {queries_text(found.queries)}"))
    listed = sum(len(r["negatives"]) for r in found.rows)
    parts = (
        f"reranker {found.reranker}",
        f"negatives: {found.source}",
        f"still in the top {found.k}: {row['negatives_in_top']} of {listed}",
        f"worse on {change.losses}, equal on {change.ties}, better on {change.wins}",
    )
    out.print(line(plain(" · ".join(parts)), style="dim"))
    for r in [r for r in found.rows if (r["drop"] or 0) > 0][:top]:
        size = share_figure(-r["drop"], difference=True).short
        values = change_text(found.metric, r["without"], r["with"], short=True)
        out.print(line(f"  {plain(str(r['query_id']))}: {values} ({size})"))
    for text in found.notes:
        out.print(note(plain(text), serious=True))
