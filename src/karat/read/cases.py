"""Case files: short texts with the terms of an ontology that are expected for them, in one language per file.

Two forms: `{"metadata": {…}, "test_cases": [case, …]}`, and the plain list of cases. A case is
`{case_id, text, description, expected_ids, difficulty, category, domain}`; text and expected_ids are required.
"""

from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING

from karat.errors import InputError, Problem, nearest, shown
from karat.read.objects import text_id
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karat.model.json_data import Json, JsonObject
    from karat.read.files import InputFile
    from karat.read.problems import Problems

LANGUAGES = {"de": "german", "en": "english", "fr": "french", "es": "spanish", "nl": "dutch"}
"""The languages of case files by their codes, and the long names that folders may have."""
DIFFICULTIES = ("easy", "medium", "hard")
CATEGORIES = ("exact_match", "synonym", "abbreviation", "layperson", "complex")
PUBLISHABLE = 200
"""Cases from which figures are fit for publication."""
_TEXT = "text"
_IDS = ("expected_ids", "expected_hpo_ids")
_DOMAINS = ("domain", "hpo_domain")
_EXAMPLE = '["HP:0001250"]'
_HPO_ID = re.compile(r"HP:\d{7}")


@dataclass(frozen=True, slots=True)
class Case:
    """One text, and the terms that are expected for it with their grades."""

    line: int
    id: str
    text: str
    expected: Mapping[str, float]
    description: str = ""
    """What an English reader is told; it often repeats the label, so nothing ever searches with it."""
    fields: Mapping[str, str] | None = None
    """What cases are sliced by: language, difficulty, category, domain."""


def read_cases(file: InputFile, problems: Problems) -> list[Case]:
    """The cases of a file; what is wrong with one is noted with the line on which it begins."""
    raw = file.all_bytes()
    metadata, pieces = _decode(file.path, raw)
    language = _language(file.path, metadata, problems)
    cases: list[Case] = []
    lines: dict[str, int] = {}
    position = line_position = 0
    line = 1
    for number, piece in enumerate(pieces, start=1):
        position = raw.index(piece, position)
        line += raw.count(b"\n", line_position, position)
        line_position = position
        position += len(piece)
        if (case := _case(piece, number, line, language, problems)) is None:
            continue
        if case.id in lines:
            problems.add(line, f"case {shown(case.id)} already appears at line {lines[case.id]}; expected each once")
        else:
            lines[case.id] = line
            cases.append(case)
    problems.check()
    return cases


def _decode(path: str, raw: bytes) -> tuple[JsonObject, list[bytes]]:
    """The metadata, and the bytes of each case."""
    import msgspec

    from karat.read.json_lines import NOT_JSON, reason, repeated_key

    try:
        raw.decode()
        plain = raw.lstrip()[:1] == b"["
        parts = {"test_cases": msgspec.Raw(raw)} if plain else msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        cases = msgspec.json.decode(parts.get("test_cases", b"null"), type=list[msgspec.Raw])
        metadata: JsonObject = msgspec.json.decode(parts.get("metadata", b"{}"), type=dict)
        if (problem := repeated_key(raw)) is not None:
            raise InputError(f"{path}: {problem}")
        return metadata, [bytes(each) for each in cases]
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: expected {{metadata, test_cases: [case, …]}} or a list of cases: {error}") from None
    except NOT_JSON as error:
        at = re.search(r"\(byte (\d+)\)", str(error))
        place = int(at[1]) if at else error.start if isinstance(error, UnicodeDecodeError) else len(raw)
        line = raw[:place].count(10) + 1
        raise InputError(Problem(path, line, reason(error, raw, "expected cases as JSON"))) from None


def _language(path: str, metadata: JsonObject, problems: Problems) -> str | None:
    """The language of the file: as its metadata say, or as its folder is called."""
    codes = {name: code for code, name in LANGUAGES.items()} | {code: code for code in LANGUAGES}
    folder = codes.get(os.path.basename(os.path.dirname(os.path.abspath(path))).lower())
    stated = metadata.get("language")
    if stated is None:
        return folder
    code = codes.get(str(stated).lower())
    if code is None:
        problems.add(None, f"metadata.language must be one of {', '.join(LANGUAGES)}, found {shown(stated)}")
    elif folder is not None and folder != code:
        problems.add(None, f"metadata.language is {code}, but the folder is that of {folder}; expected one language")
    return code


