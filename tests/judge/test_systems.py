"""What a judge does to a comparison of systems: favour, and the order of runs beside that of people."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from command import run_karat
from karat.judge.judgments import Judgment, ModelJudge, Person, add_judgments
from karat.judge.pairs import Draw
from karat.judge.systems import JudgedSystem, SystemsByJudge, compare_systems
from karat.stats.intervals import ALL_EQUAL
from karat.stats.prediction_powered import Labels
from karat.stats.survey import Survey
from places import ROOT

NOON = "2026-11-16T12:00:00+00:00"
QUERIES, DOCS = 30, 10


def compare(judge: np.ndarray, human: np.ndarray, runs: int, labelled: np.ndarray | None = None) -> SystemsByJudge:
    """Runs that return docs of their own; grades are runs × queries × docs, people's of the labelled pairs alone."""
    shape = judge.shape
    ids = [(f"q{q}", f"r{r}d{d}") for r in range(shape[0]) for q in range(shape[1]) for d in range(shape[2])]
    row = np.arange(len(ids)) if labelled is None else labelled
    labels = Labels(row, human.ravel()[row], Survey.even(len(row), len(ids)))
    pairs = {f"r{r}": {pair for pair in ids if pair[1].startswith(f"r{r}d")} for r in range(runs)}
    return compare_systems(ids, judge.ravel(), labels, pairs, depth=10, resamples=500)


def of(systems: SystemsByJudge, run: str) -> JudgedSystem:
    return next(one for one in systems.systems if one.run == run)


def test_ten_systems_with_one_adjacent_swap() -> None:
    # 44 of 45 pairs in one order, one in the other: (44 − 1) / 45.
    human = np.broadcast_to(np.arange(10.0)[:, None, None], (10, 5, 2))
    judge = human.copy()
    judge[[3, 4]] = judge[[4, 3]]
    tau = compare(judge, human, 10).tau
    assert tau is not None and tau.estimate == pytest.approx(0.9556, abs=5e-5)
    assert tau.n == 5 and np.isnan([tau.low, tau.high]).all() and tau.method == ALL_EQUAL  # every query agrees


def test_the_order_by_people_rests_on_the_judge_less_its_error() -> None:
    # People: r0 1, r1 2. The judge gives r0 two more grades. Labels are on every second pair.
    human = np.stack([np.full((QUERIES, DOCS), 1.0), np.full((QUERIES, DOCS), 2.0)])
    judge = human.copy()
    judge[0] += 2
    one = compare(judge, human, 2, np.arange(0, human.size, 2))
    assert [(of(one, r).judge, of(one, r).people) for r in ("r0", "r1")] == [(3.0, 1.0), (2.0, 2.0)]
    assert of(one, "r0").error.estimate == 2.0 and of(one, "r0").labelled == QUERIES * DOCS // 2
    assert one.tau is not None and one.tau.estimate == -1.0 and np.isnan(one.tau.high)


def test_a_favoured_run_is_named_and_a_worse_one_is_not() -> None:
    rng = np.random.default_rng(3)
    human = np.stack([rng.integers(low, low + 3, (QUERIES, DOCS)) for low in (0, 1, 1)]).astype(float)
    noise = rng.integers(-1, 2, human.shape)
    fair = np.clip(human + noise, 0, 3)
    # Clipping pulls low grades up: r0, the worst run, looks better than it is, and is yet not favoured.
    one = compare(fair, human, 3)
    assert of(one, "r0").error.low > of(one, "r1").error.estimate
    assert not any(system.favoured or system.disfavoured for system in one.systems)
    liked = fair.copy()
    liked[1] = np.minimum(liked[1] + 1, 3)
    one = compare(liked, human, 3)
    assert [system.run for system in one.systems if system.favoured] == ["r1"]
    assert of(one, "r1").favour.estimate == pytest.approx(0.7, abs=0.2)  # grade 3 cannot rise


