"""The kinds of gates: how each is written in text and in `karat.yaml`, and which values it accepts."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SAME = 1e-12
"""Relative: values this close are equal, as they are in files."""


def is_same(a: float, b: float) -> bool:
    """Whether two values are equal but for rounding."""
    return math.isfinite(a) and abs(a - b) <= SAME * max(1.0, abs(a), abs(b))


@dataclass(frozen=True)
class Region:
    """The values that a gate accepts: from `low` to `high`; an `open` region leaves out its ends."""

    low: float = -math.inf
    high: float = math.inf
    open: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value is accepted."""
        return self.above_low(value) and self.below_high(value)

    def above_low(self, value: float) -> bool:
        """Whether a value satisfies the lower end."""
        return self.low == -math.inf or (not self.open if is_same(value, self.low) else value > self.low)

    def below_high(self, value: float) -> bool:
        """Whether a value satisfies the upper end."""
        return self.high == math.inf or (not self.open if is_same(value, self.high) else value < self.high)

    @property
    def bounds(self) -> tuple[float, ...]:
        """The ends that bound it."""
        return tuple(end + 0.0 for end in (self.low, self.high) if math.isfinite(end))  # a margin of 0 is no −0

    def nearest(self, value: float) -> float:
        """The end that is nearest to a value."""
        return min(self.bounds, key=lambda end: abs(end - value))

    def move(self, by: float) -> Region:
        """The same region with its ends moved by this much."""
        return replace(self, low=self.low + by, high=self.high + by)

    def at_zero(self) -> Region:
        """The same region with its ends moved to 0."""
        low, high = (0.0 if math.isfinite(end) else end for end in (self.low, self.high))
        return Region(low, high, self.open)

    @property
    def halves(self) -> tuple[Region, ...]:
        """A region for each of its ends."""
        halves = (replace(self, high=math.inf), replace(self, low=-math.inf))
        return tuple(half for half in halves if half.bounds)

    @property
    def op(self) -> str:
        """The comparison with its end, as JSON shows it; the lower one where it has two."""
        return (">" if math.isfinite(self.low) else "<") + ("" if self.open else "=")


class Slot(NamedTuple):
    """One thing that is written in a gate: a number, or the run that it is compared with."""

    name: Literal["value", "low", "high", "margin", "run"]
    word: str
    """The word before it, which is its key in `karat.yaml`; empty for the first, whose key is that of the kind."""
    optional: bool


NUMBERS = ((), ("value",), ("margin",), ("low", "high"))
"""The numbers that a gate can hold, in the order in which they are written."""
_SLOT = re.compile(r"(?P<optional>\[)?(?:(?P<word>\w+) )?\{(?P<name>\w+)\}\]?\s*")


@dataclass(frozen=True)
class GateKind:
    """One kind of condition: all that is known about it."""

    name: str
    """Its canonical spelling, which a gate prints."""
    key: str
    """Its key in a mapping of `karat.yaml`."""
    help: str
    region: Callable[..., Region]
    """From each number in the gate, and whether higher is better, to the accepted values (or changes from a run)."""
    limit: str
    """What it asks for in words, with {amount}, {upper} (the second number), {gain} (rise or fall, whichever is
    better) and {loss}."""
    limit_without_margin: str = ""
    spellings: tuple[str, ...] = ()
    form: str = "{value}"
    """What follows its name: {value}, {low} and {high} are numbers, {margin} is one that may be a percentage, {run} a
    run; what stands in brackets may be left out."""

    def __post_init__(self) -> None:
        names = tuple(slot.name for slot in self.slots)
        if tuple(name for name in names if name != "run") not in NUMBERS or names.count("run") > 1:
            raise ValueError(
                f"GateKind {self.name!r}: a form holds {{value}}, {{margin}}, or {{low}} and {{high}}, and at most one "
                f"{{run}}; found {self.form!r}"
            )

    @property
    def slots(self) -> tuple[Slot, ...]:
        """What is written after the name, in order."""
        return tuple(
            Slot(each["name"], each["word"] or "", each["optional"] is not None)  # type: ignore[arg-type]
            for each in _SLOT.finditer(self.form)
        )

    @property
    def compares(self) -> bool:
        """Whether a run is compared with another."""
        return any(slot.name == "run" for slot in self.slots)


def index_kinds(kinds: Iterable[GateKind], names: Callable[[GateKind], Iterable[str]]) -> dict[str, GateKind]:
    """Kinds by these names; a name that two of them have is an error."""
    out: dict[str, GateKind] = {}
    for kind in kinds:
        for name in names(kind):
            if name in out:
                raise ValueError(
                    f"GateKind {kind.name!r}: {name!r} is taken by {out[name].name!r}; a kind needs a name, "
                    "a key and spellings of its own"
                )
            out[name] = kind
    return out


def _no_worse(margin: float, rises: bool) -> Region:
    return Region(low=-margin) if rises else Region(high=margin)


def _better(margin: float, rises: bool) -> Region:
    region = Region(low=margin) if rises else Region(high=-margin)
    return replace(region, open=margin == 0)


_A_RUN = "baseline, or the name of a run."
KINDS = (
    GateKind(
        ">=",
        key="min",
        help="The lower bound of the interval must be at least this.",
        region=lambda value, _: Region(low=value),
        limit="at least {amount} is required",
        spellings=("≥", "at least"),
    ),
    GateKind(
        "<=",
        key="max",
        help="The upper bound must be at most this, such as 60ms.",
        region=lambda value, _: Region(high=value),
        limit="at most {amount} is allowed",
        spellings=("≤", "at most"),
    ),
    GateKind(
        ">",
        key="above",
        help="The lower bound must be above this.",
        region=lambda value, _: Region(low=value, open=True),
        limit="more than {amount} is required",
        spellings=("above",),
    ),
    GateKind(
        "<",
        key="below",
        help="The upper bound must be below this.",
        region=lambda value, _: Region(high=value, open=True),
        limit="less than {amount} is required",
        spellings=("below",),
    ),
    GateKind(
        "no worse than",
        key="no_worse_than",
        help=_A_RUN,
        region=_no_worse,
        limit="it may {loss} by at most {amount}",
        limit_without_margin="it must not {loss}",
        spellings=("not worse than",),
        form="{run} [by {margin}]",
    ),
    GateKind(
        "better than",
        key="better_than",
        help=_A_RUN,
        region=_better,
        limit="it must {gain} by at least {amount}",
        limit_without_margin="it must {gain}",
        form="{run} [by {margin}]",
    ),
)
"""Every kind. A longer spelling is tried before a shorter one."""
