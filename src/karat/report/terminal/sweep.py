"""Curves over k: in the terminal, and as a picture."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from karat.errors import UsageError
from karat.report.by_judge import describe_judge
from karat.report.sweep import HEADS, LEGEND, figures_of
from karat.report.terminal.console import console, grid, line, note
from karat.results.figures import estimate_figure
from karat.results.words import plain

if TYPE_CHECKING:
    from karat.verbs.plan import Plan
    from karat.verbs.reliability import Reliability
    from karat.verbs.sweep import Curve, Sweep

HEIGHT, STEP = 12, 9
MARKS = "●▲■◆✚✖○△□◇"
PICTURES = (".png", ".svg", ".pdf")


def show(sweep: Sweep) -> None:
    """A plot for each metric, then the figures."""
    out = console()
    for metric in dict.fromkeys(c.metric for c in sweep.curves):
        curves = [c for c in sweep.curves if c.metric == metric and c.segment is None]
        out.print(line(f"{metric}@k", style="bold"))
        for row in plot_lines(curves):
            out.print(line(row), no_wrap=True, crop=True)
        ks = max((c.ks for c in curves), key=len)
        wide = out.width >= 40 + 17 * len(ks)
        heads = (*(f"k={k}" for k in ks), *HEADS)
        table = grid("run", *heads, gap=2 if wide else 1)
        for column in table.columns[1:]:  # a long name is cut before a number is
            column.min_width = 5
        table.columns[0].overflow = "ellipsis"
        for curve in (c for c in sweep.curves if c.metric == metric):
            fields = plain(", ".join(f"{a}={b}" for a, b in (curve.segment or {}).items()))
            figures = [estimate_figure(f"{metric}@{k}", p) for k, p in zip(curve.ks, curve.points, strict=True)]
            cells = [one.short for one in figures] + [""] * (len(ks) - len(figures))
            area, *last = figures_of(curve)
            table.add_row(f"  {fields}" if fields else plain(curve.label), *cells, area.short, *last)
            if curve.segment is None and wide:
                table.add_row("", *(line(one.interval, style="dim") for one in figures))
        out.print(table)
        out.print()
    for text in sweep.notes:
        out.print(note(plain(text), serious=True))
    if sweep.result.judge is not None:
        out.print(line(plain(describe_judge(sweep.result.judge)), style="dim"))
    out.print(line(LEGEND, style="dim"))


def plot_lines(curves: list[Curve]) -> list[str]:
    """Points on a grid of characters: k from left to right as listed, the metric upwards from 0 to 1."""
    ks = max((c.ks for c in curves), key=len)
    grid = [[" "] * (STEP * len(ks)) for _ in range(HEIGHT + 1)]
    for mark, curve in zip(MARKS, curves, strict=False):
        for i, value in enumerate(curve.values):
            if value == value:
                row, column = HEIGHT - round(value * HEIGHT), i * STEP + STEP // 2
                while column < len(grid[row]) - 1 and grid[row][column] != " ":
                    column += 1
                grid[row][column] = mark
    lines = []
    for i, cells in enumerate(grid):
        label = f"{1 - i / HEIGHT:4.2f}" if i % 3 == 0 else "    "
        lines.append(f"{label} │{''.join(cells).rstrip()}")
    lines.append("     └" + "─" * (STEP * len(ks)))
    lines.append("      " + "".join(f"{k:^{STEP}}" for k in ks).rstrip())
    lines.append("      " + "   ".join(f"{m} {plain(c.label)}" for m, c in zip(MARKS, curves, strict=False)))
    return lines


def check_plot_name(path: str) -> None:
    """Refuse an unknown kind of picture before any work is done."""
    if os.path.splitext(path)[1].lower() not in PICTURES:
        raise UsageError(f"{path}: the plot must end in one of {', '.join(PICTURES)}")


def draw(source: Sweep | Plan | Reliability, path: str) -> None:
    """The curves with their bands as PNG, SVG or PDF, one panel per metric."""
    import io

    check_plot_name(path)
    picture = source.plot()
    from matplotlib import rc_context

    from karat.store.atomic import write_atomically

    buffer = io.BytesIO()
    kind = os.path.splitext(path)[1][1:].lower()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with rc_context({"svg.hashsalt": "karat"}):
        picture.savefig(buffer, format=kind, dpi=150, metadata=undated)
    write_atomically(path, buffer.getvalue())
