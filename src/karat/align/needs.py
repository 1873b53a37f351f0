"""What some metrics need beside judged docs, checked and put there (vectors, texts, subtopics: `contents.py`)."""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.align.pipeline import PipelineExpectations
from karat.align.top_docs import TopColumns, join_columns, top_columns
from karat.errors import InputError, UsageError, nearest, shown
from karat.metrics.grammar import LARGEST
from karat.metrics.registry import GOLD_ALONE
from karat.model.items import Items
from karat.model.log_names import AMOUNTS, SKIPPED, STAGES
from karat.model.policy import parent_of
from karat.model.rankings import Rankings
from karat.model.run import OrderedLists
from karat.read.log_blocks import LogColumns
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from karat.align.hits import Aligned, Hits
    from karat.align.terms import TermNeeds
    from karat.metrics.grammar import Measure
    from karat.model.docs import Docs
    from karat.model.items import Log, Values
    from karat.model.policy import Policy
    from karat.model.qrels import Qrels
    from karat.model.queries import Queries
    from karat.model.run import Run
    from karat.read.embeddings import Embeddings


def _by_subtopic(measures: Sequence[Measure]) -> str:
    """The name of the first measure of embeddings that looks at the gold's subtopics instead, where it has one."""
    measure = next(m for m in measures if "embeddings" in m.needs)
    if ("kind", "subtopic") not in measure.metric.needs_when:
        return ""
    return f". By the subtopics of the gold it is {replace(measure, params=(('kind', 'subtopic'),)).name}"


@dataclass(frozen=True)
class Needs:
    """What metrics need beyond the judged docs, and the metrics that do."""

    measures: tuple[Measure, ...]
    parts: frozenset[str]
    depth: int
    """How many docs of each query are looked at; 0 for none."""
    as_of: Mapping[str, float] = field(default_factory=dict)
    pipeline: PipelineExpectations = field(default_factory=PipelineExpectations)
    embeddings: Embeddings | None = None
    docs: Docs | None = None
    """The table of docs, for their texts."""
    terms: TermNeeds | None = None

    @staticmethod
    def of(
        measures: Sequence[Measure],
        queries: Queries | None,
        policy: Policy,
        *,
        embeddings: Any = None,
        model: str | None = None,
        docs: Docs | None = None,
        ontology: Any = None,
    ) -> Needs:
        """What these measures need, with the dates of the queries where they are among it."""
        own = tuple(m for m in measures if m.needs != GOLD_ALONE)
        parts = frozenset(n for m in own for n in m.needs)
        cuts = [m.k for m in own if "items" in m.needs]
        depth = LARGEST if None in cuts else int(max((k for k in cuts if k), default=0))
        needs = Needs(own, parts, depth if cuts else 0, docs=docs)
        needs = replace(needs, pipeline=PipelineExpectations.of(own, queries))
        if "embeddings" in parts and embeddings is None:
            raise UsageError(
                f"{needs.first('embeddings')} needs the embeddings of the docs; give them with embeddings= "
                "(--embeddings FILE, dataset.embeddings in karat.yaml): a .npy matrix with its ids beside it, .npz, "
                f"Parquet or a dict{_by_subtopic(own)}"
            ).about(needs.first("embeddings"))
        if "embeddings" in parts:
            from karat.read.embeddings import embeddings_of

            needs = replace(needs, embeddings=embeddings_of(embeddings, model))
        if "texts" in parts and docs is None:
            raise UsageError(
                f"{needs.first('texts')} needs the texts of the docs; give a table of docs with docs= "
                "(--docs FILE, dataset.corpus in karat.yaml)"
            ).about(needs.first("texts"))
        if "ontology" in parts:
            from karat.align.terms import TermNeeds

            needs = replace(needs, terms=TermNeeds.of([m for m in own if "ontology" in m.needs], ontology))
        if "as_of" not in parts:
            return needs
        from karat.read.query_fields import day_field

        days = day_field(queries, "as_of") if queries is not None else {}
        if not days:
            raise UsageError(
                f"{needs.first('as_of')} needs queries with an as_of field; give a table of queries that has it"
            ).about(needs.first("as_of"))
        return replace(needs, as_of=days)

    def first(self, part: str) -> str:
        """The first measure that needs a part, by name."""
        return next(m.name for m in self.measures if part in m.needs)

    @property
    def models(self) -> dict[str, str]:
        """The model of the embeddings that each measure looks at, for those that do."""
        if self.embeddings is None:
            return {}
        return {m.name: self.embeddings.model for m in self.measures if "embeddings" in m.needs}

    @property
    def log_parts(self) -> Collection[str] | None:
        """What metrics look at in run logs beside the lists, where columns hold it; None where they do not."""
        from karat.read.log_columns import READABLE

        lists = ("gold", "items", "returned", "as_of", "subtopics", "embeddings", "texts")
        return self.parts & READABLE if self.parts <= READABLE.union(lists) else None

    @property
    def over_whole_run(self) -> tuple[Measure, ...]:
        """The measures that are over all queries of the run, with gold or without."""
        return tuple(m for m in self.measures if m.over_whole_run)

    def deepest(self, part: str) -> int:
        """The last rank at which some measure looks at this part of an item."""
        cuts = [m.k for m in self.measures if part in m.needs]
        return LARGEST if None in cuts else int(max((k for k in cuts if k), default=0))


