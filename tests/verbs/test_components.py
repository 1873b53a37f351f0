"""The parts of a pipeline: values worked by hand, what is missing, sums that must add up, bad input."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import karat
from karat.cli import main
from karat.gates import parse_gate
from karat.read.objects import build_qrels, qrels_by_doc
from karat.report.terminal.components import counts_text
from karat.stats.intervals import clopper_pearson
from karat.stats.ratios import ratio_interval
from karat.stats.resample import Units
from karat.verbs.components import with_components
from places import DL19, SCHEMAS

SCHEMA = jsonschema.Draft202012Validator(json.loads((SCHEMAS / "result.schema.json").read_text()))
PARTS = ("retriever", "reranker", "funnel", "router", "gate", "rewriting", "no_answer", "entities", "levels")


def line(query: str, top: Sequence[Any] = (), /, **fields: Any) -> dict[str, Any]:
    """A line of a run log; an item is a chunk id, a pair of id and score, or a dict of fields."""
    items = [
        i if isinstance(i, dict) else {"chunk_id": i} if isinstance(i, str) else {"chunk_id": i[0], "score": i[1]}
        for i in top
    ]
    return {"query_id": query, "topk": items, **fields}


def written(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run_cli(*arguments: object) -> int:
    sys.argv = ["karat", *map(str, arguments)]
    try:
        main()
    except SystemExit as stopped:
        return int(stopped.code or 0)
    return 0


def estimates(part: Any) -> dict[str, float]:
    return {name: found.estimate for name, found in part.figures.items()}


# --- raw retriever ------------------------------------------------------------------------------------


def test_the_raw_retriever_is_the_first_stage() -> None:
    """q1: 1 of 2 gold docs, first at rank 2: recall .5, mrr .5. q2 is not in the log: 0 and 0. Means .25."""
    log = [line("q1", ["a"], stages={"fetch": ["x", "a"], "rerank": ["a"]})]
    found = karat.components({"q1": ["a", "b"], "q2": ["c"]}, log).retriever
    assert estimates(found) == {"recall@50": 0.25, "recall@100": 0.25, "mrr@50": 0.25}
    assert found.tables["stage"] == "fetch"
    assert "at most 2 docs" in found.notes[0]


def test_a_stage_is_matched_by_the_docs_that_the_log_names_in_evaluate_too(tmp_path: Path) -> None:
    """c1 belongs to d1, as the final list of the other line says: recall@50 of q is 1, of r 1."""
    log = [
        line("q", [], stages={"retrieve": ["c1"]}),
        line("r", [{"chunk_id": "c1", "doc_id": "d1"}], stages={"retrieve": ["x", "c1"]}),
    ]
    gold = {"q": ["d1"], "r": ["d1"]}
    assert karat.components(gold, log).retriever["recall@50"].estimate == 1.0
    path = written(tmp_path / "log.jsonl", log)
    assert karat.evaluate(gold, path, "recall@50", stage="retrieve").mean["recall@50"] == 1.0


def test_recall_at_50_and_at_100_differ_by_what_stands_between() -> None:
    """Gold at ranks 50 and 51: one of two in the top 50, both in the top 100."""
    log = [line("q", stages={"retrieve": [*(f"x{i}" for i in range(49)), "a", "b"]})]
    assert estimates(karat.components({"q": ["a", "b"]}, log).retriever) == {
        "recall@50": 0.5,
        "recall@100": 1.0,
        "mrr@50": 1 / 50,
    }


def test_a_line_without_the_first_stage_is_left_out_and_said_to_be() -> None:
    log = [line("q1", stages={"retrieve": ["a"]}), line("q2", ["b"])]
    found = karat.components({"q1": ["a"], "q2": ["b"]}, log).retriever
    assert (found["recall@50"].estimate, found["recall@50"].n) == (1.0, 1)
    assert "1 of 2 lines lack stage 'retrieve'" in found.notes[0]


# --- reranker -----------------------------------------------------------------------------------------


def test_the_reranker_against_its_input_by_hand() -> None:
    """k = 2. q1: gold a at rank 3, then 1: ndcg@2 0 → 1, precision 0 → .5; a came in.
    q2: gold b at rank 1, then 2: ndcg 1 → 1/log2(3) = .6309, precision .5 → .5.
    q3: gold c at 2, then 3: ndcg .6309 → 0, precision .5 → 0; c fell out."""
    second = 1 / math.log2(3)
    log = [
        line("q1", stages={"retrieve": ["x", "y", "a"], "rerank": ["a", "x"]}),
        line("q2", stages={"retrieve": ["b", "x"], "rerank": ["x", "b"]}),
        line("q3", stages={"retrieve": ["x", "c"], "rerank": ["x", "y", "c"]}),
    ]
    found = karat.components({"q1": ["a"], "q2": ["b"], "q3": ["c"]}, log, k=2).reranker
    ndcg, precision = found["ndcg@2"], found["precision@2"]
    assert ndcg.mean_baseline == pytest.approx((0 + 1 + second) / 3)
    assert ndcg.mean_candidate == pytest.approx((1 + second + 0) / 3)
    assert ndcg.delta == pytest.approx(0.0)
    assert (precision.mean_baseline, precision.mean_candidate) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert ndcg.difference.low < 0 < ndcg.difference.high
    assert (ndcg.wins, ndcg.losses) == (1, 2)
    assert 0 < ndcg.p["randomization"] <= 1
    assert (found.counts["promoted"], found.counts["demoted"]) == (1, 1)
    assert found.per_query == {"q1": {"promoted": ["a"], "demoted": []}, "q3": {"promoted": [], "demoted": ["c"]}}
    assert (found.tables["before"], found.tables["after"]) == ("retrieve", "rerank")


def test_percentage_improvement_is_of_the_value_before_and_undefined_at_zero() -> None:
    """.5 → 1 is +100%; 0 → 1 has no percentage, and is null in JSON, not infinite."""
    gold = {"q1": ["a"], "q2": ["b"]}
    doubled = karat.rerank_metrics(gold, {"q1": ["a"], "q2": ["x", "b"]}, {"q1": ["a"], "q2": ["b"]}, k=1).as_json()
    assert doubled["changes"]["precision@1"]["improvement"] == 100.0
    from_zero = karat.rerank_metrics(gold, {"q1": ["x", "a"]}, {"q1": ["a"]}, k=1).as_json()
    assert from_zero["changes"]["precision@1"]["improvement"] is None
    assert from_zero["changes"]["precision@1"]["delta"] == 1.0
    json.dumps(from_zero, allow_nan=False)


def test_a_query_that_the_log_lacks_does_not_dilute_the_difference() -> None:
    log = [line("q1", stages={"retrieve": ["x", "a"], "rerank": ["a", "x"]})]
    found = karat.components({"q1": ["a"], "q2": ["b"]}, log, k=1).reranker
    assert (found["precision@1"].delta, found["precision@1"].n) == (1.0, 1)


@pytest.mark.parametrize("name", ["rerank", "Re-Rank", "cross_encoder_reranker"])
def test_the_reranking_stage_is_known_by_its_name(name: str) -> None:
    log = [line("q", stages={"bm25": ["x", "a"], "fuse": ["x", "a"], name: ["a"]})]
    found = karat.components({"q": ["a"]}, log, k=1).reranker
    assert (found.tables["before"], found.tables["after"]) == ("fuse", name)


# --- stage funnel -------------------------------------------------------------------------------------


def test_the_funnel_by_hand() -> None:
    """k = 2, gold a b c d e: a is delivered, b is third (cut), c in the last stage and not returned (cut),
    d is lost at rerank, e was never retrieved; g of q2 was never retrieved either. 6 docs in all."""
    gold = {"q1": {"a": 1, "b": 2, "c": 1, "d": 1, "e": 3, "f": 0}, "q2": {"g": 1}}
    stages = {"q1": {"retrieve": ["a", "b", "c", "d", "x"], "rerank": ["a", "b", "c", "y"]}}
    found = karat.stage_funnel(gold, stages, {"q1": ["a", "x", "b"]}, k=2)
    assert found.per_query["q1"] == {"gold": 5, "never_retrieved": 1, "lost_at.rerank": 1, "cut": 2, "delivered": 1}
    assert found.per_query["q2"]["never_retrieved"] == 1
    assert found.counts == {
        "queries": 2,
        "gold": 6,
        "never_retrieved": 2,
        "lost_at.rerank": 1,
        "cut": 2,
        "delivered": 1,
        "came_late": 0,
    }
    assert found["delivered"].estimate == pytest.approx(1 / 6)


def test_a_doc_that_comes_in_late_is_lost_after_the_last_stage_that_holds_it_and_counted() -> None:
    """b comes in at fuse and is lost at rerank; c at the final list alone, and is delivered."""
    stages = {"q": {"retrieve": ["a"], "fuse": ["a", "b"], "rerank": ["a"]}}
    found = karat.stage_funnel({"q": {"a": 1, "b": 1, "c": 1}}, stages, {"q": ["a", "c"]}, k=5)
    assert found.counts["lost_at.rerank"] == 1
    assert found.counts["delivered"] == 2
    assert found.counts["came_late"] == 2
    assert "2 relevant docs" in found.notes[0]


def test_a_line_without_a_stage_loses_nothing_there() -> None:
    """q2 was not reranked: its doc goes from retrieve to the final list, and is cut there."""
    stages = {"q1": {"retrieve": ["a"], "rerank": []}, "q2": {"retrieve": ["b"]}}
    found = karat.stage_funnel({"q1": {"a": 1}, "q2": {"b": 1}}, stages, {}, k=5)
    assert (found.counts["lost_at.rerank"], found.counts["cut"]) == (1, 1)


def test_queries_with_results_that_lack_stages_are_told() -> None:
    """q2 was not reranked and q3 has no stages; q4 returned nothing, so that its stages are none either."""
    gold = {q: {"a": 1} for q in ("q1", "q2", "q3", "q4")}
    stages = {"q1": {"retrieve": ["a"], "rerank": ["a"]}, "q2": {"retrieve": ["a"]}}
    found = karat.stage_funnel(gold, stages, {"q1": ["a"], "q2": ["a"], "q3": ["x"]}, k=5)
    assert found.notes == (
        "1 query with results but no stages: what was not returned counts as never_retrieved",
        "1 query without the stage rerank: no doc is lost there",
    )


def test_the_funnel_of_a_log_with_gold_by_doc_follows_the_docs_of_its_chunks() -> None:
    """d1 is delivered by another chunk than was retrieved first; the log says that c9 belongs to d2, and d2 is lost."""
    log = [
        line("q", ["d1#2"], stages={"retrieve": ["d1#1", "c9"], "rerank": ["d1#2"]}),
        line("r", [{"chunk_id": "c9", "doc_id": "d2"}], stages={"retrieve": ["c9"], "rerank": ["c9"]}),
    ]
    found = karat.components({"q": ["d1", "d2"], "r": ["d2"]}, log).funnel
    assert found.per_query["q"] == {"gold": 2, "never_retrieved": 0, "lost_at.rerank": 1, "cut": 0, "delivered": 1}


def test_queries_whose_gold_is_empty_can_be_skipped() -> None:
    """With empty_gold=skip nothing is left to compare, and that is said, not a crash."""
    log = [line("q", ["a"], rewritten_query="r", topk_original=[], stages={"retrieve": ["a"], "rerank": ["a"]})]
    found = karat.components({"q": {"a": 0}}, log, empty_gold="skip")
    assert set(found.missing) >= {"funnel", "reranker", "rewriting"}


def test_ids_in_stages_whose_doc_nobody_names_are_counted() -> None:
    log = [line("q", [{"chunk_id": "c1", "doc_id": "d1"}], stages={"retrieve": ["c1", "c2", "c3"]})]
    found = karat.components({"q": ["d1", "d2"]}, log).funnel
    assert found.counts["unknown_docs"] == 2
    assert any("2 ids in stages" in note for note in found.notes)


def test_skipped_retrieval_is_told_beside_the_funnel() -> None:
    log = [line("q", [], retrieved=False), line("r", ["b"])]
    found = karat.components({"q": ["a", "c"], "r": ["b"]}, log).funnel
    assert any("retrieval was skipped for the queries of 2 relevant docs" in note for note in found.notes)


DOCS = st.lists(st.sampled_from([f"d{i}#{j}" for i in range(4) for j in range(3)]), max_size=8)
LINES = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3", "q4"]),
    st.tuples(DOCS, st.dictionaries(st.sampled_from(["retrieve", "fuse", "rerank"]), DOCS, max_size=3)),
    min_size=1,
)
GRADES = st.sampled_from([0, 1, 2, 3, -1])


@given(
    lines=LINES,
    chunks=st.dictionaries(
        st.sampled_from(["q1", "q2", "q3", "q5"]),
        st.dictionaries(st.sampled_from([f"d{i}#{j}" for i in range(5) for j in range(2)]), GRADES, min_size=1),
        min_size=1,
    ),
    by_doc=st.booleans(),
    k=st.integers(1, 4),
)
def test_the_funnel_adds_up_and_delivers_what_recall_counts(
    lines: Any, chunks: dict[str, dict[str, int]], by_doc: bool, k: int
) -> None:
    """Never retrieved + lost + cut + delivered = relevant gold docs; delivered / relevant = recall@k, by query."""
    gold = {q: {d.partition("#")[0] if by_doc else d: g for d, g in docs.items()} for q, docs in chunks.items()}
    log = [line(q, final, stages=stages) for q, (final, stages) in lines.items()]
    level = "doc" if by_doc else "chunk"
    found = karat.components(gold, log, k=k, level=level, resamples=100)  # no interval is looked at
    relevant = {q: sum(g >= 1 for g in docs.values()) for q, docs in gold.items()}
    if not any(relevant.values()):
        assert "relevant" in found.funnel.missing
        return
    ends = [e for e in found.funnel.figures if e != "gold"]
    for q, row in found.funnel.per_query.items():
        assert sum(row.get(e, 0) for e in ends) == row["gold"] == relevant[q]
        assert min(row.values()) >= 0
    assert sum(found.funnel.counts[e] for e in ends) == found.funnel.counts["gold"] == sum(relevant.values())
    assert sum(f.estimate for f in found.funnel.figures.values()) == pytest.approx(1.0)
    plain = {q: final for q, (final, _) in lines.items()}
    if any(plain.values()) and gold.keys() & plain.keys():
        recall = karat.evaluate(gold, plain, f"recall@{k}", level=level, cache=False).per_query(f"recall@{k}")
        for q, row in found.funnel.per_query.items():
            assert row["delivered"] / row["gold"] == pytest.approx(recall[q])


# --- router -------------------------------------------------------------------------------------------

EXPECTED = {"q1": "faq", "q2": "faq", "q3": "wiki", "q4": "wiki", "q5": "wiki"}
ROUTES = {"q1": "faq", "q2": "wiki", "q3": "wiki", "q4": None}


def test_the_router_by_hand() -> None:
    """Right: q1, q3 (2 of 5). Wrong: q2 (1 of 5). Nowhere: q4, and q5, which was not logged (2 of 5)."""
    found = karat.router_metrics(ROUTES, EXPECTED)
    assert estimates(found) == {
        "routing_accuracy": 0.4,
        "misroute_rate": 0.2,
        "abstain_rate": 0.4,
        "source_share.faq": 0.2,
        "source_share.wiki": 0.4,
    }
    assert found.tables["confusion"] == {"faq": {"faq": 1, "wiki": 1}, "wiki": {"(none)": 2, "wiki": 1}}
    accuracy = found["routing_accuracy"]
    assert (accuracy.method, accuracy.n) == ("clopper-pearson", 5)
    assert (accuracy.low, accuracy.high) == pytest.approx(clopper_pearson(2, 5, 0.95))
    assert found.counts["not_logged"] == 1


def test_recall_by_expected_source_is_of_the_queries_that_have_gold() -> None:
    """faq: recall@1 of q1 1 and of q2 0, mean .5; wiki: q3 alone has gold, 1."""
    log = [line("q1", ["a"], route="faq"), line("q2", ["x"], route="wiki"), line("q3", ["c"], route="wiki")]
    queries = {q: {"expected_source": s} for q, s in EXPECTED.items() if q < "q5"}
    found = karat.components({"q1": ["a"], "q2": ["b"], "q3": ["c"]}, log, queries=queries, k=1).router
    assert (found["recall@1.faq"].estimate, found["recall@1.faq"].n) == (0.5, 2)
    assert (found["recall@1.wiki"].estimate, found["recall@1.wiki"].n) == (1.0, 1)


SOURCES = st.sampled_from(["faq", "wiki", "news"])


@given(
    expected=st.dictionaries(st.integers(0, 30).map(str), SOURCES, min_size=1),
    routes=st.dictionaries(st.integers(0, 30).map(str), SOURCES | st.none()),
)
def test_right_wrong_and_nowhere_add_up_to_one(expected: dict[str, str], routes: dict[str, str | None]) -> None:
    found = karat.router_metrics(routes, expected)
    parts = [found[n].estimate for n in ("routing_accuracy", "misroute_rate", "abstain_rate")]
    assert sum(parts) == pytest.approx(1.0)
    shares = [f.estimate for n, f in found.figures.items() if n.startswith("source_share.")]
    assert sum(shares) + parts[2] == pytest.approx(1.0)
    assert sum(sum(row.values()) for row in found.tables["confusion"].values()) == len(expected)
    for figure in found.figures.values():
        assert 0 <= figure.estimate <= 1
        assert figure.low != figure.low or 0 <= figure.low <= figure.estimate <= figure.high <= 1


def test_weights_and_conversations_are_honoured() -> None:
    """Weights 3 and 1: right on the heavy one, so 3/4; two queries of one conversation are one unit: no interval."""
    queries = {"a": {"weight": 3}, "b": {"weight": 1}}
    found = karat.router_metrics({"a": "x", "b": "y"}, {"a": "x", "b": "x"}, queries=queries)
    assert found["routing_accuracy"].estimate == 0.75
    together = {"a": {"conversation": "c"}, "b": {"conversation": "c"}}
    found = karat.router_metrics({"a": "x", "b": "y"}, {"a": "x", "b": "x"}, queries=together)
    assert found["routing_accuracy"].method == "none"


def test_queries_that_all_weigh_nothing_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = whole(tmp_path)
    queries = [{**json.loads(x), "weight": 0} for x in files["queries"].read_text().splitlines()]
    written(files["queries"], queries)
    asked = ("evaluate", files["gold"], files["log"], "--components", "--threshold", 8, "--queries", files["queries"])
    assert run_cli(*asked, "-m", "recall@5") == 2
    assert "the weight of every query is 0, which leaves every mean undefined" in capsys.readouterr().err


# --- retrieval gate -----------------------------------------------------------------------------------


def test_the_retrieval_gate_by_hand() -> None:
    """5 queries; q1, q2, q3 skip. q1, q2, q5 need nothing: 2 correct skips of 5 queries, of 3 skips and of 3 that
    need none; q3 is 1 harmful skip of the 2 that need retrieval."""
    retrieved = {"q1": False, "q2": False, "q3": False, "q4": True, "q5": True}
    needs = {"q1": False, "q2": False, "q3": True, "q4": True, "q5": False}
    found = karat.gate_metrics(retrieved, needs)
    assert estimates(found) == {
        "gate_efficiency": 2 / 5,
        "skip_precision": pytest.approx(2 / 3),
        "skip_recall": pytest.approx(2 / 3),
        "harmful_skips": 1 / 2,
    }
    assert [found[n].n for n in found.figures] == [5, 3, 3, 2]
    assert found["skip_precision"].low == pytest.approx(clopper_pearson(2, 3, 0.95)[0])
    assert "skipping everything" in found.notes[0]


def test_a_log_that_marks_skips_alone_says_that_the_other_queries_were_retrieved_for(tmp_path: Path) -> None:
    """q1 and q2 are marked as skips, q3 has results, and q4 has neither a mark nor results: unknown."""
    log = written(
        tmp_path / "log.jsonl",
        [
            {"query_id": "q1", "retrieved": False, "topk": []},
            {"query_id": "q2", "retrieved": False, "topk": []},
            {"query_id": "q3", "topk": [{"chunk_id": "d3"}]},
            {"query_id": "q4", "topk": []},
        ],
    )
    needs = {"q1": False, "q2": True, "q3": True, "q4": True}
    queries = {q: {"needs_retrieval": need} for q, need in needs.items()}
    gold = {q: {f"d{q[1]}": 1} for q in needs}
    asked = ["gate_efficiency", "harmful_skips"]
    found = karat.evaluate(gold, str(log), asked, queries=queries)
    assert found.mean == {"gate_efficiency": pytest.approx(1 / 3), "harmful_skips": 0.5}
    part = karat.components(gold, str(log), queries=queries).gate
    assert part["gate_efficiency"].estimate == pytest.approx(1 / 3)
    assert (part.counts["queries"], part.counts["not_logged"]) == (3, 1)


def test_skipping_everything_is_efficient_and_harms_everyone_who_needs_retrieval() -> None:
    found = karat.gate_metrics(dict.fromkeys("abcd", False), {"a": False, "b": False, "c": True, "d": True})
    assert (found["gate_efficiency"].estimate, found["skip_recall"].estimate) == (0.5, 1.0)
    assert (found["skip_precision"].estimate, found["harmful_skips"].estimate) == (0.5, 1.0)


def test_a_share_of_nothing_is_undefined() -> None:
    """Nobody skips: no precision of skips. Everybody needs retrieval: no recall of skips."""
    found = karat.gate_metrics({"a": True, "b": True}, {"a": True, "b": True})
    assert math.isnan(found["skip_precision"].estimate)
    assert math.isnan(found["skip_recall"].estimate)
    assert found.as_json()["figures"]["skip_precision"] == {"mean": None, "ci": None, "ci_method": "none", "n": 0}


@given(st.dictionaries(st.integers(0, 40).map(str), st.tuples(st.booleans(), st.booleans()), min_size=1))
def test_rates_of_the_gate_stay_between_0_and_1(pairs: dict[str, tuple[bool, bool]]) -> None:
    found = karat.gate_metrics({q: a for q, (a, _) in pairs.items()}, {q: b for q, (_, b) in pairs.items()})
    for figure in found.figures.values():
        assert figure.estimate != figure.estimate or 0 <= figure.estimate <= 1
    assert found["gate_efficiency"].estimate <= sum(not b for _, b in pairs.values()) / len(pairs) + 1e-12


# --- query rewriting ----------------------------------------------------------------------------------


def test_rewriting_is_compared_on_the_queries_that_were_rewritten() -> None:
    """recall@1: q1 0 → 1, q2 1 → 0, q3 0 → 1: Δ = 1/3, 2 won, 1 lost; q4 was not rewritten."""
    log = [
        line("q1", ["a"], rewritten_query="better", topk_original=[{"chunk_id": "x"}]),
        line("q2", ["x"], rewritten_query="worse", topk_original=[{"chunk_id": "b"}]),
        line("q3", ["c"], rewritten_query="better", topk_original=[]),
        line("q4", ["d"], topk_original=[{"chunk_id": "x"}]),
    ]
    found = karat.components({"q1": ["a"], "q2": ["b"], "q3": ["c"], "q4": ["d"]}, log, k=1).rewriting
    change = found["recall@1"]
    assert (change.mean_baseline, change.mean_candidate) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert (change.delta, change.wins, change.losses, change.n) == (pytest.approx(1 / 3), 2, 1, 3)
    assert change.difference.low < change.delta < change.difference.high
    assert set(found.changes) == {"ndcg@1", "recall@1", "precision@1", "mrr@1"}


def test_rewriting_for_those_who_have_no_log() -> None:
    found = karat.rewrite_metrics({"q": ["a"], "r": ["b"]}, {"q": ["x"], "r": ["b"]}, {"q": ["a"], "r": ["b"]}, k=1)
    assert found["recall@1"].delta == 0.5
    assert "1 of 2 rewritten queries found exactly what the original did" in found.notes


# --- no answer ----------------------------------------------------------------------------------------


def test_false_evidence_by_hand() -> None:
    """k = 2, threshold 5: n1's best in the top 2 is 6 (its 9 stands third), n2's 4, n3 got nothing: 1 of 3."""
    top = {"n1": [("a", 6), ("b", 1), ("c", 9)], "n2": [("a", 4)], "n3": []}
    found = karat.no_answer_metrics(top, ["n1", "n2", "n3"], k=2, threshold=5)
    assert found["false_evidence@2"].estimate == pytest.approx(1 / 3)
    assert found["false_evidence@2"].low == pytest.approx(clopper_pearson(1, 3, 0.95)[0])
    at_the_score = karat.no_answer_metrics(top, ["n1", "n2", "n3"], k=2, threshold=4)
    assert at_the_score["false_evidence@2"].estimate == pytest.approx(2 / 3)


def test_the_curve_sets_false_evidence_against_recall_at_each_threshold() -> None:
    """Best scores without an answer: 3 and 7. Gold of q: a at 8, b at 5, c not returned: recall 2/3 up to 5, then
    1/3 up to 8."""
    top = {"n1": [("x", 3.0)], "n2": [("x", 7.0)], "q": [("a", 8.0), ("y", 6.0), ("b", 5.0)]}
    found = karat.no_answer_metrics(top, ["n1", "n2"], gold={"q": {"a": 1, "b": 1, "c": 1}})
    curve = found.tables["curve"]
    assert curve["threshold"] == [3.0, 5.0, 7.0, 8.0]
    assert curve["false_evidence"] == [1.0, 0.5, 0.5, 0.0]
    assert curve["recall"] == pytest.approx([2 / 3, 2 / 3, 1 / 3, 1 / 3])
    assert "none was stated" in found.notes[0]
    assert not found.figures


def test_a_long_curve_is_thinned_and_says_so() -> None:
    """1,000 scores: 500 points are kept, the lowest and the highest among them."""
    top = {f"n{i}": [("x", float(i))] for i in range(1000)}
    found = karat.no_answer_metrics(top, list(top), resamples=100)
    curve = found.tables["curve"]
    assert (len(curve["threshold"]), curve["threshold"][0], curve["threshold"][-1]) == (500, 0.0, 999.0)
    assert (curve["false_evidence"][0], curve["false_evidence"][-1]) == (1.0, pytest.approx(0.001))
    assert any("500 of its 1,000 thresholds" in note for note in found.notes)


def test_a_judges_grades_on_queries_without_an_answer_are_evidence_too() -> None:
    """n1 got a doc that was graded 2, n2 one that was graded 0; n3 was not judged and leaves the share: 1 of 2."""
    top = {q: [("a", None)] for q in ("n1", "n2", "n3")}
    found = karat.no_answer_metrics(top, ["n1", "n2", "n3"], gold={"n1": {"a": 2}, "n2": {"a": 0}})
    assert (found["false_evidence(judged)@5"].estimate, found["false_evidence(judged)@5"].n) == (0.5, 2)
    assert counts_text(found) == "3 queries without an answer, 2 of them judged"
    gold = {"n1": {"a": 2}, "n2": {"a": 0}, "n3": {"a": 0}}
    assert counts_text(karat.no_answer_metrics(top, list(top), gold=gold)) == "3 queries without an answer"


def test_without_scores_and_without_a_judge_false_evidence_is_undefined() -> None:
    found = karat.no_answer_metrics({"n": [("a", None)]}, ["n"], threshold=1)
    assert not found.measured
    assert "no scores" in found.missing
    with pytest.raises(karat.ResultError, match="not measured"):
        found["false_evidence@5"]


def test_a_query_without_an_answer_that_the_run_lacks_is_left_out_not_praised() -> None:
    found = karat.no_answer_metrics({"n1": [("a", 9)]}, ["n1", "n2"], threshold=1)
    assert (found["false_evidence@5"].estimate, found["false_evidence@5"].n) == (1.0, 1)
    assert "1 of 2 no_answer queries" in found.notes[0]


def test_false_evidence_needs_no_log(tmp_path: Path) -> None:
    run = tmp_path / "trec.run"
    run.write_text("q Q0 a 1 8 t\nn1 Q0 a 1 7 t\nn2 Q0 b 1 2 t\n")
    queries = {"q": {}, "n1": {"no_answer": True}, "n2": {"no_answer": True}}
    found = karat.components({"q": ["a"]}, run, queries=queries, threshold=5)
    assert found.no_answer["false_evidence@5"].estimate == 0.5
    assert found.no_answer.tables["curve"]["recall"] == [1.0, 1.0, 1.0]
    measured = karat.evaluate({"q": ["a"]}, run, "false_evidence(threshold=5)@5,recall@5", queries=queries, cache=False)
    assert measured.mean["false_evidence(threshold=5)@5"] == 0.5
    assert measured.n["recall@5"] == 1


@given(
    st.dictionaries(
        st.sampled_from([f"n{i}" for i in range(5)] + [f"q{i}" for i in range(5)]),
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5)), max_size=5, unique_by=lambda x: x[0]),
        min_size=1,
    )
)
def test_curves_fall_and_stay_between_0_and_1(top: dict[str, list[tuple[str, float | None]]]) -> None:
    gold = {f"q{i}": {"a": 1.0, "b": 2.0} for i in range(5)}
    found = karat.no_answer_metrics(top, [f"n{i}" for i in range(5)], gold=gold, k=3)
    if found.measured and found.tables:
        for name in ("false_evidence", "recall"):
            values = found.tables["curve"][name]
            assert values == sorted(values, reverse=True)
            assert all(0 <= v <= 1 for v in values)


# --- entities -----------------------------------------------------------------------------------------


def test_entities_by_hand() -> None:
    """q1: found E1 E2 E3, gold E1 E2 E4 E5: 2 right. q2: found none, gold E1. q3: found E9, gold none.
    Micro: precision 2/4, recall 2/5, F1 2·2/(4+5) = 4/9. Macro: precision (2/3 + 0)/2 = 1/3 (q2 undefined),
    recall (2/4 + 0)/2 = 1/4 (q3 undefined), F1 (4/7 + 0 + 0)/3 = 4/21."""
    found = karat.entity_metrics(
        {"q1": ["E1", "E2", "E3", "E1"], "q2": [], "q3": ["E9"]},
        {"q1": ["E1", "E2", "E4", "E5"], "q2": ["E1"], "q3": []},
    )
    assert estimates(found) == pytest.approx(
        {
            "entity_precision": 2 / 4,
            "entity_recall": 2 / 5,
            "entity_f1": 4 / 9,
            "entity_precision(average=macro)": 1 / 3,
            "entity_recall(average=macro)": 1 / 4,
            "entity_f1(average=macro)": 4 / 21,
        }
    )
    assert (found["entity_precision"].n, found["entity_recall"].n, found["entity_f1"].n) == (2, 2, 3)
    assert found.per_query["q1"] == {"missed": ["E4", "E5"], "wrong": ["E3"]}


def test_entities_of_nobody_are_undefined() -> None:
    found = karat.entity_metrics({"q": []}, {"q": []})
    assert all(math.isnan(f.estimate) for f in found.figures.values())


def test_a_query_that_the_log_lacks_found_no_entity() -> None:
    """1 of 2 gold entities: q2 is not in the log. q3's line has no entities and is left out."""
    queries = {"q1": {"entities": ["E1"]}, "q2": {"entities": ["E2"]}, "q3": {"entities": ["E3"]}}
    log = [line("q1", entities=["E1"]), line("q3")]
    found = karat.components({"q1": ["a"]}, log, queries=queries).entities
    assert found["entity_recall"].estimate == 0.5
    assert found.notes == (
        "counted as without entities: 1 query without a line",
        "left out: 1 query whose line lacks `entities`",
    )


