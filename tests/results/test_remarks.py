"""What is said of the data beside the figures: each thing once, with its denominator."""

from __future__ import annotations

import karat
from karat.results.remarks import remarks_of, unjudged

QUERIES = [f"q{i}" for i in range(30)]
GOLD = {q: {"a": 1} for q in QUERIES} | {"empty": {"a": 0}}
LISTS = {q: ["a", "x", "y"] for q in QUERIES}


def texts(runs: dict[str, dict[str, list[str]]]) -> list[str]:
    return [remark.text for remark in remarks_of(karat.evaluate(GOLD, runs, "mrr", level="doc").runs)]


def test_what_is_said_of_the_gold_is_said_once() -> None:
    runs = {name: LISTS | {"empty": ["x"]} for name in "abc"}
    assert texts(runs) == ["1 query without any relevant doc in the gold"]


def test_what_holds_for_several_runs_is_said_once_with_their_names() -> None:
    more = LISTS | {"other": ["a"]}
    gold = "1 query without any relevant doc in the gold"
    left_out = "1 query of this run without gold: left out"
    missing = "1 query of the gold without results in this run"
    assert texts({"a": more, "b": more}) == [f"each run: {missing}", f"each run: {left_out}", gold]
    assert texts({"a": more, "b": LISTS, "c": more}) == [f"each run: {missing}", f"a, c: {left_out}", gold]


def test_unjudged_docs_are_counted_of_how_many() -> None:
    result = karat.evaluate(GOLD, {"a": LISTS, "b": {q: ["a"] for q in QUERIES}}, "mrr")
    # 30 lists of three docs, one of them judged; 30 lists of one judged doc.
    assert unjudged(result) == ["unjudged docs in the top 10 (counted as not relevant): a 60 of 90, b 0 of 30"]
