"""Before more queries are collected: what will the gates say of them, and how many are needed?"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from karat.config.options import Options, Settings, takes_options
from karat.config.reading import Read, find_config, read_config
from karat.errors import InputError, UsageError
from karat.gates.evidence import Risk, judge_gates, matching_segments
from karat.gates.forecast import Chances, GateSetting, Simulation, forecast, simulate
from karat.gates.language import parse_gate
from karat.gates.plans import GateForecast, Truth, TruthForecast, WorkItem, choose_truths, right_verdict, work_item
from karat.gates.wording import label_gate
from karat.metrics.component_figures import is_component_figure
from karat.metrics.grammar import PRIMARY, parse
from karat.read.files import check_path
from karat.records import dataclass
from karat.results.depths import NAMED
from karat.results.figures import percent_text
from karat.results.pairing import pair_on_basis, paired
from karat.results.remarks import serious_remarks
from karat.results.result import FORMAT_VERSION, Result
from karat.results.saved import is_saved, load
from karat.results.table import Cell, Documented, Table
from karat.results.words import BASELINE, UnitWord, plural, round_up, units_text
from karat.stats.defaults import MIN_UNITS
from karat.stats.intervals import checked_count, checked_share
from karat.stats.planning import SIMULATED, Dialogue, Population, find_units
from karat.stats.power import POWER
from karat.stats.resample import mean_of
from karat.verbs.check import Check, check
from karat.verbs.evaluate import evaluate
from karat.verbs.warn import gives_warnings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from karat.config.models import Config
    from karat.gates.gate import Gate
    from karat.gates.judge import JudgedGate
    from karat.results.document import DocumentJson
    from karat.results.remarks import Remark
    from karat.results.result import RunResult

SIZES = (25, 50, 100, 200, 400, 800, 1600)
FEW = 25
"""The spread of fewer units is a rough guide."""
SIMULATED_UPTO = 2000
"""Units of which an equally good run is simulated."""
RESAMPLES = 2000
PLAN_HEADS = ("gate", "truth", "n", "SHIP", "BLOCK", "INCONCLUSIVE")


@dataclass(frozen=True)
class Plan(Documented):
    """What gates will say of more queries, the work that undecided ones ask for, and the result it rests on."""

    result: Result
    gates: tuple[GateForecast, ...]
    work: tuple[WorkItem, ...]
    power: float
    own_notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Plan({self.conclusion})"

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What is to be checked in the data of the runs."""
        return serious_remarks(self.result.runs)

    @property
    def conclusion(self) -> str:
        """One sentence: how many queries the first gate needs, or the work that undecided gates ask for."""
        if self.gates:
            gate = self.gates[0]
            run = f" on {gate.run}" if len({one.run for one in self.gates}) > 1 else ""
            return f"{label_gate(gate.gate)}{run}: {needed_text(gate, _telling(gate), self.power)}"
        if not self.work:
            return "every gate is decided by the queries at hand"
        first, *rest = sorted(self.work, key=lambda item: not item.is_counted)
        label, labels = label_gate(first.gate), [label_gate(item.gate) for item in rest]
        places, others = labels.count(label), len({*labels} - {label})
        place = "segment" if first.segment is not None else "run"
        counts = [f"{plural(places, f'more {place}')} of it"] if places else []
        counts += [plural(others, "more gate")] if others else []
        more = f"; {' and '.join(counts)} {'is' if places + others == 1 else 'are'} undecided" if counts else ""
        hopeless = list(dict.fromkeys(label_gate(item.gate) for item in rest if not item.ruling.needs_queries))
        if hopeless and first.ruling.needs_queries:
            more += f"; more queries alone do not decide {', '.join(hopeless)}"
        run = f" on {first.run}" if len({item.run for item in self.work}) > 1 else ""
        return f"{label}{run}: {first.statement}{more}"

    def table(self) -> Table:
        """A row for each gate, truth and n."""
        columns = ("gate", "run", "truth", "true_value", "n", "ship", "block", "inconclusive", "needed")
        rows: list[list[Cell]] = []
        cells = []
        for gate in self.gates:
            for truth in gate.truths:
                for c in truth.curve:
                    chances = (c.ship, c.block, c.inconclusive)
                    rows.append([str(gate.gate), gate.run, truth.label, truth.value, c.n, *chances, truth.needed])
                    cells.append((str(gate.gate), truth.label, f"{c.n:,}", *map(percent_text, chances)))
        if not rows and self.work:
            work = [(str(item.gate), item.run, item.statement) for item in self.work]
            return Table(("gate", "run", "work"), work, ("gate", "run", "work"), work, self.conclusion, self.notes)
        return Table(columns, rows, PLAN_HEADS, cells, self.conclusion, self.notes)

    def plot(self) -> Any:
        """A matplotlib figure of the chances against n, one panel per gate and truth; notebooks show it."""
        from karat.verbs.plot import draw_plan

        return draw_plan(self.gates)

    def document(self) -> DocumentJson:
        """The document that `--json` writes."""
        from msgspec import UNSET

        from karat.results.document import DocumentJson
        from karat.results.plan_document import PlanJson

        return DocumentJson(
            format_version=FORMAT_VERSION,
            kind="plan",
            conventions=dict(self.result.conventions) or UNSET,
            plan=PlanJson(
                self.conclusion,
                self.power,
                self.result.runs[0].sampling.seed,
                [one.document() for one in self.gates],
                [item.document() for item in self.work],
            ),
            notes=list(self.own_notes) or UNSET,
            warnings=list(self.warnings) or UNSET,
        )


