"""`karat diagnose --judgments`: which findings rest on gold + judge, which on the gold alone, and that they say so."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import karat
from command import run_karat
from karat.judge.judgments import Judgment, add_judgments
from karat.results.other_lists import drop_newer
from places import ROOT
from planted_judge import MODEL, NOON

SCHEMA = json.loads((ROOT / "docs/schemas/diagnosis.schema.json").read_text())
N = 40
DEPTH = 60
BY = "m (prompt p)"


@dataclass
class Project:
    """40 queries with two relevant docs at these ranks of the pool, fillers elsewhere, and a judge of some fillers."""

    folder: Path
    relevant: tuple[int, int]
    judged: Callable[[int], int | None]
    """By number of a filler: the judge's grade."""
    gold: int = 0
    """How many of the first fillers the gold judges not relevant."""
    reranked: tuple[int, int] | None = None
    newer: tuple[int, ...] = ()
    """Ranks of docs that are newer than as_of."""
    scale: str = "0-2"

    def __post_init__(self) -> None:
        names = [f"f{i}" for i in range(DEPTH)]
        lines, gold, rows = [], {}, []
        for q in (f"q{i:02d}" for i in range(N)):
            gold[q] = {f"{q}a": 2, f"{q}b": 1} | {f"{q}{name}": 0 for name in names[: self.gold]}
            stages = {"retrieve": self._order(q, self.relevant)}
            if self.reranked is not None:
                stages["rerank"] = self._order(q, self.reranked)
            top = [
                {"rank": r, "doc_id": doc, "doc_version": "2025-07-01" if r in self.newer else "2025-01-01"}
                for r, doc in enumerate(stages.get("rerank", stages["retrieve"])[:10], start=1)
            ]
            lines.append({"query_id": q, "topk": top, "stages": stages})
            grades = [(name, self.judged(i)) for i, name in enumerate(names)]
            rows += [Judgment(q, f"{q}{name}", g, self.scale, MODEL, NOON) for name, g in grades if g is not None]
        queries = [{"_id": line["query_id"], "text": "?", "as_of": "2025-06-01"} for line in lines]
        for name, content in (("log.jsonl", lines), ("queries.jsonl", queries)):
            (self.folder / name).write_text("".join(json.dumps(line) + "\n" for line in content))
        (self.folder / "gold.json").write_text(json.dumps(gold))
        add_judgments(self.judgments, rows)

    def _order(self, query: str, places: tuple[int, int]) -> list[str]:
        wanted = dict(zip(places, (f"{query}a", f"{query}b"), strict=True))
        fillers = (f"{query}f{i}" for i in range(DEPTH))
        return [wanted.get(rank) or next(fillers) for rank in range(1, DEPTH + 1)]

    @property
    def judgments(self) -> str:
        return str(self.folder / "judged.jsonl")

    @property
    def files(self) -> tuple[str, str]:
        return str(self.folder / "gold.json"), str(self.folder / "log.jsonl")

    @property
    def queries(self) -> str:
        return str(self.folder / "queries.jsonl")

    def alone(self, **options: Any) -> karat.Diagnosis:
        """By the gold alone."""
        return karat.diagnose(*self.files, queries=self.queries, **options)

    def by_judge(self, **options: Any) -> karat.Diagnosis:
        return self.alone(judgments=self.judgments, **options)

    def evaluate(self, metrics: list[str]) -> karat.Result:
        return karat.evaluate(*self.files, metrics, queries=self.queries, judgments=self.judgments, details=True)


def codes(diagnosis: karat.Diagnosis) -> list[str]:
    return [finding.code for finding in diagnosis.findings]


def test_gold_is_thin_where_neither_gold_nor_judge_grades_the_top(tmp_path: Path) -> None:
    project = Project(tmp_path, (1, 2), lambda filler: 0 if filler < 2 else None, gold=1)
    (alone,), (both,) = project.alone().findings, project.by_judge().findings
    assert alone.code == both.code == "thin-gold"
    assert (alone.evidence[0].interval.estimate, alone.evidence[0].judge) == (pytest.approx(0.3), "")
    # Two relevant docs and two fillers of ten; of the top 5, four, of which two are relevant.
    assert (both.evidence[0].interval.estimate, both.evidence[0].judge) == (pytest.approx(0.4), BY)
    assert both.evidence[1].interval.estimate == pytest.approx(0.8) and both.evidence[1].judge == BY
    assert str(both.evidence[0]).startswith(f"judged@10 with grades by {BY} 0.400")
    assert both.weight == pytest.approx(0.2 * 0.5)


