"""Figures have a minus sign, names keep their hyphens."""

from __future__ import annotations

import pytest

from karat.report.html.data import typeset


@pytest.mark.parametrize(
    ("text", "print_text"),
    [
        ("-0.12 [-0.20, -.04]", "−0.12 [−0.20, −.04]"),
        ("tas-b is worse than bm25-2 by -0.1", "tas-b is worse than bm25-2 by −0.1"),
        ("e5-large-v2: no significant difference", "e5-large-v2: no significant difference"),
        ("run_-1 and v1.-2", "run_-1 and v1.-2"),
    ],
)
def test_only_the_hyphen_before_a_number_is_a_minus(text: str, print_text: str) -> None:
    assert typeset(text) == print_text
