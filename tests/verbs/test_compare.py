"""Runs against a baseline: differences, tests, corrections, margins, noise, plans."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import karat
from command import run_karat
from karat.cli import main
from karat.report import markdown
from karat.report.terminal.compare import show
from karat.report.terminal.evaluate import show as show_evaluation
from karat.report.view import view_of
from karat.results.decision_document import read_decision
from karat.results.decisions import Decision, Family
from karat.results.figures import estimate_figure, p_text
from karat.results.words import round_up
from karat.stats.intervals import Interval
from karat.stats.multiple import benjamini_hochberg, holm
from karat.stats.paired import paired_test
from karat.stats.power import power_of
from places import DL19 as SHARED

if TYPE_CHECKING:
    from pathlib import Path

A = [0.95, 0.90, 0.20, 0.10, 0.70, 0.60, 0.40, 0.85, 0.30, 0.50]
B = [0.90, 0.86, 0.17, 0.08, 0.64, 0.55, 0.37, 0.80, 0.28, 0.44]


def planted(n: int = 60, gain: float = 0.3, seed: int = 0) -> tuple[dict, dict, dict]:
    """Two runs of which the second puts the relevant doc higher in a share of the queries."""
    rng = np.random.default_rng(seed)
    gold, runs, queries = {}, {"base": {}, "cand": {}}, {}
    for i in range(n):
        q, docs = f"q{i:03}", [f"d{j}" for j in range(10)]
        place = int(rng.integers(2, 10))
        gold[q] = {docs[place]: 1}
        runs["base"][q] = docs
        runs["cand"][q] = [docs[place], *(d for d in docs if d != docs[place])] if rng.random() < gain else docs
        queries[q] = {"language": "de" if i % 2 else "en"}
    return gold, runs, queries


def test_the_difference_is_candidate_minus_baseline_on_the_same_queries() -> None:
    gold, runs, _ = planted()
    row = karat.compare(gold, runs, "mrr")["mrr"]
    base, cand = (karat.evaluate(gold, runs[n], "mrr").per_query("mrr") for n in ("base", "cand"))
    moved = [cand[q] - base[q] for q in base]
    assert row.delta == pytest.approx(sum(moved) / len(moved))
    assert (row.wins, row.ties, row.losses) == (sum(d > 0 for d in moved), sum(d == 0 for d in moved), 0)
    assert row.difference.low < row.delta < row.difference.high
    assert row.p["t"] == paired_test(list(cand.values()), list(base.values()), test="t").p
    assert row.p["randomization"] == paired_test(list(cand.values()), list(base.values())).p >= 1 / 100_001
    assert row.effect_size == pytest.approx(np.mean(moved) / np.std(moved, ddof=1))
    assert row.significant


def test_swapping_baseline_and_candidate_negates_the_difference_and_keeps_p() -> None:
    gold, runs, _ = planted(gain=0.1)
    one = karat.compare(gold, runs, "mrr,ndcg@5")
    other = karat.compare(gold, runs, "mrr,ndcg@5", baseline="cand")
    for name in ("mrr", "ndcg@5"):
        assert other[name].delta == pytest.approx(-one[name].delta, abs=1e-15)
        assert other[name].p == one[name].p
        assert (other[name].wins, other[name].losses) == (one[name].losses, one[name].wins)


def test_where_lower_is_better_a_fall_is_a_win() -> None:
    gold, runs, _ = planted()
    row = karat.compare(gold, runs, "rbp_residual")["rbp_residual"]
    assert row.delta < 0
    assert row.wins > 0
    assert row.losses == 0


def test_p_is_adjusted_over_candidates_by_holm_and_over_segments_by_bh() -> None:
    gold, runs, queries = planted(gain=0.15)
    third = planted(gain=0.05, seed=0)[1]["cand"]
    found = karat.compare(gold, {**runs, "third": third}, "mrr", queries=queries, by="language")
    overall = found.of("mrr")
    assert [r.p_adjusted for r in overall] == holm([r.p["randomization"] for r in overall])
    inside = [r for r in found.rows if r.segment is not None]
    assert [r.p_adjusted for r in inside] == benjamini_hochberg([r.p["randomization"] for r in inside])
    assert {r.correction for r in overall} == {"holm"}
    assert {r.correction for r in inside} == {"bh"}


def test_segments_too_small_are_shown_and_never_judged() -> None:
    gold, runs, queries = planted(24, gain=0.9)
    for i, q in enumerate(queries):
        queries[q]["language"] = "pt" if i < 4 else "en"
    found = karat.compare(gold, runs, "mrr", queries=queries, by="language")
    small = next(r for r in found.rows if r.segment == {"language": "pt"})
    assert small.small
    assert not small.significant
    assert math.isnan(small.p_adjusted)


def test_the_terminal_says_which_metric_the_segments_are_of(capsys: pytest.CaptureFixture[str]) -> None:
    gold, runs, queries = planted(60, gain=0.9)
    for metrics, says in (("mrr", False), ("mrr,hit@1", True)):
        show(karat.compare(gold, runs, metrics, queries=queries, by="language"))
        out = " ".join(capsys.readouterr().out.split())
        assert "Δ mrr by segment" in out
        words = "shown: mrr (primary); others differ significantly in 2 segments: see --markdown or --json"
        assert (words in out) == says
    show(karat.compare(gold, {"a": runs["base"], "b": runs["base"]}, "mrr,hit@1", queries=queries, by="language"))
    out = " ".join(capsys.readouterr().out.split())
    assert "shown: mrr (primary); no other metric differs significantly in a segment" in out


@pytest.mark.parametrize("saved", [False, True])
def test_the_terminal_names_the_conventions_that_differ_from_the_defaults(
    saved: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold, runs, _ = planted(20, gain=0.5)
    for options, end in (
        ({}, " · seed 0"),
        ({"condensed": True, "missing": "skip"}, " · seed 0 · missing=skip, condensed=True"),
    ):
        if saved:
            for name, run in runs.items():
                karat.evaluate(gold, {name: run}, "mrr", **options).save(str(tmp_path / f"{name}.json"))
            show(karat.compare(str(tmp_path / "base.json"), str(tmp_path / "cand.json")))
        else:
            show(karat.compare(gold, runs, "mrr", **options))
        assert " ".join(capsys.readouterr().out.split()).endswith(end)


def test_a_segment_that_moves_against_the_whole_is_flagged() -> None:
    gold, runs, queries = {}, {"base": {}, "cand": {}}, {}
    for i in range(60):
        q, worse = f"q{i:03}", i < 15
        gold[q] = {"hit": 1}
        runs["base"][q], runs["cand"][q] = ["x", "hit"], ["hit", "x"]
        if worse:
            runs["base"][q], runs["cand"][q] = runs["cand"][q], runs["base"][q]
        queries[q] = {"language": "pt" if worse else "en"}
    found = karat.compare(gold, runs, "mrr", queries=queries, by="language")
    flags = {r.segment["language"]: r.against_trend for r in found.rows if r.segment}
    assert flags == {"en": False, "pt": True}


def test_a_margin_asks_for_non_inferiority_and_equivalence() -> None:
    gold, runs, _ = planted(200, gain=0.02)
    loose = karat.compare(gold, runs, "mrr", margin=0.1)["mrr"]
    tight = karat.compare(gold, runs, "mrr", margin=0.001)["mrr"]
    assert (loose.non_inferior, loose.equivalent) == (True, True)
    assert tight.equivalent is False
    worse = karat.compare(gold, runs, "mrr", baseline="cand", margin=0.001)["mrr"]
    assert worse.non_inferior is False


@pytest.mark.parametrize("confidence", [0.95, 0.8])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
def test_the_interval_that_is_shown_decides_on_a_margin(alpha: float, confidence: float) -> None:
    """Margins just inside and just outside both of its ends, whatever the level of significance."""
    gold, runs, _ = planted(60)
    for q in list(gold)[::2]:  # gains there become losses
        runs["base"][q], runs["cand"][q] = runs["cand"][q], runs["base"][q]
    shown = karat.compare(gold, runs, "mrr", confidence=confidence)["mrr"].difference
    assert shown.low < 0 < shown.high
    for margin in (0.99 * -shown.low, 1.01 * -shown.low, 0.99 * shown.high, 1.01 * shown.high):
        row = karat.compare(gold, runs, "mrr", margin=margin, alpha=alpha, confidence=confidence)["mrr"]
        assert row.difference == shown
        assert row.non_inferior is (shown.low > -margin)
        assert row.equivalent is (shown.low > -margin and shown.high < margin)


def test_identical_lists_are_within_any_margin_in_compare_and_in_gates() -> None:
    """Of 182 equal lists the interval is ±.020, as other queries may differ: neither gates nor margins look at it."""
    gold = {f"q{i}": {"a": 1} for i in range(182)}
    lists = {q: ["x", "a"] if i % 2 else ["a", "x"] for i, q in enumerate(gold)}
    row = karat.compare(gold, {"old": lists, "new": dict(lists)}, "mrr", margin=0.01)["mrr"]
    assert row.difference.low < -0.01 and row.difference.high > 0.01
    assert (row.non_inferior, row.equivalent) == (True, True)
    assert row.statement.endswith("the ranked lists are identical; equivalent and non-inferior within 0.01")
    result = karat.evaluate(gold, {"old": lists, "new": dict(lists)}, "mrr")
    assert karat.check(result, ["mrr no worse than baseline by 0.01"], baseline="old").verdict == "SHIP"


def test_an_interval_that_excludes_0_says_why_nothing_is_significant() -> None:
    """Eight queries rise by .5 and nine fall by .1, so the sign test sees 8 : 9, whatever the mean says."""
    gold = {f"q{i}": {"a": 1} for i in range(17)}
    rank = {q: (2, 1) if i < 8 else (4, 5) for i, q in enumerate(gold)}
    old, new = ({q: [*(f"x{j}" for j in range(r[side] - 1)), "a"] for q, r in rank.items()} for side in (0, 1))
    runs = {"old": old, "new": new}
    by_sign = karat.compare(gold, runs, "mrr", tests=("sign",), method="t")["mrr"]
    assert by_sign.difference.low > 0 and by_sign.p["sign"] == by_sign.p_adjusted == pytest.approx(1.0)
    assert "the interval excludes 0, but the p of sign decides, and it is not below the level" in by_sign.statement
    strict = karat.compare(gold, runs, "mrr", alpha=1e-4)["mrr"]
    assert strict.difference.low > 0 and 1e-4 < strict.p_adjusted == strict.p["randomization"] < 0.05
    assert "the interval excludes 0, but p decides, and it is not below the level" in strict.statement
    several = {f"n{i}": new for i in range(50)}
    adjusted = karat.compare(gold, {"old": old, **several}, "mrr").of("mrr", "n0")[0]
    assert adjusted.p_adjusted > 0.05
    assert "on its own the interval excludes 0, but p decides, adjusted by Holm over 50 cand" in adjusted.statement


def test_replicates_give_the_noise_floor() -> None:
    gold, runs, _ = planted(gain=0.3)
    builds = {f"b{i}": planted(gain=0.02 * i, seed=9)[1]["cand"] for i in range(3)}
    row = karat.compare(gold, runs, "mrr", replicates=builds)["mrr"]
    means = [karat.evaluate(gold, b, "mrr").mean["mrr"] for b in builds.values()]
    # t(.975, 2) = 4.30265; two builds differ by √2 spreads
    assert row.noise == pytest.approx(4.302653 * math.sqrt(2) * np.std(means, ddof=1), rel=1e-5)
    assert row.inside_noise is (abs(row.delta) <= row.noise)
    with pytest.raises(karat.UsageError, match="at least two replicates"):
        karat.compare(gold, runs, "mrr", replicates=builds["b0"])


def test_one_query_is_never_significant() -> None:
    row = karat.compare({"q": {"a": 1}}, {"x": {"q": ["b", "a"]}, "y": {"q": ["a"]}}, "mrr")["mrr"]
    assert not row.significant
    assert row.p == {"t": 1.0, "randomization": 1.0}
    assert math.isnan(row.difference.low)


def test_equal_runs_differ_in_nothing() -> None:
    gold, runs, _ = planted()
    row = karat.compare(gold, {"x": runs["base"], "y": runs["base"]}, "mrr")["mrr"]
    assert (row.delta, row.wins, row.losses, row.significant, row.needed) == (0.0, 0, 0, False, None)
    assert row.p == {"t": 1.0, "randomization": 1.0}


def test_all_pairs_by_hsd_are_symmetric_and_more_careful_than_pairs_alone() -> None:
    gold, runs, _ = planted(gain=0.15)
    third = planted(gain=0.05, seed=0)[1]["cand"]
    found = karat.compare(gold, {**runs, "third": third}, "mrr", all_pairs=True, draws=20_000)
    p = found.pairs["mrr"].p
    assert p["base"]["cand"] == p["cand"]["base"]
    assert p["base"]["third"] >= found.of("mrr", "third")[0].p["randomization"] * 0.9


def test_per_query_differences_come_largest_first() -> None:
    gold, runs, _ = planted()
    moved = karat.compare(gold, runs, "mrr").differences("mrr")
    sizes = [abs(d) for *_, d in moved]
    assert sizes == sorted(sizes, reverse=True)
    _, base, cand, delta = moved[0]
    assert delta == pytest.approx(cand - base)


def test_runs_on_different_queries_are_compared_on_those_they_share() -> None:
    gold = {f"q{i}": {"a": 1} for i in range(4)}
    runs = {"x": {q: ["a"] for q in ("q0", "q1", "q2")}, "y": {q: ["b", "a"] for q in ("q1", "q2", "q3")}}
    row = karat.compare(gold, runs, "mrr", missing="skip")["mrr"]
    assert (row.n, row.mean_baseline, row.mean_candidate) == (2, 1.0, 0.5)
    apart = {"x": {"q0": ["a"]}, "y": {"q3": ["a"]}}
    with pytest.raises(karat.UsageError, match="share no query"):
        karat.compare(gold, apart, "mrr", missing="skip")


def test_a_plan_tells_queries_needed_and_what_can_be_shown() -> None:
    plan = karat.power(deviation=0.2, difference=0.05, n=128)
    # statsmodels: TTestPower().solve_power(effect_size=.25, alpha=.05, power=.8) = 127.5
    assert plan["queries_needed"] == 128
    assert plan["smallest_detectable"] == pytest.approx(0.0499, abs=1e-4)
    seen = karat.power([a - b for a, b in zip(A, B, strict=True)])
    assert seen["n"] == 10
    assert seen["deviation"] == pytest.approx(0.0152388, abs=1e-6)


def lost_in_steps(n: int, share: float) -> dict[str, dict]:
    """Gold of ten docs a query, and runs of which the second loses one of eight found in a share of the queries."""
    rng = np.random.default_rng(0)
    found: dict[str, dict] = {"gold": {}, "base": {}, "cand": {}}
    for i in range(n):
        q, kept = f"q{i}", 8 - int(rng.random() < share)
        found["gold"][q] = {f"r{j}": 1 for j in range(10)}
        for name, good in (("base", 8), ("cand", kept)):
            found[name][q] = [f"r{j}" for j in range(good)] + [f"n{j}" for j in range(10 - good)]
    return found


@pytest.mark.parametrize(("n", "share"), [(30, 0.3), (30, 0.5), (50, 0.3), (50, 0.5)])
def test_more_queries_are_needed_than_those_that_show_nothing(n: int, share: float) -> None:
    """Where the interval is much longer than Student's: with 9 of 30 lost, 8 of 10 resamples of 110 show it."""
    gold, *runs = lost_in_steps(n, share).values()
    row = karat.compare(gold, dict(zip("ab", runs, strict=True)), "precision@10")["precision@10"]
    assert not row.significant and row.stretch > 3
    assert row.needed is not None and row.needed > 1.4 * n
    assert f"would take about {round_up(row.needed):,} queries" in row.statement


