"""What is said of a plan: tables of text and a legend, which terminal and Markdown lay out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karat.gates.wording import label_gate
from karat.records import dataclass
from karat.results.figures import percent_text
from karat.results.words import segment_text, units_text
from karat.verbs.plan import Plan, needed_text

if TYPE_CHECKING:
    from karat.gates.plans import GateForecast


PLACE = "\0"
"""Stands for the segments in a statement until they are known."""


@dataclass(frozen=True)
class PlanSection:
    """A table with its title, and what follows from it."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[str, ...] = ()


WORK = "Work list: what would decide the undecided gates"


def chances(source: Plan) -> list[PlanSection]:
    """The chances of each gate against n."""
    return [_chances(gate, source.power) for gate in source.gates]


def sections(source: Plan) -> list[PlanSection]:
    """The chances of each gate against n, and the work list."""
    out = chances(source)
    if source.work:
        rows = tuple((label_gate(item.gate), item.run, item.statement) for item in source.work)
        out.append(PlanSection(WORK, ("gate", "run", "work"), rows))
    return out


def work_by_gate(source: Plan) -> dict[str, list[tuple[str, str]]]:
    """The work list by gate: the runs, and what is to be done for each of them.

    What several segments of a gate ask for alike is said once, and so is what several runs do.
    """
    out: dict[str, list[tuple[str, str]]] = {}
    for gate in dict.fromkeys(label_gate(item.gate) for item in source.work):
        items = [item for item in source.work if label_gate(item.gate) == gate]
        segments: dict[tuple[str, str], list[str]] = {}
        for item in items:
            segments.setdefault((item.run, item.state(PLACE)), []).append(segment_text(item.segment))
        runs: dict[str, list[str]] = {}
        for (run, work), names in segments.items():
            where = (
                "" if names == [""] else f" where {names[0]}" if len(names) == 1 else f" in each of {'; '.join(names)}"
            )
            runs.setdefault(work.replace(PLACE, where), []).append(run)
        out[gate] = [(", ".join(names), work) for work, names in runs.items()]
    return out


def _chances(gate: GateForecast, power: float) -> PlanSection:
    """One row per n, and for each truth the chances of SHIP, BLOCK and INCONCLUSIVE."""
    rows = tuple(
        (f"{place[0].n:,}", *(" / ".join(percent_text(x) for x in (c.ship, c.block, c.inconclusive)) for c in place))
        for place in zip(*(truth.curve for truth in gate.truths), strict=True)
    )
    lines = tuple(needed_text(gate, truth, power) for truth in gate.truths)
    heads = (gate.each, *(truth.label for truth in gate.truths))
    return PlanSection(f"{label_gate(gate.gate)} on {gate.run}", heads, rows, lines)


def legend(source: Plan) -> tuple[str, ...]:
    """What the figures mean, one line each."""
    out = []
    for gate in source.gates[:1]:
        values = units_text(gate.units, "query" if gate.from_queries else gate.unit)
        out.append(
            f"chances of SHIP / BLOCK / INCONCLUSIVE of this gate, simulated from the values of {values}, "
            "moved to each truth, and judged as karat check judges"
        )
        if gate.unit == "conversation":
            size = (
                f"are made of {gate.turns:g} of these"
                if gate.from_queries
                else f"have {gate.turns:.1f} queries on average"
            )
            alike = f"correlate by {round(gate.icc, 2):g}{', as stated' if gate.from_queries else ''}"
            out.append(f"conversations {size}; the values of one conversation {alike}")
    if any(item.ruling.needs_queries for item in source.work):
        out.append(
            f"work list: a chance of {percent_text(source.power)} of a decision, with the truth at the far or the near "
            f"end of its {percent_text(0.5)} interval"
        )
    return tuple(out)