@pytest.mark.parametrize("missing", ["zero", "skip"])
def test_every_part_that_counts_queries_without_a_line_says_how_many(missing: str) -> None:
    """q3 and q4 have no line: with q1 and q2 half of the pool's recall, or all of it without them."""
    gold = {f"q{i}": ["a"] for i in range(1, 5)}
    log = [line(q, ["a"], stages={"retrieve": ["a"]}, entities=["E"]) for q in ("q1", "q2")]
    queries = {q: {"entities": ["E"]} for q in gold}
    found = karat.components(gold, log, queries=queries, missing=missing)
    assert found.retriever["recall@50"].estimate == (0.5 if missing == "zero" else 1.0)
    for part, outcome in (
        (found.retriever, "empty lists"),
        (found.funnel, "never retrieved"),
        (found.entities, "without entities"),
    ):
        start = "left out" if missing == "skip" else f"counted as {outcome}"
        assert f"{start}: 2 queries without a line" in part.notes


def test_queries_without_a_line_and_lines_without_a_field_are_counted_apart(tmp_path: Path) -> None:
    """q1 alone has all fields; the line of q2 has none, q3 and q4 have no line."""
    fields = {"expected_source": "faq", "needs_retrieval": True, "entities": ["E1"]}
    queries = {f"q{i}": fields | {"weight": i} for i in range(1, 5)}
    log = [line("q1", ["a"], route="faq", retrieved=True, entities=["E1"]), line("q2")]
    found = karat.components({"q1": ["a"]}, log, queries=queries)
    both = "1 query whose line lacks `{}`, 2 queries without a line"
    assert found.gate.notes[1] == f"left out: {both.format('retrieved')}"
    assert found.router.notes[0] == f"counted as sent nowhere: {both.format('route')}"
    assert (found.router.counts["right"], found.router.counts["nowhere"]) == (1, 3)
    assert found.entities.notes == (  # those without a line found nothing: 1 of 3 entities
        "counted as without entities: 2 queries without a line",
        "left out: 1 query whose line lacks `entities`",
        "counts are of entities, shares by the weights of their queries",
    )
    assert (found.entities.counts["right"], found.entities.counts["gold"]) == (1, 3)
    result = karat.evaluate({"q1": ["a"]}, written(tmp_path / "log.jsonl", log), "abstain_rate", queries=queries)
    assert "3 of 4 queries have no `route`: counted as sent nowhere" in result.notes
    whole_log = [{**log[0], "query_id": q} for q in queries]
    assert karat.components({"q1": ["a"]}, whole_log, queries=queries).router.notes == (
        "counts are of queries as they are, shares by their weights",
    )


