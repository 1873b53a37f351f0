"""Keys that appear twice, and true and false where numbers belong: said with their place, never guessed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import karat
from karat.verbs.bench.dataset import Dataset

GOLD = {"q1": {"d1": 1}, "q2": {"d3": 1}}
LINE = '{"query_id": "q2", "topk": [{"doc_id": "d3", "score": 2}]}\n'
ROW = '{"query_id": "q2", "doc_id": "d3", "score": 2}\n'
TWICE = "appears twice, with "
RUNS = {
    "a query": ("r.json", '{"q1": {"d1": 1}, "q1": {"d9": 2}}', f'r.json: "q1" {TWICE}'),
    "a doc": ("r.json", '{"q1": {"d1": 1, "d1": 2}}', f'r.json: "d1" {TWICE}'),
    "a doc, with a space": ("r.json", '{"q1": {"d1" : 1, "d1" : 2}}', f'r.json: "d1" {TWICE}'),
    "an id of a row": ("r.jsonl", ROW + ROW[:-2] + ', "query_id": "q1"}\n', f'r.jsonl:2: "query_id" {TWICE}'),
    "the list of a log": ("r.jsonl", LINE + LINE[:-2] + ', "topk": []}\n', f'r.jsonl:2: "topk" {TWICE}'),
    "an id of an item": (
        "r.jsonl",
        LINE.replace("q2", "q1") * 1 + LINE.replace('"score"', '"doc_id": "d9", "score"'),
        f'r.jsonl:2: "doc_id" {TWICE}',
    ),
    "a latency": (
        "r.jsonl",
        LINE[:-2] + ', "latency_ms": {"rerank": 1, "rerank": 2}}\n',
        f'r.jsonl:1: "rerank" {TWICE}',
    ),
}
BOOLEANS = {
    "a run as an object": ("r.json", '{"q1": {"d2": 2, "d1": true}}', 'query "q1", doc "d1": .*found true'),
    "a run as rows": ("r.jsonl", '{"query_id": "q1", "doc_id": "d1", "score": true}\n', "r.jsonl:1: score must be"),
    "a run log": ("r.jsonl", LINE.replace('"score": 2', '"score": true'), "r.jsonl:1: topk item 1: score must be"),
}


@pytest.mark.parametrize("case", RUNS)
def test_a_key_that_appears_twice_in_a_run_is_an_error(tmp_path: Path, case: str) -> None:
    name, text, message = RUNS[case]
    (tmp_path / name).write_text(text)
    with pytest.raises(karat.InputError) as refused:
        karat.evaluate(GOLD, str(tmp_path / name), "mrr")
    assert message in str(refused.value)


def test_keys_are_looked_for_in_lines_that_are_alike(tmp_path: Path) -> None:
    lines = [LINE.replace("q2", f"q{i}") for i in range(50)]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(lines))
    assert karat.evaluate(GOLD, str(path), "mrr").mean["mrr"] == 0.5
    lines[30] = lines[30].replace('"score"', '"score": 1, "score"')
    path.write_text("".join(lines))
    with pytest.raises(karat.InputError, match=r'r\.jsonl:31: "score" appears twice'):
        karat.evaluate(GOLD, str(path), "mrr")


def test_text_that_looks_like_keys_is_text(tmp_path: Path) -> None:
    line = json.dumps({"query_id": "q1", "query": 'he said "topk": "topk":', "topk": [{"doc_id": 'd"topk":'}]})
    (tmp_path / "r.jsonl").write_text(line + "\n")
    assert karat.evaluate({"q1": {'d"topk":': 1}}, str(tmp_path / "r.jsonl"), "mrr").mean["mrr"] == 1.0
    (tmp_path / "r.json").write_text(json.dumps({"q1": {'d"x": 1, "x": 1': 2.5, "y": 1}}))
    assert karat.evaluate({"q1": {"y": 1}}, str(tmp_path / "r.json"), "mrr").mean["mrr"] == 0.5


@pytest.mark.parametrize("case", BOOLEANS)
def test_true_is_not_a_score(tmp_path: Path, case: str) -> None:
    name, text, message = BOOLEANS[case]
    (tmp_path / name).write_text(text)
    with pytest.raises(karat.InputError, match=message):
        karat.evaluate(GOLD, str(tmp_path / name), "mrr")


@pytest.mark.parametrize("text", ['{"q1": {"d1": true}}', '{"query_id": "q1", "doc_id": "d1", "grade": false}\n'])
def test_true_is_not_a_grade(tmp_path: Path, text: str) -> None:
    path = tmp_path / ("g.jsonl" if "grade" in text else "g.json")
    path.write_text(text)
    with pytest.raises(karat.InputError, match="finite number"):
        karat.evaluate(str(path), {"q1": ["d1"]}, "mrr")
    with pytest.raises(karat.InputError, match="finite number"):
        karat.evaluate({"q1": {"d1": True}}, {"q1": ["d1"]}, "mrr")
    with pytest.raises(karat.InputError, match="finite number"):
        karat.evaluate({"q1": {"d1": 1}}, {"q1": {"d1": True}}, "mrr")


@pytest.mark.parametrize("value", ["maybe", 2, "2", "yes and no", [], {}])
def test_no_answer_is_yes_or_no(tmp_path: Path, value: object) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_text(json.dumps({"query_id": "q2"}) + "\n" + json.dumps({"query_id": "q1", "no_answer": value}) + "\n")
    with pytest.raises(karat.InputError, match=r'queries\.jsonl:2: query "q1": no_answer must be true or false, found'):
        karat.evaluate(GOLD, {"q1": ["d1"]}, "mrr", queries=str(path))
    with pytest.raises(karat.InputError, match="no_answer must be true or false"):
        karat.evaluate(GOLD, {"q1": ["d1"]}, "mrr", queries={"q1": {"no_answer": value}})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("queries.csv", "query_id,text,no_answer\nq1,a,true\nq2,b,false\nq3,c,\n"),
        ("queries.jsonl", '{"_id": "q1", "text": "a", "no_answer": true}\n{"_id": "q2", "text": "b"}\n'),
        ("queries.tsv", "query_id\ttext\tno_answer\nq1\ta\tYES\nq2\tb\tno\n"),
    ],
)
def test_every_format_means_the_same_by_true(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    queries = karat.read_queries(tmp_path / name)
    assert queries.no_answer == ["q1"]
    dataset = Dataset("d", {"q2": {"d1": 1}}, str(tmp_path / name), {"d1": {"text": "x"}})
    assert [query.id for query in dataset.queries] == ["q1", "q2"]


def test_a_stated_format_does_not_make_blank_lines_a_run(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text("\n\n")
    with pytest.raises(karat.InputError, match=r"r\.jsonl: holds no results, expected at least one"):
        karat.evaluate(GOLD, str(tmp_path / "r.jsonl"), "mrr", run_format="jsonl")


@pytest.mark.parametrize("metadatas", [{"a": 1}, 5, "x", [5], [[5]], [{}, {}, {}]])
def test_metadata_of_chroma_that_fits_no_ids_is_an_error(tmp_path: Path, metadatas: object) -> None:
    (tmp_path / "r.json").write_text(json.dumps({"q1": {"ids": [["d1"]], "metadatas": metadatas}}))
    with pytest.raises(karat.InputError, match=r'r\.json: query "q1": metadatas must be a dict or None for each'):
        karat.evaluate(GOLD, str(tmp_path / "r.json"), "mrr")


def test_subtopics_that_are_no_ids_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text('{"q1": {"d1": [[1]]}}')
    with pytest.raises(karat.InputError, match="a subtopic must be text or an integer"):
        karat.evaluate(str(tmp_path / "g.json"), {"q1": ["d1"]}, "mrr")
