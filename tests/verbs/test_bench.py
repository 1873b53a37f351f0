"""Benchmarks: run logs that a stop cannot spoil, datasets from anywhere, results as evaluate gives them, languages."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import karat
from command import run_karat
from forks import Forks
from karat.errors import InputError, KaratError, UsageError
from karat.report.bench_markdown import render_bench
from karat.report.terminal import bench as bench_view
from karat.retrieve.protocol import Answer
from karat.store.faults import POINTS
from karat.verbs.bench.dataset import datasets_of
from karat.verbs.bench.request import chunks_of
from places import ROOT

HANDBOOK = Path(karat.__file__).parent / "example"
LOG = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/schemas/run-log.schema.json").read_text()))
RESULT = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/schemas/result.schema.json").read_text()))
WORDS = "lock door code battery winter charge courier parcel refund label camera bridge card".split()  # noqa: SIM905


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARAT_CACHE_DIR", str(tmp_path / "cache"))


def beir(folder: Path, queries: int = 24, docs: int = 40, **fields: Any) -> Path:
    """A small dataset as BEIR has it: each query is made of words of one doc, which is relevant."""
    rng = np.random.default_rng(7)
    (folder / "qrels").mkdir(parents=True)
    texts = {f"d{i}": " ".join(rng.choice(WORDS, 12)) for i in range(docs)}
    corpus = [{"_id": d, "title": f"Page {d}", "text": t, "doc_version": "2025-01-01"} for d, t in texts.items()]
    asked = []
    for i in range(queries):
        text = " ".join(rng.choice(texts[f"d{i}"].split(), 3))
        asked.append({"_id": f"q{i}", "text": text, **{n: v(i) if callable(v) else v for n, v in fields.items()}})
    (folder / "corpus.jsonl").write_text("".join(json.dumps(c) + "\n" for c in corpus))
    (folder / "queries.jsonl").write_text(
        "".join(json.dumps(q) + "\n" for q in [*asked, {"_id": "x", "text": "other"}])
    )
    rows = "".join(f"q{i}\td{i}\t2\nq{i}\td{(i + 1) % docs}\t1\n" for i in range(queries))
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return folder


def lines(path: Path | str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def but_for_times(path: Path) -> list[bytes]:
    """The bytes of a log without the numbers of its latencies."""
    return [re.sub(rb'("latency_ms":\{)[^}]*\}', rb"\1}", line) for line in path.read_bytes().splitlines()]


# What is written


def test_a_run_log_says_what_was_found_and_all_facts_of_the_run(tmp_path: Path) -> None:
    data = beir(tmp_path / "data")
    found = karat.bench(data, ["bm25", "both=hybrid(bm25, bm25(k1=.5))"], "ndcg@10", k=5, out=str(tmp_path / "runs"))
    logged = lines(tmp_path / "runs/bm25.jsonl")
    assert [line["query_id"] for line in logged] == sorted(f"q{i}" for i in range(24))  # x has no gold
    for path in (tmp_path / "runs/bm25.jsonl", tmp_path / "runs/both.jsonl"):
        for line in lines(path):
            LOG.validate(line)
    first = logged[0]
    assert first["system"] == first["retriever"] == "bm25" and first["k_raw"] == 5 and first["workers"] == 1
    assert (
        first["query"]
        and first["dataset_version"]
        and "karat" in first["code_version"]
        and "bm25s" in first["index_version"]
    )
    assert first["topk"][0]["rank"] == 1 and first["topk"][0]["doc_version"] == "2025-01-01" and len(first["topk"]) == 5
    assert set(first["latency_ms"]) == {"retrieve"} and first["latency_ms"]["retrieve"] > 0
    both = lines(tmp_path / "runs/both.jsonl")[0]
    assert set(both["stages"]) == {"retrieve", "fuse"} and "fuse" in both["latency_ms"] and len(both["latency_ms"]) == 3
    assert not list((tmp_path / "runs").glob("*.part"))
    assert dict(found.only.logs) == {n: str(tmp_path / f"runs/{n}.jsonl") for n in ("bm25", "both")}


def test_the_result_is_that_of_comparing_the_logs(tmp_path: Path) -> None:
    data = beir(tmp_path / "data", language=lambda i: ("en", "de")[i % 2])
    found = karat.bench(data, ["bm25", "b=bm25(b=0)"], "ndcg@10,latency.p50", out=str(tmp_path / "runs"))
    logs = {"bm25": str(tmp_path / "runs/bm25.jsonl"), "b": str(tmp_path / "runs/b.jsonl")}
    again = karat.compare(
        str(data / "qrels/test.tsv"), logs, "ndcg@10,latency.p50", queries=str(data / "queries.jsonl"), by="language"
    )
    assert found.only.comparison is not None
    told = json.loads(json.dumps(found.only.comparison.as_json()))
    assert told == json.loads(json.dumps(again.as_json()))
    decision = again["ndcg@10"]
    for shown in (found, found.only):
        page = shown._repr_html_()
        assert "p adj." in page and f"<td>{decision.figure}</td>" in page and decision.outcome in page
        assert f"<td>{decision.p_adjusted_text}</td>" in page and "lang" not in page.split("against bm25")[1][:400]
    assert repr(found.only) == "DatasetBench(data: bm25, b)"
    document = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert document["kind"] == "bench" and document["datasets"][0]["result"]["kind"] == "comparison"
    RESULT.validate(document)


def test_passages_are_named_with_their_docs(tmp_path: Path) -> None:
    found = karat.bench(HANDBOOK, ["bm25"], "ndcg@10", k=3, out=str(tmp_path))
    item = next(line["topk"][0] for line in lines(tmp_path / "bm25.jsonl") if line["topk"])
    assert item["chunk_id"].split("#")[0] == item["doc_id"] and item["source"] and item["doc_version"]
    asked = {line["query_id"] for line in lines(tmp_path / "bm25.jsonl")}
    unanswerable = {q["_id"] for q in lines(HANDBOOK / "queries.jsonl") if q.get("no_answer")}
    assert unanswerable and unanswerable <= asked  # what is returned for them matters too
    assert found.result["bm25"].n["ndcg@10"] == len(asked) - len(unanswerable)


# Stopping and going on


SYSTEMS = ("bm25", "near_search:find", "hybrid(bm25, near_search:find)", "dense")
COMMAND = ["bench", "-d", "data", "-k", "6", "-m", "ndcg@10", "--no-html", "-q"]
COMMAND += [word for name in SYSTEMS for word in ("-r", name)]
BENCH = """
import sys
import bm25s, karat.cli.app, karat.report.terminal.bench, karat.report.outputs, karat.verbs.bench, scipy.special
from karat.retrieve.registry import make_retriever
make_retriever("hybrid(bm25, dense)").parts[1].encoder.encode(["a"], "query")
def work(*arguments):
    sys.argv = ["karat", *arguments]
    karat.cli.main()
