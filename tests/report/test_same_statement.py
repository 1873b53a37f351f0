"""One decision, one statement: no two outputs disagree on what is significant."""

from __future__ import annotations

import html
import json
from dataclasses import replace

import numpy as np
import pytest

import karat
from karat.gates.wording import notes_of
from karat.report import junit, latex, markdown
from karat.report.html.sections import page_of
from karat.report.html.source import source_from
from karat.report.terminal import check as check_view
from karat.report.terminal import compare as compare_view
from karat.report.terminal import evaluate as evaluate_view
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
        "Benjamini–Hochberg over the 10 tested of 12 segments",
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
    frame, notebook = check_frame(check), compared.table()
    assert dict(zip(notebook.heads, notebook.cells[0], strict=True))["outcome"] == check.comparisons[0].outcome
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
            assert (decision.statement in notebook.notes) == decision.primary
            assert (decision.statement in " ".join(terminal.split())) == (decision.outcome == "worse")
    falls = view_of(check).falls
    assert {id(d) for fall in falls for d in (fall.decision, *fall.segments)} == {id(d) for d in worse}
    for fall in falls[:3]:
        assert fall.statement in " ".join(terminal.split())
        assert markdown.text(fall.statement, markdown.STATEMENT) in comment
        assert f"significantly worse: {fall.statement}" in suite
    (below,) = check.table().more
    overall = [d for d in check.comparisons if d.segment is None]
    shown = [dict(zip(below.heads, row, strict=True)) for row in below.cells]
    assert [(row["candidate"], row["metric"], row["Δ"], row["p adj."], row["outcome"]) for row in shown] == [
        (d.candidate, d.metric, str(d.figure), d.p_adjusted_text, d.outcome) for d in overall
    ]
    assert [f"significantly worse: {fall.statement}" for fall in falls] == list(check.table().notes)[: len(falls)]
    for text in (*(d.p_adjusted_text for d in overall), *(fall.statement for fall in falls)):
        assert text in str(check) and html.escape(text) in check._repr_html_()
    for document_of in (check, compared):
        beaten = superscripts(latex.render(view_of(document_of)))
        for decision in overall:
            names = (decision.candidate, decision.baseline)
            assert (names in beaten[decision.metric]) == (decision.outcome == "better")
            assert (names[::-1] in beaten[decision.metric]) == (decision.outcome == "worse")
    for decision in overall:
        assert markdown.text(decision.statement, markdown.STATEMENT) in outputs


def superscripts(table: str) -> dict[str, set[tuple[str, str]]]:
    """By metric: which system a table in LaTeX says is significantly better than which."""
    rows = [line.removesuffix(r" \\").split(" & ") for line in table.splitlines() if "$^{" in line.split(" & ")[0]]
    names = [row[0].split("$")[0].removesuffix(" (baseline)") for row in rows]
    metrics = (
        next(line for line in table.splitlines() if line.startswith("System & ")).removesuffix(r" \\").split(" & ")
    )
    marks = {m: [row[i].partition("$^{")[2].removesuffix("}$") for row in rows] for i, m in enumerate(metrics) if i}
    return {
        m: {(name, names[ord(letter) - ord("a")]) for name, mark in zip(names, own, strict=True) for letter in mark}
        for m, own in marks.items()
    }


@pytest.mark.usefixtures("few_draws")
def test_notes_on_the_data_are_the_same_in_every_output(capsys: pytest.CaptureFixture[str]) -> None:
    """`old` ends at rank 2 and lacks a query; `new` ends at rank 3 and has an empty list."""
    gold = {f"q{i:02}": {"a": 1, "b": 1} for i in range(30)}
    old = {q: ["x", "a"] for q in list(gold)[1:]}
    new = {q: ["a", "y", "z"] if q != "q07" else [] for q in gold}
    result = karat.evaluate(gold, {"old": old, "new": new}, "ndcg@10,map")
    compared = karat.compare(gold, {"old": old, "new": new}, "ndcg@10,map")
    check = karat.check(result, ["map >= 0.1"], baseline="old")
    wanted = (
        "old: 1 query of the gold without results",
        "new: nothing was returned for 1 judged query",
        "lists of old end at rank 2, so ndcg@10 counts nothing below it",
        "lists of old end at rank 2, of new at rank 3, so map does not compare them fairly",
    )
    for source, show in ((result, evaluate_view.show), (compared, compare_view.show), (check, check_view.show_check)):
        show(source, *([] if source is compared else ["gold"]))
        printed = " ".join(capsys.readouterr().out.split())
        view, document = view_of(source), source.as_json()
        page = page_of(source_from(read_document(saved_document(source))))
        texts = [remark.text for remark in view.remarks]
        assert set(wanted) <= set(texts)
        for text in texts:
            assert text in printed and text in document["warnings"] and text in source.table().notes
            assert f"<li>{html.escape(text)}</li>" in source._repr_html_()
            assert markdown.text(text, markdown.SENTENCE) in markdown.render(view)
            assert text in [remark.text for remark in page.remarks]
            assert f"% note: {latex.text(text)}" in latex.render(view)
    suite = junit.render(view_of(check)).decode()
    assert all(text in suite for text in wanted)


def test_a_notebook_shows_segments_and_why_gates_are_undecided(result: karat.Result, check: karat.Check) -> None:
    page = result._repr_html_()
    assert page.startswith("<p>60 queries</p>")
    # 12 queries of each kind, less those that are rare: 5 of 60, at 0, 12, …, one of each kind.
    assert "<td>kind = k1</td><td>ndcg@10</td><td>11</td>" in page
    assert "<td>kind = rare †</td><td>ndcg@10</td><td>5</td>" in page and "† too few to judge alone" in page
    small = next(row for row in check.rows if row.where == "kind = rare" and row.run == "new")
    assert small.outcome == "undecided" and notes_of(small)
    assert f"<td>{notes_of(small)[0]}</td>" in check._repr_html_() and notes_of(small)[0] in str(check)
    forced = replace(check, own_notes=("--force: compared",), second_look="looked at before")
    assert "looked at before" in forced.warnings
    assert {"--force: compared", "looked at before"} <= set(forced.table().notes)


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
    assert set(result.to_pandas().columns) == {"run", "metric", "segment", "value", "low", "high", "n"}


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
