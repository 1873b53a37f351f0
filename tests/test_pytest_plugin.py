"""The fixture `karat_check`, in real runs of pytest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points

import pytest

from forks import PYTEST, Forks

pytest_plugins = ["pytester"]

NEEDED = (
    []
    if any(e.value == "karat.pytest_plugin" for e in entry_points(group="pytest11"))
    else ["-p", "karat.pytest_plugin"]
)
ALONE = ("-p", "no:cacheprovider", "-p", "no:langsmith_plugin", "-p", "no:anyio")
QUERIES = 40
Outcome = Callable[..., pytest.RunResult]


def files(folder: str = ".") -> None:
    """40 queries with one relevant doc each: found first by 30 of `good`, by 4 of `bad`, by 22 of `middling`."""
    os.makedirs(folder, exist_ok=True)
    gold = {f"q{i:02}": {"yes": 1} for i in range(QUERIES)}
    with open(f"{folder}/gold.json", "w") as file:
        json.dump(gold, file)
    for name, hits in (("good", 30), ("bad", 4), ("middling", 22)):
        run = {q: {"yes" if i < hits else "no": 1.0} for i, q in enumerate(gold)}
        with open(f"{folder}/{name}.json", "w") as file:
            json.dump(run, file)


def config(*runs: str, gates: str = "hit@1 >= 0.5", more: str = "") -> str:
    listed = ", ".join(f"{r}: {r}.json" for r in runs)
    return f"dataset: {{name: toy, qrels: gold.json}}\nruns: {{{listed}}}\ngates: ['{gates}']\n{more}"


@pytest.fixture
def folder(pytester: pytest.Pytester) -> pytest.Pytester:
    files()
    for name in ("good", "bad", "middling"):
        pytester.path.joinpath(f"{name}.yaml").write_text(config(name))
    return pytester


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    with Forks(PYTEST, tmp_path_factory.mktemp("forks")) as server:
        yield server


@pytest.fixture
def outcome(folder: pytest.Pytester, forks: Forks) -> Outcome:
    """Run pytest over one test with this body, in a process of its own."""

    def run(body: str, *arguments: str) -> pytest.RunResult:
        folder.makepyfile(f"def test_retrieval_ships(karat_check):\n    {body}\n")
        done = forks.run(str(folder.path), *NEEDED, *ALONE, *arguments, **os.environ)
        return pytest.RunResult(done.returncode, done.stdout.splitlines(), [], 0)

    return run


def test_a_check_that_ships_passes(outcome: Outcome) -> None:
    outcome("assert karat_check('good.yaml')").assert_outcomes(passed=1)


def test_a_check_that_blocks_fails_and_says_what_was_measured(outcome: Outcome) -> None:
    # 4 of 40 = .1; Wilson at 95%: (.1 + z²/80 ± z √(.1 · .9/40 + z²/6400)) / (1 + z²/40), z = 1.96 → .040, .231
    found = outcome("assert karat_check('bad.yaml')")
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(
        [
            "E*assert Check(BLOCK: hit@1 is 0.100 [[]0.028, 0.237]; at least 0.5 is required)",
            "*- karat check toy -*",
            "BLOCK: hit@1 is 0.100*",
            "bad: hit@1 >= 0.5: fails",
            "    hit@1: 0.1000 [[]0.028, 0.237], n = 40",
            "    the whole interval is below the threshold of 0.5",
        ]
    )


def test_an_undecided_check_fails_in_its_own_words_with_the_queries_needed(outcome: Outcome) -> None:
    found = outcome("assert karat_check('middling.yaml')")
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(
        [
            "INCONCLUSIVE: hit@1 is 0.550*at least 0.5 is required: undecided*",
            "No gate fails, but these queries are too few to tell whether all pass.",
            "middling: hit@1 >= 0.5: undecided",
            "    hit@1: 0.5500 [[]0.385, 0.707], n = 40",
            "    at least about * more queries would settle it",
        ]
    )


def test_a_check_that_queries_do_not_decide_does_not_ask_for_them(outcome: Outcome, folder: pytest.Pytester) -> None:
    folder.path.joinpath("short.yaml").write_text(config("good", gates="recall@50 >= 0.8"))
    found = outcome("assert karat_check('short.yaml')")
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(
        [
            "INCONCLUSIVE: recall@50 is 0.750*",
            "No gate fails, but more queries alone would not decide 1 gate: recall@50 >= 0.8.",
        ]
    )
    found.stdout.no_fnmatch_line("*too few*")


def test_an_undecided_check_can_pass_or_be_skipped_with_its_reason(outcome: Outcome) -> None:
    outcome("assert karat_check('middling.yaml', inconclusive='pass')").assert_outcomes(passed=1)
    found = outcome("assert karat_check('middling.yaml', inconclusive='skip')", "-rs")
    found.assert_outcomes(skipped=1)
    found.stdout.fnmatch_lines(["*INCONCLUSIVE: hit@1 is 0.550*"])


@pytest.mark.parametrize("choice", ["pass", "skip"])
def test_what_fails_is_never_passed_or_skipped(outcome: Outcome, choice: str) -> None:
    outcome(f"assert karat_check('bad.yaml', inconclusive='{choice}')").assert_outcomes(failed=1)


def test_every_gate_and_segment_that_does_not_pass_is_explained(folder: pytest.Pytester, outcome: Outcome) -> None:
    with open("queries.jsonl", "w") as file:
        for i in range(QUERIES):
            file.write(json.dumps({"query_id": f"q{i:02}", "half": "first" if i < 20 else "second"}) + "\n")
    folder.path.joinpath("karat.yaml").write_text(
        "dataset: {qrels: gold.json, queries: queries.jsonl}\nruns: {m: middling.json, g: good.json}\nbaseline: g\n"
        "gates: ['hit@1 >= 0.5 for every half', 'mrr no worse than baseline by 0.01', {warn: 'hit@1 > 0.9'}]\n"
    )
    # middling finds 20 of the first 20 and 2 of the last 20; good 20 and 10. The mean difference is −8/40 = −.2.
    found = outcome("assert karat_check()")
    found.stdout.fnmatch_lines(
        [
            "m: hit@1 >= 0.5 for every half [[]half = second]: fails",
            "    hit@1: 0.1000 *, n = 20",
            "m: mrr no worse than baseline by 0.01: fails",
            "    mrr against g: Δ -0.2000 *, n = 40",
            "m: hit@1 > 0.9: fails (warning)",
        ]
    )
    assert "half = first" not in found.stdout.str()


def test_a_path_is_beside_the_test_first_then_in_the_root_folder(folder: pytest.Pytester) -> None:
    files("inner")
    folder.path.joinpath("inner/bad.yaml").write_text(config("good"))  # beside the test: this one ships
    folder.path.joinpath("inner/test_inner.py").write_text(
        "def test_beside(karat_check): assert karat_check('bad.yaml').result.runs[0].name == 'good'\n"
        "def test_root(karat_check): assert karat_check('good.yaml')\n"
    )
    folder.makeini("[pytest]\n")
    outside = folder.path.parent
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *NEEDED, *ALONE, str(folder.path / "inner")],
        cwd=outside,
        capture_output=True,
        text=True,
    )
    assert "2 passed" in done.stdout, done.stdout


def test_a_baseline_file_is_found_beside_the_test(folder: pytest.Pytester) -> None:
    body = """import karat
    karat.bless(karat.evaluate("gold.json", "good.json", "mrr"), "base.json")
    monkeypatch.chdir("/")
    assert karat_check("good.yaml", ["mrr no worse than baseline by 0.05"], baseline="base.json").baseline_file"""
    folder.makepyfile(f"def test_it(karat_check, monkeypatch):\n    {body}\n")
    folder.runpytest_subprocess(*NEEDED, *ALONE).assert_outcomes(passed=1)


def test_a_missing_config_names_both_folders_and_no_inner_frames(outcome: Outcome) -> None:
    found = outcome("assert karat_check('none.yaml')")
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["E*InputError: none.yaml: no such file; looked in *beside the test*"])
    assert "reading.py" not in found.stdout.str()


def test_a_wrong_choice_is_refused(outcome: Outcome) -> None:
    found = outcome("karat_check('good.yaml', inconclusive='ignore')")
    found.stdout.fnmatch_lines(["E*UsageError: inconclusive must be one of pass, fail, skip, found 'ignore'"])


def test_the_explanation_survives_worker_processes_and_junit_files(folder: pytest.Pytester, outcome: Outcome) -> None:
    found = outcome("assert karat_check('bad.yaml')", "-n", "1", "--junitxml", "pytest.xml")
    found.stdout.fnmatch_lines(["    hit@1: 0.1000 [[]0.028, 0.237], n = 40"])
    assert "bad: hit@1 &gt;= 0.5: fails" in folder.path.joinpath("pytest.xml").read_text()


SHALLOW = "lists of good end at rank 1, so ndcg@10 counts nothing below it"


def test_a_check_that_ships_on_odd_data_is_warned_of_once_at_the_line_of_the_test(
    outcome: Outcome, folder: pytest.Pytester
) -> None:
    folder.path.joinpath("good.yaml").write_text(config("good", more="metrics: [ndcg@10]\n"))
    found = outcome("assert karat_check('good.yaml')")
    found.assert_outcomes(passed=1, warnings=1)
    assert found.stdout.str().count(SHALLOW) == 1
    found.stdout.fnmatch_lines([f"*.py:2: KaratWarning: {SHALLOW}", "    assert karat_check('good.yaml')"])


def test_what_is_odd_about_the_data_of_a_check_that_does_not_ship_is_explained_once(
    outcome: Outcome, folder: pytest.Pytester
) -> None:
    folder.path.joinpath("good.yaml").write_text(config("good", gates="hit@1 >= 0.99", more="metrics: [ndcg@10]\n"))
    found = outcome("assert karat_check('good.yaml')")
    found.assert_outcomes(failed=1, warnings=0)
    assert found.stdout.str().count(SHALLOW) == 1


def test_other_failures_are_left_alone(outcome: Outcome) -> None:
    found = outcome("karat_check('good.yaml')\n    assert 1 == 2")
    assert "karat check" not in found.stdout.str().split("FAILURES")[1].replace("karat_check", "")


def test_importing_the_plugin_imports_nothing_heavy() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import karat.pytest_plugin; "
        "print([m for m in set(sys.modules) - before if m.split('.')[0] != 'karat' or m.count('.') > 1], "
        "'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False"


def test_a_check_that_nothing_asserts_is_warned_of(outcome: Outcome) -> None:
    found = outcome("karat_check('bad.yaml')")
    found.assert_outcomes(passed=1, warnings=1)
    found.stdout.fnmatch_lines(["*PytestWarning: karat_check: BLOCK, and nothing asserts it; *hit@1 is 0.100*"])


@pytest.mark.parametrize(
    "body",
    [
        "karat_check('good.yaml')",
        "assert not karat_check('bad.yaml')",
        "assert karat_check('bad.yaml').verdict == 'BLOCK'",
        "karat_check('middling.yaml', inconclusive='pass')",
    ],
)
def test_a_check_that_ships_or_that_somebody_looked_at_is_not(outcome: Outcome, body: str) -> None:
    outcome(body, "-W", "ignore::karat.errors.KaratWarning").assert_outcomes(passed=1, warnings=0)
