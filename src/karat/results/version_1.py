"""Runs of documents of format version 1, which held lists as records: read, and never written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from karat.model.qrels import Qrels
from karat.model.rankings import Rankings
from karat.results.gold import Gold
from karat.results.result import Derived, RunResult
from karat.results.sampling import Sampling
from karat.results.top_lists import TopLists

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Lists = Mapping[str, Mapping[str, Any]]
    """By query: `top` [{doc, score, grade}], `returned`, and `gold` [{doc, grade, rank}]."""


def read_run(run: Mapping[str, Any]) -> RunResult:
    """One run of a saved document; the file may lack what an older version did not write."""
    sampling = run.get("sampling", {})
    lists: Lists = run.get("lists", {})
    query_ids = run["query_ids"]
    gold = _gold(lists) if lists else None
    ranks = _integers(g["rank"] or 0 for one in lists.values() for g in one["gold"])
    return RunResult(
        run["name"],
        query_ids,
        {name: numbers(values) for name, values in run["per_query"].items()},
        run["counts"],
        run.get("facts", {}),
        tuple(run.get("notes", ())),
        Sampling(**{**sampling, "by": tuple(map(tuple, sampling.get("by", ())))}),
        level=run.get("gold_level", "doc"),
        gold=Gold(gold) if gold is not None else None,
        rankings=_rankings(query_ids, gold, ranks, lists) if gold is not None else None,
        gold_ranks=ranks if gold is not None else None,
        top=_top(lists) if lists else None,
        derived=Derived(run.get("attainable", {}), numbers(run["judged@10"]) if "judged@10" in run else None),
        components=run.get("components", {}),
    )


def _gold(lists: Lists) -> Qrels:
    judged = [g for one in lists.values() for g in one["gold"]]
    offsets = np.cumsum([0, *(len(one["gold"]) for one in lists.values())])
    return Qrels(list(lists), offsets, [g["doc"] for g in judged], np.array([g["grade"] for g in judged], dtype=float))


def _top(lists: Lists) -> TopLists:
    docs = [d for one in lists.values() for d in one["top"]]
    return TopLists(
        list(lists),
        _integers(one.get("returned", len(one["top"])) for one in lists.values()),
        np.cumsum([0, *(len(one["top"]) for one in lists.values())]),
        [d["doc"] for d in docs],
        numbers([d["score"] for d in docs]),
        numbers([d["grade"] for d in docs]),
    )


def _rankings(query_ids: Sequence[str], gold: Qrels, ranks: NDArray[np.int64], lists: Lists) -> Rankings:
    """The judged docs at their ranks, without later chunks of a doc: the file does not tell them."""
    place = {q: i for i, q in enumerate(query_ids)}
    number = _integers(place[q] for q in gold.query_ids)[gold.query_of]
    hits = np.flatnonzero(ranks)
    hits = hits[np.lexsort((ranks[hits], number[hits]))]
    ideal = np.lexsort((-gold.grades, number))
    returned = np.zeros(len(query_ids), dtype=np.int64)
    returned[[place[q] for q in lists]] = [one.get("returned", len(one["top"])) for one in lists.values()]
    return Rankings(
        query_ids, number[hits], ranks[hits], gold.grades[hits], returned, number[ideal], gold.grades[ideal]
    )


def _integers(values: Any) -> NDArray[np.int64]:
    return np.array(list(values), dtype=np.int64)


def numbers(values: Sequence[float | None]) -> NDArray[np.float64]:
    """Numbers as they were written; null is undefined."""
    return np.array(values, dtype=np.float64)
