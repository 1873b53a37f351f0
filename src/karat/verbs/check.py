"""Ship, block, or not sure yet: gates over a result, and the one sentence why. How runs are compared with the baseline
is fixed here too: Holm's correction, alpha, the primary metric.
"""

from __future__ import annotations

import collections.abc
import os
from dataclasses import field, replace
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any, Unpack

from karat.config.checks import (
    check_files,
    check_gates,
    config_options,
    evaluation_of,
    placed,
    placed_errors,
    places_of_gates,
)
from karat.config.options import Options, Settings, takes_options
from karat.config.reading import Read, find_config, read_config
from karat.errors import InputError, UsageError, shown, unknown_run
from karat.exit_codes import CODES
from karat.gates.attainable import refuse_impossible, remarks_on
from karat.gates.evidence import Risk, judge_gates
from karat.gates.groups import group_gates, merge_gates
from karat.gates.judge import JudgedGate, Verdict, verdict_of
from karat.gates.language import gate_like, parse_gate
from karat.gates.wording import NAMED, advise, describe, evidence_text, figure_of, label_gate, note_pooling
from karat.metrics.component_figures import is_component_figure
from karat.metrics.grammar import choose_primary, parse
from karat.model.engine import Engine
from karat.model.option import options_of
from karat.records import dataclass
from karat.results.differences import PairedComparison, decide, decide_others
from karat.results.falls import Fall, find_falls
from karat.results.fingerprints import note_forced, of_candidates
from karat.results.judged_differences import ByBasis, decide_by_judge
from karat.results.pairing import check_comparable
from karat.results.saved import load, save
from karat.results.table import Documented, Table
from karat.results.words import BASELINE, mark_baseline, plural
from karat.stats.defaults import DRAWS
from karat.store.looks import Look, read_looks, record_look
from karat.verbs.baseline import check_opponents, find_baseline, resolve_baseline
from karat.verbs.compare import DEFAULT_TESTS, overall_table
from karat.verbs.evaluate import evaluate
from karat.verbs.warn import gives_warnings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karat.config.models import Config
    from karat.gates.gate import Gate
    from karat.results.decisions import Decision
    from karat.results.document import DocumentJson
    from karat.results.fingerprints import Difference
    from karat.results.remarks import Remark
    from karat.results.result import Result, RunResult


