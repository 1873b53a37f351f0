"""Flags of output files: each verb has one for every format that declares it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karat.cli.options import OUTPUTS
from karat.report.formats import all_formats

if TYPE_CHECKING:
    from collections.abc import Callable

Asked = Mapping[str, str | None]
"""The files that were asked for, by the name of their format."""


def takes_outputs(verb: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a flag for each of its output formats; it receives them as `outputs`."""

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        names = [name for name, one in all_formats().items() if verb in one.verbs]

        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            outputs = {name: arguments.pop(name) for name in names}
            command(**arguments, outputs=outputs)

        keyword = inspect.Parameter.KEYWORD_ONLY
        own = [p.replace(kind=keyword) for p in signature.parameters.values() if p.name != "outputs"]
        flags = [inspect.Parameter(name, keyword, default=None, annotation=_flag(name)) for name in names]
        run.__signature__ = signature.replace(parameters=[*own, *flags])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in (*own, *flags)}
        return run

    return wrap


def _flag(name: str) -> Any:
    one = all_formats()[name]
    metavar = "FILE|-" if one.prints else "FILE"
    option = typer.Option(f"--{name.replace('_', '-')}", metavar=metavar, help=one.help, rich_help_panel=OUTPUTS)
    return Annotated[str | None, option]
