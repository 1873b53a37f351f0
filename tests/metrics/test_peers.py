"""Query by query, the same numbers as trec_eval (through pytrec_eval) and ir_measures.

Left out, because the peer is at fault or cannot say:
- ir_measures puts tied docs in rising order of ids in RR@k and Judged@k, against its own other
  measures and trec_eval: those two are compared on scores without ties.
- ir_measures counts a negative grade as a judgment in Judged, and its Perl script (ERR, nDCG with
  exponential gain) prints five digits, wants numeric query ids and knows no grade above 4.
- pytrec_eval crashes on a query that returned nothing, corrupts memory on one whose grades are all
  negative, has no fractional grades, and leaves out queries that the run lacks: only what it can
  score is compared.
- pytrec_eval's gm_map per query is the logarithm of max(map, 0.00001), and gm_bpref's likewise.
- trec_eval's unj and the iprec_at_recall of version 10 are not in pytrec_eval, which holds version 9: they are compared
  with the plain formula.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from typing import Any

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import karat
from places import DL19
from random_runs import bulk

Gold = Mapping[str, Mapping[str, int]]
Scores = Mapping[str, Mapping[str, float]]

TOLERANCE = 1e-9
KS = (1, 2, 3, 5, 7, 10, 20, 100, 1000)
LEVELS = tuple(i / 10 for i in range(11))
MULTIPLES = tuple(i / 5 for i in range(1, 11))

# What pytrec_eval is asked for, by what it answers: measure → karat's name.
TREC = {
    "map": "map",
    "gm_map": "gm_map",
    "ndcg": "ndcg",
    "recip_rank": "mrr",
    "Rprec": "rprec",
    "bpref": "bpref",
    "infAP": "infap",
    "11pt_avg": "iprec",
    "num_ret": "num_ret",
    "num_rel": "num_rel",
    "num_rel_ret": "num_rel_ret",
    "num_q": "num_q",
    "set_P": "precision",
    "set_recall": "recall",
    "set_F": "f1",
    "set_map": "set_map",
    "set_relative_P": "set_relative_p",
    "utility": "utility",
    "gm_bpref": "gm_bpref",
    "num_nonrel_judged_ret": "num_nonrel_judged_ret",
    "G": "g",
    "binG": "bin_g",
    "ndcg_rel": "ndcg_rel",
    "Rndcg": "rndcg",
    **{f"Rprec_mult_{m:.2f}": f"rprec(multiple={m:g})" if m != 1 else "rprec" for m in MULTIPLES},
    **{f"relative_P_{k}": f"recall(cap=true)@{k}" for k in KS},
    **{f"map_cut_{k}": f"map@{k}" for k in KS},
    **{f"ndcg_cut_{k}": f"ndcg@{k}" for k in KS},
    **{f"P_{k}": f"precision@{k}" for k in KS},
    **{f"recall_{k}": f"recall@{k}" for k in KS},
    **{f"success_{k}": f"hit@{k}" for k in KS},
    **{f"iprec_at_recall_{r:.2f}": f"iprec@{r:g}" for r in LEVELS},
}
CUTS = ",".join(map(str, KS))
TREC_ASKED = {
    "map",
    "gm_map",
    "ndcg",
    "recip_rank",
    "Rprec",
    "bpref",
    "infAP",
    "11pt_avg",
    "num_ret",
    "num_rel",
    "num_rel_ret",
    "num_q",
    "set_P",
    "set_recall",
    "set_F",
    "set_map",
    "set_relative_P",
    "utility",
    "gm_bpref",
    "num_nonrel_judged_ret",
    "G",
    "binG",
    "ndcg_rel",
    "Rndcg",
    "Rprec_mult",
    "iprec_at_recall",
    f"relative_P.{CUTS}",
    f"map_cut.{CUTS}",
    f"ndcg_cut.{CUTS}",
    f"P.{CUTS}",
    f"recall.{CUTS}",
    f"success.{CUTS}",
}
NO_REL = ("ndcg", "num_ret", "num_q", "g", "ndcg_rel", "rndcg")  # `rel` is no parameter of these


def with_rel(name: str, rel: int) -> str:
    """The name with a threshold, where the metric has one."""
    base, at, cut = name.partition("@")
    if rel == 1 or base in NO_REL:
        return name
    return f"{base[:-1]},rel={rel}){at}{cut}" if base.endswith(")") else f"{base}(rel={rel}){at}{cut}"


def ours(gold: Gold, run: Any, names: list[str], **options: Any) -> karat.Result:
    return karat.evaluate(gold, run, names, score_precision="float32", level="chunk", cache=False, **options)


def compare_with_trec_eval(gold: Gold, run: Scores, rel: int = 1, mine: Any = None, **options: Any) -> int:
    """Compare all measures on all queries that pytrec_eval scores; how many values were compared."""
    theirs = pytrec_eval.RelevanceEvaluator(gold, TREC_ASKED, relevance_level=rel).evaluate(run)
    names = {trec: with_rel(name, rel) for trec, name in TREC.items()}
    result = ours(gold, run if mine is None else mine, list(names.values()), **options)
    values = {name: result.per_query(name) for name in names.values()}
    compared = 0
    for query, answered in theirs.items():
        assert answered.keys() == TREC.keys()
        for trec, expected in answered.items():
            found = values[names[trec]][query]
            if trec in ("gm_map", "gm_bpref"):
                found = math.log(max(found, 0.00001))
            if trec == "Rndcg" and max(gold[query].values()) < rel:
                found = 0.0  # trec_eval asks for a doc of that grade, although the measure has no threshold
            assert found == pytest.approx(expected, abs=TOLERANCE), (query, trec, rel)
            compared += 1
    return compared


IR = (
    "nDCG",
    "nDCG@5",
    "nDCG@10",
    "AP",
    "AP@5",
    "AP@100",
    "RR",
    "Success@1",
    "Success@5",
    "P@1",
    "P@10",
    "R@5",
    "R@100",
    "Rprec",
    "Bpref",
    "infAP",
    *(f"IPrec@{r:.1f}" for r in LEVELS),
    "NumRet",
    "NumRel",
    "NumRelRet",
    "SetP",
    "SetR",
    "SetF",
)
IR_REL_2 = (
    "AP(rel=2)",
    "AP(rel=2)@5",
    "AP(rel=2)@100",
    "RR(rel=2)",
    "Success(rel=2)@5",
    "P(rel=2)@1",
    "P(rel=2)@10",
    "R(rel=2)@5",
    "R(rel=2)@100",
    "Rprec(rel=2)",
    "Bpref(rel=2)",
    "infAP(rel=2)",
    "IPrec(rel=2)@0.5",
    "SetP(rel=2)",
    "SetR(rel=2)",
    "SetF(rel=2)",
)
IR_UNTIED = ("RR@1", "RR@5", "RR@10", "RR(rel=2)@10")
IR_JUDGED = ("Judged@1", "Judged@5", "Judged@10", "Judged@1000", "Judged")


def compare_with_ir_measures(
    gold: Gold, run: Scores, names: tuple[str, ...], tolerance: float = TOLERANCE, mine: Any = None
) -> int:
    """Compare measures under ir_measures' own spelling of their names."""
    parsed = {ir_measures.parse_measure(name): name for name in names}
    result = ours(gold, run if mine is None else mine, list(names))
    values = {name: result.per_query(name) for name in names}
    compared = 0
    for metric in ir_measures.iter_calc(list(parsed), gold, run):
        if metric.query_id not in run or not run[metric.query_id]:
            continue
        found = values[parsed[metric.measure]][metric.query_id]
        assert found == pytest.approx(metric.value, abs=tolerance), metric
        compared += 1
    return compared


