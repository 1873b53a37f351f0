"""A saved result is the result: what is read back gives every answer that the fresh one gives."""

from __future__ import annotations

import gc
import gzip
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import karat
from command import run_karat
from karat.results.result import Result
from karat.results.saved import load_baseline, load_saved, read_saved, save
from places import KETTLE, SUPPORT

OLD = SUPPORT / "version_1"


def kettle(**options: Any) -> Result:
    runs = {"keyword": KETTLE / "keyword.run", "dense": KETTLE / "dense.jsonl"}
    metrics = ["ndcg@10", "recall@5", "num_ret", "gm_map", "judged@10"]
    known = {"queries": KETTLE / "queries.jsonl", "by": "topic", "details": True}
    return karat.evaluate(KETTLE / "qrels.tsv", runs, metrics, **{**known, **options})


def again(result: Result, folder: Path) -> Result:
    result.save(str(folder / "again.json"))
    return karat.load(str(folder / "again.json"))


def assert_same(one: Result, two: Result) -> None:
    assert one.as_json() == two.as_json()
    assert one.texts == two.texts
    assert one.fingerprints == two.fingerprints
    for a, b in zip(one.runs, two.runs, strict=True):
        assert list(a.query_ids) == list(b.query_ids)
        assert a.values.keys() == b.values.keys()
        for name in a.values:
            np.testing.assert_array_equal(a.values[name], b.values[name])  # bit by bit, NaN included
        assert a.attainable == b.attainable
        assert (a.gold_level, a.policy, a.sampling) == (b.gold_level, b.policy, b.sampling)
        assert [a.top_docs(q) for q in a.query_ids] == [b.top_docs(q) for q in b.query_ids]
        assert [a.gold_docs(q) for q in a.query_ids] == [b.gold_docs(q) for q in b.query_ids]
        np.testing.assert_array_equal(a.judged, b.judged)
        assert (a.log is None) == (b.log is None)
        if a.log is not None and b.log is not None:
            assert a.log.traces == b.log.traces
            assert (a.log.name, a.log.path, a.log.lines, a.log.problems) == (
                *(b.log.name, b.log.path, b.log.lines, b.log.problems),
            )


@pytest.mark.parametrize("options", [{}, {"details": False}, {"by": None}, {"queries": None, "by": None}])
def test_what_is_read_back_is_what_was_saved(tmp_path: Path, options: dict[str, Any]) -> None:
    result = kettle(**options)
    assert_same(result, again(result, tmp_path))


@pytest.mark.parametrize("convention", ["condensed", "binary", "ignore_self"])
def test_conventions_are_read_back_too(tmp_path: Path, convention: str) -> None:
    result = kettle(**{convention: True})
    loaded = again(result, tmp_path)
    assert getattr(loaded.runs[0].policy, convention) is True
    assert_same(result, loaded)


DOCS = [f"d{i}#{j}" for i in range(4) for j in range(2)]
GOLD = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]),
    st.dictionaries(st.sampled_from([*DOCS, "d1", "d2"]), st.sampled_from([-1, 0, 0.5, 1, 2.25]), min_size=1),
    min_size=1,
)
RUN = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3", "q4"]),
    st.dictionaries(st.sampled_from(DOCS), st.floats(-5, 5, allow_nan=False), max_size=8),
    min_size=1,
)


@given(gold=GOLD, run=RUN, level=st.sampled_from(["auto", "doc", "chunk"]), credit=st.sampled_from(["first", "all"]))
def test_rankings_read_back_measure_the_same(
    tmp_path_factory: pytest.TempPathFactory, gold: Any, run: Any, level: str, credit: str
) -> None:
    assume(gold.keys() & run.keys())
    metrics = ["precision@3", "ndcg", "judged@5", "map"]
    try:
        result = karat.evaluate(gold, {"run": run}, metrics, level=level, chunk_credit=credit, details=True)
    except karat.InputError:  # --level doc refuses gold that names chunks
        assume(level != "doc")
        raise
    loaded = again(result, tmp_path_factory.mktemp("record"))
    assert_same(result, loaded)
    from karat.metrics.grammar import parse

    for name in metrics:
        assert loaded.runs[0].rankings is not None
        np.testing.assert_array_equal(parse(name)(loaded.runs[0].rankings), result.runs[0].values[name])


