"""`karat check`: from a config and data to verdict, exit code and files."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import karat
from command import run_karat
from karat.cli.app import app
from karat.errors import InputError, NotComparable, UsageError
from karat.gates.language import parse_gate
from karat.metrics.registry import unregister
from karat.report import markdown
from karat.report.html.sections import page_of
from karat.report.html.source import source_of
from karat.report.view import view_of
from karat.results.figures import figure
from karat.results.words import round_up
from karat.stats.changes import estimate_changes
from karat.stats.groups import interval
from karat.stats.resample import Units
from karat.verbs.bless import Blessing
from karat.verbs.init import make_starter
from places import DL19, SCHEMAS

needs_dl19 = pytest.mark.skipif(not DL19.is_dir(), reason="needs ../shared/data/dl19")


def config(folder: Path, **parts: Any) -> Path:
    path = folder / "karat.yaml"
    path.write_text(json.dumps(parts), "utf-8")  # JSON is YAML
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """60 queries in three languages; `good` finds 9 of 10 at once, `bad` 3 of 10, `same` what good does."""
    qrels, queries = [], []
    runs: dict[str, list[str]] = {"good": [], "bad": [], "same": []}
    for i in range(60):
        q, language = f"q{i:02}", ("de", "en", "pt-BR")[i % 3]
        qrels.append(f"{q} 0 d{i} 1")
        queries.append(json.dumps({"_id": q, "text": f"question {i}", "language": language, "topic": f"t{i // 56}"}))
        hits = {"good": i % 10 != 9, "bad": i % 10 < 3, "same": i % 10 != 9}
        for name, lines in runs.items():
            lines.append(f"{q} Q0 {f'd{i}' if hits[name] else 'x'} 1 2.0 t")
            lines.append(f"{q} Q0 {'y' if hits[name] else f'd{i}'} 2 1.0 t")
            lines += [f"{q} Q0 z{rank} {rank} {-rank} t" for rank in range(3, 11)]
    (tmp_path / "qrels.txt").write_text("\n".join(qrels) + "\n")
    (tmp_path / "queries.jsonl").write_text("\n".join(queries) + "\n")
    for name, lines in runs.items():
        (tmp_path / f"{name}.run").write_text("\n".join(lines) + "\n")
    return tmp_path


def parts(**more: Any) -> dict[str, Any]:
    data = {"qrels": "qrels.txt", "queries": "queries.jsonl"}
    return {"dataset": data, "runs": {"good": "good.run"}, "metrics": ["mrr", "hit@1"], **more}


# --- DL19, end to end ---------------------------------------------------------------------------------------------


def dl19(folder: Path, *gates: Any, **more: Any) -> Path:
    outputs = {
        "json": "out/check.json",
        "markdown": "out/comment.md",
        "junit": "out/gates.xml",
        "latex": "out/table.tex",
        "per_query": "out/values.csv",
        "save": "out/result.json.gz",
    }
    data = {"name": "DL19", "qrels": str(DL19 / "qrels.txt"), "queries": str(DL19 / "segments.tsv")}
    return config(
        folder,
        dataset=data,
        runs=str(DL19 / "*.run"),
        baseline="bm25",
        metrics=["ndcg@10", "recall@100", "mrr"],
        gates=list(gates),
        outputs=outputs,
        **more,
    )


@needs_dl19
@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(
    ("gates", "code", "verdict"),
    [
        (("ndcg@10 >= 0.60 on splade", "ndcg@10 better than baseline on splade", "warn: mrr >= 0.99"), 0, "SHIP"),
        (("ndcg@10 >= 0.65 on splade", "ndcg@10 >= 0.65 on bm25-rm3", "ndcg@10 >= 0.65 on tas-b"), 1, "BLOCK"),
        (("ndcg@10 >= 0.65 on splade", "ndcg@10 better than baseline on bm25-rm3"), 3, "INCONCLUSIVE"),
    ],
)
def test_dl19_ships_blocks_and_stays_undecided(tmp_path: Path, gates: tuple[str, ...], code: int, verdict: str) -> None:
    dl19(tmp_path, *gates)
    done = run_karat("check", cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith(verdict)
    files = {p.name for p in (tmp_path / "out").iterdir()}
    assert files == {"check.json", "comment.md", "gates.xml", "table.tex", "values.csv", "result.json.gz"}
    document = json.loads((tmp_path / "out/check.json").read_text())
    assert document["verdict"] == verdict
    assert {r["name"] for r in document["runs"]} == {"ada2", "bm25", "bm25-rm3", "splade", "tas-b"}
    assert verdict in (tmp_path / "out/comment.md").read_text("utf-8").splitlines()[0]
    assert len((tmp_path / "out/values.csv").read_text().splitlines()) == 1 + 5 * 3 * 43
    # The saved result gives the same verdict without the runs.
    again = run_karat("check", "--result", "out/result.json.gz", "--json", "-", cwd=tmp_path)
    assert again.returncode == code, again.stderr
    for a, b in zip(json.loads(again.stdout)["gates"], document["gates"], strict=True):
        assert {**a, "ci": None, "value": None} == {**b, "ci": None, "value": None}
        assert a["ci"] == pytest.approx(b["ci"], abs=1e-9) and a["value"] == pytest.approx(b["value"], abs=1e-9)


@needs_dl19
def test_dl19_values_of_gates_are_those_of_evaluate_and_compare(tmp_path: Path) -> None:
    path = dl19(tmp_path, "ndcg@10 >= 0.6", "ndcg@10 no worse than baseline by 0.01", "ndcg@10 better than tas-b")
    found = karat.check(str(path))
    runs = {p.stem: str(p) for p in sorted(DL19.glob("*.run"))}
    compared = karat.compare(str(DL19 / "qrels.txt"), runs, "ndcg@10", baseline="bm25")
    for row in found.rows:
        if row.against is None:
            expected = karat.evaluate(str(DL19 / "qrels.txt"), runs[row.run], "ndcg@10").intervals["ndcg@10"]
        elif row.against == "bm25":
            expected = compared.of("ndcg@10", row.run)[0].difference
        else:
            continue
        assert (row.found.estimate, row.found.low, row.found.high) == pytest.approx(
            (expected.estimate, expected.low, expected.high), abs=1e-12
        )
    assert {(r.run, r.against) for r in found.rows if r.gate.against == "tas-b"} == {
        (r, "tas-b") for r in ("ada2", "bm25-rm3", "splade")
    }


@needs_dl19
@pytest.mark.parametrize(
    ("gate", "run"),
    [
        ("ndcg@10 >= 0.65", "ada2"),
        ("ndcg@10 >= 0.68", "splade"),
        ("ndcg@10 >= 0.45", "bm25"),
        ("ndcg@10 better than bm25", "bm25-rm3"),
    ],
)
def test_dl19_queries_still_needed_decide_in_8_of_10_samples(gate: str, run: str) -> None:
    runs = {n: str(DL19 / f"{n}.run") for n in {run, "bm25"}}
    result = karat.evaluate(str(DL19 / "qrels.txt"), runs, "ndcg@10")
    (row,) = karat.check(result, gate, candidate=run).rows
    assert row.judged.outcome == "undecided" and row.judged.more is not None
    values = result[run].values["ndcg@10"] - (result["bm25"].values["ndcg@10"] if row.against else 0)
    # Samples with the mean and the variance that were seen.
    values = values.mean() + (values - values.mean()) * np.sqrt(43 / 42)
    rng = np.random.default_rng(7)

    def decided(n: int) -> float:
        drawn = rng.choice(values, (400, n))
        if row.against:
            rows, bounds = [np.arange(n)], [(-1.0, 1.0)] * 400
            (changes,) = estimate_changes(drawn, Units.of(n), rows, bounds=bounds, levels=(0.95,), draws=2000)
            found = [one.intervals[0] for one in changes]
        else:
            found = [interval(sample, resamples=500, seed=s) for s, sample in enumerate(drawn)]
        return float(np.mean([row.gate.threshold not in i for i in found]))

    total = 43 + row.judged.more
    assert decided(total) == pytest.approx(0.8, abs=0.07)
    assert decided(total // 2) < 0.65


# --- Fingerprints -------------------------------------------------------------------------------------------------


def blessed(folder: Path, **more: Any) -> Path:
    """A folder with a blessed baseline of `good`, and a config that compares with it."""
    config(folder, **{**parts(baseline="base.json", gates=["mrr no worse than baseline by 0.05"]), **more})
    done = run_karat("bless", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "base.json"


def test_a_blessed_baseline_is_small_and_gives_no_difference_with_itself(small: Path) -> None:
    path = blessed(small)
    assert path.stat().st_size < 5000
    found = karat.check(str(small / "karat.yaml"))
    assert found and found.verdict == "SHIP"
    (row,) = found.rows
    # Ties alone allow ±(1 − .025^(1/60)); the lists are the same, which is evidence of its own.
    assert (row.found.estimate, row.found.n) == (0, 60)
    assert (row.found.low, row.found.high) == pytest.approx((0.025 ** (1 / 60) - 1, 1 - 0.025 ** (1 / 60)))
    assert row.judged.why == "the ranked lists are identical"
    assert [c.ties for c in found.comparisons] == [60, 60]
    better = karat.check(str(small / "karat.yaml"), ["mrr better than baseline"])
    assert better.why == "mrr did not change; it must rise (the ranked lists are identical)"


def test_a_run_lost_nothing_against_its_own_blessing_whatever_digits_its_values_have(tmp_path: Path) -> None:
    """ndcg@10 of one relevant doc at rank r is 1 / log2(1 + r): 12 digits of a file do not hold it."""
    gold = {f"q{i:02}": {f"d{i}": 1} for i in range(40)}
    run = {q: [*(f"x{j}" for j in range(1 + i % 6)), f"d{i}", *"abcdefghi"] for i, q in enumerate(gold)}
    result = karat.evaluate(gold, {"same": run}, "ndcg@10,map", details=True)
    path = karat.bless(result, str(tmp_path / "base.json"))
    held = json.loads(Path(path).read_text("utf-8"))["values"]["q00"][0]
    assert 0 < abs(held - result.per_query("ndcg@10")["q00"]) < 1e-11
    check = karat.check(result, ["ndcg@10 no worse than baseline by 0.01"], baseline=path)
    assert check and view_of(check).worst_queries is None and not check.falls
    comment = markdown.render(view_of(check))
    assert "→" not in comment and "Queries that lost" not in comment


def test_segments_of_a_blessed_baseline_stand_beside_the_candidates(small: Path) -> None:
    blessed(small, segments=["language"])
    table = run_karat("check", cwd=small).stdout.partition("mrr by segment")[2].splitlines()
    assert table[0].split() == ["n", "baseline", "good"]
    for row in table[1:4]:
        _, _, before, *ends, after = row.partition("[")[0].split() + row.split("]")[1].split()[:1]
        assert before == after and not ends


def test_validate_warns_of_segments_too_small_also_for_the_run_that_was_blessed(small: Path) -> None:
    blessed(small)
    queries = [json.loads(line) for line in (small / "queries.jsonl").read_text("utf-8").splitlines()]
    for i, query in enumerate(queries):
        query |= {"part": "few" if i < 12 else "many", "conversation": f"c{i // 2}" if i < 12 else f"q{i}"}
    (small / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    config(small, **parts(baseline="base.json", gates=["mrr >= 0.1 for every part"]))
    done = run_karat("validate", "karat.yaml", "--select", "K610", cwd=small)
    assert "part=few has 12 queries, which count as 6 independent ones; at least 10 are needed" in done.stdout


def test_only_bless_makes_a_baseline(small: Path) -> None:
    config(small, **parts(baseline="base.json", gates=["mrr no worse than baseline"]))
    done = run_karat("check", cwd=small)
    assert done.returncode == 2
    assert "the baseline does not exist yet; make one with `karat bless`" in done.stderr
    (small / "karat.yaml").rename(small / "other.yaml")
    config(small, **parts(runs={"bad": "bad.run"}, gates=["mrr >= 0.5"]))
    done = run_karat("check", "other.yaml", cwd=small)
    assert (
        "other.yaml:1: base.json: the baseline does not exist yet; make one with `karat bless other.yaml`"
        in done.stderr
    )
    done = run_karat("validate", "other.yaml", cwd=small)
    assert "Make it with `karat bless other.yaml`, or name a run." in done.stdout
    done = run_karat("check", "--baseline", "base 1.json", cwd=small)
    assert "base 1.json: the baseline does not exist yet; make one with `karat bless -o 'base 1.json'`" in done.stderr
    (small / "other.yaml").rename(small / "karat.yaml")
    karat.evaluate(str(small / "qrels.txt"), str(small / "good.run"), "mrr").save(str(small / "base.json"))
    done = run_karat("check", cwd=small)
    assert done.returncode == 2
    assert 'is of kind "evaluation"; expected what `karat bless` writes' in done.stderr
    assert not list(small.glob("*.baseline.json"))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            lambda f: (f / "qrels.txt").write_text((f / "qrels.txt").read_text().replace("q00 0 d0 1", "q00 0 d0 2")),
            "gold",
        ),
        (
            lambda f: (f / "queries.jsonl").write_text((f / "queries.jsonl").read_text().replace("question 7", "who")),
            "queries",
        ),
        (
            lambda f: config(
                f,
                **parts(
                    baseline="base.json", gates=["mrr no worse than baseline by 0.05"], conventions={"missing": "skip"}
                ),
            ),
            "convention missing",
        ),
        (
            lambda f: config(
                f,
                **parts(
                    baseline="base.json", gates=["mrr no worse than baseline by 0.05"], conventions={"like": "beir"}
                ),
            ),
            "convention score_precision",
        ),
    ],
    ids=["gold", "queries", "missing", "like"],
)
def test_results_on_different_grounds_are_not_compared(small: Path, change: Any, named: str) -> None:
    blessed(small)
    change(small)
    done = run_karat("check", "--json", "-", cwd=small)
    assert done.returncode == 2
    assert done.stdout == ""
    assert f"good cannot be compared with the baseline: {named}: " in done.stderr
    assert "--force" in done.stderr
    forced = run_karat("check", "--force", "--json", "-", cwd=small)
    assert forced.returncode == 0, forced.stderr
    assert named in [d["what"] for d in json.loads(forced.stdout)["forced"]]


def test_gold_in_another_order_and_format_is_the_same_gold(small: Path) -> None:
    blessed(small)
    lines = (small / "qrels.txt").read_text().splitlines()
    rows = [dict(zip(("query_id", "i", "doc_id", "grade"), x.split(), strict=True)) for x in reversed(lines)]
    (small / "gold.csv").write_text(
        "query_id,doc_id,grade\n" + "".join(f"{r['query_id']},{r['doc_id']},{r['grade']}.0\n" for r in rows)
    )
    data = {"qrels": "gold.csv", "queries": "queries.jsonl"}
    config(small, **parts(dataset=data, baseline="base.json", gates=["mrr no worse than baseline by 0.05"]))
    assert run_karat("check", cwd=small).returncode == 0


def test_another_definition_of_a_metric_is_not_compared(small: Path) -> None:
    def declare(bonus: float) -> None:
        @karat.metric("own", title="Own", tells="Ours.", bounds=(0, 2))
        def own(r: karat.Rankings, k: int | None = None) -> Any:
            return r.count_hits(1, upto=k) + 0.1 if bonus else r.count_hits(1, upto=k)

    qrels, good = str(small / "qrels.txt"), str(small / "good.run")
    declare(0)
    try:
        old = karat.evaluate(qrels, good, ["own@1"])
        old.fingerprints  # noqa: B018  (found now, before the definition changes)
    finally:
        unregister("own")

    @karat.metric("own", title="Own", tells="Ours.", bounds=(0, 2))
    def own(r: karat.Rankings, k: int | None = None) -> Any:
        return 2 * r.count_hits(1, upto=k)

    try:
        new = karat.evaluate(qrels, good, ["own@1"])
        with pytest.raises(NotComparable, match="the definition of own@1"):
            karat.compare(old, new)
        with pytest.raises(NotComparable, match="the definition of own@1"):
            karat.check(new, "own@1 no worse than baseline", baseline=old)
        forced = karat.compare(old, new, force=True)
        assert [d.what for d in forced.forced] == ["the definition of own@1"]
        assert any("--force" in note for note in forced.notes)
    finally:
        unregister("own")


def chunked(folder: Path, name: str, size: int, chunk_ids: bool) -> str:
    """A run log whose chunks name their doc; gold may be by either."""
    lines = []
    for i in range(30):
        items = [{"chunk_id": f"d{i}#c{j}", "doc_id": f"d{i}", "score": 9 - j} for j in range(2)]
        chunker = {"algo": "sentence", "target_tokens": size}
        lines.append(json.dumps({"query_id": f"q{i:02}", "topk": items, "chunker": chunker}))
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    gold = [f"q{i:02} 0 d{i}{'#c0' if chunk_ids else ''} 1" for i in range(30)]
    (folder / "gold.txt").write_text("\n".join(gold) + "\n")
    return str(folder / f"{name}.jsonl")


def test_another_chunker_under_gold_by_chunk_is_refused(tmp_path: Path) -> None:
    runs = {"old": chunked(tmp_path, "old", 600, True), "new": chunked(tmp_path, "new", 300, True)}
    gold = str(tmp_path / "gold.txt")
    with pytest.raises(NotComparable, match="chunker") as caught:
        karat.compare(gold, runs, "mrr")
    assert '"target_tokens": 300' in str(caught.value) and '"target_tokens": 600' in str(caught.value)
    assert "use gold by doc" in str(caught.value)
    saved = [karat.evaluate(gold, runs[n], "mrr") for n in ("old", "new")]
    assert [s.runs[0].gold_level for s in saved] == ["chunk", "chunk"]
    with pytest.raises(NotComparable, match="chunker"):
        karat.compare(*saved)
    assert karat.compare(*saved, force=True).forced[0].what == "chunker"
    assert "chunker" in str(karat.check(saved[1], "mrr no worse than baseline", baseline=saved[0], force=True).notes)


def test_another_chunker_under_gold_by_doc_is_compared_and_shown(tmp_path: Path) -> None:
    runs = {"old": chunked(tmp_path, "old", 600, False), "new": chunked(tmp_path, "new", 300, False)}
    gold = str(tmp_path / "gold.txt")
    found = karat.compare(gold, runs, "mrr")
    assert [d.what for d in found.system] == ["chunker"] and found.forced == ()
    assert found.as_json()["differences"][0]["what"] == "chunker"
    config(
        tmp_path,
        dataset={"qrels": "gold.txt"},
        runs={"old": "old.jsonl", "new": "new.jsonl"},
        baseline="old",
        gates=["mrr no worse than baseline by 0.01"],
    )
    done = run_karat("check", cwd=tmp_path)
    assert done.returncode == 0
    assert "differs from the baseline: chunker" in done.stdout


def test_what_several_candidates_differ_in_is_said_with_their_names(tmp_path: Path) -> None:
    gold = {"q1": {"a": 1}, "q2": {"a": 1}}
    runs = {}
    systems = {"old": ("bm25", "no"), "stem": ("bm25", "ce"), "plain": ("bm25(stem=false)", "ce")}
    for name, (retriever, reranker) in systems.items():
        facts = {"retriever": retriever, "reranker": reranker, "code_version": name[:1]}
        rows = [{"query_id": q, **facts, "topk": [{"doc_id": "a"}]} for q in gold]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        runs[name] = str(tmp_path / f"{name}.jsonl")
    result = karat.evaluate(gold, runs, "mrr")
    said = [
        "reranker: ce in stem and plain, no in the baseline",
        "code_version: s in stem, o in the baseline",
        "retriever: bm25(stem=false) in plain, bm25 in the baseline",
        "code_version: p in plain, o in the baseline",
    ]
    for one in (
        karat.compare(gold, runs, "mrr"),
        karat.check(result, ["mrr no worse than old by 0.1"], baseline="old"),
    ):
        assert [str(d) for d in one.system] == said
        assert [d.get("run") for d in one.as_json()["differences"]] == ["stem and plain", "stem", "plain", "plain"]
    alone = karat.compare(gold, {"old": runs["old"], "plain": runs["plain"]}, "mrr")
    assert str(alone.system[0]) == "retriever: bm25(stem=false) here, bm25 in the baseline"


# --- Segments, units, levels --------------------------------------------------------------------------------------


def outcomes(folder: Path, *gates: Any, **more: Any) -> list[tuple[str, str]]:
    found = karat.check(
        parts(gates=list(gates), **more)
        | {
            "dataset": {"qrels": str(folder / "qrels.txt"), "queries": str(folder / "queries.jsonl")},
            "runs": {n: str(folder / f"{n}.run") for n in ("good", "bad")},
            "candidate": "good",
        }
    )
    return [(r.where, r.judged.outcome) for r in found.rows]


def test_gates_on_segments(small: Path) -> None:
    everywhere = "hit@1 >= 0.5 for every language"
    assert outcomes(small, everywhere) == [(f"language = {v}", "pass") for v in ("de", "en", "pt-BR")]
    assert outcomes(small, "hit@1 >= 0.5 where language = pt-BR") == [("language = pt-BR", "pass")]
    assert outcomes(small, "hit@1 >= 0.5 where language = PT-br") == [("language = pt-BR", "pass")]
    # t1 has 4 queries: shown, never judged alone, and never passed over in silence.
    assert outcomes(small, "hit@1 >= 0.5 for every topic") == [("topic = t0", "pass"), ("topic = t1", "undecided")]
    assert outcomes(small, "hit@1 >= 0.5 for every topic of at least 10") == [("topic = t0", "pass")]
    crossed = outcomes(small, "hit@1 >= 0.5 where language = de for every topic")
    assert crossed == [("language = de, topic = t0", "pass"), ("language = de, topic = t1", "undecided")]


def test_tables_hold_the_segments_that_somebody_asked_to_see(small: Path) -> None:
    """A gate's `where` slices the queries for itself: its cross is judged, and stands in no table."""
    cross = "mrr >= 0.5 where language in (de, en) and topic = t0"
    asked = parts(runs={"good": "good.run", "bad": "bad.run"}, baseline="good", candidate="bad", segments=["language"])
    checked = karat.check(config(small, **asked, gates=[cross, "mrr >= 0.1 for every topic"]))
    assert [row.outcome for row in checked.rows if row.gate.where] == ["pass"]
    expected = {("language",), ("topic",)}
    run = checked.result["good"]
    checked.save(str(small / "result.json"))
    for some in (run.segments, karat.load(str(small / "result.json"))["good"].segments):
        assert {tuple(segment.by) for segment in some} == expected
    assert {tuple(row.segment) for row in checked.comparisons if row.segment} == expected
    assert {tuple(segment["by"]) for segment in checked.as_json()["runs"][0]["segments"]} == expected


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        (
            "mrr <= 0.99",
            "gate 'mrr <= 0.99' passes where the value is bad: higher mrr is better; write >= if that is meant",
        ),
        ("rbp_residual > 0.01", "lower rbp_residual is better; write < if that is meant"),
        ("mrr >= 0.5", ""),
        ("rbp_residual < 0.9", ""),
        ("num_ret <= 900", ""),
        ("mrr no worse than bad by 0.1", ""),
    ],
)
def test_a_gate_that_passes_where_the_value_is_bad_is_named(small: Path, gate: str, words: str) -> None:
    runs = {"good": "good.run", "bad": "bad.run"}
    checked = karat.check(config(small, **parts(runs=runs, candidate="good", gates=[gate])))
    (row,) = checked.rows
    assert row.outcome == "pass"  # it is judged as it is written
    warnings = [text for text in checked.as_json().get("warnings", []) if "passes where" in text]
    assert len(warnings) == bool(words)
    assert all(words in text for text in warnings)
    page = [remark.text for remark in page_of(source_of(checked)).remarks]
    assert [text for text in page if "passes where" in text] == warnings


