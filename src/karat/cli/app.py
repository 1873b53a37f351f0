"""The commands, and what they share."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from karat.cli.options import takes_verbose
from karat.cli.outputs import keeps_inputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    app: typer.Typer

COMMANDS = (
    "evaluate",
    "compare",
    "check",
    "bless",
    "init",
    "report",
    "sweep",
    "plan",
    "reliability",
    "bench",
    "diagnose",
    "stress",
    "validate",
    "metrics",
    "demo",
    "cache",
)
"""Each is a function in the module of its name, in the order of `karat --help`."""


def build_app(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """The command line with these commands."""
    built = typer.Typer(
        name="karat",
        help="Measure retrieval against gold, exactly and fast.\n\n"
        "Start with: karat demo\n\nThen, on your own files: karat evaluate qrels.txt run.txt",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    built.callback()(_root)
    for name in names:
        built.command(name)(keeps_inputs(takes_verbose(getattr(import_module(f"karat.cli.{name}"), name))))
    return built


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """The command line for these arguments: one command is built sooner than all."""
    return build_app([arguments[0]] if arguments and arguments[0] in COMMANDS else COMMANDS)


def __getattr__(name: str) -> object:
    """`app`, the whole command line, is built when somebody asks for it."""
    if name != "app":
        raise AttributeError(f"module 'karat.cli.app' has no attribute {name!r}")
    globals()[name] = build_app()
    return globals()[name]


def _version(show: bool) -> None:
    if show:
        from karat import __version__

        typer.echo(f"karat {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    return
