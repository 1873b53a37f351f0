"""How far a collection can be trusted: coefficients, halves, pairs separated, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

import karat
from command import run_karat
from places import DL19, SCHEMAS

RESULT = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "result.schema.json").read_text()))
needs_dl19 = pytest.mark.skipif(not DL19.is_dir(), reason=f"needs the TREC DL 2019 data in {DL19}")
SYSTEMS = ("bm25", "bm25-rm3", "splade", "tas-b", "ada2")


@pytest.fixture(autouse=True)
def few_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand pairs of orders say how alike they are; no test looks closer."""
    monkeypatch.setattr("karat.stats.rank_correlation.TOTAL_WORK", 1)


def collection(n: int = 30, seed: int = 1, lift: float = 0.4) -> tuple[dict[str, Any], dict[str, Any]]:
    """Gold with one relevant doc per query, and three systems that rank it higher and higher."""
    rng = np.random.default_rng(seed)
    docs = [f"d{i}" for i in range(8)]
    gold = {f"q{i:03}": {"d0": 1} for i in range(n)}
    runs: dict[str, Any] = {}
    for level, name in enumerate(("poor", "fair", "good")):
        runs[name] = {}
        for q in gold:
            others = list(rng.permutation(docs[1:]))
            place = min(7, int(rng.geometric(0.15 + lift / 2 * level)) - 1)
            runs[name][q] = [*others[:place], "d0", *others[place:]]
    return gold, runs


def test_coefficients_are_those_of_the_table_of_values() -> None:
    gold, runs = collection()
    found = karat.reliability(gold, runs, "mrr")["mrr"]
    values = np.array([list(run.per_query("mrr").values()) for run in found_runs(gold, runs)]).T
    n, systems = values.shape
    mean = values.mean()
    by_system = n * ((values.mean(axis=0) - mean) ** 2).sum() / (systems - 1)
    rest = values - values.mean(axis=0) - values.mean(axis=1)[:, None] + mean
    error = (rest**2).sum() / ((n - 1) * (systems - 1))
    assert found.relative.estimate == pytest.approx(1 - error / by_system)
    assert found.order == ("good", "fair", "poor")
    assert (found.queries, found.units, found.left_out) == (30, 30, 0)
    assert [point.n for point in found.curve] == [10, 25, 30, 50, 100, 200, 500, 1000]
    assert found.split_half.n == 15


def found_runs(gold: Any, runs: Any) -> tuple[karat.RunResult, ...]:
    return karat.evaluate(gold, runs, "mrr").runs


def test_discriminative_power_is_the_share_of_pairs_that_all_pairs_call_significant() -> None:
    gold, runs = collection()
    found = karat.reliability(gold, runs, "mrr", draws=100_000)["mrr"].power
    pairs = karat.compare(gold, runs, "mrr", all_pairs=True).pairs["mrr"].p
    assert {(p.first, p.second): p.p for p in found.pairs} == {
        (a, b): pairs[a][b] for a, b in (("good", "poor"), ("good", "fair"), ("fair", "poor"))
    }
    assert found.significant == sum(p.p < 0.05 for p in found.pairs)
    assert [p.p for p in found.pairs] == sorted(p.p for p in found.pairs)


def test_the_conclusion_says_what_the_interval_of_the_primary_metric_says() -> None:
    gold, runs = collection(60)
    found = karat.reliability(gold, runs, "mrr,ndcg@10")
    assert found.primary.metric == "ndcg@10" and found.primary.stability == "stable"
    assert found.conclusion.startswith("With 60 queries the order of these 3 systems is stable for ndcg@10 (Eρ² 0.9")
    gold, runs = collection(8, lift=0.1)
    unsure = karat.reliability(gold, runs, "mrr")
    assert unsure.primary.stability == "open"
    assert "With 8 queries it is open whether the order of these 3 systems is stable for mrr" in unsure.conclusion


def test_systems_alike_are_not_stable_and_more_queries_do_not_help() -> None:
    rng = np.random.default_rng(0)
    gold = {f"q{i}": {"d0": 1} for i in range(400)}
    runs = {s: {q: list(rng.permutation(["d0", "d1", "d2", "d3"])) for q in gold} for s in ("a", "b", "c")}
    found = karat.reliability(gold, runs, "mrr", resamples=200)["mrr"]
    assert found.relative.estimate < 0.8
    assert found.power.significant == 0
    assert found.statement.endswith(("if the systems differ at all", "as the systems do not differ beyond chance"))
    same = karat.reliability(gold, {"a": runs["a"], "b": runs["a"]}, "mrr", resamples=200)
    assert same["mrr"].stability == "undefined"
    assert same.conclusion == "These 2 systems have the same values of mrr, so they cannot be ranked"
    assert same.as_json()["reliability"]["metrics"][0]["e_rho2"]["value"] is None


