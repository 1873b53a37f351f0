"""The parts of a retrieval pipeline, each measured for itself: router, gate, rewriting, retriever, reranker, cut."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from karat.align.term_ids import COLLAPSED
from karat.config.options import Options, Settings, takes_options
from karat.errors import UsageError
from karat.metrics.component_figures import NEVER
from karat.model.policy import RELEVANT, is_relevant, parent_of
from karat.read import query_fields
from karat.read.sources import read_run
from karat.results.components import Component, Components
from karat.results.remarks import data_remarks
from karat.results.result import Result
from karat.results.saved import is_saved, load
from karat.results.words import plural, queries_text
from karat.verbs.components import entities as entity_part
from karat.verbs.components import funnel as funnel_part
from karat.verbs.components import gate as gate_part
from karat.verbs.components import levels, reranker, retriever, rewriting
from karat.verbs.components import no_answer as no_answer_part
from karat.verbs.components import router as router_part
from karat.verbs.components.estimator import of_all
from karat.verbs.components.inputs import Material, as_logged, material_of, no_log, read_material
from karat.verbs.warn import gives_warnings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@gives_warnings
@takes_options
def components(
    qrels: Any,
    run: Any = None,
    *,
    k: int = 5,
    rel: float = RELEVANT,
    threshold: float | None = None,
    **options: Unpack[Options],
) -> Components:
    """Measure every part of a pipeline that the run log and the table of queries allow.

    `run` is a run log: a path, or its lines as dicts; of any other run only what needs no log is measured. A saved
    result, or a `Result` with details, takes the place of both; `run` then names one of its runs. A part
    that cannot be measured says which field is missing and where. `threshold` is the score from which an item counts
    as evidence. Parts are measured over all queries and on every list of the log: `by`, `stage` and `as_of_filter`
    change nothing here.
    """
    if isinstance(qrels, Result) or is_saved(qrels):
        if options:
            raise UsageError(f"a saved result takes no {', '.join(options)}; evaluate the run again with it")
        result = qrels if isinstance(qrels, Result) else load(qrels)
        one = result[run] if run is not None else result.runs[0]
        return replace(_measure(material_of(one, result.queries, k=k), threshold), remarks=data_remarks([one]))
    if run is None:
        raise UsageError("components need gold and a run, or a saved result")
    material = read_material(qrels, run, Settings.of(options), k=k, rel=rel)
    return replace(_measure(material, threshold), remarks=material.remarks)


def with_components(
    result: Result, *, runs: Mapping[str, object] | None = None, k: int = 5, threshold: float | None = None
) -> Result:
    """The result with the components of each of its runs.

    All comes from the result; `runs` names the files of runs that are not logs, whose queries without gold it lacks.
    """
    out = []
    for run in result.runs:
        source = None
        # Standard input comes only once, and of terms the result alone has each at its best entry.
        if run.log is None and runs is not None and runs[run.name] != "-" and COLLAPSED not in run.counts:
            source = read_run(runs[run.name], name=run.name, policy=as_logged(run.policy))
        material = material_of(run, result.queries, source=source, k=k)
        out.append(replace(run, components=_measure(material, threshold)))
    return replace(result, runs=tuple(out))


def _measure(material: Material, threshold: float | None) -> Components:
    return Components(
        material.run.name,
        retriever.measure(material),
        reranker.measure(material),
        _funnel(material),
        _with_weights(_router(material), material),
        _with_weights(_gate(material), material),
        rewriting.measure(material),
        no_answer_part.measure(material, threshold),
        _with_weights(_entities(material), material, "counts are of entities, shares by the weights of their queries"),
        levels.measure(material),
        k=material.k,
    )


def _with_weights(
    part: Component, material: Material, note: str = "counts are of queries as they are, shares by their weights"
) -> Component:
    """The part, with a note where its counts do not give its shares."""
    ids = list(material.log.traces) if material.log is not None else []
    if not part.measured or len(set(material.estimator.sampling.units(ids).weight.tolist())) < 2:
        return part
    return replace(part, notes=(*part.notes, note))


def _funnel(material: Material) -> Component:
    if material.log is None:
        return Component("funnel", missing=no_log("topk"))
    traces, gold = material.log.traces, material.answerable
    if material.policy.missing == "skip":
        gold = {q: g for q, g in gold.items() if q in traces}
    if not any(is_relevant(grade, material.rel) for g in gold.values() for grade in g.values()):
        return Component("funnel", missing="needs gold with a relevant doc: no query that counts has one")
    part = funnel_part.stage_funnel(
        gold,
        material.stages,
        material.chosen,
        k=material.k,
        rel=material.rel,
        parent=material.parent,
        order=material.log.stage_names,
        estimator=material.estimator,
    )
    skips = [q for q in part.per_query if q in traces and traces[q].retrieved is False]
    skipped = sum(is_relevant(grade, material.rel) for q in skips for grade in gold[q].values())
    notes = [*part.notes, *material.note_absent(material.answerable, "never retrieved")]
    if not material.log.stage_names:
        notes.append(f"no line has stages: what was lost before the final list counts as {NEVER}")
    if skipped:
        notes.append(f"retrieval was skipped for the queries of {plural(skipped, 'relevant doc')}")
    if unknown := _unknown(material):
        notes.append(f"{unknown} ids in stages belong to no doc that the log names: they cannot meet gold by doc")
    return replace(part, notes=tuple(notes), counts={**part.counts, "unknown_docs": unknown})


def _unknown(material: Material) -> int:
    """Ids in stages whose doc nobody named, in a log that names docs which the ids do not tell."""
    log, mark = material.log, material.run.separator(material.policy)
    if log is None or not material.at_doc or all(parent_of(c, mark) == d for c, d in log.docs.items()):
        return 0
    ids = {d for t in log.traces.values() for docs in t.stages.values() for d in docs}
    return sum(d not in log.docs and not (mark and mark in d) for d in ids)


def _router(material: Material) -> Component:
    wants = "needs `route` on the log's lines and `expected_source` in the table of queries"
    if material.log is None:
        return Component("router", missing=no_log("route"))
    routes = {q: t.route or None for q, t in material.log.traces.items()}
    expected = query_fields.expected_sources(material.queries) if material.queries is not None else {}
    lack = _lacking(material, "route", sum(r is not None for r in routes.values()), "expected_source", len(expected))
    if lack:
        return Component("router", missing=f"{wants}: {lack}")
    recall: dict[str, float] = {}
    if material.answerable:
        recall = material.measure(material.run, [f"recall@{material.k}"]).per_query(f"recall@{material.k}")
    if material.policy.missing == "skip":
        expected = {q: e for q, e in expected.items() if q in routes}
    part = router_part.router_metrics(routes, expected, recall=recall, k=material.k, estimator=material.estimator)
    return _with_lacking(part, material, "route", [q for q in expected if not routes.get(q)], "counted as sent nowhere")


def _gate(material: Material) -> Component:
    wants = "needs `retrieved` on the log's lines and `needs_retrieval` in the table of queries"
    if material.log is None:
        return Component("gate", missing=no_log("retrieved"))
    retrieved = material.log.retrieved
    needs = query_fields.retrieval_needs(material.queries) if material.queries is not None else {}
    lack = _lacking(material, "retrieved", len(retrieved), "needs_retrieval", len(needs))
    if not lack and not any(q in retrieved for q in needs):
        lack = "no query has both"
    if lack:
        return Component("gate", missing=f"{wants}: {lack}")
    part = gate_part.gate_metrics(retrieved, needs, estimator=material.estimator)
    return _with_lacking(part, material, "retrieved", needs.keys() - retrieved.keys(), "left out")


def _entities(material: Material) -> Component:
    wants = "needs `entities` on the log's lines and in the table of queries"
    if material.log is None:
        return Component("entities", missing=no_log("entities"))
    traces = material.log.traces
    links = {q: t.entities for q, t in traces.items() if t.entities is not None}
    gold = query_fields.id_lists(material.queries, "entities") if material.queries is not None else {}
    lack = _lacking(material, "entities", len(links), "entities", len(gold))
    if not lack and not any(q in links for q in gold):
        lack = "no query has both"
    if lack:
        return Component("entities", missing=f"{wants}: {lack}")
    if material.policy.missing == "zero":  # a query that the log lacks found nothing
        links |= {q: () for q in gold if q not in traces}
    part = entity_part.entity_metrics(links, gold, estimator=material.estimator)
    if material.policy.missing == "zero":
        part = replace(part, notes=(*part.notes, *material.note_absent(gold, "without entities")))
    return _with_lacking(part, material, "entities", gold.keys() - links.keys(), "left out")


def _lacking(material: Material, on_lines: str, lines: int, in_queries: str, queries: int) -> str:
    """Which of the two fields nobody has, and how many were looked at; empty where both are there."""
    assert material.log is not None
    lacks = []
    if not lines:
        lacks.append(of_all(0, len(material.log), "lines", on_lines, ""))
    if material.queries is None:
        lacks.append("there is no table of queries")
    elif not queries:
        lacks.append(of_all(0, len(material.queries), "queries", in_queries, ""))
    return ", ".join(lacks)


def _with_lacking(part: Component, material: Material, name: str, queries: Collection[str], outcome: str) -> Component:
    """The part, with a note on the queries of which the log does not say a field."""
    if not queries:
        return part
    assert material.log is not None
    lines = sum(q in material.log.traces for q in queries)
    kinds = ((lines, f"whose line lacks `{name}`"), (len(queries) - lines, "without a line"))
    texts = [f"{queries_text(count)} {kind}" for count, kind in kinds if count]
    return replace(part, notes=(*part.notes, f"{outcome}: {', '.join(texts)}"))