def _telling(gate: GateForecast) -> TruthForecast:
    """The truth that a sentence is about: the first one better than the gate, else the first."""
    return next((truth for truth in gate.truths if truth.verdict == "SHIP"), gate.truths[0])


def needed_text(gate: GateForecast, truth: TruthForecast, power: float) -> str:
    """How many units the right verdict needs if the truth is this."""
    if truth.search is None:
        if gate.gate.at_mean:
            return f"if the truth is {truth.label}, chance decides, however many {gate.each} there are"
        return f"if the truth is {truth.label}, no number of {gate.each} decides"
    chance = f"if the truth is {truth.label}, {truth.verdict} with a chance of {percent_text(power)} needs"
    beyond = f" (extrapolated: chances are simulated up to {SIMULATED:,})" if truth.search.extrapolated else ""
    if truth.needed is None:
        return f"{chance} more than {truth.search.limit:,} {gate.each}{beyond}"
    each = " in each segment" if len(gate.segments) > 1 else ""
    return f"{chance} about {units_text(round_up(truth.needed), gate.unit)}{each}{beyond}"


@gives_warnings
@takes_options
def plan(
    source: str | os.PathLike[str] | Mapping[str, object] | Config | Read | Result | Any = None,
    runs: Any = None,
    gates: str | Iterable[str | Mapping[str, object] | Gate] | None = None,
    *,
    truth: float | None = None,
    true_value: float | None = None,
    power: float = POWER,
    sizes: Sequence[int] = SIZES,
    icc: float | None = None,
    turns: int | None = None,
    baseline: Result | str | None = None,
    candidate: str | Sequence[str] | None = None,
    **options: Unpack[Options],
) -> Plan:
    """What gates will say of more queries: the chances of SHIP, BLOCK and INCONCLUSIVE against their number.

    The values per query at hand say how values are spread: of a `karat.yaml` (the one in this folder unless named), a
    `Result` or the file that one was saved in, or gold and runs. They are moved to a stated truth, samples are drawn
    from them, and judged as `check` judges. `truth` is how much better than the gate the true value is, in the
    metric's unit (below 0: worse), `true_value` the value or change itself; without either there are several truths:
    around the gate, and as observed. `gates` are those to forecast; without any, several runs are compared (is ndcg@10
    better than the first run's?), and the gates of a config are judged, and the undecided ones listed with the queries
    that would decide them. Where queries carry a conversation,
    conversations are drawn and counted; `icc` and `turns` state how alike the queries of a conversation are, and how
    many there are.
    """
    Settings.of(options)  # mistakes in the call come before those in files
    if truth is not None and true_value is not None:
        raise UsageError("truth and true_value both say what is true; state one")
    if (icc is None) != (turns is None):
        raise UsageError("icc and turns describe conversations together; state both")
    dialogue = None if icc is None or turns is None else _dialogue(icc, turns)
    checked_share("power", power)
    counts = sorted({checked_count("n", n, 2) for n in sizes})
    if not counts:
        raise UsageError("expected at least one number of queries, such as 100")
    texts = [gates] if isinstance(gates, (str, dict)) else list(gates or ())
    named = [parse_gate(gate) for gate in texts] or _comparison(runs)
    for gate in named:
        if reason := _explain_unplannable(gate):
            raise InputError(f"gate '{gate}': {reason}").about(gate)
    if dialogue is not None:
        _need(named)
    judged, rule = _judged(source, runs, named, baseline, candidate, options)
    wishes = _Wishes(truth, true_value, power, tuple(counts), dialogue)
    notes: list[str] = []
    groups: dict[tuple[Gate, str], list[JudgedGate]] = {}
    for row in judged.rows:
        groups.setdefault((replace(row.gate, end=None), row.run), []).append(row)
    texts_named = {str(gate) for gate in named}
    forecasts, work = [], []
    for (gate, _), rows in groups.items():
        if str(gate) in texts_named:
            sequential = judged.result[rows[0].run].sampling.sequential
            if sequential and rows[0].found.missing:
                raise InputError(f"gate '{gate}': {rows[0].found.missing}")
            forecasts.append(_forecast_gate(gate, _cases(judged, gate, rows, rule), wishes, notes))
        failures = [row.where for row in rows if row.outcome == "fail"]
        if failures:
            notes.append(_describe_failure(gate, rows[0].run, failures))
        elif dialogue is None:
            work += [work_item(row, power) for row in rows if row.outcome == "undecided"]
    if any(run.sampling.sequential for run in judged.result.runs):
        notes.append(
            "sequential: the chances are those of one look at n queries; looks before it can only decide earlier"
        )
    return Plan(
        judged.result,
        tuple(forecasts),
        tuple(sorted(work, key=lambda item: not item.ruling.needs_queries)),
        power,
        tuple(dict.fromkeys(notes)),
    )


