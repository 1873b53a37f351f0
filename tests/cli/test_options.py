"""Every option is declared once: each verb that evaluates takes it from Python, as a flag and from karat.yaml."""

from __future__ import annotations

import inspect
import json
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import pytest
from pydantic import TypeAdapter, ValidationError
from typer.main import get_command
from typer.testing import CliRunner

import karat
from karat.cli import options as cli
from karat.cli.app import app
from karat.config.checks import config_options
from karat.config.models import key_of
from karat.config.options import (
    GROUPS,
    Data,
    DataOptions,
    Options,
    Settings,
    StatedOptions,
    all_options,
    stated_options,
    takes_options,
)
from karat.config.reading import read_config
from karat.errors import UsageError
from karat.model.engine import Engine, EngineOptions
from karat.model.intervals import IntervalOptions, Intervals
from karat.model.option import Option, option, options_of
from karat.model.policy import Policy, PolicyOptions

if TYPE_CHECKING:
    from pathlib import Path

VERBS = ("evaluate", "compare", "sweep", "plan", "reliability", "components", "diagnose", "stress", "check", "bench")
COMMANDS = {
    "evaluate": ("qrels", "run"),
    "compare": ("qrels", "old", "new"),
    "sweep": ("qrels", "run"),
    "plan": ("qrels", "run", "--gate", "mrr >= 0.5"),
    "reliability": ("qrels", "old", "new"),
    "diagnose": ("qrels", "run"),
    "stress": ("qrels", "run", "--reranker", "module:function"),
    "check": ("karat.yaml",),
    "bless": ("karat.yaml",),
    "bench": ("-d", "folder", "-r", "bm25"),
}


def other(option: Option) -> Any:
    """A value that is not the option's default."""
    if option.kind == "choice":
        return next(c for c in option.choices if c != option.default)
    by_kind = {
        "count": 123,
        "number": -2.5,
        "share": 0.9,
        "text": "::",
        "path": "file.jsonl",
        "size": "2GB",
        "fields": ["language"],
    }
    by_kind |= {"paths": ["file.jsonl"], "address": "sc://host:15002"}
    return (option.default is not True) if option.kind == "yes" else by_kind[option.kind]


def in_settings(settings: Settings, name: str) -> Any:
    if name == "like":
        return settings.like
    part = next(p for p, kind in GROUPS.items() if name in {o.name for o in options_of(kind)})
    return getattr(getattr(settings, part), name)


@pytest.mark.parametrize(
    ("group", "typed"),
    [(Data, DataOptions), (Policy, PolicyOptions), (Intervals, IntervalOptions), (Engine, EngineOptions)],
)
def test_type_checkers_see_every_field(group: type, typed: type) -> None:
    for_python = {"details", "watch"}
    assert {f.name for f in fields(group)} - for_python == set(typed.__annotations__)
    assert set(StatedOptions.__annotations__) == {o.name for o in stated_options()} | {"settings"}
    assert set(Options.__annotations__) == set(all_options()) | {"settings"}


def test_every_option_has_a_sentence_and_no_two_share_a_flag_or_a_key() -> None:
    listed = stated_options()
    assert all(o.help.endswith(".") and len(o.help) <= 120 for o in listed)
    assert len({o.flag for o in listed}) == len({o.key for o in listed}) == len(listed)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_shows_every_option_in_its_signature_and_its_documentation(verb: str) -> None:
    function = getattr(karat, verb)
    shown = inspect.signature(function).parameters
    for each in stated_options():
        assert each.name in shown
        assert shown[each.name].default == each.default
        assert f"    {each.name}: " in inspect.getdoc(function)


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_option_is_refused_with_the_nearest_one(verb: str) -> None:
    arguments: tuple[Any, ...] = ({"q": {"d": 1}}, {"q": ["d"]})
    if verb == "stress":
        arguments = (*arguments, len)
    if verb == "check":
        arguments = ({"dataset": {"qrels": "q"}, "runs": ["r"], "gates": ["mrr >= 0"]},)
    with pytest.raises(UsageError, match="unknown option 'seperator'; did you mean 'separator'"):
        getattr(karat, verb)(*arguments, seperator="::")


