"""The report in a real Chromium: what it shows, how it is used, and that it says what the JSON document says."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

import karat
from karat.cli.app import app
from karat.gates import wording
from karat.report.html.data import TOP
from karat.report.html.page import rendered
from karat.report.html.sections import page_of
from karat.report.html.source import source_from, source_of
from karat.results.figures import difference_figure, figure, p_text
from karat.results.reading import read_value
from karat.stats.intervals import Interval
from places import KETTLE
from report_pages import drawn, looked_at, opened, until
from saved_documents import read_document, records, saved_document

ODD = ("a b", "x/y", "50%", 'say "hi"', "日本", "<i>", "a&b=c", "#1", "it's", "%41")
"""Ids of queries that a link must carry."""
METRICS = ["ndcg@10", "recall@5", "mrr", "hit@1"]
HANDBOOK = Path(karat.__file__).parent / "example"


def write_data(folder: Path, queries: int = 30) -> None:
    """Two runs, the new one better on most queries of topic `t0`; gates that pass, fail and stay undecided."""
    rng = random.Random(5)
    ids = [*ODD, *(f"q{i}" for i in range(queries - len(ODD)))]
    gold: dict[str, dict[str, int]] = {}
    runs: dict[str, dict[str, dict[str, float]]] = {"old": {}, "new": {}}
    table, docs = [], {}
    for n, q in enumerate(ids):
        pool = [f"d{n}-{j}" for j in range(40)]
        docs.update({d: f"Text of {d}. " * 3 for d in pool})
        gold[q] = {pool[0]: 3, pool[1]: 2, pool[2]: 1, pool[3]: 0}
        table.append({"_id": q, "text": f"question number {n}", "topic": f"t{n % 3}"})
        for name, skill in (("old", 0.35), ("new", 0.85 if n % 3 == 0 else 0.4)):
            found = [d for d in pool[:3] if rng.random() < skill]
            listed = [*found, *rng.sample(pool[3:], 25)]
            if rng.random() > skill:
                rng.shuffle(listed)
            runs[name][q] = {d: 100.0 - i for i, d in enumerate(listed)}
    (folder / "qrels.json").write_text(json.dumps(gold))
    (folder / "queries.jsonl").write_text("".join(json.dumps(t) + "\n" for t in table))
    (folder / "corpus.jsonl").write_text("".join(json.dumps({"_id": d, "text": t}) + "\n" for d, t in docs.items()))
    for name, run in runs.items():
        (folder / f"{name}.json").write_text(json.dumps(run))
    config = {
        "dataset": {"name": "Made up", "qrels": "qrels.json", "queries": "queries.jsonl", "corpus": "corpus.jsonl"},
        "runs": {"old": "old.json", "new": "new.json"},
        "baseline": "old",
        "metrics": METRICS,
        "segments": ["topic"],
        "gates": ["hit@1 >= 0.01", "recall@5 >= 0.99", "mrr >= 0.65", "ndcg@10 >= 0.1 for every topic"],
        "outputs": {"html": "out/report.html"},
    }
    (folder / "karat.yaml").write_text(json.dumps(config))


def text_of(document: dict[str, Any]) -> str:
    """The page of a saved document."""
    return rendered(page_of(source_from(read_document(document)))).decode()


@dataclass(frozen=True)
class Made:
    path: Path
    document: dict[str, Any]
    folder: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A check with gates, segments, texts of queries and docs; saved, and its report."""
    folder = tmp_path_factory.mktemp("report")
    write_data(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KARAT_CACHE_DIR", str(folder / "cache"))
        done = CliRunner().invoke(app, ["check", str(folder), "--save", str(folder / "check.json"), "-q"])
        assert done.exit_code == 1, done.output  # recall@5 >= 0.99 fails
    return Made(folder / "out/report.html", records(folder / "check.json"), folder)


# ---- one file, no requests, and a policy that holds ----


def test_the_page_loads_without_errors_and_asks_for_nothing_but_itself(browser: Any, made: Made) -> None:
    with opened(browser, made.path) as page:
        drawn(page)
        for y in range(0, 6000, 500):
            page.evaluate(f"scrollTo(0, {y})")
        assert page.logged == []
        assert page.requests == [made.path.as_uri()]
        assert page.count("#verdict svg, #forest svg, #curves svg, #account svg, #histogram svg, #points svg") == 5


def test_scripts_and_requests_that_slip_into_the_page_are_blocked(browser: Any, made: Made) -> None:
    slipped = made.folder / "slipped.html"
    text = made.path.read_text("utf-8")
    assert "Content-Security-Policy" in text
    assert "unsafe-eval" not in text.split("<style>")[0]
    bad = (
        "<script>window.ran = 1</script><img src='https://example.org/x.png' onerror='window.ran = 2'>"
        "<iframe src='https://example.org/'></iframe><a id=j href='javascript:window.ran = 3'>x</a>"
    )
    slipped.write_text(text.replace("<main>", "<main>" + bad), "utf-8")
    with opened(browser, slipped) as page:
        page.evaluate("document.getElementById('j').click()")
        page.evaluate("fetch('https://example.org/y').catch(() => { window.failed = true })")
        until(page, "window.failed")
        assert page.evaluate("window.ran") is None
        assert sum("Content Security Policy" in line for line in page.logged) >= 4
        assert not [u for u in page.requests if u.startswith("https:") and "x.png" not in u and "/y" not in u]


# ---- the same values as the JSON ----


def test_values_in_the_page_are_those_of_the_document(browser: Any, made: Made) -> None:
    document = made.document
    runs = {r["name"]: r for r in document["runs"]}
    read = "nodes => nodes.map(n => ({...n.dataset}))"
    with opened(browser, made.path) as page:
        cells = page.eval_on_selector_all("#metrics td[data-metric]", read)
        assert len(cells) == 2 * len(METRICS)
        for cell in cells:
            assert float(cell["value"]) == runs[cell["run"]]["metrics"][cell["metric"]]["mean"]
        overall = {c["metric"]: c for c in document["comparisons"] if c["segment"] is None}
        deltas = page.eval_on_selector_all("#metrics td[data-delta]", read)
        assert {d["delta"]: float(d["value"]) for d in deltas} == {m: c["delta"] for m, c in overall.items()}
        gates = page.eval_on_selector_all("#gates td[data-gate]", read)
        # Three gates over all queries, and one in each of three topics.
        assert len(gates) == len(document["gates"]) == 6
        told = {(g["gate"], (g["segment"] or {}).get("topic", "")): g["value"] for g in document["gates"]}
        for gate in gates:
            assert float(gate["value"]) == told[gate["gate"], gate["segment"].removeprefix("topic = ")]
        assert page.get_attribute("[data-verdict]", "data-verdict") == document["verdict"] == "BLOCK"
        for metric in ("ndcg@10", "mrr"):
            page.select_option("#metric", metric)
            for s in runs["new"]["segments"]:
                cell = f"#segments tr[data-segment='topic = {s['by']['topic']}'] td[data-run=new]"
                assert float(page.get_attribute(cell, "data-value")) == s["metrics"][metric]["mean"]


def test_values_of_queries_have_six_digits_of_those_in_the_document(made: Made) -> None:
    script = page_of(source_from(read_document(made.document))).script
    at = {q: i for i, q in enumerate(script.queries.ids)}
    for run in made.document["runs"]:
        place = script.runs.index(run["name"])
        for m, column in enumerate(script.metrics):
            for q, value in zip(run["query_ids"], run["per_query"][column.name], strict=True):
                assert script.queries.values[place][m][at[q]] == pytest.approx(value, rel=1e-5)
        assert len(script.queries.lists[place][0][0]) <= TOP


def test_scripts_write_numbers_as_python_does(browser: Any, systems: Made) -> None:
    values = (0.0, 1.0, 0.123456, 0.00004, 0.000049999, 0.00005, 0.5, 12.345, 1234.5678, 0.0712, 0.999)
    rows = [(metric, value, sign) for metric in ("ndcg@10", "latency.p90") for value in values for sign in (0, 1, -1)]
    shown = looked_at(browser, systems.path).evaluate(
        "rows => rows.map(([metric, value, sign]) => figure(metric, sign ? sign * value : value, sign !== 0))", rows
    )
    for (metric, value, sign), text in zip(rows, shown, strict=True):
        if sign:
            assert text == difference_figure(metric, sign * value).text.replace("-", "−")
        else:
            assert text == figure(metric, value).text


def test_the_first_screen_says_the_verdict_why_and_which_gates_failed(browser: Any, made: Made) -> None:
    page = looked_at(browser, made.path)
    assert "BLOCK" in page.text_content("h1")
    assert "at least 0.99 is required" in page.text_content(".why")
    assert page.locator(".tally a").all_text_contents()[0] == "1 gate fails"
    first = page.locator("#gates > div > table > tbody > tr").first
    assert first.get_attribute("class").split()[0] == "fail"
    assert "recall@5 >= 0.99" in first.text_content()
    assert first.bounding_box()["y"] < 900  # seen without scrolling


def test_tiles_stand_beside_the_top_of_the_sentence(browser: Any, made: Made) -> None:
    with opened(browser, made.path, width=1400) as page:
        why, text, tiles, scope = (
            page.locator(f"#verdict {one}").first.bounding_box() for one in (".why", ".of-run", ".figures", ".scope")
        )
        assert why["width"] > 1200 and abs(text["y"] - tiles["y"]) < 8 and tiles["x"] > text["x"] + text["width"]
        assert scope["height"] < 40 and scope["y"] >= tiles["y"] + tiles["height"]


# ---- filter, sort, search, copy ----


def test_filters_by_outcome_segment_and_text(browser: Any, made: Made) -> None:
    base, new = (next(r for r in made.document["runs"] if r["name"] == n) for n in ("old", "new"))
    before = dict(zip(base["query_ids"], base["per_query"]["ndcg@10"], strict=True))
    after = dict(zip(new["query_ids"], new["per_query"]["ndcg@10"], strict=True))
    broken = {q for q in before if after[q] < before[q]}
    fixed = {q for q in before if after[q] > before[q]}
    assert broken and fixed and len(broken) + len(fixed) < len(before)
    with opened(browser, made.path) as page:
        assert page.number() == 30
        page.select_option("#outcome", "broken")
        assert set(page.column(1)) == broken
        page.select_option("#outcome", "fixed")
        assert set(page.column(1)) == fixed
        page.select_option("#outcome", "unchanged")
        assert page.number() == len(before) - len(broken) - len(fixed)
        page.select_option("#outcome", "all")
        page.select_option("#field-filters select", '"t1"')
        assert page.number() == 10
        page.fill("#search", "NUMBER 13")  # query 13 is of topic t1: 13 = 3 · 4 + 1
        assert page.column(2) == ["question number 13"]
        page.fill("#search", "nothing at all")
        assert page.number() == 0
        page.click("text=Clear the filters")
        until(page, "document.getElementById('count').textContent.startsWith('30')")


def test_a_search_without_a_match_says_which_filter_keeps_it_away(browser: Any, made: Made) -> None:
    base, new = (next(r for r in made.document["runs"] if r["name"] == n) for n in ("old", "new"))
    values = [dict(zip(r["query_ids"], r["per_query"]["ndcg@10"], strict=True)) for r in (base, new)]
    equal = next(q for q in sorted(values[0]) if values[0][q] == values[1][q] and q.startswith("q") and len(q) == 3)
    number = 10 + int(equal[1:])  # ten odd ids come first
    with opened(browser, made.path) as page:
        page.select_option("#outcome", "broken")
        page.fill("#search", f"number {number}")
        assert page.number() == 0
        line = "#rows tr.none p"
        assert page.inner_text(line).startswith("1 matches without the filter 'broken'.")
        page.select_option("#field-filters select", f'"t{(number + 1) % 3}"')  # of another topic
        assert page.inner_text(line).startswith("1 matches without these filters.")
        page.click(f"{line} button")
        assert page.number() == 1 and page.input_value("#outcome") == "all" and page.column(1) == [equal]
        assert page.input_value("#search") == f"number {number}"
        page.select_option("#outcome", "broken")
        page.click("text=Take it off")
        assert page.column(1) == [equal]
        page.fill("#search", "nothing at all")
        assert page.number() == 0 and page.count(line) == 0 and page.logged == []


def test_misses_are_queries_without_gold_in_the_top_k(browser: Any, made: Made) -> None:
    lists = next(r for r in made.document["runs"] if r["name"] == "new")["lists"]
    gold = {q: [g["rank"] for g in held["gold"] if g["grade"] > 0] for q, held in lists.items()}
    missed = {q for q, ranks in gold.items() if all(r is None or r > 10 for r in ranks)}
    never = {q for q, ranks in gold.items() if None in ranks}
    with opened(browser, made.path) as page:
        page.select_option("#outcome", "miss")
        assert set(page.column(1)) == missed
        page.select_option("#outcome", "never")
        assert set(page.column(1)) == never
        total = sum(r is None for ranks in gold.values() for r in ranks)
        assert f"did not return {total} of {3 * 30} relevant docs" in page.text_content("#misses-note")


def test_every_column_sorts_both_ways(browser: Any, made: Made) -> None:
    with opened(browser, made.path) as page:
        for place in (3, 4, 5):
            page.click(f"#rows thead th:nth-child({place}) button")
            first = [float(v.replace("−", "-")) for v in page.column(place)]
            page.click(f"#rows thead th:nth-child({place}) button")
            again = [float(v.replace("−", "-")) for v in page.column(place)]
            assert len(first) == 30
            assert {tuple(first), tuple(again)} == {tuple(sorted(first)), tuple(sorted(first, reverse=True))}
            assert page.get_attribute(f"#rows thead th:nth-child({place})", "aria-sort") in ("ascending", "descending")
        page.click("#rows thead th:nth-child(2) button")
        assert page.column(2) == [f"question number {n}" for n in range(30)]  # 2 before 10
        page.click("#rows thead th:nth-child(1) button")
        ordered = [q for q in page.column(1) if q.startswith("q")]
        assert ordered == [f"q{n}" for n in range(20)]


def test_the_table_is_copied_as_csv(browser: Any, made: Made) -> None:
    catch = "navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }"
    with opened(browser, made.path) as page:
        page.evaluate(catch)
        page.select_option("#metric", "mrr")
        page.click("#copy")
        until(page, "window.copied")
        rows = list(csv.DictReader(io.StringIO(page.evaluate("window.copied"))))
    assert {r["query_id"] for r in rows} >= set(ODD)
    for run in made.document["runs"]:
        known = dict(zip(run["query_ids"], run["per_query"]["mrr"], strict=True))
        for row in rows:
            assert float(row[f"{run['name']} mrr"]) == pytest.approx(known[row["query_id"]], rel=1e-5)


# ---- one query ----


@pytest.mark.parametrize("query", ODD)
def test_a_link_opens_its_query_whatever_its_id(browser: Any, made: Made, query: str) -> None:
    with opened(browser, made.path, "#query=" + quote(query, safe="")) as page:
        assert page.opens(query)
        assert page.evaluate("document.getElementById('queries').getBoundingClientRect().top") < 200
        page.evaluate("location.hash = ''")
        until(page, "!choice.pin")
        page.locator("#rows tr[data-query] a", has_text=query).first.dispatch_event("click")
        until(page, "location.hash === " + json.dumps("#query=" + quote(query, safe="!'()*~")))


@pytest.mark.parametrize("query", ["nosuch", "<img src=x onerror='window.ran = 1'>"])
def test_a_link_to_a_query_that_the_report_lacks_says_so(browser: Any, made: Made, query: str) -> None:
    link = "#query=" + quote(query, safe="!'()*~")
    with opened(browser, made.path, link) as page:
        drawn(page)
        assert page.inner_text("#unknown") == f"No query '{query}' in this report."
        assert 0 < page.locator("#unknown").bounding_box()["y"] < 900
        assert page.count("#unknown *:not(bdi)") == 0 and page.evaluate("window.ran") is None and page.logged == []
        assert page.evaluate("location.hash") == link
        page.select_option("#metric", "mrr")
        assert page.is_visible("#unknown") and page.number() == 30
        page.locator("#rows tbody tr[data-query]").nth(2).click()
        assert not page.is_visible("#unknown") and page.opens(page.column(1)[2])
        page.evaluate(f"location.hash = {json.dumps(link)}")
        until(page, "!document.getElementById('unknown').hidden")
        page.fill("#search", "number 7")
        assert not page.is_visible("#unknown") and page.evaluate("location.hash") == "#search=number%207"


def test_a_query_shows_both_lists_with_grades_moves_and_the_gold_that_was_missed(browser: Any, made: Made) -> None:
    lists = {r["name"]: r["lists"]["q3"] for r in made.document["runs"]}
    with opened(browser, made.path, "#query=q3") as page:
        for place, name in enumerate(("old", "new"), start=1):
            shown = page.locator(f"#query .lists > div:nth-child({place}) .doc .id bdi").all_text_contents()
            assert shown == [row["doc"] for row in lists[name]["top"][:10]]
            hatched = page.locator(f"#query .lists > div:nth-child({place}) .doc.unjudged").count()
            assert hatched == sum(row["grade"] is None for row in lists[name]["top"][:10])
        both = {row["doc"] for row in lists["old"]["top"][:10]} & {row["doc"] for row in lists["new"]["top"][:10]}
        assert page.count("#query svg.links path") == len(both)
        missed = [
            g["doc"]
            for g in lists["new"]["gold"]
            if g["grade"] > 0
            and any(
                (rank := next(x["rank"] for x in lists[r]["gold"] if x["doc"] == g["doc"])) is None or rank > 10
                for r in lists
            )
        ]
        assert set(page.locator("#query table.few >> nth=1 >> tbody th > bdi").all_text_contents()) == set(missed)
        page.locator("#query .doc details").first.click()
        assert "Text of d" in page.locator("#query .doc details p").first.inner_text()
        page.click("text=Show the top 20")
        assert page.count("#query .doc") == 40


def test_a_list_that_ends_above_the_other_says_so(browser: Any, tmp_path: Path) -> None:
    gold = {"q": ["a"], "r": ["a"], "s": ["a"]}
    old = {"q": ["a"], "r": [], "s": ["a", "b"]}
    new = {"q": [f"d{i}" for i in range(12)], "r": ["a", "b"], "s": ["b", "a"]}
    found = karat.compare(gold, {"old": old, "new": new}, "mrr", details=True)
    karat.write_report(found, str(tmp_path / "r.html"))
    said = {"q": ["Nothing more was returned (1 doc).", ""], "r": ["Nothing was returned.", ""], "s": ["", ""]}
    for query, ends in said.items():
        with opened(browser, tmp_path / "r.html", f"#query={query}") as page:
            columns = page.locator("#query .lists > div")
            assert [" ".join(one.locator(".end").all_text_contents()) for one in columns.all()] == ends
            if query == "q":
                page.click("text=Show the top 12")
                assert page.locator("#query .lists .end").all_text_contents() == ends[:1]
            assert page.logged == []


def test_keys_move_open_search_help_and_leave(browser: Any, made: Made) -> None:
    with opened(browser, made.path) as page:
        listed = page.column(1)
        assert page.opens(listed[0])
        page.keyboard.press("j")
        page.keyboard.press("j")
        assert page.opens(listed[2])
        page.keyboard.press("k")
        assert page.opens(listed[1])
        assert page.locator("#rows tr[aria-current] a").text_content() == listed[1]
        page.focus("#rows")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "query"
        assert page.evaluate("location.hash") == "#query=" + quote(listed[2], safe="!'()*~")
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.id") == "rows"
        page.keyboard.press("/")
        page.keyboard.type("number 7")
        assert page.input_value("#search") == "number 7"
        assert page.number() == 1
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.id") == "rows"
        page.keyboard.press("?")
        assert page.is_visible("#keys")
        page.keyboard.press("Escape")
        assert not page.is_visible("#keys")


def test_a_point_of_the_scatter_opens_its_query(browser: Any, made: Made) -> None:
    with opened(browser, made.path) as page:
        drawn(page)
        page.locator("#points").scroll_into_view_if_needed()
        points = page.locator("#points .mark-symbol.role-mark path")
        assert points.count() == 30
        points.nth(11).click(force=True)
        until(page, "location.hash.startsWith('#query=')")
        assert page.opens(page.evaluate("decodeURIComponent(location.hash.slice(7))"))


def test_most_broken_queries_and_misses_link_to_their_queries(browser: Any, made: Made) -> None:
    with opened(browser, made.path) as page:
        page.locator("#moved-lists a").first.click()
        assert page.opens(page.column(1)[0])  # by Δ, the worst first
        page.locator("#misses-table tbody a").first.click()
        assert page.text_content("#query-title") == page.locator("#misses-table tbody a").first.text_content()


@pytest.mark.parametrize(
    ("metric", "fall", "rise"), [("latency.p90", "slower", "faster"), ("ild@10", "worse", "better")]
)
def test_queries_break_by_relevance_alone(browser: Any, systems: Made, metric: str, fall: str, rise: str) -> None:
    lists, titles = "#moved-lists", "nodes => nodes.map(n => n.firstChild.textContent.trim())"
    with opened(browser, systems.path, "#show=broken") as page:
        assert page.inner_text("#moved-title") == "Queries broken and fixed"
        assert page.eval_on_selector_all(f"{lists} h3", titles) == ["Most broken", "Most fixed"]
        page.select_option("#metric", "recall@10")
        assert page.locator(f"{lists} small", has_text="unjudged").count() > 0
        page.select_option("#metric", metric)
        assert page.inner_text("#moved-title") == f"Queries {fall} and {rise}"
        assert page.eval_on_selector_all(f"{lists} h3", titles) == [
            f"{fall.title()} by most",
            f"{rise.title()} by most",
        ]
        assert page.count(f"{lists} a[href^='#query']") > 0 and page.count(f"{lists} small") == 0
        assert re.search(rf"{metric}: \d+ {fall}, \d+ {rise}, ", page.inner_text("#moved-count"))
        offered = page.locator("#outcome option").all_text_contents()
        assert offered[1:4] == [fall, rise, "unchanged"] and page.input_value("#outcome") == "broken"
        assert page.evaluate("location.hash").endswith("show=broken")


def test_a_link_opens_the_meaning_of_a_metric(browser: Any, made: Made) -> None:
    with opened(browser, made.path, "#meaning=ndcg%4010") as page:
        assert page.locator("#metrics details[open]").count() == 1
        assert page.locator("#metrics .definition:visible").count() == 1
        assert "1 is ideal" in page.inner_text("#metrics [data-definition='ndcg@10']")


@pytest.mark.parametrize("width", [390, 1400])
def test_a_definition_spans_its_table_and_leaves_no_hole_beside_it(browser: Any, made: Made, width: int) -> None:
    with opened(browser, made.path, width=width) as page:
        before = page.locator("#metrics tbody tr >> nth=0").bounding_box()
        page.click("#metrics summary >> text=ndcg@10")
        after = page.locator("#metrics tbody tr >> nth=0").bounding_box()
        assert abs(after["height"] - before["height"]) < 3
        text = page.locator("#metrics [data-definition='ndcg@10'] div").bounding_box()
        assert text["width"] > 0.9 * after["width"] and text["height"] < (400 if width == 390 else 160)
        assert page.inner_text("#metrics tbody").count("Normalised discounted cumulative gain") == 1
        page.click("#metrics summary >> text=ndcg@10")
        assert page.locator("#metrics .definition:visible").count() == 0


# ---- themes, screens, print, accessibility ----


def test_dark_and_light_by_preference_and_by_button(browser: Any, made: Made) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, made.path, color_scheme="dark") as page:
        night = page.evaluate(ground)
        page.click("#theme")
        day = page.evaluate(ground)
        assert page.get_attribute("html", "data-theme") == "light"
    with opened(browser, made.path, color_scheme="light") as page:
        assert page.evaluate(ground) == day != night
        page.keyboard.press("d")
        assert page.evaluate(ground) == night
        drawn(page)
        assert page.logged == []


