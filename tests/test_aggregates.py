"""One rule for every aggregate: what evaluate, compare, gates, segments and reports say of a metric is one figure.

The names come from the registry, so that a new metric is tested as soon as it is declared.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import karat
from karat.report import junit, latex, markdown
from karat.report.html.sections import page_of
from karat.report.html.source import source_from
from karat.report.terminal import compare as compare_view
from karat.report.view import view_of
from places import DL19
from saved_documents import read_document, saved_document

QUERIES = 40
STATISTICS = ("latency.p50", "latency.p90", "latency.p99", "latency.mean", "latency.retrieve.p50", "cost.tokens.sum")


def name_of(metric: karat.Metric) -> str:
    """One name of a metric, as people write it."""
    return metric.example or metric.name + {"none": "", "recall": "@0.5"}.get(metric.cutoff, "@5")


NAMES = list(dict.fromkeys([*map(name_of, karat.all_metrics()), *STATISTICS, "alpha_ndcg(kind=subtopic)@5"]))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Gold by subtopic, two run logs with all that metrics need, and options with queries, docs and embeddings."""
    folder = tmp_path_factory.mktemp("logs")
    rng = np.random.default_rng(5)
    docs = [f"d{i}" for i in range(30)]
    ids = [f"q{i:02}" for i in range(QUERIES)]
    gold = folder / "gold.jsonl"
    with gold.open("w") as out:
        for q in ids:
            for doc in rng.choice(docs, 6, replace=False):
                row = {
                    "query_id": q,
                    "doc_id": str(doc),
                    "subtopic": str(rng.integers(3)),
                    "grade": int(rng.integers(4)),
                }
                out.write(json.dumps(row) + "\n")
    logs = {}
    for name, speed in (("a", 1.0), ("b", 1.3)):
        logs[name] = str(folder / f"{name}.jsonl")
        with open(logs[name], "w") as out:
            for q in [*ids, *(f"n{i}" for i in range(9))]:
                top = [
                    {
                        "chunk_id": str(d),
                        "score": float(9 - i) * rng.random(),
                        "doc_version": f"2024-0{rng.integers(1, 9)}-01",
                    }
                    for i, d in enumerate(rng.choice(docs, 8, replace=False))
                ]
                retrieve, rerank = (speed * rng.gamma(4, 10, 2)).round(3).tolist()
                fields = {
                    "latency_ms": {"retrieve": retrieve, "rerank": rerank},
                    "cost": {"tokens": int(speed * rng.integers(100, 900))},
                    "route": str(rng.choice(["web", "wiki"])),
                    "retrieved": bool(rng.random() > 0.3),
                }
                out.write(json.dumps({"query_id": q, "topk": top, **fields}) + "\n")
    table = {
        q: {
            "text": q,
            "as_of": "2024-05-01",
            "language": "de" if i % 3 else "en",
            "weight": 1 + i % 4,
            "conversation": f"c{i // 2}",
            "expected_source": "web" if i % 2 else "wiki",
            "needs_retrieval": i % 4 > 0,
        }
        for i, q in enumerate(ids)
    }
    table |= {f"n{i}": {"text": "?", "no_answer": True, "language": "en", "weight": 2} for i in range(9)}
    texts = {d: " ".join(rng.choice(["tea", "milk", "cup", "pot", "leaf"], 12)) for d in docs}
    vectors = {d: rng.normal(size=4).tolist() for d in docs}
    terms = "".join(f"[Term]\nid: d{i}\nname: {i}\n" + f"is_a: d{(i - 1) // 2}\n" * (i > 0) + "\n" for i in range(30))
    (folder / "terms.obo").write_text(f"format-version: 1.2\n\n{terms}")
    more = {"embeddings": vectors, "ontology": str(folder / "terms.obo"), "cache": False}
    return str(gold), logs, {"queries": table, "docs": texts, **more}


@pytest.fixture(scope="module")
def result(project: tuple[str, dict[str, str], dict[str, Any]]) -> karat.Result:
    gold, logs, options = project
    return karat.evaluate(gold, logs, NAMES, by="language", resamples=200, **options)


@pytest.fixture(scope="module")
def check(result: karat.Result) -> karat.Check:
    gated = [m for m in NAMES if karat.parse(m).metric.higher_is_better is not None]
    gates = [f"{m} no worse than a" for m in gated] + [f"{m} no worse than a for every language" for m in gated]
    return karat.check(result, gates, baseline="a")


def change(metric: str, before: float, after: float) -> float:
    """What two figures differ by: geometric means are compared as a ratio."""
    return after / before if karat.parse(metric).aggregate == "geometric mean" else after - before


