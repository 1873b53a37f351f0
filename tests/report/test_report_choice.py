"""The report of several runs: which can be chosen, what they are shown against, and where the choice is kept."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import karat
from karat.report.html.page import rendered
from karat.report.html.sections import page_of
from karat.report.html.source import source_of
from report_pages import drawn, opened, until

SKILLS = {"weak": 0.2, "fair": 0.5, "good": 0.8}


def made_result(names: tuple[str, ...] = tuple(SKILLS), queries: int = 40) -> karat.Result:
    """Runs of known order: each returns a relevant doc as often as it is good."""
    rng = random.Random(4)
    gold = {f"q{i}": {f"d{i}-{j}": 1 + j % 2 for j in range(3)} for i in range(queries)}
    runs = {
        name: {
            q: {d: 40.0 - n for n, d in enumerate([*(d for d in docs if rng.random() < SKILLS[name]), f"x{q}", "y"])}
            for q, docs in gold.items()
        }
        for name in names
    }
    table = {q: {"text": f"question {q}", "topic": f"t{i % 4}"} for i, q in enumerate(gold)}
    return karat.evaluate(gold, runs, "ndcg@10,recall@5,mrr", queries=table, by="topic", details=True)


def test_without_a_baseline_every_run_can_be_chosen(browser: Any, tmp_path: Path) -> None:
    karat.write_report(made_result(), str(tmp_path / "r.html"))
    with opened(browser, tmp_path / "r.html") as page:
        drawn(page)
        assert page.inner_text("h1") == "good shown against fair"
        for run, other in (("fair", "good"), ("weak", "good"), ("good", "fair")):
            page.click(f"#ranking button >> text={run}")
            drawn(page)
            assert page.inner_text("h1") == f"{run} shown against {other}"
            assert page.input_value("#run") == run
            assert f"{run} against {other} in ndcg@10" in page.inner_text("#moved-count")
            assert page.inner_text("#diagnosis > div:visible").startswith(f"{run}: ")
            assert page.locator("#query .lists h4").all_text_contents() == [other, run]
        assert page.logged == []


@pytest.mark.parametrize("names", [("weak", "good"), ("weak", "fair", "good")])
def test_the_choice_of_a_run_offers_all_of_them_or_is_not_there(
    browser: Any, tmp_path: Path, names: tuple[str, ...]
) -> None:
    result = made_result(names)
    karat.write_report(result, str(tmp_path / "alone.html"))
    karat.write_report(karat.check(result, ["mrr >= 0.1"], baseline="weak"), str(tmp_path / "check.html"))
    options = "nodes => nodes.map(n => n.value)"
    with opened(browser, tmp_path / "alone.html") as page:
        assert page.eval_on_selector_all("#run option", options) == sorted(names, key=SKILLS.__getitem__, reverse=True)
    with opened(browser, tmp_path / "check.html") as page:
        offered = page.eval_on_selector_all("#run option", options)
        assert offered == ([n for n in names if n != "weak"] if len(names) > 2 else [])


def test_the_verdict_is_that_of_the_run_that_was_judged(browser: Any, tmp_path: Path) -> None:
    check = karat.check(made_result(), ["mrr >= 0.99"], baseline="weak", candidate="fair")
    assert check.verdict == "BLOCK"
    karat.write_report(check, str(tmp_path / "r.html"))
    with opened(browser, tmp_path / "r.html") as page:
        assert page.title() == "BLOCK: fair against weak · Karat"
        assert page.inner_text("h1").endswith("BLOCK: fair") and page.inner_text("#gates-title") == "Gates of fair"
        assert "has none" not in page.inner_text("#verdict")
        page.select_option("#run", "good")
        assert page.title() == "good against weak (compared only; fair: BLOCK) · Karat"
        assert page.inner_text("h1").endswith("BLOCK: fair")
        assert "The gates and the verdict are for fair; good has none." in page.inner_text("#verdict .of-run:visible")


def test_runs_that_no_gate_judges_are_compared_apart_from_the_candidate(browser: Any, tmp_path: Path) -> None:
    result = made_result()
    alone = karat.check(made_result(("weak", "fair")), ["mrr >= 0.1"], baseline="weak")
    check = karat.check(result, ["mrr >= 0.1"], baseline="weak", candidate="fair")
    assert [(d.statement, d.family) for d in check.comparisons] == [(d.statement, d.family) for d in alone.comparisons]
    (whole,) = (d for d in check.others if d.metric == "ndcg@10" and d.segment is None)
    assert (whole.candidate, str(whole.family), whole.outcome) == ("good", "Holm over 1 candidate", "better")
    check.save(str(tmp_path / "check.json"))
    for outcome in (check, str(tmp_path / "check.json")):
        karat.write_report(outcome, str(tmp_path / "r.html"))
        with opened(browser, tmp_path / "r.html") as page:
            drawn(page)
            page.click("#ranking summary")
            board = page.inner_text("#ranking")
            assert "not compared" not in board and whole.figure.text in board
            assert "Apart from these: good, which no gate judges." in board
            assert page.locator("#ranking tr", has_text="compared only").get_attribute("data-system") == "good"
            page.select_option("#run", "good")
            drawn(page)
            assert "good is better than weak, Δ +0" in page.inner_text("#verdict .of-run:visible")
            assert page.is_visible("#forest svg") and page.locator("#segments td.up").count() > 0
            assert page.logged == []


def test_a_run_without_comparisons_has_no_card_of_changes(browser: Any, tmp_path: Path) -> None:
    check = karat.check(made_result(), ["mrr >= 0.1"], baseline="weak", candidate="fair")
    found = page_of(replace(source_of(check), comparisons=check.comparisons))
    (tmp_path / "r.html").write_bytes(rendered(found))
    with opened(browser, tmp_path / "r.html") as page:
        assert page.is_visible("#change")
        page.select_option("#run", "good")
        assert not page.is_visible("#change")
        page.select_option("#run", "fair")
        until(page, "document.querySelector('#forest svg')?.getBoundingClientRect().width > 200")


@pytest.fixture(scope="module")
def page_of_check(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A check of two candidates, with gates and texts of queries."""
    path = tmp_path_factory.mktemp("steps") / "r.html"
    karat.write_report(karat.check(made_result(), ["mrr >= 0.1"], baseline="weak"), str(path))
    return path


