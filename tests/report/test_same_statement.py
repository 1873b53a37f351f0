"""One decision, one statement: no two outputs disagree on what is significant."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import karat
from karat.report import junit, latex, markdown
from karat.report.html.sections import page_of
from karat.report.html.source import source_from
from karat.report.terminal import check as check_view
from karat.report.terminal import compare as compare_view
from karat.report.view import view_of
from saved_documents import read_document, saved_document


@pytest.fixture(scope="module")
def result() -> karat.Result:
    """60 queries in 5 segments; the candidate is worse by about .1 over all, and a second one hardly at all."""
    rng = np.random.default_rng(7)
    gold = {f"q{i:02}": {f"d{i}": 1} for i in range(60)}
    ranks = {"old": rng.integers(1, 4, 60), "new": rng.integers(1, 8, 60), "alike": rng.integers(1, 5, 60)}
    runs = {
        name: {
            q: [*(f"x{j}" for j in range(rank - 1)), f"d{i}"] for i, (q, rank) in enumerate(zip(gold, row, strict=True))
        }
        for name, row in ranks.items()
    }
    table = {q: {"kind": f"k{i % 5}" if i % 12 else "rare"} for i, q in enumerate(gold)}
    return karat.evaluate(gold, runs, "ndcg@10,mrr", queries=table, by="kind")


@pytest.fixture(scope="module")
def check(result: karat.Result) -> karat.Check:
    return karat.check(result, ["mrr >= 0.1", "ndcg@10 >= 0.1 for every kind"], baseline="old")


def test_check_decides_exactly_as_compare_does(result: karat.Result, check: karat.Check) -> None:
    old, *candidates = (replace(result, runs=(run,)) for run in result)
    compared = karat.compare(old, candidates)
    assert [d.statement for d in compared.rows] == [d.statement for d in check.comparisons]
    assert [d.family for d in compared.rows] == [d.family for d in check.comparisons]
    # Holm over the two candidates; Benjamini–Hochberg over their 2 × 5 segments of at least 10 queries.
    assert {str(d.family) for d in check.comparisons} == {
        "Holm over 2 candidates",
        "Benjamini–Hochberg over 10 segments",
        "None",
    }


def test_no_small_segment_is_ever_significant(check: karat.Check) -> None:
    small = [d for d in check.comparisons if d.segment == {"kind": "rare"}]
    assert len(small) == 4  # 2 candidates × 2 metrics, 5 queries each
    assert {(d.significant, d.outcome) for d in small} == {(False, "too few queries")}


def test_every_output_says_the_same(check: karat.Check, capsys: pytest.CaptureFixture[str]) -> None:
    worse = [d for d in check.comparisons if d.outcome == "worse"]
    assert worse and worse[0].candidate == "new"
    check_view.show_check(check, "gold", verbose=True)
    terminal = capsys.readouterr().out
    compared = karat.Comparison(check.result, "old", check.comparisons, 0.05)
    compare_view.show(compared)
    printed = " ".join(capsys.readouterr().out.split())
    document = json.loads(json.dumps(check.as_json()))
    page = page_of(source_from(read_document(saved_document(check)))).script
    comment, suite = markdown.render(view_of(check)), junit.render(view_of(check)).decode()
    outputs = markdown.render(view_of(compared))
    frame = check_frame(check)
    for i, decision in enumerate(check.comparisons):
        row = document["comparisons"][i]
        assert (row["statement"], row["outcome"]) == (decision.statement, decision.outcome)
        assert (page.changes[i].statement.replace("−", "-"), page.changes[i].outcome) == (
            decision.statement,
            decision.outcome,
        )
        assert frame["outcome"][i] == decision.outcome
        if decision.segment is None:
            assert decision.statement in printed
            assert (decision.statement in " ".join(terminal.split())) == (decision.outcome == "worse")
    falls = view_of(check).falls
    assert {id(d) for fall in falls for d in (fall.decision, *fall.segments)} == {id(d) for d in worse}
    for fall in falls[:3]:
        assert fall.statement in " ".join(terminal.split())
        assert markdown.text(fall.statement, markdown.STATEMENT) in comment
        assert f"significantly worse: {fall.statement}" in suite
    for decision in [d for d in check.comparisons if d.segment is None]:
        assert markdown.text(decision.statement, markdown.STATEMENT) in outputs


def check_frame(check: karat.Check) -> dict[str, list[object]]:
    return dict(karat.Comparison(check.result, "old", check.comparisons, 0.05).table().to_dict())


def test_results_show_themselves_and_give_frames(result: karat.Result, check: karat.Check) -> None:
    compared = karat.Comparison(result, "old", check.comparisons, 0.05)
    for shown in (result, result["new"], compared, check):
        page = shown._repr_html_()
        assert page.count("<tr>") > 1 and "[" in page  # intervals
        frame = shown.to_pandas()
        assert len(frame) == len(shown.to_polars()) == len(shown.table().rows) > 0
    assert "p adj." in compared._repr_html_()
    assert len(repr(result["new"])) < 120
    assert set(result.to_pandas().columns) == {"run", "metric", "value", "low", "high", "n"}


def test_latex_prints_systems_as_rows_with_what_each_significantly_beats(result: karat.Result) -> None:
    old, *candidates = (replace(result, runs=(run,)) for run in result)
    compared = karat.compare(old, candidates, all_pairs=True, draws=2000)
    table = latex.render(view_of(compared))
    rows = [line for line in table.splitlines() if "$^{" in line]
    assert [row.split("$")[0] for row in rows] == ["old (baseline)", "new", "alike"]
    p = compared.pairs["mrr"].p
    marks = {name: row.split("&")[2] for name, row in zip(("old", "new", "alike"), rows, strict=True)}
    mean = {run.name: run.mean["mrr"] for run in result}
    for name, cell in marks.items():
        beaten = [x for x, letter in (("old", "a"), ("new", "b"), ("alike", "c")) if letter in cell.partition("$")[2]]
        assert beaten == [x for x in mean if x != name and p[name][x] < 0.05 and mean[name] > mean[x]]
        assert ("textbf" in cell) == (mean[name] == max(mean.values()))
    assert "randomised Tukey HSD, blocked by query" in table