def test_a_judge_of_the_whole_top_makes_up_for_thin_gold(tmp_path: Path) -> None:
    project = Project(tmp_path, (1, 2), lambda filler: 0)
    assert codes(project.by_judge()) == []
    (judged,) = (one for one in project.by_judge().measured if one.value == "judged@10")
    assert (judged.interval.estimate, judged.judge) == (1.0, BY)


def test_gold_without_irrelevant_docs_says_what_is_judged_once_a_judge_does(tmp_path: Path) -> None:
    project = Project(tmp_path, (1, 2), lambda filler: 0 if filler == 0 else None)
    assert "thin-gold" in project.alone().unchecked and "thin-gold" not in project.by_judge().unchecked
    assert codes(project.by_judge()) == ["thin-gold"]


def test_docs_that_the_judge_finds_relevant_are_not_distractors(tmp_path: Path) -> None:
    # Relevant at 1 and 4; the gold judges five fillers, the judge those at ranks 2 and 3.
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    good = Project(tmp_path / "a", (1, 4), lambda filler: 1 if filler < 2 else 0)
    bad = Project(tmp_path / "b", (1, 4), lambda filler: 0)
    assert codes(good.by_judge()) == []
    (finding,) = bad.by_judge().findings
    assert finding.code == "distractors"
    by = {one.value.partition(" of what")[0]: one.judge for one in finding.evidence}
    assert by == {"recall(cap=true)@10": "", "precision at R": BY, "mrr": "", "precision@5": BY}
    assert finding.weight == pytest.approx(0.5)


def test_a_loss_is_a_difference_of_one_basis(tmp_path: Path) -> None:
    # Of two relevant docs one is at 1, the other out of the top 10. The judge adds one at 3: of two places at the top
    # one is filled, and the top 10 could fill both.
    project = Project(tmp_path, (1, 12), lambda filler: int(filler == 1))
    limits = {"recall@10.high": 0.4}
    (finding,) = (f for f in project.by_judge(thresholds=limits).findings if f.code == "distractors")
    assert finding.evidence[0].interval.estimate == pytest.approx(0.5)  # recall by the gold
    assert finding.weight == pytest.approx(1.0 - 0.5)


def test_a_rule_of_the_gold_alone_stays_so_and_is_left_out_where_that_is_thin(tmp_path: Path) -> None:
    # Relevant at 4 and 5: the first three are not relevant by the gold, or not judged by it.
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    known = Project(tmp_path / "a", (4, 5), lambda filler: 1 if filler < 3 else 0, gold=8)
    finding, alone = (next(f for f in d.findings if f.code == "order") for d in (known.by_judge(), known.alone()))
    assert finding == alone and not any(one.judge for one in finding.evidence)
    thin = Project(tmp_path / "b", (4, 5), lambda filler: 1 if filler < 3 else 0, gold=1)
    diagnosis = thin.by_judge()
    assert "order" not in codes(diagnosis) and "thin-gold" not in codes(diagnosis)
    assert diagnosis.unchecked["order"] == "rests on the gold alone, which judges too few docs of the top 10"


def test_the_reranker_is_judged_by_the_judge_too(tmp_path: Path) -> None:
    # It moves the gold from the top to 4 and 5; what it moves up is relevant for the judge, and nothing below is.
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    options: dict[str, Any] = {"relevant": (1, 2), "reranked": (4, 5)}
    bad = Project(tmp_path / "a", judged=lambda filler: 0, **options)
    finding = bad.by_judge().findings[0]
    assert finding.code == "reranker" and finding.evidence[0].judge == BY
    assert [one.judge for one in finding.evidence] == [BY, "", ""]
    good = Project(tmp_path / "b", judged=lambda filler: 2 if filler < 3 else 0, **options)
    assert "reranker" in codes(good.alone()) and "reranker" not in codes(good.by_judge())


