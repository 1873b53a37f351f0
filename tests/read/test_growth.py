"""Work that grows with the input and not with its square: counted, not timed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import karat
from karat.model.run_log import RunLog
from karat.read import textfile
from karat.read.run_log import read_run_log


def copied_bytes(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many bytes are searched for the end of a query while a file is read."""
    total = 0
    real = textfile.TextFile._last_query_start

    def counted(self: Any, buffer: bytearray, end: int) -> int:
        nonlocal total
        total += end
        return real(self, buffer, end)

    with monkeypatch.context() as patch:
        patch.setattr(textfile, "BLOCK", 1 << 12)
        patch.setattr(textfile.TextFile, "_last_query_start", counted)
        karat.evaluate({"q1": {"d1": 1}}, str(path), "mrr", cache=False)
    return total


def test_one_query_with_many_rows_is_read_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.txt"
    path.write_text("".join(f"q1 Q0 d{i} {i} {40_000 - i} t\n" for i in range(40_000)))
    assert copied_bytes(path, monkeypatch) < 5 * path.stat().st_size  # 100 times, if every piece began anew


def test_one_long_line_is_read_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.txt"
    path.write_text(f"q1 Q0 d1 1 2 {'x' * (1 << 20)}\nq1 Q0 d2 2 1 t\n")
    assert copied_bytes(path, monkeypatch) < 5 * path.stat().st_size


def test_facts_that_differ_on_every_line_are_each_looked_at_once(tmp_path: Path) -> None:
    class Text(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Text.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    path = tmp_path / "log.jsonl"
    lines = [{"query_id": f"q{i}", "topk": [], "code_version": f"v{i}", "as_of_range": [str(i)]} for i in range(500)]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, lines[0] | {"query_id": "again"}]))
    log = read_run_log(str(path), "log")
    traces = {q: replace(t, code_version=Text(t.code_version)) for q, t in log.traces.items()}
    facts = RunLog("log", traces).facts
    assert len(facts["code_version"]) == len(facts["as_of_range"]) == 500  # type: ignore[arg-type]
    assert Text.compared < 5_000
