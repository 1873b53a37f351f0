"""The GitHub Action runs as it stands, and what docs/ci.md shows can be copied."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer.main
from ruamel.yaml import YAML

from karat.cli.app import app
from karat.config.reading import read_config
from places import ROOT

ACTION: dict[str, Any] = YAML(typ="safe").load((ROOT / "action.yml").read_text("utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
PAGE = (ROOT / "docs/ci.md").read_text("utf-8")


# The action


def test_every_input_of_the_action_is_used_and_every_used_one_is_declared() -> None:
    used = set(re.findall(r"\binputs\.([\w-]+)", (ROOT / "action.yml").read_text("utf-8")))
    assert used == set(ACTION["inputs"])
    assert all(one["description"] for one in (*ACTION["inputs"].values(), *ACTION["outputs"].values()))


def test_what_the_action_uses_is_pinned() -> None:
    used = re.findall(r"uses: (\S+)", (ROOT / "action.yml").read_text("utf-8"))
    assert used and all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one) for one in used)


@pytest.mark.parametrize("argument", ["--help", "-h"])
def test_arguments_that_judge_nothing_ship_nothing(place: Path, argument: str) -> None:
    code, outputs, _, told = checked(place, config="bad.yaml", args=argument)
    assert (code, outputs["verdict"]) == (2, "")
    assert "judge nothing" in told


def test_no_input_is_part_of_a_script_and_every_script_is_bash() -> None:
    scripts = [step for step in STEPS if "run" in step]
    assert len(scripts) == 2
    for step in scripts:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]
        assert subprocess.run(["bash", "-n"], input=step["run"], text=True).returncode == 0


def test_the_outputs_come_from_steps_that_write_them() -> None:
    for name, one in ACTION["outputs"].items():
        step, key = re.fullmatch(r"\$\{\{ steps\.(\w+)\.outputs\.([\w-]+) \}\}", one["value"]).groups()  # type: ignore[union-attr]
        (script,) = [s["run"] for s in STEPS if s.get("id") == step]
        assert key == name and f'"{key}=' in script


def test_the_page_lists_the_inputs_of_the_action() -> None:
    table = re.findall(r"^\| `([\w-]+)` \|.*\|$", PAGE, re.MULTILINE)
    assert table == list(ACTION["inputs"])


@pytest.fixture
def place(tmp_path: Path, karat_command: Path) -> Path:
    """40 queries, of which `good` answers 40, `middling` 22 and `bad` 4, and a karat in the path with a space."""
    gold = {f"q{i:02}": {"yes": 1} for i in range(40)}
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    for name, hits in (("good", 40), ("middling", 22), ("bad", 4)):
        run = {q: {"yes" if i < hits else "no": 1.0} for i, q in enumerate(gold)}
        (tmp_path / f"{name}.json").write_text(json.dumps(run))
        (tmp_path / f"{name}.yaml").write_text(
            f"dataset: {{qrels: gold.json}}\nruns: {{{name}: {name}.json}}\nmetrics: hit@1\ngates: ['hit@1 >= 0.5']\n"
        )
    (tmp_path / "bin of karat").mkdir()
    tool = tmp_path / "bin of karat" / "karat"
    tool.write_text(f'#!/bin/sh\nexec "{karat_command}" "$@"\n')
    tool.chmod(0o755)
    return tmp_path


def checked(place: Path, **inputs: str) -> tuple[int, dict[str, str], str, str]:
    """Run the step `check` as a runner does: the exit code, its outputs, the summary, standard error."""
    (step,) = [s for s in STEPS if s.get("id") == "check"]
    given = {name: one["default"] for name, one in ACTION["inputs"].items()} | inputs
    told = {f"inputs.{name}": value for name, value in given.items()}
    told["steps.install.outputs.karat"] = str(place / "bin of karat" / "karat")

    def filled(text: str) -> str:
        return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda m: told[m[1]], text)

    (place / "script.sh").write_text(step["run"])
    (place / "outputs").write_text("")
    (place / "summary").write_text("")
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(place / "script.sh")],
        cwd=place / filled(step["working-directory"]),
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "GITHUB_OUTPUT": str(place / "outputs"),
            "GITHUB_STEP_SUMMARY": str(place / "summary"),
            **{n: filled(v) for n, v in step["env"].items()},
        },
    )
    outputs = dict(line.split("=", 1) for line in (place / "outputs").read_text().splitlines())
    return done.returncode, outputs, (place / "summary").read_text("utf-8"), done.stderr


@pytest.mark.parametrize(
    ("name", "inconclusive", "code", "verdict", "told"),
    [
        ("good", "", 0, "SHIP", "0"),
        ("bad", "", 1, "BLOCK", "1"),
        ("bad", "pass", 1, "BLOCK", "1"),
        ("middling", "", 3, "INCONCLUSIVE", "3"),
        ("middling", "pass", 0, "INCONCLUSIVE", "3"),
        ("middling", "fail", 1, "INCONCLUSIVE", "3"),
    ],
)
def test_the_step_exits_with_the_verdict_and_tells_it(
    place: Path, name: str, inconclusive: str, code: int, verdict: str, told: str
) -> None:
    found, outputs, summary, _ = checked(place, config=f"{name}.yaml", inconclusive=inconclusive)
    assert (found, outputs) == (code, {"verdict": verdict, "exit-code": told})
    assert summary.startswith("## ") and verdict in summary.splitlines()[0]


def test_the_step_writes_its_files_and_takes_arguments_line_by_line(place: Path) -> None:
    (place / "deep er").mkdir()
    (place / "good.yaml").rename(place / "deep er" / "karat.yaml")
    for name in ("gold.json", "good.json"):
        (place / name).rename(place / "deep er" / name)
    code, outputs, _, _ = checked(
        place,
        **{"working-directory": "deep er"},
        comment="out/c.md",
        junit="out/gates.xml",
        args="--gate\nhit@1 >= 0.9\n\n--json\r\nout/c d.json\n",
    )
    assert (code, outputs["verdict"]) == (0, "SHIP")
    assert (place / "deep er/out/c.md").read_text("utf-8").startswith("## ✅ SHIP")
    assert (place / "deep er/out/gates.xml").read_text("utf-8").count("<testcase") == 2
    assert len(json.loads((place / "deep er/out/c d.json").read_text("utf-8"))["gates"]) == 2


def test_wrong_inputs_are_exit_code_2_and_no_verdict(place: Path) -> None:
    for inputs, words in (
        ({"config": "none.yaml"}, "none.yaml"),
        ({"config": "good.yaml", "inconclusive": "maybe"}, "must be pass or fail, found maybe"),
        ({"config": "good.yaml", "args": "--inconclusive=pass"}, "use the input 'inconclusive'"),
        ({"config": "--version"}, "--version"),
    ):
        code, outputs, _, errors = checked(place, **inputs)
        assert (code, outputs) == (2, {"verdict": "", "exit-code": "2"}), inputs
        assert words in errors


def test_an_error_replaces_the_comment_of_an_earlier_build_and_is_in_the_summary(place: Path) -> None:
    assert checked(place, config="good.yaml", comment="c.md")[0] == 0
    (place / "gold.json").write_text("{")
    code, outputs, summary, _ = checked(place, config="good.yaml", comment="c.md")
    assert (code, outputs["verdict"]) == (2, "")
    comment = (place / "c.md").read_text("utf-8")
    assert comment.startswith("## ❗ NOTHING WAS DECIDED: ") and summary == comment + "\n"


def test_text_of_inputs_is_never_run(place: Path) -> None:
    """A tool that only notes its arguments gets the text as it is."""
    (place / "bin of karat" / "karat").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\" > arguments\n")
    for text in ("$(touch pwned)", "`touch pwned`", "; touch pwned", "'; touch pwned #", '"; touch pwned; "'):
        for name in ("config", "inconclusive", "comment", "junit", "args"):
            code, *_, errors = checked(place, **{"config": "good.yaml", name: text})
            if name == "inconclusive":
                assert code == 2 and text in errors
            else:
                assert text in (place / "arguments").read_text().splitlines()
    assert not [p for p in place.rglob("*") if p.name == "pwned"]


# The page


def blocks(*kinds: str) -> list[str]:
    found = re.findall(r"^( *)```(\w+)\n(.*?)^\1```$", PAGE, re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", text, flags=re.MULTILINE) for indent, kind, text in found if kind in kinds]


def test_every_block_of_the_page_has_a_kind_that_is_tested() -> None:
    assert set(re.findall(r"^ *```(\w+)$", PAGE, re.MULTILINE)) == {"yaml", "bash", "python"}
    assert len(re.findall(r"^ *```", PAGE, re.MULTILINE)) == 2 * len(blocks("yaml", "bash", "python"))


def test_the_shell_and_python_of_the_page_parse() -> None:
    for text in blocks("bash"):
        assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0
    for text in blocks("python"):
        ast.parse(text)


def test_the_config_of_the_page_is_one_and_the_others_are_yaml() -> None:
    ours, github, gitlab = (YAML(typ="safe").load(text) for text in blocks("yaml"))
    config = read_config(ours).config
    assert [g.level for g in config.gates] == ["error", "error", "error", "warn"]
    (step,) = [s for s in github["jobs"]["check"]["steps"] if "karat" in s.get("uses", "")]
    assert set(step["with"]) <= set(ACTION["inputs"])
    assert gitlab["retrieval"]["allow_failure"] == {"exit_codes": 3}
    assert gitlab["retrieval"]["artifacts"]["reports"] == {"junit": "gates.xml"}


def test_every_command_of_the_page_has_options_that_exist() -> None:
    verbs = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    lines = re.findall(r"^\s*(?:- |\$ )?(karat [a-z].*)$", "\n".join(blocks("bash", "yaml")), re.MULTILINE)
    assert len(lines) >= 5
    for line in lines:
        _, verb, *words = shlex.split(line.partition(" | ")[0])
        known = {name for p in verbs[verb].params for name in (*p.opts, *p.secondary_opts)}
        assert {w.partition("=")[0] for w in words if w.startswith("-") and w != "-"} <= known, line
    for option in re.findall(r"`(--[\w-]+)", PAGE):
        assert any(option in p.opts for verb in ("check", "bless") for p in verbs[verb].params), option


def test_the_action_makes_the_report_and_uploads_it(place: Path) -> None:
    code, outputs, _, errors = checked(place, config="bad.yaml", report="out/page.html")
    assert (code, outputs["verdict"]) == (1, "BLOCK"), errors
    assert "BLOCK" in (place / "out/page.html").read_text("utf-8")
    (upload,) = [s for s in STEPS if s.get("uses", "").startswith("actions/upload-artifact")]
    assert upload["continue-on-error"] is True and "always()" in upload["if"]
    assert "inputs.report" in upload["with"]["path"]
    code, outputs, _, errors = checked(place, config="good.yaml", report="")
    assert (code, outputs["verdict"]) == (0, "SHIP"), errors
    assert not (place / "karat-report.html").exists()


def test_a_report_that_cannot_be_made_never_costs_the_verdict(place: Path) -> None:
    (place / "page.html").mkdir()  # a folder stands where the report would be
    code, outputs, _, errors = checked(place, config="bad.yaml", report="page.html", comment="c.md")
    assert (code, outputs["verdict"]) == (1, "BLOCK")
    assert "page.html was not written, and the verdict stands" in errors
    assert "BLOCK" in (place / "c.md").read_text("utf-8")