def test_segments_that_a_gate_leaves_out_are_counted(small: Path) -> None:
    config(small, **parts(gates=["hit@1 >= 0.5 for every topic of at least 10"], outputs={"html": "r.html"}))
    done = run_karat("check", cwd=small, COLUMNS="200")
    left_out = "leaves out 1 of 2 segments with fewer than 10 queries: topic = t1"
    assert left_out in done.stdout and left_out in (small / "r.html").read_text()


def test_many_small_segments_are_named_up_to_ten_and_none_is_no_segment(small: Path) -> None:
    every = ["hit@1 >= 0.5 for every text", "hit@1 >= 0.5 for every topic of at least 100"]
    config(small, **parts(gates=every))
    done = run_karat("check", cwd=small, COLUMNS="400")
    text = " ".join(done.stdout.split())
    names = re.search("60 have fewer than 10 queries, too few to judge alone: (.*?) and 50 more; use --verbose", text)
    assert names is not None and names[1].count("question") == 10
    assert "no segment has at least 100 queries" in text and "0 of 1 segments" not in text


@pytest.mark.parametrize("where", ["language = pt_BR", "language in (pt_BR, es-AR)"])
def test_a_value_that_no_query_has_is_an_error_that_says_what_there_is(small: Path, where: str) -> None:
    config(small, **parts(gates=[f"hit@1 >= 0.5 where {where}"]))
    done = run_karat("check", cwd=small)
    assert done.returncode == 2
    at, text = re.escape(f"karat.yaml:1: gate 'hit@1 >= 0.5 where {where}': "), " ".join(done.stderr.split())
    assert re.search(rf"{at}(queries.jsonl: )?no query has language = pt_BR; did you mean 'pt-BR'", text)


