"""Large run logs are read as columns, and mean what small ones do."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import karat
from karat.read import log_blocks, log_columns
from karat.read.log_blocks import LogColumns
from karat.read.sources import read_run

METRICS = "map,ndcg@5,p@3,recall@3,mrr,judged@10"


def results(ids: list[str], **more: Any) -> list[dict[str, Any]]:
    return [{"rank": n, "chunk_id": id, **more} for n, id in enumerate(ids, start=1)]


def random_lines(seed: int) -> list[dict[str, Any]]:
    """Lists with repeated and unjudged docs, with ranks, scores or neither, and with fields of all kinds."""
    rng = random.Random(seed)
    lines = []
    for q in range(40):
        items: list[dict[str, Any]] = []
        for n in range(rng.randrange(12)):
            doc = f"d{rng.randrange(9)}"
            item: dict[str, Any] = {"chunk_id": f"{doc}#{rng.randrange(3)}"}
            item |= {"doc_id": rng.choice([doc, "ü"])} if rng.random() < 0.5 else {}
            item |= {"rank": n + 1} if q % 3 else {}
            item |= {"score": rng.choice([1, 2.5, 3])} if q % 5 else {}
            item |= {"source": "web", "text": 'a "quoted": text'} if q % 7 == 0 else {}
            items.append(item)
        if q % 4 == 0:
            rng.shuffle(items)
        line = {"query_id": f"q{q}" if q % 9 else q, "topk": items, "system": "s", "k_raw": q % 2}
        line |= {"stages": {"first": ["a"]}, "latency_ms": {"first": 1.5}} if q % 2 else {"other": {"x": 1}}
        lines.append(line)
    return lines


LOGS: dict[str, list[Any]] = {
    "random": random_lines(1),
    "random again": random_lines(2),
    "gaps": [{"query_id": "q1", "topk": [{"rank": 2, "chunk_id": "d1#1"}, {"rank": 5, "chunk_id": "d2#1"}]}],
    "docs": [{"query_id": "q1", "topk": [{"rank": 1, "doc_id": "d1"}, {"rank": 2, "doc_id": "d2#1"}]}],
    "docs that are chunks": [
        {"query_id": "q1", "topk": [{"rank": 1, "doc_id": "d1#1"}, {"rank": 2, "doc_id": "d2#1"}]}
    ],
    "empty lists": [{"query_id": "q1", "topk": []}, {"query_id": "x", "topk": []}, {"query_id": "q2", "topk": []}],
    "facts that differ": [
        {"query_id": "q1", "topk": results(["d1#1"]), "workers": 1, "chunker": {"size": 1, "by": "word"}},
        {"query_id": "q2", "topk": results(["d2#1"]), "workers": 2, "chunker": {"by": "word", "size": 1}},
    ],
    "nulls": [{"query_id": "q1", "topk": [{"rank": None, "chunk_id": "d1#1", "doc_id": None, "score": 1}]}],
    "the original list": [
        {"query_id": "q1", "topk": [{"rank": 1, "doc_id": "d1"}], "topk_original": results(["d2#1"])}
    ],
    "wrong rank": [{"query_id": "q1", "topk": [{"rank": 0, "chunk_id": "d1#1"}]}],
    "rank twice": [{"query_id": "q1", "topk": [{"rank": 1, "chunk_id": "a"}, {"rank": 1, "chunk_id": "b"}]}],
    "no id": [{"query_id": "q1", "topk": results(["d1#1"])}, {"query_id": "q2", "topk": [{"rank": 1}]}],
    "no topk": [{"query_id": "q1", "topk": results(["d1#1"])}, {"query_id": "q2"}],
    "no query": [{"query_id": "q1", "topk": results(["d1#1"])}, {"topk": []}],
    "query twice": [{"query_id": "q1", "topk": results(["d1#1"])}, {"query_id": "q1", "topk": []}],
    "key twice": ['{"query_id": "q1", "topk": [{"rank": 1, "chunk_id": "d1#1", "chunk_id": "d2#1"}]}'],
    "key twice after another without": [
        '{"query_id": "q1", "topk": [{"rank": 1, "chunk_id": "d1#1", "score": 1, "score": 2}], "system" :"s"}'
    ],
    "key twice elsewhere": ['{"query_id": "q1", "topk": [], "cost": {"a": 1, "a": 2}}'],
    "key twice and one missing": [
        '{"query_id": "q1", "topk": [{"rank": 1, "chunk_id": "a"}, {"rank": 2, "chunk_id": "b", "rank": 2}]}'
    ],
    "breaks off": ['{"query_id": "q1", "topk": []}', '{"query_id": "q2", "topk": ['],
    "not text": ['{"query_id": "q1", "topk": [{"chunk_id": "a\\u0000b"}]}'],
    "unusual white space": ['{"query_id" : "q1",\t"topk" :[{"chunk_id" : "d1#1"}]}'],
}
GOLDS: dict[str, dict[str, dict[str, int]]] = {
    "by chunk": {f"q{q}": {"d1#1": 1, "d2#1": 2, "d3#0": 1} for q in range(12)},
    "by doc": {f"q{q}": {"d1": 1, "d2": 2, "d3": 1, "ü": 1} for q in range(12)} | {"9": {"d1": 1}},
}


def measure(gold: Any, path: Path, metrics: str = METRICS, **options: Any) -> Any:
    """Everything that is said of a run, or the error."""
    try:
        result = karat.evaluate(gold, str(path), metrics, cache=False, **options)
    except karat.KaratError as error:
        return str(error)
    run = result.runs[0]
    rows = [tuple("nan" if v != v else v for v in row) for row in result.rows()]
    return rows, run.counts, run.facts, list(run.facts), run.notes, run.gold_level, run.name


@pytest.mark.parametrize("block", [1, 30_000])
@pytest.mark.parametrize("gold", GOLDS)
@pytest.mark.parametrize("log", LOGS)
def test_a_log_read_as_columns_means_the_same(
    log: str, gold: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.jsonl"
    lines = [line if isinstance(line, str) else json.dumps(line) for line in LOGS[log]]
    path.write_text("\n".join(lines))
    choices: list[dict[str, Any]] = [{}, {"level": "doc"}, {"level": "chunk"}, {"chunk_credit": "all", "threads": 2}]
    targets = [measure(GOLDS[gold], path, **options) for options in choices]
    monkeypatch.setattr(log_blocks, "LARGE", 0)
    monkeypatch.setattr(log_columns, "BLOCK", block)
    assert [measure(GOLDS[gold], path, **options) for options in choices] == targets


def line(query_id: str, ids: list[str], *more: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A line whose results have further fields."""
    items = [item | extra for item, extra in zip(results(ids), (*more, *[{}] * len(ids)), strict=False)]
    return {"query_id": query_id, "topk": items, **fields}


