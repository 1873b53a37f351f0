"""Whatever a query, a doc, a run, a segment or a gate is called, the report shows it as text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

import karat
from karat.model.docs import Docs
from karat.report.html.clean_text import clean, cut, cut_all, name
from karat.report.html.page import rendered
from karat.report.html.sections import page_of
from karat.report.html.source import source_from, source_of
from karat.results.decisions import ComparisonOutcome
from saved_documents import read_document, saved_document

MARKUP = (
    "<script>window.ran = 1</script>",
    "</script><script>window.ran = 2</script>",
    "<!-- <script>",
    "]]>-->",
    "<img src=x onerror='window.ran = 3'>",
    "<svg onload=window.ran=4>",
    '"><b onmouseover="window.ran=5">x</b>',
    "' onfocus='window.ran=6' autofocus='",
    "{{7*7}}{% raw %}",
    "${window.ran=7}",
    "javascript:window.ran=8",
    "</textarea></title></style><h1>big</h1>",
    "&lt;i&gt;&#60;u&#62;",
    "__proto__",
    "constructor",
)
ODD = (
    "\u202eright to left",
    "\u2067isolated",
    "\u200fmark",
    "nul\x00 bell\x07 esc\x1b[31m",
    "half \ud83d pair",
    "a\u2028b\u2029c",
    "\ufeffbom",
    "tab\tand\nline",
)


def text_of(document: dict[str, Any], docs: Docs | None = None) -> str:
    """The page of a saved document."""
    return rendered(page_of(source_from(read_document(document)), docs=docs)).decode()


def result_with(texts: tuple[str, ...], *, run: str = "run") -> dict[str, Any]:
    """A saved comparison in which every text stands in every place: id and text of a query, doc, segment and run.

    What no file could bring in is put there afterwards: a document may come from anywhere.
    """
    ids = [f"§{i}§ {i}" for i in range(len(texts))]
    gold = {q: {q + " doc": 2, "other": 1} for q in ids}
    runs = {
        "base": {q: {q + " doc": 1.0, q + " wrong": 2.0} for q in ids},
        "§run§": {q: {q + " doc": 2.0} for q in ids},
    }
    queries = {q: {"text": q.split()[0], "topic": q.split()[0]} for q in ids}
    found = karat.compare(gold, runs, ["ndcg@10", "recall@5"], queries=queries, by="topic", details=True)
    named = {"§run§": run, **{f"§{i}§": t for i, t in enumerate(texts)}}
    return dict(put(saved_document(found), named))


def put(held: Any, named: dict[str, str]) -> Any:
    """The same document with names in the place of their marks."""
    if isinstance(held, str):
        for mark, text in named.items():
            held = held.replace(mark, text) if mark in held else held
        return held
    if isinstance(held, dict):
        return {put(k, named): put(v, named) for k, v in held.items()}
    return [put(v, named) for v in held] if isinstance(held, (list, tuple)) else held


def with_gates(document: dict[str, Any], run: str, texts: tuple[str, ...]) -> dict[str, Any]:
    gates = [
        {
            "gate": "ndcg@10 >= 0.5",
            "name": t,
            "level": "error",
            "run": run,
            "metric": "ndcg@10",
            "segment": {"topic": t},
            "outcome": "fail",
            "why": t,
            "value": 0.25,
            "ci": [0.2, 0.3],
            "op": ">=",
            "threshold": 0.5,
            "n": 4,
            "confidence": 0.95,
            "more_queries": None,
        }
        for t in texts
    ]
    notes = {
        "notes": list(texts),
        "fingerprints": {"gold": {"hash": texts[0]}, "metrics": {}},
        "conventions": {texts[1]: texts[0]},
    }
    told = {"verdict": "BLOCK", "why": f"{texts[0]} fails", "dataset": texts[0], "candidates": [run]}
    return {**document, "kind": "check", "gates": gates, **told, **notes}


def docs_for(document: dict[str, Any], texts: tuple[str, ...]) -> Docs:
    return Docs({d: {"text": " ".join(texts)} for d in document["record"]["docs"]})


@pytest.mark.parametrize("texts", [MARKUP, ODD], ids=["markup", "odd characters"])
def test_texts_of_all_kinds_are_shown_and_never_run(browser: Any, tmp_path: Path, texts: tuple[str, ...]) -> None:
    document = with_gates(result_with(texts, run=texts[0]), texts[0], texts)
    path = tmp_path / "report.html"
    path.write_bytes(text_of(document, docs_for(document, texts)).encode("utf-8"))
    logged: list[str] = []
    context = browser.new_context(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.on("console", lambda message: logged.append(message.text))
    page.on("pageerror", lambda error: logged.append(str(error)))
    page.on("dialog", lambda dialog: logged.append("dialog " + dialog.message))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    for metric in ("recall@5", "ndcg@10"):
        page.select_option("#metric", metric)
    listed = page.locator("#rows tbody tr[data-query] td.id").all_text_contents()
    assert sorted(listed) == sorted(clean(f"{t} {i}") for i, t in enumerate(texts))
    for _ in texts:
        page.keyboard.press("j")
        for fold in page.locator("#query details").all()[:2]:
            fold.click()
    page.wait_for_timeout(500)
    assert logged == []
    assert page.evaluate("window.ran") is None
    # Nothing that a text holds became an element: these are made by no template and no script of ours.
    assert (
        page.locator(
            "main img, main i:not(.legend i, .keys i), main u, main textarea, main iframe, [onmouseover]"
        ).count()
        == 0
    )
    assert page.locator("h1").count() == 1
    assert page.locator("script").count() == 8
    assert "49" not in page.inner_text("#gates")
    names = page.locator("#gates tbody th bdi").all_text_contents()
    assert {clean(t) for t in texts} <= set(names)
    context.close()


def test_a_mark_that_turns_the_direction_ends_with_the_text_that_holds_it(browser: Any, tmp_path: Path) -> None:
    turned = "\u202eevil"
    document = with_gates(result_with((turned, "plain")), "run", (turned, "plain"))
    path = tmp_path / "report.html"
    path.write_text(text_of(document), "utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    # Every text node that holds the mark stands in an element that isolates it.
    loose = page.evaluate("""() => {
      const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), out = [];
      for (let n = walk.nextNode(); n; n = walk.nextNode()) {
        if (!n.textContent.includes('\\u202e') || n.parentElement.closest('script, option, svg')) continue;
        if (!n.parentElement.closest('bdi, [dir=auto]')) out.push(n.parentElement.outerHTML.slice(0, 200));
      }
      return out;
    }""")
    assert loose == []
    assert "\u202e" not in page.inner_text(".why") and "\u202e" not in page.title()
    page.close()


def test_a_megabyte_in_any_place_leaves_the_page_small_and_working(browser: Any, tmp_path: Path) -> None:
    big = "x" * 1_000_000
    texts = (big, big + " two", "small")
    document = with_gates(result_with(texts, run=big), big, texts)
    path = tmp_path / "report.html"
    path.write_text(text_of(document, docs_for(document, ("y" * 1_000_000,))), "utf-8")
    assert path.stat().st_size < 1.5e6
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    logged: list[str] = []
    page.on("pageerror", lambda error: logged.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    page.wait_for_timeout(500)
    assert logged == []
    assert page.locator("#rows tbody tr[data-query]").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth") == 1000
    page.close()


def test_long_names_that_differ_stay_different() -> None:
    first, second = "n" * 500 + "1" + "n" * 500, "n" * 500 + "2" + "n" * 500
    assert name(first) != name(second)
    assert len(name(first)) <= 200
    assert name("short") == "short"


def test_control_characters_have_a_picture_and_broken_pairs_a_mark() -> None:
    assert clean("a\x00b\x1b\x7f\x85\ud800 \t\n") == "a␀b␛␡�� \t\n"


def test_data_cannot_end_its_script_element() -> None:
    text = text_of(result_with(MARKUP))
    data = text.split('id="data">', 1)[1].split("</script>", 1)[0]
    assert "<" not in data
    assert json.loads(data)["queries"]["texts"] == [t for _, t in sorted((f"{t} {i}", t) for i, t in enumerate(MARKUP))]


@pytest.mark.parametrize("odd", ["", "fine", "a\nb", "x" * 30, "\x00", "\ud800", "\u202eturned", "\x85"])
def test_many_texts_are_cut_as_each_of_them_is(odd: str) -> None:
    texts = ["first", odd, "lást", "y" * 20]
    assert cut_all(texts, 20) == [cut(text, 20) for text in texts]


def page_text(outcome: Any) -> str:
    return rendered(page_of(source_of(outcome))).decode()


QUERIES = [f"q{i}" for i in range(30)]
GOLD = {q: ["a", "b"] for q in QUERIES}
LISTS = {name: dict.fromkeys(QUERIES, docs) for name, docs in (("poor", ["x", "a"]), ("best", ["a", "b"]))}


def test_the_first_screen_speaks_of_the_best_run_and_says_by_what() -> None:
    page = page_text(karat.evaluate(GOLD, LISTS, "recall@2,ndcg@10"))
    assert "<title>best · Karat</title>" in page
    assert "best: ndcg@10 1.0000 [0.884, 1.000]. Best of 2 runs by ndcg@10." in page
    assert page.count("Best of 2 runs") == 1


def test_names_of_metrics_are_written_as_declared() -> None:
    page = page_text(karat.check(karat.evaluate(GOLD, LISTS["poor"], "recall@2"), ["recall@2 >= 0.9"]))
    assert '<p class="why"><bdi>recall@2 is 0.5' in page and "Recall@" not in page


def test_notes_on_the_data_stand_on_the_first_screen_with_their_number() -> None:
    lists = LISTS["poor"] | {"other": ["a"]}
    page = page_text(karat.evaluate(GOLD, lists, "recall@5"))
    box = page[page.index('id="remarks"') : page.index('id="metrics"')]
    assert "3 notes on the data behind these figures" in box
    assert "1 query without gold: left out" in box and "end at rank 2, so recall@5" in box
    assert "docs in the top 10 that nobody judged (counted as not relevant): run 30 of 60" in box
    assert "1 query of this run" not in page[page.index('id="facts"') :]


def test_the_chart_of_changes_knows_every_outcome_of_a_comparison() -> None:
    """A segment that was not tested must not be drawn as one without a significant difference."""
    script = (Path(karat.__file__).parent / "report/html/assets/charts.js").read_text("utf-8")
    listed = re.search(r"^const OUTCOMES = (\[.*\]);$", script, re.MULTILINE)
    assert listed is not None
    assert sorted(json.loads(listed[1])) == sorted(get_args(ComparisonOutcome))