def test_a_fail_in_one_of_many_segments_is_corrected_for_their_number(small: Path) -> None:
    gates = ["hit@1 >= 0.5 for every language", "mrr >= 0.5 for every language", "mrr >= 0.5"]
    data = {"qrels": str(small / "qrels.txt"), "queries": str(small / "queries.jsonl")}
    plain, wide = (
        karat.check({"dataset": data, "runs": str(small / "good.run"), "gates": gates, "confidence": {"correction": c}})
        for c in ("none", "bonferroni")
    )
    default = karat.check({"dataset": data, "runs": str(small / "good.run"), "gates": gates})
    assert [r.found for r in default.rows] == [r.found for r in wide.rows]
    for a, b in zip(plain.rows, wide.rows, strict=True):
        assert (b.found.low, b.found.high, b.found.confidence) == (a.found.low, a.found.high, 0.95)  # to pass, all must
        if a.segment is None:
            assert b.found == a.found
        else:  # three languages
            assert b.found.fail_confidence == pytest.approx(1 - 0.05 / 3)
            assert b.found.fail_low < a.found.low and b.found.fail_high >= a.found.high


def test_latencies_and_items_have_gates_with_units(tmp_path: Path) -> None:
    lines, rng = [], np.random.default_rng(3)
    for i in range(100):
        same = 2 if i % 2 else 1
        items = [{"chunk_id": f"d{i}#{j}", "doc_id": f"d{i if j < same else i + j}"} for j in range(5)]
        took = {"retrieve": float(rng.uniform(20, 40)), "rerank": float(rng.uniform(5, 15))}
        lines.append(json.dumps({"query_id": f"q{i}", "topk": items, "latency_ms": took}))
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "qrels.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(100)))
    gates = [
        "latency.p50 <= 60ms",
        "latency.rerank.p90 <= 0.1s",
        "latency.p50 <= 30ms",
        "latency.p99 <= 50ms",
        "distinct_docs@5 >= 3.0",
        "latency.retrieve.mean <= 30ms",
    ]
    config(tmp_path, dataset={"qrels": "qrels.txt"}, runs="log.jsonl", gates=gates)
    done = run_karat("check", "--json", "-", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    found = [(g["outcome"], g["threshold"]) for g in json.loads(done.stdout)["gates"]]
    assert found[:3] == [("pass", 60), ("pass", 100), ("fail", 30)]
    assert found[3][0] == "undecided" and found[4][0] == "pass"


def test_a_metric_that_some_queries_lack_is_said_to_be(tmp_path: Path) -> None:
    lines = []
    for i in range(60):
        took = {"latency_ms": {"retrieve": 20.0 + i % 5}} if i % 3 else {}  # 20 of 60 lines have none
        lines.append(json.dumps({"query_id": f"q{i}", "topk": [{"doc_id": f"d{i}"}], **took}))
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "qrels.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(60)))
    config(tmp_path, dataset={"qrels": "qrels.txt"}, runs="log.jsonl", gates=["latency.p50 <= 60ms", "judged@3 > 0"])
    told = "latency.p50: 20 of 60 queries have no value"
    done = run_karat("check", cwd=tmp_path)
    assert done.returncode == 0 and told in done.stdout
    document = json.loads(run_karat("check", "--json", "-", cwd=tmp_path).stdout)
    assert document["runs"][0]["notes"] == [told]
    assert document["gates"][0]["n"] == 40


def test_a_swapped_file_of_json_lines_is_told_in_one_line(small: Path) -> None:
    for qrels, run in (("queries.jsonl", "good.run"), ("qrels.txt", "queries.jsonl")):
        done = run_karat("evaluate", qrels, run, cwd=small)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
        assert "looks like a table of queries" in done.stderr


def test_gold_is_no_run(small: Path) -> None:
    rows = [x.split() for x in (small / "qrels.txt").read_text().splitlines()]
    beir = "query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{d}\t{g}\n" for q, _, d, g in rows)
    for name in ("gold.tsv", "copy.tsv"):
        (small / name).write_text(beir)
    with pytest.raises(InputError, match=r"gold.tsv: is the gold itself, expected a run"):
        karat.evaluate(str(small / "gold.tsv"), str(small / "gold.tsv"), "mrr")
    config(small, **parts(dataset={"qrels": "gold.tsv"}, runs={"a": "./gold.tsv"}, gates=["mrr >= 0.5"]))
    assert "is the gold itself" in run_karat("check", cwd=small).stderr
    doubt = "every score is a small whole number (1): is this gold? A run holds the scores of a system"
    assert karat.evaluate(str(small / "gold.tsv"), str(small / "copy.tsv"), "mrr").notes[0] == doubt
    (small / "rows.jsonl").write_text(
        "".join(json.dumps({"query_id": q, "doc_id": d, "score": i}) + "\n" for q, _, d, _ in rows for i in (1, 1))
    )
    assert doubt in karat.evaluate(str(small / "gold.tsv"), str(small / "rows.jsonl"), "mrr").notes
    # Scores of a system, and whole numbers that put a query's docs in order, are a run's.
    for scores in ((2.5, 1.0), (2, 1)):
        text = "query-id\tcorpus-id\tscore\n"
        text += "".join(f"{q}\t{doc}\t{s}\n" for q, _, d, _ in rows for doc, s in zip((d, "x"), scores, strict=True))
        (small / "run.tsv").write_text(text)
        assert doubt not in karat.evaluate(str(small / "gold.tsv"), str(small / "run.tsv"), "mrr").notes


def test_a_gate_on_a_metric_that_the_result_lacks_is_an_input_error(small: Path) -> None:
    result = karat.evaluate(str(small / "qrels.txt"), str(small / "good.run"), "mrr")
    with pytest.raises(InputError, match=r"was not measured by ndcg@10, only by mrr"):
        karat.check(result, "ndcg@10 >= 0.5")
    blessed(small)
    config(small, **parts(baseline="base.json", gates=["ndcg@3 no worse than baseline"]))
    done = run_karat("check", cwd=small)
    assert done.returncode == 2
    assert "baseline was not measured by ndcg@3" in done.stderr and "bless" in done.stderr


def test_warnings_never_change_the_verdict(small: Path) -> None:
    found = karat.check(
        karat.evaluate(str(small / "qrels.txt"), str(small / "good.run"), "mrr"), ["mrr >= 0.5", "warn: mrr >= 0.99"]
    )
    assert found.verdict == "SHIP" and len(found.of("fail", "warn")) == 1


