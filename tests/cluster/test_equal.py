"""On a cluster everything is what it is on one machine, to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import karat
from cluster_world import World, assert_same

TABLE = {"gold", "items", "item_scores", "returned", "scores", "no_answer"}
BY_NEED = {
    "subtopics": "topics",
    "embeddings": "vectors",
    "gold_embeddings": "vectors",
    "texts": "texts",
    "ontology": "terms",
}
"""What a metric needs beside gold and rows, and the group that has it; the rest are of run logs."""


def group_of(metric: karat.Metric) -> str:
    if set(metric.needs) <= TABLE:
        return "table"
    return next((BY_NEED[n] for n in metric.needs if n in BY_NEED), "log")


def name_of(metric: karat.Metric) -> str:
    special = {"latency": "latency.p95", "cost": "cost.tokens", "false_evidence": "false_evidence(threshold=0.2)@3"}
    cut = "@5" if metric.cutoff == "required" else ""
    return special.get(metric.name, f"{metric.name}{cut}")


def metrics_of(group: str) -> list[str]:
    names = [name_of(m) for m in karat.all_metrics() if group_of(m) == group]
    assert names
    return names


def both(spark: Any, gold: str, run: str, metrics: Any, local: str | None = None, **options: Any) -> karat.Result:
    """What the cluster says, which is what one machine says."""
    there = karat.evaluate(gold, run, metrics, engine=spark, **options)
    here = karat.evaluate(gold, local or run, metrics, **options)
    assert_same(there, here)
    return there


def test_every_metric_is_in_a_group() -> None:
    assert {group_of(m) for m in karat.all_metrics()} == {"table", "topics", "vectors", "texts", "terms", "log"}


def test_every_metric_of_tables_with_segments_weights_and_conversations(spark: Any, world: World) -> None:
    result = both(
        spark,
        world.path("qrels.txt"),
        world.path("parts.parquet"),
        [*metrics_of("table"), "ndcg@10", "recall@{1,3,50}", "map(norm=min)@3"],
        local=world.path("run.parquet"),
        queries=world.path("queries.jsonl"),
        by=["language"],
    )
    (run,) = result.runs
    assert run.counts["duplicates"] > 0 and run.counts["missing"] > 0 and run.counts["without_gold"] > 0
    assert any(n.startswith("counting plan: ") for n in run.notes)
    assert any(n.startswith("cogroup plan: ") for n in run.notes)


@pytest.mark.parametrize("file", ["run.trec", "run.csv", "rows.jsonl", "run.parquet"])
def test_every_format(spark: Any, world: World, file: str) -> None:
    both(spark, world.path("gold.jsonl"), world.path(file), "ndcg@10,map,hit@1,distinct_docs@5")


@pytest.mark.parametrize(
    ("group", "options"),
    [("topics", {}), ("vectors", {"embeddings": "vectors.npz"}), ("texts", {"docs": "docs.jsonl"})],
)
def test_metrics_of_lists(spark: Any, world: World, group: str, options: dict[str, str]) -> None:
    options = {name: world.path(file) for name, file in options.items()}
    gold = "topics.csv" if group != "texts" else "qrels.txt"
    names = metrics_of(group)
    both(spark, world.path(gold), world.path("parts.parquet"), names, world.path("run.parquet"), **options)


def test_terms_of_an_ontology_are_found_on_the_driver(spark: Any, world: World) -> None:
    result = both(
        spark,
        world.path("term_qrels.txt"),
        world.path("terms.parquet"),
        [*metrics_of("terms"), "hit@1"],
        world.path("terms_local.parquet"),
        ontology=world.path("terms.obo"),
    )
    assert any(n.startswith("driver plan: ") for n in result.runs[0].notes)


def test_metrics_of_run_logs(spark: Any, world: World) -> None:
    queries = {"queries": world.path("queries.jsonl")}
    both(spark, world.path("qrels.txt"), world.path("log.jsonl"), [*metrics_of("log"), "ndcg@10"], **queries)


@pytest.mark.parametrize(
    "options",
    [
        {"level": "doc"},
        {"level": "chunk"},
        {"chunk_credit": "all"},
        {},
        {"missing": "skip", "empty_gold": "zero"},
        {"like": "trec_eval"},
        {"condensed": True},
        {"score_precision": "float32"},
    ],
    ids=str,
)
@pytest.mark.parametrize("file", ["chunks", "named"])
def test_chunks_and_conventions(spark: Any, world: World, options: Any, file: str) -> None:
    local = world.path("chunks_local.parquet" if file == "chunks" else "named.parquet")
    there = world.path("chunks.parquet" if file == "chunks" else "named")
    both(spark, world.path("qrels.txt"), there, "ndcg@10,map,recall@5,judged@10", local, **options)


def test_a_repeated_doc_is_refused_where_the_policy_says_so(spark: Any, world: World) -> None:
    with pytest.raises(karat.InputError, match="returned more than once"):
        karat.evaluate(world.path("qrels.txt"), world.path("parts.parquet"), engine=spark, duplicates="error")


def test_frames_and_tables_of_spark(spark: Any, world: World) -> None:
    frame = spark.read.parquet(world.path("parts.parquet"))
    frame.createOrReplaceTempView("run_of_tests")
    gold = spark.read.option("header", "true").option("inferSchema", "true").csv(world.path("topics.csv"))
    gold = gold.select("query_id", "doc_id", "grade").groupBy("query_id", "doc_id").max("grade")
    gold = gold.withColumnRenamed("max(grade)", "grade")
    here = karat.evaluate(world.path("qrels.txt"), world.path("run.parquet"), "ndcg@10,map")
    assert_same(karat.evaluate(gold, frame, "ndcg@10,map"), here, notes=False)  # the frame knows its session
    assert_same(karat.evaluate(gold, "run_of_tests", "ndcg@10,map", engine=spark), here, notes=False)
    two = karat.evaluate(gold, {"a": frame, "b": frame}, "ndcg@10,map")
    assert [run.name for run in two.runs] == ["a", "b"]


def test_a_comparison_a_check_and_a_sweep(spark: Any, world: World) -> None:
    gold, other = world.path("qrels.txt"), world.path("run.trec")
    places = ((world.path("parts.parquet"), {"engine": spark}), (world.path("run.parquet"), {}))
    config = {"dataset": {"qrels": gold}, "metrics": ["ndcg@10", "map"], "gates": ["ndcg@10 >= 0.2"]}
    compared = [karat.compare(gold, {"a": run, "b": other}, "ndcg@10,map", **options) for run, options in places]
    checked = [karat.check({**config, "runs": {"new": run}}, **options) for run, options in places]
    swept = [karat.sweep(gold, {"run": run}, "recall", ks=[1, 5, 10], **options) for run, options in places]
    assert repr(compared[0].rows) == repr(compared[1].rows)
    assert checked[0].verdict == checked[1].verdict
    assert repr(checked[0].rows) == repr(checked[1].rows)
    assert repr(swept[0].curves) == repr(swept[1].curves)


def test_top_lists_are_those_of_one_machine(spark: Any, world: World) -> None:
    gold = world.path("qrels.txt")
    there = karat.evaluate(gold, world.path("parts.parquet"), "ndcg@10", engine=spark, details=True).runs[0]
    here = karat.evaluate(gold, world.path("run.parquet"), "ndcg@10", details=True).runs[0]
    assert there.ranked_lists == here.ranked_lists
    assert [there.top_docs(q) for q in there.query_ids] == [here.top_docs(q) for q in here.query_ids]
    assert [there.gold_docs(q) for q in there.query_ids] == [here.gold_docs(q) for q in here.query_ids]


def test_of_many_queries_some_top_lists_are_kept(
    spark: Any, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("karat.cluster.kept_lists.KEPT", 12)
    monkeypatch.setattr("karat.cluster.kept_lists.WORST", 5)
    gold = world.path("qrels.txt")
    result = karat.evaluate(gold, world.path("parts.parquet"), "ndcg@10", engine=spark, details=True)
    (there,), (here,) = result.runs, karat.evaluate(gold, world.path("run.parquet"), "ndcg@10", details=True).runs
    assert there.values["ndcg@10"].tobytes() == here.values["ndcg@10"].tobytes()
    assert there.data_notes[-1].startswith("top lists are kept of 12 of ")
    worst = np.argsort(there.values["ndcg@10"], kind="stable")[:5]
    assert there.top is not None and here.top is not None
    kept = np.flatnonzero(np.diff(there.top.offsets))
    assert len(kept) <= 12
    for i in {*worst.tolist(), *kept.tolist()}:
        assert there.top_docs(there.query_ids[i]) == here.top_docs(here.query_ids[i])
    assert there.top.returned.tolist() == here.top.returned.tolist()
    result.save(str(tmp_path / "result.json"))
    assert karat.load(tmp_path / "result.json").runs[0].mean == there.mean
    assert karat.diagnose(str(tmp_path / "result.json")) is not None


def test_components_of_a_run_log(spark: Any, world: World) -> None:
    from karat.verbs.components import with_components

    choices = {"queries": world.path("queries.jsonl"), "details": True}
    log = world.path("log.jsonl")
    there, here = (
        with_components(karat.evaluate(world.path("qrels.txt"), log, "ndcg@10", **choices, **engine))
        for engine in ({"engine": spark}, {})
    )
    assert repr(there.runs[0].components) == repr(here.runs[0].components)


def test_gold_that_is_too_large_to_send_is_brought_to_the_rows(
    spark: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("karat.cluster.remote_run.GOLD_BYTES", 10)
    monkeypatch.setattr("karat.cluster.remote_run.BUCKET", 100)
    gold, metrics = world.path("qrels.txt"), "ndcg@10,map,distinct_docs@5"
    result = both(spark, gold, world.path("parts.parquet"), metrics, world.path("run.parquet"))
    assert [n.partition(":")[0] for n in result.runs[0].notes if "plan" in n] == ["cogroup plan"]


def test_blocks_that_are_smaller_than_partitions(spark: Any, world: World) -> None:
    """A worker that holds few rows at once finds the same, also where a query's rows stand apart."""
    from karat.cluster import worker
    from karat.cluster.parts import PackedGold, decode_part
    from karat.cluster.remote_run import VERSION
    from karat.model.policy import Policy
    from karat.read.sources import read_qrels

    qrels = read_qrels(world.path("qrels.txt"))
    task = worker.Task(worker.Source("run", "columns", False), Policy(), False, 0, {}, "#", VERSION)
    whole = pq.read_table(world.path("run.parquet")).rename_columns(["query", "doc", "value"])
    work = worker.align_partitions(task, PackedGold.of(qrels))
    before, worker.BLOCK = worker.BLOCK, 50
    try:
        parts = [decode_part(one.column("data")[0].as_py()) for one in work(iter(whole.to_batches(max_chunksize=20)))]
    finally:
        worker.BLOCK = before
    assert sum(part.rows for part in parts) == whole.num_rows
    numbers = np.concatenate([part.numbers() for part in parts])
    assert len(numbers) == len(set(numbers.tolist()))  # each query in one part: rows of a query stand together


def test_explain_shows_the_plans_of_spark(spark: Any, world: World) -> None:
    result = karat.evaluate(world.path("qrels.txt"), world.path("parts.parquet"), "map", engine=spark, explain=True)
    assert sum(note.startswith("Spark's plan: ") for note in result.runs[0].data_notes) == 2
