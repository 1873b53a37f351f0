"""What the queries are a sample of: weights, conversations, segments and their queries, and how intervals are found."""

from __future__ import annotations

import collections.abc
import itertools
import math
import re
import unicodedata
from dataclasses import field
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import InputError, UsageError, nearest, shown
from karat.model.field_group import INSIDE, OUTSIDE, FieldGroup, read_group
from karat.model.intervals import Intervals
from karat.read.columns import number_of
from karat.read.problems import Problems
from karat.read.query_fields import day_field, read_field
from karat.records import dataclass
from karat.results.figures import percent_text
from karat.results.words import condition_text, segment_text
from karat.stats.aggregates import IntervalChoice
from karat.stats.defaults import CONFIDENCE, MIN_SEGMENT, RESAMPLES, SEED
from karat.stats.resample import Units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.model.docs import Docs, Fields
    from karat.model.queries import Queries

DEFAULTS = Intervals()
NONE = "(none)"
GOLD = "gold."
ADDED = "added"
"""The field with the date on which a query joined the set."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A slice of the queries: the values of its fields, and which queries it holds."""

    by: Mapping[str, str]
    rows: NDArray[np.int64]

    @property
    def name(self) -> str:
        return segment_text(self.by, "=")


@dataclass(frozen=True)
class Sampling:
    """How sure: the choices behind intervals, and what is known of each query."""

    confidence: float = CONFIDENCE
    method: str = "auto"
    resamples: int = RESAMPLES
    seed: int = SEED
    minimum: int = MIN_SEGMENT
    by: tuple[tuple[str, ...], ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    conversations: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Mapping[str, str | Sequence[str]]] = field(default_factory=dict)
    """The value of each field that queries are sliced by, or several: {field: {query: value}}."""
    of_gates: tuple[tuple[str, ...], ...] = ()
    """Those of `by` that only gates look at: they are in no table."""
    added: Mapping[str, float] | None = None
    """The day on which each query was added, where intervals hold at every look."""

    @property
    def tables(self) -> tuple[tuple[str, ...], ...]:
        """The fields, or crosses of fields, that somebody asked to see."""
        return tuple(names for names in self.by if names not in self.of_gates)

    @property
    def sequential(self) -> bool:
        """Whether intervals hold at every look."""
        return self.added is not None

    @property
    def level(self) -> str:
        """The level of the intervals as outputs name it; empty where there are none."""
        return "" if self.method == "none" else percent_text(self.confidence)

    def choice(self, threads: int = 1) -> IntervalChoice:
        """How intervals are found."""
        return IntervalChoice(self.confidence, self.method, self.resamples, self.seed, threads)

    def units(self, query_ids: Sequence[str]) -> Units:
        """What is resampled: the query, or the conversation it belongs to."""
        clusters = [self.conversations.get(q) for q in query_ids] if self.conversations else None
        weights = [self.weights.get(q, 1.0) for q in query_ids] if self.weights else None
        days = None if self.added is None else [self.added.get(q, math.inf) for q in query_ids]
        return Units.of(len(query_ids), clusters, weights, days)

    def segments(self, query_ids: Sequence[str]) -> tuple[Segment, ...]:
        """The slices of these queries, by each field or cross of fields; values in order."""
        memo: dict[int, tuple[Sequence[str], tuple[Segment, ...]]] = self.__dict__.setdefault("_slices", {})
        if id(query_ids) not in memo:  # the ids are kept too, so that no other list can take their place
            memo[id(query_ids)] = (query_ids, self._sliced(query_ids))
        return memo[id(query_ids)][1]

    def _sliced(self, query_ids: Sequence[str]) -> tuple[Segment, ...]:
        out = []
        for names in self.by:
            members: dict[tuple[str, ...], list[int]] = {}
            for i, q in enumerate(query_ids):
                mine = (self.fields[n].get(q, NONE) for n in names)
                for values in product(*((v,) if isinstance(v, str) else v for v in mine)):
                    members.setdefault(values, []).append(i)
            for values in sorted(members):
                out.append(Segment(dict(zip(names, values, strict=True)), np.array(members[values], dtype=np.int64)))
        return tuple(out)


