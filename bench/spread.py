"""How different ten docs can be: choices among candidates, bounds on any choice, and the figure of SciFact's page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

TOP = 10
STEPS = 500


def unit(vectors: Any) -> Floats:
    found = np.asarray(vectors, dtype=np.float64)
    return np.asarray(found / np.linalg.norm(found, axis=-1, keepdims=True))


def mean_distance(vectors: Floats) -> float:
    """Mean 1 − cosine of all pairs of unit vectors: their sum tells it, no pair is looked at."""
    n, total = len(vectors), vectors.sum(axis=0)
    return float((n * n - total @ total) / (n * (n - 1)))


def nearest_first(query: Floats, vectors: Floats, sigma: float) -> list[int]:
    """Dartboard that starts with the doc nearest to the query, as public code of the method does."""
    far, apart = np.maximum(1 - vectors @ query, 0), np.maximum(1 - vectors @ vectors.T, 0)
    log_query, log_pair = -0.5 * (far / sigma) ** 2, -0.5 * (apart / sigma) ** 2
    chosen = [int(np.argmin(far))]
    covered = log_pair[chosen[0]]
    while len(chosen) < TOP:
        logs = np.maximum(covered, log_pair) + log_query
        gain = np.exp(logs - logs.max()).sum(axis=1)
        gain[chosen] = -1
        chosen.append(int(np.argmax(gain)))
        covered = np.maximum(covered, log_pair[chosen[-1]])
    return chosen


def most_different(vectors: Floats) -> list[int]:
    """Ten that differ much: greedy, then swaps as long as one helps. A lower bound of what can be reached."""
    likeness = vectors @ vectors.T
    chosen = [int(np.argmin(likeness.sum(axis=1)))]
    while len(chosen) < TOP:
        total = likeness[:, chosen].sum(axis=1)
        total[chosen] = np.inf
        chosen.append(int(np.argmin(total)))
    while True:
        total = likeness[:, chosen].sum(axis=1)
        # Leaving `out` and taking `new`: the sum over pairs changes by what new adds less what out held.
        change = (total[:, None] - likeness[:, chosen]) - (total[chosen] - 1)[None, :]
        change[chosen] = np.inf
        new, out = np.unravel_index(np.argmin(change), change.shape)
        if change[new, out] > -1e-9:
            return chosen
        chosen[out] = int(new)


def at_most(vectors: Floats, steps: int = STEPS) -> Floats:
    """For each query (queries × n × dims): what no ten of its n docs can exceed in ild@10.

    With s the sum of ten unit vectors, ild@10 = (100 − s·s) / 90. The least s·s over weights from 0 to 1 that add up
    to ten is a convex problem, and less than that no ten can have. Frank–Wolfe solves it; each step gives a bound
    that holds wherever it stops.
    """
    gram = np.einsum("qid,qjd->qij", vectors, vectors)
    count, n, _ = gram.shape
    weight = np.full((count, n), TOP / n)
    product = np.einsum("qij,qj->qi", gram, weight)
    bound = np.zeros(count)
    for _ in range(steps):
        value = (weight * product).sum(axis=1)
        corner = np.zeros_like(weight)
        np.put_along_axis(corner, np.argpartition(product, TOP, axis=1)[:, :TOP], 1.0, axis=1)
        toward = corner - weight
        slope = (toward * product).sum(axis=1)
        bound = np.maximum(bound, value + 2 * slope)
        change = np.einsum("qij,qj->qi", gram, toward)
        step = np.clip(-slope / np.maximum((toward * change).sum(axis=1), 1e-12), 0, 1)[:, None]
        weight, product = weight + step * toward, product + step * change
    return np.asarray((TOP * TOP - bound) / (TOP * (TOP - 1)))


Line = tuple[str, str, "Sequence[tuple[str, float, float]]"]
"""Its name, its mark, and points: label, ild@10, ndcg@10."""


def draw(path: Path, lines: Sequence[Line], systems: Mapping[str, tuple[float, float]], border: float) -> None:
    """nDCG@10 over ild@10, a line for each way of choosing."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "karat", "font.size": 9}):
        figure, axes = plt.subplots(figsize=(7.2, 4.4))
        for name, mark, points in lines:
            axes.plot([p[1] for p in points], [p[2] for p in points], mark, label=name, markersize=4, linewidth=1.3)
            for told, x, y in points:
                if told:
                    axes.annotate(told, (x, y), xytext=(4, 4), textcoords="offset points", fontsize=7)
        for name, (x, y) in systems.items():
            axes.plot([x], [y], "kD", markersize=4)
            axes.annotate(name, (x, y), xytext=(-3, 7), textcoords="offset points", fontsize=8)
        axes.axvline(border, color="0.5", linewidth=0.9, linestyle="--")
        axes.annotate(
            "1.3 × dense", (border, 0.02), xytext=(4, 0), textcoords="offset points", color="0.35", fontsize=8
        )
        axes.set(xlabel="ild@10 (mean 1 − cosine, all-MiniLM-L6-v2)", ylabel="nDCG@10", ylim=(0, 0.8))
        axes.set_title("SciFact, 300 test queries: relevance and difference of the first ten", fontsize=10)
        axes.grid(alpha=0.25)
        axes.legend(loc="lower left", frameon=False)
        figure.tight_layout()
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
