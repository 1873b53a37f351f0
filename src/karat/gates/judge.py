"""A gate and its evidence → pass, fail or undecided, why, and how many queries it needs; all gates → the verdict."""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from karat.gates.kinds import Region, is_same
from karat.gates.units import unit_of
from karat.metrics.grammar import parse
from karat.model.log_names import TOTAL
from karat.records import dataclass
from karat.results.asked import is_logged
from karat.results.figures import level_text
from karat.results.no_spread import describe_equal_changes, describe_equal_values
from karat.results.words import Outcome as Outcome
from karat.results.words import independent_text, queries_text, round_up, segment_text
from karat.stats.aggregates import ChangeScale, Statistic
from karat.stats.betting import BETTING
from karat.stats.defaults import CONFIDENCE
from karat.stats.intervals import ALL_EQUAL, WITHOUT_ENDS, draw_error, standard_error
from karat.stats.power import POWER, queries_needed, queries_needed_for_share
from karat.stats.quantiles import share_up_to
from karat.store.codec import ends_json, rounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from karat.gates.gate import Gate
    from karat.results.by_judge import Basis
    from karat.results.document import GateJson
    from karat.stats.resample import Units


Verdict = Literal["SHIP", "BLOCK", "INCONCLUSIVE"]
INSIDE = "the threshold is inside the interval"
"""Why a gate is undecided where nothing more is to be said."""
HALF = 0.674
"""The truth is as near as this many standard errors with a chance of one half."""
Kind = Literal["mean", "share", "quantile", "total"]
_SKIP = ", or evaluate again with --missing skip to judge the others alone"
_BLESS = ", and bless the baseline with it too"


@dataclass(frozen=True)
class GateEvidence:
    """What was measured of a gate's value, or of its difference from the baseline."""

    estimate: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    deviation: float = math.nan
    """The standard deviation of a unit's score."""
    kind: Kind = "mean"
    """How the interval was found: of a mean, of a share of yes and no, of a quantile. A total has none."""
    values: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)
    """The values of the queries, where the estimate is a quantile of them."""
    sample: Units | None = field(default=None, repr=False, compare=False)
    """What these values are a sample of; None: every query is a unit, and all count alike."""
    confidence: float = CONFIDENCE
    minimum: int = 1
    """With fewer units nothing is judged."""
    n_eff: float = math.nan
    """How many units of equal weight say as much; NaN where every query is a unit."""
    fail_low: float = math.nan
    """The ends that a fail is judged by, where they are not `low` and `high`."""
    fail_high: float = math.nan
    fail_confidence: float = math.nan
    usual_confidence: float = math.nan
    """Of the result's other intervals; one of another confidence is labelled with it."""
    method: str = ""
    """How the interval was found."""
    draws: int = 0
    """How many random draws the ends rest on; 0: none."""
    same_lists: bool = False
    """Whether the ranked lists of both runs are identical, and determine the metric."""
    may_have_same_lists: bool = False
    """Whether they may be: the values are the same, and the results do not hold the lists."""
    not_pooled: str = ""
    """Why a segment of a pooled gate is judged by itself."""
    missing: str = ""
    """Why the value is undefined, if more can be said than that."""
    absent: int = 0
    """Queries that were asked and that the run has no latency or cost of; with them it may be larger."""
    blessed: bool = False
    """Whether the check has a baseline that was evaluated before: its conventions have to be those of the run."""
    worst: tuple[float, float] = (math.nan, math.nan)
    """Of a quantile: its estimate and the upper end of its interval if these queries were the slowest."""
    statistic: Statistic = Statistic()
    """What the value is of the queries' values."""
    scale: ChangeScale = "difference"
    """Whether a change from the baseline is a difference or a ratio."""

    @property
    def units(self) -> float:
        """How many queries, conversations, or units of equal weight it rests on."""
        return float(self.n) if math.isnan(self.n_eff) else self.n_eff

    @property
    def independent(self) -> bool:
        """Whether all queries count as one each, to a tenth."""
        return round(self.units, 1) == self.n

    @property
    def outer(self) -> tuple[float, float]:
        """The ends that a fail is judged by."""
        low, high = self.fail_low, self.fail_high
        return self.low if math.isnan(low) else low, self.high if math.isnan(high) else high


