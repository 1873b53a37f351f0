"""Ids of terms before alignment: every metric sees each term by its current id, and once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import karat
from karat.align.term_ids import gold_of_terms
from karat.errors import InputError
from karat.ontology.load import load_ontology

OBO = """format-version: 1.2
data-version: test/1

[Term]
id: HP:0000001
name: All

[Term]
id: HP:0000002
name: Seizure
alt_id: HP:0000020
is_a: HP:0000001

[Term]
id: HP:0000003
name: Focal seizure
is_a: HP:0000002

[Term]
id: HP:0000004
name: Short stature
is_a: HP:0000001

[Term]
id: HP:0000040
name: Small stature
is_obsolete: true
replaced_by: HP:0000004
"""
SEIZURE, ALTERNATIVE, FOCAL, SHORT, REPLACED = (f"HP:{n:07}" for n in (2, 20, 3, 4, 40))
METRICS = "hit@1,recall@2,mrr,ndcg@10,max_ont_sim@1"


@pytest.fixture
def obo(tmp_path: Path) -> str:
    (tmp_path / "t.obo").write_text(OBO, "utf-8")
    return str(tmp_path / "t.obo")


def evaluate(gold: Any, run: Any, metrics: str = METRICS, **options: Any) -> karat.Result:
    return karat.evaluate(gold, run, metrics, cache=False, **options)


@pytest.mark.parametrize(
    "spelling", [ALTERNATIVE, "hp:0000002", "HP_0000002", "http://purl.obolibrary.org/obo/HP_0000002", "HP_0000020"]
)
def test_every_metric_sees_the_current_id(spelling: str, obo: str) -> None:
    for gold, run in (({"q": {spelling: 1}}, {"q": [SEIZURE]}), ({"q": {SEIZURE: 1}}, {"q": [spelling]})):
        assert set(evaluate(gold, run, ontology=obo).mean.values()) == {1.0}
        assert evaluate(gold, run, "hit@1").mean["hit@1"] == 0.0  # no ontology: ids are compared as they are written


def test_obsolete_ids_become_their_replacement(obo: str) -> None:
    result = evaluate({"q": {REPLACED: 1}}, {"q": [SHORT]}, ontology=obo)
    assert set(result.mean.values()) == {1.0}
    assert result.runs[0].data_notes == (f"expected terms (1 id): 1 obsolete and replaced ({REPLACED})",)
    counts = result.runs[0].counts
    assert (counts["expected_ids_resolved"], counts["expected_ids_unknown"], counts["returned_ids_resolved"]) == (
        1,
        0,
        0,
    )


def test_a_term_that_is_judged_by_two_ids_keeps_its_largest_grade(obo: str) -> None:
    gold = karat.evaluate({"q": {SEIZURE: 1, ALTERNATIVE: 2, FOCAL: 1}}, {"q": [SEIZURE]}, "num_rel", ontology=obo)
    assert gold.mean["num_rel"] == 2
    qrels = karat.read_qrels({"a": {FOCAL: 1}, "q": {SEIZURE: 1, SHORT: 1, ALTERNATIVE: 2}})
    merged = gold_of_terms(qrels, load_ontology(obo)).qrels
    assert merged.for_query("a") == {FOCAL: 1} and merged.for_query("q") == {SEIZURE: 2, SHORT: 1}


def shapes(rows: list[tuple[str, str, float]], folder: Path) -> dict[str, Any]:
    """One run in every shape in which runs come."""
    lists: dict[str, list[str]] = {}
    scored: dict[str, dict[str, float]] = {}
    for query, doc, score in rows:
        lists.setdefault(query, []).append(doc)
        scored.setdefault(query, {})[doc] = score
    trec = "".join(f"{q} Q0 {d} 0 {s} t\n" for q, d, s in rows)
    (folder / "a.run").write_text(trec, "utf-8")
    (folder / "unordered.run").write_text("".join(reversed(trec.splitlines(keepends=True))), "utf-8")
    (folder / "a.csv").write_text("query_id,chunk_id,score\n" + "".join(f"{q},{d},{s}\n" for q, d, s in rows), "utf-8")
    items = {q: [{"chunk_id": d} for d in docs] for q, docs in lists.items()}
    log = "".join(json.dumps({"query_id": q, "topk": topk}) + "\n" for q, topk in items.items())
    (folder / "a.jsonl").write_text(log, "utf-8")
    files = {name: str(folder / name) for name in ("a.run", "unordered.run", "a.csv", "a.jsonl")}
    return {"lists": lists, "scores": scored, **files}


@pytest.mark.parametrize("shape", ["lists", "scores", "a.run", "unordered.run", "a.csv", "a.jsonl"])
def test_a_term_that_is_returned_twice_keeps_its_best_rank(shape: str, obo: str, tmp_path: Path) -> None:
    # Entries of Focal seizure, then Seizure by two ids, then the expected term: its rank among terms is 3, not 5.
    rows = [
        ("q", f"{FOCAL}#label", 9.0),
        ("q", f"{FOCAL}#synonym-1", 8.0),
        ("q", f"{ALTERNATIVE}#label", 7.0),
        ("q", f"{SEIZURE}#label", 6.0),
        ("q", f"{SHORT}#label", 5.0),
        ("q2", f"{SHORT}#label", 1.0),
    ]
    run = shapes(rows, tmp_path)[shape]
    result = evaluate({"q": {REPLACED: 1}, "q2": {SEIZURE: 1}}, run, "mrr,hit@3,num_ret", ontology=obo, details=True)
    assert result.per_query("mrr") == {"q": pytest.approx(1 / 3), "q2": 0.0}
    assert result.per_query("num_ret") == {"q": 3, "q2": 1}
    (mine,) = result.runs
    assert [doc.doc for doc in mine.top_docs("q")] == [FOCAL, SEIZURE, SHORT]
    assert mine.counts["entries_collapsed"] == 2 and mine.counts["duplicates"] == 0
    assert (
        "ranks count terms, each at its best entry: 2 of 6 results are further entries of a term above them; "
        "lists hold 1 to 3 terms"
    ) in mine.notes
    assert f"returned terms (4 ids): 1 by an alternative id ({ALTERNATIVE})" in mine.notes


def test_an_entry_that_is_returned_twice_is_still_a_repeated_doc(obo: str) -> None:
    run = {"q": [f"{FOCAL}#label", f"{FOCAL}#label", f"{SHORT}#label"]}
    result = evaluate({"q": {SHORT: 1}}, run, "mrr", ontology=obo)
    assert (result.mean["mrr"], result.runs[0].counts["duplicates"]) == (0.5, 1)
    with pytest.raises(InputError, match="returned more than once"):
        evaluate({"q": {SHORT: 1}}, run, "mrr", ontology=obo, duplicates="error")


def test_chunks_stay_chunks_where_the_level_says_so(obo: str) -> None:
    run = {"q": [f"{FOCAL}#label", ALTERNATIVE]}
    assert evaluate({"q": {SEIZURE: 1}}, run, "mrr", ontology=obo, level="chunk").mean["mrr"] == 0.5


def cases(folder: Path, *expected: str) -> str:
    path = folder / "cases.json"
    path.write_text(
        json.dumps([{"case_id": f"c{i}", "text": f"text {i}", "expected_ids": [e]} for i, e in enumerate(expected, 1)])
    )
    return str(path)


def test_entries_of_cases_are_collapsed_without_an_ontology_too(tmp_path: Path) -> None:
    metadata = [[{"doc_id": FOCAL}, {"doc_id": FOCAL}, {"doc_id": SEIZURE}]]
    chroma = {"c1": {"ids": [["e1", "e2", "e3"]], "metadatas": metadata}}
    result = evaluate(cases(tmp_path, SEIZURE), chroma, "mrr")
    assert result.mean["mrr"] == 0.5
    assert any("1 of 3 results are further entries" in note for note in result.runs[0].notes)


def test_docs_of_other_gold_are_not_terms() -> None:
    chroma = {"q": {"ids": [["e1", "e2", "e3"]], "metadatas": [[{"doc_id": "a"}, {"doc_id": "a"}, {"doc_id": "b"}]]}}
    assert evaluate({"q": {"b": 1}}, chroma, "mrr").mean["mrr"] == pytest.approx(1 / 3)
    terms = {"q": {"ids": [["e1", "e2", "e3"]], "metadatas": [[{"hpo_id": n} for n in (FOCAL, FOCAL, SEIZURE)]]}}
    assert evaluate({"q": {SEIZURE: 1}}, terms, "mrr").mean["mrr"] == 0.5


def test_a_run_log_and_its_stages_are_of_terms(obo: str, tmp_path: Path) -> None:
    ids = [f"{FOCAL}#label", f"{FOCAL}#synonym-1", f"{ALTERNATIVE}#label"]
    line = {
        "query_id": "q",
        "topk": [{"chunk_id": i, "rank": n} for n, i in enumerate(ids, 1)],
        "stages": {"first": ids},
    }
    (tmp_path / "a.jsonl").write_text(json.dumps(line), "utf-8")
    gold = {"q": {SEIZURE: 1}}
    result = evaluate(gold, str(tmp_path / "a.jsonl"), "mrr", ontology=obo, details=True)
    log = result.runs[0].log
    assert log is not None and log.traces["q"].stages == {"first": (FOCAL, SEIZURE)}
    assert [(item.doc_id, item.rank) for item in log.traces["q"].topk or ()] == [(FOCAL, 1), (SEIZURE, 2)]
    first = evaluate(gold, str(tmp_path / "a.jsonl"), "mrr", ontology=obo, stage="first")
    assert first.mean == result.mean == {"mrr": 0.5}


def test_ids_that_begin_with_a_term_say_how_to_cut_them(obo: str) -> None:
    run = {"q": [f"{FOCAL}_label_0", f"{SEIZURE}_label_0"]}
    with pytest.raises(InputError, match=r"none of the 2 ids .* is a term of test/1 .*: --separator \"_\""):
        evaluate({"q": {SEIZURE: 1}}, run, "mrr", ontology=obo)
    assert evaluate({"q": {SEIZURE: 1}}, run, "mrr", ontology=obo, separator="_").mean["mrr"] == 0.5


def test_an_ontology_that_no_metric_needs_is_named_all_the_same(obo: str) -> None:
    assert evaluate({"q": {SEIZURE: 1}}, {"q": [SEIZURE]}, "mrr", ontology=obo).conventions == {"ontology": "test/1"}


def test_metrics_over_fewer_queries_say_so(obo: str) -> None:
    gold = {"q1": {SEIZURE: 1}, "q2": {"HP:0009999": 1}}
    result = evaluate(gold, {"q1": [SEIZURE], "q2": ["HP:0009999"]}, "hit@1,max_ont_sim@1", ontology=obo)
    assert result.mean == {"hit@1": 1.0, "max_ont_sim@1": 1.0}
    assert [result.n[name] for name in result.mean] == [2, 1]
    assert (
        "max_ont_sim: over 1 of 2 queries; of the others (q2) no expected term is in test/1. Other metrics count them "
        "too"
    ) in result.runs[0].notes
    assert any(
        note.startswith("expected terms (2 ids): 1 unknown") and note.endswith("(HP:0009999); see: karat validate")
        for note in result.runs[0].notes
    )