def test_which_metric_separates_best_names_ties() -> None:
    gold, runs = collection()
    found = karat.reliability(gold, runs, "mrr,rr,precision@8,hit@1", resamples=200)
    assert [m.metric for m in found.ranking[-1]] == ["precision@8"]  # every system returns the one relevant doc
    assert found.ranking[-1][0].power.significant == 0
    counts = [group[0].power.significant for group in found.ranking]
    assert counts == sorted(counts, reverse=True)
    alone = karat.reliability(gold, runs, "precision@8", resamples=200)
    assert alone.best_statement == "no metric separates any of 3 pairs of systems"


def test_a_metric_in_which_less_is_better_orders_the_other_way_and_quantiles_are_left_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    gold = {f"q{i}": {"d": 1} for i in range(12)}
    for name, base in (("slow", 20), ("fast", 5)):
        rows = ({"query_id": q, "topk": [{"chunk_id": "d"}], "latency_ms": {"all": base + rng.random()}} for q in gold)
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    logs = [tmp_path / "slow.jsonl", tmp_path / "fast.jsonl"]
    found = karat.reliability(gold, logs, "latency.mean,latency.p90", resamples=200)
    assert [m.metric for m in found.metrics] == ["latency.mean"] and found.primary.order == ("fast", "slow")
    assert "latency.p90 left out: not a mean over queries" in found.notes
    with pytest.raises(karat.InputError, match="quantiles are not means over queries"):
        karat.reliability(gold, logs, "latency.p90")


def test_conversations_are_the_units() -> None:
    """Every query asked twice in one conversation is as much evidence as asked once."""
    gold, runs = collection(20)
    double = {f"{q}{twin}": docs for q, docs in gold.items() for twin in "ab"}
    twice = {s: {f"{q}{twin}": docs for q, docs in run.items() for twin in "ab"} for s, run in runs.items()}
    queries = {q: {"conversation": q[:-1]} for q in double}
    once, both = karat.reliability(gold, runs, "mrr"), karat.reliability(double, twice, "mrr", queries=queries)
    one, other = once["mrr"], both["mrr"]
    assert (other.units, other.queries, other.unit_word) == (20, 40, "conversation")
    assert other.relative.estimate == pytest.approx(one.relative.estimate)
    assert (other.relative.low, other.relative.high) == pytest.approx((one.relative.low, one.relative.high))
    assert other.split_half == one.split_half
    assert "With 20 conversations" in both.conclusion
    assert "what is counted and drawn are conversations: 40 queries are in 20" in both.notes
    unaware = karat.reliability(double, twice, "mrr")["mrr"]
    assert unaware.relative.estimate > one.relative.estimate  # twice the evidence, wrongly


def test_weights_count_and_their_scale_does_not() -> None:
    gold, runs = collection(20)
    weights = {q: {"weight": 1 + i % 3} for i, q in enumerate(gold)}
    tenfold = {q: {"weight": 10 * w["weight"]} for q, w in weights.items()}
    plain = karat.reliability(gold, runs, "mrr")["mrr"]
    weighted = karat.reliability(gold, runs, "mrr", queries=weights)["mrr"]
    scaled = karat.reliability(gold, runs, "mrr", queries=tenfold)["mrr"]
    assert weighted.relative.estimate != pytest.approx(plain.relative.estimate, abs=1e-6)
    assert scaled.relative.estimate == pytest.approx(weighted.relative.estimate)
    assert scaled.split_half.tau.estimate == pytest.approx(weighted.split_half.tau.estimate)


def test_queries_without_a_value_for_every_system_are_left_out_and_counted() -> None:
    gold, runs = collection(12)
    del runs["fair"]["q000"], runs["good"]["q001"]
    found = karat.reliability(gold, runs, "mrr", missing="skip")
    assert (found["mrr"].queries, found["mrr"].left_out) == (10, 2)
    assert "mrr: 2 queries left out, for which not every system has a value" in found.notes


def test_too_few_systems_or_queries_are_errors_that_say_what_to_do() -> None:
    gold, runs = collection(12)
    with pytest.raises(karat.UsageError, match="at least 2 systems to put in order, found 1 run; name more"):
        karat.reliability(gold, {"good": runs["good"]}, "mrr")
    few = {q: gold[q] for q in list(gold)[:4]}
    with pytest.raises(karat.InputError, match=r"at least 5 queries .* found 4 \(mrr\); judge more"):
        karat.reliability(few, runs, "mrr")
    conversations = {q: {"conversation": str(i % 3)} for i, q in enumerate(gold)}
    with pytest.raises(karat.InputError, match=r"at least 5 conversations .* found 3"):
        karat.reliability(gold, runs, "mrr", queries=conversations)


def test_a_saved_result_gives_the_same_figures(tmp_path: Path) -> None:
    gold, runs = collection()
    result = karat.evaluate(gold, runs, "mrr,ndcg@10", seed=3)
    expected = karat.reliability(gold, runs, "mrr,ndcg@10", seed=3).as_json()
    result.save(str(tmp_path / "r.json"))
    assert karat.reliability(result).as_json() == expected
    assert karat.reliability(str(tmp_path / "r.json")).as_json() == expected
    others = karat.reliability(result, metrics="hit@3")  # measured from its rankings
    assert others["hit@3"].queries == 30
    with pytest.raises(karat.UsageError, match="a saved result goes alone"):
        karat.reliability(result, seed=4)


