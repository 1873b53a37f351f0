"""Docs in another form: the same content, in another order or twice."""

from __future__ import annotations

import pytest

from karat.judge.bias_test import measure_change, reform
from karat.judge.judgments import Judgment, ModelJudge

NOON = "2026-11-16T12:00:00+00:00"


@pytest.mark.parametrize(
    ("text", "turned"),
    [
        ("One two. Three four.", "Three four.\nOne two."),
        ("A long first sentence of many words. Two. Three.", "Two. Three.\nA long first sentence of many words."),
        ("no sentence ends here", "ends here\nno sentence"),
        ("第一句。第二句。", "第二句。\n第一句。"),
        ("word", "word"),
    ],
)
def test_halves_are_exchanged_at_the_end_of_a_sentence_or_word(text: str, turned: str) -> None:
    assert reform(text, "second half first") == turned
    assert sorted(turned.split()) == sorted(text.split()) or " " not in text
    assert reform(text, "text twice") == f"{text}\n{text}" and reform(text, "unchanged") == text


def graded(doc: int, grade: int) -> Judgment:
    return Judgment(f"q{doc % 5}", f"d{doc}", grade, "0-3", ModelJudge("m", "p"), NOON)


def test_changes_and_flips_by_hand() -> None:
    # Of ten pairs four rise by one grade, two of them from 0.
    old = [0, 0, 1, 1, 2, 2, 3, 3, 0, 1]
    new = [1, 1, 2, 2, 2, 2, 3, 3, 0, 1]
    judged = {row.ids: row for row in (graded(i, grade) for i, grade in enumerate(old))}
    one = measure_change("text twice", [graded(i, grade) for i, grade in enumerate(new)], judged)
    assert one.change.estimate == pytest.approx(0.4) and one.flips == pytest.approx(0.2)
    assert one.change.low < 0.4 < one.change.high
