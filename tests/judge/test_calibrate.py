"""Calibration: what a judge is worth beside people, and when it is refused."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from command import run_karat
from karat.errors import InputError
from karat.judge.calibration import Calibration, calibrate
from karat.judge.judgments import Adjudicator, Judgment, Judgments, ModelJudge, Person, add_judgments, fingerprint_judge
from karat.judge.pairs import Draw, draw_sample
from places import ROOT

NOON = "2026-11-16T12:00:00+00:00"
MODEL = ModelJudge("m", "p")
RANDOM = Draw("random", 0.5)


def by_model(grades: list[int], scale: str = "0-1") -> list[Judgment]:
    return [Judgment(f"q{i % 10}", f"d{i}", grade, scale, MODEL, NOON) for i, grade in enumerate(grades)]


def by_people(grades: dict[int, int], scale: str = "0-1", name: str = "ana", drawn: Draw = RANDOM) -> list[Judgment]:
    return [Judgment(f"q{i % 10}", f"d{i}", g, scale, Person(name), NOON, drawn=drawn) for i, g in grades.items()]


def table(counts: list[list[int]]) -> tuple[list[int], dict[int, int]]:
    """The grades of judge and people whose confusion matrix this is; rows are people's."""
    cells = [(human, judge) for human, row in enumerate(counts) for judge, n in enumerate(row) for _ in range(n)]
    return [judge for _, judge in cells], {i: human for i, (human, _) in enumerate(cells)}


def compare(judge: list[int], people: dict[int, int], scale: str = "0-1") -> Calibration:
    labels = Judgments(tuple(by_people(people, scale)), "labels.jsonl")
    return calibrate(by_model(judge, scale), labels, range(int(scale[2:]) + 1))


def test_figures_of_pairs_that_all_have_a_label() -> None:
    one = compare(*table([[45, 15], [25, 15]]))
    assert one.matrix.counts.tolist() == [[45, 15], [25, 15]]
    assert one.weighted_kappa.estimate == pytest.approx(0.1304, abs=5e-5)
    assert one.discrimination.sensitivity.estimate == pytest.approx(15 / 40)
    assert one.discrimination.specificity.estimate == pytest.approx(45 / 60)
    assert one.relevant.raw == pytest.approx(0.30) and one.relevant.interval.estimate == pytest.approx(0.40)
    assert one.relevant.error == 0  # every pair is known
    assert (one.labelled, one.judged, one.people, one.agreement) == (100, 100, ("ana",), None)


def test_labels_count_for_the_pairs_of_their_judged_grade() -> None:
    # 80 pairs of grade 0, of which 10 are labelled (2 relevant), and 20 of grade 1, all labelled (16 relevant).
    judge = [0] * 80 + [1] * 20
    people = {i: int(i < 2) for i in range(10)} | {80 + i: int(i < 16) for i in range(20)}
    one = compare(judge, people)
    # 80 * .2 + 16 = 32 of 100 pairs are relevant, of which the judge finds 16; it is right on 64 of 68 others.
    assert one.relevant.interval.estimate == pytest.approx(0.32)
    assert one.discrimination.sensitivity.estimate == pytest.approx(0.5)
    assert one.discrimination.specificity.estimate == pytest.approx(64 / 68)
    assert one.matrix.shares.tolist() == [pytest.approx([0.64, 0.04]), pytest.approx([0.16, 0.16])]


def test_corrected_shares_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(7)
    human = (rng.random(2000) < 0.4).astype(int)
    right = rng.random(2000) < np.where(human == 1, 0.95, 0.75)
    judge = np.where(right, human, 1 - human).tolist()
    rows = by_model(judge)
    hits = raw_hits = 0
    for seed in range(300):
        pairs = draw_sample(rows, 200, seed=seed)
        people = tuple(
            Judgment(*pair.ids, int(human[int(pair.doc_id[1:])]), "0-1", Person("ana"), NOON, drawn=pair.drawn)
            for pair in pairs
        )
        one = calibrate(rows, Judgments(people, "l"), range(2))
        hits += human.mean() in one.relevant.interval
        raw_hits += one.relevant.raw in one.relevant.interval
    assert 0.91 <= hits / 300 <= 0.99  # 95%, standard error 1.3%
    assert raw_hits / 300 < 0.2  # the judge alone says .53


