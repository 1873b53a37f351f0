"""Intervals, segments, weights and conversations of an evaluation."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import karat
from karat.results.words import round_up, segment_text
from karat.stats.groups import interval
from places import DL19 as SHARED


def many(
    n: int = 60, seed: int = 1
) -> tuple[dict[str, dict[str, int]], dict[str, list[str]], dict[str, dict[str, object]]]:
    """Queries whose one relevant doc stands somewhere in a list of ten."""
    rng = np.random.default_rng(seed)
    gold, run, queries = {}, {}, {}
    for i in range(n):
        q = f"q{i:03}"
        docs = [f"d{j}" for j in range(10)]
        gold[q] = {docs[int(rng.integers(10))]: 1}
        run[q] = docs
        queries[q] = {"language": "de" if i % 3 else "en", "level": i % 7, "conversation": f"c{i // 3}"}
    return gold, run, queries


def test_every_metric_has_an_interval_that_says_how_it_was_found() -> None:
    gold, run, _ = many()
    result = karat.evaluate(gold, run, "mrr,hit@3,num_ret,judged@5")
    values = list(result.per_query("mrr").values())
    alone = interval(values, bounds=(0, 1))
    assert result.intervals["mrr"].method == "gaffke"
    assert result.ci["MRR"] == pytest.approx((alone.low, alone.high), rel=1e-12)
    assert result.intervals["hit@3"].method == "clopper-pearson"
    assert result.intervals["num_ret"].method == "none"
    assert math.isnan(result.ci["num_ret"][0])


def test_the_first_rule_that_fits_chooses_the_method() -> None:
    gold, run, queries = many()
    few = {q: gold[q] for q in list(gold)[:20]}
    assert karat.evaluate(few, run, "mrr").intervals["mrr"].method == "gaffke"
    assert karat.evaluate({"q000": gold["q000"]}, run, "mrr").intervals["mrr"].method == "none"
    same = karat.evaluate({q: {"d0": 1} for q in gold}, run, "mrr,hit@1")
    assert same.intervals["mrr"].method == same.intervals["hit@1"].method == "clopper-pearson"
    assert same.ci["mrr"] == same.ci["hit@1"] == (pytest.approx(0.025 ** (1 / len(gold))), 1.0)
    assert karat.evaluate(few, run, "hit@1", queries=queries).intervals["hit@1"].method == "gaffke"
    assert karat.evaluate(gold, run, "mrr", method="t").intervals["mrr"].method == "t"


def test_an_interval_of_a_mean_stays_within_what_the_metric_can_be() -> None:
    result = karat.evaluate({"a": {"x": 1}, "b": {"x": 1}}, {"a": ["x"], "b": ["y"]}, "mrr")
    assert result.ci["mrr"] == pytest.approx((1 - 0.975**0.5, 0.975**0.5))  # one of two: Clopper and Pearson
    assert karat.evaluate({"a": {"x": 1}, "b": {"x": 1}}, {"a": ["x"], "b": ["y"]}, "mrr", method="t").ci["mrr"] == (
        0,
        1,
    )


def test_the_interval_of_a_geometric_mean_holds_it() -> None:
    gold, run, _ = many()
    found = karat.evaluate(gold, run, "gm_map").intervals["gm_map"]
    values = np.array(list(karat.evaluate(gold, run, "map").per_query("map").values()))
    assert found.estimate == pytest.approx(math.exp(np.log(values).mean()))
    assert found.low < found.estimate < found.high


def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads() -> None:
    import json

    gold, run, queries = many()
    made = [
        json.dumps(karat.evaluate(gold, run, queries=queries, by="language", threads=t, seed=s).as_json())
        for t, s in ((1, 3), (2, 3), (1, 4))
    ]
    assert made[0] == made[1]
    assert made[0] != made[2]


def test_segments_means_recompose_the_overall_mean() -> None:
    gold, run, queries = many()
    result = karat.evaluate(gold, run, "ndcg@10,mrr", queries=queries, by=["language", "language,level"])
    for fields in (("language",), ("language", "level")):
        segments = [s for s in result.segments if tuple(s.by) == fields]
        assert sum(s.n for s in segments) == len(gold)
        total = sum(s.n * s.metrics["ndcg@10"].estimate for s in segments) / len(gold)
        assert total == pytest.approx(result.mean["ndcg@10"])


def test_segments_are_judged_alone_only_from_a_minimum_size() -> None:
    gold, run, queries = many()
    result = karat.evaluate(gold, run, "mrr", queries=queries, by="level")
    assert [s.n for s in result.segments] == [9, 9, 9, 9, 8, 8, 8]
    assert all(s.small for s in result.segments)
    result = karat.evaluate(gold, run, "mrr", queries=queries, by="level", min_segment=9)
    assert [s.small for s in result.segments] == [False] * 4 + [True] * 3


def test_a_segment_is_small_for_the_metrics_that_few_of_its_queries_have(tmp_path: Path) -> None:
    """12 queries, 9 of them with a latency: no gate judges latency there, and the document says so."""
    ids = [f"q{i}" for i in range(12)]
    lines = [{"query_id": q, "topk": [{"chunk_id": "d"}], "latency_ms": {"total": 5 + i}} for i, q in enumerate(ids)]
    for line in lines[9:]:
        del line["latency_ms"]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    gold, queries = {q: ["d"] for q in ids}, {q: {"language": "de"} for q in ids}
    log = str(tmp_path / "log.jsonl")
    result = karat.evaluate(gold, log, "mrr,latency.p50", queries=queries, by="language")
    (segment,) = result.as_json()["runs"][0]["segments"]
    assert segment["small"] is False
    assert [name for name, one in segment["metrics"].items() if one.get("small")] == ["latency.p50"]
    gates = [f"{metric} for every language" for metric in ("mrr >= 0.1", "latency.p50 <= 90ms")]
    assert [row.outcome for row in karat.check(result, gates).rows] == ["pass", "undecided"]
    assert karat.evaluate(gold, log, "latency.p50", queries=queries, by="language").segments[0].small


def test_a_query_without_the_field_is_in_a_segment_of_its_own() -> None:
    gold, run, queries = many(12)
    del queries["q000"]["language"]
    result = karat.evaluate(gold, run, "mrr", queries=queries, by="language")
    assert [(s.by["language"], s.n) for s in result.segments] == [("(none)", 1), ("de", 8), ("en", 3)]


def test_values_that_look_the_same_are_one_segment() -> None:
    """A space at an end, one that does not break, and an accent that stands apart cannot be seen in a table."""
    gold, run, queries = many(4)
    for query, value in zip(queries, ("café noir", "café noir ", "café\u00a0noir", "cafe\u0301 noir"), strict=True):
        queries[query]["topic"] = value
    result = karat.evaluate(gold, run, "mrr", queries=queries, by="topic")
    assert [(s.by["topic"], s.n) for s in result.segments] == [("café noir", 4)]


def test_numbers_are_cut_into_quantiles() -> None:
    gold, run, queries = many(56)
    result = karat.evaluate(gold, run, "mrr", queries=queries, by="level:2")
    # levels 0…6, eight queries each; the median is 3
    assert [(s.by["level:2"], s.n) for s in result.segments] == [("1: ≤ 3", 32), ("2: > 3", 24)]
    # thirds end at 2 and 4, and say which of their ends they hold
    thirds = karat.evaluate(gold, run, "mrr", queries=queries, by="level:3")
    assert [(s.by["level:3"], s.n) for s in thirds.segments] == [("1: ≤ 2", 24), ("2: > 2 to ≤ 4", 16), ("3: > 4", 16)]


def test_numbers_that_are_about_right_have_two_digits_and_are_never_less() -> None:
    assert [round_up(n) for n in (1, 97, 100, 101, 538, 995, 20_604)] == [1, 97, 100, 110, 540, 1_000, 21_000]


def test_an_empty_value_of_a_field_is_shown_in_sentences() -> None:
    assert segment_text({"area": "", "language": "de"}) == 'area = "", language = de'


def test_queries_are_sliced_by_fields_of_their_gold_and_may_be_in_several_slices() -> None:
    gold = {"q1": {"d1": 1, "d2": 2}, "q2": {"d2#4": 1}, "q3": {"d9": 1, "d1": 0}}
    docs = {"d1": {"source": "faq"}, "d2": {"source": "manual"}}
    result = karat.evaluate(gold, {q: ["d2"] for q in gold}, "mrr", docs=docs, by="gold.source")
    assert [(s.by["gold.source"], s.n) for s in result.segments] == [("(none)", 1), ("faq", 1), ("manual", 2)]
    with pytest.raises(karat.UsageError, match="needs a table of docs"):
        karat.evaluate(gold, {q: ["d2"] for q in gold}, "mrr", by="gold.source")
    with pytest.raises(karat.UsageError, match="no doc has a field 'sorce'"):
        karat.evaluate(gold, {q: ["d2"] for q in gold}, "mrr", docs=docs, by="gold.sorce")


def test_the_variance_across_segments_is_that_of_their_means_beside_a_macro_average() -> None:
    gold, run, queries = many()
    result = karat.evaluate(gold, run, "mrr", queries=queries, by="language")
    means = [s.metrics["mrr"].estimate for s in result.segments]
    across = result.runs[0].across("language", "mrr")
    assert across["macro_average"] == pytest.approx(sum(means) / 2)
    assert across["variance"] == pytest.approx((means[0] - means[1]) ** 2 / 2)
    written = result.as_json()["runs"][0]["across"]["language"]["mrr"]
    assert written["segments"] == 2
    assert written["variance"] == pytest.approx(across["variance"])
    one = karat.evaluate(gold, run, "mrr", queries={q: {"language": "de"} for q in gold}, by="language")
    assert math.isnan(one.runs[0].across("language", "mrr")["variance"])


def test_weights_are_honoured_in_means_and_intervals() -> None:
    gold, run = {"a": {"x": 1}, "b": {"y": 1}}, {"a": ["x"], "b": ["x", "y"]}
    result = karat.evaluate(gold, run, "mrr", queries={"a": {"weight": 3}, "b": {"weight": 1}})
    assert result.mean["mrr"] == pytest.approx((3 * 1 + 1 * 0.5) / 4)
    assert result.intervals["mrr"].estimate == result.mean["mrr"]


def test_the_judged_share_of_a_segment_is_weighted_as_the_metric_is() -> None:
    """The top of `a` is judged, that of `b` by half: (3 · 1 + 1 · 0.5) / 4, unweighted 0.75."""
    gold, run = {"a": {"x": 1}, "b": {"y": 1}}, {"a": ["x"], "b": ["x", "y"]}
    table = {"a": {"weight": 3, "language": "en"}, "b": {"weight": 1, "language": "en"}}
    (segment,) = karat.evaluate(gold, run, "judged@10", queries=table, by="language").segments
    assert segment.judged == segment.metrics["judged@10"].estimate == pytest.approx((3 * 1 + 1 * 0.5) / 4)


def test_conversations_are_resampled_as_wholes() -> None:
    gold, run, queries = many(60)
    for i, q in enumerate(gold):  # queries of a conversation succeed and fail together
        gold[q] = {f"d{(i // 3) % 10}": 1}
    alone = karat.evaluate(gold, run, "mrr").intervals["mrr"]
    together = karat.evaluate(gold, run, "mrr", queries=queries).intervals["mrr"]
    assert together.high - together.low > 1.4 * (alone.high - alone.low)  # 20 units instead of 60: about √3
    own = karat.evaluate(gold, run, "mrr", queries={q: {"conversation": q} for q in gold}).intervals["mrr"]
    assert (own.low, own.high) == (alone.low, alone.high)


def test_a_saved_result_finds_the_same_intervals_and_segments_again(tmp_path: Path) -> None:
    gold, run, queries = many()
    result = karat.evaluate(gold, run, "mrr,hit@1", queries=queries, by="language", seed=5, confidence=0.9)
    result.save(str(tmp_path / "r.json"))
    loaded = karat.load(str(tmp_path / "r.json"))
    assert loaded.ci["mrr"] == pytest.approx(result.ci["mrr"], rel=1e-9)
    assert [s.by for s in loaded.segments] == [s.by for s in result.segments]
    assert [s.judged for s in loaded.segments] == pytest.approx([s.judged for s in result.segments])
    assert loaded.segments[0].metrics["mrr"].low == pytest.approx(result.segments[0].metrics["mrr"].low, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"by": "langage"}, "did you mean 'language'"),
        ({"by": "topic"}, "no query has a field 'topic'"),
        ({"by": "language", "queries": None}, "needs a table of queries"),
        ({"by": "language:3"}, "quantiles need numbers"),
        ({"by": "level:1"}, "from 2 after the colon"),
        ({"by": ""}, "must name fields"),
        ({"confidence": 95}, "between 0 and 1"),
        ({"confidence": "high"}, "between 0 and 1"),
        ({"method": "bcaa"}, "did you mean 'bca'"),
        ({"resamples": 3}, "integer from 100"),
        ({"confidence": 95}, "such as 0.95, found 95"),
        ({"seed": -1}, "integer from 0"),
        ({"min_segment": 0}, "integer from 1"),
    ],
)
def test_choices_that_make_no_sense_are_refused(options: dict[str, object], says: str) -> None:
    gold, run, queries = many(12)
    with pytest.raises(karat.UsageError, match=says):
        karat.evaluate(gold, run, "mrr", **{"queries": queries, **options})  # type: ignore[arg-type]


def test_a_method_that_does_not_fit_the_metric_says_so() -> None:
    gold, run, _ = many()
    with pytest.raises(karat.UsageError, match="values of 0 and 1 alone"):
        _ = karat.evaluate(gold, run, "mrr", method="wilson").ci


@pytest.mark.parametrize("weight", ["heavy", -1, float("inf")])
def test_a_weight_that_is_none_is_named(weight: object) -> None:
    with pytest.raises(karat.InputError, match='"a": weight must be a number from 0'):
        karat.evaluate({"a": {"x": 1}}, {"a": ["x"]}, "mrr", queries={"a": {"weight": weight}})


def test_every_weight_that_is_none_is_named_with_its_line(tmp_path: Path) -> None:
    table = tmp_path / "queries.jsonl"
    table.write_text("".join(json.dumps({"_id": q, "weight": w}) + "\n" for q, w in (("a", "heavy"), ("b", -1))))
    with pytest.raises(karat.InputError) as caught:
        karat.evaluate({"a": {"x": 1}}, {"a": ["x"]}, "mrr", queries=str(table))
    assert [problem.partition("queries.jsonl:")[2][:11] for problem in caught.value.problems] == [
        '1: query "a',
        '2: query "b',
    ]


def test_weights_that_are_all_zero_are_refused(tmp_path: Path) -> None:
    gold, run = {"a": {"x": 1}, "b": {"x": 1}}, {"a": ["x"], "b": ["x"]}
    table = tmp_path / "queries.jsonl"
    table.write_text("".join(json.dumps({"query_id": q, "weight": 0}) + "\n" for q in "ab"))
    says = r"queries\.jsonl: the weight of every query is 0, which leaves every mean undefined; give at least one"
    with pytest.raises(karat.InputError, match=says):
        karat.evaluate(gold, run, "mrr", queries=table)
    others = {"a": {"weight": 0}, "b": {"weight": 0}, "c": {"weight": 2}}
    with pytest.raises(karat.InputError, match=r"the weight of every query evaluated \(2 of 3\) is 0"):
        karat.evaluate(gold, run, "mrr", queries=others)
    assert karat.evaluate(gold, run, "mrr", queries={"a": {"weight": 0}})["run"].mean["mrr"] == 1


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared/data/dl19")
def test_dl19_segments_hold_all_queries() -> None:
    result = karat.evaluate(
        SHARED / "qrels.txt", SHARED / "bm25.run", "ndcg@10", queries=SHARED / "segments.tsv", by=["intent", "domain"]
    )
    assert sum(s.n for s in result.segments if "intent" in s.by) == 43
    assert result.intervals["ndcg@10"].low < 0.5058 < result.intervals["ndcg@10"].high


def test_a_table_of_other_queries_is_refused(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "text": "x"}\n{"_id": "d2", "text": "y"}\n')
    with pytest.raises(karat.InputError, match=r'corpus\.jsonl: none of its 2 queries was evaluated: .*"d1".*"q1"'):
        karat.evaluate({"q1": {"a": 1}}, {"q1": ["a"]}, "mrr", queries=str(tmp_path / "corpus.jsonl"))


def test_a_query_with_a_list_of_values_is_in_each_of_their_segments(tmp_path: Path) -> None:
    """20 queries: the even ones are about billing, every fourth about billing and legal, the odd ones say nothing."""
    gold = {f"q{i:02}": {"d": 1} for i in range(20)}
    run = {q: ["d"] if i % 4 else ["x", "d"] for i, q in enumerate(gold)}
    tags: list[object] = [["legal", "billing"], [], ["billing"], None]
    queries = {q: {"tags": tags[i % 4]} for i, q in enumerate(gold)}
    result = karat.evaluate(gold, run, "mrr", queries=queries, by="tags", min_segment=1, details=True)
    means = {s.by["tags"]: (s.n, s.metrics["mrr"].estimate) for s in result.runs[0].segments}
    assert means == {"(none)": (10, 1.0), "billing": (10, 0.75), "legal": (5, 0.5)}
    group = karat.evaluate(gold, run, "mrr", queries=queries, by="tags in (legal)", min_segment=1)
    assert [(s.n, s.metrics["mrr"].estimate) for s in group.runs[0].segments] == [(5, 1.0), (10, 1.0), (5, 0.5)]
    judged = karat.check(result, ["mrr >= 0.4 where tags = legal", "mrr >= 0.4 for every tags (pooled)"])
    assert judged.rows[0].found.n == 5
    assert {row.found.not_pooled for row in judged.rows[1:]} == {"not pooled: segments share queries"}
    result.save(str(tmp_path / "saved.json"))
    again = karat.load(tmp_path / "saved.json").runs[0].segments
    assert [(s.by, s.n) for s in again] == [(s.by, s.n) for s in result.runs[0].segments]


def test_a_segment_of_a_group_of_values_is_named_as_it_is_written() -> None:
    gold, run, queries = many()
    sampling = karat.evaluate(gold, run, "mrr", queries=queries, by="language in (de)").runs[0].sampling
    assert [s.name for s in sampling.segments(list(gold))] == ["not language in (de)", "language in (de)"]


def test_queries_that_the_table_lacks_and_those_without_a_weight_are_counted(tmp_path: Path) -> None:
    table = tmp_path / "queries.jsonl"
    table.write_text('{"_id": "a", "weight": 2}\n{"_id": "b"}\n')
    gold, run = {q: {"x": 1} for q in "abc"}, {q: ["x"] for q in "abc"}
    warnings = karat.evaluate(gold, run, "mrr", queries=str(table)).as_json()["warnings"]
    assert "1 of 3 queries is not in queries.jsonl" in warnings
    assert "2 of 3 queries are without a weight: 1 is taken" in warnings


def test_queries_without_a_value_are_no_segment_of_the_macro_average() -> None:
    gold, run = {q: {"x": 1} for q in "abcd"}, {"a": ["x"], "b": ["y", "x"], "c": ["x"], "d": ["y"]}
    table = {"a": {"lang": "de"}, "b": {"lang": "fr"}, "c": {"lang": "fr"}, "d": {}}
    result = karat.evaluate(gold, run, "mrr", queries=table, by="lang")
    assert [s.by["lang"] for s in result.runs[0].segments] == ["(none)", "de", "fr"]
    assert result.runs[0].across("lang", "mrr")["segments"] == 2
    assert result.runs[0].across("lang", "mrr")["macro_average"] == pytest.approx((1 + 0.75) / 2)
