"""`karat diagnose`: every rule on a small case and not on its neighbour, planted faults, what is lacking, misses."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import numpy as np
import pytest

import karat
from command import run_karat
from karat.report import misses as misses_view
from karat.report.terminal.diagnose import show
from karat.verbs.diagnose.misses import misses
from karat.verbs.diagnose.rules import BY_CODE, RULES, THRESHOLDS, TIME
from karat.verbs.diagnose.signals import Signals
from karat.verbs.diagnose.view import View
from places import ROOT

SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/schemas/diagnosis.schema.json").read_text()))
N = 40


def bench(name: str) -> ModuleType:
    """A module of bench/."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "bench" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


# --- Small cases ----------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """40 queries with two relevant chunks each, a pool of 60, and a top 10; a function may change each query."""

    first: Callable[[int], tuple[int, ...]] = lambda q: (1, 2)
    """The ranks of the two gold chunks in the pool; none where they are not there."""
    reranked: Callable[[int], tuple[int, ...]] | None = None
    """The same after reranking; there is no such stage where it is None."""
    instead: bool = False
    """Whether another chunk of the gold doc stands where the gold chunk is not."""
    judged: int = 10
    """How many of the first fillers are judged not relevant."""
    route: Callable[[int], str] = lambda q: "faq"
    language: Callable[[int], str] = lambda q: "en"
    version: Callable[[int, int], str] = lambda q, rank: "2025-01-01"
    latency: Callable[[int], dict[str, float]] = lambda q: {"retrieve": 30.0, "rerank": 30.0 + q % 5}
    retrieved: Callable[[int], bool] = lambda q: True
    """Whether the gate lets a query retrieve; without that all its lists are empty."""
    needed: Callable[[int], bool] = lambda q: True
    drop: tuple[str, ...] = ()
    """Fields of the log's lines that are left out."""
    fields: tuple[str, ...] = ("language", "as_of", "expected_source", "needs_retrieval")
    n: int = N
    relevant: Callable[[int], bool] = lambda q: True
    """Whether the gold chunks of a query have a grade above 0."""
    lines: Callable[[int], bool] = lambda q: True
    """Whether a query has a line in the log."""
    gold: dict[str, dict[str, int]] = field(default_factory=dict)

    def listed(self, q: int, places: tuple[int, ...]) -> list[str]:
        wanted = dict(zip(places, (f"g{q}a#0", f"g{q}b#0"), strict=False))
        if self.instead and not places:
            wanted = {1: f"g{q}a#1", 2: f"g{q}b#1"}
        fillers = (f"f{q}x{i}#0" for i in range(100))
        return [wanted.get(rank) or next(fillers) for rank in range(1, 61)]

    def write(self, folder: Path) -> tuple[str, str, str]:
        lines, rows, gold = [], [], {}
        for q in range(self.n):
            name = f"q{q:02d}"
            grades = (2, 1) if self.relevant(q) else (0, 0)
            gold[name] = dict(zip((f"g{q}a#0", f"g{q}b#0"), grades, strict=True)) | {
                f"f{q}x{i}#0": 0 for i in range(self.judged)
            }
            pool = self.listed(q, self.first(q))
            stages = {"retrieve": pool}
            final = pool
            if self.reranked is not None:
                final = stages["rerank"] = self.listed(q, self.reranked(q))
            top = [
                {"rank": r, "chunk_id": c, "doc_id": c.split("#")[0], "doc_version": self.version(q, r)}
                for r, c in enumerate(final[:10], start=1)
            ]
            line = {
                "query_id": name,
                "topk": top,
                "stages": stages,
                "latency_ms": self.latency(q),
                "route": self.route(q),
                "retrieved": self.retrieved(q),
            }
            if not self.retrieved(q):
                line |= {"topk": [], "stages": dict.fromkeys(stages, ())}
            if self.lines(q):
                lines.append({k: v for k, v in line.items() if k not in self.drop})
            known = {"language": self.language(q), "as_of": "2025-06-01", "expected_source": "faq"}
            known |= {} if self.needed(q) else {"needs_retrieval": False}
            rows.append({"_id": name, "text": f"question {q}", **{k: v for k, v in known.items() if k in self.fields}})
        for file, listed in (("log.jsonl", lines), ("queries.jsonl", rows)):
            (folder / file).write_text("".join(json.dumps(x) + "\n" for x in listed))
        (folder / "gold.json").write_text(json.dumps(gold))
        return str(folder / "gold.json"), str(folder / "log.jsonl"), str(folder / "queries.jsonl")

    def diagnose(self, folder: Path, **options: Any) -> karat.Diagnosis:
        gold, log, queries = self.write(folder)
        return karat.diagnose(gold, log, queries=queries, **options)


def half(there: tuple[int, ...], otherwise: tuple[int, ...] = ()) -> Callable[[int], tuple[int, ...]]:
    """One place for every second query, another for the rest."""
    return lambda q: there if q % 2 else otherwise


# The rule, a case in which it holds, and a neighbour in which it does not.
CASES: dict[str, tuple[Case, Case]] = {
    # 5 of 40 queries have no line; beside it, they have a line with an empty list.
    "missing-queries": (Case(lines=lambda q: q >= 5), Case(first=lambda q: (1, 2) if q >= 5 else ())),
    # The gate skips 12 of 40 queries with gold; beside it, 12 of 40 that need no retrieval.
    "gate": (Case(retrieved=lambda q: q >= 12), Case(retrieved=lambda q: q >= 12, needed=lambda q: q >= 12)),
    # 12 of 40 queries are sent elsewhere and find nothing; beside it, they are sent elsewhere and find the same.
    "router": (
        Case(lambda q: () if q < 12 else (1, 2), route=lambda q: "wiki" if q < 12 else "faq"),
        Case(route=lambda q: "wiki" if q < 12 else "faq"),
    ),
    # German queries find nothing; beside it, as many queries of both languages find nothing.
    "segment": (
        Case(half((1, 2)), language=lambda q: "en" if q % 2 else "de"),
        Case(half((1, 2)), language=lambda q: "en" if q % 4 < 2 else "de"),
    ),
    # The third result is from July, the query's as_of is 1 June; beside it, all are from that day.
    "time-filter": (
        Case(version=lambda q, rank: "2025-07-01" if rank == 3 else "2025-01-01"),
        Case(version=lambda q, rank: "2025-06-01"),
    ),
    # Half of the queries find other chunks of the right docs; beside it, they find nothing of them.
    "chunker": (Case(half((1, 2)), instead=True), Case(half((1, 2)))),
    "retriever": (Case(half((1, 2))), Case(half((1, 2)), instead=True)),
    # The same with gold by doc is tested below, since the neighbour differs in its gold.
    "pool": (Case(half((1, 2))), Case()),
    # Every second query goes from ranks 1 and 2 to 30 and 31; beside it, the other way round.
    "reranker": (Case(reranked=half((30, 31), (1, 2))), Case(half((30, 31), (1, 2)), reranked=lambda q: (1, 2))),
    # Two of ten fillers are judged: judged@10 = 4/10; beside it six of them, 8/10.
    "thin-gold": (Case(judged=2), Case(judged=6)),
    # Ranks 1 and 4: precision at 2 is 1/2 with all found at 4; beside it, ranks 1 and 2.
    "distractors": (Case(lambda q: (1, 4)), Case(lambda q: (1, 2))),
    # In the pool at 20 and 21, and no reranker; beside it, at 4 and 5.
    "reranker-or-k": (Case(lambda q: (20, 21)), Case(lambda q: (4, 5))),
    # Ranks 4 and 5: recall@5 is 1 and mrr 1/4; beside it, ranks 1 and 4: mrr 1.
    "order": (Case(lambda q: (4, 5)), Case(lambda q: (1, 4))),
    # Half is not delivered, and without stages nobody knows why; beside it, the pool lacks it.
    "low-recall": (Case(half((1, 2)), drop=("stages",)), Case(half((1, 2)))),
    # 300 of 330 ms; beside it, 60 of 90 ms.
    "slow-stage": (
        Case(latency=lambda q: {"retrieve": 30.0, "rerank": 300.0 + q % 5}),
        Case(latency=lambda q: {"retrieve": 30.0, "rerank": 60.0 + q % 5}),
    ),
    # Every fourth query takes ten times as long; beside it, twice as long.
    "slow-tail": (
        Case(latency=lambda q: {"retrieve": 30.0, "rerank": 300.0 if q % 4 == 0 else 30.0}),
        Case(latency=lambda q: {"retrieve": 30.0, "rerank": 60.0 if q % 4 == 0 else 30.0}),
    ),
}


