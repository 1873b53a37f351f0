"""Under `like`, a name has the number that it has in that tool, or is refused.

Every name that an installed peer offers is scored, with each of its parameters, over random gold and runs in which some
queries are missing: the values per query and their aggregate are the peer's, or the name stands in the list of those
that Karat refuses. Scores have no ties except for trec_eval, since ir_measures breaks ties in a different order in
each of its back ends, and ranx in no order that it states.
"""

from __future__ import annotations

import inspect
import math
import re
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import ir_measures
import numpy as np
import pytest
import pytrec_eval

import karat
from karat.metrics.spellings import TREC_CUTS
from random_runs import bulk

Gold = Mapping[str, Mapping[str, int]]
TOLERANCE = 1e-9


def score_like(gold: Any, run: Any, name: str, like: str) -> karat.Result:
    return karat.evaluate(gold, run, name, like=like, cache=False)


# --- ir_measures ------------------------------------------------------------------------------------------

OTHER_VALUES = {
    "rel": "2",
    "p": "0.6",
    "T": "2.0",
    "min_rel": "1",
    "beta": "0.3",
    "alpha": "0.2",
    "dcg": "'exp-log2'",
    "gains": "{1:4}",
    "normalize": "False",
    "relative": "True",
    "judged_only": "True",
}
SUBTOPICS = ("ERR_IA", "nERR_IA", "alpha_DCG", "α_DCG", "alpha_nDCG", "α_nDCG", "NRBP", "nNRBP", "AP_IA", "MAP_IA")
SUBTOPICS = (*SUBTOPICS, "P_IA", "StRecall")
NOT_IN_IR_MEASURES = {
    r"RBP.*@\d+": "cwl_eval has no cutoff",
    r"RBP|RBP\(p=0.6\)": "graded RBP is documented there, and in no back end",
    r"ERR": "gdeval wants a cutoff",
    r"NumRel\(rel=2\)": "pytrec_eval ignores the level",
    r"SDCG\(.*exp-log2.*": "not a choice there",
    r"(nDCG|NDCG)\(dcg='exp-log2'\)": "ranx, which has it, refuses the frame that it gets",
}
"""Spellings that ir_measures has no number for, and why."""
REFUSED_AS_IN_IR_MEASURES = (
    r".*judged_only=True.*",  # a convention of all metrics here
    r"[αa].*_n?DCG\(rel=2\).*",  # its `rel` is not a parameter here
    r"(ERR_IA|alpha_DCG|α_DCG)(\(.*\))?@1",  # not divided by its best value there
)


def spellings_of_ir_measures() -> Iterator[str]:
    for name, measure in ir_measures.measures.registry.items():
        known = measure.SUPPORTED_PARAMS
        always = [f"{p}=4" for p in ("max_rel",) if p in known]
        each = [f"{p}={OTHER_VALUES[p]}" for p in known if p not in ("cutoff", "recall", "max_rel")]
        cuts = ["@10", "@1"] if "cutoff" in known else ["@0.3", "@1.0"] if "recall" in known else []
        if not (cuts and known[measure.AT_PARAM].required) and not (name in SUBTOPICS and cuts):
            cuts = ["", *cuts]
        for chosen in ([], *([one] for one in each)):
            args = ",".join([*always, *chosen])
            yield from (f"{name}({args}){cut}" if args else name + cut for cut in cuts)


IR_SPELLINGS = list(spellings_of_ir_measures())


def by_subtopic(seed: int) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """Random gold by subtopic and runs; some queries are missing."""
    rng = np.random.default_rng(seed)
    gold: dict[str, Any] = {}
    run: dict[str, dict[str, float]] = {}
    for n in range(40):
        pool = [f"doc-{i}" for i in rng.permutation(40)]
        topics = [str(t) for t in range(1, 2 + n % 5)]
        gold[str(n)] = {d: {t: int(rng.choice([-1, 0, 1, 1, 2])) for t in topics} for d in pool[: 5 + n % 20]}
        if n % 9:
            docs = rng.permutation(pool)[: int(rng.integers(1, 35))].tolist()
            run[str(n)] = dict(zip(docs, rng.permutation(len(docs)).astype(float).tolist(), strict=True))
    return gold, run


