"""The command line as a person or a script meets it."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import karat
from forks import KARAT, Forks
from karat.cli import main
from karat.model import kernel

GOLD = "q1 0 a 2\nq1 0 b 1\nq2 0 c 1\n"
RUN = "q1 Q0 b 1 3.0 sys\nq1 Q0 a 2 2.0 sys\nq2 Q0 x 1 1.0 sys\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gold.txt").write_text(GOLD)
    (tmp_path / "a.run").write_text(RUN)
    (tmp_path / "b.run").write_text(RUN.replace("q2 Q0 x", "q2 Q0 c"))
    return tmp_path


def run(*arguments: str) -> int:
    """The exit code of a command."""
    sys.argv = ["karat", *arguments]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_json_on_standard_output_is_the_documented_shape_and_nothing_else(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("evaluate", "gold.txt", "a.run", "b.run", "-m", "mrr", "-m", "P@1,recall@2", "--json", "-") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format_version"] == 2
    assert document["kind"] == "evaluation"
    assert [r["name"] for r in document["runs"]] == ["a", "b"]
    # a: q1 has its first relevant doc at rank 1, q2 none: (1 + 0) / 2
    metrics = document["runs"][0]["metrics"]
    assert {name: (m["mean"], m["n"]) for name, m in metrics.items()} == {
        "mrr": (0.5, 2),
        "precision@1": (0.5, 2),
        "recall@2": (0.5, 2),
    }
    assert metrics["mrr"]["ci_method"] == "clopper-pearson"
    assert metrics["mrr"]["ci"] == pytest.approx([1 - 0.975**0.5, 0.975**0.5])  # one of two
    assert document["runs"][1]["metrics"]["mrr"]["mean"] == 1.0
    assert set(document["runs"][0]["counts"]) == {
        "queries",
        "missing",
        "without_gold",
        "empty_gold",
        "no_answer",
        "duplicates",
        "unjudged_at_10",
        "depth",
    }
    assert document["runs"][0]["counts"]["unjudged_at_10"] == 1


def test_the_table_shows_every_run_and_names_the_conventions(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", "gold.txt", "a.run", "b.run", "-m", "mrr", "--like", "trec_eval") == 0
    out = capsys.readouterr().out
    assert re.search(r"metric\s+a\s+b", out)
    assert re.search(r"mrr\s+0\.5000 \[0\.013, 0\.987\]\s+1\.0000", out)
    assert "like=trec_eval" in out
    assert "score_precision=float32" in out
    assert "\x1b" not in out


def test_the_default_metrics_are_those_of_the_docs(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("evaluate", "gold.txt", "a.run", "--json", "-")
    names = list(json.loads(capsys.readouterr().out)["runs"][0]["metrics"])
    assert names == [
        "hit@1",
        "hit@3",
        "hit@5",
        "hit@10",
        "recall@1",
        "recall@3",
        "recall@5",
        "recall@10",
        "precision@5",
        "ndcg@5",
        "ndcg@10",
        "mrr",
        "map@10",
    ]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_per_query_tables_are_long(files: Path, ending: str) -> None:
    path = f"out{ending}"
    assert run("evaluate", "gold.txt", "a.run", "-m", "mrr,recall@1", "--per-query", path, "--quiet") == 0
    if ending == ".csv":
        with open(path, newline="") as file:
            rows = [(r["run"], r["query_id"], r["metric"], float(r["value"])) for r in csv.DictReader(file)]
    elif ending == ".jsonl":
        rows = [tuple(json.loads(line).values()) for line in Path(path).read_text().splitlines()]
    else:
        rows = duckdb.sql(f"SELECT run, query_id, metric, value FROM '{path}'").fetchall()
    assert sorted(rows) == [
        ("a", "q1", "mrr", 1.0),
        ("a", "q1", "recall@1", 0.5),
        ("a", "q2", "mrr", 0.0),
        ("a", "q2", "recall@1", 0.0),
    ]


def test_a_saved_result_holds_lists_and_reads_back_the_same(files: Path) -> None:
    assert run("evaluate", "gold.txt", "a.run", "-m", "ndcg@10,judged@5", "--save", "r.json.gz", "--quiet") == 0
    loaded = karat.load("r.json.gz")
    fresh = karat.evaluate("gold.txt", "a.run", "ndcg@10,judged@5")
    assert loaded.mean["ndcg@10"] == pytest.approx(fresh.mean["ndcg@10"], rel=1e-11)
    assert loaded.per_query("judged@5") == fresh.per_query("judged@5")
    assert loaded.counts == fresh.counts
    run_a = loaded.runs[0]
    assert run_a.top_docs("q1") == [("b", 3.0, 1.0), ("a", 2.0, 2.0)]
    assert run_a.gold_docs("q1") == [("a", 2.0, 2), ("b", 1.0, 1)]
    assert run_a.gold_docs("q2") == [("c", 1.0, None)]


def test_globs_and_equal_stems_get_unique_names(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("one", "two"):
        (files / folder).mkdir()
        (files / folder / "a.run").write_text(RUN)
    run("evaluate", "gold.txt", "one/*.run", "two/a.run", "b.run", "-m", "mrr", "--json", "-")
    assert [r["name"] for r in json.loads(capsys.readouterr().out)["runs"]] == ["one/a", "two/a", "b"]


def test_standard_input_is_read(files: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "karat", "evaluate", "gold.txt", "-", "-m", "mrr", "--json", "-"],
        input=RUN,
        capture_output=True,
        text=True,
        check=True,
        cwd=files,
    )
    assert json.loads(done.stdout)["runs"][0]["metrics"]["mrr"]["mean"] == 0.5


def test_quiet_prints_nothing(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", "gold.txt", "a.run", "--quiet") == 0
    assert capsys.readouterr().out == ""


def test_a_terminal_gets_colours_and_no_color_takes_them_away(files: Path) -> None:
    for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        primary, secondary = pty.openpty()
        subprocess.run(
            [sys.executable, "-m", "karat", "evaluate", "gold.txt", "a.run", "b.run", "-m", "mrr"],
            stdout=secondary,
            cwd=files,
            check=True,
            env={**{k: v for k, v in os.environ.items() if k != "NO_COLOR"}, "TERM": "xterm-256color", **environment},
        )
        os.close(secondary)
        out = b""
        try:
            while piece := os.read(primary, 4096):
                out += piece
        except OSError:
            pass
        os.close(primary)
        assert (b"\x1b[3" in out) is coloured or (b"\x1b[2" in out) is coloured
        assert b"0.5000" in out


def test_metrics_explains_any_spelling(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("metrics", "nDCG@10") == 0
    out = capsys.readouterr().out
    assert "Normalised discounted cumulative gain" in out
    assert "Järvelin" in out
    assert "gains={grade:gain,…}" in out


@pytest.mark.parametrize(
    ("written", "metric"),
    [
        ("ndcg_cut_10", "ndcg"),
        ("ndcg_at_10", "ndcg"),
        ("P_5", "precision"),
        ("P", "precision"),
        ("success_5", "hit"),
        ("recall_100", "recall"),
        ("recall@{1,3}", "recall"),
        ("map_cut_100", "map"),
        ("iprec_at_recall_0.10", "iprec"),
        ("rbp.95", "rbp"),
        ("latency", "latency"),
        ("latency.p90", "latency"),
    ],
)
def test_metrics_explains_what_the_option_takes(written: str, metric: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("metrics", written, "--json") == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == [metric]


def test_metrics_lists_all_of_them_and_by_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    run("metrics")
    everything = capsys.readouterr().out
    for metric in karat.all_metrics():
        assert metric.name in everything
    run("metrics", "--for", "one answer")
    assert "mrr " in capsys.readouterr().out
    assert run("metrics", "--for", "one anser") == 2
    assert "did you mean 'one answer'" in capsys.readouterr().err
    run("metrics", "ndcg", "--json")
    assert json.loads(capsys.readouterr().out)[0]["bounds"] == [0.0, 1.0]


def test_every_verb_has_help_with_an_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("evaluate", "compare", "sweep", "plan", "reliability", "metrics", "demo", "cache"):
        assert run(verb, "--help") == 0
        assert len(capsys.readouterr().out) > 200
    assert run("--version") == 0
    assert capsys.readouterr().out.strip() == f"karat {karat.__version__} ({kernel.described()})"


def test_cache_shows_and_clears(capsys: pytest.CaptureFixture[str], own_cache: Path) -> None:
    (own_cache / "x.karat").write_bytes(bytes(1000))
    run("cache")
    assert "1 entries" in capsys.readouterr().out
    run("cache", "--clear")
    assert "removed 1 entries" in capsys.readouterr().out
    assert list(own_cache.iterdir()) == []


def test_usage_errors_exit_with_2_and_faults_with_70(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("evaluate") == 2
    assert run("evaluate", "gold.txt", "a.run", "--no-such-option") == 2
    import karat.verbs.evaluate

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(karat, "evaluate", broken)
    capsys.readouterr()
    assert run("evaluate", "gold.txt", "a.run", "--json", "-") == 70
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "internal error (a bug in Karat)" in captured.err
    assert "Traceback" not in captured.err

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(karat, "evaluate", interrupted)
    assert run("evaluate", "gold.txt", "a.run") == 130


def test_a_kill_while_writing_leaves_the_old_file(files: Path) -> None:
    (files / "out.json").write_text("old")
    code = (
        "import os, karat.store.atomic as o\n"
        "true = os.replace\n"
        "os.replace = lambda *a: os._exit(9)\n"
        "o.write_atomically('out.json', b'new')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=files, check=False)
    assert done.returncode == 9
    assert (files / "out.json").read_text() == "old"


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    with Forks(KARAT, tmp_path_factory.mktemp("forks")) as server:
        yield server


def test_a_reader_who_leaves_changes_no_verdict(files: Path, forks: Forks) -> None:
    def unread(*arguments: str) -> int:
        """The exit code of a command whose reader has left, as `karat … | head -1` may find it."""
        done = forks.run(str(files), "a pipe without a reader", "", *arguments)
        assert "fault" not in done.stdout
        return done.returncode

    data = "dataset: {qrels: gold.txt}\nruns: {b: b.run}\n"
    # b has its first relevant doc at rank 1 twice: mrr is 1.
    for threshold, code in (("<= 0.5", 1), (">= 0.5", 0)):
        (files / "karat.yaml").write_text(f"{data}gates: ['mrr {threshold} at the mean']\n")
        assert unread("check") == code
        assert unread("check", "--json", "-") == code
    (files / "karat.yaml").write_text(f"{data}gates: ['mrr >= 0.5 where x = y']\n")
    assert unread("check") == 2
    assert unread("evaluate", "gold.txt", "a.run") == 141
    assert unread("evaluate", "gold.txt", "gone.run") == 2
    assert unread("validate", "gold.txt", "a.run") == 0


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "ascii", "ascii:strict", "utf-8"])
def test_an_old_encoding_gets_readable_marks(files: Path, karat_command: Path, encoding: str) -> None:
    (files / "karat.yaml").write_text(
        "dataset: {qrels: gold.txt}\nruns: {b: b.run}\ngates: [mrr <= 0.5 at the mean, mrr >= 0.5 at the mean]\n"
    )
    done = subprocess.run(
        [karat_command, "check"],
        capture_output=True,
        cwd=files,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert done.returncode == 1, done.stderr
    text = done.stdout.decode(encoding.partition(":")[0])
    fails, passes = ("✗", "✓") if encoding == "utf-8" else ("x", "+")
    assert f"\n{fails}  mrr <= 0.5" in text and f"\n{passes}  mrr >= 0.5" in text


def test_output_that_is_closed_or_full_is_no_fault(files: Path, forks: Forks) -> None:
    (files / "karat.yaml").write_text(
        "dataset: {qrels: gold.txt}\nruns: {b: b.run}\ngates: ['mrr <= 0.5 at the mean']\n"
    )

    def shell(command: str) -> tuple[int, str]:
        done = subprocess.run(
            f"{sys.executable} -m karat {command}",
            shell=True,
            stderr=subprocess.PIPE,
            text=True,
            cwd=files,
            check=False,
        )
        return done.returncode, done.stderr

    assert shell("check >&-") == (1, "")
    assert shell("evaluate gold.txt a.run >&-") == (0, "")
    assert shell("evaluate gold.txt gone.run 2>/dev/full") == (2, "")
    for command in ("check", "check --json -", "evaluate gold.txt a.run", "metrics"):
        done = forks.run(str(files), "/dev/full", "", *command.split())
        full = "karat: standard output: cannot be written (No space left on device); make room\n"
        assert (done.returncode, done.stdout) == (2, full)


@pytest.mark.usefixtures("files")
def test_a_file_that_is_named_twice_counts_once_and_a_note_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    note = "a file named twice counts once: a.run"
    for again in (["a.run", "./a.run"], ["old=a.run", "old=a.run"], ["a.run", "a=a.run"]):
        assert run("evaluate", "gold.txt", *again, "b.run", "-m", "mrr", "--json", "-") == 0
        document = json.loads(capsys.readouterr().out)
        assert len(document["runs"]) == 2 and all(note in one["notes"] for one in document["runs"])
    assert run("evaluate", "gold.txt", "a.run", "a.run", "-m", "mrr") == 0
    assert capsys.readouterr().out.count(note) == 1
    assert run("evaluate", "gold.txt", "b.run", "*.run", "-m", "mrr") == 0  # the first, and then all others
    assert "named twice" not in capsys.readouterr().out
    assert run("compare", "gold.txt", "a.run", "a.run", "b.run", "-m", "mrr") == 0
    assert capsys.readouterr().out.count(note) == 1


@pytest.mark.usefixtures("files")
def test_a_file_is_a_run_under_each_name_that_it_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    for files, names in (
        (["b.run", "same=b.run", "a.run"], ["b", "same", "a"]),
        (["old=a.run", "new=a.run"], ["old", "new"]),
        (["old=a.run", "a.run", "b.run"], ["old", "a", "b"]),
        (["*.run", "same=b.run"], ["a", "same"]),  # a glob brings what has no name
        (["*.run", "b.run", "same=b.run"], ["a", "b", "same"]),
        (["same=b.run", "*.run"], ["same", "a"]),
    ):
        for verb in ("evaluate", "compare"):
            assert run(verb, "gold.txt", *files, "-m", "mrr", "--json", "-") == 0
            document = json.loads(capsys.readouterr().out)
            assert [one["name"] for one in document["runs"]] == names
            assert not any("named twice" in note for one in document["runs"] for note in one.get("notes", []))
    assert run("evaluate", "gold.txt", "new=a.run", "new=b.run", "-m", "mrr") == 2
    assert "two runs are called 'new'" in capsys.readouterr().err