def test_a_judge_by_chance_is_refused() -> None:
    one = compare(*table([[30, 30], [20, 22]]))
    assert one.refusal is not None and "no better than chance" in one.refusal
    assert compare(*table([[50, 10], [8, 40]])).refusal is None


def test_labels_by_value_never_calibrate() -> None:
    judge, people = table([[40, 10], [10, 40]])
    odd = {i: grade for i, grade in people.items() if i % 2}
    rows = (*by_people(odd, drawn=Draw("value")), *by_people({i: g for i, g in people.items() if i not in odd}))
    one = calibrate(by_model(judge), Judgments(rows, "l"), range(2))
    assert (one.labelled, one.left_out) == (50, 50)
    with pytest.raises(InputError, match="was drawn at random; label a sample"):
        calibrate(by_model(judge), Judgments(tuple(by_people(people, drawn=Draw("listed"))), "l"), range(2))


def test_what_cannot_be_compared_is_refused() -> None:
    judge, people = table([[40, 10], [10, 40]])
    with pytest.raises(InputError, match="ana labelled on the scale 0-3, the judge on 0-1"):
        calibrate(by_model(judge), Judgments(tuple(by_people(people, "0-3")), "l"), range(2))
    zeros = {i: grade for i, grade in people.items() if judge[i] == 0}
    with pytest.raises(InputError, match="none of the 50 pairs of judged grade 1 has a label"):
        compare(judge, zeros)


def test_several_people_have_a_median_and_an_alpha() -> None:
    judge = [0, 1, 2, 3] * 10
    rows = [
        *by_people(dict(enumerate(judge)), "0-3", "ana"),
        *by_people(dict(enumerate(judge)), "0-3", "ben"),
        *by_people(dict.fromkeys(range(40), 0), "0-3", "cleo"),
    ]
    one = calibrate(by_model(judge, "0-3"), Judgments(tuple(rows), "l"), range(4))
    assert one.weighted_kappa.estimate == pytest.approx(1)  # the median is right
    assert one.people == ("ana", "ben", "cleo") and one.agreement is not None
    assert one.agreement.alpha.estimate < 0.6 and (one.agreement.pairs, one.agreement.disputed) == (40, 30)
    kappas = {(k.first, k.second): k.kappa.estimate for k in one.agreement.kappas}
    assert kappas["ana", "ben"] == pytest.approx(1) and kappas["ana", "cleo"] == pytest.approx(0)


def test_an_adjudicated_grade_counts_and_is_no_label() -> None:
    judge = [0, 1, 2, 3] * 10
    wrong = {i: 3 - grade for i, grade in enumerate(judge)}
    labels = by_people(dict(enumerate(judge)), "0-3", "ana") + by_people(wrong, "0-3", "ben")
    settled = [Judgment(*row.ids, row.grade, "0-3", Adjudicator("cleo"), NOON, drawn=RANDOM) for row in labels[:40]]
    one = calibrate(by_model(judge, "0-3"), Judgments((*settled, *labels), "l"), range(4))
    assert one.weighted_kappa.estimate == pytest.approx(1) and one.people == ("ana", "ben", "cleo")
    assert one.agreement is not None and (one.agreement.disputed, one.agreement.adjudicated) == (40, 40)
    assert len(one.agreement.kappas) == 1 and one.agreement.alpha.estimate < 0
    before = calibrate(by_model(judge, "0-3"), Judgments(tuple(labels), "l"), range(4))
    assert before.weighted_kappa.estimate < 0.9  # the lower of the two labels counts


def test_bias_is_shown_by_segment() -> None:
    # The judge gives docs of odd queries one grade more than people.
    people = {i: i % 3 for i in range(60)}
    judge = [people[i] + (i % 2) for i in range(60)]
    segments = {"kind": {f"q{n}": "odd" if n % 2 else "even" for n in range(10)}}
    labels = Judgments(tuple(by_people(people, "0-3")), "l")
    one = calibrate(by_model(judge, "0-3"), labels, range(4), segments=segments)
    found = {(b.by, b.value): (b.pairs, b.error.estimate, b.small) for b in one.biases}
    assert found["kind", "even"] == (30, 0.0, False) and found["kind", "odd"] == (30, 1.0, False)
    assert one.systems is None