@pytest.mark.parametrize("metric", NAMES)
def test_evaluate_compare_and_gates_agree_on_every_metric(
    metric: str, result: karat.Result, check: karat.Check
) -> None:
    name = karat.parse(metric).name
    defined = [~np.isnan(run.values[name]) for run in result]
    places: list[tuple[dict[str, str] | None, Any, Any]] = [(None, result["a"].intervals, result["b"].intervals)]
    places += [
        (dict(x.by), x.metrics, y.metrics) for x, y in zip(result["a"].segments, result["b"].segments, strict=True)
    ]
    for segment, before, after in places:
        (row,) = (d for d in check.comparisons if d.metric == name and d.segment == segment)
        if (defined[0] == defined[1]).all():
            assert row.mean_baseline == pytest.approx(before[name].estimate, rel=1e-12, abs=1e-12, nan_ok=True)
            assert row.mean_candidate == pytest.approx(after[name].estimate, rel=1e-12, abs=1e-12, nan_ok=True)
        else:  # undefined by what a run returns, or skips: compared where both have a value
            if segment is None:
                both = defined[0] & defined[1]
                weights = result["a"].sampling.units(result["a"].query_ids).weight[both]
                means = [np.average(result[run].values[name][both], weights=weights) for run in ("a", "b")]
                assert (row.mean_baseline, row.mean_candidate) == pytest.approx(means, rel=1e-12)
        delta = change(name, row.mean_baseline, row.mean_candidate)
        assert row.delta == pytest.approx(delta, rel=1e-9, abs=1e-12, nan_ok=True)
        judged = [g for g in check.gates if g.gate.metric == name and g.segment == segment]
        if karat.parse(name).metric.higher_is_better is not None:
            assert [g.found.estimate for g in judged] == pytest.approx([row.delta], nan_ok=True)
            assert (judged[0].found.low, judged[0].found.high) == pytest.approx(
                (row.difference.low, row.difference.high), nan_ok=True
            )
        low, high = karat.parse(name).metric.bounds
        if high is not None and karat.parse(name).aggregate == "mean" and row.difference.low == row.difference.low:
            assert low - high <= row.difference.low <= row.difference.high <= high - low
    assert result["b"].mean[name] == pytest.approx(result["b"].intervals[name].estimate, rel=1e-12, nan_ok=True)


# --- geometric means: a ratio everywhere --------------------------------------------------------------


@pytest.fixture(scope="module")
def collapsed() -> karat.Result:
    """The candidate puts more first, and finds nothing at all for every sixth query: map rises, gm_map collapses."""
    rng = np.random.default_rng(3)
    gold = {f"q{i:02}": {f"d{i}": 1} for i in range(60)}

    def ranked(i: int, rank: int) -> list[str]:
        return [*(f"x{j}" for j in range(rank - 1)), f"d{i}"]

    old = {q: ranked(i, int(rng.integers(2, 5))) for i, q in enumerate(gold)}
    new = {q: ranked(i, int(rng.integers(1, 3))) if i % 6 else ["x0"] for i, q in enumerate(gold)}
    table = {q: {"kind": "odd" if i % 2 else "even"} for i, q in enumerate(gold)}
    return karat.evaluate(gold, {"old": old, "new": new}, "gm_map,map", queries=table, by="kind", cache=False)


def test_a_collapsed_system_does_not_ship_on_gm_map(collapsed: karat.Result) -> None:
    check = karat.check(collapsed, ["gm_map no worse than old by 5% at any depth"], baseline="old")
    assert check.verdict == "BLOCK"
    (gate,) = check.gates
    assert gate.found.estimate == pytest.approx(collapsed["new"].mean["gm_map"] / collapsed["old"].mean["gm_map"])
    assert gate.found.high < 0.95
    overall = {d.metric: d for d in check.comparisons if d.segment is None}
    assert (overall["gm_map"].outcome, overall["map"].outcome) == ("worse", "better")


def test_the_deciding_test_of_a_geometric_mean_is_on_logarithms(collapsed: karat.Result) -> None:
    row = karat.check(collapsed, ["gm_map >= 0.01"], baseline="old").comparisons[0]
    logs = [np.log(np.maximum(collapsed[run].values["gm_map"], 1e-5)) for run in ("new", "old")]
    tested = karat.paired_test(*logs, test="randomization")
    assert row.metric == "gm_map"
    assert row.p["randomization"] == tested.p <= row.p[row.decided_by]
    assert math.log(row.delta) == pytest.approx(tested.mean_a - tested.mean_b)
    assert row.difference.low < row.delta < row.difference.high < 1


