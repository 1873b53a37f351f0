"""Gates on pooled estimates, from runs and queries to the verdict and its sentences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import karat
from karat.errors import InputError
from karat.gates.wording import describe, note_pooling
from karat.report import junit, latex, markdown
from karat.report.html.sections import page_of
from karat.report.html.source import source_of
from karat.report.terminal.check import show_check
from karat.report.view import view_of
from karat.results.result import Result

LANGUAGES = ("de", "en", "es", "pt")
EACH = 60


def evaluated(*shares: float, conversations: int = 0, last: int = 0) -> Result:
    """Two runs: `old` and `new`, which ranks the one relevant doc first in a share of each language's queries.

    `last` is the number of queries in one more language.
    """
    qrels, queries, old, new = {}, {}, {}, {}
    sizes = [*[EACH] * len(shares), last]
    for language, share, size in zip(LANGUAGES, (*shares, 1.0), sizes, strict=False):
        for i in range(size):
            q = f"{language}{i:02}"
            qrels[q] = {"d": 1}
            queries[q] = {"language": language} | ({"conversation": str(i // conversations)} if conversations else {})
            old[q] = ["x", "d", *"abcdefgh"] if i % 2 else ["d", "x", *"abcdefgh"]
            new[q] = ["d", "x", *"abcdefgh"] if i < round(share * EACH) else ["x", "d", *"abcdefgh"]
    return karat.evaluate(qrels, {"old": old, "new": new}, "hit@1,mrr", queries=queries, by="language")


@pytest.fixture(scope="module")
def alike() -> Result:
    return evaluated(0.80, 0.78, 0.82, 0.80)


def test_a_pooled_gate_ships_where_each_segment_alone_is_undecided(alike: Result) -> None:
    raw = karat.check(alike, ["hit@1 >= 0.70 for every language"], candidate="new")
    assert raw.verdict == "INCONCLUSIVE"
    pooled = karat.check(alike, ["hit@1 >= 0.70 for every language (pooled)"], candidate="new")
    assert pooled.verdict == "SHIP"
    row = pooled.rows[0]
    assert row.found.low > raw.rows[0].found.low
    assert describe(row).startswith("hit@1 (pooled) where language = de is 0.")
    document = row.document()
    assert (document.ci_method, document.n) == ("pooled", EACH)
    assert document.gate == "hit@1 >= 0.7 for every language (pooled)"


def test_a_segment_that_is_far_below_fails_a_pooled_gate() -> None:
    check = karat.check(
        evaluated(0.80, 0.78, 0.82, 0.30), ["hit@1 >= 0.70 for every language (pooled)"], candidate="new"
    )
    assert check.verdict == "BLOCK"
    assert [row.outcome for row in check.rows][-1] == "fail"
    assert check.rows[0].outcome != "fail"


def test_a_fail_of_a_pooled_gate_is_corrected_for_the_number_of_segments(alike: Result) -> None:
    check = karat.check(alike, ["hit@1 >= 0.70 for every language (pooled)"], candidate="new")
    found = check.rows[0].found
    assert found.fail_confidence == pytest.approx(1 - 0.05 / 4)
    assert found.fail_low < found.low < found.high < found.fail_high


def test_pooled_differences_from_the_baseline(alike: Result) -> None:
    gates = [f"mrr better than baseline by {margin} for every language" for margin in (0.05, 0.06)]
    raw = karat.check(alike, gates, baseline="old", candidate="new")
    pooled = karat.check(alike, [f"{gate} (pooled)" for gate in gates], baseline="old", candidate="new")
    assert raw.verdict == "INCONCLUSIVE"
    assert pooled.verdict == "SHIP"
    assert describe(pooled.rows[0]).startswith("mrr (pooled) where language = de rose by 0.1")


def test_a_pooled_gate_at_the_mean_compares_the_pooled_estimate() -> None:
    result = evaluated(0.80, 0.82, 0.82, 0.78)
    gate = "hit@1 >= 0.79 for every language{} at the mean"
    assert karat.check(result, [gate.format("")], candidate="new").verdict == "BLOCK"
    assert karat.check(result, [gate.format(" (pooled)")], candidate="new").verdict == "SHIP"


def test_two_segments_are_judged_each_by_itself_and_the_reason_says_so() -> None:
    result = evaluated(0.80, 0.80)
    gates = ["hit@1 >= 0.70 for every language", "hit@1 >= 0.70 for every language (pooled)"]
    raw, pooled = (karat.check(result, [gate], candidate="new").rows for gate in gates)
    assert [(r.found.low, r.outcome) for r in raw] == [(r.found.low, r.outcome) for r in pooled]
    reason = "not pooled: fewer than 3 segments have at least 10 queries"
    assert {row.found.not_pooled for row in pooled} == {reason}
    assert "(pooled)" not in describe(pooled[0])


def test_segments_that_share_conversations_are_judged_each_by_itself() -> None:
    result = evaluated(0.8, 0.8, 0.8, 0.8, conversations=2)
    rows = karat.check(result, ["hit@1 >= 0.70 for every language (pooled)"], candidate="new").rows
    assert {row.found.not_pooled for row in rows} == {"not pooled: segments share conversations"}
    assert {row.document().not_pooled for row in rows} == {"not pooled: segments share conversations"}


@pytest.mark.parametrize("share", [0.8, 1.0])
def test_every_output_says_why_a_gate_is_not_pooled_whether_it_passes_or_not(
    share: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = evaluated(*[share] * 4, conversations=2)
    check = karat.check(result, ["hit@1 >= 0.70 for every language (pooled)"], candidate="new")
    assert check.verdict == ("SHIP" if share == 1 else "INCONCLUSIVE")
    view = view_of(check)
    show_check(check, "gold")
    reason = "not pooled: segments share conversations"
    texts = [capsys.readouterr().out, markdown.render(view), latex.render(view), junit.render(view).decode()]
    assert all(reason in " ".join(text.split()) for text in texts)
    assert latex.render(view).count(reason) == junit.render(view).count(b"<testcase") == 4
    check.save(str(tmp_path / "c.json"))
    for source in (check, str(tmp_path / "c.json")):
        (gate,) = page_of(source_of(source)).gates
        assert gate.note.endswith("Not pooled: segments share conversations.")


def test_a_small_segment_beside_pooled_ones_is_named() -> None:
    shares = (0.8, 0.8, 0.8)
    result = evaluated(*shares, last=7)
    rows = karat.check(result, ["hit@1 >= 0.70 for every language of at least 5 (pooled)"], candidate="new").rows
    assert [row.found.method for row in rows].count("pooled") == 3
    assert note_pooling(rows) == "not pooled: fewer than 10 queries (language = pt)"


def test_segments_show_pooled_means_beside_their_own(alike: Result) -> None:
    segments = alike["new"].segments
    own, pooled = (np.array([getattr(s, kind)["hit@1"].estimate for s in segments]) for kind in ("metrics", "pooled"))
    assert np.ptp(pooled) < np.ptp(own)
    document = alike.as_json()["runs"][1]["segments"][0]["metrics"]["hit@1"]  # type: ignore[index, call-overload]
    assert document["pooled"]["mean"] == pytest.approx(pooled[0])  # type: ignore[index, call-overload]
    assert len(document["pooled"]["ci"]) == 2  # type: ignore[index, call-overload]


def test_a_plan_does_not_cover_pooled_gates_and_says_so(alike: Result) -> None:
    with pytest.raises(InputError, match="pooled estimates are not planned"):
        karat.plan(alike, gates=["hit@1 >= 0.7 for every language (pooled)"], candidate="new")
