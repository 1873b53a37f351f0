"""Files and dicts of gold that is judged by subtopic. Where subtopics do not matter, a doc has its largest grade."""

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

Judgments = dict[str, dict[str, dict[str, float]]]
"""The grade of each query, doc and subtopic."""


def layout_with(layout: Layout, path: str, keep: bool) -> Layout:
    """The layout with or without its column of subtopics, which is the second one of TREC files."""
    if not keep:
        return replace(layout, parent=None)
    if not layout.header:
        return replace(layout, parent=1)
    if layout.parent is None:
        raise missing_subtopics(path)
    return layout


def missing_subtopics(source: str) -> InputError:
    """The error for gold without the subtopics that the caller asks for."""
    return InputError(
        f"{source}: holds no subtopics, although they were asked for (subtopics=True, --subtopics); expected a column "
        f"or field {SUBTOPIC!r}, or TREC qrels (query subtopic doc grade)"
    )


def gold_by_subtopic(judgments: Judgments, source: str) -> Qrels:
    """Gold from clean ids and finite grades."""
    gold = build_qrels({q: {d: max(by.values()) for d, by in docs.items()} for q, docs in judgments.items()}, source)
    each = [by for q in gold.query_ids for by in judgments[q].values()]
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
    judgments: Judgments = {}
    place: dict[tuple[str, str, str], int] = {}
    for at, query, doc, grade, subtopic in rows:
        name = subtopic or ""
        docs = judgments.setdefault(query, {}).setdefault(doc, {})
        if docs.setdefault(name, grade) != grade:
            problems.add(
                at if word == "line" else None,
                f"query {shown(query)}, doc {shown(doc)}, subtopic {shown(name)} is judged {grade:g} "
                f"{'here' if word == 'line' else f'in row {at}'} and {docs[name]:g} at {word} "
                f"{place[query, doc, name]}; expected one grade: remove one",
            )
        place.setdefault((query, doc, name), at)
    problems.check()
    return gold_by_subtopic(judgments, source)


def is_nested(data: Mapping[Any, Any]) -> bool:
    """Whether a mapping holds subtopics where others hold a grade."""
    inner = (docs.values() for docs in data.values() if isinstance(docs, Mapping))
    return any(isinstance(v, (Mapping, Set, list, tuple)) for values in inner for v in values)


def gold_from_mapping(data: Mapping[Any, Any], source: str) -> Qrels:
    """Gold from {query: {doc: {subtopic: grade}}}, or {query: {doc: subtopics}} with grade 1 in each."""
    problems = Problems(source)
    judgments: Judgments = {}
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
                grades = by.items() if isinstance(by, Mapping) else [(topic, 1) for topic in by]
                judgments.setdefault(q, {}).setdefault(d, {}).update(_check_grades(grades, q, d, problems))
    problems.check()
    return gold_by_subtopic(judgments, source)


def _check_grades(grades: Iterable[tuple[Any, Any]], query: str, doc: str, problems: Problems) -> dict[str, float]:
    out: dict[str, float] = {}
    for topic, grade in grades:
        name = text_id(topic)
        where = f"query {shown(query)}, doc {shown(doc)}"
        if name is None:
            problems.add(None, f"{where}: a subtopic must be text or an integer, found {shown(topic)}")
        elif not is_finite(grade):
            problems.add(None, f"{where}, subtopic {shown(name)}: grade must be a finite number, found {shown(grade)}")
        else:
            out[name] = float(grade)
    return out


def check_subtopics(gold: Qrels, keep: bool | None) -> Qrels:
    """The gold, with its subtopics or without; an error if it has none to keep."""
    if keep not in (None, True, False):
        raise UsageError(f"subtopics must be true or false, found {keep!r}")
    if keep and gold.subtopics is None:
        raise missing_subtopics(gold.source)
    return replace(gold, subtopics=None) if keep is False and gold.subtopics is not None else gold


def missing_names(rows: Sequence[tuple[int, str, str, float, str | None]], problems: Problems) -> None:
    """Where some lines of a file name a subtopic, all must."""
    if any(row[4] is not None for row in rows):
        for row in rows:
            if row[4] is None:
                problems.add(row[0], f"no {SUBTOPIC!r}, which other lines have; expected one on every line")
    problems.check()
