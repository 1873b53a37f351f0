"""What a check writes is read by the tools that others read it with, whatever the names in it are."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import cmarkgfm
import jsonschema
import junitparser
import pytest
import xmlschema
from markdown_it import MarkdownIt
from pylatexenc.latexwalker import LatexEnvironmentNode, LatexMacroNode, LatexSpecialsNode, LatexWalker

import karat
from karat.gates import wording
from karat.pytest_plugin import explained
from karat.report import junit, latex, markdown
from karat.report.html.sections import page_of
from karat.report.html.source import source_of
from karat.report.outputs import Files, summarise, write
from karat.report.terminal import check as check_view
from karat.report.terminal import compare as compare_view
from karat.report.terminal import evaluate as evaluate_view
from karat.report.terminal.console import PIPE
from karat.report.view import view_of
from karat.results.decision_document import read_decision
from karat.results.decisions import describe_families
from karat.results.figures import p_text
from karat.results.remarks import Remark
from karat.stats.intervals import clopper_pearson
from places import ROOT, SUPPORT

pytestmark = pytest.mark.usefixtures("few_draws")  # superscripts where p is far from the level, if any

KETTLE = SUPPORT / "kettle"
RESULT = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/schemas/result.schema.json").read_text()))
XSD = xmlschema.XMLSchema(SUPPORT / "junit.xsd")
HOSTILE = {
    "control": "a\x00b\x1b[31mred\x07\x7f",
    "quotes": "\"double\" 'single' `tick` ``two``",
    "cdata": "]]> <![CDATA[ &amp; & <",
    "script": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "table": "a|b||c\\|d",
    "newlines": "first\nsecond\r\n\n# heading\n- item\n| x | y |",
    "mention": "@someone @10 x@someone.com see #12 https://evil.example www.evil.example",
    "link": "[click](javascript:alert(1)) ![i](http://evil.example/x.png) <http://evil.example> [r]: http://evil.example",
    "emphasis": "**bold** _it_ ~~gone~~ $x^2$ &copy; # head",
    "tex": r"\input{/etc/passwd} $\alpha$ % & _ ^ ~ # { } [x] \\ --",
    "row": "[2pt] * first",
    "list": "- one",
    "number": "1. one",
    "emoji": "🦆 ünï 漢字 \u202egnp\u202c",
    "surrogate": "half \ud83d of one",
    "long": "s" * 10_000,
    "long markup": "<|" * 5_000,
}


def judged(name: str, gates: list[str] | None = None, *, texts: bool = True) -> karat.Check:
    """24 queries in the segments `name` and other; the candidate `name` finds 12 of them, the baseline all."""
    part = name.replace("\0", "")  # no id may hold a null
    gold = {f"q{i:02}{part if i < 3 else ''}": {"d": 1} for i in range(24)}
    runs = {
        "base " + name: {q: {"d": 1.0} for q in gold},
        name: {q: {"d" if i % 2 else "x": 1.0} for i, q in enumerate(gold)},
    }
    table = {
        q: {"text": f"{name} {q}" if texts else "", "kind": name if i < 12 else "other"} for i, q in enumerate(gold)
    }
    result = karat.evaluate(gold, runs, ["mrr", "hit@1", "ndcg@10"], queries=table, by="kind")
    asked = gates or [
        "hit@1 >= 0.95",
        "hit@1 >= 0.55",
        "hit@1 >= 0.1",
        "mrr no worse than baseline by 0.01",
        "hit@1 >= 0.95 for every kind",
    ]
    found = karat.check(
        result, [*asked, {"gate": "mrr >= 0.9", "level": "warn", "name": name}], baseline="base " + name
    )
    return replace(found, name=name, link="https://ci.example/report?a=1&b=(2)")


@pytest.fixture(params=HOSTILE, scope="module")
def hostile(request: pytest.FixtureRequest) -> karat.Check:
    return judged(HOSTILE[request.param])


# JUnit


def test_junit_is_well_formed_and_valid_whatever_the_names_are(hostile: karat.Check) -> None:
    data = junit.render(view_of(hostile))
    XSD.validate(data.decode())
    root = ET.fromstring(data)
    cases = root.findall(".//testcase")
    # 4 gates over all queries, 1 gate in two segments, 1 warning.
    assert len(cases) == len(hostile.rows) == 7
    sound = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]", "\ufffd", hostile.candidates[0])
    assert {c.get("classname") for c in cases} == {f"karat.{sound}"}


def test_a_baseline_of_the_same_name_is_called_the_baseline_once() -> None:
    gold = {f"q{i}": {"a": 1} for i in range(30)}
    old, new = (karat.evaluate(gold, {"s": {q: [doc] for q in gold}}, "mrr") for doc in ("a", "b"))
    text = markdown.render(view_of(karat.compare(old, new)))
    assert "s (baseline)" in text and "(baseline) (baseline)" not in text


def test_a_junit_message_gives_a_reason_once(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"query_id": "q", "topk": [{"doc_id": "a"}]}')
    (tmp_path / "gold.qrels").write_text("q 0 a 1\n")
    (tmp_path / "karat.yaml").write_text(
        "dataset: {qrels: gold.qrels}\nruns: {a: log.jsonl}\ngates: [reranker.ndcg@5 >= 0]\n"
    )
    root = ET.fromstring(junit.render(view_of(karat.check(str(tmp_path / "karat.yaml")))))
    (error,) = root.findall(".//error")
    assert error.get("message", "").count("reranker was not measured") == 1


def test_a_junit_consumer_counts_what_was_judged(tmp_path: Path) -> None:
    path = tmp_path / "gates.xml"
    path.write_bytes(junit.render(view_of(judged(HOSTILE["cdata"]))))
    (suite,) = list(junitparser.JUnitXml.fromfile(str(path)))
    cases = list(suite)
    kinds = [type(c.result[0]).__name__ if c.result else "passed" for c in cases]
    # Of 24 queries 12 are hits: .5, Wilson .314 to .686. Against .95 it fails, .55 is inside, .1 passes; the mean
    # difference from 1 is −.5: fails. In both segments 6 of 12 are hits: fails twice. The warning is a skipped case.
    assert kinds == ["Failure", "Error", "passed", "Failure", "Failure", "Failure", "Skipped"]
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (7, 4, 1, 1)
    messages = [c.result[0].message if c.result else None for c in cases]
    assert "hit@1 is 0.500 [0.291, 0.709]; at least 0.95 is required" in messages[0]
    assert "whole interval is below the threshold of 0.95" in messages[0]
    assert re.search(r"about [\d,]+( to [\d,]+)? more queries would settle it", messages[1])
    assert messages[6].startswith("warning, fail: ")
    told = {p.name: p.value for p in suite.properties()}
    assert told["verdict"] == "BLOCK" and told["fingerprint.gold"]


def test_the_schema_refuses_what_consumers_would_misread() -> None:
    good = junit.render(view_of(judged("plain"))).decode()
    XSD.validate(good)
    assert not XSD.is_valid(good.replace('errors="1"', 'errors="one"'))
    assert not XSD.is_valid(good.replace(' type="undecided"', ""))
    assert not XSD.is_valid(re.sub(r'classname="[^"]*" ', "", good))


# JSON


def test_checks_follow_the_schema_whatever_the_names_are(hostile: karat.Check, tmp_path: Path) -> None:
    write(view_of(hostile), Files({"json": str(tmp_path / "c.json"), "save": str(tmp_path / "s.json.gz")}))
    document = json.loads((tmp_path / "c.json").read_bytes())
    RESULT.validate(document)
    assert document["verdict"] == "BLOCK"
    assert document["runs"][1]["name"] == hostile.candidates[0]
    again = karat.load(str(tmp_path / "s.json.gz"))
    assert again.runs[1].name == hostile.candidates[0]
    assert again.runs[1].mean == hostile.result.runs[1].mean


def test_baselines_and_comparisons_with_saved_results_follow_the_schema(tmp_path: Path) -> None:
    found = judged(HOSTILE["surrogate"])
    base, saved = str(tmp_path / "base.json"), str(tmp_path / "saved.json")
    karat.bless(found.result, base, run=found.candidates[0])
    RESULT.validate(json.loads(Path(base).read_bytes()))
    found.result.save(saved)
    RESULT.validate(json.loads(Path(saved).read_bytes()))
    compared = karat.compare(base, saved).as_json()
    RESULT.validate(json.loads(json.dumps(compared, allow_nan=False)))
    same = next(c for c in compared["comparisons"] if c["metric"] == "mrr" and c["candidate"] == found.candidates[0])
    assert same["delta"] == 0


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_tables_hold_every_value_whatever_the_names_are(hostile: karat.Check, tmp_path: Path, ending: str) -> None:
    import duckdb

    path = tmp_path / f"t.{ending}"
    write(view_of(hostile), Files({"per_query": str(path)}))
    if ending == "parquet":
        rows = duckdb.sql(f"SELECT count(*), sum(value) FROM '{path}'").fetchall()[0]
    elif ending == "jsonl":
        values = [json.loads(line)["value"] for line in path.read_bytes().splitlines()]
        rows = (len(values), sum(values))
    else:
        import csv

        listed = list(csv.DictReader(path.read_text("utf-8").splitlines(keepends=True)))
        rows = (len(listed), sum(float(r["value"]) for r in listed))
    # 2 runs × 3 metrics × 24 queries; the baseline scores 1 throughout, the candidate 12 of 24 on each metric.
    assert rows == (144, pytest.approx(72 + 36))


# Markdown


def html(check: karat.Check) -> str:
    return cmarkgfm.github_flavored_markdown_to_html(markdown.render(view_of(check)), cmarkgfm.Options.CMARK_OPT_UNSAFE)


def test_a_comment_begins_with_the_verdict_and_is_short(hostile: karat.Check) -> None:
    text = markdown.render(view_of(hostile))
    assert text.splitlines()[0].startswith("## ⛔ BLOCK: ")
    assert len(text) < 5_000
    assert "[Full report](https://ci.example/report?a=1&b=%282%29)" in text


def test_no_markup_of_a_name_gets_into_a_comment(hostile: karat.Check) -> None:
    page = html(hostile)
    allowed = {"h2", "p", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "code", "strong", "em", "a"}
    assert set(re.findall(r"</?([a-z0-9]+)", page)) <= {*allowed, "blockquote"}
    assert page.count("<blockquote>") == 1  # what to know of the data: here, where the lists end
    assert re.findall(r'href="([^"]*)"', page) == ["https://ci.example/report?a=1&amp;b=%282%29"]
    assert page.count("<h2>") == 1 and page.count("<table>") == 1
    outside = re.sub(r"<code>.*?</code>", "", page, flags=re.DOTALL)
    assert not re.search(r"(^|\W)@\w", outside)  # a mention
    assert not re.search(r"#\d", outside.replace("&#", ""))  # an issue
    bold = re.findall(r"<strong>(.*?)</strong>", page, re.DOTALL)
    assert all(
        b.startswith(("Gates", "Segments that fail", "Significantly worse", "Queries that lost", "Lowest"))
        for b in bold
    )


def test_every_row_of_a_comment_has_as_many_cells_as_its_head(hostile: karat.Check) -> None:
    for source in (html(hostile), MarkdownIt("commonmark").enable("table").render(markdown.render(view_of(hostile)))):
        rows = [len(re.findall(r"<t[hd][ >]", row)) for row in re.findall(r"<tr>.*?</tr>", source, re.DOTALL)]
        assert rows and set(rows) == {4}  # metric, baseline, candidate, difference
        assert 1 < len(rows) <= 6  # the head, and at most five metrics


def test_names_read_in_a_comment_as_they_are_written() -> None:
    for name in ("a|b", "<b>", "**x**", "`tick`", "a_b_c", "$5", "[x](y)", "&amp;", "#1", "- one", "1. one", "100%"):
        page = cmarkgfm.github_flavored_markdown_to_html(markdown.text(name))
        shown = re.sub(r"</?p>|\u200b", "", page).strip()
        for entity, sign in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
            shown = shown.replace(entity, sign)
        assert shown == name
    assert markdown.text("ndcg@10 0.5") == "ndcg@10 0.5"


def test_a_comment_shows_at_most_three_queries_and_five_metrics() -> None:
    runs = {"old": {f"q{i}": {"d": 1.0} for i in range(30)}, "new": {f"q{i}": {"x": 1.0} for i in range(30)}}
    gold = {q: {"d": 1} for q in runs["old"]}
    metrics = "ndcg@{1,2,3,4,5,6,7,8},map,mrr"
    found = karat.check(karat.evaluate(gold, runs, metrics), ["map >= 0.5", "mrr >= 0.5"], baseline="old")
    page = html(found)
    assert page.count("<tr>") == 1 + 5
    assert len(re.findall(r"<li><code>q\d+</code>", page)) == 3
    assert page.index(">map<") < page.index(">ndcg@1<")  # metrics of gates come first
    assert "and 5 more metrics" in page
    assert "Full report" not in page  # no address was given


def test_thirty_gates_in_fifty_segments_make_a_comment_of_less_than_5000_characters() -> None:
    gold = {f"q{i:03}": {"d": 1} for i in range(500)}
    table = {q: {"seg": f"a segment with quite a long name, number {i % 50}"} for i, q in enumerate(gold)}
    runs = {
        f"a system with quite a long name, number {r}": {
            q: {"d" if (i + r) % 3 else "x": 1.0} for i, q in enumerate(gold)
        }
        for r in range(2)
    }
    result = karat.evaluate(gold, runs, "mrr", queries=table, by="seg")
    found = karat.check(result, [f"mrr >= {0.5 + i / 100} for every seg" for i in range(30)])
    assert len(found.rows) == 30 * 50 * 2
    text = markdown.render(view_of(found))
    assert len(text) < 5_000
    assert "more" in text and text.startswith("## ")


def test_a_link_that_is_no_web_address_is_left_out() -> None:
    found = replace(judged("plain"), link="javascript:alert(1)")
    assert "javascript" not in markdown.render(view_of(found))


# LaTeX


def tables(source: str) -> list[LatexEnvironmentNode]:
    nodes, *_ = LatexWalker(source, tolerant_parsing=False).get_latex_nodes()
    return [n for n in nodes if n.isNodeType(LatexEnvironmentNode)]


def columns(table: LatexEnvironmentNode) -> int:
    (spec,) = re.findall(r"\\begin\{tabular\}\{((?:[^{}]|\{[^{}]*\})*)\}", table.latex_verbatim())
    return len(re.sub(r"\{[^{}]*\}", "", spec))


def rows(table: LatexEnvironmentNode) -> list[int]:
    """The number of cells of each row; a cell over several columns counts as them."""
    out, cells = [], 1
    for node in table.nodelist:
        if node.isNodeType(LatexSpecialsNode) and node.specials_chars == "&":
            cells += 1
        elif node.isNodeType(LatexMacroNode) and node.macroname == "multicolumn":
            span = re.match(r"\\multicolumn\{(\d+)\}", table.latex_verbatim()[node.pos - table.pos :])
            assert span
            cells += int(span[1]) - 1
        elif node.isNodeType(LatexMacroNode) and node.macroname == "\\":
            out.append(cells)
            cells = 1
    return out


def test_latex_parses_and_every_row_is_as_wide_as_its_table(hostile: karat.Check) -> None:
    source = latex.render(view_of(hostile))
    figures, gates = tables(source)
    assert columns(figures) == 4 and set(rows(figures)) == {4}
    assert len(rows(figures)) == 1 + 2 * 2 + 2  # head, two lines per system, notes on intervals and on superscripts
    assert columns(gates) == 5 and set(rows(gates)) == {5}
    assert len(rows(gates)) == 1 + 7 + 1
    bare = re.sub(r"\\[{}\\%]", "", re.sub(r"(?<!\\)%.*", "", source))
    assert bare.count("{") == bare.count("}")
    for command in ("input", "alpha", "etc"):
        assert f"\\{command}" not in source
    assert not re.search(r"\\\\\s*[\[*]", source)  # would be read as an argument of the line's end
    assert source.isprintable() or not re.search(r"[\x00-\x08\x0b-\x1f\ud800-\udfff]", source)


def test_names_are_escaped_in_latex() -> None:
    assert latex.text("50% of a_b & {c} #1 $5") == r"50\% of a\_b \& \{c\} \#1 \$5"
    assert latex.text("\\x^~<>|") == (
        r"\textbackslash{}x\textasciicircum{}\textasciitilde{}\textless{}\textgreater{}\textbar{}"
    )
    assert latex.text("Δ a--b") == r"$\Delta$ a-{}-b"


# Terminal


@pytest.mark.parametrize("width", [80, 120, 200])
def test_nothing_is_cut_at_the_terminal_and_the_verdict_comes_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    from rich.console import Console

    monkeypatch.setattr(check_view, "console", lambda: Console(width=width, highlight=False))
    monkeypatch.setattr("karat.report.terminal.evaluate.console", lambda: Console(width=width, highlight=False))
    check_view.show_check(judged("a run", ["hit@1 >= 0.1", "hit@1 >= 0.55", "hit@1 >= 0.95 for every kind"]), "gold")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("BLOCK: hit@1 where kind = a run is 0.500 [")
    assert all(len(line) <= width for line in lines[2:-1])  # the last is the verdict again, on one line
    table = "\n".join(lines)
    gates = table[table.index("✗ ") :]  # below what to know of the data
    order = [gates.index(f"{mark} ") for mark in ("✗", "?", "✓", "!")]
    assert order == sorted(order)  # what fails, what is undecided, what passes, warnings
    assert "0.5000  [0.291, 0.709]  n=24" in table
    assert re.search(r"about [\d,]+( to [\d,]+)? more queries would settle it", table)
    assert table.index("n=24") < table.index("metric")


def test_long_gates_and_long_advice_are_wrapped_to_the_width_of_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    name = "what we promised to our first customers in the contract of last year, and have to keep for as long " * 2
    gates = [{"gate": gate, "name": name} for gate in ("hit@1 >= 0.95 for every kind", "hit@1 >= 0.55")]
    result = judged("a run").result
    for candidates in (["a run"], ["a run", "base a run"]):
        check_view.show_check(karat.check(result, gates, candidate=candidates), "gold")
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines[2:-1])) <= PIPE and "0.5000  [0.291, 0.709]  n=24" in "\n".join(lines)


def test_no_name_steers_the_terminal(hostile: karat.Check, capsys: pytest.CaptureFixture[str]) -> None:
    check_view.show_check(hostile, "gold", verbose=True)
    printed = capsys.readouterr().out
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e\ud800-\udfff]", printed)


# --force is said everywhere


def forced(tmp_path: Path) -> tuple[str, Path]:
    """A config whose baseline was blessed on other gold."""
    other = karat.evaluate({f"q{i:02}": {"other": 1} for i in range(1, 19)}, str(KETTLE / "keyword.run"), "ndcg@10")
    base = tmp_path / "base.json"
    karat.bless(other, str(base))
    path = tmp_path / "karat.yaml"
    path.write_text(
        f"dataset: {{qrels: {KETTLE / 'qrels.tsv'}}}\nruns: {{keyword: {KETTLE / 'keyword.run'}}}\n"
        f"baseline: base.json\nmetrics: ndcg@10\ngates: ['ndcg@10 better than baseline']\n"
        "outputs: {json: c.json, markdown: c.md, junit: c.xml, latex: c.tex}\n"
    )
    return str(path), base


def run(*arguments: str) -> int:
    from karat.cli import main

    with pytest.raises(SystemExit) as stopped, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["karat", *arguments])
        main()
    return int(stopped.value.code or 0)


def test_other_gold_is_refused_and_force_is_said_in_every_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, base = forced(tmp_path)
    assert run("check", config) == 2
    assert "keyword cannot be compared with the baseline: gold: " in capsys.readouterr().err
    assert not (tmp_path / "c.json").exists()
    held = json.loads(base.read_text())["fingerprints"]["gold"]
    assert (held["queries"], held["judgments"]) == (18, 18)
    assert run("check", config, "--force") == 0
    told = {
        "terminal": capsys.readouterr().out,
        "json": json.dumps(json.loads((tmp_path / "c.json").read_text())["forced"]),
        **{n: (tmp_path / f"c.{n}").read_text() for n in ("md", "xml", "tex")},
    }
    for output, text in told.items():
        assert "18 queries with 18 judgments" in text, output
        assert output == "json" or re.search(r"although (they|these) differ", text), output
    (note,) = [line for line in told["tex"].splitlines() if "footnotesize Compared" in line]
    assert "Compared by force although gold differ" in note  # in the table that is printed, not only in a comment
    suite = ET.fromstring(told["xml"]).find("testsuite")
    assert suite is not None and "--force" in (suite.findtext("system-out") or "")


# Where outputs go


def test_the_summary_of_a_github_step_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# What other steps wrote\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    for _ in range(2):
        summarise(view_of(judged("plain")))
    text = summary.read_text("utf-8")
    assert text.startswith("# What other steps wrote\n## ⛔ BLOCK")
    assert text.count("## ⛔ BLOCK") == 2


def test_a_summary_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    with pytest.raises(karat.InputError, match=r"GITHUB_STEP_SUMMARY.*cannot be written"):
        summarise(view_of(judged("plain")))


@pytest.mark.parametrize("kind", ["json", "markdown", "junit", "latex"])
def test_standard_output_holds_one_output_and_nothing_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    config, _ = forced(tmp_path)
    assert run("check", config, "--force", f"--{kind}", "-") == 0
    ending = {"json": "json", "markdown": "md", "junit": "xml", "latex": "tex"}[kind]
    printed = capfd.readouterr().out
    assert run("check", config, "--force", "-q") == 0
    assert printed == (tmp_path / f"c.{ending}").read_text("utf-8")


def test_two_outputs_cannot_share_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, _ = forced(tmp_path)
    assert run("check", config, "--json", "-", "--markdown", "-") == 2
    assert "only one output can go to standard output" in capsys.readouterr().err
    assert run("check", config, "--save", "-") == 2
    assert "--save: takes the name of a file" in capsys.readouterr().err


def test_a_change_that_too_few_queries_bound_has_no_interval_in_any_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four queries have 2^4 = 16 flips of signs, so the least p is 2/16 = .125: no change is left out at 95%."""
    tokens = {"old": (100, 200, 300, 400), "new": (150, 180, 500, 390)}
    (tmp_path / "gold.qrels").write_text("".join(f"q{i} 0 d 1\n" for i in range(4)))
    table = "".join(json.dumps({"_id": f"q{i}", "text": "t", "area": "x" if i < 3 else "y"}) + "\n" for i in range(4))
    (tmp_path / "queries.jsonl").write_text(table)
    for name, costs in tokens.items():
        lines = (
            {"query_id": f"q{i}", "topk": [{"doc_id": "d", "rank": 1}], "cost": {"tokens": cost}}
            for i, cost in enumerate(costs)
        )
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    kinds = {"json": "json", "markdown": "md", "junit": "xml", "latex": "tex", "html": "html", "save": "save.json"}
    gates = ["cost.tokens no worse than baseline by 10"]
    config = {
        "dataset": {"qrels": "gold.qrels", "queries": "queries.jsonl"},
        "runs": {name: f"{name}.jsonl" for name in tokens},
        "baseline": "old",
        "metrics": ["ndcg@10", "cost.tokens", "cost.tokens.sum", "num_rel_ret"],
        "segments": ["area"],
        "gates": gates,
        "outputs": {kind: f"out.{ending}" for kind, ending in kinds.items()},
    }
    place = tmp_path / "karat.yaml"
    place.write_text(json.dumps(config))
    assert run("check", str(place)) == 3
    printed = capsys.readouterr().out
    texts = [printed, *((tmp_path / f"out.{ending}").read_text() for ending in kinds.values())]
    assert not any(re.search(r"[-−\[]inf\b|[:,\[] *-?(Infinity|NaN)\b", text.split("<script>")[0]) for text in texts)
    assert "too few queries to bound it from above" in printed
    document = json.loads(texts[1])
    RESULT.validate(document)
    row = next(d for d in document["comparisons"] if d["metric"] == "cost.tokens" and d["segment"] is None)
    # (50 − 20 + 200 − 10) / 4 = 55
    assert row["delta"] == 55 and row["ci"] is None and row["smallest_detectable"] is None
    assert (
        "too few for an interval" in row["statement"]
        and "4 can detect no difference, however large" in row["statement"]
    )
    assert document["gates"][0]["ci"] is None
    saved = karat.check(karat.load(str(tmp_path / "out.save.json")), gates, baseline="old")
    assert saved.rows[0].judged == karat.check(str(place)).rows[0].judged
    for source in (str(place), str(tmp_path / "out.save.json")):
        assert run("bless", source, "--run", "new", "-o", str(tmp_path / "b.json")) == 0
        assert (
            run("check", str(place), "--baseline", str(tmp_path / "b.json"), "--json", str(tmp_path / "c.json")) != 70
        )
        RESULT.validate(json.loads((tmp_path / "c.json").read_text()))
    assert run("report", str(tmp_path / "out.save.json"), "-o", str(tmp_path / "r.html")) == 0
    assert run("plan", str(place), "--json", str(tmp_path / "p.json")) in (0, 1, 3)
    assert "nfinity" not in (tmp_path / "p.json").read_text()


