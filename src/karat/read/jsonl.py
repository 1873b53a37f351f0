"""JSON Lines: run logs, gold, and tables with one row a line. Also one JSON object for all.

A line with `topk` is a line of a run log; any other is a row. msgspec checks types while it reads,
so that one reader is both fast and exact.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, cast

import msgspec

from karat.errors import InputError, Problem, shown
from karat.model.policy import SEPARATOR, Policy, parent_of
from karat.model.qrels import Qrels
from karat.model.run import OrderedLists, Run
from karat.read.columns import DOC_NAMES, GRADE_NAMES, QUERY_NAMES, SCORE_NAMES, SUBTOPIC, rivals_of
from karat.read.exact import Problems, Row
from karat.read.layout import BROKEN_PACKING, all_of, open_bytes, unpacking_error
from karat.read.logged import Logged
from karat.read.objects import is_finite, qrels_from_mapping, run_from_mapping, text_id

FACTS = (
    "system",
    "index_version",
    "chunker",
    "embedding_model",
    "reranker",
    "dataset_version",
    "as_of_range",
    "code_version",
    "k_raw",
    "embedding_update_cost",
    "index_storage",
    "retriever",
    "workers",
)
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises when a text is no JSON, or not the JSON that was asked for."""


class Item(msgspec.Struct):
    """One entry of a run log's list. Ids are checked apart: a float must not pass as one."""

    chunk_id: Any = None
    doc_id: Any = None
    rank: Any = None
    score: Any = None
    doc_version: Any = None


class Line(msgspec.Struct):
    """One line of a run log, as far as alignment needs it; other fields are kept by `facts`."""

    query_id: Any = None
    topk: list[Item] | None = None
    stages: dict[str, list[Any]] | None = None


class FullLine(Line):
    """A line with what only some metrics need; the values are checked where they are collected."""

    latency_ms: Any = None
    cost: Any = None
    route: Any = None
    retrieved: Any = None