class _Stop(Exception):
    pass


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_a_flag_that_reaches_the_verb(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    received: dict[str, Any] = {}
    whole = get_command(app)

    def verb(*_: Any, **named: Any) -> None:
        received.update(named)
        raise _Stop

    monkeypatch.setattr(karat, command, verb)
    monkeypatch.setattr("karat.verbs.bless.prepare_blessing", verb)
    monkeypatch.setattr("karat.config.reading.find_config", lambda _: {})
    monkeypatch.setattr("karat.results.saved.is_saved", lambda _: False)
    for each in stated_options():
        received.clear()
        value = other(each)
        written = [] if each.kind == "yes" else [value[0] if each.kind in ("fields", "paths") else str(value)]
        with pytest.raises(_Stop):
            whole([command, *COMMANDS[command], each.flag, *written], standalone_mode=False)
        given: Any = {name: v for name, v in received.items() if name in Options.__annotations__}
        if command == "bench":
            given.pop("watch", None)
        assert in_settings(Settings.of(given), each.name) == value


def test_every_option_is_a_key_of_the_config() -> None:
    for each in stated_options():
        value = other(each)
        config: dict[str, Any] = {"dataset": {"qrels": "q"}}
        *blocks, key = each.key.split(".")
        part = config
        for block in blocks:
            part = part.setdefault(block, {})
        part[key] = value
        stated = config_options(read_config(config))
        assert stated == {each.name: value}
        assert in_settings(Settings.of({**stated}), each.name) == value


def test_a_convention_needs_one_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, slots=True)
    class Extended(Policy):
        shout: bool = option(False, "Read ids in capitals.")

    declared = options_of(Extended)[-1]
    assert (declared.name, declared.flag, declared.key) == ("shout", "--shout", "conventions.shout")
    assert (declared.kind, declared.panel) == ("yes", "Conventions")
    with pytest.raises(UsageError, match="shout must be true or false, found 'loud'"):
        Extended(shout="loud")  # type: ignore[arg-type]


def test_a_convention_of_type_float_is_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, slots=True)
    class Extended(Policy):
        louder_by: float | None = option(None, "Say ids louder by so much.")
        loud_part: float | None = option(None, "Say this part of each list loud.", kind="share")

    declared = {each.name: each for each in options_of(Extended)}
    assert declared["louder_by"].kind == "number"
    assert [Extended(louder_by=value).louder_by for value in (12.0, -3, 0, None)] == [12.0, -3, 0, None]
    for value in (math.nan, math.inf, 10**400, True, "12"):
        with pytest.raises(UsageError, match=r"^louder_by must be a finite number, found "):
            Extended(louder_by=value)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^loud_part must be between 0 and 1, found 12\.0$"):
        Extended(loud_part=12.0)
    number, share = (TypeAdapter(key_of(declared[name])[0]) for name in ("louder_by", "loud_part"))
    assert number.validate_python(12) == 12.0
    for key, value in ((number, math.inf), (share, 12)):
        with pytest.raises(ValidationError):
            key.validate_python(value)


