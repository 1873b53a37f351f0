"""A comparison for a person at a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.table import Table

from karat.metrics.grammar import PRIMARY
from karat.report.terminal.evaluate import console, escaped, short_range
from karat.results.remarks import unjudged
from karat.stats.power import queries_needed
from karat.stats.quantiles import TEST

if TYPE_CHECKING:
    from rich.console import Console

    from karat.results.differences import Compared
    from karat.verbs.compare import Comparison

PLANNED = (0.01, 0.02, 0.05)
WIDE = 96


def show(found: Comparison, *, plan: bool = False, top: int = 5) -> None:
    """Differences with intervals and p, a sentence for each, segments, and the queries that moved most."""
    out = console()
    for candidate in dict.fromkeys(r.candidate for r in found.rows):
        rows = [r for r in found.rows if r.candidate == candidate]
        out.print(f"[bold]{candidate}[/bold] against [bold]{found.baseline}[/bold]")
        out.print(_overall([r for r in rows if r.segment is None], found, out.width))
        for row in rows:
            if row.segment is None:
                out.print("  " + sentence(row, found.alpha))
        if any(r.segment is not None for r in rows):
            _segments(out, rows)
        if top:
            _movers(out, found, candidate, top)
        out.print()
    if found.pairs:
        _pairs(out, found)
    if plan:
        _plan(out, found)
    for note in (*found.notes, *unjudged(found.result)):
        out.print(f"[yellow]![/yellow] {note}")
    sampling = found.result.runs[0].sampling
    used = " and ".join(dict.fromkeys(r.correction for r in found.rows if r.p_adjusted == r.p_adjusted))
    out.print(
        f"[dim]Δ = candidate − baseline · intervals {sampling.confidence:.0%} · p adjusted: {used} · "
        f"seed {sampling.seed}[/dim]"
    )


def _overall(rows: list[Compared], found: Comparison, width: int) -> Table:
    """All figures where there is room, else those that decide."""
    tests = list(dict.fromkeys(t for r in rows for t in r.p))
    roomy = width >= WIDE + 12 * len(tests)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    means, extras = ([found.baseline, rows[0].candidate], [f"p {t}" for t in tests]) if roomy else ([], [])
    last = ["d_z", "won/tied/lost", "n"] if roomy else ["won/tied/lost"]
    for name in ("metric", *means, "Δ", "interval", *extras, "p adj.", *last):
        table.add_column(name, justify="left" if name == "metric" else "right", no_wrap=True)
    for r in rows:
        colour, moved = _colour(r), f"{r.wins}/{r.ties}/{r.losses}"
        table.add_row(
            r.metric,
            *([f"{r.mean_baseline:.4f}", f"{r.mean_candidate:.4f}"] if roomy else []),
            f"[{colour}]{r.delta:+.4f}[/{colour}]",
            escaped(short_range(r.difference.low, r.difference.high)),
            *([_p(r.p.get(t, math.nan)) for t in tests] if roomy else []),
            _p(r.p_adjusted),
            *(
                ["–" if r.effect_size != r.effect_size else f"{r.effect_size:.2f}", moved, str(r.n)]
                if roomy
                else [moved]
            ),
        )
    return table


def _colour(row: Compared) -> str:
    if not row.significant or row.better_when_higher is None:
        return "default"
    return "green" if (row.delta > 0) == row.better_when_higher else "red"


def _p(p: float) -> str:
    return "–" if p != p else f"{p:.4f}" if p >= 0.0001 else f"{p:.1e}"


def sentence(row: Compared, alpha: float) -> str:
    """What the figures say of one metric, in words."""
    by = f"({row.decided_by}, p adj. {_p(row.p_adjusted)})"
    if row.significant:
        better = (row.delta > 0) == (row.better_when_higher is not False)
        text = f"{row.metric}: {row.candidate} is {'better' if better else 'worse'} {by}"
    else:
        text = f"{row.metric}: not separable with {row.n} queries {by}"
        if row.difference.low > 0 or row.difference.high < 0:
            text += ", though the interval leaves out 0: the test decides"
        if row.p_adjusted != row.p_adjusted and row.difference.method == "none":
            text += "; too few for an interval"
        elif row.needed is None and row.delta == 0:
            text += "; no number of queries would decide a difference of 0"
        elif row.needed is not None and row.needed > row.n:
            text += f"; a true difference of {abs(row.delta):.4f} would take about {row.needed:,}"
        if row.detectable == row.detectable:
            text += f"; these can show {row.detectable:.4f}"
    if row.margin is not None:
        verdicts = [("equivalent", row.equivalent), ("non-inferior", row.non_inferior)]
        held = [name for name, holds in verdicts if holds]
        text += f"; {' and '.join(held) if held else 'neither equivalent nor non-inferior'} within {row.margin:g}"
    if row.inside_noise is not None:
        text += f"; {'inside' if row.inside_noise else 'beyond'} the noise floor of {row.noise:.4f}"
    return text


def _segments(out: Console, rows: list[Compared]) -> None:
    metrics = list(dict.fromkeys(r.metric for r in rows))
    metric = PRIMARY if PRIMARY in metrics else metrics[0]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in (f"Δ {metric} by segment", "n", "Δ", "interval", "p adj.", ""):
        table.add_column(name, justify="left" if "segment" in name or not name else "right", no_wrap=True)
    for r in rows:
        if r.segment is None or r.metric != metric:
            continue
        flag = "too few to judge alone" if r.small else "moves against the whole" if r.against_trend else ""
        colour = "dim" if r.small else _colour(r)
        cells = (
            ", ".join(f"{k}={v}" for k, v in r.segment.items()),
            str(r.n),
            f"{r.delta:+.4f}",
            escaped(short_range(r.difference.low, r.difference.high)),
            _p(r.p_adjusted),
            flag,
        )
        table.add_row(*(f"[{colour}]{c}[/{colour}]" if c else "" for c in cells))
    out.print(table)


def _movers(out: Console, found: Comparison, candidate: str, top: int) -> None:
    metric = PRIMARY if PRIMARY in found.result.metrics else found.result.metrics[0]
    moved = [r for r in found.differences(metric, candidate) if r[3] != 0][:top]
    if not moved:
        return
    listed = ", ".join(f"{q} {d:+.3f}" for q, _, _, d in moved)
    out.print(f"  [dim]largest differences in {metric}: {listed}[/dim]")


def _pairs(out: Console, found: Comparison) -> None:
    for metric, pairs in found.pairs.items():
        names = list(pairs["p"])
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(f"p of all pairs, {metric}", no_wrap=True)
        for name in names:
            table.add_column(name, justify="right", no_wrap=True)
        for a in names:
            table.add_row(a, *("" if a == b else _p(pairs["p"][a][b]) for b in names))
        out.print(table)
        out.print(
            f"  [dim]randomised Tukey HSD, blocked by query, {pairs['draws']:,} draws: for any pair; the p adj. above"
            " are for candidates against the baseline alone[/dim]\n"
        )


def _plan(out: Console, found: Comparison) -> None:
    import numpy as np

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    heads = ("plan", "n", "spread of Δ", "these show", *(f"queries for {d:g}" for d in PLANNED))
    for name in heads:
        table.add_column(name, justify="left" if name == "plan" else "right", no_wrap=True)
    for row in found.rows:
        if row.segment is not None or row.decided_by == TEST:
            continue
        moved = np.array([d for *_, d in found.differences(row.metric, row.candidate)])
        spread = float(moved.std(ddof=1)) if len(moved) > 1 else float("nan")
        needed = [queries_needed(d, spread, alpha=found.alpha) if spread == spread else None for d in PLANNED]
        table.add_row(
            f"{row.metric}, {row.candidate}",
            str(row.n),
            f"{spread:.4f}",
            f"{row.detectable:.4f}",
            *("–" if n is None else f"{n:,}" for n in needed),
        )
    out.print(table)
    out.print(f"  [dim]for a power of .8 at α = {found.alpha:g}, paired t-test[/dim]\n")
