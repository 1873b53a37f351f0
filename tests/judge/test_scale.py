"""The scale: presets, one's own anchors, and what is a grade of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from karat.errors import InputError, UsageError
from karat.judge.scale import read_scale
from karat.verbs.judge.scale import choose_scale


def test_the_default_is_0_to_3_with_its_anchors() -> None:
    scale = read_scale()
    assert scale.name == "0-3" and list(scale.grades) == [0, 1, 2, 3]
    assert scale.text.splitlines() == [
        "3: complete answer",
        "2: very relevant, but incomplete",
        "1: partly relevant",
        "0: not relevant",
    ]


def test_a_grade_is_a_whole_number_of_the_scale_or_its_digits() -> None:
    scale = read_scale("0-3")
    assert [scale.read_grade(v) for v in (0, 3, 2.0, "1", " 2 ")] == [0, 3, 2, 1, 2]
    values = (-1, 4, 5, 10, 1.5, "high", "2/3", "²", "", None, True, [1], "1" * 5000, float("nan"))
    assert [scale.read_grade(v) for v in values] == [None] * len(values)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1-5", "scale must be one of 0-1, 0-2, 0-3, 0-4"),
        ({1: "a", 2: "b"}, "without a gap"),
        ({0: "a"}, "from 2 to 10"),
        ({0: "a", 1: " "}, "grade 1 has no anchor"),
        ({}, "found none"),
        (3, "found 3"),
    ],
)
def test_what_is_not_a_scale_is_refused(source: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_scale(source)


def test_the_scale_of_the_config_counts_unless_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert choose_scale().name == "0-3"
    Path("karat.yaml").write_text("scale: {0: useless, 1: solves the ticket}\n")
    assert choose_scale().anchors == ("useless", "solves the ticket")
    assert choose_scale("0-4").name == "0-4"
    Path("other.yaml").write_text("scale: 0-2\n")
    assert choose_scale(config="other.yaml").name == "0-2"
    Path("karat.yaml").write_text("version: 1\nscale: {0: useless, 2: solves the ticket}\n")
    with pytest.raises(InputError, match=r"karat.yaml:2: .*without a gap, .*found 0, 2"):
        choose_scale()