def sampling(
    queries: Queries | None,
    intervals: Intervals = DEFAULTS,
    *,
    docs: Docs | None = None,
    relevant: Callable[[], Mapping[str, Sequence[str]]] = dict,
) -> Sampling:
    """The choices, with the fields of the queries that they need.

    `gold.source` slices by a field of the docs that are relevant (`relevant` names them for each query).
    """
    names = split_groups(intervals.by)
    table = queries.fields if queries is not None else {}
    fields: dict[str, Mapping[str, str | Sequence[str]]] = {}
    for f in dict.fromkeys(f for group in names for f in group):
        fields[f] = _gold_values(f, docs, relevant) if f.startswith(GOLD) else _values(f, queries)
    return Sampling(
        intervals.confidence,
        intervals.method,
        intervals.resamples,
        intervals.seed,
        intervals.min_segment,
        names,
        _weights(queries),
        {q: str(f["conversation"]) for q, f in table.items() if f.get("conversation") is not None},
        fields,
        added=_days_added(queries, intervals) if intervals.sequential else None,
    )


def _days_added(queries: Queries | None, intervals: Intervals) -> dict[str, float]:
    """The day on which each query was added, of those that say it."""
    if intervals.method != "auto":
        raise UsageError(f"sequential intervals have a method of their own; leave out method={intervals.method!r}")
    if queries is None:
        raise UsageError(f"sequential needs a table of queries with the field {ADDED!r} (queries=, --queries FILE)")
    return day_field(queries, ADDED)


def refuse_undated(queries: Queries, query_ids: Iterable[str], days: Mapping[str, float]) -> None:
    """Refuse queries without the date that sequential intervals take them in the order of."""
    problems = Problems(queries.source)
    undated = [q for q in query_ids if q not in days]
    lines = [q for q in undated if q in queries.fields]
    strangers = [q for q in undated if q not in queries.fields]
    for ids, one, several in (
        (lines, f"lacks {ADDED!r}", f"lack {ADDED!r}"),
        (strangers, "is not in this table", "are not in this table"),
    ):
        if ids:
            lack = one if len(ids) == 1 else f"and {len(ids) - 1:,} more {several}"
            problems.add(
                queries.lines.get(ids[0]),
                f"query {shown(ids[0])} {lack}; sequential intervals need the date on which a query joined the set, "
                f"such as {ADDED}: 2025-04-01",
            )
    problems.check()


def _gold_values(
    name: str, docs: Docs | None, relevant: Callable[[], Mapping[str, Sequence[str]]]
) -> dict[str, Sequence[str]]:
    """The values that a field has in the relevant docs of each query; a query may be in several segments."""
    if docs is None:
        raise UsageError(f"by={name!r} needs a table of docs with that field (docs=, --docs FILE)")
    field = name.removeprefix(GOLD)
    if not docs.field(field):
        raise UsageError(f"{docs.source}: no doc has a field {field!r}")
    out: dict[str, Sequence[str]] = {}
    for q, ids in relevant().items():
        values = [docs.value(d, field) for d in ids]
        out[q] = tuple(sorted({str(v) for v in values if v is not None})) or (NONE,)
    return out


def split_groups(by: str | Sequence[str | Sequence[str]] | None) -> tuple[tuple[str, ...], ...]:
    """`language,difficulty` is a cross of two fields; a list is one slicing after the other."""
    if by is not None and not isinstance(by, (str, collections.abc.Sequence)):
        raise UsageError(f"by must name fields of the queries, such as 'language', found {by!r}")
    fields = [] if by is None else [by] if isinstance(by, str) else list(by)
    groups = [split_fields(g) if isinstance(g, str) else tuple(g) for g in fields]
    if any(not g for g in groups):
        raise UsageError(f"by must name fields of the queries, such as 'language', found {by!r}")
    return tuple(dict.fromkeys(groups))


def split_fields(text: str) -> tuple[str, ...]:
    """The fields that a text names; a comma inside brackets separates values, not fields."""
    return tuple(p.strip() for p in re.split(r",(?![^(]*\))", text) if p.strip())


def _weights(queries: Queries | None) -> dict[str, float]:
    return {} if queries is None else read_field(queries, "weight", _weight, "must be a number from 0")


def _weight(value: object) -> float | None:
    number = number_of(value)
    return number if number is not None and number >= 0 else None


def refuse_weightless(queries: Queries, query_ids: Iterable[str], weights: Mapping[str, float]) -> None:
    """Refuse queries that all count nothing: no mean over them is defined."""
    ids = list(query_ids)
    if ids and all(weights.get(q) == 0 for q in ids):
        every = all(weights.get(q) == 0 for q in queries.fields)
        which = "query" if every else f"query evaluated ({len(ids):,} of {len(queries):,})"
        raise InputError(
            f"{queries.source}: the weight of every {which} is 0, which leaves every mean undefined; "
            "give at least one a weight above 0, or leave out the field 'weight'"
        )


