"""What outputs say of a saved result is what they say of the fresh one: notes, warnings, sentences, pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import karat
from karat.report import markdown
from karat.report.html.model import Page
from karat.report.html.sections import page_of
from karat.report.html.source import source_of
from karat.report.view import view_of
from karat.results.result import Result

N = 60
GOLD = {f"q{i:02}": {f"d{i}": 1, f"e{i}": 2} for i in range(50)}
TABLE = {
    f"q{i:02}": {
        "text": f"text of {i}",
        "language": "de" if i % 3 else "en",
        "expected_source": "wiki",
        **({"weight": 1 + i % 3} if i < 40 else {}),
        **({"conversation": f"c{i // 2}"} if i < 30 else {}),
        **({"no_answer": True} if 50 <= i < 55 else {}),
    }
    for i in range(N)
}
METRICS = "ndcg@10,recall@5,latency.p90,cost.tokens,cost.tokens.sum,misroute_rate,false_evidence(threshold=0.5)@5"
GATES = [
    "recall@5 >= 0.2",
    "ndcg@10 no worse than old by 0.1 for every language",
    "cost.tokens.sum <= 100000",
    "latency.p90 <= 1s",
    "routing_accuracy >= 0.1",
]


def lines(name: str, every: int, absent: range, silent: range) -> list[dict[str, Any]]:
    """A run log that finds the best doc of every query but each `every`th, lacks some, and does not time others."""
    out = []
    for i in range(N):
        found = [f"d{i}", "x1", "x2"] if i % every else ["x1", f"e{i}", "x3"]
        topk = [] if i % 11 == 0 else [{"rank": r, "doc_id": d, "score": 1 / r} for r, d in enumerate(found, 1)]
        line = {"query_id": f"q{i:02}", "system": name, "topk": topk, "route": "wiki" if i % 7 else "faq"}
        line["stages"] = {"retrieve": ["x1", *found], "rerank": found}
        if i not in silent:
            line |= {"latency_ms": {"total": 10 + i % every}, "cost": {"tokens": 100 + i}}
        if i not in absent:
            out.append(line)
    return out


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two logs; of `new` two queries of the gold are missing, and three others are silent."""
    folder = tmp_path_factory.mktemp("logs")
    logs = {"old": lines("old", 2, range(0), range(0)), "new": lines("new", 3, range(3, 5), range(56, 59))}
    for name, log in logs.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    return {name: str(folder / f"{name}.jsonl") for name in logs}


def evaluated(runs: dict[str, str]) -> Result:
    metrics = METRICS + ",routing_accuracy"
    fresh = karat.evaluate(GOLD, runs, metrics, queries=TABLE, by="language", details=True)
    parts = {run.name: karat.components(fresh, run.name, threshold=0.5) for run in fresh.runs}
    return replace(fresh, runs=tuple(replace(run, components=parts[run.name]) for run in fresh.runs))


@pytest.fixture(scope="module")
def both(runs: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Result]:
    fresh = evaluated(runs)
    path = tmp_path_factory.mktemp("saved") / "both.json"
    fresh.save(path)
    return fresh, karat.load(path)


def page(source: Any) -> Page:
    return page_of(source_of(source))


def of_result(r: Result) -> list[Any]:
    return [r.remarks, r["new"].notes, r.as_json(), markdown.render(view_of(r)), r._repr_html_(), page(r)]


def of_check(r: Result) -> list[Any]:
    check = karat.check(r, GATES, baseline="old")
    return [check.as_json(), check.remarks, check.all_notes, markdown.render(view_of(check)), page(check)]


def of_diagnosis(r: Result) -> list[Any]:
    diagnosis = karat.diagnose(r, "new")
    return [diagnosis.as_json(), diagnosis.notes, diagnosis.remarks]


def of_sweep(r: Result) -> list[Any]:
    sweep = karat.sweep(r)
    return [sweep.as_json(), sweep.notes, markdown.render(view_of(sweep))]


def of_components(r: Result) -> list[Any]:
    return [karat.components(r, "new", threshold=0.5).as_json()]


SAYINGS = [of_result, of_check, of_diagnosis, of_sweep, of_components]


@pytest.mark.parametrize("said", SAYINGS)
def test_a_saved_result_says_what_the_fresh_one_says(
    both: tuple[Result, Result], said: Callable[[Result], list[Any]]
) -> None:
    fresh, saved = both
    for mine, others in zip(said(saved), said(fresh), strict=True):
        assert mine == others


def test_the_page_says_at_which_threshold_and_stages_components_were_measured(both: tuple[Result, Result]) -> None:
    counts = {part.title: part.counts for part in page(both[0]).parts if part.run == "new"}
    assert counts["No answer"] == "at threshold 0.5; 5 queries without an answer"
    assert counts["Raw retriever"] == "stage retrieve; 50 queries"
    assert counts["Reranker"].startswith("retrieve → rerank; ")


def test_values_that_one_run_lacks_are_noted_once(both: tuple[Result, Result]) -> None:
    """The run log has 58 of 60 queries, and 3 of these say nothing of time and cost: 55 have a value."""
    for result in both:
        notes = [remark.text for remark in result.remarks if "latency" in remark.text]
        assert notes == ["latency.p90, cost.tokens, cost.tokens.sum: new has values of 55 of 60 queries"]


def test_saved_runs_are_compared_with_the_words_of_their_files(runs: dict[str, str], tmp_path: Path) -> None:
    for name, log in runs.items():
        karat.evaluate(GOLD, {name: log}, METRICS, queries=TABLE, by="language", details=True).save(
            tmp_path / f"{name}.json"
        )
    fresh = karat.compare(GOLD, runs, METRICS, queries=TABLE, by="language")
    saved = karat.compare(tmp_path / "old.json", tmp_path / "new.json", METRICS)
    assert saved.remarks == fresh.remarks
    assert (saved.as_json()["warnings"], saved.notes) == (fresh.as_json()["warnings"], fresh.notes)
    assert markdown.render(view_of(saved)) == markdown.render(view_of(fresh))


def test_a_diagnosis_counts_weights_of_the_queries_with_gold_whatever_else_was_measured(
    both: tuple[Result, Result], runs: dict[str, str]
) -> None:
    """Of the 50 queries with gold 10 lack a weight; of all 60, that other metrics are over, 20 do."""
    alone = karat.diagnose(GOLD, runs["new"], queries=TABLE, by="language")
    for result in both:
        assert "20 of 60 queries are without a weight: 1 is taken" in result["new"].notes
        texts = [remark.text for remark in karat.diagnose(result, "new").remarks]
        assert texts == [remark.text for remark in alone.remarks]
        assert "10 of 50 queries are without a weight: 1 is taken" in texts