def test_the_interval_of_a_ratio_of_sums_is_that_of_a_mean_where_all_weigh_the_same() -> None:
    """With a denominator of 1 everywhere it is a mean: the same draws, the same BCa interval."""
    import numpy as np

    values = np.random.default_rng(0).random(60)
    mean = karat.interval(values, method="bca")
    ratio = ratio_interval(values, np.ones(60), Units.of(60), method="bca")
    assert (ratio.estimate, ratio.low, ratio.high) == pytest.approx((mean.estimate, mean.low, mean.high))


def test_the_interval_of_a_ratio_of_sums_covers_it_about_as_often_as_it_says() -> None:
    """300 samples of 60 queries with 0 to 6 entities, each right with probability .7: 95% intervals cover 92 to 98%."""
    import numpy as np

    rng = np.random.default_rng(5)
    covered = 0
    for seed in range(300):
        whole = rng.integers(0, 7, 60).astype(float)
        part = rng.binomial(whole.astype(int), 0.7).astype(float)
        found = ratio_interval(part, whole, Units.of(60), resamples=400, seed=seed)
        covered += 0.7 in found
    assert 0.92 <= covered / 300 <= 0.98


# --- chunks and docs ----------------------------------------------------------------------------------


def test_the_right_doc_with_the_wrong_chunk_shows_at_the_level_of_docs() -> None:
    """q: gold d1#1, found d1#2: recall@5 0 by chunk, 1 by doc. r: gold d2#1 (3) and d2#2 (1), found d2#1: recall 1/2 by
    chunk, 1 by doc. Means 1/4 and 1."""
    gold = {"q": {"d1#1": 1}, "r": {"d2#1": 3, "d2#2": 1}}
    found = karat.components(gold, [line("q", ["d1#2"]), line("r", ["d2#1"])]).levels
    assert (found["recall@5.chunk"].estimate, found["recall@5.doc"].estimate) == (0.25, 1.0)
    assert found["recall@5"].delta == 0.75
    assert found["ndcg@5.doc"].estimate == 1.0
    assert found.counts["gold_docs"] == 2


