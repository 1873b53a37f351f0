"""Notes of an evaluation: which queries its table, its gold and its metrics do not agree about."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from karat.metrics.pipeline import PIPELINE, ROUTER
from karat.model.ids import unmatched_gold
from karat.model.log_names import TOTAL
from karat.model.policy import is_relevant
from karat.results.asked import undefined_text
from karat.results.values import rankings_for
from karat.results.words import queries_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.align.needs import Needs
    from karat.metrics.grammar import Measure
    from karat.model.docs import Docs
    from karat.model.ids import UnmatchedGold
    from karat.model.qrels import Qrels
    from karat.model.queries import Queries
    from karat.model.rankings import Rankings
    from karat.ontology.terms import Ontology
    from karat.results.gold import Gold


def note_marked_with_gold(gold: Gold | None, queries: Queries | None) -> list[str]:
    """That queries without an answer have relevant docs, which do not count."""
    if gold is None or queries is None:
        return []
    qrels = gold.qrels
    known = set(qrels.query_ids)
    marked = [q for q in queries.no_answer if q in known and any(map(is_relevant, qrels.for_query(q).values()))]
    if not marked:
        return []
    are, have = ("is", "has") if len(marked) == 1 else ("are", "have")
    text = f"{queries_text(len(marked))} {are} marked no_answer and {have} relevant docs in the gold"
    return [f"{text}, which do not count: correct one or the other"]


def find_unmatched(qrels: Qrels, docs: Docs, ontology: Ontology | None) -> UnmatchedGold | None:
    """The relevant docs that the corpus lacks, if any; terms match whatever id they are written with."""
    if ontology is not None:
        from karat.align.term_ids import docs_of_terms

        docs = docs_of_terms(docs, ontology)
    return unmatched_gold(qrels, docs)


def note_measures(
    measures: list[Measure],
    values: Mapping[str, NDArray[np.float64]],
    rankings: Rankings,
    table: Queries | None,
    gold: Gold | None,
    needs: Needs | None,
    stage: str | None = None,
) -> list[str]:
    """What to know of these metrics, and of the queries that they are about."""
    return [
        *note_whole_pipeline(measures, stage),
        *note_unanswered(table, gold, rankings, measures),
        *note_unrouted(measures, rankings),
        *(note_undated(needs, rankings) if needs is not None else ()),
        *note_undefined(measures, values, rankings),
    ]


def note_unanswered(
    table: Queries | None, gold: Gold | None, rankings: Rankings, measures: Iterable[Measure]
) -> list[str]:
    """How many queries of a table are neither in the gold nor in the run, where a metric is over all queries."""
    if table is None or not any(m.over_whole_run for m in measures):
        return []
    known = {*rankings.query_ids, *(rankings.whole.query_ids if rankings.whole is not None else ())}
    count = len(table.fields.keys() - known.union(gold.qrels.query_ids if gold is not None else ()))
    text = f"{queries_text(count)} of {os.path.basename(table.source)} {'is' if count == 1 else 'are'}"
    where = "not in the run" if gold is None else "in neither the gold nor the run"
    return [f"{text} {where}"] if count else []


def note_whole_pipeline(measures: Iterable[Measure], stage: str | None) -> list[str]:
    """Which metrics are of the whole pipeline, where the others are of one stage."""
    if stage is None:
        return []
    names = [m.name for m in measures if "cost" in m.needs or ("latency" in m.needs and m.param("stage") == TOTAL)]
    verb = "is" if len(names) == 1 else "are"
    return [f"{', '.join(names)} {verb} of the whole pipeline, not of stage {stage!r}"] if names else []


def note_lacking(table: Queries | None, query_ids: Sequence[str], weights: Mapping[str, float]) -> list[str]:
    """How many of the queries a table does not know, and how many count by no weight of their own."""
    if table is None:
        return []
    unknown = sum(q not in table.fields for q in query_ids)
    unweighted = sum(q not in weights for q in query_ids) if weights else 0
    return [
        f"{count:,} of {queries_text(len(query_ids))} {'is' if count == 1 else 'are'} {what}"
        for count, what in (
            (unknown, f"not in {os.path.basename(table.source)}"),
            (unweighted, "without a weight: 1 is taken"),
        )
        if count
    ]


def note_undated(needs: Needs, rankings: Rankings) -> list[str]:
    """What the metrics that look beyond the judged docs could not count."""
    from karat.metrics.budget import undated

    dated = [m for m in needs.measures if {"items", "doc_version"} <= set(m.needs)]
    terms = rankings.terms.notes if rankings.terms is not None else ()
    left_out = [(m.name, undated(rankings_for(m, rankings), None if m.k is None else int(m.k))) for m in dated]
    return [*terms, *(f"{name}: {n} item{'s' if n > 1 else ''} without doc_version" for name, n in left_out if n)]


def note_undefined(measures: list[Measure], values: Mapping[str, NDArray[np.float64]], rankings: Rankings) -> list[str]:
    """How many of the queries that a metric is about have no value; of similarities, the terms' own note says it."""
    notes = []
    for measure, (name, column) in zip(measures, values.items(), strict=True):
        if not (undefined := np.isnan(column)).any() or (
            "ontology" in measure.needs and "rel" not in dict(measure.params)
        ):
            continue
        n, known = len(rankings_for(measure, rankings)), len(column) - int(np.count_nonzero(undefined))
        if known < n:
            notes.append(undefined_text(name, n - known, n))
    return notes


def note_unrouted(measures: Iterable[Measure], rankings: Rankings) -> list[str]:
    """How many queries have no route, where a metric counts them as sent nowhere."""
    if rankings.pipeline is None or not any(ROUTER[0] in m.needs for m in measures):
        return []
    assert rankings.pipeline.log is not None
    nowhere = rankings.pipeline.log[PIPELINE]["abstain_rate"]
    return unrouted_text(int(np.nansum(nowhere)), int(np.count_nonzero(~np.isnan(nowhere))))


def unrouted_text(count: int, total: int) -> list[str]:
    """That so many queries count as sent nowhere."""
    has = "has" if count == 1 else "have"
    return [f"{count:,} of {queries_text(total)} {has} no `route`: counted as sent nowhere"] if count else []