def test_every_rule_has_a_case() -> None:
    assert set(CASES) == set(BY_CODE)


@pytest.mark.parametrize("code", [c for c in CASES if c != "pool"])
def test_a_rule_holds_in_its_case_comes_first_and_not_in_its_neighbour(tmp_path: Path, code: str) -> None:
    case, neighbour = CASES[code]
    found = case.diagnose(tmp_path)
    assert found.findings[0].code == code, [(f.code, f.weight) for f in found.findings]
    assert code not in [f.code for f in neighbour.diagnose(tmp_path).findings]


def test_gold_by_doc_cannot_tell_the_chunker_from_the_retriever(tmp_path: Path) -> None:
    gold, log, queries = Case(half((1, 2))).write(tmp_path)
    by_doc = {
        q: {d.split("#")[0]: g for d, g in docs.items()} for q, docs in json.loads(Path(gold).read_text()).items()
    }
    found = karat.diagnose(by_doc, log, queries=queries)
    assert [f.code for f in found.findings] == ["pool"]
    assert found.unchecked["chunker"] == found.unchecked["retriever"] == "the gold is not by chunk"
    # With gold by chunk it can, and the vaguer rule is skipped.
    assert [f.code for f in Case(half((1, 2))).diagnose(tmp_path).findings] == ["retriever"]


def test_the_reranker_is_blamed_for_the_queries_that_it_makes_worse(tmp_path: Path) -> None:
    """Every second query has its gold at 30 and 31 before and after; every fourth falls from 1 and 2 to there."""
    found = Case(half((30, 31), (1, 2)), reranked=lambda q: (1, 2) if q % 4 == 0 else (30, 31)).diagnose(tmp_path)
    (finding,) = (f for f in found.findings if f.code == "reranker")
    assert finding.queries == tuple(f"q{q:02d}" for q in range(2, N, 4))
    assert finding.weight == pytest.approx(0.25)  # a quarter loses all of its ndcg@10


def test_nothing_wrong_is_said_plainly(tmp_path: Path) -> None:
    found = Case(reranked=lambda q: (1, 2)).diagnose(tmp_path)
    assert found.findings == () and found.healthy
    assert found.summary == "No problems that these 40 queries can show."
    assert found.unchecked == {"segment": "no field of the queries has 2 to 20 values, such as language or topic"}


def test_resamples_that_no_rule_looks_at_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("only counts and differences are resampled, and no rule asks for one here")

    monkeypatch.setattr("karat.stats.groups.resampled", refuse)
    gold = {f"q{i}": {f"d{i}_{j}": 1 for j in range(1 + i % 3)} for i in range(N)}
    lists = {q: [*list(docs)[: i % 4], "x"] for i, (q, docs) in enumerate(gold.items())}
    assert karat.diagnose(gold, {"run": lists}).measured


def test_few_queries_that_show_nothing_are_not_called_healthy(tmp_path: Path) -> None:
    found = Case(n=4).diagnose(tmp_path)
    assert not found.findings and not found.healthy
    assert "4 queries are too few" in found.summary
    assert {"retriever", "order"} <= set(found.undecided)
    assert set(found.open_questions) == {"fewer than 5 queries are left"}


