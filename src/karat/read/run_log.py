"""The one reader of run logs: lines of JSON → `RunLog`.

A line is decoded into typed data at once. Only where that fails it is decoded again without types, and looked at
field by field: what is legal (integers as ids) is taken, and what is not is explained.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from karat.errors import MAX_PROBLEMS, InputError, shown
from karat.model.dates import A_DATE
from karat.model.run_log import LogItem, LogProblem, RunFacts, RunLog, Trace
from karat.read.json_lines import NOT_JSON, numbered_lines, reason, repeated_in
from karat.read.objects import is_finite, text_id
from karat.read.problems import Problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

EXPECTED = "expected one JSON object with query_id and topk"
IDS = 'such as ["d1", "d2"]'
RESULTS = 'such as [{"doc_id": "d1"}, {"doc_id": "d2"}]'
SOME_LINES = 3
"""Further lines with the same fault that a message names."""


class LooseItem(msgspec.Struct, frozen=True):
    """An entry of a list of results before its values are checked."""

    chunk_id: Any = None
    doc_id: Any = None
    rank: Any = None
    score: Any = None
    doc_version: Any = None
    source: Any = None


class LooseLine(RunFacts, frozen=True):
    """A line before its values are checked."""

    query_id: Any = None
    topk: list[LooseItem] | None = None
    stages: dict[str, list[Any]] | None = None
    latency_ms: Any = None
    cost: Any = None
    route: Any = None
    retrieved: Any = None
    query: Any = None
    rewritten_query: Any = None
    topk_original: Any = None
    entities: Any = None


class Complaint(NamedTuple):
    """What is wrong with a field of a line: what is expected, and what was found instead."""

    field: str
    expected: str
    found: str = ""

    @property
    def text(self) -> str:
        return f"{self.expected}, found {self.found}" if self.found else self.expected


class Complaints:
    """Collects what is wrong with the lines of a log; one fault on many lines is one problem."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], Complaint] = {}
        self._lines: dict[tuple[str, str], list[int]] = {}

    def add(self, line: int, complaint: Complaint) -> None:
        key = (complaint.field, complaint.expected)
        self._first.setdefault(key, complaint)
        self._lines.setdefault(key, []).append(line)

    def problems(self) -> list[LogProblem]:
        """Each fault at the first line that has it, with the next lines and how many there are."""
        out = [
            LogProblem(lines[0], complaint.field, complaint.text + _describe_lines(lines[1:]))
            for complaint, lines in zip(self._first.values(), self._lines.values(), strict=True)
        ]
        return sorted(out, key=lambda problem: problem.line)


def _describe_lines(lines: Sequence[int]) -> str:
    """The further lines that have a fault: the first few, and how many there are."""
    if not lines:
        return ""
    some = ", ".join(map(str, lines[:SOME_LINES])) + (", …" if len(lines) > SOME_LINES else "")
    return f"; the same on {len(lines):,} more {'line' if len(lines) == 1 else 'lines'}: {some}"


_STRICT = msgspec.json.Decoder(Trace)
_LOOSE = msgspec.json.Decoder(LooseLine)


def read_run_log(path: str, name: str, stdin: bytes | None = None) -> RunLog:
    """Every line of a run log."""
    traces: dict[str, Trace] = {}
    lines: dict[str, int] = {}
    faults = Complaints()
    for number, query, line in log_lines(path, Problems(path), stdin):
        lines[query] = number
        traces[query], complaints = trace_of(line)
        for complaint in complaints:
            faults.add(number, complaint)
    seen: Counter[str] = Counter()
    problems = []
    for problem in faults.problems():
        seen[problem.field] += 1
        if seen[problem.field] <= MAX_PROBLEMS + 1:  # one more than are shown
            problems.append(problem)
    return RunLog(name, traces, path, lines, tuple(problems))