def test_the_docs_that_a_log_names_are_those_of_its_chunks() -> None:
    log = [line("q", [{"chunk_id": "c2", "doc_id": "d1"}]), line("r", [{"chunk_id": "c1", "doc_id": "d1"}])]
    found = karat.components({"q": {"c1": 1}, "r": {"c1": 1}}, log).levels
    assert (found["recall@5.chunk"].estimate, found["recall@5.doc"].estimate) == (0.5, 1.0)


# --- what is missing ----------------------------------------------------------------------------------

BARE = [line("q1", ["a"]), line("q2", ["b"])]
MISSING = {
    "retriever": "needs `stages` on the log's lines: 0 of 2 lines have stages",
    "reranker": "needs `stages` with `rerank` and a stage before it: 0 of 2 lines have both",
    "router": "needs `route` on the log's lines and `expected_source` in the table of queries: "
    "0 of 2 lines have route, 0 of 1 queries have expected_source",
    "gate": "needs `retrieved` on the log's lines and `needs_retrieval` in the table of queries: "
    "0 of 2 lines have retrieved, 0 of 1 queries have needs_retrieval",
    "rewriting": "needs `rewritten_query` and `topk_original` on the log's lines: "
    "0 of 2 lines have rewritten_query, 0 have both",
    "no_answer": "needs `no_answer` in the table of queries: 0 of 1 queries have no_answer",
    "entities": "needs `entities` on the log's lines and in the table of queries: "
    "0 of 2 lines have entities, 0 of 1 queries have entities",
    "levels": "needs gold by chunk, such as d12#p6: 0 of 2 judgments are of chunks",
}