@pytest.fixture(scope="module")
def topics() -> tuple[Any, Any, Any]:
    gold, run = by_subtopic(1)
    rows = [ir_measures.Qrel(q, d, g, t) for q, docs in gold.items() for d, by in docs.items() for t, g in by.items()]
    return gold, run, rows


@pytest.fixture(scope="module")
def plain() -> tuple[Gold, Any]:
    gold, run = bulk(21, 80, ties=False)
    kept = {q: d for q, d in run.items() if q not in gold or any(gold[q].get(doc, 0) < 1 for doc in list(d)[:1])}
    full = {q: {**d, "unjudged": 999.0} for q, d in kept.items()}  # Accuracy divides by the docs that are not relevant
    return gold, full


@pytest.mark.parametrize("name", IR_SPELLINGS)
def test_a_name_of_ir_measures_has_its_number_or_is_refused(name: str, plain: Any, topics: Any) -> None:
    subtopics = name.partition("(")[0].partition("@")[0] in SUBTOPICS
    gold, run, rows = topics if subtopics else (*plain, plain[0])
    by_perl = name.startswith("ERR@") or "exp-log2" in name
    if by_perl and shutil.which("perl") is None:
        pytest.skip("ir_measures computes this in Perl, which is not here")
    if any(re.fullmatch(pattern, name) for pattern in REFUSED_AS_IN_IR_MEASURES):
        with pytest.raises(karat.MetricError):
            karat.parse_all(name, like="ir_measures")
        return
    measure = ir_measures.parse_measure(name)
    if any(re.fullmatch(pattern, name) for pattern in NOT_IN_IR_MEASURES):
        with pytest.raises((ValueError, AssertionError)):
            ir_measures.calc_aggregate([measure], rows, run)
        return
    total, theirs = ir_measures.calc([measure], rows, run)
    per_query = {m.query_id: m.value for m in theirs}
    result = score_like(gold, run, name, "ir_measures")
    values = {q: v for q, v in result.per_query(name).items() if not math.isnan(v)}
    expected = {q: 0.0 if math.isnan(v) else v for q, v in per_query.items()}  # 0 / 0 in ndeval
    tolerance = 0.5e-5 + TOLERANCE if by_perl else TOLERANCE
    assert values == pytest.approx(expected, abs=tolerance)
    if not any(map(math.isnan, per_query.values())):
        assert result.mean[name] == pytest.approx(total[measure], abs=tolerance, nan_ok=True)


def test_every_refusal_and_every_gap_of_ir_measures_is_of_a_name_that_it_offers() -> None:
    for pattern in (*REFUSED_AS_IN_IR_MEASURES, *NOT_IN_IR_MEASURES):
        assert any(re.fullmatch(pattern, name) for name in IR_SPELLINGS), pattern


# --- trec_eval --------------------------------------------------------------------------------------------

NO_NUMBER = ("runid", "relstring")


@pytest.mark.parametrize("name", sorted(pytrec_eval.supported_measures))
def test_a_name_of_trec_eval_has_its_numbers_or_is_refused(name: str) -> None:
    gold, run = bulk(22, 100)
    if name in NO_NUMBER:
        with pytest.raises(karat.MetricError, match="not a number"):
            karat.parse_all(name, like="trec_eval")
        return
    theirs = pytrec_eval.RelevanceEvaluator(gold, {name}).evaluate(run)
    result = score_like(gold, run, name, "trec_eval")
    written = {column for values in theirs.values() for column in values}
    assert len(result.metrics) == len(written)
    for column in written:
        expected = {q: v[column] for q, v in theirs.items()}
        total = pytrec_eval.compute_aggregated_measure(column, list(expected.values()))
        found = result.per_query(column)
        if column.startswith("gm_"):
            found = {q: math.log(max(v, 0.00001)) for q, v in found.items()}
        assert found == pytest.approx(expected, abs=TOLERANCE), column
        assert result.mean[column] == pytest.approx(total, abs=TOLERANCE), column


