"""JSON Lines: gold and runs as tables with one row per line. Also one JSON object for all.

A line with `topk` is a line of a run log, which `read/run_log.py` reads; any other is a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from karat.errors import InputError, Problem, shown
from karat.model.policy import SEPARATOR
from karat.model.qrels import Qrels
from karat.model.run import Run
from karat.read.columns import DOC_NAMES, GRADE_NAMES, QUERY_NAMES, SCORE_NAMES, SUBTOPIC, rivals_of
from karat.read.exact import Problems, Row
from karat.read.layout import BROKEN_PACKING, all_of, open_bytes, unpacking_error
from karat.read.objects import is_finite, qrels_from_mapping, run_from_mapping, text_id

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises when a text is no JSON, or not the JSON that was asked for."""


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
