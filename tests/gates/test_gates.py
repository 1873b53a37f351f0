"""Gates: the language that they are written in, and the pure function that judges them."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from scipy.stats import binom
from statsmodels.stats.power import TTestPower

import karat
from karat.errors import UsageError
from karat.gates import Gate, GateEvidence, judge, parse_gate, verdict_of
from karat.gates.judge import JudgedGate, Ruling
from karat.gates.kinds import KINDS, GateKind
from karat.gates.plans import work_item
from karat.gates.wording import advise, explain_undecided, more_text
from karat.metrics.grammar import parse
from karat.stats.aggregates import Statistic
from karat.stats.groups import interval
from karat.stats.intervals import Interval, clopper_pearson, quantile_interval, wilson
from karat.stats.power import queries_needed, queries_needed_for_share
from karat.stats.quantiles import grouped_quantiles
from karat.stats.resample import Units
from places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

NAN = math.nan
WIDER = {"fail_low": 0.3, "fail_high": 0.55, "fail_confidence": 0.995}
LATENCIES = np.arange(1.0, 101.0)


def mean(
    estimate: float, low: float, high: float, n: int = 100, deviation: float = 0.3, **more: object
) -> GateEvidence:
    return GateEvidence(estimate, low, high, n, deviation, **more)  # type: ignore[arg-type]


def share(successes: int, n: int) -> GateEvidence:
    return GateEvidence(successes / n, *clopper_pearson(successes, n, 0.95), n, kind="share")


def times(q: float, values: np.ndarray = LATENCIES) -> GateEvidence:
    found = quantile_interval(values, q)
    return GateEvidence(
        found.estimate,
        found.low,
        found.high,
        found.n,
        kind="quantile",
        values=values,
        statistic=Statistic("quantile", q),
    )


# gate, what was measured, outcome, words of the reason, queries still needed (None: not told)
TABLE = [
    # A floor: the lower end decides.
    ("recall@5 >= 0.90", mean(0.95, 0.92, 0.97), "pass", "right side", None),
    ("recall@5 >= 0.90", mean(0.85, 0.80, 0.89), "fail", "threshold of", None),
    ("recall@5 >= 0.90", mean(0.92, 0.88, 0.95), "undecided", "inside", 1668),
    ("recall@5 >= 0.90", mean(0.88, 0.84, 0.91), "undecided", "inside", 1668),
    ("recall@5 >= 0.90", mean(0.95, 0.90, 0.97), "pass", "right side", None),
    ("recall@5 > 0.90", mean(0.95, 0.90, 0.97), "undecided", "inside", 185),
    ("recall@5 >= 0.90", mean(0.85, 0.80, 0.90), "undecided", "inside", 185),
    ("recall@5 > 0.90", mean(0.85, 0.80, 0.90), "fail", "threshold of", None),
    # The same number found by another sum is the same number.
    ("recall@5 >= 0.90", mean(0.95, 0.9 - 1e-14, 0.97), "pass", "right side", None),
    # The value is the threshold: no number of queries decides.
    ("recall@5 >= 0.90", mean(0.90, 0.85, 0.94), "undecided", "no number of queries", None),
    ("recall@5 >= 0.90", mean(0.9 + 1e-9, 0.85, 0.94), "undecided", "too near", None),
    # A ceiling: the upper end decides.
    ("redundancy@5 <= 0.20", mean(0.15, 0.12, 0.18), "pass", "right side", None),
    ("redundancy@5 <= 0.20", mean(0.25, 0.21, 0.29), "fail", "threshold of", None),
    ("redundancy@5 <= 0.20", mean(0.18, 0.14, 0.22), "undecided", "inside", 1668),
    ("redundancy@5 < 0.20", mean(0.15, 0.12, 0.20), "undecided", "inside", 185),
    ("recall@5 <= 0.99", mean(0.95, 0.92, 0.97), "pass", "right side", None),
    # At the mean: the point decides, whatever the interval.
    ("hit@1 >= 80% at the mean", mean(0.81, 0.60, 0.95), "pass", "mean", None),
    ("hit@1 >= 80% at the mean", mean(0.79, 0.60, 0.95), "fail", "mean", None),
    ("hit@1 >= 80% at the mean", mean(0.80, NAN, NAN, n=1), "pass", "mean", None),
    ("hit@1 > 80% at the mean", mean(0.80, 0.7, 0.9), "fail", "mean", None),
    ("hit@1 >= 80% at the mean", GateEvidence(NAN), "undecided", "undefined", None),
    # Against a baseline: the difference, and which way is better.
    ("ndcg@10 no worse than baseline by 0.01", mean(0.02, -0.005, 0.04), "pass", "right side", None),
    ("ndcg@10 no worse than baseline by 0.01", mean(-0.05, -0.08, -0.02), "fail", "threshold of", None),
    ("ndcg@10 no worse than baseline by 0.01", mean(0.00, -0.02, 0.02), "undecided", "inside", 6966),
    ("ndcg@10 no worse than baseline", mean(0.01, 0.0, 0.02), "pass", "right side", None),
    ("ndcg@10 better than baseline", mean(0.03, 0.01, 0.05), "pass", "right side", None),
    ("ndcg@10 better than baseline", mean(0.03, 0.0, 0.05), "undecided", "inside", 687),
    ("ndcg@10 better than baseline", mean(-0.03, -0.05, 0.0), "fail", "threshold of", None),
    ("ndcg@10 better than baseline by 0.02", mean(0.05, 0.02, 0.08), "pass", "right side", None),
    ("ndcg@10 better than baseline by 0.02", mean(0.05, 0.01, 0.08), "undecided", "inside", 687),
    ("redundancy@5 no worse than baseline by 0.01", mean(-0.02, -0.04, 0.005), "pass", "right side", None),
    ("redundancy@5 no worse than baseline by 0.01", mean(0.05, 0.02, 0.08), "fail", "threshold of", None),
    ("redundancy@5 better than baseline", mean(-0.03, -0.05, -0.01), "pass", "right side", None),
    ("redundancy@5 better than baseline", mean(0.03, 0.01, 0.05), "fail", "threshold of", None),
    ("ndcg@10 no worse than baseline by 2%", mean(0.004, 0.001, 0.008), "pass", "right side", None),
    ("ndcg@10 no worse than baseline by 2%", mean(-0.004, -0.008, -0.001), "fail", "threshold of", None),
    ("ndcg@10 no worse than baseline", mean(0.0, -0.3, 0.3, same_lists=True), "pass", "lists are identical", None),
    ("ndcg@10 better than baseline", mean(0.0, -0.3, 0.3, same_lists=True), "fail", "lists are identical", None),
    # Units: milliseconds, seconds, percentages.
    ("latency.p50 <= 60ms", times(0.5), "undecided", "inside", 110),
    ("latency.p50 <= 0.07s", times(0.5), "pass", "right side", None),
    ("latency.p50 <= 30", times(0.5), "fail", "threshold of", None),
    ("latency.p99 <= 1min", times(0.99), "undecided", "from above", 268),
    ("latency.p99 <= 1min", times(0.99, LATENCIES[:20]), "undecided", "from above", 348),
    ("latency.p50 no worse than baseline by 5ms", mean(2.0, -1.0, 4.9), "pass", "right side", None),
    ("latency.p50 no worse than baseline by 5ms", mean(9.0, 5.1, 13.0), "fail", "threshold of", None),
    ("latency.p50 no worse than baseline by 5ms", mean(2.0, -1.0, 6.0, deviation=NAN), "undecided", "inside", None),
    ("distinct_docs@5 >= 3.0", mean(3.4, 3.1, 3.7, deviation=1.0), "pass", "right side", None),
    # Shares of yes and no: counted exactly.
    ("hit@10 >= 0.95", share(97, 100), "undecided", "inside", 751),
    ("hit@10 >= 0.95", share(990, 1000), "pass", "right side", None),
    ("hit@10 >= 0.95", share(92, 100), "undecided", "inside", 462),
    ("hit@10 >= 0.95", share(85, 100), "fail", "threshold of", None),
    # Nothing passes without a value.
    ("ndcg@10 >= 0.5", GateEvidence(NAN), "undecided", "undefined", None),
    ("ndcg@10 >= 0.5", GateEvidence(NAN, missing="no query has topic = x"), "undecided", "no query has", None),
    ("ndcg@10 >= 0.5", mean(0.9, NAN, NAN, n=1, deviation=NAN), "undecided", "one query gives no interval", None),
    ("ndcg@10 >= 0.5", mean(0.9, NAN, NAN, n=50), "undecided", "no interval", None),
    ("ndcg@10 >= 0.5 where topic = x", mean(0.9, 0.8, 1.0, n=9, minimum=10), "undecided", "only 9 queries", 1),
    ("ndcg@10 >= 0.5 where topic = x", mean(0.1, 0.0, 0.2, n=1, minimum=10), "undecided", "only 1 query,", 9),
    ("ndcg@10 >= 0.5 where topic = x", mean(0.9, 0.8, 1.0, n=10, minimum=10), "pass", "right side", None),
    ("ndcg@10 >= 0.5 where topic = x at the mean", mean(0.9, 0.8, 1.0, n=9, minimum=10), "undecided", "only 9", 1),
    (
        "ndcg@10 >= 0.5",
        mean(0.7, NAN, NAN, method="all equal"),
        "undecided",
        "all 100 values are 0.7000, and without spread",
        None,
    ),
    # 1 − .025^(1/100) = .0362, which is 1 in 28; log(.025) / log(.99) = 367.04, so 368 queries have an interval of .01.
    (
        "recall@5 >= 0.99",
        mean(1, 0.025**0.01, 1, deviation=0),
        "undecided",
        "all 100 values are 1, but about 1 query in 28",
        268,
    ),
    # 1 − .025^(1/2) = .842: more of other queries may differ than not. log(.025) / log(.2) = 2.3, so 3 would decide.
    (
        "recall@5 >= 0.2",
        mean(1, 0.025**0.5, 1, n=2, deviation=0),
        "undecided",
        "all 2 values are 1, but 2 queries say too little of others",
        1,
    ),
    (
        "recall@5 >= 0.2",
        mean(1, 0.025**0.5, 1, n=40, n_eff=2.0, deviation=0),
        "undecided",
        "all 40 values are 1, but 2 independent ones say too little of others",
        6,  # ⌈40 · 2.29 / 2⌉ − 40
    ),
    (
        "mrr no worse than a by 0.01",
        mean(0, 0.025**0.01 - 1, 1 - 0.025**0.01, deviation=0),
        "undecided",
        "all 100 differences are 0",
        268,
    ),
    # Conversations and weights: what counts is how many units of equal weight say as much.
    ("ndcg@10 >= 0.5", mean(0.9, 0.8, 1.0, n=60, n_eff=4.0, minimum=5), "undecided", "60 queries count as 4 ind", 15),
    ("ndcg@10 >= 0.5", mean(0.9, 0.8, 1.0, n=60, n_eff=5.0, minimum=5), "pass", "right side", None),
    # A fail has an interval of its own, wider where it is one of many.
    ("ndcg@10 >= 0.5", mean(0.4, 0.35, 0.45, **WIDER), "undecided", "inside", 135),
]


@pytest.mark.parametrize(("text", "found", "outcome", "why", "more"), TABLE)
def test_a_gate_is_judged(text: str, found: GateEvidence, outcome: str, why: str, more: int | None) -> None:
    judged = judge(parse_gate(text), found)
    assert judged.outcome == outcome
    assert why in judged.why
    assert judged.more == more


@pytest.mark.parametrize(
    ("values", "threshold"),
    [
        (np.repeat([1.0, 0.5, 0.0], [70, 12, 8]), 0.79),
        (np.repeat([1.0, 0.0], [75, 15]), 0.78),
        (np.linspace(0.1, 0.9, 45), 0.55),
        (np.concatenate((np.zeros(60), np.linspace(0.2, 1, 30))), 0.15),
    ],
)
def test_queries_still_needed_decide_in_8_of_10_samples(values: np.ndarray, threshold: float) -> None:
    def interval_of(sample: np.ndarray) -> Interval:
        return interval(sample, bounds=(0, 1))

    one, n = interval_of(values), len(values)
    kind = "share" if set(values) <= {0.0, 1.0} else "mean"
    found = GateEvidence(one.estimate, one.low, one.high, n, float(values.std(ddof=1)), kind)  # type: ignore[arg-type]
    ruling = judge(parse_gate(f"recall@5 >= {threshold}"), found)
    assert ruling.outcome == "undecided" and ruling.more is not None
    rng = np.random.default_rng(5)
    samples = [interval_of(rng.choice(values, n + ruling.more)) for _ in range(400)]
    assert np.mean([threshold not in one for one in samples]) == pytest.approx(0.8, abs=0.08)
    assert ruling.fewest is not None and ruling.fewest < ruling.more
    assert ruling.most is None or ruling.more < ruling.most


def test_what_would_settle_a_gate_is_a_range_over_what_the_truth_may_be() -> None:
    gate = parse_gate("recall@5 >= 0.90")
    assert more_text(judge(gate, mean(0.92, 0.88, 0.95))).startswith("at least about ")
    assert more_text(judge(gate, mean(0.94, 0.89, 0.97))) == "about 97 to 1,800 more queries"
    assert more_text(Ruling("undecided", "", 90, 49, 51_869)) == "about 49 to 52,000 more queries"
    assert more_text(Ruling("undecided", "", 12, 1, 360)) == "about 1 to 360 more queries"
    assert more_text(Ruling("undecided", "", 90, 49)) == "at least about 49 more queries"
    assert more_text(Ruling("undecided", "", 1)) == "1 more query"


@pytest.mark.parametrize(
    ("n", "n_eff", "says"),
    [
        (6, NAN, "4 more needed: fewer than 10 queries are not judged alone"),
        (6, 6.0, "4 more needed: fewer than 10 queries are not judged alone"),
        (
            6,
            4.8,
            "about 7 more needed: 6 queries count as 4.8 independent ones, and fewer than 10 are not judged alone",
        ),
        (
            12,
            6.0,
            "about 8 more needed: 12 queries count as 6 independent ones, and fewer than 10 are not judged alone",
        ),
    ],
)
def test_too_few_queries_say_how_many_they_count_as(n: int, n_eff: float, says: str) -> None:
    gate, found = parse_gate("recall@5 >= 0.5"), mean(0.8, 0.6, 0.9, n, n_eff=n_eff, minimum=10)
    assert advise(JudgedGate(gate, "a", {"area": "x"}, found, judge(gate, found))) == says


def test_a_verdict_without_a_decision_says_whether_more_queries_would_help() -> None:
    def row(text: str, found: GateEvidence) -> JudgedGate:
        gate = parse_gate(text)
        return JudgedGate(gate, "a", None, found, judge(gate, found))

    near = row("recall@5 >= 0.90", mean(0.92, 0.88, 0.95))
    at_it = row("recall@5 >= 0.90", mean(0.90, 0.88, 0.95))
    lacking = row("cost.tokens <= 5", GateEvidence(math.nan, missing="no cost"))
    assert explain_undecided([near]) == "No gate fails, but these queries are too few to tell whether all pass."
    assert explain_undecided([lacking, at_it]) == (
        "No gate fails, but more queries alone would not decide 2 gates: cost.tokens <= 5, recall@5 >= 0.9."
    )
    assert explain_undecided([near, lacking]) == (
        "No gate fails, but these queries are too few for 1 gate, and more queries alone would not decide 1 gate: "
        "cost.tokens <= 5."
    )


def test_queries_still_needed_for_a_quantile_count_weights_and_conversations(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    latencies, weights = rng.gamma(4, 10, 300), np.where(np.arange(300) % 10 == 0, 5.0, 1.0)
    latencies[weights > 1] *= 0.6
    rows = {f"q{i}": {"weight": float(w), "conversation": f"c{i // 2}"} for i, w in enumerate(weights)}
    log, pairs = tmp_path / "r.jsonl", zip(rows, map(float, latencies), strict=True)
    lines = ({"query_id": q, "topk": [{"doc_id": "a"}], "latency_ms": {"total": ms}} for q, ms in pairs)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = karat.evaluate({q: {"a": 1} for q in rows}, log, "latency.p90", queries=rows)
    (row,) = karat.check(result, gates=["latency.p90 <= 62ms"]).gates
    own, n_eff = np.add.reduceat(weights, np.arange(0, 300, 2)), row.found.n_eff
    assert n_eff == pytest.approx(own.sum() ** 2 / (own**2).sum())
    assert row.outcome == "undecided" and row.judged.more is not None
    share, alike = np.average(latencies <= 62, weights=weights), replace(row.found, sample=None, n_eff=NAN)
    assert abs(share - np.mean(latencies <= 62)) > 0.01
    assert judge(row.gate, alike).more != row.judged.more
    count, decided = (300 + row.judged.more) // 2, []
    for _ in range(150):
        drawn = (2 * rng.integers(0, 150, count)[:, None] + np.arange(2)).ravel()
        units = Units(np.repeat(np.arange(count), 2), weights[drawn], plain=False)
        groups = [np.arange(len(drawn))]
        (one,) = grouped_quantiles(latencies[drawn], 0.9, units, groups, confidence=0.95, resamples=400, seed=0)
        decided.append(62 not in one)
    assert np.mean(decided) == pytest.approx(0.8, abs=0.1)


def test_queries_still_needed_follow_the_power_of_the_t_test() -> None:
    # .02 from the threshold with a deviation of .3 is an effect of 1/15; 100 queries are there already.
    needed = queries_needed(0.02, 0.3)
    assert needed is not None
    judged = judge(parse_gate("recall@5 >= 0.90"), mean(0.92, 0.88, 0.95))
    assert judged.more == needed - 100
    # The normal distribution says ((1.96 + 0.8416) * 15)^2 = 1766; statsmodels says what we say.
    assert abs(needed - ((1.959964 + 0.841621) * 15) ** 2) < 5
    assert needed == math.ceil(TTestPower().solve_power(1 / 15, power=0.8, alpha=0.05))


@pytest.mark.parametrize("score", [False, True])
@pytest.mark.parametrize(("p", "threshold"), [(0.97, 0.95), (0.9, 0.95), (0.5, 0.45), (0.6, 0.7), (0.02, 0.05)])
def test_queries_needed_for_a_share_leave_the_threshold_in_8_of_10_samples(
    p: float, threshold: float, score: bool
) -> None:
    n, ends_of = queries_needed_for_share(p, threshold, score=score), wilson if score else clopper_pearson
    assert n is not None

    def left(size: int) -> float:
        ends = [ends_of(k, size, 0.95) for k in range(size + 1)]
        outside = [not low <= threshold <= high for low, high in ends]
        return float(binom.pmf(np.arange(size + 1), size, p)[outside].sum())

    assert left(n) >= 0.8
    assert left(n - 1) < 0.8


@pytest.mark.parametrize("kind", ["share", "mean"])
def test_queries_still_needed_where_all_values_are_equal_are_those_that_the_interval_needs(kind: str) -> None:
    # All of 18 are 0, and one of five segments: a fail needs 1 − .005^(1/n) below .12, from n = ln .005 / ln .88 on.
    low, high = clopper_pearson(0, 18, 0.95)
    outer = clopper_pearson(0, 18, 0.99)
    gate = parse_gate("hit@5 >= 0.12")
    found = GateEvidence(
        0.0, low, high, 18, 0.0, kind=kind, fail_low=outer[0], fail_high=outer[1], fail_confidence=0.99
    )
    ruling = judge(gate, found)
    assert ruling.outcome == "undecided" and ruling.more == math.ceil(math.log(0.005) / math.log(0.88)) - 18 == 24
    assert ruling.fewest == ruling.most == ruling.more
    for n, outcome in ((41, "undecided"), (42, "fail")):
        low, high = clopper_pearson(0, n, 0.99)
        assert judge(gate, replace(found, n=n, fail_low=low, fail_high=high)).outcome == outcome


def test_a_share_at_the_threshold_is_never_decided() -> None:
    assert queries_needed_for_share(0.9, 0.9) is None
    assert queries_needed_for_share(0.9, 1.0) is None


VERDICTS = [
    ([], "SHIP"),
    ([("error", "pass")], "SHIP"),
    ([("error", "pass"), ("error", "undecided")], "INCONCLUSIVE"),
    ([("error", "undecided"), ("error", "fail")], "BLOCK"),
    ([("warn", "fail"), ("error", "pass")], "SHIP"),
    ([("warn", "undecided")], "SHIP"),
    ([("warn", "fail"), ("error", "undecided")], "INCONCLUSIVE"),
]


@pytest.mark.parametrize(("outcomes", "verdict"), VERDICTS)
def test_the_verdict_follows_the_gates_at_level_error(outcomes: list[tuple[str, str]], verdict: str) -> None:
    assert verdict_of(outcomes) == verdict  # type: ignore[arg-type]


WRITTEN = [
    ("Recall@5 >= .9", "recall@5 >= 0.9"),
    ("R@5 at least 90%", "recall@5 >= 0.9"),
    ("nDCG@10 ≥ 0.5", "ndcg@10 >= 0.5"),
    ("ndcg(gain=exp)@10 > 1e-3", "ndcg(gain=exp)@10 > 0.001"),
    ("ndcg:gain=exp@10 above 0.5", "ndcg(gain=exp)@10 > 0.5"),
    ("latency.p50 <= 0.06 s", "latency.p50 <= 60ms"),
    ("latency.rerank.p90 <= 60", "latency.rerank.p90 <= 60ms"),
    ("latency.p50 at most 1500us", "latency.p50 <= 1.5ms"),
    ("distinct_docs@5 >= 3.0", "distinct_docs@5 >= 3"),
    ("recall@5 >= 0.90 where language = pt-BR", "recall@5 >= 0.9 where language = pt-BR"),
    ("mrr >= .5 where topic = soft skills", 'mrr >= 0.5 where topic = "soft skills"'),
    ('mrr >= .5 where topic=\'a and b\' and x = "q\\"q"', 'mrr >= 0.5 where topic = "a and b" and x = "q\\"q"'),
    ("ndcg@5 >= 0.80 for each topic", "ndcg@5 >= 0.8 for every topic"),
    ("ndcg@5 >= 0.80 for every topic, language", "ndcg@5 >= 0.8 for every topic, language"),
    ("ndcg@5 >= 0.80 for every topic of at least 10 queries", "ndcg@5 >= 0.8 for every topic of at least 10"),
    ("ndcg@5 >= 0.80 for every topic (Pooled)", "ndcg@5 >= 0.8 for every topic (pooled)"),
    (
        "ndcg@5 no worse than baseline by .02 for every a, b (pooled) of at least 9 at the mean",
        "ndcg@5 no worse than baseline by 0.02 for every a, b of at least 9 (pooled) at the mean",
    ),
    ("map > .3 where a = b for every c at the mean on x", "map > 0.3 on x where a = b for every c at the mean"),
    ("ndcg@10 not worse than baseline by 0.01", "ndcg@10 no worse than baseline by 0.01"),
    ("ndcg@10 no worse than baseline by 1.5%", "ndcg@10 no worse than baseline by 1.5%"),
    ('mrr better than "my run" by .1 on cand', 'mrr better than "my run" by 0.1 on cand'),
    ("mrr better than baseline where language = no", "mrr better than baseline where language = no"),
]


@pytest.mark.parametrize(("written", "canonical"), WRITTEN)
def test_gates_are_read_and_printed_in_one_form(written: str, canonical: str) -> None:
    gate = parse_gate(written)
    assert str(gate) == canonical
    assert parse_gate(canonical) == gate


MAPPINGS = [
    ({"metric": "R@5", "min": 0.9, "where": {"language": "pt-BR"}}, "recall@5 >= 0.9 where language = pt-BR"),
    ({"metric": "latency.p50", "max": "60ms"}, "latency.p50 <= 60ms"),
    ({"metric": "ndcg@10", "no_worse_than": "baseline", "by": 0.01}, "ndcg@10 no worse than baseline by 0.01"),
    ({"metric": "ndcg@10", "no_worse_than": "baseline", "by": "2%"}, "ndcg@10 no worse than baseline by 2%"),
    ({"metric": "mrr", "better_than": "bm25", "run": "x"}, "mrr better than bm25 on x"),
    (
        {"metric": "mrr", "above": 0.5, "for_every": ["a", "b"], "at_least_queries": 5},
        "mrr > 0.5 for every a, b of at least 5",
    ),
    ({"metric": "mrr", "above": 0.5, "for_every": "a", "pooled": True}, "mrr > 0.5 for every a (pooled)"),
    ({"metric": "mrr", "below": 1, "for_every": "a, b", "at": "mean"}, "mrr < 1 for every a, b at the mean"),
    ({"gate": "mrr >= 0.5", "level": "warn", "name": "first hit"}, "mrr >= 0.5"),
    ({"warn": "mrr >= 0.5"}, "mrr >= 0.5"),
]


@pytest.mark.parametrize(("mapping", "canonical"), MAPPINGS)
def test_gates_are_mappings_too(mapping: dict[str, object], canonical: str) -> None:
    assert str(parse_gate(mapping)) == canonical


def test_level_and_name_come_with_the_gate() -> None:
    assert parse_gate({"gate": "warn: mrr >= 0.5", "name": "first hit"}).level == "warn"
    named = parse_gate({"gate": "mrr >= 0.5", "level": "warn", "name": "first hit"})
    assert (named.level, named.name) == ("warn", "first hit")
    assert parse_gate({"warn": "mrr >= 0.5"}).level == parse_gate("warn: mrr >= 0.5").level == "warn"
    assert parse_gate("mrr >= 0.5").level == "error"


WRONG = [
    ("recall@5", "cannot read gate"),
    ("recall@5 = 0.9", "by 0.01'; did you mean '>='?"),
    ("mrr beter than baseline", "by 0.01'; did you mean 'better than'?"),
    ("mrr no wurse than baseline by 0.01", "by 0.01'; did you mean 'no worse than'?"),
    ("mrr beow 0.01", "by 0.01'; did you mean 'below'?"),
    (">= 0.9", "cannot read gate"),
    ("recal@5 >= 0.9", "did you mean 'recall@5'?"),
    ("recall@5 >= high", 'expected a number, found "high"'),
    ("recall@5 >=", "expected a number, found nothing"),
    ("recall@5 >= 0.9ms", "a bare number or a percentage, found the unit 'ms'"),
    ("recall@5 >= 0.9x", "found the unit 'x'"),
    ("latency.p50 <= 60%", "is in ms, found a percentage"),
    ("latency.p50 <= 60msec", "did you mean 'ms'?"),
    ("recall@5 >= 0.9 were a = b", "did you mean 'where'?"),
    ("recall@5 >= 0.9 where a", "expected '=' after 'a'"),
    ("recall@5 >= 0.9 where a =", "expected a value for 'a', found nothing"),
    ("recall@5 >= 0.9 where a = b where c = d", "'where' is there twice"),
    ("recall@5 >= 0.9 where a = b and a = c", "a field is named twice"),
    ("recall@5 >= 0.9 for every", "expected a field of the queries"),
    ("latency.p90 <= 9ms for every a (pooled)", "latency.p90 is not a mean"),
    ("gm_map >= 0.2 for every a (pooled)", "gm_map is not a mean"),
    ({"metric": "mrr", "min": 0.9, "pooled": True}, "it names no segments"),
    ({"metric": "mrr", "min": 0.9, "for_every": "a", "pooled": "yes"}, "pooled must be true or false"),
    ("recall@5 >= 0.9 where a = b (pooled) and c = d (pooled) x = y", "expected"),
    ("recall@5 >= 0.9 for every a of at least few", "expected a number of queries"),
    ('recall@5 >= 0.9 where a = "b', "not closed"),
    ("recall@5 no worse than", "expected 'baseline'"),
    ("recall@5 no worse than baseline by -0.1", "a margin must be a number from 0"),
    ("recall@5 no worse than x on x", "compared with itself"),
    ("num_ret better than baseline", "has no better or worse"),
    ({"metric": "mrr"}, "expected one of min, max"),
    ({"metric": "mrr", "min": 0.5, "max": 0.9}, "found min, max"),
    ({"metric": "mrr", "min": True}, "expected a number"),
    ({"metric": "mrr", "min": 0.5, "by": 0.1}, "by goes with no_worse_than"),
    ({"metric": "mrr", "min": 0.5, "wher": {}}, "did you mean 'where'?"),
    ({"metric": "mrr", "min": 0.5, "where": "a = b"}, "where must map fields to values"),
    ({"metric": "mrr", "min": 0.5, "level": "fatal"}, "level must be one of error, warn"),
    ({"metric": "mrr", "min": 0.5, "at": "median"}, "at must be 'bound'"),
    ({"min": 0.5}, "no metric"),
    ({"gate": "mrr > 0", "metric": "mrr"}, "only level, name, depth and judged"),
    (17, "a gate is a text"),
    # A number must be finite, in every unit.
    ("recall@5 >= 1e999", "expected a finite number, found 1e999"),
    ("latency.p50 <= 1e400ms", "expected a finite number, found 1e400ms"),
    ("latency.p50 <= 1e307min", "expected a finite number, found 1e307min"),
    ("latency.p50 <= 1e9999999s", "expected a finite number"),
    ({"metric": "recall@5", "min": "1e999"}, "expected a finite number, found 1e999"),
    ({"metric": "recall@5", "min": math.inf}, "expected a finite number, found inf"),
    ({"metric": "latency.p50", "max": "1e400ms"}, "expected a finite number"),
    # What no run can pass, or every run does, is no gate.
    ("recall@5 >= 85", "recall@5 is from 0 to 1, found 85: no run can pass; did you mean 85%?"),
    ({"metric": "recall@5", "min": 85}, "did you mean 85%?"),
    ("recall@5 > 1", "recall@5 is from 0 to 1, found 1: no run can pass"),
    ("recall@5 < 0", "no run can pass"),
    ("recall@5 <= -0.1", "no run can pass"),
    ("latency.p50 < 0ms", "latency.p50 is from 0 on, found 0: no run can pass"),
    ("recall@5 >= 0", "found 0: every run passes; write a threshold between"),
    ("recall@5 > -1", "every run passes"),
    ("recall@5 <= 1", "every run passes"),
    ("recall@5 < 85", "every run passes; did you mean 85%?"),
    ("latency.p50 >= 0", "every run passes"),
    ("recall@5 no worse than baseline by 5", "recall@5 is from 0 to 1, found 5: every run passes; did you mean 5%?"),
    ("recall@5 no worse than baseline by 1", "every run passes"),
    ("recall@5 no worse than baseline by 100%", "found 100%: every run passes"),
    ("recall@5 better than baseline by 1.5", "no run can pass"),
    ("latency.p50 better than baseline by 101%", "no run can pass"),
    # Slips of the pen.
    ("recall@5 => 0.85", "found '=>'; did you mean '>='?"),
    ("latency.p50 =< 60ms", "found '=<'; did you mean '<='?"),
    ("recall@5 >= 0.9 where language != de", "only = and in are understood in where, found '!='"),
    ("recall@5 >= 0.9 where year > 2020", "only = and in are understood in where, found '>'"),
    ("recall@5 >= 0.9 where a = b and year <= 2020", "only = and in are understood in where, found '<='"),
    ("latency.p50 <= 60 msec", "takes a number in ms (or us, s, min), found the unit 'msec'; did you mean 'ms'?"),
    ("latency.p50 <= 60 seconds", "takes a number in ms (or us, s, min), found the unit 'seconds'"),
    ("latency.p50 <= 60 were a = b", "did you mean 'where'?"),
    ("mrr better than my run", 'quote a name that has spaces: than "my run"'),
]

DECIDING = [
    "recall@5 >= 1",
    "recall@5 > 0",
    "recall@5 <= 0",
    "recall@5 < 1",
    "latency.p50 <= 0ms",
    "latency.p50 > 0",
    "latency.p50 <= 1e9",
    "distinct_docs@5 >= 85",
    "num_rel >= 85",
    "recall@5 better than baseline by 1",
    "recall@5 no worse than baseline by 0.99",
    "latency.p50 no worse than baseline by 100%",
    "latency.p50 no worse than baseline by 5000ms",
    "recall@5 better than baseline by 300%",
]


@pytest.mark.parametrize("written", DECIDING)
def test_a_threshold_at_a_bound_that_can_still_decide_is_a_gate(written: str) -> None:
    assert str(parse_gate(written)) == str(parse_gate(str(parse_gate(written))))


@pytest.mark.parametrize(("written", "told"), WRONG)
def test_a_gate_that_cannot_be_read_says_why(written: object, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_gate(written)  # type: ignore[arg-type]
    assert told in str(caught.value)


printable = st.characters(exclude_categories=("C", "Z"), include_characters=" ")
names = st.text(printable, min_size=1, max_size=12).filter(lambda t: t == " ".join(t.split()) and t.isprintable())


@given(
    metric=st.sampled_from(["ndcg@10", "recall(rel=2)@5", "latency.p50", "redundancy@5", "mrr"]),
    kind=st.sampled_from(KINDS),
    value=st.floats(1e-9, 1 - 1e-9),
    relative=st.booleans(),
    fields=st.lists(names, max_size=4, unique=True),
    values=st.lists(names, min_size=4, max_size=4),
    least=st.none() | st.integers(1, 99),
    at_mean=st.booleans(),
    run=st.none() | names,
)
def test_what_is_printed_is_read_back(
    metric: str,
    kind: GateKind,
    value: float,
    relative: bool,
    fields: list[str],
    values: list[str],
    least: int | None,
    at_mean: bool,
    run: str | None,
) -> None:
    compared = kind.compares
    where = tuple(zip(fields[:2], values, strict=False))
    every = tuple(fields[2:])
    gate = Gate(
        metric,
        kind,
        value,
        "baseline" if compared else None,
        relative and value > 0 and any(slot.name == "margin" for slot in kind.slots),
        where,
        every,
        least if every else None,
        at_mean,
        run if run != "baseline" else None,
        upper=(1 + value) / 2 if any(slot.name == "high" for slot in kind.slots) else None,
        pooled=bool(every) and parse(metric).aggregate == "mean",
    )
    assert parse_gate(str(gate)) == gate


def test_a_gate_against_a_baseline_knows_its_direction() -> None:
    up, down = (parse_gate(f"{m} no worse than baseline by 0.1") for m in ("ndcg@10", "redundancy@5"))
    assert (up.op, up.threshold) == (">=", -0.1)
    assert (down.op, down.threshold) == ("<=", 0.1)
    better = parse_gate("redundancy@5 better than baseline")
    assert (better.op, better.threshold) == ("<", 0.0)
    assert replace(better, value=0.1).threshold == -0.1


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("recall@5 >= 0.9 where language in (pt-BR, es-AR)", "where language in (pt-BR, es-AR)"),
        ("recall@5 >= 0.9 where x in (a,b) and topic = c", "where x in (a, b) and topic = c"),
        ('recall@5 >= 0.9 where topic in ("two words", x)', 'where topic in ("two words", x)'),
        ("recall@5 >= 0.9 where topic in (two words, x) at the mean", 'where topic in ("two words", x) at the mean'),
    ],
)
def test_values_can_be_taken_together(text: str, canonical: str) -> None:
    gate = parse_gate(text)
    assert str(gate) == f"recall@5 >= 0.9 {canonical}"
    assert parse_gate(str(gate)) == gate


def test_a_mapping_takes_values_together() -> None:
    mapping = {"metric": "recall@5", "min": 0.9, "where": {"language": ["pt-BR", "es-AR"]}}
    assert parse_gate(mapping) == parse_gate("recall@5 >= 0.9 where language in (pt-BR, es-AR)")


@pytest.mark.parametrize(
    "end", ["language in", "language in pt-BR", "language in (pt-BR", "language in (,)", "language in ()"]
)
def test_a_group_that_cannot_be_read_says_how_to_write_it(end: str) -> None:
    with pytest.raises(karat.UsageError, match=r"such as \(pt-BR, es-AR\)|expected"):
        parse_gate(f"recall@5 >= 0.9 where {end}")


def test_a_group_of_values_is_judged_as_one_segment() -> None:
    languages = ["pt-BR"] * 20 + ["es-AR"] * 20 + ["de"] * 20
    gold = {f"q{i}": ["a"] for i in range(60)}
    run = {q: ["a"] if languages[i] != "de" or i % 2 else ["x"] for i, q in enumerate(gold)}
    queries = {q: {"language": languages[i]} for i, q in enumerate(gold)}
    result = karat.evaluate(gold, {"r": run}, "hit@1", queries=queries, by="language in (pt-BR, es-AR)")
    check = karat.check(result, gates=["hit@1 >= 0.85 where language in (pt-BR, es-AR)"])
    (row,) = check.rows
    assert (row.found.n, row.found.estimate, row.outcome) == (40, 1.0, "pass")
    with pytest.raises(karat.UsageError, match="no query has language = pt-PT; did you mean 'pt-BR'"):
        karat.evaluate(gold, {"r": run}, "hit@1", queries=queries, by="language in (pt-PT, es-AR)")


def test_a_group_that_a_result_is_not_sliced_by_names_its_absent_value_or_an_option_that_a_shell_reads() -> None:
    gold = {f"q{i}": ["a"] for i in range(20)}
    queries = {q: {"language": "de" if i % 2 else "en", "topic": "x"} for i, q in enumerate(gold)}
    result = karat.evaluate(gold, {"r": {q: ["a"] for q in gold}}, "hit@1", queries=queries, by=["language", "topic"])
    with pytest.raises(karat.InputError) as error:
        karat.check(result, ["hit@1 >= 0.5 where language in (de, en)"])
    assert str(error.value).endswith(
        "are not sliced by language in (de, en); evaluate with queries= and by="
        "'language in (de, en)' (--queries FILE --by 'language in (de, en)')"
    )
    for where in ("language in (en, fr)", "topic = x and language = fr"):
        with pytest.raises(karat.InputError, match=r'no query has language = fr; there are "de", "en"$'):
            karat.check(result, [f"hit@1 >= 0.5 where {where}"])


def test_names_in_gates_mean_what_they_mean_in_the_tool_that_is_imitated() -> None:
    gold = {f"q{i}": {"a": 1, "b": 1} for i in range(30)}
    run = {q: ["a", "b"] for q in gold}
    plain = karat.check(karat.evaluate(gold, {"r": run}, "hits@5"), gates=["hits@5 >= 3"])
    assert [r.found.estimate for r in plain.rows] == [60.0]  # the sum of the hits of all queries
    ranx = karat.check(karat.evaluate(gold, {"r": run}, "hits@5", like="ranx"), gates=["hits@5 >= 1.5"])
    assert [r.found.estimate for r in ranx.rows] == [2.0]  # the hits of a query
    with pytest.raises(UsageError, match="bpref"):
        karat.check(karat.evaluate(gold, {"r": run}, "hits@5", like="ranx"), gates=["bpref >= 0.1"])


def test_a_config_that_imitates_a_tool_reads_its_gates_as_the_tool_does(tmp_path: Path) -> None:
    lines = [f"q{i} 0 {doc} 1\n" for i in range(30) for doc in "ab"]
    (tmp_path / "gold.txt").write_text("".join(lines))
    rows = [f"q{i} Q0 {doc} 1 {9 - j} t\n" for i in range(30) for j, doc in enumerate("ab")]
    (tmp_path / "r.run").write_text("".join(rows))
    text = "dataset: {qrels: gold.txt}\nruns: {r: r.run}\nconventions: {like: ranx}\ngates: ['hits@5 >= 1.5']\n"
    (tmp_path / "karat.yaml").write_text(text)
    check = karat.check(tmp_path / "karat.yaml")
    assert [r.found.estimate for r in check.rows] == [2.0]


def test_a_config_judges_values_taken_together(tmp_path: Path) -> None:
    languages = ("pt-BR", "es-AR", "de")
    (tmp_path / "gold.txt").write_text("".join(f"q{i} 0 a 1\n" for i in range(60)))
    (tmp_path / "r.run").write_text("".join(f"q{i} Q0 {'a' if i % 3 < 2 else 'x'} 1 1 t\n" for i in range(60)))
    rows = [f'{{"_id": "q{i}", "text": "?", "language": "{languages[i % 3]}"}}\n' for i in range(60)]
    (tmp_path / "q.jsonl").write_text("".join(rows))
    gates = "['hit@1 >= 0.85 where language in (pt-BR, es-AR)', {metric: hit@1, max: 0.5, where: {language: [de]}}]"
    text = f"dataset: {{qrels: gold.txt, queries: q.jsonl}}\nruns: {{r: r.run}}\ngates: {gates}\n"
    (tmp_path / "karat.yaml").write_text(text)
    check = karat.check(tmp_path / "karat.yaml")
    assert [(r.outcome, r.found.n) for r in check.rows] == [("pass", 40), ("pass", 20)]


def test_a_segment_without_gold_does_not_join_a_gate_on_relevance(tmp_path: Path) -> None:
    queries = {f"q{i}": {"kind": "abc"[i % 3]} for i in range(90)} | {
        f"n{i}": {"kind": "off", "no_answer": True} for i in range(12)
    }
    gold = {q: ["a"] for q in queries if q.startswith("q")}
    lines = [{"query_id": q, "topk": [{"chunk_id": "a"}], "latency_ms": {"retrieve": 5}} for q in queries]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for metrics in ("hit@1", "hit@1,latency.p50"):
        result = karat.evaluate(gold, tmp_path / "log.jsonl", metrics, queries=queries, by="kind")
        check = karat.check(result, ["hit@1 >= 0.5 for every kind"])
        assert (check.verdict, len(check.rows)) == ("SHIP", 3)
    timed = karat.check(result, ["latency.p50 <= 9ms for every kind"])
    assert len(timed.rows) == 4


def test_a_segment_that_the_run_lacks_does_not_pass_in_silence(tmp_path: Path) -> None:
    queries = {f"q{i}": {"kind": "abc"[i % 3]} for i in range(90)}
    gold = {q: ["a"] for q in queries}
    base = {q: ["x", "a"] for q in queries}
    run = {q: ["a"] for q, fields in queries.items() if fields["kind"] != "b"}
    result = karat.evaluate(gold, {"base": base, "run": run}, "mrr", queries=queries, by="kind", missing="skip")
    why = "30 queries with kind = b, none with results in this run"
    gates = ["mrr >= 0.5 for every kind", "mrr no worse than baseline by 0.1 for every kind"]
    result.save(str(tmp_path / "saved.json"))
    for one in (result, karat.load(str(tmp_path / "saved.json"))):
        check = karat.check(one, gates, baseline="base", candidate="run")
        assert check.verdict == "INCONCLUSIVE"
        for row in check.rows:
            assert row.segment is not None
            assert row.outcome == ("undecided" if row.segment["kind"] == "b" else "pass")
        assert {row.judged.why for row in check.rows if row.outcome == "undecided"} == {why}
        (alone,) = karat.check(one, ["mrr >= 0.5 where kind = b"], baseline="base", candidate="run").rows
        assert (alone.outcome, alone.judged.why) == ("undecided", f"{why}: mrr has no value there")
    large = karat.check(result, ["mrr >= 0.5 for every kind of at least 31"], baseline="base", candidate="run")
    assert [row.judged.why for row in large.rows] == ["no segment has at least 31 queries"]
    answered = karat.evaluate(gold, {"run": run}, "mrr", queries=queries, by="kind")
    assert karat.check(answered, ["mrr >= 0.5 for every kind"]).verdict == "BLOCK"  # scored as empty results


@pytest.mark.parametrize("metrics", ["hit@1", "hit@1,latency.p50,false_evidence(threshold=0)@1"])
def test_a_gate_on_relevance_where_no_query_has_an_answer_says_so(tmp_path: Path, metrics: str) -> None:
    queries = {f"q{i}": {"kind": "bio"} for i in range(20)} | {
        f"n{i}": {"kind": "offtopic", "no_answer": True} for i in range(12)
    }
    lines = [{"query_id": q, "topk": [{"chunk_id": "a", "score": 1}], "latency_ms": {"retrieve": 5}} for q in queries]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    gold = {q: ["a"] for q in queries if q.startswith("q")}
    result = karat.evaluate(gold, tmp_path / "log.jsonl", metrics, queries=queries, by="kind")
    row = karat.check(result, ["hit@1 >= 0.5 where kind = offtopic"]).rows[0]
    assert row.outcome == "undecided"
    why = row.judged.why
    assert why.startswith(
        "12 queries with kind = offtopic, all marked no_answer: hit@1 has no value there; gate false_evid"
    )
    result.save(str(tmp_path / "saved.json"))
    saved = karat.check(karat.load(str(tmp_path / "saved.json")), ["hit@1 >= 0.5 where kind = offtopic"])
    assert saved.rows[0].judged.why == why
    if "latency" in metrics:
        gates = [
            "latency.p50 <= 9ms where kind = offtopic",
            "false_evidence(threshold=0)@1 >= 0.5 where kind = offtopic",
        ]
        assert [(r.outcome, r.found.n) for r in karat.check(result, gates).rows] == [("pass", 12)] * 2
    with pytest.raises(karat.InputError, match=r"no query has kind = bibo; did you mean 'bio'\?"):
        karat.check(result, ["hit@1 >= 0.5 where kind = bibo"])
    unmarked = {q: {"kind": fields["kind"]} for q, fields in queries.items()}
    result = karat.evaluate(gold, tmp_path / "log.jsonl", "hit@1", queries=unmarked, by="kind")
    row = karat.check(result, ["hit@1 >= 0.5 where kind = offtopic"]).rows[0]
    assert row.judged.why.startswith("12 queries with kind = offtopic, none with gold: hit@1")


def test_every_gate_that_the_docs_show_can_be_written() -> None:
    """Those of the first block have what they mean beside them, two spaces and more apart."""
    text = (ROOT / "docs" / "gates.md").read_text(encoding="utf-8")
    listed, *others = re.findall(r"```(?:yaml)?\n(.*?)```", text, re.DOTALL)
    gates: list[Any] = [re.split(r" {2,}", line)[0] for line in listed.strip().splitlines()]
    for block in others:
        gates += (YAML(typ="safe").load(block) or {}).get("gates", [])
    assert len(gates) > 25
    for gate in gates:
        parse_gate(gate)


def test_a_segment_without_weight_says_so() -> None:
    gold = {f"q{i}": {"d": 1} for i in range(60)}
    table = {q: {"weight": int(i >= 30), "part": "ab"[i >= 30]} for i, q in enumerate(gold)}
    result = karat.evaluate(gold, {q: ["d"] for q in gold}, "hit@1", queries=table, by="part")
    (row,) = karat.check(result, ["hit@1 >= 0.5 where part = a"]).rows
    why = "the value is undefined: 30 queries with a value, all of weight 0"
    assert (row.outcome, row.judged.why) == ("undecided", why)


def test_a_quantile_passes_only_with_the_queries_that_were_not_answered_at_the_worst(tmp_path: Path) -> None:
    """With 5 of 150 queries slow beyond measure the upper end of p95 is theirs; with 1 it is not."""
    gold = {f"q{i}": {"d": 1} for i in range(150)}
    for lost, outcome in ((5, "undecided"), (1, "pass")):
        lines = [
            {"query_id": f"q{i}", "topk": [{"doc_id": "d"}], "latency_ms": {"total": 20.0 + i}}
            for i in range(lost, 150)
        ]
        (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
        result = karat.evaluate(gold, str(tmp_path / "log.jsonl"), ["hit@1", "latency.p95"])
        (row,) = karat.check(result, ["latency.p95 <= 200ms"]).rows
        assert row.outcome == outcome


@pytest.mark.parametrize(("slower", "outcome"), [(9.0, "pass"), (600.0, "fail")])
def test_a_change_of_a_quantile_passes_with_a_query_that_was_not_answered_at_the_worst(
    tmp_path: Path, slower: float, outcome: str
) -> None:
    """One of 150 queries hardly moves the median, however slow it is: its change is about 9 ms, and 500 are allowed."""
    gold = {f"q{i}": {"d": 1} for i in range(150)}
    base = karat.evaluate(gold, _log_of(tmp_path / "base.jsonl", [*gold]), ["hit@1", "latency.p50"])
    log = _log_of(tmp_path / "log.jsonl", [*gold][:0:-1], 20.0 + slower)
    result = karat.evaluate(gold, log, ["hit@1", "latency.p50"])
    (row,) = karat.check(result, ["latency.p50 no worse than baseline by 500ms"], baseline=base).rows
    assert row.outcome == outcome
    assert row.found.worst[1] < 500 if outcome == "pass" else row.found.low > 500


@pytest.mark.parametrize("field", ["conversation", "weight"])
def test_too_few_units_for_a_quantile_say_how_many_more_queries(tmp_path: Path, field: str) -> None:
    """The upper end of p99 takes 368 queries that count alike: .99^368 < .025."""
    gold = {f"q{i}": {"d": 1} for i in range(90)}
    table = {
        q: {field: f"c{i // 2 if i < 20 else i}" if field == "conversation" else 1 + i % 2} for i, q in enumerate(gold)
    }
    log = _log_of(tmp_path / "log.jsonl", [*gold])
    result = karat.evaluate(gold, log, ["hit@1", "latency.p99"], queries=table)
    (row,) = karat.check(result, ["latency.p99 <= 1s"]).rows
    assert (row.outcome, row.judged.why) == ("undecided", "too few queries to bound it from above")
    assert row.judged.needs_queries and row.judged.more is not None and 368 - 90 < row.judged.more < 600
    assert work_item(row, 0.8).statement.startswith("run about")
    days = {q: {**fields, "added": "2025-01-01"} for q, fields in table.items()}
    looked = karat.evaluate(gold, log, ["hit@1", "latency.p99"], queries=days, sequential=True)
    (row,) = karat.check(looked, ["latency.p99 <= 1s"]).rows
    assert row.judged.why == "sequential: no interval of a quantile holds at every look"


def test_a_quantile_at_the_mean_is_judged_with_the_queries_that_were_not_answered_at_the_worst(tmp_path: Path) -> None:
    """With 9 of 150 queries slow beyond measure p95 itself is theirs; the median is not."""
    gold = {f"q{i}": {"d": 1} for i in range(150)}
    result = karat.evaluate(
        gold, _log_of(tmp_path / "log.jsonl", [*gold][9:]), ["hit@1", "latency.p50", "latency.p95", "latency.mean"]
    )
    gates = [f"latency.{part} <= 200ms at the mean" for part in ("p50", "p95", "mean")]
    rows = karat.check(result, gates).rows
    assert [row.outcome for row in rows] == ["pass", "undecided", "undecided"]
    assert [row.judged.why.split(";")[0] for row in rows] == [
        "the quantile is on the right side",
        "9 queries have no latency, so the quantile may be larger",
        "9 queries have no latency, so the mean may be larger",
    ]
    base = karat.evaluate(gold, _log_of(tmp_path / "base.jsonl", [*gold]), ["hit@1", "latency.p50", "latency.p95"])
    for part, outcome in (("p50", "pass"), ("p95", "undecided")):
        gate = f"latency.{part} no worse than baseline by 20ms at the mean"
        assert [row.outcome for row in karat.check(result, [gate], baseline=base).rows] == [outcome]


def _log_of(path: Path, ids: list[str], latency: float = 20.0) -> str:
    lines = [
        {"query_id": q, "topk": [{"doc_id": "d"}], "latency_ms": {"total": latency + i}, "cost": {"tokens": 10}}
        for i, q in enumerate(ids)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return str(path)


def test_a_level_passes_only_if_the_run_answers_the_queries_marked_no_answer(tmp_path: Path) -> None:
    """With 8 of 158 queries slow beyond measure the upper end of p95 is theirs; a mean may be anything."""
    gold = {f"q{i}": {"d": 1} for i in range(150)}
    table = {f"n{i}": {"text": "x", "no_answer": True} for i in range(8)} | {q: {"text": "x"} for q in gold}
    gates = ["latency.p95 <= 200ms", "latency.mean <= 200ms", "cost.tokens.sum <= 60000"]
    for ids, outcome in (([*gold], "undecided"), ([*gold, *(f"n{i}" for i in range(8))], "pass")):
        log = _log_of(tmp_path / "log.jsonl", ids)
        for missing in ("zero", "skip"):
            metrics = ["hit@1", *(gate.split()[0] for gate in gates)]
            result = karat.evaluate(gold, log, metrics, queries=table, missing=missing)
            rows = karat.check(result, gates).rows
            assert [row.outcome for row in rows] == [outcome if missing == "zero" else "pass"] * 3
            result.save(str(tmp_path / "saved.json"))
            again = karat.check(karat.load(str(tmp_path / "saved.json")), gates).rows
            assert [row.outcome for row in again] == [row.outcome for row in rows]


def test_unmarked_queries_of_a_table_count_where_the_run_answers_some_of_them(tmp_path: Path) -> None:
    """A table may hold another split: its queries were not asked. With one of them answered, the others were."""
    gold = {f"q{i}": {"d": 1} for i in range(50)}
    table = {q: {"text": "x"} for q in (*gold, *(f"u{i}" for i in range(20)))}
    for ids, outcome in (([*gold], "pass"), ([*gold, "u0"], "undecided")):
        log = _log_of(tmp_path / "log.jsonl", ids)
        result = karat.evaluate(gold, log, ["hit@1", "latency.mean"], queries=table)
        (row,) = karat.check(result, ["latency.mean <= 200ms"]).rows
        assert row.outcome == outcome
    assert row.judged.why.startswith("19 queries have no latency")
    assert "--missing skip" in row.judged.why


def test_a_segment_without_gold_that_the_run_lacks_is_undecided(tmp_path: Path) -> None:
    gold = {f"q{i}": {"d": 1} for i in range(50)}
    table = {q: {"text": "x", "kind": "usual"} for q in gold}
    table |= {f"n{i}": {"text": "x", "kind": "offtopic", "no_answer": "yes"} for i in range(12)}
    log = _log_of(tmp_path / "log.jsonl", [*gold])
    result = karat.evaluate(gold, log, ["hit@1", "latency.mean"], queries=table, by="kind")
    for gate in ("latency.mean <= 200ms for every kind", "latency.mean <= 200ms where kind = offtopic"):
        row = karat.check(result, [gate]).rows[-1]
        assert row.outcome == "undecided"
        assert row.judged.why == "12 queries with kind = offtopic, none with results in this run"


@pytest.mark.parametrize("details", [False, True])
def test_identical_lists_decide_with_details_and_without(tmp_path: Path, details: bool) -> None:
    gold = {f"q{i}": {"a": 1} for i in range(40)}
    run = {q: ["a", "x"] if i % 2 else ["x", "a"] for i, q in enumerate(gold)}
    other = {q: [d.replace("x", "y") for d in docs] for q, docs in run.items()}
    result = karat.evaluate(gold, {"a": run, "b": dict(run), "c": other}, "mrr", details=details)
    result.save(tmp_path / "saved.json")
    for one in (result, karat.load(tmp_path / "saved.json")):
        gates = ("mrr no worse than b by 0.01", "mrr better than b", "mrr no worse than c by 0.01")
        verdicts = [karat.check(one, [gate], candidate="a").verdict for gate in gates]
        assert verdicts == ["SHIP", "BLOCK", "INCONCLUSIVE"]


@pytest.mark.parametrize("details", [False, True])
def test_lists_that_are_known_down_to_rank_100_are_identical_for_metrics_that_end_there(details: bool) -> None:
    """Of 40 queries one is lost below rank 100, and then none: only what was looked at says anything."""
    gold = {f"q{i}": {"a": 1} for i in range(40)}
    lists = {q: [f"x{j}" for j in range(110)] for q in gold}
    run = {q: [*docs[:105], "a", *docs[105:]] for q, docs in lists.items()}
    worse = {**run, "q0": [*lists["q0"], "x110"]}
    result = karat.evaluate(gold, {"a": run, "same": dict(run), "b": worse}, "recall@110,ndcg@10", details=details)
    (row,) = karat.check(result, ["recall@110 no worse than a by 0.1"], candidate="b").rows
    assert (row.outcome, row.found.estimate) == ("undecided", pytest.approx(-1 / 40))
    for metric, outcome in (("ndcg@10", "pass"), ("recall@110", "undecided")):
        (row,) = karat.check(result, [f"{metric} no worse than a by 0.01"], candidate="same").rows
        assert row.outcome == outcome and ("identical" in row.judged.why) == (outcome == "pass")


def test_lists_that_conventions_made_the_same_are_not_identical() -> None:
    """Without the docs that nobody judged, lists with the relevant doc at rank 1 and at rank 3 are the same."""
    gold = {f"q{i}": {"a": 1} for i in range(40)}
    runs = {"first": {key: ["a", "x", "y"] for key in gold}, "third": {key: ["z", "w", "a"] for key in gold}}
    result = karat.evaluate(gold, runs, "ndcg@5", condensed=True, details=True)
    gate = "ndcg@5 no worse than first by 0.01"
    assert karat.check(result, [gate], candidate="third").verdict == "INCONCLUSIVE"
    compared = karat.compare(gold, runs, "ndcg@5", condensed=True)
    assert not compared.rows[0].same_lists and "identical" not in compared.rows[0].statement


def test_identical_lists_with_other_gold_show_nothing() -> None:
    gold = {f"q{i}": {"a": 1} for i in range(40)}
    run = {key: ["a", "x"] for key in gold}
    there = karat.evaluate(gold, {"r": run}, "hit@1", details=True)
    other = karat.evaluate({**gold, "q0": {"b": 1}}, {"r": run}, "hit@1", details=True)
    gate = ["hit@1 no worse than baseline by 0.03"]
    (row,) = karat.check(other, gate, baseline=there, force=True).rows
    assert (row.outcome, row.found.estimate) == ("undecided", pytest.approx(-1 / 40))


def test_a_gate_says_that_the_lists_may_be_identical_where_nobody_knows() -> None:
    gold = {f"q{i}": {"a": 1} for i in range(40)}
    run = {q: ["a", "x"] if i % 2 else ["x", "a"] for i, q in enumerate(gold)}
    longer = {q: [*docs, "y"] for q, docs in run.items()}
    here, there, third = (karat.evaluate(gold, one, "mrr") for one in (run, run, longer))
    gate = ["mrr no worse than baseline by 0.01"]
    unknown = karat.check(here, gate, baseline=there)
    assert unknown.verdict == "INCONCLUSIVE" and "identical" in unknown.why
    assert "identical" not in karat.check(here, gate, baseline=third).why  # these returned more docs


def test_lists_are_read_again_only_where_they_may_be_identical(monkeypatch: pytest.MonkeyPatch) -> None:
    from karat.verbs import evaluate as module

    read: list[int] = []
    build = module.build_top_lists
    monkeypatch.setattr(module, "build_top_lists", lambda aligned: read.append(1) or build(aligned))
    gold = {"q1": {"a": 1}, "q2": {"a": 1}}
    run = {"q1": ["a", "x"], "q2": ["x", "a"]}
    karat.evaluate(gold, {"a": run, "b": {**run, "q2": ["a"]}}, "mrr")
    assert not read
    karat.evaluate(gold, {"a": run, "b": run, "c": {"q1": ["a"]}}, "mrr")
    assert len(read) == 2


def test_a_gate_names_missing_values_and_the_interval_where_both_leave_it_open() -> None:
    gate = parse_gate("cost.tokens no worse than baseline by 5%")
    open_by_both = judge(gate, mean(-11.0, -26.0, 3.3, absent=1))
    assert "1 query has no cost (tokens)" in open_by_both.why
    assert open_by_both.why.endswith("besides, the threshold is inside the interval")
    by_one = judge(gate, mean(-11.0, -26.0, -3.3, absent=1))
    assert by_one.outcome == "undecided" and "besides" not in by_one.why


def test_a_margin_of_nothing_has_no_sign() -> None:
    assert [str(parse_gate(f"mrr {how} baseline").threshold) for how in ("no worse than", "better than")] == ["0.0"] * 2
    assert str(parse_gate("latency.p90 no worse than baseline").threshold) == "0.0"