def test_the_document_follows_its_schema_and_repeats() -> None:
    gold, runs = collection()
    found = karat.reliability(gold, runs, "mrr,recall@1")
    document = json.loads(json.dumps(found.as_json(), allow_nan=False))
    RESULT.validate(document)
    assert document == karat.reliability(gold, runs, "mrr,recall@1").as_json()
    assert document != karat.reliability(gold, runs, "mrr,recall@1", seed=5).as_json()
    assert document["reliability"]["metrics"][0]["e_rho2"]["needed"]["target"] == 0.95


def test_rows_become_frames_and_a_picture() -> None:
    gold, runs = collection(12)
    found = karat.reliability(gold, runs, "mrr,recall@1", resamples=200)
    frame = found.to_pandas()
    assert list(frame["n"][:3]) == [10, 12, 25] and set(frame["metric"]) == {"mrr", "recall@1"}
    assert len(found.to_polars()) == len(frame)
    assert [a.get_title() for a in found.plot().axes] == ["mrr (12 queries)", "recall@1 (12 queries)"]
    assert "Eρ²" in found._repr_html_()
    assert repr(found).startswith("Reliability(mrr Eρ² 0.")


def test_without_intervals_there_are_none() -> None:
    gold, runs = collection(12)
    found = karat.reliability(gold, runs, "mrr", method="none", resamples=200)
    assert found["mrr"].relative.method == "none"
    assert found.as_json()["reliability"]["metrics"][0]["e_rho2"]["ci"] is None
    assert found["mrr"].stability in ("stable", "not stable")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    gold, runs = collection()
    (tmp_path / "gold").write_text("".join(f"{q} 0 d0 1\n" for q in gold))
    for name, run in runs.items():
        rows = [f"{q} Q0 {d} {i} {10 - i} t\n" for q, docs in run.items() for i, d in enumerate(docs, start=1)]
        (tmp_path / f"{name}.run").write_text("".join(rows))
    return tmp_path


def test_the_command_says_the_conclusion_first(files: Path) -> None:
    done = run_karat("reliability", "gold", "poor.run", "fair.run", "good.run", "-m", "mrr,ndcg@10")
    assert done.stdout.startswith(
        "With 30 queries it is open whether the order of these 3 systems is stable for ndcg@10"
    )
    assert "best to worst by ndcg@10: good, fair, poor" in done.stdout
    assert "split-half τ" in done.stdout and "30 (now)" in done.stdout
    done = run_karat("reliability", "gold", "poor.run", "good.run", "-m", "mrr", "-v")
    assert "mrr: every pair, the better system first" in done.stdout


def test_the_command_writes_json_markdown_and_pictures(files: Path) -> None:
    options = ("-m", "mrr", "--json", "-", "--markdown", "r.md", "--plot", "r.svg")
    done = run_karat("reliability", "gold", "poor.run", "fair.run", "good.run", *options)
    assert json.loads(done.stdout)["kind"] == "reliability"
    page = (files / "r.md").read_text("utf-8")
    assert page.startswith("## With 30 queries it is open whether the order of these 3 systems is stable for mrr")
    assert "| mrr | 30 |" in page
    assert (files / "r.svg").read_bytes().startswith(b"<?xml")


def test_the_command_takes_a_saved_result(files: Path) -> None:
    runs = ("poor.run", "fair.run", "good.run", "-m", "mrr")
    assert run_karat("evaluate", "gold", *runs, "--save", "r.json", "-q").returncode == 0
    saved = run_karat("reliability", "r.json", "--json", "-")
    assert saved.stdout == run_karat("reliability", "gold", *runs, "--json", "-").stdout
    done = run_karat("reliability", "gold")
    assert done.returncode == 2 and "name the gold and at least two runs" in done.stderr


@needs_dl19
def test_dl19_agrees_with_an_independent_anova() -> None:
    import pandas as pd

    runs = {name: DL19 / f"{name}.run" for name in SYSTEMS}
    found = karat.reliability(DL19 / "qrels.txt", runs, "ndcg@10,map,mrr", resamples=200)
    for metric in found.metrics:
        rows = [(r.name, q, v) for r in found.result.runs for q, v in r.per_query(metric.metric).items()]
        frame = pd.DataFrame(rows, columns=["system", "query", "value"])
        anova = anova_lm(ols("value ~ C(query) + C(system)", frame).fit())
        square = anova["sum_sq"] / anova["df"]
        parts = metric.study.components
        assert parts.interaction == pytest.approx(square["Residual"])
        assert parts.system == pytest.approx((square["C(system)"] - square["Residual"]) / 43)
        assert parts.query == pytest.approx((square["C(query)"] - square["Residual"]) / 5)
        assert metric.relative.estimate == pytest.approx(1 - 1 / anova["F"]["C(system)"])
    assert found.primary.order[0] == "splade" and found.primary.power.text == "6 of 10"
    assert found["ndcg@10"].relative.estimate > found["map"].relative.estimate > found["mrr"].relative.estimate