def test_the_way_back_undoes_one_choice_after_the_other(browser: Any, page_of_check: Path) -> None:
    with opened(browser, page_of_check) as page:
        first, links = page.input_value("#run"), []
        other = "good" if first == "fair" else "fair"
        for act in (
            lambda: page.select_option("#run", other),
            lambda: page.select_option("#metric", "mrr"),
            lambda: page.locator("#rows tbody tr[data-query]").nth(3).click(),
            lambda: page.click("nav a >> text=Segments"),
            lambda: page.click("#moved-lists a >> text=all"),
        ):
            links.append(page.evaluate("location.hash"))
            act()
            assert page.evaluate("location.hash") != links[-1]
        for link in reversed(links):
            page.evaluate("history.back()")
            until(page, f"location.hash === {json.dumps(link)}")
        until(page, f"choice.run === {json.dumps(first)}")
        assert page.input_value("#run") == first and page.input_value("#metric") == "ndcg@10"
        drawn(page)
        assert page.logged == []


def test_typing_and_walking_through_queries_are_no_steps(browser: Any, page_of_check: Path) -> None:
    with opened(browser, page_of_check) as page:
        before = page.evaluate("history.length")
        page.fill("#search", "question")
        page.keyboard.press("Escape")
        for _ in range(3):
            page.keyboard.press("j")
        assert page.evaluate("location.hash").startswith("#query=")
        assert page.evaluate("history.length") == before


@pytest.mark.parametrize("address", [False, True])
def test_a_link_to_a_section_keeps_run_and_search_and_moves_the_focus(
    browser: Any, page_of_check: Path, address: bool
) -> None:
    with opened(browser, page_of_check) as page:
        run = "good" if page.input_value("#run") == "fair" else "fair"
        page.select_option("#run", run)
        page.fill("#search", "q1")
        if address:
            page.evaluate("location.hash = '#queries'")
        else:
            page.evaluate("document.querySelector('.skip').click()")
        until(page, "document.activeElement.id === 'queries'")
        assert page.input_value("#run") == run and page.input_value("#search") == "q1"
        link = page.evaluate("location.hash")
        assert f"run={run}" in link and "search=q1" in link and "section=queries" in link