def scored_by_both(gold: Gold, run: Scores) -> int:
    return sum(1 for q in gold if run.get(q))


# --- small inputs of every shape ----------------------------------------------------------------------

QUERIES = st.sampled_from(["q1", "q2", "q10", "Q"])
DOCS = st.sampled_from([*"abcde", "B", "d1", "d10", "d2", "ä", "long-document-id-1", "long-document-id-2"])
GRADES = st.integers(-2, 4)
TIED_SCORES = st.sampled_from([-2.5, -1.0, 0.0, 0.5, 0.5000000001, 0.50000001, 1.0, 3.25, 1e9, 1e9 + 1])
ANY_SCORES = st.floats(-1e6, 1e6, allow_nan=False)
judgments = st.dictionaries(DOCS, GRADES, min_size=1, max_size=8).filter(lambda grades: max(grades.values()) >= 0)
golds = st.dictionaries(QUERIES, judgments, min_size=1, max_size=3)
runs = st.dictionaries(
    QUERIES, st.dictionaries(DOCS, TIED_SCORES | ANY_SCORES, min_size=1, max_size=12), min_size=1, max_size=3
)
SMALL = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SMALL
@given(gold=golds, run=runs)
def test_small_inputs_score_as_in_trec_eval(gold: Gold, run: Scores) -> None:
    assume(gold.keys() & run.keys())
    assert compare_with_trec_eval(gold, run) == scored_by_both(gold, run) * len(TREC)