def test_comparisons_gates_sweeps_and_diagnoses_of_a_saved_result_are_those_of_the_fresh_one(tmp_path: Path) -> None:
    fresh = kettle()
    saved = again(fresh, tmp_path)
    gates = ["recall@5 >= 0.5", "ndcg@10 no worse than baseline by 0.05 for every topic"]
    verbs: list[Callable[[Result], Any]] = [
        lambda r: karat.check(r, gates, baseline="keyword").as_json(),
        lambda r: karat.diagnose(r, "dense").as_json(),
        lambda r: karat.sweep(r, metrics=["recall", "ndcg"]).as_json(),
    ]
    for verb in verbs:
        assert verb(fresh) == verb(saved)


def test_a_sweep_of_a_result_is_that_of_its_files(tmp_path: Path) -> None:
    runs = {"keyword": KETTLE / "keyword.run", "dense": KETTLE / "dense.jsonl"}
    options = {"queries": KETTLE / "queries.jsonl", "by": "topic"}
    expected = karat.sweep(KETTLE / "qrels.tsv", runs, ["recall", "ndcg"], **options)
    result = kettle(details=False)
    result.save(str(tmp_path / "r.json"))
    assert karat.sweep(result, metrics=["recall", "ndcg"]).as_json() == expected.as_json()
    assert karat.sweep(str(tmp_path / "r.json"), metrics=["recall", "ndcg"]).as_json() == expected.as_json()


def test_a_metric_that_rankings_cannot_tell_is_refused_for_a_result() -> None:
    with pytest.raises(karat.UsageError, match=r"distinct_docs@\d+ needs items.*evaluate"):
        karat.sweep(kettle(), metrics=["distinct_docs"])


LINES: list[dict[str, Any]] = [
    {
        "query_id": "q1",
        "system": "one",
        "topk": [
            {"chunk_id": "d1#0", "doc_id": "d1", "rank": 1, "score": 0.5, "doc_version": "2024-01-02"},
            {"chunk_id": "d2#3", "rank": 2},
        ],
        "stages": {"retrieve": ["d1#0", "d2#3", "d7#1"], "rerank": ["d1#0"]},
        "latency_ms": {"retrieve": 12.5, "total": 20},
        "route": "wiki",
        "query": "a question",
        "rewritten_query": "another one",
        "topk_original": [{"doc_id": "d9"}],
        "entities": ["x", "y"],
    },
    {"query_id": "q2", "system": "two", "topk": [], "retrieved": False, "cost": {"tokens": 7}},
    {"query_id": "q3", "topk": [{"doc_id": "d3"}], "stages": {"rerank": []}, "latency_ms": {"total": 3}},
]