def check_gold(qrels: Qrels, needs: Needs) -> None:
    """Refuse gold that lacks what a metric needs."""
    if "subtopics" in needs.parts and qrels.subtopics is None:
        raise InputError(
            f"{qrels.source}: holds no subtopics, which {needs.first('subtopics')} needs; expected a column 'subtopic',"
            " {query: {doc: {subtopic: grade}}}, or TREC qrels (query subtopic doc grade) with --subtopics "
            "(in Python subtopics=True, in karat.yaml dataset.subtopics)"
        ).about(needs.first("subtopics"))


def check_run(run: Run, needs: Needs, policy: Policy) -> None:
    """Refuse a run that lacks what a metric needs on every line; one that lacks it on some is fine."""
    for measure in needs.measures:
        for kind in (n for n in measure.needs if n in AMOUNTS):
            _check_amounts(run, measure, kind)
    if "doc_version" not in needs.parts:
        return
    name = needs.first("doc_version")
    if policy.stage is not None:
        text = f"{name} needs doc_version, which the items of stage {shown(policy.stage)} do not have"
        raise UsageError(text).about(name)
    content = run.content
    versions: Iterable[Iterable[float]] = ()
    if isinstance(content, OrderedLists) and content.versions:
        versions = content.versions.values()
    elif isinstance(content, LogColumns):
        versions = (block.version for block in content.blocks() if block.version is not None)
    if all(v != v for days in versions for v in days):
        text = f"run {run.name!r} has no doc_version: {name} needs a run log with doc_version on its items"
        raise InputError(text).about(name)


def _check_amounts(run: Run, measure: Measure, kind: str) -> None:
    content, name = run.content, AMOUNTS[kind]
    amounts = [*(content.amounts(kind) if isinstance(content, LogColumns) else _log_amounts(run, kind))]
    if not amounts:
        text = f"run {run.name!r} has no {name}: {measure.name} needs a run log with {name} on its lines"
        raise InputError(text).about(measure.name)
    key = measure.param(measure.metric.dotted[0]) if measure.metric.dotted else next(iter(amounts))
    if key not in amounts:
        near = nearest(key, amounts)
        hint = f"did you mean {near!r}?" if near else f"expected one of {', '.join(sorted(amounts))}"
        text = f"run {run.name!r} has no {shown(key)} in {name}: {measure.name} needs it; {hint}"
        raise InputError(text).about(measure.name)


def _log_amounts(run: Run, kind: str) -> Mapping[str, Mapping[str, float]]:
    """Latency or cost by key and query, or which steps ran; nothing for a run without a log."""
    if run.log is None:
        return {}
    if kind in (STAGES, SKIPPED):
        return run.log.steps[kind]
    return run.log.latency if kind == "latency" else run.log.cost


def with_parts(aligned: Aligned, run: Run, needs: Needs, policy: Policy, *, others: Hits | None = None) -> Rankings:
    """The rankings with what the metrics need; `others` are the queries of the run that the gold lacks."""
    rankings, qrels = aligned.rankings, aligned.qrels
    if any("items" in m.needs and not m.over_whole_run for m in needs.measures):
        contents = needs.parts & {"embeddings", "texts"}
        top = top_columns(aligned.hits.items, aligned.queries.tolist(), needs.depth, with_docs=bool(contents))
        items = _items(top, rankings.query_ids, needs)
        if contents:
            from karat.align.contents import with_contents

            items = with_contents(items, top.docs, aligned, qrels, needs)
        rankings = replace(rankings, items=items)
    if needs.terms is not None:
        from karat.align.terms import pair_terms

        terms = pair_terms(aligned, needs.terms, depth=needs.deepest("ontology"))
        rankings = replace(rankings, terms=terms)
    if "subtopics" in needs.parts:
        from karat.align.contents import topics

        rankings = replace(rankings, topics=topics(aligned, qrels))
    if pipeline := needs.pipeline.rankings(run, policy):
        rankings = replace(rankings, pipeline=pipeline)
    if needs.over_whole_run:
        rankings = replace(rankings, whole=_whole(aligned, run, needs, policy, others))
    return rankings