@pytest.mark.parametrize("link", ["#query=q7", "#section=segments", "#segments"])
def test_a_link_lands_where_it_leads_once_all_charts_are_drawn(browser: Any, page_of_check: Path, link: str) -> None:
    target = "queries" if "query" in link else "segments"
    with opened(browser, page_of_check, link) as page:
        drawn(page)
        place = f"document.getElementById('{target}').getBoundingClientRect().top"
        foot = "document.documentElement.scrollHeight - innerHeight - scrollY"
        until(page, f"Math.abs({place} - 100) < 60 || {foot} < 2")


def lands_on_queries(page: Any) -> None:
    """Wait until the table of queries stands at the top, or the page ends."""
    drawn(page)
    place = "document.getElementById('queries').getBoundingClientRect().top"
    foot = "document.documentElement.scrollHeight - innerHeight - scrollY"
    until(page, f"Math.abs({place} - 100) < 70 || {foot} < 2")


@pytest.mark.parametrize("section", ["Diagnosis", "Verdict", "Misses"])
def test_the_link_of_a_query_that_is_opened_after_the_menu_leads_to_the_query(
    browser: Any, page_of_check: Path, section: str
) -> None:
    with opened(browser, page_of_check) as page:
        page.click(f"nav a >> text={section}")
        assert "section=" in page.evaluate("location.hash")
        page.locator("#moved-lists a[href^='#query']").first.click()
        link = page.evaluate("location.hash")
        assert link.startswith("#query=") and "section" not in link
        page.click("nav a >> text=Segments")  # who goes elsewhere after that leads there
        assert page.evaluate("location.hash").endswith("&section=segments")
    with opened(browser, page_of_check, link) as page:
        lands_on_queries(page)


@pytest.mark.parametrize(
    "link", ["#show=broken", "#search=q1", "#field.topic=t1", "#show=miss&field.topic=t2", "#sort=-id"]
)
def test_a_link_with_filters_or_an_order_leads_to_the_queries(browser: Any, page_of_check: Path, link: str) -> None:
    with opened(browser, page_of_check, link) as page:
        lands_on_queries(page)
        assert page.evaluate("location.hash") == link


def test_a_filter_after_the_menu_leads_to_the_queries(browser: Any, page_of_check: Path) -> None:
    with opened(browser, page_of_check) as page:
        page.click("nav a >> text=Metrics")
        page.select_option("#outcome", "broken")
        assert page.evaluate("location.hash") == "#show=broken"
        page.click("nav a >> text=Metrics")
        page.click("#rows thead th:first-child button")
        assert "section" not in page.evaluate("location.hash")


def test_enter_after_a_link_and_j_leaves_the_query_open(browser: Any, page_of_check: Path) -> None:
    with opened(browser, page_of_check) as page:
        page.locator("#moved-lists a[href^='#query']").first.click()
        until(page, "document.activeElement.id === 'query'")
        for _ in range(3):
            page.keyboard.press("j")
        link = page.evaluate("location.hash")
        page.keyboard.press("Enter")
        page.wait_for_timeout(100)
        assert page.evaluate("location.hash") == link


def test_the_link_of_a_query_is_copied(browser: Any, page_of_check: Path) -> None:
    with opened(browser, page_of_check) as page:
        page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        page.select_option("#metric", "mrr")
        page.click("#query >> text=Copy link")
        until(page, "window.copied")
        link = page.evaluate("window.copied")
        assert link.endswith(f"r.html#query={page.opened()}&metric=mrr")


def test_a_tooltip_of_the_forest_has_no_empty_line(browser: Any, page_of_check: Path) -> None:
    with opened(browser, page_of_check) as page:
        rows = page.evaluate("forestSpec().data.values.map(r => [r.pooled, r.tip])")
    assert rows[0][1].keys() >= {"segment", "Δ", "queries"}
    assert all(all(tip.values()) and ("pooled Δ" in tip) == (pooled != "") for pooled, tip in rows)
    assert {pooled != "" for pooled, _ in rows} == {True, False}


