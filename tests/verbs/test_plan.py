"""What gates will say of more queries: chances that agree with judging real samples, and the work that is left."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from typer.testing import CliRunner

import karat
from karat.cli.app import app
from karat.errors import InputError, UsageError
from karat.gates.judge import Ruling
from karat.gates.language import parse_gate
from karat.gates.plans import WorkItem
from karat.gates.wording import advise
from karat.report.plan import legend
from karat.results.words import round_up

if TYPE_CHECKING:
    from pathlib import Path

RANKS = (1, 1, 2, 3, 5, 8, 9, 0)
"""Where the relevant doc of a query stands; 0: nowhere."""


def project(count: int, seed: int = 0, **fields: list[str]) -> dict[str, object]:
    """Gold with one relevant doc per query, and two runs that find it at random ranks."""
    rng = np.random.default_rng(seed)
    qrels = {f"q{i}": {"good": 1} for i in range(count)}

    def run() -> dict[str, list[str]]:
        places = rng.choice(RANKS, count)
        return {f"q{i}": ["good" if r == place else f"d{r}" for r in range(1, 11)] for i, place in enumerate(places)}

    queries = {f"q{i}": {"text": "x", **{name: values[i] for name, values in fields.items()}} for i in range(count)}
    return {"qrels": qrels, "runs": {"old": run(), "new": run()}, "queries": queries}


def result_of(count: int = 60, seed: int = 0, by: str | None = None, **fields: list[str]) -> karat.Result:
    parts = project(count, seed, **fields)
    return karat.evaluate(parts["qrels"], parts["runs"], "mrr", queries=parts["queries"] if fields else None, by=by)


def rates(gate: str, population: np.ndarray, base: np.ndarray | None, n: int, samples: int) -> tuple[float, float]:
    """How often karat.check ships and blocks samples of n queries drawn from a population."""
    rng, verdicts = np.random.default_rng(77), []
    for _ in range(samples):
        rows = rng.integers(0, len(population), n)
        runs = {"new": _lists(population[rows])} | ({} if base is None else {"old": _lists(base[rows])})
        gold = {f"q{i}": {"good": 1} for i in range(n)}
        result = karat.evaluate(gold, runs, "mrr")
        check = karat.check(result, gate, baseline=None if base is None else "old")
        verdicts.append(check.verdict)
    return verdicts.count("SHIP") / samples, verdicts.count("BLOCK") / samples


def _lists(values: np.ndarray) -> dict[str, list[str]]:
    places = [0 if v == 0 else round(1 / v) for v in values]
    return {f"q{i}": ["good" if r == p else f"d{r}" for r in range(1, 11)] for i, p in enumerate(places)}


@pytest.mark.usefixtures("no_search")
def test_chances_of_a_level_agree_with_checking_real_samples() -> None:
    result = result_of()
    values = result["new"].values["mrr"]
    gate = f"mrr >= {values.mean() - 0.1:.6f}"
    outlook = karat.plan(result, None, gate, true_value=float(values.mean()), sizes=(50,), candidate="new")
    ship, block = rates(gate, values, None, 50, 300)
    (chances,) = outlook.gates[0].truths[0].curve
    assert chances.ship == pytest.approx(ship, abs=0.09)  # three standard errors of 300 checks
    assert chances.block == pytest.approx(block, abs=0.02)
    assert chances.ship + chances.block + chances.inconclusive == pytest.approx(1)


@pytest.mark.usefixtures("no_search")
def test_chances_of_a_change_agree_with_checking_real_samples() -> None:
    result = result_of(seed=4)
    new, old = (result[name].values["mrr"] for name in ("new", "old"))
    delta = float((new - old).mean())
    gate = f"mrr no worse than baseline by {0.15 - min(delta, 0):.6f}"
    outlook = karat.plan(result, None, gate, true_value=delta, sizes=(50,), baseline="old")
    ship, _ = rates(gate, new, old, 50, 150)
    assert outlook.gates[0].truths[0].curve[0].ship == pytest.approx(ship, abs=0.13)


def test_at_the_gate_both_errors_stay_small_and_no_number_decides() -> None:
    outlook = karat.plan(result_of(), None, "mrr >= 0.45", truth=0.0, sizes=(50, 200), candidate="new")
    (truth,) = outlook.gates[0].truths
    assert all(c.ship < 0.06 and c.block < 0.06 for c in truth.curve)
    assert truth.needed is None and truth.verdict is None
    assert "no number of queries decides" in outlook.conclusion


def test_a_gate_at_the_mean_is_decided_by_chance_where_the_truth_is_at_it() -> None:
    outlook = karat.plan(result_of(), None, "mrr >= 0.45 at the mean", truth=0.0, sizes=(50, 200), candidate="new")
    (truth,) = outlook.gates[0].truths
    assert all(c.inconclusive == pytest.approx(0.0, abs=1e-9) and 0.3 < c.ship < 0.7 for c in truth.curve)
    assert outlook.conclusion.endswith("if the truth is at the gate, chance decides, however many queries there are")


def test_the_conclusion_names_the_run_where_there_are_several() -> None:
    result = result_of()
    gate = "mrr >= 0.45"
    for runs in ([run.name for run in result.runs], [result.runs[0].name]):
        outlook = karat.plan(result, None, gate, truth=0.1, sizes=(50,), candidate=runs)
        label = f"{gate} on {runs[0]}: if the truth" if len(runs) > 1 else f"{gate}: if the truth"
        assert outlook.conclusion.startswith(label)


def test_more_queries_and_a_better_truth_raise_the_chance_to_ship() -> None:
    result = result_of()
    near, far = (
        karat.plan(result, None, "mrr >= 0.45", truth=t, sizes=(50, 400), candidate="new").gates[0].truths[0]
        for t in (0.03, 0.1)
    )
    assert near.curve[0].ship < near.curve[1].ship < far.curve[1].ship
    assert far.needed is not None and near.needed is not None and far.needed < near.needed


def test_the_number_needed_is_where_the_chance_reaches_the_power_whatever_numbers_are_printed() -> None:
    result = result_of()
    by_sizes = [
        karat.plan(result, None, "mrr >= 0.45", truth=0.05, sizes=sizes, candidate="new").gates[0].truths[0]
        for sizes in ((25, 50), (25, 3000), (800,))
    ]
    (needed,) = {truth.needed for truth in by_sizes}
    assert needed is not None
    (at_it,) = karat.plan(result, None, "mrr >= 0.45", truth=0.05, sizes=(needed,), candidate="new").gates
    assert at_it.truths[0].curve[0].ship == pytest.approx(0.8, abs=0.02)


def test_a_number_beyond_all_simulated_ones_is_called_extrapolated() -> None:
    outlook = karat.plan(result_of(), None, "mrr >= 0.45", truth=0.01, sizes=(25,), candidate="new")
    (truth,) = outlook.gates[0].truths
    assert truth.needed is not None and 3200 < truth.needed < 32_000
    assert (
        f"about {round_up(truth.needed):,} queries (extrapolated: chances are simulated up to 3,200)"
        in outlook.conclusion
    )
    (document,) = outlook.as_json()["plan"]["gates"][0]["truths"]  # type: ignore[index, call-overload]
    assert (document["needed"], document["extrapolated"]) == (truth.needed, True)


@pytest.mark.usefixtures("no_search")
def test_what_no_sample_can_pass_has_no_chance_to_pass_and_truths_left_out_are_named() -> None:
    gold = {f"q{i}": {"good": 1} for i in range(100)}
    old = {f"q{i}": ["good"] for i in range(100)}
    new = {f"q{i}": ["good"] if i > 2 else ["x", "good"] for i in range(100)}
    result = karat.evaluate(gold, {"old": old, "new": new}, "mrr")
    outlook = karat.plan(result, None, "mrr better than baseline", sizes=(25, 50, 100), baseline="old")
    truths = outlook.gates[0].truths
    assert [(c.ship, c.inconclusive > 0.9) for t in truths for c in t.curve if c.n < 100] == [(0.0, True)] * 4
    assert all(c.ship == 0 for t in truths for c in t.curve)
    assert [t.label for t in truths] == ["0.009 worse than the gate", "as observed (Δ -0.0150)"]
    (note,) = (note for note in outlook.notes if "left out" in note)
    assert "truths left out: at the gate and 0.009 better than the gate" in note
    assert "reach from Δ -0.5000 to Δ 0" in note


@pytest.mark.usefixtures("no_search")
def test_conversations_that_are_alike_need_more_queries() -> None:
    result = result_of()
    plan = [
        karat.plan(result, None, "mrr >= 0.45", truth=0.1, sizes=(20, 80), icc=icc, turns=5, candidate="new").gates[0]
        for icc in (0.0, 0.5)
    ]
    assert [one.unit for one in plan] == ["conversation"] * 2
    assert plan[0].truths[0].curve[0].ship > plan[1].truths[0].curve[0].ship + 0.1


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize("data", [{}, {"conversation": [f"c{i // 4}" for i in range(60)]}])
def test_conversations_that_are_stated_are_made_of_single_queries(data: dict[str, list[str]]) -> None:
    plan = karat.plan(result_of(**data), None, "mrr >= 0.45", truth=0.1, sizes=(20,), icc=0.3, turns=5, candidate="new")
    assert (plan.gates[0].unit, plan.gates[0].units) == ("conversation", 60)
    first, second = legend(plan)
    assert "simulated from the values of 60 queries, moved" in first
    assert second == "conversations are made of 5 of these; the values of one conversation correlate by 0.3, as stated"


@pytest.mark.usefixtures("no_search")
def test_conversations_of_the_data_are_drawn_whole() -> None:
    result = result_of(conversation=[f"c{i // 4}" for i in range(60)])
    (gate,) = karat.plan(result, None, "mrr >= 0.45", truth=0.1, sizes=(3, 20), candidate="new").gates
    assert (gate.unit, gate.units, gate.turns) == ("conversation", 15, 4.0)
    assert gate.truths[0].curve[0].ship == 0  # fewer than five conversations are not judged
    assert gate.truths[0].curve[1].ship > 0.1


@pytest.mark.usefixtures("no_search")
def test_the_legend_says_how_many_queries_conversations_have_on_average() -> None:
    result = result_of(conversation=[f"c{i // 2 if i < 6 else i}" for i in range(60)])  # 60 / (3 + 54) = 1.05
    words = legend(karat.plan(result, None, "mrr >= 0.45", truth=0.1, sizes=(20,), candidate="new"))
    assert "conversations have 1.1 queries on average; the values of one conversation correlate by " in words[1]


@pytest.mark.usefixtures("no_search")
def test_every_segment_must_pass_and_n_is_of_each() -> None:
    result = result_of(by="language", language=["de", "pt"] * 30)
    one, every = (
        karat.plan(result, None, f"mrr >= 0.45 {where}", truth=0.1, sizes=(100,), candidate="new").gates[0]
        for where in ("where language = de", "for every language")
    )
    assert (one.units, every.units) == (30, 60)  # the values of both segments are drawn from
    assert every.segments == ("language = de", "language = pt")
    assert every.each == "queries in each segment"
    assert every.truths[0].curve[0].ship < one.truths[0].curve[0].ship


@pytest.mark.usefixtures("few_draws")
def test_the_work_list_is_a_range_over_what_the_truth_may_be() -> None:
    result = result_of()
    value = result["new"].values["mrr"].mean()
    outlook = karat.plan(result, None, f"mrr >= {value - 0.06:.4f}", truth=0.1, sizes=(25,), candidate="new")
    (item,) = outlook.work
    fewest, most = item.ruling.fewest, item.ruling.most
    assert fewest is not None and most is not None and 1 <= fewest < most
    assert item.statement == f"judge about {round_up(fewest):,} to {round_up(most):,} more queries"
    (row,) = karat.check(result, [str(item.gate)], candidate="new").rows
    assert row.judged == item.ruling and f"{item.statement.removeprefix('judge ')} would settle it" in advise(row)
    at_it = karat.plan(result, None, f"mrr >= {value - 0.005:.4f}", truth=0.1, sizes=(25,), candidate="new").work[0]
    assert at_it.ruling.most is None and "the truth may be at the gate" in at_it.statement


def test_a_metric_without_gold_asks_for_queries_to_run() -> None:
    ruling = Ruling("undecided", "the threshold is inside the interval", 12, 1, 360, needs_queries=True)
    latency = WorkItem(parse_gate("latency.p90 <= 60ms"), "new", None, ruling)
    assert latency.statement == "run about 1 to 360 more queries"
    recall = WorkItem(parse_gate("recall@5 >= 0.9"), "new", {"language": "de"}, ruling)
    assert recall.statement == "judge about 1 to 360 more queries where language = de"


@pytest.mark.usefixtures("few_draws")
def test_a_config_alone_lists_the_work_of_its_undecided_gates(tmp_path: Path) -> None:
    parts = project(60)
    (tmp_path / "qrels.json").write_text(json.dumps(parts["qrels"]))
    new = parts["runs"]["new"]  # type: ignore[index]
    (tmp_path / "new.run").write_text(
        "".join(f"{q} Q0 {d} {i} {1 / i} new\n" for q, docs in new.items() for i, d in enumerate(docs, 1))
    )
    config = tmp_path / "karat.yaml"
    config.write_text(
        "dataset: {qrels: qrels.json}\nruns: {new: new.run}\nmetrics: [mrr]\ngates: ['mrr >= 0.40', 'mrr >= 0.01']\n"
    )
    outlook = karat.plan(str(config))
    assert outlook.gates == ()
    assert [str(item.gate) for item in outlook.work] == ["mrr >= 0.4"]
    assert f"<td>{html.escape(outlook.work[0].statement)}</td>" in outlook._repr_html_()
    named = karat.plan(str(config), None, "mrr >= 0.40", truth=0.1, sizes=(25,))
    (gate,) = named.gates
    assert gate.segments == () and [str(item.gate) for item in named.work] == ["mrr >= 0.4"]
    assert len(karat.check(str(config), ["mrr >= 0.40"]).rows) == 2


@pytest.mark.usefixtures("few_draws")
def test_the_same_seed_gives_the_same_document_and_the_document_says_what_the_table_does() -> None:
    outlook, again = (karat.plan(result_of(), None, "mrr >= 0.45", sizes=(25, 50), candidate="new") for _ in range(2))
    assert outlook.as_json() == again.as_json()
    assert outlook.as_json()["kind"] == "plan"
    assert [t.label for t in outlook.gates[0].truths][1] == "at the gate"
    assert len(outlook.table().rows) == 2 * len(outlook.gates[0].truths)


@pytest.mark.usefixtures("few_draws")
def test_the_command_writes_tables_json_and_markdown(tmp_path: Path) -> None:
    saved = tmp_path / "result.json"
    result_of().save(str(saved))
    words = ("plan", str(saved), "-g", "mrr >= 0.45", "--candidate", "new", "--truth", "0.1", "--n", "25,100")
    shown = CliRunner().invoke(app, list(words))
    assert shown.exit_code == 0, shown.output
    assert "0.1 better than the gate" in shown.output and "SHIP with a chance of 80% needs" in shown.output
    written = CliRunner().invoke(
        app, [*words, "--json", str(tmp_path / "p.json"), "--markdown", str(tmp_path / "p.md")]
    )
    assert written.exit_code == 0
    assert json.loads((tmp_path / "p.json").read_text())["plan"]["gates"][0]["truths"][0]["curve"][1]["n"] == 100
    assert "| 100 |" in (tmp_path / "p.md").read_text()


@pytest.mark.usefixtures("few_draws")
def test_a_config_is_named_by_an_option_too_and_a_lacking_baseline_names_its_flag(tmp_path: Path) -> None:
    parts = project(60)
    for name, content in (("gold", parts["qrels"]), ("run", parts["runs"]["new"])):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    config = tmp_path / "ci.yaml"
    config.write_text("dataset: {qrels: gold.json}\nruns: {new: run.json}\ngates: ['mrr >= 0.45']\n")
    outputs = [CliRunner().invoke(app, ["plan", *place, "--n", "25"]) for place in ([str(config)], ["-c", str(config)])]
    assert outputs[0].exit_code == 0 and outputs[0].output == outputs[1].output
    both = CliRunner().invoke(app, ["plan", "other.yaml", "--config", str(config)])
    assert isinstance(both.exception, UsageError) and "leave out other.yaml" in str(both.exception)
    saved = str(tmp_path / "result.json")
    result_of().save(saved)
    lacking = CliRunner().invoke(app, ["plan", saved, "-g", "mrr no worse than baseline by 0.1"])
    assert "no baseline is named; set `baseline` (--baseline) to a run, or to a file" in str(lacking.exception)


def test_a_saved_result_that_is_missing_asks_for_no_config(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"result\.json: no such file; check the path$"):
        karat.plan(str(tmp_path / "result.json"), None, "mrr >= 0.45")
    with pytest.raises(InputError, match=r"karat\.yaml: no such file; write one with `karat init`"):
        karat.plan(str(tmp_path / "karat.yaml"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"truth": 0.1, "true_value": 0.5}, "state one"),
        ({"icc": 0.3}, "state both"),
        ({"icc": 1.5, "turns": 5}, "icc must be a number from 0 to 1"),
        ({"true_value": 1.5}, "cannot be simulated from these values, which reach from 0.1111 to 1.0000"),
        ({"sizes": ()}, "at least one number of queries"),
        ({"power": 1.0}, "power must be between 0 and 1"),
    ],
)
def test_wishes_that_contradict_each_other_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        karat.plan(result_of(20), None, "mrr >= 0.45", candidate="new", **changes)  # type: ignore[arg-type]


@pytest.mark.usefixtures("few_draws")
def test_two_runs_without_a_gate_ask_how_many_queries_show_which_is_better(tmp_path: Path) -> None:
    result = result_of()
    for run in result.runs:
        lines = [f"q{i} Q0 d{i} 1 {1.0 + i / 100} {run.name}" for i in range(40 if run.name == "new" else 30)]
        (tmp_path / f"{run.name}.run").write_text("\n".join(lines) + "\n")
    gold = {f"q{i}": {f"d{i}": 1} for i in range(40)}
    files = [str(tmp_path / f"{name}.run") for name in ("old", "new")]
    outlook = karat.plan(gold, files, sizes=(25, 50))
    assert [str(one.gate) for one in outlook.gates] == ["ndcg@10 better than baseline"]
    with pytest.raises(UsageError, match="name a gate to plan for"):
        karat.plan(gold, files[:1])


@pytest.mark.usefixtures("few_draws")
def test_a_gate_that_short_lists_leave_undecided_asks_for_no_queries(tmp_path: Path) -> None:
    gold = {f"q{i}": {f"d{i}": 1, f"e{i}": 1} for i in range(30)}
    run = {f"q{i}": [f"d{i}", f"e{i}" if i % 3 else "x"] for i in range(30)}
    result = karat.evaluate(gold, {"new": run}, ["recall@1000"])
    outlook = karat.plan(result, None, "recall@1000 >= 0.6", truth=0.1, sizes=(25,))
    (item,) = outlook.work
    assert item.ruling.more is None and item.ruling.fewest is None
    assert item.statement.startswith("more queries alone do not decide it: lists of new end at rank 2")


@pytest.mark.usefixtures("few_draws")
def test_gates_that_queries_do_not_decide_are_named_in_the_conclusion_of_a_config(tmp_path: Path) -> None:
    gold = {f"q{i}": {f"d{i}": 1, f"e{i}": 1} for i in range(30)}
    run = {f"q{i}": [f"d{i}" if i % 2 else "y", f"e{i}" if i % 3 else "x"] for i in range(30)}
    for name, content in (("gold", gold), ("new", run)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    config: dict[str, object] = {
        "dataset": {"qrels": str(tmp_path / "gold.json")},
        "runs": {"new": str(tmp_path / "new.json")},
        "gates": ["recall@1000 >= 0.6"],
    }
    alone = karat.plan(config)
    assert alone.conclusion.startswith("recall@1000 >= 0.6: more queries alone do not decide it: lists of new end at")
    both = karat.plan({**config, "gates": ["recall@1000 >= 0.6", "hit@1 >= 0.4", "hit@2 >= 0.1"]})
    assert [item.ruling.needs_queries for item in both.work] == [True, False]
    assert both.conclusion.startswith("hit@1 >= 0.4: judge ")
    assert both.conclusion.endswith("; 1 more gate is undecided; more queries alone do not decide recall@1000 >= 0.6")
    three = karat.plan({**config, "gates": ["recall@1000 >= 0.6", "hit@1 >= 0.4", "hit@1 >= 0.45"]})
    assert three.conclusion.endswith(
        "; 2 more gates are undecided; more queries alone do not decide recall@1000 >= 0.6"
    )
    assert karat.plan({**config, "gates": ["hit@2 >= 0.1"]}).conclusion == (
        "every gate is decided by the queries at hand"
    )
    with pytest.raises(UsageError, match="name a gate to plan for"):
        karat.plan(config, icc=0.3, turns=5)


@pytest.mark.usefixtures("few_draws")
def test_the_conclusion_counts_segments_of_its_gate_and_other_gates() -> None:
    result = result_of(90, by="language", language=["de", "pt", "es"] * 30)
    outlook = karat.plan(result, None, "mrr >= 0.45 for every language", truth=0.1, sizes=(25,), candidate="new")
    assert len(outlook.work) == 3
    assert replace(outlook, gates=()).conclusion.endswith("; 2 more segments of it are undecided")


@pytest.mark.usefixtures("few_draws")
def test_a_gate_that_one_segment_fails_asks_for_no_work_in_others() -> None:
    gold = {f"q{i}": {"d": 1} for i in range(120)}
    hits = {"en": 30, "de": 65, "es": 100}
    languages = {q: {"language": list(hits)[i % 3]} for i, q in enumerate(gold)}
    run = {q: ["d" if i // 3 * 100 < 40 * hits[languages[q]["language"]] else "x"] for i, q in enumerate(gold)}
    result = karat.evaluate(gold, {"new": run}, "hit@1", queries=languages, by="language")
    gate = "hit@1 >= 0.7 for every language"
    assert {row.where: row.outcome for row in karat.check(result, gate).rows} == {
        "language = en": "fail",
        "language = de": "undecided",
        "language = es": "pass",
    }
    outlook = karat.plan(result, None, gate, truth=0.1, sizes=(25,))
    assert outlook.work == ()
    assert f"{gate} already fails on new where language = en, so it asks for no more queries" in outlook.notes


@pytest.mark.usefixtures("few_draws")
def test_work_on_few_queries_promises_no_decision(tmp_path: Path) -> None:
    """Four of a kind: six more make ten, the fewest that are judged alone, and ten may not decide."""
    gold = {f"q{i}": {"d": 1} for i in range(24)}
    run = {q: ["d"] if i % 2 else ["x", "d"] for i, q in enumerate(gold)}
    kinds = {q: {"kind": "few" if i < 4 else "many"} for i, q in enumerate(gold)}
    result = karat.evaluate(gold, run, "mrr", queries=kinds, by="kind")
    (item,) = [
        item for item in karat.plan(result, None, "mrr >= 0.1 for every kind").work if item.segment == {"kind": "few"}
    ]
    assert item.statement == (
        "judge about 6 more queries where kind = few, the fewest that are judged alone; more may be needed"
    )
