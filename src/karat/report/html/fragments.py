"""Components and diagnosis as small tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from karat.report.html.data import typeset
from karat.report.html.model import DiagnosisText, FindingText, Funnel, FunnelStage, PartChange, PartRow, PartText
from karat.report.words import TITLES
from karat.results.figures import p_text, share_figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.report.html.model import Tone
    from karat.results.figures import Figure
    from karat.results.result import RunResult
    from karat.verbs.diagnose import Diagnosis, Finding

ROWS = 40
"""Rows of one part that the page shows; the JSON has all."""
LINKED = 8
"""Queries of a finding that the page links to."""


Ends = tuple[float | None, float | None] | None


class _Figure(msgspec.Struct):
    """A figure of a component as a result holds it."""

    mean: float | None
    n: int
    ci: Ends = None


class _Difference(msgspec.Struct):
    """A change of a component as a result holds it."""

    mean_baseline: float | None
    mean_candidate: float | None
    delta: float | None
    ci: Ends = None
    p_adjusted: float | None = None
    significant: bool = False
    metric: str = ""


class _Component(msgspec.Struct):
    """A component as a result holds it."""

    measured: bool
    missing: str = ""
    figures: dict[str, _Figure] = {}
    changes: dict[str, _Difference] = {}
    counts: dict[str, Any] = {}
    tables: dict[str, Any] = {}
    notes: list[str] = []


def _components(run: RunResult) -> dict[str, _Component]:
    return {n: msgspec.convert(run.components[n], _Component) for n in TITLES if n in run.components}


def funnels_of(runs: Sequence[RunResult]) -> list[Funnel]:
    """The stage funnel of each run whose log has stages: how many relevant docs ended where."""
    out = []
    for run in runs:
        funnel = _components(run).get("funnel")
        if funnel is None or not funnel.figures:
            continue
        counts = {name: int(funnel.counts.get(name, 0)) for name in funnel.figures}
        total = int(funnel.counts.get("gold", 0)) or sum(counts.values()) or 1
        stages = [
            FunnelStage(_end(name, funnel.tables.get("k")), n, round(100 * n / total, 1), name == "delivered")
            for name, n in counts.items()
        ]
        out.append(Funnel(run.name, stages))
    return out


def _end(name: str, k: int | None) -> str:
    if name == "cut":
        return f"cut at {k}" if k else "cut"
    return name.replace("lost_at.", "lost at ").replace("_", " ")


def parts_of(runs: Sequence[RunResult]) -> list[PartText]:
    """Every component of every run: figures and changes as rows, notes, and what is missing."""
    out = []
    for run in runs:
        for name, part in _components(run).items():
            if part.figures or part.changes or part.missing:
                rows = [_row(n, f) for n, f in part.figures.items()]
                changes = [_change(n, c) for n, c in part.changes.items()]
                out.append(
                    PartText(
                        run.name,
                        TITLES[name],
                        rows[:ROWS],
                        changes[:ROWS],
                        part.notes,
                        part.missing,
                        _counts(part.counts),
                    )
                )
    return out


def _row(name: str, figure: _Figure) -> PartRow:
    it = _share(figure.mean, figure.ci)
    return PartRow(name, figure.mean, it.text, it.interval, f"{figure.n:,}")


def _change(name: str, row: _Difference) -> PartChange:
    before, after = (_share(value).text for value in (row.mean_baseline, row.mean_candidate))
    it = _share(row.delta, row.ci, difference=True)
    p = "" if row.p_adjusted is None else f"p {p_text(row.p_adjusted)}"
    tone: Tone = ("up" if row.delta > 0 else "down") if row.significant and row.delta else ""
    return PartChange(name, before, after, row.delta, typeset(it.text), typeset(it.interval), p, tone)


def _share(value: float | None, ci: Ends = None, *, difference: bool = False) -> Figure:
    low, high = ci or (None, None)
    return share_figure(*(math.nan if x is None else x for x in (value, low, high)), difference=difference)


def _counts(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{n.replace('_', ' ')} {c:,}" for n, c in counts.items() if isinstance(c, (int, float)))


def diagnosis_text(diagnosis: Diagnosis) -> DiagnosisText:
    """The diagnosis of one run as `karat diagnose` prints it."""
    return DiagnosisText(
        diagnosis.run,
        diagnosis.summary,
        [_finding(f) for f in diagnosis.findings],
        list(diagnosis.undecided),
        list(diagnosis.skipped.items()),
    )


def _finding(finding: Finding) -> FindingText:
    return FindingText(
        finding.title,
        finding.subject,
        [str(e) for e in finding.evidence],
        finding.cause,
        list(finding.advice),
        list(finding.queries[:LINKED]),
        len(finding.queries),
    )
