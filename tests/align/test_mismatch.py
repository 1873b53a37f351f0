"""Ids in another spelling than the gold's and scores upside down are named without a corpus, by every verb."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import karat
from command import run_karat
from karat.align import mismatch

ZEROS = 'ids differ in spelling: the run writes "D-3", the gold "D-003"; write them alike'
FEW = "only 2 queries: so few can only show large differences"
RISE = "scores rise with the rank in 12 of 12 queries"


def write(folder: Path, *, doc: str = "D-{:03}", query: str = "{}", sign: int = 1, reverse: bool = False) -> str:
    """Twelve queries whose relevant doc is first; `doc` and `query` spell ids, a `sign` of -1 turns scores around."""
    rows = [
        f"{query.format(q)} Q0 {doc.format(10 * q + 3 + d)} {d + 1} {sign * (9 - d)} t\n"
        for q in range(12)
        for d in range(5)
    ]
    (folder / "gold.txt").write_text("".join(f"{q} 0 D-{10 * q + 3:03} 1\n" for q in range(12)))
    (folder / "r.run").write_text("".join(reversed(rows) if reverse else rows))
    return str(folder / "r.run")


def notes(folder: Path, run: object) -> str:
    return "\n".join(karat.evaluate(str(folder / "gold.txt"), run, "mrr").notes)


def test_leading_zeros_that_keep_ids_from_matching_are_named(tmp_path: Path) -> None:
    run = write(tmp_path, doc="D-{}")
    assert ZEROS in notes(tmp_path, run)
    frame = pd.read_csv(
        run, sep=" ", names=["query_id", "q0", "doc_id", "rank", "score", "tag"], dtype={"query_id": str}
    )
    assert ZEROS in notes(tmp_path, frame)
    lists = {str(q): list(some["doc_id"]) for q, some in frame.groupby("query_id", sort=False)}
    assert ZEROS in notes(tmp_path, lists)
    chunks = {q: [f"{doc}#{i}" for i, doc in enumerate(docs)] for q, docs in lists.items()}
    assert ZEROS in notes(tmp_path, chunks)


def test_compare_and_check_name_them_too(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "good.run").write_text((tmp_path / "r.run").read_text())
    write(tmp_path, doc="D-{}")
    done = run_karat("compare", "gold.txt", "good.run", "r.run", "-m", "mrr", cwd=tmp_path, COLUMNS="300")
    assert f"r: 10 of 12 judged docs in 12 lists are not recognized: {ZEROS}" in " ".join(done.stdout.split())
    (tmp_path / "karat.yaml").write_text("dataset: {qrels: gold.txt}\nruns: [r.run]\ngates: [mrr >= 0.5]\n")
    assert ZEROS in " ".join(run_karat("check", cwd=tmp_path).stdout.split())


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(
    "command",
    [
        ["diagnose", "gold.txt", "r.run"],
        ["sweep", "gold.txt", "r.run"],
        ["plan", "gold.txt", "r.run", "--gate", "mrr >= 0.9"],
        ["reliability", "gold.txt", "good.run", "r.run", "-m", "mrr"],
    ],
    ids=lambda command: command[0],
)
def test_scores_that_rise_with_the_rank_are_named_by_every_verb(tmp_path: Path, command: list[str]) -> None:
    write(tmp_path)
    (tmp_path / "r.run").rename(tmp_path / "good.run")
    write(tmp_path, sign=-1)
    with (tmp_path / "gold.txt").open("a") as gold:  # values that vary
        gold.write("".join(f"{q} 0 D-{10 * q + 7:03} 1\n" for q in range(6)))
    assert RISE in " ".join(run_karat(*command, cwd=tmp_path, COLUMNS="300").stdout.split())
    document = json.loads(run_karat(*command, "--json", "-", cwd=tmp_path).stdout)
    assert any(RISE in text for text in document["warnings"])


def test_a_diagnosis_says_what_to_check_before_its_findings(tmp_path: Path) -> None:
    run = write(tmp_path, sign=-1)
    diagnosis = karat.diagnose(str(tmp_path / "gold.txt"), run)
    assert diagnosis.summary.startswith(f"First check the data: {RISE}, and the highest score counts as the best")
    assert not diagnosis.healthy


def write_mixed(folder: Path) -> str:
    """A run whose ids lack their zeros in three of twelve queries alone."""
    write(folder)
    text = (folder / "r.run").read_text().splitlines()
    (folder / "r.run").write_text("".join(line.replace("D-00", "D-").replace("D-01", "D-1") + "\n" for line in text))
    return str(folder / "r.run")


def test_ids_of_which_some_match_are_named_too(tmp_path: Path) -> None:
    run = write_mixed(tmp_path)
    begin = "2 of 12 judged docs in 12 lists are not recognized: "
    assert begin + ZEROS in notes(tmp_path, run)
    rows = [line.split() for line in (tmp_path / "r.run").read_text().splitlines()]
    lists: dict[str, dict[str, float]] = {}
    for q, _, doc, _, score, _ in rows:
        lists.setdefault(q, {})[doc] = float(score)
    assert ZEROS in notes(tmp_path, lists)
    assert ZEROS in notes(tmp_path, {q: list(docs) for q, docs in lists.items()})
    frame = pd.DataFrame([(q, doc, float(score)) for q, _, doc, _, score, _ in rows], columns=["qid", "docid", "score"])
    assert ZEROS in notes(tmp_path, frame)


UNJUDGED = "docs in the top 10 that nobody judged (counted as not relevant): run 2 of 3"


def test_a_doc_that_another_query_returns_in_another_spelling_is_not_named(tmp_path: Path) -> None:
    gold = {"q1": ["D1"], "q2": ["D2"]}
    assert karat.evaluate(gold, {"q1": ["d2", "D3"], "q2": ["D2"]}, "mrr").notes == (FEW, UNJUDGED)


def test_returned_docs_that_the_corpus_writes_differently_are_named(tmp_path: Path) -> None:
    gold, docs = {"q1": ["D1"], "q2": ["D2"]}, {f"D{i}": {"text": "-"} for i in range(1, 9)}
    notes = karat.evaluate(gold, {"q1": ["d5", "D3"], "q2": ["D2"]}, "mrr", docs=docs).notes
    expected = "1 of 2 distinct docs in 1 list are not recognized: ids differ in spelling: the run writes"
    assert notes == (f'{expected} "d5", the corpus "D5"; write them alike', FEW, UNJUDGED)
    assert karat.evaluate(gold, {"q1": ["D5", "D3"], "q2": ["D2"]}, "mrr", docs=docs).notes == (FEW, UNJUDGED)


LEVEL = "the scores of 12 of 12 lists are all equal: ranked by doc id, descending"


def test_lists_whose_scores_are_all_equal_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(tmp_path, sign=0)
    assert LEVEL in notes(tmp_path, run)
    lists = {str(q): {f"D-{10 * q + 3 + d:03}": 1.0 for d in range(5)} for q in range(12)}
    assert LEVEL in notes(tmp_path, lists)
    gold = str(tmp_path / "gold.txt")
    assert LEVEL in karat.evaluate(gold, lists, "mrr", ignore_self=True).notes
    assert LEVEL in karat.evaluate(gold, {q: {f"{d}#1": 1.0 for d in docs} for q, docs in lists.items()}, "mrr").notes
    assert "all equal" not in notes(tmp_path, {q: list(docs) for q, docs in lists.items()})  # in an order of their own
    assert "all equal" not in notes(tmp_path, {q: dict(docs, x=2.0) for q, docs in lists.items()})
    assert "all equal" not in notes(tmp_path, write(tmp_path))
    lines = Path(write(tmp_path, sign=0)).read_text().splitlines(keepends=True)
    (tmp_path / "r.run").write_text("".join(lines[::2] + lines[1::2]))  # queries apart from each other
    assert LEVEL in notes(tmp_path, run)
    monkeypatch.setattr("karat.align.IN_MEMORY", 0)
    assert LEVEL in "\n".join(karat.evaluate(gold, run, "mrr", cache=False).notes)


def test_query_ids_in_another_spelling_are_named(tmp_path: Path) -> None:
    run = write(tmp_path)
    text = (tmp_path / "r.run").read_text()
    (tmp_path / "r.run").write_text("".join(f"{'0' if line[0] == '1' else ''}{line}\n" for line in text.splitlines()))
    assert 'query ids differ in spelling: the run writes "01", the gold "1"' in notes(tmp_path, run)


def test_a_run_that_shares_no_query_with_the_gold_is_refused(tmp_path: Path) -> None:
    run = write(tmp_path, query="q-{}")
    expected = (
        r'r\.run: none of its 12 queries is in .*gold\.txt: the run has ids such as "q-0", "q-1", "q-2", …, '
        r'the gold such as "0", "1", "10", …; expected the same query ids in both: name the gold of these queries, '
        r"or write the ids alike"
    )
    for cache in (True, True, False):
        with pytest.raises(karat.InputError, match=expected):
            karat.evaluate(str(tmp_path / "gold.txt"), run, "mrr", cache=cache)
    with pytest.raises(karat.InputError, match='query ids differ in spelling: the run writes "00", the gold "0"'):
        notes(tmp_path, write(tmp_path, query="0{}"))


def test_every_verb_refuses_a_run_that_shares_no_query_with_the_gold(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "good.run").write_text((tmp_path / "r.run").read_text())
    write(tmp_path, query="q-{}")
    (tmp_path / "karat.yaml").write_text("dataset: {qrels: gold.txt}\nruns: [r.run]\ngates: [mrr >= 0.5]\n")
    for command in (["evaluate", "gold.txt", "r.run"], ["compare", "gold.txt", "good.run", "r.run"], ["check"]):
        done = run_karat(*command, cwd=tmp_path, COLUMNS="300")
        assert (done.returncode, done.stdout) == (2, "")
        assert "r.run: none of its 12 queries is in" in done.stderr


def test_a_run_that_needs_no_common_query_is_measured() -> None:
    gold = {"q1": ["d1"]}
    assert karat.evaluate(gold, {"q1": []}, "mrr").mean["mrr"] == 0  # a system that returns nothing
    assert karat.evaluate(gold, {"q2": []}, "mrr", queries={"q2": {"no_answer": True}}).mean["mrr"] == 0
    assert karat.evaluate(gold, {"q2": ["d1"]}, "empty_results").mean["empty_results"] == 0.5  # over all queries


def test_scores_that_rise_with_the_rank_are_named(tmp_path: Path) -> None:
    assert RISE in notes(tmp_path, write(tmp_path, sign=-1))
    assert "scores rise" not in notes(tmp_path, write(tmp_path, reverse=True))  # the last rank stands first
    (tmp_path / "r.csv").write_text(
        "query_id,doc_id,score\n" + "".join(f"{q},D-{d},{d}\n" for q in range(12) for d in (1, 2))
    )
    assert "scores rise from row to row in 12 of 12" in notes(tmp_path, str(tmp_path / "r.csv"))


def test_nothing_is_looked_for_where_most_judged_docs_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("looked at ids or ranks of a run that has nothing wrong")

    monkeypatch.setattr(mismatch, "_sample", fail)
    monkeypatch.setattr(mismatch, "find_twins", fail)
    monkeypatch.setattr(mismatch, "_rank_steps", fail)
    assert np.isclose(karat.evaluate(str(tmp_path / "gold.txt"), write(tmp_path), "mrr").mean["mrr"], 1.0)


def test_a_sample_says_that_it_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each list has 5 docs: of 12 lists the first 20 rows show 4."""
    monkeypatch.setattr(mismatch, "SAMPLE", 20)
    run = write(tmp_path, doc="D-{}")
    assert "judged docs in 4 of 12 lists (a sample) are not recognized" in notes(tmp_path, run)
