"""The report of a run log alone: without gold it says nothing of relevance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import karat
from report_pages import drawn, opened


def test_a_page_without_gold_has_no_figures_of_relevance(browser: Any, tmp_path: Path) -> None:
    lines = [
        {"query_id": f"q{i}", "topk": [{"doc_id": d} for d in ("a", "b")], "latency_ms": {"total": 10 + i}}
        for i in range(6)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    karat.evaluate(None, str(tmp_path / "log.jsonl"), "latency.p50,empty_results", details=True).save(
        str(tmp_path / "log.json")
    )
    karat.write_report(str(tmp_path / "log.json"), str(tmp_path / "r.html"))
    with opened(browser, tmp_path / "r.html", "#query=q3") as page:
        drawn(page)
        assert page.logged == [] and page.opens("q3")
        assert page.count("#sweep, #funnel, #misses, #query .unjudged, #query .grade") == 0
        assert page.locator("#query .doc .id bdi").all_text_contents() == ["a", "b"]
        text = page.inner_text("main")
        assert not [word for word in ("recall", "relevant doc", "gold has", "judged") if word in text]
        assert page.eval_on_selector_all("#outcome option", "nodes => nodes.map(n => n.value)") == ["all"]
        assert page.locator("nav a").all_text_contents() == ["Result", "Metrics", "Queries", "Provenance"]
