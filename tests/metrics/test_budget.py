"""Latency, cost, freshness and distinct docs: values worked by hand, intervals, segments, comparisons, bad logs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest

import karat
import karat.align
from karat.cli import main
from karat.stats.quantiles import grouped_quantiles, quantile_difference, quantile_of
from karat.stats.resample import Units
from places import SCHEMAS

SCHEMA = json.loads((SCHEMAS / "result.schema.json").read_text())


def line(query: str, top: Sequence[Any] = ("a",), **fields: Any) -> str:
    """A line of a run log; an item is a chunk id, or a dict of fields."""
    items = [item if isinstance(item, dict) else {"chunk_id": item} for item in top]
    return json.dumps({"query_id": query, "topk": items, **fields})


def log(folder: Path, *lines: str, name: str = "log.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(text + "\n" for text in lines))
    return path


def timed(folder: Path, latencies: Mapping[str, Any], name: str = "log.jsonl") -> Path:
    """A run log with these latency_ms by query."""
    return log(folder, *(line(q, latency_ms=v) for q, v in latencies.items()), name=name)


def gold_of(queries: Sequence[str]) -> dict[str, dict[str, int]]:
    return {q: {"a": 1} for q in queries}


def numbered(n: int) -> list[str]:
    return [f"q{i:03d}" for i in range(n)]


def same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(np.array(a, dtype=float), np.array(b, dtype=float), equal_nan=True))


# --- latency ------------------------------------------------------------------------------------------


def test_quantiles_of_ten_latencies_by_hand(tmp_path: Path) -> None:
    """10, 20, … 100: the 5th of ten is p50, the 9th p90, and the 10th p95 and p99 (⌈9.5⌉ = ⌈9.9⌉ = 10)."""
    queries = numbered(10)
    run = timed(tmp_path, {q: {"all": 10 * (i + 1)} for i, q in enumerate(queries)})
    result = karat.evaluate(gold_of(queries), run, "latency.{p50,p90,p95,p99,mean}")
    assert list(result.mean.values()) == [50, 90, 100, 100, 55]
    assert set(result.n.values()) == {10}
    assert result.per_query("latency.p90") == {q: 10.0 * (i + 1) for i, q in enumerate(queries)}


def test_the_total_is_the_sum_of_the_stages_unless_it_is_logged(tmp_path: Path) -> None:
    run = timed(
        tmp_path,
        {
            "q1": {"retrieve": 35, "rerank": 22},  # 57
            "q2": {"retrieve": 30, "rerank": 20, "total": 61.5},  # 61.5: waiting between stages counts
            "q3": {"retrieve": 40},  # 40, and no rerank
            "q4": {"total": 7},
        },
    )
    result = karat.evaluate(
        gold_of(["q1", "q2", "q3", "q4"]), run, "latency.mean,latency.rerank.p90,latency.retrieve.mean"
    )
    assert list(result.per_query("latency.mean").values()) == [57, 61.5, 40, 7]
    assert same(list(result.per_query("latency.rerank.p90").values()), [22, 20, math.nan, math.nan])
    assert (result.mean["latency.rerank.p90"], result.n["latency.rerank.p90"]) == (22, 2)
    assert (result.mean["latency.retrieve.mean"], result.n["latency.retrieve.mean"]) == (35, 3)  # (35 + 30 + 40) / 3


def test_stages_are_named_in_any_case_and_with_digits_and_dashes(tmp_path: Path) -> None:
    run = timed(tmp_path, {"q1": {"Re-Rank_2": 5, "10": 3}, "q2": {"RE-RANK_2": 7}})
    result = karat.evaluate(gold_of(["q1", "q2"]), run, "latency.re-rank_2.mean,LATENCY.10.P50,latency.P99")
    assert result.metrics == ("latency.re-rank_2.mean", "latency.10.p50", "latency.p99")
    assert list(result.mean.values()) == [6, 3, 8]


def test_queries_without_latency_are_undefined_and_those_without_gold_count(tmp_path: Path) -> None:
    lines = [line("q1", latency_ms={"x": 10}), line("q2"), line("q3", latency_ms={}), line("q4", latency_ms=None)]
    run = log(tmp_path, *lines, line("q5", [], latency_ms={"x": 30}), line("other", latency_ms={"x": 999}))
    result = karat.evaluate(gold_of(["missing", "q1", "q2", "q3", "q4", "q5"]), run, "latency.mean,mrr")
    # A query without results took its time all the same; one that the run lacks took none that is known.
    expected = {"missing": math.nan, "other": 999, "q1": 10, "q2": math.nan, "q3": math.nan, "q4": math.nan, "q5": 30}
    assert list(result.per_query("latency.mean")) == list(expected)
    assert same(list(result.per_query("latency.mean").values()), list(expected.values()))
    # (10 + 30 + 999) / 3 over the log; mrr is over the six queries of the gold.
    assert (result.mean["latency.mean"], result.n["latency.mean"], result.n["mrr"]) == (1039 / 3, 3, 6)


def test_an_interval_is_that_of_the_order_statistics(tmp_path: Path) -> None:
    """Of ten values, the 2nd and the 9th hold the median with 95% (see test_stats); p90 has no upper end."""
    queries = numbered(10)
    values = [10.0 * (i + 1) for i in range(10)]
    run = timed(tmp_path, dict(zip(queries, ({"x": v} for v in values), strict=True)))
    result = karat.evaluate(gold_of(queries), run, "latency.p50,latency.p90,latency.mean")
    assert result.intervals["latency.p50"] == karat.quantile_interval(values, 0.5)
    assert result.ci["latency.p50"] == (20, 90)
    low, high = result.ci["latency.p90"]
    assert low == karat.quantile_interval(values, 0.9).low
    assert math.isnan(high)
    written = result.as_json()["runs"][0]["metrics"]
    assert written["latency.p90"]["ci"] == [low, None]
    assert (written["latency.p50"]["ci_method"], written["latency.p50"]["aggregate"]) == (
        "order statistics",
        "quantile",
    )
    assert "aggregate" not in written["latency.mean"]
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(result.as_json(), allow_nan=False)))


def test_quantiles_in_segments_are_of_their_queries(tmp_path: Path) -> None:
    """Odd queries take 1, 3, … 39 ms, even ones 1002, 1004, … 1040."""
    queries = numbered(40)
    values = [float(i + 1) if i % 2 == 0 else 1001.0 + i for i in range(40)]
    run = timed(tmp_path, dict(zip(queries, ({"x": v} for v in values), strict=True)))
    table = {q: {"kind": "ab"[i % 2]} for i, q in enumerate(queries)}
    result = karat.evaluate(gold_of(queries), run, "latency.p50,latency.p90,ndcg@5", queries=table, by="kind")
    first, second = result.segments
    assert [first.metrics[m].estimate for m in ("latency.p50", "latency.p90")] == [19, 35]  # the 10th and 18th of 20
    assert [second.metrics[m].estimate for m in ("latency.p50", "latency.p90")] == [1020, 1036]
    assert first.metrics["latency.p90"] == karat.quantile_interval(values[0::2], 0.9)
    assert list(first.metrics) == ["latency.p50", "latency.p90", "ndcg@5"]
    assert result.runs[0].across("kind", "latency.p50")["macro_average"] == (19 + 1020) / 2


def test_a_weighted_quantile_follows_the_weights(tmp_path: Path) -> None:
    """Weights 1, 1, 1, 5 on 10, 20, 30, 40: half of the weight of 8 is passed only at 40."""
    run = timed(tmp_path, {f"q{i}": {"x": 10 * i} for i in range(1, 5)})
    table = {"q1": {"weight": 1}, "q2": {"weight": 1}, "q3": {"weight": 1}, "q4": {"weight": 5}}
    result = karat.evaluate(gold_of(list(table)), run, "latency.p50,latency.mean", queries=table)
    assert result.mean["latency.p50"] == result.intervals["latency.p50"].estimate == 40
    assert result.mean["latency.mean"] == 32.5  # (10 + 20 + 30 + 5 · 40) / 8
    assert math.isnan(result.ci["latency.p50"][0])  # four queries are too few
    assert quantile_of(np.array([1.0, 2.0, 3.0]), 0.5, np.array([0.0, 0.0, 0.0])) != 0


def test_conversations_widen_the_interval_of_a_quantile(tmp_path: Path) -> None:
    """Twelve conversations of ten equal latencies each are worth twelve queries, not 120."""
    queries = numbered(120)
    run = timed(tmp_path, {q: {"x": 10.0 * (i // 10) + 1} for i, q in enumerate(queries)})
    alone = karat.evaluate(gold_of(queries), run, "latency.p50").intervals["latency.p50"]
    table = {q: {"conversation": i // 10} for i, q in enumerate(queries)}
    together = karat.evaluate(gold_of(queries), run, "latency.p50", queries=table).intervals["latency.p50"]
    assert (alone.method, together.method) == ("order statistics", "percentile")
    assert alone.estimate == together.estimate == 51
    assert together.high - together.low > alone.high - alone.low > 0


@pytest.mark.parametrize("q", [0.5, 0.9, 0.95, 0.99])
def test_a_quantile_is_the_smallest_value_that_enough_do_not_exceed(q: float) -> None:
    for n in range(1, 300):
        values = np.random.default_rng(n).permutation(n) + 1.0
        place = -(-round(100 * q) * n // 100)  # ⌈q n⌉ in whole numbers
        assert quantile_of(values, q) == quantile_of(values, q, np.full(n, 0.1)) == place
        assert karat.quantile_interval(values, q).estimate == place


def test_equal_weights_and_repeated_rows_give_the_same_quantile() -> None:
    rng = np.random.default_rng(3)
    values, weight = rng.exponential(size=50), rng.integers(0, 4, 50).astype(float)
    for q in (0.5, 0.9, 0.99):
        assert quantile_of(values, q, weight) == quantile_of(np.repeat(values, weight.astype(int)), q)


def test_the_bootstrap_of_a_median_agrees_with_order_statistics() -> None:
    values = np.random.default_rng(0).exponential(size=400)
    units = Units.of(400, clusters=list(range(400)), weights=np.full(400, 2.0))  # not plain, and yet the same
    everything = [np.arange(400)]
    (drawn,) = grouped_quantiles(values, 0.5, units, everything, confidence=0.95, resamples=2000, seed=0)
    exact = karat.quantile_interval(values, 0.5)
    assert drawn.estimate == exact.estimate
    assert (drawn.low, drawn.high) == pytest.approx((exact.low, exact.high), abs=0.03)


def test_queries_without_a_value_change_no_quantile_interval() -> None:
    """A latency has the same interval whether or not there are other queries, such as those with gold alone."""
    rng = np.random.default_rng(9)
    values, other = rng.gamma(4, 10, 80), rng.gamma(4, 11, 80)
    weights, clusters = rng.integers(1, 5, 80).astype(float), [f"c{i // 2}" for i in range(80)]
    there = np.sort(rng.permutation(200)[:80])
    more, more_other, more_weights = np.full(200, np.nan), np.full(200, np.nan), np.ones(200)
    more[there], more_other[there], more_weights[there] = values, other, weights
    names = [f"x{i}" for i in range(200)]
    for i, cluster in zip(there, clusters, strict=True):
        names[i] = cluster
    alone, among = Units.of(80, clusters, weights), Units.of(200, names, more_weights)
    groups = [np.arange(80)], [np.arange(200)]
    few, many = (
        grouped_quantiles(column, 0.5, units, group, confidence=0.95, resamples=500, seed=0)
        for column, units, group in ((values, alone, groups[0]), (more, among, groups[1]))
    )
    assert few == many
    pairs = ((values, other, alone, groups[0][0]), (more, more_other, among, groups[1][0]))
    one, two = (
        quantile_difference(a, b, 0.5, units, rows, levels=[0.95], resamples=500, seed=0) for a, b, units, rows in pairs
    )
    assert one == two


def test_no_queries_and_one_query_have_no_interval(tmp_path: Path) -> None:
    result = karat.evaluate(gold_of(["q1"]), timed(tmp_path, {"q1": {"x": 5}}), "latency.p50")
    assert result.mean["latency.p50"] == 5
    assert result.as_json()["runs"][0]["metrics"]["latency.p50"]["ci"] is None


# --- cost ---------------------------------------------------------------------------------------------


def test_costs_are_averaged_and_added_up(tmp_path: Path) -> None:
    run = log(tmp_path, line("q1", cost={"tokens": 800, "usd": 0.25}), line("q2", cost={"tokens": 824}), line("q3"))
    names = "cost.tokens,cost.tokens.sum,cost.usd,cost.usd.sum"
    result = karat.evaluate(gold_of(["q1", "q2", "q3"]), run, names)
    assert list(result.mean.values()) == [812, 1624, 0.25, 0.25]
    assert list(result.n.values()) == [2, 2, 1, 1]
    written = result.as_json()["runs"][0]["metrics"]
    assert written["cost.tokens.sum"]["ci"] is None
    assert written["cost.tokens.sum"]["aggregate"] == "sum"
    assert karat.parse("cost.tokens").metric.higher_is_better is False


def test_the_difference_of_a_sum_is_the_difference_of_the_sums(tmp_path: Path) -> None:
    base = log(tmp_path, line("q1", cost={"t": 10}), line("q2", cost={"t": 20}), line("q3", cost={"t": 5}))
    cand = log(tmp_path, line("q1", cost={"t": 11}), line("q2", cost={"t": 25}), line("q3"), name="cand.jsonl")
    row = karat.compare(gold_of(["q1", "q2", "q3"]), {"a": base, "b": cand}, "cost.t.sum")["cost.t.sum"]
    assert (row.mean_baseline, row.mean_candidate, row.delta, row.n) == (30, 36, 6, 2)  # q3 has no pair


# --- fresh --------------------------------------------------------------------------------------------

AS_OF = {"q1": {"as_of": "2025-04-01"}, "q2": {"as_of": "2025-04-01"}, "q3": {}, "q4": {"as_of": "2025-04-01"}}


def dated(*versions: Any) -> list[dict[str, Any]]:
    return [{"chunk_id": f"c{i}", **({} if v is None else {"doc_version": v})} for i, v in enumerate(versions)]


def test_fresh_is_the_share_of_dated_items_not_later_than_the_query(tmp_path: Path) -> None:
    run = log(
        tmp_path,
        line("q1", dated("2025-03-31", "2025-04-01", "2025-04-02", None)),  # 2 of 3; the undated one is left out
        line("q2", dated("2025-04-02", None, "2024-12-31")),  # @2: 0 of 1; in all: 1 of 2
        line("q3", dated("2020-01-01", None)),  # no as_of
        line("q4", dated(None, None)),
    )  # no dates
    result = karat.evaluate(gold_of(["q1", "q2", "q3", "q4"]), run, "fresh,fresh@1,fresh@2,fresh@3", queries=AS_OF)
    nan = math.nan
    assert same(list(result.per_query("fresh").values()), [2 / 3, 1 / 2, nan, nan])
    assert same(list(result.per_query("fresh@1").values()), [1, 0, nan, nan])
    assert same(list(result.per_query("fresh@2").values()), [1, 0, nan, nan])
    assert same(list(result.per_query("fresh@3").values()), [2 / 3, 1 / 2, nan, nan])
    assert (result.mean["fresh"], result.n["fresh"]) == (pytest.approx(7 / 12), 2)
    # Of queries with an as_of: q1 1, q2 1, q4 2; in the top 1 that of q4, in the top 2 q2's and two of q4.
    assert result.notes == (
        "only 2 queries with a value of fresh: so few can only show large differences",
        "fresh: 4 items without doc_version",
        "fresh@1: 1 item without doc_version",
        "fresh@2: 3 items without doc_version",
        "fresh@3: 3 items without doc_version",
        *(f"{name}: 2 of 4 queries have no value" for name in ("fresh", "fresh@1", "fresh@2", "fresh@3")),
        "docs in the top 10 that nobody judged (counted as not relevant): log 11 of 11",
    )


def test_dates_are_compared_as_dates(tmp_path: Path) -> None:
    """As texts, 20250331 would come after 2025-04-01; a time of the same day is not later than the day."""
    run = log(
        tmp_path, line("q1", dated("20250331", 20250401, "2025-04-01T18:30:00Z", "2025-04-02 00:00", "2025-W14-2"))
    )
    value = karat.evaluate(gold_of(["q1"]), run, "fresh", queries=AS_OF).per_query("fresh")["q1"]
    assert value == 4 / 5  # 2025-W14-2 is the 1st of April


def test_after_the_filter_everything_that_is_dated_is_fresh(tmp_path: Path) -> None:
    run = log(tmp_path, line("q1", dated("2025-03-31", "2025-04-02", None)))
    result = karat.evaluate(gold_of(["q1"]), run, "fresh@5", queries=AS_OF, as_of_filter=True)
    assert result.mean["fresh@5"] == 1
    assert "as_of_filter: fresh@5 0.5000 → 1.0000 (+0.5000)" in result.notes


def test_what_the_filter_does_is_said_of_the_weighted_figure(tmp_path: Path) -> None:
    """The filter drops q2's relevant doc: (9 · 1 + 1 · 1) / 10 → (9 · 1 + 1 · 0) / 10."""
    run = log(tmp_path, line("q1", dated("2025-03-31")), line("q2", dated("2025-04-02")))
    queries = {q: {"as_of": "2025-04-01", "weight": weight} for q, weight in (("q1", 9), ("q2", 1))}
    result = karat.evaluate({q: {"c0": 1} for q in queries}, run, "recall@5", queries=queries, as_of_filter=True)
    assert result.mean["recall@5"] == pytest.approx(0.9, rel=1e-12)
    assert "as_of_filter: recall@5 1.0000 → 0.9000 (-0.1000)" in result.notes


