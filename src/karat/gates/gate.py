"""A gate: which figure is required to be what, of which run and queries, and its canonical text."""

from __future__ import annotations

import re
from dataclasses import field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from karat.gates.units import rises, unit_of
from karat.metrics.grammar import parse
from karat.model.field_group import read_group
from karat.records import dataclass
from karat.results.values import statistic_of
from karat.results.words import BASELINE

if TYPE_CHECKING:
    from karat.gates.kinds import GateKind, Region, Slot
    from karat.results.by_judge import Basis
    from karat.stats.aggregates import ChangeScale


Level = Literal["error", "warn"]
POOLED_MARK = "(pooled)"
KEYWORDS = {"where", "for", "at", "on", "and", "of", POOLED_MARK}


@dataclass(frozen=True)
class Gate:
    """One condition to ship. `value` is the threshold, or the margin of a comparison, in the metric's own unit."""

    metric: str
    kind: GateKind
    value: float
    """The number that is written first."""
    against: str | None = None
    """The run that it is compared with: `baseline`, or a run's name."""
    relative: bool = False
    """Whether the margin is a share of the baseline's value."""
    where: tuple[tuple[str, str], ...] = ()
    every: tuple[str, ...] = ()
    least: int | None = None
    """With `every`: segments of fewer queries are left out, and said to be."""
    at_mean: bool = False
    """Compare the point, not the end of the interval."""
    run: str | None = None
    """Judge only this run."""
    level: Level = "error"
    name: str = ""
    any_depth: bool = False
    """Judge lists that end above the cutoff, or at another depth than the baseline's, as they are."""
    upper: float | None = None
    """The second number, of kinds that take two."""
    pooled: bool = False
    """With `every`: judge the partially pooled estimates of the segments."""
    judged: Basis | None = None
    """Whether the figure is that of the gold alone, of gold + judge, or corrected; None for the default."""
    spelling: str = field(default="", compare=False, repr=False)
    """The metric as it was written: under the conventions of another tool it may mean another one."""
    end: Region | None = field(default=None, compare=False, repr=False)
    """The half of the accepted values that is judged; None for all of them."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the queries that the gate slices by."""
        return (*(f for f, _ in self.where), *self.every)

    @property
    def ends(self) -> tuple[Gate, ...]:
        """The gate at each end of its region: it passes where all of them do, and fails where one does."""
        return tuple(replace(self, end=half) for half in self.written_region.halves)

    @property
    def written_region(self) -> Region:
        """The values, changes or shares of the baseline that it accepts, as its numbers say."""
        numbers = (self.value,) if self.upper is None else (self.value, self.upper)
        return self.end or self.kind.region(*numbers, rises(self))

    @property
    def region(self) -> Region:
        """The values, or changes from the baseline, that it accepts."""
        region = self.written_region
        if self.scale == "ratio":
            return region.move(1.0)
        return region.at_zero() if self.relative else region

    @property
    def scale(self) -> ChangeScale:
        """Whether a change from the baseline is a difference or a ratio."""
        return "difference" if self.against is None else statistic_of(parse(self.metric)).change

    @property
    def factor(self) -> float:
        """What the baseline is multiplied by: a margin of 2% asks whether candidate − .98 × baseline is at least 0.

        A ratio is compared with the margin itself. Each end of a region has a factor of its own.
        """
        if not self.relative or self.scale == "ratio":
            return 1.0
        return 1.0 + self.written_region.bounds[0]

    @property
    def threshold(self) -> float:
        """The end of the region; the lower one where it has two."""
        return self.region.bounds[0]

    @property
    def op(self) -> str:
        """The comparison of the value, or of the difference, with the threshold."""
        return self.region.op

    def __str__(self) -> str:
        return " ".join((self.metric, self._condition(), *self._clauses()))

    def _condition(self) -> str:
        slots = (slot for slot in self.kind.slots if self.value or not slot.optional)
        return " ".join((self.kind.name, *(f"{slot.word} {self._written(slot)}".lstrip() for slot in slots)))

    def _written(self, slot: Slot) -> str:
        if slot.name == "run":
            return quote_name(self.against or BASELINE)
        number = self.value if slot.name != "high" or self.upper is None else self.upper
        return f"{_printed(number, 100)}%" if self.relative else f"{_printed(number)}{unit_of(self.metric)}"

    @property
    def condition(self) -> str:
        """The queries that it is about: `wording = other and language = de`; empty for all."""
        return " and ".join(map(_condition_text, self.where))

    def _clauses(self) -> list[str]:
        out = []
        if self.run is not None:
            out.append(f"on {quote_name(self.run)}")
        if self.where:
            out.append(f"where {self.condition}")
        if self.every:
            least = f" of at least {self.least}" if self.least is not None else ""
            pooled = f" {POOLED_MARK}" if self.pooled else ""
            out.append("for every " + ", ".join(map(quote_name, self.every)) + least + pooled)
        if self.at_mean:
            out.append("at the mean")
        if self.any_depth:
            out.append("at any depth")
        if self.judged is not None:
            out.append(f"judged {self.judged}")
        return out


def _condition_text(pair: tuple[str, str]) -> str:
    field, value = pair
    return field if read_group(field) is not None else f"{quote_name(field)} = {quote_name(value)}"


def _printed(value: float, times: int = 1) -> str:
    """A number in plain digits, as few as name it."""
    exact = (Decimal(repr(value)) * times).normalize()
    return f"{exact:f}"


def quote_name(text: str) -> str:
    """A name or value as it can be read back: in quotation marks where it needs them."""
    if re.fullmatch(r"""[^\s=,"'\\!<>]+""", text) and text.lower() not in KEYWORDS:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
