"""Broken input of every kind is refused with a clear error, or read as a strict reader reads it.

Judged are 2,000 cases from seeds, and every case that was ever wrong; `make fuzz` judges 50,000.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fuzz import CRASHES, cases, judge_case, main, read_crash
from judge import Verdict
from karat.read.formats import all_formats
from kinds import KINDS
from references import Refusal
from samples import Case, Kind

CASES = int(os.environ.get("FUZZ_CASES", "2000"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
PARTS = 8
"""Tests that share the cases, for as many processes."""


@pytest.mark.parametrize("part", range(PARTS))
def test_broken_input_is_refused_or_read_as_it_stands(part: int, tmp_path: Path) -> None:
    wrong = []
    for number, case in enumerate(cases(CASES, SEED)):
        if number % PARTS == part and (verdict := judge_case(case, tmp_path)).outcome == "wrong":
            wrong.append(f"{case}: {verdict.why}")
    assert not wrong, "\n".join(wrong[:5])


def test_the_fuzzer_makes_cases_of_one_kind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("KARAT_CACHE_DIR", str(tmp_path))  # which the fuzzer sets
    monkeypatch.setattr("sys.argv", ["fuzz.py", "--cases", "3", "--kind", "trec run"])
    assert main() == 0
    assert [row.split(" | ")[:2] for row in capsys.readouterr().out.splitlines()[2:]] == [
        ["| trec run", "3"],
        ["| all", "3"],
    ]
    assert {case.kind for case in cases(9, 0, "parquet run")} == {"parquet run"}
    monkeypatch.setattr("sys.argv", ["fuzz.py", "--kind", "no such kind"])
    with pytest.raises(SystemExit):
        main()
    message = capsys.readouterr().err
    assert "invalid choice: 'no such kind'" in message and "trec gold" in message


def test_files_of_every_format_are_damaged() -> None:
    lacking = set(all_formats()) - {word for kind in KINDS for word in kind.split()}
    assert not lacking, (
        f"no kind of file is called {', '.join(sorted(lacking))}: add tests/fuzz/format_NAME.py, whose KINDS says what "
        "the files hold, such as 'letor gold'; see CONTRIBUTING.md, To add an input format"
    )


@pytest.mark.parametrize("crash", sorted(CRASHES.glob("*.json")), ids=lambda path: path.stem)
def test_what_was_wrong_once_stays_right(crash: Path, tmp_path: Path) -> None:
    verdict = judge_case(read_crash(crash), tmp_path)
    assert verdict.outcome != "wrong", verdict.why


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("trec run", b"q1 Q0 d1 1 nan t\n"),
        ("trec run", b"q1 Q0 d1 1 1 t\nq1 Q0 d2 2\n"),
        ("csv run", b'query_id,doc_id,score,note\nq1,d1,1,"open\nq1,d2,2,x\n'),
        ("log run", b'{"query_id": "q1", "topk": [], "query_id": "q2"}\n'),
    ],
)
def test_the_references_are_strict(kind: str, data: bytes) -> None:
    with pytest.raises(Refusal):
        KINDS[kind].read(data, kind)


def test_the_judge_sees_a_lost_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("trec run", "r.txt", b"q1 Q0 d1 1 2 t\nq1 Q0 d2 2 1 t\n", damaged=False)
    assert judge_case(case, tmp_path) == Verdict("equal")
    kind = Kind(KINDS["trec run"].write, lambda data, kind: {"q1": ["d1", "d2", "d3"]})
    monkeypatch.setitem(KINDS, "trec run", kind)
    assert judge_case(case, tmp_path).outcome == "wrong"
    monkeypatch.setattr("judge.reader_for", lambda kind: lambda *_: 1 / 0)
    assert judge_case(case, tmp_path) == Verdict("wrong", "ZeroDivisionError: division by zero")
