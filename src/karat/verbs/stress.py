"""The hard-negative stress test: what misleading docs at the top of its input do to a reranker."""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from msgspec import structs

from karat.config.options import Options, Settings, doc_texts, takes_options
from karat.errors import InputError, UsageError, shown
from karat.model.docs import Docs, text_of, title_and_text
from karat.model.policy import is_relevant
from karat.read import query_fields
from karat.read.docs import read_docs
from karat.read.objects import build_qrels, is_finite
from karat.read.problems import Problems
from karat.read.queries import read_queries, read_queries_of_gold
from karat.records import dataclass
from karat.results.document import DocumentJson, StressJson, StressQueryJson
from karat.results.figures import figure
from karat.results.table import Documented, Table
from karat.retrieve.registry import import_object
from karat.store.codec import rounded
from karat.verbs.compare import Comparison, compare
from karat.verbs.components.inputs import Material, read_material
from karat.verbs.components.reranker import reranking
from karat.verbs.warn import gives_warnings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from karat.model.queries import Queries
    from karat.results.decisions import Decision

    Reranker = Callable[[str, list[tuple[str, str]]], Sequence[Any]]
    """Query text and (doc id, text) pairs → a score for each, or doc ids in order."""

PLAIN, STRESSED = "without negatives", "with negatives"


@dataclass(frozen=True)
class Stress(Documented):
    """A reranker with and without hard negatives at the top of its input."""

    comparison: Comparison
    metric: str
    k: int
    rows: tuple[StressQueryJson, ...]
    """The worst first: the negatives, how many stay in the top k, the metric without and with them, and the drop."""
    reranker: str
    source: str
    """Where the negatives come from."""
    left_out: int = 0
    own_notes: tuple[str, ...] = field(default=())

    @property
    def change(self) -> Decision:
        """With − without negatives, with interval and p."""
        return self.comparison[self.metric]

    @property
    def drop(self) -> float:
        """How much the metric falls; above 0 where negatives do harm."""
        return -self.change.delta

    @property
    def queries(self) -> int:
        return len(self.rows)

    def table(self) -> Table:
        """The comparison of both inputs."""
        return replace(self.comparison.table(), notes=self.notes)

    def __repr__(self) -> str:
        low, high = -self.change.difference.high, -self.change.difference.low
        return f"Stress({self.metric} drops by {figure(self.metric, self.drop, low, high)} on {self.queries} queries)"

    def document(self) -> DocumentJson:
        """The document that `--json` writes."""
        difference = self.change.difference
        ends = [rounded(-difference.high), rounded(-difference.low)] if difference.low == difference.low else None
        return structs.replace(
            self.comparison.document(),
            kind="stress",
            stress=StressJson(
                metric=self.metric,
                drop=rounded(self.drop),
                ci=ends,
                ci_method=difference.method,
                p={name: rounded(p) for name, p in self.change.p.items()},
                n=difference.n,
                reranker=self.reranker,
                negatives=self.source,
                negatives_in_top=sum(row.negatives_in_top for row in self.rows),
                left_out=self.left_out,
                per_query=list(self.rows),
            ),
            **({"notes": list(self.own_notes)} if self.own_notes else {}),
        )


