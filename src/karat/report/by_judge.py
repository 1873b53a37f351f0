"""What is said of runs that a judge completed: tables of text and lines, which renderers lay out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.metrics.grammar import parse
from karat.records import dataclass
from karat.results.figures import UNDEFINED, estimate_figure, figure, percent_text, share_figure
from karat.results.words import plural, queries_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.results.by_judge import Basis, JudgeIdentity, RunByJudge
    from karat.results.decisions import Decision
    from karat.results.judged_differences import ByBasis
    from karat.results.result import Result, RunResult
    from karat.stats.intervals import Interval

HEADS = ("metric", "gold only", "gold + judge", "corrected", "judged", "bounds")
BASES: tuple[Basis, ...] = ("none", "raw", "corrected")
SAMPLED = "sampled"
SAMPLING = (
    "sampled: each judgment stands for 1 / its probability pairs: docs without a judgment need not be irrelevant; "
    "queries in whose sample nothing is relevant leave the mean of recall, map and ndcg"
)
BOUNDS = "bounds: whatever the grades of returned docs that the gold lacks"


@dataclass(frozen=True)
class JudgedCell:
    """A figure in writing; narrow tables may leave out its interval."""

    text: str
    interval: str = ""

    def __str__(self) -> str:
        return f"{self.text} {self.interval}" if self.interval else self.text


@dataclass(frozen=True)
class JudgedSection:
    """A run's figures side by side, and what to know of them."""

    run: str
    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[JudgedCell, ...]], ...]
    """By metric: one cell for each head but the first."""
    lines: tuple[str, ...]


@dataclass(frozen=True)
class JudgedFigures:
    """One table per run, and what holds for all of them."""

    sections: tuple[JudgedSection, ...]
    lines: tuple[str, ...]
    calibration: JudgedSection | None = None
    """What the judge is worth beside people, where a calibration was named; it comes last."""


def describe_judged(result: Result, decisions: ByBasis | None = None) -> JudgedFigures | None:
    """All that is said of a judge's grades; None where nobody judged what the gold lacks.

    `decisions` are those by the gold alone (`none`), by gold + judge, and corrected.
    """
    if result.judge is None:
        return None
    judged = [(run, run.by_judge) for run in result.runs if run.by_judge is not None]
    by_run = {run.name: _lines(run, one, result.judge) for run, one in judged}
    first = next(iter(by_run.values()), [])
    sampled = any(one.sampled for _, one in judged)
    heads = (*HEADS[:4], SAMPLED, *HEADS[4:]) if sampled else HEADS
    shared = [line for line in first if all(line in others for others in by_run.values())]
    sections = [
        JudgedSection(
            run.name,
            f"{run.name} with the judge's grades",
            heads,
            _rows(run, one, sampled),
            tuple(line for line in by_run[run.name] if line not in shared),
        )
        for run, one in judged
    ]
    sections += _changes(decisions or {})
    lines = (*shared, describe_judge(result.judge))
    return JudgedFigures(tuple(sections), lines, _describe_calibration(result.judge))


def _describe_calibration(judge: JudgeIdentity) -> JudgedSection | None:
    """How far the judge agrees with people, in figures."""
    one = judge.calibration
    if one is None:
        return None
    figures = {
        "sensitivity": one.sensitivity,
        "specificity": one.specificity,
        "sensitivity + specificity − 1": one.skill,
        "weighted kappa": one.weighted_kappa,
    }
    return JudgedSection(
        "",
        "Calibration of the judge",
        ("against people", "judge", "pairs"),
        tuple((name, (_agreement(interval), JudgedCell(f"{interval.n:,}"))) for name, interval in figures.items()),
        (
            f"{judge.label}: {one.labelled:,} of {plural(one.judged, 'pair')} labelled by people, {one.made[:10]}; "
            "relevant is a grade from 1, and sensitivity + specificity − 1 of 0 is chance",
        ),
    )


def _agreement(interval: Interval) -> JudgedCell:
    one = share_figure(interval.estimate, interval.low, interval.high)
    return JudgedCell(one.text, one.interval)


