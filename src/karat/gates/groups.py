"""What counts as a gate: each gate once for each run, over all queries or in all of its segments."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karat.gates.gate import Gate
    from karat.gates.judge import JudgedGate, Outcome

ORDER: tuple[Outcome, ...] = ("fail", "undecided", "pass")
"""The worst outcome first."""


@dataclass(frozen=True)
class GateGroup:
    """A gate for one run, over all queries or in each of its segments."""

    gate: Gate
    run: str
    outcome: Outcome
    """The worst of its rows."""
    rows: tuple[JudgedGate, ...]

    @property
    def warning(self) -> bool:
        """Whether it does not pass, and changes nothing."""
        return self.gate.level == "warn" and self.outcome != "pass"


def group_gates(rows: Iterable[JudgedGate]) -> tuple[GateGroup, ...]:
    """The rows of each gate and run; what fails comes first, then what is undecided, warnings last."""
    groups: dict[tuple[Gate, str], list[JudgedGate]] = {}
    for row in rows:
        groups.setdefault((row.gate, row.run), []).append(row)
    out = []
    for (gate, run), members in groups.items():
        outcomes = {r.judged.outcome for r in members}
        out.append(GateGroup(gate, run, next(o for o in ORDER if o in outcomes), tuple(members)))
    return tuple(sorted(out, key=lambda g: (g.gate.level == "warn", ORDER.index(g.outcome))))


def merge_gates(gates: Sequence[Gate]) -> tuple[Gate, ...]:
    """Each gate once, however often and in whatever unit it was written; one that is also written as an error decides.

    The first one's name stays, or else that of the next.
    """
    out: dict[str, Gate] = {}
    for gate in gates:
        first = out.setdefault(str(gate), gate)
        level = first.level if gate.level == first.level else "error"
        out[str(gate)] = replace(first, level=level, name=first.name or gate.name)
    return tuple(out.values())