def test_differences_that_rounding_alone_tells_apart_have_the_spread_of_their_interval() -> None:
    gold, *runs = lost_in_steps(50, 1.1).values()
    row = karat.compare(gold, dict(zip("ab", runs, strict=True)), "precision@10")["precision@10"]
    assert row.stretch == 1.0 and row.spread > 0.01


def test_queries_needed_are_the_fewest_that_find_the_difference_with_their_own_interval() -> None:
    """And so many or fewer than there are if and only if these can detect it."""
    rng = np.random.default_rng(3)
    gold, runs, _ = planted()
    model = karat.compare(gold, runs, "mrr")["mrr"]
    for _ in range(300):
        n = int(rng.integers(3, 400))
        units = n * float(rng.uniform(0.4, 1)) if rng.random() < 0.5 else math.nan
        stretch, spread = 1 + float(rng.exponential(2)), float(rng.uniform(0.01, 0.4))
        delta = float(rng.choice([-1, 1]) * rng.uniform(0.002, 0.3))
        interval = Interval(delta, -1.0, 1.0, "randomization", n, units)
        row = replace(model, difference=interval, spread=spread, stretch=stretch)
        if row.difference.units < 2:
            continue

        def chance(total: int, row: Decision = row) -> float:
            longer = 1 + (row.stretch - 1) * row.n / max(total, row.n)
            return power_of(total * row.difference.units / row.n, row.delta / row.spread / longer)

        assert row.needed is not None
        assert chance(row.needed) >= 0.8
        assert row.needed == 2 or chance(row.needed - 1) < 0.8
        assert (row.needed <= n) == (abs(delta) >= row.detectable)


