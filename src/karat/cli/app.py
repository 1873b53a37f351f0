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
    "judge",
    "validate",
    "metrics",
    "demo",
    "cache",
)
"""Each is a function in the module of its name, in the order of `karat --help`; or a package of such modules."""
GROUPS = ("judge",)
"""The commands that have subcommands."""


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
        if name in GROUPS:
            built.add_typer(_build_group(name), name=name)
        else:
            _add_command(built, name, f"karat.cli.{name}")
    return built


def _build_group(name: str) -> typer.Typer:
    module = import_module(f"karat.cli.{name}")
    group = typer.Typer(help=module.HELP, no_args_is_help=True)
    for subcommand in module.SUBCOMMANDS:
        _add_command(group, subcommand, f"karat.cli.{name}.{subcommand}")
    return group


def _add_command(app: typer.Typer, name: str, module: str) -> None:
    app.command(name)(keeps_inputs(takes_verbose(getattr(import_module(module), name))))


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