@pytest.mark.parametrize(("name", "measure"), [("set_F.0.5", "set_F.0.5"), ("set_F_2", "set_F.2"), ("P.15", "P.15")])
def test_a_parameter_of_trec_eval_means_what_it_means_there(name: str, measure: str) -> None:
    gold, run = bulk(23, 100)
    theirs = pytrec_eval.RelevanceEvaluator(gold, {measure}).evaluate(run)
    expected = {q: next(iter(v.values())) for q, v in theirs.items()}
    assert score_like(gold, run, name, "trec_eval").per_query(name) == pytest.approx(expected, abs=TOLERANCE)


def test_the_cutoffs_of_trec_eval_are_those_it_reports() -> None:
    gold, run = bulk(24, 10)
    for name, cuts in TREC_CUTS.items():
        if name != "unj":  # of version 10
            (columns, *_) = pytrec_eval.RelevanceEvaluator(gold, {name}).evaluate(run).values()
            assert sorted(float(c.rpartition("_")[2]) for c in columns) == sorted(map(float, cuts))


# --- ranx ---------------------------------------------------------------------------------------------------

REFUSED_AS_IN_RANX = {
    **{f"{name}{cut}-l2": "gains" for name in ("dcg", "dcg_burges", "ndcg", "ndcg_burges") for cut in ("", "@5")},
    "rbp": "needs a persistence",
    "rbp-l2": "needs a persistence",
    **{f"r-precision@5{level}": "takes no cutoff" for level in ("", "-l2")},  # ranx ignores it
    **{f"bpref{cut}{level}": "grades below 0" for cut in ("", "@5") for level in ("", "-l2")},
}
"""Spellings that are refused, and a word of the reason."""


def names_of_ranx() -> list[str]:
    ranx = pytest.importorskip("ranx", reason="ranx is not installed (pip install '.[test]')")
    return re.findall(r'metric == "(.+?)"', inspect.getsource(ranx.metrics.metric_switch))


@pytest.mark.filterwarnings("ignore")  # numba compiles with warnings
def test_a_name_of_ranx_has_its_number_or_is_refused() -> None:
    import ranx

    gold, run = bulk(25, 120, ties=False)
    names = names_of_ranx()
    assert len(names) == 14
    spellings = [f"{n}{k}{level}" for n in names if n != "rbp" for k in ("", "@5") for level in ("", "-l2")]
    spellings += ["rbp", "rbp-l2", "rbp.95", "rbp.5", "rbp@80", "rbp.95-l2"]
    assert set(REFUSED_AS_IN_RANX) <= set(spellings)
    for name, reason in REFUSED_AS_IN_RANX.items():
        with pytest.raises(karat.MetricError, match=reason):
            karat.parse_all(name, like="ranx")
    scorable = [name for name in spellings if name not in REFUSED_AS_IN_RANX]
    scored = ranx.Run({q: dict(d) for q, d in run.items()})
    totals = ranx.evaluate(ranx.Qrels({q: dict(d) for q, d in gold.items()}), scored, scorable, make_comparable=True)
    for name in scorable:
        result = score_like(gold, run, name, "ranx")
        assert result.per_query(name) == pytest.approx(dict(scored.scores[name]), abs=TOLERANCE), name
        assert result.mean[name] == pytest.approx(float(totals[name]), abs=TOLERANCE), name


