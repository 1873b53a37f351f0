"""The commands, and what they share."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from karat.cli.quick import QuickCommand, QuickGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    app: typer.Typer

COMMANDS = {
    "evaluate": "Score runs against gold.",
    "compare": "Compare candidates with a baseline on the same queries; or saved results, the baseline's first.",
    "check": "Evaluate, judge the gates of karat.yaml, and exit with the verdict.",
    "bless": "Make a result the baseline that later checks compare with.",
    "init": "Write a commented karat.yaml for the gold, queries and runs in a folder.",
    "report": "Make a report that works offline: verdict, gates, segments, curves, and every query with its ranked lists.",
    "sweep": "Show how recall, ndcg, precision and hit grow with the cutoff k, and where more stops helping.",
    "plan": "Predict what the gates would say with more queries, and how many they need.",
    "reliability": "Say how far these queries can be trusted to order systems, and how many would be enough.",
    "bench": "Run retrievers over a dataset, time them, write run logs, and compare them.",
    "diagnose": "Find out why a run misses relevant docs: likely causes, evidence, what to try, which queries.",
    "stress": "Put hard negatives at the top of a reranker's input, and report how far ndcg drops.",
    "judge": "Judge what the gold lacks: draw pairs, and have people or a language model grade them.",
    "validate": "Look for what is wrong in gold, queries, runs and corpus.",
    "metrics": "List the metrics, or explain one.",
    "demo": "Search a handbook in four ways, and see which may ship. Needs no network, no key and no files of yours.",
    "cache": "Show, or clear, what Karat keeps: files it has read, indexes and vectors it has built, answers of judges.",
}
"""Each is a function in the module of its name, in the order of `karat --help`; or a package of such modules.

With each stands the first sentence of its help, so that `karat --help` imports none of them.
"""
GROUPS = ("judge",)
"""The commands that have subcommands."""


def build_app(names: Iterable[str] = COMMANDS, only_listed: Iterable[str] = ()) -> typer.Typer:
    """The command line with these commands, and others that are only listed in its help."""
    built = typer.Typer(
        name="karat",
        cls=QuickGroup,
        help="Measure retrieval against gold, exactly and fast.\n\n"
        "Start with: karat demo\n\nThen, on your own files: karat evaluate qrels.txt run.txt",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # lists of commands and errors need no boxes, and importing rich takes long
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    built.callback()(_root)
    real, listed = set(names), set(only_listed)
    for name in COMMANDS:
        if name in GROUPS and name in real | listed:
            group = _build_group(name) if name in real else typer.Typer(help=COMMANDS[name])
            built.add_typer(group, name=name)
        elif name in real:
            _add_command(built, name, f"karat.cli.{name}")
        elif name in listed:
            built.command(name, help=COMMANDS[name])(_never_run)
    return built


def _build_group(name: str) -> typer.Typer:
    group = typer.Typer(cls=QuickGroup, help=COMMANDS[name], no_args_is_help=True, rich_markup_mode=None)
    for subcommand in import_module(f"karat.cli.{name}").SUBCOMMANDS:
        _add_command(group, subcommand, f"karat.cli.{name}.{subcommand}")
    return group


def _add_command(app: typer.Typer, name: str, module: str) -> None:
    from karat.cli.options import takes_verbose
    from karat.cli.outputs import keeps_inputs

    app.command(name, cls=QuickCommand)(keeps_inputs(takes_verbose(getattr(import_module(module), name))))


def _never_run() -> None:
    raise AssertionError("a command that the arguments do not name")


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """The command line for these arguments: a command that they do not name is listed at most, and never imported."""
    if any(name.endswith("_COMPLETE") for name in os.environ):  # a shell asks; the words are not in the arguments
        return build_app()
    if arguments and arguments[0] in COMMANDS:
        return build_app([arguments[0]])
    return build_app(COMMANDS.keys() & set(arguments), COMMANDS)


def __getattr__(name: str) -> object:
    """`app`, the whole command line, is built when somebody asks for it."""
    if name != "app":
        raise AttributeError(f"module 'karat.cli.app' has no attribute {name!r}")
    globals()[name] = build_app()
    return globals()[name]


def _version(show: bool) -> None:
    if show:
        from karat.cli import version_text

        typer.echo(version_text())
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    return
