"""Runs against a baseline by a judge's grades: differences by gold + judge, and corrected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from karat.metrics.grammar import choose_primary
from karat.results.by_judge import Basis
from karat.results.decisions import Decision
from karat.results.differences import PairedComparison, adjust
from karat.results.pairing import lack_of_common_judge, pair_on_basis

if TYPE_CHECKING:
    from karat.results.result import RunResult

ByBasis = Mapping[Basis, tuple[Decision, ...]]
"""Differences over all queries: by gold + judge (`raw`), and corrected."""


def decide_by_judge(comparison: PairedComparison, runs: Iterable[RunResult]) -> ByBasis:
    """Every metric that a judge's grades feed, over all queries; p is adjusted apart from that of the gold alone.

    Runs that rest on other judgments than the baseline are left out. Segments are, too: they may have no labels.
    """
    base, listed = comparison.base, [run for run in runs if not lack_of_common_judge(comparison.base, run)]
    out: dict[Basis, tuple[Decision, ...]] = {}
    bases: tuple[Basis, ...] = ("raw",) if base.sampling.sequential else ("raw", "corrected")
    for basis in bases:
        rows: list[Decision] = []
        for run in listed:
            metrics = [m for m in _metrics(base, basis) if m in _metrics(run, basis)]
            if metrics:
                pair = pair_on_basis(base, run, basis)
                before, after = (replace(r, values={m: r.values[m] for m in metrics}) for r in pair)
                rows += replace(comparison, base=before, primary=_primary(comparison, metrics)).decide(
                    after, segments=False
                )
        if rows:
            metrics = list(dict.fromkeys(row.metric for row in rows))
            primary = choose_primary(metrics, wish=_primary(comparison, metrics))
            out[basis] = tuple(adjust(rows, comparison.correction, comparison.alpha, primary))
    return out


def _metrics(run: RunResult, basis: Basis) -> list[str]:
    assert run.by_judge is not None
    fed = run.by_judge.raw if basis == "raw" else run.by_judge.corrected
    return [m for m in run.values if m in fed]


def _primary(comparison: PairedComparison, metrics: list[str]) -> str | None:
    """The metric that decides, where it is among these."""
    return comparison.primary if comparison.primary in metrics else None
