"""What is said of a collection's reliability: tables of text and a legend, which terminal and Markdown lay out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.records import dataclass
from karat.results.figures import p_text, percent_text
from karat.results.reliability import (
    NARROW_HEADS,
    RELIABILITY_HEADS,
    STABLE,
    TARGET,
    MetricReliability,
    coefficient_figure,
)
from karat.results.words import units_text

if TYPE_CHECKING:
    from karat.verbs.reliability import Reliability


@dataclass(frozen=True)
class Section:
    """A table with its title."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def sections(source: Reliability, *, verbose: bool = False, narrow: bool = False) -> list[Section]:
    """All metrics, where their variance comes from, and how the primary one grows; verbose shows all and every pair."""
    heads = NARROW_HEADS if narrow else RELIABILITY_HEADS
    out = [
        Section("", heads, tuple(one.cells(narrow=narrow) for one in source.metrics)),
        Section("Where the variance lies", VARIANCE, tuple(_variance(one) for one in source.metrics)),
    ]
    for one in source.metrics if verbose else (source.primary,):
        word = "queries" if one.unit_word == "query" else "conversations"
        columns = 4 if narrow else len(CURVE)
        rows = tuple(row[:columns] for row in _curve(one))
        out.append(Section(f"{one.metric} with more or fewer {word}", CURVE[:columns], rows))
    for one in source.metrics if verbose else ():
        rows = tuple((pair.first, pair.second, p_text(pair.p)) for pair in one.power.pairs)
        out.append(Section(f"{one.metric}: every pair, the better system first", ("system", "other", "p"), rows))
    return out


VARIANCE = ("metric", "systems", "queries", "interaction and error")
CURVE = ("n", "Eρ²", "Φ", "τ of two samples", "τ_AP", "samples")


def _variance(one: MetricReliability) -> tuple[str, ...]:
    parts = one.study.components
    values = (parts.system, parts.query, parts.interaction)
    return one.metric, *(percent_text(value / parts.total if parts.total else float("nan")) for value in values)


def _curve(one: MetricReliability) -> list[tuple[str, ...]]:
    rows = []
    for point in one.curve:
        agreement = point.agreement
        figures = (point.relative, point.absolute, agreement.tau, agreement.tau_ap)
        here = " (now)" if point.n == one.units else ""
        how = "disjoint" if agreement.source == "splits" else "drawn again"
        rows.append((f"{point.n:,}{here}", *(coefficient_figure(f).sentence for f in figures), how))
    return rows


def legend(source: Reliability) -> tuple[str, ...]:
    """What each figure means, one line each."""
    one, sampling = source.primary, source.result.runs[0].sampling
    half = units_text(one.split_half.n, one.unit_word)
    return (
        "Eρ²: how far differences between systems would come out the same with other queries, from 0 to 1; the order"
        f" is called stable where the whole interval is at least {STABLE:g}, and {TARGET:g} is what collections aim at",
        "Φ: the same of the levels; only a high one allows comparison with figures from other queries",
        f"split-half τ: agreement of the orders by two random halves ({half} each) and the middle"
        f" {percent_text(sampling.confidence)} of {one.split_half.draws:,} splits; τ_AP: counts swaps at the top most",
        f"pairs separated: significantly different at α = {source.alpha:g} (randomised Tukey HSD,"
        f" {one.power.draws:,} draws)",
        f"intervals {percent_text(sampling.confidence)}, for these systems and other queries · seed {sampling.seed}",
    )