def added(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make a count of this name one more option."""
    one = Option(name, None, "count", "An option.", "Conventions", f"conventions.{name}")
    monkeypatch.setattr("karat.cli.options.stated_options", lambda: (one,))
    monkeypatch.setattr("karat.config.options.stated_options", lambda: (one,))


@pytest.mark.parametrize(
    ("name", "parameter"), [("top", "top"), ("metric", "metrics"), ("runs", "runs"), ("sample", "size")]
)
def test_an_option_named_like_a_parameter_of_a_command_is_refused(
    name: str, parameter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(
        runs: cli.Runs,
        metrics: cli.Metrics = None,
        size: Annotated[int, cli.option("Queries.", "-n", "--sample")] = 1,
        top: Annotated[int, cli.option("Rows.")] = 1,
        *,
        options: cli.Options,
    ) -> None: ...

    added(monkeypatch, name)
    with pytest.raises(ValueError, match=f"the option '{name}' .*parameter '{parameter}' .* of karat compare share"):
        cli.takes_options(compare)


def test_an_option_named_like_a_parameter_of_a_verb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def stress(qrels: Any, *, depth: int = 50, **options: Unpack[Options]) -> None: ...

    added(monkeypatch, "depth")
    with pytest.raises(ValueError, match=r"the option 'depth' and a parameter of karat\.stress share a name"):
        takes_options(stress)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "page"}, "level must be one of auto, chunk, doc, found 'page'"),
        ({"method": "bcaa"}, "did you mean 'bca'"),
        ({"confidence": 95}, "confidence must be between 0 and 1, such as 0.95, found 95"),
        ({"resamples": 10}, "resamples must be an integer from 100, found 10"),
        ({"min_segment": 0}, "min_segment must be an integer from 1, found 0"),
        ({"batch": True}, "batch must be an integer from 1, found True"),
        ({"condensed": "yes"}, "condensed must be true or false, found 'yes'"),
        ({"like": "trec"}, "did you mean 'trec_eval'"),
    ],
)
def test_values_are_checked_in_one_shape(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        karat.evaluate({"q": {"d": 1}}, {"q": ["d"]}, "mrr", **options)


def test_settings_hold_options_and_keywords_change_them() -> None:
    settings = Settings().change(like="trec_eval", confidence=0.9, missing=None)
    assert settings.conventions() == {
        "like": "trec_eval",
        "score_precision": "float32",
        "missing": "skip",
        "level": "chunk",
    }
    gold, run = {"q": {"d": 1}, "p": {"d": 1}}, {"q": ["d"]}
    assert karat.evaluate(gold, run, "mrr", settings=settings).mean == {"mrr": 1.0}
    assert karat.evaluate(gold, run, "mrr", settings=settings, missing="zero").mean == {"mrr": 0.5}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qrels").write_text("q1 0 d1 1\nq2 0 d2 1\n")
    (tmp_path / "old.run").write_text("q1 Q0 d1::a 1 2 t\nq2 Q0 d3::a 1 2 t\n")
    (tmp_path / "new.run").write_text("q1 Q0 d1::b 1 2 t\nq2 Q0 d2::b 1 2 t\n")
    return tmp_path


def run(*arguments: str) -> Any:
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_conventions_count_in_every_verb(command: str) -> None:
    document = run(command, "qrels", "old.run", "new.run", "-m", "mrr", "--separator", "::", "--json", "-")
    assert [r["metrics"]["mrr"]["mean"] for r in document["runs"]] == [0.5, 1.0]
    assert document["conventions"] == {"separator": "::"}


@pytest.mark.usefixtures("folder")
def test_a_sweep_and_a_diagnosis_take_conventions_too() -> None:
    curves = run("sweep", "qrels", "new.run", "-m", "recall", "-k", "1,2", "--separator", "::", "--json", "-")["curves"]
    assert curves[0]["mean"] == [1.0]
    plain = run("diagnose", "qrels", "new.run", "--json", "-")
    matched = run("diagnose", "qrels", "new.run", "--separator", "::", "--json", "-")
    assert plain != matched


def test_subtopics_are_read_with_components_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q").write_text("q1 s1 d1 1\nq1 s2 d1 2\n")
    (tmp_path / "r.jsonl").write_text(
        '{"query_id": "q1", "topk": [{"chunk_id": "d1"}], "stages": {"retrieve": ["d1"]}}\n'
    )
    document = run("evaluate", "q", "r.jsonl", "--subtopics", "--components", "-m", "mrr", "--json", "-")
    assert document["runs"][0]["components"]["funnel"]


@pytest.mark.usefixtures("folder")
def test_runs_can_be_named(tmp_path: Path) -> None:
    document = run("compare", "qrels", "a=old.run", "b=new.run", "-m", "mrr", "--json", "-")
    assert [r["name"] for r in document["runs"]] == ["a", "b"]
    (tmp_path / "x=y.run").write_text("q1 Q0 d1 1 2 t\n")
    assert run("evaluate", "qrels", "x=y.run", "-m", "mrr", "--json", "-")["runs"][0]["name"] == "x=y"
    done = CliRunner().invoke(app, ["evaluate", "qrels", "a=*.run", "-m", "mrr"])
    assert "'a' is one run, and 3 files match" in str(done.exception)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("runs/covidex.r5.2s.lr", "covidex.r5.2s.lr"),
        ("bm25.run.gz", "bm25"),
        ("v1.2.jsonl", "v1.2"),
        ("INPUT.BM25", "INPUT.BM25"),
        ("dense.TSV", "dense"),
        (".run", ".run"),
    ],
)
def test_a_name_loses_known_endings_only(path: str, name: str) -> None:
    from karat.read.sources import run_name

    assert run_name(path) == name


@pytest.mark.usefixtures("folder")
def test_a_config_is_evaluated_without_gates(tmp_path: Path) -> None:
    (tmp_path / "karat.yaml").write_text(
        "dataset: {qrels: qrels}\nruns: {a: old.run, b: new.run}\nmetrics: [mrr]\nconventions: {separator: '::'}\n"
    )
    document = run("evaluate", "-c", "karat.yaml", "--json", "-")
    assert {r["name"]: r["metrics"]["mrr"]["mean"] for r in document["runs"]} == {"a": 0.5, "b": 1.0}
    document = run("evaluate", "-c", ".", "-m", "hit@1", "--separator", "#", "--json", "-")
    assert list(document["runs"][0]["metrics"]) == ["hit@1"] and "conventions" not in document


@pytest.mark.usefixtures("folder")
def test_a_block_of_retrieval_metrics_alone_is_enough(tmp_path: Path) -> None:
    (tmp_path / "block.yaml").write_text(
        "retrieval_metrics:\n  enabled_metrics: [hit@1]\n  statistical_analysis: {alpha_level: 0.1}\n"
    )
    document = run("evaluate", "qrels", "new.run", "-c", "block.yaml", "--level", "doc", "--json", "-")
    assert list(document["runs"][0]["metrics"]) == ["hit@1"]
    assert document["intervals"]["confidence"] == 0.9
    assert document["conventions"] == {"level": "doc", "binary": True}


@pytest.mark.usefixtures("folder")
def test_gold_or_a_run_that_is_not_named_is_an_error() -> None:
    for arguments in (["evaluate"], ["evaluate", "qrels"], ["evaluate", "qrels", "-c", "karat.yaml"]):
        done = CliRunner().invoke(app, arguments)
        assert "name the gold and at least one run" in str(done.exception)


def test_cutoffs_apply_to_the_default_metrics() -> None:
    names = karat.evaluate({"q": {"d": 1}}, {"q": ["d"]}, ks=[1, 20]).metrics
    assert set(names) == {f"{m}@{k}" for m in ("hit", "recall", "precision", "ndcg", "mrr", "map") for k in (1, 20)}


@pytest.mark.parametrize(
    "command", ["init", "metrics", "report", "sweep", "plan", "reliability", "cache", "demo", "bench"]
)
def test_every_command_takes_verbose(command: str) -> None:
    assert "--verbose" in CliRunner().invoke(app, [command, "--help"]).output


def test_an_unknown_argument_is_answered_with_those_of_the_function_itself() -> None:
    with pytest.raises(UsageError, match=r"unknown option 'n'; expected some of truth, .* sizes, .* queries, "):
        karat.plan({"q": ["d"]}, {"q": ["d"]}, "mrr >= 0.5", n=[100])
    with pytest.raises(UsageError, match="unknown option 'size'; did you mean 'sizes'"):
        karat.plan({"q": ["d"]}, {"q": ["d"]}, "mrr >= 0.5", size=[100])
