"""The stage funnel: how many relevant docs are lost at each stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from karat.errors import InputError
from karat.metrics.component_figures import CUT, DELIVERED, LOST, NEVER
from karat.model.policy import RELEVANT, is_relevant
from karat.results.components import Component
from karat.results.words import plural
from karat.verbs.components.estimator import Estimator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from karat.config.options import Options

LOST_AT = f"{LOST}."


def stage_funnel(
    gold: Mapping[str, Mapping[str, float]],
    stages: Mapping[str, Mapping[str, Sequence[str]]],
    final: Mapping[str, Sequence[str]],
    *,
    k: int = 5,
    rel: float = RELEVANT,
    parent: Callable[[str], str] = str,
    order: Sequence[str] = (),
    estimator: Estimator | None = None,
    **options: Unpack[Options],
) -> Component:
    """Where each relevant gold doc ends: never retrieved, lost at a stage, cut at k, or delivered in the top k.

    `stages` holds each query's docs after each stage, in order, and `final` what was returned. A doc in the top k is
    delivered. Else it is lost right after the last stage that holds it: at the next stage of its query, or cut after
    the last one; in no stage and not returned, it was never retrieved. A doc that a stage holds and an earlier one
    lacks came in late and is counted as such. `parent` names the doc of a chunk, for gold by doc: a doc is where any
    of its chunks is. `options` are queries, confidence, method, resamples, seed.
    """
    estimator = estimator or Estimator.of(**options)
    names = list(dict.fromkeys([*order, *(s for by in stages.values() for s in by)]))
    ends = [NEVER, *(LOST_AT + s for s in names[1:]), CUT, DELIVERED]
    ids = sorted(gold)
    table: dict[str, dict[str, int]] = {}
    late = 0
    for q in ids:
        relevant = [d for d, grade in gold[q].items() if is_relevant(grade, rel)]
        steps = {name: {parent(d) for d in docs} for name, docs in stages.get(q, {}).items()}
        returned = list(dict.fromkeys(final.get(q, ())))
        top, all_of_it = ({parent(d) for d in part} for part in (returned[:k], returned))
        row = dict.fromkeys(ends, 0)
        for doc in relevant:
            end, came_late = _end(doc, steps, top, all_of_it)
            row[end] = row.get(end, 0) + 1
            late += came_late
        table[q] = {"gold": len(relevant), **row}
    ends = list(dict.fromkeys([*ends, *(e for row in table.values() for e in row if e != "gold")]))
    ends = [NEVER, *(e for e in ends if e.startswith(LOST_AT)), CUT, DELIVERED]
    totals = {end: sum(row.get(end, 0) for row in table.values()) for end in ends}
    total = sum(row["gold"] for row in table.values())
    if not total:
        raise InputError("the stage funnel needs gold with at least one relevant doc, found none")
    whole = [float(table[q]["gold"]) for q in ids]
    notes = _stage_notes(ids, stages, final, names)
    if late:
        notes.append(
            f"{late} relevant docs are in a stage and not in one before it: each is lost after the last that holds it"
        )
    if len(set(estimator.sampling.units(ids).weight.tolist())) > 1:
        notes.append("counts are of docs, shares of docs by the weights of their queries")
    return Component(
        "funnel",
        figures={end: estimator.ratio(ids, [float(table[q].get(end, 0)) for q in ids], whole) for end in ends},
        counts={"queries": len(ids), "gold": total, **totals, "came_late": late},
        tables={"stages": names, "k": k},
        per_query={q: row for q, row in table.items() if row["gold"]},
        notes=tuple(notes),
    )


def _stage_notes(
    ids: Sequence[str],
    stages: Mapping[str, Mapping[str, Sequence[str]]],
    final: Mapping[str, Sequence[str]],
    names: Sequence[str],
) -> list[str]:
    """What to know of queries with results whose lines lack stages that others have."""
    returned = [q for q in ids if final.get(q)]
    blank = sum(not stages.get(q) for q in returned)
    out = []
    if blank:
        out.append(
            f"{plural(blank, 'query', 'queries')} with results but no stages: what was not returned counts as {NEVER}"
        )
    for name in names:
        if lacking := sum(bool(stages.get(q)) and name not in stages[q] for q in returned):
            out.append(f"{plural(lacking, 'query', 'queries')} without the stage {name}: no doc is lost there")
    return out


def _end(doc: str, steps: Mapping[str, set[str]], top: set[str], returned: set[str]) -> tuple[str, bool]:
    """Where a doc ends, and whether it came in late."""
    names = list(steps)
    in_stage = [doc in steps[name] for name in names]
    held_or_final = [*in_stage, doc in returned]
    late = any(here and not all(held_or_final[:i]) for i, here in enumerate(held_or_final))
    if doc in top:
        return DELIVERED, late
    if doc in returned:
        return CUT, late
    if not any(in_stage):
        return NEVER, late
    last = max(i for i, here in enumerate(in_stage) if here)
    return (CUT if last == len(names) - 1 else LOST_AT + names[last + 1]), late
