"""Components, diagnosis, figures by judges and provenance as small tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from karat.align.term_ids import COLLAPSED
from karat.model.policy import RELEVANT
from karat.report.html.clean_text import link_to, name, plain
from karat.report.html.data import known, typeset
from karat.report.html.model import (
    DiagnosisText,
    FindingText,
    Funnel,
    FunnelStage,
    JudgedTable,
    PartChange,
    PartRow,
    PartText,
)
from karat.report.marks import tone_of
from karat.report.terminal.components import counts_text, end_text, setting_text
from karat.report.words import TITLES, describe_facts, order_text
from karat.results.figures import share_figure
from karat.results.remarks import CASES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.report.by_judge import JudgedFigures, JudgedSection
    from karat.report.html.source import Source
    from karat.results.decisions import Decision
    from karat.results.fingerprints import Difference
    from karat.results.result import RunResult
    from karat.stats.intervals import Interval
    from karat.verbs.diagnose import Diagnosis, Finding


ROWS = 40
"""Rows of one part that the page shows; the JSON has all."""
LINKED = 8
"""Queries of a finding that the page links to."""


def funnels_of(runs: Sequence[RunResult]) -> list[Funnel]:
    """The stage funnel of each run whose log has stages: how many relevant docs ended where."""
    out = []
    for run in runs:
        if run.components is None or not run.components.funnel.figures:
            continue
        funnel = run.components.funnel
        stages = [
            FunnelStage(
                end_text(name, funnel.tables["k"]),
                funnel.counts[name],
                round(100 * share.estimate, 1),  # of weighted queries, as components have it
                name == "delivered",
            )
            for name, share in funnel.figures.items()
        ]
        out.append(Funnel(run.name, stages))
    return out


def parts_of(runs: Sequence[RunResult]) -> list[PartText]:
    """Every component of every run: figures and changes as rows, notes, and what is missing."""
    out = []
    for run in runs:
        for part in run.components.parts if run.components is not None else ():
            if part.figures or part.changes or part.missing:
                out.append(
                    PartText(
                        run.name,
                        TITLES[part.name],
                        [_row(n, one) for n, one in part.figures.items()][:ROWS],
                        [_change(n, change) for n, change in part.changes.items()][:ROWS],
                        list(part.notes),
                        part.missing,
                        "" if part.missing else "; ".join(filter(None, (setting_text(part), counts_text(part)))),
                        ("by chunk", "by doc") if part.name == "levels" else ("before", "after"),
                    )
                )
    return out


def _row(name: str, one: Interval) -> PartRow:
    it = share_figure(one.estimate, one.low, one.high)
    return PartRow(name, known(one.estimate), it.text, it.interval, f"{one.n:,}")


def _change(name: str, change: Decision) -> PartChange:
    before, after = (share_figure(value).text for value in (change.mean_baseline, change.mean_candidate))
    it = share_figure(change.delta, change.difference.low, change.difference.high, difference=True)
    p = f"p {change.p_adjusted_text}" if change.p_adjusted == change.p_adjusted else ""
    tone = tone_of(change.outcome)
    return PartChange(name, before, after, known(change.delta), typeset(it.text), typeset(it.interval), p, tone)


def diagnosis_text(diagnosis: Diagnosis) -> DiagnosisText:
    """The diagnosis of one run as `karat diagnose` prints it."""
    return DiagnosisText(
        diagnosis.run,
        diagnosis.lead,
        [_finding(f, diagnosis.run, number) for number, f in enumerate(diagnosis.findings, start=1)],
        [(why, [plain(code) for code in codes]) for why, codes in diagnosis.open_questions.items()],
        list(diagnosis.skipped.items()),
        [plain(note) for note in diagnosis.own_notes],
    )


def _finding(finding: Finding, run: str, number: int) -> FindingText:
    return FindingText(
        finding.title,
        finding.subject,
        [*map(str, finding.evidence), f"over {finding.scope}"],
        finding.cause,
        list(finding.advice),
        [(name(q), link_to([("query", name(q))])) for q in finding.queries[:LINKED]],
        len(finding.queries),
        link_to([("show", f"finding-{number}"), ("run", run), ("section", "queries")]),
    )


def judged_tables(judged: JudgedFigures) -> list[JudgedTable]:
    """The figures of each run that a judge completed, as terminal and Markdown have them."""
    return [judged_table(section) for section in judged.sections]


def judged_table(section: JudgedSection) -> JudgedTable:
    """One table of figures by a judge, or of the judge."""
    return JudgedTable(
        section.run,
        plain(section.title),
        list(section.heads),
        [(metric, [(typeset(c.text), typeset(c.interval)) for c in cells]) for metric, cells in section.rows],
        [plain(line) for line in section.lines],
    )


COUNTS = {
    "missing": "queries without results",
    "without_gold": "queries without gold",
    "no_answer": "queries without answer",
    "empty_gold": "queries without relevant gold",
    "duplicates": "docs returned twice",
    "unjudged_at_10": "unjudged docs in the top 10",
    "depth": "ranks in the longest list",
    "expected_ids_resolved": "expected ids resolved to another id of the term",
    "expected_ids_unknown": "expected ids that the ontology does not know",
    "returned_ids_resolved": "returned ids resolved to another id of the term",
    "returned_ids_unknown": "returned ids that the ontology does not know",
    COLLAPSED: "results that are further entries of a term above them",
}


def difference_text(difference: Difference) -> str:
    """A difference with what it is about in words."""
    what = difference.what
    return str(replace(difference, what="retriever's code" if what == "code_version" else what.replace("_", " ")))


def prints_of(source: Source) -> list[tuple[str, str]]:
    return [(n, text) for n, text in source.result.fingerprints.hashes.items() if text]


def facts_of(source: Source) -> list[tuple[str, str]]:
    """Fingerprints, conventions, intervals, and what changed since the baseline."""
    result = source.result
    facts = [("measured", source.time.replace("T", " ").replace("+00:00", " UTC"))] if source.time else []
    facts += [(f"fingerprint of {n}", text) for n, text in prints_of(source)]
    facts += [(n.replace("_", " "), str(value)) for n, value in result.conventions.items()]
    facts.append(("order", order_text(result.runs)))
    facts.append(("relevant", f"grade ≥ {RELEVANT:g} unless the metric sets rel="))
    sampling = result.runs[0].sampling
    resamples = f"{sampling.resamples:,} resamples, seed {sampling.seed}"
    method = "each by what suits its metric" if sampling.method == "auto" else f"all by {sampling.method}"
    method = "betting, anytime-valid where possible" if sampling.sequential else method
    facts.append(("intervals", f"{sampling.level}, {method}; {resamples}" if sampling.level else "none"))
    if all(run.top is None for run in result.runs) and not all(run.is_without_gold for run in result.runs):
        facts.append(("left out", "ranked lists, curves, misses and diagnosis: measured without details=True"))
    names = [r.name for r in result.runs]
    if source.base is not None and (source.base not in names or len(names) == 2):
        facts += [("differs from the baseline", difference_text(d)) for d in source.differences]
    return facts


def facts_by_run(runs: Sequence[RunResult]) -> dict[str, list[str]]:
    """What is known of the systems, by label: a value for each run."""
    each: list[dict[str, str]] = []
    lacking = {k for run in runs for k, n in run.counts.items() if n and k not in ("queries", CASES)}
    for run in runs:
        mine = dict(describe_facts(run.facts))
        if run.log is not None:
            mine["cost"] = "logged" if run.log.cost else "not logged"
        mine |= {COUNTS.get(k, k.replace("_", " ")): f"{n:,}" for k, n in run.counts.items() if k in lacking}
        each.append(mine)
    labels = dict.fromkeys(label for mine in each for label in mine)
    return {label: [mine.get(label, "") for mine in each] for label in labels}
