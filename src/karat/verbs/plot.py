"""Curves over k as a picture, drawn by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karat.errors import missing_package

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.verbs.sweep import Curve

STYLES = ("o-", "^--", "s-.", "D:", "P-", "X--")
# Okabe and Ito's palette: it can be told apart with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def draw_curves(curves: Sequence[Curve]) -> Any:
    """A matplotlib figure of the curves over all queries with their bands, one panel per metric."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_package("drawing", "matplotlib") from None
    metrics = list(dict.fromkeys(c.metric for c in curves))
    with rc_context({"svg.hashsalt": "karat"}):
        picture = Figure(figsize=(4.2 * len(metrics), 3.6))
        panels = picture.subplots(1, len(metrics), squeeze=False)[0]
        for panel, metric in zip(panels, metrics, strict=True):
            _draw(panel, metric, [c for c in curves if c.metric == metric and c.segment is None])
        panels[0].legend(frameon=False)
        picture.tight_layout()
    return picture


def _draw(panel: Any, metric: str, curves: Sequence[Curve]) -> None:
    for i, curve in enumerate(curves):
        colour, style = COLOURS[i % len(COLOURS)], STYLES[i % len(STYLES)]
        low, high = [p.low for p in curve.points], [p.high for p in curve.points]
        panel.plot(curve.ks, curve.values, style, color=colour, label=curve.run, markersize=4)
        panel.fill_between(curve.ks, low, high, color=colour, alpha=0.15, linewidth=0)
    panel.set_xscale("log")
    ticks = curves[0].ks
    panel.set_xticks(ticks, [str(k) for k in ticks])
    panel.minorticks_off()
    panel.set_ylim(0, 1)
    panel.set_title(f"{metric}@k")
    panel.set_xlabel("k")
    panel.grid(alpha=0.25)
