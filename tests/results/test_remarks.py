"""What is said of the data beside the figures: each thing once, with its denominator."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import karat
from karat.results.remarks import data_remarks, describe_unjudged

if TYPE_CHECKING:
    from pathlib import Path

QUERIES = [f"q{i}" for i in range(30)]
GOLD = {q: {"a": 1} for q in QUERIES} | {"empty": {"a": 0}}
LISTS = {q: ["a", "x", "y"] for q in QUERIES}


def texts(runs: dict[str, dict[str, list[str]]]) -> list[str]:
    return [remark.text for remark in data_remarks(karat.evaluate(GOLD, runs, "mrr", level="doc").runs)]


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
    assert describe_unjudged(result.runs) == [
        "unjudged docs in the top 10 (counted as not relevant): a 60 of 90, b 0 of 30"
    ]


def test_independent_queries_are_those_that_figures_of_relevance_rest_on(tmp_path: Path) -> None:
    lines = [{"query_id": q, "topk": [{"doc_id": "a"}], "latency_ms": {"search": 5}} for q in [*QUERIES, "no gold"]]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = {q: {"conversation": f"c{i // 3}"} for i, q in enumerate([*QUERIES, "no gold"])}
    gold = {q: {"a": 1} for q in QUERIES}
    for metrics in ("mrr", "mrr, latency.p50", "latency.p50, mrr"):
        result = karat.evaluate(gold, tmp_path / "log.jsonl", metrics, queries=table)
        (text,) = [remark.text for remark in data_remarks(result.runs) if "independent" in remark.text]
        assert text == "30 queries count as 10 independent ones (conversations)"
        assert result.runs[0].intervals["mrr"].n_eff == 10
