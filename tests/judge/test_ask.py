"""`karat judge ask` against a real endpoint in a second process: nothing twice, nothing lost, no grade invented."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command import run_karat
from forks import KARAT, Forks
from karat.judge import chat
from karat.judge.judgments import read_judgments
from karat.judge.pairs import Draw, Pair, write_pairs
from karat.retrieve import client
from karat.store.answers import AnswerStore
from places import ROOT

KEY = "sk-secret-4711/abc+x="
SERVER = ROOT / "tests" / "support" / "judge_server.py"


class Server:
    """The endpoint, and what it has seen."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def url(self, way: str) -> str:
        return f"http://127.0.0.1:{self.port}/{way}/v1"

    def seen(self, way: str) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/seen") as answer:
            return [row for row in json.load(answer) if row["path"].startswith(f"/{way}/")]

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "RETRY", client.RetryPolicy(attempts=4, pause=0.02, longest=1, timeouts=True))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """100 pairs of 10 queries; doc n has the grade n // 10 % 4."""
    docs = [{"_id": f"d{n}", "text": f"doc={n} grade={n // 10 % 4} " + "words " * 20} for n in range(100)]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    queries = [{"_id": f"q{n}", "text": f"query number {n}"} for n in range(10)]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    write_pairs([Pair(f"q{n % 10}", f"d{n}", Draw("random", 0.5)) for n in range(100)], str(tmp_path / "pairs.jsonl"))
    return tmp_path


def command(url: str, *more: str) -> tuple[str, ...]:
    files = ("pairs.jsonl", "--queries", "queries.jsonl", "--corpus", "corpus.jsonl", "-j", "judged.jsonl")
    return ("judge", "ask", *files, "--model", "m", "--url", url, "--key-env", "MY_KEY", *more)


def ask(folder: Path, url: str, *more: str) -> subprocess.CompletedProcess[str]:
    done = run_karat(*command(url, *more), cwd=folder, MY_KEY=KEY)
    assert KEY not in done.stdout + done.stderr and "sk-secret" not in done.stdout + done.stderr
    return done


def judged(folder: Path) -> dict[str, int | None]:
    return {row.doc_id: row.grade for row in read_judgments(str(folder / "judged.jsonl")).rows}


def lines(folder: Path) -> int:
    return len((folder / "judged.jsonl").read_text().splitlines())