"""
SEARCH = """
def find(query, k):
    return [(f"d{(len(query) * 7 + i * 3) % 40}", 1.0 / (i + 1)) for i in range(k)]
"""


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Forks]]:
    """A benchmark of four systems that ran through in one go, and the forks that run it again."""
    folder = tmp_path_factory.mktemp("stopped")
    beir(folder / "data", queries=7)
    (folder / "near_search.py").write_text(SEARCH)
    with Forks(BENCH, folder) as forks:
        done = forks.run(*COMMAND, "-o", "whole", KARAT_CACHE_DIR=str(folder / "cache-whole"))
        assert done.returncode == 0, done.stdout
        yield folder, forks


# Before and after a file has its name: what else there is of a file is stopped in tests/store/test_every_write.py.
STOPS = ["atomic.replace", "atomic.done", *(point for point in POINTS if point.startswith(("bench.", "index.")))]


@pytest.mark.parametrize("point", STOPS)
def test_stopped_at_any_point_and_started_again_the_logs_are_the_same(trials: tuple[Path, Forks], point: str) -> None:
    """The nth attempt stops when it passes the point for the nth time, until one comes through."""
    folder, forks = trials
    out = folder / point
    for attempt in itertools.count(1):
        action, code = ("kill", -signal.SIGKILL) if attempt % 2 else ("interrupt", 130)
        plan = f"{point}:{attempt}:{action}"
        done = forks.run(*COMMAND, "-o", str(out), KARAT_CACHE_DIR=str(folder / f"cache-{point}"), KARAT_FAULT=plan)
        if done.returncode == 0:
            break
        assert done.returncode == code, done.stdout
    assert attempt > 1, "the benchmark never passes this point"
    names = sorted(p.name for p in (folder / "whole").glob("*.jsonl"))
    assert len(names) == 4 and names == sorted(p.name for p in out.glob("*.jsonl"))
    for name in names:
        assert but_for_times(out / name) == but_for_times(folder / "whole" / name)
    assert not list(out.glob("*.part"))


@pytest.mark.parametrize(
    "fault", ["bench.line:3:full", "bench.rename:1:full", "bench.line:1:readonly", "index.create:1:full"]
)
def test_a_disk_that_takes_no_more_is_named_and_the_same_command_resumes(
    trials: tuple[Path, Forks], fault: str
) -> None:
    folder, forks = trials
    command = [*COMMAND, "-o", str(folder / fault)]
    done = forks.run(*command, KARAT_CACHE_DIR=str(folder / f"cache-{fault}"), KARAT_FAULT=fault)
    if fault.startswith("index"):  # an index that cannot be kept is used all the same
        assert done.returncode == 0, done.stdout
    else:
        assert done.returncode == 2 and "make room, or choose another --out" in done.stdout, done.stdout
        assert forks.run(*command, KARAT_CACHE_DIR=str(folder / f"cache-{fault}")).returncode == 0
    for log in (folder / "whole").glob("*.jsonl"):
        assert but_for_times(folder / fault / log.name) == but_for_times(log)


def test_a_part_is_gone_on_with_and_a_broken_line_is_not(tmp_path: Path) -> None:
    data, out = beir(tmp_path / "data"), tmp_path / "runs"
    asked: list[str] = []

    class Counting:
        name, identity = "counting", "v1"

        def index(self, corpus: Any) -> None:
            pass

        def retrieve(self, queries: Any, k: int) -> list[Answer]:
            asked.extend(q.id for q in queries)
            return [Answer(["d1", "d2"]) for _ in queries]

    karat.bench(data, {"counting": Counting()}, "ndcg@10", out=str(out), warmup=0)
    whole = (out / "counting.jsonl").read_bytes()
    assert len(asked) == 24
    for cut in (0, 1, len(whole) // 2, len(whole) - 1):
        os.rename(out / "counting.jsonl", out / "old")
        (out / "counting.jsonl.part").write_bytes(whole[:cut])
        asked.clear()
        karat.bench(data, {"counting": Counting()}, "ndcg@10", out=str(out), warmup=0)
        assert len(asked) == 24 - whole[:cut].count(b"\n")
        assert but_for_times(out / "counting.jsonl") == but_for_times(out / "old")
    asked.clear()
    found = karat.bench(data, {"counting": Counting()}, "ndcg@10", out=str(out), k=7, warmup=2)  # another k
    assert len(asked) == 26 and lines(out / "counting.jsonl")[0]["k_raw"] == 7
    assert found.only.own_notes[0] == "counting: rerun because k changed from 100 to 7"


def test_logs_are_taken_as_they_are_only_where_nothing_else_decides_the_answers(tmp_path: Path) -> None:
    data, out = beir(tmp_path / "data"), str(tmp_path / "runs")

    def ran(*retrievers: Any, **options: Any) -> list[str]:
        found = karat.bench(data, list(retrievers), "ndcg@10", out=out, **options).only
        return [name for name in found.logs if name not in found.reused]

    both = ("bm25", "dense", "hybrid(bm25, dense)")
    assert ran(*both) == list(both) and ran(*both) == [] and ran(*both, fresh=True) == list(both)

    def first(query: Any, k: int) -> list[str]:
        return ["d1"]

    def second(query: Any, k: int) -> list[str]:
        return ["d2"]

    assert ran("bm25", first) == ["first"] and ran("bm25", first) == ["first"]  # what it answers may have changed
    held = karat.bench(data, {"mine": first}, "hit@1", out=out).result.per_query("hit@1")
    other = karat.bench(data, {"mine": second}, "hit@1", out=out, fresh=True).result.per_query("hit@1")
    assert held != other and other["q2"] == 1.0


def test_the_log_of_another_retriever_is_not_replaced_unless_told_to(tmp_path: Path) -> None:
    data, out = beir(tmp_path / "data"), tmp_path / "runs"

    def find(query: Any, k: int) -> list[str]:
        return ["d1"]

    karat.bench(data, ["mine=bm25(k1=1)", "bm25"], "hit@1", out=str(out))
    before = {path.name: path.read_bytes() for path in out.glob("*.jsonl")}
    with pytest.raises(
        InputError, match=r"mine.jsonl: holds the run of another retriever \(bm25\(k1=1\); .* is find\)"
    ):
        karat.bench(data, {"bm25": "bm25(b=0)", "mine": find}, "hit@1", out=str(out))
    assert {path.name: path.read_bytes() for path in out.glob("*.jsonl")} == before
    part = karat.bench(data, {"mine": find}, "hit@1", out=str(out), fresh=True).only
    assert part.own_notes[0] == f"mine: replaces the run of bm25(k1=1) in {out / 'mine.jsonl'}"
    part = karat.bench(data, "bm25=bm25(k1=2)", "hit@1", out=str(out)).only  # other parameters: the same kind
    assert part.own_notes[0] == "bm25: rerun because the retriever changed from bm25 to bm25(k1=2)"


def test_a_second_benchmark_in_the_same_folder_is_refused_and_the_first_is_whole(tmp_path: Path) -> None:
    data, out = beir(tmp_path / "data", queries=3), str(tmp_path / "runs")
    refusals = []

    def find(query: str, k: int) -> list[str]:
        try:
            karat.bench(data, ["bm25"], "mrr", out=out)
        except InputError as error:
            refusals.append(str(error))
        return ["d0"]

    karat.bench(data, {"slow": find}, "mrr", out=out, warmup=0)
    assert (
        refusals[0]
        == f"{out}: another benchmark writes here; wait until it is done, or choose another folder with --out"
    )
    assert len(refusals) == len(lines(tmp_path / "runs/slow.jsonl")) == 3
    assert karat.bench(data, ["bm25"], "mrr", out=out).only.own_notes == ()  # the lock is gone


@pytest.mark.parametrize("file", ["corpus", "queries"])
@pytest.mark.parametrize("field", ["language", "doc_version", "source"])
def test_a_field_that_an_answer_may_rest_on_makes_a_new_run(tmp_path: Path, file: str, field: str) -> None:
    data, out = beir(tmp_path / "data"), str(tmp_path / "runs")
    karat.bench(data, "bm25", "hit@1", out=out)
    path = data / f"{file}.jsonl"
    first, *rest = lines(path)
    path.write_text("".join(json.dumps(row) + "\n" for row in ({**first, field: "de"}, *rest)))
    part = karat.bench(data, "bm25", "hit@1", out=out).only
    assert not part.reused and part.own_notes[0] == "bm25: rerun because the corpus or the queries changed"


def test_code_that_changed_is_neither_gone_on_with_nor_taken_as_it_was(tmp_path: Path) -> None:
    beir(tmp_path / "data")
    (tmp_path / "near_search.py").write_text("def top(q, k):\n    return ['d19']\n")
    (tmp_path / "far_search.py").write_text(
        "import near_search\ndef find(query, k):\n"
        "    if query.id == 'q17':\n        raise ValueError('broken')\n    return near_search.top(query, k)\n"
    )
    done = karat_bench("-d", "data", "-r", "far_search:find", "-m", "hit@1", "--no-html", cwd=tmp_path)
    assert done.returncode == 2 and "far_search.py:4" in done.stderr and "run the same command to resume" in done.stderr
    assert len(lines(tmp_path / "runs/far_search-find.jsonl.part")) == 9
    (tmp_path / "near_search.py").write_text("def top(q, k):\n    return ['d' + q.id[1:]]\n")
    (tmp_path / "far_search.py").write_text("import near_search\nfind = near_search.top\n")
    done = karat_bench("-d", "data", "-r", "far_search:find", "-m", "hit@1", "--no-html", "--json", "-", cwd=tmp_path)
    assert json.loads(done.stdout)["datasets"][0]["result"]["runs"][0]["metrics"]["hit@1"]["mean"] == 1.0


def test_what_is_wrong_with_data_or_ids_is_said(tmp_path: Path) -> None:
    data = beir(tmp_path / "data")
    gold = (data / "qrels/test.tsv").read_text().replace("\td1\t", "\tD1\t")
    (data / "qrels/test.tsv").write_text(gold)
    found = karat.bench(data, {"odd": lambda query, k: ["d1", "zzz"], "bm25": "bm25"}, out=str(tmp_path / "r"), k=5)
    told = " | ".join(found.only.own_notes)
    assert (
        "gold: 1 of 25 distinct relevant docs are not in the corpus" in told
        and '"D1"' in told
        and "karat validate" in told
    )
    assert 'odd: returned 1 id that is not in the corpus: "zzz"' in told
    assert "ndcg@5" in found.result.metrics and "ild@5" not in found.result.metrics  # no vector for zzz
    found = karat.bench(data, "bm25", "recall@50", out=str(tmp_path / "r"), k=5)
    assert "lists hold 5 docs, fewer than recall@50" in found.only.own_notes[-1]
    (data / "corpus.jsonl").write_text((data / "corpus.jsonl").read_text().replace('"text"', '"words"'))
    assert "40 of 40 docs have a title and no text" in " ".join(
        karat.bench(data, "bm25", out=str(tmp_path / "r")).only.own_notes
    )
    (data / "corpus.jsonl").write_text((data / "corpus.jsonl").read_text().replace('"words"', '"body"'))
    assert "title" not in " ".join(karat.bench(data, "bm25", out=str(tmp_path / "r")).only.own_notes)


def test_a_slip_in_the_last_retriever_is_told_before_the_first_runs(tmp_path: Path) -> None:
    data = beir(tmp_path / "data")
    for slip in ("dens", "dense(modl=3)", "bm25(k1=abc)", "no_such:find"):
        with pytest.raises(UsageError):
            karat.bench(data, ["bm25", f"x={slip}"], out=str(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


def test_a_cache_that_cannot_be_written_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KARAT_CACHE_DIR", str(tmp_path / "file"))
    assert karat.bench(beir(tmp_path / "data"), ["bm25", "dense"], "hit@1", out=str(tmp_path / "r")).result


def test_a_log_of_other_queries_or_docs_is_not_gone_on_with(tmp_path: Path) -> None:
    data, out = beir(tmp_path / "data"), tmp_path / "runs"
    karat.bench(data, "bm25", "ndcg@10", out=str(out))
    before = lines(out / "bm25.jsonl")[0]["dataset_version"]
    os.rename(out / "bm25.jsonl", out / "bm25.jsonl.part")
    with open(data / "corpus.jsonl", "a") as file:
        file.write('{"_id": "d99", "text": "lock lock lock door"}\n')
    karat.bench(data, "bm25", "ndcg@10", out=str(out))
    logged = lines(out / "bm25.jsonl")
    assert {line["dataset_version"] for line in logged} != {before} and len(
        {line["dataset_version"] for line in logged}
    ) == 1


def test_a_file_that_is_no_log_of_a_benchmark_is_never_replaced(tmp_path: Path) -> None:
    data, out = beir(tmp_path / "data"), tmp_path / "runs"
    out.mkdir()
    mine = '{"query_id": "q1", "topk": [{"doc_id": "d1"}]}\n'
    (out / "bm25.jsonl").write_text(mine)
    with pytest.raises(InputError, match="not replaced"):
        karat.bench(data, "bm25", "ndcg@10", out=str(out))
    assert (out / "bm25.jsonl").read_text() == mine


def test_errors_name_a_query_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.py").write_text(
        "def none(q, k): return None\ndef boom(q, k): raise ValueError('boom')\ndef score(q, texts): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    data = str(beir(tmp_path / "data"))
    reranked = "rerank(bad:none, model=bad:score)"
    for spec, found in (("bad:none", "expected a list"), ("bad:boom", "ValueError"), (reranked, "expected a list")):
        with pytest.raises(InputError, match=rf'query "q\d+": {found}'):
            karat.bench(data, [spec], "ndcg@10", out=str(tmp_path / "runs"))


def test_a_retriever_that_fails_says_on_which_query_and_loses_nothing(tmp_path: Path) -> None:
    data, out = beir(tmp_path / "data"), tmp_path / "runs"

    class Failing:
        broken, identity = True, "v1"

        def retrieve(self, queries: Any, k: int) -> Any:
            if self.broken and queries[0].id == "q5":
                raise ConnectionError("refused")
            return [["d1"]]

    mine = Failing()
    with pytest.raises(InputError) as error:
        karat.bench(data, {"mine": mine}, "ndcg@10", out=str(out), warmup=0)
    assert 'mine, query "q5": ConnectionError: refused' in str(error.value) and "test_bench.py" in str(error.value)
    assert "run the same command to resume" in str(error.value)
    kept = [line["query_id"] for line in lines(out / "mine.jsonl.part")]
    assert kept and "q5" not in kept
    mine.broken = False
    karat.bench(data, {"mine": mine}, "ndcg@10", out=str(out), warmup=0)
    assert len(lines(out / "mine.jsonl")) == 24


@pytest.mark.parametrize("answer", [None, [], [None], ["abc"], [[1.5]], [[("a", math.nan)]]])
def test_answers_of_no_known_shape_are_errors(tmp_path: Path, answer: Any) -> None:
    class Odd:
        def retrieve(self, queries: Any, k: int) -> Any:
            return answer

    with pytest.raises(InputError, match="odd, query"):
        karat.bench(beir(tmp_path / "data"), {"odd": Odd()}, "ndcg@10", out=str(tmp_path / "runs"))


def test_several_workers_write_the_same_log_in_the_same_order(tmp_path: Path) -> None:
    import threading

    data = beir(tmp_path / "data")
    seen, together, lock = [0], [0], threading.Lock()

    class Waiting:
        name = "waiting"

        def retrieve(self, queries: Any, k: int) -> Any:
            with lock:
                seen[0] += 1
                together[0] = max(together[0], seen[0])
            time.sleep(0.003 * (hash(queries[0].id) % 3))
            with lock:
                seen[0] -= 1
            return [[f"d{len(queries[0])}"]]

    for workers in (1, 4):
        karat.bench(data, [Waiting()], "ndcg@10", out=str(tmp_path / str(workers)), workers=workers)
    one, four = (tmp_path / n / "waiting.jsonl" for n in "14")
    assert together[0] > 1
    assert [re.sub(rb'"workers":\d', b"", x) for x in but_for_times(one)] == [
        re.sub(rb'"workers":\d', b"", x) for x in but_for_times(four)
    ]


# Datasets


def test_gold_is_that_of_the_split(tmp_path: Path) -> None:
    data = beir(tmp_path / "data")
    (data / "qrels/dev.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    assert len(datasets_of(str(data))[0].queries) == 24
    assert [q.id for q in datasets_of(str(data), "dev")[0].queries] == ["q1"]
    with pytest.raises(InputError, match="did you mean 'dev'"):
        datasets_of(str(data), "devv")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda d: (d / "corpus.jsonl").unlink(), "has no corpus.jsonl"),
        (lambda d: (d / "queries.jsonl").unlink(), "has no queries.jsonl"),
        (lambda d: (d / "qrels/test.tsv").unlink(), "there are: none"),
        (lambda d: (d / "queries.jsonl").write_text('{"_id": "q1", "text": "x"}\n'), "23 queries of the gold"),
        (lambda d: (d / "queries.jsonl").write_text("\n".join(f'{{"_id": "q{i}"}}' for i in range(24))), "text for 24"),
        (lambda d: (d / "corpus.jsonl").write_text('{"_id": "d1"}\n'), "no doc has a title or a text"),
        (lambda d: (d / "corpus.jsonl").write_text('{"_id": "d1", "text": "a"}\n{"_id": "d1", "te'), "corpus.jsonl:2"),
        (lambda d: (d / "corpus.jsonl").write_text('{"_id": "d1", "text": "a"}\n' * 2), 'doc "d1" already appears'),
        (lambda d: (d / "corpus.jsonl").write_text(""), "expected a table of docs"),
    ],
)
def test_what_a_folder_lacks_is_named(tmp_path: Path, change: Any, told: str) -> None:
    data = beir(tmp_path / "data")
    change(data)
    with pytest.raises(KaratError) as error:
        karat.bench(str(data), "bm25", out=str(tmp_path / "runs"))
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"retrievers": ["bm25", "bm25"]}, "two retrievers are called"),
        ({"retrievers": []}, "no retriever"),
        ({"retrievers": ["a=bm25", "b=bm25"], "baseline": "c"}, "no run 'c'"),
        ({"retrievers": {"x y": "bm25", "x-y": "bm25"}}, "would write x-y.jsonl"),
        ({"k": 0}, "k must be an integer from 1"),
        ({"metrics": "ndgc@10"}, "did you mean"),
        ({"chunks": [(5, 5)]}, "overlap"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(tmp_path: Path, options: Any, told: str) -> None:
    given = {"retrievers": ["bm25"], **options}
    with pytest.raises(KaratError) as error:
        karat.bench(str(beir(tmp_path / "data")), out=str(tmp_path / "runs"), **given)
    assert told in str(error.value)
    assert not (tmp_path / "runs").exists()


def test_ir_datasets_are_read_where_the_package_is(tmp_path: Path) -> None:
    import ir_datasets

    (tmp_path / "docs.tsv").write_text("a\tlock the door\nb\tcharge the battery\n")
    (tmp_path / "queries.tsv").write_text("1\tbattery charge\n2\tdoor\n")
    (tmp_path / "qrels").write_text("1 0 b 1\n2 0 a 1\n")
    made = ir_datasets.create_dataset(
        docs_tsv=f"{tmp_path}/docs.tsv", queries_tsv=f"{tmp_path}/queries.tsv", qrels_trec=f"{tmp_path}/qrels"
    )
    ir_datasets.registry.register("karat-small", made)
    found = karat.bench("ir_datasets:karat-small", "bm25", "hit@1", out=str(tmp_path / "runs"))
    assert found.result.mean["hit@1"] == 1.0
    with pytest.raises(UsageError, match="did you mean 'karat-small'"):
        datasets_of("ir_datasets:karat-smal")


# Chunks


def test_the_corpus_is_cut_anew_and_each_cut_is_a_run(tmp_path: Path) -> None:
    data = beir(tmp_path / "data")
    found = karat.bench(str(data), ["bm25"], "ndcg@10", out=str(tmp_path / "r"), chunks=[None, (6, 2), (4, 0)])
    assert [r.name for r in found.result] == ["bm25", "bm25 6:2", "bm25 4:0"]
    logged = lines(tmp_path / "r/bm25-6-2.jsonl")[0]
    assert logged["chunker"] == {"algo": "words", "size": 6, "overlap": 2}
    assert re.fullmatch(r"d\d+#6-2-\d", logged["topk"][0]["chunk_id"])
    assert found.only.comparison is not None and len(found.only.comparison.of("ndcg@10")) == 2
    with pytest.raises(UsageError, match="names passages"):
        karat.bench(HANDBOOK, ["bm25"], "ndcg@10", out=str(tmp_path / "h"), chunks=[(50, 10)])


@pytest.mark.parametrize(("text", "chunks"), [("120:30", (120, 30)), ("120", (120, 0)), ("asis", None)])
def test_chunks_are_written_in_words(text: str, chunks: Any) -> None:
    assert chunks_of(text) == chunks
    with pytest.raises(UsageError, match="WORDS:OVERLAP"):
        chunks_of(text + ":x")


# Languages


def test_languages_weigh_the_same_and_differences_are_tested(tmp_path: Path) -> None:
    parts = {"en": beir(tmp_path / "en", queries=30), "de": beir(tmp_path / "de", queries=12)}

    class Worse:
        """Finds the second best doc, and nothing in every fifth query."""

        def retrieve(self, queries: Any, k: int) -> Any:
            number = int(queries[0].id[1:])
            return [[] if number % 5 == 0 else [f"d{(number + 1) % 40}"]]

    class Best:
        def retrieve(self, queries: Any, k: int) -> Any:
            return [[f"d{int(queries[0].id[1:])}"]]

    systems = {"best": Best(), "worse": Worse()}
    found = karat.bench([f"{n}={p}" for n, p in parts.items()], systems, "ndcg@10,hit@1", out=str(tmp_path / "r"))
    table = found.languages
    assert table is not None and table.places == ("en", "de") and table.baseline == "best" and table.metric == "ndcg@10"
    best, worse = table.rows
    by_hand = [found[n].result["worse"].mean["ndcg@10"] for n in ("en", "de")]
    assert [c.mean for c in worse.cells] == pytest.approx(by_hand)
    assert worse.average == pytest.approx(np.mean(by_hand)) and worse.variance == pytest.approx(np.var(by_hand, ddof=1))
    assert worse.significant and worse.delta < 0 and worse.low < worse.delta < worse.high < 0
    assert all(c.significant for c in worse.cells) and math.isnan(best.delta)
    document = found.as_json()
    assert document["languages"]["systems"][1]["languages"]["de"]["n"] == 12
    RESULT.validate(json.loads(json.dumps(document, allow_nan=False)))


class Slightly:
    """Swaps both relevant docs of some questions; a question is asked again 24 queries later."""

    def retrieve(self, queries: Any, k: int) -> Any:
        number = int(queries[0].id[1:])
        docs = [f"d{number}", f"d{number + 1}"]
        return [docs[::-1] if number % 24 < 14 else docs]


class Always:
    def retrieve(self, queries: Any, k: int) -> Any:
        number = int(queries[0].id[1:])
        return [[f"d{number}", f"d{number + 1}"]]


def test_the_average_over_languages_knows_conversations_and_what_the_differences_say(tmp_path: Path) -> None:
    fields = {"language": lambda i: ("en", "de")[i % 2], "conversation": lambda i: f"c{i % 24}"}
    parts = [beir(tmp_path / f"asked{n}", 24 * n, 24 * n + 1, **fields) for n in (1, 10)]
    once, often = (
        karat.bench(str(part), {"always": Always(), "slightly": Slightly()}, "ndcg@10", out=str(tmp_path / part.name))
        for part in parts
    )
    assert once.languages is not None and often.languages is not None and once.parts[0].comparison is not None
    row, again = once.languages.rows[1], often.languages.rows[1]
    assert (again.delta, again.low, again.high, again.p) == pytest.approx((row.delta, row.low, row.high, row.p))
    overall = next(d for d in once.parts[0].comparison.rows if d.segment is None)
    assert row.delta == pytest.approx(overall.delta) and not overall.significant and not row.significant
    assert row.low < overall.difference.low and row.high > overall.difference.high
    in_languages = [d.difference for d in once.parts[0].comparison.rows if d.segment is not None]
    assert row.low == pytest.approx(row.delta - math.hypot(*(d.estimate - d.low for d in in_languages)) / 2)


def test_languages_that_share_conversations_are_not_independent(tmp_path: Path) -> None:
    fields = {"language": lambda i: ("en", "de")[i % 2], "conversation": lambda i: f"c{i // 2}"}
    data = beir(tmp_path / "data", 24, 25, **fields)
    found = karat.bench(str(data), {"always": Always(), "slightly": Slightly()}, "ndcg@10", out=str(tmp_path / "r"))
    assert found.languages is not None and found.parts[0].comparison is not None
    row = found.languages.rows[1]
    ends = [(d.difference.low, d.difference.high) for d in found.parts[0].comparison.rows if d.segment is not None]
    assert (row.low, row.high) == pytest.approx(tuple(np.mean(ends, axis=0)))


def test_one_dataset_in_several_languages_is_sliced_by_them(tmp_path: Path) -> None:
    found = karat.bench(HANDBOOK, ["bm25", "flat=bm25(b=0)"], "ndcg@10", out=str(tmp_path))
    assert found.languages is not None and found.languages.places == ("de", "en", "es", "pt")
    segment = next(s for s in found.result["bm25"].segments if dict(s.by) == {"language": "pt"})
    assert found.languages.rows[0].cells[3].mean == segment.metrics["ndcg@10"].estimate


def test_the_table_by_language_is_there_beside_segments_that_were_asked_for(tmp_path: Path) -> None:
    data = beir(tmp_path / "data", language=lambda i: ("en", "de")[i % 2], kind=lambda i: ("x", "y")[i // 12])
    plain, sliced, both = (
        karat.bench(str(data), ["bm25", "flat=bm25(b=0)"], "ndcg@10", out=str(tmp_path / "r"), by=by)
        for by in (None, "kind", ["language", "kind"])
    )
    of_languages = [[cell.mean for cell in row.cells] for row in plain.languages.rows] if plain.languages else []
    for bench in (plain, sliced, both):
        assert bench.languages is not None and bench.parts[0].comparison is not None
        assert [[cell.mean for cell in row.cells] for row in bench.languages.rows] == of_languages
        # A language is a segment: the table has what was decided of it there.
        decided = {(d.segment or {}).get("language"): d for d in bench.parts[0].comparison.rows}
        for cell in bench.languages.rows[1].cells:
            assert (cell.p, cell.significant) == (decided[cell.place].p_adjusted, decided[cell.place].significant)
        assert bench.languages.family == str(decided["en"].family)
    assert {tuple(s.by) for s in sliced.result["bm25"].segments} == {("kind",), ("language",)}


def test_every_output_marks_the_datasets_in_which_a_system_differs_and_names_what_it_averages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [f"{name}={beir(tmp_path / name, queries, 41)}" for name, queries in (("large", 40), ("small", 6))]
    found = karat.bench(parts, {"always": Always(), "slightly": Slightly()}, "ndcg@10", out=str(tmp_path / "r"))
    assert found.languages is not None and found.languages.by == "dataset"
    assert [cell.significant for cell in found.languages.rows[1].cells] == [True, False]
    assert found.languages.document().average == "of the datasets' means"
    table = next(x for x in render_bench(found).splitlines() if x.startswith("| slightly") and x.count("|") == 8)
    large, small = table.split("|")[2:4]
    assert large.endswith("▼ ") and "▼" not in small
    bench_view.show(found, [])
    assert capsys.readouterr().out.count("▼") == 2  # the cell, and the legend


def test_more_systems_than_have_columns_leave_no_remark_out(tmp_path: Path) -> None:
    beir(tmp_path / "data", conversation=lambda i: f"c{i // 2}")
    gold = tmp_path / "data/qrels/test.tsv"
    gold.write_text(gold.read_text() + "x\td9\t0\n")
    shown = []
    for count in (4, 5):
        systems = [a for i in range(count) for a in ("-r", f"r{i}=bm25(k1=1.{i})")]
        done = karat_bench("-d", "data", *systems, "-m", "ndcg@10", "-o", f"runs{count}", "--no-html", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "1 query without any relevant doc in the gold" in done.stdout
        assert "docs in the top 10 that nobody judged" in done.stdout
        shown.append([x for x in done.stdout.splitlines() if "of one conversation" in x or " · gold " in x])
    assert shown[0] == shown[1] and len(shown[0]) == 2


# The command line


def karat_bench(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run_karat("bench", *arguments, cwd=cwd)


def test_the_command_line_writes_logs_result_and_report(tmp_path: Path) -> None:
    beir(tmp_path / "data", language=lambda i: ("en", "de")[i % 2])
    done = karat_bench("-d", "data", "-r", "bm25", "-r", "flat=bm25(b=0)", "-k", "10", "-o", "runs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "ndcg@10" in done.stdout and "Against bm25" in done.stdout and "by language" in done.stdout
    assert "data: 40 docs, 24 queries, k = 10;" in done.stdout
    assert "latency after 5 queries of warm-up, 1 worker" in done.stdout and "runs/report.html" in done.stdout
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == [
        "bm25.jsonl",
        "flat.jsonl",
        "report.html",
        "result.json.gz",
        "vectors.npz",
    ]
    with np.load(tmp_path / "runs/vectors.npz") as vectors:
        model = str(vectors["model"])
        assert model.startswith("wordllama ") and len(vectors["ids"]) == len(vectors["vectors"]) == 40
    again = karat_bench(
        *("-d", "data", "-r", "bm25", "-r", "flat=bm25(b=0)", "-k", "10", "-o", "runs", "--json", "-"),
        *("--markdown", "bench.md", "--latex", "bench.tex"),
        cwd=tmp_path,
    )
    for name, begin in (("bench.md", "| `ndcg@10` |"), ("bench.tex", "System & ")):
        table = next(x for x in (tmp_path / name).read_text("utf-8").splitlines() if x.startswith(begin))
        assert "ndcg@10" in table
    assert r"flat$^{b}$" in (tmp_path / "bench.tex").read_text("utf-8")
    document = json.loads(again.stdout)
    assert document["kind"] == "bench" and document["datasets"][0]["name"] == "data"
    saved = karat.load(str(tmp_path / "runs/result.json.gz"))
    assert saved.conventions["embedding_model"] == model
    mean = document["datasets"][0]["result"]["runs"][0]["metrics"]["ndcg@10"]["mean"]
    assert saved["bm25"].mean["ndcg@10"] == pytest.approx(mean, rel=1e-11)


def test_a_config_names_dataset_and_retrievers(tmp_path: Path) -> None:
    beir(tmp_path / "data")
    (tmp_path / "karat.yaml").write_text(
        "dataset: {qrels: data/qrels/test.tsv, queries: data/queries.jsonl, corpus: data/corpus.jsonl, name: shop}\n"
        "bench:\n  k: 7\n  out: made\n  baseline: flat\n"
        "  retrievers:\n    - bm25\n    - {kind: bm25, name: flat, b: 0}\n"
    )
    done = karat_bench("--no-html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (
        "shop" in done.stdout and "Against flat" in done.stdout and lines(tmp_path / "made/flat.jsonl")[0]["k_raw"] == 7
    )
    (tmp_path / "karat.yaml").write_text("bench: {retrievers: [bm25], kk: 3}\n")
    done = karat_bench(cwd=tmp_path)
    assert done.returncode == 2 and "karat.yaml:1" in done.stderr and "kk" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("-d", "nowhere"), "no such folder"),
        ((), "no dataset"),
        (("-d", "data", "-r", "bm52"), "did you mean 'bm25'"),
        (("-d", "data", "-r", "bm25", "--chunk", "x"), "WORDS:OVERLAP"),
        (("-d", "data", "-r", "bm25", "--baseline", "dense"), "no run 'dense'"),
        (("-d", "data", "-d", "data", "-r", "bm25"), "two datasets are called"),
    ],
)
def test_mistakes_on_the_command_line_are_told(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    beir(tmp_path / "data")
    done = karat_bench(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and told in done.stderr and not done.stdout


def test_every_retriever_is_listed_with_its_parameters(tmp_path: Path) -> None:
    done = karat_bench("--list", cwd=tmp_path)
    assert done.returncode == 0
    for name in ("bm25", "dense", "hybrid", "mmr", "dartboard", "rerank", "http", "qdrant", "pgvector", "langchain"):
        assert re.search(rf"^{name}\b", done.stdout, re.M), name
