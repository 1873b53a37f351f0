"""Curves over k: in the terminal, and as a picture."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from karat.errors import UsageError, missing_package
from karat.report.terminal.console import console, grid, line, note
from karat.results.figures import estimate_figure, share_figure
from karat.results.words import plain

if TYPE_CHECKING:
    from karat.verbs.sweep import Curve, Sweep

HEIGHT, STEP = 12, 9
MARKS = "●▲■◆✚✖○△□◇"
PICTURES = (".png", ".svg")


def show(found: Sweep) -> None:
    """A plot for each metric, then the figures."""
    out = console()
    for metric in dict.fromkeys(c.metric for c in found.curves):
        curves = [c for c in found.curves if c.metric == metric and c.segment is None]
        out.print(line(f"{metric}@k", style="bold"))
        for row in plotted(curves):
            out.print(line(row), no_wrap=True, crop=True)
        wide = out.width >= 40 + 17 * len(curves[0].ks)
        heads = (*(f"k={k}" for k in curves[0].ks), "area", "knee", "98% at")
        table = grid("run", *heads, gap=2 if wide else 1)
        for column in table.columns[1:]:  # a long name is cut before a number is
            column.min_width = 5
        table.columns[0].overflow = "ellipsis"
        for curve in (c for c in found.curves if c.metric == metric):
            fields = plain(", ".join(f"{a}={b}" for a, b in (curve.segment or {}).items()))
            figures = [estimate_figure(f"{metric}@{k}", p) for k, p in zip(curve.ks, curve.points, strict=True)]
            cells = [one.short for one in figures] + [""] * (len(curves[0].ks) - len(figures))
            last = (share_figure(curve.area).short, str(curve.knee or "–"), _enough(curve))
            table.add_row(f"  {fields}" if fields else plain(curve.run), *cells, *last)
            if curve.segment is None and wide:
                table.add_row("", *(line(one.interval, style="dim") for one in figures))
        out.print(table)
        out.print()
    for text in found.notes:
        out.print(note(plain(text), serious=True))
    out.print(
        line(
            "area: under the curve over k · knee: the k after which more gives little (Kneedle) · 98% at: the smallest"
            " k with 98% of the deepest value",
            style="dim",
        )
    )


def _enough(curve: Curve) -> str:
    """The last cutoff is where a curve that still rises happens to end."""
    if curve.enough is None:
        return "–"
    return f"{curve.enough} (last)" if curve.enough == curve.ks[-1] else str(curve.enough)


def plotted(curves: list[Curve]) -> list[str]:
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
    lines.append("      " + "   ".join(f"{m} {plain(c.run)}" for m, c in zip(MARKS, curves, strict=False)))
    return lines


def check_plot_name(path: str) -> None:
    """Refuse an unknown kind of picture before any work is done."""
    if os.path.splitext(path)[1].lower() not in PICTURES:
        raise UsageError(f"{path}: the plot must end in one of {', '.join(PICTURES)}")


def draw(found: Sweep, path: str) -> None:
    """The curves with their bands as PNG or SVG, one panel per metric."""
    check_plot_name(path)
    try:
        import matplotlib
    except ImportError:
        raise missing_package("drawing", "matplotlib") from None
    import io

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "karat"
    from matplotlib import pyplot

    from karat.store.atomic import write_atomically

    metrics = list(dict.fromkeys(c.metric for c in found.curves))
    figure, axes = pyplot.subplots(1, len(metrics), figsize=(4.2 * len(metrics), 3.6), squeeze=False)
    styles = ("o-", "^--", "s-.", "D:", "P-", "X--")
    # Okabe and Ito's palette: told apart with any colour vision.
    colours = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
    for panel, metric in zip(axes[0], metrics, strict=True):
        curves = [c for c in found.curves if c.metric == metric and c.segment is None]
        for i, curve in enumerate(curves):
            colour, style = colours[i % len(colours)], styles[i % len(styles)]
            panel.plot(curve.ks, curve.values, style, color=colour, label=curve.run, markersize=4)
            panel.fill_between(
                curve.ks,
                [p.low for p in curve.points],
                [p.high for p in curve.points],
                color=colour,
                alpha=0.15,
                linewidth=0,
            )
        panel.set_xscale("log")
        ticks = curves[0].ks
        panel.set_xticks(ticks, [str(k) for k in ticks])
        panel.minorticks_off()
        panel.set_ylim(0, 1)
        panel.set_title(f"{metric}@k")
        panel.set_xlabel("k")
        panel.grid(alpha=0.25)
    axes[0][0].legend(frameon=False)
    figure.tight_layout()
    buffer = io.BytesIO()
    kind = os.path.splitext(path)[1][1:].lower()
    figure.savefig(buffer, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    pyplot.close(figure)
    write_atomically(path, buffer.getvalue())