def test_a_judge_that_likes_long_docs_is_seen(tmp_path: Path) -> None:
    # Among docs of equal grade by people, a doc twice as long gets one grade more; ranks do not matter.
    people = {i: i % 2 for i in range(120)}
    lengths = {i: 100 if i % 4 < 2 else 200 for i in people}
    judge = [people[i] + (lengths[i] == 200) for i in people]
    rows = by_model(judge, "0-3") + by_people(people, "0-3")
    add_judgments(str(tmp_path / "judged.jsonl"), rows)
    docs = (json.dumps({"_id": f"d{i}", "text": "x" * length}) for i, length in lengths.items())
    (tmp_path / "corpus.jsonl").write_text("\n".join(docs) + "\n")
    ranks = {i: i // 10 % 3 + 1 for i in people}
    (tmp_path / "a.run").write_text("".join(f"q{i % 10} Q0 d{i} {r} {9 - r} t\n" for i, r in ranks.items()))
    command = "judge calibrate -j judged.jsonl --corpus corpus.jsonl --run a.run --json - --markdown c.md"
    done = run_karat(*command.split(), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    saved = json.loads(done.stdout)
    jsonschema.validate(saved, json.loads((ROOT / "docs/schemas/calibration.schema.json").read_text()))
    length, rank = saved["traits"]
    assert (length["trait"], length["pull"]["estimate"]) == ("length", pytest.approx(1))
    assert rank["trait"] == "rank" and rank["pull"]["low"] < 0 < rank["pull"]["high"]
    text = (tmp_path / "c.md").read_text()
    assert "Per doubling of length, the judge's grade changes by +1.0000" in text
    assert text.count("not significant") == 1


def test_the_command_shows_saves_and_refuses(tmp_path: Path) -> None:
    judge, people = table([[50, 10], [8, 40]])
    add_judgments(str(tmp_path / "judged.jsonl"), by_model(judge))
    add_judgments(str(tmp_path / "labels.jsonl"), by_people(people))
    (tmp_path / "queries.jsonl").write_text("".join(f'{{"_id": "q{n}", "kind": "k{n % 2}"}}\n' for n in range(10)))
    (tmp_path / "a.run").write_text("".join(f"q{i % 10} Q0 d{i} 0 {200 - i} t\n" for i in range(40)))
    command = (
        "judge calibrate -j judged.jsonl --labels labels.jsonl -o c.json --queries queries.jsonl --by kind --run a.run"
    )
    done = run_karat(*command.split(), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for text in (
        "108 pairs of 108 labelled by ana",
        "sensitivity",
        "kind = k0",
        "Mean grade of the top 10",
        "weighted kappa     0.66",
    ):
        assert text in done.stdout, done.stdout
    saved = json.loads((tmp_path / "c.json").read_text())
    jsonschema.validate(saved, json.loads((ROOT / "docs/schemas/calibration.schema.json").read_text()))
    schema = json.loads((ROOT / "docs/schemas/judgment.schema.json").read_text())
    for name in ("judged", "labels"):
        jsonschema.validate(json.loads((tmp_path / f"{name}.jsonl").read_text().splitlines()[0]), schema)
    assert saved["fingerprint"] == fingerprint_judge(MODEL, "0-1") and saved["usable"] is True
    assert saved["counts"] == [[50, 10], [8, 40]] and saved["sensitivity"]["estimate"] == pytest.approx(40 / 48)
    done = run_karat(*command.replace("--by kind", "--by kin").split(), cwd=tmp_path)
    assert done.returncode == 2 and "did you mean 'kind'?" in done.stderr
    judge, people = table([[30, 30], [20, 22]])
    add_judgments(str(tmp_path / "chance.jsonl"), by_model(judge) + by_people(people))
    done = run_karat("judge", "calibrate", "-j", "chance.jsonl", "-o", "d.json", cwd=tmp_path)
    assert done.returncode == 2 and "m (prompt p) is no better than chance" in done.stderr
    assert "sensitivity" in done.stdout and not (tmp_path / "d.json").exists()
