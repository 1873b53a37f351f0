"""Checks of one table of queries, and of the fields that queries are sliced by."""

from __future__ import annotations

import datetime as dt
import unicodedata
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from karat.model.dates import day_of
from karat.model.docs import TEXT_FIELDS, text_of
from karat.model.queries import yes_or_no
from karat.read.columns import number_of
from karat.read.objects import text_id
from karat.read.query_fields import id_list
from karat.stats.defaults import MIN_SEGMENT
from karat.verbs.validate.findings import LintFinding, list_some, make_finding, many, quote_id
from karat.verbs.validate.matching import check_ids
from karat.verbs.validate.overlap import fold, near_groups
from karat.verbs.validate.tables import TableFile, place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence


def check_queries(
    table: TableFile, with_gold: Collection[str] | None = None, today: dt.date | None = None
) -> Iterator[LintFinding]:
    """All checks of one table; where it is known which queries are evaluated, only these can repeat each other."""
    if not table.rows:
        return
    yield from check_ids(table.path, "query", [q for _, q, _ in table.rows], lambda i: _at(table, i))
    yield from _twice(table)
    yield from _texts(table, with_gold)
    yield from _dates(table, today or dt.date.today())
    yield from _weights(table)
    yield from _conversations(table)
    yield from _answers(table)
    yield from _unreadable(table)
    yield from check_fields(table, with_gold)


def _at(table: TableFile, row: int) -> str:
    return place(table.path, table.rows[row][0])


def _twice(table: TableFile) -> Iterator[LintFinding]:
    first: dict[str, int] = {}
    twice = [i for i, (_, q, _) in enumerate(table.rows) if first.setdefault(q, i) != i]
    if twice:
        q = table.rows[twice[0]][1]
        yield make_finding(
            "Q201",
            table.path,
            f"{many(len(twice), 'query has', 'queries have')} an id that another query has: {quote_id(q)} is first at "
            f"line {table.rows[first[q]][0]}",
            (_at(table, i) for i in twice),
            len(twice),
        )


def _texts(table: TableFile, with_gold: Collection[str] | None) -> Iterator[LintFinding]:
    """Texts that are missing, the same, or nearly the same."""
    if not table.has_text:
        return
    ids_so_far: set[str] = set()
    rows = [i for i, (_, q, _) in enumerate(table.rows) if not (q in ids_so_far or ids_so_far.add(q))]  # type: ignore[func-returns-value]
    texts = {i: fold(text_of(table.rows[i][2])) for i in rows}
    empty = [i for i in rows if not text_of(table.rows[i][2]).strip()]
    if empty:
        ids = [table.rows[i][1] for i in empty]
        yield make_finding(
            "Q202",
            table.path,
            f"{many(len(empty), 'query has', 'queries have')} no text: {list_some(ids)}",
            (_at(table, i) for i in empty),
            len(empty),
        )
    groups: dict[str, list[int]] = defaultdict(list)
    for i, text in texts.items():
        if text and (with_gold is None or table.rows[i][1] in with_gold):
            groups[text].append(i)
    same = [g for g in groups.values() if len(g) > 1]
    if same:
        extra = sum(len(g) - 1 for g in same)
        yield make_finding(
            "Q203",
            table.path,
            f"{many(extra, 'query repeats', 'queries repeat')} the text of another: {_pair(table, same[0])}",
            (_at(table, i) for g in same for i in g),
            extra,
        )
    firsts = [g[0] for g in groups.values()]
    near, complete = near_groups([texts[i] for i in firsts])
    if near:
        members = [[firsts[i] for i in g] for g in near]
        limit = "" if complete else " (so many queries are alike that not all pairs were compared)"
        yield make_finding(
            "Q204",
            table.path,
            f"{many(sum(map(len, near)), 'query', 'queries')} in {many(len(near), 'group')} with nearly the same text"
            f"{limit}: {_pair(table, members[0])}",
            (_at(table, i) for g in members for i in g),
            sum(map(len, near)),
        )


def _pair(table: TableFile, group: list[int]) -> str:
    (_, a, fields), (_, b, _) = (table.rows[i] for i in group[:2])
    return f"{quote_id(a)} and {quote_id(b)}, {quote_id(text_of(fields), 90)}"


def _with(table: TableFile, name: str) -> list[tuple[int, str, Any]]:
    """Row, query and value of every query that has a field."""
    return [(i, q, f[name]) for i, (_, q, f) in enumerate(table.rows) if f.get(name) is not None]


def _dates(table: TableFile, today: dt.date) -> Iterator[LintFinding]:
    days = [(i, str(value), day_of(value)) for i, _, value in _with(table, "as_of")]
    wrong = [(i, value) for i, value, day in days if day is None]
    if wrong:
        yield make_finding(
            "Q205",
            table.path,
            f"as_of is not a date in {many(len(wrong), 'query', 'queries')}: {list_some([v for _, v in wrong])}",
            (_at(table, i) for i, _ in wrong),
            len(wrong),
        )
    ahead = [(i, value) for i, value, day in days if day is not None and day > today.toordinal()]
    if ahead:
        yield make_finding(
            "Q206",
            table.path,
            f"as_of is after today ({today}) in {many(len(ahead), 'query', 'queries')}: "
            f"{list_some([v for _, v in ahead])}",
            (_at(table, i) for i, _ in ahead),
            len(ahead),
        )


