"""Large run logs for metrics of relevance: the final lists alone, as columns, each line decoded once.

A regular line is decoded into typed items. One that is not is read by `read/run_log.py`; where that has a complaint,
the whole log is, so that its errors are the same for logs of all sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from karat.model.policy import parent_of
from karat.model.run import Run
from karat.model.run_log import FACTS, Id, has_gaps, merge_facts, ordered_items
from karat.read.json_lines import NOT_JSON, numbered_lines, repeated_in
from karat.read.log_blocks import LogBlock, LogColumns, Texts
from karat.read.log_lists import describe_gaps
from karat.read.run_log import decode_line, trace_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.model.policy import Policy

BLOCK = 30_000
"""Results of a block."""


class _Item(msgspec.Struct, gc=False):
    """A result with regular values."""

    chunk_id: Id | msgspec.UnsetType = msgspec.UNSET
    doc_id: Id | msgspec.UnsetType = msgspec.UNSET
    rank: int | msgspec.UnsetType = msgspec.UNSET
    score: float | msgspec.UnsetType = msgspec.UNSET
    doc_version: str | msgspec.UnsetType = msgspec.UNSET
    source: str | msgspec.UnsetType = msgspec.UNSET


_OBJECTS = ("stages", "latency_ms", "cost")
_PLAIN = ("query", "rewritten_query", "route", "retrieved", "entities")
_NONE = msgspec.Raw(b"")
_LINE = msgspec.json.Decoder(
    msgspec.defstruct(
        "_Line",
        [
            ("query_id", Id),
            ("topk", list[_Item]),
            *((name, msgspec.Raw, _NONE) for name in (*_OBJECTS, *_PLAIN, *FACTS)),
        ],
    )
)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RESULTS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_COUNTS: list[int] = []


def read_log_columns(path: str, name: str, policy: Policy) -> Run | None:
    """The final list of every query of a log as a run; None where something is wrong with it."""
    reader = _Reader(policy)
    queries: set[str] = set()
    try:
        for number, (_, raw) in enumerate(numbered_lines(path), start=1):
            query = reader.add(raw)
            if query is not None:
                queries.add(query)
            if len(queries) < number:
                return None  # wrong, or a query that appears twice
    except NOT_JSON:
        return None
    if not queries:
        return None
    reader.end_block()
    facts = merge_facts((fact, msgspec.json.decode(value)) for fact, values in reader.facts.items() for value in values)
    content = LogColumns(path, tuple(reader.blocks), reader.chunked)
    notes = describe_gaps(reader.gaps)
    return Run(name, content, facts, path, tuple(notes), names_docs=reader.has_docs and not reader.has_chunks)


class _Reader:
    """Lines one after the other → blocks of lists."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.blocks: list[LogBlock] = []
        self.facts: dict[str, dict[bytes, None]] = {}
        self.gaps = 0
        self.has_docs = self.has_chunks = self.chunked = False
        self._queries: list[str] = []
        self._sizes: list[int] = []
        self._docs: list[str] = []
        self._parents: list[str] = []

    def add(self, raw: bytes) -> str | None:
        """Take a line; its query, or None where something is wrong with it."""
        if not raw.isascii():
            raw.decode()  # fields that nobody looks at are not checked by the decoder
        lists = self._regular(raw) or self._irregular(raw)
        if lists is None:
            return None
        query, docs, parents = lists
        self._queries.append(query)
        self._sizes.append(len(docs))
        self._docs += docs
        self._parents += parents
        if len(self._docs) >= BLOCK:
            self.end_block()
        return query

    def _regular(self, raw: bytes) -> tuple[str, list[str], list[str]] | None:
        """The list of a line where all is as usual: ids are texts, ranks count from 1, no key appears twice."""
        if _is_odd(raw):
            return None
        try:
            line = _LINE.decode(raw)
        except msgspec.ValidationError:
            return None
        query, items, *fields = msgspec.structs.astuple(line)
        size = len(items)
        while len(_COUNTS) <= size:
            _COUNTS.append(len(_COUNTS) + 1)
        if [item.rank for item in items] != _COUNTS[:size]:
            return None
        chunks = [item.chunk_id for item in items]
        docs = [item.doc_id for item in items]
        others = [item.score for item in items], [item.doc_version for item in items], [item.source for item in items]
        without = chunks.count(msgspec.UNSET), docs.count(msgspec.UNSET)
        keys = 6 * size - sum(without) - sum(other.count(msgspec.UNSET) for other in others)
        keys += 2 + len(fields) - fields.count(_NONE) + sum(map(_count_keys, filter(len, fields[: len(_OBJECTS)])))
        facts = fields[-len(FACTS) :]
        if raw.count(b'":') != keys and not _has_distinct_keys(raw):
            return None
        ids: Any = chunks if not without[0] else docs if without == (size, 0) else None
        if ids is None:
            return None
        self.has_chunks = self.has_chunks or without[0] < size
        self.has_docs = self.has_docs or without[1] < size
        self._add_facts(facts)
        if without[1]:
            mark = self._policy.separator
            pairs = zip(ids, docs, strict=True)
            return query, ids, [parent_of(chunk, mark) if doc is msgspec.UNSET else doc for chunk, doc in pairs]
        return query, ids, docs

    def _irregular(self, raw: bytes) -> tuple[str, list[str], list[str]] | None:
        """The list of any other line; None where something is wrong with it."""
        trace, complaints = trace_of(decode_line(raw))
        if repeated_in(raw) is not None or not trace.query_id or trace.topk is None:
            return None
        if any(complaint.field == "topk" for complaint in complaints):
            return None
        both = (*trace.topk, *(trace.topk_original or ()))
        self.has_chunks = self.has_chunks or any(item.chunk_id is not None for item in both)
        self.has_docs = self.has_docs or any(item.doc_id is not None for item in both)
        fields = _FIELDS.decode(raw)
        self._add_facts([fields.get(name, _NONE) for name in FACTS])
        items = ordered_items(trace.topk, self._policy)
        self.gaps += has_gaps(items)
        mark = self._policy.separator
        return trace.query_id, [item.id for item in items], [item.doc_id or parent_of(item.id, mark) for item in items]

    def _add_facts(self, values: Sequence[msgspec.Raw]) -> None:
        for name, value in zip(FACTS, values, strict=True):
            if value != _NONE:
                self.facts.setdefault(name, {}).setdefault(bytes(value))

    def end_block(self) -> None:
        """Pack the lists so far."""
        doc, alike = Texts.of(self._docs), self._docs == self._parents
        self.chunked = self.chunked or not alike
        sizes = np.array(self._sizes, dtype=np.int64)
        self.blocks.append(LogBlock(tuple(self._queries), sizes, doc, None if alike else Texts.of(self._parents)))
        self._queries, self._sizes, self._docs, self._parents = [], [], [], []


def _is_odd(raw: bytes) -> bool:
    """Whether keys cannot be counted by the quote and the colon after each, or an id may hold what it must not.

    Without escapes a quote begins or ends a text, so that white space after one is before a colon, or odd anyway.
    """
    if b"\\" in raw and (b'\\"' in raw or b"\\u0000" in raw):
        return True
    return b'" ' in raw or b"\t" in raw or b"\r" in raw


def _count_keys(value: msgspec.Raw) -> int:
    """The distinct keys of an object; those of objects within it are not looked for."""
    text = bytes(value)
    return len(_FIELDS.decode(text)) if text[:1] == b"{" else 0


def _has_distinct_keys(raw: bytes) -> bool:
    """Whether all keys differ, of fields that nobody reads as well; objects within other ones are not looked into."""
    fields = _FIELDS.decode(raw)
    inner = sum(_count_keys(value) for name, value in fields.items() if name != "topk")
    return raw.count(b'":') == len(fields) + inner + sum(map(len, _RESULTS.decode(fields["topk"])))
