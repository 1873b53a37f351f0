"""Large run logs where their final lists matter, and numbers beside them: columns, each line decoded once.

Lines that are regular are decoded many at a time into typed items. One that is not is read by `read/run_log.py`; where
that has a complaint, the whole log is, so that its errors are the same for logs of all sizes.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property, lru_cache
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from karat.model.dates import day_of
from karat.model.log_names import AMOUNTS, SKIPPED, STAGES
from karat.model.log_steps import mark_steps
from karat.model.policy import parent_of
from karat.model.run import Run
from karat.model.run_log import FACTS, Amount, Id, has_gaps, merge_facts, ordered_items
from karat.model.strings import Packed, hashed
from karat.read.files import line_blocks
from karat.read.json_lines import NOT_JSON, count_keys, repeated_in
from karat.read.log_blocks import AmountColumns, LogBlock, LogColumns, Spool
from karat.read.log_lists import describe_gaps
from karat.read.run_log import decode_line, trace_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from karat.model.policy import Policy
    from karat.model.strings import Words

BLOCK = 30_000
"""Results of a block."""
SCORES, DATES = "item_scores", "doc_version"
READABLE = frozenset((*AMOUNTS, SCORES, DATES))
"""What can be read beside the lists."""

_Optional = msgspec.UnsetType
_UNSET, _NONE = msgspec.UNSET, msgspec.Raw(b"")


class _Item(msgspec.Struct, gc=False):
    """A result with regular values."""

    chunk_id: Id | _Optional = _UNSET
    doc_id: Id | _Optional = _UNSET
    rank: int | _Optional = _UNSET
    score: float | _Optional = _UNSET
    doc_version: str | _Optional = _UNSET
    source: str | _Optional = _UNSET


_OBJECTS = ("stages", *AMOUNTS.values())
_PLAIN = ("query", "rewritten_query", "route", "retrieved", "entities")


_FIELD_TYPES: dict[str, tuple[Any, Any]] = {
    "topk_original": (list[_Item], _UNSET),
    "stages": (dict[str, msgspec.Raw], _UNSET),
    **dict.fromkeys(AMOUNTS.values(), (dict[str, Amount], _UNSET)),
    **dict.fromkeys((*_PLAIN, *FACTS), (msgspec.Raw, _NONE)),
}
"""The fields of a line beside its query and its results: their types, and what stands for one that is not there."""
_ITEM_TYPES = {"chunk_id": Id, "doc_id": Id, "rank": int, "score": float, "doc_version": str, "source": str}


class _Shape(NamedTuple):
    """The fields that all results of some lines have, and those of all the lines; no other fields are known."""

    item: tuple[str, ...]
    line: tuple[str, ...]


@lru_cache
def _lines_of(shape: _Shape | None) -> msgspec.json.Decoder[Any]:
    """A decoder of lines that lack no field of a shape; without one, of all lines."""
    item: Any = _Item
    line: list[Any]
    if shape is None:
        line = [
            (name, kind if default is _NONE else kind | _Optional, default)
            for name, (kind, default) in _FIELD_TYPES.items()
        ]
    else:
        item = msgspec.defstruct("_ItemOfShape", [(name, _ITEM_TYPES[name]) for name in shape.item], gc=False)
        line = [(name, _FIELD_TYPES[name][0]) for name in shape.line]
    return msgspec.json.Decoder(msgspec.defstruct("_Line", [("query_id", Id), ("topk", list[item]), *line], gc=False))


_ANY = msgspec.json.Decoder()
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_log_columns(path: str, name: str, policy: Policy, parts: Collection[str] = ()) -> Run | None:
    """The final list of every query of a log as a run; None where something is wrong with it.

    `parts` are what else matters, of `READABLE`.
    """
    reader = _Reader(policy, parts)
    try:
        for raw in line_blocks(path):
            if not reader.add(raw):
                return None
    except NOT_JSON:
        return None
    reader.end_block()
    if not reader.keys or not reader.differ():
        return None
    facts = merge_facts((fact, msgspec.json.decode(value)) for fact, values in reader.facts.items() for value in values)
    amounts = {kind: columns.by_name() for kind, columns in reader.amounts.items()}
    content = LogColumns(path, reader.spool, reader.chunked, amounts)
    notes = describe_gaps(reader.gaps)
    return Run(name, content, facts, path, tuple(notes), names_docs=reader.has_docs and not reader.has_chunks)


class _Reader:
    """Lines one after the other → blocks of lists."""

    def __init__(self, policy: Policy, parts: Collection[str]) -> None:
        self._policy, self._parts = policy, parts
        self.spool = Spool()
        self.keys: list[Words] = []
        self.facts: dict[str, dict[bytes, None]] = {}
        self._amount_fields = [(kind, name) for kind, name in AMOUNTS.items() if kind in parts]
        kinds = [kind for kind, _ in self._amount_fields]
        self.amounts = {kind: AmountColumns() for kind in (*kinds, *((STAGES, SKIPPED) if kinds else ()))}
        self.gaps = 0
        self.has_docs = self.has_chunks = self.chunked = False
        self._days: dict[Any, float] = {None: np.nan, _UNSET: np.nan}
        self._shape: _Shape | None = None
        self._begin_block()

    def add(self, raw: bytes) -> bool:
        """Take whole lines; False where something is wrong with one of them."""
        if not raw.isascii():
            raw.decode()  # fields that nobody looks at are not checked by the decoder
        if b"\r" in raw:
            raw = raw.replace(b"\r\n", b"\n")
        if self._regular(raw):
            return True
        lines = [line for line in raw.split(b"\n") if line.strip()]
        if len(lines) > 1:
            half = len(lines) // 2
            return self.add(b"\n".join(lines[:half])) and self.add(b"\n".join(lines[half:]))
        return not lines or self._irregular(lines[0])

    def _regular(self, raw: bytes) -> bool:
        """Take lines if all is as usual: ids are texts, results are in their order, no key appears twice."""
        raw = raw.rstrip()
        marks = _count_marks(raw)
        if marks is None:
            return False
        try:
            lines = self._decode(raw)
        except msgspec.ValidationError:
            return False
        if len(lines) != marks.lines:
            return False
        lists = [line.topk for line in lines]
        fields = _Fields(lines, _FIELD_TYPES, self._shape and self._shape.line)
        results, sizes = _Results([*chain.from_iterable(lists)], self._shape and self._shape.item), [*map(len, lists)]
        others = _Results([item for items in filter(None, fields.column("topk_original")) for item in items], None)
        facts = {name: _Fact(fields.column(name)) for name in FACTS if fields.has(name)}
        keys = 2 * len(lines) + fields.count_keys() + results.count_keys() + others.count_keys()
        keys += sum(fact.keys for fact in facts.values())
        if keys != marks.keys and sum(map(count_keys, _ANY.decode_lines(raw))) != marks.keys:
            return False
        self._shape = self._shape or _shape_of(fields, results)
        amounts = {kind: [row or {} for row in fields.column(name)] for kind, name in self._amount_fields}
        days = self._days_of(results.column("doc_version")) if DATES in self._parts else None
        queries = [line.query_id for line in lines]
        if (
            not results.have_ids
            or not results.is_ordered(sizes, self._policy)
            or not _are_lists(filter(None, fields.column("stages")))
            or not all(map(_are_sound, amounts.values()))
            or (days is None and DATES in self._parts)
        ):
            return False
        numbers = {DATES: days} if days is not None else {}
        if SCORES in self._parts:
            numbers[SCORES] = [np.nan if score is _UNSET else score for score in results.column("score")]
        if amounts:
            amounts |= _steps_of(fields.column("stages"), fields.column("retrieved"))
        self._take(queries, sizes, results.ids, results.parents(self._policy.separator), numbers, amounts)
        self.has_chunks = self.has_chunks or results.has_chunks or others.has_chunks
        self.has_docs = self.has_docs or results.has_docs or others.has_docs
        self._add_facts(facts)
        return True

    def _irregular(self, raw: bytes) -> bool:
        """Take any other line; False where something is wrong with it."""
        trace, complaints = trace_of(decode_line(raw))
        fields = {"topk", *(name for _, name in self._amount_fields), *({DATES} & set(self._parts))}
        if repeated_in(raw) is not None or not trace.query_id or trace.topk is None:
            return False
        if any(complaint.field in fields for complaint in complaints):
            return False
        items, mark = ordered_items(trace.topk, self._policy), self._policy.separator
        numbers = {}
        if DATES in self._parts:
            days = self._days_of(item.doc_version for item in items)
            if days is None:
                return False
            numbers[DATES] = days
        if SCORES in self._parts:
            numbers[SCORES] = [np.nan if item.score is None else item.score for item in items]
        ids, parents = [item.id for item in items], [item.doc_id or parent_of(item.id, mark) for item in items]
        amounts = {kind: [getattr(trace, name)] for kind, name in self._amount_fields}
        if amounts:
            steps = mark_steps(trace.stages, skipped=trace.retrieved is False)
            amounts |= {kind: [marks] for kind, marks in steps.items()}
        self._take([trace.query_id], [len(items)], ids, parents, numbers, amounts)
        both = (*trace.topk, *(trace.topk_original or ()))
        self.has_chunks = self.has_chunks or any(item.chunk_id is not None for item in both)
        self.has_docs = self.has_docs or any(item.doc_id is not None for item in both)
        self.gaps += has_gaps(items)
        values = _FIELDS.decode(raw)
        self._add_facts({name: _Fact([values[name]]) for name in FACTS if name in values})
        return True

    def _days_of(self, versions: Iterable[str | msgspec.UnsetType | None]) -> list[float] | None:
        """The day of each version, NaN for none; None where one is not a date."""
        versions = list(versions)
        for version in set(versions).difference(self._days):
            day = day_of(version)
            if day is None:
                return None
            self._days[version] = day
        return [self._days[version] for version in versions]

    def _take(
        self,
        queries: Sequence[str],
        sizes: Sequence[int],
        ids: Sequence[str],
        parents: Sequence[str],
        numbers: Mapping[str, Sequence[float]],
        amounts: Mapping[str, Sequence[Mapping[str, float]]],
    ) -> None:
        """Add lists."""
        for kind, rows in amounts.items():
            self.amounts[kind].add(rows)
        self._queries += queries
        self._sizes += sizes
        self._docs += ids
        self._parents += parents
        for name, column in numbers.items():
            self._numbers.setdefault(name, []).extend(column)
        if len(self._docs) >= BLOCK:
            self.end_block()

    def differ(self) -> bool:
        """Whether no query appears twice, and no two have one key, which chance hardly brings about."""
        keys = np.sort(np.concatenate(self.keys))
        return not (keys[1:] == keys[:-1]).any()

    def _add_facts(self, facts: Mapping[str, _Fact]) -> None:
        """Keep each value of a fact once, the facts in the order in which lines name them."""
        for name in sorted(facts, key=lambda name: facts[name].begin):
            if facts[name].values:
                self.facts.setdefault(name, {}).update(dict.fromkeys(facts[name].values))

    def _decode(self, raw: bytes) -> list[Any]:
        """The lines, which have the same fields as those before them, or others."""
        if self._shape is not None:
            try:
                return _lines_of(self._shape).decode_lines(raw)
            except msgspec.ValidationError:
                self._shape = None
        return _lines_of(None).decode_lines(raw)

    def end_block(self) -> None:
        """Pack the lists so far."""
        if not self._queries:
            return
        alike = self._docs == self._parents
        self.chunked = self.chunked or not alike
        score, version = (self._numbers.get(name) for name in (SCORES, DATES))
        queries = Packed.of(self._queries)
        self.keys.append(hashed(queries.strings().words(), np.uint64(1)))
        self.spool.add(
            LogBlock(
                queries,
                np.array(self._sizes, dtype=np.int64),
                Packed.of(self._docs),
                None if alike else Packed.of(self._parents),
                None if score is None else np.array(score, dtype=np.float64),
                None if version is None else np.array(version, dtype=np.float64),
            )
        )
        self._begin_block()

    def _begin_block(self) -> None:
        self._queries: list[str] = []
        self._sizes: list[int] = []
        self._docs: list[str] = []
        self._parents: list[str] = []
        self._numbers: dict[str, list[float]] = {}


class _Fields:
    """The fields of many lines, or of results; those of a shape are all there, and others are not known."""

    def __init__(self, rows: Sequence[Any], names: Iterable[str], shape: Sequence[str] | None) -> None:
        self._rows, self._names, self._shape = rows, names, shape

    def has(self, name: str) -> bool:
        """Whether a row could have the field."""
        return self._shape is None or name in self._shape

    def column(self, name: str) -> list[Any]:
        """One field of all rows."""
        return [*map(attrgetter(name), self._rows)] if self.has(name) else [_UNSET] * len(self._rows)

    def count_keys(self) -> int:
        """The keys of all rows, and of the objects with names that they hold."""
        names = self._names if self._shape is None else [name for name in _OBJECTS if name in self._shape]
        count = 0 if self._shape is None else len(self._rows) * len(self._shape)
        for name in names:
            values = self.column(name)
            if self._shape is None:
                count += len(values) - _count_absent(values)
            if name in _OBJECTS:
                count += sum(map(len, filter(None, values)))
        return count

    def common(self) -> tuple[str, ...] | None:
        """The fields that all rows have, if these are all that some have."""
        absent = {name: _count_absent(self.column(name)) for name in self._names}
        if not self._rows or any(0 < count < len(self._rows) for count in absent.values()):
            return None
        return tuple(name for name, count in absent.items() if not count)


def _count_absent(values: Sequence[Any]) -> int:
    return values.count(_UNSET) + values.count(_NONE)


def _shape_of(*parts: _Fields) -> _Shape | None:
    """The shape of lines and of their results, if all are alike."""
    line, item = (part.common() for part in parts)
    return None if line is None or item is None else _Shape(item, line)


class _Results(_Fields):
    """Regular results of many lists, one after the other."""

    def __init__(self, items: Sequence[Any], shape: Sequence[str] | None) -> None:
        super().__init__(items, _ITEM_TYPES, shape)
        self.chunks, self.docs = self.column("chunk_id"), self.column("doc_id")
        self.without_chunk, self.without_doc = self.chunks.count(_UNSET), self.docs.count(_UNSET)
        self.has_chunks, self.has_docs = self.without_chunk < len(items), self.without_doc < len(items)

    @cached_property
    def ids(self) -> list[Any]:
        """The id that was returned: that of the chunk, else that of the doc."""
        if not self.without_chunk:
            return self.chunks
        return [doc if chunk is _UNSET else chunk for chunk, doc in zip(self.chunks, self.docs, strict=True)]

    @property
    def have_ids(self) -> bool:
        """Whether all results have an id."""
        return not self.without_chunk or not self.without_doc or _UNSET not in self.ids

    def parents(self, separator: str) -> list[Any]:
        """The doc that each result belongs to."""
        if not self.without_doc:
            return self.docs
        pairs = zip(self.ids, self.docs, strict=True)
        return [parent_of(id, separator) if doc is _UNSET else doc for id, doc in pairs]

    def is_ordered(self, sizes: Sequence[int], policy: Policy) -> bool:
        """Whether the results of each list stand in the order that their ranks say, or else their scores."""
        rank = self.column("rank")
        without = rank.count(_UNSET)
        if not without:
            _RANKS.extend(range(len(_RANKS) + 1, max(sizes, default=0) + 1))
            return rank == [*chain.from_iterable(_RANKS[:size] for size in sizes)]
        score = self.column("score")
        if without < len(rank) or 0 < score.count(_UNSET) < len(score):
            return False
        if score[0] is _UNSET:
            return True
        scores = policy.comparable(np.array(score, dtype=np.float64))
        begins = np.zeros(len(scores) + 1, dtype=bool)
        begins[np.cumsum(sizes)] = True
        return bool((begins[1:-1] | (scores[1:] < scores[:-1])).all())


_RANKS: list[int] = []
"""The ranks of the longest list."""


class _Marks(NamedTuple):
    """How many lines there are, and how many quotes that end a key."""

    lines: int
    keys: int


def _count_marks(raw: bytes) -> _Marks | None:
    """The lines, and the quotes before a colon; None where these could be something else, or keys could lack them.

    A quote begins or ends a text, unless it is escaped. White space after one is before a colon, or odd anyway. Each
    line has to be an object: then a line that ends as one and a next one that begins as one are not the same object.
    """
    text = np.frombuffer(raw, dtype=np.uint8)
    ends = np.flatnonzero(text[:-1] == _NEWLINE)
    if len(ends) and ((text[ends - 1] != _CLOSE).any() or (text[ends + 1] != _OPEN).any()):
        return None
    before, after = text[:-1], text[1:]
    quote = before == _QUOTE
    if b"\\" in raw:
        if b'\\\\"' in raw or b"\\u0000" in raw:
            return None
        quote[1:] &= before[:-1] != _BACKSLASH
    if (quote & (after <= _SPACE)).any():
        return None
    return _Marks(len(ends) + 1, int(np.count_nonzero(quote & (after == _COLON))))


_NEWLINE, _SPACE, _QUOTE, _COLON, _BACKSLASH, _OPEN, _CLOSE = (np.uint8(ord(c)) for c in '\n ":\\{}')


class _Fact:
    """What lines say of one fact: each value with how often it occurs, and the first line that has one."""

    def __init__(self, values: Sequence[msgspec.Raw]) -> None:
        self.begin, self.keys = 0, 0
        self.values: Mapping[bytes, int] = {}
        if values.count(values[0]) == len(values):  # as nearly always
            self.values = {bytes(values[0]): len(values)} if values[0] != _NONE else {}
        else:
            self.values = Counter(bytes(value) for value in values if value != _NONE)
            self.begin = next(i for i, value in enumerate(values) if value != _NONE)
        for text, count in self.values.items():
            if text[:1] in b"[{":
                self.keys += count * count_keys(msgspec.json.decode(text))


def _are_lists(stages: Iterable[Mapping[str, msgspec.Raw]]) -> bool:
    """Whether every stage is a list."""
    return {bytes(ids)[:1] for by_name in stages for ids in by_name.values()} <= {b"["}


def _steps_of(stages: Sequence[Any], retrieved: Sequence[Any]) -> dict[str, list[dict[str, float]]]:
    """Which steps ran, line by line."""
    skipped = [value is not _UNSET and bytes(value) == b"false" for value in retrieved]
    marks = [mark_steps(names or (), skipped=one) for names, one in zip(stages, skipped, strict=True)]
    return {kind: [one[kind] for one in marks] for kind in (STAGES, SKIPPED)}


def _are_sound(amounts: Sequence[Mapping[str, float]]) -> bool:
    """Whether names that differ in case alone never stand together, and sums are finite."""
    if any(len({*map(str.lower, names)}) < len(names) for names in {*map(tuple, amounts)}):
        return False
    return max(chain.from_iterable(one.values() for one in amounts), default=0) < LARGEST_AMOUNT


LARGEST_AMOUNT = 1e300
"""Numbers from here on may have no finite sum."""