def log_of_lines(lines: Iterable[Mapping[str, object]], name: str) -> RunLog:
    """A run log from its lines as dicts."""
    encoded = []
    for place, line in enumerate(lines, start=1):
        if not isinstance(line, Mapping):
            raise InputError(f"{name}:{place}: expected a dict with query_id and topk, found {shown(line)}")
        try:
            encoded.append(msgspec.json.encode(dict(line)))
        except (TypeError, ValueError, msgspec.EncodeError) as error:
            raise InputError(f"{name}:{place}: cannot be written as JSON ({error}); expected plain data") from None
    return read_run_log(name, name, b"\n".join(encoded))


def log_lines(
    path: str, problems: Problems, stdin: bytes | None = None
) -> Iterator[tuple[int, str, Trace | LooseLine]]:
    """The lines that can be decoded and name a query for the first time: number, query, content."""
    lines: dict[str, int] = {}
    number = 0
    for number, raw in numbered_lines(path, stdin):
        try:
            line, twice = decode_line(raw), repeated_in(raw)
        except NOT_JSON as error:
            problems.add(number, reason(error, raw, EXPECTED))
            continue
        query = text_id(line.query_id)
        if twice is not None:
            problems.add(number, twice)
        elif query is None:
            problems.add(number, f"query_id must be text or an integer, found {shown(line.query_id)}")
        elif query in lines:
            problems.add(number, f"query {shown(query)} already appears at line {lines[query]}; expected it once")
        else:
            lines[query] = number
            yield number, query, line
    problems.check()
    if not number:
        raise InputError(f"{path}: is empty, expected a run log with one JSON object per line")


def decode_line(raw: bytes) -> Trace | LooseLine:
    """One line: typed where all of it is regular. Raises one of `NOT_JSON`."""
    if not raw.isascii():
        raw.decode()  # fields that no struct has are not checked by the decoder
    if b"\\u0000" not in raw:
        try:
            return _STRICT.decode(raw)
        except msgspec.ValidationError:
            pass
    return _LOOSE.decode(raw)


def trace_of(line: Trace | LooseLine) -> tuple[Trace, list[Complaint]]:
    """A line with checked values, and what is wrong with it by field; a wrong field is left empty."""
    complaints: list[Complaint] = []
    if isinstance(line, Trace):
        trace = line
    else:
        checker = _Checker(line)
        trace, complaints = checker.trace(), checker.complaints
    for name, items in (("topk", trace.topk), ("topk_original", trace.topk_original)):
        if items is not None:
            complaints += (Complaint(name, text) for text in _check_list(name, items))
        elif name == "topk" and line.topk is None:
            complaints.append(Complaint(name, "no topk; expected a list of results (an empty list for none)"))
    for name, amounts in (("latency_ms", trace.latency_ms), ("cost", trace.cost)):
        if amounts:
            complaints += (Complaint(name, text) for text in _check_amounts(name, amounts))
    return trace, complaints


def versions_of(line: Trace | LooseLine) -> list[Any]:
    """The doc_version of every result as the line has it, date or not."""
    items: Sequence[LogItem | LooseItem] = line.topk or ()
    return [item.doc_version for item in items]


def _check_list(name: str, items: Sequence[LogItem]) -> Iterator[str]:
    """What is wrong with a list as a whole: items without an id, ranks that appear twice or are missing."""
    if None in [item.chunk_id for item in items]:
        for place, item in enumerate(items, start=1):
            if item.chunk_id is None and item.doc_id is None:
                yield f"{name} item {place}: no chunk_id and no doc_id; expected one of them"
    ranks = [item.rank for item in items]
    if ranks == list(range(1, len(ranks) + 1)):
        return
    without = ranks.count(None)
    if 0 < without < len(ranks):
        yield f"{without} of {len(ranks)} results have no rank; give all or none"
    elif not without and len(set(ranks)) < len(ranks):
        twice = min(rank for rank in ranks if rank is not None and ranks.count(rank) > 1)
        yield f"rank {twice} appears twice; expected each rank once"


def _check_amounts(name: str, amounts: Mapping[str, float]) -> Iterator[str]:
    """What is wrong with numbers by name as a whole."""
    names: set[str] = set()
    for key in amounts:
        if key.lower() in names:
            yield f"{name}: {shown(key)} appears twice with different case; expected it once"
        names.add(key.lower())
    try:
        if name == "latency_ms":
            math.fsum(amounts.values())
    except OverflowError:
        yield f"{name}: its numbers add up to more than a number can hold"