@pytest.mark.parametrize("version", ["soon", "2025-13-01", "2025-02-30", "2025", "", True, 2025.5, [1], "01/04/2025"])
def test_a_version_that_is_no_date_is_an_error_with_its_line(tmp_path: Path, version: Any) -> None:
    run = log(tmp_path, line("q0", dated("2025-01-01")), line("q1", dated("2025-01-01", version)))
    with pytest.raises(karat.InputError, match=r"log\.jsonl:2: topk item 2: doc_version must be an ISO date"):
        karat.evaluate(gold_of(["q1"]), run, "fresh@5", queries=AS_OF)
    karat.evaluate(gold_of(["q1"]), run, "mrr", queries=AS_OF)  # nobody asked for dates


def test_an_as_of_that_is_no_date_is_an_error_with_its_line(tmp_path: Path) -> None:
    table = tmp_path / "queries.jsonl"
    table.write_text('{"_id": "q1", "as_of": "2025-04-01"}\n{"_id": "q2", "as_of": "spring"}\n')
    run = log(tmp_path, line("q1", dated("2025-01-01")))
    with pytest.raises(karat.InputError, match=r'queries\.jsonl:2: query "q2": as_of must be an ISO date.*"spring"'):
        karat.evaluate(gold_of(["q1"]), run, "fresh@5", queries=table)
    csv = tmp_path / "queries.csv"
    csv.write_text("query_id,as_of\nq1,2025-04-01\nq2,1/4/2025\n")
    with pytest.raises(karat.InputError, match=r"queries\.csv:3: query"):
        karat.evaluate(gold_of(["q1"]), run, "fresh@5", queries=csv)


