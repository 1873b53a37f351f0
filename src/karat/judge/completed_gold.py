"""The gold, completed by the grades of a judge, and queries without an answer where that finds relevant docs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.align import align
from karat.metrics.grammar import Measure, parse
from karat.model.policy import Policy, is_judged, is_relevant
from karat.read.objects import build_qrels
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karat.judge.judgments import Judgment
    from karat.model.qrels import Qrels
    from karat.model.rankings import Rankings
    from karat.model.run import Run


@dataclass(frozen=True, eq=False)
class CompletedGold:
    """Judgments of the gold, and of a judge where the gold has none."""

    qrels: Qrels
    known: frozenset[tuple[str, str]]
    """The pairs that the gold judges."""
    pairs: int
    shared: int
    disagreements: int
    top: float
    """The largest grade of the gold."""


def describe_scale_mismatch(top: float, scale: str, policy: Policy) -> str:
    """Why grades of gold up to `top` and of a judge cannot be mixed; empty if they can."""
    best = int(scale.removeprefix("0-"))
    if policy.binary or not (top > best or top <= 1 < best):
        return ""
    return f"the gold has grades up to {top:g}, the judge up to {best}; --binary makes both 0 and 1"


def complete_gold(
    gold: Qrels, rows: Sequence[Judgment], policy: Policy, *, no_answer: Sequence[str] = ()
) -> CompletedGold:
    """Add a judge's grades for queries of the gold and those without an answer; others are left out.

    A negative grade of the gold says that a doc was pooled and not judged: the judge's grade takes its place.
    """
    grades = {q: gold.for_query(q) for q in gold.query_ids}
    grades |= {q: {} for q in no_answer if q not in grades}
    known = frozenset((q, doc) for q, judged in grades.items() for doc, grade in judged.items() if is_judged(grade))
    regraded = policy.regrade(np.array([row.grade for row in rows], dtype=np.float64)).tolist()
    pairs = shared = disagreements = 0
    for row, grade in zip(rows, regraded, strict=True):
        judged = grades.get(row.query_id)
        if judged is None:
            continue
        if row.ids in known:
            shared += 1
            disagreements += bool(is_relevant(judged[row.doc_id]) != is_relevant(grade))
        else:
            pairs += 1
            judged[row.doc_id] = grade
    qrels = build_qrels({q: own for q, own in grades.items() if own}, gold.source)
    return CompletedGold(qrels, known, pairs, shared, disagreements, float(gold.grades.max(initial=0.0)))


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
