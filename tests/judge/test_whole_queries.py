"""Whole queries: drawn with known probability, labelled in full, and what they correct."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import karat
from command import run_karat
from karat.errors import InputError, UsageError
from karat.judge.calibration import calibrate
from karat.judge.judgments import Judgment, Judgments, ModelJudge, Person, add_judgments, read_judgments
from karat.judge.pairs import Draw, draw_queries, read_pairs
from places import ROOT
from planted_judge import MODEL, NOON, Planted

METRICS = ["precision@10", "ndcg@10"]
FALSE_EVIDENCE = "false_evidence(threshold=0)@3"


def graded(query: int, doc: int, grade: int = 0) -> Judgment:
    return Judgment(f"q{query}", f"d{doc}", grade, "0-3", MODEL, NOON)


def test_queries_are_drawn_whole_and_as_often_as_the_probability_says() -> None:
    rows = [graded(q, d) for q in range(8) for d in range(q + 1)]  # 1 to 8 pairs each
    counts: Counter[str] = Counter()
    for seed in range(800):
        pairs = draw_queries(rows, 2, seed=seed)
        own = Counter(pair.query_id for pair in pairs)
        assert len(own) == 2 and all(n == int(q[1:]) + 1 for q, n in own.items())
        assert {pair.drawn for pair in pairs} == {Draw("random", 0.25, unit="query")}
        counts.update(own.keys())
    assert all(abs(n - 200) < 5 * (800 * 0.25 * 0.75) ** 0.5 for n in counts.values()) and len(counts) == 8
    assert {pair.drawn.probability for pair in draw_queries(rows, 99)} == {1.0}
    with pytest.raises(UsageError, match="draw at least 2"):
        draw_queries(rows, 1)


def test_the_command_draws_queries_or_pairs_and_not_both(tmp_path: Path) -> None:
    add_judgments(str(tmp_path / "j.jsonl"), [graded(q, d, d % 2 * 3) for q in range(10) for d in range(5)])
    done = run_karat("judge", "sample", "--queries", "3", "-j", "j.jsonl", "-o", "s.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "s.jsonl: 15 pairs to label, all that are judged of 3 of 10 queries" in done.stdout
    assert {pair.drawn for pair in read_pairs(str(tmp_path / "s.jsonl")).rows} == {Draw("random", 0.3, unit="query")}
    for numbers in ((), ("20", "--queries", "3")):
        done = run_karat("judge", "sample", *numbers, "-j", "j.jsonl", "-o", "t.jsonl", cwd=tmp_path)
        assert done.returncode == 2 and "expected a number of pairs, or of queries" in done.stderr


def evaluate(data: Planted, metrics: list[str] = METRICS) -> karat.Result:
    return karat.evaluate(data.qrels, data.run, metrics, judgments=data.files, calibration=data.calibration)


def test_whole_queries_correct_ndcg_and_precision(tmp_path: Path) -> None:
    data = Planted(tmp_path, 30, whole=True)
    one = evaluate(data).runs[0].by_judge
    truth = karat.evaluate(data.full_qrels, data.run, METRICS).mean
    assert one is not None and not one.not_corrected
    for metric in METRICS:
        corrected, raw = one.corrected[metric], one.raw[metric].mean()
        assert truth[metric] in corrected.these and truth[metric] in corrected.interval, metric
        assert raw not in corrected.these and corrected.these.n == 30
        assert corrected.values.mean() == pytest.approx(corrected.interval.estimate)


def test_figures_are_exact_where_every_query_is_labelled(tmp_path: Path) -> None:
    data = Planted(tmp_path, 80, whole=True)
    one = evaluate(data).runs[0].by_judge
    truth = karat.evaluate(data.full_qrels, data.run, METRICS).mean
    assert one is not None
    for metric in METRICS:
        assert one.corrected[metric].interval.estimate == pytest.approx(truth[metric])


def test_queries_that_are_labelled_in_part_correct_nothing(tmp_path: Path) -> None:
    data = Planted(tmp_path, 30, whole=True)
    lines = Path(data.files[1]).read_text().splitlines(keepends=True)
    Path(data.files[1]).write_text("".join(lines[1:]))
    one = evaluate(data).runs[0].by_judge
    assert one is not None and not one.corrected
    assert {why.partition(",")[0] for why in one.not_corrected.values()} == {
        "1 pair of queries that were drawn whole has no label"
    }
    rows = [row for row in read_judgments(data.files[0]).rows if isinstance(row.by, ModelJudge)]
    with pytest.raises(InputError, match="1 pair of queries that were drawn whole has no label"):
        calibrate(rows, read_judgments(data.files[1]), range(2))


def test_pairs_correct_precision_and_whole_queries_the_rest(tmp_path: Path) -> None:
    data = Planted(tmp_path, 200)
    alone = evaluate(data).runs[0].by_judge
    assert alone is not None and "karat judge sample --queries N" in alone.not_corrected["ndcg@10"]
    # Whole queries are labelled into the same file later; pairs that have a label are not asked about again.
    rows = [row for row in read_judgments(data.files[0]).rows if isinstance(row.by, ModelJudge)]
    earlier = {row.ids for row in read_judgments(data.files[1]).rows}
    pairs = draw_queries(rows, 30, seed=1)
    assert any(pair.ids in earlier for pair in pairs)
    people = [
        Judgment(*pair.ids, data.truth[pair.ids], "0-1", Person("ana"), NOON, drawn=pair.drawn)
        for pair in pairs
        if pair.ids not in earlier
    ]
    add_judgments(data.files[1], people)
    both = evaluate(data).runs[0].by_judge
    assert both is not None and set(both.corrected) == set(METRICS)
    assert both.corrected["precision@10"].these == alone.corrected["precision@10"].these
    truth = karat.evaluate(data.full_qrels, data.run, METRICS).mean
    assert truth["ndcg@10"] in both.corrected["ndcg@10"].these and both.corrected["ndcg@10"].these.n == 30


def test_false_evidence_is_corrected_by_whole_queries(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    queries = [f"n{i}" for i in range(60)]
    truth = {(q, f"d{d}"): int(rng.random() < 0.15) for q in queries for d in range(3)}
    rows = [Judgment(*ids, max(g, int(rng.random() < 0.2)), "0-1", MODEL, NOON) for ids, g in truth.items()]
    gold = [Judgment("q1", f"d{d}", d % 2, "0-1", MODEL, NOON) for d in range(4)]
    people = [
        Judgment(*pair.ids, truth[pair.ids], "0-1", Person("ana"), NOON, drawn=pair.drawn)
        for pair in draw_queries(rows, 40)
    ]
    add_judgments(str(tmp_path / "j.jsonl"), [*rows, *gold, *people])
    log = [{"query_id": q, "topk": [{"doc_id": f"d{d}", "score": 3 - d} for d in range(3)]} for q in ("q1", *queries)]
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    table = [{"query_id": "q1", "text": "a"}, *({"query_id": q, "text": "b", "no_answer": True} for q in queries)]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in table))
    (tmp_path / "qrels.json").write_text(json.dumps({"q1": {"d1": 1}}))
    done = run_karat("judge", "calibrate", "-j", "j.jsonl", "-o", "c.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = karat.evaluate(
        str(tmp_path / "qrels.json"),
        str(tmp_path / "run.jsonl"),
        [FALSE_EVIDENCE],
        queries=str(tmp_path / "queries.jsonl"),
        judgments=str(tmp_path / "j.jsonl"),
        calibration=str(tmp_path / "c.json"),
    )
    one = result.runs[0].by_judge
    assert one is not None
    share = np.mean([any(truth[q, f"d{d}"] for d in range(3)) for q in queries])
    corrected = one.corrected[FALSE_EVIDENCE]
    assert share in corrected.these and np.nanmean(one.raw[FALSE_EVIDENCE]) > share + 0.1


def test_calibration_knows_that_pairs_of_a_query_are_alike() -> None:
    rng = np.random.default_rng(8)
    level = {f"q{q}": int(rng.integers(0, 2)) for q in range(60)}
    truth = {(q, f"d{d}"): level[q] + int(rng.integers(0, 2)) for q in level for d in range(20)}
    rows = [Judgment(*ids, min(g + int(rng.integers(0, 3)), 3), "0-3", MODEL, NOON) for ids, g in truth.items()]
    mean, holds, naive, ratios = np.mean(list(truth.values())), 0, 0, []
    for seed in range(200):
        pairs = draw_queries(rows, 15, seed=seed)
        designs = [Draw("random", 0.25, unit=unit) for unit in ("query", "pair")]
        one, other = (
            calibrate(
                rows,
                Judgments(
                    tuple(Judgment(*p.ids, truth[p.ids], "0-3", Person("ana"), NOON, drawn=drawn) for p in pairs), "l"
                ),
                range(4),
            ).mean_grade
            for drawn in designs
        )
        holds, naive = holds + (mean in one.interval), naive + (mean in other.interval)
        ratios.append((one.interval.high - one.interval.low) / (other.interval.high - other.interval.low))
    assert 0.90 <= holds / 200 <= 0.99  # 95%, standard error 1.5%
    assert naive / 200 < 0.85 and np.mean(ratios) > 1.4  # as if the pairs had been drawn one by one


def test_the_larger_of_two_samples_calibrates_and_the_command_says_so(tmp_path: Path) -> None:
    data = Planted(tmp_path, 30, whole=True)
    drawn = {row.query_id for row in read_judgments(data.files[1]).rows}
    others = sorted(set(data.qrels) - drawn)[:2]
    extra = [Judgment(q, "d01", 1, "0-1", Person("ben"), NOON, drawn=Draw("random", 0.5)) for q in others]
    add_judgments(data.files[1], extra)
    done = run_karat(
        "judge", "calibrate", "-j", data.files[0], "--labels", data.files[1], "--json", "c.json", cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "600 pairs of 1,600, all of the queries that were drawn, labelled by ana" in done.stdout
    assert "labels of 2 pairs left out" in done.stdout
    saved = json.loads((tmp_path / "c.json").read_text())
    jsonschema.validate(saved, json.loads((ROOT / "docs/schemas/calibration.schema.json").read_text()))
    assert saved["drawn"] == "query"