def test_each_part_that_cannot_be_measured_says_which_field_is_missing_and_where() -> None:
    found = karat.components({"q1": ["a"], "q2": ["c"]}, BARE, queries={"q1": {"text": "?"}})
    assert found.missing == MISSING
    assert found.funnel.measured
    assert not found.router


def test_without_a_table_of_queries_that_is_said() -> None:
    found = karat.components({"q1": ["a"]}, [line("q1", ["a"], route="faq", retrieved=True, entities=["E"])])
    for part in (found.router, found.gate, found.entities, found.no_answer):
        assert "there is no table of queries" in part.missing
        assert "0 of 1 lines" not in part.missing


def test_a_run_that_is_no_log_says_so_for_each_part_that_needs_one() -> None:
    found = karat.components({"q1": ["a"]}, {"q1": {"a": 1.0}})
    assert {name for name, why in found.missing.items() if "run log" in why} == {
        "retriever",
        "reranker",
        "funnel",
        "router",
        "gate",
        "rewriting",
        "entities",
    }


def test_gold_by_doc_has_no_level_of_chunks() -> None:
    found = karat.components({"q": ["d1"]}, [line("q", ["d1#1"])])
    assert found.levels.missing == "needs gold by chunk, such as d12#p6: the gold names docs"


def test_asking_for_a_figure_that_a_part_lacks_names_the_nearest() -> None:
    found = karat.router_metrics(ROUTES, EXPECTED)
    with pytest.raises(karat.ResultError, match="did you mean 'routing_accuracy'"):
        found["routing_acuracy"]


# --- stress -------------------------------------------------------------------------------------------

QUERIES = {q: {"text": f"about {q}", "negatives": ["n1", "n2", "n3"]} for q in ("q1", "q2")}
TEXTS = {d: {"text": f"text of {d}"} for d in ("a", "b", "x", "y", "n1", "n2", "n3")}
STRESSED = [
    line("q1", stages={"retrieve": ["a", "x"], "rerank": ["a"]}),
    line("q2", stages={"retrieve": ["x", "b"], "rerank": ["b"]}),
]
GOLD = {"q1": ["a"], "q2": ["b"]}


def keep(query: str, docs: list[tuple[str, str]]) -> list[str]:
    """A reranker that believes its input."""
    return [doc for doc, _ in docs]


def know(query: str, docs: list[tuple[str, str]]) -> list[float]:
    """A reranker that no negative misleads."""
    return [float(doc in ("a", "b")) for doc, _ in docs]


def test_the_drop_by_hand() -> None:
    """Three negatives on top move a from rank 1 to 4 and b from 2 to 5: 1 → 1/log2(5) and 1/log2(3) → 1/log2(6)."""
    found = karat.stress(GOLD, STRESSED, keep, queries=QUERIES, docs=TEXTS)
    before = (1 + 1 / math.log2(3)) / 2
    after = (1 / math.log2(5) + 1 / math.log2(6)) / 2
    assert found.drop == pytest.approx(before - after)
    assert found.change.losses == 2
    assert [row.query_id for row in found.rows] == ["q1", "q2"]
    assert found.rows[0].drop == pytest.approx(1 - 1 / math.log2(5))
    assert found.rows[0].negatives_in_top == 3
    SCHEMA.validate(json.loads(json.dumps(found.as_json(), allow_nan=False)))


def test_a_reranker_that_is_not_misled_drops_by_nothing() -> None:
    found = karat.stress(GOLD, STRESSED, know, queries=QUERIES, docs=TEXTS)
    assert found.drop == 0
    assert found.change.ties == 2


def test_the_reranker_is_given_texts_and_the_negatives_first() -> None:
    seen = []

    def spy(query: str, docs: list[tuple[str, str]]) -> list[str]:
        seen.append((query, docs))
        return [doc for doc, _ in docs]

    karat.stress({"q1": ["a"]}, STRESSED, spy, queries=QUERIES, docs=TEXTS, insert=2)
    assert [d for d, _ in seen[0][1]] == ["a", "x"]
    assert [d for d, _ in seen[1][1]] == ["n1", "n2", "a", "x"]
    assert seen[1][0] == "about q1"
    assert seen[1][1][0] == ("n1", "text of n1")


def test_negatives_are_mined_from_another_run_without_what_is_relevant() -> None:
    """The other run's top for q1 is a (relevant), y, x: y and x are mined; x is moved up from where it stood."""
    queries = {q: {"text": q} for q in ("q1", "q2")}
    found = karat.stress(
        {"q1": {"a": 1, "y": 0}}, STRESSED, keep, queries=queries, docs=TEXTS, mine={"q1": ["a", "y", "x"]}
    )
    assert found.rows[0].negatives == ["y", "x"]
    assert found.rows[0].with_ == pytest.approx(1 / math.log2(4))
    assert "1 of 1 queries have fewer than 3 negatives" in found.notes
    assert found.source == "mined from run"
    with pytest.raises(karat.UsageError, match=r"another run to mine them from \(mine=, --mine RUN\)$"):
        karat.stress({"q1": {"a": 1}}, STRESSED, keep, queries={"q1": {"text": "q1"}}, docs=TEXTS)


def test_the_sample_is_drawn_by_the_seed() -> None:
    gold = {f"q{i}": ["a"] for i in range(30)}
    log = [line(q, ["a", "x"]) for q in gold]
    queries = {q: {"text": q, "negatives": ["n1"]} for q in gold}

    def drawn(seed: int) -> list[str]:
        found = karat.stress(gold, log, keep, queries=queries, docs=TEXTS, sample=10, seed=seed, resamples=100)
        assert found.left_out == 20
        return sorted(row.query_id for row in found.rows)

    assert drawn(1) == drawn(1) != drawn(2)


def test_errors_of_the_reranker_are_told_with_the_query() -> None:
    def fails(query: str, docs: list[tuple[str, str]]) -> list[float]:
        if query == "about q2":
            raise RuntimeError("no memory")
        return [0.0] * len(docs)

    with pytest.raises(
        karat.InputError, match=r'reranker fails: query "q2", without negatives: RuntimeError: no memory'
    ):
        karat.stress(GOLD, STRESSED, fails, queries=QUERIES, docs=TEXTS)


WRONG_ANSWERS: dict[str, tuple[Any, str]] = {
    "too few": ([1.0], "returned 1 values for 2 docs"),
    "not finite": ([1.0, math.nan], "must be a finite number"),
    "unknown doc": (["a", "zzz"], 'returned "zzz", which it was not given'),
    "nothing": (None, "TypeError"),
}


@pytest.mark.parametrize("name", WRONG_ANSWERS)
def test_a_reranker_that_answers_wrongly_is_told_so(name: str) -> None:
    answer, message = WRONG_ANSWERS[name]
    with pytest.raises(karat.InputError, match=message):
        karat.stress({"q1": ["a"]}, STRESSED, lambda q, d: answer, queries=QUERIES, docs=TEXTS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": {"q1": {"text": "?"}}}, "no query has negatives"),
        ({"queries": {"q1": {"text": "?", "negatives": ["unknown"]}}}, 'negative "unknown" has no text'),
        ({"queries": {"q1": {"text": "?", "negatives": ["a"]}}}, 'negative "a" is relevant in the gold'),
        ({"queries": {"q1": {"text": "?", "negatives": "n1"}}}, "negatives must be a list of ids"),
        ({"queries": {"q1": {"negatives": ["n1"]}}}, 'query "q1" has no text'),
        ({"docs": {"n1": {"text": "?"}, "n2": {"text": "?"}, "n3": {"text": "?"}}}, 'candidate "a"'),
        ({"reranker": "nowhere"}, "must be module:function"),
        ({"reranker": "no_such_module_here:f"}, "cannot be imported"),
        ({"reranker": "math:no_such"}, "nothing named 'no_such' there"),
        ({"insert": 0}, "insert must be an integer from 1"),
        ({"sample": True}, "sample must be an integer from 1"),
    ],
)
def test_stress_refuses_what_makes_no_sense(change: dict[str, Any], message: str) -> None:
    options = {"reranker": keep, "queries": QUERIES, "docs": TEXTS, **change}
    with pytest.raises(karat.KaratError, match=message):
        karat.stress({"q1": ["a"]}, STRESSED, options.pop("reranker"), **options)


