"""Run logs: one reader, one decoding per command, and every list of a log without reading it again."""

from __future__ import annotations

import ast
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import karat
from command import run_karat
from karat.model.policy import Policy
from karat.model.run import OrderedLists
from karat.read.log_lists import run_of
from karat.read.queries import read_queries
from karat.read.query_fields import day_field
from karat.read.run_log import log_of_lines, read_run_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from karat.model.run import Run

SOURCE = Path(karat.__file__).parent
LINES: list[dict[str, Any]] = [
    {
        "query_id": "q1",
        "system": "hybrid",
        "topk": [
            {
                "rank": 2,
                "chunk_id": "d2#1",
                "doc_id": "two",
                "score": 9.0,
                "doc_version": "2025-03-02",
                "source": "faq",
            },
            {"rank": 1, "chunk_id": "d1#1", "score": 1.0, "doc_version": "2025-03-01T18:00:00"},
        ],
        "stages": {"retrieve": ["d2#1", "d9#1", "d1#1"], "rerank": ["d1#1", "d2#1"]},
        "latency_ms": {"retrieve": 30, "ReRank": 12.5},
        "cost": {"Tokens": 800},
        "route": "faq",
        "retrieved": True,
        "query": "one?",
        "rewritten_query": "one and two?",
        "topk_original": [{"doc_id": "d7"}],
        "entities": ["E1", 7],
    },
    {"query_id": 2, "system": "hybrid", "topk": [], "stages": None, "latency_ms": {"total": 5}, "route": ""},
]


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each run log is read from its first line on."""
    from karat.read import run_log

    counts: Counter[str] = Counter()
    plain = run_log.numbered_lines

    def counting(path: str, stdin: bytes | None = None) -> Any:
        counts[os.path.basename(path)] += 1
        return plain(path, stdin)

    monkeypatch.setattr(run_log, "numbered_lines", counting)
    yield counts


def write(folder: Path, *lines: dict[str, Any] | str) -> Path:
    path = folder / "log.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def lists(run: Run) -> dict[str, list[str]]:
    assert isinstance(run.content, OrderedLists)
    return {q: list(ids) for q, ids in run.content.lists.items()}


def test_everything_that_a_log_says_is_there_by_query(tmp_path: Path) -> None:
    path = write(tmp_path, *LINES)
    log = read_run_log(str(path), "log")
    one, two = log.traces["q1"], log.traces["2"]
    assert (len(log), log.name, log.path, log.facts, log.problems) == (2, "log", str(path), {"system": "hybrid"}, ())
    assert log.stage_names == ("retrieve", "rerank") and log.lines == {"q1": 1, "2": 2}
    assert log.latency == {"retrieve": {"q1": 30}, "rerank": {"q1": 12.5}, "total": {"q1": 42.5, "2": 5}}
    assert log.cost == {"tokens": {"q1": 800}}
    assert (log.routes, log.retrieved) == ({"q1": "faq"}, {"q1": True})
    assert (one.query, one.rewritten_query, one.entities) == ("one?", "one and two?", ("E1", "7"))
    assert [item.id for item in one.topk_original or ()] == ["d7"]
    assert one.topk is not None and (one.topk[0].source, one.topk[0].doc_id) == ("faq", "two")
    assert (two.topk, two.stages, two.topk_original) == ((), {}, None)
    assert log.doc_of("d2#1", "#") == "two" and log.doc_of("d9#1", "#") == "d9"


def test_lines_as_dicts_are_the_same_log(tmp_path: Path) -> None:
    assert log_of_lines(LINES, "log").traces == read_run_log(str(write(tmp_path, *LINES)), "log").traces


def test_another_stage_and_the_dates_need_no_second_reading(tmp_path: Path, readings: Counter[str]) -> None:
    run = karat.read_run(write(tmp_path, *LINES[:1]))
    assert run.log is not None
    assert lists(run) == {"q1": ["d1#1", "d2#1"]}
    assert lists(run_of(run.log, Policy(stage="retrieve"))) == {"q1": ["d2#1", "d9#1", "d1#1"]}
    assert lists(run_of(run.log, Policy(as_of_filter=True), {"q1": 0.0})) == {"q1": []}
    staged = karat.evaluate({"q1": {"d9#1": 1}}, run, "mrr", stage="retrieve")
    assert staged.mean["mrr"] == 1 / 2
    assert readings == {"log.jsonl": 1}


def test_a_later_time_on_the_day_of_as_of_is_not_newer(tmp_path: Path) -> None:
    run = karat.read_run(write(tmp_path, *LINES[:1]))
    assert run.log is not None
    days = day_field(read_queries({"q1": {"as_of": "2025-03-01"}}), "as_of")
    chosen = run_of(run.log, Policy(as_of_filter=True), days)
    assert lists(chosen) == {"q1": ["d1#1"]}
    assert chosen.notes == ("as_of_filter dropped 1 item newer than their query's as_of",)


@pytest.mark.parametrize("version", ["soon", "2025-13-01", 2.5])
def test_a_doc_version_that_is_not_a_date_is_an_error_where_dates_count(tmp_path: Path, version: Any) -> None:
    line = {"query_id": "q1", "topk": [{"doc_id": "a"}, {"doc_id": "b", "doc_version": version}]}
    path, gold, queries = write(tmp_path, line), {"q1": {"a": 1}}, {"q1": {"as_of": "2025-01-01"}}
    assert karat.evaluate(gold, path, "mrr").mean["mrr"] == 1
    for options in ({"as_of_filter": True}, {"metrics": "fresh@5"}):
        with pytest.raises(karat.InputError, match=r"log\.jsonl:1: topk item 2: doc_version must be an ISO date"):
            karat.evaluate(gold, path, **{"metrics": "mrr", "queries": queries, **options})


def test_an_as_of_that_is_not_a_date_is_an_error_for_the_filter(tmp_path: Path) -> None:
    queries = {"q1": {"as_of": "last spring"}}
    with pytest.raises(karat.InputError, match='query "q1": as_of must be an ISO date'):
        karat.evaluate({"q1": {"d1#1": 1}}, write(tmp_path, *LINES), "mrr", queries=queries, as_of_filter=True)


WRONG = {
    "stages": '"stages": {"retrieve": [1.5]}',
    "latency_ms": '"latency_ms": "fast"',
    "cost": '"cost": {"tokens": -1}',
    "route": '"route": 7',
    "retrieved": '"retrieved": "often"',
    "topk_original": '"topk_original": ["d1"]',
    "entities": '"entities": "E1"',
}


@pytest.mark.parametrize("field", WRONG)
def test_a_field_that_is_wrong_is_an_error_only_where_it_is_needed(tmp_path: Path, field: str) -> None:
    path = write(tmp_path, '{"query_id": "q1", "topk": [{"doc_id": "a"}], ' + WRONG[field] + "}")
    log = read_run_log(str(path), "log")
    assert [p.field for p in log.problems] == [field]
    assert karat.evaluate({"q1": {"a": 1}}, path, "mrr").mean["mrr"] == 1
    with pytest.raises(karat.InputError, match=r"log\.jsonl:1: "):
        log.check(field)


def test_problems_of_many_lines_are_cut(tmp_path: Path) -> None:
    bad = [json.dumps({"query_id": f"q{i}", "topk": [{"doc_id": "a", "rank": 0}]}) for i in range(100)]
    with pytest.raises(karat.InputError, match="the same on 99 more lines") as error:
        karat.evaluate({"q1": {"a": 1}}, write(tmp_path, *bad), "mrr")
    assert len(error.value.problems) == 1


def test_many_different_problems_are_cut(tmp_path: Path) -> None:
    bad = [json.dumps({"query_id": f"q{i}", "topk": [{"doc_id": "a"}] * i + [{"rank": 0}]}) for i in range(100)]
    with pytest.raises(karat.InputError, match="and more") as error:
        karat.evaluate({"q1": {"a": 1}}, write(tmp_path, *bad), "mrr")
    assert len(error.value.problems) == 20


# --- one reader, one reading --------------------------------------------------------------------------


def decoded_fields(path: Path) -> set[str]:
    """Names that a module decodes from JSON: fields of structs, and keys that are looked up."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.ctx, ast.Load):
            names.add(node.slice.value)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and node.args
        ):
            names |= {a.value for a in node.args[:1] if isinstance(a, ast.Constant)}
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {n for n in names if isinstance(n, str)}