def test_the_ratio_that_queries_can_detect_is_a_fall_beside_a_fall() -> None:
    """Half of the queries fall from rank 1 to 2, the others rise: the ratio of geometric means is a little below 1."""
    gold = {f"q{i:02}": {"a": 1} for i in range(41)}
    runs = {
        name: {q: ["x", "a"] if (i + place) % 2 else ["a"] for i, q in enumerate(gold)}
        for place, name in enumerate("on")
    }
    fall, rise = (karat.compare(gold, {n: runs[n] for n in order}, "gm_map")["gm_map"] for order in ("on", "no"))
    assert fall.delta == pytest.approx(0.5 ** (1 / 41)) or rise.delta == pytest.approx(0.5 ** (1 / 41))
    for row in (fall, rise):
        ratios = [float(x) for x in re.findall(r"×([0-9.]+)", row.statement)]
        assert len(ratios) == 2 and all((ratio < 1) == (row.delta < 1) for ratio in ratios)


def test_what_queries_can_detect_is_not_called_certain_where_a_larger_difference_was_not_found() -> None:
    gold, runs, _ = planted()
    row = karat.compare(gold, runs, "mrr")["mrr"]
    assert row.needed is not None and row.needed <= row.n
    missed = replace(row, significant=False)
    assert re.search(r"60 can detect a Δ of 0\.\d+ in 8 of 10 samples$", missed.statement)
    segment = replace(missed, correction="bh", family=Family("bh", 5, "segments"))
    assert segment.statement.endswith("in 8 of 10 samples (without a correction)")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tests": ["tt"]}, "test must be one of"),
        ({"tests": []}, "at least one test"),
        ({"correction": "bonferroni"}, "correction must be one of"),
        ({"alpha": 5}, "alpha must be between 0 and 1"),
        ({"margin": -1}, "margin must be a number above 0"),
        ({"baseline": "bse"}, "did you mean 'base'"),
    ],
)
def test_wrong_choices_are_refused(options: dict, says: str) -> None:
    gold, runs, _ = planted(12)
    with pytest.raises(karat.KaratError, match=says):
        karat.compare(gold, runs, "mrr", **options)