def note_cut_ids(qrels: Qrels, run: Run, hits: Hits, needs: Needs, policy: Policy) -> tuple[str, ...]:
    """That some ids count as chunks because they hold the separator, where nothing else says that they are.

    Said for metrics that count docs, and where other ids do not hold it and nothing has what stands before it as id.
    """
    mark, content = run.separator(policy), run.content
    counts_docs = any(m.needs == ("items",) for m in needs.measures)
    named = isinstance(content, LogColumns) or (isinstance(content, OrderedLists) and content.parents)
    if not mark or not counts_docs or hits.at_doc or named:
        return ()
    docs = {item.doc: item.parent for top in hits.items.values() for item in top[: needs.depth]}
    cut = [doc for doc, parent in docs.items() if parent != doc and parent == parent_of(doc, mark)]
    if not cut or len(cut) == len(docs) or not {docs[doc] for doc in cut}.isdisjoint((*docs, *qrels.docs)):
        return ()
    return (
        f"{len(cut):,} of {len(docs):,} ids hold {shown(mark)} and count as chunks: {shown(cut[0])} as one of the doc "
        f"{shown(docs[cut[0]])}; if ids name whole docs, switch that off with --separator ''",
    )


def _whole(aligned: Aligned, run: Run, needs: Needs, policy: Policy, others: Hits | None) -> Rankings:
    """All queries of the run, those of the gold that it lacks (unless they are left out), and what it says of them."""
    hits, rankings = aligned.hits, aligned.rankings
    numbers, names = aligned.queries.tolist(), list(rankings.query_ids)
    known = set(names)
    for i in np.flatnonzero(hits.returned >= 0).tolist():  # without an answer, or without a relevant doc
        if (q := aligned.qrels.query_ids[i]) not in known:
            numbers.append(i)
            names.append(q)
    unjudged = sorted(hits.without_gold) if others is not None else []
    returned = np.maximum(hits.returned[numbers], 0).tolist()
    returned += others.returned[: len(unjudged)].tolist() if others is not None else []
    names += unjudged
    order = sorted(range(len(names)), key=names.__getitem__)
    ids = [names[i] for i in order]
    kinds = [kind for kind in AMOUNTS if kind in needs.parts]
    log: Log = {kind: _logged(run, kind, ids) for kind in (*kinds, *((STAGES, SKIPPED) if kinds else ()))}
    items = None
    if needs.depth:
        parts = [top_columns(hits.items, numbers, needs.depth, with_docs=False)]
        if others is not None:
            more = top_columns(others.items, range(len(unjudged)), needs.depth, with_docs=False)
            parts.append(more._replace(query=more.query + len(numbers)))
        place = np.empty(len(names), dtype=np.int64)
        place[order] = np.arange(len(names))
        items = _items(join_columns(parts, place), ids, needs)
    if items is not None and items.score is not None and len(items.score) and np.isnan(items.score).all():
        name = needs.first("item_scores")
        raise InputError(f"run {run.name!r} has no scores, which {name} needs").about(name)
    none, empty = np.zeros(0, dtype=np.int64), np.zeros(0)
    counts = np.array(returned, dtype=np.int64)[order]
    return Rankings(ids, none, none, empty, counts, none, empty, items=items, log=log)


def _logged(run: Run, kind: str, query_ids: Sequence[str]) -> dict[str, Values]:
    """Latency or cost by key, or which steps ran, for each of these queries; NaN where a query has none."""
    content = run.content
    if not isinstance(content, LogColumns):
        amounts = _log_amounts(run, kind)
        return {key: _by_query(values, query_ids) for key, values in amounts.items()}
    lines = content.places(query_ids)
    return {key: np.where(lines >= 0, column[lines], math.nan) for key, column in content.amounts(kind).items()}


def _by_query(values: Mapping[str, float], query_ids: Sequence[str]) -> Values:
    return np.array([values.get(q, math.nan) for q in query_ids], dtype=np.float64)


def _items(top: TopColumns, query_ids: Sequence[str], needs: Needs) -> Items:
    """The items of each query."""
    score = top.score if "item_scores" in needs.parts else None
    return Items(top.query, top.rank, top.first, top.version, _by_query(needs.as_of, query_ids), score=score)
