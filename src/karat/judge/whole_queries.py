"""Figures corrected by queries that were drawn whole: right on average for any metric, whatever the judge does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from karat.judge.completed_gold import CompletedGold, complete_gold
from karat.judge.people_labels import find_gap
from karat.records import dataclass
from karat.results.words import plural
from karat.stats.prediction_powered import CorrectedValues, Labels, correct_by_query
from karat.stats.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.judge.judgments import Judgment
    from karat.metrics.grammar import Measure
    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.rankings import Rankings
    from karat.results.sampling import Sampling

FEWEST = 2
"""One query alone does not say how queries vary."""


@dataclass(frozen=True)
class RankingsByPeople:
    """A run with people's grades for queries that were drawn whole, and the judge's for others."""

    rankings: Rankings
    unanswerable: Rankings | None = None
    """Of queries without an answer, where these have grades."""


def complete_by_people(
    gold: Qrels,
    rows: Sequence[Judgment],
    labels: Mapping[tuple[str, str], int],
    policy: Policy,
    *,
    no_answer: Sequence[str] = (),
) -> CompletedGold | None:
    """The gold completed by a judge, with labels of whole queries in the place of its grades; None without labels."""
    if not labels:
        return None
    by_people = [structs.replace(row, grade=labels.get(row.ids, row.grade)) for row in rows]
    return complete_gold(gold, by_people, policy, no_answer=no_answer)


def correct_by_whole_queries(
    measure: Measure,
    judge: Rankings,
    people: Rankings,
    pairs: Sequence[tuple[str, str]],
    labels: Mapping[tuple[str, str], int],
    sampling: Sampling,
) -> CorrectedValues | str:
    """A metric as people see it, or why it cannot be had; `pairs` are those that the judge alone grades.

    Queries without such pairs are certain. Of the others, those that were drawn are a random sample.
    """
    ids = judge.query_ids
    here = set(ids)
    graded = {query for query, _ in pairs} & here
    drawn = {query for query, _ in labels} & graded
    if list(people.query_ids) != list(ids):
        return "people and the judge find other queries without a relevant doc, and these are left out"
    if len(drawn) < FEWEST:
        return f"{plural(len(drawn), 'query', 'queries')} drawn whole, expected at least {FEWEST}"
    if gap := find_gap((pair for pair in pairs if pair[0] in here), labels):
        return gap
    values, by_people = measure(judge), measure(people)
    eligible, chosen = (np.array([query in some for query in ids], dtype=bool) for some in (graded, drawn))
    if np.isnan(values).any() or np.isnan(by_people[chosen]).any():
        return "it is undefined for some queries"
    survey = Survey.even(int(chosen.sum()), int(eligible.sum()))
    return correct_by_query(
        values,
        eligible,
        Labels(np.flatnonzero(chosen[eligible]), by_people[chosen], survey),
        units=sampling.units(ids),
        bounds=(0.0, 1.0),
        confidence=sampling.confidence,
        resamples=sampling.resamples,
        seed=sampling.seed,
    )
