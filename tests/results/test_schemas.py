"""What Karat writes is what the published schemas describe, and what they refuse Karat refuses."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import jsonschema
import pytest

import karat
from karat.config.reading import read_config
from places import KETTLE, SCHEMAS

LOG = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "run-log.schema.json").read_text()))
RESULT = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "result.schema.json").read_text()))


def test_results_follow_their_schema(tmp_path: Path) -> None:
    result = karat.evaluate(
        KETTLE / "qrels.tsv",
        [KETTLE / "keyword.run", KETTLE / "dense.jsonl"],
        ["num_ret", "gm_map", "judged@5", "precision@5"],
        details=True,
        missing="skip",
    )
    RESULT.validate(json.loads(json.dumps(result.as_json())))
    result.save(str(tmp_path / "r.json.gz"))
    RESULT.validate(json.loads(gzip.decompress((tmp_path / "r.json.gz").read_bytes())))


def test_comparisons_and_segments_follow_the_schema_too() -> None:
    runs = {"keyword": KETTLE / "keyword.run", "dense": KETTLE / "dense.jsonl"}
    found = karat.compare(
        KETTLE / "qrels.tsv",
        runs,
        "ndcg@10,mrr",
        queries=KETTLE / "queries.jsonl",
        by="topic",
        margin=0.1,
        all_pairs=True,
        replicates=runs,
    )
    RESULT.validate(json.loads(json.dumps(found.as_json(), allow_nan=False)))


def test_sweeps_follow_the_schema_too() -> None:
    found = karat.sweep(KETTLE / "qrels.tsv", KETTLE / "keyword.run")
    RESULT.validate(json.loads(json.dumps(found.as_json(), allow_nan=False)))


def test_the_example_log_follows_its_schema() -> None:
    for line in (KETTLE / "dense.jsonl").read_text().splitlines():
        LOG.validate(json.loads(line))


@pytest.mark.parametrize(
    "line",
    [
        {"topk": []},
        {"query_id": 1.5, "topk": []},
        {"query_id": "q"},
        {"query_id": "q", "topk": [{"score": 1}]},
        {"query_id": "q", "topk": [{"doc_id": 1.5}]},
        {"query_id": "q", "topk": [{"doc_id": "a", "rank": 0}]},
        {"query_id": "q", "topk": [{"doc_id": "a", "rank": "first"}]},
        {"query_id": "q", "topk": [{"doc_id": "a", "score": "high"}]},
        {"query_id": "q", "topk": {"doc_id": "a"}},
    ],
)
def test_schema_and_reader_refuse_the_same_lines(tmp_path: Path, line: dict[str, object]) -> None:
    assert not LOG.is_valid(line)
    good = {"query_id": "first", "topk": [{"doc_id": "a"}]}
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(good) + "\n" + json.dumps(line) + "\n")
    with pytest.raises(karat.InputError, match=r"log\.jsonl:2"):
        karat.evaluate({"q": {"a": 1}}, path, "mrr")


CONFIG = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "config.schema.json").read_text()))
GOOD = [
    {"dataset": {"qrels": "q"}, "runs": "*.run", "gates": ["mrr >= 0.5"]},
    {
        "dataset": {"qrels": "q", "queries": "x"},
        "runs": {"a": "b"},
        "baseline": "a",
        "candidate": ["a"],
        "metrics": "mrr",
        "segments": "language",
        "confidence": 0.9,
    },
    {"runs": ["a", "b"], "segments": {"by": ["a,b"], "minimum": 5}, "confidence": {"correction": "bonferroni"}},
    {
        "gates": [
            {"metric": "mrr", "min": 0.5, "where": {"a": "b"}, "level": "warn"},
            {"warn": "mrr > 0"},
            {"gate": "mrr > 0", "name": "x"},
            {"metric": "latency.p50", "max": "60ms"},
        ]
    },
    {"outputs": {"json": "a", "report_url": "https://x"}, "engine": {"memory": "2GB", "threads": 2}},
    {"retrieval_metrics": {"enabled_metrics": ["mrr"], "performance": {"batch_size": 5}}},
]
BAD = [
    {"gats": []},
    {"dataset": {}},
    {"gates": ["mrr > 0", 3]},
    {"gates": [{"metric": "mrr", "mni": 3}]},
    {"confidence": {"level": 2}},
    {"segments": {"minimum": 0}},
    {"version": 2},
    {"conventions": {"like": "x"}},
    {"outputs": {"jsn": "x"}},
    {"engine": {"threads": 0}},
]


@pytest.mark.parametrize("config", GOOD)
def test_schema_and_reader_take_the_same_configs(config: dict[str, object]) -> None:
    CONFIG.validate(config)
    read_config(config)


@pytest.mark.parametrize("config", BAD)
def test_schema_and_reader_refuse_the_same_configs(config: dict[str, object]) -> None:
    assert not CONFIG.is_valid(config)
    with pytest.raises(karat.InputError):
        read_config(config)


def test_checks_and_baselines_follow_the_schema(tmp_path: Path) -> None:
    runs = {"keyword": KETTLE / "keyword.run", "dense": KETTLE / "dense.jsonl"}
    result = karat.evaluate(KETTLE / "qrels.tsv", runs, "ndcg@10,mrr", queries=KETTLE / "queries.jsonl", by="topic")
    gates = ["mrr >= 0.5", "ndcg@10 no worse than baseline by 2%", "warn: mrr > 0 for every topic", "mrr > 0 on dense"]
    found = karat.check(result, gates, baseline="keyword")
    RESULT.validate(json.loads(json.dumps(found.as_json(), allow_nan=False)))
    path = karat.bless(result, str(tmp_path / "base.json"), run="dense")
    RESULT.validate(json.loads(Path(path).read_text("utf-8")))
    again = karat.check(result, "mrr no worse than baseline", baseline=path, candidate="keyword")
    RESULT.validate(json.loads(json.dumps(again.as_json(), allow_nan=False)))