def test_a_low_mean_with_a_wide_interval_is_not_called_low(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 3 of 20 queries have nothing in the pool: recall@50 is .85 [.66, .96], and .9 lies inside.
    found = Case(lambda q: () if q < 3 else (1, 2), n=20).diagnose(tmp_path)
    assert not found.findings
    assert found.undecided["retriever"] == "the interval holds the threshold"
    show(found)
    printed = " ".join(capsys.readouterr().out.split())
    assert re.search(r"undecided: [^(]*\bretriever\b[^(]* \(the interval holds the threshold\)", printed)
    assert "not checked" not in printed and found.as_json()["undecided"] == list(found.undecided)


@pytest.mark.parametrize(("lost", "named"), [(3, ()), (6, ("language=fi",)), (8, ())])
def test_a_segment_whose_gap_looks_large_and_may_be_small_is_named(
    tmp_path: Path, lost: int, named: tuple[str, ...]
) -> None:
    """Of 20 Finnish queries 6 find nothing: the gap of −.3 is surely one, and may be above −.05; of 8 it is not."""
    languages = {"language": lambda q: "fi" if q % 2 else "en"}
    found = Case(lambda q: () if q % 2 and q < 2 * lost else (1, 2), **languages).diagnose(tmp_path)
    assert ("segment" in {f.code for f in found.findings}) == (lost == 8)
    assert found.undecided_segments == named
    questions = [question for codes in found.open_questions.values() for question in codes]
    assert ("segment" in found.undecided) == bool(named) == ("segment (language=fi)" in questions)
    assert ("undecided_segments" in found.as_json()) == bool(named)
    SCHEMA.validate(found.as_json())


def test_a_segment_whose_docs_are_in_the_pool_is_said_to_be_ranked_low(tmp_path: Path) -> None:
    """Of 20 Finnish queries the relevant docs stand at ranks 20 and 21, or nowhere; those of 20 others lead."""
    language = {"language": lambda q: "fi" if q % 2 else "en"}
    (found,) = Case(half((20, 21), (1, 2)), **language).diagnose(tmp_path).findings
    assert (found.code, found.subject) == ("segment", "language=fi")
    pool = found.evidence[-1]
    assert (pool.value, pool.interval.estimate, pool.interval.n) == (
        "recall(cap=true)@50 of stage retrieve here",
        1.0,
        20,
    )
    assert found.advice[0].startswith("rerank the pool, or raise k")
    (found,) = Case(half((), (1, 2)), **language).diagnose(tmp_path).findings
    assert found.evidence[-1].interval.estimate == 0.0
    assert not any("rerank" in advice for advice in found.advice)


def test_a_finding_about_the_pool_lists_queries_whose_top_5_is_full_too(tmp_path: Path) -> None:
    """8 relevant docs by query: a pool that holds 5 of them fills the top 5, and still misses 3."""
    lines: list[Any] = [
        {"query_id": f"q{q:02d}", "topk": [{"chunk_id": f"d{q}_{i}"} for i in range(5)]} for q in range(40)
    ]
    log = tmp_path / "log.jsonl"
    gold = {f"q{q:02d}": {f"d{q}_{i}": 1 for i in range(8)} for q in range(40)}
    gold["q07"] |= {"x": 1}
    lines[7]["topk"] = lines[7]["topk"][:2]
    staged = [line | {"stages": {"retrieve": [item["chunk_id"] for item in line["topk"]]}} for line in lines]
    log.write_text("".join(json.dumps(line) + "\n" for line in staged))
    found = next(f for f in karat.diagnose(gold, str(log)).findings if f.code in ("pool", "retriever"))
    assert len(found.queries) == 40 and found.queries[0] == "q07"


def test_of_queries_that_lose_the_same_the_worst_ordered_come_first(tmp_path: Path) -> None:
    """The gold of every Finnish query is below rank 5: for q01 it stands at 6 and 7, for the others at 9 and 10."""
    places = {1: (6, 7)}
    case = Case(lambda q: places.get(q, (9, 10)) if q % 2 else (1, 2), language=lambda q: "fi" if q % 2 else "en")
    (found,) = case.diagnose(tmp_path).findings
    assert found.queries[-1] == "q01" and found.queries[0] == "q03"


def test_weight_is_the_loss_over_all_queries_and_queries_are_those_that_lose(tmp_path: Path) -> None:
    (finding,) = Case(half((1, 2))).diagnose(tmp_path).findings
    assert finding.weight == pytest.approx(20 / 40)  # 20 of 40 queries lose everything
    assert finding.queries == tuple(f"q{q:02d}" for q in range(0, 40, 2))
    (route,) = CASES["router"][0].diagnose(tmp_path).findings
    assert route.weight == pytest.approx(12 / 40)  # 12 queries with recall 0 beside 28 with 1
    assert route.queries == tuple(f"q{q:02d}" for q in range(12))


def test_evidence_names_values_intervals_and_thresholds(tmp_path: Path) -> None:
    (finding,) = Case(lambda q: (20, 21)).diagnose(tmp_path).findings
    first = finding.evidence[0]
    assert (first.value, first.side, first.threshold) == (
        "recall(cap=true)@5 of what the pool holds",
        "low",
        THRESHOLDS["recall@5.low"].value,
    )
    assert first.interval.high < 0.75
    assert "recall(cap=true)@50 of stage retrieve 1.000" in "; ".join(map(str, finding.evidence))


def test_a_segment_explains_its_queries_and_the_retriever_is_not_blamed(tmp_path: Path) -> None:
    (finding,) = CASES["segment"][0].diagnose(tmp_path).findings
    assert (finding.code, finding.subject) == ("segment", "language=de")
    assert finding.weight == pytest.approx(20 / 40)


def test_two_causes_are_both_named_by_what_each_costs(tmp_path: Path) -> None:
    # 12 misrouted queries lose all (.3); of the other 28 half are lost in the index (14/40 = .35).
    both = Case(lambda q: () if q < 12 or q % 2 else (1, 2), route=lambda q: "wiki" if q < 12 else "faq")
    found = both.diagnose(tmp_path)
    assert [f.code for f in found.findings] == ["retriever", "router"]
    # A misrouted query loses what the others have on average: 12/40 · 14/28.
    assert [f.weight for f in found.findings] == [pytest.approx(14 / 40), pytest.approx(12 / 40 * 0.5)]


def test_newer_docs_are_not_called_distractors(tmp_path: Path) -> None:
    # Ranks 1 and 4, and what stands between is newer than as_of: without it the order is right.
    case = Case(lambda q: (1, 4), version=lambda q, rank: "2025-07-01" if rank in (2, 3) else "2025-01-01")
    assert [f.code for f in case.diagnose(tmp_path).findings] == ["time-filter"]


def test_docs_newer_than_as_of_are_dropped_from_pool_final_list_and_gold_alike(tmp_path: Path) -> None:
    # Every second query has gold that is newer than as_of, at ranks 1 and 2: nothing is ranked too low, or missing.
    case = Case(version=lambda q, rank: "2025-07-01" if q % 2 and rank < 3 else "2025-01-01")
    found = case.diagnose(tmp_path)
    assert [f.code for f in found.findings] == ["time-filter"]
    filtered = case.diagnose(tmp_path, as_of_filter=True)
    assert filtered.findings == ()
    # One relevant doc in two is newer, and the other is ranked too low: that is said of the queries that have it.
    low = Case(lambda q: (1, 20), version=lambda q, rank: "2025-07-01" if rank == 1 else "2025-01-01").diagnose(
        tmp_path
    )
    (finding,) = (f for f in low.findings if f.code == "reranker-or-k")
    assert finding.evidence[0].interval.estimate == 0 and finding.evidence[2].interval.estimate == 1
    assert finding.scope == "all 40 queries; gold, stages and final lists without docs newer than as_of"


def test_queries_without_a_line_are_counted_first_and_kept_out_of_the_other_rules(tmp_path: Path) -> None:
    found = Case(half((1, 2)), lines=lambda q: q >= 10).diagnose(tmp_path)
    assert [f.code for f in found.findings] == ["missing-queries", "retriever"]
    first, second = found.findings
    assert (first.subject, len(first.queries), first.weight) == ("10 of 40", 10, 0.25)
    assert found.summary == "Queries have no line in the run (10 of 40); and 1 more finding."
    assert second.scope == "30 of 40 queries; set aside: 10 of another finding (missing-queries)"
    assert second.evidence[0].interval.n == 30 and second.evidence[0].interval.estimate == 0.5
    assert set(second.queries) == {f"q{i}" for i in range(10, 40, 2)}
    # A run without a log: as with one, nothing else is wrong with a perfect run that lacks queries.
    gold = {f"q{i}": {f"d{i}": 1, "x": 0} for i in range(40)}
    run = {f"q{i}": [f"d{i}", *(f"f{j}" for j in range(60))] for i in range(10, 40)}
    assert "pool" not in [f.code for f in karat.diagnose(gold, run).findings]
    assert karat.diagnose(gold, run).findings[0].subject == "10 of 40"
    assert "missing-queries" not in [f.code for f in karat.diagnose(gold, run, missing="skip").findings]


def test_what_the_gate_skips_is_held_against_nothing_after_it(tmp_path: Path) -> None:
    (finding,) = Case(retrieved=lambda q: q >= 12).diagnose(tmp_path).findings
    assert (finding.code, finding.weight, finding.scope) == ("gate", pytest.approx(12 / 40), "all 40 queries")
    assert finding.queries == tuple(f"q{q:02d}" for q in range(12))
    assert finding.evidence[0].interval.estimate == 12 / 40
    # Of 28 queries that were retrieved for, 14 find nothing: the retriever loses 14 of 40, the gate 12.
    half_lost = Case(half((1, 2)), retrieved=lambda q: q >= 12).diagnose(tmp_path)
    assert [(f.code, f.weight) for f in half_lost.findings] == [
        ("retriever", pytest.approx(14 / 40)),
        ("gate", pytest.approx(12 / 40)),
    ]
    assert half_lost.findings[0].scope == "28 of 40 queries; set aside: 12 that the retrieval gate skips"
    # Two skips of 40 are too few for a finding, and still nobody else's fault; a gate that skips all is the finding.
    few = Case(retrieved=lambda q: q >= 2).diagnose(tmp_path, thresholds={"recall@50.low": 1})
    assert few.findings == () and few.measured[0].interval.estimate == 38 / 40
    assert [f.code for f in Case(retrieved=lambda q: False).diagnose(tmp_path).findings] == ["gate"]
    # Queries that need no retrieval are in no rule.
    rightly = CASES["gate"][1].diagnose(tmp_path)
    assert (rightly.findings, rightly.queries, rightly.in_scope) == ((), 40, 28)
    mixed = Case(half((1, 2)), retrieved=lambda q: q >= 12, needed=lambda q: q >= 2).diagnose(tmp_path)
    assert {f.code: f.scope for f in mixed.findings} == {
        "retriever": "28 of 40 queries; set aside: 10 that the retrieval gate skips, 2 that rightly skip retrieval",
        "gate": "38 of 40 queries; set aside: 2 that rightly skip retrieval",
    }


def test_queries_without_a_relevant_doc_are_in_no_rule(tmp_path: Path) -> None:
    found = Case(half((1, 2)), relevant=lambda q: q >= 4).diagnose(tmp_path)
    (finding,) = found.findings
    assert finding.code == "retriever" and set(finding.queries) == {f"q{i:02d}" for i in range(4, 40, 2)}
    assert finding.evidence[0].interval.n == 36
    assert finding.scope == "36 of 40 queries; set aside: 4 without relevant gold"
    assert (found.queries, found.in_scope) == (40, 36)


# --- What is lacking ------------------------------------------------------------------------------------------------


def test_missing_fields_are_named_with_the_rules_that_need_them(tmp_path: Path) -> None:
    bare = Case(drop=("stages", "latency_ms", "route"), fields=())
    gold, log, _ = bare.write(tmp_path)
    found = karat.diagnose(gold, log)
    assert found.unchecked["router"] == "the run log has no `route`"
    assert found.unchecked["slow-stage"] == found.unchecked["slow-tail"] == "the run log has no `latency_ms`"
    assert found.unchecked["time-filter"] == "needs a table of queries (--queries) with `as_of`"
    assert "stages.retrieve" in found.unchecked["retriever"] and "at least 50 results" in found.unchecked["chunker"]
    assert "stages.rerank" in found.unchecked["reranker"]
    assert "--queries" in found.unchecked["segment"]
    assert karat.diagnose(gold, log, queries={"q00": {"text": "x"}}).unchecked["router"] == "the run log has no `route`"
    routed = Case(fields=("language",)).diagnose(tmp_path)
    assert routed.unchecked["router"] == "the table of queries has no `expected_source`"
    assert routed.unchecked["time-filter"] == "the table of queries has no `as_of`"


def test_doc_versions_that_the_log_lacks_are_named(tmp_path: Path) -> None:
    gold, log, queries = Case().write(tmp_path)
    lines = [json.loads(line) for line in Path(log).read_text().splitlines()]
    for line in lines:
        line["topk"] = [{k: v for k, v in item.items() if k != "doc_version"} for item in line["topk"]]
    Path(log).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert karat.diagnose(gold, log, queries=queries).unchecked["time-filter"] == "the run log has no `doc_version`"


def test_gold_of_relevant_docs_alone_is_no_thin_gold(tmp_path: Path) -> None:
    found = Case(judged=0).diagnose(tmp_path)
    assert found.healthy
    assert "lower bounds" in found.unchecked["thin-gold"]


def test_stage_ids_that_do_not_match_the_gold_are_not_called_a_weak_retriever(tmp_path: Path) -> None:
    gold, log, queries = Case().write(tmp_path)
    lines = [json.loads(line) for line in Path(log).read_text().splitlines()]
    for line in lines:
        line["stages"] = {"retrieve": [f"internal-{c}" for c in line["stages"]["retrieve"]]}
    Path(log).write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = karat.diagnose(gold, log, queries=queries)
    assert not found.findings
    assert found.unchecked["retriever"] == "the ids in `stages.retrieve` do not match those of the gold"


def test_any_run_can_be_diagnosed() -> None:
    gold = {f"q{q}": {f"a{q}": 1, f"b{q}": 0} for q in range(30)}
    deep = {f"q{q}": [f"x{q}{i}" for i in range(30)] + [f"a{q}"] + [f"y{q}{i}" for i in range(30)] for q in range(30)}
    assert [f.code for f in karat.diagnose(gold, deep).findings] == ["reranker-or-k", "thin-gold"]
    nothing = karat.diagnose(gold, {f"q{q}": ["z"] for q in range(30)})
    assert [f.code for f in nothing.findings] == ["low-recall", "thin-gold"]
    assert nothing.findings[0].weight == 1.0


def test_weights_are_honoured(tmp_path: Path) -> None:
    gold, log, queries = Case(half((1, 2))).write(tmp_path)
    assert karat.diagnose(gold, log, queries=queries).findings
    weighted = {f"q{q:02d}": {"text": "x", "weight": q % 2} for q in range(N)}  # what fails weighs nothing
    assert not karat.diagnose(gold, log, queries=weighted).findings


def test_the_time_of_a_stage_is_weighted_throughout(tmp_path: Path) -> None:
    # 100 of 400 queries take 700 ms in the only stage, the others 70 ms.
    gold, log, _ = Case(n=400, latency=lambda q: {"retrieve": 700.0 if q % 4 == 0 else 70.0}).write(tmp_path)

    def tail(slow: float) -> dict[str, tuple[float, float]]:
        """By weight of the slow queries, where the others weigh 1: each evidence, and the weight of the finding."""
        queries = {f"q{q:02d}": {"text": "x", "weight": slow if q % 4 == 0 else 1} for q in range(400)}
        findings = karat.diagnose(gold, log, queries=queries).findings
        return {e.value: (e.interval.estimate, f.weight) for f in findings for e in f.evidence}

    # Slow are 200 of 500: p50 is 70, p95 is 700. Beyond the median are 200 · 630 of 200 · 700 + 300 · 70 ms.
    share = 200 * 630 / (200 * 700 + 300 * 70)
    assert tail(2) == {
        "p95 / p50 of the stage": (pytest.approx(10), pytest.approx(share / 2)),
        "share of the time in its tail": (pytest.approx(share), pytest.approx(share / 2)),
    }
    # 1,000 of 1,300: p50 and p95 are 700, as those of latency. 4 of 304: both are 70.
    assert tail(10) == tail(1 / 25) == {}


@pytest.mark.parametrize("seed", range(3))
def test_a_share_of_the_time_never_exceeds_1(seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = {stage: rng.lognormal(3, 2, 60) for stage in ("retrieve", "rerank")}
    times["rerank"][::3] = np.nan  # these queries do not go through it
    for latency in (times, {**times, "total": times["retrieve"] / 2}):  # or a total that is less than its parts
        weights = {f"q{i}": {"weight": float(w)} for i, w in enumerate(10.0 ** rng.uniform(-6, 6, 60))}
        sampling = karat.evaluate({q: {"d": 1} for q in weights}, {q: ["d"] for q in weights}, queries=weights)
        signals = Signals(
            "run", list(weights), {"relevant": np.ones(60)}, {}, {}, latency, list(weights), sampling.runs[0].sampling
        )
        for stage in times:
            view = View.of(signals).about(stage=stage)
            for name in ("share of time", "time in the tail"):
                interval = view.interval(name)
                assert interval is not None and 0 <= interval.estimate <= 1 and not interval.high > 1
            assert all(
                BY_CODE[code].loss(view) @ view.units.weight <= view.units.weight.sum() / 2 + 1e-9
                for code in ("slow-stage", "slow-tail")
            )


def test_a_stage_takes_its_share_of_the_weighted_time(tmp_path: Path) -> None:
    """Queries that weigh nothing count in no mean: the stage takes 300 of 330 ms, not of (330 + 60) / 2."""
    case = Case(latency=lambda q: {"retrieve": 30.0, "rerank": 300.0 if q % 2 else 30.0})
    gold, log, _ = case.write(tmp_path)
    weighted = {f"q{q:02d}": {"text": "x", "weight": q % 2} for q in range(N)}
    (finding,) = karat.diagnose(gold, log, queries=weighted).findings
    assert (finding.code, finding.weight) == ("slow-stage", pytest.approx(TIME * 300 / 330))


def test_lines_without_a_stage_or_a_latency_are_left_out_of_what_needs_it(tmp_path: Path) -> None:
    gold, log, queries = Case(half((1, 2)), reranked=half((1, 2))).write(tmp_path)
    lines = [json.loads(line) for line in Path(log).read_text().splitlines()]
    for line in lines[:10]:
        del line["stages"], line["latency_ms"]["rerank"]
    Path(log).write_text("".join(json.dumps(line) + "\n" for line in lines))
    (finding,) = karat.diagnose(gold, log, queries=queries).findings
    assert finding.code == "retriever" and finding.evidence[0].interval.n == 30
    assert finding.queries[0] == "q10"


def test_the_only_stage_is_not_said_to_dominate_and_may_have_a_tail(tmp_path: Path) -> None:
    assert Case(latency=lambda q: {"retrieve": 30.0 + q % 5}).diagnose(tmp_path).healthy
    tail = Case(latency=lambda q: {"retrieve": 300.0 if q % 4 == 0 else 30.0}).diagnose(tmp_path)
    assert [(f.code, f.subject) for f in tail.findings] == [("slow-tail", "retrieve")]


def test_time_is_that_of_all_queries_of_the_log(tmp_path: Path) -> None:
    gold, log, queries = Case(latency=lambda q: {"retrieve": 300.0 if q % 4 == 0 else 30.0}).write(tmp_path)
    slow = {f"q{q:02d}" for q in range(0, N, 4)}
    judged = json.loads(Path(gold).read_text())
    Path(gold).write_text(json.dumps({q: docs for q, docs in judged.items() if q not in slow}))
    fresh = karat.diagnose(gold, log, queries=queries)
    assert [(f.code, f.subject) for f in fresh.findings] == [("slow-tail", "retrieve")]
    assert set(fresh.findings[0].queries) == slow and fresh.findings[0].evidence[0].interval.n == N
    karat.evaluate(gold, log, queries=queries, details=True).save(str(tmp_path / "saved.json"))
    assert karat.diagnose(karat.load(str(tmp_path / "saved.json"))).as_json() == fresh.as_json()


def test_the_interval_of_a_gap_stays_between_minus_one_and_one(tmp_path: Path) -> None:
    case = Case(lambda q: () if q < 20 else (1, 2), language=lambda q: "de" if q < 20 else "en")
    (finding,) = case.diagnose(tmp_path).findings
    gap = finding.evidence[0].interval
    assert finding.code == "segment" and (gap.estimate, gap.low) == (-1, -1) and gap.high > -1


def test_a_run_that_was_read_and_standard_input_tell_as_much_as_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold, log, queries = CASES["slow-stage"][0].write(tmp_path)
    assert [f.code for f in karat.diagnose(gold, karat.read_run(log), queries=queries).findings] == ["slow-stage"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(log).read_bytes())))
    assert [f.code for f in karat.diagnose(gold, "-", queries=queries).findings] == ["slow-stage"]


