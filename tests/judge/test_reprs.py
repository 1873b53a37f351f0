"""What objects of judging show of themselves is one line, however many rows they hold."""

from __future__ import annotations

from karat.judge.judgments import Judgments
from karat.judge.pool import Pool
from karat.verbs.validate.findings import Validation


def test_reprs_are_one_short_line() -> None:
    assert repr(Pool((), 20, 700, 200, 500)) == "Pool(0 pairs of 20 queries; 200 of 700 are judged)"
    assert repr(Judgments((), "j.jsonl")) == "Judgments(j.jsonl: 0 by 0 judges)"
    assert repr(Validation((), {"a": "run"})) == "Validation(no findings; 1 file)"
