"""What a page is made from: a result, and what was compared, judged and diagnosed on it."""

from __future__ import annotations

import math
import os
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import KaratError, UsageError
from karat.gates.attainable import remarks_on
from karat.gates.evidence import least_units
from karat.gates.judge import GateEvidence, JudgedGate, Ruling
from karat.gates.language import parse_gate
from karat.records import dataclass
from karat.report.html.clean_text import name
from karat.results.decision_document import read_decision
from karat.results.decisions import Decision, number
from karat.results.differences import decide_others
from karat.results.fingerprints import Difference, without_forced
from karat.results.remarks import Remark
from karat.results.result import Derived, Result, RunResult
from karat.results.saved import Saved, load_baseline, load_saved
from karat.results.words import BASELINE
from karat.verbs.check import Check
from karat.verbs.compare import DEFAULT_TESTS, Comparison

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.results.document import BaselineJson, DifferenceJson, GateJson
    from karat.results.judged_differences import ByBasis
    from karat.verbs.diagnose import Diagnosis


@dataclass(frozen=True)
class Source:
    """A result whose runs have names that a page can hold, and what was made of it."""

    result: Result
    base: str | None = None
    """The run that others are compared with; one from a file is among the runs as `baseline (NAME)`."""
    candidates: tuple[str, ...] = ()
    comparisons: tuple[Decision, ...] = ()
    """Those of the candidates, and after them those of runs that no gate judges."""
    gates: tuple[JudgedGate, ...] = ()
    verdict: str = ""
    why: str = ""
    dataset: str = ""
    forced: tuple[Difference, ...] = ()
    differences: tuple[Difference, ...] = ()
    remarks: tuple[Remark, ...] = ()
    """What to know of the data before believing the figures."""
    diagnoses: tuple[Diagnosis, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    """Texts of queries beside those that the result holds."""
    time: str = ""
    """When the result was made, as saved results have it."""
    decisions_by_judge: ByBasis = field(default_factory=dict)
    """The comparisons with a judge's grades, where judgments were named."""

    @property
    def by_judge(self) -> ByBasis:
        """The comparisons by the gold alone, with a judge's grades, and corrected."""
        return {"none": self.comparisons, **self.decisions_by_judge}


def source_of(outcome: Result | Comparison | Check | str | os.PathLike[str] | object) -> Source:
    """The source of a page: of an object, or of the file that it was saved in."""
    if isinstance(outcome, Check):
        return _of_check(outcome)
    if isinstance(outcome, Comparison):
        return _with_names(
            Source(
                outcome.result,
                outcome.baseline,
                comparisons=outcome.rows,
                forced=outcome.forced,
                differences=outcome.system,
                remarks=(*outcome.remarks, *_notes(outcome.own_notes)),
                decisions_by_judge=outcome.by_judge,
            )
        )
    if isinstance(outcome, (str, os.PathLike)):
        return source_from(load_saved(os.fspath(outcome)))
    if not isinstance(outcome, Result):
        kind = "one run of a result" if isinstance(outcome, RunResult) else type(outcome).__name__
        raise UsageError(f"a report is of a result, a comparison, a check, or a file with one; found {kind}")
    return _with_names(Source(outcome, remarks=outcome.remarks))


def _notes(texts: Sequence[str]) -> list[Remark]:
    """Notes but for what the page says in its head."""
    return [Remark(text, False) for text in without_forced(texts)]


def _of_check(check: Check) -> Source:
    base, result = check.baseline, check.result
    source = Source(
        result,
        base.name if base is not None else None,
        check.candidates,
        (*check.comparisons, *check.others),
        check.rows,
        check.verdict,
        check.why,
        check.name,
        check.forced,
        check.system,
        (*check.remarks, *_notes(check.notes_on_verdict)),
        decisions_by_judge=check.by_judge,
    )
    return _with_names(source if base is None or any(r is base for r in result.runs) else _beside(source, base))


def _beside(source: Source, base: RunResult) -> Source:
    """With a baseline from elsewhere among the runs, under a name that no run of this result has."""
    alone = base.name == BASELINE and all(run.name != BASELINE for run in source.result.runs)
    label = BASELINE if alone else f"{BASELINE} ({base.name})"
    absent = np.full(len(base.query_ids), np.nan)
    run = replace(base, name=label, values={m: base.values.get(m, absent) for m in source.result.metrics})
    first = source.result.runs[0]
    if run.derived is None and not source.forced and list(run.query_ids) == list(first.query_ids):
        run = replace(
            run, derived=Derived(first.attainable)
        )  # a baseline holds no gold, and was measured with this one
    result = replace(source.result, runs=(run, *source.result.runs), basis=source.result.fingerprints)
    return replace(source, result=result, base=label)


def _with_names(source: Source) -> Source:
    """With names of runs that fit into a page. A run that keeps its name keeps the estimates found for it."""
    base = name(source.base) if source.base is not None else None
    runs = tuple(r if r.name == name(r.name) else replace(r, name=name(r.name)) for r in source.result.runs)
    return replace(
        source,
        result=replace(source.result, runs=runs),
        base=base,
        candidates=tuple(map(name, source.candidates)),
        comparisons=tuple(_between(d, name(d.candidate), base or d.baseline) for d in source.comparisons),
        gates=tuple(replace(g, run=name(g.run)) for g in source.gates),
        decisions_by_judge={
            basis: tuple(_between(d, name(d.candidate), base or d.baseline) for d in rows)
            for basis, rows in source.decisions_by_judge.items()
        },
    )


def _between(decision: Decision, candidate: str, baseline: str) -> Decision:
    """The same decision between runs of these names."""
    if (candidate, baseline) == (decision.candidate, decision.baseline):
        return decision
    other = replace(decision, candidate=candidate, baseline=baseline)
    vars(other).update(detectable=decision.detectable, needed=decision.needed)
    return other


def source_from(saved: Saved) -> Source:
    """The source of a page from a file: what the objects above hold is all that a page knows of it."""
    result, document = saved.result, saved.document
    base, rows = document.baseline or None, tuple(_judgment(row, result) for row in document.gates or ())
    candidates = tuple(document.candidates or ())
    comparisons = tuple(read_decision(row) for row in document.comparisons or ())
    run = saved.baseline
    if run is None and base is not None:
        run = _baseline_of(base, result, comparisons)
    if run is not None and candidates:
        others = [one for one in result.runs if one.name not in (*candidates, run.name)]
        comparisons += decide_others(run, others, comparisons, DEFAULT_TESTS)
    known = remarks_on(rows, result, candidates, run) if rows else result.remarks
    source = Source(
        result,
        base.name if base is not None else None,
        candidates,
        comparisons,
        rows,
        document.verdict or "",
        document.why or "",
        document.dataset or "",
        _differences(document.forced or ()),
        _differences(document.differences or ()),
        (*known, *_notes(document.notes or ())),
        decisions_by_judge={
            basis: tuple(map(read_decision, rows)) for basis, rows in (document.comparisons_by_judge or {}).items()
        },
    )
    if base is None or any(one is run for one in result.runs):
        return _with_names(source)
    if run is not None:
        return _with_names(_beside(source, run))
    text = f"{base.file or base.name} is no longer the baseline that was compared with: Δ and decisions are of that one"
    lost = Remark(f"{text}, whose values are not shown; run the check again", True)
    return _with_names(replace(source, base=f"{BASELINE} ({base.name})", remarks=(lost, *source.remarks)))


def _baseline_of(base: BaselineJson, result: Result, decisions: Sequence[Decision]) -> RunResult | None:
    """The run that a saved check was compared with; None where its file is gone, or was blessed again.

    Files of older versions do not hold it: the one that is there now has to have the means that were compared.
    """
    if not base.file:
        return next((run for run in result.runs if run.name == base.name), None)
    try:
        run = load_baseline(base.file).runs[0]
    except KaratError:
        return None
    means = [(run.mean[d.metric], d.mean_baseline) for d in decisions if not d.segment and d.n == run.n.get(d.metric)]
    if not all(math.isclose(now, then, rel_tol=1e-9, abs_tol=1e-9) for now, then in means):
        return None
    return replace(run, name=base.name, sampling=replace(result.runs[0].sampling, by=(), fields={}))


def _differences(rows: Sequence[DifferenceJson]) -> tuple[Difference, ...]:
    return tuple(Difference(d.what, d.here, d.baseline, run=d.run or "") for d in rows)


def _judgment(row: GateJson, result: Result) -> JudgedGate:
    low, high = row.ci or (None, None)
    gate = replace(parse_gate(row.gate), level=row.level, name=row.name or "")
    evidence = GateEvidence(
        number(row.value),
        number(low),
        number(high),
        row.n,
        confidence=number(row.confidence),
        n_eff=number(row.n_eff or None),
        usual_confidence=result[row.run].sampling.confidence,
        method=row.ci_method or "",
        same_lists=row.identical_lists is True,
        not_pooled=row.not_pooled or "",
        scale=row.scale or "difference",
    )
    if row.segment is not None:
        evidence = replace(evidence, minimum=least_units(gate, result[row.run].sampling))
    fewest, most = row.more_queries_range or (None, None)
    ruling = Ruling(row.outcome, row.why, row.more_queries, fewest, most, row.unsteady is True)
    return JudgedGate(gate, row.run, row.segment, evidence, ruling, row.against or None, row.judged or None)