def test_a_run_log_is_saved_with_its_traces(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    gold = {"q1": {"d1": 1}, "q3": {"d3": 1}}
    result = karat.evaluate(gold, tmp_path / "log.jsonl", "mrr", details=True)
    assert result.runs[0].log is not None
    loaded = again(result, tmp_path)
    assert_same(result, loaded)
    trace = loaded.runs[0].log.traces["q1"]  # type: ignore[union-attr]
    assert trace.stages == {"retrieve": ("d1#0", "d2#3", "d7#1"), "rerank": ("d1#0",)}
    assert trace.topk[0].doc_version == "2024-01-02"  # type: ignore[index]
    assert trace.latency_ms == {"retrieve": 12.5, "total": 20}


def test_a_result_is_plain_data() -> None:
    result = kettle()
    assert_same(result, pickle.loads(pickle.dumps(result)))


def test_names_that_are_no_utf_8_are_read_back(tmp_path: Path) -> None:
    odd = "run \udc80 §"
    result = karat.evaluate({"q": {"d": 1}}, {odd: {"q": {"d": 1.0}}}, "mrr", details=True)
    assert again(result, tmp_path).runs[0].name == odd


def test_undefined_values_are_null_and_come_back_undefined(tmp_path: Path) -> None:
    result = karat.evaluate({"q1": {"d": 1}, "q2": {"d": 1}}, {"r": {"q1": {"d": 1.0}}}, "judged@5", missing="zero")
    result.save(str(tmp_path / "r.json"))
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["runs"][0]["record"]["values"] == {"judged@5": [1.0, None]}
    assert np.isnan(karat.load(str(tmp_path / "r.json")).per_query("judged@5")["q2"])


def test_a_doc_is_named_once_however_many_lists_it_is_in(tmp_path: Path) -> None:
    gold = {f"q{i}": {"a-very-long-name-of-a-doc": 1} for i in range(50)}
    run = {q: {"a-very-long-name-of-a-doc": 1.0} for q in gold}
    karat.evaluate(gold, {"a": run, "b": run}, "mrr", details=True).save(str(tmp_path / "r.json"))
    assert (tmp_path / "r.json").read_text().count("a-very-long-name") == 1


def test_provenance_is_saved_and_is_no_part_of_the_fingerprints(tmp_path: Path) -> None:
    result = kettle()
    result.save(str(tmp_path / "r.json"), label="nightly")
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["provenance"]["label"] == "nightly"
    assert document["provenance"]["karat"] == karat.__version__
    assert document["provenance"]["time"].endswith("+00:00")
    assert "provenance" not in result.as_json()
    loaded = karat.load(str(tmp_path / "r.json"))
    assert loaded.fingerprints == result.fingerprints
    loaded.save(str(tmp_path / "copy.json"))  # a copy says when the result was made, not when it was copied
    assert (tmp_path / "copy.json").read_bytes() == (tmp_path / "r.json").read_bytes()


def change(path: list[str | int], value: Any) -> Callable[[dict[str, Any]], None]:
    def apply(document: dict[str, Any]) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return apply


RUN_0: list[str | int] = ["runs", 0, "record"]
DAMAGES = {
    "a number of a doc that does not exist": change([*RUN_0, "top", "docs", 0], 10_000),
    "a negative number of a doc": change([*RUN_0, "top", "docs", 0], -1),
    "a value missing": change([*RUN_0, "values", "recall@5"], [0.5]),
    "a rank missing": change([*RUN_0, "gold_ranks"], [1, 2]),
    "a negative rank": change([*RUN_0, "rankings", "first", "ranks", 0], -3),
    "counts that do not add up": change([*RUN_0, "top", "listed", 0], 7_000),
    "a gold that does not exist": change([*RUN_0, "gold"], 3),
    "a field of queries too short": change(["record", "queries", "fields", "topic"], ["x"]),
    "a stage with a doc that does not exist": change(["runs", 1, "record", "log", "topk", "docs", 0], 10_000),
    "a list of the log too short": change(["runs", 1, "record", "log", "topk", "ranks"], [1]),
    "text for a number": change(["runs", 0, "counts", "queries"], "many"),
    "a field that nobody knows": change(["extra"], 1),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_by_its_name(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "r.json"
    kettle().save(str(path))
    document = json.loads(path.read_text())
    DAMAGES[damage](document)
    path.write_text(json.dumps(document))
    with pytest.raises(karat.InputError, match=r"r\.json: is damaged \(.*evaluate again with --save"):
        karat.load(str(path))


@pytest.mark.parametrize("part", [0, 1, 100, 2000])
def test_half_a_file_is_refused_by_its_name(tmp_path: Path, part: int) -> None:
    path = tmp_path / "r.json"
    kettle().save(str(path))
    path.write_bytes(path.read_bytes()[:part])
    refusal = (
        r"is damaged: the JSON breaks off .*; evaluate again" if part >= 100 else "is not a saved result; expected"
    )
    with pytest.raises(karat.InputError, match=rf"r\.json: {refusal}"):
        karat.load(str(path))


MRR = [*RUN_0, "values", "mrr"]
MEAN = "the values of mrr of run do not give its mean"
IMPOSSIBLE = {
    "an infinite value": (change([*MRR, 0], "Infinity"), ""),
    "a value above 1": (change([*MRR, 0], 5.0), 'mrr of query "q1" is 5, expected 0 to 1'),
    "a value below 0": (change([*MRR, 0], -0.5), 'mrr of query "q1" is -0.5, expected 0 to 1'),
    "a value as text": (change([*MRR, 0], "0.95"), ""),
    "a value that is true": (change([*MRR, 0], True), ""),
    "another value": (change([*MRR, 0], 0.25), MEAN),
    "another mean": (change(["runs", 0, "metrics", "mrr", "mean"], 0.99), MEAN),
    "another number of queries": (change(["runs", 0, "metrics", "mrr", "n"], 9), MEAN),
    "a metric without a mean": (change([*RUN_0, "values", "map"], [1, 1]), "the metrics of run are not those"),
    "a query twice": (change([*RUN_0, "query_ids", 1], "q1"), "a query of run appears twice"),
    "no runs": (change(["runs"], []), "it holds no runs"),
    "a rank of 0": (change([*RUN_0, "rankings", "first", "ranks", 0], 0), "expected ranks from 1 on"),
    "a confidence of 5": (
        change(["record", "sampling", 0, "confidence"], 5.0),
        "a confidence between 0 and 1, found 5",
    ),
}


@pytest.mark.parametrize("damage", IMPOSSIBLE)
def test_what_cannot_be_is_refused_by_its_file_and_never_ships(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "r.json"
    karat.evaluate({"q1": {"x": 1}, "q2": {"y": 1}}, {"q1": ["x"], "q2": ["z", "y"]}, "mrr", details=True).save(
        str(path)
    )
    document = json.loads(path.read_text())
    apply, message = IMPOSSIBLE[damage]
    apply(document)
    path.write_text(json.dumps(document).replace('"Infinity"', "Infinity"))
    with pytest.raises(karat.InputError, match=rf"r\.json: is damaged.*{re.escape(message)}.*evaluate again"):
        karat.load(str(path))
    assert run_karat("check", "--result", str(path), "-g", "mrr >= 0.1").returncode == 2


def test_a_result_without_fingerprints_is_read_and_not_compared(tmp_path: Path) -> None:
    path, other = tmp_path / "saved.json", tmp_path / "other.json"
    gold, runs = {"q1": {"x": 1}, "q2": {"y": 1}}, {"q1": ["x"], "q2": ["z", "y"]}
    karat.evaluate(gold, runs, "mrr", details=True).save(str(path))
    document = json.loads(path.read_text("utf-8"))
    document["fingerprints"]["metrics"] = {}
    other.write_text(json.dumps(document), "utf-8")
    assert karat.load(str(other)).mean["mrr"] == 0.75
    with pytest.raises(karat.NotComparable, match="the definition of mrr"):
        karat.compare(str(path), str(other))
    del document["fingerprints"]
    other.write_text(json.dumps(document), "utf-8")
    with pytest.raises(karat.NotComparable, match="gold"):
        karat.compare(str(path), str(other))


def test_a_document_without_values_says_how_to_save_them(tmp_path: Path) -> None:
    path = tmp_path / "check.json"
    path.write_text(json.dumps(kettle().as_json()))
    for read in (karat.load, karat.write_report):
        with pytest.raises(karat.InputError, match=r"check\.json: holds figures without their queries.*--save FILE"):
            read(str(path))


def test_a_version_of_the_future_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps({**kettle().as_json(), "format_version": 3}))
    with pytest.raises(karat.InputError, match="has format version 3, expected 2"):
        karat.load(str(path))


def test_results_of_version_1_are_read() -> None:
    old, fresh = karat.load(str(OLD / "result.json.gz")), kettle()
    for name in ("keyword", "dense"):
        a, b = old[name], fresh[name]
        assert list(a.query_ids) == list(b.query_ids)
        for metric in ("ndcg@10", "recall@5"):
            assert a.mean[metric] == pytest.approx(b.mean[metric], rel=1e-11)
            assert a.ci[metric] == pytest.approx(b.ci[metric], rel=1e-9)
        assert [a.gold_docs(q) for q in a.query_ids] == [b.gold_docs(q) for q in b.query_ids]
        assert [a.top_docs(q) for q in a.query_ids] == [b.top_docs(q) for q in b.query_ids]
        assert a.attainable == pytest.approx({m: v for m, v in b.attainable.items() if m in a.values})
        assert [s.judged for s in a.segments] == pytest.approx([s.judged for s in b.segments], nan_ok=True)
        assert a.rankings is not None and b.rankings is not None
        for column in ("query", "rank", "grade", "returned", "gold_query", "gold_grade"):
            np.testing.assert_array_equal(getattr(a.rankings, column), getattr(b.rankings, column))
    assert old.texts == fresh.texts
    assert old.fingerprints.gold == fresh.fingerprints.gold
    assert old.fingerprints.queries == fresh.fingerprints.queries


def test_a_result_of_version_1_without_lists_is_read() -> None:
    old = karat.load(str(OLD / "values.json"))
    assert old.runs[0].top is None and old.runs[0].rankings is None
    fresh = karat.evaluate(
        KETTLE / "qrels.tsv",
        KETTLE / "keyword.run",
        "ndcg@10,precision@5",
        queries=KETTLE / "queries.jsonl",
        by="topic",
    )
    assert old.mean == pytest.approx(dict(fresh.mean), rel=1e-11)
    assert [s.judged for s in old.segments] == pytest.approx([s.judged for s in fresh.segments], nan_ok=True)
    with pytest.raises(karat.ResultError, match="holds no gold"):
        len(old.runs[0].qrels)


def test_lists_of_chunks_of_version_1_are_read() -> None:
    run = karat.load(str(OLD / "chunks.json")).runs[0]
    assert run.top_docs("q1") == [("d2#0", None, 2.0), ("d9#1", None, None), ("d2#3", None, 2.0), ("d1#0", None, 1.0)]
    assert run.gold_docs("q1") == [("d1", 1.0, 4), ("d2", 2.0, 1)]


def test_a_check_of_version_1_is_read_with_its_gates_and_comparisons() -> None:
    saved = load_saved(str(OLD / "check.json.gz"))
    assert saved.document.verdict == "SHIP"
    assert [g.metric for g in saved.document.gates or ()] == ["recall@5", "ndcg@10"]
    assert {c.candidate for c in saved.document.comparisons or ()} == {"dense"}
    assert [r.name for r in saved.result.runs] == ["keyword", "dense"]


def test_baselines_of_version_1_are_read_and_still_compared_with() -> None:
    base = load_baseline(str(OLD / "baseline.json"))
    assert base.mean["ndcg@10"] == pytest.approx(kettle()["keyword"].mean["ndcg@10"], rel=1e-11)
    found = karat.check(kettle(), "ndcg@10 no worse than baseline by 0.9", baseline=str(OLD / "baseline.json"))
    assert found.verdict == "SHIP"
    weighted = load_baseline(str(OLD / "weighted.json"))
    assert weighted.runs[0].sampling.weights["q1"] == 2


def test_a_result_of_version_1_is_saved_in_this_version(tmp_path: Path) -> None:
    old = karat.load(str(OLD / "result.json.gz"))
    old.save(str(tmp_path / "new.json.gz"))
    assert json.loads(gzip.decompress((tmp_path / "new.json.gz").read_bytes()))["format_version"] == 2
    assert karat.load(str(tmp_path / "new.json.gz")).as_json() == old.as_json()


def test_a_result_is_saved_at_a_path_of_either_kind(tmp_path: Path) -> None:
    result = kettle()
    result.save(tmp_path / "a.json.gz")
    assert_same(result, karat.load(str(tmp_path / "a.json.gz")))


def test_saving_and_loading_look_for_no_garbage(tmp_path: Path) -> None:
    gold = {f"q{i}": {f"d{i}": 1} for i in range(3_000)}
    result = karat.evaluate(gold, {"run": {q: list(docs) for q, docs in gold.items()}}, "mrr", details=True)
    document = result.document()
    looks: list[str] = []

    def look(phase: str, _: object) -> None:
        looks.append(phase)

    gc.callbacks.append(look)
    try:
        save(document, result, str(tmp_path / "saved.json"))
        data = (tmp_path / "saved.json").read_bytes()
        during = len(looks)
        read_saved(data, "saved.json")
    finally:
        gc.callbacks.remove(look)
    assert during <= 2  # one look, afterwards
    assert len(looks) <= 4
    assert gc.isenabled()