@dataclass(frozen=True)
class Ruling:
    """The outcome of one gate for one run, over all queries or in one segment."""

    outcome: Outcome
    why: str
    more: int | None = None
    """The queries, beside those there are, that would decide an undecided gate if the truth is as observed."""
    fewest: int | None = None
    """The same if the truth is at that end of its 50% interval which is farther from the gate."""
    most: int | None = None
    """The same at the nearer end; None where the truth may be at the gate, and no number would be enough."""
    unsteady: bool = False
    """Whether the threshold is so near to an end that another seed of its random draws may decide otherwise."""
    needs_queries: bool = False
    """Whether an undecided gate lacks queries; otherwise more of them alone would not decide it."""


_LISTS_UNKNOWN = "whether the ranked lists are identical, which would decide it, is known with details=True"


def judge(gate: Gate, evidence: GateEvidence, *, power: float = POWER) -> Ruling:
    """Compare the end of the interval, or the point, with the threshold. Nothing passes without a value.

    `power` is the chance with which the number of more queries that an undecided gate asks for would decide it.
    """
    ruling = _judge(gate, evidence, power)
    if ruling.outcome != "undecided" or not evidence.may_have_same_lists:
        return ruling
    return replace(ruling, why=f"{ruling.why}; {_LISTS_UNKNOWN}")


def _judge(gate: Gate, evidence: GateEvidence, power: float) -> Ruling:
    if evidence.missing:
        return Ruling("undecided", evidence.missing)
    if math.isnan(evidence.estimate):
        return Ruling("undecided", f"the value is undefined: {_describe_undefined(evidence)}")
    if evidence.units < evidence.minimum:
        return _too_few(evidence)
    if gate.at_mean or evidence.kind == "total":  # a total of these queries is what it is
        quantile = evidence.statistic.aggregate == "quantile"
        what = "total" if evidence.kind == "total" else "quantile" if quantile else "mean"
        if _may_grow_across(gate.region, evidence):
            reason = (
                f"{_describe_absent(gate, evidence)}, so the {what} may be larger; log {_absent_ones(evidence)} too"
            )
            return Ruling("undecided", reason + ("" if what == "total" else _advise_skip(evidence)))
        holds = gate.region.holds(evidence.estimate)
        where = "on the right side" if holds else _describe_side(gate, evidence.estimate, evidence.estimate)
        return Ruling("pass" if holds else "fail", f"the {what} is {where}")
    if evidence.same_lists:
        holds = gate.region.holds(evidence.estimate)
        return Ruling("pass" if holds else "fail", "the ranked lists are identical")
    if math.isnan(evidence.low) and math.isnan(evidence.high):
        if evidence.method == ALL_EQUAL:
            return Ruling("undecided", _describe_no_spread(gate, evidence))
        if evidence.n == 1:
            return Ruling("undecided", "one query gives no interval", needs_queries=True)
        if evidence.kind != "quantile" and (evidence.method in WITHOUT_ENDS or not evidence.method):
            return Ruling("undecided", "no interval was computed")
    ruling = _by_interval(gate, evidence, power)
    # Beside more queries, those without a value may cease to matter to a quantile; they always do to a mean.
    stopped = ("pass",) if evidence.statistic.aggregate == "quantile" else ("pass", "undecided")
    if ruling.outcome in stopped and _may_be_larger(gate, evidence):
        reason = f"{_describe_absent(gate, evidence)}, so the value over all queries may be larger"
        inside = f"; besides, {ruling.why}" if ruling.outcome == "undecided" else ""
        return Ruling("undecided", f"{reason}; log {_absent_ones(evidence)} too{_advise_skip(evidence)}{inside}")
    return replace(ruling, unsteady=_is_unsteady(gate.region, evidence))


def _describe_absent(gate: Gate, evidence: GateEvidence) -> str:
    """`1 query has no latency`, `36 queries have no cost (tokens)`."""
    measure, queries = (
        parse(gate.metric),
        "1 query has" if evidence.absent == 1 else f"{evidence.absent:,} queries have",
    )
    if not is_logged(measure):
        return f"{queries} no value"
    key = measure.param(measure.metric.dotted[0])
    return f"{queries} no {measure.metric.name}" + ("" if key == TOTAL else f" ({key})")


def _advise_skip(evidence: GateEvidence) -> str:
    """How to leave out queries without a value, in every file that the check compares."""
    return _SKIP + (_BLESS if evidence.blessed else "")


def _absent_ones(evidence: GateEvidence) -> str:
    return "it" if evidence.absent == 1 else "theirs"