@SMALL
@given(gold=golds, run=runs, rel=st.integers(2, 4))
def test_small_inputs_score_as_in_trec_eval_at_a_higher_threshold(gold: Gold, run: Scores, rel: int) -> None:
    assume(gold.keys() & run.keys())
    assert compare_with_trec_eval(gold, run, rel) == scored_by_both(gold, run) * len(TREC)


@settings(SMALL, max_examples=40)
@given(gold=golds, run=runs)
def test_small_inputs_score_as_in_ir_measures(gold: Gold, run: Scores) -> None:
    assume(gold.keys() & run.keys())
    assert compare_with_ir_measures(gold, run, IR + IR_REL_2) == scored_by_both(gold, run) * len(IR + IR_REL_2)


# --- many queries -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "rel"), [(1, 1), (2, 1), (3, 2), (4, 3)])
def test_many_random_queries_score_as_in_trec_eval(seed: int, rel: int) -> None:
    gold, run = bulk(seed, 300)
    both = scored_by_both(gold, run)
    assert both > 250
    assert len(gold.keys() - run.keys()) > 3  # the run lacks some
    assert compare_with_trec_eval(gold, run, rel) == both * len(TREC)


def test_many_random_queries_score_as_in_ir_measures() -> None:
    gold, run = bulk(5, 200)
    assert compare_with_ir_measures(gold, run, IR + IR_REL_2) == scored_by_both(gold, run) * len(IR + IR_REL_2)


def test_reciprocal_rank_at_a_cutoff_scores_as_in_ir_measures_without_ties() -> None:
    gold, run = bulk(6, 300, ties=False)
    assert compare_with_ir_measures(gold, run, IR_UNTIED) > 250 * 3


def test_judged_scores_as_in_ir_measures_without_ties_and_negative_grades() -> None:
    gold, run = bulk(7, 300, lowest=0, ties=False)
    assert compare_with_ir_measures(gold, run, IR_JUDGED) == scored_by_both(gold, run) * len(IR_JUDGED)


def test_a_gain_table_scores_as_in_ir_measures_when_it_names_all_grades() -> None:
    gold, run = bulk(8, 100, lowest=0)
    name = "nDCG(gains={0:0,1:1,2:5,3:2,4:20})@10"
    parsed = ir_measures.parse_measure("nDCG(gains={1:1,2:5,3:2,4:20})@10")
    values = ours(gold, run, [name]).per_query(name)
    answers = [m for m in ir_measures.iter_calc([parsed], gold, run) if m.query_id in run]
    assert len(answers) == scored_by_both(gold, run)
    for answer in answers:
        assert values[answer.query_id] == pytest.approx(answer.value, abs=TOLERANCE)