def test_karat_stress_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_reranker.py").write_text("def keep(query, docs):\n    return [d for d, _ in docs]\n")
    written(Path("log.jsonl"), STRESSED)
    written(Path("q.jsonl"), [{"_id": q, **fields} for q, fields in QUERIES.items()])
    written(Path("d.jsonl"), [{"_id": d, **fields} for d, fields in TEXTS.items()])
    Path("gold.txt").write_text("q1 0 a 1\nq2 0 b 1\n")
    asked = ("stress", "gold.txt", "log.jsonl", "--queries", "q.jsonl", "--docs", "d.jsonl", "--reranker")
    assert run_cli(*asked, "my_reranker:keep", "--json", "out.json") == 0
    assert "ndcg@5 drops by 0.4067" in capsys.readouterr().out
    document = json.loads(Path("out.json").read_text())
    SCHEMA.validate(document)
    assert document["stress"]["drop"] == pytest.approx(0.4067, abs=1e-4)
    assert run_cli(*asked, "my_reranker:gone") == 2
    assert "nothing named 'gone' there" in capsys.readouterr().err


# --- metrics of the pipeline --------------------------------------------------------------------------

PIPELINE_QUERIES = {
    "q1": {"expected_source": "faq", "needs_retrieval": True, "language": "pt"},
    "q2": {"expected_source": "wiki", "needs_retrieval": True, "language": "en"},
    "n1": {"expected_source": "faq", "needs_retrieval": False, "language": "pt", "no_answer": True},
    "n2": {"expected_source": "faq", "needs_retrieval": "no", "language": "en"},
}
PIPELINE_LOG = [
    line("q1", [("a", 9)], route="faq", retrieved=True),
    line("q2", [("x", 8)], route="faq", retrieved=False),
    line("n1", [("y", 3)], route=None, retrieved=False),
    line("n2", [], route="faq", retrieved=True),
]
OUTCOMES = "routing_accuracy,misroute_rate,abstain_rate,gate_efficiency,skip_precision,skip_recall,harmful_skips"


def test_outcomes_as_metrics_are_over_all_queries_that_have_the_field(tmp_path: Path) -> None:
    """Gold has q1 and q2 alone. Routes: right q1, n2; wrong q2; nowhere n1. Gate: n1 a correct skip (of 4 queries, of 2
    skips, of 2 that need none), q2 a harmful one of 2. recall@5 stays over q1 and q2: (1 + 0)/2."""
    log = written(tmp_path / "log.jsonl", PIPELINE_LOG)
    found = karat.evaluate({"q1": ["a"], "q2": ["b"]}, log, f"{OUTCOMES},recall@5", queries=PIPELINE_QUERIES)
    assert list(found.mean.values()) == [0.5, 0.25, 0.25, 0.25, 0.5, 0.5, 0.5, 0.5]
    assert list(found.n.values()) == [4, 4, 4, 4, 2, 2, 2, 2]
    assert found.counts["queries"] == 2
    assert found.intervals["routing_accuracy"].method == "clopper-pearson"
    assert found.per_query("recall@5")["n2"] != found.per_query("recall@5")["n2"]


def test_outcomes_as_metrics_are_those_of_the_parts(tmp_path: Path) -> None:
    log = written(tmp_path / "log.jsonl", PIPELINE_LOG)
    gold = {"q1": ["a"], "q2": ["b"]}
    found = karat.evaluate(gold, log, OUTCOMES, queries=PIPELINE_QUERIES)
    parts = karat.components(gold, log, queries=PIPELINE_QUERIES)
    both = {**parts.router.figures, **parts.gate.figures}
    assert {n: both[n] for n in found.metrics} == dict(found.intervals)


def test_gates_segments_and_comparisons_work_on_outcomes(tmp_path: Path) -> None:
    log = written(tmp_path / "log.jsonl", PIPELINE_LOG)
    better = written(
        tmp_path / "better.jsonl",
        [{**x, "route": PIPELINE_QUERIES[x["query_id"]]["expected_source"]} for x in PIPELINE_LOG],
    )
    gold = {"q1": ["a"], "q2": ["b"]}
    options: dict[str, Any] = {"queries": PIPELINE_QUERIES, "by": "language"}
    result = karat.evaluate(gold, log, "routing_accuracy,ndcg@5", **options)
    by = {s.by["language"]: s.metrics["routing_accuracy"].estimate for s in result.segments}
    assert by == {"pt": 0.5, "en": 0.5}
    assert karat.check(result, "routing_accuracy >= 0.95").verdict == "BLOCK"  # Wilson of 2 of 4: up to .85
    assert karat.check(result, "routing_accuracy >= 0.5 at the mean").verdict == "SHIP"
    row = karat.compare(gold, {"old": log, "new": better}, "routing_accuracy", queries=PIPELINE_QUERIES)[
        "routing_accuracy"
    ]
    assert (row.delta, row.wins, row.losses) == (0.5, 2, 0)
    result.save(str(tmp_path / "r.json"))
    assert karat.load(str(tmp_path / "r.json")).mean["routing_accuracy"] == 0.5


def test_a_threshold_must_be_stated() -> None:
    with pytest.raises(karat.MetricError, match="needs a threshold"):
        karat.parse("false_evidence@5")
    assert karat.parse("false_evidence(threshold=0)@5").name == "false_evidence(threshold=0)@5"


@pytest.mark.parametrize(
    ("metric", "lines", "queries", "message"),
    [
        ("routing_accuracy", BARE, {"q1": {"expected_source": "faq"}}, "has no route"),
        ("routing_accuracy", PIPELINE_LOG, {"q1": {}}, "needs queries with a field expected_source"),
        ("skip_recall", BARE, {"q1": {"needs_retrieval": True}}, "has no retrieved"),
        ("skip_recall", PIPELINE_LOG, None, "needs queries with a field needs_retrieval"),
        ("false_evidence(threshold=1)@5", PIPELINE_LOG, {"q1": {}}, "needs queries with a field no_answer"),
        ("false_evidence(threshold=1)@5", BARE, {"q1": {"no_answer": True}}, "has no scores"),
    ],
)
def test_outcomes_that_cannot_be_measured_are_input_errors(
    tmp_path: Path, metric: str, lines: Any, queries: Any, message: str
) -> None:
    log = written(tmp_path / "log.jsonl", lines)
    with pytest.raises(karat.KaratError, match=message):
        karat.evaluate({"q1": ["a"], "q2": ["b"]}, log, metric, queries=queries)


# --- bad input ----------------------------------------------------------------------------------------