def _may_be_larger(gate: Gate, evidence: GateEvidence) -> bool:
    """Whether a value would be above a limit if the queries without a value were the slowest, or the dearest."""
    if not evidence.absent or not math.isfinite(gate.region.high):
        return False
    if evidence.statistic.aggregate != "quantile":
        return parse(gate.metric).metric.bounds[1] is None
    return not gate.region.below_high(evidence.worst[1])


def _may_grow_across(region: Region, evidence: GateEvidence) -> bool:
    """Whether with the queries that have no value it could be on the other side of an end."""
    quantile, value = evidence.statistic.aggregate == "quantile", evidence.estimate
    most = evidence.worst[0] if quantile else math.inf
    return evidence.absent > 0 and any((value < end or is_same(value, end)) and most >= end for end in region.bounds)


def _describe_undefined(evidence: GateEvidence) -> str:
    """Why there is no figure: without weight, values do not count."""
    if evidence.n == 0:
        return "no query has one"
    return f"{queries_text(evidence.n)} with a value, " + (
        "whose weight is 0" if evidence.n == 1 else "all of weight 0"
    )


def _describe_no_spread(gate: Gate, evidence: GateEvidence) -> str:
    if gate.against is None:
        return describe_equal_values(gate.metric, evidence.estimate, evidence.n)
    single, factor = math.isnan(evidence.n_eff), gate.factor
    return describe_equal_changes(
        gate.metric, evidence.estimate, evidence.n, scale=evidence.scale, single=single, factor=factor
    )


def _is_unsteady(region: Region, evidence: GateEvidence) -> bool:
    """Whether an end is within two standard deviations of what another seed gives from a threshold."""
    if not evidence.draws:
        return False
    levels = (
        evidence.confidence,
        evidence.confidence if math.isnan(evidence.fail_confidence) else evidence.fail_confidence,
    )
    for level, ends in zip(levels, ((evidence.low, evidence.high), evidence.outer), strict=True):
        error = draw_error((1 - level) / 2, evidence.draws)
        for end in ends:
            reach = 2 * error * abs(end - evidence.estimate)
            if any(abs(end - bound) <= reach for bound in region.bounds):
                return True
    return False


def _too_few(evidence: GateEvidence) -> Ruling:
    least = f"fewer than {evidence.minimum} are not judged alone"
    if evidence.independent:
        queries = "1 query" if evidence.n == 1 else f"{evidence.n} queries"
        return Ruling("undecided", f"only {queries}, and {least}", evidence.minimum - evidence.n, needs_queries=True)
    more = max(math.ceil(evidence.n * (evidence.minimum / evidence.n_eff - 1)), 1) if evidence.n_eff > 0 else None
    reason = f"{evidence.n} queries count as {independent_text(evidence.n_eff)}, and {least}"
    return Ruling("undecided", reason, more, needs_queries=True)


def _by_interval(gate: Gate, evidence: GateEvidence, power: float) -> Ruling:
    region = gate.region
    low_bounds, high_bounds = math.isfinite(region.low), math.isfinite(region.high)
    unbounded = (low_bounds and math.isnan(evidence.low), high_bounds and math.isnan(evidence.high))
    if not any(unbounded) and region.above_low(evidence.low) and region.below_high(evidence.high):
        return Ruling("pass", "the whole interval is on the right side")
    if is_outside(region, *evidence.outer):
        return Ruling("fail", f"the whole interval is {_describe_side(gate, *evidence.outer)}")
    if not any(unbounded) and any(is_same(evidence.estimate, end) for end in region.bounds):
        return Ruling("undecided", "the value is the threshold: no number of queries would decide it")
    needed = _needed(gate, evidence, power)
    if any(unbounded):
        reason = f"too few queries to bound it from {'below' if unbounded[0] else 'above'}"
    elif is_outside(region, evidence.low, evidence.high):
        level = level_text(evidence.fail_confidence)
        reason = f"{INSIDE} at {level}, which a fail has to leave"
    elif tie := describe_tie(gate, evidence):
        reason = tie
    elif needed.here is None and not math.isnan(evidence.deviation):
        return Ruling("undecided", f"{INSIDE}, and too near to the value to be decided")
    else:
        reason = INSIDE
    return Ruling("undecided", reason, *needed, needs_queries=True)


