"""The queries that found nothing: their gold, what came instead, and what a baseline found, side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from karat.config.options import Options, Settings, doc_texts
from karat.model.policy import SEPARATOR, is_relevant
from karat.read.docs import read_docs
from karat.read.queries import read_queries
from karat.records import dataclass
from karat.results.losses import Loss, find_loss
from karat.results.result import Result, RunResult
from karat.results.saved import is_saved, load
from karat.verbs.diagnose.signals import absent_queries, choose_run
from karat.verbs.evaluate import evaluate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karat.model.docs import Docs
    from karat.results.top_lists import TopDoc

DEPTH = 10


@dataclass(frozen=True, slots=True)
class Listed:
    """A doc as a table shows it."""

    doc: str
    grade: float | None
    text: str = ""
    rank: int | None = None
    loss: Loss | None = None
    """Where a doc that was not returned got lost, if a stage of the run log holds it."""


@dataclass(frozen=True, slots=True)
class Miss:
    """A query with no relevant doc in its top 10."""

    query_id: str
    text: str
    gold: tuple[Listed, ...]
    """Relevant docs, with the rank at which each was found deeper down, if it was."""
    top: tuple[Listed, ...]
    baseline: tuple[Listed, ...] | None


@dataclass(frozen=True)
class Misses:
    """All misses of a run, those first whose gold came nearest to the top 10."""

    run: str
    baseline: str | None
    queries: int
    """Queries with a relevant doc in the gold."""
    without_gold: int
    """Queries without one: they count as 0 too, and there is nothing to show of them."""
    absent: int
    """Queries with a relevant doc in the gold that have no line in the run; they are among the rows."""
    rows: tuple[Miss, ...]

    def __len__(self) -> int:
        return len(self.rows)


def misses(qrels: Any, run: Any = None, *, baseline: Any = None, **options: Unpack[Options]) -> Misses:
    """The queries with zero recall@10, with their gold and what came instead, and a baseline's top 10 beside."""
    settings = Settings.of({**options, "details": True, "cache": False})
    by_gold = replace(settings.data, judgments=None, judge=None, calibration=None)  # a hit is one of the gold
    settings = replace(settings, data=by_gold)
    texts: Mapping[str, str]
    if isinstance(qrels, Result) or is_saved(qrels):
        saved = qrels if isinstance(qrels, Result) else load(qrels)
        run_result, texts, conventions = choose_run(saved, run), saved.texts, saved.conventions
        beside = load(baseline) if is_saved(baseline) else saved
        other = None if baseline is None else choose_run(beside, baseline if beside is saved else None)
    else:
        result = evaluate(qrels, run, "recall@10", settings=settings)
        run_result, texts, conventions = result.runs[0], result.texts, result.conventions
        other = evaluate(qrels, baseline, "recall@10", settings=settings).runs[0] if baseline is not None else None
    if settings.data.queries is not None:
        texts = read_queries(settings.data.queries).with_ids_of(run_result.query_ids).texts
    mark = options.get("separator")
    mark = str(conventions.get("separator", SEPARATOR)) if mark is None else mark
    return _list_misses(run_result, other, texts, read_docs(doc_texts(settings.data) or {}, separator=mark))


def _list_misses(run: RunResult, other: RunResult | None, texts: Mapping[str, str], docs: Docs) -> Misses:
    rows = []
    queries = without_gold = 0
    for q in run.query_ids:
        relevant = [g for g in run.gold_docs(q) if is_relevant(g.grade)]
        queries, without_gold = queries + bool(relevant), without_gold + (not relevant)
        if not relevant or any(g.rank is not None and g.rank <= DEPTH for g in relevant):
            continue
        gold = tuple(
            Listed(g.doc, g.grade, docs.caption(g.doc), g.rank, None if g.rank else find_loss(run, q, g.doc))
            for g in sorted(relevant, key=lambda g: (-g.grade, g.rank or 1 << 60, g.doc))
        )
        beside = _top(other.top_docs(q), docs) if other is not None else None
        rows.append(Miss(q, texts.get(q, ""), gold, _top(run.top_docs(q), docs), beside))
    rows.sort(key=lambda m: (min((g.rank or 1 << 60 for g in m.gold), default=0), m.query_id))
    absent = absent_queries(run)
    count = sum(m.query_id in absent for m in rows)
    name = other.name if other is not None else None
    return Misses(run.name, name, queries, without_gold, count, tuple(rows))


def _top(rows: Sequence[TopDoc], docs: Docs) -> tuple[Listed, ...]:
    return tuple(Listed(d.doc, d.grade, docs.caption(d.doc), i) for i, d in enumerate(rows[:DEPTH], start=1))
