"""The parts of a retrieval pipeline, each measured for itself: router, gate, rewriting, retriever, reranker, cut."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Unpack

from karat.model.options import Settings, takes_options
from karat.model.policy import RELEVANT, is_relevant, parent_of
from karat.read import query_fields
from karat.verbs.components import entities as entity_part
from karat.verbs.components import funnel as funnel_part
from karat.verbs.components import gate as gate_part
from karat.verbs.components import levels, reranker, retriever, rewriting
from karat.verbs.components import no_answer as no_answer_part
from karat.verbs.components import router as router_part
from karat.verbs.components.inputs import material, no_log
from karat.verbs.components.part import Part, of_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from karat.model.options import Options
    from karat.results.result import Result
    from karat.verbs.components.inputs import Material


@dataclass(frozen=True)
class Components:
    """Every part of a pipeline, measured or with what is missing to measure it."""

    run: str
    retriever: Part
    reranker: Part
    funnel: Part
    router: Part
    gate: Part
    rewriting: Part
    no_answer: Part
    entities: Part
    levels: Part
    k: int = 5

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts, in the order in which reports show them."""
        return tuple(part for part in self._all() if isinstance(part, Part))

    def _all(self) -> Iterator[Any]:
        return (getattr(self, f.name) for f in fields(self))

    @property
    def missing(self) -> dict[str, str]:
        """By part: what is missing to measure it."""
        return {part.name: part.missing for part in self.parts if part.missing}

    def as_json(self) -> dict[str, Any]:
        """The parts as JSON documents have them."""
        return {"k": self.k, **{part.name: part.as_json() for part in self.parts}}

    def __repr__(self) -> str:
        measured = ", ".join(part.name for part in self.parts if part.measured)
        return f"Components({self.run}: {measured or 'nothing measured'}; missing: {', '.join(self.missing) or 'none'})"


@takes_options
def components(
    qrels: Any,
    run: Any,
    *,
    k: int = 5,
    rel: float = RELEVANT,
    threshold: float | None = None,
    **options: Unpack[Options],
) -> Components:
    """Measure every part of a pipeline that the run log and the table of queries allow.

    `run` is a run log: a path, or its lines as dicts; of any other run only what needs no log is measured. A part
    that cannot be measured says which field is missing and where. `threshold` is the score from which an item counts
    as evidence. Parts are measured over all queries and on every list of the log: `by`, `stage` and `as_of_filter`
    change nothing here.
    """
    held = material(qrels, run, Settings.of(options), k=k, rel=rel)
    return Components(
        held.run.name,
        retriever.measured(held),
        reranker.measured(held),
        _funnel(held),
        _router(held),
        _gate(held),
        rewriting.measured(held),
        no_answer_part.measured(held, threshold),
        _entities(held),
        levels.measured(held),
        k,
    )


def with_components(
    result: Result,
    qrels: Any,
    runs: Mapping[str, Any],
    settings: Settings,
    *,
    threshold: float | None = None,
    k: int = 5,
) -> Result:
    """The result with the components of each of its runs, which `runs` names.

    Gold, queries and run logs that the result holds are not read again.
    """
    from karat.read.log_lists import run_of
    from karat.read.queries import read_queries
    from karat.read.sources import read_qrels

    data = settings.data
    plain = replace(settings.policy, stage=None, as_of_filter=False)
    gold = read_qrels(qrels, format=data.qrels_format, subtopics=data.subtopics)
    if data.queries is not None:
        settings = settings.change(queries=result.queries or read_queries(data.queries))
    sources = {run.name: run_of(run.log, plain) if run.log is not None else runs[run.name] for run in result.runs}
    parts = {
        name: components(gold, {name: source}, k=k, threshold=threshold, settings=settings).as_json()
        for name, source in sources.items()
    }
    return replace(result, runs=tuple(replace(run, components=parts[run.name]) for run in result.runs))


