"""Curves over k, and over the number of queries, as pictures drawn by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karat.errors import UsageError, missing_package

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.gates.plans import GateForecast, TruthForecast
    from karat.results.reliability import MetricReliability
    from karat.verbs.sweep import Curve

PANELS = 4
"""Panels side by side."""
STYLES = ("o-", "^--", "s-.", "D:", "P-", "X--")
# Okabe and Ito's palette: it can be told apart with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def draw_curves(curves: Sequence[Curve]) -> Any:
    """A matplotlib figure of the curves over all queries with their bands, one panel per metric."""
    metrics = list(dict.fromkeys(c.metric for c in curves))
    with _drawing():
        picture = _figure(4.2 * len(metrics), 3.6)
        panels = picture.subplots(1, len(metrics), squeeze=False)[0]
        for panel, metric in zip(panels, metrics, strict=True):
            _draw(panel, metric, [c for c in curves if c.metric == metric and c.segment is None])
        panels[0].legend(frameon=False)
        picture.tight_layout()
    return picture


def draw_reliability(metrics: Sequence[MetricReliability]) -> Any:
    """A matplotlib figure of Eρ² against the number of queries with its band, one panel per metric."""
    with _drawing():
        picture = _figure(4.2 * min(len(metrics), PANELS), 3.2 * -(-len(metrics) // PANELS))
        panels = picture.subplots(-(-len(metrics) // PANELS), min(len(metrics), PANELS), squeeze=False).ravel()
        for panel, one in zip(panels, metrics, strict=False):
            _draw_reliability(panel, one)
        for panel in panels[len(metrics) :]:
            panel.set_axis_off()
        panels[0].legend(frameon=False)
        picture.tight_layout()
    return picture


def draw_plan(gates: Sequence[GateForecast]) -> Any:
    """A matplotlib figure of the chances of each outcome against n, one panel per gate and truth."""
    cells = [(gate, truth) for gate in gates for truth in gate.truths]
    if not cells:
        raise UsageError("nothing to draw: name a gate to plan for")
    columns = min(len(cells), PANELS)
    with _drawing():
        picture = _figure(4.2 * columns, 3.2 * -(-len(cells) // columns))
        panels = picture.subplots(-(-len(cells) // columns), columns, squeeze=False).ravel()
        for panel, (gate, truth) in zip(panels, cells, strict=False):
            _draw_chances(panel, gate, truth)
        for panel in panels[len(cells) :]:
            panel.set_axis_off()
        panels[0].legend(frameon=False)
        picture.tight_layout()
    return picture


def _draw_chances(panel: Any, gate: GateForecast, truth: TruthForecast) -> None:
    sizes = [c.n for c in truth.curve]
    chances = {
        "SHIP": ([c.ship for c in truth.curve], "#009E73"),
        "BLOCK": ([c.block for c in truth.curve], "#D55E00"),
        "INCONCLUSIVE": ([c.inconclusive for c in truth.curve], "#888888"),
    }
    for (name, (values, colour)), style in zip(chances.items(), STYLES, strict=False):
        panel.plot(sizes, values, style, color=colour, label=name, markersize=4)
    panel.set_xscale("log")
    panel.set_xticks(sizes, [str(n) for n in sizes])
    panel.minorticks_off()
    panel.set_ylim(-0.02, 1.02)
    panel.set_title(f"{gate.gate}\ntruth: {truth.label}", fontsize=9)
    panel.set_xlabel(gate.each)
    panel.grid(alpha=0.25)


def _drawing() -> Any:
    """The settings under which the same curves give the same file."""
    try:
        from matplotlib import rc_context
    except ImportError:
        raise missing_package("drawing", "matplotlib") from None
    return rc_context({"svg.hashsalt": "karat"})


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def _draw_reliability(panel: Any, one: MetricReliability) -> None:
    sizes = [point.n for point in one.curve]
    figures = {"Eρ²": [p.relative for p in one.curve], "Φ": [p.absolute for p in one.curve]}
    for (name, points), colour, style in zip(figures.items(), COLOURS, STYLES, strict=False):
        low, high = [p.low for p in points], [p.high for p in points]
        panel.plot(sizes, [p.estimate for p in points], style, color=colour, label=name, markersize=4)
        panel.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)
    panel.axvline(one.units, color="#888888", linewidth=1, linestyle=":")
    panel.set_xscale("log")
    panel.set_xticks(sizes, [str(n) if n != one.units else "" for n in sizes])
    panel.minorticks_off()
    panel.set_ylim(0, 1)
    panel.set_title(f"{one.metric} ({one.size})")
    panel.set_xlabel("queries" if one.unit_word == "query" else "conversations")
    panel.grid(alpha=0.25)


def _draw(panel: Any, metric: str, curves: Sequence[Curve]) -> None:
    for i, curve in enumerate(curves):
        colour, style = COLOURS[i % len(COLOURS)], STYLES[i % len(STYLES)]
        low, high = [p.low for p in curve.points], [p.high for p in curve.points]
        panel.plot(curve.ks, curve.values, style, color=colour, label=curve.label, markersize=4)
        panel.fill_between(curve.ks, low, high, color=colour, alpha=0.15, linewidth=0)
    panel.set_xscale("log")
    ticks = curves[0].ks
    panel.set_xticks(ticks, [str(k) for k in ticks])
    panel.minorticks_off()
    panel.set_ylim(0, 1)
    panel.set_title(f"{metric}@k")
    panel.set_xlabel("k")
    panel.grid(alpha=0.25)