@pytest.mark.usefixtures("few_draws")
def test_every_output_shows_the_ratio_of_geometric_means(
    collapsed: karat.Result, capsys: pytest.CaptureFixture[str]
) -> None:
    check = karat.check(collapsed, ["gm_map no worse than baseline by 5%"], baseline="old")
    row = check.comparisons[0]
    text, ends = row.figure.text, row.figure.interval
    assert text.startswith("×0.") and row.figure.sentence in row.statement
    compared = karat.Comparison(collapsed, "old", check.comparisons, 0.05)
    compare_view.show(compared)
    assert text in capsys.readouterr().out
    document = check.as_json()
    first, second = document["comparisons"][:2]
    assert (first["metric"], first["scale"], first["delta"]) == ("gm_map", "ratio", pytest.approx(row.delta))
    assert "scale" not in second
    gate = document["gates"][0]
    assert (gate["scale"], gate["threshold"], gate["op"]) == ("ratio", 0.95, ">=")
    page = page_of(source_from(read_document(saved_document(check))))
    (changed, *_) = (c for c in page.script.changes if c.metric == "gm_map")
    assert (changed.text, changed.ends, changed.neutral) == (text, ends, 1)
    assert [g.limit for g in page.gates] == [">= ×0.95"]
    assert row.figure.short in markdown.render(view_of(compared)) and text in compared._repr_html_()
    words = f"gm_map is {row.figure.sentence} of the baseline's value; at least ×0.95 is required"
    assert words in junit.render(view_of(check)).decode() and words in check.why
    assert r"$\times$0." in latex.render(view_of(check)) and "×" not in latex.render(view_of(check))
    frame = compared.table().to_dict()
    assert frame["scale"][:2] == ["ratio", "difference"]


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        ("gm_map no worse than baseline by 0.01", "such as 'gm_map no worse than baseline by 5%'"),
        ("gm_map better than baseline by 0.01", "such as 'gm_map better than baseline by 5%'"),
        ("gm_map no worse than baseline by 100%", "every run passes"),
    ],
)
def test_a_margin_of_a_ratio_is_a_percentage(gate: str, text: str) -> None:
    with pytest.raises(karat.UsageError, match=text):
        karat.parse_gate(gate)


@pytest.mark.parametrize(
    ("gate", "region"),
    [
        ("gm_map no worse than baseline", (1, math.inf, False)),
        ("gm_map no worse than baseline by 5%", (0.95, math.inf, False)),
        ("gm_map better than baseline", (1, math.inf, True)),
        ("gm_map better than baseline by 5%", (1.05, math.inf, False)),
    ],
)
def test_what_a_gate_on_a_ratio_accepts(gate: str, region: tuple[float, float, bool]) -> None:
    found = karat.parse_gate(gate).region
    assert (found.low, found.high, found.open) == region
    assert str(karat.parse_gate(gate)) == gate


def test_a_margin_of_compare_is_a_share_of_a_ratio(collapsed: karat.Result) -> None:
    gold = {f"q{i}": {"a": 1} for i in range(30)}
    a = {q: ["a"] if i % 2 else ["x", "a"] for i, q in enumerate(gold)}
    b = {q: ["x", "a"] if i % 2 and i > 1 else docs for i, (q, docs) in enumerate(a.items())}
    same = karat.compare(gold, {"a": a, "b": dict(a) | {"q0": ["a"]}}, "gm_map", margin=0.2, method="t")["gm_map"]
    worse = karat.compare(gold, {"a": a, "b": b}, "gm_map", margin=0.2)["gm_map"]
    assert (same.non_inferior, same.equivalent) == (True, True)
    assert (worse.non_inferior, worse.equivalent) == (False, False)
    assert "within 20%" in same.statement
    with pytest.raises(karat.UsageError, match="a share below 1"):
        karat.compare(gold, {"a": a, "b": b}, "gm_map", margin=5)


def test_the_interval_of_a_geometric_mean_stays_on_its_scale() -> None:
    gold = {"q1": {"a": 1}, "q2": {"a": 1}}
    runs = {"a": {"q1": ["a"], "q2": ["x"]}, "b": {"q1": ["x"], "q2": ["a"]}}
    found = karat.compare(gold, runs, "gm_map,map", cache=False)
    for run in found.result:
        assert 0 <= run.intervals["gm_map"].low <= run.intervals["gm_map"].high <= 1
    assert 0 < found["gm_map"].difference.low <= 1 <= found["gm_map"].difference.high <= 1e5 * (1 + 1e-9)
    assert (found["map"].difference.low, found["map"].difference.high) == (-1, 1)