def test_a_frame_of_dates_is_a_table_of_queries(tmp_path: Path) -> None:
    run = log(tmp_path, line("q1", dated("2025-03-31", "2025-04-02")))
    frame = pd.DataFrame({"query_id": ["q1"], "as_of": pd.to_datetime(["2025-04-01"])})
    assert karat.evaluate(gold_of(["q1"]), run, "fresh", queries=frame).mean["fresh"] == 1 / 2


# --- distinct docs and redundancy ---------------------------------------------------------------------

CHUNKS = ["d1#1", "d1#2", "d2#1", "d1#3", "d3"]
# Distinct docs in the top 1 … 5: 1, 1, 2, 2, 3.


def test_chunks_of_one_doc_are_one_doc() -> None:
    names = [f"distinct_docs@{k}" for k in range(1, 7)] + ["distinct_docs"]
    assert [karat.score(n, CHUNKS, {}) for n in names] == [1, 1, 2, 2, 3, 3, 3]
    assert [karat.score(f"redundancy@{k}", CHUNKS, {}) for k in (1, 2, 4)] == [0, 1 / 2, 1 / 2]
    # Five docs were returned: 1 − 3 / min(50, 5).
    assert karat.score("redundancy@50", CHUNKS, {}) == karat.score("redundancy", CHUNKS, {}) == pytest.approx(2 / 5)
    assert math.isnan(karat.score("redundancy@5", [], {"a": 1}))
    assert karat.score("distinct_docs@5", [], {"a": 1}) == 0