BAD_LINES: dict[str, tuple[dict[str, Any], str]] = {
    "route": ({"route": 7}, "route must be text, found 7"),
    "retrieved": ({"retrieved": "yes"}, 'retrieved must be true or false, found "yes"'),
    "stages": ({"stages": {"rerank": "a"}}, "stages"),
    "an id in stages": (
        {"stages": {"rerank": [1.5]}},
        'stage "rerank" must be a list of ids, such as ["d1", "d2"], found 1.5',
    ),
    "entities": ({"entities": "E1"}, 'entities must be a list of ids, such as ["d1", "d2"], found "E1"'),
    "an entity": ({"entities": [None]}, "entities must be a list of ids"),
    "query": ({"query": 3}, "query must be text"),
    "rewritten_query": ({"rewritten_query": ["x"]}, "rewritten_query must be text"),
    "topk_original": ({"topk_original": [{"score": 1}]}, "no chunk_id and no doc_id"),
    "topk_original's shape": ({"topk_original": ["a"]}, "topk_original"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_is_named_with_its_file_and_number(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fields, message = BAD_LINES[name]
    log = written(tmp_path / "log.jsonl", [line("q1", ["a"]), line("q2", ["b"], **fields)])
    with pytest.raises(karat.InputError, match=r"log\.jsonl:2: ") as found:
        karat.components({"q1": ["a"]}, log)
    assert message in str(found.value)
    (tmp_path / "gold.txt").write_text("q1 0 a 1\n")
    assert run_cli("evaluate", tmp_path / "gold.txt", log, "--components", "--json", "-") == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "log.jsonl:2: " in told.err
    errors = [(f.code, where) for f in karat.validate(runs=log).findings if f.severity == "error" for where in f.where]
    assert errors == [("F001", f"{log}:2")]  # validate finds what other verbs refuse


def test_a_fault_of_many_lines_is_one_problem(tmp_path: Path) -> None:
    stages = {"retrieve": [{"doc_id": "a"}]}
    log = written(
        tmp_path / "log.jsonl", [line("q0", ["a"]), *(line(f"q{i}", ["a"], stages=stages) for i in range(1, 7))]
    )
    with pytest.raises(karat.InputError) as error:
        karat.components({"q1": ["a"]}, log)
    assert error.value.problems == (
        f'{log}:2: stage "retrieve" must be a list of ids, such as ["d1", "d2"], found {{\'doc_id\': \'a\'}}; '
        "the same on 5 more lines: 3, 4, 5, …",
    )


@pytest.mark.parametrize(("field", "value"), [("route", 7), ("retrieved", "yes")])
def test_metrics_refuse_the_same_lines(tmp_path: Path, field: str, value: Any) -> None:
    log = written(tmp_path / "log.jsonl", [line("q1", ["a"]), line("q2", ["b"], **{field: value})])
    metric = {"route": "abstain_rate", "retrieved": "gate_efficiency"}[field]
    queries = {"q1": {"expected_source": "faq", "needs_retrieval": True}}
    with pytest.raises(karat.InputError, match=rf"log\.jsonl:2: {field} must be"):
        karat.evaluate({"q1": ["a"]}, log, metric, queries=queries)


BAD_QUERIES: dict[str, tuple[dict[str, Any], str]] = {
    "needs_retrieval": ({"needs_retrieval": "maybe"}, 'needs_retrieval must be true or false, found "maybe"'),
    "entities": ({"entities": "E1"}, 'entities must be a list of ids, found "E1"'),
    "expected_source": ({"expected_source": 1.5}, "expected_source must be text, found 1.5"),
}


@pytest.mark.parametrize("name", BAD_QUERIES)
def test_a_bad_field_of_the_queries_is_named_with_its_place(tmp_path: Path, name: str) -> None:
    fields, message = BAD_QUERIES[name]
    log = [line("q1", ["a"], route="faq", retrieved=True, entities=["E1"])]
    queries = written(tmp_path / "queries.jsonl", [{"_id": "q0"}, {"_id": "q1", **fields}])
    with pytest.raises(karat.InputError, match=r"queries\.jsonl:2: ") as found:
        karat.components({"q1": ["a"]}, log, queries=queries)
    assert message in str(found.value)


def test_lists_in_a_table_of_text_are_written_as_json(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text('id,entities\nq1,"[""E1"", ""E2""]"\n')
    found = karat.components({"q1": ["a"]}, [line("q1", ["a"], entities=["E1"])], queries=tmp_path / "q.csv")
    assert found.entities["entity_recall"].estimate == 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: karat.components({"q": ["a"]}, BARE, k=0), "k must be an integer from 1"),
        (lambda: karat.components({"q": ["a"]}, {"one": {"q": {"a": 1}}, "two": {"q": {"a": 1}}}), "one run at a time"),
        (lambda: karat.components({"q": ["a"]}, BARE, nonsense=1), "unknown option 'nonsense'"),
        (
            lambda: karat.components({"q": ["a"]}, [{"query_id": "q", "topk": []}, {"query_id": "q", "topk": []}]),
            "run:2",
        ),
        (lambda: karat.router_metrics({}, {}), "at least one query"),
        (lambda: karat.gate_metrics({"a": True}, {"b": True}), "both"),
        (lambda: karat.entity_metrics({"a": "E1"}, {"a": ["E1"]}), "must be a list"),
        (lambda: karat.entity_metrics({"a": ["E1"]}, {"b": ["E1"]}), "both"),
        (lambda: karat.no_answer_metrics({}, []), "found none"),
        (lambda: karat.no_answer_metrics({"n": []}, ["n"], threshold=math.nan), "finite"),
        (lambda: karat.stage_funnel({"q": {"a": 0}}, {}, {}), "at least one relevant"),
    ],
)
def test_calls_that_make_no_sense_are_refused(call: Any, message: str) -> None:
    with pytest.raises(karat.KaratError, match=message):
        call()


# --- real data ----------------------------------------------------------------------------------------


def ranked(name: str) -> dict[str, list[str]]:
    """A TREC run of DL19 in Karat's order."""
    scores: dict[str, list[tuple[float, str]]] = {}
    for row in (DL19 / name).read_text().splitlines():
        query, _, doc, _, score, _ = row.split()
        scores.setdefault(query, []).append((float(score), doc))
    return {q: [d for _, d in sorted(docs, reverse=True)] for q, docs in scores.items()}


@pytest.mark.skipif(not DL19.exists(), reason=f"{DL19} is not there")
def test_parts_of_a_real_pipeline_are_what_its_stages_evaluate_to() -> None:
    """BM25 as the retriever and SPLADE's order of its top 100 as the reranker, cut at 10."""
    first, second = ranked("bm25.run"), ranked("splade.run")
    reranked = {q: [d for d in second[q] if d in set(docs[:100])] for q, docs in first.items()}
    log = [
        line(q, reranked[q][:10], stages={"retrieve": docs[:100], "rerank": reranked[q]}) for q, docs in first.items()
    ]
    gold = DL19 / "qrels.txt"
    found = karat.components(gold, log, k=10, rel=2)
    alone = karat.evaluate(gold, DL19 / "bm25.run", ["recall@50", "recall@100", "mrr@50"], cache=False)
    assert {n: f.estimate for n, f in found.retriever.figures.items()} == pytest.approx(dict(alone.mean))
    before = {q: docs[:100] for q, docs in first.items()}
    row = karat.compare(gold, {"before": before, "after": reranked}, "ndcg@10", cache=False)["ndcg@10"]
    change = found.reranker["ndcg@10"]
    assert (change.delta, change.p["t"], change.wins) == (pytest.approx(row.delta), pytest.approx(row.p["t"]), row.wins)
    recall = karat.evaluate(gold, {q: docs[:10] for q, docs in reranked.items()}, "recall(rel=2)@10", cache=False)
    shares = {q: row["delivered"] / row["gold"] for q, row in found.funnel.per_query.items()}
    assert shares == pytest.approx(recall.per_query("recall(rel=2)@10"))
    assert sum(found.funnel.counts[e] for e in found.funnel.figures) == found.funnel.counts["gold"]


# --- the whole ----------------------------------------------------------------------------------------


def whole(folder: Path) -> dict[str, Path]:
    """A log, gold and queries from which every part can be measured."""
    log = [
        line(
            f"q{i}",
            [(f"d{i}#1", 9.0 - i / 10), ("d9#9", 5.0)],
            route="faq" if i % 3 else None,
            retrieved=i % 4 > 0,
            entities=["E1", "E2"],
            rewritten_query="r",
            topk_original=[{"chunk_id": "d9#9"}],
            stages={"retrieve": ["d9#9", f"d{i}#1", f"d{i}#2"], "rerank": [f"d{i}#1", "d9#9"]},
        )
        for i in range(8)
    ]
    queries = [
        {
            "_id": f"q{i}",
            "text": "?",
            "expected_source": "faq" if i % 2 else "wiki",
            "needs_retrieval": i < 6,
            "no_answer": i >= 6,
            "entities": ["E1"],
        }
        for i in range(8)
    ]
    (folder / "gold.txt").write_text("".join(f"q{i} 0 d{i}#{j} {j}\n" for i in range(6) for j in (1, 2)))
    return {
        "gold": folder / "gold.txt",
        "log": written(folder / "log.jsonl", log),
        "queries": written(folder / "queries.jsonl", queries),
    }


def test_all_parts_from_one_log(tmp_path: Path) -> None:
    files = whole(tmp_path)
    found = karat.components(files["gold"], files["log"], queries=files["queries"], threshold=8.35)
    assert found.missing == {}
    assert [part.name for part in found.parts] == list(PARTS)
    assert found.no_answer["false_evidence@5"].estimate == 0.5  # q6 scores 8.4, q7 8.3
    assert found.funnel.counts["lost_at.rerank"] == 6
    again = karat.components(files["gold"], files["log"], queries=files["queries"], threshold=8.35)
    assert json.dumps(found.as_json()) == json.dumps(again.as_json())


def test_components_of_a_log_and_of_its_saved_result_are_the_same(tmp_path: Path) -> None:
    files = whole(tmp_path)
    fresh = karat.evaluate(files["gold"], files["log"], "mrr", queries=files["queries"], details=True)
    fresh.save(str(tmp_path / "saved.json"))
    of_log = karat.components(files["gold"], files["log"], queries=files["queries"], threshold=8.35).as_json()
    assert karat.components(fresh, threshold=8.35).as_json() == of_log
    assert karat.components(tmp_path / "saved.json", "log", threshold=8.35).as_json() == of_log
    with pytest.raises(karat.UsageError, match="takes no queries"):
        karat.components(fresh, queries=files["queries"])


def test_evaluate_with_components_prints_and_writes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = whole(tmp_path)
    asked = ("evaluate", files["gold"], files["log"], "-m", "ndcg@5", "--components")
    assert run_cli(*asked, "--queries", files["queries"], "--threshold", 8.35, "--save", tmp_path / "r.json") == 0
    told = capsys.readouterr().out
    for words in (
        "Raw retriever",
        "Reranker",
        "Stage funnel",
        "Router",
        "Retrieval gate",
        "Query rewriting",
        "No answer",
        "Entities",
        "Chunks and docs",
        "lost at rerank: 6 (50%)",
        "also rewards",
    ):
        assert words in told
    saved = json.loads((tmp_path / "r.json").read_text())
    SCHEMA.validate(saved)
    kept = karat.load(str(tmp_path / "r.json"))
    assert kept.runs[0].components is not None
    assert kept.runs[0].components.as_json() == saved["runs"][0]["components"]
    assert run_cli(*asked, "--json", "-") == 0
    document = json.loads(capsys.readouterr().out)
    SCHEMA.validate(document)
    parts = document["runs"][0]["components"]
    assert parts["router"] == {
        "measured": False,
        "missing": MISSING["router"].partition(":")[0] + ": there is no table of queries",
    }
    assert run_cli("evaluate", files["gold"], files["log"], "--threshold", 1) == 2
    assert run_cli(*asked, "--cut", 1, "--json", "-") == 0
    capsys.readouterr()


def test_without_the_option_there_are_no_components(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = whole(tmp_path)
    assert run_cli("evaluate", files["gold"], files["log"], "--json", "-") == 0
    assert "components" not in json.loads(capsys.readouterr().out)["runs"][0]


def test_check_writes_components_where_the_config_asks_for_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole(tmp_path)
    config = tmp_path / "karat.yaml"
    config.write_text(
        "dataset: {qrels: gold.txt, queries: queries.jsonl}\nruns: log.jsonl\ncomponents: true\n"
        "gates: ['recall@5 >= 0.1', 'routing_accuracy >= 0.99 at the mean']\n"
    )
    out, comment = tmp_path / "out.json", tmp_path / "comment.md"
    assert run_cli("check", config, "--json", out, "--markdown", comment) == 1
    document = json.loads(out.read_text())
    SCHEMA.validate(document)
    assert document["runs"][0]["components"]["funnel"]["counts"]["gold"] == 12
    text = comment.read_text()
    assert "<summary>Components</summary>" in text
    assert "- Stage funnel: of 12 relevant docs" in text
    assert "Stage funnel" in capsys.readouterr().out
    text = config.read_text()
    config.write_text(text.replace("components: true", "components: {k: 1, threshold: 8.35}"))
    assert run_cli("check", config, "--json", out) == 1
    parts = json.loads(out.read_text())["runs"][0]["components"]
    assert parts["no_answer"]["figures"]["false_evidence@1"]["mean"] == 0.5
    config.write_text(text.replace("components: true", "components: false"))
    assert run_cli("check", config, "--json", out) == 1
    assert "components" not in json.loads(out.read_text())["runs"][0]
    for wrong in ("maybe", "{k: 0}", "{depth: 3}"):
        config.write_text(text.replace("components: true", f"components: {wrong}"))
        assert run_cli("check", config) == 2


def test_level_missing_and_confidence_have_their_effect() -> None:
    """missing=skip leaves the query out that the log lacks; a lower confidence is a shorter interval."""
    log = [line("q1", ["a"], stages={"retrieve": ["a"]})]
    gold = {"q1": ["a"], "q2": ["b"]}
    assert karat.components(gold, log, missing="skip").funnel.counts["gold"] == 1
    assert karat.components(gold, log).funnel.counts["gold"] == 2
    wide, short = (karat.router_metrics(ROUTES, EXPECTED, confidence=c)["abstain_rate"] for c in (0.99, 0.5))
    assert wide.high - wide.low > short.high - short.low


@pytest.mark.parametrize(
    ("gate", "outcome"),
    [
        ("retriever.recall@50 >= 0.3", "undecided"),  # the lists of the first stage end at rank 3
        ("retriever.recall@50 >= 0.3 at any depth", "pass"),
        ("reranker.ndcg@5 >= 0 at the mean", "fail"),
        ("entities.entity_f1 >= 0.4", "undecided"),
        ("rewriting.recall@5 > -0.1", "pass"),
        ("funnel.delivered >= 0.9", "undecided"),
        ("funnel.lost_at.rerank <= 0.1", "undecided"),
        ("funnel.never_retrieved <= 0.99", "pass"),
    ],
)
def test_a_gate_may_name_a_figure_of_a_component(tmp_path: Path, gate: str, outcome: str) -> None:
    files = whole(tmp_path)
    (tmp_path / "karat.yaml").write_text(
        f"dataset: {{qrels: gold.txt, queries: queries.jsonl}}\nruns: {{log: log.jsonl}}\ngates: ['{gate}']\n"
    )
    outputs = (
        "--json",
        str(tmp_path / "c.json"),
        "--markdown",
        str(tmp_path / "c.md"),
        "--save",
        str(tmp_path / "s.json"),
    )
    code = run_cli("check", tmp_path / "karat.yaml", *outputs, "--html", str(tmp_path / "c.html"))
    document = json.loads((tmp_path / "c.json").read_text())
    (row,) = document["gates"]
    assert (row["outcome"], code) == (outcome, {"pass": 0, "fail": 1, "undecided": 3}[outcome])
    part, _, name = row["metric"].partition(".")
    shown = document["runs"][0]["components"][part]
    one = shown["changes"][name]["delta"] if "changes" in shown else shown["figures"][name]["mean"]
    assert row["value"] == one
    assert row["metric"] in (tmp_path / "c.md").read_text()
    saved = karat.check(karat.load(str(tmp_path / "s.json")), gates=[gate])
    assert [r.outcome for r in saved.rows] == [outcome]
    result = karat.evaluate(files["gold"], files["log"], "mrr", queries=files["queries"], details=True)
    assert [r.outcome for r in karat.check(result, [gate]).rows] == [outcome]  # measured from the log that it holds
    lacking = karat.evaluate(files["gold"], files["log"], "mrr", queries=files["queries"])
    with pytest.raises(karat.InputError, match="neither components nor the run log"):
        karat.check(lacking, [gate])


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        ("retriever.recall@50 >= 0.3 where language = de", "over all queries"),
        ("reranker.ndcg@5 better than baseline", "one run"),
    ],
)
def test_a_figure_of_a_component_is_of_one_run_and_over_all_queries(gate: str, words: str) -> None:
    with pytest.raises(karat.UsageError, match=words):
        parse_gate(gate)