@pytest.mark.parametrize(("told", "code"), [((), 3), (("--inconclusive", "pass"), 0), (("--inconclusive", "fail"), 1)])
def test_inconclusive_can_be_mapped(small: Path, told: tuple[str, ...], code: int) -> None:
    config(small, **parts(gates=["hit@1 >= 0.9"]))
    done = run_karat("check", *told, cwd=small)
    assert done.returncode == code
    assert done.stdout.startswith("INCONCLUSIVE: hit@1 is 0.900 [")
    assert "no number of queries would decide it" in done.stdout


def test_the_check_is_true_only_if_it_ships(small: Path) -> None:
    result = karat.evaluate(str(small / "qrels.txt"), str(small / "good.run"), "mrr,hit@1")
    assert karat.check(result, "mrr >= 0.8")
    assert not karat.check(result, "mrr >= 0.99")
    assert not karat.check(result, "hit@1 >= 0.85")
    assert "BLOCK: mrr is 0.000" in repr(
        karat.check(karat.evaluate({"q": {"d": 1}, "r": {"d": 1}}, {"q": {"x": 1}}, "mrr"), "mrr >= 0.5 at the mean")
    )


def test_a_run_that_is_worse_than_the_baseline_blocks_and_its_worst_queries_are_named(small: Path) -> None:
    config(
        small,
        **parts(
            runs={"good": "good.run", "bad": "bad.run"},
            baseline="good",
            outputs={"markdown": "c.md"},
            gates=["mrr no worse than baseline by 2%"],
        ),
    )
    done = run_karat("check", cwd=small)
    assert done.returncode == 1
    comment = (small / "c.md").read_text("utf-8")
    assert comment.count("→") == 3 and "question 3" in comment


def test_relative_margins_are_shares_of_the_baseline(small: Path) -> None:
    result = karat.evaluate(
        str(small / "qrels.txt"), {n: str(small / f"{n}.run") for n in ("good", "bad")}, "mrr", seed=1
    )
    (row,) = karat.check(result, "mrr no worse than baseline by 40%", baseline="good", candidate="bad").rows
    # bad: 18 at once, 42 second; good: 54 and 6. 39/60 − .6 × 57/60 = .08.
    assert row.found.estimate == pytest.approx(39 / 60 - 0.6 * 57 / 60)


# --- The config ---------------------------------------------------------------------------------------------------

BROKEN = [
    ({"dataset": {"qrel": "x"}}, ["lacks 'qrels'", "unknown key 'qrel' in dataset; did you mean 'qrels'?"]),
    ({"gats": []}, ["unknown key 'gats'; did you mean 'gates'?"]),
    ({"gates": ["recal@5 > 1"]}, ["did you mean 'recall@5'?"]),
    ({"gates": [{"metric": "mrr", "mni": 1}]}, ["unknown key 'mni'; did you mean 'min'?"]),
    ({"gates": "mrr > 0"}, ["gates must be a list"]),
    ({"metrics": ["ndgc@10"]}, ["did you mean 'ndcg@10'?"]),
    ({"confidence": 95}, ["confidence must be less than 1, found 95"]),
    ({"confidence": {"method": "bcaa"}}, ["did you mean 'bca'?"]),
    ({"confidence": {"resamples": "2000"}}, ['confidence.resamples must be a whole number, found "2000"']),
    ({"segments": 3}, ["segments must be a list of fields, such as [language, kind], found 3"]),
    ({"segments": {"minimum": 0}}, ["segments.minimum must be greater than or equal to 1"]),
    ({"engine": {"cache": "yes"}}, ["engine.cache must be true or false"]),
    ({"outputs": {"jsn": "x"}}, ["did you mean 'json'?"]),
    ({"retrieval_metrics": {"performance": {"batchsize": 1}}}, ["did you mean 'batch_size'?"]),
    ({"version": 2}, ["version must be one of 1, found 2"]),
    ({"baseline": "${NO_SUCH_NAME}/x"}, ["environment variable NO_SUCH_NAME is not set"]),
    ({"conventions": {"like": "trek_eval"}}, ["did you mean 'trec_eval'?"]),
]


@pytest.mark.parametrize(("wrong", "told"), BROKEN)
def test_a_broken_config_names_line_and_nearest_key(tmp_path: Path, wrong: dict[str, Any], told: list[str]) -> None:
    text = "# a comment\n" + json.dumps(wrong, indent=1)
    (tmp_path / "karat.yaml").write_text(text)
    done = run_karat("check", cwd=tmp_path)
    assert done.returncode == 2
    for words in told:
        (line,) = [x for x in done.stderr.splitlines() if words in x]
        place, number = line.removeprefix("karat: ").split(":")[:2]
        assert place == "karat.yaml"
        key = words.split("'")[1] if words.startswith("unknown key") else None
        if key is not None:
            assert f'"{key}"' in text.splitlines()[int(number) - 1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [1", "karat.yaml:1: not YAML"),
        ("gates: x\ngates: y\n", 'karat.yaml:2: the key "gates" appears twice; remove one'),
        ("", "found an empty file"),
        ("- a\n", "expected keys such as dataset"),
        ("\tx: 1\n", "karat.yaml:1: not YAML"),
    ],
)
def test_what_is_no_config_says_so(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "karat.yaml").write_text(text)
    done = run_karat("check", cwd=tmp_path)
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr


def test_norway_is_a_language(tmp_path: Path) -> None:
    (tmp_path / "karat.yaml").write_text("gates:\n- metric: mrr\n  min: 0.5\n  where: {language: no}\n")
    from karat.config.reading import read_config

    (gate,) = read_config(str(tmp_path / "karat.yaml")).config.gates
    assert gate == parse_gate("mrr >= 0.5 where language = no")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"gates": []}, "no gates, so nothing decides"),
        ({"gates": ["mrr > 0"], "candidate": "god"}, "no run is called 'god'; did you mean 'good'?"),
        ({"gates": ["mrr > 0 on god"]}, "no run is called 'god'; did you mean 'good'?"),
        ({"gates": ["mrr better than baseline"]}, "no baseline is named"),
        ({"gates": ["mrr better than god"]}, "no run is called 'god'"),
        ({"gates": ["mrr > 0"], "baseline": "god"}, "did you mean 'good'?"),
        ({"gates": ["mrr > 0"], "baseline": "good"}, "is the only run, and it is the baseline"),
        ({"gates": ["mrr > 0 for every tpoic"]}, "did you mean 'topic'?"),
        ({"gates": ["mrr > 0"], "runs": "*.nothing"}, "no file matches"),
        ({"gates": ["mrr > 0"], "dataset": {"qrels": "gone.txt"}}, "gone.txt"),
        ({"gates": ["mrr > 0"], "runs": None}, "no runs; expected dataset and runs"),
        ({"gates": ["mrr > 0"], "retrieval_metrics": {"enabled_metrics": ["mrr"]}}, "name them once"),
    ],
)
def test_a_config_that_cannot_be_followed_says_why(small: Path, more: dict[str, Any], told: str) -> None:
    config(small, **parts(**more))
    done = run_karat("check", cwd=small)
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr


PLACED = [
    # What is asked for, the problems, each with the key or item whose line it names.
    (
        {"runs": {"a": "${NO_SUCH}/a.run", "b": "good.run"}},
        [("a", "environment variable NO_SUCH is not set; set it, or write ${NO_SUCH:-a default}")],
    ),
    ({"runs": ["${NO_SUCH}/a.run"]}, [("${NO_SUCH}/a.run", "environment variable NO_SUCH is not set")]),
    ({"runs": "${NO_SUCH}/a.run"}, [("runs", "environment variable NO_SUCH is not set")]),
    ({"runs": {"a": "$RUNS/a.run"}}, [("a", "found $RUNS in '$RUNS/a.run'; write ${RUNS}")]),
    ({"runs": 5}, [("runs", "runs must be keys with values, found 5")]),
    ({"runs": {"a": "*.run"}}, [("a", "'*.run' is a pattern, and 'a' is one run; patterns go in a list")]),
    ({"runs": ["good.run", "*.nothing"]}, [("*.nothing", "*.nothing: no file matches")]),
    ({"dataset": {"qrels": "qrel*.txt"}}, [("qrels", "no such file; patterns are understood for runs alone")]),
    # All files that are not there are told at once.
    (
        {
            "dataset": {"qrels": "gone.txt", "queries": "querie.jsonl", "corpus": "corpus.jsonl"},
            "runs": {"a": "a.run"},
            "baseline": "base.json",
        },
        [
            ("qrels", "gone.txt: no such file"),
            ("queries", "did you mean 'queries.jsonl'?"),
            ("corpus", "corpus.jsonl: no such file"),
            ("a", "a.run: no such file"),
            ("baseline", "base.json: the baseline does not exist yet; make one with `karat bless`"),
        ],
    ),
    ({"segments": ["language", "tpoic"]}, [("tpoic", "no query has a field 'tpoic'; they have language, text, topic")]),
    ({"segments": {"by": ["colour"]}}, [("colour", "no query has a field 'colour'")]),
    ({"gates": ["mrr > 0", "mrr > 0 for every tpoic"]}, [("mrr > 0 for every tpoic", "did you mean 'topic'?")]),
    (
        {"dataset": {"qrels": "qrels.txt"}, "gates": ["mrr > 0 where a = b"]},
        [("mrr > 0 where a = b", "no table of queries, whose field 'a' is asked for; expected dataset.queries")],
    ),
    (
        {"segments": ["gold.source"]},
        [("gold.source", "no table of docs, whose field 'source' is asked for; expected dataset.corpus")],
    ),
    ({"engine": {"memory": "lots"}}, [("memory", "memory must be a size such as 2GB or 512MiB, found 'lots'")]),
    ({"gates": ["mrr > 0", "mrr > 0 on splade"]}, [("mrr > 0 on splade", "no run is called 'splade'; expected good")]),
    (
        {"gates": ["mrr better than baseline", "mrr better than god"]},
        [
            ("mrr better than baseline", "no baseline is named; set `baseline` (--baseline) to a run"),
            ("mrr better than god", "did you mean 'good'?"),
        ],
    ),
    *(
        ({"gates": ["mrr > 0", gate]}, [(gate, words)])
        for gate, words in (
            ("reranker.foo@5 >= 0.5", "reranker has no figure 'foo@5': unknown metric 'foo@5'"),
            ("funnel.delivred >= 0.5", "funnel has no figure 'delivred'; did you mean funnel.delivered?"),
            ("cost.tokens.sum <= 10", "run 'good' has no cost: cost.tokens.sum needs a run log with cost on its lines"),
            ("fresh@5 >= 0.5", "fresh@5 needs queries with an as_of field"),
            ("precision@5 >= 0.9", "can never pass: the gold allows at most 0.2000"),
            ("mrr better than good", "'good' would be compared with itself"),
        )
    ),
]


