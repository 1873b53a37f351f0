"""The reranker: what it changes at the top, on the same queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from karat.config.options import Options, Settings
from karat.model.policy import RELEVANT, is_relevant
from karat.model.run import OrderedLists, Run
from karat.results.components import Component
from karat.verbs.components.estimator import of_all

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from karat.model.run_log import Trace
    from karat.verbs.components.inputs import Material

RERANK = "rerank"


def rerank_metrics(
    qrels: Any, before: Any, after: Any, *, k: int = 5, rel: float = RELEVANT, **options: Unpack[Options]
) -> Component:
    """ndcg@k and precision@k before and after reranking, Δ with interval and p, and the gold docs that moved.

    `before` and `after` are each {query: docs in order}; queries that both have are compared. `options` are those of
    `karat.components`.
    """
    lines = [
        {"query_id": q, "topk": [], "stages": {"before": list(docs), RERANK: list(after[q])}}
        for q, docs in before.items()
        if q in after
    ]
    from karat.verbs.components.inputs import read_material

    settings = Settings.of({"missing": "skip", **options})
    return measure(read_material(qrels, lines, settings, k=k, rel=rel))


def measure(material: Material) -> Component:
    """The stage of the reranker against the one before it."""
    from karat.verbs.components.inputs import no_log

    log = material.log
    if log is None:
        return Component("reranker", missing=no_log("stages"))
    stage = reranking(log.stage_names)
    both = [q for q, t in log.traces.items() if stage is not None and _before(t, stage) is not None]
    having = len(both)
    if stage is None or not set(both) & set(material.answerable):
        counts_text = of_all(having, len(log), "lines", "both", ", and none of these has gold" if both else "")
        return Component("reranker", missing=f"needs `stages` with `{RERANK}` and a stage before it: {counts_text}")
    before = material.lists("before", lambda t: _before(t, stage))
    after = material.lists("after", lambda t: _after(t, stage))
    k = material.k
    changes = material.compare(before, after, (f"ndcg@{k}", f"precision@{k}"))
    moves = promoted(material.answerable, *_lists(before, after), k=k, rel=material.rel, parent=material.parent)
    names = sorted({_name(t, stage) for t in log.traces.values() if _before(t, stage) is not None})
    left_out = len(log) - having
    return Component(
        "reranker",
        changes=changes,
        counts={
            "queries": next(iter(changes.values())).n,
            "promoted": sum(len(m["promoted"]) for m in moves.values()),
            "demoted": sum(len(m["demoted"]) for m in moves.values()),
        },
        tables={"before": ", ".join(names), "after": stage},
        per_query=moves,
        notes=(f"{left_out} of {len(log)} lines lack these stages and are left out",) if left_out else (),
    )


def reranking(names: Sequence[str]) -> str | None:
    """The stage that reranks: `rerank`, else the last whose name says so."""
    if RERANK in names:
        return RERANK
    return next((n for n in reversed(names) if "rerank" in n.lower().replace("-", "").replace("_", "")), None)


def _after(trace: Trace, stage: str) -> Sequence[str] | None:
    """What the reranker made of its input."""
    return trace.stages[stage] if _before(trace, stage) is not None else None


def _name(trace: Trace, stage: str) -> str:
    names = list(trace.stages)
    return names[names.index(stage) - 1]


def _before(trace: Trace, stage: str) -> Sequence[str] | None:
    """What the reranker was given: the stage right before it."""
    names = list(trace.stages)
    if stage not in names or names[0] == stage:
        return None
    return trace.stages[_name(trace, stage)]


def _lists(*runs: Run) -> list[Mapping[str, Sequence[str]]]:
    return [run.content.lists for run in runs if isinstance(run.content, OrderedLists)]


def promoted(
    gold: Mapping[str, Mapping[str, float]],
    before: Mapping[str, Sequence[str]],
    after: Mapping[str, Sequence[str]],
    *,
    k: int,
    rel: float = RELEVANT,
    parent: Callable[[str], str] = str,
) -> dict[str, dict[str, list[str]]]:
    """By query: the relevant docs that came into the top k, and those that fell out of it."""
    out = {}
    for q in sorted(gold):
        if q not in before or q not in after:
            continue
        relevant = {d for d, grade in gold[q].items() if is_relevant(grade, rel)}
        was, now = ({parent(d) for d in list(dict.fromkeys(x[q]))[:k]} & relevant for x in (before, after))
        if was != now:
            out[q] = {"promoted": sorted(now - was), "demoted": sorted(was - now)}
    return out