def test_undefined_values_are_null_and_dashes_not_nan() -> None:
    queries = {"q": {"kind": "a"}, "none": {"kind": "b", "no_answer": True}}
    run = {"q": {"d": 1.0}, "none": {"d": 1.0}}
    result = karat.evaluate({"q": {"d": 1}}, {"r": run}, "mrr", queries=queries, by="kind")
    found = karat.check(result, ["mrr >= 0.5 where kind = b", "mrr >= 0.5"])
    assert math.isnan(found.rows[0].found.estimate)
    RESULT.validate(json.loads(json.dumps(found.as_json(), allow_nan=False)))
    for text in (markdown.render(view_of(found)), junit.render(view_of(found)).decode(), latex.render(view_of(found))):
        assert "nan" not in text.lower()


# What a person sees


def place(folder: Path, gates: list[object], **more: object) -> Path:
    """40 queries in two halves of one topic each and four of few queries; `new` finds 36 at once, `old` 30."""
    gold = {f"q{i:02}": {"yes": 1} for i in range(40)}
    (folder / "gold.json").write_text(json.dumps(gold))
    rows = [{"_id": q, "text": f"question {i}", "topic": f"t{i % 2}", "rare": f"r{i % 8}"} for i, q in enumerate(gold)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, hits in (("new", 36), ("old", 30), ("other", 20)):
        run = {q: {"yes" if i < hits else "no": 2.0, "second": 1.0} for i, q in enumerate(gold)}
        (folder / f"{name}.json").write_text(json.dumps(run))
    parts = {
        "dataset": {"name": "toy", "qrels": "gold.json", "queries": "queries.jsonl"},
        "metrics": ["mrr", "hit@1"],
        "runs": {"new": "new.json", "old": "old.json"},
        "baseline": "old",
        "gates": gates,
    }
    (folder / "karat.yaml").write_text(json.dumps({**parts, **more}))
    return folder / "karat.yaml"


OUTPUTS = {
    "json": "c.json",
    "markdown": "c.md",
    "junit": "c.xml",
    "latex": "c.tex",
    "save": "s.json",
    "per_query": "v.csv",
}


def test_an_error_leaves_no_older_verdict_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config = str(place(tmp_path, ["hit@1 >= 0.5"], outputs=OUTPUTS))
    assert run("check", config) == 0
    older = {n: (tmp_path / n).read_bytes() for n in ("c.tex", "s.json", "v.csv")}
    (tmp_path / "gold.json").write_text('{"q00": {"yes": "<b>@one</b>"}}')
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    capfd.readouterr()
    assert run("check", config) == 2
    assert "gold.json" in capfd.readouterr().err
    comment = (tmp_path / "c.md").read_text("utf-8")
    assert comment.startswith("## ❗ NOTHING WAS DECIDED: ") and "gold.json" in comment.splitlines()[0]
    assert "SHIP" not in comment and "<b>" not in comment
    assert (tmp_path / "summary").read_text("utf-8") == comment + "\n"
    document = json.loads((tmp_path / "c.json").read_text("utf-8"))
    RESULT.validate(document)
    assert set(document) == {"format_version", "kind", "verdict", "error"}
    assert (document["kind"], document["verdict"]) == ("check", None) and "gold.json" in document["error"][0]
    XSD.validate((tmp_path / "c.xml").read_text("utf-8"))
    (suite,) = list(junitparser.JUnitXml.fromfile(str(tmp_path / "c.xml")))
    assert (suite.tests, suite.failures, suite.errors, suite.name) == (1, 0, 1, "toy")
    assert all((tmp_path / n).read_bytes() != data for n, data in older.items())
    assert "no result" in (tmp_path / "c.tex").read_text("utf-8")


def test_an_error_makes_no_new_files_and_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = place(tmp_path, ["hit@1 >= 0.5"], outputs={"markdown": "c.md"})
    (tmp_path / "gold.json").unlink()
    assert run("check", str(config), "--json", "-") == 2
    assert capfd.readouterr().out == "" and not (tmp_path / "c.md").exists()
    (tmp_path / "c.md").write_text("## ✅ SHIP")
    config.write_text("gats: []")  # what the command line asks for is known although the config is not
    assert run("check", str(config), "--markdown", str(tmp_path / "c.md")) == 2
    assert "NOTHING WAS DECIDED" in (tmp_path / "c.md").read_text("utf-8")


def test_a_baseline_from_a_file_is_told_from_the_run_of_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = {"new": "new.json"}
    config = str(place(tmp_path, ["mrr no worse than baseline by 0.1"], runs=one, baseline="b.json", outputs=OUTPUTS))
    assert run("bless", config) == 0
    capsys.readouterr()
    assert run("check", config) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"toy · 40 queries · new against baseline ({tmp_path / 'b.json'})"
    (head,) = [line for line in lines if line.startswith("metric")]
    assert head.split() == ["metric", "baseline", "candidate", "Δ"]
    # 36 of 40 at once: .9 in both columns, with an interval each; 40 ties allow ±(1 − .025^(1/40)).
    (row,) = [line for line in lines if line.startswith("hit@1")]
    assert row.count("0.9000 [") == 2 and row.endswith("  0 [-0.088, 0.088]")
    assert "| metric | baseline | new | Δ [95%] |" in (tmp_path / "c.md").read_text("utf-8")
    table = (tmp_path / "c.tex").read_text("utf-8")
    assert "baseline$^{a}$ & " in table and "new$^{b}$ & " in table
    assert '<property name="baseline" value="baseline" />' in (tmp_path / "c.xml").read_text("utf-8")
    parts = json.loads((tmp_path / "karat.yaml").read_text())
    (tmp_path / "karat.yaml").write_text(json.dumps({**parts, "runs": {"newer": "new.json"}}))
    assert run("check", config) == 0
    assert "| metric | new (baseline) | newer | Δ [95%] |" in (tmp_path / "c.md").read_text("utf-8")


@pytest.mark.parametrize("width", [80, 140])
def test_candidates_stand_beside_the_baseline_with_intervals_at_any_width(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    from rich.console import Console

    runs = {f"{n}-{i}": f"{n}.json" for i in range(2) for n in ("new", "old", "other")}
    config = str(place(tmp_path, ["mrr >= 0.5"], runs=runs, baseline="old-0", candidate=["new-0", "new-1"]))
    monkeypatch.setattr(check_view, "console", lambda: Console(width=width, highlight=False))
    assert run("check", config) == 0
    text = capsys.readouterr().out
    assert all(len(line) <= width for line in text.splitlines()[2:-1])
    assert "also evaluated: other-0, old-1, other-1" in text
    # hit@1 and mrr: 36 of 40 and 30 of 40, Clopper and Pearson; Δ = 6/40.
    assert text.count("[0.763, 0.972]") == 6 and "[0.588, 0.873]" in text
    assert text.count("+0.1500") == 4  # of both metrics: a doc at rank 1, or none at all


def test_gates_with_a_name_show_it_and_their_text_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gates = [{"gate": "hit@1 >= 0.95", "name": "first"}, "hit@1 >= 0.99", "mrr >= 0.99"]
    config = str(place(tmp_path, list(gates), outputs=OUTPUTS))
    assert run("check", config) == 1
    told = {"terminal": capsys.readouterr().out, **{n: (tmp_path / n).read_text("utf-8") for n in ("c.md", "c.xml")}}
    assert told["terminal"].startswith(
        "BLOCK: hit@1 is 0.900 [0.763, 0.972]; at least 0.99 is required; 1 more gate fails."
    )
    assert "first: hit@1 >= 0.95 " in told["terminal"] and "`first: hit@1 >= 0.95`" in told["c.md"]
    assert 'name="first: hit@1 &gt;= 0.95"' in told["c.xml"]
    assert r"first: hit@1 \textgreater{}= 0.95" in (tmp_path / "c.tex").read_text("utf-8")
    found = karat.check(
        judged("plain").result, [{"gate": "hit@1 >= 0.95", "name": "first"}, "hit@1 >= 0.9"], candidate="plain"
    )
    # Of 24 queries 12 are hits: both gates fail.
    assert found.why == "first: hit@1 is 0.500 [0.291, 0.709]; at least 0.95 is required; 1 more gate fails"


def test_the_headline_counts_gates_and_not_their_segments_and_says_that_warnings_fail() -> None:
    result = judged("plain").result
    two = karat.check(result, ["hit@1 >= 0.95 for every kind"], candidate="plain")
    assert two.why.endswith("at least 0.95 is required; 1 more segment fails")
    both = karat.check(result, ["hit@1 >= 0.1", "hit@1 >= 0.1 for every kind", "warn: mrr >= 0.9"], candidate="plain")
    assert both.why == "both gates pass; 1 warning"
    assert karat.check(result, "hit@1 >= 0.1", candidate="plain").why == "the gate passes"


@pytest.mark.parametrize(("gates", "level"), [(["", ""], "error"), (["warn: ", ""], "error"), (["warn: "] * 2, "warn")])
def test_a_gate_that_is_written_twice_is_judged_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], gates: list[str], level: str
) -> None:
    """A rank of 0.5 is one of 50%; of two levels the gate has the one that decides."""
    texts = [f"{gates[0]}hit@1 >= 0.99", {"gate": f"{gates[1]}hit@1 >= 99%", "name": "again"}]
    config = str(place(tmp_path, [*texts, "mrr >= 0.1"], outputs=OUTPUTS))
    assert run("check", config, "-g", "hit@1 >= 0.99" if level == "error" else "warn: hit@1 >= 0.99") == (
        1 if level == "error" else 0
    )
    printed, comment = capsys.readouterr().out, (tmp_path / "c.md").read_text("utf-8")
    assert "segment" not in printed.splitlines()[0] and "segments" not in comment
    cases = [case.attrib["name"] for case in ET.parse(tmp_path / "c.xml").iter("testcase")]
    assert cases == ["again: hit@1 >= 0.99", "mrr >= 0.1"]
    rows = json.loads((tmp_path / "c.json").read_text("utf-8"))["gates"]
    assert [(row["gate"], row["level"]) for row in rows] == [("hit@1 >= 0.99", level), ("mrr >= 0.1", "error")]
    assert len(karat.check(judged("plain").result, ["mrr >= 0.5", "mrr >= 50%"], candidate="plain").rows) == 1