TRUTH = {f"d{n}": n // 10 % 4 for n in range(100)}


def test_faults_of_all_kinds_lose_nothing_and_nothing_is_judged_twice(server: Server, folder: Path) -> None:
    done = ask(folder, server.url("faulty"), "--workers", "16")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert judged(folder) == TRUTH and lines(folder) == 100
    seen = server.seen("faulty")
    assert Counter(row["doc"] for row in seen if row["answered"]) == dict.fromkeys(range(100), 1)
    # Of ten docs eight fail at first: 100 + 80 calls, and the answers that have no grade are among them.
    assert len(seen) == 180 and "100 pairs judged; 180 calls" in done.stdout
    row = read_judgments(str(folder / "judged.jsonl")).rows[0]
    assert (row.reason, row.drawn, row.scale) == ("Because.", Draw("random", 0.5), "0-3")
    assert [r.doc_id for r in read_judgments(str(folder / "judged.jsonl")).rows] == [f"d{n}" for n in range(100)]
    done = ask(folder, server.url("faulty"))
    assert "0 pairs judged; 100 judged before" in done.stdout
    assert len(server.seen("faulty")) == 180


def test_answers_without_a_grade_are_failures_and_never_0(server: Server, folder: Path) -> None:
    done = ask(folder, server.url("invalid"))
    assert done.returncode == 3
    assert not (folder / "judged.jsonl").exists()
    assert "no grade for 100 pairs in all" in done.stderr and "0 pairs judged; 100 failures; 300 calls" in done.stdout
    for message in ("not JSON", "must be one of 0, 1, 2, 3, found 5", 'found "high"', "(3 tries)"):
        assert message in done.stderr, message


def test_the_budget_holds_to_the_call_and_the_rest_is_resumed(server: Server, folder: Path) -> None:
    done = ask(folder, server.url("good-calls"), "--max-calls", "37")
    assert done.returncode == 3 and len(server.seen("good-calls")) == 37 and lines(folder) == 37
    assert "stopped: the limit of 37 calls is reached; 63 pairs left: run the same command to resume" in done.stderr
    done = ask(folder, server.url("good-calls"), "--max-total-tokens", str(120 * 20 + 60), "--workers", "8")
    assert done.returncode == 3 and len(server.seen("good-calls")) == 57 and "2,400 tokens" in done.stdout
    # 100 tokens at 2 and 20 at 10 per million: 0.0004 per call
    limits = ("--price", "2,10", "--max-cost", "0.00405")
    done = ask(folder, server.url("good-calls"), *limits)
    assert done.returncode == 3 and len(server.seen("good-calls")) == 67 and "cost 0.004" in done.stdout
    done = ask(folder, server.url("good-calls"))
    assert done.returncode == 0 and judged(folder) == TRUTH and len(server.seen("good-calls")) == 100


def test_a_limit_on_tokens_needs_an_endpoint_that_reports_them(server: Server, folder: Path) -> None:
    done = ask(folder, server.url("silent"), "--max-total-tokens", "100000")
    assert done.returncode == 2 and "reports no tokens" in done.stderr and len(server.seen("silent")) == 1
    assert ask(folder, server.url("silent")).returncode == 0


def test_the_form_of_answers_is_stepped_down_once_and_remembered(server: Server, folder: Path) -> None:
    assert ask(folder, server.url("noschema"), "--max-calls", "22").returncode == 3
    assert [row["form"] for row in server.seen("noschema")[:3]] == ["json_schema", "json_object", "text"]
    assert ask(folder, server.url("noschema")).returncode == 0
    assert judged(folder) == TRUTH
    assert Counter(row["form"] for row in server.seen("noschema")) == {"json_schema": 1, "json_object": 1, "text": 100}


def test_a_judge_that_grades_by_order_and_length_is_seen(server: Server, folder: Path) -> None:
    done = ask(folder, server.url("biased"), "--bias-test", "20")
    assert done.returncode == 2 and "have it judge them first: the same command without --bias-test" in done.stderr
    assert ask(folder, server.url("biased")).returncode == 0
    before = (folder / "judged.jsonl").read_bytes()
    done = ask(folder, server.url("biased"), "--bias-test", "40", "--max-calls", "50")
    assert done.returncode == 3 and "limit of 50 calls" in done.stderr and "70 pairs left" in done.stderr
    done = ask(folder, server.url("biased"), "--bias-test", "40")
    assert (done.returncode, done.stderr) == (0, "")
    assert "40 pairs graded again: 70 calls" in done.stdout and "50 answers from the cache" in done.stdout
    table = {line.split("  ")[0]: line for line in done.stdout.splitlines()}
    assert " 0 [0.000, 0.000]" in table["unchanged"] and " 0.0% " in table["unchanged"]
    for form, way in (("second half first", "lower"), ("text twice", "higher")):
        assert f"The judge grades the same content {way} in this form: {form}" in done.stdout, done.stdout
    assert (folder / "judged.jsonl").read_bytes() == before
    assert len(server.seen("biased")) == 100 + 3 * 40
    done = ask(folder, server.url("plain"))
    done = ask(folder, server.url("plain"), "--bias-test", "40")
    assert done.returncode == 0 and "in this form" not in done.stdout, done.stdout


def test_votes_have_a_median_an_agreement_and_flips(server: Server, folder: Path) -> None:
    done = ask(folder, server.url("votes"), "--votes", "3", "--workers", "1", "--param", "temperature=1")
    assert done.returncode == 0 and judged(folder) == TRUTH
    rows = read_judgments(str(folder / "judged.jsonl")).rows
    assert {row.votes for row in rows} == {(0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 0, 3)}
    # 30 pairs of grade 0 agree in 3 of 3 pairs of votes, 70 in one of three: (30 * 3 + 70) / 300; 70 flip.
    assert "Votes: 53.3% agree; 70.0% of 100 pairs" in done.stdout
    assert "300 calls" in done.stdout


def test_a_pair_that_is_refused_is_a_failure_and_the_others_are_judged(server: Server, folder: Path) -> None:
    done = ask(folder, server.url("filter"))
    assert done.returncode == 3 and len(judged(folder)) == 90
    assert "status 400" in done.stderr and "content filter, Bearer ***" in done.stderr


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("refuses", "status 401: the key in MY_KEY was refused"),
        ("bad", "the first request is refused: status 400"),
        ("down", "status 503"),
    ],
)
def test_an_endpoint_that_serves_nobody_stops_the_work_at_its_first_answer(
    server: Server, folder: Path, way: str, message: str
) -> None:
    done = ask(folder, server.url(way))
    assert done.returncode == (3 if way == "down" else 2) and message in done.stderr
    assert {row["doc"] for row in server.seen(way)} == {0}


def test_an_endpoint_that_dies_midway_loses_nothing(folder: Path, server: Server) -> None:
    mortal = Server()
    try:
        done = ask(folder, mortal.url("dies"), "--workers", "4")
    finally:
        mortal.stop()
    assert done.returncode == 3 and "cannot be reached" in done.stderr and "run the same command" in done.stderr
    before = judged(folder)
    assert 9 <= len(before) <= 12 and before.items() <= TRUTH.items()
    assert ask(folder, server.url("good-later")).returncode == 0
    assert judged(folder) == TRUTH and lines(folder) == 100
    assert {f"d{row['doc']}" for row in server.seen("good-later")} == TRUTH.keys() - before.keys()