def _values(name: str, queries: Queries | None) -> Mapping[str, str | Sequence[str]]:
    """One field of all queries as text; a list holds several values, each a segment of its own.

    `field:4` cuts numbers into that many quantiles, `field in (a, b)` takes values together: yes or no.
    """
    group, plain = read_group(name), plain_field(name)
    _, colon, parts = ("", "", "") if group is not None else name.partition(":")
    known = sorted({f for fields in (queries.fields if queries else {}).values() for f in fields})
    if queries is None:
        raise UsageError(f"by={name!r} needs a table of queries with that field (queries=, --queries FILE)")
    if plain not in known:
        near = nearest(plain, known)
        names = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
        hint = f"; did you mean {near!r}?" if near else ""
        raise UsageError(f"{queries.source}: no query has a field {plain!r}; they have {names or 'no fields'}{hint}")
    values = queries.field(plain)
    if group is not None:
        return _grouped(group, values, queries.source)
    if not colon:
        return {q: _texts(v) for q, v in values.items()}
    return _quantiles(name, plain, parts, values)


def plain_field(name: str) -> str:
    """The field behind a name that slices queries: `rank` of `rank:4`, `language` of `language in (a, b)`."""
    group = read_group(name)
    return group.field if group is not None else name.partition(":")[0]


def _grouped(group: FieldGroup, values: Fields, source: str) -> dict[str, str]:
    texts = {q: _texts(v) for q, v in values.items()}
    own = {q: (text,) if isinstance(text, str) else text for q, text in texts.items()}
    known = {text for mine in own.values() for text in mine}
    if absent := describe_absent_value(((group.field, value) for value in group.values), {group.field: known}):
        raise UsageError(f"{source}: {absent}")
    members: set[str] = set()
    for value in group.values:  # as it is written, then in any case
        members |= {value} & known or {text for text in known if text.casefold() == value.casefold()}
    return {q: OUTSIDE if members.isdisjoint(mine) else INSIDE for q, mine in own.items()}


def describe_absent_value(pairs: Iterable[tuple[str, str]], known: Mapping[str, Iterable[str]]) -> str:
    """The first field and value that no query has, in any case, with the values that there are; "" if there is none."""
    for name, value in pairs:
        values = sorted(known[name])
        if value.casefold() in map(str.casefold, values):
            continue
        near, some = nearest(value, values), ", ".join(map(shown, values[:8])) + (", …" if len(values) > 8 else "")
        hint = f"did you mean {near!r}?" if near else f"there are {some}"
        return f"no query has {condition_text(name, value)}; {hint}"
    return ""


def values_of(field: Fields) -> set[str]:
    """The values of one field of all queries, as text."""
    texts = map(_texts, field.values())
    return {text for mine in texts for text in ((mine,) if isinstance(mine, str) else mine)}


def _texts(value: object) -> str | tuple[str, ...]:
    """The value of a field as text; of a list each value once. What looks the same is the same segment."""
    if not isinstance(value, (list, tuple)):
        return " ".join(unicodedata.normalize("NFC", str(value)).split())
    return tuple(sorted({str(_texts(one)) for one in value if one is not None})) or (NONE,)


def _quantiles(name: str, plain: str, parts: str, values: Fields) -> dict[str, str]:
    if not parts.isdecimal() or int(parts) < 2:
        raise UsageError(f"by={name!r}: expected a number of quantiles from 2 after the colon, such as '{plain}:4'")
    numbers = {q: number for q, value in values.items() if (number := number_of(value)) is not None}
    if len(numbers) < len(values):
        raise UsageError(f"by={name!r}: quantiles need numbers, and field {plain!r} holds other values")
    cuts = np.quantile(list(numbers.values()), np.linspace(0, 1, int(parts) + 1)[1:-1])
    place = {q: int(np.searchsorted(cuts, v, side="left")) for q, v in numbers.items()}
    edges = [f"{c:g}" for c in cuts]
    labels = [f"≤ {edges[0]}", *(f"> {a} to ≤ {b}" for a, b in itertools.pairwise(edges)), f"> {edges[-1]}"]
    return {q: f"{i + 1}: {labels[i]}" for q, i in place.items()}
