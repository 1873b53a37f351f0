"""Top lists of a run on a cluster: of all queries where these are few, else of a sample and of the worst ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from karat.align import find
from karat.model.qrels import Qrels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from karat.align.hits import Aligned
    from karat.model.policy import Policy
    from karat.model.run import RemoteRows, Run

KEPT = 10_000
"""Queries whose top lists are kept where a run has more."""
WORST = 2_000
"""How many of these are the ones with the lowest values; the others are drawn at random."""


def keep_some(
    aligned: Aligned,
    run: Run,
    content: RemoteRows,
    policy: Policy,
    values: Mapping[str, NDArray[np.float64]],
    depth: int,
) -> tuple[Aligned, str]:
    """The alignment with the top lists of some queries, and what to say of that."""
    hits, qrels = aligned.hits, aligned.qrels
    name, column = next(((n, v) for n, v in values.items() if len(v) == len(aligned.queries)), ("", None))
    places = np.random.default_rng(0).permutation(len(aligned.queries))
    if column is not None:
        worst = np.argsort(column, kind="stable")[:WORST]  # NaN comes last
        places = np.concatenate((worst, places[~np.isin(places, worst)]))
    chosen = np.sort(aligned.queries[places[:KEPT]])
    some = part_of(qrels, chosen)
    how = replace(policy, level="doc" if hits.at_doc else "chunk")
    found, _ = find(some, replace(run, content=content.only(some.query_ids)), how, keep_items=depth)
    items = {int(chosen[q]): top for q, top in found.items.items()}
    worst_text = f"the {WORST:,} with the lowest {name} and others at random" if column is not None else "at random"
    note = f"top lists are kept of {len(chosen):,} of {len(aligned.queries):,} queries: {worst_text}"
    return replace(aligned, hits=replace(hits, items=items)), note


def part_of(qrels: Qrels, numbers: NDArray[np.int64]) -> Qrels:
    """The judgments of some queries, which are in order."""
    sizes = np.diff(qrels.offsets)[numbers]
    rows = np.concatenate([np.arange(qrels.offsets[i], qrels.offsets[i + 1]) for i in numbers.tolist()])
    ids = [qrels.query_ids[i] for i in numbers.tolist()]
    docs = [qrels.docs[i] for i in rows.tolist()]
    return Qrels(ids, np.concatenate(([0], np.cumsum(sizes))), docs, qrels.grades[rows], qrels.source)
