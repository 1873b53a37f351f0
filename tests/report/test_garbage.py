"""Reports of many queries: looking for garbage among what a page is made of takes ever longer, and finds none."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import karat
from karat.report.html import write


@pytest.fixture
def result() -> karat.Result:
    return karat.evaluate({"q": {"a": 1}}, {"q": {"b": 2.0, "a": 1.0}}, "mrr", details=True)


def test_no_garbage_is_looked_for_while_a_page_is_made(
    result: karat.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[bool] = []
    page_of = write.page_of
    monkeypatch.setattr(write, "page_of", lambda *a, **k: (states.append(gc.isenabled()), page_of(*a, **k))[1])
    karat.write_report(result, str(tmp_path / "report.html"))
    assert states == [False]
    assert gc.isenabled()


def test_looking_for_garbage_goes_on_after_a_failure(
    result: karat.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError

    monkeypatch.setattr(write, "page_of", fail)
    with pytest.raises(ValueError):
        karat.write_report(result, str(tmp_path / "report.html"))
    assert gc.isenabled()