def describe_tie(gate: Gate, evidence: GateEvidence) -> str:
    """Why values, or differences, that are all equal have an interval: how many of other queries may still differ."""
    if evidence.deviation != 0 or evidence.scale != "difference" or evidence.kind not in ("mean", "share"):
        return ""
    if evidence.method == BETTING:  # holds at every look, and leaves room for more
        return ""
    share = 1 - ((1 - evidence.confidence) / 2) ** (1 / evidence.units)
    what = "values" if gate.against is None else "differences"
    one_in = round_up(round(1 / share))
    equal = f"all {evidence.n:,} {what} are {evidence.estimate:g}, but"
    if one_in == 1:
        few = queries_text(evidence.n) if evidence.independent else independent_text(evidence.units)
        return f"{equal} {few} say too little of others"
    return f"{equal} about 1 query in {one_in:,} may still differ"


def is_outside(region: Region, low: float, high: float) -> bool:
    """Whether a whole interval is on the wrong side; an end that is NaN is unknown."""
    return _is_too_low(region, high) or (not math.isnan(low) and not region.below_high(low))


def _is_too_low(region: Region, high: float) -> bool:
    return not math.isnan(high) and not region.above_low(high)


def _describe_side(gate: Gate, low: float, high: float) -> str:
    """On which side of which threshold all is that fails: `below the threshold of 0.4`, `not above that of 0`."""
    below, region = _is_too_low(gate.region, high), gate.region
    bound = region.low if below else region.high
    at = is_same(high if below else low, bound)
    side = ("not above" if below else "not below") if at else ("below" if below else "above")
    number = f"×{bound:g}" if gate.scale == "ratio" else f"{bound:g} {unit_of(gate.metric)}".rstrip()
    return f"{side} the threshold of {number}"


def _needed(gate: Gate, evidence: GateEvidence, power: float) -> _Needed:
    """How many more queries: at n + more the interval leaves the threshold with this probability."""

    def more(shift: float) -> int | None:
        total = count_needed_queries(gate, evidence, power, shift)
        return None if total is None else max(total - evidence.n, 1)

    return _Needed(more(0.0), more(HALF), more(-HALF))


def count_needed_queries(gate: Gate, evidence: GateEvidence, power: float = POWER, shift: float = 0.0) -> int | None:
    """How many queries in all decide a gate with this chance if the truth is as the evidence has it.

    With a `shift` the truth is so many standard errors farther from the threshold. None where no number is known.
    """
    passes = gate.region.holds(evidence.estimate) or math.isnan(evidence.fail_confidence)
    alpha, threshold = (
        1 - (evidence.confidence if passes else evidence.fail_confidence),
        gate.region.nearest(evidence.estimate),
    )
    if evidence.kind == "quantile":
        (value, units), limit = _share_up_to(evidence, threshold), evidence.statistic.quantile
        reach = 0.0
    else:
        low, high = (evidence.low, evidence.high) if passes else evidence.outer
        end, units = low if threshold < evidence.estimate else high, evidence.units
        value, limit, end = (evidence.statistic.to_score(x, evidence.n) for x in (evidence.estimate, threshold, end))
        reach = abs(value - end)
    counted = evidence.kind in ("quantile", "share")
    deviation = math.sqrt(value * (1 - value)) if counted else evidence.deviation
    error = deviation / math.sqrt(units)
    apart = abs(value - limit) + shift * error
    if not apart > 0:
        return None
    if counted:
        truth = min(max(limit + math.copysign(apart, value - limit), 0.0), 1.0)
        score = evidence.method == "wilson"
        total = queries_needed_for_share(truth, limit, power=power, alpha=alpha, score=score)
        ratio = math.nan if total is None else total / units
    elif deviation == 0:
        ratio = _equal_needed(apart, reach, units, alpha)
    else:
        total = queries_needed(apart, deviation, power=power, alpha=alpha)
        # What is beyond the usual reach falls as 1/n, the rest as 1/√n: apart · r² = apart · root · r + beyond.
        root = math.nan if total is None else math.sqrt(total / units)
        usual = error * _student(units, alpha)
        beyond = max(reach - usual, 0.0) if math.isfinite(reach) else 0.0
        ratio = ((root + math.sqrt(root**2 + 4 * beyond / apart)) / 2) ** 2
    return None if math.isnan(ratio) else math.ceil(evidence.n * ratio - 1e-6)


