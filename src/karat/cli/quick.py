"""Commands that start quickly: values that are what they should be already are not converted.

Typer converts the values of all parameters, given or not, by pydantic: importing that takes as long as importing numpy.
Here words for parameters of text stay as they are, and so do flags, defaults and what was not given. Numbers, missing
values and texts that are not Unicode are left to typer; what it says of numbers is said in our words.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from typer.core import DEFAULT_MARKUP_MODE, TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Callable

EXPECTED = "Input should be "
"""How a library begins to say what it expects of a number."""
WORDS = {
    "a valid number": "a number",
    "a valid integer": "a whole number",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
    "less than": "below",
}


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
        return _convert(convert, context, value)
    ready = words if parameter.multiple or parameter.nargs == -1 else value
    return parameter.callback(context, parameter, ready) if parameter.callback else ready


def _convert(convert: Callable[[Any, Any], Any], context: Any, value: Any) -> object:
    """The value as typer converts it; of a number that is refused, what was expected and found."""
    from typer import BadParameter

    try:
        return convert(context, value)
    except BadParameter as error:
        expected = error.message.removeprefix(EXPECTED)
        if expected != error.message:
            from pydantic import ValidationError

            from karat.errors import shown

            cause = error.__cause__
            found = cause.errors()[0]["input"] if isinstance(cause, ValidationError) else value
            error.message = f"expected {_our_words(expected)}, found {shown(found)}"
        raise


def _our_words(expected: str) -> str:
    """What a library expects of a number, in our words."""
    for theirs, ours in WORDS.items():
        if expected.startswith(theirs):
            return ours if theirs.startswith("a valid") else ours + expected.removeprefix(theirs)
    return expected


def _is_ready(word: object, takes_text: bool) -> bool:
    if not isinstance(word, str):
        return isinstance(word, (bool, int, float))
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return takes_text
