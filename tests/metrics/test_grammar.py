from __future__ import annotations

import numpy as np
import pytest

import karat
from karat.metrics.registry import is_known, unregister
from karat.model.rankings import Rankings
from karat.results.fingerprints import fingerprint_metric


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("ndcg@10", "ndcg@10"),
        ("nDCG@10", "ndcg@10"),
        ("NDCG@10", "ndcg@10"),
        ("ndcg_cut_10", "ndcg@10"),
        ("ndcg_cut.10", "ndcg@10"),
        ("ndcg_at_10", "ndcg@10"),
        ("ndcg", "ndcg"),
        ("ndcg(gain=exp)@10", "ndcg(gain=exp)@10"),
        ("ndcg:gain=exp@10", "ndcg(gain=exp)@10"),
        ("nDCG(dcg='exp-log2')@10", "ndcg(gain=exp)@10"),
        ("ndcg_burges@10", "ndcg(gain=exp)@10"),
        ("ndcg(gain=linear)@10", "ndcg@10"),
        ("ndcg(gains={2:5,1:1})@10", "ndcg(gains={1:1,2:5})@10"),
        ("AP(rel=2)@100", "map(rel=2)@100"),
        ("AP", "map"),
        ("map", "map"),
        ("map_cut_10", "map@10"),
        ("MAP@100", "map@100"),
        ("RR@10", "mrr@10"),
        ("recip_rank", "mrr"),
        ("MRR@100", "mrr@100"),
        ("Success@5", "hit@5"),
        ("success_5", "hit@5"),
        ("hit_rate@5", "hit@5"),
        ("HR@5", "hit@5"),
        ("P@10", "precision@10"),
        ("P_10", "precision@10"),
        ("P.10", "precision@10"),
        ("precision@10", "precision@10"),
        ("R@100", "recall@100"),
        ("recall_100", "recall@100"),
        ("recall(rel=2)@5", "recall(rel=2)@5"),
        ("recall(rel=1)@5", "recall@5"),
        ("recall( rel = 2.0 )@5", "recall(rel=2)@5"),
        ("Rprec", "rprec"),
        ("r-precision", "rprec"),
        ("bpref", "bpref"),
        ("Bpref", "bpref"),
        ("infAP", "infap"),
        ("RBP(p=0.8)", "rbp"),
        ("RBP(p=0.95)@20", "rbp(p=0.95)@20"),
        ("Judged@10", "judged@10"),
        ("iprec_at_recall_0.10", "iprec@0.1"),
        ("iprec_at_recall_.10", "iprec@0.1"),
        ("iprec_at_recall_0.00", "iprec@0"),
        ("IPrec@0.1", "iprec@0.1"),
        ("11pt_avg", "iprec"),
        ("gm_map", "gm_map"),
        ("num_rel_ret", "num_rel_ret"),
        ("set_P", "precision"),
        ("f1@5", "f1@5"),
        ("f1(beta=2)@5", "f1(beta=2)@5"),
        ("ERR@20", "err@20"),
        ("recall(cap=true,rel=2)@5", "recall(rel=2,cap=true)@5"),
        ("hits@10", "num_rel_ret@10"),
    ],
)
def test_spellings_of_other_tools_mean_one_metric(written: str, canonical: str) -> None:
    assert karat.parse(written).name == canonical
    assert karat.parse(canonical).name == canonical
    assert karat.parse(written) == karat.parse(canonical)
    assert hash(karat.parse(written)) == hash(karat.parse(canonical))


def test_lists_expand_and_commas_split_only_outside_brackets() -> None:
    names = [m.name for m in karat.parse_all("recall@{1,3,5},ndcg(gains={1:1,2:5})@10, map")]
    assert names == ["recall@1", "recall@3", "recall@5", "ndcg(gains={1:1,2:5})@10", "map"]
    assert [m.name for m in karat.parse_all(["recall:rel=2,cap=true@5,P@5"])] == [
        "recall(rel=2,cap=true)@5",
        "precision@5",
    ]


def test_ks_expand_what_has_no_cutoff() -> None:
    names = [m.name for m in karat.parse_all(["recall", "map@10", "rprec"], ks=[1, 5])]
    assert names == ["recall@1", "recall@5", "map@10", "rprec"]