class _Checker:
    """Takes the legal values of a line, and complains about the others."""

    def __init__(self, line: LooseLine) -> None:
        self.line = line
        self.complaints: list[Complaint] = []

    def trace(self) -> Trace:
        """The line with the values that are legal."""
        line, stages = self.line, self.line.stages or {}
        return Trace(
            query_id=text_id(line.query_id) or "",
            topk=self._items("topk", line.topk),
            stages={stage: self._ids("stages", f"stage {shown(stage)}", ids) or () for stage, ids in stages.items()},
            latency_ms=self._amounts("latency_ms", line.latency_ms),
            cost=self._amounts("cost", line.cost),
            route=self._text("route", line.route),
            retrieved=self._flag("retrieved", line.retrieved),
            query=self._text("query", line.query),
            rewritten_query=self._text("rewritten_query", line.rewritten_query),
            topk_original=self._items("topk_original", line.topk_original),
            entities=self._ids("entities", "entities", line.entities),
            **line.facts,
        )

    def refuse(self, field: str, expected: str, found: object) -> None:
        self.complaints.append(Complaint(field, expected, shown(found)))

    def _text(self, field: str, value: Any) -> str | None:
        if value is None or isinstance(value, str):
            return value
        self.refuse(field, f"{field} must be text", value)
        return None

    def _flag(self, field: str, value: Any) -> bool | None:
        if value is None or isinstance(value, bool):
            return value
        if value != "":
            self.refuse(field, f"{field} must be true or false", value)
        return None

    def _ids(self, field: str, title: str, values: Any) -> tuple[str, ...] | None:
        if values is None:
            return None
        if not isinstance(values, list):
            self.refuse(field, f"{title} must be a list of ids, {IDS}", values)
            return None
        ids = [text_id(value) for value in values]
        if None in ids:
            self.refuse(field, f"{title} must be a list of ids, {IDS}", values[ids.index(None)])
        return tuple(i for i in ids if i is not None)

    def _amounts(self, field: str, values: Any) -> dict[str, float]:
        amounts: dict[str, float] = {}
        if values is None:
            return amounts
        if not isinstance(values, dict):
            self.refuse(field, f'{field} must be an object of numbers such as {{"rerank": 22}}', values)
            return amounts
        for key, value in values.items():
            if isinstance(value, bool) or not is_finite(value) or value < 0:
                self.refuse(field, f"{field}: {shown(key)} must be a finite number from 0", value)
            else:
                amounts[key] = float(value)
        return amounts

    def _items(self, field: str, values: Any) -> tuple[LogItem, ...] | None:
        if values is None:
            return None
        try:
            loose = msgspec.convert(values, list[LooseItem])
        except msgspec.ValidationError:
            self.refuse(field, f"{field} must be a list of results, {RESULTS}", values)
            return None
        before = len(self.complaints)
        items = tuple(self._item(field, f"{field} item {place}", item) for place, item in enumerate(loose, start=1))
        return None if any(one.field == field for one in self.complaints[before:]) else items

    def _item(self, field: str, place: str, item: LooseItem) -> LogItem:
        chunk, doc = text_id(item.chunk_id), text_id(item.doc_id)
        for key, value, id in (("chunk_id", item.chunk_id, chunk), ("doc_id", item.doc_id, doc)):
            if value is not None and id is None:
                self.refuse(field, f"{place}: {key} must be text or an integer", value)
        rank = item.rank if type(item.rank) is int and item.rank >= 1 else None
        if item.rank is not None and rank is None:
            self.refuse(field, f"{place}: rank must be an integer from 1", item.rank)
        score = float(item.score) if is_finite(item.score) else None
        if item.score is not None and score is None:
            self.refuse(field, f"{place}: score must be a finite number", item.score)
        version = item.doc_version
        if version is not None and (isinstance(version, bool) or not isinstance(version, (str, int))):
            self.refuse("doc_version", f"{place}: doc_version {A_DATE}", version)
            version = None
        return LogItem(chunk, doc, rank, score, None if version is None else str(version), text_id(item.source))
