"""The rules asked one after the other: measured values → findings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from karat.stats.resample import mean_of
from karat.verbs.diagnose.findings import Diagnosis, Evidence, Finding
from karat.verbs.diagnose.rules import RULES, THIN_GOLD, Rule, thresholds
from karat.verbs.diagnose.view import TOTAL, View

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from karat.verbs.diagnose.signals import Signals

MAIN = ("recall@5", "recall@10", "ndcg@10", "mrr", "pool", "judged@10", "fresh@5")
THIN_FOR_RULE = "rests on the gold alone, which judges too few docs of the top 10"
FEW_LEFT = 5
"""Rules are not asked of fewer queries than this."""
TOO_FEW, NEAR = f"fewer than {FEW_LEFT} queries are left", "the interval holds the threshold"
"""Why a rule is undecided."""


def judge(signals: Signals, limits_changed: Mapping[str, float] | None = None) -> Diagnosis:
    """What the rules find in these values."""
    limits = thresholds(limits_changed)
    view = whole = View.of(signals)
    in_scope = int(view.before_gate().rows.sum())
    findings: list[Finding] = []
    unchecked: dict[str, str] = {}
    undecided: dict[str, str] = {}
    open_segments: tuple[str, ...] = ()
    gold_is_thin = False
    for rule in RULES:
        if any(f.code in rule.unless for f in findings):
            continue
        if gold_is_thin and THIN_GOLD in rule.unless and not rule.by_judge:
            unchecked[rule.code] = THIN_FOR_RULE
            continue
        lack = _lacking(rule, signals)
        if rule.code == THIN_GOLD and lack is None and signals.by_judge:
            gold_is_thin = bool(_state(rule, view, limits))
        if rule.by_judge and _lacking(rule, signals, signals.by_judge) is None:
            answer = _ask(rule, view.with_judge(), limits)  # the next rule has its own view
        elif rule.before_gate and lack is None:
            answer = _ask(rule, view.before_gate(), limits)
        elif lack is None:
            answer = _ask(rule, view, limits)
            view = answer.view
        else:
            unchecked[rule.code] = lack
            continue
        findings += answer.findings
        open_segments += answer.open_segments
        # Of many small segments one is always open, so that this would say nothing.
        if answer.open_segments or (answer.why_open and not answer.findings and rule.over != "segments"):
            undecided[rule.code] = answer.why_open
    if not whole.rows.all():
        whole = View(signals, np.ones(len(signals), dtype=bool), signals.values, signals.by_judge)
    main = whole.with_judge()
    main_figures = tuple(e for name in MAIN if (e := _evidence(main, name)) is not None)
    # A count comes first: it says which queries the other findings are about.
    ordered = tuple(sorted(findings, key=lambda f: (bool(f.evidence), -f.weight)))
    return Diagnosis(
        signals.name,
        len(signals),
        in_scope,
        ordered,
        unchecked,
        undecided,
        main_figures,
        limits,
        signals.mismatches,
        signals.judge,
        signals.notes,
        signals.remarks,
        open_segments,
    )


class _Answer(NamedTuple):
    """What a rule finds, why it stays open if it does, and the view of the rules after it."""

    findings: list[Finding]
    why_open: str
    view: View
    open_segments: tuple[str, ...] = ()
    """Segments with a gap that is beyond the threshold as measured, and surely one, but not surely as large.

    Others say nothing: of many small segments one is always open.
    """


def _ask(rule: Rule, view: View, limits: Mapping[str, float]) -> _Answer:
    """What a rule says of these queries."""
    if not rule.when:
        mask = rule.loss(view) > 0
        if not mask.any():
            return _Answer([], "", view)
        subject = f"{int(mask.sum()):,} of {len(mask):,}"
        return _Answer([_finding(rule, view, limits, subject=subject)], "", view.without(mask, rule.code))
    findings: list[Finding] = []
    why_open, states = TOO_FEW if view.rows.sum() < FEW_LEFT else "", list[tuple[View, bool | None]]()
    while view.rows.sum() >= FEW_LEFT:
        states = [(one, _state(rule, one, limits)) for one in _views(rule, view)]
        why_open = NEAR if any(state is None for _, state in states) else why_open
        confirmed = [one for one, state in states if state and not (rule.needs_loss and not rule.loss(one).any())]
        if not confirmed:
            break
        worst = max(confirmed, key=lambda v: float(mean_of(rule.loss(v), v.units)))
        findings.append(_finding(rule, worst, limits))
        if rule.claims:
            view = view.without(worst.inside, rule.code)
        if rule.refilters:
            view = view.with_newer_dropped()
        if rule.over != "segments":
            break
    seem = (one for one, state in states if state is None and rule.over == "segments" and _seems(rule, one, limits))
    return _Answer(findings, why_open, view, tuple(one.subject for one in seem))


def _seems(rule: Rule, view: View, limits: Mapping[str, float]) -> bool:
    """Whether all differences are beyond their thresholds as measured, and differences of this direction at all."""
    for bound in rule.when:
        interval = view.interval(bound.value)
        if interval is None:
            return False
        exact = replace(interval, low=interval.estimate, high=interval.estimate)
        if not (bound.holds(exact, limits[bound.threshold]) and bound.holds(interval, 0.0)):
            return False
    return True


def _lacking(rule: Rule, signals: Signals, judged: Collection[str] = ()) -> str | None:
    """The field that a rule needs and that is not there; a judge's grades bring the values of `judged`."""
    if rule.over == "segments" and "segments" in signals.missing:
        return signals.missing["segments"]
    if rule.over == "stages":
        return signals.missing.get("latency")
    for bound in rule.when:
        if bound.value == "pool of docs" and "pool of docs" not in signals.values:
            return signals.missing.get("gap to docs")
        if bound.value in signals.missing and bound.value not in judged:
            return signals.missing[bound.value]
    return None