def test_every_output_counts_a_gate_once_for_each_run() -> None:
    """Of a and b one gate fails in both segments, and of b another: 3 gates fail, in 5 cases of JUnit."""
    gold = {f"q{i:02}": {"d": 1} for i in range(24)}
    runs = {
        name: {q: ["d" if i % often else "x"] for i, q in enumerate(gold)} for name, often in zip("abc", (2, 2, 100))
    }
    table = {q: {"kind": "x" if i < 12 else "y"} for i, q in enumerate(gold)}
    result = karat.evaluate(gold, runs, "hit@1", queries=table, by="kind")
    gates = ["hit@1 >= 0.1", "hit@1 >= 0.9 at the mean for every kind", "hit@1 >= 0.8 on b", "warn: hit@1 >= 0.9 on b"]
    found = karat.check(result, gates)
    assert found.why.startswith("a: hit@1 where kind = x is 0.500 ")
    assert found.why.endswith("; at least 0.9 is required at the mean; 2 more gates fail on b")
    page = page_of(source_of(found))
    assert page.tally == [("fail", "3 gates fail"), ("pass", "4 pass"), ("undecided", "1 warning")]
    assert sum(group.outcome == "fail" and not group.warning for group in view_of(found).gates) == 3
    assert ET.fromstring(junit.render(view_of(found))).attrib["failures"] == "5"
    assert karat.check(result, gates[:1]).why == "all 3 gates pass, counted for each of 3 runs"
    warned = karat.check(result, ["hit@1 >= 0.1", "warn: hit@1 >= 0.9"])
    assert warned.why == "all 3 gates pass, counted for each of 3 runs; 3 warnings"
    assert page_of(source_of(warned)).tally == [("pass", "3 pass"), ("undecided", "3 warnings")]