def test_fair_judges_are_rarely_said_to_favour_any_run() -> None:
    rng = np.random.default_rng(4)
    alarms = 0
    for _ in range(200):
        human = np.stack([rng.integers(low, 4, (20, 5)) for low in (0, 0, 1, 1, 2)]).astype(float)
        judge = np.clip(human + rng.integers(-1, 2, human.shape), 0, 3)
        row = rng.choice(human.size, 200, replace=False)
        alarms += any(one.favoured or one.disfavoured for one in compare(judge, human, 5, row).systems)
    assert alarms / 200 <= 0.10  # 5% for all five runs together, standard error 1.5%


def test_runs_without_labels_have_no_place_in_the_order() -> None:
    human = np.ones((2, QUERIES, DOCS))
    one = compare(human, human, 2, np.arange(20))
    assert (of(one, "r1").labelled, of(one, "r1").small, one.tau) == (0, True, None)
    assert np.isnan(of(one, "r1").people) and of(one, "r1").judge == 1.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A judge that likes what `dense` returns; runs by chunk, judgments by doc."""
    rng = np.random.default_rng(5)
    rows, labels = [], []
    for run, best in (("bm25", 3), ("dense", 2)):
        lines = []
        for q in range(20):
            for d in range(5):
                doc, grade = f"{run}{d}", int(rng.integers(0, best + 1))
                judged = 3 if run == "dense" and grade else grade
                rows.append(Judgment(f"q{q}", doc, judged, "0-3", ModelJudge("m", "p"), NOON))
                drawn = Draw("random", 1.0)
                labels.append(Judgment(f"q{q}", doc, grade, "0-3", Person("ana"), NOON, drawn=drawn))
                lines.append(f"q{q} Q0 {doc}#1 {d} {9 - d} t\n")
        (tmp_path / f"{run}.run").write_text("".join(lines))
    add_judgments(str(tmp_path / "judged.jsonl"), rows + labels)
    return tmp_path


def test_the_command_says_which_run_is_favoured_and_how_far_the_orders_agree(folder: Path) -> None:
    command = "judge calibrate -j judged.jsonl --run bm25.run --run dense.run"
    done = run_karat(*command.split(), "-o", "c.json", "--markdown", "c.md", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "The judge favours dense: it grades its docs" in done.stdout
    assert "Order of the 2 runs, judge against people: Kendall's τ -1.000, over 20 queries; samples" in done.stdout
    saved = json.loads((folder / "c.json").read_text())
    jsonschema.validate(saved, json.loads((ROOT / "docs/schemas/calibration.schema.json").read_text()))
    systems = {row["run"]: row for row in saved["systems"]["runs"]}
    assert saved["systems"]["tau"]["estimate"] == -1 and systems["dense"]["favoured"] is True
    assert systems["dense"]["error"]["low"] > 0.5 and systems["bm25"]["labelled"] == 100
    text = (folder / "c.md").read_text()
    assert "| dense | 100 | 100 |" in text and "The judge favours dense" in text
    done = run_karat(*command.split(), "--json", "-", cwd=folder)
    assert json.loads(done.stdout)["systems"] == saved["systems"]


def test_figures_of_a_refused_judge_are_written_and_marked(folder: Path) -> None:
    labels = [Judgment("q", f"d{i}", i % 2, "0-1", Person("ana"), NOON, drawn=Draw("random", 1.0)) for i in range(40)]
    rows = [Judgment("q", f"d{i}", i // 2 % 2, "0-1", ModelJudge("m", "p"), NOON) for i in range(40)]
    add_judgments(str(folder / "chance.jsonl"), labels + rows)
    done = run_karat("judge", "calibrate", "-j", "chance.jsonl", "--json", "-", "--markdown", "c.md", cwd=folder)
    assert done.returncode == 2 and json.loads(done.stdout)["usable"] is False
    assert "**Not usable**: m (prompt p) is no better than chance" in (folder / "c.md").read_text()