@gives_warnings
@takes_options
def stress(
    qrels: Any,
    run: Any,
    reranker: str | Reranker,
    *,
    mine: Any = None,
    k: int = 5,
    insert: int = 3,
    sample: int = 100,
    depth: int = 50,
    **options: Unpack[Options],
) -> Stress:
    """Put hard negatives at ranks 1 to 3 of a reranker's input, and report how far ndcg@k drops.

    `reranker` is a function, or its place as "module:function": it takes the query's text and a list of (doc id, text
    after its title) and returns a score for each or doc ids in order. Its input is what the run log has before the
    stage that reranks (else the first stage, else the final list), at most `depth` docs. Negatives are the field
    `negatives` of `queries`, or with `mine` the docs at the top of that other run which no judgment calls relevant. Of
    the queries that have negatives a sample is drawn by `seed`. Where the function fails the query is named and nothing
    is reported. `queries` and `docs` are needed, for their texts, unless a case file holds the queries and `ontology`
    names the terms that are the docs.
    """
    settings = Settings.of(options)
    queries = settings.data.queries if settings.data.queries is not None else read_queries_of_gold(qrels)
    docs = doc_texts(settings.data)
    for name, source in (("queries", queries), ("docs", docs)):
        if source is None:
            raise UsageError(f"a stress test needs {name}= with their texts (--{name} FILE)")
    for name, value in (("insert", insert), ("sample", sample), ("depth", depth)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(f"{name} must be an integer from 1, found {value!r}")
    texts = read_docs(docs)
    material = read_material(qrels, run, settings.change(queries=read_queries(queries)), k=k)
    table = material.queries
    assert table is not None
    rerank, place = find_reranker(reranker)
    negatives, source = _negatives(material, table, settings, mine, insert, depth)
    inputs = _inputs(material, depth)
    usable = sorted(q for q in negatives if q in inputs and inputs[q] and _relevant(material, q))
    if not usable:
        raise InputError(
            f"no query has negatives ({source}), candidates in the run and a relevant doc in the gold; "
            "nothing can be stressed"
        )
    rng = np.random.default_rng(np.random.SeedSequence([settings.intervals.seed, 0x57E5]))
    drawn = sorted(usable[i] for i in rng.permutation(len(usable))[:sample].tolist())
    _check_texts(material, table, texts, {q: negatives[q] for q in drawn}, inputs)
    lists: dict[str, dict[str, list[str]]] = {PLAIN: {}, STRESSED: {}}
    problems = Problems(f"reranker {place}")
    for q in drawn:
        stressed = list(dict.fromkeys([*negatives[q], *inputs[q]]))
        for name, ids in ((PLAIN, inputs[q]), (STRESSED, stressed)):
            lists[name][q] = _rerank(rerank, q, _text(material, table, q), ids, texts, name, problems)
    problems.check()
    gold = build_qrels({q: material.gold.for_query(q) for q in drawn}, material.gold.source)
    metric = f"ndcg@{k}"
    alpha = 1 - material.estimator.sampling.confidence
    runs = {name: material.as_run(name, ranking) for name, ranking in lists.items()}
    plain = settings.change(
        queries=table, level=material.fixed.level, by=None, stage=None, as_of_filter=False, cache=False
    )
    comparison = compare(gold, runs, metric, correction="none", alpha=alpha, settings=plain)
    before, after = (comparison.result[name].per_query(metric) for name in (PLAIN, STRESSED))
    rows = [
        StressQueryJson(
            q,
            list(negatives[q]),
            len(set(negatives[q]) & set(lists[STRESSED][q][:k])),
            rounded(before[q]),
            rounded(after[q]),
            rounded(before[q] - after[q]),
        )
        for q in drawn
    ]
    rows.sort(key=lambda row: (-(row.drop or 0.0), row.query_id))
    notes = [*comparison.own_notes]
    if fewer := sum(len(negatives[q]) < insert for q in drawn):
        notes.append(f"{fewer} of {len(drawn)} queries have fewer than {insert} negatives")
    return Stress(comparison, metric, k, tuple(rows), place, source, len(usable) - len(drawn), tuple(notes))


def find_reranker(reranker: str | Reranker) -> tuple[Reranker, str]:
    """The function, and how it is called in messages."""
    if callable(reranker):
        return reranker, getattr(reranker, "__name__", type(reranker).__name__)
    module, _, name = str(reranker).partition(":")
    if not module or not name:
        raise UsageError(f"reranker must be module:function, such as rerank:score, found {reranker!r}")
    function: Reranker = import_object(reranker)
    if not callable(function):
        raise UsageError(f"reranker {reranker}: expected a function, found {type(function).__name__}")
    return function, reranker


def _relevant(material: Material, q: str) -> bool:
    return any(is_relevant(grade, material.rel) for grade in material.answerable.get(q, {}).values())


def _inputs(material: Material, depth: int) -> dict[str, list[str]]:
    """The docs that the reranker gets for each query."""
    if material.log is None:
        return {q: [d for d, _ in docs] for q, docs in material.first_docs(depth).items()}
    stage = reranking(material.log.stage_names)
    out = {}
    for q, trace in material.log.traces.items():
        names = list(trace.stages)
        before = names[names.index(stage) - 1] if stage in names and names[0] != stage else None
        first = next((n for n in names if n != stage), None)
        source = before or first
        out[q] = list(dict.fromkeys(trace.stages[source] if source is not None else material.final[q]))[:depth]
    return out


def _negatives(
    material: Material, table: Queries, settings: Settings, mine: Any, insert: int, depth: int
) -> tuple[dict[str, tuple[str, ...]], str]:
    if mine is None:
        negatives = query_fields.id_lists(table, "negatives")
        if not negatives:
            raise UsageError(
                f"{table.source}: no query has negatives; give the field, or another run to mine them from "
                "(mine=, --mine RUN)"
            )
        problems = Problems(table.source)
        for q, ids in negatives.items():
            gold = material.gold.for_query(q)
            for doc in ids:
                if is_relevant(gold.get(material.parent(doc), gold.get(doc, 0.0)), material.rel):
                    problems.add(
                        table.lines.get(q),
                        f"query {shown(q)}: negative {shown(doc)} is relevant in the gold; remove it",
                    )
        problems.check()
        return {q: ids[:insert] for q, ids in negatives.items() if ids}, "field negatives"
    other = read_material(material.gold, mine, settings, k=material.k)
    out = {}
    for q, docs in other.first_docs(depth).items():
        gold = material.gold.for_query(q)
        wrong = [d for d, _ in docs if not is_relevant(gold.get(material.parent(d), gold.get(d, 0.0)), material.rel)]
        if wrong:
            out[q] = tuple(wrong[:insert])
    return out, f"mined from {other.run.name}"


def _text(material: Material, table: Queries, q: str) -> str | None:
    """The text of a query: from the table, else as the run log has it."""
    text = text_of(table.fields.get(q, {}))
    if not text and material.log is not None and q in material.log.traces:
        text = material.log.traces[q].query or ""
    return text or None


def _check_texts(
    material: Material,
    table: Queries,
    docs: Docs,
    negatives: Mapping[str, Sequence[str]],
    inputs: Mapping[str, Sequence[str]],
) -> None:
    """Every query and doc that goes to the reranker must have a text."""
    problems = Problems(docs.source)
    for q, ids in negatives.items():
        if _text(material, table, q) is None:
            problems.add(None, f"query {shown(q)} has no text in {table.source}; the reranker needs it")
        for what, candidates in (("negative", ids), ("candidate", inputs[q])):
            if textless := [d for d in candidates if not text_of(docs.fields.get(d, {}))]:
                more = f" (and {len(textless) - 1} more)" if len(textless) > 1 else ""
                problems.add(
                    None, f"query {shown(q)}: {what} {shown(textless[0])}{more} has no text here; expected every doc"
                )
    problems.check()


def _rerank(
    rerank: Reranker, q: str, text: str | None, ids: Sequence[str], docs: Docs, name: str, problems: Problems
) -> list[str]:
    """The docs in the reranker's order; a failure is noted with its query."""
    pairs = [(d, title_and_text(docs.fields[d])) for d in ids]
    try:
        output = rerank(text or "", list(pairs))
        answer = list(output.tolist() if hasattr(output, "tolist") else output)
    except Exception as error:
        problems.add(None, f"query {shown(q)}, {name}: {type(error).__name__}: {error}")
        return []
    if answer and all(isinstance(x, str) for x in answer):
        if unknown := next((x for x in answer if x not in set(ids)), None):
            problems.add(None, f"query {shown(q)}, {name}: returned {shown(unknown)}, which it was not given")
        return list(dict.fromkeys(answer))
    if len(answer) != len(pairs):
        problems.add(
            None,
            f"query {shown(q)}, {name}: returned {len(answer)} values for {len(pairs)} docs; expected a score "
            "for each, or doc ids in order",
        )
        return []
    wrong = next((x for x in answer if not is_finite(x)), None)
    if wrong is not None or not all(is_finite(x) for x in answer):
        problems.add(None, f"query {shown(q)}, {name}: a score must be a finite number, found {shown(wrong)}")
        return []
    scores = [float(x) for x in answer]
    assert not any(map(math.isnan, scores))
    return [d for _, d in sorted(zip(scores, ids, strict=True), reverse=True)]