# --- Saved results --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", CASES)
def test_a_result_fresh_or_saved_says_what_the_run_log_says(tmp_path: Path, code: str) -> None:
    gold, log, queries = CASES[code][0].write(tmp_path)
    from_log = karat.diagnose(gold, log, queries=queries).as_json()
    assert from_log["findings"]
    result = karat.evaluate(gold, log, "ndcg@10", queries=queries, details=True)
    assert karat.diagnose(result).as_json() == from_log
    result.save(str(tmp_path / "result.json"))
    assert karat.diagnose(str(tmp_path / "result.json")).as_json() == from_log


def test_a_result_of_a_run_without_a_log_names_what_it_needs(tmp_path: Path) -> None:
    gold = {f"q{q:02}": {f"a{q}": 1, f"b{q}": 0} for q in range(30)}
    run = {q: [next(iter(docs))] for q, docs in gold.items()}
    queries = {q: {"as_of": "2025-01-01", "expected_source": "faq"} for q in gold}
    karat.evaluate(gold, run, queries=queries, details=True).save(str(tmp_path / "result.json"))
    for diagnosis in (karat.diagnose(str(tmp_path / "result.json")), karat.diagnose(gold, run, queries=queries)):
        assert diagnosis.unchecked["router"] == "needs a run log with `route`"
        assert diagnosis.unchecked["time-filter"] == "needs a run log with `doc_version`"
        assert diagnosis.unchecked["slow-stage"] == "needs a run log with `latency_ms`"
        assert "`stages.rerank`" in diagnosis.unchecked["reranker"]


