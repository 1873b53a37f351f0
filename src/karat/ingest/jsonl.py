"""JSON Lines: run logs, gold, and tables with one row a line. Also one JSON object for all.

A line with `topk` is a line of a run log; any other is a row. msgspec checks types while it reads,
so that one reader is both fast and exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import msgspec

from karat.errors import InputError, shown
from karat.ingest.exact import Problems, Row
from karat.ingest.layout import DOC_NAMES, GRADE_NAMES, QUERY_NAMES, SCORE_NAMES, open_bytes, unpacking_error
from karat.ingest.objects import is_finite, qrels_from_mapping, run_from_mapping, text_id
from karat.model.policy import Policy
from karat.model.qrels import Qrels
from karat.model.run import OrderedLists, Run

FACTS = (
    "system", "index_version", "chunker", "embedding_model", "reranker", "dataset_version", "as_of_range",
    "code_version", "k_raw", "embedding_update_cost", "index_storage",
)  # fmt: skip
Id = str | int


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


def numbered_lines(path: str, stdin: bytes | None = None) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, with their numbers."""
    import io

    try:
        with open_bytes(path) if stdin is None else io.BytesIO(stdin) as file:
            buffered: Any = file if hasattr(file, "peek") or stdin is not None else io.BufferedReader(cast(Any, file))
            for number, raw in enumerate(buffered, start=1):
                line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                if line.strip():
                    yield number, line
    except (EOFError, OSError) as error:
        raise unpacking_error(path, error) from None


def is_run_log(head: bytes) -> bool:
    """Whether the first line has a list of results in it."""
    first = head.lstrip().split(b"\n", 1)[0]
    return b'"topk"' in first


def read_run_log(
    path: str, name: str, policy: Policy, as_of: Mapping[str, str] | None = None, stdin: bytes | None = None
) -> Run:
    """The final list (or a stage) of every query in a run log."""
    decoder, loose = msgspec.json.Decoder(Line), msgspec.json.Decoder()
    problems = Problems(path)
    lists: dict[str, list[str]] = {}
    parents: dict[str, list[str]] = {}
    scores: dict[str, list[float | None]] = {}
    lines: dict[str, int] = {}
    facts: dict[str, list[Any]] = {}
    stages: set[str] = set()
    gaps = late = 0
    for number, raw in numbered_lines(path, stdin):
        try:
            line = decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            problems.add(number, f"{_reason(error)}; expected one JSON object with query_id and topk")
            continue
        query = text_id(line.query_id)
        if query is None:
            problems.add(number, f"query_id must be text or an integer, found {line.query_id!r}")
            continue
        if query in lines:
            problems.add(number, f"query {shown(query)} was logged before at line {lines[query]}; expected it once")
            continue
        lines[query] = number
        for key, value in _facts(loose, raw).items():
            seen = facts.setdefault(key, [])
            if value not in seen:
                seen.append(value)
        stages.update(line.stages or ())
        if policy.stage is not None:
            staged = (line.stages or {}).get(policy.stage)
            if staged is None:
                known = ", ".join(sorted(line.stages or ())) or "none"
                problems.add(number, f"no stage {policy.stage!r}; this line has {known}")
                continue
            ids = [text_id(i) for i in staged]
            if None in ids:
                problems.add(number, f"stage {policy.stage!r}: an id must be text or an integer")
                continue
            lists[query] = [i for i in ids if i is not None]
            parents[query] = [i.partition(policy.separator)[0] for i in lists[query]]
            continue
        if line.topk is None:
            problems.add(number, "no topk; expected a list of results (an empty list for none)")
            continue
        items = _ordered(line.topk, number, problems, policy)
        if items is None:
            continue
        ranks = [i.rank for i in items if i.rank is not None]
        gaps += ranks != list(range(1, len(ranks) + 1))
        limit = (as_of or {}).get(query)
        if policy.as_of_filter and limit is not None:
            kept = [i for i in items if i.doc_version is None or str(i.doc_version) <= limit]
            late += len(items) - len(kept)
            items = kept
        lists[query] = [_item_id(i) or "" for i in items]
        parents[query] = [
            text_id(i.doc_id) or chunk.partition(policy.separator)[0]
            for i, chunk in zip(items, lists[query], strict=True)
        ]
        scores[query] = [i.score for i in items]
    problems.check()
    if not lines:
        raise InputError(f"{path}: is empty, expected a run log with one JSON object a line")
    notes = [f"{gaps} lines have gaps in their ranks; positions were renumbered from 1"] if gaps else []
    notes += [f"as_of_filter dropped {late} items newer than their query's as_of"] if policy.as_of_filter else []
    told = {key: values[0] if len(values) == 1 else values for key, values in facts.items()}
    return Run(name, OrderedLists(lists, parents, scores or None), told, path, tuple(notes))