@pytest.mark.skipif(shutil.which("perl") is None, reason="ir_measures computes these in Perl, which is not here")
def test_exponential_gain_and_expected_reciprocal_rank_score_as_in_ir_measures() -> None:
    gold, run = bulk(9, 300)
    names = ("nDCG(dcg='exp-log2')@10", "nDCG(dcg='exp-log2')@5", "ERR@10", "ERR@20")
    assert compare_with_ir_measures(gold, run, names, tolerance=0.5e-5 + 1e-9) > 200 * len(names)


def test_rank_biased_precision_scores_as_in_ir_measures() -> None:
    pytest.importorskip("cwl", reason="ir_measures computes RBP with cwl-eval, which is not installed")
    gold, run = bulk(10, 100, ties=False)
    names = ("RBP(p=0.8,rel=1)", "RBP(p=0.5,rel=1)", "RBP(p=0.95,rel=2)")
    assert compare_with_ir_measures(gold, run, names) > 50 * len(names)


USER_MODELS = (
    "INST(max_rel=4)",
    "INST(T=2.5,min_rel=1,max_rel=3)",
    "INSQ(T=2.0,max_rel=4)",
    "INSQ(max_rel=2)",
    "BPM(max_rel=4)@10",
    "BPM(T=2.0,max_rel=3)@20",
    "SDCG(max_rel=4)@10",
    "SDCG(min_rel=1,max_rel=2)@5",
    "NERR8(max_rel=4)@10",
    "NERR9(max_rel=3)@10",
    "NERR10(max_rel=4)",
    "NERR10(p=0.5,max_rel=4)",
    "NERR11(max_rel=4)",
    "NERR11(T=3.0,max_rel=2)",
)
COMPAT = ("Compat", "Compat(p=0.5)", "Compat(p=0.99,normalize=False)")


@pytest.mark.parametrize("names", [USER_MODELS, COMPAT], ids=["cwl_eval", "compat"])
def test_user_models_and_compatibility_score_as_in_ir_measures_without_ties(names: tuple[str, ...]) -> None:
    gold, run = bulk(13, 120, ties=False)
    long = {f"D{i}": 2000 - i / 4 for i in range(1200)}  # cwl_eval looks at 1,000 docs
    gold, run = {**gold, "long": {"D998": 3, "D1003": 4, "D5": 1}}, {**run, "long": long}
    assert compare_with_ir_measures(gold, run, names) == scored_by_both(gold, run) * len(names)


@pytest.mark.parametrize("name", ["Accuracy", "Accuracy@10", "Accuracy(rel=2)@20"])
def test_accuracy_scores_as_in_ir_measures_without_ties(name: str) -> None:
    """ir_measures divides by zero where all docs are relevant; both leave out queries without a relevant doc."""
    gold, run = bulk(14, 400, ties=False)
    rel, k = karat.parse(name).param("rel"), karat.parse(name).k or 1000
    top = {q: sorted(docs, key=docs.__getitem__, reverse=True)[: int(k)] for q, docs in run.items()}
    run = {q: run[q] for q in run if not all(gold.get(q, {}).get(d, 0) >= rel for d in top[q])}
    theirs = {m.query_id: m.value for m in ir_measures.iter_calc([ir_measures.parse_measure(name)], gold, run)}
    values = ours(gold, run, [name]).per_query(name)
    assert len(theirs) > 100
    assert {q: v for q, v in values.items() if not math.isnan(v)} == pytest.approx(theirs, abs=TOLERANCE)