def test_a_saved_result_gives_the_values_that_its_run_gave(tmp_path: Path) -> None:
    gold, log, _ = Case(half((1, 4), (3, 9)), judged=5).write(tmp_path)
    lines = Path(log).read_text().splitlines()
    Path(log).write_text("".join(line + "\n" for line in lines[:-1]))  # the last query was not run
    saved = tmp_path / "result.json"
    karat.evaluate(gold, log, details=True).save(str(saved))
    direct = {e.value: e.interval for e in karat.diagnose(gold, log).measured}
    for evidence in karat.diagnose(str(saved)).measured:
        assert evidence.interval == direct[evidence.value]


def test_a_result_without_lists_or_with_several_runs_says_what_to_do(tmp_path: Path) -> None:
    gold, log, _ = Case().write(tmp_path)
    karat.evaluate(gold, log).save(str(tmp_path / "bare.json"))
    with pytest.raises(karat.InputError, match="--save"):
        karat.diagnose(str(tmp_path / "bare.json"))
    karat.evaluate(gold, {"a": log, "b": log}, details=True).save(str(tmp_path / "two.json"))
    with pytest.raises(karat.UsageError, match=r"2 runs \(a, b\)"):
        karat.diagnose(str(tmp_path / "two.json"))
    assert karat.diagnose(str(tmp_path / "two.json"), "b").run == "b"
    with pytest.raises(karat.UsageError, match="needs a run"):
        karat.diagnose(gold)