def test_a_geometric_mean_of_what_should_be_low_is_gated_from_above() -> None:
    from karat.metrics import unregister

    @karat.metric(
        "slowness",
        title="s",
        tells="s",
        cutoff="none",
        bounds=(0, None),
        aggregate="geometric mean",
        higher_is_better=False,
    )
    def slowness(r: Any) -> Any:
        return 1.0 + np.bincount(r.query, r.rank, minlength=len(r))

    try:
        gold = {f"q{i}": {"a": 1} for i in range(30)}
        a = {q: ["a"] for q in gold}
        b = {q: ["x", *(["y"] if i % 2 else []), "a"] for i, q in enumerate(gold)}
        check = karat.check(
            karat.evaluate(gold, {"a": a, "b": b}, "slowness", cache=False),
            ["slowness no worse than a by 10% at any depth"],
            baseline="a",
        )
        assert check.verdict == "BLOCK"
        assert check.comparisons[0].outcome == "worse"
        assert "at most ×1.1 is required" in check.why
    finally:
        unregister("slowness")


@pytest.mark.skipif(not DL19.is_dir(), reason=f"needs the TREC DL 2019 data in {DL19}")
def test_shared_data_dl19_query_expansion_is_no_better_on_gm_map() -> None:
    runs = {"bm25": str(DL19 / "bm25.run"), "rm3": str(DL19 / "bm25-rm3.run")}
    found = karat.compare(str(DL19 / "qrels.txt"), runs, "gm_map,map")
    row = found["gm_map"]
    assert (round(row.mean_baseline, 4), round(row.mean_candidate, 4)) == (0.1788, 0.1779)
    assert row.figure.text == "×0.995"
    assert row.outcome == "no significant difference"
    assert (round(found["map"].mean_baseline, 4), round(found["map"].mean_candidate, 4)) == (0.2993, 0.3402)
    assert found["map"].outcome == "better"


# --- totals -------------------------------------------------------------------------------------------


@pytest.fixture
def bills(tmp_path: Path) -> karat.Result:
    rng = np.random.default_rng(2)
    gold = {f"q{i:03}": {"a": 1} for i in range(100)}
    logs = {}
    for name, factor in (("old", 500), ("new", 1000)):
        logs[name] = str(tmp_path / f"{name}.jsonl")
        with open(logs[name], "w") as out:
            for q in gold:
                cost = {"tokens": int(factor + rng.integers(-50, 50))}
                out.write(json.dumps({"query_id": q, "topk": [{"chunk_id": "a"}], "cost": cost}) + "\n")
    table = {q: {"weight": 1 + i % 3} for i, q in enumerate(gold)}
    return karat.evaluate(gold, logs, "cost.tokens.sum", queries=table, cache=False)


def test_a_margin_of_a_total_is_in_its_own_unit(bills: karat.Result) -> None:
    total = {run.name: run.mean["cost.tokens.sum"] for run in bills}
    for margin, verdict in ((1000, "BLOCK"), (45_000, "BLOCK"), (52_000, "SHIP")):
        check = karat.check(bills, [f"cost.tokens.sum no worse than old by {margin}"], baseline="old")
        assert check.verdict == verdict
        found = check.gates[0].found
        assert found.estimate == total["new"] - total["old"] == check.comparisons[0].delta
        assert found.low < found.estimate < found.high
        assert (found.low, found.high) == (check.comparisons[0].difference.low, check.comparisons[0].difference.high)


def test_a_total_is_judged_as_it_is(bills: karat.Result) -> None:
    total = bills["new"].mean["cost.tokens.sum"]
    for limit, verdict in ((total, "SHIP"), (total - 1, "BLOCK"), (60_000, "BLOCK")):
        assert karat.check(bills, [f"cost.tokens.sum <= {limit}"], candidate="new").verdict == verdict


# --- intervals stay on the scale, and one figure has one ----------------------------------------------


def test_no_interval_of_a_component_leaves_the_scale() -> None:
    ids = [f"q{i}" for i in range(20)]
    recall = {q: 0.5 if i == 3 else 1.0 for i, q in enumerate(ids)}
    part = karat.router_metrics(dict.fromkeys(ids, "tech"), dict.fromkeys(ids, "tech"), recall=recall)
    found = part["recall@5.tech"]
    assert found.estimate == pytest.approx(0.975)
    assert found.low < 0.975 < found.high <= 1
    entities = karat.entity_metrics({q: ["e"] for q in ids}, {q: ["e", *(["f"] if q == "q1" else [])] for q in ids})
    for name in ("entity_recall", "entity_f1", "entity_recall(average=macro)"):
        assert entities[name].low >= 0 and entities[name].high <= 1


