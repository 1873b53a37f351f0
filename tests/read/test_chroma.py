"""Results of Chroma as they come from `collection.query()`, for one query or for many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import karat
from karat.errors import InputError

TERMS = ("HP:0000001", "HP:0000002", "HP:0000003")


def batch(*lists: tuple[str, ...], field: str = "hpo_id", **more: Any) -> dict[str, Any]:
    """What Chroma returns for several texts, with the term of each entry in its metadata."""
    return {
        "ids": [[f"{term}_label_{n}" for n, term in enumerate(terms)] for terms in lists],
        "distances": [[n / 10 for n, _ in enumerate(terms)] for terms in lists],
        "metadatas": [[{field: term, "kind": "label"} for term in terms] for terms in lists],
        "documents": [[f"text of {term}" for term in terms] for terms in lists],
        "embeddings": None,
        **more,
    }


def write(path: Path, content: object) -> str:
    path.write_text(json.dumps(content), "utf-8")
    return str(path)


@pytest.fixture
def cases(tmp_path: Path) -> str:
    texts = (("b", TERMS[0]), ("a", TERMS[1]))  # in this order, which is not that of their ids
    content = [{"case_id": id, "text": f"text {id}", "expected_ids": [term]} for id, term in texts]
    return write(tmp_path / "cases.json", content)


def test_one_result_for_all_cases_is_read_in_their_order(cases: str, tmp_path: Path) -> None:
    run = write(tmp_path / "run.json", batch((TERMS[0], TERMS[2]), (TERMS[2], TERMS[2], TERMS[1])))
    result = karat.evaluate(cases, run, "mrr")
    assert result.per_query("mrr") == {"a": 0.5, "b": 1.0}
    assert f"one result of Chroma for 2 queries, in the order of {cases}" in result.runs[0].notes


def test_several_systems_are_results_by_name(cases: str) -> None:
    runs = {"one": batch((TERMS[0],), (TERMS[1],)), "other": batch((TERMS[1],), (TERMS[1],))}
    result = karat.evaluate(cases, runs, "mrr")
    assert {run.name: run.mean["mrr"] for run in result.runs} == {"one": 1.0, "other": 0.5}


def test_validate_reads_it_in_the_order_of_the_cases_too(cases: str, tmp_path: Path) -> None:
    run = write(tmp_path / "run.json", batch((TERMS[0],), (TERMS[1],)))
    assert not [f for f in karat.validate(qrels=cases, runs=run).findings if f.severity == "error"]
    few = write(tmp_path / "few.json", batch((TERMS[0],)))
    (finding,) = (f for f in karat.validate(qrels=cases, runs=few).findings if f.severity == "error")
    assert "holds results for 1 query" in finding.message


def test_a_table_of_queries_or_ids_beside_the_results_have_an_order_too() -> None:
    gold = {"a": {TERMS[1]: 1}, "b": {TERMS[0]: 1}}
    lists = ((TERMS[0],), (TERMS[1],))
    assert karat.evaluate(gold, batch(*lists), "mrr", queries={"b": "text", "a": "text"}).mean["mrr"] == 1.0
    assert karat.evaluate(gold, batch(*lists, query_ids=["b", "a"]), "mrr").mean["mrr"] == 1.0
    assert karat.evaluate(gold, batch(*lists, query_ids=["a", "b"]), "mrr").mean["mrr"] == 0.0


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (batch((TERMS[0],)), r"holds results for 1 query, but .*cases\.json has 2; expected one result for each"),
        (batch((TERMS[0],), (TERMS[1],), query_ids=["a"]), r"results for 2 queries, but query_ids has 1"),
        (batch((TERMS[0],), (TERMS[1],), query_ids=["a", "a"]), r"query_ids must be texts or integers, each once"),
        (batch((TERMS[0],), (TERMS[1],), query_ids="a"), r"query_ids must be a list of query ids, found \"a\""),
        ({"ids": ["e1", "e2"], "metadatas": [{}, {}]}, r"its ids are not one list for each query"),
        (
            batch((TERMS[0],), (TERMS[1],)) | {"metadatas": [[]]},
            r"metadatas must be one list for each of the 2 queries",
        ),
    ],
)
def test_results_that_fit_no_queries_are_refused(run: dict[str, Any], message: str, cases: str) -> None:
    with pytest.raises(InputError, match=message):
        karat.evaluate(cases, run, "mrr")


def test_results_whose_queries_nobody_names_are_refused() -> None:
    with pytest.raises(InputError, match=r"a result of Chroma for 2 queries and does not name them; add their ids"):
        karat.evaluate({"q": {TERMS[0]: 1}}, batch((TERMS[0],), (TERMS[1],)), "mrr")


def test_the_one_field_that_holds_terms_is_read_whatever_its_name(cases: str) -> None:
    lists = ((TERMS[0],), (TERMS[2], TERMS[2], TERMS[1]))
    result = karat.evaluate(cases, batch(*lists, field="term"), "mrr")
    assert result.per_query("mrr") == {"a": 0.5, "b": 1.0}
    assert "terms are read from 'term' in the metadata of Chroma's results" in result.runs[0].notes


def test_a_doc_id_of_entries_does_not_hide_the_term(cases: str) -> None:
    run = batch((TERMS[0],), (TERMS[2], TERMS[2], TERMS[1]))
    for n, fields in enumerate(fields for mine in run["metadatas"] for fields in mine):
        fields["doc_id"] = f"entry-{n}"
    assert karat.evaluate(cases, run, "mrr").per_query("mrr") == {"a": 0.5, "b": 1.0}


def test_fields_that_may_name_the_term_are_in_the_message(tmp_path: Path) -> None:
    obo = tmp_path / "t.obo"
    obo.write_text("format-version: 1.2\ndata-version: t\n\n[Term]\nid: HP:0000001\nname: All\n", "utf-8")
    run = batch(("x1",), field="code")
    run["ids"] = [["e1"]]
    with pytest.raises(InputError, match=r"none of the 1 ids .*the metadata hold 'code', 'kind': if one .* 'doc_id'"):
        karat.evaluate({"a": {TERMS[0]: 1}}, run | {"query_ids": ["a"]}, "mrr", ontology=str(obo))


@pytest.mark.parametrize("field", ["term_code", "hpo"])
def test_metadata_that_hold_the_ids_of_the_gold_are_named_whatever_they_are_called(field: str) -> None:
    run = {
        f"q{i}": {
            "ids": [[f"u{i}-0", f"u{i}-1"]],
            "metadatas": [[{field: "x", "lang": "de"}, {field: f"d{i}", "lang": "de"}]],
            "distances": [[0.1, 0.2]],
        }
        for i in range(4)
    }
    gold = {f"q{i}": {f"d{i}": 1} for i in range(4)}
    text = (
        f"0 of 4 gold ids match the ids of the results, and 4 others match '{field}' in their metadata: if it names "
        "the docs, call it 'doc_id'"
    )
    assert text in karat.evaluate(gold, run, "mrr").warnings
    named = karat.evaluate({f"q{i}": {f"u{i}-1": 1} for i in range(4)}, run, "mrr")
    assert named.mean["mrr"] == 0.5 and not any("metadata" in note for note in named.notes)