# --- Thresholds -----------------------------------------------------------------------------------------------------


def test_thresholds_can_be_changed(tmp_path: Path) -> None:
    case = Case(latency=lambda q: {"retrieve": 30.0, "rerank": 60.0 + q % 5})
    assert case.diagnose(tmp_path).healthy
    found = case.diagnose(tmp_path, thresholds={"stage.share": 0.6})
    assert [(f.code, f.subject) for f in found.findings] == [("slow-stage", "rerank")]
    assert found.thresholds["stage.share"] == 0.6


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"recall@5.lo": 0.5}, "did you mean 'recall@5.low'"),
        ({"mrr.low": "x"}, "finite number"),
        ({"recall@5.low": 6}, "must be from 0 to 1, found 6; did you mean 0.06"),
        ({"recall@5.low": -1}, "must be from 0 to 1, found -1"),
        ({"segment.gap": -1.5}, "must be from -1 to 1"),
        ({"stage.tail": -4}, "must be 0 or more"),
        ({"mrr.low": float("nan")}, "finite number"),
        ({"mrr.low": True}, "finite number"),
    ],
)
def test_a_wrong_threshold_is_refused(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(karat.UsageError, match=told):
        karat.diagnose({"q": {"a": 1}}, {"q": ["a"]}, thresholds=changed)


def test_thresholds_of_a_config_and_of_the_command_line(tmp_path: Path) -> None:
    from karat.verbs.diagnose.rules import read_thresholds

    config = tmp_path / "karat.yaml"
    config.write_text("diagnosis:\n  thresholds:\n    mrr.low: 0.4\n    recall@5.low: 0.6\n")
    assert read_thresholds(["mrr.low=0.5"], str(config)) == {"mrr.low": 0.5, "recall@5.low": 0.6}
    config.write_text("diagnosis:\n  thresholds:\n    mrr.lo: 0.4\n")
    with pytest.raises(karat.InputError, match=r"karat\.yaml:3: no threshold 'mrr\.lo'; did you mean 'mrr\.low'"):
        read_thresholds([], str(config))
    with pytest.raises(karat.UsageError, match="NAME=X"):
        read_thresholds(["mrr.low"])


def test_every_threshold_is_used_and_every_rule_uses_a_known_one() -> None:
    used = {bound.threshold for rule in RULES for bound in rule.when}
    assert used == set(THRESHOLDS)
    codes = [rule.code for rule in RULES]
    assert len(set(codes)) == len(codes)
    for place, rule in enumerate(RULES):
        assert set(rule.unless) <= set(codes[:place]), "a rule can only be skipped for one before it"


# --- Planted faults -------------------------------------------------------------------------------------------------

FAULTS = bench("pipelines").FAULTS


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named_first(fault: str) -> None:
    """In at least 5 of 6 pipelines: where the first 5 settle it, the last one is not made."""
    pipelines, diagnosis = bench("pipelines"), bench("diagnosis")
    places: list[int] = []
    for seed in range(6):
        made = pipelines.pipeline(seed, {fault: pipelines.CLEAR})
        places += diagnosis.places({fault: 1}, made, diagnosis.diagnosed(made))
        if places.count(1) == 5:
            return
    pytest.fail(f"named first in {places.count(1)} of 6: {places}")


def test_healthy_pipelines_are_called_healthy() -> None:
    found = [bench("diagnosis").diagnosed(bench("pipelines").pipeline(seed)) for seed in range(6)]
    assert found.count(()) >= 5, found


def test_two_planted_faults_are_both_named() -> None:
    pipelines, diagnosis = bench("pipelines"), bench("diagnosis")
    good = 0
    pairs = [
        ("reranker", "router"),
        ("chunker", "slow stage"),
        ("language", "time filter"),
        ("retriever", "thin gold"),
        ("router", "distractors"),
        ("chunker", "retriever"),
    ]
    for seed, pair in enumerate(pairs):
        faults = dict.fromkeys(pair, pipelines.CLEAR)
        made = pipelines.pipeline(seed, faults)
        good += all(0 < p <= 3 for p in diagnosis.places(faults, made, diagnosis.diagnosed(made)))
    assert good >= 5


def test_the_same_seed_makes_the_same_pipeline_and_logs_follow_their_schema() -> None:
    make = bench("pipelines").pipeline
    one, two = make(3, {"router": 0.4}), make(3, {"router": 0.4})
    assert one == two
    assert one.log != make(4, {"router": 0.4}).log
    schema = json.loads((ROOT / "docs/schemas/run-log.schema.json").read_text())
    log = jsonschema.Draft202012Validator(schema)
    for line in one.log[:20]:
        log.validate(line)
    with pytest.raises(ValueError, match="no fault"):
        make(0, {"gremlins": 1.0})


# --- Misses ---------------------------------------------------------------------------------------------------------

HOSTILE = '=cmd|"/c calc"!A1\n<script>alert(1)</script> | `x` [l](http://e) \x1b[31mred\x1b[0m [bold]b[/bold]'


@pytest.fixture
def triage() -> dict[str, Any]:
    """Of three queries one has a hit; of the others, one found its gold at rank 11, one never."""
    fillers = [f"x{i}" for i in range(12)]
    return {
        "qrels": {"hit": {"a": 1}, "deep": {"b": 2, "x0": 0}, "never": {"=c": 1}},
        "run": {"hit": ["a"], "deep": [*fillers[:10], "b"], "never": fillers},
        "baseline": {"hit": ["a"], "deep": ["b", "x0"], "never": []},
        "queries": {"hit": {"text": "fine"}, "deep": {"text": "deep one"}, "never": {"text": HOSTILE}},
        "docs": {"b": {"title": "B", "text": "long " * 60}, "x0": {"text": HOSTILE}},
    }


def test_misses_are_queries_without_a_relevant_doc_in_the_top_10(triage: dict[str, Any]) -> None:
    found = misses(triage.pop("qrels"), triage.pop("run"), **triage)
    assert [m.query_id for m in found.rows] == ["deep", "never"]  # the one that came nearest first
    deep = found.rows[0]
    assert [(g.doc, g.grade, g.rank) for g in deep.gold] == [("b", 2.0, 11)]
    assert [d.doc for d in deep.top] == [f"x{i}" for i in range(10)]
    assert (deep.top[0].grade, deep.top[1].grade) == (0.0, None)
    assert deep.baseline is not None and [d.doc for d in deep.baseline] == ["b", "x0"]
    assert found.rows[1].baseline == ()
    assert found.queries == 3


def test_misses_agree_with_the_hit_rate() -> None:
    gold = {"hit": {"a": 1}, "miss": {"b": 1}, "absent": {"c": 1}, "empty": {"d": 0}}
    run = {"hit": ["a"], "miss": ["a"], "empty": ["d"]}
    found = misses(gold, run)
    assert [m.query_id for m in found.rows] == ["absent", "miss"]
    assert (found.queries, found.without_gold, found.absent) == (3, 1, 1)
    # hit@10 is 1/4: of 4 queries, 2 and 1 more found nothing.
    assert (
        karat.evaluate(gold, run, "hit@10").runs[0].intervals["hit@10"].estimate
        == 1 - (len(found) + found.without_gold) / 4
    )
    assert (
        "2 of 3 queries have no relevant doc in the top 10 (1 without a line in the run); the gold of 1 more has no "
        "relevant doc"
    ) in misses_view.as_markdown(found)


def test_misses_as_csv_hold_no_formula_and_stand_side_by_side(triage: dict[str, Any]) -> None:
    found = misses(triage.pop("qrels"), triage.pop("run"), **triage)
    rows = list(csv.DictReader(io.StringIO(misses_view.as_csv(found))))
    assert len(rows) == 20
    assert (rows[0]["query_id"], rows[0]["rank"], rows[0]["doc"], rows[0]["baseline_doc"]) == ("deep", "1", "x0", "b")
    assert rows[0]["gold"] == "b (2)" and rows[0]["grade"] == "0" and rows[1]["grade"] == "not judged"
    assert rows[0]["baseline_text"].startswith("B. long") and len(rows[0]["baseline_text"]) == 80
    assert not any(cell.startswith(("=", "+", "@")) for row in rows for cell in row.values())
    assert not any(ord(c) < 32 for row in rows for cell in row.values() for c in cell)
    assert len(list(csv.DictReader(io.StringIO(misses_view.as_csv(found, top=1))))) == 10


def test_misses_as_markdown_are_escaped(triage: dict[str, Any]) -> None:
    text = misses_view.as_markdown(misses(triage.pop("qrels"), triage.pop("run"), **triage))
    assert "<script>" not in text and "\x1b" not in text and "[l](http" not in text
    for line in text.splitlines():
        if line.startswith("|"):
            bare = line.replace("\\|", "")
            assert bare.count("|") == 4, line  # rank, run, baseline
    assert "- gold `b`, grade 2, found at 11: B. long" in text
    assert "not found" in text


def test_misses_on_the_terminal_obey_nothing(triage: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    misses_view.show(misses(triage.pop("qrels"), triage.pop("run"), **triage))
    out = capsys.readouterr().out
    assert "2 of 3 queries have no relevant doc in the top 10" in out
    assert "\x1b" not in out and "[bold]b[/bold]" in out
    assert "deep one" in out and "gold b (grade 2, found at 11)" in out


def test_a_doc_that_a_stage_holds_is_not_said_to_be_missing(tmp_path: Path) -> None:
    stages = {"retrieve": ["x", "a#1", "c#1"], "rerank": ["x", "c#1"]}
    line = {"query_id": "q", "topk": [{"chunk_id": "x"}], "stages": stages}
    gold = {"q": {"a#1": 2, "b#1": 1, "c#1": 1}}
    (tmp_path / "log.jsonl").write_text(json.dumps(line) + "\n")
    karat.evaluate(gold, tmp_path / "log.jsonl", "mrr", details=True).save(str(tmp_path / "result.json"))
    for found in (misses(gold, tmp_path / "log.jsonl"), misses(str(tmp_path / "result.json"))):
        text = misses_view.as_markdown(found)
        assert "- gold `a#1`, grade 2, rank 2 after retrieve, dropped by rerank" in text
        assert "- gold `b#1`, grade 1, not found" in text
        assert "- gold `c#1`, grade 1, rank 2 after rerank, cut from the results" in text
        assert "a#1 (2, rank 2 after retrieve, dropped by rerank)" in misses_view.as_csv(found)


def test_misses_of_a_saved_result(tmp_path: Path, triage: dict[str, Any]) -> None:
    saved = tmp_path / "result.json"
    runs = {"new": triage["run"], "old": triage["baseline"]}
    karat.evaluate(triage["qrels"], runs, queries=triage["queries"], details=True).save(str(saved))
    found = misses(str(saved), "new", baseline="old")
    assert [(m.query_id, m.text) for m in found.rows] == [("deep", "deep one"), ("never", HOSTILE)]
    assert (found.run, found.baseline) == ("new", "old")


# --- Command line ---------------------------------------------------------------------------------------------------


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_karat("diagnose", *arguments)


def test_the_command_prints_findings_with_evidence_cause_advice_and_queries(tmp_path: Path) -> None:
    gold, log, queries = Case(half((1, 2))).write(tmp_path)
    done = cli(gold, log, "--queries", queries)
    assert done.returncode == 0, done.stderr
    for told in (
        "1. Relevant docs are not retrieved at all",
        "evidence: ",
        "(n=40)",
        "over: all 40 queries",
        "likely cause: ",
        "try: ",
        "< 0.9",
        "queries: q00, q02, q04, q06, q08, … (20 in all)",
        "skipped: segment",
    ):
        assert told in done.stdout


def test_json_follows_its_schema_and_nothing_else_is_printed(tmp_path: Path) -> None:
    gold, log, queries = Case(half((1, 2))).write(tmp_path)
    done = cli(gold, log, "--queries", queries, "--json", "-", "--threshold", "mrr.low=0.5")
    document = json.loads(done.stdout)
    SCHEMA.validate(document)
    assert document["findings"][0]["code"] == "retriever" and document["findings"][0]["count"] == 20
    assert document["thresholds"]["mrr.low"] == 0.5
    for case in (case for pair in CASES.values() for case in pair):
        SCHEMA.validate(json.loads(json.dumps(case.diagnose(tmp_path).as_json(), allow_nan=False)))


def test_quiet_and_misses_on_the_command_line(tmp_path: Path) -> None:
    gold, log, queries = Case(half((1, 2))).write(tmp_path)
    done = cli(gold, log, "--queries", queries, "--quiet", "--misses", str(tmp_path / "m.csv"), "--baseline", log)
    assert (done.returncode, done.stdout) == (0, "")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "m.csv").read_text())))
    assert len(rows) == 200 and rows[0]["query_id"] == "q00" and rows[0]["query"] == "question 0"
    done = cli(gold, log, "--misses", "-", "--top", "2")
    assert "20 of 40 queries have no relevant doc in the top 10; the first 2 are shown" in done.stdout
    done = cli(gold, log, "--misses", str(tmp_path / "m.txt"))
    assert done.returncode == 2 and ".csv, .md" in done.stderr