def test_the_worst_queries_come_first_whichever_way_a_metric_is_better(browser: Any, tmp_path: Path) -> None:
    gold = {f"q{i}": ["a"] for i in range(8)}
    for n, name in enumerate(("old", "new")):
        lines = [
            {"query_id": q, "topk": [{"doc_id": "a"}], "latency_ms": {"total": 100 + n * (i - 3) * 7}}
            for i, q in enumerate(gold)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    runs = {name: str(tmp_path / f"{name}.jsonl") for name in ("old", "new")}
    karat.write_report(karat.compare(gold, runs, "mrr,latency.p50", details=True), str(tmp_path / "r.html"))
    with opened(browser, tmp_path / "r.html") as page:
        page.select_option("#metric", "latency.p50")
        assert page.column(1) == [f"q{i}" for i in range(7, -1, -1)]
        assert "sort" not in page.evaluate("location.hash")
        page.click("#rows thead th:last-child button")
        assert page.column(1)[0] == "q0" and "sort=delta" in page.evaluate("location.hash")
        page.select_option("#metric", "mrr")  # the reader's own order stays
        assert page.get_attribute("#rows thead th:last-child", "aria-sort") == "ascending"


def test_a_gate_that_fails_in_a_segment_says_where(browser: Any, tmp_path: Path) -> None:
    gold = {f"q{i}": ["a"] for i in range(60)}
    run = {q: ["a"] if i % 3 else ["x"] for i, q in enumerate(gold)}
    table = {q: {"kind": f"k{i % 3}"} for i, q in enumerate(gold)}
    result = karat.evaluate(gold, run, "hit@1", queries=table, by="kind", details=True)
    karat.write_report(karat.check(result, ["hit@1 >= 0.3 for every kind"]), str(tmp_path / "r.html"))
    with opened(browser, tmp_path / "r.html") as page:
        row = page.inner_text("#gates > div > table > tbody > tr >> nth=0")
        assert "3 segments: 1 fails, 2 pass. Fails where kind = k0: 0.0000 [" in row
        assert page.locator("#gates details[open] tr.fail").count() == 1


def test_of_many_segments_the_worst_the_best_and_every_significant_one_are_drawn(browser: Any, tmp_path: Path) -> None:
    """Of 32 segments 30 can be judged; only the last, which fell in all queries, moved significantly."""
    table = {f"q{i:03}": {"kind": f"k{i % 30:02}" if i < 360 else f"few{i % 2}"} for i in range(364)}
    gold = {q: ["a"] for q in table}
    old = {q: ["a", "x"] for q in table}
    fallen = {q for q, row in table.items() if row["kind"] == "k29"}
    new = {q: ["x", "a"] if q in fallen or i % 37 == 0 else ["a", "x"] for i, q in enumerate(table)}
    found = karat.compare(gold, {"old": old, "new": new}, "mrr", queries=table, by="kind", min_segment=5, details=True)
    worse = {d.segment["kind"] for d in found.rows if d.segment and d.outcome == "worse"}
    assert worse == {"k29"}
    karat.write_report(found, str(tmp_path / "r.html"))
    points = "#forest .mark-symbol.role-mark path"
    with opened(browser, tmp_path / "r.html") as page:
        drawn(page)
        shown = page.evaluate("forestView().map(r => r.name)")
        assert len(shown) < 25 and shown[:2] == ["all queries", "kind = k29"] and page.count(points) == len(shown)
        page.click("#forest-more")
        drawn(page)
        assert page.count(points) == 33
        rows = page.eval_on_selector_all("#segments tbody tr", "nodes => nodes.map(n => n.dataset.segment)")
        assert rows[0] == "kind = k29" and set(rows[-2:]) == {"kind = few0", "kind = few1"}


def test_the_first_screen_shows_one_metric_of_each_kind(tmp_path: Path) -> None:
    gold, run = {"q": ["a"], "r": ["b"]}, {"q": ["a", "b"], "r": ["a", "b"]}
    metrics = "hit@1,hit@3,recall@1,recall@10,precision@5,ndcg@10,mrr"
    result = karat.evaluate(gold, run, metrics)
    assert page_of(source_of(result)).script.leading[:5] == ["ndcg@10", "recall@10", "mrr", "precision@5", "hit@1"]
    gated = page_of(source_of(karat.check(result, ["hit@3 >= 0.5"])))
    assert "hit@3" in [tile.metric for tile in gated.runs[0].tiles]