DAY, LATE = {"doc_version": "2025-01-01", "score": 2.5}, {"doc_version": "2026-01-01", "score": 1}
FULL: dict[str, list[Any]] = {
    "all fields": [
        line("q1", ["d1#1", "d1#2", "d2#1"], DAY, LATE, DAY, latency_ms={"a": 0.1, "b": 0.2, "c": 0.3}, cost={"T": 1}),
        line("q2", ["d2#1", "d2#1", "d3#0"], LATE, DAY, latency_ms={"total": 7, "a": 1}, cost={"t": 2.5}),
        line("q3", [], latency_ms={"B": 4}, cost={}),
        line("x", ["d1#1", "d1#0"], DAY, DAY, latency_ms={"c": 1}, cost={"t": 3}),
    ],
    "some fields": [line("q1", ["d1#1"], DAY, latency_ms={"a": 1}, cost={"t": 1}), line("q2", ["d2#1"])],
    "no fields": [line("q1", ["d1#1"]), line("q2", ["d2#1"])],
    "names that differ in case": [line("q1", ["d1#1"], DAY, latency_ms={"a": 1, "A": 2}, cost={"t": 1, "T": 1})],
    "too much": [line("q1", ["d1#1"], DAY, latency_ms={"a": 1e308, "b": 1e308}, cost={"t": 1e308})],
    "negative": [line("q1", ["d1#1"], DAY, latency_ms={"a": -1}, cost={"t": -1})],
    "not an object": [line("q1", ["d1#1"], DAY, latency_ms=[1], cost="free")],
    "not a date": [line("q1", ["d1#1"], {"doc_version": "soon", "score": 1}, latency_ms={"a": 1}, cost={"t": 1})],
    "a year": [line("q1", ["d1#1"], {"doc_version": 20250101}, latency_ms={"a": 1}, cost={"t": 1})],
    "a stage that is not a list": [line("q1", ["d1#1"], stages={"first": 5})],
    "scores alone": [{"query_id": "q1", "topk": [{"chunk_id": "d1#1", "score": 3}, {"chunk_id": "d2#1", "score": 2}]}],
    "scores that rise": [{"query_id": "q1", "topk": [{"chunk_id": "a", "score": 1}, {"chunk_id": "d1#1", "score": 2}]}],
    "equal scores": [{"query_id": "q1", "topk": [{"chunk_id": "a", "score": 2}, {"chunk_id": "d1#1", "score": 2}]}],
    "no order": [{"query_id": "q1", "topk": [{"chunk_id": "a"}, {"chunk_id": "d1#1"}]}],
    "chunks and docs": [{"query_id": "q1", "topk": [{"rank": 1, "doc_id": "d1"}, {"rank": 2, "chunk_id": "d2#1"}]}],
    "two objects on a line": ['{"query_id": "q1", "topk": []} {"query_id": "q2",', '"topk": []}'],
    "an object on two lines": ['{"query_id": "q1",', '"topk": []}'],
    "blank lines": ['{"query_id": "q1", "topk": []}', "", "  ", '{"query_id": "q2", "topk": []}\r', ""],
    "escapes": [line('q"1\\', ["d1#1", 'a"b', "c\\"], query='a \\ ": b', other={'x"': 1}), line("q2", ["x\ny"])],
    "facts in objects": [line("q1", ["d1#1"], chunker={"a": {"b": 1}}), line("q2", ["d2#1"], workers=3)],
    "a fact with a key twice": ['{"query_id": "q1", "topk": [], "chunker": {"a": 1, "a": 2}}'],
    "another key twice": ['{"query_id": "q1", "topk": [], "text": {"a": 1, "a": 2}}'],
    "bytes that are not text": ['{"query_id": "q1", "topk": [], "text": "\udcff"}'],
}
BESIDE = (
    "latency.p50",
    "latency.a.mean",
    "cost.t",
    "distinct_docs@3",
    "redundancy@2",
    "empty_results",
    "score_spread@3",
    "fresh@3",
    "mrr,map",
)


