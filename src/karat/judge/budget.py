"""What judging may cost: calls, tokens, money. No call begins that could pass a limit."""

from __future__ import annotations

import threading

from karat.errors import UsageError
from karat.judge.opinions import Usage
from karat.records import dataclass


class BudgetExhausted(Exception):
    """A limit is reached; says which."""


@dataclass(frozen=True)
class BudgetLimits:
    """The most that may be used; None for no limit. Prices are per million tokens."""

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    price_in: float = 0.0
    price_out: float = 0.0

    def __post_init__(self) -> None:
        if self.cost is not None and not self.price_in + self.price_out:
            raise UsageError("a limit on the cost needs the price of a million tokens: --price INPUT,OUTPUT")

    def price(self, usage: Usage) -> float:
        """What these tokens cost."""
        return (usage.input * self.price_in + usage.output * self.price_out) / 1e6

    @property
    def needs_usage(self) -> bool:
        return self.tokens is not None or self.cost is not None


class Budget:
    """Counts what several threads use. Each call in flight counts as much as the largest one so far."""

    def __init__(self, limits: BudgetLimits) -> None:
        self.limits = limits
        self.calls = 0
        self.usage = Usage()
        self._largest = Usage()
        self._open: set[int] = set()
        self._lock = threading.Lock()

    @property
    def cost(self) -> float:
        return self.limits.price(self.usage)

    def take(self) -> None:
        """Begin a call, or raise `BudgetExhausted`."""
        limits, me = self.limits, threading.get_ident()
        with self._lock:
            if limits.calls is not None and self.calls >= limits.calls:
                raise BudgetExhausted(f"the limit of {limits.calls:,} calls is reached")
            flights = len(self._open - {me}) + 1
            if limits.tokens is not None and self.usage.total + flights * self._largest.total > limits.tokens:
                raise BudgetExhausted(f"the limit of {limits.tokens:,} tokens is reached")
            if limits.cost is not None and self.cost + flights * limits.price(self._largest) > limits.cost:
                raise BudgetExhausted(f"the limit of {limits.cost:g} in cost is reached")
            self.calls += 1
            self._open.add(me)

    def settle(self, usage: Usage | None) -> None:
        """End a call that used these tokens."""
        with self._lock:
            self._open.discard(threading.get_ident())
            if usage is not None:
                self.usage += usage
                self._largest = Usage(max(self._largest.input, usage.input), max(self._largest.output, usage.output))