def _changes(decisions: ByBasis) -> list[JudgedSection]:
    """The differences of each candidate from the baseline, by what they rest on."""
    fed = [row for basis in ("raw", "corrected") for row in decisions.get(basis, ())]
    out = []
    for candidate in dict.fromkeys(row.candidate for row in fed):
        mine = {
            basis: {row.metric: row for row in rows if row.candidate == candidate and row.segment is None}
            for basis, rows in decisions.items()
        }
        metrics = dict.fromkeys(row.metric for row in fed if row.candidate == candidate)
        baseline = next(row.baseline for row in fed if row.candidate == candidate)
        out.append(
            JudgedSection(
                candidate,
                f"{candidate} against {baseline} with the judge's grades",
                ("metric", *(f"Δ {head}" for head in HEADS[1:4])),
                tuple((m, tuple(_change(mine.get(basis, {}).get(m)) for basis in BASES)) for m in metrics),
                tuple(f"corrected {row.statement}" for row in mine.get("corrected", {}).values()),
            )
        )
    return out


def _change(row: Decision | None) -> JudgedCell:
    return JudgedCell(UNDEFINED) if row is None else JudgedCell(row.figure.text, row.figure.interval)


def describe_judge(judge: JudgeIdentity) -> str:
    """Who judged, and whether figures are corrected."""
    labels = "not calibrated" if judge.labels is None else f"corrected by {plural(judge.labels, 'label')} of people"
    return f"judge: {judge.label}, fingerprint {judge.fingerprint}, scale {judge.scale}; {labels}"


def _rows(run: RunResult, one: RunByJudge, sampled: bool) -> tuple[tuple[str, tuple[JudgedCell, ...]], ...]:
    columns = (one.raw, one.not_raw, one.bounds, one.sampled)
    names = [name for name in run.values if any(name in column for column in columns)]
    return tuple((name, _cells(name, run, one, sampled)) for name in names)


def _lines(run: RunResult, one: RunByJudge, judge: JudgeIdentity) -> list[str]:
    both = ""
    if one.sampled and not one.pairs:
        return [f"the gold is a random sample of {plural(one.shared, 'pair')}", *_describe_sampled(one), BOUNDS]
    if one.shared:
        both = f"; gold and judge both grade {plural(one.shared, 'pair')} and disagree on {one.disagreements:,}"
        both += " (relevant or not): there the gold counts"
    return [
        f"the judge grades {plural(one.pairs, 'pair')} that the gold lacks{both}",
        *_describe_false_evidence(run, one),
        *_reasons("gold + judge", one.not_raw),
        *(_reasons("corrected", one.not_corrected) if judge.labels is not None else ()),
        *(
            f"corrected {name} for these queries alone: {estimate_figure(name, corrected.these)}"
            for name, corrected in one.corrected.items()
        ),
        *_describe_sampled(one),
        *([BOUNDS] if one.bounds else ()),
    ]


def _describe_sampled(one: RunByJudge) -> list[str]:
    figures = [
        f"sampled {name} for these queries alone: {estimate_figure(name, some.these)}"
        for name, some in one.sampled.items()
    ]
    return [*figures, *_reasons("sampled", one.not_sampled), *([SAMPLING] if figures else ())]


def _describe_false_evidence(run: RunResult, one: RunByJudge) -> list[str]:
    """What false evidence is by grades: without them it is about scores."""
    names = [name for name in one.raw if parse(name).metric.name == "false_evidence"]
    if not names:
        return []
    n = run.on_basis("raw").intervals[names[0]].n
    return [
        f"gold + judge {', '.join(names)}: whether the top k holds a doc that gold or judge grades relevant, whatever "
        f"its score (of {queries_text(n)} without an answer that have grades)"
    ]


def _reasons(column: str, reasons: Mapping[str, str]) -> list[str]:
    """Why figures are missing in a column, each reason once."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    return [f"no {column} {', '.join(some)}: {reason}" for reason, some in names.items()]


def _cells(name: str, run: RunResult, one: RunByJudge, sampled: bool) -> tuple[JudgedCell, ...]:
    bounds, share = one.bounds.get(name), one.judged.get(name)
    intervals = [
        run.intervals[name],
        run.on_basis("raw").intervals[name] if name in one.raw else None,
        one.corrected[name].interval if name in one.corrected else None,
        *([one.sampled[name].interval if name in one.sampled else None] if sampled else ()),
    ]
    return (
        *(_figure(name, interval) for interval in intervals),
        JudgedCell(f"{percent_text(share.gold)} → {percent_text(share.both)}" if share is not None else UNDEFINED),
        JudgedCell(
            f"{figure(name, bounds.low).text} to {figure(name, bounds.high).text}" if bounds is not None else UNDEFINED
        ),
    )


def _figure(name: str, interval: Interval | None) -> JudgedCell:
    if interval is None:
        return JudgedCell(UNDEFINED)
    one = estimate_figure(name, interval)
    return JudgedCell(one.text, one.interval)