def test_means_are_those_of_trec_eval_with_all_queries_of_the_gold() -> None:
    gold, run = bulk(11, 200)
    evaluator = pytrec_eval.RelevanceEvaluator(gold, {"map", "ndcg_cut.10", "P.5", "num_ret", "gm_map"})
    theirs = evaluator.evaluate(run)
    result = ours(gold, run, ["map", "ndcg@10", "precision@5", "num_ret", "gm_map"])
    for trec, name in (("map", "map"), ("ndcg_cut_10", "ndcg@10"), ("P_5", "precision@5")):
        # -c: the sum over what was scored, divided by all queries of the gold
        assert result.mean[name] == pytest.approx(sum(v[trec] for v in theirs.values()) / len(gold), abs=TOLERANCE)
    assert result.mean["num_ret"] == sum(v["num_ret"] for v in theirs.values())
    skipped = karat.evaluate(gold, run, ["map", "gm_map"], like="trec_eval", cache=False)
    expected = pytrec_eval.compute_aggregated_measure("gm_map", [v["gm_map"] for v in theirs.values()])
    assert skipped.mean["gm_map"] == pytest.approx(expected, abs=TOLERANCE)
    assert skipped.mean["map"] == pytest.approx(np.mean([v["map"] for v in theirs.values()]), abs=TOLERANCE)


def test_scores_that_only_float32_ties_agree_in_float32_and_not_in_float64() -> None:
    gold = {"q": {"a": 1, "b": 0}}
    run = {"q": {"a": 1.00000001, "b": 1.0}}
    theirs = pytrec_eval.RelevanceEvaluator(gold, {"recip_rank"}).evaluate(run)["q"]["recip_rank"]
    assert theirs == 1 / 2
    assert ours(gold, run, ["mrr"]).mean["mrr"] == theirs
    assert karat.evaluate(gold, run, "mrr", cache=False).mean["mrr"] == 1


# --- metrics without a peer at hand: the formula of the paper, as plainly as it can be written ---------


def rbp_plain(grades: list[int | None], gold: list[int], p: float = 0.8) -> float:
    return (1 - p) * sum(p**i for i, g in enumerate(grades) if g is not None and g >= 1)


def residual_plain(grades: list[int | None], gold: list[int], p: float = 0.8) -> float:
    return 1 - (1 - p) * sum(p**i for i, g in enumerate(grades) if g is not None and g >= 0)


def err_plain(grades: list[int | None], gold: list[int], max_grade: int = 4) -> float:
    total, going_on = 0.0, 1.0
    for rank, grade in enumerate(grades, start=1):
        stop = (2 ** max(grade or 0, 0) - 1) / 2**max_grade
        total += going_on * stop / rank
        going_on *= 1 - stop
    return total


def q_plain(grades: list[int | None], gold: list[int]) -> float:
    ideal = sorted((g for g in gold if g > 0), reverse=True)
    total = 0.0
    for rank, grade in enumerate(grades, start=1):
        if grade is not None and grade > 0:
            found = [g for g in grades[:rank] if g is not None and g > 0]
            total += (len(found) + sum(found)) / (rank + sum(ideal[:rank]))
    return total / len(ideal) if ideal else 0.0


def wrecall_plain(grades: list[int | None], gold: list[int]) -> float:
    whole = sum(g for g in gold if g > 0)
    return sum(g for g in grades[:10] if g is not None and g > 0) / whole if whole else 0.0


def unj_plain(grades: list[int | None], gold: list[int]) -> float:
    return sum(g is None or g < 0 for g in grades[:10]) / 10


def graded_rbp_plain(grades: list[int | None], gold: list[int], p: float = 0.8) -> float:
    return (1 - p) * sum(min(max(g or 0, 0), 2) / 2 * p**i for i, g in enumerate(grades))


def iprec_10_plain(grades: list[int | None], gold: list[int]) -> float:
    """At recall .3: lround(.3 · R) docs, as in m_iprec_at_recall.c of trec_eval 10."""
    needed = math.floor(0.3 * sum(g >= 1 for g in gold) + 0.5)
    hits = np.cumsum([g is not None and g >= 1 for g in grades])
    return max((float(n / i) for i, n in enumerate(hits, start=1) if n >= max(needed, 1)), default=0.0)