def test_a_warning_that_passes_says_at_a_terminal_that_it_decides_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    check_view.show_check(judged("plain", ["mrr >= 0.1"]), "gold")
    check_view.show_check(karat.check(judged("plain").result, ["hit@1 >= 0.1", "warn: mrr >= 0.1"]), "gold")
    printed = " ".join(capsys.readouterr().out.split())
    assert "! plain: mrr >= 0.9 (warning, fails) " in printed and " mrr >= 0.1 (warn) " in printed


def test_sentences_are_cut_between_words() -> None:
    assert markdown.cut("recall@50 fell in 6 segments, language = de among them", 28) == "recall@50 fell in 6…"
    assert markdown.cut("x" * 40, 10) == "x" * 9 + "…"  # an id has no words
    assert markdown.cut("short", 10) == "short"


def test_what_is_odd_about_the_data_stands_beside_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(
        place(tmp_path, ["hit@1 >= 0.5"], runs={"new": "new.json"}, baseline=None, outputs=OUTPUTS, segments=["topic"])
    )
    wrong = {f"q{i:02}": {f"doc-{i}": 1.0} for i in range(37)}
    (tmp_path / "new.json").write_text(json.dumps(wrong))
    assert run("check", config) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:4] == [
        "! no judged doc was returned for any query: check the ids",
        "! 3 queries of the gold without results",
    ]
    assert "> - 3 queries of the gold without results" in (tmp_path / "c.md").read_text("utf-8")
    assert "note: no judged doc was returned" in (tmp_path / "c.xml").read_text("utf-8")
    assert "% note: no judged doc was returned" in (tmp_path / "c.tex").read_text("utf-8")
    document = json.loads((tmp_path / "c.json").read_text("utf-8"))
    RESULT.validate(document)
    assert len(document["warnings"]) == 3  # and the docs that nobody judged


