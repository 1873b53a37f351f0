"""What Karat writes is what the published schemas describe, and what they refuse Karat refuses."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import jsonschema
import pytest

import karat
from karat.cli.demo import EXAMPLE

SCHEMAS = Path(__file__).parents[1] / "docs" / "schemas"
LOG = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "run-log.schema.json").read_text()))
RESULT = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "result.schema.json").read_text()))


def test_results_follow_their_schema(tmp_path: Path) -> None:
    result = karat.evaluate(EXAMPLE / "qrels.tsv", [EXAMPLE / "keyword.run", EXAMPLE / "dense.jsonl"],
                            ["num_ret", "gm_map", "judged@5", "precision@5"], details=True, missing="skip")  # fmt: skip
    RESULT.validate(json.loads(json.dumps(result.as_json())))
    result.save(str(tmp_path / "r.json.gz"))
    RESULT.validate(json.loads(gzip.decompress((tmp_path / "r.json.gz").read_bytes())))


def test_comparisons_and_segments_follow_the_schema_too() -> None:
    runs = {"keyword": EXAMPLE / "keyword.run", "dense": EXAMPLE / "dense.jsonl"}
    found = karat.compare(EXAMPLE / "qrels.tsv", runs, "ndcg@10,mrr", queries=EXAMPLE / "queries.jsonl", by="topic",
                          margin=0.1, all_pairs=True, replicates=runs)  # fmt: skip
    RESULT.validate(json.loads(json.dumps(found.as_json(), allow_nan=False)))


def test_sweeps_follow_the_schema_too() -> None:
    found = karat.sweep(EXAMPLE / "qrels.tsv", EXAMPLE / "keyword.run")
    RESULT.validate(json.loads(json.dumps(found.as_json(), allow_nan=False)))


def test_the_example_log_follows_its_schema() -> None:
    for line in (EXAMPLE / "dense.jsonl").read_text().splitlines():
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