def test_two_spellings_of_one_metric_are_computed_once() -> None:
    result = karat.evaluate({"q": {"d": 1}}, {"q": {"d": 1.0}}, "nDCG@10,ndcg_cut_10,P@5,precision@5")
    assert list(result.mean) == ["ndcg@10", "precision@5"]


@pytest.mark.parametrize(
    ("written", "fragments"),
    [
        ("ndgc@10", ["ndgc@10", "did you mean 'ndcg@10'"]),
        ("reccall@5", ["did you mean 'recall@5'"]),
        ("re-call@5", ["did you mean 'recall@5'"]),
        ("hit-l2@5", ["did you mean 'hit@5-l2'"]),
        ("ndcg-l2@10", ["unknown metric 'ndcg-l2@10': ndcg takes no level of relevance (rel)"]),
        ("router.routing_accuracy", ["did you mean 'routing_accuracy'"]),
        ("xyzzy", ["unknown metric 'xyzzy'", "karat metrics"]),
        ("ndcg@0", ["cutoff must be an integer from 1", "found 0"]),
        ("ndcg@-1", ["integer from 1"]),
        ("ndcg@1.5", ["integer from 1", "1.5"]),
        ("ndcg@ten", ["'ten'"]),
        ("ndcg@", ["''"]),
        ("rprec@5", ["takes no cutoff"]),
        ("iprec@1.5", ["0 to 1"]),
        ("recall(rell=2)@5", ["no parameter 'rell'", "did you mean 'rel'"]),
        ("recall(rel=two)@5", ["rel must be a number", "'two'"]),
        ("recall(rel=0)@5", ["above 0"]),
        ("rbp(p=1.5)", ["below 1"]),
        ("ndcg(gain=cubic)@5", ["one of linear, exp", "cubic"]),
        ("ndcg(gain)@5", ["name=value"]),
        ("recall(cap=maybe)@5", ["true or false"]),
        ("ndcg(gains={1})@5", ["{1:1,2:5}"]),
        ("ndcg(gain=exp@5", ["cannot read metric"]),
        ("", ["no metric was named"]),
    ],
)
def test_a_wrong_name_says_what_is_wrong_and_what_to_write(written: str, fragments: list[str]) -> None:
    with pytest.raises(karat.MetricError) as caught:
        karat.parse_all(written)
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_a_result_is_looked_up_by_any_spelling_and_says_what_it_holds() -> None:
    result = karat.evaluate({"q": {"d": 1}}, {"q": {"d": 1.0}}, "ndcg@10")
    assert result.mean["nDCG@10"] == result.mean["ndcg_cut_10"] == 1.0
    assert "ndcg_at_10" in result.mean
    assert "map" not in result.mean
    assert "nonsense" not in result.mean
    with pytest.raises(KeyError, match="map was not asked for"):
        result.mean["map"]


def test_a_grade_that_counts_as_relevant_is_above_zero_unless_the_metric_says_otherwise() -> None:
    def any_grade(r: Rankings, rel: float = 1, half: float = 5) -> np.ndarray:
        return np.full(len(r), rel)

    declared = karat.metric("any_grade", title="", tells="", cutoff="none", ranges={"half": (0.1, None)})
    below = karat.metric("below_zero", title="", tells="", cutoff="none", ranges={"rel": (-2, None)})
    declared(any_grade), below(any_grade)
    try:
        for name in ("any_grade(rel=0)", "any_grade(rel=-1)", "max_ont_sim(rel=-1)"):
            with pytest.raises(karat.MetricError, match="rel must be above 0, found"):
                karat.parse(name)
        with pytest.raises(karat.MetricError, match=r"half must be above 0\.1, found '0\.1'"):
            karat.parse("any_grade(half=0.1)")
        assert karat.parse("any_grade(rel=0.5,half=0.2)").name == "any_grade(rel=0.5,half=0.2)"
        assert karat.parse("below_zero(rel=-1)").name == "below_zero(rel=-1)"
    finally:
        unregister("any_grade")
        unregister("below_zero")