# --- how names are read --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("like", "written", "canonical"),
    [
        (None, "rbp.95", "rbp(p=0.95)"),
        (None, "set_F.0.25", "f1(beta=0.5)"),
        (None, "Rprec_mult_0.20", "rprec(multiple=0.2)"),
        (None, "precision@5-l2", "precision(rel=2)@5"),
        (None, "rbp.95-l2", "rbp(p=0.95,rel=2)"),
        (None, "cost.tokens-l2", "cost.tokens-l2"),
        (None, "α_nDCG@10", "alpha_ndcg(kind=subtopic)@10"),
        (None, "hits@5", "num_rel_ret@5"),
        ("ranx", "hits@5", "hits_per_query@5"),
        ("ranx", "rbp@95", "rank_biased_gain(p=0.95)"),
        (None, "rbp@95", "rbp@95"),
        ("ir_measures", "nDCG(gains={1:4})@10", "ndcg(gains={1:4},unlisted=grade)@10"),
        ("ir_measures", "ndcg(gains={1:4})@10", "ndcg(gains={1:4})@10"),
        ("ir_measures", "SetF(beta=0.25)", "f1(beta=0.5)"),
        ("ir_measures", "nDCG(cutoff=5,judged_only=False)", "ndcg@5"),
        ("ir_measures", "IPrec(recall=0.1)", "iprec@0.1"),
        ("ir_measures", "Judged@10", "judged(missing=zero,pooled=true)@10"),
        ("ir_measures", "NumRet(rel=2)", "num_rel_ret(rel=2)"),
        ("ir_measures", "latency.p50", "latency.p50"),
        ("beir", "R_cap@10", "recall(cap=true)@10"),
        ("trec_eval", "map_cut", "map@5 map@10 map@15 map@20 map@30 map@100 map@200 map@500 map@1000"),
    ],
)
def test_a_name_is_read_as_its_tool_means_it(like: str | None, written: str, canonical: str) -> None:
    assert " ".join(m.name for m in karat.parse_all(written, like=like)) == canonical


@pytest.mark.parametrize(
    ("like", "written", "reason"),
    [
        ("ir_measures", "RBP(p=0.8)", "needs rel there, such as RBP.rel=1."),
        ("ir_measures", "RBP(rel=1,p=0.99)", "1,000 docs"),
        ("ir_measures", "P", "needs a cutoff there, such as P@10"),
        ("ir_measures", "INST", "needs max_rel there"),
        ("ir_measures", "AP(judged_only=True)", "use condensed"),
        ("ir_measures", "ERR_IA@1", "at cutoff 1"),
        ("beir", "Accuracy@10", "hit@10"),
        ("beir", "Hole@10", "unj@10"),
        ("trec_eval", "relstring", "a string of grades"),
        ("ranx", "rbp", "such as rbp.95"),
    ],
)
def test_a_name_whose_number_karat_lacks_is_refused_with_the_reason(like: str, written: str, reason: str) -> None:
    with pytest.raises(karat.MetricError, match=reason):
        karat.parse_all(written, like=like)


def test_cutoffs_that_are_passed_apart_apply_to_names_of_other_tools() -> None:
    names = [m.name for m in karat.parse_all(["P", "recall"], ks=[5, 10], like="trec_eval")]
    assert names == ["precision@5", "precision@10", "recall@5", "recall@10"]
    assert [m.name for m in karat.parse_all("P,SDCG(max_rel=2)", ks=[3], like="ir_measures")] == [
        "precision@3",
        "sdcg(max_grade=2)@3",
    ]


def test_values_are_found_by_the_name_they_were_asked_for() -> None:
    gold, run = {"1": {"a": 1}, "2": {"b": 1}}, {"1": ["a", "x"]}
    result = score_like(gold, run, "Judged@2,NumQ", "ir_measures")
    assert (result.mean["Judged@2"], result.mean["NumQ"]) == ((1 / 2 + 0) / 2, 1)
    assert "Judged@2" in result.mean
    assert "judged@2" not in result.mean


def test_a_config_reads_names_as_the_tool_does_in_gates_too(tmp_path: Any) -> None:
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n2 0 b 1\n")
    (tmp_path / "a.run").write_text("1 Q0 a 1 2.0 x\n1 Q0 z 2 1.0 x\n")
    (tmp_path / "karat.yaml").write_text(
        "dataset: {qrels: qrels.txt}\nruns: a.run\nconventions: {like: trec_eval}\n"
        "metrics: [P, set_recall]\ngates: [set_recall >= 0.1 at the mean]\n"
    )
    result = karat.check(str(tmp_path / "karat.yaml")).result
    assert result.metrics == (*(f"precision@{k}" for k in TREC_CUTS["P"]), "recall")
