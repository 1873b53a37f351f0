"""Numbers of gates with their units, and whether a gate can decide anything."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from decimal import Decimal, InvalidOperation, Overflow
from typing import TYPE_CHECKING, Any

from karat.errors import UsageError, nearest, shown
from karat.metrics.grammar import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karat.gates.gate import Gate

_NUMBER = re.compile(
    r"\s*(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<unit>[%a-zA-Zµμ]+|\s+(?:%|[uµμm]?s|min)(?=\s|$))?(?=\s|$)"
)
_TIMES = {
    "us": Decimal("0.001"),
    "µs": Decimal("0.001"),
    "μs": Decimal("0.001"),
    "ms": Decimal(1),
    "s": Decimal(1000),
    "min": Decimal(60_000),
}
_AFTER = ("where", "for", "at", "on")
"""The first words of what may follow a number."""


def unit_of(metric: str) -> str:
    """The unit of a metric's values: ms for latencies, none for shares."""
    return parse(metric).metric.unit


def leading(
    rest: str, metric: str, text: str, *, margin: bool = False, after: Sequence[str] = ()
) -> tuple[float, str, bool]:
    """The number with its unit at the start of this text, what follows it, and whether it is a share of another.

    `after` are words that may follow it beside those of clauses.
    """
    match = _NUMBER.match(rest)
    if match is None:
        words = rest.split()
        raise UsageError(f"gate {text!r}: expected a number, found {shown(words[0] if words else None)}")
    unit, others = (match["unit"] or "").strip(), rest[match.end() :]
    following = re.match(r"\s+([A-Za-zµμ]+)(?=\s|$)", others)
    if not unit and unit_of(metric) and following and nearest(following[1], (*_AFTER, *after)) is None:
        unit = following[1]  # no clause begins so: it was meant as a unit
    value, relative = _scaled(match["number"], unit, metric, text, margin=margin)
    return value, others, relative


def given(value: Any, metric: str, text: str, *, margin: bool) -> tuple[float, bool]:
    """A YAML number, or a text with a unit."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise UsageError(f"gate {{{text}}}: expected a number, found {shown(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"gate {{{text}}}: expected a finite number, found {value}")
    match = _NUMBER.fullmatch(str(value))
    if match is None:
        raise UsageError(f"gate {{{text}}}: expected a number such as 0.9 or 60ms, found {shown(value)}")
    return _scaled(match["number"], (match["unit"] or "").strip(), metric, text, margin=margin)


def _scaled(number: str, unit: str, metric: str, text: str, *, margin: bool) -> tuple[float, bool]:
    """A number in the metric's own unit, and whether it is a share of another."""
    try:
        exact = Decimal(number)
    except InvalidOperation:
        raise UsageError(f"gate {text!r}: expected a number, found {shown(number)}") from None
    if margin and exact < 0:
        raise UsageError(f"gate {text!r}: a margin must be a number from 0, found {number}")
    factor = _factor(unit, metric, text, margin=margin)
    try:
        value = float(exact * factor)
    except Overflow:
        value = math.inf
    if not math.isfinite(value):
        raise UsageError(f"gate {text!r}: expected a finite number, found {number}{unit}")
    return value, unit == "%" and margin


def _factor(unit: str, metric: str, text: str, *, margin: bool) -> Decimal:
    own = unit_of(metric)
    if unit == "%":
        if own and not margin:
            raise UsageError(f"gate {text!r}: {metric} is in {own}, found a percentage; write a number with {own}")
        return Decimal("0.01")
    if unit in _TIMES and own == "ms":
        return _TIMES[unit]
    if unit and unit != own:
        expected = f"a number in {own}" if own else "a bare number or a percentage"
        expected += " (or us, s, min)" if own == "ms" else ""
        near = nearest(unit, _TIMES) if own == "ms" else None
        hint = f"; did you mean {near!r}?" if near else ""
        raise UsageError(f"gate {text!r}: {metric} takes {expected}, found the unit {unit!r}{hint}")
    return Decimal(1)


def check_decides(gate: Gate, text: str) -> None:
    """Refuse a gate that no run could fail, or none could pass, whatever was measured."""
    measure = parse(gate.metric)
    low, high = measure.metric.bounds
    top = math.inf if high is None or measure.aggregate == "sum" else high
    if gate.written_region.low > gate.written_region.high:
        raise UsageError(f"gate {text!r}: {gate.value:g} is above {gate.upper:g}; write the smaller number first")
    hopeless = next((end for end in gate.ends if _never_passes(end, low, top)), None)
    if hopeless is None and not all(_never_fails(end, low, top) for end in gate.ends):
        return
    scope = f"{gate.metric} is from {low:g} " + (f"to {top:g}" if math.isfinite(top) else "on")
    number = gate.value if gate.upper is None or hopeless is None else hopeless.threshold
    amount = f"{number * 100:g}%" if gate.relative else f"{number:g}"
    # 85 of a share was meant as 85%.
    share = (low, top) == (0, 1) and 1 < number <= 100 and not gate.relative
    hint = f"did you mean {number:g}%?" if share else "write a threshold between, or leave the gate out"
    why = "no run can pass" if hopeless is not None else "every run passes"
    raise UsageError(f"gate {text!r}: {scope}, found {amount}: {why}; {hint}")


def _never_fails(gate: Gate, low: float, top: float) -> bool:
    if gate.relative and gate.scale == "difference":
        return low >= 0 and math.isfinite(gate.region.low) and gate.factor <= 0
    lowest, highest = _range(gate, low, top)
    return gate.region.above_low(lowest) and gate.region.below_high(highest)


def _never_passes(gate: Gate, low: float, top: float) -> bool:
    if gate.relative and gate.scale == "difference":
        return low >= 0 and math.isfinite(gate.region.high) and gate.factor < 0
    lowest, highest = _range(gate, low, top)
    return not gate.region.above_low(highest) or not gate.region.below_high(lowest)


def _range(gate: Gate, low: float, top: float) -> tuple[float, float]:
    """The values, or changes, that there can be."""
    if gate.scale == "ratio":
        return 0.0, math.inf
    return (low, top) if gate.against is None else (low - top, top - low)


def rises(gate: Gate) -> bool:
    """Whether more of the gate's metric is better (or nobody said)."""
    return parse(gate.metric).metric.higher_is_better is not False


def describe_directions(gates: Iterable[Gate]) -> list[str]:
    """The gates that pass where the value is bad, in words."""
    texts = dict.fromkeys(describe_direction(replace(gate, end=None)) for gate in gates)
    return [text for text in texts if text]


def describe_direction(gate: Gate) -> str:
    """That a gate only asks for a worse value, which is seldom meant; empty where it does not.

    It is no error: an upper bound on recall finds gold that leaked, or a control run that is too good.
    """
    better = parse(gate.metric).metric.higher_is_better
    ends = gate.written_region.halves
    if better is None or gate.against is not None or len(ends) > 1 or math.isfinite(ends[0].low) == better:
        return ""
    op, way = ends[0].op, "higher" if better else "lower"
    turned = op.translate(str.maketrans("<>", "><"))
    return (
        f"gate '{gate}' passes where the value is bad: {way} {gate.metric} is better; write {turned} if that is meant"
    )
