"""What a run says itself (latency, cost, dates, lists) is over all its queries, with gold or without."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import karat
from command import run_karat as command
from karat.read import log_blocks

if TYPE_CHECKING:
    from pathlib import Path

QUERIES, MARKED = 400, 100
EMPTY = "nothing was returned for 1 judged query"
BUDGET = "latency.p90,cost.tokens,cost.tokens.sum"


def is_marked(i: int) -> bool:
    return i % 4 == 0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """400 lines: 300 with gold (10–16 ms, 5 tokens), 100 marked no_answer (1,300 ms, 5,000 tokens)."""
    log, gold, queries = [], [], []
    for i in range(QUERIES):
        q, marked = f"q{i:03}", is_marked(i)
        topk = [{"rank": r + 1, "chunk_id": f"d{i}-{r}", "score": 5.0 - r} for r in range(5)]
        amounts = {"latency_ms": {"search": 1300 if marked else 10 + i % 7}, "cost": {"tokens": 5000 if marked else 5}}
        log.append(
            json.dumps({"query_id": q, "topk": [] if i == 7 else topk, "route": "faq" if i % 2 else "docs", **amounts})
        )
        queries.append(json.dumps({"_id": q, "text": "?", "no_answer": marked, "language": "es" if i % 3 else "pt"}))
        if not marked:
            gold.append(f"{q} 0 d{i}-{i % 3} 1")
    for name, lines in (("log.jsonl", log), ("gold.txt", gold), ("queries.jsonl", queries)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path


def evaluate(project: Path, metrics: str | None, **options: Any) -> karat.Result:
    return karat.evaluate(
        str(project / "gold.txt"),
        str(project / "log.jsonl"),
        metrics,
        queries=str(project / "queries.jsonl"),
        **options,
    )


def test_latency_and_cost_are_over_all_lines_of_the_log(project: Path) -> None:
    result = evaluate(project, f"{BUDGET},mrr")
    # A quarter of the queries takes 1,300 ms: p90 is one of them. (300 · 5 + 100 · 5,000) / 400 = 1,253.75.
    assert [result.mean[m] for m in BUDGET.split(",")] == [1300, 1253.75, 501_500]
    assert [result.n[m] for m in BUDGET.split(",")] == [QUERIES] * 3
    assert result.n["mrr"] == QUERIES - MARKED


def test_nothing_is_said_of_queries_that_are_marked_no_answer(project: Path) -> None:
    result = evaluate(project, f"{BUDGET},mrr", by="language")
    assert (result.counts["queries"], result.counts["no_answer"], result.counts["without_gold"]) == (300, 100, 0)
    assert not [n for n in result.notes if "without gold" in n or "no value" in n]


def test_queries_without_gold_are_left_out_of_relevance_alone(project: Path) -> None:
    lines = (project / "queries.jsonl").read_text().replace('"no_answer": true, ', "")
    (project / "queries.jsonl").write_text(lines)
    assert "100 queries without gold: left out of metrics that need gold" in evaluate(project, "mrr,latency.p90").notes
    assert "100 queries without gold: left out" in evaluate(project, "mrr").notes
    empty, *others = evaluate(project, "latency.p90").notes
    assert empty == EMPTY and not any("without gold" in text for text in others)


def test_a_segment_holds_its_queries_without_gold(project: Path) -> None:
    result = evaluate(project, "latency.p90,mrr", by="language")
    sizes = {s.by["language"]: (s.metrics["latency.p90"].n, s.metrics["mrr"].n) for s in result.segments}
    in_pt = [i for i in range(QUERIES) if i % 3 == 0]
    answered = [i for i in in_pt if not is_marked(i)]
    assert sizes == {"pt": (len(in_pt), len(answered)), "es": (400 - len(in_pt), 300 - len(answered))}
    assert [s.metrics["latency.p90"].estimate for s in result.segments] == [1300, 1300]


def test_a_latency_gate_sees_the_slow_queries_without_gold(project: Path) -> None:
    result = evaluate(project, f"{BUDGET},mrr")
    assert karat.check(result, ["latency.p90 <= 60ms", "cost.tokens <= 100"]).verdict == "BLOCK"


@pytest.mark.parametrize("metric", ["latency.p90", "cost.tokens", "cost.tokens.sum"])
@pytest.mark.parametrize("margin", ["1%", "1"])
def test_a_log_against_itself_says_nothing_of_other_lines_whatever_the_margin(
    project: Path, metric: str, margin: str
) -> None:
    result = evaluate(project, BUDGET)
    baseline = karat.bless(result, str(project / "base.json"))
    check = karat.check(result, [f"{metric} no worse than baseline by {margin}"], baseline=baseline)
    assert check.verdict == "INCONCLUSIVE" and "without spread nothing says how far other queries may be" in check.why


def test_a_saved_result_and_a_blessed_one_say_the_same(project: Path) -> None:
    fresh = evaluate(project, f"{BUDGET},mrr", by="language", details=True)
    fresh.save(str(project / "saved.json"))
    again = karat.load(str(project / "saved.json"))
    assert again.as_json() == fresh.as_json()
    gates = ["latency.p90 <= 60ms", "cost.tokens no worse than baseline by 1 for every language"]
    baseline = karat.bless(fresh, str(project / "base.json"))
    first, second = (karat.check(r, gates, baseline=baseline).as_json() for r in (fresh, again))
    assert first["gates"] == second["gates"]
    assert [g["n"] for g in first["gates"]] == [400, 266, 134]
    assert karat.compare(fresh, again)["latency.p90"].n == QUERIES


def test_two_logs_are_paired_over_the_lines_that_both_have(project: Path) -> None:
    lines = (project / "log.jsonl").read_text().splitlines()
    (project / "short.jsonl").write_text("\n".join(lines[:200]))
    runs = [str(project / "log.jsonl"), str(project / "short.jsonl")]
    found = karat.compare(str(project / "gold.txt"), runs, "cost.tokens,mrr", queries=str(project / "queries.jsonl"))
    assert (found["cost.tokens"].n, found["mrr"].n) == (200, 300)  # mrr: what the run lacks scores 0


def test_distinct_docs_and_dates_count_queries_without_gold(tmp_path: Path) -> None:
    items = [{"chunk_id": "d1#0", "doc_version": "2024-01-01"}, {"chunk_id": "d1#1", "doc_version": "2025-06-01"}]
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps({"query_id": q, "topk": items[:n]}) for q, n in (("a", 1), ("b", 2))))
    table = {q: {"as_of": "2025-01-01"} for q in "ab"}
    metrics = "fresh@5,distinct_docs@5,redundancy@5"
    result = karat.evaluate({"a": {"d1#0": 1}}, str(log), metrics, queries=table)
    assert result.per_query("fresh@5") == {"a": 1, "b": 0.5}
    assert result.per_query("distinct_docs@5") == {"a": 1, "b": 1}
    assert result.per_query("redundancy@5") == {"a": 0, "b": 0.5}


@pytest.mark.parametrize("shape", ["dict", "file", "frame"])
def test_every_kind_of_run_counts_its_queries_without_gold(tmp_path: Path, shape: str) -> None:
    lists = {"a": {"x#1": 3.0, "x#2": 2.0}, "b": {"y#1": 9.0, "z#1": 5.0}}
    rows = [(q, d, s) for q, docs in lists.items() for d, s in docs.items()]
    run: Any = lists
    if shape == "file":
        run = str(tmp_path / "r.run")
        (tmp_path / "r.run").write_text("".join(f"{q} Q0 {d} 0 {s} t\n" for q, d, s in rows))
    elif shape == "frame":
        run = pytest.importorskip("pandas").DataFrame(rows, columns=["query_id", "chunk_id", "score"])
    result = karat.evaluate({"a": {"x#1": 1}}, run, "distinct_docs@5,score_spread@5,mrr")
    assert result.per_query("distinct_docs@5") == {"a": 1, "b": 2}
    assert result.per_query("score_spread@5") == {"a": 1, "b": 4}
    alone = karat.evaluate(None, run)
    assert alone.per_query("distinct_docs@10") == {"a": 1, "b": 2}
    assert alone.per_query("score_spread@10") == {"a": 1, "b": 4}


# --- without any gold -----------------------------------------------------------------------------------


def test_a_log_alone_is_measured_by_what_it_says(project: Path) -> None:
    result = karat.evaluate(None, str(project / "log.jsonl"))
    names = ("latency.p50", "latency.p90", "latency.p95", "cost.tokens", "empty_results", "distinct_docs@10")
    assert result.metrics == (*names, "redundancy@10", "score_spread@10")
    assert (result.mean["latency.p90"], result.mean["empty_results"], result.mean["score_spread@10"]) == (
        1300,
        1 / 400,
        4,
    )
    assert result.counts["queries"] == QUERIES
    assert result.counts["without_gold"] == result.counts["empty_gold"] == result.counts["unjudged_at_10"] == 0
    lacking = [f"{name}: 1 of 400 queries has no value" for name in ("redundancy@10", "score_spread@10")]
    assert result.notes == (EMPTY.replace("judged ", ""), 'routes of 400 queries: "docs" 200, "faq" 200', *lacking)


def test_metrics_of_relevance_need_gold(project: Path) -> None:
    with pytest.raises(karat.InputError, match=r"^ndcg@10, mrr need gold, and there is none; name the gold too"):
        karat.evaluate(None, str(project / "log.jsonl"), "ndcg@10,latency.p50,mrr")
    result = karat.evaluate(None, str(project / "log.jsonl"))
    with pytest.raises(karat.KaratError, match="needs gold"):
        karat.sweep(result)


def test_a_result_without_gold_is_saved_compared_and_gated(project: Path) -> None:
    fresh = karat.evaluate(None, str(project / "log.jsonl"), details=True)
    fresh.save(str(project / "a.json"))
    again = karat.load(str(project / "a.json"))
    assert again.as_json() == fresh.as_json()
    assert karat.compare(str(project / "a.json"), str(project / "a.json"))["latency.p90"].delta == 0
    assert karat.check(again, ["latency.p90 <= 2s", "empty_results <= 5%"]).verdict == "SHIP"
    with pytest.raises(karat.NotComparable, match="gold: none given here"):
        karat.compare(evaluate(project, "latency.p90"), again, "latency.p90")


def test_the_command_takes_a_log_alone(project: Path) -> None:
    alone = command("evaluate", "log.jsonl", cwd=project)
    assert alone.returncode == 0, alone.stderr
    assert "400 queries · no gold" in alone.stdout
    assert "latency.p90" in alone.stdout
    (project / "other.jsonl").write_text((project / "log.jsonl").read_text())
    several = command("evaluate", "--no-gold", "log.jsonl", "two=other.jsonl", "--json", "-", cwd=project)
    assert [r["name"] for r in json.loads(several.stdout)["runs"]] == ["log", "two"]
    page = command(
        "evaluate", "--no-gold", "log.jsonl", "--html", "r.html", "--markdown", "r.md", "--latex", "r.tex", cwd=project
    )
    assert page.returncode == 0, page.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("gold.txt",), "without gold: karat evaluate --no-gold RUN"),
        (("--no-gold",), "name at least one run"),
        (("--no-gold", "log.jsonl", "--components"), "which need gold"),
        (("log.jsonl", "-m", "recall@5"), "recall@5 needs gold"),
    ],
)
def test_the_command_says_what_is_missing(project: Path, arguments: tuple[str, ...], told: str) -> None:
    done = command("evaluate", *arguments, cwd=project)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.split())


def test_validate_does_not_ask_for_judgments_of_queries_without_an_answer(project: Path) -> None:
    done = command("validate", "gold.txt", "queries.jsonl", "log.jsonl", cwd=project)
    assert "X505" not in done.stdout


def test_runs_are_compared_without_gold(project: Path) -> None:
    lines = (project / "log.jsonl").read_text().splitlines(keepends=True)
    slow = "".join(line.replace('"search": 1300', f'"search": {2400 + i}') for i, line in enumerate(lines))
    (project / "slow.jsonl").write_text(slow)
    done = command("compare", "--no-gold", "log.jsonl", "slow.jsonl", "-m", "latency.p90,distinct_docs@5", cwd=project)
    assert done.returncode == 0 and "latency.p90: slow is worse than log, Δ +1," in done.stdout
    assert "distinct_docs@5: all 400 differences are 0, and without spread nothing says how far" in done.stdout
    refused = command("compare", "--no-gold", "log.jsonl", "slow.jsonl", "-m", "mrr", cwd=project)
    assert refused.returncode == 2 and "mrr needs gold, and there is none" in refused.stderr
    for verb in ("evaluate", "compare"):
        lost = command(verb, "log.jsonl", "slow.jsonl", cwd=project)
        assert lost.returncode == 2 and "Without gold, runs are measured by --no-gold" in lost.stderr


def test_a_report_of_a_run_log_says_what_file_is_expected(project: Path) -> None:
    done = command("report", "log.jsonl", cwd=project)
    assert done.stderr == (
        "karat: log.jsonl: is a run log, not a saved result; expected what `--save` writes, such as: "
        "karat evaluate QRELS RUN --save result.json\n"
    )
    assert command("report", "gold.txt", cwd=project).stderr.startswith("karat: gold.txt: is not a saved result; exp")


def test_run_logs_with_latency_add_their_panel_to_the_default_metrics(project: Path) -> None:
    panel = ("distinct_docs@5", "latency.p50", "latency.p90")
    result = evaluate(project, None)
    assert result.metrics[-3:] == panel and result.metrics[-4] == "map@10"
    assert result.n["latency.p90"] == QUERIES and result.n["mrr"] == QUERIES - MARKED
    log = karat.read_run(str(project / "log.jsonl"))
    assert karat.evaluate(str(project / "gold.txt"), log).metrics[-3:] == panel
    assert evaluate(project, None, ks=[3]).metrics[-3:] == ("distinct_docs@3", "latency.p50", "latency.p90")
    lists = {"q001": ["a"]}
    for other in (lists, {"log": str(project / "log.jsonl"), "lists": karat.read_run(lists)}):
        assert "latency.p50" not in karat.evaluate(str(project / "gold.txt"), other).metrics


SKIP = "or evaluate again with --missing skip to judge the others alone"


@pytest.mark.parametrize(
    ("gate", "outcome", "why"),
    [
        (
            "cost.tokens.sum <= 501500",
            "undecided",
            "1 query has no cost (tokens), so the total may be larger; log it too",
        ),
        (
            "cost.tokens.sum >= 600000",
            "undecided",
            "1 query has no cost (tokens), so the total may be larger; log it too",
        ),
        ("cost.tokens.sum <= 500000", "fail", "the total is above the threshold of 500000"),
        ("cost.tokens.sum >= 500000", "pass", "the total is on the right side"),
    ],
)
def test_a_total_without_all_queries_may_be_larger(project: Path, gate: str, outcome: str, why: str) -> None:
    lines = (project / "log.jsonl").read_text().splitlines()
    (project / "log.jsonl").write_text("\n".join(lines[:-1]) + "\n")  # the last one has gold, and takes 5 tokens
    (row,) = karat.check(evaluate(project, "cost.tokens.sum"), [gate]).rows
    assert (row.found.estimate, row.outcome, row.judged.why) == (501_495, outcome, why)


def test_too_few_queries_to_bound_a_quantile_say_how_many_more(project: Path) -> None:
    lines = [json.loads(line) for line in (project / "log.jsonl").read_text().splitlines()]
    for line in lines[5:]:
        del line["latency_ms"]
    (project / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (row,) = karat.check(evaluate(project, "latency.p50"), ["latency.p50 <= 2s"]).rows
    assert (row.outcome, row.judged.why, row.judged.more) == ("undecided", "too few queries to bound it from above", 1)


@pytest.mark.parametrize(
    ("lines", "outcome", "why"),
    [
        (QUERIES // 2, "undecided", f"larger; log theirs too, {SKIP}"),
        (QUERIES - 4, "pass", "the whole interval is on the right side"),
    ],
)
def test_a_quantile_without_all_queries_may_be_larger(project: Path, lines: int, outcome: str, why: str) -> None:
    """A run that does not answer its slow queries must not look fast."""
    log = [json.loads(line) for line in (project / "log.jsonl").read_text().splitlines()][:lines]
    for i, line in enumerate(log):
        line["latency_ms"] = {"search": 30 + i % 7}
    (project / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    gold = "".join(f"q{i:03} 0 d1 1\n" for i in range(1, QUERIES + 1))
    (project / "gold.txt").write_text(gold)
    result = karat.evaluate(str(project / "gold.txt"), str(project / "log.jsonl"), metrics="latency.p90")
    (row,) = karat.check(result, ["latency.p90 <= 60ms"]).rows
    assert row.outcome == outcome and row.judged.why.endswith(why)


def test_too_few_queries_for_a_difference_of_quantiles_say_so(project: Path) -> None:
    lines = (project / "log.jsonl").read_text().splitlines(keepends=True)[:3]
    for name in ("a", "b"):
        (project / f"{name}.jsonl").write_text("".join(lines))
    runs = {name: str(project / f"{name}.jsonl") for name in ("a", "b")}
    result = karat.evaluate(None, runs, metrics="latency.p90")
    (row,) = karat.check(result, ["latency.p90 no worse than baseline by 5ms"], baseline="a").rows
    assert (row.outcome, row.judged.why) == ("undecided", "too few queries to bound both quantiles")


def test_cutoffs_that_no_metric_takes_are_named(project: Path) -> None:
    result = evaluate(project, "ndcg@10", ks=[5])
    assert "ks is not used: every metric has a cutoff of its own, or takes none" in result.runs[0].notes
    assert not any("ks is not used" in note for note in evaluate(project, "ndcg", ks=[5]).runs[0].notes)


def test_means_and_changes_of_totals_need_the_cost_of_every_query(project: Path) -> None:
    lines = (project / "log.jsonl").read_text().splitlines()
    (project / "old.jsonl").write_text("\n".join(lines) + "\n")
    cheaper = [line.replace('"tokens": ', '"tokens": 1') if i % 3 else line for i, line in enumerate(lines[:-1])]
    (project / "log.jsonl").write_text("\n".join(cheaper) + "\n")
    runs = {name: str(project / f"{name}.jsonl") for name in ("old", "log")}
    result = karat.evaluate(str(project / "gold.txt"), runs, metrics="cost.tokens.sum,cost.tokens")
    gates = ["cost.tokens.sum no worse than baseline by 9000000", "cost.tokens <= 9000000", "cost.tokens >= 1"]
    rows = karat.check(result, gates, baseline="old", candidate="log").rows
    lack = "1 query has no cost (tokens), so the value over all queries may be larger; log it too, "
    lack += SKIP
    assert [(row.outcome, row.judged.why) for row in rows[:2]] == [("undecided", lack)] * 2
    assert rows[2].outcome == "pass"


@pytest.mark.parametrize("gate", ["cost.tokens <= 9000", "cost.tokens <= 9000 at the mean", "latency.p90 <= 60ms"])
def test_the_advice_to_skip_what_is_missing_names_the_baseline_that_has_to_skip_it_too(
    project: Path, gate: str
) -> None:
    lines = [json.loads(line) for line in (project / "log.jsonl").read_text().splitlines()][:200]
    for i, line in enumerate(lines):
        line["latency_ms"] = {"search": 30 + i % 7}
    (project / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def check(missing: str, blessed: str) -> karat.Check:
        """Judged against a file that was blessed with a convention of its own."""
        metrics = "hit@1,cost.tokens,latency.p90"
        baseline = karat.bless(evaluate(project, metrics, missing=blessed), str(project / "base.json"))
        evaluate(project, metrics, missing=missing).save(str(project / "saved.json"))
        gates = [gate, "hit@1 no worse than baseline by 0.5"]
        return karat.check(karat.load(str(project / "saved.json")), gates, baseline=baseline)

    assert check("zero", "zero").rows[0].judged.why.endswith(f", {SKIP}, and bless the baseline with it too")
    with pytest.raises(karat.KaratError, match='missing: "skip" here'):
        check("skip", "zero")
    assert check("skip", "skip").rows[0].outcome == "pass"


@pytest.mark.parametrize("weight", [0, 0.01])
def test_a_query_of_no_weight_may_take_any_time(tmp_path: Path, weight: float) -> None:
    """Of 120 queries every second has neither latency nor cost: at weight 0 it changes no mean, only totals."""
    queries = {f"q{i}": {"weight": 1 if i % 2 else weight, "kind": "ab"[i % 3 % 2]} for i in range(120)}
    lines = []
    for i, q in enumerate(queries):
        amounts = {"latency_ms": {"all": 10 + i % 7}, "cost": {"tokens": 100 + i % 5}} if i % 2 else {}
        lines.append(json.dumps({"query_id": q, "topk": [{"doc_id": "d"}], **amounts}))
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n")
    gates = ["cost.tokens <= 200", "latency.mean <= 100ms at the mean", "cost.tokens <= 200 where kind = a"]
    gates.append("cost.tokens.sum <= 20000")
    result = karat.evaluate(
        {q: {"d": 1} for q in queries},
        str(tmp_path / "log.jsonl"),
        ["cost.tokens", "latency.mean", "cost.tokens.sum"],
        queries=queries,
        by="kind",
    )
    outcomes = [row.outcome for row in karat.check(result, gates).rows]
    assert outcomes == (["undecided"] * 4 if weight else ["pass"] * 3 + ["undecided"])


def test_a_change_of_a_total_needs_the_cost_of_every_line_unless_missing_is_skip(project: Path) -> None:
    lines = [json.loads(line) for line in (project / "log.jsonl").read_text().splitlines()]
    (project / "old.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for i, line in enumerate(lines):
        line["cost"]["tokens"] -= i % 3
        if i < 36:
            del line["cost"]
    (project / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    runs = {name: str(project / f"{name}.jsonl") for name in ("old", "log")}
    text = "36 queries have no cost (tokens), so the value over all queries may be larger; log theirs too, " + SKIP
    for missing, ruling in (
        ("zero", ("undecided", text)),
        ("skip", ("pass", "the whole interval is on the right side")),
    ):
        result = karat.evaluate(str(project / "gold.txt"), runs, metrics="cost.tokens.sum", missing=missing)
        gate = "cost.tokens.sum no worse than baseline by 9000000"
        (row,) = karat.check(result, [gate], baseline="old", candidate="log").rows
        assert (row.outcome, row.judged.why) == ruling


GATES_OF_ALL = ("latency.p50 <= 1s", "latency.mean <= 1s", "cost.tokens <= 100", "cost.tokens.sum <= 9000")


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        (None, "undecided"),  # no line
        ({}, "undecided"),
        ({"stages": {"retrieve": ["d"]}}, "undecided"),
        ({"retrieved": True}, "undecided"),
        ({"retrieved": False}, "pass"),
    ],
)
def test_a_line_without_latency_and_cost_is_as_unknown_as_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: bool, fields: dict[str, Any] | None, outcome: str
) -> None:
    """Of 60 queries 40 have no latency: with these the slowest, the median is one of theirs."""
    monkeypatch.setattr(log_blocks, "LARGE", 0 if columns else 1 << 30)
    gold = {f"q{i}": {"d": 1} for i in range(60)}
    lines = []
    for i, q in enumerate(gold):
        there = {"latency_ms": {"retrieve": 30 + i}, "cost": {"tokens": 50 + i % 9}} if i < 20 else fields
        if there is not None:
            lines.append(json.dumps({"query_id": q, "topk": [{"doc_id": "d"}], **there}))
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n")
    metrics = ["hit@1", *(gate.split()[0] for gate in GATES_OF_ALL)]
    for missing in ("zero", "skip"):
        result = karat.evaluate(gold, str(tmp_path / "log.jsonl"), metrics, missing=missing)
        result.save(str(tmp_path / "saved.json"))
        for one in (result, karat.load(str(tmp_path / "saved.json"))):
            rows = karat.check(one, GATES_OF_ALL).rows
            assert [row.outcome for row in rows] == [outcome if missing == "zero" else "pass"] * 4


@pytest.mark.parametrize(
    ("fields", "outcomes"),
    [
        ({"stages": ["retrieve"]}, ("pass", "pass")),
        ({"stages": ["retrieve", "Rerank"]}, ("undecided", "undecided")),
        ({"stages": ["retrieve", "rerank"], "total": 50}, ("undecided", "pass")),
        ({"stages": ["retrieve", "rerank"], "retrieved": False}, ("pass", "pass")),
        ({}, ("undecided", "pass")),
    ],
)
@pytest.mark.parametrize("columns", [True, False])
def test_a_stage_that_ran_without_its_latency_makes_the_total_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: bool, fields: dict[str, Any], outcomes: tuple[str, str]
) -> None:
    """Of 60 queries 20 were reranked; the other lines name their stages without it, name it too, or name none."""
    monkeypatch.setattr(log_blocks, "LARGE", 0 if columns else 1 << 30)
    gold = {f"q{i}": {"d": 1} for i in range(60)}
    lines = []
    for i, q in enumerate(gold):
        own: dict[str, Any] = {"stages": ["retrieve", "rerank"]} if i < 20 else dict(fields)
        took = {"retrieve": 30 + i, **({"rerank": 5 + i} if i < 20 else {})}
        if "total" in own:
            took["total"] = own.pop("total")
        if "stages" in own:
            own["stages"] = {stage: ["d"] for stage in own["stages"]}
        lines.append(json.dumps({"query_id": q, "topk": [{"doc_id": "d"}], "latency_ms": took, **own}))
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n")
    result = karat.evaluate(gold, str(tmp_path / "log.jsonl"), ["hit@1", "latency.rerank.p50", "latency.p50"])
    rows = karat.check(result, ["latency.rerank.p50 <= 1s", "latency.p50 <= 1s"]).rows
    assert tuple(row.outcome for row in rows) == outcomes
    for row, outcome, stage in zip(rows, outcomes, (" (rerank)", ""), strict=True):
        if outcome == "undecided":
            assert row.judged.why.startswith(f"40 queries have no latency{stage}, so the value")
    assert result.n["latency.p50"] == (20 if outcomes[1] == "undecided" else 60)


def test_without_gold_all_queries_of_the_table_were_asked(tmp_path: Path) -> None:
    """Of 60 queries the log has 40: with the others at the slowest, a third exceeds any limit."""
    queries = {f"q{i}": {"text": "?"} for i in range(60)}
    there = {"topk": [{"doc_id": "d"}], "latency_ms": {"all": 30}, "cost": {"tokens": 5}}
    log = [json.dumps({"query_id": f"q{i}", **there}) for i in range(40)]
    (tmp_path / "log.jsonl").write_text("\n".join(log) + "\n")
    gates = ["latency.p90 <= 60ms", "cost.tokens.sum <= 1000", "latency.p50 <= 60ms"]
    for missing, outcomes in (("zero", ["undecided", "undecided", "pass"]), ("skip", ["pass"] * 3)):
        result = karat.evaluate(
            None, str(tmp_path / "log.jsonl"), [gate.split()[0] for gate in gates], queries=queries, missing=missing
        )
        assert "20 queries of the table of queries are not in the run" in result.notes
        result.save(str(tmp_path / "saved.json"))
        for one in (result, karat.load(str(tmp_path / "saved.json"))):
            rows = karat.check(one, gates).rows
            assert [row.outcome for row in rows] == outcomes
            assert ("20 queries have no latency" in rows[0].judged.why) == (missing == "zero")


def test_queries_that_were_not_answered_are_named_beside_metrics_of_the_pipeline_too(project: Path) -> None:
    table = [json.loads(line) for line in (project / "queries.jsonl").read_text().splitlines()]
    table += [{"_id": f"x{i}", "text": "?", "expected_source": "faq"} for i in range(3)]
    (project / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in table))
    note = "3 queries of queries.jsonl are in neither the gold nor the run"
    for metrics in ("latency.p90", "latency.p90,routing_accuracy"):
        assert note in evaluate(project, metrics).notes


def test_runs_that_answer_unequal_queries_say_so(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The queries that one run lacks are marked no_answer, and so in no gold: 300 of 400 are answered by both."""
    from karat.report import markdown
    from karat.report.terminal.compare import show
    from karat.report.view import view_of

    lines = (project / "log.jsonl").read_text().splitlines()
    (project / "old.jsonl").write_text("\n".join(lines) + "\n")
    (project / "log.jsonl").write_text("\n".join(line for i, line in enumerate(lines) if not is_marked(i)) + "\n")
    runs = {name: str(project / f"{name}.jsonl") for name in ("old", "log")}
    compared = karat.compare(str(project / "gold.txt"), runs, "cost.tokens.sum")
    note = "cost.tokens.sum: log has values of 300 of 400 queries"
    show(compared)
    terminal = " ".join(capsys.readouterr().out.split())
    assert note in terminal and "over 300 shared queries: 1,500" in terminal
    assert note in " ".join(markdown.render(view_of(compared)).split())


