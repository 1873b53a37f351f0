"""Values worked by hand for the formulas of docs/metrics.md, and cases by hand that no other tool can score.

Every expected value is written as its arithmetic; where a rounded figure stands beside it, that
is compared too, to as many digits as it has.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from math import log2
from typing import Any

import pytest

import karat
from karat.errors import InputError


def exactly(value: float) -> Any:
    """Equal but for the rounding of a few additions."""
    return pytest.approx(value, abs=1e-12)


def figure(value: float, digits: int = 4) -> Any:
    """Equal to a figure that was printed with so many digits."""
    return pytest.approx(value, abs=0.5 * 10**-digits + 1e-12)


def graded(*grades: float) -> tuple[list[str], dict[str, float]]:
    """A list whose docs have these grades in their order, and the gold that says so (0 is judged too)."""
    docs = [f"d{i}" for i in range(1, len(grades) + 1)]
    return docs, dict(zip(docs, grades, strict=True))


def one(metric: str, gold: Mapping[str, Any], run: Mapping[str, Any], **options: Any) -> float:
    """The metric of the only query of this gold."""
    result = karat.evaluate(gold, run, metric, cache=False, **options)
    (value,) = result.per_query(metric).values()
    return value


def means(metrics: str, gold: Mapping[str, Any], run: Mapping[str, Any], **options: Any) -> karat.Result:
    return karat.evaluate(gold, run, metrics, cache=False, **options)


# --- the formulas of docs/metrics.md --------------------------------------------------------------------


def test_ndcg_of_3_0_2_1_with_linear_gain() -> None:
    docs, gold = graded(3, 0, 2, 1)
    dcg = 3 / log2(2) + 0 / log2(3) + 2 / log2(4) + 1 / log2(5)
    ideal = 3 / log2(2) + 2 / log2(3) + 1 / log2(4)
    assert karat.score("ndcg@4", docs, gold) == exactly(dcg / ideal)
    assert karat.score("ndcg@4", docs, gold) == figure(0.9305)


def test_ndcg_of_3_0_2_1_with_exponential_gain() -> None:
    docs, gold = graded(3, 0, 2, 1)
    dcg = 7 / log2(2) + 0 / log2(3) + 3 / log2(4) + 1 / log2(5)
    ideal = 7 / log2(2) + 3 / log2(3) + 1 / log2(4)
    assert karat.score("ndcg(gain=exp)@4", docs, gold) == exactly(dcg / ideal)
    assert karat.score("ndcg(gain=exp)@4", docs, gold) == figure(0.9508)


def test_two_of_three_relevant_at_ranks_2_and_4() -> None:
    run, relevant = [4, 1, 5, 2], {1, 2, 3}
    dcg, ideal = 1 / log2(3) + 1 / log2(5), 1 / log2(2) + 1 / log2(3) + 1 / log2(4)
    assert karat.score("ndcg@4", run, relevant) == exactly(dcg / ideal)
    assert karat.score("ndcg@4", run, relevant) == figure(0.4982)
    assert karat.score("hit@1", run, relevant) == 0
    assert karat.score("hit@2", run, relevant) == 1
    assert karat.score("mrr", run, relevant) == 1 / 2


def test_both_relevant_docs_on_top_are_perfect() -> None:
    run, relevant = [1, 2, 3, 4], {1, 2}
    assert [karat.score(m, run, relevant) for m in ("ndcg@2", "mrr", "hit@1")] == [1, 1, 1]


def test_ndcg_of_0_1_0_2_3() -> None:
    docs, gold = graded(0, 1, 0, 2, 3)
    linear = 1 / log2(3) + 2 / log2(5) + 3 / log2(6)
    ideal = 3 / log2(2) + 2 / log2(3) + 1 / log2(4)
    assert karat.score("ndcg@5", docs, gold) == exactly(linear / ideal)
    assert karat.score("ndcg@5", docs, gold) == figure(0.5571)
    exp = 1 / log2(3) + 3 / log2(5) + 7 / log2(6)
    ideal = 7 / log2(2) + 3 / log2(3) + 1 / log2(4)
    assert karat.score("ndcg(gain=exp)@5", docs, gold) == exactly(exp / ideal)
    assert karat.score("ndcg(gain=exp)@5", docs, gold) == figure(0.4930)


def test_average_precision_with_hits_at_1_3_5_of_three_relevant() -> None:
    run, relevant = ["a", "x", "b", "y", "c"], {"a", "b", "c"}
    assert karat.score("map@5", run, relevant) == exactly((1 / 1 + 2 / 3 + 3 / 5) / 3)
    assert karat.score("map@5", run, relevant) == figure(0.7556)


def test_mean_reciprocal_rank_of_first_third_and_never() -> None:
    gold = {"q1": {"r": 1}, "q2": {"r": 1}, "q3": {"r": 1}}
    run = {"q1": ["r", "x", "y"], "q2": ["x", "y", "r"], "q3": ["x", "y", "z"]}
    result = means("mrr", gold, run)
    assert result.per_query("mrr") == {"q1": 1.0, "q2": 1 / 3, "q3": 0.0}
    assert result.mean["mrr"] == exactly((1 + 1 / 3 + 0) / 3)
    assert result.mean["mrr"] == figure(0.4444)


def test_average_precision_with_a_relevant_doc_that_is_never_found() -> None:
    assert karat.score("map@4", [2, 3, 4, 5], {2, 4, 7}) == exactly((1 / 1 + 2 / 3) / 3)
    assert karat.score("map@4", [2, 3, 4, 5], {2, 4, 7}) == figure(0.5556)


def test_precision_and_recall_with_hits_at_1_3_5() -> None:
    run, relevant = [1, 5, 3, 8, 2, 9, 10, 11], {1, 2, 3}
    assert karat.score("precision@5", run, relevant) == exactly(3 / 5)
    assert karat.score("precision@3", run, relevant) == exactly(2 / 3)
    assert karat.score("precision@3", run, relevant) == figure(0.6667)
    assert karat.score("recall@5", run, relevant) == exactly(3 / 3)


def test_expected_reciprocal_rank_of_3_0_2_1_0() -> None:
    docs, gold = graded(3, 0, 2, 1, 0)
    stop3, stop2, stop1 = (2**3 - 1) / 2**3, (2**2 - 1) / 2**3, (2**1 - 1) / 2**3
    value = stop3 / 1 + (1 - stop3) * stop2 / 3 + (1 - stop3) * (1 - stop2) * stop1 / 4
    assert karat.score("err(max_grade=3)", docs, gold) == exactly(value)
    assert karat.score("err(max_grade=3)", docs, gold) == figure(0.89307, 5)


def test_rank_biased_precision_and_residual_with_hits_at_1_3_5() -> None:
    docs, gold = graded(1, 0, 1, 0, 1)
    assert karat.score("rbp", docs, gold) == exactly(0.2 * (1 + 0.8**2 + 0.8**4))
    assert karat.score("rbp", docs, gold) == figure(0.40992, 5)
    assert karat.score("rbp_residual", docs, gold) == exactly(1 - 0.2 * (1 + 0.8 + 0.8**2 + 0.8**3 + 0.8**4))
    assert karat.score("rbp_residual", docs, gold) == figure(0.32768, 5)


def test_rank_biased_precision_rises_by_the_residual_if_the_unjudged_are_relevant() -> None:
    docs = ["a", "u1", "b", "u2", "c"]
    low = karat.score("rbp", docs, {"a": 1, "b": 0, "c": 1})
    residual = karat.score("rbp_residual", docs, {"a": 1, "b": 0, "c": 1})
    high = karat.score("rbp", docs, {"a": 1, "b": 0, "c": 1, "u1": 1, "u2": 1})
    beyond = 0.8**5  # everything after the five returned docs: 0.2 · Σ_{i>5} 0.8^(i−1)
    assert low + residual == exactly(high + beyond)


def test_q_measure_of_3_0_2_1_0() -> None:
    docs, gold = graded(3, 0, 2, 1, 0)
    # hits so far + gain so far over rank + ideal gain so far; the ideal gains are 3, 5, 6, 6, 6
    value = ((1 + 3) / (1 + 3) + (2 + 5) / (3 + 6) + (3 + 6) / (4 + 6)) / 3
    assert karat.score("q", docs, gold) == exactly(value)
    assert karat.score("q", docs, gold) == figure(0.8926)


def test_incomplete_gold_bpref_ndcg_and_judged() -> None:
    gold, run = {"b": 0, "a": 1, "c": 1, "d": 0, "e": 1}, ["b", "a", "x", "c", "d"]
    # R = 3, N = 2: a has one judged non-relevant doc above it, c has one, e was not found
    assert karat.score("bpref", run, gold) == exactly(((1 - 1 / 2) + (1 - 1 / 2)) / 3)
    assert karat.score("bpref", run, gold) == exactly(1 / 3)
    dcg, ideal = 1 / log2(3) + 1 / log2(5), 1 / log2(2) + 1 / log2(3) + 1 / log2(4)
    assert karat.score("ndcg@5", run, gold) == exactly(dcg / ideal)
    assert karat.score("ndcg@5", run, gold) == figure(0.4982)
    assert karat.score("judged@5", run, gold) == 4 / 5


RELEVANCE = (
    "hit@5",
    "precision@5",
    "precision",
    "recall@5",
    "recall",
    "recall(cap=true)@5",
    "f1@5",
    "wrecall@5",
    "mrr",
    "mrr@5",
    "map",
    "map@5",
    "gm_map",
    "ndcg",
    "ndcg@5",
    "ndcg(gain=exp)@5",
    "rprec",
    "bpref",
    "infap",
    "rbp",
    "err",
    "err@5",
    "q",
    "q@5",
    "iprec@0",
    "iprec@0.5",
    "iprec@1",
    "iprec",
    "num_rel_ret",
)


@pytest.mark.parametrize("metric", RELEVANCE)
def test_nothing_relevant_retrieved_scores_0(metric: str) -> None:
    assert karat.score(metric, ["x", "y", "z"], {"a": 2, "b": 1, "x": 0}) == 0


def test_ndcg_with_both_relevant_docs_at_2_and_4_of_5() -> None:
    run, relevant = ["x", "a", "y", "b", "z"], {"a", "b"}
    dcg, ideal = 1 / log2(3) + 1 / log2(5), 1 / log2(2) + 1 / log2(3)
    assert karat.score("ndcg@5", run, relevant) == exactly(dcg / ideal)
    assert karat.score("ndcg@5", run, relevant) == figure(0.6509)


# --- duplicates ---------------------------------------------------------------------------------------


def test_a_doc_returned_twice_counts_once_at_its_first_place() -> None:
    gold, run = {"q": {"a": 1, "b": 1}}, {"q": ["a", "a", "x", "b"]}  # counts as a, x, b
    result = means("precision@3,recall,map,ndcg,num_ret", gold, run)
    assert result.counts["duplicates"] == 1
    assert result.mean["num_ret"] == 3
    assert result.mean["precision@3"] == exactly(2 / 3)
    assert result.mean["recall"] == 2 / 2
    assert result.mean["map"] == exactly((1 / 1 + 2 / 3) / 2)
    assert result.mean["ndcg"] == exactly((1 + 1 / log2(4)) / (1 + 1 / log2(3)))


def test_only_duplicates_of_one_relevant_doc_stay_within_bounds() -> None:
    gold, run = {"q": {"a": 1}}, {"q": ["a"] * 10}
    result = means("precision@5,recall@5,map,ndcg@5,precision(denom=retrieved)@5", gold, run)
    assert result.mean["precision@5"] == exactly(1 / 5)
    assert result.mean["precision(denom=retrieved)@5"] == 1 / 1
    assert [result.mean[m] for m in ("recall@5", "map", "ndcg@5")] == [1, 1, 1]
    assert result.counts["duplicates"] == 9


def test_a_single_list_refuses_repeated_docs() -> None:
    """Lists of grades, as other libraries take them, would score 1 whatever the order."""
    with pytest.raises(InputError, match=r'retrieved: doc "0" appears twice.*karat\.ndcg_at_k\(\["d1"'):
        karat.ndcg_at_k([0, 1, 0, 2, 3], {3, 2, 1, 0}, k=5)
    with pytest.raises(InputError, match='relevant: doc "0" appears twice'):
        karat.ndcg_at_k([0, 1, 0, 2, 3], [3, 2, 1, 0, 0], k=5)
    with pytest.raises(InputError, match='relevant: doc "1" appears twice'):
        karat.recall_at_k(["1", "2"], {"1": 1, 1: 2}, k=5)
    grades = r'\(\["d1", "d2", "d3"\], {"d1": 3, "d3": 1}'
    for call, advice in (
        (lambda docs: karat.recall_at_k(docs, {"1"}, k=5), rf"karat\.recall_at_k{grades}, k=5\)$"),
        (lambda docs: karat.reciprocal_rank(docs, {"1"}), rf"karat\.reciprocal_rank{grades}\)$"),
        (
            lambda docs: karat.score("map@3", docs, {"1"}),
            r'karat\.score\("map@3", \["d1", "d2", "d3"\], {"d1": 3, "d3": 1}\)$',
        ),
    ):
        with pytest.raises(InputError, match=advice):
            call(["1", "1"])


# --- missing queries, empty gold, empty results --------------------------------------------------------


def test_a_missing_query_scores_as_an_empty_result() -> None:
    gold = {"q1": {"a": 1}, "q2": {"b": 1}}
    result = means("mrr,num_ret,num_rel,rbp_residual,judged@3", gold, {"q1": ["a"]})
    assert result.counts["missing"] == 1
    assert result.per_query("mrr") == {"q1": 1.0, "q2": 0.0}
    assert (result.mean["mrr"], result.n["mrr"]) == (exactly((1 + 0) / 2), 2)
    assert (result.mean["num_ret"], result.mean["num_rel"]) == (1 + 0, 1 + 1)
    assert result.per_query("rbp_residual")["q2"] == 1  # nothing judged, so all of rbp is open
    assert math.isnan(result.per_query("judged@3")["q2"])
    assert (result.mean["judged@3"], result.n["judged@3"]) == (1, 1)  # undefined leaves the mean, n shows it


def test_a_missing_query_can_be_left_out() -> None:
    gold = {"q1": {"a": 1}, "q2": {"b": 1}}
    result = means("mrr", gold, {"q1": ["x", "a"]}, missing="skip")
    assert result.per_query("mrr") == {"q1": 1 / 2}
    assert (result.n["mrr"], result.counts["missing"]) == (1, 1)


def test_a_query_that_returned_nothing_is_not_missing() -> None:
    gold = {"q1": {"a": 1}, "q2": {"b": 1}}
    result = means("mrr", gold, {"q1": ["a"], "q2": []}, missing="skip")
    assert result.per_query("mrr") == {"q1": 1.0, "q2": 0.0}
    assert result.counts["missing"] == 0


def test_a_query_without_gold_is_left_out_and_counted() -> None:
    result = means("mrr", {"q1": {"a": 1}}, {"q1": ["a"], "q2": ["a"], "q3": ["b"]})
    assert result.per_query("mrr") == {"q1": 1.0}
    assert result.counts["without_gold"] == 2


def test_a_query_without_a_relevant_doc_scores_0_and_is_counted() -> None:
    gold, run = {"q1": {"a": 1}, "q2": {"b": 0, "c": 0}}, {"q1": ["a"], "q2": ["b", "c"]}
    result = means("map,recall,ndcg@10,rprec,bpref", gold, run)
    assert result.counts["empty_gold"] == 1
    for metric in result.metrics:
        assert result.per_query(metric) == {"q1": 1.0, "q2": 0.0}
        assert (result.mean[metric], result.n[metric]) == (1 / 2, 2)


def test_a_query_without_a_relevant_doc_can_be_left_out() -> None:
    gold, run = {"q1": {"a": 1}, "q2": {"b": 0, "c": 0}}, {"q1": ["a"], "q2": ["b", "c"]}
    result = means("map", gold, run, empty_gold="skip")
    assert (result.mean["map"], result.n["map"]) == (1, 1)


def test_queries_without_an_answer_are_never_in_relevance_means() -> None:
    gold, run = {"q1": {"a": 1}, "q2": {"b": 0}}, {"q1": ["x", "a"], "q2": ["b"]}
    queries = {"q1": {"text": "?"}, "q2": {"text": "?", "no_answer": True}}
    result = means("mrr", gold, run, queries=queries)
    assert result.per_query("mrr") == {"q1": 1 / 2}
    assert (result.counts["no_answer"], result.counts["empty_gold"]) == (1, 0)


# --- grades: fractional, negative, thresholds, gain tables --------------------------------------------


def test_a_fractional_grade_below_rel_is_not_relevant_but_earns_gain() -> None:
    docs, gold = ["h", "a"], {"h": 0.5, "a": 1}
    assert karat.score("mrr", docs, gold) == 1 / 2
    assert karat.score("precision@2", docs, gold) == 1 / 2
    assert karat.score("recall", docs, gold) == 1 / 1
    assert karat.score("ndcg", docs, gold) == exactly((0.5 + 1 / log2(3)) / (1 + 0.5 / log2(3)))
    exp = math.sqrt(2) - 1  # 2^0.5 − 1
    assert karat.score("ndcg(gain=exp)", docs, gold) == exactly((exp + 1 / log2(3)) / (1 + exp / log2(3)))
    assert karat.score("wrecall@1", docs, gold) == exactly(0.5 / 1.5)
    assert karat.score("mrr(rel=0.5)", docs, gold) == 1
    # Q-measure: relevant is above 0, so both count
    assert karat.score("q", docs, gold) == exactly(((1 + 0.5) / (1 + 1) + (2 + 1.5) / (2 + 1.5)) / 2)


def test_rel_is_the_lowest_grade_that_counts() -> None:
    docs, gold = graded(1, 3, 0, 2)
    assert karat.score("mrr(rel=2)", docs, gold) == 1 / 2
    assert karat.score("recall(rel=2)@3", docs, gold) == 1 / 2
    assert karat.score("precision(rel=3)@2", docs, gold) == 1 / 2
    assert karat.score("map(rel=2)", docs, gold) == exactly((1 / 2 + 2 / 4) / 2)
    assert karat.score("num_rel(rel=2)", docs, gold) == 2
    # below rel but judged is not relevant to bpref: grade 1 above both, grade 0 above the second; R = 2, N = 2
    assert karat.score("bpref(rel=2)", docs, gold) == exactly(((1 - 1 / 2) + (1 - 2 / 2)) / 2)


def test_a_negative_grade_is_pooled_but_not_judged() -> None:
    docs, gold = ["u", "a", "n"], {"u": -1, "a": 1, "n": 0}
    assert karat.score("judged@3", docs, gold) == exactly(2 / 3)
    assert karat.score("ndcg", docs, gold) == exactly((1 / log2(3)) / 1)  # it takes a rank and earns nothing
    assert karat.score("wrecall@1", docs, gold) == 0
    assert karat.score("err", docs, gold) == exactly((2 - 1) / 2**4 / 2)
    assert karat.score("bpref", docs, gold) == 1  # no judged non-relevant doc above a
    assert karat.score("rbp_residual", docs, gold) == exactly(1 - 0.2 * (0.8 + 0.8**2))


def test_inferred_average_precision_uses_what_was_pooled() -> None:
    e = 1e-5
    docs, gold = ["a", "u", "x", "n", "b"], {"a": 1, "u": -1, "n": 0, "b": 1}
    # b at rank 5: of 4 above, 3 were pooled (a, u, n); of the judged 2 above, 1 is relevant
    b = 1 / 5 + (4 / 5) * (3 / 4) * ((1 + e) / (1 + 1 + 2 * e))
    assert karat.score("infap", docs, gold) == exactly((1 + b) / 2)


def test_a_gain_table_says_what_each_grade_is_worth() -> None:
    docs, gold = graded(1, 2, 3)
    # a grade that is not in the table is worth nothing; the ideal order is by worth: 5, 1, 0
    value = (1 / log2(2) + 5 / log2(3)) / (5 / log2(2) + 1 / log2(3))
    assert karat.score("ndcg(gains={1: 1, 2: 5})", docs, gold) == exactly(value)
    assert karat.score("ndcg(gains={1:1,2:5})@1", docs, gold) == exactly(1 / 5)
    assert karat.score("ndcg(gains={1:1,2:2,3:3})", docs, gold) == exactly(karat.score("ndcg", docs, gold))


def test_err_takes_grades_above_max_grade_as_max_grade() -> None:
    assert karat.score("err(max_grade=2)", ["a"], {"a": 9}) == exactly((2**2 - 1) / 2**2)
    assert karat.score("err", ["a"], {"a": 1}) == exactly((2**1 - 1) / 2**4)  # max_grade is 4, whatever the data


# --- variants -----------------------------------------------------------------------------------------


def test_precision_divides_by_k_even_when_fewer_were_returned() -> None:
    assert karat.score("precision@10", ["a", "x", "b"], {"a", "b"}) == exactly(2 / 10)
    assert karat.score("precision(denom=retrieved)@10", ["a", "x", "b"], {"a", "b"}) == exactly(2 / 3)
    assert karat.score("precision(denom=retrieved)@2", ["a", "x", "b"], {"a", "b"}) == exactly(1 / 2)
    assert karat.score("precision(denom=retrieved)@2", [], {"a"}) == 0


def test_recall_can_be_capped_at_what_k_allows() -> None:
    run, relevant = ["a", "b", "x", "c"], {"a", "b", "c", "d"}
    assert karat.score("recall@2", run, relevant) == exactly(2 / 4)
    assert karat.score("recall(cap=true)@2", run, relevant) == exactly(2 / 2)
    assert karat.score("recall(cap=true)@3", run, relevant) == exactly(2 / 3)
    assert karat.score("recall(cap=true)@10", run, relevant) == exactly(3 / 4)


def test_average_precision_can_be_divided_by_what_k_allows() -> None:
    run, relevant = ["a", "x", "b"], {"a", "b", "c", "d", "e"}
    assert karat.score("map@3", run, relevant) == exactly((1 / 1 + 2 / 3) / 5)
    assert karat.score("map(norm=min)@3", run, relevant) == exactly((1 / 1 + 2 / 3) / 3)
    assert karat.score("map(norm=min)@10", run, relevant) == exactly((1 / 1 + 2 / 3) / 5)


def test_f_measure_weighs_recall_by_beta() -> None:
    run, relevant = ["a", "x", "y", "b"], {"a", "b", "c"}
    p, r = 2 / 4, 2 / 3
    assert karat.score("f1@4", run, relevant) == exactly(2 * p * r / (p + r))
    assert karat.score("f1(beta=2)@4", run, relevant) == exactly(5 * p * r / (4 * p + r))
    assert karat.score("f1(beta=0.5)@4", run, relevant) == exactly(1.25 * p * r / (0.25 * p + r))


def test_graded_recall_weighs_docs_by_grade() -> None:
    docs, gold = graded(3, 0, 1)
    assert karat.score("wrecall@2", docs, {**gold, "far": 2}) == exactly(3 / (3 + 1 + 2))


def test_q_measure_without_gain_weight_is_average_precision() -> None:
    docs, gold = graded(0, 2, 1)
    assert karat.score("q(beta=0.000000001)", docs, gold) == pytest.approx((1 / 2 + 2 / 3) / 2, abs=1e-8)
    assert karat.score("q(beta=10)", docs, gold) == exactly(((1 + 20) / (2 + 30) + (2 + 30) / (3 + 30)) / 2)


def test_interpolated_precision_is_the_best_at_that_recall_or_more() -> None:
    run, relevant = ["x", "a", "b", "y", "c"], {"a", "b", "c", "d"}
    # precision at the hits: 1/2, 2/3, 3/5; docs needed at recall r: int(4r + .9)
    for level, value in ((0, 2 / 3), (0.25, 2 / 3), (0.5, 2 / 3), (0.75, 3 / 5), (1, 0)):
        assert karat.score(f"iprec@{level}", run, relevant) == exactly(value), level
    # needed at 0, .1, … 1: 0 1 1 2 2 2 3 3 4 4 4
    needed = [int(4 * i / 10 + 0.9) for i in range(11)]
    assert needed == [0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4]
    assert karat.score("11pt_avg", run, relevant) == exactly((6 * 2 / 3 + 2 * 3 / 5 + 3 * 0) / 11)


def test_r_precision_has_as_many_ranks_as_there_are_relevant_docs() -> None:
    assert karat.score("rprec", ["a", "x", "b", "c"], {"a", "b", "c"}) == exactly(2 / 3)


def test_bpref_counts_no_more_than_R_non_relevant_docs() -> None:
    # R = 1, N = 3, two non-relevant above: 1 − min(2, 1)/min(3, 1) = 0
    assert karat.score("bpref", ["n1", "n2", "a"], {"a": 1, "n1": 0, "n2": 0, "n3": 0}) == 0
    # R = 2, N = 3: a has 1 above, b has 3 above, which counts as 2
    gold = {"a": 1, "b": 1, "n1": 0, "n2": 0, "n3": 0}
    assert karat.score("bpref", ["n1", "a", "n2", "n3", "b"], gold) == exactly(((1 - 1 / 2) + (1 - 2 / 2)) / 2)


def test_rank_biased_precision_takes_its_own_persistence_and_cutoff() -> None:
    assert karat.score("rbp(p=0.5)", ["a", "x", "b"], {"a", "b"}) == exactly(0.5 * (1 + 0.25))
    assert karat.score("rbp(p=0.5)@2", ["a", "x", "b"], {"a", "b"}) == exactly(0.5 * 1)


def test_judged_divides_by_what_was_returned_when_that_is_less_than_k() -> None:
    gold = {"a": 1, "b": 0}
    assert karat.score("judged@10", ["a", "x", "b"], gold) == exactly(2 / 3)
    assert karat.score("judged@2", ["a", "x", "b"], gold) == exactly(1 / 2)
    assert karat.score("judged", ["a", "x", "b", "y"], gold) == exactly(2 / 4)
    assert math.isnan(karat.score("judged@10", [], gold))


def test_the_geometric_mean_takes_a_failed_query_as_a_hundred_thousandth() -> None:
    gold, run = {"q1": {"a": 1}, "q2": {"a": 1}}, {"q1": ["x", "a"], "q2": ["x"]}
    assert means("gm_map", gold, run).mean["gm_map"] == exactly(math.sqrt(0.5 * 0.00001))


def test_counts_are_summed_over_queries() -> None:
    gold = {"q1": {"a": 1, "b": 2}, "q2": {"c": 1, "d": 0}}
    result = means("num_q,num_ret,num_rel,num_rel_ret,num_rel_ret@1", gold, {"q1": ["a", "x", "b"], "q2": ["d", "c"]})
    assert [result.mean[m] for m in result.metrics] == [2, 3 + 2, 2 + 1, 2 + 1, 1 + 0]


# --- ties ---------------------------------------------------------------------------------------------


def test_equal_scores_are_ordered_by_falling_doc_id() -> None:
    gold, run = {"q": {"d1": 1}}, {"q": {"d1": 0.5, "d2": 0.5, "d3": 0.5}}
    assert one("mrr", gold, run) == 1 / 3
    assert one("mrr", {"q": {"d3": 1}}, run) == 1


def test_scores_that_differ_beyond_float32_tie_only_in_float32() -> None:
    gold, run = {"q": {"a": 1}}, {"q": {"a": 0.50000000001, "b": 0.5}}
    assert one("mrr", gold, run) == 1
    assert one("mrr", gold, run, score_precision="float32") == 1 / 2  # a tie, and b is the greater id


# --- chunks and docs ----------------------------------------------------------------------------------

CHUNKS = {"q": ["d1#1", "d1#2", "x#1", "d2#1", "d2#9"]}
BY_DOC = {"q": {"d1": 2, "d2": 1}}


def test_the_first_chunk_of_a_doc_takes_its_grade_and_later_ones_a_rank() -> None:
    result = means("precision@5,recall,map,ndcg,num_ret,num_rel_ret", BY_DOC, CHUNKS, level="doc")
    assert result.mean["num_ret"] == 5
    assert result.mean["num_rel_ret"] == 2
    assert result.mean["precision@5"] == exactly(2 / 5)
    assert result.mean["recall"] == 1
    assert result.mean["map"] == exactly((1 / 1 + 2 / 4) / 2)
    assert result.mean["ndcg"] == exactly((2 + 1 / log2(5)) / (2 + 1 / log2(3)))


def test_later_chunks_can_count_for_precision_and_for_precision_only() -> None:
    metrics = "precision@5,precision@2,recall,map,ndcg,f1@5,num_rel_ret,hit@1,rprec,rbp"
    first = means(metrics, BY_DOC, CHUNKS, level="doc")
    every = means(metrics, BY_DOC, CHUNKS, level="doc", chunk_credit="all")
    assert (first.mean["precision@5"], every.mean["precision@5"]) == (exactly(2 / 5), exactly(4 / 5))
    assert (first.mean["precision@2"], every.mean["precision@2"]) == (exactly(1 / 2), exactly(2 / 2))
    for metric in set(first.metrics) - {"precision@5", "precision@2"}:
        assert every.mean[metric] == first.mean[metric], metric


def test_a_later_chunk_of_a_judged_doc_is_judged_whatever_credit_it_earns() -> None:
    for credit in ("first", "all"):
        result = means("judged@5", BY_DOC, CHUNKS, level="doc", chunk_credit=credit)
        assert result.counts["unjudged_at_10"] == 1  # x#1 alone
        assert result.mean["judged@5"] == exactly(4 / 5), credit


def test_auto_level_takes_docs_when_more_gold_ids_match_them_and_says_so() -> None:
    result = means("map", BY_DOC, CHUNKS)
    assert result.mean["map"] == exactly((1 / 1 + 2 / 4) / 2)
    assert any("matched by doc" in note for note in result.notes)


def test_auto_level_takes_chunks_when_gold_names_chunks() -> None:
    gold = {"q": {"d1#2": 1, "d2#1": 1}}
    assert means("map", gold, CHUNKS).mean["map"] == exactly((1 / 2 + 2 / 4) / 2)
    with pytest.raises(karat.InputError, match="0 of 2 judgments match a doc, 2 match a chunk"):
        means("map", gold, CHUNKS, level="doc")


def test_the_separator_can_be_another_one() -> None:
    run = {"q": ["d1::1", "d1::2", "d2::1"]}
    assert means("map", BY_DOC, run, level="doc", separator="::").mean["map"] == exactly((1 / 1 + 2 / 3) / 2)


# --- condensed lists, self -----------------------------------------------------------------------------


def test_condensed_drops_unjudged_docs_before_ranks_are_given() -> None:
    gold, run = {"q": {"a": 1, "n": 0, "b": 1, "u": -1}}, {"q": ["x", "n", "u", "a", "y", "b"]}
    assert one("map", gold, run) == exactly((1 / 4 + 2 / 6) / 2)
    assert one("map", gold, run, condensed=True) == exactly((1 / 2 + 2 / 3) / 2)  # n, a, b: a grade below 0 is none
    assert one("num_ret", gold, run, condensed=True) == 3
    assert one("judged@10", gold, run, condensed=True) == 1


def test_condensed_bpref_is_what_it_was() -> None:
    gold, run = {"q": {"a": 1, "n": 0, "b": 1}}, {"q": ["x", "n", "a", "y", "b"]}
    assert one("bpref", gold, run) == one("bpref", gold, run, condensed=True) == exactly((0 + 0) / 2)
    gold = {"q": {"a": 1, "n": 0, "m": 0, "b": 1}}
    assert one("bpref", gold, run) == one("bpref", gold, run, condensed=True) == exactly((1 / 2 + 1 / 2) / 2)


def test_docs_that_are_the_query_itself_can_be_dropped() -> None:
    gold, run = {"d1": {"d2": 1}}, {"d1": {"d1": 1.0, "d2": 0.9, "d3": 0.8}}
    assert one("mrr", gold, run) == 1 / 2
    assert one("mrr", gold, run, ignore_self=True) == 1
    assert one("num_ret", gold, run, ignore_self=True) == 2


# --- the functions for single lists --------------------------------------------------------------------


def test_functions_for_single_lists_are_the_metrics_of_their_names() -> None:
    docs: Sequence[str]
    docs, gold = graded(0, 2, 1, 0, 3)
    assert karat.hit_at_k(docs, gold, 1) == 0
    assert karat.precision_at_k(docs, gold, 5) == exactly(3 / 5)
    assert karat.recall_at_k(docs, gold, 3) == exactly(2 / 3)
    assert karat.f1_at_k(docs, gold, 5) == exactly(2 * (3 / 5) * 1 / (3 / 5 + 1))
    assert karat.reciprocal_rank(docs, gold) == 1 / 2
    assert karat.reciprocal_rank(docs, gold, 1) == 0
    assert karat.average_precision(docs, gold) == exactly((1 / 2 + 2 / 3 + 3 / 5) / 3)
    assert karat.average_precision(docs, gold, 2) == exactly((1 / 2) / 3)
    ideal = 3 + 2 / log2(3) + 1 / log2(4)
    assert karat.ndcg_at_k(docs, gold, 5) == exactly((2 / log2(3) + 1 / log2(4) + 3 / log2(6)) / ideal)
    assert karat.wrecall_at_k(docs, gold, 3) == exactly(3 / 6)
    assert karat.r_precision(docs, gold) == exactly(2 / 3)
    assert karat.err_at_k(docs, gold, 2) == exactly((2**2 - 1) / 2**4 / 2)
    assert karat.rbp_at_k(docs, gold, 2) == exactly(0.2 * 0.8)


# --- metrics of trec_eval that few others have ---------------------------------------------------------


def test_area_under_recall_over_k_and_over_log_k() -> None:
    gold = {"q1": dict.fromkeys("abcde", 1), "q2": dict.fromkeys("abcde", 1)}
    run = {"q1": [*"abc", *"123456", "d", "e"], "q2": [*"ab", "1", "c", "2", "d"]}
    result = means("recall@{1,3,5,10,20},recall_auc@20,recall_auc(scale=log)@20", gold, run)
    recalls = [0.2, 0.5, 0.6, 0.8, 0.9]
    assert [result.mean[f"recall@{k}"] for k in (1, 3, 5, 10, 20)] == pytest.approx(recalls, abs=1e-12)
    heights = [(a + b) / 2 for a, b in itertools.pairwise(recalls)]
    assert result.mean["recall_auc@20"] == exactly(sum(h * w for h, w in zip(heights, (2, 2, 5, 10), strict=True)) / 19)
    assert result.mean["recall_auc@20"] == figure(0.7263)
    widths = [log2(3), log2(5 / 3), log2(2), log2(2)]
    area = sum(h * w for h, w in zip(heights, widths, strict=True)) / log2(20)
    assert result.mean["recall_auc(scale=log)@20"] == exactly(area)
    assert result.mean["recall_auc(scale=log)@20"] == figure(0.5808)


def test_interpolated_precision_rounds_the_level_as_the_version_does() -> None:
    docs, gold = graded(1, 0, 1, 0, 0, 1, *[0] * 7, *[1] * 10)  # R = 13, hits at 1, 3, 6, 14, …
    # .1 · 13 = 1.3: version 9 asks for int(1.3 + .9) = 2 docs, version 10 for the nearest number, 1
    assert karat.score("iprec@0.1", docs, gold) == exactly(2 / 3)
    assert karat.score("iprec(version=10)@0.1", docs, gold) == 1 / 1


def test_graded_rank_biased_precision_scales_the_grades() -> None:
    docs, gold = graded(2, 0, 1, 3)
    gains = (2 / 2) * 1 + 0 + (1 / 2) * 0.8**2 + (2 / 2) * 0.8**3  # 3 counts as 2
    assert karat.score("rbp(gain=graded,max_grade=2)", docs, gold) == exactly(0.2 * gains)
    assert karat.score("rbp(gain=graded)", docs, gold) == exactly(0.2 * (2 / 4 + 1 / 4 * 0.8**2 + 3 / 4 * 0.8**3))


def test_discounted_gain_is_not_divided_by_the_ideal() -> None:
    docs, gold = graded(3, 0, 2, 1)
    assert karat.score("dcg@3", docs, gold) == exactly(3 / log2(2) + 2 / log2(4))
    assert karat.score("dcg_burges", docs, gold) == exactly(7 / log2(2) + 3 / log2(4) + 1 / log2(5))
    table = karat.score("ndcg(gains={1:4},unlisted=grade)", docs, gold)  # 3 and 2 gain themselves
    ideal = 4 / log2(2) + 3 / log2(3) + 2 / log2(4)
    assert table == exactly((3 / log2(2) + 2 / log2(4) + 4 / log2(5)) / ideal)
    assert karat.score("ndcg(gains={1:4})", docs, gold) == exactly(4 / log2(5) / (4 / log2(2)))


def test_gain_as_trec_eval_normalises_it() -> None:
    docs, gold = ["x", "a", "b"], {"a": 2, "b": 1, "c": 1}
    # The ideal order is 2, 1, 1, so that ranks cost 2, 3, 4; a gains 2 after x, b then 1.
    assert karat.score("G", docs, gold) == exactly((2 / log2(2 + 3 - 2) + 1 / log2(2 + 4 - 3)) / 4)
    assert karat.score("binG", docs, gold) == exactly((1 / log2(2 + 1) + 1 / log2(2 + 1)) / 3)
    dcg_2, dcg_3 = 2 / log2(3), 2 / log2(3) + 1 / log2(4)
    ideal_1, ideal_2, ideal_3 = 2, 2 + 1 / log2(3), 2 + 1 / log2(3) + 1 / log2(4)
    assert karat.score("ndcg_rel", docs, gold) == exactly((dcg_2 / ideal_2 + dcg_3 / ideal_3 + dcg_3 / ideal_3) / 3)
    # one doc of grade 2 and above, three of grade 1 and above; 3 docs returned are not 2 more than these
    assert karat.score("Rndcg", docs, gold) == exactly((0 / ideal_1 + dcg_3 / ideal_3) / 2)


def test_sets_have_a_precision_a_recall_and_a_worth() -> None:
    docs, gold = ["a", "x", "b", "n"], {"a": 1, "b": 2, "c": 1, "n": 0, "u": -1}
    assert karat.score("set_map", docs, gold) == exactly(2 / 4 * 2 / 3)
    assert karat.score("SetAP", docs, gold) == exactly(2 / 4 * 2 / 3)
    assert karat.score("set_relative_P", docs, gold) == exactly(2 / 3)
    assert karat.score("utility", docs, gold) == 2 - 2
    assert karat.score("utility(relevant=2,other=-0.5,absent=-1)", docs, gold) == 2 * 2 - 0.5 * 2 - 1 * 1
    assert karat.score("num_nonrel_judged_ret", docs, gold) == 1  # n; nobody judged x
    assert karat.score("relative_P_2", docs, gold) == 1 / 2
    assert karat.score("rprec(multiple=0.2)", docs, gold) == 1 / 1  # int(.2 · 3 + .9) = 1


def test_unjudged_docs_are_a_share_of_the_cutoff() -> None:
    docs, gold = ["a", "x", "u", "n"], {"a": 1, "u": -1, "n": 0}
    assert karat.score("unj@2", docs, gold) == 1 / 2
    assert karat.score("unj@5", docs, gold) == 2 / 5  # x and u; the fifth place is empty, not unjudged
    assert karat.score("unj", docs, gold) == 2 / 4


def test_the_geometric_mean_of_bpref_is_over_queries() -> None:
    gold = {"q1": {"a": 1, "b": 1, "n": 0}, "q2": {"a": 1}, "q3": {"a": 1}}
    result = means("gm_bpref", gold, {"q1": ["a", "n", "b"], "q2": ["a"], "q3": ["x"]})
    assert result.per_query("gm_bpref") == {"q1": 1 / 2, "q2": 1.0, "q3": 0.0}
    assert result.mean["gm_bpref"] == exactly((1 / 2 * 1 * 0.00001) ** (1 / 3))


def test_queries_that_a_run_lacks_can_count_nothing() -> None:
    gold, run = {"q1": {"a": 1}, "q2": {"b": 1, "c": 1}}, {"q1": ["a", "x"]}
    names = "num_q,num_q(missing=zero),num_rel,num_rel(missing=zero),judged@2,judged(missing=zero)@2,hits_per_query"
    result = means(names, gold, run)
    assert list(result.mean.values()) == [2, 1, 3, 1, 1 / 2, (1 / 2 + 0) / 2, (1 + 0) / 2]


# --- user models and preferences -----------------------------------------------------------------------


def test_user_models_by_hand() -> None:
    docs, gold = graded(0, 4, 2)  # gains 0, 1, 1/2
    assert karat.score("bpm", docs, gold) == exactly((0 + 1) / 2)  # enough after the second doc
    assert karat.score("bpm(t=2)@3", docs, gold) == exactly((0 + 1 + 1 / 2) / 3)
    assert karat.score("sdcg@2", docs, gold) == exactly((0 + 1 / log2(3)) / (1 + 1 / log2(3)))
    assert karat.score("sdcg(max_grade=2)@3", docs, gold) == exactly(
        (0 + 1 / log2(3) + 1 / log2(4)) / (1 + 1 / log2(3) + 1 / log2(4))
    )
    # A reader of nerr8 sees the second doc for sure, and stops there.
    assert karat.score("nerr8@3", docs, gold) == exactly((0 + 1) / 2)
    assert karat.score("nerr9@3", docs, gold) == exactly((0 + 1 / 2 * 1) / (1 + 1 / 2))
    assert karat.score("nerr10(p=0.5)", docs, gold) == exactly((0 + 0.5 * 1) / (1 + 0.5))
    patience = ((1 + 2 - 1) / (1 + 2)) ** 2  # t = 1, from rank 1 to 2
    assert karat.score("nerr11", docs, gold) == exactly(patience / (1 + patience))
    weights = [(2 / (i + 1)) ** 2 for i in range(1, 1001)]  # (2/3 · 3/4 · … · i/(i + 1))²
    assert karat.score("insq", docs, gold) == exactly((weights[1] + weights[2] / 2) / sum(weights))
    for name in ("insq", "inst", "nerr10", "nerr11", "bpm"):
        assert "over ranks 1 to 1,000, as in cwl_eval" in karat.lookup(name).caution


def test_inst_expects_more_once_something_is_found() -> None:
    found = [0, 1, 1.5]  # the sum of the gains 0, 1, 1/2, and no more after them
    seen = [1.0]
    for i in range(1, 1000):
        ahead = i + 2 * 1 - found[min(i, 3) - 1]
        seen.append(seen[-1] * ((ahead - 1) / ahead) ** 2)
    docs, gold = graded(0, 4, 2)
    assert karat.score("inst", docs, gold) == exactly((seen[1] * 1 + seen[2] / 2) / sum(seen))
    assert karat.score("inst(max_rel=2)", docs, gold) != karat.score("inst", docs, gold)


def test_grades_of_a_user_model_must_be_a_range() -> None:
    with pytest.raises(karat.MetricError, match="min_grade must be from 0 to below max_grade"):
        karat.parse("inst(min_grade=3,max_grade=3)")


def test_accuracy_counts_pairs_in_the_wrong_order() -> None:
    docs, gold = ["x", "a", "n", "b"], {"a": 1, "b": 1, "n": 0, "c": 1}
    assert karat.score("accuracy", docs, gold) == exactly(1 - (1 + 2) / (2 * 2))
    assert karat.score("accuracy@3", docs, gold) == exactly(1 - 1 / (1 * 2))
    assert math.isnan(karat.score("accuracy@1", docs, gold))  # nothing relevant
    assert math.isnan(karat.score("accuracy", ["a", "b"], gold))  # nothing else


def test_compatibility_is_the_overlap_with_the_ideal_order() -> None:
    docs, gold = ["b", "x", "a"], {"a": 2, "b": 1, "c": 1, "n": 0}  # the ideal order: a, b, then c
    p = 0.95
    shared = 0 / 1 + p * 1 / 2 + p**2 * 2 / 3  # both have b from depth 2, a from depth 3
    assert karat.score("compat", docs, gold) == exactly(shared / (1 / 1 + p * 2 / 2 + p**2 * 3 / 3))
    assert karat.score("compat(normalize=false)", docs, gold) == exactly(shared / (1 + p + p**2))
    assert karat.score("compat", ["a", "c", "b"], gold) == exactly(1)  # docs of one grade have no order of their own
