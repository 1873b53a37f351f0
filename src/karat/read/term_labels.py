"""Labels of terms in another language: babelon's tables of translations, or a text, or several, for each id."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from karat.errors import InputError, Problem, shown
from karat.read.cases import LANGUAGES
from karat.read.columns import TableKind
from karat.read.files import check_path, open_input
from karat.read.formats import read_table_rows, recognise_format
from karat.read.objects import text_id
from karat.read.problems import Problems
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karat.model.docs import Fields
    from karat.model.json_data import JsonObject
    from karat.read.files import InputFile

LABELS = TableKind("term", "labels", "labels", ("subject_id", "_id", "id", "hpo_id", "term_id", "term"))
"""A row is one label of a term: a term may have several."""
TEXTS = ("translation_value", "label", "labels", "text", "name", "synonym", "synonyms")
"""Columns that may hold the label; the first that a row has counts."""
_LANGUAGES = ("translation_language", "language", "lang")
_PREDICATE = "predicate_id"
_NAMES_A_TERM = re.compile(r"label|synonym|prefLabel|altLabel", re.IGNORECASE)
"""Predicates of labels and synonyms. Definitions (IAO:0000115) are not labels."""
_UNTRANSLATED = "NOT_TRANSLATED"


@dataclass(frozen=True, slots=True)
class Label:
    """One name of a term; `language` is None where its file states none."""

    line: int | None
    term: str
    text: str
    language: str | None


def read_labels(path: str) -> list[Label]:
    """The labels and synonyms in a file, in its order; what has no translation is left out."""
    file = open_input(check_path(path))
    problems = Problems(path)
    labels: list[Label] = []
    for line, fields in _rows(file, problems):
        term = next((text_id(fields[name]) for name in LABELS.id_names if name in fields), None)
        if term is None or not term.strip():
            problems.add(line, f"no id of a term; expected one of {', '.join(LABELS.id_names)}, and its label")
            continue
        if fields.get("translation_status") == _UNTRANSLATED or not _is_name(fields):
            continue
        language = _language(fields)
        texts = next((fields[name] for name in TEXTS if fields.get(name)), None)
        for text in texts if isinstance(texts, list) else [texts]:
            if text is None and _PREDICATE in fields:
                continue  # a translation that is yet to be made
            if isinstance(text, str) and text.strip():
                labels.append(Label(line, term.strip(), text.strip(), language))
            else:
                problems.add(line, f"the label of {shown(term)} must be text, found {shown(text)}")
    problems.check()
    if not labels:
        raise InputError(f"{path}: holds no labels, expected a table of babelon, or an id and a text for each term")
    return labels


def _rows(file: InputFile, problems: Problems) -> Iterator[tuple[int | None, Fields]]:
    """The rows of a table, or the items of a JSON object {id: label} or {id: [labels]}."""
    if not file.head.strip() or recognise_format(file, "table").name != "json":
        yield from read_table_rows(file, problems, LABELS)
        return
    for term, texts in _read_object(file).items():
        yield None, {"id": term, "text": texts}


def _read_object(file: InputFile) -> JsonObject:
    import msgspec

    from karat.read.json_lines import NOT_JSON, reason

    raw = file.all_bytes()
    expected = "expected a JSON object {id: label} or {id: [labels]}"
    try:
        data: JsonObject = msgspec.json.decode(raw, type=dict)
    except msgspec.ValidationError:
        raise InputError(f"{file.path}: {expected}, found {shown(raw.strip())}") from None
    except NOT_JSON as error:
        at = re.search(r"\(byte (\d+)\)", str(error))
        line = raw[: int(at[1])].count(10) + 1 if at else None
        raise InputError(Problem(file.path, line, reason(error, raw, expected))) from None
    return data


def _is_name(fields: Fields) -> bool:
    predicate = fields.get(_PREDICATE)
    return predicate is None or _NAMES_A_TERM.search(str(predicate)) is not None


def _language(fields: Fields) -> str | None:
    """The language that a row states, by its code: `de` for `de-AT`, `DE` and `german`."""
    stated = next((str(fields[name]) for name in _LANGUAGES if fields.get(name)), None)
    if stated is None:
        return None
    code = re.split(r"[-_]", stated.strip().lower())[0]
    return next((c for c, name in LANGUAGES.items() if name == code), code)
