"""A table at a terminal of 80 characters: no figure is cut, and what is left out is named."""

from __future__ import annotations

import io
import sys
from itertools import pairwise

import pytest

import karat
from karat.report.terminal import compare as compare_view
from karat.report.terminal import evaluate as evaluate_view
from karat.report.terminal.console import LABEL, head_of, least_width
from karat.report.terminal.layout import Grid

LONG = "hybrid-bm25-splade-rrf-k60-with-a-long-name"
QUERIES = [f"q{i}" for i in range(40)]
GOLD = {q: {"a": 1} for q in QUERIES}
TABLE = {q: {"kind": f"a rather long name of kind {i % 3}"} for i, q in enumerate(QUERIES)}


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def screen_of(monkeypatch: pytest.MonkeyPatch) -> Screen:
    out = Screen()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    return out


def runs(*names: str) -> dict[str, dict[str, list[str]]]:
    return {
        n: {q: [f"x{k}" for k in range((i * 7 + j) % 5)] + ["a"] for i, q in enumerate(QUERIES)}
        for j, n in enumerate(names)
    }


def test_intervals_go_before_runs_are_divided_and_the_reader_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_of(monkeypatch)
    names = [LONG, *(f"run-number-{i}" for i in range(6))]
    result = karat.evaluate(GOLD, runs(*names), "mrr", queries=TABLE, by="kind")
    evaluate_view.show(result, "")
    text = screen.getvalue()
    assert "intervals left out: 80 characters are too few for them" in text and head_of(LONG) in text
    assert text.count("mrr by segment") > 1
    for run in result.runs:
        assert f"{run.mean['mrr']:.4f}" in text
    assert all(len(row) <= 80 for row in text.splitlines())


def test_a_comparison_shows_its_intervals_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_of(monkeypatch)
    comparison = karat.compare(GOLD, runs("base", LONG), "mrr", queries=TABLE, by="kind")
    compare_view.show(comparison)
    text = screen.getvalue()
    assert comparison.rows
    for row in comparison.rows:
        assert row.figure.text in text and row.figure.interval in text
    assert all(len(row) <= 80 for row in text.splitlines())


def test_a_table_needs_all_of_its_figures_and_some_room_for_its_names() -> None:
    table = Grid(2)
    table.add_column("by segment")
    table.add_column("interval", no_wrap=True)
    table.add_row("kind = something, language = another", "[0.100, 0.200]")
    assert least_width(table) == LABEL + 2 + len("[0.100, 0.200]")


@pytest.mark.usefixtures("few_draws")
def test_work_that_segments_and_runs_share_is_listed_once() -> None:
    from karat.report.plan import work_by_gate

    gate = "mrr >= 0.45 for every kind"
    result = karat.evaluate(GOLD, runs("one", "two"), "mrr", queries=TABLE, by="kind")
    plan = karat.plan(result, None, gate, truth=0.1, sizes=(25,), candidate=["one", "two"])
    work = work_by_gate(plan)
    rows = [row for lines in work.values() for row in lines]
    assert plan.work and 0 < len(rows) <= len(plan.work)
    for item in plan.work:
        assert any(item.run in names and next(iter((item.segment or {}).values())) in words for names, words in rows)
    assert all(a != b for a, b in pairwise(rows))