def test_a_list_has_neither_latency_nor_dates() -> None:
    for name in ("latency.p50", "cost.tokens", "fresh@5"):
        with pytest.raises(karat.UsageError, match=f"{name} needs .*use evaluate"):
            karat.score(name, ["a"], {"a": 1})


def test_the_doc_id_of_a_log_decides_over_the_separator(tmp_path: Path) -> None:
    top = [{"chunk_id": "x#1", "doc_id": "A"}, {"chunk_id": "x#2", "doc_id": "B"}, {"chunk_id": "y", "doc_id": "A"}]
    run = log(tmp_path, line("q1", top), line("q2", ["x#1", "x#2"]))
    for level in ("chunk", "doc", "auto"):
        result = karat.evaluate(gold_of(["q1", "q2"]), run, "distinct_docs@5", level=level)
        assert list(result.per_query("distinct_docs@5").values()) == [2, 1]
    other = log(tmp_path, line("q1", ["a/1", "a/2", "b#1", "b#2"]))
    assert karat.evaluate(gold_of(["q1"]), other, "distinct_docs", separator="/").mean["distinct_docs"] == 3


def rows(separated: bool) -> dict[str, list[tuple[str, str]]]:
    """Chunks and their docs of twenty queries, in order; without a separator only the doc column knows."""
    rng = np.random.default_rng(5)
    out = {}
    for q in numbered(20):
        docs = rng.integers(0, 6, int(rng.integers(1, 12)))
        out[q] = [(f"d{d}{'#' if separated else '-'}{i}", f"d{d}") for i, d in enumerate(docs)]
    return out


