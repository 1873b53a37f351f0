"""A kind of gate is one entry: text, karat.yaml, judging, words and the strip of the report follow from it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import karat
from karat.gates.kinds import KINDS, GateKind, Region
from karat.gates.wording import describe

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "support" / "new_kinds.py"


@pytest.fixture(scope="module")
def new_kinds() -> Any:
    """What becomes of the kind in the contributors' guide, and of one with a margin at both ends.

    Their words are ones that no kind of Karat's own will have: who adds the kind of the guide does not add it twice.
    """
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    block = next(b for b in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if b.startswith("GateKind("))
    for word, other in (('"between"', '"spans"'), ("{low} and {high}", "{low} upto {high}")):
        assert word in block
        block = block.replace(word, other)
    done = subprocess.run([sys.executable, str(SCRIPT), block], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_kind_of_gate_needs_one_entry(new_kinds: Any) -> None:
    spans, in_yaml, in_ms, strays, strays_in_yaml, *errors = new_kinds["texts"]
    assert spans == in_yaml == "hit@1 spans 0.4 upto 0.6"
    assert in_ms == "latency.p50 spans 40ms upto 60ms"
    assert strays == strays_in_yaml == "mrr strays 5% off baseline where language = pt"
    assert [error.partition(": ")[2] for error in errors[:3]] == [
        "0.6 is above 0.4; write the smaller number first",
        "expected 'upto', found nothing",
        "hit@1 is from 0 to 1, found 0: every run passes; write a threshold between, or leave the gate out",
    ]
    assert errors[3].endswith("spans needs a key 'upto' beside it")
    assert errors[4].endswith("upto goes with spans alone")
    assert errors[5].endswith("write the margin as a percentage, such as 'gm_map strays 5% off baseline'")
    assert errors[6].endswith("'ndcg@10 no worse than baseline by 0.01'; did you mean 'strays'?")
    assert errors[7].endswith("'ndcg@10 no worse than baseline by 0.01'")
    assert {"spans", "upto", "strays", "off"} <= set(new_kinds["keys"])


@pytest.mark.parametrize("form", ["{value} [by {margin}]", "{high} and {low}", "{run} or {run}", "{amount}", "{low}"])
def test_a_form_that_a_gate_cannot_hold_is_refused_where_it_is_defined(form: str) -> None:
    with pytest.raises(
        ValueError, match=r"GateKind 'near': a form holds \{value\}, \{margin\}, or .*; found '"
    ) as raised:
        GateKind("near", key="near", help="", region=lambda *_: Region(), limit="", form=form)
    assert form in str(raised.value)


@pytest.mark.parametrize(
    ("name", "key", "taken"),
    [("near", "min", "'min' is taken by '>='"), ("at least", "near", "'at least' is taken by")],
)
def test_a_kind_that_is_already_there_is_refused(name: str, key: str, taken: str) -> None:
    entry = f"GateKind({name!r}, key={key!r}, help='', region=lambda *_: Region(), limit='')"
    done = subprocess.run([sys.executable, str(SCRIPT), entry], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"GateKind {name!r}: {taken}" in done.stderr


def test_a_gate_with_two_ends_is_judged_at_the_one_that_decides(new_kinds: Any) -> None:
    """50 of 100 queries are hits in the baseline and in `same`, 90 in `up`, 10 in `down`."""
    spans = new_kinds["rows"]["hit@1 spans 0.3 upto 0.7"]
    assert {run: (row["outcome"], row["end"]) for run, row in spans.items() if run != "near"} == {
        "same": ("pass", "<= 0.7"),
        "up": ("fail", "<= 0.7"),
        "down": ("fail", ">= 0.3"),
    }
    assert spans["up"]["says"].endswith("; between 0.3 and 0.7 is required")
    assert all(row["strip"] == ["inside", "inside"] for row in spans.values())
    margin = new_kinds["rows"]["mrr strays 0.2 off base"]
    assert [margin[run]["outcome"] for run in ("same", "up", "down")] == ["pass", "fail", "fail"]
    assert "fell by 0.400" in margin["down"]["says"] and margin["down"]["end"] == ">= -0.2"


def test_a_margin_in_percent_at_two_ends_multiplies_the_baseline_at_each(new_kinds: Any) -> None:
    """40% around .5: from .3 to .7. `up` is .2 above 140% of the baseline, `down` .2 below 60% of it."""
    rows = new_kinds["rows"]["mrr strays 40% off base"]
    assert rows["same"]["outcome"] == "pass"
    assert rows["up"]["outcome"] == "fail" and "0.200" in rows["up"]["says"]
    assert " above 140% of base's value; it must not be above" in rows["up"]["says"]
    assert rows["down"]["outcome"] == "fail" and "0.200" in rows["down"]["says"]
    assert " below 60% of base's value; it must not be below" in rows["down"]["says"]


def test_a_margin_says_which_way_the_change_is_limited(tmp_path: Path) -> None:
    """Tokens fall by 2 on average: what a gate allows of a metric that should be low is a rise."""
    gold = {f"q{i}": {"d": 1} for i in range(30)}
    for name, change in (("old", 0), ("new", 4)):
        lines = [
            {"query_id": q, "topk": [{"doc_id": "d"}], "cost": {"tokens": 50 + i % 5 - change * (i % 2)}}
            for i, q in enumerate(gold)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = karat.evaluate(gold, [tmp_path / "old.jsonl", tmp_path / "new.jsonl"], "cost.tokens,mrr")
    gates = ["cost.tokens no worse than baseline by 1", "mrr no worse than baseline by 0.1"]
    tokens, mrr = karat.check(result, gates, baseline="old").rows
    assert describe(tokens).startswith("cost.tokens fell by 2.0 [")
    assert describe(tokens).endswith("; it may rise by at most 1")
    assert describe(mrr) == "mrr did not change; it may fall by at most 0.1"


def test_the_page_shows_every_kind() -> None:
    page = (ROOT / "docs/gates.md").read_text("utf-8")
    (examples,) = re.findall(r"\n## A gate\n\n```\n(.*?)```", page, re.DOTALL)
    for kind in KINDS:
        assert re.search(rf"^\S+ {re.escape(kind.name)} ", examples, re.MULTILINE), f"docs/gates.md lacks {kind.name!r}"