def _views(rule: Rule, view: View) -> Iterator[View]:
    """What a rule is asked of: all queries, each segment that is large enough, or each stage."""
    if rule.over == "segments":
        sampling = view.signals.sampling
        views = [
            s
            for s in sampling.segments(view.signals.query_ids)
            if view.rows[s.rows].sum() >= sampling.minimum
            and view.rows.sum() - view.rows[s.rows].sum() >= sampling.minimum
        ]
        yield from (view.about(segment=s, family=len(views)) for s in views)
    elif rule.over == "stages":
        stages = [s for s in view.signals.latency if s != TOTAL]
        yield from (view.about(stage=s) for s in stages)
    else:
        yield view


def _state(rule: Rule, view: View, limits: Mapping[str, float]) -> bool | None:
    """Whether a rule holds; None where the intervals leave it open."""
    states = []
    for bound in rule.when:
        interval, limit = view.interval(bound.value), limits[bound.threshold]
        if interval is None:
            return False
        if bound.refuted(interval, limit):
            return False
        states.append(bound.holds(interval, limit))
    return True if all(states) else None


def _evidence(view: View, name: str) -> Evidence | None:
    interval = view.interval(name)
    return None if interval is None else Evidence(view.label(name), interval, judge=view.judge(name))


def _finding(rule: Rule, view: View, limits: Mapping[str, float], *, subject: str = "") -> Finding:
    loss = rule.loss(view)
    evidence = []
    for bound in rule.when:
        interval = view.interval(bound.value)
        assert interval is not None
        limit, judge = limits[bound.threshold], view.judge(bound.value)
        label, sides = view.label(bound.value), view.sides(bound.value)
        evidence.append(Evidence(label, interval, bound.side, limit, bound.threshold, judge, sides))
    evidence += [e for name in rule.shows if (e := _evidence(view, name)) is not None]
    if rule.shows_inside:
        mine = replace(view, rows=view.inside)
        inside = (_evidence(mine, name) for name in rule.shows_inside)
        evidence += [replace(e, value=f"{e.value} here") for e in inside if e is not None]
    concern = rule.concerns(view) if rule.concerns is not None else loss
    order = np.lexsort((view.ndcg, -concern, -loss))
    queries = tuple(view.query_ids[i] for i in order.tolist() if concern[i] > 1e-9)
    weight = max(0.0, float(mean_of(loss, view.units)))
    texts = (rule.code, rule.title, subject or view.subject)
    scope = view.scope if rule.when else f"all {len(loss):,} queries"
    return Finding(*texts, weight, tuple(evidence), scope, rule.cause, rule.advice_on(view), queries)