def _reason(error: Exception) -> str:
    text = (
        str(error).replace("JSON is malformed", "not JSON").replace("Input data was truncated", "the line breaks off")
    )
    return text[:1].lower() + text[1:]


def _facts(decoder: msgspec.json.Decoder[Any], raw: bytes) -> dict[str, Any]:
    """The run-level facts of a line; only lines that may have one are looked at."""
    if not any(b'"' + key.encode() + b'"' in raw for key in FACTS):
        return {}
    line = decoder.decode(raw)
    return {key: line[key] for key in FACTS if key in line}


def _item_id(item: Item) -> str | None:
    return text_id(item.chunk_id if item.chunk_id is not None else item.doc_id)


def _ordered(items: list[Item], line: int, problems: Problems, policy: Policy) -> list[Item] | None:
    """A line's results in their order: by rank where given, else by score, else as listed."""
    before = len(problems.found)
    for place, item in enumerate(items, start=1):
        if _item_id(item) is None:
            found = item.chunk_id if item.chunk_id is not None else item.doc_id
            problems.add(line, f"topk[{place}]: chunk_id or doc_id must be text or an integer, found {found!r}")
        if item.rank is not None and (type(item.rank) is not int or item.rank < 1):
            problems.add(line, f"topk[{place}]: rank must be an integer from 1, found {shown(item.rank)}")
        if item.score is not None and not is_finite(item.score):
            problems.add(line, f"topk[{place}]: score must be a finite number, found {shown(item.score)}")
    if len(problems.found) > before:
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

        exact = policy.score_precision == "float64"
        return sorted(
            items, key=lambda i: (i.score if exact else float(np.float32(i.score)), _item_id(i) or ""), reverse=True
        )
    return items


def read_json_rows(path: str, role: str, stdin: bytes | None = None) -> list[Row]:
    """Rows given as one JSON object a line, with the column names of a table."""
    decoder = msgspec.json.Decoder()
    problems = Problems(path)
    what, names = ("grade", GRADE_NAMES) if role == "qrels" else ("score", SCORE_NAMES)
    rows: list[Row] = []
    for number, raw in numbered_lines(path, stdin):
        try:
            line = decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            problems.add(number, f"{_reason(error)}; expected one JSON object a line")
            continue
        if not isinstance(line, dict):
            problems.add(number, f"expected a JSON object, found {shown(raw.strip())}")
            continue
        query, doc, value = (_field(line, n) for n in (QUERY_NAMES, DOC_NAMES, names))
        chunk = line.get("chunk_id")
        parent = doc if chunk is not None and "doc_id" in line else None
        doc = chunk if chunk is not None else doc
        q, d = text_id(query), text_id(doc)
        if q is None:
            problems.add(number, f"query id must be text or an integer in {QUERY_NAMES[0]!r}, found {shown(query)}")
        if d is None:
            problems.add(number, f"doc id must be text or an integer in {DOC_NAMES[0]!r}, found {shown(doc)}")
        if not is_finite(value):
            problems.add(number, f"{what} must be a finite number in {names[0]!r}, found {shown(value)}")
        elif q is not None and d is not None:
            rows.append((number, q, d, float(value), text_id(parent) if role == "run" else None))
    problems.check()
    return rows


def _field(line: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((line[n] for n in names if n in line), None)


def read_json(path: str, role: str, name: str, stdin: bytes | None = None) -> Qrels | Run:
    """One JSON object that maps queries to docs."""
    import io

    try:
        with open_bytes(path) if stdin is None else io.BytesIO(stdin) as file:
            raw = b"".join(iter(lambda: file.read(1 << 20), b""))
        data = msgspec.json.decode(raw.removeprefix(b"\xef\xbb\xbf"))
    except (EOFError, OSError) as error:
        raise unpacking_error(path, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {_reason(error)}; expected a JSON object {{query: {{doc: value}}}}") from None
    if not isinstance(data, dict):
        raise InputError(f"{path}: expected a JSON object {{query: {{doc: value}}}}, found a {type(data).__name__}")
    return qrels_from_mapping(data, path) if role == "qrels" else run_from_mapping(data, name)
