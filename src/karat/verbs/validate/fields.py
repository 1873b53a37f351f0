"""Checks of the fields that queries are sliced by."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from karat.model.docs import TEXT_FIELDS
from karat.stats.defaults import MIN_SEGMENT
from karat.verbs.validate.findings import make_finding, many, quote_id
from karat.verbs.validate.tables import place

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from karat.verbs.validate.findings import LintFinding
    from karat.verbs.validate.tables import TableFile

LANGUAGE_FIELDS = ("language", "lang", "locale", "query_language", "query_lang")
MOST_VALUES = 50
_NO_SEGMENT = frozenset(
    (
        *TEXT_FIELDS,
        "as_of",
        "no_answer",
        "conversation",
        "weight",
        "entities",
        "negatives",
        "ideal_answer",
        "title",
        "description",
        "narrative",
        "answer",
        "answers",
        "url",
        "date",
        "timestamp",
        "created_at",
        "user",
        "notes",
        "comment",
    )
)
_NAMES = {
    "ar": "arabic ara",
    "cs": "czech ces cze čeština",
    "da": "danish dan dansk",
    "de": "german deu ger deutsch",
    "el": "greek ell gre",
    "en": "english eng englisch inglês anglais",
    "es": "spanish spa español castellano spanisch",
    "fa": "persian farsi fas per",
    "fi": "finnish fin suomi",
    "fr": "french fra fre français französisch",
    "he": "hebrew heb",
    "hi": "hindi hin",
    "hu": "hungarian hun magyar",
    "id": "indonesian ind",
    "it": "italian ita italiano",
    "ja": "japanese jpn 日本語",
    "ko": "korean kor 한국어",
    "nl": "dutch nld dut nederlands",
    "no": "norwegian nor norsk",
    "pl": "polish pol polski",
    "pt": "portuguese por português portugues",
    "ro": "romanian ron rum",
    "ru": "russian rus русский",
    "sv": "swedish swe svenska",
    "th": "thai tha",
    "tr": "turkish tur türkçe",
    "uk": "ukrainian ukr",
    "vi": "vietnamese vie",
    "zh": "chinese zho chi mandarin 中文",
}
_TAG = {name: tag for tag, names in _NAMES.items() for name in (tag, *names.split())}


def check_fields(table: TableFile, with_gold: Collection[str] | None = None) -> Iterator[LintFinding]:
    """Values in several spellings, and segments that are too small among the queries that are evaluated."""
    fields = find_segment_fields(table)
    for code, languages in (("Q207", False), ("Q208", True)):
        spelled = {
            name: groups
            for name, rows in fields.items()
            if (name.lower() in LANGUAGE_FIELDS) == languages
            and (groups := _languages(rows) if languages else _spellings(rows))
        }
        if spelled:
            texts = [
                f"{name}: "
                + "; ".join(
                    " / ".join(f"{quote_id(v)} ({len(fields[name][v])})" for v in group) for group in groups[:3]
                )
                for name, groups in spelled.items()
            ]
            # A place of each spelling, not the first rows of one.
            lines = [fields[name][v][0] for name, groups in spelled.items() for group in groups for v in group]
            yield make_finding(
                code,
                table.path,
                " · ".join(texts),
                (place(table.path, line) for line in lines),
                sum(map(len, spelled.values())),
            )
    yield from _small(table, find_segment_fields(table, with_gold))


def _small(table: TableFile, fields: Mapping[str, Mapping[str, Sequence[int]]]) -> Iterator[LintFinding]:
    texts, lines = [], []
    for name, rows in fields.items():
        small = sorted((v for v in rows if len(rows[v]) < MIN_SEGMENT), key=lambda v: -len(rows[v]))
        if small:
            some = ", ".join(f"{quote_id(v)} {len(rows[v])}" for v in small[:3]) + (", …" if len(small) > 3 else "")
            texts.append(f"{name}, {len(small)} of {many(len(rows), 'value')} ({some})")
            lines += [rows[v][0] for v in small]
    if texts:
        yield make_finding(
            "Q209",
            table.path,
            f"fewer than {MIN_SEGMENT} queries have the same value: {'; '.join(texts)}",
            (place(table.path, line) for line in lines),
            len(lines),
        )


def find_segment_fields(table: TableFile, with_gold: Collection[str] | None = None) -> dict[str, dict[str, list[int]]]:
    """The fields that look like ones to slice by: the lines of each value, of the queries that are evaluated.

    Most queries have the field, its values are short, and they are few for the number of queries.
    """
    out: dict[str, dict[str, list[int]]] = {}
    rows = [row for row in table.rows if with_gold is None or row[1] in with_gold]
    counts = Counter(name for _, _, fields in rows for name in fields)
    for name, count in counts.items():
        if name.lower() in _NO_SEGMENT or count < len(rows) / 2:
            continue
        values: dict[str, list[int]] = defaultdict(list)
        for line, _, fields in rows:
            value: Any = fields.get(name)
            if value is not None:
                values[str(value) if isinstance(value, (str, int)) else ""].append(line)
        few = 2 <= len(values) <= min(MOST_VALUES, count / 2)
        if few and "" not in values and all(len(v) <= 60 for v in values):
            out[name] = values
    return out


def _spellings(rows: Mapping[str, Sequence[int]]) -> list[list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for value in rows:
        groups["".join(c for c in value.casefold() if not (c.isspace() or c in "-_"))].append(value)
    return [g for g in groups.values() if len(g) > 1]


def _languages(rows: Mapping[str, Sequence[int]]) -> list[list[str]]:
    """Languages that are written in several ways; several regions of one language are not that."""
    tags: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for value in rows:
        language, _, region = value.strip().casefold().replace("_", "-").partition("-")
        tags[_TAG.get(language, language)][region].append(value)
    out = []
    for regions in tags.values():
        several_spellings = any(len(values) > 1 for values in regions.values())
        bare = "" in regions and len(regions) > 1
        if several_spellings or bare:
            out.append([v for values in regions.values() if bare or len(values) > 1 for v in values])
    return out