def test_the_command_refuses_what_makes_no_sense(tmp_path: Path) -> None:
    gold, log, _ = Case().write(tmp_path)
    done = cli(gold, log, "--threshold", "mrr.lo=1")
    assert done.returncode == 2 and "did you mean 'mrr.low'" in done.stderr
    done = cli(gold)
    assert done.returncode == 2 and "needs a run" in done.stderr


def test_evidence_says_which_queries_and_lists_it_is_over() -> None:
    """After the group that does worse is explained, the other rules look at the rest of the queries."""
    view = View.of(Signals("run", [f"q{i}" for i in range(6)], {"relevant": np.ones(6)}, {}, {}))
    assert view.scope == "all 6 queries"
    rest = view.without(np.arange(6) < 2, "segment")
    assert rest.scope == "4 of 6 queries; set aside: 2 of another finding (segment)"
    filtered = rest.without(np.arange(6) < 3, "router").with_newer_dropped()
    assert filtered.scope == (
        "3 of 6 queries; set aside: 3 of other findings (segment, router); gold, stages and final lists without docs "
        "newer than as_of"
    )


def test_a_result_without_lists_says_how_to_keep_them() -> None:
    result = karat.evaluate({"q": ["d"]}, {"q": ["d"]}, "mrr")
    with pytest.raises(karat.InputError, match="evaluate again with details=True"):
        karat.diagnose(result)


