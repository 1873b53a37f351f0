"""The report of many runs on screens of every width: nothing is cut, printed over, or out of sight."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import karat
from report_pages import drawn, looked_at, opened, until

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


IN_SIGHT = """nodes => nodes.map(n => {
  const box = n.getBoundingClientRect(), view = n.closest('.scroll').getBoundingClientRect();
  return box.width > 0 && box.left >= view.left - 1 && box.right <= view.right + 1;
})"""


@pytest.mark.parametrize("width", [768, 1280, 1400])
@pytest.mark.parametrize("run", ["first", LONG])
def test_tables_of_many_runs_begin_with_what_is_compared(browser: Any, many: Path, width: int, run: str) -> None:
    with opened(browser, many, f"#run={run}", width=width) as page:
        drawn(page)
        heads = page.locator("#metrics .levels thead th:visible").all_inner_texts()
        others = [name for name in RUNS if name not in ("base", run)]
        assert heads[:5] == ["Metric", "base", run, f"Δ {run}", "n"] and sorted(heads[5:]) == sorted(others)
        heads = page.locator("#segments .levels thead th").all_inner_texts()
        assert heads[:5] == ["Segment", "n", "base", run, f"Δ {run}"] and sorted(heads[5:]) == sorted(others)
        for table in ("#metrics", "#segments"):
            cells = f"{table} tbody tr > :is(th, .delta, [data-run]:not(.other, .delta)):visible"
            assert page.locator(cells).count() > 12
            assert all(page.eval_on_selector_all(cells, IN_SIGHT))
            page.eval_on_selector(f"{table} .scroll", "n => { n.scrollLeft = n.scrollWidth }")
            assert all(page.eval_on_selector_all(f"{table} tbody tr > th", IN_SIGHT))


def test_tables_on_a_phone_are_whole(browser: Any, many: Path) -> None:
    page = looked_at(browser, many, width=390)
    for table in ("#metrics", "#segments", "#gates"):
        assert page.eval_on_selector(f"{table} .scroll", "n => n.scrollWidth - n.clientWidth") == 0
    assert page.eval_on_selector_all(".levels > tbody > tr > *", SPILT) == []
    assert page.eval_on_selector_all(".levels > tbody > tr", OVERPRINTED) == []
    cell = page.locator("#metrics td[data-metric='mrr'][data-run=base]")
    assert page.evaluate("n => getComputedStyle(n, '::before').content", cell.element_handle()) == '"base"'


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("metric", ["ndcg@10", "latency.p90"])
def test_no_figure_of_the_table_of_queries_is_cut(browser: Any, many: Path, width: int, metric: str) -> None:
    with opened(browser, many, f"#metric={metric}", width=width) as page:
        assert page.locator("#rows tbody td.num:visible").count() >= 20
        if metric == "latency.p90":
            assert page.column(5)[0].endswith(" ms")
        assert page.eval_on_selector_all("#rows tbody td.num", SPILT) == []
        assert page.eval_on_selector("#rows .text button, #rows th.text", "n => n.clientWidth") >= 90


def test_paper_holds_whole_tables_and_the_colours_of_legends(browser: Any, many: Path) -> None:
    with opened(browser, many, width=720) as page:
        drawn(page)
        page.emulate_media(media="print")
        too_wide = "nodes => nodes.filter(n => n.offsetParent && n.scrollWidth > n.clientWidth + 1).map(n => n.id)"
        assert page.eval_on_selector_all("main .scroll", too_wide) == []
        assert page.locator("#metrics .delta:visible").count() == 6
        assert page.locator(".levels .other:visible, svg.links:visible").count() == 0
        kept = page.eval_on_selector_all(
            ".key i, .legend i, .tag, .mark, .tally a", "nodes => nodes.map(n => getComputedStyle(n).printColorAdjust)"
        )
        assert len(kept) > 20 and set(kept) == {"exact"}


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_the_leaderboard_shows_change_and_decision_at_every_width(browser: Any, many: Path, width: int) -> None:
    with opened(browser, many, width=width) as page:
        cells = "#ranking tbody tr > :is(.change, .decision)"
        unchanged = 1 if width == 390 else 0  # of the baseline: an empty cell takes no room on a phone
        assert page.locator(f"{cells} >> visible=true").count() == 2 * len(RUNS) - unchanged
        assert all(page.eval_on_selector_all("#ranking tbody tr > :is(th, .change, .decision)", IN_SIGHT))
        assert page.eval_on_selector_all("#ranking tbody tr", OVERPRINTED) == []
        ends = page.locator("#ranking .change > small")  # the interval of Δ
        assert ends.count() == len(RUNS) - 1 and all(one.is_visible() for one in ends.all())
        notes = page.locator("#ranking .decision > small")
        assert notes.count() >= len(RUNS) - 1 and all(one.is_visible() for one in notes.all())


@pytest.mark.parametrize("width", [1024, 1365, 1400, 1501, 1701])
def test_no_section_of_the_navigation_is_cut(browser: Any, many: Path, width: int) -> None:
    page = looked_at(browser, many, width=width)
    assert page.eval_on_selector("nav", "n => n.scrollWidth - n.clientWidth") == 0


def test_the_menu_fades_where_there_is_more_of_it(browser: Any, many: Path) -> None:
    fades = "n => [n.dataset.more, getComputedStyle(n).maskImage !== 'none']"
    with opened(browser, many, width=390) as page:
        until(page, "document.querySelector('nav').dataset.more === 'right'")
        assert page.eval_on_selector("nav", fades) == ["right", True]
        page.eval_on_selector("nav", "n => { n.scrollLeft = 60 }")
        until(page, "document.querySelector('nav').dataset.more === 'both'")
        page.eval_on_selector("nav", "n => { n.scrollLeft = n.scrollWidth }")
        until(page, "document.querySelector('nav').dataset.more === 'left'")
    with opened(browser, many, width=1280) as page:
        assert page.eval_on_selector("nav", fades)[1] is False


def test_a_phone_shows_the_worst_segments_and_offers_the_others(browser: Any, tmp_path: Path) -> None:
    """Of nine segments the last three fell, the very last by most."""
    table = {f"q{i:03}": {"kind": f"k{i % 9}"} for i in range(90)}
    gold = {q: ["a"] for q in table}
    runs = {
        "old": {q: ["a", "x", "y"] for q in gold},
        "new": {q: ["x", "y", "a"] if i % 9 == 8 else ["x", "a"] if i % 9 > 5 else ["a"] for i, q in enumerate(gold)},
    }
    result = karat.compare(gold, runs, "mrr", queries=table, by="kind", min_segment=5, details=True)
    karat.write_report(result, str(tmp_path / "r.html"))
    rows = "#segments tbody tr >> visible=true"
    with opened(browser, tmp_path / "r.html", width=390) as page:
        shown = [node.get_attribute("data-segment") for node in page.locator(rows).all()]
        assert shown[0] == "kind = k8" and set(shown[1:3]) == {"kind = k6", "kind = k7"} and len(shown) == 6
        assert page.inner_text("#segments-more") == "Show all 9 segments"
        page.click("#segments-more")
        assert page.locator(rows).count() == 9 and not page.is_visible("#segments-more")
    with opened(browser, tmp_path / "r.html", width=1280) as page:
        assert page.locator(rows).count() == 9 and not page.is_visible("#segments-more")
        page.set_viewport_size({"width": 390, "height": 800})
        until(page, "!document.getElementById('segments-more').hidden")
        assert page.locator(rows).count() == 6


def test_provenance_on_a_phone_is_whole(browser: Any, many: Path) -> None:
    with opened(browser, many, width=390) as page:
        table = page.locator("#facts .of-runs")
        assert table.count() == 1
        assert page.eval_on_selector("#facts .scroll", "n => n.scrollWidth - n.clientWidth") == 0
        assert page.eval_on_selector_all("#facts .of-runs td", SPILT) == []
        cell = page.locator("#facts .of-runs td >> visible=true").first
        name = page.evaluate("n => getComputedStyle(n, '::before').content", cell.element_handle())
        assert name.strip('"') in RUNS


@pytest.mark.parametrize("width", [1024, 1280, 1400])
def test_leaderboard_and_gates_hide_no_column_to_the_side(browser: Any, many: Path, width: int) -> None:
    page = looked_at(browser, many, width=width)
    for table in ("#ranking", "#gates"):
        assert page.eval_on_selector(f"{table} .scroll", "n => n.scrollWidth - n.clientWidth") == 0


@pytest.mark.parametrize("width", [390, 405, 1280, 1400])
def test_no_label_of_a_chart_is_cut(browser: Any, many: Path, width: int) -> None:
    beyond = """nodes => nodes.map(n => [n.textContent, n.getBoundingClientRect().right
      - n.closest('.chart').getBoundingClientRect().right]).filter(([, more]) => more > 0.5)"""
    page = looked_at(browser, many, width=width)
    assert page.count("#tradeoff svg text") > 5
    assert page.eval_on_selector_all(".chart svg text", beyond) == []


def test_ends_of_the_trade_offs_do_not_follow_the_width(browser: Any, many: Path) -> None:
    """A label that came with other ends was cut, by data and width: room was made for the labels before."""
    page = looked_at(browser, many, width=1280)
    spec = page.evaluate("tradeoffSpec()")
    rows = spec["data"]["values"]
    for axis, low, high in (("x", "left", "right"), ("y", "low", "high")):
        scale = spec["layer"][2]["encoding"][axis]["scale"]
        assert scale["nice"] is False and "padding" not in scale
        assert scale["domain"][0] < min(row[low] for row in rows) < max(row[high] for row in rows) < scale["domain"][1]


def test_charts_keep_their_shape_in_less_room_than_they_were_drawn_for(browser: Any, many: Path) -> None:
    with opened(browser, many, width=1280) as page:
        drawn(page)
        page.evaluate("document.getElementById('levels-chart').style.width = '300px'")
        box = "n => [n.clientWidth, n.clientHeight, n.getAttribute('width'), n.getAttribute('height')].map(Number)"
        width, height, drawn_width, drawn_height = page.eval_on_selector("#levels-chart svg", box)
        assert width == 300 < drawn_width
        assert height == pytest.approx(drawn_height * 300 / drawn_width, abs=2)


def test_a_phone_shows_the_best_of_all_runs_and_says_that_it_shows_two(browser: Any, many: Path) -> None:
    note = "#metrics .narrow, #segments .narrow"
    with opened(browser, many, "#run=first", width=390) as page:
        shown = "#metrics td[data-metric]:visible"
        rows = "#metrics tbody tr:not(.definition)"
        assert page.locator(rows).count() == page.locator(f"{rows}:has(.best:visible)").count()
        assert {LONG, "base", "first"} <= set(
            page.eval_on_selector_all(shown, "nodes => nodes.map(n => n.dataset.run)")
        )
        assert page.locator(note).all_text_contents() == [
            "Of 6 runs a narrow screen shows two, and the best one by each metric. Choose another run at the top.",
            "Of 6 runs a narrow screen shows two. Choose another run at the top.",
        ]
        assert page.locator(f"{note} >> visible=true").count() == 2
    with opened(browser, many, width=1280) as page:
        assert page.locator(f"{note} >> visible=true").count() == 0
