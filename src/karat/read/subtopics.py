"""Gold that was judged by subtopic: docs × subtopics. For all that knows no subtopics a doc has its largest grade."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import InputError, UsageError, shown
from karat.model.qrels import Subtopics
from karat.read.columns import SUBTOPIC
from karat.read.objects import build_qrels, is_finite, text_id
from karat.read.problems import Problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from karat.model.qrels import Qrels
    from karat.read.layout import Layout

Judged = dict[str, dict[str, dict[str, float]]]
"""The grade of each query, doc and subtopic."""


def layout_with(layout: Layout, path: str, wanted: bool) -> Layout:
    """The layout with the column of subtopics where it is wanted: by its name, in TREC files only if asked for."""
    if not wanted:
        return replace(layout, parent=None)
    if not layout.header:
        return replace(layout, parent=1)
    if layout.parent is None:
        raise lacking(path)
    return layout


def lacking(source: str) -> InputError:
    """The error for gold that was said to have subtopics, and has none."""
    return InputError(
        f"{source}: holds no subtopics, although they were asked for (subtopics=True, --subtopics); expected a column "
        f"or field {SUBTOPIC!r}, or TREC qrels (query subtopic doc grade)"
    )


def gold_by_subtopic(judged: Judged, source: str) -> Qrels:
    """Gold from clean ids and finite grades."""
    gold = build_qrels({q: {d: max(by.values()) for d, by in docs.items()} for q, docs in judged.items()}, source)
    each = [by for q in gold.query_ids for by in judged[q].values()]
    return replace(
        gold,
        subtopics=Subtopics(
            np.repeat(np.arange(len(each)), [len(by) for by in each]),
            [name for by in each for name in by],
            np.array([grade for by in each for grade in by.values()], dtype=np.float64),
        ),
    )


def gold_from_rows(rows: Iterable[tuple[int, str, str, float, str | None]], source: str, word: str) -> Qrels:
    """Gold from rows that know their place (a line or a row); a contradiction names both places."""
    problems = Problems(source)
    judged: Judged = {}
    place: dict[tuple[str, str, str], int] = {}
    for at, query, doc, grade, named in rows:
        name = named or ""
        docs = judged.setdefault(query, {}).setdefault(doc, {})
        if docs.setdefault(name, grade) != grade:
            problems.add(
                at if word == "line" else None,
                f"query {shown(query)}, doc {shown(doc)}, subtopic {shown(name)} is judged {grade:g} "
                f"{'here' if word == 'line' else f'in row {at}'} and {docs[name]:g} at {word} "
                f"{place[query, doc, name]}; expected one grade: remove one",
            )
        place.setdefault((query, doc, name), at)
    problems.check()
    return gold_by_subtopic(judged, source)


def is_nested(data: Mapping[Any, Any]) -> bool:
    """Whether a mapping holds grades, or names, of subtopics where others hold a grade."""
    inner = (docs.values() for docs in data.values() if isinstance(docs, Mapping))
    return any(isinstance(v, (Mapping, Set, list, tuple)) for values in inner for v in values)


def gold_from_mapping(data: Mapping[Any, Any], source: str) -> Qrels:
    """Gold from {query: {doc: {subtopic: grade}}}, or {query: {doc: subtopics}} with grade 1 in each."""
    problems = Problems(source)
    judged: Judged = {}
    for query, docs in data.items():
        q = text_id(query)
        if q is None or not isinstance(docs, Mapping):
            problems.add(
                None, f"query {shown(query)}: expected a text id and {{doc: {{subtopic: grade}}}}, found {shown(docs)}"
            )
            continue
        for doc, by in docs.items():
            d = text_id(doc)
            if d is None:
                problems.add(None, f"query {shown(q)}: a doc id must be text or an integer, found {shown(doc)}")
            elif not isinstance(by, (Mapping, Set, list, tuple)) or not by:
                problems.add(
                    None,
                    f"query {shown(q)}, doc {shown(d)}: expected grades by subtopic, as other docs have, "
                    f"found {shown(by)}",
                )
            else:
                grades = by if isinstance(by, Mapping) else dict.fromkeys(by, 1)
                judged.setdefault(q, {}).setdefault(d, {}).update(_graded(grades, q, d, problems))
    problems.check()
    return gold_by_subtopic(judged, source)


def _graded(grades: Mapping[Any, Any], query: str, doc: str, problems: Problems) -> dict[str, float]:
    out: dict[str, float] = {}
    for topic, grade in grades.items():
        name = text_id(topic)
        where = f"query {shown(query)}, doc {shown(doc)}"
        if name is None:
            problems.add(None, f"{where}: a subtopic must be text or an integer, found {shown(topic)}")
        elif not is_finite(grade):
            problems.add(None, f"{where}, subtopic {shown(name)}: grade must be a finite number, found {shown(grade)}")
        else:
            out[name] = float(grade)
    return out


def checked(gold: Qrels, wanted: bool | None) -> Qrels:
    """The gold, if it has the subtopics that are wanted; without them where they are not."""
    if wanted not in (None, True, False):
        raise UsageError(f"subtopics must be true or false, found {wanted!r}")
    if wanted and gold.subtopics is None:
        raise lacking(gold.source)
    return replace(gold, subtopics=None) if wanted is False and gold.subtopics is not None else gold


def missing_names(rows: Sequence[tuple[int, str, str, float, str | None]], problems: Problems) -> None:
    """Where some lines of a file name a subtopic, all must."""
    if any(row[4] is not None for row in rows):
        for row in rows:
            if row[4] is None:
                problems.add(row[0], f"no {SUBTOPIC!r}, which other lines have; expected one on every line")
    problems.check()
