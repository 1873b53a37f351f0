"""The labels of people: which grade counts for each pair, and how far people agree."""

from __future__ import annotations

import hashlib
import json
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from karat.errors import InputError, shown
from karat.judge.judgments import Adjudicator, Judgment, Judgments, Person
from karat.records import dataclass
from karat.results.words import plural
from karat.stats.agreement import kappa, krippendorff_alpha
from karat.stats.defaults import CONFIDENCE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from karat.judge.pairs import DrawUnit
    from karat.stats.intervals import Interval


@dataclass(frozen=True)
class PairLabels:
    """What people say of one pair."""

    labels: tuple[Judgment, ...]
    """Of each person."""
    adjudication: Judgment | None = None
    """The grade that somebody chose who saw the labels."""

    @property
    def rows(self) -> tuple[Judgment, ...]:
        return self.labels if self.adjudication is None else (*self.labels, self.adjudication)

    @property
    def disputed(self) -> bool:
        """Whether people give different grades."""
        return len({row.grade for row in self.labels}) > 1

    @property
    def grade(self) -> int:
        """The adjudicated grade, else the median of the labels, the lower of two in the middle."""
        rows = self.labels if self.adjudication is None else (self.adjudication,)
        grades = sorted(row.grade for row in rows if row.grade is not None)
        return grades[(len(grades) - 1) // 2]

    @property
    def draws(self) -> set[DrawUnit | None]:
        """What was drawn at random for those who judged the pair; None for a pair that somebody chose."""
        return {row.drawn.unit if row.drawn.how == "random" else None for row in self.rows}


def group_labels(judgments: Judgments, scale: str) -> dict[tuple[str, str], PairLabels]:
    """The labels of each pair; grades on another scale mean something else, and are refused."""
    labels: dict[tuple[str, str], list[Judgment]] = {}
    adjudications: dict[tuple[str, str], Judgment] = {}
    for row in judgments.rows:
        if not isinstance(row.by, (Person, Adjudicator)):
            continue
        if row.scale != scale:
            raise InputError(
                f"{judgments.path}: {row.by.label} labelled on the scale {row.scale}, the judge on {scale}; "
                "expected one scale: label again, or ask the judge on the scale of the labels"
            )
        own = labels.setdefault(row.ids, [])
        if isinstance(row.by, Adjudicator):
            adjudications[row.ids] = row
        else:
            own.append(row)
    return {ids: PairLabels(tuple(rows), adjudications.get(ids)) for ids, rows in labels.items()}


def select_drawn(people: Mapping[tuple[str, str], PairLabels], unit: DrawUnit) -> dict[tuple[str, str], PairLabels]:
    """The labels that are a random sample of pairs, or of whole queries.

    A pair of a query that was drawn whole may have its label from another sample: nobody is asked twice.
    """
    if unit == "pair":
        return {ids: pair for ids, pair in people.items() if pair.draws == {"pair"}}
    queries = {query for (query, _), pair in people.items() if "query" in pair.draws}
    return {ids: pair for ids, pair in people.items() if ids[0] in queries}


def find_labels(judgments: Judgments, scale: str, unit: DrawUnit = "pair") -> dict[tuple[str, str], int]:
    """The grade that people give to each pair that was drawn at random, by itself or with its whole query."""
    return {ids: pair.grade for ids, pair in select_drawn(group_labels(judgments, scale), unit).items()}


def fingerprint_labels(labels: Mapping[tuple[str, str], int]) -> str:
    """Which pairs have a label, and which grade: the same for the same ones in any order."""
    rows = sorted((*ids, grade) for ids, grade in labels.items())
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def find_gap(pairs: Iterable[tuple[str, str]], labels: Collection[tuple[str, str]]) -> str:
    """Why queries that were drawn whole cannot be used: some of their pairs have no label; empty if all have one."""
    drawn = {query for query, _ in labels}
    gaps = [pair for pair in pairs if pair[0] in drawn and pair not in labels]
    if not gaps:
        return ""
    return (
        f"{plural(len(gaps), 'pair')} of queries that were drawn whole {'has' if len(gaps) == 1 else 'have'} no label, "
        f"such as query {shown(gaps[0][0])}, doc {shown(gaps[0][1])}; label all of them"
    )


@dataclass(frozen=True)
class PeopleKappa:
    """How far two people agree, beyond chance."""

    first: str
    second: str
    kappa: Interval
    """Weighted by the square of the distance of grades; over the pairs that both labelled."""


@dataclass(frozen=True)
class PeopleAgreement:
    """How far people agree on pairs that several of them labelled."""

    pairs: int
    disputed: int
    """Pairs with different labels."""
    adjudicated: int
    """Those of them that somebody settled."""
    alpha: Interval
    """Krippendorff's, of all people."""
    kappas: tuple[PeopleKappa, ...]


def measure_people(
    pairs: Iterable[PairLabels], grades: Sequence[float], *, confidence: float = CONFIDENCE
) -> PeopleAgreement | None:
    """How far people agree; None where no pair has labels of two. Adjudicated grades are not labels."""
    shared = [pair for pair in pairs if len(pair.labels) > 1]
    if not shared:
        return None
    names = sorted({row.by.label for pair in shared for row in pair.labels})
    ratings = np.full((len(shared), len(names)), np.nan)
    for i, pair in enumerate(shared):
        for row in pair.labels:
            ratings[i, names.index(row.by.label)] = row.grade
    kappas = []
    for a, b in combinations(range(len(names)), 2):
        both = ~np.isnan(ratings[:, [a, b]]).any(axis=1)
        if both.any():
            sides = ratings[both, a], ratings[both, b]
            one = kappa(*sides, by="quadratic", grades=grades, confidence=confidence)
            kappas.append(PeopleKappa(names[a], names[b], one))
    disputes = [pair for pair in shared if pair.disputed]
    return PeopleAgreement(
        len(shared),
        len(disputes),
        sum(pair.adjudication is not None for pair in disputes),
        krippendorff_alpha(ratings, confidence=confidence),
        tuple(kappas),
    )
