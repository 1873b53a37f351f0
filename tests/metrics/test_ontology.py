"""Metrics of terms: values worked by hand, ids that the release does not know, and every verb that evaluates."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import karat
from karat.cli.app import app
from karat.errors import InputError, MetricError, UsageError
from karat.ontology.load import load_ontology

# A and B are R; C is A; D is A and B; E is C and D; F is B. X is obsolete and replaced by D, Y without replacement.
OBO = """format-version: 1.2
data-version: test/1

[Term]
id: R
name: root

[Term]
id: A
name: a
is_a: R

[Term]
id: B
name: b
is_a: R

[Term]
id: C
name: c
is_a: A

[Term]
id: D
name: d
is_a: A
is_a: B

[Term]
id: E
name: e
is_a: C
is_a: D

[Term]
id: F
name: f
alt_id: F2
is_a: B

[Term]
id: X
name: replaced
is_obsolete: true
replaced_by: D

[Term]
id: Y
name: dropped
is_obsolete: true
"""
LIN_CD = 2 * math.log(2) / (math.log(2.25) + math.log(2.4))


@pytest.fixture
def obo(tmp_path: Path) -> str:
    (tmp_path / "small.obo").write_text(OBO, "utf-8")
    return str(tmp_path / "small.obo")


def values(gold: Any, run: Any, metric: str, ontology: Any, **options: Any) -> dict[str, float]:
    return karat.evaluate(gold, run, metric, ontology=ontology, cache=False, **options).per_query(metric)


def test_the_best_of_the_top_k_counts_judged_or_not(obo: str) -> None:
    gold, run = {"q": {"C": 1}}, {"q": ["F", "D", "C"]}
    assert values(gold, run, "max_ont_sim@1", obo) == {"q": 0.0}  # C and F share the root alone
    assert values(gold, run, "max_ont_sim@2", obo) == {"q": pytest.approx(LIN_CD)}
    assert values(gold, run, "max_ont_sim@3", obo) == {"q": 1.0}
    assert values(gold, run, "max_ont_sim(sim=path)@2", obo) == {"q": 1 / 3}
    assert values(gold, run, "max_ont_sim(sim=hybrid)@2", obo) == {"q": pytest.approx(0.5)}


def test_best_match_is_the_mean_over_expected_terms(obo: str) -> None:
    gold, run = {"q": {"C": 1, "E": 1}}, {"q": ["D", "F"]}
    # C and E with D: C meets it in A, E is below it: 2·log 2.4 / (log 2.4 + log(18/7)).
    with_e = 2 * math.log(2.4) / (math.log(2.4) + math.log(18 / 7))
    assert values(gold, run, "best_match_sim@2", obo)["q"] == pytest.approx((LIN_CD + with_e) / 2)
    assert values(gold, run, "max_ont_sim@2", obo)["q"] == pytest.approx(with_e)


def test_grades_choose_the_expected_terms(obo: str) -> None:
    gold, run = {"q": {"C": 1, "F": 2}}, {"q": ["C"]}
    assert values(gold, run, "max_ont_sim@5", obo) == {"q": 1.0}
    assert values(gold, run, "max_ont_sim(rel=2)@5", obo) == {"q": 0.0}
    assert math.isnan(values(gold, run, "max_ont_sim(rel=3)@5", obo)["q"])


def test_terms_that_are_judged_not_relevant_are_not_expected(obo: str) -> None:
    assert values({"q": {"C": 1, "F": 0}}, {"q": ["F"]}, "max_ont_sim@5", obo) == {"q": 0.0}


def test_an_empty_result_is_0_and_a_missing_query_too(obo: str) -> None:
    gold, run = {"q1": {"C": 1}, "q2": {"C": 1}, "q3": {"C": 1}}, {"q1": [], "q3": ["C"]}
    assert values(gold, run, "max_ont_sim@5", obo) == {"q1": 0.0, "q2": 0.0, "q3": 1.0}


def test_alternative_and_replaced_ids_name_their_term(obo: str) -> None:
    gold, run = {"q1": {"F2": 1}, "q2": {"X": 1, "D": 2}}, {"q1": ["F"], "q2": ["X"]}
    result = karat.evaluate(gold, run, "max_ont_sim@5,best_match_sim@5", ontology=obo)
    assert result.mean == {"max_ont_sim@5": 1.0, "best_match_sim@5": 1.0}
    assert result.runs[0].data_notes == (
        "expected terms (3 ids): 1 by an alternative id (F2), 1 obsolete and replaced (X)",
        "returned terms (2 ids): 1 obsolete and replaced (X)",
    )


def test_unknown_ids_are_counted_and_never_silently_0(obo: str) -> None:
    gold = {"q1": {"C": 1, "Z9": 1}, "q2": {"Z9": 1}, "q3": {"Y": 1}, "q4": {"D": 1}}
    run = {"q1": ["D", "d1"], "q2": ["Z9", "D"], "q3": ["C"], "q4": ["C"]}
    result = karat.evaluate(gold, run, "max_ont_sim@5,best_match_sim@5", ontology=obo)
    for name in result.metrics:
        found = result.per_query(name)
        assert [found["q1"], found["q4"]] == pytest.approx([LIN_CD, LIN_CD])  # over the known term alone
        assert math.isnan(found["q2"]) and math.isnan(found["q3"])
        assert result.mean[name] == pytest.approx(LIN_CD)
    assert result.runs[0].data_notes == (
        "expected terms (4 ids): 1 obsolete without a replacement (Y), 1 unknown, or newer than test/1 (Z9); see: "
        "karat validate",
        "returned terms (4 ids): 2 unknown, or newer than test/1 (d1, Z9)",
        "max_ont_sim, best_match_sim: over 2 of 4 queries; of the others (q2, q3) no expected term is in test/1. Other "
        "metrics count them too",
    )


def test_ids_of_something_else_are_refused(obo: str) -> None:
    with pytest.raises(InputError, match=r'run .*: none of the 2 ids that it returned is a term of test/1 \("d1"\)'):
        values({"q": {"C": 1}}, {"q": ["d1", "d2"]}, "max_ont_sim@5", obo)
    with pytest.raises(InputError, match=r'none of its 1 expected ids is a term of test/1 \("d1"\); check the ids'):
        values({"q": {"d1": 1}}, {"q": ["C"]}, "max_ont_sim@5", obo)


def test_without_an_ontology_the_error_says_how_to_name_one() -> None:
    with pytest.raises(UsageError, match=r"max_ont_sim@5 needs an ontology; name it with ontology= \(--ontology hpo\|"):
        karat.evaluate({"q": {"C": 1}}, {"q": ["C"]}, "ndcg@10,max_ont_sim@5")


def test_information_content_belongs_to_similarities_that_use_it() -> None:
    assert karat.parse("max_ont_sim(sim=resnik,ic=omim)@5").name == "max_ont_sim(sim=resnik,ic=omim)@5"
    with pytest.raises(MetricError, match=r"ic belongs to sim=lin, resnik, jiang_conrath; sim=path looks at paths"):
        karat.parse("max_ont_sim(sim=path,ic=omim)@5")
    with pytest.raises(MetricError, match="lin"):
        karat.parse("max_ont_sim(sim=lim)@5")


def test_annotated_content_says_how_many_terms_have_none(obo: str, tmp_path: Path) -> None:
    head = "database_id\tdisease_name\tqualifier\thpo_id\n"
    (tmp_path / "phenotype.hpoa").write_text(head + "OMIM:1\tn\t\tC\nOMIM:2\tn\t\tF\n", "utf-8")
    result = karat.evaluate({"q": {"C": 1}}, {"q": ["D"]}, "max_ont_sim@1,max_ont_sim(ic=omim)@1", ontology=obo)
    # Of two diseases A and C have one, so IC(A) = IC(C) = log 2; D has none, and keeps its log 2.4.
    assert result.mean["max_ont_sim(ic=omim)@1"] == pytest.approx(2 * math.log(2) / (math.log(2) + math.log(2.4)))
    assert result.runs[0].data_notes == (
        "ic=omim: 1 of 2 terms have no annotated disease, and take the structural value",
    )


def test_entries_of_a_term_count_for_the_term(obo: str) -> None:
    gold = {"q": {"C": 1}}
    chunks = {"q": ["F#label", "D#synonym-1", "D#label"]}
    assert values(gold, chunks, "max_ont_sim@2", obo, level="doc") == {"q": pytest.approx(LIN_CD)}
    chroma = {"q": {"ids": [["e1", "e2"]], "metadatas": [[{"hpo_id": "F"}, {"hpo_id": "C"}]], "distances": [[0, 1]]}}
    result = karat.evaluate(gold, chroma, "max_ont_sim@1,max_ont_sim@2,mrr", ontology=obo)
    assert list(result.mean.values()) == [0.0, 1.0, 0.5]


@pytest.mark.parametrize("shape", ["scores", "lists", "trec", "unordered", "jsonl"])
def test_every_kind_of_run_gives_the_same_value(shape: str, obo: str, tmp_path: Path) -> None:
    rows = [("q1", "F", 3), ("q1", "D", 2), ("q2", "B", 2), ("q2", "E", 1)]
    run: Any = {"q1": {"F": 3, "D": 2}, "q2": {"B": 2, "E": 1}}
    if shape == "lists":
        run = {"q1": ["F", "D"], "q2": ["B", "E"]}
    elif shape in ("trec", "unordered"):
        run = str(tmp_path / "a.run")
        order = rows if shape == "trec" else rows[::2] + rows[1::2]
        Path(run).write_text("".join(f"{q} Q0 {d} 0 {s} t\n" for q, d, s in order), "utf-8")
    elif shape == "jsonl":
        run = str(tmp_path / "a.jsonl")
        lists = {"q1": ["F", "D"], "q2": ["B", "E"]}
        lines = [json.dumps({"query_id": q, "topk": [{"doc_id": d} for d in docs]}) for q, docs in lists.items()]
        Path(run).write_text("\n".join(lines), "utf-8")
    assert values({"q1": {"C": 1}, "q2": {"F": 1}}, run, "max_ont_sim@2", obo) == pytest.approx(
        {"q1": LIN_CD, "q2": 2 * math.log(1.5) / (math.log(1.5) + math.log(2.25))}
    )


def test_ranks_of_terms_are_not_compared_with_ranks_of_entries(obo: str) -> None:
    gold, run = {"q1": {"C": 1}, "q2": {"E": 1}}, {"q1": ["D", "C"], "q2": ["E"]}
    terms, entries = (karat.evaluate(gold, run, "mrr", details=True, ontology=one) for one in (obo, None))
    with pytest.raises(karat.NotComparable, match='convention ontology: the default here, "test/1" in the baseline'):
        karat.compare(terms, entries, "mrr")


def test_the_release_is_a_convention_and_a_fingerprint(obo: str, tmp_path: Path) -> None:
    gold, run = {"q1": {"C": 1}, "q2": {"E": 1}}, {"q1": ["D"], "q2": ["F"]}
    result = karat.evaluate(gold, run, "max_ont_sim@5,hit@5", ontology=obo, details=True)
    assert result.conventions == {"ontology": "test/1"}
    assert result.fingerprints.ontologies == {"max_ont_sim@5": f"test/1 {load_ontology(obo).fingerprint}"}
    old = str(tmp_path / "old.json")
    result.save(old)
    assert karat.load(old).fingerprints == result.fingerprints
    better = {"q1": ["C"], "q2": ["E"]}
    new = karat.evaluate(gold, better, "max_ont_sim@5,hit@5", ontology=obo, details=True)
    karat.compare(old, new, "max_ont_sim@5")
    (tmp_path / "other.obo").write_text(OBO.replace("test/1", "test/2"), "utf-8")
    other = karat.evaluate(gold, better, "max_ont_sim@5,hit@5", ontology=str(tmp_path / "other.obo"), details=True)
    with pytest.raises(karat.NotComparable, match=r"the ontology of max_ont_sim@5: test/2 .* here, test/1"):
        karat.compare(old, other, "max_ont_sim@5")
    karat.compare(old, other, "hit@5")  # looks at no ontology


def test_every_verb_takes_it(obo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    terms = list("ABCDEF")
    gold = {f"q{i}": terms[int(rng.integers(6))] for i in range(30)}
    Path("gold.qrels").write_text("".join(f"{q} 0 {d} 1\n" for q, d in gold.items()))
    for name in ("old", "new"):
        lines = [f"{q} Q0 {d} 0 {5 - i} t\n" for q in gold for i, d in enumerate(rng.permutation(terms)[:3])]
        Path(f"{name}.run").write_text("".join(lines))
    Path("queries.jsonl").write_text(
        "".join(
            json.dumps({"query_id": q, "text": q, "language": "de" if i % 2 else "en"}) + "\n"
            for i, q in enumerate(gold)
        )
    )
    Path("karat.yaml").write_text(
        "dataset: {qrels: gold.qrels, queries: queries.jsonl, ontology: small.obo}\nruns: [new.run]\n"
        "gates: ['max_ont_sim@3 >= 0.01', 'max_ont_sim(sim=path)@3 >= 0.01 for every language']\n"
        "segments: {by: [language], minimum: 5}\n"
    )
    runner = CliRunner()
    metric = ["-m", "max_ont_sim@3,best_match_sim@3", "--ontology", "small.obo"]
    for arguments in (
        [
            "evaluate",
            "gold.qrels",
            "new.run",
            *metric,
            "--queries",
            "queries.jsonl",
            "--by",
            "language",
            "--save",
            "r.json",
        ],
        ["compare", "gold.qrels", "old.run", "new.run", *metric, "--markdown", "c.md"],
        ["check"],
        ["report", "r.json", "-o", "r.html"],
    ):
        done = runner.invoke(app, arguments)
        assert done.exit_code == 0, (arguments, done.output, done.exception)
    assert "max_ont_sim@3" in Path("c.md").read_text("utf-8")
    evaluation = runner.invoke(app, ["evaluate", "gold.qrels", "new.run", *metric, "--json", "-"])
    document = json.loads(evaluation.output)
    assert document["conventions"] == {"ontology": "test/1"}
    assert 0 < document["runs"][0]["metrics"]["max_ont_sim@3"]["mean"] < 1
    assert document["fingerprints"]["ontologies"]["best_match_sim@3"].startswith("test/1 ")


def test_a_config_may_name_hpo(tmp_path: Path) -> None:
    (tmp_path / "karat.yaml").write_text(
        "dataset: {qrels: gold.json, ontology: hpo}\nruns: [run.json]\ngates: ['max_ont_sim@1 >= 0.5']\n"
    )
    (tmp_path / "gold.json").write_text('{"q1": {"HP:0001250": 1}, "q2": {"HP:0002069": 1}}')
    (tmp_path / "run.json").write_text('{"q1": ["HP:0002069"], "q2": ["HP:0001250"]}')
    check = karat.check(str(tmp_path / "karat.yaml"))
    assert check.result.runs[0].mean["max_ont_sim@1"] == pytest.approx(0.7805, abs=5e-5)
