"""The figure that a gate looks at: of the gold alone, of gold + judge, or corrected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import karat
from command import run_karat
from karat.errors import InputError, UsageError
from karat.gates.judge import JudgedGate
from karat.gates.language import parse_gate
from karat.results.result import Result
from planted_judge import Planted


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return Planted(tmp_path_factory.mktemp("planted"), 200)


@pytest.fixture(scope="module")
def result(data: Planted) -> Result:
    metrics = ["precision@10", "ndcg@10", "recall@10"]
    runs = {"sys": data.run, "other": {q: docs[::-1] for q, docs in data.run.items()}}
    return karat.evaluate(data.qrels, runs, metrics, judgments=data.files, calibration=data.calibration)


@pytest.mark.parametrize("basis", ["none", "raw", "corrected"])
def test_texts_and_mappings_state_the_figure(basis: str) -> None:
    gate = parse_gate(f"precision@10 >= 0.4 judged {basis}")
    assert gate.judged == basis and str(gate) == f"precision@10 >= 0.4 judged {basis}"
    assert parse_gate(str(gate)) == gate
    assert parse_gate({"metric": "precision@10", "min": 0.4, "judged": basis}) == gate
    assert parse_gate({"gate": "precision@10 >= 0.4", "judged": basis}) == gate


def test_other_words_are_refused_and_a_field_may_be_called_judged() -> None:
    with pytest.raises(UsageError, match='judged must be one of none, raw, corrected, found "yes"'):
        parse_gate({"gate": "precision@10 >= 0.4", "judged": "yes"})
    assert parse_gate("precision@10 >= 0.4 for every judged").every == ("judged",)


def _row(result: Result, gate: str) -> JudgedGate:
    (row,) = karat.check(result, [gate], candidate="sys").rows
    return row


def test_each_figure_decides_by_its_own_interval(result: Result) -> None:
    one = result["sys"].by_judge
    assert one is not None
    gold, raw, corrected = (_row(result, f"precision@10 >= 0.2 judged {b}") for b in ("none", "raw", "corrected"))
    assert gold.found.estimate == result["sys"].mean["precision@10"]
    assert raw.found.estimate == pytest.approx(one.raw["precision@10"].mean())
    interval = one.corrected["precision@10"].interval
    assert (corrected.found.estimate, corrected.found.low, corrected.found.high) == pytest.approx(
        (interval.estimate, interval.low, interval.high)
    )
    assert (gold.outcome, raw.outcome) == ("fail", "pass")
    assert [row.document().judged for row in (gold, raw, corrected)] == ["none", "raw", "corrected"]


def test_corrected_is_the_default_where_it_can_be_had(result: Result) -> None:
    assert _row(result, "precision@10 >= 0.2").basis == "corrected"
    assert _row(result, "ndcg@10 >= 0.2").basis == "none"  # labels of single pairs would leave it biased
    assert _row(result, "recall@10 >= 0.2").basis == "none"
    assert _row(result, "precision@10 no worse than other by 0.1").basis == "corrected"
    assert _row(result, "ndcg@10 no worse than other by 0.1").basis == "none"
    assert (
        "is 0.104 [0.083, 0.134] (gold only); "
        in karat.check(result, ["precision@10 >= 0.2 judged none"], candidate="sys").why
    )


def test_without_a_calibration_the_gold_decides(data: Planted) -> None:
    result = karat.evaluate(data.qrels, {"sys": data.run}, "precision@10", judgments=data.files)
    assert _row(result, "precision@10 >= 0.05").basis == "none"
    plain = karat.evaluate(data.qrels, {"sys": data.run}, "precision@10")
    assert _row(plain, "precision@10 >= 0.05").basis is None


def test_a_gate_above_what_the_gold_allows_may_pass_by_a_judge(result: Result) -> None:
    with pytest.raises(InputError, match="can never pass"):
        _row(result, "precision@10 >= 0.31 judged none")
    assert _row(result, "precision@10 >= 0.31 judged raw").outcome == "pass"


def test_differences_of_gold_and_judge_are_judged(result: Result) -> None:
    row = _row(result, "precision@10 no worse than other by 0.5 judged raw")
    one, other = result["sys"].by_judge, result["other"].by_judge
    assert one is not None and other is not None
    change = one.raw["precision@10"].mean() - other.raw["precision@10"].mean()
    assert row.found.estimate == pytest.approx(change) and row.outcome == "pass"


def test_a_gate_and_a_comparison_have_the_same_corrected_difference(data: Planted) -> None:
    runs = {"other": {q: docs[::-1] for q, docs in data.run.items()}, "sys": data.run}
    options = {"judgments": data.files, "calibration": data.calibration}
    comparison = karat.compare(data.qrels, runs, ["precision@10", "recall@10"], **options)
    (row,) = comparison.by_judge["corrected"]
    gate = _row(comparison.result, "precision@10 no worse than other by 0.5")
    assert gate.basis == "corrected" and gate.outcome == "pass"
    assert (gate.found.estimate, gate.found.low, gate.found.high) == pytest.approx(
        (row.delta, row.difference.low, row.difference.high)
    )


def test_a_baseline_of_other_judgments_is_compared_by_the_gold_alone(data: Planted, result: Result) -> None:
    plain = karat.evaluate(data.qrels, {"sys": data.run}, "precision@10")
    raw = karat.evaluate(data.qrels, {"sys": data.run}, "precision@10", judgments=data.files)  # without labels
    for baseline in (plain, raw):
        (row,) = karat.check(result, ["precision@10 no worse than baseline"], candidate="other", baseline=baseline).rows
        assert row.basis == "none"
    for basis in ("raw", "corrected"):
        gate = f"precision@10 no worse than baseline judged {basis}"
        with pytest.raises(InputError, match=r"was not judged.*evaluate both runs together"):
            karat.check(result, [gate], candidate="other", baseline=plain)
        with pytest.raises(InputError, match="rest on different judgments or labels"):
            karat.check(result, [gate], candidate="other", baseline=raw)


@pytest.mark.parametrize(
    ("gate", "reason"),
    [
        ("ndcg@10 >= 0.2 judged corrected", "labels of single pairs would leave it biased; label whole queries"),
        ("recall@10 >= 0.2 judged raw", "judged grades do not feed recall@10"),
        ("ndcg@10 no worse than other judged corrected", "labels of single pairs would leave it biased"),
    ],
)
def test_figures_that_there_are_not_are_refused(result: Result, gate: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        _row(result, gate)


def test_gates_by_a_judge_need_judgments(data: Planted) -> None:
    plain = karat.evaluate(data.qrels, {"sys": data.run}, "precision@10")
    with pytest.raises(InputError, match="the result holds no judgments"):
        _row(plain, "precision@10 >= 0.05 judged raw")


def test_check_says_which_figure_decides(data: Planted, tmp_path: Path) -> None:
    folder = Path(data.calibration).parent
    data.write_inputs()
    config = "dataset: {qrels: qrels.txt}\nruns: {sys: run.json}\n"
    config += "judgments: [judged.jsonl, labels.jsonl]\ncalibration: calibration.json\n"
    config += "gates:\n- precision@10 >= 0.15\n- {gate: precision@10 >= 0.15, judged: raw}\n- recall@10 >= 0.1\n"
    (folder / "karat.yaml").write_text(config)
    out = run_karat(
        "check", str(folder / "karat.yaml"), "--json", str(tmp_path / "c.json"), "--markdown", str(tmp_path / "c.md")
    )
    assert out.returncode == 0, out.stderr
    gates = json.loads((tmp_path / "c.json").read_text())["gates"]
    assert [gate["judged"] for gate in gates] == ["corrected", "raw", "none"]
    gate_lines = [line.strip() for line in out.stdout.splitlines()]
    assert {"gold + judge, corrected", "gold + judge", "gold only"} <= set(gate_lines)
    page = (tmp_path / "c.md").read_text()
    assert "`precision@10 >= 0.15` (gold + judge, corrected)" in page
    assert "**sys with the judge's grades**" in page and "sys with the judge's grades" in out.stdout


@pytest.mark.usefixtures("few_draws", "no_search")
def test_a_plan_is_about_the_figure_of_the_gate(result: Result) -> None:
    plan = karat.plan(result, gates=["precision@10 >= 0.2 judged corrected"], candidate="sys")
    one = result["sys"].by_judge
    assert one is not None and len(plan.gates) == 1
    estimate = one.corrected["precision@10"].interval.estimate
    assert any(truth.value == pytest.approx(estimate) for truth in plan.gates[0].truths)


def test_frames_say_whose_grades_a_figure_rests_on(data: Planted, result: Result) -> None:
    check = karat.check(result, ["precision@10 no worse than baseline by 0.02"], baseline="other").to_pandas()
    assert check["judged"].tolist() == ["corrected"]
    lists = {"other": {q: docs[::-1] for q, docs in data.run.items()}, "sys": data.run}
    compared = karat.compare(
        data.qrels, lists, ["precision@10", "recall@10"], judgments=data.files, calibration=data.calibration
    )
    frame = compared.to_pandas()
    assert frame.loc[frame["metric"] == "precision@10", "judged"].tolist() == ["none", "raw", "corrected"]
    assert frame.loc[frame["metric"] == "recall@10", "judged"].tolist() == ["none"]
    by_gold = frame.loc[(frame["metric"] == "precision@10") & (frame["judged"] == "none"), "delta"].item()
    assert by_gold == pytest.approx(result["sys"].mean["precision@10"] - result["other"].mean["precision@10"])
    assert "precision@10: corrected" in compared._repr_html_()
    assert "judged" not in karat.compare(data.qrels, lists, ["precision@10"]).to_pandas().columns
