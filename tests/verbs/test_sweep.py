"""Curves over k: area, knee, where it is as good as done, and how they are drawn."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

import karat
from karat.cli import main
from karat.report import latex, markdown
from karat.report.view import view_of
from karat.verbs.sweep import area, knee, rises

GOLD = {"q1": {"a": 1, "b": 1}, "q2": {"c": 1}}
RUN = {"q1": ["a", "x", "b", "y", "z"], "q2": ["x", "y", "c", "z", "w"]}


def test_the_area_is_that_of_trapezoids_over_the_range() -> None:
    # (.2+.5)/2·2 + (.5+.6)/2·2 + (.6+.8)/2·5 + (.8+.9)/2·10 = .7 + 1.1 + 3.5 + 8.5 = 13.8; / 19
    assert area([1, 3, 5, 10, 20], [0.2, 0.5, 0.6, 0.8, 0.9]) == pytest.approx(13.8 / 19)
    assert round(area([1, 3, 5, 10, 20], [0.2, 0.5, 0.6, 0.8, 0.9]), 4) == 0.7263
    # over log k: (.35 ln 3 + .55 ln 5/3 + .7 ln 2 + .85 ln 2) / ln 20 = 1.7399 / 2.9957
    assert round(area([1, 3, 5, 10, 20], [0.2, 0.5, 0.6, 0.8, 0.9], log=True), 4) == 0.5808
    assert area([5], [0.4]) == 0.4


def test_recall_auc_is_the_same_area_as_a_metric() -> None:
    # recall at 1, 3, 5 is .5, 1, 1 for q1 and 0, 1, 1 for q2
    result = karat.evaluate(GOLD, RUN, "recall_auc@5")
    assert result.per_query("recall_auc@5") == pytest.approx(
        {"q1": ((0.5 + 1) / 2 * 2 + 2) / 4, "q2": ((0 + 1) / 2 * 2 + 2) / 4}
    )
    mean = [karat.evaluate(GOLD, RUN, f"recall@{k}").mean[f"recall@{k}"] for k in (1, 3, 5)]
    assert result.mean["recall_auc@5"] == pytest.approx(area([1, 3, 5], mean))
    assert karat.evaluate(GOLD, RUN, "recall_auc@1").mean["recall_auc@1"] == 0.25


def test_the_knee_is_where_more_gives_little() -> None:
    # y = 5 − 1/x: above the chord by .500, .632, .735, .735, .582 at 2, 3, 5, 10, 20, so that 5 and 10 are as good
    ks = [1, 2, 3, 5, 10, 20, 50]
    assert knee(ks, [-1 / k + 5 for k in ks]) in (5, 10)
    assert knee([1, 3, 5, 10], [0.1, 0.8, 0.82, 0.83]) == 3
    assert knee([1, 2, 3], [0.1, 0.2, 0.3]) is None
    assert knee([1, 2, 3], [0.5, 0.5, 0.5]) is None
    assert knee([1, 2], [0.1, 0.5]) is None
    assert knee([1, 3, 5, 10, 50], [0.457, 0.392, 0.40, 0.45, 0.558]) is None  # falls, then rises: no bend
    assert knee([1, 3, 5, 10, 20, 50], [0.786, 0.739, 0.712, 0.666, 0.698, 0.777]) is None  # the same, a little lower
    assert knee([1, 3, 5, 10], [0.9, 0.3, 0.28, 0.25]) is None  # only falls
    assert knee([1, 3, 5, 10], [0.1, 0.8, 0.79, 0.83]) == 3  # a dip of a hundredth is still a rise


def test_only_curves_that_rise_reach_their_end_early() -> None:
    assert rises([0.1, 0.5, 0.5]) and rises([0.5, 0.495, 0.6]) and rises([0.4, 0.4])
    assert not rises([0.643, 0.573, 0.644]) and not rises([0.786, 0.777]) and not rises([math.nan, math.nan])
    gold = {f"q{i}": {"a": 1, "b": 1, "c": 1} for i in range(12)}
    curve = karat.sweep(gold, {q: [*"axybcz"] for q in gold}, "ndcg", ks=[1, 3, 5]).curve("ndcg")
    assert curve.values[0] == 1.0 and curve.values[1] < curve.values[2]
    assert (curve.knee, curve.enough) == (None, None)


def test_a_sweep_goes_as_deep_as_the_run_and_has_bands() -> None:
    found = karat.sweep(GOLD, RUN)
    curve = found.curve("recall")
    assert curve.ks == (1, 3, 5)
    assert curve.values == [0.25, 1.0, 1.0]
    assert curve.enough == 3
    assert all(p.low <= p.estimate <= p.high for p in curve.points)
    assert {c.metric for c in found.curves} == {"recall", "ndcg", "precision", "hit"}
    assert found.curve("precision").enough is None  # it falls


def test_a_sweep_has_curves_for_each_run_and_segment() -> None:
    queries = {"q1": {"language": "de"}, "q2": {"language": "en"}}
    found = karat.sweep(
        GOLD,
        {"one": RUN, "two": {q: docs[::-1] for q, docs in RUN.items()}},
        "recall",
        ks=[1, 3],
        queries=queries,
        by="language",
    )
    assert [(c.run, c.segment) for c in found.curves] == [
        ("one", None),
        ("one", {"language": "de"}),
        ("one", {"language": "en"}),
        ("two", None),
        ("two", {"language": "de"}),
        ("two", {"language": "en"}),
    ]
    assert found.curve("recall", "two").values == [0.0, 0.75]


def test_areas_are_compared_as_far_as_all_runs_go() -> None:
    gold = {f"q{i}": {"d1": 1, "d7": 1} for i in range(12)}
    deep, short = ({q: [f"d{j}" for j in range(n)] for q in gold} for n in (20, 5))
    both = karat.sweep(gold, {"deep": deep, "short": short}, "precision", ks=[1, 2, 5, 10, 20])
    assert both.curve("precision", "deep").area == both.curve("precision", "short").area
    assert "areas are up to k = 5, which all runs reach" in both.notes
    alone = karat.sweep(gold, {"deep": deep}, "precision", ks=[1, 2, 5, 10, 20])
    assert alone.curve("precision").area != both.curve("precision", "deep").area


def test_notes_and_warnings_are_about_points_that_are_shown() -> None:
    gold = {f"q{i}": {"d1": 1, "d7": 1} for i in range(12)}
    runs = {name: {q: [f"d{j}" for j in range(n)] for q in gold} for name, n in (("a", 50), ("b", 50), ("c", 20))}
    alike = karat.sweep(gold, {name: runs[name] for name in "ab"})
    assert alike.own_notes == () and not any("end at rank" in text for text in alike.warnings)
    assert not any("@100" in text for text in alike.as_json().get("warnings", []))
    asked = karat.sweep(gold, {name: runs[name] for name in "ab"}, ks=[5, 10, 100])
    assert asked.own_notes == ("a, b returned at most 50 docs: no points at 100",)
    unequal = karat.sweep(gold, runs)
    assert unequal.notes[0] == "c returned at most 20 docs: no points at 50"


def test_curves_end_where_lists_end_unless_cutoffs_are_stated() -> None:
    gold = {f"q{i}": {"a": 1} for i in range(30)}
    four = {q: [*"xyza"] for q in gold}
    found = karat.sweep(gold, four, "recall")
    assert (found.curve("recall").ks, found.curve("recall").values) == ((1, 3, 4), [0.0, 0.0, 1.0])
    assert karat.sweep(karat.evaluate(gold, four), metrics="recall").curve("recall").ks == (1, 3, 4)
    assert found.warnings == () and found.notes == ()
    stated = karat.sweep(gold, four, "recall", ks=[1, 3])
    assert stated.curve("recall").ks == (1, 3)
    assert stated.warnings == ()  # the ids are in order: the docs are at rank 4
    long = {q: [f"d{i}" for i in range(130)] for q in gold}
    assert karat.sweep(gold, {"a": four, "b": long}, "recall").curve("recall", "b").ks == (1, 3, 4, 5, 10, 20, 50, 100)
    one = karat.sweep(gold, {q: ["a"] for q in gold}, "recall").curve("recall")
    assert (one.ks, one.enough) == ((1,), None)


def test_what_has_no_cutoff_has_no_curve() -> None:
    with pytest.raises(karat.UsageError, match="rprec has no cutoff"):
        karat.sweep(GOLD, RUN, "rprec")
    with pytest.raises(karat.UsageError, match="without a cutoff"):
        karat.sweep(GOLD, RUN, "recall@5")
    with pytest.raises(karat.UsageError, match="no curve of 'map'"):
        karat.sweep(GOLD, RUN, "recall").curve("map")


def command(*arguments: str) -> int:
    sys.argv = ["karat", *arguments]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.json").write_text(json.dumps(GOLD))
    (tmp_path / "r.json").write_text(json.dumps(RUN))


@pytest.mark.usefixtures("files")
def test_the_terminal_plots_and_the_json_holds_the_curves(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("sweep", "g.json", "r.json", "-m", "recall") == 0
    out = capsys.readouterr().out
    assert "recall@k" in out
    assert "●" in out
    assert "98% at" in out
    assert command("sweep", "g.json", "r.json", "-m", "recall", "--json", "-") == 0
    (curve,) = json.loads(capsys.readouterr().out)["curves"]
    assert curve["k"] == [1, 3, 5]
    assert curve["mean"] == [0.25, 1.0, 1.0]
    assert curve["k98"] == 3


@pytest.mark.usefixtures("files")
def test_pictures_are_written_as_asked_and_the_same_each_time() -> None:
    assert command("sweep", "g.json", "r.json", "--plot", "a.svg", "--quiet") == 0
    assert command("sweep", "g.json", "r.json", "--plot", "b.svg", "--quiet") == 0
    assert Path("a.svg").read_bytes() == Path("b.svg").read_bytes()
    assert b"<svg" in Path("a.svg").read_bytes()
    assert command("sweep", "g.json", "r.json", "--plot", "a.png", "--quiet") == 0
    assert Path("a.png").read_bytes()[:4] == b"\x89PNG"
    assert command("sweep", "g.json", "r.json", "--plot", "a.gif", "--quiet") == 2


def test_columns_follow_the_deepest_run(capsys: pytest.CaptureFixture[str]) -> None:
    from karat.report.terminal.sweep import show

    gold = {f"q{i}": ["a"] for i in range(12)}
    runs = {"short": {q: ["a", "b"] for q in gold}, "deep": {q: [*"bcdefghij", "a"] for q in gold}}
    show(karat.sweep(gold, runs, "recall", ks=(1, 2, 5, 10)))
    lines = [row.split() for row in capsys.readouterr().out.splitlines()]
    (head,) = [row for row in lines if row[:1] == ["run"]]
    assert head[1:5] == ["k=1", "k=2", "k=5", "k=10"]
    (deep,) = [row for row in lines if row[:1] == ["deep"] and len(row) > 3]
    assert deep[1:5] == ["0.000", "0.000", "0.000", "1.000"]


def test_markdown_and_latex_lead_with_the_area_and_have_the_figures_of_each_curve() -> None:
    gold = {f"q{i}": {"a": 1} for i in range(20)}
    early = {q: ["a" if i < 2 else "x", *"yz"] for i, q in enumerate(gold)}
    late = {q: ["a" if i < 1 else "x", *("a" if 0 < i < 15 else "y"), "z"] for i, q in enumerate(gold)}
    view = view_of(karat.sweep(gold, {"early": early, "late": late}, "recall"))
    text = markdown.render(view).replace(markdown.BREAK, "")
    assert text.startswith("## recall@k: best area under the curve up to k = 3: late 0.4000\n")  # early leads at k = 1
    assert "| metric | run | area | knee | 98% at |" in text
    assert "both for curves that end no lower than they start, and nowhere fall by more than 2%" in text
    rows = [line for line in text.splitlines() if line.startswith("| `recall@k`")]
    assert [row.split(" | ")[1] for row in rows] == ["early", "late"]
    assert rows[1].endswith(" | – | 3 (last) |")
    tex = latex.render(view)
    assert r"metric & run & area & knee & 98\% at \\" in tex and r"recall@k & late & 0." in tex


def test_tables_hold_the_points_of_the_curves_and_no_others() -> None:
    gold = {f"q{i}": {f"d{j}": 1 for j in range(30)} for i in range(20)}
    deep = {name: {q: [f"d{j}" for j in range(n)] for q in gold} for name, n in (("short", 5), ("long", 20))}
    table = markdown.render(view_of(karat.sweep(gold, deep, "recall", ks=[5, 10, 50])))
    rows = [line for line in table.splitlines() if line.startswith(("| short", "| long", "| system"))]
    assert len(rows) == 3
    assert "recall@10" in rows[0] and "recall@50" not in rows[0]
    assert rows[1].endswith("| – |") and not rows[2].endswith("| – |")
    assert "recall@50" not in table