def test_a_long_output_ends_with_files_and_verdict_and_has_only_the_segments_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(
        place(
            tmp_path,
            ["hit@1 >= 0.5", "hit@1 >= 0.1 for every topic"],
            segments=["rare"],
            metrics=["mrr", "hit@{1,2,3,4,5,6,7,8,9,10}"],
            outputs={"json": "c.json"},
        )
    )
    assert run("check", config) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "SHIP: both gates pass"
    assert lines[-2] == f"wrote {tmp_path / 'c.json'}"
    assert "8 segments have too few queries to judge alone (5; 10 are needed); use --verbose to show them" in lines
    text = "\n".join(lines)
    assert "topic=t0" not in text
    assert run("check", config, "--verbose") == 0
    assert "rare=r7" in capsys.readouterr().out


def test_quiet_says_one_line_of_what_does_not_ship(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for gate, code, told in (("hit@1 >= 0.99", 1, "BLOCK: hit@1 is "), ("hit@1 >= 0.5", 0, "")):
        assert run("check", str(place(tmp_path, [gate])), "--quiet") == code
        printed = capsys.readouterr()
        assert printed.out == "" and printed.err.startswith(told) and printed.err.count("\n") == bool(told)


def test_values_carry_units_and_a_difference_of_quantiles_says_what_is_not_known(tmp_path: Path) -> None:
    for name, add in (("old", 0), ("new", 8)):  # every other query takes 8 ms longer
        took = [20 + i * 7 % 40 + add * (i % 2) for i in range(100)]
        rows = [
            {"query_id": f"q{i}", "topk": [{"doc_id": "yes"}], "latency_ms": {"all": t}} for i, t in enumerate(took)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gold = {f"q{i}": {"yes": 1} for i in range(100)}
    runs = {n: str(tmp_path / f"{n}.jsonl") for n in ("old", "new")}
    result = karat.evaluate(gold, runs, "latency.p90,mrr")
    gates = ["latency.p90 <= 40ms", "latency.p90 no worse than baseline by 4ms", "mrr no worse than baseline by 2%"]
    found = karat.check(result, gates, baseline="old")
    # The 90th of the 100 times, sorted, is 61; that of the baseline 55.
    assert found.why == "latency.p90 is 61.0 ms [57.0, 65.0]; at most 40 ms is allowed"
    assert (found.rows[1].outcome, found.rows[1].found.estimate) == ("undecided", 6.0)
    unknown = "the number of queries needed is not known for a difference of quantiles"
    assert wording.advise(found.rows[1]).endswith(unknown) and unknown in junit.render(view_of(found)).decode()
    assert wording.note_reference(found.rows[2]) == "Δ to 98% of the baseline's value"


def test_facts_are_told_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"query_id": "q", "topk": [{"doc_id": "d"}], "chunker": {"algo": "sentence", "size": 300}}
    (tmp_path / "run.jsonl").write_text(json.dumps(row) + "\n")
    check_view.show_check(
        karat.check(karat.evaluate({"q": {"d": 1}}, str(tmp_path / "run.jsonl"), "mrr"), "mrr > 0"), "gold"
    )
    assert 'chunker {"algo": "sentence", "size": 300}' in capsys.readouterr().out


def test_a_fall_over_all_queries_names_its_segments_in_one_line() -> None:
    topics = {f"q{i}": {"topic": f"t{i % 5}"} for i in range(200)}
    gold = {q: ["a"] for q in topics}
    runs = {"old": {q: ["a"] for q in topics}, "new": {q: ["x", "y", "a"][i % 2 :] for i, q in enumerate(topics)}}
    result = karat.evaluate(gold, runs, "mrr,hit@1", queries=topics, by="topic")
    view = view_of(karat.check(result, gates=["mrr >= 0.1"], baseline="old"))
    assert len(view.falls) == 2  # mrr and hit@1, each with five segments
    where = r"; also where topic = t\d; topic = t\d; topic = t\d; and in 2 more segments"
    assert re.search(where + "$", view.falls[1].statement)
    # The comparison of segments, which the primary metric has, comes after them: it is what a long line loses.
    assert re.search(where + r"; no sign that Δ depends on topic \(5 segments", view.falls[0].statement)
    comment = markdown.render(view)
    assert comment.count("is worse than old") == 2
    assert comment.count("also where topic = t") == 2
    assert "…" not in comment


def test_differences_of_several_candidates_name_them() -> None:
    gold = {f"q{i}": ["a"] for i in range(60)}
    base = {q: ["a"] if i % 2 else ["x", "a"] for i, q in enumerate(gold)}
    runs = {
        "base": base,
        "same": base,
        "alike": {**base, "q0": ["a"]},
        "worse": {q: ["x", "y", "z", "a"] for q in gold},
    }
    compared = karat.compare(gold, runs, "mrr")
    bullets = [
        line for line in markdown.render(view_of(compared)).splitlines() if line.startswith("- ") and "mrr:" in line
    ]
    assert [next(n for n in ("same", "alike", "worse") if n in line) for line in bullets] == ["same", "alike", "worse"]
    assert "- same against base, mrr: no difference" in bullets[0]
    assert "- alike against base, mrr: no significant difference" in bullets[1]
    assert "- mrr: worse is worse than base" in bullets[2]
    one = markdown.render(view_of(karat.compare(gold, {n: runs[n] for n in ("base", "alike")}, "mrr")))
    assert "- mrr: no significant difference" in one


def test_markdown_without_a_verdict_shows_every_metric_segment_and_difference() -> None:
    gold = {f"q{i}": {"a": 1} for i in range(40)}
    lists = {"old": {q: ["a", "x"] for q in gold}, "new": {q: ["a" if i else "x", "a2"] for i, q in enumerate(gold)}}
    queries = {q: {"language": "de" if i % 2 else "en|gb"} for i, q in enumerate(gold)}
    names = ["mrr", *(f"{m}@{k}" for m in ("recall", "precision", "ndcg") for k in (1, 3))]
    alone = markdown.render(view_of(karat.evaluate(gold, lists["old"], names, queries=queries, by="language")))
    assert all(f"| `{name}` | 1.0000" in alone for name in names if name not in ("precision@3",))
    assert "| language = de | 20 | 1.0000" in alone and "| language = en\\|gb | 20 |" in alone
    compared = karat.compare(gold, lists, names, queries=queries, by="language")
    text = markdown.render(view_of(compared))
    assert not any(d.significant for d in compared.rows)
    for d in compared.rows:
        segment = f"language = {d.segment['language']}" if d.segment else ""
        start = f"| {markdown.text(segment)} | " if segment else "| "
        figures = (
            f"{markdown.text(str(d.figure))} | {markdown.text(p_text(d.p_adjusted))} | {d.wins}/{d.ties}/{d.losses}"
        )
        assert f"{start}`{d.metric}` | {figures} | {d.n} |" in text


def test_markdown_names_the_primary_decision_of_every_candidate_before_others() -> None:
    gold = {f"q{i}": {"a": 1} for i in range(40)}
    runs = {f"s{n:02}": {q: ["a", "x"] if i % 12 >= n else ["x", "a"] for i, q in enumerate(gold)} for n in range(12)}
    page = markdown.render(view_of(karat.compare(gold, runs, "mrr,recall@1,ndcg@10", primary="ndcg@10")))
    bullets = [line for line in page.splitlines() if line.startswith("- ")]
    assert all(any(name in line and "ndcg@10: " in line for line in bullets[:11]) for name in list(runs)[1:])
    assert bullets[11] == "- and 22 more, in the tables above"
    assert "Rules of thumb of 7 more runs are not shown." in page


def test_markdown_says_how_a_segment_stands_to_the_others() -> None:
    gold = {f"q{i}": {"a": 1} for i in range(120)}
    topics = {q: {"topic": "one" if i % 4 else "two"} for i, q in enumerate(gold)}
    old = {q: ["x", "a"] if topics[q]["topic"] == "one" else ["a", "x"] for q in gold}
    new = {q: ["a", "x"] if topics[q]["topic"] == "one" else ["x", "a"] for q in gold}
    compared = karat.compare(gold, {"old": old, "new": new}, "mrr", queries=topics, by="topic")
    page = markdown.render(view_of(compared))
    (row,) = [line for line in page.splitlines() if line.startswith("| topic = two | `mrr`")]
    assert row.endswith("| moves against the whole; differs from the rest |")
    assert "| against the other segments |" in page


def test_a_pass_by_identical_lists_says_so_in_every_output() -> None:
    """The interval of no change is wider than the margin: without the reason the pass would contradict it."""
    gold = {f"q{i}": {"a": 1} for i in range(40)}
    run = {q: ["a", "x"] if i % 3 else ["x", "a"] for i, q in enumerate(gold)}
    check = karat.check(karat.evaluate(gold, {"old": run, "new": run}, "mrr", details=True), MARGIN, baseline="old")
    view = view_of(check)
    assert check.verdict == "SHIP" and check.rows[0].found.low < -0.02
    assert "`mrr no worse than old by 0.02` (the ranked lists are identical)" in markdown.render(view)
    for page in (latex.render(view), junit.render(view).decode()):
        assert "the ranked lists are identical" in page


MARGIN = ["mrr no worse than old by 0.02"]


def test_latex_marks_what_was_decided_of_metrics_that_are_not_tested_over_all_pairs(tmp_path: Path) -> None:
    """Tukey's test is of means; a change of a median is decided all the same."""
    gold = {f"q{i}": {"a": 1} for i in range(60)}
    for name, base in (("old", 90), ("new", 20)):
        log = [(q, base + i * base % 13) for i, q in enumerate(gold)]
        lines = [{"query_id": q, "topk": [{"doc_id": "a"}], "latency_ms": {"s": ms}} for q, ms in log]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    runs = {name: str(tmp_path / f"{name}.jsonl") for name in ("old", "new")}
    compared = karat.compare(gold, runs, "mrr,latency.p50")
    assert [row.outcome for row in compared.rows if row.metric == "latency.p50"] == ["better"]
    page = latex.render(view_of(compared))
    assert "$^{a}$" in page and "Not tested" not in page


def test_markdown_names_the_run_of_gates_that_pass() -> None:
    gold = {f"q{i}": {"a": 1} for i in range(40)}
    run = {q: ["a", "x"] for q in gold}
    check = karat.check(karat.evaluate(gold, {"one": run, "two": run}, "mrr"), ["mrr >= 0.5"])
    page = markdown.render(view_of(check))
    assert "- ✓ one: 1 pass: `mrr >= 0.5`" in page and "- ✓ two: 1 pass: `mrr >= 0.5`" in page


def test_a_comment_names_the_run_of_every_gate_and_lists_the_queries_of_the_one_that_blocks() -> None:
    """Of 20 queries `fair` loses 2 and gains 3, and passes; `poor` loses 15 and fails."""
    gold = {f"q{i:02}": {"a": 1} for i in range(20)}
    low, high = ["x", "a"], ["a", "x"]
    runs = {
        "base": {q: low if i < 3 else high for i, q in enumerate(gold)},
        "fair": {q: low if i in (3, 4) else high for i, q in enumerate(gold)},
        "poor": {q: low if i > 2 else high for i, q in enumerate(gold)},
    }
    result = karat.evaluate(gold, runs, "mrr")
    found = karat.check(result, ["mrr >= 0.8"], baseline="base")
    assert {row.run: row.outcome for row in found.rows} == {"fair": "pass", "poor": "fail"}
    page = markdown.render(view_of(found))
    assert "- ✗ poor: `mrr >= 0.8`" in page and "- ✓ fair: 1 pass: `mrr >= 0.8`" in page
    assert "**Queries that lost most in `mrr`**, poor\n\n- `q03`: 1.000 → 0.500" in page
    undecided = markdown.render(view_of(karat.check(result, ["mrr >= 0.65"], baseline="base")))
    assert "- ? poor: " in undecided and "**Queries that lost most in `mrr`**, poor" in undecided


def test_the_title_of_several_candidates_is_about_what_is_significantly_better() -> None:
    """Of 60 queries `steady` gains a half on 12 and loses none; `loud` gains a whole on 24 and loses one on 15."""
    gold = {f"q{i:02}": {"a": 1} for i in range(60)}
    base = {q: ["a"] if i < 15 else ["x", "a"] if i < 36 else ["x"] for i, q in enumerate(gold)}
    steady = {q: ["a"] if 15 <= i < 27 else docs for i, (q, docs) in enumerate(base.items())}
    loud = {q: ["x"] if i < 15 else ["a"] if i >= 36 else docs for i, (q, docs) in enumerate(base.items())}
    runs = {"base": base, "steady": steady, "loud": loud}
    page = markdown.render(view_of(karat.compare(gold, runs, "mrr")))
    # mrr: (15 + 10.5) / 60 = .425; steady + 6 / 60 = .525; loud + (24 − 15) / 60 = .575
    assert page.startswith("## mrr: steady is better than base; highest is loud 0.5750 ")
    none = markdown.render(view_of(karat.compare(gold, {**runs, "steady": dict(base)}, "mrr")))
    assert none.startswith("## mrr: no run is significantly better than base; highest is loud 0.5750 ")
    alone = markdown.render(view_of(karat.evaluate(gold, runs, "mrr")))
    assert alone.startswith("## mrr: highest is loud 0.5750 ")


def test_a_comment_says_which_queries_are_not_among_the_lowest() -> None:
    """q0 to q2 have no relevant doc, and score 0 like q3 and q4."""
    gold = {f"q{i}": {"a": int(i > 2)} for i in range(20)}
    run = {q: ["a"] if i > 4 else ["x"] for i, q in enumerate(gold)}
    page = markdown.render(view_of(karat.check(karat.evaluate(gold, {"new": run}, "mrr"), "mrr >= 0.5")))
    title = "**Lowest `mrr`**, leaving out 3 queries without a relevant doc in the gold"
    assert f"{title}\n\n- `q3`: 0.000\n- `q4`: 0.000\n" in page
    skipped = karat.evaluate(gold, {"new": run}, "mrr", empty_gold="skip")
    assert "**Lowest `mrr`**\n\n- `q3`: 0.000" in markdown.render(view_of(karat.check(skipped, "mrr >= 0.5")))


def test_tables_hold_no_formulas(tmp_path: Path) -> None:
    import csv

    from karat.report.files import write_rows

    ids = ["=cmd|calc", "+1+1", "-2+3", "@sum(a)", "-5", "d-1", "q=1"]
    write_rows([(id, id, "mrr", 1.0) for id in ids], str(tmp_path / "t.csv"))
    with open(tmp_path / "t.csv", newline="") as file:
        cells = [row[1] for row in csv.reader(file)][1:]
    assert cells == ["'=cmd|calc", "'+1+1", "'-2+3", "'@sum(a)", "-5", "d-1", "q=1"]
    write_rows([(id, id, "mrr", 1.0) for id in ids], str(tmp_path / "t.jsonl"))
    assert [json.loads(line)["query_id"] for line in (tmp_path / "t.jsonl").read_text().splitlines()] == ids


def test_a_relative_gate_says_in_every_output_what_its_difference_is_measured_from(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gold = {f"q{i}": ["a"] for i in range(60)}
    new = {q: ["x", "a"] if i % 2 else ["a", "x"] for i, q in enumerate(gold)}
    result = karat.evaluate(gold, {"old": {q: ["a", "x"] for q in gold}, "new": new}, "mrr")
    gates = ["mrr no worse than baseline by 3%", "mrr no worse than baseline by 90%"]
    check = karat.check(result, gates, baseline="old")
    assert [row.outcome for row in check.rows] == ["fail", "pass"]
    check_view.show_check(check, "gold")
    view = view_of(check)
    note = "Δ to 97% of the baseline's value"
    assert note in capsys.readouterr().out and note in markdown.render(view)
    rendered = junit.render(view).decode()
    assert note in rendered and "Δ to 10% of the baseline's value" in rendered
    assert r"$\Delta$ to 97\% of the baseline's value" in latex.render(view)
    notes = {g.gate: g.note for g in page_of(source_of(check)).gates}
    assert notes[gates[0]].endswith(f" {note}.")
    assert notes[gates[1]] == "Δ to 10% of the baseline's value."
    assert f" ({note}), n = 60" in explained(check) and f" ({note})" in str(check)


def test_an_interval_of_another_confidence_is_the_one_that_decides_and_says_so_in_every_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = {f"q{i}": {"a": 1} for i in range(100)}
    run = {q: ["x", "a"] if i % 4 else ["a", "x"] for i, q in enumerate(gold)}
    for name, content in (("gold.json", gold), ("run.json", run)):
        (tmp_path / name).write_text(json.dumps(content))
    config = {
        "dataset": {"qrels": str(tmp_path / "gold.json")},
        "runs": {"run": str(tmp_path / "run.json")},
        "metrics": ["hit@1"],
        "risk": {"ship": 0.10, "block": 0.01},
        "gates": ["hit@1 >= 0.4", "hit@1 >= 0.1", "hit@1 >= 0.24"],
    }
    check = karat.check(config)
    # 25 of 100 by Clopper and Pearson: a fail is judged at 1% per side, a pass at 10%.
    intervals = [(round(r.interval.low, 3), round(r.interval.high, 3)) for r in check.rows]
    ends = [clopper_pearson(25, 100, confidence) for confidence in (0.98, 0.8, 0.8)]
    assert intervals == [(round(low, 3), round(high, 3)) for low, high in ends]
    written = check.as_json()["gates"]
    assert [row["confidence"] for row in written] == [0.98, 0.8, 0.8]
    assert [tuple(round(end, 3) for end in row["ci"]) for row in written] == intervals
    sentence = f"hit@1 is 0.250 [{intervals[0][0]:.3f}, {intervals[0][1]:.3f}] (98% interval); at least 0.4 is required"
    assert check.why == sentence
    view = view_of(check)
    check.save(str(tmp_path / "check.json"))
    pages = [page_of(source_of(one)) for one in (check, str(tmp_path / "check.json"))]
    assert pages[0].gates == pages[1].gates
    assert [g.note.count("98% interval.") + 2 * g.note.count("80% interval.") for g in pages[0].gates] == [1, 2, 2]
    check_view.show_check(check, "gold")
    for text in (capsys.readouterr().out, markdown.render(view), explained(check), junit.render(view).decode()):
        assert "98% interval" in text and "80% interval" in text
    assert r"98\% interval" in latex.render(view)


def test_a_difference_over_shared_queries_says_so_beside_levels_over_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, first in (("old", 0), ("new", 20)):
        rows = [
            {"query_id": f"q{i}", "topk": [{"doc_id": "a"}], "cost": {"tokens": 100 + (first > 0) * (i % 2)}}
            for i in range(first, 100)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gold = {f"q{i}": ["a"] for i in range(100)}
    runs = {name: str(tmp_path / f"{name}.jsonl") for name in ("old", "new")}
    result = karat.evaluate(gold, runs, "mrr,cost.tokens.sum")
    check = karat.check(result, ["mrr >= 0.1"], baseline="old")
    # old has 100 · 100, new 80 · 100 + 40; over the 80 queries of both old has 8,000.
    check_view.show_check(check, "gold")
    shown = [" ".join(x.split()) for x in capsys.readouterr().out.splitlines()]
    row = next(i for i, x in enumerate(shown) if x.startswith("cost.tokens.sum 10,000 8,040 +40"))
    assert shown[row + 1 : row + 3] == ["over 80 shared queries:", "8,000 → 8,040"]
    note = "over 80 shared queries: 8,000 → 8,040"
    compared = karat.compare(gold, runs, "mrr,cost.tokens.sum")
    for view in (view_of(check), view_of(compared)):
        (line,) = [x for x in markdown.render(view).splitlines() if x.startswith("| `cost.tokens.sum`") and "+40" in x]
        assert note in line
    assert "shared" not in next(x for x in markdown.render(view_of(check)).splitlines() if x.startswith("| `mrr`"))
    changes = {m.name: change.shared for m in page_of(source_of(check)).metrics for _, change in m.changes if change}
    assert changes == {"mrr": "", "cost.tokens.sum": note}


def test_a_gate_at_the_mean_says_so_in_the_headline() -> None:
    check = judged("run", ["hit@1 >= 0.99 at the mean"])
    assert check.why.endswith("; at least 0.99 is required at the mean")


def test_a_segment_that_fails_two_gates_has_a_line_for_each_with_its_gate_and_level() -> None:
    topics = {f"q{i}": {"topic": "t"} for i in range(40)}
    gold, run = {q: ["a"] for q in topics}, {q: ["x", "a"] for q in topics}
    result = karat.evaluate(gold, {"r": run}, "hit@1", queries=topics, by="topic")
    check = karat.check(
        result, [{"gate": "hit@1 >= 0.9 where topic = t", "level": "warn"}, "hit@1 >= 0.8 for every topic"]
    )
    section = markdown.render(view_of(check)).split("**Segments that fail**")[1]
    assert "topic = t: `hit@1 >= 0.9 where topic = t` *(warning)*: 0.0" in section
    assert "topic = t: `hit@1 >= 0.8 for every topic`: 0.0" in section


def test_a_value_without_interval_is_followed_by_its_comma() -> None:
    gold = {f"q{i}": ["a"] for i in range(20)}
    result = karat.evaluate(gold, {"r": {q: ["x"] for q in gold}}, "hit@1", method="none")
    text = markdown.render(view_of(karat.check(result, ["hit@1 >= 0.5 at the mean"])))
    assert " ," not in text and "0.0000, 20 queries" in text


def test_all_outputs_have_the_same_notes_and_none_of_a_metric_that_is_not_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = {f"q{i}": ["a"] for i in range(40)}
    lists = {q: ["x", "a"] if i % 4 else ["a", "x"] for i, q in enumerate(gold)}
    karat.evaluate(gold, {"new": {q: ["a", "x"] for q in gold}}, "hit@1,recall@1000").save(str(tmp_path / "b.json"))
    base = karat.load(str(tmp_path / "b.json"))
    check = karat.check(karat.evaluate(gold, {"new": lists}, "hit@1"), ["hit@1 >= 0.1"], baseline=base)
    notes = ["docs in the top 10 that nobody judged (counted as not relevant): new 40 of 80"]
    assert [remark.text for remark in check.remarks] == check.as_json()["warnings"] == notes
    check_view.show_check(check, "gold")
    view = view_of(check)
    texts = [markdown.render(view), junit.render(view).decode(), latex.render(view), capsys.readouterr().out]
    assert [text.count(notes[0]) for text in texts] == [1, 1, 1, 1]
    check.save(str(tmp_path / "c.json"))
    for source in (check, str(tmp_path / "c.json")):
        assert [remark.text for remark in page_of(source_of(source)).remarks] == notes


def test_a_baseline_with_the_name_of_the_run_is_called_the_baseline_in_every_output() -> None:
    gold = {f"q{i}": ["a"] for i in range(40)}
    base = karat.evaluate(gold, {"new": {q: ["a", "x"] for q in gold}}, "hit@1")
    result = karat.evaluate(gold, {"new": {q: ["x", "a"] for q in gold}}, "hit@1")
    check = karat.check(result, ["hit@1 no worse than baseline by 0.1"], baseline=base)
    statement = "hit@1: new is worse than the baseline, Δ -1.000"
    document = check.as_json()
    (row,), (gate,) = document["comparisons"], document["gates"]  # type: ignore[misc]
    assert (row["baseline"], row["candidate"], gate["against"]) == ("baseline", "new", "baseline")  # type: ignore[index, call-overload]
    assert document["baseline"]["name"] == "baseline"  # type: ignore[index, call-overload]
    page = page_of(source_of(check))
    assert page.run_names == ["baseline", "new"]
    for text in (row["statement"], markdown.render(view_of(check)), page.runs[0].sentence.replace("−", "-")):  # type: ignore[index, call-overload]
        assert statement in str(text)


@pytest.mark.parametrize("block", ["query", "conversation"])
def test_the_test_of_all_pairs_names_its_blocks_alike_in_every_output(
    block: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = {f"q{i}": ["a"] for i in range(40)}
    queries = {q: {"conversation": str(i // 2) if block == "conversation" else str(i)} for i, q in enumerate(gold)}
    runs = {"old": {q: ["a", "x"] for q in gold}, "new": {q: ["x", "a"] for q in gold}}
    comparison = karat.compare(gold, runs, "hit@1", queries=queries, all_pairs=True)
    compare_view.show(comparison)
    texts = [capsys.readouterr().out, latex.render(view_of(comparison))]
    assert all(f"randomised Tukey HSD, blocked by {block}, " in text for text in texts)


def test_latex_explains_bold_and_superscripts_only_where_there_are_some() -> None:
    gold = {f"q{i}": ["a"] for i in range(40)}
    good, bad = {q: ["a"] for q in gold}, {q: ["x"] for q in gold}
    some, none = (latex.render(view_of(karat.compare(gold, {"old": bad, "new": new}, "hit@1"))) for new in (good, bad))
    assert "Best values in bold." in some and "Superscripts: significantly better" in some
    assert "bold" not in none and "Superscripts" not in none
    assert "No system is significantly better than another (against the baseline by Holm over 1 candidate" in none


def test_no_total_over_fewer_queries_than_another_is_best(tmp_path: Path) -> None:
    for name, first, tokens in (("old", 0, 100), ("new", 20, 110)):  # 100 · 100 and 80 · 110: each query costs more
        rows = [{"query_id": f"q{i}", "topk": [{"doc_id": "a"}], "cost": {"tokens": tokens}} for i in range(first, 100)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gold = {f"q{i}": ["a"] for i in range(100)}
    runs = {name: str(tmp_path / f"{name}.jsonl") for name in ("old", "new")}
    result = karat.evaluate(gold, runs, "mrr,cost.tokens.sum,cost.tokens")
    assert page_of(source_of(result)).script.best == {"mrr": ["old"], "cost.tokens.sum": [], "cost.tokens": ["old"]}
    assert evaluate_view.best_runs("cost.tokens.sum", result.runs) == set()
    assert evaluate_view.best_runs("cost.tokens", result.runs) == {0}
    text = latex.render(view_of(result))
    assert r"\textbf{10,000}" not in text and r"\textbf{8,800}" not in text and r"\textbf{100.0}" in text
    text = markdown.render(view_of(result))
    assert "**10,000**" not in text and "**8,800**" not in text and "8,800" in text


def test_latex_says_over_how_many_queries_each_interval_is(tmp_path: Path) -> None:
    rows = [{"query_id": f"q{i}", "topk": [{"doc_id": "a"}], "latency_ms": {"total": 5 + i}} for i in range(25)]
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gold = {f"q{i}": ["a"] for i in range(20)}
    result = karat.evaluate(gold, str(tmp_path / "run.jsonl"), "hit@1,mrr,latency.p50")
    assert r"95\% confidence intervals over 20 queries (latency.p50: 25)." in latex.render(view_of(result))


@pytest.mark.parametrize("saved", [False, True])
def test_a_comparison_of_identical_lists_says_so(
    saved: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = {f"q{i}": ["a"] for i in range(40)}
    lists = {q: ["x", "a"] if i % 2 else ["a", "x"] for i, q in enumerate(gold)}
    other = {q: [*docs, "y"] for q, docs in lists.items()}  # the same values from other lists
    if saved:
        for name, docs in {"old": lists, "new": lists, "longer": other}.items():
            karat.evaluate(gold, {name: docs}, "hit@1", details=True).save(str(tmp_path / f"{name}.json"))
        new = [str(tmp_path / "new.json"), str(tmp_path / "longer.json")]
        comparison = karat.compare(str(tmp_path / "old.json"), new)
    else:
        comparison = karat.compare(gold, {"old": lists, "new": dict(lists), "longer": other}, "hit@1")
    statement = "hit@1: no difference (40 queries): the ranked lists are identical"
    same, changed = comparison.of("hit@1", "new")[0], comparison.of("hit@1", "longer")[0]
    assert (same.statement, same.outcome) == (statement, "no significant difference")
    assert read_decision(same.document()).statement == statement
    assert not changed.same_lists and "40 can detect" in changed.statement
    compare_view.show(comparison)
    assert statement in capsys.readouterr().out


def test_the_headline_says_of_other_segments_only_what_holds_for_them() -> None:
    """Two of three kinds are undecided by their intervals, one has too few queries."""
    gold = {f"q{i:02}": {"d": 1} for i in range(45)}
    run_lists = {q: ["d" if i % 2 else "x"] for i, q in enumerate(gold)}
    table = {q: {"kind": "a" if i < 20 else "b" if i < 40 else "c"} for i, q in enumerate(gold)}
    result = karat.evaluate(gold, run_lists, "hit@1", queries=table, by="kind")
    why = karat.check(result, ["hit@1 >= 0.5 for every kind"]).why
    assert why.startswith("hit@1 where kind = a is 0.500 ")
    assert why.endswith("; 2 more segments undecided, 1 of them too small to judge alone")


def test_a_group_of_values_is_shown_as_it_is_written() -> None:
    gold = {f"q{i:02}": {"d": 1} for i in range(40)}
    table = {q: {"language": ("de", "en", "fr")[i % 3]} for i, q in enumerate(gold)}
    gate = "hit@1 >= 0.9 where language in (de, en)"
    lists = {q: ["x"] for q in gold}
    found = karat.check(karat.evaluate(gold, lists, "hit@1", queries=table, by="language in (de, en)"), [gate])
    assert found.why.startswith("hit@1 where language in (de, en) is 0.000 ")
    for output in (junit.render(view_of(found)).decode(), markdown.render(view_of(found))):
        assert "language in (de, en)" in output and "= yes" not in output


def test_junit_says_every_clause_once() -> None:
    gold = {f"q{i:02}": {"d": 1} for i in range(60)}
    table = {q: {"part": "few" if i < 4 else "moved" if i < 20 else "same"} for i, q in enumerate(gold)}
    runs = {"old": {q: ["d"] for q in gold}, "new": {q: ["d" if i % 4 or i > 19 else "x"] for i, q in enumerate(gold)}}
    result = karat.evaluate(gold, runs, "mrr", queries=table, by="part")
    gates = ["mrr no worse than baseline by 0.05 for every part", "mrr >= 0.9 for every part", "mrr >= 0.99"]
    found = karat.check(result, gates, candidate="new", baseline="old")
    messages = [case.get("message", "") for case in ET.fromstring(junit.render(view_of(found))).iter("error")]
    assert any("all 40 differences are 0, but about 1 query in " in one for one in messages), messages
    for message in messages:
        clauses = message.split("; ")
        assert len(clauses) == len(set(clauses)), message


def test_one_of_several_is_said_in_the_singular(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold = {f"q{i:02}": {"d": 1} for i in range(60)}
    table = {q: {"part": "abc"[i % 3]} for i, q in enumerate(gold)}
    lists = {q: ["x" if i % 3 == 0 else "d"] for i, q in enumerate(gold)}
    result = karat.evaluate(gold, {"new": lists}, "hit@1", queries=table, by="part")
    comment = markdown.render(view_of(karat.check(result, ["hit@1 >= 0.5 for every part"])))
    assert "1 of 3 segments fails\n" in comment
    check_view.show_check(karat.check(result, ["hit@1 <= 0.5 for every part"]), "gold")
    assert "1 of 3 segments passes" in capsys.readouterr().out
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    (tmp_path / "run.json").write_text(json.dumps(lists))
    (tmp_path / "q.jsonl").write_text("".join(json.dumps({"_id": q, "conversation": "c"}) + "\n" for q in gold))
    files = [str(tmp_path / name) for name in ("gold.json", "run.json", "q.jsonl")]
    assert run("evaluate", *files[:2], "--queries", files[2], "-m", "hit@1") == 0
    text = capsys.readouterr().out
    assert "only 1 independent query: " in text
    assert "may be alike: 60 queries in 1 conversation count as at least 1 independent one" in " ".join(text.split())


def test_segments_whose_queries_count_less_say_how_much(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """12 queries of 8 conversations: as many as 8, where 10 are needed."""
    gold = {f"q{i:02}": {"d": 1} for i in range(40)}
    small = [{"conversation": f"c{i * 2 // 3}", "kind": "small"} for i in range(12)]
    table = dict(zip(gold, [*small, *({"conversation": f"d{i}", "kind": "large"} for i in range(28))], strict=True))
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    (tmp_path / "run.json").write_text(json.dumps({q: ["d" if i % 3 else "x"] for i, q in enumerate(gold)}))
    (tmp_path / "q.jsonl").write_text("".join(json.dumps({"_id": q, **fields}) + "\n" for q, fields in table.items()))
    (tmp_path / "karat.yaml").write_text(
        "dataset: {qrels: gold.json, queries: q.jsonl}\nruns: [run.json]\nsegments: [kind]\ngates: [hit@1 >= 0.1]\n"
    )
    assert run("check", str(tmp_path / "karat.yaml")) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "1 segment has too few queries to judge on its own (12, which count as 7.2 independent ones; 10 are needed)"
        in text
    )


def test_notes_of_a_comment_stand_apart_and_those_of_gates_are_never_hidden() -> None:
    view = view_of(judged("plain"))
    notes = [Remark(f"{'data ' * 40}{i}", False) for i in range(20)]
    whole = replace(view, remarks=(*notes, Remark("gate left out", False, of_gate=True)))
    comment = markdown.render(whole)
    lines = [line for line in comment.splitlines() if line.startswith(">")]
    assert lines[-2:] == ["> - gate left out", "> - and 9 more notes"] and len(lines) == 13
    one = replace(view, remarks=tuple(notes[:12]))
    assert "> - and 1 more note\n" in markdown.render(one)
    assert cmarkgfm.github_flavored_markdown_to_html(comment).count("<li>data") == 11


def test_markdown_says_of_small_segments_that_they_are_too_few() -> None:
    gold = {f"q{i:02d}": {"d": 1} for i in range(24)}
    queries = {q: {"area": "rare" if i < 4 else "main"} for i, q in enumerate(gold)}
    runs = {"old": {q: ["x", "d"] for q in gold}, "new": {q: ["d"] if i % 3 else ["x"] for i, q in enumerate(gold)}}
    text = markdown.render(view_of(karat.compare(gold, runs, "mrr", queries=queries, by="area")))
    (row,) = (line for line in text.splitlines() if line.startswith("| area = rare") and "/" in line)
    assert "too few to judge alone" in row
    (row,) = (line for line in text.splitlines() if line.startswith("| area = main") and "/" in line)
    assert "too few" not in row


def test_an_evaluation_marks_small_segments_in_every_output(capsys: pytest.CaptureFixture[str]) -> None:
    gold = {f"q{i:02}": {"a": 1} for i in range(30)}
    run = {q: ["a"] if i % 3 else ["x", "a"] for i, q in enumerate(gold)}
    kinds = {q: {"kind": "rare" if i < 6 else "usual"} for i, q in enumerate(gold)}
    result = karat.evaluate(gold, run, "mrr,hit@1", queries=kinds, by="kind")
    words = "† too few to judge alone: fewer than 10 independent queries"
    evaluate_view.show(result, "gold")
    out = capsys.readouterr().out
    assert re.search(r"kind=rare † +6 ", out) and re.search(r"kind=usual +24 ", out) and words in out
    page = markdown.render(view_of(result))
    assert "| kind = rare † | 6 |" in page and "| kind = usual | 24 |" in page and words in page
    enough = karat.evaluate(gold, run, "mrr,hit@1", queries=kinds, by="kind", min_segment=5)
    evaluate_view.show(enough, "gold")
    assert "†" not in capsys.readouterr().out + markdown.render(view_of(enough))


def test_the_lowest_queries_are_not_those_that_no_system_can_answer() -> None:
    gold = {f"q{i:02}": {"d": int(i > 3)} for i in range(30)}
    run = {q: ["d"] if i % 5 else ["x", "d"] for i, q in enumerate(gold)}
    comment = markdown.render(view_of(karat.check(karat.evaluate(gold, run, "ndcg@10"), ["ndcg@10 >= 0.1"])))
    assert re.findall(r"- `(q\d+)`", comment) == ["q05", "q10", "q15"]


def test_what_p_is_adjusted_over_is_said_in_full() -> None:
    gold = {f"q{i}": ["a"] for i in range(60)}
    runs = {
        f"a run with a long name, number {n}": {q: ["x", "a"][(i + n) % 2 :] for i, q in enumerate(gold)}
        for n in range(4)
    }
    table = {q: {"topic": f"t{i % 3}"} for i, q in enumerate(gold)}
    compared = karat.compare(gold, runs, "mrr,ndcg@10,hit@1,recall@5,map", queries=table, by="topic")
    whole = describe_families(compared.rows)
    assert markdown.text(whole, markdown.STATEMENT) in markdown.render(view_of(compared))
    assert "…" not in markdown.text(whole, markdown.STATEMENT)
