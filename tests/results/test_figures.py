"""Every number that Karat prints: digits, unit, sign and interval come from one place."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import karat
from karat.results.figures import change_text, difference_figure, figure, p_text
from karat.stats.defaults import LEAST_P

SOURCE = Path(karat.__file__).parent
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?=[\s,\]]|$)")
METRICS = ("ndcg@10", "latency.p90", "cost.tokens.mean", "distinct_docs@5")


def numbers(text: str) -> list[float]:
    return [float(n.replace(",", "")) for n in NUMBER.findall(text)]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (figure("ndcg@10", 0.5246, 0.4812, 0.5713), "0.5246 [0.481, 0.571]"),
        (figure("latency.p90", 0.0706, 0.065, 0.079), "0.071 ms [0.065, 0.079]"),
        (figure("latency.p90", 12.34, 11.2, 13.9), "12.34 ms [11.2, 13.9]"),
        (figure("ndcg@10", 0.0706, 0.07058, 0.0712), "0.0706 [0.0706, 0.0712]"),
        (figure("ndcg@10", math.nan), "–"),
        (figure("ndcg@10", 0.001, math.nan, 0.0021), "0.0010 [–, 0.002]"),
        (figure("num_ret", 4300), "4,300"),
        (figure("cost.usd.sum", 0.78771), "0.788"),
        (figure("cost.usd.sum", 12.0), "12"),
        (figure("cost.usd.sum", 1234.5), "1,234"),
        (difference_figure("cost.usd.sum", 0.01439, -0.0858, 0.1168), "+0.0144 [-0.0858, 0.1168]"),
        (difference_figure("ndcg@10", -0.158, -0.259, -0.081), "-0.1580 [-0.259, -0.081]"),
        (difference_figure("latency.p90", 0.3563, 0.3, 0.4), "+0.36 ms [0.30, 0.40]"),
        (difference_figure("ndcg@10", -1e-13), "0"),
        (difference_figure("latency.p90", 0.0, -0.2, 0.2), "0 ms [-0.20, 0.20]"),
        (difference_figure("ndcg@10", 4e-5), "+0.000040"),
    ],
)
def test_a_figure_in_writing(written: object, expected: str) -> None:
    assert str(written) == expected


def test_totals_that_are_not_whole_keep_their_digits_in_a_change() -> None:
    assert change_text("cost.usd.sum", 0.4, 1.2) == "0.400 → 1.200"
    assert change_text("cost.tokens.sum", 400, 1200) == "400 → 1,200"


def test_the_size_of_a_fall_is_told_without_signs() -> None:
    fall = difference_figure("ndcg@10", -0.158, -0.259, -0.081)
    assert f"{fall.size} {fall.size_interval}" == "0.158 [0.081, 0.259]"


def test_a_change_that_is_none_has_no_arrow() -> None:
    assert change_text("ndcg@10", 0.839, 0.839 + 1e-13) == "0.8390"
    assert change_text("ndcg@10", 0.839, 0.83904) == "0.83900 → 0.83904"
    assert change_text("latency.p90", 0.1, 0.5, short=True) == "0.10 → 0.50 ms"
    assert change_text("latency.p90", 1.16, 12.34, short=True) == "1.2 → 12.3 ms"


def test_a_small_change_of_small_values_is_not_rounded_to_a_large_one() -> None:
    """0.0025 → 0.0025 in the digits of a figure, so one digit more; 0.002 → 0.003 would be 50%."""
    assert change_text("cost.usd", 0.0024993, 0.0025155) == "0.00250 → 0.00252"
    assert change_text("cost.usd", 0.0024993, 0.0025155, short=True) == "0.00250 → 0.00252"
    assert change_text("cost.usd", 0.0025091, 0.0023682) == "0.0025 → 0.0024"
    assert change_text("cost.usd", 0.11, 0.19, short=True) == "0.11 → 0.19"
    assert change_text("ndcg@10", 0.849, 0.0001, short=True) == "0.8490 → 0.0001"
    assert change_text("ndcg@10", 0.849, 0.0, short=True) == "0.849 → 0.000"


@given(
    st.sampled_from(METRICS),
    st.lists(st.floats(0, 1) | st.floats(0, 1e-4) | st.floats(0, 5000), min_size=3, max_size=3).map(sorted),
)
def test_a_value_never_lies_outside_its_own_printed_interval(metric: str, ends: list[float]) -> None:
    low, value, high = ends
    for written in (figure(metric, value, low, high), difference_figure(metric, -value, -high, -low)):
        (shown,), (first, last) = numbers(written.text), numbers(written.interval)
        assert first <= shown <= last
        if abs(value) > 1e-11:
            assert shown != 0
        if high - low > 1e-11:
            assert first < last


def test_an_end_that_is_not_zero_is_not_printed_as_zero() -> None:
    assert difference_figure("mrr", -0.02, -0.047, -0.0004).interval == "[-0.047, -0.0004]"
    assert difference_figure("mrr", 0.02, 0.00004, 0.047).interval == "[0.00004, 0.047]"
    assert difference_figure("mrr", 0.02, 0.0, 0.047).interval == "[0.000, 0.047]"


def test_what_a_threshold_divides_is_printed_on_its_side() -> None:
    """−0.05977 is above −0.06, and 0.39999 below 0.4: both round to the threshold in the usual digits."""
    fall = difference_figure("ndcg@10", 0.032, -0.05977, 0.124)
    assert fall.interval == "[-0.060, 0.124]"
    assert replace(fall, threshold=-0.06).interval == "[-0.0598, 0.124]"
    assert replace(fall, threshold=-0.05977).interval == "[-0.05977, 0.124]"  # the end is the threshold
    small = difference_figure("ndcg@10", -0.05, -0.09, -0.0299)
    assert replace(small, threshold=-0.03).size_interval == "[0.0299, 0.090]"
    value = replace(figure("recall@5", 0.399993, 0.35, 0.45), threshold=0.4)
    assert (value.text, value.short, value.interval) == ("0.39999", "0.39999", "[0.350, 0.450]")


def test_a_p_that_is_only_known_to_be_below_a_bound_says_so() -> None:
    assert (p_text(0.00009996), p_text(0.0001), p_text(0.00009)) == ("0.0001", "0.0001", "9.0e-05")  # never 1.0e-04
    assert (p_text(LEAST_P), p_text(3e-20), p_text(2e-12)) == ("< 1e-12", "3.0e-20", "2.0e-12")
    ids = [f"q{i}" for i in range(200)]
    gold = {q: {"a": 1} for q in ids}
    worse = {q: [f"x{i % 40}", "a"] if i % 40 else ["x", "y", "a"] for i, q in enumerate(ids)}
    rows = karat.compare(
        gold, {"base": worse, "one": {q: ["a"] for q in ids}, "two": {q: ["a"] for q in ids}}, "mrr"
    ).rows
    for row in rows:
        assert row.p[row.decided_by] == LEAST_P and row.p_adjusted == 2 * LEAST_P
        assert row.p_adjusted_text == "< 2.0e-12" and "adjusted p < 2.0e-12" in row.statement


def test_no_metric_is_formatted_anywhere_else() -> None:
    """`:.4f` and the like belong to figures.py; what is listed here is not a value of a metric."""
    allowed = {
        "cli/cache.py": 3,  # megabytes
        "gates/wording.py": 1,  # a percentage of the baseline that a gate names
        "judge/sampled.py": 1,  # a number of docs per query
        "report/plan.py": 1,  # queries per conversation
        "report/words.py": 2,  # the size of an index
        "report/terminal/components.py": 1,  # an improvement in percent
        "report/terminal/diagnose.py": 1,  # the weight of a finding
        "report/terminal/sweep.py": 1,  # the axis of a plot
        "results/fingerprints.py": 2,
        "store/codec.py": 1,
        "verbs/init.py": 2,  # thresholds that gates are given
    }
    counts: dict[str, int] = {}
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if name == "results/figures.py" or name.startswith("report/html/"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
                spec = ast.unparse(node.format_spec)
                if re.search(r"\.\d+[fge]|\.\{", spec):
                    counts[name] = counts.get(name, 0) + 1
    assert {name: n for name, n in counts.items() if n > allowed.get(name, 0)} == {}


def test_a_figure_is_rounded_as_its_saved_number_is() -> None:
    fresh = 29.349999999999998
    assert figure("latency.p90", fresh).short == figure("latency.p90", 29.35).short
    low, high = (difference_figure("latency.p90", value, 29.0, 30.0).short for value in (fresh, 29.35))
    assert low == high