@pytest.mark.parametrize(("more", "told"), PLACED)
def test_every_problem_of_a_config_names_its_line(
    small: Path, more: dict[str, Any], told: list[tuple[str, str]]
) -> None:
    text = json.dumps(parts(**{"gates": ["mrr > 0"], **more}), indent=1)
    (small / "karat.yaml").write_text(text)
    done = run_karat("check", cwd=small)
    assert done.returncode == 2
    found = done.stderr.splitlines()
    assert len(found) == len(told), done.stderr
    lines = text.splitlines()
    for line, (key, words) in zip(found, told, strict=True):
        assert words in line
        number = int(line.removeprefix("karat: karat.yaml:").partition(":")[0])
        assert lines[number - 1].lstrip().startswith(f'"{key}"')


def test_the_home_folder_is_found(small: Path) -> None:
    config(small, **parts(runs={"good": "~/good.run"}, gates=["mrr >= 0.5"]))
    assert run_karat("check", cwd=small, HOME=str(small)).returncode == 0


def test_environment_variables_are_replaced_in_paths_alone(small: Path) -> None:
    config(small, **parts(runs={"good": "${RUNS:-.}/${NAME}.run"}, gates=[{"gate": "mrr >= 0.5", "name": "${NAME}"}]))
    done = run_karat("check", "--json", "-", cwd=small, NAME="good")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["gates"][0]["name"] == "${NAME}"


def test_paths_are_relative_to_the_config(small: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    config(small, **parts(gates=["mrr >= 0.5"], outputs={"json": "deep/er/out.json"}))
    done = run_karat("check", str(small), cwd=tmp_path_factory.mktemp("elsewhere"))
    assert done.returncode == 0, done.stderr
    assert (small / "deep/er/out.json").exists()


def test_the_block_of_retrieval_metrics_has_its_effect(small: Path) -> None:
    (small / "qrels.txt").write_text((small / "qrels.txt").read_text() + "q00 0 y 3\n")
    data = {"qrels": str(small / "qrels.txt")}

    def checked(**block: Any) -> karat.Check:
        return karat.check(
            {
                "dataset": data,
                "runs": {n: str(small / f"{n}.run") for n in ("good", "bad")},
                "baseline": "bad",
                "gates": ["ndcg@10 >= 0.1"],
                "retrieval_metrics": block,
            }
        )

    binary = karat.evaluate(karat.read_qrels(data["qrels"]), str(small / "good.run"), "ndcg@10", binary=True)
    graded = karat.evaluate(karat.read_qrels(data["qrels"]), str(small / "good.run"), "ndcg@10")
    assert binary.mean["ndcg@10"] != graded.mean["ndcg@10"]
    plain = checked(enabled_metrics=["nDCG@10"])
    assert plain.result["good"].mean["ndcg@10"] == binary.mean["ndcg@10"]
    assert plain.result.conventions == {"binary": True}
    assert checked(graded_relevance=True).result["good"].mean["ndcg@10"] == graded.mean["ndcg@10"]
    assert plain.result.runs[0].sampling.confidence == 0.95
    assert set(plain.comparisons[0].p) == {"t", "randomization"}
    off = checked(statistical_analysis={"significance_testing": False, "confidence_intervals": False})
    assert off.comparisons[0].p == {} and off.verdict == "INCONCLUSIVE"
    assert off.rows[0].judged.why == "no interval was computed"
    wide = checked(statistical_analysis={"alpha_level": 0.01})
    assert wide.rows[0].found.confidence == 0.99 and wide.rows[0].found.low < plain.rows[0].found.low
    for size in (1, 7, 1000):
        batched = checked(
            enabled_metrics=["ndcg@10"],
            performance={"batch_size": size, "parallel_processing": False, "caching_enabled": False},
        )
        assert batched.as_json() == plain.as_json()
        assert batched.result.runs[0].threads == 1


def test_batches_of_queries_never_change_a_result(small: Path) -> None:
    qrels, run = str(small / "qrels.txt"), str(small / "good.run")
    whole = karat.evaluate(qrels, run, "map,ndcg@10,recall@1")
    for batch in (1, 2, 3, 59, 60, 61):
        part = karat.evaluate(qrels, run, "map,ndcg@10,recall@1", batch=batch, cache=False)
        assert part.as_json() == whole.as_json()


def test_saved_results_are_compared(small: Path) -> None:
    for name in ("good", "bad"):
        karat.evaluate(str(small / "qrels.txt"), str(small / f"{name}.run"), "mrr").save(str(small / f"{name}.json"))
    done = run_karat("compare", "bad.json", "good.json", "--json", "-", cwd=small)
    assert done.returncode == 0, done.stderr
    saved = json.loads(done.stdout)["comparisons"][0]
    live = karat.compare(str(small / "qrels.txt"), {n: str(small / f"{n}.run") for n in ("bad", "good")}, "mrr")
    assert saved == live.as_json()["comparisons"][0]
    with pytest.raises(UsageError, match="take no by"):
        karat.compare(str(small / "bad.json"), str(small / "good.json"), by="language")


def test_json_on_standard_output_is_alone_there(small: Path) -> None:
    config(small, **parts(gates=["mrr >= 0.5"]))
    done = run_karat("check", "--json", "-", cwd=small)
    assert json.loads(done.stdout)["kind"] == "check" and done.stderr == ""


# --- karat init, and what the linter says of configs ---------------------------------------------------------------


def test_init_writes_a_config_for_what_it_finds_and_the_check_ships(small: Path) -> None:
    done = run_karat("init", cwd=small)
    assert done.returncode == 0, done.stderr
    text = (small / "karat.yaml").read_text("utf-8")
    for expected in (
        "qrels: qrels.txt",
        "queries: queries.jsonl",
        "good: good.run",
        "segments: [language, topic]",
        "baseline: same",  # as old as the others, and better than bad
    ):
        assert expected in text
    assert run_karat("check", cwd=small).returncode == 0
    assert {p.name for p in (small / "karat-out").iterdir()} == {
        "check.json",
        "comment.md",
        "gates.xml",
        "report.html",
        "result.json.gz",
    }
    again = run_karat("init", cwd=small)
    assert again.returncode == 2 and "exists already" in again.stderr
    assert run_karat("init", "--force", cwd=small).returncode == 0


def test_init_never_widens_the_gate_against_the_baseline_until_todays_loss_ships(small: Path) -> None:
    (small / "good.run").rename(small / "bm25.run")
    (small / "same.run").unlink()
    assert (
        run_karat("init", cwd=small).returncode == 0
    )  # the candidate is bad, which lost 36 of 54 first ranks: −.369 each
    text = (small / "karat.yaml").read_text("utf-8")
    assert "  - ndcg@10 no worse than baseline by 0.072\n" in text
    assert "  # The smallest loss of ndcg@10 that 60 queries can show. Today bad fails: Δ -0.2214 [" in text
    done = run_karat("check", cwd=small)
    assert done.returncode == 1 and "BLOCK: ndcg@10 fell by 0.221" in done.stdout
    # One query in ten lost: the loss is significant, and the margin is as wide as before or narrower.
    lines = (small / "bm25.run").read_text().splitlines()
    worse = [x.replace(" d", " w") if int(x[1:3]) % 10 == 0 else x for x in lines]
    (small / "bad.run").write_text("\n".join(worse) + "\n")
    assert run_karat("init", "--force", cwd=small).returncode == 0
    text = (small / "karat.yaml").read_text("utf-8")
    assert "  # 60 queries cannot show a loss of ndcg@10 below 0.14: more are needed. Today bad is undecided: " in text
    assert "  - ndcg@10 no worse than baseline by 0.1\n" in text
    assert run_karat("check", cwd=small).returncode == 3


def test_init_validate_and_plan_say_the_same_of_the_margin_that_the_queries_allow(tmp_path: Path) -> None:
    """120 queries, in which the new run gains or loses a rank of three: by the margin of init an equally good run
    passes in 8 of 10 samples, and not by a smaller one.
    """
    rng = np.random.default_rng(5)
    for name in ("old", "new"):
        ranks = rng.integers(1, 4 if name == "old" else 3, 120).tolist()
        lines = [
            f"q{i:03} Q0 {f'd{i}' if place == rank else f'x{place}'} {place} {-place} t"
            for i, rank in enumerate(ranks)
            for place in range(1, 11)
        ]
        (tmp_path / f"{name}.run").write_text("\n".join(lines) + "\n")
    (tmp_path / "gold.qrels").write_text("".join(f"q{i:03} 0 d{i} 1\n" for i in range(120)))
    text = karat.init(str(tmp_path))
    found = re.search(
        r"The smallest loss of ndcg@10 that 120 queries can show.*\n  - ndcg@10 no worse than baseline by (\S+)", text
    )
    assert found is not None
    result = karat.evaluate(
        str(tmp_path / "gold.qrels"), [str(tmp_path / "old.run"), str(tmp_path / "new.run")], "ndcg@10"
    )
    margin = float(found[1])
    smaller = round(0.9 * margin, 3)
    for by, enough in ((margin, True), (smaller, False)):
        gate = f"ndcg@10 no worse than baseline by {by:g}"
        config(
            tmp_path,
            dataset={"qrels": "gold.qrels"},
            runs={"old": "old.run", "new": "new.run"},
            baseline="old",
            candidate="new",
            gates=[gate],
        )
        told = [f.message for f in karat.validate(tmp_path / "karat.yaml").findings if f.code == "K610"]
        planned = karat.plan(result, gates=gate, baseline="old", candidate="new", truth=by, sizes=[120]).gates[0]
        (truth,) = planned.truths
        assert (truth.curve[0].ship >= 0.8) == enough == (not told)
        assert truth.needed is not None
        if not enough:
            assert f"takes about {round_up(truth.needed)} queries; there are 120 queries" in told[0]


def test_init_bounds_the_latency_only_where_all_runs_have_one_and_as_the_check_will(small: Path) -> None:
    queries = [json.loads(line) for line in (small / "queries.jsonl").read_text("utf-8").splitlines()]
    weighted = [{**query, "weight": 1 + i % 5} for i, query in enumerate(queries)]
    (small / "queries.jsonl").write_text("\n".join(map(json.dumps, weighted)))
    log = [
        {"query_id": query["_id"], "topk": [{"chunk_id": "x", "rank": 1}], "latency_ms": {"search": 10 + 7 * (i % 5)}}
        for i, query in enumerate(queries)
    ]
    (small / "new.jsonl").write_text("\n".join(map(json.dumps, log)))
    assert run_karat("init", cwd=small).returncode == 0
    assert "latency" not in (small / "karat.yaml").read_text("utf-8")
    for name in ("good", "bad", "same"):
        (small / f"{name}.run").unlink()
    assert run_karat("init", "--force", cwd=small).returncode == 0
    line = next(x for x in (small / "karat.yaml").read_text("utf-8").splitlines() if "latency.p90" in x)
    value = karat.evaluate(
        str(small / "qrels.txt"), str(small / "new.jsonl"), "latency.p90", queries=str(small / "queries.jsonl")
    )
    assert f"# {figure('latency.p90', value.mean['latency.p90']).short} today" in line


def test_init_says_what_it_found(small: Path) -> None:
    assert run_karat("init", cwd=small).stdout.startswith(
        "found gold qrels.txt, queries queries.jsonl, 3 runs (bad, good, same); "
        "the candidate is good, the baseline same\n"
    )
    printed = run_karat("init", "-o", "-", cwd=small)
    assert printed.stdout.startswith("# What to measure") and printed.stderr.startswith("found gold qrels.txt")


def test_init_judges_the_newest_run_and_never_a_known_baseline(small: Path) -> None:
    for age, (old, new) in enumerate((("good", "bm25"), ("bad", "dense"), ("same", "fts"))):
        (small / f"{old}.run").rename(small / f"{new}.run")
        os.utime(small / f"{new}.run", (1_700_000_000 + 1000 * age,) * 2)
    text = karat.init(str(small))
    assert "candidate: fts\n" in text and "baseline: bm25\n" in text
    os.utime(small / "bm25.run", (1_800_000_000,) * 2)
    assert "candidate: fts\n" in karat.init(str(small))
    os.utime(small / "dense.run", (1_800_000_000,) * 2)
    assert "candidate: dense\n" in karat.init(str(small))
    os.utime(small / "fts.run", (1_800_000_040,) * 2)  # within a minute, and still the newer one
    assert "candidate: fts\n" in karat.init(str(small))


def test_init_names_the_fields_that_the_queries_have_and_says_what_its_gates_are(small: Path) -> None:
    rows = [
        {"_id": f"q{i:02}", "text": f"text {i}", "style": "ab"[i % 2], "length": [*"xyz"][: i % 4]} for i in range(60)
    ]
    rows[0]["style"] = ""
    (small / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = karat.init(str(small))
    assert "segments: [style, length]" in text
    assert "say nothing about" in text and "save: karat-out/result.json.gz" in text


def test_init_slices_by_no_day_on_which_queries_were_added(tmp_path: Path) -> None:
    table = [
        {"_id": f"q{i}", "text": f"x {i}", "added": f"2026-01-0{1 + i % 3}", "kind": "ab"[i % 2]} for i in range(60)
    ]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, table)))
    (tmp_path / "gold.qrels").write_text("".join(f"q{i} 0 a 1\n" for i in range(60)))
    (tmp_path / "a.run").write_text("".join(f"q{i} Q0 a 1 1.0 a\n" for i in range(60)))
    assert run_karat("init", cwd=tmp_path).returncode == 0
    assert "segments: [kind]" in (tmp_path / "karat.yaml").read_text()