def test_only_one_module_decodes_the_lines_of_a_run_log() -> None:
    readers = {str(p.relative_to(SOURCE)) for p in SOURCE.rglob("*.py") if "topk" in decoded_fields(p)}
    # read/formats/json.py looks at one key of a whole JSON document to say that it is not a run.
    saved = {"results/log_record.py"}  # the columns of a saved result
    columns = {"read/log_columns.py"}  # the lists alone, with the other reader for all that is not regular
    assert readers - {"read/formats/json.py"} - saved - columns == {"model/run_log.py", "read/run_log.py"}


def test_a_diagnosis_reads_its_log_once(tmp_path: Path, readings: Counter[str]) -> None:
    queries = {"q1": {"as_of": "2025-03-01", "expected_source": "faq"}}
    karat.diagnose({"q1": {"d2#1": 1}}, write(tmp_path, *LINES[:1]), queries=queries)
    assert readings == {"log.jsonl": 1}


def test_components_and_the_effect_of_the_time_filter_read_their_log_once(
    tmp_path: Path, readings: Counter[str]
) -> None:
    path, gold = write(tmp_path, *LINES[:1]), {"q1": {"d2#1": 1}}
    karat.components(gold, path)
    assert readings.pop("log.jsonl") == 1
    karat.evaluate(gold, path, "mrr", queries={"q1": {"as_of": "2025-03-01"}}, as_of_filter=True)
    assert readings == {"log.jsonl": 1}