def test_own_metrics_are_registered_like_the_built_in_ones() -> None:
    @karat.metric(
        "top_grade",
        title="Grade at rank 1",
        tells="The grade of the first doc.",
        aliases=("first_grade",),
        bounds=(0, None),
    )
    def top_grade(r: Rankings, k: int | None = None, floor: float = 0) -> np.ndarray:
        first = r.rank == 1
        out = np.full(len(r), float(floor))
        out[r.query[first]] = r.grade[first]
        return out

    try:
        result = karat.evaluate(
            {"a": {"x": 3}, "b": {"y": 2}}, {"a": {"x": 1.0}, "b": {"z": 1.0}}, "first_grade,top_grade(floor=1)"
        )
        assert result.per_query("top_grade") == {"a": 3.0, "b": 0.0}
        assert result.per_query("top_grade(floor=1)") == {"a": 3.0, "b": 1.0}
        with pytest.raises(karat.MetricError, match="taken"):
            karat.metric("ndcg_cut", title="", tells="")(top_grade)
        with pytest.raises(karat.MetricError, match="taken"):
            karat.metric("another", title="", tells="", aliases=("P",))(top_grade)
    finally:
        unregister("top_grade")
    with pytest.raises(karat.MetricError):
        karat.parse("top_grade")


def test_a_parameter_needs_a_default() -> None:
    with pytest.raises(karat.MetricError, match="needs a default"):
        karat.metric("needy", title="", tells="")(lambda r, k, weight: None)


def test_a_parameter_is_never_taken_for_the_cutoff() -> None:
    """Without the check, `late@5` would count grades of 5 and above as relevant."""
    with pytest.raises(
        karat.MetricError, match="must be k, the cutoff, found 'rel'; a metric without a cutoff says cut"
    ):
        karat.metric("late", title="", tells="")(lambda r, rel=1: None)
    with pytest.raises(karat.MetricError, match="must be k, the cutoff, found nothing"):
        karat.metric("late", title="", tells="")(lambda r: None)
    with pytest.raises(karat.MetricError, match='takes k, but cutoff="none" says'):
        karat.metric("late", title="", tells="", cutoff="none")(lambda r, k=None: None)
    assert not is_known("late")


def test_installed_packages_add_metrics_through_the_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    from karat.metrics import registry

    def add() -> None:
        karat.metric("from_plugin", title="Plugin", tells="1 for all.", cutoff="none")(lambda r: np.ones(len(r)))

    class Point:
        value = "plugin:add"

        def load(self) -> object:
            return add

    asked = []
    monkeypatch.setattr(metadata, "entry_points", lambda group: asked.append(group) or [Point()])
    monkeypatch.setattr(registry, "_entry_points_loaded", False)
    try:
        assert karat.score("from_plugin", ["a"], ["b"]) == 1.0
        assert asked == ["karat.metrics"]
    finally:
        unregister("from_plugin")


def test_a_broken_plugin_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    from karat.metrics import registry

    class Point:
        value = "broken:metrics"

        def load(self) -> object:
            raise ImportError("no such thing")

    monkeypatch.setattr(metadata, "entry_points", lambda group: [Point()])
    monkeypatch.setattr(registry, "_entry_points_loaded", False)
    with pytest.raises(karat.MetricError, match=r"broken:metrics.*no such thing"):
        karat.parse("unheard_of")


SAVED_FINGERPRINTS = {  # as version 0.1 saved them, before these metrics took more parameters
    "ndcg@10": "2cc55951a7b07046",
    "rbp": "1093fb66ddcf85aa",
    "iprec@0.1": "90f2d8b6cb70f238",
    "judged@10": "10484706871935c8",
    "num_q": "b30a832d6e439a20",
    "num_rel": "ba227d75a0f05f6c",
    "rprec": "9ea57a87430c5bba",
    "recall_auc@20": "795fe6bb6c796940",
    "map": "02ba0e49f0470d43",
}


@pytest.mark.parametrize("name", SAVED_FINGERPRINTS)
def test_a_parameter_that_was_added_leaves_saved_baselines_comparable(name: str) -> None:
    assert fingerprint_metric(karat.parse(name)) == SAVED_FINGERPRINTS[name]
