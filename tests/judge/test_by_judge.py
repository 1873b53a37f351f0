"""Judged grades where the gold has none: figures side by side, corrected ones, bounds, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import karat
from command import run_karat
from karat.errors import InputError, UsageError
from karat.judge.judgments import Judgment, ModelJudge, Person, add_judgments
from karat.judge.pairs import Draw
from karat.report.by_judge import describe_judged
from karat.results.figures import figure
from karat.results.pairing import check_comparable
from places import ROOT
from planted_judge import MODEL, NOON, Planted

OTHER = ModelJudge("m", "q")
GOLD = {"q1": {"d1": 1, "d2": 0}, "q2": {"d1": 1, "d9": 1}}
RUN = {"q1": ["d1", "d2", "d3", "d4"], "q2": ["d5", "d1", "d6", "d7"]}
METRICS = ["precision@4", "ndcg@4", "recall@4", "hit@1"]


def grade(query: str, doc: str, value: int, by: ModelJudge | Person = MODEL, scale: str = "0-1") -> Judgment:
    return Judgment(query, doc, value, scale, by, NOON)


def write(path: Path, rows: list[Judgment]) -> str:
    add_judgments(str(path), rows)
    return str(path)


@pytest.fixture
def judged(tmp_path: Path) -> str:
    """The judge disagrees with the gold on d2, and grades three docs that the gold lacks; q7 is not in the gold."""
    rows = [grade("q1", "d1", 1), grade("q1", "d2", 1), grade("q1", "d3", 1), grade("q2", "d5", 1)]
    return write(tmp_path / "judged.jsonl", [*rows, grade("q2", "d6", 0), grade("q7", "d1", 1)])


def test_judged_grades_feed_precision_and_the_gold_wins(judged: str) -> None:
    run = karat.evaluate(GOLD, RUN, METRICS, judgments=judged).runs[0]
    one = run.by_judge
    assert one is not None
    assert (one.pairs, one.shared, one.disagreements) == (3, 2, 1)
    assert run.values["precision@4"].tolist() == [0.25, 0.25]  # of the gold alone, as before
    assert one.raw["precision@4"].tolist() == [0.5, 0.5]  # d3 and d5 count too, d2 does not
    # q1: gains at ranks 1 and 3, an ideal of two docs.
    dcg, ideal = 1 + 1 / np.log2(4), 1 + 1 / np.log2(3)
    assert one.raw["ndcg@4"][0] == pytest.approx(dcg / ideal)
    assert one.judged["precision@4"].gold == pytest.approx((2 / 4 + 1 / 4) / 2)
    assert one.judged["precision@4"].both == pytest.approx(3 / 4)


def test_hit_and_recall_stay_on_the_gold(judged: str) -> None:
    plain = karat.evaluate(GOLD, RUN, METRICS)
    run = karat.evaluate(GOLD, RUN, METRICS, judgments=[judged]).runs[0]
    assert run.by_judge is not None and set(run.by_judge.raw) == {"precision@4", "ndcg@4"}
    assert {m: v.tolist() for m, v in run.values.items()} == {m: v.tolist() for m, v in plain.runs[0].values.items()}


def test_bounds_are_those_of_docs_without_gold(judged: str) -> None:
    one = karat.evaluate(GOLD, RUN, METRICS, judgments=judged).runs[0].by_judge
    assert one is not None
    bounds = one.bounds["precision@4"]
    assert bounds.low == pytest.approx(0.25) and bounds.high == pytest.approx((3 / 4 + 4 / 4) / 2)
    assert one.bounds["hit@1"].low == 0.5 and one.bounds["hit@1"].high == 1


def test_tables_hold_what_a_judges_grades_feed_beside_the_gold(judged: str) -> None:
    result = karat.evaluate(GOLD, {"a": RUN}, METRICS, judgments=judged)
    table = result.table()
    assert list(table.heads) == ["metric", "n", "a", "a: gold + judge"]
    cells = {row[0]: row[2:] for row in table.cells}
    assert cells["precision@4"][0].startswith("0.2500") and cells["precision@4"][1].startswith("0.5000")
    assert cells["hit@1"][1] == ""  # of the gold alone
    values = {(row[1], row[3]): row[4] for row in table.rows}
    assert table.columns[3] == "judged"
    assert (values["precision@4", "none"], values["precision@4", "raw"]) == (0.25, 0.5)
    assert "a: gold + judge" in result._repr_html_()


def test_nothing_is_corrected_without_a_calibration(judged: str) -> None:
    result = karat.evaluate(GOLD, RUN, METRICS, judgments=judged)
    one = result.runs[0].by_judge
    assert one is not None and not one.corrected and set(one.not_corrected) == {"precision@4", "ndcg@4"}
    assert result.judge is not None and result.judge.labels is None


def test_grades_of_other_scales_are_not_mixed(tmp_path: Path) -> None:
    path = write(tmp_path / "j.jsonl", [grade("q1", "d3", 3, scale="0-3")])
    one = karat.evaluate(GOLD, RUN, METRICS, judgments=path).runs[0].by_judge
    assert one is not None and set(one.raw) == {"precision@4"}
    assert one.not_raw["ndcg@4"] == "the gold has grades up to 1, the judge up to 3; --binary makes both 0 and 1"
    both = karat.evaluate(GOLD, RUN, METRICS, judgments=path, binary=True).runs[0].by_judge
    assert both is not None and set(both.raw) == {"precision@4", "ndcg@4"} and not both.not_raw


def test_one_of_several_judges_is_chosen_or_all_are_refused(tmp_path: Path, judged: str) -> None:
    more = write(tmp_path / "more.jsonl", [grade("q1", "d3", 0, OTHER)])
    with pytest.raises(InputError, match="holds judgments by several judges"):
        karat.evaluate(GOLD, RUN, METRICS, judgments=[judged, more])
    first, second = (
        karat.evaluate(GOLD, RUN, METRICS, judgments=[judged, more], judge=name)
        for name in (_fingerprint(judged), _fingerprint(more))
    )
    assert first.runs[0].by_judge is not None and first.runs[0].by_judge.pairs == 3
    assert second.runs[0].by_judge is not None and second.runs[0].by_judge.pairs == 1
    with pytest.raises(InputError, match="judge"):  # results by different judges are not compared
        check_comparable(first, first.runs[0], second, second.runs[0], ["precision@4"], force=False)


def _fingerprint(path: str) -> str:
    judge = karat.evaluate(GOLD, RUN, METRICS, judgments=path).judge
    assert judge is not None
    return judge.fingerprint


def test_the_one_person_of_a_file_is_a_judge_too(tmp_path: Path) -> None:
    path = write(tmp_path / "j.jsonl", [grade("q1", "d3", 1, Person("ana"))])
    judge = karat.evaluate(GOLD, RUN, METRICS, judgments=path).judge
    assert judge is not None and judge.label == "ana"


def test_judgments_of_other_queries_and_lone_options_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "j.jsonl", [grade("x1", "d3", 1)])
    with pytest.raises(InputError, match="judges none of the 2 queries of the gold"):
        karat.evaluate(GOLD, RUN, METRICS, judgments=path)
    with pytest.raises(UsageError, match="calibration is about a judge"):
        karat.evaluate(GOLD, RUN, METRICS, calibration="c.json")


def test_corrected_precision_is_what_people_would_say(tmp_path: Path) -> None:
    data = Planted(tmp_path, 200)
    metrics = ["precision@10", "ndcg@10"]
    result = karat.evaluate(data.qrels, data.run, metrics, judgments=data.files, calibration=data.calibration)
    one = result.runs[0].by_judge
    assert one is not None and result.judge is not None and result.judge.labels == 200
    corrected = one.corrected["precision@10"]
    raw = one.raw["precision@10"].mean()
    assert result.mean["precision@10"] < data.precision - 0.1 and raw > data.precision + 0.05
    assert data.precision in corrected.these and data.precision in corrected.interval and raw not in corrected.interval
    assert corrected.values.mean() == pytest.approx(corrected.interval.estimate)
    assert set(one.not_corrected) == {"ndcg@10"}
    assert one.not_corrected["ndcg@10"].startswith("labels of single pairs would leave it biased; label whole queries")


def test_corrected_precision_is_exact_where_every_pair_has_a_label(tmp_path: Path) -> None:
    data = Planted(tmp_path, 80 * 20)
    result = karat.evaluate(data.qrels, data.run, "precision@10", judgments=data.files, calibration=data.calibration)
    one = result.runs[0].by_judge
    assert one is not None
    assert one.corrected["precision@10"].interval.estimate == pytest.approx(data.precision)


def test_a_calibration_of_another_judge_or_without_labels_is_refused(tmp_path: Path) -> None:
    data = Planted(tmp_path, 200)
    other = write(tmp_path / "other.jsonl", [grade("q00", "d01", 1, OTHER)])
    with pytest.raises(InputError, match=r"is of another judge: m \(prompt p\), .* are by m \(prompt q\)"):
        karat.evaluate(data.qrels, data.run, judgments=other, calibration=data.calibration)
    with pytest.raises(InputError, match="name the file of labels too"):
        karat.evaluate(data.qrels, data.run, judgments=data.files[0], calibration=data.calibration)
    with pytest.raises(InputError, match="is not a calibration"):
        karat.evaluate(data.qrels, data.run, judgments=data.files, calibration=data.files[0])
    chance = json.loads(Path(data.calibration).read_text()) | {"usable": False}
    Path(tmp_path / "chance.json").write_text(json.dumps(chance))
    with pytest.raises(InputError, match="no better than chance"):
        karat.evaluate(data.qrels, data.run, judgments=data.files, calibration=str(tmp_path / "chance.json"))


def test_a_calibration_goes_from_python_into_figures_and_into_a_file(tmp_path: Path) -> None:
    data = Planted(tmp_path, 200)
    made = karat.calibrate_judge(*data.files)
    made.save(tmp_path / "made.json")
    assert made.as_json()["fingerprint"] == made.fingerprint and made.as_json()["kind"] == "calibration"
    saved = json.loads((tmp_path / "made.json").read_text())
    assert saved | {"made": ""} == made.as_json() | {"made": ""}
    places = (made, tmp_path / "made.json", str(tmp_path / "made.json"))
    results = [
        karat.evaluate(data.qrels, data.run, "precision@10", judgments=data.files, calibration=place)
        for place in places
    ]
    figures = [r.runs[0].by_judge.corrected["precision@10"].interval for r in results if r.runs[0].by_judge is not None]
    assert len(figures) == 3 and figures[0] == figures[1] == figures[2]
    with pytest.raises(UsageError, match="calibration must be a file, or what calibrate_judge returns, found a int"):
        karat.evaluate(data.qrels, data.run, judgments=data.files, calibration=1)


def test_a_calibration_of_other_labels_is_named(tmp_path: Path) -> None:
    """Two samples of 200 of the same pairs: as many labels, and other ones."""
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    one, two = (Planted(folder, 200, seed=seed) for seed, folder in enumerate(folders, start=5))
    notes = [
        "\n".join(
            karat.evaluate(one.qrels, one.run, "precision@10", judgments=one.files, calibration=place).runs[0].notes
        )
        for place in (one.calibration, karat.calibrate_judge(two.files[0], two.files[1]))
    ]
    assert "other labels" not in notes[0]
    assert "the calibration rests on other labels than those named here: 200 labels of pairs, here 200" in notes[1]


def test_labels_that_were_taken_back_are_no_gold_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    ana = Person("ana")
    path = write(tmp_path / "l.jsonl", [Judgment("q1", "d1", g, "0-1", ana, NOON) for g in (1, None, 0)])
    with pytest.raises(InputError, match=r"l\.jsonl:2: takes back a label \(its grade is null\).*leave out this line"):
        karat.evaluate(path, RUN, "precision@4")


def test_labels_by_value_correct_nothing(tmp_path: Path) -> None:
    data = Planted(tmp_path, 200)
    chosen = write(
        tmp_path / "chosen.jsonl", [Judgment("q00", "d01", 1, "0-1", Person("ana"), NOON, drawn=Draw("value"))]
    )
    with pytest.raises(InputError, match="no label of a person on a pair that was drawn at random"):
        karat.evaluate(data.qrels, data.run, judgments=[data.files[0], chosen], calibration=data.calibration)


def test_a_saved_result_holds_what_the_judge_made_of_it(tmp_path: Path) -> None:
    data = Planted(tmp_path, 200)
    metrics = ["precision@10", "ndcg@10", "recall@10"]
    result = karat.evaluate(data.qrels, data.run, metrics, judgments=data.files, calibration=data.calibration)
    result.save(str(tmp_path / "r.json"))
    again = karat.load(str(tmp_path / "r.json"))
    assert again.judge == result.judge and again.fingerprints.judge == result.fingerprints.judge
    assert again.as_json() == result.as_json()
    one, two = result.runs[0].by_judge, again.runs[0].by_judge
    assert one is not None and two is not None
    assert two.corrected["precision@10"].values.tolist() == one.corrected["precision@10"].values.tolist()
    schema = json.loads((ROOT / "docs/schemas/result.schema.json").read_text())
    jsonschema.validate(json.loads((tmp_path / "r.json").read_text()), schema)


def test_terminal_markdown_and_page_show_the_figures_side_by_side(tmp_path: Path) -> None:
    data = Planted(tmp_path, 200)
    files = data.write_inputs()
    flags = ["--judgments", data.files[0], "--judgments", data.files[1], "--calibration", data.calibration]
    metrics = ["-m", "precision@7,ndcg@10,recall@10"]
    places = [str(tmp_path / name) for name in ("r.json", "r.md", "r.html")]
    outputs = [word for pair in zip(("--json", "--markdown", "--html"), places, strict=True) for word in pair]
    out = run_karat("evaluate", *files, *metrics, *flags, *outputs)
    document = json.loads(Path(places[0]).read_text())
    figures = document["runs"][0]["by_judge"]["metrics"]["precision@7"]
    gold = document["runs"][0]["metrics"]["precision@7"]["mean"]
    means = (gold, figures["raw"]["mean"], figures["corrected"]["mean"])
    values = [figure("precision@7", mean).text for mean in means]
    (row,) = [line for line in out.stdout.splitlines() if all(value in line for value in values)]
    assert row.startswith("precision@7")
    assert " to ".join(figure("precision@7", end).text for end in figures["bounds"]) in row
    assert "no corrected ndcg@10: labels of single pairs would leave it biased" in out.stdout
    assert "the judge grades 1,600 pairs that the gold lacks" in out.stdout
    assert "corrected by 200 labels of people" in out.stdout
    page = Path(places[1]).read_text()
    (row,) = [line for line in page.splitlines() if all(value in line for value in values)]
    assert row.startswith("| `precision@7` |")
    (row,) = [line for line in Path(places[2]).read_text().splitlines() if 'data-judged="precision@7"' in line]
    row = row[row.index('data-judged="precision@7"') :].partition("</tr>")[0]
    assert all(f">{value}<" in row for value in values)
    assert "<bdi>no corrected ndcg@10: labels of single pairs" in Path(places[2]).read_text()


def test_every_output_has_the_calibration_of_the_judge(tmp_path: Path) -> None:
    data = Planted(tmp_path, 200)
    files, calibration = data.write_inputs(), json.loads(Path(data.calibration).read_text())
    flags = ["--judgments", data.files[0], "--judgments", data.files[1], "--calibration", data.calibration]
    places = {name: str(tmp_path / f"r.{name}") for name in ("json", "markdown", "html")}
    outputs = [word for name, place in places.items() for word in (f"--{name}", place)]
    out = run_karat("evaluate", *files, "-m", "precision@10", *flags, *outputs)
    held = json.loads(Path(places["json"]).read_text())["judge"]["calibration"]
    assert (held["labelled"], held["judged"], held["made"]) == (200, 1600, calibration["made"])
    rows = {
        "sensitivity": "sensitivity",
        "specificity": "specificity",
        "sensitivity + specificity − 1": "skill",
        "weighted kappa": "weighted_kappa",
    }
    page = Path(places["html"]).read_text()
    for name, key in rows.items():
        one = calibration[key]
        assert held[key] == {"estimate": one["estimate"], "ci": [one["low"], one["high"]], "n": one["n"]}
        values = (f"{one['estimate']:.4f}", f"{one['low']:.3f}, {one['high']:.3f}", f"{one['n']:,}")
        for lines in (out.stdout.splitlines(), Path(places["markdown"]).read_text().splitlines()):
            (row,) = [line for line in lines if all(value in line for value in values)]
            assert row.strip("| ").lstrip("`").startswith(name)
        row = page[page.index(f'data-calibration="{name}"') :].partition("</tr>")[0]
        assert all(value in row for value in values), (row, values)
    for text in (out.stdout, Path(places["markdown"]).read_text(), page):
        assert "Calibration of the judge" in text and "200 of 1,600 pairs labelled by people" in text


def test_a_result_without_a_calibration_has_no_table_of_it(tmp_path: Path, judged: str) -> None:
    result = karat.evaluate(GOLD, RUN, METRICS, judgments=judged)
    one = describe_judged(result)
    assert one is not None and one.calibration is None
    # A result that an older version saved names the judge and its labels, and no more.
    data = Planted(tmp_path, 200)
    karat.evaluate(data.qrels, data.run, "precision@10", judgments=data.files, calibration=data.calibration).save(
        str(tmp_path / "r.json")
    )
    old = json.loads((tmp_path / "r.json").read_text())
    del old["judge"]["calibration"]
    for run in old["runs"]:
        run["record"].pop("completed_gold", None)
    (tmp_path / "old.json").write_text(json.dumps(old))
    again = karat.load(str(tmp_path / "old.json"))
    assert again.judge is not None and (again.judge.labels, again.judge.calibration) == (200, None)
    assert again.runs[0].completed_gold is None


def test_what_holds_for_all_runs_is_said_once(tmp_path: Path) -> None:
    data = Planted(tmp_path, 200)
    runs = {"a": data.run, "b": {q: docs[::-1] for q, docs in data.run.items()}}
    result = karat.evaluate(data.qrels, runs, "precision@10", judgments=data.files, calibration=data.calibration)
    judged = describe_judged(result)
    assert judged is not None and [section.run for section in judged.sections] == ["a", "b"]
    assert all(len(section.lines) == 1 and "for these queries alone" in section.lines[0] for section in judged.sections)
    assert sum("the judge grades" in line for line in judged.lines) == 1


def test_the_config_names_judgments_and_calibration(tmp_path: Path) -> None:
    data = Planted(tmp_path, 200)
    data.write_inputs()
    config = "dataset: {qrels: qrels.txt}\nruns: {sys: run.json}\nmetrics: [precision@10]\n"
    (tmp_path / "karat.yaml").write_text(
        config + "judgments: [judged.jsonl, labels.jsonl]\ncalibration: calibration.json\n"
    )
    out = run_karat("evaluate", "-c", str(tmp_path / "karat.yaml"), "--json", "-")
    assert out.returncode == 0, out.stderr
    document = json.loads(out.stdout)
    assert document["judge"]["labels"] == 200
    assert "corrected" in document["runs"][0]["by_judge"]["metrics"]["precision@10"]
    (tmp_path / "karat.yaml").write_text(config + "judgments: missing.jsonl\n")
    out = run_karat("evaluate", "-c", str(tmp_path / "karat.yaml"))
    assert out.returncode == 2 and "karat.yaml:4" in out.stderr and "missing.jsonl" in out.stderr


def test_judged_grades_feed_false_evidence(tmp_path: Path) -> None:
    """n1 and n2 have no answer: the judge finds d5 relevant to n1, the gold says that d6 is not relevant to n2."""
    gold = {**GOLD, "n2": {"d6": 0}}
    scores = {q: {doc: 1.0 - i / 10 for i, doc in enumerate(docs)} for q, docs in RUN.items()}
    run = {**scores, "n1": {"d4": 0.3, "d5": 0.2}, "n2": {"d6": 0.9}, "n3": {"d7": 0.1}}
    table = {q: {"no_answer": q.startswith("n")} for q in run}
    rows = [grade("n1", "d4", 0), grade("n1", "d5", 1), grade("n2", "d6", 1), grade("q1", "d3", 1)]
    path = write(tmp_path / "j.jsonl", rows)
    metrics = ["false_evidence(threshold=0.5)@2", "false_evidence(threshold=0.5)@1", "precision@4"]
    result = karat.evaluate(gold, run, metrics, judgments=path, queries=table)
    run_result, one = result.runs[0], result.runs[0].by_judge
    assert one is not None and (one.pairs, one.shared, one.disagreements) == (3, 1, 1)
    by_query = dict(zip(run_result.query_ids, one.raw["false_evidence(threshold=0.5)@2"].tolist(), strict=True))
    assert (by_query["n1"], by_query["n2"]) == (1, 0) and np.isnan(by_query["n3"]) and np.isnan(by_query["q1"])
    assert np.nanmean(one.raw["false_evidence(threshold=0.5)@1"]) == 0  # d5 is second
    assert result.mean["false_evidence(threshold=0.5)@2"] == pytest.approx(1 / 3)  # by score, as before: n2 alone
    share = one.judged["false_evidence(threshold=0.5)@2"]
    assert (share.gold, share.both) == ((0 + 1) / 2, 1)
    judged = describe_judged(result)
    assert judged is not None
    assert any("whatever its score (of 2 queries without an answer that have grades)" in line for line in judged.lines)
    result.save(str(tmp_path / "r.json"))
    assert karat.load(str(tmp_path / "r.json")).as_json() == result.as_json()


def test_false_evidence_without_grades_says_so(judged: str) -> None:
    scores = {q: {doc: 1.0 - i / 10 for i, doc in enumerate(docs)} for q, docs in RUN.items()}
    table = {"q1": {}, "q2": {}, "n1": {"no_answer": True}}
    metric = "false_evidence(threshold=0.5)@2"
    run = {**scores, "n1": {"d4": 0.3}}
    one = karat.evaluate(GOLD, run, metric, judgments=judged, queries=table).runs[0].by_judge
    assert one is not None and not one.raw
    assert one.not_raw == {metric: "no query without an answer that the run returns has a grade"}


def sampled_judgments(folder: Path, docs: int, *, seed: int = 3) -> tuple[str, dict[str, dict[str, int]]]:
    """Judgments by a person on pairs that were drawn, more from the top, and the grades of all pairs."""
    rng = np.random.default_rng(seed)
    truth = {
        f"q{q:02}": {f"d{d:03}": int(rng.random() < 0.5 - 0.45 * d / docs) for d in range(docs)} for q in range(60)
    }
    rows = []
    for q, grades in truth.items():
        for place, (doc, value) in enumerate(grades.items()):
            chance, part = (0.6, "top") if place < 10 else (0.25, "rest")
            if rng.random() < chance:
                draw = Draw("random", chance, part)
                rows.append(Judgment(q, doc, value, "0-1", Person("ana"), NOON, drawn=draw))
    return write(folder / "sampled.jsonl", rows), truth


def test_gold_of_known_probabilities_stands_for_all_of_it(tmp_path: Path) -> None:
    path, truth = sampled_judgments(tmp_path, 120)
    metrics = ["precision@10", "recall@10", "map", "ndcg@10", "recall(cap=true)@10", "hit@1"]
    run = {q: list(grades) for q, grades in truth.items()}
    whole = karat.evaluate(truth, run, metrics)
    result = karat.evaluate(path, run, metrics, judgments=path, confidence=0.99)  # one sample: 95% may miss it
    one = result.runs[0].by_judge
    assert one is not None and set(one.sampled) == {"precision@10", "recall@10", "map", "ndcg@10"}
    assert set(one.not_sampled) == {"recall(cap=true)@10"}
    assert all(whole.mean[name] in figure.these for name, figure in one.sampled.items())
    assert whole.mean["precision@10"] > result.ci["precision@10"][1]  # undrawn docs count as irrelevant there
    judged = describe_judged(result)
    assert judged is not None and judged.sections[0].heads[4] == "sampled"
    assert any(line.startswith("the gold is a random sample of") for line in judged.lines)
    result.save(str(tmp_path / "r.json"))
    assert karat.load(str(tmp_path / "r.json")).as_json() == result.as_json()


def test_ratios_are_not_estimated_from_a_few_relevant_docs(tmp_path: Path) -> None:
    path, truth = sampled_judgments(tmp_path, 30)
    run = {q: list(grades) for q, grades in truth.items()}
    one = karat.evaluate(path, run, ["precision@10", "ndcg@10"], judgments=path).runs[0].by_judge
    assert one is not None and set(one.sampled) == {"precision@10"}
    assert "relevant docs per query, and a ratio needs about 10" in one.not_sampled["ndcg@10"]


def test_judgments_beside_gold_are_weighted_and_the_gold_is_certain(tmp_path: Path) -> None:
    """q1 has gold on d1 alone; of three other docs, d2 was drawn with probability 1/3 and is relevant."""
    row = Judgment("q1", "d2", 1, "0-1", Person("ana"), NOON, drawn=Draw("random", 1 / 3))
    path = write(tmp_path / "j.jsonl", [row])
    one = karat.evaluate({"q1": {"d1": 1}}, {"q1": ["d1", "d2"]}, "precision@4", judgments=path).runs[0].by_judge
    assert one is not None and one.sampled["precision@4"].values.tolist() == pytest.approx([(1 + 3) / 4])
    listed = write(tmp_path / "l.jsonl", [grade("q1", "d2", 1)])
    one = karat.evaluate({"q1": {"d1": 1}}, {"q1": ["d1", "d2"]}, "precision@4", judgments=listed).runs[0].by_judge
    assert one is not None and not one.sampled


def test_corrected_figures_are_within_their_bounds_and_gates_see_them(tmp_path: Path) -> None:
    """All docs of the top 10 are relevant, and few have a label: no figure is above 1, and none is without doubt."""
    data = Planted(tmp_path, 60)
    run = {q: sorted(docs, key=lambda d, q=q: -data.truth[q, d]) for q, docs in data.run.items()}
    one = karat.evaluate(data.qrels, {"s": run}, "precision@10", judgments=data.files, calibration=data.calibration)
    one.save(str(tmp_path / "one.json"))
    for result in (one, karat.load(str(tmp_path / "one.json"))):
        judged = result.runs[0].by_judge
        assert judged is not None
        figure, bounds = judged.corrected["precision@10"], judged.bounds["precision@10"]
        assert bounds.low <= figure.these.estimate <= bounds.high + 1e-9
        for some in (figure.these, figure.interval):
            assert 0 <= some.low <= some.estimate <= some.high <= 1 and some.high - some.low > 0.05
        gated = result.runs[0].on_basis("corrected").intervals["precision@10"]
        ends = (figure.interval.estimate, figure.interval.low, figure.interval.high)
        assert (gated.estimate, gated.low, gated.high) == pytest.approx(ends, abs=1e-9)
        assert figure.interval.estimate == pytest.approx(figure.these.estimate, abs=1e-9)
