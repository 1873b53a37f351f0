"""A judged gate in words: what was measured, and what is required."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from karat.gates.basis import WORDS
from karat.gates.judge import INSIDE, JudgedGate, Ruling
from karat.gates.units import rises, unit_of
from karat.results.figures import SAME, Figure, change_figure, figure, level_text
from karat.results.words import BASELINE, plural, round_up
from karat.stats.pooling import POOLED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.gates.gate import Gate


def label_gate(gate: Gate) -> str:
    """A gate as every output shows it: its name, where it has one, and its text."""
    return f"{gate.name}: {gate}" if gate.name else str(gate)


def figure_of(row: JudgedGate) -> Figure:
    """What was measured: a value, or a change with its sign, in the metric's unit."""
    evidence, interval = row.found, row.interval
    if row.against is None:
        one = figure(row.gate.metric, evidence.estimate, interval.low, interval.high)
    else:
        one = change_figure(row.gate.metric, evidence.scale, evidence.estimate, interval.low, interval.high)
    return replace(one, threshold=row.gate.threshold)


def value_text(row: JudgedGate) -> str:
    """The value; of a difference with a Δ before it."""
    one = figure_of(row)
    return f"Δ {one.text}" if row.against is not None and one.defined else one.text


def describe(row: JudgedGate) -> str:
    """What was measured and what is asked for: `mrr fell by 0.158 [0.081, 0.259]; it may fall by at most 0.1`."""
    name, where = row.gate.name, f" where {row.where}" if row.where else ""
    head = f"{name}: " if name else ""
    metric = f"{row.gate.metric} (pooled)" if row.found.method == POOLED else row.gate.metric
    one, labels = figure_of(row), (note_confidence(row), WORDS[row.basis] if row.basis else "")
    level = f" ({', '.join(filter(None, labels))})" if any(labels) else ""
    if not one.defined:
        return f"{head}{row.gate}: {row.judged.why}"
    if row.against is None:
        return f"{head}{metric}{where} is {one.sentence}{level}; {limit(row.gate)}"
    if one.ratio:
        whose = "the baseline" if row.gate.against == BASELINE else row.against
        return f"{head}{metric}{where} is {one.sentence}{level} of {whose}'s value; {limit(row.gate)}"
    if row.gate.relative:
        wrong = "below" if row.gate.op.startswith(">") else "above"
        side = "below" if one.value < 0 else "above"
        away = f"{one.size} {one.size_interval}".rstrip()
        return f"{head}{metric}{where} is {away}{level} {side} {reference(row)}; it must not be {wrong}"
    if abs(one.value) <= SAME:
        moved = "did not change"
    elif one.low < 0 < one.high:
        moved = f"changed by {one.sentence}{level}"
    else:
        moved = f"{'fell' if one.value < 0 else 'rose'} by {one.size} {one.size_interval}".rstrip() + level
    against = "" if row.gate.against == BASELINE else f" against {row.against}"
    return f"{head}{metric}{where} {moved}{against}; {limit(row.gate)}"


def limit(gate: Gate) -> str:
    """What a gate asks for, in words: `at least 0.4 is required`."""
    if gate.scale == "ratio":
        least = "more than" if gate.region.open else "at least"
        most = "less than" if gate.region.open else "at most"
        return f"{least if gate.op.startswith('>') else most} {threshold_text(gate)} is required"
    unit = f" {unit_of(gate.metric)}".rstrip()
    gain, loss = ("rise", "fall") if rises(gate) else ("fall", "rise")
    kind = gate.kind
    template = kind.limit if gate.value or not kind.compares else kind.limit_without_margin or kind.limit
    upper = gate.value if gate.upper is None else gate.upper
    text = template.format(amount=f"{gate.value:g}{unit}", upper=f"{upper:g}{unit}", gain=gain, loss=loss)
    return f"{text} at the mean" if gate.at_mean else text


def threshold_text(gate: Gate) -> str:
    """The threshold of the value or of the change: `0.4`, `70 ms`, `×0.95`."""
    if gate.scale == "ratio":
        return f"×{gate.threshold:g}"
    return f"{gate.threshold:g} {unit_of(gate.metric)}".rstrip()


def reference(row: JudgedGate) -> str:
    """What a relative gate measures from: `98% of the baseline's value`."""
    whose = "the baseline" if row.gate.against == BASELINE else row.against
    return f"{row.gate.factor * 100:.4g}% of {whose}'s value"


