"""What is true of every metric in the registry, whoever declared it.

Names with every cutoff and parameter are derived from the declarations, so that a new metric is tested as soon as it
is declared. `SPECIAL` adds what a declaration cannot tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import karat
from karat.metrics import DEFAULT_METRICS, PRIMARY, unregister
from karat.metrics.registry import STATISTICS, Param

SPECIAL: dict[str, tuple[str, ...]] = {
    # What cannot be derived from a declaration: parameters that need each other, words, and values worth a look.
    "hit": ("hit(rel=0.5)",),
    "precision": ("precision(rel=1.5,denom=retrieved)@2",),
    "recall": ("recall(rel=2,cap=true)@1", "recall(cap=true)@3"),
    "recall_auc": ("recall_auc@20", "recall_auc(rel=2)@50"),
    "f1": ("f1(beta=0.5)", "f1(rel=2,beta=3)@4"),
    "mrr": ("mrr@2", "mrr(rel=3)@5"),
    "map": ("map@3", "map(norm=min)@3", "map(rel=2,norm=min)@2"),
    "ndcg": ("ndcg(gain=exp)@3", "ndcg(gains={1:0.5,2:0.5,3:7.25})@4", "ndcg(gains={1:2},unlisted=grade)@4"),
    "dcg": ("dcg(gain=exp)@3", "dcg(gains={1:2},unlisted=grade)@4"),
    "err": ("err(max_grade=2)", "err(max_grade=3.5)@4"),
    "q": ("q(beta=0.1)", "q(beta=10)@5"),
    "rbp": ("rbp(p=0.5)", "rbp(p=0.95)", "rbp(p=0.1)", "rbp(p=0.3,rel=2)@5", "rbp(gain=graded,max_grade=2)"),
    "rprec": ("rprec(multiple=0.2)", "rprec(rel=2,multiple=1.8)"),
    "utility": ("utility(relevant=2,other=-0.5,absent=-1)",),
    "rbp_residual": ("rbp_residual(p=0.1)", "rbp_residual(p=0.95)@5"),
    "iprec": ("iprec@0.55", "iprec(rel=2)@0.3"),
    "num_rel_ret": ("num_rel_ret(rel=2)@5",),
    "latency": (
        "latency.p50",
        "latency.p90",
        "latency.p95",
        "latency.p99",
        "latency.mean",
        "latency.rerank.p90",
        "latency.stage-2_b.mean",
        "latency.mean.p50",
    ),
    "cost": ("cost.tokens", "cost.tokens.sum", "cost.10", "cost.usd-cents_2", "cost.sum.sum"),
    "false_evidence": ("false_evidence(threshold=0)", "false_evidence(threshold=-1.5)@1"),
    "alpha_dcg": ("alpha_dcg(relevance_weight=0)@5", "alpha_dcg(kind=subtopic,alpha=0.9)@20"),
    **{name: (f"{name}(alpha=0.2)@5",) for name in ("err_ia", "nerr_ia")},
    **{name: (f"{name}(alpha=0.2,beta=0.8)",) for name in ("nrbp", "nnrbp")},
    "novelty": ("novelty(tau=0.25)@5", "novelty(tau=0.9,words=3)"),
    "alpha_ndcg": (
        "alpha_ndcg(relevance_weight=0)@5",
        "alpha_ndcg(relevance_weight=0.75,ideal=plain)@5",
        "alpha_ndcg(kind=subtopic,alpha=0.9)@20",
    ),
}


def other_values(param: Param) -> list[str]:
    """Values of a parameter that differ from its default."""
    if param.choices:
        return [c for c in param.choices if c != param.default]
    if isinstance(param.default, bool):
        return [str(not param.default).lower()]
    if isinstance(param.default, tuple):
        return ["{1:1,2:5,3:9}"]
    if param.whole:
        return [f"{param.default + step}" for step in (1, -1)]
    if isinstance(param.default, (int, float)):
        middle = ((param.above or 0.0) + (param.below or 0.0)) / 2
        return [f"{middle * 1.1:g}"] if param.below is not None else [f"{param.default + 1:g}"]
    return []


def examples(metric: karat.Metric) -> tuple[str, ...]:
    """Names that use every cutoff and parameter of a metric, as far as its declaration tells them."""
    cuts = {"none": [""], "recall": ["", "@0", "@0.1", "@1"], "required": ["@1", "@5"]}
    ends = cuts.get(metric.cutoff, ["", "@1", "@3", "@5", "@50"])
    names = [metric.name + end for end in ends]
    names += [f"{metric.name}({p.name}={v}){ends[-1]}" for p in metric.params for v in other_values(p)]
    out = []
    for name in names:
        with suppress(karat.MetricError):  # a parameter that needs another one, or must be written
            out.append(karat.parse(name).name)
    return tuple(dict.fromkeys((*out, *SPECIAL.get(metric.name, ()))))


EXAMPLES = {metric.name: examples(metric) for metric in karat.all_metrics()}
NAMES = [name for names in EXAMPLES.values() for name in names]
# What can be measured on any run. The others need more than a run and its gold: test_budget.py, test_diversity.py and
# test_components.py measure them.
MEASURES = [name for name in NAMES if set(karat.parse(name).needs) <= {"gold", "items"}]
# Measures that are 1 when the gold comes first, best grade on top. The others cannot be: precision@k beyond the
# gold, rbp, err with few docs and infap (its ε) stay below, counts and rbp_residual have another best value.
REACHES_1 = (
    "hit@1",
    "precision",
    "precision@3",
    "precision@5",
    "precision(denom=retrieved)@5",
    "recall",
    "recall@5",
    "recall(cap=true)@1",
    "f1",
    "f1@5",
    "f1(beta=2)@5",
    "wrecall",
    "wrecall@5",
    "mrr",
    "mrr@1",
    "map",
    "map@5",
    "map(norm=min)@2",
    "gm_map",
    "ndcg",
    "ndcg@1",
    "ndcg@3",
    "ndcg@50",
    "ndcg(gain=exp)@4",
    "ndcg(gains={1:1,2:5,3:9})",
    "q",
    "q@5",
    "q(beta=10)",
    "rprec",
    "bpref",
    "iprec",
    "iprec@0",
    "iprec@0.5",
    "iprec@1",
    "judged@5",
    "g",
    "bin_g",
    "ndcg_rel",
    "rndcg",
    "set_map",
    "set_relative_p",
    "gm_bpref",
)


def scores(gold: Mapping[str, Any], run: Mapping[str, Any], names: list[str] | None = None, **options: Any) -> Any:
    """The values of all measures by query."""
    options = {"level": "chunk", "cache": False, **options}
    result = karat.evaluate(gold, run, names or MEASURES, **options)
    return {query: tuple(float(v[i]) for v in result.runs[0].values.values()) for i, query in enumerate_queries(result)}


def enumerate_queries(result: karat.Result) -> Iterator[tuple[int, str]]:
    return enumerate(result.runs[0].query_ids)


def same(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    """Equal bit for bit, and undefined where the other is."""
    return np.array(a).tobytes() == np.array(b).tobytes()


# --- the table is whole -------------------------------------------------------------------------------


def test_every_need_of_a_metric_is_known() -> None:
    parts = {n for m in karat.all_metrics() for needs in (m.needs, *m.needs_when.values()) for n in needs}
    of_pipeline = {"route", "expected_source", "retrieved", "needs_retrieval", "scores", "no_answer"}
    of_log = {"doc_version", "as_of", "latency", "cost", "returned", "item_scores"}
    of_docs = {"embeddings", "gold_embeddings", "texts"}
    assert parts <= {"gold", "items", "subtopics", "ontology", *of_log, *of_docs, *of_pipeline}


def test_the_examples_use_every_parameter_of_every_metric() -> None:
    for metric in karat.all_metrics():
        used = {name for example in EXAMPLES[metric.name] for name, _ in karat.parse(example).params}
        assert used == {p.name for p in metric.params}, (
            f"{metric.name}: give texts `choices`, or add names to SPECIAL in tests/test_common.py"
        )
        cut = {karat.parse(example).k is not None for example in EXAMPLES[metric.name]}
        assert (True in cut) == (metric.cutoff != "none"), metric.name


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_measures_of_their_metric(name: str) -> None:
    assert {karat.parse(example).metric.name for example in EXAMPLES[name]} == {name}


# --- the declaration ----------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", karat.all_metrics(), ids=lambda m: m.name)
def test_every_metric_explains_itself(metric: karat.Metric) -> None:
    for field in ("title", "formula", "tells", "family", "cites"):
        assert getattr(metric, field).strip(), field
    assert metric.tells.endswith(".")
    assert not metric.title.endswith(".")
    if metric.family != "counts":
        assert metric.use_when.endswith(".")
        assert metric.caution.endswith(".")
    assert metric.needs
    assert metric.complexity


@pytest.mark.parametrize("metric", karat.all_metrics(), ids=lambda m: m.name)
def test_every_declaration_makes_sense(metric: karat.Metric) -> None:
    low, high = metric.bounds
    assert high is None or low < high
    for value in (metric.no_results, metric.empty_gold, *metric.no_results_when.values()):
        assert value is None or math.isnan(value) or (low <= value and (high is None or value <= high))
    assert metric.cutoff in ("none", "optional", "required", "recall")
    assert metric.aggregate in ("mean", "sum", "geometric mean", "quantile")
    assert set(metric.dotted) <= {p.name for p in metric.params}
    required = [p for p in metric.params if p.required]
    assert not (metric.dotted or required) or karat.parse(metric.example).metric is metric
    statistics = next((p.choices for p in metric.params if p.name == "statistic"), ())
    assert {karat.parse(n).aggregate for n in EXAMPLES[metric.name]} <= (
        {STATISTICS[s][0] for s in statistics} or {metric.aggregate}
    )
    assert (metric.family == "counts") == (metric.aggregate == "sum")
    neither = metric.family == "counts" or metric.name == "score_spread"  # on a scale of the system's own
    assert neither == (metric.higher_is_better is None)
    for bands in metric.bands.values():
        assert [b for b, _ in bands] == sorted((b for b, _ in bands), reverse=True)
        assert bands[-1][0] == low
    for name in [*metric.bands, *metric.targets]:
        assert karat.parse(name).metric is metric
        assert karat.parse(name).name == name
    for target in metric.targets.values():
        assert high is not None and low < target < high


@pytest.mark.parametrize("metric", karat.all_metrics(), ids=lambda m: m.name)
def test_every_alias_means_its_metric(metric: karat.Metric) -> None:
    for alias in metric.aliases:
        base, _, args = alias.partition("(")
        assert karat.lookup(base) is metric
        for spelling in (base, base.upper(), base.replace("_", "-")):
            parsed = karat.parse(spelling)
            assert parsed.metric is metric
            assert parsed.name == (f"{metric.name}({args}" if args else metric.name)


def test_a_name_or_alias_that_is_taken_is_refused() -> None:
    for name, aliases in (("recall", ()), ("r", ()), ("my_new", ("NDCG",)), ("my_new", ("hit-rate",))):
        with pytest.raises(karat.MetricError, match="taken"):
            karat.metric(name, title="x", tells="y", aliases=aliases)(lambda r, k=None: np.zeros(len(r)))
    assert "my_new" not in {m.name for m in karat.all_metrics()}


def test_a_metric_of_ones_own_is_named_scored_and_forgotten_like_any_other() -> None:
    @karat.metric("second", title="Second", tells="Whether a relevant doc is at rank 2.", aliases=("runner_up",))
    def second(r: karat.Rankings, k: int | None = None, rel: float = 1) -> Any:
        return r.sum((r.rank == 2) & r.hits(rel), upto=k)

    try:
        assert karat.parse("Runner-Up(rel=2)@5").name == "second(rel=2)@5"
        gold, run = {"q": {"a": 1, "b": 2}}, {"q": ["a", "b", "c"]}
        result = karat.evaluate(gold, run, "second,second@1,second(rel=3)", cache=False)
        assert list(result.mean.values()) == [1, 0, 0]
    finally:
        unregister("second")
    with pytest.raises(karat.MetricError, match="unknown metric"):
        karat.parse("second")


def test_a_parameter_that_is_annotated_as_int_takes_no_fraction() -> None:
    @karat.metric("every_nth", title="Every nth", tells="Hits at each nth rank.", ranges={"n": (0, None)})
    def every_nth(r: karat.Rankings, k: int | None = None, n: int = 2, weight: float = 1) -> Any:
        return r.sum((r.rank % n == 0) & r.hits(1), upto=k) * weight

    try:
        (metric,) = (m for m in karat.all_metrics() if m.name == "every_nth")
        assert [p.whole for p in metric.params] == [True, False]
        assert "every_nth(n=3)@50" in examples(metric) and "every_nth(n=1)@50" in examples(metric)
        assert karat.parse("every_nth(n=3.0,weight=1.5)").name == "every_nth(n=3,weight=1.5)"
        for wrong in ("1.5", "x"):
            with pytest.raises(karat.MetricError, match=rf"n must be an integer, found '{wrong}'"):
                karat.parse(f"every_nth(n={wrong})")
    finally:
        unregister("every_nth")


# --- names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_name_survives_parse_print_parse(name: str) -> None:
    measure = karat.parse(name)
    assert measure.name == str(measure) == name
    assert karat.parse(measure.name) == measure
    assert hash(karat.parse(measure.name)) == hash(measure)
    assert karat.parse(name.upper().replace("TRUE", "True")) == measure


@pytest.mark.parametrize("name", NAMES)
def test_a_default_that_is_written_out_is_not_printed(name: str) -> None:
    measure = karat.parse(name)
    given_ = dict(measure.params)
    written = []
    for p in measure.metric.params:
        value = given_.get(p.name, p.default)
        if not isinstance(value, tuple):
            written.append(f"{p.name}={str(value).lower()}")
        elif value:
            written.append(f"{p.name}={{{','.join(f'{g}:{v}' for g, v in value)}}}")
    cut = f"@{measure.k}" if measure.k is not None else ""
    if written:
        assert karat.parse(f"{measure.metric.name}({', '.join(written)}){cut}") == measure
        assert karat.parse(f"{measure.metric.name}:{','.join(written)}{cut}") == measure
    for one in karat.parse_all([name, measure, name]):
        assert one == measure


PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "rel": st.floats(0.001, 1000) | st.integers(1, 10),
        "beta": st.floats(1e-6, 1e6),
        "p": st.floats(0.001, 0.999),
        "max_grade": st.integers(1, 10) | st.floats(0.5, 20),
        "cap": st.booleans(),
        "norm": st.sampled_from(["gold", "min"]),
        "denom": st.sampled_from(["k", "retrieved"]),
        "gain": st.sampled_from(["linear", "exp"]),
        "threshold": st.floats(-1e6, 1e6),
        "tau": st.floats(0.001, 1),
        "words": st.integers(1, 100),
        "relevance_weight": st.floats(0, 1),
        "ideal": st.sampled_from(["greedy", "plain"]),
        "stage": st.text("abcz019_-", min_size=1),
        "key": st.text("abcz019_-", min_size=1),
        "gains": st.dictionaries(st.floats(0, 100) | st.integers(0, 5), st.floats(0, 1e9), min_size=1, max_size=4),
    },
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(params=PARAMS, k=st.integers(1, 10**6), level=st.floats(0, 1), choice=st.integers(0, 9))
def test_any_parameters_survive_parse_print_parse(params: dict[str, Any], k: int, level: float, choice: int) -> None:
    for metric in karat.all_metrics():
        fitting = [p for p in metric.params if not p.choices or params.get(p.name) in p.choices]
        mine = {p.name: params[p.name] for p in fitting if p.name in params}
        if metric.refuses is not None and metric.refuses(mine) is not None:
            continue  # parameters that exclude each other
        for p in metric.params:
            if p.name == "statistic":
                mine[p.name] = p.choices[choice % len(p.choices)]
            elif p.required:
                mine.setdefault(p.name, "tokens" if p.default == "" else -2.5)
        text = ",".join(
            f"{n}=" + ("{" + ",".join(f"{g}:{w}" for g, w in v.items()) + "}" if isinstance(v, dict) else str(v))
            for n, v in mine.items()
        )
        cut = {"none": "", "recall": f"@{level}"}.get(metric.cutoff, f"@{k}")
        measure = karat.parse(metric.name + (f"({text})" if text else "") + cut)
        again = karat.parse(measure.name)
        assert again == measure
        assert again.name == measure.name
        for name, value in measure.params:
            expected = tuple(sorted(mine[name].items())) if isinstance(mine[name], dict) else mine[name]
            assert value == expected
        if metric.cutoff != "none":
            assert measure.k == (level if metric.cutoff == "recall" else k)


SPELLINGS = {
    "nDCG@10": "ndcg@10",
    "AP(rel=2)@100": "map(rel=2)@100",
    "RR@10": "mrr@10",
    "Success@5": "hit@5",
    "P@10": "precision@10",
    "R@100": "recall@100",
    "Judged@10": "judged@10",
    "RBP(p=0.8)": "rbp",
    "RBP(p=0.9)": "rbp(p=0.9)",
    "ndcg_cut_10": "ndcg@10",
    "ndcg_cut.10": "ndcg@10",
    "map": "map",
    "map_cut_10": "map@10",
    "recip_rank": "mrr",
    "P_10": "precision@10",
    "P.10": "precision@10",
    "recall_100": "recall@100",
    "success_5": "hit@5",
    "Rprec": "rprec",
    "bpref": "bpref",
    "hit_rate@5": "hit@5",
    "ndcg_burges@10": "ndcg(gain=exp)@10",
    "r-precision": "rprec",
    "ndcg_at_10": "ndcg@10",
    "HR@5": "hit@5",
    "MRR@100": "mrr@100",
    "nDCG(dcg='exp-log2')@10": "ndcg(gain=exp)@10",
    "nDCG(dcg='log2')@10": "ndcg@10",
    "Latency.P50": "latency.p50",
    "latency.total.p50": "latency.p50",
    "LATENCY.ReRank.p90": "latency.rerank.p90",
    "latency(stage=rerank,statistic=p90)": "latency.rerank.p90",
    "latency.p90(stage=rerank)": "latency.rerank.p90",
    "latency:stage=rerank,statistic=mean": "latency.rerank.mean",
    "cost.Tokens.mean": "cost.tokens",
    "cost(key=tokens,statistic=sum)": "cost.tokens.sum",
    "cost.2": "cost.2",
    "Distinct-Docs_at_5": "distinct_docs@5",
    "Alpha-nDCG@20": "alpha_ndcg@20",
    "alpha_nDCG(kind=subtopic, alpha=0.5)@10": "alpha_ndcg(kind=subtopic)@10",
    "Intra-List-Diversity@5": "ild@5",
    "iprec_at_recall_0.10": "iprec@0.1",
    "IPrec@0.1": "iprec@0.1",
    "ndcg:gain=exp@10": "ndcg(gain=exp)@10",
    "ndcg(gains={1: 1, 2: 5})@10": "ndcg(gains={1:1,2:5})@10",
    "11pt_avg": "iprec",
    "infAP": "infap",
    "set_P": "precision",
    "set_recall": "recall",
    "set_F": "f1",
    "num_rel_ret": "num_rel_ret",
    "gm_map": "gm_map",
    " ndcg@10 ": "ndcg@10",
    "NDCG@10": "ndcg@10",
    "recall(REL=2)@5": "recall(rel=2)@5",
    "ERR@10": "err@10",
}


@pytest.mark.parametrize(("written", "canonical"), SPELLINGS.items())
def test_the_spellings_of_other_tools_mean_one_canonical_name(written: str, canonical: str) -> None:
    assert karat.parse(written).name == canonical


def test_two_spellings_of_one_metric_are_computed_once_and_found_by_either() -> None:
    result = karat.evaluate({"q": ["a"]}, {"q": ["x", "a"]}, ["nDCG@10", "ndcg_cut_10", "ndcg@10"], cache=False)
    assert result.metrics == ("ndcg@10",)
    assert result.mean["nDCG@10"] == result.mean["ndcg_at_10"] == pytest.approx(1 / math.log2(3), abs=1e-12)


def test_lists_expand() -> None:
    assert [m.name for m in karat.parse_all("latency.{p50, p99}, latency.rerank.{mean}, cost.tokens")] == [
        "latency.p50",
        "latency.p99",
        "latency.rerank.mean",
        "cost.tokens",
    ]
    assert [m.name for m in karat.parse_all("recall@{1,3,5}, ndcg(gain=exp)@{5,10}")] == [
        "recall@1",
        "recall@3",
        "recall@5",
        "ndcg(gain=exp)@5",
        "ndcg(gain=exp)@10",
    ]
    assert [m.name for m in karat.parse_all(["recall", "mrr", "rprec"], ks=[1, 3])] == [
        "recall@1",
        "recall@3",
        "mrr@1",
        "mrr@3",
        "rprec",
    ]
    assert [m.name for m in karat.parse_all(DEFAULT_METRICS)] == [
        "hit@1",
        "hit@3",
        "hit@5",
        "hit@10",
        "recall@1",
        "recall@3",
        "recall@5",
        "recall@10",
        "precision@5",
        "ndcg@5",
        "ndcg@10",
        "mrr",
        "map@10",
    ]
    assert PRIMARY in [m.name for m in karat.parse_all(DEFAULT_METRICS)]


BAD_NAMES = {
    "ndgc@10": "did you mean 'ndcg@10'",
    "recall@0": "integer from 1",
    "recall@-1": "integer from 1",
    "recall@1.5": "integer from 1",
    "recall@x": "cutoff",
    "recall@nan": "cutoff",
    "recall@inf": "cutoff",
    "rprec@5": "takes no cutoff",
    "iprec@1.1": "from 0 to 1",
    "iprec@-0.1": "from 0 to 1",
    "ndcg(rel=2)@10": "no parameter 'rel'",
    "err(rel=2)": "no parameter 'rel'",
    "wrecall(rel=2)": "no parameter 'rel'",
    "q(rel=2)": "no parameter 'rel'",
    "rbp(p=1)": "below 1",
    "rbp(p=0)": "above 0",
    "rbp(p=x)": "a number",
    "recall(cap=maybe)@5": "true or false",
    "map(norm=max)@5": "one of gold, min",
    "ndcg(gain=log)": "one of",
    "ndcg(gains={1})": "map from grade to gain",
    "recall(rel)@5": "name=value",
    "f1(beta=0)": "above 0",
    "ndcg(gains={1:nan})": "gains",
    "ndcg(gains={1:inf})": "gains",
    "ndcg(gains={nan:1})": "gains",
    "ndcg(gains={1:-1})": "gains",
    "": "no metric",
    "@10": "cannot read",
    "latency": "needs a statistic, such as 'latency.p50'",
    "cost": "needs a key, such as 'cost.tokens'",
    "latency.rerank": "statistic must be one of p50, p90, p95, p99, mean",
    "latency.p42": "statistic must be one of",
    "latency.a.b.p50": "at most 2 parts",
    "latency.p50@5": "takes no cutoff; write 'latency.p50'",
    "latncy.p50": "did you mean 'latency.p50'",
    "latency.rerank.p50(stage=x)": "stage appears twice",
    "latency(stage=a b,statistic=p50)": "letters, digits",
    "latency..p50": "cannot read",
    "latency.p50.": "cannot read",
    "alpha_ndcg(rel=2)@10": "no parameter 'rel'",
    "alpha_ndcg(relevance_weight=1.5)": "from 0 to 1",
    "alpha_ndcg(alpha=0.3)": "alpha belongs to kind=subtopic",
    "alpha_ndcg(kind=subtopic,alpha=-1)": "from 0 to 1",
    "alpha_ndcg(kind=subtopic,ideal=plain)": "ideal belongs to kind=embedding",
    "alpha_ndcg(kind=topic)": "one of embedding",
    "alpha_ndcg(kind=subtopic,relevance_weight=1)@5": "relevance_weight belongs to kind=embedding",
    "novelty(tau=0)@5": "above 0",
    "novelty(tau=2)": "at most 1",
    "novelty(words=0)": "integer from 1",
    "novelty(words=2.5)": "integer from 1",
    "ild(k=3)": "no parameter 'k'",
    "ndcg.exp@10": "cannot read",
    "cost.tokens.p50": "one of mean, sum",
    "fresh@0": "integer from 1",
}


@pytest.mark.parametrize(("written", "told"), BAD_NAMES.items())
def test_a_name_that_makes_no_sense_is_refused_with_the_reason(written: str, told: str) -> None:
    with pytest.raises(karat.MetricError, match=told):
        karat.parse(written)


# --- values on random input ---------------------------------------------------------------------------

DOCS = [f"d{i}" for i in range(14)]
GRADES = st.sampled_from([-2, -1, 0, 0, 1, 1, 2, 3, 4, 0.25, 0.5, 1.5])
golds = st.dictionaries(st.sampled_from(DOCS), GRADES, min_size=1, max_size=10)
lists = st.lists(st.sampled_from(DOCS), max_size=14, unique=True)
MANY = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def is_undefined(value: float | None) -> bool:
    return value is not None and math.isnan(value)


def within(name: str, value: float) -> bool:
    low, high = karat.parse(name).metric.bounds
    return math.isnan(value) or (low <= value and (high is None or value <= high))


@MANY
@given(gold=golds, docs=st.lists(st.sampled_from(DOCS), max_size=20))
def test_every_value_is_within_bounds(gold: dict[str, float], docs: list[str]) -> None:
    values = scores({"q": gold}, {"q": docs})["q"]  # docs may come twice
    for name, value in zip(MEASURES, values, strict=True):
        assert within(name, value), (name, value)
        assert not math.isinf(value), name
        if karat.parse(name).metric.binary:
            assert value in (0, 1)
        if docs and not any(map(is_undefined, (karat.parse(name).no_results, karat.parse(name).metric.empty_gold))):
            assert not math.isnan(value), name


@MANY
@given(
    gold=st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), GRADES, min_size=1),
    docs=st.lists(st.sampled_from([f"{d}#{i}" for d in "abcx" for i in range(3)]), max_size=12),
    credit=st.sampled_from(["first", "all"]),
    condensed=st.booleans(),
)
def test_chunks_never_push_a_value_out_of_bounds(
    gold: dict[str, float], docs: list[str], credit: str, condensed: bool
) -> None:
    values = scores({"q": gold}, {"q": docs}, level="doc", chunk_credit=credit, condensed=condensed)["q"]
    for name, value in zip(MEASURES, values, strict=True):
        assert within(name, value), (name, value)


@pytest.mark.parametrize("name", MEASURES)
def test_long_lists_of_nothing_but_the_best_stay_within_bounds(name: str) -> None:
    for size in (1, 2, 3, 7, 30, 100, 1000):
        docs = [f"d{i}" for i in range(size)]
        value = karat.score(name, docs, dict.fromkeys(docs, 4))
        assert within(name, value), (size, value)


@pytest.mark.parametrize("p", [0.001, 0.1, 0.2, 0.3, 0.6, 0.7, 0.9, 0.99, 0.999])
def test_rbp_and_its_residual_stay_within_bounds_for_any_persistence(p: float) -> None:
    for size in (1, 10, 100, 3000):
        docs = [f"d{i}" for i in range(size)]
        value, residual = (karat.score(f"{name}(p={p})", docs, set(docs)) for name in ("rbp", "rbp_residual"))
        assert 0 <= value <= 1
        assert 0 <= residual <= 1
        assert value + residual == pytest.approx(1, abs=1e-12)


@MANY
@given(gold=golds, docs=lists.filter(lambda d: len(d) > 1), data=st.data())
def test_promoting_a_doc_above_a_lower_graded_one_never_lowers_a_monotone_metric(
    gold: dict[str, float], docs: list[str], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(docs) - 2))
    upper, lower = docs[at], docs[at + 1]
    assume(gold.get(lower, 0) > gold.get(upper, 0))  # an unjudged doc counts as grade 0
    swapped = [*docs[:at], lower, upper, *docs[at + 2 :]]
    # A gain table is monotone as far as it rises with the grades, and names them all.
    names = [n for n in MEASURES if karat.parse(n).metric.monotone and "gains" not in n]
    names.append("ndcg(gains={0.25:0.5,0.5:0.5,1:1,1.5:2,2:5,3:9,4:9.5})@4")
    before, after = (scores({"q": gold}, {"q": d}, names)["q"] for d in (docs, swapped))
    for name, a, b in zip(names, before, after, strict=True):
        assert b >= a - 1e-12 or (math.isnan(a) and math.isnan(b)), (name, a, b)


def test_a_rank_sensitive_metric_rises_when_a_relevant_doc_does() -> None:
    gold = {"a": 3, "b": 1}
    rising = (
        "mrr",
        "map",
        "gm_map",
        "ndcg",
        "ndcg(gain=exp)",
        "err",
        "q",
        "rbp",
        "rprec",
        "iprec",
        "hit@1",
        "recall@1",
    )
    for name in rising:
        assert karat.score(name, ["a", "b", "x"], gold) > karat.score(name, ["x", "y", "b", "a"], gold), name


# --- what must not matter -----------------------------------------------------------------------------


def several(seed: int, queries: int = 25) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """Random gold and scores without ties; some queries are in one of them only."""
    rng = np.random.default_rng(seed)
    gold: dict[str, dict[str, float]] = {}
    run: dict[str, dict[str, float]] = {}
    for n in range(queries):
        pool = [f"doc{i}" for i in rng.permutation(40)]
        judged = pool[: int(rng.integers(1, 15))]
        if n % 9 != 3:
            grades = rng.choice([-1, 0, 0, 1, 2, 3, 0.1, 0.3, 1.7], len(judged))
            gold[f"q{n}"] = dict(zip(judged, grades.tolist(), strict=True))
        if n % 11 != 4:
            size = int(rng.integers(1, 30))
            returned = rng.permutation(pool[:35])[:size].tolist()
            run[f"q{n}"] = dict(zip(returned, rng.permutation(size).astype(float).tolist(), strict=True))
    return gold, run


@pytest.mark.parametrize("seed", range(5))
def test_renaming_docs_changes_nothing_without_ties(seed: int) -> None:
    gold, run = several(seed)
    names = [f"doc{i}" for i in range(40)]
    renamed = dict(zip(names, [f"ü-{i * 7919 % 41}-{'x' * (i % 20)}" for i in range(40)], strict=True))
    assert len(set(renamed.values())) == 40
    other_gold, other_run = ({q: {renamed[d]: x for d, x in v.items()} for q, v in t.items()} for t in (gold, run))
    before, after = scores(gold, run), scores(other_gold, other_run)
    assert before.keys() == after.keys() >= gold.keys()
    assert all(same(before[q], after[q]) for q in before)


@pytest.mark.parametrize("seed", range(5))
def test_reordering_the_input_changes_nothing(seed: int) -> None:
    gold, run = several(seed)
    rng = np.random.default_rng(seed)
    for q in run:  # with ties
        run[q] = {d: s // 3 for d, s in run[q].items()}

    def shuffled(table: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        return {
            q: {d: table[q][d] for d in rng.permutation(list(table[q])).tolist()}
            for q in rng.permutation(list(table)).tolist()
        }

    before, after = scores(gold, run), scores(shuffled(gold), shuffled(run))
    assert all(same(before[q], after[q]) for q in gold)


@pytest.mark.parametrize("seed", range(5))
def test_dropping_other_queries_changes_nothing(seed: int) -> None:
    gold, run = several(seed)
    together = scores(gold, run)
    for query in sorted(gold.keys() & run.keys()):  # a run must share a query with its gold
        others = {q: run[q] for q in run if q == query or q == "q3"}
        alone = scores({query: gold[query]}, others)
        assert same(alone[query], together[query]), query


def test_single_lists_score_as_whole_runs() -> None:
    gold, run = several(7)
    whole = scores(gold, run)
    for query, scored in run.items():
        if query in gold:
            docs = sorted(scored, key=lambda d: -scored[d])
            alone = tuple(karat.score(name, docs, gold[query]) for name in MEASURES)
            assert same(alone, whole[query])


# --- nothing found, nothing to find --------------------------------------------------------------------


@pytest.mark.parametrize("name", MEASURES)
def test_no_results_score_what_is_declared(name: str) -> None:
    expected = karat.parse(name).no_results
    grades = {"a": 1, "b": 2}
    result = karat.evaluate({"none": grades, "missing": grades}, {"none": [], "other": ["a"]}, name, cache=False)
    by_query = result.per_query(name)
    values = [by_query["none"], by_query["missing"], karat.score(name, [], grades)]
    assert values == pytest.approx([values[0] if expected is None else expected] * 3, abs=0, nan_ok=True), (
        f"{name} of an empty list, of a missing query, and of a list alone; say no_results=… of its declaration, "
        "which is 0 where it says nothing"
    )


@pytest.mark.parametrize("name", MEASURES)
def test_gold_without_a_relevant_doc_scores_what_is_declared(name: str) -> None:
    expected, docs = karat.parse(name).metric.empty_gold, ["a", "b", "c"]
    nothing = karat.score(name, docs, {})
    unjudged = karat.evaluate({"q": {"x": -1}}, {"q": docs}, name, cache=False).per_query(name)["q"]
    irrelevant = karat.score(name, docs, {"a": 0, "b": -1, "z": 0})
    if expected is None:
        assert unjudged == pytest.approx(nothing, abs=0, nan_ok=True)
    else:
        assert [nothing, unjudged, irrelevant] == pytest.approx([expected] * 3, abs=0, nan_ok=True), (
            f"{name} without gold, with unjudged docs, and with docs that are not relevant; say empty_gold=… of its "
            "declaration, which is 0 where it says nothing"
        )


@pytest.mark.parametrize("name", REACHES_1)
def test_a_perfect_ranking_reaches_the_upper_bound(name: str) -> None:
    gold = {"a": 3, "b": 2, "c": 2, "d": 1, "e": 1}
    assert karat.score(name, ["a", "b", "c", "d", "e"], gold) == 1
    assert karat.parse(name).metric.bounds[1] == 1


def test_undefined_values_leave_the_mean_and_n_shows_it() -> None:
    gold = {"q1": {"a": 1}, "q2": {"b": 1}}
    result = karat.evaluate(gold, {"q1": ["a", "x"], "q2": []}, "judged@2", cache=False)
    assert (result.mean["judged@2"], result.n["judged@2"]) == (1 / 2, 1)