def _describe_failure(gate: Gate, run: str, segments: list[str]) -> str:
    """That a gate is decided: one segment that fails is enough, whatever more queries say of others."""
    some = "; ".join(segments[:NAMED]) + ("; …" if len(segments) > NAMED else "")
    return (
        f"{label_gate(gate)} already fails on {run}{f' where {some}' if some else ''}, so it asks for no more queries"
    )


@dataclass(frozen=True)
class _Wishes:
    """What is asked of a forecast."""

    truth: float | None
    true_value: float | None
    power: float
    sizes: tuple[int, ...]
    dialogue: Dialogue | None


@dataclass(frozen=True)
class Rule:
    """How a config has gates judged."""

    risk: Risk | None = None
    correction: str = "bonferroni"


DEFAULT_RULE = Rule()


@dataclass(frozen=True)
class _Case:
    """One gate in one segment, or over all queries: what it measured, and the values behind that."""

    row: JudgedGate
    setting: GateSetting
    population: Population

    @property
    def unit(self) -> UnitWord:
        return "conversation" if self.population.clustered else "query"


def _dialogue(icc: float, turns: int) -> Dialogue:
    if isinstance(icc, bool) or not isinstance(icc, (int, float)) or not 0 <= icc <= 1:
        raise UsageError(f"icc must be a number from 0 to 1, found {icc!r}")
    return Dialogue(float(icc), checked_count("turns", turns, 2))


def _judged(
    source: Any, runs: Any, gates: list[Gate], baseline: Any, candidate: Any, options: Options
) -> tuple[Check, Rule]:
    """The gates, judged with the queries at hand, and the rule that judges them."""
    if isinstance(source, Result) or is_saved(source):
        if runs is not None:
            raise UsageError("a saved result goes alone; evaluate its runs again with the others")
        _need(gates)
        result = source if isinstance(source, Result) else load(os.fspath(source))
        return check(result, gates, baseline=baseline, candidate=candidate, **options), Rule()
    if runs is None:
        is_path = isinstance(source, (str, os.PathLike))
        if is_path and not os.fspath(source).lower().endswith((".yaml", ".yml")) and not os.path.isdir(source):
            check_path(os.fspath(source))  # the name of a saved result
        read = read_config(find_config(os.fspath(source) if is_path else None) if source is None or is_path else source)
        risk = read.config.risk
        rule = Rule(Risk(risk.ship, risk.block) if risk else None, read.config.confidence.correction)
        unrecorded = replace(read, config=read.config.model_copy(update={"looks": None}))  # a plan is not a look
        return check(unrecorded, gates, baseline=baseline, candidate=candidate, **options), rule
    _need(gates)
    by = options.get("by")
    slices = [by] if isinstance(by, str) else list(by or ())
    fields = list(dict.fromkeys(gate.fields for gate in gates if gate.fields))
    settings = Settings.of(options).change(by=[*slices, *fields] or None)
    result = evaluate(source, runs, list(dict.fromkeys(gate.metric for gate in gates)), settings=settings)
    if baseline is None and len(result.runs) > 1 and any(gate.against == BASELINE for gate in gates):
        baseline = result.runs[0].name
    return check(result, gates, baseline=baseline, candidate=candidate), Rule()


