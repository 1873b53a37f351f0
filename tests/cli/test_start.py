"""Commands are listed before they are imported, and values that need no conversion are left as they are."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from data import SPEED, generate
from harness import python
from karat.cli.app import COMMANDS, app, app_for
from start import MOST_INSTRUCTIONS, NUMPY_INSTRUCTIONS, instructions


def test_the_list_of_commands_is_that_of_the_commands_themselves() -> None:
    whole = typer.main.get_command(app)
    assert isinstance(whole, typer.core.TyperGroup)
    first = {name: inspect.cleandoc(command.help or "").split("\n\n")[0] for name, command in whole.commands.items()}
    assert {name: " ".join(text.split()) for name, text in first.items()} == COMMANDS


def test_help_is_the_same_whether_commands_are_imported_or_only_listed() -> None:
    for arguments in ([], ["--help"], ["-h"], ["evalute"], ["--nope"], ["--version", "evaluate"]):
        listed = CliRunner().invoke(app_for(arguments), arguments, prog_name="karat")
        whole = CliRunner().invoke(app, arguments, prog_name="karat")
        assert (listed.exit_code, listed.output) == (whole.exit_code, whole.output)


def test_a_command_after_two_dashes_is_found() -> None:
    arguments = ["--", "metrics", "ndcg", "--json"]
    assert CliRunner().invoke(app_for(arguments), arguments).exit_code == 0


@pytest.mark.parametrize(("words", "answer"), [("karat ev", "evaluate"), ("karat evaluate --js", "--json")])
def test_completion_knows_all_commands_and_their_flags(words: str, answer: str) -> None:
    asked = {"_KARAT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    code = "import sys; sys.argv = ['karat']; from karat.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **asked}
    )
    assert answer in done.stdout.split()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["q", "r", "--cut", "x"], "Invalid value for '--cut': expected a whole number, found \"x\""),
        (["q", "r", "--cut", "1.5"], "Invalid value for '--cut': expected a whole number, found \"1.5\""),
        (["q", "r", "--cut", "0"], "Invalid value for '--cut': expected at least 1, found \"0\""),
        (["q", "r", "--confidence", "x"], "Invalid value for '--confidence': expected a number, found \"x\""),
        (["q", "r", "--confidence", ""], "Invalid value for '--confidence': expected a number, found \"\""),
        (["q", "r", "-m"], "Option '-m' requires an argument"),
    ],
)
def test_what_is_wrong_is_still_said(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["evaluate", *arguments], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert message in done.output


def test_a_missing_argument_is_still_missed() -> None:
    done = CliRunner().invoke(app, ["compare", "--json"])
    assert done.exit_code == 2


def test_numbers_are_converted(tmp_path: Path) -> None:
    (tmp_path / "q").write_text("q1 0 d1 1\nq2 0 d1 1\n")
    (tmp_path / "r").write_text("q1 Q0 d1 1 2.0 t\nq2 Q0 d2 1 2.0 t\n")
    files = [str(tmp_path / "q"), str(tmp_path / "r")]
    done = CliRunner().invoke(app, ["evaluate", *files, "-m", "hit@1", "--confidence", "0.5", "--threads", "1"])
    assert done.exit_code == 0, done.output
    assert "intervals=50%" in done.output


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind counts the instructions, and is not installed")
def test_a_small_evaluation_takes_few_instructions(tmp_path: Path) -> None:
    """The bar of bench/start.py, whatever a version of numpy takes to import; the same on a busy machine."""
    work = SPEED["c"]
    generate(work)
    evaluate = ["-m", "karat", "evaluate", str(work.qrels), str(work.run)]
    env = {"KARAT_CACHE_DIR": str(tmp_path / "cache")}
    python(*evaluate, env=env)  # keeps the bytecode, and the gold
    more = instructions(evaluate, env) - instructions(["-c", "import numpy"], env)
    assert 0 < more <= MOST_INSTRUCTIONS - NUMPY_INSTRUCTIONS
