"""What is said of the data beside the figures: each thing once, with its denominator."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

import karat
from karat.report.view import view_of
from karat.results.remarks import data_remarks, describe_size, describe_unjudged

if TYPE_CHECKING:
    from pathlib import Path

QUERIES = [f"q{i}" for i in range(30)]
GOLD = {q: {"a": 1} for q in QUERIES} | {"empty": {"a": 0}}
LISTS = {q: ["a", "x", "y"] for q in QUERIES}

ALIKE = "queries of one conversation may be alike: 30 queries in 10 conversations count as at least 10 independent ones"


def texts(runs: dict[str, dict[str, list[str]]]) -> list[str]:
    return [remark.text for remark in data_remarks(karat.evaluate(GOLD, runs, "mrr", level="doc").runs)]


def test_what_is_said_of_the_gold_is_said_once() -> None:
    runs = {name: LISTS | {"empty": ["x"]} for name in "abc"}
    assert texts(runs) == ["1 query without any relevant doc in the gold"]


def test_what_holds_for_several_runs_is_said_once_with_their_names() -> None:
    more = LISTS | {"other": ["a"]}
    gold = "1 query without any relevant doc in the gold"
    left_out = "1 query without gold: left out"
    missing = "1 query of the gold without results"
    assert texts({"a": more, "b": more}) == [f"all runs: {missing}", f"all runs: {left_out}", gold]
    assert texts({"a": more, "b": LISTS, "c": more}) == [f"all runs: {missing}", f"a, c: {left_out}", gold]


def test_what_holds_for_the_runs_judged_is_not_said_of_each_run() -> None:
    short = {q: LISTS[q] for q in QUERIES[5:]}
    result = karat.evaluate(GOLD, {"old": short, "new": short, "other": LISTS}, "mrr", level="doc")
    check = karat.check(result, ["mrr >= 0.1"], baseline="old", candidate="new")
    # 5 queries and "empty" lack results in both; other lacks "empty" alone.
    assert check.remarks[0].text == "old, new: 6 queries of the gold without results"
    alone = karat.check(result, ["mrr >= 0.1"], candidate="new")
    assert alone.remarks[0].text == "new: 6 queries of the gold without results"


def test_empty_lists_are_those_of_queries_of_the_gold_and_name_the_convention_that_may_have_emptied_them() -> None:
    lists = LISTS | {"q0": [], "no gold": [], "q1": ["x", "y"]}
    empty = "nothing was returned for 1 judged query"
    assert empty in texts({"a": lists})
    result = karat.evaluate(GOLD, lists, "mrr", level="doc", condensed=True)
    said = [r.text for r in data_remarks(result.runs)]
    assert {empty, f"{empty} by the convention condensed"} <= set(said)  # q0 and q1


def test_lists_that_a_log_has_empty_are_not_those_that_a_convention_emptied(tmp_path: Path) -> None:
    """Of 30 lists two are empty in the log, and three hold only docs that nobody judged."""
    lists = {q: [] if i < 2 else ["x"] if i < 5 else ["a", "x"] for i, q in enumerate(QUERIES)}
    lines = [{"query_id": q, "topk": [{"doc_id": d} for d in docs], "cost": {"usd": 1}} for q, docs in lists.items()]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    wanted = [
        "nothing was returned for 2 judged queries",
        "nothing was returned for 3 judged queries by the convention condensed",
    ]
    for run in (str(tmp_path / "log.jsonl"), lists):
        result = karat.evaluate(GOLD, run, "mrr", condensed=True, missing="skip")
        result.save(tmp_path / "result.json")
        for one in (result, karat.load(str(tmp_path / "result.json"))):
            said = [r.text for r in data_remarks(one.runs) if r.text.startswith("nothing")]
            assert said == wanted


def test_unjudged_docs_are_counted_of_how_many() -> None:
    result = karat.evaluate(GOLD, {"a": LISTS, "b": {q: ["a"] for q in QUERIES}}, "mrr")
    # 30 lists of three docs, one of them judged; 30 lists of one judged doc.
    assert describe_unjudged(result.runs) == [
        "docs in the top 10 that nobody judged (counted as not relevant): a 60 of 90, b 0 of 30"
    ]


def test_independent_queries_are_those_that_figures_of_relevance_rest_on(tmp_path: Path) -> None:
    lines = [{"query_id": q, "topk": [{"doc_id": "a"}], "latency_ms": {"search": 5}} for q in [*QUERIES, "no gold"]]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = {q: {"conversation": f"c{i // 3}"} for i, q in enumerate([*QUERIES, "no gold"])}
    gold = {q: {"a": 1} for q in QUERIES}
    for metrics in ("mrr", "mrr, latency.p50", "latency.p50, mrr"):
        result = karat.evaluate(gold, tmp_path / "log.jsonl", metrics, queries=table)
        texts = [remark.text for remark in data_remarks(result.runs) if "independent" in remark.text]
        assert texts == [ALIKE, "only 10 independent queries: so few can only show large differences"]
        assert result.runs[0].intervals["mrr"].n_eff == 10


def test_every_output_says_that_so_few_queries_show_little() -> None:
    few = "only 12 queries: so few can only show large differences"
    gold = {q: {"a": 1} for q in QUERIES[:12]}
    lists = {"a": {q: ["a", "b"] for q in gold}, "b": {q: ["b", "a"] for q in gold}}
    result = karat.evaluate(gold, lists, "mrr")
    compared, checked = karat.compare(gold, lists, "mrr"), karat.check(result, ["mrr >= 0.1"])
    for one in (result, compared, checked):
        assert one.as_json()["warnings"].count(few) == 1
        assert one.table().notes.count(few) == 1


def test_gold_without_a_relevant_grade_is_named_and_ids_are_not() -> None:
    zeros = karat.evaluate({q: {"a": 0} for q in QUERIES}, LISTS, "mrr,ndcg@10")
    said = [remark.text for remark in data_remarks(zeros.runs)]
    assert "no doc of the gold has a grade of 1 or more, so mrr can only be 0: check the grades" in said
    assert "no doc of the gold has a grade above 0, so ndcg@10 can only be 0: check the grades" in said
    assert not any("check the ids" in text for text in said)
    high = karat.evaluate({q: {"a": 2} for q in QUERIES}, LISTS, "mrr,recall(rel=9)@3")
    assert [remark.text for remark in data_remarks(high.runs)] == [
        "no doc of the gold has a grade of 9 or more, so recall(rel=9)@3 can only be 0: check the grades"
    ]


def test_ids_in_another_spelling_are_a_warning_that_a_saved_result_keeps(tmp_path: Path) -> None:
    gold = {f"q{i}": {f"D-{i:03}": 1, "x": 1} for i in range(30)}
    result = karat.evaluate(gold, {f"q{i}": [f"D-{i}", "x"] for i in range(30)}, "mrr", details=True)
    (warning,) = [remark for remark in data_remarks(result.runs) if "spelling" in remark.text]
    assert warning.serious
    result.save(str(tmp_path / "saved.json"))
    assert data_remarks(karat.load(tmp_path / "saved.json").runs) == data_remarks(result.runs)


def test_json_holds_every_remark() -> None:
    """What check says in JSON, evaluate and compare say too: units, and docs that nobody judged."""
    table = {q: {"conversation": f"c{i // 3}"} for i, q in enumerate(QUERIES)}
    gold = {q: {"a": 1} for q in QUERIES}
    said = [ALIKE, "only 10 independent queries: so few can only show large differences"]
    alone = karat.evaluate(gold, {"a": LISTS}, "mrr", queries=table)
    unjudged = "docs in the top 10 that nobody judged (counted as not relevant): a 60 of 90"
    assert alone.as_json()["warnings"] == [*said, unjudged]
    two = karat.compare(gold, {"a": LISTS, "b": LISTS}, "mrr", queries=table)
    assert two.as_json()["warnings"] == [*said, f"{unjudged}, b 60 of 90"]


def test_ids_are_not_doubted_where_nothing_was_returned() -> None:
    notes = karat.evaluate({"q1": {"a": 1}}, {"q1": []}, "mrr").notes
    assert "nothing was returned for 1 judged query" in notes
    assert not any("check the ids" in note for note in notes)


def test_data_frames_have_the_segments() -> None:
    queries = {"q1": {"l": "de"}, "q2": {"l": "en"}}
    result = karat.evaluate(
        {q: {"a": 1} for q in queries}, {"q1": ["a"], "q2": ["x", "a"]}, "mrr", queries=queries, by="l"
    )
    rows = result.table().to_dict()
    assert list(zip(rows["segment"], rows["value"], strict=True)) == [(None, 0.75), ("l = de", 1.0), ("l = en", 0.5)]


def test_no_figures_have_a_reason_where_all_queries_are_marked_no_answer(tmp_path: Path) -> None:
    queries = {"q1": {"text": "hi", "no_answer": True}}
    result = karat.evaluate({"q1": {"a": 0}}, {"q1": ["b", "a"]}, "mrr", queries=queries, details=True)
    assert "all queries are marked no_answer, and metrics that need gold leave them out" in result.notes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        karat.write_report(result, str(tmp_path / "page.html"))


def test_the_size_of_a_result_is_that_of_its_metrics(tmp_path: Path) -> None:
    """30 queries with a relevant doc and 5 without gold; one of these has no latency."""
    lines = [
        {"query_id": q, "topk": [{"doc_id": "a"}], "stages": {"fetch": ["a"]}, "latency_ms": {"fetch": 1, "rank": 2}}
        for q in [*QUERIES, *(f"n{i}" for i in range(5))]
    ]
    del lines[-1]["latency_ms"]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    gold, log = {q: {"a": 1} for q in QUERIES}, str(tmp_path / "log.jsonl")
    sizes = {
        metrics: describe_size(karat.evaluate(gold, log, metrics).runs)
        for metrics in ("mrr", "mrr,latency.p50", "latency.p50", "latency.p50,distinct_docs@5")
    }
    assert list(sizes.values()) == ["30 queries", "30 queries", "34 queries", "34–35 queries"]
    assert view_of(karat.evaluate(gold, log, "latency.p50")).scope == "34 queries · log"
    staged = karat.evaluate(gold, log, "mrr,latency.p50,latency.fetch.p50", stage="fetch")["log"].notes
    assert "latency.p50 is of the whole pipeline, not of stage 'fetch'" in staged
    assert not any("whole pipeline" in note for note in karat.evaluate(gold, log, "mrr,latency.p50")["log"].notes)
