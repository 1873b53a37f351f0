"""False evidence by grades: queries without an answer whose top k holds a doc that gold or judge grades relevant."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from karat.align import align
from karat.metrics.grammar import parse
from karat.model.policy import is_judged
from karat.read.objects import build_qrels
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.judge.completed_gold import CompletedGold
    from karat.metrics.grammar import Measure
    from karat.model.policy import Policy
    from karat.model.rankings import Rankings
    from karat.model.run import Run

NAME = "false_evidence"


@dataclass(frozen=True)
class UnanswerableRankings:
    """The queries without an answer that have grades and are in the run."""

    gold: Rankings
    """By the gold alone."""
    both: Rankings
    """By gold and judge."""


def rank_unanswerable(
    completed: CompletedGold, run: Run, policy: Policy, no_answer: Sequence[str]
) -> UnanswerableRankings | None:
    """Align a run with the grades of queries without an answer; None where they have none."""
    graded = {q: completed.qrels.for_query(q) for q in no_answer}
    graded = {q: grades for q, grades in graded.items() if any(map(is_judged, grades.values()))}
    if not graded:
        return None
    of_gold = {
        q: {doc: grade if (q, doc) in completed.known else -1.0 for doc, grade in grades.items()}
        for q, grades in graded.items()
    }
    own = replace(policy, missing="skip", empty_gold="zero")
    gold, both = (align(build_qrels(some, "queries without an answer"), run, own)[0] for some in (of_gold, graded))
    return UnanswerableRankings(gold.rankings, both.rankings)


def hit_of(measure: Measure) -> Measure:
    """Whether the top k holds a relevant doc: of a query without an answer that is false evidence."""
    return parse("hit" if measure.k is None else f"hit@{measure.k}")