def _comparison(runs: Any) -> list[Gate]:
    """The question that several runs ask by themselves."""
    files = isinstance(runs, dict) and all(isinstance(run, str) for run in runs.values())
    several = (files or isinstance(runs, (list, tuple))) and len(runs) > 1
    return [parse_gate(f"{PRIMARY} better than baseline")] if several else []


def _need(gates: Sequence[Gate]) -> None:
    if not gates:
        raise UsageError(
            "name a gate to plan for, such as 'ndcg@10 >= 0.5', or two runs to compare; a karat.yaml brings its own"
        )


def _explain_unplannable(gate: Gate) -> str:
    """Why a gate's chances cannot be simulated, and what to do; empty where they can."""
    measure = parse(gate.metric)
    if is_component_figure(measure):
        return "figures of components are not planned; give it to `karat check`, which judges it"
    if measure.aggregate in ("quantile", "sum"):
        kind = "quantile" if measure.aggregate == "quantile" else "total"
        hint = "; `karat check` says about how many more queries would decide it" if kind == "quantile" else ""
        return f"only means over queries are planned, and {measure.name} is a {kind}{hint}"
    if gate.pooled:
        return "gates on pooled estimates are not planned; leave out (pooled) for a cautious plan"
    return ""


def _cases(judged: Check, gate: Gate, rows: Sequence[JudgedGate], rule: Rule) -> list[_Case]:
    """The gate in each of its segments, with the values there."""
    basis = rows[0].basis or "none"
    run = judged.result[rows[0].run].on_basis(basis)
    sampling, statistic = run.sampling, run.statistic(gate.metric)
    confidence = sampling.confidence if rule.risk is None else 1 - 2 * rule.risk.ship
    block = (1 - sampling.confidence) / 2 if rule.risk is None else rule.risk.block
    count = len(rows) if gate.every and rule.correction == "bonferroni" else 1
    choice = replace(sampling.choice(run.threads), confidence=confidence, resamples=min(sampling.resamples, RESAMPLES))
    ids, values, base = run.query_ids, run.values[gate.metric], None
    if gate.against is not None:
        other = judged.baseline if gate.against == BASELINE else judged.result[gate.against]
        assert other is not None
        both = paired(*pair_on_basis(other, judged.result[rows[0].run], basis), [gate.metric])
        ids, values, base = both.query_ids, both.candidate[0], both.base[0]
    units = sampling.units(ids)
    place = {q: i for i, q in enumerate(ids)}
    segments = matching_segments(gate, sampling.segments(run.query_ids))
    out = []
    for row in rows:
        members = np.arange(len(ids))
        if gate.fields:
            mine = next((s.rows for s in segments if s.by == row.segment), ())
            members = np.array([place[q] for i in mine if (q := run.query_ids[i]) in place], dtype=np.int64)
        own = Population.of(
            statistic,
            values[members],
            units.take(members),
            base=None if base is None else base[members],
            factor=gate.factor,
        )
        least = (gate.least or sampling.minimum) if gate.fields else 1 if units.plain else MIN_UNITS
        out.append(_Case(row, GateSetting(gate, choice, 1 - 2 * block / count, least), own))
    return out


def _forecast_gate(gate: Gate, cases: Sequence[_Case], wishes: _Wishes, notes: list[str]) -> GateForecast:
    """The chances of a gate, over all of its segments, for each truth."""
    populations = _populations(gate, cases, wishes, notes)
    first = populations[0]
    observed = cases[0].row.found.estimate if len(cases) == 1 else math.nan
    choice = choose_truths(gate, populations, _observe(cases, populations, wishes), wishes.truth, wishes.true_value)
    notes += [choice.note] if choice.note else []
    if min(len(p.units) for p in populations) < FEW:
        notes.append(f"fewer than {FEW} units say how values are spread: take the figures as a rough guide")
    return GateForecast(
        gate,
        cases[0].row.run,
        cases[0].row.against,
        observed,
        "conversation" if first.clustered else "query",
        sum(len(p.units) for case, p in zip(cases, populations, strict=True) if _says_spread(case)),
        wishes.dialogue is not None,
        first.turns,
        first.correlation() if first.clustered else math.nan,
        tuple(case.row.where for case in cases) if gate.every else (),
        tuple(_forecast_truth(one, cases, populations, wishes) for one in choice.truths),
    )


