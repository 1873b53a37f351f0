"""What the command line says of the data, every result object says too; what is serious is a Python warning."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import karat
from karat.report import latex, markdown
from karat.report.html.sections import page_of
from karat.report.html.source import source_of
from karat.report.terminal import check as check_view
from karat.report.terminal import compare as compare_view
from karat.report.terminal import diagnose as diagnose_view
from karat.report.terminal import evaluate as evaluate_view
from karat.report.terminal import plan as plan_view
from karat.report.terminal import reliability as reliability_view
from karat.report.terminal import sweep as sweep_view
from karat.report.view import view_of

GOLD = {f"q{i:02}": {f"d{i}": 1} for i in range(30)}
GOOD = {q: [f"d{i}" if i % 3 else "x", "x" if i % 3 else f"d{i}", "y"] for i, q in enumerate(GOLD)}
FAIR = {q: ["x" if i % 2 else f"d{i}", f"d{i}" if i % 2 else "x", "z"] for i, q in enumerate(GOLD)}
BAD = {q: ["z"] for q in list(GOLD)[2:]}
"""It lacks two queries, and returns nothing that is judged."""
SOME = {q: FAIR[q] for q in BAD}
RUNS = {"good": GOOD, "fair": FAIR, "bad": BAD}
LACKS = "2 queries of the gold without results"
NOTHING = "no judged doc was returned for any query: check the ids"


def run_result() -> karat.Result:
    return karat.evaluate(GOLD, RUNS, "recall@10,map")


Show = Callable[[Any], None]
VERBS: dict[str, tuple[Callable[[], Any], Show]] = {
    "one run": (lambda: karat.evaluate(GOLD, {"bad": BAD}, "map"), lambda one: evaluate_view.show(one, "gold")),
    "several runs": (run_result, lambda one: evaluate_view.show(one, "gold")),
    "compare": (lambda: karat.compare(GOLD, RUNS, "recall@10,map"), compare_view.show),
    "check": (
        lambda: karat.check(run_result(), ["map >= 0.1"], baseline="good"),
        lambda one: check_view.show_check(one, "gold"),
    ),
    "sweep": (lambda: karat.sweep(GOLD, RUNS, ks=[1, 5]), sweep_view.show),
    "plan": (lambda: karat.plan(GOLD, {"some": SOME}, "map >= 0.5", truth=0.1, sizes=[30]), plan_view.show),
    "reliability": (lambda: karat.reliability(GOLD, RUNS, "map"), reliability_view.show),
    "diagnose": (lambda: karat.diagnose(GOLD, {"bad": BAD}), diagnose_view.show),
}


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("name", VERBS)
def test_notes_are_the_sentences_that_the_command_line_prints(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    verb, show = VERBS[name]
    found = verb()
    capsys.readouterr()
    show(found)
    printed = " ".join(capsys.readouterr().out.split())
    assert found.notes and all(text in printed for text in found.notes)
    assert any(LACKS in text for text in found.notes) and set(found.warnings) <= set(found.notes)
    assert all(f"! {text}" in printed for text in found.warnings if text not in getattr(found, "mismatches", ()))
    assert set(found.notes) <= set(found.table().notes)


def test_each_run_of_several_has_its_own_notes() -> None:
    result = run_result()
    assert {NOTHING, LACKS} <= set(result["bad"].notes) and not {NOTHING, LACKS} & set(result["good"].notes)
    assert {f"bad: {NOTHING}", f"bad: {LACKS}"} <= set(result.warnings)


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("name", VERBS)
def test_what_is_serious_is_warned_of_once_at_the_line_of_the_caller(name: str) -> None:
    verb, _ = VERBS[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = verb()
    mine = [w for w in caught if issubclass(w.category, karat.KaratWarning)]
    texts = [str(w.message) for w in mine]
    again = 2 if name == "check" else 1  # that of the evaluation before it, which is a call of its own
    assert set(found.warnings) <= set(texts) and max(map(texts.count, texts)) <= again
    assert any(LACKS in text for text in texts)
    lines = Path(__file__).read_text("utf-8").splitlines()
    assert all(w.filename == __file__ and "karat." in lines[w.lineno - 1] for w in mine)


def test_good_data_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert karat.evaluate(GOLD, {"good": GOOD}, "hit@1,map").warnings == ()


def test_components_say_what_is_odd_about_the_data_and_the_log() -> None:
    log = [{"query_id": q, "topk": [{"doc_id": d} for d in docs]} for q, docs in BAD.items()]
    with pytest.warns(karat.KaratWarning, match=LACKS):
        parts = karat.components(GOLD, log)
    assert LACKS in parts.notes and any(text.startswith("funnel: ") for text in parts.notes)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "gold.json").write_text(json.dumps(GOLD))
    for name, run in RUNS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(run))
    (tmp_path / "karat.yaml").write_text(
        "dataset: {qrels: gold.json}\nruns: {good: good.json, bad: bad.json}\nbaseline: bad\ngates: [map >= 0.1]\n"
        "metrics: [map]\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    "words",
    ["evaluate gold.json bad.json", "compare gold.json good.json bad.json -m map", "check", "sweep gold.json bad.json"],
)
def test_the_command_line_prints_and_gives_no_python_warning(project: Path, words: str) -> None:
    """With warnings as errors a warning would end the command."""
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "karat",
        *words.split(),
        *([] if words == "check" else ["--no-cache"]),
    ]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert done.returncode in (0, 1, 3) and LACKS in done.stdout
    assert "Warning" not in done.stderr


def test_gold_of_another_corpus_is_serious() -> None:
    docs = {f"other-{i}": "text" for i in range(30)}
    with pytest.warns(karat.KaratWarning, match="30 of 30 distinct relevant docs are not in the corpus"):
        karat.evaluate(GOLD, {"good": GOOD}, "map", docs=docs)
    few = {f"d{i}": "text" for i in range(29)}
    result = karat.evaluate(GOLD, {"good": GOOD}, "map", docs=few)
    assert result.warnings == () and any("1 of 30 distinct relevant docs" in text for text in result.notes)


def test_a_run_is_known_by_its_name_or_its_number() -> None:
    result = run_result()
    assert [result[i].name for i in (0, 1, -1)] == ["good", "fair", "bad"]
    with pytest.raises(karat.ResultError, match=r"no run number 3 in this result, which holds 3 runs"):
        _ = result[3]


def test_outputs_name_no_level_where_there_are_no_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    result = karat.evaluate(GOLD, {"good": GOOD, "fair": FAIR}, "map", method="none", confidence=0.99)
    compared = karat.compare(GOLD, {"good": GOOD, "fair": FAIR}, "map", method="none", confidence=0.99)
    evaluate_view.show(result, "gold")
    compare_view.show(compared)
    printed = " ".join(capsys.readouterr().out.split())
    assert "intervals=none" in printed and " · no intervals · " in printed
    texts = [latex.render(view_of(compared)), markdown.render(view_of(compared)), printed]
    texts.append(page_text(compared))
    assert not any("99" in text for text in texts)
    with_intervals = karat.compare(GOLD, {"good": GOOD, "fair": FAIR}, "map", confidence=0.99)
    assert "99\\% confidence" in latex.render(view_of(with_intervals)) and "99%" in page_text(with_intervals)


def page_text(compared: karat.Comparison) -> str:
    """What the page says of the scope and the facts."""
    page = page_of(source_of(compared))
    return f"{page.scope} {page.facts}"


def test_what_a_sweep_or_a_margin_leaves_out_is_a_warning_too() -> None:
    short = {q: docs[:2] for q, docs in GOOD.items()}
    swept = karat.sweep(GOLD, {"good": GOOD, "short": short}, "recall", ks=[1, 2, 3])
    assert set(swept.own_notes) and set(swept.own_notes) <= set(swept.warnings)
    compared = karat.compare(GOLD, {"good": GOOD, "fair": FAIR}, ["ndcg@10", "num_ret"], margin=0.02)
    (note,) = compared.own_notes
    assert "the margin of 0.02 is one of ndcg@10" in note and note in compared.warnings
