"""The parts of a pipeline in words: a few lines each, for the terminal and for comments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karat.report.terminal.evaluate import console, escaped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from karat.results.result import Result

TITLES = {
    "retriever": "Raw retriever",
    "reranker": "Reranker",
    "funnel": "Stage funnel",
    "router": "Router",
    "gate": "Retrieval gate",
    "rewriting": "Query rewriting",
    "no_answer": "No answer",
    "entities": "Entities",
    "levels": "Chunks and docs",
}
SHOWN = 6
"""Sources that are shown by name; all are in the JSON."""


def show(result: Result, to: Console | None = None) -> None:
    """What was found of every part, and in one dim line each what is missing."""
    out = to or console()
    for run in result.runs:
        if not run.components:
            continue
        name = f" of {run.name}" if len(result.runs) > 1 else ""
        out.print(f"\n[bold]Components{escaped(name)}[/bold]")
        for part, title in TITLES.items():
            found = run.components.get(part)
            if found is None:
                continue
            if not found["measured"]:
                out.print(f"  [dim]{title}: {escaped(found['missing'])}[/dim]")
                continue
            first, *rest = lines_of(part, found)
            out.print(f"  [bold]{title}[/bold]  {escaped(first)}")
            for line in rest:
                out.print(f"    {escaped(line)}")
            for note in found.get("notes", ()):
                out.print(f"    [dim]· {escaped(note)}[/dim]")


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
        return [f"stage {tables['stage']}: {told}; {many(counts['queries'])}"]
    if part == "reranker":
        moved = f"gold docs into the top k: {counts['promoted']}, out of it: {counts['demoted']}"
        return [changes[0], *changes[1:], f"{tables['before']} → {tables['after']}; {moved}; {many(counts['queries'])}"]
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
        return [*changes[:2], f"{many(counts['queries'])} of {counts['rewritten']} that were rewritten"]
    if part == "no_answer":
        told = ", ".join(f"{n} {valued(f)}" for n, f in figures.items())
        at = f" at threshold {tables['threshold']:g}" if "threshold" in tables else ""
        curve = f"curve over {len(tables['curve']['threshold'])} thresholds in the JSON" if "curve" in tables else ""
        queries = many(counts["queries"], "query without an answer", "queries without an answer")
        return [f"{told}{at}; {queries}" if told else f"{queries}; {curve}", *([curve] if told and curve else [])]
    if part == "entities":
        micro = ", ".join(f"{n} {valued(f)}" for n, f in figures.items() if "(" not in n)
        told = f"{counts['right']} right of {counts['found']} found and {counts['gold']} in the gold"
        return [micro, f"{told}; {many(counts['queries'])}"]
    told = ", ".join(f"{n} {valued(f)}" for n, f in figures.items())
    return [told, *changes]


def _router(figures: Mapping[str, Any], counts: Mapping[str, int]) -> list[str]:
    names = ("routing_accuracy", "misroute_rate", "abstain_rate")
    told = ", ".join(f"{n} {valued(figures[n])}" for n in names)
    out = [f"{told}; {many(counts['queries'])}"]
    for begin, what in (("source_share.", "chosen"), ("recall@", "recall by expected source")):
        mine = [(n, f) for n, f in figures.items() if n.startswith(begin) and f["mean"] is not None]
        if mine:
            mine.sort(key=lambda x: -x[1]["n"] if begin != "source_share." else -x[1]["mean"])
            listed = ", ".join(f"{n.partition('.')[2]} {valued(f)}" for n, f in mine[:SHOWN])
            out.append(f"{what}: {listed}{', …' if len(mine) > SHOWN else ''}")
    return out


def _percent(figure: Mapping[str, Any]) -> str:
    return "" if figure["mean"] is None else f" ({figure['mean']:.0%})"


def _end(name: str, k: int) -> str:
    if name == "cut":
        return f"cut at {k}"
    return name.replace("lost_at.", "lost at ").replace("_", " ")


def valued(figure: Mapping[str, Any]) -> str:
    """A value with its interval."""
    if figure["mean"] is None:
        return "–"
    return f"{figure['mean']:.3f}{_ends(figure['ci'])}"


def _ends(ci: Any) -> str:
    if ci is None:
        return ""
    return f" [{', '.join('–' if x is None else f'{x:.3f}' for x in ci)}]"


def changed(name: str, change: Mapping[str, Any]) -> str:
    """A paired difference in one line."""
    before, after, delta = change["mean_baseline"], change["mean_candidate"], change["delta"]
    if delta is None:
        return f"{name} –"
    more = change["improvement"]
    percent = f", {more:+.1f}%" if more is not None else ", no percentage of a zero"
    p = change["p_adjusted"]
    tested = f", p {p:.3g}" if p is not None else ""
    won = f"won {change['wins']}, lost {change['losses']}"
    return f"{name} {before:.3f} → {after:.3f}: Δ {delta:+.3f}{_ends(change['ci'])}{percent}{tested}; {won}"


def many(n: int, one: str = "query", several: str = "queries") -> str:
    """`1 query`, `12 queries`."""
    return f"{n:,} {one if n == 1 else several}"


def show_stress(found: Any, top: int = 10) -> None:
    """The drop, and the queries that lost most."""
    out = console()
    change, row = found.change, found.as_json()["stress"]
    p = change.p_adjusted
    out.print(
        f"[bold]{found.metric} falls by {found.drop:.4f}[/bold]{escaped(_ends(row['ci']))} with negatives on top "
        f"({change.mean_baseline:.4f} → {change.mean_candidate:.4f}), p {p:.3g}; {many(found.queries)}"
    )
    out.print(
        f"[dim]reranker {escaped(found.reranker)} · negatives: {escaped(found.source)} · still in the top {found.k}: "
        f"{row['negatives_in_top']} of {sum(len(r['negatives']) for r in found.rows)} · "
        f"worse on {change.losses}, equal on {change.ties}, better on {change.wins}[/dim]"
    )
    worst = [r for r in found.rows if (r["drop"] or 0) > 0][:top]
    for r in worst:
        out.print(f"  {escaped(str(r['query_id']))}: {r['without']:.3f} → {r['with']:.3f} ({-r['drop']:+.3f})")
    for note in found.notes:
        out.print(f"[yellow]![/yellow] {escaped(note)}")
