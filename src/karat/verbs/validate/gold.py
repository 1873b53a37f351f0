"""Checks of one file of gold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from karat.model.policy import RELEVANT, is_judged, is_relevant
from karat.verbs.validate.findings import LintFinding, list_some, make_finding, many
from karat.verbs.validate.matching import check_ids

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from karat.verbs.validate.tables import GoldFile

HIGHEST = 4
FEW = 10
"""Judgments below which equal grades say nothing."""


def check_gold(gold: GoldFile, unanswerable: Collection[str] = ()) -> Iterator[LintFinding]:
    """All checks that need nothing but this file."""
    if not len(gold.grades):
        return
    yield from check_ids(gold.path, "query", gold.queries, gold.at)
    yield from check_ids(gold.path, "doc", gold.docs, gold.at)
    yield from _repeats(gold)
    yield from _relevant(gold, unanswerable)
    yield from _grades(gold)


def _repeats(gold: GoldFile) -> Iterator[LintFinding]:
    """Pairs that are judged twice, with one grade or with two."""
    first: dict[tuple[str, str, str | None], int] = {}
    same: list[int] = []
    other: list[tuple[int, int]] = []
    grades = gold.grades.tolist()
    topics = gold.subtopics or [None] * len(gold.docs)
    for row, pair in enumerate(zip(gold.queries, gold.docs, topics, strict=True)):
        before = first.setdefault(pair, row)
        if before == row:
            continue
        if grades[before] == grades[row]:
            same.append(row)
        else:
            other.append((before, row))
    if other:
        a, b = other[0]
        yield make_finding(
            "G101",
            gold.path,
            f"{many(len(other), 'judgment contradicts', 'judgments contradict')} an earlier one: query "
            f"{gold.queries[a]}, doc {gold.docs[a]} has grade {grades[a]:g} and {grades[b]:g}",
            (gold.at(row) for pair in other for row in pair),
            len(other),
        )
    if same:
        row = same[0]
        before = first[gold.queries[row], gold.docs[row], topics[row]]
        yield make_finding(
            "G102",
            gold.path,
            f"{many(len(same), 'judgment repeats', 'judgments repeat')} an earlier one with the same grade: query "
            f"{gold.queries[row]}, doc {gold.docs[row]} is first at {gold.at(before)}",
            map(gold.at, same),
            len(same),
        )


def _relevant(gold: GoldFile, unanswerable: Collection[str]) -> Iterator[LintFinding]:
    """Queries whose docs are all not relevant, but for those that are marked no_answer."""
    best: dict[str, float] = {}
    row_of: dict[str, int] = {}
    for row, (q, grade) in enumerate(zip(gold.queries, gold.grades.tolist(), strict=True)):
        best[q] = max(grade, best.get(q, grade))
        row_of.setdefault(q, row)
    none = [q for q, grade in best.items() if not is_relevant(grade)]
    without = [q for q in none if q not in unanswerable]
    if len(none) == len(best) and without:
        top = max(best.values())
        near = f"the highest grade is {top:g}, but docs are relevant only from grade {RELEVANT:g}"
        yield make_finding(
            "G104", gold.path, f"none of {many(len(best), 'query', 'queries')} has a relevant doc: {near}", []
        )
    elif without:
        yield make_finding(
            "G103",
            gold.path,
            f"{len(without):,} of {many(len(best), 'query', 'queries')} {'has' if len(without) == 1 else 'have'} "
            f"no relevant doc: {list_some(without)}",
            (gold.at(row_of[q]) for q in without),
            len(without),
        )


def _grades(gold: GoldFile) -> Iterator[LintFinding]:
    """Grades that are unusual: all alike, fractional, negative, above the scale."""
    grades = gold.grades
    if len(grades) >= FEW and (grades == grades[0]).all() and is_relevant(grades[0]):
        yield make_finding(
            "G105", gold.path, f"all {len(grades):,} judgments have grade {grades[0]:g}", [], len(grades)
        )
    kinds = {
        "G106": (grades != np.floor(grades), "fractional"),
        "G107": (~is_judged(grades), "negative"),
        "G108": (grades > HIGHEST, f"above {HIGHEST}"),
    }
    for code, (which, what) in kinds.items():
        rows = np.flatnonzero(which)
        if len(rows):
            values = [f"{g:g}" for g in dict.fromkeys(grades[rows].tolist())]
            message = f"{many(len(rows), 'grade is', 'grades are')} {what}, of {len(grades):,}: {list_some(values)}"
            yield make_finding(code, gold.path, message, (gold.at(int(r)) for r in rows[:9]), len(rows))
