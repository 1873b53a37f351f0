"""Commands that start quickly: values that are what they should be already are not converted.

Typer converts the values of all parameters, given or not, by pydantic: importing that takes as long as importing numpy.
Here words for parameters of text stay as they are, and so do flags, defaults and what was not given. Numbers, missing
values and texts that are not Unicode are left to typer, with its messages.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from typer.core import DEFAULT_MARKUP_MODE, TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Callable


class QuickCommand(TyperCommand):
    """A command that converts only what needs it; its help stands in boxes, since there are many options."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{**settings, "rich_markup_mode": DEFAULT_MARKUP_MODE})

    def get_params(self, ctx: Any) -> list[Any]:
        return _quicken(super().get_params(ctx), self.callback)


class QuickGroup(TyperGroup):
    """A command with subcommands that converts only what needs it."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _quicken(super().get_params(ctx), self.callback)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """What each subcommand does, in whole sentences."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(1000)) for name, one in self.commands.items()])


def _quicken(parameters: list[Any], command: Callable[..., Any] | None) -> list[Any]:
    new = [one for one in parameters if not isinstance(vars(one).get("process_value"), partial)]
    declared = inspect.signature(command, eval_str=True).parameters if command and new else {}
    for one in new:
        takes_text = one.name in declared and _takes_text(declared[one.name].annotation)
        vars(one)["process_value"] = partial(_process, one, one.process_value, takes_text)
    return parameters


def _takes_text(annotation: Any) -> bool:
    """Whether a parameter is of type str or list[str], or of None and one of these."""
    declared = get_args(annotation)[0]  # of Annotated
    return bool({str, list[str]} & {declared, *get_args(declared)})


def _process(parameter: Any, convert: Callable[[Any, Any], Any], takes_text: bool, context: Any, value: Any) -> object:
    words = value if isinstance(value, (list, tuple)) else () if value is None else (value,)
    if (parameter.required and not words) or not all(_is_ready(word, takes_text) for word in words):
        return convert(context, value)
    ready = words if parameter.multiple or parameter.nargs == -1 else value
    return parameter.callback(context, parameter, ready) if parameter.callback else ready


def _is_ready(word: object, takes_text: bool) -> bool:
    if not isinstance(word, str):
        return isinstance(word, (bool, int, float))
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return takes_text