def numbered_lines(path: str, stdin: bytes | None = None) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, with their numbers."""
    import io

    try:
        with open_bytes(path) if stdin is None else io.BytesIO(stdin) as file:
            buffered: Any = file if hasattr(file, "peek") or stdin is not None else io.BufferedReader(cast(Any, file))
            for number, raw in enumerate(buffered, start=1):
                line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                content = line.strip()
                if content in (b"{", b"["):
                    raise InputError(
                        Problem(
                            path,
                            number,
                            "JSON spread over several lines; expected one JSON object per line: write each on one line",
                        )
                    )
                if content:
                    yield number, line
    except BROKEN_PACKING as error:
        raise unpacking_error(path, error) from None


def is_run_log(head: bytes) -> bool:
    """Whether the first line has a list of results in it."""
    first = head.lstrip().split(b"\n", 1)[0]
    return b'"topk"' in first


def log_lines(
    path: str, problems: Problems, stdin: bytes | None = None, kind: type[Line] = Line
) -> Iterator[tuple[int, bytes, str, Line]]:
    """The lines of a run log that can be read and name a query for the first time: number, text, query, content."""
    decoder = msgspec.json.Decoder(kind)
    lines: dict[str, int] = {}
    number = 0
    for number, raw in numbered_lines(path, stdin):
        try:
            if not raw.isascii():
                raw.decode()  # fields that are not asked for are not checked by the decoder
            line = decoder.decode(raw)
        except NOT_JSON as error:
            problems.add(number, reason(error, raw, "expected one JSON object with query_id and topk"))
            continue
        query = text_id(line.query_id)
        if query is None:
            problems.add(number, f"query_id must be text or an integer, found {shown(line.query_id)}")
            continue
        if query in lines:
            problems.add(number, f"query {shown(query)} was logged before at line {lines[query]}; expected it once")
            continue
        lines[query] = number
        yield number, raw, query, line
    problems.check()
    if not number:
        raise InputError(f"{path}: is empty, expected a run log with one JSON object a line")


def read_run_log(
    path: str,
    name: str,
    policy: Policy,
    as_of: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    needs: Collection[str] = (),
) -> Run:
    """The final list (or a stage) of every query in a run log; `needs` names what else is read of it."""
    loose = msgspec.json.Decoder()
    problems = Problems(path)
    logged = Logged(needs, problems)
    versions: dict[str, list[float]] = {}
    lists: dict[str, list[str]] = {}
    parents: dict[str, list[str]] = {}
    scores: dict[str, list[float | None]] = {}
    facts: dict[str, list[Any]] = {}
    stages: set[str] = set()
    docs: dict[str, str] = {}  # a stage names chunks alone: their docs are known from the final lists, of any line
    gaps = late = 0
    for number, raw, query, line in log_lines(path, problems, stdin, FullLine if needs else Line):
        for key, value in facts_of(loose, raw).items():
            seen = facts.setdefault(key, [])
            if value not in seen:
                seen.append(value)
        logged.add(number, query, line)
        stages.update(line.stages or ())
        if policy.stage is not None:
            staged = (line.stages or {}).get(policy.stage)
            if staged is None:
                known = ", ".join(map(shown, sorted(line.stages or ())))
                problems.add(
                    number,
                    f"no stage {shown(policy.stage)}; "
                    + (f"expected one that this line has: {known}" if known else "this line has no stages"),
                )
                continue
            ids = [text_id(i) for i in staged]
            if None in ids:
                found = shown(staged[ids.index(None)])
                problems.add(number, f"stage {shown(policy.stage)}: an id must be text or an integer, found {found}")
                continue
            lists[query] = [i for i in ids if i is not None]
            docs |= {c: d for i in line.topk or () if (c := item_id(i)) and (d := text_id(i.doc_id))}
            continue
        if line.topk is None:
            problems.add(number, "no topk; expected a list of results (an empty list for none)")
            continue
        items = ordered_items(line.topk, number, problems, policy)
        if items is None:
            continue
        if logged.dated:
            logged.days(number, line.topk)
        ranks = [i.rank for i in items if i.rank is not None]
        gaps += ranks != list(range(1, len(ranks) + 1))
        limit = (as_of or {}).get(query)
        if policy.as_of_filter and limit is not None:
            kept = [i for i in items if i.doc_version is None or str(i.doc_version) <= limit]
            late += len(items) - len(kept)
            items = kept
        lists[query] = [item_id(i) or "" for i in items]
        parents[query] = [
            text_id(i.doc_id) or parent_of(chunk, policy.separator)
            for i, chunk in zip(items, lists[query], strict=True)
        ]
        scores[query] = [i.score for i in items]
        if logged.dated:
            versions[query] = [logged.day_of(i) for i in items]
    problems.check()
    if policy.stage is not None:
        parents = {q: [parent_of(i, policy.separator, docs) for i in ids] for q, ids in lists.items()}
    lacking = "1 line has gaps in its ranks" if gaps == 1 else f"{gaps} lines have gaps in their ranks"
    notes = [f"{lacking}; positions were renumbered from 1"] if gaps else []
    notes += [f"as_of_filter dropped {late} items newer than their query's as_of"] if policy.as_of_filter else []
    told = {key: values[0] if len(values) == 1 else values for key, values in facts.items()}
    content = OrderedLists(lists, parents, scores or None, versions or None)
    return Run(name, content, told, path, tuple(notes), logged.values)


def reason(error: Exception, raw: bytes, expected: str) -> str:
    """Why this text could not be decoded, and what was expected instead."""
    if isinstance(error, UnicodeDecodeError):
        near = error.object[max(0, error.start - 10) : error.start + 10]
        return f"not UTF-8 near {shown(near)}; expected UTF-8 text: convert the file, e.g. with iconv"
    if isinstance(error, RecursionError):
        return f"nested too deeply; {expected}"
    text = str(error)
    if "truncated" in text:
        return f"the JSON breaks off after {shown(raw.strip()[-20:])}; {expected}"
    at = re.search(r"\(byte (\d+)\)", text)
    if at:
        found = raw[int(at[1]) :].strip()[:20]
        if found.startswith((b"NaN", b"Infinity", b"-Infinity")):
            key = re.search(rb'"([^"]*)"\s*:\s*$', raw[: int(at[1])])
            place = f" in {shown(key[1])}" if key else ""
            return f"numbers must be finite, found {shown(re.split(rb'[^-A-Za-z]', found)[0])}{place}"
        return f"not JSON at {shown(found)}; {expected}"
    if text.startswith("Number out of range"):
        return f"a number is too large, expected a finite one; {expected}"
    wrong = re.fullmatch(r"Expected `([^`]*)`, got `([^`]*)`(?: - at `\$\.?([^`]*)`)?", text)
    if wrong is None:
        return f"{text[:1].lower()}{text[1:]}; {expected}"
    wanted, found_type = (_TYPES.get(w.removesuffix(" | null"), w) for w in wrong.group(1, 2))
    item = re.fullmatch(r"topk\[(\d+)\]", wrong[3] or "")
    place = f"topk item {int(item[1]) + 1}: " if item else f"{wrong[3]}: " if wrong[3] else ""
    return f"{place}expected {wanted}, found {found_type}" if place else f"found {found_type}; {expected}"


_TYPES = {
    "array": "a list",
    "object": "an object",
    "str": "text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}


def facts_of(decoder: msgspec.json.Decoder[Any], raw: bytes) -> dict[str, Any]:
    """The run-level facts of a line; only lines that may have one are looked at."""
    if not any(b'"' + key.encode() + b'"' in raw for key in FACTS):
        return {}
    line = decoder.decode(raw)
    return {key: line[key] for key in FACTS if key in line}


def item_id(item: Item) -> str | None:
    return text_id(item.chunk_id if item.chunk_id is not None else item.doc_id)


def ordered_items(items: list[Item], line: int, problems: Problems, policy: Policy) -> list[Item] | None:
    """A line's results in their order: by rank where given, else by score, else as listed."""
    before = len(problems.items)
    for place, item in enumerate(items, start=1):
        if item.chunk_id is None and item.doc_id is None:
            problems.add(line, f"topk item {place}: no chunk_id and no doc_id; expected one of them")
        for name, value in (("chunk_id", item.chunk_id), ("doc_id", item.doc_id)):
            if value is not None and text_id(value) is None:
                problems.add(line, f"topk item {place}: {name} must be text or an integer, found {shown(value)}")
        if item.rank is not None and (type(item.rank) is not int or item.rank < 1):
            problems.add(line, f"topk item {place}: rank must be an integer from 1, found {shown(item.rank)}")
        if item.score is not None and not is_finite(item.score):
            problems.add(line, f"topk item {place}: score must be a finite number, found {shown(item.score)}")
    if len(problems.items) > before:
        return None
    with_rank = [i for i in items if i.rank is not None]
    if with_rank:
        if len(with_rank) < len(items):
            problems.add(line, f"{len(items) - len(with_rank)} of {len(items)} results have no rank; give all or none")
            return None
        by_rank = sorted(items, key=lambda i: i.rank)
        twice = [a.rank for a, b in pairwise(by_rank) if a.rank == b.rank]
        if twice:
            problems.add(line, f"rank {twice[0]} is given twice; expected each rank once")
            return None
        return by_rank
    if items and all(i.score is not None for i in items):
        import numpy as np

        compared = policy.compared(np.array([float(i.score) for i in items])).tolist()
        order = sorted(range(len(items)), key=lambda n: (compared[n], item_id(items[n]) or ""), reverse=True)
        return [items[n] for n in order]
    return items