def _observe(cases: Sequence[_Case], populations: Sequence[Population], wishes: _Wishes) -> tuple[float, ...]:
    """What was measured in each segment; where it lends its values from another one, that one's mean."""
    return tuple(
        case.row.found.estimate if case.population is p or wishes.dialogue else p.statistic.to_figure(p.mean, 1)
        for case, p in zip(cases, populations, strict=True)
    )


def _populations(gate: Gate, cases: Sequence[_Case], wishes: _Wishes, notes: list[str]) -> list[Population]:
    """What samples are drawn from in each segment: its own values, or those of all where it has too few."""
    usable = [case.population for case in cases if _says_spread(case)]
    if not usable:
        raise InputError(f"gate '{gate}': the values at hand are too few, or all equal, and do not say how others vary")
    largest = max(usable, key=lambda p: len(p.units))
    out = []
    for case in cases:
        population = case.population
        if not _says_spread(case):
            notes.append(f"{case.row.where} has too few values: those of the largest segment are taken instead")
            population = largest
        out.append(population if wishes.dialogue is None else population.with_dialogue(wishes.dialogue))
    return out


def _says_spread(case: _Case) -> bool:
    """Whether the values of a segment are enough, and unequal: only those say how others vary."""
    population = case.population
    return len(population.units) >= max(case.setting.minimum, 2) and bool(np.ptp(population.scores) > 0)


def _forecast_truth(
    truth: Truth, cases: Sequence[_Case], populations: Sequence[Population], wishes: _Wishes
) -> TruthForecast:
    """The chances against n: of a gate for every segment, all must pass, and one that fails is enough."""
    settings = [case.setting for case in cases]
    if wishes.dialogue is not None:
        settings = [replace(one, minimum=max(one.minimum, MIN_UNITS)) for one in settings]

    @cache
    def chances(n: int) -> Chances:
        parts = [
            forecast(setting, p, value, n)
            for setting, p, value in zip(settings, populations, truth.values, strict=True)
        ]
        ship = math.prod(part.ship for part in parts)
        block = 1 - math.prod(1 - part.block for part in parts)
        return Chances(n, ship, min(block, 1 - ship))

    right = right_verdict(settings[0].gate, truth.values)
    search = None
    if right is not None:
        search = find_units(wishes.power, lambda n: chances(n).ship if right == "SHIP" else chances(n).block)
    value = truth.values[0] if len(set(truth.values)) == 1 else math.nan
    return TruthForecast(truth.label, value, right, tuple(map(chances, wishes.sizes)), search)


@dataclass(frozen=True)
class EqualRun:
    """Samples as large as the queries at hand of a run that is just as good as the one it is compared with."""

    simulation: Simulation
    case: _Case
    change: float
    """What is then the true change, or difference from the part of the baseline that a gate asks for."""

    @property
    def units(self) -> int:
        """How many queries or conversations there are."""
        return self.simulation.n

    @property
    def unit(self) -> UnitWord:
        return self.case.unit

    def passes(self, gate: Gate, power: float = POWER) -> bool:
        """Whether it passes a gate of this kind often enough."""
        return self.simulation.chances(gate).ship >= power

    def needed(self, power: float = POWER) -> int | None:
        """The units with which it passes that often; None where no number within reach is enough."""
        wishes = _Wishes(None, self.change, power, (), None)
        truth = Truth("", (self.change,))
        return _forecast_truth(truth, [self.case], [self.case.population], wishes).needed


def simulate_equal(
    gate: Gate, result: Result, run: RunResult, base: RunResult, rule: Rule = DEFAULT_RULE
) -> EqualRun | None:
    """A run that is as good as another, as `plan` simulates it; None where these values do not say how it would vary.

    Of many units the interval says the same at once, and nothing is simulated. The gate asks for one thing over all
    queries, or in one segment.
    """
    if _explain_unplannable(gate) or len(gate.ends) > 1:
        return None
    rows = judge_gates([gate], result, [run.name], baseline=base, correction=rule.correction, risk=rule.risk)
    found = rows[0].found if len(rows) == 1 else None
    if found is None or found.same_lists or found.missing or not found.deviation > 0:
        return None
    (case,) = _cases(Check(result, rows, (run.name,), base), gate, rows, rule)
    population = case.population
    units = len(population.units)
    if not _says_spread(case) or population.base is None or units > SIMULATED_UPTO:
        return None
    change = 1.0 if found.scale == "ratio" else (1 - gate.factor) * mean_of(population.base, population.units)
    try:
        return EqualRun(simulate(case.setting, population, change, units), case, change)
    except UsageError:  # every query at hand lost, or won
        return None
