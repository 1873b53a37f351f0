"""Conventions: each changes figures, and one that drops or reorders docs acts on every kind of list alike."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import karat
import karat.align
from karat.model.option import OptionGroup, option, options_of
from karat.model.policy import Policy
from karat.model.qrels import Qrels
from karat.model.ranked_docs import RankedDocs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karat.model.option import Option

ROOT = Path(__file__).parents[2]

GOLD = {
    "q1": {"d1": 2, "d3": 1, "d9": 0, "x": -1, "a": 1},
    "q2": {"q2": 0, "d5": 1},
    "q3": {"d1": 1},  # not in the run
    "q4": {"d1": 0},  # without a relevant doc
}
QUERIES = {q: {"as_of": "2025-01-01"} for q in GOLD}
LINES = [
    {
        "query_id": "q1",
        "topk": [
            {"chunk_id": "x", "score": 0.9, "doc_version": "2025-06-01"},
            {"chunk_id": "d1#1", "score": 0.8},
            {"chunk_id": "d1#2", "score": 0.7},
            {"chunk_id": "d3::a", "score": 0.6},
            {"chunk_id": "a", "score": 0.5 + 1e-12},
            {"chunk_id": "z", "score": 0.5},  # tied with a in 32 bits, and then above it
            {"chunk_id": "d1#1", "score": 0.4},
        ],
        "stages": {"retrieve": ["z", "d1#1"], "rerank": ["x", "d1#1", "d1#2", "d3::a", "a", "z"]},
    },
    {
        "query_id": "q2",
        "topk": [
            {"chunk_id": "q2", "score": 0.9},
            {"chunk_id": "y", "score": 0.8},
            {"chunk_id": "d5", "score": 0.7},
            {"chunk_id": "c", "score": 0.7},
        ],
        "stages": {"retrieve": ["q2", "y", "d5"], "rerank": ["q2", "y", "d5"]},
    },
    {"query_id": "q4", "topk": [{"chunk_id": "d1", "score": 1}], "stages": {"retrieve": ["d1"], "rerank": ["d1"]}},
]
VALUES = {"separator": "::", "stage": "retrieve"}
"""A value of each convention that holds text or a number."""
CASES: dict[str, tuple[Any, Any]] = {}
"""Gold and run in which a convention matters, where it does not matter in those above."""


def other_value(each: Option) -> Any:
    if each.kind == "choice":
        return next(c for c in each.choices if c != each.default)
    return {"yes": not each.default, "count": 1, "share": 0.5}.get(each.kind, VALUES.get(each.name))


def figures(gold: Any, run: Any, **options: Any) -> Any:
    metrics = "ndcg@10,map,precision@3,num_ret,mrr"
    try:
        return karat.evaluate(gold, run, metrics, queries=QUERIES, cache=False, **options).mean
    except karat.InputError as error:
        return str(error)


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return str(path)


@pytest.mark.parametrize("each", options_of(Policy), ids=lambda each: each.name)
def test_every_convention_changes_a_figure(each: Option, log: str) -> None:
    gold, run = CASES.get(each.name, (GOLD, log))
    options: Any = {each.name: other_value(each)}
    assert figures(gold, run, **options) != figures(gold, run), (
        f"nothing applies {each.name}, or VALUES or CASES lack it"
    )


# --- conventions that drop or reorder docs ------------------------------------------------------------

FLAT = {"q1": {"b": 2, "d": 1, "e": 0, "f": -1}, "q2": {"q2": 1, "c": 1}, "q3": {"a": 1}, "q4": {"a": 1, "q4": 1}}
SCORES = {
    "q1": {"a": 10, "b": 9, "f": 8, "d": 7, "c": 7, "q1": 5, "e": 4},  # c and d tie
    "q2": {"q2": 10, "a": 9, "z": 8, "c": 8},  # z, which nobody judged, and c tie
    "q4": {"q4": 10},
}
LISTS = {q: list(docs) for q, docs in SCORES.items()}


def rows() -> Iterator[tuple[str, str, int]]:
    return ((query, doc, score) for query, docs in SCORES.items() for doc, score in docs.items())


def trec(path: Path, lines: list[tuple[str, str, int]]) -> str:
    path.write_text("".join(f"{q} Q0 {d} 1 {s} t\n" for q, d, s in lines))
    return str(path)


def shapes(folder: Path) -> dict[str, Any]:
    """The same lists with their scores in every shape that is aligned in its own way."""
    items = {q: [{"chunk_id": d, "score": s} for d, s in docs.items()] for q, docs in SCORES.items()}
    lines = [{"query_id": q, "topk": topk} for q, topk in items.items()]
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {
        "log": str(folder / "log.jsonl"),
        "file": trec(folder / "file.run", list(rows())),
        "shuffled": trec(folder / "shuffled.run", sorted(rows(), key=lambda row: (row[2] % 3, row[1]))),
    }


def hits(gold: Any, run: Any, policy: Policy, keep_items: int = 3) -> Any:
    qrels = karat.read_qrels(gold)
    assert isinstance(qrels, Qrels)
    aligned, _ = karat.align.align(qrels, karat.read_run(run, policy=policy), policy, keep_items=keep_items)
    found = aligned.hits
    ranks = {
        (qrels.query_of[g], qrels.docs[g]): r for g, r in zip(found.gold.tolist(), found.rank.tolist(), strict=True)
    }
    tops = {q: [item.doc for item in items] for q, items in found.items.items() if items}
    return ranks, found.returned.tolist(), tops, aligned.counts


@pytest.mark.parametrize("each", [o for o in options_of(Policy) if o.selects], ids=lambda each: each.name)
def test_a_convention_on_docs_acts_on_every_kind_of_run_alike(
    each: Option, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: Any = {each.name: other_value(each)}
    policy = Policy(**chosen)
    expected = hits(FLAT, SCORES, policy)
    assert expected != hits(FLAT, SCORES, Policy()), (
        f"{each.name}={chosen[each.name]!r} changes nothing in SCORES (scores are 4 to 10): give VALUES one that does"
    )
    for name, run in shapes(tmp_path).items():
        assert hits(FLAT, run, policy) == expected, name
    monkeypatch.setattr("karat.align.IN_MEMORY", 0)
    assert hits(FLAT, shapes(tmp_path)["shuffled"], policy) == expected


@dataclass(frozen=True, slots=True)
class _Turned(Policy):
    turned: bool = option(False, "The last doc first.", selects=lambda docs, _: np.lexsort((-docs.rank, docs.query)))
    good: float | None = option(None, "Docs from this score on.", selects=lambda docs, s: docs.score > s)


def test_a_convention_may_reorder_docs_and_look_at_scores(tmp_path: Path) -> None:
    """The last of 10 to 6 comes first; only the scores above 7 count."""
    for run in (SCORES, *shapes(tmp_path).values()):
        ranks, returned, tops, _ = hits(FLAT, run, _Turned(turned=True))
        assert ranks[0, "e"] == 1 and ranks[0, "b"] == 6 and ranks[1, "c"] == 1
        assert returned == [7, 4, -1, 1] and tops[0] == ["e", "q1", "c"]
        assert hits(FLAT, run, _Turned(good=7.0))[1] == [3, 4, -1, 1]


def test_conventions_act_together() -> None:
    """Only c has a score above 7 and a judgment once the query itself is gone."""
    both = hits(FLAT, {"q2": {"q2": 9, "a": 8, "c": 7.5}}, _Turned(ignore_self=True, condensed=True, good=7))
    assert both[0] == {(1, "c"): 1} and both[1][1] == 1


def test_what_was_returned_is_counted_before_judgments_drop_docs() -> None:
    *_, counts = hits({"q": {"b": 1}}, {"q": ["a", "a", "b", "q", "q"]}, Policy(condensed=True, ignore_self=True))
    assert (counts["depth"], counts["duplicates"], counts["unjudged_at_10"]) == (2, 1, 0)


def test_docs_that_do_not_count_are_missing_from_every_list_of_a_log() -> None:
    """k = 1. The query itself is first in the final list and in its stages: without it, a is delivered."""
    log = [
        {
            "query_id": "q",
            "topk": [{"chunk_id": "q"}, {"chunk_id": "a"}],
            "stages": {"retrieve": ["q", "x", "a"], "rerank": ["q", "a"]},
        }
    ]
    gold = {"q": {"a": 1, "q": 1}}
    plain, chosen = (karat.components(gold, log, k=1, ignore_self=on) for on in (False, True))
    assert [p.funnel.counts[end] for p in (plain, chosen) for end in ("delivered", "cut", "never_retrieved")] == [
        *(1, 1, 0),
        *(1, 0, 1),
    ]
    assert (plain.retriever["mrr@50"].estimate, chosen.retriever["mrr@50"].estimate) == (1, 1 / 2)


def test_top_lists_hold_the_docs_that_count() -> None:
    result = karat.evaluate(FLAT, LISTS, "mrr", condensed=True, details=True)
    assert [d.doc for d in result.runs[0].top_docs("q1")] == ["b", "d", "e"]


def test_the_page_names_every_convention() -> None:
    page = (ROOT / "docs/data.md").read_text("utf-8")
    (table,) = re.findall(r"\n\| case \| default \| option \|\n(.*?)\n\n", page, re.DOTALL)
    for each in options_of(Policy):
        assert re.search(rf"`{each.flag}\b", table), f"the table of docs/data.md lacks {each.flag}"


# --- the contributors' guide --------------------------------------------------------------------------


def test_the_convention_of_the_contributors_guide_works(tmp_path: Path) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    block = next(b for b in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "class Policy(OptionGroup)" in b)
    names: dict[str, Any] = {"OptionGroup": Policy, "option": option, "RankedDocs": RankedDocs, "Mask": np.ndarray}
    exec(textwrap.dedent(block), names)
    extended: Any = dataclass(frozen=True, slots=True)(names["Policy"])
    assert issubclass(extended, OptionGroup)
    for run in (LISTS, SCORES, *shapes(tmp_path).values()):
        ranks, returned, *_ = hits(FLAT, run, extended(max_depth=2))
        assert ranks == {(0, "b"): 2, (1, "q2"): 1, (3, "q4"): 1}
        assert returned == [2, 2, -1, 1]