def test_a_saved_result_says_what_the_log_says(tmp_path: Path) -> None:
    project = Project(tmp_path, (1, 4), lambda filler: filler % 2 if filler < 20 else None, reranked=(2, 7))
    fresh = project.by_judge()
    assert fresh.judge is not None and fresh.judge.label == BY
    result = project.evaluate(["recall@10"])
    path = str(tmp_path / "r.json")
    result.save(path)
    assert karat.diagnose(result).as_json() == fresh.as_json()
    assert karat.diagnose(path).as_json() == fresh.as_json()
    jsonschema.validate(fresh.as_json(), SCHEMA)
    jsonschema.validate(
        json.loads(Path(path).read_text()), json.loads((ROOT / "docs/schemas/result.schema.json").read_text())
    )
    out = run_karat("diagnose", path, "--json", "-")
    assert json.loads(out.stdout) == fresh.as_json()
    out = run_karat("diagnose", path, "--judgments", project.judgments)
    assert out.returncode == 2 and "a saved result brings its own judgments" in out.stderr


def test_values_are_those_that_evaluate_calls_gold_and_judge(tmp_path: Path) -> None:
    project = Project(tmp_path, (1, 4), lambda filler: filler % 3 if filler < 6 else None)
    run = project.evaluate(["precision@5", "ndcg@10"]).runs[0]
    measured = {one.value: one for one in project.by_judge().measured}
    assert measured["ndcg@10"].interval.estimate == pytest.approx(run.on_basis("raw").mean["ndcg@10"])
    assert measured["ndcg@10"].judge == BY and measured["mrr"].judge == ""
    assert run.mean["ndcg@10"] != pytest.approx(run.on_basis("raw").mean["ndcg@10"])


def test_newer_docs_count_neither_in_the_gold_nor_for_the_judge(tmp_path: Path) -> None:
    # Ranks 2 and 3 are newer than as_of and relevant for the judge: without them the second relevant doc is at 4.
    project = Project(tmp_path, (1, 6), lambda filler: 2 if filler < 2 else 0, newer=(2, 3))
    diagnosis = project.by_judge()
    assert set(codes(diagnosis)) == {"time-filter", "distractors"}
    (finding,) = (f for f in diagnosis.findings if f.code == "distractors")
    assert "newer than as_of" in finding.scope
    assert finding.evidence[1].interval.estimate == pytest.approx(0.5) and finding.evidence[1].judge == BY
    result = project.evaluate(["precision@5"])
    assert result.queries is not None and result.runs[0].by_judge is not None
    dropped = drop_newer(result.runs[0], result.queries)
    assert dropped.by_judge is None and dropped.completed_gold is not None
    assert dropped.completed_gold.qrels.for_query("q00")["q00f0"] == 0


def test_grades_of_another_scale_leave_ndcg_to_the_gold(tmp_path: Path) -> None:
    project = Project(tmp_path, (1, 4), lambda filler: 0, scale="0-1")
    diagnosis = project.by_judge()
    assert diagnosis.own_notes == (
        f"Grades by {BY} count where the gold has none, in precision@k, judged@k; all else rests on the gold alone",
        "ndcg rests on the gold alone: the gold has grades up to 2, the judge up to 1; --binary makes both 0 and 1",
    )
    assert next(one for one in diagnosis.measured if one.value == "ndcg@10").judge == ""


def test_a_result_that_lacks_the_grades_says_so(tmp_path: Path) -> None:
    project = Project(tmp_path, (1, 4), lambda filler: 1)
    result = project.evaluate(["ndcg@10"])
    old = replace(result, runs=tuple(replace(run, completed_gold=None) for run in result.runs))
    diagnosis = karat.diagnose(old)
    assert codes(diagnosis) == codes(project.alone())
    assert diagnosis.own_notes[0].startswith(
        f"The result does not hold the grades of {BY}: all findings rest on the gold"
    )


def test_terminal_and_page_say_whose_grades_count(tmp_path: Path) -> None:
    project = Project(tmp_path, (1, 4), lambda filler: 0)
    out = run_karat("diagnose", *project.files, "--judgments", project.judgments, "--misses", "-")
    assert out.returncode == 0, out.stderr
    assert f"precision at R of what the pool holds with grades by {BY} 0.500" in out.stdout
    note = f"Grades by {BY} count where the gold has none, in precision@k, judged@k, ndcg@k; all else"
    assert note in out.stdout
    path = tmp_path / "r.html"
    run_karat("evaluate", *project.files, "--judgments", project.judgments, "--html", str(path))
    page = path.read_text()
    assert f"precision at R of what the pool holds with grades by {BY} 0.500" in page and note in page
