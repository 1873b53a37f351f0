"""What is said of the curves of a sweep: the figures of each, and which run leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.metrics.grammar import choose_primary
from karat.report.terminal.evaluate import best_of
from karat.results.figures import Figure, share_figure
from karat.results.words import segment_text

if TYPE_CHECKING:
    from karat.verbs.sweep import Curve, Sweep

HEADS = ("area", "knee", "98% at")
LEGEND = (
    "area: under the curve over k · knee: the k after which more gives little (Kneedle) · 98% at: the smallest"
    " k with 98% of the deepest value; both for curves that end no lower than they start, and nowhere fall by more"
    " than 2%"
)


def figures_of(curve: Curve) -> tuple[Figure, str, str]:
    """The area, the knee, and where it is as good as done; the last cutoff is where a curve happens to end."""
    enough = "–" if curve.enough is None else f"{curve.enough:,}"
    if curve.enough == curve.ks[-1]:
        enough += " (last)"
    return share_figure(curve.area), "–" if curve.knee is None else f"{curve.knee:,}", enough


def curve_table(sweep: Sweep) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads, and a row for each curve; segments where there are some."""
    sliced = any(curve.segment for curve in sweep.curves)
    rows = []
    for curve in sweep.curves:
        area, *others = figures_of(curve)
        where = (segment_text(curve.segment),) if sliced else ()
        rows.append((f"{curve.metric}@k", curve.label, *where, area.text, *others))
    return ("metric", "run", *(("segment",) if sliced else ()), *HEADS), rows


def headline(sweep: Sweep) -> str:
    """Which runs have the largest area under the curve of the primary metric; that of all where none leads."""
    names = [f"{curve.metric}@{k}" for curve in sweep.curves for k in curve.ks]
    primary = choose_primary(list(dict.fromkeys(names)))
    metric = primary.rpartition("@")[0]
    curves = [c for c in sweep.curves if c.metric == metric and c.segment is None and c.judged is None]
    best = best_of(primary, [curve.area for curve in curves])
    some = [curves[i] for i in sorted(best)] or curves
    end = min(curve.common or curve.ks[-1] for curve in curves)
    areas = "; ".join(f"{curve.run} {share_figure(curve.area)}" for curve in some[:4])
    return f"{metric}@k: {'best ' if best else ''}area under the curve up to k = {end}: {areas}"