@pytest.mark.parametrize("level", ["auto", "chunk", "doc"])
@pytest.mark.parametrize("way", ["dict", "lists", "trec", "not grouped", "sql", "frame", "log"])
def test_every_kind_of_run_has_its_distinct_docs(way: str, level: str, tmp_path: Path) -> None:
    listed = rows(separated=True)
    scored = [(q, chunk, 100.0 - i) for q, top in listed.items() for i, (chunk, _) in enumerate(top)]
    runs: dict[str, Any] = {
        "dict": {q: {c: s for p, c, s in scored if p == q} for q in listed},
        "lists": {q: [c for c, _ in top] for q, top in listed.items()},
        "trec": "".join(f"{q} Q0 {c} 1 {s} t\n" for q, c, s in scored),
        "not grouped": "".join(f"{q} Q0 {c} 1 {s} t\n" for q, c, s in sorted(scored, key=lambda r: r[2])),
        "frame": pd.DataFrame(scored, columns=["query_id", "chunk_id", "score"]),
        "log": "".join(line(q, [c for c, _ in top]) + "\n" for q, top in listed.items()),
    }
    run = runs["not grouped" if way == "sql" else way]
    if isinstance(run, str):
        path = tmp_path / ("r.jsonl" if way == "log" else "r.run")
        path.write_text(run)
        run = path
    gold = {q: {"d1": 1, "d2": 1} for q in [*listed, "missing"]}
    with pytest.MonkeyPatch.context() as patch:
        if way == "sql":
            patch.setattr(karat.align, "IN_MEMORY", 0)
        result = karat.evaluate(gold, run, "distinct_docs@3,distinct_docs,redundancy@3,recall", level=level)
    for k, name in ((3, "distinct_docs@3"), (99, "distinct_docs")):
        expected = {q: float(len({d for _, d in top[:k]})) for q, top in listed.items()}
        assert result.per_query(name) == {**expected, "missing": 0.0}
    assert math.isnan(result.per_query("redundancy@3")["missing"])


@pytest.mark.parametrize("way", ["csv", "not grouped", "sql", "frame"])
def test_a_column_of_docs_names_the_parents_at_every_level(way: str, tmp_path: Path) -> None:
    listed = rows(separated=False)
    table = [(q, chunk, doc, 100.0 - i) for q, top in listed.items() for i, (chunk, doc) in enumerate(top)]
    if way in ("not grouped", "sql"):
        table.sort(key=lambda r: r[3])
    frame = pd.DataFrame(table, columns=["query_id", "chunk_id", "doc_id", "score"])
    run: Any = frame if way == "frame" else tmp_path / "run.csv"
    if way != "frame":
        frame.to_csv(run, index=False)
    for level in ("chunk", "doc"):
        with pytest.MonkeyPatch.context() as patch:
            if way == "sql":
                patch.setattr(karat.align, "IN_MEMORY", 0)
            result = karat.evaluate({q: {"d1": 1} for q in listed}, run, "distinct_docs@4", level=level)
        expected = {q: float(len({d for _, d in top[:4]})) for q, top in listed.items()}
        assert result.per_query("distinct_docs@4") == expected


def test_duplicates_self_and_unjudged_docs_are_dropped_first() -> None:
    run = {"q": ["q", "a#1", "a#1", "x#1", "a#2", "b#1"]}
    gold = {"q": {"a": 1, "b": 0, "x": -1}}
    names = "distinct_docs@2,distinct_docs,redundancy"

    def found(**options: Any) -> list[float]:
        return list(karat.evaluate(gold, run, names, level="doc", **options).mean.values())

    # q, a#1, x#1, a#2, b#1: two docs in the top 2, four in all of five.
    assert found() == pytest.approx([2, 4, 1 / 5])
    # a#1, x#1, a#2, b#1
    assert found(ignore_self=True) == pytest.approx([2, 3, 1 / 4])
    # The judged alone are a#1, a#2, b#1: one doc in the top 2, two in all of three.
    assert found(condensed=True) == pytest.approx([1, 2, 1 / 3])


# --- needed and not there -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        ("latency.p50", "run 'x' has no latency_ms: latency.p50 needs a run log with latency_ms on its lines"),
        ("cost.tokens", "run 'x' has no cost: cost.tokens needs a run log with cost on its lines"),
        ("fresh@5", "run 'x' has no doc_version: fresh@5 needs a run log with doc_version on its items"),
    ],
)
@pytest.mark.parametrize("kind", ["dict", "lists", "trec", "log", "frame"])
def test_a_run_without_the_field_is_refused_by_its_name(metric: str, told: str, kind: str, tmp_path: Path) -> None:
    trec = tmp_path / "x.run"
    trec.write_text("q1 Q0 a 1 2.0 t\n")
    run = {
        "dict": {"q1": {"a": 1.0}},
        "lists": {"q1": ["a"]},
        "trec": trec,
        "log": log(tmp_path, line("q1")),
        "frame": pd.DataFrame({"query_id": ["q1"], "doc_id": ["a"], "score": [1.0]}),
    }[kind]
    if kind in ("dict", "lists"):
        run = karat.read_run(run, name="x")
    with pytest.raises(karat.InputError, match=told):
        karat.evaluate(gold_of(["q1"]), {"x": run}, ["mrr", metric], queries=AS_OF)