@dataclass(frozen=True)
class Check(Documented):
    """The verdict, every judgement behind it, and the results that these rest on."""

    result: Result
    rows: tuple[JudgedGate, ...]
    candidates: tuple[str, ...]
    baseline: RunResult | None = None
    baseline_file: str | None = None
    forced: tuple[Difference, ...] = ()
    """What differs between the results and was overridden by force."""
    comparisons: tuple[Decision, ...] = ()
    """Every metric of the candidates against the baseline."""
    system: tuple[Difference, ...] = ()
    """What differs between the systems under test."""
    own_notes: tuple[str, ...] = ()
    name: str = ""
    link: str | None = None
    """Where a report can be read."""
    second_look: str = ""
    """The warning that this gold was looked at before it grew."""
    by_judge: ByBasis = field(default_factory=dict)
    """The comparisons with a judge's grades, where judgments were named."""

    @property
    def verdict(self) -> Verdict:
        """SHIP, BLOCK or INCONCLUSIVE, over the gates at level error."""
        return verdict_of((row.gate.level, row.judged.outcome) for row in self.rows)

    @property
    def exit_code(self) -> int:
        """0 SHIP, 1 BLOCK, 3 INCONCLUSIVE."""
        return CODES[self.verdict]

    def __bool__(self) -> bool:
        return self.verdict == "SHIP"

    @property
    def why(self) -> str:
        """One sentence for the verdict."""
        serious = [r for r in self.rows if r.gate.level == "error"]
        for outcome in ("fail", "undecided"):
            rows = [r for r in serious if r.judged.outcome == outcome]
            if rows:
                several = len(self.candidates) > 1
                run = f"{rows[0].run}: " if several else ""
                reason = advise(rows[0]) if figure_of(rows[0]).defined else ""
                state = ": undecided" if reason and outcome == "undecided" else ""
                rest = _rest(rows, outcome, several=several)
                return f"{run}{describe(rows[0])}{state}{f' ({reason})' if reason else ''}{rest}"
        count, runs = len(group_gates(serious)), len({r.run for r in serious})
        passed = {1: "the gate passes", 2: "both gates pass"}.get(count, f"all {count} gates pass")
        passed += f", counted for each of {runs} runs" if runs > 1 else ""
        warned = sum(group.warning for group in group_gates(self.rows))
        warning = f"; {plural(warned, 'warning')}" if warned else ""
        return (passed if serious else "no gate is at level error") + warning

    @cached_property
    def others(self) -> tuple[Decision, ...]:
        """The runs that no gate judges against the baseline, decided apart from the candidates."""
        if self.baseline is None:
            return ()
        runs = [run for run in self.result.runs if run is not self.baseline and run.name not in self.candidates]
        return decide_others(self.baseline, runs, self.comparisons, DEFAULT_TESTS)

    @property
    def falls(self) -> tuple[Fall, ...]:
        """What is significantly worse than the baseline, whether a gate asks for it or not."""
        return find_falls(self.comparisons)

    @property
    def baseline_name(self) -> str:
        """What the baseline is called beside the runs."""
        return mark_baseline(self.baseline) if self.baseline is not None else ""

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What to know of the data of the runs judged before believing the verdict."""
        return remarks_on(self.rows, self.result, self.candidates, self.baseline)

    def of(self, outcome: str, level: str = "error") -> tuple[JudgedGate, ...]:
        """The judgements of this outcome and level."""
        return tuple(r for r in self.rows if r.judged.outcome == outcome and r.gate.level == level)

    @property
    def gates(self) -> tuple[JudgedGate, ...]:
        """The judgements, by the name that the JSON has for them."""
        return self.rows

    def __repr__(self) -> str:
        return f"Check({self.verdict}: {self.why})"

    def __str__(self) -> str:
        table = self.table()
        return "\n".join((table.caption, table.to_text(), *table.notes))

    @property
    def notes_on_verdict(self) -> tuple[str, ...]:
        """What was compared by force, and the warning of a second look."""
        return (*self.own_notes, *([self.second_look] if self.second_look else ()))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before believing the verdict: the sentences that the command line prints."""
        differences = (f"differs from the baseline: {difference}" for difference in self.system)
        texts = (*self.notes_on_verdict, *(remark.text for remark in self.remarks), *differences)
        return tuple(dict.fromkeys(texts))

    all_notes = notes
    """Their earlier name."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notes on data that may make the figures misleading, and the warning of a second look."""
        serious = (remark.text for remark in self.remarks if remark.serious)
        return (*([self.second_look] if self.second_look else ()), *serious)

    def table(self) -> Table:
        """A row for each gate, run and segment: what was measured, and the outcome; below, Δ and p of all metrics."""
        judged = any(row.basis is not None for row in self.rows)
        columns = ("outcome", "level", "run", "gate", "segment", "metric", *(["judged"] if judged else []))
        columns += ("value", "low", "high", "n", "threshold")
        rows = [
            (r.outcome, r.gate.level, r.run, label_gate(r.gate), r.where or None, r.gate.metric)
            + ((r.basis or "none",) if judged else ())
            + (r.found.estimate, r.interval.low, r.interval.high, r.found.n, r.gate.threshold)
            for r in self.rows
        ]
        cells = [
            (
                r.outcome + (" (warning)" if r.gate.level == "warn" else ""),
                r.run,
                label_gate(r.gate) + (f" ({r.where})" if r.segment and r.gate.every else ""),
                evidence_text(r) if figure_of(r).defined else "–",
                f"{r.found.n:,}",
                "; ".join(filter(None, (advise(r) if figure_of(r).defined else r.judged.why, note_pooling([r])))),
            )
            for r in self.rows
        ]
        heads = ("outcome", "run", "gate", "value", "queries", "note")
        notes = (*(f"significantly worse: {fall.statement}" for fall in self.falls), *self.notes)
        caption = f"{self.verdict}: {self.why}"
        return Table(columns, rows, heads, cells, caption, notes, overall_table(self.comparisons))

    def document(self) -> DocumentJson:
        """The document that `--json` writes."""
        from msgspec import UNSET, structs

        from karat.results.document import BaselineJson
        from karat.results.summary import differences_json

        base = self.baseline
        return structs.replace(
            self.result.document(),
            kind="check",
            verdict=self.verdict,
            why=self.why,
            dataset=self.name or UNSET,
            candidates=list(self.candidates),
            gates=[row.document() for row in self.rows],
            baseline=BaselineJson(base.name, self.baseline_file) if base is not None else UNSET,
            comparisons=[c.document() for c in self.comparisons] or UNSET,
            comparisons_by_judge={b: [row.document() for row in rows] for b, rows in self.by_judge.items()} or UNSET,
            notes=list(self.notes_on_verdict) or UNSET,
            warnings=[remark.text for remark in self.remarks] or UNSET,
            forced=differences_json(self.forced),
            differences=differences_json(self.system),
        )

    def save(self, path: str, *, label: str = "") -> None:
        """Write the check with the full result; a name that ends in .gz is packed."""
        save(self.document(), self.result, path, label=label, baseline=self.baseline)