@pytest.mark.parametrize("metrics", [*BESIDE, ",".join(BESIDE), None])
@pytest.mark.parametrize("log", FULL)
def test_what_metrics_need_beside_lists_is_the_same_in_columns(
    log: str, metrics: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.jsonl"
    lines = [line if isinstance(line, str) else json.dumps(line) for line in FULL[log]]
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    queries = {f"q{n}": {"as_of": "2025-06-01"} for n in range(1, 4)} | {"x": {"as_of": "2025-06-01"}}
    golds = [GOLDS["by doc"], {"q1": {"d1#1": 1}, "q2": {"d2#1": 1}}]
    targets = [measure(gold, path, metrics, queries=queries) for gold in golds]  # type: ignore[arg-type]
    monkeypatch.setattr(log_blocks, "LARGE", 0)
    monkeypatch.setattr(log_blocks, "IN_MEMORY", 1)
    monkeypatch.setattr(log_columns, "BLOCK", 1)
    assert [measure(gold, path, metrics, queries=queries) for gold in golds] == targets  # type: ignore[arg-type]


CHILD = """
import resource, sys
import karat
karat.evaluate({"q1": {"d1": 1}}, sys.argv[1], sys.argv[2], cache=False, memory="50MB")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are in other units elsewhere")
@pytest.mark.parametrize("metrics", ["mrr", "mrr,latency.p90,distinct_docs@1"])
def test_the_memory_that_a_log_takes_does_not_grow_with_its_lists(metrics: str, tmp_path: Path) -> None:
    """Read whole, a log takes more memory than its own size: here, 150 MB more for the larger one."""
    peaks = []
    for size in (400, 4000):  # results of each query
        path = tmp_path / f"{size}.jsonl"
        with path.open("w") as file:
            for q in range(100):
                ids = [f"a-doc-with-a-name-{q * size + n}#1" for n in range(size)]
                file.write(json.dumps(line(f"q{q}", ids, latency_ms={"a": 1})) + "\n")
        done = subprocess.run([sys.executable, "-c", CHILD, path, metrics], capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout) * 1024)
    assert path.stat().st_size > log_blocks.LARGE
    assert peaks[1] - peaks[0] < path.stat().st_size


def test_regular_lines_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.jsonl"
    items = results(["d1#1", "d2#1"], doc_id="d1", score=1.5, doc_version="2025-01-01", source="é", title="t")
    whole = {"query_id": "q1", "topk": items, "stages": {"a": ["x"]}, "cost": {"t": 1}, "system": "s", "note": "n"}
    path.write_text(json.dumps(whole, ensure_ascii=False))
    monkeypatch.setattr(log_blocks, "LARGE", 0)
    monkeypatch.setattr(log_columns, "decode_line", lambda raw: pytest.fail("decoded again"))
    run = read_run(path, log_parts=())
    assert isinstance(run.content, LogColumns)
    assert run.facts == {"system": "s"}
    assert run.content.everything().doc.texts() == ["d1#1", "d2#1"]


def test_what_else_a_log_holds_is_read_where_it_matters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"query_id": "q1", "topk": results(["d1#1"]), "latency_ms": {"a": 2}}))
    monkeypatch.setattr(log_blocks, "LARGE", 0)
    gold = {"q1": {"d1": 1}}
    assert karat.evaluate(gold, str(path), "latency.p50", cache=False).mean["latency.p50"] == 2
    assert karat.evaluate(gold, str(path), "mrr", cache=False, details=True).runs[0].log is not None