@pytest.mark.parametrize(
    "name", ["topics.sgml", "topics.SGM", "trec8.topics", "topics.301-350", "topics", "topics.trec", "topics.51.gz"]
)
def test_init_finds_topics_of_trec_under_their_usual_names(tmp_path: Path, name: str) -> None:
    text = "".join(f"<top>\n<num> Number: {i}\n<title> words {i}\n</top>\n" for i in range(301, 306)).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    (tmp_path / "topics.py").write_text("topic, text = 1, 2\n")
    (tmp_path / "docs.sgml").write_text("<DOC>\n<DOCNO> a </DOCNO>\n</DOC>\n")
    (tmp_path / "gold.qrels").write_text("".join(f"{i} 0 a 1\n" for i in range(301, 306)))
    assert make_starter(str(tmp_path)).summary == f"found gold gold.qrels, queries {name}; fill in runs"
    assert f"  queries: {name}\n" in karat.init(str(tmp_path))


def test_init_knows_runs_of_trec_by_their_first_line_whatever_their_names(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("".join(f"{i} 0 d{i} 1\n" for i in range(3)))
    for name in ("covidex.r5.2s", "input.bm25-v2", "plain"):
        (tmp_path / name).write_text("".join(f"{i} Q0 d{i} 1 {9 - i}.5 tag\n" for i in range(3)))
    for name, text in (("notes", "1 Q0 words\n"), ("LICENSE", "No rank, no score.\n"), ("empty", "")):
        (tmp_path / name).write_text(text)
    starter = make_starter(str(tmp_path))
    assert "gold qrels.txt, 3 runs (covidex.r5.2s, input.bm25-v2, plain)" in starter.summary


def test_init_takes_no_other_json_for_gold(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "x", "version": "1.0.0", "scripts": {"a": "b"}}')
    (tmp_path / "tsconfig.json").write_text('{"compilerOptions": {"target": 5}, "include": ["x"]}')
    (tmp_path / "labels.json").write_text('{"name": "gold", "for": 2}')
    done = run_karat("init", cwd=tmp_path)
    assert done.stdout.startswith("found neither gold nor runs here; fill in gold (dataset.qrels) and runs\n")
    assert ".json" not in (tmp_path / "karat.yaml").read_text().split("runs:")[0].replace(".jsonl", "")
    (tmp_path / "labels.json").write_text('{"q1": {"d1": 1}}')
    assert "found gold labels.json; fill in runs" in run_karat("init", "--force", cwd=tmp_path).stdout


def test_the_gates_of_init_pass_today_and_can_be_decided(small: Path) -> None:
    log = []
    for i in range(60):
        # German hits are found in 1 of 2 queries, so no bound over .5 would hold there.
        docs = [f"d{i}"] if i % 3 or i % 2 else ["x"]
        item = {"query_id": f"q{i:02}", "topk": [{"doc_id": d} for d in docs], "latency_ms": {"all": 20 + i % 7}}
        log.append(json.dumps(item))
    (small / "log.jsonl").write_text("\n".join(log) + "\n")
    for name in ("good", "bad", "same"):
        (small / f"{name}.run").unlink()
    assert run_karat("init", cwd=small).returncode == 0
    text = (small / "karat.yaml").read_text()
    # 20 to 26 ms: the bound of p90 is 26, and the next half of ten is 30.
    assert "  - latency.p90 <= 30ms" in text
    (warned,) = [x for x in text.splitlines() if "for every language of at least 10" in x]
    assert 0 < float(warned.split(">= ")[1].split()[0]) < 0.5
    found = karat.check(str(small / "karat.yaml"))
    assert {row.outcome for row in found.gates} == {"pass"} and len(found.gates) == 2 + 3 + 1
    assert [f.code for f in karat.validate(small / "karat.yaml").findings if f.code.startswith("K")] == []
    # Too few queries for a bound of p90, which takes 36: the median's takes 6.
    kept = [x for x in (small / "qrels.txt").read_text().splitlines() if int(x[1:3]) < 30]
    (small / "qrels.txt").write_text("\n".join(kept) + "\n")
    (small / "log.jsonl").write_text("\n".join(log[:30]) + "\n")
    assert run_karat("init", "--force", cwd=small).returncode == 0
    assert "latency.p50 <= " in (small / "karat.yaml").read_text()
    assert [f.code for f in karat.validate(small / "karat.yaml").findings if f.code.startswith("K")] == []


def test_init_proposes_no_gate_that_asks_for_nothing(small: Path) -> None:
    for name in ("bad", "same"):
        (small / f"{name}.run").unlink()
    (small / "good.run").write_text("".join(f"q{i:02} Q0 x 1 2.0 t\n" for i in range(60)))
    assert run_karat("init", cwd=small).returncode == 0
    assert "recall@1 >= 0.80   # what you require of a run" in (small / "karat.yaml").read_text()
    assert run_karat("check", cwd=small).returncode == 1


def test_a_check_is_readable_in_python_and_in_a_notebook(small: Path) -> None:
    runs = {"<b>": str(small / "good.run")}
    result = karat.evaluate(
        str(small / "qrels.txt"), runs, "mrr", queries=str(small / "queries.jsonl"), by=["language"]
    )
    found = karat.check(result, ["mrr >= 0.5", "warn: mrr >= 0.99", "mrr >= 0.5 for every language"])
    assert found.gates == found.rows
    lines = str(found).splitlines()
    assert lines[0] == "SHIP: both gates pass; 1 warning" and len(lines) == 2 + 5 + 1
    unjudged = "docs in the top 10 that nobody judged (counted as not relevant): <b> 540 of 600"
    assert lines[-1] == found.remarks[0].text == unjudged
    # 54 of 60 at once, 6 second: (54 + 3) / 60 = .95
    assert lines[2].split() == ["pass", "<b>", "mrr", ">=", "0.5", "0.9500", *lines[2].split()[6:8], "60"]
    assert lines[3].startswith("fail (warning)")
    assert "(language = de)" in lines[4]
    page = found._repr_html_()
    assert "<td>&lt;b&gt;</td>" in page and "<td><b></td>" not in page and page.count("<tr>") == 6


def test_init_knows_case_files_and_results_of_chroma(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terms = ("HP:0001250", "HP:0004322", "HP:0000252", "HP:0001251")
    for code, order in (("de", terms), ("en", terms[::-1])):
        rows = [
            {"case_id": f"{code}-{i}", "text": f"{code} {i}", "expected_ids": [order[i % 4]], "category": kind}
            for i, kind in enumerate(("synonym", "layperson") * 10)
        ]
        (tmp_path / code).mkdir()
        (tmp_path / code / "small_v1.json").write_text(json.dumps({"metadata": {"language": code}, "test_cases": rows}))
        found = [row["expected_ids"][0] if i % 5 else "HP:0000118" for i, row in enumerate(rows)]
        batch = {"ids": [[f"{t}_0"] for t in found], "metadatas": [[{"hpo_id": t}] for t in found]}
        (tmp_path / f"chroma_{code}.json").write_text(json.dumps(batch))
    (tmp_path / "notes.json").write_text('{"ids": 3, "names": ["a"]}')
    monkeypatch.chdir(tmp_path)
    text = karat.init(".")
    assert "  qrels: de/small_v1.json\n  # qrels: en/small_v1.json\n  ontology: hpo " in text
    assert "runs:\n  chroma_de: chroma_de.json\n\n" in text
    assert "'max_ont_sim@{1,5,10}'" in text and "segments: [category]" in text and "  - hit@1 >= 0.5" in text
    Path("ci.yaml").write_text(text)
    done = run_karat("check", "-c", "ci.yaml", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("SHIP"), done.stdout + done.stderr
    done = run_karat("check", "other.yaml", "-c", "ci.yaml", cwd=tmp_path)
    assert done.returncode == 2 and "two configs are named, other.yaml and ci.yaml; expected one" in done.stderr


def test_init_in_an_empty_folder_writes_a_config_to_fill_in(tmp_path: Path) -> None:
    done = run_karat("init", cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        0,
        "found neither gold nor runs here; fill in gold (dataset.qrels) and runs",
    )
    done = run_karat("check", cwd=tmp_path)
    assert done.returncode == 2 and "runs/main.jsonl" in done.stderr


def test_init_without_runs_says_how_to_make_one(tmp_path: Path) -> None:
    done = run_karat("init", cwd=tmp_path)
    assert done.stdout.splitlines()[1] == (
        "wrote ./karat.yaml; look through it, write what your system returned to runs/main.jsonl, then run: karat check"
    )
    folder = tmp_path / "data"
    folder.mkdir()
    words = ["wing", "heat", "shock", "wave"]
    lines = {
        "corpus.jsonl": [{"_id": f"d{i}", "text": f"the {word} of a body"} for i, word in enumerate(words)],
        "queries.jsonl": [{"_id": f"q{i}", "text": word} for i, word in enumerate(words)],
    }
    for name, rows in lines.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "qrels.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(4)))
    step = run_karat("init", "data", cwd=tmp_path).stdout.splitlines()[1]
    begin, bench, check = re.split(r": (?=karat )|, and check it: ", step)
    assert begin == "wrote data/karat.yaml; look through it, then make a first run"
    for command in (bench, check):
        done = run_karat(*command.split()[1:], cwd=tmp_path)
        assert done.returncode in (0, 1, 3), done.stderr


def test_init_prints_the_schema(tmp_path: Path) -> None:
    published = SCHEMAS / "config.schema.json"
    assert json.loads(run_karat("init", "--schema", cwd=tmp_path).stdout) == json.loads(published.read_text("utf-8"))


def linted(folder: Path, **parts_of: Any) -> list[tuple[str, str]]:
    found = karat.validate(files=[str(config(folder, **parts_of))])
    return [(f.code, f.message) for f in found.findings if f.code.startswith("K")]


def test_the_linter_checks_configs_and_all_that_they_name(small: Path) -> None:
    assert linted(small, **parts(gates=["mrr >= 0.5"])) == []
    ((code, told),) = linted(small, **parts(gates=["mrrr >= 0.5"]))
    assert code == "K601" and "unknown metric 'mrrr'" in told
    ((code, told),) = linted(small, **parts(gates=["mrr >= 0.5"], dataset={"qrels": "gone.txt"}))
    assert code == "K602" and "gone.txt" in told
    ((code, told),) = linted(small, **parts(gates=["mrr >= 0.5 for every colour"]))
    assert code == "K603" and "'colour'" in told
    assert [code for code, _ in linted(small, **parts())] == ["K604"]
    (small / "good.run").write_text("q00 Q0 d0 1 nan t\n")
    codes = [f.code for f in karat.validate(files=[str(small / "karat.yaml")]).findings]
    assert "F001" in codes


@pytest.mark.parametrize(
    ("gate", "told"),
    [
        # All 60 of 60 hits have a Clopper–Pearson bound of .025^(1/60) = .940: .95 takes 72 queries.
        ("hit@1 >= 0.95", "takes about 72 queries; there are 60 queries"),
        ("hit@1 >= 0.93", ""),
        ("hit@1 >= 0.95 at the mean", ""),
        ("mrr >= 0.5 for every topic", "topic=t1 has 4 queries; at least 10 are needed to judge it"),
        ("mrr >= 0.5 for every topic of at least 10", ""),
        ("hit@1 >= 0.9 where language = de", "takes about 36 queries; there are 20 queries where language=de"),
        # Differences of 0 and .5 with a spread of .246: ((1.96 + .84) × .246 / .01)^2 is about 4,750, and the interval
        # that judges allows for a query that nobody has seen.
        ("mrr no worse than bad by 0.01", "takes about 5,000"),
        ("mrr no worse than bad by 0.2", ""),
    ],
)
def test_the_linter_says_how_many_queries_a_gate_takes(small: Path, gate: str, told: str) -> None:
    found = linted(small, **parts(runs={"good": "good.run", "bad": "bad.run"}, candidate="good", gates=[gate]))
    assert [code for code, _ in found] == (["K610"] if told else [])
    assert all(told in message for _, message in found)


def test_the_linter_misses_the_data_of_gates(small: Path) -> None:
    config(small, runs={"good": "good.run"}, gates=["mrr >= 0.5"])
    found = karat.validate(files=[str(small / "karat.yaml")]).findings
    assert [f.code for f in found] == ["K601"]
    assert "no dataset; expected dataset and runs, or a saved result under 'result'" in found[0].message


def test_a_gate_above_what_queries_without_relevant_docs_allow_names_them(small: Path) -> None:
    with (small / "qrels.txt").open("a") as file:
        file.write("".join(f"e{i} 0 d 0\n" for i in range(6)))
    config(small, **parts(gates=["ndcg@10 >= 0.99"]))
    done = run_karat("check", cwd=small)
    assert done.returncode == 2 and "6 queries have no relevant doc in the gold (--empty-gold skip" in done.stderr


def test_the_linter_plans_with_the_queries_conversations_and_interval_that_judge(small: Path) -> None:
    """Queries that a metric has no value for do not count; those of one conversation count as few; looks as they do."""
    runs = {"runs": {"good": "good.run", "bad": "bad.run"}, "candidate": "good"}
    gate = "mrr no worse than bad by 0.1"
    ((_, alone),) = linted(small, **parts(**runs, gates=[gate]))
    assert "there are 60 queries" in alone
    queries = [json.loads(line) for line in (small / "queries.jsonl").read_text("utf-8").splitlines()]
    for i, query in enumerate(queries):
        query |= {"conversation": f"c{i % 15}", "weight": 1 + i % 7, "added": f"2026-01-{1 + i % 28:02}"}
    (small / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    ((_, talks),) = linted(small, **parts(**runs, gates=[gate]))
    count = [int(text.partition("takes about ")[2].partition(" ")[0]) for text in (alone, talks)]
    assert count[1] > 1.5 * count[0]
    looks = linted(small, **parts(**runs, gates=["mrr >= 0.1"], confidence={"sequential": True}))
    assert [code for code, _ in looks] == ["K610"] and "holds at every look" in looks[0][1]


# --- Refusals, damaged baselines, bless ----------------------------------------------------------------------------


def refused(folder: Path) -> str:
    with pytest.raises(NotComparable) as caught:
        karat.check(str(folder / "karat.yaml"))
    return str(caught.value)


def test_a_config_that_lacks_the_queries_of_the_baseline_is_told_to_name_them(small: Path) -> None:
    blessed(small)
    dataset = {"qrels": "qrels.txt"}
    config(small, **parts(dataset=dataset, baseline="base.json", gates=["mrr no worse than baseline by 0.05"]))
    message = refused(small)
    assert "queries: none given here, 60 queries" in message
    assert "\nname the queries (dataset.queries or --queries); --force compares all the same" in message
    with (small / "qrels.txt").open("a") as file:
        file.write("q00 0 y 0\n")
    todo = "bless the system that is in production with the gold used here"
    assert f"name the queries (dataset.queries or --queries); {todo}" in refused(small)


def test_a_refusal_names_files_and_counts_and_never_the_candidate_to_bless(small: Path) -> None:
    base = blessed(small)
    with (small / "qrels.txt").open("a") as file:
        file.write("q00 0 y 0\n")
    told = refused(small)
    assert (
        f"good cannot be compared with the baseline: gold: 60 queries with 61 judgments here ({small / 'qrels.txt'}), "
        f"60 queries with 60 judgments in the baseline ({base})"
    ) in told
    assert "bless the system that is in production with the gold used here, then compare; --force" in told
    assert "make a new baseline" not in told


def test_a_refusal_names_the_field_of_the_queries_that_differs(small: Path) -> None:
    blessed(small)
    rows = [json.loads(line) for line in (small / "queries.jsonl").read_text().splitlines()]
    (small / "queries.jsonl").write_text("".join(json.dumps({**r, "weight": 2}) + "\n" for r in rows))
    told = refused(small)
    assert "queries: weight differs: 60 queries (" in told and str(small / "queries.jsonl") in told
    (small / "queries.jsonl").write_text("".join(json.dumps({**r, "topic": "x"}) + "\n" for r in rows))
    assert karat.check(str(small / "karat.yaml"))  # a field to slice by changes no result


def test_a_baseline_of_an_older_version_is_compared_by_its_hash(small: Path) -> None:
    base = blessed(small)
    document = {**json.loads(base.read_text()), "format_version": 1}
    for name in ("gold", "queries"):
        document["fingerprints"][name] = document["fingerprints"][name]["hash"]
    base.write_text(json.dumps(document))
    assert karat.check(str(small / "karat.yaml"))
    document["fingerprints"]["gold"] = "0123456789abcdef"
    base.write_text(json.dumps(document))
    assert "0123456789abcdef in the baseline" in refused(small)


def _without_a_query(d: dict[str, Any]) -> None:
    d["values"].pop("q00")


def _with_another_value(d: dict[str, Any]) -> None:
    d["values"]["q00"][0] -= 1e-6  # the mean of 60 moves by 1.7e-8


def _with_another_mean(d: dict[str, Any]) -> None:
    d["runs"][0]["metrics"]["mrr"]["mean"] += 0.01


def _with_a_short_row(d: dict[str, Any]) -> None:
    d["values"]["q00"].pop()


def _without_a_metric(d: dict[str, Any]) -> None:
    d["runs"][0]["metrics"].pop("mrr")


def _with_text(d: dict[str, Any]) -> None:
    d["values"]["q00"][0] = "one"


def _without_values(d: dict[str, Any]) -> None:
    d.pop("values")


@pytest.mark.parametrize(
    "damage",
    [
        _without_a_query,
        _with_another_value,
        _with_another_mean,
        _with_a_short_row,
        _without_a_metric,
        _with_text,
        _without_values,
    ],
)
def test_a_damaged_baseline_is_refused(small: Path, damage: Any) -> None:
    base = small / "base.json"
    karat.bless(karat.evaluate(str(small / "qrels.txt"), str(small / "good.run"), "mrr,hit@1"), str(base))
    from karat.results.saved import load_baseline

    document = json.loads(base.read_text())
    assert load_baseline(str(base)).mean["mrr"] == pytest.approx(57 / 60)
    damage(document)
    base.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"base\.json: .*changed by hand or by a merge; bless again"):
        load_baseline(str(base))


def test_a_baseline_of_weighted_queries_adds_up(small: Path) -> None:
    table = {f"q{i:02}": {"weight": i % 4} for i in range(60)}
    result = karat.evaluate(str(small / "qrels.txt"), str(small / "good.run"), "mrr,hit@1", queries=table)
    karat.bless(result, str(small / "base.json"))
    from karat.results.saved import load_baseline

    assert load_baseline(str(small / "base.json")).mean["mrr"] == pytest.approx(result.mean["mrr"], abs=1e-11)


def test_a_saved_result_without_the_baseline_of_the_config_says_so(small: Path) -> None:
    result = karat.evaluate(str(small / "qrels.txt"), {"good": str(small / "good.run")}, "mrr")
    result.save(str(small / "result.json"))
    config(small, **parts(runs={"good": "good.run", "prod": "bad.run"}, baseline="prod", gates=["mrr >= 0.5"]))
    done = run_karat("check", "--result", "result.json", cwd=small)
    assert done.returncode == 2
    assert (
        "karat.yaml:1: the saved result does not hold the baseline 'prod', only good; evaluate and save both, or name "
        "a file that `karat bless` wrote (--baseline)"
    ) in done.stderr


def test_a_gate_by_a_field_that_the_result_does_not_hold_says_how_to_get_it(small: Path) -> None:
    gold, run, table = (str(small / name) for name in ("qrels.txt", "good.run", "queries.jsonl"))
    advice = "evaluate with queries= and by='language' (--queries FILE --by language)"
    for options in ({}, {"queries": table}):
        result = karat.evaluate(gold, run, "mrr", **options)
        for gate in ("mrr >= 0.5 for every language", "mrr >= 0.5 where language = de"):
            with pytest.raises(InputError) as error:
                karat.check(result, [gate])
            assert str(error.value) == f"gate '{gate}': the result holds no field 'language'; {advice}"
    result = karat.evaluate(gold, run, "mrr", queries=table, by=["language", "topic"])
    with pytest.raises(InputError, match="the queries of the result are not sliced by language,topic; evaluate with"):
        karat.check(result, ["mrr >= 0.5 for every language, topic"])


def test_the_footer_of_a_saved_result_does_not_call_it_gold(small: Path) -> None:
    karat.evaluate(str(small / "qrels.txt"), str(small / "good.run"), "mrr").save(str(small / "result.json"))
    done = run_karat("check", "--result", "result.json", "--gate", "mrr >= 0.5", cwd=small)
    assert " · saved result result.json · " in done.stdout and "gold result.json" not in done.stdout


def bless_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_karat("bless", *arguments, cwd=folder)


def test_bless_takes_the_candidate_or_asks_and_says_what_it_changes(small: Path) -> None:
    two = {"good": "good.run", "bad": "bad.run"}
    config(small, **parts(runs=two, baseline="bad", gates=["mrr >= 0.5"]))
    done = bless_in(small)
    assert done.returncode == 2 and "there are 2 runs: good, bad; choose the one to bless with --run" in done.stderr
    config(small, **parts(runs=two, baseline="bad", candidate="good", gates=["mrr >= 0.5"]))
    done = bless_in(small)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "karat.baseline.json: good is the baseline (2 metrics, 60 queries)",
        "karat.yaml:1 names bad; to compare with this file, replace that line with:",
        "baseline: karat.baseline.json",
    ]
    (small / "karat.yaml").write_text("runs: {good: good.run}\ndataset: {qrels: qrels.txt}\n")
    assert bless_in(small).stdout.splitlines()[-2:] == [
        "karat.yaml does not name it yet; put this line there:",
        "baseline: karat.baseline.json",
    ]
    config(small, **parts(runs=two, baseline="karat.baseline.json", candidate="bad", gates=["mrr >= 0.5"]))
    # mrr of good is (54 + 6/2)/60 = .95, that of bad (18 + 42/2)/60 = .65.
    assert bless_in(small).stdout.splitlines() == [
        "karat.baseline.json: bad is the baseline (2 metrics, 60 queries)",
        "mrr 0.9500 → 0.6500 (Δ -0.3000); 60 queries, 60 before; good before",
    ]


def test_bless_counts_the_queries_of_the_metric_that_it_names(tmp_path: Path) -> None:
    """Latency is of all 33 lines, mrr of the 30 queries with gold: no query vanishes with latency."""
    gold = {f"q{i}": {"a": 1} for i in range(30)}
    lines = (
        {"query_id": f"q{i}", "topk": [{"doc_id": "a", "rank": 1}], "latency_ms": {"retrieve": 5.0 + i}}
        for i in range(33)
    )
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    full = karat.evaluate(gold, str(tmp_path / "run.jsonl"), "mrr,latency.mean")
    assert len(full.runs[0].query_ids) == 33
    karat.bless(full, path := str(tmp_path / "b.json"))
    less = karat.evaluate(gold, str(tmp_path / "run.jsonl"), "mrr")
    assert Blessing(less, "run", path).changes(path) == "mrr 1.0000, unchanged; 30 queries, 30 before"


def test_a_baseline_from_a_file_and_a_run_of_its_name_are_two_things(small: Path) -> None:
    base = blessed(small)  # of good
    runs = {"same": str(small / "same.run"), "good": str(small / "bad.run")}
    table = str(small / "queries.jsonl")
    result = karat.evaluate(str(small / "qrels.txt"), runs, "mrr,hit@1", queries=table)
    gates = ["mrr no worse than baseline by 0.1", "mrr no worse than good by 0.1"]
    found = karat.check(result, gates, baseline=str(base), candidate="same")
    # The file holds .95, as same does; the run that is called good here has .65.
    assert [row.found.estimate for row in found.rows] == pytest.approx([0, 0.3])


def test_a_run_is_not_compared_with_itself() -> None:
    gold = {f"q{i}": ["a"] for i in range(30)}
    result = karat.evaluate(gold, {"good": {q: ["a"] for q in gold}, "bad": {q: ["x", "a"] for q in gold}}, "mrr")
    with pytest.raises(karat.InputError, match="'bad' would be compared with itself"):
        karat.check(result, ["mrr no worse than bad by 0.01"], candidate="bad")
    with pytest.raises(karat.InputError, match="'bad' is the baseline and a candidate"):
        karat.check(result, ["mrr >= 0.1"], candidate="bad", baseline="bad")


def test_a_baseline_of_the_same_name_is_called_the_baseline(tmp_path: Path) -> None:
    gold = {f"q{i}": ["a"] for i in range(30)}
    old = karat.bless(karat.evaluate(gold, {"main": {q: ["a"] for q in gold}}, "mrr"), str(tmp_path / "b.json"))
    worse = karat.evaluate(gold, {"main": {q: ["x", "a"] for q in gold}}, "mrr")
    decision = karat.check(worse, ["mrr >= 0.1 at any depth"], baseline=old).comparisons[0]
    assert "main is worse than the baseline" in decision.statement


def test_a_saved_result_is_no_config(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small)
    karat.evaluate({"q": {"a": 1}}, {"r": {"q": ["a"]}}, "mrr").save("saved.json")
    with pytest.raises(karat.InputError, match=r"saved.json: is a saved result, expected a config .*--result FILE"):
        karat.check("saved.json", ["mrr > 0"])


def test_a_convention_that_changes_grades_is_named_where_the_gold_differs(tmp_path: Path) -> None:
    gold, run = {"q": {"a": 3, "b": 1}}, {"r": {"q": ["a", "b"]}}
    karat.bless(karat.evaluate(gold, run, "ndcg@10"), str(tmp_path / "base.json"))
    binary = karat.evaluate(gold, run, "ndcg@10", binary=True)
    with pytest.raises(karat.InputError) as error:
        karat.check(binary, ["ndcg@10 no worse than baseline by 0.5"], baseline=str(tmp_path / "base.json"))
    assert "the convention binary changes grades" in str(error.value)
    assert "as many judgments" not in str(error.value)


# ---- init beside what Karat wrote, elsewhere, and without a run ----


def wide_gold(folder: Path) -> None:
    """20 queries with 16 relevant docs each: recall@10 cannot reach 0.8."""
    folder.mkdir()
    (folder / "queries.jsonl").write_text("".join(f'{{"_id": "q{i}", "text": "what is {i}?"}}\n' for i in range(20)))
    (folder / "corpus.jsonl").write_text("".join(f'{{"_id": "d{i}", "text": "it is {i}"}}\n' for i in range(40)))
    rows = [f"q{i}\td{(i + j) % 40}\t1\n" for i in range(20) for j in range(16)]
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))


