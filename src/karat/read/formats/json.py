"""JSON: one object that maps queries to docs."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, shown, visible
from karat.read.formats import InputFormat, cases, jsonl

if TYPE_CHECKING:
    from karat.model.json_data import JsonObject
    from karat.read.columns import Role
    from karat.read.files import InputFile
    from karat.read.problems import Problems


def recognise(file: InputFile) -> bool:
    """Whether this is JSON, and neither one object per line nor a file of cases."""
    others = (jsonl.recognise, cases.recognise)
    begins = file.head.lstrip()[:1] in (b"{", b"[") or file.has_ending(FORMAT.endings)
    return begins and not any(recognises(file) for recognises in others)


def read(file: InputFile, role: Role, problems: Problems) -> JsonObject:
    """The object: {query: {doc: value}} or {query: docs}."""
    import re

    import msgspec

    from karat.read.json_lines import NOT_JSON, reason

    raw = file.all_bytes()
    try:
        data = msgspec.json.decode(raw)
    except NOT_JSON as error:
        at = re.search(r"\(byte (\d+)\)", str(error))
        line = f":{raw[: int(at[1])].count(10) + 1}" if at else ""
        problem = reason(error, raw, "expected a JSON object {query: {doc: value}}")
        raise InputError(f"{file.path}{line}: {problem}") from None
    if not isinstance(data, dict):
        raise InputError(
            f"{file.path}: expected a JSON object {{query: {{doc: value}}}}, found {shown(raw.strip())}. "
            "Rows and run logs are written as JSONL, one object per line"
        )
    if "format_version" in data and "kind" in data:
        what = "gold" if role == "qrels" else "a run"
        raise InputError(f"{file.path}: is a result of Karat, expected {what}; karat.load reads results")
    if role == "run" and isinstance(data.get("topk"), list):
        raise InputError(
            f"{file.path}: looks like one line of a run log; expected JSONL: write each object on one line"
        )
    _check_keys(raw, data, role, file.path)
    return data


def _check_keys(raw: bytes, data: JsonObject, role: Role, path: str) -> None:
    """A key that appears twice is an error (in gold, with two values), and so is a score that is not a number."""
    import json

    from karat.read.json_lines import repeated_key
    from karat.read.objects import is_finite

    inner = [docs for docs in data.values() if isinstance(docs, dict)]
    # As many keys as there are marks of keys: none was dropped, which is the rule, and quickly seen.
    doubtful = len(data) + sum(map(len, inner)) != raw.count(b'":') or b" :" in raw
    if doubtful and (problem := repeated_key(raw, alike=role == "qrels")) is not None:
        raise InputError(f"{path}: {problem}")
    kinds = set(map(type, chain.from_iterable(map(dict.values, inner))))
    of_chroma = bool(inner) and all(isinstance(docs.get("ids"), list) for docs in inner)
    if bool in kinds or (role == "run" and not of_chroma and _holds_odd_scores(inner, kinds)):
        for query, docs in data.items():
            for doc, value in docs.items() if isinstance(docs, dict) else ():
                if isinstance(value, bool) or (role == "run" and not is_finite(value)):
                    where = f"query {shown(query)}, doc {shown(doc)}"
                    what, number = "grade" if role == "qrels" else "score", json.dumps(value, ensure_ascii=False)
                    raise InputError(f"{path}: {where}: {what} must be a finite number, found {visible(number)[:60]}")


def _holds_odd_scores(lists: list[Any], kinds: set[type]) -> bool:
    """Whether a score is not a number, or an integer beyond every number."""
    if not kinds <= {int, float}:
        return True
    if int in kinds:
        try:
            for end in (max, min):
                float(end(chain.from_iterable(map(dict.values, lists))))
        except OverflowError:
            return True
    return False


FORMAT = InputFormat(
    "json",
    "JSON",
    recognise,
    endings=(".json",),
    gold="`{query: {doc: grade}}`, `{query: [docs]}`",
    runs="`{query: {doc: score}}`, `{query: [docs in order]}`",
    tables="as JSONL",
    read=read,
    read_table=jsonl.read_table,
)