def _funnel(held: Material) -> Part:
    if held.log is None:
        return Part("funnel", missing=no_log("topk"))
    traces, gold = held.log.traces, held.answerable
    if held.policy.missing == "skip":
        gold = {q: g for q, g in gold.items() if q in traces}
    if not any(is_relevant(grade, held.rel) for g in gold.values() for grade in g.values()):
        return Part("funnel", missing="needs gold with a relevant doc: no query that counts has one")
    found = funnel_part.stage_funnel(
        gold,
        {q: t.stages for q, t in traces.items()},
        held.final,
        k=held.k,
        rel=held.rel,
        parent=held.parent,
        order=held.log.stage_names,
        sure=held.sure,
    )
    skipped = sum(row["gold"] for q, row in found.per_query.items() if q in traces and traces[q].retrieved is False)
    notes = [*found.notes]
    if not held.log.stage_names:
        notes.append(f"no line has stages: what was lost before the final list counts as {funnel_part.NEVER}")
    if skipped:
        notes.append(f"{skipped} relevant docs are of queries for which retrieval was skipped")
    if unknown := _unknown(held):
        notes.append(f"{unknown} ids in stages belong to no doc that the log names: they cannot meet gold by doc")
    return replace(found, notes=tuple(notes), counts={**found.counts, "unknown_docs": unknown})


def _unknown(held: Material) -> int:
    """Ids in stages whose doc nobody named, in a log that names docs which the ids do not tell."""
    log, mark = held.log, held.policy.separator
    if log is None or not held.at_doc or all(parent_of(c, mark) == d for c, d in log.docs.items()):
        return 0
    ids = {d for t in log.traces.values() for docs in t.stages.values() for d in docs}
    return sum(d not in log.docs and mark not in d for d in ids)


def _router(held: Material) -> Part:
    wants = "needs `route` on the log's lines and `expected_source` in the table of queries"
    if held.log is None:
        return Part("router", missing=no_log("route"))
    routes = {q: t.route or None for q, t in held.log.traces.items()}
    expected = query_fields.sources(held.queries) if held.queries is not None else {}
    told = _lacking(held, "route", sum(r is not None for r in routes.values()), "expected_source", len(expected))
    if told:
        return Part("router", missing=f"{wants}: {told}")
    recall: dict[str, float] = {}
    if held.answerable:
        recall = held.evaluated(held.run, [f"recall@{held.k}"]).per_query(f"recall@{held.k}")
    if held.policy.missing == "skip":
        expected = {q: e for q, e in expected.items() if q in routes}
    return router_part.router_metrics(routes, expected, recall=recall, k=held.k, sure=held.sure)


def _gate(held: Material) -> Part:
    wants = "needs `retrieved` on the log's lines and `needs_retrieval` in the table of queries"
    if held.log is None:
        return Part("gate", missing=no_log("retrieved"))
    retrieved = held.log.retrieved
    needs = query_fields.needing(held.queries) if held.queries is not None else {}
    told = _lacking(held, "retrieved", len(retrieved), "needs_retrieval", len(needs))
    if not told and not any(q in retrieved for q in needs):
        told = "no query has both"
    if told:
        return Part("gate", missing=f"{wants}: {told}")
    found = gate_part.gate_metrics(retrieved, needs, sure=held.sure)
    return _left_out(found, "retrieved")


def _entities(held: Material) -> Part:
    wants = "needs `entities` on the log's lines and in the table of queries"
    if held.log is None:
        return Part("entities", missing=no_log("entities"))
    traces = held.log.traces
    found = {q: t.entities for q, t in traces.items() if t.entities is not None}
    gold = query_fields.listed(held.queries, "entities") if held.queries is not None else {}
    told = _lacking(held, "entities", len(found), "entities", len(gold))
    if not told and not any(q in found for q in gold):
        told = "no query has both"
    if told:
        return Part("entities", missing=f"{wants}: {told}")
    if held.policy.missing == "zero":  # a query that the log lacks found nothing
        found |= {q: () for q in gold if q not in traces}
    return _left_out(entity_part.entity_metrics(found, gold, sure=held.sure), "entities")


def _lacking(held: Material, on_lines: str, lines: int, in_queries: str, queries: int) -> str:
    """Which of the two fields nobody has, and how many were looked at; empty where both are there."""
    assert held.log is not None
    told = []
    if not lines:
        told.append(of_all(0, len(held.log), "lines", on_lines, ""))
    if held.queries is None:
        told.append("there is no table of queries")
    elif not queries:
        told.append(of_all(0, len(held.queries), "queries", in_queries, ""))
    return ", ".join(told)


def _left_out(part: Part, name: str) -> Part:
    count = part.counts.get("not_logged", 0)
    if not count:
        return part
    return replace(part, notes=(*part.notes, f"{count} queries whose lines have no {name} are left out"))