def test_a_diagnosis_is_a_sentence_and_a_table(tmp_path: Path) -> None:
    found = Case(first=lambda q: ()).diagnose(tmp_path)
    assert repr(found) == f"Diagnosis({found.run}: {found.summary})"
    frame = found.to_pandas()
    assert frame["code"].tolist() == [finding.code for finding in found.findings]
    assert frame["queries"].tolist() == [len(finding.queries) for finding in found.findings]
    assert found.findings[0].title in found._repr_html_()


def test_values_that_are_all_equal_have_no_interval_and_the_evidence_says_so() -> None:
    gold = {f"q{i}": {"a": 2, "b": 1} for i in range(15)}
    found = karat.diagnose(gold, {q: ["a", "x", "b"] for q in gold})
    (finding,) = found.findings
    assert finding.code == "distractors"
    precision = next(e for e in finding.evidence if e.value == "precision at R")
    assert str(precision) == "precision at R 0.500 < 0.75 (n=15; all values are equal, which gives no interval)"
    assert precision.as_json()["ci"] == [None, None]
    assert all(e.interval.low != e.interval.high for e in (*finding.evidence, *found.measured))


def test_a_diagnosis_says_what_is_odd_about_the_data_as_an_evaluation_does(tmp_path: Path) -> None:
    gold = {f"q{i:03}": {"a": 1} for i in range(100)}
    run = {q: [] if i % 3 == 0 else ["a", "b"] for i, q in enumerate(gold)}
    text = "nothing was returned for 34 judged queries"
    assert text in karat.evaluate(gold, run, "mrr").notes
    found = karat.diagnose(gold, run)
    assert text in found.as_json()["remarks"]
    assert text in found.table().notes
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    (tmp_path / "run.json").write_text(json.dumps(run))
    assert text in run_karat("diagnose", "gold.json", "run.json", cwd=tmp_path).stdout
    assert text not in karat.diagnose(gold, {q: ["a", "b"] for q in gold}).as_json()["remarks"]


@pytest.mark.parametrize("held", [6, 10])
def test_a_pool_that_could_fill_the_top_5_costs_nothing_and_a_bad_order_costs_what_the_top_5_lack(held: int) -> None:
    """Of 20 relevant docs the pool holds 6 or 10, two of them at the top: recall(cap=true)@5 is 2/5, and could be 1."""
    gold = {f"q{i:02d}": {f"d{j}": 1 for j in range(20)} for i in range(60)}
    listed = ["d0", "d1", *(f"x{j}" for j in range(50 - held)), *(f"d{j}" for j in range(2, held))]
    findings = karat.diagnose(gold, dict.fromkeys(gold, listed)).findings
    assert [(f.code, f.weight, len(f.queries)) for f in findings] == [("reranker-or-k", pytest.approx(1 - 2 / 5), 60)]


def test_a_gap_names_the_value_here_and_in_the_rest() -> None:
    """Each kind has 40 queries: of kind b 4 have the doc in the top 5 (0.1), of kind a 36 (0.9). The gap is 0.8."""
    ids = [f"q{i:02}" for i in range(80)]
    gold = {q: ["a"] for q in ids}
    run = {q: ["a"] if (i // 2) % 10 < (1 if i % 2 else 9) else ["x"] for i, q in enumerate(ids)}
    table = {q: {"kind": "ab"[i % 2]} for i, q in enumerate(ids)}
    (finding,) = (f for f in karat.diagnose(gold, run, queries=table).findings if f.code == "segment")
    (gap,) = (e for e in finding.evidence if e.sides is not None)
    assert finding.subject == "kind=b" and gap.sides == pytest.approx((0.1, 0.9))
    assert "lower here than in the rest (0.100 here, 0.900 in the rest; a gap: from 0.05; n=40)" in str(gap)
    assert (gap.as_json()["here"], gap.as_json()["rest"]) == pytest.approx((0.1, 0.9))
