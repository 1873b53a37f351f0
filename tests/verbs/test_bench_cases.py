"""Benchmarks of case files: entries are searched, terms are ranked, and languages stay apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import karat
from karat.errors import InputError
from karat.retrieve.corpus import read_corpus
from karat.retrieve.protocol import Answer
from karat.verbs.bench.cases import list_entries
from karat.verbs.bench.entries import collapse, entries_to_ask

OBO = """format-version: 1.2
data-version: test/1

[Term]
id: T:1
name: All

[Term]
id: T:2
name: Seizure
synonym: "seizure" EXACT []
synonym: "Epileptic seizure" EXACT []
synonym: "Seizure attack" EXACT []
is_a: T:1

[Term]
id: T:3
name: Focal seizure
is_a: T:2

[Term]
id: T:4
name: Short stature
synonym: "Small height" EXACT []
is_a: T:1
"""


@pytest.fixture
def obo(tmp_path: Path) -> str:
    (tmp_path / "t.obo").write_text(OBO, "utf-8")
    return str(tmp_path / "t.obo")


def write(path: Path, *cases: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(list(cases)), "utf-8")
    return path


def test_each_text_of_a_term_is_one_entry(obo: str) -> None:
    from karat.ontology import load_ontology

    entries = list_entries(load_ontology(obo))
    assert {key: fields["text"] for key, fields in entries.items() if key.startswith("T:2")} == {
        "T:2#label": "Seizure",
        "T:2#synonym-1": "Epileptic seizure",
        "T:2#synonym-2": "Seizure attack",
    }
    assert len(entries) == 7


def test_a_term_ranks_by_its_best_entry() -> None:
    corpus = read_corpus({f"{t}#{i}": "words" for t, n in (("A", 3), ("B", 1), ("C", 2)) for i in range(n)})
    answer = Answer(["A#1", "A#0", "C#1", "A#2", "B#0", "C#0"], [6, 5, 4, 3, 2, 1], {"first": ["C#0", "C#1", "A#0"]})
    collapsed = collapse(answer, corpus)
    assert (collapsed.ids, collapsed.scores) == (["A", "C", "B"], [6, 4, 2])
    assert collapsed.stages == {"first": ["C", "A"]}
    # Two terms: the first could fill 3 entries, so the 4th is sure to be of another. Three: 3 + 2 + 1.
    assert [entries_to_ask(corpus, k) for k in (1, 2, 3, 9)] == [1, 4, 6, 6]


def test_runs_hold_terms_and_metrics_look_at_the_ontology(obo: str, tmp_path: Path) -> None:
    cases = write(
        tmp_path / "en" / "tiny_v1.json",
        {"text": "epileptic seizure attack", "expected_ids": ["T:3"], "category": "complex"},
        {"text": "height", "expected_ids": ["T:4"], "category": "layperson"},
    )
    out = tmp_path / "runs"
    bench = karat.bench(cases=cases, retrievers=["bm25"], k=2, ontology=obo, out=str(out), cache=False, warmup=0)
    lists = [
        [item["doc_id"] for item in json.loads(line)["topk"]] for line in (out / "bm25.jsonl").read_text().splitlines()
    ]
    assert lists == [["T:2", "T:3"], ["T:4"]]
    result = bench["en"].result.runs[0]
    assert result.per_query("mrr") == {"1": 0.5, "2": 1.0}
    assert result.mean["hit@1"] == 0.5
    assert 0.5 < result.mean["max_ont_sim@1"] < 1.0
    assert "map(norm=min)@10" in result.values


def test_languages_are_datasets_of_their_own(obo: str, tmp_path: Path) -> None:
    for code, text in (("de", "Krampf"), ("en", "seizure"), ("fr", "seizure")):
        write(tmp_path / "cases" / code / "tiny_v1.json", *({"text": text, "expected_ids": ["T:2"]} for _ in range(3)))
    bench = karat.bench(
        cases=[tmp_path / "cases"], retrievers=["bm25"], ontology=obo, out=str(tmp_path / "runs"), cache=False, warmup=0
    )
    assert [(part.dataset.name, part.result.runs[0].mean["hit@1"]) for part in bench.parts] == [
        ("de", 0.0),
        ("en", 1.0),
        ("fr", 1.0),
    ]
    assert bench.languages is not None and bench.languages.places == ("de", "en", "fr")


def test_files_that_hold_no_cases_are_refused(obo: str, tmp_path: Path) -> None:
    (tmp_path / "gold.json").write_text('{"q": {"d": 1}}')
    with pytest.raises(InputError, match=r"gold\.json: is not a case file"):
        karat.bench(cases=tmp_path / "gold.json", retrievers=["bm25"], ontology=obo)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: holds no case files, expected \.json files in it or below it"):
        karat.bench(cases=[tmp_path / "empty"], retrievers=["bm25"], ontology=obo)
