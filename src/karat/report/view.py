"""What is said of a result, gathered once: its verdict, decisions and notes, gates in groups, systems, what fell.

Renderers lay a view out and decide nothing, so that no two outputs can contradict each other. The verdict and why are
those of `Check` (`verbs/check.py`), sentences on gates those of `gates/wording.py`.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from karat.gates.groups import group_gates
from karat.metrics.grammar import choose_primary, parse
from karat.records import dataclass
from karat.results.falls import Fall, find_falls
from karat.results.figures import SAME, change_text, figure
from karat.results.fingerprints import without_forced
from karat.results.remarks import Remark, describe_size, remarks_of
from karat.results.result import Result, RunResult
from karat.results.words import BASELINE, SharedLevels, conventions_text
from karat.stats.defaults import ALPHA, DRAWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.gates.groups import GateGroup
    from karat.gates.judge import JudgedGate, Verdict
    from karat.results.decisions import Decision
    from karat.results.fingerprints import Difference
    from karat.results.judged_differences import ByBasis
    from karat.verbs.check import Check
    from karat.verbs.compare import Comparison, PairwiseTest
    from karat.verbs.plan import Plan
    from karat.verbs.reliability import Reliability
    from karat.verbs.sweep import Sweep

    Source = Result | Comparison | Check | Sweep | Plan | Reliability

QUERIES = 3
"""Queries that an output names."""


@dataclass(frozen=True)
class System:
    """A run and its part in what is decided."""

    name: str
    """Its own, or `baseline` for one from a file that has the name of another run."""
    role: Literal["baseline", "candidate", ""]
    run: RunResult

    @property
    def label(self) -> str:
        """The name as tables have it: the baseline says that it is one."""
        said = self.name == BASELINE or self.name.endswith(f"({BASELINE})")
        return self.name if said or self.role != "baseline" else f"{self.name} ({BASELINE})"

    def value_of(self, metric: str) -> float:
        """Its value of a metric; NaN where it has none."""
        return self.run.mean[metric] if metric in self.run.values else math.nan


@dataclass(frozen=True)
@dataclass(frozen=True)
class QueryChange:
    """A query with its text and what became of it."""

    query_id: str
    text: str
    change: str


@dataclass(frozen=True)
class WorstQueries:
    """The queries that lost most against the baseline, or that score lowest without one."""

    metric: str
    run: str
    compared: bool
    rows: tuple[QueryChange, ...]
    left_out: int = 0
    """Queries that score without a relevant doc in the gold, and are not among those that score lowest."""


@dataclass(frozen=True)
class View:
    """All that an output may say."""

    source: Source
    """What a verb returned."""
    record: Result | Comparison | Check
    """What is saved and reported; of a sweep or a study of reliability, the result that it rests on."""
    result: Result
    metrics: tuple[str, ...]
    systems: tuple[System, ...]
    title: str = ""
    """The name of the dataset."""
    verdict: Verdict | None = None
    why: str = ""
    gates: tuple[GateGroup, ...] = ()
    """The worst first."""
    gate_rows: tuple[JudgedGate, ...] = ()
    """In the order of the gates."""
    decisions: tuple[Decision, ...] = ()
    decisions_by_judge: ByBasis = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
    notes: tuple[str, ...] = ()
    forced: tuple[Difference, ...] = ()
    """What was compared although it differs; no note says it again."""
    differences: tuple[Difference, ...] = ()
    """Of the systems under test."""
    alpha: float = ALPHA
    """The level at which differences are significant."""
    link: str | None = None
    baseline_file: str | None = None
    """The file that the baseline was read from."""
    known_pairs: Mapping[str, PairwiseTest] = field(default_factory=dict)
    """By metric: the test of all pairs, where a comparison made it."""
    plan: Plan | None = None
    sweep: Sweep | None = None
    reliability: Reliability | None = None
    """How far the collection can be trusted, where that was asked for."""
    tables: Mapping[str, str | None] = field(default_factory=dict)
    """Files with the texts of queries and docs, for the page."""

    @property
    def baseline(self) -> System | None:
        return next((s for s in self.systems if s.role == "baseline"), None)

    @property
    def candidates(self) -> tuple[System, ...]:
        return tuple(s for s in self.systems if s.role == "candidate")

    @cached_property
    def falls(self) -> tuple[Fall, ...]:
        """What is significantly worse than the baseline: over all queries with its segments, then segments alone."""
        return find_falls(self.decisions)

    def decision(self, run: str, metric: str) -> Decision | None:
        """What was decided of a run and a metric over all queries."""
        matches = (d for d in self.decisions if d.segment is None and d.candidate == run and d.metric == metric)
        return next(matches, None)

    def shared_levels(self, decision: Decision) -> SharedLevels | None:
        """The levels that Δ is the difference of, where those shown beside it are over more queries."""
        run = next((s.run for s in self.candidates if s.name == decision.candidate), None)
        base = self.baseline
        return decision.shared_levels(base.run, run) if base is not None and run is not None else None

    @property
    def scope(self) -> str:
        """What was measured: the dataset, how many queries, which runs, against what."""
        names = [s.name for s in self.candidates or self.systems]
        runs = ", ".join(names) if len(names) <= QUERIES else f"{len(names)} runs"
        base = self.baseline
        place = f"{base.name} ({self.baseline_file})" if base is not None and self.baseline_file else ""
        against = f" against {place or base.label}" if base is not None else ""
        size = describe_size(self.result.runs)
        return " · ".join(filter(None, (self.title, size, f"{runs}{against}", self.conventions)))

    @property
    def conventions(self) -> str:
        """The choices that differ from the defaults."""
        return conventions_text(self.result.conventions)

    @cached_property
    def pairs(self) -> Mapping[str, PairwiseTest]:
        """By metric: p of every pair of runs by randomised Tukey HSD, as `compare --all-pairs` has it."""
        from karat.verbs.compare import all_pairs_of

        if self.known_pairs:
            return self.known_pairs
        runs = tuple(replace(s.run, name=s.name) for s in self.systems)
        if len(runs) < 2:
            return {}
        shared = [m for m in self.metrics if all(m in run.values for run in runs)]
        runs = tuple(replace(run, values={m: run.values[m] for m in shared}) for run in runs)
        return all_pairs_of(replace(self.result, runs=runs), DRAWS, runs[0].sampling.seed)

    @property
    def worst_queries(self) -> WorstQueries | None:
        """Of the candidate that decides the verdict, by the primary metric; None where no query lost anything.

        It is the first that fails a gate, else the first with an undecided one, else the first.
        """
        candidates = self.candidates or self.systems
        deciding = [g.run for g in self.gates if g.outcome != "pass" and g.gate.level == "error"]
        run = next((run for run in deciding if any(s.name == run for s in candidates)), candidates[0].name)
        return self._worst_of(next(s for s in candidates if s.name == run))

    def _worst_of(self, system: System) -> WorstQueries | None:
        run, base = system.run, self.baseline
        primary = [d.metric for d in self.decisions if d.primary and d.metric in run.values]
        metric = primary[0] if primary else choose_primary(list(run.values))
        rises = parse(metric).metric.higher_is_better is not False
        mine = run.per_query(metric)
        before = base.run.per_query(metric) if base is not None and metric in base.run.values else None
        changes = {q: v - before[q] for q, v in mine.items() if q in before} if before is not None else mine
        hopeless = run.without_relevant if "gold" in parse(metric).needs else frozenset[str]()
        defined = [(q, v) for q, v in changes.items() if v == v and q not in hopeless]
        losses = defined if before is None else [(q, v) for q, v in defined if (v < 0) == rises and abs(v) > SAME]
        lowest = sorted(losses, key=lambda x: (x[1] if rises else -x[1], x[0]))[:QUERIES]
        rows = []
        for q, v in lowest:
            change = figure(metric, v).short
            if before is not None:
                change = change_text(metric, before[q], mine[q], short=True)
            rows.append(QueryChange(q, self.result.texts.get(q, ""), change))
        left_out = sum(v == v for q, v in changes.items() if q in hopeless) if before is None else 0
        return WorstQueries(metric, system.name, before is not None, tuple(rows), left_out) if rows else None


def view_of(
    source: Source, *, title: str = "", link: str | None = None, tables: Mapping[str, str | None] | None = None
) -> View:
    """The view of a result, or of what a verb made of one; `title` names the dataset."""
    view = _view_result(source) if isinstance(source, Result) else _view_verb(source)
    return replace(view, title=title or view.title, link=link or view.link, tables=tables or {})


def _view_result(result: Result, notes: tuple[str, ...] = ()) -> View:
    systems = tuple(System(run.name, "", run) for run in result.runs)
    return View(result, result, result, result.metrics, systems, remarks=result.remarks, notes=notes)


def _view_verb(source: Comparison | Check | Sweep | Plan | Reliability) -> View:
    from karat.verbs.compare import Comparison
    from karat.verbs.plan import Plan
    from karat.verbs.reliability import Reliability
    from karat.verbs.sweep import Sweep

    if isinstance(source, Comparison):
        return _view_comparison(source)
    if isinstance(source, Plan):
        return replace(_view_result(source.result, source.own_notes), source=source, plan=source)
    if isinstance(source, Reliability):
        return replace(_view_result(source.result, source.own_notes), source=source, reliability=source)
    if isinstance(source, Sweep):
        view = _view_result(source.result, source.own_notes)
        systems = tuple(System(run.name, "", run) for run in source.shown_runs)
        present = {metric for one in systems for metric in one.run.values}
        metrics = tuple(m for m in view.metrics if m in present)
        known = remarks_of([one.run for one in systems])
        return replace(view, source=source, sweep=source, metrics=metrics, systems=systems, remarks=known)
    return _view_check(source)


def _view_comparison(source: Comparison) -> View:
    result = source.result
    systems = tuple(
        System(run.name, "baseline" if run.name == source.baseline else "candidate", run) for run in result.runs
    )
    return View(
        source,
        source,
        result,
        result.metrics,
        systems,
        decisions=source.rows,
        decisions_by_judge=source.by_judge,
        alpha=source.alpha,
        remarks=source.remarks,
        notes=without_forced(source.own_notes),
        forced=source.forced,
        differences=source.system,
        known_pairs=source.pairs,
    )


def _view_check(source: Check) -> View:
    result, base = source.result, source.baseline
    systems = []
    if base is not None:
        systems.append(System(base.name, "baseline", base))
    for run in result.runs:
        if run is not base:
            systems.append(System(run.name, "candidate" if run.name in source.candidates else "", run))
    return View(
        source,
        source,
        result,
        result.metrics,
        tuple(systems),
        title=source.name,
        verdict=source.verdict,
        why=source.why,
        gates=group_gates(source.rows),
        gate_rows=source.rows,
        decisions=source.comparisons,
        decisions_by_judge=source.by_judge,
        alpha=1 - result.runs[0].sampling.confidence,
        remarks=(*(Remark(text, True) for text in [source.second_look] if text), *source.remarks),
        notes=without_forced(source.own_notes),
        forced=source.forced,
        differences=source.system,
        link=source.link,
        baseline_file=source.baseline_file,
    )