PLAIN = {
    "unj@10": unj_plain,
    "rbp(gain=graded,max_grade=2)": graded_rbp_plain,
    "iprec(version=10)@0.3": iprec_10_plain,
    "rbp": rbp_plain,
    "rbp_residual": residual_plain,
    "err": err_plain,
    "q": q_plain,
    "wrecall@10": wrecall_plain,
}


@pytest.mark.parametrize("name", PLAIN)
def test_many_random_queries_score_as_the_plain_formula(name: str) -> None:
    gold, run = bulk(12, 300)
    values = karat.evaluate(gold, run, name, level="chunk", cache=False).per_query(name)
    assert values.keys() == gold.keys()
    for query, judged in gold.items():
        scores = run.get(query, {})
        order = sorted(scores, key=lambda d: (scores[d], d.encode()), reverse=True)
        expected = PLAIN[name]([judged.get(d) for d in order], list(judged.values()))
        assert values[query] == pytest.approx(expected, abs=TOLERANCE), query


# --- real systems -------------------------------------------------------------------------------------

SYSTEMS = ("ada2", "bm25", "bm25-rm3", "splade", "tas-b")
needs_dl19 = pytest.mark.skipif(not DL19.is_dir(), reason=f"needs the TREC DL 2019 data in {DL19}")


@pytest.fixture(scope="module")
def dl19() -> tuple[Gold, dict[str, Scores]]:
    with open(DL19 / "qrels.txt") as file:
        gold = pytrec_eval.parse_qrel(file)
    runs = {}
    for system in SYSTEMS:
        with open(DL19 / f"{system}.run") as file:
            runs[system] = pytrec_eval.parse_run(file)
    return gold, runs


@needs_dl19
@pytest.mark.parametrize("rel", [1, 2])
@pytest.mark.parametrize("system", SYSTEMS)
def test_dl19_scores_as_in_trec_eval(system: str, rel: int, dl19: tuple[Gold, dict[str, Scores]]) -> None:
    gold, runs = dl19
    compared = compare_with_trec_eval(gold, runs[system], rel, mine=str(DL19 / f"{system}.run"))
    assert compared == 43 * len(TREC)


@needs_dl19
@pytest.mark.parametrize("system", SYSTEMS)
def test_dl19_scores_as_in_ir_measures(system: str, dl19: tuple[Gold, dict[str, Scores]]) -> None:
    gold, runs = dl19
    names = IR + IR_REL_2
    assert compare_with_ir_measures(gold, runs[system], names, mine=str(DL19 / f"{system}.run")) == 43 * len(names)


@needs_dl19
@pytest.mark.skipif(shutil.which("perl") is None, reason="ir_measures computes these in Perl, which is not here")
@pytest.mark.parametrize("system", SYSTEMS)
def test_dl19_exponential_gain_and_err_score_as_in_ir_measures(
    system: str, dl19: tuple[Gold, dict[str, Scores]]
) -> None:
    gold, runs = dl19
    names = ("nDCG(dcg='exp-log2')@10", "ERR@10")
    assert compare_with_ir_measures(gold, runs[system], names, 0.5e-5 + 1e-9) == 43 * 2


@needs_dl19
@pytest.mark.parametrize(("system", "published"), [("bm25", 0.5058), ("ada2", 0.7035), ("splade", 0.7308)])
def test_dl19_ndcg_is_the_published_figure(system: str, published: float) -> None:
    result = karat.evaluate(str(DL19 / "qrels.txt"), str(DL19 / f"{system}.run"), "ndcg@10", cache=False)
    assert round(result.mean["ndcg@10"], 4) == published
    assert result.n["ndcg@10"] == 43
