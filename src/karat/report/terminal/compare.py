"""A comparison for a person at a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from karat.metrics.grammar import PRIMARY
from karat.report.terminal.console import console, grid, line, note
from karat.results.figures import SAME, difference_figure, effect_text, figure, p_text, percent_text
from karat.results.remarks import unjudged
from karat.results.words import plain, queries_text
from karat.stats.power import queries_needed
from karat.stats.quantiles import TEST

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from karat.results.differences import Compared
    from karat.results.figures import Figure
    from karat.verbs.compare import Comparison

PLANNED = (0.01, 0.02, 0.05)
WIDE = 96


def show(found: Comparison, *, plan: bool = False, top: int = 5) -> None:
    """Differences with intervals and p, a sentence for each, segments, and the queries that moved most."""
    out = console()
    for candidate in dict.fromkeys(r.candidate for r in found.rows):
        rows = [r for r in found.rows if r.candidate == candidate]
        out.print(line((plain(candidate), "bold"), " against ", (plain(found.baseline), "bold")))
        out.print(_overall([r for r in rows if r.segment is None], found, out.width))
        for row in rows:
            if row.segment is None:
                out.print(line(f"  {plain(sentence(row))}"))
        if any(r.segment is not None for r in rows):
            _segments(out, rows)
        if top:
            _movers(out, found, candidate, top)
        out.print()
    if found.pairs:
        _pairs(out, found)
    if plan:
        _plan(out, found)
    for text in (*found.notes, *unjudged(found.result)):
        out.print(note(plain(text), serious=True))
    sampling = found.result.runs[0].sampling
    used = " and ".join(dict.fromkeys(r.correction for r in found.rows if r.p_adjusted == r.p_adjusted))
    level = percent_text(sampling.confidence)
    parts = ("Δ = candidate − baseline", f"intervals {level}", f"p adjusted: {used}", f"seed {sampling.seed}")
    out.print(line(" · ".join(parts), style="dim"))


def _difference(row: Compared) -> Figure:
    return difference_figure(row.metric, row.delta, row.difference.low, row.difference.high)


def _overall(rows: list[Compared], found: Comparison, width: int) -> Table:
    """All figures where there is room, else those that decide."""
    tests = list(dict.fromkeys(t for r in rows for t in r.p))
    wide = width >= WIDE + 12 * len(tests)
    means, extras = ([found.baseline, rows[0].candidate], [f"p {t}" for t in tests]) if wide else ([], [])
    last = ["d_z", "won/tied/lost", "n"] if wide else ["won/tied/lost"]
    table = grid("metric", *map(plain, means), "Δ", "interval", *extras, "p adj.", *last)
    for r in rows:
        one, moved = _difference(r), f"{r.wins}/{r.ties}/{r.losses}"
        values = [figure(r.metric, r.mean_baseline).text, figure(r.metric, r.mean_candidate).text] if wide else []
        table.add_row(
            r.metric,
            *values,
            line((one.text, _colour(r))),
            one.interval,
            *([p_text(r.p.get(t, math.nan)) for t in tests] if wide else []),
            p_text(r.p_adjusted),
            *([effect_text(r.effect_size), moved, str(r.n)] if wide else [moved]),
        )
    return table


def _colour(row: Compared) -> str:
    if not row.significant or row.better_when_higher is None:
        return ""
    return "green" if (row.delta > 0) == row.better_when_higher else "red"


def sentence(row: Compared) -> str:
    """What the figures say of one metric, in words."""
    by = f"{row.decided_by}, p adj. {p_text(row.p_adjusted)}"
    if row.significant:
        better = (row.delta > 0) == (row.better_when_higher is not False)
        text = f"{row.metric}: {row.candidate} is {'better' if better else 'worse'} ({by})"
    else:
        text = f"{row.metric}: no significant difference ({queries_text(row.n)}; {by})"
        if row.difference.low > 0 or row.difference.high < 0:
            text += ", although the interval excludes 0; the adjusted test decides"
        if row.p_adjusted != row.p_adjusted and row.difference.method == "none":
            text += "; too few for an interval"
        text += _power(row)
    if row.margin is not None:
        holds = [name for name, yes in (("equivalent", row.equivalent), ("non-inferior", row.non_inferior)) if yes]
        margin = f"within {row.margin:g}"
        text += f"; {' and '.join(holds)} {margin}" if holds else f"; neither equivalent nor non-inferior {margin}"
    if row.inside_noise is not None and row.noise is not None:
        floor = figure(row.metric, row.noise).text
        text += f"; {'inside' if row.inside_noise else 'beyond'} the noise floor of {floor}"
    return text


def _power(row: Compared) -> str:
    """How many queries would show the difference seen, and what these can show."""
    out = []
    if row.needed is None and row.delta == 0:
        out.append("No number of queries would show a difference of 0")
    elif row.needed is not None and row.needed > row.n:
        size = figure(row.metric, abs(row.delta)).text
        out.append(f"Detecting {size} needs about {row.needed:,} queries")
    if row.detectable == row.detectable:
        out.append(f"{row.n:,} can detect {figure(row.metric, row.detectable).text}")
    return f". {'; '.join(out)}" if out else ""


def _segments(out: Console, rows: list[Compared]) -> None:
    metrics = list(dict.fromkeys(r.metric for r in rows))
    metric = PRIMARY if PRIMARY in metrics else metrics[0]
    table = grid(f"Δ {metric} by segment", "n", "Δ", "interval", "p adj.")
    table.add_column("", no_wrap=True)
    for r in rows:
        if r.segment is None or r.metric != metric:
            continue
        flag = "too few to judge alone" if r.small else "moves against the whole" if r.against_trend else ""
        name = plain(", ".join(f"{k}={v}" for k, v in r.segment.items()))
        one = _difference(r)
        cells = (name, str(r.n), one.text, one.interval, p_text(r.p_adjusted), flag)
        table.add_row(*cells, style=("dim" if r.small else _colour(r)) or None)
    out.print(table)


def _movers(out: Console, found: Comparison, candidate: str, top: int) -> None:
    metric = PRIMARY if PRIMARY in found.result.metrics else found.result.metrics[0]
    moved = [r for r in found.differences(metric, candidate) if abs(r[3]) > SAME][:top]
    if not moved:
        return
    listed = ", ".join(f"{plain(q)} {difference_figure(metric, d).short}" for q, _, _, d in moved)
    out.print(line(f"  largest differences in {metric}: {listed}", style="dim"))


def _pairs(out: Console, found: Comparison) -> None:
    for metric, pairs in found.pairs.items():
        names = list(pairs["p"])
        table = grid(f"p of all pairs, {metric}", *map(plain, names))
        for a in names:
            table.add_row(plain(a), *("" if a == b else p_text(pairs["p"][a][b]) for b in names))
        out.print(table)
        out.print(
            line(
                f"  randomised Tukey HSD, blocked by query, {pairs['draws']:,} draws: for any pair; the p adj. above"
                " are for candidates against the baseline alone\n",
                style="dim",
            )
        )


def _plan(out: Console, found: Comparison) -> None:
    import numpy as np

    table = grid("plan", "n", "spread of Δ", "these show", *(f"queries for {d:g}" for d in PLANNED))
    for row in found.rows:
        if row.segment is not None or row.decided_by == TEST:
            continue
        moved = np.array([d for *_, d in found.differences(row.metric, row.candidate)])
        spread = float(moved.std(ddof=1)) if len(moved) > 1 else float("nan")
        needed = [queries_needed(d, spread, alpha=found.alpha) if spread == spread else None for d in PLANNED]
        table.add_row(
            plain(f"{row.metric}, {row.candidate}"),
            str(row.n),
            figure(row.metric, spread).text,
            figure(row.metric, row.detectable).text,
            *("–" if n is None else f"{n:,}" for n in needed),
        )
    out.print(table)
    out.print(line(f"  for a power of 0.8 at α = {found.alpha:g}, paired t-test\n", style="dim"))
