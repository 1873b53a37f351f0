"""The file of judgments: what it holds, what it refuses, and that nothing is lost in it."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from karat.errors import InputError
from karat.judge.judgments import (
    Judgment,
    ModelJudge,
    Person,
    add_judgments,
    fingerprint_judge,
    read_judgments,
    refuse_other_scales,
)
from karat.judge.pairs import Draw, Pair, read_pairs, write_pairs

ANA, BEN = Person("ana"), Person("ben")
NOON = "2026-11-16T12:00:00+00:00"


def judged(doc: str, grade: int | None, by: Person | ModelJudge = ANA, query: str = "q1", **more: Any) -> Judgment:
    return Judgment(query, doc, grade, "0-3", by, NOON, **more)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "judgments.jsonl")


def test_what_is_added_is_read_back(path: str) -> None:
    model = ModelJudge("gpt", "0a1b", {"temperature": 0}, votes=3)
    rows = [
        judged("d1", 2, note="só metade", drawn=Draw("random", 0.25, "2")),
        judged("d1", 3, model, reason="It answers.", votes=(3, 3, 2), drawn=Draw("value")),
    ]
    assert add_judgments(path, rows[:1]) == ()
    assert add_judgments(path, rows[1:]) == ()
    assert read_judgments(path).rows == tuple(rows)
    assert json.loads(Path(path).read_text().splitlines()[0]) == {
        "query_id": "q1",
        "doc_id": "d1",
        "grade": 2,
        "scale": "0-3",
        "by": {"kind": "person", "name": "ana"},
        "at": NOON,
        "note": "só metade",
        "drawn": {"how": "random", "probability": 0.25, "stratum": "2"},
    }


def test_the_last_judgment_of_each_judge_counts_and_null_takes_it_back(path: str) -> None:
    add_judgments(path, [judged("d1", 0), judged("d1", 2, BEN), judged("d1", 3), judged("d2", 1), judged("d2", None)])
    assert [(row.by, row.doc_id, row.grade) for row in read_judgments(path).rows] == [(BEN, "d1", 2), (ANA, "d1", 3)]


def test_another_model_prompt_parameter_or_scale_is_another_judge() -> None:
    judges = [
        (ModelJudge("m", "p"), "0-3"),
        (ModelJudge("m2", "p"), "0-3"),
        (ModelJudge("m", "p2"), "0-3"),
        (ModelJudge("m", "p", {"temperature": 1}), "0-3"),
        (ModelJudge("m", "p", votes=3), "0-3"),
        (ModelJudge("m", "p"), "0-4"),
        (Person("m"), "0-3"),
    ]
    assert len({fingerprint_judge(*judge) for judge in judges}) == len(judges)
    swapped = [fingerprint_judge(ModelJudge("m", "p", dict(p)), "0-3") for p in ({"a": 1, "b": 2}, {"b": 2, "a": 1})]
    assert swapped[0] == swapped[1]


GOOD = (
    '{"query_id": "q1", "doc_id": "d1", "grade": 2, "scale": "0-3", "by": {"kind": "person", "name": "a"}, "at": "now"}'
)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"grade": 2', '"grade": 4', "grade must be a whole number of the scale 0-3, found 4"),
        ('"grade": 2', '"grade": -1', "grade must be a whole number of the scale 0-3, found -1"),
        ('"grade": 2', '"grade": "high"', "grade: expected a number, found text"),
        ('"grade": 2', '"grade": 1.5', "grade: expected a number"),
        ('"scale": "0-3"', '"scale": "1-5"', 'scale must be written as 0-3, found "1-5"'),
        ('"doc_id": "d1"', '"doc_id": ""', "doc_id is empty, expected an id"),
        ('"doc_id": "d1", ', "", "missing required field `doc_id`; expected one judgment per line"),
        ('"kind": "person"', '"kind": "robot"', "'robot'"),
        ('"at": "now"', '"at": "now", "who": 1', 'unknown field "who"'),
        ('"at": "now"', '"at": "now", "at": "then"', '"at" appears twice'),
        ('"at": "now"', '"at": "now", "drawn": {"how": "random"}', "probability of a random pair must be above 0"),
        (
            '"at": "now"',
            '"at": "now", "drawn": {"how": "value", "probability": 1}',
            "drawn by value has no probability",
        ),
        (', "at": "now"}', "", "the JSON breaks off"),
        (GOOD, "[1]", "expected one judgment per line"),
    ],
)
def test_a_line_that_is_not_a_judgment_is_refused_with_its_line(
    path: str, before: str, after: str, message: str
) -> None:
    assert before in GOOD
    Path(path).write_text(f"{GOOD}\n{GOOD.replace(before, after)}\n{GOOD}\n")
    with pytest.raises(InputError) as error:
        read_judgments(path)
    assert f"{path}:2: " in str(error.value) and message in str(error.value)


def test_half_a_line_at_the_end_is_ignored_by_readers_and_removed_by_the_next_write(path: str) -> None:
    Path(path).write_text(GOOD + "\n" + GOOD[:40])
    (note,) = read_judgments(path).notes
    assert ":2: the last line breaks off" in note and "is ignored" in note
    (note,) = add_judgments(path, [judged("d9", 1)])
    assert "broke off" in note and "was removed" in note
    assert [row.doc_id for row in read_judgments(path).rows] == ["d1", "d9"]
    assert read_judgments(path).notes == ()


def test_a_whole_last_line_without_its_end_is_kept(path: str) -> None:
    Path(path).write_text(GOOD)
    assert add_judgments(path, [judged("d9", 1)]) == ()
    assert [row.doc_id for row in read_judgments(path).rows] == ["d1", "d9"]


def test_a_missing_file_is_an_error_unless_it_may_be_missing(path: str) -> None:
    assert read_judgments(path, missing_ok=True).rows == ()
    with pytest.raises(InputError, match="no such file"):
        read_judgments(path)


def test_judgments_on_another_scale_are_refused(path: str) -> None:
    add_judgments(path, [judged("d1", 1)])
    refuse_other_scales(read_judgments(path), "0-3")
    with pytest.raises(InputError, match='doc "d1" is judged on the scale 0-3, expected 0-1'):
        refuse_other_scales(read_judgments(path), "0-1")


def _add_many(path: str, name: str) -> None:
    for number in range(100):
        add_judgments(path, [judged(f"d{number}", number % 4, Person(name), note="x" * 500)])


def test_people_who_judge_at_the_same_time_lose_nothing(path: str) -> None:
    names = ["ana", "ben", "cleo"]
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_add_many, args=(path, name)) for name in names]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    rows = read_judgments(path).rows
    assert sorted((row.by.label, row.doc_id) for row in rows) == sorted((n, f"d{i}") for n in names for i in range(100))


def test_pairs_are_read_back_and_repeats_named(tmp_path: Path) -> None:
    path = str(tmp_path / "pairs.jsonl")
    pairs = [Pair("q1", "d1", Draw("random", 0.5)), Pair("q1", "d2"), Pair("q1", "d1", Draw("random", 0.5))]
    write_pairs(pairs, path)
    records = read_pairs(path)
    assert records.rows == tuple(pairs[:2])
    assert records.notes == (f"{path}: 1 of 3 pairs appear more than once",)
    Path(path).write_text('{"query_id": "q1"}\n')
    with pytest.raises(InputError, match=r"pairs.jsonl:1: .*doc_id"):
        read_pairs(path)
