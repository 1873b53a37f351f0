"""`confidence: {sequential: true}` and `looks:` in karat.yaml: gates that may be looked at as often as one likes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

import karat
from karat.cli.app import app
from karat.errors import InputError, UsageError
from karat.report.view import view_of
from karat.stats.groups import intervals
from karat.stats.resample import Units

if TYPE_CHECKING:
    from pathlib import Path

GATES = ["recall@5 >= 0.3", "recall@5 no worse than baseline by 0.3"]


def write_project(folder: Path, n: int = 120, *, gates: list[str] | None = None, **more: Any) -> Path:
    """A project of n queries, ten of each day, whose first queries stay the same however many there are."""
    rng = np.random.default_rng(4)
    found = rng.random((2, 1000)) < [[0.7], [0.75]]
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(f"q{i}\td{i}\t1\n" for i in range(n)))
    queries = [{"_id": f"q{i}", "text": "?", "added": f"2025-01-{1 + i // 10:02d}"} for i in range(n)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in queries))
    for name, hits in zip(("old", "new"), found, strict=True):
        lines = [
            {"query_id": f"q{i}", "topk": [{"doc_id": d} for d in docs], "latency_ms": {"all": i + 1}}
            for i in range(n)
            for docs in [[f"{'d' if hits[i] else 'y'}{i}", "x1", "x2", "x3", "x4"]]
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = {
        "dataset": {"qrels": "qrels.tsv", "queries": "queries.jsonl"},
        "runs": {"old": "old.jsonl", "new": "new.jsonl"},
        "baseline": "old",
        "metrics": ["recall@5"],
        "gates": gates or GATES,
        **({"confidence": {"sequential": True}} | more),
    }
    (folder / "karat.yaml").write_text(json.dumps(config))
    return folder / "karat.yaml"


def edit_queries(folder: Path, edit: dict[str, object]) -> None:
    """Change fields of the third query; None takes one away."""
    lines = (folder / "queries.jsonl").read_text().splitlines()
    third = {k: v for k, v in (json.loads(lines[2]) | edit).items() if v is not None}
    (folder / "queries.jsonl").write_text("\n".join([*lines[:2], json.dumps(third), *lines[3:]]) + "\n")


def test_gates_are_judged_by_betting_over_the_days_of_the_queries(tmp_path: Path) -> None:
    outcome = karat.check(write_project(tmp_path))
    assert outcome.verdict == "SHIP"
    assert [row.found.method for row in outcome.rows] == ["betting", "betting"]
    values = outcome.result["new"].per_query("recall@5")
    ordered = [values[f"q{i}"] for i in range(120)]
    units = Units.of(120, days=[i // 10 for i in range(120)])
    (expected,) = intervals(np.array([ordered]), units, bounds=[(0.0, 1.0)])
    assert (outcome.rows[0].found.low, outcome.rows[0].found.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.usefixtures("few_draws")
def test_every_output_says_that_intervals_are_anytime_valid(tmp_path: Path) -> None:
    outcome = karat.check(write_project(tmp_path))
    document = outcome.as_json()
    assert document["intervals"]["sequential"] is True
    assert {gate["ci_method"] for gate in document["gates"]} == {"betting"}
    assert {row["decided_by"] for row in document["comparisons"]} == {"betting"}
    names = ("json", "markdown", "junit", "html", "latex")
    places = {name: tmp_path / f"out.{name}" for name in names}
    flags = [part for name in names for part in (f"--{name}", str(places[name]))]
    printed = CliRunner().invoke(app, ["check", str(tmp_path / "karat.yaml"), *flags])
    assert printed.exit_code == 0, printed.output
    texts = [" ".join(printed.stdout.split()), *(place.read_text() for place in places.values())]
    assert all("anytime-valid" in text for text in texts)


@pytest.mark.parametrize(
    ("gate", "why"),
    [
        ("latency.p50 <= 10s", "sequential: no interval of a quantile holds at every look"),
        ("latency.mean <= 10s", "sequential: no interval of a mean without bounds holds at every look"),
    ],
)
def test_what_has_no_such_interval_is_undecided_and_says_why(tmp_path: Path, gate: str, why: str) -> None:
    (row,) = karat.check(write_project(tmp_path, gates=[gate])).rows
    assert (row.outcome, row.judged.why) == ("undecided", why)
    assert row.document().ci is None


def test_weights_and_conversations_of_different_length_are_undecided(tmp_path: Path) -> None:
    config = write_project(tmp_path, gates=["recall@5 >= 0.3"])
    edit_queries(tmp_path, {"weight": 3})
    (row,) = karat.check(config).rows
    assert row.judged.why == "sequential: no interval of queries of different weight holds at every look"
    table = str(tmp_path / "queries.jsonl")
    result = karat.evaluate(
        str(tmp_path / "qrels.tsv"), str(tmp_path / "new.jsonl"), "recall@5", queries=table, sequential=True
    )
    assert result.runs[0].estimates[0]["recall@5"].method != "betting"
    warnings = result.as_json()["warnings"]
    assert "sequential: with queries of different weight, intervals hold for one look only" in warnings
    assert not any("however often you look" in text for text in warnings)
    write_project(tmp_path, gates=["recall@5 >= 0.3"])
    lines = [json.loads(line) for line in (tmp_path / "queries.jsonl").read_text().splitlines()]
    talks = [line | {"conversation": str(max(i, 2) // 2)} for i, line in enumerate(lines)]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in talks))
    (row,) = karat.check(config).rows
    assert row.judged.why == "sequential: no interval of conversations of different length holds at every look"


def test_a_gate_on_pooled_segments_is_undecided(tmp_path: Path) -> None:
    config = write_project(tmp_path, gates=["recall@5 >= 0.3 for every third (pooled)"])
    lines = [json.loads(line) for line in (tmp_path / "queries.jsonl").read_text().splitlines()]
    thirds = [line | {"third": str(i % 3)} for i, line in enumerate(lines)]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in thirds))
    why = {row.judged.why for row in karat.check(config).rows}
    assert why == {"sequential: no interval of pooled segments holds at every look"}


def test_gates_that_need_no_interval_are_judged_as_ever(tmp_path: Path) -> None:
    outcome = karat.check(write_project(tmp_path, gates=["latency.mean <= 10s at the mean", "num_ret >= 600"]))
    assert [row.outcome for row in outcome.rows] == ["pass", "pass"]


def test_an_undecided_gate_foretells_no_number_of_queries(tmp_path: Path) -> None:
    (row,) = karat.check(write_project(tmp_path, gates=["recall@5 >= 0.7"])).rows
    assert (row.outcome, row.judged.more, row.judged.why) == ("undecided", None, "the threshold is inside the interval")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"added": None}, r'queries\.jsonl:3: query "q2" lacks .added.; .* such as added: 2025-04-01'),
        ({"added": "soon"}, r'queries\.jsonl:3: query "q2": added must be an ISO date .*, found "soon"'),
        ({"_id": "other"}, r'query "q2" is not in this table'),
    ],
)
def test_a_query_without_its_date_is_an_input_error(tmp_path: Path, edit: dict[str, object], message: str) -> None:
    config = write_project(tmp_path)
    edit_queries(tmp_path, edit)
    with pytest.raises(InputError, match=message):
        karat.check(config)


def test_sequential_needs_a_table_of_queries_and_no_other_method(tmp_path: Path) -> None:
    config = write_project(tmp_path)
    with pytest.raises(UsageError, match="method of their own"):
        karat.check(config, method="bca")
    with pytest.raises(UsageError, match="table of queries with the field 'added'"):
        karat.evaluate({"q": {"d": 1}}, {"q": ["d"]}, sequential=True)


def test_a_saved_result_keeps_its_days(tmp_path: Path) -> None:
    config, saved = write_project(tmp_path), str(tmp_path / "saved.json")
    first = karat.check(config)
    first.result.save(saved)
    again = karat.check(config, result=saved)
    assert [row.document() for row in again.rows] == [row.document() for row in first.rows]
    write_project(tmp_path, confidence={})
    karat.check(config).result.save(saved)
    write_project(tmp_path)
    with pytest.raises(InputError, match=r"karat\.yaml:1: the saved result was evaluated without sequential"):
        karat.check(config, result=saved)


def test_the_flag_and_the_level_as_a_number_work(tmp_path: Path) -> None:
    config = write_project(tmp_path, confidence=0.9)
    assert {row.found.method for row in karat.check(config).rows} == {"clopper-pearson", "randomization"}
    assert {row.found.method for row in karat.check(config, sequential=True).rows} == {"betting"}
    printed = CliRunner().invoke(app, ["check", str(config), "--sequential", "--json", "-"])
    document = json.loads(printed.stdout)
    assert document["intervals"]["sequential"] is True
    assert document["intervals"]["confidence"] == 0.9


def test_queries_without_dates_are_one_error_with_their_number(tmp_path: Path) -> None:
    config = write_project(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "queries.jsonl").read_text().splitlines()]
    kept = [{k: v for k, v in line.items() if k != "added"} for line in lines[:100]]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    with pytest.raises(InputError) as error:
        karat.check(config)
    first, second = str(error.value).splitlines()
    assert "queries.jsonl:1: query \"q0\" and 99 more lack 'added'; sequential intervals need" in first
    assert 'queries.jsonl: query "q100" and 19 more are not in this table; ' in second


# --- looks -------------------------------------------------------------------------------------------------------


def look_at(folder: Path, n: int, **more: Any) -> karat.Check:
    """Check a gold of n queries."""
    return karat.check(write_project(folder, n, looks="karat.looks.json", **{"confidence": {}, **more}))


def test_the_second_look_at_a_gold_that_grew_is_warned_about(tmp_path: Path) -> None:
    assert look_at(tmp_path, 100).second_look == ""
    first = (tmp_path / "karat.looks.json").read_text()
    assert look_at(tmp_path, 100).second_look == ""  # the same gold again is not another look
    assert (tmp_path / "karat.looks.json").read_text() == first
    second = look_at(tmp_path, 120)
    assert second.second_look.startswith("look 2 at a gold that has changed (100 queries, now 120): ")
    assert "sequential: true" in second.second_look
    assert look_at(tmp_path, 120).second_look == second.second_look
    lines = (tmp_path / "karat.looks.json").read_text().splitlines()
    assert lines[0] == '{"format": "karat looks 1", "looks": ['
    assert [json.loads(line.rstrip(","))["queries"] for line in lines[1:-1]] == [100, 120]


def test_looks_are_counted_in_their_order_whatever_their_size(tmp_path: Path) -> None:
    numbers = [look_at(tmp_path, n).second_look.partition(":")[0] for n in (90, 89, 120)]
    changed = "at a gold that has changed"
    assert numbers == ["", f"look 2 {changed} (90 queries, now 89)", f"look 3 {changed} (90, 89 queries, now 120)"]
    gold = write_project(tmp_path, 120, looks="karat.looks.json", confidence={}).parent / "qrels.tsv"
    first, second, *rest = gold.read_text().splitlines()
    gold.write_text("\n".join([first, f"{second[:-1]}{1 + int(second[-1])}", *rest]) + "\n")  # judged anew
    again = karat.check(tmp_path / "karat.yaml").second_look
    assert again.startswith(f"look 4 {changed} (90, 89, 120 queries, now 120): ")
    looks = json.loads((tmp_path / "karat.looks.json").read_text())["looks"]
    assert [look["queries"] for look in looks] == [90, 89, 120, 120]


@pytest.mark.usefixtures("few_draws")
def test_every_output_shows_the_second_look(tmp_path: Path) -> None:
    look_at(tmp_path, 100)
    check = look_at(tmp_path, 120)
    assert check.as_json()["notes"] == [check.second_look]
    assert view_of(check).remarks[0].text == check.second_look
    names = ("json", "markdown", "junit", "html", "latex")
    places = {name: tmp_path / f"out.{name}" for name in names}
    flags = [part for name in names for part in (f"--{name}", str(places[name]))]
    printed = CliRunner().invoke(app, ["check", str(tmp_path / "karat.yaml"), *flags])
    texts = [" ".join(printed.stdout.split()), *(place.read_text() for place in places.values())]
    assert all("look 2 at a gold that has changed" in text for text in texts)


def test_sequential_looks_are_recorded_and_free(tmp_path: Path) -> None:
    for n in (100, 120, 140):
        assert look_at(tmp_path, n, confidence={"sequential": True}).second_look == ""
    looks = json.loads((tmp_path / "karat.looks.json").read_text())["looks"]
    assert [(look["queries"], look["sequential"]) for look in looks] == [(100, True), (120, True), (140, True)]


@pytest.mark.parametrize(
    "text", ["", "{", '{"looks": []}', '{"format": "karat looks 1", "looks": [{"queries": "many"}]}', "q0\td0\t1\n"]
)
def test_a_file_that_holds_no_looks_is_an_input_error_and_stays(tmp_path: Path, text: str) -> None:
    (tmp_path / "karat.looks.json").write_text(text)
    with pytest.raises(InputError, match=r"karat\.looks\.json: .*name another file under looks"):
        look_at(tmp_path, 100)
    assert (tmp_path / "karat.looks.json").read_text() == text


@pytest.mark.usefixtures("few_draws", "no_search")
def test_an_error_and_a_plan_are_not_looks(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        look_at(tmp_path, 100, gates=["recall@5 no worse than nobody"])
    plan = karat.plan(write_project(tmp_path, looks="karat.looks.json"), gates="recall@5 >= 0.5", sizes=[50])
    assert any("those of one look" in note for note in plan.notes)
    assert not (tmp_path / "karat.looks.json").exists()


def test_no_output_is_written_over_the_looks(tmp_path: Path) -> None:
    look_at(tmp_path, 100)
    before = (tmp_path / "karat.looks.json").read_text()
    flags = ["--json", str(tmp_path / "karat.looks.json")]
    printed = CliRunner().invoke(app, ["check", str(tmp_path / "karat.yaml"), *flags])
    assert printed.exit_code != 0
    assert (tmp_path / "karat.looks.json").read_text() == before
