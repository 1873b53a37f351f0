"""What is said of runs that a judge completed: tables of text and lines, which terminal and Markdown lay out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from karat.results.figures import UNDEFINED, estimate_figure, figure, percent_text
from karat.results.words import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.results.by_judge import JudgeIdentity, RunByJudge
    from karat.results.result import Result, RunResult

HEADS = ("metric", "gold only", "gold + judge", "corrected", "judged", "bounds")
BOUNDS = "bounds: whatever the grades of returned docs that the gold lacks"


@dataclass(frozen=True)
class JudgedSection:
    """A run's figures side by side, and what to know of them."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[str, ...]


def describe_judge(judge: JudgeIdentity) -> str:
    """Who judged, and whether figures are corrected."""
    labels = "not calibrated" if judge.labels is None else f"corrected by {plural(judge.labels, 'label')} of people"
    return f"judge: {judge.label}, fingerprint {judge.fingerprint}, scale {judge.scale}; {labels}"


def judged_sections(result: Result, *, narrow: bool = False) -> list[JudgedSection]:
    """One table per run that was judged; a narrow one has no intervals."""
    judged = [(run, run.by_judge) for run in result.runs if run.by_judge is not None]
    return [_section(run, one, result.judge, narrow) for run, one in judged]


def _section(run: RunResult, one: RunByJudge, judge: JudgeIdentity | None, narrow: bool) -> JudgedSection:
    names = [name for name in run.values if name in one.raw or name in one.not_raw or name in one.bounds]
    pairs = f"{plural(one.pairs, 'pair')} that the gold lacks"
    both = ""
    if one.shared:
        both = f"; gold and judge both grade {plural(one.shared, 'pair')} and disagree on {one.disagreements:,}"
        both += " (relevant or not): there the gold counts"
    lines = [
        f"{run.name}: the judge grades {pairs}{both}",
        *_reasons("gold + judge", one.not_raw),
        *(_reasons("corrected", one.not_corrected) if judge is not None and judge.labels is not None else ()),
        *(
            f"corrected {name} for these queries alone: {estimate_figure(name, corrected.these)}"
            for name, corrected in one.corrected.items()
        ),
        *([BOUNDS] if one.bounds else ()),
    ]
    return JudgedSection(
        f"{run.name} with the judge's grades",
        HEADS,
        tuple(_row(name, run, one, narrow) for name in names),
        tuple(lines),
    )


def _reasons(column: str, reasons: Mapping[str, str]) -> list[str]:
    """Why figures are missing in a column, each reason once."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    return [f"no {column} {', '.join(some)}: {reason}" for reason, some in names.items()]


def _row(name: str, run: RunResult, one: RunByJudge, narrow: bool) -> tuple[str, ...]:
    corrected, bounds, share = one.corrected.get(name), one.bounds.get(name), one.judged.get(name)
    raw = run.on_basis("raw").intervals[name] if name in one.raw else None
    figures = [
        estimate_figure(name, interval) if interval is not None else None
        for interval in (run.intervals[name], raw, corrected.interval if corrected is not None else None)
    ]
    return (
        name,
        *(UNDEFINED if cell is None else cell.text if narrow else str(cell) for cell in figures),
        f"{percent_text(share.gold)} → {percent_text(share.both)}" if share is not None else UNDEFINED,
        f"{figure(name, bounds.low).text} to {figure(name, bounds.high).text}" if bounds is not None else UNDEFINED,
    )