def _equal_needed(apart: float, reach: float, units: float, alpha: float) -> float:
    """How many times as many equal values would decide: with n of them, the end is 1 − (α/2)^(1/n) of a span away."""
    if not math.isfinite(reach):
        return math.nan
    span, tail = reach / -math.expm1(math.log(alpha / 2) / units), math.log(alpha / 2)
    return tail / math.log1p(-apart / span) / units if apart < span else 1 / units


def _share_up_to(evidence: GateEvidence, threshold: float) -> tuple[float, float]:
    """The share of values up to the threshold, and how many single queries tell it as surely as these do."""
    share = share_up_to(evidence.values, threshold, None if evidence.sample is None else evidence.sample.weight)
    if evidence.sample is None or evidence.sample.plain or not 0 < share < 1:
        return share, evidence.units
    within = np.where(np.isnan(evidence.values), np.nan, evidence.values <= threshold)
    error, _ = standard_error(within, evidence.sample)
    return share, share * (1 - share) / error**2 if error > 0 else evidence.units


class _Needed(NamedTuple):
    """How many more queries would decide, if the truth is as observed, farther from the gate, and nearer to it."""

    here: int | None
    fewest: int | None = None
    most: int | None = None


def _student(units: float, alpha: float) -> float:
    from karat.stats.special import stdtrit

    return float(stdtrit(max(units - 1, 1), 1 - alpha / 2))


def verdict_of(outcomes: Iterable[tuple[str, Outcome]]) -> Verdict:
    """The verdict over (level, outcome) of all gates: a warning never changes it."""
    seen = {outcome for level, outcome in outcomes if level == "error"}
    return "BLOCK" if "fail" in seen else "INCONCLUSIVE" if "undecided" in seen else "SHIP"


class GateInterval(NamedTuple):
    """The ends of a gate's interval, and its confidence."""

    low: float
    high: float
    confidence: float

    @property
    def unknown(self) -> bool:
        """Whether neither end is known."""
        return math.isnan(self.low) and math.isnan(self.high)


@dataclass(frozen=True)
class JudgedGate:
    """One gate for one run, over all queries or in one segment."""

    gate: Gate
    run: str
    segment: Mapping[str, str] | None
    found: GateEvidence
    judged: Ruling
    against: str | None = None
    """The run that it was compared with."""
    basis: Basis | None = None
    """What its figure rests on, where the run was evaluated with a judge."""

    @property
    def outcome(self) -> str:
        return self.judged.outcome

    @property
    def interval(self) -> GateInterval:
        """The interval that decides, which is the one to show: a fail may be judged by another one than a pass."""
        evidence = self.found
        by_interval = not (self.gate.at_mean or evidence.kind == "total" or evidence.same_lists)
        if self.outcome == "fail" and by_interval and not math.isnan(evidence.fail_confidence):
            return GateInterval(*evidence.outer, evidence.fail_confidence)
        return GateInterval(evidence.low, evidence.high, evidence.confidence)

    @property
    def where(self) -> str:
        """The segment in words; empty for all queries."""
        return segment_text(self.segment)

    def document(self) -> GateJson:
        """This judgment as the JSON document has it."""
        from msgspec import UNSET

        from karat.results.document import GateJson

        gate, evidence = self.gate, self.found
        return GateJson(
            gate=str(gate),
            name=gate.name or None,
            level=gate.level,
            run=self.run,
            metric=gate.metric,
            segment=dict(self.segment) if self.segment is not None else None,
            outcome=self.judged.outcome,
            why=self.judged.why,
            value=rounded(evidence.estimate),
            ci=ends_json(self.interval),
            op=gate.op,
            threshold=rounded(gate.threshold),
            n=evidence.n,
            n_eff=UNSET if math.isnan(evidence.n_eff) else rounded(evidence.n_eff),
            ci_method=evidence.method or UNSET,
            identical_lists=True if evidence.same_lists else UNSET,
            not_pooled=evidence.not_pooled or UNSET,
            unsteady=True if self.judged.unsteady else UNSET,
            confidence=rounded(self.interval.confidence),
            more_queries=self.judged.more,
            more_queries_range=UNSET if self.judged.fewest is None else [self.judged.fewest, self.judged.most],
            against=self.against if self.against is not None else UNSET,
            margin=rounded(gate.value) if self.against is not None else UNSET,
            relative=gate.relative if self.against is not None else UNSET,
            scale=UNSET if evidence.scale == "difference" else evidence.scale,
            judged=UNSET if self.basis is None else self.basis,
        )
