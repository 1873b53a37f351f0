"""A comparison for a person at a terminal."""

from __future__ import annotations

import math
import sys
from functools import partial
from typing import TYPE_CHECKING

from karat.report.terminal.console import colour_of, console, grid, head_of, lay_runs, least_width, line, note, wrapped
from karat.report.terminal.evaluate import show_judged
from karat.results.decisions import TEST_LABELS, Decision, describe_families
from karat.results.figures import SAME, difference_figure, effect_text, figure, p_text, percent_text
from karat.results.words import FEW_MARK, conventions_text, describe_few, plain, plural, segment_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.report.terminal.console import Output
    from karat.report.terminal.layout import Grid
    from karat.results.words import SharedLevels
    from karat.verbs.compare import Comparison, PairwiseTest

CONTRAST = 12
"""The fewest characters of the words beside a segment."""


def show(comparison: Comparison, *, top: int = 5) -> None:
    """Differences with intervals and p, a sentence for each, segments, and the queries that moved most."""
    out = console()
    for candidate in dict.fromkeys(r.candidate for r in comparison.rows):
        rows = [r for r in comparison.rows if r.candidate == candidate]
        out.print(line((plain(candidate), "bold"), " against ", (plain(comparison.baseline), "bold")))
        out.print(_overall(out, [r for r in rows if r.segment is None], comparison))
        for row in rows:
            if row.segment is None:
                out.print(line(f"  {plain(row.statement)}"))
                if (shared := _shared_levels(row, comparison)) is not None:
                    out.print(line(f"  {row.metric}, {shared}", style="dim"))
        if any(r.segment is not None for r in rows):
            _segments(out, rows, comparison.result.runs[0].sampling.minimum)
        if top:
            _movers(out, comparison, candidate, top)
        out.print()
    if comparison.pairs:
        _pairs(out, comparison)
    show_judged(out, comparison.result, {"none": comparison.rows, **comparison.by_judge})
    for remark in comparison.remarks:
        out.print(note(plain(remark.text), serious=remark.serious))
    for text in comparison.own_notes:
        out.print(note(plain(text), serious=True))
    sampling = comparison.result.runs[0].sampling
    level, ratios = percent_text(sampling.confidence), any(r.scale == "ratio" for r in comparison.rows)
    parts = (
        "Δ = candidate − baseline" + (", × = candidate / baseline" if ratios else ""),
        f"intervals {level}",
        describe_families(comparison.rows) or "no p is adjusted",
        f"seed {sampling.seed}",
        plain(conventions_text(comparison.result.conventions)),
    )
    out.print(line(" · ".join(filter(None, parts)), style="dim"))


def _overall(out: Output, rows: list[Decision], comparison: Comparison) -> Grid:
    """All figures in a file, or where there is room on a screen; else those that decide."""
    table = _overall_table(rows, comparison, wide=True)
    return (
        table
        if not sys.stdout.isatty() or least_width(table) <= out.width
        else _overall_table(rows, comparison, wide=False)
    )


def _overall_table(rows: list[Decision], comparison: Comparison, *, wide: bool) -> Grid:
    tests = list(dict.fromkeys(t for r in comparison.rows for t in r.p))
    means, extras = (
        ([comparison.baseline, rows[0].candidate], [f"p {TEST_LABELS.get(t, t)}" for t in tests]) if wide else ([], [])
    )
    last = ["d_z", "won/tied/lost", "n"] if wide else ["won/tied/lost"]
    table = wrapped(grid("metric", *map(head_of, means), "Δ", "interval", *extras, "p adj.", *last))
    for r in rows:
        one, outcomes = r.figure, f"{r.wins}/{r.ties}/{r.losses}"
        values = [figure(r.metric, r.mean_baseline).text, figure(r.metric, r.mean_candidate).text] if wide else []
        table.add_row(
            r.metric,
            *values,
            line((one.text, colour_of(r.outcome))),
            one.interval,
            *([p_text(r.p.get(t, math.nan)) for t in tests] if wide else []),
            r.p_adjusted_text,
            *([effect_text(r.effect_size), outcomes, str(r.n)] if wide else [outcomes]),
        )
    return table


def _shared_levels(row: Decision, comparison: Comparison) -> SharedLevels | None:
    return row.shared_levels(comparison.result[comparison.baseline], comparison.result[row.candidate])


def _segments(out: Output, rows: list[Decision], minimum: int) -> None:
    metrics = list(dict.fromkeys(r.metric for r in rows))
    metric = next((r.metric for r in rows if r.primary), metrics[0])
    parts = [r for r in rows if r.segment is not None and r.metric == metric]
    table = _segment_table(metric, parts, pooled=any(r.pooled is not None for r in parts))
    out.print(table if least_width(table) <= out.width else _segment_table(metric, parts, pooled=False))
    if any(r.small for r in parts):
        out.print(line(f"  {describe_few(minimum)}", style="dim"))
    if len(metrics) > 1:
        others = {tuple(r.segment.items()) for r in rows if r.segment and r.significant and r.metric != metric}
        rest = (
            f"others differ significantly in {plural(len(others), 'segment')}: see --markdown or --json"
            if others
            else "no other metric differs significantly in a segment"
        )
        out.print(line(f"  shown: {metric} (primary); {rest}", style="dim"))


def _segment_table(metric: str, rows: list[Decision], *, pooled: bool) -> Grid:
    table = grid(f"Δ {metric} by segment", "n", "Δ", "interval", *(["pooled Δ"] if pooled else []), "p adj.")
    wrapped(table).add_column("", min_width=CONTRAST if any(r.contrast for r in rows) else None)
    for r in rows:
        name, one = plain(segment_text(r.segment, "=")) + (f" {FEW_MARK}" if r.small else ""), r.figure
        beside = [str(r.pooled_figure) if r.pooled is not None else ""] if pooled else []
        cells = (name, str(r.n), one.text, one.interval, *beside, r.p_adjusted_text, r.contrast)
        table.add_row(*cells, style=("dim" if r.small else colour_of(r.outcome)) or None)
    return table


def _movers(out: Output, comparison: Comparison, candidate: str, top: int) -> None:
    metric = next((r.metric for r in comparison.rows if r.primary), comparison.result.metrics[0])
    changes = [r for r in comparison.differences(metric, candidate) if abs(r[3]) > SAME][:top]
    if not changes:
        return
    text = ", ".join(f"{plain(q)} {difference_figure(metric, d).short}" for q, _, _, d in changes)
    out.print(line(f"  largest differences in {metric}: {text}", style="dim"))


def _pairs(out: Output, comparison: Comparison) -> None:
    for metric, pairs in comparison.pairs.items():
        names = list(pairs.p)
        build = partial(_pairs_table, pairs, metric)
        for table in lay_runs(out, names, build, 0)[0]:
            out.print(table)
        out.print(
            line(
                f"  {pairs.method}: for any pair; the p adj. above are for candidates against the baseline alone\n",
                style="dim",
            )
        )


def _pairs_table(pairs: PairwiseTest, metric: str, names: Sequence[str], _: int) -> Grid:
    table = grid(f"p of all pairs, {metric}", *map(head_of, names))
    for a in pairs.p:
        table.add_row(head_of(a), *("" if a == b else p_text(pairs.p[a][b]) for b in names))
    return table
