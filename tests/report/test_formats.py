"""Output formats: declared in one module each; flag, key of karat.yaml and replacement after an error follow."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import karat
from karat.cli.app import app
from karat.config.models import Outputs
from karat.errors import InputError, UsageError
from karat.report.formats import Problem, all_formats
from karat.report.outputs import Files, write, write_error
from karat.report.view import view_of
from places import ROOT

ENDINGS = {"html": "html", "json": "json", "junit": "xml", "latex": "tex", "markdown": "md", "per_query": "csv"}


VALUES_ALONE = {"per_query"}
"""Formats that hold numbers for programs, and nothing that is said."""
DOCUMENTS = {"json", "save", "junit"}
"""Formats that hold what was forced as data, and say it too."""


@pytest.fixture(scope="module")
def check() -> karat.Check:
    gold = {f"q{i}": {"d": 1} for i in range(30)}
    runs = {"old": {q: {"d": 1.0} for q in gold}, "new": {q: {"x": 2.0, "d": 1.0} for q in gold}}
    return karat.check(karat.evaluate(gold, runs, "mrr", details=True), ["mrr >= 0.9"], baseline="old")


def places(folder: Path) -> dict[str, str]:
    return {name: str(folder / f"{name}.{ENDINGS.get(name, 'json.gz')}") for name in all_formats()}


def test_every_format_has_a_key_in_karat_yaml_and_a_flag() -> None:
    keys = {field.alias or name for name, field in Outputs.model_fields.items()}
    assert keys == {*all_formats(), "report_url"}
    help_text = CliRunner().invoke(app, ["check", "--help"], env={"COLUMNS": "200"}).output
    assert all(
        f"--{name.replace('_', '-')}" in help_text for name, one in all_formats().items() if "check" in one.verbs
    )


def test_the_page_names_every_format_of_a_check() -> None:
    page = (ROOT / "docs/gates.md").read_text("utf-8")
    section = page.partition("\n## What is written\n")[2].partition("\n## ")[0]
    for name, one in all_formats().items():
        assert f"`{name}`" in section or "check" not in one.verbs, f"docs/gates.md lacks {name}"


def test_the_declarations_load_nothing_slow() -> None:
    code = "import karat.report.formats, sys; karat.report.formats.all_formats(); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def words_of(text: str) -> str:
    """Its words with a space between them, whatever escapes and breaks lines in a format."""
    return " ".join(re.findall(r"\w+", html.unescape(text)))


@pytest.mark.usefixtures("few_draws")
def test_every_format_says_what_a_verdict_rests_on(tmp_path: Path) -> None:
    """The baseline rests on other gold: 31 judgments, not 30. The run lacks a query, and returns a doc twice."""
    gold = {f"q{i:02}": {"d": 1} for i in range(30)}
    old = karat.evaluate({**gold, "q00": {"d": 1, "e": 1}}, {"old": {q: ["d"] for q in gold}}, "mrr", condensed=True)
    lists = {q: ["d", "d"] if q == "q01" else ["d"] for q in list(gold)[1:]}
    new = karat.evaluate(gold, {"new": lists}, "mrr", condensed=True, details=True)
    check = karat.check(new, ["mrr >= 0.97"], baseline=old, force=True)
    said = {
        "the verdict": str(check.verdict),
        "what was compared by force (view.forced)": str(check.forced[0]),
        "why that is odd": "although",
        **{f"remark {place}": remark.text for place, remark in enumerate(view_of(check).remarks)},
        "the conventions": "condensed",
    }
    assert check.verdict == "INCONCLUSIVE" and len(view_of(check).remarks) > 1
    assert "31 judgments" in str(check.forced[0]) and not any("--force" in note for note in view_of(check).notes)
    for name, one in all_formats().items():
        place = f"{places(tmp_path)[name]}.json" if name == "save" else places(tmp_path)[name]
        one.write(view_of(check), place)
        text = words_of(Path(place).read_text("utf-8"))
        for what, part in said.items():
            assert (words_of(part) in text) == (name not in VALUES_ALONE), f"{name} does not say {what}: {part}"
        assert text.count(words_of(str(check.forced[0]))) <= (2 if name in DOCUMENTS else 1), name


def test_a_forced_comparison_says_so_once(tmp_path: Path) -> None:
    """The view that formats are written from has it in `forced` alone; what the result itself says has it as a note."""
    gold = {f"q{i:02}": {"d": 1} for i in range(30)}
    old = karat.evaluate({**gold, "q00": {"d": 1, "e": 1}}, {"old": {q: ["d"] for q in gold}}, "mrr")
    new = karat.evaluate(gold, {"new": {q: ["d"] for q in gold}}, "mrr")
    found = karat.compare(old, new, force=True)
    assert any("--force" in note for note in found.notes)
    for name in ("markdown", "latex", "html"):
        all_formats()[name].write(view_of(found), str(tmp_path / name))
        assert words_of((tmp_path / name).read_text("utf-8")).count(words_of(str(found.forced[0]))) == 1, name


@pytest.mark.usefixtures("few_draws")
def test_after_an_error_no_output_of_an_earlier_check_looks_current(check: karat.Check, tmp_path: Path) -> None:
    files = Files(places(tmp_path))
    write(view_of(check), files)
    before = {name: Path(place).read_bytes() for name, place in files.places.items()}
    assert all(before.values())
    write_error(InputError("gold.qrels:3: is broken <&>"), files, "toy")
    for name, place in files.places.items():
        data = Path(place).read_bytes()
        assert data != before[name], name
        assert b"BLOCK" not in data and b"0.5" not in data, name
    assert "gold.qrels:3: is broken &lt;&amp;&gt;" in Path(files.places["html"]).read_text()
    assert json.loads(Path(files.places["json"]).read_text())["error"] == ["gold.qrels:3: is broken <&>"]
    assert Path(files.places["per_query"]).read_text() == "run,query_id,metric,value\n"
    with pytest.raises(InputError):
        karat.load(files.places["save"])


def test_an_error_makes_no_file_where_there_was_none(tmp_path: Path) -> None:
    write_error(InputError("broken"), Files(places(tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_names_of_outputs_are_checked_before_any_work() -> None:
    with pytest.raises(UsageError, match="--save: takes the name of a file"):
        Files.of({"save": "-"})
    with pytest.raises(UsageError, match="only one output can go to standard output"):
        Files.of({"json": "-", "markdown": "-"})
    with pytest.raises(UsageError, match=r"must end in one of \.csv, \.jsonl, \.parquet"):
        Files.of({"per_query": "values.txt"})


def test_problems_of_every_kind_are_rendered(tmp_path: Path) -> None:
    for name, one in all_formats().items():
        place = places(tmp_path)[name]
        one.write_error(Problem(["first", "second % & <"]), place)
        assert Path(place).exists()
