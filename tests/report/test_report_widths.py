"""The report of many runs on screens of every width: nothing is cut, printed over, or out of sight."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import karat
from report_pages import drawn, opened

LONG = "hybrid-of-words-and-vectors-with-a-very-long-name"
RUNS = ("base", "first", "second", "third", "fourth", LONG)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A check of five candidates, one with a long name; gates over all queries and for every segment; latency."""
    folder = tmp_path_factory.mktemp("many")
    rng = random.Random(6)
    gold = {f"q{i}": {f"d{i}-{j}": 1 + j % 3 for j in range(5)} for i in range(48)}
    table = {q: {"text": f"question {q}", "topic": f"topic number {i % 4}"} for i, q in enumerate(gold)}
    runs = {}
    for n, name in enumerate(RUNS):
        lines = [
            {
                "query_id": q,
                "topk": [{"doc_id": d} for d in [*(d for d in docs if rng.random() < 0.3 + n / 10), f"x{q}", "y"]],
                "latency_ms": {"total": 1000 + rng.random() * 4000},
            }
            for q, docs in gold.items()
        ]
        (folder / f"{n}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        runs[name] = str(folder / f"{n}.jsonl")
    metrics = "ndcg@10,recall@{1,5},mrr,hit@1,latency.p90"
    result = karat.evaluate(gold, runs, metrics, queries=table, by="topic", details=True)
    gates = ["ndcg@10 no worse than baseline by 0.02", "mrr >= 0.99", "recall@5 >= 0.6 for every topic"]
    karat.write_report(karat.check(result, gates, baseline="base"), str(folder / "r.html"), queries=table)
    return folder / "r.html"


OVERPRINTED = """nodes => nodes.flatMap(row => {
  const boxes = [...row.children].map(n => [n, n.getBoundingClientRect()]).filter(([, b]) => b.width && b.height);
  const apart = (p, q) => p.right < q.left + 1 || q.right < p.left + 1 || p.bottom < q.top + 1 || q.bottom < p.top + 1;
  return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([, q]) => !apart(p, q))
    .map(([b]) => a.textContent.trim() + ' | ' + b.textContent.trim()));
})"""
SPILT = (
    """nodes => nodes.filter(n => n.offsetParent && n.scrollWidth > n.clientWidth + 1).map(n => n.textContent.trim())"""
)


def test_gates_of_several_runs_are_not_printed_over_each_other_on_a_phone(browser: Any, many: Path) -> None:
    with opened(browser, many, width=390) as page:
        drawn(page)
        for fold in page.locator("#gates summary").all():
            fold.click()
        rows = "#gates .gates > tbody > tr"
        assert page.locator(rows, has_text=LONG).count() > 3
        assert page.eval_on_selector_all(rows, OVERPRINTED) == []
        assert page.eval_on_selector_all(f"{rows} > :is(th, td)", SPILT) == []
