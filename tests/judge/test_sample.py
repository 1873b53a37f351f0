"""Samples for people: drawn from what a judge graded, with the probabilities that they state."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from command import run_karat
from karat.errors import InputError, UsageError
from karat.judge.judgments import (
    Judgment,
    ModelJudge,
    Person,
    add_judgments,
    fingerprint_judge,
    read_judgments,
    rows_of_model,
)
from karat.judge.pairs import allocate, draw_sample, read_pairs

NOON = "2026-11-16T12:00:00+00:00"
MODEL, OTHER = ModelJudge("m", "p1"), ModelJudge("m", "p2")


def graded(doc: int, grade: int, by: ModelJudge | Person = MODEL) -> Judgment:
    return Judgment("q", f"d{doc:03}", grade, "0-3", by, NOON)


def test_pairs_are_allotted_by_the_square_root_of_how_many_there_are() -> None:
    # Roots 30, 10, 2 of 42: of 84 pairs 60, 20 and 4.
    assert allocate({0: 900, 1: 100, 2: 4}, 84) == {0: 60, 1: 20, 2: 4}
    assert allocate({0: 900, 1: 1}, 10) == {0: 9, 1: 1}
    assert allocate({0: 3, 1: 2}, 10) == {0: 3, 1: 2}
    assert sum(allocate({0: 7000, 1: 300, 2: 90, 3: 5}, 200).values()) == 200
    with pytest.raises(UsageError, match="too small for 3 grades; draw at least 6"):
        allocate({0: 900, 1: 100, 2: 4}, 5)


def test_every_pair_is_drawn_as_often_as_its_probability_says() -> None:
    rows = [graded(n, 0) for n in range(16)] + [graded(n, 2) for n in range(16, 20)]
    counts: Counter[str] = Counter()
    for seed in range(1500):
        pairs = draw_sample(rows, 6, seed=seed)  # roots 4 and 2 of 6: 4 of 16 and 2 of 4
        assert Counter(pair.drawn.stratum for pair in pairs) == {"0": 4, "2": 2}
        assert {(pair.drawn.stratum, pair.drawn.probability) for pair in pairs} == {("0", 0.25), ("2", 0.5)}
        counts.update(pair.doc_id for pair in pairs)
    for n in range(20):
        p = 0.25 if n < 16 else 0.5
        assert abs(counts[f"d{n:03}"] - 1500 * p) < 5 * (1500 * p * (1 - p)) ** 0.5


def test_the_estimate_from_a_sample_is_unbiased() -> None:
    # People call every second doc of grade 0 and all of grade 2 relevant: 12 of 20.
    rows = [graded(n, 0) for n in range(16)] + [graded(n, 2) for n in range(16, 20)]
    truth = {f"d{n:03}": float(n % 2 == 0 or n >= 16) for n in range(20)}
    estimates = []
    for seed in range(1500):
        pairs = draw_sample(rows, 6, seed=seed)
        estimates.append(sum(truth[p.doc_id] / (p.drawn.probability or 1) for p in pairs) / 20)
    assert sum(estimates) / 1500 == pytest.approx(12 / 20, abs=0.02)


def test_the_judge_is_named_where_there_are_several(tmp_path: Path) -> None:
    path = str(tmp_path / "j.jsonl")
    add_judgments(path, [graded(1, 2, Person("ana"))])
    with pytest.raises(InputError, match="holds no judgments by a model"):
        rows_of_model(read_judgments(path))
    add_judgments(path, [graded(1, 2), graded(2, 0)])
    assert len(rows_of_model(read_judgments(path))) == 2
    add_judgments(path, [graded(1, 3, OTHER)])
    with pytest.raises(InputError, match=r"several judges .*fingerprint"):
        rows_of_model(read_judgments(path), "m")
    (row,) = rows_of_model(read_judgments(path), fingerprint_judge(OTHER, "0-3"))
    assert row.grade == 3


def test_the_command_writes_the_sample_and_says_what_is_in_it(tmp_path: Path) -> None:
    add_judgments(str(tmp_path / "j.jsonl"), [graded(n, n % 4 // 3 * 3) for n in range(100)])
    done = run_karat("judge", "sample", "20", "-j", "j.jsonl", "-o", "s.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "s.jsonl: 20 of 100 pairs to label, by the judge's grade: 13 of grade 0, 7 of grade 3" in done.stdout
    assert len(read_pairs(str(tmp_path / "s.jsonl")).rows) == 20
    done = run_karat("judge", "sample", "20", "-j", "j.jsonl", "-o", "j.jsonl", cwd=tmp_path)
    assert done.returncode == 2 and "j.jsonl is an input" in done.stderr