def test_queries_without_a_value_are_counted_once_and_of_all_that_were_asked(tmp_path: Path) -> None:
    """Both runs lack the latency of two queries; b lacks two lines, and eight of its lists are empty."""
    gold = {f"q{i}": {"d": 1} for i in range(30)}
    paths = {name: tmp_path / f"{name}.jsonl" for name in "ab"}
    for name, path in paths.items():
        rows = [
            {
                "query_id": q,
                "topk": [] if name == "b" and 20 <= i < 28 else [{"rank": 1, "doc_id": "d"}],
                "cost": {"tokens": 10 + i},
                **({"latency_ms": {"total": 10 + i}} if i > 1 else {}),
            }
            for i, q in enumerate(gold)
            if name == "a" or i < 28
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    runs = {name: str(path) for name, path in paths.items()}
    texts = [remark.text for remark in karat.evaluate(gold, runs, "latency.p90,cost.tokens").remarks]
    assert [text for text in texts if "value" in text] == [
        "latency.p90: a has values of 28 of 30 queries, b of 26",
        "cost.tokens: b has values of 28 of 30 queries",
    ]


def test_every_metric_says_how_many_queries_have_no_value(tmp_path: Path) -> None:
    gold = {f"q{i:02}": {"d": 1} for i in range(20)}
    run = {q: {"d" if i < 5 else "x": 1.0, "y": 0.5} for i, q in enumerate(gold)}
    notes = karat.evaluate(gold, run, "accuracy@10,hit@1").runs[0].notes
    assert "accuracy@10: 15 of 20 queries have no value" in notes
    assert not any("hit@1" in note for note in notes)


def test_queries_without_an_answer_that_have_one_are_named(tmp_path: Path) -> None:
    gold = {f"q{i}": {"d": 1} for i in range(4)}
    run = {q: {"d": 1.0} for q in gold}
    queries = {"q0": {"no_answer": True}, "q1": {}, "q9": {}}
    result = karat.evaluate(gold, run, "hit@1,empty_results", queries=queries)
    assert (
        "1 query is marked no_answer and has relevant docs in the gold, which do not count: correct one or the other"
        in (result.runs[0].notes)
    )
    assert "1 query of the table of queries is in neither the gold nor the run" in result.runs[0].notes