@pytest.mark.parametrize("width", [390, 768, 1000])
def test_no_screen_scrolls_sideways(browser: Any, made: Made, width: int) -> None:
    with opened(browser, made.path, "#query=q3", width=width) as page:
        drawn(page)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("(e => e.scrollWidth - e.clientWidth)(document.querySelector('#gates .scroll'))") == 0
        page.locator("#rows tbody tr[data-query]").nth(1).click()
        assert page.is_visible("#query-title")


def test_print_leaves_out_controls_and_keeps_what_was_found(browser: Any, made: Made) -> None:
    with opened(browser, made.path) as page:
        drawn(page)
        page.emulate_media(media="print")
        assert not page.is_visible(".bar") and not page.is_visible("#filters") and not page.is_visible("#rows")
        assert (
            page.is_visible("#gates table") and page.is_visible("#metrics table") and page.is_visible("#query .lists")
        )
        assert page.pdf()[:4] == b"%PDF"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 390])
def test_axe_finds_no_serious_violation(browser: Any, made: Made, scheme: str, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with opened(browser, made.path, "#query=q3", width=width, color_scheme=scheme) as page:
        drawn(page)
        for fold in page.locator("#gates summary, #metrics summary >> nth=0").all():
            fold.click()
        found = Axe().run(page.page).response["violations"]
        assert [
            (v["id"], [n["html"] for n in v["nodes"]][:3]) for v in found if v["impact"] in ("serious", "critical")
        ] == []


# ---- other results ----


def test_a_single_run_without_gates_has_a_first_screen(browser: Any, tmp_path: Path) -> None:
    out = tmp_path / "one.html"
    found = karat.evaluate(
        str(KETTLE / "qrels.tsv"),
        {"dense": str(KETTLE / "dense.jsonl")},
        queries=str(KETTLE / "queries.jsonl"),
        details=True,
    )
    karat.write_report(found, str(out), docs=str(KETTLE / "corpus.jsonl"))
    with opened(browser, out) as page:
        drawn(page)
        assert page.logged == []
        assert "dense: ndcg@10 0.7841 [" in page.text_content(".why")
        assert page.count("#gates, #moved, #scatter, #change, #ranking") == 0
        assert page.is_visible("#curves svg") and page.is_visible("#account svg")
        assert page.number() == 18


def test_of_five_runs_the_chosen_one_is_compared_and_others_are_dimmed(
    browser: Any, made: Made, tmp_path: Path
) -> None:
    run = json.loads((made.folder / "new.json").read_text())
    runs = {"old": str(made.folder / "old.json"), **{f"n{i}": run for i in range(4)}}
    found = karat.compare(str(made.folder / "qrels.json"), runs, METRICS, details=True)
    karat.write_report(found, str(tmp_path / "five.html"))
    with opened(browser, tmp_path / "five.html") as page:
        drawn(page)
        assert page.logged == []
        assert page.locator("#metrics thead th[data-delta-run]:visible").all_text_contents() == ["Δ n0"]
        page.select_option("#run", "n2")
        assert page.locator("#metrics thead th[data-delta-run]:visible").all_text_contents() == ["Δ n2"]
        assert page.locator("#metrics thead th.other").all_text_contents() == ["n0", "n1", "n3"]
        assert page.locator("#rows thead button").all_text_contents() == ["Query", "old", "n2", "Δ ▲"]


def test_components_are_shown_where_a_result_has_them(browser: Any, made: Made, tmp_path: Path) -> None:
    ends = {"never_retrieved": 60, "lost_at.rerank": 10, "cut": 5, "delivered": 15}
    figures = {name: Interval(n / 90, 0.01, 0.99, "bca", 30) for name, n in ends.items()}
    lines = [
        {"query_id": f"q{i}", "topk": [], "stages": {"retrieve": ["x", "a"], "rerank": ["a", "x"]}} for i in range(9)
    ]
    measured = karat.components({f"q{i}": ["a"] for i in range(9)}, lines, k=1)
    up = measured.reranker.changes["ndcg@1"]
    changes = {"ndcg@1": replace(up, significant=False), "mrr": up}
    components = replace(
        measured,
        funnel=replace(measured.funnel, figures=figures, counts={"gold": 90, **ends}, tables={"k": 5}),
        reranker=replace(measured.reranker, changes=changes),
    )
    source = source_of(made.folder / "check.json")
    first, second, *others = source.result.runs
    runs = (first, replace(second, components=components), *others)
    page_data = page_of(replace(source, result=replace(source.result, runs=runs)))
    (tmp_path / "r.html").write_bytes(rendered(page_data))
    with opened(browser, tmp_path / "r.html") as page:
        assert page.logged == []
        stages = [" ".join(t.split()) for t in page.locator("#funnel .stages li").all_text_contents()]
        assert stages == ["never retrieved60 66.7%", "lost at rerank10 11.1%", "cut at 55 5.6%", "delivered15 16.7%"]
        text = page.text_content("#components")
        assert "+1.000" in text and "needs `route`" in text
        assert "of 90 relevant docs" in text
        assert "retrieve → rerank; gold docs into the top k: 9, out of it: 0; 9 queries" in text
        assert "came late" not in text
        # Both changes are up; only the change that the test calls significant has a colour.
        assert page.locator("#components td.up").count() == 1


def test_the_page_names_the_stage_that_lost_a_doc(browser: Any, tmp_path: Path) -> None:
    lines = [
        {
            "query_id": f"q{i}",
            "topk": [{"rank": 1, "chunk_id": "x"}],
            "stages": {"retrieve": ["x", "y", "a"], "rerank": ["x", "y"]},
        }
        for i in range(3)
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    gold = {f"q{i}": {"a": 2, "b": 1} for i in range(3)}
    result = karat.evaluate(gold, tmp_path / "log.jsonl", "ndcg@10", details=True)
    for source in (result, tmp_path / "saved.json"):
        (tmp_path / "r.html").write_bytes(rendered(page_of(source_of(source))))
        result.save(str(tmp_path / "saved.json"))
        with opened(browser, tmp_path / "r.html", "#query=q1") as page:
            assert page.opens("q1")
            misses, query, every = (page.text_content(place) for place in ("#misses-table", "#query", "#never-table"))
            for text in (misses, query, every):
                assert "rank 3 after retrieve, dropped by rerank" in text  # a
            for text in (query, every):
                assert "not returned" in text  # b, which no stage holds
            assert "never" not in misses + query + every


def test_chunks_of_a_doc_in_the_gold_have_its_grade(tmp_path: Path) -> None:
    line = {"query_id": "q", "topk": [{"rank": 1, "chunk_id": "a#2", "doc_id": "a"}, {"rank": 2, "chunk_id": "b#1"}]}
    (tmp_path / "log.jsonl").write_text(json.dumps(line) + "\n")
    found = karat.evaluate({"q": {"a": 2, "c": 1}}, str(tmp_path / "log.jsonl"), "ndcg@10", details=True)
    script = page_of(source_of(found)).script
    docs, grades, _ = script.queries.lists[0][0]
    assert [script.docs.ids[d] for d in docs] == ["a#2", "b#1"]
    assert grades == "2-"  # grade 2, and not judged


def test_a_result_without_lists_or_intervals_has_a_page(browser: Any, tmp_path: Path) -> None:
    runs = {"a": {"q": {"d": 1.0}}, "b": {"q": {"x": 1.0}}}
    karat.write_report(karat.compare({"q": {"d": 1}}, runs, "ndcg@10"), str(tmp_path / "r.html"))
    with opened(browser, tmp_path / "r.html") as page:
        drawn(page)
        assert page.logged == []
        test = "(1 query; adjusted p 1.0000, randomization); lists end at rank 1"
        assert page.text_content(".why") == f"b against a, ndcg@10: no significant difference {test}."
        assert page.count("#misses, #sweep, #funnel") == 0


# ---- size ----


def synthetic(queries: int, folder: Path) -> Path:
    """Two runs of 100 docs a query and ten metrics; written as a report without texts of docs."""
    rng = random.Random(3)
    gold = {
        f"q{i}": {f"doc{rng.randrange(9_000_000)}": rng.choice([1, 2, 3]) for _ in range(3)} for i in range(queries)
    }
    runs: dict[str, dict[str, dict[str, float]]] = {"old": {}, "new": {}}
    for run in runs.values():
        for q, known in gold.items():
            docs = [*known, *(f"doc{rng.randrange(9_000_000)}" for _ in range(30))]
            rng.shuffle(docs)
            run[q] = {d: round(30 - j * 0.7 + rng.random() / 2, 4) for j, d in enumerate(docs)}
    texts = {
        q: {"text": f"how do I find the thing that is called {q}", "topic": f"t{i % 7}"} for i, q in enumerate(gold)
    }
    names = ["ndcg@10", "ndcg@5", "recall@1", "recall@5", "recall@10", "precision@5", "hit@1", "hit@10", "mrr", "map"]
    found = karat.compare(gold, runs, names, queries=texts, by="topic", details=True, resamples=200, draws=200)
    out = folder / f"{queries}.html"
    karat.write_report(found, str(out), queries=texts)
    return out


def test_a_report_of_a_hundred_queries_is_at_most_2_5_megabytes(tmp_path: Path) -> None:
    assert synthetic(100, tmp_path).stat().st_size <= 2.5e6


def test_a_report_of_ten_thousand_queries_is_at_most_15_megabytes(tmp_path: Path) -> None:
    assert synthetic(10_000, tmp_path).stat().st_size <= 15e6


def test_all_gold_that_a_run_lacks_can_be_unfolded(browser: Any, tmp_path: Path) -> None:
    gold = {"q": {f"d{i:02}": 1 for i in range(40)}, "r": {"d00": 1}}
    run = {q: {"x": 2.0, "d00": 1.0} for q in gold}
    found = karat.evaluate(gold, run, "recall@10", details=True)
    (tmp_path / "r.html").write_text(text_of(saved_document(found)), "utf-8")
    with opened(browser, tmp_path / "r.html", "#query=q") as page:
        assert page.opens("q")
        rows = page.locator("#query table.few tbody th[scope=row]", has_text="d")
        assert rows.count() == 39  # all but d00, which is at rank 2
        page.click("#query details:has(table.few) > summary")
        assert page.locator("#query table.few tbody th:visible", has_text="d").count() == 39
        assert page.logged == []


# ---- several systems ----


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """What `karat bench` writes: three runs with latency and diversity, and facts of each run."""
    folder = tmp_path_factory.mktemp("systems")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KARAT_CACHE_DIR", str(folder / "cache"))
        arguments = ["-d", str(HANDBOOK), "-r", "bm25", "-r", "dense", "-r", "both=hybrid(bm25, dense)", "-k", "20"]
        done = CliRunner().invoke(
            app, ["bench", *arguments, "-o", str(folder / "runs"), "--html", str(folder / "r.html")]
        )
        assert done.exit_code == 0, done.output
    return Made(folder / "r.html", records(folder / "runs/result.json.gz"), folder)


def test_relevance_is_drawn_against_what_it_costs(browser: Any, systems: Made) -> None:
    with opened(browser, systems.path) as page:
        drawn(page)
        assert page.count("#tradeoff svg .mark-symbol.role-mark path") == 3
        offered = page.eval_on_selector_all("#systems-metric option", "nodes => nodes.map(n => n.value)")
        assert offered == ["latency.p50", "latency.p90", "ild@10"]  # costs first
        estimates = page.evaluate("data.estimates")
        for run in systems.document["runs"]:
            for metric in ("ndcg@10", "ild@10"):
                assert estimates[metric][run["name"]][0] == pytest.approx(run["metrics"][metric]["mean"], rel=1e-6)
        page.select_option("#systems-metric", "latency.p90")
        drawn(page)
        assert "latency.p90 (ms), less is better" in page.inner_text("#tradeoff")
        assert page.logged == []


def test_the_legend_of_ranks_names_those_that_some_run_has(browser: Any, systems: Made) -> None:
    """Lists of 20 docs: no relevant doc is deeper, and every rank down to 20 has some."""
    with opened(browser, systems.path) as page:
        legend = page.locator("#account-legend > *").all_text_contents()
        assert legend == ["rank 1", "2–3", "4–5", "6–10", "11–20", "not returned"]
        assert "21–50" in page.locator("#funnel thead").text_content()


def test_the_menu_leads_to_queries_broken_and_fixed(browser: Any, systems: Made, tmp_path: Path) -> None:
    with opened(browser, systems.path) as page:
        page.click("nav a >> text=Broken, fixed")
        until(page, "document.activeElement.id === 'moved'")
    alone = page_of(source_of(karat.evaluate({"q": ["a"]}, {"one": {"q": ["a"]}}, "mrr")))
    assert "moved" not in dict(alone.sections)


def test_every_metric_is_drawn_for_every_system_with_its_interval(browser: Any, systems: Made) -> None:
    page = looked_at(browser, systems.path)
    known = [one for run in systems.document["runs"] for one in run["metrics"].values() if one["mean"] is not None]
    assert page.count("#levels-chart svg .mark-symbol.role-mark path") == len(known)
    assert page.count("#levels-chart svg .mark-rule.role-mark line") == len(known)
    text = page.inner_text("#levels-chart")
    assert all(metric in text for metric in systems.document["runs"][0]["metrics"])
    assert page.inner_text("#levels-title") == "Every metric by system" and page.logged == []


def test_metrics_of_different_scales_share_no_axis(browser: Any, tmp_path: Path) -> None:
    log = [
        {"query_id": q, "topk": [{"doc_id": "a"}], "cost": {"tokens": 500 + i}, "latency_ms": {"total": 9 + i}}
        for i, q in enumerate("pqrs")
    ]
    metrics = "ndcg@10,cost.tokens,mrr,cost.tokens.sum,latency.p50,latency.p90"
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    runs = {name: tmp_path / f"{name}.jsonl" for name in ("one", "two")}
    found = karat.evaluate({q: ["a"] for q in "pqrs"}, runs, metrics, details=True)
    (tmp_path / "r.html").write_text(text_of(saved_document(found)), "utf-8")
    with opened(browser, tmp_path / "r.html") as page:
        drawn(page)
        panels = page.evaluate("levelsSpec().vconcat.map(one => [...new Set(one.data.values.map(row => row.metric))])")
        shares, units = ["ndcg@10", "mrr"], ["latency.p50", "latency.p90"]
        assert panels == [shares, ["cost.tokens"], ["cost.tokens.sum"], units] and page.logged == []


def test_what_is_known_of_runs_is_said_once_where_it_is_the_same(browser: Any, systems: Made) -> None:
    with opened(browser, systems.path) as page:
        shared, own = page.inner_text("#facts dl"), page.inner_text("#facts .of-runs")
        assert "dataset version" in shared and "workers" in shared and "dataset version" not in own
        assert "hybrid(bm25, dense)" in own and "MB" in own
        page.click("#metrics summary >> text=ndcg@10")
        assert "gain = linear" in page.inner_text("#metrics [data-definition='ndcg@10']")


def test_escape_in_the_search_clears_it_and_its_filter(browser: Any, systems: Made) -> None:
    with opened(browser, systems.path) as page:
        every = page.number()
        page.keyboard.press("/")
        page.keyboard.type("LBX")
        assert 0 < page.number() < every
        page.keyboard.press("Escape")
        assert page.input_value("#search") == "" and page.number() == every


def test_segments_have_their_pooled_estimates_beside_them(browser: Any, systems: Made) -> None:
    bm25 = next(r for r in systems.document["runs"] if r["name"] == "bm25")
    pooled = [s for s in bm25["segments"] if "pooled" in s["metrics"]["ndcg@10"]]
    assert pooled
    with opened(browser, systems.path) as page:
        for segment in pooled:
            name = ", ".join(f"{f} = {v}" for f, v in segment["by"].items())
            mean = segment["metrics"]["ndcg@10"]["pooled"]["mean"]
            cell = page.inner_text(f'#segments-table tr[data-segment="{name}"] td[data-run="bm25"]')
            assert f"pooled {mean:.4f} [" in cell
        note = page.inner_text("#pooled-note")
        assert note.startswith("Pooled: between the segment's own value and the mean of all segments of its field")
        page.select_option("#metric", "latency.p90")  # quantiles have no pooled estimate
        assert not page.is_visible("#pooled-note")


def test_a_segment_opens_its_queries(browser: Any, systems: Made) -> None:
    with opened(browser, systems.path) as page:
        page.click("#segments-table a >> text=language = pt")
        # 45 with gold, and 3 without an answer, of which the page has lists and no values.
        assert page.inner_text("#count") == "48 of 232 queries (3 have no answer)"
        assert page.number() == 48 and all(query.startswith("pt-") for query in page.column(1))


def test_gold_that_no_run_found_can_be_listed(browser: Any, systems: Made) -> None:
    def never(runs: set[str]) -> set[str]:
        held = {r["name"]: r["lists"] for r in systems.document["runs"]}
        gold = {q: [g["doc"] for g in one["gold"] if g["grade"] >= 1] for q, one in held["bm25"].items()}
        return {q for q in gold if any(all(_rank(held[r], q, d) is None for r in runs) for d in gold[q])}

    with opened(browser, systems.path) as page:
        page.select_option("#outcome", "nobody")
        assert page.number() == len(never({"bm25", "dense", "both"})) > 0
        page.select_option("#run", "both")
        page.select_option("#outcome", "never")
        assert page.number() == len(never({"both"}))


def _rank(lists: dict[str, Any], query: str, doc: str) -> int | None:
    found = next((g["rank"] for g in lists[query]["gold"] if g["doc"] == doc), None)
    return int(found) if found else None


def test_the_curve_says_whether_it_has_levelled_off(browser: Any, systems: Made) -> None:
    with opened(browser, systems.path) as page:
        assert page.inner_text("#sweep-title") == "Cutoff: recall"
        assert page.inner_text("#sweep-note") == "Still rising at k = 20: all 3 runs."
        page.select_option("#sweep-metric", "precision")  # it falls with k: nothing is to be said
        assert page.inner_text("#sweep-title") == "Cutoff: precision" and page.inner_text("#sweep-note") == ""
        page.set_viewport_size({"width": 390, "height": 800})
        shown = page.locator("#rows tbody tr[data-query]").first.locator("td:visible").all_text_contents()
        assert len(shown) == 2 and len(shown[0]) > 10  # the text and the change


def test_all_gold_that_was_never_found_is_listed_and_copied(browser: Any, systems: Made) -> None:
    held = {r["name"]: r["lists"] for r in systems.document["runs"]}
    gold = [(q, g["doc"]) for q, one in held["bm25"].items() for g in one["gold"] if g["grade"] >= 1]
    nobody = {(q, d) for q, d in gold if all(_rank(lists, q, d) is None for lists in held.values())}
    with opened(browser, systems.path) as page:
        page.evaluate("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
        page.click("text=All relevant docs that were not returned")
        page.select_option("#never-of", "nobody")
        assert page.inner_text("#never-count").startswith(f"{len(nobody)} relevant doc")
        page.click("#never-copy")
        until(page, "window.copied")
        rows = list(csv.DictReader(io.StringIO(page.evaluate("window.copied"))))
        assert {(r["query_id"], r["doc_id"]) for r in rows} == nobody and {r["rank bm25"] for r in rows} == {""}
        page.select_option("#never-of", "run")
        page.select_option("#run", "both")
        found = [d for q, d in gold if _rank(held["both"], q, d) is None]
        assert page.inner_text("#never-count").startswith(f"{len(found)} relevant doc")
        assert page.logged == []


def test_the_leaderboard_is_sorted_by_the_primary_metric_and_marks_the_best(browser: Any, systems: Made) -> None:
    means = {r["name"]: r["metrics"]["ndcg@10"]["mean"] for r in systems.document["runs"]}
    order = sorted(means, key=means.__getitem__, reverse=True)
    rows = {c["candidate"]: c for c in systems.document["comparisons"] if c["metric"] == "ndcg@10" and not c["segment"]}
    with opened(browser, systems.path) as page:
        board = "#ranking tbody tr"
        listed = page.eval_on_selector_all(board, "nodes => nodes.map(n => n.dataset.system)")
        assert listed == order
        assert page.locator(f"{board} .best-tag").count() == 1
        assert "best" in page.locator(board).first.inner_text()
        assert page.locator(board).last.bounding_box()["y"] < 900  # seen without scrolling
        for name, row in rows.items():
            line = page.inner_text(f"#ranking tr[data-system='{name}']")
            assert ("no significant difference" in line) == (not row["significant"])
            assert f"adjusted {p_text(row['p_adjusted'])}" in line
            enough = re.search(r"would take (about [\d,]+ queries)", row["statement"])
            assert (f"{enough[1]} would detect it" in line) if enough else "detect" not in line
        assert any("would take about" in row["statement"] for row in rows.values())
        assert "baseline" in page.inner_text("#ranking tr[data-system=bm25]")
        page.select_option("#metric", "latency.p90")
        slow = {r["name"]: r["metrics"]["latency.p90"]["mean"] for r in systems.document["runs"]}
        listed = page.eval_on_selector_all(board, "nodes => nodes.map(n => n.dataset.system)")
        assert listed == sorted(slow, key=slow.__getitem__)  # less is better


def test_curves_of_short_lists_end_where_the_lists_do(browser: Any, tmp_path: Path) -> None:
    gold = {f"q{i}": {"a": 1} for i in range(30)}
    says = {"xa": "1.0000 at k = 2.", "axy": "Level from k = 1 on (98% of the value at 3).", "a": None}
    for docs, note in says.items():
        path = tmp_path / f"{docs}.html"
        karat.write_report(karat.evaluate(gold, {q: [*docs] for q in gold}, "mrr", details=True), str(path))
        with opened(browser, path) as page:
            drawn(page)
            assert page.count("#sweep") == (0 if note is None else 1)
            assert note is None or page.inner_text("#sweep-note") == note


def test_the_curves_of_all_runs_are_spoken_of(browser: Any, tmp_path: Path) -> None:
    """recall at 1 and 3 of two relevant docs: a 1/2 and 1/2, b and c 1/2 and 2/2, d 0/2 and 1/2."""
    gold = {f"q{i}": ["x", "y"] for i in range(10)}
    lists = {"a": ["x", "n", "m"], "b": ["x", "y", "n"], "c": ["x", "y", "m"], "d": ["n", "m", "x"]}
    runs = {name: dict.fromkeys(gold, docs) for name, docs in lists.items()}
    karat.write_report(karat.evaluate(gold, runs, "recall@3", details=True), str(tmp_path / "r.html"))
    with opened(browser, tmp_path / "r.html") as page:
        said = set(page.inner_text("#sweep-note").removesuffix(".").split(". "))
    level = "Level from k = 1 on (98% of the value at 3): a"
    assert said == {level, "1.0000 at k = 3: b and c", "Still rising at k = 3: d"}


def test_choosing_a_run_changes_title_sentence_tiles_diagnosis_and_curves_together(browser: Any, systems: Made) -> None:
    means = {r["name"]: r["metrics"]["ndcg@10"]["mean"] for r in systems.document["runs"] if r["name"] != "bm25"}
    best = max(means, key=means.__getitem__)
    (other,) = set(means) - {best}
    tile, lit = "#verdict .figures:visible dt >> nth=0", "#curves-legend [aria-pressed=true]"

    def speaks_of(run: str) -> None:
        assert page.inner_text("h1") == f"{run} against bm25" and page.title().startswith(f"{run} against bm25")
        assert run in page.inner_text("#verdict .why:visible") and page.inner_text(tile) == f"ndcg@10 {run}"
        assert page.locator("#diagnosis > div:visible").count() == 1
        assert page.inner_text("#diagnosis > div:visible >> nth=0").startswith(f"{run}: ")
        assert page.inner_text(lit) == run and page.input_value("#run") == run
        assert f"{run} against bm25" in page.inner_text("#moved-count")

    with opened(browser, systems.path) as page:
        speaks_of(best)
        page.click(f"#ranking button >> text={other}")
        speaks_of(other)
        page.click(f"#curves-legend button >> text={best}")
        speaks_of(best)
        assert page.logged == []


def test_a_view_is_restored_from_its_address(browser: Any, systems: Made) -> None:
    with opened(browser, systems.path) as page:
        page.select_option("#run", "dense")
        page.select_option("#metric", "recall@10")
        page.select_option("#outcome", "broken")
        page.select_option("#field-filters select[data-field=language]", '"de"')
        page.fill("#search", "e")
        page.click("#rows thead th:nth-child(1) button")
        page.locator("#rows tbody tr[data-query]").nth(1).click()
        page.click("nav a >> text=Queries")
        link, listed, query = page.evaluate("location.hash"), page.column(1), page.opened()
        assert len(listed) > 1
    with opened(browser, systems.path, link) as page:
        assert page.input_value("#run") == "dense" and page.input_value("#metric") == "recall@10"
        assert page.input_value("#search") == "e" and page.input_value("#outcome") == "broken"
        assert page.column(1) == listed and page.opens(query)
        assert page.inner_text("h1") == "dense against bm25"
        assert page.evaluate("location.hash") == link
    with opened(browser, systems.path) as page:
        first = page.input_value("#run")
        other = "both" if first == "dense" else "dense"
        page.select_option("#run", other)
        page.locator("#moved-lists a").first.click()  # links inside the page keep the choice
        assert page.input_value("#run") == other and f"run={other}" in page.evaluate("location.hash")


def test_a_query_is_in_the_segment_of_each_of_its_values(browser: Any, tmp_path: Path) -> None:
    tags = {"q1": ["vip", "mobile"], "q2": ["vip"], "q3": "mobile", "q4": [], "q5": None, "q6": ["legal", "vip"]}
    gold = {q: ["a"] for q in tags}
    table = {q: {"text": f"text of {q}", **({} if own is None else {"tags": own})} for q, own in tags.items()}
    result = karat.evaluate(gold, {q: ["a"] for q in tags}, "mrr", queries=table, by="tags", details=True)
    path = tmp_path / "tags.html"
    path.write_bytes(rendered(page_of(source_of(result))))
    members = {"(none)": ["q4", "q5"], "legal": ["q6"], "mobile": ["q1", "q3"], "vip": ["q1", "q2", "q6"]}
    assert {s.by["tags"]: s.n for s in result.segments} == {value: len(ids) for value, ids in members.items()}
    with opened(browser, path) as page:
        options = page.eval_on_selector_all("#field-filters option", "nodes => nodes.map(n => n.textContent)")
        assert options == ["all", *members]
        for value, ids in members.items():
            page.select_option("#field-filters select", json.dumps(value))
            assert page.column(1) == ids
            page.click("#filters button[type=reset]")
            until(page, "document.querySelectorAll('#rows tr[data-query]').length === 6")
            page.click(f"#segments-table tr[data-segment='tags = {value}'] a")
            assert page.column(1) == ids
            link = page.evaluate("location.hash")
            assert f"field.tags={quote(value, safe='()')}" in link
        page.select_option("#field-filters select", '"mobile"')
        assert page.inner_text("#query .tag >> nth=0") == "tags = mobile"
        page.click("#rows tbody tr[data-query]")
        assert page.eval_on_selector_all("#query .tag", "n => n.map(x => x.textContent)")[:2] == [
            "tags = mobile",
            "tags = vip",
        ]
    with opened(browser, path, "#field.tags=vip") as page:
        assert page.column(1) == members["vip"] and page.logged == []


def test_the_pane_follows_the_search_and_enter_opens_the_first_hit(browser: Any, systems: Made) -> None:
    with opened(browser, systems.path) as page:
        page.keyboard.press("/")
        page.keyboard.type("LBX")
        assert page.opened() in page.column(1)
        page.keyboard.press("Enter")
        assert page.opened() == page.column(1)[0]
        assert page.evaluate("document.activeElement.id") == "query"
        assert page.evaluate("location.hash").startswith("#query=") and "search=LBX" in page.evaluate("location.hash")
        page.fill("#search", "no such words anywhere")
        assert page.number() == 0 and page.inner_text("#query") == ""


def test_words_of_the_query_are_marked_in_texts_as_text(browser: Any, tmp_path: Path) -> None:
    gold = {f"q{i}": {"a": 1} for i in range(3)}
    run = {q: {"a": 2.0, "b": 1.0} for q in gold}
    table = {
        "q0": {"text": "how are tracheïds <b>formed"},
        "q1": {"text": "how are 日本語の検索"},
        "q2": {"text": "how are"},
    }
    docs = {"a": {"text": "Tracheids are cells. <b>bold</b> 検索エンジンは"}, "b": {"text": "Nothing here."}}
    found = karat.evaluate(gold, run, "ndcg@10", details=True)
    karat.write_report(found, str(tmp_path / "r.html"), queries=table, docs=docs)
    with opened(browser, tmp_path / "r.html", "#query=q0") as page:
        first = page.locator("#query .doc").first
        assert {"Tracheids"} <= set(first.locator("summary mark").all_text_contents())
        assert page.locator("#query .doc b, #query h3 b").count() == 0
        page.keyboard.press("j")
        page.evaluate("location.hash = '#query=q1'")
        assert page.opens("q1")
        assert "検索" in page.locator("#query .doc summary mark").all_text_contents()


def test_whole_words_and_codes_are_marked_and_words_of_many_queries_are_not(browser: Any, tmp_path: Path) -> None:
    """ "how" and "stop" are in 4 of 8 queries; 2% of 8 is less than two queries, which are allowed."""
    texts = ["E-12 at the long über-Tür, how", "how stop", "stop how", "how stop E-3", "a stop", "b", "c", "how stop d"]
    table = {f"q{i}": {"text": text} for i, text in enumerate(texts)}
    run = {q: {"a": 2.0, "b": 1.0} for q in table}
    docs = {
        "a": {
            "text": "How E-12 and e\u201112 stop (E-120, E 12, E-12-X): the longas, LONG at Uber, E-12は long-lived."
        },
        "b": {"text": "start " * 30 + "tail"},
    }
    found = karat.evaluate({q: {"a": 1} for q in table}, run, "mrr", details=True)
    karat.write_report(found, str(tmp_path / "r.html"), queries=table, docs=docs)
    with opened(browser, tmp_path / "r.html", "#query=q0") as page:
        marks = page.locator("#query .doc >> nth=0 >> p mark").all_text_contents()
        assert marks == ["E-12", "e\u201112", "the", "LONG", "Uber", "E-12", "long"]
        cut = page.locator("#query .doc >> nth=1 >> summary bdi").text_content()
        assert cut == "start " * 20 + "…"  # 120 characters, and no part of a word
        page.keyboard.press("j")
        page.evaluate("location.hash = '#query=q1'")
        assert page.opens("q1") and page.count("#query .doc mark") == 0 and page.logged == []


def test_long_queries_unfold(browser: Any, tmp_path: Path) -> None:
    text = "why does the pump " + "stall and restart " * 60 + "at night"
    found = karat.evaluate({"q": {"a": 1}}, {"q": {"a": 1.0}}, "ndcg@10", details=True)
    karat.write_report(found, str(tmp_path / "r.html"), queries={"q": {"text": text}})
    with opened(browser, tmp_path / "r.html") as page:
        assert not page.inner_text("#query-title").endswith("at night")
        page.click("text=Show the whole query")
        assert page.inner_text("#query-title") == text


def crowd(folder: Path) -> Path:
    """Ten runs with long names, six metrics, twenty segments and a long query."""
    rng = random.Random(2)
    ids = [f"query-{i}" for i in range(60)]
    gold = {q: {f"{q}-d{j}": 1 + j % 3 for j in range(4)} for q in ids}
    runs = {
        f"retriever-number-{n}-of-the-release": {
            q: {d: rng.random() for d in [*gold[q], *(f"{q}-x{j}" for j in range(30))]} for q in ids
        }
        for n in range(10)
    }
    long = " of a very long question that goes on" * 30
    table = {
        q: {"text": f"what is the synchronization{long if i == 0 else ''} {i}", "topic": f"topic number {i % 20}"}
        for i, q in enumerate(ids)
    }
    found = karat.compare(
        gold,
        runs,
        ["ndcg@10", "recall@5", "mrr", "hit@1", "map", "precision@5"],
        queries=table,
        by="topic",
        min_segment=3,
        details=True,
    )
    karat.write_report(found, str(folder / "crowd.html"), queries=table)
    return folder / "crowd.html"


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ten")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KARAT_CACHE_DIR", str(folder / "cache"))
        return crowd(folder)


def test_ten_runs_have_whole_legends_and_every_chart_shows_its_axis(browser: Any, ten: Path) -> None:
    with opened(browser, ten, width=1400) as page:
        drawn(page)
        for chart in ("curves", "forest", "account"):
            card = page.locator(f".card:has(#{chart})").bounding_box()
            for key in page.locator(f"#{chart}-legend > *").all():
                box = key.bounding_box()
                assert card["x"] <= box["x"] and box["x"] + box["width"] <= card["x"] + card["width"]
                assert box["y"] + box["height"] <= card["y"] + card["height"]
        assert page.count("#curves-legend > *") == 10
        # Of many runs two are drawn, and named.
        drawn_runs = "retriever-number-0-of-the-release and retriever-number-1-of-the-release"
        titles = {page.inner_text("#levels-title"), page.inner_text("#account-note")}
        assert titles == {
            f"Every metric of {drawn_runs}",
            f"The rank at which each relevant doc was returned, by {drawn_runs}.",
        }
        # No chart stands in a scroller that is smaller than itself: the axis at its foot can be seen.
        hidden = page.evaluate(
            """[...document.querySelectorAll('.chart')].filter(c => {
              for (let n = c; n && n !== document.body; n = n.parentElement)
                if (getComputedStyle(n).overflowY !== 'visible' && n.scrollHeight > n.clientHeight + 1) return true;
            }).map(c => c.id)"""
        )
        assert hidden == []
        assert page.count("#forest .role-axis-label text") > 10
        assert page.count("#forest .mark-symbol.role-mark path") == 21
        # The two columns end near each other.
        foot = "n => [...n.lastElementChild.children].at(-1).getBoundingClientRect().bottom"
        ends = page.eval_on_selector_all(".stack", f"nodes => nodes.map({foot})")
        assert abs(ends[0] - ends[1]) < 450
        assert page.logged == []


def test_nothing_is_wider_than_a_phone(browser: Any, ten: Path, made: Made, systems: Made) -> None:
    for path, query in ((ten, "query-0"), (made.path, "q3"), (systems.path, "de-003")):
        with opened(browser, path, f"#query={query}", width=390) as page:
            drawn(page)
            for fold in page.locator("main details:not(.text)").all():
                fold.evaluate("n => { n.open = true }")
            assert page.evaluate("document.documentElement.scrollWidth") == 390
            # Tables scroll inside their cards; everything else fits.
            wide = page.evaluate(
                """[...document.querySelectorAll('main *')].filter(
                  n => !n.closest('.scroll, svg, .rows, .sr, .strip, thead, .text')
                    && n.getBoundingClientRect().right > 391
                ).map(n => n.outerHTML.slice(0, 120))"""
            )
            assert wide == []


def test_the_table_of_metrics_shows_its_differences_without_scrolling(browser: Any, systems: Made) -> None:
    with opened(browser, systems.path, width=1280) as page:
        drawn(page)
        hidden = "n => n.scrollWidth - n.clientWidth"
        assert page.eval_on_selector_all("#metrics .scroll", f"nodes => nodes.map({hidden})") == [0]


# ---- a blessed baseline ----


@pytest.fixture(scope="module")
def blessed(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A check of `candidate` against a file in which another `candidate` was blessed."""
    folder = tmp_path_factory.mktemp("blessed")
    write_data(folder)
    config = json.loads((folder / "karat.yaml").read_text())
    config.pop("outputs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KARAT_CACHE_DIR", str(folder / "cache"))
        patch.chdir(folder)
        for run, more in (("old", {}), ("new", {"baseline": "base.json"})):
            gate = "ndcg@10 no worse than baseline by 0.9" if more else "ndcg@10 >= 0.01"
            text = json.dumps(
                {
                    **config,
                    "runs": {"candidate": f"{run}.json"},
                    "gates": [gate],
                    **more,
                    **({} if more else {"baseline": None}),
                }
            )
            (folder / "karat.yaml").write_text(text)
            if not more:
                assert CliRunner().invoke(app, ["bless", "-o", "base.json"]).exit_code == 0
        done = CliRunner().invoke(app, ["check", "--html", "r.html", "--save", "check.json", "-q"])
        assert done.exit_code == 0, done.output
    return Made(folder / "r.html", records(folder / "check.json"), folder)


def test_a_blessed_baseline_stands_beside_the_run(browser: Any, blessed: Made, made: Made) -> None:
    runs = {r["name"]: r for r in made.document["runs"]}  # the same two runs, both evaluated
    before, after = (
        dict(zip(runs[n]["query_ids"], runs[n]["per_query"]["ndcg@10"], strict=True)) for n in ("old", "new")
    )
    with opened(browser, blessed.path) as page:
        drawn(page)
        assert page.logged == []
        assert "candidate against baseline" in page.title()
        cell = "#metrics td[data-metric='ndcg@10'][data-run='baseline']"
        assert float(page.get_attribute(cell, "data-value")) == pytest.approx(runs["old"]["metrics"]["ndcg@10"]["mean"])
        page.select_option("#outcome", "broken")
        assert set(page.column(1)) == {q for q in before if after[q] < before[q]}
        assert page.count("#points .mark-symbol.role-mark path") == 30
        assert page.locator("#moved-lists a").count() > 0
        assert "holds values, not lists" in page.inner_text("#query")
        assert page.locator("#query .lists > div").count() == 1
        # What a file does not hold is not called missed.
        assert "baseline" not in page.inner_text("#misses")


def test_a_metric_that_the_baseline_lacks_stands_on_the_page(tmp_path: Path) -> None:
    gold = {f"q{i}": {"a": 1} for i in range(30)}
    lists = {q: ["a", "b"] if i % 3 else ["b", "a"] for i, q in enumerate(gold)}
    base = tmp_path / "base.json"
    karat.bless(karat.evaluate(gold, {"old": lists}, "mrr"), str(base))
    new = karat.evaluate(gold, {"new": lists}, "mrr, hit@1")
    page = page_of(source_of(karat.check(new, ["mrr >= 0.1", "hit@1 >= 0.1"], baseline=str(base))))
    assert [row.name for row in page.metrics] == ["mrr", "hit@1"]


def test_a_page_without_details_says_what_it_lacks() -> None:
    gold, run = {"q": {"a": 1}}, {"q": {"a": 1.0}}
    texts = {
        details: str(page_of(source_of(karat.evaluate(gold, run, "mrr", details=details))).facts)
        for details in (True, False)
    }
    assert ["measured without details=True" in texts[details] for details in (True, False)] == [False, True]


def test_the_forest_says_worse_where_lower_is_better(browser: Any, tmp_path: Path) -> None:
    gold = {f"q{i}": {"a": 1} for i in range(40)}
    table = {q: {"kind": "xy"[i % 2]} for i, q in enumerate(gold)}
    for name in ("old", "new"):
        rows = [
            {"query_id": q, "topk": [{"doc_id": "a"}], "latency_ms": {"total": 10 + (i * 7 + (name == "new") * 3) % 11}}
            for i, q in enumerate(gold)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    runs = [str(tmp_path / "old.jsonl"), str(tmp_path / "new.jsonl")]
    compared = karat.compare(gold, runs, "latency.mean", queries=table, by="kind", details=True)
    karat.write_report(compared, str(tmp_path / "r.html"))
    with opened(browser, tmp_path / "r.html") as page:
        drawn(page)
        assert page.inner_text("#forest-note").startswith(
            "No segment is significantly worse. Worse, but within chance: "
        )


def test_the_forest_does_not_call_chance_what_too_few_queries_show(browser: Any, tmp_path: Path) -> None:
    """Segment x falls within chance; y, of 4 queries, is not judged at all."""
    gold = {f"q{i}": {"a": 1} for i in range(44)}
    table = {q: {"kind": "y" if i < 4 else "x"} for i, q in enumerate(gold)}
    old = {q: ["a", "b"] for q in gold}
    new = {q: ["b", "a"] if i in (0, 10) else ["a", "b"] for i, q in enumerate(gold)}
    karat.write_report(
        karat.compare(gold, {"old": old, "new": new}, "mrr", queries=table, by="kind", details=True),
        str(tmp_path / "r.html"),
    )
    with opened(browser, tmp_path / "r.html") as page:
        text = page.inner_text("#forest-note")
    assert "Worse, but within chance: kind = x (−0.0125, 40 queries)." in text
    assert "Worse, but too small to judge: kind = y (−0.1250, 4 queries)." in text


def test_the_page_with_a_blessed_baseline_names_the_gold_and_what_it_allows(blessed: Made) -> None:
    gold = {f"q{i}": {f"d{i}-{j}": 1 for j in range(20)} for i in range(30)}  # of 20 relevant docs 10 fit in a top 10
    runs = {name: {q: [*list(docs)[:8], name] for q, docs in gold.items()} for name in ("old", "new")}
    alone = karat.evaluate(gold, {"new": runs["new"]}, "recall@10")
    base = blessed.folder / "recall.json"
    karat.bless(karat.evaluate(gold, {"old": runs["old"]}, "recall@10"), str(base))
    source = source_of(karat.check(alone, gates=["recall@10 >= 0.1"], baseline=str(base)))
    assert source.result.fingerprints == alone.fingerprints
    assert alone.fingerprints.gold is not None
    old, new = (read_value(run, "recall@10") for run in source.result.runs)
    assert old is not None and new is not None
    assert old.text == new.text
    assert "the gold allows at most 0.500" in old.text


def test_a_saved_check_shows_its_blessed_baseline_too(blessed: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(blessed.folder)
    assert page_of(source_of("check.json")).run_names == ["baseline", "candidate"]


def test_a_saved_check_holds_the_baseline_that_it_was_made_with(tmp_path: Path) -> None:
    """Whatever the file of the baseline holds now, and from wherever the report is made."""
    gold = {f"q{i}": {"a": 1} for i in range(40)}
    lists = {n: {q: ["a"] if i % 10 < k else ["x"] for i, q in enumerate(gold)} for n, k in (("old", 8), ("new", 3))}
    base, saved = tmp_path / "base.json", str(tmp_path / "check.json")
    karat.bless(karat.evaluate(gold, {"s": lists["old"]}, "mrr"), str(base))
    result = karat.evaluate(gold, {"other": lists["old"], "s": lists["new"]}, "mrr", details=True)
    check = karat.check(result, ["mrr no worse than baseline by 0.05"], baseline=str(base), candidate="s")
    check.save(saved)
    direct = page_of(source_of(check))
    assert page_of(source_of(saved)) == direct
    karat.bless(result, str(base), run="s")
    assert page_of(source_of(saved)) == direct
    base.unlink()
    assert page_of(source_of(saved)) == direct


def test_a_saved_check_of_an_older_version_says_that_its_baseline_is_lost(tmp_path: Path) -> None:
    gold = {f"q{i}": {"a": 1} for i in range(40)}
    lists = {n: {q: ["a"] if i % 10 < k else ["x"] for i, q in enumerate(gold)} for n, k in (("old", 8), ("new", 3))}
    base, saved = tmp_path / "base.json", tmp_path / "check.json"
    karat.bless(karat.evaluate(gold, {"s": lists["old"]}, "mrr"), str(base))
    result = karat.evaluate(gold, {"s": lists["new"]}, "mrr", details=True)
    karat.check(result, ["mrr no worse than baseline by 0.05"], baseline=str(base), candidate="s").save(str(saved))
    document = json.loads(saved.read_text())
    del document["baseline"]["run"]
    saved.write_text(json.dumps(document))
    lost = "is no longer the baseline that was compared with"
    assert not any(lost in remark.text for remark in source_of(str(saved)).remarks)
    karat.bless(result, str(base), run="s")
    assert any(lost in remark.text for remark in source_of(str(saved)).remarks)
    base.unlink()
    assert any(lost in remark.text for remark in source_of(str(saved)).remarks)


def test_a_saved_check_says_why_a_gate_is_undecided_as_the_fresh_one_does(tmp_path: Path) -> None:
    kinds = {f"q{i}": {"kind": "ab"[i % 2] if i < 40 else "c", "weight": 1 + i % 3} for i in range(46)}
    gold = {q: ["a"] for q in kinds}
    base = {q: ["x", "a"] if i % 3 else ["a"] for i, q in enumerate(gold)}
    new = {q: docs if kinds[q]["kind"] == "a" else docs[::-1] for q, docs in base.items()}
    result = karat.evaluate(gold, {"base": base, "new": new}, "mrr", queries=kinds, by="kind", details=True)
    check = karat.check(result, ["mrr no worse than baseline by 0.01 for every kind"], baseline="base")
    check.save(str(tmp_path / "check.json"))
    fresh, saved = (
        {row.where: wording.advise(row) for row in source_of(one).gates}
        for one in (check, str(tmp_path / "check.json"))
    )
    assert "but about 1 query in" in fresh["kind = a"]
    assert "independent ones, and fewer than 10 are not judged alone" in fresh["kind = c"]
    assert saved == fresh


# ---- decisions ----


HOLM = {"method": "holm", "size": 1, "over": "candidates"}


def test_colour_follows_the_decision_and_not_the_interval(browser: Any, made: Made, tmp_path: Path) -> None:
    document = json.loads(json.dumps(made.document))
    for row in document["comparisons"]:
        row |= {
            "delta": 0.1,
            "ci": [0.05, 0.15],
            "significant": False,
            "p": {"randomization": 0.03},
            "p_adjusted": 0.12,
        }
        family = {"method": "bh", "size": 3, "over": "segments"} if row["segment"] else {**HOLM}
        row |= {"decided_by": "randomization", "family": family}
        if row["metric"] == "mrr":
            row |= {"significant": True, "p_adjusted": 0.04, "small": row["segment"] is not None}
    (tmp_path / "r.html").write_text(text_of(document), "utf-8")
    with opened(browser, tmp_path / "r.html") as page:
        drawn(page)
        toned = page.eval_on_selector_all(
            "#metrics td.up, #metrics td.down", "nodes => nodes.map(n => n.dataset.delta)"
        )
        assert toned == ["mrr"]
        cell = page.inner_text("#metrics td[data-delta='ndcg@10']")
        assert "p 0.0300, adjusted 0.1200" in cell and "no significant difference" in cell
        assert page.count("#segments td.up, #segments td.down") == 0
        assert page.inner_text("#forest-legend").split("\n") == ["no significant difference"]
        page.select_option("#metric", "mrr")
        assert page.count("#segments td.up, #segments td.down") == 0  # small segments are never significant
        families = "Holm over 1 candidate and Benjamini–Hochberg over 3 segments"
        how = page.text_content("#metrics .how")
        assert f"p is adjusted for ndcg@10, the primary metric, by {families}" in how


def test_the_diagnosis_is_that_of_the_verb_and_names_rules_that_were_skipped(browser: Any, systems: Made) -> None:
    found = karat.diagnose(karat.load(str(systems.folder / "runs/result.json.gz")), "dense")
    with opened(browser, systems.path) as page:
        page.select_option("#run", "dense")
        text = page.inner_text("#diagnosis > div:visible")
        assert [f.title for f in found.findings] == page.locator(
            "#diagnosis > div:visible h3 > bdi"
        ).all_text_contents()
        assert found.lead in text
        assert found.unchecked
        page.click("#diagnosis > div:visible summary")
        listed = page.inner_text("#diagnosis > div:visible details")
        assert all(code in listed for code in found.unchecked)
        assert found.open_questions
        for reason, codes in found.open_questions.items():
            assert f"Undecided: {', '.join(codes)} ({reason})" in text
        for finding in found.findings:
            assert finding.advice[0] in text


def test_more_queries_of_a_finding_are_in_the_table(browser: Any, systems: Made) -> None:
    found = karat.diagnose(karat.load(str(systems.folder / "runs/result.json.gz")), "dense")
    number, finding = next((i, f) for i, f in enumerate(found.findings, start=1) if len(f.queries) > 8)
    with opened(browser, systems.path) as page:
        page.select_option("#run", "dense")
        line = page.locator("#diagnosis > div:visible .findings > li").nth(number - 1).locator(".chips")
        assert line.inner_text().startswith(f"{len(finding.queries)} queries are concerned, the worst first: ")
        line.locator(f"text=and {len(finding.queries) - 8} more").click()
        until(page, f"document.getElementById('outcome').value === 'finding-{number}'")
        assert set(page.evaluate("state.hits.map(i => Q.ids[i])")) == set(finding.queries)
        link = page.evaluate("location.hash")
    with opened(browser, systems.path, link) as page:
        assert set(page.evaluate("state.hits.map(i => Q.ids[i])")) == set(finding.queries)


def test_gates_link_to_the_queries_of_their_segments_and_name_the_baseline_s_value(
    browser: Any, tmp_path: Path
) -> None:
    """Of 40 queries 20 are of kind b: old has 15 of them first (0.75), new none."""
    gold = {f"q{i:02}": ["a"] for i in range(40)}
    table = {q: {"kind": "ab"[i % 2]} for i, q in enumerate(gold)}
    old = {q: ["x", "a"] if i % 8 == 1 else ["a"] for i, q in enumerate(gold)}
    new = {q: ["x", "a"] if i % 2 else ["a"] for i, q in enumerate(gold)}
    result = karat.evaluate(gold, {"old": old, "new": new}, "hit@1", queries=table, by="kind", details=True)
    gates = ["hit@1 >= 0.5 where kind = b", "hit@1 >= 0.5 for every kind", "hit@1 no worse than baseline by 0.1"]
    check = karat.check(result, gates, baseline="old")
    karat.write_report(check, str(tmp_path / "r.html"))
    with opened(browser, tmp_path / "r.html") as page:
        links = page.eval_on_selector_all(
            "#gates td ~ th a", "nodes => nodes.map(n => [n.textContent, n.getAttribute('href')])"
        )
        assert ["kind = b", "#field.kind=b&section=queries"] in links and len(links) == 3
        values = page.eval_on_selector_all("#gates td[data-gate]", "nodes => nodes.map(n => n.innerText)")
        assert "0.0000\nold 0.7500" in values and not [v for v in values if v.startswith("Δ") and "old" in v]
        page.locator("#gates a", has_text="kind = b").first.click()
        until(page, "state.hits.length === 20")
        assert page.evaluate("location.hash") == "#field.kind=b&section=queries"
        fix = page.inner_text("#verdict .fix:visible")
        assert fix.startswith("What to fix: ") and page.locator("#diagnosis h3 bdi").first.text_content() in fix


def test_the_table_says_which_of_its_queries_no_metric_of_relevance_counts(
    browser: Any, systems: Made, made: Made, tmp_path: Path
) -> None:
    with opened(browser, systems.path) as page:
        assert "218 queries" in page.inner_text("#verdict .scope")
        assert page.inner_text("#count") == "232 of 232 queries (14 have no answer)"
    with opened(browser, made.path) as page:
        assert page.inner_text("#count") == "30 of 30 queries"
    lines = [{"query_id": q, "topk": [{"doc_id": "a"}], "latency_ms": {"total": 9}} for q in "pqr"]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = karat.evaluate({q: ["a"] for q in "pq"}, str(tmp_path / "log.jsonl"), "mrr,latency.p50", details=True)
    karat.write_report(found, str(tmp_path / "r.html"))
    with opened(browser, tmp_path / "r.html") as page:
        assert page.inner_text("#count") == "3 of 3 queries (1 has no gold)"


def test_a_gate_on_latency_says_which_queries_it_has_more(browser: Any, systems: Made) -> None:
    """The demo has 218 queries with gold and 14 without an answer."""
    check = karat.check(
        karat.load(str(systems.folder / "runs/result.json.gz")), ["latency.p90 <= 50ms", "mrr@20 >= 0.1"]
    )
    found = {g.gate: (g.n, g.n_note) for g in page_of(source_of(check)).gates}
    assert found["mrr@20 >= 0.1"] == (218, "")
    assert found["latency.p90 <= 50ms"] == (232, "232 queries, 14 without an answer among them")


def test_the_page_says_when_it_was_made_what_was_not_logged_and_p_once(browser: Any, systems: Made) -> None:
    saved = karat.load(str(systems.folder / "runs/result.json.gz"))
    assert saved.provenance is not None
    with opened(browser, systems.path) as page:
        page.click("text=How p is adjusted")
        facts, text = page.inner_text("#facts"), page.inner_text("main")
        assert re.search(r"measured\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", facts) and "cost\nnot logged" in facts
        assert "95%, each by what suits its metric; " in facts and "auto" not in facts
        assert text.count("p is adjusted for ndcg@10, the primary metric, by ") == 1
        assert not re.search("unlisted", page.inner_text("#metrics"))
    karat.write_report(saved, str(systems.folder / "again.html"))
    assert saved.provenance.time[:10] in (systems.folder / "again.html").read_text("utf-8")


def test_segments_that_share_conversations_are_named_beside_the_statement(tmp_path: Path) -> None:
    """Every conversation has a query of each kind and type, so these cannot be tested apart; topics can."""
    gold = {f"q{i:03}": ["a"] for i in range(120)}
    table = {
        q: {"conversation": f"c{i // 2}", "kind": "ab"[i % 2], "type": "cd"[i % 2], "topic": "xy"[i // 2 % 2]}
        for i, q in enumerate(gold)
    }
    runs = {
        "old": {q: ["a"] if i % 5 else ["x", "a"] for i, q in enumerate(gold)},
        "new": {q: ["a"] if i % 7 else ["x", "a"] for i, q in enumerate(gold)},
    }
    found = karat.compare(gold, runs, "mrr", queries=table, by=["kind", "type", "topic"], details=True)
    (run,) = (run for run in page_of(source_of(found)).runs if run.name == "new")
    assert "depend" in run.sentence and " topic (2 segments" in run.sentence
    assert "Segments by kind and by type share conversations, so their Δ mrr are neither tested" in run.sentence


def test_lists_are_named_where_a_doc_is_in_one_of_them(browser: Any, made: Made) -> None:
    with opened(browser, made.path, "#query=q3") as page:
        assert "→ rank in the list of new" in page.inner_text("#query .legend")
        left, right = (page.locator(f"#query .lists > div:nth-child({n})").inner_text() for n in (1, 2))
        assert (
            re.search(r"not (in the (list|top 20) of|returned by) new", left) and " old" not in left.split("\n", 1)[1]
        )
        assert re.search(r"not (in the (list|top 20) of|returned by) old", right) and "the other" not in right


def test_a_change_of_nothing_reads_0(browser: Any, made: Made) -> None:
    page = looked_at(browser, made.path)
    assert page.evaluate("[figure('mrr', 0, true), figure('mrr', 0), figure('mrr', 0.1, true)]") == [
        "0",
        "0.0000",
        "+0.1000",
    ]


def test_the_code_of_a_retriever_is_named_in_words(browser: Any, systems: Made) -> None:
    page = looked_at(browser, systems.path)
    text = page.inner_text("#facts")
    assert "retriever's code" in text and "code version" not in text


def test_the_change_by_segment_says_how_many_segments_it_does_not_name(browser: Any, tmp_path: Path) -> None:
    gold = {f"q{i:03}": {"a": 1} for i in range(100)}
    runs = {"old": {q: ["a"] for q in gold}, "new": {q: ["x"] for q in gold}}
    queries = {q: {"kind": f"k{i % 5}"} for i, q in enumerate(gold)}
    found = karat.compare(gold, runs, "ndcg@10", queries=queries, by="kind")
    (tmp_path / "r.html").write_bytes(rendered(page_of(source_of(found))))
    with opened(browser, tmp_path / "r.html") as page:
        drawn(page)
        note = page.inner_text("#forest-note")
        assert note.startswith("Significantly worse: kind = k0 (") and note.endswith("; and 2 more segments.")


def test_the_leaderboard_marks_no_total_over_fewer_queries_as_best(browser: Any, tmp_path: Path) -> None:
    for name, tokens, count in (("a", 100, 40), ("b", 110, 40), ("c", 102, 30)):
        rows = [{"query_id": f"q{i}", "topk": [{"doc_id": "d"}], "cost": {"tokens": tokens}} for i in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gold = {f"q{i}": ["d"] for i in range(40)}
    runs = {name: str(tmp_path / f"{name}.jsonl") for name in "abc"}
    result = karat.evaluate(gold, runs, "mrr,cost.tokens.sum,cost.tokens")
    result.save(tmp_path / "r.json")
    assert CliRunner().invoke(app, ["report", str(tmp_path / "r.json"), "-o", str(tmp_path / "r.html")]).exit_code == 0
    with opened(browser, tmp_path / "r.html") as page:
        best = page.locator("#ranking td.best").all_text_contents()
        assert [text.partition("[")[0] for text in best] == ["1.0000", "100.00", "1.0000"]  # mrr, tokens each, mrr
        assert page.count("#ranking .best-tag") == 2


@pytest.mark.parametrize("credit", ["first", "all"])
def test_a_second_chunk_of_a_relevant_doc_says_that_it_earns_nothing(browser: Any, tmp_path: Path, credit: Any) -> None:
    gold = {f"q{i}": {"d1": 1, "d2": 1} for i in range(12)}
    lists = {q: ["d1#a", "x#a", "d1#b", "d2#a"] for q in gold}
    result = karat.evaluate(gold, lists, "ndcg@10,mrr", level="doc", chunk_credit=credit, details=True)
    (tmp_path / "r.html").write_bytes(rendered(page_of(source_of(result))))
    with opened(browser, tmp_path / "r.html", "#query=q3") as page:
        docs = page.locator("#ranked li.doc").all_text_contents()
        assert len(docs) == 4 and page.logged == []
        said = [place for place, text in enumerate(docs, start=1) if "earns nothing: its doc counted above" in text]
        assert said == ([3] if credit == "first" else [])