def test_init_does_not_take_values_per_query_for_the_queries(tmp_path: Path) -> None:
    wide_gold(tmp_path / "data")
    rows = [f"main,q{i},{metric},0.5\n" for metric in ("mrr", "map") for i in range(20)]
    (tmp_path / "data/a.csv").write_text("run,query_id,metric,value\n" + "".join(rows))
    assert "queries: queries.jsonl" in karat.init(str(tmp_path / "data"))


def test_paths_of_init_are_relative_to_the_file_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide_gold(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    for place, qrels in (("karat.yaml", "data/qrels.tsv"), ("ci/x.yaml", "../data/qrels.tsv")):
        Path(place).parent.mkdir(exist_ok=True)
        done = CliRunner().invoke(app, ["init", "data", "-o", place])
        assert done.exit_code == 0, done.output
        assert f"qrels: {qrels}" in Path(place).read_text()


def test_the_gate_of_init_without_runs_can_pass_and_validate_names_one_that_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide_gold(tmp_path / "data")
    monkeypatch.chdir(tmp_path / "data")
    assert CliRunner().invoke(app, ["init"]).exit_code == 0
    assert (
        CliRunner().invoke(app, ["bench", "-d", "karat.yaml", "-r", "main=bm25", "-o", "runs", "--no-html"]).exit_code
        == 0
    )
    assert CliRunner().invoke(app, ["check"]).exit_code in (0, 1, 3)
    text = Path("karat.yaml").read_text()
    assert "ndcg@10 >= 0.80" in text
    Path("karat.yaml").write_text(text.replace("ndcg@10 >= 0.80", "recall@10 >= 0.80"))
    assert CliRunner().invoke(app, ["check"]).exit_code != 0  # refused
    found = CliRunner().invoke(app, ["validate", "karat.yaml"])
    assert "can never pass: the gold allows at most 0.625" in found.output
    assert found.exit_code == 1


def test_the_primary_metric_is_the_first_asked_for_in_a_check_too() -> None:
    gold = {f"q{i}": {"a": 1} for i in range(12)}
    runs = {"old": {q: ["x", "a"] for q in gold}, "new": {q: ["a", "x"] for q in gold}}
    result = karat.evaluate(gold, runs, "mrr,hit@1")
    found = karat.check(result, ["hit@1 better than baseline"], baseline="old")
    assert [row.metric for row in found.comparisons if row.primary] == ["mrr"]
    assert [row.metric for row in karat.compare(gold, runs, "mrr,hit@1").rows if row.primary] == ["mrr"]