def test_a_change_of_two_queries_stays_within_the_range() -> None:
    gold = {"q1": {"a": 1}, "q2": {"b": 1}}
    part = karat.rerank_metrics(gold, {"q1": ["x", "a"], "q2": ["b"]}, {"q1": ["a"], "q2": ["x", "y", "b"]})
    for moved in part.changes.values():
        assert -1 <= moved.difference.low <= moved.difference.high <= 1


def test_bare_values_have_bounds_too() -> None:
    values = [1] * 3 + [0] * 6
    assert karat.interval(values).low < 0
    assert karat.interval(values, bounds=(0, 1), method="t").low == 0
    assert karat.interval(values, bounds=(0, 1)).low == pytest.approx(0.0749, abs=5e-5)  # Clopper and Pearson
    assert karat.interval(values, bounds=(0, None)).high == karat.interval(values).high
    with pytest.raises(karat.UsageError, match="bounds must be the least and the largest value"):
        karat.interval(values, bounds=(1, 0))


def test_false_evidence_has_one_interval_as_a_metric_and_as_a_component(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    ids = [f"n{i:02}" for i in range(37)]
    answered = [f"a{i}" for i in range(50)]
    log = tmp_path / "log.jsonl"
    with log.open("w") as out:
        for q in [*ids, *answered]:
            out.write(json.dumps({"query_id": q, "topk": [{"chunk_id": "d", "score": rng.random() * 3}]}) + "\n")
    table = {q: {"no_answer": True, "conversation": f"c{i % 15}"} for i, q in enumerate(ids)}
    table |= {q: {"conversation": f"c{i % 20}"} for i, q in enumerate(answered)}
    gold = {q: {"d": 1} for q in answered}
    name = "false_evidence(threshold=2.5)@5"
    alone = karat.evaluate(gold, str(log), name, queries=table, cache=False).intervals[name]
    beside = karat.evaluate(gold, str(log), [name, "ndcg@5"], queries=table, cache=False).intervals[name]
    part = karat.components(gold, str(log), queries=table, threshold=2.5).no_answer["false_evidence@5"]
    assert alone.method == "gaffke"
    assert alone == beside == part


@pytest.mark.parametrize("change", [0.0, 5.0], ids=["none", "the same for all"])
def test_changes_without_a_scale_and_without_spread_have_no_interval_and_decide_nothing(
    change: float, tmp_path: Path
) -> None:
    """x + 5 − x is 5 but for rounding; that no query differs from it does not say how far others may."""
    latencies = np.random.default_rng(3).gamma(4, 10, 60).round(2)
    gold = {f"q{i}": ["d"] for i in range(60)}
    runs = {name: str(tmp_path / f"{name}.jsonl") for name in "ab"}
    for path, added in zip(runs.values(), (0.0, change), strict=True):
        rows = zip(gold, (latencies + added).tolist(), strict=True)
        lines = ({"query_id": q, "topk": [{"chunk_id": "d"}], "latency_ms": {"total": x}} for q, x in rows)
        Path(path).write_text("\n".join(map(json.dumps, lines)))
    names = ("latency.p50", "latency.p90", "latency.mean")
    result = karat.evaluate(gold, runs, names)
    compared = karat.compare(gold, runs, names, baseline="a")
    for row in compared.rows:
        assert row.difference.estimate == pytest.approx(change), row.metric
        assert math.isnan(row.difference.low) and math.isnan(row.difference.high), row.metric
        assert not row.significant, row.metric
    checked = karat.check(result, [f"{n} no worse than a by 9ms" for n in names], candidate="b")
    assert {row.outcome for row in checked.rows} == {"undecided"}
    amount = "+5.00 ms" if change else "0"
    resamples = f"all resamples of these 60 queries differ by {amount}"
    assert [row.judged.why for row in checked.rows] == [
        f"{text}, and without spread nothing says how far other queries may be"
        for text in (resamples, resamples, f"all 60 differences are {amount}")
    ]
    assert [row.conclusion for row in compared.rows] == [row.judged.why for row in checked.rows]
    mean = compared["latency.mean"]
    assert math.isnan(mean.p["t"]) and math.isnan(mean.p_adjusted) and math.isnan(mean.detectable)
    assert (mean.outcome, mean.needed, mean.family) == ("not tested", None, None)