def note_reference(row: JudgedGate) -> str:
    """What a difference is measured from, where that is not the baseline itself."""
    relative = row.against is not None and row.gate.relative and row.found.scale == "difference"
    return f"Δ to {reference(row)}" if relative else ""


def note_confidence(row: JudgedGate) -> str:
    """The confidence of the interval, where it is not that of the result's other intervals."""
    usual, level = row.found.usual_confidence, row.interval.confidence
    if row.interval.unknown or math.isnan(usual) or math.isclose(usual, level, abs_tol=1e-9):
        return ""
    return f"{level_text(level)} interval"


def note_figures(row: JudgedGate) -> tuple[str, ...]:
    """What a value and its interval are, where they do not say it themselves."""
    return tuple(filter(None, (note_reference(row), note_confidence(row), WORDS[row.basis] if row.basis else "")))


def evidence_text(row: JudgedGate) -> str:
    """The value with its interval, and what they are: `Δ +34.18 [23.0, 42.6] (Δ to 110% of the baseline's value)`."""
    notes = "".join(f" ({note})" for note in note_figures(row))
    return f"{value_text(row)} {figure_of(row).interval}".rstrip() + notes


def note_pooling(rows: Sequence[JudgedGate]) -> str:
    """Why segments of a pooled gate are judged each by itself, and which, where others are pooled."""
    raw = [row for row in rows if row.found.not_pooled]
    if not raw:
        return ""
    some = any(row.found.method == POOLED for row in rows)
    return raw[0].found.not_pooled + (f" ({'; '.join(row.where for row in raw)})" if some else "")


NAMED = 3
"""Gates that a sentence names."""
UNSTEADY = "the threshold is within the error of the random draws: another seed may decide otherwise"


def notes_of(row: JudgedGate) -> tuple[str, ...]:
    """What is to be said of a judgment beside its figures, in every output."""
    return tuple(filter(None, (*note_figures(row), advise(row))))


def advise(row: JudgedGate) -> str:
    """Why a gate is undecided, and what would settle it; of the others, what the interval does not show."""
    return "; ".join(part for part in (_explain(row), UNSTEADY if row.judged.unsteady else "") if part)


def explain_undecided(rows: Sequence[JudgedGate]) -> str:
    """Why a verdict is INCONCLUSIVE: too few queries, or gates that more queries alone would not decide."""
    undecided = [row for row in rows if row.outcome == "undecided" and row.gate.level == "error"]
    several = len({row.run for row in rows}) > 1
    labels = [f"{row.run}: {label_gate(row.gate)}" if several else label_gate(row.gate) for row in undecided]
    of_rows = list(zip(labels, undecided, strict=True))
    others = list(dict.fromkeys(label for label, row in of_rows if not row.judged.needs_queries))
    if not others:
        return "No gate fails, but these queries are too few to tell whether all pass."
    few = {label for label, row in of_rows if row.judged.needs_queries}
    lack = f"these queries are too few for {plural(len(few), 'gate')}, and " if few else ""
    names = ", ".join(others[:NAMED]) + (f" and {len(others) - NAMED} more" if len(others) > NAMED else "")
    return f"No gate fails, but {lack}more queries alone would not decide {plural(len(others), 'gate')}: {names}."


def is_open(ruling: Ruling) -> bool:
    """Whether no number of queries is sure to decide, because the truth may be at the gate."""
    return ruling.fewest is not None and ruling.most is None


def more_text(ruling: Ruling) -> str:
    """How many more queries, as a range over what the truth may be: `about 46 to 190 more queries`."""
    fewest = round_up(ruling.fewest or ruling.more or 1)
    if is_open(ruling):
        return f"at least about {plural(fewest, 'more query', 'more queries')}"
    most = round_up(ruling.most or fewest)
    if most > fewest:
        return f"about {fewest:,} to {most:,} more queries"
    return ("" if fewest == 1 else "about ") + plural(fewest, "more query", "more queries")


def _explain(row: JudgedGate) -> str:
    if row.found.same_lists:
        return row.judged.why
    if row.judged.outcome != "undecided":
        return ""
    if row.judged.more is None:
        return row.judged.why
    if row.found.units < row.found.minimum:
        if row.found.independent:
            return f"{row.judged.more} more needed: fewer than {row.found.minimum} queries are not judged alone"
        return f"about {round_up(row.judged.more):,} more needed: {row.judged.why}"
    text = f"{more_text(row.judged)} would settle it"
    return text if row.judged.why == INSIDE else f"{row.judged.why}; {text}"
