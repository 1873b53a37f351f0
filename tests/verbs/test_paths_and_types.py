"""What verbs of the library take: paths of both kinds; anything else is refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import karat

GOLD = {"q1": {"a": 1}, "q2": {"b": 1}}
RUN = {"q1": ["a"], "q2": ["c", "b"]}


@pytest.fixture
def result() -> karat.Result:
    return karat.evaluate(GOLD, {"one": RUN}, "ndcg@10", details=True)


def test_a_path_object_serves_as_its_text_does(tmp_path: Path, result: karat.Result) -> None:
    saved, base = tmp_path / "saved.json", tmp_path / "base.json"
    result.save(str(saved))
    assert karat.bless(saved, base) == str(base)
    gates = ["ndcg@10 no worse than baseline by 0.1"]
    assert karat.check(result, gates, baseline=base).verdict == karat.check(result, gates, baseline=str(base)).verdict
    config: dict[str, object] = {"result": str(saved), "gates": gates}
    assert karat.check(config, baseline=base).why == karat.check(config, baseline=str(base)).why
    assert karat.load(saved).mean == result.mean
    for verb in (karat.read_judgments, karat.calibrate_judge):
        with pytest.raises(karat.InputError, match="no such file"):
            verb(tmp_path / "none.jsonl")
    for runs in ([tmp_path / "none.run"], str(tmp_path / "none.run")):
        with pytest.raises(karat.InputError, match=r"none\.run: no such file"):
            karat.pool_pairs(runs, str(tmp_path / "pairs.jsonl"))


REFUSALS: dict[str, tuple[Callable[[karat.Result], Any], str]] = {
    "check of a run": (lambda r: karat.check(r["one"], ["mrr >= 0.1"]), "found one run of it; give the result"),
    "report of a run": (lambda r: karat.write_report(r["one"], "r.html"), "found one run of a result"),
    "bless a run": (lambda r: karat.bless(r["one"], "b.json"), "give the result, and run='one'"),
    "check of gates alone": (lambda r: karat.check(["mrr >= 0"]), "a config is a path or a mapping, found list"),
    "gates": (lambda r: karat.check(r, 5), "gates must be texts"),
    "plan": (lambda r: karat.plan(5), "a config is a path or a mapping, found int"),
    "bless": (lambda r: karat.bless(5), "path must be a path, found 5"),
    "report": (lambda r: karat.write_report(5), "found int"),
    "load": (lambda r: karat.load(None), "path must be a path"),
    "judgments": (lambda r: karat.read_judgments(5), "judgments must be a path, found 5"),
    "judgments of evaluate": (lambda r: karat.evaluate(GOLD, RUN, judgments=5), "judgments must be a path, found 5"),
    "by": (lambda r: karat.evaluate(GOLD, RUN, by=5), "by must name fields of the queries"),
    "no runs": (lambda r: karat.pool_pairs([], "p.jsonl"), "a pool needs runs"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_a_verb_cannot_take_is_refused_in_a_sentence(name: str, result: karat.Result) -> None:
    call, words = REFUSALS[name]
    with pytest.raises(karat.UsageError) as refusal:
        call(result)
    assert words in str(refusal.value)