def test_killed_at_any_moment_the_file_becomes_what_it_would_have_been(
    server: Server, folder: Path, tmp_path_factory: pytest.TempPathFactory, own_cache: Path
) -> None:
    environment = {"MY_KEY": KEY, "SOURCE_DATE_EPOCH": "0"}
    write_pairs([Pair(f"q{n % 10}", f"d{n}") for n in range(20)], str(folder / "pairs.jsonl"))
    with Forks(KARAT, tmp_path_factory.mktemp("forks")) as forks:
        url = server.url("good-kill")
        for number in (1, 3, 2):
            for point in ("journal.write", "journal.flush", "journal.done"):
                plan = {"KARAT_FAULT": f"{point}:{number}:kill", "KARAT_CACHE_DIR": str(own_cache)}
                done = forks.run(str(folder), "", "", *command(url, "--workers", "1"), **environment, **plan)
                assert done.returncode == -9, done.stdout
        plan = {"KARAT_CACHE_DIR": str(own_cache)}
        done = forks.run(str(folder), "", "", *command(url, "--workers", "1"), **environment, **plan)
        assert done.returncode == 0, done.stdout
        interrupted = (folder / "judged.jsonl").read_bytes()
        assert Counter(row["doc"] for row in server.seen("good-kill")) == dict.fromkeys(range(20), 1)
        (folder / "judged.jsonl").unlink()
        plan = {"KARAT_CACHE_DIR": str(folder / "cache")}
        assert forks.run(str(folder), "", "", *command(url), **environment, **plan).returncode == 0
        assert (folder / "judged.jsonl").read_bytes() == interrupted


def test_the_same_command_twice_at_once_is_refused(server: Server, folder: Path) -> None:
    url = server.url("slow") + "/twice"
    environment = {**os.environ, "MY_KEY": KEY}
    arguments = [sys.executable, "-m", "karat", *command(url, "--workers", "2")]
    with subprocess.Popen(arguments, cwd=folder, env=environment, stdout=subprocess.DEVNULL) as first:
        while not [row for row in server.seen("slow") if "/twice/" in row["path"]]:
            assert first.poll() is None
            time.sleep(0.02)
        done = ask(folder, url)
        assert done.returncode == 2 and "judged.jsonl: another command has the same judge at work" in done.stderr
    assert first.returncode == 0 and judged(folder) == TRUTH
    seen = [row["doc"] for row in server.seen("slow") if "/twice/" in row["path"]]
    assert Counter(seen) == dict.fromkeys(range(100), 1)