def _rest(rows: Sequence[JudgedGate], outcome: str, *, several: bool) -> str:
    """What else has the same outcome: other gates, each counted once for each run, else other segments."""
    others = [group for group in group_gates(rows) if (group.gate, group.run) != (rows[0].gate, rows[0].run)]
    count = len(others) or len(rows) - 1
    if not count:
        return ""
    verb = "undecided" if outcome == "undecided" else "fails" if count == 1 else "fail"
    if others:
        runs = list(dict.fromkeys(group.run for group in others)) if several else []
        names = ", ".join(runs[:NAMED]) + (f" and {plural(len(runs) - NAMED, 'more run')}" if runs[NAMED:] else "")
        return f"; {plural(count, 'more gate')} {verb}" + (f" on {names}" if runs else "")
    small = sum(r.found.units < r.found.minimum for r in rows[1:])
    which = "" if count == 1 else f"{small if small < count else 'all'} of them "
    return f"; {plural(count, 'more segment')} {verb}" + (f", {which}too small to judge alone" if small else "")


@gives_warnings
@takes_options
def check(
    config: str | os.PathLike[str] | Mapping[str, object] | Config | Read | Result | None = None,
    gates: str | Iterable[str | Mapping[str, object] | Gate] | None = None,
    *,
    baseline: Result | str | os.PathLike[str] | None = None,
    result: Result | str | os.PathLike[str] | None = None,
    candidate: str | Sequence[str] | None = None,
    force: bool = False,
    **options: Unpack[Options],
) -> Check:
    """Judge gates and give the verdict.

    From a `karat.yaml` (the one in this folder unless named): evaluates, compares with the baseline, judges. Or from a
    `Result` with `gates` as texts. `result` takes a result that was saved instead of evaluating; `baseline` is the
    name of a run, a file that `karat bless` wrote, or a result; `force` compares results that rest on different gold,
    queries or definitions, and says so everywhere. Options come before those of the config. The check is true if the
    verdict is SHIP.
    """
    from karat.results.result import Result

    Settings.of(options)  # mistakes in the call come before those in files
    baseline, result = (os.fspath(x) if isinstance(x, os.PathLike) else x for x in (baseline, result))
    if not isinstance(gates, (str, collections.abc.Iterable, NoneType)):
        raise UsageError(f"gates must be texts such as 'recall@5 >= 0.90', found {shown(gates)}")
    texts = [gates] if isinstance(gates, str) else list(gates or ())
    extra = [parse_gate(g) for g in texts]
    names = [candidate] if isinstance(candidate, str) else list(candidate or ())
    if isinstance(config, Result):
        _refuse(options)
        like = config.conventions.get("like")
        gates_like = [gate_like(g, str(like) if like else None) for g in extra]
        return _judge(config.of_kept, gates_like, names, baseline, force=force)
    read = placed(read_config(find_config() if config is None else _file(config)), options)
    chosen = read.config
    tool = Settings().change(**config_options(read)).change(**options).like
    places = places_of_gates(read, chosen.gates)
    all_gates = [gate_like(g, tool) for g in (*chosen.gates, *extra)]
    places |= places_of_gates(read, all_gates[: len(chosen.gates)])
    if not all_gates:
        raise InputError(f"{read.path}: no gates, so nothing decides; add some, such as: gates: ['recall@5 >= 0.90']")
    fresh = result is None and chosen.result is None
    check_files(read, evaluated=fresh, compared=baseline is None)
    if fresh and chosen.runs is not None:
        check_gates(read, all_gates, compared=(baseline or chosen.baseline) is not None)
    if fresh and any(g.against is not None for g in all_gates):
        options = {**options, "details": True}  # identical lists are evidence of their own
    if chosen.looks is not None:
        read_looks(read.place(chosen.looks))  # a damaged file is an error before the work, not after it
    with placed_errors(places):
        evaluation = evaluate_config(read, all_gates, result, options)
        outcome = _judge(
            evaluation,
            all_gates,
            names or chosen.candidate,
            baseline if baseline is not None else find_baseline(read, evaluation),
            force=force,
            correction=chosen.confidence.correction,
            risk=Risk(chosen.risk.ship, chosen.risk.block) if chosen.risk is not None else None,
            primary=chosen.primary,
            tests=_tests(chosen),
            at=read.at("candidate"),
            files=_files(read, result),
            places=places,
        )
    name = chosen.dataset.name if chosen.dataset is not None else ""
    outcome = replace(outcome, name=name, link=chosen.outputs.report_url)
    return outcome if chosen.looks is None else _recorded(outcome, read.place(chosen.looks))