def _case(piece: bytes, number: int, line: int, language: str | None, problems: Problems) -> Case | None:
    import msgspec

    data = msgspec.json.decode(piece)
    if not isinstance(data, dict):
        problems.add(line, f"case {number}: expected an object with text and expected_ids, found {shown(data)}")
        return None
    id = text_id(data["case_id"]) if "case_id" in data else str(number)
    text = data.get(_TEXT)
    expected = _expected({name: data[name] for name in _IDS if name in data})
    domain = next((data[name] for name in _DOMAINS if data.get(name) is not None), None)
    choices = (("difficulty", DIFFICULTIES), ("category", CATEGORIES))
    wrong = [
        *([] if id else [f"case_id must be text or an integer, found {shown(data['case_id'])}"]),
        *([] if isinstance(text, str) and text.strip() else [f"text must not be empty, found {shown(text)}"]),
        *([expected] if isinstance(expected, str) else []),
        *(_wrong_choice(name, data[name], some) for name, some in choices if data.get(name) not in (None, *some)),
        *_wrong_language(data.get("language"), language),
    ]
    if wrong or id is None or isinstance(expected, str):
        for each in wrong:
            problems.add(line, f"case {shown(id or number)}: {each}")
        return None
    own = {name: data.get(name) for name in ("difficulty", "category")} | {"domain": domain, "language": language}
    fields = {name: str(value) for name, value in own.items() if value is not None}
    return Case(line, id, str(text), expected, str(data.get("description") or ""), fields)


def _wrong_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    near = nearest(str(value), choices)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"{name} must be one of {', '.join(choices)}, found {shown(value)}{hint}"


def _wrong_language(stated: object, language: str | None) -> list[str]:
    if stated is None or stated == language:
        return []
    if language is None:
        return [f"language {shown(stated)} on a case, expected it in metadata.language: a file holds one language"]
    return [f"language {shown(stated)} in a file of {language}; expected one language per file, divide it"]


def _expected(fields: Mapping[str, Json]) -> dict[str, float] | str:
    """Grades by id, or what is wrong with the expected ids, which stand in one of two fields."""
    if not fields:
        return f"{_IDS[0]} is missing; expected the ids of its terms, such as {_EXAMPLE}"
    several = {name: _grades(name, ids) for name, ids in fields.items()}
    wrong = next((one for one in several.values() if isinstance(one, str)), None)
    if wrong is not None:
        return wrong
    first, *others = several.values()
    if any(each != first for each in others):
        both = " and ".join(f"{name} {shown(ids)}" for name, ids in fields.items())
        return f"expected one list of ids, found {both}, which differ; remove one"
    return first


def _grades(name: str, ids: Json) -> dict[str, float] | str:
    """The grade of each id in a field, or what is wrong with it."""
    if isinstance(ids, list):
        texts = [text_id(each) for each in ids]
        if None in texts:
            return f"an expected id must be text or an integer, found {shown(ids[texts.index(None)])}"
        ids = {each: 1.0 for each in texts if each is not None}
    if not isinstance(ids, dict):
        return f"{name} must be a list of ids, such as {_EXAMPLE}, or ids with grades, found {shown(ids)}"
    if not ids:
        return f"{name} must hold at least one id, found none"
    for each, grade in ids.items():
        if not each.strip() or (each.startswith("HP:") and _HPO_ID.fullmatch(each) is None):
            return f"an id of HPO is HP: and seven digits, found {shown(each)}"
        if isinstance(grade, bool) or not isinstance(grade, (int, float)) or not math.isfinite(grade) or grade <= 0:
            return f"the grade of {each} must be a number above 0, found {shown(grade)}"
    return {each: float(grade) for each, grade in ids.items()}


def case_schema() -> JsonObject:
    """The JSON Schema of case files, from what the reader accepts."""
    ids: JsonObject = {"type": "string", "minLength": 1, "pattern": r"^(?!HP:)|^HP:\d{7}$"}
    expected: JsonObject = {
        "description": "The expected terms: ids, or ids with grades.",
        "anyOf": [
            {"type": "array", "items": ids, "minItems": 1},
            {
                "type": "object",
                "propertyNames": ids,
                "additionalProperties": {"type": "number", "exclusiveMinimum": 0},
                "minProperties": 1,
            },
        ],
    }
    case: JsonObject = {
        "type": "object",
        "required": ["text"],
        "anyOf": [{"required": [name]} for name in _IDS],
        "properties": {
            "case_id": {"type": ["string", "integer"], "description": "By default its number in the file, from 1."},
            "text": {"type": "string", "pattern": r"\S", "description": "What is searched with."},
            "description": {"type": ["string", "null"], "description": "For readers; nothing searches with it."},
            **dict.fromkeys(_IDS, expected),
            "difficulty": {"enum": [*DIFFICULTIES, None]},
            "category": {"enum": [*CATEGORIES, None]},
            **{name: {"type": ["string", "null"], "description": "By default from the ontology."} for name in _DOMAINS},
        },
    }
    cases: JsonObject = {"type": "array", "items": {"$ref": "#/$defs/case"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Cases of a single-term ontology benchmark, in one language",
        "$defs": {"case": case},
        "anyOf": [
            cases,
            {
                "type": "object",
                "required": ["test_cases"],
                "properties": {
                    "metadata": {
                        "type": "object",
                        "properties": {
                            "dataset_id": {"type": "string"},
                            "version": {"type": "string"},
                            "language": {"enum": [*LANGUAGES, *LANGUAGES.values()]},
                            "description": {"type": "string"},
                        },
                    },
                    "test_cases": cases,
                },
            },
        ],
    }