def test_one_run_is_not_enough() -> None:
    gold, runs, _ = planted(12)
    with pytest.raises(karat.UsageError, match="at least two runs"):
        karat.compare(gold, runs["base"], "mrr")
    with pytest.raises(karat.UsageError, match="one of difference and n"):
        karat.power(deviation=1)


def command(*arguments: str) -> int:
    sys.argv = ["karat", *arguments]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared/data/dl19")
def test_dl19_says_that_rm3_is_not_separable_and_how_many_queries_would_decide(
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = [str(SHARED / f) for f in ("qrels.txt", "bm25.run", "bm25-rm3.run", "splade.run")]
    segments = ["--queries", str(SHARED / "segments.tsv"), "--by", "intent", "--by", "domain"]
    assert command("compare", *files, "-m", "ndcg@10", *segments, "--all-pairs") == 0
    out = capsys.readouterr().out
    flat = " ".join(out.split())
    assert "no significant difference (43 queries; adjusted p 0.7806, allowing for one unseen query)" in flat
    assert "Detecting a Δ of 0.0157 would take about 540 queries; 43 can detect 0.0838" in flat
    assert "splade is better" in out
    assert "intent=description" in out
    assert "randomised Tukey HSD" in out
    assert command("compare", *files, "-m", "ndcg@10", "--json", "-") == 0
    document = json.loads(capsys.readouterr().out)
    row = document["comparisons"][0]
    assert (row["baseline"], row["candidate"], row["n"]) == ("bm25", "bm25-rm3", 43)
    assert set(row["p"]) == {"t", "randomization", "one more unit"}
    assert row["ci"][0] < 0 < row["ci"][1]


def test_a_comparison_shows_itself_in_notebooks() -> None:
    gold = {f"q{i}": {"a": 1} for i in range(30)}
    runs = {"<old>": {q: {"b": 2.0, "a": 1.0} for q in gold}, "new": {q: {"a": 2.0, "b": 1.0} for q in gold}}
    page = karat.compare(gold, runs, "mrr,hit@1")._repr_html_()
    assert page.count("<tr>") == 3 and "&lt;old&gt;" in page and "<old>" not in page
    assert "<td>+0.5000 [" in page  # 1/1 − 1/2


def test_a_family_says_how_many_comparisons_were_not_tested() -> None:
    gold = {f"q{i:02}": {"a": 1, "b": 1} for i in range(40)}
    old = {q: ["x", "a", "b"] if i % 3 else ["a", "b"] for i, q in enumerate(gold)}
    new = {q: ["a", "x", "b"] if i % 2 else ["b", "a"] for i, q in enumerate(gold)}
    queries = {q: {"kind": ("one", "two", "rare")[2 if i < 4 else i % 2]} for i, q in enumerate(gold)}
    runs = {"old": old, "new": new}
    found = karat.compare(gold, runs, ["mrr", "ndcg@10", "recall@1", "hit@1"], queries=queries, by="kind")
    words = "Benjamini–Hochberg over the 6 tested of 9 comparisons (segments × 3 metrics)"
    assert words in str(found.table().caption)
    again = [read_decision(row.document()) for row in found.rows]
    assert [row.family for row in again] == [row.family for row in found.rows]


def test_the_primary_metric_is_adjusted_alone_and_the_others_together() -> None:
    gold = {f"q{i:02}": {"a": 1, "b": 1} for i in range(40)}
    old = {q: ["x", "a", "b"] if i % 3 else ["a", "b"] for i, q in enumerate(gold)}
    new = {q: ["a", "x", "b"] if i % 2 else ["b", "a"] for i, q in enumerate(gold)}
    names = ["mrr", "ndcg@10", "recall@1", "hit@1"]
    rows = {r.metric: r for r in karat.compare(gold, {"old": old, "new": new}, names).rows}
    assert [m for m, r in rows.items() if r.primary] == ["ndcg@10"]
    assert str(rows["ndcg@10"].family) == "Holm over 1 candidate"
    assert {str(rows[m].family) for m in names if m != "ndcg@10"} == {
        "Holm over 3 comparisons (candidates × 3 metrics)"
    }
    alone = karat.compare(gold, {"old": old, "new": new}, "hit@1")["hit@1"]
    assert alone.primary and rows["hit@1"].p_adjusted >= alone.p_adjusted
    wished = karat.compare(gold, {"old": old, "new": new}, names, primary="MRR")
    assert [r.metric for r in wished.rows if r.primary] == ["mrr"]
    assert wished.table().caption == (
        "p is adjusted for mrr, the primary metric, by Holm over 1 candidate; "
        "for the other metrics by Holm over 3 comparisons (candidates × 3 metrics)"
    )
    with pytest.raises(karat.MetricError, match=r"primary metric 'map' is not among the metrics: mrr, ndcg@10"):
        karat.compare(gold, {"old": old, "new": new}, names, primary="map")


# --- segments beside each other -----------------------------------------------------------------------------------


def test_segments_that_differ_are_flagged_and_pooled() -> None:
    rng = np.random.default_rng(14)
    qrels, queries, old, new = {}, {}, {}, {}
    for i in range(240):
        q, language = f"q{i:03}", ("de", "en", "es", "pt")[i % 4]
        qrels[q], queries[q] = {"d": 1}, {"language": language}
        before, after = rng.integers(1, 9), rng.integers(1, 9)
        if language == "pt":
            before, after = 1, 8
        for run, rank in ((old, before), (new, after)):
            run[q] = [f"x{j}" for j in range(rank - 1)] + ["d"] + [f"y{j}" for j in range(10 - rank)]
    comparison = karat.compare(qrels, {"old": old, "new": new}, "ndcg@10,mrr", queries=queries, by="language")
    whole = comparison["ndcg@10"]
    (interaction,) = whole.interactions
    assert (interaction.fields, interaction.segments, interaction.significant) == (("language",), 4, True)
    assert f"Δ depends on language (4 segments, interaction p {p_text(interaction.p)})" in whole.statement
    assert comparison["mrr"].interactions == ()
    segments = {r.segment["language"]: r for r in comparison.rows if r.segment and r.metric == "ndcg@10"}
    assert segments["pt"].rest is not None
    assert segments["pt"].rest.differs
    assert segments["pt"].rest.p_adjusted >= segments["pt"].rest.p
    assert "differs from the other segments" in segments["pt"].statement
    for row in segments.values():
        assert row.pooled is not None
        assert row.pooled.low < row.pooled.estimate < row.pooled.high
    assert segments["pt"].pooled is not None
    assert segments["pt"].delta < segments["pt"].pooled.estimate < 0
    document = comparison.document()
    assert [read_decision(row).statement for row in document.comparisons or ()] == [
        r.statement for r in comparison.rows
    ]
    assert [read_decision(row).pooled is None for row in document.comparisons or ()] == [
        row.pooled is None for row in comparison.rows
    ]
    text = markdown.render(view_of(comparison))
    assert "| n | pooled Δ |" in text
    for row in segments.values():
        assert f"| {row.n} | {markdown.text(str(row.pooled_figure))} |" in text


def test_pooled_estimates_stand_beside_those_of_segments(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(15)
    gold = {f"q{i}": {"d": 1} for i in range(120)}
    run = {q: ["d"] if rng.random() < 0.6 else ["x"] for q in gold}
    queries = {q: {"part": "abc"[i % 3]} for i, q in enumerate(gold)}
    result = karat.evaluate(gold, run, "hit@1", queries=queries, by="part")
    text = markdown.render(view_of(result))
    show_evaluation(result, "gold")
    out = capsys.readouterr().out
    assert "| `hit@1`, pooled |" in text and "pooled" in out
    for segment in result.segments:
        figure = str(estimate_figure("hit@1", segment.pooled["hit@1"]))
        assert f"| {markdown.text(figure)} |" in text and figure in out


def test_a_table_that_is_piped_cuts_no_figure(tmp_path: Path) -> None:
    rows = [(q, rank) for q in range(30) for rank in (1, 2)]
    (tmp_path / "gold.txt").write_text("".join(f"{q} 0 d{1 + q % 3} 1\n" for q in range(30)))
    names = [f"{'a-rather-long-name-of-a-run-' * 3}{i}.run" for i in (1, 2)]
    for i, name in enumerate(names):
        (tmp_path / name).write_text("".join(f"{q} Q0 d{rank + i} {rank} {9 - rank} t\n" for q, rank in rows))
    done = run_karat("compare", "gold.txt", *names, "-m", "mrr,recall@2", cwd=tmp_path)
    head, first = (line for line in done.stdout.splitlines() if line.startswith(("metric ", "mrr ")))
    assert "…" not in done.stdout and all(name.removesuffix(".run") in head for name in names)
    assert first.rstrip().endswith(" 30") and len(first) > 160 and re.search(r"\[[-+.\d]+, [-+.\d]+\]", first)


def test_a_margin_is_in_the_unit_of_the_primary_metric(tmp_path: Path) -> None:
    """0.02 of mrr is 0.02 of hit@1 too; 0.02 milliseconds or tokens are not meant."""
    gold = {f"q{i}": {"d": 1} for i in range(30)}
    for name, change in (("old", 0), ("new", 4)):
        lines = [
            {
                "query_id": q,
                "topk": [{"doc_id": "d"}],
                "cost": {"tokens": 50 + i % 5 - change * (i % 2)},
                "latency_ms": {"all": 20 + i % 7},
            }
            for i, q in enumerate(gold)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    runs = [str(tmp_path / "old.jsonl"), str(tmp_path / "new.jsonl")]
    found = karat.compare(gold, runs, "mrr,hit@1,cost.tokens,latency.p50", margin=0.02)
    margins = {row.metric: row.margin for row in found.rows}
    assert margins == {"mrr": 0.02, "hit@1": 0.02, "cost.tokens": None, "latency.p50": None}
    assert "the margin of 0.02 is one of mrr, and not applied to cost.tokens, latency.p50" in found.notes
    tokens = karat.compare(gold, runs, "cost.tokens,mrr", margin=5)
    assert [row.margin for row in tokens.rows] == [5, None]


def test_columns_of_p_are_in_one_order_for_all_candidates(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    gold, runs, _ = planted()
    found = karat.compare(gold, {**runs, "next": runs["cand"]}, "mrr", tests=["t", "sign"])
    rows = [replace(r, p=dict(sorted(r.p.items(), reverse=r.candidate == "next"))) for r in found.rows]
    show(replace(found, rows=tuple(rows)))
    heads = [line for line in capsys.readouterr().out.splitlines() if line.startswith("metric")]
    first, second = ([word for word in head.split() if word in ("t", "sign")] for head in heads)
    assert first == second and len(first) == 2


# ---- saved results of several runs ----


def test_notes_of_metrics_that_are_not_compared_are_left_out(tmp_path: Path) -> None:
    saved = []
    for name in ("old", "new"):
        rows = [
            {"query_id": f"q{i}", "topk": [{"doc_id": "a"}]} | ({"latency_ms": {"all": 5 + i}} if i else {})
            for i in range(30)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        gold = {f"q{i}": {"a": 1} for i in range(30)}
        saved.append(karat.evaluate(gold, str(tmp_path / f"{name}.jsonl"), "mrr, latency.mean"))
    about_latency = [any("latency" in text for text in result.runs[0].notes) for result in saved]
    assert about_latency == [True, True]
    compared = karat.compare(saved[0], saved[1], "mrr")
    assert not any("latency" in text for run in compared.result.runs for text in run.notes)
    assert any("latency" in text for run in karat.compare(*saved).result.runs for text in run.notes)


def test_a_saved_result_of_several_runs_says_which_one_is_compared(tmp_path: Path) -> None:
    gold, runs, _ = planted()
    both = karat.evaluate(gold, runs, "mrr")
    both.save(str(tmp_path / "both.json"))
    karat.evaluate(gold, {"new": runs["cand"]}, "mrr").save(str(tmp_path / "new.json"))
    old, new = str(tmp_path / "both.json"), str(tmp_path / "new.json")
    first = karat.compare(old, new)
    assert first.baseline == "base"
    assert "the first result holds 2 runs: base is compared, not cand" in first.notes
    named = karat.compare(old, new, baseline="cand")
    assert named.baseline == "cand"
    assert "the first result holds 2 runs: cand is compared, not base" in named.notes
    assert named.rows[0].delta == 0
    alone = karat.compare(karat.evaluate(gold, {"base": runs["base"]}, "mrr"), new)
    assert not any("holds" in note for note in alone.notes)
    assert alone.rows[0].delta == first.rows[0].delta


def test_a_level_that_is_none_is_answered_with_the_usual_one() -> None:
    runs = {"a": {"q": ["x"]}, "b": {"q": ["y"]}}
    with pytest.raises(karat.UsageError, match=r"alpha must be between 0 and 1, such as 0\.05, found 5"):
        karat.compare({"q": {"x": 1}}, runs, "mrr", alpha=5)


def test_a_margin_that_allows_any_difference_is_refused() -> None:
    runs = {"a": {"q": ["x"]}, "b": {"q": ["y"]}}
    with pytest.raises(karat.UsageError, match="mrr is from 0 to 1, and a margin of 1 allows any difference"):
        karat.compare({"q": {"x": 1}}, runs, "mrr", margin=1)
    assert karat.compare({"q": {"x": 1}}, runs, "num_rel_ret,mrr", margin=5, primary="num_rel_ret")


def test_segments_that_share_conversations_say_why_they_are_neither_tested_nor_pooled() -> None:
    """A turn in each of three languages for each of 40 conversations; with one language each, all is there."""
    gold = {f"q{i}": {"a": 1} for i in range(120)}
    runs = {"old": {q: ["a"] if i % 3 else ["b", "a"] for i, q in enumerate(gold)}}
    runs["new"] = {q: ["a"] if i % 4 else ["b", "a"] for i, q in enumerate(gold)}
    note = "segments by language share conversations, so their Δ mrr are neither tested against each other nor pooled"
    for shared in (True, False):
        table = {
            q: {"language": "abc"[i % 3], "conversation": i // 3 if shared else f"{i % 3}{i // 6}"}
            for i, q in enumerate(gold)
        }
        compared = karat.compare(gold, runs, "mrr", queries=table, by="language")
        assert (note in compared.notes) == shared
        whole, *parts = compared.rows
        assert bool(whole.interactions) == (not shared)
        assert all((part.pooled is None) == shared for part in parts)