def _weights(table: TableFile) -> Iterator[LintFinding]:
    weights = [(i, value, _weight(value)) for i, _, value in _with(table, "weight")]
    wrong = [(i, value) for i, value, weight in weights if weight is None]
    if wrong:
        yield make_finding(
            "Q210",
            table.path,
            f"weight is not a number of at least 0 in {many(len(wrong), 'query', 'queries')}: "
            f"{list_some([str(v) for _, v in wrong])}",
            (_at(table, i) for i, _ in wrong),
            len(wrong),
        )
    if len(weights) == len(table.rows) and all(weight == 0 for _, _, weight in weights):
        yield make_finding(
            "Q211",
            table.path,
            f"the weight of all {many(len(weights), 'query', 'queries')} is 0",
            (_at(table, i) for i, _, _ in weights),
            len(weights),
        )


def _weight(value: object) -> float | None:
    weight = number_of(value)
    return weight if weight is not None and weight >= 0 else None


def _conversations(table: TableFile) -> Iterator[LintFinding]:
    rows = _with(table, "conversation")
    sizes = Counter(str(value) for _, _, value in rows)
    if len(rows) > 1 and max(sizes.values()) == 1:
        yield make_finding(
            "Q212",
            table.path,
            f"each of the {len(sizes):,} conversations has one query: {list_some(list(sizes))}",
            (_at(table, i) for i, _, _ in rows),
            len(sizes),
        )


def _answers(table: TableFile) -> Iterator[LintFinding]:
    unclear = [(i, v) for i, _, v in _with(table, "no_answer") if yes_or_no(v) is None]
    if unclear:
        yield make_finding(
            "Q213",
            table.path,
            f"no_answer is neither yes nor no in {many(len(unclear), 'query', 'queries')}: "
            f"{list_some([str(v) for _, v in unclear])}",
            (_at(table, i) for i, _ in unclear),
            len(unclear),
        )


CHECKED: dict[str, tuple[Callable[[object], object], str]] = {
    "needs_retrieval": (yes_or_no, "neither yes nor no"),
    "expected_source": (text_id, "not text"),
    "entities": (id_list, "not a list of ids"),
    "negatives": (id_list, "not a list of ids"),
    "added": (day_of, "not a date"),
}
"""Fields that are read where something needs them: how, and what a value is that this makes nothing of."""


def _unreadable(table: TableFile) -> Iterator[LintFinding]:
    wrong = {name: [(i, v) for i, _, v in _with(table, name) if read(v) is None] for name, (read, _) in CHECKED.items()}
    texts = [
        f"{name} is {CHECKED[name][1]} in {many(len(rows), 'query', 'queries')}: {list_some([str(v) for _, v in rows])}"
        for name, rows in wrong.items()
        if rows
    ]
    if texts:
        places = [i for rows in wrong.values() for i, _ in rows]
        yield make_finding("Q214", table.path, "; ".join(texts), (_at(table, i) for i in places), len(places))


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
        "needs_retrieval",
        "title",
        "description",
        "narrative",
        "answer",
        "answers",
        "url",
        "date",
        "timestamp",
        "created_at",
        "created",
        "added",
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

    Most queries have the field, its values are short, and they are few for the number of queries. A list has several.
    """
    out: dict[str, dict[str, list[int]]] = {}
    rows = [row for row in table.rows if with_gold is None or row[1] in with_gold]
    counts = Counter(name for _, _, fields in rows for name in fields)
    for name, count in counts.items():
        if name.lower() in _NO_SEGMENT or count < len(rows) / 2:
            continue
        values: dict[str, list[int]] = defaultdict(list)
        plain = True
        for line, _, fields in rows:
            texts = _values_of(fields.get(name))
            plain = plain and texts is not None
            for text in texts or ():
                values[text].append(line)
        if plain and 2 <= len(values) <= min(MOST_VALUES, count / 2) and all(len(v) <= 60 for v in values):
            out[name] = values
    return out


def _values_of(content: Any) -> list[str] | None:
    """The values of one query: of a list each, of what is empty none; None where it is not text or a whole number."""
    several = content if isinstance(content, (list, tuple)) else [content]
    there = [one for one in several if one is not None]
    if not all(isinstance(one, (str, int)) for one in there):
        return None
    return list(dict.fromkeys(str(one) for one in there if one != ""))


def _spellings(rows: Mapping[str, Sequence[int]]) -> list[list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for value in rows:
        same = unicodedata.normalize("NFC", value).casefold()
        groups["".join(c for c in same if not (c.isspace() or c in "-_"))].append(value)
    return [g for g in groups.values() if len(g) > 1]


def _languages(rows: Mapping[str, Sequence[int]]) -> list[list[str]]:
    """Languages that are written in several ways; several regions of one language are not that."""
    tags: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for value in rows:
        language, _, region = unicodedata.normalize("NFC", value).strip().casefold().replace("_", "-").partition("-")
        tags[_TAG.get(language, language)][region].append(value)
    out = []
    for regions in tags.values():
        several_spellings = any(len(values) > 1 for values in regions.values())
        bare = "" in regions and len(regions) > 1
        if several_spellings or bare:
            out.append([v for values in regions.values() if bare or len(values) > 1 for v in values])
    return out