def test_ctrl_c_keeps_what_is_on_its_way_and_resumes(server: Server, folder: Path) -> None:
    url = server.url("slow")
    process = subprocess.Popen(
        [sys.executable, "-m", "karat", *command(url, "--workers", "4")],
        cwd=folder,
        env={**os.environ, "MY_KEY": KEY},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    while sum(row["answered"] for row in server.seen("slow/v1/chat")) < 8:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "stopped; run the same command to resume" in err and "Traceback" not in err
    assert 7 <= lines(folder) <= sum(row["answered"] for row in server.seen("slow/v1/chat")) < 100
    assert ask(folder, url, "--workers", "32").returncode == 0
    assert judged(folder) == TRUTH
    assert Counter(row["doc"] for row in server.seen("slow/v1/chat")) == dict.fromkeys(range(100), 1)


def test_a_batch_gives_the_same_judgments_as_asking(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    url = server.url("good-batch")
    done = ask(folder, url, "--batch-out", "requests.jsonl")
    assert done.returncode == 0 and "requests.jsonl: 100 requests" in done.stdout and not server.seen("good-batch")
    rows = [json.loads(row) for row in (folder / "requests.jsonl").read_text().splitlines()]
    assert {(row["method"], row["url"]) for row in rows} == {("POST", "/v1/chat/completions")}
    answers = []
    for row in rows:
        request = urllib.request.Request(
            url + "/chat/completions", json.dumps(row["body"]).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            body = json.load(answer)
        answers.append({"id": "b", "custom_id": row["custom_id"], "response": {"status_code": 200, "body": body}})
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers[::-1]))
    done = ask(folder, url, "--batch-in", "answers.jsonl", "--price", "2,10")
    assert done.returncode == 0 and "100 pairs judged; 100 calls, 12,000 tokens, cost 0.04" in done.stdout
    from_batch = (folder / "judged.jsonl").read_bytes()
    (folder / "judged.jsonl").unlink()
    monkeypatch.setenv("KARAT_CACHE_DIR", str(folder / "other"))
    assert ask(folder, url).returncode == 0
    assert (folder / "judged.jsonl").read_bytes() == from_batch


def test_a_batch_of_other_requests_is_refused_and_half_of_one_says_what_is_left(server: Server, folder: Path) -> None:
    (folder / "answers.jsonl").write_text('{"custom_id": "x", "response": {"status_code": 200, "body": {}}}\n')
    done = ask(folder, server.url("good"), "--batch-in", "answers.jsonl")
    assert done.returncode == 2 and "none of its 1 answers is for one of the 100 pending requests" in done.stderr
    ask(folder, server.url("good"), "--batch-out", "requests.jsonl")
    keys = [json.loads(row)["custom_id"] for row in (folder / "requests.jsonl").read_text().splitlines()]
    (folder / "answers.jsonl").write_text(
        json.dumps({"custom_id": keys[0], "response": None, "error": {"message": "expired"}}) + "\n"
    )
    done = ask(folder, server.url("good"), "--batch-in", "answers.jsonl")
    assert done.returncode == 3 and "expired" in done.stderr
    assert "answers.jsonl has no answer to 99 of 100 requests" in done.stderr


def test_the_key_is_in_no_file(server: Server, folder: Path, own_cache: Path) -> None:
    for way in ("filter", "refuses", "bad", "down"):
        ask(folder, server.url(way), "--verbose")
    assert all(row["key"] == f"Bearer {KEY}" for row in server.seen("filter"))
    files = [path for place in (folder, own_cache) for path in place.rglob("*") if path.is_file()]
    assert len(files) > 4
    assert not [path for path in files if b"sk-secret" in path.read_bytes()]


def test_answers_are_kept_for_other_files_and_forgotten_by_cache_clear(server: Server, folder: Path) -> None:
    assert ask(folder, server.url("good-cache")).returncode == 0
    (folder / "judged.jsonl").unlink()
    done = ask(folder, server.url("good-cache"))
    assert "100 pairs judged; 100 answers from the cache; 0 calls" in done.stdout and judged(folder) == TRUTH
    assert "answers: 100" in run_karat("cache").stdout
    assert "answers: removed 100" in run_karat("cache", "--clear").stdout
    assert len(AnswerStore()) == 0


def test_a_damaged_store_is_said_and_made_again(own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = own_cache / "answers.sqlite"
    path.write_bytes(b"this is not a database, and long enough to be sure of it" * 100)
    assert len(AnswerStore()) == 0
    assert "damaged" in capsys.readouterr().err and os.path.exists(f"{path}.damaged")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ("--prompt", "prompt.txt"),
            "prompt.txt: {doc} is missing; expected each of {query}, {doc}, {scale}, {answer}",
        ),
        (("--param", "api_key=x"), "api_key is not a parameter of a model"),
        (("--param", "messages=[]"), "Karat sets it itself"),
        (("--param", "max_tokens"), "must be written NAME=VALUE"),
        (("--max-cost", "1"), "needs the price of a million tokens"),
        (("--price", "1"), "price must be two numbers"),
        (("--answers", "xml"), "answers must be one of json_schema, json_object, text"),
        (("--scale", "1-5"), "scale must be one of"),
        (("--key-env", "sk-123"), "must be the name of an environment variable, not the key itself"),
        (("--url", "http://u:p@h/v1"), "must be a plain address"),
        (("--batch-out", "corpus.jsonl"), "corpus.jsonl is an input"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_sent(folder: Path, more: tuple[str, ...], message: str) -> None:
    (folder / "prompt.txt").write_text("Judge {query} by {scale}: {answer}")
    done = ask(folder, "http://127.0.0.1:9/v1", *more)
    assert done.returncode == 2 and message in done.stderr


def test_missing_texts_are_named_before_anything_is_sent(folder: Path) -> None:
    write_pairs([Pair("q1", "d1"), Pair("q77", "d1"), Pair("q1", "d777")], str(folder / "pairs.jsonl"))
    done = ask(folder, "http://127.0.0.1:9/v1")
    assert done.returncode == 2
    assert 'queries.jsonl: no text for query "q77"' in done.stderr and 'no text for doc "d777"' in done.stderr


def test_another_judge_judges_the_same_pairs_again(server: Server, folder: Path) -> None:
    (folder / "prompt.txt").write_text("{query} {doc} {scale} {answer} Be strict.")
    assert ask(folder, server.url("good-two")).returncode == 0
    assert ask(folder, server.url("good-two"), "--prompt", "prompt.txt").returncode == 0
    judgments = read_judgments(str(folder / "judged.jsonl"))
    assert [len(rows) for rows in judgments.by_judge.values()] == [100, 100]
    done = ask(folder, server.url("good-two"), "--scale", "0-4")
    assert done.returncode == 2 and "is judged on the scale 0-3, expected 0-4" in done.stderr
