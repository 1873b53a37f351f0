"""A comparison for a person at a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from karat.report.terminal.console import colour_of, console, grid, line, note
from karat.report.terminal.evaluate import show_judged
from karat.results.decisions import TEST_LABELS, Decision, describe_families
from karat.results.figures import SAME, difference_figure, effect_text, figure, p_text, percent_text
from karat.results.words import TOO_FEW, plain, plural, segment_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from karat.results.words import SharedLevels
    from karat.verbs.compare import Comparison

WIDE = 96


def show(comparison: Comparison, *, top: int = 5) -> None:
    """Differences with intervals and p, a sentence for each, segments, and the queries that moved most."""
    out = console()
    for candidate in dict.fromkeys(r.candidate for r in comparison.rows):
        rows = [r for r in comparison.rows if r.candidate == candidate]
        out.print(line((plain(candidate), "bold"), " against ", (plain(comparison.baseline), "bold")))
        out.print(_overall([r for r in rows if r.segment is None], comparison, out.width))
        for row in rows:
            if row.segment is None:
                out.print(line(f"  {plain(row.statement)}"))
                if (shared := _shared_levels(row, comparison)) is not None:
                    out.print(line(f"  {row.metric}, {shared}", style="dim"))
        if any(r.segment is not None for r in rows):
            _segments(out, rows)
        if top:
            _movers(out, comparison, candidate, top)
        out.print()
    if comparison.pairs:
        _pairs(out, comparison)
    show_judged(out, comparison.result, {"none": comparison.rows, **comparison.by_judge})
    for remark in comparison.remarks:
        out.print(note(plain(remark.text), serious=remark.serious))
    for text in comparison.notes:
        out.print(note(plain(text), serious=True))
    sampling = comparison.result.runs[0].sampling
    level, ratios = percent_text(sampling.confidence), any(r.scale == "ratio" for r in comparison.rows)
    parts = (
        "Δ = candidate − baseline" + (", × = candidate / baseline" if ratios else ""),
        f"intervals {level}",
        describe_families(comparison.rows) or "no p is adjusted",
        f"seed {sampling.seed}",
    )
    out.print(line(" · ".join(parts), style="dim"))


def _overall(rows: list[Decision], comparison: Comparison, width: int) -> Table:
    """All figures where there is room, else those that decide."""
    tests = list(dict.fromkeys(t for r in comparison.rows for t in r.p))
    wide = width >= WIDE + 12 * len(tests)
    means, extras = (
        ([comparison.baseline, rows[0].candidate], [f"p {TEST_LABELS.get(t, t)}" for t in tests]) if wide else ([], [])
    )
    last = ["d_z", "won/tied/lost", "n"] if wide else ["won/tied/lost"]
    table = grid("metric", *map(plain, means), "Δ", "interval", *extras, "p adj.", *last)
    for r in rows:
        one, outcomes = r.figure, f"{r.wins}/{r.ties}/{r.losses}"
        values = [figure(r.metric, r.mean_baseline).text, figure(r.metric, r.mean_candidate).text] if wide else []
        table.add_row(
            r.metric,
            *values,
            line((one.text, colour_of(r.outcome))),
            one.interval,
            *([p_text(r.p.get(t, math.nan)) for t in tests] if wide else []),
            p_text(r.p_adjusted),
            *([effect_text(r.effect_size), outcomes, str(r.n)] if wide else [outcomes]),
        )
    return table


def _shared_levels(row: Decision, comparison: Comparison) -> SharedLevels | None:
    return row.shared_levels(comparison.result[comparison.baseline], comparison.result[row.candidate])


def _segments(out: Console, rows: list[Decision]) -> None:
    metrics = list(dict.fromkeys(r.metric for r in rows))
    metric = next((r.metric for r in rows if r.primary), metrics[0])
    pooled = out.width >= WIDE and any(r.pooled is not None for r in rows if r.metric == metric)
    table = grid(f"Δ {metric} by segment", "n", "Δ", "interval", *(["pooled Δ"] if pooled else []), "p adj.")
    table.add_column("", no_wrap=True)
    for r in rows:
        if r.segment is None or r.metric != metric:
            continue
        flag = "; ".join(filter(None, (TOO_FEW if r.small else "", r.contrast)))
        name = plain(segment_text(r.segment, "="))
        one = r.figure
        beside = [str(r.pooled_figure) if r.pooled is not None else ""] if pooled else []
        cells = (name, str(r.n), one.text, one.interval, *beside, p_text(r.p_adjusted), flag)
        table.add_row(*cells, style=("dim" if r.small else colour_of(r.outcome)) or None)
    out.print(table)
    if len(metrics) > 1:
        others = {tuple(r.segment.items()) for r in rows if r.segment and r.significant and r.metric != metric}
        rest = (
            f"others differ significantly in {plural(len(others), 'segment')}: --markdown and --json show them"
            if others
            else "no other metric differs significantly in a segment"
        )
        out.print(line(f"  only {metric}, the primary metric; {rest}", style="dim"))


def _movers(out: Console, comparison: Comparison, candidate: str, top: int) -> None:
    metric = next((r.metric for r in comparison.rows if r.primary), comparison.result.metrics[0])
    changes = [r for r in comparison.differences(metric, candidate) if abs(r[3]) > SAME][:top]
    if not changes:
        return
    text = ", ".join(f"{plain(q)} {difference_figure(metric, d).short}" for q, _, _, d in changes)
    out.print(line(f"  largest differences in {metric}: {text}", style="dim"))


def _pairs(out: Console, comparison: Comparison) -> None:
    for metric, pairs in comparison.pairs.items():
        names = list(pairs.p)
        table = grid(f"p of all pairs, {metric}", *map(plain, names))
        for a in names:
            table.add_row(plain(a), *("" if a == b else p_text(pairs.p[a][b]) for b in names))
        out.print(table)
        out.print(
            line(
                f"  {pairs.method}: for any pair; the p adj. above are for candidates against the baseline alone\n",
                style="dim",
            )
        )