def read_json_rows(
    path: str, role: Literal["qrels", "run"], stdin: bytes | None = None, problems: Problems | None = None
) -> list[Row]:
    """Rows given as one JSON object a line, with the column names of a table."""
    decoder = msgspec.json.Decoder()
    problems = problems or Problems(path)
    what, names = ("grade", GRADE_NAMES) if role == "qrels" else ("score", SCORE_NAMES)
    rows: list[Row] = []
    for number, raw in numbered_lines(path, stdin):
        try:
            line = decoder.decode(raw)
        except NOT_JSON as error:
            problems.add(number, reason(error, raw, "expected one JSON object a line"))
            continue
        if not isinstance(line, dict):
            problems.add(number, f"expected a JSON object, found {shown(raw.strip())}")
            continue
        for rival in rivals_of(tuple(line), role):
            if rival.disagrees(line[rival.used], line[rival.ignored]):
                problems.add(number, rival.problem(line[rival.used], line[rival.ignored]))
        query, doc, value = (_field(line, n) for n in (QUERY_NAMES, DOC_NAMES, names))
        chunk = line.get("chunk_id")
        parent = doc if chunk is not None and "doc_id" in line else None
        doc = chunk if chunk is not None else doc
        q, d = text_id(query), text_id(doc)
        if q is None:
            problems.add(number, f"query id must be text or an integer in {QUERY_NAMES[0]!r}, found {shown(query)}")
        if parent is not None and text_id(parent) is None:
            problems.add(number, f"doc id must be text or an integer in 'doc_id', found {shown(parent)}")
        if d is None:
            problems.add(number, f"doc id must be text or an integer in {DOC_NAMES[0]!r}, found {shown(doc)}")
        if role == "qrels":
            parent = line.get(SUBTOPIC)
            if SUBTOPIC in line and text_id(parent) is None:
                problems.add(number, f"{SUBTOPIC} must be text or an integer, found {shown(parent)}")
        if not is_finite(value):
            problems.add(number, f"{what} must be a finite number in {names[0]!r}, found {shown(value)}")
        elif q is not None and d is not None:
            rows.append((number, q, d, float(value), text_id(parent)))
    problems.check()
    return rows