def _recorded(outcome: Check, path: str) -> Check:
    """The check with a warning where it is a second look; a look that is new is written down."""
    run, gold = outcome.result.runs[0], outcome.result.fingerprints.gold
    if gold is None:
        raise InputError(f"{path}: looks are recorded by the fingerprint of the gold, and this result holds none")
    look = Look(run.counts["queries"], gold.hash, run.sampling.sequential, outcome.verdict)
    return replace(outcome, second_look=record_look(path, look))


def _file(config: Any) -> Any:
    from karat.results.result import RunResult

    if isinstance(config, (str, os.PathLike)):
        return find_config(os.fspath(config))
    if isinstance(config, RunResult):
        raise UsageError(
            f"check takes a result, found one run of it; give the result, and name the run: candidate={config.name!r}"
        )
    return config


def _tests(config: Config) -> tuple[str, ...]:
    block = config.retrieval_metrics
    enabled = config.confidence.tests and (block is None or block.statistical_analysis.significance_testing)
    return DEFAULT_TESTS if enabled else ()


def _files(read: Read, saved: Result | str | None) -> dict[str, str]:
    """The files that gold and queries come from, for a message."""
    file = saved if isinstance(saved, str) else read.place(read.config.result) if read.config.result else None
    data, queries = read.config.dataset, config_options(read).get("queries")
    if file is not None:
        return {"gold": file, "queries": file}
    if data is None:
        return {}
    return {"gold": read.place(data.qrels), **({"queries": queries} if queries else {})}


def evaluate_config(read: Read, gates: Sequence[Gate], saved: Result | str | None, options: Options) -> Result:
    """The result to judge: a saved one, or that of the config's runs."""
    from karat.results.result import Result

    config = read.config
    if saved is not None or config.result is not None:
        _refuse(options)
    if isinstance(saved, Result):
        return saved
    if saved is not None or config.result is not None:
        result = load(saved if saved is not None else read.place(config.result or ""))
        if config_options(read).get("sequential") and not all(run.sampling.sequential for run in result.runs):
            detail = "the saved result was evaluated without sequential; evaluate and save it again with --sequential"
            raise InputError(read.problem(detail, "confidence", "sequential"))
        return result
    evaluation = evaluation_of(read, gates, options)
    result = evaluate(evaluation.qrels, evaluation.runs, evaluation.measures, settings=evaluation.settings).of_kept
    sampling = replace(result.runs[0].sampling, of_gates=evaluation.of_gates)
    result = replace(result, runs=tuple(replace(run, sampling=sampling) for run in result.runs))
    if config.components is None and not any(is_component_figure(parse(g.metric)) for g in gates):
        return result
    from karat.verbs.components import with_components

    options_of_parts = config.components.model_dump() if config.components is not None else {}
    here = None if evaluation.settings.engine.engine is not None else evaluation.runs
    return with_components(result, runs=here, **options_of_parts)