@pytest.mark.parametrize("verb", ["evaluate", "check"])
def test_a_command_with_a_report_evaluates_once_and_reads_its_log_once(
    verb: str, tmp_path: Path, readings: Counter[str]
) -> None:
    write(tmp_path, *LINES[:1])
    (tmp_path / "gold.txt").write_text("q1 0 d2#1 1\n")
    (tmp_path / "karat.yaml").write_text(
        "dataset: {qrels: gold.txt}\nruns: {log: log.jsonl}\ngates: [mrr >= 0.1 at the mean]\n"
    )
    arguments = {
        "evaluate": ("gold.txt", "log.jsonl", "--components", "--html", "report.html"),
        "check": ("--html", "report.html"),
    }
    evaluations = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal evaluations
        code = frame.f_code
        evaluations += event == "call" and code.co_name == "evaluate" and code.co_filename.endswith("verbs/evaluate.py")

    sys.setprofile(count)
    try:
        done = run_karat(verb, *arguments[verb], cwd=tmp_path)
    finally:
        sys.setprofile(None)
    assert (tmp_path / "report.html").exists(), done.stderr
    assert readings == {"log.jsonl": 1}
    assert evaluations == 1


def test_a_line_that_skipped_retrieval_has_an_empty_list_in_every_stage() -> None:
    lines = [
        {"query_id": "q1", "topk": [{"doc_id": "d1"}], "stages": {"retrieve": ["d1", "d2"]}},
        {"query_id": "q2", "topk": [], "retrieved": False},
    ]
    lists = run_of(log_of_lines(lines, "log"), Policy(stage="retrieve")).content
    assert isinstance(lists, OrderedLists)
    assert {q: list(ids) for q, ids in lists.lists.items()} == {"q1": ["d1", "d2"], "q2": []}
    silent = log_of_lines([lines[0], {"query_id": "q2", "topk": []}], "log")
    with pytest.raises(karat.InputError, match='this line has no stages: log them, or "retrieved": false where'):
        run_of(silent, Policy(stage="retrieve"))