def test_a_figure_that_was_not_measured_leaves_its_gate_undecided_and_says_why(tmp_path: Path) -> None:
    files = whole(tmp_path)
    result = with_components(karat.evaluate(files["gold"], files["log"], "mrr", details=True))
    (row,) = karat.check(result, gates=["entities.entity_f1 >= 0.5"]).rows
    assert row.outcome == "undecided"
    assert "entities was not measured: needs `entities`" in row.judged.why
    with pytest.raises(karat.InputError, match="has no figure 'ndcg@9' at k = 5; it has ndcg@5, precision@5; did you"):
        karat.check(result, gates=["reranker.ndcg@9 >= 0"])
    (tmp_path / "karat.yaml").write_text(
        "dataset: {qrels: gold.txt}\nruns: {log: log.jsonl}\ngates:\n  - mrr > 0\n  - retriever.recall@20 >= 0.5\n"
    )
    with pytest.raises(
        karat.InputError, match=r"karat\.yaml:5: gate 'retriever.*: retriever has no figure 'recall@20'"
    ):
        karat.check(tmp_path / "karat.yaml")
    with pytest.raises(karat.MetricError, match="figure of a component"):
        karat.evaluate(files["gold"], files["log"], "retriever.recall@50")


def test_docs_of_gold_chunks_are_as_relevant_as_their_best_chunk() -> None:
    gold = build_qrels({"q1": {"a#1": 1, "a#2": 3, "b#1": 0}, "q2": {"a#1": 2}}, "gold")
    docs = qrels_by_doc(gold, lambda chunk: chunk.partition("#")[0])
    assert {q: docs.for_query(q) for q in docs.query_ids} == {"q1": {"a": 3, "b": 0}, "q2": {"a": 2}}


def test_components_are_a_table_in_notebooks_and_frames() -> None:
    lines = [{"query_id": q, "topk": [], "stages": {"retrieve": ["x", "a"], "rerank": ["a", "x"]}} for q in "pqr"]
    parts = karat.components({q: ["a"] for q in "pqr"}, lines, k=1)
    frame = parts.to_pandas().set_index(["component", "figure"])
    assert frame.loc[("retriever", "recall@50"), "value"] == 1
    assert frame.loc[("reranker", "ndcg@1"), ["change", "value", "n"]].tolist() == [True, 1, 3]
    change = parts.reranker.changes["ndcg@1"]
    assert frame.loc[("reranker", "ndcg@1"), "p_adjusted"] == change.p_adjusted
    page = parts._repr_html_()
    assert f"<td>{change.p_adjusted_text}</td><td>3</td>" in page
    assert "<td>Δ ndcg@1</td><td>+1.0000</td>" in page and "router needs `route`" in page


def test_items_without_scores_are_no_sign_of_silence(tmp_path: Path) -> None:
    """Four unanswerable queries: evidence at .9, silence, an item without a score, and one beside an item at .9."""
    items: dict[str, list[dict[str, Any]]] = {
        "n1": [{"doc_id": "a", "score": 0.9}],
        "n2": [{"doc_id": "a", "score": 0.1}],
        "n3": [{"doc_id": "a"}],
        "n4": [{"doc_id": "a", "score": 0.9}, {"doc_id": "b"}],
        "q1": [{"doc_id": "d", "score": 0.9}],
    }
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({"query_id": q, "topk": topk}) + "\n" for q, topk in items.items()))
    table = {q: {"text": "?", "no_answer": q.startswith("n")} for q in items}
    name = "false_evidence(threshold=0.5)@5"
    result = karat.evaluate({"q1": {"d": 1}}, str(log), name, queries=table)
    assert (result.mean[name], result.n[name]) == (pytest.approx(2 / 3), 3)
    assert any("1 of 4 queries has no value" in note for note in result.runs[0].notes)
    part = karat.components({"q1": {"d": 1}}, str(log), queries=table, threshold=0.5).no_answer
    assert part.figures["false_evidence@5"].estimate == pytest.approx(2 / 3)
    assert "2 queries with items that lack scores: left out where these may decide" in part.notes


def test_components_in_a_notebook_say_what_is_odd_about_the_data(tmp_path: Path) -> None:
    gold = {q: ["a"] for q in "opqr"}
    lines = [{"query_id": q, "topk": [] if q == "p" else [{"doc_id": "x"}, {"doc_id": "a"}]} for q in "pqr"]
    lines.append({"query_id": "z", "topk": [{"doc_id": "a"}]})
    missing = "1 query of the gold without results"
    page = karat.components(gold, lines, k=1)._repr_html_()
    assert f"<li>{missing}</li>" in page and "1 query without gold: left out" in page
    assert "<li>nothing was returned for 1 judged query</li>" in page
    assert "<li>funnel: no line has stages" in page
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = karat.evaluate(gold, str(log), "recall@1", details=True)
    assert f"<li>{missing}</li>" in karat.components(result)._repr_html_()
