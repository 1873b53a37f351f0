"""Saved files of format 1, from before Karat 0.1, which held lists as records: read, and never written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NotRequired, TypedDict

import msgspec
import numpy as np

from karat.model.qrels import Qrels
from karat.model.rankings import Rankings
from karat.results.document import DocumentJson
from karat.results.gold import Gold
from karat.results.record import SamplingJson, read_sampling, sampling_json
from karat.results.result import FORMAT_VERSION, Derived, RunResult
from karat.results.sampling import Sampling
from karat.results.top_lists import TopLists
from karat.store.codec import as_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from karat.model.json_data import Json, JsonObject

    Lists = Mapping[str, "QueryLists"]
    """The lists of each query."""


class OldTopDoc(TypedDict):
    """A doc of a list."""

    doc: str
    score: float | None
    grade: float | None


class OldGoldDoc(TypedDict):
    """A judged doc, and the rank at which it was returned."""

    doc: str
    grade: float
    rank: int | None


class QueryLists(TypedDict):
    """What one query got, and what it should have."""

    top: list[OldTopDoc]
    returned: NotRequired[int]
    gold: list[OldGoldDoc]


OldRun = TypedDict(
    "OldRun",
    {
        "name": str,
        "query_ids": list[str],
        "per_query": "dict[str, list[float | None]]",
        "lists": "NotRequired[Lists]",
        "sampling": "NotRequired[JsonObject]",
        "attainable": "NotRequired[dict[str, float]]",
        "judged@10": "NotRequired[list[float | None]]",
    },
)


class OldDocument(TypedDict):
    """What a document of this version holds beside its head."""

    kind: str
    runs: list[OldRun]
    texts: NotRequired[dict[str, str]]
    fingerprints: NotRequired[dict[str, Json]]


RECORD = ("query_ids", "per_query", "judged@10", "attainable", "lists")
"""What a run of a saved document held beside its head."""


def upgrade(data: bytes) -> tuple[DocumentJson, OldDocument]:
    """A document with the head that this version has, and the whole of it as it was."""
    old: OldDocument = json.loads(data)
    head: dict[str, object] = {**old, "format_version": FORMAT_VERSION}
    head.pop("texts", None)
    named = old.get("fingerprints", {})
    prints = {k: {"hash": v} if k in ("gold", "queries") and isinstance(v, str) else v for k, v in named.items()}
    head |= {"fingerprints": prints} if prints else {}
    aside = RECORD if old["kind"] == "baseline" else (*RECORD, "sampling")
    head["runs"] = [{k: v for k, v in run.items() if k not in aside} for run in old["runs"]]
    return msgspec.convert(head, DocumentJson), old


def read_run(run: OldRun) -> RunResult:
    """One run of a saved document; the file may lack what an older version did not write."""
    sampling = {**as_plain(sampling_json(Sampling())), **run.get("sampling", {})}
    lists: Lists = run.get("lists", {})
    query_ids = run["query_ids"]
    gold = _gold(lists) if lists else None
    ranks = _integers(g["rank"] or 0 for one in lists.values() for g in one["gold"])
    return RunResult(
        run["name"],
        query_ids,
        {name: numbers(values) for name, values in run["per_query"].items()},
        {},
        sampling=read_sampling(msgspec.convert(sampling, SamplingJson)),
        gold=Gold(gold) if gold is not None else None,
        rankings=_rankings(query_ids, gold, ranks, lists) if gold is not None else None,
        gold_ranks=ranks if gold is not None else None,
        top=_top(lists) if lists else None,
        derived=Derived(run.get("attainable", {}), numbers(run["judged@10"]) if "judged@10" in run else None),
    )


def _gold(lists: Lists) -> Qrels:
    rows = [g for one in lists.values() for g in one["gold"]]
    offsets = np.cumsum([0, *(len(one["gold"]) for one in lists.values())])
    return Qrels(list(lists), offsets, [g["doc"] for g in rows], np.array([g["grade"] for g in rows], dtype=float))


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


def _integers(values: Iterable[int]) -> NDArray[np.int64]:
    return np.array(list(values), dtype=np.int64)


def numbers(values: Sequence[float | None]) -> NDArray[np.float64]:
    """Numbers as they were written; null is undefined."""
    return np.array(values, dtype=np.float64)
