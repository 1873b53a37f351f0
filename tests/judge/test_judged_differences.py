"""Differences between runs with a judge's grades: corrected by PPI++ on each query's difference."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import karat
from command import run_karat
from karat.metrics.grammar import parse
from karat.report.by_judge import describe_judged
from karat.report.html.sections import page_of
from karat.report.html.source import source_of
from karat.results.pairing import pair_on_basis
from karat.results.values import statistic_of
from karat.stats.aggregates import IntervalChoice, estimate_figures, measure_changes
from karat.stats.prediction_powered import tune_difference
from karat.stats.resample import Units
from planted_judge import Planted

METRICS = ["precision@10", "ndcg@10", "recall@10"]


def runs_of(data: Planted) -> dict[str, dict[str, list[str]]]:
    """A baseline that is blind, and a candidate that puts some relevant docs first."""
    rng = np.random.default_rng(1)
    order = {
        q: sorted(docs, key=lambda d: -(data.truth[q, d] * (rng.random() < 0.5) + rng.random()))
        for q, docs in data.run.items()
    }
    return {"old": data.run, "new": order}


def true_difference(data: Planted) -> float:
    old, new = (
        np.mean([[data.truth[q, d] for d in docs[:10]] for q, docs in run.items()]) for run in runs_of(data).values()
    )
    return float(new - old)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return Planted(tmp_path_factory.mktemp("planted"), 300)


@pytest.fixture(scope="module")
def comparison(data: Planted) -> karat.Comparison:
    return karat.compare(data.qrels, runs_of(data), METRICS, judgments=data.files, calibration=data.calibration)


def test_the_tuning_of_a_difference_minimises_its_variance() -> None:
    rng = np.random.default_rng(2)
    control = rng.normal(size=400)
    difference = 0.3 - 0.6 * control + rng.normal(size=400)
    best = tune_difference(difference, control)
    assert best == pytest.approx(0.6, abs=0.15)
    spreads = [np.var(difference + x * control) for x in np.linspace(0, 1, 101)]
    assert np.var(difference + best * control) <= min(spreads) + 1e-12
    assert tune_difference(difference, -control) == 0  # a judge that says the opposite does not count
    assert tune_difference(difference, np.zeros(400)) == 1
    gaps = np.where(np.arange(400) < 10, np.nan, difference)
    assert tune_difference(gaps, control) == pytest.approx(tune_difference(difference[10:], control[10:]))
    weight = np.where(np.arange(400) < 10, 0.0, 1.0)
    assert tune_difference(difference, control, Units.of(400, weights=weight)) == pytest.approx(
        tune_difference(difference[10:], control[10:])
    )


def test_the_corrected_difference_holds_that_of_people(data: Planted, comparison: karat.Comparison) -> None:
    truth = true_difference(data)
    (corrected,) = comparison.by_judge["corrected"]
    raw = next(row for row in comparison.by_judge["raw"] if row.metric == "precision@10")
    gold = comparison["precision@10"]
    assert truth in corrected.difference and truth not in raw.difference and truth not in gold.difference
    assert corrected.significant and corrected.p_adjusted < 0.01
    assert {row.metric for row in comparison.by_judge["raw"]} == {"precision@10", "ndcg@10"}


def test_a_difference_has_a_tuning_of_its_own(comparison: karat.Comparison) -> None:
    old, new = comparison.result.runs
    pair = pair_on_basis(old, new, "corrected")
    own = [run.on_basis("corrected") for run in (old, new)]
    tuned, plain = (np.var(b.values["precision@10"] - a.values["precision@10"]) for a, b in (pair, own))
    assert tuned <= plain
    assert pair_on_basis(old, new, "none") == (old, new)


def test_with_all_labels_the_difference_is_exact(tmp_path: Path) -> None:
    data = Planted(tmp_path, 80 * 20)
    one = karat.compare(data.qrels, runs_of(data), "precision@10", judgments=data.files, calibration=data.calibration)
    (row,) = one.by_judge["corrected"]
    assert row.delta == pytest.approx(true_difference(data))


def test_saved_comparisons_and_pages_say_the_same(comparison: karat.Comparison, tmp_path: Path) -> None:
    comparison.save(str(tmp_path / "c.json"))
    document = json.loads((tmp_path / "c.json").read_text())
    assert set(document["comparisons_by_judge"]) == {"raw", "corrected"}
    judged = describe_judged(comparison.result, {"none": comparison.rows, **comparison.by_judge})
    assert judged is not None
    section = judged.sections[-1]
    assert section.title == "new against old with the judge's grades"
    assert section.heads == ("metric", "Δ gold only", "Δ gold + judge", "Δ corrected")
    (row,) = comparison.by_judge["corrected"]
    assert dict(section.rows)["precision@10"][2].text == row.figure.text
    assert dict(section.rows)["ndcg@10"][2].text == "–"
    fresh, saved = (page_of(source_of(one)) for one in (comparison, str(tmp_path / "c.json")))
    assert [table.title for table in fresh.judged] == [section.title for section in judged.sections]
    assert fresh.judged == saved.judged and fresh.judged_lines == saved.judged_lines
    assert fresh.calibration == saved.calibration and fresh.calibration is not None
    again = karat.load(str(tmp_path / "c.json"))
    tuned = [pair_on_basis(*some.runs, "corrected")[1].values["precision@10"] for some in (comparison.result, again)]
    assert tuned[1] == pytest.approx(tuned[0])


def test_results_by_other_judges_or_judgments_are_not_compared_by_them(data: Planted, tmp_path: Path) -> None:
    files = data.write_inputs()
    other, fewer = (tmp_path / name for name in ("other.jsonl", "fewer.jsonl"))
    lines = Path(data.files[0]).read_text().splitlines(keepends=True)
    other.write_text("".join(lines).replace('"prompt":"p"', '"prompt":"q"'))
    fewer.write_text("".join(lines[:-5]))
    places = []
    for name, judged in (("a", data.files[0]), ("b", str(other)), ("c", str(fewer))):
        places.append(str(tmp_path / f"{name}.json"))
        run = f"{name}={files[1]}"
        out = run_karat("evaluate", files[0], run, "-m", "precision@10", "--judgments", judged, "--save", places[-1])
        assert out.returncode == 0, out.stderr
    out = run_karat("compare", places[0], places[1])
    assert out.returncode == 2 and "b cannot be compared with a: judge:" in out.stderr
    out = run_karat("compare", places[0], places[2])
    assert out.returncode == 0, out.stderr
    assert "no differences by a judge: a and c rest on different judgments or labels" in out.stdout


def test_a_judge_at_chance_and_a_calibration_of_another_judge_end_with_code_2(data: Planted, tmp_path: Path) -> None:
    files = data.write_inputs()
    config = f"dataset: {{qrels: {files[0]}}}\nruns: {{sys: {files[1]}}}\ngates: [precision@10 >= 0.1]\n"
    config += f"judgments: {json.dumps(data.files)}\ncalibration: calibration.json\n"
    (tmp_path / "karat.yaml").write_text(config)
    calibration = json.loads(Path(data.calibration).read_text())
    for change, reason in (
        ({"usable": False}, "is no better than chance"),
        ({"fingerprint": "0" * 16}, "is of another judge"),
    ):
        (tmp_path / "calibration.json").write_text(json.dumps(calibration | change))
        out = run_karat("check", str(tmp_path / "karat.yaml"))
        assert out.returncode == 2 and reason in out.stderr and "SHIP" not in out.stdout


def test_corrected_values_that_hardly_vary_leave_open_what_bounded_ones_do() -> None:
    """Of 80 queries that all have 1, the next one may have 0: their interval is not shorter for being corrected."""
    rng = np.random.default_rng(4)
    values = 1 + 0.001 * rng.normal(size=80)
    usual, beyond = (statistic_of(parse("precision@1"), unbounded=some) for some in (False, True))
    choice, units, rows = IntervalChoice(0.95, "auto", 1000, 1, 1), Units.of(80), [np.arange(80)]
    bounded = estimate_figures([np.clip(values, 0, 1)], [usual], units, rows, choice)[0][0]
    one = estimate_figures([values], [beyond], units, rows, choice)[0][0]
    assert one.low < 0.97 and one.estimate - one.low >= bounded.estimate - bounded.low - 1e-12 and one.high == 1
    # Two runs that differ in one query of 80.
    base = np.clip(values, 0, 1)[None] * 0.5
    other = base.copy()
    other[0, 0] += 0.1
    widths = []
    for statistic in (usual, beyond):
        change = measure_changes(base, other, [statistic], units, rows, choice)[0][0]
        widths.append(change.intervals[0].high - change.intervals[0].low)
        assert change.p[max(change.p, key=lambda t: change.p[t])] > 0.05
    assert widths[1] >= widths[0] - 1e-12


def test_a_sweep_has_curves_by_judge(data: Planted) -> None:
    options = {"judgments": data.files, "calibration": data.calibration}
    curves = karat.sweep(data.qrels, data.run, ["precision", "recall"], ks=[1, 5, 10], **options)
    assert [(c.metric, c.judged) for c in curves.curves] == [
        ("precision", None),
        ("recall", None),
        ("precision", "raw"),
        ("precision", "corrected"),
    ]
    by_judge = curves.result.runs[0].by_judge
    assert by_judge is not None
    assert curves.curves[2].values[-1] == pytest.approx(by_judge.raw["precision@10"].mean())
    assert curves.curves[3].label.endswith(", gold + judge, corrected")
    assert [c.get("judged") for c in curves.as_json()["curves"]] == [None, None, "raw", "corrected"]