def test_an_unknown_stage_or_key_gets_the_nearest(tmp_path: Path) -> None:
    run = log(tmp_path, line("q1", latency_ms={"retrieve": 1, "rerank": 2}, cost={"tokens": 3}))
    for name, told in {
        "latency.rernk.p50": "no \"rernk\" in latency_ms.*did you mean 'rerank'",
        "latency.x.p50": "expected one of rerank, retrieve, total",
        "cost.token.sum": "did you mean 'tokens'",
    }.items():
        with pytest.raises(karat.InputError, match=told):
            karat.evaluate(gold_of(["q1"]), run, name)


def test_fresh_needs_dates_of_queries_and_the_final_list(tmp_path: Path) -> None:
    run = log(tmp_path, line("q1", dated("2025-01-01"), stages={"retrieve": ["a"]}))
    for queries in (None, {"q1": {"language": "en"}}):
        with pytest.raises(karat.UsageError, match="fresh@5 needs queries with an as_of field"):
            karat.evaluate(gold_of(["q1"]), run, "fresh@5", queries=queries)
    with pytest.raises(karat.UsageError, match='items of stage "retrieve"'):
        karat.evaluate(gold_of(["q1"]), run, "fresh@5", queries=AS_OF, stage="retrieve")


def test_a_stage_has_its_own_docs_and_the_latency_of_the_line(tmp_path: Path) -> None:
    run = log(
        tmp_path, line("q1", ["a#1", "b#1"], stages={"retrieve": ["a#1", "a#2"]}, latency_ms={"retrieve": 3, "x": 1})
    )
    result = karat.evaluate(gold_of(["q1"]), run, "distinct_docs,latency.p50", stage="retrieve")
    assert list(result.mean.values()) == [1, 4]


# --- bad logs -----------------------------------------------------------------------------------------

MUST = "must be a finite number from 0"
BAD: dict[str, tuple[str, str]] = {
    "negative": ('{"rerank": -1}', f'"rerank" {MUST}, found -1'),
    "negative total": ('{"total": -0.5}', f'"total" {MUST}, found -0.5'),
    "text": ('{"rerank": "fast"}', f'"rerank" {MUST}, found "fast"'),
    "number as text": ('{"rerank": "22"}', f'"rerank" {MUST}, found "22"'),
    "null": ('{"rerank": null}', f'"rerank" {MUST}, found nothing'),
    "true": ('{"rerank": true}', f'"rerank" {MUST}, found True'),
    "list": ('{"rerank": [22]}', f'"rerank" {MUST}, found [22]'),
    "object": ('{"rerank": {"ms": 22}}', f'"rerank" {MUST}'),
    "NaN": ('{"rerank": NaN}', 'numbers must be finite, found "NaN" in "rerank"'),
    "infinite": ('{"rerank": Infinity}', 'numbers must be finite, found "Infinity" in "rerank"'),
    "too large": ('{"rerank": 1e999}', "a number is too large"),
    "large integer": (f'{{"rerank": 1{"0" * 400}}}', "number"),
    "sum too large": ('{"rerank": 1.5e308, "retrieve": 1.5e308}', "add up to more than a number can hold"),
    "a number alone": ("22", "must be an object of numbers"),
    "a list alone": ("[22]", "must be an object of numbers"),
    "a text alone": ('"22ms"', "must be an object of numbers"),
    "twice but for case": ('{"rerank": 1, "ReRank": 2}', "appears twice with different case"),
    "second of two": ('{"retrieve": 1, "rerank": -2}', f'"rerank" {MUST}, found -2'),
}


def bad_log(folder: Path, field: str, value: str) -> Path:
    good = line("q1", **{field: {"rerank": 1}})
    return log(folder, good, f'{{"query_id": "q2", "topk": [], "{field}": {value}}}')


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("field", ["latency_ms", "cost"])
def test_a_bad_number_is_an_error_that_names_its_line_and_stage(tmp_path: Path, field: str, case: str) -> None:
    value, told = BAD[case]
    run = bad_log(tmp_path, field, value)
    metric = "latency.rerank.p50" if field == "latency_ms" else "cost.rerank"
    if field == "cost" and case == "sum too large":  # costs are not added up within a line
        assert karat.evaluate(gold_of(["q1"]), run, metric).per_query(metric) == {"q1": 1, "q2": 1.5e308}
        return
    with pytest.raises(karat.InputError) as error:
        karat.evaluate(gold_of(["q1", "q2"]), run, metric)
    assert str(error.value).startswith(f"{run}:2: ")
    assert told in str(error.value)
    if "numbers must be finite" not in told and "too large" not in told and case != "large integer":
        assert f":2: {field}" in str(error.value)