def _with_parts(result: Result, gates: Sequence[Gate]) -> Result:
    """The result with the components that gates ask for, where it holds the run logs that they are measured from."""
    logged = tuple(run for run in result.runs if run.components is None and run.log is not None)
    if not logged or not any(is_component_figure(parse(gate.metric)) for gate in gates):
        return result
    from karat.verbs.components import with_components

    measured = {run.name: run for run in with_components(replace(result, runs=logged)).runs}
    return replace(result, runs=tuple(measured.get(run.name, run) for run in result.runs))


def _refuse(options: Options) -> None:
    """Refuse options that would change a result which exists already."""
    harmless = {option.name for option in options_of(Engine)}
    names = [name for name, value in options.items() if value is not None and name not in harmless]
    if names:
        raise UsageError(f"a saved result takes no {', '.join(names)}; evaluate the runs again with it")


def _judge(
    result: Result,
    gates: Sequence[Gate],
    candidates: Sequence[str],
    baseline: Result | str | None,
    *,
    force: bool = False,
    correction: str = "bonferroni",
    risk: Risk | None = None,
    primary: str | None = None,
    tests: tuple[str, ...] = DEFAULT_TESTS,
    at: str = "",
    files: Mapping[str, str] | None = None,
    places: Mapping[str, str] | None = None,
) -> Check:
    if not gates:
        raise InputError("no gates, so nothing decides; give some, such as 'recall@5 >= 0.90'")
    gates = merge_gates(gates)
    result = _with_parts(result, gates)
    names = [r.name for r in result.runs]
    there, base, path = resolve_baseline(result, baseline)
    for name in candidates:
        if name not in names:
            raise InputError(f"{at + ': ' if at else ''}{unknown_run(name, names)}")
    live = base is not None and path is None and there is result
    judged_runs = list(candidates) or [n for n in names if not (live and base is not None and n == base.name)]
    if not judged_runs:
        raise InputError(f"{', '.join(names)} is the only run, and it is the baseline; add the run to judge")
    check_opponents(gates, judged_runs, base.name if base is not None and live else None)
    forced: dict[Difference, None] = {}
    system: dict[str, Sequence[Difference]] = {}
    if base is not None and there is not None:
        used = [g.metric for g in gates if g.against == BASELINE] or list(base.values)
        for name in judged_runs:
            differences = check_comparable(
                result,
                result[name],
                there,
                base,
                used,
                force=force,
                label=f"the {BASELINE}" if base.name == BASELINE else mark_baseline(base),
                places={**(files or {}), **({"baseline": path} if path else {})},
            )
            forced.update(dict.fromkeys(differences.forced))
            system[name] = differences.system
    refuse_impossible(gates, result, judged_runs, places or {})
    rows = judge_gates(gates, result, judged_runs, baseline=base, correction=correction, risk=risk)
    decisions: tuple[Decision, ...] = ()
    by_judge: ByBasis = {}
    if base is not None:
        alpha = 1 - result.runs[0].sampling.confidence
        metrics = [m for m in base.values if all(m in result[name].values for name in judged_runs)]
        main = choose_primary(metrics, wish=primary) if metrics else None
        how = PairedComparison(base, tests, "holm", alpha, None, DRAWS, {}, result.runs[0].threads, main)
        decisions = decide(how, [result[name] for name in judged_runs])
        by_judge = decide_by_judge(how, [result[name] for name in judged_runs])
    return Check(
        result,
        rows,
        tuple(judged_runs),
        base,
        path,
        tuple(forced),
        decisions,
        of_candidates(system),
        tuple(note_forced(forced)),
        by_judge=by_judge,
    )