def _field(line: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((line[n] for n in names if n in line), None)


def read_json(path: str, role: str, name: str, stdin: bytes | None = None, separator: str = SEPARATOR) -> Qrels | Run:
    """One JSON object that maps queries to docs."""
    raw = all_of(path, stdin)
    try:
        data = msgspec.json.decode(raw)
    except NOT_JSON as error:
        at = re.search(r"\(byte (\d+)\)", str(error))
        line = f":{raw[: int(at[1])].count(10) + 1}" if at else ""
        raise InputError(
            f"{path}{line}: {reason(error, raw, 'expected a JSON object {query: {doc: value}}')}"
        ) from None
    if not isinstance(data, dict):
        raise InputError(
            f"{path}: expected a JSON object {{query: {{doc: value}}}}, found {shown(raw.strip())}. "
            "Rows and run logs are written as JSONL, one object a line"
        )
    if "format_version" in data and "kind" in data:
        wanted = "gold" if role == "qrels" else "a run"
        raise InputError(f"{path}: is a result of Karat, expected {wanted}; karat.load reads results")
    if role == "run" and isinstance(data.get("topk"), list):
        raise InputError(f"{path}: looks like one line of a run log; expected JSONL: write each object on one line")
    if role == "run":
        return run_from_mapping(data, name, path, separator=separator)
    _check_keys(raw, path)
    return qrels_from_mapping(data, path)


def _check_keys(raw: bytes, path: str) -> None:
    """A key that is there twice with two values is an error: decoding would keep the last and say nothing."""
    import json

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in pairs:
            if out.setdefault(key, value) != value:
                raise InputError(
                    f"{path}: {shown(key)} is there twice, with {shown(out[key])} and with {shown(value)}; "
                    "expected one of them: remove one"
                )
        return out

    json.loads(raw, object_pairs_hook=once)