@pytest.mark.parametrize("case", BAD)
def test_the_command_line_says_the_same_and_ends_with_2(
    tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    value, told = BAD[case]
    run = bad_log(tmp_path, "latency_ms", value)
    (tmp_path / "gold.txt").write_text("q1 0 a 1\nq2 0 a 1\n")
    monkeypatch.setattr(
        sys, "argv", ["karat", "evaluate", str(tmp_path / "gold.txt"), str(run), "-m", "latency.p50", "--json", "-"]
    )
    with pytest.raises(SystemExit) as end:
        main()
    out = capsys.readouterr()
    assert end.value.code == 2
    assert out.out == ""
    assert "log.jsonl:2: " in out.err
    assert told in " ".join(out.err.split())


def test_up_to_twenty_problems_are_collected(tmp_path: Path) -> None:
    run = timed(tmp_path, {q: {f"x{q}": -1} for q in numbered(30)})
    with pytest.raises(karat.InputError) as error:
        karat.evaluate(gold_of(numbered(30)), run, "latency.p50")
    assert len(error.value.problems) == 20
    assert error.value.more


def test_what_nobody_asked_for_is_not_read(tmp_path: Path) -> None:
    run = log(tmp_path, line("q1", latency_ms={"x": -1}, cost="free"))
    assert karat.evaluate(gold_of(["q1"]), run, "mrr,distinct_docs").mean["mrr"] == 1


# --- comparison ---------------------------------------------------------------------------------------


def two(folder: Path, base: Sequence[float], cand: Sequence[float]) -> tuple[dict[str, Any], dict[str, Path]]:
    queries = numbered(len(base))
    runs = {
        name: timed(folder, {q: {"x": v} for q, v in zip(queries, values, strict=True)}, f"{name}.jsonl")
        for name, values in (("base", base), ("cand", cand))
    }
    return gold_of(queries), runs


def test_the_difference_of_quantiles_is_not_the_quantile_of_differences(tmp_path: Path) -> None:
    """The candidate has the same latencies on other queries: its quantiles are those of the baseline."""
    base = np.arange(1.0, 101.0)
    gold, runs = two(tmp_path, base.tolist(), base[::-1].tolist())
    row = karat.compare(gold, runs, "latency.p90")["latency.p90"]
    assert (row.mean_baseline, row.mean_candidate, row.delta) == (90, 90, 0)
    assert (row.wins, row.ties, row.losses) == (50, 0, 50)
    assert np.quantile(base[::-1] - base, 0.9, method="inverted_cdf") == 79  # what it is not
    assert row.difference.low < 0 < row.difference.high
    assert (row.significant, row.decided_by, list(row.p)) == (False, "quantile bootstrap", ["quantile bootstrap"])


def test_a_planted_shift_of_latency_is_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    base = rng.exponential(20, 400) + 40
    cand = base - 8 + rng.normal(0, 2, 400)
    gold, runs = two(tmp_path, base.tolist(), np.maximum(cand, 0).tolist())
    found = karat.compare(gold, runs, "latency.p50,latency.p90,latency.mean", margin=1.0)
    for name in ("latency.p50", "latency.p90"):
        row = found[name]
        assert row.delta == pytest.approx(-8, abs=1.5)
        assert -8 in row.difference
        assert row.difference.high < 0
        assert (row.significant, row.better_when_higher, row.non_inferior, row.equivalent) == (True, False, True, False)
        assert row.difference.method == "percentile"
        assert row.p["quantile bootstrap"] == pytest.approx(2 / 10_001)
        assert math.isnan(row.effect_size) and row.needed is None
    assert found["latency.mean"].decided_by == "randomization"
    assert found["latency.p50"].wins > 390  # lower is better
    written = json.loads(json.dumps(found.as_json(), allow_nan=False))
    jsonschema.Draft202012Validator(SCHEMA).validate(written)
    assert written["comparisons"][0]["decided_by"] == "quantile bootstrap"


def test_a_slow_tail_moves_p90_and_not_the_median(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    base = rng.normal(50, 5, 300)
    cand = np.where(rng.random(300) < 0.2, base + 100, base)
    gold, runs = two(tmp_path, base.tolist(), cand.tolist())
    found = karat.compare(gold, runs, "latency.p50,latency.p90")
    assert found["latency.p90"].significant
    assert found["latency.p90"].delta > 50
    assert abs(found["latency.p50"].delta) < 4


def test_too_few_queries_for_a_tail_decide_nothing(tmp_path: Path) -> None:
    """Of 60 queries, p99 is the largest value: no number of resamples says how large it could be."""
    values = np.arange(1.0, 61.0)
    gold, runs = two(tmp_path, values.tolist(), (values - 0.9).tolist())
    row = karat.compare(gold, runs, "latency.p99,latency.p50")["latency.p99"]
    assert row.delta == pytest.approx(-0.9)
    assert (row.difference.method, row.significant) == ("none", False)
    assert math.isnan(row.p_adjusted) and math.isnan(row.difference.low)
    assert row.document().p_adjusted is None


def test_pairs_lacking_a_latency_are_left_out_and_segments_have_their_own_quantiles(tmp_path: Path) -> None:
    queries = numbered(80)
    base = timed(tmp_path, {q: {"x": 100 + i} for i, q in enumerate(queries)}, "base.jsonl")
    cand = timed(
        tmp_path,
        {q: {"x": (100 + i if i % 2 else 90 + (i - 40) * 1.1)} if i > 1 else None for i, q in enumerate(queries)},
        "cand.jsonl",
    )
    table = {q: {"odd": str(i % 2)} for i, q in enumerate(queries)}
    found = karat.compare(gold_of(queries), {"base": base, "cand": cand}, "latency.p50", queries=table, by="odd")
    whole, even, odd = found.rows
    assert (whole.n, even.n, odd.n) == (78, 39, 39)
    # Even queries from 2 to 78: the 20th of 39 is query 40; the candidate is 50 ms faster there.
    assert (even.mean_baseline, even.mean_candidate, even.delta) == (140, 90, -50)
    assert (odd.mean_baseline, odd.delta) == (141, 0)
    assert (even.significant, odd.significant) == (True, False)


def test_the_same_seed_gives_the_same_interval_and_threads_do_not_matter(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    gold, runs = two(tmp_path, rng.exponential(9, 90).tolist(), rng.exponential(9, 90).tolist())
    one, again = (karat.compare(gold, runs, "latency.p50", threads=t)["latency.p50"].difference for t in (1, 2))
    other = karat.compare(gold, runs, "latency.p50", seed=1)["latency.p50"].difference
    assert one == again
    assert (one.low, one.high) != (other.low, other.high)


def test_all_pairs_leave_quantiles_out_and_say_so(tmp_path: Path) -> None:
    gold, runs = two(tmp_path, list(range(1, 31)), list(range(2, 32)))
    found = karat.compare(gold, runs, "latency.p50,latency.mean", all_pairs=True)
    assert list(found.pairs) == ["latency.mean"]
    assert any("latency.p50 left out" in note for note in found.notes)


def test_no_difference_is_found_more_often_than_alpha_allows() -> None:
    """Two runs with latencies of one distribution, correlated by query: 200 times, at 5%."""
    rng = np.random.default_rng(7)
    found = 0
    everything, units = np.arange(150), Units.of(150)
    for _ in range(200):
        shared = rng.exponential(20, 150)
        base, cand = (shared + rng.exponential(10, 150) for _ in range(2))
        _, p = quantile_difference(base, cand, 0.9, units, everything, levels=[0.95], resamples=400, seed=0)
        found += p < 0.05
    assert found <= 20  # 10 expected; P(more than 20 of 200 at 5%) is below .002


def test_intervals_of_a_difference_cover_it() -> None:
    """The true difference of medians is that of the shift, 3: the 90% interval holds it in 200 samples."""
    rng = np.random.default_rng(8)
    held = 0
    everything, units = np.arange(120), Units.of(120)
    for _ in range(200):
        shared = rng.normal(50, 10, 120)
        base, cand = shared + rng.normal(0, 5, 120), shared + rng.normal(0, 5, 120) + 3
        (interval,), _ = quantile_difference(base, cand, 0.5, units, everything, levels=[0.9], resamples=400, seed=0)
        held += 3 in interval
    assert held >= 168  # 180 expected; P(fewer than 168 of 200 at .9) is below .005


# --- the rest of Karat --------------------------------------------------------------------------------


def test_a_saved_result_comes_back_whole(tmp_path: Path) -> None:
    queries = numbered(30)
    run = log(
        tmp_path,
        *(
            line(q, [f"a#{i % 2}", "a#0"], latency_ms={"x": i} if i % 3 else None, cost={"t": i})
            for i, q in enumerate(queries)
        ),
    )
    names = "latency.p50,latency.p99,latency.x.mean,cost.t.sum,distinct_docs@2,redundancy@2,ndcg@5"
    table = {q: {"half": str(i // 15)} for i, q in enumerate(queries)}
    result = karat.evaluate(gold_of(queries), run, names, queries=table, by="half", details=True)
    result.save(str(tmp_path / "saved.json"))
    again = karat.load(str(tmp_path / "saved.json"))
    assert again.as_json() == result.as_json()
    assert same(list(again.per_query("latency.p50").values()), list(result.per_query("latency.p50").values()))
    assert math.isnan(again.ci["LATENCY.P99"][1])
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads((tmp_path / "saved.json").read_text()))


def test_details_keep_the_usual_depth_however_deep_a_metric_looks(tmp_path: Path) -> None:
    run = {"q": [f"d{i}#{j}" for i in range(80) for j in range(2)]}
    result = karat.evaluate({"q": {"d1": 1}}, run, "distinct_docs", details=True)
    assert result.mean["distinct_docs"] == 80
    assert len(result.runs[0].top_docs("q")) == 100


def test_a_sweep_shows_how_docs_grow_with_k() -> None:
    found = karat.sweep({"q": {"d1": 1}}, {"q": CHUNKS}, ["distinct_docs", "recall"], ks=[1, 2, 3, 5])
    assert found.curve("distinct_docs").values == [1, 1, 2, 3]
    with pytest.raises(karat.UsageError, match=r"latency\.p50 has no cutoff"):
        karat.sweep({"q": {"d1": 1}}, {"q": CHUNKS}, ["latency.p50"])


def test_a_cached_entry_is_never_taken_for_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    monkeypatch.setattr("karat.store.cache.SMALLEST", 0)
    gold = tmp_path / "gold.txt"
    gold.write_text("q1 0 a 1\n")
    run = log(tmp_path, line("q1", ["a#1", "a#2"], latency_ms={"x": 4}))
    assert karat.evaluate(gold, run, "mrr").mean["mrr"] == 1
    assert len(list(own_cache.glob("*.karat"))) == 1
    result = karat.evaluate(gold, run, "mrr,distinct_docs,latency.p50")
    assert list(result.mean.values()) == [1, 1, 4]
    assert len(list(own_cache.glob("*.karat"))) == 1
    assert karat.evaluate(gold, run, "mrr").mean["mrr"] == 1


def test_the_command_line_shows_units_and_open_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gold.txt").write_text("".join(f"{q} 0 a 1\n" for q in numbered(40)))
    runs = [
        timed(tmp_path, {q: {"x": 10 + i * slope + shift} for i, q in enumerate(numbered(40))}, f"{name}.jsonl")
        for name, slope, shift in (("one", 1, 0), ("two", 1.25, 4.25))
    ]
    arguments = [str(tmp_path / "gold.txt"), *map(str, runs), "-m", "latency.p50,latency.p95"]
    monkeypatch.setattr(sys, "argv", ["karat", "evaluate", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    shown = capsys.readouterr().out
    assert "29.00 ms" in shown and "[23.0, 36.0]" in shown
    assert ", –]" in shown  # 40 queries do not bound p95 from above
    monkeypatch.setattr(sys, "argv", ["karat", "compare", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    told = capsys.readouterr().out
    assert "latency.p50: two is worse than one, Δ +9.0 ms" in " ".join(told.split())
    assert "latency.p95: not tested (40 queries; too few for an interval)" in told


def test_relevance_metrics_load_none_of_it() -> None:
    code = (
        "import karat, sys\n"
        "result = karat.evaluate({'q': {'d': 1}}, {'q': {'d': 1.0}}); result.ci\n"
        "print([m for m in ('karat.align.needs', 'karat.read.logged', 'karat.model.items')"
        " if m in sys.modules])"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
